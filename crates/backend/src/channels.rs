//! Channels of a guild: listed, read, put, changed, deleted.

use super::{
    V1,
    caller::{Caller, Read, Write},
    change,
    dto::{ChannelBody, ChannelChange, ChannelPut},
    error::V1Error,
    external::{self, Target},
    extract::{Body, Changes, Check, FieldErrors, Path, Query},
    guilds, put_status,
    types::{AnyId, check_new_id},
};
use axum::{Json, extract::State, http::StatusCode};
use guildhall_guild::{Actor, ChannelReply, Expected, Refusal, request};
use guildhall_model::{Channel, ChannelId, GuildId, Overwrite, OverwriteKind};
use guildhall_store::ExternalKind;
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::MutexGuard;
use utoipa::IntoParams;

async fn channel(v1: &V1, guild_id: GuildId, channel_id: ChannelId) -> Result<Arc<Channel>, V1Error> {
    match v1.request(guild_id, request::ReadChannel(channel_id)).await? {
        ChannelReply::Channel(channel) => Ok(channel),
        ChannelReply::Thread(_) | ChannelReply::Direct(_) => Err(V1Error::not_found("channel")),
    }
}

async fn put_channel(
    v1: &V1,
    channel: Channel,
    expected: Expected<Channel>,
) -> Result<(StatusCode, ChannelBody), V1Error> {
    let (guild_id, overwrites) = (channel.guild_id, channel.overwrites.clone());
    let request = request::PutChannel(Box::new(channel), expected);
    let put = match v1.in_time(v1.node.command(guild_id, Actor::System, request)).await? {
        Ok(put) => put,
        Err(Refusal::UnknownRole) => return Err(unknown_role(v1, guild_id, &overwrites).await),
        Err(refusal) => return Err(refusal.into()),
    };
    Ok((put_status(&put), ChannelBody::from(&*put.value)))
}

/// Fault for an overwrite of an unknown role.
async fn unknown_role(v1: &V1, guild_id: GuildId, overwrites: &[Overwrite]) -> V1Error {
    let guild = match guilds::reply(v1, guild_id).await {
        Ok(guild) => guild,
        Err(error) => return error,
    };
    let is_unknown = |overwrite: &Overwrite| match overwrite.target {
        OverwriteKind::Role(role_id) => !guild.structure.roles.contains_key(&role_id),
        OverwriteKind::Member(_) => false,
    };
    match overwrites.iter().position(is_unknown) {
        Some(index) => {
            let field = format!("permission_overwrites[{index}].id");
            V1Error::field(field, "The guild has no such role: put the role first.")
        }
        // The role was created concurrently.
        None => V1Error::from(Refusal::Changed),
    }
}

/// Parameters of a list of channels.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ChannelsQuery {
    /// Only the guild's channel with this external id, if there is one.
    #[param(min_length = 1, max_length = 128, pattern = "^[!-~]*$")]
    external_id: Option<String>,
}

impl Check for ChannelsQuery {
    fn check(&self, faults: &mut FieldErrors) {
        external::check("external_id", self.external_id.as_deref(), faults);
    }
}

/// Lists the channels of a guild
#[utoipa::path(get, path = "/v1/guilds/{guild_id}/channels", tag = "channels",
    params(("guild_id" = AnyId, Path), ChannelsQuery),
    responses((status = 200, body = Vec<ChannelBody>), (status = 404, body = V1Error)))]
pub(super) async fn list(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    path: Path,
    Query(query): Query<ChannelsQuery>,
) -> Result<Json<Vec<ChannelBody>>, V1Error> {
    let guild = guilds::reply(&v1, path.id("guild_id")?).await?;
    let ids = guild.structure.channels.keys().map(|id| id.get());
    let mut texts = external::texts(&v1, ExternalKind::Channel, ids).await?;
    if let Some(wanted) = &query.external_id {
        texts.retain(|_, text| text == wanted);
    }
    let body = |channel: &Arc<Channel>| {
        let text = texts.remove(&channel.id.get());
        if query.external_id.is_some() && text.is_none() {
            return None;
        }
        let last_message_id = guild.last_message_ids.get(&channel.id).map(|id| (*id).into());
        Some(ChannelBody { last_message_id, ..ChannelBody::from(&**channel) }.with_external_id(text))
    };
    Ok(Json(guild.structure.channels.values().filter_map(body).collect()))
}

/// Reads a channel
#[utoipa::path(get, path = "/v1/guilds/{guild_id}/channels/{channel_id}", tag = "channels",
    params(("guild_id" = AnyId, Path), ("channel_id" = AnyId, Path)),
    responses((status = 200, body = ChannelBody), (status = 404, body = V1Error)))]
pub(super) async fn read(_: Caller<Read>, State(v1): State<Arc<V1>>, path: Path) -> Result<Json<ChannelBody>, V1Error> {
    let channel = channel(&v1, path.id("guild_id")?, path.id("channel_id")?).await?;
    let text = external::text(&v1, ExternalKind::Channel, channel.id.get()).await?;
    Ok(Json(ChannelBody::from(&*channel).with_external_id(text)))
}

/// Creates or replaces the channel with this id
#[utoipa::path(put, path = "/v1/guilds/{guild_id}/channels/{channel_id}", tag = "channels",
    params(("guild_id" = AnyId, Path), ("channel_id" = AnyId, Path)), request_body = ChannelPut,
    responses((status = 200, description = "It was there, and is like this now", body = ChannelBody),
              (status = 201, description = "It was made", body = ChannelBody), (status = 404, body = V1Error),
              (status = 409, description = "Another guild has a channel with this id; another channel has the external id",
               body = V1Error)))]
pub(super) async fn put(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<ChannelPut>,
) -> Result<(StatusCode, Json<ChannelBody>), V1Error> {
    let target = Target::of(&v1, &path, "channel_id").await?;
    let (guild_id, channel_id): (GuildId, ChannelId) = (path.id("guild_id")?, target.id);
    let permit = caller.permit_for(&guilds::reply(&v1, guild_id).await?);
    let input = body.read(&v1, permit).await?;
    let wanted = target.wanted(input.external_id.clone())?;
    let put = put_whole(&v1, input.into_channel(channel_id, guild_id));
    let ((status, body), text) = external::put_with(&v1, ExternalKind::Channel, channel_id.get(), wanted, put).await?;
    Ok((status, Json(body.with_external_id(text))))
}

async fn put_whole(v1: &V1, channel: Channel) -> Result<(StatusCode, ChannelBody), V1Error> {
    // Ids of channels are unique over all guilds: no other request may create this one meanwhile, at any node.
    let is_new = v1.new_channels.lock().await;
    let reserved = match v1.in_time(v1.node.guild_of_channel(channel.id)).await?? {
        None => Some(v1.in_time(v1.node.reserve(&format!("channel {}", channel.id))).await??),
        Some(_) => None,
    };
    let put = put_unique(v1, channel, is_new).await;
    if let Some(reserved) = reserved {
        reserved.release().await;
    }
    put
}

async fn put_unique(
    v1: &V1,
    channel: Channel,
    is_new: MutexGuard<'_, ()>,
) -> Result<(StatusCode, ChannelBody), V1Error> {
    match v1.in_time(v1.node.guild_of_channel(channel.id)).await?? {
        Some(other) if other != channel.guild_id => {
            Err(V1Error::conflict(format!("The guild {other} has a channel with this id: choose another.")))
        }
        Some(_) => {
            drop(is_new);
            put_channel(v1, channel, None).await
        }
        None => {
            check_new_id(v1, "channel_id", channel.id)?;
            put_channel(v1, channel, None).await
        }
    }
}

/// Changes some fields of a channel
#[utoipa::path(patch, path = "/v1/guilds/{guild_id}/channels/{channel_id}", tag = "channels",
    params(("guild_id" = AnyId, Path), ("channel_id" = AnyId, Path)), request_body = ChannelChange,
    responses((status = 200, body = ChannelBody), (status = 404, body = V1Error), (status = 409, body = V1Error)))]
pub(super) async fn update(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    changes: Changes,
) -> Result<Json<ChannelBody>, V1Error> {
    let (guild_id, channel_id): (GuildId, ChannelId) = (path.id("guild_id")?, path.id("channel_id")?);
    let permit = caller.permit_for(&channel(&v1, guild_id, channel_id).await?);
    let patch = changes.read(&v1, permit).await?;
    let (v1, patch) = (&*v1, &patch);
    let wanted = patch.apply(&ChannelPut::from(&*channel(v1, guild_id, channel_id).await?))?.external_id;
    let put = change(|| async move {
        let before = channel(v1, guild_id, channel_id).await?;
        let after = patch.apply(&ChannelPut::from(&*before))?.into_channel(channel_id, guild_id);
        Ok(put_channel(v1, after, Some(before)).await?.1)
    });
    let (body, text) = external::put_with(v1, ExternalKind::Channel, channel_id.get(), wanted, put).await?;
    Ok(Json(body.with_external_id(text)))
}

/// Deletes a channel with its messages
#[utoipa::path(delete, path = "/v1/guilds/{guild_id}/channels/{channel_id}", tag = "channels",
    params(("guild_id" = AnyId, Path), ("channel_id" = AnyId, Path)),
    responses((status = 204, description = "It is gone"), (status = 404, body = V1Error)))]
pub(super) async fn delete(_: Caller<Write>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    v1.request(path.id("guild_id")?, request::DeleteChannel(path.id("channel_id")?)).await?;
    Ok(StatusCode::NO_CONTENT)
}
