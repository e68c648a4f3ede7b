//! Voice states: who is connected to which voice channel, without the media.
//!
//! Spec  docs/protocol.md §6.8, §9.

use crate::id::{ChannelId, UserId};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};

/// One account's voice state in one guild. Never stored: it ends with the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoiceState {
    /// Where; none once disconnected.
    pub channel_id: Option<ChannelId>,
    /// Who.
    pub user_id: UserId,
    /// The gateway session that is in voice.
    pub session_id: String,
    /// Server-deafened.
    pub deaf: bool,
    /// Server-muted.
    pub mute: bool,
    /// Deafened by themselves.
    pub self_deaf: bool,
    /// Muted by themselves.
    pub self_mute: bool,
    /// Camera on.
    pub self_video: bool,
    /// In a stage's audience.
    pub suppress: bool,
    /// Asked to speak on a stage.
    pub request_to_speak_timestamp: Option<Timestamp>,
}

impl VoiceState {
    /// Of somebody who is connected to no channel, and whom nobody muted.
    #[must_use]
    pub fn new(user_id: UserId) -> Self {
        Self {
            channel_id: None,
            user_id,
            session_id: String::new(),
            deaf: false,
            mute: false,
            self_deaf: false,
            self_mute: false,
            self_video: false,
            suppress: false,
            request_to_speak_timestamp: None,
        }
    }
}
