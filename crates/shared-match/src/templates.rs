//! Templates: the newest texts of the same name, whatever their scope.
//!
//! Why         what happens rarely has nothing like it near in the history of its own guild, and the chains of `History`
//!             end before they come to it; but somewhere it happened lately, and most of it, names of fields, is the same.
//! Owns        an index of up to `TEMPLATES_MAX` short texts, made anew for every text that is searched for.
//! Limits      texts of `TEXT_BYTES_MAX`; `PLACES_MAX` places per position.

use crate::{
    history::{FOUND_BYTES_MIN, History, equal_bytes, hash_of_four},
    ring::TextId,
};
use smallvec::SmallVec;

/// Texts that are looked at.
pub const TEMPLATES_MAX: usize = 4;
const TEXT_BYTES_MAX: usize = 4 << 10;
const PLACES_MAX: usize = 32;
const HASH_LOG: u32 = 12;

/// Where equal bytes begin in a template, and how many they are.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub template: usize,
    pub from: u32,
    pub length: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Templates {
    /// Newest first.
    ids: SmallVec<[TextId; TEMPLATES_MAX]>,
    /// One more than an index of `places`.
    heads: Vec<u32>,
    /// Template, where in it, and the place before as in `heads`.
    places: Vec<(u8, u32, u32)>,
}

impl Templates {
    /// Takes `ids`, newest first; too long ones are left out.
    pub fn fill(&mut self, history: &History, ids: impl Iterator<Item = TextId>) {
        self.ids.clear();
        self.places.clear();
        let is_short = |id: &TextId| history.text(*id).is_some_and(|text| text.len() <= TEXT_BYTES_MAX);
        self.ids.extend(ids.filter(is_short).take(TEMPLATES_MAX));
        if self.ids.is_empty() {
            return;
        }
        self.heads.clear();
        self.heads.resize(1 << HASH_LOG, 0);
        // The newest last, so that it is found first.
        for (template, id) in self.ids.iter().enumerate().rev() {
            let Some(text) = history.text(*id) else { continue };
            for (from, four) in history.bytes(text).windows(FOUND_BYTES_MIN).enumerate() {
                let head = &mut self.heads[hash_of_four(four, HASH_LOG)];
                self.places.push((template as u8, from as u32, *head));
                *head = self.places.len() as u32;
            }
        }
    }

    /// The texts it holds, newest first.
    pub fn ids(&self) -> &[TextId] {
        &self.ids
    }

    /// The longest bytes equal to `wanted` in each template that has some.
    pub fn longest(&self, history: &History, wanted: &[u8]) -> SmallVec<[Found; TEMPLATES_MAX]> {
        let mut longest: SmallVec<[Found; TEMPLATES_MAX]> = SmallVec::new();
        if self.ids.is_empty() {
            return longest;
        }
        let mut place = self.heads[hash_of_four(wanted, HASH_LOG)];
        for _ in 0..PLACES_MAX {
            let Some(index) = place.checked_sub(1) else { break };
            let (template, from, before) = self.places[index as usize];
            place = before;
            let template = usize::from(template);
            let Some(text) = history.text(self.ids[template]) else { continue };
            let length = equal_bytes(wanted, &history.bytes(text)[from as usize..]) as u32;
            if length < FOUND_BYTES_MIN as u32 {
                continue;
            }
            match longest.last_mut().filter(|found| found.template == template) {
                Some(found) if found.length >= length => {}
                Some(found) => *found = Found { template, from, length },
                None => longest.push(Found { template, from, length }),
            }
        }
        longest
    }
}
