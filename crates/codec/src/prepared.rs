//! Prepared frames: a dispatch's body compressed once, for all connections that agreed on permessage-deflate without
//! context takeover.
//!
//! Owns        the layout of such messages: the recipient's bytes are in a stored block, the shared bytes in blocks
//!             that were compressed once.
//! Doors       `DispatchFrame::prepare` when the first recipient needs it, then `write_prepared` or `prepared_parts`
//!             for each.
//! Invariants  P1 a message inflates to exactly what `write_for` writes. P2 the shared blocks are made once per
//!             (encoding, redaction, window), never moved, and each recipient costs a copy of its head. P3 the same seq
//!             gives the same bytes each time. (tests `p1_*`, `p2_*`)
//! Limits      Kept only where it is smaller than the body, so a dispatch holds at most twice its body.
//! Not here    who agreed on what; contexts (stream::deflate).     Spec  RFC 7692 §7.2; RFC 1951 §3.2.4; ADR 17.
//!
//! JSON has the seq in front of the body, so a message is: a stored block with everything up to the body, the shared
//! blocks. ETF has it behind, so a message is: the shared blocks, a stored block with the rest, the beginning of an
//! empty block. Stored blocks begin and end on whole bytes, and cost five; Huffman codes would save nothing on a head
//! of about forty bytes: its letters have eight bits in the fixed code too.

use guildhall_ws_proto::{FrameHeader, Head, Opcode};
use std::ops::Range;

use crate::etf::IntBytes;
use crate::frame::{
    ETF_HEAD, ETF_OP, FrameParts, Framing, HEAD_BYTES_MAX, JSON_END, JSON_OP, STORED_HEADER_BYTES, SmallHead,
};
use crate::stream::{BodyDeflater, SharedWindow};
use crate::{CodecError, DispatchFrame, Encoding};

/// Shorter bodies are sent as they are: next to their heads, nothing would be saved.
pub const PREPARE_BYTES_MIN: usize = 64;

/// End of a message after a stored block: the header of an empty block without its length (RFC 7692 §7.2.1).
const EMPTY_BLOCK: &[u8] = &[0];

/// The finished forms of a dispatch, one for each window that a recipient has.
#[derive(Debug, Default)]
pub(crate) struct PreparedForms([Form; SharedWindow::COUNT]);

#[derive(Debug, Default)]
enum Form {
    #[default]
    Unmade,
    /// It would be no shorter.
    NotWorthIt,
    Made(Box<Prepared>),
}

/// Room, the shared blocks, room.
#[derive(Debug)]
struct Prepared {
    buffer: Vec<u8>,
    shared: Range<usize>,
}

impl DispatchFrame {
    /// Makes the shared blocks for a window, unless that was done before.
    pub fn prepare(&mut self, window: SharedWindow, deflater: &mut BodyDeflater) {
        if !matches!(self.prepared.0[window as usize], Form::Unmade) {
            return;
        }
        // Without memory for a context, the body is sent uncompressed.
        let made = self.make(window, deflater).ok().flatten();
        self.prepared.0[window as usize] = made.map_or(Form::NotWorthIt, |made| Form::Made(Box::new(made)));
    }

    fn make(&self, window: SharedWindow, deflater: &mut BodyDeflater) -> Result<Option<Prepared>, CodecError> {
        let body = self.body();
        if body.len() < PREPARE_BYTES_MIN {
            return Ok(None);
        }
        let mut buffer = Vec::with_capacity(HEAD_BYTES_MAX + body.len() / 2 + 64);
        buffer.resize(HEAD_BYTES_MAX, 0);
        let start = buffer.len();
        let plain_bytes = match self.encoding() {
            Encoding::Json => {
                deflater.compress(window, &[body, JSON_END], &mut buffer)?;
                body.len() + JSON_END.len()
            }
            Encoding::Etf => {
                deflater.compress(window, &[ETF_HEAD, body, ETF_OP], &mut buffer)?;
                // More follows: the flush is made whole.
                buffer.extend_from_slice(&[0, 0, 0xff, 0xff]);
                ETF_HEAD.len() + body.len() + ETF_OP.len()
            }
        };
        let shared = start..buffer.len();
        let extra_bytes = STORED_HEADER_BYTES + EMPTY_BLOCK.len();
        if shared.len() + extra_bytes >= plain_bytes {
            return Ok(None);
        }
        if self.encoding() == Encoding::Etf {
            buffer.resize(buffer.len() + HEAD_BYTES_MAX, 0);
        }
        buffer.shrink_to_fit();
        Ok(Some(Prepared { buffer, shared }))
    }

    /// Writes the head for `seq` around the shared blocks, in place, and returns the whole frame, WebSocket header
    /// included. If compression saves nothing, the frame is uncompressed and without RSV1.
    ///
    /// Takes some tens of nanoseconds for a body of any size: it allocates and compresses nothing.
    ///
    /// # Panics
    /// If it was not prepared for this window.
    pub fn write_prepared(&mut self, seq: u64, window: SharedWindow) -> &[u8] {
        if matches!(self.prepared.0[window as usize], Form::NotWorthIt) {
            return self.write_for(seq, Framing::websocket(self.encoding()));
        }
        let (head, tail) = self.around(seq, window);
        let Form::Made(made) = &mut self.prepared.0[window as usize] else { unreachable!("`around` has seen to it") };
        let Prepared { buffer, shared } = &mut **made;
        let (start, end) = (shared.start - head.len(), shared.end + tail.len());
        buffer[start..shared.start].copy_from_slice(&head);
        buffer[shared.end..end].copy_from_slice(&tail);
        &buffer[start..end]
    }

    /// The same in pieces, leaving this one untouched: for frames that wait in queues.
    ///
    /// # Panics
    /// As `write_prepared`.
    pub fn prepared_parts(&self, seq: u64, window: SharedWindow) -> FrameParts<'_> {
        if matches!(self.prepared.0[window as usize], Form::NotWorthIt) {
            return self.parts(seq, Framing::websocket(self.encoding()));
        }
        let (head, tail) = self.around(seq, window);
        let made = self.made(window);
        FrameParts { head, body: &made.buffer[made.shared.clone()], tail }
    }

    /// Bytes held in addition to the body, for inspection.
    pub fn prepared_bytes(&self) -> usize {
        let held = |form: &Form| if let Form::Made(made) = form { made.buffer.capacity() } else { 0 };
        self.prepared.0.iter().map(held).sum()
    }

    fn made(&self, window: SharedWindow) -> &Prepared {
        match &self.prepared.0[window as usize] {
            Form::Made(made) => made,
            Form::Unmade | Form::NotWorthIt => panic!("the frame was not prepared for this window"),
        }
    }

    /// The bytes before and after the shared blocks.
    fn around(&self, seq: u64, window: SharedWindow) -> (SmallHead, SmallHead) {
        let shared_bytes = self.made(window).shared.len();
        let (mut head, mut tail) = (SmallHead::EMPTY, SmallHead::EMPTY);
        let mut digits = itoa::Buffer::new();
        match self.encoding() {
            Encoding::Json => {
                let pieces = [self.name_piece(), digits.format(seq).as_bytes(), JSON_OP];
                let stored_bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
                head.push(&FrameHeader::new(
                    Head::compressed(Opcode::Text),
                    STORED_HEADER_BYTES + stored_bytes + shared_bytes,
                ));
                push_stored(&mut head, stored_bytes, pieces);
            }
            Encoding::Etf => {
                let seq = IntBytes::from_u64(seq);
                let stored_bytes = seq.len() + self.name_piece().len();
                push_stored(&mut tail, stored_bytes, [&seq, self.name_piece(), &[]]);
                tail.push(EMPTY_BLOCK);
                head.push(&FrameHeader::new(Head::compressed(Opcode::Binary), shared_bytes + tail.len()));
            }
        }
        (head, tail)
    }
}

fn push_stored(head: &mut SmallHead, stored_bytes: usize, pieces: [&[u8]; 3]) {
    let length = (stored_bytes as u16).to_le_bytes();
    head.push(&[0, length[0], length[1], !length[0], !length[1]]);
    pieces.iter().for_each(|piece| head.push(piece));
}
