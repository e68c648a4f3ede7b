//! Channels, their overwrites, and typing. Spec  docs/protocol/reference.md §10.3, §10.4.

use super::{Call, channel_form, relationships::need_no_block};
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form,
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{ChannelMove, ChannelReply, GuildReply, Refusal, request};
use guildhall_guild_protocol::Redaction;
use guildhall_model::{Channel, ChannelId, Id, OverwriteKind, from_gateway::ChannelBody};
use std::sync::Arc;

/// As many as a guild can have channels.
const MOVES_MAX: usize = 500;

/// A channel, thread or direct message, of a guild's reply.
fn rendered(caller: &Caller, reply: ChannelReply) -> Result<Response, ApiError> {
    match reply {
        ChannelReply::Direct(direct) => Ok(super::directs::body(caller, &direct)),
        ChannelReply::Thread(thread) => Ok(super::threads::body(&thread)),
        ChannelReply::Channel(channel) => Ok(body(&channel)),
    }
}

/// A channel that has overwrites of its own.
async fn channel(api: &Api, caller: &Caller, channel_id: ChannelId) -> Result<Arc<Channel>, ApiError> {
    match api.request_in_channel(caller, channel_id, request::ReadChannel(channel_id)).await? {
        ChannelReply::Direct(_) => Err(Refusal::NotInDirect.into()),
        ChannelReply::Thread(_) => Err(Refusal::InvalidForm("permission_overwrites").into()),
        ChannelReply::Channel(channel) => Ok(channel),
    }
}

fn body(channel: &Channel) -> Response {
    Json(ChannelBody::from(channel)).into_response()
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let channel_id = params.id("channel_id")?;
    rendered(&caller, api.request_in_channel(&caller, channel_id, request::ReadChannel(channel_id)).await?)
}

/// The channels of a guild, those that the caller cannot view in the form of `visibility.hidden_channels`.
pub(super) async fn list(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild = api.request(&caller, params.id("guild_id")?, request::ReadGuild).await?;
    let form = api.hidden_channels.rest_form();
    let channels = guild.structure.channels.values().filter_map(|channel| listed(&guild, channel, form));
    Ok(Json(channels.collect::<Vec<_>>()).into_response())
}

/// A channel with its newest message, or in `form` if the caller cannot view it.
fn listed<'a>(guild: &GuildReply, channel: &'a Channel, form: Option<Redaction>) -> Option<ChannelBody<'a>> {
    let body = ChannelBody::from(channel);
    // Both are sorted by id.
    if guild.visible_channels.binary_search(&channel.id).is_err() {
        return Some(if form? == Redaction::Channel {
            ChannelBody::obfuscated(channel)
        } else {
            body.without_messages()
        });
    }
    Some(match guild.last_message_ids.get(&channel.id) {
        Some(newest) => body.with_last_message(*newest),
        None => body,
    })
}

pub(super) async fn create(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let permit = ReadPermit::guild(&api, &caller, guild_id).await?;
    let read = input.read(&api, permit, BodyLimits::LIST, channel_form::create);
    let channel_form::CreateForm { new, then } = read.await?;
    then.as_ref().map_or(Ok(()), channel_form::need_emoji)?;
    let channel = api.request(&caller, guild_id, request::CreateChannel(Box::new(new))).await?;
    let mut reply = ChannelReply::Channel(channel.clone());
    if let Some(patch) = then {
        reply = api.request(&caller, guild_id, request::UpdateChannel(channel.id, Box::new(patch))).await?;
    }
    Ok((StatusCode::CREATED, rendered(&caller, reply)?).into_response())
}

/// Puts several into order.
pub(super) async fn move_all(Call { api, caller, params }: Call, input: JsonRequest) -> Result<StatusCode, ApiError> {
    let guild_id = params.id("guild_id")?;
    let permit = ReadPermit::guild(&api, &caller, guild_id).await?;
    let input = input.json(&api, permit, BodyLimits::LIST).await?;
    let moves = form::list(&input.value, 0, MOVES_MAX, |value| {
        form::object(value, |form| {
            let id = form.required("id", form::id);
            Some(ChannelMove {
                position: form.optional("position", channel_form::position),
                parent_id: form.nullable("parent_id", form::id),
                lock_permissions: form.optional("lock_permissions", form::boolean).unwrap_or(false),
                id: id?,
            })
        })
    })?;
    api.done(&caller, guild_id, request::MoveChannels(moves)).await
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let channel_id = params.id("channel_id")?;
    let permit = ReadPermit::channel(&api, &caller, channel_id).await?;
    let patch = input.read(&api, permit, BodyLimits::PICTURE, channel_form::patch).await?;
    channel_form::need_emoji(&patch)?;
    let command = request::UpdateChannel(channel_id, Box::new(patch));
    rendered(&caller, api.request_in_channel(&caller, channel_id, command).await?)
}

pub(super) async fn delete(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let channel_id = params.id("channel_id")?;
    rendered(&caller, api.request_in_channel(&caller, channel_id, request::DeleteChannel(channel_id)).await?)
}

pub(super) async fn put_overwrite(
    Call { api, caller, params }: Call,
    input: JsonRequest,
) -> Result<StatusCode, ApiError> {
    let channel_id = params.id("channel_id")?;
    let id: Id<()> = params.id("overwrite_id")?;
    let permit = ReadPermit::channel(&api, &caller, channel_id).await?;
    let overwrite = input.read(&api, permit, BodyLimits::FORM, |form| channel_form::overwrite(form, id.get())).await?;
    api.done_in_channel(&caller, channel_id, request::PutOverwrite(channel_id, overwrite)).await
}

/// The path has no kind of the overwrite (role or member); the channel's overwrite with this id has it.
pub(super) async fn delete_overwrite(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let channel_id = params.id("channel_id")?;
    let id: Id<()> = params.id("overwrite_id")?;
    let has_id = |target: &OverwriteKind| match target {
        OverwriteKind::Role(role) => role.get() == id.get(),
        OverwriteKind::Member(member) => member.get() == id.get(),
    };
    let channel = channel(&api, &caller, channel_id).await?;
    let target = channel.overwrites.iter().map(|overwrite| overwrite.target).find(has_id);
    let target = target.ok_or(ApiError::Refused(Refusal::UnknownOverwrite))?;
    api.done_in_channel(&caller, channel_id, request::DeleteOverwrite(channel_id, target)).await
}

pub(super) async fn start_typing(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let channel_id = params.id("channel_id")?;
    need_no_block(&api, &caller, channel_id).await?;
    api.done_in_channel(&caller, channel_id, request::StartTyping(channel_id)).await
}
