//! Permissions: actions that a member may perform in a guild and in a channel.
//!
//! Owns        the bits, and the algorithm of reference.md §5.1 and §5.2 that checks them.
//! Invariants  owner and administrators hold every bit; within a step allow beats deny; the order of roles
//!             does not matter. (tests below)
//! Not here    which action needs which permission: `guildhall-guild` for requests, `guildhall-relay` for events.

use crate::{
    channel::{Channel, ChannelType, OverwriteKind},
    id::{GuildId, RoleId, UserId},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

/// A set of permissions. On the wire it is a decimal string, in every encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Permissions(pub u64);

macro_rules! permissions {
    ($($bit:literal $name:ident),* $(,)?) => {
        impl Permissions {
            $(#[doc = concat!("Bit ", stringify!($bit), ".")] pub const $name: Self = Self(1 << $bit);)*
        }
    };
}
permissions! {
    0 CREATE_INSTANT_INVITE, 1 KICK_MEMBERS, 2 BAN_MEMBERS, 3 ADMINISTRATOR, 4 MANAGE_CHANNELS, 5 MANAGE_GUILD,
    6 ADD_REACTIONS, 7 VIEW_AUDIT_LOG, 8 PRIORITY_SPEAKER, 9 STREAM, 10 VIEW_CHANNEL, 11 SEND_MESSAGES,
    12 SEND_TTS_MESSAGES, 13 MANAGE_MESSAGES, 14 EMBED_LINKS, 15 ATTACH_FILES, 16 READ_MESSAGE_HISTORY,
    17 MENTION_EVERYONE, 18 USE_EXTERNAL_EMOJIS, 20 CONNECT, 21 SPEAK, 22 MUTE_MEMBERS, 23 DEAFEN_MEMBERS,
    24 MOVE_MEMBERS, 25 USE_VAD, 26 CHANGE_NICKNAME, 27 MANAGE_NICKNAMES, 28 MANAGE_ROLES, 29 MANAGE_WEBHOOKS,
    30 MANAGE_GUILD_EXPRESSIONS, 31 USE_APPLICATION_COMMANDS, 32 REQUEST_TO_SPEAK, 33 MANAGE_EVENTS,
    34 MANAGE_THREADS, 35 CREATE_PUBLIC_THREADS, 36 CREATE_PRIVATE_THREADS, 38 SEND_MESSAGES_IN_THREADS,
    40 MODERATE_MEMBERS, 43 CREATE_GUILD_EXPRESSIONS, 44 CREATE_EVENTS, 49 SEND_POLLS, 51 PIN_MESSAGES, 52 BYPASS_SLOWMODE,
}

impl Permissions {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// Every bit in use: 0–46 and 48–52.
    pub const ALL: Self = Self(0x1F_7FFF_FFFF_FFFF);
    /// Permissions that a timed-out or quarantined member keeps.
    pub const TIMED_OUT: Self = Self(1 << 10 | 1 << 16);
    /// Permissions of every account in a direct message: view, send, react, pin, embed, attach, read
    /// history, use external
    /// emoji and stickers, mention everyone, TTS, voice messages.
    pub const DIRECT: Self = Self(
        1 << 6
            | 1 << 10
            | 1 << 11
            | 1 << 12
            | 1 << 14
            | 1 << 15
            | 1 << 16
            | 1 << 17
            | 1 << 18
            | 1 << 37
            | 1 << 46
            | 1 << 51,
    );
    /// Default permissions of a new guild's `@everyone` role.
    pub const DEFAULT_EVERYONE: Self = Self(
        1 << 0
            | 1 << 6
            | 1 << 9
            | 1 << 10
            | 1 << 11
            | 1 << 14
            | 1 << 15
            | 1 << 16
            | 1 << 17
            | 1 << 18
            | 1 << 20
            | 1 << 21
            | 1 << 25
            | 1 << 26
            | 1 << 31
            | 1 << 32
            | 1 << 35
            | 1 << 36
            | 1 << 37
            | 1 << 38
            | 1 << 39
            | 1 << 42
            | 1 << 45
            | 1 << 46
            | 1 << 49,
    );

    /// All bits of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Any bit of `other` is set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether a member with these permissions in a channel of type `kind` may learn anything about a message that was
    /// written there before: its text, its author, its reactions, whether it is pinned. This is the one rule for every
    /// door through which such messages leave. Guilds apply it to the actor of each command (REST), relays to the
    /// reader of answers of the gateway, live and at replay. A message as it is written goes to everyone who may view
    /// the channel, and a webhook's token reads what the webhook posted.
    #[must_use]
    pub fn may_read_history(self, kind: ChannelType) -> bool {
        let in_voice = if kind.is_voice() { Self::CONNECT } else { Self::NONE };
        self.contains(Self::VIEW_CHANNEL | Self::READ_MESSAGE_HISTORY | in_voice)
    }

    /// These bits without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Permissions {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
impl BitOrAssign for Permissions {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
impl BitAnd for Permissions {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}
impl Not for Permissions {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl Serialize for Permissions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Permissions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form<'a> {
            Number(u64),
            #[serde(borrow)]
            Text(std::borrow::Cow<'a, str>),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(bits) => Ok(Self(bits)),
            Form::Text(text) => {
                text.parse().map(Self).map_err(|_| D::Error::custom("permissions are a decimal number"))
            }
        }
    }
}

/// Input of the permission algorithm for one member.
#[derive(Clone, Copy, Debug)]
pub struct MemberStanding<'a> {
    pub user_id: UserId,
    /// Roles of the member without `@everyone`.
    pub roles: &'a [RoleId],
    /// The member owns the guild.
    pub is_owner: bool,
    /// The member is timed out now, or quarantined.
    pub is_silenced: bool,
}

/// Permissions in the guild as a whole; every bit for the owner and for administrators.
/// `role_permissions` returns the permissions of a role of this guild, including `@everyone` (the guild's own id), and
/// none for unknown ids.
pub fn guild_permissions(
    guild_id: GuildId,
    member: MemberStanding<'_>,
    role_permissions: impl Fn(RoleId) -> Option<Permissions>,
) -> Permissions {
    let base = base(guild_id, member, role_permissions);
    if member.is_silenced && !base.contains(Permissions::ADMINISTRATOR) { base & Permissions::TIMED_OUT } else { base }
}

fn base(
    guild_id: GuildId,
    member: MemberStanding<'_>,
    role_permissions: impl Fn(RoleId) -> Option<Permissions>,
) -> Permissions {
    if member.is_owner {
        return Permissions::ALL;
    }
    let everyone = role_permissions(guild_id.cast()).unwrap_or_default();
    let granted = member.roles.iter().filter_map(|role| role_permissions(*role)).fold(everyone, BitOr::bitor);
    if granted.contains(Permissions::ADMINISTRATOR) { Permissions::ALL } else { granted }
}

/// Permissions in one channel, with implicit denials applied.
pub fn channel_permissions(
    guild_id: GuildId,
    member: MemberStanding<'_>,
    channel: &Channel,
    role_permissions: impl Fn(RoleId) -> Option<Permissions>,
) -> Permissions {
    without_implicitly_denied(granted_in(guild_id, member, channel, role_permissions), channel)
}

/// Permissions in the threads of a channel, with implicit denials applied: SEND_MESSAGES_IN_THREADS takes the place of
/// SEND_MESSAGES.
pub fn thread_permissions(
    guild_id: GuildId,
    member: MemberStanding<'_>,
    parent: &Channel,
    role_permissions: impl Fn(RoleId) -> Option<Permissions>,
) -> Permissions {
    let granted = granted_in(guild_id, member, parent, role_permissions);
    let granted = match granted.contains(Permissions::SEND_MESSAGES_IN_THREADS) {
        true => granted | Permissions::SEND_MESSAGES,
        false => granted.without(Permissions::SEND_MESSAGES),
    };
    without_implicitly_denied(granted, parent)
}

fn granted_in(
    guild_id: GuildId,
    member: MemberStanding<'_>,
    channel: &Channel,
    role_permissions: impl Fn(RoleId) -> Option<Permissions>,
) -> Permissions {
    let base = base(guild_id, member, role_permissions);
    if base.contains(Permissions::ADMINISTRATOR) {
        return base;
    }
    let mut granted = base;
    let (mut roles_allow, mut roles_deny) = (Permissions::NONE, Permissions::NONE);
    let mut own = None;
    for overwrite in &channel.overwrites {
        match overwrite.target {
            OverwriteKind::Role(id) if id == guild_id.cast() => {
                granted = granted.without(overwrite.deny) | overwrite.allow;
            }
            OverwriteKind::Role(id) if member.roles.contains(&id) => {
                roles_allow |= overwrite.allow;
                roles_deny |= overwrite.deny;
            }
            OverwriteKind::Member(id) if id == member.user_id => own = Some(overwrite),
            OverwriteKind::Role(_) | OverwriteKind::Member(_) => {}
        }
    }
    granted = granted.without(roles_deny) | roles_allow;
    if let Some(own) = own {
        granted = granted.without(own.deny) | own.allow;
    }
    if member.is_silenced {
        granted = granted & Permissions::TIMED_OUT;
    }
    granted
}

fn without_implicitly_denied(granted: Permissions, channel: &Channel) -> Permissions {
    if !granted.contains(Permissions::VIEW_CHANNEL) {
        return Permissions::NONE;
    }
    let mut granted = granted;
    if !granted.contains(Permissions::SEND_MESSAGES) {
        granted = granted.without(
            Permissions::MENTION_EVERYONE
                | Permissions::SEND_TTS_MESSAGES
                | Permissions::ATTACH_FILES
                | Permissions::EMBED_LINKS,
        );
    }
    if channel.kind.is_voice() && !granted.contains(Permissions::CONNECT) {
        granted = granted.without(Permissions::MANAGE_CHANNELS | Permissions::MANAGE_ROLES);
    }
    granted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{channel::Overwrite, id::ChannelId};

    const GUILD: GuildId = GuildId::new(1);
    const ME: UserId = UserId::new(50);
    const MOD: RoleId = RoleId::new(2);
    const MUTED: RoleId = RoleId::new(3);
    const ADMIN: RoleId = RoleId::new(4);

    fn role_permissions(id: RoleId) -> Option<Permissions> {
        Some(match id.get() {
            1 => Permissions::VIEW_CHANNEL | Permissions::SEND_MESSAGES | Permissions::EMBED_LINKS,
            2 => Permissions::MANAGE_MESSAGES,
            3 => Permissions::NONE,
            4 => Permissions::ADMINISTRATOR,
            _ => return None,
        })
    }

    fn check(roles: &[RoleId], overwrites: &[Overwrite], is_silenced: bool, expected: Permissions) {
        let mut channel = Channel::new(ChannelId::new(9), GUILD, ChannelType::Text, "c");
        channel.overwrites = overwrites.to_vec();
        let member = MemberStanding { user_id: ME, roles, is_owner: false, is_silenced };
        assert_eq!(channel_permissions(GUILD, member, &channel, role_permissions), expected);
        let owner = MemberStanding { is_owner: true, ..member };
        assert_eq!(channel_permissions(GUILD, owner, &channel, role_permissions), Permissions::ALL);
    }

    fn overwrite(target: OverwriteKind, allow: Permissions, deny: Permissions) -> Overwrite {
        Overwrite { target, allow, deny }
    }

    #[test]
    fn steps_of_the_algorithm() {
        const VIEW: Permissions = Permissions::VIEW_CHANNEL;
        const SEND: Permissions = Permissions::SEND_MESSAGES;
        const EMBED: Permissions = Permissions::EMBED_LINKS;
        const NONE: Permissions = Permissions::NONE;
        let everyone = OverwriteKind::Role(GUILD.cast());
        let hidden = overwrite(everyone, NONE, VIEW);
        let may_see = overwrite(OverwriteKind::Role(MOD), VIEW, NONE);
        let must_not = overwrite(OverwriteKind::Role(MUTED), NONE, VIEW | SEND);

        check(&[], &[], false, VIEW | SEND | EMBED);
        check(&[], &[hidden], false, NONE);
        check(&[MOD], &[hidden, may_see], false, VIEW | SEND | EMBED | Permissions::MANAGE_MESSAGES);
        // Overwrites of roles are merged before they are applied: allow beats deny, whatever the order.
        check(
            &[MOD, MUTED],
            &[must_not, may_see, hidden],
            false,
            VIEW | EMBED.without(EMBED) | Permissions::MANAGE_MESSAGES,
        );
        // The member's own overwrite is applied last.
        check(&[MOD], &[hidden, may_see, overwrite(OverwriteKind::Member(ME), NONE, VIEW)], false, NONE);
        check(&[], &[hidden, overwrite(OverwriteKind::Member(ME), VIEW, NONE)], false, VIEW | SEND | EMBED);
        // Without SEND_MESSAGES the permissions that depend on it are removed as well.
        check(&[], &[overwrite(everyone, NONE, SEND)], false, VIEW);
        // A time-out leaves only viewing, even against an explicit grant.
        check(&[MOD], &[overwrite(OverwriteKind::Member(ME), SEND, NONE)], true, VIEW);
        // Administrators bypass overwrites and time-outs.
        check(&[ADMIN], &[hidden, must_not], true, Permissions::ALL);
        // A role that no longer exists grants nothing.
        check(&[RoleId::new(77)], &[hidden], false, NONE);
    }

    #[test]
    fn history_needs_all_of_its_permissions() {
        const READ: Permissions = Permissions(Permissions::VIEW_CHANNEL.0 | Permissions::READ_MESSAGE_HISTORY.0);
        let may_read = |held: Permissions, kind| held.may_read_history(kind);
        for kind in [ChannelType::Text, ChannelType::Forum, ChannelType::PublicThread, ChannelType::Dm] {
            assert!(may_read(READ, kind));
            assert!(!may_read(Permissions::ALL.without(Permissions::READ_MESSAGE_HISTORY), kind));
            assert!(!may_read(Permissions::ALL.without(Permissions::VIEW_CHANNEL), kind));
        }
        for kind in [ChannelType::Voice, ChannelType::Stage] {
            assert!(!may_read(READ, kind) && may_read(READ | Permissions::CONNECT, kind));
        }
        assert!(may_read(Permissions::TIMED_OUT, ChannelType::Text) && may_read(Permissions::DIRECT, ChannelType::Dm));
    }

    #[test]
    fn documented_constant() {
        assert_eq!(Permissions::ALL.0, 8_866_461_766_385_663);
    }
}
