//! Stage instances. Spec  docs/protocol/reference.md §6.10, §10.4.

use super::Call;
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form::{self, Form},
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Refusal, StageContent, request};
use guildhall_model::{ChannelId, StageInstance, from_gateway::StageInstanceBody};
use std::sync::Arc;

fn body(stage: &StageInstance) -> Response {
    Json(StageInstanceBody::from(stage)).into_response()
}

fn content(form: &mut Form<'_>) -> Option<StageContent> {
    let topic = form.required("topic", |v| form::name(v, 1, 120));
    form.optional("privacy_level", form::privacy_level);
    let guild_scheduled_event_id = form.optional("guild_scheduled_event_id", form::id);
    Some(StageContent { topic: topic?, privacy_level: 2, guild_scheduled_event_id })
}

fn new_stage(form: &mut Form<'_>) -> Option<(ChannelId, StageContent)> {
    let content = content(form);
    Some((form.required("channel_id", form::id)?, content?))
}

pub(super) async fn create(
    State(api): State<Arc<Api>>,
    caller: Caller,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let permit = ReadPermit::caller(&caller);
    let (channel_id, content) = input.read(&api, permit, BodyLimits::FORM, new_stage).await?;
    let stage =
        api.request_in_channel(&caller, channel_id, request::CreateStage(channel_id, Box::new(content))).await?;
    Ok(body(&stage))
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let channel_id = params.id("channel_id")?;
    let permit = ReadPermit::channel(&api, &caller, channel_id).await?;
    let content = input.read(&api, permit, BodyLimits::FORM, content).await?;
    let stage =
        api.request_in_channel(&caller, channel_id, request::UpdateStage(channel_id, Box::new(content))).await?;
    Ok(body(&stage))
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let channel_id: ChannelId = params.id("channel_id")?;
    api.request_in_channel(&caller, channel_id, request::ReadChannel(channel_id)).await?;
    let guild = api.request_in_channel(&caller, channel_id, request::ReadGuild).await?;
    let stage = guild.structure.guild.stage_instances.iter().find(|stage| stage.channel_id == channel_id);
    let stage = stage.ok_or(ApiError::Refused(Refusal::UnknownStage))?;
    Ok(body(stage))
}

pub(super) async fn delete(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let channel_id = params.id("channel_id")?;
    api.done_in_channel(&caller, channel_id, request::DeleteStage(channel_id)).await
}
