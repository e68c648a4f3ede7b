//! Stickers. Spec  docs/protocol/reference.md §6.7.

use super::UserBody;
use crate::{
    id::{GuildId, StickerId},
    sticker::Sticker,
};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct StickerBody<'a> {
    id: StickerId,
    guild_id: GuildId,
    name: &'a str,
    description: Option<&'a str>,
    tags: &'a str,
    #[serde(rename = "type")]
    kind: u8,
    format_type: u8,
    available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<UserBody<'a>>,
}

impl<'a> StickerBody<'a> {
    /// Adds the keys that only answers of REST have.
    #[must_use]
    pub fn for_rest(self) -> Self {
        Self { user: self.user.map(UserBody::for_rest), ..self }
    }

    /// Body of a sticker of `guild_id`.
    #[must_use]
    pub fn new(guild_id: GuildId, sticker: &'a Sticker) -> Self {
        Self {
            id: sticker.id,
            guild_id,
            name: &sticker.name,
            description: sticker.description.as_deref(),
            tags: &sticker.tags,
            kind: 2,
            format_type: sticker.format_type,
            available: true,
            user: sticker.user.as_deref().map(Into::into),
        }
    }
}
