//! Pictures: avatars, icons, banners, emoji and stickers, among the files.
//!
//! Owns        the names `pictures/users/USER/NAME` of accounts and webhooks, `pictures/guilds/GUILD/NAME`,
//!             `pictures/members/GUILD-USER/NAME`, with the names of `guildhall_store::PictureNames`; the guilds of
//!             emoji, stickers, roles and scheduled events, because their links lack the guild: in memory, and in a
//!             bucket as `pictures/index/NAME`, which contains the number of the guild.
//! Doors       `hold` before the command that refers to a picture; `PictureHold::settled` with its outcome; `collect`
//!             after a command that dropped pictures; `remove_unused` for sweeps.
//! Invariants  P1 a picture is stored durably before any object refers to it. P2 pictures count in `bytes_max`. P3
//!             names consist of numbers and of hashes of this node. P4 a picture is removed only after a read of the
//!             store that is newer than the last command about it, and while no command about it is in progress; in a
//!             bucket also only if no node has written it for `SETTLED_AFTER`. (tests `p1_*` … `p4_*`)
//! Limits      `FilesOptions::bytes_max`; the caller bounds the bytes of one picture. 24 bytes of memory per emoji,
//!             sticker, role and event with a picture; one entry per command in progress, or aborted in the last
//!             `UNSETTLED_FOR`.

use super::{FileError, Files, Share};
use futures_util::TryStreamExt as _;
use guildhall_files::{Opened, StorageError};
use guildhall_model::{GuildId, UserId};
use guildhall_store::{PictureOwner, Store};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::Notify;

pub(super) const PICTURES: &str = "pictures";
const FOLDERS: [&str; 3] = ["users", "guilds", "members"];
const INDEX: &str = "index";
/// Hexadecimal digits of a hash: 128 bits, as upstream.
pub(crate) const HASH_DIGITS: usize = 32;
/// A command is answered or aborted within a minute, and the guild may still execute it.
const UNSETTLED_FOR: Duration = Duration::from_secs(600);
/// Attempts to find a moment without another command about the same owner; then the next sweep does it.
const ATTEMPTS_MAX: u32 = 8;

/// Objects whose links do not name their guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Emoji,
    Sticker,
    Role,
    Event,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Emoji => "emoji",
            Self::Sticker => "sticker",
            Self::Role => "role",
            Self::Event => "event",
        }
    }

    /// Of a name like `emoji-5` or `role-5-HASH`.
    pub(super) fn of(name: &str) -> Option<(Self, u64)> {
        let mut parts = name.split('-');
        let kind = match parts.next()? {
            "emoji" => Self::Emoji,
            "sticker" => Self::Sticker,
            "role" => Self::Role,
            "event" => Self::Event,
            _ => return None,
        };
        Some((kind, parts.next()?.parse().ok()?))
    }
}

type Name = (PictureOwner, String);
/// Guild and number of pictures of an object.
pub(super) type Guilds = HashMap<(Kind, u64), (GuildId, u32)>;

/// State in memory: the stored files are the rest.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    state: Mutex<State>,
    /// Notified when a removal has ended.
    removed: Notify,
}

#[derive(Debug, Default)]
struct State {
    guilds: Guilds,
    /// Pictures whose removal has begun: a command about one waits for its end.
    removing: BTreeSet<Name>,
    /// Commands in progress about each picture, or the time at which the last one was aborted.
    held: BTreeMap<Name, (u32, Option<Instant>)>,
    /// Counts commands whose outcome is known (P4).
    settled: u64,
}

impl Pictures {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a picture is not being removed.
    async fn until_removed(&self, name: &Name) {
        loop {
            let removed = self.removed.notified();
            if !self.lock().removing.contains(name) {
                return;
            }
            removed.await;
        }
    }

    /// A picture that a list has shown, for an index that is being made.
    pub(super) fn listed(guilds: &mut Guilds, owner: PictureOwner, name: &str) {
        if let (PictureOwner::Guild(guild_id), Some(key)) = (owner, Kind::of(name)) {
            guilds.entry(key).or_insert((guild_id, 0)).1 += 1;
        }
    }

    /// Replaces the index by the one of a complete list.
    pub(super) fn set_guilds(&self, guilds: Guilds) {
        self.lock().guilds = guilds;
    }
}

/// The removal of one picture. While it lives, no command about the picture begins.
struct Removal {
    files: Files,
    name: Name,
}

impl Drop for Removal {
    fn drop(&mut self) {
        let pictures = &self.files.0.pictures;
        pictures.lock().removing.remove(&self.name);
        pictures.removed.notify_waiters();
    }
}

/// Whether a removal may begin.
enum MayRemove {
    Yes(Removal),
    /// A command about it is in progress, or another removal.
    Held,
    /// A command was answered since the store was read: it has to be read again (P4).
    Stale,
}

impl State {
    fn is_held(&self, name: &Name) -> bool {
        let is_fresh = |given_up: Instant| given_up.elapsed() < UNSETTLED_FOR;
        self.held.get(name).is_some_and(|(count, given_up)| *count > 0 || given_up.is_some_and(is_fresh))
    }

    fn removed(&mut self, name: &str) {
        let Some(key) = Kind::of(name) else { return };
        if let Some((_, count)) = self.guilds.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.guilds.remove(&key);
            }
        }
    }
}

/// A hash that this node made (P3).
pub(super) fn is_hash(text: &str) -> bool {
    let hex = text.strip_prefix("a_").unwrap_or(text);
    hex.len() == HASH_DIGITS && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The beginning of the names of an owner's pictures.
fn owner_prefix(owner: PictureOwner) -> String {
    let (folder, owner) = match owner {
        PictureOwner::User(id) => (FOLDERS[0], id.to_string()),
        PictureOwner::Guild(id) => (FOLDERS[1], id.to_string()),
        PictureOwner::Member(guild_id, user_id) => (FOLDERS[2], format!("{guild_id}-{user_id}")),
    };
    format!("{PICTURES}/{folder}/{owner}/")
}

pub(super) fn picture_key(owner: PictureOwner, name: &str) -> String {
    debug_assert!(!name.contains(['/', '.']), "{name}");
    format!("{}{name}", owner_prefix(owner))
}

fn index_key((kind, id): (Kind, u64)) -> String {
    format!("{PICTURES}/{INDEX}/{}-{id}", kind.word())
}

/// The meaning of a name below `pictures/`.
pub(super) enum PictureKey<'a> {
    Picture(PictureOwner, &'a str),
    Index(Kind, u64),
}

impl<'a> PictureKey<'a> {
    /// None: the file is not ours.
    pub fn parse(key: &'a str) -> Option<Self> {
        let rest = key.strip_prefix(PICTURES)?.strip_prefix('/')?;
        let (folder, rest) = rest.split_once('/')?;
        if folder == INDEX {
            return Kind::of(rest).map(|(kind, id)| Self::Index(kind, id));
        }
        let (owner, name) = rest.split_once('/')?;
        Some(Self::Picture(owner_of(folder, owner)?, name)).filter(|_| !name.contains('/'))
    }
}

/// The owner of a folder; none: the folder is not ours.
fn owner_of(folder: &str, name: &str) -> Option<PictureOwner> {
    match folder {
        "users" => name.parse().ok().map(|id| PictureOwner::User(UserId::new(id))),
        "guilds" => name.parse().ok().map(|id| PictureOwner::Guild(GuildId::new(id))),
        "members" => {
            let (guild_id, user_id) = name.split_once('-')?;
            let (guild_id, user_id) = (guild_id.parse().ok()?, user_id.parse().ok()?);
            Some(PictureOwner::Member(GuildId::new(guild_id), UserId::new(user_id)))
        }
        _ => None,
    }
}

/// Of the command that refers to a picture.
enum Outcome {
    Known,
    Unknown,
}

/// Pictures of one owner that a command refers to. Dropped without `settled`, the outcome of the command is unknown.
#[must_use]
pub(crate) struct PictureHold {
    files: Files,
    owner: PictureOwner,
    names: Vec<String>,
}

impl PictureHold {
    /// The outcome of the command is known: removes the pictures of its owner that no object refers to.
    pub async fn settled(mut self, store: &dyn Store) {
        self.release(Outcome::Known);
        self.files.collect(store, self.owner).await;
    }

    fn release(&mut self, outcome: Outcome) {
        let mut state = self.files.0.pictures.lock();
        for name in self.names.drain(..) {
            let key = (self.owner, name);
            if let Some((count, given_up)) = state.held.get_mut(&key) {
                *count -= 1;
                match outcome {
                    Outcome::Unknown => *given_up = Some(Instant::now()),
                    Outcome::Known if *count == 0 && given_up.is_none() => {
                        state.held.remove(&key);
                    }
                    Outcome::Known => {}
                }
            }
        }
        state.settled += 1;
        state.held.retain(|_, (count, given_up)| {
            *count > 0 || given_up.is_some_and(|given_up| given_up.elapsed() < UNSETTLED_FOR)
        });
    }
}

impl Drop for PictureHold {
    fn drop(&mut self) {
        if !self.names.is_empty() {
            self.release(Outcome::Unknown);
        }
    }
}

impl Files {
    /// The guild of an object that has a picture.
    pub(super) async fn guild_of_picture(&self, kind: Kind, id: u64) -> Result<Option<GuildId>, StorageError> {
        if let Some((guild_id, _)) = self.0.pictures.lock().guilds.get(&(kind, id)) {
            return Ok(Some(*guild_id));
        }
        if !self.0.storage.is_shared() {
            return Ok(None);
        }
        // Another node may have stored it.
        let head = match self.0.storage.open(&index_key((kind, id))).await {
            Ok(Opened::Remote(remote)) => remote.head,
            Ok(Opened::Local(_)) | Err(StorageError::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        let guild_id = std::str::from_utf8(&head).ok().and_then(|text| text.parse().ok()).map(GuildId::new);
        if let Some(guild_id) = guild_id {
            self.0.pictures.lock().guilds.entry((kind, id)).or_insert((guild_id, 1));
        }
        Ok(guild_id)
    }

    /// Stores pictures of one owner (P1) and holds them there for a command.
    pub(crate) async fn hold(
        &self,
        sender: u64,
        owner: PictureOwner,
        pictures: Vec<(String, Vec<u8>)>,
    ) -> Result<PictureHold, FileError> {
        let mut held = PictureHold { files: self.clone(), owner, names: Vec::new() };
        match self.write_pictures(sender, &mut held, pictures).await {
            Ok(()) => Ok(held),
            // No command will refer to those that were written.
            Err(error) => {
                held.release(Outcome::Known);
                Err(error)
            }
        }
    }

    async fn write_pictures(
        &self,
        sender: u64,
        held: &mut PictureHold,
        pictures: Vec<(String, Vec<u8>)>,
    ) -> Result<(), FileError> {
        let (owner, share) = (held.owner, Share { sender, guild: None });
        for (name, bytes) in pictures {
            // Recorded before it is written: from now on no removal begins.
            self.0.pictures.lock().held.entry((owner, name.clone())).or_default().0 += 1;
            held.names.push(name.clone());
            self.0.pictures.until_removed(&(owner, name.clone())).await;
            let size = bytes.len() as u64;
            self.take_room(share, size)?;
            let files = self.clone();
            // In a task of its own, where it cannot be cancelled halfway: otherwise it would count twice, or not at
            // all.
            let written = tokio::spawn(async move {
                let written = files.write_picture(owner, &name, bytes).await;
                match &written {
                    Ok(true) => {
                        Pictures::listed(&mut files.0.pictures.lock().guilds, owner, &name);
                        files.0.shares.picture_kept(size);
                    }
                    _ => {
                        files.give_back(size);
                        files.0.shares.give_back(share, size);
                    }
                }
                written
            });
            written.await.map_err(|error| FileError::Io(io::Error::other(error)))??;
        }
        Ok(())
    }

    /// False: the same picture was there.
    async fn write_picture(&self, owner: PictureOwner, name: &str, bytes: Vec<u8>) -> Result<bool, StorageError> {
        let storage = &self.0.storage;
        if storage.is_shared()
            && let (PictureOwner::Guild(guild_id), Some(key)) = (owner, Kind::of(name))
        {
            storage.put(&index_key(key), guild_id.to_string().into()).await?;
        }
        storage.put(&picture_key(owner, name), bytes.into()).await
    }

    /// Removes the pictures of an owner that no object refers to. A failure is logged: the next sweep repeats it.
    pub(crate) async fn collect(&self, store: &dyn Store, owner: PictureOwner) {
        let prefix = owner_prefix(owner);
        let collected = async {
            let listed = self.0.storage.list(&prefix);
            let names = listed.map_ok(|entry| entry.key[prefix.len()..].to_owned()).try_collect().await?;
            self.remove_unused(store, &[(owner, names)]).await
        };
        if let Err(error) = collected.await {
            tracing::warn!(error = &error as &dyn std::error::Error, "pictures without an owner were not removed yet");
        }
    }

    /// Removes those of some owners' pictures that no object refers to. Returns their number.
    pub(super) async fn remove_unused(
        &self,
        store: &dyn Store,
        owners: &[(PictureOwner, Vec<String>)],
    ) -> Result<u64, super::sweep::SweepError> {
        let requested: Vec<PictureOwner> = owners.iter().map(|(owner, _)| *owner).collect();
        let mut removed = 0;
        'attempts: for _ in 0..ATTEMPTS_MAX {
            let settled = self.0.pictures.lock().settled;
            let in_use = store.pictures_in_use(&requested).await?;
            for ((owner, names), in_use) in owners.iter().zip(in_use) {
                for name in names.iter().filter(|name| !in_use.contains(*name)) {
                    match self.may_remove((*owner, name.clone()), settled) {
                        MayRemove::Held => {}
                        MayRemove::Stale => continue 'attempts,
                        MayRemove::Yes(removal) => removed += u64::from(self.remove_picture(removal).await?),
                    }
                }
            }
            break;
        }
        Ok(removed)
    }

    fn may_remove(&self, name: Name, settled: u64) -> MayRemove {
        let mut state = self.0.pictures.lock();
        if state.settled != settled {
            MayRemove::Stale
        } else if state.is_held(&name) || !state.removing.insert(name.clone()) {
            MayRemove::Held
        } else {
            MayRemove::Yes(Removal { files: self.clone(), name })
        }
    }

    async fn remove_picture(&self, removal: Removal) -> Result<bool, StorageError> {
        let files = self.clone();
        // In a task of its own: the removal must not end before the file is gone.
        let removed = tokio::spawn(async move {
            let (owner, name) = &removal.name;
            let Some(bytes) = files.0.storage.remove_settled(&picture_key(*owner, name)).await? else {
                return Ok(false);
            };
            files.give_back(bytes);
            files.0.shares.picture_removed(bytes);
            files.0.pictures.lock().removed(name);
            Ok(true)
        });
        removed.await.map_err(|error| StorageError::Io(io::Error::other(error)))?
    }

    /// Removes an entry of the index in the bucket. Its object has no picture.
    pub(super) async fn remove_index(&self, kind: Kind, id: u64) -> Result<(), StorageError> {
        let removed = self.0.storage.remove_settled(&index_key((kind, id))).await?;
        self.give_back(removed.unwrap_or(0));
        Ok(())
    }
}
