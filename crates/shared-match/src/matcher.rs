//! Matcher: searches once per body, writes per connection.
//!
//! Owns        the history, the parses of the newest bodies, and the trained tables. One per thread and form.
//! Doors       `push` once per body; `zstd` and `deflate` once per connection, some after its stream's `prefetch`;
//!             `zstd_standalone` and `deflate_standalone` for what one connection gets and no other; `follow_zstd` and
//!             `follow_deflate` for what a library context wrote.
//! Limits      `Limits`; parses of the `PARSES_MAX` newest bodies, at most `selection::GROUPS_MAX` groups per body and
//!             format, and as many again for each of `dictionary_parses::DICTIONARIES_MAX` dictionaries. An older body
//!             is written as if it were this connection's alone.

use crate::{
    counters::Counters,
    deflate::{self, DeflateStream, symbols::Symbols},
    entropy::tables::{Form, Tables},
    format::{Deflate, Format, FormatPrices, ParseSet, Zstd},
    history::BodyId,
    history::{Domain, History, Scope, SearchDomains},
    limits::{Effort, Limits},
    parse::Parser,
    parse::cache::EntryParses,
    parse::dictionary_parses::DictionaryParses,
    parse::prices::{DeflatePrices, ZstdPrices},
    parse::selection::{NewParse, ParseSelector, Parsers, Probes, Target, shrink},
    search::dictionary::{BODY_BYTES_MAX as DICTIONARY_BODY_BYTES_MAX, Dictionary, DictionaryPrefix},
    search::finder::{MatchFinder, SearchTask, Similar},
    search::standalone::{ResolvedSequence, StandaloneMatcher},
    stream::envelope::{EarlierHead, Head, NAME_BYTES_MAX, Tail, around, digits_of, message_size},
    stream::references::{Offsets, StreamCursor},
    stream::state::StreamState,
    zstd::{self, ZstdStream, standalone::BlockScratch},
};
use std::collections::VecDeque;

/// Bodies whose parses are kept.
const PARSES_MAX: usize = 128;
/// Of these, bodies that keep all parses. Recipients of older ones mostly have been written to.
const WHOLE_MAX: usize = 8;
/// Longest match in a zstd message that is written alone.
const STANDALONE_MATCH_BYTES_MAX: usize = 32 << 10;

/// Each connection is sent this payload every 41 seconds or so, the same to the byte.
const fn heartbeat_ack(form: Form) -> &'static [u8] {
    match form {
        Form::Json => br#"{"t":null,"s":null,"op":11,"d":null}"#,
        Form::Etf => b"\x83t\0\0\0\x04d\0\x01dd\0\x03nild\0\x02opa\x0bd\0\x01sd\0\x03nild\0\x01td\0\x03nil",
    }
}

/// Copies as much as possible of a head from an earlier one: from the head of a body of the same name at the distance
/// `alike`, or else from the head of the `newest` message (body, distance and seq).
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
        is_copied = head.copy_from_other(EarlierHead { name: history.name(other), distance, digits }, changed, window);
    }
    if !is_copied {
        head.spell_out();
    }
}

/// A body is not kept any more: its message has to be written alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted;

/// See the module.
#[derive(Debug)]
pub struct Matcher {
    form: Form,
    limits: Limits,
    tables: Tables,
    prices: FormatPrices,
    history: History,
    parses: VecDeque<EntryParses>,
    counters: Counters,
    scratch: Scratch,
}

/// Message to write to one stream.
#[derive(Clone, Copy)]
struct Message {
    /// Of the body's parses.
    index: usize,
    id: BodyId,
    seq: u64,
}

/// Memory that is used again by every call, and holds nothing between two of them.
#[derive(Debug)]
struct Scratch {
    finder: MatchFinder,
    parser: Parser,
    standalone: StandaloneMatcher,
    block: BlockScratch,
    symbols: Symbols,
    offsets: Offsets,
    head: Head,
    tail: Tail,
    /// A body in front of its search, or a whole message.
    bytes: Vec<u8>,
    sequences: Vec<ResolvedSequence>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            finder: MatchFinder::default(),
            parser: Parser::default(),
            standalone: StandaloneMatcher::default(),
            block: BlockScratch::default(),
            symbols: Symbols::default(),
            offsets: Offsets::default(),
            head: Head::NONE,
            tail: Tail::NONE,
            bytes: Vec::new(),
            sequences: Vec::new(),
        }
    }
}

impl Scratch {
    fn heap_bytes(&self) -> usize {
        self.finder.heap_bytes() + self.standalone.heap_bytes() + self.block.heap_bytes() + self.symbols.heap_bytes()
    }
}

impl Matcher {
    /// Nothing is known yet.
    pub fn new(form: Form, tables: Tables, limits: Limits) -> Self {
        Self {
            form,
            limits,
            prices: FormatPrices { zstd: ZstdPrices::new(&tables), deflate: DeflatePrices::fixed() },
            tables,
            history: History::new(limits.history_bytes_max),
            parses: VecDeque::new(),
            counters: Counters::default(),
            scratch: Scratch::default(),
        }
    }

    /// Adds an event's body (the value of `d`), in the order in which connections are sent events. `audience` estimates
    /// how many connections will be sent it in this form on a compressed stream; 0 and 1 mean a single one. None if the
    /// body is too long to be shared: then its messages are written alone.
    ///
    /// # Panics
    /// If `name` has more than 64 bytes (`NAME_BYTES_MAX`).
    pub fn push(&mut self, scope: Scope, audience: u32, name: &'static str, body: &[u8]) -> Option<BodyId> {
        assert!(name.len() <= NAME_BYTES_MAX, "{name} is no event's name");
        let bytes = &mut self.scratch.bytes;
        bytes.clear();
        let (before, after) = around(self.form);
        for piece in [before, body, after] {
            bytes.extend_from_slice(piece);
        }
        let size = message_size(self.form, name, bytes.len());
        let effort = self.limits.effort.unwrap_or(Effort::of(scope.domain, audience));
        let id = self.history.push(scope, name, bytes, size)?;
        self.counters.bodies_total += 1;
        self.scratch.finder.expect(id);
        if effort == Effort::Greedy {
            let slot = self.history.entry(id)?.slot;
            self.history.domain_mut(slot).index_sparsely();
        }
        let mut parses =
            if self.parses.len() >= PARSES_MAX { self.parses.pop_front() } else { None }.unwrap_or_else(|| {
                EntryParses {
                    id,
                    effort,
                    is_prepared: false,
                    searched: SearchDomains::default(),
                    probes: Probes::default(),
                    audience,
                    zstd: Vec::new(),
                    deflate: Vec::new(),
                    with_dictionary: DictionaryParses::default(),
                }
            });
        (parses.id, parses.effort, parses.audience, parses.is_prepared) = (id, effort, audience, false);
        parses.zstd.clear();
        parses.deflate.clear();
        parses.with_dictionary.clear();
        if let Some(written) = self.parses.len().checked_sub(WHOLE_MAX) {
            let EntryParses { zstd, deflate, .. } = &mut self.parses[written];
            shrink(zstd);
            shrink(deflate);
        }
        self.parses.push_back(parses);
        Some(id)
    }

    /// Chooses where a body is searched, and indexes the bodies before it there.
    fn prepare(&mut self, index: usize) -> Result<(), Evicted> {
        let parses = &mut self.parses[index];
        if parses.is_prepared {
            return Ok(());
        }
        let body = self.history.entry(parses.id).ok_or(Evicted)?;
        parses.searched = self.history.searched(body);
        parses.probes.choose(&self.history, body, &parses.searched, parses.effort);
        parses.is_prepared = true;
        self.history.index_up_to(&parses.searched, parses.id);
        Ok(())
    }

    /// How many connections there are: the history holds 40 KiB for each, at least 12 MiB, within
    /// `Limits::history_bytes_max`. Without a call it holds as much as the limit allows.
    pub fn set_connections(&mut self, count: usize) {
        self.history.set_connections(count);
    }

    /// Some members of the guild may not view a channel or thread any more: bodies of that class move from the public
    /// domains of the guild to the restricted ones of `key`. They stay there when the channel becomes public again.
    pub fn restrict(&mut self, guild: u64, channel: u64, key: u64) {
        self.scratch.finder.forget_domain_matches();
        self.history.restrict(guild, channel, key);
    }

    /// Forgets the bodies of a domain: its channel was deleted.
    pub fn forget(&mut self, domain: Domain) {
        self.scratch.finder.forget_domain_matches();
        self.history.forget(domain);
    }

    /// Forgets the bodies of all domains of a guild that has left the partition.
    pub fn forget_guild(&mut self, guild: u64) {
        self.scratch.finder.forget_domain_matches();
        self.history.forget_guild(guild);
    }

    #[inline]
    fn parses_index(&self, id: BodyId) -> Option<usize> {
        let newest = self.parses.len().checked_sub(1)?;
        if self.parses[newest].id == id {
            return Some(newest);
        }
        self.parses.binary_search_by_key(&id, |parses| parses.id).ok()
    }

    /// Appends the message with the body `id` under `seq` to a zstd stream: it fills exactly one WebSocket message.
    ///
    /// # Errors
    /// [`Evicted`], and nothing was written: write it alone.
    pub fn zstd(&mut self, stream: &mut ZstdStream, id: BodyId, seq: u64, out: &mut Vec<u8>) -> Result<(), Evicted> {
        let has_dictionary = stream.has_dictionary();
        let index = self.parses_index(id).ok_or(Evicted).inspect_err(|_| self.counters.late_total += 1)?;
        let message = Message { index, id, seq };
        self.prepare(index)?;
        if self.parses[index].effort == Effort::Greedy {
            let dictionary = stream.dictionary.as_deref();
            return self.write_own::<Zstd>(&mut stream.state, &mut stream.decoder, dictionary, message, out);
        }
        let with_dictionary = if has_dictionary { self.with_dictionary(stream, id) } else { None };
        self.write::<Zstd>(&mut stream.state, &mut stream.decoder, with_dictionary, message, out)
    }

    /// Which of the body's dictionaries the stream may refer to; it is searched for the body now if it was not before.
    #[cold]
    fn with_dictionary(&mut self, stream: &ZstdStream, id: BodyId) -> Option<usize> {
        let index = self.parses_index(id)?;
        let body = self.history.bytes(self.history.entry(id)?);
        self.parses[index].with_dictionary.find_or_make(stream.dictionary()?, body)
    }

    /// As [`Matcher::zstd`], for a stream of deflate.
    ///
    /// # Errors
    /// [`Evicted`], and nothing was written: write it alone.
    pub fn deflate(
        &mut self,
        stream: &mut DeflateStream,
        id: BodyId,
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Evicted> {
        let index = self.parses_index(id).ok_or(Evicted).inspect_err(|_| self.counters.late_total += 1)?;
        let message = Message { index, id, seq };
        self.prepare(index)?;
        if self.parses[index].effort == Effort::Greedy {
            return self.write_own::<Deflate>(&mut stream.state, &mut stream.decoder, None, message, out);
        }
        self.write::<Deflate>(&mut stream.state, &mut stream.decoder, None, message, out)
    }

    /// Notes that a library context wrote the message with the body `id` under `seq`, of `bytes` bytes, to this stream:
    /// the stream can refer to the body once the matcher writes it.
    pub fn follow_zstd(&self, stream: &mut ZstdStream, id: BodyId, seq: u64, bytes: usize) {
        self.follow(&mut stream.state, id, seq, bytes);
    }

    /// As [`Matcher::follow_zstd`], for a stream of deflate.
    pub fn follow_deflate(&self, stream: &mut DeflateStream, id: BodyId, seq: u64, bytes: usize) {
        self.follow(&mut stream.state, id, seq, bytes);
    }

    fn follow(&self, state: &mut StreamState, id: BodyId, seq: u64, bytes: usize) {
        let Some(body) = self.history.entry(id) else { return state.advance(bytes) };
        let before = match self.form {
            Form::Json => bytes.saturating_sub(body.len()),
            Form::Etf => 0,
        };
        let position = state.position().wrapping_add(before as u32);
        state.number(seq, position);
        state.advance(before);
        state.remember(id, position, self.history.sizes());
        state.note_name(self.history.name(body), id);
        state.advance(bytes - before);
    }

    /// Writes a body to a connection with a parse of its own.
    fn write_own<F: Format>(
        &mut self,
        state: &mut StreamState,
        decoder: &mut F::Decoder,
        dictionary: Option<&Dictionary>,
        Message { index, id, seq }: Message,
        out: &mut Vec<u8>,
    ) -> Result<(), Evicted> {
        let history = &self.history;
        let Scratch { finder, block, symbols, head, tail, bytes: message, sequences, .. } = &mut self.scratch;
        let body = history.entry(id).ok_or(Evicted)?;
        let (name, bytes, sizes) = (history.name(body), history.bytes(body), history.sizes());
        match self.form {
            Form::Json => head.begin_json(name, seq),
            Form::Etf => tail.begin_etf(name, seq),
        }
        let window = F::window(decoder);
        let position = state.position().wrapping_add(head.len() as u32);
        // An offset counts from the byte it is for, so it exceeds the distance of the bodies by up to a body's length.
        let reach = window.saturating_sub(bytes.len() as u32);
        let newest = state.newest(position);
        state.number(seq, position);
        let reached = |id| state.distance(id, position, sizes).filter(|distance| *distance <= reach);
        let is_named = |other: &BodyId| history.entry(*other).is_some_and(|other| other.name == body.name);
        let mut similar = Similar::default();
        let limits = F::FAST.with(Effort::Greedy, window);
        let named = state.newest_named(name).into_iter().filter(is_named).take(limits.similar_max);
        similar.iter_mut().zip(named).for_each(|(similar, id)| *similar = Some(id));
        let dictionary = dictionary.filter(|_| bytes.len() <= DICTIONARY_BODY_BYTES_MAX);
        let dictionary = dictionary.map(|dictionary| (dictionary, dictionary.distance(position)));
        let searched = &self.parses[index].searched;
        let task = SearchTask { history, body, searched, similar, dictionary };
        sequences.clear();
        let first = finder.resolved(task, limits, reached, sequences);
        if self.form == Form::Json {
            let alike = first.filter(is_named).or(similar[0]).and_then(reached);
            copy_head(head, state, (alike, newest), history, (position, window));
        }
        self.counters.parses_total += 1;
        self.counters.written_total += 1;
        head.put_in_front(sequences);
        message.clear();
        head.append_to(message);
        message.extend_from_slice(bytes);
        message.extend_from_slice(tail.bytes());
        F::write_sequences((decoder, &self.tables), (block, symbols), message, sequences, out);
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
        with_dictionary: Option<usize>,
        Message { index, id, seq }: Message,
        out: &mut Vec<u8>,
    ) -> Result<(), Evicted> {
        let body = self.history.entry(id).ok_or(Evicted)?;
        let (name, body_bytes) = (self.history.name(body), body.len());
        let effort = self.parses[index].effort;
        let window = F::window(decoder);
        let Scratch { finder, parser, block, offsets, head, tail, .. } = &mut self.scratch;
        match self.form {
            Form::Json => head.begin_json(name, seq),
            Form::Etf => tail.begin_etf(name, seq),
        }
        let position = state.position().wrapping_add(head.len() as u32);
        // An offset counts from the byte it is for, so it exceeds the distance of the bodies by up to a body's length.
        let reach = window.saturating_sub(body_bytes as u32);
        let oldest_reached = state.oldest(position, reach, self.history.sizes());
        let newest = state.newest(position);
        state.number(seq, position);
        let probes = std::mem::take(&mut self.parses[index].probes);
        let searched = std::mem::take(&mut self.parses[index].searched);
        let audience = self.parses[index].audience;
        let ParseSet { dictionary, groups } = F::groups(&mut self.parses[index], with_dictionary);
        let dictionary = dictionary.map(|dictionary| (dictionary, dictionary.distance(position)));
        let dictionary_distance = dictionary.map_or(0, |(_, distance)| distance);
        let (tables, sizes) = (&self.tables, self.history.sizes());
        let cursor = StreamCursor { state, sizes, position, window, dictionary: dictionary_distance };
        let mut resolve = |encoded: &F::EncodedParse| F::references(encoded).resolve(cursor, offsets);
        let choice = ParseSelector {
            history: &self.history,
            body,
            probes: &probes,
            searched: &searched,
            audience,
            dictionary,
            limits: F::FAST.with(effort, window),
            effort,
            prices: F::prices(&self.prices),
            target: Target { id, oldest_reached, cursor },
        };
        let prepare = |parsed: NewParse<'_>| F::prepare(&parsed, tables);
        let parsers = Parsers { finder, optimal: parser, counters: &mut self.counters };
        let encoded = choice.get_or_make(parsers, groups, &mut resolve, prepare);
        self.counters.written_total += 1;
        if self.form == Form::Json {
            let alike = F::references(encoded).head_distance(offsets);
            copy_head(head, state, (alike, newest), &self.history, (position, window));
        }
        F::write(encoded, decoder, tables, offsets, (head, tail.bytes()), block, out);
        state.advance(head.len());
        state.remember(id, position, sizes);
        state.note_name(name, id);
        state.advance(body_bytes + tail.bytes().len());
        (self.parses[index].probes, self.parses[index].searched) = (probes, searched);
        Ok(())
    }

    /// The heartbeat ACK as a copy of the one that the stream had before. None: it is none, or none is in reach.
    fn ack(&self, state: &mut StreamState, message: &[u8], window: u32) -> Option<[ResolvedSequence; 1]> {
        if message != heartbeat_ack(self.form) {
            return None;
        }
        let distance = state.note_ack().filter(|distance| *distance <= window)?;
        Some([ResolvedSequence { literals: 0, length: message.len() as u32, distance }])
    }

    /// Appends a whole message that no other connection gets: it refers to itself, and to the stream's dictionary; a
    /// heartbeat ACK to the one before.
    pub fn zstd_standalone(&mut self, stream: &mut ZstdStream, message: &[u8], out: &mut Vec<u8>) {
        self.counters.standalone_total += 1;
        let ack = self.ack(&mut stream.state, message, stream.decoder.window());
        let (longest, window) = (STANDALONE_MATCH_BYTES_MAX, stream.decoder.window() as usize);
        let has_dictionary = stream.has_dictionary();
        let sequences = if let Some(ack) = &ack {
            ack
        } else if has_dictionary && let Some(dictionary) = stream.dictionary() {
            let before = DictionaryPrefix { dictionary, position: stream.state.position() as usize };
            self.scratch.standalone.find_behind(&before, message, longest, window)
        } else {
            self.scratch.standalone.find(message, longest, window)
        };
        zstd::standalone::write(&mut stream.decoder, &self.tables, &mut self.scratch.block, message, sequences, out);
        stream.state.advance(message.len());
    }

    /// Appends a whole message that no other connection gets.
    pub fn deflate_standalone(&mut self, stream: &mut DeflateStream, message: &[u8], out: &mut Vec<u8>) {
        self.counters.standalone_total += 1;
        let ack = self.ack(&mut stream.state, message, stream.decoder.window());
        let (longest, window) = (deflate::MATCH_BYTES_MAX as usize, stream.decoder.window() as usize);
        let sequences = match &ack {
            Some(ack) => ack,
            None => self.scratch.standalone.find(message, longest, window),
        };
        deflate::standalone::write(&mut stream.decoder, &mut self.scratch.symbols, message, sequences, out);
        stream.state.advance(message.len());
    }

    /// Totals since the matcher was created.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Heap it holds, the parses of the newest bodies aside.
    pub fn heap_bytes(&self) -> usize {
        self.history.heap_bytes() + self.scratch.heap_bytes()
    }
}
