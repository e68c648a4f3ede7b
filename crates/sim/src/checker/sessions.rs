//! Sessions, as the partitions start, resume and end them: each with a reason, and with what it was given.

use super::{Checker, Fault, Identified, fault};
use crate::session::{DeliveryTime, Membership, Session};
use guildhall_partition::Partition;
use guildhall_stdx::{Now, SlotKey};

impl Checker {
    /// A partition started a session.
    ///
    /// # Errors
    /// When another is, or was, called the same.
    pub fn identified(&mut self, now: Now, side: usize, new: Identified) -> Result<(), Fault> {
        let at = self.sessions.len();
        self.by_key.insert((side, new.key), at);
        if self.by_id.insert(new.id.clone(), at).is_some() {
            return fault(format!("two sessions are called {}", new.id));
        }
        self.living[side].push(at);
        let deadline = now.instant.after_ms(self.limits.gather_deadline_ms);
        self.sessions.push(Session::new(side, new, self.limits.hidden_channels, deadline));
        Ok(())
    }

    fn given(&self, now: Now) -> DeliveryTime {
        DeliveryTime { at: now.instant, total: self.given_total }
    }

    /// A RESUME is about to be handled where the session lives. Whether it must succeed, or none if either is right.
    pub fn resume_must(
        &self,
        now: Now,
        at: Option<usize>,
        user: u64,
        encoding: guildhall_codec::Encoding,
        seq: u64,
    ) -> Option<bool> {
        let Some(at) = at else { return Some(false) };
        let session = &self.sessions[at];
        if session.gone.is_some() || session.user != user || session.encoding != encoding || session.has_pending_ready()
        {
            return Some(false);
        }
        if seq < session.received_floor {
            // The client claims more dispatches than the session has.
            return Some(false);
        }
        if seq < session.claimed {
            return None;
        }
        let last = session.expected.len() as u64;
        if seq > last {
            return Some(false);
        }
        if !session.is_bot && seq == 0 {
            // READY is forgotten once it was written.
            return None;
        }
        let state = self.relays.get(&session.relay_id()).and_then(|relay| relay.state.as_deref());
        let shows_too_much = state.map_or(Some(false), |state| session.would_show_too_much(now.unix.0, seq, state));
        if session.membership != Membership::None && shows_too_much != Some(false) {
            let is_certain = session.membership == Membership::Inside && shows_too_much == Some(true);
            return if is_certain { Some(false) } else { None };
        }
        let is_short = last - seq <= self.limits.replay_events_max;
        if is_short && !session.may_be_forgotten(self.given(now), seq, self.limits) { Some(true) } else { None }
    }

    /// A RESUME succeeded: everything after `seq` is sent again, except what may no longer be seen.
    pub fn resumed(
        &mut self,
        now: Now,
        at: usize,
        conn: SlotKey,
        (conn_serial, token): (u64, u64),
        seq: u64,
        partition: &Partition,
    ) -> Result<(), Fault> {
        let session = &mut self.sessions[at];
        let Some(product) = partition.session(session.key) else {
            return fault("a session that is gone was resumed");
        };
        let state = self.relays.get(&session.relay_id()).and_then(|relay| relay.state.clone());
        session.withhold_unseen(now.unix.0, seq, state.as_deref(), product)?;
        session.resumed(conn, conn_serial, token, seq);
        Ok(())
    }

    /// A partition handled its timers.
    pub fn timers(&mut self, now: Now, side: usize) {
        for at in &self.living[side] {
            self.sessions[*at].gather_until(now.instant, now.unix.0);
        }
    }

    /// Looks which sessions a partition has, after anything that may have ended one.
    pub fn look(&mut self, now: Now, side: usize, partition: &Partition) -> Result<(), Fault> {
        let given = self.given(now);
        for product in partition.sessions() {
            let at = self.by_key.get(&(side, product.key)).copied();
            if let Some(Session { id, gone: Some(why), .. }) = at.map(|at| &self.sessions[at]) {
                return fault(format!("session {id} is there, but {why}"));
            }
        }
        for at in &self.living[side] {
            let session = &mut self.sessions[*at];
            match partition.session(session.key) {
                Some(product) => session.seen(now.instant, product.conn),
                None => {
                    let Some(why) = session.why_gone(given, self.limits) else {
                        return fault(format!(
                            "session {} of {} is gone without reason: {} dispatches, {} known to have arrived",
                            session.id,
                            session.user,
                            session.expected.len(),
                            session.received_floor
                        ));
                    };
                    session.end(why);
                }
            }
            if session.gone.is_none()
                && session.membership != Membership::None
                && !self.relays.contains_key(&session.relay_id())
            {
                return fault(format!("session {} is in the guild, but the relay ended", session.id));
            }
        }
        let sessions = &self.sessions;
        self.living[side].retain(|at| sessions[*at].gone.is_none());
        Ok(())
    }

    /// Checks that a partition that has handled its timers has no expired session.
    pub fn check_expired(&self, now: Now, side: usize) -> Result<(), Fault> {
        let mut living = self.living[side].iter().map(|at| &self.sessions[*at]);
        match living.find(|session| session.is_expired(now.instant, self.limits.resume_window_ms)) {
            Some(session) => fault(format!("session {} should have expired", session.id)),
            None => Ok(()),
        }
    }

    /// Holds what a partition gave its sessions against what it had to, once an input was handled.
    pub fn reconcile(&mut self, now: Now, side: usize, partition: &Partition) -> Result<(), Fault> {
        let given = self.given(now);
        for product in partition.sessions() {
            let Some(at) = self.by_key.get(&(side, product.key)) else {
                return fault("a session that was never created");
            };
            let session = &mut self.sessions[*at];
            if session.has_no_news(product) {
                continue;
            }
            let state = self.relays.get(&session.relay_id()).and_then(|relay| relay.state.as_deref());
            session.reconcile(given, product, state)?;
        }
        Ok(())
    }
}
