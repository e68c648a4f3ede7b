//! Connections over a takeover: their clients notice nothing.

use crate::{
    compression::{ALL, AUTO, SHARED, dictionaries, with_dictionaries},
    fixture::*,
};
use guildhall_codec::Encoding;
use guildhall_partition::{Compression, StreamCodec};
use guildhall_test_kit::{ClientId, ClientParams, Hold, Received, TestCluster};

const ROOM: usize = 1 << 20;

fn take_over(cluster: &mut TestCluster) -> usize {
    cluster.take_over(vec![guild().load()], ROOM).iter().map(Vec::len).sum()
}

fn world_of_streams(streams: StreamCodec) -> TestCluster {
    world_with(|config| {
        config.stream_codec = streams;
        config.set_dictionaries(dictionaries().clone());
    })
}

/// Contents of messages that came, and nothing else.
#[track_caller]
fn only_messages(cluster: &mut TestCluster, client: ClientId) -> Vec<String> {
    let content = |received| match received {
        Received::Dispatch(dispatch) if dispatch.name == "MESSAGE_CREATE" => text(&dispatch.d()["content"]),
        other => panic!("{other:?}"),
    };
    cluster.take(client).into_iter().map(content).collect()
}

#[test]
fn v1_v2_each_stream_goes_on() {
    for streams in [StreamCodec::PerConnection, SHARED, AUTO] {
        for params in ALL.into_iter().chain(with_dictionaries()) {
            let mut cluster = world_of_streams(streams);
            let clients = [(); 2].map(|()| live(&mut cluster, &pro(), Some(FULL), params));
            let mut sent = 0;
            for _ in 0..3 {
                let more: Vec<String> =
                    (sent..sent + 30).map(|n| format!("message {n} with more to say, äöü 🔥")).collect();
                sent += more.len();
                say_all(&mut cluster, more.clone());
                for client in clients {
                    assert_eq!(only_messages(&mut cluster, client), more, "{params:?} {streams:?}");
                }
                assert_eq!(take_over(&mut cluster), 2, "{params:?} {streams:?}");
                for client in clients {
                    assert_eq!(cluster.take(client), [], "{params:?} {streams:?}");
                    cluster.client(client).heartbeat();
                    assert_eq!(cluster.take(client), [Received::HeartbeatAck], "{params:?} {streams:?}");
                }
            }
            assert_eq!(cluster.partition().attached_count(), 2);
        }
    }
}

#[test]
fn v1_a_full_socket_gets_the_rest() {
    for params in ALL {
        let mut cluster = world_of_streams(AUTO);
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        for room in [1, 7, 150, 1_000] {
            cluster.client(client).socket().set_room(room);
            let more: Vec<String> = (0..20).map(|n| format!("message {n} {}", "with more to say ".repeat(n))).collect();
            cluster.stop_reading(client);
            say_all(&mut cluster, more.clone());
            cluster.client(client).ping(b"here");
            cluster.run_until_idle();
            assert_eq!(take_over(&mut cluster), 1, "{params:?} {room}");
            cluster.client(client).socket().set_room(usize::MAX);
            cluster.start_reading(client);
            let received = cluster.take(client);
            let pongs = received.iter().filter(|received| matches!(received, Received::Pong(_))).count();
            let content = |received| match received {
                Received::Dispatch(dispatch) => Some(text(&dispatch.d()["content"])),
                _ => None,
            };
            let contents: Vec<String> = received.into_iter().filter_map(content).collect();
            assert_eq!((contents, pongs), (more, 1), "{params:?} {room}");
        }
    }
}

#[test]
fn an_incomplete_message_of_a_client_is_completed() {
    let mut cluster = world_of_streams(AUTO);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    cluster.client(client).heartbeat();
    let socket = cluster.client(client).socket().clone();
    let frame = socket.take_readable(usize::MAX).expect("a heartbeat");
    for cut in 1..frame.len() {
        socket.client_write(&frame[..cut]);
        cluster.run_until_idle();
        assert_eq!(take_over(&mut cluster), 1);
        socket.client_write(&frame[cut..]);
        assert_eq!(cluster.take(client), [Received::HeartbeatAck], "{cut}");
    }
}

#[test]
fn a_client_compresses_on() {
    let mut cluster = world_of_streams(AUTO);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::deflate(Encoding::Json, false, 15));
    for _ in 0..3 {
        // Some of them are compressed, and refer to those before.
        for _ in 0..5 {
            cluster.client(client).heartbeat();
            assert_eq!(cluster.take(client), [Received::HeartbeatAck]);
        }
        assert_eq!(take_over(&mut cluster), 1);
    }
}

#[test]
fn a_client_that_has_not_identified_does_so_later() {
    for params in ALL.into_iter().chain(with_dictionaries()) {
        let mut cluster = world_of_streams(AUTO);
        let client = cluster.connect(params);
        assert_eq!(take_over(&mut cluster), 1, "{params:?}");
        cluster.client(client).identify(guildhall_test_kit::identify_payload(&pro().username, Some(FULL)));
        assert!(names(&mut cluster, client).iter().any(|name| name == "READY"), "{params:?}");
    }
}

#[test]
fn v3_a_client_whose_token_is_checked_is_closed_and_resumes() {
    let mut cluster = world_of_streams(AUTO);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    let waiting = cluster.connect(ClientParams::JSON);
    cluster.hold(Hold::TokenChecks);
    cluster.client(waiting).identify(guildhall_test_kit::identify_payload(&pro().username, Some(FULL)));
    cluster.run_until_idle();
    assert!(!cluster.partition().is_settled());
    assert_eq!(take_over(&mut cluster), 1);
    assert_eq!(cluster.close_code(waiting), Some(4000));
    say_all(&mut cluster, ["live".to_owned()]);
    assert_eq!(only_messages(&mut cluster, client), ["live"]);
}

#[test]
fn v3_a_window_without_room_for_a_block_ends_the_connection() {
    let params = ClientParams::new(Encoding::Json, Compression::Zstd);
    let mut cluster = world_with(|config| {
        let zstd = guildhall_codec::ZstdParams { window_log: 16, ..Default::default() };
        let params = guildhall_codec::ContextParams { zstd, ..Default::default() };
        config.contexts = guildhall_codec::ContextPool::new(params).unwrap();
        config.stream_codec = StreamCodec::PerConnection;
    });
    let client = live(&mut cluster, &pro(), Some(FULL), params);
    assert_eq!(take_over(&mut cluster), 1);
    assert_eq!(cluster.close_code(client), Some(4000));
    let (client, _) = resumed(&mut cluster, client, &pro());
    say_all(&mut cluster, ["live".to_owned()]);
    assert_eq!(heard(&mut cluster, client).len(), 1);
}

#[test]
fn a_client_that_stays_silent_is_closed() {
    let mut cluster = world_of_streams(AUTO);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    let interval = 41_250;
    cluster.advance(interval);
    assert_eq!(take_over(&mut cluster), 1);
    cluster.advance(interval);
    assert_eq!(cluster.take(client), []);
    cluster.advance(interval);
    assert_eq!(cluster.close_code(client), Some(4000));
}
