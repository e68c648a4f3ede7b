//! DELETED_ENTITY_IDS: the ids that exist, of each kind where the client remembers others. Spec
//! docs/protocol/reference.md §8.8.

use crate::{
    id::{ChannelId, EmojiId, GuildId, Id, RoleId},
    murmur3::murmur3_32,
    to_gateway::GetDeletedEntityIds,
};
use serde::Serialize;
use std::fmt::Write as _;

/// Ids of the objects in a guild, in any order. They must be exactly the ids sent to the client, else the
/// hashes never match.
#[derive(Clone, Debug, Default)]
pub struct ExistingEntities {
    /// Without threads.
    pub channels: Vec<ChannelId>,
    /// With `@everyone`.
    pub roles: Vec<RoleId>,
    pub emojis: Vec<EmojiId>,
}

/// DELETED_ENTITY_IDS. Contains a kind if the client sent a hash for it that differs.
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

/// Stickers are not hashed yet.
type StickerId = Id<()>;

impl DeletedEntityIdsBody {
    /// Answers `request`.
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

/// The sorted ids, unless the client sent no hash or an equal one.
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
