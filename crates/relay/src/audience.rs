//! Audience index: which sessions of a relay may see what, and so receive an event.
//!
//! Owns        permission classes: sessions with the same permission key share one. Classes that view the same channels
//!             share a view, with one bitset. In a class, sessions with the same subscription mask are in one group.
//! Doors       `add_subscriber`, `remove_subscriber`, `set_mask`, `invalidate_baseline`, `set_member`, `set_structure`
//!             keep it; `fan_out` (in its own file) walks an event's recipients; `replay_visibility` decides about
//!             events that are sent again.
//! Invariants  A1 a session is in exactly one group of exactly one class, that of its member's permission key. A2 a
//!             class's bitset equals the result of the permission algorithm for each channel. A3 a role, overwrite or
//!             owner change recomputes classes, never sessions one by one; it walks passive ones whose view it changed,
//!             for A5. A4 groups with equal view and mask share a log, and get exactly the same events but those about
//!             single users. A5 when the view of a passive session changes, its previous view is kept (`Baselines`).
//!             (checked against the algorithm in `tests`)
//! Limits      one class per distinct permission key among the sessions here; a bit per channel and view.
//! Not here    what is delivered: `Relay`.     Spec  docs/protocol/reference.md §5.2, §5.3.

mod fan_out;
mod replay_visibility;

pub use fan_out::{Delivering, GroupDelivering, Lead};
pub use replay_visibility::{GuildPlaces, PassiveSubjects, ReplayDecision, ReplayVisibility, Replayed};

use crate::{
    subscription_mask::SubscriptionMask,
    view_change::{ViewChange, Viewers, ViewsBefore},
};
use guildhall_guild_protocol::{
    AccessChange, AccessRules, Event, GuildStructure, HiddenChannels, Mentions, ThreadEntry, Visibility,
    visibility_domain,
};
use guildhall_model::{
    Channel, ChannelId, ChannelType, Member, MemberStanding, OverwriteKind, PassiveUpdate, Permissions, RoleId, UserId,
};
use guildhall_stdx::{
    CowMap, Timestamp,
    heap::{self, Sample},
};
use smallvec::SmallVec;
use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    sync::Arc,
};

/// Hash map with a random seed per process, because clients choose some of the keys. Its order is random: a result
/// that is built by iterating over one is sorted.
pub(crate) type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Input of the audience for one session.
#[derive(Clone, Copy, Debug)]
pub struct Subscriber {
    /// The session's place in its partition.
    pub slot: u32,
    /// Events that the session subscribes to.
    pub mask: SubscriptionMask,
}

/// A log of a relay: one for each combination of view and subscription mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogId(pub u32);

/// Baselines of passive sessions whose view changed: the state they know, kept until their next passive update.
pub trait Baselines {
    /// A session whose last update was at `version` viewed `channels` (sorted) and now views others. Returns the
    /// version that represents both.
    fn rebase(&mut self, version: u32, channels: &Arc<[ChannelId]>) -> u32;
    /// A session whose last update was at `version`, and that views `channels`, may know an older or a newer state of
    /// them. Returns the version that represents that.
    fn invalidate_baseline(&mut self, version: u32, channels: Vec<ChannelId>) -> u32;
}

/// Discards previous views, for callers without passive sessions.
impl Baselines for () {
    fn rebase(&mut self, version: u32, _channels: &Arc<[ChannelId]>) -> u32 {
        version
    }

    fn invalidate_baseline(&mut self, version: u32, _channels: Vec<ChannelId>) -> u32 {
        version
    }
}

/// One session in the list of its group, laid out for the walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listener {
    pub user_id: UserId,
    pub slot: u32,
    /// Version of the relay's change log at the passive session's last update.
    pub version: u32,
}

/// All inputs of the permission algorithm that depend on the member. Sessions of one class have equal keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PermissionKey {
    roles: SmallVec<[RoleId; 4]>,
    is_owner: bool,
    /// Only for members that some channel has an overwrite for.
    overwritten: Option<UserId>,
    is_quarantined: bool,
    silenced_until: Option<Timestamp>,
}

/// Sessions of a class with the same subscription mask.
#[derive(Debug)]
struct Group {
    mask: SubscriptionMask,
    log: LogId,
    listeners: Vec<Listener>,
}

#[derive(Debug)]
struct Class {
    key: PermissionKey,
    view: usize,
    /// None of them is empty.
    groups: SmallVec<[Group; 2]>,
}

impl Class {
    fn member_standing(&self, now: Timestamp) -> MemberStanding<'_> {
        MemberStanding {
            // Without a member overwrite the user id makes no difference.
            user_id: self.key.overwritten.unwrap_or(UserId::new(0)),
            roles: &self.key.roles,
            is_owner: self.key.is_owner,
            is_silenced: self.key.is_quarantined || self.key.silenced_until.is_some_and(|until| until > now),
        }
    }

    fn group_mut(&mut self, mask: SubscriptionMask) -> &mut Group {
        let group = self.groups.iter_mut().find(|group| group.mask == mask);
        group.expect("the group of an indexed subscriber exists")
    }

    /// Its passive sessions viewed these channels, and others now.
    fn rebase(&mut self, baselines: &mut impl Baselines, channels: &Arc<[ChannelId]>) {
        for group in self.groups.iter_mut().filter(|group| group.mask.is_passive()) {
            for listener in &mut group.listeners {
                listener.version = baselines.rebase(listener.version, channels);
            }
        }
    }

    fn is_mentioned(&self, mentions: Option<&Mentions>) -> bool {
        mentions.is_some_and(|mentions| {
            mentions.everyone || mentions.roles.iter().any(|role| self.key.roles.binary_search(role).is_ok())
        })
    }
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
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

/// The channels that some classes view, and the logs of their groups.
#[derive(Debug)]
struct View {
    visible: BitSet,
    classes_count: usize,
    logs: SmallVec<[(SubscriptionMask, LogId); 2]>,
}

/// A session and its index in the list of its group.
#[derive(Clone, Copy, Debug)]
struct IndexedSubscriber {
    subscriber: Subscriber,
    at: u32,
}

#[derive(Debug)]
struct UserSubscribers {
    member: Arc<Member>,
    class: usize,
    subscribers: SmallVec<[IndexedSubscriber; 1]>,
}

/// Which of some channels users view.
pub(crate) struct ChannelViewers(Map<UserId, BitSet>);

impl ChannelViewers {
    /// Users who view more of these channels in `now`, with the indexes of the new ones, ordered by user id.
    pub fn gained(&self, now: &Self, channels_count: usize) -> Vec<(UserId, Vec<usize>)> {
        let none = BitSet::default();
        let mut gained: Vec<(UserId, Vec<usize>)> = Vec::new();
        for (user_id, viewed) in now.0.iter().filter(|(user_id, viewed)| self.0.get(*user_id) != Some(*viewed)) {
            let before = self.0.get(user_id).unwrap_or(&none);
            let is_new = |place: &usize| viewed.contains(*place) && !before.contains(*place);
            let places: Vec<usize> = (0..channels_count).filter(is_new).collect();
            if !places.is_empty() {
                gained.push((*user_id, places));
            }
        }
        gained.sort_unstable_by_key(|(user_id, _)| *user_id);
        gained
    }
}

/// The sessions of one relay, by what they may see.
#[derive(Debug)]
pub struct AudienceIndex {
    structure: Arc<GuildStructure>,
    hidden: HiddenChannels,
    /// For the event that changed the views, and those that follow without a replica update of their own.
    views_before: ViewsBefore,
    /// Members of each thread.
    threads: CowMap<ChannelId, ThreadEntry>,
    channel_bits: Map<ChannelId, usize>,
    /// Of the channels as `structure` has them.
    access: AccessRules,
    /// Members that a channel has an overwrite for: each is a class of its own.
    overwritten: BTreeSet<UserId>,
    classes: Vec<Class>,
    classes_by_key: Map<PermissionKey, usize>,
    /// Unused places in `classes`, for new classes.
    free: Vec<usize>,
    views: Vec<View>,
    views_by_channels: Map<BitSet, usize>,
    free_views: Vec<usize>,
    /// Number of logs that were ever allocated; the unused ones among them are in `free_logs`.
    logs_count: u32,
    free_logs: Vec<LogId>,
    /// Logs of the views there were, by the same channels' places now; only while these change.
    kept_logs: Map<BitSet, SmallVec<[(SubscriptionMask, LogId); 2]>>,
    users: Map<UserId, UserSubscribers>,
    subscribers_count: usize,
}

impl AudienceIndex {
    /// An empty audience of this guild.
    #[must_use]
    pub fn new(structure: Arc<GuildStructure>) -> Self {
        let mut index = Self {
            hidden: HiddenChannels::default(),
            views_before: ViewsBefore::default(),
            channel_bits: Map::default(),
            access: AccessRules::default(),
            overwritten: BTreeSet::new(),
            classes: Vec::new(),
            classes_by_key: Map::default(),
            free: Vec::new(),
            views: Vec::new(),
            views_by_channels: Map::default(),
            free_views: Vec::new(),
            logs_count: 0,
            free_logs: Vec::new(),
            kept_logs: Map::default(),
            users: Map::default(),
            subscribers_count: 0,
            structure: structure.clone(),
            threads: CowMap::default(),
        };
        index.set_structure(structure, &mut ());
        index
    }

    /// The same, with another form of hidden channels.
    #[must_use]
    pub fn hiding(mut self, hidden: HiddenChannels) -> Self {
        self.hidden = hidden;
        self
    }

    /// How many sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.subscribers_count
    }

    /// Number of passive sessions.
    #[must_use]
    pub fn passive_count(&self) -> usize {
        let groups = self.classes.iter().flat_map(|class| &class.groups);
        groups.filter(|group| group.mask.is_passive()).map(|group| group.listeners.len()).sum()
    }

    /// Estimated heap memory, without structure, members and threads, which are the guild's.
    #[must_use]
    pub fn heap_bytes(&self, sample: Sample) -> usize {
        let of_group = |group: &Group| heap::of_buffer(&group.listeners);
        let of_class = |class: &Class| {
            let groups = if class.groups.spilled() { heap::allocated(size_of_val(&*class.groups)) } else { 0 };
            groups + class.groups.iter().map(of_group).sum::<usize>()
        };
        let of_user = |of: &UserSubscribers| match of.subscribers.spilled() {
            true => heap::allocated(of.subscribers.capacity() * size_of::<IndexedSubscriber>()),
            false => 0,
        };
        sample.of_vec(&self.classes, of_class)
            + sample.of_map(&self.classes_by_key, |_, _| 0)
            + sample.of_vec(&self.views, |_| 0)
            + sample.of_map(&self.views_by_channels, |_, _| 0)
            + sample.of_map(&self.channel_bits, |_, _| 0)
            + sample.of_map(&self.users, |_, of| of_user(of))
            + heap::of_set(&self.overwritten)
    }

    /// Whether there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.subscribers_count == 0
    }

    /// The guild's settings, roles and channels.
    #[must_use]
    pub fn structure(&self) -> &Arc<GuildStructure> {
        &self.structure
    }

    /// The guild's threads, from now on.
    pub fn set_threads(&mut self, threads: &CowMap<ChannelId, ThreadEntry>) {
        self.threads = threads.clone();
    }

    // ── who is here ──────────────────────────────────────────────────────────────────────────────

    /// Adds a session of `member`. `version` is that of the relay's change log.
    pub fn add_subscriber(
        &mut self,
        subscriber: Subscriber,
        member: Arc<Member>,
        version: u32,
        baselines: &mut impl Baselines,
    ) {
        let user_id = member.user.id;
        self.set_member(&member, baselines);
        if !self.users.contains_key(&user_id) {
            let class = self.class_for(self.permission_key(&member));
            self.users.insert(user_id, UserSubscribers { member, class, subscribers: SmallVec::new() });
        }
        let class = self.users[&user_id].class;
        let at = self.put_listener(class, subscriber.mask, Listener { user_id, slot: subscriber.slot, version });
        self.users.get_mut(&user_id).expect("inserted above").subscribers.push(IndexedSubscriber { subscriber, at });
        self.subscribers_count += 1;
    }

    /// Removes a session. Costs the same however many there are.
    pub fn remove_subscriber(&mut self, user_id: UserId, slot: u32) {
        let Some(user_subscribers) = self.users.get_mut(&user_id) else { return };
        let Some(index) = user_subscribers.subscribers.iter().position(|indexed| indexed.subscriber.slot == slot)
        else {
            return;
        };
        let indexed = user_subscribers.subscribers.remove(index);
        let (class, is_last) = (user_subscribers.class, user_subscribers.subscribers.is_empty());
        if is_last {
            self.users.remove(&user_id);
        }
        self.subscribers_count -= 1;
        self.take_listener(class, indexed);
        self.free_if_empty(class);
    }

    /// Replaces a session's subscriptions. `version` is that of the relay's change log.
    pub fn set_mask(&mut self, user_id: UserId, slot: u32, mask: SubscriptionMask, version: u32) {
        let Some(user_subscribers) = self.users.get(&user_id) else { return };
        let Some(index) = user_subscribers.subscribers.iter().position(|indexed| indexed.subscriber.slot == slot)
        else {
            return;
        };
        let (class, indexed) = (user_subscribers.class, user_subscribers.subscribers[index]);
        if indexed.subscriber.mask == mask {
            return;
        }
        self.take_listener(class, indexed);
        let at = self.put_listener(class, mask, Listener { user_id, slot, version });
        let subscribers = &mut self.users.get_mut(&user_id).expect("found above").subscribers;
        subscribers[index] = IndexedSubscriber { subscriber: Subscriber { slot, mask }, at };
    }

    /// Records that a passive session may know another state than that of its version.
    pub(crate) fn invalidate_baseline(&mut self, user_id: UserId, slot: u32, baselines: &mut impl Baselines) {
        let Some(user_subscribers) = self.users.get(&user_id) else { return };
        let indexed = user_subscribers.subscribers.iter().find(|indexed| indexed.subscriber.slot == slot);
        let Some(indexed) = indexed.filter(|indexed| indexed.subscriber.mask.is_passive()).copied() else { return };
        let (class, view) = (user_subscribers.class, self.classes[user_subscribers.class].view);
        let channels = self.structure.channels.keys().copied().filter(|id| self.view_holds(view, *id)).collect();
        let listener = &mut self.classes[class].group_mut(indexed.subscriber.mask).listeners[indexed.at as usize];
        listener.version = baselines.invalidate_baseline(listener.version, channels);
    }

    /// Removes all sessions of a user and returns their places.
    pub fn remove_user(&mut self, user_id: UserId) -> SmallVec<[u32; 2]> {
        let slots: SmallVec<[u32; 2]> = self.user_slots(user_id).collect();
        slots.iter().for_each(|slot| self.remove_subscriber(user_id, *slot));
        slots
    }

    /// All sessions' places.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        let groups = self.classes.iter().flat_map(|class| &class.groups);
        groups.flat_map(|group| group.listeners.iter().map(|listener| listener.slot))
    }

    /// The places of a user's sessions.
    pub fn user_slots(&self, user_id: UserId) -> impl Iterator<Item = u32> + '_ {
        self.users
            .get(&user_id)
            .into_iter()
            .flat_map(|user_subscribers| user_subscribers.subscribers.iter().map(|indexed| indexed.subscriber.slot))
    }

    /// The member behind a user's sessions here.
    #[must_use]
    pub fn member(&self, user_id: UserId) -> Option<&Arc<Member>> {
        self.users.get(&user_id).map(|user_subscribers| &user_subscribers.member)
    }

    /// Which of these channels each user here views, by index into `channels`. O(users): not for each event.
    pub(crate) fn channel_viewers(&self, channels: &[ChannelId]) -> ChannelViewers {
        let of_view = |view: &View| {
            let mut viewed = BitSet::default();
            let bits = channels.iter().map(|id| self.channel_bits.get(id)).enumerate();
            let held = bits.filter(|(_, bit)| bit.is_some_and(|bit| view.visible.contains(*bit)));
            held.for_each(|(place, _)| viewed.insert(place));
            viewed
        };
        let by_view: Vec<BitSet> = self.views.iter().map(of_view).collect();
        let of_user = |(id, user_subscribers): (&UserId, &UserSubscribers)| {
            (*id, by_view[self.classes[user_subscribers.class].view].clone())
        };
        ChannelViewers(self.users.iter().map(of_user).collect())
    }

    /// A user's sessions that receive all threads, and those that receive only threads that the user joined.
    pub(crate) fn user_thread_listeners(&self, user_id: UserId) -> [SmallVec<[u32; 2]>; 2] {
        let subscribers =
            || self.users.get(&user_id).into_iter().flat_map(|user_subscribers| &user_subscribers.subscribers);
        let all = subscribers().filter(|indexed| indexed.subscriber.mask.wants_threads());
        let joined = subscribers()
            .filter(|indexed| indexed.subscriber.mask.is_user() && !indexed.subscriber.mask.wants_threads());
        [all.map(|indexed| indexed.subscriber.slot).collect(), joined.map(|indexed| indexed.subscriber.slot).collect()]
    }

    /// A session's subscriptions, and the version of its last passive update.
    #[must_use]
    pub fn mask(&self, user_id: UserId, slot: u32) -> Option<(SubscriptionMask, u32)> {
        let user_subscribers = self.users.get(&user_id)?;
        let indexed = user_subscribers.subscribers.iter().find(|indexed| indexed.subscriber.slot == slot)?;
        let group =
            self.classes[user_subscribers.class].groups.iter().find(|group| group.mask == indexed.subscriber.mask)?;
        Some((indexed.subscriber.mask, group.listeners[indexed.at as usize].version))
    }

    fn put_listener(&mut self, class: usize, mask: SubscriptionMask, listener: Listener) -> u32 {
        if !self.classes[class].groups.iter().any(|group| group.mask == mask) {
            let log = self.log_for(self.classes[class].view, mask);
            self.classes[class].groups.push(Group { mask, log, listeners: Vec::new() });
        }
        let listeners = &mut self.classes[class].group_mut(mask).listeners;
        listeners.push(listener);
        listeners.len() as u32 - 1
    }

    /// Takes one listener out of its group; the last one takes its place in the list.
    fn take_listener(&mut self, class: usize, indexed: IndexedSubscriber) {
        let IndexedSubscriber { subscriber, at } = indexed;
        let group = self.classes[class].group_mut(subscriber.mask);
        group.listeners.swap_remove(at as usize);
        let moved = group.listeners.get(at as usize).copied();
        if group.listeners.is_empty() {
            self.classes[class].groups.retain(|group| !group.listeners.is_empty());
        }
        let Some(moved) = moved else { return };
        let user_subscribers = self.users.get_mut(&moved.user_id).expect("every listener's user is here");
        let indexed = user_subscribers.subscribers.iter_mut().find(|indexed| indexed.subscriber.slot == moved.slot);
        indexed.expect("every listener is indexed").at = at;
    }

    // ── classes and views ────────────────────────────────────────────────────────────────────────

    /// A member changed. Nothing happens unless they have a session here.
    pub fn set_member(&mut self, member: &Arc<Member>, baselines: &mut impl Baselines) {
        let user_id = member.user.id;
        self.views_before = ViewsBefore::default();
        let Some(user_subscribers) = self.users.get_mut(&user_id) else { return };
        user_subscribers.member = member.clone();
        self.reclass(user_id, baselines);
    }

    /// The domain of an event that is about to be delivered here.
    #[must_use]
    pub fn visibility(&self, event: &Event) -> Visibility {
        visibility_domain(&self.access, event)
    }

    /// What changed in the access rules between another audience of the same guild and this one.
    pub(crate) fn access_since(&self, before: &Self) -> AccessChange {
        self.access.since(&before.access)
    }

    /// The access rules as a change from none: every restricted channel is narrowed.
    pub(crate) fn access_at_first(&self) -> AccessChange {
        self.access.at_first()
    }

    /// Roles, channels, overwrites or the owner changed. Returns what that did to the domains of events.
    pub fn set_structure(&mut self, structure: Arc<GuildStructure>, baselines: &mut impl Baselines) -> AccessChange {
        let before = std::mem::replace(&mut self.structure, structure);
        self.views_before = ViewsBefore::default();
        if self.hidden != HiddenChannels::Listed {
            self.views_before.structure = Some(before.clone());
        }
        let access_before = std::mem::replace(&mut self.access, AccessRules::of(&self.structure));
        let owner_before = before.guild.owner_id;
        self.channel_bits = self.structure.channels.keys().enumerate().map(|(bit, id)| (*id, bit)).collect();
        let overwritten: BTreeSet<UserId> = self
            .structure
            .channels
            .values()
            .flat_map(|channel| &channel.overwrites)
            .filter_map(|overwrite| match overwrite.target {
                OverwriteKind::Member(id) => Some(id),
                OverwriteKind::Role(_) => None,
            })
            .collect();
        let mut moved: Vec<UserId> = overwritten.symmetric_difference(&self.overwritten).copied().collect();
        if owner_before != self.structure.guild.owner_id {
            moved.extend([owner_before, self.structure.guild.owner_id]);
        }
        self.overwritten = overwritten;
        self.renew_views(&before, baselines);
        for user_id in moved {
            self.reclass(user_id, baselines);
        }
        self.views_before.users.sort_unstable_by_key(|(user_id, _)| *user_id);
        let kept = std::mem::take(&mut self.kept_logs);
        let mut freed: Vec<LogId> = kept.into_values().flatten().map(|(_, log)| log).collect();
        freed.sort_unstable();
        self.free_logs.extend(freed);
        self.access.since(&access_before)
    }

    /// Computes the view of every class again. A view of the same channels keeps its log.
    fn renew_views(&mut self, structure_before: &GuildStructure, baselines: &mut impl Baselines) {
        // By the class's view before and now.
        let mut viewed: Map<(usize, usize), Option<Arc<[ChannelId]>>> = Map::default();
        let mut before = std::mem::take(&mut self.views);
        self.views_by_channels.clear();
        self.free_views.clear();
        // A free place may have viewed the same channels as a used one, and has no logs.
        for view in before.iter_mut().filter(|view| view.classes_count > 0) {
            let logs = std::mem::take(&mut view.logs);
            let same_now = self.same_now(structure_before, &view.visible);
            if let Some(others) = self.kept_logs.insert(same_now, logs) {
                self.free_logs.extend(others.into_iter().map(|(_, log)| log));
            }
        }
        for class in 0..self.classes.len() {
            if self.classes[class].groups.is_empty() {
                continue;
            }
            let visible = self.visible_to(&self.classes[class]);
            let view_before = self.classes[class].view;
            let view = match self.views_by_channels.get(&visible) {
                Some(view) => *view,
                None => self.add_view(visible),
            };
            self.views[view].classes_count += 1;
            self.classes[class].view = view;
            let viewed = viewed
                .entry((view_before, view))
                .or_insert_with(|| self.viewed_before(structure_before, &before[view_before].visible, view));
            if let Some(channels) = viewed {
                self.classes[class].rebase(baselines, channels);
                if self.hidden != HiddenChannels::Listed {
                    self.views_before.classes.push((class, channels.clone()));
                }
            }
            for group in 0..self.classes[class].groups.len() {
                let log = self.log_for(view, self.classes[class].groups[group].mask);
                self.classes[class].groups[group].log = log;
            }
        }
    }

    /// A set of channels by their places before, as one by their places now; those that are gone are left out.
    fn same_now(&self, structure_before: &GuildStructure, before: &BitSet) -> BitSet {
        let mut now = BitSet::default();
        for (_, id) in structure_before.channels.keys().enumerate().filter(|(bit, _)| before.contains(*bit)) {
            if let Some(bit) = self.channel_bits.get(id) {
                now.insert(*bit);
            }
        }
        now
    }

    /// The channels that a view held, unless those that there were and are in it are the same.
    fn viewed_before(&self, structure: &GuildStructure, visible: &BitSet, view: usize) -> Option<Arc<[ChannelId]>> {
        let channels = || structure.channels.keys().enumerate().map(|(bit, id)| (*id, visible.contains(bit)));
        let is_other = channels().any(|(id, was_held)| was_held != self.view_holds(view, id));
        is_other.then(|| channels().filter(|(_, was_held)| *was_held).map(|(id, _)| id).collect())
    }

    fn add_view(&mut self, visible: BitSet) -> usize {
        let logs = self.kept_logs.remove(&visible).unwrap_or_default();
        let view = View { visible: visible.clone(), classes_count: 0, logs };
        let place = match self.free_views.pop() {
            Some(place) => {
                self.views[place] = view;
                place
            }
            None => {
                self.views.push(view);
                self.views.len() - 1
            }
        };
        self.views_by_channels.insert(visible, place);
        place
    }

    fn log_for(&mut self, view: usize, mask: SubscriptionMask) -> LogId {
        let logs = &mut self.views[view].logs;
        if let Some((_, log)) = logs.iter().find(|(of, _)| *of == mask) {
            return *log;
        }
        let log = self.free_logs.pop().unwrap_or_else(|| {
            self.logs_count += 1;
            LogId(self.logs_count - 1)
        });
        logs.push((mask, log));
        log
    }

    fn permission_key(&self, member: &Member) -> PermissionKey {
        PermissionKey {
            roles: member.roles.clone(),
            is_owner: self.structure.guild.owner_id == member.user.id,
            overwritten: self.overwritten.contains(&member.user.id).then_some(member.user.id),
            is_quarantined: member.flags & Member::QUARANTINE_FLAGS != 0,
            silenced_until: member.communication_disabled_until,
        }
    }

    /// Puts a user's sessions into the class of their member's permission key.
    fn reclass(&mut self, user_id: UserId, baselines: &mut impl Baselines) {
        let Some(user_subscribers) = self.users.get(&user_id) else { return };
        let (from, key) = (user_subscribers.class, self.permission_key(&user_subscribers.member));
        if self.classes[from].key == key {
            return;
        }
        let to = self.class_for(key);
        let (viewed, view) = (self.classes[from].view, self.classes[to].view);
        if self.hidden != HiddenChannels::Listed {
            let before = self.views_before.of_class(from).cloned();
            self.views_before.users.push((user_id, before.unwrap_or_else(|| self.channels_in(viewed).collect())));
        }
        let viewed =
            if viewed == view { None } else { self.viewed_before(&self.structure, &self.views[viewed].visible, view) };
        for index in 0..self.users[&user_id].subscribers.len() {
            // Looked up each time: taking one listener may have moved the user's next.
            let indexed = self.users[&user_id].subscribers[index];
            let mut listener = self.classes[from].group_mut(indexed.subscriber.mask).listeners[indexed.at as usize];
            if let Some(channels) = viewed.as_ref().filter(|_| indexed.subscriber.mask.is_passive()) {
                listener.version = baselines.rebase(listener.version, channels);
            }
            self.take_listener(from, indexed);
            let at = self.put_listener(to, indexed.subscriber.mask, listener);
            self.users.get_mut(&user_id).expect("found above").subscribers[index].at = at;
        }
        self.users.get_mut(&user_id).expect("found above").class = to;
        self.free_if_empty(from);
    }

    fn class_for(&mut self, key: PermissionKey) -> usize {
        if let Some(class) = self.classes_by_key.get(&key) {
            return *class;
        }
        let mut class = Class { key: key.clone(), view: 0, groups: SmallVec::new() };
        let visible = self.visible_to(&class);
        class.view = match self.views_by_channels.get(&visible) {
            Some(view) => *view,
            None => self.add_view(visible),
        };
        self.views[class.view].classes_count += 1;
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
        self.classes_by_key.insert(key, place);
        place
    }

    fn free_if_empty(&mut self, place: usize) {
        let class = &mut self.classes[place];
        if !class.groups.is_empty() || self.classes_by_key.get(&class.key) != Some(&place) {
            return;
        }
        self.classes_by_key.remove(&class.key);
        let view = class.view;
        self.free.push(place);
        self.views[view].classes_count -= 1;
        if self.views[view].classes_count == 0 {
            self.views_by_channels.remove(&self.views[view].visible);
            self.free_logs.extend(std::mem::take(&mut self.views[view].logs).into_iter().map(|(_, log)| log));
            self.free_views.push(view);
        }
    }

    /// Time-outs never take VIEW_CHANNEL away, so the time does not matter here.
    fn visible_to(&self, class: &Class) -> BitSet {
        let standing = class.member_standing(Timestamp(0));
        let mut visible = BitSet::default();
        for (bit, channel) in self.structure.channels.values().enumerate() {
            if self.structure.channel_permissions(standing, channel).contains(Permissions::VIEW_CHANNEL) {
                visible.insert(bit);
            }
        }
        visible
    }

    fn channels_in(&self, view: usize) -> impl Iterator<Item = ChannelId> + '_ {
        self.structure.channels.keys().copied().filter(move |id| self.view_holds(view, *id))
    }

    // ── for hidden channels ──────────────────────────────────────────────────────────────────────

    pub(crate) fn hidden(&self) -> HiddenChannels {
        self.hidden
    }

    /// A channel as it was before the last change.
    pub(crate) fn channel_before(&self, channel_id: ChannelId) -> Option<&Arc<Channel>> {
        let before = self.views_before.structure.as_ref().unwrap_or(&self.structure);
        before.channels.get(&channel_id)
    }

    /// The channels that entered or left views with the last change: first those that left, then
    /// categories, then the others.
    pub(crate) fn view_changes(&self) -> Vec<ViewChange> {
        let mut changes = Vec::new();
        let mut compare = |viewers: Viewers, before: &[ChannelId], view: usize| {
            let lost = before.iter().filter(|id| !self.view_holds(view, **id)).map(|id| (*id, false));
            let gained = self.channels_in(view).filter(|id| before.binary_search(id).is_err()).map(|id| (id, true));
            changes.extend(lost.chain(gained).map(|(channel_id, is_gained)| ViewChange {
                channel_id,
                is_gained,
                viewers,
            }));
        };
        for (place, before) in &self.views_before.classes {
            let class = &self.classes[*place];
            if !class.groups.is_empty() {
                compare(Viewers::Class(*place), before, class.view);
            }
        }
        for (user_id, before) in &self.views_before.users {
            if let Some(view) = self.user_view(*user_id) {
                compare(Viewers::User(*user_id), before, view);
            }
        }
        let is_category = |id: &ChannelId| {
            self.structure.channels.get(id).is_some_and(|channel| channel.kind == ChannelType::Category)
        };
        changes.sort_by_key(|change| (change.is_gained, !is_category(&change.channel_id), change.channel_id));
        changes
    }

    // ── for passive updates ──────────────────────────────────────────────────────────────────────

    /// Calls `then` for every group of passive sessions, with a number for its view.
    pub(crate) fn passive_groups(&mut self, mut then: impl FnMut(PassiveGroup<'_>)) {
        for class in &mut self.classes {
            for group in class.groups.iter_mut().filter(|group| group.mask.is_passive()) {
                then(PassiveGroup {
                    view: class.view,
                    form: group.mask.passive_form(),
                    log: group.log,
                    listeners: &mut group.listeners,
                });
            }
        }
    }

    /// The number of a user's view.
    pub(crate) fn user_view(&self, user_id: UserId) -> Option<usize> {
        self.users.get(&user_id).map(|user_subscribers| self.classes[user_subscribers.class].view)
    }

    /// Whether a view holds a channel.
    pub(crate) fn view_holds(&self, view: usize, channel_id: ChannelId) -> bool {
        self.channel_bits.get(&channel_id).is_some_and(|bit| self.views[view].visible.contains(*bit))
    }
}

/// Passive sessions with the same view and subscription mask.
pub(crate) struct PassiveGroup<'a> {
    pub view: usize,
    pub form: PassiveUpdate,
    pub log: LogId,
    pub listeners: &'a mut [Listener],
}
