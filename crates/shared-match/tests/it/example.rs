//! The worked example of `docs/shared-match.md`: three events, two connections, and every byte of what these are sent.
//!
//! `GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-shared-match --test it example` updates the document.

use flate2::{Decompress, FlushDecompress};
use guildhall_shared_match::{Container, DeflateStream, Domain, Form, Limits, Matcher, Scope, Tables, ZstdStream};
use std::{fmt::Write as _, fs, path::PathBuf};

const BEGIN: &str = "<!-- example: begin -->\n";
const END: &str = "<!-- example: end -->\n";

const NAME: &str = "MESSAGE_CREATE";
/// Literals of one line.
const SHOWN_MAX: usize = 80;
const GUILD: u64 = 7;
const GENERAL: u64 = 71;
const STAFF: u64 = 72;
const PUBLIC: Domain = Domain::Public { guild: GUILD, view: 0 };
const PRIVATE: Domain = Domain::Restricted { guild: GUILD, channel: STAFF, view: 0 };

struct Event {
    channel: &'static str,
    domain: Domain,
    class: u64,
    body: &'static str,
}

const EVENTS: [Event; 3] = [
    Event {
        channel: "#general",
        domain: PUBLIC,
        class: GENERAL,
        body: r#"{"channel_id":"71","author":"mia","content":"the lift is out of order again"}"#,
    },
    Event {
        channel: "#staff",
        domain: PRIVATE,
        class: STAFF,
        body: r#"{"channel_id":"72","author":"mia","content":"the lift key is with mia"}"#,
    },
    Event {
        channel: "#general",
        domain: PUBLIC,
        class: GENERAL,
        body: r#"{"channel_id":"71","author":"leo","content":"who has the lift key?"}"#,
    },
];

/// A connection: its name, whether it may view #staff, and the number of its next dispatch.
struct Connection {
    name: &'static str,
    is_staff: bool,
    seq: u64,
    deflate: DeflateStream,
    zstd: ZstdStream,
    inflate: Decompress,
    /// Decoded stream of the client, and the position of each event in it.
    decoded: Vec<u8>,
    events: Vec<(usize, usize)>,
}

impl Connection {
    fn new(name: &'static str, is_staff: bool, seq: u64) -> Self {
        Self {
            name,
            is_staff,
            seq,
            deflate: DeflateStream::new(Container::Zlib, 15),
            zstd: ZstdStream::default(),
            inflate: Decompress::new(true),
            decoded: Vec::new(),
            events: Vec::new(),
        }
    }

    /// The event that a byte of the decoded stream belongs to.
    fn event_at(&self, at: usize) -> usize {
        self.events.iter().rfind(|(_, begin)| *begin <= at).expect("it was decoded").0
    }
}

/// A step of LZ77.
enum Token {
    Literal(u8),
    Copy { length: usize, distance: usize },
}

/// Bits of deflate, lowest first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: usize) -> usize {
        let bits =
            (0..count).map(|bit| (usize::from(self.bytes[(self.at + bit) / 8]) >> ((self.at + bit) % 8) & 1) << bit);
        let value = bits.sum();
        self.at += count;
        value
    }

    /// A symbol of a code that is given as lengths (RFC 1951 §3.2.2).
    fn symbol(&mut self, lengths: &[u8]) -> usize {
        let (mut code, mut first, mut length) = (0, 0, 0);
        loop {
            length += 1;
            code = code << 1 | self.take(1);
            let of_length = || (0..lengths.len()).filter(|symbol| usize::from(lengths[*symbol]) == length);
            if let Some(symbol) = (code >= first).then(|| of_length().nth(code - first)).flatten() {
                return symbol;
            }
            first = (first + of_length().count()) << 1;
        }
    }
}

/// The tokens of one message, which ends on a byte: RFC 1951 §3.2.
fn tokens(bytes: &[u8]) -> Vec<Token> {
    const EXTRA: [(usize, usize); 30] = {
        let mut all = [(1, 0); 30];
        let mut symbol = 1;
        while symbol < 30 {
            let bits = if symbol < 4 { 0 } else { symbol / 2 - 1 };
            all[symbol] = (all[symbol - 1].0 + (1 << all[symbol - 1].1), bits);
            symbol += 1;
        }
        all
    };
    let length_of = |symbol: usize, bits: &mut Bits<'_>| match symbol {
        0..8 => 3 + symbol,
        28 => 258,
        _ => {
            let extra = symbol / 4 - 1;
            3 + ((4 + symbol % 4) << extra) + bits.take(extra)
        }
    };
    let mut found = Vec::new();
    let mut bits = Bits { bytes, at: 0 };
    while bits.at + 3 < 8 * bytes.len() {
        assert_eq!(bits.take(1), 0, "a stream has no last block");
        let (literals, distances): (Vec<u8>, Vec<u8>) = match bits.take(2) {
            0 => {
                bits.at = bits.at.next_multiple_of(8);
                let count = bits.take(16);
                assert_eq!(bits.take(16), !count & 0xFFFF);
                found.extend((0..count).map(|_| Token::Literal(bits.take(8) as u8)));
                continue;
            }
            1 => ([[8; 144].as_slice(), &[9; 112], &[7; 24], &[8; 8]].concat(), vec![5; 30]),
            _ => {
                let (literals, distances, codes) = (bits.take(5) + 257, bits.take(5) + 1, bits.take(4) + 4);
                let mut of_lengths = [0; 19];
                for at in [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15].into_iter().take(codes) {
                    of_lengths[at] = bits.take(3) as u8;
                }
                let mut all: Vec<u8> = Vec::new();
                while all.len() < literals + distances {
                    let (value, count) = match bits.symbol(&of_lengths) {
                        16 => (*all.last().expect("a length to repeat"), 3 + bits.take(2)),
                        17 => (0, 3 + bits.take(3)),
                        18 => (0, 11 + bits.take(7)),
                        length => (length as u8, 1),
                    };
                    all.extend((0..count).map(|_| value));
                }
                let distances = all.split_off(literals);
                (all, distances)
            }
        };
        loop {
            match bits.symbol(&literals) {
                256 => break,
                byte @ 0..256 => found.push(Token::Literal(byte as u8)),
                symbol => {
                    let length = length_of(symbol - 257, &mut bits);
                    let (base, extra) = EXTRA[bits.symbol(&distances)];
                    found.push(Token::Copy { length, distance: base + bits.take(extra) });
                }
            }
        }
    }
    found
}

fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    bytes.chunks(32).map(|bytes| format!("    {}\n", line(bytes))).collect()
}

/// A run of ASCII literals that begins at a position: a line of the document for each `SHOWN_MAX` of them.
fn put_literals(lines: &mut String, at: usize, literals: &str) {
    for (index, piece) in literals.as_bytes().chunks(SHOWN_MAX).enumerate() {
        let (at, piece) = (at + index * SHOWN_MAX, String::from_utf8_lossy(piece));
        let _ = writeln!(lines, "{at:>6}  literals            |{piece}|");
    }
}

/// Describes a message token by token.
fn explain(connection: &mut Connection, event: usize, wire: &[u8], out: &mut String) {
    let begin = connection.decoded.len();
    connection.events.push((event, begin));
    let header = if begin == 0 { 2 } else { 0 };
    let mut literals = String::new();
    let mut literals_at = begin;
    let mut lines = String::new();
    for token in tokens(&wire[header..]) {
        match token {
            Token::Literal(byte) => {
                if literals.is_empty() {
                    literals_at = connection.decoded.len();
                }
                literals.push(char::from(byte));
                connection.decoded.push(byte);
            }
            Token::Copy { length, distance } => {
                put_literals(&mut lines, literals_at, &std::mem::take(&mut literals));
                let (to, from) = (connection.decoded.len(), connection.decoded.len() - distance);
                for at in from..from + length {
                    connection.decoded.push(connection.decoded[at]);
                }
                let source = connection.event_at(from) + 1;
                let text = String::from_utf8_lossy(&connection.decoded[to..]).into_owned();
                let copy = format!("{length} from {distance} back");
                let _ =
                    writeln!(lines, "{to:>6}  {copy:<18}  |{text}| of event {source}, at byte {from} of the stream");
            }
        }
    }
    put_literals(&mut lines, literals_at, &literals);
    let end = connection.decoded.len();
    let _ = writeln!(
        out,
        "To {}, seq {}: bytes {begin} to {} of the stream, {} bytes of deflate instead of {}:\n\n```text\n{}\n{}```\n",
        connection.name,
        connection.seq,
        end - 1,
        wire.len(),
        end - begin,
        hex(wire),
        lines,
    );
}

/// The example in the document.
fn example() -> String {
    let mut matcher = Matcher::new(Form::Json, Tables::built_in(Form::Json), Limits::default());
    let mut connections = [Connection::new("Ada", true, 41), Connection::new("Ben", false, 7)];
    let mut out = String::new();
    let mut sizes = String::new();
    for (index, event) in EVENTS.iter().enumerate() {
        let is_private = event.domain == PRIVATE;
        let views = |connection: &Connection| connection.is_staff || !is_private;
        let audience = connections.iter().filter(|connection| views(connection)).count() as u32;
        let _ = writeln!(out, "**Event {}**, in {}:\n\n```json\n{}\n```\n", index + 1, event.channel, event.body);
        let scope = Scope { domain: event.domain, class: event.class };
        let id = matcher.push(scope, audience, NAME, event.body.as_bytes()).expect("it is short");
        for connection in connections.iter_mut().filter(|connection| views(connection)) {
            let mut wire = Vec::new();
            matcher.deflate(&mut connection.deflate, id, connection.seq, &mut wire).expect("the newest body is kept");
            explain(connection, index, &wire, &mut out);
            let message = format!(r#"{{"t":"{NAME}","s":{},"op":0,"d":{}}}"#, connection.seq, event.body);
            // zlib's decoder, and this test's own one.
            let mut read = Vec::with_capacity(1 << 12);
            connection.inflate.decompress_vec(&wire, &mut read, FlushDecompress::Sync).expect("zlib reads it");
            assert_eq!(String::from_utf8_lossy(&read), message);
            assert!(connection.decoded.ends_with(message.as_bytes()));
            let mut zstd = Vec::new();
            matcher.zstd(&mut connection.zstd, id, connection.seq, &mut zstd).expect("the newest body is kept");
            let _ = writeln!(
                sizes,
                "| {} | {} | {} | {} | {} |",
                index + 1,
                connection.name,
                message.len(),
                wire.len(),
                zstd.len()
            );
            connection.seq += 1;
        }
    }
    let _ = writeln!(out, "| event | to | message | deflate | zstd |\n|---|---|---|---|---|\n{sizes}");
    out
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test reads the document, and updates it on request")]
fn the_document_shows_what_is_sent() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/shared-match.md");
    let document = fs::read_to_string(&path).expect("the document can be read");
    let (before, rest) = document.split_once(BEGIN).expect("the example begins");
    let (shown, after) = rest.split_once(END).expect("the example ends");
    let example = example();
    if std::env::var_os("GUILDHALL_UPDATE_DOCS").is_some() {
        fs::write(&path, [before, BEGIN, &example, END, after].concat()).expect("the document can be written");
        return;
    }
    let differs = shown.lines().zip(example.lines()).find(|(shown, is)| shown != is);
    assert!(
        shown == example,
        "docs/shared-match.md shows other bytes than are sent: {differs:?}; GUILDHALL_UPDATE_DOCS=1 updates it"
    );
}

/// Statements of the text around the example.
#[test]
fn only_the_connection_that_was_sent_the_second_event_refers_to_it() {
    let example = example();
    let third = example.split("**Event 3**").nth(1).expect("it is there");
    let (ada, ben) = third.split_once("To Ben").expect("both are sent it");
    assert!(ada.contains("|the lift key| of event 2,"), "{ada}");
    assert!(ben.contains("|the lift | of event 1,"), "{ben}");
    assert!(!ben.contains("of event 2,"), "{ben}");
}
