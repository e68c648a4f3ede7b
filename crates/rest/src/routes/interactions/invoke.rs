//! Invocations: a user account uses a command or a component, types into an option, or submits a modal.
//!
//! Owns        `POST /interactions`.
//! Invariants  I1 nothing reaches the application unless the account may view the channel, may use the command, and the
//!             application offers it. (tests of
//!             `guildhall/tests/it/surface/interactions.rs`)
//! Limits      the bucket of the route; `WAITING_MAX`.
//! Spec        docs/protocol/choices.md "Interactions".

use super::{
    AUTOCOMPLETE, CHAT_INPUT, COMMAND, COMPONENT, MODAL, OF_MESSAGE, OF_USER, answers,
    components::Used,
    describe::Scene,
    endpoint::Way,
    ephemeral::Ephemeral,
    files,
    modals::{Modal, unknown_modal},
    options::{Chosen, Wanted},
    permissions::{Overrides, asker},
    publish,
    token::{Source, Token},
};
use crate::{
    auth::Caller,
    body::{MessageBodyInput, MessageRequest},
    error::ApiError,
    form::{self, FieldError, FieldErrors},
    permit::ReadPermit,
    routes::{Call, commands, message_form, messages},
    state::Api,
};
use axum::http::StatusCode;
use guildhall_guild::Refusal;
use guildhall_media::Uploads;
use guildhall_model::{
    ChannelId, EventName, GuildId, Id, Message, MessageId, Nonce, Permissions, UserId, from_gateway::MessageBody,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Contexts of a command: in a guild, in a direct message with the bot.
const IN_GUILD: i64 = 0;
const IN_DIRECT: i64 = 1;

/// A request, before its data is read.
struct Invocation {
    kind: u8,
    application: UserId,
    channel_id: ChannelId,
    guild_id: Option<GuildId>,
    nonce: Option<Nonce>,
    data: Value,
    /// For components.
    message_id: Option<MessageId>,
    /// Numbers of the request's files.
    sent: Vec<usize>,
}

pub(crate) async fn create(Call { api, caller, .. }: Call, request: MessageRequest) -> Result<StatusCode, ApiError> {
    if caller.bot {
        return Err(ApiError::coded(StatusCode::FORBIDDEN, 20001, "Bots cannot use this endpoint"));
    }
    // The channel is in the body, so whether its files may be sent there is known after them.
    let input = request.read_form(&api, ReadPermit::caller(&caller), async { Ok(()) }).await?;
    let MessageBodyInput { value, uploads, .. } = &input;
    let sent = uploads.numbers();
    let invocation = form::object(value, |form| {
        let kind = form.required("type", |v| form::integer(v, COMMAND.into(), MODAL.into()));
        let application = form.required("application_id", form::id);
        let channel_id = form.required("channel_id", form::id);
        let guild_id = form.optional("guild_id", form::id);
        let nonce = form.optional("nonce", message_form::nonce);
        // Clients name their session. All sessions of the account receive the news, so it is only checked.
        form.optional("session_id", |v| form::text(v, 0, 128));
        let message_id = form.optional("message_id", form::id);
        let data = form.required("data", |v| form::object(v, |_| Some(v.clone())));
        Some(Invocation {
            kind: kind? as u8,
            application: application?,
            channel_id: channel_id?,
            guild_id,
            nonce,
            data: data?,
            message_id,
            sent: sent.clone(),
        })
    })?;
    let place = api.answers.place()?;
    let way = Way::of(&api, invocation.application).await?;
    let made = match invocation.kind {
        COMMAND | AUTOCOMPLETE => command(&api, &caller, &invocation, input.uploads).await?,
        COMPONENT => component(&api, &caller, &invocation).await?,
        _ => modal(&api, &caller, &invocation).await?,
    };
    let Made { token, body } = made;
    if way.is_none() {
        publish(&api, EventName::InteractionCreate, token.guild_id, token.application, &body)?;
    }
    let news = json!({"id": token.id, "nonce": token.nonce});
    publish(&api, EventName::InteractionCreate, token.guild_id, token.user_id, &news)?;
    if let Some(way) = way {
        way.send(Arc::clone(&api), token.clone(), &body);
    }
    answers::await_answer(api, token, place);
    Ok(StatusCode::NO_CONTENT)
}

/// An interaction that may go to its application.
struct Made {
    token: Token,
    body: Value,
}

impl Invocation {
    async fn scene(&self, api: &Api, caller: &Caller, wanted: &Wanted) -> Result<Scene, ApiError> {
        let scene = Scene::read(api, caller, self.channel_id, self.application, wanted).await?;
        if self.guild_id.is_some_and(|given| scene.guild_id != Some(given)) {
            return Err(ApiError::UNKNOWN_CHANNEL);
        }
        Ok(scene)
    }

    fn token(&self, id: Id<()>, scene: &Scene) -> Token {
        Token {
            id,
            application: self.application,
            user_id: scene.user.id,
            guild_id: scene.guild_id,
            channel_id: self.channel_id,
            kind: self.kind,
            command_type: 0,
            name: String::new(),
            nonce: self.nonce.clone(),
            source: None,
            triggering: None,
        }
    }
}

async fn command(api: &Api, caller: &Caller, invocation: &Invocation, uploads: Uploads) -> Result<Made, ApiError> {
    let (command_id, target_id) = form::object(&invocation.data, |form| {
        Some((form.required("id", form::id::<()>)?, form.optional("target_id", form::id::<()>)))
    })
    .map_err(within_data)?;
    // The place before the command: a caller who cannot view the channel learns nothing of commands.
    let place = invocation.scene(api, caller, &Wanted::default()).await?;
    let definition = commands::find_for(api, invocation.application, place.guild_id, command_id).await?;
    let kind = definition.get("type").and_then(Value::as_u64).unwrap_or_default() as u8;
    let overrides = Overrides::of_place(api, &place).await?;
    need_permission(&place, &overrides, command_id, &definition)?;
    let is_autocomplete = invocation.kind == AUTOCOMPLETE;
    if is_autocomplete && kind != CHAT_INPUT {
        return Err(form_fault("id", "Only chat commands have autocompletion."));
    }
    let outdated = form::object(&invocation.data, |form| {
        Some(form.optional("version", form::id::<()>).is_some_and(|version| definition["version"] != json!(version)))
    });
    if outdated.map_err(within_data)? {
        let message = "This command is outdated, please try again in a few minutes";
        let fault = FieldError::new("INTERACTION_APPLICATION_COMMAND_INVALID_VERSION", message);
        return Err(FieldErrors::within("data", FieldErrors::at("version", fault)).into());
    }
    let definition = Value::Object(definition);
    let mut data = Map::new();
    let mut chosen = Chosen::default();
    let mut message = None;
    match kind {
        CHAT_INPUT => {
            chosen = Chosen::read(&definition, invocation.data.get("options"), &invocation.sent, is_autocomplete)
                .map_err(|faults| within_data(FieldErrors::within("options", faults)))?;
        }
        OF_USER | OF_MESSAGE => {
            let target_id =
                target_id.ok_or_else(|| within_data(FieldErrors::at("target_id", FieldError::required())))?;
            data.insert("target_id".to_owned(), json!(target_id));
            if kind == OF_USER {
                chosen.wanted.users.push(target_id.cast());
            } else {
                let found = messages::readable(api, caller, invocation.channel_id, target_id.cast()).await?;
                message = Some(found.message);
            }
        }
        _ => return Err(unknown_command()),
    }
    let mut scene = invocation.scene(api, caller, &chosen.wanted).await?;
    if !chosen.files.is_empty() {
        let held = files::hold(api, caller, &scene, uploads.only(&chosen.files)).await?;
        chosen.put_files(&held.attachments);
        scene.files = Some(held);
    }
    if kind == CHAT_INPUT {
        data.insert("options".to_owned(), Value::Array(std::mem::take(&mut chosen.options)));
    }
    for key in ["id", "name", "type", "guild_id"] {
        if let Some(value) = definition.get(key) {
            data.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(resolved) = scene.resolved(message.as_deref()) {
        data.insert("resolved".to_owned(), resolved);
    }
    let name = definition["name"].as_str().unwrap_or_default();
    let names = std::iter::once(name).chain(chosen.names.iter().map(String::as_str));
    let mut token = invocation.token(api.node.next_id().await?, &scene);
    token.command_type = kind;
    token.name = names.collect::<Vec<_>>().join(" ");
    let body = scene.body(&token, &token.write(&api.node)?, Value::Object(data), None);
    Ok(Made { token, body })
}

/// A message with components that the caller may use.
async fn source(
    api: &Api,
    caller: &Caller,
    invocation: &Invocation,
    message_id: MessageId,
) -> Result<Option<(Source, Arc<Message>)>, ApiError> {
    let is_its =
        |message: &Message| message.author.id == invocation.application && message.channel_id == invocation.channel_id;
    if let Some(found) = Ephemeral::read(api, message_id).await? {
        let is_readers = found.reader == caller.id && is_its(&found.message);
        return Ok(is_readers.then_some((Source { message_id, is_ephemeral: true }, found.message)));
    }
    let found = api.message(invocation.channel_id, message_id).await?.map(|found| found.message);
    let found = found.filter(|message| is_its(message));
    Ok(found.map(|message| (Source { message_id, is_ephemeral: false }, message)))
}

async fn component(api: &Api, caller: &Caller, invocation: &Invocation) -> Result<Made, ApiError> {
    let message_id = invocation.message_id.ok_or_else(|| FieldErrors::at("message_id", FieldError::required()))?;
    let place = invocation.scene(api, caller, &Wanted::default()).await?;
    if place.context.is_silenced {
        return Err(ApiError::Refused(Refusal::MissingPermissions));
    }
    let found = source(api, caller, invocation, message_id).await?;
    let (source, message) = found.ok_or(ApiError::UNKNOWN_MESSAGE)?;
    let used = Used::read(&message.components, &invocation.data).map_err(|faults| {
        // To whoever may not read the history, a message without the component is as one that does not exist.
        let context = &place.context;
        let may_know = source.is_ephemeral || context.permissions.may_read_history(context.channel.kind);
        if may_know { within_data(faults) } else { ApiError::UNKNOWN_MESSAGE }
    })?;
    let scene = invocation.scene(api, caller, &used.wanted).await?;
    let mut data = used.data;
    if let Some(resolved) = scene.resolved(None) {
        data["resolved"] = resolved;
    }
    let mut token = invocation.token(api.node.next_id().await?, &scene);
    token.source = Some(source);
    let message = json!(MessageBody::new(&message).for_rest());
    let body = scene.body(&token, &token.write(&api.node)?, data, Some(message));
    Ok(Made { token, body })
}

async fn modal(api: &Api, caller: &Caller, invocation: &Invocation) -> Result<Made, ApiError> {
    let (id, custom_id) = form::object(&invocation.data, |form| {
        let id = form.required("id", form::id::<()>);
        Some((id?, form.required("custom_id", |v| form::text(v, 1, 100))?))
    })
    .map_err(within_data)?;
    let place = invocation.scene(api, caller, &Wanted::default()).await?;
    if place.context.is_silenced {
        return Err(ApiError::Refused(Refusal::MissingPermissions));
    }
    let modal = Modal::read(api, id).await?.filter(|modal| {
        let place = (modal.application, modal.channel_id) == (invocation.application, invocation.channel_id);
        place && modal.user_id == caller.id && modal.custom_id == custom_id
    });
    let modal = modal.ok_or_else(unknown_modal)?;
    let given = invocation.data.get("components").unwrap_or(&Value::Null);
    let submitted = modal.values(given).map_err(|faults| within_data(FieldErrors::within("components", faults)))?;
    let scene = invocation.scene(api, caller, &submitted.wanted).await?;
    let message = match modal.source {
        Some(of) => source(api, caller, invocation, of.message_id).await?.map(|(_, message)| message),
        None => None,
    };
    let mut data = json!({"custom_id": modal.custom_id, "components": submitted.components});
    if let Some(resolved) = scene.resolved(None) {
        data["resolved"] = resolved;
    }
    let mut token = invocation.token(api.node.next_id().await?, &scene);
    // Without its message, which may be deleted, a modal is as one of a command.
    token.source = modal.source.filter(|_| message.is_some());
    token.triggering = Some(modal.triggering);
    let message = message.map(|message| json!(MessageBody::new(&message).for_rest()));
    let body = scene.body(&token, &token.write(&api.node)?, data, message);
    if !Modal::take(api, id).await? {
        return Err(unknown_modal());
    }
    Ok(Made { token, body })
}

fn within_data(faults: FieldErrors) -> ApiError {
    FieldErrors::within("data", faults).into()
}

fn form_fault(key: &str, message: &'static str) -> ApiError {
    within_data(FieldErrors::at(key, FieldError::new("INVALID_VALUE", message)))
}

fn unknown_command() -> ApiError {
    ApiError::coded(StatusCode::NOT_FOUND, 10063, "Unknown Application Command")
}

/// Whether the account may use a command there (I1).
pub(super) fn need_permission(
    place: &Scene,
    overrides: &Overrides,
    command_id: Id<()>,
    definition: &Map<String, Value>,
) -> Result<(), ApiError> {
    let is_true = |key: &str, default: bool| definition.get(key).and_then(Value::as_bool).unwrap_or(default);
    let context = if place.guild_id.is_some() { IN_GUILD } else { IN_DIRECT };
    let is_of_context = match definition.get("contexts").and_then(Value::as_array) {
        Some(contexts) => contexts.iter().any(|of| of.as_i64() == Some(context)),
        None => context == IN_GUILD || is_true("dm_permission", true),
    };
    if !is_of_context {
        return Err(unknown_command());
    }
    let Some(asker) = asker(place) else { return Ok(()) };
    let permissions = place.context.permissions;
    let is_admin = permissions.contains(Permissions::ADMINISTRATOR);
    let default = definition.get("default_member_permissions").and_then(Value::as_str).map(str::parse::<u64>);
    let is_allowed = match overrides.admits(command_id, &asker) {
        Some(is_admitted) => is_admitted,
        None => match default {
            None => true,
            // No permission admits to it: administrators only.
            Some(Ok(0) | Err(_)) => is_admin,
            Some(Ok(bits)) => permissions.contains(Permissions(bits)),
        },
    };
    if !permissions.contains(Permissions::USE_APPLICATION_COMMANDS) || !(is_allowed || is_admin) {
        return Err(ApiError::Refused(Refusal::MissingPermissions));
    }
    if is_true("nsfw", false) && !place.context.channel.nsfw {
        return Err(ApiError::coded(
            StatusCode::FORBIDDEN,
            50024,
            "Age-restricted commands work only in age-restricted channels",
        ));
    }
    Ok(())
}
