//! Answers: the record of an interaction after its first answer, or after the deadline.
//!
//! Owns        `Answer`, a record of the store per interaction; the wait for the first one; the removal of old records.
//! Invariants  N1 of several first answers one counts, and none after INTERACTION_FAILURE: both replace "no record",
//!             which the store does once.
//! Limits      `WAITING_MAX` waits at once; records are removed `KEPT_MS` after their interaction by later
//!             interactions, `SWEEP_PAGE` in `SWEEP_EVERY_MS`: with more than 100 a second they accumulate.

use super::{ANSWER_MS, FOLLOWUPS_MAX, HOLDING_MAX, WAITING_MAX, publish, token::Token, unknown_interaction};
use crate::{error::ApiError, state::Api};
use axum::http::StatusCode;
use guildhall_model::{EventName, Id, MessageId, smallest_id_at, timestamp_of};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Kinds of the records: answers by interaction, modals by interaction, ephemeral messages by message.
const ANSWERS: &str = "interaction";
pub(super) const MODALS: &str = "interaction_modal";
pub(super) const EPHEMERAL: &str = "ephemeral_message";
/// Longer than any of them is used.
const KEPT_MS: i64 = 2 * 60 * 60_000;
/// Of a change: other nodes may change the same record.
const ATTEMPTS_MAX: u32 = 10;
const SWEEP_EVERY_MS: i64 = 10_000;
const SWEEP_PAGE: u32 = 1_024;

/// Code of INTERACTION_FAILURE: the application did not answer in time.
const TIMEOUT: u8 = 2;

/// State that the handlers of interactions share.
pub(crate) struct Answers {
    waiting: Arc<Semaphore>,
    /// Places of interactions whose files are held.
    pub holding: Arc<Semaphore>,
    swept_at: AtomicI64,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            holding: Arc::new(Semaphore::new(HOLDING_MAX)),
            swept_at: AtomicI64::new(0),
        }
    }
}

/// How an interaction was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Type of the callback; 0: none came in time.
    #[serde(rename = "type")]
    pub kind: u8,
    /// `@original`: the message that it made, or that has the used component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ephemeral: bool,
    /// Number of ephemeral followups.
    #[serde(default)]
    pub followups: u8,
}

impl Answer {
    const TOO_LATE: Self = Self::new(0, None, false);

    /// An answer without followups.
    pub const fn new(kind: u8, message_id: Option<MessageId>, is_ephemeral: bool) -> Self {
        Self { kind, message_id, is_ephemeral, followups: 0 }
    }

    fn bytes(self) -> Result<Vec<u8>, ApiError> {
        serde_json::to_vec(&self).map_err(|_| ApiError::Bug("an answer that can be written"))
    }

    /// The answer to an interaction, if one came in time.
    pub async fn read(api: &Api, id: Id<()>) -> Result<Option<Self>, ApiError> {
        let Some(bytes) = api.node.store().record(ANSWERS, &key(id)).await? else { return Ok(None) };
        let answer: Self = serde_json::from_slice(&bytes).map_err(|_| ApiError::Bug("an answer that can be read"))?;
        Ok(Some(answer).filter(|answer| *answer != Self::TOO_LATE))
    }

    /// Makes this the first answer (N1).
    pub async fn claim(self, api: &Api, id: Id<()>) -> Result<(), ApiError> {
        if api.node.store().swap_record(ANSWERS, &key(id), None, Some(&self.bytes()?)).await? {
            return Ok(());
        }
        match Self::read(api, id).await? {
            Some(_) => {
                let message = "Interaction has already been acknowledged.";
                Err(ApiError::coded(StatusCode::BAD_REQUEST, 40060, message))
            }
            None => Err(unknown_interaction()),
        }
    }

    /// Replaces the first answer by a more exact one.
    pub async fn put(self, api: &Api, id: Id<()>) -> Result<(), ApiError> {
        Ok(api.node.store().put_record(ANSWERS, &key(id), &self.bytes()?).await?)
    }

    /// Counts one more ephemeral followup, within the limit.
    pub async fn count_followup(api: &Api, id: Id<()>) -> Result<(), ApiError> {
        for _ in 0..ATTEMPTS_MAX {
            let before = api.node.store().record(ANSWERS, &key(id)).await?;
            let answer = before.as_deref().and_then(|bytes| serde_json::from_slice::<Self>(bytes).ok());
            let answer = answer.ok_or_else(unknown_interaction)?;
            if answer.followups >= FOLLOWUPS_MAX {
                let message = "This interaction has reached the maximum number of follow up messages.";
                return Err(ApiError::coded(StatusCode::BAD_REQUEST, 40094, message));
            }
            let after = Self { followups: answer.followups + 1, ..answer }.bytes()?;
            if api.node.store().swap_record(ANSWERS, &key(id), before.as_deref(), Some(&after)).await? {
                return Ok(());
            }
        }
        Err(ApiError::Overloaded)
    }

    /// The answer was refused, so another one may come.
    pub async fn withdraw(api: &Api, id: Id<()>) -> Result<(), ApiError> {
        api.node.store().delete_record(ANSWERS, &key(id)).await?;
        Ok(())
    }
}

/// Ids ascend with time, and so do the records.
pub(super) fn key<T>(id: Id<T>) -> [u8; 8] {
    id.get().to_be_bytes()
}

impl Answers {
    /// A place for one more interaction that waits for its answer.
    pub fn place(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| ApiError::Overloaded)
    }
}

/// Notifies the user if the application does not answer in time.
pub(super) fn await_answer(api: Arc<Api>, token: Token, place: OwnedSemaphorePermit) {
    tokio::spawn(async move {
        let _place = place;
        tokio::time::sleep(Duration::from_millis(ANSWER_MS as u64)).await;
        fail(&api, &token).await;
        sweep(&api).await;
    });
}

/// The application has not answered: it cannot any more (N1).
pub(super) async fn fail(api: &Api, token: &Token) {
    // Otherwise it was answered, or the client learns of the failure by its own clock.
    if Answer::TOO_LATE.claim(api, token.id).await.is_ok() {
        let body = json!({"id": token.id, "nonce": token.nonce, "reason_code": TIMEOUT});
        if publish(api, EventName::InteractionFailure, token.guild_id, token.user_id, &body).is_err() {
            tracing::debug!(id = %token.id, "INTERACTION_FAILURE was dropped: the partitions are full");
        }
    }
}

/// Removes old records, at most once in `SWEEP_EVERY_MS`. What fails is left for the next time.
async fn sweep(api: &Api) {
    let now = api.now().unix;
    let last = api.answers.swept_at.load(Ordering::Relaxed);
    let is_due = now.0 - last >= SWEEP_EVERY_MS;
    let order = Ordering::Relaxed;
    if !is_due || api.answers.swept_at.compare_exchange(last, now.0, order, order).is_err() {
        return;
    }
    let before: Id<()> = smallest_id_at(Timestamp(now.0 - KEPT_MS));
    for kind in [ANSWERS, MODALS, EPHEMERAL] {
        let Ok(oldest) = api.node.store().records(kind, &[], SWEEP_PAGE).await else { continue };
        let old = oldest.into_iter().map(|(id, _)| id).take_while(|id| id[..] < key(before)[..]);
        for id in old {
            if api.node.store().delete_record(kind, &id).await.is_err() {
                break;
            }
        }
    }
}

/// Whether something that was made with this id is older than that.
pub(super) fn is_older<T>(api: &Api, id: Id<T>, ms: i64) -> bool {
    api.now().unix.0 - timestamp_of(id).0 > ms
}
