//! Rules of auto moderation. Spec  docs/protocol/choices.md "Auto moderation".

use super::{Call, guilds::guild_of_path, guilds::need};
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest},
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
use guildhall_guild::{AutoModPatch, Refusal, check_patterns, request};
use guildhall_model::{
    AutoModAction, AutoModRule, AutoModTrigger, ChannelId, GuildId, Id, Permissions, from_gateway::AutoModRuleBody,
};
use serde_json::{Value, json};
use std::sync::Arc;

const NAME_CHARS_MAX: usize = 100;
const KEYWORDS_MAX: usize = 1_000;
const KEYWORD_CHARS_MAX: usize = 60;
const ALLOWED_MAX: usize = 100;
const PRESET_ALLOWED_MAX: usize = 1_000;
const PATTERNS_MAX: usize = 10;
const PATTERN_CHARS_MAX: usize = 260;
/// Numbers in a request; there are three lists.
const PRESETS_MAX: usize = 10;
const MENTIONS_MAX: i64 = 50;
const ACTIONS_MAX: usize = 5;
const CUSTOM_MESSAGE_CHARS_MAX: usize = 150;
const EXEMPT_ROLES_MAX: usize = 20;
const EXEMPT_CHANNELS_MAX: usize = 50;
/// The one event that rules are for: a message is sent.
const MESSAGE_SEND: i64 = 1;

fn unsupported(message: &'static str) -> FieldError {
    FieldError::new("UNSUPPORTED", message)
}

fn keyword(value: &Value) -> Parsed<String> {
    form::name(value, 1, KEYWORD_CHARS_MAX)
}

/// Types of triggers by their numbers.
fn trigger_kind(value: &Value) -> Parsed<u8> {
    use AutoModTrigger as T;
    match form::integer(value, 1, 6)? as u8 {
        kind @ (T::KEYWORD | T::SPAM | T::KEYWORD_PRESET | T::MENTION_SPAM) => Ok(kind),
        _ => Err(unsupported(
            "This server has rules of types 1 (keywords and patterns), 3 (spam), 4 (lists of words) and 5 (mentions).",
        )
        .into()),
    }
}

fn pattern(value: &Value) -> Parsed<String> {
    form::text(value, 1, PATTERN_CHARS_MAX)
}

/// Patterns that a guild accepts.
fn patterns(value: &Value) -> Parsed<Vec<String>> {
    let patterns = form::list(value, 0, PATTERNS_MAX, pattern)?;
    match check_patterns(&patterns) {
        Ok(()) => Ok(patterns),
        Err((at, why)) => {
            Err(FieldErrors::at(&at.to_string(), FieldError::new("AUTO_MODERATION_INVALID_RUST_REGEX", why)))
        }
    }
}

fn preset(value: &Value) -> Parsed<u8> {
    form::integer(value, 1, 3).map(|n| n as u8)
}

/// Metadata of a trigger of this type. Every field is judged, whatever the type; those of another type are refused.
fn trigger(value: &Value, kind: Option<u8>) -> Parsed<AutoModTrigger> {
    use AutoModTrigger as T;
    form::object(value, |form| {
        let allowed_max = if kind == Some(T::KEYWORD_PRESET) { PRESET_ALLOWED_MAX } else { ALLOWED_MAX };
        let keyword_filter = form.optional("keyword_filter", |v| form::list(v, 0, KEYWORDS_MAX, keyword));
        let allow_list = form.optional("allow_list", |v| form::list(v, 0, allowed_max, keyword));
        let regex_patterns = form.optional("regex_patterns", patterns);
        let presets = form.optional("presets", |v| form::list(v, 0, PRESETS_MAX, preset));
        let limit = form.optional("mention_total_limit", |v| form::integer(v, 1, MENTIONS_MAX));
        if form.optional("mention_raid_protection_enabled", form::boolean) == Some(true) {
            form.fault("mention_raid_protection_enabled", unsupported("This server does not detect raids."));
        }
        let has = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
        let (has_words, has_allowed) = (has(&keyword_filter) || has(&regex_patterns), has(&allow_list));
        let has_presets = presets.as_ref().is_some_and(|presets| !presets.is_empty());
        let kind = kind?;
        let (fits, fields) = match kind {
            T::SPAM => (!has_words && !has_allowed && !has_presets && limit.is_none(), "A rule of this type has none."),
            T::KEYWORD_PRESET => (!has_words && limit.is_none(), "A rule of this type has presets and allow_list."),
            T::MENTION_SPAM => {
                (!has_words && !has_allowed && !has_presets, "A rule of this type has mention_total_limit.")
            }
            _ => (
                !has_presets && limit.is_none(),
                "A rule of this type has keyword_filter, regex_patterns and allow_list.",
            ),
        };
        if !fits {
            form.fault_here(unsupported(fields));
            return None;
        }
        Some(match kind {
            T::SPAM => T::Spam,
            T::KEYWORD_PRESET => {
                let mut presets = presets.unwrap_or_default();
                presets.sort_unstable();
                presets.dedup();
                T::KeywordPreset { presets, allow_list: allow_list.unwrap_or_default() }
            }
            T::MENTION_SPAM => T::MentionSpam { mention_total_limit: limit.unwrap_or(MENTIONS_MAX) as u8 },
            _ => T::Keyword {
                keyword_filter: keyword_filter.unwrap_or_default(),
                regex_patterns: regex_patterns.unwrap_or_default(),
                allow_list: allow_list.unwrap_or_default(),
            },
        })
    })
}

fn action(value: &Value) -> Parsed<AutoModAction> {
    form::object(value, |form| {
        let kind = form.required("type", |v| match form::integer(v, 1, 4)? as u8 {
            kind @ (AutoModAction::BLOCK_MESSAGE | AutoModAction::SEND_ALERT | AutoModAction::TIMEOUT) => Ok(kind),
            _ => Err(unsupported("This server has actions of types 1 (block), 2 (alert) and 3 (time-out).").into()),
        });
        let metadata = form.optional("metadata", |v| {
            form::object(v, |form| {
                let custom_message = form.optional("custom_message", |v| form::name(v, 0, CUSTOM_MESSAGE_CHARS_MAX));
                let channel_id: Option<ChannelId> = form.optional("channel_id", form::id);
                let duration_s =
                    form.optional("duration_seconds", |v| form::integer(v, 1, AutoModAction::TIMEOUT_S_MAX.into()));
                Some((custom_message, channel_id, duration_s))
            })
        });
        let (custom_message, channel_id, duration_s) = metadata.unwrap_or_default();
        match kind? {
            AutoModAction::SEND_ALERT => match channel_id {
                Some(channel_id) => Some(AutoModAction::SendAlert { channel_id }),
                None => missing(form, "channel_id"),
            },
            AutoModAction::TIMEOUT => match duration_s {
                Some(duration_s) => Some(AutoModAction::Timeout { duration_s: duration_s as u32 }),
                None => missing(form, "duration_seconds"),
            },
            _ => Some(AutoModAction::BlockMessage {
                custom_message: custom_message.filter(|message| !message.is_empty()),
            }),
        }
    })
}

/// A field of the metadata is missing, if nothing else is wrong.
fn missing<T>(form: &mut Form<'_>, field: &'static str) -> Option<T> {
    if form.has_no_faults() {
        let fault = FieldError::new("BASE_TYPE_REQUIRED", format!("This action needs metadata.{field}"));
        form.fault("metadata", fault);
    }
    None
}

/// The fields of a rule. `kind`: the type of the rule's trigger, if it has one already.
fn patch(form: &mut Form<'_>, kind: Option<u8>) -> AutoModPatch {
    let is_new = kind.is_none();
    let wished = form.optional("trigger_type", trigger_kind);
    if kind.is_some() && wished.is_some() && wished != kind {
        form.fault("trigger_type", unsupported("The type of a rule does not change."));
    }
    let kind = kind.or(wished);
    form.optional("event_type", |v| match form::integer(v, 1, 2)? {
        MESSAGE_SEND => Ok(()),
        _ => Err(unsupported("Rules of this server are for messages: event_type 1.").into()),
    });
    let metadata = form.optional("trigger_metadata", |v| trigger(v, kind));
    // A new rule may do without.
    let empty = wished.filter(|_| is_new && form.has_no_faults());
    let empty = empty.and_then(|kind| trigger(&json!({}), Some(kind)).ok());
    AutoModPatch {
        name: form.optional("name", |v| form::name(v, 1, NAME_CHARS_MAX)),
        trigger: metadata.or(empty),
        actions: form.optional("actions", |v| form::list(v, 1, ACTIONS_MAX, action)),
        enabled: form.optional("enabled", form::boolean),
        exempt_roles: form.optional("exempt_roles", |v| form::list(v, 0, EXEMPT_ROLES_MAX, form::id)),
        exempt_channels: form.optional("exempt_channels", |v| form::list(v, 0, EXEMPT_CHANNELS_MAX, form::id)),
    }
}

fn body(guild_id: GuildId, rule: &AutoModRule) -> Response {
    Json(AutoModRuleBody::new(guild_id, rule)).into_response()
}

async fn rules(api: &Api, caller: &Caller, guild_id: GuildId) -> Result<Vec<Arc<AutoModRule>>, ApiError> {
    api.request(caller, guild_id, request::ListAutoModRules).await
}

async fn find(api: &Api, caller: &Caller, guild_id: GuildId, id: Id<()>) -> Result<Arc<AutoModRule>, ApiError> {
    let found = rules(api, caller, guild_id).await?.into_iter().find(|rule| rule.id == id);
    found.ok_or(ApiError::Refused(Refusal::UnknownAutoModRule))
}

pub(super) async fn list(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let rules = rules(&api, &caller, guild_id).await?;
    Ok(Json(rules.iter().map(|rule| AutoModRuleBody::new(guild_id, rule)).collect::<Vec<_>>()).into_response())
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    Ok(body(guild_id, &*find(&api, &caller, guild_id, params.id("rule_id")?).await?))
}

pub(super) async fn create(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let guild = guild_of_path(&api, &caller, &params).await?;
    need(&guild, Permissions::MANAGE_GUILD)?;
    let permit = ReadPermit::read_guild(&caller, &guild);
    let new = input.read(&api, permit, BodyLimits::MESSAGE, |form| {
        let new = patch(form, None);
        for field in ["name", "event_type", "trigger_type", "actions"] {
            form.required(field, |_| Ok(()));
        }
        Some(new)
    });
    let new = request::CreateAutoModRule(Box::new(new.await?));
    Ok(body(guild_id, &*api.request(&caller, guild_id, new).await?))
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let (guild_id, id) = (params.id("guild_id")?, params.id("rule_id")?);
    let guild = guild_of_path(&api, &caller, &params).await?;
    let rule = find(&api, &caller, guild_id, id).await?;
    let permit = ReadPermit::in_guild(&caller, &guild, &rule);
    let kind = rule.trigger.kind();
    let patch = input.read(&api, permit, BodyLimits::MESSAGE, |form| Some(patch(form, Some(kind)))).await?;
    let change = request::UpdateAutoModRule(id, Box::new(patch));
    Ok(body(guild_id, &*api.request(&caller, guild_id, change).await?))
}

pub(super) async fn delete(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let request = request::DeleteAutoModRule(params.id("rule_id")?);
    api.request(&caller, params.id("guild_id")?, request).await?;
    Ok(StatusCode::NO_CONTENT)
}
