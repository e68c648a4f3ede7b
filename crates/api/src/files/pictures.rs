//! Pictures: avatars, icons, banners, emoji and stickers, in a subfolder of the files.
//!
//! Owns        `pictures/` in the folder of files: `users/USER/NAME` of accounts and webhooks, `guilds/GUILD/NAME`,
//!             `members/GUILD-USER/NAME`, with the names of `guildhall_store::PictureNames`; the guilds of emoji,
//!             stickers, roles and scheduled events, because their links lack the guild.
//! Doors       `hold` before the command that refers to a picture; `Held::settled` with its outcome; `collect` after a
//!             command that dropped pictures; `sweep_pictures`.
//! Invariants  P1 a picture is on disk before any object refers to it. P2 pictures count in `bytes_max`. P3 paths
//!             consist of numbers and of hashes of this node. P4 a picture is removed only after a read of the store
//!             that is newer than the last command about it, and while no command about it is in progress. (tests
//!             `p1_*` … `p4_*`)
//! Limits      `FilesOptions::bytes_max`; the caller bounds the bytes of one picture. 24 bytes of memory per emoji,
//!             sticker, role and event with a picture; one entry per command in progress, or aborted in the last
//!             `UNSETTLED_FOR`.

use super::{FileError, Files, INCOMING, blocking};
use guildhall_model::{GuildId, UserId};
use guildhall_store::{PICTURE_OWNERS_ASKED_MAX, PictureOwner, Store};
use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

pub(super) const PICTURES: &str = "pictures";
const FOLDERS: [&str; 3] = ["users", "guilds", "members"];
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
    /// Of a name like `emoji-5` or `role-5-HASH`.
    fn of(name: &str) -> Option<(Self, u64)> {
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

/// State in memory: the folder is the rest.
#[derive(Debug, Default)]
pub(super) struct Pictures(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Guild and number of pictures of an object.
    guilds: HashMap<(Kind, u64), (GuildId, u32)>,
    /// Commands in progress about each picture, or the time at which the last one was aborted.
    held: BTreeMap<Name, (u32, Option<Instant>)>,
    /// Counts commands whose outcome is known (P4).
    settled: u64,
}

impl Pictures {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_held(&self, name: &Name) -> bool {
        let is_fresh = |given_up: Instant| given_up.elapsed() < UNSETTLED_FOR;
        self.held.get(name).is_some_and(|(count, given_up)| *count > 0 || given_up.is_some_and(is_fresh))
    }

    fn added(&mut self, owner: PictureOwner, name: &str) {
        if let (PictureOwner::Guild(guild_id), Some(key)) = (owner, Kind::of(name)) {
            self.guilds.entry(key).or_insert((guild_id, 0)).1 += 1;
        }
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

fn owner_folder(owner: PictureOwner) -> (&'static str, String) {
    match owner {
        PictureOwner::User(id) => (FOLDERS[0], id.to_string()),
        PictureOwner::Guild(id) => (FOLDERS[1], id.to_string()),
        PictureOwner::Member(guild_id, user_id) => (FOLDERS[2], format!("{guild_id}-{user_id}")),
    }
}

/// The owner of a folder; none: the folder is not ours.
fn owner_of(folder: &str, name: &str) -> Option<PictureOwner> {
    match folder {
        "users" => name.parse().ok().map(|id| PictureOwner::User(UserId::new(id))),
        "guilds" => name.parse().ok().map(|id| PictureOwner::Guild(GuildId::new(id))),
        _ => {
            let (guild_id, user_id) = name.split_once('-')?;
            let (guild_id, user_id) = (guild_id.parse().ok()?, user_id.parse().ok()?);
            Some(PictureOwner::Member(GuildId::new(guild_id), UserId::new(user_id)))
        }
    }
}

/// Pictures of one owner that a command refers to. Dropped without `settled`, the outcome of the command is unknown.
#[must_use]
pub(crate) struct Held {
    files: Files,
    owner: PictureOwner,
    names: Vec<String>,
}

impl Held {
    /// The outcome of the command is known: removes the pictures of its owner that no object refers to.
    pub async fn settled(mut self, store: &dyn Store) {
        self.release(true);
        self.files.collect(store, self.owner).await;
    }

    fn release(&mut self, is_known: bool) {
        let mut state = self.files.0.pictures.lock();
        for name in self.names.drain(..) {
            let key = (self.owner, name);
            if let Some((count, given_up)) = state.held.get_mut(&key) {
                *count -= 1;
                if !is_known {
                    *given_up = Some(Instant::now());
                } else if *count == 0 && given_up.is_none() {
                    state.held.remove(&key);
                }
            }
        }
        state.settled += 1;
        state.held.retain(|_, (count, given_up)| {
            *count > 0 || given_up.is_some_and(|given_up| given_up.elapsed() < UNSETTLED_FOR)
        });
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.names.is_empty() {
            self.release(false);
        }
    }
}

impl Files {
    fn owner_dir(&self, owner: PictureOwner) -> PathBuf {
        let (folder, name) = owner_folder(owner);
        self.0.dir.join(PICTURES).join(folder).join(name)
    }

    pub(super) fn picture_path(&self, owner: PictureOwner, name: &str) -> PathBuf {
        self.owner_dir(owner).join(name)
    }

    /// The guild of an object that has a picture.
    pub(super) fn guild_of_picture(&self, kind: Kind, id: u64) -> Option<GuildId> {
        self.0.pictures.lock().guilds.get(&(kind, id)).map(|(guild_id, _)| *guild_id)
    }

    /// Counts the stored pictures, and fills the index. Returns their bytes.
    pub(super) fn open_pictures(dir: &Path, pictures: &Pictures) -> io::Result<u64> {
        let mut bytes = 0;
        let mut state = pictures.lock();
        for folder in FOLDERS {
            let dir = dir.join(PICTURES).join(folder);
            fs::create_dir_all(&dir)?;
            for (name, _) in entries_of(&dir)? {
                let Some(owner) = name.to_str().and_then(|name| owner_of(folder, name)) else { continue };
                for (name, size) in entries_of(&dir.join(&name))? {
                    bytes += size;
                    if let Some(name) = name.to_str() {
                        state.added(owner, name);
                    }
                }
            }
        }
        Ok(bytes)
    }

    /// Writes pictures of one owner to the disk (P1) and holds them there for a command.
    pub(crate) async fn hold(&self, owner: PictureOwner, pictures: Vec<(String, Vec<u8>)>) -> Result<Held, FileError> {
        let mut held = Held { files: self.clone(), owner, names: Vec::new() };
        match self.write_pictures(&mut held, pictures).await {
            Ok(()) => Ok(held),
            // No command will refer to those that were written.
            Err(error) => {
                held.release(true);
                Err(error)
            }
        }
    }

    async fn write_pictures(&self, held: &mut Held, pictures: Vec<(String, Vec<u8>)>) -> Result<(), FileError> {
        let owner = held.owner;
        for (name, bytes) in pictures {
            debug_assert!(!name.contains(['/', '.']), "{name}");
            // Recorded before it is written: from now on no sweep removes it.
            self.0.pictures.lock().held.entry((owner, name.clone())).or_default().0 += 1;
            held.names.push(name.clone());
            let size = bytes.len() as u64;
            self.take_room(size)?;
            let (files, path) = (self.clone(), self.picture_path(owner, &name));
            // On a blocking thread, where it cannot be cancelled halfway: otherwise it would count
            // twice, or not at all.
            let written = blocking(move || {
                let written = files.write_picture(&path, &bytes);
                match &written {
                    Ok(true) => files.0.pictures.lock().added(owner, &name),
                    _ => files.give_back(size),
                }
                written
            });
            written.await.map_err(FileError::of)?;
        }
        Ok(())
    }

    /// False: the same picture was there.
    fn write_picture(&self, path: &Path, bytes: &[u8]) -> io::Result<bool> {
        let folder = path.parent().unwrap_or(&self.0.dir);
        // The name is durable once its folder is synced.
        let sync = || File::open(folder).and_then(|folder| folder.sync_all());
        if path.try_exists()? {
            return sync().map(|()| false);
        }
        let n = self.0.begun.fetch_add(1, Ordering::Relaxed);
        let incoming = self.0.dir.join(INCOMING).join(n.to_string());
        let write = || {
            let mut file = File::options().write(true).create_new(true).open(&incoming)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            let mut attempts_left = ATTEMPTS_MAX;
            loop {
                match fs::create_dir(folder) {
                    Ok(()) => File::open(folder.parent().unwrap_or(folder))?.sync_all()?,
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
                // Two commands may write the same picture at once: only the first counts.
                let state = self.0.pictures.lock();
                if path.try_exists()? {
                    drop(state);
                    return sync().map(|()| false);
                }
                match fs::rename(&incoming, path) {
                    // `collect` found the folder empty.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && attempts_left > 0 => attempts_left -= 1,
                    Err(error) => return Err(error),
                    Ok(()) => break,
                }
            }
            sync().or_else(|error| fs::remove_file(path).and(Err(error)))?;
            Ok(true)
        };
        let written = write();
        let _ = fs::remove_file(&incoming);
        written
    }

    /// Removes the pictures of an owner that no object refers to. A failure is logged: the next sweep repeats it.
    pub(crate) async fn collect(&self, store: &dyn Store, owner: PictureOwner) {
        if let Err(error) = self.collect_all(store, &[owner]).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "pictures without an owner were not removed yet");
        }
    }

    async fn collect_all(&self, store: &dyn Store, owners: &[PictureOwner]) -> Result<u64, super::sweep::SweepError> {
        for _ in 0..ATTEMPTS_MAX {
            let settled = self.0.pictures.lock().settled;
            let in_use = store.pictures_in_use(owners).await?;
            let (files, owners) = (self.clone(), owners.to_vec());
            let removed = blocking(move || {
                let mut removed = 0;
                for (owner, in_use) in owners.into_iter().zip(in_use) {
                    let dir = files.owner_dir(owner);
                    for (name, bytes) in entries_of(&dir)? {
                        let Some(name) = name.to_str().filter(|name| !in_use.contains(*name)) else { continue };
                        let mut state = files.0.pictures.lock();
                        // A command that was answered since may refer to it (P4).
                        if state.settled != settled {
                            return Ok(None);
                        }
                        if !state.is_held(&(owner, name.to_owned())) {
                            fs::remove_file(dir.join(name))?;
                            state.removed(name);
                            drop(state);
                            files.give_back(bytes);
                            removed += 1;
                        }
                    }
                    // Fails when there is something in it, which is fine.
                    let _ = fs::remove_dir(dir);
                }
                Ok(Some(removed))
            });
            if let Some(removed) = removed.await? {
                return Ok(removed);
            }
        }
        Ok(0)
    }

    /// Removes every picture that no object refers to. Returns their number.
    pub(super) async fn sweep_pictures(&self, store: &dyn Store) -> Result<u64, super::sweep::SweepError> {
        let mut removed = 0;
        for folder in FOLDERS {
            let dir = self.0.dir.join(PICTURES).join(folder);
            let owners: Vec<PictureOwner> = blocking(move || {
                let names = entries_of(&dir)?.into_iter();
                Ok(names.filter_map(|(name, _)| owner_of(folder, name.to_str()?)).collect())
            })
            .await?;
            for owners in owners.chunks(PICTURE_OWNERS_ASKED_MAX) {
                removed += self.collect_all(store, owners).await?;
                tokio::time::sleep(super::sweep::PAUSE).await;
            }
        }
        Ok(removed)
    }
}

/// Names and sizes in a folder; nothing if there is none.
fn entries_of(dir: &Path) -> io::Result<Vec<(OsString, u64)>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.metadata()?.len())))).collect()
}
