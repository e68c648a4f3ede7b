//! Routes of the upstream API that this server does not serve: named in the answer, and counted.
//!
//! Owns        `Unserved`: the paths of `crate::upstream` that no row of `crate::routes` has, and the methods that its
//!             rows lack, with their counters.
//! Invariants  the labels of the counters are these paths, these methods with their paths, and `OTHER`,
//!             whatever clients send. No label is a route of `crate::routes`. (tests below, and
//!             `it/surface/routes.rs` of `guildhall`)
//! Limits      a request to an unknown path is compared with each template once; `Bucket::Anonymous` limits
//!             their rate per peer.

use crate::{
    routes::{ROUTES, fits},
    upstream::{METHODS, PATHS},
};
use axum::http::Method;
use std::sync::atomic::{AtomicU64, Ordering};

/// Label of paths that upstream does not have either.
pub const OTHER: &str = "other";

/// Requests per unserved route since the start.
#[derive(Debug)]
pub struct Unserved {
    known: Vec<(&'static str, AtomicU64)>,
    other: AtomicU64,
}

impl Default for Unserved {
    fn default() -> Self {
        let is_served = |path: &str| ROUTES.iter().any(|route| route.path == path);
        let unserved = PATHS.iter().filter(|path| !is_served(path)).chain(METHODS);
        Self { known: unserved.map(|path| (*path, AtomicU64::new(0))).collect(), other: AtomicU64::new(0) }
    }
}

impl Unserved {
    /// Counts a request to an unknown path, or with a method that the path lacks. Returns the route that it means, if
    /// upstream has it.
    pub(crate) fn count(&self, method: &Method, path: &str) -> Option<&'static str> {
        let found = self.find(method, path);
        found.map_or(&self.other, |(_, count)| count).fetch_add(1, Ordering::Relaxed);
        found.map(|(label, _)| *label)
    }

    /// Whether upstream has a route with this method and path that is not served. Counts nothing.
    pub(crate) fn is_known(&self, method: &Method, path: &str) -> bool {
        self.find(method, path).is_some()
    }

    fn find(&self, method: &Method, path: &str) -> Option<&(&'static str, AtomicU64)> {
        self.known.iter().find(|(label, _)| match label.split_once(' ') {
            Some((of, template)) => of == method.as_str() && fits(template, path),
            None => fits(label, path),
        })
    }

    /// Every label with its count.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let known = self.known.iter().map(|(template, count)| (*template, count));
        known.chain([(OTHER, &self.other)]).map(|(label, count)| (label, count.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn paths_find_their_template() {
        let unserved = Unserved::default();
        let check =
            |path: &str, expected: Option<&str>| assert_eq!(unserved.count(&Method::GET, path), expected, "{path}");
        check("/guilds/5/members-search", Some("/guilds/{guild_id}/members-search"));
        check("/channels/1/call", Some("/channels/{channel_id}/call"));
        check("/channels//call", None);
        check("/channels/1/call/more/of/it", None);
        check("/users/@me/settings", Some("/users/@me/settings"));
        check("/", None);
        check("", None);
        check(&"/a".repeat(4000), None);
        let counts: Vec<_> = unserved.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts.last(), Some(&(OTHER, 5)));
        assert_eq!(counts.len(), 4);
    }

    #[test]
    fn methods_find_their_path() {
        let unserved = Unserved::default();
        let sounds = "/guilds/5/soundboard-sounds";
        assert_eq!(unserved.count(&Method::POST, sounds), Some("POST /guilds/{guild_id}/soundboard-sounds"));
        assert_eq!(unserved.count(&Method::PUT, sounds), None);
        for label in METHODS {
            let (method, path) = label.split_once(' ').unwrap();
            assert!(ROUTES.iter().any(|route| route.path == path), "{label}: no row has this path");
            assert!(ROUTES.iter().all(|route| route.path != path || route.method != method), "{label} is served");
        }
    }

    #[test]
    fn paths_are_distinct_and_no_served_one_counts_as_unserved() {
        assert_eq!(PATHS.iter().collect::<BTreeSet<_>>().len(), PATHS.len());
        let same_shape = |a: &str, b: &str| {
            a.split('/').count() == b.split('/').count()
                && a.split('/').zip(b.split('/')).all(|(a, b)| a == b || (a.starts_with('{') && b.starts_with('{')))
        };
        for (label, _) in Unserved::default().counts() {
            let served = ROUTES.iter().find(|route| same_shape(route.path, label));
            assert!(served.is_none(), "{label} is served as {served:?}: give it the same variables in `PATHS`");
        }
    }
}
