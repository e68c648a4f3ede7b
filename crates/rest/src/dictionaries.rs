//! Dictionaries over HTTP: a client needs the dictionary before it can connect with `dict=ID` in the gateway's URL.
//!
//! Doors       `router`: `/dictionaries` lists them, `/dictionaries/{id}` is the dictionary itself.
//! Invariants  the bytes of an id never change, because the id is their hash: caches may keep them for ever. The list
//!             has the dictionaries for all accounts; with a token, also those for a share of the accounts that
//!             has this one, and those that an experiment offers this account instead.
//! Price       the bytes need no token: a dictionary has nothing of users (docs/security.md).

use crate::{error::ApiError, middleware::optional_account, state::Api};
use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use guildhall_codec::{Asker, Dictionaries, DictionaryId, DictionarySwitch};
use guildhall_http_kit::Peer;
use guildhall_http_kit::entity_tag::names;
use serde::Serialize;
use std::sync::Arc;

/// RFC 9530: hash of the body.
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// Routes below `/dictionaries`.
pub(crate) fn router(api: Arc<Api>) -> Router {
    let list = get(list).options(preflight);
    Router::new().route("/dictionaries", list).route("/dictionaries/{id}", get(read)).with_state(api)
}

#[derive(Serialize)]
struct Listed {
    id: String,
    encoding: &'static str,
    compression: &'static str,
    size: usize,
    sha256: String,
    path: String,
}

/// What this client may use, the preferred one of an encoding first.
fn listed(dictionaries: &DictionarySwitch, asker: Option<Asker>) -> Vec<Listed> {
    let entry = |known: &guildhall_codec::KnownDictionary| Listed {
        id: known.dictionary.id().to_string(),
        encoding: known.encoding.name(),
        compression: "zstd-stream",
        size: known.dictionary.bytes().len(),
        sha256: known.dictionary.sha256().iter().map(|byte| format!("{byte:02x}")).collect(),
        path: format!("/dictionaries/{}", known.dictionary.id()),
    };
    dictionaries.offered_to(asker).iter().map(entry).collect()
}

/// What there is may change: the answer is not to be kept.
async fn list(State(api): State<Arc<Api>>, request: Request) -> Response {
    let peer = Peer::address_in(request.extensions());
    let mut response = match optional_account(&api, peer, request.headers()).await {
        Ok(account) => {
            let asker = account.map(|user| Asker { account_id: user.id.get(), is_bot: user.bot });
            Json(listed(&api.dictionaries, asker)).into_response()
        }
        Err(refused) => refused.into_response(),
    };
    put(&mut response, header::CACHE_CONTROL, "private, no-cache");
    put(&mut response, header::VARY, "Authorization");
    // Pages of other origins may read dictionaries.
    put(&mut response, header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    response
}

/// A page elsewhere may send its token.
async fn preflight() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    put(&mut response, header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    put(&mut response, header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, OPTIONS");
    put(&mut response, header::ACCESS_CONTROL_ALLOW_HEADERS, "Authorization");
    put(&mut response, header::ACCESS_CONTROL_MAX_AGE, "86400");
    response
}

async fn read(State(api): State<Arc<Api>>, Path(id): Path<String>, request_headers: HeaderMap) -> Response {
    bytes_of(&api.dictionaries.current(), &id, &request_headers)
}

fn bytes_of(dictionaries: &Dictionaries, id: &str, request_headers: &HeaderMap) -> Response {
    let found = id.parse().ok().and_then(|id: DictionaryId| dictionaries.find(id));
    let Some(found) = found else { return ApiError::NotFound.into_response() };
    let tag = format!("\"{id}\"");
    let is_known = request_headers.get_all(header::IF_NONE_MATCH).iter().any(|tags| names(tags, &tag));
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = Response::new(Body::from(Bytes::from_owner(found.dictionary.bytes().clone())));
        let digest = format!("sha-256=:{}:", STANDARD.encode(found.dictionary.sha256()));
        put(&mut response, header::CONTENT_TYPE, "application/octet-stream");
        put(&mut response, REPR_DIGEST, &digest);
        response
    };
    put(&mut response, header::CACHE_CONTROL, "public, max-age=31536000, immutable");
    put(&mut response, header::ETAG, &tag);
    put(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(&mut response, header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    response
}

fn put(response: &mut Response, name: HeaderName, value: &str) {
    // Ids, digests and constants are plain text.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_codec::{Dictionary, Encoding, KnownDictionary};
    use http_body_util::BodyExt as _;

    fn known() -> KnownDictionary {
        let samples: Vec<String> =
            (0..800).map(|n| format!("{{\"t\":\"X\",\"n\":{n},\"name\":\"user{}\"}}", n * 7)).collect();
        KnownDictionary::new(Encoding::Etf, Arc::new(Dictionary::train(&samples, 4096).unwrap()))
    }

    async fn read_by(known: &Dictionaries, id: &str, tags: Option<&str>) -> (StatusCode, HeaderMap, Bytes) {
        let mut request_headers = HeaderMap::new();
        if let Some(tags) = tags {
            request_headers.insert(header::IF_NONE_MATCH, tags.parse().unwrap());
        }
        let (parts, body) = bytes_of(known, id, &request_headers).into_parts();
        (parts.status, parts.headers, body.collect().await.unwrap().to_bytes())
    }

    #[tokio::test]
    async fn a_dictionary_is_served_for_ever() {
        let known = known();
        let id = known.dictionary.id().to_string();
        let all = Dictionaries::new(vec![known.clone()]).unwrap();
        let (status, headers, body) = read_by(&all, &id, None).await;
        assert_eq!((status, &body[..]), (StatusCode::OK, &known.dictionary.bytes()[..]));
        assert_eq!(headers[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
        assert_eq!(headers[header::CONTENT_TYPE], "application/octet-stream");
        assert_eq!(headers[header::ETAG], format!("\"{id}\""));
        let digest = STANDARD.encode(known.dictionary.sha256());
        assert_eq!(headers[REPR_DIGEST], format!("sha-256=:{digest}:"));
        // A client can verify the id from the bytes.
        assert_eq!(DictionaryId::of(&body).to_string(), id);

        for tags in [format!("\"{id}\""), format!("\"x\", W/\"{id}\""), "*".to_owned()] {
            let (status, headers, body) = read_by(&all, &id, Some(&tags)).await;
            assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0), "{tags}");
            assert!(headers.contains_key(header::ETAG));
        }
        assert_eq!(read_by(&all, &id, Some("\"other\"")).await.0, StatusCode::OK);
        for id in ["nonsense", "00000000000000000000000000000000", ""] {
            assert_eq!(read_by(&all, id, None).await.0, StatusCode::NOT_FOUND, "{id}");
        }
    }

    #[test]
    fn the_list_has_the_dictionaries_of_the_account() {
        let mut known = known();
        let switch = |known: &KnownDictionary| {
            let switch = DictionarySwitch::default();
            switch.set(Dictionaries::new(vec![known.clone()]).unwrap());
            switch
        };
        let entries = listed(&switch(&known), None);
        assert_eq!((entries[0].encoding, entries.len()), ("etf", 1));
        assert_eq!(entries[0].path, format!("/dictionaries/{}", known.dictionary.id()));
        known.permille = 500;
        let inside = (0..).find(|account_id| known.is_offered_to(Some(*account_id))).unwrap();
        let outside = (0..).find(|account_id| !known.is_offered_to(Some(*account_id))).unwrap();
        let all = switch(&known);
        for (account_id, count) in [(None, 0), (Some(inside), 1), (Some(outside), 0)] {
            let asker = account_id.map(|account_id| Asker { account_id, is_bot: false });
            assert_eq!(listed(&all, asker).len(), count, "{account_id:?}");
        }
    }
}
