//! DELETED_ENTITY_IDS: the ids that exist, of each kind where the client remembers others. Spec  docs/protocol.md §8.8.

use crate::{
    id::{ChannelId, EmojiId, GuildId, Id, RoleId},
    murmur3::murmur3_32,
    to_gateway::GetDeletedEntityIds,
};
use serde::Serialize;
use std::fmt::Write as _;

/// What there is in a guild, in any order: exactly what the client was told of, or its hash can never be ours.
#[derive(Clone, Debug, Default)]
pub struct ExistingEntities {
    /// Channels without threads.
    pub channels: Vec<ChannelId>,
    /// Roles with `@everyone`.
    pub roles: Vec<RoleId>,
    /// Custom emoji.
    pub emojis: Vec<EmojiId>,
}

/// DELETED_ENTITY_IDS. A kind is in it if the client asked about it and has not the same ids.
#[derive(Clone, Debug, Serialize)]
pub struct DeletedEntityIdsBody {
    guild_id: GuildId,
    #[serde(skip_serializing_if = "Option::is_none")]
    channels: Option<Vec<ChannelId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    roles: Option<Vec<RoleId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    emojis: Option<Vec<EmojiId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stickers: Option<Vec<StickerId>>,
}

/// There are no stickers yet.
type StickerId = Id<()>;

impl DeletedEntityIdsBody {
    /// The answer to `request`.
    #[must_use]
    pub fn new(request: &GetDeletedEntityIds, existing: ExistingEntities) -> Self {
        Self {
            guild_id: request.guild_id,
            channels: unless_known(request.channel_ids_hash, existing.channels),
            roles: unless_known(request.role_ids_hash, existing.roles),
            emojis: unless_known(request.emoji_ids_hash, existing.emojis),
            stickers: unless_known(request.sticker_ids_hash, Vec::new()),
        }
    }
}

/// The ids in order, unless the client did not ask or has the same.
fn unless_known<T>(hash: Option<u32>, mut ids: Vec<Id<T>>) -> Option<Vec<Id<T>>> {
    let hash = hash?;
    ids.sort_unstable();
    let mut text = String::with_capacity(ids.len() * 20);
    for (at, id) in ids.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        write!(text, "{comma}{id}").expect("a String takes everything");
    }
    (murmur3_32(text.as_bytes()) != hash).then_some(ids)
}
