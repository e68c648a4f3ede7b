//! Phrases: sentences with slots, by what they do in a conversation.
//!
//! Owns        the format of `phrases.json`. Slots: `{name}` `{thing}` `{action}` `{good}` `{bad}` `{tip}` from the
//!             topic; `{past}` `{soon}` `{who}` `{n}` from here.

use serde::Deserialize;
use std::{collections::BTreeMap, sync::LazyLock};

pub(super) static PHRASES: LazyLock<Phrases> =
    LazyLock::new(|| serde_json::from_str(include_str!("phrases.json")).expect("phrases.json is valid"));

/// See the module.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Phrases {
    /// English sentences.
    moves: BTreeMap<Move, Vec<String>>,
    pub past: Vec<String>,
    pub soon: Vec<String>,
    pub who: Vec<String>,
    /// What people put in front of a sentence, and behind it.
    pub before: Vec<String>,
    pub after: Vec<String>,
    /// Other languages that some people write in.
    pub languages: Vec<Language>,
}

/// Function of a line in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Move {
    /// Starts a conversation.
    Open,
    /// Asks a question.
    Ask,
    /// Answers a question.
    Answer,
    /// Adds something.
    Tell,
    /// Agrees with the last line.
    Agree,
    /// Disagrees with the last line.
    Doubt,
    /// Laughs, or just makes a sound.
    React,
    /// Ends the conversation.
    Close,
}

impl Move {
    /// English sentences for it.
    pub fn phrases(self) -> &'static [String] {
        PHRASES.moves.get(&self).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Another language some people write in: whole sentences per move, with `{name}` as the only slot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Language {
    ask: Vec<String>,
    tell: Vec<String>,
    react: Vec<String>,
}

impl Language {
    /// Sentences for `step`, or for a similar step if it has none.
    pub fn phrases(&self, step: Move) -> &[String] {
        match step {
            Move::Open | Move::Ask => &self.ask,
            Move::Answer | Move::Tell | Move::Doubt | Move::Close => &self.tell,
            Move::Agree | Move::React => &self.react,
        }
    }
}
