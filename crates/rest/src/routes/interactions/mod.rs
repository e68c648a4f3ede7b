//! Interactions: users invoke commands and components of applications, and applications answer.
//!
//! Owns        a file per step: `invoke` (a user's request), `options`, `components`, `files` and `describe` (its
//!             data), `endpoint` (applications that receive them by HTTP), `callback` (the first answer), `followups`
//!             (later ones), `ephemeral` (messages for one reader), `answers` (the stored records of an interaction),
//!             `token` (the right to answer it).
//! Invariants  N1 an interaction is answered once, within `ANSWER_MS` (`Token::of_callback`, `await_answer`; `endpoint`
//!             by HTTP): the store decides between nodes. N2 a token
//!             opens its own interaction, for `TOKEN_MS`. N3 only sessions of its reader receive an ephemeral message,
//!             or anything that depends on it. (tests `guildhall/tests/it/surface/interactions.rs`)
//! Limits      `WAITING_MAX` interactions of this node wait for their answer; past it users get 503. `FOLLOWUPS_MAX`
//!             ephemeral followups of one interaction; past it 40094.
//! Not here    registration: `super::commands`.     Spec  docs/protocol/choices.md "Interactions".

pub(super) mod answers;
pub(super) mod callback;
mod components;
mod describe;
pub(super) mod endpoint;
mod ephemeral;
mod files;
pub(super) mod followups;
pub(super) mod index;
pub(super) mod invoke;
mod modals;
mod options;
pub(super) mod permissions;
mod token;

pub(crate) use answers::Answers;
pub(crate) use endpoint::Endpoints;

use crate::{error::ApiError, state::Api};
use axum::http::StatusCode;
use guildhall_guild_protocol::{BackendEvent, Event};
use guildhall_model::{EventName, GuildId, UserId};
use serde::Serialize;
use std::sync::Arc;

/// Until then the application has to answer.
const ANSWER_MS: i64 = 3_000;
/// Until then it may send further answers, and change them.
const TOKEN_MS: i64 = 15 * 60_000;
/// Interactions that wait for their answer.
const WAITING_MAX: usize = 4_096;
/// Interactions whose files are held for their application.
const HOLDING_MAX: usize = 1_024;
/// Ephemeral followups of one interaction.
const FOLLOWUPS_MAX: u8 = 20;

/// Types of interactions.
const COMMAND: u8 = 2;
const COMPONENT: u8 = 3;
const AUTOCOMPLETE: u8 = 4;
const MODAL: u8 = 5;

/// Types of commands.
const CHAT_INPUT: u8 = 1;
const OF_USER: u8 = 2;
const OF_MESSAGE: u8 = 3;

/// The interaction is answered, or does not exist any more.
fn unknown_interaction() -> ApiError {
    ApiError::coded(StatusCode::NOT_FOUND, 10062, "Unknown interaction")
}

/// Whether a text has the form of an interaction's token.
pub(crate) fn is_interaction_token(text: &str) -> bool {
    token::Token::is_one(text)
}

/// The application is not there.
fn unknown_application() -> ApiError {
    ApiError::coded(StatusCode::NOT_FOUND, 10002, "Unknown Application")
}

/// Sends an event about an interaction to the sessions of an account.
fn publish(
    api: &Api,
    name: EventName,
    guild_id: Option<GuildId>,
    to: UserId,
    body: &impl Serialize,
) -> Result<(), ApiError> {
    let body = serde_json::value::to_raw_value(body).map_err(|_| ApiError::Bug("an event that can be written"))?;
    let event =
        BackendEvent::new(name.as_str(), &body, None).map_err(|_| ApiError::Bug("an event that can be sent"))?;
    Ok(api.node.publish_to_accounts(Event::of_interaction(guild_id, to, Arc::new(event)))?)
}
