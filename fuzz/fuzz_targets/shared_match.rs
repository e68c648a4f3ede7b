//! Shared-match with connections that join, miss events, receive private messages, fall behind, drop, and
//! change visibility.
//!
//! Input       one byte: format, encoding, whether zstd streams start with a dictionary, whether there is a crowd; then
//!             operations of one byte, some with further bytes.
//! Oracle      each connection decodes exactly the messages sent to it, with libzstd or zlib fed only its bytes.
// max_len: 4096
#![no_main]

use guildhall_codec::{Dictionary, StreamDecompressor};
use guildhall_shared_match::{
    self as shared_match, Container, DeflateStream, Domain, Form, Limits, Matcher, Scope, Tables, BodyId, ZSTD_WINDOW_LOG, ZstdStream,
};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

const CONNECTIONS: usize = 4;
/// Further connections that receive every event. With that many, the search ignores matches that only some
/// connections have.
const BYSTANDERS: usize = 60;
const MESSAGE_BYTES_MAX: usize = 1 << 20;
const NAMES: [&str; 3] = ["MESSAGE_CREATE", "TYPING_START", "X"];
/// Bit of the first byte.
const WITH_DICTIONARY: u8 = 8;
const WITH_BYSTANDERS: u8 = 16;

/// A dictionary, for either end.
static KNOWN: LazyLock<(Arc<shared_match::Dictionary>, Dictionary)> = LazyLock::new(|| {
    let sample = |n: u64| format!("{{\"id\":\"{}\",\"channel_id\":\"{}\",\"content\":\"{n}\"}}", n * 7_919, n % 7 * 131);
    let samples: Vec<String> = (0..2_000).map(sample).collect();
    let known = Dictionary::train(&samples, 2 << 10).expect("there are samples enough");
    let shared = shared_match::Dictionary::new(known.number(), known.content()).expect("it is small");
    (Arc::new(shared), known)
});

enum Stream {
    Zstd(ZstdStream),
    Deflate(DeflateStream, Container),
}

struct Connection {
    stream: Stream,
    /// None for a bystander.
    reader: Option<StreamDecompressor>,
    classes: u8,
    seq: u64,
    backlog: Vec<(Option<BodyId>, &'static str, Vec<u8>)>,
}

impl Stream {
    fn new(control: u8) -> Self {
        match control & 3 {
            0 | 1 if control & WITH_DICTIONARY != 0 => Self::Zstd(ZstdStream::with_dictionary(KNOWN.0.clone())),
            0 | 1 => Self::Zstd(ZstdStream::default()),
            kind => {
                let container = if kind == 2 { Container::Zlib } else { Container::PerMessage };
                Self::Deflate(DeflateStream::new(container, 9 + (control >> 5)), container)
            }
        }
    }
}

impl Connection {
    fn new(control: u8) -> Self {
        let connection = Self::bystander(control);
        let mut reader = match connection.stream {
            Stream::Zstd(_) if control & WITH_DICTIONARY != 0 => StreamDecompressor::zstd_with(ZSTD_WINDOW_LOG, &KNOWN.1),
            Stream::Zstd(_) => StreamDecompressor::zstd(ZSTD_WINDOW_LOG),
            Stream::Deflate(..) => StreamDecompressor::zlib(),
        }
        .expect("there is memory");
        if let Stream::Deflate(_, Container::PerMessage) = connection.stream {
            reader.decompress(&[0x78, 0x9c], &mut Vec::new(), 0).expect("a header");
        }
        Self { reader: Some(reader), ..connection }
    }

    /// A connection whose output is not decoded.
    fn bystander(control: u8) -> Self {
        Self { stream: Stream::new(control), reader: None, classes: 0xFF, seq: 0, backlog: Vec::new() }
    }

    fn event(&mut self, matcher: &mut Matcher, form: Form, id: Option<BodyId>, name: &'static str, body: &[u8]) {
        self.seq += 1;
        let message = whole(form, name, self.seq, body);
        let mut wire = Vec::new();
        let written = id.is_some_and(|id| match &mut self.stream {
            Stream::Zstd(stream) => matcher.zstd(stream, id, self.seq, &mut wire).is_ok(),
            Stream::Deflate(stream, _) => matcher.deflate(stream, id, self.seq, &mut wire).is_ok(),
        });
        if written { self.check(wire, &message) } else { self.alone(matcher, &message) }
    }

    fn alone(&mut self, matcher: &mut Matcher, message: &[u8]) {
        let mut wire = Vec::new();
        match &mut self.stream {
            Stream::Zstd(stream) => matcher.zstd_alone(stream, message, &mut wire),
            Stream::Deflate(stream, _) => matcher.deflate_alone(stream, message, &mut wire),
        }
        self.check(wire, message);
    }

    fn store(&mut self, message: &[u8]) {
        let mut wire = Vec::new();
        match &mut self.stream {
            Stream::Zstd(stream) => stream.store(message, &mut wire),
            Stream::Deflate(stream, _) => stream.store(message, &mut wire),
        }
        self.check(wire, message);
    }

    fn check(&mut self, mut wire: Vec<u8>, message: &[u8]) {
        let Some(reader) = &mut self.reader else { return };
        if let Stream::Deflate(_, Container::PerMessage) = self.stream {
            wire.extend_from_slice(&[0, 0, 0xff, 0xff]);
        }
        let mut read = Vec::new();
        reader.decompress(&wire, &mut read, MESSAGE_BYTES_MAX).expect("a stream that can be read");
        assert!(read == message, "sent {}, read {}", message.escape_ascii(), read.escape_ascii());
    }
}

fn whole(form: Form, name: &str, seq: u64, body: &[u8]) -> Vec<u8> {
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

fuzz_target!(|data: &[u8]| {
    let Some((control, mut rest)) = data.split_first() else { return };
    let form = if control & 4 == 0 { Form::Json } else { Form::Etf };
    let limits = Limits { history_bytes_max: 64 << 10, ..Limits::default() };
    let mut matcher = Matcher::new(form, Tables::built_in(form), limits);
    let mut connections: Vec<Connection> = (0..CONNECTIONS).map(|_| Connection::new(*control)).collect();
    if control & WITH_BYSTANDERS != 0 {
        connections.extend((0..BYSTANDERS).map(|_| Connection::bystander(*control)));
    }
    let content = if control & WITH_DICTIONARY != 0 { KNOWN.1.content() } else { &[] };
    let mut last_body: Vec<u8> = content[content.len() / 2..].to_vec();
    while let Some((operation, next)) = rest.split_first() {
        rest = next;
        let at = usize::from(operation >> 6);
        let argument = operation >> 3 & 7;
        let mut bytes = |most: usize| {
            let (taken, next) = rest.split_at(rest.len().min(most));
            rest = next;
            taken
        };
        match operation & 7 {
            // An event similar to the last one: same start, other bytes, same end.
            0..=3 => {
                let new = bytes(1 + usize::from(argument) * 6);
                let middle = last_body.len() / 2;
                let mut body = last_body[..middle].to_vec();
                body.extend_from_slice(new);
                body.extend_from_slice(&last_body[middle..]);
                if body.len() > 3_000 {
                    body = new.repeat(1 + usize::from(argument) * 400);
                }
                let class = operation >> 6;
                let (guild, channel) = (u64::from(class / 2), u64::from(class));
                let domain = match operation >> 2 & 1 {
                    0 => Domain::Public { guild, view: 0 },
                    _ => Domain::Restricted { guild, channel, view: 0 },
                };
                let scope = Scope { domain, class: class.into() };
                let name = NAMES[usize::from(operation & 3) % NAMES.len()];
                let id = matcher.push(scope, connections.len() as u32, name, &body);
                for connection in &mut connections {
                    if connection.classes >> class & 1 == 0 {
                        continue;
                    }
                    if connection.backlog.is_empty() {
                        connection.event(&mut matcher, form, id, name, &body);
                    } else {
                        connection.backlog.push((id, name, body.clone()));
                    }
                }
                last_body = body;
            }
            4 => {
                let mut message = bytes(40).repeat(1 + usize::from(argument) * 30);
                if !content.is_empty() && argument & 1 == 1 {
                    // Content from the dictionary, sometimes enough to push it out of the window.
                    let from = message.iter().map(|byte| usize::from(*byte)).sum::<usize>() % content.len();
                    message.extend_from_slice(&content[from..]);
                    message = message.repeat(if argument == 7 { 1 + (100 << 10) / message.len() } else { 1 });
                }
                connections[at].alone(&mut matcher, &message);
            }
            5 => match argument {
                0..=3 => connections[at] = Connection::new(*control),
                _ => connections[at].classes = bytes(1).first().copied().unwrap_or(0),
            },
            6 => match argument {
                // The connection falls behind here...
                0..=3 => {
                    connections[at].backlog.push((None, NAMES[0], b"{}".to_vec()));
                }
                // ...and catches up here.
                _ => {
                    for (id, name, body) in std::mem::take(&mut connections[at].backlog) {
                        connections[at].event(&mut matcher, form, id, name, &body);
                    }
                }
            },
            _ => match argument {
                0..=3 => connections[at].store(bytes(50)),
                // The connection misses events and returns: nothing from before may be referenced.
                4 | 5 => match &mut connections[at].stream {
                    Stream::Zstd(stream) => stream.leave_matcher(),
                    Stream::Deflate(stream, _) => stream.leave_matcher(),
                },
                _ => connections[at].seq = [9, 99, 255, 99_999][usize::from(bytes(1).first().copied().unwrap_or(0)) % 4],
            },
        }
    }
});
