//! Publishing of backend events: any dispatch, to a guild, a channel, roles or users.
//!
//! Owns        the form of an event, its way to a guild or to accounts' sessions, and how many it reached.
//! Invariants  E1 events of one request, and of one stream, that go to one guild arrive in their order. E2 a published
//!             event is handled like any other: rendered once per form, sequenced, replayed, and withheld from sessions
//!             that may not see it.
//! Limits      `event_bytes_max`, `batch_events_max`, `USERS_MAX`, `ROLES_MAX`; `UNDER_WAY_MAX` events of a request are
//!             under way at once; `reach_deadline_ms` for the count.     Spec  docs/backend-api.md "Publishing".

use super::{
    V1,
    caller::{Caller, Publish},
    canonical::fingerprint,
    error::V1Error,
    executions::{Execution, ExecutionGuard, SameEverywhere, publication_id},
    external,
    extract::{Arriving, Check, FieldErrors, parse},
    guilds,
    idempotency::Outcome,
    ndjson::{Answer, Lines, is_ndjson},
    types::{AnyId, Snowflake},
    wording::not_json,
};
use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use guildhall_cluster::KeyName;
use guildhall_guild::{Actor, PublicationId, PublishReply, Refusal, request};
use guildhall_guild_protocol::{
    AudienceRule, BackendEvent, BackendEventError, Event, Published, Receipt, ReplicaUpdate,
};
use guildhall_model::{ChannelId, GuildId, UserId};
use guildhall_node::{KeyLife, OpenReceipt};
use guildhall_store::ExternalKind;
use serde::{
    Deserialize, Deserializer as _, Serialize,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{
    collections::VecDeque,
    fmt,
    future::ready,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use utoipa::ToSchema;

const USERS_MAX: usize = 10_000;
const ROLES_MAX: usize = 250;
/// Events of one request that are with their guilds, without a count yet.
const UNDER_WAY_MAX: usize = 64;

/// Recipients of an event: `guild` alone; `channel`, optionally with its `guild`; `roles` with their `guild`; `users`,
/// optionally with a `guild`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Audience)]
struct AudienceBody {
    /// Every member of this guild. With `roles` or `users`: the guild that these belong to. With `channel`: the guild
    /// that the channel must belong to.
    #[serde(default)]
    guild: Option<AnyId>,
    /// Members who can view this channel, checked when the event is sent and replayed; for a direct
    /// message its recipients.
    #[serde(default)]
    channel: Option<AnyId>,
    /// Members of `guild` with any of these roles.
    #[serde(default)]
    #[schema(min_items = 1, max_items = 250)]
    roles: Option<Vec<Snowflake>>,
    /// These accounts: as members of `guild` if that is given, else all their sessions.
    #[serde(default)]
    #[schema(min_items = 1, max_items = 10000)]
    users: Option<Vec<AnyId>>,
}

/// An event to publish.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Publication)]
struct Publication {
    /// Name of the event, of the protocol or your own. For names of the protocol, clients need the usual intents.
    #[schema(pattern = "^[A-Z0-9_]{1,64}$")]
    t: String,
    /// Body of the event: any JSON, sent unchanged.
    #[schema(value_type = serde_json::Value)]
    d: Box<RawValue>,
    /// Recipients of the event.
    audience: AudienceBody,
    /// Idempotency key. The node publishes an event once per key and answers repetitions with the first result, also
    /// when the first request was broken off. Another event under the same key is refused with 409.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    key: Option<String>,
}

/// Result of a published event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PublishResult)]
struct ResultBody {
    /// Sessions, connected or resumable, that received it.
    reached: u64,
    /// Whether all partitions reported in time. If false, `reached` is a lower bound.
    complete: bool,
    /// Whether it was published before under the same key.
    repeated: bool,
}

/// Result of one event of several.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = PublishOutcome)]
enum OutcomeBody {
    /// The event was published.
    Done(ResultBody),
    /// The event was not published.
    Failed(V1Error),
}

/// One event, or several.
#[derive(ToSchema)]
#[schema(as = Publications)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used: which it is decides the first character")]
enum Publications {
    One(Publication),
    Several(Vec<Publication>),
}

/// One result, or one for each event.
#[derive(ToSchema)]
#[schema(as = PublishResults)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Results {
    One(ResultBody),
    Several(Vec<OutcomeBody>),
}

impl From<Result<ResultBody, V1Error>> for OutcomeBody {
    fn from(result: Result<ResultBody, V1Error>) -> Self {
        result.map_or_else(Self::Failed, Self::Done)
    }
}

impl Check for Publication {
    fn check(&self, faults: &mut FieldErrors) {
        if let Some(key) = &self.key {
            faults.text("key", key, 1, 128);
        }
        let AudienceBody { guild, channel, roles, users } = &self.audience;
        if let Some(roles) = roles {
            faults.count("audience.roles", roles.len(), 1, ROLES_MAX);
        }
        if let Some(users) = users {
            faults.count("audience.users", users.len(), 1, USERS_MAX);
        }
        match (guild, channel, roles, users) {
            (Some(_), None, None, None) | (_, Some(_), None, None) | (Some(_), None, Some(_), None) => {}
            (_, None, None, Some(_)) => {}
            (None, None, Some(_), None) => faults.add("audience.guild", "Roles belong to a guild: name it."),
            _ => faults.add(
                "audience",
                "Must be one of: guild; channel, with its guild or without; roles with their guild; users, with a guild or without.",
            ),
        }
    }
}

/// Destination of an event.
enum To {
    Guild(GuildId, AudienceRule),
    /// Guild that the caller names, if any.
    Channel(ChannelId, Option<GuildId>),
    Users(Arc<[UserId]>),
}

impl AudienceBody {
    /// Looks up external ids.
    async fn to(&self, v1: &V1) -> Result<To, V1Error> {
        let guild_id: Option<GuildId> = match &self.guild {
            Some(guild) => Some(external::id_in(v1, ExternalKind::Guild, "audience.guild", guild).await?),
            None => None,
        };
        if let Some(channel) = &self.channel {
            let channel_id = external::id_in(v1, ExternalKind::Channel, "audience.channel", channel).await?;
            return Ok(To::Channel(channel_id, guild_id));
        }
        // `Publication::check` has refused roles without a guild, and an empty audience.
        let in_guild = |rule| match guild_id {
            Some(guild_id) => Ok(To::Guild(guild_id, rule)),
            None => Err(V1Error::field("audience.guild", "Must be the id of a guild.")),
        };
        if let Some(roles) = &self.roles {
            return in_guild(AudienceRule::Roles(roles.iter().map(|role| role.id()).collect()));
        }
        let Some(users) = &self.users else { return in_guild(AudienceRule::Members) };
        let field = |index| format!("audience.users[{index}]");
        let mut users: Vec<UserId> = external::ids_of(v1, ExternalKind::User, field, users).await?;
        users.sort_unstable();
        users.dedup();
        Ok(match guild_id {
            Some(guild_id) => To::Guild(guild_id, AudienceRule::Users(users.into())),
            None => To::Users(users.into()),
        })
    }
}

/// Adds up the counts that relays and partitions report, and other nodes for theirs.
#[derive(Debug, Default)]
struct Reached {
    sessions: AtomicU64,
    reports: AtomicU64,
    changed: Notify,
}

impl Receipt for Reached {
    fn reached(&self, sessions: u64) {
        self.sessions.fetch_add(sessions, Ordering::Relaxed);
        self.reports.fetch_add(1, Ordering::Release);
        self.changed.notify_one();
    }
}

impl Reached {
    /// Waits until `count` partitions have reported.
    async fn by(&self, count: u64, patience: Duration) -> Outcome {
        let all = async {
            while self.reports.load(Ordering::Acquire) < count {
                self.changed.notified().await;
            }
        };
        let complete = tokio::time::timeout(patience, all).await.is_ok();
        Outcome { reached: self.sessions.load(Ordering::Relaxed), complete, was_published: false }
    }
}

fn refuse(error: &BackendEventError) -> V1Error {
    let field = match error {
        BackendEventError::Name | BackendEventError::Reserved => "t",
        BackendEventError::Body(_) => "d",
    };
    V1Error::field(field, format!("{error}."))
}

/// The key of a request.
struct Publisher {
    api_key: u64,
    life: KeyLife,
}

impl Publisher {
    fn need_life(&self) -> Result<(), V1Error> {
        if self.life.is_over() { Err(V1Error::revoked()) } else { Ok(()) }
    }
}

type UnderWay = Pin<Box<dyn Future<Output = Result<ResultBody, V1Error>> + Send>>;

/// Passes an event to its guild. On return the event is queued behind earlier ones; the result waits for the count.
async fn begin(v1: &Arc<V1>, by: &Publisher, text: &[u8]) -> Result<UnderWay, V1Error> {
    let publication: Publication = parse(text)?;
    if publication.d.get().len() > v1.limits.event_bytes_max {
        return Err(V1Error::field("d", format!("Must have at most {} bytes.", v1.limits.event_bytes_max)));
    }
    let Some(key) = publication.key.clone() else {
        let prepared = prepare(v1, &publication).await?;
        by.need_life()?;
        let outcome = prepared.hand_over(v1, None);
        let v1 = v1.clone();
        return Ok(Box::pin(async move { Ok(result_of(v1.in_time(outcome).await??, false)) }));
    };
    let fingerprint = match &v1.executions {
        None => fingerprint(text, &v1.idempotency.hasher),
        Some(_) => fingerprint(text, &SameEverywhere),
    };
    let under_way = match v1.idempotency.find(by.api_key, &key, fingerprint)? {
        Some(before) => before,
        None => {
            let prepared = prepare(v1, &publication).await?;
            let mut guard = match &v1.executions {
                None => None,
                Some(executions) => {
                    let name = KeyName { api_key: by.api_key, key: key.as_str().into() };
                    match executions.begin(name.clone(), fingerprint).await? {
                        Execution::Own(guard) => Some(guard),
                        Execution::Executed(outcome) => return Ok(Box::pin(ready(Ok(result_of(outcome, true))))),
                        Execution::UnderWay => {
                            let (v1, executions) = (v1.clone(), executions.clone());
                            let outcome = async move { v1.in_time(executions.outcome(&name, fingerprint)).await? };
                            return Ok(Box::pin(async move { Ok(result_of(outcome.await?, true)) }));
                        }
                    }
                }
            };
            by.need_life()?;
            let id = v1.executions.is_some().then(|| publication_id(by.api_key, &key, fingerprint));
            let hand_over = || prepared.hand_over_once(v1, id, guard.take());
            let publication = v1.idempotency.begin(by.api_key, &key, fingerprint, hand_over)?;
            // Otherwise a concurrent request of this node has handed it over, and settles the key.
            guard.into_iter().for_each(ExecutionGuard::keep);
            publication
        }
    };
    let patience = Duration::from_millis(v1.limits.answer_deadline_ms);
    Ok(Box::pin(async move {
        let is_repeated = under_way.is_repeated;
        Ok(result_of(under_way.outcome(patience).await?, is_repeated))
    }))
}

fn result_of(Outcome { reached, complete, was_published }: Outcome, repeated: bool) -> ResultBody {
    ResultBody { reached, complete, repeated: repeated || was_published }
}

/// An event that is ready for its hand-over.
struct Prepared {
    event: Arc<BackendEvent>,
    reached: Arc<Reached>,
    /// In a cluster: other nodes report while this is held.
    open: Option<OpenReceipt>,
    recipients: Recipients,
}

enum Recipients {
    Guild(GuildId, AudienceRule),
    Direct(Arc<[UserId]>),
    Users(Arc<[UserId]>),
}

/// Everything that can fail or wait before the hand-over.
async fn prepare(v1: &V1, publication: &Publication) -> Result<Prepared, V1Error> {
    let reached = Arc::new(Reached::default());
    let open = v1.node.membership().map(|membership| membership.open_receipt(reached.clone()));
    let receipt = open.as_ref().map_or_else(|| reached.clone() as Arc<dyn Receipt>, OpenReceipt::receipt);
    let event = BackendEvent::new(&publication.t, &publication.d, Some(receipt)).map_err(|error| refuse(&error))?;
    let recipients = match publication.audience.to(v1).await? {
        To::Guild(guild_id, rule) => Recipients::Guild(guild_id, rule),
        To::Channel(channel_id, of_guild) => {
            let guild_id = v1.in_time(v1.node.guild_of_channel(channel_id)).await??;
            let guild_id = guild_id.ok_or_else(|| V1Error::field("audience.channel", NO_CHANNEL))?;
            if let Some(of_guild) = of_guild.filter(|of_guild| *of_guild != guild_id) {
                let message = format!("The channel is in the guild {guild_id}, not in {of_guild}.");
                return Err(V1Error::field("audience.channel", message));
            }
            match recipients(v1, guild_id, channel_id).await? {
                Some(user_ids) => Recipients::Direct(user_ids),
                None => Recipients::Guild(guild_id, AudienceRule::Channel(channel_id)),
            }
        }
        To::Users(user_ids) => Recipients::Users(user_ids),
    };
    Ok(Prepared { event: Arc::new(event), reached, open, recipients })
}

impl Prepared {
    /// Puts the event into the mailbox of its guild or partitions at once. The future waits for the count.
    fn hand_over(
        self,
        v1: &Arc<V1>,
        id: Option<PublicationId>,
    ) -> impl Future<Output = Result<Outcome, V1Error>> + Send + use<> {
        let Self { event, reached, open, recipients } = self;
        let tellers = match recipients {
            Recipients::Guild(guild_id, rule) => {
                let answer = to_guild(v1, guild_id, rule.clone(), event, id);
                Err((answer, guild_id, rule))
            }
            Recipients::Direct(user_ids) => Ok(to_users(v1, Event::of_backend_in_direct(user_ids, event))),
            Recipients::Users(user_ids) => Ok(to_users(v1, Event::of_backend_to_users(user_ids, event))),
        };
        let v1 = v1.clone();
        async move {
            let tellers = match tellers {
                Ok(partitions) => partitions,
                Err((answer, guild_id, rule)) => match answer.await {
                    Ok(PublishReply::Published { relays }) => relays,
                    // Its relays report to the earlier request.
                    Ok(PublishReply::PublishedBefore) => {
                        return Ok(Outcome { reached: 0, complete: false, was_published: true });
                    }
                    Err(refusal) => return Err(refused(&v1, guild_id, &rule, refusal).await),
                },
            };
            let outcome = reached.by(tellers, Duration::from_millis(v1.limits.reach_deadline_ms)).await;
            drop(open);
            Ok(outcome)
        }
    }
}

impl Prepared {
    /// `hand_over`; then the home of the key gets the outcome.
    fn hand_over_once(
        self,
        v1: &Arc<V1>,
        id: Option<PublicationId>,
        guard: Option<ExecutionGuard>,
    ) -> impl Future<Output = Result<Outcome, V1Error>> + Send + use<> {
        let publishing = self.hand_over(v1, id);
        async move {
            let outcome = publishing.await;
            if let Some(guard) = guard {
                guard.settle(outcome.as_ref().ok().copied());
            }
            outcome
        }
    }
}

const NO_CHANNEL: &str = "There is no such channel: put the channel first.";

/// Fault for a part of the audience that does not exist.
async fn refused(v1: &V1, guild_id: GuildId, rule: &AudienceRule, refusal: Refusal) -> V1Error {
    match (refusal, rule) {
        (Refusal::UnknownChannel, _) | (Refusal::UnknownGuild, AudienceRule::Channel(_)) => {
            V1Error::field("audience.channel", NO_CHANNEL)
        }
        (Refusal::UnknownGuild, _) => V1Error::field("audience.guild", "There is no such guild: put the guild first."),
        (Refusal::UnknownRole, AudienceRule::Roles(roles)) => {
            let known = match guilds::reply(v1, guild_id).await {
                Ok(guild) => guild,
                Err(error) => return error,
            };
            let index = roles.iter().position(|role| !known.structure.roles.contains_key(role)).unwrap_or(0);
            V1Error::field(format!("audience.roles[{index}]"), "The guild has no such role: put the role first.")
        }
        (refusal, _) => refusal.into(),
    }
}

/// Recipients of a direct message; `None` for a channel of a guild.
async fn recipients(v1: &V1, guild_id: GuildId, channel_id: ChannelId) -> Result<Option<Arc<[UserId]>>, V1Error> {
    // The ids alone show that most channels are no direct messages.
    if guild_id.get() != channel_id.get() {
        return Ok(None);
    }
    let direct = v1.in_time(v1.node.begin(guild_id, Actor::System, request::Open)).await?.ok();
    Ok(direct.map(|direct| direct.recipients.iter().map(|user| user.id).collect()))
}

/// Number of partitions that will report a count.
fn to_users(v1: &V1, event: Event) -> u64 {
    let user_ids: Arc<[UserId]> = event.audience.rule.users().into();
    v1.gateway.publish_to_users(&Arc::new(Published { event, replica_update: ReplicaUpdate::None }), &user_ids) as u64
}

fn to_guild(
    v1: &V1,
    guild_id: GuildId,
    rule: AudienceRule,
    event: Arc<BackendEvent>,
    id: Option<PublicationId>,
) -> impl Future<Output = Result<PublishReply, Refusal>> + Send + use<> {
    v1.node.begin(guild_id, Actor::System, request::Publish(rule, event, id))
}

/// Publishes events
///
/// One object, an array of them, or with `Content-Type: application/x-ndjson` one a line for as long as you like; the
/// answer has the same form, in the same order. Of several, each is published or refused by itself.
#[utoipa::path(post, path = "/v1/publish", tag = "publishing",
    request_body(content(
        (Publications = "application/json"),
        (String = "application/x-ndjson"),
    )),
    responses((status = 200, description = "One result, or as many as there were events",
               content((Results = "application/json"), (String = "application/x-ndjson"))),
              (status = 400, description = "A field is wrong, or names something that does not exist", body = V1Error),
              (status = 409, body = V1Error)))]
pub(super) async fn publish(
    caller: Caller<Publish>,
    State(v1): State<Arc<V1>>,
    headers: HeaderMap,
    body: Arriving,
) -> Result<Response, V1Error> {
    let permit = caller.permit();
    let by = Publisher { api_key: caller.key_id(), life: caller.life.clone() };
    if is_ndjson(&headers) {
        let lines = Lines::new(&v1, body, permit)?;
        let place = caller.into_stream(&v1)?;
        let stream = v1.clone();
        return Ok(Answer::stream(&v1, move |answer| async move {
            // A client that disconnected needs no answer.
            let lines = publish_lines(&stream, &by, lines, answer).await;
            // The place ends with the answer.
            drop(place);
            if let Ok(lines) = lines {
                lines.drain().await;
            }
        }));
    }
    let (bytes, _reservation) = body.bytes(&v1, permit, v1.limits.json_bytes_max).await?;
    if bytes.trim_ascii_start().first() != Some(&b'[') {
        let result = begin(&v1, &by, &bytes).await?.await?;
        return Ok(Json(result).into_response());
    }
    let events = several(&bytes, v1.limits.batch_events_max)?;
    if events.len() > v1.limits.batch_events_max {
        let most = v1.limits.batch_events_max;
        return Err(V1Error::field(
            "",
            format!("Must have at most {most} events; send the rest in another batch, or all as a stream."),
        ));
    }
    let (mut results, mut under_way) = (Vec::with_capacity(events.len()), VecDeque::new());
    for event in events {
        if under_way.len() >= UNDER_WAY_MAX {
            results.extend(next_of(&mut under_way).await);
        }
        under_way.push_back(begin(&v1, &by, event.get().as_bytes()).await);
    }
    while let Some(result) = next_of(&mut under_way).await {
        results.push(result);
    }
    Ok(Json(results).into_response())
}

/// The values of a list: all of them, or the first `most + 1`.
fn several(text: &[u8], most: usize) -> Result<Vec<&RawValue>, V1Error> {
    struct AtMost(usize);

    impl<'de> Visitor<'de> for AtMost {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an array of events")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut values = Vec::new();
            while values.len() <= self.0
                && let Some(value) = items.next_element()?
            {
                values.push(value);
            }
            while items.next_element::<IgnoredAny>()?.is_some() {}
            Ok(values)
        }
    }

    let mut reader = serde_json::Deserializer::from_slice(text);
    let values = reader.deserialize_seq(AtMost(most)).and_then(|values| reader.end().map(|()| values));
    values.map_err(|error| not_json(text, &error))
}

async fn next_of(under_way: &mut VecDeque<Result<UnderWay, V1Error>>) -> Option<OutcomeBody> {
    Some(match under_way.pop_front()? {
        Ok(waiting) => waiting.await.into(),
        Err(error) => OutcomeBody::Failed(error),
    })
}

/// Returns the rest of the body.
async fn publish_lines(
    v1: &Arc<V1>,
    by: &Publisher,
    mut lines: Lines,
    answer: Answer,
) -> Result<Lines, super::ndjson::Gone> {
    let mut under_way = VecDeque::new();
    loop {
        // Before waiting for the next event, sends pending results to the client.
        let is_full = under_way.len() >= UNDER_WAY_MAX;
        while !under_way.is_empty() && (is_full || !lines.has_more()) {
            if let Some(result) = next_of(&mut under_way).await {
                answer.line(&result).await?;
            }
            if is_full {
                break;
            }
        }
        match lines.next().await {
            Ok(Some((_, line))) => under_way.push_back(begin(v1, by, line).await),
            Ok(None) => break,
            Err(error) => {
                under_way.push_back(Err(error));
                break;
            }
        }
    }
    while let Some(result) = next_of(&mut under_way).await {
        answer.line(&result).await?;
    }
    Ok(lines)
}
