//! Scheduled events of a guild. Spec  docs/protocol/reference.md §6.10, §10.4.

use super::{Call, PathParams, guilds::guild_of_path};
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest, Query},
    error::ApiError,
    form::{self, FieldError, Form, Parsed},
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{GuildReply, NewScheduledEvent, Refusal, ScheduledEventContent, request};
use guildhall_media::{HeldPictures, Picture, PictureRule, hash_of};
use guildhall_model::{
    Id, Permissions, ScheduledEvent, UserId,
    from_gateway::{MemberBody, ScheduledEventBody, UserBody},
};
use guildhall_store::{PictureOwner, event_picture};
use serde_json::{Value, json};
use std::sync::Arc;

const METADATA_BYTES_MAX: usize = 1024;
const FOLLOWERS_PAGE: i64 = 100;
/// Of a follower's `response`, the only value here.
const INTERESTED: u8 = 1;

pub(super) async fn list(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    let events = guild.structure.guild.scheduled_events.iter().filter(|event| is_open(&guild, event));
    let bodies: Vec<_> = events.map(|event| ScheduledEventBody::new(guild.structure.id(), event).for_rest()).collect();
    Ok(Json(bodies).into_response())
}

fn find<'a>(guild: &'a GuildReply, params: &PathParams) -> Result<&'a Arc<ScheduledEvent>, ApiError> {
    let id: Id<()> = params.id("event_id")?;
    let event = guild.structure.guild.scheduled_events.iter().find(|event| event.id == id);
    event.filter(|event| is_open(guild, event)).ok_or(ApiError::Refused(Refusal::UnknownScheduledEvent))
}

/// It is not in a channel that the caller cannot view.
fn is_open(guild: &GuildReply, event: &ScheduledEvent) -> bool {
    event.channel_id.is_none_or(|id| guild.visible_channels.binary_search(&id).is_ok())
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    Ok(Json(ScheduledEventBody::new(guild.structure.id(), find(&guild, &params)?).for_rest()).into_response())
}

/// Free-form, within reason.
fn metadata(value: &Value) -> Parsed<Value> {
    if value.is_object() && value.to_string().len() <= METADATA_BYTES_MAX {
        return Ok(value.clone());
    }
    Err(FieldError::new("MODEL_TYPE_CONVERT", "Only dictionaries of at most 1024 bytes may be used here").into())
}

/// The content of a form, based on that of `before`; `None`: a new event.
fn content(
    form: &mut Form<'_>,
    before: Option<&ScheduledEvent>,
    rule: PictureRule,
) -> Option<(ScheduledEventContent, Option<Option<Picture>>)> {
    let picture = form.picture("image", rule);
    form.unsupported("recurrence_rule", "This server repeats no events.");
    form.optional("privacy_level", form::privacy_level);
    let number = |v: &Value, max| Ok(form::integer(v, 1, max)? as u8);
    let name = form.optional("name", |v| form::name(v, 1, 100));
    let start = form.optional("scheduled_start_time", form::timestamp);
    let entity_type = form.optional("entity_type", |v| number(v, 3));
    if before.is_none() {
        for (key, is_missing) in [
            ("name", name.is_none()),
            ("scheduled_start_time", start.is_none()),
            ("entity_type", entity_type.is_none()),
        ] {
            if is_missing && form.has_no_faults() {
                form.fault(key, FieldError::required());
            }
        }
    }
    let channel_id = form.nullable("channel_id", form::id);
    let description = form.nullable("description", |v| form::text(v, 0, 1000));
    let end = form.nullable("scheduled_end_time", form::timestamp);
    let metadata = form.nullable("entity_metadata", metadata);
    let content = ScheduledEventContent {
        channel_id: channel_id.unwrap_or(before.and_then(|before| before.channel_id)),
        description: description.unwrap_or_else(|| before.and_then(|before| before.description.clone())),
        scheduled_end_time: end.unwrap_or(before.and_then(|before| before.scheduled_end_time)),
        privacy_level: 2,
        // A new event is scheduled; the form's status has no effect, as upstream.
        status: match before {
            None => ScheduledEvent::SCHEDULED,
            Some(before) => form.optional("status", |v| number(v, 4)).unwrap_or(before.status),
        },
        entity_metadata: metadata.unwrap_or_else(|| before.and_then(|before| before.entity_metadata.clone())),
        image: hash_of(&picture).unwrap_or_else(|| before.and_then(|before| before.image.clone())),
        // Now all was read.
        name: name.or_else(|| before.map(|before| before.name.clone()))?,
        scheduled_start_time: start.or(before.map(|before| before.scheduled_start_time))?,
        entity_type: entity_type.or(before.map(|before| before.entity_type))?,
    };
    Some((content, picture))
}

/// Whether the caller may change an event, or create one: before its picture is written.
fn need_event(caller: &Caller, guild: &GuildReply, before: Option<&ScheduledEvent>) -> Result<(), ApiError> {
    let is_own = before.is_none_or(|before| before.creator_id == Some(caller.id));
    let may_create = is_own && guild.permissions.contains(Permissions::CREATE_EVENTS);
    let may = may_create || guild.permissions.contains(Permissions::MANAGE_EVENTS);
    if may { Ok(()) } else { Err(ApiError::MISSING_PERMISSIONS) }
}

async fn hold_picture<'a>(
    api: &'a Api,
    caller: &Caller,
    guild: &GuildReply,
    (id, picture): (Id<()>, Option<Picture>),
) -> Result<HeldPictures<'a>, ApiError> {
    let named = |picture: Picture| (event_picture(id, &picture.hash), picture);
    let pictures = picture.map(named).into_iter().collect();
    Ok(api.media.hold_pictures(caller.id.get(), PictureOwner::Guild(guild.structure.id()), pictures).await?)
}

/// Settles the picture by the guild's answer, if the form had one.
async fn answer(
    guild: &GuildReply,
    held: Option<HeldPictures<'_>>,
    put: Result<Arc<ScheduledEvent>, ApiError>,
) -> Result<Response, ApiError> {
    let event = match held {
        Some(held) => held.settled(put).await?,
        None => put?,
    };
    Ok(Json(ScheduledEventBody::new(guild.structure.id(), &event).for_rest()).into_response())
}

pub(super) async fn create(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    let permit = ReadPermit::read_guild(&caller, &guild);
    let rule = PictureRule::large(&api.media);
    let input = input.json(&api, permit, BodyLimits::PROFILE).await?;
    let (content, picture) = input.read(|form| content(form, None, rule))?;
    let (mut id, mut held) = (None, None);
    if let Some(picture) = picture {
        need_event(&caller, &guild, None)?;
        let picture_id = api.node.next_id().await?;
        id = Some(picture_id);
        held = Some(hold_picture(&api, &caller, &guild, (picture_id, picture)).await?);
    }
    let new = NewScheduledEvent { id, content };
    let created = api.request(&caller, guild.structure.id(), request::CreateScheduledEvent(Box::new(new))).await;
    answer(&guild, held, created).await
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    let before = find(&guild, &params)?;
    let permit = ReadPermit::in_guild(&caller, &guild, before);
    let rule = PictureRule::large(&api.media);
    let input = input.json(&api, permit, BodyLimits::PROFILE).await?;
    let (content, picture) = input.read(|form| content(form, Some(before), rule))?;
    let mut held = None;
    if let Some(picture) = picture {
        need_event(&caller, &guild, Some(before))?;
        held = Some(hold_picture(&api, &caller, &guild, (before.id, picture)).await?);
    }
    let update = request::UpdateScheduledEvent(before.id, Box::new(content));
    let updated = api.request(&caller, guild.structure.id(), update).await;
    answer(&guild, held, updated).await
}

pub(super) async fn delete(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    api.delete_with_pictures(&caller, params.id("guild_id")?, request::DeleteScheduledEvent(params.id("event_id")?))
        .await
}

/// Accounts that follow an event, by ascending id; with `before`, those nearest to it.
pub(super) async fn list_followers(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let (limit, before, after, with_member) = query.read(|form| {
        let limit = form.optional("limit", |v| form::integer(v, 1, FOLLOWERS_PAGE)).unwrap_or(FOLLOWERS_PAGE) as usize;
        let before: Option<UserId> = form.optional("before", form::id);
        let after = form.optional("after", form::id).unwrap_or(UserId::new(0));
        Some((limit, before, after, form.optional("with_member", form::boolean).unwrap_or(false)))
    })?;
    let guild = guild_of_path(&api, &caller, &params).await?;
    let event = find(&guild, &params)?;
    let followers = &event.followers;
    let page = match before {
        Some(before) => {
            let end = followers.partition_point(|id| *id < before);
            &followers[end.saturating_sub(limit)..end]
        }
        None => {
            let start = followers.partition_point(|id| *id <= after);
            &followers[start..followers.len().min(start + limit)]
        }
    };
    let members = match with_member {
        true => Some(api.request(&caller, guild.structure.id(), request::ReadMembers).await?),
        false => None,
    };
    let mut bodies = Vec::with_capacity(page.len());
    for user_id in page {
        let Some(user) = api.node.user(*user_id).await? else { continue };
        let mut body = json!({
            "guild_scheduled_event_id": event.id, "user_id": user.id, "response": INTERESTED,
            "user": UserBody::from(&*user).for_rest(),
        });
        if let Some(entry) = members.as_ref().and_then(|members| members.entry(*user_id)) {
            body["member"] = json!(MemberBody::from(&*entry.member).for_rest());
        }
        bodies.push(body);
    }
    Ok(Json(bodies).into_response())
}

pub(super) async fn follow(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let command = request::FollowScheduledEvent(params.id("event_id")?);
    api.done(&caller, params.id("guild_id")?, command).await
}

pub(super) async fn unfollow(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let command = request::UnfollowScheduledEvent(params.id("event_id")?);
    api.done(&caller, params.id("guild_id")?, command).await
}
