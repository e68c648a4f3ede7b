//! The query of a gateway URL: version, encoding, compression.
//!
//! Spec  docs/protocol.md §1.1. Any path is accepted, keys come in any order, unknown keys are ignored.

use guildhall_codec::Encoding;
use guildhall_model::CloseCode;
use guildhall_partition::{Compression, ConnParams};

/// Reads the query.
///
/// # Errors
/// The code to close with, after the upgrade: the client cannot see an HTTP error as well.
pub fn parse_query(query: Option<&str>) -> Result<ConnParams, CloseCode> {
    let mut params = ConnParams { encoding: Encoding::Json, compression: Compression::None };
    for pair in query.unwrap_or_default().split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (key, value) {
            ("v", "9" | "10") | ("encoding", "json" | "") | ("compress", "") => {}
            ("v", _) => return Err(CloseCode::InvalidApiVersion),
            ("encoding", "etf") => params.encoding = Encoding::Etf,
            ("encoding", _) => return Err(CloseCode::DecodeError),
            ("compress", "zlib-stream") => params.compression = Compression::Zlib,
            ("compress", "zstd-stream") => params.compression = Compression::Zstd,
            ("compress", _) => return Err(CloseCode::DecodeError),
            _ => {}
        }
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form() {
        let check = |query: &str, expected: Result<(Encoding, Compression), CloseCode>| {
            let got = parse_query(Some(query)).map(|p| (p.encoding, p.compression));
            assert_eq!(got, expected, "{query}");
        };
        check("", Ok((Encoding::Json, Compression::None)));
        check("v=10", Ok((Encoding::Json, Compression::None)));
        check("v=10&encoding=json", Ok((Encoding::Json, Compression::None)));
        check("encoding=json&v=9&compress=zlib-stream", Ok((Encoding::Json, Compression::Zlib)));
        check("compress=zstd-stream&encoding=etf&v=10&x=1&&", Ok((Encoding::Etf, Compression::Zstd)));
        check("v=8", Err(CloseCode::InvalidApiVersion));
        check("v=", Err(CloseCode::InvalidApiVersion));
        check("v=ten", Err(CloseCode::InvalidApiVersion));
        check("encoding=xml", Err(CloseCode::DecodeError));
        check("compress=brotli", Err(CloseCode::DecodeError));
        assert!(parse_query(None).is_ok());
    }
}
