//! Directory: guild of a channel, and accounts by id, cached in front of the store.
//!
//! Owns        two caches over the store.
//! Doors       the REST API and sessions look up; guild workers report the changes of their commits.
//! Invariants  every lookup after an answered command sees its changes: workers report changes first and answer then.
//!             It forgets everything when messages of another node were lost, and when this node joins again: changes
//!             may have been among them.
//! Limits      `CHANNELS_MAX` and `USERS_MAX` entries. Unknown ids are not remembered: each costs a read.

use crate::cache::Cache;
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

/// Change of the directory by a durable write.
pub(crate) fn change_of(write: &Write) -> Option<DirectoryChange> {
    match write {
        Write::PutChannel(channel) => Some(DirectoryChange::ChannelPut(channel.id, channel.guild_id)),
        Write::DeleteChannel(_, channel_id) => Some(DirectoryChange::ChannelGone(*channel_id)),
        Write::DeleteGuild(guild_id) => Some(DirectoryChange::GuildGone(*guild_id)),
        Write::PutUser(user) => Some(DirectoryChange::User(user.id)),
        // Some stores write the account with the member.
        Write::PutMember(_, member) => Some(DirectoryChange::User(member.user.id)),
        _ => None,
    }
}

pub(crate) struct Directory {
    store: Arc<dyn Store>,
    channels: Cache<ChannelId, GuildId>,
    users: Cache<UserId, Arc<User>>,
}

impl Directory {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, channels: Cache::new(CHANNELS_MAX), users: Cache::new(USERS_MAX) }
    }

    /// Estimated memory of its caches.
    pub(crate) fn memory(&self) -> MemoryUse {
        let (channels_bytes, channels_count) = self.channels.memory(|_| 0);
        let (users_bytes, users_count) = self.users.memory(|user| heap::part_of(user, user_heap));
        MemoryUse::new("directory", channels_bytes + users_bytes, channels_count + users_count)
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

    /// Changes that others made may not have been reported.
    pub(crate) fn clear(&self) {
        self.channels.clear();
        self.users.clear();
    }

    /// Something became durable.
    pub(crate) fn apply(&self, change: DirectoryChange) {
        match change {
            DirectoryChange::ChannelPut(channel_id, guild_id) => self.channels.put(channel_id, guild_id),
            DirectoryChange::ChannelGone(channel_id) => self.channels.forget(channel_id),
            DirectoryChange::GuildGone(guild_id) => self.channels.forget_value(&guild_id),
            DirectoryChange::User(user_id) => self.users.forget(user_id),
        }
    }
}
