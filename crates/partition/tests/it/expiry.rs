//! A token's expiry ends the connection of its session, and another token of the account continues the session.

use crate::fixture::*;
use guildhall_stdx::Timestamp;
use guildhall_test_kit::{ClientId, ClientParams, Pair, PairConfig, Received};

/// From now on tokens are new ones, which expire after `ms`.
fn expire_in(pair: &mut Pair, ms: i64) {
    pair.token += 1;
    pair.token_expires_at = Some(Timestamp(pair.clock.now().unix.0 + ms));
}

/// Passes time in small steps; whether the client is closed with 4004 in it.
fn is_expired_after(pair: &mut Pair, client: ClientId, ms: u64) -> bool {
    for _ in 0..ms / 1_000 {
        pair.advance_with_heartbeats(1_000);
        let closed = pair.take(client).into_iter().find_map(|received| match received {
            Received::Close(code, reason) => Some((code, reason)),
            _ => None,
        });
        if let Some((code, reason)) = closed {
            assert_eq!(code, Some(4004));
            assert!(reason.contains("expired"), "{reason}");
            return true;
        }
    }
    false
}

fn resume(pair: &mut Pair, client: ClientId) -> (ClientId, Vec<String>) {
    let (client, received) = resumed(pair, client, &pro());
    let names = received.into_iter().map(|received| match received {
        Received::Dispatch(dispatch) => dispatch.name,
        other => panic!("{other:?} in a replay"),
    });
    (client, names.collect())
}

#[test]
fn s15_a_session_ends_with_its_token_and_goes_on_with_another() {
    let mut pair = world();
    expire_in(&mut pair, 10_000);
    let client = live_bot(&mut pair);
    assert!(!is_expired_after(&mut pair, client, 9_000));
    assert!(is_expired_after(&mut pair, client, 2_000));
    assert_eq!((pair.partition().sessions_count(), pair.partition().attached_count()), (1, 0));
    assert_eq!(pair.partition().counters().sessions_expired_total, 1);
    say_all(&mut pair, ["missed".to_owned()]);
    expire_in(&mut pair, 20_000);
    let (client, names) = resume(&mut pair, client);
    assert_eq!(names, ["MESSAGE_CREATE", "RESUMED"]);
    assert!(!is_expired_after(&mut pair, client, 19_000));
    assert!(is_expired_after(&mut pair, client, 2_000));
    // The last token that it came with counts, and one without expiry has no end.
    pair.token_expires_at = None;
    let (client, _) = resume(&mut pair, client);
    assert!(!is_expired_after(&mut pair, client, 60_000));
}

#[test]
fn s15_a_resume_in_time_extends_or_shortens() {
    let mut pair = world();
    expire_in(&mut pair, 20_000);
    let mut client = live_bot(&mut pair);
    assert!(!is_expired_after(&mut pair, client, 10_000));
    pair.cut(client);
    expire_in(&mut pair, 30_000);
    (client, _) = resume(&mut pair, client);
    assert!(!is_expired_after(&mut pair, client, 29_000), "the first token's time is over in between");
    pair.cut(client);
    expire_in(&mut pair, 3_600_000);
    (client, _) = resume(&mut pair, client);
    assert!(!is_expired_after(&mut pair, client, 5_000));
    pair.cut(client);
    expire_in(&mut pair, 5_000);
    (client, _) = resume(&mut pair, client);
    assert!(is_expired_after(&mut pair, client, 6_000));
}

#[test]
fn s15_a_token_that_lasts_for_days() {
    let mut pair = world();
    const DAY_MS: u64 = 86_400_000;
    expire_in(&mut pair, DAY_MS as i64);
    let client = live_bot(&mut pair);
    pair.advance_with_heartbeats(DAY_MS - 30_000);
    assert!(pair.take(client).iter().all(|received| *received == Received::HeartbeatAck));
    assert!(is_expired_after(&mut pair, client, 31_000));
}

#[test]
fn s15_expiry_moves_with_the_connection_and_outlives_a_restart() {
    let mut pair = world_of(PairConfig { partitions_count: 2, ..PairConfig::default() });
    expire_in(&mut pair, 60_000);
    let client = live_bot(&mut pair);
    pair.cut(client);
    let client = pair.reconnect_to(1, client, ClientParams::JSON);
    pair.take(client);
    expire_in(&mut pair, 10_000);
    pair.client(client).resume(&pro().username);
    assert_eq!(pair.names(client).last().expect("RESUMED").1, "RESUMED");
    assert!(!is_expired_after(&mut pair, client, 9_000));
    assert!(is_expired_after(&mut pair, client, 2_000));

    let mut pair = world();
    expire_in(&mut pair, 60_000);
    let client = live_bot(&mut pair);
    pair.restart(vec![guild().load()], 1 << 20);
    expire_in(&mut pair, 10_000);
    let (client, names) = resume(&mut pair, client);
    assert_eq!(names, ["RESUMED"]);
    assert!(!is_expired_after(&mut pair, client, 9_000));
    assert!(is_expired_after(&mut pair, client, 2_000));
}

#[test]
fn s15_where_it_is_switched_off_sessions_go_on() {
    let mut pair = world_with(|config| config.expire_sessions = false);
    expire_in(&mut pair, 5_000);
    let client = live_bot(&mut pair);
    assert!(!is_expired_after(&mut pair, client, 20_000));
}
