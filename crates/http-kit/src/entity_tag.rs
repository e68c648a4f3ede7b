//! Entity tags: whether a client has a version already.

use axum::http::HeaderValue;

/// RFC 9110 §13.1.2: a list of tags, or any. A weak tag means the same bytes here.
pub fn names(tags: &HeaderValue, tag: &str) -> bool {
    let Ok(tags) = tags.to_str() else { return false };
    tags.split(',').map(str::trim).any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}
