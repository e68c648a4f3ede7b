//! Recent joins and ended tokens: news that may reach a partition before the sessions that they concern.
//!
//! Limits      `JOINS_REMEMBERED_MAX` joins, for `JOIN_REMEMBERED_MS`; `CLOSED_TOKENS_MAX` tokens. Past them the oldest
//!             are forgotten.

use guildhall_model::{GuildId, UserId};
use guildhall_stdx::Instant;
use std::collections::VecDeque;

const JOINS_REMEMBERED_MAX: usize = 4_096;
/// Time for which joins are remembered: longer than a relay can be without its stream.
const JOIN_REMEMBERED_MS: u64 = 900_000;
/// Past it, a connection that is on its way from another partition with a forgotten token would be served.
const CLOSED_TOKENS_MAX: usize = 4_096;

/// Accounts that joined guilds: the guilds of an account may have been read just before the join, and its session may
/// start just after it.
#[derive(Debug, Default)]
pub struct RecentJoins(VecDeque<(Instant, UserId, GuildId)>);

impl RecentJoins {
    /// An account joined a guild.
    pub fn push(&mut self, now: Instant, user_id: UserId, guild_id: GuildId) {
        if self.0.len() >= JOINS_REMEMBERED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((now, user_id, guild_id));
    }

    /// Forgets old joins.
    pub fn sweep(&mut self, now: Instant) {
        self.0.retain(|(at, ..)| now.ms_since(*at) < JOIN_REMEMBERED_MS);
    }

    /// Accounts that joined a guild.
    pub fn of_guild(&self, guild_id: GuildId) -> Vec<UserId> {
        self.0.iter().filter(|(.., guild)| *guild == guild_id).map(|(_, user, _)| *user).collect()
    }

    /// Guilds that an account joined within the last `news_ms`.
    pub fn of_user(&self, now: Instant, user_id: UserId, news_ms: u64) -> impl Iterator<Item = GuildId> + '_ {
        let is_news =
            move |(at, user, _): &&(Instant, UserId, GuildId)| *user == user_id && now.ms_since(*at) < news_ms;
        self.0.iter().filter(is_news).map(|(.., guild)| *guild)
    }
}

/// Tokens whose sessions were ended here: a connection that came with one may be on its way from another partition.
#[derive(Debug, Default)]
pub struct ClosedTokens(VecDeque<(UserId, u64)>);

impl ClosedTokens {
    /// The sessions of a token were ended.
    pub fn push(&mut self, user_id: UserId, token: u64) {
        if self.0.len() >= CLOSED_TOKENS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((user_id, token));
    }

    /// Whether the sessions of a token were ended here.
    pub fn contains(&self, user_id: UserId, token: u64) -> bool {
        self.0.contains(&(user_id, token))
    }
}
