//! Shared-match with connections that join, miss events, receive private messages, fall behind, drop, and
//! change visibility.
//!
//! Input       one byte: format, encoding, whether zstd streams start with a dictionary, whether there is a crowd; then
//!             operations of one byte, some with further bytes.
//! Oracle      each connection decodes exactly the messages sent to it, with libzstd or zlib fed only its bytes.
// max_len: 4096
#![no_main]

#[path = "common/stream.rs"]
mod stream;

use guildhall_codec::StreamDecompressor;
use guildhall_shared_match::{BodyId, Domain, Form, Limits, Matcher, Scope, Tables};
use libfuzzer_sys::fuzz_target;
use stream::{KNOWN, NAMES, Stream, WITH_DICTIONARY, similar, whole};

const CONNECTIONS: usize = 4;
/// Further connections that receive every event. With that many, the search ignores matches that only some
/// connections have.
const BYSTANDERS: usize = 60;
/// Bit of the first byte.
const WITH_BYSTANDERS: u8 = 16;

struct Connection {
    stream: Stream,
    /// None for a bystander.
    reader: Option<StreamDecompressor>,
    classes: u8,
    seq: u64,
    backlog: Vec<(Option<BodyId>, &'static str, Vec<u8>)>,
}

impl Connection {
    fn new(control: u8) -> Self {
        let stream = Stream::new(control);
        Self { reader: Some(stream.reader(control)), stream, ..Self::bystander(control) }
    }

    /// A connection whose output is not decoded.
    fn bystander(control: u8) -> Self {
        let mut stream = Stream::new(control);
        // A context each would take hundreds of megabytes.
        stream.drop_context();
        Self { stream, reader: None, classes: 0xFF, seq: 0, backlog: Vec::new() }
    }

    fn event(&mut self, matcher: &mut Matcher, form: Form, id: Option<BodyId>, name: &'static str, body: &[u8]) {
        self.seq += 1;
        let message = whole(form, name, self.seq, body);
        match self.stream.event(matcher, id, self.seq, &message) {
            Some(wire) => self.check(wire, &message),
            None => self.alone(matcher, &message),
        }
    }

    fn alone(&mut self, matcher: &mut Matcher, message: &[u8]) {
        let wire = self.stream.alone(matcher, message);
        self.check(wire, message);
    }

    fn store(&mut self, message: &[u8]) {
        let wire = self.stream.store(message);
        self.check(wire, message);
    }

    fn check(&mut self, wire: Vec<u8>, message: &[u8]) {
        if let Some(reader) = &mut self.reader {
            self.stream.check(reader, wire, message);
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
                let body = similar(&last_body, bytes(1 + usize::from(argument) * 6), argument);
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
                4 => connections[at].stream.leave_matcher(),
                5 => connections[at].stream.move_to_shared(),
                _ => connections[at].seq = [9, 99, 255, 99_999][usize::from(bytes(1).first().copied().unwrap_or(0)) % 4],
            },
        }
    }
});
