//! Open files: every connection is one, and systems give a process few unless it asks.
//!
//! Invariants  the soft limit is raised to the hard one, never above: that is the administrator's to decide.

use rustix::process::{Resource, getrlimit, setrlimit};

/// What a node needs besides connections: the store, logs, threads' polls.
const RESERVED: u64 = 256;

/// Takes what the system allows, and warns when that is less than `connections_max` needs.
pub fn raise_limit(connections_max: u32) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit of open files cannot be raised");
        }
    }
    // None: there is no limit.
    let Some(allowed) = getrlimit(Resource::Nofile).current else { return };
    let needed = u64::from(connections_max) + RESERVED;
    if allowed < needed {
        tracing::warn!(
            allowed,
            needed,
            "fewer open files are allowed than server.connections_max needs: see ulimit -n"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        raise_limit(1);
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
