//! Cluster: several nodes as one gateway, as a machine without sockets and clock.
//!
//! Owns        one node's view of the others and the way of inputs to guilds' owners (`cluster`), its lease (`lease`), the
//!             choice of a node for a guild (`placement`), the messages between nodes (`peer`) and their binary form (`wire`).
//! Not here    the bus and the lease store (`guildhall-bus`), the threads around this (`guildhall-node`).
#![forbid(unsafe_code)]

mod cluster;
mod lease;
mod node;
mod peer;
mod placement;
pub mod wire;

pub use cluster::{Cluster, LOCATE_MS_MAX, Origin, Output, OwnerOp, OwnerResult, PARKED_MAX, Pushed, Revision};
pub use lease::{Lease, LeaseTimes, Renewal};
pub use node::{Incarnation, NodeNumber, NodeRecord, NodeState, OwnerRecord};
pub use peer::{Answer, Creation, DirectoryChange, GuildInput, NotServed, PeerMessage, RelayPlace, RequestId};
pub use placement::node_for;
