//! Inbox: what arrives on a connection, until a message is complete.
//!
//! Limits      `PENDING_INPUT_BYTES_MAX` bytes while the token is checked; message sizes and the rate are the
//!             partition's.

use guildhall_codec::InflateHistory;
use guildhall_session::RateWindow;
use guildhall_stdx::{Instant, heap};
use guildhall_ws_proto::{Decoder, DeflateParams, Limits, Role};

/// A client that sends more bytes than this while its token is checked does not wait for an answer: its connection is
/// closed with 4008.
const PENDING_INPUT_BYTES_MAX: usize = 64 << 10;
const MINUTE_MS: u64 = 60_000;

/// More bytes arrived than `PENDING_INPUT_BYTES_MAX`.
#[derive(Debug)]
pub struct Overfull;

/// See the module.
#[derive(Debug)]
pub struct Inbox {
    /// Splits bytes into WebSocket messages. None: a message is being handled.
    decoder: Option<Decoder>,
    /// Earlier messages of the client, if its compressed messages may refer to them.
    history: Option<Box<InflateHistory>>,
    /// Bytes that arrived while the token was being checked.
    #[expect(clippy::box_collection, reason = "hardly any connection has some, and each has a place for them")]
    pending: Option<Box<Vec<u8>>>,
    /// Time of the last whole frame.
    last_frame_at: Instant,
    /// Messages of the current minute.
    rate: RateWindow,
}

impl Inbox {
    /// Of a connection that has just been accepted.
    pub fn new(now: Instant, message_bytes_max: u32, deflate: Option<DeflateParams>) -> Self {
        let mut decoder = Decoder::new(Role::Server, Limits { message_bytes_max });
        decoder.set_rsv1_allowed(deflate.is_some());
        Self { decoder: Some(decoder), history: None, pending: None, last_frame_at: now, rate: RateWindow::default() }
    }

    /// Messages to which the next one may refer, of a connection that another process has served.
    pub fn restore(&mut self, history: &[u8]) {
        self.history = (!history.is_empty()).then(|| Box::new(InflateHistory::restore(history.to_vec())));
    }

    /// The incomplete message, as the client sent it.
    pub fn unfinished(&self) -> Vec<u8> {
        self.decoder.as_ref().map_or_else(Vec::new, Decoder::unfinished)
    }

    /// Takes the decoder out while its messages are handled, which may need the connection.
    pub fn take_decoder(&mut self) -> Option<Decoder> {
        self.decoder.take()
    }

    /// Puts the decoder back.
    pub fn put_decoder(&mut self, decoder: Decoder) {
        self.decoder = Some(decoder);
    }

    /// Sets the limit of one message. It applies from the next frame on.
    pub fn set_message_bytes_max(&mut self, message_bytes_max: u32) {
        if let Some(decoder) = &mut self.decoder {
            decoder.set_limits(Limits { message_bytes_max });
        }
    }

    /// A whole frame arrived.
    pub fn note_frame(&mut self, now: Instant) {
        self.last_frame_at = now;
    }

    /// Time of the last whole frame.
    pub fn last_frame_at(&self) -> Instant {
        self.last_frame_at
    }

    /// Counts a message. False: it is over the limit per minute.
    pub fn admit(&mut self, now: Instant, per_minute_max: u32) -> bool {
        self.rate.admit(now, per_minute_max, MINUTE_MS)
    }

    /// Stores bytes until the token is checked.
    ///
    /// # Errors
    /// At the limit none of them are stored.
    pub fn keep_pending(&mut self, input: &[u8]) -> Result<(), Overfull> {
        if self.pending.as_ref().map_or(0, |pending| pending.len()) + input.len() > PENDING_INPUT_BYTES_MAX {
            return Err(Overfull);
        }
        self.pending.get_or_insert_default().extend_from_slice(input);
        Ok(())
    }

    /// Takes the bytes that arrived while the token was being checked.
    pub fn take_pending(&mut self) -> Vec<u8> {
        self.pending.take().map_or_else(Vec::new, |pending| *pending)
    }

    /// Earlier messages that the next compressed message may refer to.
    pub fn history(&self) -> &InflateHistory {
        self.history.as_deref().unwrap_or(const { &InflateHistory::NONE })
    }

    /// Adds an inflated message to the history.
    pub fn remember(&mut self, message: &[u8], window_bits: u8) {
        self.history.get_or_insert_default().remember(message, window_bits);
    }

    /// Heap memory of input that is not handled yet, in bytes.
    pub fn buffers_bytes(&self) -> usize {
        let pending = |pending: &Vec<u8>| heap::boxed::<Vec<u8>>() + heap::of_buffer(pending);
        self.decoder.as_ref().map_or(0, Decoder::heap_bytes) + self.pending.as_deref().map_or(0, pending)
    }

    /// Heap memory of the history in bytes.
    pub fn history_bytes(&self) -> usize {
        self.history.as_ref().map_or(0, |history| history.memory_bytes())
    }
}
