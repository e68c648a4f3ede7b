//! Directory: guild of a channel, accounts by id, and the guilds of accounts, cached in front of the store.
//!
//! Owns        three caches over the store.
//! Doors       the REST API and sessions look up; guild workers report the changes of their commits.
//! Invariants  every lookup after an answered command sees its changes: workers report changes first and answer then.
//!             It forgets everything when messages of another node were lost, and when this node joins again: changes
//!             may have been among them.
//! Limits      `CHANNELS_MAX` and `USERS_MAX` entries; an account in more than `GUILDS_REMEMBERED_MAX` guilds is read
//!             each time. Unknown ids are not remembered: each costs a read.

use crate::cache::{Cache, Miss};
use guildhall_cluster::DirectoryChange;
use guildhall_guild::Write;
use guildhall_guild_protocol::memory::user_heap;
use guildhall_model::{ChannelId, GuildId, User, UserId};
use guildhall_stdx::heap::{self, MemoryUse};
use guildhall_store::{Store, StoreError};
use std::sync::Arc;

/// About 50 bytes each.
const CHANNELS_MAX: usize = 200_000;
/// About 300 bytes each.
const USERS_MAX: usize = 100_000;

/// The longest list of one account's guilds that the cache keeps: its ids are a kibibyte.
const GUILDS_REMEMBERED_MAX: usize = 128;
/// Guilds of one account that `guilds_of_user` returns.
const GUILDS_OF_USER_MAX: u32 = 100_000;

/// Change of the directory by a durable write.
pub(crate) fn change_of(write: &Write) -> Option<DirectoryChange> {
    match write {
        Write::PutChannel(channel) => Some(DirectoryChange::ChannelPut(channel.id, channel.guild_id)),
        Write::DeleteChannel(_, channel_id) => Some(DirectoryChange::ChannelGone(*channel_id)),
        Write::DeleteGuild(guild_id) => Some(DirectoryChange::GuildGone(*guild_id)),
        Write::PutUser(user) => Some(DirectoryChange::User(user.id)),
        // Some stores write the account with the member.
        Write::PutMember(_, member) => Some(DirectoryChange::User(member.user.id)),
        Write::DeleteMember(_, user_id) => Some(DirectoryChange::User(*user_id)),
        _ => None,
    }
}

pub(crate) struct Directory {
    store: Arc<dyn Store>,
    channels: Cache<ChannelId, GuildId>,
    users: Cache<UserId, Arc<User>>,
    guilds: Cache<UserId, Arc<[GuildId]>>,
}

/// Misses of an account, before it is read with others.
pub(crate) struct Misses {
    user: Option<Miss>,
    guilds: Option<Miss>,
}

impl Misses {
    /// All of it is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.user.is_none() && self.guilds.is_none()
    }
}

impl Directory {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let (channels, users, guilds) = (Cache::new(CHANNELS_MAX), Cache::new(USERS_MAX), Cache::new(USERS_MAX));
        Self { store, channels, users, guilds }
    }

    /// Estimated memory of its caches.
    pub(crate) fn memory(&self) -> MemoryUse {
        let (channels_bytes, channels_count) = self.channels.memory(|_| 0);
        let (users_bytes, users_count) = self.users.memory(|user| heap::part_of(user, user_heap));
        let (guilds_bytes, guilds_count) = self.guilds.memory(|guilds| heap::allocated(16 + size_of_val(&**guilds)));
        let bytes = channels_bytes + users_bytes + guilds_bytes;
        MemoryUse::new("directory", bytes, channels_count + users_count + guilds_count)
    }

    pub(crate) async fn guild_of_channel(&self, channel_id: ChannelId) -> Result<Option<GuildId>, StoreError> {
        let miss = match self.channels.lookup(channel_id) {
            Ok(guild_id) => return Ok(Some(guild_id)),
            Err(miss) => miss,
        };
        let found = self.store.guild_of_channel(channel_id).await?;
        if let Some(guild_id) = found {
            self.channels.fill(miss, channel_id, guild_id);
        }
        Ok(found)
    }

    pub(crate) async fn user(&self, user_id: UserId) -> Result<Option<Arc<User>>, StoreError> {
        let miss = match self.users.lookup(user_id) {
            Ok(user) => return Ok(Some(user)),
            Err(miss) => miss,
        };
        let found = self.store.user(user_id).await?;
        if let Some(user) = &found {
            self.users.fill(miss, user_id, user.clone());
        }
        Ok(found)
    }

    /// Guilds of an account, ascending; at most 100,000.
    pub(crate) async fn guilds_of_user(&self, user_id: UserId) -> Result<Vec<GuildId>, StoreError> {
        let miss = match self.guilds.lookup(user_id) {
            Ok(guilds) => return Ok(guilds.to_vec()),
            Err(miss) => miss,
        };
        let guilds = self.store.guilds_of_user(user_id, GUILDS_OF_USER_MAX).await?;
        self.remember_guilds(miss, user_id, &guilds);
        Ok(guilds)
    }

    fn remember_guilds(&self, miss: Miss, user_id: UserId, guilds: &[GuildId]) {
        if guilds.len() <= GUILDS_REMEMBERED_MAX {
            self.guilds.fill(miss, user_id, guilds.into());
        }
    }

    /// An account, if it is remembered.
    pub(crate) fn remembered_user(&self, user_id: UserId) -> Option<Arc<User>> {
        self.users.lookup(user_id).ok()
    }

    /// The guilds of an account, if they are remembered.
    pub(crate) fn remembered_guilds(&self, user_id: UserId) -> Option<Arc<[GuildId]>> {
        self.guilds.lookup(user_id).ok()
    }

    /// Call it before reading this account from the store for `remember`.
    pub(crate) fn misses(&self, user_id: UserId) -> Misses {
        Misses { user: self.users.lookup(user_id).err(), guilds: self.guilds.lookup(user_id).err() }
    }

    /// Remembers what was read, unless it may have changed since `misses`.
    pub(crate) fn remember(&self, misses: &Misses, user: &Arc<User>, guilds: Option<&[GuildId]>) {
        if let Some(miss) = misses.user {
            self.users.fill(miss, user.id, user.clone());
        }
        if let (Some(miss), Some(guilds)) = (misses.guilds, guilds) {
            self.remember_guilds(miss, user.id, guilds);
        }
    }

    /// A failed commit may have changed members.
    pub(crate) fn forget_guilds_of_users(&self) {
        self.guilds.clear();
    }

    /// Changes that others made may not have been reported.
    pub(crate) fn clear(&self) {
        self.channels.clear();
        self.users.clear();
        self.guilds.clear();
    }

    /// Something became durable.
    pub(crate) fn apply(&self, change: DirectoryChange) {
        match change {
            DirectoryChange::ChannelPut(channel_id, guild_id) => self.channels.put(channel_id, guild_id),
            DirectoryChange::ChannelGone(channel_id) => self.channels.forget(channel_id),
            DirectoryChange::GuildGone(guild_id) => {
                self.channels.forget_value(&guild_id);
                // Its members are not known here.
                self.guilds.clear();
            }
            DirectoryChange::User(user_id) => {
                self.users.forget(user_id);
                self.guilds.forget(user_id);
            }
        }
    }
}
