//! Happenings: what a partition counts. The driver turns them into logs and metrics.

/// Counters of one partition, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that were greeted.
    pub conns_total: u64,
    /// Sessions started by IDENTIFY.
    pub identified_total: u64,
    /// Sessions taken up again by RESUME.
    pub resumed_total: u64,
    /// RESUMEs answered with op 9 `false`.
    pub resumes_refused_total: u64,
    /// Sessions forgotten: expired, destroyed, or past their replay limits.
    pub sessions_ended_total: u64,
    /// Dispatches that were given to sessions, connected or not.
    pub dispatches_total: u64,
    /// Connections cut because they did not read.
    pub slow_consumers_total: u64,
    /// Sessions that a guild was lost to for a moment, because its relay had fallen behind.
    pub resets_total: u64,
    /// Messages that were compressed once for all who get them, or alone for one.
    pub bodies_deflated_total: u64,
    /// Dispatches kept from a RESUME because the session may no longer see them.
    pub withheld_total: u64,
}
