//! Partition: connections, sessions and relays of one thread, without sockets or clock. [`Partition`] has the contract.
//!
//! Owns        the machine and its inputs. Each input is one `Partition::turn`.
//! Limits      `PartitionConfig`.
//! Not here    sockets, threads: `guildhall-net`.

use crate::{
    config::PartitionConfig,
    conn::{Compression, Conn, ConnParams, Control, Phase},
    core::{Core, Departure},
    counters::Counters,
    fanout::{Fanout, NewestPresences, RelayTally},
    sent::{SentTable, Way},
    shared::{Checked, Compressor, StreamCodec},
    timers::TimerKey,
    transport::{Gatekeeper, Output, Transport},
    turn::Turn,
};
use guildhall_accounting::report;
use guildhall_codec::{DictionaryId, MessageInflater, StreamCompressor};
use guildhall_guild_protocol::{PartitionId, Redaction, RelayId, RelayMessage, ReplicaUpdate, ToGuild, ToRelay};
use guildhall_model::{CloseCode, EventName, GuildId, User, UserId, from_gateway::SelfUserBody, shard_of};
use guildhall_relay::{Progress, Relay, ToGuilds};
use guildhall_session::{Dispatch, GuildEntry, Membership, Session, SharedLog};
use guildhall_stdx::{Instant, Now, SlotKey};
use guildhall_ws_proto::{Decoder, Limits, Role};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    rc::Rc,
    sync::Arc,
};

/// More joins than these are not remembered; the oldest go first.
const JOINS_REMEMBERED_MAX: usize = 4_096;
/// More tokens than these whose sessions were ended are not remembered; the oldest go first. A connection that is on
/// its way from another partition meanwhile would be served.
const CLOSED_TOKENS_MAX: usize = 4_096;

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

/// How far a partition is with asking its clients to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Who were asked just now.
    pub asked_count: usize,
    /// Who are still to be asked.
    pub unasked_count: usize,
    /// Connections that are there, asked or not.
    pub conns_count: usize,
}

/// A guild's relays here, by their numbers.
pub(crate) type GuildRelays = BTreeMap<u16, RelayEntry>;

/// One thread's connections, sessions and relays, as a machine. Its driver calls methods of four kinds:
///
/// 1. *Inputs* take the time and, with three exceptions, the [`Transport`]: `accept*`, `handle_*`, `flush`,
///    `close_all`, `close_sessions`, `publish_to_users`, `take_back_upgrades`, `send_reconnects`, `hand_over`,
///    `fail_pending_restores`. The exceptions `handle_joined`, `leave_voice` and `take_over` write to no socket. Time
///    never decreases from one input to the next.
/// 2. *Outputs*: [`poll_output`](Self::poll_output) returns requests to the rest of the node.
/// 3. *Deadlines*: [`next_deadline`](Self::next_deadline) and [`wants_flush`](Self::wants_flush).
/// 4. *Views*, which change nothing: counters, `sessions`, `session_page` and others.
///
/// # Order of calls
///
/// - A driver collects inputs, calls `flush` after the last of them, then drains `poll_output`. It may drain after each
///   input as well. Outputs must reach each guild in the order in which they were polled.
/// - Before `accept*` and `handle_transferred` the driver registers the socket under
///   [`next_conn_key`](Self::next_conn_key). No other input may come in between, so that the input returns the same
///   key.
/// - A connection leaves by [`Transport::transfer`], [`Transport::drop_conn`] or [`Transport::reset_conn`]. Its key is
///   free when that call returns.
/// - `handle_timers` is due when `next_deadline` has passed. Earlier calls are harmless.
/// - While `wants_flush` is true the driver must not wait for sockets without a `flush` before.
/// - After `Transport::send` was short, the driver calls `handle_writable` once the socket has room again.
/// - The answers to `Output::Authenticate`, `FetchMessages` and `FetchDirects` are inputs, at any later time. Answers
///   for a connection or session that has ended are ignored.
///
/// # Bytes
///
/// Frames leave through [`Transport`] during the input that caused them, not by a `poll_transmit`: a recipient's frame
/// is written from the body that all recipients share, without a copy or a queue (docs/adr/0008).
pub struct Partition {
    pub(crate) core: Core,
    pub(crate) relays: HashMap<GuildId, GuildRelays>,
    last_epoch: u32,
    /// Who joined what lately: an account's guilds may have been read just before, and its session start just after.
    pub(crate) joins: VecDeque<(Instant, UserId, GuildId)>,
    /// Tokens whose sessions were ended here: a connection that came with one may be on its way from another partition.
    pub(crate) closed_tokens: VecDeque<(UserId, u64)>,
}

impl Partition {
    /// A partition without connections.
    #[must_use]
    pub fn new(config: PartitionConfig, gatekeeper: Arc<dyn Gatekeeper>) -> Self {
        Self {
            core: Core::new(config, gatekeeper),
            relays: HashMap::new(),
            last_epoch: 0,
            joins: VecDeque::new(),
            closed_tokens: VecDeque::new(),
        }
    }

    /// What has happened so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters { deflate_shared_bodies_total: self.core.deflater.compressed_count(), ..self.core.counters }
    }

    /// Bytes by dispatch type, codec and encoding.
    #[must_use]
    pub fn sent(&self) -> &SentTable {
        &self.core.sent
    }

    /// Counters of its shared-match streams, and the heap of their search.
    #[must_use]
    pub fn shared_match(&self) -> (guildhall_shared_match::Counters, usize) {
        self.core.matchers.counters()
    }

    /// Results of the self-check of shared-match streams.
    #[must_use]
    pub fn shared_match_checked(&self) -> Checked {
        self.core.matchers.checked()
    }

    /// Corrupts the message of a shared-match stream after `after` others, for tests of the self-check.
    #[doc(hidden)]
    pub fn spoil_shared_message(&mut self, after: u32) {
        self.core.matchers.spoil(after);
    }

    /// Fixes the search effort of shared-match, for tests. Must be called before the first connection.
    #[doc(hidden)]
    pub fn set_search_effort(&mut self, effort: Option<guildhall_shared_match::Effort>) {
        self.core.matchers.set_effort(effort);
    }

    /// Connections now.
    #[must_use]
    pub fn conns_count(&self) -> usize {
        self.core.conns.len()
    }

    /// Sessions now, connected or not.
    #[must_use]
    pub fn sessions_count(&self) -> usize {
        self.core.sessions.len()
    }

    /// Number of sessions that have a connection.
    #[must_use]
    pub fn attached_count(&self) -> usize {
        self.core.attached_count
    }

    /// Memory of compression contexts and inflate histories, for inspection: it reads every connection.
    #[must_use]
    pub fn compression_bytes(&self) -> usize {
        let of_conns: usize = self.core.conns.iter().map(|(_, conn)| conn.compression_bytes()).sum();
        let inflater = self.core.inflater.as_ref().map_or(0, MessageInflater::memory_bytes);
        of_conns + self.core.deflater.memory_bytes() + inflater
    }

    /// Bytes of READY and GUILD_CREATE that were made and are not written yet.
    #[must_use]
    pub fn rendered_bytes(&self) -> usize {
        self.core.rendered_bytes
    }

    /// Whether somebody waits to have READY or GUILD_CREATE made: until others have read theirs, or are cut for not
    /// reading.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        !self.core.waiting_to_render.is_empty()
    }

    /// All sessions, for checkers and inspection.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.core.sessions.iter().map(|(_, session)| session)
    }

    #[must_use]
    pub fn session(&self, key: SlotKey) -> Option<&Session> {
        self.core.sessions.get(key)
    }

    /// All relays, for checkers and inspection.
    pub fn relays(&self) -> impl Iterator<Item = &Relay> {
        self.relays.values().flat_map(|relays| relays.values().map(|entry| &entry.relay))
    }

    /// The relays of a guild here, with their deliveries. It visits the relay's groups of sessions.
    pub fn relay_reports(&self, guild_id: GuildId) -> impl Iterator<Item = report::Relay> + '_ {
        self.relays.get(&guild_id).into_iter().flat_map(|relays| relays.values().map(RelayEntry::report))
    }

    /// The next request to the rest of the node. The driver drains it after each input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.core.outputs.pop_front()
    }

    /// Time at which `handle_timers` is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.core.timers.next()
    }

    /// Whether a `flush` has anything to do.
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        !self.core.dirty.is_empty() || !self.core.waiting_for_chunks.is_empty() || self.core.has_turn_to_render()
    }

    // ── connections ──────────────────────────────────────────────────────────────────────────────

    /// Key of the next accepted or transferred connection. The driver registers its socket there first.
    #[must_use]
    pub fn next_conn_key(&self) -> SlotKey {
        self.core.conns.next_key()
    }

    /// A socket finished its upgrade: it is greeted.
    pub fn accept(&mut self, now: Now, params: ConnParams, link: &mut impl Transport) -> SlotKey {
        self.turn(now, link, |partition, turn| partition.greet(turn, params))
    }

    fn greet(&mut self, turn: &mut Turn<'_, impl Transport>, params: ConnParams) -> SlotKey {
        let compressor = match self.core.config.stream_codec {
            StreamCodec::SharedMatch { .. } => self.core.matchers.stream(params, &self.core.config.shared_dictionaries),
            StreamCodec::PerConnection => None,
        };
        let compressor = compressor.or_else(|| self.library_stream(params).map(Compressor::Library)).map(Box::new);
        let is_unreadable = compressor.is_none() && params.compression.has_stream();
        let key = self.insert_conn(turn.now, params, compressor);
        self.core.counters.conns_total += 1;
        if is_unreadable {
            // Without its compressor, the client could not decode a byte.
            self.core.abort(turn, key);
            return key;
        }
        let hello = self.core.fixed(params.encoding).hello.clone();
        self.core.control(turn, key, Control::Payload(hello));
        key
    }

    /// A library's stream for what a connection asked for.
    fn library_stream(&self, params: ConnParams) -> Option<StreamCompressor> {
        let contexts = &self.core.config.contexts;
        match params.compression {
            Compression::None => None,
            Compression::Zlib => Some(contexts.zlib()),
            Compression::Zstd => Some(contexts.zstd()),
            Compression::ZstdDict(id) => self.with_dictionary(id),
            Compression::Deflate(params) if params.server_no_context_takeover => None,
            // A failure means that the configured parameters are out of range.
            Compression::Deflate(params) => {
                StreamCompressor::deflate(self.core.config.deflate, params.server_window_bits).ok()
            }
        }
    }

    /// None when nobody has it: the front has looked it up before, so that it is there.
    fn with_dictionary(&self, id: DictionaryId) -> Option<StreamCompressor> {
        let config = &self.core.config;
        let known = config.dictionaries.find(id)?;
        Some(config.contexts.zstd_with(known.dictionary.clone()))
    }

    /// A socket finished its upgrade, but what its URL asks for is not served: it is closed with the code for that.
    pub fn accept_refused(&mut self, now: Now, code: CloseCode, link: &mut impl Transport) -> SlotKey {
        self.turn(now, link, |partition, turn| {
            let params = ConnParams { encoding: guildhall_codec::Encoding::Json, compression: Compression::None };
            let key = partition.insert_conn(turn.now, params, None);
            partition.core.close(turn, key, code);
            key
        })
    }

    /// As [`accept_refused`](Self::accept_refused), with a reason that says more than the code: at most 123 bytes.
    pub fn accept_refused_because(
        &mut self,
        now: Now,
        code: CloseCode,
        reason: &str,
        link: &mut impl Transport,
    ) -> SlotKey {
        self.turn(now, link, |partition, turn| {
            let params = ConnParams { encoding: guildhall_codec::Encoding::Json, compression: Compression::None };
            let key = partition.insert_conn(turn.now, params, None);
            partition.core.close_websocket(turn, key, Some(code.code()), reason, code.session_fate());
            key
        })
    }

    fn insert_conn(&mut self, now: Now, params: ConnParams, compressor: Option<Box<Compressor>>) -> SlotKey {
        let deadline = now.instant.after_ms(self.core.config.identify_deadline_ms);
        let limits = Limits { message_bytes_max: self.core.config.user_message_bytes_max };
        let deflate = match params.compression {
            Compression::Deflate(params) => Some(params),
            Compression::None | Compression::Zlib | Compression::Zstd | Compression::ZstdDict(_) => None,
        };
        let mut decoder = Decoder::new(Role::Server, limits);
        decoder.set_rsv1_allowed(deflate.is_some());
        let key = self.core.conns.insert(Conn {
            encoding: params.encoding,
            compression: params.compression.name(),
            way: Way::of(params.compression, params.encoding),
            shares_search: compressor.as_ref().is_some_and(|compressor| compressor.shares_search()),
            compressor,
            deflate,
            inflate_history: None,
            phase: Phase::AwaitingIdentify,
            decoder,
            control: Default::default(),
            unsent: Vec::new(),
            unsent_at: 0,
            frame_offset: 0,
            is_frame_truncated: false,
            next_seq: 1,
            replay_end: 0,
            rendered_bytes: 0,
            rendered_at: now.instant,
            waits_to_render: false,
            has_turn_to_render: false,
            blocked_since: None,
            is_dirty: false,
            last_inbound: now.instant,
            inbound: Default::default(),
            phase_since: now.instant,
            timer_at: Instant(u64::MAX),
            pending_input: Vec::new(),
            invalid_sessions: 0,
            is_asked_to_leave: false,
            leave_by: Instant(u64::MAX),
        });
        self.core.arm_timer(deadline, key);
        key
    }

    /// The client sent bytes.
    pub fn handle_bytes(&mut self, now: Now, key: SlotKey, input: &mut [u8], link: &mut impl Transport) {
        self.turn(now, link, |partition, turn| partition.core.handle_bytes(turn, key, input));
    }

    /// Continues writing to a socket that has room again.
    pub fn handle_writable(&mut self, now: Now, key: SlotKey, link: &mut impl Transport) {
        self.turn(now, link, |partition, turn| {
            if let Some(conn) = partition.core.conns.get_mut(key) {
                conn.blocked_since = None;
                partition.core.pump(turn, key);
            }
        });
    }

    /// Handles the end of a socket. The session can be resumed, unless a close frame ended it.
    pub fn handle_hangup(&mut self, now: Now, key: SlotKey, link: &mut impl Transport) {
        self.turn(now, link, |partition, turn| partition.core.abort(turn, key));
    }

    // ── guilds ───────────────────────────────────────────────────────────────────────────────────

    /// A guild's message to the relay here. Between several of these call with `more`, and `flush` after the last.
    pub fn handle_guild(&mut self, now: Now, message: ToRelay, more: bool, link: &mut impl Transport) {
        self.turn(now, link, |partition, turn| partition.pass_to_relay(turn, message, more))
    }

    fn pass_to_relay(&mut self, turn: &mut Turn<'_, impl Transport>, message: ToRelay, more: bool) {
        let (guild_id, index) = (message.guild_id, message.relay.index);
        let Some(relays) = self.relays.get_mut(&guild_id) else { return };
        let has_siblings = relays.len() > 1;
        let Some(entry) = relays.get_mut(&index) else { return };
        self.core.batching |= more;
        let joined = who_joined(&message.message);
        let mut to_guild = ToGuilds::new();
        let now = turn.now;
        let mut fanout = Fanout::new(&mut self.core, turn, (&mut entry.logs, &mut entry.newest, &mut entry.tally));
        fanout = fanout.with_siblings(has_siblings);
        let progress = entry.relay.handle(now, message, &mut fanout, &mut to_guild);
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
                // What was lost may have told that somebody is back who had left.
                let in_guild = self.joins.iter().filter(|(.., guild)| *guild == guild_id);
                let joined: Vec<UserId> = in_guild.map(|(_, user, _)| *user).collect();
                joined.into_iter().for_each(|user_id| self.attach_user(user_id, guild_id));
            }
        }
        // The node tells of joins too, but that may overtake the stream: who left and came back is here for certain.
        if let Some(user_id) = joined {
            self.attach_user(user_id, guild_id);
        }
    }

    /// An account joined a guild: its sessions here enter it.
    pub fn handle_joined(&mut self, now: Now, user_id: UserId, guild_id: GuildId) {
        if self.joins.len() >= JOINS_REMEMBERED_MAX {
            self.joins.pop_front();
        }
        self.joins.push_back((now.instant, user_id, guild_id));
        self.attach_user(user_id, guild_id);
    }

    /// Nobody takes up a session here with this token any more.
    pub(crate) fn remember_closed(&mut self, user_id: UserId, token: u64) {
        if self.closed_tokens.len() >= CLOSED_TOKENS_MAX {
            self.closed_tokens.pop_front();
        }
        self.closed_tokens.push_back((user_id, token));
    }

    /// An account changed: its sessions here are told, but of a bot with shards only the first.
    pub fn handle_user_changed(&mut self, now: Now, user: &Arc<User>, link: &mut impl Transport) {
        self.turn(now, link, |partition, turn| partition.change_user(turn, user))
    }

    fn change_user(&mut self, turn: &mut Turn<'_, impl Transport>, user: &Arc<User>) {
        for key in self.core.user_sessions(user.id) {
            let Some(session) = self.core.sessions.get_mut(key) else { continue };
            session.user = user.clone();
            if session.profile.shard.is_none_or(|shard| shard.id == 0) {
                let dispatch =
                    Dispatch::local(session.encoding, EventName::UserUpdate, &SelfUserBody::from(&**user), None);
                self.core.push(turn, key.slot, &dispatch, Redaction::NONE);
            }
        }
    }

    /// Sessions of an account enter a guild, unless they are in it or about to be.
    fn attach_user(&mut self, user_id: UserId, guild_id: GuildId) {
        for key in self.core.user_sessions(user_id) {
            let Some(session) = self.core.sessions.get_mut(key) else { continue };
            let shard = session.profile.shard;
            let in_shard = shard.is_none_or(|shard| shard_of(guild_id, shard.count) == shard.id);
            if in_shard && !session.guilds.contains(guild_id) {
                session.guilds.insert(GuildEntry::entering(guild_id));
                if let Some(pending_ready) = &mut session.pending_ready {
                    pending_ready.waiting_count += 1;
                }
                self.attach(key, guild_id);
            }
        }
    }

    /// Asks a guild to let a session in, through the relay here, which begins if there is none yet.
    pub(crate) fn attach(&mut self, key: SlotKey, guild_id: GuildId) {
        let Core { sessions, outputs, config, .. } = &mut self.core;
        let Some(session) = sessions.get_mut(key) else { return };
        let last_epoch = &mut self.last_epoch;
        let relays = self.relays.entry(guild_id).or_default();
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
            attach_message(session, config.partition, guild_id).map(|attach| Output::ToGuild(guild_id, attach)),
        );
    }

    /// Passive sessions of a relay are told what changed.
    fn fire_relay_timer(&mut self, turn: &mut Turn<'_, impl Transport>, guild_id: GuildId, index: u16, at: Instant) {
        let Some(entry) = self.relays.get_mut(&guild_id).and_then(|relays| relays.get_mut(&index)) else { return };
        if entry.timer_at != Some(at) {
            return;
        }
        entry.timer_at = None;
        entry.logs.iter().for_each(|log| log.forget_old(turn.now.instant, &self.core.config.log));
        entry.newest.sweep();
        let now = turn.now;
        let mut fanout = Fanout::new(&mut self.core, turn, (&mut entry.logs, &mut entry.newest, &mut entry.tally));
        entry.relay.handle_timer(now, &mut fanout);
        entry.arm_timer(guild_id, &mut self.core);
    }

    /// Writes what connections got in a batch.
    pub fn flush(&mut self, now: Now, link: &mut impl Transport) {
        self.turn(now, link, |partition, turn| partition.core.flush(turn));
    }

    /// Tells the relays who left, and ends those that nobody needs.
    pub(crate) fn flush_departures(&mut self) {
        for departure in std::mem::take(&mut self.core.departed) {
            let Departure { guild_id, relay, user_id, slot } = departure;
            let Some(relays) = self.relays.get_mut(&guild_id) else { continue };
            let Some(entry) = relays.get_mut(&relay) else { continue };
            let mut to_guild = entry.relay.detach(user_id, slot);
            entry.sessions_count = entry.sessions_count.saturating_sub(1);
            if entry.sessions_count == 0 {
                to_guild.push(entry.relay.unsubscribe());
                relays.remove(&relay);
            }
            self.core.outputs.extend(to_guild.into_iter().map(|message| Output::ToGuild(guild_id, message)));
            if relays.is_empty() {
                self.relays.remove(&guild_id);
                self.core.matchers.forget_guild(guild_id);
            }
        }
    }

    // ── time ─────────────────────────────────────────────────────────────────────────────────────

    /// Looks at what is due.
    pub fn handle_timers(&mut self, now: Now, link: &mut impl Transport) {
        self.turn(now, link, |partition, turn| partition.fire_timers(turn))
    }

    fn fire_timers(&mut self, turn: &mut Turn<'_, impl Transport>) {
        while let Some((at, subject)) = self.core.timers.pop_due(turn.now.instant) {
            match subject {
                TimerKey::Conn(key) => self.core.check_conn_deadlines(turn, key, at),
                TimerKey::Session(key) => {
                    self.core.check_session_deadlines(turn, key);
                    self.core.expire(turn, key, at);
                }
                TimerKey::Relay(guild_id, index, _) => self.fire_relay_timer(turn, guild_id, index, at),
            }
        }
    }

    /// Asks so many clients whose connection has a larger compression context to go away and resume (op 7), each once:
    /// they come back with a usual one. How many were asked.
    pub fn take_back_upgrades(&mut self, now: Now, count: usize, link: &mut impl Transport) -> usize {
        self.turn(now, link, |partition, turn| partition.reclaim_upgrades(turn, count))
    }

    fn reclaim_upgrades(&mut self, turn: &mut Turn<'_, impl Transport>, count: usize) -> usize {
        let is_larger = |conn: &&Conn| conn.compressor.as_ref().is_some_and(|stream| stream.is_upgraded());
        let chosen =
            |conn: &&Conn| is_larger(conn) && !conn.is_asked_to_leave && matches!(conn.phase, Phase::Established(_));
        let conns = self.core.conns.iter().filter(|(_, conn)| chosen(conn));
        let keys: Vec<SlotKey> = conns.map(|(key, _)| key).take(count).collect();
        for key in &keys {
            let Some(conn) = self.core.conns.get_mut(*key) else { continue };
            conn.is_asked_to_leave = true;
            let encoding = conn.encoding;
            let payload = self.core.fixed(encoding).reconnect.clone();
            self.core.control(turn, *key, Control::Payload(payload));
        }
        keys.len()
    }

    /// Asks `count` more clients to go away and resume (op 7), whatever they are doing. Who has not gone `grace_ms`
    /// later is closed with 4000. What came of it, over all of them.
    pub fn send_reconnects(&mut self, now: Now, count: usize, grace_ms: u64, link: &mut impl Transport) -> Leaving {
        self.turn(now, link, |partition, turn| partition.reconnect_some(turn, count, grace_ms))
    }

    fn reconnect_some(&mut self, turn: &mut Turn<'_, impl Transport>, count: usize, grace_ms: u64) -> Leaving {
        let is_unasked = |conn: &Conn| conn.leave_by == Instant(u64::MAX) && !matches!(conn.phase, Phase::Closing);
        let mut unasked: Vec<SlotKey> =
            self.core.conns.iter().filter(|(_, conn)| is_unasked(conn)).map(|(key, _)| key).collect();
        let later = unasked.split_off(count.min(unasked.len()));
        let leave_by = turn.now.instant.after_ms(grace_ms);
        for key in &unasked {
            let Some(conn) = self.core.conns.get_mut(*key) else { continue };
            (conn.is_asked_to_leave, conn.leave_by) = (true, leave_by);
            let encoding = conn.encoding;
            let payload = self.core.fixed(encoding).reconnect.clone();
            self.core.arm_timer(leave_by, *key);
            self.core.control(turn, *key, Control::Payload(payload));
        }
        Leaving { asked_count: unasked.len(), unasked_count: later.len(), conns_count: self.core.conns.len() }
    }

    /// Takes over other limits, and how the streams of new connections are written. They hold from the next time
    /// somebody is measured by them; a connection's message size stays what it was.
    pub fn take_limits(&mut self, from: &PartitionConfig) {
        self.core.config.take_limits(from);
        self.core.matchers.take_settings(from.stream_codec);
    }

    /// Closes every connection so that its client comes back and resumes.
    pub fn close_all(&mut self, now: Now, link: &mut impl Transport) {
        self.turn(now, link, |partition, turn| {
            for key in partition.core.conns.keys() {
                partition.core.close(turn, key, CloseCode::UnknownError);
            }
        });
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

    /// Makes sure the relay is looked at when it wants to be.
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

/// What a session says when it enters a guild.
fn attach_message(session: &Session, partition: PartitionId, guild_id: GuildId) -> Option<ToGuild> {
    Some(ToGuild::Attach {
        session: session.key_in(partition, guild_id)?,
        session_id: session.id.clone(),
        user_id: session.user.id,
        kind: session.kind(),
        presence: session.profile.presence.clone(),
        members: session.members_wanted(),
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

impl Core {
    /// A guild lost what it had told us: sessions that wait to enter it ask once more, since the answer may be lost
    /// too.
    fn attach_again(&mut self, guild_id: GuildId, relay: u16) {
        for key in self.sessions.keys() {
            let Some(session) = self.sessions.get_mut(key) else { continue };
            let Some(guild) = session.guilds.get(guild_id) else { continue };
            if guild.membership == Membership::Entering && guild.relay == relay {
                session.profile.asked_again = true;
                let attach = attach_message(session, self.config.partition, guild_id);
                self.outputs.extend(attach.map(|attach| Output::ToGuild(guild_id, attach)));
            }
        }
    }

    /// A client may be silent for so long.
    pub(crate) fn heartbeat_grace_ms(&self) -> u64 {
        self.config.heartbeat_interval_ms.saturating_mul(3) / 2
    }

    fn check_conn_deadlines(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, at: Instant) {
        let grace_ms = self.heartbeat_grace_ms();
        let identify_ms = self.config.identify_deadline_ms;
        let Some(conn) = self.conns.get_mut(key) else { return };
        if conn.timer_at != at {
            return;
        }
        conn.timer_at = Instant(u64::MAX);
        let mut next = match conn.phase {
            Phase::Closing => return self.abort(turn, key),
            Phase::AwaitingIdentify | Phase::Authenticating(_) | Phase::Established(_)
                if conn.leave_by <= turn.now.instant =>
            {
                return self.close(turn, key, CloseCode::UnknownError);
            }
            Phase::AwaitingIdentify | Phase::Authenticating(_) => {
                let deadline = conn.phase_since.after_ms(identify_ms);
                if deadline <= turn.now.instant {
                    return self.close(turn, key, CloseCode::NotAuthenticated);
                }
                deadline
            }
            Phase::Established(_) => {
                let deadline = conn.last_inbound.after_ms(grace_ms);
                if deadline <= turn.now.instant {
                    return self.close(turn, key, CloseCode::UnknownError);
                }
                deadline
            }
        };
        next = next.min(conn.leave_by);
        if let Some(since) = conn.blocked_since {
            let stalled = since.after_ms(self.config.write_stall_ms);
            if stalled <= turn.now.instant {
                self.counters.slow_consumers_total += 1;
                return self.abort(turn, key);
            }
            next = next.min(stalled);
        }
        if conn.rendered_bytes > 0 {
            let too_long = conn.rendered_at.after_ms(self.config.write_stall_ms);
            let is_waited_for = !self.waiting_to_render.is_empty();
            if too_long <= turn.now.instant && is_waited_for {
                self.counters.slow_consumers_total += 1;
                return self.abort(turn, key);
            }
            next = next.min(too_long.max(turn.now.instant.after_ms(self.config.write_stall_ms / 2)));
        }
        self.arm_timer(next, key);
    }

    fn check_session_deadlines(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) {
        let window_ms = self.config.resume_window_ms;
        let Some(session) = self.sessions.get_mut(key) else { return };
        if session.conn.is_none() && turn.now.instant.ms_since(session.detached_at) >= window_ms {
            return self.end_session(key);
        }
        if let Some(pending_ready) = &mut session.pending_ready
            && pending_ready.deadline <= turn.now.instant
        {
            if pending_ready.directs.is_none() {
                // What is missing of these nothing would tell later.
                return self.give_up(turn, key);
            }
            // Whoever answers later is told by GUILD_CREATE.
            pending_ready.waiting_count = 0;
            self.finish_pending_ready(turn, key);
        }
    }
}
