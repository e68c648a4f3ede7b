//! Events, as a relay hands them to a codec: a name, and the body in both encodings.

use bytes::Bytes;

/// Whom an event is for, among those in its guild. [`Viewer`](crate::Viewer) decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Every session.
    Everyone,
    /// Whoever is in the guild.
    Guild,
    /// Whoever looks at the guild and may see the channel.
    Active,
    /// The same, but bots only with the intent for it.
    Typing,
    /// Whoever is in the guild without looking at it.
    Passive,
    /// Whoever has the member list open.
    Watching,
    /// Whoever is told what this user shows.
    Following(u64),
    /// Whoever is told of all members.
    Members,
    /// This session alone.
    One(u32),
}

/// Something to be sent.
#[derive(Clone, Debug)]
pub struct Event {
    /// Counts from 0.
    pub id: u64,
    /// When, in milliseconds since the traffic began.
    pub at_ms: u64,
    /// `t`, as MESSAGE_CREATE.
    pub name: &'static str,
    /// Where.
    pub guild: u64,
    /// Where in it, if it is about one channel.
    pub channel: Option<u64>,
    /// Few may see the channel.
    pub is_hidden: bool,
    /// The user it is of or about, if it is one.
    pub user: Option<u64>,
    /// For whom.
    pub to: To,
    /// `d` in JSON.
    pub body_json: Bytes,
    /// `d` in ETF, without the version byte.
    pub body_etf: Bytes,
}

impl Event {
    /// For one session alone: nothing of it can be shared.
    #[must_use]
    pub fn is_private(&self) -> bool {
        matches!(self.to, To::One(_))
    }
}
