//! Test kit: fakes that surround the machines in tests and in the simulation.
//!
//! Owns        `FakeClock`; the fake sockets `FakeSocket` and `FakeLink`; `TestClient`, the client side of the
//!             protocol; `TestCluster`, which drives partitions, guilds and clients on one thread; builders of accounts
//!             and guilds.
//! Invariants  nothing here waits, reads a clock or draws randomness of its own: tests are deterministic.
//! Not here    expectations: those of tests and of the simulation's checker. For development only.
#![forbid(unsafe_code)]

mod build;
mod client;
mod clock;
mod cluster;
mod gate;
mod received;
mod socket;

pub use build::{GuildBuilder, bot, id, privileged, user};
pub use client::{ClientFault, ClientParams, TestClient, identify_payload};
pub use clock::FakeClock;
pub use cluster::{ClientId, GRACE_MS, Hold, MirrorMail, MoveFault, Outage, TestCluster, TestClusterConfig};
pub use gate::ScriptedGate;
pub use received::{Body, Dispatch, Received};
pub use socket::{FakeLink, FakeSocket, ServerEnd, Transfer};
