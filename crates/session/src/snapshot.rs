//! Kept: a session as it goes from one process to the next, without anything that belongs to either.
//!
//! Owns        `SessionSnapshot`, and `KeptDispatch` for what it may still have to be sent; both are plain data that serialise.
//! Doors       `Session::keep` on the way out, `Session::returning` on the way in; `Dispatch::keep` and `Dispatch::kept`.
//! Invariants  X1 a session that returns has the seq, and sends under each seq the bytes, that it had. X2 who may see a dispatch is
//!             kept with it, so that permissions apply once more when it is sent. (tests `partition/tests/it/handover.rs`)
//! Not here    requests for members under way, which clients ask again; op 3's and op 8's limits, which begin anew; READY that was
//!             not said: such a session is not kept.     Spec  docs/adr/0026.

use crate::{dispatch::Dispatch, seen_by::SeenBy};
use guildhall_codec::Encoding;
use guildhall_model::{
    Activity, ChannelId, GuildId, Platform, Status, UserId,
    to_gateway::{ChannelRanges, RowRange, Subscription},
};
use guildhall_relay::Redaction;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// A dispatch in one form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptDispatch {
    /// The value of `t`.
    pub name: String,
    /// ETF; JSON otherwise.
    pub is_etf: bool,
    /// The value of `d`, encoded.
    #[serde(with = "as_text")]
    pub body: Vec<u8>,
    /// Who may see it; none for what was made for one session, and is for it whatever it may view.
    pub seen_by: Option<SeenBy>,
}

/// Bytes within JSON: text as it is, anything else in hexadecimal digits.
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

impl KeptDispatch {
    /// Bytes it counts for.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        self.body.len() + self.name.len() + 64
    }

    fn encoding(&self) -> Encoding {
        if self.is_etf { Encoding::Etf } else { Encoding::Json }
    }
}

impl Dispatch {
    /// One form of it, to be taken up by another process. A frame that can be made again is dropped. With `hides` the whole form
    /// of a channel is for its viewers only.
    #[must_use]
    pub fn keep(&self, encoding: Encoding, redaction: Redaction, hides: bool) -> KeptDispatch {
        let frame = self.frame(encoding, redaction);
        let (name, body) = (String::from_utf8_lossy(frame.name()).into_owned(), frame.body().to_vec());
        drop(frame);
        self.was_written(encoding);
        let of_own = |about| SeenBy::of_own(about, self.told_of_direct());
        let hides = hides && redaction == Redaction::NONE;
        let seen_by = self.event().map(|event| SeenBy::of(event, hides)).or_else(|| self.about().map(of_own));
        KeptDispatch { name, is_etf: encoding == Encoding::Etf, body, seen_by }
    }

    /// As it was kept. None if its name is none.
    #[must_use]
    pub fn kept(kept: &KeptDispatch) -> Option<Rc<Self>> {
        let seen_by = kept.seen_by.clone().map_or((None, None), SeenBy::restored);
        Self::restored(seen_by, kept.encoding(), &kept.name, &kept.body)
    }
}

/// One guild of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptGuild {
    /// Which.
    pub id: GuildId,
    /// Its client has been told of it, and of everything since.
    pub is_inside: bool,
    /// What a user account looks at there.
    pub subscription: Option<KeptSubscription>,
}

/// As `Subscription`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptSubscription {
    typing: bool,
    activities: bool,
    threads: bool,
    member_updates: bool,
    members: Vec<UserId>,
    channels: Vec<(ChannelId, Vec<(u32, u32)>)>,
    thread_member_lists: Vec<ChannelId>,
}

impl From<&Subscription> for KeptSubscription {
    fn from(from: &Subscription) -> Self {
        let ranges = |ranges: &[RowRange]| ranges.iter().map(|range| (range.first, range.last)).collect();
        Self {
            typing: from.typing,
            activities: from.activities,
            threads: from.threads,
            member_updates: from.member_updates,
            members: from.members.clone(),
            channels: from.channels.iter().map(|of| (of.channel_id, ranges(&of.ranges))).collect(),
            thread_member_lists: from.thread_member_lists.clone(),
        }
    }
}

impl From<KeptSubscription> for Subscription {
    fn from(from: KeptSubscription) -> Self {
        let ranges =
            |ranges: Vec<(u32, u32)>| ranges.into_iter().map(|(first, last)| RowRange { first, last }).collect();
        let channel = |(channel_id, of)| ChannelRanges { channel_id, ranges: ranges(of) };
        Self {
            typing: from.typing,
            activities: from.activities,
            threads: from.threads,
            member_updates: from.member_updates,
            members: from.members,
            channels: from.channels.into_iter().map(channel).collect(),
            thread_member_lists: from.thread_member_lists,
        }
    }
}

/// A session without its connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionSnapshot {
    /// How its client knows it.
    pub id: String,
    /// Whose.
    pub user_id: UserId,
    /// ETF; JSON otherwise.
    pub is_etf: bool,
    /// Payload compression was asked for.
    pub compress_payloads: bool,
    /// What it asked for.
    pub intents: u32,
    /// Its slice of the account's guilds.
    pub shard: Option<(u32, u32)>,
    /// As it was asked for.
    pub large_threshold: Option<u16>,
    /// What its client can do.
    pub capabilities: u64,
    /// What it shows.
    pub status: Status,
    /// What it does.
    pub activities: Vec<Activity>,
    /// Where it runs, by number.
    pub platform: u8,
    /// The token it came with.
    pub token: u64,
    /// `properties.os`.
    pub os: String,
    /// Ascending.
    pub guilds: Vec<KeptGuild>,
    /// Seq of the first entry.
    pub first_seq: u64,
    /// Runs of places in the table of dispatches that it comes with; none: withheld ones, so many.
    pub entries: Vec<(Option<u32>, u32)>,
}

pub(crate) const PLATFORMS: [Platform; 5] =
    [Platform::Desktop, Platform::Mobile, Platform::Web, Platform::Embedded, Platform::Vr];

impl SessionSnapshot {
    /// Appends the dispatch at a place of the table.
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

    /// The places, one per seq from `first_seq` on.
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
            first_seq: 1,
            entries: Vec::new(),
        };
        let places = [Some(4), Some(5), Some(6), None, None, Some(7), Some(9)];
        places.into_iter().for_each(|place| kept.push(place));
        assert_eq!(kept.entries, [(Some(4), 3), (None, 2), (Some(7), 1), (Some(9), 1)]);
        assert!(kept.places().eq(places));
    }
}
