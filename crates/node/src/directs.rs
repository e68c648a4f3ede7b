//! Direct messages: found, opened, made, listed.
//!
//! Owns        the way from accounts to what holds their direct messages, which a guild worker runs like a guild (ADR 25).
//! Invariants  D1 between two accounts there is one direct message, whoever asks, however often, and whatever breaks off in
//!             between: its id is durable before it is made. (tests `it/directs.rs`)
//! Limits      `DIRECTS_OF_USER_MAX`.
//! Not here    what may be done in one: `guildhall-guild`.

use crate::{
    Node,
    mailbox::{Input, New},
};
use guildhall_guild::{Actor, Command, DirectCommand, NewDirect, Refusal, Reply};
use guildhall_model::{ChannelId, Direct, User, UserId};
use guildhall_store::StoreError;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Most direct messages of one account that it is told of, the newest. As many as clients list without paging.
pub(crate) const DIRECTS_OF_USER_MAX: u32 = 1_000;

impl Node {
    /// The direct message between two accounts, made if there was none, and in the first one's list from now on.
    ///
    /// # Errors
    /// `CannotMessage` for an account and itself, and for two bots; `Unavailable` as for `command`.
    pub async fn open_direct(&self, user: &Arc<User>, other: &Arc<User>) -> Result<Direct, Refusal> {
        if user.id == other.id || user.bot && other.bot {
            return Err(Refusal::CannotMessage);
        }
        let id = self.direct_of_pair([user.id, other.id]).await.map_err(|_| Refusal::Unavailable)?;
        match self.open(user.id, id).await {
            Err(Refusal::UnknownGuild) => {
                let new = NewDirect { id, recipients: vec![user.clone(), other.clone()], is_group: false };
                self.make_direct(new).await?;
                self.open(user.id, id).await
            }
            opened => opened,
        }
    }

    /// A new group of `user` and these others.
    ///
    /// # Errors
    /// `CannotMessage` if one of them is a bot, `TooManyRecipients`; `Unavailable` as for `command`.
    pub async fn create_group(&self, user: &Arc<User>, others: &[Arc<User>]) -> Result<Direct, Refusal> {
        let mut recipients = vec![user.clone()];
        for other in others {
            if !recipients.iter().any(|user| user.id == other.id) {
                recipients.push(other.clone());
            }
        }
        if recipients.iter().any(|user| user.bot) {
            return Err(Refusal::CannotMessage);
        }
        if recipients.len() > Direct::RECIPIENTS_MAX {
            return Err(Refusal::TooManyRecipients);
        }
        let id = self.next_id().await.map_err(|_| Refusal::Unavailable)?;
        self.make_direct(NewDirect { id, recipients, is_group: true }).await?;
        self.open(user.id, id).await
    }

    /// The direct messages and groups in an account's list, the newest first; at most 1,000.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn directs_of_user(&self, user_id: UserId) -> Result<Vec<Direct>, StoreError> {
        let mut directs = self.inner.store.directs_of_user(user_id, DIRECTS_OF_USER_MAX).await?;
        directs.retain(|direct| direct.is_open_for(user_id));
        Ok(directs)
    }

    async fn open(&self, user_id: UserId, id: ChannelId) -> Result<Direct, Refusal> {
        let open = Command::Direct(DirectCommand::Open);
        match self.command(id.cast(), Actor::User(user_id), open).await? {
            Reply::Direct(direct) => Ok(direct),
            _ => Err(Refusal::UnknownChannel),
        }
    }

    async fn direct_of_pair(&self, pair: [UserId; 2]) -> Result<ChannelId, StoreError> {
        match self.inner.store.direct_of_pair(pair).await? {
            Some(id) => Ok(id),
            None => self.inner.store.direct_of_pair_or_insert(pair, self.next_id().await?).await,
        }
    }

    async fn make_direct(&self, new: NewDirect) -> Result<(), Refusal> {
        let (answer, receiver) = oneshot::channel();
        let guild_id = new.id.cast();
        self.ask(guild_id, Input::Create(New::Direct(new), answer), receiver).await.map(drop)
    }
}
