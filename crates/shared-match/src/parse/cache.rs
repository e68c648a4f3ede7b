//! Cache: the parses of one of the newest bodies.
//!
//! Owns        the groups of a body's recipients, in the order in which they were met, with their parses.
//! Limits      those of `selection`.

use crate::{
    deflate,
    history::BodyId,
    history::SearchDomains,
    limits::Effort,
    parse::dictionary_parses::DictionaryParses,
    parse::selection::{Groups, Probes},
    zstd,
};

/// A new body's search and its parses.
#[derive(Debug)]
pub struct EntryParses {
    pub id: BodyId,
    pub effort: Effort,
    /// How many connections are expected to be sent it.
    pub audience: u32,
    /// `searched` and `probes` are chosen, which the first recipient needs that has no library context.
    pub is_prepared: bool,
    pub searched: SearchDomains,
    pub probes: Probes,
    pub zstd: Groups<zstd::EncodedParse>,
    pub deflate: Groups<deflate::EncodedParse>,
    /// The same for streams that began with a dictionary and may still refer to it.
    pub with_dictionary: DictionaryParses<Groups<zstd::EncodedParse>>,
}
