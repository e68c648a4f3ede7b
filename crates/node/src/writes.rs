//! Write gate: while the store accepts no writes, they are refused before a guild or the store handles them.
//!
//! Owns        the state whether writes are stopped, because the disk is full or the database is away, and the task
//!             that checks when the store accepts them again.
//! Why         a guild whose commit failed is loaded again, and its sessions see an outage. Without the gate every
//!             message on a full disk would cause that; with it guilds stay loaded, and reads and events without a
//!             write continue.
//! Doors       `failed` after a write that found no room or no database; `hold` for a caller that watches the free
//!             space; `refuses` before a command of a guild; `check` before any other write (`TimedStore`).
//! Invariants  W1 a stop after a failure ends only when the store has committed something since. W2 while the disk is
//!             full nothing is written but deletions, revocations, and what records them. Guilds' own commits pass:
//!             they are of commands that were accepted before. (tests `s21_3_*`)
//! Limits      one probe at a time, every `PROBE`.

use crate::{deletions, relationships, revocations, tokens};
use guildhall_guild::{Command, Write};
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
/// Kinds of the records that deletions and revocations write: of tokens, of the jobs that delete accounts, and of the
/// backend API's audit log; and what goes with the removal of a relationship.
const DELETING_RECORDS: [&str; 9] = [
    PROBE_RECORD.0,
    tokens::REVOKED,
    tokens::FLOOR,
    revocations::LOG,
    deletions::DELETION,
    relationships::COUNTS,
    relationships::NEWS,
    "job",
    "v1_audit",
];

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

    /// Whether a command may not reach its guild now. Deletions may while the disk has its reserve; when it has nothing
    /// at all, their commits would fail and restart the guild.
    pub(crate) fn refuses(&self, command: &Command) -> bool {
        command.may_write()
            && (self.failed.load(Ordering::Acquire) != 0 || self.held.load(Ordering::Acquire) && !command.is_deletion())
    }

    /// # Errors
    /// `Full` while the disk is. A database that is away answers for itself.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.stopped() {
            Some(WritesStopped::Full) => Err(StoreError::Full(None)),
            Some(WritesStopped::Unreachable) | None => Ok(()),
        }
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

/// Whether the batch adds data. An account without a name is one that is deleted.
pub(crate) fn adds_data(writes: &[Write]) -> bool {
    writes.iter().any(|write| match write {
        Write::PutUser(user) => !user.is_deleted(),
        Write::PutGuild(_)
        | Write::PutRole(..)
        | Write::PutChannel(_)
        | Write::PutMember(..)
        | Write::PutResource(..)
        | Write::PutMessage(_)
        | Write::AddReaction(..)
        | Write::PutEvent(_) => true,
        Write::DeleteGuild(_)
        | Write::DeleteRole(..)
        | Write::DeleteChannel(..)
        | Write::DeleteMember(..)
        | Write::DeleteResource(..)
        | Write::DeleteResources(..)
        | Write::DeleteMessage(..)
        | Write::RemoveReaction(..)
        | Write::ClearReactions(..) => false,
    })
}

/// Whether a record is of something new.
pub(crate) fn adds_record(kind: &str) -> bool {
    !DELETING_RECORDS.contains(&kind)
}
