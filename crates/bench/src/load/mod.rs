//! Load: benches against a real server process, `guildhall serve`, driven from outside by its own API and real clients.
//!
//! Owns        `guildhall-bench hostile`, `drain`, `takeover`, `import` and `cluster`, and what they share: the process
//!             (`node`), the backend API as they ask it (`backend`), clients that behave (`clients`), both together
//!             (`test_bed`), and curves (`curve`).
//! Invariants  what must hold logically is asserted: the bench ends with an error when something was lost or told
//!             twice. What depends on the machine is printed.

mod attackers;
mod backend;
mod clients;
pub mod cluster;
mod curve;
pub mod drain;
mod fixture;
pub mod hostile;
pub mod import;
mod node;
mod rest;
pub mod takeover;
mod test_bed;
