//! A small guild, and an independent implementation of docs/protocol/reference.md §5.2, written literally.

use guildhall_guild_protocol::{AudienceRule, Event, GuildStructure, MessageEvent, Payload, Redaction};
use guildhall_model::{
    Channel, ChannelId, ChannelType, EventName, Guild, GuildId, Id, Member, Message, MessageId, Overwrite,
    OverwriteKind, Permissions, Role, RoleId, User, UserId,
};
use guildhall_relay::{AudienceIndex, Delivering, GroupDelivering, Lead, LogId};
use guildhall_stdx::{Rng, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub const GUILD: GuildId = GuildId::new(1);
pub const NOW: Timestamp = Timestamp(1_000_000);

/// Bits that the random guilds play with.
pub const BITS: [Permissions; 7] = [
    Permissions::VIEW_CHANNEL,
    Permissions::SEND_MESSAGES,
    Permissions::MANAGE_CHANNELS,
    Permissions::VIEW_AUDIT_LOG,
    Permissions::BAN_MEMBERS,
    Permissions::CONNECT,
    Permissions::ADMINISTRATOR,
];

pub fn role(id: u64, permissions: Permissions) -> Arc<Role> {
    Arc::new(Role {
        id: RoleId::new(id),
        name: format!("role {id}"),
        color: 0,
        hoist: false,
        position: 1,
        permissions,
        managed: false,
        mentionable: false,
        icon: None,
    })
}

pub fn channel(id: u64, kind: ChannelType, overwrites: Vec<Overwrite>) -> Arc<Channel> {
    Arc::new(Channel { overwrites, ..Channel::new(ChannelId::new(id), GUILD, kind, "channel") })
}

pub fn structure(owner: u64, roles: &[Arc<Role>], channels: &[Arc<Channel>]) -> Arc<GuildStructure> {
    Arc::new(GuildStructure {
        guild: Arc::new(Guild::new(GUILD, "guild", UserId::new(owner))),
        roles: Arc::new(roles.iter().map(|role| (role.id, role.clone())).collect()),
        channels: Arc::new(channels.iter().map(|channel| (channel.id, channel.clone())).collect()),
    })
}

pub fn member(id: u64, roles: &[u64]) -> Member {
    let user = User { bot: id.is_multiple_of(2), ..User::new(UserId::new(id), "somebody") };
    let mut member = Member::new(Arc::new(user), Timestamp(0));
    member.roles = roles.iter().map(|id| RoleId::new(*id)).collect();
    member
}

pub fn overwrite(target: OverwriteKind, allow: Permissions, deny: Permissions) -> Overwrite {
    Overwrite { target, allow, deny }
}

pub fn event(rule: AudienceRule) -> Event {
    Event::new(GUILD, EventName::VoiceServerUpdate, rule, Payload::GuildGone)
}

/// A session that got an event: its place, the form, and the log if it got it with its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delivery {
    pub slot: u32,
    pub redaction: usize,
    pub log: Option<LogId>,
}

/// Calls a function for each delivery of an event: the slot, the form, and the log if it goes to a group.
pub struct EachDelivery<'a>(Box<EachCall<'a>>);

type EachCall<'a> = dyn FnMut(u32, Redaction, Option<LogId>) + 'a;

impl<'a> EachDelivery<'a> {
    pub fn new(call: impl FnMut(u32, Redaction, Option<LogId>) + 'a) -> Self {
        Self(Box::new(call))
    }
}

impl<'a> Delivering for EachDelivery<'a> {
    type Group<'g>
        = EachOfGroup<'g, 'a>
    where
        Self: 'g;
    fn group(&mut self, log: LogId, redaction: Redaction) -> Self::Group<'_> {
        EachOfGroup { call: &mut *self.0, log, redaction }
    }
    fn deliver_alone(&mut self, slot: u32, redaction: Redaction) {
        (self.0)(slot, redaction, None);
    }
}

pub struct EachOfGroup<'g, 'a> {
    call: &'g mut EachCall<'a>,
    log: LogId,
    redaction: Redaction,
}

impl GroupDelivering for EachOfGroup<'_, '_> {
    fn announce(&self, _: u32, _: Lead) {}

    fn deliver(&mut self, slot: u32) {
        (self.call)(slot, self.redaction, Some(self.log));
    }
}

/// Recipients of an event by slot. A session that received it twice is in the list twice.
pub fn delivered(index: &AudienceIndex, event: &Event, now: Timestamp, watchers: &[(UserId, u32)]) -> Vec<Delivery> {
    let mut found = Vec::new();
    let mut out = EachDelivery::new(|slot, redaction, log| {
        found.push(Delivery { slot, redaction: redaction.index(), log });
    });
    index.fan_out(event, now, watchers.iter().copied(), &mut out);
    drop(out);
    found.sort_unstable();
    found
}

/// Some of `BITS`; administrators are rare.
pub fn some_bits(rng: &mut Rng) -> Permissions {
    let mut bits = Permissions::NONE;
    for bit in BITS {
        let p = if bit == Permissions::ADMINISTRATOR { 0.05 } else { 0.4 };
        if rng.chance(p) {
            bits |= bit;
        }
    }
    bits
}

// ── the algorithm ────────────────────────────────────────────────────────────────────────────────

const ALL: u64 = 8_866_461_766_385_663;
const ADMINISTRATOR: u64 = 1 << 3;
const VIEW_CHANNEL: u64 = 1 << 10;
const SEND_MESSAGES: u64 = 1 << 11;
const CONNECT: u64 = 1 << 20;

fn is_silenced(member: &Member, now: Timestamp) -> bool {
    member.communication_disabled_until.is_some_and(|until| until > now) || member.flags & (1 << 7 | 1 << 10) != 0
}

fn base(structure: &GuildStructure, member: &Member) -> u64 {
    if structure.guild.owner_id == member.user.id {
        return ALL;
    }
    let granted = |id: u64| structure.roles.get(&RoleId::new(id)).map_or(0, |role| role.permissions.0);
    let mut p = granted(GUILD.get());
    for role in &member.roles {
        p |= granted(role.get());
    }
    if p & ADMINISTRATOR != 0 { ALL } else { p }
}

/// In the guild as a whole.
pub fn naive_guild_permissions(structure: &GuildStructure, member: &Member, now: Timestamp) -> u64 {
    let p = base(structure, member);
    if p & ADMINISTRATOR == 0 && is_silenced(member, now) { p & (VIEW_CHANNEL | 1 << 16) } else { p }
}

/// In a channel.
pub fn naive_channel_permissions(
    structure: &GuildStructure,
    member: &Member,
    channel: &Channel,
    now: Timestamp,
) -> u64 {
    let mut p = base(structure, member);
    if p & ADMINISTRATOR != 0 {
        return ALL;
    }
    let of = |target: OverwriteKind| channel.overwrites.iter().find(move |overwrite| overwrite.target == target);
    if let Some(o) = of(OverwriteKind::Role(GUILD.cast())) {
        p = p & !o.deny.0 | o.allow.0;
    }
    let (mut allow, mut deny) = (0, 0);
    for role in &member.roles {
        if let Some(o) = of(OverwriteKind::Role(*role)) {
            allow |= o.allow.0;
            deny |= o.deny.0;
        }
    }
    p = p & !deny | allow;
    if let Some(o) = of(OverwriteKind::Member(member.user.id)) {
        p = p & !o.deny.0 | o.allow.0;
    }
    if is_silenced(member, now) {
        p &= VIEW_CHANNEL | 1 << 16;
    }
    if p & VIEW_CHANNEL == 0 {
        return 0;
    }
    if p & SEND_MESSAGES == 0 {
        p &= !(1 << 17 | 1 << 12 | 1 << 15 | 1 << 14);
    }
    if matches!(channel.kind, ChannelType::Voice | ChannelType::Stage) && p & CONNECT == 0 {
        p &= !(1 << 4 | 1 << 28);
    }
    p
}

pub fn naive_sees(structure: &GuildStructure, member: &Member, channel: ChannelId) -> bool {
    structure
        .channels
        .get(&channel)
        .is_some_and(|channel| naive_channel_permissions(structure, member, channel, NOW) != 0)
}

pub fn naive_view(structure: &GuildStructure, member: &Member) -> BTreeSet<ChannelId> {
    structure.channels.keys().copied().filter(|channel| naive_sees(structure, member, *channel)).collect()
}

pub fn naive_admits(structure: &GuildStructure, member: &Member, rule: &AudienceRule) -> bool {
    match rule {
        AudienceRule::Members => true,
        AudienceRule::Channel(channel) => naive_sees(structure, member, *channel),
        AudienceRule::Channels(channels) => channels.iter().all(|channel| naive_sees(structure, member, *channel)),
        AudienceRule::List(list) => structure
            .channels
            .keys()
            .any(|channel| structure.list_of(*channel) == Some(*list) && naive_sees(structure, member, *channel)),
        AudienceRule::ChannelExcept(channel, except) => {
            naive_sees(structure, member, *channel) && !naive_sees(structure, member, *except)
        }
        AudienceRule::GuildPermission(any) => naive_guild_permissions(structure, member, NOW) & any.0 != 0,
        AudienceRule::ChannelPermission(channel, all) => structure
            .channels
            .get(channel)
            .is_some_and(|channel| naive_channel_permissions(structure, member, channel, NOW) & all.0 == all.0),
        // Of threads there are none here.
        AudienceRule::Thread { .. } => false,
        AudienceRule::User(user_id) => member.user.id == *user_id,
        AudienceRule::Users(user_ids) => user_ids.contains(&member.user.id),
        AudienceRule::Roles(roles) => roles
            .iter()
            .filter(|role| structure.roles.contains_key(*role))
            .any(|role| *role == GUILD.cast() || member.roles.contains(role)),
    }
}

/// Members by id, for the naive side of a comparison.
pub type Members = BTreeMap<UserId, Member>;

pub fn id<T>(n: u64) -> Id<T> {
    Id::new(n)
}

/// MESSAGE_CREATE.
pub fn said_in(
    channel_id: ChannelId,
    message_id: MessageId,
    author: UserId,
    mentions: &[UserId],
    mention_everyone: bool,
) -> Event {
    let user = |id: UserId| Arc::new(User::new(id, "somebody"));
    let message = Message {
        content: "hello".to_owned(),
        mention_everyone,
        mentions: mentions.iter().map(|id| user(*id)).collect(),
        ..Message::new(message_id, channel_id, GUILD, user(author))
    };
    let payload = Payload::Message(Box::new(MessageEvent {
        message: Arc::new(message),
        channel_type: ChannelType::Text,
        author: None,
        mentioned: Vec::new(),
        referenced: None,
        votes: Vec::new(),
    }));
    Event::new(GUILD, EventName::MessageCreate, AudienceRule::Channel(channel_id), payload)
}
