//! Search for messages of a guild, in all of its channels and threads, or of one channel.
//!
//! Limits      pages of 100 within the first 10,000 results.
//! Not here    the index: `guildhall-store`, ADR 53.     Spec  docs/backend-api.md "Messages".

use super::{
    V1,
    caller::{Caller, Messages},
    dto::MessageBody,
    error::V1Error,
    external,
    extract::{Check, FieldErrors, Path, Query},
    messages::{body_of, find},
    types::{AnyId, Snowflake},
};
use axum::{Json, extract::State};
use guildhall_guild::{ChannelReply, request};
use guildhall_model::{ChannelId, GuildId};
use guildhall_node::Searched;
use guildhall_store::{
    ExternalKind, Has, MessageSearch, SEARCH_HITS_MAX, SEARCH_WORDS_MAX, SearchOrder, search_words_count,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

const PAGE_MAX: u32 = 100;
const PAGE_DEFAULT: u32 = 25;
const CONTENT_CHARS_MAX: usize = 1_024;

/// Something that a message has besides its text.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum SearchedThing {
    Image,
    Sound,
    Video,
    File,
    Sticker,
    Embed,
    Link,
}

impl From<SearchedThing> for Has {
    fn from(thing: SearchedThing) -> Self {
        match thing {
            SearchedThing::Image => Self::Image,
            SearchedThing::Sound => Self::Sound,
            SearchedThing::Video => Self::Video,
            SearchedThing::File => Self::File,
            SearchedThing::Sticker => Self::Sticker,
            SearchedThing::Embed => Self::Embed,
            SearchedThing::Link => Self::Link,
        }
    }
}

/// Order of the results.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum SearchedOrder {
    #[default]
    Newest,
    Oldest,
}

/// Parameters of a search. Every one of them is a condition.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchQuery {
    /// Words that a message has, in any order. A word of three letters or more also finds words that begin with it.
    #[param(max_length = 1024)]
    content: Option<String>,
    /// Only messages of this account.
    #[param(value_type = Option<AnyId>)]
    author_id: Option<AnyId>,
    /// Only messages of this channel or thread; a channel's threads are not part of it.
    #[param(value_type = Option<AnyId>)]
    channel_id: Option<AnyId>,
    /// Only messages that mention this account.
    #[param(value_type = Option<AnyId>)]
    mentions: Option<AnyId>,
    /// Only messages that do, or do not, mention everyone.
    mention_everyone: Option<bool>,
    /// Only pinned messages, or only others.
    pinned: Option<bool>,
    /// Only messages with this.
    #[param(inline)]
    has: Option<SearchedThing>,
    /// Only older messages.
    #[param(value_type = Option<Snowflake>)]
    before: Option<Snowflake>,
    /// Only newer messages.
    #[param(value_type = Option<Snowflake>)]
    after: Option<Snowflake>,
    /// Newest first by default.
    #[param(inline)]
    order: Option<SearchedOrder>,
    /// Results before the page.
    #[param(minimum = 0, maximum = 9900)]
    offset: Option<u32>,
    /// Maximum number of messages; 25 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

impl Check for SearchQuery {
    fn check(&self, faults: &mut FieldErrors) {
        faults.optional_text("content", self.content.as_deref(), CONTENT_CHARS_MAX);
        let words = self.content.as_deref().map_or(0, search_words_count);
        if words > SEARCH_WORDS_MAX {
            faults.add("content", format!("Must have {SEARCH_WORDS_MAX} different words or fewer; it has {words}."));
        }
        faults.number("offset", self.offset.unwrap_or(0).into(), 0, (SEARCH_HITS_MAX - PAGE_MAX).into());
        faults.number("limit", self.limit.unwrap_or(PAGE_DEFAULT).into(), 1, PAGE_MAX.into());
    }
}

/// A page of a search.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FoundMessages)]
pub(super) struct FoundBody {
    /// Messages that were found; 10,000 if there are more.
    total: u32,
    /// Some messages that were sent or changed just now are not searched yet.
    is_behind: bool,
    messages: Vec<MessageBody>,
}

/// Searches messages of a guild
///
/// In all channels and threads, also hidden ones. Words have any case. A message is found at once after it was sent. If
/// there are more than 10,000 results, the newest (or oldest) 10,000 are counted and listed.
#[utoipa::path(get, path = "/v1/guilds/{guild_id}/messages/search", tag = "messages",
    params(("guild_id" = AnyId, Path), SearchQuery),
    responses((status = 200, body = FoundBody), (status = 404, body = V1Error),
              (status = 503, description = "Messages from before an upgrade are not indexed yet, or the search takes too long",
               body = V1Error)))]
pub(super) async fn search(
    _: Caller<Messages>,
    State(v1): State<Arc<V1>>,
    path: Path,
    Query(query): Query<SearchQuery>,
) -> Result<Json<FoundBody>, V1Error> {
    let guild_id: GuildId = path.id("guild_id")?;
    let channels = v1.request(guild_id, request::ReadableChannels(true)).await?;
    run(&v1, (Some(guild_id), channels), query).await
}

/// Searches messages of a channel
///
/// The channel may be a thread, a direct message, or a group. As the search of a guild otherwise.
#[utoipa::path(get, path = "/v1/channels/{channel_id}/messages/search", tag = "messages",
    params(("channel_id" = AnyId, Path), SearchQuery),
    responses((status = 200, body = FoundBody), (status = 404, body = V1Error),
              (status = 503, description = "Messages from before an upgrade are not indexed yet, or the search takes too long",
               body = V1Error)))]
pub(super) async fn search_channel(
    _: Caller<Messages>,
    State(v1): State<Arc<V1>>,
    path: Path,
    Query(query): Query<SearchQuery>,
) -> Result<Json<FoundBody>, V1Error> {
    let (guild_id, channel_id) = find(&v1, &path).await?;
    let channel = v1.request(guild_id, request::ReadChannel(channel_id)).await?;
    // Its messages name no guild.
    let guild_id = Some(guild_id).filter(|_| !matches!(channel, ChannelReply::Direct(_)));
    run(&v1, (guild_id, vec![channel_id]), query).await
}

async fn run(
    v1: &Arc<V1>,
    (guild_id, mut channels): (Option<GuildId>, Vec<ChannelId>),
    query: SearchQuery,
) -> Result<Json<FoundBody>, V1Error> {
    if let Some(named) = &query.channel_id {
        let channel_id: ChannelId = external::id_in(v1, ExternalKind::Channel, "channel_id", named).await?;
        channels.retain(|channel| *channel == channel_id);
    }
    let mut users = [Vec::new(), Vec::new()];
    for (ids, (field, named)) in users.iter_mut().zip([("author_id", &query.author_id), ("mentions", &query.mentions)])
    {
        if let Some(named) = named {
            ids.push(external::id_in(v1, ExternalKind::User, field, named).await?);
        }
    }
    let [authors, mentions] = users;
    let search = MessageSearch {
        guild_id,
        channels,
        content: query.content.unwrap_or_default(),
        authors,
        mentions,
        mention_everyone: query.mention_everyone,
        pinned: query.pinned,
        has: query.has.map(|thing| (thing.into(), true)).into_iter().collect(),
        after: query.after.map(|id| id.id()),
        before: query.before.map(|id| id.id()),
        order: match query.order.unwrap_or_default() {
            SearchedOrder::Newest => SearchOrder::NewestFirst,
            SearchedOrder::Oldest => SearchOrder::OldestFirst,
        },
        offset: query.offset.unwrap_or(0),
        limit: query.limit.unwrap_or(PAGE_DEFAULT),
        ..MessageSearch::default()
    };
    let (page, is_behind) = match v1.in_time(v1.node.search_messages(&search)).await?? {
        Searched::Found { page, is_behind } => (page, is_behind),
        Searched::NotReady { indexed } => return Err(V1Error::not_indexed(indexed)),
    };
    let mut messages = Vec::with_capacity(page.messages.len());
    for (channel_id, message_id) in page.messages {
        let record = v1.in_time(v1.node.store().message(channel_id, message_id)).await??;
        messages.extend(record.map(|record| body_of(v1, record)));
    }
    Ok(Json(FoundBody { total: page.total, is_behind, messages }))
}
