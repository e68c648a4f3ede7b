//! Two recipients of different views, in two worlds that differ in the content of events that the first may not view.
//!
//! Input       one byte: format, encoding, whether zstd streams start with a dictionary or a library context and
//!             deflate streams with a context, effort; then operations of one byte, most with further bytes. One of
//!             them moves a stream from its context to shared-match.
//! Oracle      the observer's connection carries identical bytes in both worlds; each connection of both decodes
//!             exactly what it was sent, with libzstd or zlib fed only its bytes.
// max_len: 4096
#![no_main]

#[path = "common/stream.rs"]
mod stream;

use guildhall_codec::StreamDecompressor;
use guildhall_shared_match::{Domain, Effort, Form, Limits, Matcher, Scope, Tables};
use libfuzzer_sys::fuzz_target;
use stream::{KNOWN, NAMES, Stream, WITH_DICTIONARY, similar, whole};

const DOMAINS: [Domain; 8] = [
    Domain::Public { guild: 1, view: 0 },
    Domain::Restricted { guild: 1, channel: 10, view: 0 },
    Domain::Restricted { guild: 1, channel: 11, view: 0 },
    Domain::Public { guild: 1, view: 1 },
    Domain::Public { guild: 2, view: 0 },
    Domain::Restricted { guild: 2, channel: 20, view: 0 },
    Domain::Direct { channel: 30 },
    Domain::Restricted { guild: 1, channel: 10, view: 1 },
];
/// Domains of the observer: of channel 10 without the requirement of view 1, or with it.
const OBSERVERS: [u8; 2] = [0b0000_0011, 0b1000_1011];
const OBSERVER: usize = 0;
/// Estimates of the number of recipients, up to the most expensive effort.
const AUDIENCES: [u32; 4] = [1, 2, 8, 50];
const EFFORTS: [Option<Effort>; 4] = [None, Some(Effort::Greedy), Some(Effort::Lazy), Some(Effort::Optimal)];

struct Connection {
    stream: Stream,
    reader: StreamDecompressor,
    seq: u64,
}

impl Connection {
    fn new(control: u8) -> Self {
        let stream = Stream::new(control);
        let reader = stream.reader(control);
        Self { stream, reader, seq: 0 }
    }
}

/// A matcher with its connections.
struct World {
    matcher: Matcher,
    connections: [Connection; 2],
    /// Of what may not be viewed here, every byte differs by these bits.
    hidden: u8,
}

impl World {
    /// Writes an event to those of the connections that `takes` names; returns what the observer was sent.
    fn event(
        &mut self,
        form: Form,
        (scope, audience): (Scope, u32),
        (name, body): (&'static str, &[u8]),
        takes: [bool; 2],
    ) -> Option<Vec<u8>> {
        let id = self.matcher.push(scope, audience, name, body);
        let mut observed = None;
        for (index, connection) in self.connections.iter_mut().enumerate().filter(|(index, _)| takes[*index]) {
            connection.seq += 1;
            let message = whole(form, name, connection.seq, body);
            let wire = match connection.stream.event(&mut self.matcher, id, connection.seq, &message) {
                Some(wire) => wire,
                None => connection.stream.alone(&mut self.matcher, &message),
            };
            if index == OBSERVER {
                observed = Some(wire.clone());
            }
            connection.stream.check(&mut connection.reader, wire, &message);
        }
        observed
    }

    /// Writes a message to one connection; returns what the observer was sent.
    fn alone(&mut self, at: usize, message: &[u8]) -> Option<Vec<u8>> {
        let connection = &mut self.connections[at];
        let wire = connection.stream.alone(&mut self.matcher, message);
        let observed = (at == OBSERVER).then(|| wire.clone());
        connection.stream.check(&mut connection.reader, wire, message);
        observed
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((control, mut rest)) = data.split_first() else { return };
    let form = if control & 4 == 0 { Form::Json } else { Form::Etf };
    let view = OBSERVERS[usize::from(control >> 4 & 1)];
    let limits = Limits { history_bytes_max: 64 << 10, effort: EFFORTS[usize::from(control >> 5) % EFFORTS.len()] };
    let mut worlds = [0, 1].map(|hidden| World {
        matcher: Matcher::new(form, Tables::built_in(form), limits),
        connections: [(); 2].map(|()| Connection::new(*control)),
        hidden,
    });
    let content = if control & WITH_DICTIONARY != 0 { KNOWN.1.content() } else { &[] };
    let mut last_body: Vec<u8> = content[content.len() / 2..].to_vec();
    while let Some((operation, next)) = rest.split_first() {
        rest = next;
        let argument = operation >> 3 & 7;
        let mut bytes = |most: usize| {
            let (taken, next) = rest.split_at(rest.len().min(most));
            rest = next;
            taken
        };
        let observed = match operation & 7 {
            0..=4 => {
                let at = usize::from(argument);
                let shape = bytes(1).first().copied().unwrap_or(0);
                let body = similar(&last_body, bytes(1 + usize::from(shape & 7) * 6), shape & 7);
                let is_viewed = view >> at & 1 == 1;
                let scope = Scope { domain: DOMAINS[at], class: 10 + u64::from(operation >> 6) };
                let name = NAMES[usize::from(operation & 7) % NAMES.len()];
                let audience = AUDIENCES[usize::from(shape >> 3) % AUDIENCES.len()];
                // One of the two misses some events.
                let takes = [is_viewed && shape >> 5 != 1, shape >> 5 != 2];
                let observed = worlds.each_mut().map(|world| {
                    let hidden = if is_viewed { 0 } else { world.hidden };
                    let body: Vec<u8> = body.iter().map(|byte| byte ^ hidden).collect();
                    world.event(form, (scope, audience), (name, &body), takes)
                });
                last_body = body;
                observed
            }
            5 => {
                let message = bytes(40).repeat(1 + usize::from(argument >> 1) * 30);
                let at = usize::from(argument & 1);
                worlds.each_mut().map(|world| {
                    let hidden = if at == OBSERVER { 0 } else { world.hidden };
                    let message: Vec<u8> = message.iter().map(|byte| byte ^ hidden).collect();
                    world.alone(at, &message)
                })
            }
            6 => worlds.each_mut().map(|world| {
                match (operation >> 6, argument) {
                    (0, _) => world.matcher.restrict(1, 10 + u64::from(argument & 3), 10),
                    (1, _) => world.matcher.forget(DOMAINS[usize::from(argument)]),
                    (2, _) => world.matcher.forget_guild(1 + u64::from(argument & 1)),
                    _ => world.matcher.set_connections(usize::from(argument) * 500),
                }
                None
            }),
            _ => worlds.each_mut().map(|world| {
                let connection = &mut world.connections[usize::from(argument & 1)];
                match operation >> 6 {
                    0 => *connection = Connection::new(*control),
                    1 => connection.stream.leave_matcher(),
                    2 => connection.seq = [9, 99, 255, 99_999][usize::from(argument >> 1)],
                    _ => connection.stream.move_to_shared(),
                }
                None
            }),
        };
        let [one, other] = observed;
        assert!(one == other, "the observer was sent something else where what it may not view was something else");
    }
});
