//! Prepared cache: whole payloads that many connections get within a moment, compressed and framed once.
//!
//! For messages without a head of their own: HELLO and other payloads outside the sequence. Dispatches carry their
//! prepared form themselves (`prepared`).
//!
//! Owns        payload → finished frame, for all threads of a node.
//! Doors       `PreparedCache::frame`.
//! Invariants  C1 of several threads that need the same payload at once, one compresses it and the others wait for the
//!             result (trap 4). C2 entries never cost more than `cost_bytes_max`. C3 no entry is older than `ttl_ms`.
//! Limits      C2: past it the oldest entries are evicted; a payload that does not fit is compressed for each caller.
//! Not here    clocks: the caller passes the time.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::prepared::PREPARE_BYTES_MIN;
use crate::stream::{BodyDeflater, SharedWindow};
use guildhall_ws_proto::{FrameHeader, Head, Opcode};

/// Overhead of an entry in addition to its payload and frame.
const ENTRY_BYTES: usize = 256;

/// See the module.
#[derive(Debug)]
pub struct PreparedCache {
    entries: Mutex<Entries>,
    cost_bytes_max: usize,
    ttl_ms: u64,
}

#[derive(Debug, Default)]
struct Entries {
    /// By form, then by payload.
    by_payload: [HashMap<Arc<[u8]>, Arc<Entry>>; FORMS_COUNT],
    /// Oldest first.
    order: VecDeque<(u64, usize, Arc<[u8]>)>,
    cost_bytes: usize,
}

#[derive(Debug, Default)]
struct Entry {
    frame: OnceLock<Arc<[u8]>>,
}

const FORMS_COUNT: usize = 2 * SharedWindow::COUNT;

fn form_of(opcode: Opcode, window: SharedWindow) -> usize {
    2 * (window as usize) + usize::from(opcode == Opcode::Binary)
}

/// A frame is never longer than the payload with a header.
fn cost_bytes(payload: &[u8]) -> usize {
    ENTRY_BYTES + 2 * payload.len()
}

impl PreparedCache {
    /// An empty cache.
    #[must_use]
    pub fn new(cost_bytes_max: usize, ttl_ms: u64) -> Self {
        Self { entries: Mutex::default(), cost_bytes_max, ttl_ms }
    }

    /// The whole frame around `payload`, compressed if that makes it shorter.
    ///
    /// `deflater` belongs to the calling thread; it is used only if no thread has made this frame within
    /// the last `ttl_ms`.
    pub fn frame(
        &self,
        now_ms: u64,
        payload: &[u8],
        opcode: Opcode,
        window: SharedWindow,
        deflater: &mut BodyDeflater,
    ) -> Arc<[u8]> {
        match self.entry(now_ms, payload, form_of(opcode, window)) {
            // Concurrent callers wait here.
            Some(entry) => entry.frame.get_or_init(|| make(payload, opcode, window, deflater)).clone(),
            None => make(payload, opcode, window, deflater),
        }
    }

    /// Total size of the entries.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        self.lock().cost_bytes
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Entries> {
        // A panic leaves the entries consistent.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self, now_ms: u64, payload: &[u8], form: usize) -> Option<Arc<Entry>> {
        let cost = cost_bytes(payload);
        if cost > self.cost_bytes_max {
            return None;
        }
        let mut entries = self.lock();
        entries.forget_expired(now_ms, self.ttl_ms);
        if let Some(entry) = entries.by_payload[form].get(payload) {
            return Some(entry.clone());
        }
        entries.make_room(self.cost_bytes_max - cost);
        let (payload, entry) = (Arc::<[u8]>::from(payload), Arc::<Entry>::default());
        entries.by_payload[form].insert(payload.clone(), entry.clone());
        entries.order.push_back((now_ms, form, payload));
        entries.cost_bytes += cost;
        Some(entry)
    }
}

impl Entries {
    fn forget_expired(&mut self, now_ms: u64, ttl_ms: u64) {
        while self.order.front().is_some_and(|(made_ms, ..)| now_ms.saturating_sub(*made_ms) >= ttl_ms) {
            self.forget_oldest();
        }
    }

    /// Forgets the oldest until the rest costs no more than this.
    fn make_room(&mut self, cost_bytes_max: usize) {
        while self.cost_bytes > cost_bytes_max && !self.order.is_empty() {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, form, payload)) = self.order.pop_front() {
            self.cost_bytes -= cost_bytes(&payload);
            self.by_payload[form].remove(&payload);
        }
    }
}

fn make(payload: &[u8], opcode: Opcode, window: SharedWindow, deflater: &mut BodyDeflater) -> Arc<[u8]> {
    let mut compressed = Vec::new();
    let is_shorter = payload.len() >= PREPARE_BYTES_MIN
        && deflater.compress(window, &[payload], &mut compressed).is_ok()
        && compressed.len() < payload.len();
    match is_shorter {
        true => [&*FrameHeader::new(Head::compressed(opcode), compressed.len()), &compressed].concat().into(),
        false => [&*FrameHeader::new(opcode, payload.len()), payload].concat().into(),
    }
}
