//! Guild subscriptions (op 14, op 37): what a user client looks at in a guild. Spec  docs/protocol.md §8.4.
//!
//! Owns        `GuildSubscriptions`, a message; `SubscriptionPatch`, its part about one guild; `Subscription`, what
//!             patches add up to.
//! Invariants  B1 a `Subscription` is inside its limits, whatever came. B2 a key that is absent, null or of a wrong
//!             type changes nothing. B3 a patch merged twice is a patch merged once. (tests `b1_*`, `b2_*`, `b3_*`)
//! Limits      `GUILDS_MAX`, `CHANNELS_MAX`, `RANGES_MAX`, `RANGE_ROWS_MAX`, `MEMBERS_MAX`, `THREAD_LISTS_MAX`; what is past
//!             them is dropped without a word.
//! Not here    whether guild and channels exist and may be seen, and what follows from a change.

use super::{PayloadError, guild_of, ids_of};
use crate::id::{ChannelId, GuildId, UserId};
use serde_json::{Map, Value};

/// Rows of a member list, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowRange {
    /// First row, counted from 0.
    pub first: u32,
    /// Last row, at or after `first`.
    pub last: u32,
}

impl RowRange {
    /// How many rows.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is no empty range: both ends are in it")]
    pub fn len(self) -> u32 {
        self.last - self.first + 1
    }

    /// `[first, last]`, cut to `RANGE_ROWS_MAX` rows. None for a range that runs backwards, is negative, or starts past
    /// every list.
    fn parse(value: &Value) -> Option<Self> {
        let [first, last] = value.as_array()?.as_slice() else { return None };
        let (first, last) = (first.as_u64()?, last.as_u64()?);
        let first = u32::try_from(first).ok().filter(|_| first <= last)?;
        let last_max = first.saturating_add(Subscription::RANGE_ROWS_MAX - 1);
        Some(Self { first, last: u32::try_from(last).map_or(last_max, |last| last.min(last_max)) })
    }
}

/// Rows looked at in the member list of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelRanges {
    /// Whose member list.
    pub channel_id: ChannelId,
    /// No two the same; they may overlap.
    pub ranges: Vec<RowRange>,
}

/// What a client changes of its subscription to one guild. None: as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionPatch {
    /// TYPING_START; true makes the session active in the guild.
    pub typing: Option<bool>,
    /// Stored; no effect is known.
    pub activities: Option<bool>,
    /// THREAD_* of all viewable threads.
    pub threads: Option<bool>,
    /// GUILD_MEMBER_ADD, _UPDATE and _REMOVE of everybody.
    pub member_updates: Option<bool>,
    /// Whose changes and presences to send; sorted, each once.
    pub members: Option<Vec<UserId>>,
    /// Which rows of which member lists to keep up to date; each channel once.
    pub channels: Option<Vec<ChannelRanges>>,
    /// Threads whose members to send; sorted, each once.
    pub thread_member_lists: Option<Vec<ChannelId>>,
}

impl SubscriptionPatch {
    /// Reads what makes sense.
    fn parse(sub: &Map<String, Value>) -> Self {
        let flag = |key: &str| sub.get(key).and_then(Value::as_bool);
        Self {
            typing: flag("typing"),
            activities: flag("activities"),
            threads: flag("threads"),
            member_updates: flag("member_updates"),
            members: sub.get("members").and_then(|ids| ids_of(ids, Subscription::MEMBERS_MAX)),
            channels: sub.get("channels").and_then(channels_of),
            thread_member_lists: sub
                .get("thread_member_lists")
                .and_then(|ids| ids_of(ids, Subscription::THREAD_LISTS_MAX)),
        }
    }
}

/// A map of channel ids to arrays of ranges. A channel without a sound range is not looked at.
fn channels_of(value: &Value) -> Option<Vec<ChannelRanges>> {
    let mut channels: Vec<ChannelRanges> = Vec::new();
    for (id, ranges) in value.as_object()? {
        let (Ok(channel_id), Some(ranges)) = (id.parse(), ranges.as_array()) else { continue };
        let ranges = distinct(ranges.iter().filter_map(RowRange::parse), Subscription::RANGES_MAX);
        // One id can be spelled in two ways, with zeros in front.
        let is_new = channels.iter().all(|known| known.channel_id != channel_id);
        if is_new && !ranges.is_empty() {
            channels.push(ChannelRanges { channel_id, ranges });
        }
        if channels.len() == Subscription::CHANNELS_MAX {
            break;
        }
    }
    Some(channels)
}

fn distinct(ranges: impl Iterator<Item = RowRange>, max: usize) -> Vec<RowRange> {
    let mut kept = Vec::new();
    for range in ranges {
        if kept.len() == max {
            break;
        }
        if !kept.contains(&range) {
            kept.push(range);
        }
    }
    kept
}

/// One message of op 14 or op 37: patches in the order in which to merge them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuildSubscriptions {
    /// Which guild changes in what. Whether the session is in it, is for the receiver to check.
    pub patches: Vec<(GuildId, SubscriptionPatch)>,
}

impl GuildSubscriptions {
    /// More guilds than these are dropped: as many as an account may be in.
    pub const GUILDS_MAX: usize = 200;

    /// Reads op 14: `{guild_id, …}`, one guild.
    ///
    /// # Errors
    /// When it is no object or does not name a guild.
    pub fn parse_single(d: &Value) -> Result<Self, PayloadError> {
        let (guild_id, d) = guild_of("GUILD_SUBSCRIPTIONS", d)?;
        Ok(Self { patches: vec![(guild_id, SubscriptionPatch::parse(d))] })
    }

    /// Reads op 37: `{subscriptions: {guild_id: {…}, …}}`.
    ///
    /// # Errors
    /// When it is no object or `subscriptions` is none. Guilds whose id or part is malformed are left out.
    pub fn parse_bulk(d: &Value) -> Result<Self, PayloadError> {
        let error = |problem| PayloadError { opcode: "GUILD_SUBSCRIPTIONS_BULK", problem };
        let d = d.as_object().ok_or(error("expected an object"))?;
        let subscriptions = d.get("subscriptions").and_then(Value::as_object);
        let patches = subscriptions
            .ok_or(error("`subscriptions` must be an object"))?
            .iter()
            .filter_map(|(id, sub)| Some((id.parse().ok()?, SubscriptionPatch::parse(sub.as_object()?))))
            .take(Self::GUILDS_MAX)
            .collect();
        Ok(Self { patches })
    }
}

/// What a session looks at in one guild: all patches so far, merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// See [`SubscriptionPatch::typing`].
    pub typing: bool,
    /// See [`SubscriptionPatch::activities`].
    pub activities: bool,
    /// See [`SubscriptionPatch::threads`].
    pub threads: bool,
    /// See [`SubscriptionPatch::member_updates`].
    pub member_updates: bool,
    /// Sorted, each once.
    pub members: Vec<UserId>,
    /// Each channel once.
    pub channels: Vec<ChannelRanges>,
    /// Sorted, each once.
    pub thread_member_lists: Vec<ChannelId>,
}

impl Subscription {
    /// Channels whose member list is looked at.
    pub const CHANNELS_MAX: usize = 5;
    /// Ranges per channel.
    pub const RANGES_MAX: usize = 5;
    /// Rows per range: four of the blocks of a hundred that clients ask for.
    pub const RANGE_ROWS_MAX: u32 = 400;
    /// Members followed one by one.
    pub const MEMBERS_MAX: usize = 100;
    /// Threads whose members are followed.
    pub const THREAD_LISTS_MAX: usize = 10;

    /// Takes over what the patch has; the rest stays.
    pub fn merge(&mut self, patch: SubscriptionPatch) {
        fn take<T>(mine: &mut T, new: Option<T>) {
            if let Some(new) = new {
                *mine = new;
            }
        }
        take(&mut self.typing, patch.typing);
        take(&mut self.activities, patch.activities);
        take(&mut self.threads, patch.threads);
        take(&mut self.member_updates, patch.member_updates);
        take(&mut self.members, patch.members);
        take(&mut self.channels, patch.channels);
        take(&mut self.thread_member_lists, patch.thread_member_lists);
    }
}

#[cfg(test)]
mod tests;
