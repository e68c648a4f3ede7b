//! Any bytes as input of the WebSocket decoder, split anywhere.
//!
//! Input       [flags, limit: u16 LE, n, n piece sizes, stream…]. Flags: 1 client role, 2 RSV1 allowed.
//! Oracle      no panic; the split changes neither events nor error; the heap stays within its bound;
//!             tungstenite accepts what we accept, with the same messages.
// max_len: 2048
#![no_main]

use guildhall_ws_proto::{Decoder, Event, Limits, Role, WsError};
use libfuzzer_sys::fuzz_target;
use std::io::{self, Read, Write};
use tungstenite::{Message, WebSocket, protocol};

#[derive(Debug, Default, PartialEq)]
struct Outcome {
    seen: Vec<Seen>,
    error: Option<WsError>,
    done: bool,
}

#[derive(Debug, PartialEq)]
enum Seen {
    Text(String),
    Binary(Vec<u8>),
    Compressed(bool, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
}

impl From<Event<'_>> for Seen {
    fn from(event: Event<'_>) -> Self {
        match event {
            Event::Text(text) => Self::Text(text.to_owned()),
            Event::Binary(payload) => Self::Binary(payload.to_vec()),
            Event::Compressed { text, payload } => Self::Compressed(text, payload.to_vec()),
            Event::Ping(payload) => Self::Ping(payload.to_vec()),
            Event::Pong(payload) => Self::Pong(payload.to_vec()),
            Event::Close { code, reason } => Self::Close(code.map(|code| (code, reason.to_owned()))),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[flags, low, high, n], rest)) = data.split_first_chunk::<4>() else { return };
    let Some((sizes, stream)) = rest.split_at_checked(usize::from(n % 32)) else { return };
    let role = if flags & 1 == 0 { Role::Server } else { Role::Client };
    let rsv1_allowed = flags & 2 != 0;
    let limits = Limits { message_bytes_max: u32::from(u16::from_le_bytes([low, high])) };
    let decoder = || {
        let mut decoder = Decoder::new(role, limits);
        decoder.set_rsv1_allowed(rsv1_allowed);
        decoder
    };

    let whole = decode(decoder(), limits, [stream]);
    assert_eq!(decode(decoder(), limits, stream.chunks(1)), whole, "byte by byte");
    assert_eq!(decode(decoder(), limits, pieces(sizes, stream)), whole, "in pieces");
    if !rsv1_allowed {
        compare(role, stream, &whole);
    }
});

/// Splits `stream` into pieces of the given sizes; the last piece is the rest.
fn pieces<'a>(sizes: &[u8], mut stream: &'a [u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for &size in sizes {
        let (piece, rest) = stream.split_at(usize::from(size).min(stream.len()));
        pieces.push(piece);
        stream = rest;
    }
    pieces.push(stream);
    pieces
}

fn decode<'a>(mut decoder: Decoder, limits: Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    // State of an incomplete frame, the message, one control frame.
    let heap_bytes_max = 128 + limits.message_bytes_max as usize + 125;
    let mut outcome = Outcome::default();
    for piece in pieces {
        let mut piece = piece.to_vec();
        let mut events = decoder.handle(&mut piece);
        loop {
            match events.poll() {
                Ok(Some(event)) => outcome.seen.push(event.into()),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(outcome.error.replace(error), None, "two errors");
                    break;
                }
            }
        }
        assert!(decoder.heap_bytes() <= heap_bytes_max, "{} bytes held", decoder.heap_bytes());
        assert!(!decoder.is_done() || decoder.heap_bytes() == 0, "done, and still holding");
    }
    outcome.done = decoder.is_done();
    outcome
}

/// A socket with `0` as input that then ends; it discards output.
struct Peer<'a>(&'a [u8]);

impl Read for Peer<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl Write for Peer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks `ours` against tungstenite's reading of the same stream.
fn compare(role: Role, stream: &[u8], ours: &Outcome) {
    let role = match role {
        Role::Server => protocol::Role::Server,
        Role::Client => protocol::Role::Client,
    };
    let config = protocol::WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    let mut socket = WebSocket::from_raw_socket(Peer(stream), role, Some(config));
    for expected in &ours.seen {
        let message = socket.read().unwrap_or_else(|error| panic!("{error}, where we see {expected:?}"));
        match expected {
            // Registered with IANA ("bad gateway"); tungstenite treats it as an error and replaces it.
            Seen::Close(Some((1014, _))) => assert!(message.is_close(), "{message:?}"),
            expected => assert_eq!(seen(message), *expected),
        }
    }
    if !ours.done {
        // Valid so far: they may only miss the end.
        match socket.read() {
            Err(tungstenite::Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake)) => {}
            other => panic!("{other:?}, where we see the end of the stream"),
        }
    }
}

fn seen(message: Message) -> Seen {
    match message {
        Message::Text(text) => Seen::Text(text.as_str().to_owned()),
        Message::Binary(payload) => Seen::Binary(payload.to_vec()),
        Message::Ping(payload) => Seen::Ping(payload.to_vec()),
        Message::Pong(payload) => Seen::Pong(payload.to_vec()),
        Message::Close(frame) => Seen::Close(frame.map(|frame| (frame.code.into(), frame.reason.as_str().to_owned()))),
        Message::Frame(_) => unreachable!("read() gives messages"),
    }
}
