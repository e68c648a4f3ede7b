//! Callbacks: the first answer to an interaction.
//!
//! Owns        `POST /interactions/{interaction_id}/{interaction_token}/callback`.
//! Invariants  N1 (in `super::answers`) what is refused for its form does not count as the answer.
//! Spec        docs/protocol/choices.md "Interactions".

use super::{
    AUTOCOMPLETE, CHAT_INPUT, COMMAND, MODAL, answers::Answer, ephemeral, followups::Reply, modals::ModalForm, publish,
    token::Token,
};
use crate::{
    body::{MessageBodyInput, MessageRequest, Query},
    error::ApiError,
    form::{self, FieldError, FieldErrors},
    permit::ReadPermit,
    routes::{PathParams, message_form, render},
    state::Api,
};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Actor, NewMessage, ResponsePatch, request};
use guildhall_model::{EventName, Message, MessageId, User};
use serde_json::{Value, json};
use std::sync::Arc;

/// Types of callbacks.
pub(super) const MESSAGE: u8 = 4;
pub(super) const DEFERRED_MESSAGE: u8 = 5;
pub(super) const DEFERRED_UPDATE: u8 = 6;
pub(super) const UPDATE: u8 = 7;
const AUTOCOMPLETE_RESULT: u8 = 8;
const SHOW_MODAL: u8 = 9;

const CHOICES_MAX: usize = 25;

/// Result for an application that requests it by `with_response`.
#[derive(Default)]
pub(super) struct Outcome {
    message: Option<Value>,
    message_id: Option<MessageId>,
    is_ephemeral: bool,
}

pub(crate) async fn create(
    State(api): State<Arc<Api>>,
    params: PathParams,
    query: Query,
    request: MessageRequest,
) -> Result<Response, ApiError> {
    let token = Token::of_callback(&api, params.id("interaction_id")?, params.text("interaction_token"))?;
    let with_response = query.read(|form| Some(form.optional("with_response", form::boolean).unwrap_or(false)))?;
    let permit = ReadPermit::interaction(token.application);
    let input = request.read(&api, permit, token.channel_id, async { Ok(()) }).await?;
    let (kind, outcome) = take(&api, &token, input).await?;
    if !with_response {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let mut interaction = json!({"id": token.id, "type": token.kind});
    let mut resource = json!({"type": kind});
    if let Some(message_id) = outcome.message_id {
        interaction["response_message_id"] = json!(message_id);
        interaction["response_message_loading"] = json!(kind == DEFERRED_MESSAGE);
        interaction["response_message_ephemeral"] = json!(outcome.is_ephemeral);
        interaction["channel_id"] = json!(token.channel_id);
        if let Some(guild_id) = token.guild_id {
            interaction["guild_id"] = json!(guild_id);
        }
    }
    if let Some(message) = outcome.message {
        resource["message"] = message;
    }
    Ok(Json(json!({"interaction": interaction, "resource": resource})).into_response())
}

/// The callbacks that an interaction may have.
fn allowed(token: &Token) -> &'static [u8] {
    match (token.kind, token.source) {
        (AUTOCOMPLETE, _) => &[AUTOCOMPLETE_RESULT],
        (MODAL, Some(_)) => &[MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE],
        (MODAL, None) => &[MESSAGE, DEFERRED_MESSAGE],
        (_, Some(_)) => &[MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE, SHOW_MODAL],
        (_, None) => &[MESSAGE, DEFERRED_MESSAGE, SHOW_MODAL],
    }
}

/// Takes the first answer, and notifies the user.
pub(super) async fn take(api: &Api, token: &Token, input: MessageBodyInput) -> Result<(u8, Outcome), ApiError> {
    let answered = answer(api, token, input).await?;
    let news = json!({"id": token.id, "nonce": token.nonce});
    publish(api, EventName::InteractionSuccess, token.guild_id, token.user_id, &news)?;
    Ok(answered)
}

async fn answer(api: &Api, token: &Token, input: MessageBodyInput) -> Result<(u8, Outcome), ApiError> {
    let (kind, data) = form::object(&input.value, |form| {
        let kind = form.required("type", |v| form::integer(v, 1, 255))? as u8;
        if !allowed(token).contains(&kind) {
            let choices = allowed(token).iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
            let message = format!("Value must be one of ({choices}) for this interaction.");
            form.fault("type", FieldError::new("BASE_TYPE_CHOICES", message));
        }
        let data = form.optional("data", |v| form::object(v, |_| Some(v.clone())));
        Some((kind, data.unwrap_or_else(|| json!({}))))
    })?;
    let outcome = match kind {
        MESSAGE | DEFERRED_MESSAGE => message(api, token, kind, &data, input).await?,
        DEFERRED_UPDATE | UPDATE => update(api, token, kind, &data, input).await?,
        SHOW_MODAL => modal(api, token, &data).await?,
        _ => choices(api, token, &data).await?,
    };
    Ok((kind, outcome))
}

fn within_data(error: ApiError) -> ApiError {
    match error {
        ApiError::Form(faults) => FieldErrors::within("data", faults).into(),
        other => other,
    }
}

/// Whether the flags in `data` have EPHEMERAL.
pub(super) fn is_ephemeral(data: &Value) -> bool {
    data.get("flags").and_then(Value::as_u64).is_some_and(|flags| flags & u64::from(Message::EPHEMERAL) != 0)
}

async fn message(
    api: &Api,
    token: &Token,
    kind: u8,
    data: &Value,
    input: MessageBodyInput,
) -> Result<Outcome, ApiError> {
    let is_deferred = kind == DEFERRED_MESSAGE;
    let is_ephemeral = is_ephemeral(data);
    let (mut new, files) = match is_deferred {
        true => (NewMessage::default(), Vec::new()),
        false => message_form::new_message(data, &input.uploads.numbers(), token.channel_id).map_err(within_data)?,
    };
    let claimed = Answer::new(kind, None, is_ephemeral);
    claimed.claim(api, token.id).await?;
    let kept = input.uploads.keep(&api.media, token.channel_id, &files).await;
    let made = match kept {
        Ok(kept) => {
            kept.put_into(&mut new);
            let reply = Reply { token, is_followup: false, original: None };
            kept.settled(reply.send(api, new, is_ephemeral, is_deferred).await).await
        }
        Err(error) => Err(error.into()),
    };
    let made = match made {
        Ok(made) => made,
        Err(error) => {
            Answer::withdraw(api, token.id).await?;
            return Err(error);
        }
    };
    let message_id = made.message.id;
    Answer { message_id: Some(message_id), ..claimed }.put(api, token.id).await?;
    let body = json!(render::reply(&viewer(token), &made));
    Ok(Outcome { message: Some(body), message_id: Some(message_id), is_ephemeral })
}

/// The application sees its own messages in full.
pub(super) fn viewer(token: &Token) -> User {
    User::new(token.application, "application")
}

async fn update(
    api: &Api,
    token: &Token,
    kind: u8,
    data: &Value,
    input: MessageBodyInput,
) -> Result<Outcome, ApiError> {
    let source = token.source.ok_or(ApiError::Bug("a component has a message"))?;
    let (mut patch, files) = match kind {
        UPDATE => message_form::message_patch(data, &input.uploads.numbers()).map_err(within_data)?,
        _ => Default::default(),
    };
    let answer = Answer::new(kind, Some(source.message_id), source.is_ephemeral);
    answer.claim(api, token.id).await?;
    if kind == DEFERRED_UPDATE {
        return Ok(Outcome::default());
    }
    let changed = async {
        let kept = input.uploads.keep(&api.media, token.channel_id, &files).await?;
        kept.put_into_patch(&mut patch);
        let changed = match source.is_ephemeral {
            true => ephemeral::edit(api, token, source.message_id, patch).await,
            false => {
                let patch = ResponsePatch { application: token.application, interaction: None, patch };
                let command = request::EditResponse(token.channel_id, source.message_id, Box::new(patch));
                let guild_id = api.channel_guild(token.channel_id).await?;
                api.node.command(guild_id, Actor::System, command).await.map_err(ApiError::from)
            }
        };
        kept.settled(changed).await
    };
    match changed.await {
        Ok(changed) => Ok(Outcome {
            message: Some(json!(render::reply(&viewer(token), &changed))),
            message_id: Some(source.message_id),
            is_ephemeral: source.is_ephemeral,
        }),
        Err(error) => {
            Answer::withdraw(api, token.id).await?;
            Err(error)
        }
    }
}

/// A form that the application shows to the user.
async fn modal(api: &Api, token: &Token, data: &Value) -> Result<Outcome, ApiError> {
    let modal = ModalForm::read(data).map_err(|faults| ApiError::from(FieldErrors::within("data", faults)))?;
    Answer::new(SHOW_MODAL, None, false).claim(api, token.id).await?;
    modal.show(api, token).await?;
    Ok(Outcome::default())
}

/// The choices of an option that the user types.
async fn choices(api: &Api, token: &Token, data: &Value) -> Result<Outcome, ApiError> {
    let choices = form::object(data, |form| {
        form.required("choices", |v| {
            form::list(v, 0, CHOICES_MAX, |v| {
                form::object(v, |form| {
                    let name = form.required("name", |v| form::name(v, 1, 100));
                    let value = form.required("value", |v| match v {
                        Value::Number(_) => Ok(v.clone()),
                        _ => form::text(v, 0, 100).map(Value::from),
                    });
                    Some(json!({"name": name?, "value": value?}))
                })
            })
        })
    });
    let choices = choices.map_err(|faults| ApiError::from(FieldErrors::within("data", faults)))?;
    Answer::new(AUTOCOMPLETE_RESULT, None, false).claim(api, token.id).await?;
    let body = json!({"choices": choices, "nonce": token.nonce});
    let name = EventName::ApplicationCommandAutocompleteResponse;
    publish(api, name, token.guild_id, token.user_id, &body)?;
    Ok(Outcome::default())
}

/// Type of the message that answers an interaction without a message.
pub(super) fn kind_of(token: &Token) -> u8 {
    match (token.kind, token.command_type) {
        (COMMAND, CHAT_INPUT) => Message::KIND_CHAT_INPUT_COMMAND,
        (COMMAND, _) => Message::KIND_CONTEXT_MENU_COMMAND,
        _ => Message::KIND_DEFAULT,
    }
}
