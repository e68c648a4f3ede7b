//! Disk: watches the free space for the data directory, and stops writes before the disk is full.
//!
//! Owns        the task that checks the free space and stops the node's writes (`DiskWatch`).
//! Why         the database is there: with PostgreSQL there is no watch.
//! Invariants  D1 below `store.free_bytes_min` nothing is written, and the node reports it (`/readyz`, the log,
//!             `/metrics`); reads continue. D2 writes are accepted again a quarter above it, so that they do not start
//!             and stop with every message. (test `disk::s21_3_*`)
//! Limits      one check per `LOOK_EVERY`.
//! Not here    a commit that fails although there seemed to be room: `guildhall_node`'s write gate.

use guildhall_node::Node;
use guildhall_telemetry::disk::free_bytes;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Checks the free space until it is dropped.
#[derive(Debug)]
pub struct DiskWatch {
    bytes_min: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl DiskWatch {
    /// Checks at once, and starts the task.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(dir: PathBuf, node: Node, bytes_min: u64) -> Self {
        let mut watched = Watched { dir, node, held: false, failed: false };
        watched.look(bytes_min);
        let bytes_min = Arc::new(AtomicU64::new(bytes_min));
        let of_task = bytes_min.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                let bytes_min = of_task.load(Ordering::Relaxed);
                // A network file system may block.
                let looked = tokio::task::spawn_blocking(move || {
                    watched.look(bytes_min);
                    watched
                });
                match looked.await {
                    Ok(back) => watched = back,
                    Err(_) => return,
                }
            }
        });
        Self { bytes_min, task }
    }

    /// Changes the limit. The task applies it at its next check.
    pub fn set_bytes_min(&self, bytes_min: u64) {
        self.bytes_min.store(bytes_min, Ordering::Relaxed);
    }
}

struct Watched {
    dir: PathBuf,
    node: Node,
    held: bool,
    failed: bool,
}

impl Watched {
    fn look(&mut self, bytes_min: u64) {
        let free = match free_bytes(&self.dir) {
            Ok(free) => free,
            Err(error) => {
                if !std::mem::replace(&mut self.failed, true) {
                    tracing::warn!(%error, "the free space of the data directory cannot be read");
                }
                return;
            }
        };
        self.failed = false;
        let held = is_held(self.held, free, bytes_min);
        if held != self.held {
            self.node.hold_writes(held);
            self.held = held;
            if held {
                tracing::error!(
                    free_bytes = free,
                    free_bytes_min = bytes_min,
                    "the disk is almost full: writes are refused, reads continue. Free some space"
                );
            } else {
                tracing::info!(free_bytes = free, "the disk has space again: writes are accepted");
            }
        }
    }
}

fn is_held(held: bool, free: u64, bytes_min: u64) -> bool {
    free < if held { bytes_min.saturating_add(bytes_min / 4) } else { bytes_min }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d2_writes_begin_again_above_where_they_ended() {
        assert!(!is_held(false, 100, 100));
        assert!(is_held(false, 99, 100));
        assert!(is_held(true, 124, 100));
        assert!(!is_held(true, 125, 100));
        assert!(!is_held(true, 0, 0));
        assert!(!is_held(false, 0, 0));
    }
}
