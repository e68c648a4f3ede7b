//! Keys by URL: other issuers' public keys (`auth.jwks_url`), fetched at the start, regularly, and when a token names
//! an unknown one.
//!
//! Owns        the task that fetches, and its times (`Schedule`).
//! Invariants  U1 a failed fetch, or an invalid set, changes nothing: the current keys stay, and the log has the
//!             reason. A set without keys is valid. U2 no request waits for a fetch: a token whose key may arrive soon
//!             is answered with "try again". U3 unknown keys lead to at most one fetch per `unknown_every`, for any
//!             number of tokens. U4 without TLS only this machine is contacted. (tests)
//! Limits      `ANSWER_BYTES_MAX`, `TIMEOUT` for the whole exchange; no redirects.
//! Not here    requirements on tokens: `guildhall_node::Issuers`.

use crate::issuers::terms;
use guildhall_http_client::{Client, RequestError, TrustError, request, trust};
use guildhall_node::{Issuers, IssuersError, Node};
use guildhall_settings::{AuthConfig, HttpUrl};
use http_body_util::Full;
use hyper::{Method, StatusCode, header};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{sync::Notify, task::JoinHandle};

/// As much as a set of keys may have.
const ANSWER_BYTES_MAX: usize = 256 << 10;
const TIMEOUT: Duration = Duration::from_secs(10);
/// The first pause after a failure; it doubles up to the time between two fetches.
const RETRY: Duration = Duration::from_secs(1);
const UNKNOWN_EVERY_MAX: Duration = Duration::from_secs(30);

/// Why keys were not fetched.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("its answer cannot be used")]
    Unusable(#[from] IssuersError),
}

/// Times of fetches, and the answer for tokens with unknown keys.
#[derive(Debug)]
struct Schedule {
    state: Mutex<State>,
    wanted: Notify,
    unknown_every: Duration,
}

#[derive(Debug)]
struct State {
    has_keys: bool,
    is_fetching: bool,
    /// A token named an unknown key, and the fetch for it has not started.
    is_asked: bool,
    may_ask_at: Instant,
}

impl Schedule {
    fn new(refresh: Duration, now: Instant) -> Self {
        let unknown_every = (refresh / 10).clamp(RETRY, UNKNOWN_EVERY_MAX);
        let state = State { has_keys: false, is_fetching: false, is_asked: false, may_ask_at: now };
        Self { state: Mutex::new(state), wanted: Notify::new(), unknown_every }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a token with an unknown key. Returns whether the key may arrive soon.
    fn unknown_key(&self, now: Instant) -> bool {
        let mut state = self.state();
        if !state.has_keys || state.is_fetching || state.is_asked {
            return true;
        }
        if now < state.may_ask_at {
            return false;
        }
        (state.is_asked, state.may_ask_at) = (true, now + self.unknown_every);
        self.wanted.notify_one();
        true
    }

    fn begin(&self) {
        let mut state = self.state();
        (state.is_fetching, state.is_asked) = (true, false);
    }

    fn end(&self, has_worked: bool) {
        let mut state = self.state();
        state.is_fetching = false;
        state.has_keys |= has_worked;
    }
}

/// Fetches the key set until it is dropped.
#[derive(Debug)]
pub struct Fetching(JoinHandle<()>);

impl Drop for Fetching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts fetching. None if no URL is named. The node starts even if the server does not answer.
///
/// # Errors
/// There are no certificates to authenticate the server.
///
/// # Panics
/// Outside a tokio runtime.
pub fn start(auth: &AuthConfig, node: &Node) -> Result<Option<Fetching>, TrustError> {
    let Some(url) = auth.jwks_url.clone() else { return Ok(None) };
    let tls = if url.is_https() { Some(trust(auth.jwks_ca_file.as_deref())?) } else { None };
    let client = Client { server: "it", tls, within: TIMEOUT };
    let refresh = Duration::from_secs(auth.jwks_refresh_s.into());
    let schedule = Arc::new(Schedule::new(refresh, Instant::now()));
    let of_tokens = schedule.clone();
    node.on_unknown_key(Arc::new(move || of_tokens.unknown_key(Instant::now())));
    let (terms, node) = (terms(auth), node.clone());
    let task = tokio::spawn(async move {
        let mut failures = 0;
        loop {
            schedule.begin();
            let fetched = fetch(&client, &url).await;
            let fetched = fetched.and_then(|text| Ok(Issuers::parse(&text, terms.clone())?));
            let has_worked = fetched.is_ok();
            match fetched {
                Ok(issuers) => {
                    tracing::debug!(host = url.host(), keys = issuers.keys_count(), "keys of other issuers");
                    if issuers.keys_count() == 0 {
                        tracing::warn!(
                            host = url.host(),
                            "the key set is empty: every token of the sign-on is refused"
                        );
                    }
                    node.set_issuers(Some(issuers));
                    failures = 0;
                }
                Err(error) => {
                    failures += 1;
                    tracing::error!(
                        host = url.host(),
                        failures,
                        error = &error as &dyn std::error::Error,
                        "the key set cannot be fetched: the previous keys stay in force"
                    );
                }
            }
            schedule.end(has_worked);
            let pause = pause(refresh, failures);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = schedule.wanted.notified() => {}
            }
        }
    });
    Ok(Some(Fetching(task)))
}

/// Delay until the next fetch, after a number of consecutive failures.
fn pause(refresh: Duration, failures: u32) -> Duration {
    match failures {
        0 => refresh,
        _ => RETRY.saturating_mul(1 << (failures - 1).min(16)).min(refresh),
    }
}

/// Whether there are authorities to verify the URL's server.
///
/// # Errors
/// [`TrustError`].
pub fn check(auth: &AuthConfig) -> Result<(), TrustError> {
    match &auth.jwks_url {
        Some(url) if url.is_https() => trust(auth.jwks_ca_file.as_deref()).map(drop),
        _ => Ok(()),
    }
}

async fn fetch(client: &Client, url: &HttpUrl) -> Result<String, FetchError> {
    let request = request(Method::GET, url.uri(), url.path())
        .header(header::ACCEPT, "application/jwk-set+json, application/json")
        .header(header::USER_AGENT, concat!("guildhall/", env!("CARGO_PKG_VERSION")))
        .body(Full::default())
        .map_err(|_| RequestError::Name)?;
    let answer = client.send(url.uri(), request, ANSWER_BYTES_MAX).await?;
    if answer.status() != StatusCode::OK {
        return Err(RequestError::Status(client.server, answer.status()).into());
    }
    // Invalid UTF-8 is reported as an invalid key set.
    Ok(String::from_utf8_lossy(answer.body()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u3_unknown_keys_lead_to_one_fetch_per_interval() {
        let now = Instant::now();
        let schedule = Schedule::new(Duration::from_secs(100), now);
        assert!(schedule.unknown_key(now), "none were fetched yet: soon");
        schedule.begin();
        schedule.end(true);
        assert!(schedule.unknown_key(now), "it is asked for");
        assert!(schedule.unknown_key(now), "and on its way");
        schedule.begin();
        assert!(schedule.unknown_key(now));
        schedule.end(false);
        let later = |s| now + Duration::from_secs(s);
        assert!(!schedule.unknown_key(later(1)), "it is not there");
        assert!(!schedule.unknown_key(later(9)));
        assert!(schedule.unknown_key(later(10)), "once more");
    }

    #[test]
    fn pauses_grow_to_the_usual_one() {
        let refresh = Duration::from_secs(300);
        let pauses: Vec<u64> = (0..12).map(|failures| pause(refresh, failures).as_secs()).collect();
        assert_eq!(pauses, [300, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(pause(refresh, u32::MAX).as_secs(), 300);
    }
}
