//! RESUME at the wrong partition: the connection moves to where its session lives.

use crate::{
    compression::{AUTO, SHARED, dictionaries, with_dictionaries},
    fixture::*,
};
use guildhall_codec::Encoding;
use guildhall_guild_protocol::Whose;
use guildhall_model::CloseCode;
use guildhall_partition::{Compression, StreamCodec};
use guildhall_test_kit::{ClientId, ClientParams, Hold, Received, TestCluster, TestClusterConfig, identify_payload};
use serde_json::json;

fn two_partitions(streams: StreamCodec) -> TestCluster {
    let mut config = TestClusterConfig { partitions_count: 2, ..TestClusterConfig::default() };
    config.partition.stream_codec = streams;
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
fn wanderer(params: ClientParams) -> (TestCluster, ClientId) {
    wanderer_with(params, StreamCodec::PerConnection)
}

fn wanderer_with(params: ClientParams, streams: StreamCodec) -> (TestCluster, ClientId) {
    let mut cluster = two_partitions(streams);
    let client = live(&mut cluster, &pro(), Some(FULL), params);
    cluster.cut(client);
    say_all(&mut cluster, (0..3).map(|n| format!("missed {n}")));
    cluster.run_until_idle();
    let client = cluster.reconnect_to(1, client, params);
    assert!(matches!(cluster.take(client)[..], [Received::Hello { .. }]));
    (cluster, client)
}

fn names_only(cluster: &mut TestCluster, client: ClientId) -> Vec<String> {
    cluster.names(client).into_iter().map(|(_, name)| name).collect()
}

const REPLAY: [&str; 4] = ["MESSAGE_CREATE", "MESSAGE_CREATE", "MESSAGE_CREATE", "RESUMED"];

#[test]
fn the_session_goes_on_with_socket_and_compression_context() {
    let all_kinds = || ALL_KINDS.into_iter().chain(with_dictionaries());
    let all = [StreamCodec::PerConnection, SHARED, AUTO]
        .into_iter()
        .flat_map(|streams| all_kinds().map(move |kind| (kind, streams)));
    for (params, streams) in all {
        let (mut cluster, client) = wanderer_with(params, streams);
        cluster.client(client).resume(&pro().username);
        assert_eq!(names_only(&mut cluster, client), REPLAY, "{params:?} {streams:?}");
        assert_eq!((cluster.partition_at(0).conns_count(), cluster.partition_at(1).conns_count()), (1, 0));
        say(&mut cluster, &ana(), GENERAL, "live");
        assert_eq!(heard(&mut cluster, client).len(), 1);
        cluster.client(client).heartbeat();
        assert_eq!(cluster.take(client), [Received::HeartbeatAck]);
        cluster.cut(client);
        assert_eq!(cluster.partition_at(0).conns_count(), 0);
        assert_eq!(cluster.partition_at(0).sessions_count(), 1);
    }
}

#[test]
fn a_token_that_is_revoked_while_its_connection_moves_takes_up_no_session() {
    let (mut cluster, client) = wanderer(ClientParams::JSON);
    // The session began with another one, which stays good.
    cluster.token = 7;
    cluster.hold(Hold::Moves);
    cluster.client(client).resume(&pro().username);
    cluster.run_until_idle();
    let whose = Whose::Token(pro().id, 7);
    assert_eq!(
        (0..2).map(|side| cluster.close_sessions(side, &whose, CloseCode::AuthenticationFailed)).sum::<usize>(),
        0
    );
    cluster.release(Hold::Moves);
    assert_eq!(cluster.close_code(client), Some(4004));
    assert_eq!(cluster.partition_at(0).counters().resumed_total, 0);
    // With the good one it goes on.
    cluster.token = 0;
    let client = cluster.reconnect_to(1, client, ClientParams::JSON);
    cluster.client(client).resume(&pro().username);
    assert_eq!(names_only(&mut cluster, client), REPLAY);
}

#[test]
fn what_was_sent_on_the_way_arrives() {
    for split in [3, usize::MAX] {
        let (mut cluster, client) = wanderer(ClientParams::JSON);
        cluster.read_bytes_max = split;
        cluster.hold(Hold::Moves);
        cluster.hold(Hold::TokenChecks);
        cluster.client(client).resume(&pro().username);
        cluster.client(client).heartbeat();
        cluster.run_until_idle();
        cluster.answer_tokens();
        cluster.client(client).send(3, &json!({"status": "idle"}));
        assert_eq!(cluster.take(client), []);
        cluster.release(Hold::Moves);
        let received = cluster.take(client);
        assert_eq!(received.iter().filter(|received| **received == Received::HeartbeatAck).count(), 1);
        let dispatches = received.iter().filter(|received| matches!(received, Received::Dispatch(_))).count();
        // A bot also receives the presence that it has set.
        assert_eq!(dispatches, REPLAY.len() + 1, "{received:?}");
    }
}

#[test]
fn a_client_that_ends_on_the_way_can_come_again() {
    let (mut cluster, client) = wanderer(ClientParams::JSON);
    cluster.hold(Hold::Moves);
    cluster.client(client).resume(&pro().username);
    cluster.run_until_idle();
    cluster.client(client).socket().cut();
    cluster.release(Hold::Moves);
    cluster.run_until_idle();
    assert_eq!(cluster.partition_at(0).conns_count(), 0);
    let client = cluster.reconnect_to(1, client, ClientParams::JSON);
    cluster.client(client).resume(&pro().username);
    assert_eq!(names_only(&mut cluster, client).len(), REPLAY.len() + 1, "with the RESUMED that was lost");
}

#[test]
fn a_session_that_ends_meanwhile_is_refused_where_it_was() {
    let (mut cluster, client) = wanderer(ClientParams::JSON);
    cluster.hold(Hold::Moves);
    cluster.client(client).resume(&pro().username);
    cluster.run_until_idle();
    cluster.advance(180_000);
    cluster.release(Hold::Moves);
    assert_eq!(cluster.take(client), [Received::InvalidSession(false)]);
    cluster.client(client).identify(identify_payload(&pro().username, Some(FULL)));
    assert_eq!(names_only(&mut cluster, client)[..2], ["READY", "GUILD_CREATE"]);
    assert_eq!(cluster.partition_at(0).sessions_count(), 1);
}

#[test]
fn a_takeover_works_across_partitions() {
    let mut cluster = two_partitions(StreamCodec::PerConnection);
    let old = live(&mut cluster, &pro(), Some(FULL), ClientParams::ETF);
    let new = cluster.reconnect_to(1, old, ClientParams::ETF);
    cluster.client(new).resume(&pro().username);
    assert_eq!(names_only(&mut cluster, new), ["RESUMED"]);
    assert_eq!(cluster.close_code(old), Some(4000));
    say(&mut cluster, &ana(), GENERAL, "live");
    assert_eq!(heard(&mut cluster, new).len(), 1);
}

#[test]
fn a_socket_that_is_full_moves_as_it_is() {
    for params in ALL_KINDS {
        for room in [0, 1, 20] {
            let (mut cluster, client) = wanderer(params);
            let socket = cluster.client(client).socket().clone();
            socket.set_room(room);
            cluster.stop_reading(client);
            // More answers than there is room for.
            (0..3).for_each(|_| cluster.client(client).heartbeat());
            cluster.client(client).resume(&pro().username);
            cluster.run_until_idle();
            socket.set_room(usize::MAX);
            cluster.start_reading(client);
            let received = cluster.take(client);
            assert_eq!(received.len(), 3 + REPLAY.len(), "room for {room} bytes, {params:?}");
            assert!(received[..3].iter().all(|received| *received == Received::HeartbeatAck));
        }
    }
}

#[test]
fn the_wrong_account_or_encoding_is_refused_there_too() {
    let (mut cluster, client) = wanderer(ClientParams::JSON);
    cluster.client(client).resume(&gob().username);
    assert_eq!(cluster.take(client), [Received::InvalidSession(false)]);
    let other = cluster.reconnect_to(1, client, ClientParams::ETF);
    cluster.take(other);
    cluster.client(other).resume(&pro().username);
    assert_eq!(cluster.take(other), [Received::InvalidSession(false)]);
    let third = cluster.reconnect_to(1, client, ClientParams::JSON);
    cluster.client(third).resume(&pro().username);
    assert_eq!(names_only(&mut cluster, third), REPLAY);
}

#[test]
fn an_id_of_no_partition_of_ours_is_refused_at_once() {
    let (mut cluster, client) = wanderer(ClientParams::JSON);
    let mut session_id = cluster.client(client).session_id.clone().expect("it was ready");
    session_id.replace_range(..4, "0002");
    cluster.client(client).session_id = Some(session_id);
    cluster.client(client).resume(&pro().username);
    assert_eq!(cluster.take(client), [Received::InvalidSession(false)]);
    assert_eq!(cluster.partition_at(1).conns_count(), 1);
}

#[test]
fn both_partitions_hear_of_everything_once() {
    let mut cluster = two_partitions(StreamCodec::PerConnection);
    let here = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    let there = cluster.connect_to(1, ClientParams::JSON);
    cluster.client(there).identify(identify_payload(&gob().username, Some(PLAIN)));
    assert_eq!(names_only(&mut cluster, there), ["READY", "GUILD_CREATE"]);
    say(&mut cluster, &ana(), GENERAL, "to all");
    assert_eq!(heard(&mut cluster, here).len(), 1);
    assert_eq!(heard(&mut cluster, there).len(), 1);
    cluster.client(there).close(Some(1000));
    cluster.run_until_idle();
    say(&mut cluster, &ana(), GENERAL, "to one");
    assert_eq!(heard(&mut cluster, here).len(), 1);
}
