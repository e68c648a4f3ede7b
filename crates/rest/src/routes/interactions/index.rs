//! Index: the commands that a caller may use in a channel, for clients that offer them.
//!
//! Owns        `GET /channels/{channel_id}/application-command-index`.
//! Invariants  I2 it lists what `super::invoke` would accept, and nothing else. (tests of
//!             `guildhall/tests/it/surface/interactions.rs`)
//! Limits      `PAGES_MAX` pages of registered applications are read: past it some are missing.

use super::{describe::Scene, invoke::need_permission, options::Wanted, permissions::Overrides};
use crate::{
    error::ApiError,
    routes::{Call, commands},
};
use axum::{
    Json,
    response::{IntoResponse, Response},
};
use guildhall_guild::Command;
use guildhall_model::{ChannelId, Id, from_gateway::UserBody};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const PAGE: u32 = 100;
const PAGES_MAX: usize = 20;

pub(crate) async fn of_channel(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let channel_id: ChannelId = params.id("channel_id")?;
    api.request_in_channel(&caller, channel_id, Command::ReadChannel(channel_id)).await?;
    // Of a direct message it is that of no guild, and no command belongs to it.
    let guild_id = api.channel_guild(channel_id).await?;
    let (mut applications, mut listed) = (BTreeMap::new(), Vec::new());
    let mut after = Vec::new();
    for _ in 0..PAGES_MAX {
        let (found, next) = commands::offered(&api, Some(guild_id), &after, PAGE).await?;
        for (application, commands) in found {
            // Most applications are elsewhere.
            let place = Scene::read(&api, &caller, channel_id, application.cast(), &Wanted::default()).await;
            let Ok(place) = place else { continue };
            let overrides = Overrides::of_place(&api, &place).await?;
            for command in commands {
                let id = command.get("id").and_then(Value::as_str).and_then(|id| id.parse::<Id<()>>().ok());
                let Some(id) = id else { continue };
                if need_permission(&place, &overrides, id, &command).is_err() {
                    continue;
                }
                let bot = &place.application;
                applications.entry(bot.id).or_insert_with(|| {
                    json!({"id": bot.id, "name": bot.username, "icon": bot.avatar, "description": "",
                        "flags": bot.application_flags, "bot": UserBody::from(&**bot).for_rest()})
                });
                listed.push(Value::Object(command));
            }
        }
        match next {
            Some(next) => after = next,
            None => break,
        }
    }
    let applications: Vec<Value> = applications.into_values().collect();
    Ok(Json(json!({"applications": applications, "application_commands": listed})).into_response())
}
