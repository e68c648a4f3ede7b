//! Page: files of a page for browsers, embedded in the binary.
//!
//! Owns        `Asset`, as `web/build-page.mjs` writes them, and the headers of their answers.
//! Invariants  H1 a file whose name has a hash is cached for ever; the page that names it is revalidated. (test `h1_*`
//!             of `rest`)
//! Not here    which pages there are.

use crate::{ErrorAnswer, entity_tag};
use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};

/// A file of the page, in three encodings.
#[derive(Debug)]
pub struct Asset {
    pub name: &'static str,
    pub content_type: &'static str,
    /// SHA-256, the first 16 hex digits.
    pub tag: &'static str,
    pub plain: &'static [u8],
    pub gzip: &'static [u8],
    pub brotli: &'static [u8],
}

/// The page itself, with its Content-Security-Policy.
pub fn index(assets: &'static [Asset], request_headers: &HeaderMap, policy: &HeaderValue) -> Response {
    let Some(index) = assets.iter().find(|asset| asset.name == "index.html") else {
        return ErrorAnswer::not_found();
    };
    let mut response = respond(index, request_headers, "no-cache");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy.clone());
    response
}

/// A file that the page names.
pub fn file(assets: &'static [Asset], name: &str, request_headers: &HeaderMap) -> Response {
    let found = assets.iter().find(|asset| asset.name.strip_prefix("assets/") == Some(name));
    found.map_or_else(ErrorAnswer::not_found, |asset| {
        respond(asset, request_headers, "public, max-age=31536000, immutable")
    })
}

fn respond(asset: &Asset, request_headers: &HeaderMap, cache: &'static str) -> Response {
    let (encoding, bytes) = if accepts(request_headers, "br") {
        (Some("br"), asset.brotli)
    } else if accepts(request_headers, "gzip") {
        (Some("gzip"), asset.gzip)
    } else {
        (None, asset.plain)
    };
    // Each encoding has a tag of its own: a strong tag names bytes.
    let tag = format!("\"{}-{}\"", asset.tag, encoding.unwrap_or("plain"));
    let is_known = request_headers.get_all(header::IF_NONE_MATCH).iter().any(|tags| entity_tag::names(tags, &tag));
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { Response::new(Body::from(bytes)) };
    let headers = response.headers_mut();
    let mut put = |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
    put(header::CONTENT_TYPE, asset.content_type);
    put(header::CACHE_CONTROL, cache);
    put(header::VARY, "accept-encoding");
    put(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(header::REFERRER_POLICY, "no-referrer");
    put(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    put(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    if let Some(encoding) = encoding {
        put(header::CONTENT_ENCODING, encoding);
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Whether `Accept-Encoding` names this coding with a weight above 0.
fn accepts(request_headers: &HeaderMap, coding: &str) -> bool {
    let lists = request_headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let is_it = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding));
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse::<f32>().ok());
        is_it && weight.is_some_and(|weight| weight > 0.0)
    })
}
