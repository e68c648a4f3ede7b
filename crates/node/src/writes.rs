//! Write gate: while the store accepts no writes, commands that write are refused before a guild handles them.
//!
//! Owns        the state whether writes are stopped, because the disk is full or the database is away, and the task
//!             that checks when the store accepts them again.
//! Why         a guild whose commit failed is loaded again, and its sessions see an outage. Without the gate every
//!             message on a full disk would cause that; with it guilds stay loaded, and reads and events without a
//!             write continue.
//! Doors       `failed` after a commit that found no room or no database; `hold` for a caller that watches the free
//!             space; `are_stopped` before a command.
//! Invariants  W1 a stop after a failure ends only when the store has committed something since. (tests `s21_3_*`)
//! Limits      one probe at a time, every `PROBE`.

use guildhall_store::{Store, StoreError};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Duration,
};
use tokio::runtime::Handle;

const PROBE: Duration = Duration::from_millis(500);
/// Kind and id of the record that a probe writes.
const PROBE_RECORD: (&str, &[u8]) = ("probe", b"disk");

/// Why the node refuses writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritesStopped {
    /// The disk of the database has no room, or is read-only. Reads continue.
    Full = 1,
    /// The database cannot be reached. Guilds in memory are still served.
    Unreachable = 2,
}

impl WritesStopped {
    /// Of an error that concerns every write.
    fn of(error: &StoreError) -> Option<Self> {
        if error.is_full() {
            Some(Self::Full)
        } else if error.is_unreachable() {
            Some(Self::Unreachable)
        } else {
            None
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct WriteGate {
    /// Why the last commit failed, as `WritesStopped`, until one succeeds; 0: it did not fail.
    failed: AtomicU8,
    /// A caller has stopped writes.
    held: AtomicBool,
}

impl WriteGate {
    pub(crate) fn stopped(&self) -> Option<WritesStopped> {
        match self.failed.load(Ordering::Acquire) {
            0 => self.held.load(Ordering::Acquire).then_some(WritesStopped::Full),
            failed if failed == WritesStopped::Unreachable as u8 => Some(WritesStopped::Unreachable),
            _ => Some(WritesStopped::Full),
        }
    }

    pub(crate) fn are_stopped(&self) -> bool {
        self.stopped().is_some()
    }

    pub(crate) fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Release);
    }

    /// A commit failed. If all others would fail as well: no further writes until a probe succeeds.
    pub(crate) fn failed(self: &Arc<Self>, runtime: &Handle, store: &Arc<dyn Store>, error: &StoreError) {
        let Some(why) = WritesStopped::of(error) else { return };
        if self.failed.swap(why as u8, Ordering::AcqRel) != 0 {
            return;
        }
        match why {
            WritesStopped::Full => {
                tracing::error!("the disk accepts no writes: they are refused until it does; reads continue")
            }
            WritesStopped::Unreachable => {
                tracing::error!("the database cannot be reached: writes are refused until it can")
            }
        }
        let (gate, store) = (self.clone(), store.clone());
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(PROBE).await;
                let (kind, id) = PROBE_RECORD;
                match store.put_record(kind, id, &[]).await {
                    Ok(()) => break,
                    Err(StoreError::Closed | StoreError::Fenced) => return,
                    Err(_) => {}
                }
            }
            gate.failed.store(0, Ordering::Release);
            match why {
                WritesStopped::Full => tracing::info!("the disk accepts writes again"),
                WritesStopped::Unreachable => tracing::info!("the database accepts writes again"),
            }
        });
    }
}
