//! The end of a session: that it may be gone, and why.

use super::{DeliveryTime, Expected, Membership, Session, Withheld};
use crate::checker::SessionLimits;
use guildhall_stdx::{Instant, SlotKey};

impl Session {
    /// The session has ended; expected dispatches may have been written before.
    pub fn expect_pending(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let at = self.expected.last().map(|last| last.at).unwrap_or_default();
        self.expected.extend(pending.into_iter().map(|content| Expected { content, withheld: Withheld::No, at }));
        self.may_end_with_update = self.due.take().is_some();
    }

    /// Ends the session. Dispatches in flight may still arrive.
    pub fn end(&mut self, why: &'static str) {
        self.expect_pending();
        self.gone = Some(why);
        self.membership = Membership::None;
    }

    /// It exists, on this connection or none.
    pub fn seen(&mut self, now: Instant, conn: Option<SlotKey>) {
        if conn.is_none() && self.conn.is_some() {
            self.detached_since = Some(now);
        } else if conn.is_some() {
            self.detached_since = None;
        }
        self.conn = conn;
    }

    pub fn is_expired(&self, now: Instant, window_ms: u64) -> bool {
        self.detached_since.is_some_and(|since| now.ms_since(since) >= window_ms)
    }

    /// Why it may be gone, if there is a reason.
    pub fn why_gone(&self, now: DeliveryTime, limits: SessionLimits) -> Option<&'static str> {
        let given = (self.expected.len() + self.pending.len()) as u64;
        // A dispatch of its relay may have ended the session before the checker saw that dispatch.
        let unseen = u64::from(self.due.is_some()) + 2 * u64::from(!self.subscription.channels.is_empty());
        let unacknowledged = (given + unseen).saturating_sub(self.received_floor);
        if self.is_closed {
            Some("a backend ended it")
        } else if self.goodbye_on == Some(self.conn_serial) {
            Some("its client ended it")
        } else if self.is_expired(now.at, limits.resume_window_ms) {
            Some("it expired")
        } else if self.has_pending_ready() {
            Some("its connection ended before READY")
        } else if unacknowledged > limits.replay_events_max.min(limits.backlog_events_max) {
            Some("it had more to catch up with than is kept")
        } else if self.may_be_forgotten(now, self.received_floor, limits) {
            Some("its next dispatch was evicted")
        } else {
            None
        }
    }

    /// Whether something after `seq` may not be kept any more by what sessions share.
    pub fn may_be_forgotten(&self, now: DeliveryTime, seq: u64, limits: SessionLimits) -> bool {
        // Dispatches between two checks may be older than their record.
        self.expected.iter().skip(seq as usize).any(|expected| {
            now.at.ms_since(expected.at.at) > limits.log_age_ms_max
                || now.total - expected.at.total >= limits.log_events_max
        })
    }
}
