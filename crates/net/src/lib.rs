//! Net: sockets, threads and HTTP around the machines below.
//!
//! Owns        the listener, the upgrade, the partitions' loops, the real clock.
//! Invariants  a partition owns its sockets and writes to them itself; nothing here does anything per delivery but
//!             `send`.
//! Not here    payloads of a connection (`guildhall-partition`), REST routes (`guildhall-rest`).
#![forbid(unsafe_code)]

mod access;
mod admin;
mod admission;
mod answers;
mod body;
mod clock;
mod crowd;
mod drain;
mod gatekeeper;
mod http;
mod loop_timer;
mod mailbox;
mod partition_loop;
mod progress;
mod refused;
mod server;
mod sockets;
mod tls;
mod url;
mod write_watch;

pub use access::{AccessLog, AccessNote, Authenticated};
pub use admin::serve_admin;
pub use admission::{AdmissionLimits, ClientAddress, Peers};
pub use answers::{AuthAnswer, DirectsAnswer, MessagesAnswer, SessionAnswer};
pub use clock::SystemClock;
pub use drain::{Accepted, DrainPlan, DrainReport};
pub use gatekeeper::{AccountUsage, IdentifyGate, IdentifyLimits, SessionStartLimit, StampedUsage};
pub use guildhall_partition::{HandOver, Pause, RecentLoss, ResumeFault, SessionClaim, TransferEnd};
pub use mailbox::{PassedConn, PassedOn, PassedState};
pub use server::{
    HttpState, HttpWatch, IoUring, PartitionState, Partitions, RunningServer, Server, ServerConfig, Starting, Upstream,
};
pub use tls::{CertificateError, Certificates};
