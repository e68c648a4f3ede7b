//! Files: attachments and pictures, in a folder of this node or in a bucket of all nodes.
//!
//! Owns        the names `CHANNEL/ID`, one file each, and `pictures/…` (in `pictures`); the local folder `incoming/`
//!             for incomplete files; the number of bytes; claims on files that wait for their message.
//! Doors       `begin` for an incoming file, `Received::keep` when it is complete, `remove`; `sweep` (in `sweep`).
//! Invariants  F1 a file is stored durably before its message is published. F2 all files together, including uploads in
//!             progress, never exceed `bytes_max`; in a bucket other nodes' uploads count from the next sweep on. F3 a
//!             file is deleted only if no message has it and no request of this node (`PendingFiles`) or of another one
//!             (`SETTLED_AFTER`) is about to use it. F4 names of attachments consist of numbers only.
//! Limits      `FilesOptions`. Past `bytes_max` uploads are refused, and past the shares of accounts and guilds
//!             (`shares`).
//! Not here    permission to upload (`guildhall-rest`) and to download (`serve`); the folder and the bucket themselves:
//!             `guildhall_files`.     Spec  docs/adr/0030, docs/adr/0038.

mod cdn;
mod image;
mod incoming;
mod kind;
mod link;
mod pending;
mod pictures;
mod remote;
mod serve;
mod shares;
mod sweep;

pub(crate) use image::Format;
pub(crate) use incoming::{Incoming, Received};
pub(crate) use kind::{clean_name, content_type};
pub(crate) use pending::FileReservation;
pub(crate) use pictures::{HASH_DIGITS, PictureHold};
pub use serve::files_router;
pub(crate) use shares::{Exhausted, Share};
pub use shares::{FileOwners, GuildFiles, SenderFiles};
pub use sweep::Sweeper;

use guildhall_files::{Bucket, FileStorage, Folder, Staging, StorageError};
use guildhall_guild::RenewLinks;
use guildhall_model::{ChannelId, Id, Message};
use guildhall_node::Clock;
use guildhall_stdx::Timestamp;
use link::Links;
use pending::PendingFiles;
use pictures::Pictures;
use shares::Shares;
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Settings of stored files.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// Folder for incomplete files, and without `bucket` for all files; made when missing.
    pub dir: PathBuf,
    /// Where files are. None: in `dir`.
    pub bucket: Option<Bucket>,
    /// Address of this node for clients: `scheme://host[:port]`. Links in messages begin with it.
    pub base_url: String,
    /// Signs links. Another one makes all links invalid.
    pub secret: Vec<u8>,
    /// Limit on the bytes of all files together.
    pub bytes_max: u64,
    /// How much of `bytes_max` one account or webhook may upload in a day, percent. 100: no limit.
    pub account_day_percent: u32,
    /// How much of `bytes_max` the files of one guild may have, percent.
    pub guild_percent: u32,
    /// How much of `bytes_max` only pictures may use, percent.
    pub pictures_percent: u32,
    /// Bytes of one.
    pub file_bytes_max: u64,
    /// Bytes of an avatar, icon, splash or banner.
    pub picture_bytes_max: u64,
    /// How often files that no message has are looked for.
    pub sweep_every: Duration,
    /// Seconds until a link expires. 0: links hold as long as their message.
    pub links_expire_s: u32,
}

/// Age from which on no command of any node can be about to refer to a file: a command is answered or aborted within a
/// minute, and a guild may execute it a little later.
pub const SETTLED_AFTER: Duration = Duration::from_secs(900);

/// All files. Cheap to clone.
#[derive(Clone)]
pub struct Files(Arc<Shared>);

struct Shared {
    storage: Arc<dyn FileStorage>,
    staging: Arc<Staging>,
    links: Links,
    /// Dates the links.
    clock: Arc<dyn Clock>,
    bytes_max: u64,
    file_bytes_max: u64,
    sweep_every: Duration,
    /// Bytes of all files and uploads (F2).
    bytes: AtomicU64,
    shares: Shares,
    pending: PendingFiles,
    pictures: Pictures,
    picture_bytes_max: u64,
    /// Notified when an upload finds the folder full.
    full: Notify,
}

/// Why a file is not taken in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// Past `file_bytes_max`.
    #[error("the file is too large")]
    TooLarge(u64),
    /// Past `bytes_max`, or the disk is full.
    #[error("there is no room for further files")]
    Full,
    /// Past the share of the sender or of the guild.
    #[error("a share of the files is used up")]
    Exhausted(Exhausted),
    /// An error of the file system.
    #[error("a file cannot be written")]
    Io(#[from] io::Error),
    /// The bucket failed, which is logged.
    #[error("the bucket of files does not answer")]
    Unavailable,
}

impl From<StorageError> for FileError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Full => Self::Full,
            StorageError::Unavailable(_) => Self::Unavailable,
            StorageError::Io(error) => Self::of(error),
            StorageError::NotFound => Self::Io(io::ErrorKind::NotFound.into()),
            StorageError::AlreadyExists => Self::Io(io::ErrorKind::AlreadyExists.into()),
        }
    }
}

impl FileError {
    fn of(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Io(error),
        }
    }
}

const INCOMING: &str = "incoming";

impl Files {
    /// Deletes incomplete files. In a folder it also counts the others, and visits each once; the files of a bucket are
    /// counted by the first sweep.
    ///
    /// # Errors
    /// The folder cannot be created, read or written.
    pub async fn open(options: FilesOptions, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let FilesOptions {
            dir,
            bucket,
            base_url,
            secret,
            bytes_max,
            account_day_percent,
            guild_percent,
            pictures_percent,
            file_bytes_max,
            picture_bytes_max,
            sweep_every,
            links_expire_s,
        } = options;
        let percent = |of: u32| (u128::from(bytes_max) * u128::from(of.min(100)) / 100) as u64;
        let shares = Shares::new(shares::Limits {
            sender_day_max: if account_day_percent < 100 { percent(account_day_percent) } else { u64::MAX },
            // All of it is `bytes_max`, past which a sweep starts to make room.
            guild_max: if guild_percent < 100 { percent(guild_percent) } else { u64::MAX },
            attachments_max: bytes_max - percent(pictures_percent),
        });
        let open = move || {
            let staging = Arc::new(Staging::open(dir.join(INCOMING))?);
            let storage: Arc<dyn FileStorage> = match bucket {
                Some(bucket) => Arc::new(bucket),
                None => Arc::new(Folder::open(dir, staging.clone())?),
            };
            Ok((staging, storage))
        };
        let (staging, storage) = blocking(open).await?;
        let files = Self(Arc::new(Shared {
            storage,
            staging,
            links: Links::new(&base_url, &secret, links_expire_s),
            clock,
            bytes_max,
            // A larger file could never be sent, and no waiting would help.
            file_bytes_max: file_bytes_max.min(shares.limits.sender_day_max).min(shares.limits.guild_max),
            sweep_every,
            bytes: AtomicU64::new(0),
            shares,
            pending: PendingFiles::default(),
            pictures: Pictures::default(),
            picture_bytes_max,
            full: Notify::new(),
        }));
        if !files.0.storage.is_shared() {
            files.count().await.map_err(io::Error::other)?;
        }
        Ok(files)
    }

    /// Bytes of all files, including incoming ones.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// How many there may be.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.0.bytes_max
    }

    /// Owners of the files: at most `limit` guilds and accounts.
    #[must_use]
    pub fn owners(&self, limit: usize) -> FileOwners {
        let shares = &self.0.shares;
        let (guilds, senders, pictures_bytes) = shares.owners(self.now_ms(), limit);
        FileOwners {
            bytes: self.bytes(),
            bytes_max: self.bytes_max(),
            pictures_bytes,
            attachments_bytes_max: shares.limits.attachments_max,
            guild_bytes_max: shares.limits.guild_max.min(self.bytes_max()),
            sender_day_bytes_max: shares.limits.sender_day_max,
            guilds,
            senders,
        }
    }

    /// Requests to the bucket that failed.
    #[must_use]
    pub fn failures_count(&self) -> u64 {
        self.0.storage.failures_count()
    }

    /// How many an avatar, icon, splash or banner may have.
    pub(crate) fn picture_bytes_max(&self) -> u64 {
        self.0.picture_bytes_max
    }

    /// Begins an incoming file.
    pub(crate) async fn begin(&self, share: Share) -> Result<Incoming, FileError> {
        Incoming::create(self.clone(), share, self.0.staging.next_path()).await
    }

    /// Link to a stored file.
    pub(crate) fn url(&self, channel_id: ChannelId, id: Id<()>, filename: &str) -> String {
        self.0.links.url(self.now(), channel_id, id, filename)
    }

    /// Link to a stored file that no message has, for some seconds.
    pub(crate) fn lent_url(&self, channel_id: ChannelId, id: Id<()>, filename: &str, lent_s: u64) -> String {
        self.0.links.lent_url(self.now(), (channel_id, id), filename, lent_s)
    }

    /// A link with a new expiry, and the channel that its file was sent to. None: this node did not sign the link.
    pub fn renewed(&self, url: &str) -> Option<(ChannelId, String)> {
        let link = Links::parse(url)?;
        Some((link.channel_id, self.0.links.renewed(self.now(), url)?))
    }

    fn now(&self) -> Timestamp {
        self.0.clock.now().unix
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.now().0).unwrap_or(0)
    }

    /// Removes a stored file, if it exists.
    pub(crate) async fn remove(&self, channel_id: ChannelId, id: Id<()>) -> Result<(), StorageError> {
        let removed = self.0.storage.remove(&attachment_key(channel_id, id)).await?;
        if let Some(bytes) = removed {
            self.give_back(bytes);
            self.0.shares.removed(channel_id, bytes);
        }
        Ok(())
    }

    /// Quota for more bytes of a file (F2), or of a picture if the share has no guild.
    fn take_room(&self, share: Share, more: u64) -> Result<(), FileError> {
        let shares = &self.0.shares;
        shares.take(share, more, self.now_ms()).map_err(FileError::Exhausted)?;
        let max = if share.guild.is_some() { shares.limits.attachments_max } else { self.0.bytes_max };
        let fits = |taken: u64| taken.checked_add(more).filter(|sum| *sum <= max);
        match self.0.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(()),
            Err(_) => {
                shares.give_back(share, more);
                self.0.full.notify_one();
                Err(FileError::Full)
            }
        }
    }

    fn give_back(&self, bytes: u64) {
        // A bucket may have files of other nodes that are not counted yet.
        let less = |all: u64| Some(all.saturating_sub(bytes));
        let _ = self.0.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// The name of an attachment (F4).
fn attachment_key(channel_id: ChannelId, id: Id<()>) -> String {
    format!("{channel_id}/{id}")
}

/// Guilds publish messages of any age, and REST reads them: both with valid links.
impl RenewLinks for Files {
    fn renew(&self, now: Timestamp, message: &Message) -> Option<Message> {
        self.0.links.renew(now, message)
    }
}

/// Work that waits for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests;
