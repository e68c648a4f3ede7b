//! Random walks: any command, session and fault, from a seed.
//!
//! Owns        the choice of the next step; loads and commits that lag behind and overtake each other.

use crate::fixture::*;
use guildhall_guild::{
    Actor, AllowedMentions, BulkRole, ChannelPatch, Command, Guild, GuildLimits, GuildPatch, JobId, MemberFilter,
    MemberPatch, MessagePatch, MessageRecord, NewMessage, Outcome, Prune, Refusal, Reply, ReplyTo, RoleAction,
    RolePatch,
};
use guildhall_guild_protocol::{
    GuildReplica, GuildView, MembersWanted, PartitionId, RelayId, RelayMessage, SessionKey, SessionPresence, ToGuild,
};
use guildhall_model::{
    AccountKind, Activity, ChannelId, ChannelType, ClientStatus, EmojiId, MessageId, Nonce, Overwrite, OverwriteKind,
    Permissions, Platform, Presence, ReactionEmoji, RoleId, Status, User, UserId,
    to_gateway::{MemberQuery, RequestGuildMembers, SearchRecentMembers, VoiceStateUpdate},
};
use guildhall_stdx::{Rng, Timestamp};
use std::{collections::BTreeMap, sync::Arc};

pub const USERS: [UserId; 8] =
    [OWNER, ANA, BOB, EVE, UserId::new(103), UserId::new(104), UserId::new(105), UserId::new(106)];

/// A command that waits for a message the store has already read.
struct Waiting {
    actor: Actor,
    command: Command,
    key: (ChannelId, MessageId),
    answer: Option<MessageRecord>,
}

pub struct Walk {
    pub rng: Rng,
    pub world: World,
    /// All writes, applied at once: the expected state of the guild.
    pub oracle: NaiveStore,
    written_seen: usize,
    waiting: Vec<Waiting>,
    /// Commands that are answered late.
    later: BTreeMap<JobId, Command>,
    pub messages: Vec<(ChannelId, MessageId)>,
    pub sessions: BTreeMap<SessionKey, UserId>,
    next_slot: u32,
    epochs: BTreeMap<RelayId, u32>,
    pub refused: usize,
    pub done: usize,
    pub limits: GuildLimits,
}

impl Walk {
    pub fn new(seed: u64) -> Self {
        let limits = GuildLimits {
            cached_messages_max: 6,
            nonces_max: 4,
            slow_mode_entries_max: 3,
            channels_max: 12,
            roles_max: 10,
            reactions_max: 3,
            seed,
            jobs_running_max: 2,
            jobs_waiting_max: 5,
            jobs_per_user_max: 3,
            slow_commands_max: 3,
            // Every change is published at once, because the walk compares published with actual states.
            presence_burst_max: 1 << 20,
            presence_events_per_s_max: 1 << 20,
            ..GuildLimits::default()
        };
        let mut world = World::with_limits(limits.clone());
        let oracle = world.store.clone();
        world.commits_at_once = false;
        let epochs = [(P0, 1)].into();
        let mut walk = Self {
            rng: Rng::new(seed),
            world,
            oracle,
            written_seen: 0,
            waiting: Vec::new(),
            later: BTreeMap::new(),
            messages: Vec::new(),
            sessions: BTreeMap::new(),
            next_slot: 0,
            epochs,
            refused: 0,
            done: 0,
            limits,
        };
        for kind in [ChannelType::Text, ChannelType::Voice, ChannelType::Category, ChannelType::Stage] {
            walk.run(Actor::System, Command::CreateChannel(Box::new(new_channel("c", kind))));
        }
        for user_id in USERS {
            walk.run(Actor::System, Command::AddMember(user(user_id)));
        }
        walk
    }

    pub fn relay(&mut self, message: ToGuild) {
        self.world.relay(message);
        self.follow();
    }

    /// Applies to the oracle what was written since the last call.
    fn follow(&mut self) {
        self.world.drain();
        for (_, write) in &self.world.uncommitted[self.written_seen..] {
            self.oracle.apply(write.clone());
        }
        self.written_seen = self.world.uncommitted.len();
    }

    pub fn commit(&mut self, count: usize) {
        let count = count.min(self.world.uncommitted.len());
        self.world.commit(count);
        self.written_seen -= count;
    }

    pub fn run(&mut self, actor: Actor, command: Command) {
        let version = self.world.guild.version();
        let outcome = self.world.guild.handle_command(self.world.now, actor, &command);
        self.follow();
        match outcome {
            Outcome::Reply(reply) => {
                assert!(reply.is_ok() || self.world.guild.version() == version, "refused, but changed: {command:?}");
                self.check_reply(actor, &command, reply);
            }
            Outcome::Later(id) => {
                assert!(self.later.insert(id, command).is_none(), "an id is used once");
            }
            Outcome::NeedsMessage(channel, message) => {
                assert_eq!(self.world.guild.version(), version, "waits, but changed: {command:?}");
                // The store reads now and answers later; its answer may be outdated by then.
                let answer = self.world.store.message(channel, message);
                self.waiting.push(Waiting { actor, command, key: (channel, message), answer });
            }
        }
    }

    fn check_reply(&mut self, actor: Actor, command: &Command, reply: Result<Reply, Refusal>) {
        let Ok(reply) = reply else {
            self.refused += 1;
            return;
        };
        self.done += 1;
        if let Reply::Message(reply) = reply {
            let mut message = reply.message;
            let (channel, id) = (message.channel_id, message.id);
            if message.nonce.is_some() {
                assert!(matches!(command, Command::CreateMessage(..)));
                message = Arc::new(guildhall_model::Message { nonce: None, ..(*message).clone() });
            }
            let expected = self.oracle.message(channel, id).expect("it was written");
            let history = Command::AuthorizeHistory(channel);
            let reactions = match self.world.guild.handle_command(self.world.now, actor, &history) {
                // Authors who may not read the history see no reactions to what they edit.
                Outcome::Reply(Ok(Reply::HistoryGrant { may_read_history: false })) => Vec::new(),
                _ => counted(&expected, actor),
            };
            assert_eq!((&message, reply.reactions), (&expected.message, reactions), "{command:?}");
            if matches!(command, Command::CreateMessage(..)) && !self.messages.contains(&(channel, id)) {
                assert!(self.messages.iter().all(|(_, earlier)| *earlier < id), "ids ascend");
                self.messages.push((channel, id));
            }
        }
    }

    /// Runs one of the jobs that were put out, in any order, or loses it.
    fn run_one_job(&mut self) {
        if self.world.jobs.is_empty() {
            return;
        }
        let at = self.rng.below(self.world.jobs.len() as u64) as usize;
        let job = self.world.jobs.swap_remove(at);
        let now = self.world.now;
        if self.rng.chance(0.1) {
            self.world.guild.handle_job_lost(now, job.id());
        } else {
            self.world.guild.handle_job_done(now, job.run());
        }
        self.follow();
    }

    fn take_answers(&mut self) {
        for (id, answer) in std::mem::take(&mut self.world.answers) {
            let command = self.later.remove(&id).expect("a command waits for it");
            assert!(!matches!(answer, Ok(Reply::Message(_))), "messages are answered at once");
            self.check_reply(Actor::System, &command, answer);
        }
    }

    /// Answers one of the loads under way, in any order, or fails it.
    fn answer_one(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let at = self.rng.below(self.waiting.len() as u64) as usize;
        let waiting = self.waiting.swap_remove(at);
        if self.rng.chance(0.05) {
            self.world.guild.handle_message_load_failed(waiting.key.0, waiting.key.1);
            return;
        }
        let answer = waiting.answer.map(Into::into);
        self.world.guild.handle_message_loaded(waiting.key.0, waiting.key.1, answer);
        self.run(waiting.actor, waiting.command);
    }

    /// Lets everything that is under way end.
    pub fn run_until_idle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "commands request messages without end");
            if self.waiting.is_empty() {
                break;
            }
            self.answer_one();
        }
        for round in 0.. {
            assert!(round < 10_000, "jobs and slices without end");
            self.run_one_job();
            if !self.world.tick() && self.world.jobs.is_empty() {
                break;
            }
            self.follow();
        }
        self.take_answers();
        assert!(self.later.is_empty(), "Q1: {:?}", self.later);
        self.commit(usize::MAX);
    }

    pub fn step(&mut self) {
        self.take_answers();
        self.any_step();
        // The walk's observer stays: a prune may have taken them.
        if !self.oracle.members.contains_key(&OWNER) {
            self.run(Actor::System, Command::AddMember(user(OWNER)));
        }
    }

    fn any_step(&mut self) {
        match self.rng.below(22) {
            20 => self.run_one_job(),
            21 => {
                self.world.tick();
                self.follow();
            }
            0..=9 => {
                let command = self.any_command();
                let actor = match command {
                    // The system has no account.
                    Command::CreateMessage(..) | Command::AddReaction(..) | Command::StartTyping(_) => {
                        Actor::User(self.user())
                    }
                    _ if self.rng.chance(0.6) => Actor::System,
                    _ => Actor::User(self.user()),
                };
                self.run(actor, command);
            }
            10..=12 => self.answer_one(),
            13..=14 => {
                let count = self.rng.below(4) as usize;
                self.commit(count);
            }
            15 => {
                let ms = self.rng.below(20_000);
                self.world.pass_ms(ms);
            }
            16 => {
                let now = self.world.now;
                self.world.guild.handle_timer(now);
                self.follow();
            }
            _ => {
                self.any_relay_message();
                self.follow();
            }
        }
    }

    fn user(&mut self) -> UserId {
        *self.rng.pick(&USERS).expect("there are users")
    }

    fn channel(&mut self) -> ChannelId {
        let channels: Vec<ChannelId> = self.oracle.channels.keys().copied().collect();
        let known = self.rng.chance(0.95);
        self.rng.pick(&channels).copied().filter(|_| known).unwrap_or(ChannelId::new(5))
    }

    fn role(&mut self) -> RoleId {
        let roles: Vec<RoleId> = self.oracle.roles.keys().copied().collect();
        let known = self.rng.chance(0.95);
        self.rng.pick(&roles).copied().filter(|_| known).unwrap_or(RoleId::new(6))
    }

    fn message(&mut self) -> (ChannelId, MessageId) {
        // Mostly of late, so that several commands meet at one message.
        let live: Vec<_> = self.oracle.messages.keys().copied().collect();
        let known = if self.rng.chance(0.9) { &live } else { &self.messages };
        let from = if self.rng.chance(0.8) { known.len().saturating_sub(10) } else { 0 };
        let key = self.rng.pick(&known[from..]).copied();
        key.unwrap_or((ChannelId::new(5), MessageId::new(5)))
    }

    fn emoji(&mut self) -> ReactionEmoji {
        let name = *self.rng.pick(&["🔥", "👍", "👀", "🦀"]).expect("there are some");
        let id = self.rng.chance(0.1).then_some(EmojiId::new(44));
        ReactionEmoji { id, name: name.to_owned() }
    }

    fn permissions(&mut self) -> Permissions {
        let all = [
            Permissions::VIEW_CHANNEL,
            Permissions::SEND_MESSAGES,
            Permissions::MANAGE_ROLES,
            Permissions::MANAGE_CHANNELS,
            Permissions::MANAGE_MESSAGES,
            Permissions::READ_MESSAGE_HISTORY,
            Permissions::ADD_REACTIONS,
            Permissions::CONNECT,
            Permissions::MOVE_MEMBERS,
            Permissions::MUTE_MEMBERS,
            Permissions::KICK_MEMBERS,
            Permissions::MODERATE_MEMBERS,
            Permissions::MENTION_EVERYONE,
            Permissions::ADMINISTRATOR,
        ];
        let mut permissions = Permissions::VIEW_CHANNEL;
        for permission in all {
            if self.rng.chance(0.3) {
                permissions |= permission;
            }
        }
        permissions
    }

    fn overwrite(&mut self) -> Overwrite {
        let target =
            if self.rng.chance(0.5) { OverwriteKind::Role(self.role()) } else { OverwriteKind::Member(self.user()) };
        let deny = if self.rng.chance(0.2) { self.permissions() } else { Permissions::NONE };
        Overwrite { target, allow: self.permissions(), deny }
    }

    fn content(&mut self) -> String {
        let count = self.rng.below(6);
        let words = (0..count).map(|_| match self.rng.below(6) {
            0 => format!("<@{}>", self.rng.pick(&USERS).expect("there are users")),
            1 => "@everyone".to_owned(),
            2 => format!("<@&{}>", GUILD),
            _ => format!("word{}", self.rng.below(3)),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn new_message(&mut self) -> NewMessage {
        NewMessage {
            content: self.content(),
            nonce: self.rng.chance(0.3).then(|| Nonce::Number(self.rng.below(4) as i64)),
            enforce_nonce: self.rng.chance(0.7),
            tts: self.rng.chance(0.1),
            embeds: if self.rng.chance(0.2) { vec![serde_json::json!({"title": "t"})] } else { Vec::new() },
            allowed_mentions: self.rng.chance(0.3).then(|| AllowedMentions {
                all_users: self.rng.chance(0.5),
                replied_user: self.rng.chance(0.5),
                ..AllowedMentions::default()
            }),
            reply_to: None,
            ..NewMessage::default()
        }
    }

    fn message_patch(&mut self) -> MessagePatch {
        MessagePatch {
            content: self.rng.chance(0.6).then(|| self.content()),
            flags: self.rng.chance(0.3).then_some(4),
            ..MessagePatch::default()
        }
    }

    fn channel_patch(&mut self) -> ChannelPatch {
        ChannelPatch {
            name: self.rng.chance(0.3).then(|| format!("name{}", self.rng.below(3))),
            topic: self.rng.chance(0.2).then_some(None),
            position: self.rng.chance(0.2).then(|| self.rng.below(9) as i32),
            parent_id: self.rng.chance(0.3).then(|| Some(self.channel())),
            rate_limit_per_user: self.rng.chance(0.3).then(|| self.rng.below(3) as u16 * 10),
            user_limit: self.rng.chance(0.2).then(|| self.rng.below(3) as u16),
            overwrites: self.rng.chance(0.2).then(|| vec![self.overwrite(), self.overwrite()]),
            ..ChannelPatch::default()
        }
    }

    fn role_patch(&mut self) -> RolePatch {
        RolePatch {
            name: self.rng.chance(0.3).then(|| format!("name{}", self.rng.below(3))),
            position: self.rng.chance(0.3).then(|| self.rng.below(9) as i32),
            permissions: self.rng.chance(0.3).then(|| self.permissions()),
            mentionable: self.rng.chance(0.3).then_some(true),
            ..RolePatch::default()
        }
    }

    fn member_patch(&mut self) -> MemberPatch {
        let until = Timestamp(self.world.now.unix.0 + 5_000);
        MemberPatch {
            nick: self.rng.chance(0.3).then(|| Some(format!("nick{}", self.rng.below(3)))),
            roles: self.rng.chance(0.3).then(|| vec![self.role(), self.role()]),
            mute: self.rng.chance(0.2).then(|| self.rng.chance(0.5)),
            deaf: self.rng.chance(0.1).then(|| self.rng.chance(0.5)),
            channel_id: self.rng.chance(0.2).then(|| self.rng.chance(0.8).then(|| self.channel())),
            communication_disabled_until: self.rng.chance(0.2).then(|| self.rng.chance(0.7).then_some(until)),
            avatar: self.rng.chance(0.1).then(|| self.rng.chance(0.5).then(|| "hash".into())),
            banner: None,
        }
    }

    fn any_command(&mut self) -> Command {
        let key = self.message();
        match self.rng.below(43) {
            0..=9 => {
                let mut new = self.new_message();
                let text = |c: &&guildhall_model::Channel| c.kind == ChannelType::Text;
                let texts: Vec<ChannelId> = self.oracle.channels.values().filter(text).map(|c| c.id).collect();
                let mut channel = self.rng.pick(&texts).copied().unwrap_or(ChannelId::new(5));
                if self.rng.chance(0.3) {
                    new.reply_to = Some(ReplyTo { message_id: key.1, fail_if_not_exists: self.rng.chance(0.5) });
                    channel = key.0;
                }
                Command::CreateMessage(channel, Box::new(new))
            }
            10..=13 => Command::EditMessage(key.0, key.1, Box::new(self.message_patch())),
            14 => Command::DeleteMessage(key.0, key.1),
            15..=18 => Command::AddReaction(key.0, key.1, self.emoji()),
            19..=20 => Command::RemoveReaction(key.0, key.1, self.emoji(), self.user()),
            21 => Command::ClearReactions(key.0, key.1, self.rng.chance(0.5).then(|| self.emoji())),
            22 => Command::StartTyping(self.channel()),
            23 => Command::UpdateGuild(Box::new(GuildPatch {
                name: Some(format!("guild{}", self.rng.below(3))),
                owner_id: self.rng.chance(0.2).then(|| self.user()),
                ..GuildPatch::default()
            })),
            24 => Command::CreateRole(Box::new(new_role(self.permissions(), self.rng.below(9) as i32))),
            25 => Command::UpdateRole(self.role(), Box::new(self.role_patch())),
            26 => Command::DeleteRole(self.role()),
            27 => {
                let kinds = [ChannelType::Text, ChannelType::Voice, ChannelType::Category, ChannelType::Dm];
                let mut new = new_channel("new", *self.rng.pick(&kinds).expect("there are kinds"));
                new.parent_id = self.rng.chance(0.3).then(|| self.channel());
                new.overwrites = if self.rng.chance(0.3) { vec![self.overwrite()] } else { Vec::new() };
                Command::CreateChannel(Box::new(new))
            }
            28..=29 => Command::UpdateChannel(self.channel(), Box::new(self.channel_patch())),
            30 if self.rng.chance(0.3) => Command::DeleteChannel(self.channel()),
            30..=31 => Command::PutOverwrite(self.channel(), self.overwrite()),
            32 => {
                let target = self.overwrite().target;
                Command::DeleteOverwrite(self.channel(), target)
            }
            33 => {
                let mut user = User::clone(&user(self.user()));
                user.global_name = self.rng.chance(0.5).then(|| "Global".to_owned());
                Command::AddMember(Arc::new(user))
            }
            34..=35 => Command::UpdateMember(self.user(), Box::new(self.member_patch())),
            36 => Command::AddMemberRole(self.user(), self.role()),
            37 => Command::RemoveMemberRole(self.user(), self.role()),
            38 => {
                let user_id = self.user();
                // The walk's observer stays.
                if user_id == OWNER { Command::ReadGuild } else { Command::RemoveMember(user_id) }
            }
            40 => match self.rng.below(2) {
                0 => Command::SearchMembers {
                    query: self.rng.pick(&["u", "USER10", "x"]).unwrap().to_string(),
                    limit: 3,
                },
                _ => Command::ReadAudience(self.channel()),
            },
            41 => Command::Prune(Box::new(Prune {
                roles: if self.rng.chance(0.3) { vec![self.role()] } else { Vec::new() },
                joined_before: Timestamp(self.world.now.unix.0 - self.rng.below(200_000) as i64),
                counts_only: self.rng.chance(0.3),
            })),
            42 => Command::BulkRole(Box::new(BulkRole {
                role_id: self.role(),
                action: if self.rng.chance(0.5) { RoleAction::Grant } else { RoleAction::Revoke },
                filter: MemberFilter { offline: self.rng.chance(0.3), ..MemberFilter::default() },
            })),
            _ if self.rng.chance(0.5) => Command::ShowVoice(self.user(), self.rng.chance(0.7).then(|| self.channel())),
            _ => {
                let mut client_status = ClientStatus::default();
                client_status.raise(Platform::Mobile, Status::Idle);
                let shown = Presence { status: Status::Idle, activities: Vec::new(), client_status };
                Command::ShowPresence(self.user(), self.rng.chance(0.7).then(|| Arc::new(shown)))
            }
        }
    }

    fn any_presence(&mut self) -> SessionPresence {
        let statuses = [Status::Offline, Status::Idle, Status::Online, Status::Dnd];
        let activities = (0..self.rng.below(3)).map(|n| Activity::from_iter([("name".to_owned(), n.into())])).collect();
        let platforms = [Platform::Web, Platform::Mobile, Platform::Desktop];
        SessionPresence {
            status: *self.rng.pick(&statuses).expect("there are some"),
            activities,
            platform: *self.rng.pick(&platforms).expect("there are some"),
        }
    }

    fn any_session(&mut self) -> SessionKey {
        let keys: Vec<SessionKey> = self.sessions.keys().copied().collect();
        self.rng.pick(&keys).copied().unwrap_or(session(0, 9_999))
    }

    fn any_relay_message(&mut self) {
        let relay = RelayId { partition: PartitionId(self.rng.below(2) as u16), index: self.rng.below(2) as u16 };
        let epoch = self.epochs.get(&relay).copied().unwrap_or(0);
        let message = match self.rng.below(26) {
            // The first relay stays, because a mirror follows its messages.
            0 | 1 if relay != P0 => {
                self.epochs.insert(relay, epoch + 1);
                self.sessions.retain(|key, _| key.relay != relay);
                ToGuild::Subscribe { relay, epoch: epoch + 1 }
            }
            2 if relay != P0 => {
                self.sessions.retain(|key, _| key.relay != relay);
                ToGuild::Unsubscribe { relay, epoch }
            }
            3 => ToGuild::Resync { relay, epoch },
            4 => ToGuild::Unsubscribe { relay, epoch: epoch.wrapping_sub(1) },
            5..=11 => {
                self.next_slot += 1;
                let key = SessionKey { relay, slot: self.next_slot, generation: 1 };
                let user_id = self.user();
                self.sessions.insert(key, user_id);
                ToGuild::Attach {
                    is_restored: false,
                    previous: None,
                    session: key,
                    session_id: format!("s{}", key.slot).into(),
                    user_id,
                    kind: AccountKind::Bot,
                    presence: self.any_presence(),
                    members: MembersWanted::OwnAndVoice,
                }
            }
            12..=13 => {
                let session = self.any_session();
                self.sessions.remove(&session);
                ToGuild::Detach { session }
            }
            14..=16 => ToGuild::Presence { session: self.any_session(), presence: self.any_presence() },
            17..=21 => {
                let channel = self.rng.chance(0.8).then(|| self.channel());
                let update = VoiceStateUpdate { self_mute: self.rng.chance(0.5), ..voice_state(channel) };
                ToGuild::Voice { session: self.any_session(), update }
            }
            22 => {
                let queries = [
                    MemberQuery::All,
                    MemberQuery::Prefix { prefix: "us".to_owned(), limit: 3 },
                    MemberQuery::Ids(vec![self.user(), NOBODY]),
                ];
                let request = RequestGuildMembers {
                    guild_ids: vec![GUILD],
                    query: self.rng.pick(&queries).expect("there are some").clone(),
                    presences: true,
                    nonce: None,
                };
                ToGuild::RequestMembers { session: self.any_session(), request: Box::new(request) }
            }
            23 => ToGuild::CountMembers { session: self.any_session(), channel_id: self.channel() },
            24 => {
                let request = SearchRecentMembers {
                    guild_id: GUILD,
                    query: if self.rng.chance(0.5) { "us".to_owned() } else { String::new() },
                    continuation_token: self.rng.chance(0.3).then(|| self.user()),
                    nonce: None,
                };
                ToGuild::RecentMembers { session: self.any_session(), request: Box::new(request) }
            }
            _ if relay != P0 => {
                self.world.guild.handle_relay_lost(relay);
                if self.rng.chance(0.7) {
                    self.world.guild.handle_relay_room(relay);
                }
                return;
            }
            _ => return,
        };
        self.world.relay(message);
    }

    /// The snapshot of a new relay, and the view of an attach of `OWNER` with all members.
    pub fn fresh_view(&mut self) -> (GuildReplica, GuildView) {
        self.next_slot += 1;
        let (relay, epoch) = (relay(9), self.next_slot);
        let key = SessionKey { relay, slot: self.next_slot, generation: 1 };
        self.world.sent.clear();
        self.world.relay(ToGuild::Subscribe { relay, epoch });
        let replica = match sent_to(relay, &mut self.world).pop() {
            Some(RelayMessage::Snapshot { replica, .. }) => replica,
            other => panic!("{other:?}"),
        };
        let members = MembersWanted::ByThreshold { large_threshold: 250 };
        self.world.attach_as(key, OWNER, presence(Status::Offline), AccountKind::Bot, members);
        let mut views = self.world.views();
        assert_eq!(views.len(), 1);
        self.world.relay(ToGuild::Unsubscribe { relay, epoch });
        (replica, views.remove(0).1.expect("the owner is a member"))
    }

    /// Commands of a loaded guild are answered as by this one.
    pub fn reload(&self) -> Guild {
        Guild::load(self.world.store.record(), GuildLimits::default(), 3)
    }
}

/// The messages among `sent` that are for `relay`.
pub fn sent_to(relay: RelayId, world: &mut World) -> Vec<RelayMessage> {
    world.take().into_iter().filter(|(to, _)| *to == relay).map(|(_, message)| message).collect()
}
