//! Session snapshot: a session as one process hands it over to the next, at a restart.
//!
//! Owns        `SessionSnapshot` and `DispatchSnapshot`, its dispatches. Both are plain data that serialises; nothing
//!             in them depends on a process.
//! Doors       `Session::snapshot` and `Dispatch::snapshot` write; `Session::restore` and `Dispatch::restore` read.
//! Invariants  X1 a restored session continues with its seq, and sends the same bytes under each seq. X2 each dispatch
//!             keeps its visibility rule, so that current permissions apply at replay. (tests
//!             `partition/tests/it/handover.rs`)
//! Not here    member requests in progress, which clients send again; rate limits of op 3 and op 8, which restart;
//!             sessions that have not sent READY.     Spec  docs/adr/0026.

use crate::dispatch::Dispatch;
use guildhall_codec::Encoding;
use guildhall_guild_protocol::{HiddenChannels, Redaction};
use guildhall_model::{
    Activity, ChannelId, GuildId, Platform, Status, UserId,
    to_gateway::{ChannelRanges, RowRange, Subscription},
};
use guildhall_relay::ReplayVisibility;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// A dispatch in one form: one encoding and redaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DispatchSnapshot {
    /// The value of `t`.
    pub name: String,
    /// Encoded as ETF; as JSON otherwise.
    pub is_etf: bool,
    /// The value of `d`, encoded.
    #[serde(with = "as_text")]
    pub body: Vec<u8>,
    /// Visibility rule at replay. None: a dispatch made for one session, which that session may always see.
    #[serde(rename = "seen_by")]
    pub visibility: Option<ReplayVisibility>,
}

/// Bytes within JSON: UTF-8 after a `t`, anything else as hexadecimal digits after an `x`.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};
    use std::fmt::Write as _;

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(bytes.len() + 1);
        match std::str::from_utf8(bytes) {
            Ok(as_it_is) => text.extend(["t", as_it_is]),
            Err(_) => {
                text.push('x');
                for byte in bytes {
                    let _ = write!(text, "{byte:02x}");
                }
            }
        }
        serializer.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let broken = || D::Error::custom("neither text nor hexadecimal digits");
        if let Some(as_it_is) = text.strip_prefix('t') {
            return Ok(as_it_is.as_bytes().to_vec());
        }
        let digits = text.strip_prefix('x').ok_or_else(broken)?.as_bytes();
        let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        };
        digits.chunks(2).map(|pair| byte(pair).ok_or_else(broken)).collect()
    }
}

impl DispatchSnapshot {
    /// Approximate size in memory, for the limit of a hand-over.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        self.body.len() + self.name.len() + 64
    }

    fn encoding(&self) -> Encoding {
        if self.is_etf { Encoding::Etf } else { Encoding::Json }
    }
}

impl Dispatch {
    /// One form of it for the next process. Drops a frame that can be rendered again. Unless hidden channels are
    /// listed, only members who can view a channel may see its complete form.
    #[must_use]
    pub fn snapshot(&self, encoding: Encoding, redaction: Redaction, hidden: HiddenChannels) -> DispatchSnapshot {
        let frame = self.frame(encoding, redaction);
        let (name, body) = (String::from_utf8_lossy(frame.name()).into_owned(), frame.body().to_vec());
        drop(frame);
        self.was_written(encoding);
        let hidden = if redaction == Redaction::None { hidden } else { HiddenChannels::Listed };
        let visibility = self.replayed().map(|of| of.to_rule(hidden));
        DispatchSnapshot { name, is_etf: encoding == Encoding::Etf, body, visibility }
    }

    /// Restores a dispatch. None if its name is not valid.
    #[must_use]
    pub fn restore(kept: &DispatchSnapshot) -> Option<Rc<Self>> {
        Self::restored(kept.visibility.clone(), kept.encoding(), &kept.name, &kept.body)
    }
}

/// Of an activity with its texts.
const ACTIVITY_BYTES: usize = 512;

/// One guild of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MembershipSnapshot {
    pub id: GuildId,
    /// The client has GUILD_CREATE and all later events of the guild.
    pub is_inside: bool,
    /// Subscription of a user account; none for bots.
    pub subscription: Option<SubscriptionSnapshot>,
    /// The account is in voice there by this session, according to its partition.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_voice: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// `Subscription` in a form that serialises.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubscriptionSnapshot {
    typing: bool,
    activities: bool,
    threads: bool,
    member_updates: bool,
    members: Vec<UserId>,
    channels: Vec<(ChannelId, Vec<(u32, u32)>)>,
    thread_member_lists: Vec<ChannelId>,
}

impl From<&Subscription> for SubscriptionSnapshot {
    fn from(from: &Subscription) -> Self {
        let ranges = |ranges: &[RowRange]| ranges.iter().map(|range| (range.first, range.last)).collect();
        Self {
            typing: from.typing,
            activities: from.activities,
            threads: from.threads,
            member_updates: from.member_updates,
            members: from.members.to_vec(),
            channels: from.channels.iter().map(|of| (of.channel_id, ranges(&of.ranges))).collect(),
            thread_member_lists: from.thread_member_lists.clone(),
        }
    }
}

impl From<SubscriptionSnapshot> for Subscription {
    fn from(from: SubscriptionSnapshot) -> Self {
        let ranges =
            |ranges: Vec<(u32, u32)>| ranges.into_iter().map(|(first, last)| RowRange { first, last }).collect();
        let channel = |(channel_id, of)| ChannelRanges { channel_id, ranges: ranges(of) };
        Self {
            typing: from.typing,
            activities: from.activities,
            threads: from.threads,
            member_updates: from.member_updates,
            members: from.members.into(),
            channels: from.channels.into_iter().map(channel).collect(),
            thread_member_lists: from.thread_member_lists,
        }
    }
}

/// A session without its connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionSnapshot {
    /// Session id, as the client sends it in RESUME.
    pub id: String,
    pub user_id: UserId,
    /// Payloads are ETF; JSON otherwise.
    pub is_etf: bool,
    /// IDENTIFY requested zlib-compressed payloads.
    pub compress_payloads: bool,
    /// Intents of IDENTIFY.
    pub intents: u32,
    /// Shard of IDENTIFY: id and count.
    pub shard: Option<(u32, u32)>,
    /// `large_threshold` of IDENTIFY.
    pub large_threshold: Option<u16>,
    /// Capabilities of a user account's client.
    pub capabilities: u64,
    /// Status that the session sets.
    pub status: Status,
    /// Activities that the session sets.
    pub activities: Vec<Activity>,
    /// Index into `PLATFORMS`.
    pub platform: u8,
    /// Internal id of the token of the last IDENTIFY or RESUME.
    pub token: u64,
    /// `properties.os`.
    pub os: String,
    /// Its guilds, ascending.
    pub guilds: Vec<MembershipSnapshot>,
    /// Marks of the latest events for the account itself that the node has processed, for another node of its cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent_news: Vec<u64>,
    /// Seq of the first entry.
    pub first_seq: u64,
    /// Runs of dispatches: first index in the hand-over's table of dispatches, and length. None: a run of tombstones.
    pub entries: Vec<(Option<u32>, u32)>,
}

pub(crate) const PLATFORMS: [Platform; 5] =
    [Platform::Desktop, Platform::Mobile, Platform::Web, Platform::Embedded, Platform::Vr];

impl SessionSnapshot {
    /// Approximate size in memory without dispatches, for the limit of mirrors.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        let of_subscription = |of: &SubscriptionSnapshot| {
            let ranges: usize = of.channels.iter().map(|(_, ranges)| 48 + 8 * ranges.len()).sum();
            128 + 8 * (of.members.len() + of.thread_member_lists.len()) + ranges
        };
        let guild = |guild: &MembershipSnapshot| {
            size_of::<MembershipSnapshot>() + guild.subscription.as_ref().map_or(0, of_subscription)
        };
        let of_guilds: usize = self.guilds.iter().map(guild).sum();
        size_of::<Self>() + self.id.len() + self.os.len() + ACTIVITY_BYTES * self.activities.len() + of_guilds
    }

    /// Appends the dispatch at this index of the table; none: a tombstone.
    pub fn push(&mut self, place: Option<u32>) {
        if let Some((from, count)) = self.entries.last_mut()
            && match (*from, place) {
                (Some(from), Some(place)) => from + *count == place,
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            }
        {
            *count += 1;
            return;
        }
        self.entries.push((place, 1));
    }

    /// Indices in the table of dispatches, one per seq from `first_seq` on.
    pub fn places(&self) -> impl Iterator<Item = Option<u32>> + '_ {
        self.entries.iter().flat_map(|(from, count)| (0..*count).map(|n| from.map(|from| from.saturating_add(n))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_kept_in_runs() {
        let mut kept = SessionSnapshot {
            id: String::new(),
            user_id: UserId::new(1),
            is_etf: false,
            compress_payloads: false,
            intents: 0,
            shard: None,
            large_threshold: None,
            capabilities: 0,
            status: Status::Online,
            activities: Vec::new(),
            platform: 0,
            token: 0,
            os: String::new(),
            guilds: Vec::new(),
            recent_news: Vec::new(),
            first_seq: 1,
            entries: Vec::new(),
        };
        let places = [Some(4), Some(5), Some(6), None, None, Some(7), Some(9)];
        places.into_iter().for_each(|place| kept.push(place));
        assert_eq!(kept.entries, [(Some(4), 3), (None, 2), (Some(7), 1), (Some(9), 1)]);
        assert!(kept.places().eq(places));
    }
}
