//! Revocations in a cluster: every node forgets a token or key before the revocation is answered.
//!
//! Invariants  V1 when a revocation returns, no node accepts the token or key. A node whose lease has ended may, until
//!             it joins again or ends; then it forgets everything that it knew.

use crate::{
    Inner, Node,
    cluster::{Membership, PeerQuestion, Revocation},
    tokens::{TokenRef, hash_of},
};
use std::{future::ready, sync::Arc};

impl PeerQuestion for Revocation {
    const KIND: &'static str = "revoked";
    type Answer = ();
}

/// Follows what other nodes revoke.
pub(crate) fn follow(membership: &Arc<Membership>, inner: &Arc<Inner>) {
    let of = Arc::downgrade(inner);
    membership.on_question(move |revocation: Revocation| {
        if let Some(inner) = of.upgrade() {
            inner.tokens.revoked_elsewhere(revocation);
            if let Revocation::Key(id) = revocation {
                inner.keys.revoked_elsewhere(id);
            }
        }
        ready(Some(()))
    });
    let of = Arc::downgrade(inner);
    membership.on_rejoin(move || {
        if let Some(inner) = of.upgrade() {
            inner.tokens.forget_all();
            inner.keys.forget_all();
        }
    });
}

pub(crate) fn of_token(token: TokenRef<'_>) -> Revocation {
    Revocation::Token(hash_of(token).0)
}

impl Node {
    /// Returns when all other nodes have forgotten it (V1).
    pub(crate) async fn tell_revoked(&self, revocation: Revocation) {
        if let Some(membership) = &self.inner.membership {
            membership.tell_all(&revocation).await;
        }
    }
}
