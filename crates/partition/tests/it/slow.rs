//! Slow consumers: they delay only themselves, and past the limits they are cut.

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_partition::Compression;
use guildhall_test_kit::{ClientParams, Hold, Received};

const ZSTD: ClientParams = ClientParams::new(Encoding::Json, Compression::Zstd);
const PREPARED: ClientParams = ClientParams::deflate(Encoding::Json, false, 15);
const ZLIB_ETF: ClientParams = ClientParams::new(Encoding::Etf, Compression::Zlib);
const TAKEOVER: ClientParams = ClientParams::deflate(Encoding::Json, true, 15);

#[test]
fn everything_arrives_whole_however_little_a_socket_takes() {
    for params in [
        ClientParams::JSON,
        ClientParams::ETF,
        ClientParams::JSON.with_compressed_payloads(),
        ZSTD,
        ZLIB_ETF,
        ClientParams::deflate(Encoding::Json, false, 15),
        ClientParams::deflate(Encoding::Etf, false, 15),
        ClientParams::deflate(Encoding::Json, true, 15),
    ] {
        for (room, write_max) in [(9, usize::MAX), (13, 5), (700, 100), (usize::MAX, 3), (3_000, 999)] {
            let mut cluster = world();
            let client = live(&mut cluster, &pro(), Some(FULL), params);
            let first = cluster.client(client).seq + 1;
            let socket = cluster.client(client).socket().clone();
            socket.set_room(room);
            socket.set_write_max(write_max);
            say_all(&mut cluster, (0..25).map(|n| format!("{n}")));
            cluster.run_until_idle();
            say_all(&mut cluster, (25..30).map(|n| format!("{n}")));
            let expected: Vec<(u64, String)> = (0..30).map(|n| (first + n, n.to_string())).collect();
            assert_eq!(heard(&mut cluster, client), expected, "{params:?}, room {room}, {write_max} at a time");
        }
    }
}

#[test]
fn a_batch_is_written_in_few_calls() {
    for params in [ClientParams::JSON, ClientParams::ETF, ZSTD, ZLIB_ETF, PREPARED, TAKEOVER] {
        let mut cluster = world();
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        let before = cluster.client(client).socket().writes_count();
        say_all(&mut cluster, (0..32).map(|n| format!("{n}")));
        assert_eq!(heard(&mut cluster, client).len(), 32, "{params:?}");
        assert_eq!(cluster.client(client).socket().writes_count() - before, 2, "sixteen frames a call, {params:?}");
        say(&mut cluster, &ana(), GENERAL, "alone");
        cluster.run_until_idle();
        assert_eq!(cluster.client(client).socket().writes_count() - before, 3, "{params:?}");
    }
}

/// Compressed bytes cannot be discarded: they wait for a client that does not read, so only as many are made
/// as a write needs.
#[test]
fn large_messages_are_not_compressed_ahead() {
    for params in [ZSTD, ZLIB_ETF, TAKEOVER] {
        let mut cluster = world();
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        let mut rng = guildhall_stdx::Rng::new(1);
        // No two are alike, so that each takes most of a kilobyte.
        let large = |rng: &mut guildhall_stdx::Rng| (0..1_900).map(|_| (b'a' + rng.below(26) as u8) as char).collect();
        let contents: Vec<String> = (0..16).map(|_| large(&mut rng)).collect();
        let before = cluster.client(client).socket().writes_count();
        say_all(&mut cluster, contents.iter().cloned());
        let heard: Vec<String> = heard(&mut cluster, client).into_iter().map(|(_, content)| content).collect();
        assert_eq!(heard, contents, "{params:?}");
        let writes = cluster.client(client).socket().writes_count() - before;
        assert!((4..16).contains(&writes), "{writes} writes, {params:?}");
    }
}

#[test]
fn a_batch_keeps_the_order_of_all_kinds_of_dispatches() {
    for params in [ClientParams::JSON, ClientParams::JSON.with_compressed_payloads(), ClientParams::ETF, ZSTD, PREPARED]
    {
        let mut cluster = world();
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        cluster.client(client).send(
            8,
            &serde_json::json!({"guild_id": guildhall_test_kit::id::<()>(GUILD).to_string(), "query": "", "limit": 0}),
        );
        say(&mut cluster, &ana(), GENERAL, "1");
        nick(&mut cluster, &bob(), "B");
        system(&mut cluster, guildhall_guild::Command::RemoveMember(pro().id));
        system(&mut cluster, guildhall_guild::Command::AddMember(pro()));
        let first = cluster.client(client).seq + 1;
        let names = cluster.names(client);
        let seqs: Vec<u64> = names.iter().map(|(seq, _)| *seq).collect();
        assert_eq!(seqs, (first..first + names.len() as u64).collect::<Vec<_>>(), "{names:?}");
        let order: Vec<&str> =
            names.iter().map(|(_, name)| name.as_str()).filter(|name| name.starts_with("GUILD_")).collect();
        assert!(order.starts_with(&["GUILD_MEMBER_UPDATE", "GUILD_DELETE", "GUILD_CREATE"]), "{names:?}");
    }
}

#[test]
fn a_stalled_client_is_cut_and_can_resume() {
    for params in [ClientParams::JSON, ZSTD] {
        let mut cluster = world();
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        cluster.stop_reading(client);
        cluster.client(client).socket().set_room(100);
        say(&mut cluster, &ana(), GENERAL, "too much");
        cluster.run_until_idle();
        assert!(cluster.client(client).socket().is_full());
        cluster.advance(29_999);
        assert_eq!(cluster.partition().conns_count(), 1);
        cluster.advance(1);
        assert_eq!(cluster.partition().conns_count(), 0);
        assert_eq!(cluster.partition().counters().slow_consumers_total, 1);
        let (_, names) = replayed(&mut cluster, client, &pro());
        assert_eq!(names.len(), 1);
    }
}

#[test]
fn a_client_that_reads_a_little_is_not_cut() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    let socket = cluster.client(client).socket().clone();
    cluster.stop_reading(client);
    socket.set_room(1_600);
    say_all(&mut cluster, (0..20).map(|n| format!("{n}")));
    // For longer than a write may stall, but not for longer than a log is kept.
    for _ in 0..10 {
        cluster.advance(20_000);
        cluster.client(client).heartbeat();
        cluster.read_some(client, 1_200);
        cluster.run_until_idle();
    }
    assert_eq!(cluster.partition().counters().slow_consumers_total, 0);
    socket.set_room(usize::MAX);
    cluster.start_reading(client);
    assert_eq!(heard(&mut cluster, client).len(), 20);
}

#[test]
fn a_client_behind_past_the_limit_is_cut_and_its_session_ends() {
    for (events, bytes) in [(20, usize::MAX), (usize::MAX, 20_000)] {
        let mut cluster = world_with(|config| {
            (config.replay_events_max, config.replay_bytes_max) = (5, 1_000);
            (config.backlog_events_max, config.backlog_bytes_max) = (events, bytes);
        });
        let slow = live_bot(&mut cluster);
        let quick = live(&mut cluster, &bob(), None, ClientParams::ETF);
        cluster.take(slow);
        cluster.stop_reading(slow);
        cluster.client(slow).socket().set_room(10);
        let mut sent = 0;
        while cluster.partition().sessions_count() == 2 {
            say(&mut cluster, &ana(), GENERAL, "and so on");
            cluster.run_until_idle();
            sent += 1;
        }
        assert!((15..=40).contains(&sent), "{sent}");
        assert_eq!(heard(&mut cluster, quick).len(), sent, "no other session waits");
        assert_eq!(cluster.partition().conns_count(), 1);
        refused(&mut cluster, slow, &pro());
    }
}

#[test]
fn a_client_that_sends_without_reading_is_cut() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.stop_reading(client);
    cluster.client(client).socket().set_room(0);
    for _ in 0..64 {
        cluster.client(client).heartbeat();
    }
    cluster.run_until_idle();
    assert_eq!(cluster.partition().conns_count(), 1);
    for _ in 0..2 {
        cluster.client(client).ping(b"are you there");
    }
    cluster.run_until_idle();
    assert_eq!(cluster.partition().conns_count(), 0);
    replayed(&mut cluster, client, &pro());
}

#[test]
fn a_flood_during_the_token_check_is_cut_short() {
    let mut cluster = world();
    cluster.hold(Hold::TokenChecks);
    let client = cluster.connect(ClientParams::JSON);
    cluster.client(client).identify(guildhall_test_kit::identify_payload(&pro().username, Some(FULL)));
    cluster.run_until_idle();
    // From here on the server does not read: the bytes wait in the socket, and cost no memory of the process.
    assert!(!cluster.client(client).socket().is_server_reading());
    (0..300).for_each(|_| cluster.client(client).send_raw(&[b' '; 1_000]));
    assert_eq!(cluster.close_code(client), None);
    assert_eq!(cluster.client(client).socket().to_server_bytes(), 300 * 1_008);

    // Bytes that arrive in one read with the IDENTIFY are held, up to the limit.
    for (kilobytes, is_closed) in [(60, false), (70, true)] {
        let client = cluster.connect(ClientParams::JSON);
        cluster.client(client).identify(guildhall_test_kit::identify_payload(&pro().username, Some(FULL)));
        (0..kilobytes).for_each(|_| cluster.client(client).send_raw(&[b' '; 1_000]));
        assert_eq!(cluster.close_code(client).is_some(), is_closed, "{kilobytes} KB");
    }
}

#[test]
fn a_close_frame_follows_started_frames() {
    // Frames that were compressed together cannot be withdrawn; of shared ones the first was started.
    for (params, started) in [(ClientParams::JSON, 1), (ClientParams::ETF, 1), (ZSTD, 3), (ZLIB_ETF, 3)] {
        let mut cluster = world();
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        cluster.stop_reading(client);
        cluster.client(client).socket().set_room(25);
        say_all(&mut cluster, (0..3).map(|n| format!("{n}")));
        cluster.run_until_idle();
        cluster.client(client).send(99, &serde_json::Value::Null);
        cluster.run_until_idle();
        cluster.client(client).socket().set_room(usize::MAX);
        cluster.start_reading(client);
        let received = cluster.take(client);
        let [dispatches @ .., Received::Close(Some(4001), _), Received::End] = &received[..] else {
            panic!("{params:?} {received:?}")
        };
        assert!(dispatches.iter().all(|received| matches!(received, Received::Dispatch(_))), "{params:?} {received:?}");
        assert_eq!(dispatches.len(), started, "{params:?}");
        let (_, names) = replayed(&mut cluster, client, &pro());
        assert_eq!(names.len(), 3 - started, "{params:?}");
    }
}

#[test]
fn a_dead_socket_costs_the_connection_not_the_session() {
    for params in [ClientParams::JSON, ZSTD] {
        let mut cluster = world();
        let dead = live(&mut cluster, &pro(), Some(FULL), params);
        let well = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
        cluster.take(dead);
        cluster.client(dead).socket().kill();
        say(&mut cluster, &ana(), GENERAL, "one");
        say(&mut cluster, &ana(), GENERAL, "two");
        assert_eq!(cluster.names(well).len(), 2);
        assert_eq!(cluster.partition().conns_count(), 1);
        let (_, names) = replayed(&mut cluster, dead, &pro());
        assert_eq!(names.iter().filter(|(_, name)| name == "MESSAGE_CREATE").count(), 2);
    }
}
