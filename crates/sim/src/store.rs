//! The durable state: the product's in-memory store, called synchronously.
//!
//! Invariants  a commit that the store refuses is a fault: writes of a guild are always valid.

use crate::checker::{Fault, fault};
use futures_util::FutureExt as _;
use guildhall_guild::{GuildRecord, MessageRecord, Write};
use guildhall_model::{ChannelId, Direct, GuildId, MessageId, User, UserId};
use guildhall_store::{MemoryStore, MessageSearch, Page, SearchPage, Store as _, StoreError};
use std::{fmt, future::Future, sync::Arc};

/// More guilds and direct messages of one account, and messages of a channel, there are not.
const MANY: u32 = 1_000;

/// See the module.
#[derive(Default)]
pub struct Store(MemoryStore);

impl fmt::Debug for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Store")
    }
}

/// The memory store never waits.
fn now<T>(future: impl Future<Output = Result<T, StoreError>>) -> Result<T, Fault> {
    match future.now_or_never() {
        Some(result) => result.map_err(|error| Fault(format!("the store: {error}"))),
        None => fault("the store in memory waits"),
    }
}

impl Store {
    /// With one guild in it.
    pub fn with(record: &GuildRecord) -> Result<Self, Fault> {
        let guild_id = record.guild.id;
        let mut writes = vec![Write::PutGuild(Arc::new(record.guild.clone()))];
        writes.extend(record.roles.iter().map(|role| Write::PutRole(guild_id, Arc::new(role.clone()))));
        writes.extend(record.channels.iter().map(|channel| Write::PutChannel(Arc::new(channel.clone()))));
        writes.extend(record.members.iter().map(|member| Write::PutMember(guild_id, member.clone())));
        writes.extend(record.resources.iter().map(|kept| Write::PutResource(guild_id, kept.clone())));
        let store = Self::default();
        store.commit(writes)?;
        Ok(store)
    }

    pub fn commit(&self, writes: Vec<Write>) -> Result<(), Fault> {
        now(self.0.commit(writes))
    }

    pub fn put_user(&self, user: &Arc<User>) -> Result<(), Fault> {
        self.commit(vec![Write::PutUser(user.clone())])
    }

    pub fn message(&self, channel: ChannelId, message: MessageId) -> Result<Option<MessageRecord>, Fault> {
        now(self.0.message(channel, message))
    }

    /// All that a channel or thread has.
    pub fn messages(&self, channel: ChannelId) -> Result<Vec<MessageRecord>, Fault> {
        now(self.0.messages(channel, Page::Newest, MANY))
    }

    pub fn search(&self, search: &MessageSearch) -> Result<SearchPage, Fault> {
        now(self.0.search_messages(search))
    }

    pub fn guild(&self, guild_id: GuildId) -> Result<Option<GuildRecord>, Fault> {
        now(self.0.load_guild(guild_id))
    }

    pub fn user_guilds(&self, user_id: UserId) -> Result<Vec<GuildId>, Fault> {
        now(self.0.guilds_of_user(user_id, MANY))
    }

    /// As a node lists them.
    pub fn user_directs(&self, user_id: UserId) -> Result<Vec<Direct>, Fault> {
        let mut directs = now(self.0.directs_of_user(user_id, MANY))?;
        directs.retain(|direct| direct.is_open_for(user_id));
        Ok(directs)
    }

    /// The id of the direct message of two accounts: `new`, unless they have one.
    pub fn direct_of_pair(&self, pair: [UserId; 2], new: ChannelId) -> Result<ChannelId, Fault> {
        now(self.0.direct_of_pair_or_insert(pair, new))
    }
}
