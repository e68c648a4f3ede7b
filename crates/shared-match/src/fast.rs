//! Fast search and parse, for bodies that few connections are sent: one probe per hash and position, as zstd's `dfast` has them,
//! and a greedy or lazy choice among them.
//!
//! Owns        `FastIndex` (two hash tables of one domain), `FastCandidates` (the tables' entries for each position of a body),
//!             `FastParser`.
//! Invariants  the index and the candidates depend on bodies of the domain and its parent alone. The recipients of a body
//!             play no part before `FastParser::parse`; its result serves connections that have its sources.
//! Limits      the newest position of each hash; `FastIndex` takes as many bytes as its domain's ring at most.

use crate::{
    candidates::ITSELF,
    dictionary::{DICTIONARY, Dictionary},
    history::{DomainHistory, Entry, History, HistoryKey},
    parse::{Alignment, Offset, Sequence, best_sources},
    places::{Place, equal_bytes},
    ring::BodyId,
};

/// Bytes that a position's two hashes are of.
const LONG_BYTES: usize = 8;
const SHORT_BYTES: usize = 5;
/// Bytes of the ring per slot of each table, as a power of two.
const SLOT_POSITIONS_LOG: u32 = 3;
const SLOTS_LOG_MIN: u32 = 6;
/// Literals without a match after which the search skips one more position at a time, as a power of two.
const SKIP_LOG: usize = 6;
/// Resolved sources that are remembered per parse.
const SOURCES: usize = 64;
/// A match of this length is taken without a look at the next position.
const GOOD_BYTES: usize = 32;
/// Shortest match with one of the last alignments.
const REPEAT_BYTES_MIN: usize = 4;

/// The newest position of every hash.
#[derive(Debug, Default)]
pub struct FastIndex {
    long: Vec<u32>,
    short: Vec<u32>,
}

/// Candidates for one position: earlier positions with, probably, the same eight and the same five bytes;
/// [`Place::END`] for none.
pub type Probes = [Place; 2];

/// Candidates for each position of a body, from the index of its domain and from that of the parent domain.
#[derive(Debug, Default)]
pub struct FastCandidates {
    pub own: Vec<Probes>,
    /// The history that `own` are positions of.
    pub own_of: Option<HistoryKey>,
    pub parent: Vec<Probes>,
    /// The history that `parent` are positions of.
    pub parent_of: Option<HistoryKey>,
}

impl FastIndex {
    /// An empty index for a ring of `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        let log = capacity.max(1).ilog2().saturating_sub(SLOT_POSITIONS_LOG).max(SLOTS_LOG_MIN);
        Self { long: vec![0; 1 << log], short: vec![0; 1 << log] }
    }

    #[inline]
    fn slots(&self, eight: u64) -> [usize; 2] {
        let shift = 64 - self.long.len().ilog2();
        let long = eight.wrapping_mul(0xCF1B_BCDC_B7A5_6463) >> shift;
        let short = (eight << (64 - 8 * SHORT_BYTES)).wrapping_mul(0x9E37_79B1_85EB_CA87) >> shift;
        [long as usize, short as usize]
    }

    /// Looks up each position of a body that begins at `begin`, and inserts it.
    pub fn push(&mut self, body: &[u8], begin: Place, found: &mut Vec<Probes>) {
        found.clear();
        if self.long.is_empty() {
            return;
        }
        found.extend(body.windows(LONG_BYTES).enumerate().map(|(at, eight)| {
            let eight = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
            let [long, short] = self.slots(eight);
            let place = begin.address() as u32 + at as u32;
            let found = [Place::of(self.long[long].into()), Place::of(self.short[short].into())];
            (self.long[long], self.short[short]) = (place, place);
            found
        }));
    }

    /// Looks up each position of a body of another domain, and inserts none.
    pub fn look_up(&self, body: &[u8], found: &mut Vec<Probes>) {
        found.clear();
        if self.long.is_empty() {
            return;
        }
        found.extend(body.windows(LONG_BYTES).map(|eight| {
            let [long, short] = self.slots(u64::from_le_bytes(eight.try_into().expect("eight bytes")));
            [Place::of(self.long[long].into()), Place::of(self.short[short].into())]
        }));
    }

    pub fn heap_bytes(&self) -> usize {
        4 * (self.long.len() + self.short.len())
    }
}

/// Limits of the fast parse for one format and effort.
#[derive(Clone, Copy, Debug)]
pub struct FastLimits {
    pub match_bytes_max: usize,
    /// The last offsets are cheap to repeat.
    pub has_repeats: bool,
    /// Approximate cost in bits of a literal, of a repeated offset and of an explicit one.
    pub literal_bits: i32,
    pub repeat_bits: i32,
    pub explicit_bits: i32,
    /// A match may wait for a better one at the next position.
    pub is_lazy: bool,
    /// How many bytes back a body may refer to itself.
    pub reach: usize,
}

/// Input of one parse.
#[derive(Clone, Copy)]
pub struct FastTask<'a> {
    pub history: &'a History,
    pub text: &'a Entry,
    pub candidates: &'a FastCandidates,
    /// A body of another domain that the connection has, for want of one of the same name in this domain.
    pub similar: Option<&'a Entry>,
    /// The dictionary that the stream began with, while it can be referred to.
    pub dictionary: Option<&'a Dictionary>,
}

/// A body that was found at a place.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    id: BodyId,
    begin: Place,
    length: u32,
    is_usable: bool,
}

/// A match at some position.
#[derive(Clone, Copy)]
struct Match<'a> {
    length: usize,
    alignment: Alignment,
    source: &'a [u8],
    /// Which of the last alignments it repeats.
    repeat: Option<usize>,
}

impl FastLimits {
    /// Approximate gain of a match in bits.
    #[inline]
    fn gain(&self, found: &Match<'_>) -> i32 {
        let offset = if found.repeat.is_some() { self.repeat_bits } else { self.explicit_bits };
        self.literal_bits * found.length as i32 - offset
    }
}

/// See the module. Scratch memory of parses.
#[derive(Debug)]
pub struct FastParser {
    sources: [Source; SOURCES],
    /// Of `similar`: the newest position of each hash and one.
    similar: Vec<u16>,
}

impl Default for FastParser {
    fn default() -> Self {
        Self { sources: [Source::default(); SOURCES], similar: Vec::new() }
    }
}

const SIMILAR_LOG: u32 = 10;

#[inline]
fn similar_slot(bytes: &[u8], at: usize) -> Option<usize> {
    let eight = u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
    Some(((eight << (64 - 8 * SHORT_BYTES)).wrapping_mul(0x9E37_79B1_85EB_CA87) >> (64 - SIMILAR_LOG)) as usize)
}

/// State of one parse.
struct Parse<'a, 'p, U> {
    task: FastTask<'a>,
    limits: FastLimits,
    bytes: &'a [u8],
    /// The body's domain and its parent, each with the positions found there.
    own: Option<(&'a DomainHistory, &'a [Probes])>,
    parent: Option<(&'a DomainHistory, &'a [Probes])>,
    similar: &'a [u8],
    parser: &'p mut FastParser,
    usable: U,
    repeats: [Option<(Alignment, &'a [u8])>; 3],
}

impl FastParser {
    /// Sequences with sources that are `usable`.
    pub fn parse(
        &mut self,
        task: FastTask<'_>,
        limits: FastLimits,
        mut usable: impl FnMut(BodyId) -> bool,
    ) -> Vec<Sequence> {
        let sequences = self.parse_once(task, limits, &mut usable);
        match best_sources(&sequences) {
            None => sequences,
            Some(best) => {
                let similar = task.similar.filter(|similar| best.binary_search(&similar.id).is_ok());
                let is_best = |id| best.binary_search(&id).is_ok() && usable(id);
                self.parse_once(FastTask { similar, ..task }, limits, is_best)
            }
        }
    }

    fn parse_once(
        &mut self,
        task: FastTask<'_>,
        limits: FastLimits,
        usable: impl FnMut(BodyId) -> bool,
    ) -> Vec<Sequence> {
        let FastTask { history, text, candidates, similar, .. } = task;
        self.sources = [Source::default(); SOURCES];
        let similar = similar.map_or(&[][..], |similar| history.bytes(similar));
        let similar = &similar[..similar.len().min(usize::from(u16::MAX))];
        if !similar.is_empty() {
            self.similar.clear();
            self.similar.resize(1 << SIMILAR_LOG, 0);
            for at in 0..similar.len() {
                let Some(slot) = similar_slot(similar, at) else { break };
                self.similar[slot] = at as u16 + 1;
            }
        }
        let parse = Parse {
            bytes: history.bytes(text),
            own: history.find(candidates.own_of).map(|domain| (domain, &*candidates.own)),
            parent: history.find(candidates.parent_of).map(|domain| (domain, &*candidates.parent)),
            similar,
            parser: self,
            usable,
            repeats: [None; 3],
            task,
            limits,
        };
        parse.run()
    }
}

impl<'a, U: FnMut(BodyId) -> bool> Parse<'a, '_, U> {
    fn run(mut self) -> Vec<Sequence> {
        let mut sequences = Vec::with_capacity(32);
        let (mut at, mut anchor) = (0, 0);
        while at + LONG_BYTES <= self.bytes.len() {
            let Some(mut found) = self.longest(at, anchor) else {
                at += 1 + ((at - anchor) >> SKIP_LOG);
                continue;
            };
            if self.limits.is_lazy {
                while found.length < GOOD_BYTES && at + 1 + LONG_BYTES <= self.bytes.len() {
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
            self.push(&mut sequences, at - anchor, found);
            at += found.length;
            anchor = at;
        }
        sequences
    }

    /// The best match at a position, behind literals from `anchor` on.
    #[inline]
    fn longest(&mut self, at: usize, anchor: usize) -> Option<Match<'a>> {
        let mut best: Option<Match<'a>> = None;
        for index in usize::from(at == anchor)..3 {
            let Some((alignment, source)) = self.repeats[index] else { break };
            let Ok(from) = usize::try_from(at as i32 + alignment.shift) else { continue };
            let length = self.equal(at, source, from);
            if length >= REPEAT_BYTES_MIN && best.is_none_or(|best| best.length < length) {
                best = Some(Match { length, alignment, source, repeat: Some(index) });
            }
        }
        if best.is_some_and(|best| best.length >= LONG_BYTES) {
            return best;
        }
        let probes = |probes: &[Probes]| probes.get(at).copied().unwrap_or([Place::END; 2]);
        for hash in 0..2 {
            let mut probe = None;
            if let Some((own, found)) = self.own {
                probe = self.probe(own, probes(found)[hash], at);
            }
            if let Some((parent, found)) = self.parent {
                let other = self.probe(parent, probes(found)[hash], at);
                if other.is_some_and(|other| probe.is_none_or(|probe| probe.length < other.length)) {
                    probe = other;
                }
            }
            if let Some(probe) = probe
                && best.is_none_or(|best| self.limits.gain(&best) < self.limits.gain(&probe))
            {
                best = Some(probe);
            }
            if best.is_some_and(|best| best.length >= LONG_BYTES) {
                return best;
            }
        }
        if !self.similar.is_empty()
            && let Some(similar) = self.task.similar
            && let Some(slot) = similar_slot(self.bytes, at)
            && let Some(from) = usize::from(self.parser.similar[slot]).checked_sub(1)
        {
            let length = self.equal(at, self.similar, from);
            let alignment = Alignment { source: similar.id, shift: from as i32 - at as i32 };
            let found = Match { length, alignment, source: self.similar, repeat: None };
            if length > SHORT_BYTES && best.is_none_or(|best| self.limits.gain(&best) < self.limits.gain(&found)) {
                best = Some(found);
            }
        }
        if best.is_none()
            && let Some(dictionary) = self.task.dictionary
            && let Some(found) = dictionary.longest(&self.bytes[at..])
            && found.len() > SHORT_BYTES
        {
            let alignment = Alignment { source: DICTIONARY, shift: found.start as i32 - at as i32 };
            return Some(Match { length: found.len(), alignment, source: dictionary.content(), repeat: None });
        }
        best
    }

    /// The match at a place of a domain.
    #[inline]
    fn probe(&mut self, domain: &'a DomainHistory, place: Place, at: usize) -> Option<Match<'a>> {
        if place == Place::END {
            return None;
        }
        let id = domain.owner(place)?;
        let known = &mut self.parser.sources[id as usize % SOURCES];
        if known.id != id {
            *known = match domain.entry(id) {
                Some(entry) => {
                    let is_usable = id == self.task.text.id || (self.usable)(id);
                    Source { id, begin: entry.place(0), length: entry.len() as u32, is_usable }
                }
                None => Source { id, ..Source::default() },
            };
        }
        let Source { begin, length, is_usable, .. } = *known;
        let from = place.behind(begin);
        if !is_usable || from >= length {
            return None;
        }
        let source = domain.kept().bytes(begin, length);
        let length = self.equal(at, source, from as usize);
        let is_itself = id == self.task.text.id;
        if length <= SHORT_BYTES || is_itself && (from as usize >= at || at - from as usize > self.limits.reach) {
            return None;
        }
        let shift = from as i32 - at as i32;
        let alignment = Alignment { source: if is_itself { ITSELF } else { id }, shift };
        Some(Match { length, alignment, source, repeat: None })
    }

    #[inline]
    fn equal(&self, at: usize, source: &[u8], from: usize) -> usize {
        equal_bytes(&self.bytes[at..], source.get(from..).unwrap_or_default())
    }

    fn push(&mut self, sequences: &mut Vec<Sequence>, literals: usize, found: Match<'a>) {
        let Match { alignment, source, .. } = found;
        let first = usize::from(literals == 0);
        let known = self.repeats.iter().position(|known| known.is_some_and(|(known, _)| known == alignment));
        let mut offset = match known.filter(|index| *index >= first) {
            Some(index) => {
                self.repeats[..=index].rotate_right(1);
                Offset::Repeat((index + 1 - first) as u8)
            }
            None => {
                self.repeats = [Some((alignment, source)), self.repeats[0], self.repeats[1]];
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
            sequences.push(Sequence { literals, length: piece as u32, alignment, offset });
            (left, literals) = (left - piece, 0);
            if left > 0 && self.limits.has_repeats {
                // No repeat: behind no literals the last offset is not the first of the repeats.
                offset = Offset::Explicit;
                self.repeats = [Some((alignment, source)), self.repeats[0], self.repeats[1]];
            }
        }
    }
}
