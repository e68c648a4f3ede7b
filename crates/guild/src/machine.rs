//! Guild machine: the state of one community, its doors, and what comes out of them.
//!
//! Owns        `Guild`; the order of its outputs.
//! Doors       `handle_command` from backends and REST, `handle_relay` from relays, `handle_message_loaded` and
//!             `handle_committed` from the store, `handle_relay_lost` and `handle_relay_room` from the links to
//!             relays, `handle_timer`. After each: drain `poll_output`.
//! Invariants  G1 writes are emitted in the order in which the driver must apply them. Messages to relays and replies
//!             follow the writes that they depend on: the driver commits first. G2 a command that is refused, or waits
//!             for a message, has changed nothing. G3 applying the writes to an empty store and loading gives the same
//!             state, except for state that ends with the process. (tests `it/records.rs`)
//! Limits      `GuildLimits`. Inputs are O(log members), O(log sessions) and O(log voice states), except `load`. (test
//!             `it/scale.rs`)
//! Not here    clocks, threads, the store, visibility for a relay's sessions (`guildhall-relay`).
//! Spec        docs/protocol/reference.md §5–§7, §9, §10.

use crate::{
    cache::CachedMessage,
    command::{
        Actor, Command, CommandResult, Interest, NewGuild, Outcome, Refusal, RoleAction, Stop, request::dispatch,
    },
    entries::Members,
    feed::FeedEvent,
    handoff::{HandoffLog, Restoring},
    limits::GuildLimits,
    member_lists::MemberLists,
    message_state::Messages,
    outbox::{Outbox, Output},
    publications::Publications,
    record::{GuildRecord, Write},
    state::{
        audit_log::AuditLog,
        auto_moderation::AutoMod,
        jobs::JobQueue,
        polls::OpenPolls,
        presence::Presences,
        relays::{Client, Relays},
        resource_index::ResourceIndex,
        tasks::BackgroundTasks,
        temporary_members::TemporaryMembers,
        threads::Threads,
        voice::VoiceTable,
    },
    turn::Turn,
};
use guildhall_guild_protocol::{
    AudienceRule, Event, GuildStructure, Payload, Published, RelayId, RelayMessage, ReplicaUpdate, ToGuild,
};
use guildhall_model::{
    Channel, ChannelId, EventName, Guild as GuildFields, GuildId, GuildResource, Id, Member, MessageId, Permissions,
    Role, SnowflakeGenerator, UserId,
};
use guildhall_stdx::{Instant, Now, Rng};
use std::{collections::BTreeMap, mem, sync::Arc};

/// The machine of one guild.
#[derive(Debug)]
pub struct Guild {
    pub(crate) structure: Arc<GuildStructure>,
    pub(crate) members: Members,
    pub(crate) threads: Threads,
    pub(crate) messages: Messages,
    pub(crate) resources: ResourceIndex,
    pub(crate) temporary: TemporaryMembers,
    pub(crate) polls: OpenPolls,
    pub(crate) auto_mod: AutoMod,
    pub(crate) audit: AuditLog,
    pub(crate) relays: Relays,
    pub(crate) presences: Presences,
    pub(crate) publications: Publications,
    pub(crate) voice: VoiceTable,
    pub(crate) lists: MemberLists,
    pub(crate) queue: JobQueue,
    pub(crate) background: BackgroundTasks,
    pub(crate) limits: GuildLimits,
    pub(crate) rng: Rng,
    pub(crate) is_deleted: bool,
    pub(crate) outbox: Outbox,
    /// None: no hand-off is under way.
    pub(crate) handoff: Option<Box<HandoffLog>>,
    /// None: no session of an earlier process is expected.
    pub(crate) restoring: Option<Box<Restoring>>,
    ids: SnowflakeGenerator,
}

impl Guild {
    /// A new guild with its owner as the only member, and at least the role `@everyone`; the outputs hold its writes.
    /// `origin` (10 bits) distinguishes its ids from those of other generators.
    #[must_use]
    pub fn create(now: Now, new: NewGuild, limits: GuildLimits, origin: u16) -> Self {
        let fields = GuildFields { owner_id: new.owner.id, ..new.guild };
        let guild_id = fields.id;
        let everyone = Role::everyone(guild_id, Permissions::DEFAULT_EVERYONE);
        let owner = Arc::new(Member::new(new.owner.clone(), now.unix));
        let mut roles = new.roles;
        if !roles.iter().any(|role| role.id == everyone.id) {
            roles.push(everyone);
        }
        let record = GuildRecord {
            guild: fields,
            roles,
            channels: new.channels,
            members: vec![owner.clone()],
            resources: Vec::new(),
            nonces: Vec::new(),
        };
        let mut guild = Self::load(record, limits, origin);
        guild.write(Write::PutGuild(guild.structure.guild.clone()));
        let structure = guild.structure.clone();
        structure.roles.values().for_each(|role| guild.write(Write::PutRole(guild_id, role.clone())));
        guild.write(Write::PutMember(guild_id, owner));
        structure.channels.values().for_each(|channel| guild.write(Write::PutChannel(channel.clone())));
        guild
    }

    /// A guild as it was stored. Ids it makes are above `newest_id`. Takes time with the number of members.
    #[must_use]
    pub fn load(mut record: GuildRecord, limits: GuildLimits, origin: u16) -> Self {
        let (threads, channels): (Vec<_>, Vec<_>) =
            record.channels.into_iter().partition(|channel| channel.kind.is_thread());
        // Earlier versions kept the events of deleted channels.
        let is_here = |id: ChannelId| channels.iter().any(|channel| channel.id == id);
        record.guild.scheduled_events.retain(|event| event.channel_id.is_none_or(is_here));
        let last_message_ids: BTreeMap<_, _> =
            channels.iter().filter_map(|channel| Some((channel.id, channel.last_message_id?))).collect();
        let guild_id = record.guild.id;
        // Earlier versions stored what actors made of its looks.
        let of_today = |role: Role| match role.id == guild_id.cast() {
            true => Role::everyone(guild_id, role.permissions),
            false => role,
        };
        let thread_members = record.resources.iter().filter_map(GuildResource::thread_member);
        let threads = Threads::new(threads, thread_members);
        let mut audit = AuditLog::default();
        for resource in &record.resources {
            if let GuildResource::AuditEntry(entry) = resource {
                audit.insert(entry.clone());
            }
        }
        let mut guild = Self {
            structure: Arc::new(GuildStructure {
                guild: Arc::new(record.guild),
                roles: Arc::new(record.roles.into_iter().map(of_today).map(|role| (role.id, Arc::new(role))).collect()),
                channels: Arc::new(channels.into_iter().map(|channel| (channel.id, Arc::new(channel))).collect()),
            }),
            members: Members::new(record.members),
            threads,
            messages: Messages::new(limits.cached_messages_max, last_message_ids, record.nonces),
            temporary: TemporaryMembers::load(&record.resources),
            polls: OpenPolls::load(&record.resources),
            auto_mod: AutoMod::load(&record.resources),
            resources: ResourceIndex::new(record.resources),
            audit,
            relays: Relays::default(),
            presences: Presences::new(&limits),
            publications: Publications::default(),
            voice: VoiceTable::default(),
            lists: MemberLists::default(),
            queue: JobQueue::default(),
            background: BackgroundTasks::default(),
            rng: Rng::new(limits.seed ^ guild_id.get()),
            limits,
            is_deleted: false,
            outbox: Outbox::default(),
            handoff: None,
            restoring: None,
            ids: SnowflakeGenerator::new(origin),
        };
        guild.ids.skip_past(Id::<()>::new(guild.newest_id()));
        guild
    }

    /// The newest of its ids: its own, its emoji's, roles', channels', and the newest message's of each channel.
    #[must_use]
    pub fn newest_id(&self) -> u64 {
        let GuildStructure { guild, roles, channels } = &*self.structure;
        let emojis = guild.emojis.iter().map(|emoji| emoji.id.get());
        let roles = roles.keys().map(|id| id.get());
        let channels = channels.keys().map(|id| id.get());
        let messages = self.messages.newest().values().map(|id| id.get());
        let threads = self
            .threads
            .iter()
            .map(|(id, entry)| entry.channel.last_message_id.map_or(0, |message| message.get()).max(id.get()));
        let webhooks = self.resources.webhooks.keys().map(|id| id.get());
        let rules = self.auto_mod.rules().map(|rule| rule.rule.id.get());
        let prompts = self.resources.onboarding.iter().flat_map(|onboarding| &onboarding.prompts);
        let prompts =
            prompts.flat_map(|prompt| prompt.options.iter().map(|option| option.id.get()).chain([prompt.id.get()]));
        let messages =
            messages.chain(threads).chain(webhooks).chain(rules).chain(prompts).chain([self.audit.newest_id()]);
        emojis.chain(roles).chain(channels).chain(messages).fold(guild.id.get(), u64::max)
    }

    /// Exchanges what it makes ids with. Guilds whose ids must differ are lent the same generator, one after the
    /// other, around each input. Before the first it has to skip past `newest_id`.
    pub fn swap_ids(&mut self, ids: &mut SnowflakeGenerator) {
        mem::swap(&mut self.ids, ids);
    }

    /// Ids that it makes are above `newest` from now on.
    pub(crate) fn skip_ids_past(&mut self, newest: Id<()>) {
        self.ids.skip_past(newest);
    }

    /// Applies a command whole, refuses it whole, or requests a message from the store first.
    pub fn handle_command(&mut self, now: Now, actor: Actor, command: &Command) -> Outcome {
        let (reason, command) = match command {
            Command::WithReason(reason, command) => (Some(reason), &**command),
            command => (None, command),
        };
        let turn = Turn { now, actor, reason };
        match self.input(|guild| guild.run_or_refuse(turn, command)) {
            Ok(reply) => Outcome::Reply(Ok(reply)),
            Err(Stop::Refused(refusal)) => Outcome::Reply(Err(refusal)),
            Err(Stop::Later(command)) => Outcome::Later(command),
            Err(Stop::Needs(channel_id, message_id)) => {
                self.messages.load_began((channel_id, message_id));
                Outcome::NeedsMessage(channel_id, message_id)
            }
        }
    }

    /// Runs one input: `version` counts it once if it changes something, and messages that it evicts are freed. Every
    /// input runs in here.
    pub(crate) fn input<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        self.outbox.begin_input();
        let result = run(self);
        let (size, evicted) = self.messages.take_evicted();
        self.dispose(size, evicted);
        result
    }

    fn run_or_refuse(&mut self, turn: Turn<'_>, command: &Command) -> CommandResult {
        if self.is_deleted {
            return Err(Refusal::UnknownGuild.into());
        }
        let result = self.run(turn, command);
        let changed_nothing = matches!(result, Err(Stop::Refused(_) | Stop::Needs(..)));
        debug_assert!(!changed_nothing || !self.outbox.is_touched(), "G2: a refused {command:?} changed something");
        result
    }

    fn run(&mut self, turn: Turn<'_>, command: &Command) -> CommandResult {
        if self.is_direct()
            && let Some(result) = self.run_direct(turn, command)
        {
            return result;
        }
        dispatch!(command, Command, {
            ReadGuild => self.read_guild(turn),
            ReadChannel(channel) => self.read_channel(turn, *channel),
            ReadMember(user) => self.read_member(turn, *user),
            ReadMembers => self.read_members(turn),
            SearchMembers { query, limit } => self.search_members(turn, query, *limit),
            ReadAudience(channel) => self.read_audience(turn, *channel),
            AuthorizeHistory(channel) => self.authorize_history(turn, *channel),
            ReadableChannels { include_nsfw } => self.readable_channels(turn, *include_nsfw),
            AuthorizeFiles(channel, message) => self.authorize_files(turn, *channel, *message),
            CreateMessage(channel, new) => self.create_message(turn, *channel, new),
            EditMessage(channel, message, patch) => self.edit_message(turn, *channel, *message, patch),
            DeleteMessage(channel, message) => self.delete_message(turn, *channel, *message),
            DeleteMessages(channel, messages) => self.delete_messages(turn, *channel, messages),
            ExpireMessages(channel, before) => self.expire_messages(turn, *channel, *before),
            Pin(channel, message) => self.pin(turn, (*channel, *message)),
            Unpin(channel, message) => self.unpin(turn, (*channel, *message)),
            ListPins(channel) => self.list_pins(turn, *channel),
            AddReaction(channel, message, emoji) => self.add_reaction(turn, (*channel, *message), emoji),
            RemoveReaction(channel, message, emoji, user) => {
                self.remove_reaction(turn, (*channel, *message), emoji, *user)
            },
            ClearReactions(channel, message, emoji) => {
                self.clear_reactions(turn, (*channel, *message), emoji.as_ref())
            },
            ListAutoModRules => self.list_auto_mod_rules(turn),
            CreateAutoModRule(new) => self.create_auto_mod_rule(turn, new),
            UpdateAutoModRule(id, patch) => self.update_auto_mod_rule(turn, *id, patch),
            DeleteAutoModRule(id) => self.delete_auto_mod_rule(turn, *id),
            Crosspost(channel, message) => self.crosspost(turn, (*channel, *message)),
            AddFollower(channel, follower) => self.add_follower(turn, *channel, *follower),
            RemoveFollower(channel, webhook) => self.remove_follower(turn, *channel, *webhook),
            ListFollowers(channel) => self.list_followers(turn, *channel),
            Follow(channel, new) => self.follow_channel(turn, *channel, new),
            DeliverCrosspost(webhook, original) => self.deliver_crosspost(turn, *webhook, original),
            Vote(channel, message, answers) => self.vote(turn, (*channel, *message), answers),
            EndPoll(channel, message) => self.end_poll(turn, (*channel, *message)),
            StartTyping(channel) => self.start_typing(turn, *channel),
            UpdateGuild(patch) => self.update_guild(turn, patch),
            DeleteGuild => self.delete_guild(turn),
            ReadWelcomeScreen => self.read_welcome_screen(turn),
            UpdateWelcomeScreen(patch) => self.update_welcome_screen(turn, patch),
            ReadOnboarding => self.read_onboarding(turn),
            UpdateOnboarding(patch) => self.update_onboarding(turn, patch),
            AnswerOnboarding { options, replaces, prompts_seen, options_seen } => {
                self.answer_onboarding(turn, options, (prompts_seen, options_seen), *replaces)
            },
            ReadVanityInvite(code) => self.read_vanity_invite(code),
            AcceptVanityInvite(code, user) => self.accept_vanity_invite(turn.now, code, user),
            ListTemplates => self.list_templates(turn),
            CreateTemplate(new) => self.create_template(turn, new),
            UpdateTemplate(code, patch) => self.update_template(turn, *code, patch),
            SyncTemplate(code) => self.sync_template(turn, *code),
            DeleteTemplate(code) => self.delete_template(turn, *code),
            ReadTemplate(code) => self.read_template(*code),
            UseTemplate(code) => self.use_template(turn, *code),
            CreateRole(new) => self.create_role(turn, new),
            UpdateRole(role, patch) => self.update_role(turn, *role, patch),
            DeleteRole(role) => self.delete_role(turn, *role),
            MoveRoles(moves) => self.move_roles(turn, moves),
            MoveChannels(moves) => self.move_channels(turn, moves),
            CreateEmoji(new) => self.create_emoji(turn, new),
            UpdateEmoji(id, patch) => self.update_emoji(turn, *id, patch),
            DeleteEmoji(id) => self.delete_emoji(turn, *id),
            CreateSticker(new) => self.create_sticker(turn, new),
            UpdateSticker(id, patch) => self.update_sticker(turn, *id, patch),
            DeleteSticker(id) => self.delete_sticker(turn, *id),
            CreateScheduledEvent(new) => self.create_scheduled_event(turn, new),
            UpdateScheduledEvent(id, content) => self.update_scheduled_event(turn, *id, content),
            DeleteScheduledEvent(id) => self.delete_scheduled_event(turn, *id),
            FollowScheduledEvent(id) => self.change_interest(turn, *id, Interest::Add),
            UnfollowScheduledEvent(id) => self.change_interest(turn, *id, Interest::Remove),
            CreateStage(channel, content) => self.create_stage(turn, *channel, content),
            UpdateStage(channel, content) => self.update_stage(turn, *channel, content),
            DeleteStage(channel) => self.delete_stage(turn, *channel),
            CreateChannel(new) => self.create_channel(turn, new),
            UpdateChannel(channel, patch) => self.update_channel(turn, *channel, patch),
            DeleteChannel(channel) => self.delete_channel(turn, *channel),
            CreateThread(channel, new) => self.create_thread(turn, *channel, new),
            AddThreadMember(thread, user) => self.add_thread_member(turn, *thread, *user),
            RemoveThreadMember(thread, user) => self.remove_thread_member(turn, *thread, *user),
            ListThreads => self.list_threads(turn),
            ListArchivedThreads(channel, which) => self.list_archived_threads(turn, *channel, *which),
            ListThreadMembers(thread) => self.list_thread_members(turn, *thread),
            PutOverwrite(channel, overwrite) => self.put_overwrite(turn, *channel, *overwrite),
            DeleteOverwrite(channel, target) => self.delete_overwrite(turn, *channel, *target),
            AddMember(user) => self.add_member(turn, user),
            RefreshMember(user) => self.refresh_member(turn, user).map(Some),
            UpdateMember(user, patch) => self.update_member(turn, *user, patch),
            AddMemberRole(user, role) => self.change_member_role(turn, *user, *role, RoleAction::Grant),
            RemoveMemberRole(user, role) => self.change_member_role(turn, *user, *role, RoleAction::Revoke),
            ReadInteraction(channel, query) => self.read_interaction(turn, *channel, query),
            EditResponse(channel, message, patch) => self.edit_response(turn, *channel, *message, patch),
            CreateResponse(channel, response) => self.create_response(turn, *channel, response),
            RemoveMember(user) => self.remove_member(turn, *user),
            Join(join) => self.join(turn, join),
            Ban(ban) => self.ban(turn, ban),
            Unban(user) => self.unban(turn, *user),
            ReadBan(user) => self.read_ban(turn, *user),
            ReadAuditLog(query) => self.list_audit_log(turn, query),
            ListBans(page) => self.list_bans(turn, *page),
            CreateInvite(channel, new) => self.create_invite(turn, *channel, new),
            ReadInvite(code) => self.read_invite(turn.now, *code),
            DeleteInvite(code) => self.delete_invite(turn, *code),
            ListInvites(channel) => self.list_invites(turn, *channel),
            AcceptInvite(code, user) => self.accept_invite(turn.now, *code, user),
            CreateWebhook(channel, new) => self.create_webhook(turn, *channel, new),
            ReadWebhook(id, access) => self.read_webhook(turn, *id, access),
            ListWebhooks(channel) => self.list_webhooks(turn, *channel),
            UpdateWebhook(id, access, patch) => self.update_webhook(turn, *id, access, patch),
            DeleteWebhook(id, access) => self.delete_webhook(turn, *id, access),
            ExecuteWebhook(id, access, post) => self.execute_webhook(turn, *id, access, post),
            ReadWebhookMessage(id, access, thread, message) => {
                self.read_webhook_message(turn, (*id, access), *thread, *message)
            },
            EditWebhookMessage(id, access, thread, message, patch) => {
                self.edit_webhook_message(turn, (*id, access), *thread, *message, patch)
            },
            DeleteWebhookMessage(id, access, thread, message) => {
                self.delete_webhook_message(turn, (*id, access), *thread, *message)
            },
            Prune(prune) => self.prune(turn, prune),
            BulkRole(bulk) => self.bulk_role(turn, bulk),
            ShowPresence(user, presence) => self.show_presence(turn, *user, presence.as_ref()),
            ShowVoice(user, channel) => self.show_voice(turn, *user, *channel),
            EmptyVoice(channel) => self.end_voice_room(turn, *channel),
            ReadVoiceState(user) => self.read_voice_state(turn, *user),
            UpdateVoiceState(user, patch) => self.update_voice_state(turn, *user, patch),
            ;
            Command::Direct(_) => Err(Refusal::UnknownChannel.into()),
            Command::Backend(command) => self.run_backend(turn, command),
            Command::WithReason(_, command) => self.run(turn, command),
        })
    }

    /// The store's answer to `Outcome::NeedsMessage`: the message (made from its record before, outside of the guild's
    /// loop), or none. Each request needs exactly one answer (this, or `handle_message_load_failed`); answers may
    /// overtake each other.
    pub fn handle_message_loaded(
        &mut self,
        channel_id: ChannelId,
        message_id: MessageId,
        message: Option<CachedMessage>,
    ) {
        self.input(|guild| {
            guild.messages.load_ended((channel_id, message_id), message);
            guild.polls.message_loaded((channel_id, message_id));
        });
    }

    /// The store could not answer `Outcome::NeedsMessage`; the driver refuses the command.
    pub fn handle_message_load_failed(&mut self, channel_id: ChannelId, message_id: MessageId) {
        self.input(|guild| {
            guild.messages.load_failed((channel_id, message_id));
            guild.polls.load_failed((channel_id, message_id));
        });
    }

    /// Handles a message of a relay, or of a backend that acts for a session.
    ///
    /// Comes from `Relay` or the session's partition; goes on to the relays' `Relay::handle`.
    pub fn handle_relay(&mut self, now: Now, message: ToGuild) {
        self.input(|guild| guild.run_relay(now, message));
    }

    pub(crate) fn run_relay(&mut self, now: Now, message: ToGuild) {
        self.note_relay(&message);
        match message {
            ToGuild::Subscribe { relay, epoch } => self.subscribe(now, relay, epoch),
            ToGuild::Unsubscribe { relay, epoch } => self.unsubscribe(now, relay, epoch),
            ToGuild::Resync { relay, epoch } => self.resync(relay, epoch),
            ToGuild::Attach { session, session_id, user_id, kind, presence, members, is_restored, previous } => {
                let client = Client { session_id, user_id, kind, presence };
                self.attach(now, session, client, members, (is_restored, previous));
            }
            ToGuild::Detach { session } => self.detach(now, session),
            ToGuild::Presence { session, presence } => self.set_session_presence(now, session, presence),
            ToGuild::Voice { session, update } => self.set_session_voice(now, session, update),
            ToGuild::RequestMembers { session, request } => self.request_members(now, session, *request),
            ToGuild::RecentMembers { session, request } => self.recent_members(session, *request),
            ToGuild::ListThread { session, thread_id } => self.send_thread_list(now, session, thread_id),
            ToGuild::CountMembers { session, channel_id } => self.count_members(now, session, channel_id),
            ToGuild::WantPresences { relay, all } => self.relays.want_presences(relay, all),
            ToGuild::WatchMembers { relay, added, removed } => self.relays.watch(relay, &added, &removed),
            ToGuild::WatchList { relay, list, channel_id, added, removed } => {
                self.watch_list(now, relay, list, channel_id, &added, &removed);
            }
            ToGuild::RequestPresences { session, user_ids } => self.send_presences(session, &user_ids),
            // Its driver's.
            ToGuild::CanaryReturned { .. } => {}
        }
    }

    /// The link to a relay overflowed: its stream ends here, and the guild sends nothing to it until
    /// `handle_relay_room` or its `Resync`. Messages to it that were not polled yet are dropped.
    pub fn handle_relay_lost(&mut self, relay: RelayId) {
        self.input(|guild| {
            if guild.relays.cut(relay) {
                guild.outbox.drop_messages_to(relay);
            }
        });
    }

    /// The link to a lost relay has room again: its stream restarts with a snapshot.
    pub fn handle_relay_room(&mut self, relay: RelayId) {
        self.input(|guild| {
            if guild.relays.is_cut(relay) {
                guild.restart_stream(relay);
            }
        });
    }

    /// Everything up to `version` is durable.
    pub fn handle_committed(&mut self, version: u64) {
        self.input(|guild| {
            guild.outbox.commit(version);
            guild.messages.commit(version);
        });
    }

    /// Runs one background step, publishes delayed presences, ends polls, and expires nonces and publications. Call it
    /// at `next_deadline`; early or late calls are harmless.
    pub fn handle_timer(&mut self, now: Now) {
        self.input(|guild| {
            guild.messages.sweep(now.instant);
            guild.publications.sweep(now.instant);
            guild.flush_lists(now);
            guild.run_background_task(now);
            guild.archive_threads(now);
            guild.end_temporary(now);
            guild.end_polls(now);
            guild.moderate(now);
            guild.restore_step(now);
            guild.publish_waiting(now);
        });
    }

    /// When `handle_timer` should be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let archive = self.threads.archive_at().filter(|_| !self.is_deleted);
        let (sweep, background, temporary) =
            (self.messages.sweep_at(), self.background.due_at(), self.temporary.due_at());
        [
            sweep,
            self.publications.sweep_at(),
            background,
            self.presences.due_at().filter(|_| !self.is_restoring()),
            self.restoring.as_ref().and_then(|restoring| restoring.step_at()),
            self.lists.deadline(),
            archive,
            temporary,
            self.polls.due_at().filter(|_| !self.is_deleted),
            self.auto_mod.has_pending().then_some(Instant(0)),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next output; `None` when there are no more.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.pop()
    }

    /// Grows with each input that changed anything or had an output.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.outbox.version()
    }

    /// The guild's id.
    #[must_use]
    pub fn id(&self) -> GuildId {
        self.structure.id()
    }

    /// Display name of the guild.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.structure.guild.name
    }

    /// A channel or thread. Its `last_message_id` may be old.
    #[must_use]
    pub fn channel(&self, id: ChannelId) -> Option<&Channel> {
        let thread = || self.threads.get(id).map(|entry| &entry.channel);
        self.structure.channels.get(&id).or_else(thread).map(|channel| &**channel)
    }

    /// Number of members.
    #[must_use]
    pub fn members_count(&self) -> usize {
        self.members.len()
    }

    /// It was deleted: it refuses everything, and may be dropped once that is durable and no relay is left.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// Whether the guild can be unloaded: no relays, sessions, overrides, voice states, jobs, background tasks or
    /// loads, and all outputs are durable.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.relays.is_empty()
            && self.queue.is_empty()
            && self.background.is_empty()
            && !self.presences.has_overrides()
            && self.voice.is_empty()
            && self.restoring.is_none()
            && !self.auto_mod.has_pending()
            && self.outbox.is_all_durable()
            && !self.messages.is_loading()
    }

    /// Counts the current input in `version`, once.
    pub(crate) fn touch(&mut self) -> u64 {
        self.outbox.touch()
    }

    pub(crate) fn next_id<T>(&mut self, now: Now) -> Id<T> {
        self.ids.next(now.unix)
    }

    pub(crate) fn write(&mut self, write: Write) {
        self.note_write(&write);
        self.outbox.write(write);
    }

    /// Writes an event of the feed, with the change that it reports.
    pub(crate) fn keep_event(&mut self, published: &Arc<Published>) {
        if self.limits.keeps_events
            && let Some(event) = FeedEvent::of(published)
        {
            self.outbox.write(Write::PutEvent(Box::new(event)));
        }
    }

    /// Publishes to every relay and returns their number; a direct message goes to its recipients instead. Costs one
    /// message per relay, independent of its sessions.
    pub(crate) fn publish(&mut self, event: Event, replica_update: ReplicaUpdate) -> u64 {
        if self.is_direct() {
            self.publish_direct(event);
            return 0;
        }
        self.touch();
        let mut sent_count = 0;
        let published = Arc::new(Published { event, replica_update });
        self.keep_event(&published);
        let message = RelayMessage::Published(published);
        for output in self.relays.to_all(self.structure.id(), &message) {
            self.outbox.push(Output::Relay(output));
            sent_count += 1;
        }
        sent_count
    }

    /// Publishes a presence to the relays with sessions that watch this member, or all members.
    pub(crate) fn publish_to_watchers(&mut self, user_id: UserId, event: Event) {
        self.touch();
        let message = RelayMessage::Published(Arc::new(Published { event, replica_update: ReplicaUpdate::None }));
        for output in self.relays.to_watchers(self.structure.id(), user_id, &message) {
            self.outbox.push(Output::Relay(output));
        }
    }

    /// Sends to one relay. No-op if the relay is not subscribed or its stream is cut.
    pub(crate) fn send(&mut self, relay: RelayId, message: RelayMessage) {
        self.touch();
        if let Some(output) = self.relays.to_one(self.structure.id(), relay, message) {
            self.outbox.push(Output::Relay(output));
        }
    }

    pub(crate) fn event(&self, name: EventName, rule: AudienceRule, payload: Payload) -> Event {
        Event::new(self.structure.id(), name, rule, payload)
    }

    /// Changes base fields, roles or channels, and returns the new whole.
    pub(crate) fn change_structure(&mut self, now: Now, change: impl FnOnce(&mut GuildStructure)) -> ReplicaUpdate {
        self.touch();
        let before = (!self.voice.is_empty()).then(|| self.structure.clone());
        change(Arc::make_mut(&mut self.structure));
        self.lists_follow_structure();
        if let Some(before) = before {
            self.voice_follows_structure(now, &before);
        }
        ReplicaUpdate::Structure(self.structure.clone())
    }
}
