//! Notices: small events about what a guild keeps: bans, invites, webhooks, pins, expressions, messages that are gone.
//!
//! Owns        `Notice`, one variant per shape.
//! Doors       `Payload::render`.
//! Not here    who gets them: the guild names the gate.     Spec  docs/protocol.md §7.1, §7.2, §7.4.

use crate::payload::Put;
use guildhall_model::{
    ChannelId, GuildId, Invite, InviteCode, MessageId, User,
    from_gateway::{InviteEventBody, UserBody},
};
use guildhall_stdx::Timestamp;
use serde::Serialize;
use std::sync::Arc;

/// A small event.
#[derive(Clone, Debug)]
pub enum Notice {
    /// GUILD_BAN_ADD, GUILD_BAN_REMOVE.
    Ban {
        /// Who.
        user: Arc<User>,
        /// On add: how far back what they said is deleted, seconds.
        delete_message_s: Option<u32>,
    },
    /// INVITE_CREATE.
    Invite(Arc<Invite>),
    /// INVITE_DELETE.
    InviteGone {
        /// Which.
        code: InviteCode,
        /// Where to.
        channel_id: ChannelId,
    },
    /// WEBHOOKS_UPDATE.
    Webhooks(ChannelId),
    /// CHANNEL_PINS_UPDATE.
    Pins {
        /// Where.
        channel_id: ChannelId,
        /// The newest pin there is.
        last_pin_timestamp: Option<Timestamp>,
    },
    /// MESSAGE_DELETE_BULK.
    MessagesGone {
        /// Where.
        channel_id: ChannelId,
        /// Which.
        ids: Arc<[MessageId]>,
    },
}

impl Notice {
    pub(crate) fn render(&self, guild_id: GuildId, put: Put<'_>) {
        match self {
            Self::Ban { user, delete_message_s } => {
                put.body(&BanBody { guild_id, user: (&**user).into(), delete_message_secs: *delete_message_s });
            }
            Self::Invite(invite) => put.body(&InviteEventBody::from(&**invite)),
            Self::InviteGone { code, channel_id } => {
                put.body(&InviteGoneBody { code: *code, channel_id: *channel_id, guild_id });
            }
            Self::Webhooks(channel_id) => put.body(&WebhooksBody { guild_id, channel_id: *channel_id }),
            Self::Pins { channel_id, last_pin_timestamp } => {
                put.body(&PinsBody { guild_id, channel_id: *channel_id, last_pin_timestamp: *last_pin_timestamp });
            }
            Self::MessagesGone { channel_id, ids } => {
                put.body(&MessagesGoneBody { ids, channel_id: *channel_id, guild_id });
            }
        }
    }
}

#[derive(Serialize)]
struct BanBody<'a> {
    guild_id: GuildId,
    user: UserBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delete_message_secs: Option<u32>,
}

#[derive(Serialize)]
struct InviteGoneBody {
    code: InviteCode,
    channel_id: ChannelId,
    guild_id: GuildId,
}

#[derive(Serialize)]
struct WebhooksBody {
    guild_id: GuildId,
    channel_id: ChannelId,
}

#[derive(Serialize)]
struct PinsBody {
    guild_id: GuildId,
    channel_id: ChannelId,
    last_pin_timestamp: Option<Timestamp>,
}

#[derive(Serialize)]
struct MessagesGoneBody<'a> {
    ids: &'a [MessageId],
    channel_id: ChannelId,
    guild_id: GuildId,
}
