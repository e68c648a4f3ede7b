//! Load: benches against a real server process, `guildhall serve`, driven from outside by its own API and real clients.
//!
//! Owns        `guildhall-bench hostile`, `drain`, `takeover`, `import`, `feed` and `cluster`, and their common parts:
//!             the process (`node`), requests of the backend API (`backend`), clients that behave (`clients`), both
//!             together (`test_bed`), and curves (`curve`).
//! Invariants  what must hold logically is asserted: the bench ends with an error when something was lost or
//!             delivered twice. What depends on the machine is printed.

mod attackers;
mod backend;
mod clients;
pub mod cluster;
mod curve;
pub mod drain;
pub mod feed;
mod fixture;
pub mod hostile;
pub mod import;
mod node;
mod rest;
pub mod takeover;
mod test_bed;
