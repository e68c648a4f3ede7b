//! Writer: the next frames of one connection, to its socket.
//!
//! Owns        the form of each write: frames from shared bodies, compressed frames, payloads compressed alone, and
//!             control frames.
//! Invariants  W4 no connection refers to a dispatch that may be dropped (`Retention`) while its frame is written in
//!             part.
//! Limits      `GATHER_FRAMES` frames per write; compressed and unsent bytes are one write: `COMPRESSED_BYTES` and one
//!             more message at most.
//! Not here    which connection writes when: `pump`.     Spec  docs/protocol/reference.md §2.3, §2.4.

use crate::{
    conn::{Conn, Control, Phase},
    counters::Counters,
    sent::{SentBy, Tally, Way},
    stream_codec::{Compressor, Matchers},
    transport::{Closed, Transport},
};
use guildhall_codec::{BodyDeflater, Encoding, FrameParts, Framing, PreparedCache, SharedWindow, deflate_once};
use guildhall_guild_protocol::Retention;
use guildhall_session::{Dispatch, ReplayEntry, Session};
use guildhall_stdx::{Now, SlotKey};
use guildhall_ws_proto::{FrameHeader, HEADER_BYTES_MAX, Head, Opcode};
use std::{cell::RefMut, io::IoSlice};

/// Frames per write.
const GATHER_FRAMES: usize = 16;
/// A write with at least this many compressed bytes gets no further frame.
const COMPRESSED_BYTES: usize = 4 << 10;
/// Own dispatches of at least this many bytes are compressed for clients that requested payload compression.
const PAYLOAD_COMPRESS_MIN_BYTES: usize = 1024;

pub enum PumpError {
    Full,
    Closed,
    Codec,
    /// The next dispatch is not kept any more.
    Forgotten,
}

impl From<Closed> for PumpError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

pub fn send_unsent(
    conn: &mut Conn,
    key: SlotKey,
    transport: &mut impl Transport,
    counters: &mut Counters,
) -> Result<(), PumpError> {
    if !conn.send.has_unsent() {
        return Ok(());
    }
    let sent = transport.send(key, conn.send.unsent())?;
    counters.sent_bytes += sent as u64;
    if conn.send.mark_sent(sent) { Ok(()) } else { Err(PumpError::Full) }
}

fn opcode_of(encoding: Encoding) -> Opcode {
    if encoding == Encoding::Json { Opcode::Text } else { Opcode::Binary }
}

pub fn control_frame(
    conn: &mut Conn,
    control: Control,
    now: Now,
    cache: &PreparedCache,
    deflater: &mut BodyDeflater,
    matchers: &mut Matchers,
) -> Result<Vec<u8>, PumpError> {
    let encoding = conn.codec.encoding();
    let (opcode, deflate) = (opcode_of(encoding), conn.codec.deflate());
    match control {
        Control::Frame(frame) => Ok(frame),
        Control::Payload(payload) => match (conn.codec.compressor_mut(), deflate) {
            (None, Some(params)) => {
                let window = SharedWindow::of(params.server_window_bits);
                Ok(cache.frame(now.instant.0, &payload, opcode, window, deflater).to_vec())
            }
            // With takeover too: what does not go through the context must not be compressed either, and these are
            // short.
            (None, None) | (Some(_), Some(_)) => {
                let mut frame = FrameHeader::new(opcode, payload.len()).to_vec();
                frame.extend_from_slice(&payload);
                Ok(frame)
            }
            (Some(compressor), None) => {
                let mut compressed = Vec::new();
                let result = match conn.phase {
                    Phase::Established(_) => matchers.compress(compressor, encoding, &payload, &mut compressed),
                    // A connection without a session has no context.
                    Phase::AwaitingIdentify | Phase::Authenticating(_) | Phase::Closing => {
                        compressor.store(&payload, &mut compressed)
                    }
                };
                result.map_err(|_| PumpError::Codec)?;
                let mut frame = FrameHeader::new(Opcode::Binary, compressed.len()).to_vec();
                frame.extend_from_slice(&compressed);
                Ok(frame)
            }
        },
    }
}

/// Whether it cannot be written behind others: it is left out, or owed.
fn ends_write(conn: &Conn, dispatch: &Dispatch, seq: u64) -> bool {
    dispatch.is_tombstone() || dispatch.is_suppressed() && conn.cursor.is_replay(seq)
}

/// Whether replay buffers may drop the dispatch: then the rest of a frame that was written in part needs a copy.
pub fn may_be_dropped(dispatch: &Dispatch) -> bool {
    dispatch.retention() != Retention::Lasting
}

/// Whether nothing is left to write once the dispatches before `seq` are out: only then may they wait in the transport,
/// for nothing may be written behind what waits.
fn is_all(conn: &Conn, session: &Session, seq: u64) -> bool {
    seq > session.replay.last_seq() && !conn.send.has_control() && session.profile.member_requests.is_empty()
}

/// Puts a header in front of a payload, which begins `HEADER_BYTES_MAX` behind `start`. Behind another frame both move
/// up to it. Returns where the frame begins.
fn put_header(frames: &mut Vec<u8>, start: usize, header: &[u8]) -> usize {
    let gap = HEADER_BYTES_MAX - header.len();
    let mut at = start + gap;
    if start > 0 {
        frames.copy_within(start + HEADER_BYTES_MAX.., start + header.len());
        frames.truncate(frames.len() - gap);
        at = start;
    }
    frames[at..][..header.len()].copy_from_slice(header);
    at
}

/// Up to `GATHER_FRAMES` frames in one write, each compressed for this connection alone. One that was made for it to be
/// written now goes out alone.
pub fn write_compressed(
    conn: &mut Conn,
    key: SlotKey,
    session: &Session,
    (matchers, scratch, turn): (&mut Matchers, &mut Vec<u8>, u64),
    (transport, may_wait): (&mut impl Transport, bool),
    tally: &mut Tally<'_>,
) -> Result<(), PumpError> {
    let mut result = Ok(());
    let mut begin = 0;
    let way = conn.sent.way();
    scratch.clear();
    for count in 0..GATHER_FRAMES {
        let seq = conn.cursor.next_seq();
        let Some(entry) = session.replay.entry(seq) else { break };
        let goes_alone = entry.dispatch.is_lazy();
        let is_stopped = goes_alone || ends_write(conn, &entry.dispatch, seq);
        if count > 0 && (is_stopped || scratch.len() >= COMPRESSED_BYTES) {
            break;
        }
        let start = scratch.len();
        scratch.resize(start + HEADER_BYTES_MAX, 0);
        let what = (&*entry.dispatch, entry.redaction);
        let deflate = conn.codec.deflate();
        let Some(compressor) = conn.codec.compressor_mut() else { return Err(PumpError::Codec) };
        let started_at = tally.time(transport);
        let written = matchers.write(compressor, (session, turn), what, seq, scratch);
        let timed = tally.timed(started_at, transport, &entry.dispatch, way);
        let writer = compressor.writer();
        if let Some(ns) = timed {
            compressor.took(ns);
            tally.sent.add_writer_time(writer, ns);
            if compressor.is_library() {
                matchers.context_budget.took(ns);
            }
        }
        if written.is_err() {
            // Those before it are whole.
            scratch.truncate(start);
            result = Err(PumpError::Codec);
            break;
        }
        let payload_bytes = scratch.len() - start - HEADER_BYTES_MAX;
        let header = match deflate {
            Some(_) => FrameHeader::new(Head::compressed(opcode_of(session.encoding)), payload_bytes),
            None => FrameHeader::new(Opcode::Binary, payload_bytes),
        };
        let frame_at = put_header(scratch, start, &header);
        let frame = entry.dispatch.frame(session.encoding, entry.redaction);
        tally.started(
            (&mut conn.sent, way, SentBy::Stream(writer)),
            (session, &*entry.dispatch),
            &frame,
            seq,
            header.len() + payload_bytes,
        );
        conn.cursor.advance();
        if count == 0 {
            begin = frame_at;
        }
        if goes_alone {
            break;
        }
    }
    let wire_bytes = conn.sent.wire_bytes();
    if let Some(trial) = conn.sent.trial_mut() {
        let timed = conn.codec.compressor().map_or((0, 0), Compressor::timed);
        trial.wrote(conn.cursor.next_seq(), wire_bytes, timed);
    }
    let frames = &scratch[begin..];
    if frames.is_empty() {
        return result;
    }
    if may_wait && result.is_ok() && is_all(conn, session, conn.cursor.next_seq()) && transport.queue_send(key, frames)
    {
        tally.took(frames.len());
        return Ok(());
    }
    let sent = transport.send(key, frames)?;
    tally.took(sent);
    if sent < frames.len() {
        conn.send.keep(&frames[sent..]);
        return result.and(Err(PumpError::Full));
    }
    result
}

pub fn is_worth_compressing(conn: &Conn, session: &Session) -> bool {
    !conn.cursor.is_mid_frame()
        && session.replay.entry(conn.cursor.next_seq()).is_some_and(|entry| {
            entry.dispatch.is_local()
                && entry.dispatch.frame(session.encoding, entry.redaction).body().len() >= PAYLOAD_COMPRESS_MIN_BYTES
        })
}

/// One self-contained zlib stream in a binary frame; only for dispatches made for this session. It goes without RSV1,
/// so it is not compressed twice where permessage-deflate was agreed on too.
pub fn write_payload_compressed(
    conn: &mut Conn,
    session: &Session,
    transport: &impl Transport,
    tally: &mut Tally<'_>,
) -> Result<(), PumpError> {
    let seq = conn.cursor.next_seq();
    let Some(entry) = session.replay.entry(seq) else { return Err(PumpError::Codec) };
    let mut compressed = Vec::new();
    let mut frame = entry.dispatch.frame(session.encoding, entry.redaction);
    let way = Way::of_payload(session.encoding);
    let started_at = tally.time(transport);
    deflate_once(frame.write_for(seq, Framing::None), &mut compressed).map_err(|_| PumpError::Codec)?;
    tally.timed(started_at, transport, &entry.dispatch, way);
    let header = FrameHeader::new(Opcode::Binary, compressed.len());
    let frame_bytes = header.len() + compressed.len();
    tally.started((&mut conn.sent, way, SentBy::Alone), (session, &*entry.dispatch), &frame, seq, frame_bytes);
    conn.send.keep(&header);
    conn.send.keep(&compressed);
    conn.cursor.advance();
    Ok(())
}

/// The only dispatch that waits: most connections have one at a time, also when others come in the same batch.
fn write_one(
    conn: &mut Conn,
    key: SlotKey,
    session: &Session,
    deflater: &mut BodyDeflater,
    (transport, may_wait): (&mut impl Transport, bool),
    tally: &mut Tally<'_>,
) -> Result<(), PumpError> {
    let (seq, way) = (conn.cursor.next_seq(), conn.sent.way());
    let entry = session.replay.entry(seq).ok_or(PumpError::Forgotten)?;
    let may_wait = may_wait && is_all(conn, session, seq + 1);
    let mut frame = entry.dispatch.frame(session.encoding, entry.redaction);
    let form = conn.codec.form();
    let started_at = if form.compresses() { tally.time(transport) } else { None };
    let bytes = form.write(&mut frame, seq, deflater);
    tally.timed(started_at, transport, &entry.dispatch, way);
    let all = bytes.len();
    let sent = if may_wait && transport.queue_send(key, bytes) { all } else { transport.send(key, bytes)? };
    let is_apart = sent < all && may_be_dropped(&entry.dispatch);
    if is_apart {
        conn.send.keep(&bytes[sent..]);
    }
    tally.took(sent);
    if sent > 0 || is_apart {
        tally.started((&mut conn.sent, way, SentBy::Form(form)), (session, &*entry.dispatch), &frame, seq, all);
    }
    if sent < all {
        if is_apart {
            conn.cursor.advance();
        } else {
            conn.cursor.add_sent(sent);
        }
        return Err(PumpError::Full);
    }
    conn.cursor.advance();
    Ok(())
}

/// Up to `GATHER_FRAMES` frames in one write, straight from what their recipients share. A frame begun is finished
/// alone if a control message waits behind it.
pub fn write_shared(
    conn: &mut Conn,
    key: SlotKey,
    session: &Session,
    deflater: &mut BodyDeflater,
    (transport, may_wait): (&mut impl Transport, bool),
    tally: &mut Tally<'_>,
) -> Result<(), PumpError> {
    let (first_seq, way) = (conn.cursor.next_seq(), conn.sent.way());
    if !conn.cursor.is_mid_frame() && first_seq == session.replay.last_seq() {
        return write_one(conn, key, session, deflater, (transport, may_wait), tally);
    }
    let form = conn.codec.form();
    let mut entries: [Option<ReplayEntry>; GATHER_FRAMES] = Default::default();
    let mut count = 0;
    let mut count_max = if conn.send.has_control() { 1 } else { GATHER_FRAMES };
    while count < count_max {
        let seq = first_seq + count as u64;
        let Some(entry) = session.replay.entry(seq) else { break };
        // A dispatch that was made for this session alone is written alone.
        if ends_write(conn, &entry.dispatch, seq) || count > 0 && entry.dispatch.is_local() {
            break;
        }
        if entry.dispatch.is_lazy() {
            count_max = 1;
        }
        entries[count] = Some(entry);
        count += 1;
    }
    // The same dispatch cannot be here twice, so no frame is borrowed twice.
    let frames: [Option<RefMut<'_, guildhall_codec::DispatchFrame>>; GATHER_FRAMES] = entries.each_ref().map(|entry| {
        let entry = entry.as_ref()?;
        let mut frame = entry.dispatch.frame(session.encoding, entry.redaction);
        if form.compresses() {
            let started_at = tally.time(transport);
            form.prepare(&mut frame, deflater);
            tally.timed(started_at, transport, &entry.dispatch, way);
        }
        Some(frame)
    });
    let parts: [Option<FrameParts<'_>>; GATHER_FRAMES] =
        std::array::from_fn(|i| frames[i].as_ref().map(|frame| form.parts(frame, first_seq + i as u64)));
    let mut slices = [IoSlice::new(&[]); GATHER_FRAMES * 3];
    let mut slices_count = 0;
    for (i, parts) in parts.iter().flatten().enumerate() {
        for piece in parts.slices(if i == 0 { conn.cursor.frame_offset() } else { 0 }) {
            if !piece.is_empty() {
                slices[slices_count] = IoSlice::new(piece);
                slices_count += 1;
            }
        }
    }
    let total: usize = slices[..slices_count].iter().map(|slice| slice.len()).sum();
    let sent = transport.send_vectored(key, &slices[..slices_count])?;
    tally.took(sent);
    let mut left = sent;
    let of_entries = entries.iter().flatten();
    for ((parts, frame), entry) in parts.iter().flatten().zip(frames.iter().flatten()).zip(of_entries) {
        let wanted = parts.len() - conn.cursor.frame_offset();
        // A frame counts when it is begun.
        if !conn.cursor.is_mid_frame() && left > 0 {
            let what = (session, &*entry.dispatch);
            tally.started((&mut conn.sent, way, SentBy::Form(form)), what, frame, conn.cursor.next_seq(), wanted);
        }
        if left < wanted {
            conn.cursor.add_sent(left);
            if conn.cursor.is_mid_frame() && may_be_dropped(&entry.dispatch) {
                parts.slices(conn.cursor.frame_offset()).iter().for_each(|rest| conn.send.keep(rest));
                conn.cursor.advance();
            }
            break;
        }
        left -= wanted;
        conn.cursor.advance();
    }
    if sent < total { Err(PumpError::Full) } else { Ok(()) }
}
