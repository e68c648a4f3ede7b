//! Audience index: which sessions of a relay may see what.
//!
//! Owns        permission classes: sessions whose members have the same standing share one, with one
//!             bitset of the channels it can view.
//! Doors       `seat`, `unseat`, `set_member`, `set_meta` keep it; `for_each` walks an event's recipients.
//! Invariants  A1 a session is in exactly one class, that of its member's standing. A2 a class's bitset equals
//!             what the algorithm says for each channel. A3 a role, overwrite or owner change recomputes
//!             classes, never sessions one by one. (checked against the algorithm in `tests`)
//! Limits      one class per distinct standing among the sessions here; a bit per channel and class.
//! Not here    what is delivered: `Relay`.     Spec  docs/protocol.md §5.2, §5.3.

use crate::{
    event::{Event, Gate, Redaction},
    meta::GuildMeta,
};
use guildhall_model::{
    AccountKind, ChannelId, Intents, Member, MemberStanding, OverwriteKind, Permissions, RoleId, UserId,
};
use guildhall_stdx::Timestamp;
use smallvec::SmallVec;
use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    sync::Arc,
};

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// What the audience has to know of a session.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// The session's place in its partition.
    pub slot: u32,
    /// What it asked for.
    pub intents: Intents,
    /// Its client family.
    pub kind: AccountKind,
}

/// One session in the list of its class, laid out for the walk.
#[derive(Clone, Copy, Debug)]
struct Listener {
    user_id: UserId,
    slot: u32,
    /// Intents, with the two flags in bits that no intent uses.
    bits: u32,
}

const WITHOUT_CONTENT: u32 = 1 << 31;
const USER_ACCOUNT: u32 = 1 << 30;

impl Listener {
    fn new(user_id: UserId, seat: Seat) -> Self {
        let flags = match seat.kind {
            AccountKind::User => USER_ACCOUNT,
            AccountKind::Bot if seat.intents.contains(Intents::MESSAGE_CONTENT) => 0,
            AccountKind::Bot => WITHOUT_CONTENT,
        };
        Self { user_id, slot: seat.slot, bits: seat.intents.0 | flags }
    }

    fn redaction(self, event: &Event) -> Redaction {
        match &event.content_readers {
            Some(readers) if self.bits & WITHOUT_CONTENT != 0 => Redaction::for_user(readers, self.user_id),
            _ => Redaction::NONE,
        }
    }

    fn is_barred(self, event: &Event) -> bool {
        let audience = &event.audience;
        self.bits & USER_ACCOUNT != 0
            && (audience.never_user_account == Some(self.user_id)
                || audience.by_subscription && audience.always != Some(self.user_id))
    }
}

/// Everything the permission algorithm asks about a member, and so what sessions of one class have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Standing {
    roles: SmallVec<[RoleId; 4]>,
    is_owner: bool,
    /// Only for members that some channel has an overwrite for.
    overwritten: Option<UserId>,
    is_quarantined: bool,
    silenced_until: Option<Timestamp>,
}

#[derive(Debug)]
struct Class {
    standing: Standing,
    visible: BitSet,
    listeners: Vec<Listener>,
}

impl Class {
    fn member_standing(&self, now: Timestamp) -> MemberStanding<'_> {
        MemberStanding {
            // Without an overwrite of their own, who they are makes no difference.
            user_id: self.standing.overwritten.unwrap_or(UserId::new(0)),
            roles: &self.standing.roles,
            is_owner: self.standing.is_owner,
            is_silenced: self.standing.is_quarantined || self.standing.silenced_until.is_some_and(|until| until > now),
        }
    }
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct BitSet(SmallVec<[u64; 4]>);

impl BitSet {
    fn insert(&mut self, index: usize) {
        if self.0.len() <= index / 64 {
            self.0.resize(index / 64 + 1, 0);
        }
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }
}

/// A session, and where it stands in its class's list.
#[derive(Clone, Copy, Debug)]
struct Placed {
    seat: Seat,
    at: usize,
}

#[derive(Debug)]
struct Seated {
    member: Arc<Member>,
    class: usize,
    seats: SmallVec<[Placed; 1]>,
}

/// The sessions of one relay, by what they may see.
#[derive(Debug)]
pub struct AudienceIndex {
    meta: Arc<GuildMeta>,
    channel_bits: Map<ChannelId, usize>,
    /// Members that a channel has an overwrite for: each is a class of its own.
    overwritten: BTreeSet<UserId>,
    classes: Vec<Class>,
    class_of: Map<Standing, usize>,
    /// Places in `classes` that nobody is in; they are used again.
    free: Vec<usize>,
    users: Map<UserId, Seated>,
    seats_count: usize,
}

impl AudienceIndex {
    /// An empty audience of this guild.
    #[must_use]
    pub fn new(meta: Arc<GuildMeta>) -> Self {
        let mut index = Self {
            channel_bits: Map::default(),
            overwritten: BTreeSet::new(),
            classes: Vec::new(),
            class_of: Map::default(),
            free: Vec::new(),
            users: Map::default(),
            seats_count: 0,
            meta: meta.clone(),
        };
        index.set_meta(meta);
        index
    }

    /// How many sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.seats_count
    }

    /// Whether there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seats_count == 0
    }

    /// What the guild says about itself.
    #[must_use]
    pub fn meta(&self) -> &Arc<GuildMeta> {
        &self.meta
    }

    /// Adds a session of `member`.
    pub fn seat(&mut self, seat: Seat, member: Arc<Member>) {
        let user_id = member.user.id;
        self.set_member(&member);
        if !self.users.contains_key(&user_id) {
            let class = self.class_for(self.standing_of(&member));
            self.users.insert(user_id, Seated { member, class, seats: SmallVec::new() });
        }
        let seated = self.users.get_mut(&user_id).expect("inserted above");
        let listeners = &mut self.classes[seated.class].listeners;
        seated.seats.push(Placed { seat, at: listeners.len() });
        listeners.push(Listener::new(user_id, seat));
        self.seats_count += 1;
    }

    /// Removes a session. Costs the same however many there are.
    pub fn unseat(&mut self, user_id: UserId, slot: u32) {
        let Some(seated) = self.users.get_mut(&user_id) else { return };
        let Some(index) = seated.seats.iter().position(|placed| placed.seat.slot == slot) else { return };
        let placed = seated.seats.remove(index);
        let (class, is_last) = (seated.class, seated.seats.is_empty());
        if is_last {
            self.users.remove(&user_id);
        }
        self.seats_count -= 1;
        self.take_listener(class, placed.at);
        self.free_if_empty(class);
    }

    /// Takes one listener out of a class; the last one takes its place in the list.
    fn take_listener(&mut self, class: usize, at: usize) {
        let listeners = &mut self.classes[class].listeners;
        listeners.swap_remove(at);
        let Some(moved) = listeners.get(at) else { return };
        let seated = self.users.get_mut(&moved.user_id).expect("every listener's user is here");
        let placed = seated.seats.iter_mut().find(|placed| placed.seat.slot == moved.slot);
        placed.expect("every listener has a seat").at = at;
    }

    /// Removes all sessions of a user and returns their places.
    pub fn unseat_user(&mut self, user_id: UserId) -> SmallVec<[u32; 2]> {
        let Some(seated) = self.users.get(&user_id) else { return SmallVec::new() };
        let slots: SmallVec<[u32; 2]> = seated.seats.iter().map(|placed| placed.seat.slot).collect();
        slots.iter().for_each(|slot| self.unseat(user_id, *slot));
        slots
    }

    /// All sessions' places.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.classes.iter().flat_map(|class| class.listeners.iter().map(|listener| listener.slot))
    }

    /// The member behind a user's sessions here.
    #[must_use]
    pub fn member(&self, user_id: UserId) -> Option<&Arc<Member>> {
        self.users.get(&user_id).map(|seated| &seated.member)
    }

    /// A member changed. Nothing happens unless they have a session here.
    pub fn set_member(&mut self, member: &Arc<Member>) {
        let user_id = member.user.id;
        let Some(seated) = self.users.get_mut(&user_id) else { return };
        seated.member = member.clone();
        self.reclass(user_id);
    }

    /// Roles, channels, overwrites or the owner changed.
    pub fn set_meta(&mut self, meta: Arc<GuildMeta>) {
        let owner_before = std::mem::replace(&mut self.meta, meta).guild.owner_id;
        self.channel_bits = self.meta.channels.keys().enumerate().map(|(bit, id)| (*id, bit)).collect();
        let overwritten: BTreeSet<UserId> = self
            .meta
            .channels
            .values()
            .flat_map(|channel| &channel.overwrites)
            .filter_map(|overwrite| match overwrite.target {
                OverwriteKind::Member(id) => Some(id),
                OverwriteKind::Role(_) => None,
            })
            .collect();
        let mut moved: Vec<UserId> = overwritten.symmetric_difference(&self.overwritten).copied().collect();
        if owner_before != self.meta.guild.owner_id {
            moved.extend([owner_before, self.meta.guild.owner_id]);
        }
        self.overwritten = overwritten;
        for user_id in moved {
            self.reclass(user_id);
        }
        for class in 0..self.classes.len() {
            self.classes[class].visible = self.visible_to(&self.classes[class]);
        }
    }

    fn standing_of(&self, member: &Member) -> Standing {
        Standing {
            roles: member.roles.clone(),
            is_owner: self.meta.guild.owner_id == member.user.id,
            overwritten: self.overwritten.contains(&member.user.id).then_some(member.user.id),
            is_quarantined: member.flags & Member::QUARANTINE_FLAGS != 0,
            silenced_until: member.communication_disabled_until,
        }
    }

    /// Puts a user's sessions into the class their member's standing asks for.
    fn reclass(&mut self, user_id: UserId) {
        let Some(seated) = self.users.get(&user_id) else { return };
        let (from, standing) = (seated.class, self.standing_of(&seated.member));
        if self.classes[from].standing == standing {
            return;
        }
        let to = self.class_for(standing);
        let seats = self.users[&user_id].seats.clone();
        for (index, placed) in seats.iter().enumerate() {
            // Looked up each time: taking one listener may have moved the user's next.
            let at = self.users[&user_id].seats[index].at;
            self.take_listener(from, at);
            let listeners = &mut self.classes[to].listeners;
            listeners.push(Listener::new(user_id, placed.seat));
            let at = listeners.len() - 1;
            let seated = self.users.get_mut(&user_id).expect("found above");
            seated.seats[index].at = at;
        }
        self.users.get_mut(&user_id).expect("found above").class = to;
        self.free_if_empty(from);
    }

    fn class_for(&mut self, standing: Standing) -> usize {
        if let Some(class) = self.class_of.get(&standing) {
            return *class;
        }
        let mut class = Class { standing: standing.clone(), visible: BitSet::default(), listeners: Vec::new() };
        class.visible = self.visible_to(&class);
        let place = match self.free.pop() {
            Some(place) => {
                self.classes[place] = class;
                place
            }
            None => {
                self.classes.push(class);
                self.classes.len() - 1
            }
        };
        self.class_of.insert(standing, place);
        place
    }

    fn free_if_empty(&mut self, place: usize) {
        let class = &mut self.classes[place];
        if class.listeners.is_empty() && self.class_of.get(&class.standing) == Some(&place) {
            self.class_of.remove(&class.standing);
            class.listeners = Vec::new();
            self.free.push(place);
        }
    }

    /// Time-outs never take VIEW_CHANNEL away, so the time does not matter here.
    fn visible_to(&self, class: &Class) -> BitSet {
        let standing = class.member_standing(Timestamp(0));
        let mut visible = BitSet::default();
        for (bit, channel) in self.meta.channels.values().enumerate() {
            if self.meta.channel_permissions(standing, channel).contains(Permissions::VIEW_CHANNEL) {
                visible.insert(bit);
            }
        }
        visible
    }

    fn sees(&self, class: &Class, channel_id: ChannelId) -> bool {
        self.channel_bits.get(&channel_id).is_some_and(|bit| class.visible.contains(*bit))
    }

    fn admits(&self, class: &Class, gate: Gate, now: Timestamp) -> bool {
        match gate {
            Gate::Members => true,
            Gate::Channel(channel) => self.sees(class, channel),
            Gate::ChannelExcept(channel, except) => self.sees(class, channel) && !self.sees(class, except),
            Gate::GuildPermission(any) => self.meta.guild_permissions(class.member_standing(now)).intersects(any),
            Gate::ChannelPermission(channel, all) => self.meta.channels.get(&channel).is_some_and(|channel| {
                self.meta.channel_permissions(class.member_standing(now), channel).contains(all)
            }),
            // Decided per user, by `for_each` and `may_see`.
            Gate::User(_) => false,
        }
    }

    /// Calls `deliver` once for every session that `event` is for. Costs the classes, and the sessions of those that are let in.
    pub fn for_each(&self, event: &Event, now: Timestamp, mut deliver: impl FnMut(u32, Redaction)) {
        let audience = &event.audience;
        let apart = match audience.gate {
            Gate::User(user_id) => Some(user_id),
            _ => audience.always,
        };
        for class in &self.classes {
            if class.listeners.is_empty() || !self.admits(class, audience.gate, now) {
                continue;
            }
            for listener in &class.listeners {
                let wanted = audience.intents.0 == 0 || listener.bits & audience.intents.0 != 0;
                if wanted && Some(listener.user_id) != apart && !listener.is_barred(event) {
                    deliver(listener.slot, listener.redaction(event));
                }
            }
        }
        let Some(seated) = apart.and_then(|user_id| self.users.get(&user_id)) else { return };
        let user_id = seated.member.user.id;
        for Placed { seat, .. } in &seated.seats {
            let listener = Listener::new(user_id, *seat);
            if (audience.always == Some(user_id) || seat.intents.admit(audience.intents)) && !listener.is_barred(event)
            {
                deliver(seat.slot, listener.redaction(event));
            }
        }
    }

    /// Whether a user's session may (still) see an event that it was sent before: asked at replay.
    #[must_use]
    pub fn may_see(&self, user_id: UserId, event: &Event, now: Timestamp) -> bool {
        let Some(seated) = self.users.get(&user_id) else { return false };
        if event.audience.always == Some(user_id) || event.audience.gate == Gate::User(user_id) {
            return true;
        }
        match event.audience.gate {
            // Who may view a channel no more still learns that somebody left another one.
            Gate::ChannelExcept(channel, _) => self.sees(&self.classes[seated.class], channel),
            gate => self.admits(&self.classes[seated.class], gate, now),
        }
    }
}
