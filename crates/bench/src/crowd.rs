//! Crowd: the community that benches without sockets work on, made of numbers and so the same in every run.
//!
//! Owns        who its members are and which roles they have; its roles and channels.
//! Invariants  member `n` is the same account and has the same roles whatever the size of the crowd.

use guildhall_guild::GuildRecord;
use guildhall_model::{
    Channel, ChannelId, ChannelType, Guild, GuildId, Member, Overwrite, OverwriteKind, Permissions, Role, RoleId, User,
    UserId,
};
use guildhall_stdx::{Rng, Timestamp};
use std::sync::Arc;

/// Id of the guild.
pub const GUILD: GuildId = GuildId::new(1_100_000_000_000_000_001);
const FIRST_ROLE: u64 = 1_100_000_000_000_001_000;
const FIRST_CHANNEL: u64 = 1_100_000_000_000_010_000;
const FIRST_USER: u64 = 200_000_000_000_000_000;
/// Between the ids of two members there is room for others: an account that joins is older than most members or not.
const USER_STRIDE: u64 = 1 << 20;

/// Roles by length of membership; most members with any role have one of them.
pub const LEVELS: usize = 8;
const SUPPORTER: usize = LEVELS;
const INSIDER: usize = LEVELS + 1;
const STAFF: usize = LEVELS + 2;
/// Roles that every crowd has, without `@everyone`.
pub const ROLES_MIN: usize = STAFF + 1;

/// The first channels: text that all members may view.
pub const PUBLIC_CHANNELS: usize = 10;
/// The next ones: text for insiders, text for staff.
const INSIDERS_CHANNEL: usize = PUBLIC_CHANNELS;
const STAFF_CHANNEL: usize = PUBLIC_CHANNELS + 1;
/// The next ones: voice.
const FIRST_VOICE: usize = PUBLIC_CHANNELS + 2;
/// Number of voice channels.
pub const VOICE_CHANNELS: usize = 4;
/// Channels that every crowd has. Further ones are text that all members may view.
pub const CHANNELS_MIN: usize = FIRST_VOICE + VOICE_CHANNELS;

/// Id of role `n`.
pub fn role_id(n: usize) -> RoleId {
    RoleId::new(FIRST_ROLE + n as u64)
}

/// Id of channel `n`.
pub fn channel_id(n: usize) -> ChannelId {
    ChannelId::new(FIRST_CHANNEL + n as u64)
}

/// The text channel that only insiders see.
pub fn insiders_channel() -> ChannelId {
    channel_id(INSIDERS_CHANNEL)
}

/// Voice channel `n`.
pub fn voice_channel(n: usize) -> ChannelId {
    channel_id(FIRST_VOICE + n % VOICE_CHANNELS)
}

/// The account of member `n`.
pub fn user_id(n: usize) -> UserId {
    UserId::new(FIRST_USER + n as u64 * USER_STRIDE)
}

/// An account with an id between those of members `n` and `n + 1`.
pub fn stranger(n: usize, offset: u64) -> Arc<User> {
    let id = UserId::new(user_id(n).get() + 1 + offset % (USER_STRIDE - 1));
    Arc::new(User::new(id, &format!("stranger{n}")))
}

/// What chance gives member `n`, differently for each topic.
fn luck(n: usize, topic: u64) -> Rng {
    Rng::new((n as u64) << 8 | topic)
}

/// The account of member `n`: more than half have a display name and a picture.
pub fn user(n: usize) -> User {
    let mut luck = luck(n, 0);
    let mut user = User::new(user_id(n), &format!("member{n}"));
    if luck.chance(0.6) {
        user.global_name = Some(format!("Member {n}"));
    }
    if luck.chance(0.6) {
        user.avatar = Some(format!("{:016x}{:016x}", luck.next_u64(), luck.next_u64()));
    }
    user
}

/// The roles of member `n`, ascending: three in five have none, one in five hundred is staff.
pub fn roles_of(n: usize) -> impl Iterator<Item = RoleId> {
    let mut luck = luck(n, 1);
    let level = luck.below(LEVELS as u64) as usize;
    let roles: &[usize] = match luck.below(1000) {
        0..600 => &[],
        600..850 => &[level],
        850..950 => &[level, SUPPORTER],
        950..998 => &[level, SUPPORTER, INSIDER],
        _ => &[INSIDER, STAFF],
    };
    let mut roles: Vec<RoleId> = roles.iter().map(|role| role_id(*role)).collect();
    roles.sort_unstable();
    roles.into_iter()
}

/// Whether member `n` sees the insiders' channel.
pub fn is_insider(n: usize) -> bool {
    roles_of(n).any(|role| role == role_id(INSIDER))
}

/// Member number `n`.
pub fn member(n: usize) -> Member {
    let mut member = Member::new(Arc::new(user(n)), Timestamp(1_700_000_000_000 + n as i64));
    member.roles = roles_of(n).collect();
    if luck(n, 2).chance(0.15) {
        member.nick = Some(format!("nick of {n}").into());
    }
    member
}

fn role(n: usize, name: &str, permissions: Permissions) -> Role {
    Role {
        id: role_id(n),
        name: name.to_owned(),
        color: 0x33_66_99,
        hoist: n >= SUPPORTER,
        position: n as i32 + 1,
        permissions,
        managed: false,
        mentionable: false,
        icon: None,
    }
}

fn roles(count: usize) -> Vec<Role> {
    let everyone = Role { id: GUILD.cast(), position: 0, ..role(0, "@everyone", Permissions::DEFAULT_EVERYONE) };
    let staff = Permissions::MANAGE_MESSAGES | Permissions::MANAGE_ROLES | Permissions::KICK_MEMBERS;
    let named = (0..count.max(ROLES_MIN)).map(|n| match n {
        SUPPORTER => role(n, "supporter", Permissions::NONE),
        INSIDER => role(n, "insider", Permissions::NONE),
        STAFF => role(n, "staff", staff),
        _ => role(n, &format!("level {n}"), Permissions::NONE),
    });
    std::iter::once(everyone).chain(named).collect()
}

fn channels(count: usize) -> Vec<Channel> {
    let text = |n: usize| Channel::new(channel_id(n), GUILD, ChannelType::Text, &format!("channel-{n}"));
    let only_for = |n: usize, role: usize| {
        let overwrite = |role, allow, deny| Overwrite { target: OverwriteKind::Role(role), allow, deny };
        let hidden = overwrite(GUILD.cast(), Permissions::NONE, Permissions::VIEW_CHANNEL);
        let shown = overwrite(role_id(role), Permissions::VIEW_CHANNEL, Permissions::NONE);
        Channel { overwrites: vec![hidden, shown], ..text(n) }
    };
    let channel = |n: usize| Channel {
        position: n as i32,
        topic: n.is_multiple_of(2).then(|| format!("what channel {n} is about, in a sentence of usual length")),
        ..match n {
            INSIDERS_CHANNEL => only_for(n, INSIDER),
            STAFF_CHANNEL => only_for(n, STAFF),
            FIRST_VOICE..CHANNELS_MIN => Channel::new(channel_id(n), GUILD, ChannelType::Voice, "talk"),
            _ => text(n),
        }
    };
    (0..count.max(CHANNELS_MIN)).map(channel).collect()
}

/// The guild as it would have been stored. It belongs to member 0.
pub fn record(members_count: usize, roles_count: usize, channels_count: usize) -> GuildRecord {
    GuildRecord {
        guild: Guild::new(GUILD, "the crowd", user_id(0)),
        roles: roles(roles_count),
        channels: channels(channels_count),
        members: (0..members_count).map(|n| Arc::new(member(n))).collect(),
        resources: Vec::new(),
        nonces: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_a_sound_record() {
        let record = record(2_000, 0, 0);
        assert!(record.members.is_sorted_by(|a, b| a.user.id < b.user.id));
        let known: Vec<RoleId> = record.roles.iter().map(|role| role.id).collect();
        assert!(record.members.iter().all(|m| m.roles.iter().all(|r| known.contains(r)) && m.roles.is_sorted()));
        assert_eq!((record.roles.len(), record.channels.len()), (ROLES_MIN + 1, CHANNELS_MIN));
        let without = record.members.iter().filter(|member| member.roles.is_empty()).count();
        assert!((1_100..1_300).contains(&without), "{without} have no role");
        assert!((0..2_000).filter(|n| is_insider(*n)).count() > 50);
    }

    #[test]
    fn strangers_are_no_members() {
        for offset in [0, 1, USER_STRIDE - 2, USER_STRIDE - 1, u64::MAX] {
            let id = stranger(5, offset).id;
            assert!(user_id(5) < id && id < user_id(6), "{id}");
        }
    }
}
