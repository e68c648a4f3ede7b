//! Changes of accounts.
//!
//! Owns        the only way to change an account: the *form* of a request, its fields, is applied to the account as it
//!             is stored now. One change of an account at a time in this process; between nodes the store refuses a
//!             change of an earlier version, and the form is applied again.
//! Doors       `Node::change_user`, `Node::update_user`, which announces the change, `Node::change_users` for many.
//! Invariants  U1 of two changes neither undoes the other: no acknowledged field is lost. U2 `check` runs after the
//!             account was read and before it is stored, so a change that `check` would refuse by then is refused by
//!             its version at the latest. (tests `u1_*`, `u2_*` in `tests/it/users.rs`)
//! Limits      `TRIES_MAX` attempts, then `Contended`.
//! Spec        ADR 39.

use crate::{Node, directs};
use guildhall_cluster::DirectoryChange;
use guildhall_guild::{Actor, Command};
use guildhall_model::{GuildId, User, UserId};
use guildhall_store::{StoreError, USERS_CHANGED_MAX, UserChange, UserVersion};
use std::{
    collections::HashMap,
    future::{Ready, ready},
    sync::Arc,
};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Attempts of a change. Only a change by another node costs one.
const TRIES_MAX: usize = 32;
/// Accounts share them by id.
const LOCKS: usize = 64;
/// Rounds of an announcement: changes by other nodes meanwhile cost one each. Past it the last of them announces.
const ROUNDS_MAX: usize = 16;

/// Recipients of a change of an account.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Announcement {
    None,
    /// Its sessions, guilds and direct messages.
    ToAll,
}

/// Held while an account is read, changed and stored.
pub(crate) struct UserLocks([Arc<Mutex<()>>; LOCKS]);

impl Default for UserLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Arc::default()))
    }
}

impl UserLocks {
    async fn lock(&self, user_id: UserId) -> OwnedMutexGuard<()> {
        // The lower bits of ids that were made in one go are alike.
        let at = ((user_id.get() >> 22) ^ user_id.get()) as usize % LOCKS;
        Arc::clone(&self.0[at]).lock_owned().await
    }
}

/// A changed account.
#[derive(Clone, Debug)]
pub struct ChangedUser {
    /// None: it is new.
    pub before: Option<Arc<User>>,
    pub user: Arc<User>,
}

/// A `check` that refuses nothing.
pub fn unchecked() -> Ready<Result<(), StoreError>> {
    ready(Ok(()))
}

impl Node {
    /// Changes an account, durably. `form` makes the account of the one that is stored; none: there is none yet.
    /// `check` runs between the two. Both run again if another node changed the account meanwhile.
    ///
    /// # Errors
    /// Those of `check` and `form`, which leave the account as it is; the store cannot be read or written; `Contended`.
    pub async fn change_user<E, C>(
        &self,
        user_id: UserId,
        check: impl Fn() -> C + Send,
        form: impl FnMut(Option<&User>) -> Result<User, E> + Send,
    ) -> Result<ChangedUser, E>
    where
        E: From<StoreError> + Send,
        C: Future<Output = Result<(), E>> + Send,
    {
        self.change(user_id, Announcement::None, check, form).await
    }

    /// `change_user`, announced to the account's sessions, guilds and direct messages, one after the other. A guild
    /// that fails (it is overloaded, or cannot be loaded) has the new account when it is loaded next. Dropping the
    /// future does not stop the announcement. A change during an announcement is part of it, and returns before its
    /// end.
    ///
    /// # Errors
    /// Those of `change_user`; the account's guilds cannot be read.
    pub async fn update_user<E, C>(
        &self,
        user_id: UserId,
        check: impl Fn() -> C + Send,
        form: impl FnMut(Option<&User>) -> Result<User, E> + Send,
    ) -> Result<ChangedUser, E>
    where
        E: From<StoreError> + Send,
        C: Future<Output = Result<(), E>> + Send,
    {
        self.change(user_id, Announcement::ToAll, check, form).await
    }

    async fn change<E, C>(
        &self,
        user_id: UserId,
        announcement: Announcement,
        check: impl Fn() -> C + Send,
        mut form: impl FnMut(Option<&User>) -> Result<User, E> + Send,
    ) -> Result<ChangedUser, E>
    where
        E: From<StoreError> + Send,
        C: Future<Output = Result<(), E>> + Send,
    {
        for _ in 0..TRIES_MAX {
            let held = self.inner.user_locks.lock(user_id).await;
            let (before, expected) = self.stored_user(user_id).await?.unzip();
            check().await?;
            let user = Arc::new(form(before.as_deref())?);
            if before.as_ref() == Some(&user) || self.store_user(held, &user, expected, announcement).await? {
                return Ok(ChangedUser { before, user });
            }
        }
        Err(StoreError::Contended { what: "account" }.into())
    }

    /// Stores an account that has the expected version, and announces it; false if it has another one. `held` is given
    /// back when it is stored. Goes on if the future is dropped.
    async fn store_user(
        &self,
        held: OwnedMutexGuard<()>,
        user: &Arc<User>,
        expected: Option<UserVersion>,
        announcement: Announcement,
    ) -> Result<bool, StoreError> {
        let (node, user) = (self.clone(), user.clone());
        let done = tokio::spawn(async move {
            let stored = node.inner.store.change_users(&[UserChange { user: user.clone(), expected }]).await;
            node.user_changed(user.id);
            if stored? == 0 {
                return Ok(false);
            }
            if announcement == Announcement::ToAll {
                node.inner.relays.announce_user(&user);
            }
            drop(held);
            if announcement == Announcement::ToAll {
                node.announce_user(user.id).await?;
            }
            Ok(true)
        });
        done.await.unwrap_or(Err(StoreError::Closed))
    }

    /// The caches forget an account. Also after a failure, because a commit may succeed and still report one.
    fn user_changed(&self, user_id: UserId) {
        let change = DirectoryChange::User(user_id);
        self.inner.directory.apply(change);
        self.inner.relays.changed(&[change]);
    }

    /// An account as it is stored, with its version.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stored_user(&self, user_id: UserId) -> Result<Option<(Arc<User>, UserVersion)>, StoreError> {
        Ok(self.inner.store.user_versions(&[user_id]).await?.pop())
    }

    /// Adds or replaces an account whole, durably. Its guilds learn of it by `Command::RefreshMember`.
    ///
    /// # Errors
    /// The store cannot be read or written; `Contended`.
    pub async fn put_user(&self, user: Arc<User>) -> Result<(), StoreError> {
        self.change_user(user.id, unchecked, |_| Ok(User::clone(&user))).await.map(drop)
    }

    /// Adds an account, durably, unless there is one with this id. Returns the one that there is.
    ///
    /// # Errors
    /// The store cannot be read or written; `Contended`.
    pub async fn add_user(&self, user: User) -> Result<Arc<User>, StoreError> {
        let form = |before: Option<&User>| Ok::<_, StoreError>(before.unwrap_or(&user).clone());
        Ok(self.change_user(user.id, unchecked, form).await?.user)
    }

    /// Changes many accounts, durably; of each `form` makes what it is from what is stored. An account for which it
    /// returns none stays as it is. Of the others each has its form when this returns, and no other change is undone;
    /// after an error some have it.
    ///
    /// # Errors
    /// The store cannot be read or written; `Contended`.
    pub async fn change_users(
        &self,
        user_ids: &[UserId],
        form: impl Fn(UserId, Option<&User>) -> Option<User> + Send + Sync,
    ) -> Result<(), StoreError> {
        for user_ids in user_ids.chunks(USERS_CHANGED_MAX) {
            self.change_some(user_ids, &form).await?;
        }
        Ok(())
    }

    async fn change_some(
        &self,
        user_ids: &[UserId],
        form: &(impl Fn(UserId, Option<&User>) -> Option<User> + Send + Sync),
    ) -> Result<(), StoreError> {
        for _ in 0..TRIES_MAX {
            let stored = self.inner.store.user_versions(user_ids).await?;
            let stored: HashMap<UserId, _> = stored.into_iter().map(|stored| (stored.0.id, stored)).collect();
            let change = |user_id: &UserId| {
                let before = stored.get(user_id);
                let user = form(*user_id, before.map(|(user, _)| &**user))?;
                let expected = before.map(|(_, version)| *version);
                let is_new = before.is_none_or(|(before, _)| **before != user);
                is_new.then(|| UserChange { user: Arc::new(user), expected })
            };
            let changes: Vec<UserChange> = user_ids.iter().filter_map(change).collect();
            if changes.is_empty() {
                return Ok(());
            }
            let done = self.inner.store.change_users(&changes).await;
            for change in &changes {
                self.user_changed(change.user.id);
            }
            // One that another change came before is read again.
            if done? == changes.len() as u64 {
                return Ok(());
            }
        }
        Err(StoreError::Contended { what: "account" })
    }

    /// Announces an account that has changed, to its guilds and direct messages.
    async fn announce_user(&self, user_id: UserId) -> Result<(), StoreError> {
        let Some(mut announcement) = self.inner.announcements.begin(user_id) else { return Ok(()) };
        let mut announced = Ok(());
        while announcement.take_change() {
            announced = self.announce_to_guilds(user_id).await;
        }
        announced
    }

    async fn announce_to_guilds(&self, user_id: UserId) -> Result<(), StoreError> {
        for _ in 0..ROUNDS_MAX {
            let Some((user, version)) = self.stored_user(user_id).await? else { return Ok(()) };
            let directs = self.inner.store.directs_of_user(user_id, directs::DIRECTS_OF_USER_MAX).await?;
            let directs = directs.into_iter().map(|direct| direct.channel.guild_id);
            for guild_id in self.guilds_of_user(user_id).await?.into_iter().chain(directs) {
                self.refresh_member(guild_id, &user).await;
            }
            // The last announcement has the newest version: an outdated one is repeated.
            if self.is_version(user_id, version).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn refresh_member(&self, guild_id: GuildId, user: &Arc<User>) {
        let refreshed = self.command(guild_id, Actor::System, Command::RefreshMember(user.clone())).await;
        if let Err(refusal) = refreshed {
            tracing::debug!(%guild_id, %refusal, "a guild was not notified of a changed account");
        }
    }

    /// Whether an account has not changed since it had this version.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn is_version(&self, user_id: UserId, version: UserVersion) -> Result<bool, StoreError> {
        Ok(self.stored_user(user_id).await?.is_none_or(|(_, now)| now == version))
    }

    /// Ends the request by which an account became a member of a guild: the guild has the account as it was sent, and
    /// gets it as it is now.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn settle_member(&self, guild_id: GuildId, sent: &User) -> Result<(), StoreError> {
        match self.stored_user(sent.id).await? {
            Some((user, _)) if *user != *sent => self.refresh_member(guild_id, &user).await,
            _ => {}
        }
        Ok(())
    }
}
