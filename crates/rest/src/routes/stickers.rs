//! Stickers of a guild. Spec  docs/protocol/reference.md §6.7, §10.4.

use super::{Call, emojis::need_to_create, guilds::guild_of_path};
use crate::{
    body::{BodyLimits, JsonRequest, MessageRequest},
    error::ApiError,
    form::{self, FieldError, Form},
    permit::ReadPermit,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{GuildReply, NewSticker, Refusal, StickerPatch, request};
use guildhall_media::{NOT_KEPT, Picture, STICKER_BYTES_MAX};
use guildhall_model::{GuildId, Sticker, StickerId, from_gateway::StickerBody};
use guildhall_store::{PictureOwner, sticker_picture};

pub(super) async fn list(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    let body = |sticker| StickerBody::new(guild.structure.id(), sticker).for_rest();
    Ok(Json(guild.structure.guild.stickers.iter().map(body).collect::<Vec<_>>()).into_response())
}

fn find(guild: &GuildReply, id: StickerId) -> Result<&Sticker, ApiError> {
    let sticker = guild.structure.guild.stickers.iter().find(|sticker| sticker.id == id);
    sticker.ok_or(ApiError::Refused(Refusal::UnknownSticker))
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let id: StickerId = params.id("sticker_id")?;
    let guild = guild_of_path(&api, &caller, &params).await?;
    Ok(Json(StickerBody::new(guild.structure.id(), find(&guild, id)?).for_rest()).into_response())
}

fn patch(form: &mut Form<'_>) -> StickerPatch {
    StickerPatch {
        name: form.optional("name", |v| form::name(v, 2, 30)),
        description: form.nullable("description", |v| form::text(v, 0, 100)),
        tags: form.optional("tags", |v| form::name(v, 1, 200)),
    }
}

pub(super) async fn create(Call { api, caller, params }: Call, request: MessageRequest) -> Result<Response, ApiError> {
    let guild_id: GuildId = params.id("guild_id")?;
    let guild = guild_of_path(&api, &caller, &params).await?;
    let permit = ReadPermit::read_guild(&caller, &guild);
    if api.media.files().is_none() {
        return Err(form::FieldErrors::at("file", FieldError::new("UNSUPPORTED", NOT_KEPT)).into());
    }
    let input = request.read_form(&api, permit, std::future::ready(need_to_create(&guild))).await?;
    let has_file = !input.uploads.numbers().is_empty();
    let (name, description, tags) = form::object(&input.value, |form| {
        let StickerPatch { name, description, tags } = patch(form);
        for (key, is_missing) in [("name", name.is_none()), ("tags", tags.is_none()), ("file", !has_file)] {
            if is_missing && form.has_no_faults() {
                form.fault(key, FieldError::required());
            }
        }
        Some((name?, description.flatten().filter(|d| !d.is_empty()), tags?))
    })?;
    let bytes = input.uploads.into_bytes(STICKER_BYTES_MAX as u64).await?.unwrap_or_default();
    let (picture, format_type) =
        Picture::of_sticker(bytes).map_err(|faults| form::FieldErrors::within("file", faults))?;
    let id: StickerId = api.node.next_id().await?;
    let new = NewSticker { id: Some(id), name, description, tags, format_type };
    let (owner, pictures) = (PictureOwner::Guild(guild_id), vec![(sticker_picture(id), picture)]);
    let held = api.media.hold_pictures(caller.id.get(), owner, pictures).await?;
    let created = api.request(&caller, guild_id, request::CreateSticker(Box::new(new))).await;
    let sticker = held.settled(created).await?;
    Ok((StatusCode::CREATED, Json(StickerBody::new(guild_id, &sticker).for_rest())).into_response())
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let (guild_id, id): (GuildId, StickerId) = (params.id("guild_id")?, params.id("sticker_id")?);
    let guild = guild_of_path(&api, &caller, &params).await?;
    let permit = ReadPermit::in_guild(&caller, &guild, find(&guild, id)?);
    let patch = input.read(&api, permit, BodyLimits::FORM, |form| Some(patch(form))).await?;
    let command = request::UpdateSticker(id, Box::new(patch));
    let sticker = api.request(&caller, guild_id, command).await?;
    Ok(Json(StickerBody::new(guild_id, &sticker).for_rest()).into_response())
}

pub(super) async fn delete(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    api.delete_with_pictures(&caller, params.id("guild_id")?, request::DeleteSticker(params.id("sticker_id")?)).await
}
