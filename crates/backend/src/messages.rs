//! Messages of a channel, of direct messages too: listed, read, sent as any account, changed, deleted.
//!
//! Invariants  a backend's message goes the way of all messages: the guild stores and publishes it. What concerns
//!             members is not checked: permissions, time-outs, slow mode. Hooks do not review it.
//! Limits      pages of 100, and 100 deletions at once. A key counts for five minutes, over restarts too.
//! Not here    search: `search`.     Spec  docs/backend-api.md "Messages".

use super::{
    V1,
    audit::Made,
    caller::{Caller, Messages},
    dto::{MessageBody, MessageChangeBody, MessageIds, NewMessageBody},
    error::V1Error,
    external,
    extract::{Body, Check, FieldErrors, Path, Query},
    put_status,
    types::{AnyId, Snowflake},
};
use axum::{
    Extension, Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use guildhall_guild::{Actor, MessageRecord, Refusal, request};
use guildhall_model::{ChannelId, GuildId, MessageId};
use guildhall_store::{ExternalKind, Page};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use utoipa::IntoParams;

const PAGE_MAX: u32 = 100;
const PAGE_DEFAULT: u32 = 50;

/// The channel in the path, and what holds it.
pub(super) async fn find(v1: &V1, path: &Path) -> Result<(GuildId, ChannelId), V1Error> {
    let channel_id = path.id("channel_id")?;
    let guild_id = v1.in_time(v1.node.guild_of_channel(channel_id)).await??;
    Ok((guild_id.ok_or_else(|| V1Error::not_found("channel"))?, channel_id))
}

async fn find_message(v1: &V1, path: &Path) -> Result<(GuildId, MessageRecord), V1Error> {
    let (guild_id, channel_id) = find(v1, path).await?;
    let record = v1.in_time(v1.node.store().message(channel_id, path.id("message_id")?)).await??;
    Ok((guild_id, record.ok_or_else(|| V1Error::not_found("message"))?))
}

pub(super) fn body_of(v1: &V1, record: MessageRecord) -> MessageBody {
    let message = v1.node.with_links(record.message);
    MessageBody::new(&message, record.reactions.iter().map(|(emoji, users)| (emoji, users.len() as u64)))
}

/// Parameters of a page of messages. `before`, `after` and `around` exclude each other; without them it is the newest.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct MessagesQuery {
    /// Only older messages.
    #[param(value_type = Option<Snowflake>)]
    before: Option<Snowflake>,
    /// Only newer messages, the oldest of them.
    #[param(value_type = Option<Snowflake>)]
    after: Option<Snowflake>,
    /// This message, and those around it.
    #[param(value_type = Option<Snowflake>)]
    around: Option<Snowflake>,
    /// Maximum number of messages; 50 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

impl Check for MessagesQuery {
    fn check(&self, faults: &mut FieldErrors) {
        faults.number("limit", self.limit.unwrap_or(PAGE_DEFAULT).into(), 1, PAGE_MAX.into());
        let places = [("before", self.before), ("after", self.after), ("around", self.around)];
        for (name, _) in places.into_iter().filter(|(_, id)| id.is_some()).skip(1) {
            faults.add(name, "Must be left out: a page has one of `before`, `after` and `around`.");
        }
    }
}

impl MessagesQuery {
    fn page(&self) -> Page {
        match (self.before, self.after, self.around) {
            (Some(id), _, _) => Page::Before(id.id()),
            (_, Some(id), _) => Page::After(id.id()),
            (_, _, Some(id)) => Page::Around(id.id()),
            (None, None, None) => Page::Newest,
        }
    }
}

/// Lists messages of a channel
///
/// Newest first, whatever the page. The channel may be a thread, or a direct message.
#[utoipa::path(get, path = "/v1/channels/{channel_id}/messages", tag = "messages",
    params(("channel_id" = AnyId, Path), MessagesQuery),
    responses((status = 200, body = Vec<MessageBody>), (status = 404, body = V1Error)))]
pub(super) async fn list(
    _: Caller<Messages>,
    State(v1): State<Arc<V1>>,
    path: Path,
    Query(query): Query<MessagesQuery>,
) -> Result<Json<Vec<MessageBody>>, V1Error> {
    let (_, channel_id) = find(&v1, &path).await?;
    let limit = query.limit.unwrap_or(PAGE_DEFAULT);
    let records = v1.in_time(v1.node.store().messages(channel_id, query.page(), limit)).await??;
    Ok(Json(records.into_iter().map(|record| body_of(&v1, record)).collect()))
}

/// Reads a message
#[utoipa::path(get, path = "/v1/channels/{channel_id}/messages/{message_id}", tag = "messages",
    params(("channel_id" = AnyId, Path), ("message_id" = Snowflake, Path)),
    responses((status = 200, body = MessageBody), (status = 404, body = V1Error)))]
pub(super) async fn read(
    _: Caller<Messages>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<MessageBody>, V1Error> {
    let (_, record) = find_message(&v1, &path).await?;
    Ok(Json(body_of(&v1, record)))
}

/// Sends a message as an account
///
/// Permissions, time-outs and slow mode do not apply; the account need not be a member. Clients get the usual
/// MESSAGE_CREATE. With a `key` a repetition within five minutes is answered with the first message, and 200.
#[utoipa::path(post, path = "/v1/channels/{channel_id}/messages", tag = "messages",
    params(("channel_id" = AnyId, Path)), request_body = NewMessageBody,
    responses((status = 200, description = "The message of an earlier request with this key", body = MessageBody),
              (status = 201, description = "It was sent", body = MessageBody), (status = 404, body = V1Error),
              (status = 409, description = "The channel holds no messages", body = V1Error)))]
pub(super) async fn create(
    caller: Caller<Messages>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<NewMessageBody>,
) -> Result<Response, V1Error> {
    let (guild_id, channel_id) = find(&v1, &path).await?;
    let api_key = caller.key_id();
    let input = body.read(&v1, caller.permit_for(&guild_id)).await?;
    let author_id = external::id_in(&v1, ExternalKind::User, "author_id", &input.author_id).await?;
    let author = v1.in_time(v1.node.user(author_id)).await??;
    let author = author.ok_or_else(|| V1Error::field("author_id", "There is no such account: put it first."))?;
    let key = input.key.as_ref().map(|key| key_text(api_key, key));
    let message = Box::new(input.into_message(channel_id)?);
    let send = request::SendMessage(channel_id, author, message, key);
    let sent = match v1.in_time(v1.node.command(guild_id, Actor::System, send)).await? {
        Ok(sent) => sent,
        Err(Refusal::UnknownMember) => {
            return Err(V1Error::field("author_id", "Must be a recipient of the direct message."));
        }
        Err(refusal) => return Err(refusal.into()),
    };
    let made = Extension(Made("message_id", sent.value.message.id.to_string()));
    Ok((put_status(&sent), made, Json(MessageBody::from(&*sent.value))).into_response())
}

/// The key among the nonces of the guild. Nonces of accounts are shorter, so that none of them is equal.
fn key_text(api_key: u64, key: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::new().chain_update(api_key.to_le_bytes()).chain_update(key.as_bytes()).finalize())
}

/// Changes a message
///
/// A message of any author. Clients get MESSAGE_UPDATE.
#[utoipa::path(patch, path = "/v1/channels/{channel_id}/messages/{message_id}", tag = "messages",
    params(("channel_id" = AnyId, Path), ("message_id" = Snowflake, Path)), request_body = MessageChangeBody,
    responses((status = 200, body = MessageBody), (status = 404, body = V1Error),
              (status = 409, description = "The thread of the message is archived", body = V1Error)))]
pub(super) async fn update(
    caller: Caller<Messages>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<MessageChangeBody>,
) -> Result<Json<MessageBody>, V1Error> {
    let (guild_id, found) = find_message(&v1, &path).await?;
    let patch = body.read(&v1, caller.permit_for(&found)).await?.into_patch()?;
    let (channel_id, message_id) = (found.message.channel_id, found.message.id);
    let reply = v1.request(guild_id, request::EditMessage(channel_id, message_id, Box::new(patch))).await?;
    Ok(Json(MessageBody::from(&*reply)))
}

/// Deletes a message
#[utoipa::path(delete, path = "/v1/channels/{channel_id}/messages/{message_id}", tag = "messages",
    params(("channel_id" = AnyId, Path), ("message_id" = Snowflake, Path)),
    responses((status = 204, description = "It is gone"), (status = 404, body = V1Error)))]
pub(super) async fn delete(_: Caller<Messages>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    let (guild_id, channel_id) = find(&v1, &path).await?;
    v1.request(guild_id, request::DeleteMessage(channel_id, path.id("message_id")?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes several messages
///
/// Messages of any age; clients get one MESSAGE_DELETE_BULK, in a direct message one MESSAGE_DELETE for each.
#[utoipa::path(post, path = "/v1/channels/{channel_id}/messages/bulk-delete", tag = "messages",
    params(("channel_id" = AnyId, Path)), request_body = MessageIds,
    responses((status = 204, description = "They are gone"), (status = 404, body = V1Error),
              (status = 409, description = "The channel holds no messages", body = V1Error)))]
pub(super) async fn delete_many(
    caller: Caller<Messages>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<MessageIds>,
) -> Result<StatusCode, V1Error> {
    let (guild_id, channel_id) = find(&v1, &path).await?;
    let input = body.read(&v1, caller.permit_for(&guild_id)).await?;
    let ids: Vec<MessageId> = input.message_ids.iter().map(|id| id.id()).collect();
    let deleted =
        v1.in_time(v1.node.command(guild_id, Actor::System, request::DeleteMessages(channel_id, ids.clone())));
    match deleted.await? {
        Ok(()) => {}
        Err(Refusal::NotInDirect) => {
            for id in ids {
                let deleted = v1.node.command(guild_id, Actor::System, request::DeleteMessage(channel_id, id));
                match v1.in_time(deleted).await? {
                    Ok(()) | Err(Refusal::UnknownMessage) => {}
                    Err(refusal) => return Err(refusal.into()),
                }
            }
        }
        Err(refusal) => return Err(refusal.into()),
    }
    Ok(StatusCode::NO_CONTENT)
}
