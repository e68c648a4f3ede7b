//! Our little standard library: what every crate needs and none owns.
//!
//! Owns        time as a value (`Instant`, `Timestamp`, `Now`), seeded randomness (`Rng`), places (`Slots`),
//!             a sorted map with snapshots (`CowMap`), durations in buckets (`Histogram`),
//!             a count of steps for tests (`steps_taken`).
//! Invariants  nothing here reads a clock or an entropy source: both come in as arguments, so that
//!             every machine above replays exactly in a simulation.
//! Not here    the real clock (`guildhall-net`) and the fake one (`guildhall-test-kit`).
#![forbid(unsafe_code)]

mod cow_map;
mod histogram;
mod rng;
mod slots;
mod steps;
mod time;

pub use cow_map::CowMap;
pub use histogram::{HISTOGRAM_BOUNDS_US, Histogram};
pub use rng::Rng;
pub use slots::{SlotKey, Slots};
pub use steps::{count_steps, steps_taken};
pub use time::{Instant, Now, ParseTimestampError, Timestamp};
