//! Workshop: which parse of a text serves a connection, and how one is made that does.
//!
//! Owns        the choice among `Variant`s, and the making of parses.
//! Limits      `PROGRAMS_MAX` and `HAD_PROGRAMS_MAX` per text and format: a connection that none fits gets one without sources.

use crate::{
    candidates::{Candidates, ITSELF},
    coverage::Coverage,
    dictionary::{DICTIONARY, Dictionary},
    find::Finder,
    had::Had,
    history::{Entry, History},
    matcher::Counters,
    parse::{Allowed, Parser, Past, Sequence, Task},
    prepared::{EXACT_PROGRAMS_MAX, Made, Programs, Variant, nearly, round},
    price::Prices,
    ring::BodyId,
    sources::{Located, Missing, Standpoint},
    spans::Spans,
    templates::Template,
    track::Track,
};

/// Parses of a text that are made for what one connection had.
const HAD_PROGRAMS_MAX: usize = 8;
/// Past this many parses of a text in a format, only those that `HORIZONS` and `HAD_PROGRAMS_MAX` allow are created.
const PROGRAMS_MAX: usize = 48;
/// Longer texts are not parsed for single connections.
const HAD_TEXT_BYTES_MAX: usize = 16 << 10;
/// Approximate cost of a literal and of a sequence.
const LITERAL_BITS: u32 = 6;
const SEQUENCE_BITS: u32 = 25;
/// How far back a head is looked for that is not among the sources of the text anyway.
const HEADS_LOOKED_AT_MAX: u32 = 64;

/// The parts of a matcher from which parses are made, for one text and one connection.
pub struct Workshop<'a> {
    pub history: &'a History,
    pub prices: Prices<'a>,
    pub coverage: &'a Coverage,
    pub parser: &'a mut Parser,
    pub finder: &'a mut Finder,
    pub one: &'a mut Candidates,
    pub had: &'a mut Had,
    pub counters: &'a mut Counters,
    pub candidates: &'a Candidates,
    /// And how far before the text it begins.
    pub dictionary: Option<(&'a Dictionary, u32)>,
    pub templates: &'a [Template],
    pub served: Served<'a>,
}

/// Which text is written to which connection.
#[derive(Clone, Copy)]
pub struct Served<'a> {
    pub id: BodyId,
    /// The oldest text that the connection has within reach.
    pub oldest_here: Option<BodyId>,
    pub here: Standpoint<'a>,
}

impl Served<'_> {
    /// How many texts back it can refer.
    #[inline]
    fn age(&self) -> Option<u32> {
        self.oldest_here.map(|oldest| self.id.wrapping_sub(oldest))
    }

    /// Where a text is that the connection has within reach.
    #[inline]
    pub fn find(&self, id: BodyId) -> Option<Located> {
        let age = self.age()?;
        let Standpoint { track, spans, position, .. } = self.here;
        let distance = || track.distance(id, position, spans);
        (self.id.wrapping_sub(id) <= age).then(distance)?.map(|distance| Located { id, distance })
    }

    /// Template that a parse for the connection may use in addition to common sources, with the location of the last
    /// one examined, which is usually among the sources.
    #[inline]
    fn template(&self, templates: &[Template]) -> (Option<BodyId>, Located) {
        let found = templates.iter().find_map(|template| Some((template, self.find(template.id)?)));
        // One that nearly all have is allowed anyway.
        let asked = found.filter(|(template, _)| !template.is_common).map(|(template, _)| template.id);
        (asked, found.map_or(Located::NOTHING, |(_, located)| located))
    }
}

/// The parse that serves most connections as old as this one, if there is one and it serves this one too: as `Workshop::choose`
/// would have it, with nothing at hand to make others.
#[inline]
pub fn ready<P>(
    programs: &Programs<P>,
    templates: &[Template],
    served: &Served<'_>,
    mut locate: impl FnMut(&P, Located) -> Result<(), Missing>,
) -> Option<usize> {
    let (template, located) = served.template(templates);
    let index = nearly(programs, served.age()?, template)?;
    locate(&programs[index].program, located).is_ok().then_some(index)
}

/// A parse and which head it goes with.
pub struct Parsed<'a> {
    pub bytes: &'a [u8],
    pub sequences: Vec<Sequence>,
    pub head_source: Option<BodyId>,
    /// Of the connection it is made for; others are much like it.
    pub track: &'a Track,
    pub spans: &'a Spans,
}

impl Parsed<'_> {
    /// About how many bits it takes in either format.
    fn about_bits(&self) -> u32 {
        let copied: u32 = self.sequences.iter().map(|sequence| sequence.length).sum();
        LITERAL_BITS * (self.bytes.len() as u32 - copied) + SEQUENCE_BITS * self.sequences.len() as u32
    }
}

impl<'a> Workshop<'a> {
    /// Finds the parse that serves the connection, or makes it.
    #[cold]
    pub fn choose<P>(
        &mut self,
        programs: &mut Programs<P>,
        mut locate: impl FnMut(&P) -> Result<(), Missing>,
        prepare: impl Fn(Parsed<'_>) -> P,
    ) -> usize {
        let Some(age) = self.served.age() else { return self.itself(programs, &mut locate, &prepare) };
        let (template, _) = self.served.template(self.templates);
        let index = nearly(programs, age, template).unwrap_or_else(|| {
            let template = template.filter(|_| programs.len() < PROGRAMS_MAX);
            let age = if programs.len() < EXACT_PROGRAMS_MAX { age } else { round(age) };
            let horizon = self.horizon(age);
            self.get_or_make(programs, Variant::Horizon(horizon, template), &prepare)
        });
        if locate(&programs[index].program).is_ok() {
            return index;
        }
        self.counters.fallbacks_total += 1;
        self.choose_other(programs, &mut locate, &prepare)
    }

    /// Parse for a connection that lacks common sources: the best existing one that fits, or a new one.
    fn choose_other<P>(
        &mut self,
        programs: &mut Programs<P>,
        locate: &mut impl FnMut(&P) -> Result<(), Missing>,
        prepare: &impl Fn(Parsed<'_>) -> P,
    ) -> usize {
        if let Some(index) = self.shortest(programs, locate) {
            return index;
        }
        let mut made = None;
        let had_count = programs.iter().filter(|made| made.variant == Variant::Had).count();
        let is_short = self.history.text(self.served.id).is_some_and(|text| text.len() <= HAD_TEXT_BYTES_MAX);
        if had_count < HAD_PROGRAMS_MAX && is_short {
            made = Some(self.make(programs, Variant::Had, prepare));
        } else if let Some(id) = self.newest_like_it()
            && programs.len() < PROGRAMS_MAX
        {
            made = Some(self.get_or_make(programs, Variant::Only(id), prepare));
        }
        match made {
            Some(index) if locate(&programs[index].program).is_ok() => index,
            _ => self.itself(programs, locate, prepare),
        }
    }

    /// The shortest of the parses with sources that serves the connection.
    fn shortest<P>(&self, programs: &Programs<P>, locate: &mut impl FnMut(&P) -> Result<(), Missing>) -> Option<usize> {
        let age = self.served.age().unwrap_or(0);
        programs.iter().position(|made| {
            let has_sources = !matches!(made.variant, Variant::Itself(_));
            has_sources && made.looks_back <= age && locate(&made.program).is_ok()
        })
    }

    fn itself<P>(
        &mut self,
        programs: &mut Programs<P>,
        locate: &mut impl FnMut(&P) -> Result<(), Missing>,
        prepare: &impl Fn(Parsed<'_>) -> P,
    ) -> usize {
        let index = self.get_or_make(programs, Variant::Itself(self.served.here.window), prepare);
        locate(&programs[index].program).expect("what refers to itself alone misses nothing");
        index
    }

    /// The newest text of the same name that the connection has.
    fn newest_like_it(&self) -> Option<BodyId> {
        let text = self.history.text(self.served.id)?;
        let earlier = self.history.similar(text).filter(|id| *id < self.served.id && self.history.text(*id).is_some());
        earlier.into_iter().find(|id| self.served.find(*id).is_some())
    }

    /// How far a parse may look back and be the same as one that looks back `age` texts: so far there is nothing more to refer to,
    /// and no newer head.
    fn horizon(&self, age: u32) -> u32 {
        let Some(text) = self.history.text(self.served.id) else { return age };
        let horizon = self.candidates.horizon(text.id, age);
        let head = self.newest_common_head(text, text.id.saturating_sub(horizon));
        let head_age = head.map(|head| text.id.wrapping_sub(head)).filter(|head_age| *head_age > age);
        head_age.map_or(horizon, |head_age| head_age - 1)
    }

    /// The newest text of the same name that those have whom a parse is for: a head costs more than to say where one like it is.
    fn newest_head(&self, text: &Entry, variant: Variant) -> Option<BodyId> {
        match variant {
            Variant::Horizon(horizon, template) => {
                self.newest_common_head(text, text.id.saturating_sub(horizon)).or(template)
            }
            Variant::Had => self.newest_named(text, 0, |source| self.had.contains(source.id)),
            Variant::Only(_) | Variant::Fast(_) | Variant::Itself(_) => None,
        }
    }

    fn newest_common_head(&self, text: &Entry, oldest: BodyId) -> Option<BodyId> {
        self.newest_named(text, oldest, |source| text.is_for_who_got(source, self.coverage))
    }

    /// The newest text of the same name from `oldest` on that was `had`.
    fn newest_named(&self, text: &Entry, oldest: BodyId, is_had: impl Fn(&Entry) -> bool) -> Option<BodyId> {
        let nearest = oldest.max(text.id.saturating_sub(HEADS_LOOKED_AT_MAX))..text.id;
        let named = self.history.similar(text).filter(|id| nearest.contains(id));
        named.filter_map(|id| self.history.text(id)).find(|source| is_had(source)).map(|source| source.id)
    }

    fn get_or_make<P>(
        &mut self,
        programs: &mut Programs<P>,
        variant: Variant,
        prepare: &impl Fn(Parsed<'_>) -> P,
    ) -> usize {
        match programs.iter().position(|made| made.variant == variant) {
            Some(index) => index,
            None => self.make(programs, variant, prepare),
        }
    }

    #[cold]
    fn make<P>(&mut self, programs: &mut Programs<P>, variant: Variant, prepare: &impl Fn(Parsed<'_>) -> P) -> usize {
        let parsed = self.parse(variant);
        let template = if let Variant::Horizon(_, template) = variant { template } else { None };
        let sources = parsed.sequences.iter().map(|sequence| sequence.alignment.source).chain(parsed.head_source);
        let is_text = |source: &BodyId| !matches!(*source, ITSELF | DICTIONARY) && Some(*source) != template;
        let farthest = sources.filter(is_text).min();
        let looks_back = farthest.map_or(0, |farthest| self.served.id.wrapping_sub(farthest));
        let made = Made { variant, looks_back, bits: parsed.about_bits(), program: prepare(parsed) };
        let index = programs.partition_point(|other| other.bits <= made.bits);
        programs.insert(index, made);
        index
    }

    fn parse(&mut self, variant: Variant) -> Parsed<'a> {
        self.counters.parses_total += 1;
        let (history, prices, reach) = (self.history, self.prices, self.served.here.window);
        let past = Past { history, dictionary: self.dictionary };
        let Some(text) = history.text(self.served.id) else {
            return Parsed {
                bytes: &[],
                sequences: Vec::new(),
                head_source: None,
                track: self.served.here.track,
                spans: history.spans(),
            };
        };
        let mut candidates = self.candidates;
        let allowed = match variant {
            Variant::Horizon(horizon, template) => {
                Allowed::Common { oldest: self.served.id.saturating_sub(horizon), template }
            }
            Variant::Had => {
                self.had.fill(self.served.id, self.served.oldest_here, self.served.here.track);
                Allowed::Had(self.had)
            }
            Variant::Only(only) => {
                match history.text(only) {
                    Some(source) => self.finder.find_in(history, text, source, self.candidates, self.one),
                    // Evicted: its place belongs to another body.
                    None => self.one.clear(),
                }
                candidates = &*self.one;
                Allowed::Only(only)
            }
            Variant::Fast(_) | Variant::Itself(_) => Allowed::Nothing,
        };
        let sequences = self.parser.parse(Task { text, past, candidates, reach }, prices, allowed);
        debug_assert!(rebuilds(history.bytes(text), past, &sequences), "P1");
        let head_source = head_source(history, text, &sequences).or_else(|| self.newest_head(text, variant));
        Parsed {
            bytes: history.bytes(text),
            sequences,
            head_source,
            track: self.served.here.track,
            spans: history.spans(),
        }
    }
}

/// Whether the matches of a parse equal the bytes that they stand for (P1).
pub fn rebuilds(bytes: &[u8], past: Past<'_>, sequences: &[Sequence]) -> bool {
    let mut at = 0;
    sequences.iter().all(|sequence| {
        at += sequence.literals as usize;
        let length = sequence.length as usize;
        let from = (at as i32 + sequence.alignment.shift) as usize;
        let is_equal = match sequence.alignment.source {
            ITSELF => from < at && bytes[from..from + length] == bytes[at..at + length],
            // An evicted source was compared when it was found.
            source => {
                past.bytes(source).is_none_or(|source| source.get(from..from + length) == Some(&bytes[at..at + length]))
            }
        };
        at += length;
        is_equal
    })
}

/// The text of the same name whose head is copied, if one is among those that `sequences` refer to anyway: best the one with which
/// the text goes on.
pub fn head_source(history: &History, text: &Entry, sequences: &[Sequence]) -> Option<BodyId> {
    let is_named = |id: &BodyId| history.text(*id).is_some_and(|source| source.name == text.name);
    let first = sequences.first().filter(|first| first.alignment.shift == 0).map(|first| first.alignment.source);
    first.filter(is_named).or_else(|| sequences.iter().map(|sequence| sequence.alignment.source).filter(is_named).max())
}
