//! Payloads that clients send, parsed as leniently as reference.md §12 requires.
//!
//! Doors       one `parse(d)` per opcode, from a decoded `Value`.
//! Invariants  nothing here panics or allocates more than its input. Malformed but harmless input is
//!             dropped; input that the protocol calls an error is an error, and one place maps it to a close code.

mod channels;
mod identify;
mod members;
mod presence;
mod recent_members;
mod remembered;
mod resume;
mod subscriptions;
mod voice;

pub use channels::{
    GuildChannelsResync, RequestChannelInfo, RequestChannelMemberCount, RequestChannelStatuses, RequestLastMessages,
};
pub use identify::{Identify, IdentifyError, ShardId};
pub use members::{MemberQuery, RequestGuildMembers};
pub use presence::PresenceUpdate;
pub use recent_members::SearchRecentMembers;
pub use remembered::{GetDeletedEntityIds, RequestSoundboardSounds};
pub use resume::Resume;
pub use subscriptions::{ChannelRanges, GuildSubscriptions, RowRange, Subscription, SubscriptionPatch};
pub use voice::VoiceStateUpdate;

use crate::id::{GuildId, Id};
use serde_json::{Map, Value};

/// The payload does not have the shape that its opcode requires: close code 4001.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("payload of {opcode} is invalid: {problem}")]
pub struct PayloadError {
    pub opcode: &'static str,
    /// Sent to the client: describes the error and the expected form.
    pub problem: &'static str,
}

/// Reads an id from a string, a number, or an array of one of those.
fn id_of<T>(value: &Value) -> Option<Id<T>> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_u64().filter(|raw| *raw <= u64::MAX >> 1).map(Id::new),
        Value::Array(items) if items.len() == 1 => id_of(&items[0]),
        _ => None,
    }
}

/// The first `max` ids of an array, sorted, without duplicates; none if it is not an array.
fn ids_of<T>(value: &Value, max: usize) -> Option<Vec<Id<T>>> {
    let mut ids: Vec<Id<T>> = value.as_array()?.iter().filter_map(id_of).take(max).collect();
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

/// The id under `key`.
fn required_id<T>(
    opcode: &'static str,
    d: &Map<String, Value>,
    key: &str,
    problem: &'static str,
) -> Result<Id<T>, PayloadError> {
    d.get(key).and_then(id_of).ok_or(PayloadError { opcode, problem })
}

/// The guild id of a payload, and the payload as an object.
fn guild_of<'d>(opcode: &'static str, d: &'d Value) -> Result<(GuildId, &'d Map<String, Value>), PayloadError> {
    let d = d.as_object().ok_or(PayloadError { opcode, problem: "expected an object" })?;
    Ok((required_id(opcode, d, "guild_id", "`guild_id` must be a snowflake")?, d))
}

/// The nonce to echo; none if it is too long or not a string.
fn nonce_of(d: &Map<String, Value>) -> Option<String> {
    d.get("nonce").and_then(Value::as_str).filter(|nonce| nonce.len() <= 32).map(str::to_owned)
}

/// The token without the prefix `Bot ` or `Bearer ` that some libraries add.
fn bare_token(token: &str) -> String {
    let token = token.trim();
    ["Bot ", "Bearer "].iter().find_map(|prefix| token.strip_prefix(prefix)).unwrap_or(token).trim().to_owned()
}
