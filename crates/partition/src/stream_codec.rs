//! Stream codec: compressed streams of connections, by library contexts or by shared-match.
//!
//! Owns        `Compressor`, a connection's own stream of either kind, and the partition's matchers, with their
//!             compression histories, one per encoding.
//! Invariants  S1 the number of a body belongs to this partition's matcher: a connection that comes from another
//!             partition forgets the numbers of bodies that it received there. S2 a dispatch that was made for one
//!             session is compressed alone and never stored for others. S3 a checked connection sends no message that
//!             its client could not decode. S4 a stream that may move knows the position of every message that its
//!             context has written.
//! Not here    the streams themselves (shared-match), which connections get them (`PartitionConfig::stream_codec`).

use crate::{
    conn::{Compression, ConnParams},
    context_budget::{ContextBudget, MeanAudience, Why},
    self_check::{Check, Checked, SelfCheck},
    stream_account::{StreamAccount, Writer},
    trial::ArmStream,
};
use guildhall_codec::{
    CodecError, ContextPool, Dictionaries, Dictionary, DictionaryId, Encoding, Framing, StreamCompressor, ZlibParams,
};
use guildhall_guild_protocol::{
    AccessChange, Clearance, Event, Redaction, SEVERAL_CHANNELS, StreamView, Visibility, visibility_class,
};
use guildhall_model::{ChannelId, GuildId};
use guildhall_session::{Dispatch, Session};
use guildhall_shared_match::{
    self as shared_match, BodyId, Container, Counters, DeflateStream, Domain, Form, Limits, Matcher, Scope, Tables,
    ZSTD_WINDOW_LOG, ZstdStream,
};
use guildhall_stdx::Instant;
use std::{
    collections::{BTreeSet, HashMap},
    num::NonZeroU32,
    sync::{Arc, PoisonError, RwLock},
};

/// Stream codec: compression of `zlib-stream`, `zstd-stream` and permessage-deflate with context takeover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamCodec {
    /// A library context per connection.
    #[default]
    PerConnection,
    /// One search for all. With a dictionary that is too large for it: as `PerConnection`.
    SharedMatch {
        /// Most bytes of events that later ones may refer to, per partition and encoding. The indexes take up to the
        /// same amount.
        history_bytes_max: usize,
        /// One of this many connections has every message decoded before it is sent. A mismatch closes the connection,
        /// is counted, and turns shared-match off for new connections of the partition. None: no connection is checked.
        check_one_in: Option<NonZeroU32>,
    },
    /// A library context first, and shared-match in the same stream once the connection's events have many recipients
    /// or contexts take too much. With a dictionary: as `SharedMatch`.
    Auto {
        /// As in `SharedMatch`.
        history_bytes_max: usize,
        /// As in `SharedMatch`.
        check_one_in: Option<NonZeroU32>,
        /// Share of the partition's time that contexts may take, in percent; past it streams move to shared-match.
        cpu_percent: u8,
    },
}

impl StreamCodec {
    /// `history_bytes_max` and `check_one_in`, if any stream is one of shared-match.
    fn shared(self) -> Option<(usize, Option<NonZeroU32>)> {
        match self {
            Self::PerConnection => None,
            Self::SharedMatch { history_bytes_max, check_one_in }
            | Self::Auto { history_bytes_max, check_one_in, .. } => Some((history_bytes_max, check_one_in)),
        }
    }
}

const WINDOW_BITS_MAX: u8 = 15;
/// Narrowed channels that are remembered per guild. Past it those with the lowest ids are forgotten: relays that lag
/// behind the change then share bodies of these channels until they have caught up.
const NARROWED_MAX: usize = 1_024;

/// Bodies with so few recipients do not enter the history while a context writes them: entering takes as long as a
/// third of a compression.
const ALONE_MAX: u32 = 2;

/// Stream compressor of one connection.
#[derive(Debug)]
pub enum Compressor {
    /// A library context.
    Library(LibraryStream),
    /// A stream of shared-match.
    Shared(SharedStream),
}

/// A stream that a library context writes.
#[derive(Debug)]
pub struct LibraryStream {
    context: StreamCompressor,
    account: StreamAccount,
    /// The same stream as shared-match would continue it; none if it cannot move.
    successor: Option<Successor>,
}

#[derive(Debug)]
struct Successor {
    stream: SharedStream,
    audience: MeanAudience,
}

/// A stream of shared-match.
#[derive(Debug)]
pub struct SharedStream {
    format: Format,
    check: Option<Box<Check>>,
    account: StreamAccount,
    /// Why it left its context; none if it never had one.
    moved: Option<Why>,
}

#[derive(Debug)]
enum Format {
    Zstd(ZstdStream),
    Deflate(DeflateStream),
}

impl Compressor {
    /// Heap memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Library(stream) => stream.context.memory_bytes() + self.heap_bytes(),
            Self::Shared(stream) => stream.memory_bytes(),
        }
    }

    /// Heap memory in bytes, without the slot of a library context.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Library(stream) => stream.successor.as_ref().map_or(0, |successor| successor.stream.memory_bytes()),
            Self::Shared(stream) => stream.memory_bytes(),
        }
    }

    /// Prefetches memory that [`Matchers::write`] reads when this connection gets the newest event.
    pub fn prefetch(&self) {
        match self {
            Self::Shared(SharedStream { format: Format::Zstd(stream), .. }) => stream.prefetch(),
            Self::Shared(SharedStream { format: Format::Deflate(stream), .. }) => stream.prefetch(),
            Self::Library(_) => {}
        }
    }

    /// Whether its events are searched once for all recipients, now or once it has moved.
    pub fn shares_search(&self) -> bool {
        match self {
            Self::Library(stream) => stream.successor.is_some(),
            Self::Shared(_) => true,
        }
    }

    /// Window of its reader, as the exponent of 2.
    pub fn window_log(&self) -> u8 {
        match self {
            Self::Library(stream) => stream.context.window_log(),
            Self::Shared(SharedStream { format: Format::Zstd(stream), .. }) => stream.window_log(),
            Self::Shared(SharedStream { format: Format::Deflate(stream), .. }) => stream.window_bits(),
        }
    }

    /// Whether a library context writes it.
    pub fn is_library(&self) -> bool {
        matches!(self, Self::Library(_))
    }

    /// What writes it now.
    pub fn writer(&self) -> Writer {
        match self {
            Self::Library(stream) if stream.context.is_upgraded() => Writer::LargerContext,
            Self::Library(_) => Writer::Context,
            Self::Shared(_) => Writer::SharedMatch,
        }
    }

    /// What its writer costs, and why it is this one.
    pub fn view(&self, now: Instant) -> StreamView {
        let (account, moved) = match self {
            Self::Library(stream) => (stream.account, None),
            Self::Shared(stream) => (stream.account, stream.moved),
        };
        StreamView {
            moved: moved.map(Why::name),
            since_ms: now.ms_since(account.since),
            memory_bytes: self.memory_bytes() as u64,
            timed_total: account.timed.into(),
            timed_ns_total: account.timed_ns,
        }
    }

    /// Compressions that were timed, and their nanoseconds.
    pub fn timed(&self) -> (u32, u64) {
        let account = match self {
            Self::Library(stream) => &stream.account,
            Self::Shared(stream) => &stream.account,
        };
        (account.timed, account.timed_ns)
    }

    /// A compression was timed.
    pub fn took(&mut self, ns: u64) {
        match self {
            Self::Library(stream) => stream.account.took(ns),
            Self::Shared(stream) => stream.account.took(ns),
        }
    }

    /// Whether it is a larger context (ADR 16).
    pub fn is_upgraded(&self) -> bool {
        matches!(self, Self::Library(stream) if stream.context.is_upgraded())
    }

    /// Takes over a stream that another partition has written so far (S1).
    pub fn arrive(&mut self) {
        match self {
            Self::Library(stream) => {
                if let Some(successor) = &mut stream.successor {
                    successor.stream.leave_matcher();
                }
            }
            Self::Shared(stream) => stream.leave_matcher(),
        }
    }

    /// Appends a message uncompressed, in the stream's format, without creating a context.
    ///
    /// # Errors
    /// The library's, or [`CodecError::Corrupt`] if the check fails.
    pub fn store(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let start = out.len();
        match self {
            Self::Library(LibraryStream { context, successor, .. }) => {
                context.store(message, out)?;
                let Some(Successor { stream, .. }) = successor else { return Ok(()) };
                stream.follow(message.len());
                stream.check.as_mut().map_or(Ok(()), |check| check.read(&out[start..], message))
            }
            Self::Shared(SharedStream { format, check, .. }) => {
                match format {
                    Format::Zstd(stream) => stream.store(message, out),
                    Format::Deflate(stream) => stream.store(message, out),
                }
                check.as_mut().map_or(Ok(()), |check| check.read(&out[start..], message))
            }
        }
    }
}

impl LibraryStream {
    /// A stream that its context writes to its end.
    pub fn new(context: StreamCompressor, now: Instant) -> Self {
        Self { context, account: StreamAccount::begin(now), successor: None }
    }

    /// Whether its context has no room: shared-match writes it, where it can.
    fn lacks_room(&mut self) -> Result<bool, CodecError> {
        Ok(self.successor.is_some() && !self.context.open()?)
    }
}

impl SharedStream {
    fn leave_matcher(&mut self) {
        match &mut self.format {
            Format::Zstd(stream) => stream.leave_matcher(),
            Format::Deflate(stream) => stream.leave_matcher(),
        }
    }

    /// A library context wrote a message of `bytes` bytes to the stream.
    fn follow(&mut self, bytes: usize) {
        match &mut self.format {
            Format::Zstd(stream) => stream.follow(bytes),
            Format::Deflate(stream) => stream.follow(bytes),
        }
    }

    fn memory_bytes(&self) -> usize {
        let stream = match &self.format {
            Format::Zstd(stream) => stream.heap_bytes(),
            Format::Deflate(stream) => stream.heap_bytes(),
        };
        stream + self.check.as_ref().map_or(0, |check| check.memory_bytes())
    }
}

/// Dictionaries of a node, prepared for shared-match. All partitions share them: clones have the same ones.
#[derive(Clone, Debug, Default)]
pub struct SharedDictionaries(Arc<RwLock<Vec<PreparedDictionary>>>);

#[derive(Clone, Debug)]
struct PreparedDictionary {
    known: Arc<Dictionary>,
    shared: Arc<shared_match::Dictionary>,
}

impl SharedDictionaries {
    /// Replaces them by those that are not too large. Preparing takes about 20 ms for each that is new, on the
    /// caller's thread: partitions go on.
    pub fn set(&self, dictionaries: &Dictionaries) {
        let prepare = |known: &guildhall_codec::KnownDictionary| {
            let known = known.dictionary.clone();
            if let Some(prepared) = self.find(known.id()) {
                return Some(prepared);
            }
            let shared = shared_match::Dictionary::new(known.number(), known.content()).ok()?;
            Some(PreparedDictionary { known, shared: Arc::new(shared) })
        };
        let prepared = dictionaries.iter().filter_map(prepare).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = prepared;
    }

    fn find(&self, id: DictionaryId) -> Option<PreparedDictionary> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|known| known.known.id() == id).cloned()
    }
}

/// Matchers of a partition, each created for the first message that needs it.
#[derive(Debug, Default)]
pub struct Matchers {
    limits: Limits,
    connections_count: usize,
    by_encoding: [Option<Box<Matcher>>; 2],
    /// Channels that every member could view and that some cannot any more, while their guild has relays here. Relays
    /// may lag: an event that one of them holds for public is compressed without shared state.
    narrowed: HashMap<GuildId, BTreeSet<ChannelId>>,
    self_check: SelfCheck,
    pub context_budget: ContextBudget,
    /// Time of the turn.
    pub now: Instant,
}

impl Matchers {
    /// Without matchers: each is made for the first message that needs it.
    pub fn new(streams: StreamCodec) -> Self {
        let mut matchers = Self::default();
        matchers.take_settings(streams);
        matchers
    }

    /// Changes the stream codec of new connections. Existing connections keep theirs, and existing matchers their
    /// memory limit.
    pub fn take_settings(&mut self, streams: StreamCodec) {
        if let Some((history_bytes_max, check_one_in)) = streams.shared() {
            self.limits.history_bytes_max = history_bytes_max;
            self.self_check.set_one_in(check_one_in);
        }
        if let StreamCodec::Auto { cpu_percent, .. } = streams {
            self.context_budget.set_cpu_percent(cpu_percent);
        }
    }

    /// Sets the number of connections, with any compression: histories are sized by it.
    pub fn set_connections(&mut self, count: usize) {
        self.connections_count = count;
        self.by_encoding.iter_mut().flatten().for_each(|matcher| matcher.set_connections(count));
    }

    /// The stream that a connection requested. None if there is no such stream, or if a check has failed.
    pub fn stream(&mut self, params: ConnParams, dictionaries: &SharedDictionaries) -> Option<Compressor> {
        if self.self_check.has_failed() {
            return None;
        }
        let mut dictionary = None;
        let (format, container) = match params.compression {
            Compression::Zstd => (Format::Zstd(ZstdStream::default()), None),
            Compression::ZstdDict(id) => {
                let PreparedDictionary { known, shared } = dictionaries.find(id)?;
                dictionary = Some(known);
                (Format::Zstd(ZstdStream::with_dictionary(shared)), None)
            }
            Compression::Zlib => {
                (Format::Deflate(DeflateStream::new(Container::Zlib, WINDOW_BITS_MAX)), Some(Container::Zlib))
            }
            Compression::Deflate(params) if !params.server_no_context_takeover => {
                let stream = DeflateStream::new(Container::PerMessage, params.server_window_bits);
                (Format::Deflate(stream), Some(Container::PerMessage))
            }
            Compression::None | Compression::Deflate(_) => return None,
        };
        let check = self.self_check.begin(container, dictionary.as_deref());
        let account = StreamAccount::begin(self.now);
        Some(Compressor::Shared(SharedStream { format, check, account, moved: None }))
    }

    /// The stream that a connection requested, written by a library context until it moves. None if it cannot begin so:
    /// there is no room, it has a dictionary or no stream, or a check has failed.
    pub fn movable_stream(
        &mut self,
        params: ConnParams,
        contexts: &ContextPool,
        deflate: ZlibParams,
    ) -> Option<Compressor> {
        if self.self_check.has_failed() || !self.context_budget.has_cpu() || !contexts.has_movable_room() {
            return None;
        }
        let (context, format, container) = match params.compression {
            Compression::Zstd => (contexts.zstd_movable(ZSTD_WINDOW_LOG), Format::Zstd(ZstdStream::continued()), None),
            Compression::Zlib => {
                let stream = DeflateStream::continued(Container::Zlib, contexts.params().zlib.window_bits);
                (contexts.zlib_movable(), Format::Deflate(stream), Some(Container::Zlib))
            }
            Compression::Deflate(params) if !params.server_no_context_takeover => {
                let context = StreamCompressor::deflate(deflate, params.server_window_bits).ok()?;
                let stream = DeflateStream::continued(Container::PerMessage, params.server_window_bits);
                (context, Format::Deflate(stream), Some(Container::PerMessage))
            }
            Compression::None | Compression::Deflate(_) | Compression::ZstdDict(_) => return None,
        };
        // The reader of a check takes windows as large as those of shared-match.
        let is_readable = container.is_some() || contexts.params().zstd.window_log < ZSTD_WINDOW_LOG;
        let check = if is_readable { self.self_check.begin(container, None) } else { None };
        let account = StreamAccount::begin(self.now);
        let stream = SharedStream { format, check, account, moved: None };
        let successor = Some(Successor { stream, audience: MeanAudience::default() });
        Some(Compressor::Library(LibraryStream { context, account, successor }))
    }

    /// Goes on with a zstd stream that another process has written, at the end of a message. None: its window is
    /// smaller than a block.
    pub fn continued_zstd(&mut self, window_log: u8) -> Option<Compressor> {
        Some(self.continued(Format::Zstd(ZstdStream::continued_within(window_log)?)))
    }

    /// The same for `zlib-stream`.
    pub fn continued_zlib(&mut self, window_bits: u8) -> Compressor {
        self.continued(Format::Deflate(DeflateStream::continued(Container::Zlib, window_bits)))
    }

    /// The same for permessage-deflate with context takeover.
    pub fn continued_deflate(&mut self, window_bits: u8) -> Compressor {
        self.continued(Format::Deflate(DeflateStream::continued(Container::PerMessage, window_bits)))
    }

    /// As `continued_zlib`, by a context until the stream moves. None: there is no room for one, or the contexts have a
    /// larger window.
    pub fn continued_movable_zlib(&mut self, contexts: &ContextPool, window_bits: u8) -> Option<Compressor> {
        if !self.context_budget.has_cpu() || !contexts.has_movable_room() {
            return None;
        }
        let context = contexts.zlib_continued_movable(window_bits)?;
        let account = StreamAccount::begin(self.now);
        let format = Format::Deflate(DeflateStream::continued(Container::Zlib, window_bits));
        let stream = SharedStream { format, check: None, account, moved: None };
        let successor = Some(Successor { stream, audience: MeanAudience::default() });
        Some(Compressor::Library(LibraryStream { context, account, successor }))
    }

    /// Its reader has read a stream from which a self-check could not begin.
    fn continued(&self, format: Format) -> Compressor {
        Compressor::Shared(SharedStream { format, check: None, account: StreamAccount::begin(self.now), moved: None })
    }

    /// Shared-match goes on with a stream that has a successor.
    fn move_to_shared(&mut self, compressor: &mut Compressor, why: Why) {
        let Compressor::Library(LibraryStream { successor, .. }) = compressor else { return };
        let Some(Successor { mut stream, .. }) = successor.take() else { return };
        stream.moved = Some(why);
        stream.account = StreamAccount::begin(self.now);
        if let Compressor::Library(left) = std::mem::replace(compressor, Compressor::Shared(stream)) {
            self.context_budget.release(left.context);
        }
    }

    /// Whether the arm of an experiment could write this stream from IDENTIFY on.
    pub fn can_write(&self, compressor: &Compressor, arm: &ArmStream) -> bool {
        match (arm, compressor) {
            (ArmStream::Node, _) | (ArmStream::Context, Compressor::Library(_)) => true,
            (ArmStream::Zlib(contexts), Compressor::Library(LibraryStream { context, .. })) => {
                matches!(context, StreamCompressor::Zlib(_)) && context.may_take(contexts)
            }
            (ArmStream::Zstd(contexts), Compressor::Library(LibraryStream { context, .. })) => {
                matches!(context, StreamCompressor::Zstd(_)) && context.may_take(contexts)
            }
            (ArmStream::SharedMatch, compressor) => compressor.shares_search() && !self.self_check.has_failed(),
            (ArmStream::Context | ArmStream::Zlib(_) | ArmStream::Zstd(_), Compressor::Shared(_)) => false,
        }
    }

    /// The arm writes the stream from now on. `can_write` has admitted it.
    pub fn take_arm(&mut self, compressor: &mut Compressor, arm: &ArmStream) {
        match (arm, compressor) {
            (ArmStream::SharedMatch, compressor) => self.move_to_shared(compressor, Why::Experiment),
            (ArmStream::Context, Compressor::Library(stream)) => stream.successor = None,
            (ArmStream::Zlib(contexts) | ArmStream::Zstd(contexts), Compressor::Library(stream)) => {
                if stream.context.set_contexts(contexts) {
                    stream.successor = None;
                }
            }
            (ArmStream::Node, _) | (_, Compressor::Shared(_)) => {}
        }
    }

    /// Moves a stream for lack of memory. Returns the bytes that its context held; 0: it stays as it is.
    pub fn move_for_memory(&mut self, compressor: &mut Compressor) -> usize {
        let Compressor::Library(LibraryStream { context, successor: Some(_), .. }) = compressor else { return 0 };
        let bytes = context.memory_bytes();
        if bytes > 0 {
            let why = self.context_budget.count(Why::Memory);
            self.move_to_shared(compressor, why);
        }
        bytes
    }

    /// Access rules of a guild's channels changed. Texts of a channel that some members can no longer view leave the
    /// guild's public domains; restricted domains whose rules changed end.
    pub fn access_changed(&mut self, guild_id: GuildId, change: &AccessChange) {
        let guild = guild_id.get();
        for (channel_id, key) in &change.narrowed {
            let narrowed = self.narrowed.entry(guild_id).or_default();
            narrowed.insert(*channel_id);
            if narrowed.len() > NARROWED_MAX {
                narrowed.pop_first();
            }
            for matcher in self.by_encoding.iter_mut().flatten() {
                // Without a key the channel is deleted, and its domain with it.
                matcher.restrict(guild, channel_id.get(), key.unwrap_or(channel_id.get()));
                if key.is_none() {
                    forget_restricted(matcher, guild, channel_id.get());
                }
            }
        }
        if !change.narrowed.is_empty() {
            // Bodies about several channels may be about one of these.
            for matcher in self.by_encoding.iter_mut().flatten() {
                matcher.restrict(guild, SEVERAL_CHANNELS, SEVERAL_CHANNELS);
                forget_restricted(matcher, guild, SEVERAL_CHANNELS);
            }
        }
        if let Some(narrowed) = self.narrowed.get_mut(&guild_id) {
            narrowed.retain(|channel_id| !change.opened.contains(channel_id));
            if narrowed.is_empty() {
                self.narrowed.remove(&guild_id);
            }
        }
        for matcher in self.by_encoding.iter_mut().flatten() {
            change.ended.iter().for_each(|key| forget_restricted(matcher, guild, *key));
        }
    }

    /// Handles the end of a guild's last relay.
    pub fn forget_guild(&mut self, guild_id: GuildId) {
        self.narrowed.remove(&guild_id);
        self.by_encoding.iter_mut().flatten().for_each(|matcher| matcher.forget_guild(guild_id.get()));
    }

    /// Handles a change of a direct message's recipients.
    pub fn forget_direct(&mut self, channel_id: ChannelId) {
        let domain = Domain::Direct { channel: channel_id.get() };
        self.by_encoding.iter_mut().flatten().for_each(|matcher| matcher.forget(domain));
    }

    /// Whether another relay here, which is ahead in the guild's stream, knows that not every member may view the
    /// event's channel.
    fn is_outdated(&self, event: &Event, visibility: Visibility) -> bool {
        if self.narrowed.is_empty() || !matches!(visibility, Visibility::Public(_)) {
            return false;
        }
        let class = visibility_class(event);
        let narrowed = event.guild_id.and_then(|guild_id| self.narrowed.get(&guild_id));
        narrowed.is_some_and(|narrowed| class == SEVERAL_CHANNELS || narrowed.contains(&ChannelId::new(class)))
    }

    /// Their counters, and their heap in bytes.
    pub fn counters(&self) -> (Counters, usize) {
        let mut sum = Counters::default();
        let mut heap_bytes = 0;
        for matcher in self.by_encoding.iter().flatten() {
            sum += matcher.counters();
            heap_bytes += matcher.heap_bytes();
        }
        (sum, heap_bytes)
    }

    /// Results of the self-check.
    pub fn checked(&self) -> Checked {
        self.self_check.results()
    }

    /// Corrupts one shared message after `after` others, as a fault in the codec would.
    pub fn spoil(&mut self, after: u32) {
        self.self_check.spoil_after(after);
    }

    /// Fixes the search effort, whatever the audience.
    pub fn set_effort(&mut self, effort: Option<shared_match::Effort>) {
        self.limits.effort = effort;
    }

    fn of(&mut self, encoding: Encoding) -> &mut Matcher {
        let form = match encoding {
            Encoding::Json => Form::Json,
            Encoding::Etf => Form::Etf,
        };
        let (limits, connections_count) = (self.limits, self.connections_count);
        self.by_encoding[encoding as usize].get_or_insert_with(|| {
            let mut matcher = Box::new(Matcher::new(form, Tables::built_in(form), limits));
            matcher.set_connections(connections_count);
            matcher
        })
    }

    /// Appends a compressed message outside the sequence.
    ///
    /// # Errors
    /// The library's, or [`CodecError::Corrupt`] if the check fails. Then nothing of it may be sent.
    pub fn compress(
        &mut self,
        compressor: &mut Compressor,
        encoding: Encoding,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let start = out.len();
        if let Compressor::Library(library) = compressor {
            if !library.lacks_room()? {
                return self.write_by_context(library, encoding, (message, None), out);
            }
            let why = self.context_budget.count(Why::Memory);
            self.move_to_shared(compressor, why);
        }
        let Compressor::Shared(stream) = compressor else { return Err(CodecError::Broken) };
        match &mut stream.format {
            Format::Zstd(stream) => self.of(encoding).zstd_standalone(stream, message, out),
            Format::Deflate(stream) => self.of(encoding).deflate_standalone(stream, message, out),
        }
        self.check(stream, &out[start..], || message)
    }

    /// Appends a message that a context compresses; with the body and the seq that it has, if others get the body.
    fn write_by_context(
        &mut self,
        library: &mut LibraryStream,
        encoding: Encoding,
        (message, shared): (&[u8], Option<(BodyId, u64)>),
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let start = out.len();
        library.context.compress(&[message], out)?;
        let Some(Successor { stream, .. }) = &mut library.successor else { return Ok(()) };
        match (&mut stream.format, shared) {
            (Format::Zstd(stream), Some((id, seq))) => self.of(encoding).follow_zstd(stream, id, seq, message.len()),
            (Format::Deflate(stream), Some((id, seq))) => {
                self.of(encoding).follow_deflate(stream, id, seq, message.len());
            }
            (_, None) => stream.follow(message.len()),
        }
        self.check(stream, &out[start..], || message)
    }

    /// Why a stream leaves its context before it is sent a dispatch; none: it stays.
    fn why_to_move(
        &mut self,
        library: &mut LibraryStream,
        dispatch: &Dispatch,
        audience: u32,
    ) -> Result<Option<Why>, CodecError> {
        if library.lacks_room()? {
            return Ok(Some(self.context_budget.count(Why::Memory)));
        }
        let Some(successor) = library.successor.as_mut().filter(|_| dispatch.published_event().is_some()) else {
            return Ok(None);
        };
        Ok(self.context_budget.on_event(&mut successor.audience, audience))
    }

    /// Appends a compressed dispatch under `seq`.
    ///
    /// # Errors
    /// As [`Matchers::compress`].
    pub fn write(
        &mut self,
        compressor: &mut Compressor,
        (session, turn): (&Session, u64),
        (dispatch, redaction): (&Dispatch, Redaction),
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let (start, encoding) = (out.len(), session.encoding);
        let audience = dispatch.audience(encoding, redaction);
        let is_alone = compressor.is_library() && audience <= ALONE_MAX;
        let text = match compressor.shares_search() && !is_alone {
            true => self.shared_body((session, turn), dispatch, redaction),
            false => None,
        };
        if let Compressor::Library(library) = compressor {
            let Some(why) = self.why_to_move(library, dispatch, audience)? else {
                let mut frame = dispatch.frame(encoding, redaction);
                let message = frame.write_for(seq, Framing::None);
                return self.write_by_context(library, encoding, (message, text.map(|text| (text, seq))), out);
            };
            self.move_to_shared(compressor, why);
        }
        if let Compressor::Shared(stream) = compressor
            && let Some(text) = text
        {
            let matcher = self.of(encoding);
            let written = match &mut stream.format {
                Format::Zstd(stream) => matcher.zstd(stream, text, seq, out),
                Format::Deflate(stream) => matcher.deflate(stream, text, seq, out),
            };
            if written.is_ok() {
                self.self_check.spoil(&mut out[start..]);
                let mut frame = dispatch.frame(encoding, redaction);
                return self.check(stream, &out[start..], || frame.write_for(seq, Framing::None));
            }
        }
        let mut frame = dispatch.frame(encoding, redaction);
        self.compress(compressor, encoding, frame.write_for(seq, Framing::None), out)
    }

    /// On checked connections, decodes the message that is about to be sent and compares.
    #[inline]
    fn check<'m>(
        &mut self,
        stream: &mut SharedStream,
        wire: &[u8],
        message: impl FnOnce() -> &'m [u8],
    ) -> Result<(), CodecError> {
        match &mut stream.check {
            Some(check) => self.self_check.read(check, wire, message()),
            None => Ok(()),
        }
    }

    /// The body of an event whose recipients may share the search. The first message with it adds it to the history.
    /// None: this recipient's message is written without shared state.
    fn shared_body(
        &mut self,
        (session, turn): (&Session, u64),
        dispatch: &Dispatch,
        redaction: Redaction,
    ) -> Option<BodyId> {
        let (event, encoding, sharing) = (dispatch.published_event()?, session.encoding, dispatch.sharing());
        let visibility = sharing.visibility.in_form(event, redaction);
        if !visibility.covers(event, session) || self.is_outdated(event, visibility) {
            return None;
        }
        let known = dispatch.text(encoding, redaction);
        if let Some(text) = known.get() {
            return text.id();
        }
        if sharing.turn != turn {
            return None;
        }
        let (scope, name) = (scope_of(event, visibility)?, event.static_name()?);
        let frame = dispatch.frame(encoding, redaction);
        let text = self.of(encoding).push(scope, dispatch.audience(encoding, redaction), name, frame.body());
        known.set(Some(text.into()));
        text
    }
}

/// The domain of an event's body, and the earlier bodies that its recipients probably have. None: it has
/// no shared state.
fn scope_of(event: &Event, visibility: Visibility) -> Option<Scope> {
    let guild = event.guild_id.map(GuildId::get);
    let domain = match visibility {
        Visibility::Public(clearance) => Domain::Public { guild: guild?, view: clearance as u8 },
        Visibility::Restricted { key, clearance } => {
            Domain::Restricted { guild: guild?, channel: key, view: clearance as u8 }
        }
        Visibility::Direct(channel_id) => Domain::Direct { channel: channel_id.get() },
        Visibility::Alone => return None,
    };
    Some(Scope { domain, class: visibility_class(event) })
}

fn forget_restricted(matcher: &mut Matcher, guild: u64, key: u64) {
    for clearance in Clearance::ALL {
        matcher.forget(Domain::Restricted { guild, channel: key, view: clearance as u8 });
    }
}
