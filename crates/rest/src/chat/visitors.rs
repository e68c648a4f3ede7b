//! Visitors: accounts that a demo makes for those who open its page.
//!
//! Owns        how many there may be, how often one address gets one, and which of them go again.
//! Doors       `Visitors::open`, once the demo's guilds are there; `Visitors::welcome` for each visitor;
//!             `Visitors::sweep`, which a task of its own calls every `SWEPT_EVERY`.
//! Invariants  V1 an account that has written nothing for a day after it was made goes: its tokens are revoked, and its
//!             place is free. One that wrote a message, or has a direct message, stays. (test `v1_*`)
//! Limits      `VisitorLimits`; `PAGES_MAX` pages of messages in one sweep, the rest in the next one; `ADDRESSES_MAX`
//!             addresses are remembered, past it those whose allowance is full again are forgotten, and if none is, new
//!             addresses are refused.
//! Not here    a node that is no demo: it has no `Visitors`.

use crate::error::ApiError;
use guildhall_guild::{Actor, BackendCommand, Command, NewMember, Refusal, request};
use guildhall_http_kit::network;
use guildhall_model::{ChannelId, GuildId, MessageId, RoleId, User, UserId, timestamp_of};
use guildhall_node::{Clock, Node};
use guildhall_stdx::{Allowance, Instant, Rng};
use guildhall_store::Page;
use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

const ADDRESSES_MAX: usize = 10_000;
const HOUR_MS: u64 = 3_600_000;
/// A month, as of the demo's own tokens.
const TOKEN_TTL_S: u64 = 30 * 86_400;
/// An attempt that finds no place may be repeated after it.
const RETRY_MS: u64 = 60_000;
/// How long an account may be silent.
const SILENT_MS: i64 = 86_400_000;
const SWEPT_EVERY: Duration = Duration::from_secs(3600);
/// Messages of one read of a sweep, and reads of one sweep.
const PAGE: u32 = 100;
const PAGES_MAX: u32 = 5_000;
/// Pause between two reads, so that the store can serve other work.
const PAUSE: Duration = Duration::from_millis(5);

const FIRST: &[&str] = &[
    "Amber", "Brisk", "Calm", "Clever", "Copper", "Coral", "Dapper", "Eager", "Fern", "Gentle", "Golden", "Hazel",
    "Indigo", "Ivory", "Jolly", "Lively", "Lunar", "Maple", "Mellow", "Misty", "Nimble", "Olive", "Patient", "Quiet",
    "Rapid", "Rosy", "Silver", "Sunny", "Swift", "Tidy", "Velvet", "Witty",
];
const SECOND: &[&str] = &[
    "Badger", "Beaver", "Bison", "Crane", "Curlew", "Dolphin", "Falcon", "Ferret", "Finch", "Fox", "Gecko", "Hare",
    "Heron", "Ibis", "Jackdaw", "Kestrel", "Lark", "Lemur", "Lynx", "Marten", "Mole", "Newt", "Otter", "Owl", "Panda",
    "Puffin", "Quail", "Raven", "Robin", "Seal", "Stoat", "Wren",
];

/// How many accounts are made.
#[derive(Clone, Copy, Debug)]
pub struct VisitorLimits {
    /// Of one address (IPv6: of its /64) an hour; past it 429.
    pub address_per_hour_max: u32,
    /// In all, those of earlier runs included; past it 503.
    pub visitors_max: u64,
}

impl Default for VisitorLimits {
    fn default() -> Self {
        Self { address_per_hour_max: 60, visitors_max: 5_000 }
    }
}

/// A guild that visitors join.
#[derive(Clone, Debug)]
pub struct VisitorGuild {
    pub id: GuildId,
    /// Roles that the node gives to a visitor there.
    pub roles: Vec<RoleId>,
}

#[derive(Debug, Default)]
struct Counts {
    made: u64,
    /// Accounts of which no message was seen. Ids ascend with the time at which they were made.
    silent: BTreeSet<UserId>,
    addresses: HashMap<u128, Allowance>,
}

/// Makes accounts for visitors.
pub struct Visitors {
    node: Node,
    clock: Arc<dyn Clock>,
    limits: VisitorLimits,
    guilds: OnceLock<Vec<VisitorGuild>>,
    counts: Mutex<Counts>,
    /// The last message of each channel that a sweep has read.
    read: tokio::sync::Mutex<HashMap<ChannelId, MessageId>>,
}

impl Visitors {
    /// Visitors get 503 until `open` is called.
    #[must_use]
    pub fn new(node: Node, clock: Arc<dyn Clock>, limits: VisitorLimits) -> Self {
        Self {
            node,
            clock,
            limits,
            guilds: OnceLock::new(),
            counts: Mutex::default(),
            read: tokio::sync::Mutex::default(),
        }
    }

    /// Lets visitors into these guilds, and sweeps until the last `Arc` is dropped. `members` are there from earlier
    /// runs, and unknown to the demo.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open(self: &Arc<Self>, guilds: Vec<VisitorGuild>, members: &[Arc<User>]) {
        {
            let mut counts = self.counts();
            counts.made = members.len() as u64;
            counts.silent = members.iter().filter(|user| is_visitor(user)).map(|user| user.id).collect();
        }
        let _ = self.guilds.set(guilds);
        let visitors = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(visitors) = visitors.upgrade() {
                match visitors.sweep().await {
                    Ok(0) => {}
                    Ok(count) => tracing::info!(count, "accounts of visitors without messages were deleted"),
                    Err(error) => tracing::warn!(%error, "silent visitors cannot be removed; it is tried again"),
                }
                drop(visitors);
                tokio::time::sleep(SWEPT_EVERY).await;
            }
        });
    }

    /// Removes accounts that have been silent for a day (V1). How many.
    ///
    /// # Errors
    /// The store or a guild fails; the next sweep removes the rest.
    pub async fn sweep(&self) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
        let Some(guilds) = self.guilds.get() else { return Ok(0) };
        // One sweep at a time.
        let mut read = self.read.lock().await;
        if !self.find_writers(guilds, &mut read).await? {
            return Ok(0);
        }
        let before = self.clock.now().unix.0 - SILENT_MS;
        let old: Vec<UserId> =
            self.counts().silent.iter().copied().take_while(|id| timestamp_of(*id).0 < before).collect();
        let mut removed = 0;
        for user_id in old {
            if self.node.store().directs_of_user(user_id, 1).await?.is_empty() {
                self.remove(guilds, user_id).await?;
                self.counts().made -= 1;
                removed += 1;
            }
            self.counts().silent.remove(&user_id);
        }
        Ok(removed)
    }

    /// Reads the messages since the last sweep: their authors are not silent. False: there are more.
    async fn find_writers(
        &self,
        guilds: &[VisitorGuild],
        read: &mut HashMap<ChannelId, MessageId>,
    ) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
        let Some(oldest) = self.counts().silent.first().copied() else { return Ok(false) };
        let mut pages_left = PAGES_MAX;
        for guild in guilds {
            let reply = self.node.command(guild.id, Actor::System, request::ReadGuild).await?;
            for (channel_id, newest) in &*reply.last_message_ids {
                let last = read.entry(*channel_id).or_insert(oldest.cast());
                while *last < *newest {
                    let Some(left) = pages_left.checked_sub(1) else { return Ok(false) };
                    pages_left = left;
                    let page = self.node.store().messages(*channel_id, Page::After(*last), PAGE).await?;
                    let Some(first) = page.first() else { break };
                    *last = first.message.id;
                    self.heard(page.iter().map(|record| record.message.author.id));
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Ok(true)
    }

    fn heard(&self, authors: impl Iterator<Item = UserId>) {
        let mut counts = self.counts();
        for author_id in authors {
            counts.silent.remove(&author_id);
        }
    }

    async fn remove(
        &self,
        guilds: &[VisitorGuild],
        user_id: UserId,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.node.revoke_user_tokens(user_id).await?;
        for guild in guilds {
            match self.node.command(guild.id, Actor::System, request::RemoveMember(user_id)).await {
                Ok(_) | Err(Refusal::UnknownMember) => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        self.node.put_user(Arc::new(User::deleted(user_id, false))).await?;
        Ok(())
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an account that is in the demo's guilds. A visitor without a known address shares the limit of all such.
    pub(crate) async fn welcome(&self, peer: Option<IpAddr>) -> Result<(UserId, String), ApiError> {
        let guilds = self.guilds.get().ok_or(ApiError::Overloaded)?;
        if !self.node.has_lease() {
            return Err(ApiError::NoLease);
        }
        self.take(peer.unwrap_or(Ipv4Addr::UNSPECIFIED.into()))?;
        let user_id: UserId = self.node.next_id().await?;
        let mut rng = Rng::new(user_id.get());
        let pick = |rng: &mut Rng, words: &[&'static str]| rng.pick(words).copied().unwrap_or("Visitor");
        let (first, second) = (pick(&mut rng, FIRST), pick(&mut rng, SECOND));
        let number = rng.below(1000);
        let username = username(first, second, number);
        let user = User { global_name: Some(format!("{first} {second}")), ..User::new(user_id, &username) };
        let user = self.node.add_user(user).await?;
        for guild in guilds {
            let member = NewMember {
                user: Arc::clone(&user),
                nick: None,
                roles: guild.roles.clone(),
                joined_at: None,
                mute: false,
                deaf: false,
                flags: 0,
                communication_disabled_until: None,
            };
            let command = Command::Backend(Box::new(BackendCommand::PutMember(Box::new(member), None)));
            self.node.command(guild.id, Actor::System, command).await?;
        }
        let token = self.node.mint_user_token(user_id, TOKEN_TTL_S).await?;
        self.counts().silent.insert(user_id);
        Ok((user_id, token))
    }

    fn take(&self, peer: IpAddr) -> Result<(), ApiError> {
        let (now, max) = (self.clock.now().instant, self.limits.address_per_hour_max);
        let mut counts = self.counts();
        if counts.made >= self.limits.visitors_max {
            return Err(ApiError::Overloaded);
        }
        counts.take(now, network(peer), max)?;
        counts.made += 1;
        Ok(())
    }
}

fn username(first: &str, second: &str, number: u64) -> String {
    format!("{}_{}_{number:03}", first.to_lowercase(), second.to_lowercase())
}

/// Whether `welcome` made the account: a backend may have put others into the demo's guilds.
fn is_visitor(user: &User) -> bool {
    let Some((first, second)) = user.global_name.as_deref().and_then(|name| name.split_once(' ')) else { return false };
    let number = user.username.rsplit('_').next().and_then(|number| number.parse().ok());
    FIRST.contains(&first)
        && SECOND.contains(&second)
        && number.is_some_and(|number| user.username == username(first, second, number))
}

impl Counts {
    fn take(&mut self, now: Instant, address: u128, max: u32) -> Result<(), ApiError> {
        let refused = Err(ApiError::RateLimited { retry_after_ms: RETRY_MS, is_global: false });
        if self.addresses.len() >= ADDRESSES_MAX && !self.addresses.contains_key(&address) {
            // An allowance that has all of its credit is as good as none.
            self.addresses.retain(|_, allowance| !allowance.is_full(now, max, HOUR_MS));
            if self.addresses.len() >= ADDRESSES_MAX {
                return refused;
            }
        }
        if self.addresses.entry(address).or_default().take(now, max, HOUR_MS) { Ok(()) } else { refused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms)
    }

    #[test]
    fn an_address_gets_so_many_an_hour() {
        let mut counts = Counts::default();
        let mut take = |ms, address| counts.take(at(ms), address, 6).is_ok();
        assert!((0..6).all(|_| take(0, 1)));
        assert!(!take(0, 1) && take(0, 2));
        assert!(!take(HOUR_MS / 6 - 1, 1) && take(HOUR_MS / 6, 1));
    }

    #[test]
    fn v1_accounts_of_backends_are_no_visitors() {
        let user =
            |name: &str, global: &str| User { global_name: Some(global.to_owned()), ..User::new(UserId::new(1), name) };
        assert!(is_visitor(&user("amber_badger_007", "Amber Badger")));
        assert!(!is_visitor(&user("amber", "Amber Badger")) && !is_visitor(&user("ana_lee_007", "Ana Lee")));
        assert!(!is_visitor(&User::new(UserId::new(1), "amber_badger_007")));
    }

    #[test]
    fn addresses_are_bounded() {
        let mut counts = Counts::default();
        for address in 0..ADDRESSES_MAX as u128 {
            assert!(counts.take(at(0), address, 6).is_ok());
        }
        assert!(counts.take(at(0), u128::MAX, 6).is_err());
        assert!(counts.take(at(0), 5, 6).is_ok(), "a known one");
        assert!(counts.take(at(HOUR_MS), u128::MAX, 6).is_ok());
        assert_eq!(counts.addresses.len(), 1);
    }
}
