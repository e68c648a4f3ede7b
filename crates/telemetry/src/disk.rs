//! Disk: bytes that a data directory uses, and free bytes.

use guildhall_store::DATABASE_FILE;
use std::{fs, io, path::Path};

/// Disk space that a data directory uses, and free space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Size of the database without its write-ahead log.
    pub database_bytes: u64,
    /// The write-ahead log.
    pub log_bytes: u64,
    /// Free on the file system, for this user; none where the system does not report it.
    pub free_bytes: Option<u64>,
}

impl DiskUse {
    /// Reads it from the file system.
    #[must_use]
    pub fn of(dir: &Path) -> Self {
        let bytes = |name: &str| fs::metadata(dir.join(name)).map_or(0, |file| file.len());
        Self {
            database_bytes: bytes(DATABASE_FILE),
            log_bytes: bytes(&format!("{DATABASE_FILE}-wal")),
            free_bytes: free_bytes(dir).ok(),
        }
    }
}

/// Bytes that this user may still write to the file system of `dir`.
///
/// # Errors
/// When the system does not report it.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(dir)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_takes_room() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(DATABASE_FILE), [0; 5]).unwrap();
        let found = DiskUse::of(dir.path());
        assert_eq!((found.database_bytes, found.log_bytes), (5, 0));
        assert!(found.free_bytes.unwrap() > 0);
    }
}
