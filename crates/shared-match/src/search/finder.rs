//! Search: the two newest positions of each of two hashes, as zstd's `dfast` has them, and a greedy or lazy choice
//! among them; or all of them as candidates for the optimal parse.
//!
//! Owns        `MatchFinder`, with the index of the similar bodies of one parse.
//! Invariants  the recipients of a body play no part before `MatchFinder::parse`; its
//!             result serves connections that have its sources and similar bodies.
//! Limits      the two newest positions of each hash.

use crate::{
    history::BodyId,
    history::{
        DomainHistory, History, HistoryEntry, PARENTS_MAX, SearchDomains,
        hash_index::{LONG_BYTES, Position, SHORT_BYTES, WAYS, eight_at},
    },
    limits::Effort,
    parse::{Alignment, Offset, Sequence, best_sources},
    search::candidates::{Candidate, Candidates},
    search::compare::equal_bytes,
    search::dictionary::Dictionary,
    search::domain_matches::{self, DomainMatches},
    search::near_index::NearIndex,
    search::source::{Reference, Source},
    search::standalone::ResolvedSequence,
};
use smallvec::SmallVec;

/// Distance between two positions of the body itself in the near index. The search extends matches backwards.
const ITSELF_STEP: usize = 4;
/// Literals without a match after which the search skips one more position at a time, as a power of two.
const SKIP_LOG: usize = 6;
/// The same where each recipient has a parse of its own: a match that was skipped into is extended backwards.
const FAST_SKIP_LOG: usize = 4;
/// How far ahead of a position its slots are prefetched.
const FAST_AHEAD: usize = 8;
/// Bodies of the index that are remembered per parse.
const CACHED_ENTRIES: usize = 128;
/// A match of this length is taken without a look at other candidates or the next position.
const GOOD_BYTES: usize = 32;
/// Shortest match.
pub(super) const MATCH_BYTES_MIN: usize = 4;
/// Similar bodies of one parse.
pub const SIMILAR_MAX: usize = 4;
/// Bytes of a similar body that are indexed.
const SIMILAR_BYTES_MAX: usize = 8 << 10;
/// While a candidate has this much to go, only one position in `LOOKED_AT_ONE_IN` is looked up.
const LONG_CANDIDATE_BYTES: u32 = 40;
const LOOKED_AT_ONE_IN: usize = 4;

/// Similar bodies of a parse, newest first.
pub type Similar = [Option<BodyId>; SIMILAR_MAX];

/// Limits of the search for one format and effort.
#[derive(Clone, Copy, Debug)]
pub struct SearchLimits {
    pub match_bytes_max: usize,
    /// The last offsets are cheap to repeat.
    pub has_repeats: bool,
    /// Approximate cost in bits of a literal, of a repeated offset and of an explicit one.
    pub literal_bits: i32,
    pub repeat_bits: i32,
    pub explicit_bits: i32,
    /// A match may wait for a better one at the next position.
    pub is_lazy: bool,
    /// A match of this length ends the search at a position.
    pub enough_bytes: usize,
    /// Similar bodies of a parse, and domains above the body's own.
    pub similar_max: usize,
    pub parents_max: usize,
    /// How many bytes back a body may refer to itself.
    pub reach: usize,
}

/// Input of one parse.
#[derive(Clone, Copy)]
pub struct SearchTask<'a> {
    pub history: &'a History,
    pub body: &'a HistoryEntry,
    pub searched: &'a SearchDomains,
    /// Bodies of the same name that the connection has, of whatever domain, newest first.
    pub similar: Similar,
    /// The dictionary that the stream began with, while it can be referred to, and how far before the body it begins.
    pub dictionary: Option<(&'a Dictionary, u32)>,
}

/// A body that was found at a position of the index.
#[derive(Clone, Copy, Debug, Default)]
struct CachedEntry {
    id: BodyId,
    begin: Position,
    length: u32,
    /// How far back it is on the connection; none if it must not be used.
    distance: Option<u32>,
}

/// An alignment that was used, the bytes of its source, and its offset on the connection that the search is for.
#[derive(Clone, Copy)]
struct RecentOffset<'a> {
    alignment: Alignment,
    source: &'a [u8],
    offset: u32,
}

/// A match at some position.
#[derive(Clone, Copy)]
struct Match<'a> {
    length: usize,
    alignment: Alignment,
    source: &'a [u8],
    /// How far back it is on the connection that the search is for.
    offset: u32,
    /// Which of the last alignments it repeats.
    repeat: Option<usize>,
}

impl<'a> Match<'a> {
    /// Of a source that begins so far before the body.
    #[inline]
    fn new(length: usize, alignment: Alignment, source: &'a [u8], distance: u32) -> Self {
        let offset = distance.wrapping_sub(alignment.shift as u32);
        Self { length, alignment, source, offset, repeat: None }
    }
}

impl SearchLimits {
    /// Those of an effort, for a stream with this window.
    pub fn with(self, effort: Effort, window: u32) -> Self {
        let limits = Self { reach: window as usize, ..self };
        match effort {
            Effort::Greedy => Self { parents_max: 1, similar_max: 1, ..limits },
            Effort::Lazy => Self { is_lazy: true, enough_bytes: GOOD_BYTES, similar_max: SIMILAR_MAX, ..limits },
            Effort::Optimal => limits,
        }
    }

    /// Approximate gain of a match in bits.
    #[inline]
    fn gain(&self, found: &Match<'_>) -> i32 {
        let offset = if found.repeat.is_some() { self.repeat_bits } else { self.explicit_bits };
        self.literal_bits * found.length as i32 - offset
    }
}

/// See the module. Scratch memory of parses.
#[derive(Debug)]
pub struct MatchFinder {
    entries: [CachedEntry; CACHED_ENTRIES],
    near: NearIndex,
    candidates: Candidates,
    /// The body whose candidates were searched last.
    last: BodyId,
    domain_matches: DomainMatches,
    /// Each body with domain matches, and how far back it is on the connection that the search is for.
    distances: Vec<(Source, Option<u32>)>,
}

impl Default for MatchFinder {
    fn default() -> Self {
        Self {
            entries: [CachedEntry::default(); CACHED_ENTRIES],
            near: NearIndex::default(),
            candidates: Candidates::default(),
            last: 0,
            domain_matches: DomainMatches::default(),
            distances: Vec::new(),
        }
    }
}

/// A body in the index of near ones: its bytes, and where they begin there.
#[derive(Clone, Copy)]
struct NearBody<'a> {
    bytes: &'a [u8],
    source: Source,
    begin: u32,
    /// How far back it is on the connection.
    distance: u32,
}

/// State of one parse.
struct Search<'a, 'p, U> {
    task: SearchTask<'a>,
    limits: SearchLimits,
    bytes: &'a [u8],
    /// The body's own, and its parents.
    domains: SmallVec<[&'a DomainHistory; PARENTS_MAX + 1]>,
    /// Similar bodies, and the body itself as the last.
    near: SmallVec<[NearBody<'a>; SIMILAR_MAX + 1]>,
    index: &'p mut NearIndex,
    entries: &'p mut [CachedEntry; CACHED_ENTRIES],
    usable: U,
    /// The last alignments, with the bytes of their sources and their offsets on the connection that the search is for.
    repeats: [Option<RecentOffset<'a>>; 3],
    /// Positions of the body in front of this one are in the index.
    inserted: usize,
    /// The slots of positions in front of this one have been prefetched.
    ahead: usize,
}

impl MatchFinder {
    /// Sequences with usable sources: those for which `usable` returns a distance.
    pub fn parse(
        &mut self,
        task: SearchTask<'_>,
        limits: SearchLimits,
        mut usable: impl FnMut(BodyId) -> Option<u32>,
    ) -> Vec<Sequence> {
        let sequences = self.start(task, limits, &mut usable).sequences();
        match best_sources(&sequences) {
            None => sequences,
            Some(best) => {
                let is_best = |id: &BodyId| best.binary_search(id).is_ok();
                let similar = task.similar.map(|similar| similar.filter(is_best));
                self.start(SearchTask { similar, ..task }, limits, |id| usable(id).filter(|_| is_best(&id))).sequences()
            }
        }
    }

    /// The parse of one connection, for it alone: appends its matches to `sequences` with their offsets there. Returns
    /// the source of the first match, if that is aligned with the beginning of the body.
    pub fn resolved(
        &mut self,
        task: SearchTask<'_>,
        limits: SearchLimits,
        usable: impl FnMut(BodyId) -> Option<u32>,
        sequences: &mut Vec<ResolvedSequence>,
    ) -> Option<BodyId> {
        let mut first = None;
        self.start(task, limits, usable).run(|Sequence { literals, length, alignment, .. }, distance| {
            first.get_or_insert(alignment);
            sequences.push(ResolvedSequence { literals, length, distance });
        });
        first.filter(|first| first.shift == 0).and_then(|first| first.source.body_id())
    }

    /// Candidates that are `usable`, for the optimal parse. From the second search for a body on they are selected from
    /// a list that serves all.
    pub fn candidates(
        &mut self,
        task: SearchTask<'_>,
        limits: SearchLimits,
        mut usable: impl FnMut(BodyId) -> Option<u32>,
    ) -> &Candidates {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let is_first = std::mem::replace(&mut self.last, task.body.id) != task.body.id;
        if is_first || task.body.len() > domain_matches::BODY_BYTES_MAX {
            self.start(task, limits, usable).collect(&mut candidates);
        } else {
            let mut matches = std::mem::take(&mut self.domain_matches);
            let mut distances = std::mem::take(&mut self.distances);
            let search = self.start(task, limits, &mut usable);
            matches.find(task.body.id, search.bytes, &search.domains);
            distances.clear();
            distances.extend(matches.sources().map(|id| (Source::body(id), (search.usable)(id))));
            search.select(&matches, &distances, &mut candidates);
            (self.domain_matches, self.distances) = (matches, distances);
        }
        self.candidates = candidates;
        &self.candidates
    }

    /// A new body has this id: once ids have begun again, no list is of it.
    pub fn expect(&mut self, id: BodyId) {
        if id <= self.last {
            self.last = 0;
            self.domain_matches.clear();
        }
    }

    pub fn heap_bytes(&self) -> usize {
        self.domain_matches.heap_bytes() + self.distances.capacity() * size_of::<(Source, Option<u32>)>()
    }

    /// A body has left a domain: no later search refers to what it found there.
    pub fn forget_domain_matches(&mut self) {
        self.domain_matches.clear();
    }

    fn start<'a, U: FnMut(BodyId) -> Option<u32>>(
        &mut self,
        task: SearchTask<'a>,
        limits: SearchLimits,
        mut usable: U,
    ) -> Search<'a, '_, U> {
        let SearchTask { history, body, searched, similar, .. } = task;
        self.entries = [CachedEntry::default(); CACHED_ENTRIES];
        let bytes = history.bytes(body);
        let mut near: SmallVec<[NearBody<'a>; SIMILAR_MAX + 1]> = SmallVec::new();
        for entry in similar.into_iter().flatten().filter_map(|id| history.entry(id)) {
            let similar = history.bytes(entry);
            let Some(distance) = usable(entry.id) else { continue };
            let similar = &similar[..similar.len().min(SIMILAR_BYTES_MAX)];
            near.push(NearBody { bytes: similar, source: Source::body(entry.id), begin: 0, distance });
        }
        near.push(NearBody { bytes, source: Source::ITSELF, begin: 0, distance: 0 });
        self.near.start(near.iter().map(|near| near.bytes.len()).sum());
        near.iter_mut().for_each(|near| near.begin = self.near.place(near.bytes.len()));
        // The newest last, so that it is found first.
        for near in near[..near.len() - 1].iter().rev() {
            self.near.insert_all(near.bytes, near.begin);
        }
        Search {
            bytes,
            domains: history.domains(searched).take(1 + limits.parents_max).collect(),
            near,
            index: &mut self.near,
            entries: &mut self.entries,
            usable,
            repeats: [None; 3],
            inserted: 0,
            ahead: 0,
            task,
            limits,
        }
    }
}

/// Candidates of one position: nearest first, and each longer than every nearer one.
struct PositionCandidates(SmallVec<[Candidate; 2 * WAYS * (PARENTS_MAX + 2)]>);

impl PositionCandidates {
    fn new() -> Self {
        Self(SmallVec::new())
    }

    fn iter(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.0.iter().copied()
    }

    /// Goes to the next position.
    fn advance(&mut self) {
        self.0.retain(|known| {
            (known.from, known.length) = (known.from + 1, known.length - 1);
            known.length >= MATCH_BYTES_MIN as u32
        });
    }

    /// While a long one goes on, few positions are looked up.
    fn is_to_be_looked_up(&self, at: usize) -> bool {
        at.is_multiple_of(LOOKED_AT_ONE_IN) || self.0.iter().all(|known| known.length < LONG_CANDIDATE_BYTES)
    }

    fn add_match(&mut self, at: usize, found: Option<Match<'_>>) {
        if let Some(Match { length, alignment: Alignment { source, shift }, offset, .. }) = found {
            self.add(Candidate { source, from: (at as i32 + shift) as u32, length: length as u32, offset });
        }
    }

    fn add(&mut self, added: Candidate) {
        let nearness = |known: &Candidate| match known.source.reference() {
            Reference::Itself => BodyId::MAX,
            Reference::Dictionary => BodyId::MAX - 1,
            Reference::Body(id) => id - 1,
        };
        let index = self.0.iter().take_while(|known| nearness(known) >= nearness(&added)).count();
        if self.0[..index].iter().all(|known| known.length < added.length) {
            self.0.insert(index, added);
            let mut place = 0;
            self.0.retain(|known| {
                place += 1;
                place <= index + 1 || known.length > added.length
            });
        }
    }
}

impl<'a, U: FnMut(BodyId) -> Option<u32>> Search<'a, '_, U> {
    fn sequences(self) -> Vec<Sequence> {
        let mut sequences = Vec::with_capacity(32);
        self.run(|sequence, _| sequences.push(sequence));
        sequences
    }

    /// Emits the sequences of the parse, each with its offset on the connection that the search is for.
    fn run(mut self, mut emit: impl FnMut(Sequence, u32)) {
        let (mut at, mut anchor) = (0, 0);
        while at + MATCH_BYTES_MIN <= self.bytes.len() {
            let is_lazy = self.limits.is_lazy;
            let Some(mut found) = (if is_lazy { self.longest(at, anchor) } else { self.first(at, anchor) }) else {
                at += 1 + ((at - anchor) >> if is_lazy { SKIP_LOG } else { FAST_SKIP_LOG });
                continue;
            };
            if self.limits.is_lazy {
                while found.length < GOOD_BYTES && at + 1 + MATCH_BYTES_MIN <= self.bytes.len() {
                    match self.longest(at + 1, anchor) {
                        Some(next) if self.limits.gain(&next) > self.limits.gain(&found) + self.limits.literal_bits => {
                            (found, at) = (next, at + 1)
                        }
                        _ => break,
                    }
                }
            }
            let shift = found.alignment.shift;
            while at > anchor && found.repeat != Some(0) {
                let Some(from) = usize::try_from(at as i32 - 1 + shift).ok() else { break };
                if self.bytes[at - 1] != found.source[from] {
                    break;
                }
                at -= 1;
                found.length += 1;
            }
            if !is_lazy {
                self.look_ahead(at + found.length);
            }
            self.push(&mut emit, at - anchor, found);
            at += found.length;
            anchor = at;
        }
    }

    /// Makes the positions of the body in front of `at` findable.
    #[inline]
    fn insert_until(&mut self, at: usize) {
        let begin = self.near.last().map_or(0, |itself| itself.begin);
        while self.inserted < at {
            let Some(four) = self.bytes[self.inserted..].first_chunk() else { break };
            self.index.insert(u32::from_le_bytes(*four), begin + self.inserted as u32);
            self.inserted += ITSELF_STEP;
        }
    }

    /// The best match at a position, behind literals from `anchor` on.
    #[inline]
    fn longest(&mut self, at: usize, anchor: usize) -> Option<Match<'a>> {
        self.insert_until(at);
        let eight = eight_at(self.bytes, at);
        let mut best: Option<Match<'a>> = None;
        for index in usize::from(at == anchor)..3 {
            let Some(RecentOffset { alignment, source, offset }) = self.repeats[index] else { break };
            let Ok(from) = usize::try_from(at as i32 + alignment.shift) else { continue };
            let Some(there) = source.get(from..).and_then(|rest| rest.first_chunk::<4>()) else { continue };
            if u32::from_le_bytes(*there) != eight as u32 {
                continue;
            }
            let length = self.equal(at, source, from);
            if length >= MATCH_BYTES_MIN && best.is_none_or(|best| best.length < length) {
                best = Some(Match { length, alignment, source, offset, repeat: Some(index) });
            }
        }
        if best.is_some_and(|best| best.length >= LONG_BYTES) {
            return best;
        }
        let limits = self.limits;
        let add = |best: &mut Option<Match<'a>>, found: Option<Match<'a>>| {
            if let Some(found) = found
                && limits.gain(&found) > best.map_or(0, |best| limits.gain(&best))
            {
                *best = Some(found);
            }
            best.is_some_and(|best| best.length >= limits.enough_bytes)
        };
        for way in 0..WAYS {
            if add(&mut best, self.near(eight, way, at)) {
                return best;
            }
        }
        let mut found = [[None; 2 * WAYS]; PARENTS_MAX + 1];
        for (found, domain) in found.iter_mut().zip(&self.domains) {
            *found = domain.look_up(eight);
        }
        for way in 0..2 * WAYS {
            for (index, places) in found.iter().enumerate().take(self.domains.len()) {
                if add(&mut best, self.probe(self.domains[index], places[way], at)) {
                    return best;
                }
            }
        }
        if best.is_none()
            && let Some(found) = self.in_dictionary(at)
        {
            return Some(found);
        }
        best
    }

    /// Prefetches slots of the next positions.
    #[inline]
    fn look_ahead(&mut self, at: usize) {
        let end = (at + FAST_AHEAD).min((self.bytes.len() + 1).saturating_sub(LONG_BYTES));
        for ahead in self.ahead.max(at)..end {
            let eight = eight_at(self.bytes, ahead);
            self.domains.iter().for_each(|domain| domain.prefetch_index(eight));
        }
        self.ahead = self.ahead.max(end);
    }

    /// A match at a position, behind literals from `anchor` on: the first repeat, or else the better of what is near
    /// and of the newest positions of both hashes. Domains above the body's own are looked at where it has none.
    #[inline]
    fn first(&mut self, at: usize, anchor: usize) -> Option<Match<'a>> {
        self.insert_until(at);
        self.look_ahead(at);
        let eight = eight_at(self.bytes, at);
        let four = (eight as u32).to_le_bytes();
        for index in usize::from(at == anchor)..3 {
            let Some(RecentOffset { alignment, source, offset }) = self.repeats[index] else { break };
            // A negative position is beyond any source.
            let from = (at as i32 + alignment.shift) as u32 as usize;
            if source.get(from..).and_then(|rest| rest.first_chunk()) == Some(&four) {
                let length = self.equal(at, source, from);
                return Some(Match { length, alignment, source, offset, repeat: Some(index) });
            }
        }
        let mut best = self.near(eight, 0, at);
        for index in 0..self.domains.len() {
            let domain = self.domains[index];
            let places = domain.look_up(eight);
            for way in [0, WAYS] {
                if best.is_some_and(|best| best.length >= LONG_BYTES) {
                    return best;
                }
                let found = self.probe(domain, places[way], at);
                best = found.filter(|found| best.is_none_or(|best| found.length > best.length)).or(best);
            }
            if best.is_some() {
                return best;
            }
        }
        self.in_dictionary(at)
    }

    /// The match of the dictionary.
    fn in_dictionary(&self, at: usize) -> Option<Match<'a>> {
        let (dictionary, distance) = self.task.dictionary?;
        let found = dictionary.longest(&self.bytes[at..]).filter(|found| found.len() > SHORT_BYTES)?;
        let alignment = Alignment { source: Source::DICTIONARY, shift: found.start as i32 - at as i32 };
        Some(Match::new(found.len(), alignment, dictionary.content(), distance))
    }

    /// The match of a similar body or of the body itself.
    #[inline]
    fn near(&mut self, eight: u64, way: usize, at: usize) -> Option<Match<'a>> {
        let place = self.index.look_up(eight as u32)[way];
        if place < self.index.begin {
            return None;
        }
        let NearBody { bytes, source, begin, distance } = *self.near.iter().rev().find(|near| near.begin <= place)?;
        let from = (place - begin) as usize;
        if source == Source::ITSELF && at - from > self.limits.reach {
            return None;
        }
        let length = self.equal(at, bytes, from);
        let alignment = Alignment { source, shift: from as i32 - at as i32 };
        (length >= MATCH_BYTES_MIN).then(|| Match::new(length, alignment, bytes, distance))
    }

    /// The match at a place of a domain.
    #[inline]
    fn probe(&mut self, domain: &'a DomainHistory, position: Option<Position>, at: usize) -> Option<Match<'a>> {
        let position = position.filter(|position| domain.begins_with(*position, &self.bytes[at..]))?;
        let id = domain.body_at(position);
        let known = &mut self.entries[(id.wrapping_mul(0x9E37_79B1) >> 25) as usize % CACHED_ENTRIES];
        if known.id != id {
            // The index may have newer bodies by now.
            *known = match domain.entry_at(position, id).filter(|entry| entry.id < self.task.body.id) {
                Some(entry) => {
                    let distance = (self.usable)(id);
                    CachedEntry { id, begin: domain.position(entry), length: entry.len() as u32, distance }
                }
                None => CachedEntry { id, ..CachedEntry::default() },
            };
        }
        let CachedEntry { begin, length, distance, .. } = *known;
        let (from, distance) = (position.behind(begin, domain.capacity()), distance?);
        if from >= length {
            return None;
        }
        let bytes = domain.bytes(begin, length);
        let length = self.equal(at, bytes, from as usize);
        let alignment = Alignment { source: Source::body(id), shift: from as i32 - at as i32 };
        (length >= MATCH_BYTES_MIN).then(|| Match::new(length, alignment, bytes, distance))
    }

    /// All candidates of each position, nearest first and each longer than every nearer one.
    fn collect(mut self, candidates: &mut Candidates) {
        let mut here = PositionCandidates::new();
        for at in 0..self.bytes.len() {
            candidates.start_position();
            here.advance();
            if here.is_to_be_looked_up(at) && at + MATCH_BYTES_MIN <= self.bytes.len() {
                let eight = eight_at(self.bytes, at);
                for index in 0..self.domains.len() {
                    let domain = self.domains[index];
                    for place in domain.look_up(eight) {
                        here.add_match(at, self.probe(domain, place, at));
                    }
                }
                self.collect_others(at, &mut here);
            }
            candidates.extend(here.iter());
        }
        candidates.start_position();
    }

    /// As [`Search::collect`], from a list of what the domains have.
    fn select(mut self, matches: &DomainMatches, distances: &[(Source, Option<u32>)], candidates: &mut Candidates) {
        let mut here = PositionCandidates::new();
        for at in 0..self.bytes.len() {
            candidates.start_position();
            here.advance();
            for found in matches.at(at) {
                if let (source, Some(distance)) = distances[found.source as usize] {
                    let offset = distance.wrapping_sub(found.from.wrapping_sub(at as u32));
                    here.add(Candidate { source, from: found.from, length: found.length, offset });
                }
            }
            if here.is_to_be_looked_up(at) && at + MATCH_BYTES_MIN <= self.bytes.len() {
                self.collect_others(at, &mut here);
            }
            candidates.extend(here.iter());
        }
        candidates.start_position();
    }

    /// Adds what similar bodies, the body itself and, if there is nothing else, the dictionary have.
    fn collect_others(&mut self, at: usize, here: &mut PositionCandidates) {
        self.insert_until(at);
        let eight = eight_at(self.bytes, at);
        for way in 0..WAYS {
            here.add_match(at, self.near(eight, way, at));
        }
        if here.0.is_empty() {
            here.add_match(at, self.in_dictionary(at));
        }
    }

    #[inline]
    fn equal(&self, at: usize, source: &[u8], from: usize) -> usize {
        equal_bytes(&self.bytes[at..], source.get(from..).unwrap_or_default())
    }

    fn push(&mut self, emit: &mut impl FnMut(Sequence, u32), literals: usize, found: Match<'a>) {
        let Match { alignment, source, offset: distance, .. } = found;
        let used = Some(RecentOffset { alignment, source, offset: distance });
        let first = usize::from(literals == 0);
        let known = self.repeats.iter().position(|known| known.is_some_and(|known| known.alignment == alignment));
        let mut offset = match known.filter(|index| *index >= first) {
            Some(index) => {
                self.repeats[..=index].rotate_right(1);
                Offset::Repeat((index + 1 - first) as u8)
            }
            None => {
                self.repeats = [used, self.repeats[0], self.repeats[1]];
                Offset::Explicit
            }
        };
        if !self.limits.has_repeats {
            offset = Offset::Explicit;
        }
        let (mut left, mut literals) = (found.length, literals as u32);
        let longest = self.limits.match_bytes_max;
        while left > 0 {
            // The rest has to be a match, too.
            let piece = match left {
                left if left > longest && left < longest + 4 => left - 4,
                left => left.min(longest),
            };
            emit(Sequence { literals, length: piece as u32, alignment, offset }, distance);
            (left, literals) = (left - piece, 0);
            if left > 0 && self.limits.has_repeats {
                // No repeat: behind no literals the last offset is not the first of the repeats.
                offset = Offset::Explicit;
                self.repeats = [used, self.repeats[0], self.repeats[1]];
            }
        }
    }
}
