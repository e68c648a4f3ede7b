//! Voice states. Spec  docs/protocol/reference.md §6.8.

use super::member::MemberBody;
use crate::{
    id::{ChannelId, GuildId, UserId},
    member::Member,
    voice::VoiceState,
};
use guildhall_stdx::Timestamp;
use serde::Serialize;

/// A voice state. Only VOICE_STATE_UPDATE has `guild_id` and `member`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct VoiceStateBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    guild_id: Option<GuildId>,
    channel_id: Option<ChannelId>,
    user_id: UserId,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<MemberBody<'a>>,
    session_id: &'a str,
    deaf: bool,
    mute: bool,
    self_deaf: bool,
    self_mute: bool,
    self_video: bool,
    self_stream: bool,
    suppress: bool,
    request_to_speak_timestamp: Option<Timestamp>,
}

impl<'a> VoiceStateBody<'a> {
    /// Body inside GUILD_CREATE.
    #[must_use]
    pub fn within_guild(state: &'a VoiceState) -> Self {
        Self {
            guild_id: None,
            channel_id: state.channel_id,
            user_id: state.user_id,
            member: None,
            session_id: &state.session_id,
            deaf: state.deaf,
            mute: state.mute,
            self_deaf: state.self_deaf,
            self_mute: state.self_mute,
            self_video: state.self_video,
            self_stream: false,
            suppress: state.suppress,
            request_to_speak_timestamp: state.request_to_speak_timestamp,
        }
    }

    /// Adds the keys that only answers of REST have.
    #[must_use]
    pub fn for_rest(self) -> Self {
        Self { member: self.member.map(MemberBody::for_rest), ..self }
    }

    /// Body of VOICE_STATE_UPDATE.
    #[must_use]
    pub fn event(guild_id: GuildId, state: &'a VoiceState, member: Option<&'a Member>) -> Self {
        Self { guild_id: Some(guild_id), member: member.map(Into::into), ..Self::within_guild(state) }
    }
}
