//! Staging: a local folder for files that are incomplete, or on their way to their place.
//!
//! Invariants  a start empties the folder: files that a crash left are removed.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Folder for uploads in progress. See the module.
#[derive(Debug)]
pub struct Staging {
    dir: PathBuf,
    started: AtomicU64,
}

impl Staging {
    /// Empties the folder, or creates it. Blocks.
    ///
    /// # Errors
    /// The folder cannot be created, read or written.
    pub fn open(dir: PathBuf) -> io::Result<Self> {
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(&dir)?;
        Ok(Self { dir, started: AtomicU64::new(0) })
    }

    /// Where new files are created.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A path for a new file.
    pub fn next_path(&self) -> PathBuf {
        self.dir.join(self.started.fetch_add(1, Ordering::Relaxed).to_string())
    }

    /// Creates a file. Blocks.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(path: &Path) -> io::Result<File> {
        File::options().read(true).write(true).create_new(true).open(path)
    }
}
