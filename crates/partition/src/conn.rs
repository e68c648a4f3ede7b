//! Connection: one socket's protocol state, without the socket.
//!
//! Owns        its parts, each with private state: `ConnCodec`, `ConnSent`, `Cursor`, `SendBuffer`, `Inbox`, `Timing`,
//!             and a `RenderTicket`.
//! Invariants  C1 bytes leave in the order they were committed: a frame that was begun is finished before the next. C2
//!             an idle connection without compression holds no heap but this struct. C3 it is `Send`: it can move.
//! Limits      one unfinished frame; those of the parts.
//! Not here    what was sent and may be sent again: the session's replay buffer.

mod codec;
mod cursor;
mod inbox;
mod send_buffer;
mod timing;

pub use codec::ConnCodec;
pub use cursor::Cursor;
pub use inbox::{Inbox, Overfull};
pub use send_buffer::{Flooded, SendBuffer};
pub use timing::Timing;

use crate::{identify::Claimant, render_budget::RenderTicket, sent::ConnSent};
use guildhall_codec::{DictionaryId, Encoding};
use guildhall_model::to_gateway::{Identify, Resume};
use guildhall_stdx::{Instant, SlotKey};
use guildhall_ws_proto::DeflateParams;
use std::sync::Arc;

/// Op 9s that a connection gets; in place of the next one it is closed with 4008. Libraries that identify again on the
/// same connection wait one to five seconds in between, and reconnect after 4008.
pub const INVALID_SESSIONS_MAX: u8 = 4;

/// Transport compression: requested by the URL or negotiated in the handshake, never both, because compressed data does
/// not shrink again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Messages are sent uncompressed.
    None,
    /// `zlib-stream`.
    Zlib,
    /// `zstd-stream`.
    Zstd,
    /// `zstd-stream` with `dict`.
    ZstdDict(DictionaryId),
    /// permessage-deflate with these parameters.
    Deflate(DeflateParams),
}

impl Compression {
    /// Its name in logs and `/v1`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zlib => "zlib-stream",
            Self::Zstd => "zstd-stream",
            Self::ZstdDict(_) => "zstd-stream with a dictionary",
            Self::Deflate(_) => "permessage-deflate",
        }
    }

    /// Whether a connection with it has its own compressor.
    pub fn has_stream(self) -> bool {
        match self {
            Self::None => false,
            Self::Zlib | Self::Zstd | Self::ZstdDict(_) => true,
            Self::Deflate(params) => !params.server_no_context_takeover,
        }
    }
}

/// Parameters of a connection, from the URL of the upgrade and the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnParams {
    /// `encoding`.
    pub encoding: Encoding,
    /// `compress`, or else the negotiated extension.
    pub compression: Compression,
}

/// Phase of a connection.
#[derive(Debug)]
pub enum Phase {
    /// HELLO is sent; the client has not identified.
    AwaitingIdentify,
    /// The token is being checked, or the session comes from another node; reading is paused.
    Authenticating(Box<PendingAuth>),
    /// The connection serves a session.
    Established(SlotKey),
    /// A close frame is queued or sent; input is ignored.
    Closing,
}

/// Request of a client whose token is checked.
#[derive(Debug)]
pub enum PendingAuth {
    /// Starts a session.
    Identify(Identify),
    /// Resumes a session.
    Resume(Resume),
    /// Resumes a session that comes from another node; its token was checked.
    Move(Claimant, Resume),
}

/// A payload or frame outside the sequence of dispatches.
#[derive(Debug)]
pub enum Control {
    /// A gateway payload: heartbeat answers, HELLO, op 7, op 9.
    Payload(Arc<[u8]>),
    /// A complete WebSocket frame: pong, close.
    Frame(Vec<u8>),
}

/// See the module. The order of the fields is that in memory: what each delivery reads and writes comes first, in three
/// or four cache lines.
#[derive(Debug)]
#[repr(C)]
pub struct Conn {
    pub cursor: Cursor,
    pub sent: ConnSent,
    pub codec: ConnCodec,
    pub send: SendBuffer,
    /// It is in the queue of the next flush.
    pub is_queued: bool,
    /// It was sent op 7, because its context is to shrink or because the node stops.
    pub has_reconnect: bool,
    /// Op 9s sent on it, at most `INVALID_SESSIONS_MAX`.
    pub invalid_sessions: u8,
    pub phase: Phase,
    pub render: RenderTicket,
    pub timing: Timing,
    pub inbox: Inbox,
}

impl Conn {
    /// A connection that is accepted now.
    pub fn new(now: Instant, codec: ConnCodec, sent: ConnSent, message_bytes_max: u32) -> Self {
        let deflate = codec.deflate();
        Self {
            codec,
            sent,
            phase: Phase::AwaitingIdentify,
            cursor: Cursor::default(),
            send: SendBuffer::default(),
            inbox: Inbox::new(now, message_bytes_max, deflate),
            timing: Timing::new(now),
            render: RenderTicket::new(now),
            is_queued: false,
            invalid_sessions: 0,
            has_reconnect: false,
        }
    }

    /// Whether all committed bytes are sent.
    pub fn is_drained(&self) -> bool {
        self.send.is_empty() && !self.cursor.is_mid_frame()
    }

    /// Heap memory of its compression contexts in bytes.
    pub fn compression_bytes(&self) -> usize {
        self.codec.memory_bytes() + self.inbox.history_bytes()
    }
}

/// A connection that moves to the partition of the session that it resumes.
#[derive(Debug)]
pub struct MovingConn {
    /// The connection; its token was checked.
    pub conn: Conn,
    pub claimant: Claimant,
    pub resume: Resume,
}
