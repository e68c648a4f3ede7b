//! Frames: the binary form of messages on the bus, with numbers that show every loss, and parts of large messages.
//!
//! ```text
//! byte  0   version of the frame: 1
//!       1   0
//!       2   version of the payload, two bytes
//!       4   part, four bytes: 0 for the first
//!       8   number of parts, four bytes: at least 1
//!      12   sender, eight bytes: a random number per start of a process
//!      20   stream, eight bytes: as the sender likes
//!      28   sequence number of the message in the stream, eight bytes: 0 for the first
//!      36   payload, or the part of it
//! ```
//! All numbers are little-endian.
//!
//! How the form may change:
//!
//! | change | how |
//! |---|---|
//! | a field of a payload is added | the payload's version, if an older node would misread it; else its own format
//! decides | | a field of the frame is added | a new version of the frame; nodes accept the previous one as well for
//! one release | | a field gets another meaning | never: a new field | | byte 1 | flags, in a new version of the frame;
//! version 1 refuses everything but 0 |
//!
//! Invariants  F1 a frame of an unknown version is refused, never misread. F2 a receiver that misses a message, or a
//!             part of one, learns so before it gets a later one (`Event::Gap`). F3 no message is delivered twice, and
//!             none in parts.
//! Limits      `IncomingLimits`. A message past them is a gap. A stream past `streams_max` evicts the one that was
//!             silent longest; if that goes on, its next message is a gap.

use bytes::{Bytes, BytesMut};
use std::collections::HashMap;

/// The version that this program writes, and the only one that it reads.
pub const FRAME_VERSION: u8 = 1;
/// Bytes before the payload.
pub const HEADER_BYTES: usize = 36;

/// A process on the bus, from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderId(pub u64);

/// A sequence of messages of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// Why a frame is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Written by another version of this program.
    #[error("the frame has version {found}, and this program reads version {FRAME_VERSION}: upgrade the older node")]
    UnknownVersion { found: u8 },
    /// No program of ours writes this.
    #[error("the frame is malformed: {0}")]
    Malformed(&'static str),
}

/// Sends a stream.
#[derive(Debug)]
pub struct Outgoing {
    sender: SenderId,
    stream: StreamId,
    next_seq: u64,
}

impl Outgoing {
    /// A stream that begins.
    #[must_use]
    pub fn new(sender: SenderId, stream: StreamId) -> Self {
        Self { sender, stream, next_seq: 0 }
    }

    /// Frames of the next message, each of at most `frame_bytes_max` bytes. None if the message has too
    /// many parts: 2³².
    ///
    /// # Panics
    /// If a frame of `frame_bytes_max` has no room for a payload.
    pub fn frames(&mut self, version: u16, payload: &[u8], frame_bytes_max: usize) -> Option<Vec<Bytes>> {
        assert!(frame_bytes_max > HEADER_BYTES, "a frame needs room for a payload");
        let part_bytes = frame_bytes_max - HEADER_BYTES;
        let parts_count = u32::try_from(payload.len().div_ceil(part_bytes).max(1)).ok()?;
        let seq = self.next_seq;
        self.next_seq += 1;
        let frame = |part: u32| {
            let from = part as usize * part_bytes;
            let content = &payload[from..payload.len().min(from + part_bytes)];
            let mut frame = BytesMut::with_capacity(HEADER_BYTES + content.len());
            frame.extend_from_slice(&[FRAME_VERSION, 0]);
            frame.extend_from_slice(&version.to_le_bytes());
            frame.extend_from_slice(&part.to_le_bytes());
            frame.extend_from_slice(&parts_count.to_le_bytes());
            frame.extend_from_slice(&self.sender.0.to_le_bytes());
            frame.extend_from_slice(&self.stream.0.to_le_bytes());
            frame.extend_from_slice(&seq.to_le_bytes());
            frame.extend_from_slice(content);
            frame.freeze()
        };
        Some((0..parts_count).map(frame).collect())
    }
}

struct Header {
    version: u16,
    part: u32,
    parts_count: u32,
    sender: SenderId,
    stream: StreamId,
    seq: u64,
}

fn parse(frame: &[u8]) -> Result<(Header, usize), FrameError> {
    let version = *frame.first().ok_or(FrameError::Malformed("it is empty"))?;
    // First of all: nothing else is known about another version.
    if version != FRAME_VERSION {
        return Err(FrameError::UnknownVersion { found: version });
    }
    let (head, _) = frame.split_first_chunk::<HEADER_BYTES>().ok_or(FrameError::Malformed("it is too short"))?;
    fn number<const N: usize>(head: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&head[at..at + N]);
        bytes
    }
    if head[1] != 0 {
        return Err(FrameError::Malformed("byte 1 is not 0"));
    }
    let header = Header {
        version: u16::from_le_bytes(number(head, 2)),
        part: u32::from_le_bytes(number(head, 4)),
        parts_count: u32::from_le_bytes(number(head, 8)),
        sender: SenderId(u64::from_le_bytes(number(head, 12))),
        stream: StreamId(u64::from_le_bytes(number(head, 20))),
        seq: u64::from_le_bytes(number(head, 28)),
    };
    if header.part >= header.parts_count {
        return Err(FrameError::Malformed("its part is not one of its parts"));
    }
    if header.seq == u64::MAX {
        return Err(FrameError::Malformed("its sequence number is the largest there is"));
    }
    Ok((header, HEADER_BYTES))
}

/// The sender that a frame names; none if it is no frame of this version.
#[must_use]
pub fn sender_of(frame: &[u8]) -> Option<SenderId> {
    parse(frame).ok().map(|(header, _)| header.sender)
}

/// Limits of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncomingLimits {
    /// Streams that are remembered.
    pub streams_max: usize,
    /// Bytes of one message.
    pub message_bytes_max: usize,
    /// Bytes of all messages whose parts are not complete.
    pub partial_bytes_max: usize,
}

impl Default for IncomingLimits {
    /// A snapshot of a guild of a million members is some hundred megabytes.
    fn default() -> Self {
        Self { streams_max: 100_000, message_bytes_max: 1 << 30, partial_bytes_max: 2 << 30 }
    }
}

/// A message with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub sender: SenderId,
    pub stream: StreamId,
    /// Of the payload.
    pub version: u16,
    pub payload: Bytes,
}

/// Result of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A whole message.
    Message(Received),
    /// Messages of this stream were lost before the next one that arrives. The frame itself may begin that one: its
    /// message follows.
    Gap(SenderId, StreamId),
}

#[derive(Debug)]
struct Stream {
    next_seq: u64,
    /// Parts of the message `next_seq` so far.
    parts: BytesMut,
    next_part: u32,
    /// The receiver reported a gap, and no message has arrived since.
    is_broken: bool,
    used_at: u64,
}

/// Receives streams of many senders.
#[derive(Debug)]
pub struct Incoming {
    limits: IncomingLimits,
    streams: HashMap<(SenderId, StreamId), Stream>,
    partial_bytes: usize,
    /// Counts frames, to know which stream was silent longest.
    clock: u64,
    /// `clock` at the last `drop_stale`.
    checked_at: u64,
}

impl Incoming {
    /// A receiver that has received nothing.
    #[must_use]
    pub fn new(limits: IncomingLimits) -> Self {
        Self { limits, streams: HashMap::new(), partial_bytes: 0, clock: 0, checked_at: 0 }
    }

    /// Takes a frame. Returns a gap before it, and the message that it completes, if any.
    ///
    /// # Errors
    /// `UnknownVersion`, `Malformed`. The receiver is as before.
    pub fn accept(&mut self, frame: &Bytes) -> Result<(Option<Event>, Option<Event>), FrameError> {
        let (header, from) = parse(frame)?;
        let key = (header.sender, header.stream);
        self.clock += 1;
        if !self.streams.contains_key(&key) {
            self.make_room();
        }
        let used_at = self.clock;
        let stream = self.streams.entry(key).or_insert_with(|| Stream {
            next_seq: 0,
            parts: BytesMut::new(),
            next_part: 0,
            is_broken: false,
            used_at,
        });
        stream.used_at = used_at;
        // F3: a repetition.
        if (header.seq, header.part) < (stream.next_seq, stream.next_part) {
            return Ok((None, None));
        }
        let mut gap = None;
        if (header.seq, header.part) != (stream.next_seq, stream.next_part) {
            self.partial_bytes -= stream.parts.len();
            stream.parts = BytesMut::new();
            if !std::mem::replace(&mut stream.is_broken, true) {
                gap = Some(Event::Gap(header.sender, header.stream));
            }
            stream.next_part = 0;
            if header.part > 0 {
                // The beginning is missing: the next message may be whole.
                stream.next_seq = header.seq + 1;
                return Ok((gap, None));
            }
            stream.next_seq = header.seq;
        }
        let content = frame.slice(from..);
        let is_large = stream.parts.len() + content.len() > self.limits.message_bytes_max
            || self.partial_bytes + content.len() > self.limits.partial_bytes_max;
        if is_large {
            self.partial_bytes -= stream.parts.len();
            stream.parts = BytesMut::new();
            (stream.next_seq, stream.next_part) = (header.seq + 1, 0);
            if !std::mem::replace(&mut stream.is_broken, true) {
                gap = Some(Event::Gap(header.sender, header.stream));
            }
            return Ok((gap, None));
        }
        if header.part + 1 < header.parts_count {
            self.partial_bytes += content.len();
            stream.parts.extend_from_slice(&content);
            stream.next_part += 1;
            return Ok((gap, None));
        }
        let payload = if stream.parts.is_empty() {
            content
        } else {
            self.partial_bytes -= stream.parts.len();
            stream.parts.extend_from_slice(&content);
            std::mem::take(&mut stream.parts).freeze()
        };
        (stream.next_seq, stream.next_part) = (header.seq + 1, 0);
        stream.is_broken = false;
        let Header { version, sender, stream, .. } = header;
        Ok((gap, Some(Event::Message(Received { sender, stream, version, payload }))))
    }

    /// Forgets senders that are gone.
    pub fn retain(&mut self, is_there: impl Fn(SenderId) -> bool) {
        let partial_bytes = &mut self.partial_bytes;
        self.streams.retain(|(of, _), stream| {
            let stays = is_there(*of);
            *partial_bytes -= if stays { 0 } else { stream.parts.len() };
            stays
        });
    }

    /// Drops the parts of messages whose streams have received nothing since the last call. A later part of such a
    /// message counts as a gap.
    pub fn drop_stale(&mut self) {
        let since = std::mem::replace(&mut self.checked_at, self.clock);
        for stream in self.streams.values_mut().filter(|stream| stream.used_at <= since && stream.next_part > 0) {
            self.partial_bytes -= stream.parts.len();
            stream.parts = BytesMut::new();
            stream.next_part = 0;
        }
    }

    /// Bytes of all messages whose parts are not complete.
    #[must_use]
    pub fn partial_bytes(&self) -> usize {
        self.partial_bytes
    }

    fn make_room(&mut self) {
        if self.streams.len() < self.limits.streams_max.max(1) {
            return;
        }
        // Costs a step per stream. Rare: at this number of streams most belong to senders that are gone.
        let oldest = self.streams.iter().min_by_key(|(_, stream)| stream.used_at).map(|(key, _)| *key);
        if let Some(stream) = oldest.and_then(|key| self.streams.remove(&key)) {
            self.partial_bytes -= stream.parts.len();
        }
    }
}
