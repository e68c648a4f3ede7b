//! Direct messages: find, open, create and list them.
//!
//! Owns        the mapping from accounts to the small guilds that hold their direct messages (ADR 25).
//! Invariants  D1 two accounts have at most one direct message, for any order and number of requests and after any
//!             interruption: its id is durable before it is created. (tests `it/directs.rs`) D2 `DirectLimits` decides
//!             with which accounts an account may create direct messages and groups, and the number per day. Opening an
//!             existing direct message is always possible and does not count. (tests `s11_*`)
//! Limits      `DIRECTS_OF_USER_MAX`; `DirectLimits`; `ACCOUNTS_MAX` accounts are counted.
//! Not here    actions within a direct message: `guildhall-guild`.

use crate::{
    Node,
    mailbox::{CreateRequest, Input},
};
use guildhall_guild::{Actor, NewDirect, Refusal, request};
use guildhall_model::{ChannelId, Direct, MessageId, User, UserId};
use guildhall_stdx::Instant;
use guildhall_store::{Page, StoreError};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::oneshot;

/// Maximum number of direct messages listed to an account, newest first. Clients list as many without pagination.
pub(crate) const DIRECTS_OF_USER_MAX: u32 = 1_000;
const MESSAGES_AT_ONCE_MAX: u32 = 100;
/// Accounts with a counter, about 40 bytes each. When all counters are younger than a day, accounts
/// without one are refused.
const ACCOUNTS_MAX: usize = 1_000_000;
const DAY_MS: u64 = 86_400_000;

/// Accounts with which an account makes direct messages and groups by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectsWho {
    /// Members of a common guild.
    CommonGuild,
    /// All accounts.
    Anyone,
    /// None: only backends make direct messages and groups.
    Backend,
}

/// Limits on direct messages and groups that accounts make. They do not apply to backends.
#[derive(Clone, Copy, Debug)]
pub struct DirectLimits {
    /// With which accounts.
    pub who: DirectsWho,
    /// New direct messages of one account in 24 hours, counted from the first of them.
    pub directs_per_day_max: u32,
    /// New groups of one account in the same 24 hours.
    pub groups_per_day_max: u32,
}

impl Default for DirectLimits {
    fn default() -> Self {
        Self { who: DirectsWho::CommonGuild, directs_per_day_max: 1_000, groups_per_day_max: 50 }
    }
}

/// Conversation with a daily limit of its own.
#[derive(Clone, Copy, Debug)]
enum Conversation {
    Direct,
    Group,
}

/// Direct messages and groups of an account since `since`.
#[derive(Clone, Copy, Debug)]
struct Made {
    since: Instant,
    directs: u32,
    groups: u32,
}

impl Made {
    fn count_mut(&mut self, kind: Conversation) -> &mut u32 {
        match kind {
            Conversation::Direct => &mut self.directs,
            Conversation::Group => &mut self.groups,
        }
    }
}

/// Counters per account. They start at zero with each process.
#[derive(Debug, Default)]
pub(crate) struct MadeToday(Mutex<HashMap<UserId, Made>>);

impl MadeToday {
    /// Counts one conversation; `refund` undoes it.
    fn take(&self, now: Instant, user_id: UserId, kind: Conversation, limits: &DirectLimits) -> Result<(), Refusal> {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |made: &Made| now.ms_since(made.since) >= DAY_MS;
        if accounts.len() >= ACCOUNTS_MAX && !accounts.contains_key(&user_id) {
            accounts.retain(|_, made| !is_over(made));
            if accounts.len() >= ACCOUNTS_MAX {
                return Err(Refusal::TooManyDirects);
            }
        }
        let none = Made { since: now, directs: 0, groups: 0 };
        let made = accounts.entry(user_id).or_insert(none);
        if is_over(made) {
            *made = none;
        }
        let max = match kind {
            Conversation::Direct => limits.directs_per_day_max,
            Conversation::Group => limits.groups_per_day_max,
        };
        let count = made.count_mut(kind);
        if *count >= max {
            return Err(Refusal::TooManyDirects);
        }
        *count += 1;
        Ok(())
    }

    /// Undoes `take` when nothing was made.
    fn refund(&self, user_id: UserId, kind: Conversation) {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = accounts.get_mut(&user_id) {
            let count = made.count_mut(kind);
            *count = count.saturating_sub(1);
        }
    }
}

fn refusal_of(error: StoreError) -> Refusal {
    if error.is_full() {
        Refusal::DiskFull
    } else if error.is_unreachable() {
        Refusal::DatabaseAway
    } else {
        Refusal::Unavailable
    }
}

impl Node {
    /// The direct message between two accounts, made if there was none, and in the first one's list from now on.
    ///
    /// # Errors
    /// `CannotMessage` for an account and itself, for two bots, and without consent (`need_consent`); `TooManyDirects`;
    /// `Unavailable` as for `command`.
    pub async fn open_direct(&self, user: &Arc<User>, other: &Arc<User>) -> Result<Direct, Refusal> {
        if user.id == other.id || user.bot && other.bot {
            return Err(Refusal::CannotMessage);
        }
        let pair = [user.id, other.id];
        if let Some(id) = self.inner.store.direct_of_pair(pair).await.map_err(|_| Refusal::Unavailable)? {
            match self.open(user.id, id).await {
                // The id was reserved, but the process ended before the direct message was made.
                Err(Refusal::UnknownGuild) => {}
                opened => return opened,
            }
        }
        self.need_consent(user.id, other.id).await?;
        self.counted(user.id, Conversation::Direct, self.put_direct(user, other)).await
    }

    /// `open_direct` for backends: without consent and limits.
    ///
    /// # Errors
    /// `CannotMessage` for an account and itself, and for two bots; `Unavailable` as for `command`.
    pub async fn put_direct(&self, user: &Arc<User>, other: &Arc<User>) -> Result<Direct, Refusal> {
        if user.id == other.id || user.bot && other.bot {
            return Err(Refusal::CannotMessage);
        }
        let id = self.direct_of_pair([user.id, other.id]).await.map_err(refusal_of)?;
        match self.open(user.id, id).await {
            Err(Refusal::UnknownGuild) => {
                let new = NewDirect { id, recipients: vec![user.clone(), other.clone()], is_group: false };
                self.make_direct(new).await?;
                self.open(user.id, id).await
            }
            opened => opened,
        }
    }

    /// Refuses messages between two accounts of which one has blocked the other.
    ///
    /// # Errors
    /// `CannotMessage` if so; `Unavailable` when the store cannot be read.
    pub async fn need_no_block(&self, pair: [UserId; 2]) -> Result<(), Refusal> {
        match self.is_blocked(pair).await {
            Ok(false) => Ok(()),
            Ok(true) => Err(Refusal::CannotMessage),
            Err(_) => Err(Refusal::Unavailable),
        }
    }

    /// Whether an account may make a direct message with another, or bring it into a group: they are friends or have a
    /// common guild (`directs.who` changes that), and neither has blocked the other.
    ///
    /// # Errors
    /// `CannotMessage` if it may not; `Unavailable` when the store cannot be read.
    pub async fn need_consent(&self, user_id: UserId, other_id: UserId) -> Result<(), Refusal> {
        self.need_no_block([user_id, other_id]).await?;
        let consents = async {
            Ok::<_, StoreError>(match self.inner.direct_limits.who {
                DirectsWho::Anyone => true,
                DirectsWho::Backend => false,
                DirectsWho::CommonGuild => {
                    self.are_friends(user_id, other_id).await?
                        || self.inner.store.have_common_guild([user_id, other_id]).await?
                }
            })
        };
        let is_given = consents.await.map_err(|_| Refusal::Unavailable)?;
        if is_given { Ok(()) } else { Err(Refusal::CannotMessage) }
    }

    /// Runs `make` if the account is below its daily limit. Only successes count.
    async fn counted<T>(
        &self,
        user_id: UserId,
        kind: Conversation,
        make: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let now = self.inner.clock.now().instant;
        self.inner.made_today.take(now, user_id, kind, &self.inner.direct_limits)?;
        let made = make.await;
        if made.is_err() {
            self.inner.made_today.refund(user_id, kind);
        }
        made
    }

    /// Creates a group of `user` and these others.
    ///
    /// # Errors
    /// `CannotMessage` if one of them is a bot or did not consent (`need_consent`); `TooManyRecipients`;
    /// `TooManyDirects`; `Unavailable` as for `command`.
    pub async fn create_group(&self, user: &Arc<User>, others: &[Arc<User>]) -> Result<Direct, Refusal> {
        if others.len() >= Direct::RECIPIENTS_MAX {
            // Bounds the number of queries below.
            let mut ids: Vec<UserId> = others.iter().map(|other| other.id).chain([user.id]).collect();
            ids.sort_unstable();
            ids.dedup();
            if ids.len() > Direct::RECIPIENTS_MAX {
                return Err(Refusal::TooManyRecipients);
            }
        }
        for other in others.iter().filter(|other| other.id != user.id) {
            self.need_consent(user.id, other.id).await?;
        }
        self.counted(user.id, Conversation::Group, self.put_group(user, others)).await
    }

    /// `create_group` for backends: without consent and limits.
    ///
    /// # Errors
    /// `CannotMessage` if one of them is a bot, `TooManyRecipients`; `Unavailable` as for `command`.
    pub async fn put_group(&self, user: &Arc<User>, others: &[Arc<User>]) -> Result<Direct, Refusal> {
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

    /// The direct messages and groups in an account's list, groups last, each by newest activity; at most 1,000.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn directs_of_user(&self, user_id: UserId) -> Result<Vec<Direct>, StoreError> {
        self.inner.store.directs_of_user(user_id, DIRECTS_OF_USER_MAX).await
    }

    /// The oldest messages of a direct message above `after`, ascending, at most 100.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn direct_messages_after(
        &self,
        channel_id: ChannelId,
        after: MessageId,
    ) -> Result<Vec<MessageId>, StoreError> {
        let newest_first = self.inner.store.messages(channel_id, Page::After(after), MESSAGES_AT_ONCE_MAX).await?;
        Ok(newest_first.iter().rev().map(|record| record.message.id).collect())
    }

    async fn open(&self, user_id: UserId, id: ChannelId) -> Result<Direct, Refusal> {
        self.command(id.cast(), Actor::User(user_id), request::Open).await
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
        let made = self.request(guild_id, Input::Create(CreateRequest::Direct(new), answer), receiver).await;
        self.explain_write(made).map(drop)
    }
}
