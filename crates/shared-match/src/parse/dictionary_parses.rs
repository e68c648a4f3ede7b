//! Parses of a body for streams that started with a dictionary, while they may still refer to it.
//!
//! Why         their parses refer to what others do not have, so they are kept apart; in everything else they are
//!             chosen and made as all others are.
//! Limits      `DICTIONARIES_MAX` dictionaries per body, the first that are needed: streams with another one are
//!             written like those without. Nothing is searched before a body is written to such a stream.

use crate::search::dictionary::{BODY_BYTES_MAX, Dictionary};
use smallvec::SmallVec;
use std::sync::Arc;

/// A node mostly has one per encoding, and an older one.
const DICTIONARIES_MAX: usize = 4;

#[derive(Debug)]
struct With<P> {
    dictionary: Arc<Dictionary>,
    groups: P,
}

/// See the module.
#[derive(Debug)]
pub struct DictionaryParses<P>(SmallVec<[Box<With<P>>; 1]>);

impl<P> Default for DictionaryParses<P> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

impl<P: Default> DictionaryParses<P> {
    /// For another body.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Where those of a dictionary are; none if it is not to be referred to.
    pub fn find_or_make(&mut self, dictionary: &Arc<Dictionary>, body: &[u8]) -> Option<usize> {
        let found = self.0.iter().position(|with| Arc::ptr_eq(&with.dictionary, dictionary));
        if found.is_some() || self.0.len() == DICTIONARIES_MAX || body.len() > BODY_BYTES_MAX {
            return found;
        }
        self.0.push(Box::new(With { dictionary: dictionary.clone(), groups: P::default() }));
        Some(self.0.len() - 1)
    }

    /// What `find_or_make` found.
    pub fn get(&mut self, index: usize) -> (&Dictionary, &mut P) {
        let with = &mut *self.0[index];
        (&with.dictionary, &mut with.groups)
    }
}
