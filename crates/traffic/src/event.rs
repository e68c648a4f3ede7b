//! Events in the form that a relay passes to a codec: a name, and the body in both encodings.

use bytes::Bytes;

/// Audience of an event within its guild. [`Viewer`](crate::Viewer) decides per session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Every session.
    Everyone,
    /// Members of the guild.
    Guild,
    /// Sessions that are active in the guild and can view the channel.
    Active,
    /// As `Active`, but only bots with the typing intent.
    Typing,
    /// Sessions that are passive in the guild.
    Passive,
    /// Sessions that subscribe to the member list.
    Watching,
    /// Sessions that receive this user's presence.
    Following(u64),
    /// Sessions that receive all member events.
    Members,
    /// This session only.
    One(u32),
    /// The accounts in this direct message.
    Direct(u32),
}

/// One event of the traffic.
#[derive(Clone, Debug)]
pub struct Event {
    /// Number of the event, from 0.
    pub id: u64,
    /// Milliseconds since the start of the traffic.
    pub at_ms: u64,
    /// `t`, for example MESSAGE_CREATE.
    pub name: &'static str,
    /// Guild; 0 for direct messages.
    pub guild: u64,
    /// The guild's number in its [`Population`](crate::Population).
    pub guild_number: u32,
    /// The channel that the event is about, if any.
    pub channel: Option<u64>,
    /// Only few members can view the channel.
    pub is_hidden: bool,
    /// The user that the event is about, if any.
    pub user: Option<u64>,
    /// The account that did it, by its number in the population: it receives the event.
    pub author: Option<u32>,
    /// The body depends on MESSAGE_CONTENT …
    pub has_content: bool,
    /// … and this is the one without.
    pub is_redacted: bool,
    /// Recipients of the event.
    pub to: To,
    /// `d` in JSON.
    pub body_json: Bytes,
    /// `d` in ETF, without the version byte.
    pub body_etf: Bytes,
}

impl Event {
    /// For a single session, so its bytes cannot be shared.
    #[must_use]
    pub fn is_private(&self) -> bool {
        matches!(self.to, To::One(_))
    }
}
