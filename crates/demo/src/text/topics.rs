//! Topics of the demo's conversations. Words only; the sentences are in `phrases`.
//!
//! Owns        the format of `topics.json`: `names` are understood in any language, the others fit into English
//!             sentences.

use serde::Deserialize;
use std::sync::LazyLock;

pub(super) static TOPICS: LazyLock<Vec<Topic>> =
    LazyLock::new(|| serde_json::from_str(include_str!("topics.json")).expect("topics.json is valid"));

/// Words of a topic.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topic {
    /// Channels named like this stay on it.
    pub channel: String,
    /// Proper names and words that every language takes as they are.
    pub names: Vec<String>,
    /// Noun phrases: "I tried … yesterday".
    pub things: Vec<String>,
    /// Verb phrases: "anyone up to …".
    pub actions: Vec<String>,
    /// Adjectives of praise.
    pub good: Vec<String>,
    /// Adjectives of complaint.
    pub bad: Vec<String>,
    /// Whole sentences of advice.
    pub tips: Vec<String>,
    /// Fitting emoji.
    pub emoji: Vec<String>,
}

/// The topic of a channel with this name.
pub(super) fn of_channel(name: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.channel == name)
}
