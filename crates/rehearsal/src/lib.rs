//! Rehearsal: a gateway for authors of clients. It plays a scenario and judges what the client does; it records what
//! another gateway sends, and serves that again.
//!
//! Owns        the formats of scenarios and of captures, the scenarios of the program, their play and its verdict, the
//!             proxy that captures, and the gateway that replays.
//! Doors       `Scenario::parse` or `built_in`, `Stage::open`, then `play`; `capture`; `Capture` and `Replayer`.
//! Invariants  every wait of a play has a bound, and a play ends within the scenario's time limit.
//! Limits      `SCENARIO_BYTES_MAX`, `STEPS_MAX`, `MOMENTS_MAX`.
//! Not here    the command line: `guildhall`.     Spec  docs/rehearsal.md.
#![forbid(unsafe_code)]
// A guild has more fields than `json!` takes by default.
#![recursion_limit = "256"]

mod bodies;
mod built_in;
mod capture;
mod http;
mod link;
mod ops;
mod play;
mod rest;
mod scenario;
mod stage;
mod verdict;

pub use bodies::{BOT_ID, bot_token};
pub use built_in::{built_in, built_in_names, source as built_in_source};
pub use capture::{
    CAPTURE_VERSION, Capture, CaptureHeader, CaptureLine, CaptureParams, CaptureReader, CaptureSummary, ReplayParams,
    ReplayStats, Replayer, capture,
};
pub use link::Compression;
pub use play::{Params, play};
pub use scenario::{SCENARIO_BYTES_MAX, STEPS_MAX, Scenario, ScenarioError, Step};
pub use stage::Stage;
pub use verdict::{ClientInfo, MOMENTS_MAX, Moment, Outcome, StepPlace, Verdict};
