//! Emoji of a guild. Spec  docs/protocol/reference.md §6.7, §10.4.

use super::{Call, guilds::guild_of_path};
use crate::{
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form::{self, FieldError, Parsed},
    permit::ReadPermit,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{EmojiPatch, GuildReply, NewEmoji, request};
use guildhall_media::PictureRule;
use guildhall_model::{Emoji, EmojiId, Permissions, RoleId, from_gateway::EmojiBody};
use guildhall_store::{PictureOwner, emoji_picture};
use serde_json::Value;
use std::collections::BTreeSet;

const ROLES_MAX: usize = 250;

/// Two to 32 letters, digits and underscores.
fn emoji_name(value: &Value) -> Parsed<String> {
    let name = form::text(value, 2, 32)?;
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Ok(name);
    }
    Err(FieldError::new("STRING_TYPE_REGEX", "String value did not match validation regex.").into())
}

/// Checks the permission to add an emoji or sticker before its picture is written. The guild checks again.
pub(super) fn need_to_create(guild: &GuildReply) -> Result<(), ApiError> {
    let any = Permissions::CREATE_GUILD_EXPRESSIONS | Permissions::MANAGE_GUILD_EXPRESSIONS;
    if guild.permissions.intersects(any) { Ok(()) } else { Err(ApiError::MISSING_PERMISSIONS) }
}

fn roles(value: &Value) -> Parsed<Vec<RoleId>> {
    let roles: BTreeSet<RoleId> = form::present(value, ROLES_MAX, form::id)?.into_iter().collect();
    Ok(roles.into_iter().collect())
}

pub(super) async fn list(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    Ok(Json(guild.structure.guild.emojis.iter().map(|emoji| EmojiBody::from(emoji).for_rest()).collect::<Vec<_>>())
        .into_response())
}

fn find(guild: &GuildReply, id: EmojiId) -> Result<&Emoji, ApiError> {
    guild.structure.guild.emojis.iter().find(|emoji| emoji.id == id).ok_or(ApiError::UNKNOWN_EMOJI)
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let id: EmojiId = params.id("emoji_id")?;
    let guild = guild_of_path(&api, &caller, &params).await?;
    Ok(Json(EmojiBody::from(find(&guild, id)?).for_rest()).into_response())
}

pub(super) async fn create(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let guild = guild_of_path(&api, &caller, &params).await?;
    let permit = ReadPermit::read_guild(&caller, &guild);
    let rule = PictureRule::small(&api.media);
    let input = input.json(&api, permit, BodyLimits::PICTURE).await?;
    let (name, image, roles) = input.read(|form| {
        let name = form.required("name", emoji_name);
        let image = form.required("image", |v| rule.parse(v));
        let roles = form.optional("roles", roles).unwrap_or_default();
        Some((name?, image?, roles))
    })?;
    need_to_create(&guild)?;
    let id: EmojiId = api.node.next_id().await?;
    let new = NewEmoji { id: Some(id), name, animated: image.is_animated(), roles };
    let (owner, pictures) = (PictureOwner::Guild(guild_id), vec![(emoji_picture(id), image)]);
    let held = api.media.hold_pictures(caller.id.get(), owner, pictures).await?;
    let created = api.request(&caller, guild_id, request::CreateEmoji(Box::new(new))).await;
    let emoji = held.settled(created).await?;
    Ok((StatusCode::CREATED, Json(EmojiBody::from(&*emoji).for_rest())).into_response())
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let id: EmojiId = params.id("emoji_id")?;
    let guild = guild_of_path(&api, &caller, &params).await?;
    let permit = ReadPermit::in_guild(&caller, &guild, find(&guild, id)?);
    let patch = input.read(&api, permit, BodyLimits::FORM, |form| {
        let roles = form.nullable("roles", roles).map(Option::unwrap_or_default);
        Some(EmojiPatch { name: form.optional("name", emoji_name), roles })
    });
    let command = request::UpdateEmoji(id, Box::new(patch.await?));
    let emoji = api.request(&caller, guild.structure.id(), command).await?;
    Ok(Json(EmojiBody::from(&*emoji).for_rest()).into_response())
}

pub(super) async fn delete(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    api.delete_with_pictures(&caller, params.id("guild_id")?, request::DeleteEmoji(params.id("emoji_id")?)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_role_is_named_once() {
        assert_eq!(roles(&json!(["7", null, 5, "7"])), Ok(vec![RoleId::new(5), RoleId::new(7)]));
    }
}
