//! Verdict: the outcome of a play, with its reason and timeline.
//!
//! Owns        its text and its JSON.
//! Limits      `MOMENTS_MAX`, the first and the last of which are kept.     Spec  docs/rehearsal.md "Verdicts".

use serde::Serialize;
use std::fmt::Write as _;

/// Moments in a verdict.
pub const MOMENTS_MAX: usize = 2_000;
/// Those at the end of a failed one's text.
const MOMENTS_SHOWN: usize = 14;

/// The end of a rehearsal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The client did every step right.
    Passed,
    /// The client made a mistake.
    Failed,
}

/// Result of a play.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// `guildhall-verdict`
    pub format: &'static str,
    /// Of the format.
    pub version: u32,
    pub scenario: String,
    pub outcome: Outcome,
    /// The client's mistake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The scenario's rule.
    pub rule: String,
    /// Where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepPlace>,
    /// Allowed behaviour that could be better.
    pub notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientInfo>,
    pub duration_ms: u64,
    pub timeline: Vec<Moment>,
}

/// A step of the scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepPlace {
    /// Position in the scenario, from 1.
    pub number: usize,
    /// Of the scenario's file, from 1.
    pub line: usize,
    pub step: String,
}

/// How the client introduced itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClientInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// `properties.browser` of IDENTIFY.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Of the gateway's URL.
    pub query: String,
    pub encoding: String,
    pub compression: String,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// Since the start.
    pub at_ms: u64,
    /// `client`, `gateway`, `rest` or `command`.
    pub by: &'static str,
    pub what: String,
}

impl Verdict {
    /// Whether the client passed.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.outcome == Outcome::Passed
    }

    /// For people: one line of a client that passed, and the last moments of another.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let seconds = self.duration_ms as f64 / 1000.0;
        let _ = match self.outcome {
            Outcome::Passed => writeln!(text, "{}: passed in {seconds:.1} s", self.scenario),
            Outcome::Failed => writeln!(text, "{}: failed after {seconds:.1} s", self.scenario),
        };
        if let Some(ClientInfo { user_agent, library, encoding, compression, .. }) = &self.client {
            let name = library.as_deref().or(user_agent.as_deref()).unwrap_or("unknown");
            let _ = writeln!(text, "  client: {name}, {encoding}, compression {compression}");
        }
        if let Some(reason) = &self.reason {
            let _ = writeln!(text, "  reason: {reason}");
            if let Some(StepPlace { number, line, step }) = &self.step {
                let _ = writeln!(text, "  at step {number}: {step} (line {line})");
            }
            let _ = writeln!(text, "  right is: {}", self.rule);
        }
        for note in &self.notes {
            let _ = writeln!(text, "  note: {note}");
        }
        if self.outcome == Outcome::Failed {
            for Moment { at_ms, by, what } in &self.timeline[self.timeline.len().saturating_sub(MOMENTS_SHOWN)..] {
                let _ = writeln!(text, "  {at_ms:>7} ms  {by:<7}  {what}");
            }
        }
        text
    }
}
