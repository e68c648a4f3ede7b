//! JSON errors: the body and headers of responses with a status of failure.
//!
//! Invariants  every body is `{"message", "code", …}`; a response with a time to retry has it in body and headers.
//!             Spec  docs/protocol/reference.md §10.1.

use crate::{FieldErrors, OverQuota};
use axum::{
    Json,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// Seconds after which a client may repeat a request that got 503.
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("1");

/// An error as clients get it.
#[derive(Clone, Debug)]
pub struct ErrorAnswer<'a> {
    pub status: StatusCode,
    /// JSON error code; 0 if the protocol has none.
    pub code: u32,
    pub message: String,
    /// Faults of the request's fields.
    pub errors: Option<&'a FieldErrors>,
    pub retry: Option<Retry>,
}

/// When a client may retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    pub after_ms: u64,
    /// It holds for all requests of the account.
    pub is_global: bool,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    message: String,
    code: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<&'a FieldErrors>,
    /// Time to wait, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    global: Option<bool>,
}

impl ErrorAnswer<'_> {
    /// An error without further fields.
    #[must_use]
    pub fn new(status: StatusCode, code: u32, message: String) -> Self {
        Self { status, code, message, errors: None, retry: None }
    }

    /// There is nothing at the path of the request.
    #[must_use]
    pub fn not_found() -> Response {
        Self::new(StatusCode::NOT_FOUND, 0, NOT_FOUND.to_owned()).into_response()
    }
}

/// Message of an answer with status 404.
pub const NOT_FOUND: &str = "404: Not Found";

impl IntoResponse for ErrorAnswer<'_> {
    fn into_response(self) -> Response {
        let Self { status, code, message, errors, retry } = self;
        let body = ErrorBody {
            message,
            code,
            errors,
            retry_after: retry.map(|retry| retry.after_ms as f64 / 1000.0),
            global: retry.map(|retry| retry.is_global),
        };
        let mut response = (status, Json(body)).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_S);
        }
        if let Some(Retry { after_ms, is_global }) = retry {
            write_retry_headers(response.headers_mut(), after_ms, is_global);
        }
        response
    }
}

/// Text for clients.
pub fn over_quota(over_quota: OverQuota) -> &'static str {
    match over_quota {
        OverQuota::Total => "The server has no room for this request now: send it again in a moment",
        OverQuota::Share => "Too many requests of this account or address are under way: let some of them end first",
    }
}

/// Writes the headers of a 429 response with the time to wait.
fn write_retry_headers(headers: &mut HeaderMap, retry_after_ms: u64, is_global: bool) {
    headers.insert(header::RETRY_AFTER, HeaderValue::from(retry_after_ms.div_ceil(1000)));
    headers.insert("x-ratelimit-scope", HeaderValue::from_static(if is_global { "global" } else { "user" }));
    if is_global {
        headers.insert("x-ratelimit-global", HeaderValue::from_static("true"));
    }
    // The Python libraries take a 429 without it for a ban at a CDN and raise instead of waiting.
    headers.insert(header::VIA, HeaderValue::from_static("1.1 guildhall"));
}
