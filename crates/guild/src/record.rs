//! Records: the durable part of a guild, as the store reads and writes it.
//!
//! Owns        `Write`, one durable change; `GuildRecord` and `MessageRecord`, the loaded form.
//! Invariants  applying a guild's writes in order to an empty store and loading it yields the guild's state, without
//!             presence, voice and typing, which end with the process.
//! Not here    the storage format: `guildhall-store`.

use crate::feed::FeedEvent;
use guildhall_model::{
    Channel, ChannelId, Guild, GuildId, GuildResource, Member, Message, MessageId, Nonce, ReactionEmoji, ResourceKey,
    Role, RoleId, User, UserId, smallest_id_at, timestamp_of,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Lifetime of a nonce: five minutes, longer than any client retries.
pub(crate) const NONCE_MS: u64 = 300_000;

/// One durable change. A batch of them is committed together or not at all.
#[derive(Clone, Debug)]
pub enum Write {
    /// Adds or replaces an account, whatever it is. No guild writes it.
    PutUser(Arc<User>),
    /// Adds or replaces a guild's base fields.
    PutGuild(Arc<Guild>),
    /// Removes a guild with all its data.
    DeleteGuild(GuildId),
    /// Adds or replaces a role.
    PutRole(GuildId, Arc<Role>),
    /// Removes a role.
    DeleteRole(GuildId, RoleId),
    /// Adds or replaces a channel.
    PutChannel(Arc<Channel>),
    /// Removes a channel with its messages.
    DeleteChannel(GuildId, ChannelId),
    /// Adds or replaces a member. Its account is stored with it if it is not stored yet, and stays as it is otherwise.
    PutMember(GuildId, Arc<Member>),
    /// Removes a member.
    DeleteMember(GuildId, UserId),
    /// Adds or replaces a guild resource.
    PutResource(GuildId, GuildResource),
    /// Removes a guild resource.
    DeleteResource(GuildId, ResourceKey),
    /// Removes all resources with this kind and id, whatever their part.
    DeleteResources(GuildId, ResourceKey),
    /// Adds or replaces a message. A nonce is stored with it; only `GuildRecord::nonces` shows it.
    PutMessage(Arc<Message>),
    /// Removes a message with its reactions.
    DeleteMessage(ChannelId, MessageId),
    /// Adds a reaction; no effect if it exists.
    AddReaction(ChannelId, MessageId, ReactionEmoji, UserId),
    /// Removes one account's reaction.
    RemoveReaction(ChannelId, MessageId, ReactionEmoji, UserId),
    /// Removes all reactions, or all with one emoji.
    ClearReactions(ChannelId, MessageId, Option<ReactionEmoji>),
    /// Appends an event to the feed of backends, at the next position.
    PutEvent(Box<FeedEvent>),
}

/// A guild as loaded: everything except messages.
#[derive(Clone, Debug)]
pub struct GuildRecord {
    /// The guild's own fields.
    pub guild: Guild,
    /// In any order, including `@everyone`.
    pub roles: Vec<Role>,
    /// In any order; `last_message_id` is the newest stored message.
    pub channels: Vec<Channel>,
    /// By user id, ascending. Members of one account share its `User`.
    pub members: Vec<Arc<Member>>,
    /// In any order.
    pub resources: Vec<GuildResource>,
    /// Nonces of the messages from `nonces_from` on, the newest `NONCES_LOADED_MAX`, ascending by message.
    pub nonces: Vec<SentNonce>,
}

/// Most nonces that are loaded with a guild.
pub const NONCES_LOADED_MAX: usize = 1_024;

/// A nonce that was stored with its message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentNonce {
    pub author_id: UserId,
    pub channel_id: ChannelId,
    pub message_id: MessageId,
    pub nonce: Nonce,
}

/// The first message of a guild whose nonce may still count: older ones were sent a nonce's lifetime before the newest
/// message. None: there are no messages. Without a clock, so a quiet guild also has nonces that have expired.
#[must_use]
pub fn nonces_from(channels: &[Channel]) -> Option<MessageId> {
    let newest = channels.iter().filter_map(|channel| channel.last_message_id).max()?;
    Some(smallest_id_at(Timestamp(timestamp_of(newest).0 - NONCE_MS as i64)))
}

/// A message as loaded, with its reactions.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRecord {
    pub message: Arc<Message>,
    /// Emoji in order of first use, each with its users in order of reacting.
    pub reactions: Vec<(ReactionEmoji, Vec<UserId>)>,
}
