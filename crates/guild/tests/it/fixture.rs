//! Fixture: a guild with a naive store behind it and its relays' streams in front of it.
//!
//! Owns        `World`, which runs commands the way a driver does; `NaiveStore`, what writes mean.
//! Invariants  each relay message is checked as it comes: contiguous numbers, the relay's epoch, nothing before a
//!             snapshot.

use guildhall_guild::{
    Actor, BackendCommand, Command, FeedEvent, Guild, GuildLimits, GuildRecord, Job, JobId, MessageRecord,
    MessageReply, NewChannel, NewGuild, NewMessage, NewRole, Outcome, Output, ReactionCount, Refusal, Reply, SentNonce,
    Write, nonces_from,
};
use guildhall_guild_protocol::{
    AudienceRule, GuildView, MembersWanted, PartitionId, Payload, Published, RelayId, RelayMessage, RelayStreams,
    ResourcePayload, SessionKey, SessionPresence, ToGuild, ToRelay,
};
use guildhall_model::{
    AccountKind, AuditEntry, Channel, ChannelId, ChannelType, EventName, Guild as GuildFields, GuildId, GuildResource,
    Member, Message, MessageId, Nonce, Overwrite, OverwriteKind, Permissions, Platform, ReactionEmoji, ResourceKey,
    Role, RoleId, Status, User, UserId, to_gateway::VoiceStateUpdate,
};
use guildhall_stdx::Now;
use std::{collections::BTreeMap, sync::Arc};

pub const GUILD: GuildId = GuildId::new(1);
pub const OWNER: UserId = UserId::new(7);
pub const ANA: UserId = UserId::new(100);
pub const BOB: UserId = UserId::new(101);
pub const EVE: UserId = UserId::new(102);
pub const NOBODY: UserId = UserId::new(999);
/// The relay that is always there.
pub const P0: RelayId = relay(0);
pub const P1: RelayId = relay(1);

/// The first relay of a partition.
pub const fn relay(partition: u16) -> RelayId {
    RelayId::first(PartitionId(partition))
}

pub fn user(id: UserId) -> Arc<User> {
    Arc::new(User::new(id, &format!("user{id}")))
}

/// Member `n` of those who come besides the named ones.
pub fn extra(n: u64) -> UserId {
    UserId::new(10_000 + n)
}

pub fn session(partition: u16, slot: u32) -> SessionKey {
    SessionKey { relay: relay(partition), slot, generation: 1 }
}

/// Id of a session that attached with this key.
pub fn session_id(key: SessionKey) -> String {
    format!("session-{}-{}", key.relay.partition.0, key.slot)
}

pub fn presence(status: Status) -> SessionPresence {
    SessionPresence { status, activities: Arc::new([]), platform: Platform::Web }
}

pub fn new_channel(name: &str, kind: ChannelType) -> NewChannel {
    NewChannel {
        name: name.to_owned(),
        kind,
        topic: None,
        parent_id: None,
        position: None,
        overwrites: Vec::new(),
        user_limit: 0,
    }
}

pub fn new_role(permissions: Permissions, position: i32) -> NewRole {
    NewRole {
        id: None,
        name: "role".to_owned(),
        color: 0,
        hoist: false,
        position,
        permissions,
        managed: false,
        mentionable: false,
        icon: None,
    }
}

/// A role as the store or a backend has it.
pub fn role(id: RoleId, permissions: Permissions, position: i32) -> Role {
    Role {
        id,
        name: "role".to_owned(),
        color: 0,
        hoist: false,
        position,
        permissions,
        managed: false,
        mentionable: false,
        icon: None,
    }
}

/// Op 4, without muting oneself.
pub fn voice_state(channel_id: Option<ChannelId>) -> VoiceStateUpdate {
    VoiceStateUpdate { guild_id: Some(GUILD), channel_id, self_mute: false, self_deaf: false, self_video: false }
}

pub fn text(content: &str) -> NewMessage {
    NewMessage { content: content.to_owned(), ..NewMessage::default() }
}

pub fn deny_everyone(permissions: Permissions) -> Overwrite {
    Overwrite { target: OverwriteKind::Role(GUILD.cast()), allow: Permissions::NONE, deny: permissions }
}

pub fn allow_member(user_id: UserId, permissions: Permissions) -> Overwrite {
    Overwrite { target: OverwriteKind::Member(user_id), allow: permissions, deny: Permissions::NONE }
}

/// Reactions in their order, with the users.
pub type Reactions = Vec<(ReactionEmoji, Vec<UserId>)>;

/// What writes mean, in plain maps.
#[derive(Clone, Debug, Default)]
pub struct NaiveStore {
    pub users: BTreeMap<UserId, Arc<User>>,
    pub guild: Option<GuildFields>,
    pub roles: BTreeMap<RoleId, Role>,
    pub channels: BTreeMap<ChannelId, Channel>,
    pub members: BTreeMap<UserId, Member>,
    pub resources: BTreeMap<ResourceKey, GuildResource>,
    pub events: Vec<FeedEvent>,
    pub messages: BTreeMap<(ChannelId, MessageId), Message>,
    pub reactions: BTreeMap<(ChannelId, MessageId), Reactions>,
    pub nonces: BTreeMap<(ChannelId, MessageId), Nonce>,
}

impl NaiveStore {
    pub fn apply(&mut self, write: Write) {
        match write {
            Write::PutUser(user) => drop(self.users.insert(user.id, user)),
            Write::PutGuild(guild) => self.guild = Some(GuildFields::clone(&guild)),
            Write::DeleteGuild(_) => *self = Self { users: std::mem::take(&mut self.users), ..Self::default() },
            Write::PutRole(_, role) => drop(self.roles.insert(role.id, Role::clone(&role))),
            Write::DeleteRole(_, id) => assert!(self.roles.remove(&id).is_some(), "role {id} was not there"),
            Write::PutChannel(channel) => drop(self.channels.insert(channel.id, Channel::clone(&channel))),
            Write::DeleteChannel(_, id) => {
                assert!(self.channels.remove(&id).is_some(), "channel {id} was not there");
                self.messages.retain(|key, _| key.0 != id);
                self.reactions.retain(|key, _| key.0 != id);
            }
            Write::PutMember(_, member) => {
                self.users.entry(member.user.id).or_insert_with(|| member.user.clone());
                self.members.insert(member.user.id, Member::clone(&member));
            }
            Write::DeleteMember(_, id) => assert!(self.members.remove(&id).is_some(), "member {id} was not there"),
            Write::PutResource(_, resource) => drop(self.resources.insert(resource.key(), resource)),
            Write::DeleteResource(_, key) => assert!(self.resources.remove(&key).is_some(), "{key:?} was not there"),
            Write::DeleteResources(_, key) => {
                self.resources.retain(|other, _| (other.kind, other.id) != (key.kind, key.id));
            }
            Write::PutMessage(message) => {
                assert!(self.channels.contains_key(&message.channel_id), "a message without a channel");
                let key = (message.channel_id, message.id);
                match &message.nonce {
                    Some(nonce) => drop(self.nonces.insert(key, nonce.clone())),
                    None => drop(self.nonces.remove(&key)),
                }
                self.messages.insert(key, Message { nonce: None, ..Message::clone(&message) });
            }
            Write::DeleteMessage(channel, message) => {
                assert!(self.messages.remove(&(channel, message)).is_some(), "message {message} was not there");
                self.reactions.remove(&(channel, message));
            }
            Write::AddReaction(channel, message, emoji, user) => {
                assert!(self.messages.contains_key(&(channel, message)), "a reaction without a message");
                let reactions = self.reactions.entry((channel, message)).or_default();
                match reactions.iter_mut().find(|(e, _)| *e == emoji) {
                    Some((_, users)) if users.contains(&user) => {}
                    Some((_, users)) => users.push(user),
                    None => reactions.push((emoji, vec![user])),
                }
            }
            Write::RemoveReaction(channel, message, emoji, user) => {
                let reactions = self.reactions.entry((channel, message)).or_default();
                reactions.iter_mut().filter(|(e, _)| *e == emoji).for_each(|(_, users)| users.retain(|u| *u != user));
                reactions.retain(|(_, users)| !users.is_empty());
            }
            Write::ClearReactions(channel, message, emoji) => {
                let reactions = self.reactions.entry((channel, message)).or_default();
                reactions.retain(|(e, _)| emoji.as_ref().is_some_and(|emoji| e != emoji));
            }
            Write::PutEvent(event) => self.events.push(*event),
        }
    }

    pub fn message(&self, channel: ChannelId, message: MessageId) -> Option<MessageRecord> {
        let found = self.messages.get(&(channel, message))?;
        let reactions = self.reactions.get(&(channel, message)).cloned().unwrap_or_default();
        Some(MessageRecord { message: Arc::new(found.clone()), reactions })
    }

    pub fn record(&self) -> GuildRecord {
        let newest = |channel: &Channel| {
            self.messages.keys().filter(|(of, _)| *of == channel.id).map(|(_, message)| *message).max()
        };
        let channels: Vec<_> = self
            .channels
            .values()
            .map(|channel| Channel { last_message_id: newest(channel), ..channel.clone() })
            .collect();
        let from = nonces_from(&channels);
        let sent = |(key, nonce): (&(ChannelId, MessageId), &Nonce)| {
            let author_id = self.messages.get(key)?.author.id;
            let nonce = nonce.clone();
            from.is_some_and(|from| key.1 >= from).then_some(SentNonce {
                author_id,
                channel_id: key.0,
                message_id: key.1,
                nonce,
            })
        };
        let mut nonces: Vec<SentNonce> = self.nonces.iter().filter_map(sent).collect();
        nonces.sort_unstable_by_key(|sent| sent.message_id);
        GuildRecord {
            nonces,
            guild: self.guild.clone().expect("there is a guild"),
            roles: self.roles.values().cloned().collect(),
            channels,
            members: self.members.values().cloned().map(Arc::new).collect(),
            resources: self.resources.values().cloned().collect(),
        }
    }
}

#[derive(Debug, Default)]
struct Stream {
    epoch: u32,
    seq: u64,
    has_snapshot: bool,
}

/// Reaction counts of a stored message, as `actor` receives them.
pub fn counted(record: &MessageRecord, actor: Actor) -> Vec<ReactionCount> {
    let is_by = |users: &[UserId]| actor.user_id().is_some_and(|user_id| users.contains(&user_id));
    let count = |(emoji, users): &(ReactionEmoji, Vec<UserId>)| ReactionCount {
        emoji: emoji.clone(),
        count: users.len() as u64,
        me: is_by(users),
    };
    record.reactions.iter().map(count).collect()
}

/// A guild and its surroundings.
pub struct World {
    pub guild: Guild,
    pub now: Now,
    /// The durable state.
    pub store: NaiveStore,
    /// Writes that are not durable yet, each with its version.
    pub uncommitted: Vec<(u64, Write)>,
    /// Whether each input is durable at once.
    pub commits_at_once: bool,
    /// Messages to relays since the last `take`.
    pub sent: Vec<(RelayId, ToRelay)>,
    /// Number of messages that the guild requested from the store.
    pub loads: usize,
    /// Jobs that were put out and not run yet.
    pub jobs: Vec<Job>,
    /// Late answers that no test took yet.
    pub answers: BTreeMap<JobId, Result<Reply, Refusal>>,
    streams: RelayStreams,
    seen: BTreeMap<RelayId, Stream>,
}

impl World {
    /// A guild of `OWNER`, one relay subscribed.
    pub fn new() -> Self {
        Self::with_limits(GuildLimits { voice_endpoint: Some("voice.example.net".into()), ..GuildLimits::default() })
    }

    pub fn with_limits(limits: GuildLimits) -> Self {
        let now = Now::new(1_000, 1_700_000_000_000);
        let new = NewGuild::new(GuildFields::new(GUILD, "guild", OWNER), user(OWNER));
        let mut world = Self {
            guild: Guild::create(now, new, limits, 3),
            now,
            store: NaiveStore::default(),
            uncommitted: Vec::new(),
            commits_at_once: true,
            sent: Vec::new(),
            loads: 0,
            jobs: Vec::new(),
            answers: BTreeMap::new(),
            streams: RelayStreams::default(),
            seen: BTreeMap::new(),
        };
        world.drain();
        world.subscribe(P0, 1);
        world.sent.clear();
        world
    }

    /// `World::new` with `ANA`, `BOB` and `EVE` as members.
    pub fn populated() -> Self {
        let mut world = Self::new();
        [ANA, BOB, EVE].into_iter().for_each(|id| world.join(id));
        world.sent.clear();
        world
    }

    /// Another process has the guild, with a relay of its own.
    pub fn begin_again(&mut self, guild: Guild) {
        (self.guild, self.streams, self.seen) = (guild, RelayStreams::default(), BTreeMap::new());
        self.subscribe(P0, 1);
    }

    /// Takes what the machine wants done, as a driver does after each input.
    pub fn drain(&mut self) {
        let version = self.guild.version();
        while let Some(output) = self.guild.poll_output() {
            match output {
                Output::Write(write) => self.uncommitted.push((version, write)),
                Output::Job(job) => self.jobs.push(job),
                Output::Answer(command, answer) => {
                    assert!(self.answers.insert(command, answer).is_none(), "answered twice");
                }
                Output::Users(_) => panic!("a guild tells relays"),
                Output::Relay(output) => {
                    let message = self.streams.send(output).expect("the relay is subscribed with this epoch");
                    self.check_stream(&message);
                    self.sent.push((message.relay, message));
                }
            }
        }
        if self.commits_at_once {
            self.commit(usize::MAX);
        }
    }

    fn check_stream(&mut self, message: &ToRelay) {
        assert_eq!(message.guild_id, GUILD);
        let stream = self.seen.entry(message.relay).or_default();
        if message.epoch != stream.epoch {
            assert!(message.epoch > stream.epoch, "an older epoch is spoken to");
            *stream = Stream { epoch: message.epoch, ..Stream::default() };
        }
        if let RelayMessage::Snapshot { reset, .. } = &message.message {
            assert!(*reset == stream.has_snapshot, "reset is for streams that had started");
            stream.has_snapshot = true;
        } else {
            assert!(stream.has_snapshot, "spoken to before a snapshot");
        }
        assert_eq!(message.seq, stream.seq + 1, "numbers are contiguous");
        stream.seq = message.seq;
    }

    pub fn seq(&self, relay: RelayId) -> u64 {
        self.seen.get(&relay).map_or(0, |stream| stream.seq)
    }

    /// Makes the oldest `count` writes durable.
    pub fn commit(&mut self, count: usize) {
        let count = count.min(self.uncommitted.len());
        let versions: Vec<u64> = self.uncommitted.iter().map(|(version, _)| *version).collect();
        for (_, write) in self.uncommitted.drain(..count) {
            self.store.apply(write);
        }
        // The writes of one input are durable together or not at all.
        let done = match versions.get(count) {
            Some(next) => next - 1,
            None => self.guild.version(),
        };
        self.guild.handle_committed(done);
    }

    /// Runs a command as a driver does, loading what it needs.
    pub fn command(&mut self, actor: Actor, command: Command) -> Result<Reply, Refusal> {
        for _ in 0..8 {
            let version = self.guild.version();
            match self.guild.handle_command(self.now, actor, &command) {
                Outcome::Reply(reply) => {
                    assert!(reply.is_ok() || self.guild.version() == version, "refused, but changed: {command:?}");
                    self.drain();
                    return reply;
                }
                Outcome::Later(command) => {
                    self.drain();
                    self.rest();
                    return self.answers.remove(&command).expect("it was answered");
                }
                Outcome::NeedsMessage(channel, message) => {
                    assert_eq!(self.guild.version(), version, "waits, but changed: {command:?}");
                    self.loads += 1;
                    let record = self.store.message(channel, message);
                    self.guild.handle_message_loaded(channel, message, record.map(Into::into));
                }
            }
        }
        panic!("{command:?} requests messages without end");
    }

    pub fn system(&mut self, command: Command) -> Reply {
        self.command(Actor::System, command.clone()).unwrap_or_else(|refusal| panic!("{command:?}: {refusal:?}"))
    }

    pub fn by(&mut self, user_id: UserId, command: Command) -> Result<Reply, Refusal> {
        self.command(Actor::User(user_id), command)
    }

    pub fn backend(&mut self, command: BackendCommand) -> Result<Reply, Refusal> {
        self.command(Actor::System, Command::Backend(Box::new(command)))
    }

    pub fn relay(&mut self, message: ToGuild) {
        self.streams.handle(&message);
        self.guild.handle_relay(self.now, message);
        self.drain();
    }

    pub fn run_jobs(&mut self) {
        while let Some(job) = self.jobs.pop() {
            self.guild.handle_job_done(self.now, job.run());
            self.drain();
        }
    }

    /// The timer, once, at its time; false if that is not within a second.
    pub fn tick(&mut self) -> bool {
        let Some(wait_ms) = self.guild.next_deadline().map(|at| at.ms_since(self.now.instant)) else { return false };
        if wait_ms > 1_000 {
            return false;
        }
        self.pass_ms(wait_ms);
        self.timer();
        true
    }

    /// The timer now, and the load that it requests.
    pub fn timer(&mut self) {
        self.guild.handle_timer(self.now);
        if let Some((channel, message)) = self.guild.poll_load() {
            self.loads += 1;
            let record = self.store.message(channel, message);
            self.guild.handle_message_loaded(channel, message, record.map(Into::into));
        }
        self.drain();
    }

    /// Jobs are run and time passes until nothing is left to do.
    pub fn rest(&mut self) {
        for _ in 0..100_000 {
            self.run_jobs();
            if !self.tick() && self.jobs.is_empty() {
                return;
            }
        }
        panic!("it never rests");
    }

    /// Starts a relay whose sessions receive every presence.
    pub fn subscribe(&mut self, relay: RelayId, epoch: u32) {
        self.relay(ToGuild::Subscribe { relay, epoch });
        self.relay(ToGuild::WantPresences { relay, all: true });
    }

    /// Time passes on both clocks.
    pub fn pass_ms(&mut self, ms: u64) {
        self.now = Now::new(self.now.instant.0 + ms, self.now.unix.0 + ms as i64);
    }

    pub fn join(&mut self, user_id: UserId) {
        self.system(Command::AddMember(user(user_id)));
    }

    pub fn channel(&mut self, new: NewChannel) -> ChannelId {
        match self.system(Command::CreateChannel(Box::new(new))) {
            Reply::Channel(channel) => channel.id,
            other => panic!("{other:?}"),
        }
    }

    pub fn text_channel(&mut self) -> ChannelId {
        self.channel(new_channel("general", ChannelType::Text))
    }

    pub fn role(&mut self, permissions: Permissions, position: i32) -> RoleId {
        match self.system(Command::CreateRole(Box::new(new_role(permissions, position)))) {
            Reply::Role(role) => role.id,
            other => panic!("{other:?}"),
        }
    }

    /// A new role with `permissions` at `position`, given to `user_id`.
    pub fn grant(&mut self, user_id: UserId, permissions: Permissions, position: i32) -> RoleId {
        let role = self.role(permissions, position);
        self.system(Command::AddMemberRole(user_id, role));
        role
    }

    /// What `@everyone` may do.
    pub fn everyone(&mut self, permissions: Permissions) {
        let patch = guildhall_guild::RolePatch { permissions: Some(permissions), ..Default::default() };
        self.system(Command::UpdateRole(GUILD.cast(), Box::new(patch)));
    }

    pub fn try_say(&mut self, user_id: UserId, channel: ChannelId, new: NewMessage) -> Result<MessageReply, Refusal> {
        match self.by(user_id, Command::CreateMessage(channel, Box::new(new)))? {
            Reply::Message(reply) => Ok(*reply),
            other => panic!("{other:?}"),
        }
    }

    pub fn say(&mut self, user_id: UserId, channel: ChannelId, content: &str) -> MessageId {
        self.try_say(user_id, channel, text(content)).expect("they may").message.id
    }

    pub fn member(&mut self, user_id: UserId) -> Arc<Member> {
        match self.system(Command::ReadMember(user_id)) {
            Reply::Member(member) => member,
            other => panic!("{other:?}"),
        }
    }

    pub fn attach(&mut self, key: SessionKey, user_id: UserId, status: Status) {
        self.attach_as(key, user_id, presence(status), AccountKind::Bot, MembersWanted::OwnAndVoice);
    }

    pub fn attach_as(
        &mut self,
        key: SessionKey,
        user_id: UserId,
        presence: SessionPresence,
        kind: AccountKind,
        members: MembersWanted,
    ) {
        let session_id = session_id(key).into();
        self.relay(ToGuild::Attach {
            session: key,
            session_id,
            user_id,
            kind,
            presence,
            members,
            is_restored: false,
            previous: None,
        });
    }

    /// Takes the messages to relays since the last call.
    pub fn take(&mut self) -> Vec<(RelayId, RelayMessage)> {
        std::mem::take(&mut self.sent).into_iter().map(|(relay, message)| (relay, message.message)).collect()
    }

    /// The events among what the first relay was sent since anything was last taken.
    /// The audit log's events are left out: `audit_events` has them.
    pub fn events(&mut self) -> Vec<Arc<Published>> {
        let mut events = self.all_events();
        events.retain(|published| published.event.name != EventName::GuildAuditLogEntryCreate);
        events
    }

    /// Entries in the audit log's events.
    pub fn audit_events(&mut self) -> Vec<Arc<AuditEntry>> {
        let entry = |published: &Arc<Published>| match &published.event.payload {
            Payload::Resource(resource) => match &**resource {
                ResourcePayload::AuditEntry(entry) => Some(entry.clone()),
                _ => None,
            },
            _ => None,
        };
        self.all_events().iter().filter_map(entry).collect()
    }

    /// As `events`, with those of the audit log.
    pub fn all_events(&mut self) -> Vec<Arc<Published>> {
        let messages = self.take().into_iter().filter(|(relay, _)| *relay == P0);
        messages
            .filter_map(|(_, message)| match message {
                RelayMessage::Published(published) => Some(published),
                _ => None,
            })
            .collect()
    }

    pub fn event_names(&mut self) -> Vec<EventName> {
        self.events().iter().map(|published| published.event.name).collect()
    }

    /// The one event, which must be of that name.
    pub fn only_event(&mut self, name: EventName) -> Arc<Published> {
        let events = self.events();
        assert_eq!(events.iter().map(|published| published.event.name).collect::<Vec<_>>(), [name]);
        events[0].clone()
    }

    /// The views among what was sent since anything was last taken.
    pub fn views(&mut self) -> Vec<(SessionKey, Option<GuildView>)> {
        let messages = self.take().into_iter();
        messages
            .filter_map(|(_, message)| match message {
                RelayMessage::Attached { session, view } => Some((session, view.map(|view| *view))),
                _ => None,
            })
            .collect()
    }
}

pub fn rule(published: &Published) -> AudienceRule {
    published.event.audience.rule.clone()
}

pub fn message_of(published: &Published) -> &Message {
    match &published.event.payload {
        Payload::Message(event) => &event.message,
        other => panic!("{other:?}"),
    }
}
