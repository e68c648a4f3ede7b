//! Sweep: files that no message has any more go.
//!
//! Doors       `Files::sweep` once; `Files::keep_swept` every so often, and when the folder was found full.
//! Invariants  F3: the store is queried after the claims, so that no request can be about to publish the file.
//! Limits      `ATTACHMENTS_ASKED_MAX` files at a time, with `PAUSE` between; the ids of one channel's files in memory,
//!             8 bytes each.

use super::{Files, INCOMING, blocking, numbers_in};
use guildhall_model::{ChannelId, Id};
use guildhall_store::{ATTACHMENTS_ASKED_MAX, Store, StoreError};
use std::{fs, io, sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::sleep};

/// Between two questions to the store: it has other things to do.
pub(super) const PAUSE: Duration = Duration::from_millis(20);
/// A full folder does not cause more frequent sweeps than this.
const EVERY_MIN: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub(super) enum SweepError {
    #[error("the folder of files cannot be read")]
    Io(#[from] io::Error),
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
}

/// Ends the sweeping with it.
pub struct Sweeper(JoinHandle<()>);

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Files {
    /// Sweeps now, and every so often.
    #[must_use]
    pub fn keep_swept(&self, store: Arc<dyn Store>) -> Sweeper {
        let files = self.clone();
        Sweeper(tokio::spawn(async move {
            let every = files.0.sweep_every;
            loop {
                let swept = match files.sweep(&*store).await {
                    Ok(removed) => files.sweep_pictures(&*store).await.map(|pictures| (removed, pictures)),
                    Err(error) => Err(error),
                };
                match swept {
                    Ok((0, 0)) => {}
                    Ok((removed, pictures)) => {
                        tracing::info!(removed, pictures, bytes = files.bytes(), "files without an owner are removed")
                    }
                    Err(error) => tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "files without an owner cannot be removed; it is tried again"
                    ),
                }
                sleep(every.min(EVERY_MIN)).await;
                let _ = tokio::time::timeout(every.saturating_sub(EVERY_MIN), files.0.full.notified()).await;
            }
        }))
    }

    /// Removes every file that no message has. How many those were.
    pub(super) async fn sweep(&self, store: &dyn Store) -> Result<u64, SweepError> {
        let mut removed = 0;
        let files = self.clone();
        for channel in blocking(move || numbers_in(&files.0.dir)).await? {
            let files = self.clone();
            let ids = match blocking(move || numbers_in(&files.0.dir.join(channel.to_string()))).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                ids => ids?,
            };
            for ids in ids.chunks(ATTACHMENTS_ASKED_MAX) {
                let unclaimed: Vec<Id<()>> =
                    ids.iter().map(|id| Id::new(*id)).filter(|id| !self.0.pending.holds(*id)).collect();
                let in_use = store.attachments_in_use(&unclaimed).await?;
                for id in unclaimed.iter().filter(|id| !in_use.contains(id)) {
                    self.remove(ChannelId::new(channel), *id).await?;
                    removed += 1;
                }
                sleep(PAUSE).await;
            }
            let channel = self.0.dir.join(channel.to_string());
            debug_assert!(!channel.ends_with(INCOMING), "that is no number");
            // It fails if the folder is not empty.
            let _ = blocking(move || fs::remove_dir(channel)).await;
        }
        Ok(removed)
    }
}
