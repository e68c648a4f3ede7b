//! One end and the other of a stream, for the targets of shared-match.

use guildhall_codec::{ContextPool, Dictionary, StreamCompressor, StreamDecompressor, ZlibParams};
use guildhall_shared_match::{
    self as shared_match, BodyId, Container, DeflateStream, Form, Matcher, ZSTD_WINDOW_LOG, ZstdStream,
};
use std::sync::{Arc, LazyLock};

const MESSAGE_BYTES_MAX: usize = 1 << 20;
pub const NAMES: [&str; 3] = ["MESSAGE_CREATE", "TYPING_START", "X"];
/// Bit of the first byte of an input: zstd streams have a dictionary; deflate streams begin with a library context.
pub const WITH_DICTIONARY: u8 = 8;

/// A dictionary, for either end.
pub static KNOWN: LazyLock<(Arc<shared_match::Dictionary>, Dictionary)> = LazyLock::new(|| {
    let sample = |n: u64| format!("{{\"id\":\"{}\",\"channel_id\":\"{}\",\"content\":\"{n}\"}}", n * 7_919, n % 7 * 131);
    let samples: Vec<String> = (0..2_000).map(sample).collect();
    let known = Dictionary::train(&samples, 2 << 10).expect("there are samples enough");
    let shared = shared_match::Dictionary::new(known.number(), known.content()).expect("it is small");
    (Arc::new(shared), known)
});

enum Format {
    Zstd(ZstdStream),
    Deflate(DeflateStream, Container),
}

pub struct Stream {
    format: Format,
    /// It writes the stream until it moves to shared-match.
    context: Option<StreamCompressor>,
    /// The context has written a message, as a node's has with HELLO before a stream can move.
    is_begun: bool,
}

impl Stream {
    pub fn new(control: u8) -> Self {
        let window_bits = (9 + (control >> 5)).min(15);
        let deflate = ZlibParams { window_bits, ..ZlibParams::default() };
        let (format, context) = match (control & 3, control & WITH_DICTIONARY != 0) {
            (0 | 1, true) => (Format::Zstd(ZstdStream::with_dictionary(KNOWN.0.clone())), None),
            (0, false) => (Format::Zstd(ZstdStream::default()), None),
            (1, false) => {
                let context = ContextPool::default().zstd_movable(ZSTD_WINDOW_LOG);
                (Format::Zstd(ZstdStream::continued()), Some(context))
            }
            (kind, is_begun) => {
                let container = if kind == 2 { Container::Zlib } else { Container::PerMessage };
                let stream = match is_begun {
                    true => DeflateStream::continued(container, window_bits),
                    false => DeflateStream::new(container, window_bits),
                };
                let context = match container {
                    Container::Zlib => StreamCompressor::zlib(deflate),
                    Container::PerMessage => StreamCompressor::deflate(deflate, window_bits),
                };
                let context = is_begun.then(|| context.expect("the parameters are in their ranges"));
                (Format::Deflate(stream, container), context)
            }
        };
        Self { format, context, is_begun: false }
    }

    /// Shared-match goes on with the stream.
    pub fn move_to_shared(&mut self) {
        if self.is_begun {
            self.context = None;
        }
    }

    /// Makes a stream for output that is not decoded.
    #[allow(dead_code, reason = "one of the targets decodes all")]
    pub fn drop_context(&mut self) {
        self.context = None;
    }

    /// A decoder that has read nothing yet.
    pub fn reader(&self, control: u8) -> StreamDecompressor {
        let mut reader = match &self.format {
            Format::Zstd(_) if control & WITH_DICTIONARY != 0 => StreamDecompressor::zstd_with(ZSTD_WINDOW_LOG, &KNOWN.1),
            Format::Zstd(_) => StreamDecompressor::zstd(ZSTD_WINDOW_LOG),
            Format::Deflate(..) => StreamDecompressor::zlib(),
        }
        .expect("there is memory");
        if let Format::Deflate(_, Container::PerMessage) = self.format {
            reader.decompress(&[0x78, 0x9c], &mut Vec::new(), 0).expect("a header");
        }
        reader
    }

    /// An event to this connection and others; none if it has to be written alone.
    pub fn event(
        &mut self,
        matcher: &mut Matcher,
        id: Option<BodyId>,
        seq: u64,
        message: &[u8],
    ) -> Option<Vec<u8>> {
        let (mut wire, id) = (Vec::new(), id?);
        if let Some(context) = &mut self.context {
            context.compress(&[message], &mut wire).expect("a context that works");
            self.is_begun = true;
            match &mut self.format {
                Format::Zstd(stream) => matcher.follow_zstd(stream, id, seq, message.len()),
                Format::Deflate(stream, _) => matcher.follow_deflate(stream, id, seq, message.len()),
            }
            return Some(wire);
        }
        let written = match &mut self.format {
            Format::Zstd(stream) => matcher.zstd(stream, id, seq, &mut wire),
            Format::Deflate(stream, _) => matcher.deflate(stream, id, seq, &mut wire),
        };
        written.ok().map(|()| wire)
    }

    /// A message to this connection alone.
    pub fn alone(&mut self, matcher: &mut Matcher, message: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        if let Some(context) = &mut self.context {
            context.compress(&[message], &mut wire).expect("a context that works");
            self.follow(message.len());
            return wire;
        }
        match &mut self.format {
            Format::Zstd(stream) => matcher.zstd_standalone(stream, message, &mut wire),
            Format::Deflate(stream, _) => matcher.deflate_standalone(stream, message, &mut wire),
        }
        wire
    }

    /// A message before IDENTIFY.
    #[allow(dead_code, reason = "one of the targets has no such message")]
    pub fn store(&mut self, message: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        if let Some(context) = &mut self.context {
            context.store(message, &mut wire).expect("a context that works");
            self.follow(message.len());
            return wire;
        }
        match &mut self.format {
            Format::Zstd(stream) => stream.store(message, &mut wire),
            Format::Deflate(stream, _) => stream.store(message, &mut wire),
        }
        wire
    }

    fn follow(&mut self, bytes: usize) {
        self.is_begun = true;
        match &mut self.format {
            Format::Zstd(stream) => stream.follow(bytes),
            Format::Deflate(stream, _) => stream.follow(bytes),
        }
    }

    pub fn leave_matcher(&mut self) {
        match &mut self.format {
            Format::Zstd(stream) => stream.leave_matcher(),
            Format::Deflate(stream, _) => stream.leave_matcher(),
        }
    }

    /// The decoder reads this message, whole.
    pub fn check(&self, reader: &mut StreamDecompressor, mut wire: Vec<u8>, message: &[u8]) {
        if let Format::Deflate(_, Container::PerMessage) = self.format {
            wire.extend_from_slice(&[0, 0, 0xff, 0xff]);
        }
        let mut read = Vec::new();
        reader.decompress(&wire, &mut read, MESSAGE_BYTES_MAX).expect("a stream that can be read");
        assert!(read == message, "sent {}, read {}", message.escape_ascii(), read.escape_ascii());
    }
}

/// A body that resembles the last one: same start, other bytes, same end.
pub fn similar(last: &[u8], new: &[u8], argument: u8) -> Vec<u8> {
    let (before, after) = last.split_at(last.len() / 2);
    let body = [before, new, after].concat();
    if body.len() > 3_000 { new.repeat(1 + usize::from(argument) * 400) } else { body }
}

pub fn whole(form: Form, name: &str, seq: u64, body: &[u8]) -> Vec<u8> {
    match form {
        Form::Json => [format!("{{\"t\":\"{name}\",\"s\":{seq},\"op\":0,\"d\":").as_bytes(), body, b"}"].concat(),
        Form::Etf => {
            let mut out = [b"\x83t\0\0\0\x04d\0\x01d".as_slice(), body, b"d\0\x02opa\0d\0\x01s"].concat();
            match u8::try_from(seq) {
                Ok(small) => out.extend([97, small]),
                Err(_) => {
                    out.push(98);
                    out.extend((seq as u32).to_be_bytes());
                }
            }
            out.extend(b"d\0\x01td\0");
            out.push(name.len() as u8);
            out.extend(name.as_bytes());
            out
        }
    }
}
