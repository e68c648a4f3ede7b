//! Application commands: bots register them, and the node stores and returns them.
//!
//! Owns        a record of the store per application and scope (everywhere, or one guild): `RECORDS`.
//! Invariants  A1 answers contain what is stored. A2 no two commands of one type and scope have the same name.
//! Limits      `TYPES` has the number of each type; `COMMAND_BYTES_MAX` for one; a guild's only while the
//!             bot is a member.
//! Not here    their use: `super::interactions`.
//! Spec        docs/protocol/reference.md §10.2; docs/protocol/choices.md "Application commands".

use super::{Call, PathParams, small::need_own_application};
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonBody, JsonRequest},
    error::ApiError,
    form::{self, FieldError, FieldErrors, Form, Parsed},
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_model::{ApplicationId, GuildId, Id, Permissions, UserId};
use serde_json::{Map, Value, json};

/// Kind of the records.
const RECORDS: &str = "commands";
/// Most commands of each type, as upstream: for chat, for users, for messages, and the entry point.
const TYPES: [(u8, usize); 4] = [(1, 100), (2, 15), (3, 15), (4, 1)];
const COMMANDS_MAX: usize = 131;
/// Of a change: other nodes may change the same commands.
const ATTEMPTS_MAX: u32 = 10;
/// Bytes of one stored command. Upstream counts 8,000 characters of names, descriptions and values.
const COMMAND_BYTES_MAX: usize = 32 * 1024;
const NAME_CHARS_MAX: usize = 32;
const DESCRIPTION_CHARS_MAX: usize = 100;
const OPTIONS_MAX: usize = 25;
/// A group holds subcommands, which hold options.
const OPTIONS_DEPTH_MAX: u8 = 3;
const LOCALES_MAX: usize = 40;

const CHAT: u8 = 1;
const SUBCOMMAND: i64 = 1;
const SUBCOMMAND_GROUP: i64 = 2;

type Fields = Map<String, Value>;

/// Where commands belong. The caller must be the application.
struct Scope {
    application_id: ApplicationId,
    guild_id: Option<GuildId>,
    permit: ReadPermit,
}

impl Scope {
    async fn of(api: &Api, params: &PathParams, caller: &Caller) -> Result<Self, ApiError> {
        need_own_application(caller, params)?;
        let application_id: ApplicationId = params.id("application_id")?;
        let guild_id = if params.text("guild_id").is_empty() { None } else { Some(params.id("guild_id")?) };
        let permit = match guild_id {
            Some(guild_id) => ReadPermit::guild(api, caller, guild_id).await.map_err(|_| ApiError::MISSING_ACCESS)?,
            None => ReadPermit::caller(caller),
        };
        Ok(Self { application_id, guild_id, permit })
    }

    async fn body(&self, api: &Api, input: JsonRequest) -> Result<JsonBody, ApiError> {
        input.json(api, self.permit, BodyLimits::COMMANDS).await
    }

    fn record_id(&self) -> [u8; 16] {
        record_id(self.application_id, self.guild_id)
    }

    async fn read(&self, api: &Api) -> Result<Vec<Fields>, ApiError> {
        stored(api.node.store().record(RECORDS, &self.record_id()).await?.as_deref())
    }

    /// Applies `change` to the stored commands, again if another node changed them meanwhile.
    async fn change<T>(
        &self,
        api: &Api,
        mut change: impl FnMut(&mut Vec<Fields>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let (store, id) = (api.node.store(), self.record_id());
        for _ in 0..ATTEMPTS_MAX {
            let before = store.record(RECORDS, &id).await?;
            let mut commands = stored(before.as_deref())?;
            let changed = change(&mut commands)?;
            check_all(&commands)?;
            let after = match commands[..] {
                [] => None,
                _ => Some(serde_json::to_vec(&commands).map_err(|_| ApiError::Bug("commands that can be written"))?),
            };
            if store.swap_record(RECORDS, &id, before.as_deref(), after.as_deref()).await? {
                return Ok(changed);
            }
        }
        Err(ApiError::Overloaded)
    }

    /// Completes a command that is new, or that replaces `before` and has its id.
    fn finish(&self, version: Id<()>, mut fields: Fields, before: Option<&Fields>) -> Fields {
        let id = match before {
            Some(before) => before.get("id").cloned().unwrap_or_default(),
            None => json!(version),
        };
        fields.insert("id".to_owned(), id);
        fields.insert("version".to_owned(), json!(version));
        fields.insert("application_id".to_owned(), json!(self.application_id));
        if let Some(guild_id) = self.guild_id {
            fields.insert("guild_id".to_owned(), json!(guild_id));
        }
        fields
    }
}

fn record_id(application_id: ApplicationId, guild_id: Option<GuildId>) -> [u8; 16] {
    let guild_id = guild_id.map_or(0, GuildId::get);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&application_id.get().to_be_bytes());
    id[8..].copy_from_slice(&guild_id.to_be_bytes());
    id
}

/// A page of registered commands, by application: those of the guild, and the global ones. With them the place after
/// the page, if there is more.
pub(super) async fn offered(
    api: &Api,
    guild_id: Option<GuildId>,
    after: &[u8],
    limit: u32,
) -> Result<(Vec<(ApplicationId, Vec<Fields>)>, Option<Vec<u8>>), ApiError> {
    let records = api.node.store().records(RECORDS, after, limit).await?;
    let next = records.last().filter(|_| records.len() as u32 == limit).map(|(id, _)| id.clone());
    let mut found = Vec::new();
    for (id, record) in records {
        let number = |at: usize| id.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_be_bytes);
        let (application, scope) = (number(0), number(8));
        if scope == 0 || guild_id.is_some_and(|guild_id| guild_id.get() == scope) {
            found.push((ApplicationId::new(application), stored(Some(&record))?));
        }
    }
    Ok((found, next))
}

/// A command of an application that is offered in a guild, or in direct messages.
pub(super) async fn find_for(
    api: &Api,
    application: UserId,
    guild_id: Option<GuildId>,
    command_id: Id<()>,
) -> Result<Fields, ApiError> {
    let command_id = json!(command_id);
    for scope in guild_id.map(Some).into_iter().chain([None]) {
        let record = api.node.store().record(RECORDS, &record_id(application.cast(), scope)).await?;
        let found = stored(record.as_deref())?.into_iter().find(|command| command.get("id") == Some(&command_id));
        if let Some(found) = found {
            return Ok(found);
        }
    }
    Err(unknown())
}

fn unknown() -> ApiError {
    ApiError::coded(StatusCode::NOT_FOUND, 10063, "Unknown Application Command")
}

/// The commands in a record.
fn stored(record: Option<&[u8]>) -> Result<Vec<Fields>, ApiError> {
    let Some(record) = record else { return Ok(Vec::new()) };
    serde_json::from_slice(record).map_err(|_| ApiError::Bug("a record of commands that can be read"))
}

fn key(fields: &Fields) -> (u64, &str) {
    let kind = fields.get("type").and_then(Value::as_u64).unwrap_or_default();
    (kind, fields.get("name").and_then(Value::as_str).unwrap_or_default())
}

/// Of each type as many as may be, and no name twice (A2).
fn check_all(commands: &[Fields]) -> Result<(), ApiError> {
    for (index, command) in commands.iter().enumerate() {
        if commands[..index].iter().any(|other| key(other) == key(command)) {
            let fault =
                FieldError::new("APPLICATION_COMMANDS_DUPLICATE_NAME", "Application command names must be unique");
            return Err(FieldErrors::at(&index.to_string(), fault).into());
        }
    }
    for (kind, max) in TYPES {
        if commands.iter().filter(|command| key(command).0 == u64::from(kind)).count() > max {
            let message =
                "Maximum number of application commands reached (100 for chat, 15 for users, 15 for messages)";
            return Err(ApiError::coded(StatusCode::BAD_REQUEST, 30032, message));
        }
    }
    Ok(())
}

/// Names of chat commands and of options: letters and digits of any script in lower case, `-`, `_`, `'`.
fn chat_name(value: &Value) -> Parsed<String> {
    let name = form::text(value, 1, NAME_CHARS_MAX)?;
    let is_fine = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '\'') || is_mark(c);
    if name.chars().all(is_fine) && name.to_lowercase() == name {
        return Ok(name);
    }
    let message = "Must be in lower case, and of letters, digits, \"-\", \"_\" and \"'\" only.";
    Err(FieldError::new("APPLICATION_COMMAND_INVALID_NAME", message).into())
}

/// Vowel signs of Devanagari and Thai, which are no letters by themselves.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{900}'..='\u{97F}' | '\u{E00}'..='\u{E7F}')
}

fn localizations(max: usize) -> impl Fn(&Value) -> Parsed<Value> {
    move |value| {
        let not_a_map = || FieldError::new("MODEL_TYPE_CONVERT", "Only dictionaries may be used in a ModelType");
        let map = value.as_object().ok_or_else(not_a_map)?;
        if map.len() > LOCALES_MAX {
            return Err(FieldError::new("BASE_TYPE_MAX_LENGTH", "Must be 40 or fewer in length.").into());
        }
        let mut faults = FieldErrors::default();
        for (locale, text) in map {
            if locale.len() > 10 {
                faults.add(locale, FieldError::new("BASE_TYPE_CHOICES", "This is no locale.").into());
            }
            if let Err(fault) = form::name(text, 1, max) {
                faults.add(locale, fault);
            }
        }
        if faults.is_empty() { Ok(value.clone()) } else { Err(faults) }
    }
}

/// Stores what `read` makes of a field.
fn keep<T: Into<Value>>(
    form: &mut Form<'_>,
    fields: &mut Fields,
    key: &str,
    read: impl Fn(&Value) -> Parsed<T>,
) -> bool {
    let kept = form.optional(key, read);
    let is_there = kept.is_some();
    if let Some(value) = kept {
        fields.insert(key.to_owned(), value.into());
    }
    is_there
}

fn integers(min: i64, max: i64) -> impl Fn(&Value) -> Parsed<Vec<i64>> {
    move |value| form::list(value, 0, 10, |item| form::integer(item, min, max))
}

fn choice(value: &Value) -> Parsed<Value> {
    form::object(value, |form| {
        let mut fields = Fields::new();
        if !keep(form, &mut fields, "name", |v| form::name(v, 1, DESCRIPTION_CHARS_MAX)) && form.has_no_faults() {
            form.fault("name", FieldError::required());
        }
        keep(form, &mut fields, "name_localizations", localizations(DESCRIPTION_CHARS_MAX));
        if !keep(form, &mut fields, "value", scalar) && form.has_no_faults() {
            form.fault("value", FieldError::required());
        }
        Some(Value::Object(fields))
    })
}

fn scalar(value: &Value) -> Parsed<Value> {
    match value {
        Value::String(text) if text.chars().count() <= DESCRIPTION_CHARS_MAX => Ok(value.clone()),
        Value::Number(_) => Ok(value.clone()),
        _ => Err(FieldError::new("INVALID_VALUE", "Must be a text of at most 100 characters, or a number.").into()),
    }
}

fn number(value: &Value) -> Parsed<Value> {
    let fault = FieldError::new("NUMBER_TYPE_COERCE", "Value is not a number.");
    if value.is_number() { Ok(value.clone()) } else { Err(fault.into()) }
}

fn option(value: &Value, depth: u8) -> Parsed<Value> {
    form::object(value, |form| {
        let mut fields = Fields::new();
        let kind = form.required("type", |v| form::integer(v, 1, 11));
        let name = form.required("name", chat_name);
        let description = form.required("description", |v| form::name(v, 1, DESCRIPTION_CHARS_MAX));
        keep(form, &mut fields, "name_localizations", localizations(NAME_CHARS_MAX));
        keep(form, &mut fields, "description_localizations", localizations(DESCRIPTION_CHARS_MAX));
        for key in ["required", "autocomplete"] {
            keep(form, &mut fields, key, form::boolean);
        }
        for key in ["min_value", "max_value"] {
            keep(form, &mut fields, key, number);
        }
        for key in ["min_length", "max_length"] {
            keep(form, &mut fields, key, |v| form::integer(v, 0, 6_000));
        }
        keep(form, &mut fields, "channel_types", integers(0, 16));
        let choices = form.optional("choices", |v| form::list(v, 0, OPTIONS_MAX, choice));
        if let Some(choices) = choices {
            fields.insert("choices".to_owned(), Value::Array(choices));
        }
        let holds_options = matches!(kind, Some(SUBCOMMAND | SUBCOMMAND_GROUP));
        if let Some(options) = options(form, depth + 1) {
            if !holds_options && !options.is_empty() {
                form.fault(
                    "options",
                    FieldError::new("INVALID_VALUE", "Only subcommands and their groups have options."),
                );
            }
            fields.insert("options".to_owned(), Value::Array(options));
        }
        fields.insert("type".to_owned(), json!(kind?));
        fields.insert("name".to_owned(), json!(name?));
        fields.insert("description".to_owned(), json!(description?));
        Some(Value::Object(fields))
    })
}

/// Required ones first, no name twice.
fn options(form: &mut Form<'_>, depth: u8) -> Option<Vec<Value>> {
    let read = |value: &Value| {
        if depth > OPTIONS_DEPTH_MAX {
            return Err(FieldError::new("INVALID_VALUE", "Options are nested too deep.").into());
        }
        form::list(value, 0, OPTIONS_MAX, |value| option(value, depth))
    };
    let options = form.optional("options", read)?;
    let is_required = |option: &Value| option["required"] == true;
    if options.windows(2).any(|pair| !is_required(&pair[0]) && is_required(&pair[1])) {
        let message = "Required options must be placed before non-required options";
        form.fault("options", FieldError::new("APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", message));
    }
    for (index, option) in options.iter().enumerate() {
        if options[..index].iter().any(|other| other["name"] == option["name"]) {
            let message = "Option names must be unique";
            form.fault("options", FieldError::new("APPLICATION_COMMAND_OPTIONS_NAME_ALREADY_EXISTS", message));
        }
    }
    Some(options)
}

/// Checks a command. `before` is the stored command that a PATCH changes; it keeps its type.
fn command(value: &Value, before: Option<&Fields>) -> Parsed<Fields> {
    let fields = form::object(value, |form| {
        let mut fields = before.cloned().unwrap_or_else(defaults);
        let old_kind = before.map(|before| key(before).0 as u8);
        let kind = form.optional("type", |v| Ok(form::integer(v, 1, 4)? as u8)).unwrap_or(CHAT);
        let kind = old_kind.unwrap_or(kind);
        let name = |v: &Value| if kind == CHAT { chat_name(v) } else { form::name(v, 1, NAME_CHARS_MAX) };
        if !keep(form, &mut fields, "name", name) && before.is_none() && form.has_no_faults() {
            form.fault("name", FieldError::required());
        }
        let min = usize::from(kind == CHAT);
        let max = if kind == CHAT || kind == 4 { DESCRIPTION_CHARS_MAX } else { 0 };
        let has_description = keep(form, &mut fields, "description", |v| form::name(v, min, max));
        if kind == CHAT && !has_description && before.is_none() && form.has_no_faults() {
            form.fault("description", FieldError::required());
        }
        // Of a command in a list that replaces all; `Scope::finish` decides.
        keep(form, &mut fields, "id", |v| Ok(json!(form::id::<()>(v)?)));
        keep(form, &mut fields, "name_localizations", localizations(NAME_CHARS_MAX));
        keep(form, &mut fields, "description_localizations", localizations(DESCRIPTION_CHARS_MAX));
        let permissions = form.nullable("default_member_permissions", form::permissions);
        if let Some(permissions) = permissions {
            let permissions: Option<Permissions> = permissions;
            fields.insert("default_member_permissions".to_owned(), json!(permissions));
        }
        for key in ["dm_permission", "nsfw"] {
            keep(form, &mut fields, key, form::boolean);
        }
        keep(form, &mut fields, "contexts", integers(0, 2));
        keep(form, &mut fields, "integration_types", integers(0, 1));
        keep(form, &mut fields, "handler", |v| form::integer(v, 1, 2));
        if let Some(options) = options(form, 1) {
            if kind != CHAT && !options.is_empty() {
                form.fault("options", FieldError::new("INVALID_VALUE", "Only chat commands have options."));
            }
            fields.insert("options".to_owned(), Value::Array(options));
        }
        fields.insert("type".to_owned(), json!(kind));
        Some(fields)
    })?;
    let bytes = serde_json::to_string(&fields).map_or(usize::MAX, |text| text.len());
    if bytes > COMMAND_BYTES_MAX {
        let message = format!("A command may have {COMMAND_BYTES_MAX} bytes; it has {bytes}.");
        return Err(FieldError::new("APPLICATION_COMMAND_TOO_LARGE", message).into());
    }
    Ok(fields)
}

fn defaults() -> Fields {
    let defaults = json!({"description": "", "name_localizations": null, "description_localizations": null,
        "default_member_permissions": null, "dm_permission": true, "nsfw": false, "contexts": null,
        "integration_types": [0]});
    if let Value::Object(fields) = defaults { fields } else { Fields::new() }
}

pub(super) async fn list(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let scope = Scope::of(&api, &params, &caller).await?;
    Ok(Json(scope.read(&api).await?).into_response())
}

/// Replaces all commands. Existing ones keep their ids, by which a command may get another name.
pub(super) async fn replace(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let scope = Scope::of(&api, &params, &caller).await?;
    let input = scope.body(&api, input).await?;
    let wanted = form::list(&input.value, 0, COMMANDS_MAX, |value| command(value, None))?;
    check_all(&wanted)?;
    let mut versions = Vec::with_capacity(wanted.len());
    for _ in &wanted {
        versions.push(api.node.next_id().await?);
    }
    let _turn = api.commands.lock().await;
    let replace = |commands: &mut Vec<Fields>| {
        let is_claimed =
            |id: Option<&Value>, by: &[Fields]| by.iter().any(|other| id.is_some() && other.get("id") == id);
        let finish = |((index, fields), version): ((usize, &Fields), &Id<()>)| {
            let id = fields.get("id").filter(|id| !is_claimed(Some(id), &wanted[..index]));
            let named = commands.iter().find(|other| id.is_some() && other.get("id") == id);
            let same = commands.iter().find(|other| key(other) == key(fields) && !is_claimed(other.get("id"), &wanted));
            scope.finish(*version, fields.clone(), named.or(same))
        };
        *commands = wanted.iter().enumerate().zip(&versions).map(finish).collect();
        Ok(commands.clone())
    };
    let commands = scope.change(&api, replace).await?;
    Ok(Json(commands).into_response())
}

/// Adds a command, or replaces the one with its type and name.
pub(super) async fn create(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let scope = Scope::of(&api, &params, &caller).await?;
    let input = scope.body(&api, input).await?;
    let fields = command(&input.value, None)?;
    let version = api.node.next_id().await?;
    let _turn = api.commands.lock().await;
    let add = |commands: &mut Vec<Fields>| {
        let at = commands.iter().position(|other| key(other) == key(&fields));
        let made = scope.finish(version, fields.clone(), at.map(|at| &commands[at]));
        match at {
            Some(at) => commands[at] = made.clone(),
            None => commands.push(made.clone()),
        }
        Ok((made, if at.is_some() { StatusCode::OK } else { StatusCode::CREATED }))
    };
    let (made, status) = scope.change(&api, add).await?;
    Ok((status, Json(made)).into_response())
}

fn find(commands: &[Fields], params: &PathParams) -> Result<usize, ApiError> {
    let id: Id<()> = params.id("command_id")?;
    let id = json!(id);
    commands.iter().position(|command| command.get("id") == Some(&id)).ok_or_else(unknown)
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let scope = Scope::of(&api, &params, &caller).await?;
    let commands = scope.read(&api).await?;
    Ok(Json(&commands[find(&commands, &params)?]).into_response())
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let scope = Scope::of(&api, &params, &caller).await?;
    // An unknown command is refused before the body is read, and looked up again after that.
    find(&scope.read(&api).await?, &params)?;
    let input = scope.body(&api, input).await?;
    let version = api.node.next_id().await?;
    let _turn = api.commands.lock().await;
    let update = |commands: &mut Vec<Fields>| {
        let at = find(commands, &params)?;
        let fields = command(&input.value, Some(&commands[at]))?;
        commands[at] = scope.finish(version, fields, Some(&commands[at]));
        Ok(commands[at].clone())
    };
    let updated = scope.change(&api, update).await?;
    Ok(Json(updated).into_response())
}

pub(super) async fn delete(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let scope = Scope::of(&api, &params, &caller).await?;
    let _turn = api.commands.lock().await;
    let remove = |commands: &mut Vec<Fields>| {
        commands.remove(find(commands, &params)?);
        Ok(())
    };
    scope.change(&api, remove).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_checked_as_upstream() {
        let is_fine = |body: Value| command(&body, None).is_ok();
        let chat = |name: &str| json!({"name": name, "description": "d"});
        for name in ["ping", "a-b_c'd", "привет", "名前", "नमस्ते"] {
            assert!(is_fine(chat(name)), "{name}");
        }
        for name in ["", "BAD", "bad name", "a.b", &"x".repeat(33)] {
            assert!(!is_fine(chat(name)), "{name}");
        }
        assert!(!is_fine(json!({"name": "a"})) && !is_fine(json!({"name": "a", "description": ""})));
        assert!(is_fine(json!({"name": "Look At", "type": 2})));
        assert!(!is_fine(json!({"name": "Look At", "type": 2, "description": "d"})));
        let with = |options: Value| json!({"name": "a", "description": "d", "options": options});
        let option =
            |name: &str, required: bool| json!({"type": 3, "name": name, "description": "d", "required": required});
        assert!(is_fine(with(json!([option("a", true), option("b", false)]))));
        assert!(!is_fine(with(json!([option("b", false), option("a", true)]))));
        assert!(!is_fine(with(json!([option("a", true), option("a", true)]))));
        assert!(!is_fine(with(json!(vec![option("a", false); 26]))));
        let nested = |inner: Value| {
            json!([{"type": 2, "name": "g", "description": "d",
            "options": [{"type": 1, "name": "s", "description": "d", "options": inner}]}])
        };
        assert!(is_fine(with(nested(json!([option("a", true)])))));
        assert!(!is_fine(with(nested(
            json!([{"type": 1, "name": "x", "description": "d", "options": [option("a", true)]}])
        ))));
        let large: Vec<Value> = (0..25)
            .map(|n| {
                let choices: Vec<Value> =
                    (0..25).map(|m| json!({"name": format!("{m}{}", "ä".repeat(90)), "value": m})).collect();
                json!({"type": 4, "name": format!("o{n}"), "description": "d", "choices": choices})
            })
            .collect();
        assert!(!is_fine(with(json!(large))), "past COMMAND_BYTES_MAX");
    }

    #[test]
    fn a_patch_keeps_the_rest() {
        let before = command(&json!({"name": "a", "description": "d", "nsfw": true, "junk": 1}), None).unwrap();
        assert!(!before.contains_key("junk"), "unknown fields are dropped");
        let after = command(&json!({"description": "e", "default_member_permissions": "8"}), Some(&before)).unwrap();
        assert_eq!((&after["name"], &after["description"], &after["nsfw"]), (&json!("a"), &json!("e"), &json!(true)));
        assert_eq!(after["default_member_permissions"], "8");
    }

    #[test]
    fn so_many_of_a_type_and_no_name_twice() {
        let of = |kind: u8, n: usize| {
            command(
                &json!({"name": format!("c{n}"), "type": kind,
            "description": if kind == 1 { "d" } else { "" }}),
                None,
            )
            .unwrap()
        };
        let many = |kind: u8, count: usize| (0..count).map(|n| of(kind, n)).collect::<Vec<_>>();
        assert!(check_all(&many(1, 100)).is_ok() && check_all(&many(1, 101)).is_err());
        assert!(check_all(&many(2, 15)).is_ok() && check_all(&many(2, 16)).is_err());
        assert!(check_all(&[of(1, 1), of(2, 1)]).is_ok() && check_all(&[of(1, 1), of(1, 1)]).is_err());
    }
}
