//! Deliveries: the events of the feed, sent to webhooks.
//!
//! Owns        the task that delivers for each webhook; the request and its signature.
//! Invariants  D1 a webhook gets its events in their order, one request after the other: a request is repeated until it
//!             is answered with 2xx, or becomes a dead letter. D2 its progress is stored after each answer, so that an
//!             event may come twice, but is never left out; a gap because of removed events is reported (`lost`). D3
//!             one node of a cluster delivers, that with the smallest number; when that changes, two may send the same
//!             request. (tests `backend_webhooks.rs`, `nodes_webhooks.rs` of
//!             `guildhall/tests/it`)
//! Limits      `BATCH` events and `BODY_BYTES_MAX` of a request; `ANSWER_MAX` for an answer, of which nothing is read
//!             but the status; `TRIES_MAX` attempts with `BACK_OFF` between; then `webhooks::DEAD_LETTERS_MAX`.
//! Not here    the check of addresses: `guildhall_http_client::Guarded`.     Spec  docs/backend-api.md "Webhooks".

use super::{
    V1,
    error::V1Error,
    events::{Begin, EventBody, Read, read},
    webhooks::{self, DEAD_LETTERS_MAX, DeadLetter, Progress, Webhook},
};
use aws_lc_rs::hmac;
use axum::{
    body::Bytes,
    http::{HeaderName, HeaderValue, header},
};
use guildhall_cluster::NodeState;
use guildhall_http_client::{Guarded, GuardedError};
use guildhall_store::{StoreError, StoredEvent};
use serde::Serialize;
use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{sleep, timeout},
};

const BATCH: u32 = 100;
const BODY_BYTES_MAX: usize = 256 << 10;
const ANSWER_MAX: Duration = Duration::from_secs(10);
const TRIES_MAX: u32 = 8;
/// The first pause after a failure, and the longest; it doubles, and up to half of it is added at random.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Pause after a failure of the store.
const STORE_RETRY: Duration = Duration::from_secs(1);
/// How often a node of a cluster looks whether it delivers, and whether another one changed a webhook.
const POLL: Duration = Duration::from_secs(1);
/// Events of others after which a webhook stores its progress.
const SKIPPED_MAX: u64 = 5_000;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Guarded(#[from] GuardedError),
    #[error("it did not answer within 10 seconds")]
    TooSlow,
    #[error("it answered {0}")]
    Status(u16),
    #[error("its signature is no header")]
    Signature,
}

/// The deliverer.
pub(super) struct Deliveries {
    wake: Arc<Notify>,
    worker: OnceLock<Worker>,
    pub guarded: Guarded,
}

/// Dropping it ends the task. A request in progress is repeated after the next start.
struct Worker(JoinHandle<()>);

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Deliveries {
    pub fn new(private_webhooks: bool) -> Self {
        let guarded = Guarded::new("events.private_webhooks", private_webhooks);
        Self { wake: Arc::default(), worker: OnceLock::new(), guarded }
    }

    /// Starts delivering, if the node keeps events.
    pub fn start(v1: &Arc<V1>) {
        if v1.limits.keeps_events {
            let task = tokio::spawn(supervise(Arc::downgrade(v1), v1.deliveries.wake.clone()));
            let _ = v1.deliveries.worker.set(Worker(task));
        }
    }

    /// A webhook was created, changed or deleted.
    pub fn changed(&self) {
        self.wake.notify_one();
    }
}

/// Whether this node delivers.
fn is_deliverer(v1: &V1) -> bool {
    let Some(membership) = v1.node.membership() else { return true };
    let active = membership.members().into_iter().filter(|(_, record)| record.state == NodeState::Active);
    membership.is_serving() && active.map(|(number, _)| number).min() == Some(membership.number())
}

/// Runs a task per webhook.
async fn supervise(v1: Weak<V1>, wake: Arc<Notify>) {
    let mut running: HashMap<u64, (Webhook, Worker)> = HashMap::new();
    loop {
        let Some(api) = v1.upgrade() else { return };
        let is_cluster = api.node.membership().is_some();
        let mut failed = false;
        if is_deliverer(&api) {
            match webhooks::all(&api).await {
                Ok(all) => {
                    running.retain(|_, (webhook, worker)| all.contains(webhook) && !worker.0.is_finished());
                    for webhook in all.into_iter().filter(|webhook| !webhook.is_paused) {
                        running.entry(webhook.id).or_insert_with(|| {
                            let task = tokio::spawn(deliver(v1.clone(), wake.clone(), webhook.clone()));
                            (webhook, Worker(task))
                        });
                    }
                }
                Err(error) => {
                    failed = true;
                    tracing::warn!(error = &error as &dyn std::error::Error, "webhooks cannot be read: it is retried");
                }
            }
        } else {
            running.clear();
        }
        drop(api);
        if is_cluster || failed {
            let _ = timeout(POLL, wake.notified()).await;
        } else {
            wake.notified().await;
        }
    }
}

/// Body of a request.
#[derive(Serialize)]
struct BatchBody<'a> {
    webhook_id: String,
    /// Events before the first were removed before they could be sent.
    lost: bool,
    events: &'a [EventBody],
}

/// Delivers to one webhook until it is paused, or the task is dropped.
async fn deliver(v1: Weak<V1>, wake: Arc<Notify>, webhook: Webhook) {
    let mut delivery = Delivery { webhook, progress: Progress::default(), skipped_from: 0, lost: false };
    let mut is_begun = false;
    loop {
        let Some(api) = v1.upgrade() else { return };
        if !is_begun {
            match webhooks::progress(&api, delivery.webhook.id).await {
                Ok(progress) => {
                    delivery.skipped_from = progress.position;
                    delivery.progress = progress;
                    is_begun = true;
                }
                Err(_) => {
                    drop(api);
                    sleep(STORE_RETRY).await;
                    continue;
                }
            }
        }
        let mut news = api.events.subscribe();
        news.mark_unchanged();
        match delivery.step(&api).await {
            Ok(Step::More) => {}
            Ok(Step::Wait) => {
                drop(api);
                // An error means that the API is dropped.
                if news.changed().await.is_err() {
                    return;
                }
            }
            Ok(Step::Paused) => {
                wake.notify_one();
                return;
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a delivery waits for the store");
                drop(api);
                sleep(STORE_RETRY).await;
            }
        }
    }
}

enum Step {
    /// There may be further events.
    More,
    /// The feed is at its end.
    Wait,
    /// It has too many dead letters.
    Paused,
}

struct Delivery {
    webhook: Webhook,
    progress: Progress,
    /// Position of the stored progress.
    skipped_from: u64,
    /// Events were removed before they could be sent.
    lost: bool,
}

impl Delivery {
    /// Sends the next events.
    async fn step(&mut self, v1: &V1) -> Result<Step, StoreError> {
        let from = Begin::After(self.progress.position);
        let Read { events, next, is_end } = match read(v1, from, self.webhook.filter(), BATCH).await {
            Ok(read) => read,
            Err(error) => return self.restart(v1, &error).await,
        };
        let webhook = self.webhook.clone();
        let mut rest = events.into_iter().filter(|event| webhook.wants(event)).peekable();
        while rest.peek().is_some() {
            let batch = batch(&mut rest);
            let (Some(first), Some(last)) = (batch.first(), batch.last()) else { continue };
            let (first, last) = (first.position(), last.position());
            let body = self.body(&batch);
            if let Err(fault) = self.send(v1, &body).await
                && self.bury(v1, body, (first, last, batch.len()), fault).await?
            {
                return Ok(Step::Paused);
            }
            self.lost = false;
            self.reach(v1, last).await?;
        }
        self.progress.position = next;
        if next.saturating_sub(self.skipped_from) >= SKIPPED_MAX {
            self.reach(v1, next).await?;
        }
        Ok(if is_end { Step::Wait } else { Step::More })
    }

    /// Continues at the oldest event, if those before it are gone.
    async fn restart(&mut self, v1: &V1, error: &V1Error) -> Result<Step, StoreError> {
        let bounds = v1.node.store().event_bounds().await?;
        if self.progress.position >= bounds.pruned && self.progress.position <= bounds.newest {
            // The store failed.
            return Err(StoreError::Closed);
        }
        tracing::warn!(webhook = self.webhook.id, reason = %error.message, "events were removed before a webhook got them");
        self.lost = true;
        self.reach(v1, bounds.pruned).await?;
        Ok(Step::More)
    }

    fn body(&self, events: &[EventBody]) -> String {
        let body = BatchBody { webhook_id: self.webhook.id.to_string(), lost: self.lost, events };
        serde_json::to_string(&body).unwrap_or_default()
    }

    /// Stores the progress.
    async fn reach(&mut self, v1: &V1, position: u64) -> Result<(), StoreError> {
        self.progress.position = position;
        self.skipped_from = position;
        webhooks::put_progress(v1, self.webhook.id, &self.progress).await
    }

    /// Sends until it succeeds, `TRIES_MAX` times.
    async fn send(&mut self, v1: &V1, body: &str) -> Result<(), Fault> {
        let mut pause = BACK_OFF.0;
        for attempt in 1.. {
            let fault = match send(v1, &self.webhook, body).await {
                Ok(()) => {
                    (self.progress.error, self.progress.failing_since_ms) = (None, None);
                    return Ok(());
                }
                Err(fault) => fault,
            };
            self.progress.error = Some(fault.to_string());
            let since = v1.now().unix.0;
            self.progress.failing_since_ms.get_or_insert(since);
            if attempt >= TRIES_MAX {
                return Err(fault);
            }
            // It shows the error; without it the delivery goes on.
            let _ = webhooks::put_progress(
                v1,
                self.webhook.id,
                &Progress { position: self.skipped_from, ..self.progress.clone() },
            )
            .await;
            sleep(jittered(pause)).await;
            pause = (pause * 2).min(BACK_OFF.1);
        }
        Ok(())
    }

    /// Stores a dead letter. True if the webhook is paused, because it has too many: then its progress stays.
    async fn bury(
        &mut self,
        v1: &V1,
        body: String,
        (first, last, events): (u64, u64, usize),
        fault: Fault,
    ) -> Result<bool, StoreError> {
        let webhook = self.webhook.id;
        if webhooks::dead_letters(v1, webhook).await?.len() >= DEAD_LETTERS_MAX {
            tracing::error!(webhook, error = %fault, "a webhook has 100 dead letters: it is paused");
            webhooks::pause(v1, webhook).await?;
            return Ok(true);
        }
        tracing::warn!(webhook, events, error = %fault, "a delivery of events was given up: it is a dead letter");
        let Ok(body) = serde_json::value::RawValue::from_string(body) else { return Ok(false) };
        let error = fault.to_string();
        let letter = DeadLetter { id: last, error, at_ms: v1.now().unix.0, body, events, first, last };
        webhooks::put_dead_letter(v1, webhook, &letter).await?;
        Ok(false)
    }
}

/// As many events as a request has.
fn batch(rest: &mut std::iter::Peekable<impl Iterator<Item = StoredEvent>>) -> Vec<EventBody> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while let Some(next) = rest.peek() {
        if !batch.is_empty() && bytes + next.data.len() > BODY_BYTES_MAX {
            break;
        }
        bytes += next.data.len();
        batch.extend(rest.next().and_then(EventBody::of));
    }
    batch
}

/// Up to half of it longer, so that many webhooks of one server do not retry at once.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0];
    // Without randomness there is no jitter.
    let _ = aws_lc_rs::rand::fill(&mut byte);
    pause + pause * u32::from(byte[0]) / 512
}

/// Sends one request.
pub(super) async fn send(v1: &V1, webhook: &Webhook, body: &str) -> Result<(), Fault> {
    timeout(ANSWER_MAX, exchange(v1, webhook, body)).await.unwrap_or(Err(Fault::TooSlow))
}

async fn exchange(v1: &V1, webhook: &Webhook, body: &str) -> Result<(), Fault> {
    let at = v1.now().unix.0.div_euclid(1_000);
    let signature = HeaderValue::try_from(signature(&webhook.secret, at, body)).map_err(|_| Fault::Signature)?;
    let headers = [
        (header::USER_AGENT, HeaderValue::from_static("guildhall")),
        (HeaderName::from_static("guildhall-timestamp"), HeaderValue::from(at)),
        (HeaderName::from_static("guildhall-signature"), signature),
    ];
    let body = Bytes::from(body.to_owned());
    let response = v1.deliveries.guarded.post(&webhook.url, headers, body, 0).await?;
    if response.status().is_success() { Ok(()) } else { Err(Fault::Status(response.status().as_u16())) }
}

/// `v1=` and the HMAC-SHA256 of `TIMESTAMP.BODY`, in hexadecimal.
fn signature(secret: &str, at: i64, body: &str) -> String {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()));
    context.update(at.to_string().as_bytes());
    context.update(b".");
    context.update(body.as_bytes());
    let mut text = String::from("v1=");
    for byte in context.sign().as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_other_libraries() {
        assert_eq!(
            signature("secret", 1_700_000_000, "{}"),
            "v1=b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163"
        );
    }
}
