//! Connection: one socket's protocol state, without the socket.
//!
//! Owns        the WebSocket decoder, the compression context, and the place up to which it was written to.
//! Invariants  C1 bytes leave in the order they were committed: a frame begun is finished before the next. C2 an idle
//!             connection without compression holds no heap but this struct. C3 it is `Send`: it can move.
//! Limits      `CONTROL_MAX` waiting control messages, one unfinished frame, `PENDING_INPUT_BYTES_MAX` bytes that arrived
//!             while the token was being checked.
//! Not here    what was sent and may be sent again: the session's replay buffer.

use crate::{sent::Way, stream_codec::Compressor};
use guildhall_codec::{DictionaryId, Encoding, InflateHistory};
use guildhall_model::to_gateway::{Identify, Resume};
use guildhall_session::RateWindow;
use guildhall_stdx::{Instant, SlotKey, Timestamp};
use guildhall_ws_proto::{Decoder, DeflateParams};
use std::{collections::VecDeque, mem, sync::Arc};

/// More waiting control messages (pongs, heartbeat answers) than this, and the client is flooding without reading: cut.
pub const CONTROL_MAX: usize = 64;
/// More bytes than this while the token is checked, and the client does not wait for an answer: cut.
pub const PENDING_INPUT_BYTES_MAX: usize = 64 << 10;

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

/// Where a connection stands.
#[derive(Debug)]
pub enum Phase {
    /// HELLO is out; the client has not said who it is.
    AwaitingIdentify,
    /// A token is being checked; reading is paused.
    Authenticating(Box<PendingAuth>),
    /// It serves a session.
    Established(SlotKey),
    /// A close frame is queued or sent, and input is ignored.
    Closing,
}

/// What the client claims while its token is checked.
#[derive(Debug)]
pub enum PendingAuth {
    /// To start a session.
    Identify(Identify),
    /// Resumes a session.
    Resume(Resume),
}

/// A payload or frame outside the sequence of dispatches.
#[derive(Debug)]
pub enum Control {
    /// A gateway payload: heartbeat answers, HELLO, op 7, op 9.
    Payload(Arc<[u8]>),
    /// A complete WebSocket frame: pong, close.
    Frame(Vec<u8>),
}

/// See the module.
#[derive(Debug)]
pub struct Conn {
    /// From the URL.
    pub encoding: Encoding,
    /// `Compression::name`.
    pub compression: &'static str,
    /// Rows of the table of sent bytes that count for it.
    pub way: Way,
    /// Its compressed stream, with the context.
    pub compressor: Option<Box<Compressor>>,
    /// `compressor` is one of shared-match: known here, so that a fan-out need not load it.
    pub shares_search: bool,
    /// Negotiated permessage-deflate, if any.
    pub deflate: Option<DeflateParams>,
    /// Earlier messages of the client, if its compressed messages may refer to them.
    pub inflate_history: Option<Box<InflateHistory>>,
    /// Where it stands.
    pub phase: Phase,
    /// Splits bytes into WebSocket messages.
    pub decoder: Decoder,
    /// Waiting messages outside the sequence, oldest first.
    pub control: VecDeque<Control>,
    /// Bytes that were committed to but did not fit the socket.
    pub unsent: Vec<u8>,
    /// Bytes of `unsent` that are sent.
    pub unsent_at: usize,
    /// Bytes of the frame under `next_seq` that are out; only without compression.
    pub frame_offset: usize,
    /// A frame was begun and the rest of it is gone: whatever followed would be taken for that rest.
    pub is_frame_truncated: bool,
    /// The next dispatch to write.
    pub next_seq: u64,
    /// Seq of the RESUMED of this connection; 0 without a RESUME. Superseded dispatches before it are left out.
    pub replay_end: u64,
    /// Bytes of a dispatch that was made for it alone and is not out yet.
    pub rendered_bytes: usize,
    /// Since when.
    pub rendered_at: Instant,
    /// It waits until others' are out.
    pub waits_to_render: bool,
    /// It has waited, and its turn has come.
    pub has_turn_to_render: bool,
    /// When the socket became full. None: it has room.
    pub blocked_since: Option<Instant>,
    /// In the list of connections to flush.
    pub is_dirty: bool,
    /// Time of the last whole frame from the client.
    pub last_inbound: Instant,
    /// Counts inbound messages, for `inbound_per_minute_max`.
    pub inbound: RateWindow,
    /// When the connection began, or began to close.
    pub phase_since: Instant,
    /// The entry in the timers that counts.
    pub timer_at: Instant,
    /// What came in while the token was being checked.
    pub pending_input: Vec<u8>,
    /// Op 9s sent on it, at most `INVALID_SESSIONS_MAX`.
    pub invalid_sessions: u8,
    /// The client has received op 7, because its context is to shrink or because the node stops.
    pub is_asked_to_leave: bool,
    /// When it is closed if it is still there: it was asked to go because the node stops.
    pub leave_by: Instant,
}

impl Conn {
    /// Whether all committed bytes are sent.
    pub fn is_drained(&self) -> bool {
        self.unsent.is_empty() && self.control.is_empty() && self.frame_offset == 0
    }

    /// Stores `rest` until the socket has room.
    pub fn keep_unsent(&mut self, rest: &[u8]) {
        self.unsent.extend_from_slice(rest);
    }

    /// Name of the component that compresses for it, for `/v1`. None: it has no compression.
    pub fn writer(&self) -> Option<&'static str> {
        match (&self.compressor, self.deflate) {
            (Some(compressor), _) => Some(compressor.writer()),
            (None, Some(_)) => Some("prepared"),
            (None, None) => None,
        }
    }

    /// Memory of its compression contexts.
    pub fn compression_bytes(&self) -> usize {
        let compressor = self.compressor.as_ref().map_or(0, |compressor| compressor.memory_bytes());
        compressor + self.inflate_history.as_ref().map_or(0, |history| history.memory_bytes())
    }

    /// Frees the buffer of unsent bytes once they are sent.
    pub fn clear_unsent(&mut self) {
        self.unsent = Vec::new();
        self.unsent_at = 0;
    }

    /// What was stashed.
    pub fn take_pending_input(&mut self) -> Vec<u8> {
        mem::take(&mut self.pending_input)
    }
}

/// A connection that moves to the partition of the session that it resumes.
#[derive(Debug)]
pub struct MovingConn {
    /// The connection; its token was checked.
    pub conn: Conn,
    /// The account.
    pub user_id: guildhall_model::UserId,
    /// The token it came with.
    pub token: u64,
    /// When that token expires.
    pub expires_at: Option<Timestamp>,
    /// The RESUME.
    pub resume: Resume,
}
