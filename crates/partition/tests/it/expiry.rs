//! A token's expiry ends the connection of its session, and another token of the account continues the session.

use crate::fixture::*;
use guildhall_stdx::Timestamp;
use guildhall_test_kit::{ClientId, ClientParams, Received, TestCluster, TestClusterConfig};

/// From now on tokens are new ones, which expire after `ms`.
fn expire_in(cluster: &mut TestCluster, ms: i64) {
    cluster.token += 1;
    cluster.token_expires_at = Some(Timestamp(cluster.clock.now().unix.0 + ms));
}

/// Passes time in small steps; whether the client is closed with 4004 in it.
fn is_expired_after(cluster: &mut TestCluster, client: ClientId, ms: u64) -> bool {
    for _ in 0..ms / 1_000 {
        cluster.advance_with_heartbeats(1_000);
        let closed = cluster.take(client).into_iter().find_map(|received| match received {
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

fn resume(cluster: &mut TestCluster, client: ClientId) -> (ClientId, Vec<String>) {
    let (client, received) = resumed(cluster, client, &pro());
    let names = received.into_iter().map(|received| match received {
        Received::Dispatch(dispatch) => dispatch.name,
        other => panic!("{other:?} in a replay"),
    });
    (client, names.collect())
}

#[test]
fn s15_a_session_ends_with_its_token_and_goes_on_with_another() {
    let mut cluster = world();
    expire_in(&mut cluster, 10_000);
    let client = live_bot(&mut cluster);
    assert!(!is_expired_after(&mut cluster, client, 9_000));
    assert!(is_expired_after(&mut cluster, client, 2_000));
    assert_eq!((cluster.partition().sessions_count(), cluster.partition().attached_count()), (1, 0));
    assert_eq!(cluster.partition().counters().sessions_expired_total, 1);
    say_all(&mut cluster, ["missed".to_owned()]);
    expire_in(&mut cluster, 20_000);
    let (client, names) = resume(&mut cluster, client);
    assert_eq!(names, ["MESSAGE_CREATE", "RESUMED"]);
    assert!(!is_expired_after(&mut cluster, client, 19_000));
    assert!(is_expired_after(&mut cluster, client, 2_000));
    // The last token that it came with counts, and one without expiry has no end.
    cluster.token_expires_at = None;
    let (client, _) = resume(&mut cluster, client);
    assert!(!is_expired_after(&mut cluster, client, 60_000));
}

#[test]
fn s15_a_resume_in_time_extends_or_shortens() {
    let mut cluster = world();
    expire_in(&mut cluster, 20_000);
    let mut client = live_bot(&mut cluster);
    assert!(!is_expired_after(&mut cluster, client, 10_000));
    cluster.cut(client);
    expire_in(&mut cluster, 30_000);
    (client, _) = resume(&mut cluster, client);
    assert!(!is_expired_after(&mut cluster, client, 29_000), "the first token's time is over in between");
    cluster.cut(client);
    expire_in(&mut cluster, 3_600_000);
    (client, _) = resume(&mut cluster, client);
    assert!(!is_expired_after(&mut cluster, client, 5_000));
    cluster.cut(client);
    expire_in(&mut cluster, 5_000);
    (client, _) = resume(&mut cluster, client);
    assert!(is_expired_after(&mut cluster, client, 6_000));
}

#[test]
fn s15_a_token_that_lasts_for_days() {
    let mut cluster = world();
    const DAY_MS: u64 = 86_400_000;
    expire_in(&mut cluster, DAY_MS as i64);
    let client = live_bot(&mut cluster);
    cluster.advance_with_heartbeats(DAY_MS - 30_000);
    assert!(cluster.take(client).iter().all(|received| *received == Received::HeartbeatAck));
    assert!(is_expired_after(&mut cluster, client, 31_000));
}

#[test]
fn s15_expiry_moves_with_the_connection_and_outlives_a_restart() {
    let mut cluster = world_of(TestClusterConfig { partitions_count: 2, ..TestClusterConfig::default() });
    expire_in(&mut cluster, 60_000);
    let client = live_bot(&mut cluster);
    cluster.cut(client);
    let client = cluster.reconnect_to(1, client, ClientParams::JSON);
    cluster.take(client);
    expire_in(&mut cluster, 10_000);
    cluster.client(client).resume(&pro().username);
    assert_eq!(cluster.names(client).last().expect("RESUMED").1, "RESUMED");
    assert!(!is_expired_after(&mut cluster, client, 9_000));
    assert!(is_expired_after(&mut cluster, client, 2_000));

    let mut cluster = world();
    expire_in(&mut cluster, 60_000);
    let client = live_bot(&mut cluster);
    cluster.restart(vec![guild().load()], 1 << 20);
    expire_in(&mut cluster, 10_000);
    let (client, names) = resume(&mut cluster, client);
    assert_eq!(names, ["RESUMED"]);
    assert!(!is_expired_after(&mut cluster, client, 9_000));
    assert!(is_expired_after(&mut cluster, client, 2_000));
}

#[test]
fn s15_where_it_is_switched_off_sessions_go_on() {
    let mut cluster = world_with(|config| config.expire_sessions = false);
    expire_in(&mut cluster, 5_000);
    let client = live_bot(&mut cluster);
    assert!(!is_expired_after(&mut cluster, client, 20_000));
}
