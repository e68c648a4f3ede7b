//! Names of the opcodes, as scenarios and verdicts write them.

/// Numbers and names of the opcodes that scenarios name. Others are written as numbers.
const NAMES: [(u64, &str); 14] = [
    (0, "dispatch"),
    (1, "heartbeat"),
    (2, "identify"),
    (3, "presence_update"),
    (4, "voice_state_update"),
    (6, "resume"),
    (7, "reconnect"),
    (8, "request_guild_members"),
    (9, "invalid_session"),
    (10, "hello"),
    (11, "heartbeat_ack"),
    (14, "guild_subscriptions"),
    (31, "request_soundboard_sounds"),
    (37, "guild_subscriptions_bulk"),
];

pub(crate) const DISPATCH: u64 = 0;
pub(crate) const HEARTBEAT: u64 = 1;
pub(crate) const IDENTIFY: u64 = 2;
pub(crate) const RESUME: u64 = 6;
pub(crate) const RECONNECT: u64 = 7;
pub(crate) const INVALID_SESSION: u64 = 9;
pub(crate) const HELLO: u64 = 10;
pub(crate) const HEARTBEAT_ACK: u64 = 11;
pub(crate) const QOS_HEARTBEAT: u64 = 40;

/// `IDENTIFY`, or `op 99`.
pub(crate) fn name(op: u64) -> String {
    match NAMES.iter().find(|(number, _)| *number == op) {
        Some((_, name)) => name.to_uppercase(),
        None => format!("op {op}"),
    }
}

/// The opcode of a name or of a number in quotes.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let named = NAMES.iter().find(|(_, name)| *name == text).map(|(number, _)| *number);
    named.or_else(|| text.parse().ok().filter(|number| *number <= 1_000_000))
}

/// The name that is most like `text`.
pub(crate) fn nearest(text: &str) -> &'static str {
    let names = NAMES.iter().map(|(_, name)| *name);
    names.min_by_key(|name| strsim::damerau_levenshtein(name, text)).unwrap_or("identify")
}
