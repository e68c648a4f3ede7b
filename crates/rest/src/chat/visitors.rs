//! Visitors: accounts that a demo makes for those who open its page.
//!
//! Owns        how many there may be, and how often one address gets one.
//! Doors       `Visitors::open`, once the demo's guilds are there; `Visitors::welcome` for each visitor.
//! Limits      `VisitorLimits`; `ADDRESSES_MAX` addresses are remembered, past it those whose allowance is full again
//!             are forgotten, and if none is, new addresses are refused.
//! Not here    a node that is no demo: it has no `Visitors`.

use crate::error::ApiError;
use guildhall_guild::{Actor, BackendCommand, Command, NewMember};
use guildhall_http_kit::network;
use guildhall_model::{GuildId, RoleId, User, UserId};
use guildhall_node::{Clock, Node};
use guildhall_stdx::{Allowance, Instant, Rng};
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

const ADDRESSES_MAX: usize = 10_000;
const HOUR_MS: u64 = 3_600_000;
/// A month, as of the demo's own tokens.
const TOKEN_TTL_S: u64 = 30 * 86_400;
/// An attempt that finds no place may be repeated after it.
const RETRY_MS: u64 = 60_000;

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
    addresses: HashMap<u128, Allowance>,
}

/// Makes accounts for visitors.
pub struct Visitors {
    node: Node,
    clock: Arc<dyn Clock>,
    limits: VisitorLimits,
    guilds: OnceLock<Vec<VisitorGuild>>,
    counts: Mutex<Counts>,
}

impl Visitors {
    /// Visitors get 503 until `open` is called.
    #[must_use]
    pub fn new(node: Node, clock: Arc<dyn Clock>, limits: VisitorLimits) -> Self {
        Self { node, clock, limits, guilds: OnceLock::new(), counts: Mutex::default() }
    }

    /// Lets visitors into these guilds. `made` accounts are left from earlier runs.
    pub fn open(&self, guilds: Vec<VisitorGuild>, made: u64) {
        self.counts().made = made;
        let _ = self.guilds.set(guilds);
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
        let username = format!("{}_{}_{number:03}", first.to_lowercase(), second.to_lowercase());
        let user = Arc::new(User { global_name: Some(format!("{first} {second}")), ..User::new(user_id, &username) });
        self.node.put_user(Arc::clone(&user)).await?;
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
        Ok((user_id, self.node.mint_user_token(user_id, TOKEN_TTL_S).await?))
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
