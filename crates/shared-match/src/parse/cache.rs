//! Prepared: the parses of one of the newest bodies.
//!
//! Owns        the groups of a body's recipients, in the order in which they were met, with their parses.
//! Limits      those of `fast_choice`.

use crate::{
    deflate,
    history::SearchDomains,
    matcher::Effort,
    parse::dictionary_parses::Begun,
    parse::selection::{Groups, Probes},
    stream::position_ring::BodyId,
    zstd,
};

/// What is known of a new body.
#[derive(Debug)]
pub struct Prepared {
    pub id: BodyId,
    pub effort: Effort,
    /// How many connections are expected to be sent it.
    pub audience: u32,
    pub searched: SearchDomains,
    pub probes: Probes,
    pub zstd: Groups<zstd::Program>,
    pub deflate: Groups<deflate::Program>,
    /// The same for streams that began with a dictionary and may still refer to it.
    pub begun: Begun<Groups<zstd::Program>>,
}
