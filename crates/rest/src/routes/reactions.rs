//! Reactions. Spec  docs/protocol/reference.md §10.3.

use super::{Call, PathParams, messages, relationships::need_no_block_for_reaction};
use crate::{auth::Caller, body::Query, error::ApiError, form, state::Api};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::Command;
use guildhall_model::{ChannelId, MessageId, ReactionEmoji, UserId, from_gateway::UserBody};

const PAGE_MAX: i64 = 100;
const PAGE_DEFAULT: i64 = 25;

fn message_of(params: &PathParams) -> Result<(ChannelId, MessageId), ApiError> {
    Ok((params.id("channel_id")?, params.id("message_id")?))
}

fn emoji_of(params: &PathParams) -> Result<ReactionEmoji, ApiError> {
    // Votes of polls have their own routes.
    let emoji = ReactionEmoji::parse(params.text("emoji")).filter(|emoji| emoji.answer().is_none());
    emoji.ok_or(ApiError::UNKNOWN_EMOJI)
}

/// As above; also a text that earlier versions took for an emoji, if the message has a reaction with it.
async fn emoji_there(api: &Api, caller: &Caller, params: &PathParams) -> Result<ReactionEmoji, ApiError> {
    let unknown = match emoji_of(params) {
        Ok(emoji) => return Ok(emoji),
        Err(unknown) => unknown,
    };
    let (channel_id, message_id) = message_of(params)?;
    let record = messages::readable(api, caller, channel_id, message_id).await?;
    let is_it = |emoji: &&ReactionEmoji| emoji.id.is_none() && emoji.name == params.text("emoji");
    record.reactions.iter().map(|(emoji, _)| emoji).find(is_it).cloned().ok_or(unknown)
}

async fn done(api: &Api, caller: &Caller, channel_id: ChannelId, command: Command) -> Result<StatusCode, ApiError> {
    api.done_in_channel(caller, channel_id, command).await
}

pub(super) async fn add(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let (channel_id, message_id) = message_of(&params)?;
    let command = Command::AddReaction(channel_id, message_id, emoji_of(&params)?);
    need_no_block_for_reaction(&api, &caller, channel_id).await?;
    done(&api, &caller, channel_id, command).await
}

pub(super) async fn remove_own(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let (channel_id, message_id) = message_of(&params)?;
    let command =
        Command::RemoveReaction(channel_id, message_id, emoji_there(&api, &caller, &params).await?, caller.id);
    done(&api, &caller, channel_id, command).await
}

pub(super) async fn remove(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let (channel_id, message_id) = message_of(&params)?;
    let command = Command::RemoveReaction(
        channel_id,
        message_id,
        emoji_there(&api, &caller, &params).await?,
        params.id("user_id")?,
    );
    done(&api, &caller, channel_id, command).await
}

pub(super) async fn clear(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let (channel_id, message_id) = message_of(&params)?;
    done(&api, &caller, channel_id, Command::ClearReactions(channel_id, message_id, None)).await
}

pub(super) async fn clear_emoji(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let (channel_id, message_id) = message_of(&params)?;
    let command = Command::ClearReactions(channel_id, message_id, Some(emoji_there(&api, &caller, &params).await?));
    done(&api, &caller, channel_id, command).await
}

/// Users who reacted with one emoji, by ascending id.
pub(super) async fn users(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let (channel_id, message_id) = message_of(&params)?;
    let emoji = emoji_there(&api, &caller, &params).await?;
    let (limit, after, kind) = query.read(|form| {
        let limit = form.optional("limit", |v| form::integer(v, 1, PAGE_MAX)).unwrap_or(PAGE_DEFAULT);
        let after = form.optional("after", form::id).unwrap_or(UserId::new(0));
        // 0 normal, 1 burst.
        let kind = form.optional("type", |v| form::integer(v, 0, 1)).unwrap_or(0);
        Some((limit as u32, after, kind))
    })?;
    messages::readable(&api, &caller, channel_id, message_id).await?;
    let users = match kind {
        0 => api.node.store().reaction_users(channel_id, message_id, &emoji, after, limit).await?,
        // There are no burst reactions here.
        _ => Vec::new(),
    };
    Ok(Json(users.iter().map(|user| UserBody::from(user).for_rest()).collect::<Vec<_>>()).into_response())
}
