//! Partitions: connections, sessions and relays of one thread, as a machine without I/O.
//!
//! See `Partition`. The driver in `guildhall-net` supplies sockets and a clock; the simulation replaces both.
#![forbid(unsafe_code)]

mod client_requests;
mod config;
mod conn;
mod core;
mod counters;
mod deflate;
mod fanout;
mod handover;
mod identify;
mod inbound;
mod owed;
mod partition;
mod pump;
mod refused;
mod sent;
mod session_reports;
mod sessions;
mod shared;
mod timers;
mod transport;
mod turn;

pub use config::PartitionConfig;
pub use conn::{Compression, ConnParams, INVALID_SESSIONS_MAX, MovingConn};
pub use counters::{Closes, Counters};
pub use handover::HandOver;
pub use partition::{Leaving, Partition};
pub use refused::{IdentifyFault, IdentifyRefused, ResumeFault, ResumeRefused};
pub use sent::SentTable;
pub use session_reports::{Census, LoggedDispatch, SessionDetail, SessionMatch};
pub use sessions::{SessionChange, SessionNews, SessionPage, SessionView, Whose};
pub use shared::{Checked, SharedDictionaries, StreamCodec};
pub use transport::{Account, AuthFailure, Closed, Gatekeeper, Output, PartialSend, Transport};
