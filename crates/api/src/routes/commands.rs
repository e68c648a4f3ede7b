//! Application commands: bots register them at start. They are not kept, as there is nobody to invoke them yet; the
//! answers are well-formed, so that bots start.
//!
//! Limits      `COMMANDS_MAX` per request, each of any shape that fits the body limit.     Spec  docs/protocol.md §10.2.

use super::PathParams;
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonBody, JsonRequest},
    error::ApiError,
    form::{self, Parsed},
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_model::{ApplicationId, GuildId, Id};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// 100 commands, 15 for users, 15 for messages, and one entry point, as upstream.
const COMMANDS_MAX: usize = 131;
const NAME_CHARS_MAX: usize = 32;

/// Where commands belong. The caller must be the application.
struct Scope {
    application_id: ApplicationId,
    guild_id: Option<GuildId>,
}

impl Scope {
    fn of(params: &PathParams, caller: &Caller) -> Result<Self, ApiError> {
        let application_id: ApplicationId = params.id("application_id")?;
        if application_id.get() != caller.id.get() || !caller.bot {
            let message = "You are not authorized to perform this action on this application";
            return Err(ApiError::coded(StatusCode::FORBIDDEN, 20012, message));
        }
        let guild_id = if params.text("guild_id").is_empty() { None } else { Some(params.id("guild_id")?) };
        Ok(Self { application_id, guild_id })
    }

    /// Reads the body, after it checked that the bot is a member of the guild.
    async fn read(&self, api: &Api, caller: &Caller, input: JsonRequest) -> Result<JsonBody, ApiError> {
        let permit = match self.guild_id {
            Some(guild_id) => ReadPermit::guild(api, caller, guild_id).await?,
            None => ReadPermit::caller(caller),
        };
        input.json(api, permit, BodyLimits::COMMANDS).await
    }

    /// A command as it would have been kept.
    async fn echo(&self, api: &Api, mut command: Map<String, Value>) -> Result<Value, ApiError> {
        let id: Id<()> = api.node.next_id().await?;
        let version: Id<()> = api.node.next_id().await?;
        let mut set = |key: &str, value: Value| command.insert(key.to_owned(), value);
        set("id", json!(id));
        set("version", json!(version));
        set("application_id", json!(self.application_id));
        if let Some(guild_id) = self.guild_id {
            set("guild_id", json!(guild_id));
        }
        for (key, default) in [
            ("type", json!(1)),
            ("description", json!("")),
            ("default_member_permissions", Value::Null),
            ("nsfw", json!(false)),
        ] {
            command.entry(key).or_insert(default);
        }
        Ok(Value::Object(command))
    }
}

/// A command needs a name; everything else is its own business.
fn command(value: &Value) -> Parsed<Map<String, Value>> {
    form::object(value, |form| form.required("name", |v| form::text(v, 1, NAME_CHARS_MAX)))?;
    Ok(value.as_object().cloned().unwrap_or_default())
}

pub(super) async fn list(caller: Caller, params: PathParams) -> Result<Response, ApiError> {
    Scope::of(&params, &caller)?;
    Ok(Json([(); 0]).into_response())
}

pub(super) async fn replace(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let scope = Scope::of(&params, &caller)?;
    let input = scope.read(&api, &caller, input).await?;
    let mut echoes = Vec::new();
    for command in form::list(&input.value, 0, COMMANDS_MAX, command)? {
        echoes.push(scope.echo(&api, command).await?);
    }
    Ok(Json(echoes).into_response())
}

pub(super) async fn create(
    State(api): State<Arc<Api>>,
    caller: Caller,
    params: PathParams,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let scope = Scope::of(&params, &caller)?;
    let input = scope.read(&api, &caller, input).await?;
    let echo = scope.echo(&api, command(&input.value)?).await?;
    Ok((StatusCode::CREATED, Json(echo)).into_response())
}
