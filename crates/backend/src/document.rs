//! The document that describes the API, created once and shared by all answers.
//!
//! Limits  its text is 242 KB and needs no key: clients that send its tag get 304 and no body.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use guildhall_http_kit::entity_tag::names;
use sha2::{Digest as _, Sha256};

/// See the module.
pub struct Document {
    text: Bytes,
    tag: HeaderValue,
}

impl Document {
    pub fn new(text: String) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        let digits: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let tag = HeaderValue::try_from(format!("\"{digits}\"")).expect("hexadecimal digits in quotes");
        Self { text: text.into(), tag }
    }

    /// 304 for a client that has it.
    pub fn answer(&self, request_headers: &HeaderMap) -> Response {
        let tag = self.tag.to_str().unwrap_or_default();
        let is_known = request_headers.get_all(header::IF_NONE_MATCH).iter().any(|tags| names(tags, tag));
        let mut response = if is_known {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            ([kind], Body::from(self.text.clone())).into_response()
        };
        response.headers_mut().insert(header::ETAG, self.tag.clone());
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s10_a_client_that_has_the_document_gets_no_body() {
        let document = Document::new("{}".to_owned());
        let first = document.answer(&HeaderMap::new());
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(first.headers()[header::CONTENT_TYPE], "application/json");
        let mut request_headers = HeaderMap::new();
        request_headers.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        assert_eq!(document.answer(&request_headers).status(), StatusCode::NOT_MODIFIED);
        let other = Document::new("{ }".to_owned()).answer(&request_headers);
        assert_eq!(other.status(), StatusCode::OK, "another version has another tag");
    }
}
