//! Review hook: a service that decides on messages before they are published (`hook.url`).
//!
//! Owns        the request for a text, its signature, and the breaker that spares a service which does not answer.
//! Invariants  V1 `hook.on_failure` decides on a text without a decision in time. V2 while the breaker is open,
//!             no message waits: one at a time probes the service. (tests `it/review_hook.rs`)
//! Limits      `timeout_ms`, `requests_max` at once, `ANSWER_BYTES_MAX`; `FAILURES_MAX` failures in a row open the
//!             breaker for `OPEN_MAX`.
//! Not here    which texts are reviewed: `guildhall_node::Hooks`.     Spec  docs/backend-api.md "A
//!             hook before delivery".

use crate::{secrets::secret, start_error::StartError};
use async_trait::async_trait;
use aws_lc_rs::hmac;
use bytes::Bytes;
use guildhall_http_client::{Connect, PoolClient, PoolLimits, pool, trust};
use guildhall_model::{ChannelId, GuildId, MessageId};
use guildhall_node::{Author, Draft, PollDraft, Review, ReviewMessage};
use guildhall_settings::{HookConfig, HookFailure};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, StatusCode, Uri, header};
use serde::{Deserialize, Serialize};
use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::{sync::Semaphore, time::timeout};

/// A message has 2,000 characters, with escapes 12,000 bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Failures in a row after which the service is spared.
const FAILURES_MAX: u32 = 10;
/// Time until the next request after that.
const OPEN_MAX: Duration = Duration::from_secs(1);
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Body of a request.
#[derive(Serialize)]
struct Question<'a> {
    /// Null: a direct message.
    guild_id: Option<GuildId>,
    /// Null: the channel of the webhook.
    channel_id: Option<ChannelId>,
    author: AuthorBody,
    /// The message that is edited; null: a new one.
    message_id: Option<MessageId>,
    content: &'a str,
    embeds: &'a [serde_json::Value],
    components: &'a [serde_json::Value],
    attachments: &'a [guildhall_model::NewAttachment],
    /// Null: it has none.
    poll: Option<PollQuestion<'a>>,
}

#[derive(Serialize)]
struct PollQuestion<'a> {
    question: &'a str,
    /// Null: an emoji alone.
    answers: Vec<Option<&'a str>>,
}

impl<'a> From<PollDraft<'a>> for PollQuestion<'a> {
    fn from(PollDraft { question, answers }: PollDraft<'a>) -> Self {
        Self { question, answers: answers.iter().map(|answer| answer.text.as_deref()).collect() }
    }
}

#[derive(Serialize)]
struct AuthorBody {
    kind: &'static str,
    id: String,
}

/// Body of an answer. Unknown fields are ignored.
#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
enum Answer {
    Publish,
    Replace { content: String },
    Refuse { message: Option<String> },
}

/// Why there is no decision.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("it did not answer in time")]
    TooSlow,
    #[error("too many requests are under way: raise hook.requests_max")]
    Full,
    #[error("it failed before, and is tried again within a second")]
    Open,
    #[error("it cannot be reached, or speaks no HTTP")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("it answered {0}")]
    Status(StatusCode),
    #[error("its answer is no decision")]
    Malformed(#[source] serde_json::Error),
    #[error("its answer broke off, or is too large")]
    Answer(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// State of the service.
#[derive(Debug, Default)]
struct Breaker {
    failures: u32,
    /// Set while it is open.
    next_at: Option<Instant>,
}

type Client = PoolClient<Connect, Full<Bytes>>;

/// A hook before delivery, which an HTTP server of the operator answers.
pub struct ReviewHook {
    client: Client,
    url: Uri,
    key: hmac::Key,
    within: Duration,
    on_failure: HookFailure,
    places: Arc<Semaphore>,
    breaker: Mutex<Breaker>,
}

impl ReviewHook {
    /// None: no hook is set.
    ///
    /// # Errors
    /// `SecretFile`, `SecretTooShort`, `HookSecret` without a secret, `HookTrust`.
    pub fn of(config: &HookConfig) -> Result<Option<Self>, StartError> {
        let Some(url) = &config.url else { return Ok(None) };
        let secret = secret("hook.secret_file", &config.secret, &config.secret_file)?.ok_or(StartError::HookSecret)?;
        let tls = match url.is_https() {
            true => Some(trust(config.ca_file.as_deref()).map_err(StartError::HookTrust)?),
            false => None,
        };
        let within = Duration::from_millis(config.timeout_ms.into());
        let requests_max = config.requests_max as usize;
        let limits = PoolLimits { connect_within: within, idle_connections_max: requests_max, idle_max: IDLE_MAX };
        Ok(Some(Self {
            client: pool(tls, limits),
            url: url.uri().clone(),
            key: hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes()),
            within,
            on_failure: config.on_failure,
            places: Arc::new(Semaphore::new(requests_max)),
            breaker: Mutex::default(),
        }))
    }

    fn request(&self, draft: &Draft<'_>) -> Request<Full<Bytes>> {
        let is_direct = draft.channel_id.is_some_and(|channel_id| channel_id.get() == draft.guild_id.get());
        let author = match draft.author {
            Author::User(id) => AuthorBody { kind: "user", id: id.to_string() },
            Author::Webhook(id) => AuthorBody { kind: "webhook", id: id.to_string() },
        };
        let question = Question {
            guild_id: (!is_direct).then_some(draft.guild_id),
            channel_id: draft.channel_id,
            author,
            message_id: draft.edited,
            content: draft.content,
            embeds: draft.embeds,
            components: draft.components,
            attachments: draft.attachments,
            poll: draft.poll.map(Into::into),
        };
        let body = serde_json::to_vec(&question).unwrap_or_default();
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let signature = signature(&self.key, at, &body);
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        headers.insert("guildhall-timestamp", header::HeaderValue::from(at));
        if let Ok(signature) = signature.parse() {
            headers.insert("guildhall-signature", signature);
        }
        request
    }

    async fn decide(&self, draft: &Draft<'_>) -> Result<Review, Failure> {
        self.admit()?;
        let _place = self.places.try_acquire().map_err(|_| Failure::Full)?;
        let exchange = async {
            let answer = self.client.request(self.request(draft)).await;
            let answer = answer.map_err(|error| Failure::Unreachable(error.into()))?;
            let status = answer.status();
            if status == StatusCode::NO_CONTENT {
                return Ok(Answer::Publish);
            }
            if status != StatusCode::OK {
                return Err(Failure::Status(status));
            }
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(Failure::Answer)?;
            serde_json::from_slice(&body.to_bytes()).map_err(Failure::Malformed)
        };
        let answer = timeout(self.within, exchange).await.unwrap_or(Err(Failure::TooSlow))?;
        Ok(match answer {
            Answer::Publish => Review::Publish,
            Answer::Replace { content } => Review::Replace(content),
            Answer::Refuse { message: Some(message) } => Review::RefuseWith(message),
            Answer::Refuse { message: None } => Review::Refuse,
        })
    }

    /// Refuses a request while the breaker is open; lets one through at its end.
    fn admit(&self) -> Result<(), Failure> {
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match breaker.next_at {
            Some(at) if now < at => Err(Failure::Open),
            Some(_) => {
                breaker.next_at = Some(now + OPEN_MAX);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn note(&self, failure: Option<&Failure>) {
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(failure) = failure else {
            if breaker.next_at.is_some() {
                tracing::info!("the hook before delivery answers again");
            }
            *breaker = Breaker::default();
            return;
        };
        breaker.failures = breaker.failures.saturating_add(1);
        if breaker.failures >= FAILURES_MAX && breaker.next_at.is_none() {
            breaker.next_at = Some(Instant::now() + OPEN_MAX);
            tracing::error!(
                error = failure as &dyn std::error::Error,
                on_failure = if self.on_failure == HookFailure::Allow { "allow" } else { "refuse" },
                "the hook before delivery does not decide: it is tried once a second"
            );
        }
    }
}

#[async_trait]
impl ReviewMessage for ReviewHook {
    async fn review(&self, draft: Draft<'_>) -> Review {
        let failure = match self.decide(&draft).await {
            Ok(review) => {
                self.note(None);
                return review;
            }
            Err(failure) => failure,
        };
        // These two are no news of the service.
        if !matches!(failure, Failure::Full | Failure::Open) {
            self.note(Some(&failure));
        }
        match self.on_failure {
            HookFailure::Allow => Review::Unreviewed,
            HookFailure::Refuse => Review::Unavailable,
        }
    }
}

/// `v1=` and the HMAC-SHA256 of `TIMESTAMP.BODY`, in hexadecimal.
fn signature(key: &hmac::Key, at: u64, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(key);
    context.update(at.to_string().as_bytes());
    context.update(b".");
    context.update(body);
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
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac secret
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"secret");
        assert_eq!(
            signature(&key, 1_700_000_000, b"{}"),
            "v1=b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163"
        );
    }
}
