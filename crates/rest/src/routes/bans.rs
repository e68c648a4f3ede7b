//! Bans, prune, and adding members. Spec  docs/protocol/reference.md §10.4.
//!
//! Limits      pages of 1000; 200 bans at once. Messages of a banned account are deleted `DELETED_AT_ONCE` at a time,
//!             channel by channel; that continues after the requester has disconnected.

use super::Call;
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest, Query},
    error::ApiError,
    form::{self, Form},
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Actor, Join, NewBan, Page, Prune, Refusal, request};
use guildhall_model::{
    ChannelId, GuildId, MessageId, Permissions, RoleId, User, UserId,
    from_gateway::{BanBody, MemberBody},
    smallest_id_at,
};
use guildhall_node::AuthError;
use guildhall_stdx::Timestamp;
use serde_json::json;
use std::{collections::HashSet, sync::Arc};

const PAGE_MAX: i64 = 1000;
const BULK_BAN_MAX: usize = 200;
const DELETE_S_MAX: i64 = 7 * 86_400;
const DELETED_AT_ONCE: u32 = 100;
const ROLES_MAX: usize = 250;
const PRUNE_DAYS_MAX: i64 = 30;

pub(super) async fn list(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let page = query.read(|form| {
        let limit = form.optional("limit", |v| form::integer(v, 1, PAGE_MAX)).unwrap_or(PAGE_MAX) as usize;
        let before: Option<UserId> = form.optional("before", form::id);
        let after: UserId = form.optional("after", form::id).unwrap_or(UserId::new(0));
        Some(before.map_or(Page::After(after, limit), |before| Page::Before(before, limit)))
    })?;
    let bans = api.request(&caller, params.id("guild_id")?, request::ListBans(page)).await?;
    Ok(Json(bans.iter().map(|ban| BanBody::from(&**ban)).collect::<Vec<_>>()).into_response())
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let command = request::ReadBan(params.id("user_id")?);
    let bans = api.request(&caller, params.id("guild_id")?, command).await?;
    let ban = bans.first().ok_or(ApiError::Bug("a ban"))?;
    Ok(Json(BanBody::from(&**ban)).into_response())
}

/// Seconds; older clients send days.
fn delete_message_s(form: &mut Form<'_>) -> u32 {
    let days = form.optional("delete_message_days", |v| form::integer(v, 0, 7)).map(|days| days * 86_400);
    let seconds = form.optional("delete_message_seconds", |v| form::integer(v, 0, DELETE_S_MAX));
    seconds.or(days).unwrap_or(0) as u32
}

async fn account(api: &Api, user_id: UserId) -> Result<Arc<User>, ApiError> {
    api.node.user(user_id).await?.ok_or(ApiError::Refused(Refusal::UnknownUser))
}

pub(super) async fn put(Call { api, caller, params }: Call, input: JsonRequest) -> Result<StatusCode, ApiError> {
    let (guild_id, user_id) = (params.id("guild_id")?, params.id("user_id")?);
    let permit = ReadPermit::guild(&api, &caller, guild_id).await?;
    account(&api, user_id).await?;
    let delete_message_s = input.read(&api, permit, BodyLimits::FORM, |form| Some(delete_message_s(form))).await?;
    ban(&api, &caller, guild_id, user_id, delete_message_s).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn ban(
    api: &Arc<Api>,
    caller: &Caller,
    guild_id: GuildId,
    user_id: UserId,
    delete_message_s: u32,
) -> Result<(), ApiError> {
    let user = account(api, user_id).await?;
    let reason = caller.reason().map(|reason| reason.to_string());
    let command = request::Ban(Box::new(NewBan { user, reason, delete_message_s }));
    api.request(caller, guild_id, command).await?;
    if delete_message_s > 0 {
        let from = smallest_id_at(Timestamp(api.now().unix.0 - i64::from(delete_message_s) * 1000));
        let task = tokio::spawn(delete_recent_messages(Arc::clone(api), guild_id, user_id, from));
        task.await.map_err(|_| ApiError::Bug("a deletion that ends"))??;
    }
    Ok(())
}

/// Deletes an account's messages in a guild since `from`. Permission to ban suffices.
async fn delete_recent_messages(
    api: Arc<Api>,
    guild_id: GuildId,
    user_id: UserId,
    from: MessageId,
) -> Result<(), ApiError> {
    let guild = api.node.command(guild_id, Actor::System, request::ReadGuild).await?;
    let channels = guild.structure.channels.values();
    let channels = channels.filter(|c| c.kind.holds_messages()).map(|c| c.id);
    let channels: Vec<ChannelId> = channels.chain(guild.threads.iter().map(|(id, _)| id)).collect();
    for channel_id in channels {
        loop {
            let ids = api.node.store().messages_by(channel_id, user_id, from, DELETED_AT_ONCE).await?;
            let is_last = ids.len() < DELETED_AT_ONCE as usize;
            if !ids.is_empty() {
                let command = request::DeleteMessages(channel_id, ids);
                match api.node.command(guild_id, Actor::System, command).await {
                    // The channel was deleted concurrently.
                    Ok(_) | Err(Refusal::UnknownChannel) => {}
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

pub(super) async fn remove(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    api.done(&caller, params.id("guild_id")?, request::Unban(params.id("user_id")?)).await
}

/// Bans several; those that cannot be banned are named.
pub(super) async fn bulk(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let guild = api.request(&caller, guild_id, request::ReadGuild).await?;
    if !guild.permissions.contains(Permissions::BAN_MEMBERS | Permissions::MANAGE_GUILD) {
        return Err(ApiError::MISSING_PERMISSIONS);
    }
    let permit = ReadPermit::read_guild(&caller, &guild);
    let read = input.read(&api, permit, BodyLimits::FORM, |form| {
        let user_ids = form.required("user_ids", |v| form::list(v, 1, BULK_BAN_MAX, form::id));
        let delete_message_s = delete_message_s(form);
        Some((user_ids?, delete_message_s))
    });
    let (user_ids, delete_message_s) = read.await?;
    let (mut banned, mut failed): (Vec<UserId>, Vec<UserId>) = Default::default();
    let mut seen = HashSet::new();
    for user_id in user_ids.into_iter().filter(|user_id| seen.insert(*user_id)) {
        match ban(&api, &caller, guild_id, user_id, delete_message_s).await {
            Ok(()) => banned.push(user_id),
            Err(ApiError::Refused(Refusal::MissingPermissions | Refusal::UnknownUser)) => failed.push(user_id),
            Err(error) => return Err(error),
        }
    }
    if banned.is_empty() {
        return Err(ApiError::coded(StatusCode::BAD_REQUEST, 500_000, "Failed to ban users"));
    }
    Ok(Json(json!({"banned_users": banned, "failed_users": failed})).into_response())
}

/// Brings in an account that agreed to it: `access_token` is one of its own.
pub(super) async fn join(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let (guild_id, user_id): (GuildId, UserId) = (params.id("guild_id")?, params.id("user_id")?);
    let permit = ReadPermit::guild(&api, &caller, guild_id).await?;
    let read = input.read(&api, permit, BodyLimits::FORM, |form| {
        let token = form.required("access_token", |v| form::text(v, 1, guildhall_node::TOKEN_BYTES_MAX));
        let nick = form.optional("nick", super::members::nick_text);
        let roles: Vec<RoleId> = form.optional("roles", |v| form::list(v, 0, ROLES_MAX, form::id)).unwrap_or_default();
        let mute = form.optional("mute", form::boolean).unwrap_or(false);
        let deaf = form.optional("deaf", form::boolean).unwrap_or(false);
        Some((token?, nick, roles, mute, deaf))
    });
    let (token, nick, roles, mute, deaf) = read.await?;
    let invalid = || ApiError::coded(StatusCode::FORBIDDEN, 50025, "Invalid OAuth2 access token");
    let user = match api.node.authenticate(&token).await {
        Ok(account) if account.user.id == user_id => account.user,
        Ok(_) | Err(AuthError::Invalid(_)) => return Err(invalid()),
        Err(AuthError::NoLease) => return Err(ApiError::NoLease),
        Err(AuthError::Unavailable(_) | AuthError::KeysComing | AuthError::Busy(_)) => {
            return Err(ApiError::Overloaded);
        }
    };
    super::guilds::need_room_for_guild(&api, user_id, Some(guild_id)).await?;
    let nick = nick.filter(|nick| !nick.is_empty());
    let command = request::Join(Box::new(Join { user: user.clone(), nick, roles, mute, deaf }));
    let joined = api.request(&caller, guild_id, command).await?;
    api.node.settle_member(guild_id, &user).await?;
    match joined {
        Some(member) => Ok((StatusCode::CREATED, Json(MemberBody::from(&*member).for_rest())).into_response()),
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// The prune, and whether the client wants the number of members.
fn prune_form(api: &Api, form: &mut Form<'_>) -> (Prune, bool) {
    let days = form.optional("days", |v| form::integer(v, 1, PRUNE_DAYS_MAX)).unwrap_or(7);
    let roles = form.optional("include_roles", role_ids).unwrap_or_default();
    let wants_count = form.optional("compute_prune_count", form::boolean).unwrap_or(true);
    let joined_before = Timestamp(api.now().unix.0 - days * 86_400_000);
    (Prune { roles, joined_before, counts_only: false }, wants_count)
}

/// A list, or (in a query) ids with commas between.
fn role_ids(value: &serde_json::Value) -> form::Parsed<Vec<RoleId>> {
    match value.as_str() {
        Some("") => Ok(Vec::new()),
        Some(text) => {
            let ids = text.split(',').map(|id| json!(id)).collect();
            form::list(&serde_json::Value::Array(ids), 0, ROLES_MAX, form::id)
        }
        None => form::list(value, 0, ROLES_MAX, form::id),
    }
}

async fn pruned(api: &Api, caller: &Caller, guild_id: GuildId, prune: Prune) -> Result<u64, ApiError> {
    api.request(caller, guild_id, request::Prune(Box::new(prune))).await
}

/// How many would go.
pub(super) async fn count_prune(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let (prune, _) = query.read(|form| Some(prune_form(&api, form)))?;
    let count = pruned(&api, &caller, params.id("guild_id")?, Prune { counts_only: true, ..prune }).await?;
    Ok(Json(json!({"pruned": count})).into_response())
}

pub(super) async fn prune(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let permit = ReadPermit::guild(&api, &caller, guild_id).await?;
    let read = input.read(&api, permit, BodyLimits::FORM, |form| Some(prune_form(&api, form)));
    let (prune, wants_count) = read.await?;
    let count = pruned(&api, &caller, guild_id, prune).await?;
    Ok(Json(json!({"pruned": wants_count.then_some(count)})).into_response())
}
