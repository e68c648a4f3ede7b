//! Recent news: events for accounts that belong to no guild, for sessions that move between nodes.
//!
//! Owns        the events of the last `KEPT_MS` that reached this partition, which all partitions of a cluster receive.
//! Invariants  E1 a session that moves gets each of these events once, if the event reaches both nodes within
//!             `SKEW_MS`: the node before names what it has processed, and the next node adds what is missing and
//!             leaves out what it receives later. (test `e1_*` in `tests/it/moved_nodes.rs`)
//! Limits      `NEWS_MAX` events; past it the oldest are forgotten, and a session may lack one that reached the next
//!             node before it.

use guildhall_codec::DispatchFrame;
use guildhall_guild_protocol::{Payload, Published};
use guildhall_model::{ChannelId, MessageId, User, UserId};
use guildhall_stdx::Instant;
use sha2::{Digest as _, Sha256};
use std::{collections::VecDeque, sync::Arc};

/// Events of this time are named by the node before.
pub const KEPT_MS: u64 = 10_000;
/// Events of this time are added by the next node, unless the node before names them.
pub const SKEW_MS: u64 = 5_000;
const NEWS_MAX: usize = 8_192;

/// Something about accounts.
#[derive(Clone, Debug)]
pub enum News {
    /// An event for these accounts.
    Event(Arc<Published>, Arc<[UserId]>),
    /// The account itself changed.
    User(Arc<User>),
}

impl News {
    /// Accounts that it is for.
    pub fn user_ids(&self) -> &[UserId] {
        match self {
            Self::Event(_, user_ids) => user_ids,
            Self::User(user) => std::slice::from_ref(&user.id),
        }
    }

    /// The channel and the id of a direct message, if it is about a new one or an edit.
    pub fn new_direct(&self) -> Option<(ChannelId, MessageId)> {
        let Self::Event(published, _) = self else { return None };
        match &published.event.payload {
            Payload::Message(event) if published.event.is_direct() => {
                Some((event.message.channel_id, event.message.id))
            }
            _ => None,
        }
    }

    fn is_for(&self, user_id: UserId) -> bool {
        self.user_ids().contains(&user_id)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct RecentNews {
    recent: VecDeque<(Instant, News)>,
    /// All news since then that are not older than `KEPT_MS` are here. None: there were none.
    since: Option<Instant>,
}

impl RecentNews {
    /// News arrived.
    pub fn push(&mut self, now: Instant, news: News) {
        let is_old = |(at, _): &mut (Instant, News)| now.ms_since(*at) > KEPT_MS;
        while self.recent.pop_front_if(is_old).is_some() {}
        self.since.get_or_insert(now);
        if self.recent.len() >= NEWS_MAX {
            self.since = self.recent.pop_front().map(|(at, _)| at);
        }
        self.recent.push_back((now, news));
    }

    /// Time before now of which no news are missing, up to `KEPT_MS`.
    pub fn covers_ms(&self, now: Instant) -> u64 {
        self.since.map_or(0, |since| now.ms_since(since).min(KEPT_MS))
    }

    /// News of an account within the last `KEPT_MS`, oldest first, with their age in milliseconds.
    pub fn of_user(&self, now: Instant, user_id: UserId) -> Vec<(u64, News)> {
        let of_age = |(at, news): &(Instant, News)| (now.ms_since(*at), news.clone());
        let is_recent = |(age_ms, _): &(u64, News)| *age_ms <= KEPT_MS;
        self.recent.iter().filter(|(_, news)| news.is_for(user_id)).map(of_age).filter(is_recent).collect()
    }
}

/// Names a dispatch between nodes: equal for equal bodies.
pub fn mark_of(frame: &DispatchFrame) -> u64 {
    let mut hash = Sha256::new();
    hash.update(frame.name());
    hash.update([0]);
    hash.update(frame.body());
    let digest = hash.finalize();
    digest.iter().take(8).fold(0, |mark, byte| mark << 8 | u64::from(*byte))
}
