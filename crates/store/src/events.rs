//! Events: the feed of backends, a log of what happened in guilds.
//!
//! Owns        what `Store::events` takes and returns.
//! Invariants  E1 an event is committed with the change that it reports. E2 positions ascend in the order of commits: a
//!             reader that has seen a position misses none below it, on any driver and over all nodes. E3 a position is
//!             never used twice. (tests `it/contract/events.rs`)
//! Limits      `prune_events`; a read has at most `limit` events of at most `EVENTS_SCANNED_MAX` positions.

use guildhall_guild::FeedKind;
use guildhall_model::{ChannelId, GuildId};
use guildhall_stdx::Timestamp;

/// Positions that one read of events passes.
pub const EVENTS_SCANNED_MAX: u64 = 10_000;

/// Which events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventFilter {
    /// A bit for each `FeedKind`.
    pub kinds: u64,
    /// None: of all guilds, and of direct messages.
    pub guild_id: Option<GuildId>,
    /// None: of all channels, and of none.
    pub channel_id: Option<ChannelId>,
}

impl EventFilter {
    /// Events of all kinds, guilds and channels.
    pub const ALL: Self = Self { kinds: u64::MAX >> 1, guild_id: None, channel_id: None };

    /// Events of these kinds.
    #[must_use]
    pub fn of_kinds(kinds: impl IntoIterator<Item = FeedKind>) -> Self {
        Self { kinds: kinds.into_iter().fold(0, |bits, kind| bits | 1 << kind as u8), ..Self::ALL }
    }

    /// Whether an event is one of them.
    #[must_use]
    pub fn admits(&self, event: &StoredEvent) -> bool {
        self.kinds >> event.kind & 1 == 1
            && self.guild_id.is_none_or(|guild_id| event.guild_id == Some(guild_id))
            && self.channel_id.is_none_or(|channel_id| event.channel_id == Some(channel_id))
    }
}

/// An event of the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    pub position: u64,
    /// When it was stored, by the clock of the database.
    pub at: Timestamp,
    /// Number of its `FeedKind`; that of a later version may be unknown.
    pub kind: u8,
    /// None: of a direct message.
    pub guild_id: Option<GuildId>,
    pub channel_id: Option<ChannelId>,
    /// The body, as JSON.
    pub data: String,
}

/// Extent of the feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventBounds {
    /// The newest event that was removed; 0: none.
    pub pruned: u64,
    /// The newest event of all; 0: there was none.
    pub newest: u64,
}

/// The last position to remove now, of events that are older than `before` or more than `rows_max`.
pub(crate) fn prune_to(bounds: EventBounds, oldest: &[(u64, i64)], before: Timestamp, rows_max: u64) -> u64 {
    let surplus = bounds.newest.saturating_sub(rows_max);
    let is_gone = |(position, at): &&(u64, i64)| *at < before.0 || *position <= surplus;
    oldest.iter().take_while(is_gone).last().map_or(0, |(position, _)| *position)
}
