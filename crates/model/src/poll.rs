//! Polls: questions of messages with answers to vote for.
//!
//! Spec  docs/protocol/reference.md §6.6.

use crate::{
    emoji::ReactionEmoji,
    id::{ChannelId, EmojiId, MessageId},
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};

/// Poll of a message. Its votes are stored as reactions with `ReactionEmoji::of_answer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poll {
    /// 1–300 characters.
    pub question: String,
    /// 1–10 answers, in the order in which clients show them.
    pub answers: Vec<PollAnswer>,
    /// Time from which it takes no votes.
    pub expires_at: Timestamp,
    /// An account may vote for several answers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_multiselect: bool,
    /// Final number of votes for each answer, in the order of `answers`. None: it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<u64>>,
}

/// Answer of a poll. It has a text, an emoji, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollAnswer {
    /// Number from 1 on.
    pub id: u8,
    /// 1–55 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emoji: Option<ReactionEmoji>,
}

/// A poll that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenPoll {
    pub channel_id: ChannelId,
    pub message_id: MessageId,
    /// As [`Poll::expires_at`].
    pub expires_at: Timestamp,
}

impl Poll {
    /// Whether it has an answer with this number.
    #[must_use]
    pub fn has_answer(&self, id: u8) -> bool {
        self.answers.iter().any(|answer| answer.id == id)
    }

    /// Whether it takes votes.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.results.is_none() && now < self.expires_at
    }
}

impl ReactionEmoji {
    /// A vote for this answer of a poll: the answer's number takes the place of an emoji's id. Real ids are above 255.
    #[must_use]
    pub fn of_answer(answer_id: u8) -> Self {
        Self { id: Some(EmojiId::new(answer_id.into())), name: String::new() }
    }

    /// The answer that it is a vote for. None: it is an emoji.
    #[must_use]
    pub fn answer(&self) -> Option<u8> {
        self.id.and_then(|id| u8::try_from(id.get()).ok())
    }
}
