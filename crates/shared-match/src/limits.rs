//! Limits: bounds on a matcher's memory and on the cost of a search.

use crate::history::Domain;

/// Most recipients of a body that is parsed with each effort. With more, the next one costs less than contexts would.
const GREEDY_AUDIENCE_MAX: u32 = 4;
const LAZY_AUDIENCE_MAX: u32 = 32;

/// Bounds on a matcher's memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum memory in bytes of the bodies that later ones can refer to, with their indexes, over all domains and for
    /// any number of connections. See [`crate::Matcher::set_connections`].
    pub history_bytes_max: usize,
    /// Always this effort, whatever the audience: for tests and benches.
    pub effort: Option<Effort>,
}

/// How much a body's search may cost, by the number of its recipients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// For a handful of recipients, and direct messages: each recipient has a parse of its own, which takes the first
    /// match that is found. The recipients share the index of the domain, and nothing else.
    Greedy,
    /// For a dozen: a match may wait for a better one.
    Lazy,
    /// For dozens and more: the cheapest parse under real prices of all that the search finds.
    Optimal,
}

impl Effort {
    /// A search costs at most half of what contexts would for its recipients. A direct message is for itself.
    pub(crate) fn of(domain: Domain, audience: u32) -> Self {
        match (domain, audience) {
            (Domain::Direct { .. }, _) => Self::Greedy,
            (_, ..=GREEDY_AUDIENCE_MAX) => Self::Greedy,
            (_, ..=LAZY_AUDIENCE_MAX) => Self::Lazy,
            _ => Self::Optimal,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { history_bytes_max: 20 << 20, effort: None }
    }
}
