//! Subjects: names of channels on the bus.

use std::{fmt, sync::Arc};

/// Longest subject.
pub const SUBJECT_BYTES_MAX: usize = 128;

/// Whether a text is words of letters, digits, `-` and `_`, separated by dots.
pub(crate) fn is_name(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    text.len() <= SUBJECT_BYTES_MAX && text.split('.').all(is_word)
}

/// Name of a channel on the bus: words of letters, digits, `-` and `_`, separated by dots. No wildcards.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(Arc<str>);

impl Subject {
    /// None if it is not one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        is_name(text).then(|| Self(text.into()))
    }

    /// The subject as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects() {
        for good in ["guild", "guild.events.42", "a-b_c.D"] {
            assert_eq!(Subject::new(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a.*", "a.>", "a b", "ä", &"a".repeat(129)] {
            assert_eq!(Subject::new(bad), None, "{bad}");
        }
    }
}
