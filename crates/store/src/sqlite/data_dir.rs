//! Data directory: where a node keeps its database, one process at a time.
//!
//! Owns        `guildhall.db` (with SQLite's `-wal` and `-shm` beside it) and `guildhall.lock`.
//! Invariants  the lock is the operating system's: it goes with the process, however that ends.

use crate::StoreError;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

/// An open data directory. Nobody else has it until this is dropped.
#[derive(Debug)]
pub(super) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Opens the directory, after creating it (for this user only) if need be.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let fail = |error| StoreError::data_dir(path, error);
        if !path.is_dir() {
            create(path).map_err(fail)?;
        }
        // Absolute, so that SQLite never takes a name that starts with `file:` for a URI.
        let path = fs::canonicalize(path).map_err(fail)?;
        let lock_path = path.join("guildhall.lock");
        let mut lock =
            OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&lock_path).map_err(fail)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { process_id: read_process_id(&mut lock), path });
            }
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        write_process_id(&mut lock).map_err(fail)?;
        Ok(Self { path, _lock: lock })
    }

    /// The database file.
    pub(super) fn database(&self) -> PathBuf {
        self.path.join("guildhall.db")
    }
}

fn create(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700); // token hashes and the node's secrets are in there
    builder.create(path)?;
    // SQLite syncs its own directory entries, but not the directory's entry in its parent.
    #[cfg(unix)]
    if let Some(parent) = fs::canonicalize(path)?.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Only for the error message of whoever comes second.
fn write_process_id(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    lock.write_all(std::process::id().to_string().as_bytes())
}

fn read_process_id(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.take(16).read_to_string(&mut text).ok()?;
    text.parse().ok()
}
