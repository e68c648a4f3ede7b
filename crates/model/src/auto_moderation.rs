//! Auto moderation: rules of a guild for the texts of its members.
//!
//! Spec  docs/protocol/choices.md "Auto moderation".

use crate::id::{ChannelId, Id, MessageId, RoleId, UserId};
use serde::{Deserialize, Serialize};

/// A rule, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoModRule {
    pub id: Id<()>,
    /// 1–100 characters.
    pub name: String,
    /// Account that made it. 0: a backend.
    pub creator_id: UserId,
    pub trigger: AutoModTrigger,
    /// One to five actions, in this order.
    pub actions: Vec<AutoModAction>,
    pub enabled: bool,
    /// Members with one of these roles are exempt. At most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exempt_roles: Vec<RoleId>,
    /// Messages in these channels and in their threads are exempt. At most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exempt_channels: Vec<ChannelId>,
}

/// Condition of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AutoModTrigger {
    /// Words. With a `*` at an end, more letters may follow there.
    Keyword {
        /// At most 1,000 words of at most 60 characters.
        keyword_filter: Vec<String>,
        /// At most 10 regular expressions of at most 260 characters.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        regex_patterns: Vec<String>,
        /// At most 100. A word within one of these does not count.
        allow_list: Vec<String>,
    },
    /// What looks like spam: a text that is repeated, or many links.
    Spam,
    /// Words of lists that the node has.
    KeywordPreset {
        /// 1 profanity, 2 sexual content, 3 slurs.
        presets: Vec<u8>,
        /// At most 1,000. A word within one of these does not count.
        allow_list: Vec<String>,
    },
    /// More mentions of different users and roles in one message than this, at most 50.
    MentionSpam { mention_total_limit: u8 },
}

impl AutoModTrigger {
    /// Number of the type of `Keyword` on the wire.
    pub const KEYWORD: u8 = 1;
    /// The same of `Spam`.
    pub const SPAM: u8 = 3;
    /// The same of `KeywordPreset`.
    pub const KEYWORD_PRESET: u8 = 4;
    /// The same of `MentionSpam`.
    pub const MENTION_SPAM: u8 = 5;

    /// Number of its type on the wire.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Keyword { .. } => Self::KEYWORD,
            Self::Spam => Self::SPAM,
            Self::KeywordPreset { .. } => Self::KEYWORD_PRESET,
            Self::MentionSpam { .. } => Self::MENTION_SPAM,
        }
    }
}

/// Action of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AutoModAction {
    /// Refuses the message.
    BlockMessage {
        /// At most 150 characters, for the author.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        custom_message: Option<String>,
    },
    /// Posts an alert into this channel.
    SendAlert { channel_id: ChannelId },
    /// Times the author out.
    Timeout { duration_s: u32 },
}

impl AutoModAction {
    /// Number of the type of `BlockMessage` on the wire.
    pub const BLOCK_MESSAGE: u8 = 1;
    /// The same of `SendAlert`.
    pub const SEND_ALERT: u8 = 2;
    /// The same of `Timeout`.
    pub const TIMEOUT: u8 = 3;
    /// Longest time-out: four weeks.
    pub const TIMEOUT_S_MAX: u32 = 28 * 86_400;
}

/// An action that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoModExecution {
    pub rule_id: Id<()>,
    /// Number of the trigger's type on the wire.
    pub trigger_kind: u8,
    pub action: AutoModAction,
    /// Author of the text.
    pub user_id: UserId,
    pub channel_id: ChannelId,
    /// None: the message was refused.
    pub message_id: Option<MessageId>,
    pub alert_message_id: Option<MessageId>,
    /// The whole text.
    pub content: String,
    /// The word of the rule.
    pub matched_keyword: Option<String>,
    /// The text that fits it.
    pub matched_content: Option<String>,
}
