//! Accounting: which message type costs a loop how much time, and which dispatch type costs how many bytes.
//!
//! Owns        `LoopAccount` (wall time by message type, mailbox, share of a core), `Durations` (histograms), `Sent`
//!             (bytes of a dispatch type), `History` (the last hour of all series), the spans of a traced request
//!             (`TraceHandle`), and the shapes of the node's reports (`report`).
//! Invariants  no clock: drivers measure and pass nanoseconds. A loop's account has one writer, its own thread, and any
//!             number of readers; neither takes a lock.
//! Limits      all sizes are fixed when an account is made; counters wrap after 2⁶⁴.
//! Not here    names of message types (their loops have them), exposition (`guildhall_telemetry::metrics`).

#![forbid(unsafe_code)]

mod bandwidth;
mod callers;
mod canaries;
mod durations;
mod guilds;
mod history;
mod loop_account;
pub mod report;
mod switch;
#[expect(clippy::disallowed_types, reason = "instants are arguments: their clock is above the line")]
mod trace;

pub use bandwidth::{Sent, SentRow};
pub use callers::{CALLERS_WINDOW_S, Loudest, Requests};
pub use canaries::{CANARY_CLASSES, CanaryAccount};
pub use durations::{Durations, DurationsSnapshot, SparseDurations};
pub use history::{FINE_S, History, HistoryReport, Reading, SERIES_MAX, STEP_S, Sample, WINDOW_S_MAX};
pub use loop_account::{KindReport, LoopAccount, LoopReport};
pub use switch::{is_on, set_on};
pub use trace::{
    Attribute, AttributeValue, FinishedTrace, SPANS_MAX, Span, SpanStatus, TraceHandle, TraceSink, TraceStart,
};
