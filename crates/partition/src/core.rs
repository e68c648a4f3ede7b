//! Core: everything of a partition but its relays, so that a relay can call into it while it fans out.
//!
//! Owns        connections, sessions, timers, and outputs to the rest of the node.
//! Invariants  K1 a session's `conn` and that connection's `Established` name each other. K2 `departed` and
//!             `requests` are empty between inputs: `Partition::turn` sees to it.

use crate::{
    client_requests::PendingRequest,
    config::PartitionConfig,
    conn::{CONTROL_MAX, Conn, Control, INVALID_SESSIONS_MAX, PendingAuth, Phase},
    counters::Counters,
    sent::{Sampler, SentTable},
    sessions::SessionChange,
    stream_codec::Matchers,
    timers::{TimerKey, Timers},
    transport::{Gatekeeper, Output, Transport},
    turn::Turn,
};
use guildhall_codec::{BodyDeflater, Encoding, MessageInflater, control_payload};
use guildhall_guild_protocol::{Published, RelayId, Retention, SessionKey, ToGuild, Visibility};
use guildhall_model::{CloseCode, GuildId, SessionFate, UserId, opcode::from_gateway as op};
use guildhall_session::{Dispatch, Session, SessionIds, Sharing};
use guildhall_stdx::{Now, SlotKey, Slots};
use guildhall_ws_proto::close_frame;
use serde::Serialize;
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    rc::Rc,
    sync::Arc,
};

/// Dispatches remembered for other relays of the same guild.
const RECENT_DISPATCHES_MAX: usize = 32;

/// How long a connection may take to answer our close frame before it is cut.
const CLOSING_MS: u64 = 5_000;

/// Who sent the first close frame.
#[derive(Clone, Copy)]
enum By {
    Us,
    Client,
}

/// A session that left a guild and that its relay has not removed yet.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    pub guild_id: GuildId,
    pub relay: u16,
    pub user_id: UserId,
    pub slot: u32,
}

/// Payloads that never change, per encoding.
#[derive(Debug)]
pub struct FixedPayloads {
    pub heartbeat_ack: Arc<[u8]>,
    pub invalid_session: Arc<[u8]>,
    pub reconnect: Arc<[u8]>,
    pub hello: Arc<[u8]>,
}

#[derive(Serialize)]
struct HelloBody {
    heartbeat_interval: u64,
    _trace: [&'static str; 1],
}

fn payload(encoding: Encoding, op: u8, d: &impl Serialize) -> Arc<[u8]> {
    control_payload(encoding, op, d).expect("fixed payloads are numbers and booleans").into()
}

impl FixedPayloads {
    fn new(encoding: Encoding, heartbeat_interval: u64) -> Self {
        Self {
            heartbeat_ack: payload(encoding, op::HEARTBEAT_ACK, &()),
            invalid_session: payload(encoding, op::INVALID_SESSION, &false),
            reconnect: payload(encoding, op::RECONNECT, &()),
            hello: payload(
                encoding,
                op::HELLO,
                &HelloBody { heartbeat_interval, _trace: ["[\"guildhall\",{\"micros\":0}]"] },
            ),
        }
    }
}

/// See the module.
pub struct Core {
    pub config: PartitionConfig,
    pub gatekeeper: Arc<dyn Gatekeeper>,
    pub conns: Slots<Conn>,
    pub sessions: Slots<Session>,
    pub by_id: HashMap<Arc<str>, SlotKey>,
    /// A set, because most users have one session: a vector for each would need more memory than an entry.
    pub by_user: BTreeSet<(UserId, SlotKey)>,
    pub ids: SessionIds,
    pub timers: Timers,
    pub outputs: VecDeque<Output>,
    pub departed: Vec<Departure>,
    pub requests: Vec<(SlotKey, GuildId, PendingRequest)>,
    /// Connections with something to write, in the order they got it.
    pub dirty: Vec<SlotKey>,
    /// More events follow in this batch: each connection is written once, at its end.
    pub batching: bool,
    /// Within `flush`, at whose end the link sends what it was left.
    pub is_flushing: bool,
    pub scratch: Vec<u8>,
    pub flushes_count: u64,
    /// Compressors of shared-match streams.
    pub matchers: Matchers,
    /// For bodies that are compressed once; it has no context before the first.
    pub deflater: BodyDeflater,
    /// Inflates messages of clients, one at a time. Made for the first compressed message.
    pub inflater: Option<MessageInflater>,
    /// The message being inflated; kept for its allocation.
    pub inflated: Vec<u8>,
    /// The newest events' dispatches: a guild's next relay here is about to get the same.
    pub recent_dispatches: VecDeque<Rc<Dispatch>>,
    /// Bytes of READY and GUILD_CREATE that were made and are not written yet, over all connections.
    pub rendered_bytes: usize,
    /// Connections that wait for room among these, first come first served; those that are gone among them are never
    /// more than those that are there.
    pub waiting_to_render: VecDeque<SlotKey>,
    /// Of those, the ones that have chunks of members to make and had no turn.
    pub waiting_for_chunks: Vec<SlotKey>,
    /// Member chunks made since the current flush began.
    pub chunks_made: usize,
    /// Sessions that have a connection.
    pub attached_count: usize,
    pub fixed: [FixedPayloads; 2],
    pub tombstone: Rc<Dispatch>,
    pub owed: Rc<Dispatch>,
    /// Sessions whose connection stopped at an owed state, with its seq.
    pub indebted: Vec<(SlotKey, u64)>,
    pub counters: Counters,
    pub sent: SentTable,
    pub sampler: Sampler,
}

impl Core {
    pub fn new(config: PartitionConfig, gatekeeper: Arc<dyn Gatekeeper>) -> Self {
        let matchers = Matchers::new(config.stream_codec);
        let deflater = BodyDeflater::new(config.deflate).unwrap_or_else(|_| BodyDeflater::default());
        Self {
            ids: SessionIds::new(config.partition, config.session_secret),
            fixed: [Encoding::Json, Encoding::Etf]
                .map(|encoding| FixedPayloads::new(encoding, config.heartbeat_interval_ms)),
            config,
            gatekeeper,
            conns: Slots::default(),
            sessions: Slots::default(),
            by_id: HashMap::new(),
            by_user: BTreeSet::new(),
            timers: Timers::default(),
            outputs: VecDeque::new(),
            departed: Vec::new(),
            requests: Vec::new(),
            dirty: Vec::new(),
            batching: false,
            is_flushing: false,
            scratch: Vec::new(),
            flushes_count: 0,
            matchers,
            deflater,
            inflater: None,
            inflated: Vec::new(),
            recent_dispatches: VecDeque::new(),
            rendered_bytes: 0,
            waiting_to_render: VecDeque::new(),
            waiting_for_chunks: Vec::new(),
            chunks_made: 0,
            attached_count: 0,
            tombstone: Dispatch::tombstone(),
            owed: Dispatch::owed(),
            indebted: Vec::new(),
            counters: Counters::default(),
            sent: SentTable::default(),
            sampler: Sampler::default(),
        }
    }

    pub fn fixed(&self, encoding: Encoding) -> &FixedPayloads {
        &self.fixed[encoding as usize]
    }

    /// Queues a message outside the sequence; a client that makes us queue too many is cut. Nothing follows a close
    /// frame.
    pub fn control(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, control: Control) {
        let Some(conn) = self.conns.get_mut(key).filter(|conn| !matches!(conn.phase, Phase::Closing)) else { return };
        if conn.control.len() >= CONTROL_MAX {
            self.abort(turn, key);
            return;
        }
        conn.control.push_back(control);
        self.pump(turn, key);
    }

    /// Closes with a gateway close code. The close frame is sent, then the socket is half-closed, then dropped.
    pub fn close(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, code: CloseCode) {
        self.close_because(turn, key, code, code.reason());
    }

    /// Closes with a gateway code and a more specific reason.
    pub fn close_because(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, code: CloseCode, reason: &str) {
        self.end_service(turn.now, key, code.session_fate());
        self.begin_closing(turn, key, Some(code.code()), reason, By::Us);
    }

    /// Closes with a WebSocket close code, for faults below the gateway protocol.
    pub fn close_websocket(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        code: Option<u16>,
        reason: &str,
        fate: SessionFate,
    ) {
        self.end_service(turn.now, key, fate);
        self.begin_closing(turn, key, code, reason, By::Us);
    }

    /// Answers a client's close frame.
    pub fn answer_close(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        code: Option<u16>,
        fate: SessionFate,
    ) {
        self.end_service(turn.now, key, fate);
        self.begin_closing(turn, key, code, "", By::Client);
    }

    fn begin_closing(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        code: Option<u16>,
        reason: &str,
        by: By,
    ) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        if matches!(conn.phase, Phase::Closing) {
            return;
        }
        match by {
            By::Us => self.counters.closed_by_us.count(code),
            By::Client => self.counters.closed_by_clients.count(code),
        }
        turn.link.note_close(key, code, matches!(by, By::Client));
        conn.phase = Phase::Closing;
        conn.phase_since = turn.now.instant;
        if conn.is_frame_truncated {
            return self.abort(turn, key);
        }
        // A frame in progress is completed. Waiting control messages are dropped: the client would ignore them.
        conn.control.clear();
        conn.pending_input = Vec::new();
        conn.control.push_back(Control::Frame(close_frame(code, reason).to_vec()));
        self.arm_timer(turn.now.instant.after_ms(CLOSING_MS), key);
        turn.link.set_reading(key, true);
        self.pump(turn, key);
    }

    /// Drops a connection without a word: its socket is dead or takes nothing. The session lives on.
    pub fn abort(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) {
        self.end_service(turn.now, key, SessionFate::Keep);
        if let Some(conn) = self.conns.remove(key) {
            self.counters.aborted_total += u64::from(!matches!(conn.phase, Phase::Closing));
            self.give_back_rendered(conn.rendered_bytes);
            match conn.blocked_since {
                Some(_) => turn.link.reset_conn(key),
                None => turn.link.drop_conn(key),
            }
        }
    }

    /// Ends the service of a connection's session.
    pub fn end_service(&mut self, now: Now, key: SlotKey, fate: SessionFate) {
        self.keep_partial_frame(key);
        let session_key = match self.conns.get(key).map(|conn| &conn.phase) {
            Some(Phase::Established(session_key)) => *session_key,
            Some(Phase::Authenticating(claim)) => {
                // The client left before its token was checked.
                if matches!(**claim, PendingAuth::Identify(_)) {
                    self.gatekeeper.refund(now);
                }
                return;
            }
            Some(Phase::AwaitingIdentify | Phase::Closing) | None => return,
        };
        let Some(session) = self.sessions.get_mut(session_key) else { return };
        self.attached_count -= usize::from(session.conn.take().is_some());
        session.detached_at = now.instant;
        let expires = now.instant.after_ms(self.config.resume_window_ms);
        match fate {
            // A session without READY has nothing to resume.
            SessionFate::Keep if session.pending_ready.is_none() => {
                self.timers.push(expires, TimerKey::Session(session_key));
                self.output_session_change(SessionChange::Disconnected, session_key);
            }
            SessionFate::Keep | SessionFate::Drop => self.end_session(session_key),
        }
    }

    /// Removes a session, and detaches it from its guilds and relays.
    pub fn end_session(&mut self, key: SlotKey) {
        if let Some(conn) = self.sessions.get(key).and_then(|session| session.conn) {
            self.keep_partial_frame(conn);
        }
        self.output_session_change(SessionChange::Gone, key);
        let Some(session) = self.sessions.remove(key) else { return };
        self.counters.sessions_ended_total += 1;
        self.attached_count -= usize::from(session.conn.is_some());
        self.by_id.remove(&session.id);
        self.by_user.remove(&(session.user.id, key));
        for entry in session.guilds.iter() {
            let relay = RelayId { partition: self.config.partition, index: entry.relay };
            let of_guild = SessionKey { relay, slot: key.slot, generation: key.generation };
            self.outputs.push_back(Output::ToGuild(entry.guild_id, ToGuild::Detach { session: of_guild }));
            let (guild_id, relay) = (entry.guild_id, entry.relay);
            self.departed.push(Departure { guild_id, relay, user_id: session.user.id, slot: key.slot });
        }
        self.gatekeeper.session_ended(&session.user);
    }

    /// Sessions of a user in this partition.
    pub fn user_sessions(&self, user_id: UserId) -> Vec<SlotKey> {
        let (first, last) = (SlotKey { slot: 0, generation: 0 }, SlotKey { slot: u32::MAX, generation: u32::MAX });
        self.by_user.range((user_id, first)..=(user_id, last)).map(|(_, key)| *key).collect()
    }

    /// Op 9 `false`. The connection stays open, unless it had `INVALID_SESSIONS_MAX` of them: then it is closed with
    /// 4008.
    pub fn refuse_session(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        if conn.invalid_sessions >= INVALID_SESSIONS_MAX {
            return self.close(turn, key, CloseCode::RateLimited);
        }
        conn.invalid_sessions += 1;
        let encoding = conn.encoding;
        let payload = self.fixed(encoding).invalid_session.clone();
        self.control(turn, key, Control::Payload(payload));
    }

    /// The dispatch of an event that is about to be delivered, made once for all relays that get it in a row. Each
    /// relay has its own of a presence: it supersedes the one before when its own sessions get the next.
    pub fn dispatch_of(&mut self, published: &Arc<Published>, visibility: Visibility) -> Rc<Dispatch> {
        let sharing = Sharing { visibility, turn: self.flushes_count };
        let is_shared = !matches!(published.event.retention(), Retention::Presence(_));
        if let Some(recent) = self.recent_dispatches.iter().find(|recent| is_shared && recent.is_of(published)) {
            recent.share(sharing);
            return recent.clone();
        }
        let dispatch = Dispatch::published(published);
        dispatch.share(sharing);
        if !is_shared {
            return dispatch;
        }
        if self.recent_dispatches.len() >= RECENT_DISPATCHES_MAX {
            self.recent_dispatches.pop_front();
        }
        self.recent_dispatches.push_back(dispatch.clone());
        dispatch
    }

    /// Makes sure a connection is looked at by `at`.
    pub fn arm_timer(&mut self, at: guildhall_stdx::Instant, key: SlotKey) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        if at < conn.timer_at {
            conn.timer_at = at;
            self.timers.push(at, TimerKey::Conn(key));
        }
    }
}
