//! Generated conversations of the demo's members, used without a file of real ones.
//!
//! Owns        `Thread`, one conversation of a channel: its topic, its last line, and its end.
//! Invariants  T1 a line is 1–2000 characters. T2 the same randomness gives the same lines.
//! Not here    speakers and channels: `script`.

mod phrases;
mod script;
mod topics;

pub(super) use script::{SCRIPT_RATE_MAX, Script};

use super::names::one_of;
use guildhall_stdx::Rng;
use phrases::{Language, Move, PHRASES};
use topics::{TOPICS, Topic};

/// Writing style of a member, the same for all their messages.
#[derive(Clone, Debug)]
pub(super) struct Voice {
    lower_case: bool,
    emoji: f64,
    typos: f64,
    language: Option<&'static Language>,
}

impl Voice {
    /// The voice that goes with a number, such as an account's id.
    pub fn of(number: u64) -> Self {
        let mut rng = Rng::new(number);
        Self {
            lower_case: rng.chance(0.4),
            emoji: *rng.pick(&[0.02, 0.1, 0.1, 0.35]).unwrap_or(&0.1),
            typos: *rng.pick(&[0.0, 0.0, 0.03, 0.1]).unwrap_or(&0.0),
            language: if rng.chance(0.2) { rng.pick(&PHRASES.languages) } else { None },
        }
    }
}

/// A conversation. It goes from an opening over questions and answers to an end, where a new one begins.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    topic: &'static Topic,
    /// The recurring subject.
    thing: &'static str,
    name: &'static str,
    last: Move,
    lines_left: u64,
}

impl Thread {
    /// A conversation in a channel with this name: mostly about what the channel is for.
    pub fn new(rng: &mut Rng, channel: &str) -> Self {
        let own = topics::of_channel(channel).filter(|_| rng.chance(0.7));
        let topic = own.or_else(|| rng.pick(&TOPICS)).unwrap_or(&TOPICS[0]);
        let (thing, name) = (one_of(rng, &topic.things), one_of(rng, &topic.names));
        Self { topic, thing, name, last: Move::Close, lines_left: 5 + rng.below(25) }
    }

    /// Whether the conversation has ended.
    pub fn is_over(&self) -> bool {
        self.lines_left == 0
    }

    /// The next line, in this style.
    pub fn line(&mut self, rng: &mut Rng, voice: &Voice) -> String {
        let step = self.next_move(rng);
        self.last = step;
        self.lines_left = self.lines_left.saturating_sub(1);
        let foreign = voice.language.filter(|_| rng.chance(0.5));
        let phrases = foreign.map_or_else(|| step.phrases(), |language| language.phrases(step));
        let mut text = self.fill(rng, phrases);
        // A second sentence.
        if foreign.is_none() && matches!(step, Move::Tell | Move::Answer | Move::Open) && rng.chance(0.3) {
            let stop = if text.ends_with(['.', '!', '?', '`', '\n']) { "" } else { "." };
            text = format!("{text}{stop} {}", self.fill(rng, Move::Tell.phrases()));
        }
        if foreign.is_none() {
            text = self.dress(rng, step, text);
            text = style(rng, voice, text);
        }
        if rng.chance(voice.emoji) {
            text = format!("{text} {}", one_of(rng, &self.topic.emoji));
        }
        text
    }

    /// Adds a filler phrase before or after the text.
    fn dress(&self, rng: &mut Rng, step: Move, text: String) -> String {
        let spoken = !matches!(step, Move::Open | Move::React | Move::Close)
            && !text.starts_with(['>', '*', '`'])
            && !text.contains('\n');
        if !spoken {
            return text;
        }
        let before = if rng.chance(0.3) { self.fill(rng, &PHRASES.before) + " " } else { String::new() };
        let open_end = !text.ends_with(['.', '!', '?', '`', '|', '*']) && !text.contains("://");
        let after =
            if open_end && rng.chance(0.3) { " ".to_owned() + &self.fill(rng, &PHRASES.after) } else { String::new() };
        before + &text + &after
    }

    fn next_move(&self, rng: &mut Rng) -> Move {
        let follow_ups: &[Move] = match self.last {
            Move::Close => &[Move::Open, Move::Open, Move::Ask],
            Move::Open => &[Move::Ask, Move::Agree, Move::Doubt, Move::React, Move::Tell],
            Move::Ask => &[Move::Answer, Move::Answer, Move::Answer, Move::Ask, Move::React],
            Move::Answer => &[Move::Agree, Move::Tell, Move::Ask, Move::Doubt, Move::React],
            Move::Tell => &[Move::Tell, Move::Ask, Move::Agree, Move::Doubt, Move::React],
            Move::Agree | Move::React => &[Move::Tell, Move::Ask, Move::Tell, Move::React],
            Move::Doubt => &[Move::Tell, Move::Answer, Move::Agree, Move::React],
        };
        if self.lines_left == 1 { Move::Close } else { *rng.pick(follow_ups).unwrap_or(&Move::Tell) }
    }

    /// One of the phrases with its slots filled. The subject of the conversation comes up more often than others.
    fn fill(&self, rng: &mut Rng, phrases: &[String]) -> String {
        let phrase = one_of(rng, phrases);
        let mut text = String::with_capacity(phrase.len() * 2);
        let mut rest = phrase;
        while let Some((before, slot, after)) = next_slot(rest) {
            text.push_str(before);
            let word = match slot {
                "thing" if rng.chance(0.6) => self.thing,
                "thing" => one_of(rng, &self.topic.things),
                "name" if rng.chance(0.6) => self.name,
                "name" => one_of(rng, &self.topic.names),
                "action" => one_of(rng, &self.topic.actions),
                "good" => one_of(rng, &self.topic.good),
                "bad" => one_of(rng, &self.topic.bad),
                "tip" => one_of(rng, &self.topic.tips),
                "past" => one_of(rng, &PHRASES.past),
                "soon" => one_of(rng, &PHRASES.soon),
                "who" => one_of(rng, &PHRASES.who),
                "n" => &(2 + rng.below(40)).to_string(),
                other => other,
            };
            text.push_str(word);
            rest = after;
        }
        text + rest
    }
}

/// Text before the first `{slot}`, the slot's name, the text behind it.
fn next_slot(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (slot, after) = rest.split_once('}')?;
    Some((before, slot, after))
}

/// Writes it the way this person does. Code and links stay as they are.
fn style(rng: &mut Rng, voice: &Voice, text: String) -> String {
    if text.contains('`') || text.contains("://") {
        return text;
    }
    let mut text = text;
    if voice.lower_case {
        text = text.to_lowercase();
    } else if let Some(first) = text.chars().next().filter(|c| c.is_lowercase() && rng.chance(0.7)) {
        text = first.to_uppercase().collect::<String>() + &text[first.len_utf8()..];
    }
    if rng.chance(voice.typos) && text.len() > 12 && text.is_ascii() {
        // Two neighbouring letters change places, as they do when typing fast.
        let at = 1 + rng.below(text.len() as u64 - 3) as usize;
        let mut bytes = text.clone().into_bytes();
        if bytes[at].is_ascii_lowercase() && bytes[at + 1].is_ascii_lowercase() {
            bytes.swap(at, at + 1);
        }
        text = String::from_utf8(bytes).unwrap_or(text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn lines(seed: u64, count: usize) -> Vec<String> {
        let mut rng = Rng::new(seed);
        let voices: Vec<Voice> = (0..100).map(Voice::of).collect();
        let mut thread = Thread::new(&mut rng, "general");
        (0..count)
            .map(|_| {
                if thread.is_over() {
                    thread = Thread::new(&mut rng, "games");
                }
                let voice = rng.pick(&voices).cloned().unwrap();
                thread.line(&mut rng, &voice)
            })
            .collect()
    }

    #[test]
    fn t1_lines_can_be_sent() {
        for line in lines(3, 20_000) {
            assert!((1..=2000).contains(&line.chars().count()), "{line:?}");
            assert!(!line.trim().is_empty() && !line.contains(['{', '}']) || line.contains('`'), "{line:?}");
        }
    }

    #[test]
    fn t2_same_seed_same_lines() {
        assert_eq!(lines(11, 500), lines(11, 500));
        assert_ne!(lines(11, 50), lines(12, 50));
    }

    #[test]
    fn talk_is_varied() {
        let lines = lines(1, 10_000);
        let distinct: HashSet<&String> = lines.iter().collect();
        assert!(distinct.len() > 6500, "only {} of 10,000 lines differ", distinct.len());
        let most_common = distinct.iter().map(|line| lines.iter().filter(|l| l == line).count()).max().unwrap();
        assert!(most_common < 300, "one line {most_common} times");
        let mean = lines.iter().map(String::len).sum::<usize>() / lines.len();
        assert!((30..100).contains(&mean), "mean length {mean}");
        let foreign =
            lines.iter().filter(|l| l.chars().filter(|c| c.is_alphabetic() && !c.is_ascii()).count() > 2).count();
        assert!((200..2500).contains(&foreign), "{foreign} lines in other alphabets");
        assert!(lines.iter().any(|l| l.contains("```")) && lines.iter().any(|l| l.contains('\n')));
    }

    #[test]
    fn every_slot_has_words() {
        let moves =
            [Move::Open, Move::Ask, Move::Answer, Move::Tell, Move::Agree, Move::Doubt, Move::React, Move::Close];
        let known = ["name", "thing", "action", "good", "bad", "tip", "past", "soon", "who", "n"];
        let foreign = PHRASES.languages.iter().flat_map(|l| moves.map(|m| l.phrases(m))).flatten();
        assert!(moves.iter().all(|step| step.phrases().len() >= 5));
        for phrase in moves.iter().flat_map(|m| m.phrases()).chain(foreign) {
            let mut rest = phrase.as_str();
            while let Some((_, slot, after)) = next_slot(rest) {
                assert!(known.contains(&slot), "{slot} in {phrase:?}");
                rest = after;
            }
            assert!(!rest.contains('{'), "{phrase:?}");
        }
        for topic in TOPICS.iter() {
            let Topic { names, things, actions, good, bad, tips, emoji, .. } = topic;
            for words in [names, things, actions, good, bad, tips, emoji] {
                assert!(words.len() >= 5, "{}", topic.channel);
            }
        }
    }
}
