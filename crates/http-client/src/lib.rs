//! HTTP client: how this program reaches other servers, by hyper on the TLS that it has.
//!
//! Owns        connections with and without TLS (`connect`, `Connect`), what authenticates a server (`trust`), and
//!             requests over a connection of their own (`Client`).
//! Doors       `Client::send` for a request now and then; `pool` for many; `Guarded` for URLs that others have chosen;
//!             `connect` and `handshake` for a request whose body and response are streams.
//! Limits      `Client::within` for the whole exchange, and a number of bytes for its response; of a pool `PoolLimits`.
//!             Redirects are not followed.
//! Not here    URLs of the configuration, retries, TLS of the node's own listeners (`guildhall_net`).

#![forbid(unsafe_code)]

mod client;
mod connect;
mod guarded;
mod pool;
mod trust;

pub use client::{Client, RequestError};
pub use connect::{ConnectError, Connection, Stream, connect, connect_to, handshake, request};
pub use guarded::{Guarded, GuardedAnswer, GuardedError};
pub use hyper_util::client::legacy::Client as PoolClient;
pub use pool::{Connect, PoolLimits, Pooled, pool};
pub use tokio_rustls::TlsConnector;
pub use trust::{TrustError, trust};
