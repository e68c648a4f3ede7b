//! Emoji and stickers: made and changed.

use guildhall_model::RoleId;

/// An emoji to be added.
#[derive(Clone, Debug)]
pub struct NewEmoji {
    /// 2–32 letters, digits and underscores.
    pub name: String,
    /// Whether it moves.
    pub animated: bool,
    /// Only for these.
    pub roles: Vec<RoleId>,
}

/// Changes to an emoji; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct EmojiPatch {
    /// New name.
    pub name: Option<String>,
    /// Only for these from now on.
    pub roles: Option<Vec<RoleId>>,
}

/// A sticker to be added.
#[derive(Clone, Debug)]
pub struct NewSticker {
    /// 2–30 characters.
    pub name: String,
    /// What it shows.
    pub description: Option<String>,
    /// What finds it.
    pub tags: String,
}

/// Changes to a sticker; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct StickerPatch {
    /// New name.
    pub name: Option<String>,
    /// New description, or none.
    pub description: Option<Option<String>>,
    /// New tags.
    pub tags: Option<String>,
}
