//! Files: attachments and pictures, in a folder.
//!
//! Owns        the folder `files` of the data directory: `CHANNEL/ID`, one file each, and `incoming/` for
//!             incomplete files; `pictures/` (in `pictures`); the number of bytes in it; claims on files that wait
//!             for their message.
//! Doors       `begin` for an incoming file, `Received::keep` when it is complete, `remove`, `place`;
//!             `sweep` (in `sweep`).
//! Invariants  F1 a stored file is on disk before its message is published. F2 all files together, including uploads in
//!             progress, never exceed `bytes_max`. F3 a file is deleted only if no message has it and no request is
//!             about to use it (`PendingFiles`). F4 paths consist of numbers only.
//! Limits      `FilesOptions`. Past `bytes_max` uploads are refused.
//! Not here    permission to upload (`crate::upload`) and to download (`serve`).     Spec  docs/adr/0030.

mod cdn;
mod image;
mod incoming;
mod kind;
mod link;
mod pending;
mod pictures;
mod serve;
mod sweep;

pub(crate) use image::Format;
pub(crate) use incoming::{Incoming, Received};
pub(crate) use kind::{clean_name, content_type};
pub(crate) use pending::FileReservation;
pub(crate) use pictures::{HASH_DIGITS, Held};
pub use serve::files_router;
pub use sweep::Sweeper;

use guildhall_guild::RenewLinks;
use guildhall_model::{ChannelId, Id, Message};
use guildhall_node::Clock;
use guildhall_stdx::Timestamp;
use link::Links;
use pending::PendingFiles;
use pictures::Pictures;
use std::{
    fs, io,
    path::{Path, PathBuf},
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
    /// The folder; made when missing.
    pub dir: PathBuf,
    /// Address of this node for clients: `scheme://host[:port]`. Links in messages begin with it.
    pub base_url: String,
    /// Signs links. Another one makes all links invalid.
    pub secret: Vec<u8>,
    /// Limit on the bytes of all files together.
    pub bytes_max: u64,
    /// Bytes of one.
    pub file_bytes_max: u64,
    /// Bytes of an avatar, icon, splash or banner.
    pub picture_bytes_max: u64,
    /// How often files that no message has are looked for.
    pub sweep_every: Duration,
    /// Seconds until a link expires. 0: links hold as long as their message.
    pub links_expire_s: u32,
}

/// The folder. Cheap to clone.
#[derive(Clone)]
pub struct Files(Arc<Folder>);

struct Folder {
    dir: PathBuf,
    links: Links,
    /// Dates the links.
    clock: Arc<dyn Clock>,
    bytes_max: u64,
    file_bytes_max: u64,
    sweep_every: Duration,
    /// Bytes of all files and uploads (F2).
    bytes: AtomicU64,
    /// For names in `incoming/`.
    begun: AtomicU64,
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
    /// An error of the file system.
    #[error("a file cannot be written")]
    Io(#[from] io::Error),
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
    /// Opens the folder, deletes incomplete files, and counts the others. Blocks while it visits each file once.
    ///
    /// # Errors
    /// The folder cannot be created, read or written.
    pub fn open(options: FilesOptions, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let FilesOptions {
            dir,
            base_url,
            secret,
            bytes_max,
            file_bytes_max,
            picture_bytes_max,
            sweep_every,
            links_expire_s,
        } = options;
        let incoming = dir.join(INCOMING);
        match fs::remove_dir_all(&incoming) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(&incoming)?;
        let pictures = Pictures::default();
        let mut bytes = Self::open_pictures(&dir, &pictures)?;
        for channel_id in numbers_in(&dir)? {
            let channel = dir.join(channel_id.to_string());
            for id in numbers_in(&channel)? {
                bytes += fs::metadata(channel.join(id.to_string()))?.len();
            }
        }
        Ok(Self(Arc::new(Folder {
            dir,
            links: Links::new(&base_url, &secret, links_expire_s),
            clock,
            bytes_max,
            file_bytes_max,
            sweep_every,
            bytes: AtomicU64::new(bytes),
            begun: AtomicU64::new(0),
            pending: PendingFiles::default(),
            pictures,
            picture_bytes_max,
            full: Notify::new(),
        })))
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

    /// How many an avatar, icon, splash or banner may have.
    pub(crate) fn picture_bytes_max(&self) -> u64 {
        self.0.picture_bytes_max
    }

    /// Begins an incoming file.
    pub(crate) async fn begin(&self) -> Result<Incoming, FileError> {
        let n = self.0.begun.fetch_add(1, Ordering::Relaxed);
        Incoming::create(self.clone(), self.0.dir.join(INCOMING).join(n.to_string())).await
    }

    /// Link to a stored file.
    pub(crate) fn url(&self, channel_id: ChannelId, id: Id<()>, filename: &str) -> String {
        self.0.links.url(self.now(), channel_id, id, filename)
    }

    /// A link with a new expiry, and the channel that its file was sent to. None: this node did not sign the link.
    pub(crate) fn renewed(&self, url: &str) -> Option<(ChannelId, String)> {
        let link = Links::parse(url)?;
        Some((link.channel_id, self.0.links.renewed(self.now(), url)?))
    }

    fn now(&self) -> Timestamp {
        self.0.clock.now().unix
    }

    /// Removes a stored file, if it exists.
    pub(crate) async fn remove(&self, channel_id: ChannelId, id: Id<()>) -> io::Result<()> {
        let files = self.clone();
        blocking(move || files.remove_now(channel_id, id)).await
    }

    fn remove_now(&self, channel_id: ChannelId, id: Id<()>) -> io::Result<()> {
        let place = self.place(channel_id, id);
        let remove = || fs::metadata(&place).and_then(|metadata| fs::remove_file(&place).map(|()| metadata.len()));
        match remove() {
            Ok(bytes) => self.give_back(bytes),
            // A concurrent call removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The path of a file, made of numbers only (F4).
    fn place(&self, channel_id: ChannelId, id: Id<()>) -> PathBuf {
        self.0.dir.join(channel_id.to_string()).join(id.to_string())
    }

    /// Quota for more bytes (F2).
    fn take_room(&self, more: u64) -> Result<(), FileError> {
        let fits = |taken: u64| taken.checked_add(more).filter(|sum| *sum <= self.0.bytes_max);
        match self.0.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(()),
            Err(_) => {
                self.0.full.notify_one();
                Err(FileError::Full)
            }
        }
    }

    fn give_back(&self, bytes: u64) {
        self.0.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Guilds publish messages of any age, and REST reads them: both with valid links.
impl RenewLinks for Files {
    fn renew(&self, now: Timestamp, message: &Message) -> Option<Message> {
        self.0.links.renew(now, message)
    }
}

/// The names in a folder that are numbers, in no order. Others are not ours.
fn numbers_in(dir: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
    }
    Ok(numbers)
}

/// Work that waits for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests;
