//! Test kit: what tests and the simulation put around the machines instead of the world.
//!
//! Owns        `FakeClock`; `FakeSocket` and `FakeLink`, which pretend sockets; `TestClient`, which speaks the real
//!             protocol from the other side; `Pair`, which drives partitions, guilds and clients on one thread;
//!             builders of accounts and guilds.
//! Invariants  nothing here waits, reads a clock or draws randomness of its own: a test is the same every time.
//! Not here    what is right and wrong: the tests, and the simulation's checker. For development only.
#![forbid(unsafe_code)]

mod build;
mod client;
mod clock;
mod gate;
mod pair;
mod received;
mod socket;

pub use build::{GuildBuilder, bot, id, privileged, user};
pub use client::{ClientFault, ClientParams, TestClient, identify_payload};
pub use clock::FakeClock;
pub use gate::ScriptedGate;
pub use pair::{ClientId, GRACE_MS, Pair, PairConfig};
pub use received::{Body, Dispatch, Received};
pub use socket::{FakeLink, FakeSocket, ServerEnd};
