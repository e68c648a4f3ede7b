//! Voice states: which account is connected to which voice channel. Media is out of scope.
//!
//! Spec  docs/protocol/reference.md §6.8, §9.

use crate::id::{ChannelId, UserId};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};

/// An account's voice state in one guild. Never stored: it ends with the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoiceState {
    /// Connected channel; none after a disconnect.
    pub channel_id: Option<ChannelId>,
    pub user_id: UserId,
    /// Gateway session that is connected.
    pub session_id: String,
    /// Server-deafened.
    pub deaf: bool,
    /// Server-muted.
    pub mute: bool,
    /// Deafened by the account itself.
    pub self_deaf: bool,
    /// Muted by the account itself.
    pub self_mute: bool,
    /// The camera is on.
    pub self_video: bool,
    /// In the audience of a stage.
    pub suppress: bool,
    /// Time of the request to speak on a stage.
    pub request_to_speak_timestamp: Option<Timestamp>,
}

impl VoiceState {
    /// State of an account that is not connected and not server-muted.
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
