//! Authentication: from the header to the account.
//!
//! Owns        the three forms of the Authorization header; `Caller`, the account behind a request; `Credential`, its
//!             token.
//! Invariants  a handler that takes `Caller` runs only for an authenticated request: only `crate::middleware` puts
//!             the account into the request's extensions. T1 no body of a request is used whose token was
//!             revoked before the body was complete: `crate::body` checks `Credential` after the last byte. (tests of
//!             `guildhall/tests/it/late.rs`)
//!             Spec  docs/protocol/reference.md §10: `Bot TOKEN`, `Bearer TOKEN`, `TOKEN`.

use crate::{error::ApiError, state::Api};
use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, header, request::Parts},
};
use guildhall_guild::{Request, request::WithReason};
use guildhall_model::User;
use guildhall_node::{AuthError, TokenFault, authorization_token};
use std::{ops::Deref, sync::Arc};

/// The account that sent the request, and its reason (`X-Audit-Log-Reason`).
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub Arc<User>, Option<Arc<str>>);

/// Longest reason kept; more is cut, as upstream.
const REASON_CHARS_MAX: usize = 512;

impl Caller {
    pub fn new(user: Arc<User>) -> Self {
        Self(user, None)
    }

    /// Why, in the caller's words.
    pub fn reason(&self) -> Option<Arc<str>> {
        self.1.clone()
    }

    /// The request with the caller's reason for it.
    pub fn with_reason<R: Request>(&self, request: R) -> WithReason<R> {
        WithReason(self.reason(), request)
    }
}

impl Deref for Caller {
    type Target = User;
    fn deref(&self) -> &User {
        &self.0
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Self(user, _) = parts.extensions.get::<Self>().cloned().ok_or(ApiError::Unauthorized)?;
        Ok(Self(user, reason_in(&parts.headers)))
    }
}

/// The token of a request.
#[derive(Clone)]
pub(crate) struct Credential {
    token: Arc<str>,
    /// How often tokens had been revoked before this one was checked.
    revocations: u64,
}

impl Credential {
    /// The account of the token.
    pub async fn check(api: &Api, token: &str) -> Result<(Arc<User>, Self), AuthError> {
        let credential = Self { token: token.into(), revocations: api.node.revocations() };
        Ok((api.node.authenticate(token).await?.user, credential))
    }

    /// Refuses a token that was revoked since it was checked.
    pub async fn need_good(&self, api: &Api) -> Result<(), ApiError> {
        if api.node.unless_revoked(self.revocations, || ()).is_some() {
            return Ok(());
        }
        match api.node.authenticate(&self.token).await {
            Ok(_) => Ok(()),
            Err(AuthError::Invalid(_)) => Err(ApiError::Unauthorized),
            Err(AuthError::NoLease) => Err(ApiError::NoLease),
            Err(AuthError::Unavailable(_) | AuthError::KeysComing | AuthError::Busy(_)) => Err(ApiError::Overloaded),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Credential {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or(ApiError::Unauthorized)
    }
}

/// The header is percent-encoded.
fn reason_in(headers: &HeaderMap) -> Option<Arc<str>> {
    let bytes = headers.get("x-audit-log-reason")?.as_bytes();
    let text = percent_encoding::percent_decode(bytes).decode_utf8_lossy();
    let reason: String = text.chars().take(REASON_CHARS_MAX).collect();
    (!reason.trim().is_empty()).then(|| reason.into())
}

/// The token of a request, with its scheme if it has one.
pub(crate) fn request_token(headers: &HeaderMap) -> Result<&str, TokenFault> {
    authorization_token(headers.get_all(header::AUTHORIZATION).iter().map(HeaderValue::to_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_node::TOKEN_BYTES_MAX;

    #[test]
    fn header_forms() {
        let check = |values: &[&[u8]], expected: Result<&str, TokenFault>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
            }
            assert_eq!(request_token(&headers), expected);
        };
        check(&[b"Bot abc"], Ok("Bot abc"));
        check(&[b"  abc "], Ok("abc"));
        check(&[], Err(TokenFault::Missing));
        check(&[b""], Err(TokenFault::Missing));
        check(&[b"a", b"b"], Err(TokenFault::Malformed));
        check(&["Bot ä".as_bytes()], Err(TokenFault::Malformed));
        check(&["x".repeat(5000).as_bytes()], Err(TokenFault::TooLong));
        let longest = format!("Bearer {}", "x".repeat(TOKEN_BYTES_MAX));
        check(&[longest.as_bytes()], Ok(&longest));
    }
}
