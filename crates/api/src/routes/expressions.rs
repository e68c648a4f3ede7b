//! Emoji, stickers, scheduled events, stages. Spec  docs/protocol.md §6.7, §6.10, §10.4.

use super::PathParams;
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest, MessageRequest},
    error::ApiError,
    form::{self, Fault, Form, Parsed},
    permit::ReadPermit,
    pictures::{NOT_KEPT, Picture, PictureRule, STICKER_BYTES_MAX, hash_of},
    state::Api,
};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{EmojiPatch, GuildReply, NewEmoji, NewSticker, Refusal, StickerPatch, request};
use guildhall_model::{
    ChannelId, Emoji, EmojiId, GuildId, Id, Permissions, RoleId, ScheduledEvent, StageInstance, Sticker, StickerId,
    from_gateway::{EmojiBody, ScheduledEventBody, StageInstanceBody, StickerBody},
};
use guildhall_store::{PictureOwner, emoji_picture, event_picture, sticker_picture};
use serde_json::{Value, json};
use std::sync::Arc;

const ROLES_MAX: usize = 250;
const METADATA_BYTES_MAX: usize = 1024;

async fn guild(api: &Api, caller: &Caller, params: &PathParams) -> Result<Box<GuildReply>, ApiError> {
    api.ask(caller, params.id("guild_id")?, request::ReadGuild).await
}

/// Two to 32 letters, digits and underscores.
fn emoji_name(value: &Value) -> Parsed<String> {
    let name = form::text(value, 2, 32)?;
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Ok(name);
    }
    Err(Fault::new("STRING_TYPE_REGEX", "String value did not match validation regex.").into())
}

/// Before a picture is written. The guild checks again.
fn need_to_create(guild: &GuildReply) -> Result<(), ApiError> {
    let any = Permissions::CREATE_GUILD_EXPRESSIONS | Permissions::MANAGE_GUILD_EXPRESSIONS;
    if guild.permissions.intersects(any) { Ok(()) } else { Err(ApiError::MISSING_PERMISSIONS) }
}

fn roles(value: &Value) -> Parsed<Vec<RoleId>> {
    form::list(value, 0, ROLES_MAX, form::id)
}

pub(super) async fn list_emojis(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<Response, ApiError> {
    let guild = guild(&api, &caller, &params).await?;
    Ok(Json(guild.structure.guild.emojis.iter().map(EmojiBody::from).collect::<Vec<_>>()).into_response())
}

fn find_emoji(guild: &GuildReply, id: EmojiId) -> Result<&Emoji, ApiError> {
    guild.structure.guild.emojis.iter().find(|emoji| emoji.id == id).ok_or(ApiError::UNKNOWN_EMOJI)
}

pub(super) async fn read_emoji(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<Response, ApiError> {
    let id: EmojiId = params.id("emoji_id")?;
    let guild = guild(&api, &caller, &params).await?;
    Ok(Json(EmojiBody::from(find_emoji(&guild, id)?)).into_response())
}

pub(super) async fn create_emoji(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let guild = guild(&api, &caller, &params).await?;
    let permit = ReadPermit::in_guild(&caller, &guild, &guild.structure.guild);
    let rule = PictureRule::small(&api);
    let input = input.json(&api, permit, BodyLimits::PICTURE).await?;
    let (name, image, roles) = input.read(|form| {
        let name = form.required("name", emoji_name);
        let image = form.required("image", |v| rule.parse(v));
        let roles = form.optional("roles", roles).unwrap_or_default();
        Some((name?, image?, roles))
    })?;
    need_to_create(&guild)?;
    let id: EmojiId = api.node.next_id().await?;
    let new = NewEmoji { id: Some(id), name, animated: image.format.is_animated(), roles };
    let (owner, pictures) = (PictureOwner::Guild(guild_id), vec![(emoji_picture(id), image)]);
    let held = api.hold_pictures(caller.id.get(), owner, pictures).await?;
    let created = api.ask(&caller, guild_id, request::CreateEmoji(Box::new(new))).await;
    let emoji = held.settled(created).await?;
    Ok((StatusCode::CREATED, Json(EmojiBody::from(&*emoji))).into_response())
}

pub(super) async fn update_emoji(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let id: EmojiId = params.id("emoji_id")?;
    let guild = guild(&api, &caller, &params).await?;
    let permit = ReadPermit::in_guild(&caller, &guild, find_emoji(&guild, id)?);
    let patch = input.read(&api, permit, BodyLimits::FORM, |form| {
        let roles = form.nullable("roles", roles).map(Option::unwrap_or_default);
        Some(EmojiPatch { name: form.optional("name", emoji_name), roles })
    });
    let command = request::UpdateEmoji(id, Box::new(patch.await?));
    let emoji = api.ask(&caller, guild.structure.id(), command).await?;
    Ok(Json(EmojiBody::from(&*emoji)).into_response())
}

pub(super) async fn delete_emoji(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<StatusCode, ApiError> {
    let guild_id = params.id("guild_id")?;
    api.ask(&caller, guild_id, request::DeleteEmoji(params.id("emoji_id")?)).await?;
    api.collect_pictures(PictureOwner::Guild(guild_id)).await;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn list_stickers(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<Response, ApiError> {
    let guild = guild(&api, &caller, &params).await?;
    let body = |sticker| StickerBody::new(guild.structure.id(), sticker);
    Ok(Json(guild.structure.guild.stickers.iter().map(body).collect::<Vec<_>>()).into_response())
}

fn find_sticker(guild: &GuildReply, id: StickerId) -> Result<&Sticker, ApiError> {
    let sticker = guild.structure.guild.stickers.iter().find(|sticker| sticker.id == id);
    sticker.ok_or(ApiError::Refused(Refusal::UnknownSticker))
}

pub(super) async fn read_sticker(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<Response, ApiError> {
    let id: StickerId = params.id("sticker_id")?;
    let guild = guild(&api, &caller, &params).await?;
    Ok(Json(StickerBody::new(guild.structure.id(), find_sticker(&guild, id)?)).into_response())
}

fn sticker_patch(form: &mut Form<'_>) -> StickerPatch {
    StickerPatch {
        name: form.optional("name", |v| form::text(v, 2, 30)),
        description: form.nullable("description", |v| form::text(v, 0, 100)),
        tags: form.optional("tags", |v| form::text(v, 1, 200)),
    }
}

pub(super) async fn create_sticker(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
    request: MessageRequest,
) -> Result<Response, ApiError> {
    let guild_id: GuildId = params.id("guild_id")?;
    let guild = guild(&api, &caller, &params).await?;
    let permit = ReadPermit::in_guild(&caller, &guild, &guild.structure.guild);
    if api.files.is_none() {
        return Err(form::Faults::at("file", Fault::new("UNSUPPORTED", NOT_KEPT)).into());
    }
    let input = request.read_form(&api, permit, std::future::ready(need_to_create(&guild))).await?;
    let has_file = !input.uploads.numbers().is_empty();
    let (name, description, tags) = form::object(&input.value, |form| {
        let StickerPatch { name, description, tags } = sticker_patch(form);
        for (key, is_missing) in [("name", name.is_none()), ("tags", tags.is_none()), ("file", !has_file)] {
            if is_missing && form.has_no_faults() {
                form.fault(key, Fault::required());
            }
        }
        Some((name?, description.flatten().filter(|d| !d.is_empty()), tags?))
    })?;
    let bytes = input.uploads.into_bytes(STICKER_BYTES_MAX as u64).await?.unwrap_or_default();
    let (picture, format_type) = Picture::of_sticker(bytes).map_err(|faults| form::Faults::within("file", faults))?;
    let id: StickerId = api.node.next_id().await?;
    let new = NewSticker { id: Some(id), name, description, tags, format_type };
    let (owner, pictures) = (PictureOwner::Guild(guild_id), vec![(sticker_picture(id), picture)]);
    let held = api.hold_pictures(caller.id.get(), owner, pictures).await?;
    let created = api.ask(&caller, guild_id, request::CreateSticker(Box::new(new))).await;
    let sticker = held.settled(created).await?;
    Ok((StatusCode::CREATED, Json(StickerBody::new(guild_id, &sticker))).into_response())
}

pub(super) async fn update_sticker(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let (guild_id, id): (GuildId, StickerId) = (params.id("guild_id")?, params.id("sticker_id")?);
    let guild = guild(&api, &caller, &params).await?;
    let permit = ReadPermit::in_guild(&caller, &guild, find_sticker(&guild, id)?);
    let patch = input.read(&api, permit, BodyLimits::FORM, |form| Some(sticker_patch(form))).await?;
    let command = request::UpdateSticker(id, Box::new(patch));
    let sticker = api.ask(&caller, guild_id, command).await?;
    Ok(Json(StickerBody::new(guild_id, &sticker)).into_response())
}

pub(super) async fn delete_sticker(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<StatusCode, ApiError> {
    let guild_id = params.id("guild_id")?;
    api.ask(&caller, guild_id, request::DeleteSticker(params.id("sticker_id")?)).await?;
    api.collect_pictures(PictureOwner::Guild(guild_id)).await;
    Ok(StatusCode::NO_CONTENT)
}

// ── scheduled events ─────────────────────────────────────────────────────────────────────────────

pub(super) async fn list_events(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<Response, ApiError> {
    let guild = guild(&api, &caller, &params).await?;
    let events = guild.structure.guild.scheduled_events.iter().filter(|event| is_open(&guild, event));
    let bodies: Vec<_> = events.map(|event| ScheduledEventBody::new(guild.structure.id(), event)).collect();
    Ok(Json(bodies).into_response())
}

fn find_event<'a>(guild: &'a GuildReply, params: &PathParams) -> Result<&'a Arc<ScheduledEvent>, ApiError> {
    let id: Id<()> = params.id("event_id")?;
    let event = guild.structure.guild.scheduled_events.iter().find(|event| event.id == id);
    event.filter(|event| is_open(guild, event)).ok_or(ApiError::Refused(Refusal::UnknownScheduledEvent))
}

/// It is not in a channel that the caller cannot view.
fn is_open(guild: &GuildReply, event: &ScheduledEvent) -> bool {
    let is_hidden =
        |id| guild.structure.channels.contains_key(&id) && guild.visible_channels.binary_search(&id).is_err();
    !event.channel_id.is_some_and(is_hidden)
}

pub(super) async fn read_event(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<Response, ApiError> {
    let guild = guild(&api, &caller, &params).await?;
    Ok(Json(ScheduledEventBody::new(guild.structure.id(), find_event(&guild, &params)?)).into_response())
}

/// Free-form, within reason.
fn metadata(value: &Value) -> Parsed<Value> {
    if value.is_object() && value.to_string().len() <= METADATA_BYTES_MAX {
        return Ok(value.clone());
    }
    Err(Fault::new("MODEL_TYPE_CONVERT", "Only dictionaries of at most 1024 bytes may be used here").into())
}

/// The event of a form, based on `before`; `None`: a new one.
fn event_form(
    form: &mut Form<'_>,
    before: Option<&ScheduledEvent>,
    rule: PictureRule,
) -> Option<(ScheduledEvent, Option<Option<Picture>>)> {
    let picture = rule.field(form, "image");
    let number = |v: &Value| Ok(form::integer(v, 1, 4)? as u8);
    let name = form.optional("name", |v| form::text(v, 1, 100));
    let start = form.optional("scheduled_start_time", form::timestamp);
    let entity_type = form.optional("entity_type", number);
    if before.is_none() {
        for (key, is_missing) in [
            ("name", name.is_none()),
            ("scheduled_start_time", start.is_none()),
            ("entity_type", entity_type.is_none()),
        ] {
            if is_missing && form.has_no_faults() {
                form.fault(key, Fault::required());
            }
        }
    }
    let event = ScheduledEvent {
        id: before.map_or(Id::new(0), |before| before.id),
        creator_id: None,
        channel_id: form.nullable("channel_id", form::id).unwrap_or(before.and_then(|before| before.channel_id)),
        name: name.or_else(|| before.map(|before| before.name.clone()))?,
        description: form
            .nullable("description", |v| form::text(v, 0, 1000))
            .unwrap_or_else(|| before.and_then(|before| before.description.clone())),
        scheduled_start_time: start.or(before.map(|before| before.scheduled_start_time))?,
        scheduled_end_time: form
            .nullable("scheduled_end_time", form::timestamp)
            .unwrap_or(before.and_then(|before| before.scheduled_end_time)),
        privacy_level: 2,
        status: form.optional("status", number).or(before.map(|before| before.status)).unwrap_or(1),
        entity_type: entity_type.or(before.map(|before| before.entity_type))?,
        entity_metadata: form
            .nullable("entity_metadata", metadata)
            .unwrap_or_else(|| before.and_then(|before| before.entity_metadata.clone())),
        image: hash_of(&picture).unwrap_or_else(|| before.and_then(|before| before.image.clone())),
        followers: Vec::new(),
    };
    Some((event, picture))
}

/// Whether the caller may change an event, or create one: before its picture is written.
fn need_event(caller: &Caller, guild: &GuildReply, before: Option<&ScheduledEvent>) -> Result<(), ApiError> {
    let is_own = before.is_none_or(|before| before.creator_id == Some(caller.id));
    let may_create = is_own && guild.permissions.contains(Permissions::CREATE_EVENTS);
    let may = may_create || guild.permissions.contains(Permissions::MANAGE_EVENTS);
    if may { Ok(()) } else { Err(ApiError::MISSING_PERMISSIONS) }
}

async fn put_event(
    api: &Api,
    caller: &Caller,
    guild: &GuildReply,
    before: Option<&ScheduledEvent>,
    (mut event, picture): (ScheduledEvent, Option<Option<Picture>>),
) -> Result<Response, ApiError> {
    let (guild_id, is_new) = (guild.structure.id(), before.is_none());
    let held = match picture {
        Some(picture) => {
            need_event(caller, guild, before)?;
            if is_new {
                event.id = api.node.next_id().await?;
            }
            let named = |picture: Picture| (event_picture(event.id, &picture.hash), picture);
            let pictures = picture.map(named).into_iter().collect();
            Some(api.hold_pictures(caller.id.get(), PictureOwner::Guild(guild_id), pictures).await?)
        }
        None => None,
    };
    let put = api.ask(caller, guild_id, request::PutScheduledEvent(Box::new(event), is_new)).await;
    let put = match held {
        Some(held) => held.settled(put).await,
        None => put,
    };
    let event = put?;
    Ok(Json(ScheduledEventBody::new(guild_id, &event)).into_response())
}

pub(super) async fn create_event(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let guild = guild(&api, &caller, &params).await?;
    let permit = ReadPermit::in_guild(&caller, &guild, &guild.structure.guild);
    let rule = PictureRule::large(&api);
    let input = input.json(&api, permit, BodyLimits::PROFILE).await?;
    let event = input.read(|form| event_form(form, None, rule))?;
    put_event(&api, &caller, &guild, None, event).await
}

pub(super) async fn update_event(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let guild = guild(&api, &caller, &params).await?;
    let before = find_event(&guild, &params)?;
    let permit = ReadPermit::in_guild(&caller, &guild, before);
    let rule = PictureRule::large(&api);
    let input = input.json(&api, permit, BodyLimits::PROFILE).await?;
    let event = input.read(|form| event_form(form, Some(before), rule))?;
    put_event(&api, &caller, &guild, Some(before), event).await
}

pub(super) async fn delete_event(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<StatusCode, ApiError> {
    let guild_id = params.id("guild_id")?;
    api.ask(&caller, guild_id, request::DeleteScheduledEvent(params.id("event_id")?)).await?;
    api.collect_pictures(PictureOwner::Guild(guild_id)).await;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn event_users(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<Response, ApiError> {
    let guild = guild(&api, &caller, &params).await?;
    let event = find_event(&guild, &params)?;
    let mut users = Vec::new();
    for user_id in event.followers.iter().take(100) {
        if let Some(user) = api.node.user(*user_id).await? {
            let user = guildhall_model::from_gateway::UserBody::from(&*user);
            users.push(json!({"guild_scheduled_event_id": event.id, "user": user}));
        }
    }
    Ok(Json(users).into_response())
}

async fn follow(api: &Api, caller: &Caller, params: &PathParams, follows: bool) -> Result<StatusCode, ApiError> {
    let command = request::FollowScheduledEvent(params.id("event_id")?, follows);
    api.ask(caller, params.id("guild_id")?, command).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn follow_event(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<StatusCode, ApiError> {
    follow(&api, &caller, &params, true).await
}

pub(super) async fn unfollow_event(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<StatusCode, ApiError> {
    follow(&api, &caller, &params, false).await
}

// ── stages ───────────────────────────────────────────────────────────────────────────────────────

fn stage(form: &mut Form<'_>, channel_id: Option<ChannelId>) -> Option<StageInstance> {
    let topic = form.required("topic", |v| form::text(v, 1, 120));
    let channel_id = match channel_id {
        Some(channel_id) => Some(channel_id),
        None => form.required("channel_id", form::id),
    };
    Some(StageInstance {
        id: Id::new(0),
        guild_id: GuildId::new(0),
        channel_id: channel_id?,
        topic: topic?,
        privacy_level: 2,
        guild_scheduled_event_id: form.optional("guild_scheduled_event_id", form::id),
    })
}

async fn put_stage(api: &Api, caller: &Caller, stage: StageInstance, is_new: bool) -> Result<Response, ApiError> {
    let command = request::PutStage(Box::new(stage.clone()), is_new);
    let stage = api.ask_channel(caller, stage.channel_id, command).await?;
    Ok(Json(StageInstanceBody::from(&*stage)).into_response())
}

pub(super) async fn create_stage(
    State(api): State<Arc<Api>>,
    caller: Caller,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let stage = input.read(&api, ReadPermit::caller(&caller), BodyLimits::FORM, |form| stage(form, None)).await?;
    put_stage(&api, &caller, stage, true).await
}

pub(super) async fn update_stage(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let channel_id = params.id("channel_id")?;
    let permit = ReadPermit::channel(&api, &caller, channel_id).await?;
    let stage = input.read(&api, permit, BodyLimits::FORM, |form| stage(form, Some(channel_id))).await?;
    put_stage(&api, &caller, stage, false).await
}

pub(super) async fn read_stage(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<Response, ApiError> {
    let channel_id: ChannelId = params.id("channel_id")?;
    api.ask_channel(&caller, channel_id, request::ReadChannel(channel_id)).await?;
    let guild = api.ask_channel(&caller, channel_id, request::ReadGuild).await?;
    let stage = guild.structure.guild.stage_instances.iter().find(|stage| stage.channel_id == channel_id);
    let stage = stage.ok_or(ApiError::Refused(Refusal::UnknownStage))?;
    Ok(Json(StageInstanceBody::from(stage)).into_response())
}

pub(super) async fn delete_stage(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
) -> Result<StatusCode, ApiError> {
    let channel_id = params.id("channel_id")?;
    api.ask_channel(&caller, channel_id, request::DeleteStage(channel_id)).await?;
    Ok(StatusCode::NO_CONTENT)
}
