//! Read states and notification settings of user accounts. Spec  docs/protocol/choices.md "Read states".

use super::Call;
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
use guildhall_guild::{ChannelReply, request};
use guildhall_model::{
    ChannelId, GuildId, Id, MessageId, MuteConfig, NotificationSettings, from_gateway::NotificationSettingsBody,
};
use guildhall_node::{Ack, NotificationChange, NotificationsChanged, OVERRIDES_MAX, OverrideChange};
use serde_json::{Value, json};

/// Read states of one bulk request, as upstream.
const BULK_MAX: usize = 100;
/// Guilds of one bulk request.
const GUILDS_MAX: usize = 200;
/// Read states of channels; upstream has others.
const OF_CHANNELS: i64 = 0;

pub(super) fn need_user(caller: &Caller) -> Result<(), ApiError> {
    if caller.bot {
        return Err(ApiError::coded(StatusCode::FORBIDDEN, 20001, "Bots cannot use this endpoint"));
    }
    Ok(())
}

fn small(value: &Value) -> Parsed<u32> {
    form::integer(value, 0, i32::MAX.into()).map(|n| n as u32)
}

pub(super) async fn acknowledge(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    need_user(&caller)?;
    let (channel_id, message_id): (ChannelId, MessageId) = (params.id("channel_id")?, params.id("message_id")?);
    let permit = ReadPermit::channel(&api, &caller, channel_id).await?;
    let read = input.read(&api, permit, BodyLimits::FORM, |form| {
        Some(Ack {
            message_id,
            is_manual: form.optional("manual", form::boolean).unwrap_or(false),
            mention_count: form.optional("mention_count", small),
            flags: form.optional("flags", small),
            last_viewed: form.optional("last_viewed", small),
        })
    });
    api.node.acknowledge(caller.id, channel_id, read.await?)?;
    // Upstream's token is for its own checks.
    Ok(Json(json!({"token": null})).into_response())
}

fn target(value: &Value) -> Parsed<(i64, ChannelId, MessageId)> {
    form::object(value, |form| {
        let kind = form.optional("read_state_type", |v| form::integer(v, 0, i64::MAX)).unwrap_or(OF_CHANNELS);
        Some((kind, form.required("channel_id", form::id)?, form.required("message_id", form::id)?))
    })
}

/// Passes over channels that the caller cannot view: the answer is the same for a channel that does not exist.
pub(super) async fn acknowledge_many(
    Call { api, caller, .. }: Call,
    input: JsonRequest,
) -> Result<StatusCode, ApiError> {
    need_user(&caller)?;
    let targets = input.read(&api, ReadPermit::caller(&caller), BodyLimits::LIST, |form| {
        form.required("read_states", |v| form::list(v, 1, BULK_MAX, target))
    });
    for (kind, channel_id, message_id) in targets.await? {
        if kind != OF_CHANNELS
            || api.request_in_channel(&caller, channel_id, request::ReadChannel(channel_id)).await.is_err()
        {
            continue;
        }
        let ack = Ack { message_id, is_manual: false, mention_count: None, flags: None, last_viewed: None };
        api.node.acknowledge(caller.id, channel_id, ack)?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Also for a channel that the caller cannot view any more: the state is the caller's own.
pub(super) async fn forget(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    need_user(&caller)?;
    api.node.forget_read_state(caller.id, params.id("channel_id")?)?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn acknowledge_pins(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    need_user(&caller)?;
    let channel_id = params.id("channel_id")?;
    let newest = match api.request_in_channel(&caller, channel_id, request::ReadChannel(channel_id)).await? {
        ChannelReply::Direct(direct) => direct.channel.last_pin_timestamp,
        ChannelReply::Thread(thread) => thread.0.channel.last_pin_timestamp,
        ChannelReply::Channel(channel) => channel.last_pin_timestamp,
    };
    // Without a pin there is nothing to see.
    if let Some(newest) = newest {
        api.node.acknowledge_pins(caller.id, channel_id, newest)?;
    }
    Ok(StatusCode::NO_CONTENT)
}

fn level(value: &Value) -> Parsed<u8> {
    form::integer(value, 0, 3).map(|n| n as u8)
}

fn mute_config(value: &Value) -> Parsed<MuteConfig> {
    form::object(value, |form| {
        Some(MuteConfig {
            end_time: form.optional("end_time", form::timestamp),
            selected_time_window: form.optional("selected_time_window", |v| form::integer(v, -1, i64::MAX)),
        })
    })
}

fn channel_override(value: &Value) -> Parsed<OverrideChange> {
    form::object(value, |form| {
        Some(OverrideChange {
            message_notifications: form.optional("message_notifications", level),
            muted: form.optional("muted", form::boolean),
            mute_config: form.nullable("mute_config", mute_config),
            collapsed: form.optional("collapsed", form::boolean),
            flags: form.optional("flags", small),
        })
    })
}

/// An object whose keys are ids.
fn by_id<T, V>(value: &Value, max: usize, parse: impl Fn(&Value) -> Parsed<V>) -> Parsed<Vec<(Id<T>, V)>> {
    let Some(entries) = value.as_object() else {
        return Err(FieldError::new("DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType").into());
    };
    if entries.len() > max {
        return Err(FieldError::new("BASE_TYPE_BAD_LENGTH", format!("Must be between 0 and {max} in length.")).into());
    }
    let mut faults = FieldErrors::default();
    let mut parsed = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let id = form::id(&Value::String(key.clone()));
        match id.and_then(|id| Ok((id, parse(value)?))) {
            Ok(entry) => parsed.push(entry),
            Err(fault) => faults.add(&key.chars().take(20).collect::<String>(), fault),
        }
    }
    if faults.is_empty() { Ok(parsed) } else { Err(faults) }
}

fn change(form: &mut Form<'_>) -> Option<NotificationChange> {
    let mut boolean = |key| form.optional(key, form::boolean);
    let (suppress_everyone, suppress_roles) = (boolean("suppress_everyone"), boolean("suppress_roles"));
    let (mute_scheduled_events, mobile_push) = (boolean("mute_scheduled_events"), boolean("mobile_push"));
    let (muted, hide_muted_channels) = (boolean("muted"), boolean("hide_muted_channels"));
    Some(NotificationChange {
        message_notifications: form.optional("message_notifications", level),
        suppress_everyone,
        suppress_roles,
        mute_scheduled_events,
        mobile_push,
        muted,
        mute_config: form.nullable("mute_config", mute_config),
        hide_muted_channels,
        notify_highlights: form.optional("notify_highlights", |v| form::integer(v, 0, 2).map(|n| n as u8)),
        flags: form.optional("flags", small),
        channel_overrides: form
            .optional("channel_overrides", |v| by_id(v, OVERRIDES_MAX, channel_override))
            .unwrap_or_default(),
    })
}

async fn apply(
    api: &Api,
    caller: &Caller,
    guild_id: Option<GuildId>,
    change: &NotificationChange,
) -> Result<NotificationSettings, ApiError> {
    match api.node.change_notification_settings(caller.id, guild_id, change).await? {
        NotificationsChanged::Changed(settings) => Ok(settings),
        NotificationsChanged::Contended => Err(ApiError::Overloaded),
        NotificationsChanged::TooManyOverrides => {
            let message = format!("At most {OVERRIDES_MAX} channels of a guild may have settings of their own.");
            Err(FieldErrors::at("channel_overrides", FieldError::new("BASE_TYPE_MAX_LENGTH", message)).into())
        }
    }
}

/// `@me` in place of a guild: direct messages.
pub(super) async fn update_notifications(
    Call { api, caller, params }: Call,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    need_user(&caller)?;
    let guild_id = if params.text("guild_id") == "@me" { None } else { Some(params.id("guild_id")?) };
    if let Some(guild_id) = guild_id {
        ReadPermit::guild(&api, &caller, guild_id).await?;
    }
    let read = input.read(&api, ReadPermit::caller(&caller), BodyLimits::LIST, change).await?;
    let settings = apply(&api, &caller, guild_id, &read).await?;
    Ok(Json(NotificationSettingsBody::from(&settings)).into_response())
}

pub(super) async fn update_all_notifications(
    Call { api, caller, .. }: Call,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    need_user(&caller)?;
    let read = input.read(&api, ReadPermit::caller(&caller), BodyLimits::LIST, |form| {
        form.required("guilds", |v| by_id(v, GUILDS_MAX, |settings| form::object(settings, change)))
    });
    let changes: Vec<(GuildId, NotificationChange)> = read.await?;
    // All are checked before the first changes.
    for (guild_id, _) in &changes {
        ReadPermit::guild(&api, &caller, *guild_id).await?;
    }
    let mut changed = Vec::with_capacity(changes.len());
    for (guild_id, change) in &changes {
        changed.push(apply(&api, &caller, Some(*guild_id), change).await?);
    }
    let bodies: Vec<NotificationSettingsBody> = changed.iter().map(Into::into).collect();
    Ok(Json(bodies).into_response())
}
