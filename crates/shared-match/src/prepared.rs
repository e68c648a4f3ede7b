//! Prepared: what is known of one of the newest texts: where it finds itself in others, and its parses.
//!
//! Owns        the parses of a text, and which of them serves a connection of some age.
//! Limits      horizons beyond the first `EXACT_PROGRAMS_MAX` are rounded to `HORIZONS`; then as far as there is no more to find.

use crate::{
    begun::Begun,
    candidates::Candidates,
    deflate,
    fast::Similar,
    matcher::Effort,
    ring::BodyId,
    templates::{TEMPLATES_MAX, Template},
    zstd,
};
use smallvec::SmallVec;

/// So many parses of a text may look back as far as a connection can; then they are rounded.
pub const EXACT_PROGRAMS_MAX: usize = 4;
/// How many texts of the matcher these look back on, the most first: each about 0.7 of the one before.
const HORIZONS: [u32; 33] = [
    8192, 5800, 4096, 2900, 2048, 1450, 1024, 720, 512, 360, 256, 180, 128, 105, 90, 75, 64, 54, 45, 38, 32, 27, 23,
    19, 16, 13, 11, 9, 7, 5, 3, 2, 1,
];

/// Which parse of a text: what it may refer to beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// All texts up to so many back, `u32::MAX` for however many, and one that not all have: a template, if any.
    Horizon(u32, Option<BodyId>),
    /// What one connection had that lacked some of these. It serves whoever has as much.
    Had,
    /// One text.
    Only(BodyId),
    /// Sources that one connection has, as the fast search finds them, and similar bodies.
    Fast(Similar),
    /// Nothing, for streams with a window of so many bytes.
    Itself(u32),
}

/// A parse, as it is written in a format.
#[derive(Debug)]
pub struct Made<P> {
    pub variant: Variant,
    /// How many texts back it looks, its template aside: as far as `variant` allows, or less.
    pub looks_back: u32,
    /// About how many bits it takes, to tell better from worse.
    pub bits: u32,
    pub program: P,
}

/// The parses of a text, in a format, from the shortest to the longest.
pub type Programs<P> = Vec<Made<P>>;

/// What is known of a new text.
#[derive(Debug)]
pub struct Prepared {
    pub id: BodyId,
    pub effort: Effort,
    pub candidates: Candidates,
    pub templates: SmallVec<[Template; TEMPLATES_MAX]>,
    pub zstd: Programs<zstd::Program>,
    pub deflate: Programs<deflate::Program>,
    /// The same for streams that began with a dictionary and may still refer to it.
    pub begun: Begun<Programs<zstd::Program>>,
}

/// The farthest of `HORIZONS` within `age` texts.
pub fn round(age: u32) -> u32 {
    HORIZONS.iter().copied().find(|horizon| *horizon <= age).unwrap_or(0)
}

/// The parse that looks back no farther than `age` texts and is the best of those, or nearly: it was free to look as far
/// back, or not much less.
#[inline]
pub fn nearly<P>(programs: &[Made<P>], age: u32, template: Option<BodyId>) -> Option<usize> {
    programs.iter().position(|made| match made.variant {
        Variant::Horizon(horizon, with) => {
            with == template && made.looks_back <= age && age.saturating_sub(horizon) <= age / 8
        }
        _ => false,
    })
}
