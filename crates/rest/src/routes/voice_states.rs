//! Voice states of one user, and speakers of a stage. Spec  docs/protocol/reference.md §9, §10.4.

use super::{Call, PathParams};
use crate::{
    auth::Caller,
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
use guildhall_guild::{VoiceStatePatch, request};
use guildhall_model::{GuildId, UserId, from_gateway::VoiceStateBody};

/// The account at the end of the path: `@me`, or an id.
fn named(params: &PathParams, caller: &Caller) -> Result<UserId, ApiError> {
    if params.text("user_id") == "@me" { Ok(caller.id) } else { params.id("user_id") }
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let (guild_id, user_id): (GuildId, UserId) = (params.id("guild_id")?, named(&params, &caller)?);
    let entry = api.request(&caller, guild_id, request::ReadVoiceState(user_id)).await?;
    Ok(Json(VoiceStateBody::event(guild_id, &entry.state, Some(&entry.member)).for_rest()).into_response())
}

fn patch(form: &mut Form<'_>) -> Option<VoiceStatePatch> {
    Some(VoiceStatePatch {
        channel_id: form.optional("channel_id", form::id),
        suppress: form.optional("suppress", form::boolean),
        request_to_speak_timestamp: form.nullable("request_to_speak_timestamp", form::timestamp),
    })
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<StatusCode, ApiError> {
    let (guild_id, user_id) = (params.id("guild_id")?, named(&params, &caller)?);
    let permit = ReadPermit::member(&api, &caller, guild_id, user_id).await?;
    let patch = input.read(&api, permit, BodyLimits::FORM, patch).await?;
    api.done(&caller, guild_id, request::UpdateVoiceState(user_id, patch)).await
}
