//! Write gate: while the disk accepts no writes, commands that write are refused before a guild handles them.
//!
//! Owns        the state whether writes are stopped, and the task that checks when the disk accepts them again.
//! Why         a guild whose commit failed is loaded again, and its sessions see an outage. Without the gate every
//!             message on a full disk would cause that; with it guilds stay loaded, and reads and events without a
//!             write continue.
//! Doors       `failed` after a commit that found no room; `hold` for a caller that watches the free space;
//!             `are_stopped` before a command.
//! Invariants  W1 a stop after a failure ends only when the store has committed something since. (tests `s21_3_*`)
//! Limits      one probe at a time, every `PROBE`.

use guildhall_store::{Store, StoreError};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::runtime::Handle;

const PROBE: Duration = Duration::from_millis(500);
/// Kind and id of the record that a probe writes.
const PROBE_RECORD: (&str, &[u8]) = ("probe", b"disk");

#[derive(Debug, Default)]
pub(crate) struct WriteGate {
    /// A commit found no room, and none has succeeded since.
    failed: AtomicBool,
    /// A caller has stopped writes.
    held: AtomicBool,
}

impl WriteGate {
    pub(crate) fn are_stopped(&self) -> bool {
        self.failed.load(Ordering::Acquire) || self.held.load(Ordering::Acquire)
    }

    pub(crate) fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Release);
    }

    /// A commit found no room: no further writes until a probe succeeds.
    pub(crate) fn failed(self: &Arc<Self>, runtime: &Handle, store: &Arc<dyn Store>) {
        if self.failed.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::error!("the disk accepts no writes: they are refused until it does; reads continue");
        let (gate, store) = (self.clone(), store.clone());
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(PROBE).await;
                let (kind, id) = PROBE_RECORD;
                match store.put_record(kind, id, &[]).await {
                    Ok(()) => break,
                    Err(StoreError::Closed) => return,
                    Err(_) => {}
                }
            }
            gate.failed.store(false, Ordering::Release);
            tracing::info!("the disk accepts writes again");
        });
    }
}
