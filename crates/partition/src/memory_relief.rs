//! Memory relief: streams leave their library contexts while contexts hold more memory than they may.
//!
//! Invariants  V1 and V2 of `context_budget`.     Limits  `VISITED_PER_SECOND` connections per second, and those there.

use crate::{context_budget::VISITED_PER_SECOND, core::Core};
use guildhall_stdx::Now;

impl Core {
    /// Called at the end of each flush.
    pub fn keep_context_budget(&mut self, now: Now) {
        self.matchers.context_budget.release_some();
        if !self.matchers.context_budget.adjust(now.instant) {
            return;
        }
        let excess = self.config.contexts.excess_bytes() / u64::from(self.config.partitions_count.max(1));
        if excess > 0 {
            self.relieve_memory(excess);
        }
    }

    /// Moves streams until their contexts have held `excess` bytes, in the order of their slots.
    fn relieve_memory(&mut self, excess: u64) {
        let places = self.conns.places();
        let mut freed = 0;
        for _ in 0..VISITED_PER_SECOND.min(places) {
            if freed >= excess || !self.matchers.context_budget.may_move() {
                break;
            }
            let slot = self.matchers.context_budget.next_slot(places);
            let Some(conn) = self.conns.key_at(slot).and_then(|key| self.conns.get_mut(key)) else { continue };
            if let Some(compressor) = conn.codec.compressor_mut() {
                let bytes = self.matchers.move_for_memory(compressor) as u64;
                freed += bytes;
                if bytes > 0 {
                    self.matchers.context_budget.moved();
                }
            }
        }
    }
}
