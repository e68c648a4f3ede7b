//! Expected dispatches of a session by sequence number, with the time at which each was added.

use crate::model::{ChannelDispatch, DirectEvent, Event, ThreadList};
use guildhall_stdx::Instant;
use std::rc::Rc;

/// Whether something that was sent once is left out of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    No,
    Yes,
    /// The session was on its way into the guild again: either is right.
    Maybe,
}

#[derive(Clone, Debug)]
pub enum Content {
    /// Of the guild, with what is withheld of its content.
    Event(Rc<Event>, u8),
    /// Made by its relay, with the channels that it is about.
    Made(Rc<str>, Rc<[u64]>),
    /// Of a channel itself, while hidden channels are not listed.
    Channel(ChannelDispatch),
    /// Of a member list, with its id. None: it only takes rows away.
    List(Rc<str>, Option<Rc<str>>),
    /// THREAD_LIST_SYNC.
    Threads(ThreadList),
    /// Of a direct message.
    Direct(Rc<DirectEvent>),
    /// Presence of a friend, which no replay repeats.
    Friend(Rc<str>),
    /// Made for this session.
    Own(Rc<str>),
    /// Made for this session, about the guild: only for members.
    GuildNotice(Rc<str>),
    /// The guild, with its threads and the channels of its voice states.
    Guild(Rc<str>, Rc<[u64]>),
    /// READY or READY_SUPPLEMENTAL, before its guilds are known.
    Ready,
    /// RATE_LIMITED; for what is seen when it is read.
    Refusal,
}

/// The dispatch under one sequence number.
#[derive(Clone, Debug)]
pub struct Expected {
    pub content: Content,
    pub withheld: Withheld,
    /// When it was given.
    pub at: DeliveryTime,
}

/// When something was given.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryTime {
    pub at: Instant,
    /// How much had been given to all sessions by then.
    pub total: u64,
}

impl Content {
    /// If it may not be seen any more at replay, something of it is sent all the same.
    pub fn has_rest(&self) -> bool {
        match self {
            Self::Made(..) => true,
            Self::Event(event, _) => event.name == "VOICE_STATE_UPDATE",
            _ => false,
        }
    }

    /// Whether the dispatch is of the guild, for members only.
    pub fn is_of_guild(&self) -> bool {
        match self {
            Self::Event(..) | Self::Made(..) | Self::List(..) | Self::Threads(_) => true,
            Self::GuildNotice(_) | Self::Guild(..) | Self::Channel(_) => true,
            Self::Direct(_) | Self::Friend(_) | Self::Own(_) | Self::Ready | Self::Refusal => false,
        }
    }

    pub fn text(&self) -> Rc<str> {
        match self {
            Self::Event(event, redaction) => event.text(*redaction),
            Self::Threads(list) => list.text.clone(),
            Self::Direct(event) => event.text.clone(),
            Self::Channel(dispatch) => dispatch.text.clone(),
            Self::Made(text, _)
            | Self::List(text, _)
            | Self::Friend(text)
            | Self::Own(text)
            | Self::GuildNotice(text)
            | Self::Guild(text, _) => text.clone(),
            Self::Ready => "READY, which was not due".into(),
            Self::Refusal => "RATE_LIMITED".into(),
        }
    }
}

impl Expected {
    /// Expected content.
    pub fn text(&self) -> Rc<str> {
        self.content.text()
    }
}
