//! RESUME at the wrong partition: the connection moves to where its session lives.

use crate::{
    compression::{SHARED, dictionaries, with_dictionaries},
    fixture::*,
};
use guildhall_codec::Encoding;
use guildhall_model::CloseCode;
use guildhall_partition::{Compression, Streams, Whose};
use guildhall_test_kit::{ClientId, ClientParams, Pair, PairConfig, Received, identify_payload};
use serde_json::json;

fn two_partitions(streams: Streams) -> Pair {
    let mut config = PairConfig { partitions_count: 2, ..PairConfig::default() };
    config.partition.streams = streams;
    config.partition.set_dictionaries(dictionaries().clone());
    world_of(config)
}

const ALL_KINDS: [ClientParams; 11] = [
    ClientParams::JSON,
    ClientParams::ETF,
    ClientParams::new(Encoding::Json, Compression::Zlib),
    ClientParams::new(Encoding::Etf, Compression::Zlib),
    ClientParams::new(Encoding::Json, Compression::Zstd),
    ClientParams::new(Encoding::Etf, Compression::Zstd),
    ClientParams::deflate(Encoding::Json, false, 15),
    ClientParams::deflate(Encoding::Etf, false, 15),
    ClientParams::deflate(Encoding::Json, false, 8),
    ClientParams::deflate(Encoding::Json, true, 15).with_compressed_payloads(),
    ClientParams::deflate(Encoding::Etf, true, 8),
];

/// A bot of partition 0 whose connection was lost, with messages since; it connects again at partition 1.
fn wanderer(params: ClientParams) -> (Pair, ClientId) {
    wanderer_with(params, Streams::Classic)
}

fn wanderer_with(params: ClientParams, streams: Streams) -> (Pair, ClientId) {
    let mut pair = two_partitions(streams);
    let client = live(&mut pair, &pro(), Some(FULL), params);
    pair.cut(client);
    say_all(&mut pair, (0..3).map(|n| format!("missed {n}")));
    pair.settle();
    let client = pair.reconnect_to(1, client, params);
    assert!(matches!(pair.take(client)[..], [Received::Hello { .. }]));
    (pair, client)
}

fn names_only(pair: &mut Pair, client: ClientId) -> Vec<String> {
    pair.names(client).into_iter().map(|(_, name)| name).collect()
}

const REPLAY: [&str; 4] = ["MESSAGE_CREATE", "MESSAGE_CREATE", "MESSAGE_CREATE", "RESUMED"];

#[test]
fn the_session_goes_on_with_socket_and_compression_context() {
    let all_kinds = || ALL_KINDS.into_iter().chain(with_dictionaries());
    let all = [Streams::Classic, SHARED].into_iter().flat_map(|streams| all_kinds().map(move |kind| (kind, streams)));
    for (params, streams) in all {
        let (mut pair, client) = wanderer_with(params, streams);
        pair.client(client).resume(&pro().username);
        assert_eq!(names_only(&mut pair, client), REPLAY, "{params:?} {streams:?}");
        assert_eq!((pair.partition_at(0).conns_count(), pair.partition_at(1).conns_count()), (1, 0));
        say(&mut pair, &ana(), GENERAL, "live");
        assert_eq!(heard(&mut pair, client).len(), 1);
        pair.client(client).heartbeat();
        assert_eq!(pair.take(client), [Received::HeartbeatAck]);
        pair.cut(client);
        assert_eq!(pair.partition_at(0).conns_count(), 0);
        assert_eq!(pair.partition_at(0).sessions_count(), 1);
    }
}

#[test]
fn a_token_that_is_revoked_while_its_connection_moves_takes_up_no_session() {
    let (mut pair, client) = wanderer(ClientParams::JSON);
    // The session began with another one, which stays good.
    pair.token = 7;
    pair.holds_moves = true;
    pair.client(client).resume(&pro().username);
    pair.settle();
    let whose = Whose::Token(pro().id, 7);
    assert_eq!((0..2).map(|side| pair.close_sessions(side, &whose, CloseCode::AuthenticationFailed)).sum::<usize>(), 0);
    pair.holds_moves = false;
    assert_eq!(pair.close_code(client), Some(4004));
    assert_eq!(pair.partition_at(0).counters().resumed_total, 0);
    // With the good one it goes on.
    pair.token = 0;
    let client = pair.reconnect_to(1, client, ClientParams::JSON);
    pair.client(client).resume(&pro().username);
    assert_eq!(names_only(&mut pair, client), REPLAY);
}

#[test]
fn what_was_sent_on_the_way_arrives() {
    for split in [3, usize::MAX] {
        let (mut pair, client) = wanderer(ClientParams::JSON);
        pair.read_bytes_max = split;
        pair.holds_moves = true;
        pair.holds_tokens = true;
        pair.client(client).resume(&pro().username);
        pair.client(client).heartbeat();
        pair.settle();
        pair.answer_tokens();
        pair.client(client).send(3, &json!({"status": "idle"}));
        assert_eq!(pair.take(client), []);
        pair.holds_moves = false;
        let received = pair.take(client);
        assert_eq!(received.iter().filter(|received| **received == Received::HeartbeatAck).count(), 1);
        let dispatches = received.iter().filter(|received| matches!(received, Received::Dispatch(_))).count();
        // A bot also receives the presence that it has set.
        assert_eq!(dispatches, REPLAY.len() + 1, "{received:?}");
    }
}

#[test]
fn a_client_that_ends_on_the_way_can_come_again() {
    let (mut pair, client) = wanderer(ClientParams::JSON);
    pair.holds_moves = true;
    pair.client(client).resume(&pro().username);
    pair.settle();
    pair.client(client).socket().cut();
    pair.holds_moves = false;
    pair.settle();
    assert_eq!(pair.partition_at(0).conns_count(), 0);
    let client = pair.reconnect_to(1, client, ClientParams::JSON);
    pair.client(client).resume(&pro().username);
    assert_eq!(names_only(&mut pair, client).len(), REPLAY.len() + 1, "with the RESUMED that was lost");
}

#[test]
fn a_session_that_ends_meanwhile_is_refused_where_it_was() {
    let (mut pair, client) = wanderer(ClientParams::JSON);
    pair.holds_moves = true;
    pair.client(client).resume(&pro().username);
    pair.settle();
    pair.advance(180_000);
    pair.holds_moves = false;
    assert_eq!(pair.take(client), [Received::InvalidSession(false)]);
    pair.client(client).identify(identify_payload(&pro().username, Some(FULL)));
    assert_eq!(names_only(&mut pair, client)[..2], ["READY", "GUILD_CREATE"]);
    assert_eq!(pair.partition_at(0).sessions_count(), 1);
}

#[test]
fn a_takeover_works_across_partitions() {
    let mut pair = two_partitions(Streams::Classic);
    let old = live(&mut pair, &pro(), Some(FULL), ClientParams::ETF);
    let new = pair.reconnect_to(1, old, ClientParams::ETF);
    pair.client(new).resume(&pro().username);
    assert_eq!(names_only(&mut pair, new), ["RESUMED"]);
    assert_eq!(pair.close_code(old), Some(4000));
    say(&mut pair, &ana(), GENERAL, "live");
    assert_eq!(heard(&mut pair, new).len(), 1);
}

#[test]
fn a_socket_that_is_full_moves_as_it_is() {
    for params in ALL_KINDS {
        for room in [0, 1, 20] {
            let (mut pair, client) = wanderer(params);
            let socket = pair.client(client).socket().clone();
            socket.set_room(room);
            pair.stop_reading(client);
            // More answers than there is room for.
            (0..3).for_each(|_| pair.client(client).heartbeat());
            pair.client(client).resume(&pro().username);
            pair.settle();
            socket.set_room(usize::MAX);
            pair.start_reading(client);
            let received = pair.take(client);
            assert_eq!(received.len(), 3 + REPLAY.len(), "room for {room} bytes, {params:?}");
            assert!(received[..3].iter().all(|received| *received == Received::HeartbeatAck));
        }
    }
}

#[test]
fn the_wrong_account_or_encoding_is_refused_there_too() {
    let (mut pair, client) = wanderer(ClientParams::JSON);
    pair.client(client).resume(&gob().username);
    assert_eq!(pair.take(client), [Received::InvalidSession(false)]);
    let other = pair.reconnect_to(1, client, ClientParams::ETF);
    pair.take(other);
    pair.client(other).resume(&pro().username);
    assert_eq!(pair.take(other), [Received::InvalidSession(false)]);
    let third = pair.reconnect_to(1, client, ClientParams::JSON);
    pair.client(third).resume(&pro().username);
    assert_eq!(names_only(&mut pair, third), REPLAY);
}

#[test]
fn an_id_of_no_partition_of_ours_is_refused_at_once() {
    let (mut pair, client) = wanderer(ClientParams::JSON);
    let mut session_id = pair.client(client).session_id.clone().expect("it was ready");
    session_id.replace_range(..4, "0002");
    pair.client(client).session_id = Some(session_id);
    pair.client(client).resume(&pro().username);
    assert_eq!(pair.take(client), [Received::InvalidSession(false)]);
    assert_eq!(pair.partition_at(1).conns_count(), 1);
}

#[test]
fn both_partitions_hear_of_everything_once() {
    let mut pair = two_partitions(Streams::Classic);
    let here = live(&mut pair, &gob(), Some(PLAIN), ClientParams::JSON);
    let there = pair.connect_to(1, ClientParams::JSON);
    pair.client(there).identify(identify_payload(&gob().username, Some(PLAIN)));
    assert_eq!(names_only(&mut pair, there), ["READY", "GUILD_CREATE"]);
    say(&mut pair, &ana(), GENERAL, "to all");
    assert_eq!(heard(&mut pair, here).len(), 1);
    assert_eq!(heard(&mut pair, there).len(), 1);
    pair.client(there).close(Some(1000));
    pair.settle();
    say(&mut pair, &ana(), GENERAL, "to one");
    assert_eq!(heard(&mut pair, here).len(), 1);
}
