//! Cluster: what crosses between the nodes of a cluster.
//!
//! Owns        the binary form of messages (`wire`).
//! Not here    the bus that carries them (`guildhall-bus`); the messages themselves (`guildhall-guild-protocol`,
//!             `guildhall-guild`).
#![forbid(unsafe_code)]

pub mod wire;
