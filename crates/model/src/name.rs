//! Names: cleaning of the text that a client sends as a name.
//!
//! Owns        which characters are invisible, and which are removed at the ends; the words that accounts and webhooks
//!             cannot have in their names.
//! Invariants  N1 cleaning is idempotent. N2 a name that is not blank is not empty after cleaning.
//!             (tests `n1_*`, `n2_*`)
//! Not here    lengths: the forms.     Spec  docs/protocol/choices.md "Names".

/// The text without white space and zero-width characters at both ends; empty if it is blank.
#[must_use]
pub fn without_blank_ends(text: &str) -> &str {
    if is_blank(text) { "" } else { text.trim_matches(is_removed_at_ends) }
}

/// The name without white space and zero-width characters at both ends, and on one line: each line break and tab inside
/// becomes a space, other control characters go.
#[must_use]
pub fn cleaned(name: &str) -> String {
    let on_one_line = |c: char| match c {
        '\t'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some(' '),
        c if c.is_control() => None,
        c => Some(c),
    };
    name.trim_matches(is_removed_at_ends).chars().filter_map(on_one_line).collect()
}

/// As `cleaned`, for accounts and members: white space inside also becomes one space.
#[must_use]
pub fn cleaned_of_person(name: &str) -> String {
    cleaned(name).split(char::is_whitespace).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Whether nothing of the text is visible.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.chars().all(is_invisible)
}

/// White space and what has neither width nor effect at an end. Joiners, variation selectors and tags are not among
/// it: they belong to the character before them.
fn is_removed_at_ends(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

/// White space, the characters that Unicode defines as ignorable by default, and the blank Braille pattern.
fn is_invisible(c: char) -> bool {
    is_removed_at_ends(c)
        || matches!(
            c,
            '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}'
        )
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200c}' | '\u{200d}' | '\u{2800}' | '\u{fe00}'..='\u{fe0f}')
        || matches!(c, '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}')
        || matches!(c, '\u{e0000}'..='\u{e0fff}')
}

/// The reserved word that a user name contains or equals, as upstream documents them. `None`: the name may be used.
#[must_use]
pub fn reserved_in_username(name: &str) -> Option<&'static str> {
    let lower = visible(name);
    let is_whole = |word: &&&str| lower == **word;
    contained(&lower, &["@", "#", ":", "```", "discord"]).or(["everyone", "here"].iter().find(is_whole).copied())
}

/// The same of a webhook's name.
#[must_use]
pub fn reserved_in_webhook(name: &str) -> Option<&'static str> {
    contained(&visible(name), &["clyde", "discord"])
}

/// What readers see of a name, in lower case.
fn visible(name: &str) -> String {
    let is_seen = |c: &char| c.is_whitespace() || !is_invisible(*c);
    name.chars().filter(is_seen).collect::<String>().to_lowercase()
}

fn contained(lower: &str, words: &[&'static str]) -> Option<&'static str> {
    words.iter().find(|word| lower.contains(**word)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ends_are_trimmed_and_lines_joined() {
        let check = |name: &str, expected: &str| assert_eq!(cleaned(name), expected, "{name:?}");
        check("  a  ", "a");
        check("\u{3000}\u{200b}a b\u{a0}\n\u{feff}", "a b");
        check("\u{2066}a\u{2069}", "a");
        check(" \u{2060} ", "");
        check("a\nb\tc\r\nd\u{2028}e\u{85}f", "a b c  d e f");
        check("a\0b\u{1b}[1m\u{7f}c\u{9b}d", "ab[1mcd");
        // These belong to what is before them.
        check("❤\u{fe0f}", "❤\u{fe0f}");
        check(
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f} ",
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
        );
        assert_eq!(cleaned_of_person(" a \t\u{a0} b\0c\u{200b} "), "a bc");
    }

    #[test]
    fn blank_names() {
        for blank in [
            "",
            " ",
            "\u{a0}\u{2003}",
            "\u{200b}",
            "\u{200d}",
            "\u{3164}",
            "\u{2800}\u{2800}",
            "\u{fe0f}",
            "\u{e0020}",
            "\u{115f} \u{ad}",
        ] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for visible in ["a", ".", " a ", "\u{200b}a", "\u{301}", "👍", "ㅤㅇ"] {
            assert!(!is_blank(visible), "{visible:?}");
        }
    }

    #[test]
    fn reserved_words() {
        let check = |name: &str, expected: Option<&str>| assert_eq!(reserved_in_username(name), expected, "{name}");
        check("olga", None);
        check("here and there", None);
        check("Everyone", Some("everyone"));
        check("HERE", Some("here"));
        check("a@b", Some("@"));
        check("a#1234", Some("#"));
        check("a:b", Some(":"));
        check("a```b", Some("```"));
        check("a``b", None);
        check("dis\u{200b}cord", Some("discord"));
        check("every\u{2060}one", Some("everyone"));
        check("dis cord", None);
        check("The DisCord", Some("discord"));
        check("clyde", None);
        assert_eq!(reserved_in_webhook("CLYDE 2"), Some("clyde"));
        assert_eq!(reserved_in_webhook("discord.py"), Some("discord"));
        assert_eq!(reserved_in_webhook("@everyone: #x"), None);
    }

    proptest! {
        #[test]
        fn n1_cleaning_is_idempotent(name in "[ a\u{200b}\u{2060}\u{a0}\u{fe0f}\n\u{0}\u{2028}]{0,12}") {
            let channel = cleaned(&name);
            prop_assert_eq!(cleaned(&channel), channel);
            let person = cleaned_of_person(&name);
            prop_assert_eq!(cleaned_of_person(&person), person);
        }

        #[test]
        fn n2_what_is_visible_stays(name in "(\\PC|[\n\u{0}\u{2029}]){0,12}") {
            prop_assert!(is_blank(&name) || !is_blank(&cleaned(&name)));
            prop_assert!(is_blank(&name) || !is_blank(&cleaned_of_person(&name)));
        }
    }
}
