//! Stream account: which writer a compressed stream has, since when, and what that takes.
//!
//! Invariants  A1 an account is of one writer: another begins when shared-match takes over. A2 compressions are timed
//!             by the sample of `sent` (S3 there), so the mean is of one in `TIMED_ONE_IN`.
//! Not here    which stream has which writer: `stream_codec`, `context_budget`.

use guildhall_stdx::Instant;

/// Compressions per one that is timed.
pub const TIMED_ONE_IN: u64 = 64;

/// What writes a compressed stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// A library context.
    Context,
    /// A larger library context (ADR 16).
    LargerContext,
    /// Shared-match (ADR 19).
    SharedMatch,
}

impl Writer {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Context, Self::LargerContext, Self::SharedMatch];

    /// Name in `/v1` and on pages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Context => "per-connection",
            Self::LargerContext => "per-connection, upgraded",
            Self::SharedMatch => "shared-match",
        }
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamAccount {
    /// When its writer took over.
    pub since: Instant,
    /// Compressions that were timed.
    pub timed: u32,
    /// Nanoseconds of these.
    pub timed_ns: u64,
}

impl StreamAccount {
    /// A writer takes over.
    pub fn begin(now: Instant) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// A compression was timed.
    pub fn took(&mut self, ns: u64) {
        self.timed += 1;
        self.timed_ns += ns;
    }
}
