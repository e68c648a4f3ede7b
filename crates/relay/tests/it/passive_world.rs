//! A guild, one relay of it, and the clients behind it: what may happen to them, and what they must hold then.

use crate::{
    fixture::*,
    passive_client::{Client, Create, Post},
};
use guildhall_guild_protocol::{
    AudienceRule, Event, GuildReplica, GuildStructure, GuildView, PartitionId, Payload, Published, RelayId,
    RelayMessage, ReplicaUpdate, SessionKey, ToRelay, VoiceEntry,
};
use guildhall_model::{
    ChannelId, ChannelType, EventName, Member, MessageId, Overwrite, OverwriteKind, PassiveUpdate, Permissions, UserId,
    VoiceState,
};
use guildhall_relay::{LogId, Relay, Replayed, SubscriptionMask, ToGuilds, UserSubscriptions};
use guildhall_stdx::{Now, Rng};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

const RELAY: RelayId = RelayId::first(PartitionId(1));
pub const INTERVAL_MS: u64 = 1_000;
const ROLES: [u64; 3] = [1, 21, 22];
pub const TEXT: [u64; 3] = [100, 101, 102];
pub const VOICE: [u64; 3] = [110, 111, 112];
/// User accounts, with odd ids.
const USERS: [u64; 6] = [51, 53, 55, 57, 59, 61];

/// Owns the guild at first, and speaks.
pub const OWNER: UserId = UserId::new(51);

/// A guild, one relay of it, and the clients behind that.
pub struct World {
    pub rng: Rng,
    pub relay: Relay,
    seq: u64,
    pub now_ms: u64,
    pub post: Post,
    structure: Arc<GuildStructure>,
    pub members: Members,
    newest: BTreeMap<ChannelId, MessageId>,
    voice: BTreeMap<UserId, VoiceState>,
    pub clients: BTreeMap<u32, Client>,
    views: BTreeMap<u32, BTreeSet<ChannelId>>,
    next_slot: u32,
    next_message: u64,
    pub updates_count: u64,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let everyone = role(1, Permissions::VIEW_CHANNEL);
        let others = ROLES[1..].iter().map(|id| role(*id, Permissions::NONE));
        let roles: Vec<_> = std::iter::once(everyone).chain(others).collect();
        let text = TEXT.iter().map(|id| channel(*id, ChannelType::Text, Vec::new()));
        let channels: Vec<_> =
            text.chain(VOICE.iter().map(|id| channel(*id, ChannelType::Voice, Vec::new()))).collect();
        let structure = structure(51, &roles, &channels);
        let mut world = Self {
            rng: Rng::new(seed),
            relay: Relay::new(GUILD, RELAY, 1, INTERVAL_MS),
            seq: 0,
            now_ms: 0,
            post: Post::default(),
            structure: structure.clone(),
            members: USERS.iter().map(|id| (UserId::new(*id), member(*id, &[]))).collect(),
            newest: BTreeMap::new(),
            voice: BTreeMap::new(),
            clients: BTreeMap::new(),
            views: BTreeMap::new(),
            next_slot: 0,
            next_message: 1,
            updates_count: 0,
        };
        world.say(RelayMessage::Snapshot { replica: GuildReplica::new(structure), reset: false });
        world
    }

    pub fn now(&self) -> Now {
        Now::new(self.now_ms, NOW.0)
    }

    // ── what happens ─────────────────────────────────────────────────────────────────────────────

    fn say(&mut self, message: RelayMessage) {
        self.seq += 1;
        let message = ToRelay { guild_id: GUILD, relay: RELAY, epoch: 1, seq: self.seq, message };
        self.relay.handle(self.now(), message, &mut self.post, &mut ToGuilds::new());
        self.read_post();
    }

    fn publish(&mut self, event: Event, replica_update: ReplicaUpdate) {
        self.say(RelayMessage::Published(Arc::new(Published { event, replica_update })));
    }

    pub fn attach(&mut self, user_id: UserId, mask: UserSubscriptions) -> u32 {
        let slot = self.next_slot;
        self.next_slot += 1;
        self.post.mask = mask;
        let member = Arc::new(self.members[&user_id].clone());
        let view = GuildView { member, member_count: 6, members: None, version: 1, is_transferred: false };
        let session = SessionKey { relay: RELAY, slot, generation: 0 };
        self.say(RelayMessage::Attached { session, view: Some(Box::new(view)) });

        let Create { newest, voice } = std::mem::take(&mut self.post.create);
        let view = naive_view(&self.structure, &self.members[&user_id]);
        for (of, state) in &voice {
            let is_viewed = state.channel_id.is_some_and(|id| view.contains(&id));
            assert!(is_viewed || *of == user_id, "GUILD_CREATE contains a channel out of view");
        }
        let (unsure_messages, unsure_voice) = (BTreeSet::new(), BTreeSet::new());
        let client = Client { user_id, mask, newest, voice, unsure_messages, unsure_voice, unread: None };
        self.clients.insert(slot, client);
        self.views.insert(slot, view);
        slot
    }

    pub fn set_mask(&mut self, slot: u32, mask: UserSubscriptions) {
        let client = &self.clients[&slot];
        let (user_id, before) = (client.user_id, client.mask);
        self.relay.set_mask(user_id, slot, SubscriptionMask::user(mask), &mut self.post);
        let got: Vec<_> = self.post.got.iter().map(|(to, ..)| *to).collect();
        assert!(got.is_empty() || got == [slot] && !before.active && mask.active, "R4: one update at most");
        self.read_post();
        self.clients.get_mut(&slot).expect("it is here").mask = mask;
        if mask.active {
            self.check_client(slot);
        }
    }

    pub fn message(&mut self, channel_id: ChannelId, author: UserId, mentions: &[UserId], everyone: bool) {
        let id = MessageId::new(self.next_message);
        self.next_message += 1;
        let event = said_in(channel_id, id, author, mentions, everyone);
        self.newest.insert(channel_id, id);
        self.publish(event, ReplicaUpdate::Message(channel_id, id));
    }

    /// Like a guild's event: a user who changes channels leaves the first one before.
    pub fn voice(&mut self, user_id: UserId, channel_id: Option<ChannelId>, self_mute: bool) {
        let before = self.voice.get(&user_id).and_then(|state| state.channel_id);
        let Some(rule) = channel_id.or(before) else { return };
        let event = |rule, channel_id| {
            let payload = Payload::Voice { state: Arc::new(state(user_id, channel_id, self_mute)), member: None };
            Event::new(GUILD, EventName::VoiceStateUpdate, rule, payload)
        };
        if let Some(before) = before.filter(|before| *before != rule) {
            self.publish(event(AudienceRule::ChannelExcept(before, rule), None), ReplicaUpdate::None);
        }
        let now = state(user_id, channel_id, self_mute);
        match channel_id {
            Some(_) => self.voice.insert(user_id, now.clone()),
            None => self.voice.remove(&user_id),
        };
        let member = Arc::new(self.members[&user_id].clone());
        let entry = channel_id.map(|_| VoiceEntry { state: Arc::new(now), member });
        self.publish(
            event(AudienceRule::Channel(rule), channel_id).always_to(user_id),
            ReplicaUpdate::Voice(user_id, entry),
        );
    }

    fn set_structure(&mut self, structure: GuildStructure, name: EventName, payload: Payload) {
        self.structure = Arc::new(structure);
        self.publish(
            Event::new(GUILD, name, AudienceRule::Members, payload),
            ReplicaUpdate::Structure(self.structure.clone()),
        );
        self.note_views();
    }

    pub fn set_channel(&mut self, channel_id: u64, overwrites: Vec<Overwrite>) {
        let mut structure = GuildStructure::clone(&self.structure);
        let kind = if VOICE.contains(&channel_id) { ChannelType::Voice } else { ChannelType::Text };
        Arc::make_mut(&mut structure.channels).insert(id(channel_id), channel(channel_id, kind, overwrites));
        self.set_structure(structure, EventName::ChannelUpdate, Payload::GuildGone);
    }

    pub fn delete_channel(&mut self, channel_id: u64) {
        let channel_id = ChannelId::new(channel_id);
        let inside = self.voice.values().filter(|state| state.channel_id == Some(channel_id));
        let inside: Vec<UserId> = inside.map(|state| state.user_id).collect();
        inside.into_iter().for_each(|user_id| self.voice(user_id, None, false));
        let mut structure = GuildStructure::clone(&self.structure);
        if let Some(channel) = Arc::make_mut(&mut structure.channels).remove(&channel_id) {
            self.newest.remove(&channel_id);
            self.set_structure(structure, EventName::ChannelDelete, Payload::Channel(channel));
        }
    }

    pub fn set_role(&mut self, role_id: u64, permissions: Permissions) {
        let mut structure = GuildStructure::clone(&self.structure);
        let role = role(role_id, permissions);
        Arc::make_mut(&mut structure.roles).insert(role.id, role.clone());
        self.set_structure(structure, EventName::GuildRoleUpdate, Payload::Role(role));
    }

    pub fn set_owner(&mut self, user_id: UserId) {
        let mut structure = GuildStructure::clone(&self.structure);
        Arc::make_mut(&mut structure.guild).owner_id = user_id;
        self.set_structure(structure, EventName::GuildUpdate, Payload::GuildGone);
    }

    pub fn set_member(&mut self, member: Member) {
        let user_id = member.user.id;
        self.members.insert(user_id, member.clone());
        let member = Arc::new(member);
        let event =
            Event::new(GUILD, EventName::GuildMemberUpdate, AudienceRule::Members, Payload::Member(member.clone()));
        self.publish(event.always_to(user_id), ReplicaUpdate::Member(user_id, Some(member)));
        self.note_views();
    }

    /// Leaves, and may join again.
    pub fn leave(&mut self, user_id: UserId) {
        self.voice(user_id, None, false);
        let payload = Payload::MemberRemove(self.members[&user_id].user.clone());
        let event = Event::new(GUILD, EventName::GuildMemberRemove, AudienceRule::Members, payload);
        self.publish(event, ReplicaUpdate::Member(user_id, None));
        let left: Vec<u32> = self.clients.iter().filter(|(_, c)| c.user_id == user_id).map(|(slot, _)| *slot).collect();
        let mut lost = std::mem::take(&mut self.post.lost);
        lost.sort_unstable();
        assert_eq!(lost, left);
        self.clients.retain(|_, client| client.user_id != user_id);
    }

    pub fn detach(&mut self, slot: u32) {
        let client = self.clients.remove(&slot).expect("it is here");
        self.relay.detach(client.user_id, slot);
    }

    /// Simulates a loss of events: all sessions attach again.
    pub fn restart(&mut self) {
        let entry = |state: &VoiceState| VoiceEntry {
            state: Arc::new(state.clone()),
            member: Arc::new(self.members[&state.user_id].clone()),
        };
        let replica = GuildReplica {
            structure: self.structure.clone(),
            last_message_ids: Arc::new(self.newest.clone()),
            voice: self.voice.iter().map(|(user_id, state)| (*user_id, entry(state))).collect(),
            threads: Default::default(),
        };
        self.seq += self.rng.below(3);
        self.say(RelayMessage::Snapshot { replica, reset: true });
        let mut lost = std::mem::take(&mut self.post.lost);
        lost.sort_unstable();
        assert_eq!(lost, self.clients.keys().copied().collect::<Vec<_>>());
        for (_, client) in std::mem::take(&mut self.clients) {
            self.attach(client.user_id, client.mask);
        }
    }

    /// Lets the interval of passive updates pass, and checks every client.
    pub fn round(&mut self) {
        let updated = |world: &mut Self| {
            world.now_ms += 2 * INTERVAL_MS;
            world.relay.handle_timer(world.now(), &mut world.post);
            let got = world.post.got.iter().map(|(slot, ..)| *slot).collect::<Vec<_>>();
            world.read_post();
            got
        };
        let mut got = updated(self);
        let count = got.len();
        got.sort_unstable();
        got.dedup();
        assert_eq!(got.len(), count, "one update each");
        assert!(got.iter().all(|slot| !self.clients[slot].mask.active), "for passive ones only");
        for slot in self.clients.keys().copied().collect::<Vec<_>>() {
            self.check_client(slot);
        }
        assert_eq!(updated(self), Vec::<u32>::new(), "no change is sent twice");
    }

    // ── what clients make of it ──────────────────────────────────────────────────────────────────

    pub fn read_post(&mut self) {
        let got = std::mem::take(&mut self.post.got);
        let index = self.relay.audience().expect("there was a snapshot");
        let to_all = delivered(index, &event(AudienceRule::Members), NOW, &[]);
        let logs: BTreeMap<u32, LogId> = to_all.iter().filter_map(|d| Some((d.slot, d.log?))).collect();
        for (slot, published, log) in got {
            // The test removed the client of this member.
            let Some(client) = self.clients.get_mut(&slot) else { continue };
            assert!(log.is_none_or(|log| logs[&slot] == log), "A4: the log of its group");
            let view = naive_view(&self.structure, &self.members[&client.user_id]);
            let payload = &published.event.payload;
            let (channels, voice): (Vec<ChannelId>, &[VoiceEntry]) = match payload {
                Payload::PassiveDelta(delta) => (delta.channels.iter().map(|(id, _)| *id).collect(), &delta.voice),
                Payload::PassiveSnapshot(all) => (all.channels.iter().map(|(id, _)| *id).collect(), &all.voice),
                Payload::Unread(channels) => (channels.iter().map(|(id, _)| *id).collect(), &[]),
                _ => (Vec::new(), &[]),
            };
            assert!(channels.iter().all(|id| view.contains(id)), "U2: {channels:?} of {view:?}");
            let unique: BTreeSet<ChannelId> = channels.iter().copied().collect();
            assert_eq!(unique.len(), channels.len(), "each channel once");
            if let Payload::PassiveSnapshot(_) = payload {
                assert_eq!(unique, view, "V1 tells all there is");
            }
            let mut named: BTreeSet<UserId> = BTreeSet::new();
            for VoiceEntry { state, .. } in voice {
                let is_viewed = state.channel_id.is_some_and(|id| view.contains(&id));
                assert!(is_viewed || state.user_id == client.user_id, "U2: {state:?} of {view:?}");
                assert!(named.insert(state.user_id), "each user once");
            }
            if let Payload::PassiveDelta(delta) = payload {
                assert!(delta.left.iter().all(|user_id| named.insert(*user_id)), "each user once");
                assert!(!delta.is_empty());
            }
            let name = match client.mask.passive {
                PassiveUpdate::ChannelUnreads => EventName::ChannelUnreadUpdate,
                PassiveUpdate::Snapshot => EventName::PassiveUpdateV1,
                PassiveUpdate::Delta => EventName::PassiveUpdateV2,
            };
            if let AudienceRule::Channels(_) = published.event.audience.rule {
                assert_eq!(published.event.name, name, "in the form of the client's subscriptions");
                self.updates_count += 1;
            }
            assert!(
                index.may_see(client.user_id, &published.event, NOW),
                "an event that is sent now may be replayed now"
            );
            if let Payload::PassiveSnapshot(_) = payload {
                client.unsure_messages.clear();
                client.unsure_voice.clear();
            }
            match &mut client.unread {
                Some(unread) => unread.push(published),
                None => client.apply(payload),
            }
        }
    }

    /// The connection of a session is gone.
    pub fn disconnect(&mut self, slot: u32) {
        self.clients.get_mut(&slot).expect("it is here").unread.get_or_insert_default();
    }

    /// The client resumes; unread dispatches that it may still see are sent again.
    pub fn resume(&mut self, slot: u32) {
        let Some(client) = self.clients.get_mut(&slot) else { return };
        let Some(unread) = client.unread.take() else { return };
        let index = self.relay.audience().expect("there was a snapshot");
        let mut is_whole = true;
        for published in unread {
            if index.may_see(client.user_id, &published.event, NOW) {
                client.apply(&published.event.payload);
                continue;
            }
            is_whole = false;
            if let Some(rest) = self.relay.rebuild_for_replay(client.user_id, Replayed::Event(&published.event), NOW) {
                assert!(index.may_see(client.user_id, &rest, NOW), "the remaining part is visible");
                client.apply(&rest.payload);
            }
        }
        let user_id = client.user_id;
        if !is_whole {
            self.relay.invalidate_baseline(user_id, slot);
        }
    }

    /// Notes channels whose visibility changed while a client received events live: it cannot be sure of those.
    fn note_views(&mut self) {
        for (slot, client) in &mut self.clients {
            let view = naive_view(&self.structure, &self.members[&client.user_id]);
            let before = self.views.insert(*slot, view.clone()).unwrap_or_default();
            for channel_id in before.symmetric_difference(&view) {
                if client.mask.active {
                    client.unsure_messages.insert(*channel_id);
                }
                if client.is_told_voice_live() {
                    client.unsure_voice.insert(*channel_id);
                }
            }
        }
    }

    /// Checks U1, U3 and U4 for a client that has just read an update.
    pub fn check_client(&self, slot: u32) {
        let client = &self.clients[&slot];
        if client.unread.is_some() {
            return;
        }
        let view = naive_view(&self.structure, &self.members[&client.user_id]);
        for channel_id in view.difference(&client.unsure_messages) {
            let (believed, found) = (client.newest.get(channel_id), self.newest.get(channel_id));
            assert_eq!(believed, found, "newest message of {channel_id} to session {slot}: {client:?}");
        }
        let is_sure = |state: &VoiceState| state.channel_id.is_some_and(|id| !client.unsure_voice.contains(&id));
        let users: BTreeSet<&UserId> = client.voice.keys().chain(self.voice.keys()).collect();
        for user_id in users {
            let (believed, found) = (client.voice.get(user_id), self.voice.get(user_id));
            let is_told = |state: &VoiceState| {
                state.channel_id.is_some_and(|id| view.contains(&id)) || *user_id == client.user_id
            };
            if *user_id == client.user_id || believed.into_iter().chain(found).all(is_sure) {
                assert_eq!(believed, found.filter(|state| is_told(state)), "{user_id} to session {slot}: {client:?}");
            }
        }
    }

    // ── what may happen ──────────────────────────────────────────────────────────────────────────

    fn some_user(&mut self) -> UserId {
        UserId::new(*self.rng.pick(&USERS).expect("there are some"))
    }

    fn some_slot(&mut self) -> Option<u32> {
        let slots: Vec<u32> = self.clients.keys().copied().collect();
        self.rng.pick(&slots).copied()
    }

    fn some_channel(&mut self) -> u64 {
        *self.rng.pick(&[TEXT, VOICE].concat()).expect("there are some")
    }

    fn some_mask(&mut self, passive: PassiveUpdate) -> UserSubscriptions {
        let (active, typing) = (self.rng.chance(0.3), self.rng.chance(0.3));
        UserSubscriptions {
            active,
            typing,
            member_updates: self.rng.chance(0.3),
            threads: false,
            passive,
            obfuscated: false,
        }
    }

    pub fn step(&mut self) {
        match self.rng.below(23) {
            0..=4 => {
                let channels: Vec<ChannelId> = self.structure.channels.keys().copied().collect();
                let Some(channel_id) = self.rng.pick(&channels).copied() else { return };
                let (author, mentioned) = (self.some_user(), self.some_user());
                let everyone = self.rng.chance(0.1);
                self.message(channel_id, author, &[mentioned], everyone);
            }
            5..=9 => {
                let channels = self.structure.channels.values().filter(|channel| channel.kind == ChannelType::Voice);
                let channels: Vec<ChannelId> = channels.map(|channel| channel.id).collect();
                let to = if self.rng.chance(0.3) { None } else { self.rng.pick(&channels).copied() };
                let (user_id, self_mute) = (self.some_user(), self.rng.chance(0.5));
                self.voice(user_id, to, self_mute);
            }
            10 => {
                let (role_id, is_granted) = (*self.rng.pick(&ROLES).expect("some"), self.rng.chance(0.5));
                let permissions = if is_granted { Permissions::VIEW_CHANNEL } else { Permissions::NONE };
                self.set_role(role_id, permissions);
            }
            11 | 12 => {
                let channel_id = self.some_channel();
                let role_id = *self.rng.pick(&ROLES).expect("some");
                let (allow, deny) = match self.rng.below(3) {
                    0 => (Permissions::VIEW_CHANNEL, Permissions::NONE),
                    1 => (Permissions::NONE, Permissions::VIEW_CHANNEL),
                    _ => (Permissions::NONE, Permissions::NONE),
                };
                let of_member = OverwriteKind::Member(self.some_user());
                let target = if self.rng.chance(0.3) { of_member } else { OverwriteKind::Role(id(role_id)) };
                self.set_channel(channel_id, vec![overwrite(target, allow, deny)]);
            }
            13 => {
                let channel_id = self.some_channel();
                self.delete_channel(channel_id);
            }
            14 => {
                let mut member = {
                    let user_id = self.some_user();
                    self.members[&user_id].clone()
                };
                member.roles = ROLES[1..].iter().filter(|_| self.rng.chance(0.5)).map(|role| id(*role)).collect();
                self.set_member(member);
            }
            15 => match self.rng.below(6) {
                0 => self.restart(),
                1 | 2 => {
                    let user_id = self.some_user();
                    self.leave(user_id);
                }
                3 => {
                    let user_id = self.some_user();
                    self.set_owner(user_id);
                }
                _ => {
                    if let Some(slot) = self.some_slot() {
                        self.detach(slot);
                    }
                }
            },
            16 | 17 => {
                let Some(slot) = self.some_slot() else { return };
                let mask = self.some_mask(self.clients[&slot].mask.passive);
                self.set_mask(slot, mask);
            }
            18 | 19 => {
                if let Some(slot) = self.some_slot() {
                    self.disconnect(slot);
                }
            }
            20 => {
                let gone: Vec<u32> =
                    self.clients.iter().filter(|(_, client)| client.unread.is_some()).map(|(slot, _)| *slot).collect();
                if let Some(slot) = self.rng.pick(&gone).copied() {
                    self.resume(slot);
                }
            }
            _ => {
                let forms = [PassiveUpdate::Delta, PassiveUpdate::Delta, PassiveUpdate::Snapshot];
                let forms = [&forms[..], &[PassiveUpdate::ChannelUnreads]].concat();
                let (user_id, form) = (self.some_user(), *self.rng.pick(&forms).expect("some"));
                let mask = self.some_mask(form);
                self.attach(user_id, mask);
            }
        }
    }
}

/// Content of a session's passive updates: channels, users in voice, users who left.
pub type UpdateContent = (Vec<ChannelId>, Vec<UserId>, Vec<UserId>);

impl World {
    pub fn hide(&mut self, channel_id: ChannelId) {
        let everyone = OverwriteKind::Role(id(1));
        let hidden = overwrite(everyone, Permissions::NONE, Permissions::VIEW_CHANNEL);
        self.set_channel(channel_id.get(), vec![hidden]);
    }

    pub fn show(&mut self, channel_id: ChannelId) {
        self.set_channel(channel_id.get(), Vec::new());
    }

    /// Content of a session's next passive update; `None` if there is none.
    pub fn next_update(&mut self, slot: u32) -> Option<UpdateContent> {
        self.now_ms += 2 * INTERVAL_MS;
        self.relay.handle_timer(self.now(), &mut self.post);
        let update = self.pending_update(slot);
        self.read_post();
        self.check_client(slot);
        update
    }

    pub fn pending_update(&self, slot: u32) -> Option<UpdateContent> {
        let mut found = self.post.got.iter().filter(|(to, ..)| *to == slot);
        let (_, published, _) = found.next()?;
        assert!(found.next().is_none(), "one update");
        let Payload::PassiveDelta(delta) = &published.event.payload else { panic!("V2") };
        let channels = delta.channels.iter().map(|(id, _)| *id).collect();
        let voice = delta.voice.iter().map(|entry| entry.state.user_id).collect();
        Some((channels, voice, delta.left.clone()))
    }

    pub fn says(&mut self, channel_id: ChannelId) {
        self.message(channel_id, OWNER, &[], false);
    }
}

fn state(user_id: UserId, channel_id: Option<ChannelId>, self_mute: bool) -> VoiceState {
    VoiceState { channel_id, session_id: "s".to_owned(), self_mute, ..VoiceState::new(user_id) }
}
