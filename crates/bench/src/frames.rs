//! Frames: payloads of simulated clients for a partition without sockets, and what it writes to.

use anyhow::{Context as _, Result};
use guildhall_codec::{BodyDeflater, Encoding, SharedWindow, encode_payload_to_gateway};
use guildhall_partition::{Closed, Transport};
use guildhall_stdx::SlotKey;
use guildhall_ws_proto::{Opcode, append_masked_frame};
use serde_json::{Value, json};
use std::io::IoSlice;

const OP_HEARTBEAT: u64 = 1;
pub const OP_IDENTIFY: u64 = 2;
const MASK_KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A message in a frame, as a client sends it.
pub fn frame(opcode: u64, d: &Value) -> Result<Vec<u8>> {
    let (mut payload, mut frame) = (Vec::new(), Vec::new());
    encode_payload_to_gateway(Encoding::Json, opcode, d, &mut payload).context("encoding a client's payload")?;
    append_masked_frame(Opcode::Text, MASK_KEY, &payload, &mut frame);
    Ok(frame)
}

/// The same of a payload that is JSON already.
pub fn text_frame(payload: &str) -> Vec<u8> {
    let mut frame = Vec::with_capacity(payload.len() + 16);
    append_masked_frame(Opcode::Text, MASK_KEY, payload.as_bytes(), &mut frame);
    frame
}

/// A heartbeat that acknowledges everything: its number is above every sent one.
pub fn heartbeat() -> Result<Vec<u8>> {
    frame(OP_HEARTBEAT, &json!(i64::MAX))
}

/// Sockets that accept everything and count it, compressed by `deflater` if there is one.
#[derive(Default)]
pub struct Sink {
    pub bytes: u64,
    deflater: Option<BodyDeflater>,
    scratch: Vec<u8>,
}

impl Sink {
    /// Compresses each frame by itself, as a library under an application does.
    pub fn deflating() -> Self {
        Self { deflater: Some(BodyDeflater::default()), ..Self::default() }
    }

    /// Frames that it has compressed.
    pub fn compressed_count(&self) -> u64 {
        self.deflater.as_ref().map_or(0, BodyDeflater::compressed_count)
    }
}

impl Transport for Sink {
    fn send(&mut self, _conn: SlotKey, bytes: &[u8]) -> Result<usize, Closed> {
        let mut wire_bytes = bytes.len();
        if let Some(deflater) = &mut self.deflater {
            let header_bytes = match bytes.get(1) {
                Some(126) => 4,
                Some(127) => 10,
                _ => 2,
            };
            self.scratch.clear();
            if deflater.compress(SharedWindow::Full, &[&bytes[header_bytes..]], &mut self.scratch).is_ok() {
                wire_bytes = header_bytes + self.scratch.len();
            }
        }
        self.bytes += wire_bytes as u64;
        Ok(bytes.len())
    }

    fn send_vectored(&mut self, _conn: SlotKey, slices: &[IoSlice<'_>]) -> Result<usize, Closed> {
        let bytes = slices.iter().map(|slice| slice.len()).sum::<usize>();
        self.bytes += bytes as u64;
        Ok(bytes)
    }

    fn pause_reading(&mut self, _conn: SlotKey) {}
    fn resume_reading(&mut self, _conn: SlotKey) {}
    fn finish(&mut self, _conn: SlotKey) {}
    fn drop_conn(&mut self, _conn: SlotKey) {}
}
