//! Core: a partition without its relays, so that a relay can call into it during a fan-out.
//!
//! Owns        connections, sessions, timers, and outputs to the rest of the node, in parts with private state.
//! Invariants  K1 a session's `conn` and that connection's `Established` name each other. K2 `TurnWork` is empty
//!             between inputs.

use crate::{
    config::PartitionConfig,
    conn::{Conn, Control, Flooded, INVALID_SESSIONS_MAX, PendingAuth, Phase},
    counters::Counters,
    flush_queue::FlushQueue,
    inflate::Inflate,
    mirroring::Mirroring,
    mirrors::Mirrors,
    moves::Moves,
    recent_dispatches::RecentDispatches,
    recent_news::RecentNews,
    refused::{IdentifyFault, IdentifyRefused, REASON_BYTES_MAX, ResumeFault, ResumeRefused},
    render_budget::RenderBudget,
    sent::{Sampler, SentTable},
    session_table::SessionTable,
    stream_codec::Matchers,
    timers::{TimerKey, Timers},
    transport::{CloseSender, Gatekeeper, Output, Transport},
    trial::{ExperimentTable, Trial},
    turn::Turn,
    turn_work::{Departure, TurnWork},
};
use guildhall_codec::{BodyDeflater, Encoding, control_payload};
use guildhall_guild_protocol::{Published, RelayId, SessionChange, SessionKey, ToGuild, Visibility};
use guildhall_model::{CloseCode, SessionFate, opcode::from_gateway as op};
use guildhall_session::{Dispatch, GuildTexts, SessionIds, Sharing};
use guildhall_stdx::{Instant, Now, SlotKey, Slots};
use guildhall_ws_proto::close_frame;
use serde::Serialize;
use std::{collections::VecDeque, rc::Rc, sync::Arc};

/// How long a connection may take to answer our close frame before the connection is aborted.
const CLOSING_MS: u64 = 5_000;

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
    pub sessions: SessionTable,
    pub ids: SessionIds,
    pub timers: Timers,
    pub outputs: VecDeque<Output>,
    pub work: TurnWork,
    pub flush_queue: FlushQueue,
    pub render: RenderBudget,
    pub recent: RecentDispatches,
    /// GUILD_CREATE, for sessions that see the same of a guild.
    pub guild_texts: GuildTexts,
    /// Sessions that come from other nodes.
    pub moves: Moves,
    pub news: RecentNews,
    /// Reports of sessions here to other nodes.
    pub mirroring: Mirroring,
    /// Sessions of other nodes.
    pub mirrors: Mirrors,
    /// Frames of one write; kept for its allocation.
    pub scratch: Vec<u8>,
    /// Compressors of shared-match streams.
    pub matchers: Matchers,
    /// For bodies that are compressed once; it has no context before the first.
    pub deflater: BodyDeflater,
    pub inflate: Inflate,
    pub fixed: [FixedPayloads; 2],
    pub tombstone: Rc<Dispatch>,
    pub owed: Rc<Dispatch>,
    pub counters: Counters,
    pub sent: SentTable,
    pub sampler: Sampler,
    /// Running experiments; none if there are none.
    pub experiments: Option<Arc<ExperimentTable>>,
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
            sessions: SessionTable::default(),
            timers: Timers::default(),
            outputs: VecDeque::new(),
            work: TurnWork::default(),
            flush_queue: FlushQueue::default(),
            render: RenderBudget::default(),
            recent: RecentDispatches::default(),
            guild_texts: GuildTexts::default(),
            moves: Moves::default(),
            news: RecentNews::default(),
            mirroring: Mirroring::default(),
            mirrors: Mirrors::default(),
            scratch: Vec::new(),
            matchers,
            deflater,
            inflate: Inflate::default(),
            tombstone: Dispatch::tombstone(),
            owed: Dispatch::owed(),
            counters: Counters::default(),
            sent: SentTable::default(),
            sampler: Sampler::default(),
            experiments: None,
        }
    }

    pub fn fixed(&self, encoding: Encoding) -> &FixedPayloads {
        &self.fixed[encoding as usize]
    }

    /// Queues a message outside the sequence. A client that causes too many floods, and its connection is aborted.
    /// Nothing follows a close frame.
    pub fn control(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, control: Control) {
        let Some(conn) = self.conns.get_mut(key).filter(|conn| !matches!(conn.phase, Phase::Closing)) else { return };
        match conn.send.push_control(control) {
            Ok(()) => self.pump(turn, key),
            Err(Flooded) => self.abort(turn, key),
        }
    }

    /// Closes with a gateway close code. The close frame is sent, then the socket is half-closed, then dropped.
    pub fn close(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, code: CloseCode) {
        self.close_because(turn, key, code, code.reason());
    }

    /// Closes with a gateway code and a more specific reason.
    pub fn close_because(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, code: CloseCode, reason: &str) {
        self.end_service(turn.now, key, code.session_fate());
        self.begin_closing(turn, key, Some(code.code()), reason, CloseSender::Node);
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
        self.begin_closing(turn, key, code, reason, CloseSender::Node);
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
        self.begin_closing(turn, key, code, "", CloseSender::Client);
    }

    fn begin_closing(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        code: Option<u16>,
        reason: &str,
        sender: CloseSender,
    ) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        if matches!(conn.phase, Phase::Closing) {
            return;
        }
        let mut unread = None;
        match sender {
            CloseSender::Node => self.counters.closed_by_us.count(code),
            CloseSender::Client => {
                self.counters.closed_by_clients.count(code);
                if Trial::is_decode_fault(code) {
                    conn.sent.fail_trial();
                    unread = conn.codec.dictionary().filter(|_| matches!(conn.phase, Phase::AwaitingIdentify));
                }
            }
        }
        if let Some(dictionary) = unread {
            self.count_unreadable(dictionary);
        }
        let Some(conn) = self.conns.get_mut(key) else { return };
        turn.transport.note_close(key, code, sender);
        conn.phase = Phase::Closing;
        conn.timing.begin_phase(turn.now.instant);
        if conn.cursor.is_frame_truncated() {
            return self.abort(turn, key);
        }
        // A frame in progress is completed first.
        conn.inbox.take_pending();
        conn.send.close_with(close_frame(code, reason).to_vec());
        self.arm_timer(turn.now.instant.after_ms(CLOSING_MS), key);
        turn.transport.resume_reading(key);
        self.pump(turn, key);
    }

    /// Ends a connection without a close frame: its socket is dead or takes nothing. The session survives.
    pub fn abort(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) {
        self.end_service(turn.now, key, SessionFate::Keep);
        if let Some(mut conn) = self.conns.remove(key) {
            self.counters.aborted_total += u64::from(!matches!(conn.phase, Phase::Closing));
            self.render.release(&mut conn.render);
            match conn.send.is_blocked() {
                true => turn.transport.reset_conn(key),
                false => turn.transport.drop_conn(key),
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
        let Some(session) = self.sessions.detach(session_key) else { return };
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
        self.output_presence_change(key);
        if self.sessions.get(key).is_some() {
            self.counters.sessions_ended_total += 1;
        }
        self.remove_session(key);
    }

    /// Removes a session that has ended or that another node has from now on.
    pub fn remove_session(&mut self, key: SlotKey) {
        let Some(session) = self.sessions.remove(key) else { return };
        self.moves.forget(key);
        self.mirroring.forget(&session);
        for entry in session.guilds.iter() {
            let relay = RelayId { partition: self.config.partition, index: entry.relay };
            let of_guild = SessionKey { relay, slot: key.slot, generation: key.generation };
            self.outputs.push_back(Output::ToGuild(entry.guild_id, ToGuild::Detach { session: of_guild }));
            if entry.membership.is_away() {
                continue;
            }
            let (guild_id, relay) = (entry.guild_id, entry.relay);
            self.work.push_departure(Departure { guild_id, relay, user_id: session.user.id, slot: key.slot });
        }
        self.gatekeeper.session_ended(&session.user);
    }

    /// Sends op 9 `false`. The connection stays open; after `INVALID_SESSIONS_MAX` of them it is closed with 4008.
    pub fn refuse_session(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        if conn.invalid_sessions >= INVALID_SESSIONS_MAX {
            return self.close(turn, key, CloseCode::RateLimited);
        }
        conn.invalid_sessions += 1;
        let encoding = conn.codec.encoding();
        let payload = self.fixed(encoding).invalid_session.clone();
        self.control(turn, key, Control::Payload(payload));
    }

    /// Answers an IDENTIFY with the close code of its fault, or with op 9.
    pub fn refuse_identify(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, refused: IdentifyRefused) {
        match refused.fault.close_code() {
            None => self.refuse_session(turn, key),
            Some(code) => {
                let reason = match &refused.detail {
                    Some(detail) => format!("{}: {detail}", code.reason()),
                    // Only the log has the reason of a refused token.
                    None if refused.fault == IdentifyFault::Token => code.reason().to_owned(),
                    None => format!("{}: {}", code.reason(), refused.fault),
                };
                let reason = if reason.len() <= REASON_BYTES_MAX { &reason } else { code.reason() };
                self.close_because(turn, key, code, reason);
            }
        }
        self.outputs.push_back(Output::IdentifyRefused(refused));
    }

    /// Answers a RESUME with op 9, because several libraries resume for ever after a close code. A refused token closes
    /// the connection with 4004.
    pub fn refuse_resume(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, refused: ResumeRefused) {
        match refused.fault {
            ResumeFault::Token => self.close(turn, key, CloseCode::AuthenticationFailed),
            ResumeFault::Unavailable => self.refuse_session(turn, key),
            _ => {
                self.counters.resumes_refused_total += 1;
                self.refuse_session(turn, key);
            }
        }
        self.outputs.push_back(Output::ResumeRefused(refused));
    }

    /// The dispatch of an event that is about to be delivered, for recipients with this visibility.
    pub fn dispatch(&mut self, published: &Arc<Published>, visibility: Visibility) -> Rc<Dispatch> {
        self.recent.dispatch(published, Sharing { visibility, turn: self.flush_queue.flushes_count() })
    }

    /// Arms a connection's timer, unless it fires earlier.
    pub fn arm_timer(&mut self, at: Instant, key: SlotKey) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        if conn.timing.arm(at) {
            self.timers.push(at, TimerKey::Conn(key));
        }
    }
}
