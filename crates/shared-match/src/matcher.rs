//! Matcher: searches once per body, writes per connection.
//!
//! Owns        the history, the parses of the newest bodies, and the trained tables. One per thread and form.
//! Doors       `push` once per body; `zstd` and `deflate` once per connection, some after its stream's `prefetch`;
//!             `zstd_alone` and `deflate_alone` for what one connection gets and no other.
//! Limits      `Limits`; parses of the `PREPARED_MAX` newest bodies, at most `fast_choice::PROGRAMS_MAX` per body and format, and as many
//!             again for each of `begun::DICTIONARIES_MAX` dictionaries. An older body is written as if it were this connection's alone.

use crate::{
    deflate::{self, DeflateStream, symbols::Symbols},
    entropy::tables::{Form, Tables},
    format::{Deflate, Format, PricesOf, Shelf, Zstd},
    history::{Domain, History, Scope, SearchDomains},
    parse::Parser,
    parse::cache::Prepared,
    parse::dictionary_parses::Begun,
    parse::prices::{DeflatePrices, ZstdPrices},
    parse::selection::{FastChoice, Parsed, Parsers, Probes, Served, groups_max, shrink},
    search::dictionary::{BODY_BYTES_MAX as DICTIONARY_BODY_BYTES_MAX, Dictionary, InFront},
    search::finder::{FastParser, FastTask, Similar},
    search::standalone::{Alone, Copy},
    stream::envelope::{EarlierHead, Head, NAME_BYTES_MAX, Tail, around, digits_of, message_size},
    stream::position_ring::BodyId,
    stream::references::{Offsets, StreamCursor},
    stream::state::StreamState,
    zstd::{self, ZstdStream, standalone::Room},
};
use std::collections::VecDeque;

/// Bodies whose parses are kept.
const PREPARED_MAX: usize = 128;
/// Of these, bodies that keep all parses. Recipients of older ones mostly have been written to.
const WHOLE_MAX: usize = 8;
/// Most recipients of a body that is parsed with each effort. With more, the next one costs less than contexts would.
const GREEDY_AUDIENCE_MAX: u32 = 4;
const LAZY_AUDIENCE_MAX: u32 = 32;
/// Longest match in a zstd message that is written alone.
const ALONE_MATCH_BYTES_MAX: usize = 32 << 10;

/// Copies what it can of a head: from the head of a body of the same name that stands `alike` before this one's, or else from that of
/// the newest message: its body, the distance, and its seq.
fn copy_head(
    head: &mut Head,
    state: &StreamState,
    (alike, newest): (Option<u32>, Option<(BodyId, u32, u64)>),
    history: &History,
    (position, window): (u32, u32),
) {
    let mut is_copied = alike.is_some_and(|distance| head.copy_from(state, distance, position, window));
    if !is_copied
        && let Some((id, distance, seq)) = newest
        && let Some(other) = history.entry(id)
    {
        let digits = digits_of(seq);
        let changed = state.changed_digits(distance, position, digits);
        is_copied = head.copy_from_other(EarlierHead { name: other.name, distance, digits }, changed, window);
    }
    if !is_copied {
        head.spell_out();
    }
}

/// What it may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of bodies that later ones can refer to, over all domains, however many connections there are; the indexes take up to
    /// as much again. See [`Matcher::set_connections`].
    pub history_bytes_max: usize,
    /// Always this effort, whatever the audience: for tests and benches.
    pub effort: Option<Effort>,
}

/// How much a body's search may cost, by the number of its recipients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// For a handful of recipients, and direct messages: each recipient has a parse of its own, which takes the first match that is
    /// found. The recipients share the index of the domain, and nothing else.
    Greedy,
    /// For a dozen: a match may wait for a better one.
    Lazy,
    /// For dozens and more: the cheapest parse under real prices of all that the search finds.
    Optimal,
}

impl Default for Limits {
    fn default() -> Self {
        Self { history_bytes_max: 8 << 20, effort: None }
    }
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bodies searched.
    pub bodies_total: u64,
    /// Parses made of them.
    pub parses_total: u64,
    /// Bodies written to connections.
    pub written_total: u64,
    /// Of these, not with the parse that was tried first: a source was missing.
    pub fallbacks_total: u64,
    /// Of these, with no shared parse: too many newer bodies have come since.
    pub late_total: u64,
    /// Messages that one connection got and no other.
    pub alone_total: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.bodies_total += other.bodies_total;
        self.parses_total += other.parses_total;
        self.written_total += other.written_total;
        self.fallbacks_total += other.fallbacks_total;
        self.late_total += other.late_total;
        self.alone_total += other.alone_total;
    }
}

/// A body is not kept any more: its message has to be written alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten;

/// See the module.
#[derive(Debug)]
pub struct Matcher {
    form: Form,
    limits: Limits,
    tables: Tables,
    prices: PricesOf,
    history: History,
    parser: Parser,
    prepared: VecDeque<Prepared>,
    fast: FastParser,
    alone: Alone,
    room: Room,
    symbols: Symbols,
    distances: Offsets,
    head: Head,
    tail: Tail,
    body: Vec<u8>,
    copies: Vec<Copy>,
    counters: Counters,
}

impl Matcher {
    /// Nothing is known yet.
    pub fn new(form: Form, tables: Tables, limits: Limits) -> Self {
        Self {
            form,
            limits,
            prices: PricesOf { zstd: ZstdPrices::new(&tables), deflate: DeflatePrices::fixed() },
            tables,
            history: History::new(limits.history_bytes_max),
            parser: Parser::default(),
            prepared: VecDeque::new(),
            fast: FastParser::default(),
            alone: Alone::default(),
            room: Room::default(),
            symbols: Symbols::default(),
            distances: Offsets::default(),
            head: Head::NONE,
            tail: Tail::NONE,
            body: Vec::new(),
            copies: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Adds an event's body (the value of `d`), in the order in which connections are sent events. `audience` estimates how many
    /// connections will be sent it in this form on a compressed stream; 0 and 1 mean a single one. None if the body is too long to be
    /// shared: then its messages are written alone.
    ///
    /// # Panics
    /// If `name` has more than 64 bytes (`NAME_BYTES_MAX`).
    pub fn push(&mut self, scope: Scope, audience: u32, name: &'static str, body: &[u8]) -> Option<BodyId> {
        assert!(name.len() <= NAME_BYTES_MAX, "{name} is no event's name");
        self.body.clear();
        let (before, after) = around(self.form);
        for piece in [before, body, after] {
            self.body.extend_from_slice(piece);
        }
        let effort = self.effort(scope.domain, audience);
        let id = self.history.push(scope, name, &self.body, message_size(self.form, name, self.body.len()))?;
        self.counters.bodies_total += 1;
        if effort == Effort::Greedy {
            let slot = self.history.entry(id)?.slot;
            self.history.domain_mut(slot).index_sparsely();
        }
        let mut prepared = if self.prepared.len() >= PREPARED_MAX { self.prepared.pop_front() } else { None }
            .unwrap_or_else(|| Prepared {
                id,
                effort,
                searched: SearchDomains::default(),
                probes: Probes::default(),
                audience,
                zstd: Vec::new(),
                deflate: Vec::new(),
                begun: Begun::default(),
            });
        (prepared.id, prepared.effort, prepared.audience) = (id, effort, audience);
        prepared.zstd.clear();
        prepared.deflate.clear();
        prepared.begun.clear();
        let body = self.history.entry(id)?;
        prepared.searched = self.history.searched(body);
        prepared.probes.choose(&self.history, body, &prepared.searched, effort);
        self.history.catch_up_fast(&prepared.searched, id);
        if let Some(written) = self.prepared.len().checked_sub(WHOLE_MAX) {
            let Prepared { zstd, deflate, .. } = &mut self.prepared[written];
            shrink(zstd);
            shrink(deflate);
        }
        self.prepared.push_back(prepared);
        Some(id)
    }

    /// How many connections there are: the history holds 16 KiB for each, at least 4 MiB, within `Limits::history_bytes_max`. Without
    /// a call it holds as much as the limit allows.
    pub fn set_connections(&mut self, count: usize) {
        self.history.set_connections(count);
    }

    /// Not everybody in the guild may view a channel or thread any more: bodies of that class leave the public domains of the guild for
    /// the restricted ones of `key`. A channel that everybody may view again does not take its bodies back.
    pub fn restrict(&mut self, guild: u64, channel: u64, key: u64) {
        self.history.restrict(guild, channel, key);
    }

    /// Forgets the bodies of a domain: its channel was deleted.
    pub fn forget(&mut self, domain: Domain) {
        self.history.forget(domain);
    }

    /// Forgets the bodies of all domains of a guild that has left the partition.
    pub fn forget_guild(&mut self, guild: u64) {
        self.history.forget_guild(guild);
    }

    /// A search costs at most half of what contexts would for its recipients. A direct message is for itself.
    fn effort(&self, domain: Domain, audience: u32) -> Effort {
        self.limits.effort.unwrap_or(match (domain, audience) {
            (Domain::Direct { .. }, _) => Effort::Greedy,
            (_, ..=GREEDY_AUDIENCE_MAX) => Effort::Greedy,
            (_, ..=LAZY_AUDIENCE_MAX) => Effort::Lazy,
            _ => Effort::Optimal,
        })
    }

    #[inline]
    fn prepared_index(&self, id: BodyId) -> Option<usize> {
        let newest = self.prepared.len().checked_sub(1)?;
        if self.prepared[newest].id == id {
            return Some(newest);
        }
        self.prepared.binary_search_by_key(&id, |prepared| prepared.id).ok()
    }

    /// Appends the message with the body `id` under `seq` to a zstd stream: it fills exactly one WebSocket message.
    ///
    /// # Errors
    /// [`Forgotten`], and nothing was written: write it alone.
    pub fn zstd(&mut self, stream: &mut ZstdStream, id: BodyId, seq: u64, out: &mut Vec<u8>) -> Result<(), Forgotten> {
        let has_dictionary = stream.has_dictionary();
        let index = self.prepared_index(id).ok_or(Forgotten).inspect_err(|_| self.counters.late_total += 1)?;
        if self.prepared[index].effort == Effort::Greedy {
            let dictionary = stream.dictionary.as_deref();
            return self.write_own::<Zstd>(&mut stream.state, &mut stream.decoder, dictionary, (index, id, seq), out);
        }
        let begun = if has_dictionary { self.begun(stream, id) } else { None };
        self.write::<Zstd>(&mut stream.state, &mut stream.decoder, begun, (index, id, seq), out)
    }

    /// Which of the body's dictionaries the stream may refer to; it is looked through for the body now if it was not before.
    #[cold]
    fn begun(&mut self, stream: &ZstdStream, id: BodyId) -> Option<usize> {
        let index = self.prepared_index(id)?;
        let body = self.history.bytes(self.history.entry(id)?);
        self.prepared[index].begun.find_or_make(stream.dictionary()?, body)
    }

    /// As [`Matcher::zstd`], for a stream of deflate.
    ///
    /// # Errors
    /// [`Forgotten`], and nothing was written: write it alone.
    pub fn deflate(
        &mut self,
        stream: &mut DeflateStream,
        id: BodyId,
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Forgotten> {
        let index = self.prepared_index(id).ok_or(Forgotten).inspect_err(|_| self.counters.late_total += 1)?;
        if self.prepared[index].effort == Effort::Greedy {
            return self.write_own::<Deflate>(&mut stream.state, &mut stream.decoder, None, (index, id, seq), out);
        }
        self.write::<Deflate>(&mut stream.state, &mut stream.decoder, None, (index, id, seq), out)
    }

    /// Writes a body to a connection with a parse of its own.
    fn write_own<F: Format>(
        &mut self,
        state: &mut StreamState,
        decoder: &mut F::Decoder,
        dictionary: Option<&Dictionary>,
        (index, id, seq): (usize, BodyId, u64),
        out: &mut Vec<u8>,
    ) -> Result<(), Forgotten> {
        let (history, head, tail) = (&self.history, &mut self.head, &mut self.tail);
        let body = history.entry(id).ok_or(Forgotten)?;
        let (name, bytes, sizes) = (body.name, history.bytes(body), history.sizes());
        match self.form {
            Form::Json => head.begin_json(name, seq),
            Form::Etf => tail.begin_etf(name, seq),
        }
        let window = F::window(decoder);
        let position = state.position().wrapping_add(head.len() as u32);
        // An offset says how far before the byte it is for, so up to a body's length more than the distance of the bodies.
        let reach = window.saturating_sub(bytes.len() as u32);
        let newest = state.newest(position);
        state.number(seq, position);
        let reached = |id| state.distance(id, position, sizes).filter(|distance| *distance <= reach);
        let is_named = |other: &BodyId| history.entry(*other).is_some_and(|other| other.name == name);
        let mut similar = Similar::default();
        let limits = F::FAST.with(Effort::Greedy, window);
        let named = state.newest_named(name).into_iter().filter(is_named).take(limits.similar_max);
        similar.iter_mut().zip(named).for_each(|(similar, id)| *similar = Some(id));
        let dictionary = dictionary.filter(|_| bytes.len() <= DICTIONARY_BODY_BYTES_MAX);
        let dictionary = dictionary.map(|dictionary| (dictionary, dictionary.distance(position)));
        let searched = &self.prepared[index].searched;
        let task = FastTask { history, body, searched, similar, dictionary };
        self.copies.clear();
        let first = self.fast.copies(task, limits, reached, &mut self.copies);
        if self.form == Form::Json {
            let alike = first.filter(is_named).or(similar[0]).and_then(reached);
            copy_head(head, state, (alike, newest), history, (position, window));
        }
        self.counters.parses_total += 1;
        self.counters.written_total += 1;
        head.put_in_front(&mut self.copies);
        self.body.clear();
        head.append_to(&mut self.body);
        self.body.extend_from_slice(bytes);
        self.body.extend_from_slice(tail.bytes());
        F::write_copies((decoder, &self.tables), (&mut self.room, &mut self.symbols), &self.body, &self.copies, out);
        let after = bytes.len() + tail.bytes().len();
        state.advance(head.len());
        state.remember(id, position, sizes);
        state.note_name(name, id);
        state.advance(after);
        Ok(())
    }

    fn write<F: Format>(
        &mut self,
        state: &mut StreamState,
        decoder: &mut F::Decoder,
        begun: Option<usize>,
        (index, id, seq): (usize, BodyId, u64),
        out: &mut Vec<u8>,
    ) -> Result<(), Forgotten> {
        let body = self.history.entry(id).ok_or(Forgotten)?;
        let (name, body_bytes) = (body.name, body.len());
        let effort = self.prepared[index].effort;
        let window = F::window(decoder);
        let (head, tail) = (&mut self.head, &mut self.tail);
        match self.form {
            Form::Json => head.begin_json(name, seq),
            Form::Etf => tail.begin_etf(name, seq),
        }
        let position = state.position().wrapping_add(head.len() as u32);
        // An offset says how far before the byte it is for, so up to a body's length more than the distance of the bodies.
        let reach = window.saturating_sub(body_bytes as u32);
        let oldest_reached = state.oldest(position, reach, self.history.sizes());
        let newest = state.newest(position);
        state.number(seq, position);
        let probes = std::mem::take(&mut self.prepared[index].probes);
        let searched = std::mem::take(&mut self.prepared[index].searched);
        let groups_max = groups_max(self.prepared[index].audience);
        let Shelf { dictionary, programs } = F::programs(&mut self.prepared[index], begun);
        let dictionary = dictionary.map(|dictionary| (dictionary, dictionary.distance(position)));
        let dictionary_distance = dictionary.map_or(0, |(_, distance)| distance);
        let (tables, distances, sizes) = (&self.tables, &mut self.distances, self.history.sizes());
        let cursor = StreamCursor { state, sizes, position, window, dictionary: dictionary_distance };
        let mut resolve = |program: &F::Program| F::sources(program).resolve(cursor, distances);
        let choice = FastChoice {
            history: &self.history,
            body,
            probes: &probes,
            searched: &searched,
            groups_max,
            dictionary,
            limits: F::FAST.with(effort, window),
            effort,
            prices: F::prices(&self.prices),
            served: Served { id, oldest_reached, cursor },
        };
        let prepare = |parsed: Parsed<'_>| F::prepare(&parsed, tables);
        let parsers = Parsers { fast: &mut self.fast, optimal: &mut self.parser, counters: &mut self.counters };
        let program = choice.get_or_make(parsers, programs, &mut resolve, prepare);
        self.counters.written_total += 1;
        if self.form == Form::Json {
            let alike = F::sources(program).head_distance(distances);
            copy_head(head, state, (alike, newest), &self.history, (position, window));
        }
        F::write(program, decoder, tables, distances, (head, tail.bytes()), &mut self.room, out);
        state.advance(head.len());
        state.remember(id, position, sizes);
        state.note_name(name, id);
        state.advance(body_bytes + tail.bytes().len());
        (self.prepared[index].probes, self.prepared[index].searched) = (probes, searched);
        Ok(())
    }

    /// Appends a whole message that no other connection gets: it refers to itself, and to the stream's dictionary.
    pub fn zstd_alone(&mut self, stream: &mut ZstdStream, message: &[u8], out: &mut Vec<u8>) {
        self.counters.alone_total += 1;
        let (longest, window) = (ALONE_MATCH_BYTES_MAX, zstd::WINDOW_BYTES as usize);
        let copies = if stream.has_dictionary()
            && let Some(dictionary) = stream.dictionary()
        {
            let before = InFront { dictionary, position: stream.state.position() as usize };
            self.alone.find_behind(&before, message, longest, window)
        } else {
            self.alone.find(message, longest, window)
        };
        zstd::standalone::write(&mut stream.decoder, &self.tables, &mut self.room, message, copies, out);
        stream.state.advance(message.len());
    }

    /// Appends a whole message that no other connection gets.
    pub fn deflate_alone(&mut self, stream: &mut DeflateStream, message: &[u8], out: &mut Vec<u8>) {
        self.counters.alone_total += 1;
        let (longest, window) = (deflate::MATCH_BYTES_MAX as usize, stream.decoder.window() as usize);
        let copies = self.alone.find(message, longest, window);
        deflate::standalone::write(&mut stream.decoder, &mut self.symbols, message, copies, out);
        stream.state.advance(message.len());
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Heap it holds, the parses of the newest bodies aside.
    pub fn heap_bytes(&self) -> usize {
        self.history.heap_bytes() + self.alone.heap_bytes() + self.room.heap_bytes() + self.symbols.heap_bytes()
    }
}
