//! Streams of `codec.streams = "auto"`: a library context first, and shared-match in the same stream once that pays.
//!
//! Owns        the streams and their moves. Which streams move is the node's own decision (`ContextBudget`).
//! Invariants  the node is fully loaded: a second of `ContextBudget` is a second of this thread's CPU time, so contexts
//!             take at most their default share of it. Contexts hold at most `CONTEXTS_BYTES_MAX`.

use super::crowd::body_of;
use super::mode::{Mode, Reader};
use super::shared::matcher;
use crate::sched::thread_cpu;
use anyhow::{Context as _, Result};
use guildhall_codec::{ContextPool, DispatchFrame, Encoding, Framing, StreamCompressor, StreamDecompressor};
use guildhall_lab::scope_of;
use guildhall_partition::{ContextBudget, MeanAudience, TIMED_ONE_IN};
use guildhall_shared_match::{BodyId, Container, DeflateStream, Matcher, ZSTD_WINDOW_LOG, ZstdStream};
use guildhall_stdx::Instant;
use guildhall_traffic::Event;

/// What contexts may hold on a node of the bench.
const CONTEXTS_BYTES_MAX: u64 = 2 << 30;
const WINDOW_BITS: u8 = 15;
/// As in a partition: bodies with so few recipients do not enter the history while a context writes them.
const ALONE_MAX: u32 = 2;
/// Contexts of moved streams that are released per event, as a partition does per flush.
const RELEASED_PER_EVENT: usize = 16;

/// See the module.
pub struct Auto {
    matcher: Matcher,
    encoding: Encoding,
    is_zlib: bool,
    contexts: ContextPool,
    budget: ContextBudget,
    streams: Vec<Stream>,
    left: Vec<StreamCompressor>,
    /// Of the event, once it has entered the history.
    body: Option<BodyId>,
    has_entered: bool,
    is_published: bool,
    audience: u32,
    written_total: u64,
    events_total: u64,
}

struct Stream {
    /// None once it has moved.
    context: Option<StreamCompressor>,
    shared: Shared,
    mean: MeanAudience,
    /// The context wrote to it. A partition's has always stored HELLO.
    has_begun: bool,
}

enum Shared {
    Zstd(ZstdStream),
    Deflate(DeflateStream),
}

impl Shared {
    /// A stream without a context from its beginning on.
    fn start(is_zlib: bool) -> Self {
        match is_zlib {
            true => Self::Deflate(DeflateStream::new(Container::Zlib, WINDOW_BITS)),
            false => Self::Zstd(ZstdStream::default()),
        }
    }
}

fn now() -> Instant {
    Instant::default().after_ms(thread_cpu().as_millis() as u64)
}

impl Auto {
    /// Streams of zlib, or of zstd, on a node that is fully loaded and has `CONTEXTS_BYTES_MAX` for contexts.
    pub fn new(is_zlib: bool, encoding: Encoding) -> Self {
        let auto = Self::unlimited(is_zlib, encoding);
        auto.contexts.set_movable_bytes_max(CONTEXTS_BYTES_MAX);
        Self { budget: ContextBudget::default(), ..auto }
    }

    /// Streams that move for no lack of memory or CPU time.
    pub fn unlimited(is_zlib: bool, encoding: Encoding) -> Self {
        let contexts = ContextPool::default();
        contexts.set_movable_bytes_max(u64::MAX);
        let mut budget = ContextBudget::default();
        // Estimated times of one thread may sum up to more than its time.
        budget.set_cpu_percent(u8::MAX);
        Self {
            matcher: matcher(encoding),
            encoding,
            is_zlib,
            contexts,
            budget,
            streams: Vec::new(),
            left: Vec::new(),
            body: None,
            has_entered: false,
            is_published: false,
            audience: 0,
            written_total: 0,
            events_total: 0,
        }
    }

    /// Streams that have not left their context.
    pub fn contexts_count(&self) -> usize {
        self.streams.iter().filter(|stream| stream.context.is_some()).count()
    }

    /// Releases the contexts of all streams that have moved. Returns their number.
    pub fn release_all(&mut self) -> usize {
        std::mem::take(&mut self.left).len()
    }

    /// The event's body enters the history.
    fn enter(&mut self, event: &Event) {
        if !std::mem::replace(&mut self.has_entered, true) {
            let body = body_of(event, self.encoding);
            self.body = self.matcher.push(scope_of(event), self.audience, event.name, body);
        }
    }

    /// Appends a message by the connection's context. False: it has none, or leaves it before this message.
    fn write_by_context(&mut self, conn: usize, message: &[u8], seq: u64, out: &mut Vec<u8>) -> Result<bool> {
        let stream = &mut self.streams[conn];
        let Some(context) = &mut stream.context else { return Ok(false) };
        let is_moving = self.is_published && self.budget.on_event(&mut stream.mean, self.audience).is_some();
        let lacks_room = || context.memory_bytes() == 0 && !self.contexts.has_movable_room();
        if is_moving || lacks_room() || !context.open()? {
            self.left.extend(stream.context.take());
            if !stream.has_begun {
                stream.shared = Shared::start(self.is_zlib);
            }
            return Ok(false);
        }
        self.written_total += 1;
        let timed_from = self.written_total.is_multiple_of(TIMED_ONE_IN).then(thread_cpu);
        context.compress(&[message], out)?;
        stream.has_begun = true;
        match (&mut stream.shared, self.body) {
            (Shared::Zstd(stream), Some(body)) => self.matcher.follow_zstd(stream, body, seq, message.len()),
            (Shared::Deflate(stream), Some(body)) => self.matcher.follow_deflate(stream, body, seq, message.len()),
            (Shared::Zstd(stream), None) => stream.follow(message.len()),
            (Shared::Deflate(stream), None) => stream.follow(message.len()),
        }
        if let Some(from) = timed_from {
            self.budget.took((thread_cpu() - from).as_nanos() as u64);
        }
        Ok(true)
    }
}

impl Mode for Auto {
    fn prepare(&mut self, event: &Event, recipients: usize, _: &mut DispatchFrame) -> Result<()> {
        self.left.truncate(self.left.len().saturating_sub(RELEASED_PER_EVENT));
        // A partition has the time of its turn; here it is a system call.
        self.events_total += 1;
        if self.events_total.is_multiple_of(TIMED_ONE_IN) {
            self.budget.adjust(now());
        }
        self.audience = recipients as u32;
        (self.body, self.has_entered) = (None, event.is_private());
        self.is_published = !event.is_private();
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        let (context, shared) = match self.is_zlib {
            true => {
                let window_bits = self.contexts.params().zlib.window_bits;
                let stream = DeflateStream::continued(Container::Zlib, window_bits);
                (self.contexts.zlib_movable(), Shared::Deflate(stream))
            }
            false => (self.contexts.zstd_movable(ZSTD_WINDOW_LOG), Shared::Zstd(ZstdStream::continued())),
        };
        self.streams.push(Stream { context: Some(context), shared, mean: MeanAudience::default(), has_begun: false });
        self.matcher.set_connections(self.streams.len());
        Ok(())
    }

    fn warm(&self, _: Option<usize>, next: Option<usize>) {
        match next.filter(|_| self.body.is_some()).map(|next| &self.streams[next]) {
            Some(Stream { context: None, shared: Shared::Zstd(stream), .. }) => stream.prefetch(),
            Some(Stream { context: None, shared: Shared::Deflate(stream), .. }) => stream.prefetch(),
            _ => {}
        }
    }

    fn deliver(
        &mut self,
        conn: usize,
        event: &Event,
        frame: &mut DispatchFrame,
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let has_context = self.streams[conn].context.is_some();
        if !has_context || self.audience > ALONE_MAX {
            self.enter(event);
        }
        if has_context && self.write_by_context(conn, frame.write_for(seq, Framing::None), seq, out)? {
            return Ok(());
        }
        match (&mut self.streams[conn].shared, self.body) {
            (Shared::Zstd(stream), Some(body)) => self.matcher.zstd(stream, body, seq, out),
            (Shared::Deflate(stream), Some(body)) => self.matcher.deflate(stream, body, seq, out),
            (Shared::Zstd(stream), None) => {
                self.matcher.zstd_standalone(stream, frame.write_for(seq, Framing::None), out);
                return Ok(());
            }
            (Shared::Deflate(stream), None) => {
                self.matcher.deflate_standalone(stream, frame.write_for(seq, Framing::None), out);
                return Ok(());
            }
        }
        .ok()
        .context("the newest body is kept")
    }

    fn state_bytes(&self, conn: usize) -> usize {
        let Stream { context, shared, .. } = &self.streams[conn];
        let heap = match shared {
            Shared::Zstd(stream) => stream.heap_bytes(),
            Shared::Deflate(stream) => stream.heap_bytes(),
        };
        size_of::<Stream>() + heap + context.as_ref().map_or(0, StreamCompressor::memory_bytes)
    }

    fn shared_bytes(&self) -> usize {
        self.matcher.heap_bytes()
    }

    fn reader(&self) -> Result<Reader> {
        Ok(Reader::Stream(match self.is_zlib {
            true => StreamDecompressor::zlib()?,
            false => StreamDecompressor::zstd(ZSTD_WINDOW_LOG)?,
        }))
    }
}
