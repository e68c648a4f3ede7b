//! Users: the node's functions for accounts, and for what it knows of guilds without loading them.

use crate::{Node, directs, tokens};
use guildhall_cluster::DirectoryChange;
use guildhall_guild::{Actor, Command};
use guildhall_model::{ChannelId, GuildId, Id, InviteCode, User, UserId};
use guildhall_store::StoreError;
use std::sync::Arc;

/// Guilds of one account that `Node::guilds_of_user` returns.
const GUILDS_OF_USER_MAX: u32 = 100_000;

impl Node {
    /// Guilds of an account, ascending; at most 100,000. Includes every membership whose command was answered.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn guilds_of_user(&self, user_id: UserId) -> Result<Vec<GuildId>, StoreError> {
        self.inner.store.guilds_of_user(user_id, GUILDS_OF_USER_MAX).await
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

    /// Adds or replaces an account, durably. Its guilds learn of it by `Command::AddMember`.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn put_user(&self, user: Arc<User>) -> Result<(), StoreError> {
        let user_id = user.id;
        let done = self.inner.directory.put_user(user).await;
        self.inner.relays.changed(&[DirectoryChange::User(user_id)]);
        done
    }

    /// Changes an account, durably, and announces it to its sessions, guilds and direct messages, one after the
    /// other. A guild that fails (it is overloaded, or cannot be loaded) has the new account when it is loaded next.
    /// Dropping the future does not stop the announcement. A change during an announcement is covered by it and does
    /// not wait for its end.
    ///
    /// # Errors
    /// The store cannot be written, or the account's guilds cannot be read.
    pub async fn update_user(&self, user: Arc<User>) -> Result<(), StoreError> {
        let node = self.clone();
        let done = tokio::spawn(async move {
            node.put_user(user.clone()).await?;
            node.inner.relays.announce_user(&user);
            let Some(mut announcement) = node.inner.announcements.begin(user.id) else { return Ok(()) };
            let mut announced = Ok(());
            while announcement.take_change() {
                announced = node.announce_to_guilds(user.id).await;
            }
            announced
        });
        done.await.unwrap_or(Err(StoreError::Closed))
    }

    async fn announce_to_guilds(&self, user_id: UserId) -> Result<(), StoreError> {
        let directs = self.inner.store.directs_of_user(user_id, directs::DIRECTS_OF_USER_MAX).await?;
        let directs = directs.into_iter().map(|direct| direct.channel.guild_id);
        for guild_id in self.guilds_of_user(user_id).await?.into_iter().chain(directs) {
            // Read now, so that an older state never follows a newer one.
            let Some(user) = self.user(user_id).await? else { return Ok(()) };
            let refreshed = self.command(guild_id, Actor::System, Command::RefreshMember(user)).await;
            if let Err(refusal) = refreshed {
                tracing::debug!(%guild_id, %refusal, "a guild was not notified of a changed account");
            }
        }
        Ok(())
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
