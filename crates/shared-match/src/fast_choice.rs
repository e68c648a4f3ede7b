//! Which fast parse of a body serves a connection, and how one is made that does.
//!
//! Why         a parse is for connections that have its sources. The first recipient's serves most others, so a body has as many
//!             parses as its recipients differ.
//! Invariants  a connection without a body of the name in this domain may have one of another domain: only connections that chose
//!             the same use that parse, so nothing of that body shows to others.
//! Limits      `FAST_PROGRAMS_MAX` parses per body and format; the last one makes way.

use crate::{
    dictionary::Dictionary,
    fast::{FastCandidates, FastLimits, FastParser, FastTask},
    history::{Entry, History},
    matcher::Counters,
    parse::Past,
    prepared::{Made, Programs, Variant},
    ring::BodyId,
    sources::{Located, Missing},
    workshop::{Parsed, Served, head_source, rebuilds},
};

/// Parses of a body that are kept where each is made for one connection.
const FAST_PROGRAMS_MAX: usize = 64;
/// Bodies of the same name that are looked for on a connection: in the body's own domain and its parent, and in others.
const SIMILAR_OWN_MAX: usize = 4;
const SIMILAR_OTHER_MAX: usize = 16;

/// One body and one connection.
pub struct FastChoice<'a> {
    pub history: &'a History,
    pub text: &'a Entry,
    pub candidates: &'a FastCandidates,
    /// And how far before the body it begins.
    pub dictionary: Option<(&'a Dictionary, u32)>,
    pub limits: FastLimits,
    pub served: Served<'a>,
}

impl FastChoice<'_> {
    /// The parse that serves the connection; none if even its own does not.
    pub fn get_or_make<P>(
        &self,
        parser: &mut FastParser,
        counters: &mut Counters,
        programs: &mut Programs<P>,
        locate: &mut impl FnMut(&P, Located) -> Result<(), Missing>,
        prepare: impl FnOnce(Parsed<'_>) -> P,
    ) -> Option<usize> {
        let similar = self.similar();
        let variant = Variant::Fast(similar);
        let mut serves = |made: &Made<P>| made.variant == variant && locate(&made.program, Located::NOTHING).is_ok();
        if let Some(index) = programs.iter().position(&mut serves) {
            return Some(index);
        }
        counters.parses_total += 1;
        let program = prepare(self.parse(parser, similar));
        programs.truncate(FAST_PROGRAMS_MAX - 1);
        programs.push(Made { variant, looks_back: 0, bits: 0, program });
        programs.last().filter(|made| serves(made)).map(|_| programs.len() - 1)
    }

    fn parse(&self, parser: &mut FastParser, similar: Option<BodyId>) -> Parsed<'_> {
        let Self { history, text, candidates, dictionary, limits, served } = *self;
        let here = served.here;
        let reach = here.window.saturating_sub(text.len() as u32);
        let is_usable = |id| served.find(id).is_some_and(|located| located.distance <= reach);
        let similar = similar.and_then(|id| history.text(id));
        let task =
            FastTask { history, text, candidates, similar, dictionary: dictionary.map(|(dictionary, _)| dictionary) };
        let sequences = parser.parse(task, limits, is_usable);
        let bytes = history.bytes(text);
        debug_assert!(rebuilds(bytes, Past { history, dictionary }, &sequences), "P1");
        let head_source = head_source(history, text, &sequences);
        Parsed { bytes, sequences, head_source, track: here.track, spans: here.spans }
    }

    /// A body of the same name in another domain that the connection has, if it has none in this one: its own past.
    fn similar(&self) -> Option<BodyId> {
        let earlier = |id: &BodyId| *id < self.text.id;
        let is_here = |id: &BodyId| self.served.find(*id).is_some();
        if self.history.similar(self.text).filter(earlier).take(SIMILAR_OWN_MAX).any(|id| is_here(&id)) {
            return None;
        }
        let others = self.history.named(self.text.name).filter(earlier).take(SIMILAR_OTHER_MAX).filter(is_here);
        others.into_iter().find(|id| self.history.text(*id).is_some())
    }
}
