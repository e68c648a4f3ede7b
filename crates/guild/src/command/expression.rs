//! Emoji and stickers: made and changed.

use super::some;
use guildhall_model::{EmojiId, RoleId, StickerId};
use serde::{Deserialize, Serialize};

/// An emoji to be added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewEmoji {
    /// From `Node::next_id`, if its picture is kept under it. None: the guild takes one.
    pub id: Option<EmojiId>,
    /// 2–32 letters, digits and underscores.
    pub name: String,
    /// Whether it moves.
    pub animated: bool,
    /// Only for these.
    pub roles: Vec<RoleId>,
}

/// Changes to an emoji; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EmojiPatch {
    pub name: Option<String>,
    /// Only for these from now on.
    pub roles: Option<Vec<RoleId>>,
}

/// A sticker to be added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewSticker {
    /// From `Node::next_id`, if its picture is kept under it. None: the guild takes one.
    pub id: Option<StickerId>,
    /// 2–30 characters.
    pub name: String,
    /// Description of the picture, for search and screen readers.
    pub description: Option<String>,
    /// What finds it.
    pub tags: String,
    /// 1 PNG, 2 APNG, 3 Lottie, 4 GIF.
    pub format_type: u8,
}

/// Changes to a sticker; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StickerPatch {
    pub name: Option<String>,
    /// New description, or none.
    #[serde(default, deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    pub description: Option<Option<String>>,
    pub tags: Option<String>,
}
