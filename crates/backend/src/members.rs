//! Members of a guild: listed, read, put, changed, removed.
//!
//! Limits      pages of 1,000, of a snapshot: the guild itself is held up by none of it.

use super::{
    V1,
    caller::{Caller, Read, Write},
    change,
    dto::{MemberBody, MemberChange, MemberPut, check_not_everyone},
    error::V1Error,
    external,
    extract::{Body, Changes, Path, Query},
    guilds,
    guilds::Page,
    put_status,
    types::AnyId,
};
use axum::{Json, extract::State, http::StatusCode};
use guildhall_guild::{Expected, NewMember, request};
use guildhall_model::{GuildId, Member, User, UserId};
use guildhall_store::ExternalKind;
use std::sync::Arc;

async fn member(v1: &V1, guild_id: GuildId, user_id: UserId) -> Result<Arc<Member>, V1Error> {
    v1.request(guild_id, request::ReadMember(user_id)).await
}

async fn account(v1: &V1, user_id: UserId) -> Result<Arc<User>, V1Error> {
    v1.in_time(v1.node.user(user_id)).await??.ok_or_else(|| V1Error::not_found("user: put it with PUT /v1/users first"))
}

async fn put_member(
    v1: &V1,
    guild_id: GuildId,
    new: NewMember,
    expected: Expected<Member>,
) -> Result<(StatusCode, Json<MemberBody>), V1Error> {
    let put = v1.request(guild_id, request::PutMember(Box::new(new), expected)).await?;
    Ok((put_status(&put), Json(body_of(v1, &put.value).await?)))
}

async fn body_of(v1: &V1, member: &Member) -> Result<MemberBody, V1Error> {
    let mut body = MemberBody::from(member);
    body.user.fields.external_id = Some(external::text(v1, ExternalKind::User, member.user.id.get()).await?);
    Ok(body)
}

/// Lists the members of a guild, by id
#[utoipa::path(get, path = "/v1/guilds/{guild_id}/members", tag = "members",
    params(("guild_id" = AnyId, Path), Page),
    responses((status = 200, body = Vec<MemberBody>), (status = 404, body = V1Error)))]
pub(super) async fn list(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    path: Path,
    Query(page): Query<Page>,
) -> Result<Json<Vec<MemberBody>>, V1Error> {
    let members = v1.request(path.id("guild_id")?, request::ReadMembers).await?;
    let some = members.iter_after(page.after()).take(page.limit() as usize);
    let mut bodies: Vec<_> = some.map(|entry| MemberBody::from(&*entry.member)).collect();
    let mut texts = external::texts(&v1, ExternalKind::User, bodies.iter().map(|body| body.user.id.0)).await?;
    for body in &mut bodies {
        body.user.fields.external_id = Some(texts.remove(&body.user.id.0));
    }
    Ok(Json(bodies))
}

/// Reads a member
#[utoipa::path(get, path = "/v1/guilds/{guild_id}/members/{user_id}", tag = "members",
    params(("guild_id" = AnyId, Path), ("user_id" = AnyId, Path)),
    responses((status = 200, body = MemberBody), (status = 404, body = V1Error)))]
pub(super) async fn read(_: Caller<Read>, State(v1): State<Arc<V1>>, path: Path) -> Result<Json<MemberBody>, V1Error> {
    let member = member(&v1, path.id("guild_id")?, path.id("user_id")?).await?;
    Ok(Json(body_of(&v1, &member).await?))
}

/// Adds an account to a guild, or replaces the member
///
/// Live sessions of the account enter the guild at once.
#[utoipa::path(put, path = "/v1/guilds/{guild_id}/members/{user_id}", tag = "members",
    params(("guild_id" = AnyId, Path), ("user_id" = AnyId, Path)), request_body = MemberPut,
    responses((status = 200, description = "They were a member, and are like this now", body = MemberBody),
              (status = 201, description = "They joined", body = MemberBody), (status = 404, body = V1Error)))]
pub(super) async fn put(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<MemberPut>,
) -> Result<(StatusCode, Json<MemberBody>), V1Error> {
    let (guild_id, user_id) = (path.id("guild_id")?, path.id("user_id")?);
    // A missing guild is reported before a missing account.
    guilds::reply(&v1, guild_id).await?;
    let user = account(&v1, user_id).await?;
    let input = body.read(&v1, caller.permit_for(&user)).await?;
    check_not_everyone(guild_id, &input.roles)?;
    let put = put_member(&v1, guild_id, input.into_member(user.clone()), None).await?;
    v1.in_time(v1.node.settle_member(guild_id, &user)).await??;
    Ok(put)
}

/// Changes some fields of a member
#[utoipa::path(patch, path = "/v1/guilds/{guild_id}/members/{user_id}", tag = "members",
    params(("guild_id" = AnyId, Path), ("user_id" = AnyId, Path)), request_body = MemberChange,
    responses((status = 200, body = MemberBody), (status = 404, body = V1Error), (status = 409, body = V1Error)))]
pub(super) async fn update(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    changes: Changes,
) -> Result<Json<MemberBody>, V1Error> {
    let (guild_id, user_id) = (path.id("guild_id")?, path.id("user_id")?);
    let patch = changes.read(&v1, caller.permit_for(&member(&v1, guild_id, user_id).await?)).await?;
    let (v1, patch) = (&*v1, &patch);
    change(|| async move {
        let before = member(v1, guild_id, user_id).await?;
        let after: MemberPut = patch.apply(&MemberPut::from(&*before))?;
        check_not_everyone(guild_id, &after.roles)?;
        let after = after.into_member(before.user.clone());
        let put = put_member(v1, guild_id, after, Some(before.clone())).await?.1;
        v1.in_time(v1.node.settle_member(guild_id, &before.user)).await??;
        Ok(put)
    })
    .await
}

/// Removes a member
#[utoipa::path(delete, path = "/v1/guilds/{guild_id}/members/{user_id}", tag = "members",
    params(("guild_id" = AnyId, Path), ("user_id" = AnyId, Path)),
    responses((status = 204, description = "They are no member any more"), (status = 404, body = V1Error),
              (status = 409, description = "The owner stays: transfer the guild to another member first", body = V1Error)))]
pub(super) async fn delete(_: Caller<Write>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    let (guild_id, user_id) = (path.id("guild_id")?, path.id("user_id")?);
    if guilds::reply(&v1, guild_id).await?.structure.guild.owner_id == user_id {
        return Err(V1Error::conflict("The owner stays: PATCH the guild's owner_id first, or delete the guild."));
    }
    v1.request(guild_id, request::RemoveMember(user_id)).await?;
    Ok(StatusCode::NO_CONTENT)
}
