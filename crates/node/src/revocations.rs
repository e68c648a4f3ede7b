//! Revocations in a cluster: every node forgets a token or key before the revocation is answered.
//!
//! Invariants  V1 when a revocation returns, no node accepts the token or key. A node whose lease has ended may, until
//!             it joins again or ends; then it forgets everything that it knew.

use crate::{
    Inner, Node,
    cluster::{Membership, Revocation},
    tokens::{TokenRef, hash_of},
};
use guildhall_cluster::wire;
use std::sync::Arc;

/// Kind of the question to other nodes.
const KIND: &str = "revoked";

/// Follows what other nodes revoke.
pub(crate) fn follow(membership: &Arc<Membership>, inner: &Arc<Inner>) {
    let of = Arc::downgrade(inner);
    membership.on_question(KIND, move |body| {
        if let (Some(inner), Ok(revocation)) = (of.upgrade(), wire::decode::<Revocation>(wire::VERSION, &body)) {
            inner.tokens.revoked_elsewhere(revocation);
            if let Revocation::Key(id) = revocation {
                inner.keys.revoked_elsewhere(id);
            }
        }
        Box::pin(std::future::ready(Vec::new()))
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
            membership.tell_all(KIND, &wire::encode(&revocation)).await;
        }
    }
}
