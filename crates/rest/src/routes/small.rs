//! Routes with a short and certain answer: counts of role members, voice regions, previews and integrations of a guild,
//! and lists of what this server has none of.
//!
//! Spec  docs/protocol/choices.md "What is served".

use super::{
    Call, PathParams,
    guilds::{guild_of_path, need},
};
use crate::{
    auth::Caller,
    body::Query,
    error::ApiError,
    form::{self, Parsed},
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{GuildReply, request};
use guildhall_model::{
    Id, Permissions, RoleId, User,
    from_gateway::{EmojiBody, StickerBody, UserBody},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// Integrations of a guild in one answer, as upstream.
const INTEGRATIONS_MAX: usize = 50;
/// Ids in a query.
const IDS_MAX: usize = 100;

/// How many members have each role, without `@everyone`. Reads a snapshot of all members, as a search does.
pub(super) async fn role_member_counts(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let guild: Box<GuildReply> = api.request(&caller, guild_id, request::ReadGuild).await?;
    let members = api.request(&caller, guild_id, request::ReadMembers).await?;
    let permit = Arc::clone(&api.searches).acquire_owned().await.map_err(|_| ApiError::Overloaded)?;
    let counted = tokio::task::spawn_blocking(move || {
        let roles = guild.structure.roles.keys().filter(|id| **id != guild_id.cast());
        let mut counts: BTreeMap<RoleId, u64> = roles.map(|id| (*id, 0)).collect();
        for role_id in members.iter().flat_map(|entry| entry.member.roles.iter()) {
            if let Some(count) = counts.get_mut(role_id) {
                *count += 1;
            }
        }
        drop(permit);
        counts
    });
    let counts = counted.await.map_err(|_| ApiError::Bug("a count that ends"))?;
    let counts: BTreeMap<String, u64> = counts.into_iter().map(|(id, count)| (id.to_string(), count)).collect();
    Ok(Json(counts).into_response())
}

/// There is one region: this node.
pub(super) async fn voice_regions(_: Caller) -> Response {
    let region = json!({"id": "local", "name": "Local", "optimal": true, "deprecated": false, "custom": false});
    Json([region]).into_response()
}

pub(super) async fn guild_voice_regions(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    api.request(&caller, params.id("guild_id")?, request::ReadGuild).await?;
    Ok(voice_regions(caller).await)
}

/// The bots of a guild, the oldest account first. Reads a snapshot of all members, as a search does.
pub(super) async fn integrations(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let guild = guild_of_path(&api, &caller, &params).await?;
    need(&guild, Permissions::MANAGE_GUILD)?;
    let members = api.request(&caller, guild_id, request::ReadMembers).await?;
    let permit = Arc::clone(&api.searches).acquire_owned().await.map_err(|_| ApiError::Overloaded)?;
    let found = tokio::task::spawn_blocking(move || {
        let bots = members.iter().map(|entry| &entry.member.user).filter(|user| user.bot);
        let bots: Vec<Arc<User>> = bots.take(INTEGRATIONS_MAX).cloned().collect();
        drop(permit);
        bots
    });
    let bots = found.await.map_err(|_| ApiError::Bug("a search that ends"))?;
    let integration = |bot: &Arc<User>| {
        let user = UserBody::from(&**bot).for_rest();
        json!({
            "id": bot.id,
            "name": bot.username,
            "type": "discord",
            "enabled": true,
            "account": {"id": bot.id.to_string(), "name": bot.username},
            "application": {
                "id": bot.id, "name": bot.username, "icon": bot.avatar, "description": "", "summary": "", "type": null,
                "bot": user,
            },
            "scopes": ["bot", "applications.commands"],
        })
    };
    Ok(Json(bots.iter().map(integration).collect::<Vec<_>>()).into_response())
}

/// What members may see of their guild in a list. No guild is listed publicly.
pub(super) async fn preview(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let reply = guild_of_path(&api, &caller, &params).await?;
    let guild = &reply.structure.guild;
    let emojis: Vec<_> = guild.emojis.iter().map(|emoji| EmojiBody::from(emoji).for_rest()).collect();
    let stickers: Vec<_> =
        guild.stickers.iter().map(|sticker| StickerBody::new(guild.id, sticker).for_rest()).collect();
    let body = json!({
        "id": guild.id,
        "name": guild.name,
        "icon": guild.icon,
        "splash": guild.splash,
        "discovery_splash": guild.discovery_splash,
        "home_header": null,
        "emojis": emojis,
        "stickers": stickers,
        "features": guild.features,
        "description": guild.description,
        "approximate_member_count": reply.member_count,
        "approximate_presence_count": reply.presence_count,
    });
    Ok(Json(body).into_response())
}

pub(super) async fn sticker_packs(_: Caller) -> Response {
    Json(json!({"sticker_packs": []})).into_response()
}

fn nothing() -> Response {
    Json(json!([])).into_response()
}

pub(super) async fn default_sounds(_: Caller) -> Response {
    nothing()
}

pub(super) async fn connections(_: Caller) -> Response {
    nothing()
}

pub(super) async fn guild_sounds(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    guild_of_path(&api, &caller, &params).await?;
    Ok(Json(json!({"items": []})).into_response())
}

/// Refuses callers other than the application of the path.
pub(super) fn need_own_application(caller: &Caller, params: &PathParams) -> Result<(), ApiError> {
    let application_id: Id<()> = params.id("application_id")?;
    if application_id.get() == caller.id.get() && caller.bot {
        return Ok(());
    }
    let message = "You are not authorized to perform this action on this application";
    Err(ApiError::coded(StatusCode::FORBIDDEN, 20012, message))
}

pub(super) async fn skus(Call { api: _, caller, params }: Call) -> Result<Response, ApiError> {
    need_own_application(&caller, &params)?;
    Ok(nothing())
}

pub(super) async fn role_connections(Call { api: _, caller, params }: Call) -> Result<Response, ApiError> {
    need_own_application(&caller, &params)?;
    Ok(nothing())
}

pub(super) async fn application_emojis(Call { api: _, caller, params }: Call) -> Result<Response, ApiError> {
    need_own_application(&caller, &params)?;
    Ok(Json(json!({"items": []})).into_response())
}

/// Ids in a query, with commas between them.
fn ids(value: &Value) -> Parsed<Vec<Id<()>>> {
    let text = form::text(value, 0, IDS_MAX * 20)?;
    text.split(',').filter(|piece| !piece.is_empty()).map(|piece| form::id(&Value::from(piece))).collect()
}

pub(super) async fn entitlements(Call { api: _, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    need_own_application(&caller, &params)?;
    query.read(|form| {
        for name in ["user_id", "guild_id", "before", "after"] {
            form.optional(name, form::id::<()>);
        }
        for name in ["exclude_ended", "exclude_deleted", "only_active"] {
            form.optional(name, form::boolean);
        }
        form.optional("sku_ids", ids);
        form.optional("limit", |v| form::integer(v, 1, 100));
        Some(())
    })?;
    Ok(nothing())
}

/// Those of the caller by any application.
pub(super) async fn own_entitlements(
    Call { api: _, caller: _, params }: Call,
    query: Query,
) -> Result<Response, ApiError> {
    let _: Id<()> = params.id("application_id")?;
    query.read(|form| {
        form.optional("exclude_consumed", form::boolean);
        form.optional("sku_ids", ids);
        Some(())
    })?;
    Ok(nothing())
}
