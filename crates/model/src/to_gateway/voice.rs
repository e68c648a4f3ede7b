//! Voice state update (op 4). Spec  docs/protocol/reference.md §9.

use super::{PayloadError, id_of};
use crate::id::{ChannelId, GuildId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Op 4: a session joins, changes or leaves a voice channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoiceStateUpdate {
    /// None for calls in direct messages.
    pub guild_id: Option<GuildId>,
    /// None to leave.
    pub channel_id: Option<ChannelId>,
    /// Muted by the account itself.
    pub self_mute: bool,
    /// Deafened by the account itself.
    pub self_deaf: bool,
    /// The camera is on.
    pub self_video: bool,
}

impl VoiceStateUpdate {
    /// Parses the payload.
    ///
    /// # Errors
    /// When it is not an object, or an id is neither null nor a snowflake.
    pub fn parse(d: &Value) -> Result<Self, PayloadError> {
        let error = |problem| PayloadError { opcode: "VOICE_STATE_UPDATE", problem };
        let d = d.as_object().ok_or(error("expected an object"))?;
        fn id<T>(value: Option<&Value>) -> Result<Option<crate::id::Id<T>>, ()> {
            value.filter(|v| !v.is_null()).map(|v| id_of(v).ok_or(())).transpose()
        }
        let flag = |key: &str| d.get(key).and_then(Value::as_bool).unwrap_or(false);
        Ok(Self {
            guild_id: id(d.get("guild_id")).map_err(|()| error("`guild_id` must be a snowflake or null"))?,
            channel_id: id(d.get("channel_id")).map_err(|()| error("`channel_id` must be a snowflake or null"))?,
            self_mute: flag("self_mute"),
            self_deaf: flag("self_deaf"),
            self_video: flag("self_video"),
        })
    }
}
