//! Upgrades: larger windows and tables for new zstd-stream connections while the node has memory to spare.
//!
//! Owns        the decision (`UpgradeLoop`, without I/O: time and measured memory come in), and the gate where
//!             connections meet it (`UpgradeGate`).
//! Invariants  U1 larger contexts never hold more than the last decision allows, also between two readings. U2 memory
//!             is counted as the system measures it for all its users, not as requested. (traps.md 6) U3 the share
//!             changes slowly; after a lack of room it stays at none for a while.
//! Limits      the budget: a share of the memory that the node may use. Past it (base contexts alone may reach it) no
//!             connection gets a larger context, and the node asks those with one to reconnect, a few at a time.
//! Not here    reading memory (`guildhall::memory`), contexts (`classic`).     Spec  docs/adr/0016.

mod control;
mod gate;

pub use control::{Decision, Reading, Standing, UpgradeConfig, UpgradeLoop};
pub use gate::{GateStats, Upgrade, UpgradeGate};
