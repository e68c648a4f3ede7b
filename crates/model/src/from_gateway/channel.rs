//! Channels. Spec  docs/protocol.md §6.4, §6.5.

use crate::{
    channel::{Channel, ChannelType, Overwrite, OverwriteKind},
    id::{ChannelId, GuildId, MessageId},
};
use guildhall_stdx::Timestamp;
use serde::{Serialize, Serializer, ser::SerializeStruct};

/// A permission overwrite.
#[derive(Clone, Copy, Debug)]
pub struct OverwriteBody<'a>(pub &'a Overwrite);

impl Serialize for OverwriteBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_struct("Overwrite", 4)?;
        match self.0.target {
            OverwriteKind::Role(id) => {
                body.serialize_field("id", &id)?;
                body.serialize_field("type", &0u8)?;
            }
            OverwriteKind::Member(id) => {
                body.serialize_field("id", &id)?;
                body.serialize_field("type", &1u8)?;
            }
        }
        body.serialize_field("allow", &self.0.allow)?;
        body.serialize_field("deny", &self.0.deny)?;
        body.end()
    }
}

/// A guild channel.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelBody<'a> {
    id: ChannelId,
    guild_id: GuildId,
    #[serde(rename = "type")]
    kind: ChannelType,
    name: &'a str,
    position: i32,
    permission_overwrites: Vec<OverwriteBody<'a>>,
    parent_id: Option<ChannelId>,
    topic: Option<&'a str>,
    nsfw: bool,
    flags: u32,
    #[serde(flatten)]
    text: Option<TextFields>,
    #[serde(flatten)]
    voice: Option<VoiceFields>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct TextFields {
    last_message_id: Option<MessageId>,
    last_pin_timestamp: Option<Timestamp>,
    rate_limit_per_user: u16,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct VoiceFields {
    bitrate: u32,
    user_limit: u16,
    rtc_region: (),
}

impl<'a> From<&'a Channel> for ChannelBody<'a> {
    fn from(channel: &'a Channel) -> Self {
        Self {
            id: channel.id,
            guild_id: channel.guild_id,
            kind: channel.kind,
            name: &channel.name,
            position: channel.position,
            permission_overwrites: channel.overwrites.iter().map(OverwriteBody).collect(),
            parent_id: channel.parent_id,
            topic: channel.topic.as_deref(),
            nsfw: channel.nsfw,
            flags: 0,
            text: channel.kind.holds_messages().then_some(TextFields {
                last_message_id: channel.last_message_id,
                last_pin_timestamp: channel.last_pin_timestamp,
                rate_limit_per_user: channel.rate_limit_per_user,
            }),
            voice: channel.kind.is_voice().then_some(VoiceFields {
                bitrate: channel.bitrate,
                user_limit: channel.user_limit,
                rtc_region: (),
            }),
        }
    }
}
