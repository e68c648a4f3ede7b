//! Search for messages of a guild, or of a direct message.
//!
//! Invariants  S1 the answer depends on no message of a channel whose history the caller may not read: neither its page
//!             nor its number of results; a direct message is for its recipients. (tests `s1_*` in
//!             `tests/it/search.rs`)
//! Limits      pages of 25, offsets up to 9,975, 1,024 characters, `SEARCH_WORDS_MAX` words; how many searches run at
//!             the same time is in `ApiLimits`.     Spec  docs/protocol/reference.md §10.4, ADR 53.

use super::{Call, messages::answered_by, read_states::need_user, render};
use crate::{
    auth::Caller,
    body::Query,
    error::ApiError,
    form::{self, FieldError, Form, Parsed},
    state::Api,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{ChannelReply, MessageRecord, Refusal, request};
use guildhall_model::{
    ChannelId, GuildId, Id, User,
    from_gateway::{MessageBody, ThreadBody, ThreadMemberBody},
};
use guildhall_node::Searched;
use guildhall_store::{
    AuthorType, Has, MessageSearch, SEARCH_WORDS_MAX, SearchOrder, SearchPage, StoreError, search_words_count,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

const PAGE_MAX: i64 = 25;
const OFFSET_MAX: i64 = 9_975;
const CONTENT_CHARS_MAX: usize = 1_024;
const CHANNELS_MAX: usize = 500;
const LIST_MAX: usize = 100;
const SLOP_MAX: i64 = 100;
const NAME_CHARS_MAX: usize = 1_024;
const SHORT_NAME_CHARS_MAX: usize = 256;
/// Fields that may be repeated.
const LISTS: &[&str] = &[
    "channel_id",
    "author_id",
    "author_type",
    "mentions",
    "mentions_role_id",
    "replied_to_message_id",
    "has",
    "link_hostname",
    "attachment_filename",
    "attachment_extension",
];
/// Seconds after which a client tries again while the index is built.
const RETRY_AFTER_S: u32 = 5;
const NOT_READY: u32 = 110_000;

/// Parameters of a request.
struct Parameters {
    search: MessageSearch,
    /// None: all channels that the caller may read.
    channels: Option<Vec<ChannelId>>,
    include_nsfw: bool,
}

fn ids<T>(form: &mut Form<'_>, key: &str) -> Vec<Id<T>> {
    form.optional(key, |v| form::list(v, 0, LIST_MAX, form::id)).unwrap_or_default()
}

fn texts(form: &mut Form<'_>, key: &str, chars_max: usize) -> Vec<String> {
    form.optional(key, |v| form::list(v, 0, LIST_MAX, |v| form::text(v, 1, chars_max))).unwrap_or_default()
}

fn parameters(form: &mut Form<'_>) -> Option<Parameters> {
    form.unsupported("replied_to_user_id", "Search does not know whom a message replies to. Leave this field out.");
    form.unsupported("embed_type", "Search does not know the types of embeds. Leave this field out.");
    form.unsupported("embed_provider", "Search does not know the providers of embeds. Leave this field out.");
    // Words may be apart and in any order.
    form.optional("slop", |v| form::integer(v, 0, SLOP_MAX));
    form.optional("sort_by", |v| choice(v, &[("timestamp", ())]));
    let channels = form.optional("channel_id", |v| form::list(v, 0, CHANNELS_MAX, form::id));
    let has_types = form.optional("has", |v| form::list(v, 0, 2 * Has::ALL.len(), |v| wanted(v, &Has::ALL)));
    let author_types =
        form.optional("author_type", |v| form::list(v, 0, 2 * AuthorType::ALL.len(), |v| wanted(v, &AuthorType::ALL)));
    let orders = [("desc", SearchOrder::NewestFirst), ("asc", SearchOrder::OldestFirst)];
    let search = MessageSearch {
        guild_id: None,
        channels: Vec::new(),
        content: form.optional("content", content).unwrap_or_default(),
        authors: ids(form, "author_id"),
        author_types: author_types.unwrap_or_default(),
        mentions: ids(form, "mentions"),
        mention_roles: ids(form, "mentions_role_id"),
        mention_everyone: form.optional("mention_everyone", form::boolean),
        replied_to: ids(form, "replied_to_message_id"),
        pinned: form.optional("pinned", form::boolean),
        has: has_types.unwrap_or_default(),
        link_hosts: texts(form, "link_hostname", SHORT_NAME_CHARS_MAX),
        filenames: texts(form, "attachment_filename", NAME_CHARS_MAX),
        extensions: texts(form, "attachment_extension", SHORT_NAME_CHARS_MAX),
        after: form.optional("min_id", form::id),
        before: form.optional("max_id", form::id),
        order: form.optional("sort_order", |v| choice(v, &orders)).unwrap_or_default(),
        offset: form.optional("offset", |v| form::integer(v, 0, OFFSET_MAX)).unwrap_or(0) as u32,
        limit: form.optional("limit", |v| form::integer(v, 1, PAGE_MAX)).unwrap_or(PAGE_MAX) as u32,
    };
    let include_nsfw = form.optional("include_nsfw", form::boolean).unwrap_or(false);
    Some(Parameters { search, channels: channels.filter(|of| !of.is_empty()), include_nsfw })
}

fn content(value: &Value) -> Parsed<String> {
    let content = form::text(value, 0, CONTENT_CHARS_MAX)?;
    if search_words_count(&content) > SEARCH_WORDS_MAX {
        let message = format!("Must have {SEARCH_WORDS_MAX} or fewer different words.");
        return Err(FieldError::new("BASE_TYPE_MAX_LENGTH", message).into());
    }
    Ok(content)
}

/// One of some names.
fn choice<T: Copy>(value: &Value, all: &[(&'static str, T)]) -> Parsed<T> {
    all.iter().find(|(name, _)| value == name).map(|(_, found)| *found).ok_or_else(|| {
        let names = all.iter().map(|(name, _)| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        FieldError::new("BASE_TYPE_CHOICES", format!("Value must be one of ({names}).")).into()
    })
}

/// One of some names; `-` before it excludes it.
fn wanted<T: Copy>(value: &Value, all: &[(&'static str, T)]) -> Parsed<(T, bool)> {
    match value.as_str().and_then(|text| text.strip_prefix('-')) {
        Some(name) => Ok((choice(&Value::from(name), all)?, false)),
        None => Ok((choice(value, all)?, true)),
    }
}

/// A found message. Upstream's answer once had the messages around it in the same list; `hit` marked it.
#[derive(Serialize)]
struct HitBody<'a> {
    #[serde(flatten)]
    message: MessageBody<'a>,
    hit: bool,
}

#[derive(Serialize)]
struct SearchBody<'a> {
    doing_deep_historical_index: bool,
    total_results: u32,
    messages: Vec<[HitBody<'a>; 1]>,
    threads: Vec<ThreadBody<'a>>,
    members: Vec<ThreadMemberBody<'a>>,
}

/// Content of messages is for applications with MESSAGE_CONTENT, and a search reveals it even without its results.
fn need_content(caller: &Caller) -> Result<(), ApiError> {
    if !caller.bot || caller.application_flags & User::APPLICATION_MESSAGE_CONTENT != 0 {
        return Ok(());
    }
    let message = "Search reads the content of messages, and this application lacks the MESSAGE_CONTENT intent. Switch it \
                   on for the application, as docs/bots.md describes.";
    Err(ApiError::coded(StatusCode::FORBIDDEN, 50001, message))
}

pub(super) async fn in_guild(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let guild_id: GuildId = params.id("guild_id")?;
    need_content(&caller)?;
    let Parameters { mut search, channels, include_nsfw } = query.read_lists(LISTS, parameters)?;
    let mut readable = api.request(&caller, guild_id, request::ReadableChannels(include_nsfw)).await?;
    if let Some(channels) = channels {
        readable.retain(|channel_id| channels.contains(channel_id));
    }
    search.guild_id = Some(guild_id);
    search.channels = readable;
    run(&api, &caller, &search).await
}

/// In a direct message or group. Messages of guilds have a search of their own, as upstream.
pub(super) async fn in_direct(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let channel_id: ChannelId = params.id("channel_id")?;
    need_user(&caller)?;
    let ChannelReply::Direct(_) = api.request_in_channel(&caller, channel_id, request::ReadChannel(channel_id)).await?
    else {
        let message = "Cannot execute action on this channel type: only direct messages are searched by their channel. \
                       Use GET /guilds/{guild_id}/messages/search?channel_id=… for a channel of a guild.";
        return Err(ApiError::coded(StatusCode::BAD_REQUEST, 50024, message));
    };
    let Parameters { mut search, channels, include_nsfw: _ } = query.read_lists(LISTS, parameters)?;
    let is_named = channels.is_none_or(|channels| channels.contains(&channel_id));
    search.channels = is_named.then_some(channel_id).into_iter().collect();
    run(&api, &caller, &search).await
}

async fn run(api: &Api, caller: &Caller, search: &MessageSearch) -> Result<Response, ApiError> {
    let permit = Arc::clone(&api.searches).acquire_owned().await.map_err(|_| ApiError::Overloaded)?;
    let searched = api.node.search_messages(search).await;
    drop(permit);
    match searched.map_err(search_fault)? {
        Searched::Found { page, is_behind } => found(api, caller, &page, is_behind).await,
        Searched::NotReady { indexed } => {
            let body = json!({
                "message": "Index not yet available. Try again later",
                "code": NOT_READY,
                "documents_indexed": indexed,
                "retry_after": RETRY_AFTER_S,
            });
            Ok((StatusCode::ACCEPTED, Json(body)).into_response())
        }
    }
}

fn search_fault(error: StoreError) -> ApiError {
    match error {
        StoreError::TooSlow => ApiError::coded(
            StatusCode::SERVICE_UNAVAILABLE,
            0,
            "The search took too long. Search for longer words, in fewer channels, or in less time (min_id, max_id).",
        ),
        error => error.into(),
    }
}

/// Messages that were deleted in the meantime are left out, as upstream.
async fn found(api: &Api, caller: &Caller, page: &SearchPage, is_behind: bool) -> Result<Response, ApiError> {
    let mut records = Vec::with_capacity(page.messages.len());
    for (channel_id, message_id) in &page.messages {
        records.extend(api.message(*channel_id, *message_id).await?);
    }
    // Without reactions, as upstream.
    records.iter_mut().for_each(|record: &mut MessageRecord| record.reactions.clear());
    let mut threads = Vec::new();
    let mut channels: Vec<ChannelId> = records.iter().map(|record| record.message.channel_id).collect();
    channels.sort_unstable();
    channels.dedup();
    for channel_id in channels {
        match api.request_in_channel(caller, channel_id, request::ReadChannel(channel_id)).await {
            Ok(ChannelReply::Thread(thread)) => threads.push(thread),
            Ok(ChannelReply::Channel(_) | ChannelReply::Direct(_)) => {}
            // It was deleted or hidden since.
            Err(ApiError::Refused(Refusal::UnknownChannel | Refusal::MissingAccess)) => {
                records.retain(|record| record.message.channel_id != channel_id);
            }
            Err(error) => return Err(error),
        }
    }
    let answered = answered_by(api, &records).await?;
    let hits = records.iter().map(|record| {
        let referenced = record.message.answers().map(|(_, id)| answered.get(&id).and_then(Option::as_deref));
        [HitBody { message: render::message(caller, record, referenced), hit: true }]
    });
    let body = SearchBody {
        doing_deep_historical_index: is_behind,
        total_results: page.total,
        messages: hits.collect(),
        threads: threads.iter().map(|thread| thread.0.body(thread.1)).collect(),
        members: threads.iter().filter_map(|thread| thread.1).map(Into::into).collect(),
    };
    Ok(Json(body).into_response())
}
