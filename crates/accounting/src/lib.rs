//! Accounting: which message type costs a loop how much time, which guild is the loudest, and what a collection weighs.
//!
//! Owns        `LoopAccount` (wall time by message type, mailbox, share of a core), `Durations` (a histogram),
//!             `TopList` (the largest keys of a stream in bounded memory), `History` (the last hour of a few series),
//!             `sample` (an estimate of a large collection's heap).
//! Invariants  no clock: drivers measure and pass nanoseconds. A loop's account has one writer, its own thread, and any
//!             number of readers, which take no lock.
//! Limits      all sizes are fixed when an account is made; counters wrap after 2⁶⁴.
//! Not here    names of message types (their loops have them), exposition (`guildhall::metrics`).

#![forbid(unsafe_code)]

mod durations;
mod history;
mod loop_account;
pub mod sample;
mod top_list;

pub use durations::{Durations, DurationsSnapshot};
pub use history::{History, Series};
pub use loop_account::{KindReport, LoopAccount, LoopReport};
pub use top_list::{TopEntry, TopList};
