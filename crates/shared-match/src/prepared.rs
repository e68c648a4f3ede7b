//! Prepared: the matches and parses of one of the newest bodies.
//!
//! Owns        the parses of a body, and the choice of a parse for a connection of some age.
//! Limits      horizons beyond the first `EXACT_PROGRAMS_MAX` are rounded to `HORIZONS`, up to the oldest match.

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

/// Parses of a body with an exact horizon; horizons of further parses are rounded.
pub const EXACT_PROGRAMS_MAX: usize = 4;
/// Horizons in bodies of the matcher, largest first: each about 0.7 of the one before.
const HORIZONS: [u32; 33] = [
    8192, 5800, 4096, 2900, 2048, 1450, 1024, 720, 512, 360, 256, 180, 128, 105, 90, 75, 64, 54, 45, 38, 32, 27, 23,
    19, 16, 13, 11, 9, 7, 5, 3, 2, 1,
];

/// Kind of a parse, by its permitted sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The newest bodies, this many (`u32::MAX`: any number), and one that only some connections have: a
    /// template, if any.
    Horizon(u32, Option<BodyId>),
    /// The bodies of one connection that lacked some of those. It serves every connection with as many.
    Had,
    /// One body only.
    Only(BodyId),
    /// Sources that one connection has, as the fast search finds them, and similar bodies.
    Fast(Similar),
    /// No other body, for streams with a window of this many bytes.
    Itself(u32),
}

/// A parse, encoded in a format.
#[derive(Debug)]
pub struct Made<P> {
    pub variant: Variant,
    /// Age of its oldest source in bodies, without its template: at most as `variant` allows.
    pub looks_back: u32,
    /// Approximate size in bits, to compare parses.
    pub bits: u32,
    pub program: P,
}

/// The parses of a body in a format, from the shortest to the longest.
pub type Programs<P> = Vec<Made<P>>;

/// State of a new body.
#[derive(Debug)]
pub struct Prepared {
    pub id: BodyId,
    pub effort: Effort,
    pub candidates: Candidates,
    pub templates: SmallVec<[Template; TEMPLATES_MAX]>,
    pub zstd: Programs<zstd::Program>,
    pub deflate: Programs<deflate::Program>,
    /// The same for streams that started with a dictionary and may still refer to it.
    pub begun: Begun<Programs<zstd::Program>>,
}

/// The largest of `HORIZONS` within `age` bodies.
pub fn round(age: u32) -> u32 {
    HORIZONS.iter().copied().find(|horizon| *horizon <= age).unwrap_or(0)
}

/// The parse with no source older than `age` bodies that is the best or nearly the best of those: its horizon was
/// `age`, or not much less.
#[inline]
pub fn nearly<P>(programs: &[Made<P>], age: u32, template: Option<BodyId>) -> Option<usize> {
    programs.iter().position(|made| match made.variant {
        Variant::Horizon(horizon, with) => {
            with == template && made.looks_back <= age && age.saturating_sub(horizon) <= age / 8
        }
        _ => false,
    })
}
