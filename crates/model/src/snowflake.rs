//! Snowflakes: time-ordered 64-bit ids.
//!
//! Spec  docs/protocol/reference.md §11: `(unix_ms − EPOCH_MS) << 22 | worker(5) << 17 | process(5) << 12 |
//!             increment(12)`.

use crate::id::{GuildId, Id};
use guildhall_stdx::Timestamp;

/// 2015-01-01T00:00:00Z in Unix milliseconds.
pub const EPOCH_MS: i64 = 1_420_070_400_000;

/// Creation time of an id.
#[must_use]
pub fn timestamp_of<T>(id: Id<T>) -> Timestamp {
    Timestamp((id.get() >> 22) as i64 + EPOCH_MS)
}

/// The smallest id of time `at`; 0 before the epoch. For pagination by time.
#[must_use]
pub fn smallest_id_at<T>(at: Timestamp) -> Id<T> {
    Id::new(((at.0 - EPOCH_MS).max(0) as u64) << 22)
}

/// Index of a guild's shard out of `shards_count`; 0 when the count is 0.
#[must_use]
pub fn shard_of(guild_id: GuildId, shards_count: u32) -> u32 {
    ((guild_id.get() >> 22) % u64::from(shards_count.max(1))) as u32
}

/// Generates ids that are strictly increasing, even if the wall clock steps back.
#[derive(Debug)]
pub struct SnowflakeGenerator {
    /// Worker and process bits, shifted into place.
    origin: u64,
    last_ms: u64,
    increment: u64,
}

impl SnowflakeGenerator {
    /// A generator whose ids carry `origin` (10 bits: worker and process). Two generators with different
    /// origins never collide.
    #[must_use]
    pub fn new(origin: u16) -> Self {
        Self { origin: u64::from(origin & 0x3ff) << 12, last_ms: 0, increment: 0 }
    }

    /// The next id. After 4096 ids within one millisecond it uses the next millisecond's ids.
    pub fn next<T>(&mut self, now: Timestamp) -> Id<T> {
        let now_ms = (now.0 - EPOCH_MS).max(0) as u64;
        if now_ms > self.last_ms {
            self.last_ms = now_ms;
            self.increment = 0;
        } else if self.increment == 0xfff {
            self.last_ms += 1;
            self.increment = 0;
        } else {
            self.increment += 1;
        }
        Id::new(self.last_ms << 22 | self.origin | self.increment)
    }

    /// Guarantees that later ids are greater than `id`. Call it with the newest known id after a restart.
    pub fn skip_past<T>(&mut self, id: Id<T>) {
        let ms = (id.get() >> 22) + 1;
        if ms > self.last_ms {
            self.last_ms = ms;
            self.increment = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageId;

    #[test]
    fn documented_vectors() {
        assert_eq!(smallest_id_at::<()>(Timestamp(1_700_000_000_000)).get(), 1_174_109_840_998_400_000);
        let id = GuildId::new(1_100_000_000_000_000_000);
        assert_eq!(timestamp_of(id), Timestamp(1_682_330_837_011));
        assert_eq!(shard_of(id, 4), 3);
        assert_eq!(smallest_id_at::<()>(Timestamp(0)).get(), 0);
    }

    #[test]
    fn strictly_increasing_when_the_clock_steps_back() {
        let mut generator = SnowflakeGenerator::new(3);
        let mut last = MessageId::new(0);
        for i in 0..20_000 {
            let at = Timestamp(1_700_000_000_000 - i % 7);
            let id = generator.next(at);
            assert!(id > last);
            last = id;
        }
        generator.skip_past(MessageId::new(last.get() + (1 << 30)));
        assert!(generator.next::<crate::marker::Message>(Timestamp(0)).get() > last.get() + (1 << 30));
    }
}
