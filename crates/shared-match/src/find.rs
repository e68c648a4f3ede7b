//! Find: where the bytes of a text stood before, at every place worth looking at. Once per text.
//!
//! Owns        the candidates: per position those that are longer than every nearer one, for both reaches, so that any
//!             horizon finds the best it may use.
//! Limits      the places that `History` knows of per position, and `COMPARED_BYTES_MAX`.

use crate::{
    coverage::{Coverage, Covered},
    dictionary::DICTIONARY,
    history::{FOUND_BYTES_MIN, History, Places, Text, equal_bytes, hash_of_four},
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

/// See the module.
#[derive(Debug, Default)]
pub struct Candidates {
    /// Of position `p`: `all[starts[p]..starts[p + 1]]`, nearest and shortest first.
    starts: Vec<u32>,
    all: Vec<Candidate>,
    covered: Covered,
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
        self.covered.clear();
        let Some(text) = history.text(id).cloned() else { return };
        let covered = &mut self.covered;
        let bytes = history.bytes(&text).to_vec();
        let places_max = places_max(bytes.len());
        let (mut follow_until, mut compared) = (0, 0);
        for at in 0..bytes.len() {
            self.starts.push(self.all.len() as u32);
            if at % LINKED_TOGETHER == 0 {
                history.link(&text, at..bytes.len().min(at + LINKED_TOGETHER), &bytes, &mut self.places);
            }
            if at + FOUND_BYTES_MIN > bytes.len() {
                continue;
            }
            let places = &self.places[at % LINKED_TOGETHER];
            if at < follow_until {
                continue;
            }
            let wanted = &bytes[at..];
            let (mut longest, mut longest_common) = (0, 0);
            let found_before = self.all.len();
            for here in places.newest_first(places_max) {
                // Most places are no better, which their bytes tell.
                if !history.may_be_longer(here, wanted, longest_common) {
                    continue;
                }
                let Some((source, from)) = history.found(here) else { continue };
                let is_itself = source.id == id;
                let is_common = is_itself || covered.get(source.id, || text.is_for_who_got(source, coverage));
                let there = &history.bytes(source)[from..];
                // It has to be longer than the longest that is nearer.
                let beaten = if is_common { longest_common } else { longest };
                if beaten > 0 && there.get(beaten) != wanted.get(beaten) {
                    continue;
                }
                let length = equal_bytes(wanted, there);
                compared += length;
                if length < FOUND_BYTES_MIN || length <= longest && (length <= longest_common || !is_common) {
                    continue;
                }
                if is_common {
                    longest_common = longest_common.max(length);
                }
                longest = longest.max(length);
                let source = if is_itself { ITSELF } else { source.id };
                self.all.push(Candidate { source, from: from as u32, length: length as u32, is_common });
                if length == wanted.len() && longest_common == length {
                    break;
                }
            }
            for found in templates.longest(history, wanted) {
                let Some(source) = history.text(templates.ids()[found.template]) else { continue };
                let is_common = covered.get(source.id, || text.is_for_who_got(source, coverage));
                // Behind those that are nearer, if it is longer.
                let nearer = |near: &Candidate| near.source == ITSELF || near.source >= source.id;
                let all = &self.all[found_before..];
                let count = all.iter().take_while(|near| nearer(near)).count();
                let is_longest = |near: &Candidate| near.length < found.length || is_common && !near.is_common;
                if all[..count].iter().all(is_longest) {
                    let candidate = Candidate { source: source.id, from: found.from, length: found.length, is_common };
                    self.all.insert(found_before + count, candidate);
                }
            }
            // What was compared too often is followed instead: the nearest serves the most connections.
            if compared > COMPARED_BYTES_MAX
                && let Some(nearest) = self.all[found_before..].iter().find(|found| found.is_common)
            {
                follow_until = at + nearest.length as usize - FOUND_BYTES_MIN + 1;
            }
        }
        self.starts.push(self.all.len() as u32);
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
