//! Which fast parse of a body serves a connection, and how one is made that does.
//!
//! Why         a parse is for connections that have its sources. The first recipient's serves most others, so a body has as many
//!             parses as its recipients differ.
//! Invariants  a parse may refer to similar bodies of any domain that the connection it is made for was sent: only connections that were
//!             sent all of these use it, whether it refers to them or not, so nothing of them shows to others.
//! Limits      `FAST_PROGRAMS_MAX` parses per body and format; the last one makes way.

use crate::{
    dictionary::Dictionary,
    fast::{FastLimits, FastParser, FastTask, SIMILAR_MAX, Similar},
    history::{Entry, History},
    matcher::{Counters, Effort},
    parse::{Allowed, Parser, Past, Task},
    prepared::{Made, Programs, Variant},
    price::Prices,
    ring::BodyId,
    sources::{Located, Missing},
    workshop::{Parsed, Served, head_source, rebuilds},
};

/// Parses of a body that are kept where each is made for one connection.
const FAST_PROGRAMS_MAX: usize = 64;

/// What parses are made with.
pub struct Parsers<'a> {
    pub fast: &'a mut FastParser,
    pub optimal: &'a mut Parser,
    pub counters: &'a mut Counters,
}

/// One body and one connection.
pub struct FastChoice<'a> {
    pub history: &'a History,
    pub text: &'a Entry,
    /// And how far before the body it begins.
    pub dictionary: Option<(&'a Dictionary, u32)>,
    pub limits: FastLimits,
    pub effort: Effort,
    pub prices: Prices<'a>,
    pub served: Served<'a>,
}

impl FastChoice<'_> {
    /// The parse that serves the connection; none if even its own does not.
    pub fn get_or_make<P>(
        &self,
        parsers: Parsers<'_>,
        programs: &mut Programs<P>,
        locate: &mut impl FnMut(&P, Located) -> Result<(), Missing>,
        prepare: impl FnOnce(Parsed<'_>) -> P,
    ) -> Option<usize> {
        let similar = self.similar();
        let mut serves =
            |made: &Made<P>| self.is_for(made.variant, similar) && locate(&made.program, Located::NOTHING).is_ok();
        if let Some(index) = programs.iter().position(&mut serves) {
            return Some(index);
        }
        parsers.counters.parses_total += 1;
        let program = prepare(self.parse(parsers, similar));
        programs.truncate(FAST_PROGRAMS_MAX - 1);
        programs.push(Made { variant: Variant::Fast(similar), looks_back: 0, bits: 0, program });
        programs.last().filter(|made| serves(made)).map(|_| programs.len() - 1)
    }

    /// Whether the connection may use a parse: it was sent every body that the parse may refer to, and has no larger set of its own.
    fn is_for(&self, variant: Variant, similar: Similar) -> bool {
        let Variant::Fast(with) = variant else { return false };
        if with == similar {
            return true;
        }
        with.iter().flatten().count() >= similar.iter().flatten().count()
            && with.into_iter().flatten().all(|id| self.served.find(id).is_some())
    }

    fn parse(&self, parsers: Parsers<'_>, similar: Similar) -> Parsed<'_> {
        let Self { history, text, dictionary, limits, served, .. } = *self;
        let here = served.here;
        let reach = here.window.saturating_sub(text.len() as u32);
        let is_usable = |id| served.find(id).is_some_and(|located| located.distance <= reach);
        let task = FastTask { history, text, similar, dictionary: dictionary.map(|(dictionary, _)| dictionary) };
        let past = Past { history, dictionary };
        let sequences = match self.effort {
            Effort::Shallow => {
                let candidates = parsers.fast.candidates(task, limits, is_usable);
                let task = Task { text, past, candidates, reach: limits.reach as u32 };
                parsers.optimal.parse(task, self.prices, Allowed::All)
            }
            _ => parsers.fast.parse(task, limits, is_usable),
        };
        let bytes = history.bytes(text);
        debug_assert!(rebuilds(bytes, past, &sequences), "P1");
        let head_source = head_source(history, text, &sequences);
        Parsed { bytes, sequences, head_source, track: here.track, spans: here.spans }
    }

    /// The newest bodies of the same name that the connection has, of whatever domain: its own past.
    fn similar(&self) -> Similar {
        let Self { history, text, served, limits, .. } = *self;
        let reach = served.here.window.saturating_sub(text.len() as u32);
        let is_here = |id: &BodyId| served.find(*id).is_some_and(|located| located.distance <= reach);
        let is_named = |id: &BodyId| *id < text.id && history.text(*id).is_some_and(|other| other.name == text.name);
        let newest = Some(served.here.track.newest_named(text.name)).filter(|id| is_named(id) && is_here(id));
        // Only as many are looked at as this name has on the whole thread; this connection may have few of them.
        let others = history.named(text.name).filter(|id| *id < newest.unwrap_or(text.id) && is_here(id));
        let mut similar = [None; SIMILAR_MAX];
        let found = newest.into_iter().chain(others).take(limits.similar_max);
        similar.iter_mut().zip(found).for_each(|(similar, id)| *similar = Some(id));
        similar
    }
}
