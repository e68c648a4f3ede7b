//! Caller: the backend key behind a request, and its permissions (scopes).
//!
//! Owns        `Caller<S>`, which a handler takes first: a key that has the scope `S`, within its limits; `StreamSlot`.
//! Invariants  a request uses no place of `requests_in_flight_max` before its key is checked. A request whose key was
//!             revoked while its body arrived is refused, and a stream takes no further line (test `s7_*` in
//!             `guildhall/tests/it/exact.rs`); work that began before the revocation is finished.
//!             A node of a cluster without a lease takes no key; the root key alone, which is never revoked, reads what
//!             `/v1/cluster` and `/v1/node` report of this node.
//! Limits      `requests_per_s` per key, `wrong_keys_per_min` per address; then `requests_in_flight_max`, half of it
//!             per key; for streams instead `streams_max` and `streams_per_key_max`.
//! Spec        docs/backend-api.md "Keys".

use super::{V1, audit::KeySlot, error::V1Error, extract::Path};
use crate::permit::ReadPermit;
use axum::{
    extract::FromRequestParts,
    http::{HeaderValue, Method, header, request::Parts},
};
use guildhall_http_kit::{Party, Peer, Reservation, Rule, network};
use guildhall_model::UserId;
use guildhall_node::{Key, KeyFault, KeyLife, Scope, TokenFault, authorization_token};
use std::{
    fmt::Display,
    marker::PhantomData,
    sync::{Arc, PoisonError},
};

/// Scope that a handler requires; none: any key will do.
pub(crate) trait Needs: Send + Sync {
    const SCOPE: Option<Scope>;
}

/// Any key will do.
pub(crate) struct AnyScope;
impl Needs for AnyScope {
    const SCOPE: Option<Scope> = None;
}

macro_rules! scopes {
    ($($name:ident),*) => { $(
        pub(crate) struct $name;
        impl Needs for $name {
            const SCOPE: Option<Scope> = Some(Scope::$name);
        }
    )* };
}
scopes!(Read, Write, Publish, Tokens, Sessions, Keys, Lab, Messages, Events);

/// The authenticated key of a request, with the required scope.
pub(crate) struct Caller<S> {
    pub key: Key,
    pub life: KeyLife,
    /// Released with the answer.
    _place: Reservation,
    _needs: PhantomData<S>,
}

/// The key of a login of the dashboard, which checked it: an extension of the login's requests.
#[derive(Clone)]
pub(crate) struct Granted(pub Key, pub KeyLife);

/// Place of a stream, released at its end.
pub(crate) struct StreamSlot {
    _place: Reservation,
}

impl<S> Caller<S> {
    /// Id of the key; 0 for the root key.
    pub fn key_id(&self) -> u64 {
        self.key.id.unwrap_or(0)
    }

    /// Permit to read the body, given the object that the path names.
    pub fn permit_for<T>(&self, found: &T) -> ReadPermit {
        ReadPermit::backend(self.key_id(), found)
    }

    /// Permit to read the body of a request that creates its object, or names none.
    pub fn permit(&self) -> ReadPermit {
        ReadPermit::key(self.key_id())
    }

    /// Exchanges the place of a request for a place of a stream, which has no deadline.
    pub fn into_stream(self, v1: &V1) -> Result<StreamSlot, V1Error> {
        let place = v1.streams.reserve([Some(Party::Key(self.key_id())), None], 1).map_err(V1Error::over_quota)?;
        Ok(StreamSlot { _place: place })
    }
}

const NO_KEY: &str = "This needs a key: send `Authorization: Bearer KEY`. `guildhall key create` makes one.";
const WRONG_KEY: &str = "This key is not valid: it was revoked, or belongs to another node. `guildhall key list` \
                         shows the keys of this node, `guildhall key create` makes another.";

impl<S: Needs> FromRequestParts<Arc<V1>> for Caller<S> {
    type Rejection = V1Error;

    async fn from_request_parts(parts: &mut Parts, v1: &Arc<V1>) -> Result<Self, V1Error> {
        let (key, life, place) = admit(parts, v1, S::SCOPE).await?;
        Ok(Self { key, life, _place: place, _needs: PhantomData })
    }
}

/// Checks the key of a request, and its limits. Without the type of the scope, so that it is compiled once.
async fn admit(parts: &mut Parts, v1: &V1, scope: Option<Scope>) -> Result<(Key, KeyLife, Reservation), V1Error> {
    let now = v1.now().instant;
    let peer = network(Peer::address_in(&parts.extensions));
    let wrong_rule = Rule { limit: v1.limits.wrong_keys_per_min, period_ms: 60_000 };
    let wrong_keys = || v1.wrong_keys.lock().unwrap_or_else(PoisonError::into_inner);
    let values = parts.headers.get_all(header::AUTHORIZATION).iter().map(HeaderValue::to_str);
    let text = authorization_token(values).map(|text| match text.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("Bearer") => key.trim(),
        _ => text,
    });
    if !v1.node.has_lease() && !is_about_this_node(parts) {
        return Err(V1Error::no_lease());
    }
    let granted = parts.extensions.get::<Granted>().filter(|Granted(_, life)| !life.is_over());
    let key = match (granted, text) {
        (Some(Granted(key, life)), _) => Ok((key.clone(), life.clone())),
        (None, Err(TokenFault::Missing)) => Err((KeyFault::Missing, NO_KEY)),
        (None, Err(_)) => Err((KeyFault::Unknown, WRONG_KEY)),
        (None, Ok(text)) => v1.node.check_key(text).await?.ok_or((KeyFault::Unknown, WRONG_KEY)),
    };
    let (key, life) = match key {
        Ok((key, _)) if key.id.is_some() && !v1.node.has_lease() => return Err(V1Error::no_lease()),
        Ok(key) => key,
        // A valid key is accepted even if other clients of its address guess; a guess costs one lookup in memory.
        Err((fault, text)) => {
            let verdict = wrong_keys().take(now, peer, wrong_rule);
            let message = "Too many wrong keys came from this address: wait, and check the key.";
            let waits = || V1Error::rate_limited(verdict.reset_after_ms, message);
            v1.node.count_refused_key(if verdict.admitted { fault } else { KeyFault::RateLimited });
            return Err(if verdict.admitted { V1Error::unauthorized(text) } else { waits() });
        }
    };
    if let Some(limit) = v1.limits.requests_per_s {
        let mut requests = v1.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = requests.take(now, key.id.unwrap_or(0), Rule { limit, period_ms: 1_000 });
        if !verdict.admitted {
            let message =
                "This key sends too many requests: wait, or send batches and streams instead of single requests.";
            return Err(V1Error::rate_limited(verdict.reset_after_ms, message));
        }
    }
    if let Some(slot) = parts.extensions.get::<KeySlot>() {
        slot.set(key.id.unwrap_or(0));
    }
    if let Some(scope) = scope.filter(|scope| !key.may(*scope)) {
        v1.node.count_refused_key(KeyFault::Scope);
        let (needed, name) = (scope.as_str(), &key.name);
        let has = key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ");
        return Err(V1Error::forbidden(format!(
            "This needs a key with the scope `{needed}`; the key `{name}` has: {has}. Make one with \
             `guildhall key create --scopes {needed} …`, or POST /v1/keys."
        )));
    }
    parts.extensions.insert(life.clone());
    let parties = [Some(Party::Key(key.id.unwrap_or(0))), None];
    let place = v1.in_flight.reserve(parties, 1).map_err(V1Error::over_quota)?;
    Ok((key, life, place))
}

/// Reports of this node help to find out why it has no lease. They are not for keys that may have been revoked.
fn is_about_this_node(parts: &Parts) -> bool {
    let path = parts.uri.path();
    let is_report = ["/v1/cluster", "/v1/node"]
        .iter()
        .any(|at| path.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    parts.method == Method::GET && is_report
}

impl Caller<Tokens> {
    /// The account in the path.
    pub fn account_in(&self, v1: &V1, path: &Path) -> Result<UserId, V1Error> {
        match path.id("user_id") {
            Ok(user_id) => self.need_account(v1, user_id).map(|()| user_id),
            // The answer to a key with accounts does not reveal which external ids exist.
            Err(error) if error.code == "not_found" && self.key.accounts.is_some() => {
                Err(self.not_named(v1, path.text("user_id")))
            }
            Err(error) => Err(error),
        }
    }

    /// Refuses accounts that a key with accounts does not name.
    pub fn need_account(&self, v1: &V1, user_id: UserId) -> Result<(), V1Error> {
        if self.key.may_manage_user_tokens(user_id) { Ok(()) } else { Err(self.not_named(v1, user_id)) }
    }

    fn not_named(&self, v1: &V1, account: impl Display) -> V1Error {
        v1.node.count_refused_key(KeyFault::Account);
        let name = &self.key.name;
        V1Error::forbidden(format!(
            "The key `{name}` manages tokens of the accounts that it names alone, and {account} is none of them: take another \
             key, or make one with `guildhall key create --accounts ID …`, or POST /v1/keys."
        ))
    }
}
