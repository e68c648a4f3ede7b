//! Simulation: a guild, direct messages, partitions and hundreds of sessions on one thread, over restarts of the
//! process, with faults drawn from a seed.
//!
//! Owns        random actions (`world`, `act`), the queues, store and faults between the machines (`pipeline`, `store`,
//!             `faults`), and the checks (`checker` and `session`, by the rules of `model`).
//! Doors       `run`, one seed.
//! Invariants  the same seed, options and build give the same run: no clock, no threads, no other randomness.
//! Limits      `Options::steps`; accounts, clients and limits of the partitions are drawn within `world`'s constants.
//! Not here    the node's threads and its SQLite store, sockets, and the hand-over file (only its contents): they
//!             have tests of their own.
#![forbid(unsafe_code)]

mod act;
mod checker;
mod client;
mod faults;
mod model;
mod pipeline;
mod session;
mod store;
mod world;

pub use faults::InjectedFault;

use std::fmt;

/// How a seed is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of random actions.
    pub steps: u32,
    /// The fault to inject.
    pub injected_fault: InjectedFault,
    /// Writes a trace to standard error.
    pub trace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { steps: 500, injected_fault: InjectedFault::None, trace: false }
    }
}

/// Statistics of a run without fault.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Sessions that were started.
    pub sessions: u64,
    /// RESUMEs that succeeded.
    pub resumed: u64,
    /// RESUMEs that were refused.
    pub refused: u64,
    /// Dispatches that clients decoded, each compared with what it had to be.
    pub compared: u64,
    /// Dispatches left out of replays.
    pub withheld: u64,
    /// Sessions that were reset because events were lost.
    pub resets: u64,
    /// Connections that moved to another partition.
    pub moved: u64,
    /// Sessions that the next process took over.
    pub restored: u64,
    /// Of all that clients decoded, in order: two runs that differ anywhere differ here.
    pub digest: u64,
}

impl Summary {
    /// Adds another run's.
    pub fn add(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.resumed += other.resumed;
        self.refused += other.refused;
        self.compared += other.compared;
        self.withheld += other.withheld;
        self.resets += other.resets;
        self.moved += other.moved;
        self.restored += other.restored;
        self.digest = self.digest.rotate_left(1) ^ other.digest;
    }
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Seed of the run.
    pub seed: u64,
    /// Step at which the checker found it.
    pub step: u32,
    /// Client that the fault concerns, if any.
    pub client: Option<usize>,
    /// Expected and actual behaviour.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "violation: seed {}, step {}", self.seed, self.step)?;
        if let Some(client) = self.client {
            write!(f, ", client {client}")?;
        }
        write!(f, "\n  {}", self.what)
    }
}

/// Runs one seed to its end.
///
/// # Errors
/// The first violation.
pub fn run(seed: u64, options: Options) -> Result<Summary, Violation> {
    let world =
        world::World::new(seed, options).map_err(|fault| Violation { seed, step: 0, client: None, what: fault.0 })?;
    world.run()
}
