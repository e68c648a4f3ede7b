//! Writer: the next frames of one connection, to its socket.
//!
//! Owns        the form of each write: frames from shared bodies, compressed frames, payloads compressed alone, and
//!             control frames.
//! Invariants  W4 no connection refers to a dispatch that may be dropped (`Retention`) while its frame is written in
//!             part.
//! Limits      `GATHER_FRAMES` frames per write; compressed and unsent bytes are one write: `COMPRESSED_BYTES` and one
//!             more message at most.
//! Not here    which connection writes when: `pump`.     Spec  docs/protocol.md §2.3, §2.4.

use crate::{
    conn::{Conn, Control, Phase},
    counters::Counters,
    sent::{Tally, Way},
    stream_codec::Matchers,
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
/// With so many compressed bytes a write has enough.
const COMPRESSED_BYTES: usize = 4 << 10;
/// Own dispatches of at least this many bytes are compressed for clients that asked for payload compression.
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
    link: &mut impl Transport,
    counters: &mut Counters,
) -> Result<(), PumpError> {
    if conn.unsent.is_empty() {
        return Ok(());
    }
    let sent = link.send(key, &conn.unsent[conn.unsent_at..])?;
    counters.sent_bytes += sent as u64;
    conn.unsent_at += sent;
    if conn.unsent_at < conn.unsent.len() {
        return Err(PumpError::Full);
    }
    conn.clear_unsent();
    Ok(())
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
    let opcode = opcode_of(conn.encoding);
    match control {
        Control::Frame(frame) => Ok(frame),
        Control::Payload(payload) => match (&mut conn.compressor, conn.deflate) {
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
                    Phase::Established(_) => matchers.compress(compressor, conn.encoding, &payload, &mut compressed),
                    // Nobody is owed a context before they have said who they are.
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
pub fn ends_write(conn: &Conn, dispatch: &Dispatch, seq: u64) -> bool {
    dispatch.is_tombstone() || dispatch.is_suppressed() && seq <= conn.replay_end
}

/// Whether replay buffers may drop the dispatch: then the rest of a frame that was written in part needs a copy.
pub fn may_be_dropped(dispatch: &Dispatch) -> bool {
    dispatch.retention() != Retention::Lasting
}

/// Whether nothing is left to write once the dispatches before `seq` are out: only then may they wait in the link, for
/// nothing may be written behind what waits.
fn is_all(conn: &Conn, session: &Session, seq: u64) -> bool {
    seq > session.replay.last_seq() && conn.control.is_empty() && session.profile.member_requests.is_empty()
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
    (link, may_wait): (&mut impl Transport, bool),
    tally: &mut Tally<'_>,
) -> Result<(), PumpError> {
    let mut result = Ok(());
    let mut begin = 0;
    scratch.clear();
    for count in 0..GATHER_FRAMES {
        let Some(entry) = session.replay.entry(conn.next_seq) else { break };
        let goes_alone = entry.dispatch.is_lazy();
        let is_stopped = goes_alone || ends_write(conn, &entry.dispatch, conn.next_seq);
        if count > 0 && (is_stopped || scratch.len() >= COMPRESSED_BYTES) {
            break;
        }
        let start = scratch.len();
        scratch.resize(start + HEADER_BYTES_MAX, 0);
        let what = (&*entry.dispatch, entry.redaction);
        let Some(compressor) = &mut conn.compressor else { return Err(PumpError::Codec) };
        let begun = tally.time(link);
        let written = matchers.write(compressor, (session, turn), what, conn.next_seq, scratch);
        tally.timed(begun, link, &entry.dispatch, conn.way);
        if written.is_err() {
            // Those before it are whole.
            scratch.truncate(start);
            result = Err(PumpError::Codec);
            break;
        }
        let payload_bytes = scratch.len() - start - HEADER_BYTES_MAX;
        let header = match conn.deflate {
            Some(_) => FrameHeader::new(Head::compressed(opcode_of(session.encoding)), payload_bytes),
            None => FrameHeader::new(Opcode::Binary, payload_bytes),
        };
        let frame_at = put_header(scratch, start, &header);
        let frame = entry.dispatch.frame(session.encoding, entry.redaction);
        tally.begun(&entry.dispatch, conn.way, &frame, conn.next_seq, header.len() + payload_bytes);
        conn.next_seq += 1;
        if count == 0 {
            begin = frame_at;
        }
        if goes_alone {
            break;
        }
    }
    let frames = &scratch[begin..];
    if frames.is_empty() {
        return result;
    }
    if may_wait && result.is_ok() && is_all(conn, session, conn.next_seq) && link.queue_send(key, frames) {
        tally.took(frames.len());
        return Ok(());
    }
    let sent = link.send(key, frames)?;
    tally.took(sent);
    if sent < frames.len() {
        conn.keep_unsent(&frames[sent..]);
        return result.and(Err(PumpError::Full));
    }
    result
}

pub fn is_worth_compressing(conn: &Conn, session: &Session) -> bool {
    conn.frame_offset == 0
        && session.replay.entry(conn.next_seq).is_some_and(|entry| {
            entry.dispatch.is_local()
                && entry.dispatch.frame(session.encoding, entry.redaction).body().len() >= PAYLOAD_COMPRESS_MIN_BYTES
        })
}

/// One self-contained zlib stream in a binary frame; only for dispatches made for this session. It goes without RSV1,
/// so it is not compressed twice where permessage-deflate was agreed on too.
pub fn write_payload_compressed(
    conn: &mut Conn,
    session: &Session,
    link: &impl Transport,
    tally: &mut Tally<'_>,
) -> Result<(), PumpError> {
    let Some(entry) = session.replay.entry(conn.next_seq) else { return Err(PumpError::Codec) };
    let mut compressed = Vec::new();
    let mut frame = entry.dispatch.frame(session.encoding, entry.redaction);
    let way = Way::of_payload(session.encoding);
    let begun = tally.time(link);
    deflate_once(frame.write_for(conn.next_seq, Framing::None), &mut compressed).map_err(|_| PumpError::Codec)?;
    tally.timed(begun, link, &entry.dispatch, way);
    let header = FrameHeader::new(Opcode::Binary, compressed.len());
    tally.begun(&entry.dispatch, way, &frame, conn.next_seq, header.len() + compressed.len());
    conn.keep_unsent(&header);
    conn.keep_unsent(&compressed);
    conn.next_seq += 1;
    Ok(())
}

/// The only dispatch that waits: most connections have one at a time, also when others come in the same batch.
fn write_one(
    conn: &mut Conn,
    key: SlotKey,
    session: &Session,
    deflater: &mut BodyDeflater,
    (link, may_wait): (&mut impl Transport, bool),
    tally: &mut Tally<'_>,
) -> Result<(), PumpError> {
    let entry = session.replay.entry(conn.next_seq).ok_or(PumpError::Forgotten)?;
    let may_wait = may_wait && is_all(conn, session, conn.next_seq + 1);
    let mut frame = entry.dispatch.frame(session.encoding, entry.redaction);
    let form = conn.form(session.encoding);
    let begun = if form.compresses() { tally.time(link) } else { None };
    let bytes = form.write(&mut frame, conn.next_seq, deflater);
    tally.timed(begun, link, &entry.dispatch, conn.way);
    let all = bytes.len();
    let sent = if may_wait && link.queue_send(key, bytes) { all } else { link.send(key, bytes)? };
    let is_apart = sent < all && may_be_dropped(&entry.dispatch);
    if is_apart {
        conn.keep_unsent(&bytes[sent..]);
    }
    tally.took(sent);
    if sent > 0 || is_apart {
        tally.begun(&entry.dispatch, conn.way, &frame, conn.next_seq, all);
    }
    if sent < all {
        if is_apart {
            conn.next_seq += 1;
        } else {
            conn.frame_offset = sent;
        }
        return Err(PumpError::Full);
    }
    conn.next_seq += 1;
    Ok(())
}

/// Up to `GATHER_FRAMES` frames in one write, straight from what their recipients share. A frame begun is finished
/// alone if a control message waits behind it.
pub fn write_shared(
    conn: &mut Conn,
    key: SlotKey,
    session: &Session,
    deflater: &mut BodyDeflater,
    (link, may_wait): (&mut impl Transport, bool),
    tally: &mut Tally<'_>,
) -> Result<(), PumpError> {
    if conn.frame_offset == 0 && conn.next_seq == session.replay.last_seq() {
        return write_one(conn, key, session, deflater, (link, may_wait), tally);
    }
    let form = conn.form(session.encoding);
    let mut entries: [Option<ReplayEntry>; GATHER_FRAMES] = Default::default();
    let mut count = 0;
    let mut count_max = if conn.control.is_empty() { GATHER_FRAMES } else { 1 };
    while count < count_max {
        let seq = conn.next_seq + count as u64;
        let Some(entry) = session.replay.entry(seq) else { break };
        // What is made for this session alone goes out alone.
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
            let begun = tally.time(link);
            form.prepare(&mut frame, deflater);
            tally.timed(begun, link, &entry.dispatch, conn.way);
        }
        Some(frame)
    });
    let parts: [Option<FrameParts<'_>>; GATHER_FRAMES] =
        std::array::from_fn(|i| frames[i].as_ref().map(|frame| form.parts(frame, conn.next_seq + i as u64)));
    let mut slices = [IoSlice::new(&[]); GATHER_FRAMES * 3];
    let mut slices_count = 0;
    for (i, parts) in parts.iter().flatten().enumerate() {
        for piece in parts.slices(if i == 0 { conn.frame_offset } else { 0 }) {
            if !piece.is_empty() {
                slices[slices_count] = IoSlice::new(piece);
                slices_count += 1;
            }
        }
    }
    let total: usize = slices[..slices_count].iter().map(|slice| slice.len()).sum();
    let sent = link.send_vectored(key, &slices[..slices_count])?;
    tally.took(sent);
    let mut left = sent;
    let of_entries = entries.iter().flatten();
    for ((parts, frame), entry) in parts.iter().flatten().zip(frames.iter().flatten()).zip(of_entries) {
        let wanted = parts.len() - conn.frame_offset;
        // A frame counts when it is begun.
        if conn.frame_offset == 0 && left > 0 {
            tally.begun(&entry.dispatch, conn.way, frame, conn.next_seq, wanted);
        }
        if left < wanted {
            conn.frame_offset += left;
            if conn.frame_offset > 0 && may_be_dropped(&entry.dispatch) {
                parts.slices(conn.frame_offset).iter().for_each(|rest| conn.keep_unsent(rest));
                conn.frame_offset = 0;
                conn.next_seq += 1;
            }
            break;
        }
        left -= wanted;
        conn.frame_offset = 0;
        conn.next_seq += 1;
    }
    if sent < total { Err(PumpError::Full) } else { Ok(()) }
}
