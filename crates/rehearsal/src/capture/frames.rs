//! Frames: the borders of the gateway's WebSocket frames in its stream of bytes.
//!
//! Limits      `PAYLOAD_BYTES_MAX` per frame.     Spec  RFC 6455 §5.2.

use anyhow::{Result, ensure};

/// Longest payload.
pub(crate) const PAYLOAD_BYTES_MAX: u64 = 64 << 20;

/// A complete frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub opcode: u8,
    pub fin: bool,
    pub wire_bytes: u64,
    pub payload: Vec<u8>,
}

/// Finds frames in pieces of a stream. Frames of a gateway are not masked.
#[derive(Debug, Default)]
pub(crate) struct FrameFinder {
    held: Vec<u8>,
}

impl FrameFinder {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next complete frame.
    ///
    /// # Errors
    /// A frame that is masked, compressed by itself, or too long.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>> {
        let [first, second, ..] = *self.held else { return Ok(None) };
        ensure!(first & 0x70 == 0, "a frame of the gateway has an extension that was not agreed");
        ensure!(second & 0x80 == 0, "a frame of the gateway is masked");
        let (header_bytes, payload_bytes) = match second & 0x7f {
            126 => match self.held.get(2..4) {
                Some(&[a, b]) => (4, u64::from(u16::from_be_bytes([a, b]))),
                _ => return Ok(None),
            },
            127 => match self.held.get(2..10).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()) {
                Some(bytes) => (10, u64::from_be_bytes(bytes)),
                None => return Ok(None),
            },
            short => (2, u64::from(short)),
        };
        ensure!(payload_bytes <= PAYLOAD_BYTES_MAX, "a frame of the gateway has {payload_bytes} bytes");
        let end = header_bytes + payload_bytes as usize;
        if self.held.len() < end {
            return Ok(None);
        }
        let payload = self.held[header_bytes..end].to_vec();
        self.held.drain(..end);
        Ok(Some(Piece { opcode: first & 0x0f, fin: first & 0x80 != 0, wire_bytes: end as u64, payload }))
    }
}

/// Name of an opcode in a file.
pub(crate) fn kind(opcode: u8) -> &'static str {
    match opcode {
        0 => "continuation",
        1 => "text",
        2 => "binary",
        8 => "close",
        9 => "ping",
        10 => "pong",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_ws_proto::{Opcode, append_frame};

    #[test]
    fn frames_are_found_however_the_stream_is_cut() {
        let payloads: Vec<Vec<u8>> = [0, 1, 125, 126, 70_000].iter().map(|bytes| vec![7; *bytes]).collect();
        let mut stream = Vec::new();
        payloads.iter().for_each(|payload| append_frame(Opcode::Binary, payload, &mut stream));
        for size in [1, 2, 3, 1_000, 100_000] {
            let mut finder = FrameFinder::default();
            let mut found = Vec::new();
            for piece in stream.chunks(size) {
                finder.push(piece);
                while let Some(piece) = finder.next().unwrap() {
                    found.push(piece);
                }
            }
            assert_eq!(found.iter().map(|of| of.wire_bytes).sum::<u64>(), stream.len() as u64);
            assert_eq!(found.into_iter().map(|of| of.payload).collect::<Vec<_>>(), payloads);
        }
        let mut finder = FrameFinder::default();
        finder.push(&[0x82, 0x85]);
        assert!(finder.next().is_err());
    }
}
