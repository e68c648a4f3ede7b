//! Forums: the tags of posts, and defaults of new posts.
//!
//! Spec  docs/protocol/reference.md §6.4.

use crate::{emoji::ReactionEmoji, id::EmojiId};
use serde::{Deserialize, Serialize};

/// A tag for the posts of a forum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForumTag {
    /// Unique within the guild.
    pub id: crate::id::Id<()>,
    /// 0–20 characters.
    pub name: String,
    /// Only members with MANAGE_THREADS can add it to a post or remove it.
    #[serde(default)]
    pub moderated: bool,
    /// A custom emoji. At most one of this and `emoji_name` is set.
    #[serde(default)]
    pub emoji_id: Option<EmojiId>,
    /// A unicode emoji.
    #[serde(default)]
    pub emoji_name: Option<String>,
}

/// The emoji of the reaction button under a post.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultReaction {
    /// A custom emoji.
    pub emoji_id: Option<EmojiId>,
    /// A unicode emoji.
    pub emoji_name: Option<String>,
}

impl From<ReactionEmoji> for DefaultReaction {
    fn from(emoji: ReactionEmoji) -> Self {
        match emoji.id {
            Some(id) => Self { emoji_id: Some(id), emoji_name: None },
            None => Self { emoji_id: None, emoji_name: Some(emoji.name) },
        }
    }
}

/// Fields that only forum and media channels have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForumFields {
    /// At most `ForumFields::TAGS_MAX`, in display order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub available_tags: Vec<ForumTag>,
    /// Emoji of the reaction button.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_reaction_emoji: Option<DefaultReaction>,
    /// 0 latest activity, 1 creation date; none: the client decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_sort_order: Option<u8>,
    /// 0 not set, 1 list, 2 gallery.
    #[serde(default)]
    pub default_forum_layout: u8,
    /// `REQUIRE_TAG` or 0.
    #[serde(default)]
    pub flags: u32,
}

impl ForumFields {
    /// Channel flag: a post must carry a tag.
    pub const REQUIRE_TAG: u32 = 1 << 4;
    /// Tags of one forum, as upstream.
    pub const TAGS_MAX: usize = 20;
    /// Characters of a tag's name, as upstream.
    pub const TAG_NAME_CHARS_MAX: usize = 20;

    /// The tag with this id.
    #[must_use]
    pub fn tag(&self, id: crate::id::Id<()>) -> Option<&ForumTag> {
        self.available_tags.iter().find(|tag| tag.id == id)
    }
}
