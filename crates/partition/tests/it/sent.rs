//! The table of sent bytes, against the bytes that sockets took.

use crate::fixture::*;
use guildhall_accounting::SentRow;
use guildhall_codec::Encoding;
use guildhall_guild::{Actor, Command};
use guildhall_partition::Compression;
use guildhall_test_kit::{ClientId, ClientParams, TestCluster, TestClusterConfig, id};

const ZSTD: ClientParams = ClientParams::new(Encoding::Etf, Compression::Zstd);
const PREPARED: ClientParams = ClientParams::deflate(Encoding::Json, false, 15);

fn all() -> [(&'static str, &'static str, ClientParams); 6] {
    [
        ("none", "json", ClientParams::JSON),
        ("none", "etf", ClientParams::ETF),
        ("zlib-stream", "json", ClientParams::new(Encoding::Json, Compression::Zlib)),
        ("zstd-stream", "etf", ZSTD),
        ("permessage-deflate", "json", PREPARED),
        ("permessage-deflate", "etf", ClientParams::deflate(Encoding::Etf, true, 15)),
    ]
}

/// One typing, then a message, then more than fit a socket at once.
fn talk(cluster: &mut TestCluster) {
    let typing = || Command::StartTyping(id(GENERAL));
    cluster.command(Actor::User(ana().id), typing()).expect("everybody may");
    cluster.run_until_idle();
    say(cluster, &ana(), GENERAL, &"alone ".repeat(40));
    cluster.run_until_idle();
    cluster.advance_with_heartbeats(20_000);
    cluster.command(Actor::User(ana().id), typing()).expect("everybody may");
    say_all(cluster, (0..7).map(|n| format!("{n} {}", "word ".repeat(40))));
    cluster.run_until_idle();
}

fn read_all(cluster: &mut TestCluster, client: ClientId) {
    let socket = cluster.client(client).socket().clone();
    socket.set_room(usize::MAX);
    socket.set_write_max(usize::MAX);
    cluster.take(client);
    cluster.run_until_idle();
    cluster.take(client);
}

fn rows(cluster: &TestCluster) -> Vec<SentRow> {
    cluster.partition().sent().rows().collect()
}

#[test]
fn s1_wire_bytes_are_what_sockets_took() {
    for (codec, encoding, params) in all() {
        let mut bodies = Vec::new();
        for batches in [false, true] {
            for (room, write_max) in [(usize::MAX, usize::MAX), (0, usize::MAX), (300, 7), (usize::MAX, 3)] {
                let which = format!("{codec} {encoding}, batches {batches}, room {room}, {write_max} at a time");
                let mut cluster = world_of(TestClusterConfig { batches, ..TestClusterConfig::default() });
                let client = live(&mut cluster, &pro(), Some(FULL), params);
                let socket = cluster.client(client).socket().clone();
                socket.set_room(room);
                socket.set_write_max(write_max);
                talk(&mut cluster);
                read_all(&mut cluster, client);
                let rows = rows(&cluster);
                let counters = cluster.partition().counters();
                assert_eq!(rows.iter().map(|row| row.sent.wire_bytes).sum::<u64>(), counters.sent_bytes, "{which}");
                assert!(rows.iter().all(|row| (row.codec, row.encoding) == (codec, encoding)), "{rows:?}");
                let count = |event: &str| rows.iter().find(|row| row.event == event).map_or(0, |row| row.sent.count);
                let of_events = ["READY", "GUILD_CREATE", "TYPING_START", "MESSAGE_CREATE"].map(count);
                assert_eq!(of_events, [1, 1, 2, 8], "{which}");
                assert!(count("other") > 1, "HELLO and heartbeat answers: {which}");
                bodies.push(counters.sent_body_bytes);
                let dispatches = rows.iter().filter(|row| row.event != "other");
                let raw_bytes = dispatches.map(|row| row.sent.raw_bytes).sum::<u64>();
                assert!((1..12 * 120).contains(&(raw_bytes - counters.sent_body_bytes)), "twelve envelopes: {which}");
            }
        }
        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "however slow the client reads: {bodies:?}");
    }
}

#[test]
fn a_compressed_dispatch_has_fewer_wire_bytes_and_a_plain_one_its_header_more() {
    let mut cluster = world();
    let clients = all().map(|(_, _, params)| live(&mut cluster, &pro(), Some(FULL), params));
    talk(&mut cluster);
    clients.into_iter().for_each(|client| read_all(&mut cluster, client));
    let rows = rows(&cluster);
    for (codec, encoding, _) in all() {
        let of_messages = |row: &&SentRow| (row.event, row.codec, row.encoding) == ("MESSAGE_CREATE", codec, encoding);
        let sent = rows.iter().find(of_messages).expect("each was sent messages").sent;
        assert_eq!(sent.count, 8);
        match codec {
            // Each is longer than 125 bytes and shorter than 64 KiB.
            "none" => assert_eq!(sent.wire_bytes, sent.raw_bytes + 8 * 4),
            _ => assert!(sent.wire_bytes < sent.raw_bytes, "{codec} {encoding}: {sent:?}"),
        }
    }
}

#[test]
fn a_dispatch_that_is_compressed_alone_has_its_own_codec() {
    let mut cluster = world();
    let client = live(&mut cluster, &ana(), None, ClientParams::JSON.with_compressed_payloads());
    say(&mut cluster, &ana(), GENERAL, "hello");
    cluster.take(client);
    let rows = rows(&cluster);
    let codec = |event: &str| rows.iter().find(|row| row.event == event).map(|row| row.codec);
    assert_eq!([codec("READY"), codec("MESSAGE_CREATE")], [Some("zlib-payload"), Some("none")]);
}

#[test]
fn s3_a_sample_of_the_compressions_is_timed() {
    for (codec, _, params) in all() {
        let mut cluster = world();
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        for round in 0..8 {
            say_all(&mut cluster, (0..100).map(|n| format!("{round} {n} {}", "word ".repeat(40))));
            cluster.run_until_idle();
            cluster.take(client);
            cluster.advance_with_heartbeats(1_000);
        }
        let rows = rows(&cluster);
        let timed: u64 = rows.iter().map(|row| row.sent.timed).sum();
        assert_eq!(rows.iter().map(|row| row.sent.timed_ns).sum::<u64>(), 1_000 * timed, "the transport's clock");
        match codec {
            "none" => assert_eq!(timed, 0, "nothing is compressed"),
            _ => assert!((2..60).contains(&timed), "{codec}: {timed} of some 800"),
        }
    }
}
