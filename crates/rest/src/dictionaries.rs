//! Dictionaries over HTTP: a client needs the dictionary before it can connect with `dict=ID` in the gateway's URL.
//!
//! Doors       `dictionaries_router`: `/dictionaries` lists them, `/dictionaries/{id}` is the dictionary itself.
//! Invariants  the bytes of an id never change, because the id is their hash: caches may keep them for ever.
//! Price       no token is needed: the documentation of the protocol has the same information.

use crate::error::ApiError;
use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use guildhall_codec::{Dictionaries, DictionaryId, KnownDictionary};
use guildhall_http_kit::entity_tag::names;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// RFC 9530: hash of the body.
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// The routes for what `dictionaries` holds.
pub fn dictionaries_router(dictionaries: Dictionaries) -> Router {
    let served: Arc<[Served]> = dictionaries.iter().map(Served::new).collect();
    Router::new().route("/dictionaries", get(list)).route("/dictionaries/{id}", get(read)).with_state(served)
}

/// A dictionary as it is served, worked out once.
struct Served {
    id: DictionaryId,
    encoding: &'static str,
    sha256: [u8; 32],
    bytes: Bytes,
}

impl Served {
    fn new(known: &KnownDictionary) -> Self {
        let bytes = Bytes::from_owner(known.dictionary.bytes().clone());
        let encoding = known.encoding.name();
        Self { id: known.dictionary.id(), encoding, sha256: Sha256::digest(&bytes).into(), bytes }
    }
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

/// Which there are. Newer ones may come: this is not to be kept.
async fn list(State(served): State<Arc<[Served]>>) -> Response {
    let listed = served.iter().map(|served| Listed {
        id: served.id.to_string(),
        encoding: served.encoding,
        compression: "zstd-stream",
        size: served.bytes.len(),
        sha256: served.sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
        path: format!("/dictionaries/{}", served.id),
    });
    let headers = [(header::CACHE_CONTROL, "no-cache"), (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")];
    (headers, Json(listed.collect::<Vec<_>>())).into_response()
}

async fn read(State(served): State<Arc<[Served]>>, Path(id): Path<String>, request_headers: HeaderMap) -> Response {
    let found = id.parse().ok().and_then(|id: DictionaryId| served.iter().find(|served| served.id == id));
    let Some(found) = found else { return ApiError::NotFound.into_response() };
    let tag = format!("\"{id}\"");
    let is_known = request_headers.get_all(header::IF_NONE_MATCH).iter().any(|tags| names(tags, &tag));
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = Response::new(Body::from(found.bytes.clone()));
        let digest = format!("sha-256=:{}:", STANDARD.encode(found.sha256));
        put(&mut response, header::CONTENT_TYPE, "application/octet-stream");
        put(&mut response, REPR_DIGEST, &digest);
        response
    };
    put(&mut response, header::CACHE_CONTROL, "public, max-age=31536000, immutable");
    put(&mut response, header::ETAG, &tag);
    put(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Clients in browsers come from elsewhere.
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
    use axum::http::Request;
    use guildhall_codec::{Dictionary, Encoding};
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    fn known() -> KnownDictionary {
        let samples: Vec<String> =
            (0..800).map(|n| format!("{{\"t\":\"X\",\"n\":{n},\"name\":\"user{}\"}}", n * 7)).collect();
        let dictionary = Arc::new(Dictionary::train(&samples, 4096).unwrap());
        KnownDictionary { encoding: Encoding::Etf, dictionary }
    }

    async fn send_request(
        router: &Router,
        method: &str,
        path: &str,
        none_match: Option<&str>,
    ) -> (StatusCode, HeaderMap, Bytes) {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(tag) = none_match {
            request = request.header(header::IF_NONE_MATCH, tag);
        }
        let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        (parts.status, parts.headers, body.collect().await.unwrap().to_bytes())
    }

    #[tokio::test]
    async fn a_dictionary_is_served_for_ever() {
        let known = known();
        let id = known.dictionary.id().to_string();
        let router = dictionaries_router(Dictionaries::new(vec![known.clone()]).unwrap());
        let path = format!("/dictionaries/{id}");
        let (status, headers, body) = send_request(&router, "GET", &path, None).await;
        assert_eq!((status, &body[..]), (StatusCode::OK, &known.dictionary.bytes()[..]));
        assert_eq!(headers[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
        assert_eq!(headers[header::CONTENT_TYPE], "application/octet-stream");
        assert_eq!(headers[header::ETAG], format!("\"{id}\""));
        let digest = STANDARD.encode(Sha256::digest(&body));
        assert_eq!(headers[REPR_DIGEST], format!("sha-256=:{digest}:"));
        // A client can verify the id from the bytes.
        assert_eq!(DictionaryId::of(&body).to_string(), id);

        for tags in [format!("\"{id}\""), format!("\"x\", W/\"{id}\""), "*".to_owned()] {
            let (status, headers, body) = send_request(&router, "GET", &path, Some(&tags)).await;
            assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0), "{tags}");
            assert!(headers.contains_key(header::ETAG));
        }
        assert_eq!(send_request(&router, "GET", &path, Some("\"other\"")).await.0, StatusCode::OK);
        let (status, headers, body) = send_request(&router, "HEAD", &path, None).await;
        assert_eq!((status, body.len()), (StatusCode::OK, 0));
        assert_eq!(headers[header::CONTENT_LENGTH], known.dictionary.bytes().len().to_string());
    }

    #[tokio::test]
    async fn what_there_is_and_what_there_is_not() {
        let known = known();
        let router = dictionaries_router(Dictionaries::new(vec![known.clone()]).unwrap());
        let (_, headers, body) = send_request(&router, "GET", "/dictionaries", None).await;
        assert_eq!(headers[header::CACHE_CONTROL], "no-cache");
        let listed: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&listed[0]["encoding"], listed.as_array().unwrap().len()), (&"etf".into(), 1));
        assert_eq!(listed[0]["path"], format!("/dictionaries/{}", known.dictionary.id()));
        for path in ["/dictionaries/nonsense", "/dictionaries/00000000000000000000000000000000", "/dictionaries/"] {
            assert_eq!(send_request(&router, "GET", path, None).await.0, StatusCode::NOT_FOUND, "{path}");
        }
        let none = dictionaries_router(Dictionaries::default());
        assert_eq!(&send_request(&none, "GET", "/dictionaries", None).await.2[..], b"[]");
    }
}
