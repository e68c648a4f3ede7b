//! Mix of events: the kinds of events in a guild, and the share of each.

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Message,
    Edit,
    Delete,
    Reaction,
    Unreaction,
    ReactionsCleared,
    Typing,
    Presence,
    Voice,
    MemberUpdate,
    Join,
    Leave,
    ChannelUpdate,
    RoleUpdate,
    GuildUpdate,
}

impl EventKind {
    /// Whether it happens in one text channel.
    pub(crate) fn is_in_channel(self) -> bool {
        matches!(
            self,
            Self::Message
                | Self::Edit
                | Self::Delete
                | Self::Reaction
                | Self::Unreaction
                | Self::ReactionsCleared
                | Self::Typing
        )
    }
}

/// Share of each kind, in thousandths.
pub const SHARES: [(EventKind, u64); 15] = [
    (EventKind::Message, 300),
    (EventKind::Edit, 25),
    (EventKind::Delete, 12),
    (EventKind::Reaction, 110),
    (EventKind::Unreaction, 13),
    (EventKind::ReactionsCleared, 2),
    (EventKind::Typing, 190),
    (EventKind::Presence, 220),
    (EventKind::Voice, 60),
    (EventKind::MemberUpdate, 25),
    (EventKind::Join, 20),
    (EventKind::Leave, 15),
    (EventKind::ChannelUpdate, 4),
    (EventKind::RoleUpdate, 3),
    (EventKind::GuildUpdate, 1),
];

/// Maps `draw` in `0..1000` to a kind by its share.
pub(crate) fn kind_of_draw(draw: u64) -> EventKind {
    let mut upto = 0;
    for (kind, share) in SHARES {
        upto += share;
        if draw < upto {
            return kind;
        }
    }
    EventKind::Message
}
