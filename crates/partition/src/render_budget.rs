//! Render budget: memory of READY and GUILD_CREATE that are rendered and not sent yet.
//!
//! Owns        the bytes over all connections, and the queue of connections that wait to render.
//! Invariants  a connection renders when its turn comes: first come, first served.
//! Limits      `rendered_bytes_max`; past it connections wait. At most half of the queue belongs to connections that
//!             are gone.
//! Not here    what follows when a client holds up the others: `deadlines`.

use guildhall_stdx::{Instant, SlotKey};
use std::{collections::VecDeque, mem};

/// The share of one connection.
#[derive(Debug)]
pub struct RenderTicket {
    /// Time at which its dispatch was rendered.
    since: Instant,
    /// Bytes of that dispatch, until it is sent. No frame has 4 GiB.
    bytes: u32,
    is_queued: bool,
    /// It has waited, and its turn has come.
    has_turn: bool,
}

impl RenderTicket {
    /// Of a connection that has rendered nothing.
    pub fn new(now: Instant) -> Self {
        Self { since: now, bytes: 0, is_queued: false, has_turn: false }
    }

    /// Time since which rendered bytes are unsent. None: there are none.
    pub fn unsent_since(&self) -> Option<Instant> {
        (self.bytes > 0).then_some(self.since)
    }

    /// The connection has left the queue, and may render during the next visit.
    pub fn begin_turn(&mut self) {
        (self.is_queued, self.has_turn) = (false, true);
    }

    /// The visit is over.
    pub fn end_turn(&mut self) {
        self.has_turn = false;
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct RenderBudget {
    bytes: usize,
    /// Connections that wait, oldest first.
    waiting: VecDeque<SlotKey>,
}

impl RenderBudget {
    /// Rendered bytes that are not sent yet.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether connections wait.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a connection waits and may render.
    pub fn has_turn(&self, bytes_max: usize) -> bool {
        self.has_waiting() && self.bytes < bytes_max
    }

    /// Whether a connection may render now. Otherwise it is queued.
    pub fn admit(&mut self, ticket: &mut RenderTicket, key: SlotKey, bytes_max: usize) -> bool {
        let has_turn = mem::take(&mut ticket.has_turn) || self.waiting.is_empty();
        if has_turn && self.bytes < bytes_max {
            return true;
        }
        if !mem::replace(&mut ticket.is_queued, true) {
            self.waiting.push_back(key);
        }
        false
    }

    /// A connection has rendered bytes.
    pub fn charge(&mut self, ticket: &mut RenderTicket, now: Instant, bytes: usize) {
        (ticket.bytes, ticket.since) = (u32::try_from(bytes).unwrap_or(u32::MAX), now);
        self.bytes += ticket.bytes as usize;
    }

    /// The bytes of a connection are sent, or will never be. Connections that wait get their turn with the next flush.
    pub fn release(&mut self, ticket: &mut RenderTicket) {
        self.bytes -= mem::take(&mut ticket.bytes) as usize;
    }

    /// Removes connections that are gone, once they may be more than those that exist.
    pub fn sweep(&mut self, conns_count: usize, exists: impl Fn(SlotKey) -> bool) {
        if self.waiting.len() > 2 * conns_count {
            self.waiting.retain(|key| exists(*key));
        }
    }

    /// The next connection that may render.
    pub fn next(&mut self, bytes_max: usize) -> Option<SlotKey> {
        if self.has_turn(bytes_max) { self.waiting.pop_front() } else { None }
    }
}
