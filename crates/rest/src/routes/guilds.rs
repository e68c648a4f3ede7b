//! Guilds: reading, listing one's own, changing. Spec  docs/protocol/reference.md §10.2, §10.4.

use super::{Call, PathParams};
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest, Query},
    error::ApiError,
    form::{self, FieldError, Form, Parsed},
    permit::ReadPermit,
    state::Api,
    user_policy::SelfService,
};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{AuditQuery, GuildPatch, GuildReply, NewChannel, NewGuild, Refusal, request};
use guildhall_media::{PictureRule, hash_of};
use guildhall_model::{
    AuditAction, AuditEntry, ChannelType, Guild, GuildId, Id, Permissions, UserId,
    from_gateway::{AuditEntryBody, GuildBody, RestGuildBody, RoleBody, UserBody},
};
use guildhall_store::PictureOwner;
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};

const PAGE_MAX: i64 = 200;
const AUDIT_PAGE: i64 = 50;
const AUDIT_PAGE_MAX: i64 = 100;
/// Guilds of one account (docs/protocol/reference.md §1.5); an account with more may not make another.
const GUILDS_MAX: usize = 200;

pub(super) fn body(guild: &GuildReply) -> Response {
    body_with(guild, None)
}

/// `counts`: members, and those of them who are online.
fn body_with(guild: &GuildReply, counts: Option<(u64, u64)>) -> Response {
    let roles = guild.structure.roles.values().map(|role| RoleBody::from(&**role));
    let body = RestGuildBody::new(GuildBody::new(&guild.structure.guild, roles), counts);
    Json(body).into_response()
}

/// Before a picture is written. The guild checks again.
pub(super) fn need(guild: &GuildReply, permissions: Permissions) -> Result<(), ApiError> {
    if guild.permissions.contains(permissions) { Ok(()) } else { Err(ApiError::MISSING_PERMISSIONS) }
}

pub(super) async fn guild(api: &Api, caller: &Caller, guild_id: GuildId) -> Result<Box<GuildReply>, ApiError> {
    api.request(caller, guild_id, request::ReadGuild).await
}

/// The guild of the path, as the caller may read it: most routes below a guild begin with it.
pub(super) async fn guild_of_path(
    api: &Api,
    caller: &Caller,
    params: &PathParams,
) -> Result<Box<GuildReply>, ApiError> {
    guild(api, caller, params.id("guild_id")?).await
}

pub(super) async fn read(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let with_counts = query.read(|form| Some(form.optional("with_counts", form::boolean).unwrap_or(false)))?;
    let guild = guild(&api, &caller, guild_id).await?;
    let counts = with_counts.then_some((guild.member_count, guild.presence_count));
    Ok(body_with(&guild, counts))
}

/// Roles or channels in a request for a new guild.
const OBJECTS_MAX: usize = 500;
const CREATE_ROLES_AFTERWARDS: &str = "Create roles afterwards: POST /guilds/{guild_id}/roles.";
const CREATE_CHANNELS_AFTERWARDS: &str = "Create channels afterwards: POST /guilds/{guild_id}/channels.";

/// Makes a guild with one text channel. The caller owns it.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    caller: Caller,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    caller.need(&api, SelfService::CreateGuilds)?;
    let rule = PictureRule::large(&api.media);
    let input = input.json(&api, ReadPermit::caller(&caller), BodyLimits::PROFILE).await?;
    let (fields, icon) = input.read(|form| {
        let name = form.required("name", |v| form::name(v, 2, 100));
        let icon = form.picture("icon", rule);
        for (key, advice) in [("roles", CREATE_ROLES_AFTERWARDS), ("channels", CREATE_CHANNELS_AFTERWARDS)] {
            // Libraries send empty lists.
            let items = form.optional(key, |v| form::list(v, 0, OBJECTS_MAX, |_| Ok(())));
            if items.is_some_and(|items| !items.is_empty()) {
                form.unsupported(key, advice);
            }
        }
        let name = name?;
        let verification_level = level(form, "verification_level", 4);
        let default_message_notifications = level(form, "default_message_notifications", 1);
        let explicit_content_filter = level(form, "explicit_content_filter", 2);
        let afk_timeout = form.optional("afk_timeout", afk_timeout);
        let fields = move |id: GuildId, owner_id: UserId| {
            let new = Guild::new(id, &name, owner_id);
            Guild {
                verification_level: verification_level.unwrap_or(new.verification_level),
                default_message_notifications: default_message_notifications
                    .unwrap_or(new.default_message_notifications),
                explicit_content_filter: explicit_content_filter.unwrap_or(new.explicit_content_filter),
                afk_timeout: afk_timeout.unwrap_or(new.afk_timeout),
                ..new
            }
        };
        Some((fields, icon))
    })?;
    need_room_for_guild(&api, caller.id, None).await?;
    let guild_id = api.node.next_id().await?;
    let mut owned = fields(guild_id, caller.id);
    owned.icon = hash_of(&icon).flatten().map(String::from);
    let held = api.media.hold_fields(caller.id.get(), PictureOwner::Guild(guild_id), [icon]).await?;
    let created = api.node.create_guild(NewGuild::new(owned, caller.0.clone())).await;
    held.settled(created.map_err(ApiError::from)).await?;
    api.node.settle_member(guild_id, &caller).await?;
    let general = NewChannel {
        name: "general".to_owned(),
        kind: ChannelType::Text,
        topic: None,
        parent_id: None,
        position: None,
        overwrites: Vec::new(),
        user_limit: 0,
    };
    api.request(&caller, guild_id, request::CreateChannel(Box::new(general))).await?;
    let guild = guild(&api, &caller, guild_id).await?;
    Ok((StatusCode::CREATED, body(&guild)).into_response())
}

/// Refuses an account that is in as many guilds as it may be, unless it is in this one. None: a new guild.
pub(super) async fn need_room_for_guild(api: &Api, user_id: UserId, guild_id: Option<GuildId>) -> Result<(), ApiError> {
    let guilds = api.node.guilds_of_user(user_id).await?;
    let is_in_it = guild_id.is_some_and(|guild_id| guilds.binary_search(&guild_id).is_ok());
    if guilds.len() >= GUILDS_MAX && !is_in_it {
        return Err(ApiError::coded(StatusCode::BAD_REQUEST, 30001, "Maximum number of guilds reached (200)"));
    }
    Ok(())
}

/// Null counts as the lowest, as upstream.
/// Languages of upstream's clients.
const LOCALES: [&str; 32] = [
    "id", "da", "de", "en-GB", "en-US", "es-ES", "es-419", "fr", "hr", "it", "lt", "hu", "nl", "no", "pl", "pt-BR",
    "ro", "fi", "sv-SE", "vi", "tr", "cs", "el", "bg", "ru", "uk", "hi", "th", "zh-CN", "ja", "zh-TW", "ko",
];

fn locale(value: &Value) -> Parsed<String> {
    let locale = form::text(value, 2, 10)?;
    if LOCALES.contains(&locale.as_str()) {
        return Ok(locale);
    }
    let message = format!("Value must be one of ({}).", LOCALES.join(", "));
    Err(FieldError::new("BASE_TYPE_CHOICES", message).into())
}

fn level(form: &mut Form<'_>, key: &str, max: i64) -> Option<u8> {
    form.nullable(key, |v| Ok(form::integer(v, 0, max)? as u8)).map(Option::unwrap_or_default)
}

fn afk_timeout(value: &Value) -> Parsed<u16> {
    match form::integer(value, 0, 3_600)? {
        seconds @ (60 | 300 | 900 | 1_800 | 3_600) => Ok(seconds as u16),
        _ => Err(FieldError::new("BASE_TYPE_CHOICES", "Value must be one of (60, 300, 900, 1800, 3600).").into()),
    }
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let before = guild(&api, &caller, guild_id).await?;
    let permit = ReadPermit::read_guild(&caller, &before);
    let rule = PictureRule::large(&api.media);
    let input = input.json(&api, permit, BodyLimits::PROFILE).await?;
    let (patch, pictures) = input.read(|form| {
        let pictures = ["icon", "splash", "discovery_splash", "banner"].map(|key| form.picture(key, rule));
        let [icon, splash, discovery_splash, banner] = pictures.each_ref().map(hash_of);
        let patch = GuildPatch {
            name: form.optional("name", |v| form::name(v, 2, 100)),
            description: form.nullable("description", |v| form::text(v, 0, 300)),
            owner_id: form.optional("owner_id", form::id),
            afk_channel_id: form.nullable("afk_channel_id", form::id),
            afk_timeout: form.optional("afk_timeout", afk_timeout),
            verification_level: level(form, "verification_level", 4),
            default_message_notifications: level(form, "default_message_notifications", 1),
            explicit_content_filter: level(form, "explicit_content_filter", 2),
            system_channel_id: form.nullable("system_channel_id", form::id),
            preferred_locale: form.optional("preferred_locale", locale),
            icon,
            splash,
            discovery_splash,
            banner,
            ..GuildPatch::default()
        };
        Some((patch, pictures))
    })?;
    need(&before, Permissions::MANAGE_GUILD)?;
    let held = api.media.hold_fields(caller.id.get(), PictureOwner::Guild(guild_id), pictures).await?;
    let updated = api.request(&caller, guild_id, request::UpdateGuild(Box::new(patch))).await;
    held.settled(updated).await?;
    Ok(body(&*guild(&api, &caller, guild_id).await?))
}

pub(super) async fn delete(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let guild_id = params.id("guild_id")?;
    api.request(&caller, guild_id, request::DeleteGuild).await?;
    api.media.collect_pictures(PictureOwner::Guild(guild_id)).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Entries of the audit log, newest first, or oldest first with `after`; and the accounts they name.
pub(super) async fn audit_log(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let query = query.read(|form| {
        Some(AuditQuery {
            user_id: form.optional("user_id", form::id),
            action: form.optional("action_type", audit_action),
            target_id: form.optional("target_id", form::id),
            before: form.optional("before", form::id),
            after: form.optional("after", form::id),
            limit: form.optional("limit", |v| form::integer(v, 1, AUDIT_PAGE_MAX)).unwrap_or(AUDIT_PAGE) as usize,
        })
    })?;
    let reply = api.request(&caller, params.id("guild_id")?, request::ReadAuditLog(query)).await?;
    let entries = reply;
    let user_ids: BTreeSet<UserId> = entries.iter().flat_map(|entry| named_in(entry)).collect();
    let mut users = Vec::with_capacity(user_ids.len());
    for user_id in user_ids {
        users.extend(api.node.user(user_id).await?);
    }
    let body = serde_json::json!({
        "audit_log_entries": entries.iter().map(|entry| AuditEntryBody::from(&**entry)).collect::<Vec<_>>(),
        "users": users.iter().map(|user| UserBody::from(&**user).for_rest()).collect::<Vec<_>>(), "webhooks": [], "integrations": [], "threads": [],
        "guild_scheduled_events": [], "application_commands": [], "auto_moderation_rules": [],
    });
    Ok(Json(body).into_response())
}

/// Accounts that an entry names.
fn named_in(entry: &AuditEntry) -> impl Iterator<Item = UserId> + use<> {
    use AuditAction as A;
    let is_about_account = matches!(
        entry.action,
        A::MemberKick
            | A::MemberBanAdd
            | A::MemberBanRemove
            | A::MemberUpdate
            | A::MemberRoleUpdate
            | A::BotAdd
            | A::MessageDelete
            | A::MessagePin
            | A::MessageUnpin
    );
    let target = entry.target_id.filter(|_| is_about_account).map(Id::cast);
    [entry.user_id].into_iter().chain(target)
}

fn audit_action(value: &Value) -> Parsed<AuditAction> {
    let n = form::integer(value, 0, i64::from(u8::MAX))? as u8;
    let unknown = || FieldError::new("BASE_TYPE_CHOICES", "This server logs no such action.").into();
    AuditAction::from_wire(n).ok_or_else(unknown)
}

/// A guild in the list of one's own.
#[derive(Serialize)]
struct OwnGuildBody {
    id: GuildId,
    name: String,
    icon: Option<String>,
    banner: Option<Box<str>>,
    owner: bool,
    permissions: Permissions,
    features: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approximate_member_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approximate_presence_count: Option<u64>,
}

pub(super) async fn list_own(State(api): State<Arc<Api>>, caller: Caller, query: Query) -> Result<Response, ApiError> {
    let (limit, before, after, with_counts) = query.read(|form| {
        let limit = form.optional("limit", |v| form::integer(v, 1, PAGE_MAX)).unwrap_or(PAGE_MAX);
        let before: Option<GuildId> = form.optional("before", form::id);
        let after: Option<GuildId> = form.optional("after", form::id);
        Some((limit as usize, before, after, form.optional("with_counts", form::boolean).unwrap_or(false)))
    })?;
    let mut ids = api.node.guilds_of_user(caller.id).await?;
    ids.retain(|id| before.is_none_or(|before| *id < before) && after.is_none_or(|after| *id > after));
    let page = match (before, after) {
        // The last ones before that guild, still in ascending order.
        (Some(_), None) => &ids[ids.len().saturating_sub(limit)..],
        _ => &ids[..ids.len().min(limit)],
    };
    let mut bodies = Vec::with_capacity(page.len());
    for guild_id in page {
        let reply = match guild(&api, &caller, *guild_id).await {
            // They left it, or it was deleted, since the list was made.
            Err(ApiError::Refused(Refusal::UnknownGuild)) => continue,
            other => other?,
        };
        let guild = &reply.structure.guild;
        bodies.push(OwnGuildBody {
            id: guild.id,
            name: guild.name.clone(),
            icon: guild.icon.clone(),
            banner: guild.banner.clone(),
            owner: guild.owner_id == caller.id,
            permissions: reply.permissions,
            features: guild.features.clone(),
            approximate_member_count: with_counts.then_some(reply.member_count),
            approximate_presence_count: with_counts.then_some(reply.presence_count),
        });
    }
    Ok(Json(bodies).into_response())
}
