//! REST rate limits, and limits on the size of requests, of one account, or of one peer without an account.
//!
//! Owns        `ApiLimits` (the operator's settings), the current windows, and the rate-limit headers.
//! Limits      `keys_max` windows for accounts and as many for peers; see `guildhall_http_kit::Limiter`.
//! Not here    authentication: `crate::middleware`.     Spec  docs/protocol/reference.md §10.1.

mod bucket;

pub use bucket::Bucket;

use crate::user_policy::UserPolicy;
use axum::http::{HeaderMap, HeaderValue};
use guildhall_http_kit::{Limiter, Rule, Verdict, network};
use guildhall_model::UserId;
use guildhall_stdx::{Instant, Now};
use std::{
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The rule of each bucket. A bucket without one is not limited and has no headers.
#[derive(Clone, Debug)]
pub struct RateRules([Option<Rule>; Bucket::COUNT]);

impl Default for RateRules {
    fn default() -> Self {
        let mut rules = [None; Bucket::COUNT];
        for bucket in Bucket::ALL {
            rules[*bucket as usize] = Some(bucket.default_rule());
        }
        Self(rules)
    }
}

impl RateRules {
    /// No rules at all.
    pub const NONE: Self = Self([None; Bucket::COUNT]);
}

/// Limits of the API. The default of each is safe on the open internet.
#[derive(Clone, Debug)]
pub struct ApiLimits {
    /// Rate limits by bucket.
    pub rates: RateRules,
    /// Windows remembered for accounts, and as many for peers. Some 100 bytes each.
    pub keys_max: usize,
    /// Longest JSON body of any route in bytes, and longest text of a multipart body. Most routes have a lower limit.
    pub json_bytes_max: usize,
    /// Longest multipart body in bytes.
    pub multipart_bytes_max: usize,
    /// A body must have arrived this many milliseconds after its headers.
    pub body_deadline_ms: u64,
    /// The same, with files that may be sent.
    pub upload_deadline_ms: u64,
    /// An answer must be ready this many milliseconds after the headers arrived, otherwise it is 503, and the command
    /// may have been executed all the same. Form data has `upload_deadline_ms` more.
    pub answer_deadline_ms: u64,
    /// Bytes of bodies that arrive at the same time, over all requests. The share of an account, webhook or address is
    /// an eighth, and at least one body of the largest size. Past either a request gets 503.
    pub bodies_bytes_max: usize,
    /// Bytes of JSON trees over all requests. The share of an account, webhook or address is a quarter. A request past
    /// either limit gets 503.
    pub trees_bytes_max: usize,
    /// Requests in flight. The share of an account or address is a quarter. Past either a request gets 503.
    pub requests_in_flight_max: usize,
    /// Requests with files at the same time, some 300 KiB of memory each. Past it a request with files gets 503.
    pub uploads_in_flight_max: usize,
    /// Actions that accounts may perform themselves.
    pub users: UserPolicy,
    /// Searches at the same time: one for members reads a whole guild on a thread of its own, one for messages has a
    /// connection to the database for two seconds at most. Others wait.
    pub searches_in_flight_max: usize,
    /// Whether interactions may go to addresses of private networks, and to http:// URLs.
    pub private_endpoints: bool,
}

impl Default for ApiLimits {
    fn default() -> Self {
        Self {
            rates: RateRules::default(),
            keys_max: 100_000,
            json_bytes_max: 6 << 20,
            multipart_bytes_max: 25 << 20,
            body_deadline_ms: 30_000,
            upload_deadline_ms: 120_000,
            answer_deadline_ms: 60_000,
            bodies_bytes_max: 64 << 20,
            trees_bytes_max: 96 << 20,
            requests_in_flight_max: 2048,
            uploads_in_flight_max: 32,
            searches_in_flight_max: 2,
            private_endpoints: false,
            users: UserPolicy::OPEN,
        }
    }
}

impl ApiLimits {
    /// No rate limits and no rate-limit headers, for tests and benches. Sizes and deadlines stay.
    #[must_use]
    pub fn unlimited() -> Self {
        Self { rates: RateRules::NONE, ..Self::default() }
    }

    /// All rates multiplied by `factor` (at least one request per window remains).
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        for rule in self.rates.0.iter_mut().flatten() {
            // The cast saturates, also for a factor that is not a number.
            rule.limit = ((f64::from(rule.limit) * factor) as u32).max(1);
        }
        self
    }

    /// With another rule for one bucket, or none.
    #[must_use]
    pub fn with_rule(mut self, bucket: Bucket, rule: Option<Rule>) -> Self {
        self.rates.0[bucket as usize] = rule;
        self
    }

    /// The rule of a bucket.
    #[must_use]
    pub fn rule(&self, bucket: Bucket) -> Option<Rule> {
        self.rates.0[bucket as usize]
    }
}

/// Account, bucket, and the channel or guild of the request (0: none).
type AccountKey = (UserId, Bucket, u64);
/// Network, and whether it counts wrong tokens.
type PeerKey = (u128, Bucket);

/// The live limits of a node.
#[derive(Debug)]
pub(crate) struct RateLimits {
    limits: ApiLimits,
    accounts: Mutex<Limiter<AccountKey>>,
    peers: Mutex<Limiter<PeerKey>>,
}

/// A rule's word on one request; none when there is no rule.
pub(crate) type Checked = Option<(Bucket, Verdict)>;

impl RateLimits {
    pub fn new(limits: ApiLimits) -> Self {
        Self {
            accounts: Mutex::new(Limiter::new(limits.keys_max)),
            peers: Mutex::new(Limiter::new(limits.keys_max)),
            limits,
        }
    }

    /// Counts a request of an account.
    pub fn take(&self, now: Instant, user_id: UserId, bucket: Bucket, about: u64) -> Checked {
        let rule = self.limits.rule(bucket)?;
        Some((bucket, lock(&self.accounts).take(now, (user_id, bucket, about), rule)))
    }

    /// Counts the size of an admitted request's event against its account.
    pub fn charge(&self, now: Instant, user_id: UserId, bucket: Bucket, cost: u32) {
        if let Some(rule) = self.limits.rule(bucket).filter(|_| cost > 0) {
            lock(&self.accounts).charge(now, (user_id, bucket, 0), rule, cost);
        }
    }

    /// Counts a request of a peer.
    pub fn take_peer(&self, now: Instant, peer: IpAddr, bucket: Bucket) -> Checked {
        let rule = self.limits.rule(bucket)?;
        Some((bucket, lock(&self.peers).take(now, (network(peer), bucket), rule)))
    }

    /// The refusal a peer's next request would get. Counts nothing.
    pub fn peer_refusal(&self, now: Instant, peer: IpAddr, bucket: Bucket) -> Checked {
        let rule = self.limits.rule(bucket)?;
        lock(&self.peers).refusal(now, (network(peer), bucket), rule).map(|verdict| (bucket, verdict))
    }
}

/// A panic while the lock was held loses at most one window.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds as seconds with three decimals.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// Writes the rate-limit headers of a bucket.
pub(crate) fn write_headers(headers: &mut HeaderMap, now: Now, bucket: Bucket, verdict: Verdict) {
    let reset_ms = u64::try_from(now.unix.0).unwrap_or(0).saturating_add(verdict.reset_after_ms);
    for (name, value) in [
        ("x-ratelimit-limit", verdict.limit.to_string()),
        ("x-ratelimit-remaining", verdict.remaining.to_string()),
        ("x-ratelimit-reset", seconds(reset_ms)),
        ("x-ratelimit-reset-after", seconds(verdict.reset_after_ms)),
        ("x-ratelimit-bucket", bucket.wire_name()),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_keep_milliseconds() {
        assert_eq!(seconds(250), "0.250");
        assert_eq!(seconds(1_714_564_800_007), "1714564800.007");
    }

    #[test]
    fn scaling_keeps_one_request() {
        let limits = ApiLimits::default().scaled(0.001);
        assert_eq!(limits.rule(Bucket::Global), Some(Rule { limit: 1, period_ms: 1000 }));
        assert_eq!(ApiLimits::default().scaled(f64::NAN).rule(Bucket::Global).unwrap().limit, 1);
        assert_eq!(ApiLimits::default().scaled(10.0).rule(Bucket::MessageCreate).unwrap().limit, 50);
        assert_eq!(ApiLimits::unlimited().scaled(10.0).rule(Bucket::Global), None);
    }

    #[test]
    fn headers_of_a_verdict() {
        let mut headers = HeaderMap::new();
        let verdict = Verdict { admitted: true, limit: 5, remaining: 4, reset_after_ms: 4999 };
        write_headers(&mut headers, Now::new(7, 1_714_564_800_001), Bucket::MessageCreate, verdict);
        assert_eq!(headers["x-ratelimit-limit"], "5");
        assert_eq!(headers["x-ratelimit-remaining"], "4");
        assert_eq!(headers["x-ratelimit-reset"], "1714564805.000");
        assert_eq!(headers["x-ratelimit-reset-after"], "4.999");
        assert_eq!(headers["x-ratelimit-bucket"], Bucket::MessageCreate.wire_name());
    }
}
