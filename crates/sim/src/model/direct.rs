//! Direct messages and groups: recipients, and their events (docs/protocol/reference.md §6.4, §10.2; ADR 25).
//!
//! Invariants  only recipients receive events, and only those of their time in it.

use super::{
    event::Reader,
    text::{list, message_event_text},
};
use guildhall_guild_protocol::{Payload, ResourcePayload};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

const DIRECT_MESSAGES: u32 = 1 << 12;
const DIRECT_MESSAGE_REACTIONS: u32 = 1 << 13;
const DIRECT_MESSAGE_TYPING: u32 = 1 << 14;

/// A direct message, or a group.
#[derive(Clone, Debug, Default)]
pub struct DirectModel {
    pub id: u64,
    pub is_group: bool,
    pub name: String,
    /// Owner of a group.
    pub owner: u64,
    /// Recipients, with the time at which they joined.
    pub people: BTreeMap<u64, i64>,
    /// Recipients without it in their list, in the order in which they closed it.
    pub closed_by: Vec<u64>,
    /// Author of each message.
    pub messages: BTreeMap<u64, u64>,
    pub pinned: BTreeSet<u64>,
    /// Message, emoji, user.
    pub reactions: BTreeSet<(u64, String, u64)>,
    /// The newest message, whether or not it still is there.
    pub newest: u64,
    pub is_gone: bool,
}

/// An event for the recipients of a direct message.
#[derive(Clone, Debug)]
pub struct DirectEvent {
    pub channel: u64,
    pub name: &'static str,
    pub to: BTreeSet<u64>,
    pub text: Rc<str>,
    /// Whether the recipient has left, or it is no group any more: earlier dispatches must not be replayed to them.
    pub is_left: bool,
}

impl DirectEvent {
    /// Whether a session of a recipient receives it. Bots do not receive events of direct channels themselves.
    pub fn is_for(&self, reader: Reader<'_>, is_first_shard: bool) -> bool {
        let intents = match self.name {
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE" | "CHANNEL_PINS_UPDATE" => DIRECT_MESSAGES,
            "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE" => DIRECT_MESSAGE_REACTIONS,
            "TYPING_START" => DIRECT_MESSAGE_TYPING,
            _ => 0,
        };
        self.to.contains(&reader.user) && is_first_shard && (!reader.is_bot || reader.intents & intents != 0)
    }
}

impl DirectModel {
    /// As it is made: the first of a group owns it.
    pub fn new(id: u64, is_group: bool, people: &[u64], now_unix_ms: i64) -> Self {
        Self {
            id,
            is_group,
            owner: if is_group { people.first().copied().unwrap_or_default() } else { 0 },
            people: people.iter().map(|user| (*user, now_unix_ms)).collect(),
            ..Self::default()
        }
    }

    pub fn recipients(&self) -> BTreeSet<u64> {
        self.people.keys().copied().collect()
    }

    pub fn is_listed_for(&self, user: u64) -> bool {
        !self.is_gone && self.people.contains_key(&user) && !self.closed_by.contains(&user)
    }

    /// It was taken out of memory and read again: its newest message is the newest that there is.
    pub fn loaded(&mut self) {
        self.newest = self.messages.keys().next_back().copied().unwrap_or_default();
    }

    /// As one of those in it sees it.
    pub fn text_for(&self, reader: u64, newest: u64) -> String {
        let others = self.people.keys().filter(|user| **user != reader);
        let kind = if self.is_group { 3 } else { 1 };
        let Self { id, name, owner, .. } = self;
        format!("id={id} type={kind} name={name:?} owner={owner} last={newest} recipients={}", list(others))
    }
}

/// Direct messages in an account's READY (groups last, newest activity first) and their members.
#[derive(Clone, Debug, Default)]
pub struct ListedDirects {
    pub text: String,
    pub people: BTreeSet<u64>,
}

impl ListedDirects {
    /// Of all that there are, as they are in the store.
    pub fn of<'a>(user: u64, directs: impl Iterator<Item = &'a DirectModel>) -> Self {
        let mut listed: Vec<&DirectModel> = directs.filter(|direct| direct.is_listed_for(user)).collect();
        let newest = |direct: &DirectModel| direct.messages.keys().next_back().copied().unwrap_or_default();
        listed.sort_by_key(|direct| (direct.is_group, Reverse(newest(direct).max(direct.id))));
        Self {
            text: list(listed.iter().map(|direct| direct.text_for(user, newest(direct)))),
            people: listed.iter().flat_map(|direct| direct.people.keys().copied()).collect(),
        }
    }
}

/// Expected content of an event of a direct message that does not follow from the command.
pub fn direct_text(name: &str, payload: &Payload) -> String {
    let body = match payload {
        // A direct message has no members.
        Payload::Message(event) => message_event_text(event, 0, false),
        Payload::Reaction(event) => format!(
            "user={} channel={} message={} emoji={:?} member=false",
            event.user_id, event.channel_id, event.message_id, event.emoji.name
        ),
        Payload::Typing { channel_id, timestamp_s, member } => {
            format!("channel={channel_id} user={} at={timestamp_s}", member.user.id)
        }
        Payload::MessageDelete { id, channel_id } => format!("id={id} channel={channel_id}"),
        Payload::Resource(resource) => match &**resource {
            ResourcePayload::Pins { channel_id, last_pin_timestamp } => {
                format!("channel={channel_id} pinned={}", last_pin_timestamp.is_some())
            }
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    };
    format!("{name} {body}")
}
