//! Mix of events: the kinds of events in a guild, and the share of each.

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
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

impl Happening {
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
pub const SHARES: [(Happening, u64); 15] = [
    (Happening::Message, 300),
    (Happening::Edit, 25),
    (Happening::Delete, 12),
    (Happening::Reaction, 110),
    (Happening::Unreaction, 13),
    (Happening::ReactionsCleared, 2),
    (Happening::Typing, 190),
    (Happening::Presence, 220),
    (Happening::Voice, 60),
    (Happening::MemberUpdate, 25),
    (Happening::Join, 20),
    (Happening::Leave, 15),
    (Happening::ChannelUpdate, 4),
    (Happening::RoleUpdate, 3),
    (Happening::GuildUpdate, 1),
];

/// Maps `draw` in `0..1000` to a kind by its share.
pub(crate) fn happening_of(draw: u64) -> Happening {
    let mut upto = 0;
    for (happening, share) in SHARES {
        upto += share;
        if draw < upto {
            return happening;
        }
    }
    Happening::Message
}
