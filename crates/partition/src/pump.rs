//! Pump: from replay buffers and control queues to sockets.
//!
//! Owns        the order in which a connection's bytes leave, and every decision about a slow consumer, a
//!             client that reads too slowly.
//! Doors       `push` gives a session a dispatch (and writes it at once, or leaves it with the transport, if the
//!             connection is ready); `flush` writes the queued dispatches of all connections, and `pump` those of one.
//! Invariants  W1 a connection's dispatches leave in the order of their seq. None is skipped but, up to RESUMED,
//!             tombstones and superseded ones, and those that a buffer dropped because the connection is further behind
//!             than a share. W2 no connection waits for another. A connection that takes nothing for `write_stall_ms`
//!             is aborted, and its session can be resumed. A connection that is further behind than `backlog_*`, or
//!             that lost its next dispatch, is aborted, and its session ends. Only READY and GUILD_CREATE wait, in
//!             turns, and a client that delays the others for too long is disconnected. W3 no allocation per delivery
//!             in steady state (tests `no_allocation_per_delivery*`).
//! Limits      `backlog_events_max`, `backlog_bytes_max`, `write_stall_ms`, `rendered_bytes_max`.
//! Not here    the bytes of one write: `writer`.
//! Spec        docs/protocol/reference.md §2.3, §2.4.

use crate::{
    conn::{Conn, Phase},
    core::Core,
    sent::{SentBy, Tally},
    transport::{Closed, PartialSend, Transport},
    turn::Turn,
    writer::{
        PumpError, control_frame, is_worth_compressing, may_be_dropped, send_unsent, write_compressed,
        write_payload_compressed, write_shared,
    },
};
use guildhall_codec::Encoding;
use guildhall_guild_protocol::Redaction;
use guildhall_model::{AccountKind, CloseCode};
use guildhall_prefetch::prefetch;
use guildhall_session::{Dispatch, ReplayEntry, Session, next_chunk};
use guildhall_stdx::{Now, SlotKey};
use std::rc::Rc;

/// Size that counts for a dispatch that is rendered when it is written.
const LAZY_BYTES: usize = 256;
/// Member chunks made per visit, so that one large guild does not delay all other connections.
const CHUNKS_PER_VISIT: usize = 4;

/// Number of connections ahead of the current one at which a `Conn` is prefetched.
const CONNS_AHEAD: usize = 12;
/// The same for the session and the compressor.
const COMPRESSORS_AHEAD: usize = 8;
/// The same for memory that the session and the compressor refer to.
const RINGS_AHEAD: usize = 4;

/// Result of a visit to a connection.
enum Pumped {
    /// It took everything.
    Drained,
    /// It is full, or has more to do at the next visit.
    Waiting,
}

impl Core {
    /// Appends a dispatch to one session that the others of its group do not receive, or not in this form. Returns the
    /// bytes that the dispatch counts for.
    pub fn push(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        slot: u32,
        dispatch: &Rc<Dispatch>,
        redaction: Redaction,
    ) -> usize {
        let Some(session) = self.sessions.at_mut(slot) else { return 0 };
        let bytes = match dispatch.is_lazy() {
            // It is rendered when it is written, and can be rendered again: only its source takes memory.
            true => LAZY_BYTES,
            false => dispatch.frame(session.encoding, redaction).body().len(),
        };
        let seq = session.dispatch(dispatch.clone(), redaction, bytes);
        self.pushed(turn, slot, seq, dispatch, redaction);
        bytes
    }

    /// Appends a session's next dispatch regardless of the limits. `pump` writes it.
    pub fn append(&mut self, key: SlotKey, dispatch: Rc<Dispatch>) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        self.counters.dispatches_total += 1;
        let bytes = dispatch.frame(session.encoding, Redaction::None).body().len();
        session.dispatch(dispatch, Redaction::None, bytes);
    }

    /// A session was given a dispatch under `seq`. Comes from the relay's fan-out; goes on to the socket.
    pub fn pushed(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        slot: u32,
        seq: u64,
        dispatch: &Rc<Dispatch>,
        redaction: Redaction,
    ) {
        let Some(session) = self.sessions.at_mut(slot) else { return };
        self.counters.dispatches_total += 1;
        let (key, config) = (session.key, &self.config);
        let Some(conn_key) = session.conn else {
            if session.replay.is_past(config.replay_events_max, config.replay_bytes_max) {
                self.end_session(key);
            } else if session.replay.needs_room(&config.replay_share) {
                session.replay.make_room(&config.replay_share, u64::MAX, (&self.tombstone, &self.owed));
            }
            return;
        };
        let Some(conn) = self.conns.get_mut(conn_key) else { return };
        if let Some(trial) = conn.sent.trial_mut()
            && session.pending_ready.is_none()
        {
            trial.await_delivery(seq, turn.transport.handed_over_ns());
        }
        if conn.codec.shares_search() && !conn.send.is_blocked() {
            dispatch.count_recipient(session.encoding, redaction);
        }
        let straight = !self.flush_queue.is_batching()
            && conn.cursor.next_seq() == seq
            && conn.codec.compressor().is_none()
            && !(session.compress_payloads && dispatch.is_local())
            && !dispatch.is_lazy();
        let straight = straight && !conn.send.is_blocked() && conn.is_drained() && session.pending_ready.is_none();
        if straight && !turn.transport.has_queued(conn_key) {
            let mut tally = Tally {
                counters: &mut self.counters,
                sent: &mut self.sent,
                sampler: &mut self.sampler,
                taps: &config.taps,
                now_ms: turn.now.instant.0,
            };
            let mut frame = dispatch.frame(session.encoding, redaction);
            let (form, way) = (conn.codec.form(), conn.sent.way());
            let started_at = if form.compresses() { tally.time(turn.transport) } else { None };
            let bytes = form.write(&mut frame, seq, &mut self.deflater);
            tally.timed(started_at, turn.transport, dispatch, way);
            let sent = if turn.transport.queue_send(conn_key, bytes) {
                Ok(bytes.len())
            } else {
                turn.transport.send(conn_key, bytes)
            };
            let all = bytes.len();
            let is_apart = may_be_dropped(dispatch);
            if let Ok(sent) = sent
                && is_apart
            {
                conn.send.keep(&bytes[sent..]);
            }
            if sent.is_ok_and(|sent| sent > 0 || is_apart) {
                tally.started((&mut conn.sent, way, SentBy::Form(form)), (&*session, dispatch), &frame, seq, all);
            }
            match sent {
                Ok(sent) if sent == all => {
                    tally.took(sent);
                    conn.cursor.advance();
                }
                Ok(sent) => {
                    tally.took(sent);
                    if is_apart {
                        conn.cursor.advance();
                    } else {
                        conn.cursor.add_sent(sent);
                    }
                    self.block(turn.now, conn_key);
                }
                Err(Closed) => {
                    drop(frame);
                    self.abort(turn, conn_key);
                    return;
                }
            }
        } else if !conn.send.is_blocked() && session.pending_ready.is_none() {
            self.flush_queue.push(conn, conn_key);
        }
        self.enforce_limits(turn, key, conn_key);
    }

    fn enforce_limits(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, conn_key: SlotKey) {
        let (Some(session), Some(conn)) = (self.sessions.get_mut(key), self.conns.get(conn_key)) else { return };
        let config = &self.config;
        if session.replay.needs_room(&config.replay_share) {
            session.replay.make_room(&config.replay_share, conn.cursor.next_seq(), (&self.tombstone, &self.owed));
        } else if !session.replay.is_past(config.replay_events_max, config.replay_bytes_max) {
            return;
        }
        session.replay.enforce(config.replay_events_max, config.replay_bytes_max, conn.cursor.next_seq());
        let is_slow = session.replay.is_past(config.backlog_events_max, config.backlog_bytes_max)
            || session.replay.share_is_past(config.backlog_events_max, config.backlog_bytes_max);
        if is_slow {
            self.counters.slow_consumers_total += 1;
            // Unwritten dispatches cannot be kept, so the session cannot resume.
            self.end_session(key);
            self.abort(turn, conn_key);
        }
    }

    fn block(&mut self, now: Now, key: SlotKey) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        if conn.send.block(now.instant) {
            let at = now.instant.after_ms(self.config.write_stall_ms);
            self.arm_timer(at, key);
        }
    }

    /// Sends the frames that `push` queued, and keeps the bytes that did not fit.
    pub(crate) fn flush_batch(&mut self, turn: &mut Turn<'_, impl Transport>) {
        for (key, shortfall) in turn.transport.flush_batch() {
            match shortfall {
                PartialSend::Rest(rest) => {
                    // Bytes count when they are sent.
                    self.counters.sent_bytes -= rest.len() as u64;
                    if let Some(conn) = self.conns.get_mut(key) {
                        conn.send.keep(&rest);
                        self.block(turn.now, key);
                    }
                }
                PartialSend::Closed => self.abort(turn, key),
            }
        }
    }

    /// Writes to every connection that received something since the last call. Called once per batch of inputs.
    pub fn flush(&mut self, turn: &mut Turn<'_, impl Transport>) {
        self.flush_batch(turn);
        let queue = self.flush_queue.begin();
        for at in 0..queue.len() {
            self.prefetch_conns(&queue[at..]);
            let key = queue[at];
            if let Some(conn) = self.conns.get_mut(key) {
                conn.is_queued = false;
                self.pump(turn, key);
            }
        }
        self.give_turns_to_render(turn);
        self.flush_queue.end_visits();
        self.flush_batch(turn);
        self.flush_queue.end(queue);
        self.matchers.set_connections(self.conns.len());
        self.keep_context_budget(turn.now);
    }

    /// Prefetches memory of the connections after the first of these. Each step reads the memory that the previous step
    /// prefetched.
    fn prefetch_conns(&self, coming: &[SlotKey]) {
        if let Some(key) = coming.get(CONNS_AHEAD) {
            self.conns.prefetch(key.slot);
        }
        if let Some(conn) = coming.get(COMPRESSORS_AHEAD).and_then(|key| self.conns.get(*key)) {
            if let Phase::Established(session) = conn.phase {
                self.sessions.prefetch(session.slot);
            }
            if let Some(compressor) = conn.codec.compressor() {
                prefetch(compressor);
            }
        }
        if let Some(conn) = coming.get(RINGS_AHEAD).and_then(|key| self.conns.get(*key)) {
            if let Phase::Established(session) = conn.phase
                && let Some(session) = self.sessions.get(session)
            {
                session.replay.prefetch_newest();
            }
            if let Some(compressor) = conn.codec.compressor() {
                compressor.prefetch();
            }
        }
    }

    /// Writes what a connection can take. Never called from within itself.
    pub fn pump(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) {
        if turn.transport.has_queued(key) {
            // The queued frames go out first.
            self.flush_batch(turn);
        }
        match self.try_pump(turn, key) {
            Ok(Pumped::Drained) => {
                if let Some(conn) = self.conns.get_mut(key) {
                    conn.send.unblock();
                    if let Some(trial) = conn.sent.trial_mut().filter(|trial| trial.awaits_delivery()) {
                        trial.delivered(conn.cursor.next_seq(), turn.transport.nanos());
                    }
                    if matches!(conn.phase, Phase::Closing) {
                        turn.transport.finish(key);
                    }
                }
            }
            Ok(Pumped::Waiting) => {}
            Err(PumpError::Full) => self.block(turn.now, key),
            Err(PumpError::Closed) => self.abort(turn, key),
            Err(PumpError::Codec) => {
                self.conns.get_mut(key).into_iter().for_each(|conn| conn.sent.fail_trial());
                self.close(turn, key, CloseCode::UnknownError);
            }
            Err(PumpError::Forgotten) => {
                // The buffer has dropped the next dispatch: the session cannot resume.
                self.counters.slow_consumers_total += 1;
                if let Some(Phase::Established(session)) = self.conns.get(key).map(|conn| &conn.phase) {
                    self.end_session(*session);
                }
                self.abort(turn, key);
            }
        }
    }

    fn try_pump(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) -> Result<Pumped, PumpError> {
        let mut chunks = 0;
        loop {
            let Some(conn) = self.conns.get_mut(key) else { return Ok(Pumped::Drained) };
            send_unsent(conn, key, turn.transport, &mut self.counters)?;
            if !conn.cursor.is_mid_frame() {
                self.render.release(&mut conn.render);
            }
            if !conn.cursor.is_mid_frame()
                && let Some(control) = conn.send.pop_control()
            {
                let (raw_bytes, sampled) = (control.raw_bytes(), conn.sent.sampled(&control));
                let frame = control_frame(
                    conn,
                    control,
                    turn.now,
                    &self.config.prepared_cache,
                    &mut self.deflater,
                    &mut self.matchers,
                )?;
                let writer = conn.codec.control_writer();
                conn.sent.control((&mut self.sent, writer), sampled.as_deref(), raw_bytes, frame.len());
                conn.send.keep(&frame);
                continue;
            }
            let Phase::Established(session_key) = conn.phase else { return Ok(Pumped::Drained) };
            let Some(session) = self.sessions.get_mut(session_key) else { return Ok(Pumped::Drained) };
            if session.pending_ready.is_some() {
                return Ok(Pumped::Drained);
            }
            skip_suppressed(conn, session);
            let next_seq = conn.cursor.next_seq();
            if next_seq > session.replay.last_seq() {
                if session.profile.member_requests.is_empty() {
                    return Ok(Pumped::Drained);
                }
                if chunks == CHUNKS_PER_VISIT || !self.flush_queue.admit_chunk() {
                    conn.send.unblock();
                    self.flush_queue.push_for_chunks(conn, key, chunks);
                    return Ok(Pumped::Waiting);
                }
                chunks += 1;
                push_next_chunk(session);
                session.replay.enforce(self.config.replay_events_max, self.config.replay_bytes_max, next_seq);
                continue;
            }
            let entry = session.replay.entry(next_seq).ok_or(PumpError::Forgotten)?;
            if entry.dispatch.is_owed() && next_seq > session.replay.paid_seq() {
                // `Partition::pay_all` sends the state first, then continues here.
                self.work.push_unpaid(session_key, next_seq);
                return Ok(Pumped::Waiting);
            }
            if entry.dispatch.is_lazy() && !conn.cursor.is_mid_frame() {
                if !self.render.admit(&mut conn.render, key, self.config.rendered_bytes_max) {
                    return Ok(Pumped::Waiting);
                }
                let mut frame = entry.dispatch.frame(session.encoding, entry.redaction);
                if !session.compress_payloads {
                    conn.codec.form().prepare(&mut frame, &mut self.deflater);
                }
                let bytes = frame.body().len() + frame.prepared_bytes();
                self.render.charge(&mut conn.render, turn.now.instant, bytes);
            }
            let may_wait = self.flush_queue.is_flushing();
            let tally = &mut Tally {
                counters: &mut self.counters,
                sent: &mut self.sent,
                sampler: &mut self.sampler,
                taps: &self.config.taps,
                now_ms: turn.now.instant.0,
            };
            let written = if conn.codec.compressor().is_some() {
                let writer = (&mut self.matchers, &mut self.scratch, self.flush_queue.flushes_count());
                write_compressed(conn, key, session, writer, (turn.transport, may_wait), tally)
            } else if session.compress_payloads
                && session.encoding == Encoding::Json
                && is_worth_compressing(conn, session)
            {
                write_payload_compressed(conn, session, turn.transport, tally)
            } else {
                write_shared(conn, key, session, &mut self.deflater, (turn.transport, may_wait), tally)
            };
            if entry.dispatch.is_lazy() && !conn.cursor.is_mid_frame() {
                entry.dispatch.was_written(session.encoding);
                if !conn.send.has_unsent() {
                    self.render.release(&mut conn.render);
                }
                // A client without READY cannot resume, and a client that has READY does not need it again.
                if session.kind() == AccountKind::User && session.replay.first_seq() == 1 && conn.cursor.next_seq() > 1
                {
                    session.replay.trim(1);
                }
            }
            written?;
        }
    }

    /// Lets connections render one dispatch each, in order, while the budget has room: some render little, or nothing.
    fn give_turns_to_render(&mut self, turn: &mut Turn<'_, impl Transport>) {
        let conns = &self.conns;
        self.render.sweep(conns.len(), |key| conns.get(key).is_some());
        while let Some(key) = self.render.next(self.config.rendered_bytes_max) {
            if let Some(conn) = self.conns.get_mut(key) {
                conn.render.begin_turn();
                self.pump(turn, key);
                if let Some(conn) = self.conns.get_mut(key) {
                    conn.render.end_turn();
                }
            }
        }
    }

    /// Copies the rest of a frame whose session is about to end, so that the frame can still be completed.
    pub fn keep_partial_frame(&mut self, key: SlotKey) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        let Phase::Established(session_key) = conn.phase else { return };
        let Some(session) = self.sessions.get(session_key) else { return };
        if !conn.cursor.is_mid_frame() {
            return;
        }
        match session.replay.entry(conn.cursor.next_seq()) {
            Some(entry) => {
                let mut frame = entry.dispatch.frame(session.encoding, entry.redaction);
                let form = conn.codec.form();
                form.prepare(&mut frame, &mut self.deflater);
                let parts = form.parts(&frame, conn.cursor.next_seq());
                for slice in parts.slices(conn.cursor.frame_offset()) {
                    conn.send.keep(slice);
                }
                drop(frame);
                entry.dispatch.was_written(session.encoding);
                conn.cursor.copy_rest();
            }
            None => conn.cursor.lose_rest(),
        }
    }
}

/// Whether the dispatch is left out. Superseded ones are left out of replays only: libraries report a gap in the seqs
/// of a connection that did not resume.
fn is_left_out(conn: &Conn, session: &Session, dispatch: &Dispatch, seq: u64) -> bool {
    match dispatch.is_tombstone() {
        true => !dispatch.is_owed() || seq <= session.replay.paid_seq(),
        false => dispatch.is_suppressed() && conn.cursor.is_replay(seq),
    }
}

fn skip_suppressed(conn: &mut Conn, session: &Session) {
    while !conn.cursor.is_mid_frame()
        && let Some(ReplayEntry { dispatch, .. }) = session.replay.entry(conn.cursor.next_seq())
        && is_left_out(conn, session, &dispatch, conn.cursor.next_seq())
    {
        conn.cursor.advance();
    }
}

fn push_next_chunk(session: &mut Session) {
    let (intents, kind, encoding) = (session.intents, session.kind(), session.encoding);
    let Some(job) = session.profile.member_requests.first_mut() else { return };
    let (dispatch, is_last) = next_chunk(intents, kind, encoding, job);
    if is_last {
        session.profile.member_requests.pop();
    }
    let bytes = dispatch.frame(encoding, Redaction::None).body().len();
    session.dispatch(dispatch, Redaction::None, bytes);
}
