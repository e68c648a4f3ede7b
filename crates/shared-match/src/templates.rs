//! Templates: earlier texts of the same name in the same domains, whatever their scope.
//!
//! Why         what happens rarely has nothing like it near in the history of its own guild, or within the reach of a stream
//!             that gets much else, and the buckets of `History` end before they come to it; but somewhere it happened
//!             lately, and most of it, names of fields, is the same.
//! Owns        the selection of such texts: few that serve many, by the sample; and an index of them, rebuilt for every
//!             searched text.
//! Limits      `TEMPLATES_MAX` short texts of `TEXT_BYTES_MAX`, from the newest `LOOKED_AT_MAX` of the name; `PLACES_MAX`
//!             places per position.

use crate::{
    coverage::{Coverage, Sampled},
    history::History,
    places::{Beaten, FOUND_BYTES_MIN, equal_bytes, hash_of_four},
    ring::BodyId,
};
use smallvec::SmallVec;

/// Texts that are chosen.
pub const TEMPLATES_MAX: usize = 4;
/// Texts from which they are chosen.
pub const LOOKED_AT_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 4 << 10;
const PLACES_MAX: usize = 32;
const HASH_LOG: u32 = 12;

/// Where equal bytes begin in a template, and how many they are.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Offset in the template.
    pub from: u32,
    /// Index of the template.
    pub template: u8,
    pub length: u32,
}

/// A position in a template.
#[derive(Clone, Copy, Debug)]
struct Indexed {
    /// Offset in `Templates::bytes`.
    at: u32,
    template: u8,
    /// Offset in the template.
    from: u32,
    /// Bytes from there to its end.
    left: u32,
    /// One more than the index of the one before with the same hash.
    before: u32,
}

/// A text that others of its name may be made from.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    pub id: BodyId,
    /// Nearly all recipients of the text were sent the template.
    pub is_common: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Templates {
    /// First those that serve the most.
    all: SmallVec<[Template; TEMPLATES_MAX]>,
    /// One more than an index of `places`.
    heads: Vec<u32>,
    places: Vec<Indexed>,
    /// Their bytes, one after the other.
    bytes: Vec<u8>,
    /// Scratch of `choose`: which connections can refer to which text.
    found: Vec<(BodyId, Sampled)>,
}

impl Templates {
    /// Chooses those for the text `id`, the newest.
    pub fn choose(&mut self, history: &History, coverage: &Coverage, id: BodyId) {
        self.all.clear();
        self.places.clear();
        self.bytes.clear();
        let Some(text) = history.text(id) else { return };
        let earlier = history.similar(text).filter(|other| *other != id).filter_map(|id| history.text(id));
        let short = earlier.filter(|earlier| earlier.len() <= TEXT_BYTES_MAX).take(LOOKED_AT_MAX);
        self.found.clear();
        self.found.extend(short.map(|source| (source.id, coverage.can_refer(text.expected, source.id, source.got))));
        let mut unserved = text.expected;
        while self.all.len() < TEMPLATES_MAX {
            // Of those that serve as many the newest; so where nobody knows whom it will be for, simply the newest.
            let best = self.found.iter().enumerate().max_by_key(|(_, (id, able))| (unserved.common(*able), *id));
            let Some((best, (id, able))) = best.map(|(index, found)| (index, *found)) else { break };
            if text.expected_count > 0 && !self.all.is_empty() && unserved.common(able) == 0 {
                break;
            }
            unserved = unserved.without(able);
            self.found.swap_remove(best);
            let is_common = history.text(id).is_some_and(|source| text.is_for_who_got(source, coverage));
            self.all.push(Template { id, is_common });
        }
        self.index(history);
    }

    fn index(&mut self, history: &History) {
        if self.all.is_empty() {
            return;
        }
        self.heads.clear();
        self.heads.resize(1 << HASH_LOG, 0);
        // The first last, so that it is found first.
        for (template, Template { id, .. }) in self.all.iter().enumerate().rev() {
            let Some(text) = history.text(*id) else { continue };
            let begin = self.bytes.len();
            self.bytes.extend_from_slice(history.bytes(text));
            for (from, four) in history.bytes(text).windows(FOUND_BYTES_MIN).enumerate() {
                let head = &mut self.heads[hash_of_four(four, HASH_LOG)];
                let (at, left, from) = ((begin + from) as u32, (text.len() - from) as u32, from as u32);
                self.places.push(Indexed { at, template: template as u8, from, left, before: *head });
                *head = self.places.len() as u32;
            }
        }
    }

    /// Those that were chosen, first those that serve the most.
    pub fn all(&self) -> &[Template] {
        &self.all
    }

    /// Tells of the longest bytes equal to `wanted` in each template that has some.
    #[inline]
    pub fn longest(&self, wanted: &[u8], mut tell: impl FnMut(Found)) {
        if self.all.is_empty() {
            return;
        }
        let mut longest: Option<Found> = None;
        let mut beaten = Beaten::new(wanted, 0);
        let mut number = self.heads[hash_of_four(wanted, HASH_LOG)];
        for _ in 0..PLACES_MAX {
            let Some(index) = number.checked_sub(1) else { break };
            let Indexed { at, template, from, left, before } = self.places[index as usize];
            number = before;
            if let Some(found) = longest.take_if(|found| found.template != template) {
                beaten = Beaten::new(wanted, 0);
                tell(found);
            }
            if beaten.is_in(&self.bytes, at as usize) {
                let length = equal_bytes(wanted, &self.bytes[at as usize..][..left as usize]) as u32;
                if length >= FOUND_BYTES_MIN as u32 && longest.is_none_or(|found| found.length < length) {
                    beaten = Beaten::new(wanted, length);
                    longest = Some(Found { from, template, length });
                }
            }
        }
        longest.into_iter().for_each(tell);
    }
}
