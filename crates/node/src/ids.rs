//! Ids: unique on a node, and larger than every id that was used before, whatever the clock says.
//!
//! Owns        the largest id that the store knew at start, the node's own generator, and the assignment of
//!             origins to generators.
//! Invariants  I1 no new id is at or below an id that was stored before the node started, so a clock that was set back
//!             causes no duplicates. I2 the node's own generator and the generator of each worker have origins of their
//!             own. I3 guilds make ids with their worker's generator only: `GuildHost::begin` skips the ids of the
//!             guild, and `GuildHost::run` lends the generator for each input and takes it back also after a panic. So
//!             ids are unique, and those of a guild grow. (tests `it/ids.rs`, `guild_host/tests.rs`)
//! Limits      `WORKERS_MAX`. Ids beyond 4,096 per millisecond and worker have a later time than the clock.
//! Not here    ids that callers choose (guilds and accounts may have them): callers keep those unique.

use guildhall_model::{GuildId, Id, SnowflakeGenerator};
use guildhall_stdx::{Rng, Timestamp};
use guildhall_store::{Store, StoreError};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// Of ids that the node makes: guilds and accounts.
const NODE_ORIGIN: u16 = 0x3ff;
/// Of the generators that guilds come with. They rest: an id of this origin was made past `Slot::run`.
pub(crate) const RESTING_ORIGIN: u16 = 0x3fe;
/// Number of remaining origins: one per worker.
pub(crate) const WORKERS_MAX: usize = RESTING_ORIGIN as usize;

pub(crate) struct Ids {
    store: Arc<dyn Store>,
    floor: OnceCell<u64>,
    generator: Mutex<SnowflakeGenerator>,
}

impl Ids {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, floor: OnceCell::new(), generator: Mutex::new(SnowflakeGenerator::new(NODE_ORIGIN)) }
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

/// Id generator of a worker's guilds. `worker` is below `WORKERS_MAX`.
pub(crate) fn worker_ids(worker: usize) -> SnowflakeGenerator {
    assert!(worker < WORKERS_MAX, "a node has at most {WORKERS_MAX} workers");
    SnowflakeGenerator::new(worker as u16)
}

/// Which of `workers_count` workers runs a guild.
pub(crate) fn worker_of(guild_id: GuildId, workers_count: usize) -> usize {
    (Rng::new(guild_id.get()).next_u64() as u32 as usize) % workers_count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guilds_spread_over_workers() {
        let mut counts = [0; 4];
        for n in 0..8000 {
            let guild_id = GuildId::new(1_100_000_000_000_000_000 + (n << 22));
            counts[worker_of(guild_id, 4)] += 1;
        }
        assert!(counts.iter().all(|count| (1600..2400).contains(count)), "{counts:?}");
    }

    #[test]
    fn i2_no_two_generators_make_the_same_id() {
        let now = Timestamp(1_700_000_000_000);
        let mut ids: Vec<u64> = (0..WORKERS_MAX).map(|worker| worker_ids(worker).next::<()>(now).get()).collect();
        let rest = [RESTING_ORIGIN, NODE_ORIGIN].map(|origin| SnowflakeGenerator::new(origin).next::<()>(now).get());
        ids.extend(rest);
        assert!(ids.is_sorted_by(|a, b| a < b), "the origins are in place of the lower bits");
    }
}
