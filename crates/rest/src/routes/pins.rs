//! Pins. Spec  docs/protocol/reference.md §10.3.
//!
//! Limits      a channel's pins, 250; the newer form pages by 50.

use super::{Call, render};
use crate::{auth::Caller, body::Query, error::ApiError, form, state::Api};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{MessageRecord, request};
use guildhall_model::{ChannelId, MessageId};
use guildhall_stdx::Timestamp;
use serde_json::json;

const PAGE_MAX: i64 = 50;

pub(super) async fn add(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let channel_id = params.id("channel_id")?;
    api.done_in_channel(&caller, channel_id, request::Pin(channel_id, params.id("message_id")?)).await
}

pub(super) async fn remove(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let channel_id = params.id("channel_id")?;
    api.done_in_channel(&caller, channel_id, request::Unpin(channel_id, params.id("message_id")?)).await
}

type Pins = Vec<(MessageId, Timestamp)>;

async fn pins(api: &Api, caller: &Caller, channel_id: ChannelId) -> Result<Pins, ApiError> {
    api.request_in_channel(caller, channel_id, request::ListPins(channel_id)).await
}

/// The messages behind pins; one that was deleted meanwhile is left out.
async fn records(
    api: &Api,
    channel_id: ChannelId,
    pins: &[(MessageId, Timestamp)],
) -> Result<Vec<(MessageRecord, Timestamp)>, ApiError> {
    let mut records = Vec::with_capacity(pins.len());
    for (message_id, pinned_at) in pins {
        let record = api.message(channel_id, *message_id).await?;
        records.extend(record.map(|record| (record, *pinned_at)));
    }
    Ok(records)
}

/// The older form: all of them.
pub(super) async fn list(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let channel_id = params.id("channel_id")?;
    let pins = pins(&api, &caller, channel_id).await?;
    let records = records(&api, channel_id, &pins).await?;
    let bodies: Vec<_> = records.iter().map(|(record, _)| render::message(&caller, record, None)).collect();
    Ok(Json(bodies).into_response())
}

/// The newer form: a page, each with when it was pinned.
pub(super) async fn page(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let channel_id = params.id("channel_id")?;
    let (before, limit) = query.read(|form| {
        let limit = form.optional("limit", |v| form::integer(v, 1, PAGE_MAX)).unwrap_or(PAGE_MAX) as usize;
        Some((form.optional("before", form::timestamp), limit))
    })?;
    let mut pins = pins(&api, &caller, channel_id).await?;
    pins.retain(|(_, pinned_at)| before.is_none_or(|before| *pinned_at < before));
    let has_more = pins.len() > limit;
    pins.truncate(limit);
    let records = records(&api, channel_id, &pins).await?;
    let items: Vec<_> = records
        .iter()
        .map(|(record, pinned_at)| json!({"pinned_at": pinned_at, "message": render::message(&caller, record, None)}))
        .collect();
    Ok(Json(json!({"items": items, "has_more": has_more})).into_response())
}
