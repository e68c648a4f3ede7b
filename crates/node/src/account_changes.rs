//! Account changes: the guilds and direct messages of an account learn that it changed.
//!
//! Owns        which accounts are being announced.
//! Doors       `Node::update_user`.
//! Invariants  A1 an announcement runs to its end on a task of its own, whether or not the caller waits. A2 the last thing a guild
//!             hears is the account as it was stored last. (tests `s21_*` in `it/directory.rs`)
//! Limits      one task per account; of the changes that come meanwhile all share one more round.

use crate::{Node, directs::DIRECTS_OF_USER_MAX};
use guildhall_guild::{Actor, Command};
use guildhall_model::{GuildId, UserId};
use guildhall_store::StoreError;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// Accounts with a round under way, each with the next round if one is wanted. A sender is dropped when its round is done.
#[derive(Default)]
pub(crate) struct AccountChanges(Mutex<HashMap<UserId, Option<watch::Sender<()>>>>);

impl AccountChanges {
    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, Option<watch::Sender<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// Begins a round for an account that is stored, or joins the next one. The receiver's sender is dropped at its end.
    pub(crate) fn announce_to_guilds(&self, user_id: UserId) -> watch::Receiver<()> {
        let mut under_way = self.inner.account_changes.lock();
        if let Some(next) = under_way.get_mut(&user_id) {
            return next.get_or_insert_with(|| watch::Sender::new(())).subscribe();
        }
        under_way.insert(user_id, None);
        let (round, done) = watch::channel(());
        let node = self.clone();
        tokio::spawn(async move {
            let mut round = round;
            loop {
                if let Err(error) = node.tell_guilds_of(user_id).await {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(%user_id, error, "not every guild was told that an account changed");
                }
                let mut under_way = node.inner.account_changes.lock();
                match under_way.get_mut(&user_id).and_then(Option::take) {
                    Some(next) => round = next,
                    None => {
                        under_way.remove(&user_id);
                        drop(round);
                        return;
                    }
                }
            }
        });
        done
    }

    async fn tell_guilds_of(&self, user_id: UserId) -> Result<(), StoreError> {
        let directs = self.inner.store.directs_of_user(user_id, DIRECTS_OF_USER_MAX).await?;
        let guild_ids = self.guilds_of_user(user_id).await?;
        let directs = directs.into_iter().map(|direct| direct.channel.guild_id);
        let all: Vec<GuildId> = guild_ids.into_iter().chain(directs).collect();
        for guild_id in all {
            // As it is now: it may have changed since the round began (A2).
            let Some(user) = self.user(user_id).await? else { return Ok(()) };
            if let Err(refusal) = self.command(guild_id, Actor::System, Command::RefreshMember(user)).await {
                tracing::debug!(%guild_id, %refusal, "a guild was not told that an account changed");
            }
        }
        Ok(())
    }
}
