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
    /// 14, deprecated: what the client looks at in one guild.
    GuildSubscription,
    /// 30: which of the entities the client remembers still exist.
    GetDeletedEntityIds,
    /// 31
    RequestSoundboardSounds,
    /// 34
    RequestLastMessages,
    /// 35
    SearchRecentMembers,
    /// 36, deprecated.
    RequestChannelStatuses,
    /// 37: what the client looks at in several guilds.
    GuildSubscriptionsBulk,
    /// 38: channels that came obfuscated, and may be viewed now.
    GuildChannelsResync,
    /// 39
    RequestChannelMemberCount,
    /// 40: a heartbeat with measurements around it.
    QosHeartbeat,
    /// 41: the only other opcode that clients send before they identify.
    TimeSpentSession,
    /// 43
    RequestChannelInfo,
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
            14 => Self::GuildSubscription,
            30 => Self::GetDeletedEntityIds,
            31 => Self::RequestSoundboardSounds,
            34 => Self::RequestLastMessages,
            35 => Self::SearchRecentMembers,
            36 => Self::RequestChannelStatuses,
            37 => Self::GuildSubscriptionsBulk,
            38 => Self::GuildChannelsResync,
            39 => Self::RequestChannelMemberCount,
            40 => Self::QosHeartbeat,
            41 => Self::TimeSpentSession,
            43 => Self::RequestChannelInfo,
            5 | 12 | 13 | 15..=29 | 32 | 33 | 42 => Self::Ignored(op as u8),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_number_and_no_other() {
        let known = |op: &u64| Opcode::from_client(*op).is_some();
        let expected: Vec<u64> = (1..=6).chain([8]).chain(12..=43).collect();
        assert_eq!((0..300).filter(known).collect::<Vec<u64>>(), expected);
        assert_eq!(Opcode::from_client(u64::MAX), None);
        assert_eq!(Opcode::from_client(13), Some(Opcode::Ignored(13)));
        assert_eq!(Opcode::from_client(37), Some(Opcode::GuildSubscriptionsBulk));
    }
}
