//! Messages: bodies that resemble each other as a gateway's do, and some that resemble nothing.

use guildhall_shared_match::{Domain, Form, Scope};
use guildhall_stdx::Rng;

const NAMES: [&str; 4] = ["MESSAGE_CREATE", "TYPING_START", "GUILD_MEMBER_LIST_UPDATE", "X"];
const WORDS: [&str; 16] = [
    "the",
    "quick",
    "reply",
    "is",
    "on",
    "its",
    "way",
    "наверное",
    "ありがとう",
    "🎉",
    "lol",
    "why",
    "\\u0000",
    "guild",
    "of",
    "hall",
];

/// An event for the connections of its class.
pub struct Event {
    pub scope: Scope,
    pub name: &'static str,
    pub body: Vec<u8>,
}

fn sentence(rng: &mut Rng, words: u64) -> String {
    let words: Vec<&str> = (0..words).map(|_| WORDS[rng.below(WORDS.len() as u64) as usize]).collect();
    words.join(" ")
}

pub fn event(rng: &mut Rng, form: Form, id: u64) -> Event {
    let class = rng.below(4);
    let name = NAMES[rng.below(NAMES.len() as u64) as usize];
    let domain = match class {
        0 => Domain::Public { guild: 1, view: 0 },
        1 => Domain::Restricted { guild: 1, channel: 1, view: 0 },
        2 => Domain::Public { guild: 2, view: 0 },
        _ => Domain::Direct { channel: 3 },
    };
    let scope = Scope { domain, class };
    let words = match rng.below(40) {
        0 => 3_000,
        1 => 0,
        _ => rng.below(40),
    };
    let mut body = format!(
        "{{\"id\":\"{}\",\"channel_id\":\"{}\",\"author\":{{\"id\":\"{}\",\"username\":\"user{}\",\"bot\":false}},\"content\":\"{}\"}}",
        1_000_000_000_000 + id * 977,
        class * 7_777,
        rng.below(9) * 123_456_789,
        rng.below(9),
        sentence(rng, words),
    )
    .into_bytes();
    match (form, rng.below(50)) {
        // Bytes that no trained code favours.
        (Form::Etf, 0..25) => body.extend((0..rng.below(300)).map(|_| rng.next_u64() as u8)),
        (_, 25) => body = noise(rng, 5_000),
        (_, 26) => body = b"{}".to_vec(),
        (_, 27) => body = vec![b'a'; rng.below(200_000) as usize],
        _ => {}
    }
    Event { scope, name, body }
}

/// Printable, and nothing in it repeats.
pub fn noise(rng: &mut Rng, bytes_max: u64) -> Vec<u8> {
    (0..rng.below(bytes_max)).map(|_| b'!' + rng.below(90) as u8).collect()
}

/// A single-recipient message.
pub fn private(rng: &mut Rng) -> Vec<u8> {
    match rng.below(8) {
        0 => Vec::new(),
        1 => noise(rng, 400),
        2 => (0..rng.below(70_000)).map(|_| rng.next_u64() as u8).collect(),
        3 => vec![rng.next_u64() as u8; rng.below(400_000) as usize],
        4 => sentence(rng, 30_000).into_bytes(),
        _ => sentence(rng, 60).into_bytes(),
    }
}

/// The whole message around a body, as the gateway's protocol has it.
pub fn whole(form: Form, name: &str, seq: u64, body: &[u8]) -> Vec<u8> {
    match form {
        Form::Json => [format!("{{\"t\":\"{name}\",\"s\":{seq},\"op\":0,\"d\":").as_bytes(), body, b"}"].concat(),
        Form::Etf => {
            let seq = match seq {
                0..256 => vec![97, seq as u8],
                _ => [&[98][..], &(seq as u32).to_be_bytes()].concat(),
            };
            [
                b"\x83t\0\0\0\x04d\0\x01d".as_slice(),
                body,
                b"d\0\x02opa\0d\0\x01s",
                &seq,
                b"d\0\x01td\0",
                &[name.len() as u8],
                name.as_bytes(),
            ]
            .concat()
        }
    }
}
