//! Emoji, custom and unicode.
//!
//! Spec  docs/protocol/reference.md §6.7.

use crate::{
    id::{EmojiId, RoleId},
    user::User,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A custom emoji of a guild.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emoji {
    pub id: EmojiId,
    /// Without colons.
    pub name: String,
    /// Is an animation.
    #[serde(default)]
    pub animated: bool,
    /// Roles that may use the emoji; empty for everyone. Sent to clients, not enforced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<RoleId>,
    /// Account that uploaded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<User>>,
}

/// Emoji of a reaction: a unicode emoji (`id` none) or a custom one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReactionEmoji {
    /// Id of a custom emoji; none for unicode.
    pub id: Option<EmojiId>,
    /// The unicode emoji itself, or the custom emoji's name.
    pub name: String,
}

impl ReactionEmoji {
    /// Longest unicode emoji or custom name accepted, in bytes: sequences with modifiers stay well below.
    pub const NAME_BYTES_MAX: usize = 64;

    /// Reads the form used in REST paths (already percent-decoded): a unicode emoji, or `name:id`
    /// (also `a:name:id` and `:name:id`). None when it is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > Self::NAME_BYTES_MAX + 24 {
            return None;
        }
        let Some((name, id)) = text.rsplit_once(':') else {
            return is_unicode_emoji(text).then(|| Self { id: None, name: text.to_owned() });
        };
        let name = name.rsplit_once(':').map_or(name, |(_, name)| name);
        let valid =
            !name.is_empty() && name.len() <= 32 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if valid { id.parse().ok().map(|id| Self { id: Some(id), name: name.to_owned() }) } else { None }
    }
}

/// Whether the text is one emoji of Unicode's list (with a skin tone or as a sequence, too), or the letter of a flag.
/// U+FE0F may be missing, or be behind any character.
#[must_use]
pub fn is_unicode_emoji(text: &str) -> bool {
    const EMOJI_PRESENTATION: char = '\u{fe0f}';
    const KEYCAP: char = '\u{20e3}';
    if text.len() > ReactionEmoji::NAME_BYTES_MAX {
        return false;
    }
    // The list has digits followed by U+FE0F, which are parts of keycaps.
    if text.starts_with(|c: char| c.is_ascii()) && !text.ends_with(KEYCAP) {
        return false;
    }
    let mut chars = text.chars();
    let is_component = matches!(chars.next(), Some('🏻'..='🏿' | '🇦'..='🇿')) && chars.next().is_none();
    if is_component || emojis::get(text).is_some() {
        return true;
    }
    let is_misplaced = text.starts_with(EMOJI_PRESENTATION) || text.contains("\u{fe0f}\u{fe0f}");
    !is_misplaced && text.contains(EMOJI_PRESENTATION) && emojis::get(&text.replace(EMOJI_PRESENTATION, "")).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_forms() {
        let check = |text: &str, expected: Option<(Option<u64>, &str)>| {
            let got = ReactionEmoji::parse(text);
            assert_eq!(got.as_ref().map(|e| (e.id.map(crate::Id::get), e.name.as_str())), expected, "{text}");
        };
        check("🔥", Some((None, "🔥")));
        check("party:123", Some((Some(123), "party")));
        check("a:party:123", Some((Some(123), "party")));
        check("", None);
        check("party:", None);
        check(":123", None);
        check("fire", None);
        check("par ty:1", None);
        check("\u{7}", None);
        check("1", None);
    }

    #[test]
    fn unicode_emoji() {
        for emoji in [
            "👍",
            "❤️",
            "❤",
            "1️⃣",
            "1⃣",
            "#️⃣",
            "👍🏽",
            "🇩🇪",
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
            "👨‍👩‍👧‍👦",
            "🏳️‍🌈",
            "🏳‍🌈",
            "👁️‍🗨️",
            "👁‍🗨️",
            "🧑🏻‍❤️‍💋‍🧑🏿",
            "©",
            "™️",
            "👍\u{fe0f}",
            "👍🏽\u{fe0f}",
            "🇦",
            "🏽",
            "🫩",
            "♂️",
            "☺",
        ] {
            assert!(is_unicode_emoji(emoji), "{emoji:?}");
        }
        for text in [
            "",
            "a",
            "abc",
            "1",
            "#",
            "%",
            "!",
            "1\u{fe0f}",
            "👍👍",
            " 👍",
            "👍 ",
            "\u{200d}",
            "\u{fe0f}",
            "日本",
            "é",
            "a b",
            "👍\u{200d}",
            "👍\u{fe0f}\u{fe0f}",
            "\u{fe0f}👍",
            "❤\u{fe0e}",
            "🇩🇩🇩",
            "👍🏽🏽",
            "12\u{fe0f}\u{20e3}",
            "\u{20e3}",
            "→→",
            "α",
            ":)",
            "👍\n",
            "🇩🇪🇫🇷",
        ] {
            assert!(!is_unicode_emoji(text), "{text:?}");
        }
        let longest = "👩🏻‍❤️‍💋‍👨🏻";
        assert!(longest.len() < ReactionEmoji::NAME_BYTES_MAX && is_unicode_emoji(longest));
    }
}
