//! Relationships of user accounts: friends, requests and blocks.
//!
//! Spec  docs/protocol/reference.md §6.13; docs/protocol/choices.md "Relationships"; ADR 54.

use super::{Call, read_states::need_user};
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest, Query},
    error::ApiError,
    form::{self, FieldError, Parsed},
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{ChannelReply, Refusal, request};
use guildhall_model::{ChannelId, ChannelType, RelationshipKind, User, UserId, from_gateway::RelationshipBody};
use guildhall_node::{RELATIONSHIPS_MAX, RelationshipAct, RelationshipRefusal, is_deleted};
use serde_json::Value;
use std::sync::Arc;

/// Accounts with one name that are read; bots and deleted accounts may be among them.
const NAMESAKES_MAX: u32 = 20;
const NICKNAME_MAX: usize = 32;
const USERNAME_MAX: usize = 32;

fn refused(status: StatusCode, code: u32, message: &'static str) -> ApiError {
    ApiError::coded(status, code, message)
}

fn explain(refusal: RelationshipRefusal) -> ApiError {
    let (code, message) = match refusal {
        RelationshipRefusal::OwnBlock => {
            (80001, "Friend request blocked: you have blocked this user. Remove the block first.")
        }
        RelationshipRefusal::NotAccepted => (80000, "Incoming friend requests disabled: this user accepts no request."),
        RelationshipRefusal::NotFriends => (80007, "You need to be friends in order to make this change."),
        RelationshipRefusal::TooMany => {
            const { assert!(RELATIONSHIPS_MAX == 1_000) };
            (
                30002,
                "Maximum number of friends reached (1000). Blocks and your own requests count too: remove some first.",
            )
        }
    };
    refused(StatusCode::BAD_REQUEST, code, message)
}

/// An account that can have relationships.
async fn other(api: &Api, user_id: UserId) -> Result<Arc<User>, ApiError> {
    let found = api.node.user(user_id).await?.filter(|user| !is_deleted(user));
    found.ok_or_else(|| refused(StatusCode::NOT_FOUND, 10013, "Unknown User"))
}

async fn change(api: &Api, caller: &Caller, user_id: UserId, act: RelationshipAct) -> Result<StatusCode, ApiError> {
    api.node.change_relationship(caller.id, user_id, act).await?.map_err(explain)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn befriend(api: &Api, caller: &Caller, user: &User) -> Result<StatusCode, ApiError> {
    if user.id == caller.id {
        return Err(refused(StatusCode::BAD_REQUEST, 80003, "Cannot send friend request to self"));
    }
    if user.bot {
        return Err(refused(StatusCode::BAD_REQUEST, 80002, "Bots cannot have friends"));
    }
    change(api, caller, user.id, RelationshipAct::Befriend).await
}

pub(super) async fn list(Call { api, caller, .. }: Call) -> Result<Response, ApiError> {
    need_user(&caller)?;
    let all = api.node.relationships(caller.id).await?;
    Ok(Json(all.iter().map(|of| RelationshipBody::new(of).for_rest()).collect::<Vec<_>>()).into_response())
}

fn discriminator(value: &Value) -> Parsed<String> {
    match value {
        Value::Number(number) => Ok(format!("{number:0>4}")),
        value => form::text(value, 0, 4),
    }
}

/// A friend request by name. Names of user accounts need not be unique here: a name of several is refused.
pub(super) async fn befriend_named(Call { api, caller, .. }: Call, input: JsonRequest) -> Result<StatusCode, ApiError> {
    need_user(&caller)?;
    let read = input.read(&api, ReadPermit::caller(&caller), BodyLimits::FORM, |form| {
        let discriminator = form.optional("discriminator", discriminator);
        Some((form.required("username", |v| form::text(v, 1, USERNAME_MAX))?, discriminator))
    });
    let (username, discriminator) = read.await?;
    let mut named = api.node.users_named(&username, NAMESAKES_MAX).await?;
    let is_without = |discriminator: &str| discriminator.is_empty() || discriminator.bytes().all(|byte| byte == b'0');
    let fits = |user: &User| match discriminator.as_deref() {
        Some(wanted) if !is_without(wanted) => user.discriminator == wanted,
        _ => is_without(&user.discriminator),
    };
    named.retain(|user| !is_deleted(user) && (fits(user) || user.bot));
    // Bots count only if no user account has the name.
    if named.iter().any(|user| !user.bot) {
        named.retain(|user| !user.bot);
    }
    match &named[..] {
        [] => Err(refused(StatusCode::BAD_REQUEST, 80004, "No users with DiscordTag exist: check the username.")),
        [user] => befriend(&api, &caller, user).await,
        _ => {
            let message = "Several users have this username: send the request with the id of one of them, \
                           PUT /users/@me/relationships/{user_id}.";
            Err(refused(StatusCode::BAD_REQUEST, 80004, message))
        }
    }
}

/// What `type` of a request means.
#[derive(Clone, Copy)]
enum Wanted {
    Friend,
    Block,
}

fn wanted(value: &Value) -> Parsed<Wanted> {
    match form::integer(value, i64::MIN, i64::MAX)? {
        -1 | 1 => Ok(Wanted::Friend),
        2 => Ok(Wanted::Block),
        _ => Err(FieldError::new("BASE_TYPE_CHOICES", "Value must be one of (-1, 1, 2).").into()),
    }
}

pub(super) async fn put(Call { api, caller, params }: Call, input: JsonRequest) -> Result<StatusCode, ApiError> {
    need_user(&caller)?;
    let user = other(&api, params.id("user_id")?).await?;
    let read = input.read(&api, ReadPermit::caller(&caller), BodyLimits::FORM, |form| {
        Some(form.optional("type", wanted).unwrap_or(Wanted::Friend))
    });
    match read.await? {
        Wanted::Friend => befriend(&api, &caller, &user).await,
        Wanted::Block if user.id == caller.id => {
            Err(refused(StatusCode::BAD_REQUEST, 80003, "You cannot block yourself"))
        }
        Wanted::Block => change(&api, &caller, user.id, RelationshipAct::Block).await,
    }
}

/// The name of a friend. Empty or null takes it away.
pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<StatusCode, ApiError> {
    need_user(&caller)?;
    let user_id = other(&api, params.id("user_id")?).await?.id;
    let read = input.read(&api, ReadPermit::caller(&caller), BodyLimits::FORM, |form| {
        Some(form.nullable("nickname", |v| form::text(v, 0, NICKNAME_MAX)))
    });
    let Some(nickname) = read.await? else { return Ok(StatusCode::NO_CONTENT) };
    let nickname = nickname.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    change(&api, &caller, user_id, RelationshipAct::Rename(nickname)).await
}

/// Declines all incoming requests. None is flagged as spam here.
pub(super) async fn decline_all(Call { api, caller, .. }: Call, query: Query) -> Result<StatusCode, ApiError> {
    need_user(&caller)?;
    let only_spam = query.read(|form| {
        form.optional("relationship_type", |v| match form::integer(v, i64::MIN, i64::MAX)? {
            3 => Ok(()),
            _ => Err(FieldError::new("BASE_TYPE_CHOICES", "Value must be one of (3).").into()),
        });
        Some(form.optional("only_spam", form::boolean).unwrap_or(false))
    })?;
    if !only_spam {
        let all = api.node.relationships(caller.id).await?;
        for of in all.iter().filter(|of| of.relation.kind == RelationshipKind::Incoming) {
            change(&api, &caller, of.user.id, RelationshipAct::Decline).await?;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Without a relationship there is nothing to remove.
pub(super) async fn remove(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    need_user(&caller)?;
    change(&api, &caller, params.id("user_id")?, RelationshipAct::Remove).await
}

/// Refuses what reaches the other account of a direct message if one of the two has blocked the other. Groups and
/// guilds stay open. Costs a command and two reads in a direct message, and nothing elsewhere.
pub(super) async fn need_no_block(api: &Api, caller: &Caller, channel_id: ChannelId) -> Result<(), ApiError> {
    if api.channel_guild(channel_id).await?.get() != channel_id.get() {
        return Ok(());
    }
    let reply = api.request_in_channel(caller, channel_id, request::ReadChannel(channel_id)).await?;
    let ChannelReply::Direct(direct) = reply else { return Ok(()) };
    let other = direct.recipients.iter().find(|user| user.id != caller.id);
    match other.filter(|_| direct.channel.kind == ChannelType::Dm) {
        Some(other) => Ok(api.node.need_no_block([caller.id, other.id]).await?),
        None => Ok(()),
    }
}

/// The same for reactions, with their code.
pub(super) async fn need_no_block_for_reaction(
    api: &Api,
    caller: &Caller,
    channel_id: ChannelId,
) -> Result<(), ApiError> {
    match need_no_block(api, caller, channel_id).await {
        Err(ApiError::Refused(Refusal::CannotMessage)) => {
            Err(refused(StatusCode::FORBIDDEN, 90001, "Reaction was blocked"))
        }
        checked => checked,
    }
}
