//! Watch: reads files again when they change.
//!
//! Limits      checked every `LOOK_EVERY`, because programs replace such files without a notification.
//! Not here    content of the files: `issuers`, `tls`.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use tokio::task::JoinHandle;

const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Checks the files until it is dropped.
#[derive(Debug)]
pub struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Modification time and length of a file; a replaced or rewritten file differs in one of them.
type Stamp = Option<(SystemTime, u64)>;

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

impl Watch {
    /// Calls `changed` each time one of the files has changed. The current state is the baseline, so the caller reads
    /// the files after this call.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(paths: Vec<PathBuf>, mut changed: impl FnMut() + Send + 'static) -> Self {
        let look = move || paths.iter().map(|path| stamp(path)).collect::<Vec<_>>();
        let mut seen = look();
        Self(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(LOOK_EVERY);
            loop {
                ticks.tick().await;
                // Small, local, and rare: not worth a thread.
                let now = look();
                if now != seen {
                    seen = now;
                    changed();
                }
            }
        }))
    }
}
