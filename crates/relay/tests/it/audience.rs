//! The audience index against the algorithm: random guilds, random changes, everything compared after each.

use crate::fixture::*;
use guildhall_model::{AccountKind, ChannelId, ChannelType, Intents, Overwrite, OverwriteKind, Permissions, UserId};
use guildhall_relay::{Audience, AudienceIndex, Gate, GuildMeta, Redaction, Seat};
use guildhall_stdx::{Rng, Timestamp};
use std::{collections::BTreeMap, sync::Arc};

const ROLES: [u64; 5] = [1, 21, 22, 23, 24];
const CHANNELS: u64 = 6;
const USERS: u64 = 10;

struct World {
    rng: Rng,
    meta: Arc<GuildMeta>,
    index: AudienceIndex,
    members: Members,
    /// By slot.
    seats: BTreeMap<u32, (UserId, Seat)>,
    next_slot: u32,
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
        let meta = meta(50, &roles, &[]);
        let members = (50..50 + USERS).map(|id| (UserId::new(id), member(id, &[]))).collect();
        let index = AudienceIndex::new(meta.clone());
        let mut world = Self { rng, meta, index, members, seats: BTreeMap::new(), next_slot: 0 };
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
        let mut meta = GuildMeta::clone(&self.meta);
        let target = channel_id(&mut self.rng);
        let channels = Arc::make_mut(&mut meta.channels);
        if self.rng.chance(0.2) {
            channels.remove(&target);
        } else {
            let kind = *self.rng.pick(&[ChannelType::Text, ChannelType::Voice]).expect("there are two");
            let overwrites = self.overwrites();
            channels.insert(target, channel(target.get(), kind, overwrites));
        }
        self.set_meta(meta);
    }

    fn change_role(&mut self) {
        let mut meta = GuildMeta::clone(&self.meta);
        let target = *self.rng.pick(&ROLES).expect("there are some");
        let roles = Arc::make_mut(&mut meta.roles);
        if target != 1 && self.rng.chance(0.2) {
            roles.remove(&id(target));
        } else {
            roles.insert(id(target), role(target, some_bits(&mut self.rng)));
        }
        self.set_meta(meta);
    }

    fn change_owner(&mut self) {
        let mut meta = GuildMeta::clone(&self.meta);
        Arc::make_mut(&mut meta.guild).owner_id = user_id(&mut self.rng);
        self.set_meta(meta);
    }

    fn set_meta(&mut self, meta: GuildMeta) {
        self.meta = Arc::new(meta);
        self.index.set_meta(self.meta.clone());
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
        self.index.set_member(&Arc::new(member.clone()));
    }

    fn seat(&mut self) {
        let user_id = user_id(&mut self.rng);
        let kind = if user_id.get().is_multiple_of(2) { AccountKind::Bot } else { AccountKind::User };
        let intents = *self.rng.pick(&[Intents::NONE, Intents::GUILDS, Intents::ALL]).expect("there are some");
        let seat = Seat { slot: self.next_slot, intents, kind };
        self.next_slot += 1;
        self.seats.insert(seat.slot, (user_id, seat));
        self.index.seat(seat, Arc::new(self.members[&user_id].clone()));
    }

    fn unseat(&mut self) {
        let slots: Vec<u32> = self.seats.keys().copied().collect();
        if let Some(slot) = self.rng.pick(&slots) {
            let (user_id, _) = self.seats.remove(slot).expect("it is there");
            self.index.unseat(user_id, *slot);
            // A second time does nothing.
            self.index.unseat(user_id, *slot);
        }
    }

    fn unseat_user(&mut self) {
        let user_id = user_id(&mut self.rng);
        let mut unseated = self.index.unseat_user(user_id);
        unseated.sort_unstable();
        let of_user = |(_, (user, _)): &(&u32, &(UserId, Seat))| *user == user_id;
        let expected: Vec<u32> = self.seats.iter().filter(of_user).map(|(slot, _)| *slot).collect();
        assert_eq!(unseated.to_vec(), expected);
        self.seats.retain(|_, (user, _)| *user != user_id);
    }

    fn step(&mut self) {
        match self.rng.below(10) {
            0..=2 => self.seat(),
            3 => self.unseat(),
            4 => self.unseat_user(),
            5 => self.change_role(),
            6 => self.change_channel(),
            7 => self.change_owner(),
            _ => self.change_member(),
        }
    }

    fn gates(&mut self) -> Vec<Gate> {
        let mut gates = vec![Gate::Members, Gate::User(user_id(&mut self.rng))];
        for channel in 100..100 + CHANNELS {
            gates.push(Gate::Channel(id(channel)));
        }
        for _ in 0..3 {
            let (a, b) = (channel_id(&mut self.rng), channel_id(&mut self.rng));
            let bit = *self.rng.pick(&BITS).expect("there are some");
            let other = *self.rng.pick(&BITS).expect("there are some");
            gates.push(Gate::ChannelExcept(a, b));
            gates.push(Gate::GuildPermission(bit | other));
            gates.push(Gate::ChannelPermission(a, bit | other));
        }
        gates
    }

    fn check(&mut self) {
        assert_eq!(self.index.len(), self.seats.len());
        assert_eq!(self.index.is_empty(), self.seats.is_empty());
        let mut slots: Vec<u32> = self.index.slots().collect();
        slots.sort_unstable();
        assert_eq!(slots, self.seats.keys().copied().collect::<Vec<_>>(), "A1: each session is in one class");
        for gate in self.gates() {
            let always =
                self.rng.chance(0.3).then(|| user_id(&mut self.rng)).filter(|_| !matches!(gate, Gate::User(_)));
            let never_user_account = self.rng.chance(0.3).then(|| user_id(&mut self.rng));
            let intents = *self.rng.pick(&[Intents::NONE, Intents::GUILDS]).expect("there are two");
            let by_subscription = self.rng.chance(0.2);
            let mut event = event(gate);
            event.audience = Audience { gate, intents, always, never_user_account, by_subscription };
            self.check_event(&event);
        }
    }

    fn check_event(&self, event: &guildhall_relay::Event) {
        let audience = &event.audience;
        let expected: Vec<u32> = self
            .seats
            .iter()
            .filter(|(_, (user, seat))| {
                let is_always = audience.always == Some(*user);
                let is_user_account = seat.kind == AccountKind::User;
                let is_barred = is_user_account
                    && (audience.never_user_account == Some(*user) || audience.by_subscription && !is_always);
                let wants = audience.intents == Intents::NONE || seat.intents.0 & audience.intents.0 != 0;
                let admitted = naive_admits(&self.meta, &self.members[user], audience.gate);
                !is_barred && (is_always || wants && admitted)
            })
            .map(|(slot, _)| *slot)
            .collect();
        let mut delivered = Vec::new();
        self.index.for_each(event, NOW, |slot, redaction| {
            assert_eq!(redaction, Redaction::NONE, "there is nothing to redact");
            delivered.push(slot);
        });
        delivered.sort_unstable();
        assert_eq!(delivered, expected, "{audience:?}");

        for (user, member) in &self.members {
            let is_seated = self.seats.values().any(|(seated, _)| seated == user);
            let still_admitted = match audience.gate {
                Gate::ChannelExcept(channel, _) => naive_sees(&self.meta, member, channel),
                gate => naive_admits(&self.meta, member, gate),
            };
            let expected = is_seated && (audience.always == Some(*user) || still_admitted);
            assert_eq!(self.index.may_see(*user, event, NOW), expected, "{user} {audience:?}");
        }
    }
}

#[test]
fn a1_a2_a3_it_is_the_algorithm_after_any_change() {
    for seed in 0..150 {
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
    let mut index = AudienceIndex::new(meta(50, &[everyone], &channels));
    index.seat(Seat { slot: 0, intents: Intents::ALL, kind: AccountKind::User }, Arc::new(member(51, &[])));
    for n in 0..500 {
        let mut delivered = 0;
        index.for_each(&event(Gate::Channel(id(1_000 + n))), NOW, |_, _| delivered += 1);
        assert_eq!(delivered, u32::from(n % 3 != 0), "channel {n}");
    }
}

#[test]
fn a_time_out_that_ends_ends_by_itself() {
    let everyone = role(1, Permissions::VIEW_CHANNEL | Permissions::VIEW_AUDIT_LOG);
    let mut index = AudienceIndex::new(meta(50, &[everyone], &[channel(100, ChannelType::Text, Vec::new())]));
    let mut silenced = member(51, &[]);
    silenced.communication_disabled_until = Some(Timestamp(500));
    index.seat(Seat { slot: 7, intents: Intents::ALL, kind: AccountKind::User }, Arc::new(silenced));
    let reaches = |gate, now| {
        let mut delivered = false;
        index.for_each(&event(gate), Timestamp(now), |_, _| delivered = true);
        delivered
    };
    let log = Gate::GuildPermission(Permissions::VIEW_AUDIT_LOG);
    assert_eq!([499, 500, 501].map(|now| reaches(log, now)), [false, true, true]);
    assert_eq!([499, 500, 501].map(|now| reaches(Gate::Channel(id(100)), now)), [true, true, true]);
}
