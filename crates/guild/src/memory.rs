//! Memory of a guild, by owner: estimated bytes of its large fields.
//!
//! Invariants  an estimate reads some thousand elements, however large the guild is. (test `scale`)
//! Not here    relays and sessions of partitions, which count their own.

use crate::machine::Guild;
use guildhall_guild_protocol::memory::structure_heap;
use guildhall_stdx::heap::{self, MemoryUse, Sample};

impl Guild {
    /// Its memory by field. `sample` bounds what is read of each.
    #[must_use]
    pub fn memory(&self, sample: Sample) -> [MemoryUse; 6] {
        let structure = structure_heap(&self.structure);
        let places = self.structure.channels.len() + self.structure.roles.len();
        [
            MemoryUse::new("guild_members", self.members.heap_bytes(sample), self.members.len()),
            MemoryUse::new("guild_member_lists", self.lists.heap_bytes(), self.lists.rows_count()),
            MemoryUse::new("guild_sessions", self.relays.heap_bytes(sample), self.relays.sessions_count()),
            MemoryUse::new("guild_messages", self.messages.heap_bytes(sample), self.messages.cached_count()),
            MemoryUse::new("guild_threads", self.threads.heap_bytes(sample), self.threads.len()),
            MemoryUse::new("guild_structure", structure + heap::boxed::<Self>(), places),
        ]
    }
}
