//! Owners: which part of the node holds how much of its memory.
//!
//! Owns        `MemoryOwners`, the last estimate, which reports and `/metrics` read; the allocator's and the system's
//!             own figures.
//! Invariants  O1 nothing counts twice: of what several parts share, each counts its part. Owners count or estimate
//!             their allocations, and the allocator counts its memory on top of all allocations. So the sum of the
//!             owners is the resident memory without allocations that no owner counts. (`explained` in the bench
//!             `fanout`)
//! Limits      an estimate costs each partition and guild worker one to three milliseconds, within one turn; the
//!             sampler requests one every `REFRESH_EVERY`.

use crate::{memory::mapped_file_bytes, metrics::Metrics};
use guildhall_accounting::report::Owner;
use guildhall_codec::ContextPool;
use guildhall_guild_protocol::PartitionId;
use guildhall_partition::Bill;
use guildhall_stdx::heap::MemoryUse;
use std::{
    cmp::Reverse,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Time between two estimates.
pub const REFRESH_EVERY: Duration = Duration::from_secs(10);

/// Owners of the node's memory, by the last estimate. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryOwners(Arc<Mutex<Arc<[Owner]>>>);

impl MemoryOwners {
    /// The last estimate, the largest first; empty before the first.
    #[must_use]
    pub fn last(&self) -> Arc<[Owner]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes an estimate: each loop makes its part on its own thread. `history`: bytes and number of its series.
    pub(crate) async fn refresh(&self, metrics: &Metrics, history: (u64, u64)) {
        let partitions = &metrics.partitions;
        let mut held = metrics.node.memory().await;
        held.push(metrics.gate.memory());
        let looks: Vec<_> = (0..partitions.count() as u16)
            .map(|partition| partitions.look(PartitionId(partition), |_, partition| partition.memory()))
            .collect();
        for look in looks {
            // A partition that has ended holds nothing.
            MemoryUse::add_all(&mut held, look.await.unwrap_or_default());
        }
        let mut owners: Vec<Owner> = held.iter().map(estimated).collect();
        owners.extend(slabs(&metrics.contexts, &metrics.bill));
        owners.push(exact("history", history.0, history.1));
        owners.extend(of_process());
        owners.retain(|owner| owner.bytes > 0);
        owners.sort_by_key(|owner| Reverse(owner.bytes));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = owners.into();
    }
}

/// An owner whose memory is estimated from a sample.
#[must_use]
pub fn estimated(held: &MemoryUse) -> Owner {
    Owner { name: held.name.to_owned(), bytes: held.bytes, elements: held.elements, is_exact: false }
}

fn exact(name: &str, bytes: u64, elements: u64) -> Owner {
    Owner { name: name.to_owned(), bytes, elements, is_exact: true }
}

/// Slots of compression contexts, and those of the bandwidth bill: no allocations, but mappings of their own.
pub fn slabs(contexts: &ContextPool, bill: &Bill) -> impl Iterator<Item = Owner> {
    let stats = contexts.stats();
    let pools =
        [("contexts_zlib", stats.zlib), ("contexts_zstd", stats.zstd), ("contexts_zstd_upgraded", stats.zstd_upgraded)];
    let (bill_bytes, bill_connections) = bill.memory();
    let pools = pools.into_iter().map(|(name, pool)| exact(name, pool.resident_bytes, pool.slots_used));
    pools.chain([exact("bill", bill_bytes, bill_connections)])
}

/// Memory of the allocator on top of all allocations, and of the program itself.
pub fn of_process() -> impl Iterator<Item = Owner> {
    let allocator = allocator_overhead_bytes().map(|bytes| exact("allocator", bytes, 1));
    let program = mapped_file_bytes().map(|bytes| exact("program", bytes, 1));
    allocator.into_iter().chain(program)
}

/// Resident bytes of the allocator that are in no allocation: caches, fragments, its own tables.
#[cfg(feature = "jemalloc")]
fn allocator_overhead_bytes() -> Option<u64> {
    use tikv_jemalloc_ctl::{epoch, stats};
    // The figures are those of the last epoch.
    epoch::advance().ok()?;
    let (resident, allocated) = (stats::resident::read().ok()?, stats::allocated::read().ok()?);
    Some(resident.saturating_sub(allocated) as u64)
}

#[cfg(not(feature = "jemalloc"))]
fn allocator_overhead_bytes() -> Option<u64> {
    None
}
