//! Webhooks and bans over REST. Spec  docs/protocol/reference.md §10.4.

use super::UserBody;
use crate::{
    guild_resource::{Ban, Webhook, WebhookSource},
    id::{ApplicationId, ChannelId, GuildId, WebhookId},
};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct WebhookBody<'a> {
    id: WebhookId,
    #[serde(rename = "type")]
    kind: u8,
    guild_id: GuildId,
    channel_id: ChannelId,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<UserBody<'a>>,
    name: &'a str,
    avatar: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    application_id: Option<ApplicationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_guild: Option<SourceGuildBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_channel: Option<SourceChannelBody<'a>>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct SourceGuildBody<'a> {
    id: GuildId,
    name: &'a str,
    icon: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct SourceChannelBody<'a> {
    id: ChannelId,
    name: &'a str,
}

impl<'a> From<&'a WebhookSource> for SourceGuildBody<'a> {
    fn from(source: &'a WebhookSource) -> Self {
        Self { id: source.guild_id, name: &source.guild_name, icon: source.guild_icon.as_deref() }
    }
}

impl<'a> From<&'a WebhookSource> for SourceChannelBody<'a> {
    fn from(source: &'a WebhookSource) -> Self {
        Self { id: source.channel_id, name: &source.channel_name }
    }
}

impl<'a> From<&'a Webhook> for WebhookBody<'a> {
    fn from(webhook: &'a Webhook) -> Self {
        Self {
            id: webhook.id,
            kind: if webhook.source.is_some() { 2 } else { 1 },
            guild_id: webhook.guild_id,
            channel_id: webhook.channel_id,
            user: webhook.user.as_deref().map(|user| UserBody::from(user).for_rest()),
            name: &webhook.name,
            avatar: webhook.avatar.as_deref(),
            token: if webhook.source.is_some() { None } else { Some(&webhook.token) },
            application_id: webhook.application_id,
            source_guild: webhook.source.as_deref().map(Into::into),
            source_channel: webhook.source.as_deref().map(Into::into),
        }
    }
}

impl WebhookBody<'_> {
    /// Removes the creator. For callers that authenticate by the webhook's token only.
    #[must_use]
    pub fn without_user(self) -> Self {
        Self { user: None, ..self }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct BanBody<'a> {
    reason: Option<&'a str>,
    user: UserBody<'a>,
}

impl<'a> From<&'a Ban> for BanBody<'a> {
    fn from(ban: &'a Ban) -> Self {
        Self { reason: ban.reason.as_deref(), user: UserBody::from(&*ban.user).for_rest() }
    }
}
