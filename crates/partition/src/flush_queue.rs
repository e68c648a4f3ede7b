//! Flush queue: connections that the next flush visits.
//!
//! Invariants  a connection is in the queue at most once (`Conn::is_queued`).
//! Limits      `CHUNKS_PER_TURN` member chunks per flush.

use crate::conn::Conn;
use guildhall_stdx::SlotKey;
use std::mem;

/// Member chunks that one flush makes, over all connections. Connections that need more wait for the next flush, so
/// that other events are delayed by this many at most.
const CHUNKS_PER_TURN: usize = 8;

/// When dispatches are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Batching {
    /// At once, to connections that have nothing else to write.
    #[default]
    Off,
    /// By the next flush, once per connection: more events follow.
    On,
}

/// See the module.
#[derive(Debug, Default)]
pub struct FlushQueue {
    /// Connections with something to write, in the order in which they got it.
    conns: Vec<SlotKey>,
    /// Connections that have member chunks to make and made none in this flush. The next flush begins with them.
    chunks_first: Vec<SlotKey>,
    /// Member chunks made since the flush began.
    chunks_made: usize,
    batching: Batching,
    /// A flush is running; at its end the transport sends its batch.
    is_flushing: bool,
    flushes_count: u64,
}

impl FlushQueue {
    /// Adds a connection, unless it is in the queue.
    pub fn push(&mut self, conn: &mut Conn, key: SlotKey) {
        if !mem::replace(&mut conn.is_queued, true) {
            self.conns.push(key);
        }
    }

    /// Adds a connection that has more member chunks to make than a flush may. Those that made none are first in the
    /// next flush.
    pub fn push_for_chunks(&mut self, conn: &mut Conn, key: SlotKey, made: usize) {
        if !mem::replace(&mut conn.is_queued, true) {
            let queue = if made == 0 { &mut self.chunks_first } else { &mut self.conns };
            queue.push(key);
        }
    }

    /// Whether a flush has a connection to visit.
    pub fn is_empty(&self) -> bool {
        self.conns.is_empty() && self.chunks_first.is_empty()
    }

    /// Whether this flush may make another member chunk; if so, it counts.
    pub fn admit_chunk(&mut self) -> bool {
        let may = self.chunks_made < CHUNKS_PER_TURN;
        self.chunks_made += usize::from(may);
        may
    }

    /// More events follow, until the next flush.
    pub fn begin_batch(&mut self) {
        self.batching = Batching::On;
    }

    /// Changes when dispatches are written. Returns the setting before.
    pub fn set_batching(&mut self, batching: Batching) -> Batching {
        mem::replace(&mut self.batching, batching)
    }

    /// Whether more events follow.
    pub fn is_batching(&self) -> bool {
        self.batching == Batching::On
    }

    /// Whether a flush is running.
    pub fn is_flushing(&self) -> bool {
        self.is_flushing
    }

    /// Number of flushes that have ended: events with the same number belong to one turn.
    pub fn flushes_count(&self) -> u64 {
        self.flushes_count
    }

    /// Begins a flush. Returns the connections to visit, in order.
    pub fn begin(&mut self) -> Vec<SlotKey> {
        (self.batching, self.is_flushing, self.chunks_made) = (Batching::Off, true, 0);
        let mut conns = mem::take(&mut self.conns);
        if !self.chunks_first.is_empty() {
            let mut first = mem::take(&mut self.chunks_first);
            first.append(&mut conns);
            conns = first;
        }
        conns
    }

    /// All connections were visited.
    pub fn end_visits(&mut self) {
        self.is_flushing = false;
    }

    /// Ends a flush. Its list is used again, for its allocation.
    pub fn end(&mut self, mut visited: Vec<SlotKey>) {
        self.flushes_count += 1;
        if self.conns.is_empty() {
            visited.clear();
            self.conns = visited;
        }
    }
}
