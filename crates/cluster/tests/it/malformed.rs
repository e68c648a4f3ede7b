//! Bytes that no node of ours wrote.

use crate::{
    commands::{commands, replies},
    examples::*,
    messages::{relay_messages, to_guild},
};
use guildhall_cluster::wire::{DEPTH_MAX, VERSION, WireError, decode, encode};
use guildhall_guild::{Command, Refusal, Reply};
use guildhall_guild_protocol::{BackendEvent, MemberTable, RelayMessage, ToGuild};
use guildhall_member_list::Interval;
use guildhall_model::{Member, UserId};
use proptest::prelude::*;
use serde::Serialize;
use serde_json::Value;
use std::sync::{Arc, LazyLock};

#[test]
fn w1_an_unknown_version_is_refused() {
    let bytes = encode(&to_guild()[0]);
    for found in [0, VERSION + 1, u16::MAX] {
        let refused = decode::<ToGuild>(found, &bytes).unwrap_err();
        assert_eq!(refused, WireError::UnknownVersion { found });
        assert!(refused.to_string().contains("upgrade the older node"), "{refused}");
    }
}

fn problem<T: serde::de::DeserializeOwned + std::fmt::Debug>(bytes: &[u8]) -> String {
    match decode::<T>(VERSION, bytes) {
        Err(WireError::Malformed(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn w2_lengths_do_not_exceed_the_bytes() {
    // An array, a map and a text of 2³² − 1.
    for marker in [0xdd, 0xdf, 0xdb, 0xc6] {
        let bytes = [marker, 0xff, 0xff, 0xff, 0xff, 0];
        assert!(problem::<Vec<u64>>(&bytes).contains("missing"));
        assert!(problem::<MemberTable>(&bytes).contains("missing"));
    }
    let whole = encode(&*member(7));
    for end in 0..whole.len() {
        assert!(problem::<Member>(&whole[..end]).contains("missing"), "{end}");
    }
    assert!(problem::<Member>(&[&whole[..], &[0xc0]].concat()).contains("follow"));
    assert!(problem::<Value>(&[0xc1]).contains("type"));
    assert!(problem::<Value>(&[0xd6, 0, 0, 0, 0, 0]).contains("type"));
}

/// As deep as parsers of JSON accept, in a message in an event; and no recursion beyond, on a small stack.
#[test]
fn w2_nesting_is_bounded() {
    let deep = |levels: usize| (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    assert_eq!(decode::<Value>(VERSION, &encode(&deep(DEPTH_MAX))).ok(), Some(deep(DEPTH_MAX)));
    assert!(problem::<Value>(&encode(&deep(DEPTH_MAX + 1))).contains("deep"));
    let mut bytes = vec![0x91; 1_000_000];
    bytes.push(0xc0);
    assert!(problem::<Value>(&bytes).contains("deep"));

    let embed = serde_json::from_str::<Value>(&format!("{}{}", "[".repeat(127), "]".repeat(127))).expect("JSON");
    let mut message = guildhall_model::Message::clone(&message(1));
    message.embeds = vec![embed];
    let reply = guildhall_guild::MessageReply { message: Arc::new(message), reactions: Vec::new(), referenced: None };
    crate::round_trip::crossed(&Reply::Created(Box::new(Reply::Message(Box::new(reply)))));

    #[derive(Serialize)]
    enum Nested {
        #[serde(rename = "WithReason")]
        Reason(&'static str, Box<Nested>),
        #[serde(rename = "Created")]
        Created(Box<Nested>),
        #[serde(rename = "DeleteGuild")]
        Command,
        #[serde(rename = "Done")]
        Reply,
    }
    let commands = |levels| (0..levels).fold(Nested::Command, |inner, _| Nested::Reason("", Box::new(inner)));
    let replies = |levels| (0..levels).fold(Nested::Reply, |inner, _| Nested::Created(Box::new(inner)));
    assert!(decode::<Command>(VERSION, &encode(&commands(DEPTH_MAX / 2))).is_ok());
    assert!(decode::<Reply>(VERSION, &encode(&replies(DEPTH_MAX))).is_ok());
    assert!(problem::<Command>(&encode(&commands(DEPTH_MAX / 2 + 1))).contains("deep"));
    assert!(problem::<Reply>(&encode(&replies(DEPTH_MAX + 1))).contains("deep"));
}

/// The table of `wire` promises it to operators who upgrade one node after the other.
#[test]
fn w1_an_older_node_ignores_fields_and_refuses_variants() {
    #[derive(Serialize)]
    enum Newer {
        Detach { session: guildhall_guild_protocol::SessionKey, why: &'static str },
        Wave { session: guildhall_guild_protocol::SessionKey },
    }
    let session = crate::messages::SESSION;
    let received = decode::<ToGuild>(VERSION, &encode(&Newer::Detach { session, why: "bored" }));
    assert!(matches!(received, Ok(ToGuild::Detach { session: of }) if of == session), "{received:?}");
    let problem = problem::<ToGuild>(&encode(&Newer::Wave { session }));
    assert!(problem.contains("Wave"), "{problem}");
    // A newer node reads a patch that an older one wrote without the fields that it does not know.
    let patch: guildhall_guild::RolePatch = decode(VERSION, &[0x80]).expect("an empty map");
    assert_eq!(format!("{patch:?}"), format!("{:?}", guildhall_guild::RolePatch::default()));
}

#[test]
fn members_in_any_order_make_a_sorted_table() {
    let entries: Vec<_> = [5, 3, 9, 3, 1].map(entry).into();
    let table: MemberTable = decode(VERSION, &encode(&entries)).expect("a sequence of members");
    assert_eq!(table.iter().map(|entry| entry.member.user.id).collect::<Vec<_>>(), [1, 3, 5, 9].map(id));
    assert_eq!(table.len(), 4);
}

/// Their owner checked them, and arithmetic relies on it.
#[test]
fn intervals_and_ids_keep_their_bounds() {
    let interval = |ends: [u64; 2]| decode::<Interval>(VERSION, &encode(&ends)).is_ok();
    assert!(interval([0, 0]) && interval([100, 499]));
    assert!(![[5, 4], [0, 400], [0, u64::MAX], [1 << 32, 1 << 32]].into_iter().any(interval));
    assert!(decode::<UserId>(VERSION, &encode(&(u64::MAX >> 1))).is_ok());
    assert!(decode::<UserId>(VERSION, &encode(&u64::MAX)).is_err());
    assert!(decode::<BackendEvent>(VERSION, &encode(&serde_json::json!({"name": "READY", "body": "{}"}))).is_err());
    assert!(decode::<BackendEvent>(VERSION, &encode(&serde_json::json!({"name": "X", "body": "{"}))).is_err());
}

/// Encoded examples of every kind of message, as long as a mutation has a chance to meet a marker.
static WHOLE: LazyLock<Vec<(usize, Vec<u8>)>> = LazyLock::new(|| {
    let mut whole: Vec<(usize, Vec<u8>)> = Vec::new();
    whole.extend(to_guild().iter().map(|message| (0, encode(message))));
    whole.extend(relay_messages().iter().map(|message| (1, encode(message))));
    whole.extend(commands().iter().map(|command| (2, encode(command))));
    whole.extend(replies().iter().map(|reply| (3, encode(reply))));
    whole.extend(crate::commands::refusals().iter().map(|refusal| (4, encode(refusal))));
    whole
});

fn decode_any(kind: usize, bytes: &[u8]) {
    match kind {
        0 => drop(decode::<ToGuild>(VERSION, bytes)),
        1 => drop(decode::<RelayMessage>(VERSION, bytes)),
        2 => drop(decode::<Command>(VERSION, bytes)),
        3 => drop(decode::<Reply>(VERSION, bytes)),
        _ => drop(decode::<Refusal>(VERSION, bytes)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn w2_mutated_bytes_never_panic(
        of in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6),
        as_kind in prop::option::of(0..5_usize),
    ) {
        let (kind, bytes) = &WHOLE[of.index(WHOLE.len())];
        let mut bytes = bytes.clone();
        for (at, byte, change) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match change {
                0 => bytes[at] = byte,
                1 => bytes[at] ^= 1 << (byte % 8),
                2 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        decode_any(as_kind.unwrap_or(*kind), &bytes);
    }

    #[test]
    fn w2_any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..5_usize) {
        decode_any(kind, &bytes);
    }
}
