//! Scenes: the next line and its speaker in a channel.
//!
//! Owns        `Scene`: one channel with its permitted speakers, their conversation, and recent messages.
//! Invariants  C1 only members with the permission write. C2 a recorded conversation stays in one channel, in its
//!             order, and each of its speakers is one person. (tests `c*_*`)
//! Limits      `RECENT_MAX` messages are remembered per channel.
//! Not here    when, and the sending: `talk`.

use super::{
    chat::{ChatFile, Turn},
    text::{Script, Thread, Voice},
};
use guildhall_model::{ChannelId, MessageId, UserId};
use guildhall_stdx::Rng;
use std::{
    collections::{HashMap, VecDeque},
    vec,
};

/// What replies and reactions can be about.
const RECENT_MAX: usize = 16;

/// Sources of texts.
#[derive(Default)]
pub(super) struct Words {
    /// Recorded conversations.
    pub chat: Option<ChatFile>,
    /// Conversations for channels, if there are no recorded ones; talk of other channels is invented.
    pub script: Option<Script>,
}

/// A line to post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub author: UserId,
    pub text: String,
    /// Whether the line belongs to a written or recorded conversation, so that it answers the line before it.
    pub is_recorded: bool,
}

/// A posted message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Posted {
    pub message_id: MessageId,
    pub author: UserId,
}

enum Dialogue {
    Invented { thread: Thread, people: Vec<UserId>, last: Option<UserId> },
    Recorded { turns: vec::IntoIter<Turn>, cast: HashMap<String, UserId> },
}

/// State of one channel.
pub(super) struct Scene {
    pub channel_id: ChannelId,
    /// How lively it is, compared with the others.
    pub weight: f64,
    /// A member types, and the others wait.
    pub is_busy: bool,
    name: String,
    speakers: Vec<UserId>,
    dialogue: Option<Dialogue>,
    recent: VecDeque<Posted>,
}

impl Scene {
    /// A channel without messages.
    pub fn new(channel_id: ChannelId, name: &str, weight: f64, speakers: Vec<UserId>) -> Self {
        Self {
            channel_id,
            weight,
            is_busy: false,
            name: name.to_owned(),
            speakers,
            dialogue: None,
            recent: VecDeque::new(),
        }
    }

    /// Continues from `before`, with those of its members who may still post.
    pub fn continue_from(&mut self, before: Self) {
        self.recent = before.recent;
        self.is_busy = before.is_busy;
        let may_speak = |user: &UserId| self.speakers.contains(user);
        self.dialogue = before.dialogue.filter(|dialogue| match dialogue {
            Dialogue::Invented { people, .. } => people.iter().all(may_speak),
            Dialogue::Recorded { cast, .. } => cast.values().all(may_speak),
        });
    }

    /// The next line; none if no member may write here.
    pub fn next_line(&mut self, rng: &mut Rng, words: &mut Words) -> Option<Line> {
        if self.speakers.is_empty() {
            return None;
        }
        // A new dialogue has a line: the second round always succeeds.
        for _ in 0..2 {
            let mut dialogue = match self.dialogue.take() {
                Some(dialogue) => dialogue,
                None => self.new_dialogue(rng, words),
            };
            let line = self.line_of(rng, &mut dialogue);
            if line.is_some() {
                self.dialogue = Some(dialogue);
                return line;
            }
        }
        None
    }

    fn new_dialogue(&self, rng: &mut Rng, words: &mut Words) -> Dialogue {
        if let Some(chat) = &mut words.chat {
            match chat.next_conversation() {
                Ok(conversation) => {
                    return Dialogue::Recorded { turns: conversation.turns.into_iter(), cast: HashMap::new() };
                }
                Err(error) => {
                    // It was valid at the start, so it has changed since.
                    tracing::warn!(error = %error, "the chat file is no longer usable: messages are invented from here on");
                    words.chat = None;
                }
            }
        }
        if let Some(turns) = words.script.as_mut().and_then(|script| script.next_conversation(&self.name)) {
            return Dialogue::Recorded { turns: turns.into_iter(), cast: HashMap::new() };
        }
        let count = 2 + rng.below(4) as usize;
        let people = (0..count).filter_map(|_| rng.pick(&self.speakers).copied()).collect();
        Dialogue::Invented { thread: Thread::new(rng, &self.name), people, last: None }
    }

    /// The dialogue's next line; none when it is over.
    fn line_of(&self, rng: &mut Rng, dialogue: &mut Dialogue) -> Option<Line> {
        match dialogue {
            Dialogue::Invented { thread, people, last } => {
                if thread.is_over() {
                    return None;
                }
                let mut author = *rng.pick(people)?;
                if Some(author) == *last && rng.chance(0.8) {
                    author = *rng.pick(people)?;
                }
                *last = Some(author);
                Some(Line { author, text: thread.line(rng, &Voice::of(author.get())), is_recorded: false })
            }
            Dialogue::Recorded { turns, cast } => {
                let Turn { speaker, text } = turns.next()?;
                let author = match cast.get(&speaker) {
                    Some(author) => *author,
                    None => {
                        let author = self.cast_for(rng, cast)?;
                        cast.insert(speaker, author);
                        author
                    }
                };
                Some(Line { author, text, is_recorded: true })
            }
        }
    }

    /// A speaker without a part; one with a part if all have one.
    fn cast_for(&self, rng: &mut Rng, cast: &HashMap<String, UserId>) -> Option<UserId> {
        let start = rng.below(self.speakers.len() as u64) as usize;
        let (before, from) = self.speakers.split_at(start);
        let mut all = from.iter().chain(before);
        all.find(|user| !cast.values().any(|taken| taken == *user)).or(from.first()).copied()
    }

    /// Records a message posted in this channel.
    pub fn note(&mut self, posted: Posted) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(posted);
    }

    /// Forgets a message that was deleted.
    pub fn forget(&mut self, message_id: MessageId) {
        self.recent.retain(|posted| posted.message_id != message_id);
    }

    /// One of the last messages of other members.
    pub fn recent_of_others(&self, rng: &mut Rng, user: UserId) -> Option<MessageId> {
        let others: Vec<MessageId> = self.recent.iter().filter(|s| s.author != user).map(|s| s.message_id).collect();
        rng.pick(&others).copied()
    }

    /// The newest message, if another member wrote it.
    pub fn newest_of_others(&self, user: UserId) -> Option<MessageId> {
        self.recent.back().filter(|posted| posted.author != user).map(|posted| posted.message_id)
    }

    /// Whether the lines come from a script or a chat file.
    pub fn is_recorded(&self) -> bool {
        matches!(self.dialogue, Some(Dialogue::Recorded { .. }))
    }

    /// A random member who may write here.
    pub fn random_speaker(&self, rng: &mut Rng) -> Option<UserId> {
        rng.pick(&self.speakers).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashSet, io::Write as _};

    fn scene(speakers: std::ops::Range<u64>) -> Scene {
        Scene::new(ChannelId::new(1), "general", 1.0, speakers.map(UserId::new).collect())
    }

    #[test]
    fn c1_only_permitted_speakers_write() {
        let (mut rng, mut words) = (Rng::new(4), Words::default());
        let mut scene = scene(1..6);
        let authors: HashSet<u64> =
            (0..500).map(|_| scene.next_line(&mut rng, &mut words).unwrap().author.get()).collect();
        assert_eq!(authors, (1..6).collect());
        // A member loses the permission in the middle of a conversation.
        let mut after = Scene::new(ChannelId::new(1), "general", 1.0, vec![UserId::new(9)]);
        after.continue_from(scene);
        assert!((0..100).all(|_| after.next_line(&mut rng, &mut words).unwrap().author.get() == 9));
        assert_eq!(super::Scene::new(ChannelId::new(1), "x", 1.0, vec![]).next_line(&mut rng, &mut words), None);
    }

    #[test]
    fn c2_recorded_conversations_keep_order_and_people() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for (conversation, turns) in [("a", 6), ("b", 4), ("c", 1)] {
            for turn in 0..turns {
                let speaker = format!("agent_{}", turn % 2);
                let text = format!("{conversation}{turn}");
                let line =
                    serde_json::json!({"conversation": conversation, "turn": turn, "speaker": speaker, "text": text});
                writeln!(file, "{line}").unwrap();
            }
        }
        let mut words = Words { chat: Some(ChatFile::check_and_open(file.path()).unwrap()), script: None };
        let mut rng = Rng::new(4);
        let mut scenes = [scene(1..50), scene(50..99)];
        let mut lines = [Vec::new(), Vec::new()];
        for step in 0..60 {
            lines[step % 2].push(scenes[step % 2].next_line(&mut rng, &mut words).unwrap());
        }
        for lines in &lines {
            let mut at = 0;
            while at < lines.len() {
                let conversation = &lines[at].text[..1];
                let whole: Vec<&Line> =
                    lines[at..].iter().take_while(|line| line.text.starts_with(conversation)).collect();
                let length = whole.len().min(match conversation {
                    "a" => 6,
                    "b" => 4,
                    _ => 1,
                });
                for (turn, line) in whole[..length].iter().enumerate() {
                    assert_eq!(line.text, format!("{conversation}{turn}"));
                    assert_eq!(line.author, whole[turn % 2].author);
                }
                assert!(length < 2 || whole[0].author != whole[1].author);
                at += length;
            }
        }
        assert!(lines[0].iter().zip(&lines[1]).any(|(a, b)| a.text[..1] != b.text[..1]), "they are interleaved");
    }

    #[test]
    fn a_single_speaker_has_every_part() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for turn in 0..3 {
            let line = serde_json::json!({"conversation": "a", "turn": turn, "speaker": turn.to_string(), "text": "t"});
            writeln!(file, "{line}").unwrap();
        }
        let mut words = Words { chat: Some(ChatFile::check_and_open(file.path()).unwrap()), script: None };
        let mut scene = scene(1..2);
        assert!((0..9).all(|_| scene.next_line(&mut Rng::new(1), &mut words).unwrap().author.get() == 1));
    }

    #[test]
    fn recent_messages_are_bounded_and_can_be_forgotten() {
        let mut scene = scene(1..3);
        for id in 1..=40 {
            scene.note(Posted { message_id: MessageId::new(id), author: UserId::new(1 + id % 2) });
        }
        assert_eq!(scene.recent.len(), RECENT_MAX);
        let mut rng = Rng::new(2);
        assert!((0..50).all(|_| scene.recent_of_others(&mut rng, UserId::new(1)).unwrap().get() % 2 == 1));
        (1..=40).for_each(|id| scene.forget(MessageId::new(id)));
        assert_eq!(scene.recent_of_others(&mut rng, UserId::new(1)), None);
    }
}
