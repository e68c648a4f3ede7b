//! Counters: the work of a matcher.

/// Work since the matcher was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bodies searched.
    pub bodies_total: u64,
    /// Parses made of them.
    pub parses_total: u64,
    /// Bodies written to connections.
    pub written_total: u64,
    /// Of these, not with the parse that was tried first: a source was missing.
    pub fallbacks_total: u64,
    /// Of these, with no shared parse: too many newer bodies have come since.
    pub late_total: u64,
    /// Messages that one connection got and no other.
    pub standalone_total: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.bodies_total += other.bodies_total;
        self.parses_total += other.parses_total;
        self.written_total += other.written_total;
        self.fallbacks_total += other.fallbacks_total;
        self.late_total += other.late_total;
        self.standalone_total += other.standalone_total;
    }
}
