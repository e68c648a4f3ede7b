//! Authentication: from the header to the account.
//!
//! Owns        the three forms of the Authorization header, and `Caller`, the account behind a request.
//! Invariants  a handler that takes `Caller` runs only for an authenticated request: `crate::gate` puts the account
//!             into the request's extensions, nobody else does.
//!             Spec  docs/protocol.md §10: `Bot TOKEN`, `Bearer TOKEN`, `TOKEN`.

use crate::error::ApiError;
use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};
use guildhall_model::User;
use std::{ops::Deref, sync::Arc};

/// Longest token looked at; a JWT of ours has some 200 bytes.
const TOKEN_BYTES_MAX: usize = 1024;

/// The account that asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub Arc<User>);

impl Deref for Caller {
    type Target = User;
    fn deref(&self) -> &User {
        &self.0
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or(ApiError::Unauthorized)
    }
}

/// The token of a request, with its scheme if it has one; none if there is no usable header.
pub(crate) fn token_of(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let token = values.next()?.to_str().ok()?.trim();
    // Two tokens are none: it would be anybody's guess which one a proxy looked at.
    (values.next().is_none() && !token.is_empty() && token.len() <= TOKEN_BYTES_MAX).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn header_forms() {
        let check = |values: &[&[u8]], expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
            }
            assert_eq!(token_of(&headers), expected);
        };
        check(&[b"Bot abc"], Some("Bot abc"));
        check(&[b"  abc "], Some("abc"));
        check(&[], None);
        check(&[b""], None);
        check(&[b"a", b"b"], None);
        check(&["Bot ä".as_bytes()], None);
        check(&["x".repeat(5000).as_bytes()], None);
    }
}
