//! Opcodes: types of payloads.
//!
//! Spec  docs/protocol/reference.md §1.3.

/// An opcode that clients may send. Any other closes the connection with 4001.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// Ops 1 and 40; answered by op 11.
    Heartbeat,
    /// Op 2: opens a session.
    Identify,
    /// Op 3: sets the presence.
    PresenceUpdate,
    /// Op 4: joins, changes or leaves voice.
    VoiceStateUpdate,
    /// Op 6: continues a session.
    Resume,
    /// Op 8: requests members.
    RequestGuildMembers,
    /// Op 14, deprecated: changes the subscription to one guild.
    GuildSubscription,
    /// Op 30: which of the objects in the client's cache still exist.
    GetDeletedEntityIds,
    /// Op 31: soundboards.
    RequestSoundboardSounds,
    /// Op 34: newest messages of channels.
    RequestLastMessages,
    /// Op 35: members by time of joining.
    SearchRecentMembers,
    /// Op 36, deprecated.
    RequestChannelStatuses,
    /// Op 37: changes the subscriptions to several guilds.
    GuildSubscriptionsBulk,
    /// Op 38: requests channels that the client has in obfuscated form and can view now.
    GuildChannelsResync,
    /// Op 39: members per channel.
    RequestChannelMemberCount,
    /// Op 40: a heartbeat with measurements.
    QosHeartbeat,
    /// Op 41: time that the client spent in its window. Ignored. Accepted before IDENTIFY, like heartbeats (1, 40).
    TimeSpentSession,
    /// Op 43: channel statuses.
    RequestChannelInfo,
    /// Defined upstream and ignored here: signalling for features that Guildhall does not have.
    Ignored(u8),
}

impl Opcode {
    /// The client opcode with this number.
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

impl Opcode {
    /// Whether bots may send it. The gateway ignores the others from bots, which have no user interface.
    #[must_use]
    pub const fn is_for_bots(self) -> bool {
        match self {
            Self::Heartbeat
            | Self::Identify
            | Self::PresenceUpdate
            | Self::VoiceStateUpdate
            | Self::Resume
            | Self::RequestGuildMembers
            | Self::RequestSoundboardSounds
            | Self::QosHeartbeat
            | Self::TimeSpentSession
            | Self::RequestChannelInfo
            | Self::Ignored(_) => true,
            Self::GuildSubscription
            | Self::GetDeletedEntityIds
            | Self::RequestLastMessages
            | Self::SearchRecentMembers
            | Self::RequestChannelStatuses
            | Self::GuildSubscriptionsBulk
            | Self::GuildChannelsResync
            | Self::RequestChannelMemberCount => false,
        }
    }
}

/// Opcodes of payloads that the gateway sends and that are no dispatch (op 0). Clients send op 1 too.
pub mod from_gateway {
    /// Requests a heartbeat from the client.
    pub const HEARTBEAT: u8 = 1;
    /// Requests that the client reconnects and resumes.
    pub const RECONNECT: u8 = 7;
    /// The session is invalid; `d` is whether the client may resume.
    pub const INVALID_SESSION: u8 = 9;
    /// First payload on every connection.
    pub const HELLO: u8 = 10;
    /// Acknowledges a heartbeat.
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
