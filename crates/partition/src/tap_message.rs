//! Tap messages: copies of what one session is sent.
//!
//! Owns        `TapMessage`, and why the session may see a copied dispatch (`TapRule`).
//! Invariants  T3 of `tap`: `TapRule::is_copied`.
//! Not here    the choice of sessions (`tap`), the queue (`copies`).

use crate::stream_account::Writer;
use guildhall_codec::Encoding;
use guildhall_guild_protocol::{Clearance, Visibility};
use guildhall_model::EventName;
use guildhall_relay::Replayed;
use guildhall_session::Dispatch;
use std::sync::Arc;

/// Why a session may see a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapRule {
    /// Every member of the guild may.
    Public(Clearance),
    /// Members that may view a channel.
    Restricted(Clearance),
    /// Recipients of a direct message.
    Direct,
    /// It was made for the session.
    Own {
        /// Some of its channels are not for every member, or it has direct messages.
        has_private: bool,
    },
}

impl TapRule {
    /// Its name in recordings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public(clearance) => match clearance {
                Clearance::None => "public",
                Clearance::Content => "public+content",
                Clearance::Members => "public+members",
                Clearance::Presences => "public+presences",
                Clearance::Lists => "public+lists",
            },
            Self::Restricted(clearance) => match clearance {
                Clearance::None => "restricted",
                Clearance::Content => "restricted+content",
                Clearance::Members => "restricted+members",
                Clearance::Presences => "restricted+presences",
                Clearance::Lists => "restricted+lists",
            },
            Self::Direct => "direct",
            Self::Own { .. } => "own",
        }
    }

    pub(crate) fn of(dispatch: &Dispatch) -> Self {
        match dispatch.sharing().visibility {
            Visibility::Public(clearance) => Self::Public(clearance),
            Visibility::Restricted { clearance, .. } => Self::Restricted(clearance),
            Visibility::Direct(_) => Self::Direct,
            Visibility::Alone => {
                let has_private = match dispatch.replayed() {
                    Some(Replayed::Guild { places, .. }) => !places.places().is_empty(),
                    _ => true,
                };
                Self::Own { has_private }
            }
        }
    }

    /// Whether a tap without `private` copies it. Dispatches of a session's start are copied; the reader leaves out
    /// their lists with private channels.
    pub(crate) fn is_copied(self, name: EventName) -> bool {
        match self {
            Self::Public(_) => true,
            Self::Restricted(_) | Self::Direct => false,
            Self::Own { .. } => matches!(
                name,
                EventName::Ready | EventName::ReadySupplemental | EventName::GuildCreate | EventName::GuildMembersChunk
            ),
        }
    }
}

/// Copy of what a session is sent, or the end of its copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapMessage {
    /// The session was sent a dispatch.
    Dispatch {
        /// Ordinal of the session in the tap, from 0.
        session: u64,
        /// Milliseconds of the partition's clock.
        at_ms: u64,
        /// Encoding of the session.
        encoding: Encoding,
        /// Name of the event.
        name: EventName,
        /// Its number in the session.
        seq: u64,
        /// Bytes of the whole payload.
        payload_bytes: usize,
        /// Why the session may see it.
        rule: TapRule,
        /// Body in the session's encoding, in ETF without the version byte.
        body: Arc<[u8]>,
    },
    /// A connection was sent a frame: for the bandwidth bill.
    Frame {
        /// Ordinal of the connection.
        session: u64,
        /// Name of the event; none of a payload that is no dispatch.
        name: Option<EventName>,
        /// Writer of its stream; none of a connection without one.
        writer: Option<Writer>,
        /// Bytes as sent.
        wire_bytes: usize,
        /// The payload before compression.
        payload: Box<[u8]>,
    },
    /// No copy of this session follows.
    End {
        /// Ordinal of the session in the tap.
        session: u64,
        /// A dispatch did not fit the queue.
        is_full: bool,
    },
}

impl TapMessage {
    /// Bytes of a copy.
    pub(crate) fn payload_bytes(&self) -> Option<usize> {
        match self {
            Self::Dispatch { body, .. } => Some(body.len()),
            Self::Frame { payload, .. } => Some(payload.len()),
            Self::End { .. } => None,
        }
    }
}
