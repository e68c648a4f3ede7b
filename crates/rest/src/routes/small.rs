//! Routes with a short and certain answer: counts of role members, voice regions, and lists of what this server has
//! none of.
//!
//! Spec  docs/protocol/choices.md "What is served".

use super::Call;
use crate::{auth::Caller, error::ApiError};
use axum::{
    Json,
    response::{IntoResponse, Response},
};
use guildhall_guild::{GuildReply, request};
use guildhall_model::{Permissions, RoleId};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};

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

/// Nothing can be integrated.
pub(super) async fn integrations(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild = api.request(&caller, params.id("guild_id")?, request::ReadGuild).await?;
    if !guild.permissions.contains(Permissions::MANAGE_GUILD) {
        return Err(ApiError::MISSING_PERMISSIONS);
    }
    Ok(Json(json!([])).into_response())
}

pub(super) async fn sticker_packs(_: Caller) -> Response {
    Json(json!({"sticker_packs": []})).into_response()
}

pub(super) async fn default_sounds(_: Caller) -> Response {
    Json(json!([])).into_response()
}
