//! Roles of a guild: listed, read, put, changed, deleted.

use super::{
    V1,
    caller::{Caller, Read, Write},
    change,
    dto::{RoleBody, RoleChange, RolePut},
    error::V1Error,
    extract::{Body, Changes, Path},
    guilds, put_status,
    types::{AnyId, Snowflake, check_new_id},
};
use axum::{Json, extract::State, http::StatusCode};
use guildhall_guild::{Expected, request};
use guildhall_model::{GuildId, Role, RoleId};
use std::sync::Arc;

async fn role(v1: &V1, guild_id: GuildId, role_id: RoleId) -> Result<Arc<Role>, V1Error> {
    let guild = guilds::reply(v1, guild_id).await?;
    guild.structure.roles.get(&role_id).cloned().ok_or_else(|| V1Error::not_found("role"))
}

async fn put_role(
    v1: &V1,
    guild_id: GuildId,
    role: Role,
    expected: Expected<Role>,
) -> Result<(StatusCode, Json<RoleBody>), V1Error> {
    let put = v1.request(guild_id, request::PutRole(Box::new(role), expected)).await?;
    Ok((put_status(&put), Json(RoleBody::from(&*put.value))))
}

/// Lists the roles of a guild
#[utoipa::path(get, path = "/v1/guilds/{guild_id}/roles", tag = "roles", params(("guild_id" = AnyId, Path)),
    responses((status = 200, body = Vec<RoleBody>), (status = 404, body = V1Error)))]
pub(super) async fn list(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<Vec<RoleBody>>, V1Error> {
    let guild = guilds::reply(&v1, path.id("guild_id")?).await?;
    Ok(Json(guild.structure.roles.values().map(|role| RoleBody::from(&**role)).collect()))
}

/// Reads one role of a guild
#[utoipa::path(get, path = "/v1/guilds/{guild_id}/roles/{role_id}", tag = "roles",
    params(("guild_id" = AnyId, Path), ("role_id" = Snowflake, Path)),
    responses((status = 200, body = RoleBody), (status = 404, body = V1Error)))]
pub(super) async fn read(_: Caller<Read>, State(v1): State<Arc<V1>>, path: Path) -> Result<Json<RoleBody>, V1Error> {
    Ok(Json(RoleBody::from(&*role(&v1, path.id("guild_id")?, path.id("role_id")?).await?)))
}

/// Creates or replaces the role with this id
///
/// The role with the guild's id is `@everyone`.
#[utoipa::path(put, path = "/v1/guilds/{guild_id}/roles/{role_id}", tag = "roles",
    params(("guild_id" = AnyId, Path), ("role_id" = Snowflake, Path)), request_body = RolePut,
    responses((status = 200, description = "It was there, and is like this now", body = RoleBody),
              (status = 201, description = "It was made", body = RoleBody),
              (status = 404, body = V1Error), (status = 409, body = V1Error)))]
pub(super) async fn put(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<RolePut>,
) -> Result<(StatusCode, Json<RoleBody>), V1Error> {
    let (guild_id, role_id): (GuildId, RoleId) = (path.id("guild_id")?, path.id("role_id")?);
    let permit = caller.permit_for(&guilds::reply(&v1, guild_id).await?);
    let input = body.read(&v1, permit).await?;
    if role_id != guild_id.cast() {
        check_new_id(&v1, "role_id", role_id)?;
    }
    put_role(&v1, guild_id, input.into_role(role_id), None).await
}

/// Changes some fields of a role
#[utoipa::path(patch, path = "/v1/guilds/{guild_id}/roles/{role_id}", tag = "roles",
    params(("guild_id" = AnyId, Path), ("role_id" = Snowflake, Path)), request_body = RoleChange,
    responses((status = 200, body = RoleBody), (status = 404, body = V1Error), (status = 409, body = V1Error)))]
pub(super) async fn update(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    changes: Changes,
) -> Result<Json<RoleBody>, V1Error> {
    let (guild_id, role_id) = (path.id("guild_id")?, path.id("role_id")?);
    let patch = changes.read(&v1, caller.permit_for(&role(&v1, guild_id, role_id).await?)).await?;
    let (v1, patch) = (&*v1, &patch);
    change(|| async move {
        let before = role(v1, guild_id, role_id).await?;
        let after = patch.apply(&RolePut::from(&*before))?.into_role(role_id);
        Ok(put_role(v1, guild_id, after, Some(before)).await?.1)
    })
    .await
}

/// Deletes a role, and removes it from its members
#[utoipa::path(delete, path = "/v1/guilds/{guild_id}/roles/{role_id}", tag = "roles",
    params(("guild_id" = AnyId, Path), ("role_id" = Snowflake, Path)),
    responses((status = 204, description = "It is gone"), (status = 404, body = V1Error),
              (status = 409, description = "`@everyone` stays", body = V1Error)))]
pub(super) async fn delete(_: Caller<Write>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    v1.request(path.id("guild_id")?, request::DeleteRole(path.id("role_id")?)).await?;
    Ok(StatusCode::NO_CONTENT)
}
