//! Session recipients: the sessions of a partition, as the recipients of a relay.
//!
//! Comes from `Relay::handle`; goes on to `Session::dispatch_shared` and `Core::pushed` for groups, else to
//! `Core::push`.

use crate::{
    client_requests::PendingRequest,
    core::Core,
    transfers::Entered,
    transport::{Output, Transport},
    turn::Turn,
    turn_work::Departure,
};
use guildhall_guild_protocol::{
    AccessChange, Canary, Event, GuildReplica, GuildView, MembersAnswer, Published, Redaction, Retention, SessionKey,
    ToGuild, Visibility,
};
use guildhall_model::{GuildId, UserId};
use guildhall_relay::{Delivering, GroupDelivering, Lead, LogId, Recipients, Subscriber};
use guildhall_session::{
    Dispatch, GuildLoss, MEMBER_REQUESTS_MAX, MemberRequest, Membership, SharedLog, Size, guild_create, guild_delete,
};
use guildhall_stdx::{SlotKey, heap::Sample};
use std::{
    collections::HashMap,
    rc::{Rc, Weak},
    sync::Arc,
};

/// The sessions of a partition while one of its relays handles an input.
pub struct SessionRecipients<'a, L> {
    pub core: &'a mut Core,
    turn: Turn<'a, L>,
    /// The relay's logs, by `LogId`.
    pub logs: &'a mut Vec<Rc<SharedLog>>,
    newest: &'a mut NewestPresences,
    tally: &'a mut RelayTally,
    /// The guild has other relays here.
    has_siblings: bool,
}

/// An event that is being delivered to them.
pub struct EventDelivery<'r, 'a, L> {
    recipients: &'r mut SessionRecipients<'a, L>,
    dispatch: Rc<Dispatch>,
}

/// An event that is being delivered to a group of sessions with the same audience, and its position in their log.
pub struct GroupDelivery<'r, 'a, L> {
    recipients: &'r mut SessionRecipients<'a, L>,
    dispatch: &'r Rc<Dispatch>,
    log: Rc<SharedLog>,
    redaction: Redaction,
    /// None until the first session of the group receives the event.
    logged: Option<Logged>,
}

#[derive(Clone, Copy)]
pub struct Logged {
    pub offset: u64,
    /// Its size in the encoding of the first recipient.
    pub size: Size,
    body_bytes: usize,
}

/// Deliveries of events to sessions by one relay, without GUILD_CREATE and GUILD_DELETE.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelayTally {
    pub deliveries: u64,
    /// Bytes of their bodies before compression.
    pub bytes: u64,
}

impl RelayTally {
    fn count(&mut self, body_bytes: usize) {
        self.deliveries += 1;
        self.bytes += body_bytes as u64;
    }
}

/// Newest PRESENCE_UPDATE per member that one relay delivered, while a buffer holds it. The next PRESENCE_UPDATE of the
/// member supersedes it: every session that received the older one receives the newer one, or has stopped watching the
/// member. Each relay has its own table, because relays of one guild may lag behind each other.
#[derive(Debug, Default)]
pub struct NewestPresences {
    of: HashMap<UserId, Weak<Dispatch>>,
    /// At this length `put` sweeps. The relay's timer does too.
    sweep_at: usize,
}

/// Smallest length at which `put` sweeps.
const PRESENCES_MIN: usize = 256;

impl NewestPresences {
    /// Removes entries whose dispatch no buffer holds, because an entry keeps its dispatch in memory.
    pub fn sweep(&mut self) {
        self.of.retain(|_, newest| newest.strong_count() > 0);
        self.sweep_at = 2 * self.of.len();
        self.of.shrink_to(self.sweep_at);
    }

    /// Estimated heap memory.
    pub fn heap_bytes(&self, sample: Sample) -> usize {
        sample.of_map(&self.of, |_, _| 0)
    }

    fn put(&mut self, user_id: UserId, dispatch: &Rc<Dispatch>) {
        if self.of.len() >= self.sweep_at.max(PRESENCES_MIN) {
            self.sweep();
        }
        let before = self.of.insert(user_id, Rc::downgrade(dispatch)).and_then(|before| before.upgrade());
        if let Some(before) = before.filter(|before| !Rc::ptr_eq(before, dispatch)) {
            before.supersede();
        }
    }
}

fn slot_key(session: SessionKey) -> SlotKey {
    SlotKey { slot: session.slot, generation: session.generation }
}

impl<'a, L: Transport> SessionRecipients<'a, L> {
    pub fn new(
        core: &'a mut Core,
        turn: &'a mut Turn<'_, L>,
        (logs, newest, tally): (&'a mut Vec<Rc<SharedLog>>, &'a mut NewestPresences, &'a mut RelayTally),
    ) -> Self {
        let turn = Turn { now: turn.now, transport: turn.transport };
        Self { core, turn, logs, newest, tally, has_siblings: false }
    }

    /// Whether the guild has other relays in this partition.
    pub fn with_siblings(self, has_siblings: bool) -> Self {
        Self { has_siblings, ..self }
    }
}

impl<'a, L: Transport> Delivering for EventDelivery<'_, 'a, L> {
    type Group<'r>
        = GroupDelivery<'r, 'a, L>
    where
        Self: 'r;

    fn group(&mut self, LogId(number): LogId, redaction: Redaction) -> Self::Group<'_> {
        let (number, logs) = (number as usize, &mut self.recipients.logs);
        if logs.len() <= number {
            logs.resize_with(number + 1, SharedLog::new);
        }
        let log = logs[number].clone();
        GroupDelivery { recipients: self.recipients, dispatch: &self.dispatch, log, redaction, logged: None }
    }

    fn deliver_alone(&mut self, slot: u32, redaction: Redaction) {
        let SessionRecipients { core, turn, tally, .. } = &mut *self.recipients;
        tally.count(core.push(turn, slot, &self.dispatch, redaction));
    }
}

impl<L: Transport> GroupDelivering for GroupDelivery<'_, '_, L> {
    fn announce(&self, slot: u32, lead: Lead) {
        let core = &self.recipients.core;
        match lead {
            Lead::Long => core.sessions.prefetch(slot),
            Lead::Short => {
                let Some(session) = core.sessions.at(slot) else { return };
                session.replay.prefetch_newest();
                if let Some(conn) = session.conn {
                    core.conns.prefetch(conn.slot);
                }
            }
        }
    }

    fn deliver(&mut self, slot: u32) {
        let Self { recipients, dispatch, log, redaction, logged } = self;
        let SessionRecipients { core, turn, tally, .. } = &mut **recipients;
        let Some(session) = core.sessions.at_mut(slot) else { return };
        let Logged { offset, size, body_bytes } = *logged.get_or_insert_with(|| {
            turn.transport.encode_begins();
            let bytes = dispatch.frame(session.encoding, *redaction).body().len();
            turn.transport.encode_ends();
            // The relay's and ours: no session refers to it.
            if Rc::strong_count(log) == 2 {
                log.clear();
            }
            let offset = log.push(turn.now.instant, dispatch, *redaction, bytes, &core.config.log);
            Logged { offset, size: Size::of(dispatch, bytes), body_bytes: bytes }
        });
        let seq = session.dispatch_shared(log, offset, size);
        tally.count(body_bytes);
        core.pushed(turn, slot, seq, dispatch, *redaction);
    }
}

impl<'a, L: Transport> Recipients for SessionRecipients<'a, L> {
    type Delivering<'r>
        = EventDelivery<'r, 'a, L>
    where
        Self: 'r;

    fn begin(&mut self, published: &Arc<Published>, visibility: Visibility) -> Self::Delivering<'_> {
        let dispatch = self.core.dispatch(published, visibility);
        if let Retention::Presence(user_id) = dispatch.retention() {
            self.newest.put(user_id, &dispatch);
        }
        EventDelivery { recipients: self, dispatch }
    }

    fn access_changed(&mut self, guild_id: GuildId, change: &AccessChange) {
        self.core.matchers.access_changed(guild_id, change);
    }

    fn access_began(&mut self, guild_id: GuildId, change: &dyn Fn() -> AccessChange) {
        // Without other relays, shared-match has no history of the guild.
        if self.has_siblings {
            self.core.matchers.access_changed(guild_id, &change());
        }
    }

    fn attached(
        &mut self,
        session: SessionKey,
        replica: &GuildReplica,
        view: Option<&GuildView>,
    ) -> Option<Subscriber> {
        let (key, relay) = (slot_key(session), session.relay.index);
        let session = self.core.sessions.get_mut(key)?;
        let guild_id = replica.id();
        // A session that retries `Attach` can receive two answers; it uses the first. A session that left and joined
        // again through another relay can receive an answer through the old one.
        let entry = session.guilds.get(guild_id)?;
        if entry.membership != Membership::Entering || entry.relay != relay {
            return None;
        }
        // The node before has what its client has received; it has sent nothing yet.
        let is_coming = entry.is_restored && self.core.moves.is_coming(key);
        let Some(view) = view else {
            if is_coming {
                self.core.moves.entered(key, guild_id, Entered::Left);
                self.detach(key, guild_id);
                return None;
            }
            // Not a member (any more).
            let is_gathering = session.pending_ready.is_some();
            self.detach(key, guild_id);
            if is_gathering {
                self.gathered(key, guild_id, None)
            } else {
                self.push_guild_delete(key, guild_id, GuildLoss::Left)
            }
            return None;
        };
        let passive_above = self.core.config.passive_above_members.unwrap_or(u64::from(session.large_threshold()));
        if *session.user == *view.member.user {
            // Equal users are shared with the guild's replica.
            session.user = view.member.user.clone();
        }
        if is_coming {
            let how = if view.is_transferred { Entered::Transferred } else { Entered::Failed };
            self.core.moves.entered(key, guild_id, how);
        }
        self.core.moves.guild_answered(key, guild_id);
        let entry = session.guilds.get_mut(guild_id)?;
        if is_coming && !view.is_transferred {
            // It attaches again once it is complete.
            entry.is_restored = false;
            return None;
        }
        entry.membership = Membership::Inside;
        entry.starts_active = view.member_count <= passive_above;
        let is_restored = std::mem::take(&mut entry.is_restored);
        let subscriber = Subscriber { slot: key.slot, mask: session.mask(guild_id) };
        if session.guilds.get(guild_id).is_some_and(|guild| guild.subscription.is_some()) {
            // The session subscribed before it was inside.
            self.core.enqueue_request(key, guild_id, PendingRequest::SubscribeAgain);
        }
        let Core { sessions, guild_texts, config, .. } = &mut *self.core;
        let session = sessions.get_mut(key)?;
        if session.pending_ready.is_some() {
            self.gathered(key, guild_id, Some((replica.clone(), view.clone())));
        } else if session.gets_guild_events() && !is_restored {
            let dispatch = guild_create(session, replica, view, config.hidden_channels, self.turn.now, guild_texts);
            self.core.push(&mut self.turn, key.slot, &dispatch, Redaction::None);
        }
        Some(subscriber)
    }

    fn transferred(&mut self, session: SessionKey, guild_id: GuildId) -> bool {
        self.is_in(session, guild_id) && self.core.transferred(&mut self.turn, slot_key(session), guild_id)
    }

    fn unavailable(&mut self, session: SessionKey, guild_id: GuildId) {
        let (key, relay) = (slot_key(session), session.relay.index);
        let Some(session) = self.core.sessions.get_mut(key) else { return };
        let Some(entry) = session.guilds.get_mut(guild_id).filter(|entry| entry.relay == relay) else { return };
        if entry.membership.is_away() {
            return;
        }
        self.core.moves.guild_answered(key, guild_id);
        // The node before shows the outage.
        let is_coming = entry.is_restored && self.core.moves.is_coming(key);
        // The session stays `Entering`: once the guild is available its stream restarts, and the
        // session attaches again.
        (entry.membership, entry.is_restored) = (Membership::Entering, false);
        let is_gathering = session.pending_ready.is_some();
        if is_gathering {
            self.gathered(key, guild_id, None);
            let pending_ready = self.core.sessions.get_mut(key).and_then(|session| session.pending_ready.as_mut());
            pending_ready.into_iter().for_each(|pending_ready| pending_ready.unavailable.push(guild_id));
        } else if !is_coming {
            self.push_guild_delete(key, guild_id, GuildLoss::Outage);
        }
    }

    fn lost(&mut self, slot: u32, guild_id: GuildId) {
        let Some(session) = self.core.sessions.at_mut(slot) else { return };
        let key = session.key;
        self.detach(key, guild_id);
        if !self.core.forget_view(key, guild_id) {
            self.push_guild_delete(key, guild_id, GuildLoss::Left);
        }
    }

    fn reset(&mut self, slot: u32, guild_id: GuildId) {
        let Some(session) = self.core.sessions.at_mut(slot) else { return };
        let key = session.key;
        if self.core.moves.departing.has(key) {
            self.core.counters.resets_total += 1;
            self.core.lose(key, guild_id);
            return self.push_guild_delete(key, guild_id, GuildLoss::Outage);
        }
        let Some(entry) = session.guilds.get_mut(guild_id) else { return };
        // The client sees an outage: GUILD_DELETE now, and GUILD_CREATE once the session is attached again.
        (entry.membership, entry.is_restored) = (Membership::Entering, false);
        self.core.counters.resets_total += 1;
        if !self.core.forget_view(key, guild_id) {
            return self.push_guild_delete(key, guild_id, GuildLoss::Outage);
        }
        let pending_ready = self.core.sessions.get_mut(key).and_then(|session| session.pending_ready.as_mut());
        pending_ready.into_iter().for_each(|pending_ready| pending_ready.waiting_count += 1);
    }

    fn canary(&mut self, canary: &Canary) {
        self.core.outputs.push_back(Output::Canary(*canary));
    }

    fn direct(&mut self, session: SessionKey, event: &Arc<Event>) {
        // The session may have been removed from the guild since its request.
        if event.guild_id.is_some_and(|guild_id| self.is_in(session, guild_id)) {
            let dispatch = Dispatch::direct(event);
            let body_bytes = self.core.push(&mut self.turn, session.slot, &dispatch, Redaction::None);
            self.tally.count(body_bytes);
        }
    }

    fn members(&mut self, session: SessionKey, guild_id: GuildId, answer: &MembersAnswer) {
        if !self.is_in(session, guild_id) {
            return;
        }
        let Some(session) = self.core.sessions.get_mut(slot_key(session)) else { return };
        let requests = &mut session.profile.member_requests;
        if requests.len() >= MEMBER_REQUESTS_MAX {
            return;
        }
        requests.push(MemberRequest {
            guild_id,
            answer: answer.clone(),
            chunk_index: 0,
            after: guildhall_model::UserId::new(0),
        });
        if let Some(conn) = session.conn {
            self.core.pump(&mut self.turn, conn);
        }
    }
}

impl<L: Transport> SessionRecipients<'_, L> {
    /// Whether the session is attached to the guild, or about to be, under this key.
    fn is_in(&self, of_guild: SessionKey, guild_id: GuildId) -> bool {
        let session = self.core.sessions.get(slot_key(of_guild));
        session.is_some_and(|session| session.key_in(self.core.config.partition, guild_id) == Some(of_guild))
    }

    /// Detaches a session from a guild. The guild knows, unless an `Attach` is still on its way to it.
    fn detach(&mut self, key: SlotKey, guild_id: GuildId) {
        let partition = self.core.config.partition;
        let Some(session) = self.core.sessions.get_mut(key) else { return };
        let Some(of_guild) = session.key_in(partition, guild_id) else { return };
        session.guilds.remove(guild_id);
        self.core.moves.guild_answered(key, guild_id);
        session.profile.member_requests.remove_guild(guild_id);
        if session.asked_again {
            self.core.outputs.push_back(Output::ToGuild(guild_id, ToGuild::Detach { session: of_guild }));
        }
        let user_id = session.user.id;
        self.core.work.push_departure(Departure { guild_id, relay: of_guild.relay.index, user_id, slot: key.slot });
    }

    /// A guild that a user's READY waits for has answered.
    fn gathered(&mut self, key: SlotKey, guild_id: GuildId, view: Option<(GuildReplica, GuildView)>) {
        let Some(pending_ready) = self.core.sessions.get_mut(key).and_then(|session| session.pending_ready.as_mut())
        else {
            return;
        };
        // A guild that was unavailable has answered already.
        match pending_ready.unavailable.iter().position(|id| *id == guild_id) {
            Some(at) => drop(pending_ready.unavailable.swap_remove(at)),
            None => pending_ready.waiting_count = pending_ready.waiting_count.saturating_sub(1),
        }
        pending_ready.views.extend(view);
        self.core.finish_pending_ready(&mut self.turn, key);
    }

    fn push_guild_delete(&mut self, key: SlotKey, guild_id: GuildId, loss: GuildLoss) {
        let Some(session) = self.core.sessions.get(key) else { return };
        if session.gets_guild_events() {
            let dispatch = guild_delete(session.encoding, guild_id, loss);
            self.core.push(&mut self.turn, key.slot, &dispatch, Redaction::None);
        }
    }
}
