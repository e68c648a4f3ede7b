//! Shared-match on connections: who has such a stream, and how a dispatch gets onto it.
//!
//! Owns        `Compressor`, a connection's own stream of either kind, and the partition's matchers, one per encoding.
//! Invariants  S1 a text's number belongs to this partition's matcher: a connection that comes from another forgets what
//!             it was sent there. S2 what was made for one session is written alone and never kept for others.
//! Not here    the streams themselves (shared-match), which connections get them (`PartitionConfig::streams`).

use crate::conn::{Compression, ConnParams};
use guildhall_codec::{CodecError, Encoding, Framing, StreamCompressor};
use guildhall_relay::{Event, Gate, Redaction};
use guildhall_session::Dispatch;
use guildhall_shared_match::{
    Container, Counters, DeflateStream, Form, Limits, Matcher, Scope, Tables, TextId, ZstdStream,
};
use std::hash::{Hash, Hasher};

/// How `zlib-stream`, `zstd-stream` and permessage-deflate with context takeover are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// A library's context per connection.
    #[default]
    Classic,
    /// One search for all. With a dictionary: as `Classic`.
    SharedMatch {
        /// Bytes of events that later ones may refer to, per partition and encoding; the index takes nine times as much.
        history_bytes_max: usize,
    },
}

/// A connection's own stream.
#[derive(Debug)]
pub enum Compressor {
    /// By a library.
    Classic(StreamCompressor),
    /// `zstd-stream`, or
    SharedZstd(ZstdStream),
    /// a stream of deflate, by this partition's matcher.
    SharedDeflate(DeflateStream),
}

impl Compressor {
    /// The shared-match stream for what a connection asked for; none if there is none for it.
    pub fn shared(params: ConnParams) -> Option<Self> {
        match params.compression {
            Compression::Zstd => Some(Self::SharedZstd(ZstdStream::default())),
            Compression::Zlib => Some(Self::SharedDeflate(DeflateStream::new(Container::Zlib, 15))),
            Compression::Deflate(params) if !params.server_no_context_takeover => {
                Some(Self::SharedDeflate(DeflateStream::new(Container::PerMessage, params.server_window_bits)))
            }
            Compression::None | Compression::ZstdDict(_) | Compression::Deflate(_) => None,
        }
    }

    /// Memory it takes beside its own struct.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Classic(stream) => stream.memory_bytes(),
            Self::SharedZstd(stream) => stream.heap_bytes(),
            Self::SharedDeflate(stream) => stream.heap_bytes(),
        }
    }

    /// Whether it is a context that was made larger while there was room.
    pub fn is_upgraded(&self) -> bool {
        matches!(self, Self::Classic(stream) if stream.is_upgraded())
    }

    /// Another partition wrote it so far (S1).
    pub fn arrive(&mut self) {
        match self {
            Self::Classic(_) => {}
            Self::SharedZstd(stream) => stream.leave_matcher(),
            Self::SharedDeflate(stream) => stream.leave_matcher(),
        }
    }

    /// Appends a message as it is, in the stream's format, without making a context.
    pub fn store(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        match self {
            Self::Classic(stream) => stream.store(message, out)?,
            Self::SharedZstd(stream) => stream.store(message, out),
            Self::SharedDeflate(stream) => stream.store(message, out),
        }
        Ok(())
    }
}

/// A partition's matchers; they are made for the first message that needs them.
#[derive(Debug, Default)]
pub struct Matchers {
    limits: Limits,
    by_encoding: [Option<Box<Matcher>>; 2],
}

impl Matchers {
    /// None yet.
    pub fn new(streams: Streams) -> Self {
        let limits = match streams {
            Streams::Classic => Limits::default(),
            Streams::SharedMatch { history_bytes_max } => Limits { history_bytes_max },
        };
        Self { limits, by_encoding: [None, None] }
    }

    /// What they have done, and the heap they hold.
    pub fn counters(&self) -> (Counters, usize) {
        let mut sum = Counters::default();
        let mut heap_bytes = 0;
        for matcher in self.by_encoding.iter().flatten() {
            sum += matcher.counters();
            heap_bytes += matcher.heap_bytes();
        }
        (sum, heap_bytes)
    }

    fn of(&mut self, encoding: Encoding) -> &mut Matcher {
        let form = match encoding {
            Encoding::Json => Form::Json,
            Encoding::Etf => Form::Etf,
        };
        let limits = self.limits;
        self.by_encoding[encoding as usize]
            .get_or_insert_with(|| Box::new(Matcher::new(form, Tables::built_in(form), limits)))
    }

    /// Appends a message outside the sequence, compressed.
    pub fn compress(
        &mut self,
        compressor: &mut Compressor,
        encoding: Encoding,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        match compressor {
            Compressor::Classic(stream) => stream.compress(&[message], out)?,
            Compressor::SharedZstd(stream) => self.of(encoding).zstd_alone(stream, message, out),
            Compressor::SharedDeflate(stream) => self.of(encoding).deflate_alone(stream, message, out),
        }
        Ok(())
    }

    /// Appends a dispatch under `seq`, compressed.
    pub fn write(
        &mut self,
        compressor: &mut Compressor,
        encoding: Encoding,
        (dispatch, redaction): (&Dispatch, Redaction),
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let is_shared = !matches!(compressor, Compressor::Classic(_));
        if is_shared && let Some(text) = self.text_of(encoding, dispatch, redaction) {
            let matcher = self.of(encoding);
            let written = match compressor {
                Compressor::SharedZstd(stream) => matcher.zstd(stream, text, seq, out),
                Compressor::SharedDeflate(stream) => matcher.deflate(stream, text, seq, out),
                Compressor::Classic(_) => Ok(()),
            };
            if written.is_ok() {
                return Ok(());
            }
        }
        let mut frame = dispatch.frame(encoding, redaction);
        self.compress(compressor, encoding, frame.write_for(seq, Framing::None), out)
    }

    /// The text of what many get, taken in now if nobody was written it before.
    fn text_of(&mut self, encoding: Encoding, dispatch: &Dispatch, redaction: Redaction) -> Option<TextId> {
        let event = dispatch.published_event()?;
        let known = dispatch.text(encoding, redaction);
        if let Some(text) = known.get() {
            return text.id();
        }
        let frame = dispatch.frame(encoding, redaction);
        let text = self.of(encoding).push(scope_of(event, redaction), event.name.as_str(), frame.body());
        known.set(Some(text.into()));
        text
    }
}

/// Whom an event is for, as far as that tells who gets the next one like it.
fn scope_of(event: &Event, redaction: Redaction) -> Scope {
    let class = match &event.audience.gate {
        Gate::Members => 0,
        Gate::Channel(id) | Gate::ChannelExcept(id, _) | Gate::ChannelPermission(id, _) => id.get(),
        Gate::Channels(ids) => ids.first().map_or(0, |id| id.get()),
        Gate::GuildPermission(permissions) => hash_of(permissions),
        Gate::List(list) => hash_of(list),
        Gate::User(id) => id.get(),
    };
    let domain = event.guild_id.get() ^ (redaction.index() as u64) << 60;
    Scope { domain, class, kind: hash_of(&event.audience.intents) }
}

fn hash_of(what: &impl Hash) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
