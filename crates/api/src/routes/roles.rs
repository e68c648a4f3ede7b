//! Roles of a guild. Spec  docs/protocol.md §6.3, §10.4.

use super::PathParams;
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form::{self, Form},
    permit::ReadPermit,
    state::{Api, expect_reply},
};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Command, GuildReply, Refusal, RolePatch};
use guildhall_model::{GuildId, Permissions, Role, RoleId, from_gateway::RoleBody};
use std::sync::Arc;

const NAME_CHARS_MAX: usize = 100;
/// As many as a guild can have roles.
const MOVES_MAX: usize = 250;
const COLOR_MAX: i64 = 0xff_ffff;

fn body(role: &Role) -> Response {
    Json(RoleBody::from(role)).into_response()
}

async fn guild(api: &Api, caller: &Caller, guild_id: GuildId) -> Result<Box<GuildReply>, ApiError> {
    expect_reply!(api.ask(caller, guild_id, Command::ReadGuild).await?, Guild)
}

pub(super) async fn list(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<Response, ApiError> {
    let guild = guild(&api, &caller, params.id("guild_id")?).await?;
    Ok(Json(guild.meta.roles.values().map(|role| RoleBody::from(&**role)).collect::<Vec<_>>()).into_response())
}

pub(super) async fn read(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<Response, ApiError> {
    let role_id: RoleId = params.id("role_id")?;
    let guild = guild(&api, &caller, params.id("guild_id")?).await?;
    let role = guild.meta.roles.get(&role_id).ok_or(ApiError::Refused(Refusal::UnknownRole))?;
    Ok(body(role))
}

fn patch(form: &mut Form<'_>) -> Option<RolePatch> {
    let color = |v: &serde_json::Value| Ok(form::integer(v, 0, COLOR_MAX)? as u32);
    // The newer form, of which only the first colour is kept; it wins over the older one.
    let colors = form.optional("colors", |v| form::object(v, |form| form.required("primary_color", color)));
    let older = form.optional("color", color);
    Some(RolePatch {
        name: form.optional("name", |v| form::text(v, 1, NAME_CHARS_MAX)),
        color: colors.or(older),
        hoist: form.optional("hoist", form::boolean),
        position: form.optional("position", |v| Ok(form::integer(v, 0, i64::from(i32::MAX))? as i32)),
        permissions: form.optional("permissions", form::permissions),
        mentionable: form.optional("mentionable", form::boolean),
    })
}

pub(super) async fn create(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let permit = ReadPermit::guild(&api, &caller, guild_id).await?;
    let wish = input.read(&api, permit, BodyLimits::PICTURE, patch).await?;
    let permissions = match wish.permissions {
        Some(permissions) => permissions,
        // Unless told otherwise, a new role grants what everybody has anyway.
        None => {
            let guild = guild(&api, &caller, guild_id).await?;
            guild.meta.roles.get(&guild_id.cast()).map_or(Permissions::NONE, |everyone| everyone.permissions)
        }
    };
    let role = Role {
        id: RoleId::new(0),
        name: wish.name.unwrap_or_else(|| "new role".to_owned()),
        color: wish.color.unwrap_or(0),
        hoist: wish.hoist.unwrap_or(false),
        position: 1,
        permissions,
        managed: false,
        mentionable: wish.mentionable.unwrap_or(false),
    };
    let role = expect_reply!(api.ask(&caller, guild_id, Command::CreateRole(Box::new(role))).await?, Role)?;
    Ok(body(&role))
}

/// Puts several into order. Answered with all, as they are then.
pub(super) async fn move_all(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let permit = ReadPermit::guild(&api, &caller, guild_id).await?;
    let input = input.json(&api, permit, BodyLimits::LIST).await?;
    let moves = form::list(&input.value, 0, MOVES_MAX, |value| {
        form::object(value, |form| {
            let id: Option<RoleId> = form.required("id", form::id);
            let position = form.optional("position", |v| form::integer(v, 0, i64::from(i32::MAX)));
            Some((id?, position.map(|position| position as i32)))
        })
    })?;
    let moves = moves.into_iter().filter_map(|(id, position)| Some((id, position?))).collect();
    api.ask(&caller, guild_id, Command::MoveRoles(moves)).await?;
    let guild = guild(&api, &caller, guild_id).await?;
    Ok(Json(guild.meta.roles.values().map(|role| RoleBody::from(&**role)).collect::<Vec<_>>()).into_response())
}

pub(super) async fn update(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let (guild_id, role_id) = (params.id("guild_id")?, params.id("role_id")?);
    let before = guild(&api, &caller, guild_id).await?;
    let role = before.meta.roles.get(&role_id).ok_or(ApiError::Refused(Refusal::UnknownRole))?;
    let permit = ReadPermit::in_guild(&caller, &before, role);
    let patch = input.read(&api, permit, BodyLimits::PICTURE, patch).await?;
    let command = Command::UpdateRole(role_id, Box::new(patch));
    let role = expect_reply!(api.ask(&caller, guild_id, command).await?, Role)?;
    Ok(body(&role))
}

pub(super) async fn delete(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<StatusCode, ApiError> {
    api.ask(&caller, params.id("guild_id")?, Command::DeleteRole(params.id("role_id")?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_forms_of_a_colour() {
        let color = |body: serde_json::Value| form::object(&body, patch).map(|patch| patch.color);
        assert_eq!(color(json!({"color": 5})), Ok(Some(5)));
        assert_eq!(color(json!({"color": 5, "colors": {"primary_color": 6, "secondary_color": null}})), Ok(Some(6)));
        assert_eq!(color(json!({})), Ok(None));
        assert!(color(json!({"color": 0x100_0000})).is_err());
    }
}
