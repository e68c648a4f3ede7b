//! Caller: the key behind a request, and whether it may.
//!
//! Owns        `Caller<S>`, which a handler takes first: a key that has the scope `S`, within its limits.
//! Invariants  nothing is read of a body before there is a `Caller`. A request whose key was revoked while its body arrived is
//!             refused, and a stream takes no further line (test `s7_*` in `guildhall/tests/it/exact.rs`); work that began before
//!             the revocation is finished.
//! Limits      `requests_in_flight_max`, `requests_per_s` per key, `wrong_keys_per_min` per address.
//! Spec        docs/backend-api.md "Keys".

use super::{V1, error::V1Error};
use crate::{
    auth::token_of,
    limits::{Rule, network},
    peer::Peer,
};
use axum::{extract::FromRequestParts, http::request::Parts};
use guildhall_model::UserId;
use guildhall_node::{Key, KeyFault, KeyLife, Scope, TokenFault};
use std::{
    marker::PhantomData,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, PoisonError},
};
use tokio::sync::OwnedSemaphorePermit;

/// What a handler asks of a key.
pub(crate) trait Needs: Send + Sync {
    const SCOPE: Scope;
}

macro_rules! scopes {
    ($($name:ident),*) => { $(
        pub(crate) struct $name;
        impl Needs for $name {
            const SCOPE: Scope = Scope::$name;
        }
    )* };
}
scopes!(Read, Write, Publish, Tokens, Sessions, Keys);

/// Who asks, and may.
pub(crate) struct Caller<S> {
    pub key: Key,
    pub life: KeyLife,
    /// Given back when the answer, or the stream, is over.
    _permit: OwnedSemaphorePermit,
    _needs: PhantomData<S>,
}

const NO_KEY: &str = "This needs a key: send `Authorization: Bearer KEY`. `guildhall key create` makes one.";
const WRONG_KEY: &str = "This key is not good: it was revoked, or is none of this node's. `guildhall key list` shows \
                         those there are, `guildhall key create` makes another.";

impl<S: Needs> FromRequestParts<Arc<V1>> for Caller<S> {
    type Rejection = V1Error;

    async fn from_request_parts(parts: &mut Parts, v1: &Arc<V1>) -> Result<Self, V1Error> {
        let permit = Arc::clone(&v1.in_flight).try_acquire_owned().map_err(|_| V1Error::unavailable())?;
        let now = v1.now().instant;
        let peer = network(parts.extensions.get::<Peer>().map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |peer| peer.0));
        let wrong_rule = Rule { limit: v1.limits.wrong_keys_per_min, period_ms: 60_000 };
        let wrong_keys = || v1.wrong_keys.lock().unwrap_or_else(PoisonError::into_inner);
        let text = token_of(&parts.headers).map(|text| text.strip_prefix("Bearer ").unwrap_or(text).trim());
        let key = match text {
            Err(TokenFault::Missing) => Err((KeyFault::Missing, NO_KEY)),
            Err(_) => Err((KeyFault::Unknown, WRONG_KEY)),
            Ok(text) => v1.node.check_key(text).await?.ok_or((KeyFault::Unknown, WRONG_KEY)),
        };
        let (key, life) = match key {
            Ok(key) => key,
            // A good key is good, whoever else shares its address: what guessing costs is a look into memory.
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
                let message = "This key asks too often: wait, or send batches and streams instead of single requests.";
                return Err(V1Error::rate_limited(verdict.reset_after_ms, message));
            }
        }
        if !key.may(S::SCOPE) {
            v1.node.count_refused_key(KeyFault::Scope);
            let (needed, name) = (S::SCOPE.as_str(), &key.name);
            let has = key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ");
            return Err(V1Error::forbidden(format!(
                "This needs a key with the scope `{needed}`; the key `{name}` has: {has}. Make one with \
                 `guildhall key create --scopes {needed} …`, or POST /v1/keys."
            )));
        }
        parts.extensions.insert(life.clone());
        Ok(Self { key, life, _permit: permit, _needs: PhantomData })
    }
}

impl Caller<Tokens> {
    /// Refuses accounts that a key with accounts does not name.
    pub fn need_account(&self, v1: &V1, user_id: UserId) -> Result<(), V1Error> {
        if self.key.may_manage_tokens_of(user_id) {
            return Ok(());
        }
        v1.node.count_refused_key(KeyFault::Account);
        let name = &self.key.name;
        Err(V1Error::forbidden(format!(
            "The key `{name}` manages tokens of the accounts that it names alone, and {user_id} is none of them: take another \
             key, or make one with `guildhall key create --accounts {user_id} …`, or POST /v1/keys."
        )))
    }
}
