//! Telemetry: metrics, reports, traces and logs from the counters, durations and spans of a node.
//!
//! Owns        `/metrics` (`metrics`), the exporter of traces (`traces`), reports for `/v1/node` and the dashboard with
//!             their history (`reports`), the log (`logging`), memory by owner (`owners`), and what the system
//!             reports of this process (`memory`, `disk`, `certificate`).
//! Invariants  nothing here is on the path of a delivery: figures are read where they are counted.
//! Not here    what is counted, and the shapes of reports: `guildhall_accounting` and the crates that count.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod disk;
pub mod logging;
pub mod memory;
pub mod metrics;
pub mod owners;
pub mod reports;
pub mod spare;
pub mod traces;
