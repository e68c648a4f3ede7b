//! The query of a gateway URL: version, encoding, compression, dictionary.
//!
//! Spec  docs/protocol/reference.md §1.1. Any path is accepted, keys come in any order, unknown keys are ignored.

use guildhall_codec::{Dictionaries, DictionaryId, Encoding};
use guildhall_model::CloseCode;
use guildhall_partition::{Compression, ConnParams};

/// A request of the URL that the node does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Close code, sent after the upgrade: browsers do not show HTTP errors of an upgrade to the page.
    pub code: CloseCode,
    /// Close reason: names the correction, in at most 123 bytes.
    pub reason: &'static str,
}

const VERSION: &str = "Invalid API version: v= must be 10 or 9";
const ENCODING: &str = "Error while decoding payload: encoding= must be json or etf";
const COMPRESS: &str =
    "Error while decoding payload: compress= must be zlib-stream or zstd-stream, or left out for none";
const DICT_MALFORMED: &str = "dict= is no dictionary id: take one from GET /dictionaries, or leave dict= out";
const DICT_UNKNOWN: &str =
    "dict= names a dictionary this node has not: take one from GET /dictionaries, or leave dict= out";
const DICT_COMPRESS: &str = "dict= needs compress=zstd-stream: add that, or leave dict= out";
const DICT_ENCODING: &str = "dict= names a dictionary for another encoding: GET /dictionaries says which is for yours";

/// Reads the query.
///
/// # Errors
/// The first parameter that the node does not serve.
pub fn parse_query(query: Option<&str>, dictionaries: &Dictionaries) -> Result<ConnParams, Refusal> {
    let mut params = ConnParams { encoding: Encoding::Json, compression: Compression::None };
    let mut dict = None;
    for pair in query.unwrap_or_default().split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (key, value) {
            ("v", "9" | "10") | ("encoding", "json" | "") | ("compress" | "dict", "") => {}
            ("v", _) => return Err(Refusal { code: CloseCode::InvalidApiVersion, reason: VERSION }),
            ("encoding", "etf") => params.encoding = Encoding::Etf,
            ("encoding", _) => return Err(Refusal { code: CloseCode::DecodeError, reason: ENCODING }),
            ("compress", "zlib-stream") => params.compression = Compression::Zlib,
            ("compress", "zstd-stream") => params.compression = Compression::Zstd,
            ("compress", _) => return Err(Refusal { code: CloseCode::DecodeError, reason: COMPRESS }),
            ("dict", id) => dict = Some(id),
            _ => {}
        }
    }
    if let Some(id) = dict {
        params.compression = with_dictionary(params, id, dictionaries)?;
    }
    Ok(params)
}

/// Resolves `dict`. An unknown dictionary must be refused here: a client with another dictionary cannot decode the
/// stream.
fn with_dictionary(params: ConnParams, id: &str, dictionaries: &Dictionaries) -> Result<Compression, Refusal> {
    let refuse = |reason| Err(Refusal { code: CloseCode::DecodeError, reason });
    if params.compression != Compression::Zstd {
        return refuse(DICT_COMPRESS);
    }
    let Ok(id) = id.parse::<DictionaryId>() else { return refuse(DICT_MALFORMED) };
    match dictionaries.find(id) {
        None => refuse(DICT_UNKNOWN),
        Some(known) if known.encoding != params.encoding => refuse(DICT_ENCODING),
        Some(_) => Ok(Compression::ZstdDict(id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_codec::{Dictionary, KnownDictionary};
    use std::sync::Arc;

    #[test]
    fn every_form() {
        let check = |query: &str, expected: Result<(Encoding, Compression), CloseCode>| {
            let got = parse_query(Some(query), &Dictionaries::default()).map(|p| (p.encoding, p.compression));
            assert_eq!(got.map_err(|refusal| refusal.code), expected, "{query}");
        };
        check("", Ok((Encoding::Json, Compression::None)));
        check("v=10", Ok((Encoding::Json, Compression::None)));
        check("v=10&encoding=json", Ok((Encoding::Json, Compression::None)));
        check("encoding=json&v=9&compress=zlib-stream", Ok((Encoding::Json, Compression::Zlib)));
        check("compress=zstd-stream&encoding=etf&v=10&x=1&&", Ok((Encoding::Etf, Compression::Zstd)));
        check("compress=zstd-stream&dict=", Ok((Encoding::Json, Compression::Zstd)));
        check("v=8", Err(CloseCode::InvalidApiVersion));
        check("v=", Err(CloseCode::InvalidApiVersion));
        check("v=ten", Err(CloseCode::InvalidApiVersion));
        check("encoding=xml", Err(CloseCode::DecodeError));
        check("compress=brotli", Err(CloseCode::DecodeError));
        assert!(parse_query(None, &Dictionaries::default()).is_ok());
    }

    #[test]
    fn dictionaries() {
        let samples: Vec<String> =
            (0..800).map(|n| format!("{{\"t\":\"X\",\"n\":{n},\"u\":\"user{}\"}}", n * 7)).collect();
        let dictionary = Arc::new(Dictionary::train(&samples, 4096).unwrap());
        let id = dictionary.id();
        let known = Dictionaries::new(vec![KnownDictionary::new(Encoding::Etf, dictionary)]).unwrap();
        let check = |query: String, expected: Result<Compression, &'static str>| {
            let got = parse_query(Some(&query), &known).map(|p| p.compression);
            let expected = expected.map_err(|reason| Refusal { code: CloseCode::DecodeError, reason });
            assert_eq!(got, expected, "{query}");
        };
        let other = "0".repeat(32);
        check(format!("compress=zstd-stream&encoding=etf&dict={id}"), Ok(Compression::ZstdDict(id)));
        check(format!("dict={id}&encoding=etf&compress=zstd-stream"), Ok(Compression::ZstdDict(id)));
        check(format!("dict={id}&compress=zstd-stream"), Err(DICT_ENCODING));
        check(format!("dict={other}&encoding=etf&compress=zstd-stream"), Err(DICT_UNKNOWN));
        check("dict=latest&encoding=etf&compress=zstd-stream".into(), Err(DICT_MALFORMED));
        check(format!("dict={id}&encoding=etf&compress=zlib-stream"), Err(DICT_COMPRESS));
        check(format!("dict={id}&encoding=etf"), Err(DICT_COMPRESS));
        // Maximum length of a close reason.
        for reason in [DICT_MALFORMED, DICT_UNKNOWN, DICT_COMPRESS, DICT_ENCODING, VERSION, ENCODING, COMPRESS] {
            assert!(reason.len() <= 123 && reason.contains('='), "{reason}");
        }
    }
}
