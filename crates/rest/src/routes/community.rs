//! Widget, welcome screen and onboarding of a guild. Spec  docs/protocol/choices.md "Community".

use super::{
    Call, PathParams,
    guilds::{guild_of_path, need},
};
use crate::{
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form::{self, FieldError, Form, Parsed},
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Actor, GuildPatch, GuildReply, OnboardingPatch, Refusal, WelcomeScreenPatch, request};
use guildhall_guild_protocol::MemberTable;
use guildhall_model::{
    ChannelId, ChannelType, Emoji, EmojiId, GuildId, Id, Onboarding, OnboardingAnswers, OnboardingOption,
    OnboardingPrompt, Permissions, ReactionEmoji, Status, WelcomeChannel, from_gateway::WelcomeScreenBody,
    is_unicode_emoji,
};
use guildhall_stdx::Timestamp;
use serde_json::{Map, Value, json};
use std::sync::Arc;

const DESCRIPTION_CHARS_MAX: usize = 140;
const WELCOME_CHANNELS_MAX: usize = 5;
const WELCOME_TEXT_CHARS_MAX: usize = 50;
const PROMPTS_MAX: usize = 15;
const PROMPT_TITLE_CHARS_MAX: usize = 100;
const OPTIONS_MAX: usize = 50;
const OPTION_TITLE_CHARS_MAX: usize = 50;
const OPTION_TEXT_CHARS_MAX: usize = 100;
/// Roles, and channels, of an option.
const GIVEN_MAX: usize = 50;
const DEFAULT_CHANNELS_MAX: usize = 500;
/// Members that a widget names, as upstream.
const WIDGET_MEMBERS_MAX: usize = 100;

// Widget.

fn widget_body(guild: &GuildReply) -> Response {
    let guild = &guild.structure.guild;
    Json(json!({"enabled": guild.widget_enabled, "channel_id": guild.widget_channel_id})).into_response()
}

pub(super) async fn read_widget_settings(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    need(&guild, Permissions::MANAGE_GUILD)?;
    Ok(widget_body(&guild))
}

pub(super) async fn update_widget(
    Call { api, caller, params }: Call,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    need(&guild, Permissions::MANAGE_GUILD)?;
    let patch = input.read(&api, ReadPermit::read_guild(&caller, &guild), BodyLimits::FORM, |form| {
        Some(GuildPatch {
            widget_enabled: form.optional("enabled", form::boolean),
            widget_channel_id: form.nullable("channel_id", form::id),
            ..GuildPatch::default()
        })
    });
    let update = request::UpdateGuild(Box::new(patch.await?));
    Ok(widget_body(&*api.request(&caller, guild.structure.id(), update).await?))
}

/// For anyone, without a token. Guilds that do not exist, and those without a widget, are refused alike.
pub(super) async fn widget(State(api): State<Arc<Api>>, params: PathParams) -> Result<Response, ApiError> {
    let disabled = ApiError::coded(StatusCode::FORBIDDEN, 50004, "Widget Disabled");
    let Ok(guild_id) = params.id("guild_id") else { return Err(disabled) };
    let guild = match api.node.command(guild_id, Actor::System, request::ReadGuild).await {
        Err(Refusal::UnknownGuild) => return Err(disabled),
        other => other?,
    };
    if !guild.structure.guild.widget_enabled || guild.structure.guild.is_direct {
        return Err(disabled);
    }
    let members = api.node.command(guild_id, Actor::System, request::ReadMembers).await?;
    let permit = Arc::clone(&api.searches).acquire_owned().await.map_err(|_| ApiError::Overloaded)?;
    let online_count = guild.presence_count as usize;
    let online = tokio::task::spawn_blocking(move || {
        let online = online_members(&members, online_count);
        drop(permit);
        online
    });
    let online = online.await.map_err(|_| ApiError::Bug("a search that ends"))?;
    let needed = Permissions::VIEW_CHANNEL | Permissions::CONNECT;
    let mut channels: Vec<_> = guild
        .structure
        .channels
        .values()
        .filter(|channel| channel.kind == ChannelType::Voice)
        .filter(|channel| guild.structure.everyone_permissions(channel).contains(needed))
        .collect();
    channels.sort_by_key(|channel| (channel.position, channel.id));
    let channels: Vec<Value> = channels
        .iter()
        .map(|channel| json!({"id": channel.id, "name": channel.name, "position": channel.position}))
        .collect();
    let body = json!({
        "id": guild_id,
        "name": guild.structure.guild.name,
        // A request without a token makes no invite.
        "instant_invite": null,
        "channels": channels,
        "members": online,
        "presence_count": guild.presence_count,
    });
    Ok(Json(body).into_response())
}

/// The first members who are online, with numbers instead of their ids, as upstream. Costs a step per member until
/// `online_count` or `WIDGET_MEMBERS_MAX` are found.
fn online_members(members: &MemberTable, online_count: usize) -> Vec<Value> {
    let online = members.iter().filter_map(|entry| {
        // Those who are offline have none.
        let status = entry.presence.as_ref()?.status;
        let user = &entry.member.user;
        let name = entry.member.nick.as_deref().or(user.global_name.as_deref()).unwrap_or(&user.username);
        Some((name.to_owned(), status))
    });
    let body = |(number, (name, status)): (usize, (String, Status))| {
        json!({
            "id": number.to_string(), "username": name, "discriminator": "0000", "avatar": null, "status": status,
            "avatar_url": null,
        })
    };
    online.take(online_count.min(WIDGET_MEMBERS_MAX)).enumerate().map(body).collect()
}

// Welcome screen.

pub(super) async fn read_welcome_screen(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let screen = api.request(&caller, params.id("guild_id")?, request::ReadWelcomeScreen).await?;
    Ok(Json(WelcomeScreenBody::from(&*screen)).into_response())
}

pub(super) async fn update_welcome_screen(
    Call { api, caller, params }: Call,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    need(&guild, Permissions::MANAGE_GUILD)?;
    let emojis = &guild.structure.guild.emojis;
    let patch = input.read(&api, ReadPermit::read_guild(&caller, &guild), BodyLimits::FORM, |form| {
        let channels = form.nullable("welcome_channels", |v| {
            form::list(v, 0, WELCOME_CHANNELS_MAX, |value| welcome_channel(value, emojis))
        });
        Some(WelcomeScreenPatch {
            enabled: form.optional("enabled", form::boolean),
            description: form.nullable("description", |v| form::text(v, 0, DESCRIPTION_CHARS_MAX)),
            channels: channels.map(Option::unwrap_or_default),
        })
    });
    let update = request::UpdateWelcomeScreen(Box::new(patch.await?));
    let screen = api.request(&caller, guild.structure.id(), update).await?;
    Ok(Json(WelcomeScreenBody::from(&*screen)).into_response())
}

fn welcome_channel(value: &Value, emojis: &[Emoji]) -> Parsed<WelcomeChannel> {
    form::object(value, |form| {
        let channel_id: Option<ChannelId> = form.required("channel_id", form::id);
        let description = form.required("description", |v| form::name(v, 1, WELCOME_TEXT_CHARS_MAX));
        let emoji = emoji(form, emojis);
        Some(WelcomeChannel { channel_id: channel_id?, description: description?, emoji })
    })
}

/// Reads `emoji_id` and `emoji_name`. Libraries send the name of a custom emoji too: the guild's own is taken.
fn emoji(form: &mut Form<'_>, emojis: &[Emoji]) -> Option<ReactionEmoji> {
    let id: Option<EmojiId> = form.optional("emoji_id", form::id).filter(|id: &EmojiId| id.get() != 0);
    let name = form.optional("emoji_name", |v| form::text(v, 0, ReactionEmoji::NAME_BYTES_MAX));
    let name = name.filter(|name| !name.is_empty());
    let unknown = || FieldError::new("INVALID_VALUE", "Unknown Emoji");
    match (id, name) {
        (Some(id), _) => match emojis.iter().find(|emoji| emoji.id == id) {
            Some(emoji) => Some(ReactionEmoji { id: Some(id), name: emoji.name.clone() }),
            None => {
                form.fault("emoji_id", unknown());
                None
            }
        },
        (None, Some(name)) if is_unicode_emoji(&name) => Some(ReactionEmoji { id: None, name }),
        (None, Some(_)) => {
            form.fault("emoji_name", unknown());
            None
        }
        (None, None) => None,
    }
}

// Onboarding.

fn onboarding_body(
    guild_id: GuildId,
    onboarding: &Onboarding,
    emojis: &[Emoji],
    answers: Option<&OnboardingAnswers>,
) -> Response {
    let option = |option: &OnboardingOption| {
        let id = option.emoji.as_ref().and_then(|emoji| emoji.id);
        let animated = emojis.iter().any(|emoji| Some(emoji.id) == id && emoji.animated);
        let name = option.emoji.as_ref().map(|emoji| &emoji.name);
        json!({
            "id": option.id, "title": option.title, "description": option.description,
            "emoji": {"id": id, "name": name, "animated": animated},
            "role_ids": option.role_ids, "channel_ids": option.channel_ids,
        })
    };
    let prompt = |prompt: &OnboardingPrompt| {
        json!({
            "id": prompt.id, "type": prompt.kind, "title": prompt.title, "single_select": prompt.single_select,
            "required": prompt.required, "in_onboarding": prompt.in_onboarding,
            "options": prompt.options.iter().map(option).collect::<Vec<_>>(),
        })
    };
    let mut body = json!({
        "guild_id": guild_id,
        "prompts": onboarding.prompts.iter().map(prompt).collect::<Vec<_>>(),
        "default_channel_ids": onboarding.default_channel_ids,
        "enabled": onboarding.enabled,
        "mode": onboarding.mode,
    });
    if let Some(answers) = answers {
        let exists =
            |id: &&Id<()>| onboarding.prompts.iter().flat_map(|prompt| &prompt.options).any(|option| option.id == **id);
        body["responses"] = json!(answers.options.iter().filter(exists).collect::<Vec<_>>());
        body["onboarding_prompts_seen"] = seen_body(&answers.prompts_seen);
        body["onboarding_responses_seen"] = seen_body(&answers.options_seen);
    }
    Json(body).into_response()
}

fn seen_body(seen: &[(Id<()>, Timestamp)]) -> Value {
    seen.iter().map(|(id, at)| (id.to_string(), json!(at.0))).collect::<Map<_, _>>().into()
}

/// When a client has shown which prompts or options, in milliseconds.
fn seen(value: &Value, count_max: usize) -> Parsed<Vec<(Id<()>, Timestamp)>> {
    let Some(entries) = value.as_object() else {
        return Err(FieldError::new("DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType").into());
    };
    if entries.len() > count_max {
        let message = format!("Must be {count_max} or fewer in length.");
        return Err(FieldError::new("BASE_TYPE_MAX_LENGTH", message).into());
    }
    let entry = |(id, at): (&String, &Value)| {
        Ok((form::id(&Value::from(id.as_str()))?, Timestamp(form::integer(at, 0, SEEN_MS_MAX)?)))
    };
    entries.iter().map(entry).collect()
}

pub(super) async fn read_onboarding(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    let guild_id = guild.structure.id();
    let onboarding = api.request(&caller, guild_id, request::ReadOnboarding).await?;
    // Those of the caller, as upstream's clients for user accounts get them.
    let answers = match caller.bot {
        true => None,
        false => {
            let member = api.request(&caller, guild_id, request::ReadMember(caller.id)).await?;
            Some(member.onboarding.as_deref().cloned().unwrap_or_default())
        }
    };
    Ok(onboarding_body(guild_id, &onboarding, &guild.structure.guild.emojis, answers.as_ref()))
}

pub(super) async fn update_onboarding(
    Call { api, caller, params }: Call,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    need(&guild, Permissions::MANAGE_GUILD | Permissions::MANAGE_ROLES)?;
    let (guild_id, emojis) = (guild.structure.id(), &guild.structure.guild.emojis);
    let patch = input.read(&api, ReadPermit::read_guild(&caller, &guild), BodyLimits::LIST, |form| {
        Some(OnboardingPatch {
            enabled: form.optional("enabled", form::boolean),
            mode: form.optional("mode", |v| Ok(form::integer(v, 0, 1)? as u8)),
            default_channel_ids: form
                .optional("default_channel_ids", |v| form::list(v, 0, DEFAULT_CHANNELS_MAX, form::id)),
            prompts: form.optional("prompts", |v| form::list(v, 0, PROMPTS_MAX, |value| prompt(value, emojis))),
        })
    });
    let update = request::UpdateOnboarding(Box::new(patch.await?));
    let onboarding = api.request(&caller, guild_id, update).await?;
    Ok(onboarding_body(guild_id, &onboarding, emojis, None))
}

/// Ids of options in an answer: every option of every prompt.
const ANSWERS_MAX: usize = PROMPTS_MAX * OPTIONS_MAX;
/// The year 9999.
const SEEN_MS_MAX: i64 = 253_402_300_799_999;

/// First answers of a member: they get the roles of the options.
pub(super) async fn answer_onboarding(call: Call, input: JsonRequest) -> Result<Response, ApiError> {
    take_answers(call, input, false).await
}

/// Answers instead of earlier ones: the member loses the roles of the other options.
pub(super) async fn replace_answers(call: Call, input: JsonRequest) -> Result<Response, ApiError> {
    take_answers(call, input, true).await
}

async fn take_answers(
    Call { api, caller, params }: Call,
    input: JsonRequest,
    replaces: bool,
) -> Result<Response, ApiError> {
    let guild_id: GuildId = params.id("guild_id")?;
    let permit = ReadPermit::guild(&api, &caller, guild_id).await?;
    let answers = input.read(&api, permit, BodyLimits::FORM, |form| {
        let prompts = form.optional("onboarding_prompts_seen", |v| seen(v, PROMPTS_MAX)).unwrap_or_default();
        let shown = form.optional("onboarding_responses_seen", |v| seen(v, ANSWERS_MAX)).unwrap_or_default();
        let options = form.required("onboarding_responses", |v| form::list(v, 0, ANSWERS_MAX, form::id))?;
        Some((options, prompts, shown))
    });
    let (options, prompts, shown): (Vec<Id<()>>, _, _) = answers.await?;
    let answer =
        request::AnswerOnboarding(options.clone(), replaces, prompts.as_slice().into(), shown.as_slice().into());
    api.request(&caller, guild_id, answer).await?;
    let body = json!({
        "guild_id": guild_id, "user_id": caller.id, "onboarding_responses": options,
        "onboarding_prompts_seen": seen_body(&prompts), "onboarding_responses_seen": seen_body(&shown),
    });
    Ok(Json(body).into_response())
}

fn prompt(value: &Value, emojis: &[Emoji]) -> Parsed<OnboardingPrompt> {
    form::object(value, |form| {
        let id: Option<Id<()>> = form.required("id", form::id);
        let title = form.required("title", |v| form::name(v, 1, PROMPT_TITLE_CHARS_MAX));
        let options = form.required("options", |v| form::list(v, 1, OPTIONS_MAX, |value| prompt_option(value, emojis)));
        let kind = form.optional("type", |v| Ok(form::integer(v, 0, 1)? as u8)).unwrap_or(0);
        let single_select = form.optional("single_select", form::boolean).unwrap_or(false);
        let required = form.optional("required", form::boolean).unwrap_or(false);
        let in_onboarding = form.optional("in_onboarding", form::boolean).unwrap_or(false);
        Some(OnboardingPrompt {
            id: id?,
            kind,
            title: title?,
            single_select,
            required,
            in_onboarding,
            options: options?,
        })
    })
}

fn prompt_option(value: &Value, emojis: &[Emoji]) -> Parsed<OnboardingOption> {
    form::object(value, |form| {
        let id = form.optional("id", form::id).unwrap_or(Id::new(0));
        let title = form.required("title", |v| form::name(v, 1, OPTION_TITLE_CHARS_MAX));
        let description = form.optional("description", |v| form::text(v, 0, OPTION_TEXT_CHARS_MAX));
        form.optional("emoji_animated", form::boolean);
        let emoji = emoji(form, emojis);
        let role_ids = form.optional("role_ids", |v| form::list(v, 0, GIVEN_MAX, form::id)).unwrap_or_default();
        let channel_ids = form.optional("channel_ids", |v| form::list(v, 0, GIVEN_MAX, form::id)).unwrap_or_default();
        if form.has_no_faults() && role_ids.is_empty() && channel_ids.is_empty() {
            form.fault_here(FieldError::new("INVALID_VALUE", "An option needs at least one role or channel."));
        }
        Some(OnboardingOption {
            id,
            title: title?,
            description: description.filter(|text| !text.is_empty()),
            emoji,
            role_ids,
            channel_ids,
        })
    })
}
