//! Remote: an object of a bucket as a response.
//!
//! Invariants  R1 a request gets the same status, headers and bytes as for a file of a folder (`ServeFile`): ranges,
//!             `If-Modified-Since`, `If-Unmodified-Since`. (test `it::files` of `rest`)
//! Limits      one range: several get 416. The bucket's stream is read as fast as the client reads.

use crate::{MediaError, upload::FILES_UNAVAILABLE};
use axum::{
    body::Body,
    extract::Request,
    http::{HeaderName, Method, StatusCode, header},
    response::Response,
};
use guildhall_files::{Remote, StorageError};
use std::{
    ops::Range,
    time::{Duration, SystemTime},
};

/// Answers `request` with `object`.
pub(super) async fn respond(object: Remote, request: Request) -> Result<Response, MediaError> {
    // A body cannot be shared between threads, and this waits.
    let (request, _) = request.into_parts();
    let date = |name: HeaderName| {
        let text = request.headers.get(name)?.to_str().ok()?;
        httpdate::parse_http_date(text).ok()
    };
    // HTTP dates have whole seconds.
    let written_at = whole_seconds(object.written_at);
    if date(header::IF_UNMODIFIED_SINCE).is_some_and(|since| written_at > since) {
        return Ok(empty(StatusCode::PRECONDITION_FAILED));
    }
    if date(header::IF_MODIFIED_SINCE).is_some_and(|since| written_at <= since) {
        return Ok(empty(StatusCode::NOT_MODIFIED));
    }
    let size = object.bytes;
    let response = Response::builder()
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::LAST_MODIFIED, httpdate::fmt_http_date(written_at));
    let range = request.headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    let (response, range) = match range.map(|range| one_range(range, size)) {
        None => (response, 0..size),
        Some(Some(range)) => {
            let content_range = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            (response.status(StatusCode::PARTIAL_CONTENT).header(header::CONTENT_RANGE, content_range), range)
        }
        Some(None) => {
            let response = response.status(StatusCode::RANGE_NOT_SATISFIABLE);
            let response = response.header(header::CONTENT_RANGE, format!("bytes */{size}")).body(Body::empty());
            return response.map_err(|_| MediaError::Bug("headers of a file"));
        }
    };
    let response = response.header(header::CONTENT_LENGTH, range.end - range.start);
    let body = if request.method == Method::HEAD {
        Body::empty()
    } else {
        let stream = object.read(range).await.map_err(|error| match error {
            StorageError::NotFound => MediaError::NotFound,
            _ => FILES_UNAVAILABLE,
        })?;
        Body::from_stream(stream)
    };
    response.body(body).map_err(|_| MediaError::Bug("headers of a file"))
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

/// The one range that a header requests, within `size` bytes.
fn one_range(header: &str, size: u64) -> Option<Range<u64>> {
    let ranges = http_range_header::parse_range_header(header).ok()?.validate(size).ok()?;
    match &ranges[..] {
        // No range is within an empty file.
        [range] if *range.end() < size => Some(*range.start()..*range.end() + 1),
        _ => None,
    }
}
