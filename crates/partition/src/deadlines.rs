//! Deadlines of connections and sessions: when a timer fires, whether something is due.
//!
//! Owns        the checks behind `TimerKey`: heartbeats, IDENTIFY, stalled sockets of slow consumers, resume windows,
//!             READY.
//! Limits      `heartbeat_interval_ms`, `identify_deadline_ms`, `write_stall_ms`, `resume_window_ms`,
//!             `gather_deadline_ms`.
//! Not here    tokens' expiry: `identify`. Relays' timers: `guilds`.

use crate::{conn::Phase, core::Core, partition::Partition, timers::TimerKey, transport::Transport, turn::Turn};
use guildhall_model::CloseCode;
use guildhall_stdx::{Instant, Now, SlotKey};

impl Partition {
    /// Runs what is due.
    pub fn handle_timers(&mut self, now: Now, transport: &mut impl Transport) {
        self.turn(now, transport, |partition, turn| partition.fire_timers(turn))
    }

    fn fire_timers(&mut self, turn: &mut Turn<'_, impl Transport>) {
        self.core.guild_texts.sweep(turn.now.instant);
        while let Some((at, subject)) = self.core.timers.pop_due(turn.now.instant) {
            match subject {
                TimerKey::Conn(key) => self.core.check_conn_deadlines(turn, key, at),
                TimerKey::Session(key) => {
                    self.core.check_session_deadlines(turn, key);
                    self.check_arrival(turn, key);
                    self.check_leaving(turn, key);
                    self.core.expire(turn, key, at);
                }
                TimerKey::Relay(guild_id, index, _) => self.fire_relay_timer(turn, guild_id, index, at),
            }
        }
    }
}

impl Core {
    /// Time for which a client may be silent.
    pub(crate) fn heartbeat_grace_ms(&self) -> u64 {
        self.config.heartbeat_interval_ms.saturating_mul(3) / 2
    }

    fn check_conn_deadlines(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, at: Instant) {
        let grace_ms = self.heartbeat_grace_ms();
        let identify_ms = self.config.identify_deadline_ms;
        let Some(conn) = self.conns.get_mut(key) else { return };
        if !conn.timing.fire(at) {
            return;
        }
        let leave_by = conn.timing.leave_by();
        let mut next = match conn.phase {
            Phase::Closing => return self.abort(turn, key),
            Phase::AwaitingIdentify | Phase::Authenticating(_) | Phase::Established(_)
                if leave_by.is_some_and(|at| at <= turn.now.instant) =>
            {
                return self.close(turn, key, CloseCode::UnknownError);
            }
            Phase::AwaitingIdentify | Phase::Authenticating(_) => {
                let deadline = conn.timing.phase_since().after_ms(identify_ms);
                if deadline <= turn.now.instant {
                    return self.close(turn, key, CloseCode::NotAuthenticated);
                }
                deadline
            }
            Phase::Established(_) => {
                let deadline = conn.inbox.last_frame_at().after_ms(grace_ms);
                if deadline <= turn.now.instant {
                    return self.close(turn, key, CloseCode::UnknownError);
                }
                deadline
            }
        };
        next = leave_by.map_or(next, |at| next.min(at));
        if let Some(since) = conn.send.blocked_since() {
            let stalled = since.after_ms(self.config.write_stall_ms);
            if stalled <= turn.now.instant {
                self.counters.slow_consumers_total += 1;
                return self.abort(turn, key);
            }
            next = next.min(stalled);
        }
        if let Some(since) = conn.render.unsent_since() {
            let too_long = since.after_ms(self.config.write_stall_ms);
            if too_long <= turn.now.instant && self.render.has_waiting() {
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
        let Some(pending_ready) = &mut session.pending_ready else { return };
        if pending_ready.deadline <= turn.now.instant {
            if pending_ready.is_own_requested && pending_ready.own.is_none() {
                // No later event would contain the missing direct messages.
                return self.give_up(turn, key);
            }
            // A guild that answers later is sent in GUILD_CREATE.
            pending_ready.waiting_count = 0;
            self.finish_pending_ready(turn, key);
        }
        // The deadline moves when the account's own data is requested.
        if let Some(pending_ready) = self.sessions.get(key).and_then(|session| session.pending_ready.as_ref()) {
            self.timers.push(pending_ready.deadline, TimerKey::Session(key));
        }
    }
}
