//! Relay: one guild's events, brought to a share of the sessions of one partition.
//!
//! Owns        the relay's replica of the guild, its place in the guild's stream, and its change log.
//! Doors       `handle` for the guild's messages; `detach`, `set_mask`, `watch_members` for sessions; `handle_timer`
//!             for passive updates; `decide_replay`, `would_reveal` and `invalidate_baseline` for replay.
//! Invariants  R1 messages are taken in the order of their number in the stream (`ToRelay::seq`); a gap leads to
//!             `Resync`, never to silence. R2 a session gets nothing before its `Attached` and everything it may see
//!             after it. R3 replica updates are applied before their event is fanned out. R4 when a session becomes
//!             active it first receives the changes it missed; when it becomes passive, its next update starts from its
//!             state at that moment.
//! Limits      sessions: the partition splits off another relay past `sessions_per_relay_max`.
//! Not here    the seqs of sessions, replay, writing: the `Recipients` behind the calls.

use crate::{
    audience::{
        AudienceIndex, ChannelViewers, Delivering, GroupDelivering, Lead, Listener, LogId, Map, PassiveGroup,
        ReplayDecision, Replayed, Subscriber,
    },
    member_lists::{ChannelView, Delivery, MemberLists},
    passive::{ChangeLog, mentioned_channels, snapshot},
    subscription_mask::SubscriptionMask,
    subscriptions::{Subscriptions, Watched},
    view::thread_list,
};
use guildhall_guild_protocol::{
    AccessChange, AudienceRule, Canary, Event, GuildReplica, GuildView, HiddenChannels, MembersAnswer, Payload,
    Published, Redaction, RelayId, RelayMessage, ReplicaUpdate, SessionKey, ToGuild, ToRelay, Unreads, Visibility,
};
use guildhall_model::{Channel, ChannelId, EventName, GuildId, PassiveUpdate, UserId, to_gateway::ChannelRanges};
use guildhall_stdx::{Instant, Now, Timestamp, heap::Sample};
use smallvec::SmallVec;
use std::sync::Arc;

/// A gap that no snapshot has ended is reported again after this: the request or its answer may be lost too.
const RESYNC_AGAIN_MS: u64 = 1_000;

/// The sessions of a partition, as a relay speaks to them.
pub trait Recipients {
    type Delivering<'a>: Delivering
    where
        Self: 'a;
    /// Starts the delivery of an event to any number of sessions, and prepares what they share. `visibility` is the
    /// domain of the event.
    fn begin(&mut self, published: &Arc<Published>, visibility: Visibility) -> Self::Delivering<'_>;
    /// Access rules of the guild's channels changed, before the event that changed them is delivered.
    fn access_changed(&mut self, guild_id: GuildId, change: &AccessChange);
    /// A relay begins with the access rules of its snapshot, and other relays of the guild may lag behind them.
    /// `change` lists the restricted channels.
    fn access_began(&mut self, guild_id: GuildId, change: &dyn Fn() -> AccessChange);
    /// A session's view of the guild begins. None: it may not be here.
    fn attached(&mut self, session: SessionKey, replica: &GuildReplica, view: Option<&GuildView>)
    -> Option<Subscriber>;
    /// The guild has attached the session at another node. Returns whether the session has waited for that: then the
    /// relay sends it the changes that a passive session has not received yet.
    fn transferred(&mut self, session: SessionKey, guild_id: GuildId) -> bool;
    /// The guild cannot be served now.
    fn unavailable(&mut self, session: SessionKey, guild_id: GuildId);
    /// The session lost the guild: its member left, or the guild was deleted.
    fn lost(&mut self, slot: u32, guild_id: GuildId);
    /// The session lost events and must attach again.
    fn reset(&mut self, slot: u32, guild_id: GuildId);
    /// A dispatch for one session.
    fn direct(&mut self, session: SessionKey, event: &Arc<Event>);
    /// Members that a session requested.
    fn members(&mut self, session: SessionKey, guild_id: GuildId, answer: &MembersAnswer);
    /// The relay's canary session receives this. Nothing goes to a client.
    fn canary(&mut self, canary: &Canary) {
        let _ = canary;
    }
}

/// Messages of a relay to its guild after one input: a few at most.
pub type ToGuilds = SmallVec<[ToGuild; 2]>;

/// Request of a relay to its guild after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is no request.
    Steady,
    /// There was a gap: the driver sends the `Resync` that `Relay::resync` makes. Returned again if no answer follows
    /// within `RESYNC_AGAIN_MS`.
    Gap,
    /// The stream started or restarted: sessions that were waiting for their view have to attach again, and the driver
    /// sends the guild the subscriptions of this relay (`Relay::interests`).
    Restarted,
}

/// State of a relay after its first snapshot.
#[derive(Debug)]
struct State {
    replica: GuildReplica,
    audience: AudienceIndex,
    changes: ChangeLog,
}

/// One guild's fan-out to some of a partition's sessions.
#[derive(Debug)]
pub struct Relay {
    guild_id: GuildId,
    id: RelayId,
    epoch: u32,
    seq: u64,
    /// When a gap was last reported; none once a snapshot has come.
    gap_reported_at: Option<Instant>,
    /// None until the first snapshot.
    state: Option<State>,
    subscriptions: Subscriptions,
    lists: MemberLists,
    /// Sessions that receive every member's presence; the guild knows whether there are any.
    presence_readers_count: usize,
    passive_interval_ms: u64,
    passive_at: Option<Instant>,
    rounds_count: u64,
    hidden: HiddenChannels,
}

impl Relay {
    /// A relay that has not subscribed yet. Each incarnation needs an `epoch` of its own, counting up. Passive sessions
    /// receive an update about every `passive_interval_ms`.
    #[must_use]
    pub fn new(guild_id: GuildId, id: RelayId, epoch: u32, passive_interval_ms: u64) -> Self {
        Self {
            guild_id,
            id,
            epoch,
            seq: 0,
            gap_reported_at: None,
            state: None,
            subscriptions: Subscriptions::default(),
            lists: MemberLists::default(),
            presence_readers_count: 0,
            passive_interval_ms,
            passive_at: None,
            rounds_count: 0,
            hidden: HiddenChannels::default(),
        }
    }

    /// The same, with another form of hidden channels.
    #[must_use]
    pub fn hiding(mut self, hidden: HiddenChannels) -> Self {
        self.hidden = hidden;
        self
    }

    /// Estimated heap memory of its audience, subscriptions and change log. Its replica shares the guild's objects.
    #[must_use]
    pub fn heap_bytes(&self, sample: Sample) -> usize {
        let of_state = |state: &State| state.audience.heap_bytes(sample) + state.changes.heap_bytes(sample);
        self.state.as_ref().map_or(0, of_state) + self.subscriptions.heap_bytes(sample) + self.lists.heap_bytes(sample)
    }

    /// The key of this relay.
    #[must_use]
    pub fn id(&self) -> RelayId {
        self.id
    }

    /// Which incarnation.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The message that opens the guild's stream.
    #[must_use]
    pub fn subscribe(&self) -> ToGuild {
        ToGuild::Subscribe { relay: self.id, epoch: self.epoch }
    }

    /// The message that ends it.
    #[must_use]
    pub fn unsubscribe(&self) -> ToGuild {
        ToGuild::Unsubscribe { relay: self.id, epoch: self.epoch }
    }

    /// The message that starts it again after a gap.
    #[must_use]
    pub fn resync(&self) -> ToGuild {
        ToGuild::Resync { relay: self.id, epoch: self.epoch }
    }

    /// The subscriptions to send again after the guild may have forgotten them.
    #[must_use]
    pub fn interests(&self) -> ToGuilds {
        let mut messages = ToGuilds::new();
        let added = self.subscriptions.watched();
        if !added.is_empty() {
            messages.push(ToGuild::WatchMembers { relay: self.id, added, removed: Vec::new() });
        }
        messages
    }

    /// Which sessions may see what; none before the first snapshot.
    #[must_use]
    pub fn audience(&self) -> Option<&AudienceIndex> {
        self.state.as_ref().map(|state| &state.audience)
    }

    /// The guild as it is known here; none before the first snapshot.
    #[must_use]
    pub fn replica(&self) -> Option<&GuildReplica> {
        self.state.as_ref().map(|state| &state.replica)
    }

    /// Whether the relay has a gap in the guild's stream and has not restarted it.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.gap_reported_at.is_some()
    }

    /// Sends passive sessions their next update now.
    pub fn update_passive(&mut self, now: Now, out: &mut impl Recipients) {
        if let Some(at) = self.passive_at {
            self.handle_timer(Now { instant: at.max(now.instant), ..now }, out);
        }
    }

    /// Sessions whose view has begun.
    #[must_use]
    pub fn sessions_count(&self) -> usize {
        self.audience().map_or(0, AudienceIndex::len)
    }

    /// Of these, sessions that receive passive updates. It visits every group of sessions.
    #[must_use]
    pub fn passive_count(&self) -> usize {
        self.audience().map_or(0, AudienceIndex::passive_count)
    }

    /// When `handle_timer` has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.passive_at
    }

    // ── sessions ─────────────────────────────────────────────────────────────────────────────────

    /// Detaches a session of `user_id`. Returns messages for the guild.
    pub fn detach(&mut self, user_id: UserId, slot: u32) -> ToGuilds {
        let mut messages = ToGuilds::new();
        let audience = self.state.as_mut().map(|state| &mut state.audience);
        if let Some((audience, (mask, _))) =
            audience.and_then(|audience| audience.mask(user_id, slot).map(|found| (audience, found)))
        {
            audience.remove_subscriber(user_id, slot);
            self.presence_reader_left(mask, &mut messages);
        }
        let watched = self.subscriptions.remove(slot);
        messages.extend(self.watch_request(watched));
        self.lists.remove(self.id, slot, &mut messages);
        messages
    }

    /// A session came. Notifies the guild of the first that receives every member's presence.
    fn presence_reader_came(&mut self, mask: SubscriptionMask, messages: &mut ToGuilds) {
        if mask.wants_presences() {
            self.presence_readers_count += 1;
            if self.presence_readers_count == 1 {
                messages.push(ToGuild::WantPresences { relay: self.id, all: true });
            }
        }
    }

    /// A session left. Notifies the guild of the last that received every member's presence.
    fn presence_reader_left(&mut self, mask: SubscriptionMask, messages: &mut ToGuilds) {
        if mask.wants_presences() {
            self.presence_readers_count -= 1;
            if self.presence_readers_count == 0 {
                messages.push(ToGuild::WantPresences { relay: self.id, all: false });
            }
        }
    }

    /// Replaces a session's subscriptions. A session that becomes active is brought up to date first.
    pub fn set_mask(&mut self, user_id: UserId, slot: u32, mask: SubscriptionMask, recipients: &mut impl Recipients) {
        let Some(state) = &mut self.state else { return };
        let Some((before, version)) = state.audience.mask(user_id, slot) else { return };
        if !mask.is_passive() {
            state.update_alone(self.guild_id, user_id, slot, recipients);
        }
        // A session that stays passive still waits for its update.
        let is_untold = before.is_passive() && mask.is_passive();
        let version = if is_untold { version } else { state.changes.version() };
        state.audience.set_mask(user_id, slot, mask, version);
    }

    /// A session watches exactly these members from now on; if its view has not begun yet, it receives their state when
    /// it begins. Returns messages for the guild.
    pub fn watch_members(&mut self, session: SessionKey, user_id: UserId, members: Arc<[UserId]>) -> ToGuilds {
        let (watched, user_ids) = self.subscriptions.set(user_id, session.slot, members);
        let mut messages = self.watch_request(watched);
        let is_here = self.audience().and_then(|audience| audience.mask(user_id, session.slot)).is_some();
        if is_here && !user_ids.is_empty() {
            messages.push(ToGuild::RequestPresences { session, user_ids });
        }
        messages
    }

    /// A session watches exactly these rows of member lists from now on. Returns messages for the guild.
    pub fn watch_lists(
        &mut self,
        user_id: UserId,
        slot: u32,
        channels: Arc<[ChannelRanges]>,
        recipients: &mut impl Recipients,
    ) -> ToGuilds {
        let mut messages = ToGuilds::new();
        let Some(state) = &self.state else { return messages };
        if state.audience.mask(user_id, slot).is_none() {
            return messages;
        }
        let look_at = |channel_id| {
            let list = state.replica.structure.list_of(channel_id)?;
            Some(ChannelView { list, is_in_view: state.audience.views(user_id, channel_id) })
        };
        let deliveries = self.lists.set(self.guild_id, self.id, (user_id, slot), channels, look_at, &mut messages);
        deliver_lists(deliveries, &state.audience, recipients);
        messages
    }

    /// Sends a session all rows that it watches, because it missed changes of them. Returns messages for the guild.
    pub fn resend_lists(&mut self, slot: u32, recipients: &mut impl Recipients) -> ToGuilds {
        let mut messages = ToGuilds::new();
        if let Some((user_id, channels)) = self.lists.subscribed_channels(slot) {
            self.lists.remove(self.id, slot, &mut messages);
            messages.extend(self.watch_lists(user_id, slot, channels, recipients));
        }
        messages
    }

    /// Permissions or lists may have changed: renews the list subscriptions of these sessions,
    /// within their permissions.
    fn renew_lists(&mut self, slots: Vec<u32>, recipients: &mut impl Recipients, to_guild: &mut ToGuilds) {
        for slot in slots {
            let Some((user_id, channels)) = self.lists.subscribed_channels(slot) else { continue };
            to_guild.extend(self.watch_lists(user_id, slot, channels, recipients));
        }
    }

    fn watch_request(&self, watched: Watched) -> ToGuilds {
        let Watched { added, removed } = watched;
        let is_news = !added.is_empty() || !removed.is_empty();
        is_news.then_some(ToGuild::WatchMembers { relay: self.id, added, removed }).into_iter().collect()
    }

    // ── the guild's stream ───────────────────────────────────────────────────────────────────────

    /// Takes the guild's next message. `recipients` get what follows from it.
    ///
    /// Comes from the partition; goes on to `Recipients::deliver`, once per session.
    pub fn handle(
        &mut self,
        now: Now,
        message: ToRelay,
        recipients: &mut impl Recipients,
        to_guild: &mut ToGuilds,
    ) -> Progress {
        if message.epoch != self.epoch {
            return Progress::Steady;
        }
        let restarts = matches!(message.message, RelayMessage::Snapshot { .. });
        if !restarts && message.seq != self.seq + 1 {
            let is_reported = self.gap_reported_at.is_some_and(|at| now.instant.ms_since(at) < RESYNC_AGAIN_MS);
            if message.seq <= self.seq || is_reported {
                return Progress::Steady;
            }
            self.gap_reported_at = Some(now.instant);
            return Progress::Gap;
        }
        self.seq = message.seq;
        match message.message {
            RelayMessage::Snapshot { replica, reset } => {
                return self.restart(now, replica, reset, recipients, to_guild);
            }
            RelayMessage::Published(published) => self.fan_out(now, &published, recipients, to_guild),
            RelayMessage::Attached { session, view } => {
                let Some(state) = &mut self.state else { return Progress::Gap };
                let subscriber = recipients.attached(session, &state.replica, view.as_deref());
                if let (Some(subscriber), Some(view)) = (subscriber, view) {
                    let version = state.changes.version();
                    state.audience.add_subscriber(subscriber, view.member, version, &mut state.changes);
                    self.presence_reader_came(subscriber.mask, to_guild);
                    self.renew_lists(vec![subscriber.slot], recipients, to_guild);
                    // Members that the session watched before the reset may have changed.
                    let user_ids = self.subscriptions.of(subscriber.slot).to_vec();
                    if !user_ids.is_empty() {
                        to_guild.push(ToGuild::RequestPresences { session, user_ids });
                    }
                }
            }
            RelayMessage::List(update) => {
                let deliveries = self.lists.handle(self.guild_id, &update);
                if let Some(state) = &self.state {
                    deliver_lists(deliveries, &state.audience, recipients);
                }
            }
            RelayMessage::Transferred { session, user_id } => {
                if recipients.transferred(session, self.guild_id)
                    && let Some(state) = &self.state
                {
                    state.update_alone(self.guild_id, user_id, session.slot, recipients);
                }
            }
            RelayMessage::Unavailable { session } => recipients.unavailable(session, self.guild_id),
            RelayMessage::Direct { session, event } => recipients.direct(session, &event),
            RelayMessage::Members { session, answer } => recipients.members(session, self.guild_id, &answer),
            RelayMessage::Canary(canary) => {
                // Before its first snapshot a relay delivers nothing.
                if self.state.is_none() {
                    return Progress::Gap;
                }
                recipients.canary(&canary);
                to_guild.push(ToGuild::CanaryReturned { relay: self.id, number: canary.number });
            }
        }
        Progress::Steady
    }

    /// The stream begins, or begins again; then every session must attach again. That happens after a loss, and when
    /// the guild restarted and has no earlier stream.
    fn restart(
        &mut self,
        now: Now,
        replica: GuildReplica,
        reset: bool,
        recipients: &mut impl Recipients,
        to_guild: &mut ToGuilds,
    ) -> Progress {
        let before = self.state.take();
        let mut audience = AudienceIndex::new(replica.structure.clone()).hiding(self.hidden);
        audience.set_threads(&replica.threads);
        match &before {
            None => recipients.access_began(self.guild_id, &|| audience.access_at_first()),
            Some(before) => {
                let change = audience.access_since(&before.audience);
                if !change.is_empty() {
                    recipients.access_changed(self.guild_id, &change);
                }
            }
        }
        self.state = Some(State { replica, audience, changes: ChangeLog::default() });
        self.gap_reported_at = None;
        // Sessions that come back declare it again.
        if std::mem::take(&mut self.presence_readers_count) > 0 {
            to_guild.push(ToGuild::WantPresences { relay: self.id, all: false });
        }
        self.lists.restart(self.id, to_guild);
        let begins_again = reset || before.is_some();
        self.passive_at.get_or_insert_with(|| now.instant.after_ms(self.passive_interval_ms));
        let user_subscribers = before.iter().flat_map(|state| state.audience.slots());
        user_subscribers.for_each(|slot| recipients.reset(slot, self.guild_id));
        if begins_again { Progress::Restarted } else { Progress::Steady }
    }

    /// Applies an event's replica update and delivers it to its audience.
    fn fan_out(
        &mut self,
        now: Now,
        published: &Arc<Published>,
        recipients: &mut impl Recipients,
        to_guild: &mut ToGuilds,
    ) {
        let Some(state) = &mut self.state else { return };
        let viewed_before = state.thread_viewers(&published.replica_update);
        state.changes.note(&published.replica_update, &state.replica);
        state.replica.apply(&published.replica_update);
        match &published.replica_update {
            ReplicaUpdate::Structure(structure) => {
                let change = state.audience.set_structure(structure.clone(), &mut state.changes);
                if !change.is_empty() {
                    recipients.access_changed(self.guild_id, &change);
                }
                self.renew_lists(self.lists.slots(), recipients, to_guild);
            }
            ReplicaUpdate::Member(user_id, Some(member)) => {
                state.audience.set_member(member, &mut state.changes);
                let slots = state.audience.user_slots(*user_id).collect();
                self.renew_lists(slots, recipients, to_guild);
            }
            ReplicaUpdate::Member(user_id, None) => {
                let slots: SmallVec<[u32; 2]> = state.audience.user_slots(*user_id).collect();
                for slot in slots {
                    to_guild.extend(self.detach(*user_id, slot));
                    recipients.lost(slot, self.guild_id);
                }
            }
            ReplicaUpdate::Deleted => {
                state.audience.slots().for_each(|slot| recipients.lost(slot, self.guild_id));
                state.audience = AudienceIndex::new(state.replica.structure.clone()).hiding(self.hidden);
                self.presence_readers_count = 0;
                return;
            }
            ReplicaUpdate::Thread(_, Some(_)) => state.audience.set_threads(&state.replica.threads),
            // The recipients of a deletion are the members, so that the thread is removed below.
            ReplicaUpdate::Thread(_, None)
            | ReplicaUpdate::None
            | ReplicaUpdate::Message(..)
            | ReplicaUpdate::Voice(..) => {}
        }
        let Some(state) = &mut self.state else { return };
        let mut delivering = recipients.begin(published, state.audience.visibility(&published.event));
        let watchers = self.subscriptions.member_watchers(published.event.audience.about);
        match published.event.payload.receipt() {
            None => state.audience.fan_out(&published.event, now.unix, watchers, &mut delivering),
            Some(receipt) => {
                let mut counted = Counted { delivering: &mut delivering, count: 0 };
                state.audience.fan_out(&published.event, now.unix, watchers, &mut counted);
                receipt.reached(counted.count);
            }
        }
        drop(delivering);
        if let ReplicaUpdate::Thread(_, None) | ReplicaUpdate::Structure(_) = &published.replica_update {
            state.audience.set_threads(&state.replica.threads);
        }
        if let ReplicaUpdate::Structure(_) | ReplicaUpdate::Member(_, Some(_)) = &published.replica_update {
            state.deliver_view_changes(self.guild_id, &published.event, recipients);
        }
        if let Some((parents, before)) = viewed_before {
            state.deliver_threads(&parents, &before, now.unix, recipients);
        }
    }

    // ── passive sessions ─────────────────────────────────────────────────────────────────────────

    /// Sends passive sessions their update if it is due.
    pub fn handle_timer(&mut self, now: Now, recipients: &mut impl Recipients) {
        if self.passive_at.is_none_or(|at| now.instant < at) {
            return;
        }
        self.rounds_count += 1;
        self.passive_at = Some(now.instant.after_ms(self.next_interval_ms()));
        if let Some(state) = &mut self.state {
            state.deliver_passive(self.guild_id, recipients);
        }
    }

    /// The form in which a session receives a dispatch again, by the permissions that hold now.
    ///
    /// Comes from the partition, once per dispatch of a RESUME.
    #[must_use]
    pub fn decide_replay(&self, reader: (UserId, u32), of: Replayed<'_>, now: Timestamp) -> ReplayDecision {
        match &self.state {
            Some(state) => state.audience.decide_replay(&state.replica, reader, of, now),
            None => ReplayDecision::Withheld(None),
        }
    }

    /// Whether a dispatch is a GUILD_CREATE that would show a member what they may not view any more. The rest of the
    /// replay makes no sense without it.
    #[must_use]
    pub fn would_reveal(&self, user_id: UserId, of: Replayed<'_>, now: Timestamp) -> bool {
        self.state.as_ref().is_some_and(|state| state.audience.would_reveal(user_id, of, now))
    }

    /// The current state of a passive update, VOICE_STATE_UPDATE or THREAD_LIST_SYNC, without channels and users that
    /// the user may not view. None for other dispatches, and if nothing is visible.
    #[must_use]
    pub fn rebuild_for_replay(&self, user_id: UserId, of: Replayed<'_>, now: Timestamp) -> Option<Event> {
        let state = self.state.as_ref()?;
        state.audience.rebuild_for_replay(&state.replica, user_id, of, now)
    }

    /// Marks a resumed session with an incomplete replay: before its next update it may see channels again, or may have
    /// received newer states than those of its last update. The next update is complete.
    pub fn invalidate_baseline(&mut self, user_id: UserId, slot: u32) {
        if let Some(state) = &mut self.state {
            state.audience.invalidate_baseline(user_id, slot, &mut state.changes);
        }
    }

    /// All open threads that a user with sessions here can view, for a session that requested them.
    #[must_use]
    pub fn thread_list(&self, user_id: UserId, now: Timestamp) -> Option<Event> {
        let state = self.state.as_ref()?;
        thread_list(&state.replica, state.audience.member(user_id)?, None, false, now)
    }

    /// Three to five quarters of the interval, different for each relay and round, so that relays do
    /// not speak all at once.
    fn next_interval_ms(&self) -> u64 {
        let mixed = (self.guild_id.get() ^ u64::from(self.id.index) << 32 ^ u64::from(self.id.partition.0) << 48)
            .wrapping_add(self.rounds_count)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let span = (self.passive_interval_ms / 2).max(1);
        self.passive_interval_ms * 3 / 4 + (mixed >> 32) % span
    }
}

/// Counts deliveries of an event.
struct Counted<'d, D> {
    delivering: &'d mut D,
    count: u64,
}

struct CountedGroup<'c, G> {
    group: G,
    count: &'c mut u64,
}

impl<D: Delivering> Delivering for Counted<'_, D> {
    type Group<'a>
        = CountedGroup<'a, D::Group<'a>>
    where
        Self: 'a;

    fn group(&mut self, log: LogId, redaction: Redaction) -> Self::Group<'_> {
        CountedGroup { group: self.delivering.group(log, redaction), count: &mut self.count }
    }

    fn deliver_alone(&mut self, slot: u32, redaction: Redaction) {
        self.count += 1;
        self.delivering.deliver_alone(slot, redaction);
    }
}

impl<G: GroupDelivering> GroupDelivering for CountedGroup<'_, G> {
    fn announce(&self, slot: u32, lead: Lead) {
        self.group.announce(slot, lead);
    }

    fn deliver(&mut self, slot: u32) {
        *self.count += 1;
        self.group.deliver(slot);
    }
}

fn deliver_lists(deliveries: Vec<Delivery>, audience: &AudienceIndex, recipients: &mut impl Recipients) {
    for (published, slots) in deliveries {
        let mut delivering = recipients.begin(&published, audience.visibility(&published.event));
        slots.into_iter().for_each(|slot| delivering.deliver_alone(slot, Redaction::None));
    }
}

/// Passive sessions that receive the same update.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Reader {
    view: usize,
    form: PassiveUpdate,
    version: u32,
    /// The user, if they are in a voice channel that they cannot view: only they receive that state.
    own: Option<UserId>,
}

/// A session that receives an update stragglers from its group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Straggler {
    version: u32,
    own: Option<UserId>,
    slot: u32,
}

impl State {
    /// Users who view channels with open threads, if the replica update may change that. Costs nothing if there
    /// are no such channels.
    fn thread_viewers(&self, replica_update: &ReplicaUpdate) -> Option<(Vec<ChannelId>, ChannelViewers)> {
        if !matches!(replica_update, ReplicaUpdate::Structure(_) | ReplicaUpdate::Member(_, Some(_)))
            || self.replica.threads.is_empty()
        {
            return None;
        }
        if let ReplicaUpdate::Member(user_id, _) = replica_update {
            self.audience.member(*user_id)?;
        }
        let open = self.replica.threads.iter().map(|(_, entry)| entry).filter(|entry| entry.is_active());
        let mut parents: Vec<ChannelId> = open.filter_map(|entry| entry.channel.parent_id).collect();
        parents.sort_unstable();
        parents.dedup();
        let viewers = self.audience.channel_viewers(&parents);
        (!parents.is_empty()).then_some((parents, viewers))
    }

    /// Delivers channels that entered or left views to the sessions concerned, after the event that changed the views.
    /// With `HiddenChannels::Listed` there are no such events.
    fn deliver_view_changes(&self, guild_id: GuildId, cause: &Event, recipients: &mut impl Recipients) {
        let hidden = self.audience.hidden();
        if hidden == HiddenChannels::Listed {
            return;
        }
        // A creation or deletion went to these sessions already.
        let delivered = match &cause.payload {
            Payload::Channel(channel) if cause.name != EventName::ChannelUpdate => Some(channel.id),
            _ => None,
        };
        let changes = self.audience.view_changes();
        for changes in changes.chunk_by(|a, b| (a.channel_id, a.is_gained) == (b.channel_id, b.is_gained)) {
            let (channel_id, is_gained) = (changes[0].channel_id, changes[0].is_gained);
            if delivered == Some(channel_id) {
                continue;
            }
            let Some(event) = self.view_change_event(guild_id, channel_id, is_gained) else { continue };
            let form = if is_gained { Redaction::None } else { Redaction::Channel };
            let visibility = match is_gained {
                true => self.audience.visibility(&event),
                // The event may contain the category of the channel.
                false => Visibility::Alone,
            };
            let published = Arc::new(Published { event, replica_update: ReplicaUpdate::None });
            let mut delivering = recipients.begin(&published, visibility);
            for change in changes {
                self.audience.deliver_change(&published.event, *change, form, &mut delivering);
            }
        }
    }

    /// The event for sessions whose view a channel entered or left.
    fn view_change_event(&self, guild_id: GuildId, channel_id: ChannelId, is_gained: bool) -> Option<Event> {
        let is_absent = self.audience.hidden() == HiddenChannels::Absent;
        let (name, rule, channel) = match is_gained {
            true => {
                let mut channel = Channel::clone(self.replica.structure.channels.get(&channel_id)?);
                let newest = self.replica.last_message_ids.get(&channel_id).copied();
                channel.last_message_id = newest.or(channel.last_message_id);
                let name = if is_absent { EventName::ChannelCreate } else { EventName::ChannelUpdate };
                (name, AudienceRule::Channel(channel_id), Arc::new(channel))
            }
            // Where it was: the same change may have moved it.
            false if is_absent => {
                (EventName::ChannelDelete, AudienceRule::Members, self.audience.channel_before(channel_id)?.clone())
            }
            false => (
                EventName::ChannelUpdate,
                AudienceRule::Members,
                self.replica.structure.channels.get(&channel_id)?.clone(),
            ),
        };
        Some(Event::new(guild_id, name, rule, Payload::Channel(channel)))
    }

    /// Sends the open threads of channels to users who can newly view them.
    fn deliver_threads(
        &self,
        parents: &[ChannelId],
        before: &ChannelViewers,
        now_unix: Timestamp,
        recipients: &mut impl Recipients,
    ) {
        let now = self.audience.channel_viewers(parents);
        for (user_id, places) in before.gained(&now, parents.len()) {
            let gained: Arc<[ChannelId]> = places.into_iter().map(|place| parents[place]).collect();
            for (slots, joined_only) in self.audience.user_thread_listeners(user_id).into_iter().zip([false, true]) {
                let member = self.audience.member(user_id);
                let list = || thread_list(&self.replica, member?, Some(gained.clone()), joined_only, now_unix);
                let Some(event) = (if slots.is_empty() { None } else { list() }) else { continue };
                let published = Arc::new(Published { event, replica_update: ReplicaUpdate::None });
                let mut delivering = recipients.begin(&published, Visibility::Alone);
                slots.into_iter().for_each(|slot| delivering.deliver_alone(slot, Redaction::None));
            }
        }
    }

    /// Sends a session that is passive its changes since its last update.
    fn update_alone(&self, guild_id: GuildId, user_id: UserId, slot: u32, recipients: &mut impl Recipients) {
        let Some((mask, version)) = self.audience.mask(user_id, slot).filter(|(mask, _)| mask.is_passive()) else {
            return;
        };
        let view = self.audience.user_view(user_id).expect("a session that listens has a view");
        let own = self.is_out_of_view(user_id).then_some(user_id);
        let reader = Reader { view, form: mask.passive_form(), version, own };
        if let Some(published) = self.passive_update(guild_id, reader) {
            let visibility = self.visibility_of_passive(&published, reader);
            recipients.begin(&published, visibility).deliver_alone(slot, Redaction::None);
        }
    }

    /// One round: sends every passive session its changes since its last update.
    fn deliver_passive(&mut self, guild_id: GuildId, recipients: &mut impl Recipients) {
        if self.changes.is_empty() {
            return;
        }
        let out_of_view = self.users_out_of_view();
        let own = |user_id| out_of_view.binary_search(&user_id).is_ok().then_some(user_id);
        let mut updates: Map<Reader, Option<(Arc<Published>, Visibility)>> = Map::default();
        self.audience.passive_groups(|PassiveGroup { view, form, listeners, .. }| {
            for Listener { user_id, version, .. } in listeners.iter().copied() {
                updates.entry(Reader { view, form, version, own: own(user_id) }).or_default();
            }
        });
        for (reader, update) in &mut updates {
            let published = self.passive_update(guild_id, *reader);
            *update = published.map(|published| {
                let visibility = self.visibility_of_passive(&published, *reader);
                (published, visibility)
            });
        }
        let version = self.changes.version();
        let mut stragglers: Vec<Straggler> = Vec::new();
        self.audience.passive_groups(|PassiveGroup { view, form, log, listeners }| {
            let update = |version, own| updates.get(&Reader { view, form, version, own })?.as_ref();
            // Nearly all sessions of a group had their update in the last round; the few that became passive since are
            // handled one by one.
            let common = listeners.iter().map(|listener| listener.version).max_by_key(|v| version.wrapping_sub(*v));
            let Some(common) = common else { return };
            let is_common = |listener: &&Listener| listener.version == common && own(listener.user_id).is_none();
            if let Some((update, visibility)) = update(common, None)
                && listeners.iter().any(|listener| is_common(&listener))
            {
                let mut delivering = recipients.begin(update, *visibility);
                let mut group = delivering.group(log, Redaction::None);
                listeners.iter().filter(is_common).for_each(|listener| group.deliver(listener.slot));
            }
            let others = listeners.iter().filter(|listener| !is_common(listener));
            stragglers.clear();
            stragglers.extend(others.map(|l| Straggler { version: l.version, own: own(l.user_id), slot: l.slot }));
            stragglers.sort_unstable();
            for readers in stragglers.chunk_by(|a, b| (a.version, a.own) == (b.version, b.own)) {
                let Some((update, visibility)) = update(readers[0].version, readers[0].own) else { continue };
                let mut delivering = recipients.begin(update, *visibility);
                readers.iter().for_each(|reader| delivering.deliver_alone(reader.slot, Redaction::None));
            }
            listeners.iter_mut().for_each(|listener| listener.version = version);
        });
        self.changes.forget();
    }

    /// Users with sessions here who are in voice where they cannot view: few, moved there or
    /// stripped of a role. Sorted.
    fn users_out_of_view(&self) -> Vec<UserId> {
        self.replica.voice.iter().map(|(user_id, _)| user_id).filter(|user_id| self.is_out_of_view(*user_id)).collect()
    }

    fn is_out_of_view(&self, user_id: UserId) -> bool {
        let channel_id = self.replica.voice.get(user_id).and_then(|entry| entry.state.channel_id);
        channel_id.is_some_and(|id| self.audience.member(user_id).is_some() && !self.audience.views(user_id, id))
    }

    /// The domain of a passive update. An update that contains the reader's own voice channel, though the reader cannot
    /// view it, is alone in its domain.
    fn visibility_of_passive(&self, update: &Published, reader: Reader) -> Visibility {
        if reader.own.is_some() { Visibility::Alone } else { self.audience.visibility(&update.event) }
    }

    /// The update for sessions that receive the same one. None if nothing changed.
    fn passive_update(&self, guild_id: GuildId, reader: Reader) -> Option<Arc<Published>> {
        let Reader { view, form, version, own } = reader;
        let holds = |channel_id| self.audience.view_holds(view, channel_id);
        let delta = self.changes.since(version, &self.replica, holds, own);
        let (name, channels, payload) = match form {
            _ if delta.is_empty() => return None,
            PassiveUpdate::Delta => {
                let channels = mentioned_channels(delta.channels.iter().map(|(id, _)| *id), &delta.voice, holds);
                (EventName::PassiveUpdateV2, channels, Payload::PassiveDelta(delta))
            }
            PassiveUpdate::Snapshot => {
                let snapshot = snapshot(&self.replica, holds, own);
                let channels = mentioned_channels(snapshot.channels.iter().map(|(id, _)| *id), &snapshot.voice, holds);
                (EventName::PassiveUpdateV1, channels, Payload::PassiveSnapshot(snapshot))
            }
            PassiveUpdate::ChannelUnreads if delta.channels.is_empty() => return None,
            PassiveUpdate::ChannelUnreads => {
                let channels = mentioned_channels(delta.channels.iter().map(|(id, _)| *id), &[], holds);
                let unreads = Unreads { channels: delta.channels, pins: delta.pins };
                (EventName::ChannelUnreadUpdate, channels, Payload::Unread(unreads))
            }
        };
        let event = Event::new(guild_id, name, AudienceRule::Channels(channels), payload);
        Some(Arc::new(Published { event, replica_update: ReplicaUpdate::None }))
    }
}
