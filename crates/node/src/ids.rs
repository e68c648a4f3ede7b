//! Ids: above every id that was ever used, whatever the clock says.
//!
//! Owns        the largest id that the store knew when it was first asked, and the node's own generator.
//! Invariants  I1 no new id is at or below an id that was stored before the node started, so a clock that went
//!             back cannot make one twice. I2 the node's own ids carry an origin that no guild's do.

use guildhall_model::{GuildId, Id, SnowflakeGenerator};
use guildhall_stdx::{Rng, Timestamp};
use guildhall_store::{Store, StoreError};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// Of ids that the node makes: guilds and accounts.
const NODE_ORIGIN: u16 = 0x3ff;

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

    /// The same; none if it was not read yet.
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

fn mixed(guild_id: GuildId) -> u64 {
    Rng::new(guild_id.get()).next_u64()
}

/// What tells a guild's ids from those of most others.
pub(crate) fn origin_of(guild_id: GuildId) -> u16 {
    (mixed(guild_id) >> 32) as u16 % NODE_ORIGIN
}

/// Which of `workers_count` workers runs a guild.
pub(crate) fn worker_of(guild_id: GuildId, workers_count: usize) -> usize {
    (mixed(guild_id) as u32 as usize) % workers_count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guilds_spread_over_workers_and_origins() {
        let mut workers = [0; 4];
        let mut origins = std::collections::BTreeSet::new();
        for n in 0..4000 {
            let guild_id = GuildId::new(1_100_000_000_000_000_000 + (n << 22));
            workers[worker_of(guild_id, 4)] += 1;
            assert_ne!(origin_of(guild_id), NODE_ORIGIN);
            origins.insert(origin_of(guild_id));
        }
        assert!(workers.iter().all(|count| (800..1200).contains(count)), "{workers:?}");
        assert!(origins.len() > 900);
    }
}
