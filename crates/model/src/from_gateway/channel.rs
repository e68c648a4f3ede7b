//! Channels. Spec  docs/protocol/reference.md §6.4, §6.5.

use crate::{
    channel::{Channel, ChannelType, Overwrite, OverwriteKind},
    forum::{DefaultReaction, ForumFields, ForumTag},
    id::{ChannelId, GuildId, MessageId},
    permissions::Permissions,
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

#[derive(Clone, Copy, Debug)]
enum Overwrites<'a> {
    /// The channel's own overwrites.
    Stored(&'a [Overwrite]),
    /// A single overwrite that denies VIEW_CHANNEL to everyone.
    Hidden(GuildId),
}

impl Serialize for Overwrites<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Stored(overwrites) => serializer.collect_seq(overwrites.iter().map(OverwriteBody)),
            Self::Hidden(guild_id) => {
                let everyone = OverwriteKind::Role(guild_id.cast());
                let deny = Permissions::VIEW_CHANNEL;
                let overwrite = Overwrite { target: everyone, allow: Permissions(0), deny };
                [OverwriteBody(&overwrite)].serialize(serializer)
            }
        }
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
    permission_overwrites: Overwrites<'a>,
    parent_id: Option<ChannelId>,
    topic: Option<&'a str>,
    nsfw: bool,
    flags: u32,
    #[serde(flatten)]
    text: Option<TextFields>,
    #[serde(flatten)]
    voice: Option<VoiceFields>,
    #[serde(flatten)]
    posts: Option<PostFields<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_thread_rate_limit_per_user: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_auto_archive_duration: Option<u16>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct PostFields<'a> {
    available_tags: &'a [ForumTag],
    default_reaction_emoji: Option<&'a DefaultReaction>,
    default_sort_order: Option<u8>,
    default_forum_layout: u8,
}

impl<'a> PostFields<'a> {
    fn of(fields: Option<&'a ForumFields>) -> Self {
        fields.map_or(Self::default(), |fields| Self {
            available_tags: &fields.available_tags,
            default_reaction_emoji: fields.default_reaction_emoji.as_ref(),
            default_sort_order: fields.default_sort_order,
            default_forum_layout: fields.default_forum_layout,
        })
    }
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
            permission_overwrites: Overwrites::Stored(&channel.overwrites),
            parent_id: channel.parent_id,
            topic: channel.topic.as_deref(),
            nsfw: channel.nsfw,
            flags: channel.forum.as_ref().map_or(0, |forum| forum.flags),
            text: (channel.kind.holds_messages() || channel.kind.holds_posts()).then_some(TextFields {
                last_message_id: channel.last_message_id,
                last_pin_timestamp: channel.last_pin_timestamp,
                rate_limit_per_user: channel.rate_limit_per_user,
            }),
            voice: channel.kind.is_voice().then_some(VoiceFields {
                bitrate: channel.bitrate,
                user_limit: channel.user_limit,
                rtc_region: (),
            }),
            posts: channel.kind.holds_posts().then(|| PostFields::of(channel.forum.as_deref())),
            default_thread_rate_limit_per_user: channel.default_thread_rate_limit_per_user,
            default_auto_archive_duration: channel.default_auto_archive_duration,
        }
    }
}

/// Name and topic of an obfuscated channel.
const HIDDEN: &str = "___hidden___";
/// Flag of an obfuscated channel. Clients must check it, because a real channel can have the name `___hidden___`.
const OBFUSCATED: u32 = 1 << 17;

impl<'a> ChannelBody<'a> {
    /// Obfuscated form of a channel, for clients with CHANNEL_OBFUSCATION whose account cannot view it
    /// (reference.md §8.1).
    /// Id, type, position and category are true, as upstream does it: the client's order and references stay intact.
    /// Every other field would leak something. Overwrites name roles and users with access; the newest message and pin
    /// reveal when someone posted; slow mode, age limit, bit rate, user limit and forum tags hint at the
    /// channel's purpose.
    /// One overwrite that denies VIEW_CHANNEL to everyone replaces the real ones, so that a client which computes
    /// permissions gets the right result. Nothing depends on the recipient: one body serves all of them.
    #[must_use]
    pub fn obfuscated(channel: &'a Channel) -> Self {
        let blank = Self::from(channel);
        Self {
            name: HIDDEN,
            topic: Some(HIDDEN),
            permission_overwrites: Overwrites::Hidden(channel.guild_id),
            nsfw: false,
            flags: OBFUSCATED,
            text: blank.text.map(|_| TextFields {
                last_message_id: None,
                last_pin_timestamp: None,
                rate_limit_per_user: 0,
            }),
            voice: blank.voice.map(|_| VoiceFields { bitrate: 64_000, user_limit: 0, rtc_region: () }),
            posts: blank.posts.map(|_| PostFields::default()),
            default_thread_rate_limit_per_user: None,
            default_auto_archive_duration: None,
            ..blank
        }
    }

    /// Without the newest message and pin.
    #[must_use]
    pub fn without_messages(mut self) -> Self {
        if let Some(text) = &mut self.text {
            (text.last_message_id, text.last_pin_timestamp) = (None, None);
        }
        self
    }

    /// Sets a newer newest message than the channel object has. Obfuscated channels and channels without
    /// messages stay unchanged.
    #[must_use]
    pub fn with_last_message(mut self, last_message_id: MessageId) -> Self {
        if let Some(text) = &mut self.text
            && self.flags & OBFUSCATED == 0
        {
            text.last_message_id = Some(last_message_id);
        }
        self
    }
}
