//! Ids: unique on a node, and larger than every earlier id, even if the clock steps back.
//!
//! Owns        the largest id that the store knew at start, the node's own generator, and the assignment of
//!             origins to generators.
//! Invariants  I1 no new id is at or below an id that was stored before the node started, so a clock that was set back
//!             causes no duplicates. I2 the node's own generator and the generator of each worker have origins of their
//!             own. I3 guilds make ids with their worker's generator only: `GuildHost::begin` skips the ids of the
//!             guild, and `GuildHost::run` lends the generator for each input and takes it back also after a panic. So
//!             ids are unique, and those of a guild grow. (tests `it/ids.rs`, `guild_host/tests.rs`)
//! Limits      `WORKERS_MAX`; in a cluster 14 workers per node. Ids beyond 4,096 per millisecond and worker have a
//!             later time than the clock.
//! Not here    ids that callers choose (guilds and accounts may have them): callers keep those unique.

use guildhall_cluster::NodeNumber;
pub(crate) use guildhall_cluster::worker_of;
use guildhall_model::{Id, SnowflakeGenerator};
use guildhall_stdx::Timestamp;
use guildhall_store::{Store, StoreError};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// Of ids that a single node makes: guilds and accounts.
const NODE_ORIGIN: u16 = 0x3ff;
/// Origins of a node in a cluster: one per worker, and one of the node.
const ORIGINS_PER_NODE: u16 = 16;
/// Origin of the generators that guilds are loaded with. No id has it: `GuildHost::run` lends the worker's generator.
pub(crate) const RESTING_ORIGIN: u16 = 0x3fe;
/// Number of remaining origins: one per worker.
pub(crate) const WORKERS_MAX: usize = RESTING_ORIGIN as usize;

/// Origins of the ids that this node makes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origins {
    /// All origins: the node is not in a cluster.
    Single,
    /// The origins reserved for this node number.
    OfNode(NodeNumber),
}

impl Origins {
    /// Number of workers that may make ids.
    pub(crate) fn workers_max(self) -> usize {
        match self {
            Self::Single => WORKERS_MAX,
            Self::OfNode(_) => usize::from(ORIGINS_PER_NODE) - 2,
        }
    }

    /// Id generator of a worker's guilds. `worker` is below `workers_max`.
    pub(crate) fn of_worker(self, worker: usize) -> SnowflakeGenerator {
        assert!(worker < self.workers_max(), "a node has at most {} workers", self.workers_max());
        SnowflakeGenerator::new(self.first() + worker as u16)
    }

    fn of_node(self) -> SnowflakeGenerator {
        SnowflakeGenerator::new(match self {
            Self::Single => NODE_ORIGIN,
            Self::OfNode(_) => self.first() + ORIGINS_PER_NODE - 1,
        })
    }

    fn first(self) -> u16 {
        match self {
            Self::Single => 0,
            Self::OfNode(number) => u16::from(number.0) * ORIGINS_PER_NODE,
        }
    }
}

pub(crate) struct Ids {
    store: Arc<dyn Store>,
    floor: OnceCell<u64>,
    generator: Mutex<SnowflakeGenerator>,
}

impl Ids {
    pub(crate) fn new(store: Arc<dyn Store>, origins: Origins) -> Self {
        Self { store, floor: OnceCell::new(), generator: Mutex::new(origins.of_node()) }
    }

    /// The largest id in use when the node started; read once.
    pub(crate) async fn floor(&self) -> Result<u64, StoreError> {
        self.floor.get_or_try_init(|| self.store.largest_id()).await.copied()
    }

    /// The largest id that the store knew at start; none if it has not been read.
    pub(crate) fn known_floor(&self) -> Option<u64> {
        self.floor.get().copied()
    }

    pub(crate) async fn next<T>(&self, now: Timestamp) -> Result<Id<T>, StoreError> {
        let floor = self.floor().await?;
        let mut generator = self.generator.lock().unwrap_or_else(PoisonError::into_inner);
        let id = generator.next(now);
        if id.get() > floor {
            return Ok(id);
        }
        generator.skip_past(Id::<T>::new(floor));
        Ok(generator.next(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::GuildId;

    #[test]
    fn guilds_spread_over_workers() {
        let mut counts = [0; 4];
        for n in 0..8000 {
            let guild_id = GuildId::new(1_100_000_000_000_000_000 + (n << 22));
            counts[worker_of(guild_id, 4)] += 1;
        }
        assert!(counts.iter().all(|count| (1600..2400).contains(count)), "{counts:?}");
    }

    fn first_ids(origins: Origins) -> Vec<u64> {
        let now = Timestamp(1_700_000_000_000);
        let workers = (0..origins.workers_max()).map(|worker| origins.of_worker(worker));
        let mut ids: Vec<u64> = workers.map(|mut ids| ids.next::<()>(now).get()).collect();
        ids.push(origins.of_node().next::<()>(now).get());
        ids
    }

    #[test]
    fn i2_no_two_generators_make_the_same_id() {
        let mut ids = first_ids(Origins::Single);
        ids.push(SnowflakeGenerator::new(RESTING_ORIGIN).next::<()>(Timestamp(1_700_000_000_000)).get());
        ids.sort_unstable();
        assert!(ids.is_sorted_by(|a, b| a < b), "the origins are in place of the lower bits");
        let numbers = (0..NodeNumber::NODES_MAX).map(NodeNumber);
        let ids: Vec<u64> = numbers.flat_map(|number| first_ids(Origins::OfNode(number))).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "nodes of a cluster have origins of their own");
    }
}
