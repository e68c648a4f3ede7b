//! Data directory: where a node keeps its database, one process at a time.
//!
//! Owns        `guildhall.db` (with SQLite's `-wal` and `-shm`), `guildhall.lock`, and the access rights of everything
//!             that a node keeps in the directory (`PRIVATE`).
//! Invariants  the lock is the operating system's: it goes with the process, however that ends. Other users of the
//!             machine can read nothing in the directory, whatever the umask is: secrets and messages lie there. (tests
//!             `s14_*`)

use crate::StoreError;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

/// File name of the database.
pub const DATABASE_FILE: &str = "guildhall.db";
/// Marks a directory into which a restore did not finish.
pub const RESTORING_FILE: &str = "guildhall.restoring";
/// The file of a data directory that a process locks.
pub const LOCK_FILE: &str = "guildhall.lock";

/// Names of what a node keeps in its data directory. Other files there are left alone: the directory may hold more.
const PRIVATE: [&str; 9] = [
    DATABASE_FILE,
    "guildhall.db-wal",
    "guildhall.db-shm",
    LOCK_FILE,
    RESTORING_FILE,
    "files",
    "handover.ndjson",
    "handover.ndjson.part",
    "demo.json",
];

/// An open data directory, locked against other processes until this is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    lock: File,
}

/// A process that is just being started holds copies of all open files until it runs its own program. The lock is
/// released by name, so that no such copy keeps it.
impl Drop for DataDir {
    fn drop(&mut self) {
        // A file that cannot be unlocked is unlocked when it is closed.
        let _ = self.lock.unlock();
    }
}

impl DataDir {
    /// Opens the directory, creates it if it does not exist, and removes access of other users.
    ///
    /// # Errors
    /// `DataDir` when the directory cannot be created or written, `Readable` when other users can read it and this
    /// process may not change that, `InUse` when another process has it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let fail = |error| StoreError::data_dir(path, error);
        if !path.is_dir() {
            create(path).map_err(fail)?;
        }
        // Absolute, so that SQLite never takes a name that starts with `file:` for a URI.
        let path = fs::canonicalize(path).map_err(fail)?;
        make_private(&path)?;
        let mut lock = private().truncate(false).open(path.join(LOCK_FILE)).map_err(fail)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { process_id: read_process_id(&mut lock), path });
            }
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        write_process_id(&mut lock).map_err(fail)?;
        Ok(Self { path, lock })
    }

    /// The directory, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database file. It exists afterwards, empty if it is new: SQLite gives its other files the
    /// same access rights.
    pub(super) fn database(&self) -> Result<PathBuf, StoreError> {
        let marker = self.path.join(RESTORING_FILE);
        if marker.exists() {
            return Err(StoreError::RestoreUnfinished { path: self.path.clone() });
        }
        let path = self.path.join(DATABASE_FILE);
        // SQLite refuses a path that is no file.
        if !path.exists() {
            private().truncate(false).open(&path).map_err(|error| StoreError::data_dir(&self.path, error))?;
        }
        Ok(path)
    }
}

/// Options for a file that its owner alone may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn create(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    // SQLite syncs its own directory entries, but not the directory's entry in its parent.
    #[cfg(unix)]
    if let Some(parent) = fs::canonicalize(path)?.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Removes access of group and others from the directory and from what a node keeps in it.
#[cfg(unix)]
fn make_private(dir: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let inside = PRIVATE.iter().map(|name| dir.join(name));
    for path in std::iter::once(dir.to_owned()).chain(inside) {
        let fail = |error| StoreError::data_dir(dir, error);
        let link = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(fail(error)),
        };
        let metadata = if link.is_symlink() { fs::metadata(&path).map_err(fail)? } else { link.clone() };
        let mode = metadata.mode() & 0o7777;
        if mode & 0o077 == 0 {
            continue;
        }
        // A link may lead anywhere: the mode of its target is checked and never changed.
        let changed =
            !link.is_symlink() && fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o7700)).is_ok();
        if !changed {
            return Err(StoreError::Readable { path, mode });
        }
        tracing::warn!(path = %path.display(), mode = format!("{mode:o}"), "other users could read it; now they cannot");
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_private(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Only for the error message of a second process.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_lock_file_does_not_keep_the_lock() {
        let dir = std::env::temp_dir().join(format!("guildhall-lock-{}", std::process::id()));
        let opened = DataDir::open(&dir).unwrap();
        let copy = opened.lock.try_clone().unwrap();
        assert!(matches!(DataDir::open(&dir), Err(StoreError::InUse { .. })));
        drop(opened);
        DataDir::open(&dir).unwrap();
        drop(copy);
        fs::remove_dir_all(&dir).unwrap();
    }
}
