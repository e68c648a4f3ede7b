//! One guild of the traffic: its members, channels, roles and recent messages.
//!
//! Owns        the state that events are about, in the server's own types.
//! Limits      `RECENT_MAX`, `VOICE_MAX`, `JOINED_MAX`.
//! Not here    the sequence of events: `traffic.rs`.

use crate::{
    people::{self, Zipf},
    talk::Talk,
};
use guildhall_guild_protocol::{GuildStructure, PassiveDelta, PassiveSnapshot, VoiceEntry};
use guildhall_member_list::{Interval, ListId, ListRules, MemberList, Watch};
use guildhall_model::{
    Channel, ChannelId, ChannelType, Guild, GuildId, Member, Message, MessageId, Overwrite, OverwriteKind, Permissions,
    Presence, Role, RoleId, User, UserId, VoiceState,
};
use guildhall_stdx::{Rng, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Messages that can still be answered, edited, reacted to and deleted.
const RECENT_MAX: usize = 128;
const VOICE_MAX: usize = 60;
const JOINED_MAX: usize = 64;
/// Share of members who are online at first.
const ONLINE: f64 = 0.3;
const ROLE_NAMES: [&str; 12] = [
    "staff",
    "moderators",
    "supporters",
    "regulars",
    "artists",
    "builders",
    "night owls",
    "newcomers",
    "events",
    "level 10",
    "level 5",
    "announcements",
];
const CHANNEL_NAMES: [&str; 12] = [
    "general",
    "help",
    "off-topic",
    "showcase",
    "music",
    "games",
    "food",
    "pets",
    "dev-talk",
    "suggestions",
    "memes",
    "staff",
];
const EMOJI_NAMES: [&str; 8] = ["party", "nope", "blobwave", "hype", "thinkhard", "pog", "sadcat", "ship_it"];

/// A member and their presence.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub member: Arc<Member>,
    pub presence: Option<Arc<Presence>>,
}

/// A recent message.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub channel: usize,
    pub author: usize,
    pub message: Arc<Message>,
}

/// Size of a guild.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub members: usize,
    pub text_channels: usize,
}

/// Accounts that become members.
#[derive(Clone, Copy)]
pub(crate) enum From<'a> {
    /// Some of these accounts; a part of them is online.
    Some(&'a [Arc<User>]),
    /// All of these, and all are online.
    All(&'a [Arc<User>]),
}

/// Channels in which something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    Any,
    /// Those that all members may view. There is one at least.
    Public,
    /// The hidden one.
    Private,
}

impl Within {
    fn has(self, is_hidden: bool) -> bool {
        match self {
            Self::Any => true,
            Self::Public => !is_hidden,
            Self::Private => is_hidden,
        }
    }
}

#[derive(Debug)]
pub(crate) struct GuildState {
    pub structure: Arc<GuildStructure>,
    /// The most active first.
    pub people: Vec<Person>,
    pub crowd: Zipf,
    pub emoji: Vec<(String, u64)>,
    /// Text channels, the last one hidden if there are several. Voice channels are in `voice_channels`.
    pub text_channels: Vec<ChannelId>,
    pub has_hidden: bool,
    pub voice_channels: Vec<ChannelId>,
    pub talks: Vec<Talk>,
    pub busiest: Zipf,
    pub recent: VecDeque<Posted>,
    pub in_voice: BTreeMap<usize, Arc<VoiceState>>,
    /// Members who joined during the traffic, oldest first; they leave again.
    pub joined: VecDeque<Person>,
    list: MemberList,
    watch: Watch,
    pub list_told_ms: u64,
    unread: BTreeMap<ChannelId, MessageId>,
    /// Newest messages, of a sitting.
    newest: BTreeMap<ChannelId, MessageId>,
    voice_changed: BTreeSet<usize>,
    left_voice: Vec<UserId>,
}

impl GuildState {
    /// Guild `number` with members from `accounts`. A guild of [`From::All`] has a private channel, whatever its size.
    pub fn new(rng: &mut Rng, number: u64, size: Size, accounts: From<'_>, now: Timestamp) -> Self {
        let is_of_node = matches!(accounts, From::All(_));
        let step = if is_of_node { 9_717_204_551_683 } else { 3_917_204_551_680_003 };
        let id = GuildId::new((1_050_000_000_000_000_000 + number * step) & !0xfff);
        let roles = roles(rng, id);
        let people = people_of(rng, size, accounts, &roles, now);
        let has_hidden = is_of_node || size.text_channels > 3;
        let (channels, text_channels, voice_channels) = channels(rng, id, (size, has_hidden), &roles);
        let mut guild =
            Guild::new(id, &format!("{} {number}", ["Harbour", "Workshop", "Arcade"][number as usize % 3]), {
                people[0].member.user.id
            });
        guild.icon = Some(format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64()));
        guild.description = rng.chance(0.5).then(|| "A place for everybody who likes it here.".to_owned());
        guild.features =
            ["COMMUNITY", "NEWS", "INVITE_SPLASH"][..rng.below(4) as usize].iter().map(|f| (*f).into()).collect();
        let emoji =
            EMOJI_NAMES.iter().map(|name| ((*name).to_owned(), id.get() + (rng.below(1 << 30) << 12))).collect();
        let rules = ListRules::new(roles.iter().map(|role| &**role), people.len());
        let list =
            MemberList::build(rules, people.iter().map(|person| (person.member.clone(), person.presence.clone())));
        let watch = Watch::new(&list, Interval::from_ranges([[0, 99]])[0]);
        let structure = GuildStructure {
            guild: Arc::new(guild),
            roles: Arc::new(roles.into_iter().map(|role| (role.id, role)).collect()),
            channels: Arc::new(channels.into_iter().map(|channel| (channel.id, Arc::new(channel))).collect()),
        };
        let mut state = Self {
            structure: Arc::new(structure),
            crowd: Zipf::new(people.len()),
            people,
            emoji,
            talks: text_channels.iter().map(|_| Talk::default()).collect(),
            busiest: Zipf::new(text_channels.len()),
            has_hidden,
            text_channels,
            voice_channels,
            recent: VecDeque::new(),
            in_voice: BTreeMap::new(),
            joined: VecDeque::new(),
            list,
            watch,
            list_told_ms: 0,
            unread: BTreeMap::new(),
            newest: BTreeMap::new(),
            voice_changed: BTreeSet::new(),
            left_voice: Vec::new(),
        };
        // Passive sessions know the initial state.
        state.list.take_dirty();
        state
    }

    pub fn id(&self) -> GuildId {
        self.structure.id()
    }

    pub fn is_hidden(&self, channel: usize) -> bool {
        self.has_hidden && channel + 1 == self.text_channels.len()
    }

    /// Number of members, including those who joined during the traffic.
    pub fn member_count(&self) -> u64 {
        (self.people.len() + self.joined.len()) as u64
    }

    pub fn posted(&mut self, posted: Posted) {
        if !self.is_hidden(posted.channel) {
            self.unread.insert(posted.message.channel_id, posted.message.id);
            self.newest.insert(posted.message.channel_id, posted.message.id);
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(posted);
    }

    /// A recent message within these channels, newer ones more often.
    pub fn earlier(&self, rng: &mut Rng, within: Within) -> Option<usize> {
        let upto = rng.below(self.recent.len() as u64) + 1;
        let back = rng.below(upto) as usize;
        let newest = self.recent.len().checked_sub(1 + back)?;
        (0..=newest).rev().find(|at| within.has(self.is_hidden(self.recent[*at].channel)))
    }

    /// A channel, the busiest most often.
    pub fn channel(&self, rng: &mut Rng, within: Within) -> usize {
        match within {
            Within::Any => self.busiest.draw(rng),
            Within::Private => self.text_channels.len() - 1,
            Within::Public => self.busiest.draw(rng) % (self.text_channels.len() - 1),
        }
    }

    /// Replaces a member's state, also in the member list.
    pub fn change(&mut self, who: usize, person: Person) {
        let before = std::mem::replace(&mut self.people[who], person.clone());
        self.list.set(Some((&before.member, before.presence.as_deref())), Some((person.member, person.presence)));
    }

    /// Adds a member; false if `JOINED_MAX` is reached.
    pub fn join(&mut self, person: Person) -> bool {
        if self.joined.len() == JOINED_MAX {
            return false;
        }
        self.list.set(None, Some((person.member.clone(), person.presence.clone())));
        self.joined.push_back(person);
        true
    }

    /// Removes the member who joined first during the traffic.
    pub fn leave(&mut self) -> Option<Person> {
        let person = self.joined.pop_front()?;
        self.list.set(Some((&person.member, person.presence.as_deref())), None);
        Some(person)
    }

    /// Update for sessions that subscribe to the member list, if rows changed.
    pub fn list_change(&mut self) -> Option<guildhall_guild_protocol::ListChange> {
        if !self.list.take_dirty().meets(self.watch.interval()) {
            return None;
        }
        let ops = self.watch.update(&self.list)?;
        Some(self.wrap_list_ops(ops))
    }

    /// SYNC for a session that subscribes to the member list.
    pub fn list_sync(&mut self) -> guildhall_guild_protocol::ListChange {
        self.wrap_list_ops(vec![self.watch.sync()])
    }

    fn wrap_list_ops(&self, ops: Vec<guildhall_member_list::ListOp>) -> guildhall_guild_protocol::ListChange {
        guildhall_guild_protocol::ListChange {
            list: ListId::Everyone,
            member_count: self.member_count(),
            online_count: self.list.online_count() as u64,
            groups: self.list.groups().collect(),
            ops,
        }
    }

    /// A user joins, moves in, changes in or leaves voice. Returns the new state.
    pub fn voice(&mut self, rng: &mut Rng) -> (usize, Arc<VoiceState>) {
        let who = self.crowd.draw(rng);
        let (who, before) = match self.in_voice.get(&who) {
            Some(state) => (who, Some(state.clone())),
            None if self.in_voice.len() < VOICE_MAX && rng.chance(0.5) => (who, None),
            None => {
                let nth = rng.below(self.in_voice.len().max(1) as u64) as usize;
                self.in_voice.iter().nth(nth).map_or((who, None), |(who, state)| (*who, Some(state.clone())))
            }
        };
        let member = &self.people[who].member;
        let mut state = before.as_deref().cloned().unwrap_or_else(|| VoiceState {
            channel_id: rng.pick(&self.voice_channels).copied(),
            session_id: format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64()),
            self_mute: rng.chance(0.4),
            ..VoiceState::new(member.user.id)
        });
        if before.is_some() {
            match rng.below(6) {
                0..3 => state.channel_id = None,
                3 => state.channel_id = rng.pick(&self.voice_channels).copied(),
                4 => state.self_deaf = !state.self_deaf,
                _ => state.self_mute = !state.self_mute,
            }
        }
        let state = Arc::new(state);
        if state.channel_id.is_some() {
            self.in_voice.insert(who, state.clone());
            self.voice_changed.insert(who);
        } else {
            self.in_voice.remove(&who);
            self.voice_changed.remove(&who);
            self.left_voice.push(state.user_id);
        }
        (who, state)
    }

    /// Passive update: changes since the previous one.
    pub fn passive(&mut self) -> PassiveDelta {
        let voice = std::mem::take(&mut self.voice_changed).into_iter().filter_map(|who| self.voice_entry(who));
        PassiveDelta {
            voice: voice.collect(),
            channels: std::mem::take(&mut self.unread).into_iter().collect(),
            left: std::mem::take(&mut self.left_voice),
            pins: Vec::new(),
        }
    }

    /// Newest messages from before the sitting, up to a month old.
    pub fn fill_newest(&mut self, rng: &mut Rng, now: Timestamp) {
        for channel in &self.text_channels {
            let at = Timestamp(now.0 - 1 - rng.below(2_600_000_000) as i64);
            let first = guildhall_model::smallest_id_at::<guildhall_model::marker::Message>(at).get();
            self.newest.insert(*channel, MessageId::new(first | rng.below(1 << 22)));
        }
    }

    /// Passive update of the first version: all public channels, and all users in voice.
    pub fn passive_snapshot(&self) -> PassiveSnapshot {
        let public = (0..self.text_channels.len()).filter(|channel| !self.is_hidden(*channel));
        let newest = public.map(|channel| self.text_channels[channel]).map(|id| (id, self.newest.get(&id).copied()));
        PassiveSnapshot {
            channels: newest.chain(self.voice_channels.iter().map(|id| (*id, None))).collect(),
            pins: Vec::new(),
            voice: self.in_voice.keys().filter_map(|who| self.voice_entry(*who)).collect(),
        }
    }

    pub fn newest(&self) -> &BTreeMap<ChannelId, MessageId> {
        &self.newest
    }

    pub fn voice_entry(&self, who: usize) -> Option<VoiceEntry> {
        let state = self.in_voice.get(&who)?.clone();
        Some(VoiceEntry { state, member: self.people[who].member.clone() })
    }
}

fn roles(rng: &mut Rng, guild_id: GuildId) -> Vec<Arc<Role>> {
    let everyone = Role::everyone(guild_id, Permissions::DEFAULT_EVERYONE);
    let count = 4 + rng.below(ROLE_NAMES.len() as u64 - 3) as usize;
    let named = (0..count).map(|n| Role {
        id: RoleId::new(guild_id.get() + (((n as u64 + 1) * 7_919_113 + rng.below(1 << 22)) << 12)),
        name: ROLE_NAMES[n].to_owned(),
        color: rng.below(1 << 24) as u32,
        hoist: n < 4,
        position: (count - n) as i32,
        permissions: if n < 2 { Permissions::MANAGE_MESSAGES | Permissions::KICK_MEMBERS } else { Permissions::NONE },
        mentionable: n % 3 == 2,
        ..everyone.clone()
    });
    let mut roles: Vec<_> = named.map(Arc::new).collect();
    roles.insert(0, Arc::new(everyone));
    roles
}

/// Half of the members have no role; active members have more.
fn people_of(rng: &mut Rng, size: Size, accounts: From<'_>, roles: &[Arc<Role>], now: Timestamp) -> Vec<Person> {
    let (accounts, start, step, online) = match accounts {
        From::Some(accounts) => (accounts, rng.below(accounts.len() as u64) as usize, 7, ONLINE),
        From::All(accounts) => (accounts, 0, 1, 1.0),
    };
    let person = |n: usize| {
        // Distinct accounts, as long as there are enough.
        let user = accounts[(start + n * step) % accounts.len()].clone();
        let joined_at = Timestamp(now.0 - 1 - rng.below(90_000_000_000) as i64);
        let mut member = Member::new(user, joined_at);
        let held = if rng.chance(0.5) { 0 } else { 1 + rng.below(4) as usize };
        let mut held: Vec<RoleId> = (0..held).filter_map(|_| rng.pick(&roles[1..])).map(|role| role.id).collect();
        held.sort_unstable();
        held.dedup();
        member.roles = held.into_iter().collect();
        member.nick = rng.chance(0.2).then(|| people::nick(rng).into());
        member.flags = if rng.chance(0.3) { 2 } else { 0 };
        // The most active members are online.
        let presence = (n < 20 || rng.chance(online)).then(|| people::presence(rng, now.0));
        Person { member: Arc::new(member), presence }
    };
    (0..size.members).map(person).collect()
}

fn channels(
    rng: &mut Rng,
    guild_id: GuildId,
    (size, has_hidden): (Size, bool),
    roles: &[Arc<Role>],
) -> (Vec<Channel>, Vec<ChannelId>, Vec<ChannelId>) {
    let mut channel = |n: usize, kind, name: &str| {
        let id = ChannelId::new(guild_id.get() + (((n as u64 + 1) * 104_729 + rng.below(1 << 14)) << 12));
        let mut channel = Channel::new(id, guild_id, kind, name);
        channel.position = n as i32;
        channel.topic =
            rng.chance(0.4).then(|| format!("Everything about {name}. Please read the rules before you post."));
        channel.rate_limit_per_user = if rng.chance(0.1) { 5 } else { 0 };
        channel
    };
    let mut all: Vec<Channel> = (0..size.text_channels)
        .map(|n| channel(n, ChannelType::Text, CHANNEL_NAMES[n % CHANNEL_NAMES.len()]))
        .collect();
    if has_hidden {
        let overwrite = |role, allow, deny| Overwrite { target: OverwriteKind::Role(role), allow, deny };
        let hidden = overwrite(guild_id.cast(), Permissions::NONE, Permissions::VIEW_CHANNEL);
        let shown = overwrite(roles[1].id, Permissions::VIEW_CHANNEL, Permissions::NONE);
        all[size.text_channels - 1].overwrites = vec![hidden, shown];
    }
    let text = all.iter().map(|channel| channel.id).collect();
    let voice: Vec<Channel> = (0..3).map(|n| channel(size.text_channels + n, ChannelType::Voice, "talk")).collect();
    let voice_ids = voice.iter().map(|channel| channel.id).collect();
    all.extend(voice);
    (all, text, voice_ids)
}
