//! Clients: what the pretended clients say, and the sockets they hear it on.
//!
//! Invariants  what is said is what real clients say, in masked frames. A socket takes everything at once.

use crate::bench::crowd;
use anyhow::{Context, Result};
use guildhall_codec::{Encoding, encode_payload_to_gateway};
use guildhall_partition::{Dead, Link};
use guildhall_stdx::{Rng, SlotKey};
use guildhall_ws_proto::{Opcode, append_masked_frame};
use serde_json::{Value, json};
use std::io::IoSlice;

const OP_HEARTBEAT: u64 = 1;
const OP_IDENTIFY: u64 = 2;
const OP_GUILD_SUBSCRIPTIONS_BULK: u64 = 37;
const MASK_KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
/// Of a desktop client: docs/protocol.md §8.1.
const CAPABILITIES: u64 = 1_734_653;
/// People whose profile somebody who looks at a guild has open, or talks to: their presence is followed.
const WATCHED: usize = 4;

/// A message in a frame, as a client sends it.
fn frame(opcode: u64, d: &Value) -> Result<Vec<u8>> {
    let (mut payload, mut frame) = (Vec::new(), Vec::new());
    encode_payload_to_gateway(Encoding::Json, opcode, d, &mut payload).context("encoding what a client says")?;
    append_masked_frame(Opcode::Text, MASK_KEY, &payload, &mut frame);
    Ok(frame)
}

/// IDENTIFY, the same for all: tokens are not looked at here.
pub fn identify() -> Result<Vec<u8>> {
    let properties = json!({"os": "Windows", "browser": "Discord Client", "device": ""});
    let presence = json!({"status": "online", "since": 0, "activities": [], "afk": false});
    let d = json!({
        "token": "the.tokens.bytes-are-not-looked-at-here",
        "capabilities": CAPABILITIES,
        "properties": properties,
        "presence": presence,
        "compress": false,
        "client_state": {"guild_versions": {}},
    });
    frame(OP_IDENTIFY, &d)
}

/// A heartbeat that says that all was read: more than was sent stands for all that was sent.
pub fn heartbeat() -> Result<Vec<u8>> {
    frame(OP_HEARTBEAT, &json!(i64::MAX))
}

/// A client opens the guild: one of its channels with the first rows of the list beside it, and the presence of a few people.
pub fn subscribe(rng: &mut Rng, people: usize) -> Result<Vec<u8>> {
    let channel = crowd::channel_id(rng.below(crowd::PUBLIC_CHANNELS as u64) as usize).to_string();
    let members: Vec<String> =
        (0..WATCHED).map(|_| crowd::user_id(rng.below(people as u64) as usize).to_string()).collect();
    let subscription = json!({
        "typing": true,
        "activities": true,
        "threads": true,
        "members": members,
        "channels": {channel: [[0, 99]]},
    });
    frame(OP_GUILD_SUBSCRIPTIONS_BULK, &json!({"subscriptions": {crowd::GUILD.to_string(): subscription}}))
}

/// Sockets that take everything and count it.
#[derive(Debug, Default)]
pub struct Void {
    pub bytes: u64,
}

impl Link for Void {
    fn send(&mut self, _conn: SlotKey, bytes: &[u8]) -> Result<usize, Dead> {
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn send_vectored(&mut self, _conn: SlotKey, slices: &[IoSlice<'_>]) -> Result<usize, Dead> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        self.bytes += bytes as u64;
        Ok(bytes)
    }

    fn set_reading(&mut self, _conn: SlotKey, _reading: bool) {}
    fn finish(&mut self, _conn: SlotKey) {}
    fn drop_conn(&mut self, _conn: SlotKey) {}
}
