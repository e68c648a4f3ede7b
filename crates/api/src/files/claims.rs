//! Claims: stored files whose message is not published yet.
//!
//! Invariants  C1 an id is claimed from before its file is stored until its message is published or refused. C2 if the
//!             result is unknown (the request was aborted), the claim lasts `UNSETTLED_FOR` longer, which is more than
//!             any command takes.
//! Limits      one entry per file of a request in progress, or aborted recently; old entries are removed when the next
//!             request is aborted.

use guildhall_model::Id;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A command is answered or aborted within a minute, and the guild may still execute it.
const UNSETTLED_FOR: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<BTreeMap<Id<()>, Option<Instant>>>);

impl Claims {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id<()>, Option<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a message may come for this file.
    pub(super) fn holds(&self, id: Id<()>) -> bool {
        self.lock().get(&id).is_some_and(|left| is_held(*left))
    }
}

fn is_held(left: Option<Instant>) -> bool {
    left.is_none_or(|left| left.elapsed() < UNSETTLED_FOR)
}

/// Claim on the files of one request. Dropped without `settle`, the outcome of the message is unknown.
pub(crate) struct Claim {
    files: super::Files,
    ids: Vec<Id<()>>,
}

impl Claim {
    pub fn new(files: super::Files) -> Self {
        Self { files, ids: Vec::new() }
    }

    pub fn add(&mut self, id: Id<()>) {
        self.files.0.claims.lock().insert(id, None);
        self.ids.push(id);
    }

    /// The outcome is known: the message has the files, or it was refused.
    pub fn settle(mut self) {
        let mut claims = self.files.0.claims.lock();
        for id in self.ids.drain(..) {
            claims.remove(&id);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.ids.is_empty() {
            return;
        }
        let mut claims = self.files.0.claims.lock();
        claims.retain(|_, left| is_held(*left));
        for id in &self.ids {
            claims.insert(*id, Some(Instant::now()));
        }
    }
}
