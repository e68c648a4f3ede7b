//! Training of what compression starts with: zstd dictionaries, and the entropy tables of shared-match.
//!
//! Owns        the samples, from synthetic traffic or from recordings, and the training.
//! Invariants  equal arguments give equal bytes.
//! Not here    the traffic: the crate `traffic`. The folder that a node serves dictionaries from:
//!             `guildhall::dictionaries`.
#![forbid(unsafe_code)]

mod anonymous;
mod samples;
mod tables;
mod traffic;

pub use samples::{Recording, SAMPLES_MIN, samples_of_traffic, train_dictionary};
pub use tables::{TablesArgs, train_tables};
pub use traffic::{TrafficKind, scope_of};
