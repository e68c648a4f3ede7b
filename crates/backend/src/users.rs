//! Users: accounts, read, put, changed, deleted.
//!
//! Invariants  every guild an account is in has it as it was put last, once the answer is there.
//! Limits      a changed account costs one command for each of its guilds, `GUILDS_AT_ONCE` at a time.

use super::{
    V1,
    caller::{Caller, Read, Write},
    delete_user::Deletion,
    dto::{UserBody, UserChange, UserPut},
    error::V1Error,
    external::{self, Target},
    extract::{Body, Changes, Check, FieldErrors, Path, Query},
    guilds::{self, PageQuery},
    jobs::JobBody,
    tokens,
    types::{AnyId, Snowflake, check_new_id},
};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use futures_util::{StreamExt as _, TryStreamExt as _};
use guildhall_guild::{Actor, Refusal, Request, request};
use guildhall_model::{GuildId, User, UserId};
use guildhall_node::{ChangedUser, as_deleted, is_deleted};
use guildhall_store::ExternalKind;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Guilds that are notified of a change at the same time.
const GUILDS_AT_ONCE: usize = 16;
/// Rounds in query guilds are notified; each change by others meanwhile costs one.
const ROUNDS_MAX: usize = 16;

async fn account(v1: &V1, user_id: UserId) -> Result<Arc<User>, V1Error> {
    v1.in_time(v1.node.user(user_id)).await??.ok_or_else(|| V1Error::not_found("user"))
}

/// Sends a request to every guild of an account. Guilds that it has left, or that were deleted, are skipped.
async fn request_in_guilds<R: Request + Clone>(v1: &V1, user_id: UserId, request: R) -> Result<(), V1Error> {
    let guild_ids = v1.in_time(v1.node.guilds_of_user(user_id)).await??;
    let requests = futures_util::stream::iter(guild_ids).map(|guild_id| {
        let request = request.clone();
        async move {
            match v1.in_time(v1.node.command(guild_id, Actor::System, request)).await? {
                Ok(_) | Err(Refusal::UnknownGuild | Refusal::UnknownMember) => Ok(()),
                Err(refusal) => Err(V1Error::from(refusal)),
            }
        }
    });
    requests.buffer_unordered(GUILDS_AT_ONCE).try_collect().await
}

/// Changes an account by the form that a request brings, unless it is being deleted. Its guilds have it as it is now
/// when this returns.
async fn change_user(
    v1: &V1,
    user_id: UserId,
    form: impl FnMut(Option<&User>) -> Result<User, V1Error> + Send,
) -> Result<ChangedUser, V1Error> {
    let check = || v1.jobs.need_untouched(v1, user_id);
    let changed = v1.in_time(v1.node.change_user(user_id, check, form)).await??;
    for _ in 0..ROUNDS_MAX {
        let Some((user, version)) = v1.in_time(v1.node.stored_user(user_id)).await?? else { break };
        request_in_guilds(v1, user_id, request::RefreshUser(user)).await?;
        // The last state that the guilds get is the newest: a caller whose version is no longer stored repeats this.
        if v1.in_time(v1.node.is_version(user_id, version)).await?? {
            break;
        }
    }
    Ok(changed)
}

/// An account that was not deleted.
fn need_live(before: Option<&User>) -> Result<&User, V1Error> {
    before.filter(|user| !is_deleted(user)).ok_or_else(|| V1Error::not_found("user"))
}

/// A page of accounts.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Users {
    /// By ascending id. Fewer than `limit` on the last page.
    users: Vec<UserBody>,
}

/// Lists all accounts, or the one with an external id
#[utoipa::path(get, path = "/v1/users", tag = "users", params(PageQuery), responses((status = 200, body = Users)))]
pub(super) async fn list(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Users>, V1Error> {
    let users = match &query.external_id {
        Some(text) => match external::id_of(&v1, ExternalKind::User, text).await? {
            Some(id) => v1.in_time(v1.node.user(UserId::new(id))).await??.into_iter().collect(),
            None => Vec::new(),
        },
        None => v1.in_time(v1.node.store().users(query.after(), query.limit())).await??,
    };
    let mut texts = external::texts(&v1, ExternalKind::User, users.iter().map(|user| user.id.get())).await?;
    let body = |user: &Arc<User>| UserBody::from(&**user).with_external_id(texts.remove(&user.id.get()));
    Ok(Json(Users { users: users.iter().map(body).collect() }))
}

/// Reads an account
#[utoipa::path(get, path = "/v1/users/{user_id}", tag = "users", params(("user_id" = AnyId, Path)),
    responses((status = 200, body = UserBody), (status = 404, body = V1Error)))]
pub(super) async fn read(_: Caller<Read>, State(v1): State<Arc<V1>>, path: Path) -> Result<Json<UserBody>, V1Error> {
    let user = account(&v1, path.id("user_id")?).await?;
    let text = external::text(&v1, ExternalKind::User, user.id.get()).await?;
    Ok(Json(UserBody::from(&*user).with_external_id(text)))
}

/// Creates or replaces the account with this id
#[utoipa::path(put, path = "/v1/users/{user_id}", tag = "users", params(("user_id" = AnyId, Path)),
    request_body = UserPut,
    responses((status = 200, description = "It was there, and is like this now", body = UserBody),
              (status = 201, description = "It was made", body = UserBody),
              (status = 409, description = "A bot stays a bot, a user a user; another account has the external id", body = V1Error)))]
pub(super) async fn put(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<UserPut>,
) -> Result<(StatusCode, Json<UserBody>), V1Error> {
    let target = Target::of(&v1, &path, "user_id").await?;
    let user_id: UserId = target.id;
    // Before the lock: no request waits for the body of another.
    let input = body.read(&v1, caller.permit()).await?;
    let wanted = target.wanted(input.external_id.clone())?;
    let put = put_whole(&v1, user_id, input);
    let ((status, body), text) = external::put_with(&v1, ExternalKind::User, user_id.get(), wanted, put).await?;
    Ok((status, Json(body.with_external_id(text))))
}

/// Refuses to make a bot of a user, or a user of a bot.
fn need_same_kind(before: &User, is_bot: bool) -> Result<(), V1Error> {
    if before.bot == is_bot {
        return Ok(());
    }
    Err(other_kind())
}

pub(super) fn other_kind() -> V1Error {
    V1Error::conflict("An account cannot change between bot and user: choose another id.")
}

async fn put_whole(v1: &V1, user_id: UserId, input: UserPut) -> Result<(StatusCode, UserBody), V1Error> {
    let wanted = input.into_user(user_id);
    let form = |before: Option<&User>| {
        match before {
            Some(before) => need_same_kind(before, wanted.bot)?,
            None => check_new_id(v1, "user_id", user_id)?,
        }
        Ok(wanted.clone())
    };
    let changed = change_user(v1, user_id, form).await?;
    let status = if changed.before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, UserBody::from(&*changed.user)))
}

/// Changes some fields of an account
#[utoipa::path(patch, path = "/v1/users/{user_id}", tag = "users", params(("user_id" = AnyId, Path)),
    request_body = UserChange,
    responses((status = 200, body = UserBody), (status = 404, body = V1Error), (status = 409, body = V1Error)))]
pub(super) async fn update(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    changes: Changes,
) -> Result<Json<UserBody>, V1Error> {
    let user_id: UserId = path.id("user_id")?;
    let patch = changes.read(&v1, caller.permit_for(&account(&v1, user_id).await?)).await?;
    let wanted = patch.apply(&UserPut::from(&*account(&v1, user_id).await?))?.external_id;
    let form = |before: Option<&User>| {
        let before = need_live(before)?;
        let after = patch.apply(&UserPut::from(before))?.into_user(user_id);
        need_same_kind(before, after.bot)?;
        Ok(after)
    };
    let put = async { Ok(UserBody::from(&*change_user(&v1, user_id, form).await?.user)) };
    let (body, text) = external::put_with(&v1, ExternalKind::User, user_id.get(), wanted, put).await?;
    Ok(Json(body.with_external_id(text)))
}

/// Guilds of an account.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GuildsOfUser {
    /// Ids in ascending order.
    guild_ids: Vec<Snowflake>,
}

/// Lists the guilds of an account
#[utoipa::path(get, path = "/v1/users/{user_id}/guilds", tag = "users", params(("user_id" = AnyId, Path)),
    responses((status = 200, body = GuildsOfUser), (status = 404, body = V1Error)))]
pub(super) async fn guilds(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<GuildsOfUser>, V1Error> {
    let user_id = path.id("user_id")?;
    account(&v1, user_id).await?;
    let guild_ids = v1.in_time(v1.node.guilds_of_user(user_id)).await??;
    Ok(Json(GuildsOfUser { guild_ids: guild_ids.into_iter().map(Into::into).collect() }))
}

/// Treatment of an account's messages.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Content {
    /// Deletes its messages, in the background.
    erase: Option<bool>,
    /// Assigns its messages and the guilds that it owns to another account, in the background.
    reassign: Option<AnyId>,
}

impl Check for Content {
    fn check(&self, faults: &mut FieldErrors) {
        if self.erase == Some(true) && self.reassign.is_some() {
            faults.add("erase", "Content is erased or reassigned: leave one of them out.");
        }
    }
}

/// Deletes an account: it leaves all guilds, its tokens are revoked, its sessions end
///
/// Its messages stay as they are. With `erase` or `reassign` a job deletes them or gives them to another account; the
/// answer is 202.
#[utoipa::path(delete, path = "/v1/users/{user_id}", tag = "users", params(("user_id" = AnyId, Path), Content),
    responses((status = 202, description = "The account is locked out, and the job goes on with what it wrote", body = JobBody),
              (status = 204, description = "It is gone"), (status = 404, body = V1Error),
              (status = 409, description = "It owns a guild", body = V1Error)))]
pub(super) async fn delete(
    _: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    Query(content): Query<Content>,
) -> Result<Response, V1Error> {
    let user_id: UserId = path.id("user_id")?;
    let before = account(&v1, user_id).await?;
    match (&content.reassign, content.erase) {
        (None, Some(true)) => {
            if v1.jobs.unfinished(&v1, user_id).await?.is_none() {
                need_no_guild(&v1, user_id, " Or send ?reassign=ID instead of ?erase=true.").await?;
            }
            begin_deletion(&v1, Deletion::new(user_id, None)).await
        }
        (Some(heir), _) => {
            let heir = external::id_in(&v1, ExternalKind::User, "reassign", heir).await?;
            if heir == user_id {
                return Err(V1Error::field("reassign", "Must be another account than the one that is deleted."));
            }
            let user = v1.in_time(v1.node.user(heir)).await??;
            if user.is_none_or(|user| is_deleted(&user)) {
                return Err(V1Error::field("reassign", "There is no such account: put it first."));
            }
            v1.jobs.need_untouched(&v1, heir).await?;
            begin_deletion(&v1, Deletion::new(user_id, Some(heir))).await
        }
        (None, _) => delete_only(&v1, user_id, &before).await,
    }
}

/// The account is locked before the answer; a job does the rest.
async fn begin_deletion(v1: &V1, deletion: Deletion) -> Result<Response, V1Error> {
    let user_id = deletion.user_id;
    let job = v1.jobs.add(v1, deletion).await?;
    tokens::revoke_user_tokens(v1, user_id).await?;
    Ok((StatusCode::ACCEPTED, Json(job)).into_response())
}

async fn delete_only(v1: &V1, user_id: UserId, before: &User) -> Result<Response, V1Error> {
    v1.jobs.need_untouched(v1, user_id).await?;
    need_live(Some(before))?;
    need_no_guild(v1, user_id, "").await?;
    tokens::revoke_user_tokens(v1, user_id).await?;
    request_in_guilds(v1, user_id, request::RemoveMember(user_id)).await?;
    let check = || v1.jobs.need_untouched(v1, user_id);
    let form = |before: Option<&User>| need_live(before).map(as_deleted);
    v1.in_time(v1.node.change_user(user_id, check, form)).await??;
    // Those that were minted since the first time; from here on none is.
    tokens::revoke_user_tokens(v1, user_id).await?;
    v1.in_time(v1.node.remove_settings_proto(user_id)).await??;
    v1.in_time(v1.node.remove_read_states(user_id)).await??;
    v1.in_time(v1.node.remove_notification_settings(user_id)).await??;
    v1.in_time(v1.node.remove_relationships(user_id)).await??;
    external::release(v1, ExternalKind::User, user_id.get()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn need_no_guild(v1: &V1, user_id: UserId, hint: &str) -> Result<(), V1Error> {
    match owned_guild(v1, user_id).await? {
        None => Ok(()),
        Some(guild_id) => Err(V1Error::conflict(format!(
            "The account owns the guild {guild_id}: transfer the guild to another member, or delete it, first.{hint}"
        ))),
    }
}

async fn owned_guild(v1: &V1, user_id: UserId) -> Result<Option<GuildId>, V1Error> {
    for guild_id in v1.in_time(v1.node.guilds_of_user(user_id)).await?? {
        match guilds::reply(v1, guild_id).await {
            Ok(guild) if guild.structure.guild.owner_id == user_id => return Ok(Some(guild_id)),
            Ok(_) => {}
            Err(error) if error.code == "not_found" => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
