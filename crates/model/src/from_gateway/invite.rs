//! Invites: INVITE_CREATE and REST. Spec  docs/protocol/reference.md §7.1, §10.3.

use super::UserBody;
use crate::{
    channel::{Channel, ChannelType},
    community::{WelcomeChannel, WelcomeScreen},
    guild::Guild,
    id::{ChannelId, EmojiId, GuildId},
    invite::{Invite, InviteCode},
};
use guildhall_stdx::Timestamp;
use serde::Serialize;

/// Fields of both forms.
#[derive(Clone, Debug, Serialize)]
pub struct InviteEventBody<'a> {
    code: InviteCode,
    #[serde(rename = "type")]
    kind: u8,
    channel_id: ChannelId,
    guild_id: GuildId,
    #[serde(skip_serializing_if = "Option::is_none")]
    inviter: Option<UserBody<'a>>,
    created_at: Timestamp,
    max_age: u32,
    max_uses: u32,
    temporary: bool,
    uses: u32,
    expires_at: Option<Timestamp>,
}

impl<'a> From<&'a Invite> for InviteEventBody<'a> {
    fn from(invite: &'a Invite) -> Self {
        Self {
            code: invite.code,
            kind: 0,
            channel_id: invite.channel_id,
            guild_id: invite.guild_id,
            inviter: invite.inviter.as_deref().map(Into::into),
            created_at: invite.created_at,
            max_age: invite.max_age_s,
            max_uses: invite.max_uses,
            temporary: invite.temporary,
            uses: invite.uses,
            expires_at: invite.expires_at(),
        }
    }
}

/// Guild fields visible to anyone who has an invite code.
#[derive(Clone, Debug, Serialize)]
struct InviteGuildBody<'a> {
    id: GuildId,
    name: &'a str,
    icon: Option<&'a str>,
    splash: Option<&'a str>,
    banner: Option<&'a str>,
    description: Option<&'a str>,
    features: &'a [String],
    verification_level: u8,
    vanity_url_code: Option<&'a str>,
    nsfw_level: u8,
    nsfw: bool,
    premium_subscription_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    welcome_screen: Option<WelcomeScreenBody<'a>>,
}

/// Welcome screen of a guild.
#[derive(Clone, Debug, Serialize)]
pub struct WelcomeScreenBody<'a> {
    description: Option<&'a str>,
    welcome_channels: Vec<WelcomeChannelBody<'a>>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct WelcomeChannelBody<'a> {
    channel_id: ChannelId,
    description: &'a str,
    emoji_id: Option<EmojiId>,
    emoji_name: Option<&'a str>,
}

impl<'a> From<&'a WelcomeScreen> for WelcomeScreenBody<'a> {
    fn from(screen: &'a WelcomeScreen) -> Self {
        let channel = |channel: &'a WelcomeChannel| WelcomeChannelBody {
            channel_id: channel.channel_id,
            description: &channel.description,
            emoji_id: channel.emoji.as_ref().and_then(|emoji| emoji.id),
            emoji_name: channel.emoji.as_ref().map(|emoji| &*emoji.name),
        };
        Self {
            description: screen.description.as_deref(),
            welcome_channels: screen.channels.iter().map(channel).collect(),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct InviteChannelBody<'a> {
    id: ChannelId,
    name: &'a str,
    #[serde(rename = "type")]
    kind: ChannelType,
}

/// An invite over REST. Usage counts are visible only to members who may manage invites.
#[derive(Clone, Debug, Serialize)]
pub struct InviteBody<'a> {
    #[serde(flatten)]
    invite: Option<InviteEventBody<'a>>,
    #[serde(flatten)]
    known: Option<KnownInvite<'a>>,
    guild: InviteGuildBody<'a>,
    channel: Option<InviteChannelBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approximate_member_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approximate_presence_count: Option<u64>,
}

/// Fields visible to anyone who has the code.
#[derive(Clone, Debug, Serialize)]
struct KnownInvite<'a> {
    code: String,
    #[serde(rename = "type")]
    kind: u8,
    guild_id: GuildId,
    #[serde(skip_serializing_if = "Option::is_none")]
    inviter: Option<UserBody<'a>>,
    expires_at: Option<Timestamp>,
}

impl<'a> InviteBody<'a> {
    /// Body for anyone who has the code.
    #[must_use]
    pub fn known(invite: &'a Invite, guild: &'a Guild, channel: Option<&'a Channel>) -> Self {
        let known = KnownInvite {
            code: invite.code.to_string(),
            kind: 0,
            guild_id: invite.guild_id,
            inviter: invite.inviter.as_deref().map(|user| UserBody::from(user).for_rest()),
            expires_at: invite.expires_at(),
        };
        Self { invite: None, known: Some(known), ..Self::managed(invite, guild, channel) }
    }

    /// Body for members who may manage invites.
    #[must_use]
    pub fn managed(invite: &'a Invite, guild: &'a Guild, channel: Option<&'a Channel>) -> Self {
        let fields = InviteEventBody::from(invite);
        Self {
            invite: Some(InviteEventBody { inviter: fields.inviter.map(UserBody::for_rest), ..fields }),
            known: None,
            guild: InviteGuildBody {
                id: guild.id,
                name: &guild.name,
                icon: guild.icon.as_deref(),
                splash: guild.splash.as_deref(),
                banner: guild.banner.as_deref(),
                description: guild.description.as_deref(),
                features: &guild.features,
                verification_level: guild.verification_level,
                vanity_url_code: guild.vanity_url_code.as_deref(),
                nsfw_level: 0,
                nsfw: false,
                premium_subscription_count: 0,
                welcome_screen: None,
            },
            channel: channel.map(|channel| InviteChannelBody {
                id: channel.id,
                name: &channel.name,
                kind: channel.kind,
            }),
            approximate_member_count: None,
            approximate_presence_count: None,
        }
    }

    /// The same with a code of the guild's own choice.
    #[must_use]
    pub fn with_vanity_code(mut self, code: &str) -> Self {
        if let Some(known) = &mut self.known {
            code.clone_into(&mut known.code);
        }
        self
    }

    /// Adds the guild's welcome screen.
    #[must_use]
    pub fn with_welcome_screen(mut self, screen: Option<&'a WelcomeScreen>) -> Self {
        self.guild.welcome_screen = screen.map(Into::into);
        self
    }

    /// Adds the guild's member and presence counts.
    #[must_use]
    pub fn with_counts(mut self, members: u64, presences: u64) -> Self {
        (self.approximate_member_count, self.approximate_presence_count) = (Some(members), Some(presences));
        self
    }
}
