//! Messages: list, read, create, edit, delete.
//!
//! Limits      pages of 100; the messages that replies on a page answer are looked up one by one, at most 100.
//!             Spec  docs/protocol/reference.md §10.3.

use super::{Call, message_form, relationships::need_no_block, render};
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest, MessageRequest, Query},
    error::ApiError,
    form,
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Forward, MessageRecord, request};
use guildhall_model::{ChannelId, Message, MessageId, MessageReference, from_gateway::MessageBody, smallest_id_at};
use guildhall_stdx::Timestamp;
use guildhall_store::Page;
use std::{collections::BTreeMap, sync::Arc};

const PAGE_MAX: i64 = 100;
const PAGE_DEFAULT: i64 = 50;
const BULK_DELETE_MIN: usize = 2;
const BULK_DELETE_MAX: usize = 100;
/// Older messages cannot be deleted in bulk: two weeks.
const BULK_DELETE_AGE_MAX_MS: i64 = 14 * 86_400_000;

/// Whether the caller may read a channel's history; an error when they cannot even see the channel.
pub(crate) async fn may_read_history(api: &Api, caller: &Caller, channel_id: ChannelId) -> Result<bool, ApiError> {
    let grant = api.request_in_channel(caller, channel_id, request::AuthorizeHistory(channel_id)).await?;
    Ok(grant.may_read_history)
}

/// A message the caller may read.
pub(crate) async fn readable(
    api: &Api,
    caller: &Caller,
    channel_id: ChannelId,
    message_id: MessageId,
) -> Result<MessageRecord, ApiError> {
    if !may_read_history(api, caller, channel_id).await? {
        return Err(ApiError::MISSING_PERMISSIONS);
    }
    api.message(channel_id, message_id).await?.ok_or(ApiError::UNKNOWN_MESSAGE)
}

pub(super) async fn list(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let channel_id = params.id("channel_id")?;
    let (page, limit) = query.read(|form| {
        let limit = form.optional("limit", |v| form::integer(v, 1, PAGE_MAX)).unwrap_or(PAGE_DEFAULT);
        let around = form.optional("around", form::id).map(Page::Around);
        let before = form.optional("before", form::id).map(Page::Before);
        let after = form.optional("after", form::id).map(Page::After);
        Some((around.or(before).or(after).unwrap_or(Page::Newest), limit as u32))
    })?;
    if !may_read_history(&api, &caller, channel_id).await? {
        return Ok(Json([(); 0]).into_response());
    }
    let records = api.messages(channel_id, page, limit).await?;
    let answered = answered_by(&api, &records).await?;
    let bodies: Vec<MessageBody<'_>> = records
        .iter()
        .map(|record| {
            let referenced = answered_id(&record.message).map(|(_, id)| answered.get(&id).and_then(Option::as_deref));
            render::message(&caller, record, referenced)
        })
        .collect();
    Ok(Json(bodies).into_response())
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let record = [readable(&api, &caller, params.id("channel_id")?, params.id("message_id")?).await?];
    let answered = answered_by(&api, &record).await?;
    let referenced = answered_id(&record[0].message).map(|(_, id)| answered.get(&id).and_then(Option::as_deref));
    Ok(Json(render::message(&caller, &record[0], referenced)).into_response())
}

/// Where the message is that a reply answers; none when it is no reply.
fn answered_id(message: &Message) -> Option<(ChannelId, MessageId)> {
    message.answers()
}

/// The messages that these records answer; none for those that were deleted.
pub(super) async fn answered_by(
    api: &Api,
    records: &[MessageRecord],
) -> Result<BTreeMap<MessageId, Option<Arc<Message>>>, ApiError> {
    let on_page: BTreeMap<MessageId, &Arc<Message>> = records.iter().map(|r| (r.message.id, &r.message)).collect();
    let mut answered = BTreeMap::new();
    for (channel_id, message_id) in records.iter().filter_map(|record| answered_id(&record.message)) {
        if answered.contains_key(&message_id) {
            continue;
        }
        let message = match on_page.get(&message_id) {
            Some(message) => Some(Arc::clone(message)),
            None => api.message(channel_id, message_id).await?.map(|record| record.message),
        };
        answered.insert(message_id, message);
    }
    Ok(answered)
}

pub(super) async fn create(Call { api, caller, params }: Call, request: MessageRequest) -> Result<Response, ApiError> {
    let channel_id = params.id("channel_id")?;
    let permit = ReadPermit::channel(&api, &caller, channel_id).await?;
    need_no_block(&api, &caller, channel_id).await?;
    let body = request.read(&api, permit, channel_id, api.may_attach(&caller, channel_id, None)).await?;
    let (mut message, files) = message_form::new_message(&body.value, &body.uploads.numbers(), channel_id)?;
    message_form::need_bot(&message, caller.bot)?;
    if let Some(forward) = &mut message.forward {
        fill_forward(&api, &caller, forward).await?;
    }
    let kept = body.uploads.keep(&api.media, channel_id, &files).await?;
    kept.put_into(&mut message);
    let command = request::CreateMessage(channel_id, Box::new(message));
    let reply = kept.settled(api.request_in_channel(&caller, channel_id, command).await).await?;
    if !caller.bot {
        api.node.wrote_message(caller.id, channel_id, reply.message.id);
    }
    Ok(Json(render::reply(&caller, &reply)).into_response())
}

/// Types of messages that can be forwarded: plain ones, replies, answers to commands.
const FORWARDED_KINDS: [u8; 4] =
    [Message::KIND_DEFAULT, Message::KIND_REPLY, Message::KIND_CHAT_INPUT_COMMAND, Message::KIND_CONTEXT_MENU_COMMAND];

/// Reads the message to forward, if the caller may read it with its content. A forward of a
/// forward is one of the original.
async fn fill_forward(api: &Api, caller: &Caller, forward: &mut Forward) -> Result<(), ApiError> {
    let source = readable(api, caller, forward.channel_id, forward.message_id).await?.message;
    if !render::may_read_content(caller, &source) {
        return Err(ApiError::MISSING_ACCESS);
    }
    if !FORWARDED_KINDS.contains(&source.kind) || source.poll.is_some() {
        return Err(ApiError::coded(StatusCode::BAD_REQUEST, 50068, "Invalid message type"));
    }
    forward.guild_id = source.guild_id;
    if let (Some(original), Some(reference)) = (source.snapshots.first(), source.message_reference) {
        let MessageReference { message_id, channel_id, guild_id } = reference;
        *forward = Forward { channel_id, message_id, guild_id, snapshot: Some(original.clone()) };
    } else {
        forward.snapshot = Some((&*source).into());
    }
    Ok(())
}

pub(super) async fn edit(Call { api, caller, params }: Call, request: MessageRequest) -> Result<Response, ApiError> {
    let channel_id = params.id("channel_id")?;
    let message_id = params.id("message_id")?;
    let permit = ReadPermit::message(&api, &caller, channel_id, message_id).await?;
    need_no_block(&api, &caller, channel_id).await?;
    let body = request.read(&api, permit, channel_id, api.may_attach(&caller, channel_id, Some(message_id))).await?;
    let (mut patch, files) = message_form::message_patch(&body.value, &body.uploads.numbers())?;
    let kept = body.uploads.keep(&api.media, channel_id, &files).await?;
    kept.put_into_patch(&mut patch);
    let command = request::EditMessage(channel_id, message_id, Box::new(patch));
    let reply = kept.settled(api.request_in_channel(&caller, channel_id, command).await).await?;
    Ok(Json(render::reply(&caller, &reply)).into_response())
}

pub(super) async fn delete(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let channel_id = params.id("channel_id")?;
    let command = request::DeleteMessage(channel_id, params.id("message_id")?);
    api.done_in_channel(&caller, channel_id, command).await
}

/// Deletes several messages; those that do not exist are passed over, as upstream.
pub(super) async fn bulk_delete(Call { api, caller, params }: Call, body: JsonRequest) -> Result<StatusCode, ApiError> {
    let channel_id = params.id("channel_id")?;
    let oldest: MessageId = smallest_id_at(Timestamp(api.now().unix.0 - BULK_DELETE_AGE_MAX_MS));
    let permit = ReadPermit::channel(&api, &caller, channel_id).await?;
    let ids = body.read(&api, permit, BodyLimits::FORM, |form| {
        form.required("messages", |v| {
            let mut seen = std::collections::BTreeSet::new();
            form::list(v, BULK_DELETE_MIN, BULK_DELETE_MAX, |v| {
                let id: MessageId = form::id(v)?;
                if !seen.insert(id) {
                    let message = "The set already contains this value";
                    return Err(form::FieldError::new("SET_TYPE_ALREADY_CONTAINS_VALUE", message).into());
                }
                Ok(id)
            })
        })
    });
    let ids = ids.await?;
    if ids.iter().any(|id| *id < oldest) {
        let message = "You can only bulk delete messages that are under 14 days old.";
        return Err(ApiError::coded(StatusCode::BAD_REQUEST, 50034, message));
    }
    api.done_in_channel(&caller, channel_id, request::DeleteMessages(channel_id, ids)).await
}
