//! Visibility: which accounts an event is for, as a key that events with the same viewers have in common.
//!
//! Owns        which events share a compression history: `Visibility` and the rules it follows from;
//!             `visibility_domain` is the only place that decides it.
//! Doors       `AudienceIndex::visibility` once per event, `Visibility::in_form` per form of its body,
//!             `Visibility::covers` per recipient.
//! Invariants  D1 every account that receives an event from within a domain may view all events of that domain. D2
//!             every account that may view one event of a domain may view all of it. D3 a domain's key changes with the
//!             rules that decide who its viewers are, so that old entries never meet new viewers. (tests `d1_*`,
//!             `d2_*`, `d3_*` of `relay`)
//! Limits      one rule per channel, renewed when the guild's structure changes: O(channels × overwrites). An
//!             event costs O(1).
//! Not here    the histories that are kept per domain: `guildhall-shared-match`.     Spec  docs/security.md,
//!             docs/adr/0019.
//!
//! Compressed streams search for matches once per event, in what other recipients were sent. The length of a frame then
//! depends on that history. So a history belongs to one domain, and a domain to one set of viewers:
//!
//! | event | domain |
//! |---|---|
//! | every member may view it (channel without a rule that excludes members, guild, roles) | `Public` |
//! | needs the same, and a privileged intent or a subscription of user accounts | `Public` with that `Clearance` |
//! | channel that some members may not view, with its public threads | `Restricted` by channel and access rules |
//! | private thread | `Restricted` by thread and access rules |
//! | member list of restricted channels | `Restricted` by list and access rules, `Clearance::Lists` |
//! | passive update over one restricted channel | that channel's; over several: `Alone` |
//! | direct message, group | `Direct` |
//! | single users, roles, holders of a permission; a channel's own data while it is restricted | `Alone` |
//!
//! Membership is not a rule: an account that joins a guild, a thread or a role may read the past of the channels it
//! then views, so a domain outlives changes of membership and ends with a change of rules.

use crate::{
    event::{AudienceRule, Event, Redaction},
    event_rules::{DomainRule, EventRules},
    payload::Payload,
    structure::GuildStructure,
};
use guildhall_member_list::ListId;
use guildhall_model::{Channel, ChannelId, EventName, Intents, OverwriteKind, Permissions, RoleId, UserId};
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

/// Requirement that a session must meet, beyond access to the channel, to view events of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Clearance {
    /// No requirement.
    #[default]
    None = 0,
    /// Content of messages: MESSAGE_CONTENT, or a user account.
    Content = 1,
    /// Members that join, change and leave: GUILD_MEMBERS, or a user account.
    Members = 2,
    /// Presences of all members: GUILD_PRESENCES, or a user account.
    Presences = 3,
    /// Rows of member lists: a user account.
    Lists = 4,
}

impl Clearance {
    /// Every clearance, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::None, Self::Content, Self::Members, Self::Presences, Self::Lists];

    /// The intent that gives it to a bot.
    const fn intent(self) -> Intents {
        match self {
            Self::None | Self::Lists => Intents::NONE,
            Self::Content => Intents::MESSAGE_CONTENT,
            Self::Members => Intents::GUILD_MEMBERS,
            Self::Presences => Intents::GUILD_PRESENCES,
        }
    }

    /// The clearance for an event that sessions with any of `intents` receive. None: two privileged intents admit to
    /// it, and a session may have either.
    fn of_intents(intents: Intents) -> Option<Self> {
        if intents == Intents::NONE || intents.0 & !Intents::PRIVILEGED.0 != 0 {
            return Some(Self::None);
        }
        [Self::Content, Self::Members, Self::Presences].into_iter().find(|clearance| clearance.intent() == intents)
    }
}

/// The domain of an event, within its guild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Every member whose session has the clearance.
    Public(Clearance),
    /// Members that the rules behind `key` admit, with the clearance.
    Restricted {
        /// Of the channel, thread or list, and of its access rules. Unique within the guild.
        key: u64,
        /// Further requirement.
        clearance: Clearance,
    },
    /// The recipients of a direct message or group.
    Direct(ChannelId),
    /// No two recipients are known to have the same view: it is written to each without any shared state.
    #[default]
    Alone,
}

/// A recipient of an event.
pub trait Viewer {
    /// Account of the session.
    fn user_id(&self) -> UserId;
    /// Whether the account is no bot.
    fn is_user_account(&self) -> bool;
    /// Intents from IDENTIFY.
    fn intents(&self) -> Intents;
}

impl Visibility {
    /// The domain of one form of the event's body.
    #[must_use]
    pub fn in_form(self, event: &Event, redaction: Redaction) -> Self {
        if matches!(event.payload, Payload::Channel(_)) && redaction == Redaction::Channel {
            // This form has only the position of the channel. A deletion may go to former viewers only.
            return if event.name == EventName::ChannelDelete { Self::Alone } else { Self::Public(Clearance::None) };
        }
        match &event.content_readers {
            Some(readers) if redaction == Redaction::for_strangers(readers) => self.with(Clearance::None),
            _ => self,
        }
    }

    fn with(self, clearance: Clearance) -> Self {
        match self {
            Self::Public(_) => Self::Public(clearance),
            Self::Restricted { key, .. } => Self::Restricted { key, clearance },
            Self::Direct(_) | Self::Alone => self,
        }
    }

    /// Whether a recipient of the event may view everything in the domain. Others receive the event for a reason of
    /// their own: it is about them, or names them.
    #[must_use]
    pub fn covers(self, event: &Event, viewer: &impl Viewer) -> bool {
        let clearance = match self {
            Self::Public(clearance) | Self::Restricted { clearance, .. } => clearance,
            Self::Direct(_) => return true,
            Self::Alone => return false,
        };
        if event.audience.always.is_some_and(|user_id| user_id == viewer.user_id()) {
            return false;
        }
        let intent = clearance.intent();
        match clearance {
            Clearance::None => true,
            Clearance::Lists => viewer.is_user_account(),
            _ => viewer.intents().contains(intent) || viewer.is_user_account(),
        }
    }
}

/// Access to a channel, apart from the question which member holds which role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Every member, whatever their roles.
    Everyone,
    /// Members that the rules behind the key admit.
    Some { key: u64 },
}

/// The access rules of a guild's channels.
#[derive(Debug, Default)]
pub struct AccessRules {
    by_channel: BTreeMap<ChannelId, Access>,
    /// Hash of the roles' permissions, which access depends on together with the overwrites.
    roles_key: u64,
    /// Of the same and of MANAGE_THREADS, by channel.
    managers: BTreeMap<ChannelId, u64>,
}

/// Changes of a guild's domains after a change of its access rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessChange {
    /// Channels that every member could view and that some now cannot, with the key of their restricted domain; none
    /// for a channel that is gone.
    pub narrowed: Vec<(ChannelId, Option<u64>)>,
    /// Channels that every member can view now.
    pub opened: Vec<ChannelId>,
    /// Keys of restricted domains that no event will have again.
    pub ended: Vec<u64>,
}

impl AccessChange {
    /// Whether no domain is affected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.narrowed.is_empty() && self.opened.is_empty() && self.ended.is_empty()
    }
}

impl AccessRules {
    /// The rules that follow from a guild's roles and overwrites.
    #[must_use]
    pub fn of(structure: &GuildStructure) -> Self {
        let everyone = structure.id().cast();
        let base = structure.roles.get(&everyone).map_or(Permissions::NONE, |role| role.permissions);
        let of_roles = |bits: Permissions| {
            let mut hasher = DefaultHasher::new();
            for role in structure.roles.values().filter(|role| role.permissions.intersects(bits)) {
                (role.id, (role.permissions & bits).0).hash(&mut hasher);
            }
            hasher.finish()
        };
        let roles_key = of_roles(Permissions::ADMINISTRATOR | Permissions::VIEW_CHANNEL);
        let roles_that_manage =
            of_roles(Permissions::ADMINISTRATOR | Permissions::VIEW_CHANNEL | Permissions::MANAGE_THREADS);
        let mut rules = Self { roles_key, ..Self::default() };
        for channel in structure.channels.values() {
            let access = match is_open_to_everyone(base, everyone, channel) {
                true => Access::Everyone,
                false => Access::Some { key: key_of(channel.id, roles_key, channel, Permissions::VIEW_CHANNEL) },
            };
            rules.by_channel.insert(channel.id, access);
            let bits = Permissions::VIEW_CHANNEL | Permissions::MANAGE_THREADS;
            rules.managers.insert(channel.id, key_of(channel.id, roles_that_manage, channel, bits));
        }
        rules
    }

    /// Domains that ended or moved between `before` and these rules.
    #[must_use]
    pub fn since(&self, before: &Self) -> AccessChange {
        let mut change = AccessChange::default();
        for (channel_id, access) in &before.by_channel {
            let now = self.by_channel.get(channel_id);
            match access {
                Access::Everyone => match now {
                    Some(Access::Everyone) => {}
                    Some(Access::Some { key }) => change.narrowed.push((*channel_id, Some(*key))),
                    None => change.narrowed.push((*channel_id, None)),
                },
                Access::Some { key } if now != Some(access) => change.ended.push(*key),
                Access::Some { .. } => {}
            }
        }
        let is_open = |rules: &Self, id: &ChannelId| rules.by_channel.get(id) == Some(&Access::Everyone);
        let opened = self.by_channel.keys().filter(|id| is_open(self, id) && !is_open(before, id));
        change.opened.extend(opened);
        change
    }

    /// These rules as a change from none: every restricted channel is narrowed.
    #[must_use]
    pub fn at_first(&self) -> AccessChange {
        let restricted = self.by_channel.iter().filter_map(|(channel_id, access)| match access {
            Access::Everyone => None,
            Access::Some { key } => Some((*channel_id, Some(*key))),
        });
        AccessChange { narrowed: restricted.collect(), ..AccessChange::default() }
    }

    fn of_channel(&self, channel_id: ChannelId, clearance: Clearance) -> Visibility {
        match self.by_channel.get(&channel_id) {
            Some(Access::Everyone) => Visibility::Public(clearance),
            Some(Access::Some { key }) => Visibility::Restricted { key: *key, clearance },
            // It was deleted just now.
            None => Visibility::Alone,
        }
    }

    fn of_list(&self, list: ListId) -> Visibility {
        let clearance = Clearance::Lists;
        match list {
            ListId::Everyone => Visibility::Public(clearance),
            ListId::Hash(hash) => Visibility::Restricted { key: hash_of(&("list", hash, self.roles_key)), clearance },
        }
    }
}

/// Whether no member, whatever their roles, is kept out. False where that takes more than a look at each overwrite.
fn is_open_to_everyone(base: Permissions, everyone: RoleId, channel: &Channel) -> bool {
    let is_of_everyone = |target: OverwriteKind| target == OverwriteKind::Role(everyone);
    let allows = channel
        .overwrites
        .iter()
        .any(|overwrite| is_of_everyone(overwrite.target) && overwrite.allow.contains(Permissions::VIEW_CHANNEL));
    let denies = channel.overwrites.iter().any(|overwrite| overwrite.deny.contains(Permissions::VIEW_CHANNEL));
    base.contains(Permissions::ADMINISTRATOR) || (base.contains(Permissions::VIEW_CHANNEL) || allows) && !denies
}

fn key_of(id: ChannelId, roles_key: u64, channel: &Channel, bits: Permissions) -> u64 {
    let mut rules: Vec<(bool, u64, u64, u64)> = Vec::new();
    for overwrite in &channel.overwrites {
        let (allow, deny) = ((overwrite.allow & bits).0, (overwrite.deny & bits).0);
        if allow | deny != 0 {
            let (is_member, target) = match overwrite.target {
                OverwriteKind::Role(id) => (false, id.get()),
                OverwriteKind::Member(id) => (true, id.get()),
            };
            rules.push((is_member, target, allow, deny));
        }
    }
    rules.sort_unstable();
    hash_of(&("channel", id, roles_key, rules))
}

fn hash_of(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The domain of an event, by the row of its name, its audience rule and its payload. See the module for the table.
#[must_use]
pub fn visibility_domain(rules: &AccessRules, event: &Event) -> Visibility {
    let clearance = match &event.content_readers {
        Some(_) => Some(Clearance::Content),
        None => Clearance::of_intents(event.audience.intents),
    };
    let Some(clearance) = clearance else { return Visibility::Alone };
    match (EventRules::of(event.name).domain, &event.payload) {
        (_, Payload::Backend(_)) | (DomainRule::Audience, _) => of_audience(rules, &event.audience.rule, clearance),
        (DomainRule::ChannelData, Payload::Channel(channel)) => match rules.of_channel(channel.id, clearance) {
            public @ Visibility::Public(_) => public,
            _ => Visibility::Alone,
        },
        (DomainRule::Lists, _) => match &event.audience.rule {
            AudienceRule::Members => Visibility::Public(Clearance::Lists),
            rule => of_audience(rules, rule, clearance),
        },
        (DomainRule::ChannelData | DomainRule::Reader, _) => Visibility::Alone,
    }
}

fn of_audience(rules: &AccessRules, rule: &AudienceRule, clearance: Clearance) -> Visibility {
    match rule {
        AudienceRule::Members => Visibility::Public(clearance),
        // A viewer of the first channel learns that a member left it, and nothing of the second.
        AudienceRule::Channel(channel) | AudienceRule::ChannelExcept(channel, _) => {
            rules.of_channel(*channel, clearance)
        }
        AudienceRule::Channels(channels) => {
            let mut domain = Visibility::Public(clearance);
            for channel in channels.iter() {
                match rules.of_channel(*channel, clearance) {
                    Visibility::Public(_) => {}
                    restricted if domain == Visibility::Public(clearance) || domain == restricted => {
                        domain = restricted
                    }
                    _ => return Visibility::Alone,
                }
            }
            domain
        }
        AudienceRule::List(list) => rules.of_list(*list),
        AudienceRule::Thread { only: Some(_), .. } => Visibility::Alone,
        AudienceRule::Thread { parent, is_private: false, .. } => rules.of_channel(*parent, clearance),
        AudienceRule::Thread { parent, thread, is_private: true, .. } => match rules.managers.get(parent) {
            Some(key) => Visibility::Restricted { key: hash_of(&("thread", thread, key)), clearance },
            None => Visibility::Alone,
        },
        AudienceRule::GuildPermission(_)
        | AudienceRule::ChannelPermission(..)
        | AudienceRule::User(_)
        | AudienceRule::Users(_)
        | AudienceRule::Roles(_) => Visibility::Alone,
    }
}

/// Class of events over several channels.
pub const SEVERAL_CHANNELS: u64 = 1;

/// The part of a public domain that an event belongs to: the channel whose viewers it is for. When a channel narrows,
/// the texts of its class leave the domain. 0: the guild itself.
#[must_use]
pub fn visibility_class(event: &Event) -> u64 {
    match (&event.audience.rule, &event.payload) {
        (_, Payload::Channel(channel)) => channel.id.get(),
        (
            AudienceRule::Channel(id) | AudienceRule::ChannelExcept(id, _) | AudienceRule::ChannelPermission(id, _),
            _,
        ) => id.get(),
        (AudienceRule::Channels(ids), _) => match **ids {
            [] => 0,
            [id] => id.get(),
            _ => SEVERAL_CHANNELS,
        },
        (AudienceRule::Thread { thread, is_private: true, .. }, _) => thread.get(),
        (AudienceRule::Thread { parent, .. }, _) => parent.get(),
        (AudienceRule::List(list), _) => hash_of(list),
        (
            AudienceRule::Members
            | AudienceRule::GuildPermission(_)
            | AudienceRule::User(_)
            | AudienceRule::Users(_)
            | AudienceRule::Roles(_),
            _,
        ) => 0,
    }
}

/// The domain of an event that is addressed to accounts rather than to a guild.
#[must_use]
pub fn visibility_of_direct(event: &Event) -> Visibility {
    match (event.direct_channel(), event.audience.rule.users()) {
        // An event for one of the recipients holds that account's own view of the channel.
        (Some(channel_id), users) if users.len() > 1 => Visibility::Direct(channel_id),
        _ => Visibility::Alone,
    }
}
