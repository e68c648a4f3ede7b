//! Actions of a backend: events with its own names, and members that join without GUILD_MEMBER_ADD for others
//! (docs/backend-api.md).

use super::{
    Reader,
    audience_model::AudienceModel,
    event::{GUILD_MESSAGES, MESSAGE_CONTENT, Users},
};
use std::collections::BTreeSet;

const GUILD_MESSAGE_TYPING: u32 = 1 << 11;

/// Effects of the current command that its events do not contain.
#[derive(Clone, Debug, Default)]
pub enum Telling {
    #[default]
    Usual,
    /// Only new members themselves receive GUILD_MEMBER_ADD.
    ToNewMember,
    Publication(Publication),
}

/// An event in a backend's words.
#[derive(Clone, Debug)]
pub struct Publication {
    pub who: AudienceModel,
    pub kind: PublicationKind,
    /// Number that distinguishes the publication in its body.
    pub number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicationKind {
    /// A name of its own.
    Round,
    Typing(u64),
    /// Author of a message, and the user it mentions.
    Message(u64, u64),
}

/// A channel that does not exist: a message there is no passive session's newest.
const NOWHERE: u64 = 4_242;

impl Publication {
    pub fn name(&self) -> &'static str {
        match self.kind {
            PublicationKind::Round => "ROUND_STARTED",
            PublicationKind::Typing(_) => "TYPING_START",
            PublicationKind::Message(..) => "MESSAGE_CREATE",
        }
    }

    pub fn body(&self) -> serde_json::Value {
        let n = self.number;
        match self.kind {
            PublicationKind::Round => serde_json::json!({"n": n}),
            PublicationKind::Typing(user) => {
                serde_json::json!({"channel_id": NOWHERE.to_string(), "user_id": user.to_string(), "timestamp": n})
            }
            PublicationKind::Message(author, mentioned) => serde_json::json!({
                "id": n.to_string(),
                "channel_id": NOWHERE.to_string(),
                "author": {"id": author.to_string()},
                "content": format!("published {n}"),
                "mentions": [{"id": mentioned.to_string()}],
                "embeds": [{"title": "an embed"}],
            }),
        }
    }

    pub fn text(&self, redaction: u8) -> String {
        let n = self.number;
        match self.kind {
            PublicationKind::Round => format!("n={n}"),
            PublicationKind::Typing(user) => format!("channel={NOWHERE} user={user} at={n}"),
            PublicationKind::Message(author, mentioned) => {
                let (content, embeds) =
                    if redaction & 1 != 0 { (String::new(), 0) } else { (format!("published {n}"), 1) };
                format!(
                    "id={n} channel={NOWHERE} author={author} content={content:?} embeds={embeds} components=0 \
                     mentions=[{mentioned}] edited=false"
                )
            }
        }
    }

    /// Users who read its content whatever their intents; `None`: it has no content.
    pub fn readers(&self) -> Option<BTreeSet<u64>> {
        match self.kind {
            PublicationKind::Message(author, mentioned) => Some([author, mentioned].into()),
            PublicationKind::Round | PublicationKind::Typing(_) => None,
        }
    }

    /// What of it is withheld from this reader.
    pub fn redaction(&self, reader: Reader<'_>) -> u8 {
        let lacks_content = reader.is_bot && reader.intents & MESSAGE_CONTENT == 0;
        u8::from(lacks_content && self.readers().is_some_and(|readers| !readers.contains(&reader.user)))
    }

    /// Intents that bots need.
    pub fn intents(&self) -> u32 {
        match self.kind {
            PublicationKind::Round => 0,
            PublicationKind::Typing(_) => GUILD_MESSAGE_TYPING,
            PublicationKind::Message(..) => GUILD_MESSAGES,
        }
    }

    /// Users that it names receive it even if their client does not display the guild.
    pub fn users(&self) -> Users {
        match (&self.who, self.kind) {
            (AudienceModel::Users(_), _) | (_, PublicationKind::Round) => Users::All,
            (_, PublicationKind::Typing(_)) => Users::Typing,
            (_, PublicationKind::Message(..)) => Users::Active,
        }
    }
}
