//! Logs that sessions share, and their limits: a session that needs a forgotten entry starts again, and never sees
//! a gap (trap 9).

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_partition::{Compression, PartitionConfig};
use guildhall_test_kit::{ClientId, ClientParams, Pair, Received, ServerEnd, identify_payload};
use serde_json::Value;

const LOG_EVENTS: usize = 8;
const ALL: [ClientParams; 4] = [
    ClientParams::JSON,
    ClientParams::ETF,
    ClientParams::new(Encoding::Json, Compression::Zlib),
    ClientParams::new(Encoding::Etf, Compression::Zstd),
];

fn forgetful(change: impl FnOnce(&mut PartitionConfig)) -> Pair {
    world_with(|config| {
        config.log.events_max = LOG_EVENTS;
        change(config);
    })
}

/// A bot that shares its log with all others of this function.
fn member(pair: &mut Pair, params: ClientParams) -> ClientId {
    let client = live(pair, &gob(), Some(PLAIN), params);
    pair.client(client).heartbeat();
    pair.take(client);
    client
}

fn chat(pair: &mut Pair, count: usize) {
    for n in 0..count {
        say(pair, &ana(), GENERAL, &format!("{n}"));
        pair.settle();
    }
}

/// Its socket takes this many bytes and then none.
fn stall(pair: &mut Pair, client: ClientId, room: usize) {
    pair.stop_reading(client);
    pair.client(client).socket().set_room(room);
}

/// Sequence numbers of what a client gets before its connection ends without a close frame.
fn until_it_is_cut(pair: &mut Pair, client: ClientId) -> Vec<u64> {
    pair.client(client).socket().set_room(usize::MAX);
    pair.start_reading(client);
    let mut received = pair.take(client);
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
            let mut pair = forgetful(|_| {});
            let quick = member(&mut pair, ClientParams::JSON);
            let slow = member(&mut pair, params);
            let seen = pair.client(slow).seq;
            stall(&mut pair, slow, room);
            chat(&mut pair, 30);
            assert_eq!(heard(&mut pair, quick).len(), 30, "nobody waits for the slow one");
            let got = until_it_is_cut(&mut pair, slow);
            assert_eq!(got, (seen + 1..=seen + got.len() as u64).collect::<Vec<_>>(), "{params:?}, room {room}");
            assert!(got.len() < 30 - LOG_EVENTS, "{params:?}, room {room}");
            let counters = pair.partition().counters();
            assert_eq!((counters.slow_consumers_total, counters.sessions_ended_total), (1, 1));
            let slow = refused(&mut pair, slow, &gob());
            pair.client(slow).identify(identify_payload(&gob().username, Some(PLAIN)));
            assert_eq!(names(&mut pair, slow), ["READY", "GUILD_CREATE"]);
        }
    }
}

#[test]
fn who_is_behind_by_less_than_that_gets_everything() {
    for params in ALL {
        let mut pair = forgetful(|_| {});
        let _quick = member(&mut pair, ClientParams::JSON);
        let slow = member(&mut pair, params);
        let seen = pair.client(slow).seq;
        stall(&mut pair, slow, 1);
        chat(&mut pair, LOG_EVENTS);
        pair.client(slow).socket().set_room(usize::MAX);
        pair.start_reading(slow);
        let told: Vec<u64> = pair.names(slow).into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(told, (seen + 1..=seen + LOG_EVENTS as u64).collect::<Vec<_>>(), "{params:?}");
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
        let mut pair = world_with(limit);
        let _quick = member(&mut pair, ClientParams::JSON);
        let away = member(&mut pair, ClientParams::JSON);
        pair.cut(away);
        chat(&mut pair, 4);
        let (away, told) = replayed(&mut pair, away, &gob());
        assert_eq!(told.len(), 4, "limit {n}");
        pair.client(away).heartbeat();
        pair.take(away);
        pair.cut(away);
        chat(&mut pair, 10);
        pair.advance_with_heartbeats(25_000);
        chat(&mut pair, 2);
        refused(&mut pair, away, &gob());
    }
}

#[test]
fn a_resume_from_where_the_log_was_forgotten_is_refused_and_from_behind_it_granted() {
    for params in ALL {
        let mut pair = forgetful(|_| {});
        let _quick = member(&mut pair, ClientParams::JSON);
        let away = member(&mut pair, params);
        pair.cut(away);
        let seen = pair.client(away).seq;
        chat(&mut pair, 3 * LOG_EVENTS);
        let oldest_kept = seen + 2 * LOG_EVENTS as u64 + 1;
        for seq in [seen, seen + 1, oldest_kept - 2] {
            pair.client(away).seq = seq;
            refused(&mut pair, away, &gob());
        }
        // As if it had got that far: the rest is there.
        pair.client(away).seq = oldest_kept - 1;
        let (away, told) = replayed(&mut pair, away, &gob());
        let told: Vec<u64> = told.into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(told, (oldest_kept..oldest_kept + LOG_EVENTS as u64).collect::<Vec<_>>(), "{params:?}");
        chat(&mut pair, 1);
        assert_eq!(heard(&mut pair, away).len(), 1);
    }
}

#[test]
fn what_is_for_one_session_alone_does_not_hide_that_something_shared_is_gone() {
    let mut pair = forgetful(|_| {});
    let _quick = member(&mut pair, ClientParams::JSON);
    let away = member(&mut pair, ClientParams::JSON);
    pair.cut(away);
    // Of itself: kept in its own buffer.
    nick(&mut pair, &gob(), "G");
    chat(&mut pair, 2 * LOG_EVENTS);
    nick(&mut pair, &gob(), "H");
    pair.settle();
    refused(&mut pair, away, &gob());
}

#[test]
fn who_is_away_and_misses_too_much_is_gone_though_others_hold_the_log() {
    for (events, bytes) in [(10, usize::MAX), (usize::MAX, 8_000)] {
        let mut pair = world_with(|config| (config.replay_events_max, config.replay_bytes_max) = (events, bytes));
        let quick = member(&mut pair, ClientParams::JSON);
        let away = member(&mut pair, ClientParams::ETF);
        pair.cut(away);
        let mut missed = 0;
        while pair.partition().sessions_count() == 2 {
            chat(&mut pair, 1);
            missed += 1;
        }
        assert!((8..=20).contains(&missed), "{missed}");
        refused(&mut pair, away, &gob());
        assert_eq!(heard(&mut pair, quick).len(), missed);
    }
}

#[test]
fn who_is_behind_past_the_limit_is_cut_though_others_hold_the_log() {
    for (events, bytes) in [(10, usize::MAX), (usize::MAX, 8_000)] {
        let mut pair = world_with(|config| {
            (config.replay_events_max, config.replay_bytes_max) = (5, 1_000);
            (config.backlog_events_max, config.backlog_bytes_max) = (events, bytes);
        });
        let quick = member(&mut pair, ClientParams::JSON);
        let slow = member(&mut pair, ClientParams::JSON);
        stall(&mut pair, slow, 10);
        let mut missed = 0;
        while pair.partition().conns_count() == 2 {
            chat(&mut pair, 1);
            missed += 1;
        }
        assert!((8..=20).contains(&missed), "{missed}");
        assert_eq!(pair.partition().sessions_count(), 1);
        refused(&mut pair, slow, &gob());
        assert_eq!(heard(&mut pair, quick).len(), missed);
    }
}

#[test]
fn a_frame_that_cannot_be_finished_is_followed_by_nothing() {
    // Whatever would be written next would be taken for the rest of it.
    let ends: [fn(&mut Pair, ClientId); 3] = [
        |pair, client| pair.client(client).send(99, &Value::Null),
        |pair, client| pair.client(client).close(Some(4000)),
        |pair, _| pair.close_all(0),
    ];
    for end in ends {
        let mut pair = forgetful(|_| {});
        let _quick = member(&mut pair, ClientParams::JSON);
        let slow = member(&mut pair, ClientParams::JSON);
        stall(&mut pair, slow, 100);
        chat(&mut pair, 3 * LOG_EVENTS);
        let socket = pair.client(slow).socket().clone();
        assert!(socket.is_full() && socket.unread_bytes() == 100);
        socket.set_room(usize::MAX);
        end(&mut pair, slow);
        pair.settle();
        assert_eq!((socket.unread_bytes(), socket.server_end()), (100, ServerEnd::Dropped));
        pair.start_reading(slow);
        assert_eq!(pair.take(slow), [Received::End]);
    }
}

#[test]
fn a_takeover_of_a_frame_that_cannot_be_finished_cuts_the_old_connection() {
    let mut pair = forgetful(|_| {});
    let _quick = member(&mut pair, ClientParams::JSON);
    let old = member(&mut pair, ClientParams::JSON);
    let seen = pair.client(old).seq;
    stall(&mut pair, old, 100);
    chat(&mut pair, 2 * LOG_EVENTS);
    // It says that it has more than it was sent whole; the rest is kept.
    pair.client(old).seq = seen + LOG_EVENTS as u64;
    let (new, told) = replayed(&mut pair, old, &gob());
    assert_eq!(told.len(), LOG_EVENTS);
    let socket = pair.client(old).socket().clone();
    assert_eq!((socket.unread_bytes(), socket.server_end()), (100, ServerEnd::Dropped));
    chat(&mut pair, 1);
    assert_eq!(heard(&mut pair, new).len(), 1);
}
