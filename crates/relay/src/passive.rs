//! Passive updates: what sessions that do not look at a guild are told of it now and then.
//!
//! Owns        `ChangeLog`: which channels and voice states changed at which version, since the oldest version that any
//!             passive session was told of. What changed is made into one update per (version, view, form) and shared.
//! Doors       `note` before each effect is applied; `since` for one update; `forget` after everybody was told.
//! Invariants  U1 applying the updates from version a to b to what was known at a gives what is there at b, for the
//!             channels in view. U2 nothing in an update is about a channel that its reader cannot view. (tests)
//! Limits      one entry per channel, and one per user whose voice state changed since the last round, each with at most
//!             `LEFT_MAX` channels; past it a user who left may be named to somebody who did not know they were there.
//! Spec        docs/protocol.md §8.5.

use crate::{
    meta::GuildMeta,
    picture::{GuildPicture, VoiceEntry},
    protocol::Effect,
};
use guildhall_model::{ChannelId, MessageId, UserId};
use smallvec::SmallVec;
use std::{collections::BTreeMap, sync::Arc};

/// Channels remembered that a user was in since the last round.
const LEFT_MAX: usize = 8;

/// What changed for those who view some of the channels.
#[derive(Clone, Debug, Default)]
pub struct PassiveDelta {
    /// Channels whose newest message changed.
    pub channels: Vec<(ChannelId, MessageId)>,
    /// Who joined, moved or changed.
    pub voice: Vec<VoiceEntry>,
    /// Who left.
    pub left: Vec<UserId>,
}

impl PassiveDelta {
    /// Nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.voice.is_empty() && self.left.is_empty()
    }
}

/// All there is for those who view some of the channels.
#[derive(Clone, Debug, Default)]
pub struct PassiveSnapshot {
    /// Every channel in view with its newest message, if it has any.
    pub channels: Vec<(ChannelId, Option<MessageId>)>,
    /// Everybody in voice there.
    pub voice: Vec<VoiceEntry>,
}

#[derive(Debug, Default)]
struct VoiceChange {
    version: u32,
    /// Channels they were in until a change, with that change's version.
    was_in: SmallVec<[(u32, ChannelId); 1]>,
}

/// What changed at which version.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    /// Counts up with each change, and wraps.
    version: u32,
    channels: BTreeMap<ChannelId, u32>,
    voice: BTreeMap<UserId, VoiceChange>,
}

/// Versions wrap: no two that are compared are half of all of them apart, since everybody is told within a round.
fn is_after(version: u32, than: u32) -> bool {
    (version.wrapping_sub(than) as i32) > 0
}

impl ChangeLog {
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Nothing changed since the last round.
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.voice.is_empty()
    }

    /// An effect is about to be applied to `picture`.
    pub fn note(&mut self, effect: &Effect, picture: &GuildPicture) {
        match effect {
            Effect::Message(channel_id, _) => {
                self.version = self.version.wrapping_add(1);
                self.channels.insert(*channel_id, self.version);
            }
            Effect::Voice(user_id, _) => {
                self.version = self.version.wrapping_add(1);
                let change = self.voice.entry(*user_id).or_default();
                change.version = self.version;
                let before = picture.voice.get(*user_id).and_then(|entry| entry.state.channel_id);
                if let Some(before) = before
                    && change.was_in.len() < LEFT_MAX
                {
                    change.was_in.push((self.version, before));
                }
            }
            Effect::None | Effect::Meta(_) | Effect::Member(..) | Effect::Deleted => {}
        }
    }

    /// What changed since `from`, for who views the channels that `holds` says.
    pub fn since(&self, from: u32, picture: &GuildPicture, holds: impl Fn(ChannelId) -> bool) -> PassiveDelta {
        let mut delta = PassiveDelta::default();
        for (channel_id, version) in &self.channels {
            if is_after(*version, from)
                && holds(*channel_id)
                && let Some(message_id) = picture.last_message_ids.get(channel_id)
            {
                delta.channels.push((*channel_id, *message_id));
            }
        }
        for (user_id, change) in &self.voice {
            if !is_after(change.version, from) {
                continue;
            }
            match picture.voice.get(*user_id) {
                Some(entry) if entry.state.channel_id.is_some_and(&holds) => delta.voice.push(entry.clone()),
                _ => {
                    let was_seen =
                        change.was_in.iter().any(|(version, channel)| is_after(*version, from) && holds(*channel));
                    if was_seen {
                        delta.left.push(*user_id);
                    }
                }
            }
        }
        delta
    }

    /// Everybody has been told: what is in here is of no use any more.
    pub fn forget(&mut self) {
        self.channels.clear();
        self.voice.clear();
    }
}

/// All there is, for who views the channels that `holds` says.
pub(crate) fn snapshot(picture: &GuildPicture, holds: impl Fn(ChannelId) -> bool) -> PassiveSnapshot {
    let meta: &GuildMeta = &picture.meta;
    let in_view = |entry: &&VoiceEntry| entry.state.channel_id.is_some_and(&holds);
    PassiveSnapshot {
        channels: (meta.channels.values())
            .filter(|channel| holds(channel.id))
            .map(|channel| (channel.id, picture.last_message_ids.get(&channel.id).copied().or(channel.last_message_id)))
            .collect(),
        voice: picture.voice.iter().map(|(_, entry)| entry).filter(in_view).cloned().collect(),
    }
}

/// The channels that an update is about: whoever may not view one of them any more does not get it at replay.
pub(crate) fn channels_of(channels: impl Iterator<Item = ChannelId>, voice: &[VoiceEntry]) -> Arc<[ChannelId]> {
    let mut ids: Vec<ChannelId> = channels.chain(voice.iter().filter_map(|entry| entry.state.channel_id)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into()
}
