//! Stickers of a guild.
//!
//! Spec  docs/protocol/reference.md §6.7.

use crate::{id::StickerId, user::User};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A custom sticker of a guild.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sticker {
    pub id: StickerId,
    /// 2–30 characters.
    pub name: String,
    /// Description of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Keywords for search and autocomplete.
    pub tags: String,
    /// 1 PNG, 2 APNG, 3 Lottie, 4 GIF.
    pub format_type: u8,
    /// Account that uploaded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<User>>,
}
