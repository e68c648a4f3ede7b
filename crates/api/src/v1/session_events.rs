//! Session events: a stream of connects, resumes, disconnects and ends.
//!
//! Owns        `SessionEvents`, a ring of the newest with their numbers.
//! Doors       `push` from the partitions; `GET /v1/sessions/events` reads.
//! Invariants  L1 numbers are contiguous and start at 1 with the process. L2 a gap is reported to the reader.
//!             (tests `l*_*`)
//! Limits      `events_max` in the ring; a reader that is further behind gets the number of lost events and continues
//!             with the oldest event. Spec  docs/backend-api.md "Sessions".

use super::{
    V1,
    caller::{Caller, Sessions},
    error::V1Error,
    extract::{Check, FieldErrors, Query},
    ndjson::{Answer, Gone},
    types::{Snowflake, Time},
};
use axum::{extract::State, response::Response};
use guildhall_model::UserId;
use guildhall_node::KeyLife;
use guildhall_partition::{SessionChange, SessionNews};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::watch;
use utoipa::{IntoParams, ToSchema};

/// Events handed to a reader at once.
const EVENTS_AT_ONCE: usize = 256;
/// A reader that gets no event for this long gets an empty line, so that proxies keep the stream open and a dead
/// reader is noticed.
const QUIET: Duration = Duration::from_secs(15);

#[derive(Clone)]
struct Numbered {
    n: u64,
    at: Timestamp,
    change: SessionChange,
    session_id: Arc<str>,
    user_id: UserId,
}

struct Ring {
    events: VecDeque<Numbered>,
    last: u64,
}

/// Recent events of sessions.
pub struct SessionEvents {
    ring: Mutex<Ring>,
    events_max: usize,
    last: watch::Sender<u64>,
}

impl SessionEvents {
    /// A ring of at most `events_max` events, about 100 bytes each.
    #[must_use]
    pub fn new(events_max: usize) -> Self {
        let ring = Ring { events: VecDeque::new(), last: 0 };
        Self { ring: Mutex::new(ring), events_max: events_max.max(1), last: watch::Sender::new(0) }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub fn push(&self, at: Timestamp, news: SessionNews) {
        let SessionNews { change, session_id, user_id } = news;
        let mut ring = self.ring();
        ring.last += 1;
        let n = ring.last;
        if ring.events.len() >= self.events_max {
            ring.events.pop_front();
        }
        ring.events.push_back(Numbered { n, at, change, session_id, user_id });
        drop(ring);
        self.last.send_replace(n);
    }

    /// At most `limit` events after a number, and the number of lost events before them.
    fn after(&self, after: u64, limit: usize) -> (u64, Vec<Numbered>) {
        let ring = self.ring();
        let oldest = ring.events.front().map_or(ring.last + 1, |event| event.n);
        let lost = oldest.saturating_sub(after + 1);
        let skip = (after + 1).saturating_sub(oldest) as usize;
        (lost, ring.events.iter().skip(skip).take(limit).cloned().collect())
    }

    fn last(&self) -> u64 {
        self.ring().last
    }
}

/// Parameters of the stream.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    /// The `n` of the last event that the client has; later ones are sent first. Omitted: only new events.
    after: Option<u64>,
}

impl Check for Begin {
    fn check(&self, _: &mut FieldErrors) {}
}

/// An event of a session.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SessionEvent)]
pub(super) struct SessionEventBody {
    /// Number of the event: contiguous from 1, restarting with the node.
    n: u64,
    /// Time of the event.
    at: Time,
    /// `connected` (by IDENTIFY), `resumed`, `disconnected` (it can be resumed), `gone`.
    event: &'static str,
    /// Id of the session.
    session_id: String,
    /// Account of the session.
    user_id: Snowflake,
}

/// Events are missing: they were evicted, or the node restarted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SessionEventsLost)]
pub(super) struct Lost {
    /// Lower bound of their number.
    lost: u64,
    /// `after` is from before a restart: numbers have started again.
    restarted: bool,
}

fn name(change: SessionChange) -> &'static str {
    match change {
        SessionChange::Connected => "connected",
        SessionChange::Resumed => "resumed",
        SessionChange::Disconnected => "disconnected",
        SessionChange::Gone => "gone",
    }
}

/// Streams the events of sessions
///
/// A stream without an end: a line for each event (`SessionEvent`), a `SessionEventsLost` where some are missing, and
/// an empty line every 15 seconds while nothing happens.
#[utoipa::path(get, path = "/v1/sessions/events", tag = "sessions", params(Begin),
    responses((status = 200, content_type = "application/x-ndjson", body = String)))]
pub(super) async fn follow(
    caller: Caller<Sessions>,
    State(v1): State<Arc<V1>>,
    Query(from): Query<Begin>,
) -> Result<Response, V1Error> {
    let (events, life) = (v1.session_events.clone(), caller.life.clone());
    let place = caller.into_stream(&v1)?;
    Ok(Answer::stream(&v1, move |answer| async move {
        let _place = place;
        // A caller that has disconnected needs no answer.
        let _ = stream_events(&events, from.after, life, &answer).await;
    }))
}

async fn stream_events(
    events: &SessionEvents,
    after: Option<u64>,
    mut life: KeyLife,
    answer: &Answer,
) -> Result<(), Gone> {
    let mut news = events.last.subscribe();
    let mut after = match after {
        None => events.last(),
        Some(after) if after > events.last() => {
            answer.line(&Lost { lost: 0, restarted: true }).await?;
            0
        }
        Some(after) => after,
    };
    loop {
        news.mark_unchanged();
        let (lost, some) = events.after(after, EVENTS_AT_ONCE);
        if lost > 0 {
            answer.line(&Lost { lost, restarted: false }).await?;
        }
        for Numbered { n, at, change, session_id, user_id } in &some {
            if life.is_over() {
                return answer.line(&V1Error::revoked()).await;
            }
            let (session_id, user_id) = (session_id.to_string(), (*user_id).into());
            answer.line(&SessionEventBody { n: *n, at: Time(*at), event: name(*change), session_id, user_id }).await?;
        }
        after = some.last().map_or(after + lost, |event| event.n);
        if some.len() == EVENTS_AT_ONCE {
            continue;
        }
        tokio::select! {
            changed = news.changed() => changed.map_err(|_| Gone)?,
            () = life.over() => return answer.line(&V1Error::revoked()).await,
            () = answer.closed() => return Err(Gone),
            () = tokio::time::sleep(QUIET) => answer.pulse().await?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(events: &SessionEvents, count: u64) {
        for _ in 0..count {
            let session_id = "s".into();
            let news = SessionNews { change: SessionChange::Connected, session_id, user_id: UserId::new(1) };
            events.push(Timestamp(0), news);
        }
    }

    fn numbers(events: &SessionEvents, after: u64, limit: usize) -> (u64, Vec<u64>) {
        let (lost, some) = events.after(after, limit);
        (lost, some.iter().map(|event| event.n).collect())
    }

    #[test]
    fn l1_l2_numbers_are_contiguous_and_gaps_are_told() {
        let events = SessionEvents::new(3);
        assert_eq!(numbers(&events, 0, 10), (0, vec![]));
        push(&events, 2);
        assert_eq!(numbers(&events, 0, 10), (0, vec![1, 2]));
        assert_eq!(numbers(&events, 1, 10), (0, vec![2]));
        assert_eq!(numbers(&events, 2, 10), (0, vec![]));
        push(&events, 5);
        assert_eq!(numbers(&events, 0, 10), (4, vec![5, 6, 7]));
        assert_eq!(numbers(&events, 3, 2), (1, vec![5, 6]));
        assert_eq!(numbers(&events, 4, 1), (0, vec![5]));
        assert_eq!(numbers(&events, 7, 10), (0, vec![]));
    }
}
