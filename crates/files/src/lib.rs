//! Files: where uploaded files are. One trait, two drivers: a folder, and a bucket of an S3-compatible store.
//!
//! Owns        `FileStorage`, the form of keys, `Staging` for incomplete files.
//! Drivers     `Folder`, `Bucket`. One contract suite runs against both (`tests/it/contract.rs`).
//! Invariants  K1 a key consists of parts of letters, digits, `-` and `_`: no key leads elsewhere. K2 what `put` and
//!             `put_file` have stored survives a crash of this node. K3 a reader gets a whole file or none. K4 no file
//!             replaces another one under its key, except by the same bytes.
//! Limits      of each driver in its module.
//! Not here    needs and permissions of files (`guildhall_media`).
//! Spec        docs/adr/0038.

#![forbid(unsafe_code)]

mod bucket;
mod client;
mod folder;
mod staging;

pub use bucket::{Bucket, BucketOptions, Remote};
pub use folder::Folder;
pub use staging::Staging;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
};

/// A stored file, in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the file, without the folder or bucket.
    pub key: String,
    /// Of the whole file.
    pub bytes: u64,
    /// Whether the file is so old that no node can be about to refer to it. Always true of a folder, which
    /// has one node.
    pub is_settled: bool,
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// There is no such file.
    #[error("there is no such file")]
    NotFound,
    /// Another file has this key.
    #[error("another file has this key")]
    AlreadyExists,
    /// The disk is full.
    #[error("the disk has no room for the file")]
    Full,
    /// The file system.
    #[error("the folder of files cannot be used")]
    Io(#[source] io::Error),
    /// The bucket did not do it: the operation can be repeated later.
    #[error("the bucket of files cannot be used")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
}

impl From<io::Error> for StorageError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::AlreadyExists => Self::AlreadyExists,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Io(error),
        }
    }
}

/// A file that is about to be read.
pub enum Opened {
    /// A file of this machine.
    Local(PathBuf),
    /// An object of a bucket, with its first bytes.
    Remote(Remote),
}

/// Where files are.
///
/// Callers bound the size of a file; callers also make sure that a future is not dropped halfway where that matters.
#[async_trait]
pub trait FileStorage: Send + Sync + 'static {
    /// Stores the file at `path` under `key`. A folder moves it there; whatever is left at `path` is the caller's.
    ///
    /// # Errors
    /// [`StorageError`]. After `Unavailable` the file may still be stored.
    async fn put_file(&self, key: &str, path: &Path, bytes: u64) -> Result<(), StorageError>;

    /// Stores bytes under `key`. False if the same file was there.
    ///
    /// # Errors
    /// [`StorageError`].
    async fn put(&self, key: &str, content: Bytes) -> Result<bool, StorageError>;

    /// Removes a file, and returns its size. None if it does not exist.
    ///
    /// # Errors
    /// [`StorageError`].
    async fn remove(&self, key: &str) -> Result<Option<u64>, StorageError>;

    /// As `remove`, unless the file was written a moment ago, maybe by another node that is about to refer to it: then
    /// none.
    ///
    /// # Errors
    /// [`StorageError`].
    async fn remove_settled(&self, key: &str) -> Result<Option<u64>, StorageError>;

    /// Finds a file to read.
    ///
    /// # Errors
    /// [`StorageError`].
    async fn open(&self, key: &str) -> Result<Opened, StorageError>;

    /// Every file whose key begins with `prefix`, which is empty or ends with a slash. Files of one folder follow each
    /// other.
    fn list(&self, prefix: &str) -> BoxStream<'_, Result<Entry, StorageError>>;

    /// Whether several nodes use it.
    fn is_shared(&self) -> bool;

    /// Requests to a bucket that failed after all retries.
    fn failures_count(&self) -> u64;

    /// Writes, reads, lists and removes a small file.
    ///
    /// # Errors
    /// What does not work.
    async fn check(&self) -> Result<(), StorageError>;
}

/// Whether a key has the form of K1.
#[must_use]
pub fn is_key(key: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    key.len() <= 200 && key.split('/').all(|part| !part.is_empty() && part.bytes().all(is_plain))
}

/// Work that waits for the disk. It is not cancelled halfway.
async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, StorageError>
where
    T: Send + 'static,
    E: Into<StorageError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Into::into),
        Err(error) => Err(StorageError::Io(io::Error::other(error))),
    }
}
