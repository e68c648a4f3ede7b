//! Polls: votes, their users, and the end of a poll. Spec  docs/protocol/choices.md "Polls".

use super::{Call, messages, read_states::need_user, render};
use crate::{
    body::{BodyLimits, JsonRequest, Query},
    error::ApiError,
    form::{self, Parsed},
    permit::ReadPermit,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Refusal, request};
use guildhall_model::{ChannelId, MessageId, ReactionEmoji, UserId, from_gateway::UserBody};
use serde_json::{Value, json};

const PAGE_MAX: i64 = 100;
const PAGE_DEFAULT: i64 = 25;
const ANSWERS_MAX: usize = 10;

/// Number of an answer. Clients send it as text or as a number.
fn answer_id(value: &Value) -> Parsed<u8> {
    let number = value.as_str().and_then(|text| text.parse::<i64>().ok()).map(Value::from);
    form::integer(number.as_ref().unwrap_or(value), 1, u8::MAX.into()).map(|id| id as u8)
}

/// Users who voted for an answer, by ascending id.
pub(super) async fn voters(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let (channel_id, message_id): (ChannelId, MessageId) = (params.id("channel_id")?, params.id("message_id")?);
    let (limit, after) = query.read(|form| {
        let limit = form.optional("limit", |v| form::integer(v, 1, PAGE_MAX)).unwrap_or(PAGE_DEFAULT);
        Some((limit as u32, form.optional("after", form::id).unwrap_or(UserId::new(0))))
    })?;
    let record = messages::readable(&api, &caller, channel_id, message_id).await?;
    let poll = record.message.poll.as_ref().ok_or(ApiError::Refused(Refusal::NoPoll))?;
    let answer_id = answer_id(&Value::from(params.text("answer_id"))).ok().filter(|id| poll.has_answer(*id));
    let emoji = ReactionEmoji::of_answer(answer_id.ok_or(ApiError::NotFound)?);
    let users = api.node.store().reaction_users(channel_id, message_id, &emoji, after, limit).await?;
    let users: Vec<_> = users.iter().map(|user| UserBody::from(user).for_rest()).collect();
    Ok(Json(json!({"users": users})).into_response())
}

/// The caller votes for these answers, and for no others.
pub(super) async fn vote(Call { api, caller, params }: Call, input: JsonRequest) -> Result<StatusCode, ApiError> {
    need_user(&caller)?;
    let (channel_id, message_id) = (params.id("channel_id")?, params.id("message_id")?);
    let permit = ReadPermit::message(&api, &caller, channel_id, message_id).await?;
    let answers = input.read(&api, permit, BodyLimits::FORM, |form| {
        form.required("answer_ids", |v| form::list(v, 0, ANSWERS_MAX, answer_id))
    });
    api.done_in_channel(&caller, channel_id, request::Vote(channel_id, message_id, answers.await?)).await
}

pub(super) async fn expire(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let (channel_id, message_id) = (params.id("channel_id")?, params.id("message_id")?);
    let reply = api.request_in_channel(&caller, channel_id, request::EndPoll(channel_id, message_id)).await?;
    Ok(Json(render::reply(&caller, &reply)).into_response())
}
