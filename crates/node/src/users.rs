//! Users: the node's functions that read accounts, and what it knows of guilds without loading them.
//!
//! Not here    changes of accounts: `user_changes`.

use crate::{Node, tokens};
use guildhall_model::{ChannelId, GuildId, Id, InviteCode, User, UserId};
use guildhall_store::StoreError;
use std::sync::Arc;

impl Node {
    /// Guilds of an account, ascending; at most 100,000; cached. Includes every membership whose command was answered.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn guilds_of_user(&self, user_id: UserId) -> Result<Vec<GuildId>, StoreError> {
        self.inner.directory.guilds_of_user(user_id).await
    }

    /// The guild of a channel; cached.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn guild_of_channel(&self, channel_id: ChannelId) -> Result<Option<GuildId>, StoreError> {
        self.inner.directory.guild_of_channel(channel_id).await
    }

    /// An account; cached.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn user(&self, user_id: UserId) -> Result<Option<Arc<User>>, StoreError> {
        self.inner.directory.user(user_id).await
    }

    /// A new id for a guild or an account.
    ///
    /// # Errors
    /// The store cannot be read; it is read once, for the largest id in use.
    pub async fn next_id<T>(&self) -> Result<Id<T>, StoreError> {
        self.inner.ids.next(self.inner.clock.now().unix).await
    }

    /// A random invite code.
    #[must_use]
    pub fn new_invite_code(&self) -> InviteCode {
        InviteCode::new(u64::from_le_bytes(tokens::random_bytes()))
    }
}
