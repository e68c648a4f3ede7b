//! Clients: payloads of simulated clients, as those of real ones, in masked frames.

use crate::{
    crowd,
    frames::{frame, text_frame},
};
use anyhow::Result;
use guildhall_stdx::Rng;
use serde_json::json;

const OP_GUILD_SUBSCRIPTIONS_BULK: u64 = 37;
/// Of a desktop client: docs/protocol/reference.md §8.1.
const CAPABILITIES: u64 = 1_734_653;
/// Members whose presence an active client follows: open profiles and conversations.
const WATCHED: usize = 4;

/// IDENTIFY of a member. The bench answers the check of the token itself, but a node limits IDENTIFYs per token. A
/// text, because a tree of values took a tenth of the CPU time that counts as that of starting a session.
pub fn identify(member: usize) -> Vec<u8> {
    text_frame(&format!(
        r#"{{"op":2,"d":{{"token":"bench.tokens-have-this-length.{member:010}","capabilities":{CAPABILITIES},
           "properties":{{"os":"Windows","browser":"Discord Client","device":""}},
           "presence":{{"status":"online","since":0,"activities":[],"afk":false}},
           "compress":false,"client_state":{{"guild_versions":{{}}}}}}}}"#
    ))
}

/// A client displays the guild: one of its channels with the first rows of its member list, and the
/// presence of a few members.
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
