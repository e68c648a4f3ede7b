//! Opcodes: what kind of payload it is.
//!
//! Spec  docs/protocol.md §1.3.

/// An opcode that a client may send. Anything else closes the connection with 4001.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// 1, and 40 (QoS): answered by op 11.
    Heartbeat,
    /// 2
    Identify,
    /// 3
    PresenceUpdate,
    /// 4
    VoiceStateUpdate,
    /// 6
    Resume,
    /// 8
    RequestGuildMembers,
    /// 40: a heartbeat with measurements around it.
    QosHeartbeat,
    /// 41: the only other opcode that clients send before they identify.
    TimeSpentSession,
    /// Known, and safe to ignore: signalling of features that have no server side here.
    Ignored(u8),
}

impl Opcode {
    /// The opcode a client may send under this number, if there is one.
    #[must_use]
    pub fn from_client(op: u64) -> Option<Self> {
        Some(match op {
            1 => Self::Heartbeat,
            2 => Self::Identify,
            3 => Self::PresenceUpdate,
            4 => Self::VoiceStateUpdate,
            6 => Self::Resume,
            8 => Self::RequestGuildMembers,
            40 => Self::QosHeartbeat,
            41 => Self::TimeSpentSession,
            5 | 12..=39 | 42 | 43 => Self::Ignored(op as u8),
            _ => return None,
        })
    }
}

/// Opcodes that only the gateway sends.
pub mod from_gateway {
    /// "Send me a heartbeat now."
    pub const HEARTBEAT: u8 = 1;
    /// "Go away and resume."
    pub const RECONNECT: u8 = 7;
    /// "This session is not (or no longer) usable."
    pub const INVALID_SESSION: u8 = 9;
    /// The first message on every connection.
    pub const HELLO: u8 = 10;
    /// The answer to a heartbeat.
    pub const HEARTBEAT_ACK: u8 = 11;
}
