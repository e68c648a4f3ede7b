//! Voice states of a guild: read, put, deleted.
//!
//! Not here    what a media server reports in LiveKit's form: `voice_reports`. Whether a member may connect: a backend
//!             puts them where it wants.     Spec  docs/voice.md.

use super::{
    V1,
    caller::{Caller, Read, Write},
    error::V1Error,
    extract::{Body, Check, FieldErrors, Path},
    guilds,
    types::{AnyId, Snowflake, Time},
};
use axum::{Json, extract::State, http::StatusCode};
use guildhall_guild::request;
use guildhall_guild_protocol::VoiceEntry;
use guildhall_model::{ChannelId, GuildId, UserId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// Requests that empty a channel, some hundred members each.
const EMPTY_STEPS_MAX: usize = 100;

/// A member in voice.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = VoiceState)]
pub(crate) struct VoiceStateBody {
    pub user_id: Snowflake,
    pub channel_id: Snowflake,
    /// Gateway session that is connected; another text if the member was put here without one.
    pub session_id: String,
    /// Muted by the server.
    pub mute: bool,
    /// Deafened by the server.
    pub deaf: bool,
    /// Muted by the member.
    pub self_mute: bool,
    /// Deafened by the member.
    pub self_deaf: bool,
    /// Their camera is on.
    pub self_video: bool,
    /// They may not speak in this channel.
    pub suppress: bool,
    /// Time of their request to speak on a stage.
    pub request_to_speak_timestamp: Option<Time>,
}

/// Where a member shall be.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VoiceStatePut {
    /// A voice or stage channel of the guild.
    pub channel_id: Snowflake,
}

impl Check for VoiceStatePut {
    fn check(&self, _: &mut FieldErrors) {}
}

/// The voice state of an account in a guild. None: it is not in voice there, or there is no such guild.
pub(crate) async fn of_user(v1: &V1, guild_id: GuildId, user_id: UserId) -> Result<Option<VoiceEntry>, V1Error> {
    match v1.request(guild_id, request::ReadVoiceState(user_id)).await {
        Ok(entry) => Ok(Some(*entry)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts a member into a voice channel, or takes them out.
pub(crate) async fn put_into(
    v1: &V1,
    guild_id: GuildId,
    user_id: UserId,
    channel_id: Option<ChannelId>,
) -> Result<(), V1Error> {
    v1.request(guild_id, request::ShowVoice(user_id, channel_id)).await
}

/// Takes all members out of a voice channel. Does nothing in a channel that is no voice channel of the guild.
pub(crate) async fn empty(v1: &V1, guild_id: GuildId, channel_id: ChannelId) -> Result<(), V1Error> {
    // As many as a channel can have; the media server repeats its report if it was not enough.
    for _ in 0..EMPTY_STEPS_MAX {
        if v1.request(guild_id, request::EmptyVoice(channel_id)).await? == 0 {
            break;
        }
    }
    Ok(())
}

async fn body_of(v1: &V1, guild_id: GuildId, user_id: UserId) -> Result<VoiceStateBody, V1Error> {
    let entry = of_user(v1, guild_id, user_id).await?;
    let Some((state, channel_id)) = entry.and_then(|entry| Some((entry.state.clone(), entry.state.channel_id?))) else {
        guilds::reply(v1, guild_id).await?;
        return Err(V1Error::not_found("voice state: the account is in no voice channel of this guild"));
    };
    Ok(VoiceStateBody {
        user_id: user_id.into(),
        channel_id: channel_id.into(),
        session_id: state.session_id.clone(),
        mute: state.mute,
        deaf: state.deaf,
        self_mute: state.self_mute,
        self_deaf: state.self_deaf,
        self_video: state.self_video,
        suppress: state.suppress,
        request_to_speak_timestamp: state.request_to_speak_timestamp.map(Time),
    })
}

/// Reads the voice state of a member
#[utoipa::path(get, path = "/v1/guilds/{guild_id}/voice-states/{user_id}", tag = "voice",
    params(("guild_id" = AnyId, Path), ("user_id" = AnyId, Path)),
    responses((status = 200, body = VoiceStateBody),
              (status = 404, description = "No such guild, or the account is not in voice there", body = V1Error)))]
pub(super) async fn read(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<VoiceStateBody>, V1Error> {
    Ok(Json(body_of(&v1, path.id("guild_id")?, path.id("user_id")?).await?))
}

/// Puts a member into a voice channel
///
/// A session that is in voice moves there, and gets VOICE_SERVER_UPDATE. Without one the member is shown in the channel
/// until they are taken out. Permissions and `user_limit` do not count.
#[utoipa::path(put, path = "/v1/guilds/{guild_id}/voice-states/{user_id}", tag = "voice",
    params(("guild_id" = AnyId, Path), ("user_id" = AnyId, Path)), request_body = VoiceStatePut,
    responses((status = 200, body = VoiceStateBody),
              (status = 404, description = "No such guild, member or channel", body = V1Error)))]
pub(super) async fn put(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<VoiceStatePut>,
) -> Result<Json<VoiceStateBody>, V1Error> {
    let (guild_id, user_id) = (path.id("guild_id")?, path.id("user_id")?);
    let member = v1.request(guild_id, request::ReadMember(user_id)).await?;
    let input = body.read(&v1, caller.permit_for(&member)).await?;
    put_into(&v1, guild_id, user_id, Some(input.channel_id.id())).await?;
    Ok(Json(body_of(&v1, guild_id, user_id).await?))
}

/// Takes a member out of voice
#[utoipa::path(delete, path = "/v1/guilds/{guild_id}/voice-states/{user_id}", tag = "voice",
    params(("guild_id" = AnyId, Path), ("user_id" = AnyId, Path)),
    responses((status = 204, description = "They are in no voice channel of the guild"),
              (status = 404, body = V1Error)))]
pub(super) async fn delete(_: Caller<Write>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    let (guild_id, user_id) = (path.id("guild_id")?, path.id("user_id")?);
    guilds::reply(&v1, guild_id).await?;
    put_into(&v1, guild_id, user_id, None).await?;
    Ok(StatusCode::NO_CONTENT)
}
