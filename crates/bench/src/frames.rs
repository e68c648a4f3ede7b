//! Frames: what pretended clients say to a partition without sockets.

use anyhow::{Context as _, Result};
use guildhall_codec::{Encoding, encode_payload_to_gateway};
use guildhall_ws_proto::{Opcode, append_masked_frame};
use serde_json::{Value, json};

const OP_HEARTBEAT: u64 = 1;
pub const OP_IDENTIFY: u64 = 2;
const MASK_KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A message in a frame, as a client sends it.
pub fn frame(opcode: u64, d: &Value) -> Result<Vec<u8>> {
    let (mut payload, mut frame) = (Vec::new(), Vec::new());
    encode_payload_to_gateway(Encoding::Json, opcode, d, &mut payload).context("encoding what a client says")?;
    append_masked_frame(Opcode::Text, MASK_KEY, &payload, &mut frame);
    Ok(frame)
}

/// A heartbeat that says that all was read: more than was sent stands for all that was sent.
pub fn heartbeat() -> Result<Vec<u8>> {
    frame(OP_HEARTBEAT, &json!(i64::MAX))
}
