//! Matcher: searches once per text, writes per connection.
//!
//! Owns        the history, the parses of the newest texts, and the trained tables. One per thread and form.
//! Doors       `push` once per text; `warm_*` some connections ahead, `zstd` and `deflate` once per connection; `zstd_alone` and `deflate_alone` for what
//!             one connection gets and no other.
//! Limits      `Limits`; parses of the `PREPARED_MAX` newest texts, at most about twice `PROGRAMS_MAX` per text and format: who is
//!             served by none gets one without sources. An older text is written as if it were this connection's alone. Of
//!             `DICTIONARIES_MAX` dictionaries as many parses again.

use crate::{
    alone::Alone,
    begun::Begun,
    coverage::Coverage,
    deflate::{self, DeflateStream},
    dictionary::{DICTIONARY, Dictionary, InFront},
    envelope::{EarlierHead, Head, NAME_BYTES_MAX, Tail, around, span_of},
    find::{Candidate, Candidates, ITSELF},
    had::Had,
    history::{History, Scope, Text},
    parse::{Parser, Past, Sequence},
    price::Prices,
    ring::TextId,
    sources::{Distances, Missing, Sources},
    spans::Spans,
    tables::{Form, Tables},
    templates::{TEMPLATES_MAX, Templates},
    track::Track,
    zstd::{self, ZstdStream, alone::Room},
};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Texts whose parses are kept.
const PREPARED_MAX: usize = 128;
/// So many parses of a text may look back as far as a connection can; then they are rounded.
const EXACT_PROGRAMS_MAX: usize = 8;
/// How many texts of the matcher these look back on, the most first: each about 0.7 of the one before.
const HORIZONS: [u32; 33] = [
    8192, 5800, 4096, 2900, 2048, 1450, 1024, 720, 512, 360, 256, 180, 128, 105, 90, 75, 64, 54, 45, 38, 32, 27, 23,
    19, 16, 13, 11, 9, 7, 5, 3, 2, 1,
];
/// Parses of a text that are made for what one connection had.
const HAD_PROGRAMS_MAX: usize = 8;
/// With so many parses of a text, in a format, there come only those that `HORIZONS` and `HAD_PROGRAMS_MAX` allow.
const PROGRAMS_MAX: usize = 48;
/// Longer texts are not parsed for single connections.
const HAD_TEXT_BYTES_MAX: usize = 16 << 10;
/// Texts that are looked at to find the newest like another.
const NEWEST_LOOKED_AT_MAX: u32 = 512;
/// Longest match in a zstd message that is written alone.
const ALONE_MATCH_BYTES_MAX: usize = 32 << 10;

/// What it may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of texts that later ones can refer to; the index takes one and a half times as much.
    pub history_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { history_bytes_max: 8 << 20 }
    }
}

/// Which parse of a text: what it may refer to beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// All texts up to so many back, and one that not all have: a template, if any.
    Horizon(u32, Option<TextId>),
    /// What one connection had that lacked some of these. It serves whoever has as much.
    Had,
    /// One text.
    Only(TextId),
    /// Nothing, for streams with a window of so many bytes.
    Itself(u32),
}

/// A parse, as it is written in a format.
#[derive(Debug)]
struct Made<P> {
    variant: Variant,
    /// How many texts back it looks, its template aside: as far as `variant` allows, or less.
    looks_back: u32,
    program: P,
}

/// The parses of a text, in a format.
type Programs<P> = Vec<Made<P>>;

/// What is known of a new text.
#[derive(Debug)]
struct Prepared {
    id: TextId,
    candidates: Candidates,
    /// Texts of the same name, newest first, if none of them is one that nearly all recipients have.
    templates: SmallVec<[TextId; TEMPLATES_MAX]>,
    zstd: Programs<zstd::Program>,
    deflate: Programs<deflate::Program>,
    /// The same for streams that began with a dictionary and may still refer to it.
    begun: Begun<Programs<zstd::Program>>,
}

/// What pieces cost, per format.
#[derive(Debug)]
struct PricesOf {
    zstd: Prices,
    deflate: Prices,
}

/// What differs between formats once it is known what a text may refer to.
trait Format {
    type State;
    type Program;
    fn window(state: &Self::State) -> u32;
    fn prices(prices: &PricesOf) -> &Prices;
    /// `begun`: for streams with this one of the text's dictionaries.
    fn programs(prepared: &mut Prepared, begun: Option<usize>) -> Shelf<'_, Self::Program>;
    fn prepare(parsed: &Parsed<'_>, tables: &Tables) -> Self::Program;
    fn sources(program: &Self::Program) -> &Sources;
    fn head_distance(program: &Self::Program, distances: &Distances) -> Option<u32>;
    fn write(
        program: &Self::Program,
        state: &mut Self::State,
        tables: &Tables,
        distances: &Distances,
        around: (&Head, &[u8]),
        room: &mut Room,
        out: &mut Vec<u8>,
    );
}

/// What there is of a text: what is shared by all connections that refer to the same dictionary, or to none.
struct Shelf<'a, P> {
    candidates: &'a Candidates,
    dictionary: Option<&'a Dictionary>,
    templates: &'a [TextId],
    programs: &'a mut Programs<P>,
}

struct Zstd;

impl Format for Zstd {
    type State = zstd::ZstdState;
    type Program = zstd::Program;

    fn window(_: &Self::State) -> u32 {
        zstd::WINDOW_BYTES
    }

    fn prices(prices: &PricesOf) -> &Prices {
        &prices.zstd
    }

    #[inline]
    fn programs(prepared: &mut Prepared, begun: Option<usize>) -> Shelf<'_, Self::Program> {
        let Prepared { candidates, templates, zstd, .. } = prepared;
        match begun {
            None => Shelf { candidates, dictionary: None, templates, programs: zstd },
            Some(index) => {
                let (dictionary, candidates, programs) = prepared.begun.get(index);
                Shelf { candidates, dictionary: Some(dictionary), templates, programs }
            }
        }
    }

    fn prepare(parsed: &Parsed<'_>, tables: &Tables) -> Self::Program {
        zstd::Program::new(parsed.bytes, &parsed.sequences, tables, parsed.head_source)
    }

    #[inline]
    fn sources(program: &Self::Program) -> &Sources {
        program.sources()
    }

    #[inline]
    fn head_distance(program: &Self::Program, distances: &Distances) -> Option<u32> {
        program.head_distance(distances)
    }

    #[inline]
    fn write(
        program: &Self::Program,
        state: &mut Self::State,
        tables: &Tables,
        distances: &Distances,
        (head, tail): (&Head, &[u8]),
        room: &mut Room,
        out: &mut Vec<u8>,
    ) {
        program.write(state, tables, distances, head, out);
        if !tail.is_empty() {
            zstd::alone::write(state, tables, room, tail, &[], out);
        }
    }
}

struct Deflate;

impl Format for Deflate {
    type State = deflate::DeflateState;
    type Program = deflate::Program;

    fn window(state: &Self::State) -> u32 {
        state.window()
    }

    fn prices(prices: &PricesOf) -> &Prices {
        &prices.deflate
    }

    #[inline]
    fn programs(prepared: &mut Prepared, _: Option<usize>) -> Shelf<'_, Self::Program> {
        let Prepared { candidates, templates, deflate, .. } = prepared;
        Shelf { candidates, dictionary: None, templates, programs: deflate }
    }

    fn prepare(parsed: &Parsed<'_>, _: &Tables) -> Self::Program {
        let position = parsed.track.position();
        let distance_of = |id| parsed.track.distance(id, position, parsed.spans);
        deflate::Program::new(parsed.bytes, &parsed.sequences, parsed.head_source, distance_of)
    }

    #[inline]
    fn sources(program: &Self::Program) -> &Sources {
        program.sources()
    }

    #[inline]
    fn head_distance(program: &Self::Program, distances: &Distances) -> Option<u32> {
        program.head_distance(distances)
    }

    #[inline]
    fn write(
        program: &Self::Program,
        state: &mut Self::State,
        _: &Tables,
        distances: &Distances,
        (head, tail): (&Head, &[u8]),
        _: &mut Room,
        out: &mut Vec<u8>,
    ) {
        program.write(state, distances, head, tail, out);
    }
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Texts searched.
    pub texts_total: u64,
    /// Parses made of them.
    pub parses_total: u64,
    /// Texts written to connections.
    pub written_total: u64,
    /// Of these, not with the parse that was tried first: a source was missing.
    pub fallbacks_total: u64,
    /// Of these, with no shared parse: too many newer texts have come since.
    pub late_total: u64,
    /// Messages that one connection got and no other.
    pub alone_total: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.texts_total += other.texts_total;
        self.parses_total += other.parses_total;
        self.written_total += other.written_total;
        self.fallbacks_total += other.fallbacks_total;
        self.late_total += other.late_total;
        self.alone_total += other.alone_total;
    }
}

/// A text is not kept any more: its message has to be written alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten;

/// See the module.
#[derive(Debug)]
pub struct Matcher {
    form: Form,
    tables: Tables,
    prices: PricesOf,
    history: History,
    parser: Parser,
    prepared: VecDeque<Prepared>,
    one: Candidates,
    had: Had,
    coverage: Coverage,
    templates: Templates,
    alone: Alone,
    room: Room,
    distances: Distances,
    text: Vec<u8>,
    counters: Counters,
}

/// The farthest of `HORIZONS` within `age` texts.
fn round(age: u32) -> u32 {
    HORIZONS.iter().copied().find(|horizon| *horizon <= age).unwrap_or(0)
}

/// The parse that looks back no farther than `age` texts and is the best of those, or nearly: it was free to look as far
/// back, or not much less.
#[inline]
fn nearly<P>(programs: &[Made<P>], age: u32, template: Option<TextId>) -> Option<usize> {
    programs.iter().position(|made| match made.variant {
        Variant::Horizon(horizon, with) => {
            with == template && made.looks_back <= age && age.saturating_sub(horizon) <= age / 16
        }
        _ => false,
    })
}

/// The parts of a matcher from which parses are made, for one text and one connection.
struct Workshop<'a> {
    history: &'a History,
    prices: &'a Prices,
    coverage: &'a Coverage,
    parser: &'a mut Parser,
    one: &'a mut Candidates,
    had: &'a mut Had,
    counters: &'a mut Counters,
    id: TextId,
    candidates: &'a Candidates,
    /// And how far before the text it begins.
    dictionary: Option<(&'a Dictionary, u32)>,
    templates: &'a [TextId],
    is_for_few: bool,
    /// How far back the stream may refer.
    window: u32,
    /// The oldest text that the connection has within reach.
    oldest_here: Option<TextId>,
    track: &'a Track,
}

/// A parse and which head it goes with.
struct Parsed<'a> {
    bytes: &'a [u8],
    sequences: Vec<Sequence>,
    head_source: Option<TextId>,
    /// Of the connection it is made for; others are much like it.
    track: &'a Track,
    spans: &'a Spans,
}

impl<'a> Workshop<'a> {
    /// Finds the parse that serves the connection, or makes it.
    #[inline]
    fn choose<P>(
        &mut self,
        programs: &mut Programs<P>,
        mut locate: impl FnMut(&P) -> Result<(), Missing>,
        prepare: impl Fn(Parsed<'_>) -> P,
    ) -> usize {
        let Some(oldest) = self.oldest_here else { return self.itself(programs, &mut locate, &prepare) };
        let age = self.id.wrapping_sub(oldest);
        if self.is_for_few {
            return self.choose_other(programs, &mut locate, &prepare);
        }
        let template = self.templates.iter().copied().find(|id| self.has(*id));
        let index = nearly(programs, age, template).unwrap_or_else(|| {
            let template = template.filter(|_| programs.len() < PROGRAMS_MAX);
            let horizon = if programs.len() < EXACT_PROGRAMS_MAX { age } else { round(age) };
            self.get_or_make(programs, Variant::Horizon(horizon, template), &prepare)
        });
        if locate(&programs[index].program).is_ok() {
            return index;
        }
        self.counters.fallbacks_total += 1;
        self.choose_other(programs, &mut locate, &prepare)
    }

    /// For a connection that lacks something that others have: what served one like it, or was made for it.
    #[cold]
    fn choose_other<P>(
        &mut self,
        programs: &mut Programs<P>,
        locate: &mut impl FnMut(&P) -> Result<(), Missing>,
        prepare: &impl Fn(Parsed<'_>) -> P,
    ) -> usize {
        let mut had_count = 0;
        for (index, made) in programs.iter().enumerate() {
            if made.variant == Variant::Had {
                had_count += 1;
                if locate(&made.program).is_ok() {
                    return index;
                }
            }
        }
        let mut made = None;
        let is_short = self.history.text(self.id).is_some_and(|text| text.len() <= HAD_TEXT_BYTES_MAX);
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

    fn itself<P>(
        &mut self,
        programs: &mut Programs<P>,
        locate: &mut impl FnMut(&P) -> Result<(), Missing>,
        prepare: &impl Fn(Parsed<'_>) -> P,
    ) -> usize {
        let index = self.get_or_make(programs, Variant::Itself(self.window), prepare);
        locate(&programs[index].program).expect("what refers to itself alone misses nothing");
        index
    }

    /// The newest text of the same name that the connection has.
    fn newest_like_it(&self) -> Option<TextId> {
        let text = self.history.text(self.id)?;
        let oldest = self.id.saturating_sub(NEWEST_LOOKED_AT_MAX);
        (oldest..self.id)
            .rev()
            .filter(|id| self.history.text(*id).is_some_and(|other| other.name == text.name))
            .find(|id| self.has(*id))
    }

    /// The newest text of the same name that those have whom a parse is for: a head costs more than to say where one like it is.
    fn newest_head(&self, text: &Text, variant: Variant) -> Option<TextId> {
        let history = self.history;
        let (oldest, template) = match variant {
            Variant::Horizon(horizon, template) => (self.id.saturating_sub(horizon), template),
            Variant::Had => (0, None),
            Variant::Only(_) | Variant::Itself(_) => return None,
        };
        let is_had = |source: &Text| match variant {
            Variant::Had => self.had.contains(source.id),
            _ => text.is_for_who_got(source, self.coverage),
        };
        let nearest = oldest.max(self.id.saturating_sub(HEADS_LOOKED_AT_MAX))..self.id;
        let mut named = nearest.rev().filter_map(|id| history.text(id)).filter(|source| source.name == text.name);
        named.find(|source| is_had(source)).map(|source| source.id).or(template)
    }

    /// Whether the connection has a text, which may still be out of reach.
    fn has(&self, id: TextId) -> bool {
        self.track.distance(id, self.track.position(), self.history.spans()).is_some()
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
        let is_text = |source: &TextId| !matches!(*source, ITSELF | DICTIONARY) && Some(*source) != template;
        let farthest = sources.filter(is_text).min();
        let looks_back = farthest.map_or(0, |farthest| self.id.wrapping_sub(farthest));
        programs.push(Made { variant, looks_back, program: prepare(parsed) });
        programs.len() - 1
    }

    fn parse(&mut self, variant: Variant) -> Parsed<'a> {
        self.counters.parses_total += 1;
        let (history, prices, reach) = (self.history, self.prices, self.window);
        let past = Past { history, dictionary: self.dictionary };
        let Some(text) = history.text(self.id) else {
            return Parsed {
                bytes: &[],
                sequences: Vec::new(),
                head_source: None,
                track: self.track,
                spans: history.spans(),
            };
        };
        let sequences = match variant {
            Variant::Horizon(horizon, template) => {
                let oldest = self.id.saturating_sub(horizon);
                let allowed =
                    |found: &Candidate| found.is_common && found.source >= oldest || Some(found.source) == template;
                self.parser.parse(past, self.candidates, prices, text, reach, allowed)
            }
            Variant::Had => {
                self.had.fill(self.id, self.oldest_here, self.track);
                let had = &*self.had;
                self.parser.parse(past, self.candidates, prices, text, reach, |found| had.contains(found.source))
            }
            Variant::Only(only) => {
                if let Some(source) = history.text(only) {
                    self.one.find_in(history, text, source, self.candidates);
                }
                self.parser.parse(past, self.one, prices, text, reach, |found| found.source == only)
            }
            Variant::Itself(_) => self.parser.parse(past, self.candidates, prices, text, reach, |_| false),
        };
        let head_source = head_source(history, text, &sequences).or_else(|| self.newest_head(text, variant));
        Parsed { bytes: history.bytes(text), sequences, head_source, track: self.track, spans: history.spans() }
    }
}

/// How far back a head is looked for that is not among the sources of the text anyway.
const HEADS_LOOKED_AT_MAX: u32 = 64;

/// The text of the same name whose head is copied, if one is among those that `sequences` refer to anyway: best the one with which
/// the text goes on.
fn head_source(history: &History, text: &Text, sequences: &[Sequence]) -> Option<TextId> {
    let is_named = |id: &TextId| history.text(*id).is_some_and(|source| source.name == text.name);
    let first = sequences.first().filter(|first| first.alignment.shift == 0).map(|first| first.alignment.source);
    first.filter(is_named).or_else(|| sequences.iter().map(|sequence| sequence.alignment.source).filter(is_named).max())
}

impl Matcher {
    /// Nothing is known yet.
    pub fn new(form: Form, tables: Tables, limits: Limits) -> Self {
        Self {
            form,
            prices: PricesOf { zstd: Prices::zstd(&tables), deflate: Prices::deflate_fixed() },
            tables,
            history: History::new(limits.history_bytes_max),
            parser: Parser::default(),
            prepared: VecDeque::new(),
            one: Candidates::default(),
            had: Had::default(),
            coverage: Coverage::default(),
            templates: Templates::default(),
            alone: Alone::default(),
            room: Room::default(),
            distances: Distances::new(),
            text: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Takes in an event's body (the value of `d`) that several connections may get, in the order in which they get
    /// theirs. None if it is too long to be shared: then its messages are written alone.
    ///
    /// # Panics
    /// If `name` has more than [`NAME_BYTES_MAX`] bytes.
    pub fn push(&mut self, scope: Scope, name: &'static str, body: &[u8]) -> Option<TextId> {
        assert!(name.len() <= NAME_BYTES_MAX, "{name} is no event's name");
        self.text.clear();
        let (before, after) = around(self.form);
        for piece in [before, body, after] {
            self.text.extend_from_slice(piece);
        }
        let id = self.history.push(scope, name, &self.text, span_of(self.form, name, self.text.len()))?;
        self.counters.texts_total += 1;
        let mut prepared = if self.prepared.len() >= PREPARED_MAX { self.prepared.pop_front() } else { None }
            .unwrap_or_else(|| Prepared {
                id,
                candidates: Candidates::default(),
                templates: SmallVec::new(),
                zstd: Vec::new(),
                deflate: Vec::new(),
                begun: Begun::default(),
            });
        prepared.id = id;
        prepared.zstd.clear();
        prepared.deflate.clear();
        prepared.begun.clear();
        self.find_templates(id, &mut prepared);
        prepared.candidates.find(&mut self.history, &self.coverage, &self.templates, id);
        self.prepared.push_back(prepared);
        Some(id)
    }

    /// Texts of the same name: the newest that nearly all recipients have, or if there is none, some that each may have.
    fn find_templates(&mut self, id: TextId, prepared: &mut Prepared) {
        prepared.templates.clear();
        let Some(text) = self.history.text(id) else { return };
        let covers = |source: &Text| text.is_for_who_got(source, &self.coverage);
        let all = || self.history.named(text.name).skip(1);
        match all().find(|id| self.history.text(*id).is_some_and(covers)) {
            Some(common) => self.templates.fill(&self.history, std::iter::once(common)),
            None => {
                self.templates.fill(&self.history, all());
                prepared.templates.extend_from_slice(self.templates.ids());
            }
        }
    }

    fn prepared_index(&self, id: TextId) -> Option<usize> {
        let first = self.prepared.front()?.id;
        let index = id.checked_sub(first)? as usize;
        self.prepared.get(index).filter(|prepared| prepared.id == id).map(|_| index)
    }

    /// Asks memory for what [`Matcher::zstd`] will look at when the newest text is written to this stream: told some
    /// connections ahead, nothing is waited for then. The stream's own struct is read.
    #[inline]
    pub fn warm_zstd(&self, stream: &ZstdStream) {
        self.warm(&stream.track, |prepared| &prepared.zstd, |program| program.sources());
    }

    /// As [`Matcher::warm_zstd`], for [`Matcher::deflate`].
    #[inline]
    pub fn warm_deflate(&self, stream: &DeflateStream) {
        self.warm(&stream.track, |prepared| &prepared.deflate, |program| program.sources());
    }

    #[inline]
    fn warm<P>(
        &self,
        track: &Track,
        programs: impl FnOnce(&Prepared) -> &Programs<P>,
        sources: impl FnOnce(&P) -> &Sources,
    ) {
        let Some(prepared) = self.prepared.back() else { return };
        track.prefetch();
        let programs = programs(prepared);
        // That of most connections of about its age, if it cannot be told which it will be.
        let likely = nearly(programs, track.age(), None).unwrap_or(0);
        if let Some(made) = programs.get(likely) {
            sources(&made.program).prefetch(track);
        }
    }

    /// Appends the message with the text `id` under `seq` to a zstd stream: it fills exactly one WebSocket message.
    ///
    /// # Errors
    /// [`Forgotten`], and nothing was written: write it alone.
    #[inline]
    pub fn zstd(&mut self, stream: &mut ZstdStream, id: TextId, seq: u64, out: &mut Vec<u8>) -> Result<(), Forgotten> {
        let begun = if stream.has_dictionary() { self.begun(stream, id) } else { None };
        self.write::<Zstd>(&mut stream.track, &mut stream.state, begun, (id, seq), out)
    }

    /// Which of the text's dictionaries the stream may refer to; it is looked through for the text now if it was not before.
    #[cold]
    fn begun(&mut self, stream: &ZstdStream, id: TextId) -> Option<usize> {
        let index = self.prepared_index(id)?;
        let text = self.history.bytes(self.history.text(id)?);
        let Prepared { begun, candidates, .. } = &mut self.prepared[index];
        begun.find_or_make(stream.dictionary()?, candidates, text)
    }

    /// As [`Matcher::zstd`], for a stream of deflate.
    ///
    /// # Errors
    /// [`Forgotten`], and nothing was written: write it alone.
    #[inline]
    pub fn deflate(
        &mut self,
        stream: &mut DeflateStream,
        id: TextId,
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Forgotten> {
        self.write::<Deflate>(&mut stream.track, &mut stream.state, None, (id, seq), out)
    }

    #[inline]
    fn write<F: Format>(
        &mut self,
        track: &mut Track,
        state: &mut F::State,
        begun: Option<usize>,
        (id, seq): (TextId, u64),
        out: &mut Vec<u8>,
    ) -> Result<(), Forgotten> {
        let index = self.prepared_index(id).ok_or(Forgotten).inspect_err(|_| self.counters.late_total += 1)?;
        let text = self.history.text(id).ok_or(Forgotten)?;
        let (name, text_bytes) = (text.name, text.len());
        let is_for_few = self.coverage.is_for_few(text.expected);
        let window = F::window(state);
        let (mut head, tail) = match self.form {
            Form::Json => (Head::json(name, seq), Tail::NONE),
            Form::Etf => (Head::NONE, Tail::etf(name, seq)),
        };
        let position = track.position().wrapping_add(head.len() as u32);
        // An offset says how far before the byte it is for, so up to a text's length more than the distance of the texts.
        let reach = window.saturating_sub(text_bytes as u32);
        let oldest_here = track.oldest(position, reach, self.history.spans());
        let newest = track.newest(position);
        track.number(seq, position);
        let Shelf { candidates, dictionary, templates, programs } = F::programs(&mut self.prepared[index], begun);
        let dictionary = dictionary.map(|dictionary| (dictionary, dictionary.distance(position)));
        let dictionary_distance = dictionary.map_or(0, |(_, distance)| distance);
        let (tables, distances, spans) = (&self.tables, &mut self.distances, self.history.spans());
        let mut workshop = Workshop {
            history: &self.history,
            prices: F::prices(&self.prices),
            coverage: &self.coverage,
            parser: &mut self.parser,
            one: &mut self.one,
            had: &mut self.had,
            counters: &mut self.counters,
            id,
            candidates,
            dictionary,
            templates,
            is_for_few,
            window,
            oldest_here,
            track,
        };
        let chosen = workshop.choose(
            programs,
            |program| F::sources(program).locate(track, spans, position, window, dictionary_distance, distances),
            |parsed| F::prepare(&parsed, tables),
        );
        self.counters.written_total += 1;
        let program = &programs[chosen].program;
        if self.form == Form::Json {
            if let Some(distance) = F::head_distance(program, distances) {
                head.copy_from(track, distance, position, window);
            } else if let Some((id, distance, digits)) = newest
                && let Some(other) = self.history.text(id)
            {
                let changed = track.changed_digits(distance, position, digits);
                head.copy_from_other(name, EarlierHead { name: other.name, distance, digits }, changed, window);
            }
        }
        F::write(program, state, tables, distances, (&head, tail.bytes()), &mut self.room, out);
        track.advance(head.len());
        track.remember(id, position, spans);
        if let Some(sample) = self.coverage.sample_of(&mut track.membership) {
            self.history.note_written(id, sample);
        }
        track.advance(text_bytes + tail.bytes().len());
        Ok(())
    }

    /// Appends a whole message that no other connection gets: it refers to itself, and to the stream's dictionary.
    pub fn zstd_alone(&mut self, stream: &mut ZstdStream, message: &[u8], out: &mut Vec<u8>) {
        self.counters.alone_total += 1;
        let (longest, window) = (ALONE_MATCH_BYTES_MAX, zstd::WINDOW_BYTES as usize);
        let copies = if stream.has_dictionary()
            && let Some(dictionary) = stream.dictionary()
        {
            let before = InFront { dictionary, position: stream.track.position() as usize };
            self.alone.find_behind(&before, message, longest, window)
        } else {
            self.alone.find(message, longest, window)
        };
        zstd::alone::write(&mut stream.state, &self.tables, &mut self.room, message, copies, out);
        stream.track.advance(message.len());
    }

    /// Appends a whole message that no other connection gets.
    pub fn deflate_alone(&mut self, stream: &mut DeflateStream, message: &[u8], out: &mut Vec<u8>) {
        self.counters.alone_total += 1;
        let (longest, window) = (deflate::MATCH_BYTES_MAX as usize, stream.state.window() as usize);
        let copies = self.alone.find(message, longest, window);
        deflate::alone::write(&mut stream.state, message, copies, out);
        stream.track.advance(message.len());
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Heap it holds, the parses of the newest texts aside.
    pub fn heap_bytes(&self) -> usize {
        self.history.heap_bytes() + self.alone.heap_bytes() + self.room.heap_bytes()
    }
}
