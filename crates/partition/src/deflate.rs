//! permessage-deflate on connections: the form in which dispatches are written.
//!
//! Owns        `Form`.
//! Invariants  F1 on a connection with a context (takeover) every dispatch goes through the context and everything
//!             else is uncompressed, so that the context and the client's history agree. F2 without takeover a
//!             connection has no state in either direction.
//! Not here    messages of clients (`inflate`), negotiation (ws-proto), layout of prepared frames (codec).
//!             Spec  RFC 7692 §6, §7.2.

use guildhall_codec::{BodyDeflater, DispatchFrame, FrameParts, Framing, SharedWindow};

/// Form of dispatches on connections without a context of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Uncompressed.
    Plain(Framing),
    /// Compressed once for all recipients.
    Prepared(SharedWindow),
}

impl Form {
    /// Whether bodies are compressed in it.
    pub fn compresses(self) -> bool {
        matches!(self, Self::Prepared(_))
    }

    /// Compresses the shared body, unless that is done.
    pub fn prepare(self, frame: &mut DispatchFrame, deflater: &mut BodyDeflater) {
        if let Self::Prepared(window) = self {
            frame.prepare(window, deflater);
        }
    }

    /// The whole frame for one recipient, in place.
    pub fn write<'f>(self, frame: &'f mut DispatchFrame, seq: u64, deflater: &mut BodyDeflater) -> &'f [u8] {
        self.prepare(frame, deflater);
        match self {
            Self::Plain(framing) => frame.write_for(seq, framing),
            Self::Prepared(window) => frame.write_prepared(seq, window),
        }
    }

    /// Bytes of the uncompressed payload in a frame of this form. A plain frame has it behind its header, so that its
    /// size need not be made again from the envelope.
    pub fn raw_bytes(self, frame: &DispatchFrame, seq: u64, frame_bytes: usize) -> usize {
        match self {
            Self::Plain(Framing::WebSocket { .. }) => frame_bytes - header_bytes(frame_bytes),
            Self::Plain(Framing::None) | Self::Prepared(_) => frame.payload_bytes(seq),
        }
    }

    /// The frame in pieces, once it is prepared.
    pub fn parts(self, frame: &DispatchFrame, seq: u64) -> FrameParts<'_> {
        match self {
            Self::Plain(framing) => frame.parts(seq, framing),
            Self::Prepared(window) => frame.prepared_parts(seq, window),
        }
    }
}

/// Bytes of the header of an unmasked WebSocket frame, from those of the whole frame.
const fn header_bytes(frame_bytes: usize) -> usize {
    match frame_bytes {
        0..=127 => 2,
        128..=65_539 => 4,
        _ => 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_ws_proto::{FrameHeader, Opcode};

    #[test]
    fn the_header_follows_from_the_size_of_the_frame() {
        for payload_bytes in [0, 1, 125, 126, 127, 128, 65_534, 65_535, 65_536, 65_540, 1 << 20] {
            let header = FrameHeader::new(Opcode::Text, payload_bytes);
            assert_eq!(header_bytes(header.len() + payload_bytes), header.len(), "{payload_bytes}");
        }
    }
}
