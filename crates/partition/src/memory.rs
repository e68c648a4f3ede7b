//! Memory of a partition, by owner: estimated bytes of its large fields.
//!
//! Invariants  one estimate reads some thousand elements of each field, however many there are. Bytes that connections,
//!             logs or relays share count once in all.
//! Limits      it reads the `RELAYS_MAX` largest relays and as many others, and visits each of the rest.
//! Not here    slots of compression contexts, which have exact accounts (`guildhall_slab`). Members and channels, which
//!             are the guild's. Sockets.

use crate::{conn::Conn, guilds::RelayEntry, partition::Partition};
use guildhall_session::SharedLog;
use guildhall_stdx::heap::{self, MemoryUse, Sample};
use std::{rc::Rc, sync::Arc};

/// The largest relays, each of which an estimate reads.
const RELAYS_MAX: usize = 64;

impl Partition {
    /// Its memory by field.
    #[must_use]
    pub fn memory(&self) -> Vec<MemoryUse> {
        let core = &self.core;
        let (sessions, conns) = (core.sessions.len(), core.conns.len());
        let tables = core.sessions.index_bytes(Sample::LARGE) + core.timers.heap_bytes();
        let (_, shared_match_bytes) = core.matchers.counters();
        let shared = heap::allocated(core.scratch.capacity())
            + core.inflate.heap_bytes()
            + core.guild_texts.bytes()
            + core.deflater.memory_bytes()
            + core.sent.heap_bytes();
        let cache = &core.config.prepared_cache;
        // All partitions share it.
        let prepared_bytes = cache.cost_bytes() / Arc::strong_count(cache);
        let mut held = vec![
            MemoryUse::new(
                "sessions",
                core.sessions.heap_bytes(Sample::LARGE, |session| session.heap_bytes()),
                sessions,
            ),
            MemoryUse::new("session_tables", tables, sessions),
            MemoryUse::new(
                "replay_buffers",
                core.sessions.values_bytes(Sample::LARGE, |session| session.replay.heap_bytes(Sample::SMALL)),
                sessions,
            ),
            MemoryUse::new("connections", core.conns.heap_bytes(Sample::LARGE, |_| 0), conns),
            MemoryUse::new("connection_buffers", core.conns.values_bytes(Sample::LARGE, Conn::buffers_bytes), conns),
            MemoryUse::new("streams", core.conns.values_bytes(Sample::LARGE, Conn::stream_bytes), conns),
            MemoryUse::new("shared_match", shared_match_bytes, 1),
            MemoryUse::new("partition_buffers", shared, 1),
            MemoryUse::new("prepared_cache", prepared_bytes, 1),
        ];
        let by_sessions = self.relays.iter().map(|entry| (entry.sessions_count(), entry)).collect();
        MemoryUse::add_all(
            &mut held,
            MemoryUse::of_uneven(by_sessions, RELAYS_MAX, |entry, sample| entry.memory(sample)),
        );
        held
    }
}

impl RelayEntry {
    fn memory(&self, sample: Sample) -> [MemoryUse; 2] {
        let of_log = |log: &Rc<SharedLog>| heap::counted::<SharedLog>() + log.heap_bytes(sample.split(self.logs.len()));
        let logged: usize = self.logs.iter().map(|log| log.entries_count()).sum();
        let relay = size_of::<Self>() + self.relay.heap_bytes(sample) + self.newest.heap_bytes(sample);
        [MemoryUse::new("relays", relay, 1), MemoryUse::new("shared_logs", sample.of_vec(&self.logs, of_log), logged)]
    }
}

impl Conn {
    /// Heap memory of what it received or has yet to send.
    fn buffers_bytes(&self) -> usize {
        self.inbox.buffers_bytes() + self.send.heap_bytes()
    }

    /// Heap memory of its streams, without contexts that are slots of a slab.
    fn stream_bytes(&self) -> usize {
        let history = self.inbox.history_bytes();
        self.codec.heap_bytes() + if history > 0 { heap::allocated(history) } else { 0 }
    }
}
