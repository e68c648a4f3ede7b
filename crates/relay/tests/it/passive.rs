//! Passive updates: clients that apply what they are told hold the guild's state, whatever happens to it and to them.

use crate::fixture::*;
use guildhall_model::{
    ChannelId, ChannelType, EventName, GuildId, Intents, Member, MessageId, Overwrite, OverwriteKind, PassiveUpdate,
    Permissions, UserId, VoiceState, to_gateway::RequestGuildMembers,
};
use guildhall_relay::{
    Deliver, Effect, Event, Gate, GuildMeta, GuildPicture, GuildView, Listening, LogId, MemberTable, PartitionId,
    Payload, Published, Recipients, Redaction, Relay, RelayId, RelayMessage, Seat, SessionKey, ToGuilds, ToRelay,
    UserListening, VoiceEntry, with_guild_create,
};
use guildhall_stdx::{Now, Rng};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

const RELAY: RelayId = RelayId::first(PartitionId(1));
const INTERVAL_MS: u64 = 1_000;
const ROLES: [u64; 3] = [1, 21, 22];
const TEXT: [u64; 3] = [100, 101, 102];
const VOICE: [u64; 3] = [110, 111, 112];
/// User accounts, whose ids are odd.
const USERS: [u64; 6] = [51, 53, 55, 57, 59, 61];

/// A client that believes what it is told.
#[derive(Debug)]
struct Client {
    user_id: UserId,
    listening: UserListening,
    newest: BTreeMap<ChannelId, MessageId>,
    voice: BTreeMap<UserId, VoiceState>,
    /// Channels that came into view or went out of it while it was told of messages live: nothing tells it what it missed.
    unsure_messages: BTreeSet<ChannelId>,
    /// The same of voice states.
    unsure_voice: BTreeSet<ChannelId>,
}

impl Client {
    fn is_told_voice_live(&self) -> bool {
        self.listening.active || self.listening.passive == PassiveUpdate::ChannelUnreads
    }

    fn apply(&mut self, payload: &Payload) {
        match payload {
            Payload::Message(event) => {
                self.newest.insert(event.message.channel_id, event.message.id);
            }
            Payload::Voice { state, .. } => self.voice_state(state),
            Payload::PassiveDelta(delta) => {
                self.newest.extend(delta.channels.iter().copied());
                delta.voice.iter().for_each(|entry| self.voice_state(&entry.state));
                delta.left.iter().for_each(|user_id| drop(self.voice.remove(user_id)));
            }
            Payload::PassiveSnapshot(snapshot) => {
                let newest = snapshot.channels.iter().filter_map(|(id, message_id)| Some((*id, (*message_id)?)));
                self.newest.extend(newest);
                self.voice.clear();
                snapshot.voice.iter().for_each(|entry| self.voice_state(&entry.state));
                self.unsure_messages.clear();
                self.unsure_voice.clear();
            }
            Payload::Unread(channels) => self.newest.extend(channels.iter().copied()),
            Payload::Channel(channel) => drop(self.newest.remove(&channel.id)),
            _ => {}
        }
    }

    fn voice_state(&mut self, state: &VoiceState) {
        match state.channel_id {
            Some(_) => self.voice.insert(state.user_id, state.clone()),
            None => self.voice.remove(&state.user_id),
        };
    }
}

/// Writes down who got what, and in which log.
#[derive(Default)]
struct Post {
    current: Option<Arc<Published>>,
    group: Option<LogId>,
    got: Vec<(u32, Arc<Published>, Option<LogId>)>,
    lost: Vec<u32>,
    /// What GUILD_CREATE said to the session that was let in last.
    create: serde_json::Value,
    listening: UserListening,
}

impl Deliver for Post {
    fn group(&mut self, log: LogId, _redaction: Redaction) {
        self.group = Some(log);
    }
    fn deliver(&mut self, slot: u32) {
        let current = self.current.clone().expect("begun");
        self.got.push((slot, current, Some(self.group.expect("a group was named"))));
    }
    fn deliver_alone(&mut self, slot: u32, _redaction: Redaction) {
        self.got.push((slot, self.current.clone().expect("begun"), None));
    }
}

impl Recipients for Post {
    fn begin(&mut self, published: &Arc<Published>) {
        self.current = Some(published.clone());
        self.group = None;
    }
    fn attached(&mut self, session: SessionKey, picture: &GuildPicture, view: Option<&GuildView>) -> Option<Seat> {
        self.create = with_guild_create(picture, view?, 250, |body| serde_json::to_value(body).expect("it is JSON"));
        Some(Seat { slot: session.slot, listening: Listening::user(self.listening) })
    }
    fn unavailable(&mut self, _session: SessionKey, _guild_id: GuildId) {}
    fn lost(&mut self, slot: u32, _guild_id: GuildId) {
        self.lost.push(slot);
    }
    fn reset(&mut self, slot: u32, _guild_id: GuildId) {
        self.lost.push(slot);
    }
    fn direct(&mut self, _session: SessionKey, _event: &Arc<Event>) {}
    fn members(&mut self, _: SessionKey, _: GuildId, _: &RequestGuildMembers, _: &MemberTable) {}
}

/// A guild, one relay of it, and the clients behind that.
struct World {
    rng: Rng,
    relay: Relay,
    seq: u64,
    now_ms: u64,
    post: Post,
    meta: Arc<GuildMeta>,
    members: Members,
    newest: BTreeMap<ChannelId, MessageId>,
    voice: BTreeMap<UserId, VoiceState>,
    clients: BTreeMap<u32, Client>,
    views: BTreeMap<u32, BTreeSet<ChannelId>>,
    next_slot: u32,
    next_message: u64,
    updates_count: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let everyone = role(1, Permissions::VIEW_CHANNEL);
        let others = ROLES[1..].iter().map(|id| role(*id, Permissions::NONE));
        let roles: Vec<_> = std::iter::once(everyone).chain(others).collect();
        let text = TEXT.iter().map(|id| channel(*id, ChannelType::Text, Vec::new()));
        let channels: Vec<_> =
            text.chain(VOICE.iter().map(|id| channel(*id, ChannelType::Voice, Vec::new()))).collect();
        let meta = meta(51, &roles, &channels);
        let mut world = Self {
            rng: Rng::new(seed),
            relay: Relay::new(GUILD, RELAY, 1, INTERVAL_MS),
            seq: 0,
            now_ms: 0,
            post: Post::default(),
            meta: meta.clone(),
            members: USERS.iter().map(|id| (UserId::new(*id), member(*id, &[]))).collect(),
            newest: BTreeMap::new(),
            voice: BTreeMap::new(),
            clients: BTreeMap::new(),
            views: BTreeMap::new(),
            next_slot: 0,
            next_message: 1,
            updates_count: 0,
        };
        world.say(RelayMessage::Snapshot { picture: GuildPicture::new(meta), reset: false });
        world
    }

    fn now(&self) -> Now {
        Now::new(self.now_ms, NOW.0)
    }

    // ── what happens ─────────────────────────────────────────────────────────────────────────────

    fn say(&mut self, message: RelayMessage) {
        self.seq += 1;
        let message = ToRelay { guild_id: GUILD, relay: RELAY, epoch: 1, seq: self.seq, message };
        self.relay.handle(self.now(), message, &mut self.post, &mut ToGuilds::new());
        self.read_post();
    }

    fn publish(&mut self, event: Event, effect: Effect) {
        self.say(RelayMessage::Published(Arc::new(Published { event, effect })));
    }

    fn attach(&mut self, user_id: UserId, listening: UserListening) -> u32 {
        let slot = self.next_slot;
        self.next_slot += 1;
        self.post.listening = listening;
        let member = Arc::new(self.members[&user_id].clone());
        let view = GuildView { member, member_count: 6, members: None, version: 1 };
        let session = SessionKey { relay: RELAY, slot, generation: 0 };
        self.say(RelayMessage::Attached { session, view: Some(Box::new(view)) });

        let create = std::mem::take(&mut self.post.create);
        let parse = |value: &serde_json::Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
        let list = |key: &str| create[key].as_array().cloned().expect("a list");
        let newest = list("channels").into_iter().filter_map(|channel| {
            Some((ChannelId::new(parse(&channel["id"])?), MessageId::new(parse(&channel["last_message_id"])?)))
        });
        let newest = newest.collect();
        let voice = list("voice_states").into_iter().map(|told| {
            let user_id = UserId::new(parse(&told["user_id"]).expect("a user id"));
            let channel_id = parse(&told["channel_id"]).map(ChannelId::new);
            (user_id, state(user_id, channel_id, told["self_mute"] == true))
        });
        let voice: BTreeMap<_, _> = voice.collect();
        let view = naive_view(&self.meta, &self.members[&user_id]);
        for (of, state) in &voice {
            let is_viewed = state.channel_id.is_some_and(|id| view.contains(&id));
            assert!(is_viewed || *of == user_id, "GUILD_CREATE tells of a channel out of view");
        }
        let (unsure_messages, unsure_voice) = (BTreeSet::new(), BTreeSet::new());
        self.clients.insert(slot, Client { user_id, listening, newest, voice, unsure_messages, unsure_voice });
        self.views.insert(slot, view);
        slot
    }

    fn listen(&mut self, slot: u32, listening: UserListening) {
        let client = &self.clients[&slot];
        let (user_id, before) = (client.user_id, client.listening);
        self.relay.listen(user_id, slot, Listening::user(listening), &mut self.post);
        let got: Vec<_> = self.post.got.iter().map(|(to, ..)| *to).collect();
        assert!(got.is_empty() || got == [slot] && !before.active && listening.active, "R4: one update at most");
        self.read_post();
        self.clients.get_mut(&slot).expect("it is here").listening = listening;
        if listening.active {
            self.check_client(slot);
        }
    }

    fn message(&mut self, channel_id: ChannelId, author: UserId, mentions: &[UserId], everyone: bool) {
        let id = MessageId::new(self.next_message);
        self.next_message += 1;
        let event = said_in(channel_id, id, author, mentions, everyone);
        self.newest.insert(channel_id, id);
        self.publish(event, Effect::Message(channel_id, id));
    }

    /// As a guild tells it: who leaves one channel for another does so first.
    fn voice(&mut self, user_id: UserId, channel_id: Option<ChannelId>, self_mute: bool) {
        let before = self.voice.get(&user_id).and_then(|state| state.channel_id);
        let Some(gate) = channel_id.or(before) else { return };
        let event = |gate, channel_id| {
            let payload = Payload::Voice { state: Arc::new(state(user_id, channel_id, self_mute)), member: None };
            Event::new(GUILD, EventName::VoiceStateUpdate, gate, payload)
        };
        if let Some(before) = before.filter(|before| *before != gate) {
            self.publish(event(Gate::ChannelExcept(before, gate), None), Effect::None);
        }
        let now = state(user_id, channel_id, self_mute);
        match channel_id {
            Some(_) => self.voice.insert(user_id, now.clone()),
            None => self.voice.remove(&user_id),
        };
        let member = Arc::new(self.members[&user_id].clone());
        let entry = channel_id.map(|_| VoiceEntry { state: Arc::new(now), member });
        self.publish(event(Gate::Channel(gate), channel_id).always_to(user_id), Effect::Voice(user_id, entry));
    }

    fn set_meta(&mut self, meta: GuildMeta, name: EventName, payload: Payload) {
        self.meta = Arc::new(meta);
        self.publish(Event::new(GUILD, name, Gate::Members, payload), Effect::Meta(self.meta.clone()));
        self.note_views();
    }

    fn set_channel(&mut self, channel_id: u64, overwrites: Vec<Overwrite>) {
        let mut meta = GuildMeta::clone(&self.meta);
        let kind = if VOICE.contains(&channel_id) { ChannelType::Voice } else { ChannelType::Text };
        Arc::make_mut(&mut meta.channels).insert(id(channel_id), channel(channel_id, kind, overwrites));
        self.set_meta(meta, EventName::ChannelUpdate, Payload::GuildGone);
    }

    fn delete_channel(&mut self, channel_id: u64) {
        let channel_id = ChannelId::new(channel_id);
        let inside = self.voice.values().filter(|state| state.channel_id == Some(channel_id));
        let inside: Vec<UserId> = inside.map(|state| state.user_id).collect();
        inside.into_iter().for_each(|user_id| self.voice(user_id, None, false));
        let mut meta = GuildMeta::clone(&self.meta);
        if let Some(channel) = Arc::make_mut(&mut meta.channels).remove(&channel_id) {
            self.newest.remove(&channel_id);
            self.set_meta(meta, EventName::ChannelDelete, Payload::Channel(channel));
        }
    }

    fn set_role(&mut self, role_id: u64, permissions: Permissions) {
        let mut meta = GuildMeta::clone(&self.meta);
        let role = role(role_id, permissions);
        Arc::make_mut(&mut meta.roles).insert(role.id, role.clone());
        self.set_meta(meta, EventName::GuildRoleUpdate, Payload::Role(role));
    }

    fn set_owner(&mut self, user_id: UserId) {
        let mut meta = GuildMeta::clone(&self.meta);
        Arc::make_mut(&mut meta.guild).owner_id = user_id;
        self.set_meta(meta, EventName::GuildUpdate, Payload::GuildGone);
    }

    fn set_member(&mut self, member: Member) {
        let user_id = member.user.id;
        self.members.insert(user_id, member.clone());
        let member = Arc::new(member);
        let event = Event::new(GUILD, EventName::GuildMemberUpdate, Gate::Members, Payload::Member(member.clone()));
        self.publish(event.always_to(user_id), Effect::Member(user_id, Some(member)));
        self.note_views();
    }

    /// Leaves, and may join again.
    fn leave(&mut self, user_id: UserId) {
        self.voice(user_id, None, false);
        let payload = Payload::MemberRemove(self.members[&user_id].user.clone());
        let event = Event::new(GUILD, EventName::GuildMemberRemove, Gate::Members, payload);
        self.publish(event, Effect::Member(user_id, None));
        let left: Vec<u32> = self.clients.iter().filter(|(_, c)| c.user_id == user_id).map(|(slot, _)| *slot).collect();
        let mut lost = std::mem::take(&mut self.post.lost);
        lost.sort_unstable();
        assert_eq!(lost, left);
        self.clients.retain(|_, client| client.user_id != user_id);
    }

    fn detach(&mut self, slot: u32) {
        let client = self.clients.remove(&slot).expect("it is here");
        self.relay.detach(client.user_id, slot);
    }

    /// Events were lost: everybody is let in anew.
    fn restart(&mut self) {
        let entry = |state: &VoiceState| VoiceEntry {
            state: Arc::new(state.clone()),
            member: Arc::new(self.members[&state.user_id].clone()),
        };
        let picture = GuildPicture {
            meta: self.meta.clone(),
            last_message_ids: Arc::new(self.newest.clone()),
            voice: self.voice.iter().map(|(user_id, state)| (*user_id, entry(state))).collect(),
        };
        self.seq += self.rng.below(3);
        self.say(RelayMessage::Snapshot { picture, reset: true });
        let mut lost = std::mem::take(&mut self.post.lost);
        lost.sort_unstable();
        assert_eq!(lost, self.clients.keys().copied().collect::<Vec<_>>());
        for (_, client) in std::mem::take(&mut self.clients) {
            self.attach(client.user_id, client.listening);
        }
    }

    /// The time for passive updates has come.
    fn round(&mut self) {
        let told = |world: &mut Self| {
            world.now_ms += 2 * INTERVAL_MS;
            world.relay.handle_timer(world.now(), &mut world.post);
            let got = world.post.got.iter().map(|(slot, ..)| *slot).collect::<Vec<_>>();
            world.read_post();
            got
        };
        let mut got = told(self);
        let count = got.len();
        got.sort_unstable();
        got.dedup();
        assert_eq!(got.len(), count, "one update each");
        assert!(got.iter().all(|slot| !self.clients[slot].listening.active), "for passive ones only");
        for slot in self.clients.keys().copied().collect::<Vec<_>>() {
            self.check_client(slot);
        }
        assert_eq!(told(self), Vec::<u32>::new(), "nothing is told twice");
    }

    // ── what clients make of it ──────────────────────────────────────────────────────────────────

    fn read_post(&mut self) {
        let got = std::mem::take(&mut self.post.got);
        let index = self.relay.audience().expect("there was a snapshot");
        let to_all = delivered(index, &event(Gate::Members), NOW, &[]);
        let logs: BTreeMap<u32, LogId> = to_all.iter().filter_map(|d| Some((d.slot, d.log?))).collect();
        for (slot, published, log) in got {
            // Of a member who is being let go, in a test that says so.
            let Some(client) = self.clients.get_mut(&slot) else { continue };
            assert!(log.is_none_or(|log| logs[&slot] == log), "A4: the log of its group");
            let view = naive_view(&self.meta, &self.members[&client.user_id]);
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
            let name = match client.listening.passive {
                PassiveUpdate::ChannelUnreads => EventName::ChannelUnreadUpdate,
                PassiveUpdate::Snapshot => EventName::PassiveUpdateV1,
                PassiveUpdate::Delta => EventName::PassiveUpdateV2,
            };
            if let Gate::Channels(_) = published.event.audience.gate {
                assert_eq!(published.event.name, name, "in the form the client asked for");
                self.updates_count += 1;
            }
            assert!(index.may_see(client.user_id, &published.event, NOW), "what is told now may be replayed now");
            client.apply(payload);
        }
    }

    /// What came into view or went out of it while a client was told live is what it cannot be sure of.
    fn note_views(&mut self) {
        for (slot, client) in &mut self.clients {
            let view = naive_view(&self.meta, &self.members[&client.user_id]);
            let before = self.views.insert(*slot, view.clone()).unwrap_or_default();
            for channel_id in before.symmetric_difference(&view) {
                if client.listening.active {
                    client.unsure_messages.insert(*channel_id);
                }
                if client.is_told_voice_live() {
                    client.unsure_voice.insert(*channel_id);
                }
            }
        }
    }

    /// U1, U3, U4: of a client that has just been told.
    fn check_client(&self, slot: u32) {
        let client = &self.clients[&slot];
        let view = naive_view(&self.meta, &self.members[&client.user_id]);
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

    fn some_listening(&mut self, passive: PassiveUpdate) -> UserListening {
        let (active, typing) = (self.rng.chance(0.3), self.rng.chance(0.3));
        UserListening { active, typing, member_updates: self.rng.chance(0.3), passive }
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..=4 => {
                let channels: Vec<ChannelId> = self.meta.channels.keys().copied().collect();
                let Some(channel_id) = self.rng.pick(&channels).copied() else { return };
                let (author, mentioned) = (self.some_user(), self.some_user());
                let everyone = self.rng.chance(0.1);
                self.message(channel_id, author, &[mentioned], everyone);
            }
            5..=9 => {
                let channels = self.meta.channels.values().filter(|channel| channel.kind == ChannelType::Voice);
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
                let listening = self.some_listening(self.clients[&slot].listening.passive);
                self.listen(slot, listening);
            }
            _ => {
                let forms = [PassiveUpdate::Delta, PassiveUpdate::Delta, PassiveUpdate::Snapshot];
                let forms = [&forms[..], &[PassiveUpdate::ChannelUnreads]].concat();
                let (user_id, form) = (self.some_user(), *self.rng.pick(&forms).expect("some"));
                let listening = self.some_listening(form);
                self.attach(user_id, listening);
            }
        }
    }
}

fn state(user_id: UserId, channel_id: Option<ChannelId>, self_mute: bool) -> VoiceState {
    VoiceState {
        channel_id,
        user_id,
        session_id: "s".to_owned(),
        deaf: false,
        mute: false,
        self_deaf: false,
        self_mute,
        self_video: false,
        suppress: false,
        request_to_speak_timestamp: None,
    }
}

#[test]
fn u1_u2_u3_u4_clients_hold_the_guilds_state() {
    let mut updates_count = 0;
    for seed in 0..150 {
        let mut world = World::new(seed);
        for _ in 0..25 {
            for _ in 0..world.rng.below(14) {
                world.step();
            }
            world.round();
        }
        updates_count += world.updates_count;
    }
    assert!(updates_count > 10_000, "only {updates_count} updates were told: this shows little");
}

// ── one by one ───────────────────────────────────────────────────────────────────────────────────

const PASSIVE: UserListening =
    UserListening { active: false, typing: false, member_updates: false, passive: PassiveUpdate::Delta };
const ACTIVE: UserListening = UserListening { active: true, ..PASSIVE };
/// Owns the guild, and speaks.
const OWNER: UserId = UserId::new(51);
const ANA: UserId = UserId::new(53);
const BEN: UserId = UserId::new(55);
const TALK: ChannelId = ChannelId::new(TEXT[0]);
const NEWS: ChannelId = ChannelId::new(TEXT[1]);
const ROOM: ChannelId = ChannelId::new(VOICE[0]);
const CELLAR: ChannelId = ChannelId::new(VOICE[1]);

/// What passive updates told a session since: channels, who is in voice, who left.
type Told = (Vec<ChannelId>, Vec<UserId>, Vec<UserId>);

impl World {
    fn hide(&mut self, channel_id: ChannelId) {
        let everyone = OverwriteKind::Role(id(1));
        let hidden = overwrite(everyone, Permissions::NONE, Permissions::VIEW_CHANNEL);
        self.set_channel(channel_id.get(), vec![hidden]);
    }

    fn show(&mut self, channel_id: ChannelId) {
        self.set_channel(channel_id.get(), Vec::new());
    }

    /// What the next round tells a session; none if nothing.
    fn told(&mut self, slot: u32) -> Option<Told> {
        self.now_ms += 2 * INTERVAL_MS;
        self.relay.handle_timer(self.now(), &mut self.post);
        let told = self.told_of(slot);
        self.read_post();
        self.check_client(slot);
        told
    }

    fn told_of(&self, slot: u32) -> Option<Told> {
        let mut found = self.post.got.iter().filter(|(to, ..)| *to == slot);
        let (_, published, _) = found.next()?;
        assert!(found.next().is_none(), "one update");
        let Payload::PassiveDelta(delta) = &published.event.payload else { panic!("V2") };
        let channels = delta.channels.iter().map(|(id, _)| *id).collect();
        let voice = delta.voice.iter().map(|entry| entry.state.user_id).collect();
        Some((channels, voice, delta.left.clone()))
    }

    fn says(&mut self, channel_id: ChannelId) {
        self.message(channel_id, OWNER, &[], false);
    }
}

#[test]
fn u1_only_what_changed_is_told_and_only_once() {
    let mut world = World::new(0);
    let slot = world.attach(ANA, PASSIVE);
    assert_eq!(world.told(slot), None);
    world.says(TALK);
    world.says(TALK);
    world.voice(BEN, Some(ROOM), false);
    assert_eq!(world.told(slot), Some((vec![TALK], vec![BEN], vec![])));
    assert_eq!(world.told(slot), None);
    world.voice(BEN, Some(CELLAR), false);
    world.voice(BEN, None, false);
    assert_eq!(world.told(slot), Some((vec![], vec![], vec![BEN])));
    world.voice(BEN, Some(ROOM), false);
    world.voice(BEN, None, false);
    assert_eq!(world.told(slot), None, "who came and went was never there");
}

#[test]
fn u1_sessions_that_were_told_at_different_times_are_told_different_things() {
    let mut world = World::new(0);
    let first = world.attach(ANA, PASSIVE);
    world.says(TALK);
    world.voice(OWNER, Some(ROOM), false);
    let second = world.attach(BEN, PASSIVE);
    let third = world.attach(BEN, ACTIVE);
    world.says(NEWS);
    world.listen(third, PASSIVE);
    world.voice(OWNER, None, false);
    world.now_ms += 2 * INTERVAL_MS;
    world.relay.handle_timer(world.now(), &mut world.post);
    assert_eq!(world.told_of(first), Some((vec![TALK, NEWS], vec![], vec![])));
    assert_eq!(world.told_of(second), Some((vec![NEWS], vec![], vec![OWNER])));
    assert_eq!(world.told_of(third), Some((vec![], vec![], vec![OWNER])));
}

#[test]
fn u1_who_left_is_told_however_often_they_moved_before() {
    let mut world = World::new(0);
    let early = world.attach(ANA, PASSIVE);
    for n in 0..20 {
        world.voice(OWNER, Some(ROOM), n % 2 == 0);
    }
    // Knows them in the room, as `early` does not.
    let late = world.attach(BEN, PASSIVE);
    world.voice(OWNER, None, false);
    world.now_ms += 2 * INTERVAL_MS;
    world.relay.handle_timer(world.now(), &mut world.post);
    assert_eq!(world.told_of(late), Some((vec![], vec![], vec![OWNER])));
    world.read_post();
    world.check_client(early);
    world.check_client(late);
}

#[test]
fn r4_who_looks_is_told_first_what_they_missed() {
    let mut world = World::new(0);
    let slot = world.attach(ANA, PASSIVE);
    world.listen(slot, ACTIVE);
    world.listen(slot, PASSIVE);
    world.says(TALK);
    world.voice(BEN, Some(ROOM), false);
    world.relay.listen(ANA, slot, Listening::user(ACTIVE), &mut world.post);
    assert_eq!(world.told_of(slot), Some((vec![TALK], vec![BEN], vec![])));
    world.read_post();
    world.clients.get_mut(&slot).expect("it is here").listening = ACTIVE;
    // From here on it is told live, and the round has nothing for it; neither has the one after it looks away.
    world.says(NEWS);
    world.voice(BEN, Some(CELLAR), false);
    world.check_client(slot);
    world.listen(slot, PASSIVE);
    assert_eq!(world.told(slot), None);
}

#[test]
fn r4_who_changes_what_they_want_and_stays_passive_misses_nothing() {
    let mut world = World::new(0);
    let slot = world.attach(ANA, PASSIVE);
    world.says(TALK);
    world.listen(slot, UserListening { member_updates: true, ..PASSIVE });
    assert_eq!(world.told(slot), Some((vec![TALK], vec![], vec![])));
}

#[test]
fn u3_a_channel_that_comes_into_view_is_told_whole() {
    let mut world = World::new(0);
    world.hide(NEWS);
    world.hide(ROOM);
    world.voice(OWNER, Some(ROOM), false);
    world.says(NEWS);
    let slot = world.attach(ANA, PASSIVE);
    assert_eq!(world.told(slot), None);
    world.show(NEWS);
    world.show(ROOM);
    assert_eq!(world.told(slot), Some((vec![NEWS], vec![OWNER], vec![])));
    assert_eq!(world.told(slot), None);
}

#[test]
fn u3_who_is_in_a_channel_that_goes_out_of_view_left_as_far_as_can_be_seen() {
    let mut world = World::new(0);
    world.voice(OWNER, Some(ROOM), false);
    let slot = world.attach(ANA, PASSIVE);
    world.hide(ROOM);
    world.hide(NEWS);
    world.says(NEWS);
    assert_eq!(world.told(slot), Some((vec![], vec![], vec![OWNER])));
    // It was hidden when they left, so they must not be there when it is shown.
    world.voice(OWNER, None, false);
    assert_eq!(world.told(slot), None);
    world.show(ROOM);
    assert_eq!(world.told(slot), None);
}

#[test]
fn u3_what_came_and_went_between_two_updates_is_not_told() {
    let mut world = World::new(0);
    world.hide(ROOM);
    world.hide(NEWS);
    world.voice(OWNER, Some(ROOM), false);
    let slot = world.attach(ANA, PASSIVE);
    world.show(ROOM);
    world.show(NEWS);
    world.says(NEWS);
    world.hide(ROOM);
    world.hide(NEWS);
    assert_eq!(world.told(slot), None);
    // The same by a role instead of a channel.
    let (plain, seeing) = (world.members[&ANA].clone(), member(ANA.get(), &[21]));
    world.set_role(21, Permissions::ADMINISTRATOR);
    world.set_member(seeing.clone());
    world.set_member(plain);
    assert_eq!(world.told(slot), None);
    world.set_member(seeing);
    assert_eq!(world.told(slot), Some((vec![NEWS], vec![OWNER], vec![])));
}

#[test]
fn u3_a_renamed_or_new_channel_is_no_news() {
    let mut world = World::new(0);
    world.says(NEWS);
    world.voice(OWNER, Some(ROOM), false);
    let slot = world.attach(ANA, PASSIVE);
    world.show(NEWS);
    world.set_channel(90, Vec::new());
    world.set_role(22, Permissions::BAN_MEMBERS);
    assert_eq!(world.told(slot), None);
    world.delete_channel(ROOM.get());
    assert_eq!(world.told(slot), Some((vec![], vec![], vec![OWNER])));
}

#[test]
fn u4_a_user_knows_where_they_are_themselves() {
    for passive in [PassiveUpdate::Delta, PassiveUpdate::Snapshot] {
        let mut world = World::new(0);
        let own = world.attach(ANA, UserListening { passive, ..PASSIVE });
        let other = world.attach(BEN, PASSIVE);
        world.voice(ANA, Some(ROOM), false);
        world.round();
        world.hide(CELLAR);
        world.voice(ANA, Some(CELLAR), false);
        world.round();
        assert_eq!(world.clients[&own].voice[&ANA].channel_id, Some(CELLAR));
        assert!(world.clients[&other].voice.is_empty(), "to others they left");
        world.voice(ANA, Some(ROOM), false);
        world.hide(ROOM);
        world.listen(own, UserListening { passive, ..ACTIVE });
        assert_eq!(world.clients[&own].voice[&ANA].channel_id, Some(ROOM));
    }
}

#[test]
fn the_time_between_updates_varies_within_its_bounds() {
    let mut world = World::new(0);
    let mut waits = BTreeSet::new();
    for _ in 0..50 {
        let at = world.relay.next_deadline().expect("there is a next one").0;
        waits.insert(at - world.now_ms);
        world.now_ms = at - 1;
        world.relay.handle_timer(world.now(), &mut world.post);
        assert_eq!(world.relay.next_deadline().map(|at| at.0), Some(at), "not yet");
        world.now_ms = at;
        world.relay.handle_timer(world.now(), &mut world.post);
    }
    assert!(waits.len() > 20, "{waits:?}");
    assert!(waits.iter().all(|wait| (INTERVAL_MS * 3 / 4..INTERVAL_MS * 5 / 4).contains(wait)), "{waits:?}");
    let bots = Listening::bot(Intents::ALL);
    assert!(!bots.is_passive(), "bots are told live");
}
