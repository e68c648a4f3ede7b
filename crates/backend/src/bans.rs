//! Bans of a guild: listed, read, put, removed.
//!
//! Limits      pages of 1,000. Messages of a banned account are deleted `DELETED_AT_ONCE` at a time, channel by
//!             channel, before the answer.
//! Spec        docs/backend-api.md "Bans".

use super::{
    V1,
    caller::{Caller, Read, Write},
    dto::UserBody,
    error::V1Error,
    extract::{Body, Check, FieldErrors, Path, Query},
    guilds,
    guilds::Page,
    types::AnyId,
};
use axum::{Json, extract::State, http::StatusCode};
use guildhall_guild::{Actor, NewBan, Page as GuildPage, Refusal, request};
use guildhall_model::{Ban, ChannelId, GuildId, MessageId, UserId, smallest_id_at};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

const REASON_CHARS_MAX: usize = 512;
/// A week, as upstream.
const DELETE_S_MAX: u32 = 7 * 86_400;
const DELETED_AT_ONCE: u32 = 100;

/// A ban to put.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BanPut {
    /// Reason of the ban, for moderators.
    #[serde(default)]
    #[schema(max_length = 512)]
    reason: Option<String>,
    /// Messages of the account in the guild that are younger than this are deleted.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 604800)]
    delete_message_seconds: u32,
}

impl Check for BanPut {
    fn check(&self, faults: &mut FieldErrors) {
        faults.optional_text("reason", self.reason.as_deref(), REASON_CHARS_MAX);
        faults.number("delete_message_seconds", self.delete_message_seconds.into(), 0, DELETE_S_MAX.into());
    }
}

/// An account that cannot join the guild.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Ban)]
pub(super) struct BanBody {
    /// The banned account.
    user: UserBody,
    reason: Option<String>,
}

impl From<&Ban> for BanBody {
    fn from(ban: &Ban) -> Self {
        Self { user: (&*ban.user).into(), reason: ban.reason.clone() }
    }
}

/// Lists the bans of a guild, by account
#[utoipa::path(get, path = "/v1/guilds/{guild_id}/bans", tag = "bans", params(("guild_id" = AnyId, Path), Page),
    responses((status = 200, body = Vec<BanBody>), (status = 404, body = V1Error)))]
pub(super) async fn list(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    path: Path,
    Query(page): Query<Page>,
) -> Result<Json<Vec<BanBody>>, V1Error> {
    let list = request::ListBans(GuildPage::After(page.after(), page.limit() as usize));
    let bans = v1.request(path.id("guild_id")?, list).await?;
    Ok(Json(bans.iter().map(|ban| BanBody::from(&**ban)).collect()))
}

/// Reads the ban of an account
#[utoipa::path(get, path = "/v1/guilds/{guild_id}/bans/{user_id}", tag = "bans",
    params(("guild_id" = AnyId, Path), ("user_id" = AnyId, Path)),
    responses((status = 200, body = BanBody), (status = 404, body = V1Error)))]
pub(super) async fn read(_: Caller<Read>, State(v1): State<Arc<V1>>, path: Path) -> Result<Json<BanBody>, V1Error> {
    let bans = v1.request(path.id("guild_id")?, request::ReadBan(path.id("user_id")?)).await?;
    bans.first().map(|ban| Json(BanBody::from(&**ban))).ok_or_else(|| V1Error::bug("a ban"))
}

/// Bans an account
///
/// A member is removed first. An account that is banned already keeps its reason. With `delete_message_seconds` the
/// answer comes when the messages are deleted; repeating an interrupted request continues.
#[utoipa::path(put, path = "/v1/guilds/{guild_id}/bans/{user_id}", tag = "bans",
    params(("guild_id" = AnyId, Path), ("user_id" = AnyId, Path)), request_body = BanPut,
    responses((status = 204, description = "The account is banned"), (status = 404, body = V1Error),
              (status = 409, description = "The owner cannot be banned; the guild has too many bans", body = V1Error)))]
pub(super) async fn put(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<BanPut>,
) -> Result<StatusCode, V1Error> {
    let (guild_id, user_id): (GuildId, UserId) = (path.id("guild_id")?, path.id("user_id")?);
    guilds::reply(&v1, guild_id).await?;
    let user = v1.in_time(v1.node.user(user_id)).await??.ok_or_else(|| V1Error::not_found("user"))?;
    let BanPut { reason, delete_message_seconds } = body.read(&v1, caller.permit_for(&user)).await?;
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let new = NewBan { user, reason: reason.clone(), delete_message_s: delete_message_seconds };
    let ban = request::WithReason(reason.map(Into::into), request::Ban(Box::new(new)));
    match v1.in_time(v1.node.command(guild_id, Actor::System, ban)).await? {
        Ok(()) => {}
        Err(Refusal::MissingPermissions) => {
            return Err(V1Error::conflict(
                "The owner of a guild cannot be banned: give the guild another owner first.",
            ));
        }
        Err(refusal) => return Err(refusal.into()),
    }
    if delete_message_seconds > 0 {
        let from = smallest_id_at(Timestamp(v1.now().unix.0 - i64::from(delete_message_seconds) * 1_000));
        delete_messages(&v1, guild_id, user_id, from).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes an account's messages in a guild since `from`.
async fn delete_messages(v1: &V1, guild_id: GuildId, user_id: UserId, from: MessageId) -> Result<(), V1Error> {
    let guild = guilds::reply(v1, guild_id).await?;
    let channels = guild.structure.channels.values().filter(|channel| channel.kind.holds_messages());
    let channels = channels.map(|channel| channel.id);
    let channels: Vec<ChannelId> = channels.chain(guild.threads.iter().map(|(id, _)| id)).collect();
    for channel_id in channels {
        loop {
            let some = v1.node.store().messages_by(channel_id, user_id, from, DELETED_AT_ONCE);
            let ids = v1.in_time(some).await??;
            let is_last = ids.len() < DELETED_AT_ONCE as usize;
            if !ids.is_empty() {
                let delete = v1.node.command(guild_id, Actor::System, request::DeleteMessages(channel_id, ids));
                match v1.in_time(delete).await? {
                    // The channel was deleted concurrently.
                    Ok(()) | Err(Refusal::UnknownChannel) => {}
                    Err(refusal) => return Err(refusal.into()),
                }
            }
            if is_last {
                break;
            }
        }
    }
    Ok(())
}

/// Removes the ban of an account
#[utoipa::path(delete, path = "/v1/guilds/{guild_id}/bans/{user_id}", tag = "bans",
    params(("guild_id" = AnyId, Path), ("user_id" = AnyId, Path)),
    responses((status = 204, description = "The account is not banned any more"), (status = 404, body = V1Error)))]
pub(super) async fn delete(_: Caller<Write>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    v1.request(path.id("guild_id")?, request::Unban(path.id("user_id")?)).await?;
    Ok(StatusCode::NO_CONTENT)
}
