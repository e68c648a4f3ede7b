//! Pending files: stored files whose message is not published yet.
//!
//! Invariants  C1 a file is reserved from before its file is stored until its message is published or refused. C2 if
//!             the result is unknown (the request was aborted), the reservation lasts `UNSETTLED_FOR` longer, which is
//!             more than any command takes.
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
pub(super) struct PendingFiles(Mutex<BTreeMap<Id<()>, Option<Instant>>>);

impl PendingFiles {
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

/// FileReservation on the files of one request. Dropped without `settle`, the outcome of the message is unknown.
pub(crate) struct FileReservation {
    files: super::Files,
    ids: Vec<Id<()>>,
}

impl FileReservation {
    pub fn new(files: super::Files) -> Self {
        Self { files, ids: Vec::new() }
    }

    pub fn add(&mut self, id: Id<()>) {
        self.files.0.pending.lock().insert(id, None);
        self.ids.push(id);
    }

    /// The outcome is known: the message has the files, or it was refused.
    pub fn settle(mut self) {
        let mut pending = self.files.0.pending.lock();
        for id in self.ids.drain(..) {
            pending.remove(&id);
        }
    }
}

impl Drop for FileReservation {
    fn drop(&mut self) {
        if self.ids.is_empty() {
            return;
        }
        let mut pending = self.files.0.pending.lock();
        pending.retain(|_, left| is_held(*left));
        for id in &self.ids {
            pending.insert(*id, Some(Instant::now()));
        }
    }
}
