//! Upgrades: larger windows and tables for new zstd-stream connections while the node has memory to spare.
//!
//! Owns        the decision (`UpgradeLoop`, without I/O: time and measured memory come in), and the gate where
//!             connections meet it (`UpgradeGate`).
//! Invariants  U1 larger contexts never hold more than the last decision allows, whatever happens between two readings.
//!             U2 what counts is memory as the system measures it, whoever holds it, not what was asked for. (traps.md 6)
//!             U3 the share moves slowly; where there was no room, it stays at none for a while.
//! Limits      the budget: a share of the memory that the node may use. Past it (base contexts alone may get there) nobody
//!             gets a larger context, and those who have one are asked to reconnect, a few at a time.
//! Not here    reading memory (`guildhall::memory`), contexts (`classic`).     Spec  docs/adr/0016.

mod control;
mod gate;

pub use control::{Decision, Reading, Standing, UpgradeConfig, UpgradeLoop};
pub use gate::{GateStats, Upgrade, UpgradeGate};
