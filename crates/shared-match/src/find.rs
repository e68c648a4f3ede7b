//! Find: where the bytes of a text stood before, at every place worth looking at. Once per text.
//!
//! Owns        the candidates: per position those that are longer than every nearer one, for both reaches, so that any
//!             horizon finds the best it may use.
//! Limits      the places that `History` knows of per position, and `COMPARED_BYTES_MAX`.

use crate::{
    coverage::{Coverage, Sampled},
    dictionary::DICTIONARY,
    history::{History, Text},
    places::{Beaten, FOUND_BYTES_MIN, Place, Places, equal_bytes, hash_of_four},
    ring::TextId,
    templates::Templates,
};

/// A text may look back into itself.
pub const ITSELF: TextId = 0;

/// Of the index of a single text.
const ONE_HASH_LOG: u32 = 12;
const ONE_PLACES_MAX: u32 = 12;

/// Once so many bytes of a text were equal to something, the rest of a match is taken as it is. A text of a few kilobytes
/// does not come to it; one that repeats the same byte would else take seconds.
const COMPARED_BYTES_MAX: usize = 8 << 20;
/// While one match goes on that has this much to go, and nearly all have its source, only every few positions are looked at in
/// full: between them, what was found goes on, and more is looked for until so much is enough.
const LONG_BYTES: u32 = 32;
const ENOUGH_BYTES: u32 = 64;
const LOOKED_AT_ONE_IN: u32 = 4;
/// Places compared in all, for texts of whatever length, beside two per position.
const PLACES_PER_TEXT_MAX: usize = 200_000;

/// Positions whose places are looked up together.
const LINKED_TOGETHER: usize = 64;

/// Places of four equal bytes that are looked at, per position: long texts are looked through more briefly, so that none
/// holds up others.
fn places_max(bytes: usize) -> usize {
    (PLACES_PER_TEXT_MAX / bytes.max(1)).max(2)
}

/// Equal bytes in an earlier text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// [`ITSELF`], [`DICTIONARY`] or an earlier text.
    pub source: TextId,
    /// Where in it.
    pub from: u32,
    /// How many.
    pub length: u32,
    /// Nearly all who get the text have the source.
    pub is_common: bool,
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

    /// What has to be beaten.
    #[inline]
    fn longest(&self, is_common: bool) -> u32 {
        if is_common { self.longest_common } else { self.longest }
    }

    /// What has to be beaten of what is `wanted`: by one that not all have, and by one that nearly all have.
    #[inline]
    fn beaten(&self, wanted: &[u8]) -> (Beaten, Beaten) {
        (Beaten::new(wanted, self.longest), Beaten::new(wanted, self.longest_common))
    }

    /// Adds one that is farther than those that there are, if it is longer.
    #[inline]
    fn add(&mut self, known: Known) {
        let Candidate { length, is_common, .. } = known.candidate;
        if length <= self.longest(is_common) {
            return;
        }
        if is_common {
            self.longest_common = length;
        }
        self.longest = self.longest.max(length);
        self.known.push(known);
    }

    /// Adds one that is farther than those that there are, if somebody of `able`, who all have it, lacks those that are as long.
    fn add_for(&mut self, known: Known, able: Sampled, able_of: impl Fn(TextId) -> Sampled) {
        let Candidate { length, is_common, .. } = known.candidate;
        let as_long = self.known.iter().filter(|near| near.candidate.length >= length);
        let unserved = as_long.fold(able, |unserved, near| unserved.without(able_of(near.candidate.source)));
        if unserved.count() > 0 {
            self.longest = self.longest.max(length);
            self.longest_common = self.longest_common.max(if is_common { length } else { 0 });
            self.known.push(known);
        }
    }

    /// Adds one of a template, behind those that are nearer; it need not be longer than one that not all have.
    fn insert(&mut self, known: Known) {
        let Candidate { source, length, .. } = known.candidate;
        let is_nearer = |near: &Known| near.candidate.source == ITSELF || near.candidate.source >= source;
        let serves_all = |near: &Known| near.candidate.is_common || near.candidate.source == source;
        let is_beaten = |near: &Known| near.candidate.length < length || !serves_all(near);
        let count = self.known.iter().take_while(|near| is_nearer(near)).count();
        if self.known[..count].iter().all(is_beaten) {
            self.known.insert(count, known);
        }
    }
}

/// An earlier text, as far as a search asks for it.
#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    id: TextId,
    is_common: bool,
    begin: Place,
    length: u32,
}

/// Remembers for one text the others in which it was found: places ask again and again.
#[derive(Debug, Default)]
struct Owners(Vec<Owner>);

impl Owners {
    const SLOTS: usize = 512;

    /// Forgets what was asked for another text.
    fn clear(&mut self) {
        self.0.clear();
        self.0.resize(Self::SLOTS, Owner::default());
    }

    #[inline]
    fn get(&mut self, id: TextId, wanted: &Wanted<'_>) -> Owner {
        let slot = &mut self.0[id as usize % Self::SLOTS];
        if slot.id != id {
            *slot = wanted.owner(id);
        }
        *slot
    }
}

/// What is looked for: the bytes of a text from some position on.
struct Wanted<'a> {
    history: &'a History,
    coverage: &'a Coverage,
    text: &'a Text,
    bytes: &'a [u8],
    /// It is for few, and the sample tells of each what it has.
    is_for_known: bool,
}

impl Wanted<'_> {
    /// Those who get the text and have got a source.
    fn able(&self, source: TextId) -> Sampled {
        let expected = self.text.expected;
        match source {
            ITSELF => expected,
            _ => self.history.text(source).map_or(Sampled::default(), |source| expected.within(source.got)),
        }
    }

    /// What there is to know of an earlier text, or of this one; of one that was forgotten, that it has no bytes.
    #[cold]
    fn owner(&self, id: TextId) -> Owner {
        let Some(source) = self.history.text(id) else { return Owner { id, ..Owner::default() } };
        let is_common = id == self.text.id || self.text.is_for_who_got(source, self.coverage);
        Owner { id, is_common, begin: self.history.place(source, 0), length: source.len() as u32 }
    }

    #[cold]
    fn add_for_known(&self, here: &mut Longer, known: Known) {
        here.add_for(known, self.able(known.candidate.source), |source| self.able(source));
    }

    /// Adds to `here` what is farther than all that is there.
    #[inline]
    fn add(&self, here: &mut Longer, known: Known) {
        if self.is_for_known { self.add_for_known(here, known) } else { here.add(known) }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Candidates {
    /// Of position `p`: `all[starts[p]..starts[p + 1]]`, nearest and shortest first.
    starts: Vec<u32>,
    all: Vec<Candidate>,
    /// Those of the position that is looked at, and what goes on of those of the one before.
    here: Longer,
    earlier: Vec<Known>,
    owners: Owners,
    places: Vec<Places>,
    /// Of `find_in`.
    heads: Vec<u32>,
    before: Vec<u32>,
}

impl Candidates {
    pub fn at(&self, position: usize) -> &[Candidate] {
        match (self.starts.get(position), self.starts.get(position + 1)) {
            (Some(start), Some(end)) => &self.all[*start as usize..*end as usize],
            _ => &[],
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.starts.clear();
        self.all.clear();
    }

    /// What is added next is of the next position; once more behind the last.
    pub(crate) fn start_position(&mut self) {
        self.starts.push(self.all.len() as u32);
    }

    /// Adds to the position that was started last: nearest and shortest first.
    pub(crate) fn extend(&mut self, found: &[Candidate]) {
        self.all.extend_from_slice(found);
    }

    /// Looks for the newest text of the history, and makes it findable.
    pub fn find(&mut self, history: &mut History, coverage: &Coverage, templates: &Templates, id: TextId) {
        self.starts.clear();
        self.all.clear();
        self.owners.clear();
        self.here.clear();
        let Some(text) = history.text(id).cloned() else { return };
        let bytes = history.bytes(&text).to_vec();
        let places_max = places_max(bytes.len());
        let is_for_known = coverage.is_for_few(text.expected_count) && text.expected_count > 0;
        let (mut follow_until, mut compared, mut since_full) = (0, 0, 0);
        for at in 0..bytes.len() {
            self.starts.push(self.all.len() as u32);
            if at % LINKED_TOGETHER == 0 {
                let together = at..bytes.len().min(at + LINKED_TOGETHER);
                history.link((&text, &bytes), together, places_max, &mut self.places);
            }
            std::mem::swap(&mut self.here.known, &mut self.earlier);
            self.here.clear();
            if at < follow_until || at + FOUND_BYTES_MIN > bytes.len() {
                continue;
            }
            self.earlier.retain_mut(Known::go_on);
            let is_long = |known: &Known| known.candidate.is_common && known.candidate.length >= LONG_BYTES;
            since_full = if self.earlier.iter().any(is_long) { (since_full + 1) % LOOKED_AT_ONE_IN } else { 0 };
            let wanted = Wanted { history, coverage, text: &text, bytes: &bytes[at..], is_for_known };
            if since_full == 0 {
                // What goes on from long ago would draw the parse to sources that fewer have than those that are nearer.
                self.earlier.clear();
                compared += self.look(&wanted, at, u32::MAX);
                self.look_in(templates, &wanted);
            } else {
                compared += self.look(&wanted, at, ENOUGH_BYTES);
            }
            self.all.extend(self.here.known.iter().map(|known| known.candidate));
            // What was compared too often is followed instead: the nearest serves the most connections.
            if compared > COMPARED_BYTES_MAX
                && let Some(nearest) = self.here.known.iter().find(|known| known.candidate.is_common)
            {
                follow_until = at + nearest.candidate.length as usize - FOUND_BYTES_MIN + 1;
            }
        }
        self.starts.push(self.all.len() as u32);
    }

    /// Looks at the places of a position, newest first, until one that nearly all have is `enough`. Returns how many bytes were
    /// compared.
    fn look(&mut self, wanted: &Wanted<'_>, at: usize, enough: u32) -> usize {
        let Wanted { history, text, bytes, is_for_known, .. } = *wanted;
        let kept = history.kept();
        let Self { here, earlier, owners, places, .. } = self;
        let mut earlier = earlier.as_slice();
        let mut compared = 0;
        let (mut beaten, mut beaten_common) = here.beaten(bytes);
        let mut newest = places[at % LINKED_TOGETHER].newest_first();
        while here.longest_common < enough {
            let next_known = earlier.first().map_or(Place::END, |known| known.place);
            // Most places are no better, which their bytes tell.
            let may_be_better = |place: &Place| *place <= next_known || kept.may_beat(beaten_common, *place);
            let Some(place) = newest.find(may_be_better) else { break };
            if place <= next_known {
                let nearer = earlier.iter().take_while(|known| known.place >= place).count();
                let (known, farther) = earlier.split_at(nearer);
                known.iter().for_each(|known| wanted.add(here, *known));
                earlier = farther;
                (beaten, beaten_common) = here.beaten(bytes);
                if known.last().is_some_and(|known| known.place == place)
                    || here.longest_common >= enough
                    || !kept.may_beat(beaten_common, place)
                {
                    continue;
                }
            }
            let Some(owner) = history.owner(place) else { continue };
            let Owner { id, is_common, begin, length } = owners.get(owner, wanted);
            // It has to be longer than the longest that is nearer.
            if !(is_for_known | is_common | kept.may_beat(beaten, place)) {
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
            wanted.add(here, Known { place, candidate: Candidate { source, from, length: equal as u32, is_common } });
            (beaten, beaten_common) = here.beaten(bytes);
            if equal == bytes.len() && here.longest_common as usize == equal {
                break;
            }
        }
        earlier.iter().for_each(|known| wanted.add(here, *known));
        compared
    }

    /// Looks at the places of a position in the templates.
    fn look_in(&mut self, templates: &Templates, wanted: &Wanted<'_>) {
        let Self { here, owners, .. } = self;
        templates.longest(wanted.history.kept(), wanted.bytes, |found| {
            let Owner { id, is_common, begin, .. } =
                owners.get(templates.all()[usize::from(found.template)].id, wanted);
            let from = found.place.behind(begin);
            let candidate = Candidate { source: id, from, length: found.length, is_common };
            here.insert(Known { place: found.place, candidate });
        });
    }

    /// Looks for a text in one earlier text alone, and keeps what `all` found in the text itself and in a dictionary.
    pub fn find_in(&mut self, history: &History, text: &Text, source: &Text, all: &Candidates) {
        self.starts.clear();
        self.all.clear();
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
            self.starts.push(self.all.len() as u32);
            self.all.extend(all.at(at).iter().filter(|found| found.source == ITSELF));
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
                self.all.push(Candidate { source: source.id, from, length: longest as u32, is_common: true });
            }
            self.all.extend(all.at(at).iter().filter(|found| found.source == DICTIONARY));
        }
        self.starts.push(self.all.len() as u32);
    }
}
