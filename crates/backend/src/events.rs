//! Events: what happened in guilds and direct messages, read from a position that the store keeps.
//!
//! Owns        reading of the feed from a position, by long poll and as lines; the watch that wakes readers;
//!             `EventPruner`, which removes old events.
//! Invariants  E4 a reader that continues at `next`, or after the `position` of the last event that it has, misses no
//!             event and gets none twice, over restarts and at any node; or it is refused with 410, because the events
//!             were removed. (tests `e4_*` of `guildhall`)
//! Limits      `LIMIT_MAX` events and `PAGE_BYTES_MAX` of a page; a long poll and a stream are streams for the limits
//!             of keys; one look at the store every `LOOK_EVERY` per node, and none without readers;
//!             `events.keep_hours` and `events.rows_max` for the feed.
//! Not here    which events there are: `guildhall_guild::FeedKind`; positions: `guildhall_store`.
//!             Spec  docs/backend-api.md "Events".

use super::{
    V1,
    caller::{Caller, Events},
    error::V1Error,
    extract::{Check, FieldErrors, Query},
    ndjson::{Answer, Gone},
    types::{Snowflake, Time},
};
use axum::{Json, extract::State, response::Response};
use guildhall_guild::FeedKind;
use guildhall_node::{Clock, KeyLife, Node};
use guildhall_stdx::Timestamp;
use guildhall_store::{EVENTS_SCANNED_MAX, EventFilter, StoreError, StoredEvent};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout_at},
};
use utoipa::{
    IntoParams, PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type, schema::SchemaType},
};

const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 500;
/// A page with more ends early. One event has at most some 100 KiB.
const PAGE_BYTES_MAX: usize = 4 << 20;
const WAIT_S_MAX: u32 = 60;
/// How often the store is looked at while readers wait.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Stretches of the feed without an event that matches, of which one request passes this many.
const STRETCHES_MAX: usize = 20;
/// Silence after which a stream has an empty line.
const QUIET: Duration = Duration::from_secs(15);
/// Events that a stream reads at once.
const CHUNK: u32 = 100;
const PRUNE_EVERY: Duration = Duration::from_secs(60);
const PRUNE_SLICE: u32 = 1_000;
const PRUNE_PAUSE: Duration = Duration::from_millis(20);

/// A position in the feed; a decimal number in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(pub u64);

impl Serialize for Position {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl PartialSchema for Position {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .pattern(Some("^(0|[1-9][0-9]{0,18})$"))
            .description(Some("A position in the feed: a decimal number, which grows."))
            .into()
    }
}

impl ToSchema for Position {
    fn name() -> Cow<'static, str> {
        "Position".into()
    }
}

/// An event of the feed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Event)]
pub(super) struct EventBody {
    /// Its position, unique and ascending.
    position: Position,
    /// When it was stored.
    at: Time,
    /// Name of the event, as clients receive it.
    #[schema(example = "MESSAGE_CREATE")]
    r#type: &'static str,
    /// Null: of a direct message.
    guild_id: Option<Snowflake>,
    /// Null: about no channel.
    channel_id: Option<Snowflake>,
    /// Body of the event, as clients receive it.
    #[schema(value_type = Object)]
    data: Box<RawValue>,
}

impl EventBody {
    /// None: an event of a later version.
    pub fn of(event: StoredEvent) -> Option<Self> {
        let kind = FeedKind::from_number(event.kind)?;
        let data = RawValue::from_string(event.data);
        let data = data.inspect_err(|error| tracing::error!(%error, "an event of the feed is no JSON: it is left out"));
        Some(Self {
            position: Position(event.position),
            at: Time(event.at),
            r#type: kind.name(),
            guild_id: event.guild_id.map(Into::into),
            channel_id: event.channel_id.map(Into::into),
            data: data.ok()?,
        })
    }

    pub fn position(&self) -> u64 {
        self.position.0
    }

    pub fn bytes(&self) -> usize {
        self.data.get().len() + 200
    }
}

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventPage {
    /// Oldest first. Empty if nothing matched in time.
    events: Vec<EventBody>,
    /// `after` of the next request.
    next: Position,
}

/// Parameters of a reader of events.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// Only events after this position. 0: from the oldest that is kept. Omitted: only events from now on.
    #[param(minimum = 0, maximum = 9223372036854775807_u64)]
    after: Option<u64>,
    /// Names of events, separated by commas. Omitted: all.
    #[param(example = "MESSAGE_CREATE,GUILD_MEMBER_ADD")]
    types: Option<String>,
    /// Only events of this guild.
    #[param(value_type = Option<Snowflake>)]
    guild_id: Option<Snowflake>,
    /// Only events of this channel, thread or direct message.
    #[param(value_type = Option<Snowflake>)]
    channel_id: Option<Snowflake>,
    /// Most events of a page; 100 by default. Streams ignore it.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// Seconds to wait for an event if there is none; 0 by default. Streams ignore it.
    #[param(minimum = 0, maximum = 60)]
    wait_s: Option<u32>,
}

impl Check for EventsQuery {
    fn check(&self, faults: &mut FieldErrors) {
        faults.number("limit", self.limit.unwrap_or(1).into(), 1, LIMIT_MAX.into());
        faults.number("wait_s", self.wait_s.unwrap_or(0).into(), 0, WAIT_S_MAX.into());
        if self.after.is_some_and(|after| i64::try_from(after).is_err()) {
            faults.add("after", "Must be a position: `next` of an answer, or `position` of an event.");
        }
        if let Some(types) = &self.types {
            check_types("types", types.split(','), faults);
        }
    }
}

/// Checks names of events.
pub(super) fn check_types<'a>(field: &str, names: impl Iterator<Item = &'a str>, faults: &mut FieldErrors) {
    for name in names {
        if FeedKind::from_name(name).is_none() {
            let known: Vec<&str> = FeedKind::ALL.iter().map(|kind| kind.name()).collect();
            let shown: String = name.chars().take(64).collect();
            return faults.add(field, format!("`{shown}` is no event of the feed, which has {}.", known.join(", ")));
        }
    }
}

impl EventsQuery {
    fn filter(&self) -> EventFilter {
        let kinds = self.types.as_ref().map(|types| types.split(',').filter_map(FeedKind::from_name));
        EventFilter {
            guild_id: self.guild_id.map(Snowflake::id),
            channel_id: self.channel_id.map(Snowflake::id),
            ..kinds.map_or(EventFilter::ALL, EventFilter::of_kinds)
        }
    }
}

/// Wakes readers when there are new events, of any node.
pub(super) struct EventsWatch {
    newest: watch::Sender<u64>,
    has_readers: Notify,
}

impl EventsWatch {
    pub fn new() -> Self {
        Self { newest: watch::Sender::new(0), has_readers: Notify::new() }
    }

    /// Looks at the store while readers wait, until the API is dropped.
    pub fn start(v1: &Arc<V1>) {
        if v1.limits.keeps_events {
            tokio::spawn(look(Arc::downgrade(v1)));
        }
    }

    /// Changes when there may be events above those that were read before.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        let receiver = self.newest.subscribe();
        self.has_readers.notify_one();
        receiver
    }
}

async fn look(v1: Weak<V1>) {
    loop {
        let Some(api) = v1.upgrade() else { return };
        if api.events.newest.receiver_count() == 0 {
            // At most this long after the API is dropped.
            let woken = api.events.has_readers.notified();
            let _ = tokio::time::timeout(Duration::from_secs(1), woken).await;
            continue;
        }
        // While the store fails, readers get its errors by themselves.
        if let Ok(bounds) = api.node.store().event_bounds().await {
            api.events.newest.send_if_modified(|newest| std::mem::replace(newest, bounds.newest) != bounds.newest);
        }
        drop(api);
        sleep(LOOK_EVERY).await;
    }
}

/// Events, and the position up to which the feed was read.
pub(super) struct Read {
    pub events: Vec<StoredEvent>,
    pub next: u64,
    /// There are no further events now.
    pub is_end: bool,
}

/// Refuses readers of a node that keeps no events.
pub(super) fn need_feed(v1: &V1) -> Result<(), V1Error> {
    if v1.limits.keeps_events {
        return Ok(());
    }
    Err(V1Error::conflict("This node keeps no events: set `events.keep = \"on\"`, on every node of a cluster."))
}

async fn begin(v1: &V1, after: Option<u64>) -> Result<Begin, V1Error> {
    Ok(match after {
        Some(0) => Begin::Oldest,
        Some(after) => Begin::After(after),
        None => Begin::After(v1.in_time(v1.node.store().event_bounds()).await??.newest),
    })
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Begin {
    Oldest,
    After(u64),
}

/// Events after a position.
pub(super) async fn read(v1: &V1, from: Begin, filter: EventFilter, limit: u32) -> Result<Read, V1Error> {
    loop {
        let bounds = v1.in_time(v1.node.store().event_bounds()).await??;
        let after = match from {
            Begin::Oldest => bounds.pruned,
            Begin::After(after) => after,
        };
        if after > bounds.newest {
            return Err(V1Error::conflict(format!(
                "This position is ahead of the feed, whose newest event is {}: the database may be an older backup. \
                 Read again from 0.",
                bounds.newest
            )));
        }
        let upto = bounds.newest.min(after.saturating_add(EVENTS_SCANNED_MAX));
        let events = v1.in_time(v1.node.store().events(after, upto, filter, limit)).await??;
        let pruned = v1.in_time(v1.node.store().event_bounds()).await??.pruned;
        if pruned > after {
            // Some may have been removed before they were read.
            match from {
                Begin::Oldest => continue,
                Begin::After(_) => return Err(V1Error::events_gone(pruned)),
            }
        }
        let is_full = events.len() >= limit as usize;
        let next = events.last().filter(|_| is_full).map_or(upto, |event| event.position);
        return Ok(Read { events, next, is_end: next == bounds.newest });
    }
}

/// Reads events after a position
///
/// Events of all guilds and direct messages in the order in which they were stored. With `wait_s` it waits until there
/// is one. Continue with `after` = `next`: nothing is missed, over restarts too. 410 if events after the position were
/// removed by `events.keep_hours` or `events.rows_max`; `oldest` is then the position from which there are some.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(EventsQuery),
    responses((status = 200, body = EventPage),
              (status = 409, description = "The node keeps no events; the position is ahead of the feed", body = V1Error),
              (status = 410, description = "Events after the position were removed", body = V1Error)))]
pub(super) async fn poll(
    caller: Caller<Events>,
    State(v1): State<Arc<V1>>,
    Query(query): Query<EventsQuery>,
) -> Result<Json<EventPage>, V1Error> {
    need_feed(&v1)?;
    let (mut life, wait_s) = (caller.life.clone(), query.wait_s.unwrap_or(0));
    let _place = caller.into_stream(&v1)?;
    let (filter, limit) = (query.filter(), query.limit.unwrap_or(LIMIT_DEFAULT));
    let mut news = v1.events.subscribe();
    let deadline = Instant::now() + Duration::from_secs(wait_s.into());
    let mut from = begin(&v1, query.after).await?;
    let mut stretches = 0;
    loop {
        news.mark_unchanged();
        let Read { events, next, is_end } = read(&v1, from, filter, limit).await?;
        stretches += 1;
        let is_late = Instant::now() >= deadline;
        if !events.is_empty() || is_end && is_late || stretches >= STRETCHES_MAX && !is_end {
            return Ok(Json(page(events, next)));
        }
        from = Begin::After(next);
        if is_end {
            stretches = 0;
            tokio::select! {
                // After a change and at the deadline the feed is read again.
                _ = timeout_at(deadline, news.changed()) => {}
                () = life.over() => return Err(V1Error::revoked()),
            }
        }
    }
}

fn page(events: Vec<StoredEvent>, next: u64) -> EventPage {
    let mut page = EventPage { events: Vec::with_capacity(events.len()), next: Position(next) };
    let mut bytes = 0;
    for event in events {
        let position = event.position;
        let Some(body) = EventBody::of(event) else { continue };
        if bytes > 0 && bytes + body.bytes() > PAGE_BYTES_MAX {
            // Events before it are in the page.
            page.next = Position(position - 1);
            break;
        }
        bytes += body.bytes();
        page.events.push(body);
    }
    page
}

/// Streams events after a position
///
/// A stream without an end: a line for each event (`Event`), and an empty line every 15 seconds while nothing happens.
/// Continue with `after` = `position` of the last event. If events were removed before they were read, the last line is
/// the error (`Problem`).
#[utoipa::path(get, path = "/v1/events/stream", tag = "events", params(EventsQuery),
    responses((status = 200, content_type = "application/x-ndjson", body = String),
              (status = 409, description = "The node keeps no events; the position is ahead of the feed", body = V1Error),
              (status = 410, description = "Events after the position were removed", body = V1Error)))]
pub(super) async fn follow(
    caller: Caller<Events>,
    State(v1): State<Arc<V1>>,
    Query(query): Query<EventsQuery>,
) -> Result<Response, V1Error> {
    need_feed(&v1)?;
    let life = caller.life.clone();
    let place = caller.into_stream(&v1)?;
    let filter = query.filter();
    let from = begin(&v1, query.after).await?;
    // The first read decides on the status.
    let first = read(&v1, from, filter, CHUNK).await?;
    let api = v1.clone();
    Ok(Answer::stream(&v1, move |answer| async move {
        let _place = place;
        // A caller that has disconnected needs no answer.
        let _ = stream(&api, answer, life, filter, first).await;
    }))
}

async fn stream(v1: &V1, answer: Answer, mut life: KeyLife, filter: EventFilter, mut some: Read) -> Result<(), Gone> {
    let mut news = v1.events.subscribe();
    loop {
        for event in some.events {
            if life.is_over() {
                return answer.line(&V1Error::revoked()).await;
            }
            if let Some(body) = EventBody::of(event) {
                answer.line(&body).await?;
            }
        }
        let after = some.next;
        while some.is_end && !news.has_changed().unwrap_or(true) {
            tokio::select! {
                _ = news.changed() => break,
                () = life.over() => return answer.line(&V1Error::revoked()).await,
                () = answer.closed() => return Err(Gone),
                () = sleep(QUIET) => answer.pulse().await?,
            }
        }
        news.mark_unchanged();
        some = match read(v1, Begin::After(after), filter, CHUNK).await {
            Ok(some) => some,
            Err(error) => return answer.line(&error).await,
        };
    }
}

/// Removes old events until it is dropped.
pub struct EventPruner(JoinHandle<()>);

impl Drop for EventPruner {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl EventPruner {
    /// Removes events that are older than `keep_ms`, and those that are more than `rows_max`, now and every minute.
    #[must_use]
    pub fn start(node: Node, clock: Arc<dyn Clock>, keep_ms: u64, rows_max: u64) -> Self {
        Self(tokio::spawn(async move {
            loop {
                let keep_ms = i64::try_from(keep_ms).unwrap_or(i64::MAX);
                let before = Timestamp(clock.now().unix.0.saturating_sub(keep_ms));
                match prune(&node, before, rows_max).await {
                    Ok(0) => {}
                    Ok(removed) => tracing::debug!(removed, "old events of the feed are removed"),
                    Err(error) => tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "old events of the feed cannot be removed; it is tried again"
                    ),
                }
                sleep(PRUNE_EVERY).await;
            }
        }))
    }
}

/// How many events were removed.
async fn prune(node: &Node, before: Timestamp, rows_max: u64) -> Result<u64, StoreError> {
    let mut removed = 0;
    loop {
        match node.store().prune_events(before, rows_max, PRUNE_SLICE).await? {
            0 => return Ok(removed),
            some => removed += some,
        }
        sleep(PRUNE_PAUSE).await;
    }
}
