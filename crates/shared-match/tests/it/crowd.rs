//! Crowds of connections that open, close, miss bodies and get messages of their own; each has its own decoder.

use crate::{
    dictionary::Known,
    messages::{event, private, whole},
};
use guildhall_shared_match::{
    BodyId, Container, DeflateStream, Domain, Evicted, Form, Limits, Matcher, Scope, Tables, ZstdStream,
};
use guildhall_stdx::Rng;

/// A reference decoder, fed in pieces of any size.
enum Reader {
    Zstd(Box<zstd_safe::DCtx<'static>>),
    Inflate(flate2::Decompress, Container),
}

impl Reader {
    fn read(&mut self, rng: &mut Rng, wire: &[u8], length: usize) -> Vec<u8> {
        let mut out = vec![0; length + 64];
        let mut written = 0;
        let flush: &[u8] = match self {
            Self::Inflate(_, Container::PerMessage) => &[0, 0, 0xFF, 0xFF],
            _ => &[],
        };
        let wire = [wire, flush].concat();
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            let (piece, later) = rest.split_at((1 + rng.below(400) as usize).min(rest.len()));
            rest = later;
            match self {
                Self::Zstd(context) => {
                    let mut input = zstd_safe::InBuffer::around(piece);
                    while input.pos() < piece.len() {
                        let mut output = zstd_safe::OutBuffer::around_pos(&mut out[..], written);
                        context
                            .decompress_stream(&mut output, &mut input)
                            .map_err(zstd_safe::get_error_name)
                            .expect("zstd");
                        written = output.pos();
                    }
                }
                Self::Inflate(inflate, _) => {
                    let mut taken = 0;
                    while taken < piece.len() {
                        let (read, made) = (inflate.total_in(), inflate.total_out());
                        let flush = flate2::FlushDecompress::Sync;
                        inflate.decompress(&piece[taken..], &mut out[written..], flush).expect("deflate");
                        taken += (inflate.total_in() - read) as usize;
                        written += (inflate.total_out() - made) as usize;
                    }
                }
            }
        }
        out.truncate(written);
        out
    }
}

enum Stream {
    Zstd(ZstdStream),
    Deflate(DeflateStream),
}

struct Connection {
    stream: Stream,
    reader: Reader,
    /// The classes it gets, as bits.
    classes: u64,
    seq: u64,
    /// Pending messages, oldest first.
    backlog: Vec<(BodyId, &'static str, Vec<u8>)>,
}

#[derive(Clone, Copy)]
enum Kind {
    Zstd,
    /// Beginning with a dictionary, each with one of these, or with none.
    WithDictionary(&'static [Known]),
    Deflate(Container, u8),
}

fn connect(rng: &mut Rng, kind: Kind) -> Connection {
    let (stream, reader) = match kind {
        Kind::WithDictionary(known) if rng.chance(0.9) => {
            let known = &known[rng.below(known.len() as u64) as usize];
            (Stream::Zstd(ZstdStream::with_dictionary(known.shared.clone())), Reader::Zstd(Box::new(known.reader())))
        }
        Kind::WithDictionary(_) => return connect(rng, Kind::Zstd),
        Kind::Zstd => (Stream::Zstd(ZstdStream::default()), Reader::Zstd(Box::new(zstd_safe::DCtx::create()))),
        Kind::Deflate(container, bits) => {
            let inflate = flate2::Decompress::new(container == Container::Zlib);
            (Stream::Deflate(DeflateStream::new(container, bits)), Reader::Inflate(inflate, container))
        }
    };
    // Some begin where the number of digits is about to change.
    let seq = [0, 7, 95, 9_990, 99_999, 4_000_000_000][rng.below(6) as usize].min(2_000_000_000);
    Connection { stream, reader, classes: rng.below(16), seq, backlog: Vec::new() }
}

impl Connection {
    fn write_text(
        &mut self,
        rng: &mut Rng,
        matcher: &mut Matcher,
        form: Form,
        (id, name, body): (Option<BodyId>, &'static str, &[u8]),
    ) {
        // Sometimes the same seq again, which callers should not do.
        self.seq += rng.below(20).min(3);
        let message = whole(form, name, self.seq, body);
        let mut wire = Vec::new();
        let written = match (&mut self.stream, id) {
            (_, None) => Err(Evicted),
            (Stream::Zstd(stream), Some(id)) => matcher.zstd(stream, id, self.seq, &mut wire),
            (Stream::Deflate(stream), Some(id)) => matcher.deflate(stream, id, self.seq, &mut wire),
        };
        match written {
            Ok(()) => self.check(rng, &wire, &message),
            Err(Evicted) => {
                assert!(wire.is_empty(), "an unwritten message left no bytes");
                self.write_alone(rng, matcher, &message);
            }
        }
    }

    fn write_alone(&mut self, rng: &mut Rng, matcher: &mut Matcher, message: &[u8]) {
        let mut wire = Vec::new();
        match &mut self.stream {
            Stream::Zstd(stream) => matcher.zstd_standalone(stream, message, &mut wire),
            Stream::Deflate(stream) => matcher.deflate_standalone(stream, message, &mut wire),
        }
        self.check(rng, &wire, message);
    }

    fn check(&mut self, rng: &mut Rng, wire: &[u8], message: &[u8]) {
        let read = self.reader.read(rng, wire, message.len());
        assert!(read == message, "{} bytes were sent and {} others read", message.len(), read.len());
    }
}

fn run(seed: u64, form: Form, kind: Kind, steps: u64) {
    run_with(6, seed, form, kind, steps);
}

fn run_with(count: usize, seed: u64, form: Form, kind: Kind, steps: u64) {
    let mut rng = Rng::new(seed);
    // A history that turns over several times.
    let limits = Limits { history_bytes_max: 1 << [16, 19, 23][rng.below(3) as usize], ..Limits::default() };
    let mut matcher = Matcher::new(form, Tables::built_in(form), limits);
    let mut connections: Vec<Connection> = (0..count).map(|_| connect(&mut rng, kind)).collect();
    for step in 0..steps {
        let at = rng.below(connections.len() as u64) as usize;
        match rng.below(40) {
            0 => connections[at] = connect(&mut rng, kind),
            4 => match &mut connections[at].stream {
                // It was elsewhere in between.
                Stream::Zstd(stream) => stream.leave_matcher(),
                Stream::Deflate(stream) => stream.leave_matcher(),
            },
            1 => connections[at].classes = rng.below(16),
            2 => {
                let message = private(&mut rng);
                connections[at].write_alone(&mut rng, &mut matcher, &message);
            }
            3 => {
                // It has read again: what waited for it is written late, in order.
                for (id, name, body) in std::mem::take(&mut connections[at].backlog) {
                    connections[at].write_text(&mut rng, &mut matcher, form, (Some(id), name, &body));
                }
            }
            _ => {
                let event = event(&mut rng, form, step);
                let id = matcher.push(event.scope, count as u32, event.name, &event.body);
                for connection in &mut connections {
                    if connection.classes >> event.scope.class & 1 == 0 {
                        continue;
                    }
                    match id {
                        Some(id) if !connection.backlog.is_empty() || rng.chance(0.02) => {
                            connection.backlog.push((id, event.name, event.body.clone()));
                        }
                        _ => connection.write_text(&mut rng, &mut matcher, form, (id, event.name, &event.body)),
                    }
                }
            }
        }
    }
    let counters = matcher.counters();
    assert!(counters.written_total > counters.late_total, "most was shared: {counters:?}");
}

#[test]
fn zstd_streams_are_read_by_libzstd() {
    for seed in 0..6 {
        run(seed, Form::Json, Kind::Zstd, 600);
        run(seed + 100, Form::Etf, Kind::Zstd, 400);
    }
}

#[test]
fn zstd_streams_with_dictionaries_are_read_by_libzstd() {
    for seed in 0..6 {
        run(seed, Form::Json, Kind::WithDictionary(Known::all()), 600);
        run(seed + 100, Form::Etf, Kind::WithDictionary(Known::all()), 400);
    }
}

#[test]
fn zlib_streams_are_read_by_zlib() {
    for seed in 0..4 {
        run(seed, Form::Json, Kind::Deflate(Container::Zlib, 15), 500);
        run(seed + 100, Form::Etf, Kind::Deflate(Container::Zlib, 15), 300);
    }
}

#[test]
fn permessage_deflate_with_takeover_is_read_by_inflate() {
    for seed in 0..4 {
        run(seed, Form::Json, Kind::Deflate(Container::PerMessage, 15), 500);
        run(seed + 100, Form::Json, Kind::Deflate(Container::PerMessage, 9), 300);
    }
}

/// So many that a text is looked for in what nearly all have, and in nothing else; and more than are sampled.
#[test]
fn streams_of_crowds_are_read_as_well() {
    for (count, steps) in [(90, 250), (300, 120)] {
        run_with(count, 1, Form::Json, Kind::Zstd, steps);
        run_with(count, 2, Form::Etf, Kind::WithDictionary(Known::all()), steps);
        run_with(count, 3, Form::Json, Kind::Deflate(Container::Zlib, 15), steps);
        run_with(count, 4, Form::Json, Kind::Deflate(Container::PerMessage, 9), steps);
    }
}

/// Streams several times as long as a window, of texts that are worth referring to from anywhere, and longer than a
/// deflate window themselves.
#[test]
fn nothing_out_of_the_window_is_referred_to() {
    for kind in [Kind::Zstd, Kind::WithDictionary(Known::all()), Kind::Deflate(Container::Zlib, 15)] {
        let mut rng = Rng::new(9);
        let mut matcher = Matcher::new(
            Form::Json,
            Tables::built_in(Form::Json),
            Limits { history_bytes_max: 16 << 20, ..Limits::default() },
        );
        let mut connections: Vec<Connection> = (0..2).map(|_| connect(&mut rng, kind)).collect();
        let mut bodies: Vec<Vec<u8>> = Vec::new();
        let mut sent_bytes = 0;
        for step in 0..200 {
            let mut body = vec![b'"'];
            body.extend((0..rng.below(900)).map(|_| b'a' + rng.below(26) as u8));
            if !bodies.is_empty() {
                // Up to 4 MB back, and some at the edge of the window.
                body.extend_from_slice(&bodies[bodies.len() - 1 - rng.below(bodies.len().min(150) as u64) as usize]);
                body.truncate(10_000);
            }
            body.extend((0..20_000 + rng.below(12_000)).map(|_| b'a' + rng.below(26) as u8));
            // Repeats its beginning.
            body.extend_from_within(1..400.min(body.len()));
            body.push(b'"');
            let id = matcher.push(
                Scope { domain: Domain::Public { guild: 1, view: 0 }, class: 0 },
                100,
                "MESSAGE_CREATE",
                &body,
            );
            for connection in &mut connections {
                // One of them is not sent all, so distances differ.
                if connection.seq % 2 == 0 || step % 7 > 0 {
                    connection.write_text(&mut rng, &mut matcher, Form::Json, (id, "MESSAGE_CREATE", &body));
                    sent_bytes += body.len();
                }
            }
            bodies.push(body);
        }
        assert!(sent_bytes > 8 << 20, "{sent_bytes} bytes on two connections are some windows");
    }
}

/// More other texts than a parse has slots for, each worth a reference.
#[test]
fn a_text_may_quote_hundreds_of_others() {
    for kind in [Kind::Zstd, Kind::WithDictionary(Known::all()), Kind::Deflate(Container::Zlib, 15)] {
        let mut rng = Rng::new(5);
        let mut matcher = Matcher::new(Form::Json, Tables::built_in(Form::Json), Limits::default());
        let mut connections: Vec<Connection> = (0..3).map(|_| connect(&mut rng, kind)).collect();
        let mut send = |rng: &mut Rng, body: &[u8]| {
            let id = matcher.push(
                Scope { domain: Domain::Public { guild: 1, view: 0 }, class: 0 },
                100,
                "MESSAGE_CREATE",
                body,
            );
            let texts = connections.iter_mut();
            texts.for_each(|stream| stream.write_text(rng, &mut matcher, Form::Json, (id, "MESSAGE_CREATE", body)));
        };
        let mut all: Vec<Vec<u8>> = Vec::new();
        for _ in 0..400 {
            let quoted: Vec<u8> = (0..28).map(|_| b'a' + rng.below(26) as u8).collect();
            send(&mut rng, &quoted);
            all.push(quoted);
        }
        // The last one first: no two of them are one reference.
        all.reverse();
        send(&mut rng, &all.concat());
    }
}
