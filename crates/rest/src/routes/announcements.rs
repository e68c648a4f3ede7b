//! Announcements: channels that follow one, and messages that are published to them.
//!
//! Invariants  N1 the caller can view the followed channel, and manages webhooks of the one that follows.
//! Limits      `guildhall_guild::GuildLimits::followers_per_channel_max` copies of a message, one after the other;
//!             `CROSSPOSTS_IN_FLIGHT_MAX` messages at once, past it a message is not published (503).
//!             Spec  docs/protocol/choices.md "Forwards and announcements".

use super::{Call, render};
use crate::{
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form,
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Actor, ChannelReply, Forward, NewFollow, Refusal, WebhookAccess, request};
use guildhall_model::{ChannelId, ChannelType, Follower, GuildId, Message, WebhookId, WebhookSource};
use serde_json::json;
use std::sync::Arc;

/// Messages that are delivered to followers at once.
pub(crate) const CROSSPOSTS_IN_FLIGHT_MAX: usize = 16;

pub(super) async fn follow(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let channel_id: ChannelId = params.id("channel_id")?;
    let permit = ReadPermit::channel(&api, &caller, channel_id).await?;
    let target: ChannelId =
        input.read(&api, permit, BodyLimits::FORM, |form| form.required("webhook_channel_id", form::id)).await?;
    let followed = api.request_in_channel(&caller, channel_id, request::ReadChannel(channel_id)).await?;
    let ChannelReply::Channel(channel) = followed else { return Err(Refusal::WrongChannelType.into()) };
    if channel.kind != ChannelType::Announcement {
        return Err(Refusal::WrongChannelType.into());
    }
    let guild_id = api.channel_guild(channel_id).await?;
    let guild = api.request(&caller, guild_id, request::ReadGuild).await?;
    let source = WebhookSource {
        guild_id,
        guild_name: guild.structure.guild.name.clone(),
        guild_icon: guild.structure.guild.icon.clone(),
        channel_id,
        channel_name: channel.name.clone(),
    };
    let webhook_id: WebhookId = api.node.next_id().await?;
    let new = NewFollow { id: webhook_id, source: Box::new(source) };
    let webhook = api.request_in_channel(&caller, target, request::Follow(target, Box::new(new))).await?;
    let follower = Follower { channel_id, webhook_id, guild_id: webhook.guild_id };
    if let Err(refused) = api.request_in_channel(&caller, channel_id, request::AddFollower(channel_id, follower)).await
    {
        // Without a follower the webhook would never post.
        let remove = request::DeleteWebhook(webhook_id, WebhookAccess::Actor(Actor::System));
        api.node.command(webhook.guild_id, Actor::System, remove).await?;
        return Err(refused);
    }
    Ok(Json(json!({"channel_id": channel_id, "webhook_id": webhook_id})).into_response())
}

pub(super) async fn crosspost(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let (channel_id, message_id) = (params.id("channel_id")?, params.id("message_id")?);
    let permit = Arc::clone(&api.crossposts).try_acquire_owned().map_err(|_| ApiError::Overloaded)?;
    let reply = api.request_in_channel(&caller, channel_id, request::Crosspost(channel_id, message_id)).await?;
    let guild_id = api.channel_guild(channel_id).await?;
    let followers = api.node.command(guild_id, Actor::System, request::ListFollowers(channel_id)).await?;
    let (of, message) = (Arc::clone(&api), Arc::clone(&reply.message));
    tokio::spawn(async move {
        deliver(&of, guild_id, &message, followers).await;
        drop(permit);
    });
    Ok(Json(render::reply(&caller, &reply)).into_response())
}

/// Posts a copy by each webhook. A follower whose webhook or guild is gone is removed; one that cannot be reached now
/// does not get the message.
async fn deliver(api: &Api, guild_id: GuildId, message: &Message, followers: Vec<Follower>) {
    let (channel_id, message_id) = (message.channel_id, message.id);
    let copy = Forward { channel_id, message_id, guild_id: Some(guild_id), snapshot: Some(message.into()) };
    for follower in followers {
        let request = request::DeliverCrosspost(follower.webhook_id, Box::new(copy.clone()));
        let gone = match api.node.command(follower.guild_id, Actor::System, request).await {
            Ok(_) => continue,
            Err(Refusal::UnknownWebhook | Refusal::UnknownGuild) => true,
            Err(refusal) => {
                let webhook_id = follower.webhook_id;
                tracing::warn!(%channel_id, %message_id, %webhook_id, %refusal, "a follower did not get a message");
                false
            }
        };
        if gone {
            let remove = request::RemoveFollower(channel_id, follower.webhook_id);
            // It is tried again with the next message.
            let _ = api.node.command(guild_id, Actor::System, remove).await;
        }
    }
}
