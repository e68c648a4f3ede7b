//! Note: route and sender of a request, attached to its answer for logs.
//!
//! Invariants  a note has the pattern of a route, and no part of a path: paths contain tokens.

use axum::{extract::MatchedPath, response::Response};
use std::net::IpAddr;

/// Route and sender of a request; an extension of its answer.
#[derive(Clone, Debug)]
pub struct RequestNote {
    prefix: &'static str,
    route: MatchedPath,
    /// Account of the caller, if its token is valid.
    pub user_id: Option<u64>,
    /// The backend's key, if it is valid; 0 for the root key.
    pub key_id: Option<u64>,
    /// Where the request came from.
    pub peer: IpAddr,
}

impl RequestNote {
    pub fn of_account(route: MatchedPath, user_id: Option<u64>, peer: IpAddr) -> Self {
        Self { prefix: "/api", route, user_id, key_id: None, peer }
    }

    pub fn of_key(route: MatchedPath, key_id: Option<u64>, peer: IpAddr) -> Self {
        Self { prefix: "", route, user_id: None, key_id, peer }
    }

    /// Pattern of the route, like `/api/channels/{channel_id}`.
    #[must_use]
    pub fn route(&self) -> String {
        format!("{}{}", self.prefix, self.route.as_str())
    }

    /// Takes the note out of an answer.
    pub fn take(response: &mut Response) -> Option<Self> {
        response.extensions_mut().remove()
    }

    pub fn put(self, response: &mut Response) {
        response.extensions_mut().insert(self);
    }
}
