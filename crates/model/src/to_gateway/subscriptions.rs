//! Guild subscriptions (op 14, op 37): events of a guild that a user client subscribes to. Spec
//! docs/protocol/reference.md §8.4.
//!
//! Owns        `GuildSubscriptions`, a payload; `SubscriptionPatch`, its part about one guild; `Subscription`, the
//!             result of merging patches.
//! Invariants  B1 a `Subscription` is inside its limits, whatever the input was. B2 a key that is absent, null or of a
//!             wrong type changes nothing. B3 merging a patch twice equals merging it once. (tests `b1_*`, `b2_*`,
//!             `b3_*`)
//! Limits      `GUILDS_MAX`, `CHANNELS_MAX`, `RANGES_MAX`, `RANGE_ROWS_MAX`, `MEMBERS_MAX`, `THREAD_LISTS_MAX`; the
//!             excess is dropped silently.
//! Not here    whether guild and channels exist and are visible, and the effects of a change.

use super::{PayloadError, guild_of, ids_of};
use crate::id::{ChannelId, GuildId, UserId};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Rows of a member list, both ends inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowRange {
    /// First row, counted from 0.
    pub first: u32,
    /// Last row, at or after `first`.
    pub last: u32,
}

impl RowRange {
    /// Number of rows.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is no empty range: both ends are in it")]
    pub fn len(self) -> u32 {
        self.last - self.first + 1
    }

    /// Parses `[first, last]`, truncated to `RANGE_ROWS_MAX` rows. None for a range that runs backwards, is negative,
    /// or starts past every list.
    fn parse(value: &Value) -> Option<Self> {
        let [first, last] = value.as_array()?.as_slice() else { return None };
        let (first, last) = (first.as_u64()?, last.as_u64()?);
        let first = u32::try_from(first).ok().filter(|_| first <= last)?;
        let last_max = first.saturating_add(Subscription::RANGE_ROWS_MAX - 1);
        Some(Self { first, last: u32::try_from(last).map_or(last_max, |last| last.min(last_max)) })
    }
}

/// Subscribed rows in the member list of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelRanges {
    pub channel_id: ChannelId,
    /// No duplicates; ranges may overlap.
    pub ranges: Vec<RowRange>,
}

/// Changes of the subscription to one guild. None: unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionPatch {
    /// TYPING_START; true makes the session active in the guild.
    pub typing: Option<bool>,
    /// Stored without effect: the protocol documents none.
    pub activities: Option<bool>,
    /// THREAD_* events of all visible threads.
    pub threads: Option<bool>,
    /// GUILD_MEMBER_ADD, _UPDATE and _REMOVE of all members.
    pub member_updates: Option<bool>,
    /// Accounts whose member updates and presences to send; sorted, without duplicates.
    pub members: Option<Vec<UserId>>,
    /// Subscribed rows of member lists; each channel once.
    pub channels: Option<Vec<ChannelRanges>>,
    /// Threads whose members to send; sorted, without duplicates.
    pub thread_member_lists: Option<Vec<ChannelId>>,
}

impl SubscriptionPatch {
    /// Parses the valid keys.
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

/// Parses a map of channel ids to arrays of ranges. A channel without a valid range is dropped.
fn channels_of(value: &Value) -> Option<Vec<ChannelRanges>> {
    let mut channels: Vec<ChannelRanges> = Vec::new();
    for (id, ranges) in value.as_object()? {
        let (Ok(channel_id), Some(ranges)) = (id.parse(), ranges.as_array()) else { continue };
        let ranges = distinct(ranges.iter().filter_map(RowRange::parse), Subscription::RANGES_MAX);
        // Leading zeros can spell one id in two ways.
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
    // Sessions keep them, and the default capacity is four.
    kept.shrink_to_fit();
    kept
}

/// One payload of op 14 or op 37: patches in the order of merging.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuildSubscriptions {
    /// The receiver must check that the account is in the guild.
    pub patches: Vec<(GuildId, SubscriptionPatch)>,
}

impl GuildSubscriptions {
    /// Further guilds are dropped. Equals the guild limit of an account.
    pub const GUILDS_MAX: usize = 200;

    /// Parses op 14: `{guild_id, …}`, one guild.
    ///
    /// # Errors
    /// When it is not an object or does not name a guild.
    pub fn parse_single(d: &Value) -> Result<Self, PayloadError> {
        let (guild_id, d) = guild_of("GUILD_SUBSCRIPTIONS", d)?;
        Ok(Self { patches: vec![(guild_id, SubscriptionPatch::parse(d))] })
    }

    /// Parses op 37: `{subscriptions: {guild_id: {…}, …}}`.
    ///
    /// # Errors
    /// When it or `subscriptions` is not an object. Guilds with a malformed id or part are dropped.
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

/// A session's subscription to one guild: all patches so far, merged.
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
    /// Sorted, without duplicates. Shared with the relay.
    pub members: Arc<[UserId]>,
    /// Each channel once. Shared with the relay.
    pub channels: Arc<[ChannelRanges]>,
    /// Sorted, without duplicates.
    pub thread_member_lists: Vec<ChannelId>,
}

const _: () = assert!(size_of::<Subscription>() <= 64, "there is one per active session");

impl Subscription {
    /// Channels with subscribed member lists.
    pub const CHANNELS_MAX: usize = 5;
    /// Ranges per channel.
    pub const RANGES_MAX: usize = 5;
    /// Rows per range: four of the 100-row blocks that clients request.
    pub const RANGE_ROWS_MAX: u32 = 400;
    /// Members subscribed individually.
    pub const MEMBERS_MAX: usize = 100;
    /// Threads with subscribed members.
    pub const THREAD_LISTS_MAX: usize = 10;

    /// Replaces the keys that the patch has.
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
        take(&mut self.members, patch.members.map(Into::into));
        take(&mut self.channels, patch.channels.map(Into::into));
        take(&mut self.thread_member_lists, patch.thread_member_lists);
    }
}

#[cfg(test)]
mod tests;
