//! Folder: files of one node, below a folder of this machine.
//!
//! Invariants  K2 a file and its name are synced before `put` and `put_file` return. K3 a file appears in its place by
//!             a rename.
//! Limits      lists hold `LIST_AHEAD` entries in memory, and the names of one folder.

use crate::{Entry, FileStorage, Opened, Staging, StorageError, blocking, is_key};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::mpsc;

/// Attempts to use a folder that another call removes because it is empty.
const ATTEMPTS_MAX: u32 = 8;
/// Entries that a list reads ahead of its caller.
const LIST_AHEAD: usize = 256;

/// The driver. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Folder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    staging: Arc<Staging>,
    /// Held while a name is looked for and then taken.
    placing: Mutex<()>,
}

impl Folder {
    /// Creates the folder if it is missing. Blocks.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn open(dir: PathBuf, staging: Arc<Staging>) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        Ok(Self(Arc::new(Inner { dir, staging, placing: Mutex::default() })))
    }

    /// The path of a file (K1).
    ///
    /// # Panics
    /// If the key is none. Keys consist of numbers and of names of this program.
    fn path(&self, key: &str) -> PathBuf {
        assert!(is_key(key), "{key:?} is no key");
        self.0.dir.join(key)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.placing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves a synced file to its place, which survives a power cut from then on.
    fn place(&self, from: &Path, to: &Path) -> io::Result<()> {
        let folder = to.parent().unwrap_or(&self.dir);
        let mut attempts_left = ATTEMPTS_MAX;
        loop {
            self.create_folder(folder)?;
            let placing = self.lock();
            if to.try_exists()? {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            match fs::rename(from, to) {
                // `remove` found the folder empty.
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempts_left > 0 => attempts_left -= 1,
                Err(error) => return Err(error),
                Ok(()) => break,
            }
            drop(placing);
        }
        // The name is durable once its folder is synced.
        sync_dir(folder).or_else(|error| fs::remove_file(to).and(Err(error)))
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        match fs::create_dir(folder) {
            Ok(()) => sync_dir(folder.parent().unwrap_or(&self.dir)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder != self.dir => {
                self.create_folder(folder.parent().unwrap_or(&self.dir))?;
                self.create_folder(folder)
            }
            Err(error) => Err(error),
        }
    }

    fn write(&self, to: &Path, content: &[u8]) -> io::Result<bool> {
        if to.try_exists()? {
            return sync_dir(to.parent().unwrap_or(&self.dir)).map(|()| false);
        }
        let staged = self.staging.next_path();
        let written = (|| {
            let mut file = Staging::create(&staged)?;
            file.write_all(content)?;
            file.sync_all()?;
            self.place(&staged, to)
        })();
        let _ = fs::remove_file(&staged);
        match written {
            Ok(()) => Ok(true),
            // Another call wrote it first. It may not have synced the folder yet.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                sync_dir(to.parent().unwrap_or(&self.dir)).map(|()| false)
            }
            Err(error) => Err(error),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<Option<u64>> {
        let remove = || fs::metadata(path).and_then(|metadata| fs::remove_file(path).map(|()| metadata.len()));
        let bytes = match remove() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Some(folder) = path.parent().filter(|folder| *folder != self.dir) {
            // It fails if the folder is not empty.
            let _ = fs::remove_dir(folder);
        }
        Ok(Some(bytes))
    }

    /// Sends every file below a folder. False: the receiver has gone.
    fn walk(&self, dir: &Path, key: &str, to: &mpsc::Sender<Result<Entry, StorageError>>) -> io::Result<bool> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| is_key(name)) else { continue };
            let metadata = match entry.metadata() {
                // Removed in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            let (path, key) = (entry.path(), format!("{key}{name}"));
            if metadata.is_dir() {
                if path != self.staging.dir() && !self.walk(&path, &format!("{key}/"), to)? {
                    return Ok(false);
                }
            } else if to.blocking_send(Ok(Entry { key, bytes: metadata.len(), is_settled: true })).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[async_trait]
impl FileStorage for Folder {
    async fn put_file(&self, key: &str, path: &Path, _bytes: u64) -> Result<(), StorageError> {
        let (inner, to, from) = (self.0.clone(), self.path(key), path.to_owned());
        blocking(move || {
            File::open(&from)?.sync_all()?;
            inner.place(&from, &to)
        })
        .await
    }

    async fn put(&self, key: &str, content: Bytes) -> Result<bool, StorageError> {
        let (inner, to) = (self.0.clone(), self.path(key));
        blocking(move || inner.write(&to, &content)).await
    }

    async fn remove(&self, key: &str) -> Result<Option<u64>, StorageError> {
        let (inner, path) = (self.0.clone(), self.path(key));
        blocking(move || inner.remove(&path)).await
    }

    async fn remove_settled(&self, key: &str) -> Result<Option<u64>, StorageError> {
        self.remove(key).await
    }

    async fn open(&self, key: &str) -> Result<Opened, StorageError> {
        let path = self.path(key);
        match tokio::fs::try_exists(&path).await? {
            true => Ok(Opened::Local(path)),
            false => Err(StorageError::NotFound),
        }
    }

    fn list(&self, prefix: &str) -> BoxStream<'_, Result<Entry, StorageError>> {
        let (send, receive) = mpsc::channel(LIST_AHEAD);
        let (inner, prefix) = (self.0.clone(), prefix.to_owned());
        tokio::task::spawn_blocking(move || {
            if let Err(error) = inner.walk(&inner.dir.join(&prefix), &prefix, &send) {
                let _ = send.blocking_send(Err(error.into()));
            }
        });
        stream::unfold(receive, |mut receive| async move { receive.recv().await.map(|entry| (entry, receive)) }).boxed()
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn failures_count(&self) -> u64 {
        0
    }

    async fn check(&self) -> Result<(), StorageError> {
        let staged = self.0.staging.next_path();
        blocking(move || {
            let written = Staging::create(&staged).and_then(|mut file| file.write_all(b"probe"));
            let _ = fs::remove_file(&staged);
            written
        })
        .await
    }
}
