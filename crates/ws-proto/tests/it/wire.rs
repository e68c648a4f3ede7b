//! Hand-written frames, independent of the crate's encoder, and the `check` that all tables use.

use guildhall_ws_proto::{Decoder, Event, Limits, Role, WsError};

pub const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
pub const FIN: u8 = 0x80;
pub const RSV1: u8 = 0x40;
pub const CONTINUATION: u8 = 0;
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;

/// An owned event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Text(String),
    Binary(Vec<u8>),
    Compressed { text: bool, payload: Vec<u8> },
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
}

impl From<Event<'_>> for Seen {
    fn from(event: Event<'_>) -> Self {
        match event {
            Event::Text(text) => Self::Text(text.to_owned()),
            Event::Binary(payload) => Self::Binary(payload.to_vec()),
            Event::Compressed { text, payload } => Self::Compressed { text, payload: payload.to_vec() },
            Event::Ping(payload) => Self::Ping(payload.to_vec()),
            Event::Pong(payload) => Self::Pong(payload.to_vec()),
            Event::Close { code, reason } => Self::Close(code, reason.to_owned()),
        }
    }
}

pub fn text(text: &str) -> Seen {
    Seen::Text(text.to_owned())
}

pub fn binary(payload: &[u8]) -> Seen {
    Seen::Binary(payload.to_vec())
}

/// All events and the error of an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub seen: Vec<Seen>,
    pub error: Option<WsError>,
}

/// A client's frame: `first` is FIN, RSV and opcode.
pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = head(first, 0x80, payload.len());
    frame.extend_from_slice(&MASK);
    frame.extend(payload.iter().enumerate().map(|(i, byte)| byte ^ MASK[i % 4]));
    frame
}

/// A server's frame.
pub fn plain(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = head(first, 0, payload.len());
    frame.extend_from_slice(payload);
    frame
}

fn head(first: u8, mask_bit: u8, len: usize) -> Vec<u8> {
    let mut head = vec![first];
    if len < 126 {
        head.push(mask_bit | len as u8);
    } else if len < 65_536 {
        head.push(mask_bit | 126);
        head.extend_from_slice(&(len as u16).to_be_bytes());
    } else {
        head.push(mask_bit | 127);
        head.extend_from_slice(&(len as u64).to_be_bytes());
    }
    head
}

pub fn server() -> Decoder {
    Decoder::new(Role::Server, Limits { message_bytes_max: 1 << 20 })
}

pub fn client() -> Decoder {
    Decoder::new(Role::Client, Limits { message_bytes_max: 1 << 20 })
}

/// Feeds `chunks` in order, each as a copy, and collects the events.
pub fn feed<'a>(decoder: &mut Decoder, chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut outcome = Outcome::default();
    for chunk in chunks {
        let mut chunk = chunk.to_vec();
        let mut events = decoder.handle(&mut chunk);
        loop {
            match events.poll() {
                Ok(Some(event)) => outcome.seen.push(event.into()),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(outcome.error.replace(error), None, "one error per stream");
                    break;
                }
            }
        }
    }
    outcome
}

/// Expects `expected` from a fresh decoder for the whole input, byte by byte, and split in two anywhere.
pub fn check_with(new: impl Fn() -> Decoder, input: &[Vec<u8>], expected: (&[Seen], Option<WsError>)) {
    let bytes = input.concat();
    let expected = Outcome { seen: expected.0.to_vec(), error: expected.1 };
    assert_eq!(feed(&mut new(), [&bytes[..]]), expected, "whole: {:02x?}", &bytes[..bytes.len().min(64)]);
    assert_eq!(feed(&mut new(), bytes.chunks(1)), expected, "byte by byte: {:02x?}", &bytes[..bytes.len().min(64)]);
    for cut in (0..bytes.len()).step_by(1 + bytes.len() / 300) {
        let (left, right) = bytes.split_at(cut);
        assert_eq!(feed(&mut new(), [left, right]), expected, "cut at {cut}: {:02x?}", &bytes[..bytes.len().min(64)]);
    }
}

/// Expects a server to decode frames of a client.
pub fn check(input: &[Vec<u8>], expected: &[Seen]) {
    check_with(server, input, (expected, None));
}

/// Expects a server to fail on frames of a client.
pub fn check_error(input: &[Vec<u8>], expected: &[Seen], error: WsError) {
    check_with(server, input, (expected, Some(error)));
}
