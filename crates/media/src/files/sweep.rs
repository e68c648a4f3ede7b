//! Sweep: removes files that no message has, and pictures that no object has; counts the others.
//!
//! Doors       `Files::sweep` once; `Files::keep_swept` periodically, and when an upload found no room.
//! Invariants  F3: the store is queried after the claims, so that no request can be about to publish the file.
//! Limits      one list of all files. `ATTACHMENTS_ASKED_MAX` files or `PICTURE_OWNERS_ASKED_MAX` owners at a time,
//!             with `PAUSE` between. A bucket is swept every `BUCKET_EVERY` at most: a list costs a request per 1,000
//!             files, and each node makes one.

use super::{
    Files,
    pictures::{Guilds, PictureKey, Pictures},
    shares::OfChannel,
};
use futures_util::TryStreamExt as _;
use guildhall_files::StorageError;
use guildhall_model::{ChannelId, Id};
use guildhall_store::{ATTACHMENTS_ASKED_MAX, PICTURE_OWNERS_ASKED_MAX, PictureOwner, Store, StoreError};
use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{task::JoinHandle, time::sleep};

/// Pause between two queries, so that the store can serve other work.
pub(super) const PAUSE: Duration = Duration::from_millis(20);
/// Full storage does not cause more frequent sweeps than this.
const EVERY_MIN: Duration = Duration::from_secs(30);
const BUCKET_EVERY: Duration = Duration::from_secs(3600);
const BUCKET_EVERY_MIN: Duration = Duration::from_secs(600);

#[derive(Debug, thiserror::Error)]
pub(super) enum SweepError {
    #[error("the files cannot be listed or removed")]
    Storage(#[from] StorageError),
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
}

/// Numbers of removed files and pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Swept {
    pub files: u64,
    pub pictures: u64,
}

/// Ends the sweeping with it.
pub struct Sweeper(JoinHandle<()>);

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Files {
    /// Sweeps now, and periodically.
    #[must_use]
    pub fn keep_swept(&self, store: Arc<dyn Store>) -> Sweeper {
        let files = self.clone();
        Sweeper(tokio::spawn(async move {
            let every = files.0.sweep_every;
            let (every, every_min) = match files.0.storage.is_shared() {
                false => (every, EVERY_MIN),
                true => (every.max(BUCKET_EVERY), BUCKET_EVERY_MIN),
            };
            loop {
                match files.sweep(&*store).await {
                    Ok(Swept { files: 0, pictures: 0 }) => {}
                    Ok(Swept { files: removed, pictures }) => {
                        tracing::info!(removed, pictures, bytes = files.bytes(), "files without an owner are removed")
                    }
                    Err(error) => tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "files without an owner cannot be removed; it is tried again"
                    ),
                }
                sleep(every.min(every_min)).await;
                let _ = tokio::time::timeout(every.saturating_sub(every_min), files.0.full.notified()).await;
            }
        }))
    }

    /// Counts the files, and fills the index of pictures.
    pub(super) async fn count(&self) -> Result<(), StorageError> {
        let (mut bytes, mut guilds, mut owned) = (0, Guilds::new(), OwnedBytes::default());
        let mut listed = self.0.storage.list("");
        while let Some(entry) = listed.try_next().await? {
            match Owned::of(&entry.key) {
                Some(Owned::Picture(owner, name)) => Pictures::listed(&mut guilds, owner, name),
                Some(_) => {}
                None => continue,
            }
            owned.add(&entry.key, entry.bytes);
            bytes += entry.bytes;
        }
        self.0.bytes.store(bytes, Ordering::Relaxed);
        self.0.shares.set(owned.channels, owned.pictures);
        self.0.pictures.set_guilds(guilds);
        Ok(())
    }

    /// Removes every file that no message has, and every picture that no object refers to.
    pub(super) async fn sweep(&self, store: &dyn Store) -> Result<Swept, SweepError> {
        let before = self.bytes();
        let (mut swept, mut bytes, mut guilds) = (Swept::default(), 0, Guilds::new());
        let mut all = OwnedBytes::default();
        let (mut files, mut pictures) = (Vec::new(), Vec::<(PictureOwner, Vec<String>)>::new());
        let mut listed = self.0.storage.list("");
        while let Some(entry) = listed.try_next().await? {
            let Some(owned) = Owned::of(&entry.key) else { continue };
            bytes += entry.bytes;
            all.add(&entry.key, entry.bytes);
            match owned {
                Owned::Attachment(channel_id, id) if entry.is_settled => files.push((channel_id, id)),
                Owned::Attachment(..) => {}
                Owned::Picture(owner, name) => {
                    Pictures::listed(&mut guilds, owner, name);
                    if pictures.last().is_none_or(|(last, _)| *last != owner) {
                        if pictures.len() == PICTURE_OWNERS_ASKED_MAX {
                            swept.pictures += self.remove_unused(store, &pictures).await?;
                            pictures.clear();
                            sleep(PAUSE).await;
                        }
                        pictures.push((owner, Vec::new()));
                    }
                    if entry.is_settled
                        && let Some((_, names)) = pictures.last_mut()
                    {
                        names.push(name.to_owned());
                    }
                }
                // Lists of buckets are sorted: the pictures of all guilds came before.
                Owned::Index(kind, id) => {
                    if entry.is_settled && !guilds.contains_key(&(kind, id)) {
                        self.remove_index(kind, id).await?;
                    }
                }
            }
            if files.len() == ATTACHMENTS_ASKED_MAX {
                swept.files += self.remove_unneeded(store, &files).await?;
                files.clear();
                sleep(PAUSE).await;
            }
        }
        swept.files += self.remove_unneeded(store, &files).await?;
        swept.pictures += self.remove_unused(store, &pictures).await?;
        if self.0.storage.is_shared() {
            // Other nodes store and remove files, too. What changed here during the list may count twice or not at all,
            // until the next one.
            let recount = |now: u64| Some(bytes.saturating_add(now).saturating_sub(before));
            let _ = self.0.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, recount);
            self.0.pictures.set_guilds(guilds);
            self.0.shares.set(all.channels, all.pictures);
        }
        self.find_guilds(store).await?;
        Ok(swept)
    }

    /// Finds the guilds of channels with files from before the start, whose share then counts.
    async fn find_guilds(&self, store: &dyn Store) -> Result<(), StoreError> {
        for channels in self.0.shares.unknown().chunks(ATTACHMENTS_ASKED_MAX) {
            for channel_id in channels {
                if let Some(guild_id) = store.guild_of_channel(*channel_id).await? {
                    self.0.shares.set_guild(*channel_id, guild_id);
                }
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Removes those attachments that no message has. How many those were.
    async fn remove_unneeded(&self, store: &dyn Store, files: &[(ChannelId, Id<()>)]) -> Result<u64, SweepError> {
        let unclaimed: Vec<(ChannelId, Id<()>)> =
            files.iter().copied().filter(|(_, id)| !self.0.pending.holds(*id)).collect();
        let ids: Vec<Id<()>> = unclaimed.iter().map(|(_, id)| *id).collect();
        if ids.is_empty() {
            return Ok(0);
        }
        let in_use = store.attachments_in_use(&ids).await?;
        let mut removed = 0;
        for (channel_id, id) in unclaimed.into_iter().filter(|(_, id)| !in_use.contains(id)) {
            self.remove(channel_id, id).await?;
            removed += 1;
        }
        Ok(removed)
    }
}

/// Bytes of a list, by owner.
#[derive(Default)]
struct OwnedBytes {
    channels: HashMap<ChannelId, OfChannel>,
    pictures: u64,
}

impl OwnedBytes {
    fn add(&mut self, key: &str, bytes: u64) {
        match Owned::of(key) {
            Some(Owned::Attachment(channel_id, _)) => {
                let of = self.channels.entry(channel_id).or_default();
                of.bytes += bytes;
                of.files += 1;
            }
            Some(Owned::Picture(..)) => self.pictures += bytes,
            Some(Owned::Index(..)) | None => {}
        }
    }
}

/// Meaning of a key.
enum Owned<'a> {
    Attachment(ChannelId, Id<()>),
    Picture(PictureOwner, &'a str),
    Index(super::pictures::Kind, u64),
}

impl<'a> Owned<'a> {
    /// None: the file is not ours.
    fn of(key: &'a str) -> Option<Self> {
        match PictureKey::parse(key) {
            Some(PictureKey::Picture(owner, name)) => return Some(Self::Picture(owner, name)),
            Some(PictureKey::Index(kind, id)) => return Some(Self::Index(kind, id)),
            None => {}
        }
        let (channel_id, id) = key.split_once('/')?;
        let number = |text: &str| text.parse::<u64>().ok();
        Some(Self::Attachment(ChannelId::new(number(channel_id)?), Id::new(number(id)?)))
    }
}
