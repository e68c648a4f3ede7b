//! Script: conversations that were written by hand, for the channels of the demo.
//!
//! Owns        the format of `script.txt`: `# channel` begins a conversation, `a: text` is a turn of speaker `a`, any
//!             other line continues the turn before it.
//! Invariants  K1 every conversation has a channel of the plan, two speakers or more, and turns that can be sent. (test
//!             `k1_*`)

use crate::chat::Turn;
use std::collections::HashMap;

const TEXT: &str = include_str!("script.txt");
/// Above this rate a channel would repeat itself within minutes: then talk is invented.
pub(crate) const SCRIPT_RATE_MAX: f64 = 2.0;

/// Conversations by channel, each list from its next one on.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    channels: HashMap<&'static str, Channel>,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    conversations: Vec<Vec<Turn>>,
    next: usize,
}

impl Script {
    pub(crate) fn new() -> Self {
        let mut channels: HashMap<&'static str, Channel> = HashMap::new();
        let mut channel = "";
        for line in TEXT.lines() {
            if let Some(name) = line.strip_prefix("# ") {
                channel = name;
                channels.entry(channel).or_default().conversations.push(Vec::new());
                continue;
            }
            let Some(turns) = channels.get_mut(channel).and_then(|channel| channel.conversations.last_mut()) else {
                continue;
            };
            match line.split_once(": ") {
                Some((speaker, text)) if speaker.len() == 1 => {
                    turns.push(Turn { speaker: speaker.to_owned(), text: text.to_owned() });
                }
                _ => {
                    if let Some(turn) = turns.last_mut() {
                        turn.text = format!("{}\n{line}", turn.text).trim_end().to_owned();
                    }
                }
            }
        }
        Self { channels }
    }

    /// The channel's next conversation; after the last comes the first. None: there are none for it.
    pub(crate) fn next_conversation(&mut self, channel: &str) -> Option<Vec<Turn>> {
        let channel = self.channels.get_mut(channel)?;
        let conversation = channel.conversations.get(channel.next % channel.conversations.len().max(1))?;
        channel.next += 1;
        Some(conversation.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn k1_conversations_can_be_held() {
        let script = Script::new();
        let names: HashSet<&str> = script.channels.keys().copied().collect();
        let first = ["general", "random", "help", "games", "music", "cooking", "code"];
        let second = ["yard", "repairs", "garden"];
        assert_eq!(names, first.into_iter().chain(second).collect());
        for (name, channel) in &script.channels {
            assert!(channel.conversations.len() >= 3, "{name}");
            for turns in &channel.conversations {
                let speakers: HashSet<&str> = turns.iter().map(|turn| turn.speaker.as_str()).collect();
                assert!(turns.len() >= 5 && speakers.len() >= 2, "{name}: {turns:?}");
                assert!(turns.iter().all(|turn| (1..=2000).contains(&turn.text.chars().count())), "{name}");
            }
        }
    }

    #[test]
    fn after_the_last_comes_the_first() {
        let mut script = Script::new();
        let first = script.next_conversation("music").unwrap();
        let round = (1..10).find(|_| script.next_conversation("music").unwrap()[0] == first[0]);
        assert!(round.is_some());
        assert!(script.next_conversation("staff").is_none());
    }

    #[test]
    fn a_turn_may_have_several_lines() {
        let mut script = Script::new();
        let turns = script.channels.remove("help").unwrap().conversations.concat();
        assert!(turns.iter().any(|turn| turn.text.ends_with("```\nconsole.log(\"hello\");\n```")));
    }
}
