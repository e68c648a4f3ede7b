//! Open files: each socket is one, and the default limit of a process is low.
//!
//! Invariants  the soft limit is raised to the hard limit and never above, which only the administrator may change.
//!             Sockets leave descriptors for the store, files, polls and logs, so that the node works while it
//!             refuses connections.
//! Limits      `reserved` descriptors in addition to sockets. Uploads and downloads can use more; then new
//!             sockets get 503.

use rustix::process::{Resource, getrlimit, setrlimit};

/// The store, files that come and go with messages, threads' polls and rings, logs.
const RESERVED: u64 = 256;
/// Where few are allowed: an idle node has some 60 open.
const RESERVED_MIN: u64 = 96;
/// As `server.connections_max` has it.
const PLACES_MIN: u64 = 16;

/// Places for sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// The configured number, or fewer.
    pub connections_max: u32,
    /// Descriptors that the system allows; none for any number.
    pub allowed: Option<u64>,
}

/// Raises the soft limit to the hard one, and returns it. None: there is no limit.
pub fn raise_limit() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit of open files cannot be raised");
        }
    }
    getrlimit(Resource::Nofile).current
}

/// Raises the limit for a bench, which warns if its clients do not fit.
pub fn raise_limit_for(connections: u32) {
    let allowed = raise_limit();
    if places(connections, allowed).connections_max < connections {
        tracing::warn!(allowed, connections, "fewer open files are allowed than the bench needs: see ulimit -n");
    }
}

/// How many files may be open once `raise_limit` was called. None: there is no limit.
pub fn allowed() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

/// How many sockets there is room for.
#[must_use]
pub fn places(connections_max: u32, allowed: Option<u64>) -> Places {
    let fits = |allowed: u64| allowed.saturating_sub(reserved(allowed)).max(PLACES_MIN);
    let most = allowed.map_or(u64::MAX, fits).min(connections_max.into());
    Places { connections_max: u32::try_from(most).unwrap_or(u32::MAX), allowed }
}

fn reserved(allowed: u64) -> u64 {
    (allowed / 4).clamp(RESERVED_MIN, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let allowed = raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(allowed, limit.current);
    }

    #[test]
    fn s9_sockets_leave_descriptors_for_the_rest() {
        let check = |connections_max, allowed, expected| {
            assert_eq!(places(connections_max, allowed).connections_max, expected, "{connections_max} {allowed:?}");
        };
        check(20_000, None, 20_000);
        check(20_000, Some(1_048_576), 20_000);
        check(20_000, Some(20_000), 19_744);
        check(20_000, Some(1_024), 768);
        check(20_000, Some(256), 160);
        check(100, Some(256), 100);
        check(20_000, Some(64), 16);
    }
}
