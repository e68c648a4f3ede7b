//! The dictionaries of a node, by id.
//!
//! Invariants  R1 an id stands for the same bytes and encoding for the lifetime of the registry. It is immutable: a
//!             node with other dictionaries gets another registry.
//! Limits      `DICTIONARIES_MAX`.
//! Not here    files, HTTP.

use super::{Dictionary, DictionaryId};
use crate::Encoding;
use std::sync::Arc;

/// A node needs one per encoding, and a few older ones for clients that have them.
pub const DICTIONARIES_MAX: usize = 64;

/// A dictionary and its encoding.
#[derive(Clone, Debug)]
pub struct KnownDictionary {
    /// Encoding of the messages it was trained with.
    pub encoding: Encoding,
    /// The dictionary.
    pub dictionary: Arc<Dictionary>,
}

/// Dictionaries by id. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Dictionaries(Arc<[KnownDictionary]>);

impl Dictionaries {
    /// These, or nothing if they are more than [`DICTIONARIES_MAX`].
    #[must_use]
    pub fn new(known: Vec<KnownDictionary>) -> Option<Self> {
        (known.len() <= DICTIONARIES_MAX).then(|| Self(known.into()))
    }

    /// All dictionaries, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = &KnownDictionary> {
        self.0.iter()
    }

    /// The one of this id.
    #[must_use]
    pub fn find(&self, id: DictionaryId) -> Option<&KnownDictionary> {
        self.0.iter().find(|known| known.dictionary.id() == id)
    }
}
