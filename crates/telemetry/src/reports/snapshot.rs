//! Snapshot of the history: the series of the last hour in a file of the data directory, so that they
//! outlive a restart.
//!
//! Doors       `read` at the start; `Reports::keep_history` every `SNAPSHOT_EVERY`, and when the node stops.
//! Invariants  F1 the file appears as a whole, and only this user can read it. F2 a file that cannot be read, or is no
//!             history, is as good as none. (tests `f1_*`, `f2_*`)
//! Limits      `BYTES_MAX`, more than the largest history. Nothing is written while the disk is full. Samples after
//!             the last write are lost with `kill -9`.

use super::{Reports, lock};
use guildhall_accounting::History;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::Duration,
};

/// A megabyte for a usual node.
pub(super) const SNAPSHOT_EVERY: Duration = Duration::from_secs(300);
const BYTES_MAX: u64 = 32 << 20;

/// The history of the last process; an empty one without.
pub(super) fn read(path: &Path) -> History {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => History::from_bytes(&bytes).unwrap_or_else(|| {
            tracing::warn!(path = %path.display(), "this is no history of a node, and is ignored");
            History::default()
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => History::default(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the history cannot be read: the dashboard starts without one");
            History::default()
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    drop(file);
    fs::rename(&new, path)
}

impl Reports {
    /// Writes the history. Blocks.
    pub fn keep_history(&self) {
        if self.metrics.node.are_writes_stopped() {
            return;
        }
        let bytes = lock(&self.history).to_bytes();
        if let Err(error) = write(&self.history_file, &bytes) {
            let path = self.history_file.display();
            tracing::warn!(%path, %error, "the history of the dashboard cannot be written: it ends with this process");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_accounting::Reading;
    use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _};

    #[test]
    fn f1_the_file_is_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        let mut history = read(&path);
        history.push(1_000, BTreeMap::from([("a".to_owned(), Reading::Gauge(5.0))]));
        write(&path, &history.to_bytes()).unwrap();
        write(&path, &history.to_bytes()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(read(&path).window(60, |_| true), history.window(60, |_| true));
    }

    #[test]
    fn f2_another_file_is_as_good_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        fs::write(&path, "something else").unwrap();
        assert_eq!(read(&path).window(60, |_| true).at_ms.len(), 0);
        assert_eq!(read(dir.path()).window(60, |_| true).at_ms.len(), 0, "a directory");
    }
}
