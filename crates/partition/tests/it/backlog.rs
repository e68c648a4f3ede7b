//! Logs that sessions share, and their limits: a session that needs a forgotten entry starts again, and never sees
//! a gap (trap 9).

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_partition::{Compression, PartitionConfig};
use guildhall_test_kit::{ClientId, ClientParams, Received, ServerEnd, TestCluster, identify_payload};
use serde_json::Value;

const LOG_EVENTS: usize = 8;
const ALL: [ClientParams; 4] = [
    ClientParams::JSON,
    ClientParams::ETF,
    ClientParams::new(Encoding::Json, Compression::Zlib),
    ClientParams::new(Encoding::Etf, Compression::Zstd),
];

fn forgetful(change: impl FnOnce(&mut PartitionConfig)) -> TestCluster {
    world_with(|config| {
        config.log.events_max = LOG_EVENTS;
        change(config);
    })
}

/// A bot that shares its log with all others of this function.
fn member(cluster: &mut TestCluster, params: ClientParams) -> ClientId {
    let client = live(cluster, &gob(), Some(PLAIN), params);
    cluster.client(client).heartbeat();
    cluster.take(client);
    client
}

fn chat(cluster: &mut TestCluster, count: usize) {
    for n in 0..count {
        say(cluster, &ana(), GENERAL, &format!("{n}"));
        cluster.run_until_idle();
    }
}

/// Its socket takes this many bytes and then none.
fn stall(cluster: &mut TestCluster, client: ClientId, room: usize) {
    cluster.stop_reading(client);
    cluster.client(client).socket().set_room(room);
}

/// Sequence numbers of what a client gets before its connection ends without a close frame.
fn until_it_is_cut(cluster: &mut TestCluster, client: ClientId) -> Vec<u64> {
    cluster.client(client).socket().set_room(usize::MAX);
    cluster.start_reading(client);
    let mut received = cluster.take(client);
    assert_eq!(received.pop(), Some(Received::End), "{received:?}");
    let seq = |received: Received| match received {
        Received::Dispatch(dispatch) => dispatch.seq,
        other => panic!("{other:?}"),
    };
    received.into_iter().map(seq).collect()
}

#[test]
fn whose_next_dispatch_was_forgotten_is_cut_and_starts_anew() {
    for params in ALL {
        for room in [0, 1, 40, 300] {
            let mut cluster = forgetful(|_| {});
            let quick = member(&mut cluster, ClientParams::JSON);
            let slow = member(&mut cluster, params);
            let seen = cluster.client(slow).seq;
            stall(&mut cluster, slow, room);
            chat(&mut cluster, 30);
            assert_eq!(heard(&mut cluster, quick).len(), 30, "no session waits for the slow one");
            let got = until_it_is_cut(&mut cluster, slow);
            assert_eq!(got, (seen + 1..=seen + got.len() as u64).collect::<Vec<_>>(), "{params:?}, room {room}");
            assert!(got.len() < 30 - LOG_EVENTS, "{params:?}, room {room}");
            let counters = cluster.partition().counters();
            assert_eq!((counters.slow_consumers_total, counters.sessions_ended_total), (1, 1));
            let slow = refused(&mut cluster, slow, &gob());
            cluster.client(slow).identify(identify_payload(&gob().username, Some(PLAIN)));
            assert_eq!(names(&mut cluster, slow), ["READY", "GUILD_CREATE"]);
        }
    }
}

#[test]
fn a_slow_client_within_the_limit_receives_everything() {
    for params in ALL {
        let mut cluster = forgetful(|_| {});
        let _quick = member(&mut cluster, ClientParams::JSON);
        let slow = member(&mut cluster, params);
        let seen = cluster.client(slow).seq;
        stall(&mut cluster, slow, 1);
        chat(&mut cluster, LOG_EVENTS);
        cluster.client(slow).socket().set_room(usize::MAX);
        cluster.start_reading(slow);
        let received: Vec<u64> = cluster.names(slow).into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(received, (seen + 1..=seen + LOG_EVENTS as u64).collect::<Vec<_>>(), "{params:?}");
    }
}

#[test]
fn a_log_forgets_by_number_by_size_and_by_age() {
    let limits: [fn(&mut PartitionConfig); 3] = [
        |config| config.log.events_max = 8,
        |config| config.log.bytes_max = 5_000,
        |config| config.log.age_ms_max = 20_000,
    ];
    for (n, limit) in limits.into_iter().enumerate() {
        let mut cluster = world_with(limit);
        let _quick = member(&mut cluster, ClientParams::JSON);
        let away = member(&mut cluster, ClientParams::JSON);
        cluster.cut(away);
        chat(&mut cluster, 4);
        let (away, received) = replayed(&mut cluster, away, &gob());
        assert_eq!(received.len(), 4, "limit {n}");
        cluster.client(away).heartbeat();
        cluster.take(away);
        cluster.cut(away);
        chat(&mut cluster, 10);
        cluster.advance_with_heartbeats(25_000);
        chat(&mut cluster, 2);
        refused(&mut cluster, away, &gob());
    }
}

#[test]
fn a_resume_from_where_the_log_was_forgotten_is_refused_and_from_behind_it_granted() {
    for params in ALL {
        let mut cluster = forgetful(|_| {});
        let _quick = member(&mut cluster, ClientParams::JSON);
        let away = member(&mut cluster, params);
        cluster.cut(away);
        let seen = cluster.client(away).seq;
        chat(&mut cluster, 3 * LOG_EVENTS);
        let oldest_kept = seen + 2 * LOG_EVENTS as u64 + 1;
        for seq in [seen, seen + 1, oldest_kept - 2] {
            cluster.client(away).seq = seq;
            refused(&mut cluster, away, &gob());
        }
        // As if it had got that far: the rest is there.
        cluster.client(away).seq = oldest_kept - 1;
        let (away, received) = replayed(&mut cluster, away, &gob());
        let received: Vec<u64> = received.into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(received, (oldest_kept..oldest_kept + LOG_EVENTS as u64).collect::<Vec<_>>(), "{params:?}");
        chat(&mut cluster, 1);
        assert_eq!(heard(&mut cluster, away).len(), 1);
    }
}

#[test]
fn what_is_for_one_session_alone_does_not_hide_that_something_shared_is_gone() {
    let mut cluster = forgetful(|_| {});
    let _quick = member(&mut cluster, ClientParams::JSON);
    let away = member(&mut cluster, ClientParams::JSON);
    cluster.cut(away);
    // Of itself: kept in its own buffer.
    nick(&mut cluster, &gob(), "G");
    chat(&mut cluster, 2 * LOG_EVENTS);
    nick(&mut cluster, &gob(), "H");
    cluster.run_until_idle();
    refused(&mut cluster, away, &gob());
}

#[test]
fn a_detached_session_past_the_limit_ends_although_others_hold_the_log() {
    for (events, bytes) in [(10, usize::MAX), (usize::MAX, 8_000)] {
        let mut cluster = world_with(|config| (config.replay_events_max, config.replay_bytes_max) = (events, bytes));
        let quick = member(&mut cluster, ClientParams::JSON);
        let away = member(&mut cluster, ClientParams::ETF);
        cluster.cut(away);
        let mut missed = 0;
        while cluster.partition().sessions_count() == 2 {
            chat(&mut cluster, 1);
            missed += 1;
        }
        assert!((8..=20).contains(&missed), "{missed}");
        refused(&mut cluster, away, &gob());
        assert_eq!(heard(&mut cluster, quick).len(), missed);
    }
}

#[test]
fn a_slow_client_past_the_limit_is_cut_although_others_hold_the_log() {
    for (events, bytes) in [(10, usize::MAX), (usize::MAX, 8_000)] {
        let mut cluster = world_with(|config| {
            (config.replay_events_max, config.replay_bytes_max) = (5, 1_000);
            (config.backlog_events_max, config.backlog_bytes_max) = (events, bytes);
        });
        let quick = member(&mut cluster, ClientParams::JSON);
        let slow = member(&mut cluster, ClientParams::JSON);
        stall(&mut cluster, slow, 10);
        let mut missed = 0;
        while cluster.partition().conns_count() == 2 {
            chat(&mut cluster, 1);
            missed += 1;
        }
        assert!((8..=20).contains(&missed), "{missed}");
        assert_eq!(cluster.partition().sessions_count(), 1);
        refused(&mut cluster, slow, &gob());
        assert_eq!(heard(&mut cluster, quick).len(), missed);
    }
}

#[test]
fn a_frame_that_cannot_be_finished_is_followed_by_nothing() {
    // Whatever would be written next would be taken for the rest of it.
    let ends: [fn(&mut TestCluster, ClientId); 3] = [
        |cluster, client| cluster.client(client).send(99, &Value::Null),
        |cluster, client| cluster.client(client).close(Some(4000)),
        |cluster, _| cluster.close_all(0),
    ];
    for end in ends {
        let mut cluster = forgetful(|_| {});
        let _quick = member(&mut cluster, ClientParams::JSON);
        let slow = member(&mut cluster, ClientParams::JSON);
        stall(&mut cluster, slow, 100);
        chat(&mut cluster, 3 * LOG_EVENTS);
        let socket = cluster.client(slow).socket().clone();
        assert!(socket.is_full() && socket.unread_bytes() == 100);
        socket.set_room(usize::MAX);
        end(&mut cluster, slow);
        cluster.run_until_idle();
        assert_eq!((socket.unread_bytes(), socket.server_end()), (100, ServerEnd::Dropped));
        cluster.start_reading(slow);
        assert_eq!(cluster.take(slow), [Received::End]);
    }
}

#[test]
fn a_takeover_of_a_frame_that_cannot_be_finished_cuts_the_old_connection() {
    let mut cluster = forgetful(|_| {});
    let _quick = member(&mut cluster, ClientParams::JSON);
    let old = member(&mut cluster, ClientParams::JSON);
    let seen = cluster.client(old).seq;
    stall(&mut cluster, old, 100);
    chat(&mut cluster, 2 * LOG_EVENTS);
    // The client acknowledges more than it was sent whole; the rest is kept.
    cluster.client(old).seq = seen + LOG_EVENTS as u64;
    let (new, received) = replayed(&mut cluster, old, &gob());
    assert_eq!(received.len(), LOG_EVENTS);
    let socket = cluster.client(old).socket().clone();
    assert_eq!((socket.unread_bytes(), socket.server_end()), (100, ServerEnd::Dropped));
    chat(&mut cluster, 1);
    assert_eq!(heard(&mut cluster, new).len(), 1);
}
