//! Heartbeats: answered always and first; overdue ones; the dispatches that they trim.

use crate::fixture::*;
use guildhall_test_kit::{ClientParams, Received, identify_payload};
use serde_json::{Value, json};

#[test]
fn they_are_answered_at_any_time() {
    let mut cluster = world();
    for params in [ClientParams::JSON, ClientParams::ETF] {
        let client = cluster.connect(params);
        cluster.take(client);
        for (op, d) in [
            (1, Value::Null),
            (1, json!(251)),
            (1, json!("x")),
            (1, json!(-1)),
            (40, json!({"seq": null, "qos": {"ver": 27, "active": true, "reasons": []}})),
            (40, Value::Null),
        ] {
            cluster.client(client).send(op, &d);
            assert_eq!(cluster.take(client), [Received::HeartbeatAck], "op {op} {d}");
        }
        cluster.client(client).identify(identify_payload(&pro().username, Some(FULL)));
        cluster.take(client);
        cluster.client(client).heartbeat();
        cluster.client(client).send(40, &json!({"seq": 1, "qos": {}}));
        assert_eq!(cluster.take(client), [Received::HeartbeatAck, Received::HeartbeatAck]);
    }
}

#[test]
fn an_answer_overtakes_what_waits() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.stop_reading(client);
    let socket = cluster.client(client).socket().clone();
    socket.set_room(40);
    say_all(&mut cluster, (0..30).map(|n| format!("{n}")));
    cluster.run_until_idle();
    assert!(socket.is_full());
    cluster.client(client).heartbeat();
    cluster.run_until_idle();
    socket.set_room(usize::MAX);
    cluster.start_reading(client);
    let received = cluster.take(client);
    assert_eq!(received.len(), 31);
    // Only the frame that was begun comes before.
    assert_eq!(received[1], Received::HeartbeatAck, "{received:?}");
}

#[test]
fn a_silent_client_is_closed_and_may_resume() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.advance(41_250 * 3 / 2 - 1);
    assert_eq!(cluster.take(client), []);
    cluster.advance(1);
    assert_eq!(cluster.close_code(client), Some(4000));
    say(&mut cluster, &ana(), GENERAL, "meanwhile");
    let (_, names) = replayed(&mut cluster, client, &pro());
    assert_eq!(names.len(), 1);
}

#[test]
fn anything_a_client_says_counts_as_a_sign_of_life() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    for _ in 0..5 {
        cluster.advance(60_000);
        cluster.client(client).send(3, &json!({"status": "online"}));
        cluster.run_until_idle();
    }
    assert_eq!(cluster.close_code(client), None);
    cluster.advance_with_heartbeats(600_000);
    assert_eq!(cluster.close_code(client), None);
    assert_eq!(cluster.partition().sessions_count(), 1);
}

#[test]
fn a_client_without_identify_is_closed_in_spite_of_heartbeats() {
    let mut cluster = world();
    let client = cluster.connect(ClientParams::JSON);
    for _ in 0..5 {
        cluster.advance(10_000);
        cluster.client(client).heartbeat();
    }
    assert_eq!(cluster.close_code(client), None);
    cluster.advance(10_000);
    assert_eq!(cluster.close_code(client), Some(4003));
}

#[test]
fn they_trim_what_can_be_replayed_but_never_what_was_not_written() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    let seen = cluster.client(client).seq;
    say_all(&mut cluster, (0..4).map(|n| format!("{n}")));
    cluster.take(client);
    cluster.client(client).heartbeat();
    cluster.run_until_idle();
    // A resume from before what was acknowledged cannot be served.
    let last = cluster.client(client).seq;
    assert_eq!(last, seen + 4);
    cluster.cut(client);
    cluster.client(client).seq = seen;
    refused(&mut cluster, client, &pro());
    cluster.client(client).seq = last;
    let (client, names) = replayed(&mut cluster, client, &pro());
    assert_eq!(names, []);

    // A client that claims more than it was sent loses nothing.
    cluster.stop_reading(client);
    cluster.client(client).socket().set_room(0);
    say_all(&mut cluster, (0..4).map(|n| format!("{n}")));
    cluster.client(client).send(1, &json!(1_000_000));
    cluster.run_until_idle();
    cluster.client(client).socket().set_room(usize::MAX);
    cluster.start_reading(client);
    assert_eq!(heard(&mut cluster, client).len(), 4);
}
