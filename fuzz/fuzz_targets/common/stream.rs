//! One end and the other of a stream, for the targets of shared-match.

use guildhall_codec::{Dictionary, StreamDecompressor};
use guildhall_shared_match::{
    self as shared_match, BodyId, Container, DeflateStream, Form, Matcher, ZSTD_WINDOW_LOG, ZstdStream,
};
use std::sync::{Arc, LazyLock};

const MESSAGE_BYTES_MAX: usize = 1 << 20;
pub const NAMES: [&str; 3] = ["MESSAGE_CREATE", "TYPING_START", "X"];
/// Bit of the first byte of an input.
pub const WITH_DICTIONARY: u8 = 8;

/// A dictionary, for either end.
pub static KNOWN: LazyLock<(Arc<shared_match::Dictionary>, Dictionary)> = LazyLock::new(|| {
    let sample = |n: u64| format!("{{\"id\":\"{}\",\"channel_id\":\"{}\",\"content\":\"{n}\"}}", n * 7_919, n % 7 * 131);
    let samples: Vec<String> = (0..2_000).map(sample).collect();
    let known = Dictionary::train(&samples, 2 << 10).expect("there are samples enough");
    let shared = shared_match::Dictionary::new(known.number(), known.content()).expect("it is small");
    (Arc::new(shared), known)
});

pub enum Stream {
    Zstd(ZstdStream),
    Deflate(DeflateStream, Container),
}

impl Stream {
    pub fn new(control: u8) -> Self {
        match control & 3 {
            0 | 1 if control & WITH_DICTIONARY != 0 => Self::Zstd(ZstdStream::with_dictionary(KNOWN.0.clone())),
            0 | 1 => Self::Zstd(ZstdStream::default()),
            kind => {
                let container = if kind == 2 { Container::Zlib } else { Container::PerMessage };
                Self::Deflate(DeflateStream::new(container, 9 + (control >> 5)), container)
            }
        }
    }

    /// A decoder that has read nothing yet.
    pub fn reader(&self, control: u8) -> StreamDecompressor {
        let mut reader = match self {
            Self::Zstd(_) if control & WITH_DICTIONARY != 0 => StreamDecompressor::zstd_with(ZSTD_WINDOW_LOG, &KNOWN.1),
            Self::Zstd(_) => StreamDecompressor::zstd(ZSTD_WINDOW_LOG),
            Self::Deflate(..) => StreamDecompressor::zlib(),
        }
        .expect("there is memory");
        if let Self::Deflate(_, Container::PerMessage) = self {
            reader.decompress(&[0x78, 0x9c], &mut Vec::new(), 0).expect("a header");
        }
        reader
    }

    /// An event to this connection and others; none if it has to be written alone.
    pub fn event(&mut self, matcher: &mut Matcher, id: Option<BodyId>, seq: u64) -> Option<Vec<u8>> {
        let mut wire = Vec::new();
        let written = match self {
            Self::Zstd(stream) => matcher.zstd(stream, id?, seq, &mut wire),
            Self::Deflate(stream, _) => matcher.deflate(stream, id?, seq, &mut wire),
        };
        written.ok().map(|()| wire)
    }

    /// A message to this connection alone.
    pub fn alone(&mut self, matcher: &mut Matcher, message: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        match self {
            Self::Zstd(stream) => matcher.zstd_standalone(stream, message, &mut wire),
            Self::Deflate(stream, _) => matcher.deflate_standalone(stream, message, &mut wire),
        }
        wire
    }

    /// A message before IDENTIFY.
    #[allow(dead_code, reason = "one of the targets has no such message")]
    pub fn store(&mut self, message: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        match self {
            Self::Zstd(stream) => stream.store(message, &mut wire),
            Self::Deflate(stream, _) => stream.store(message, &mut wire),
        }
        wire
    }

    pub fn leave_matcher(&mut self) {
        match self {
            Self::Zstd(stream) => stream.leave_matcher(),
            Self::Deflate(stream, _) => stream.leave_matcher(),
        }
    }

    /// The decoder reads this message, whole.
    pub fn check(&self, reader: &mut StreamDecompressor, mut wire: Vec<u8>, message: &[u8]) {
        if let Self::Deflate(_, Container::PerMessage) = self {
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
