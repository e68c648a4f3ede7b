//! Direct messages and groups: opened, listed, joined and left. Their messages use the routes of every channel.
//!
//! Spec  docs/protocol/reference.md §10.2; ADR 25.

use super::Call;
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form,
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Command, DirectCommand, Refusal};
use guildhall_model::{Direct, User, UserId, from_gateway::DirectBody};
use std::sync::Arc;

/// Limit of a form; the guild enforces the limit of a group, with a code of its own.
const RECIPIENTS_NAMED_MAX: usize = 100;

/// A direct message from the caller's point of view.
pub(super) fn body(caller: &User, direct: &Direct) -> Response {
    Json(DirectBody::new(direct, caller.id).for_rest()).into_response()
}

/// Recipients in a form: one account, or those of a group.
enum Wanted {
    One(UserId),
    Group(Vec<UserId>),
}

/// User clients name one in a list too.
fn wanted(recipient_id: Option<UserId>, recipients: Option<Vec<UserId>>) -> Option<Wanted> {
    match (recipient_id, recipients) {
        (Some(user_id), _) => Some(Wanted::One(user_id)),
        (None, Some(user_ids)) => match user_ids[..] {
            [user_id] => Some(Wanted::One(user_id)),
            _ => Some(Wanted::Group(user_ids)),
        },
        (None, None) => None,
    }
}

async fn recipient(api: &Api, user_id: UserId) -> Result<Arc<User>, ApiError> {
    api.node.user(user_id).await?.ok_or(ApiError::Refused(Refusal::InvalidRecipient))
}

pub(super) async fn open(
    State(api): State<Arc<Api>>,
    caller: Caller,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let wanted = input.read(&api, ReadPermit::caller(&caller), BodyLimits::FORM, |form| {
        let recipients = form.optional("recipients", |v| form::list(v, 0, RECIPIENTS_NAMED_MAX, form::id));
        let recipient_id = match recipients {
            Some(_) => form.optional("recipient_id", form::id),
            None => form.required("recipient_id", form::id),
        };
        wanted(recipient_id, recipients)
    });
    let direct = match wanted.await? {
        Wanted::One(user_id) => api.node.open_direct(&caller.0, &recipient(&api, user_id).await?).await?,
        Wanted::Group(_) if caller.bot => {
            return Err(ApiError::coded(StatusCode::FORBIDDEN, 20001, "Bots cannot use this endpoint"));
        }
        Wanted::Group(user_ids) => {
            if user_ids.len() > Direct::RECIPIENTS_MAX {
                return Err(Refusal::TooManyRecipients.into());
            }
            let mut others = Vec::with_capacity(user_ids.len());
            for user_id in user_ids {
                others.push(recipient(&api, user_id).await?);
            }
            api.node.create_group(&caller.0, &others).await?
        }
    };
    Ok(body(&caller, &direct))
}

/// The caller's list of direct messages; bots have none.
pub(super) async fn list(State(api): State<Arc<Api>>, caller: Caller) -> Result<Response, ApiError> {
    let directs = if caller.bot { Vec::new() } else { api.node.directs_of_user(caller.id).await? };
    Ok(Json(directs.iter().map(|direct| DirectBody::new(direct, caller.id).for_rest()).collect::<Vec<_>>())
        .into_response())
}

pub(super) async fn add_recipient(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let channel_id = params.id("channel_id")?;
    let user = recipient(&api, params.id("user_id")?).await?;
    api.node.need_consent(caller.id, user.id).await?;
    api.done_in_channel(&caller, channel_id, Command::Direct(DirectCommand::AddRecipient(user))).await
}

pub(super) async fn remove_recipient(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let channel_id = params.id("channel_id")?;
    let command = DirectCommand::RemoveRecipient(params.id("user_id")?);
    api.done_in_channel(&caller, channel_id, Command::Direct(command)).await
}
