//! Records and mirrors: the writes, and the messages to relays, contain the whole state.

use crate::{
    fixture::*,
    random::{Walk, sent_to},
};
use guildhall_guild::{Actor, Command, Guild, GuildLimits, GuildReply, Outcome, Refusal, Reply};
use guildhall_guild_protocol::{AudienceRule, GuildReplica, GuildStructure, Payload, RelayMessage, ReplicaUpdate};
use guildhall_model::{
    ChannelId, Emoji, EmojiId, GuildId, Member, MessageId, Permissions, Presence, RoleId, SnowflakeGenerator, Status,
    UserId, VoiceState,
};
use std::{collections::BTreeMap, sync::Arc};

const STEPS: usize = 1_500;

fn guild_of(guild: &mut Guild, now: guildhall_stdx::Now) -> GuildReply {
    match guild.handle_command(now, Actor::System, &Command::ReadGuild) {
        Outcome::Reply(Ok(Reply::Guild(reply))) => *reply,
        other => panic!("{other:?}"),
    }
}

fn members_of(guild: &mut Guild, now: guildhall_stdx::Now) -> Vec<Arc<Member>> {
    match guild.handle_command(now, Actor::System, &Command::ReadMembers) {
        Outcome::Reply(Ok(Reply::Members(table))) => table.iter().map(|entry| entry.member.clone()).collect(),
        other => panic!("{other:?}"),
    }
}

/// Channels without the newest message's id, which the structure does not keep up to date.
fn channels_of(structure: &GuildStructure) -> Vec<guildhall_model::Channel> {
    let plain = |c: &guildhall_model::Channel| guildhall_model::Channel { last_message_id: None, ..c.clone() };
    structure.channels.values().map(|channel| plain(channel)).collect()
}

#[test]
fn g3_applying_the_writes_and_loading_gives_the_same_state() {
    let (mut done, mut refused) = (0, 0);
    for seed in 0..40 {
        let mut walk = Walk::new(seed);
        for _ in 0..STEPS {
            walk.step();
        }
        walk.run_until_idle();
        (done, refused) = (done + walk.done, refused + walk.refused);
        let now = walk.world.now;
        let mut loaded = walk.reload();
        let (before, after) = (guild_of(&mut walk.world.guild, now), guild_of(&mut loaded, now));
        assert_eq!(before.structure.guild, after.structure.guild, "seed {seed}");
        assert_eq!(before.structure.roles, after.structure.roles, "seed {seed}");
        assert_eq!(channels_of(&before.structure), channels_of(&after.structure), "seed {seed}");
        assert_eq!(before.member_count, after.member_count, "seed {seed}");
        assert_eq!(members_of(&mut walk.world.guild, now), members_of(&mut loaded, now), "seed {seed}");
        // If the newest message was deleted, a load reports the next newest.
        for (channel, loaded_id) in &*after.last_message_ids {
            let id = before.last_message_ids[channel];
            let is_deleted = walk.oracle.message(*channel, id).is_none();
            assert!(id == *loaded_id || is_deleted && id > *loaded_id, "seed {seed}");
        }
        check_messages(&mut walk, &mut loaded);
        // New ids are above all that are stored.
        let newest = walk.world.store.messages.keys().map(|(_, message)| message.get()).max().unwrap_or(0);
        let new = Command::CreateRole(Box::new(new_role(guildhall_model::Permissions::NONE, 1)));
        let early = guildhall_stdx::Now::new(0, 0);
        match loaded.handle_command(early, Actor::System, &new) {
            Outcome::Reply(Ok(Reply::Role(role))) => assert!(role.id.get() > newest),
            Outcome::Reply(Err(Refusal::TooManyRoles)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(done > 8_000 && refused > 1_000, "the walk does something: {done} done, {refused} refused");
    println!("{done} done, {refused} refused");
}

/// Both guilds return every message as the store has it; an edit that changes nothing reads it.
fn check_messages(walk: &mut Walk, loaded: &mut guildhall_guild::Guild) {
    let now = walk.world.now;
    for (channel, id) in walk.messages.clone() {
        if !walk.oracle.channels.contains_key(&channel) {
            continue;
        }
        let read = Command::EditMessage(channel, id, Box::default());
        let expected = walk.oracle.message(channel, id);
        assert_eq!(walk.world.store.message(channel, id), expected, "everything is durable");
        for guild in [&mut walk.world.guild, loaded] {
            let mut rounds = 0;
            let got = loop {
                match guild.handle_command(now, Actor::System, &read) {
                    Outcome::NeedsMessage(channel, id) => {
                        let record = walk.world.store.message(channel, id);
                        guild.handle_message_loaded(channel, id, record.map(Into::into));
                    }
                    Outcome::Reply(Ok(Reply::Message(reply))) => break Some((reply.message, reply.reactions)),
                    Outcome::Reply(Err(Refusal::UnknownMessage)) => break None,
                    other => panic!("{other:?}"),
                }
                rounds += 1;
                assert!(rounds < 4, "it requests again a message that it received");
            };
            let expected = expected.as_ref().map(|record| (record.message.clone(), counted(record, Actor::System)));
            assert_eq!(got, expected);
        }
    }
}

/// Replica of an observer with all permissions, from one view and the events after it.
#[derive(Debug, PartialEq)]
struct Mirror {
    members: BTreeMap<UserId, Arc<Member>>,
    presences: BTreeMap<UserId, Presence>,
    /// From the events, and from their replica updates.
    voice: [BTreeMap<UserId, VoiceState>; 2],
    newest: [BTreeMap<ChannelId, MessageId>; 2],
    /// Voice members as events describe them.
    voice_members: BTreeMap<UserId, Arc<Member>>,
}

impl Mirror {
    fn of(walk: &mut Walk) -> Self {
        let (replica, view) = walk.fresh_view();
        let (table, _) = view.members.expect("the session requested it");
        Self {
            members: table.iter().map(|entry| (entry.member.user.id, entry.member.clone())).collect(),
            presences: table
                .iter()
                .filter_map(|entry| Some((entry.member.user.id, Presence::clone(entry.presence.as_deref()?))))
                .collect(),
            voice: [Self::voice_of(&replica), Self::voice_of(&replica)],
            newest: [(*replica.last_message_ids).clone(), (*replica.last_message_ids).clone()],
            voice_members: replica.voice.iter().map(|(user_id, entry)| (user_id, entry.member.clone())).collect(),
        }
    }

    fn voice_of(replica: &GuildReplica) -> BTreeMap<UserId, VoiceState> {
        replica.voice.iter().map(|(user_id, entry)| (user_id, VoiceState::clone(&entry.state))).collect()
    }

    fn apply(&mut self, published: &guildhall_guild_protocol::Published) {
        match &published.replica_update {
            ReplicaUpdate::Member(user_id, Some(member)) => {
                self.members.insert(*user_id, member.clone());
                if let Some(in_voice) = self.voice_members.get_mut(user_id) {
                    *in_voice = member.clone();
                }
            }
            ReplicaUpdate::Member(user_id, None) => {
                self.members.remove(user_id);
                self.presences.remove(user_id);
            }
            ReplicaUpdate::Message(channel_id, message_id) => {
                let before = self.newest[1].insert(*channel_id, *message_id);
                assert!(before.is_none_or(|before| before < *message_id));
            }
            ReplicaUpdate::Structure(structure) => {
                self.newest[1].retain(|channel_id, _| structure.channels.contains_key(channel_id))
            }
            ReplicaUpdate::Voice(user_id, Some(entry)) => {
                self.voice[1].insert(*user_id, VoiceState::clone(&entry.state));
                self.voice_members.insert(*user_id, entry.member.clone());
            }
            ReplicaUpdate::Voice(user_id, None) => {
                assert!(self.voice[1].remove(user_id).is_some(), "left twice");
                self.voice_members.remove(user_id);
            }
            ReplicaUpdate::None | ReplicaUpdate::Thread(..) | ReplicaUpdate::Deleted => {}
        }
        match &published.event.payload {
            Payload::Presence { user_id, presence } if presence.status == Status::Offline => {
                assert!(self.presences.remove(user_id).is_some(), "offline twice");
            }
            Payload::Presence { user_id, presence } => {
                let before = self.presences.insert(*user_id, Presence::clone(presence));
                assert_ne!(before.as_ref(), Some(&**presence), "an event without a change");
            }
            Payload::Voice { state, .. } if !matches!(rule(published), AudienceRule::ChannelExcept(..)) => {
                match state.channel_id {
                    Some(_) => drop(self.voice[0].insert(state.user_id, VoiceState::clone(state))),
                    None => assert!(self.voice[0].remove(&state.user_id).is_some(), "left twice"),
                }
            }
            Payload::Message(event) if event.message.edited_timestamp.is_none() => {
                let newest = self.newest[0].entry(event.message.channel_id).or_insert(event.message.id);
                *newest = (*newest).max(event.message.id);
            }
            Payload::Channel(channel) if published.event.name == guildhall_model::EventName::ChannelDelete => {
                self.newest[0].remove(&channel.id);
            }
            _ => {}
        }
    }
}

/// A member as they count: roles that were deleted are as good as none.
fn without_dead_roles(mut mirror: Mirror, structure: &GuildStructure) -> Mirror {
    for member in mirror.members.values_mut().chain(mirror.voice_members.values_mut()) {
        let mut clean = Member::clone(member);
        clean.roles.retain(|role| structure.roles.contains_key(role));
        *member = Arc::new(clean);
    }
    mirror
}

#[test]
fn l3_a_view_and_the_events_after_it_tell_everything() {
    for seed in 100..140 {
        let mut walk = Walk::new(seed);
        for _ in 0..200 {
            walk.step();
        }
        let now = walk.world.now;
        let mut structure = guild_of(&mut walk.world.guild, now).structure;
        let mut mirror = Mirror::of(&mut walk);
        for _ in 0..STEPS {
            walk.step();
            for message in sent_to(P0, &mut walk.world) {
                match message {
                    RelayMessage::Published(published) => {
                        mirror.apply(&published);
                        if let ReplicaUpdate::Structure(new) = &published.replica_update {
                            structure = new.clone();
                        }
                    }
                    RelayMessage::Snapshot { replica, .. } => structure = replica.structure,
                    RelayMessage::Attached { session, view } => {
                        let user_id = walk.sessions.get(&session);
                        assert_eq!(view.as_ref().map(|view| &view.member.user.id), user_id.filter(|_| view.is_some()));
                        let is_member = user_id.is_some_and(|id| mirror.members.contains_key(id));
                        assert_eq!(view.is_some(), is_member, "seed {seed}");
                    }
                    _ => {}
                }
            }
        }
        let now = walk.world.now;
        let actual = guild_of(&mut walk.world.guild, now);
        assert_eq!(actual.presence_count, mirror.presences.len() as u64, "seed {seed}");
        assert_eq!(actual.structure.guild, structure.guild, "seed {seed}");
        assert_eq!(actual.structure.roles, structure.roles, "seed {seed}");
        assert_eq!(channels_of(&actual.structure), channels_of(&structure), "seed {seed}");
        let fresh = Mirror::of(&mut walk);
        assert_eq!(without_dead_roles(mirror, &structure), without_dead_roles(fresh, &structure), "seed {seed}");
    }
}

#[test]
fn new_ids_are_above_everything_in_the_record() {
    const NEWEST: u64 = 1 << 61;
    let mut world = World::new();
    let channel_id = world.text_channel();
    world.say(OWNER, channel_id, "hello");
    for kind in 0..5 {
        let mut record = world.store.record();
        match kind {
            0 => record.guild.id = GuildId::new(NEWEST),
            1 => {
                let id = EmojiId::new(NEWEST);
                record.guild.emojis =
                    vec![Emoji { id, name: "newest".to_owned(), animated: false, roles: Vec::new(), user: None }];
            }
            2 => record.roles[0].id = RoleId::new(NEWEST),
            3 => record.channels[0].id = ChannelId::new(NEWEST),
            _ => record.channels[0].last_message_id = Some(MessageId::new(NEWEST)),
        }
        let mut guild = Guild::load(record, GuildLimits::default(), 3);
        assert_eq!(guild.newest_id(), NEWEST, "{kind}");
        let role = Command::CreateRole(Box::new(new_role(Permissions::NONE, 1)));
        match guild.handle_command(world.now, Actor::System, &role) {
            Outcome::Reply(Ok(Reply::Role(role))) => assert!(role.id.get() > NEWEST, "{kind}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn guilds_that_are_lent_one_generator_make_no_id_twice() {
    let mut lent = SnowflakeGenerator::new(77);
    let mut worlds = [World::new(), World::new()];
    let mut newest = 0;
    for world in &worlds {
        lent.skip_past(MessageId::new(world.guild.newest_id()));
    }
    for turn in 0..100 {
        let world = &mut worlds[turn % 2];
        world.guild.swap_ids(&mut lent);
        let channel_id = world.text_channel();
        let message_id = world.say(OWNER, channel_id, "hello");
        world.guild.swap_ids(&mut lent);
        for id in [channel_id.get(), message_id.get()] {
            assert!(id > newest);
            assert_eq!(id >> 12 & 0x3ff, 77);
            newest = id;
        }
        assert_eq!(world.guild.newest_id(), newest);
    }
    let own = worlds[0].text_channel();
    assert_eq!(own.get() >> 12 & 0x3ff, 3, "it has its own back");
}
