//! Cluster: several nodes as one gateway, as a machine without sockets and clock.
//!
//! Owns        one node's view of the others and the way of inputs to guilds' owners (`cluster`), its lease (`lease`),
//!             the choice of a node for a guild (`placement`), the messages between nodes (`peer`) and their binary
//!             form (`wire`); at the home of an account what it uses (`ledger`), at the home of an idempotency key who
//!             executes (`executions`); the choice of guilds that move for load (`balance`).
//! Not here    the bus and the lease store (`guildhall-bus`), the threads around this (`guildhall-node`).
#![forbid(unsafe_code)]

mod balance;
mod cluster;
mod executions;
mod lease;
mod ledger;
mod node;
mod peer;
mod placement;
pub mod wire;

pub use balance::{BalanceLimits, BalanceMove, BalanceReason, Balancer, GUILDS_MEASURED_MAX, GuildLoad, GuildLoads};
pub use cluster::{
    CONFIRM_MS_MAX, Cluster, LOCATE_MS_MAX, Origin, Output, OwnerOp, OwnerResult, PARKED_MAX, Pushed, Revision,
};
pub use executions::{Executed, Executions, Executor, KeyName, KeyState};
pub use lease::{Lease, LeaseTimes, Renewal};
pub use ledger::{AccountLimits, IdentifyRequest, Ledger, Living, OverLimit, Reporter, Usage, Used};
pub use node::{Incarnation, NodeLoad, NodeNumber, NodeRecord, NodeState, OwnerRecord};
pub use peer::{
    Answer, Creation, DirectoryChange, GuildInput, NotServed, PeerMessage, ReadMessage, RelayPlace, RequestId,
    TraceContext,
};
pub use placement::{home_of, node_for, worker_of};
