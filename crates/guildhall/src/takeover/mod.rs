//! Takeover: a new process takes over the listeners, sessions and connections of the one that runs.
//!
//! Owns        the messages between the two, and the socket `takeover.sock` in the data directory.
//! Doors       `Door` in the process that runs, and `Successor`, a process that is ready to take over; `Predecessor` in
//!             the new one. `upgrade` starts a new process by the one that runs.
//! Invariants  T1 until the guilds of the old process end, a failure of either side leaves the old one serving. T2 the
//!             listener is never closed: connects wait in the kernel. T3 only a process of the same user is answered.
//! Limits      parts of guilds up to `GUILD_PART_BYTES_MAX`: a guild with a larger one is loaded from the database;
//!             `CONN_BYTES_MAX` of state per connection, `BATCH_BYTES` and `BATCH_CONNS` per message,
//!             `MESSAGE_BYTES_MAX` for what is read; times below. One takeover at a time.
//! Not here    the state of a connection (`guildhall_partition::ConnSnapshot`); sessions, which go by the hand-over
//!             file (`handover`); the order in which the old process ends its parts (`assemble::running`).
//! Spec        docs/adr/0047.

mod channel;
mod door;
mod predecessor;
mod service_manager;
mod upgrade;

pub use door::{Door, GuildsPassed, Listeners, Successor};
pub use predecessor::{Inherited, Predecessor};
pub use service_manager::notify;
pub use upgrade::{Upgraded, upgrade};

use guildhall_model::GuildId;
use guildhall_net::PassedState;
use serde::{Deserialize, Serialize};
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// In the data directory.
const SOCKET: &str = "takeover.sock";
/// Increases when a message changes its form or meaning.
const VERSION: u32 = 2;
/// Bytes of one message.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Descriptors of one message; the kernel allows 253.
const FDS_MAX: usize = 64;
/// Connections of one message.
const BATCH_CONNS: usize = FDS_MAX;
/// A message with this many bytes gets no further connection.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes of one part of a guild. Most have some hundred kilobytes.
const GUILD_PART_BYTES_MAX: usize = 32 << 20;
/// A connection with more state is closed instead.
const CONN_BYTES_MAX: usize = 16 << 20;
/// Time for one message.
const MESSAGE_MAX: Duration = Duration::from_secs(10);
/// Time in which a new process gets ready.
const READY_MAX: Duration = Duration::from_secs(60);
/// Time in which the old process ends its guilds and passes all on.
const PASSING_MAX: Duration = Duration::from_secs(120);
/// Time in which the new process opens the database and restores the sessions.
const SERVING_MAX: Duration = Duration::from_secs(120);

/// First message of a process that connects. Its form never changes.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    guildhall_takeover: u32,
    /// Version of its program.
    program: String,
    pid: u32,
    /// Starts this program to take over. None: the sender takes over itself.
    start: Option<PathBuf>,
}

/// Answer to `Hello`. Only the fields of `Welcome` may change between versions.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Refused {
        reason: String,
    },
    Welcome(Welcome),
    /// The program was started.
    Started {
        pid: u32,
    },
}

/// The listeners come with it: that for clients, and that of `server.admin_listen`.
#[derive(Debug, Serialize, Deserialize)]
struct Welcome {
    /// Version of the program that runs.
    program: String,
    pid: u32,
    /// As in the configuration.
    listen: SocketAddr,
    admin_listen: Option<SocketAddr>,
}

/// From the old process, after `Ready`.
#[derive(Debug, Serialize, Deserialize)]
enum FromOld {
    /// It goes on serving.
    Aborted { reason: String },
    /// The next message is a part of the state of this guild, as `guildhall_node::GuildSink` gets it.
    Guild { guild_id: GuildId },
    /// Each with a descriptor, in this order.
    Conns(Vec<PassedState>),
    /// The old process has released the database.
    End { conns: usize, frozen_at_ns: u64 },
}

/// From the new process.
#[derive(Debug, Serialize, Deserialize)]
enum FromNew {
    /// Its settings are right, and it needs nothing but the database.
    Ready,
    /// It has all descriptors.
    Received,
    Serving(Served),
}

/// Result of a takeover.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Served {
    pub pid: u32,
    /// Connections that go on.
    pub conns: usize,
    /// Connections that were closed instead.
    pub closed: usize,
    /// Time in which they were not served.
    pub pause_ms: u64,
}

/// To `guildhall upgrade`, at the end.
#[derive(Debug, Serialize, Deserialize)]
enum Outcome {
    Done(Served),
    Failed { reason: String },
}

/// Why a process does not take over.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// No process listens on the socket.
    #[error("no node runs on {}: start without --takeover", .0.display())]
    NoNode(PathBuf),
    #[error("{} cannot be reached", .path.display())]
    Socket {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The process that runs refused.
    #[error("the running node refused: {0}")]
    Refused(String),
    /// The process that runs went on serving.
    #[error("the running node goes on: {0}")]
    Aborted(String),
    /// The process that runs ended, or sent what is no message.
    #[error("the running node did not pass its connections on")]
    Broken(#[source] io::Error),
    /// The node is one of a cluster, with this number or name.
    #[error(
        "a node of a cluster is not taken over: its guilds and sessions move to other nodes instead. Run `guildhall \
         cluster drain {node}`, wait for its process to end, replace the program, and start the node as before"
    )]
    Cluster { node: String },
    /// Without a hand-over there are no sessions for the connections.
    #[error("server.handover_bytes_max is 0, so no sessions can be passed on: restart the node")]
    NoHandover,
}

fn socket_path(dir: &Path) -> PathBuf {
    dir.join(SOCKET)
}

fn program() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// Nanoseconds on a clock that all processes of the machine share.
pub fn machine_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
