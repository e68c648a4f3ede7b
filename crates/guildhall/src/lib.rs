//! Guildhall as a library, and the binary's parts: command line, configuration, assembly, adapters.
//!
//! Owns        the composition of the libraries into a program.
//! Doors       `Server::builder` for programs that embed a node (docs/embedding.md); `cli` for the binary.
//! Invariants  only `assemble` connects the parts of a node; `wiring` has one adapter per seam.
//! Not here    signals and exit codes: `main.rs`.
#![forbid(unsafe_code)]

pub mod assemble;
pub mod backup;
pub mod cli;
pub mod clock;
pub mod cluster;
mod compression;
pub mod config;
pub mod database;
mod deflate;
pub mod dictionaries;
pub mod disk;
pub mod doctor;
mod experiments;
pub mod exposure;
mod files;
mod handover;
mod installed;
pub mod issuers;
pub mod jwks_url;
mod lab;
pub mod open_files;
pub mod preflight;
mod review_hook;
mod secrets;
mod server;
mod start_error;
pub mod takeover;
pub mod tls;
mod token_checks;
pub mod upgrades;
pub mod watch;
pub mod wiring;

pub use async_trait::async_trait;
pub use guildhall_guild as guild;
pub use guildhall_model as model;
pub use guildhall_node as node;
pub use server::{Server, ServerBuilder, ServerError};
