//! Payloads of passive updates: summaries for sessions that are passive in a guild.
//!
//! Owns        the three forms: `PassiveDelta`, `PassiveSnapshot`, `Unreads`.
//! Not here    when and from what they are built: `guildhall-relay`.     Spec  docs/protocol/reference.md §8.5.

use crate::replica::VoiceEntry;
use guildhall_model::{ChannelId, MessageId, UserId};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// Changes for sessions with a given view.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PassiveDelta {
    /// Channels with a new newest message or pin, each with its newest message.
    pub channels: Vec<(ChannelId, MessageId)>,
    /// Time of the latest pin, for those of these channels that have pins.
    pub pins: Vec<(ChannelId, Timestamp)>,
    /// New or changed voice states.
    pub voice: Vec<VoiceEntry>,
    /// Users who left voice.
    pub left: Vec<UserId>,
}

impl PassiveDelta {
    /// Nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.voice.is_empty() && self.left.is_empty()
    }
}

/// Channels with a new newest message or pin, for sessions that receive nothing else.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Unreads {
    /// Each channel with its newest message.
    pub channels: Vec<(ChannelId, MessageId)>,
    /// Time of the latest pin, for those of these channels that have pins.
    pub pins: Vec<(ChannelId, Timestamp)>,
}

impl Deref for Unreads {
    type Target = [(ChannelId, MessageId)];
    fn deref(&self) -> &Self::Target {
        &self.channels
    }
}

/// Complete state for sessions with a given view.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PassiveSnapshot {
    /// Every visible channel with its newest message, if any.
    pub channels: Vec<(ChannelId, Option<MessageId>)>,
    /// Time of the latest pin, for those of these channels that have pins.
    pub pins: Vec<(ChannelId, Timestamp)>,
    /// Voice states of all users in these channels.
    pub voice: Vec<VoiceEntry>,
}
