//! Chat: message texts, from a file given at run time, or generated from a few phrases.
//!
//! Invariants  H1 line `n` is the same each time. H2 a line has 1 to 2,000 characters.
//! Limits      the generated chat has some millions of lines, but all from the same phrases: a compressor with a long
//!             look-back does far better on it than on real messages. Use a file for figures that are published.

use guildhall_stdx::Rng;
use serde::Deserialize;
use std::borrow::Cow;

/// The server refuses longer messages.
const LINE_CHARS_MAX: usize = 2000;

/// Lines of text; consecutive lines belong to one conversation.
#[derive(Clone, Debug, Default)]
pub struct Chat {
    /// Empty: generated.
    lines: Vec<String>,
}

/// The file is not a chat.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The file has no line.
    #[error("the chat has no lines: expected one message a line, as text or as JSON with a \"text\"")]
    Empty,
    /// A line starts like JSON, but is malformed or has no `text`.
    #[error("line {line} of the chat is no JSON object with a \"text\"")]
    Line {
        /// Line number, from 1.
        line: usize,
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct Line {
    text: String,
}

impl Chat {
    /// Generated from built-in phrases.
    #[must_use]
    pub fn built_in() -> Self {
        Self::default()
    }

    /// Parses a file: one message per line, in order, as plain text or as JSON objects with a `text`. Skips empty lines
    /// and truncates long ones.
    ///
    /// # Errors
    /// When there is no line, or a line starts with a brace and is not such an object.
    pub fn parse(file: &str) -> Result<Self, ChatError> {
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(file.lines()) {
            let text = if line.starts_with('{') {
                let parsed = serde_json::from_str::<Line>(line);
                Cow::Owned(parsed.map_err(|source| ChatError::Line { line: number, source })?.text)
            } else {
                Cow::Borrowed(line)
            };
            let text = text.trim();
            if !text.is_empty() {
                lines.push(text.chars().take(LINE_CHARS_MAX).collect());
            }
        }
        if lines.is_empty() { Err(ChatError::Empty) } else { Ok(Self { lines }) }
    }

    /// Splits the lines of a file in the middle, into training and test data with nothing in common. Both halves of a
    /// generated chat are equal.
    #[must_use]
    pub fn halves(self) -> [Self; 2] {
        let mut first = self;
        if first.lines.len() < 2 {
            return [first.clone(), first];
        }
        let second = Self { lines: first.lines.split_off(first.lines.len() / 2) };
        [first, second]
    }

    /// Is generated.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        self.lines.is_empty()
    }

    /// Line `n`, modulo the number of lines of a file.
    #[must_use]
    pub fn line(&self, n: usize) -> Cow<'_, str> {
        match self.lines.len() {
            0 => Cow::Owned(made_up(n)),
            count => Cow::Borrowed(&self.lines[n % count]),
        }
    }
}

const OPEN: [&str; 28] = [
    "",
    "",
    "",
    "",
    "honestly ",
    "ok so ",
    "wait, ",
    "hm, ",
    "I think ",
    "I'm pretty sure ",
    "not gonna lie, ",
    "fwiw ",
    "yeah but ",
    "maybe ",
    "last time I looked ",
    "as far as I know ",
    "to be fair, ",
    "right, ",
    "no, ",
    "sorry, ",
    "good question, ",
    "in my case ",
    "according to the docs ",
    "my brother says ",
    "it turns out ",
    "apparently ",
    "speaking of which, ",
    "just so you know, ",
];
const WHO: [&str; 26] = [
    "the new build",
    "that server",
    "the second chapter",
    "our goalkeeper",
    "the soup place",
    "this patch",
    "the old map",
    "her last album",
    "the train to the coast",
    "my keyboard",
    "the boss in the third area",
    "the trailer",
    "our landlord",
    "that recipe",
    "the update from Tuesday",
    "the ranked queue",
    "the tournament",
    "the voice channel",
    "this bug",
    "the museum",
    "the whole discussion",
    "the weather",
    "the script I wrote",
    "that documentary",
    "the bakery",
    "the cat",
];
const DOES: [&str; 26] = [
    "takes forever to load",
    "was better than I expected",
    "broke again this morning",
    "is still on my list",
    "needs more than one try",
    "closes at eight on weekdays",
    "got postponed until next month",
    "deserves more attention",
    "makes no sense without the first part",
    "only works after a restart",
    "is cheaper if you book early",
    "sounded different last year",
    "keeps losing its settings",
    "is the reason I stayed up so late",
    "has been like that since the start",
    "will be on again tonight",
    "could use a few more people",
    "is exactly what we were looking for",
    "seems fine to me now",
    "costs twice as much as before",
    "fell asleep on my notes",
    "was never meant to be used that way",
    "starts around half past nine",
    "looks great on the small screen",
    "is not worth the wait",
    "needs a second look from somebody who knows",
];
const END: [&str; 28] = [
    "",
    "",
    "",
    "",
    "",
    ".",
    ".",
    "!",
    "?",
    " lol",
    " haha",
    ", what do you think?",
    ", can anybody confirm?",
    ", but I may be wrong",
    " and nobody told me",
    ", so I went home",
    " because of the holidays",
    ". Has anyone tried it with the other version?",
    ". I'll write it down for later.",
    ", at least on my machine",
    ". Let me know when you are there",
    " if you ask me",
    ". We can talk about it tomorrow",
    ", thanks for asking",
    ". That's what I heard, anyway",
    ", which is a pity",
    " for once",
    ". Who's in?",
];
const SHORT: [&str; 22] = [
    "lol",
    "yes",
    "no",
    "same",
    "thanks!",
    "what",
    "good morning",
    "brb",
    "ok",
    "nice",
    "true",
    "I agree",
    "gg",
    "hello?",
    "haha yes",
    "no idea",
    "on my way",
    "sounds good",
    "wait what",
    "oh",
    "good night everyone",
    "sure, why not",
];

/// A line of phrases: one in five is short, one in six has two sentences.
fn made_up(n: usize) -> String {
    let mut rng = Rng::new(n as u64 ^ 0x7461_6c6b);
    if rng.chance(0.2) {
        return pick(&mut rng, &SHORT).to_owned();
    }
    let mut line = sentence(&mut rng);
    if rng.chance(0.17) {
        line += ". ";
        line += &sentence(&mut rng);
    }
    line += pick(&mut rng, &END);
    line
}

fn sentence(rng: &mut Rng) -> String {
    let number = match rng.below(8) {
        0 => format!(" ({})", rng.below(200)),
        _ => String::new(),
    };
    [pick(rng, &OPEN), pick(rng, &WHO), " ", pick(rng, &DOES), &number].concat()
}

fn pick(rng: &mut Rng, phrases: &[&'static str]) -> &'static str {
    rng.pick(phrases).copied().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_both_kinds() {
        let chat = Chat::parse("hello\n\n{\"text\":\"wörld\",\"turn\":1}\n  \n").unwrap();
        assert_eq!([0, 1, 2].map(|n| chat.line(n).into_owned()), ["hello", "wörld", "hello"]);
        assert!(matches!(Chat::parse(" \n\n"), Err(ChatError::Empty)));
        assert!(matches!(Chat::parse("a\n{\"turn\":1}"), Err(ChatError::Line { line: 2, .. })));
        let long = "é".repeat(5000);
        assert_eq!(Chat::parse(&long).unwrap().line(7).chars().count(), LINE_CHARS_MAX);
    }

    #[test]
    fn made_up_lines_differ_and_are_never_empty() {
        let chat = Chat::built_in();
        let lines: Vec<_> = (0..2000).map(|n| chat.line(n)).collect();
        assert!(lines.iter().all(|line| !line.is_empty()));
        let different: std::collections::HashSet<_> = lines.iter().collect();
        assert!(different.len() > 1500, "{}", different.len());
        assert_eq!(lines[77], chat.line(77));
    }
}
