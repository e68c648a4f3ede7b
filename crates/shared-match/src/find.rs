//! Find: where the bytes of a text stood before, at every place worth looking at. Once per text.
//!
//! Owns        the search for candidates: per position those that are longer than every nearer one, so that any horizon finds
//!             the best it may use.
//! Why         most places are of little use: their texts are too far back for nearly all recipients, or were sent to few of
//!             them. These are skipped (`Coverage::oldest_in_reach`, `Wanted::is_for_many`).
//! Limits      the places that `History` knows of per position, and `COMPARED_BYTES_MAX`.

use crate::{
    candidates::{Candidate, Candidates, ITSELF},
    coverage::Coverage,
    dictionary::DICTIONARY,
    history::{DomainHistory, Entry, History, Slot},
    owners::{Owner, Owners},
    places::{Beaten, FOUND_BYTES_MIN, Place, Places, equal_bytes, hash_of_four},
    ring::BodyId,
    templates::Templates,
};

/// Of the index of a single text.
const ONE_HASH_LOG: u32 = 12;
const ONE_PLACES_MAX: u32 = 12;

/// After comparing this many bytes of a text, the rest of a match is taken unverified. Texts of a few kilobytes never
/// reach it; one that repeats a single byte would otherwise take seconds.
const COMPARED_BYTES_MAX: usize = 8 << 20;
/// While a match with a common source has this many bytes left, only every few positions are searched fully; between
/// them the match continues, and further search stops at that length.
const LONG_BYTES: u32 = 32;
const ENOUGH_BYTES: u32 = 64;
const LOOKED_AT_ONE_IN: u32 = 4;
/// Maximum number of compared positions per text, in addition to two per position.
const PLACES_PER_TEXT_MAX: usize = 200_000;

/// Positions whose places are looked up together.
const LINKED_TOGETHER: usize = 64;

/// Places of four equal bytes that are looked at, per position: long texts are looked through more briefly, so that none
/// holds up others.
fn places_max(bytes: usize) -> usize {
    (PLACES_PER_TEXT_MAX / bytes.max(1)).max(2)
}

/// A candidate, and its place in the history.
#[derive(Clone, Copy, Debug)]
struct Known {
    place: Place,
    candidate: Candidate,
}

impl Known {
    /// The same one position on; whether there is enough left of it.
    fn go_on(&mut self) -> bool {
        self.place = self.place.next();
        self.candidate.from += 1;
        self.candidate.length -= 1;
        self.candidate.length >= FOUND_BYTES_MIN as u32
    }
}

/// The candidates of one position: each is longer than every nearer one, or than every nearer one that nearly all have, or for few
/// recipients than those that all have who have it.
#[derive(Debug, Default)]
struct Longer {
    known: Vec<Known>,
    longest: u32,
    longest_common: u32,
}

impl Longer {
    fn clear(&mut self) {
        self.known.clear();
        (self.longest, self.longest_common) = (0, 0);
    }

    /// Length that a new match must exceed.
    #[inline]
    fn longest(&self, is_common: bool) -> u32 {
        if is_common { self.longest_common } else { self.longest }
    }

    /// Lengths that a match of `wanted` must exceed: without and with a common source.
    #[inline]
    fn beaten(&self, wanted: &[u8]) -> (Beaten, Beaten) {
        (Beaten::new(wanted, self.longest), Beaten::new(wanted, self.longest_common))
    }

    /// Adds one that is farther than those that there are, if it is longer; says whether.
    #[inline]
    fn add(&mut self, known: Known) -> bool {
        let Candidate { length, is_common, .. } = known.candidate;
        if length <= self.longest(is_common) {
            return false;
        }
        if is_common {
            self.longest_common = length;
        }
        self.longest = self.longest.max(length);
        self.known.push(known);
        true
    }

    /// Adds one of a template, behind those that are nearer; it need not be longer than one that not all have. Says
    /// whether it did.
    fn insert(&mut self, known: Known) -> bool {
        let Candidate { source, length, .. } = known.candidate;
        let is_nearer = |near: &Known| near.candidate.source == ITSELF || near.candidate.source >= source;
        let serves_all = |near: &Known| near.candidate.is_common || near.candidate.source == source;
        let is_beaten = |near: &Known| near.candidate.length < length || !serves_all(near);
        let count = self.known.iter().take_while(|near| is_nearer(near)).count();
        let is_better = self.known[..count].iter().all(is_beaten);
        if is_better {
            self.known.insert(count, known);
        }
        is_better
    }
}

/// Search key: the bytes of a body from one position on.
struct Wanted<'a> {
    history: &'a History,
    coverage: &'a Coverage,
    text: &'a Entry,
    bytes: &'a [u8],
    /// The body has too many recipients for the search to consider sources that only some of them have.
    is_for_many: bool,
}

impl Wanted<'_> {
    /// Metadata of an earlier body or of this one; an evicted body has no bytes.
    #[cold]
    fn owner(&self, id: BodyId) -> Owner {
        let Some(source) = self.history.text(id) else { return Owner::new(id, (Place::END, 0), false) };
        let is_common = id == self.text.id || self.text.is_for_who_got(source, self.coverage);
        Owner::new(id, (source.place(0), source.len() as u32), is_common)
    }

    /// Whether recipients of the body have what is at a place of a domain.
    #[inline]
    fn is_in(&self, domain: &DomainHistory, place: Place, owners: &mut Owners) -> bool {
        let is_common = |owner| owners.get(owner, |id| self.owner(id)).is_common;
        !self.is_for_many || domain.owner(place).is_some_and(is_common)
    }
}

/// The search in one domain.
#[derive(Debug, Default)]
struct DomainSearch {
    /// None: the body has no such domain.
    slot: Option<Slot>,
    /// Places in front of it are too far back for nearly all recipients.
    oldest: Place,
    /// Candidates of the current position, and what is left of those of the position before.
    here: Longer,
    earlier: Vec<Known>,
    /// Of the positions that are looked up together.
    places: Vec<Places>,
}

impl DomainSearch {
    fn start(&mut self, slot: Option<Slot>, oldest: Place) {
        (self.slot, self.oldest) = (slot, oldest);
        self.here.clear();
        self.earlier.clear();
    }

    /// Examines the places of a position, newest first, until a common one is `enough` long. Returns the number
    /// of compared bytes.
    fn search(&mut self, wanted: &Wanted<'_>, owners: &mut Owners, at: usize, enough: u32) -> usize {
        let Wanted { history, text, bytes, .. } = *wanted;
        let Some(slot) = self.slot else { return 0 };
        let domain = history.domain(slot);
        let kept = domain.kept();
        let Self { here, earlier, places, oldest, .. } = self;
        let mut earlier = earlier.as_slice();
        let mut compared = 0;
        let (mut beaten, mut beaten_common) = here.beaten(bytes);
        let mut newest = places[at % LINKED_TOGETHER].newest_first(*oldest);
        while here.longest_common < enough {
            let next_known = earlier.first().map_or(Place::END, |known| known.place);
            // Most places are no better, which their bytes tell.
            let may_be_better = |place: &Place| {
                *place <= next_known || kept.may_beat(beaten_common, *place) && wanted.is_in(domain, *place, owners)
            };
            let Some(place) = newest.find(may_be_better) else { break };
            if place <= next_known {
                let nearer = earlier.iter().take_while(|known| known.place >= place).count();
                let (known, farther) = earlier.split_at(nearer);
                for known in known {
                    here.add(*known);
                }
                earlier = farther;
                (beaten, beaten_common) = here.beaten(bytes);
                if known.last().is_some_and(|known| known.place == place)
                    || here.longest_common >= enough
                    || !kept.may_beat(beaten_common, place)
                    || !wanted.is_in(domain, place, owners)
                {
                    continue;
                }
            }
            let Some(owner) = domain.owner(place) else { continue };
            let Owner { id, is_common, begin, length, .. } = owners.get(owner, |id| wanted.owner(id));
            // It has to be longer than the longest that is nearer.
            if !(is_common || kept.may_beat(beaten, place)) {
                continue;
            }
            let from = place.behind(begin);
            if from >= length {
                continue;
            }
            let equal = equal_bytes(bytes, kept.bytes(place, length - from));
            compared += equal;
            if equal < FOUND_BYTES_MIN {
                continue;
            }
            let source = if id == text.id { ITSELF } else { id };
            let candidate = Candidate { source, from, length: equal as u32, is_common };
            if here.add(Known { place, candidate }) {
                owners.note_used(id);
            }
            (beaten, beaten_common) = here.beaten(bytes);
            if equal == bytes.len() && here.longest_common as usize == equal {
                break;
            }
        }
        for known in earlier {
            here.add(*known);
        }
        compared
    }
}

/// See the module. Scratch memory of searches.
#[derive(Debug, Default)]
pub struct Finder {
    /// In the body's own domain and in its parent.
    searches: [DomainSearch; 2],
    /// What both found at the current position.
    merged: Longer,
    owners: Owners,
    /// Of `find_in`.
    heads: Vec<u32>,
    before: Vec<u32>,
}

impl Finder {
    /// Finds the candidates of the newest body of the history, and indexes it.
    pub fn find(
        &mut self,
        history: &mut History,
        coverage: &Coverage,
        templates: &Templates,
        id: BodyId,
        found: &mut Candidates,
    ) {
        found.clear();
        self.owners.clear();
        let Some(text) = history.text(id).cloned() else { return };
        let bytes = history.bytes(&text).to_vec();
        let places_max = places_max(bytes.len());
        let oldest = coverage.oldest_in_reach(text.expected);
        let parent = history.parent(&text);
        for slot in [Some(text.slot), parent].into_iter().flatten() {
            history.domain_mut(slot).catch_up(id);
        }
        for (search, slot) in self.searches.iter_mut().zip([Some(text.slot), parent]) {
            let place = |slot| oldest.map_or(Some(Place::END), |oldest| history.domain(slot).place_from(oldest));
            match slot.and_then(|slot| Some((slot, place(slot)?))) {
                Some((slot, place)) => search.start(Some(slot), place),
                None => search.start(None, Place::END),
            }
        }
        let (mut follow_until, mut compared, mut since_full) = (0, 0, 0);
        for at in 0..bytes.len() {
            found.start_position();
            if at % LINKED_TOGETHER == 0 {
                let range = at..bytes.len().min(at + LINKED_TOGETHER);
                let [own, other] = &mut self.searches;
                let bounds = (places_max, own.oldest);
                history.domain_mut(text.slot).link((&text, &bytes), range.clone(), bounds, &mut own.places);
                if let Some(slot) = other.slot {
                    history.domain(slot).look_up(&bytes, range, (places_max, other.oldest), &mut other.places);
                }
            }
            for search in &mut self.searches {
                std::mem::swap(&mut search.here.known, &mut search.earlier);
                search.here.clear();
            }
            if at < follow_until || at + FOUND_BYTES_MIN > bytes.len() {
                continue;
            }
            let is_long = |known: &Known| known.candidate.is_common && known.candidate.length >= LONG_BYTES;
            let mut goes_on = false;
            for search in &mut self.searches {
                search.earlier.retain_mut(Known::go_on);
                goes_on |= search.earlier.iter().any(is_long);
            }
            since_full = if goes_on { (since_full + 1) % LOOKED_AT_ONE_IN } else { 0 };
            let is_for_many = coverage.is_for_many(text.expected_count);
            let wanted = Wanted { history, coverage, text: &text, bytes: &bytes[at..], is_for_many };
            let enough = if since_full == 0 { u32::MAX } else { ENOUGH_BYTES };
            for search in &mut self.searches {
                if since_full == 0 {
                    // Continuations of old matches would draw the parse to sources that fewer recipients have than nearer ones.
                    search.earlier.clear();
                }
                compared += search.search(&wanted, &mut self.owners, at, enough);
            }
            self.merge();
            if since_full == 0 {
                self.search_templates(templates, &wanted);
            }
            found.extend(self.merged.known.iter().map(|known| known.candidate));
            // After too many comparisons the nearest match, which serves the most connections, is followed without any.
            if compared > COMPARED_BYTES_MAX
                && let Some(nearest) = self.merged.known.iter().find(|known| known.candidate.is_common)
            {
                follow_until = at + nearest.candidate.length as usize - FOUND_BYTES_MIN + 1;
            }
        }
        found.start_position();
        found.note_common(self.owners.used());
    }

    /// Merges what was found in both domains, nearest first.
    fn merge(&mut self) {
        let [own, other] = &self.searches;
        self.merged.clear();
        let (mut own, mut other) = (own.here.known.as_slice(), other.here.known.as_slice());
        while let Some(first) = own.first() {
            let is_nearer = |near: &Known, far: &Known| {
                near.candidate.source == ITSELF || near.candidate.source > far.candidate.source
            };
            match other.first().filter(|second| !is_nearer(first, second)) {
                Some(second) => {
                    self.merged.add(*second);
                    other = &other[1..];
                }
                None => {
                    self.merged.add(*first);
                    own = &own[1..];
                }
            }
        }
        for second in other {
            self.merged.add(*second);
        }
    }

    /// Finds the current position in the templates.
    fn search_templates(&mut self, templates: &Templates, wanted: &Wanted<'_>) {
        let Self { merged, owners, .. } = self;
        templates.longest(wanted.bytes, |found| {
            let Owner { id, is_common, .. } =
                owners.get(templates.all()[usize::from(found.template)].id, |id| wanted.owner(id));
            let candidate = Candidate { source: id, from: found.from, length: found.length, is_common };
            if merged.insert(Known { place: Place::END, candidate }) {
                owners.note_used(id);
            }
        });
    }

    /// Looks for a text in one earlier text alone, and keeps what `all` found in the text itself and in a dictionary.
    pub fn find_in(
        &mut self,
        history: &History,
        text: &Entry,
        source: &Entry,
        all: &Candidates,
        found: &mut Candidates,
    ) {
        found.clear();
        let (bytes, there) = (history.bytes(text), history.bytes(source));
        self.heads.clear();
        self.heads.resize(1 << ONE_HASH_LOG, 0);
        self.before.clear();
        for (at, four) in there.windows(FOUND_BYTES_MIN).enumerate() {
            let slot = &mut self.heads[hash_of_four(four, ONE_HASH_LOG)];
            self.before.push(*slot);
            *slot = at as u32 + 1;
        }
        for at in 0..bytes.len() {
            found.start_position();
            found.extend(all.at(at).iter().filter(|found| found.source == ITSELF).copied());
            // No dictionary has so little, either.
            let Some(four) = bytes.get(at..at + FOUND_BYTES_MIN) else { continue };
            let (mut place, mut longest, mut from) = (self.heads[hash_of_four(four, ONE_HASH_LOG)], 0, 0);
            for _ in 0..ONE_PLACES_MAX {
                let Some(start) = place.checked_sub(1) else { break };
                let length = equal_bytes(&bytes[at..], &there[start as usize..]);
                if length > longest {
                    (longest, from) = (length, start);
                }
                place = self.before[start as usize];
            }
            if longest >= FOUND_BYTES_MIN {
                found.extend([Candidate { source: source.id, from, length: longest as u32, is_common: true }]);
            }
            found.extend(all.at(at).iter().filter(|found| found.source == DICTIONARY).copied());
        }
        found.start_position();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        coverage::Membership,
        history::{Domain, Scope},
        spans::Span,
    };
    use guildhall_stdx::Rng;
    use std::collections::BTreeSet;

    /// Some connections, all in the sample, and what was written to them.
    struct Crowd {
        history: History,
        coverage: Coverage,
        members: Vec<u8>,
        rng: Rng,
    }

    impl Crowd {
        fn new(count: usize) -> Self {
            let mut coverage = Coverage::default();
            let members = (0..count).filter_map(|_| coverage.sample_of(&mut Membership::default())).collect();
            Self { history: History::new(1 << 20), coverage, members, rng: Rng::new(1) }
        }

        /// A text, to each with a probability; and what is found of it.
        fn send(&mut self, class: u64, bytes: &[u8], share: f64) -> (BodyId, Candidates) {
            let (scope, span) =
                (Scope { domain: Domain::Public { guild: 1, view: 0 }, class, kind: 0 }, Span::default());
            let id = self.history.push(scope, "X", bytes, span).expect("it is short");
            let mut found = Candidates::default();
            Finder::default().find(&mut self.history, &self.coverage, &Templates::default(), id, &mut found);
            for member in &self.members {
                if self.rng.chance(share) {
                    self.history.note_written(id, *member);
                }
            }
            (id, found)
        }
    }

    fn sources(found: &Candidates, text: &[u8]) -> BTreeSet<BodyId> {
        let all = (0..text.len()).flat_map(|at| found.at(at));
        all.map(|candidate| candidate.source).filter(|source| *source != ITSELF).collect()
    }

    const TEXT: &[u8] = b"what was said before is said again";

    #[test]
    fn what_only_some_have_is_looked_for_where_it_is_for_several_and_not_where_it_is_for_many() {
        for (count, finds) in [(40, true), (41, false)] {
            let mut crowd = Crowd::new(count);
            crowd.send(1, b"nothing like it: 0123456789", 1.0);
            let (some, _) = crowd.send(2, TEXT, 0.5);
            let (_, found) = crowd.send(1, TEXT, 1.0);
            assert_eq!(sources(&found, TEXT).contains(&some), finds, "for {count}");
            // What all have is found, however many these are.
            let (_, found) = crowd.send(1, TEXT, 1.0);
            assert!(sources(&found, TEXT).contains(&(some + 1)), "for {count}");
        }
    }

    #[test]
    fn what_is_too_far_back_for_nearly_all_is_not_found() {
        let mut crowd = Crowd::new(64);
        let (far, _) = crowd.send(1, TEXT, 1.0);
        let (near, _) = crowd.send(1, b"nothing like it: 0123456789", 1.0);
        let reach = |crowd: &mut Crowd, farthest: usize| {
            for (index, member) in crowd.members.iter().enumerate() {
                crowd.coverage.note_reach(*member, if index < farthest { far } else { near }, 1 << 15);
            }
        };
        reach(&mut crowd, 4);
        let (_, found) = crowd.send(3, TEXT, 0.0);
        assert!(sources(&found, TEXT).is_empty(), "four of 64 are not worth it");
        let mut crowd = Crowd::new(64);
        crowd.send(1, TEXT, 1.0);
        crowd.send(1, b"nothing like it: 0123456789", 1.0);
        reach(&mut crowd, 5);
        let (_, found) = crowd.send(3, TEXT, 0.0);
        assert_eq!(sources(&found, TEXT), BTreeSet::from([far]));
    }

    /// Two look-backs reported as equal have the same candidates.
    #[test]
    fn a_horizon_that_looks_farther_finds_no_more() {
        let mut crowd = Crowd::new(60);
        let mut rng = Rng::new(7);
        let (mut farther, mut all_found) = (0, 0);
        for _ in 0..600 {
            let text: Vec<u8> =
                (0..120).flat_map(|_| b"said fore what gain ".as_chunks::<5>().0[rng.below(4) as usize]).collect();
            let (id, found) = crowd.send(rng.below(9), &text[..40 + rng.below(400) as usize], 0.98);
            for age in (0..8).map(|_| rng.below(id.into()) as u32) {
                let horizon = found.horizon(id, age);
                assert!(horizon >= age);
                let all = || (0..text.len()).flat_map(|at| found.at(at)).filter(|candidate| candidate.source != ITSELF);
                let common = || all().filter(|candidate| candidate.is_common);
                let within = |age| common().filter(|candidate| id - candidate.source <= age).count();
                assert_eq!(within(age), within(horizon), "text {id}: {age} and {horizon} back");
                assert!(horizon == u32::MAX || within(horizon + 1) > within(age), "one more finds more");
                (farther, all_found) =
                    (farther + usize::from(horizon > age), all_found + usize::from(horizon == u32::MAX));
            }
        }
        assert!(farther > 1_000 && all_found > 100 && all_found < 4_000, "{farther} {all_found}");
    }
}
