//! Prepared deflate: permessage-deflate without context takeover, the body compressed once for all.
//!
//! The blocks of the body and its closing brace are made when the event is; in front of them goes the recipient's head,
//! up to `"d":`, as a stored block of its own. The result is a message of RFC 7692 §7.2.1, without the flush at its
//! end.

use super::mode::{Mode, Reader};
use anyhow::{Context as _, Result};
use guildhall_codec::{DispatchFrame, Framing, StreamCompressor, ZlibParams};
use guildhall_traffic::Event;

/// The two bytes in front of a zlib stream, which raw deflate does not have.
const ZLIB_HEADER_BYTES: usize = 2;
/// The flush at the end of a message, which is not sent.
const TAIL: [u8; 4] = [0x00, 0x00, 0xff, 0xff];

/// The event's blocks, until the next one comes.
#[derive(Default)]
pub struct PreparedDeflate {
    blocks: Vec<u8>,
}

impl Mode for PreparedDeflate {
    fn prepare(&mut self, _: &Event, _: usize, frame: &mut DispatchFrame) -> Result<()> {
        let mut wire = Vec::new();
        StreamCompressor::zlib(ZlibParams::default())?.compress(&[frame.body(), b"}"], &mut wire)?;
        let blocks = wire.strip_suffix(&TAIL).and_then(|wire| wire.get(ZLIB_HEADER_BYTES..));
        self.blocks.clear();
        self.blocks.extend_from_slice(blocks.context("a flush ends in four known bytes")?);
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        Ok(())
    }

    fn deliver(&mut self, _: usize, _: &Event, frame: &mut DispatchFrame, seq: u64, out: &mut Vec<u8>) -> Result<()> {
        let parts = frame.parts(seq, Framing::None);
        // RFC 1951 §3.2.4: not the last block, stored, its length and that inverted.
        let length = parts.head.len() as u16;
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(&parts.head);
        out.extend_from_slice(&self.blocks);
        Ok(())
    }

    fn state_bytes(&self, _: usize) -> usize {
        0
    }

    fn reader(&self) -> Result<Reader> {
        Ok(Reader::Deflate)
    }
}
