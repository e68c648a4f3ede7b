//! Refusals: why tokens and keys were refused, counted and logged.
//!
//! Owns        the closed sets of reasons, `TokenFault` and `KeyFault`; their counters; when a refusal is logged.
//! Invariants  R1 every refusal is counted; a reason is logged at `info` at most once in `LOG_EVERY_MS`, with the number of refusals
//!             since the last line. R2 nothing of a token or key is logged. (tests `r*_*`)
//! Limits      the sets are closed: a metric has as many series as there are reasons.

use guildhall_stdx::Timestamp;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Between two log lines of one reason.
const LOG_EVERY_MS: i64 = 5_000;

/// A closed set of reasons.
pub trait Fault: Copy + Eq + std::fmt::Display + 'static {
    /// Every reason.
    const ALL: &'static [Self];
    /// Noun for log lines: "a token", "a key".
    const WHAT: &'static str;
    /// The reason as metrics and logs name it.
    fn name(self) -> &'static str;
}

macro_rules! faults {
    ($(#[$doc:meta])* $set:ident of $what:literal { $($name:literal $variant:ident $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
        pub enum $set { $(#[doc = $text] #[error($text)] $variant,)* }

        impl Fault for $set {
            const ALL: &'static [Self] = &[$(Self::$variant),*];
            const WHAT: &'static str = $what;
            fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

faults! {
    /// Why a token is refused. The texts say what to correct, and nothing about the token itself.
    TokenFault of "a token" {
        "missing" Missing "there is no token: send `Authorization: Bot TOKEN`, or the token alone for a user",
        "too_long" TooLong "the token has more than 4,096 bytes",
        "malformed" Malformed "the token is neither a bot token nor a JWT: both have three parts with dots between",
        "unknown" Unknown "the bot token was revoked, or is not one of this node",
        "revoked" Revoked "the token was revoked, alone or with all others of its account",
        "expired" Expired "the token has ended: its `exp` has passed",
        "not_yet_valid" NotYetValid "the token is not valid yet: its `nbf` is more than 30 seconds ahead of this node's clock",
        "algorithm" Algorithm "the token's `alg` is not taken: HS256 with this node's secret, or EdDSA or RS256 with a key of the set",
        "unknown_key" UnknownKey "the token names a key (`kid`) that is not in the key set, or there is no key set",
        "signature" Signature "the token's signature does not fit the key: another key, or a changed token",
        "claims" Claims "the token's claims cannot be read: `exp` must be a number, and the claim of the account must be there",
        "issuer" Issuer "the token's `iss` is not auth.jwt_issuer",
        "audience" Audience "the token's `aud` does not contain auth.jwt_audience",
        "subject" Subject "the token's subject claim is not the id of an account: digits, above 0 and below 2^63",
        "unknown_account" UnknownAccount "the token is good, but its account does not exist: PUT it below /v1/users first",
        "bot_account" BotAccount "the token stands for a bot: bots need a bot token, which POST …/tokens of the account mints",
    }
}

faults! {
    /// Why a key of the backend API is refused.
    KeyFault of "a key" {
        "missing" Missing "there is no key: send `Authorization: Bearer KEY`",
        "unknown" Unknown "the key was revoked, or is not one of this node",
        "rate_limited" RateLimited "the address sent too many wrong keys",
        "scope" Scope "the key does not have the scope that the request needs",
        "account" Account "the key is limited to accounts, and the request is about another one",
    }
}

#[derive(Debug)]
struct Slot {
    count: AtomicU64,
    logged_at_ms: AtomicI64,
    logged_count: AtomicU64,
}

/// Counters of one set.
#[derive(Debug)]
pub(crate) struct Refusals<F> {
    slots: Vec<Slot>,
    of: std::marker::PhantomData<F>,
}

impl<F: Fault> Refusals<F> {
    pub(crate) fn new() -> Self {
        let slot = |_: &F| Slot {
            count: AtomicU64::new(0),
            logged_at_ms: AtomicI64::new(i64::MIN),
            logged_count: AtomicU64::new(0),
        };
        Self { slots: F::ALL.iter().map(slot).collect(), of: std::marker::PhantomData }
    }

    /// Counts a refusal. If its reason is to be logged now: how many there were since the last line.
    fn take(&self, fault: F, now: Timestamp) -> Option<u64> {
        let slot = &self.slots[F::ALL.iter().position(|known| *known == fault)?];
        let count = slot.count.fetch_add(1, Ordering::Relaxed) + 1;
        let logged_at_ms = slot.logged_at_ms.load(Ordering::Relaxed);
        let is_due = now.0.saturating_sub(logged_at_ms) >= LOG_EVERY_MS;
        // Of several threads one logs.
        let logs = is_due
            && slot.logged_at_ms.compare_exchange(logged_at_ms, now.0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        logs.then(|| count.saturating_sub(slot.logged_count.swap(count, Ordering::Relaxed)))
    }

    pub(crate) fn refuse(&self, fault: F, now: Timestamp) {
        if let Some(count) = self.take(fault, now) {
            tracing::info!(what = F::WHAT, reason = fault.name(), count, "refused: {fault}");
        }
    }

    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = self.slots.iter().map(|slot| slot.count.load(Ordering::Relaxed));
        F::ALL.iter().map(|fault| fault.name()).zip(counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r1_all_are_counted_and_few_are_logged() {
        let refusals = Refusals::<TokenFault>::new();
        let take = |fault, ms| refusals.take(fault, Timestamp(ms));
        assert_eq!(take(TokenFault::Expired, 1_000), Some(1));
        assert_eq!(take(TokenFault::Expired, 1_001), None);
        assert_eq!(take(TokenFault::Audience, 1_001), Some(1), "another reason");
        assert_eq!(take(TokenFault::Expired, 5_999), None);
        assert_eq!(take(TokenFault::Expired, 6_000), Some(3));
        assert_eq!(take(TokenFault::Expired, 3_000), None, "the clock was put back");
        let counts = refusals.counts();
        assert_eq!(counts.len(), TokenFault::ALL.len());
        assert_eq!(
            counts.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
            [&("expired", 5), &("audience", 1)]
        );
    }
}
