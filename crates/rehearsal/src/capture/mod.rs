//! Captures: recordings of a gateway's bytes, and their replay.
//!
//! Owns        the proxy that records, the format of the files, the gateway that serves one.
//! Spec        docs/rehearsal.md "Captures".

mod file;
mod frames;
mod proxy;
mod record;
mod replay;
mod scrub;
mod term;

pub use file::{CAPTURE_VERSION, CaptureHeader, CaptureLine, CaptureReader};
pub use proxy::{CaptureParams, capture};
pub use record::CaptureSummary;
pub use replay::{Capture, ReplayParams, ReplayStats, Replayer};
