//! The audience index against the algorithm: random guilds, random changes, everything compared after each.

use crate::fixture::*;
use guildhall_guild_protocol::{Audience, AudienceRule, ContentReaders, Event, GuildStructure, Mentions, UserFilter};
use guildhall_model::{ChannelId, ChannelType, Intents, Overwrite, OverwriteKind, PassiveUpdate, Permissions, UserId};
use guildhall_relay::{AudienceIndex, LogId, Subscriber, SubscriptionMask, UserSubscriptions};
use guildhall_stdx::{Rng, Timestamp};
use smallvec::SmallVec;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

const ROLES: [u64; 5] = [1, 21, 22, 23, 24];
const CHANNELS: u64 = 6;
const USERS: u64 = 10;

/// Subscriptions of a session, as the naive model knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Bot(Intents),
    User(UserSubscriptions),
}

impl Wish {
    fn some(rng: &mut Rng, user_id: UserId) -> Self {
        if user_id.get().is_multiple_of(2) {
            let content = Intents::GUILDS | Intents::MESSAGE_CONTENT;
            let intents = [Intents::NONE, Intents::GUILDS, Intents::GUILD_MESSAGES, content, Intents::ALL];
            return Self::Bot(*rng.pick(&intents).expect("there are some"));
        }
        let forms = [PassiveUpdate::ChannelUnreads, PassiveUpdate::Snapshot, PassiveUpdate::Delta];
        Self::User(UserSubscriptions {
            active: rng.chance(0.5),
            typing: rng.chance(0.3),
            member_updates: rng.chance(0.3),
            threads: false,
            passive: *rng.pick(&forms).expect("there are some"),
            obfuscated: rng.chance(0.3),
        })
    }

    fn mask(self) -> SubscriptionMask {
        match self {
            Self::Bot(intents) => SubscriptionMask::bot(intents),
            Self::User(user) => SubscriptionMask::user(user),
        }
    }

    /// docs/protocol/reference.md §4.1 for bots, §8.4 and §8.5 for user accounts.
    fn wants(self, audience: &Audience) -> bool {
        match self {
            Self::Bot(intents) => audience.intents == Intents::NONE || intents.0 & audience.intents.0 != 0,
            Self::User(user) => match audience.users {
                UserFilter::All => true,
                UserFilter::Active => user.active,
                UserFilter::Voice => user.active || user.passive == PassiveUpdate::ChannelUnreads,
                UserFilter::Typing => user.typing,
                UserFilter::MemberUpdates => user.member_updates,
                UserFilter::Threads => user.threads,
                UserFilter::Named => false,
            },
        }
    }

    fn is_user(self) -> bool {
        matches!(self, Self::User(_))
    }

    fn reads_content(self) -> bool {
        matches!(self, Self::User(_))
            || matches!(self, Self::Bot(intents) if intents.contains(Intents::MESSAGE_CONTENT))
    }
}

/// Determines the log of a session: its view and its subscriptions.
type GroupKey = (BTreeSet<ChannelId>, SubscriptionMask);

struct World {
    rng: Rng,
    /// For what backends publish, so that the world goes the same way with and without it.
    backends_rng: Rng,
    structure: Arc<GuildStructure>,
    index: AudienceIndex,
    members: Members,
    /// Sessions by slot.
    subscribers: BTreeMap<u32, (UserId, Wish)>,
    next_slot: u32,
    /// By slot, after the change before.
    last_placements: BTreeMap<u32, (LogId, GroupKey)>,
}

fn channel_id(rng: &mut Rng) -> ChannelId {
    ChannelId::new(100 + rng.below(CHANNELS))
}

fn user_id(rng: &mut Rng) -> UserId {
    UserId::new(50 + rng.below(USERS))
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let roles: Vec<_> = ROLES.iter().map(|id| role(*id, some_bits(&mut rng))).collect();
        let structure = structure(50, &roles, &[]);
        let members = (50..50 + USERS).map(|id| (UserId::new(id), member(id, &[]))).collect();
        let index = AudienceIndex::new(structure.clone());
        let (subscribers, last_placements) = (BTreeMap::new(), BTreeMap::new());
        let mut world = Self {
            rng,
            backends_rng: Rng::new(!seed),
            structure,
            index,
            members,
            subscribers,
            next_slot: 0,
            last_placements,
        };
        (0..4).for_each(|_| world.change_channel());
        world
    }

    fn overwrites(&mut self) -> Vec<Overwrite> {
        let mut overwrites: Vec<Overwrite> = Vec::new();
        for _ in 0..self.rng.below(5) {
            let target = match self.rng.below(3) {
                0 => OverwriteKind::Member(user_id(&mut self.rng)),
                // Also of a role that does not exist.
                _ => OverwriteKind::Role(id(*self.rng.pick(&[1, 21, 22, 23, 24, 99]).expect("there are some"))),
            };
            overwrites.retain(|other| other.target != target);
            let (allow, deny) = (some_bits(&mut self.rng), some_bits(&mut self.rng));
            overwrites.push(Overwrite { target, allow, deny });
        }
        overwrites
    }

    fn change_channel(&mut self) {
        let mut structure = GuildStructure::clone(&self.structure);
        let target = channel_id(&mut self.rng);
        let channels = Arc::make_mut(&mut structure.channels);
        if self.rng.chance(0.2) {
            channels.remove(&target);
        } else {
            let kind = *self.rng.pick(&[ChannelType::Text, ChannelType::Voice]).expect("there are two");
            let overwrites = self.overwrites();
            channels.insert(target, channel(target.get(), kind, overwrites));
        }
        self.set_structure(structure);
    }

    fn change_role(&mut self) {
        let mut structure = GuildStructure::clone(&self.structure);
        let target = *self.rng.pick(&ROLES).expect("there are some");
        let roles = Arc::make_mut(&mut structure.roles);
        if target != 1 && self.rng.chance(0.2) {
            roles.remove(&id(target));
        } else {
            roles.insert(id(target), role(target, some_bits(&mut self.rng)));
        }
        self.set_structure(structure);
    }

    fn change_owner(&mut self) {
        let mut structure = GuildStructure::clone(&self.structure);
        Arc::make_mut(&mut structure.guild).owner_id = user_id(&mut self.rng);
        self.set_structure(structure);
    }

    fn set_structure(&mut self, structure: GuildStructure) {
        self.structure = Arc::new(structure);
        self.index.set_structure(self.structure.clone(), &mut ());
    }

    fn change_member(&mut self) {
        let target = user_id(&mut self.rng);
        let member = self.members.get_mut(&target).expect("all are members");
        member.roles.clear();
        // Also a role that does not exist (any more).
        for role in [21, 22, 23, 24, 99] {
            if self.rng.chance(0.4) {
                member.roles.push(id(role));
            }
        }
        member.communication_disabled_until = match self.rng.below(4) {
            0 => Some(Timestamp(NOW.0 - 1)),
            1 => Some(Timestamp(NOW.0 + 1)),
            _ => None,
        };
        member.flags = if self.rng.chance(0.1) { 1 << 7 } else { 0 };
        self.index.set_member(&Arc::new(member.clone()), &mut ());
    }

    fn add_subscriber(&mut self) {
        let user_id = user_id(&mut self.rng);
        let wish = Wish::some(&mut self.rng, user_id);
        let subscriber = Subscriber { slot: self.next_slot, mask: wish.mask() };
        self.next_slot += 1;
        self.subscribers.insert(subscriber.slot, (user_id, wish));
        self.index.add_subscriber(subscriber, Arc::new(self.members[&user_id].clone()), 0, &mut ());
    }

    fn set_mask(&mut self) {
        let slots: Vec<u32> = self.subscribers.keys().copied().collect();
        if let Some(slot) = self.rng.pick(&slots) {
            let (user_id, wish) = self.subscribers.get_mut(slot).expect("it is there");
            *wish = Wish::some(&mut self.rng, *user_id);
            let version = *slot + 7;
            self.index.set_mask(*user_id, *slot, wish.mask(), version);
            let (mask, found) = self.index.mask(*user_id, *slot).expect("it has a seat");
            assert_eq!(mask, wish.mask());
            assert!(found == version || found == 0, "it is the one it was put in with");
        }
    }

    fn remove_subscriber(&mut self) {
        let slots: Vec<u32> = self.subscribers.keys().copied().collect();
        if let Some(slot) = self.rng.pick(&slots) {
            let (user_id, _) = self.subscribers.remove(slot).expect("it is there");
            self.index.remove_subscriber(user_id, *slot);
            // A second time does nothing.
            self.index.remove_subscriber(user_id, *slot);
        }
    }

    fn remove_user(&mut self) {
        let user_id = user_id(&mut self.rng);
        let mut removed = self.index.remove_user(user_id);
        removed.sort_unstable();
        let expected: Vec<u32> =
            self.subscribers.iter().filter(|(_, (user, _))| *user == user_id).map(|(slot, _)| *slot).collect();
        assert_eq!(removed.to_vec(), expected);
        self.subscribers.retain(|_, (user, _)| *user != user_id);
    }

    fn step(&mut self) {
        match self.rng.below(12) {
            0..=3 => self.add_subscriber(),
            4 => self.remove_subscriber(),
            5 => self.remove_user(),
            6 => self.change_role(),
            7 => self.change_channel(),
            8 => self.change_owner(),
            9 => self.set_mask(),
            _ => self.change_member(),
        }
    }

    fn rules(&mut self) -> Vec<AudienceRule> {
        let mut rules =
            vec![AudienceRule::Members, AudienceRule::Channels([].into()), AudienceRule::User(user_id(&mut self.rng))];
        for channel in 100..100 + CHANNELS {
            rules.push(AudienceRule::Channel(id(channel)));
        }
        for _ in 0..3 {
            let (a, b) = (channel_id(&mut self.rng), channel_id(&mut self.rng));
            let bit = *self.rng.pick(&BITS).expect("there are some");
            let other = *self.rng.pick(&BITS).expect("there are some");
            rules.push(AudienceRule::Channels([a, b].into()));
            rules.extend(self.structure.list_of(a).map(AudienceRule::List));
            rules.push(AudienceRule::ChannelExcept(a, b));
            rules.push(AudienceRule::GuildPermission(bit | other));
            rules.push(AudienceRule::ChannelPermission(a, bit | other));
        }
        rules
    }

    /// Those of what backends publish.
    fn backend_rules(&mut self) -> Vec<AudienceRule> {
        let mut users = self.some_users().to_vec();
        users.sort_unstable();
        users.dedup();
        let roles = [21, 22, 23, 24, 99].into_iter().filter(|_| self.rng.chance(0.3)).map(id).collect();
        vec![AudienceRule::Users(users.into()), AudienceRule::Roles(roles), AudienceRule::Roles([GUILD.cast()].into())]
    }

    fn some_users(&mut self) -> SmallVec<[UserId; 4]> {
        (0..self.rng.below(4)).map(|_| user_id(&mut self.rng)).collect()
    }

    /// Mentions of a message; users may be named twice.
    fn mentions(&mut self) -> Mentions {
        let users = self.some_users();
        let roles = [21, 22, 23, 24, 99].into_iter().filter(|_| self.rng.chance(0.2)).map(id).collect();
        Mentions { users, roles, everyone: self.rng.chance(0.2) }
    }

    fn readers(&mut self) -> ContentReaders {
        let message = self.some_users();
        ContentReaders { message, referenced: self.rng.chance(0.5).then(|| self.some_users()) }
    }

    /// Sessions of user accounts that watch the member an event is about, and one that has left.
    fn watchers(&mut self) -> Vec<(UserId, u32)> {
        let users = self.subscribers.iter().filter(|(_, (_, wish))| wish.is_user());
        let some: Vec<(UserId, u32)> = users.map(|(slot, (user, _))| (*user, *slot)).collect();
        let gone = (UserId::new(51), self.next_slot + 1);
        some.into_iter().filter(|_| self.rng.chance(0.3)).chain([gone]).collect()
    }

    fn audience(&mut self, rule: AudienceRule) -> Audience {
        let rng = &mut self.rng;
        let is_for_one = matches!(rule, AudienceRule::User(_) | AudienceRule::Users(_));
        let intents = [Intents::NONE, Intents::GUILDS, Intents::GUILD_MESSAGES | Intents::GUILDS];
        let users = [
            UserFilter::All,
            UserFilter::Active,
            UserFilter::Voice,
            UserFilter::Typing,
            UserFilter::MemberUpdates,
            UserFilter::Named,
        ];
        let always = rng.chance(0.3).then(|| user_id(rng)).filter(|_| !is_for_one);
        let never_user_account = rng.chance(0.3).then(|| user_id(rng));
        let intents = *rng.pick(&intents).expect("there are some");
        let users = *rng.pick(&users).expect("there are some");
        let is_message = rng.chance(0.5) && !is_for_one;
        let mentions = is_message.then(|| Box::new(self.mentions()));
        Audience { rule, intents, always, never_user_account, users, about: None, mentions }
    }

    fn check(&mut self) {
        assert_eq!(self.index.len(), self.subscribers.len());
        assert_eq!(self.index.is_empty(), self.subscribers.is_empty());
        let mut slots: Vec<u32> = self.index.slots().collect();
        slots.sort_unstable();
        assert_eq!(slots, self.subscribers.keys().copied().collect::<Vec<_>>(), "A1: each session is in one group");
        let logs = self.check_logs();
        for rule in self.rules() {
            let mut event = event(rule.clone());
            event.audience = self.audience(rule);
            event.content_readers = self.rng.chance(0.4).then(|| self.readers());
            let watchers = self.watchers();
            self.check_event(&event, &watchers, &logs);
        }
        std::mem::swap(&mut self.rng, &mut self.backends_rng);
        for rule in self.backend_rules() {
            let mut event = event(rule.clone());
            event.audience = self.audience(rule);
            self.check_event(&event, &[], &logs);
        }
        std::mem::swap(&mut self.rng, &mut self.backends_rng);
    }

    /// A4: sessions share a log exactly if they view and listen to the same; and while they do, it stays theirs.
    fn check_logs(&mut self) -> BTreeMap<u32, LogId> {
        let to_all = delivered(&self.index, &event(AudienceRule::Members), NOW, &[]);
        assert_eq!(to_all.len(), self.subscribers.len());
        let placements: BTreeMap<u32, (LogId, GroupKey)> = (to_all.iter())
            .map(|delivery| {
                let (user, wish) = &self.subscribers[&delivery.slot];
                let view = naive_view(&self.structure, &self.members[user]);
                (delivery.slot, (delivery.log.expect("it came with the group"), (view, wish.mask())))
            })
            .collect();
        let mut by_log: BTreeMap<LogId, &GroupKey> = BTreeMap::new();
        let mut by_key: BTreeMap<&GroupKey, LogId> = BTreeMap::new();
        for (slot, (log, key)) in &placements {
            assert_eq!(*by_log.entry(*log).or_insert(key), key, "session {slot} is in a log of others");
            assert_eq!(
                *by_key.entry(key).or_insert(*log),
                *log,
                "session {slot} has the key of others and another log"
            );
        }
        let same_views =
            self.last_placements.iter().all(|(slot, (_, key))| placements.get(slot).is_some_and(|(_, s)| s == key));
        if same_views {
            let moved = self.last_placements.iter().find(|(slot, (log, _))| placements[slot].0 != *log);
            assert!(moved.is_none(), "no key changed, yet {moved:?} has another log");
        }
        let logs = placements.iter().map(|(slot, (log, _))| (*slot, *log)).collect();
        self.last_placements = placements;
        logs
    }

    /// Whether a session gets an event, and in which form.
    fn expected(&self, slot: u32, event: &Event, watchers: &[(UserId, u32)]) -> Option<usize> {
        let audience = &event.audience;
        let (user, wish) = &self.subscribers[&slot];
        let member = &self.members[user];
        let is_mentioned = audience.mentions.as_ref().is_some_and(|mentions| {
            mentions.everyone
                || mentions.users.contains(user)
                || mentions.roles.iter().any(|role| member.roles.contains(role))
        });
        let is_barred = wish.is_user() && audience.never_user_account == Some(*user);
        let wants = wish.wants(audience) || wish.is_user() && is_mentioned || watchers.contains(&(*user, slot));
        let is_admitted = naive_admits(&self.structure, member, &audience.rule);
        let is_watching_one =
            matches!(audience.rule, AudienceRule::User(_) | AudienceRule::Users(_)) && !wish.wants(audience);
        if is_barred || is_watching_one || !(audience.always == Some(*user) || wants && is_admitted) {
            return None;
        }
        let readers = event.content_readers.as_ref().filter(|_| !wish.reads_content());
        Some(readers.map_or(0, |readers| {
            let referenced = readers.referenced.as_ref().is_some_and(|readers| !readers.contains(user));
            usize::from(!readers.message.contains(user)) + 2 * usize::from(referenced)
        }))
    }

    fn check_event(&self, event: &Event, watchers: &[(UserId, u32)], logs: &BTreeMap<u32, LogId>) {
        let audience = &event.audience;
        let expected: Vec<(u32, usize)> = (self.subscribers.keys())
            .filter_map(|slot| Some((*slot, self.expected(*slot, event, watchers)?)))
            .collect();
        let found = delivered(&self.index, event, NOW, watchers);
        let forms: Vec<(u32, usize)> = found.iter().map(|delivery| (delivery.slot, delivery.redaction)).collect();
        assert_eq!(forms, expected, "{audience:?} {:?} {watchers:?}", event.content_readers);
        for delivery in found {
            assert!(delivery.log.is_none_or(|log| log == logs[&delivery.slot]), "in the log of another group");
        }
        for (user, member) in &self.members {
            let is_subscribed = self.subscribers.values().any(|(user_subscribers, _)| user_subscribers == user);
            let still_admitted = match &audience.rule {
                AudienceRule::ChannelExcept(channel, _) => naive_sees(&self.structure, member, *channel),
                rule => naive_admits(&self.structure, member, rule),
            };
            let expected = is_subscribed && (audience.always == Some(*user) || still_admitted);
            assert_eq!(self.index.may_see(*user, event, NOW), expected, "{user} {audience:?}");
        }
    }
}

#[test]
fn a1_a2_a3_a4_it_is_the_algorithm_after_any_change() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        for _ in 0..60 {
            world.step();
            world.check();
        }
    }
}

#[test]
fn a2_more_channels_than_a_word_has_bits() {
    let everyone = role(1, Permissions::VIEW_CHANNEL);
    let hide = overwrite(OverwriteKind::Role(id(1)), Permissions::NONE, Permissions::VIEW_CHANNEL);
    let channels: Vec<_> = (0..500u64)
        .map(|n| channel(1_000 + n, ChannelType::Text, if n % 3 == 0 { vec![hide] } else { Vec::new() }))
        .collect();
    let mut index = AudienceIndex::new(structure(50, &[everyone], &channels));
    index.add_subscriber(user_mask(0), Arc::new(member(51, &[])), 0, &mut ());
    for n in 0..500 {
        let found = delivered(&index, &event(AudienceRule::Channel(id(1_000 + n))), NOW, &[]);
        assert_eq!(found.len(), usize::from(n % 3 != 0), "channel {n}");
    }
}

#[test]
fn a4_the_view_of_a_user_who_left_does_not_change_the_logs_of_others() {
    let everyone = role(1, Permissions::VIEW_CHANNEL);
    let hide = overwrite(OverwriteKind::Role(id(1)), Permissions::NONE, Permissions::VIEW_CHANNEL);
    let show = overwrite(OverwriteKind::Member(id(52)), Permissions::VIEW_CHANNEL, Permissions::NONE);
    let open = channel(100, ChannelType::Text, Vec::new());
    let hidden = channel(101, ChannelType::Text, vec![hide, show]);
    let mut index = AudienceIndex::new(structure(50, std::slice::from_ref(&everyone), &[open.clone(), hidden]));
    index.add_subscriber(user_mask(0), Arc::new(member(51, &[])), 0, &mut ());
    index.add_subscriber(
        Subscriber { slot: 1, mask: SubscriptionMask::bot(Intents::NONE) },
        Arc::new(member(51, &[])),
        0,
        &mut (),
    );
    index.add_subscriber(user_mask(2), Arc::new(member(52, &[])), 0, &mut ());
    index.remove_subscriber(UserId::new(52), 2);
    let logs_of = |index: &AudienceIndex| -> Vec<_> {
        delivered(index, &event(AudienceRule::Members), NOW, &[]).iter().map(|delivery| delivery.log).collect()
    };
    let before = logs_of(&index);
    // Without the second channel both users have the same view.
    index.set_structure(structure(50, &[everyone], &[open]), &mut ());
    assert_eq!(logs_of(&index), before);
    // Logs without sessions are allocated again, each once.
    for slot in 3..7 {
        let mask = SubscriptionMask::bot(Intents(1 << slot));
        index.add_subscriber(Subscriber { slot, mask }, Arc::new(member(50 + u64::from(slot), &[])), 0, &mut ());
    }
    let logs: BTreeSet<_> = logs_of(&index).into_iter().collect();
    assert_eq!(logs.len(), 6);
}

fn user_mask(slot: u32) -> Subscriber {
    Subscriber {
        slot,
        mask: SubscriptionMask::user(UserSubscriptions { active: true, ..UserSubscriptions::default() }),
    }
}

#[test]
fn a_time_out_that_ends_ends_by_itself() {
    let everyone = role(1, Permissions::VIEW_CHANNEL | Permissions::VIEW_AUDIT_LOG);
    let mut index = AudienceIndex::new(structure(50, &[everyone], &[channel(100, ChannelType::Text, Vec::new())]));
    let mut silenced = member(51, &[]);
    silenced.communication_disabled_until = Some(Timestamp(500));
    index.add_subscriber(user_mask(7), Arc::new(silenced), 0, &mut ());
    let reaches = |rule: &AudienceRule, now| !delivered(&index, &event(rule.clone()), Timestamp(now), &[]).is_empty();
    let log = AudienceRule::GuildPermission(Permissions::VIEW_AUDIT_LOG);
    assert_eq!([499, 500, 501].map(|now| reaches(&log, now)), [false, true, true]);
    assert_eq!([499, 500, 501].map(|now| reaches(&AudienceRule::Channel(id(100)), now)), [true, true, true]);
}
