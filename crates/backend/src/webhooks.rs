//! Webhooks of the feed: registered, listed, changed, deleted; their dead letters.
//!
//! Owns        the records of webhooks (`Webhook`), of their progress (`Progress`) and of deliveries that were given up
//!             (`DeadLetter`).
//! Invariants  W1 the secret is in the answer that creates the webhook, and in no other. W2 a webhook names no address
//!             of a private network, unless `events.private_webhooks` allows it; its host is resolved again for each
//!             delivery.
//! Limits      `WEBHOOKS_MAX`, `NAMED_MAX` guilds and channels of each, `DEAD_LETTERS_MAX` of each.
//! Not here    deliveries: `deliveries`. Webhooks of channels, which post messages: `/api/v10`.
//!             Spec  docs/backend-api.md "Webhooks".

use super::{
    V1,
    audit::Made,
    caller::{Caller, Events},
    deliveries,
    error::V1Error,
    events::{self, Position, check_types},
    extract::{Body, Check, FieldErrors, Path},
    types::{Snowflake, Time},
};
use axum::{
    Extension, Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use guildhall_guild::FeedKind;
use guildhall_http_client::GuardedError;
use guildhall_stdx::Timestamp;
use guildhall_store::{EventFilter, StoreError, StoredEvent};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::sync::Arc;
use utoipa::ToSchema;

/// Kinds of records.
const WEBHOOKS: &str = "v1_webhook";
const PROGRESS: &str = "v1_webhook_at";
const DEAD_LETTERS: &str = "v1_webhook_dead";

const WEBHOOKS_MAX: usize = 100;
const NAMED_MAX: usize = 100;
const URL_CHARS_MAX: usize = 2_048;
/// Dead letters of one webhook; at the limit it is paused.
pub(super) const DEAD_LETTERS_MAX: usize = 100;

/// A webhook as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Webhook {
    pub id: u64,
    pub url: String,
    pub secret: String,
    /// Names of events; none: all.
    pub types: Vec<String>,
    /// Guilds whose events it gets; none: all.
    pub guild_ids: Vec<u64>,
    pub channel_ids: Vec<u64>,
    pub is_paused: bool,
    pub created_ms: i64,
}

impl Webhook {
    /// The part of its conditions by which the store filters.
    pub fn filter(&self) -> EventFilter {
        let one = |ids: &[u64]| if let [id] = ids { Some(*id) } else { None };
        let kinds = match &self.types[..] {
            [] => EventFilter::ALL,
            types => EventFilter::of_kinds(types.iter().filter_map(|name| FeedKind::from_name(name))),
        };
        EventFilter {
            guild_id: one(&self.guild_ids).map(guildhall_model::Id::new),
            channel_id: one(&self.channel_ids).map(guildhall_model::Id::new),
            ..kinds
        }
    }

    pub fn wants(&self, event: &StoredEvent) -> bool {
        let is_named = |ids: &[u64], id: Option<u64>| ids.is_empty() || id.is_some_and(|id| ids.contains(&id));
        is_named(&self.guild_ids, event.guild_id.map(guildhall_model::Id::get))
            && is_named(&self.channel_ids, event.channel_id.map(guildhall_model::Id::get))
    }
}

/// How far a webhook is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Everything up to it was delivered, or is a dead letter.
    pub position: u64,
    /// Why the last attempt failed; none: it did not.
    pub error: Option<String>,
    /// Time of the first failed attempt of this delivery.
    pub failing_since_ms: Option<i64>,
}

/// A delivery that was given up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DeadLetter {
    pub id: u64,
    pub error: String,
    pub at_ms: i64,
    /// Body of the request.
    pub body: Box<RawValue>,
    pub events: usize,
    pub first: u64,
    pub last: u64,
}

fn parsed<T: DeserializeOwned>(what: &'static str, data: &[u8]) -> Option<T> {
    let read = serde_json::from_slice(data);
    read.inspect_err(|error| tracing::error!(%error, what, "a stored record cannot be read: it is ignored")).ok()
}

fn encoded<T: Serialize>(what: &'static str, value: &T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|source| StoreError::Encode { what, source })
}

/// All webhooks, by id.
pub(super) async fn all(v1: &V1) -> Result<Vec<Webhook>, StoreError> {
    let records = v1.node.store().records(WEBHOOKS, &[], 2 * WEBHOOKS_MAX as u32).await?;
    Ok(records.iter().filter_map(|(_, data)| parsed("webhook", data)).collect())
}

async fn get(v1: &V1, id: u64) -> Result<Option<Webhook>, StoreError> {
    let data = v1.node.store().record(WEBHOOKS, &id.to_be_bytes()).await?;
    Ok(data.as_deref().and_then(|data| parsed("webhook", data)))
}

async fn put(v1: &V1, webhook: &Webhook) -> Result<(), StoreError> {
    v1.node.store().put_record(WEBHOOKS, &webhook.id.to_be_bytes(), &encoded("webhook", webhook)?).await
}

/// Stops a webhook whose deliveries fail for good.
pub(super) async fn pause(v1: &V1, id: u64) -> Result<(), StoreError> {
    let Some(webhook) = get(v1, id).await? else { return Ok(()) };
    put(v1, &Webhook { is_paused: true, ..webhook }).await
}

pub(super) async fn progress(v1: &V1, id: u64) -> Result<Progress, StoreError> {
    let data = v1.node.store().record(PROGRESS, &id.to_be_bytes()).await?;
    Ok(data.as_deref().and_then(|data| parsed("progress of a webhook", data)).unwrap_or_default())
}

pub(super) async fn put_progress(v1: &V1, id: u64, progress: &Progress) -> Result<(), StoreError> {
    let data = encoded("progress of a webhook", progress)?;
    v1.node.store().put_record(PROGRESS, &id.to_be_bytes(), &data).await
}

fn letter_key(webhook_id: u64, letter_id: u64) -> Vec<u8> {
    [webhook_id.to_be_bytes(), letter_id.to_be_bytes()].concat()
}

/// Dead letters of a webhook, oldest first.
pub(super) async fn dead_letters(v1: &V1, id: u64) -> Result<Vec<DeadLetter>, StoreError> {
    let store = v1.node.store();
    let records = store.records(DEAD_LETTERS, &letter_key(id, 0), DEAD_LETTERS_MAX as u32 + 1).await?;
    let own = records.iter().take_while(|(key, _)| key.starts_with(&id.to_be_bytes()));
    Ok(own.filter_map(|(_, data)| parsed("dead letter", data)).collect())
}

pub(super) async fn put_dead_letter(v1: &V1, webhook_id: u64, letter: &DeadLetter) -> Result<(), StoreError> {
    let data = encoded("dead letter", letter)?;
    v1.node.store().put_record(DEAD_LETTERS, &letter_key(webhook_id, letter.id), &data).await
}

/// A webhook to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewWebhook {
    /// Gets a POST with events. https://; http:// only with `events.private_webhooks`.
    #[schema(min_length = 1, max_length = 2048)]
    url: String,
    /// Names of events. Omitted or empty: all.
    #[serde(default)]
    #[schema(max_items = 64)]
    types: Vec<String>,
    /// Only events of these guilds. Omitted or empty: of all, and of direct messages.
    #[serde(default)]
    #[schema(max_items = 100)]
    guild_ids: Vec<Snowflake>,
    /// Only events of these channels. Omitted or empty: of all, and of none.
    #[serde(default)]
    #[schema(max_items = 100)]
    channel_ids: Vec<Snowflake>,
    /// Position after which it begins; 0: the oldest event. Omitted: events from now on.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 9223372036854775807_u64)]
    after: Option<u64>,
}

impl Check for NewWebhook {
    fn check(&self, faults: &mut FieldErrors) {
        check_fields(faults, Some(&self.types), Some(&self.guild_ids), Some(&self.channel_ids));
        if self.after.is_some_and(|after| i64::try_from(after).is_err()) {
            faults.add("after", "Must be a position of the feed.");
        }
    }
}

/// Changes to a webhook. A missing field stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookChange {
    /// Replaces the URL.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 2048)]
    url: Option<String>,
    /// Replaces the names of events; empty: all.
    #[serde(default)]
    #[schema(max_items = 64)]
    types: Option<Vec<String>>,
    /// Replaces the guilds; empty: all.
    #[serde(default)]
    #[schema(max_items = 100)]
    guild_ids: Option<Vec<Snowflake>>,
    /// Replaces the channels; empty: all.
    #[serde(default)]
    #[schema(max_items = 100)]
    channel_ids: Option<Vec<Snowflake>>,
    /// Pauses deliveries, or continues with them where they were.
    #[serde(default)]
    paused: Option<bool>,
}

impl Check for WebhookChange {
    fn check(&self, faults: &mut FieldErrors) {
        check_fields(faults, self.types.as_ref(), self.guild_ids.as_ref(), self.channel_ids.as_ref());
    }
}

fn check_fields(
    faults: &mut FieldErrors,
    types: Option<&Vec<String>>,
    guild_ids: Option<&Vec<Snowflake>>,
    channel_ids: Option<&Vec<Snowflake>>,
) {
    if let Some(types) = types {
        faults.count("types", types.len(), 0, 64);
        check_types("types", types.iter().map(String::as_str), faults);
    }
    for (name, ids) in [("guild_ids", guild_ids), ("channel_ids", channel_ids)] {
        faults.count(name, ids.map_or(0, Vec::len), 0, NAMED_MAX);
    }
}

/// Checks a URL, and that its host is none of a private network now.
async fn check_url(v1: &V1, url: &str) -> Result<(), V1Error> {
    if url.chars().count() > URL_CHARS_MAX {
        return Err(V1Error::field("url", format!("Must have at most {URL_CHARS_MAX} characters.")));
    }
    let guarded = &v1.deliveries.guarded;
    let url = guarded.parse(url).map_err(|message| V1Error::field("url", message))?;
    match v1.in_time(guarded.resolve(&url)).await? {
        // It may be reachable later.
        Ok(_) | Err(GuardedError::Unresolved) => Ok(()),
        Err(fault) => Err(V1Error::field("url", format!("{fault}."))),
    }
}

fn ids(ids: &[Snowflake]) -> Vec<u64> {
    ids.iter().map(|id| id.0).collect()
}

/// A webhook without its secret.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Webhook)]
pub(super) struct WebhookBody {
    id: Snowflake,
    url: String,
    /// Names of events; empty: all.
    types: Vec<String>,
    /// Guilds whose events it gets; empty: all.
    guild_ids: Vec<Snowflake>,
    /// Channels whose events it gets; empty: all.
    channel_ids: Vec<Snowflake>,
    /// Whether deliveries are paused: by a request, or because it has 100 dead letters.
    paused: bool,
    /// Events up to it were delivered, or are dead letters.
    position: Position,
    /// Why the last attempt failed; null: it did not.
    error: Option<String>,
    /// Since when attempts fail.
    failing_since: Option<Time>,
    /// Number of dead letters.
    dead_letters: u64,
    created_at: Time,
}

impl WebhookBody {
    async fn of(v1: &V1, webhook: Webhook) -> Result<Self, V1Error> {
        let Progress { position, error, failing_since_ms } = v1.in_time(progress(v1, webhook.id)).await??;
        let dead_letters = v1.in_time(dead_letters(v1, webhook.id)).await??.len() as u64;
        Ok(Self {
            id: Snowflake(webhook.id),
            url: webhook.url,
            types: webhook.types,
            guild_ids: webhook.guild_ids.into_iter().map(Snowflake).collect(),
            channel_ids: webhook.channel_ids.into_iter().map(Snowflake).collect(),
            paused: webhook.is_paused,
            position: Position(position),
            error,
            failing_since: failing_since_ms.map(|ms| Time(Timestamp(ms))),
            dead_letters,
            created_at: Time(Timestamp(webhook.created_ms)),
        })
    }
}

/// A webhook with the secret that signs its requests.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WebhookMade {
    webhook: WebhookBody,
    /// Signs the requests. The node shows it once.
    secret: String,
}

/// All webhooks.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WebhookList {
    /// Oldest first.
    webhooks: Vec<WebhookBody>,
}

/// A delivery that was given up.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetter)]
pub(super) struct DeadLetterBody {
    id: Snowflake,
    /// Why its last attempt failed.
    error: String,
    /// Time of the last attempt.
    at: Time,
    /// Position of its first event.
    first: Position,
    /// Position of its last event.
    last: Position,
    /// Number of its events.
    events: u64,
    /// Body of the request.
    #[schema(value_type = Object)]
    body: Box<RawValue>,
}

impl From<DeadLetter> for DeadLetterBody {
    fn from(letter: DeadLetter) -> Self {
        Self {
            id: Snowflake(letter.id),
            error: letter.error,
            at: Time(Timestamp(letter.at_ms)),
            first: Position(letter.first),
            last: Position(letter.last),
            events: letter.events as u64,
            body: letter.body,
        }
    }
}

async fn found(v1: &V1, path: &Path) -> Result<Webhook, V1Error> {
    let id = path.id::<()>("webhook_id")?.get();
    v1.in_time(get(v1, id)).await??.ok_or_else(|| V1Error::not_found("webhook"))
}

/// Lists webhooks
#[utoipa::path(get, path = "/v1/webhooks", tag = "events", responses((status = 200, body = WebhookList)))]
pub(super) async fn list(_: Caller<Events>, State(v1): State<Arc<V1>>) -> Result<Json<WebhookList>, V1Error> {
    let mut webhooks = Vec::new();
    for webhook in v1.in_time(all(&v1)).await?? {
        webhooks.push(WebhookBody::of(&v1, webhook).await?);
    }
    Ok(Json(WebhookList { webhooks }))
}

/// Creates a webhook
///
/// Its URL gets a POST with up to 100 events, in their order, signed with the secret of the answer.
#[utoipa::path(post, path = "/v1/webhooks", tag = "events", request_body = NewWebhook,
    responses((status = 201, description = "It was made", body = WebhookMade),
              (status = 409, description = "The node keeps no events; there are 100 webhooks", body = V1Error)))]
pub(super) async fn create(
    caller: Caller<Events>,
    State(v1): State<Arc<V1>>,
    body: Body<NewWebhook>,
) -> Result<Response, V1Error> {
    let permit = caller.permit();
    let input = body.read(&v1, permit).await?;
    events::need_feed(&v1)?;
    check_url(&v1, &input.url).await?;
    if v1.in_time(all(&v1)).await??.len() >= WEBHOOKS_MAX {
        return Err(V1Error::conflict("There are 100 webhooks: delete one that is not used any more."));
    }
    let position = match input.after {
        Some(0) => v1.in_time(v1.node.store().event_bounds()).await??.pruned,
        Some(after) => after,
        None => v1.in_time(v1.node.store().event_bounds()).await??.newest,
    };
    let mut secret = [0; 32];
    aws_lc_rs::rand::fill(&mut secret).map_err(|_| V1Error::unavailable())?;
    let webhook = Webhook {
        id: v1.node.next_id::<()>().await?.get(),
        url: input.url,
        secret: format!("ghw_{}", URL_SAFE_NO_PAD.encode(secret)),
        types: input.types,
        guild_ids: ids(&input.guild_ids),
        channel_ids: ids(&input.channel_ids),
        is_paused: false,
        created_ms: v1.now().unix.0,
    };
    let start = Progress { position, ..Progress::default() };
    v1.in_time(put_progress(&v1, webhook.id, &start)).await??;
    v1.in_time(put(&v1, &webhook)).await??;
    v1.deliveries.changed();
    let made = Extension(Made("webhook_id", webhook.id.to_string()));
    let secret = webhook.secret.clone();
    let answer = WebhookMade { webhook: WebhookBody::of(&v1, webhook).await?, secret };
    Ok((StatusCode::CREATED, made, Json(answer)).into_response())
}

/// Reads a webhook
#[utoipa::path(get, path = "/v1/webhooks/{webhook_id}", tag = "events", params(("webhook_id" = Snowflake, Path)),
    responses((status = 200, body = WebhookBody), (status = 404, body = V1Error)))]
pub(super) async fn read(
    _: Caller<Events>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<WebhookBody>, V1Error> {
    let webhook = found(&v1, &path).await?;
    Ok(Json(WebhookBody::of(&v1, webhook).await?))
}

/// Changes a webhook
#[utoipa::path(patch, path = "/v1/webhooks/{webhook_id}", tag = "events", params(("webhook_id" = Snowflake, Path)),
    request_body = WebhookChange, responses((status = 200, body = WebhookBody), (status = 404, body = V1Error)))]
pub(super) async fn update(
    caller: Caller<Events>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<WebhookChange>,
) -> Result<Json<WebhookBody>, V1Error> {
    let mut webhook = found(&v1, &path).await?;
    let change = body.read(&v1, caller.permit_for(&webhook)).await?;
    if let Some(url) = change.url {
        check_url(&v1, &url).await?;
        webhook.url = url;
    }
    webhook.types = change.types.unwrap_or(webhook.types);
    webhook.guild_ids = change.guild_ids.map_or(webhook.guild_ids, |of| ids(&of));
    webhook.channel_ids = change.channel_ids.map_or(webhook.channel_ids, |of| ids(&of));
    webhook.is_paused = change.paused.unwrap_or(webhook.is_paused);
    v1.in_time(put(&v1, &webhook)).await??;
    v1.deliveries.changed();
    Ok(Json(WebhookBody::of(&v1, webhook).await?))
}

/// Deletes a webhook with its dead letters
#[utoipa::path(delete, path = "/v1/webhooks/{webhook_id}", tag = "events", params(("webhook_id" = Snowflake, Path)),
    responses((status = 204, description = "It is gone"), (status = 404, body = V1Error)))]
pub(super) async fn delete(_: Caller<Events>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    let id = found(&v1, &path).await?.id;
    let store = v1.node.store();
    v1.in_time(store.delete_record(WEBHOOKS, &id.to_be_bytes())).await??;
    v1.deliveries.changed();
    for letter in v1.in_time(dead_letters(&v1, id)).await?? {
        v1.in_time(store.delete_record(DEAD_LETTERS, &letter_key(id, letter.id))).await??;
    }
    v1.in_time(store.delete_record(PROGRESS, &id.to_be_bytes())).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the dead letters of a webhook
///
/// Deliveries that were given up, at most 100, oldest first.
#[utoipa::path(get, path = "/v1/webhooks/{webhook_id}/dead-letters", tag = "events",
    params(("webhook_id" = Snowflake, Path)),
    responses((status = 200, body = Vec<DeadLetterBody>), (status = 404, body = V1Error)))]
pub(super) async fn list_dead_letters(
    _: Caller<Events>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<Vec<DeadLetterBody>>, V1Error> {
    let id = found(&v1, &path).await?.id;
    let letters = v1.in_time(dead_letters(&v1, id)).await??;
    Ok(Json(letters.into_iter().map(DeadLetterBody::from).collect()))
}

async fn found_letter(v1: &V1, path: &Path) -> Result<(Webhook, DeadLetter), V1Error> {
    let webhook = found(v1, path).await?;
    let key = letter_key(webhook.id, path.id::<()>("letter_id")?.get());
    let data = v1.in_time(v1.node.store().record(DEAD_LETTERS, &key)).await??;
    let letter = data.as_deref().and_then(|data| parsed("dead letter", data));
    Ok((webhook, letter.ok_or_else(|| V1Error::not_found("dead letter"))?))
}

/// Retries a dead letter
///
/// Sends it once, to the present URL. It is removed if that succeeds.
#[utoipa::path(post, path = "/v1/webhooks/{webhook_id}/dead-letters/{letter_id}/retry", tag = "events",
    params(("webhook_id" = Snowflake, Path), ("letter_id" = Snowflake, Path)),
    responses((status = 204, description = "It was delivered, and is gone"), (status = 404, body = V1Error),
              (status = 409, description = "It failed again; the message has the reason", body = V1Error)))]
pub(super) async fn retry_dead_letter(
    _: Caller<Events>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<StatusCode, V1Error> {
    let (webhook, letter) = found_letter(&v1, &path).await?;
    let sent = v1.in_time(deliveries::send(&v1, &webhook, letter.body.get())).await?;
    sent.map_err(|fault| V1Error::conflict(format!("The delivery failed again: {fault}.")))?;
    v1.in_time(v1.node.store().delete_record(DEAD_LETTERS, &letter_key(webhook.id, letter.id))).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Discards a dead letter
#[utoipa::path(delete, path = "/v1/webhooks/{webhook_id}/dead-letters/{letter_id}", tag = "events",
    params(("webhook_id" = Snowflake, Path), ("letter_id" = Snowflake, Path)),
    responses((status = 204, description = "It is gone"), (status = 404, body = V1Error)))]
pub(super) async fn delete_dead_letter(
    _: Caller<Events>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<StatusCode, V1Error> {
    let (webhook, letter) = found_letter(&v1, &path).await?;
    v1.in_time(v1.node.store().delete_record(DEAD_LETTERS, &letter_key(webhook.id, letter.id))).await??;
    Ok(StatusCode::NO_CONTENT)
}
