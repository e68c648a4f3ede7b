//! Ids: above every id that was ever used, whatever the clock says.
//!
//! Owns        the largest id that the store knew when it was first asked, and the node's own generator.
//! Invariants  I1 no new id is at or below an id that was stored before the node started, so a clock that went
//!             back cannot make one twice. I2 the node's own ids carry an origin that no guild's do, and guilds of
//!             different workers have different ones. I3 no two channels of a node have the same id: those of one
//!             worker come one per millisecond (`ChannelIds`). (tests `it/directory.rs`)
//! Limits      guilds of one worker may share an origin, and make the same message or role id in the same
//!             millisecond: those are told apart by channel and guild.

use guildhall_model::{ChannelId, GuildId, Id, SnowflakeGenerator};
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

/// Keeps channels of one worker's guilds apart: channels are found by their id alone.
#[derive(Default)]
pub(crate) struct ChannelIds {
    newest: u64,
}

impl ChannelIds {
    /// A guild that makes a channel skips past this first.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    pub(crate) fn made(&mut self, channel_id: ChannelId) {
        self.newest = self.newest.max(channel_id.get());
    }
}

fn mixed(guild_id: GuildId) -> u64 {
    Rng::new(guild_id.get()).next_u64()
}

/// What tells a guild's ids from those of other workers' guilds, and of most of its own worker's.
pub(crate) fn origin_of(guild_id: GuildId, worker: usize, workers_count: usize) -> u16 {
    let share = (usize::from(NODE_ORIGIN) / workers_count.max(1)).max(1);
    ((worker * share + (mixed(guild_id) >> 32) as usize % share) % usize::from(NODE_ORIGIN)) as u16
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
        let mut counts = [0; 4];
        let mut origins = std::collections::BTreeMap::new();
        for n in 0..8000 {
            let guild_id = GuildId::new(1_100_000_000_000_000_000 + (n << 22));
            let worker = worker_of(guild_id, 4);
            counts[worker] += 1;
            let origin = origin_of(guild_id, worker, 4);
            assert!(origin < NODE_ORIGIN);
            assert_eq!(*origins.entry(origin).or_insert(worker), worker, "I2");
        }
        assert!(counts.iter().all(|count| (1600..2400).contains(count)), "{counts:?}");
        assert!(origins.len() > 900);
        assert!((0..2000).all(|worker| origin_of(GuildId::new(1), worker, 2000) < NODE_ORIGIN));
    }
}
