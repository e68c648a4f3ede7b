//! Utilities that several crates need and the standard library lacks.
//!
//! Owns        time as a value (`Instant`, `Timestamp`, `Now`), seeded randomness (`Rng`), a slot map
//!             (`Slots`), a sorted map with snapshots (`CowMap`), estimates of memory (`heap`), a step counter
//!             for tests (`steps_taken`), refusals by reason (`Refusals`), a token bucket (`Allowance`),
//!             leniency in JSON (`json`).
//! Invariants  nothing here reads a clock or an entropy source: both are arguments, so that every machine above replays
//!             exactly in a simulation.
//! Not here    the real clock (`guildhall-net`) and the fake one (`guildhall-test-kit`).
#![forbid(unsafe_code)]

mod allowance;
mod cow_map;
pub mod heap;
mod json;
mod refusals;
mod rng;
mod slots;
mod steps;
mod time;

pub use allowance::Allowance;
pub use cow_map::CowMap;
pub use json::{replace_surrogate_halves, whole_number};
pub use refusals::{Fault, LogGate, Refusals};
pub use rng::Rng;
pub use slots::{SlotKey, Slots};
pub use steps::{count_steps, steps_taken};
pub use time::{Instant, Now, OptionalInstant, ParseTimestampError, Timestamp};
