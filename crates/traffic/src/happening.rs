//! Happenings: what kinds of things happen in a guild, and how often each.

/// Kinds of things that happen.
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

/// Of a thousand things that happen, how many are of each kind.
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

/// What `draw` of `0..1000` stands for.
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
