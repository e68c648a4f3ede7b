//! Retention of a guild's or channel's messages, where it differs from `messages.keep_days`.

use super::{
    V1,
    caller::{Caller, Read, Write},
    error::V1Error,
    extract::{Body, Check, FieldErrors, Path},
    guilds,
    types::AnyId,
};
use axum::{Json, extract::State, http::StatusCode};
use guildhall_model::{ChannelId, GuildId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// A hundred years.
const KEEP_DAYS_MAX: u32 = 36_500;

/// Days for which messages are kept.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RetentionPut {
    /// Days; 0 for ever.
    #[schema(minimum = 0, maximum = 36500)]
    keep_days: u32,
}

impl Check for RetentionPut {
    fn check(&self, faults: &mut FieldErrors) {
        faults.number("keep_days", self.keep_days.into(), 0, KEEP_DAYS_MAX.into());
    }
}

/// Retention of a guild or channel.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RetentionBody {
    /// Days; 0: for ever; null: inherited. A thread inherits from its channel, a channel from its guild, and a guild
    /// from the setting `messages.keep_days`.
    keep_days: Option<u32>,
}

/// Object of a path that a retention is set for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Guild,
    /// A channel or thread of the guild.
    Channel,
}

/// The id in the path.
async fn find(v1: &V1, path: &Path, holder: Holder) -> Result<u64, V1Error> {
    let guild_id: GuildId = path.id("guild_id")?;
    guilds::reply(v1, guild_id).await?;
    if holder == Holder::Guild {
        return Ok(guild_id.get());
    }
    let channel_id: ChannelId = path.id("channel_id")?;
    match v1.in_time(v1.node.guild_of_channel(channel_id)).await?? {
        Some(found) if found == guild_id => Ok(channel_id.get()),
        _ => Err(V1Error::not_found("channel in this guild")),
    }
}

async fn read(v1: &V1, path: &Path, holder: Holder) -> Result<Json<RetentionBody>, V1Error> {
    let id = find(v1, path, holder).await?;
    Ok(Json(RetentionBody { keep_days: v1.in_time(v1.node.store().keep_days(id)).await?? }))
}

async fn put(
    v1: &V1,
    caller: &Caller<Write>,
    path: &Path,
    body: Body<RetentionPut>,
    holder: Holder,
) -> Result<Json<RetentionBody>, V1Error> {
    let id = find(v1, path, holder).await?;
    let RetentionPut { keep_days } = body.read(v1, caller.permit_for(&id)).await?;
    v1.in_time(v1.node.store().set_keep_days(id, Some(keep_days))).await??;
    Ok(Json(RetentionBody { keep_days: Some(keep_days) }))
}

async fn delete(v1: &V1, path: &Path, holder: Holder) -> Result<StatusCode, V1Error> {
    let id = find(v1, path, holder).await?;
    v1.in_time(v1.node.store().set_keep_days(id, None)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Reads the retention of a guild
#[utoipa::path(get, path = "/v1/guilds/{guild_id}/retention", tag = "guilds", params(("guild_id" = AnyId, Path)),
    responses((status = 200, body = RetentionBody), (status = 404, body = V1Error)))]
pub(super) async fn read_of_guild(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<RetentionBody>, V1Error> {
    read(&v1, &path, Holder::Guild).await
}

/// Sets the retention of a guild
///
/// Older messages are deleted within about an hour, with their reactions, pins and files. Sessions get no event.
#[utoipa::path(put, path = "/v1/guilds/{guild_id}/retention", tag = "guilds", params(("guild_id" = AnyId, Path)),
    request_body = RetentionPut, responses((status = 200, body = RetentionBody), (status = 404, body = V1Error)))]
pub(super) async fn put_of_guild(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<RetentionPut>,
) -> Result<Json<RetentionBody>, V1Error> {
    put(&v1, &caller, &path, body, Holder::Guild).await
}

/// Removes the retention of a guild: the node's setting applies
#[utoipa::path(delete, path = "/v1/guilds/{guild_id}/retention", tag = "guilds", params(("guild_id" = AnyId, Path)),
    responses((status = 204, description = "Nothing is set for the guild"), (status = 404, body = V1Error)))]
pub(super) async fn delete_of_guild(
    _: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<StatusCode, V1Error> {
    delete(&v1, &path, Holder::Guild).await
}

/// Reads the retention of a channel or thread
#[utoipa::path(get, path = "/v1/guilds/{guild_id}/channels/{channel_id}/retention", tag = "channels",
    params(("guild_id" = AnyId, Path), ("channel_id" = AnyId, Path)),
    responses((status = 200, body = RetentionBody), (status = 404, body = V1Error)))]
pub(super) async fn read_of_channel(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<RetentionBody>, V1Error> {
    read(&v1, &path, Holder::Channel).await
}

/// Sets the retention of a channel or thread
///
/// As for a guild. Threads inherit from their channel.
#[utoipa::path(put, path = "/v1/guilds/{guild_id}/channels/{channel_id}/retention", tag = "channels",
    params(("guild_id" = AnyId, Path), ("channel_id" = AnyId, Path)), request_body = RetentionPut,
    responses((status = 200, body = RetentionBody), (status = 404, body = V1Error)))]
pub(super) async fn put_of_channel(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<RetentionPut>,
) -> Result<Json<RetentionBody>, V1Error> {
    put(&v1, &caller, &path, body, Holder::Channel).await
}

/// Removes the retention of a channel or thread: that of its guild applies
#[utoipa::path(delete, path = "/v1/guilds/{guild_id}/channels/{channel_id}/retention", tag = "channels",
    params(("guild_id" = AnyId, Path), ("channel_id" = AnyId, Path)),
    responses((status = 204, description = "Nothing is set for the channel"), (status = 404, body = V1Error)))]
pub(super) async fn delete_of_channel(
    _: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<StatusCode, V1Error> {
    delete(&v1, &path, Holder::Channel).await
}
