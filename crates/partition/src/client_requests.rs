//! Requests of user accounts about their guilds, except for members (ops 14, 30, 31, 34 to 39, 43).
//!
//! Doors       `Core::enqueue_request` from the opcodes; `Partition::process_requests` at the end of the turn, because
//!             the answers are in the relays.
//! Invariants  a session learns nothing about guilds that it is not in, nor about channels that it may not view, nor
//!             about messages that it may not read (`Permissions::may_read_history`).
//! Limits      those of each opcode; one read of the store per LAST_MESSAGES, `LAST_MESSAGES_MAX` messages.
//! Spec        docs/protocol/reference.md §1.3, §8.4, §8.8.

use crate::{
    core::Core,
    guilds::RelayEntry,
    partition::Partition,
    session_recipients::SessionRecipients,
    transport::{Output, Transport},
    turn::Turn,
};
use guildhall_guild_protocol::{GuildReplica, HiddenChannels, Redaction, SessionKey, THREAD_LISTED_MAX, ToGuild};
use guildhall_model::{
    ChannelId, EventName, GuildId, Message, MessageId, UserId,
    from_gateway::{
        ChannelBody, ChannelInfoBody, ChannelStatusesBody, ChannelSyncBody, DeletedEntityIdsBody, ExistingEntities,
        LastMessagesBody, MessageBody, SoundboardSoundsBody,
    },
    to_gateway::{
        GetDeletedEntityIds, GuildChannelsResync, RequestLastMessages, SearchRecentMembers, Subscription,
        SubscriptionPatch,
    },
};
use guildhall_relay::{Relay, ReplayVisibility};
use guildhall_session::{Dispatch, Membership};
use guildhall_stdx::{Now, SlotKey, Timestamp};
use serde::Serialize;
use std::sync::Arc;

/// Messages in one LAST_MESSAGES.
const LAST_MESSAGES_MAX: usize = 100;

/// Open threads that a session has received.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KnownThreads {
    /// All that its account can view.
    All,
    /// Those that its account has joined, in GUILD_CREATE or READY.
    Joined,
}

/// A client's request about one guild.
#[derive(Debug)]
pub enum PendingRequest {
    /// Ops 14 and 37: changes the session's subscription.
    Subscribe(SubscriptionPatch),
    /// The session's view of the guild has just begun: applies the subscription that it made before.
    SubscribeAgain,
    /// Op 30: which channels, roles and emojis still exist.
    DeletedEntities(GetDeletedEntityIds),
    /// Op 31: sounds of the guild.
    Soundboard,
    /// Op 34: the newest message of some channels.
    LastMessages(RequestLastMessages),
    /// Op 35: members by time of joining.
    RecentMembers(Box<SearchRecentMembers>),
    /// Op 39: number of members that can view a channel.
    CountMembers(ChannelId),
    /// Op 36: statuses of voice channels.
    ChannelStatuses,
    /// Op 38: whole channels for obfuscated ones.
    ChannelSync(GuildChannelsResync),
    /// Op 43: fields of channels.
    ChannelInfo,
}

impl Core {
    /// Enqueues a request until the relays can be read, at the end of the turn.
    pub fn enqueue_request(&mut self, session: SlotKey, guild_id: GuildId, request: PendingRequest) {
        self.work.push_request(session, guild_id, request);
    }

    /// Sends an answer, which a replay leaves out for a reader that `visibility` excludes.
    fn reply(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        (name, visibility): (EventName, ReplayVisibility),
        body: &impl Serialize,
    ) {
        let Some(session) = self.sessions.get(key) else { return };
        let dispatch = Dispatch::local(session.encoding, name, body, Some(visibility));
        self.push(turn, key.slot, &dispatch, Redaction::None);
    }
}

impl Partition {
    /// Answers the requests of this input.
    pub(crate) fn process_requests(&mut self, turn: &mut Turn<'_, impl Transport>) {
        for (key, guild_id, request) in self.core.work.take_requests() {
            let Some(session) = self.core.sessions.get(key) else { continue };
            if session.guilds.membership(guild_id) != Some(Membership::Inside) {
                // A subscription to an unavailable guild applies once the guild is back.
                if let PendingRequest::Subscribe(patch) = request {
                    self.remember_subscription(key, guild_id, patch);
                }
                continue;
            }
            let visibility = ReplayVisibility::members(guild_id);
            match request {
                PendingRequest::Subscribe(patch) => {
                    let before = session.guilds.get(guild_id).and_then(|guild| guild.subscription.as_ref());
                    let known = match before.is_some_and(|subscription| subscription.threads) {
                        true => KnownThreads::All,
                        false => KnownThreads::Joined,
                    };
                    self.subscribe(turn, key, guild_id, patch, known);
                }
                // GUILD_CREATE and READY have only the threads that the account joined.
                PendingRequest::SubscribeAgain => {
                    self.subscribe(turn, key, guild_id, SubscriptionPatch::default(), KnownThreads::Joined);
                }
                PendingRequest::Soundboard => {
                    self.core.reply(
                        turn,
                        key,
                        (EventName::SoundboardSounds, visibility),
                        &SoundboardSoundsBody::none(guild_id),
                    );
                }
                PendingRequest::ChannelStatuses => {
                    self.core.reply(
                        turn,
                        key,
                        (EventName::ChannelStatuses, visibility),
                        &ChannelStatusesBody::none(guild_id),
                    );
                }
                PendingRequest::ChannelInfo => {
                    self.core.reply(turn, key, (EventName::ChannelInfo, visibility), &ChannelInfoBody::none(guild_id));
                }
                PendingRequest::DeletedEntities(request) => {
                    let user_id = session.user.id;
                    let Some((entry, core)) = self.session_relay(key, guild_id) else { continue };
                    let (Some(replica), Some(audience)) = (entry.relay.replica(), entry.relay.audience()) else {
                        continue;
                    };
                    let is_absent = core.config.hidden_channels == HiddenChannels::Absent;
                    let is_disclosed = |id: ChannelId| !is_absent || audience.may_view(user_id, id, turn.now.unix);
                    let body = DeletedEntityIdsBody::new(&request, existing(replica, is_disclosed));
                    self.core.reply(turn, key, (EventName::DeletedEntityIds, visibility), &body);
                }
                PendingRequest::ChannelSync(request) => self.sync_channels(turn, key, guild_id, &request),
                PendingRequest::RecentMembers(request) => {
                    self.send_to_guild(key, guild_id, |session| ToGuild::RecentMembers { session, request });
                }
                PendingRequest::CountMembers(channel_id) => {
                    self.send_to_guild(key, guild_id, |session| ToGuild::CountMembers { session, channel_id });
                }
                PendingRequest::LastMessages(request) => self.fetch_last_messages(turn.now, key, guild_id, &request),
            }
        }
    }

    /// The relay that serves a session in a guild.
    pub(crate) fn session_relay(&mut self, key: SlotKey, guild_id: GuildId) -> Option<(&mut RelayEntry, &mut Core)> {
        let index = self.core.sessions.get(key)?.guilds.get(guild_id)?.relay;
        Some((self.relays.get_mut(guild_id, index)?, &mut self.core))
    }

    fn send_to_guild(&mut self, key: SlotKey, guild_id: GuildId, message: impl FnOnce(SessionKey) -> ToGuild) {
        let session = self.core.sessions.get(key);
        if let Some(of_guild) = session.and_then(|session| session.key_in(self.core.config.partition, guild_id)) {
            self.core.outputs.push_back(Output::ToGuild(guild_id, message(of_guild)));
        }
    }

    /// Merges a patch into the session's subscription. An empty result is stored too: until `subscribe` has passed it
    /// on, the relay has the subscription from before.
    fn remember_subscription(
        &mut self,
        key: SlotKey,
        guild_id: GuildId,
        patch: SubscriptionPatch,
    ) -> Option<Subscription> {
        self.core.mirroring.touch(key);
        let guild = self.core.sessions.get_mut(key)?.guilds.get_mut(guild_id)?;
        let subscription = guild.subscription.get_or_insert_default();
        subscription.merge(patch);
        Some((**subscription).clone())
    }

    /// Drops a subscription that selects nothing.
    fn forget_empty_subscription(&mut self, key: SlotKey, guild_id: GuildId) {
        if let Some(guild) = self.core.sessions.get_mut(key).and_then(|session| session.guilds.get_mut(guild_id)) {
            guild.subscription.take_if(|subscription| **subscription == Subscription::default());
        }
    }

    fn subscribe(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        guild_id: GuildId,
        patch: SubscriptionPatch,
        known: KnownThreads,
    ) {
        let Some(session) = self.core.sessions.get(key) else { return };
        let before = session.guilds.get(guild_id).and_then(|guild| guild.subscription.as_ref());
        let had_lists = before.map(|s| s.thread_member_lists.clone()).unwrap_or_default();
        let Some(subscription) = self.remember_subscription(key, guild_id, patch) else { return };
        self.forget_empty_subscription(key, guild_id);
        let Some(session) = self.core.sessions.get(key) else { return };
        let (user_id, mask) = (session.user.id, session.mask(guild_id));
        let Some(of_guild) = session.key_in(self.core.config.partition, guild_id) else { return };
        let Some((entry, core)) = self.session_relay(key, guild_id) else { return };
        let mut recipients = SessionRecipients::new(core, turn, (&mut entry.logs, &mut entry.newest, &mut entry.tally));
        entry.relay.set_mask(user_id, key.slot, mask, &mut recipients);
        let mut to_guild = entry.relay.watch_lists(user_id, key.slot, subscription.channels, &mut recipients);
        let of_threads = members_of_threads(&entry.relay, user_id, &subscription.thread_member_lists, turn.now.unix);
        let followed = match of_threads.is_empty() {
            true => subscription.members,
            false => subscription.members.iter().copied().chain(of_threads).collect(),
        };
        to_guild.extend(entry.relay.watch_members(of_guild, user_id, followed));
        let new_lists = subscription.thread_member_lists.iter().filter(|id| !had_lists.contains(id));
        to_guild.extend(new_lists.map(|id| ToGuild::ListThread { session: of_guild, thread_id: *id }));
        core.outputs.extend(to_guild.into_iter().map(|message| Output::ToGuild(guild_id, message)));
        if subscription.threads && known == KnownThreads::Joined {
            self.sync_threads(turn, key, guild_id);
        }
    }

    /// Sends all open threads that the account can view. From now on the session receives their events.
    fn sync_threads(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, guild_id: GuildId) {
        let Some(user_id) = self.core.sessions.get(key).map(|session| session.user.id) else { return };
        let Some((entry, core)) = self.session_relay(key, guild_id) else { return };
        let Some(event) = entry.relay.thread_list(user_id, turn.now.unix) else { return };
        core.push(turn, key.slot, &Dispatch::direct(&Arc::new(event)), Redaction::None);
    }

    /// Sends whole channels for those that the client has obfuscated and that the account can view now.
    fn sync_channels(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        guild_id: GuildId,
        request: &GuildChannelsResync,
    ) {
        let Some(user_id) = self.core.sessions.get(key).map(|session| session.user.id) else { return };
        let Some((entry, core)) = self.session_relay(key, guild_id) else { return };
        let (Some(replica), Some(audience)) = (entry.relay.replica(), entry.relay.audience()) else { return };
        let ids = request.obfuscated_channel_ids.iter().filter(|id| audience.may_view(user_id, **id, turn.now.unix));
        let channels: Vec<_> = ids.filter_map(|id| replica.structure.channels.get(id)).collect();
        let visibility = ReplayVisibility::channels(guild_id, channels.iter().map(|channel| channel.id).collect());
        let bodies = channels.iter().map(|channel| ChannelBody::from(&***channel)).collect();
        core.reply(turn, key, (EventName::ChannelSync, visibility), &ChannelSyncBody::new(guild_id, bodies));
    }

    /// Op 34: reads the newest messages from the store; `handle_messages` sends them.
    fn fetch_last_messages(&mut self, now: Now, session: SlotKey, guild_id: GuildId, request: &RequestLastMessages) {
        let Some(user_id) = self.core.sessions.get(session).map(|session| session.user.id) else { return };
        let Some((entry, core)) = self.session_relay(session, guild_id) else { return };
        let (Some(replica), Some(audience)) = (entry.relay.replica(), entry.relay.audience()) else { return };
        let readable = request.channel_ids.iter().filter(|id| audience.may_read_history(user_id, **id, now.unix));
        let newest = |id: &ChannelId| Some((*id, *replica.last_message_ids.get(id)?));
        let messages: Vec<(ChannelId, MessageId)> = readable.filter_map(newest).take(LAST_MESSAGES_MAX).collect();
        core.outputs.push_back(Output::FetchMessages { session, guild_id, messages });
    }

    /// Handles the answer to `Output::FetchMessages`.
    pub fn handle_messages(
        &mut self,
        now: Now,
        session: SlotKey,
        guild_id: GuildId,
        messages: &[Arc<Message>],
        transport: &mut impl Transport,
    ) {
        self.turn(now, transport, |partition, turn| partition.send_messages(turn, session, guild_id, messages))
    }

    fn send_messages(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        session: SlotKey,
        guild_id: GuildId,
        messages: &[Arc<Message>],
    ) {
        let Some(user_id) = self.core.sessions.get(session).map(|session| session.user.id) else { return };
        let Some((entry, core)) = self.session_relay(session, guild_id) else { return };
        let Some(audience) = entry.relay.audience() else { return };
        // Checked again: roles may have changed while the store was read.
        let may_read = |channel_id| audience.may_read_history(user_id, channel_id, turn.now.unix);
        let readable: Vec<&Arc<Message>> = messages.iter().filter(|message| may_read(message.channel_id)).collect();
        let visibility =
            ReplayVisibility::history(guild_id, readable.iter().map(|message| message.channel_id).collect());
        let messages = readable.into_iter().map(|message| MessageBody::new(message)).collect();
        core.reply(turn, session, (EventName::LastMessages, visibility), &LastMessagesBody { guild_id, messages });
    }
}

/// Members of these threads that a user can view. A session with the list also receives changes of these members.
fn members_of_threads(relay: &Relay, user_id: UserId, thread_ids: &[ChannelId], now: Timestamp) -> Vec<UserId> {
    let (Some(replica), Some(audience)) = (relay.replica(), relay.audience()) else { return Vec::new() };
    let Some(member) = audience.member(user_id) else { return Vec::new() };
    let threads = thread_ids.iter().filter_map(|id| replica.threads.get(*id));
    let viewed = threads.filter(|entry| entry.is_viewed_by(&replica.structure, member, now));
    viewed.flat_map(|entry| entry.members.keys().take(THREAD_LISTED_MAX).copied()).collect()
}

fn existing(replica: &GuildReplica, is_disclosed: impl Fn(ChannelId) -> bool) -> ExistingEntities {
    ExistingEntities {
        channels: replica.structure.channels.keys().copied().filter(|id| is_disclosed(*id)).collect(),
        roles: replica.structure.roles.keys().copied().collect(),
        emojis: replica.structure.guild.emojis.iter().map(|emoji| emoji.id).collect(),
    }
}
