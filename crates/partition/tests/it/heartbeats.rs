//! Heartbeats: answered always and first; overdue ones; the dispatches that they trim.

use crate::fixture::*;
use guildhall_test_kit::{ClientParams, Received, identify_payload};
use serde_json::{Value, json};

#[test]
fn they_are_answered_at_any_time() {
    let mut pair = world();
    for params in [ClientParams::JSON, ClientParams::ETF] {
        let client = pair.connect(params);
        pair.take(client);
        for (op, d) in [
            (1, Value::Null),
            (1, json!(251)),
            (1, json!("x")),
            (1, json!(-1)),
            (40, json!({"seq": null, "qos": {"ver": 27, "active": true, "reasons": []}})),
            (40, Value::Null),
        ] {
            pair.client(client).send(op, &d);
            assert_eq!(pair.take(client), [Received::HeartbeatAck], "op {op} {d}");
        }
        pair.client(client).identify(identify_payload(&pro().username, Some(FULL)));
        pair.take(client);
        pair.client(client).heartbeat();
        pair.client(client).send(40, &json!({"seq": 1, "qos": {}}));
        assert_eq!(pair.take(client), [Received::HeartbeatAck, Received::HeartbeatAck]);
    }
}

#[test]
fn an_answer_overtakes_what_waits() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    pair.stop_reading(client);
    let socket = pair.client(client).socket().clone();
    socket.set_room(40);
    say_all(&mut pair, (0..30).map(|n| format!("{n}")));
    pair.settle();
    assert!(socket.is_full());
    pair.client(client).heartbeat();
    pair.settle();
    socket.set_room(usize::MAX);
    pair.start_reading(client);
    let received = pair.take(client);
    assert_eq!(received.len(), 31);
    // Only the frame that was begun comes before.
    assert_eq!(received[1], Received::HeartbeatAck, "{received:?}");
}

#[test]
fn a_silent_client_is_closed_and_may_resume() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    pair.advance(41_250 * 3 / 2 - 1);
    assert_eq!(pair.take(client), []);
    pair.advance(1);
    assert_eq!(pair.close_code(client), Some(4000));
    say(&mut pair, &ana(), GENERAL, "meanwhile");
    let (_, names) = replayed(&mut pair, client, &pro());
    assert_eq!(names.len(), 1);
}

#[test]
fn anything_a_client_says_counts_as_a_sign_of_life() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    for _ in 0..5 {
        pair.advance(60_000);
        pair.client(client).send(3, &json!({"status": "online"}));
        pair.settle();
    }
    assert_eq!(pair.close_code(client), None);
    pair.advance_with_heartbeats(600_000);
    assert_eq!(pair.close_code(client), None);
    assert_eq!(pair.partition().sessions_count(), 1);
}

#[test]
fn who_does_not_identify_is_closed_whatever_they_beat() {
    let mut pair = world();
    let client = pair.connect(ClientParams::JSON);
    for _ in 0..5 {
        pair.advance(10_000);
        pair.client(client).heartbeat();
    }
    assert_eq!(pair.close_code(client), None);
    pair.advance(10_000);
    assert_eq!(pair.close_code(client), Some(4003));
}

#[test]
fn they_trim_what_can_be_replayed_but_never_what_was_not_written() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    let seen = pair.client(client).seq;
    say_all(&mut pair, (0..4).map(|n| format!("{n}")));
    pair.take(client);
    pair.client(client).heartbeat();
    pair.settle();
    // A resume from before what was acknowledged cannot be served.
    let last = pair.client(client).seq;
    assert_eq!(last, seen + 4);
    pair.cut(client);
    pair.client(client).seq = seen;
    refused(&mut pair, client, &pro());
    pair.client(client).seq = last;
    let (client, names) = replayed(&mut pair, client, &pro());
    assert_eq!(names, []);

    // A client that claims more than it was sent loses nothing.
    pair.stop_reading(client);
    pair.client(client).socket().set_room(0);
    say_all(&mut pair, (0..4).map(|n| format!("{n}")));
    pair.client(client).send(1, &json!(1_000_000));
    pair.settle();
    pair.client(client).socket().set_room(usize::MAX);
    pair.start_reading(client);
    assert_eq!(heard(&mut pair, client).len(), 4);
}
