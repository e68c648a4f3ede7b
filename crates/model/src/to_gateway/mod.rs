//! Payloads that clients send, read as leniently as docs/protocol.md §12 asks.
//!
//! Doors       one `parse(d)` per opcode, from a decoded `Value`.
//! Invariants  nothing here panics or allocates more than its input; what is malformed but harmless is
//!             dropped, what the protocol names an error is an error with its close code in one place.

mod identify;
mod members;
mod presence;
mod resume;
mod voice;

pub use identify::{Identify, IdentifyError, ShardId};
pub use members::{MemberQuery, RequestGuildMembers};
pub use presence::PresenceUpdate;
pub use resume::Resume;
pub use voice::VoiceStateUpdate;

use crate::id::Id;
use serde_json::Value;

/// The payload does not have the shape its opcode asks for: close code 4001.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("payload of {opcode} is invalid: {problem}")]
pub struct PayloadError {
    /// Name of the opcode.
    pub opcode: &'static str,
    /// What is wrong and what is expected.
    pub problem: &'static str,
}

/// An id as a string, a number, or an array of one of those.
fn id_of<T>(value: &Value) -> Option<Id<T>> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_u64().filter(|raw| *raw <= u64::MAX >> 1).map(Id::new),
        Value::Array(items) if items.len() == 1 => id_of(&items[0]),
        _ => None,
    }
}

/// A token without the `Bot ` or `Bearer ` that some libraries put in front.
fn bare_token(token: &str) -> String {
    let token = token.trim();
    ["Bot ", "Bearer "].iter().find_map(|prefix| token.strip_prefix(prefix)).unwrap_or(token).trim().to_owned()
}
