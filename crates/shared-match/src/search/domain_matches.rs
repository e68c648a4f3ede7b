//! Domain matches: earlier occurrences of the bytes of a body in bodies of its domains, for all of its recipients.
//!
//! Why         each group of recipients has candidates of its own, but all look up the same positions in the same
//!             indexes. So the groups after the first select from one list.
//! Owns        the matches of one body by position, and the bodies that they are in.
//! Invariants  D1 the list depends on bodies of the domains in which the body is searched, not on its recipients. D2 it
//!             ends when a body leaves a domain (`MatchFinder::forget_domain_matches`): no later group refers to that.
//! Limits      bodies of up to `BODY_BYTES_MAX`; each position has as many matches as an index has ways.

use super::{compare::equal_bytes, finder::MATCH_BYTES_MIN};
use crate::history::{
    BodyId, DomainHistory,
    hash_index::{LONG_BYTES, Position, eight_at},
};

/// Longest body with a list: 3 MiB of matches at most.
pub const BODY_BYTES_MAX: usize = 16 << 10;
/// How far ahead of a position its slots are prefetched.
const AHEAD: usize = 8;
/// Slots of the table from a body to its number: a power of two.
const SLOTS: usize = 1024;

/// Equal bytes in a body of a domain.
#[derive(Clone, Copy, Debug)]
pub struct DomainMatch {
    /// Index of the body in [`DomainMatches::sources`].
    pub source: u32,
    /// Position there.
    pub from: u32,
    pub length: u32,
}

/// A body with matches.
#[derive(Clone, Copy, Debug, Default)]
struct SourceBody {
    id: BodyId,
    begin: Position,
    length: u32,
    /// End of its latest match in the searched body, and that match's shift.
    until: u32,
    shift: i32,
}

/// See the module.
#[derive(Debug)]
pub struct DomainMatches {
    /// The body that was searched; 0 for none.
    id: BodyId,
    /// Domains that were searched for it.
    domains_count: usize,
    sources: Vec<SourceBody>,
    /// By a hash of the id: index of the newest such body in `sources`.
    slots: Box<[u32; SLOTS]>,
    /// Of position `p`: `all[starts[p]..starts[p + 1]]`. A match is at its first position only.
    starts: Vec<u32>,
    all: Vec<DomainMatch>,
}

impl Default for DomainMatches {
    fn default() -> Self {
        let slots = Box::new([0; SLOTS]);
        Self { id: 0, domains_count: 0, sources: Vec::new(), slots, starts: Vec::new(), all: Vec::new() }
    }
}

impl DomainMatches {
    /// There is no list any more.
    pub fn clear(&mut self) {
        self.id = 0;
    }

    /// Matches of the body `id`; searches for them unless it was the last one.
    pub fn find(&mut self, id: BodyId, body: &[u8], domains: &[&DomainHistory]) {
        if (self.id, self.domains_count) == (id, domains.len()) {
            return;
        }
        (self.id, self.domains_count) = (id, domains.len());
        self.sources.clear();
        self.starts.clear();
        self.all.clear();
        let end = (body.len() + 1).saturating_sub(LONG_BYTES);
        for at in 0..body.len() {
            self.starts.push(self.all.len() as u32);
            if at + AHEAD < end {
                let eight = eight_at(body, at + AHEAD);
                domains.iter().for_each(|domain| domain.prefetch_index(eight));
            }
            if at + MATCH_BYTES_MIN <= body.len() {
                domains.iter().for_each(|domain| self.look_up(domain, body, at));
            }
        }
        self.starts.push(self.all.len() as u32);
    }

    fn look_up(&mut self, domain: &DomainHistory, body: &[u8], at: usize) {
        for position in domain.look_up(eight_at(body, at)).into_iter().flatten() {
            if !domain.begins_with(position, &body[at..]) {
                continue;
            }
            let id = domain.body_at(position);
            let slot = id.wrapping_mul(0x9E37_79B1) as usize >> 22;
            let mut index = self.slots[slot] as usize;
            if self.sources.get(index).is_none_or(|source| source.id != id) {
                // The index may have newer bodies by now, and older ones that were evicted.
                let Some(entry) = domain.entry_at(position, id).filter(|entry| entry.id < self.id) else { continue };
                let begin = domain.position(entry);
                index = self.sources.len();
                self.sources.push(SourceBody { id, begin, length: entry.len() as u32, until: 0, shift: 0 });
                self.slots[slot] = index as u32;
            }
            let source = &mut self.sources[index];
            let from = position.behind(source.begin, domain.capacity());
            let shift = from as i32 - at as i32;
            let is_known = source.shift == shift && (at as u32) < source.until;
            if is_known || from >= source.length {
                continue;
            }
            let bytes = domain.bytes(source.begin, source.length);
            let length = equal_bytes(&body[at..], &bytes[from as usize..]) as u32;
            if length >= MATCH_BYTES_MIN as u32 {
                (source.until, source.shift) = (at as u32 + length, shift);
                self.all.push(DomainMatch { source: index as u32, from, length });
            }
        }
    }

    /// Ids of the bodies with matches.
    pub fn sources(&self) -> impl Iterator<Item = BodyId> + '_ {
        self.sources.iter().map(|source| source.id)
    }

    /// Matches that begin at a position.
    #[inline]
    pub fn at(&self, position: usize) -> &[DomainMatch] {
        &self.all[self.starts[position] as usize..self.starts[position + 1] as usize]
    }

    pub fn heap_bytes(&self) -> usize {
        self.sources.capacity() * size_of::<SourceBody>()
            + self.starts.capacity() * size_of::<u32>()
            + self.all.capacity() * size_of::<DomainMatch>()
            + size_of_val(&*self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        format::{Format as _, Zstd},
        history::{Domain, History, Scope, SearchDomains, message_sizes::MessageSize},
        limits::Effort,
        search::{
            candidates::Candidate,
            finder::{MatchFinder, SearchTask, Similar},
            source::Source,
        },
    };
    use guildhall_stdx::Rng;

    const PUBLIC: Domain = Domain::Public { guild: 1, view: 0 };
    const RESTRICTED: Domain = Domain::Restricted { guild: 1, channel: 2, view: 0 };

    /// Bodies in both domains that quote each other; the newest is in the restricted one.
    fn quotes(seed: u64) -> (History, BodyId, SearchDomains) {
        let mut rng = Rng::new(seed);
        let mut history = History::new(1 << 20);
        let phrases: Vec<Vec<u8>> =
            (0..40).map(|_| (0..4 + rng.below(60)).map(|_| b'a' + rng.below(26) as u8).collect()).collect();
        let mut newest = 0;
        for n in 0..60 {
            let phrases = (0..12).map(|_| &**rng.pick(&phrases).expect("some"));
            let body: Vec<u8> = phrases.collect::<Vec<&[u8]>>().join(&b' ');
            let domain = if n == 59 || n % 2 == 0 { RESTRICTED } else { PUBLIC };
            let size = MessageSize { after: body.len() as u32, before: 20 };
            newest = history.push(Scope { domain, class: n % 4 }, "X", &body, size).expect("it is short");
            let searched = history.searched(history.entry(newest).expect("just pushed"));
            history.index_up_to(&searched, newest);
        }
        let searched = history.searched(history.entry(newest).expect("the newest"));
        (history, newest, searched)
    }

    /// Candidates by position, of a connection that has the bodies that are `usable`.
    fn candidates(
        finder: &mut MatchFinder,
        (history, id, searched): &(History, BodyId, SearchDomains),
        usable: impl Fn(BodyId) -> bool,
    ) -> Vec<Vec<Candidate>> {
        let body = history.entry(*id).expect("it is kept");
        let task = SearchTask { history, body, searched, similar: Similar::default(), dictionary: None };
        let limits = Zstd::FAST.with(Effort::Optimal, 1 << 21);
        let distance = |other: BodyId| usable(other).then(|| (id - other) * 4096);
        let found = finder.candidates(task, limits, distance);
        (0..body.len()).map(|at| found.at(at).to_vec()).collect()
    }

    #[test]
    fn later_searches_find_what_the_first_one_finds() {
        for seed in 0..20 {
            let (mut finder, world) = (MatchFinder::default(), quotes(seed));
            let (history, id, _) = &world;
            let bytes = history.bytes(history.entry(*id).expect("it is kept"));
            for (modulus, rest) in [(1, 0), (2, 0), (2, 1), (3, 2)] {
                let usable = |other: BodyId| other % modulus == rest;
                let first = candidates(&mut MatchFinder::default(), &world, usable);
                let later = candidates(&mut finder, &world, usable);
                for (at, (first, later)) in first.iter().zip(&later).enumerate() {
                    // How often the body itself is looked at depends on what else there is.
                    let of_bodies = first.iter().filter(|known| known.source.body_id().is_some());
                    let (first, found) = (of_bodies.map(|known| known.length).max(), later.last());
                    assert!(found.map(|known| known.length) >= first, "seed {seed}, at {at}: {later:?}, not {first:?}");
                    for Candidate { source, from, length, offset } in later {
                        let Some(other) = source.body_id() else { continue };
                        let there = history.bytes(history.entry(other).expect("it is kept"));
                        let (from, length) = (*from as usize, *length as usize);
                        assert_eq!(bytes[at..at + length], there[from..from + length], "seed {seed}, at {at}");
                        assert!(usable(other), "seed {seed}, at {at}: body {other}");
                        assert_eq!(*offset as usize + from, (id - other) as usize * 4096 + at);
                    }
                }
            }
        }
    }

    #[test]
    fn d2_nothing_is_found_in_a_channel_that_narrowed() {
        let (mut finder, mut world) = (MatchFinder::default(), quotes(1));
        let refers = |found: &[Vec<Candidate>], (history, _, searched): &(History, BodyId, SearchDomains)| {
            let mut bodies = found.iter().flatten().map(|known| known.source).filter_map(Source::body_id);
            let slot = |other| history.entry(other).expect("it is kept").slot;
            bodies.any(|other| searched.iter().all(|key| key.slot() != slot(other)))
        };
        for _ in 0..2 {
            assert!(!refers(&candidates(&mut finder, &world, |_| true), &world));
        }
        // Bodies of the channel leave the public domain, which has others.
        world.0.restrict(1, 1, 9);
        let stale = candidates(&mut finder, &world, |_| true);
        assert!(refers(&stale, &world), "the test would show nothing");
        finder.forget_domain_matches();
        assert!(!refers(&candidates(&mut finder, &world, |_| true), &world));
    }
}
