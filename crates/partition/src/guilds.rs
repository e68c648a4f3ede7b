//! Guilds: a partition's relays, and the sessions that enter and leave guilds.
//!
//! Owns        `RelayEntry`, a relay with its logs and its timer; the inputs from guilds; recent joins.
//! Invariants  a relay exists while a session is in its guild or about to be.
//! Limits      `sessions_per_relay_max`.
//! Not here    who receives an event: `guildhall-relay`; its delivery: `session_recipients`.

use crate::{
    core::Core,
    partition::Partition,
    pause::Pause,
    relay_table::GuildRelays,
    session_recipients::{NewestPresences, RelayTally, SessionRecipients},
    timers::TimerKey,
    transport::{Output, Transport},
    turn::Turn,
    turn_work::Departure,
};
use guildhall_accounting::report;
use guildhall_guild_protocol::{PartitionId, RelayId, RelayMessage, ReplicaUpdate, SessionKey, ToGuild, ToRelay};
use guildhall_model::{EventName, GuildId, UserId, shard_of};
use guildhall_relay::{Progress, Relay, ToGuilds};
use guildhall_session::{GuildEntry, Membership, Session, SharedLog};
use guildhall_stdx::{Instant, Now, SlotKey};
use std::rc::Rc;

/// When the frames that a guild's message causes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// During the input, to sockets that have room.
    Now,
    /// At the next `flush`: more messages follow, and each connection is written to once for all of them.
    AtFlush,
}

pub(crate) struct RelayEntry {
    pub relay: Relay,
    /// By their numbers.
    pub logs: Vec<Rc<SharedLog>>,
    pub newest: NewestPresences,
    /// Its deliveries, since it began.
    pub tally: RelayTally,
    /// Sessions that are in the guild or about to be; the relay ends with the last.
    sessions_count: usize,
    /// The entry in the timers that counts.
    timer_at: Option<Instant>,
}

impl RelayEntry {
    /// Sessions that are in the guild or about to be.
    pub fn sessions_count(&self) -> usize {
        self.sessions_count
    }
}

impl Partition {
    /// A guild's message to the relay here. If more messages follow at once, it may be `AtFlush`; the driver calls
    /// `flush` after the last.
    pub fn handle_guild(&mut self, now: Now, message: ToRelay, delivery: Delivery, transport: &mut impl Transport) {
        self.turn(now, transport, |partition, turn| partition.pass_to_relay(turn, message, delivery))
    }

    fn pass_to_relay(&mut self, turn: &mut Turn<'_, impl Transport>, message: ToRelay, delivery: Delivery) {
        let (guild_id, index) = (message.guild_id, message.relay.index);
        let has_siblings = self.relays.count(guild_id) > 1;
        let Some(entry) = self.relays.get_mut(guild_id, index) else { return };
        if delivery == Delivery::AtFlush {
            self.core.flush_queue.begin_batch();
        }
        let joined = who_joined(&message.message);
        let mut to_guild = ToGuilds::new();
        let now = turn.now;
        let mut recipients =
            SessionRecipients::new(&mut self.core, turn, (&mut entry.logs, &mut entry.newest, &mut entry.tally));
        recipients = recipients.with_siblings(has_siblings);
        let progress = entry.relay.handle(now, message, &mut recipients, &mut to_guild);
        match progress {
            Progress::Steady => {}
            Progress::Gap => {
                self.core.counters.resyncs_total += 1;
                to_guild.push(entry.relay.resync());
            }
            Progress::Restarted => to_guild.extend(entry.relay.interests()),
        }
        self.core.outputs.extend(to_guild.into_iter().map(|message| Output::ToGuild(guild_id, message)));
        entry.arm_timer(guild_id, &mut self.core);
        match progress {
            Progress::Steady | Progress::Gap => {}
            Progress::Restarted => {
                self.core.attach_again(guild_id, index);
                // The lost messages may have contained the return of an account that had left.
                let joined = self.joins.of_guild(guild_id);
                joined.into_iter().for_each(|user_id| self.attach_user(user_id, guild_id));
            }
        }
        // The node reports joins too, but its report may overtake the stream. At this point the account has joined for
        // certain, even if it had left before.
        if let Some(user_id) = joined {
            self.attach_user(user_id, guild_id);
        }
    }

    /// An account joined a guild: its sessions here enter it.
    pub fn handle_joined(&mut self, now: Now, user_id: UserId, guild_id: GuildId) {
        self.joins.push(now.instant, user_id, guild_id);
        self.attach_user(user_id, guild_id);
    }

    /// Sessions of an account enter a guild, unless they are in it or about to be.
    pub(crate) fn attach_user(&mut self, user_id: UserId, guild_id: GuildId) {
        for key in self.core.sessions.of_user(user_id) {
            // The node that fetches it has the same news.
            if self.core.moves.departing.has(key) {
                continue;
            }
            let Some(session) = self.core.sessions.get_mut(key) else { continue };
            let shard = session.profile.shard;
            let in_shard = shard.is_none_or(|shard| shard_of(guild_id, shard.count) == shard.id);
            if in_shard && !session.guilds.contains(guild_id) {
                session.guilds.insert(GuildEntry::entering(guild_id));
                if let Some(pending_ready) = &mut session.pending_ready {
                    pending_ready.waiting_count += 1;
                }
                self.attach(key, guild_id, Pause::Noticed, None);
            }
        }
    }

    /// Requests a guild to attach a session, through the relay here, which begins if there is none yet. After an
    /// unnoticed pause the watchers of a session that was inside have its presence. `previous`: the guild transfers
    /// it from there.
    pub(crate) fn attach(&mut self, key: SlotKey, guild_id: GuildId, pause: Pause, previous: Option<SessionKey>) {
        let Core { sessions, outputs, config, .. } = &mut self.core;
        let Some(session) = sessions.get_mut(key) else { return };
        let (relays, last_epoch) = self.relays.of_guild_mut(guild_id);
        let index = relay_with_room(relays, config.sessions_per_relay_max);
        let entry = relays.entry(index).or_insert_with(|| {
            *last_epoch += 1;
            let id = RelayId { partition: config.partition, index };
            let relay =
                Relay::new(guild_id, id, *last_epoch, config.passive_interval_ms).hiding(config.hidden_channels);
            outputs.push_back(Output::ToGuild(guild_id, relay.subscribe()));
            RelayEntry {
                relay,
                logs: Vec::new(),
                newest: NewestPresences::default(),
                tally: RelayTally::default(),
                sessions_count: 0,
                timer_at: None,
            }
        });
        entry.sessions_count += 1;
        if let Some(guild) = session.guilds.get_mut(guild_id) {
            guild.relay = index;
        }
        outputs.extend(
            attach_message(session, config.partition, guild_id, pause, previous)
                .map(|attach| Output::ToGuild(guild_id, attach)),
        );
    }

    /// Sends passive sessions of a relay the changes of the last interval.
    pub(crate) fn fire_relay_timer(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        guild_id: GuildId,
        index: u16,
        at: Instant,
    ) {
        let Some(entry) = self.relays.get_mut(guild_id, index) else { return };
        if entry.timer_at != Some(at) {
            return;
        }
        entry.timer_at = None;
        entry.logs.iter().for_each(|log| log.forget_old(turn.now.instant, &self.core.config.log));
        entry.newest.sweep();
        let now = turn.now;
        let mut recipients =
            SessionRecipients::new(&mut self.core, turn, (&mut entry.logs, &mut entry.newest, &mut entry.tally));
        entry.relay.handle_timer(now, &mut recipients);
        entry.arm_timer(guild_id, &mut self.core);
    }

    /// Detaches departed sessions from their relays, and ends relays without sessions.
    pub(crate) fn flush_departures(&mut self) {
        for Departure { guild_id, relay, user_id, slot } in self.core.work.take_departures() {
            let Some(entry) = self.relays.get_mut(guild_id, relay) else { continue };
            let mut to_guild = entry.relay.detach(user_id, slot);
            entry.sessions_count = entry.sessions_count.saturating_sub(1);
            let is_unused = entry.sessions_count == 0;
            if is_unused {
                to_guild.push(entry.relay.unsubscribe());
            }
            self.core.outputs.extend(to_guild.into_iter().map(|message| Output::ToGuild(guild_id, message)));
            if is_unused && self.relays.remove(guild_id, relay) {
                self.core.matchers.forget_guild(guild_id);
            }
        }
    }

    /// The relays of a guild here, with their deliveries. It visits the relay's groups of sessions.
    pub fn relay_reports(&self, guild_id: GuildId) -> impl Iterator<Item = report::Relay> + '_ {
        self.relays.of_guild(guild_id).map(RelayEntry::report)
    }
}

impl Core {
    /// Messages of a guild were lost: sessions that wait to be attached request it again, because their answers may be
    /// among them.
    fn attach_again(&mut self, guild_id: GuildId, relay: u16) {
        for key in self.sessions.keys() {
            let Some(session) = self.sessions.get(key) else { continue };
            let Some(guild) = session.guilds.get(guild_id) else { continue };
            if guild.membership == Membership::Entering && guild.relay == relay {
                self.ask_again(key, guild_id);
            }
        }
    }

    /// A session that waits to be attached to a guild requests it again.
    pub(crate) fn ask_again(&mut self, key: SlotKey, guild_id: GuildId) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.asked_again = true;
        let attach = attach_message(session, self.config.partition, guild_id, Pause::Noticed, None);
        self.outputs.extend(attach.map(|attach| Output::ToGuild(guild_id, attach)));
    }
}

impl RelayEntry {
    fn report(&self) -> report::Relay {
        let RelayId { partition, index } = self.relay.id();
        let passive_count = self.relay.passive_count();
        report::Relay {
            partition: partition.0,
            index: usize::from(index),
            active: (self.relay.sessions_count() - passive_count) as u64,
            passive: passive_count as u64,
            deliveries_total: self.tally.deliveries,
            bytes_total: self.tally.bytes,
        }
    }

    /// Arms the timer for the relay's next deadline, unless it fires earlier.
    fn arm_timer(&mut self, guild_id: GuildId, core: &mut Core) {
        let Some(at) = self.relay.next_deadline() else { return };
        if self.timer_at.is_none_or(|before| at < before) {
            self.timer_at = Some(at);
            core.timers.push(at, TimerKey::Relay(guild_id, self.relay.id().index, self.relay.epoch()));
        }
    }
}

/// The first relay that takes another session, or the number of the next.
fn relay_with_room(relays: &GuildRelays, sessions_max: usize) -> u16 {
    let with_room = relays.iter().find(|(_, entry)| entry.sessions_count < sessions_max);
    with_room.map_or_else(|| (0..).find(|index| !relays.contains_key(index)).unwrap_or(u16::MAX), |(index, _)| *index)
}

/// Request of a session to be attached to a guild.
fn attach_message(
    session: &Session,
    partition: PartitionId,
    guild_id: GuildId,
    pause: Pause,
    previous: Option<SessionKey>,
) -> Option<ToGuild> {
    Some(ToGuild::Attach {
        session: session.key_in(partition, guild_id)?,
        session_id: session.id.clone(),
        user_id: session.user.id,
        kind: session.kind(),
        presence: session.profile.presence.clone(),
        members: session.members_wanted(),
        is_restored: pause == Pause::Unnoticed && session.guilds.get(guild_id).is_some_and(|guild| guild.is_restored),
        previous,
    })
}

/// The account that joined the guild, if the message is about a join.
fn who_joined(message: &RelayMessage) -> Option<UserId> {
    match message {
        RelayMessage::Published(published) if published.event.name == EventName::GuildMemberAdd => {
            match &published.replica_update {
                ReplicaUpdate::Member(user_id, Some(_)) => Some(*user_id),
                _ => None,
            }
        }
        _ => None,
    }
}
