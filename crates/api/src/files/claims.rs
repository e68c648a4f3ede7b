//! Claims: kept files whose message is on its way.
//!
//! Invariants  C1 an id is claimed before its file has its place, and until the message was told or refused. C2 if nobody
//!             learned which (the request was given up), for `UNSETTLED_FOR` more: longer than any command takes.
//! Limits      one entry per file of a request that is worked on, or was lately.

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

    /// Whether a message may come for this file; forgets claims that are too old.
    pub(super) fn holds(&self, id: Id<()>) -> bool {
        let mut claims = self.lock();
        match claims.get(&id) {
            None => false,
            Some(None) => true,
            Some(Some(left)) if left.elapsed() < UNSETTLED_FOR => true,
            Some(Some(_)) => {
                claims.remove(&id);
                false
            }
        }
    }
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
        let mut claims = self.files.0.claims.lock();
        for id in &self.ids {
            claims.insert(*id, Some(Instant::now()));
        }
    }
}
