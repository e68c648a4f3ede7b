//! Roles of a guild. Spec  docs/protocol/reference.md §6.3, §10.4.

use super::{
    Call,
    guilds::{guild, guild_of_path, need},
};
use crate::{
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form::{self, Form},
    permit::ReadPermit,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{NewRole, Refusal, RolePatch, request};
use guildhall_media::{Picture, PictureRule, hash_of};
use guildhall_model::{Permissions, Role, RoleIcon, RoleId, from_gateway::RoleBody, is_unicode_emoji};
use guildhall_store::{PictureOwner, role_picture};

const NAME_CHARS_MAX: usize = 100;
/// As many as a guild can have roles.
const MOVES_MAX: usize = 250;
const COLOR_MAX: i64 = 0xff_ffff;
/// Sequences with modifiers have up to a dozen.
const EMOJI_CHARS_MAX: usize = 32;

fn body(role: &Role) -> Response {
    Json(RoleBody::from(role)).into_response()
}

pub(super) async fn list(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    Ok(Json(guild.structure.roles.values().map(|role| RoleBody::from(&**role)).collect::<Vec<_>>()).into_response())
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let role_id: RoleId = params.id("role_id")?;
    let guild = guild_of_path(&api, &caller, &params).await?;
    let role = guild.structure.roles.get(&role_id).ok_or(ApiError::Refused(Refusal::UnknownRole))?;
    Ok(body(role))
}

/// A role's icon: a picture, or a unicode emoji. Each takes the place of the other.
fn icon(form: &mut Form<'_>, rule: PictureRule) -> (Option<Option<RoleIcon>>, Option<Picture>) {
    let picture = form.picture("icon", rule);
    let emoji = form.nullable("unicode_emoji", |v| form::text(v, 0, EMOJI_CHARS_MAX));
    let emoji = emoji.map(|emoji| emoji.filter(|emoji| !emoji.is_empty()));
    let icon = match (hash_of(&picture), emoji) {
        (Some(Some(hash)), _) => Some(Some(RoleIcon::Picture(hash))),
        (_, Some(Some(emoji))) => Some(Some(RoleIcon::Emoji(emoji.into()))),
        (None, None) => None,
        _ => Some(None),
    };
    (icon, picture.flatten())
}

/// Refuses a text that is no emoji.
fn need_emoji(icon: Option<&RoleIcon>) -> Result<(), ApiError> {
    match icon {
        Some(RoleIcon::Emoji(emoji)) if !is_unicode_emoji(emoji) => Err(ApiError::UNKNOWN_EMOJI),
        _ => Ok(()),
    }
}

/// The picture by the name that its role and its hash make.
fn named(role_id: RoleId, picture: Option<Picture>) -> Vec<(String, Picture)> {
    picture.into_iter().map(|picture| (role_picture(role_id, &picture.hash), picture)).collect()
}

fn patch(form: &mut Form<'_>) -> Option<RolePatch> {
    let color = |v: &serde_json::Value| Ok(form::integer(v, 0, COLOR_MAX)? as u32);
    // The newer form, of which only the first colour is kept; it wins over the older one.
    let colors = form.optional("colors", |v| form::object(v, |form| form.required("primary_color", color)));
    let older = form.optional("color", color);
    Some(RolePatch {
        name: form.optional("name", |v| form::name(v, 1, NAME_CHARS_MAX)),
        color: colors.or(older),
        hoist: form.optional("hoist", form::boolean),
        position: form.optional("position", |v| Ok(form::integer(v, 0, i64::from(i32::MAX))? as i32)),
        permissions: form.optional("permissions", form::permissions),
        mentionable: form.optional("mentionable", form::boolean),
        icon: None,
    })
}

pub(super) async fn create(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let guild = guild(&api, &caller, guild_id).await?;
    let permit = ReadPermit::read_guild(&caller, &guild);
    let rule = PictureRule::small(&api.media);
    let input = input.json(&api, permit, BodyLimits::PICTURE).await?;
    let (wish, (icon, picture)) = input.read(|form| {
        let icon = icon(form, rule);
        Some((patch(form)?, icon))
    })?;
    need(&guild, Permissions::MANAGE_ROLES)?;
    need_emoji(icon.as_ref().and_then(Option::as_ref))?;
    let everyone = guild.structure.roles.get(&guild_id.cast());
    // By default a new role grants the permissions of `@everyone`.
    let permissions = wish.permissions.or(everyone.map(|everyone| everyone.permissions)).unwrap_or(Permissions::NONE);
    let id: RoleId = api.node.next_id().await?;
    let new = NewRole {
        id: Some(id),
        name: wish.name.unwrap_or_else(|| "new role".to_owned()),
        color: wish.color.unwrap_or(0),
        hoist: wish.hoist.unwrap_or(false),
        position: 1,
        permissions,
        managed: false,
        mentionable: wish.mentionable.unwrap_or(false),
        icon: icon.flatten(),
    };
    let (owner, pictures) = (PictureOwner::Guild(guild_id), named(id, picture));
    let held = api.media.hold_pictures(caller.id.get(), owner, pictures).await?;
    let created = api.request(&caller, guild_id, request::CreateRole(Box::new(new))).await;
    let role = held.settled(created).await?;
    Ok(body(&role))
}

/// Puts several into order. Answered with all, as they are then.
pub(super) async fn move_all(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
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
    api.request(&caller, guild_id, request::MoveRoles(moves)).await?;
    let guild = guild(&api, &caller, guild_id).await?;
    Ok(Json(guild.structure.roles.values().map(|role| RoleBody::from(&**role)).collect::<Vec<_>>()).into_response())
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let (guild_id, role_id) = (params.id("guild_id")?, params.id("role_id")?);
    let before = guild(&api, &caller, guild_id).await?;
    let role = before.structure.roles.get(&role_id).ok_or(ApiError::Refused(Refusal::UnknownRole))?;
    let permit = ReadPermit::in_guild(&caller, &before, role);
    let rule = PictureRule::small(&api.media);
    let input = input.json(&api, permit, BodyLimits::PICTURE).await?;
    let (patch, picture) = input.read(|form| {
        let (icon, picture) = icon(form, rule);
        Some((RolePatch { icon, ..patch(form)? }, picture))
    })?;
    need(&before, Permissions::MANAGE_ROLES)?;
    need_emoji(patch.icon.as_ref().and_then(Option::as_ref))?;
    let (owner, pictures) = (PictureOwner::Guild(guild_id), named(role_id, picture));
    let held = match patch.icon {
        Some(_) => Some(api.media.hold_pictures(caller.id.get(), owner, pictures).await?),
        None => None,
    };
    let updated = api.request(&caller, guild_id, request::UpdateRole(role_id, Box::new(patch))).await;
    let updated = match held {
        Some(held) => held.settled(updated).await,
        None => updated,
    };
    let role = updated?;
    Ok(body(&role))
}

pub(super) async fn delete(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    api.delete_with_pictures(&caller, params.id("guild_id")?, request::DeleteRole(params.id("role_id")?)).await
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
