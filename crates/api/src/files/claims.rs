//! Claims: kept files whose message is on its way.
//!
//! Invariants  C1 an id is claimed from before its file is in place until its message was published or refused. C2 if
//!             the result is unknown (the request was abandoned), the claim lasts `UNSETTLED_FOR` longer, which is more
//!             than any command takes.
//! Limits      one entry per file of a request that is worked on, or that was given up since; old ones go when the next
//!             is given up.

use guildhall_model::Id;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A command is answered or given up within a minute; the guild may still come to it.
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

/// Files of one request. Dropped without `settle`: nobody knows what became of the message.
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

    /// It is known whether a message has them.
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
