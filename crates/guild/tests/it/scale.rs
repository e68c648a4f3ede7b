//! Scale: every input is O(log members).
//!
//! The test counts instead of timing: entries of the member table and of voice that are read or copied (`steps_taken`,
//! also in iterators), outputs, and every allocation and release, so that no growing collection is collected, copied or
//! dropped. The large guild has more of everything: members, sessions, voice states, members in slow mode or with a
//! pending presence, watched members and rows.

use crate::fixture::*;
use guildhall_guild::{
    Actor, ArchivedThreads, AutoModPatch, BackendCommand, BulkRole, CachedMessage, ChannelPatch, Command, Forward,
    Guild, GuildLimits, GuildPatch, GuildRecord, IMPORT_MEMBERS_MAX, InteractionQuery, Job, JoinAudience, MemberFilter,
    MemberPatch, MessagePatch, MessageRecord, NewBan, NewFollow, NewInvite, NewMember, NewMessage, NewPoll,
    NewTemplate, NewThread, NewWebhook, Outcome, Output, Page, Prune, RESOLVED_MAX, Reply, Response, ResponsePatch,
    RoleAction, RolePatch, VoiceStatePatch, WebhookAccess, WebhookPost,
};
use guildhall_guild_protocol::{MembersWanted, ToGuild};
use guildhall_member_list::{Interval, ListId};
use guildhall_model::{
    AccountKind, AutoModAction, AutoModTrigger, Channel, ChannelId, ChannelType, Follower, Guild as GuildFields, Id,
    InviteCode, Member, Message, MessageId, MessageInteraction, Nonce, OverwriteKind, Permissions, PollAnswer,
    Presence, ReactionEmoji, RoleId, Status, User, UserId, WebhookId, WebhookSource,
    to_gateway::{MemberQuery, RequestGuildMembers, SearchRecentMembers},
};
use guildhall_stdx::{Now, Timestamp, steps_taken};
use std::{collections::BTreeMap, sync::Arc};

const CHANNEL: ChannelId = ChannelId::new(2);
const VOICE: ChannelId = ChannelId::new(4);
const CROWDED: ChannelId = ChannelId::new(5);
const STAGE: ChannelId = ChannelId::new(8);
const ROLE: RoleId = RoleId::new(3);
const LOW_ROLE: RoleId = RoleId::new(6);

struct Lab {
    guild: Guild,
    now: Now,
    members_count: u64,
    jobs: Vec<Job>,
    /// The most steps of any input of a kind.
    steps: BTreeMap<String, u64>,
}

/// The n-th member; 0 is the owner.
fn member(n: u64) -> UserId {
    UserId::new(OWNER.get() + n)
}

fn message_id(outcome: &Outcome) -> MessageId {
    match outcome {
        Outcome::Reply(Ok(Reply::Message(reply))) => reply.message.id,
        other => panic!("{other:?}"),
    }
}

impl Lab {
    fn new(members_count: u64) -> Self {
        let now = Now::new(1_000, 1_700_000_000_000);
        let everyone = role(GUILD.cast(), Permissions::DEFAULT_EVERYONE, 0);
        let make = |n| {
            let mut member = Member::new(user(member(n)), now.unix);
            member.roles.extend((n % 2 == 0).then_some(ROLE));
            Arc::new(member)
        };
        let channel = |id, kind| Channel::new(id, GUILD, kind, "channel");
        let mut slow = channel(CHANNEL, ChannelType::Text);
        slow.rate_limit_per_user = 1;
        let record = GuildRecord {
            guild: GuildFields::new(GUILD, "guild", OWNER),
            roles: vec![everyone, role(ROLE, Permissions::NONE, 2), role(LOW_ROLE, Permissions::NONE, 1)],
            channels: vec![
                slow,
                channel(VOICE, ChannelType::Voice),
                channel(CROWDED, ChannelType::Voice),
                channel(STAGE, ChannelType::Stage),
            ],
            members: (0..members_count).map(make).collect(),
            resources: Vec::new(),
            nonces: Vec::new(),
        };
        let limits = GuildLimits { presence_burst_max: 10, jobs_running_max: 1, ..GuildLimits::default() };
        let guild = Guild::load(record, limits, 3);
        Self { guild, now, members_count, jobs: Vec::new(), steps: BTreeMap::new() }
    }

    /// One in `share` members.
    fn one_in(&self, share: u64) -> u64 {
        (self.members_count / share).min(15_000)
    }

    /// Counts what an input costs, with a snapshot taken before, so that whatever it touches must be copied.
    fn measure<R>(&mut self, kind: &str, input: impl FnOnce(&mut Guild, Now) -> R) -> R {
        let snapshot = self.guild.handle_command(self.now, Actor::System, &Command::ReadMembers);
        self.poll();
        let before = steps_taken();
        let mut result = None;
        let (guild, now) = (&mut self.guild, self.now);
        let memory = allocation_counter::measure(|| result = Some(input(guild, now)));
        // Bytes allocated and released, including those allocated before.
        let freed = memory.count_total.saturating_add_signed(-memory.count_current);
        let steps = steps_taken() - before + memory.count_total + freed + memory.bytes_total / 64;
        let most = self.steps.entry(kind.to_owned()).or_default();
        *most = steps.max(*most);
        drop(snapshot);
        self.poll();
        result.expect("it was measured")
    }

    /// Takes the outputs, which a driver does bit by bit.
    fn poll(&mut self) {
        while let Some(output) = self.guild.poll_output() {
            if let Output::Job(job) = output {
                self.jobs.push(job);
            }
        }
    }

    fn command(&mut self, actor: Actor, command: Command) -> Outcome {
        let kind = format!("{command:?}");
        let kind = kind.split(|c: char| !c.is_alphanumeric()).next().expect("there is a first").to_owned();
        let outcome = self.measure(&kind, |guild, now| guild.handle_command(now, actor, &command));
        assert!(matches!(outcome, Outcome::Reply(Ok(_)) | Outcome::Later(_)), "{command:?}: {outcome:?}");
        outcome
    }

    fn owner(&mut self, command: Command) -> Outcome {
        self.command(Actor::User(OWNER), command)
    }

    fn system(&mut self, command: Command) -> Outcome {
        self.command(Actor::System, command)
    }

    fn relay(&mut self, message: ToGuild) {
        let kind = format!("{message:?}");
        let kind = kind.split(|c: char| !c.is_alphanumeric()).next().expect("there is a first").to_owned();
        self.measure(&format!("ToGuild::{kind}"), |guild, now| guild.handle_relay(now, message));
    }

    /// Each job's end, and each turn of the timer, until nothing is left to do soon.
    fn rest(&mut self) {
        for _ in 0..1_000_000 {
            while let Some(job) = self.jobs.pop() {
                let done = job.run();
                self.measure("job done", |guild, now| guild.handle_job_done(now, done));
            }
            let wait_ms = self.guild.next_deadline().map(|at| at.ms_since(self.now.instant));
            let Some(wait_ms) = wait_ms.filter(|wait_ms| *wait_ms <= 60_000) else { return };
            self.pass_ms(wait_ms);
            self.measure("timer", |guild, now| guild.handle_timer(now));
        }
        panic!("it never rests");
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now = Now::new(self.now.instant.0 + ms, self.now.unix.0 + ms as i64);
    }

    fn attach(&mut self, partition: u16, n: u64, members: MembersWanted) {
        self.relay(ToGuild::Attach {
            is_restored: false,
            previous: None,
            session: session(partition, n as u32),
            session_id: "s".into(),
            user_id: member(n),
            kind: AccountKind::Bot,
            presence: presence(Status::Online),
            members,
        });
    }

    fn run(&mut self) {
        self.relays();
        self.requests();
        self.messages();
        self.reactions();
        self.structure();
        self.people();
        self.resources();
        self.bulk();
        self.voice_and_losses();
        self.owner(Command::DeleteGuild);
        self.rest();
    }

    /// Sessions, presences and watches, as many as the guild is large.
    fn relays(&mut self) {
        for relay in [P0, P1] {
            self.relay(ToGuild::Subscribe { relay, epoch: 1 });
        }
        self.relay(ToGuild::WantPresences { relay: P1, all: true });
        let count = self.one_in(20);
        for n in 0..count {
            self.attach(0, n, MembersWanted::OwnAndVoice);
        }
        self.attach(1, 0, MembersWanted::ByThreshold { large_threshold: 250 });
        // All but the first few wait for their turn.
        let watched: Vec<UserId> = (0..self.members_count).take(100).map(member).collect();
        self.relay(ToGuild::WatchMembers { relay: P0, added: watched.clone(), removed: Vec::new() });
        self.relay(ToGuild::RequestPresences { session: session(0, 1), user_ids: watched });
        for n in 0..count {
            self.relay(ToGuild::Presence { session: session(0, n as u32), presence: presence(Status::Dnd) });
        }
        self.relay(ToGuild::Resync { relay: P0, epoch: 1 });
        self.measure("relay lost", |guild, _| guild.handle_relay_lost(P0));
        self.measure("relay room", |guild, _| guild.handle_relay_room(P0));
        for interval in Interval::from_ranges([[0, 99], [100, 199]]) {
            self.relay(ToGuild::WatchList {
                relay: P0,
                list: ListId::Everyone,
                channel_id: CHANNEL,
                added: vec![interval],
                removed: Vec::new(),
            });
        }
        self.rest();
        self.relay(ToGuild::Presence { session: session(0, 1), presence: presence(Status::Idle) });
        self.relay(ToGuild::Detach { session: session(0, 1) });
        self.attach(0, 1, MembersWanted::OwnAndVoice);
        self.rest();
    }

    fn requests(&mut self) {
        let session = session(0, 0);
        for query in [
            MemberQuery::All,
            MemberQuery::Prefix { prefix: "user".to_owned(), limit: 100 },
            MemberQuery::Ids((0..100).map(member).collect()),
        ] {
            let request = RequestGuildMembers { guild_ids: vec![GUILD], query, presences: true, nonce: None };
            self.relay(ToGuild::RequestMembers { session, request: Box::new(request) });
            self.rest();
        }
        for query in ["", "user"] {
            let query = query.to_owned();
            let request = SearchRecentMembers { guild_id: GUILD, query, continuation_token: None, nonce: None };
            self.relay(ToGuild::RecentMembers { session, request: Box::new(request) });
            self.rest();
        }
        self.relay(ToGuild::CountMembers { session, channel_id: CHANNEL });
        self.owner(Command::ReadAudience(CHANNEL));
        self.owner(Command::SearchMembers { query: "user".to_owned(), limit: 100 });
        self.rest();
        for command in [
            Command::ReadGuild,
            Command::ReadChannel(CHANNEL),
            Command::ReadMember(member(5)),
            Command::ReadMembers,
            Command::AuthorizeHistory(CHANNEL),
            Command::ReadableChannels { include_nsfw: true },
            Command::AuthorizeFiles(CHANNEL, None),
        ] {
            self.owner(command);
        }
    }

    fn community(&mut self) {
        let code = InviteCode::new(9);
        let new = NewTemplate { code, name: "template".to_owned(), description: None };
        let vanity = GuildPatch { vanity_url_code: Some(Some("ours".into())), ..GuildPatch::default() };
        for command in [
            Command::UpdateWelcomeScreen(Box::default()),
            Command::ReadWelcomeScreen,
            Command::UpdateOnboarding(Box::default()),
            Command::ReadOnboarding,
            Command::CreateTemplate(Box::new(new)),
            Command::UpdateTemplate(code, Box::default()),
            Command::SyncTemplate(code),
            Command::ListTemplates,
            Command::UpdateGuild(Box::new(vanity)),
        ] {
            self.owner(command);
        }
        self.system(Command::ReadTemplate(code));
        self.system(Command::UseTemplate(code));
        self.owner(Command::DeleteTemplate(code));
        self.system(Command::ReadVanityInvite("ours".into()));
        let newcomer = Arc::new(User::new(UserId::new(999_999_999), "newcomer"));
        self.system(Command::AcceptVanityInvite("ours".into(), newcomer));
    }

    fn messages(&mut self) {
        let message = self.owner(Command::CreateMessage(CHANNEL, Box::new(text("@everyone hello"))));
        let message = message_id(&message);
        // All members send a message at once; then their slow mode ends.
        for n in 1..self.one_in(20) {
            let create = Command::CreateMessage(CHANNEL, Box::new(text("hello")));
            self.command(Actor::User(member(n)), create);
            // As drivers do: a commit takes what came while the last one ran.
            if n % 50 == 0 {
                self.commit();
            }
        }
        self.pass_ms(400_000);
        self.measure("timer", |guild, now| guild.handle_timer(now));
        self.rest();
        let emoji = ReactionEmoji { id: None, name: "🦀".to_owned() };
        let patch = MessagePatch { content: Some("hello <@8>".to_owned()), ..MessagePatch::default() };
        let reply = self.owner(Command::CreateMessage(CHANNEL, Box::new(text("@here"))));
        let here = message_id(&reply);
        self.guild.handle_message_loaded(CHANNEL, message, None);
        for command in [
            Command::EditMessage(CHANNEL, here, Box::new(patch)),
            Command::AddReaction(CHANNEL, here, emoji.clone()),
            Command::RemoveReaction(CHANNEL, here, emoji.clone(), OWNER),
            Command::AddReaction(CHANNEL, here, emoji),
            Command::ClearReactions(CHANNEL, here, None),
            Command::DeleteMessage(CHANNEL, here),
            Command::StartTyping(CHANNEL),
        ] {
            self.owner(command);
        }
        let answers = vec![PollAnswer { id: 0, text: Some("yes".to_owned()), emoji: None }];
        let poll = NewPoll { question: "?".to_owned(), answers, duration_h: 1, allow_multiselect: false };
        let polled = NewMessage { poll: Some(Box::new(poll)), ..NewMessage::default() };
        let polled = message_id(&self.owner(Command::CreateMessage(CHANNEL, Box::new(polled))));
        self.owner(Command::Vote(CHANNEL, polled, vec![1]));
        self.owner(Command::EndPoll(CHANNEL, polled));
        let keyword_filter = (0..1_000).map(|n| format!("*word{n}*")).collect();
        let trigger = AutoModTrigger::Keyword { keyword_filter, regex_patterns: Vec::new(), allow_list: Vec::new() };
        let actions = vec![AutoModAction::BlockMessage { custom_message: None }];
        let new = AutoModPatch {
            name: Some("rule".to_owned()),
            trigger: Some(trigger),
            actions: Some(actions),
            enabled: Some(true),
            ..AutoModPatch::default()
        };
        let rule = match self.owner(Command::CreateAutoModRule(Box::new(new))) {
            Outcome::Reply(Ok(Reply::AutoModRule(rule))) => rule.id,
            other => panic!("{other:?}"),
        };
        let rename = AutoModPatch { name: Some("other".to_owned()), ..AutoModPatch::default() };
        self.owner(Command::UpdateAutoModRule(rule, Box::new(rename)));
        self.owner(Command::ListAutoModRules);
        self.command(Actor::User(member(1)), Command::CreateMessage(CHANNEL, Box::new(text("no such word"))));
        self.owner(Command::DeleteAutoModRule(rule));
        self.community();
        let news = Command::CreateChannel(Box::new(new_channel("news", ChannelType::Announcement)));
        let news = match self.system(news) {
            Outcome::Reply(Ok(Reply::Channel(channel))) => channel.id,
            other => panic!("{other:?}"),
        };
        let hear = message_id(&self.owner(Command::CreateMessage(news, Box::new(text("hear")))));
        let webhook_id = WebhookId::new(70);
        self.owner(Command::AddFollower(news, Follower { channel_id: news, webhook_id, guild_id: GUILD }));
        self.owner(Command::Crosspost(news, hear));
        self.system(Command::ListFollowers(news));
        self.system(Command::RemoveFollower(news, webhook_id));
        let source = Box::new(WebhookSource {
            guild_id: GUILD,
            guild_name: "guild".to_owned(),
            guild_icon: None,
            channel_id: news,
            channel_name: "news".to_owned(),
        });
        self.owner(Command::Follow(CHANNEL, Box::new(NewFollow { id: webhook_id, source })));
        let original = Message { content: "hear".to_owned(), ..Message::new(hear, news, GUILD, user(OWNER)) };
        let snapshot = Some((&original).into());
        let copy = Forward { channel_id: news, message_id: hear, guild_id: Some(GUILD), snapshot };
        self.system(Command::DeliverCrosspost(webhook_id, Box::new(copy)));
        self.owner(Command::DeleteWebhook(webhook_id, WebhookAccess::Actor(Actor::System)));
        self.commit();
    }

    /// Bans, invites, webhooks and pins: as many bans as the guild is large.
    fn resources(&mut self) {
        let stranger = |n: u64| user(UserId::new(1 << 40 | n));
        for n in 0..self.one_in(20) {
            let ban = NewBan { user: stranger(n), reason: None, delete_message_s: 0 };
            self.owner(Command::Ban(Box::new(ban)));
        }
        let joined = stranger(1 << 20);
        let new = NewInvite { code: InviteCode::new(5), max_age_s: 0, max_uses: 0, temporary: true, is_unique: true };
        let message = message_id(&self.owner(Command::CreateMessage(CHANNEL, Box::new(text("pin this")))));
        let webhook = NewWebhook { id: None, name: "hook".to_owned(), avatar: None, token: "secret".to_owned() };
        let webhook = match self.owner(Command::CreateWebhook(CHANNEL, Box::new(webhook))) {
            Outcome::Reply(Ok(Reply::Webhook(webhook))) => webhook.id,
            other => panic!("{other:?}"),
        };
        let post = WebhookPost { message: text("posted"), ..WebhookPost::default() };
        let token = WebhookAccess::Token("secret".to_owned());
        let users = (0..RESOLVED_MAX as u64).map(member).collect();
        let query = InteractionQuery { application: member(1), users, roles: Vec::new(), channels: vec![CHANNEL] };
        for command in [
            Command::ReadBan(stranger(0).id),
            Command::ListBans(Page::After(UserId::new(0), 10)),
            Command::ListBans(Page::Before(UserId::new(u64::MAX >> 1), 10)),
            Command::Unban(stranger(0).id),
            Command::CreateInvite(CHANNEL, Box::new(new)),
            Command::ReadInvite(InviteCode::new(5)),
            Command::ListInvites(None),
            Command::AcceptInvite(InviteCode::new(5), joined.clone()),
            Command::Ban(Box::new(NewBan { user: joined, reason: None, delete_message_s: 0 })),
            Command::DeleteInvite(InviteCode::new(5)),
            Command::Pin(CHANNEL, message),
            Command::ListPins(CHANNEL),
            Command::Unpin(CHANNEL, message),
            Command::ListWebhooks(None),
            Command::ExecuteWebhook(webhook, token.clone(), Box::new(post)),
            Command::DeleteWebhook(webhook, token),
            Command::ReadInteraction(CHANNEL, Box::new(query)),
            Command::DeleteMessages(CHANNEL, vec![message]),
        ] {
            self.owner(command);
        }
        self.responses();
        self.threads();
        self.commit();
        self.rest();
    }

    /// Answers to an interaction of a member.
    fn responses(&mut self) {
        let interaction = MessageInteraction {
            id: Id::new(1),
            kind: 2,
            name: "ping".to_owned(),
            user: Arc::new(User::new(member(1), "user")),
            original_response_message_id: None,
            interacted_message_id: None,
            triggering: None,
        };
        let response = Response {
            application: member(2),
            interaction: Box::new(interaction),
            message: text("@everyone hello"),
            kind: Message::KIND_CHAT_INPUT_COMMAND,
            reply_to: None,
            is_deferred: false,
        };
        let made = self.command(Actor::System, Command::CreateResponse(CHANNEL, Box::new(response)));
        let patch = MessagePatch { content: Some("changed".to_owned()), ..MessagePatch::default() };
        let patch = ResponsePatch { application: member(2), interaction: Some(Id::new(1)), patch };
        let id = message_id(&made);
        self.command(Actor::System, Command::EditResponse(CHANNEL, id, Box::new(patch)));
    }

    fn threads(&mut self) {
        let new =
            NewThread { name: "thread".to_owned(), kind: Some(ChannelType::PublicThread), ..NewThread::default() };
        let thread = match self.owner(Command::CreateThread(CHANNEL, Box::new(new))) {
            Outcome::Reply(Ok(Reply::Thread(thread))) => thread.0.channel.id,
            other => panic!("{other:?}"),
        };
        let archive = |archived| {
            let patch = ChannelPatch { archived: Some(archived), ..ChannelPatch::default() };
            Command::UpdateChannel(thread, Box::new(patch))
        };
        let which = ArchivedThreads { are_private: false, are_own: false, before: None, before_id: None, limit: 50 };
        for command in [
            Command::AddThreadMember(thread, member(1)),
            Command::CreateMessage(thread, Box::new(text("@everyone in here"))),
            Command::ListThreads,
            Command::ListThreadMembers(thread),
            archive(true),
            Command::ListArchivedThreads(CHANNEL, which),
            archive(false),
            Command::RemoveThreadMember(thread, member(1)),
            Command::DeleteChannel(thread),
        ] {
            self.owner(command);
        }
    }

    /// Messages with many reactions: edited, sent again, loaded twice, deleted, evicted from the cache.
    fn reactions(&mut self) {
        let emoji = ReactionEmoji { id: None, name: "🦀".to_owned() };
        let nonce = Some(Nonce::Number(1));
        let new = NewMessage { nonce, enforce_nonce: true, ..text("react to this") };
        let [message, deleted] = [0, 1].map(|n| {
            let new = if n == 0 { new.clone() } else { text("and to this") };
            message_id(&self.owner(Command::CreateMessage(CHANNEL, Box::new(new))))
        });
        for n in 0..self.one_in(20) {
            let who = Actor::User(member(n));
            self.command(who, Command::AddReaction(CHANNEL, message, emoji.clone()));
            self.command(who, Command::AddReaction(CHANNEL, deleted, emoji.clone()));
            if n % 50 == 0 {
                self.commit();
            }
        }
        let edit = |id, content: &str| {
            let patch = MessagePatch { content: Some(content.to_owned()), ..MessagePatch::default() };
            Command::EditMessage(CHANNEL, id, Box::new(patch))
        };
        self.owner(edit(message, "do"));
        let again = self.owner(Command::CreateMessage(CHANNEL, Box::new(new)));
        assert_eq!(message_id(&again), message, "its nonce is known");
        self.owner(Command::DeleteMessage(CHANNEL, deleted));
        let old = MessageId::new(1);
        self.load(old, emoji);
        self.owner(edit(old, "so it was"));
        for n in 0..GuildLimits::default().cached_messages_max {
            self.owner(Command::CreateMessage(CHANNEL, Box::new(text("something else"))));
            if n % 50 == 0 {
                self.commit();
            }
        }
        self.commit();
        let outcome = self.guild.handle_command(self.now, Actor::System, &edit(message, "who knows"));
        assert!(matches!(outcome, Outcome::NeedsMessage(..)), "it was pushed out: {outcome:?}");
        self.guild.handle_message_load_failed(CHANNEL, message);
        self.rest();
    }

    /// Loads a message to which all members reacted.
    fn load(&mut self, id: MessageId, emoji: ReactionEmoji) {
        let message =
            Message { content: "everybody liked this".to_owned(), ..Message::new(id, CHANNEL, GUILD, user(OWNER)) };
        let reactions = vec![(emoji, (0..self.members_count).map(member).collect())];
        let record = MessageRecord { message: Arc::new(message), reactions };
        let read = Command::EditMessage(CHANNEL, id, Box::default());
        for _ in 0..2 {
            let outcome = self.guild.handle_command(self.now, Actor::System, &read);
            assert!(matches!(outcome, Outcome::NeedsMessage(..)), "{outcome:?}");
        }
        for _ in 0..2 {
            let message = Some(CachedMessage::from(record.clone()));
            self.measure("message loaded", |guild, _| guild.handle_message_loaded(CHANNEL, id, message));
        }
    }

    fn commit(&mut self) {
        let version = self.guild.version();
        self.measure("committed", |guild, _| guild.handle_committed(version));
    }

    fn structure(&mut self) {
        let target = OverwriteKind::Member(member(9));
        let patch = GuildPatch { name: Some("name".to_owned()), ..GuildPatch::default() };
        self.owner(Command::UpdateGuild(Box::new(patch)));
        let Outcome::Reply(Ok(Reply::Role(role))) =
            self.owner(Command::CreateRole(Box::new(new_role(Permissions::NONE, 1))))
        else {
            panic!("a role can be made");
        };
        let patch =
            RolePatch { permissions: Some(Permissions::VIEW_CHANNEL), hoist: Some(true), ..RolePatch::default() };
        self.owner(Command::UpdateRole(ROLE, Box::new(patch)));
        self.rest();
        self.owner(Command::DeleteRole(role.id));
        self.rest();
        let new = new_channel("n", ChannelType::Text);
        let Outcome::Reply(Ok(Reply::Channel(channel))) = self.owner(Command::CreateChannel(Box::new(new))) else {
            panic!("a channel can be made");
        };
        let patch = ChannelPatch { topic: Some(Some("topic".to_owned())), ..ChannelPatch::default() };
        self.owner(Command::UpdateChannel(channel.id, Box::new(patch)));
        self.owner(Command::PutOverwrite(CHANNEL, allow_member(member(9), Permissions::VIEW_CHANNEL)));
        self.owner(Command::DeleteOverwrite(CHANNEL, target));
        self.owner(Command::DeleteChannel(channel.id));
        self.rest();
    }

    fn people(&mut self) {
        let half = member(self.members_count / 2 + 1);
        let patch = MemberPatch { nick: Some(Some("n".to_owned())), ..MemberPatch::default() };
        let shown = Presence { status: Status::Dnd, ..Presence::default() };
        self.system(Command::AddMember(user(UserId::new(5))));
        let import = |n: u64| NewMember {
            user: user(UserId::new(20_000_000 + n)),
            nick: None,
            roles: vec![ROLE],
            joined_at: None,
            mute: false,
            deaf: false,
            flags: 0,
            communication_disabled_until: None,
        };
        let members = (0..IMPORT_MEMBERS_MAX as u64).map(import).collect();
        self.system(Command::Backend(Box::new(BackendCommand::ImportMembers {
            members,
            audience: JoinAudience::NewMember,
        })));
        self.owner(Command::UpdateMember(half, Box::new(patch)));
        self.owner(Command::AddMemberRole(half, LOW_ROLE));
        self.owner(Command::RemoveMemberRole(half, LOW_ROLE));
        self.system(Command::ShowPresence(half, Some(Arc::new(shown))));
        self.system(Command::ShowVoice(half, Some(VOICE)));
        self.system(Command::ShowVoice(half, Some(STAGE)));
        self.owner(Command::ReadVoiceState(half));
        let patch = VoiceStatePatch { suppress: Some(true), ..VoiceStatePatch::default() };
        self.owner(Command::UpdateVoiceState(half, patch));
        self.owner(Command::RemoveMember(half));
        self.rest();
    }

    fn bulk(&mut self) {
        let filter = MemberFilter { roles: vec![ROLE], ..MemberFilter::default() };
        self.owner(Command::BulkRole(Box::new(BulkRole { role_id: LOW_ROLE, action: RoleAction::Grant, filter })));
        // Only slices are measured here: a thousand of them are enough.
        let joined_before = Timestamp(i64::MAX);
        self.owner(Command::Prune(Box::new(Prune { roles: vec![], joined_before, counts_only: true })));
        self.some_slices();
        self.owner(Command::Prune(Box::new(Prune { roles: vec![], joined_before, counts_only: false })));
        self.some_slices();
    }

    fn some_slices(&mut self) {
        for _ in 0..40 {
            while let Some(job) = self.jobs.pop() {
                let done = job.run();
                self.measure("job done", |guild, now| guild.handle_job_done(now, done));
            }
            self.pass_ms(10);
            self.measure("timer", |guild, now| guild.handle_timer(now));
        }
    }

    fn voice_and_losses(&mut self) {
        let update = voice_state(Some(VOICE));
        for n in 0..self.one_in(20) {
            if n % 2 == 0 {
                self.relay(ToGuild::Voice { session: session(0, n as u32), update });
                self.system(Command::ShowVoice(member(n), Some(CROWDED)));
            }
        }
        self.system(Command::EmptyVoice(CROWDED));
        // Permissions change for all users in voice.
        self.owner(Command::PutOverwrite(CROWDED, deny_everyone(Permissions::SPEAK)));
        self.some_slices();
        self.attach(0, 1, MembersWanted::OwnAndVoice);
        self.relay(ToGuild::Subscribe { relay: relay(2), epoch: 1 });
        self.owner(Command::DeleteChannel(CROWDED));
        self.some_slices();
        self.relay(ToGuild::Unsubscribe { relay: P0, epoch: 1 });
        self.some_slices();
        self.relay(ToGuild::Subscribe { relay: P1, epoch: 2 });
        self.some_slices();
    }
}

#[test]
fn no_input_grows_with_the_members() {
    let [small, middle, large] = [1_000, 30_000, 300_000].map(|members_count| {
        let mut lab = Lab::new(members_count);
        lab.run();
        lab.steps
    });
    assert!(small.keys().eq(large.keys()));
    for (kind, steps) in &small {
        // From a thousand to 300,000 members is from two levels of the table to four, of a hundred steps each when
        // copied. Slices are of 64 members, each with some tens of steps and as many more per level.
        let [middle, large] = [middle[kind], large[kind]];
        assert!(middle <= steps * 3 / 2 + 400 && large <= steps * 2 + 600, "{kind}: {steps} {middle} {large}");
    }
    if cfg!(debug_assertions) {
        assert!(small["ReadMember"] > 0 && large["UpdateMember"] > 150, "it measures something");
    }
}
