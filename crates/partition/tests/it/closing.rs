//! Close codes, one by one, and what becomes of the session.

use crate::fixture::*;
use guildhall_model::CloseCode;
use guildhall_partition::{IdentifyFault, Leaving};
use guildhall_test_kit::{ClientId, ClientParams, GRACE_MS, Received, TestClient, TestCluster, identify_payload};
use serde_json::{Value, json};

/// A client that received HELLO, before IDENTIFY.
fn greeted(params: ClientParams) -> (TestCluster, ClientId) {
    let mut cluster = world();
    let client = cluster.connect(params);
    cluster.take(client);
    (cluster, client)
}

/// Checks the close code of a client that has received HELLO, after it sent something.
fn check_greeted(params: ClientParams, send: impl FnOnce(&mut TestClient), expected: CloseCode) {
    let (mut cluster, client) = greeted(params);
    send(cluster.client(client));
    assert_eq!(cluster.close_code(client), Some(expected.code()));
    assert_eq!(cluster.partition().conns_count(), 0, "it is over once the client has closed too");
}

/// The same for one with a session, which must be there still.
fn check_live(params: ClientParams, send: impl FnOnce(&mut TestClient), expected: CloseCode) {
    let mut cluster = world();
    let client = live(&mut cluster, &pro(), Some(FULL), params);
    let witness = live(&mut cluster, &bob(), None, ClientParams::JSON);
    send(cluster.client(client));
    assert_eq!(cluster.close_code(client), Some(expected.code()));
    say(&mut cluster, &ana(), GENERAL, "still here");
    assert_eq!(heard(&mut cluster, witness).len(), 1, "no other session is closed");
    let (_, names) = replayed(&mut cluster, client, &pro());
    assert!(names.iter().any(|(_, name)| name == "MESSAGE_CREATE"), "{names:?}");
}

fn identify<C: FnOnce(&mut Value)>(token: &str, change: C) -> impl FnOnce(&mut TestClient) + use<C> {
    let mut d = identify_payload(token, Some(PLAIN));
    change(&mut d);
    move |client: &mut TestClient| client.identify(d)
}

#[test]
fn c4001_an_opcode_that_is_not_known() {
    for op in [0, 7, 9, 10, 11, 44, 99, 255, u64::MAX] {
        check_greeted(ClientParams::JSON, |client| client.send(op, &Value::Null), CloseCode::UnknownOpcode);
        check_live(ClientParams::ETF, |client| client.send(op, &Value::Null), CloseCode::UnknownOpcode);
    }
}

#[test]
fn c4001_a_payload_that_does_not_fit_its_opcode() {
    for (op, d) in [
        (2, json!([])),
        (2, json!({"token": 5})),
        (6, json!({"token": "x"})),
        (6, json!({"token": "x", "session_id": "y", "seq": "z"})),
    ] {
        check_greeted(ClientParams::JSON, |client| client.send(op, &d), CloseCode::UnknownOpcode);
    }
    for (op, d) in [(3, json!(null)), (4, json!([])), (4, json!({"guild_id": {}})), (8, json!({})), (8, json!(null))] {
        check_live(ClientParams::JSON, |client| client.send(op, &d), CloseCode::UnknownOpcode);
    }
}

#[test]
fn opcodes_without_a_server_side_here_are_ignored() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    for op in (12..=39).chain([5, 41, 42, 43]) {
        for d in [Value::Null, json!({"guild_id": "1"}), json!([])] {
            cluster.client(client).send(op, &d);
        }
    }
    cluster.client(client).heartbeat();
    assert_eq!(cluster.take(client), [Received::HeartbeatAck]);
}

#[test]
fn c4002_what_cannot_be_decoded() {
    for bytes in [&b"{"[..], b"", b"[]", b"{\"d\":1}", b"{\"op\":\"1\"}", b"{\"op\":-1}"] {
        check_greeted(ClientParams::JSON, |client| client.send_raw(bytes), CloseCode::DecodeError);
        check_live(ClientParams::JSON, |client| client.send_raw(bytes), CloseCode::DecodeError);
    }
    let atom_key = b"\x83t\0\0\0\x01d\0\x02opa\x01";
    for bytes in [&b"{\"op\":1,\"d\":null}"[..], b"\x83", b"\x83a\x01", atom_key, b"\x83P\0\0\0\0"] {
        check_greeted(ClientParams::ETF, |client| client.send_raw(bytes), CloseCode::DecodeError);
        check_live(ClientParams::ETF, |client| client.send_raw(bytes), CloseCode::DecodeError);
    }
}

/// A heartbeat of exactly this many bytes.
fn padded(bytes: usize) -> Vec<u8> {
    let frame = br#"{"op":1,"d":null,"x":""}"#;
    let mut padded = frame[..frame.len() - 2].to_vec();
    padded.resize(bytes - 2, b'x');
    padded.extend_from_slice(b"\"}");
    padded
}

#[test]
fn c4002_what_is_too_large() {
    let (mut cluster, client) = greeted(ClientParams::JSON);
    cluster.client(client).send_raw(&padded(15_360));
    assert_eq!(cluster.take(client), [Received::HeartbeatAck]);
    check_greeted(ClientParams::JSON, |client| client.send_raw(&padded(15_361)), CloseCode::DecodeError);

    check_live(ClientParams::JSON, |client| client.send_raw(&padded(4_097)), CloseCode::DecodeError);
    for (account, max) in [(pro(), 4_096), (bob(), 15_360)] {
        let mut cluster = world();
        let client = live(&mut cluster, &account, Some(FULL), ClientParams::JSON);
        cluster.client(client).send_raw(&padded(max));
        assert_eq!(cluster.take(client), [Received::HeartbeatAck]);
        cluster.client(client).send_raw(&padded(max + 1));
        assert_eq!(cluster.close_code(client), Some(4002));
    }
}

#[test]
fn the_limit_of_a_bot_holds_after_a_resume_too() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.cut(client);
    let (client, _) = replayed(&mut cluster, client, &pro());
    cluster.client(client).send_raw(&padded(4_097));
    assert_eq!(cluster.close_code(client), Some(4002));
}

#[test]
fn c4003_anything_before_identify() {
    for (op, d) in [(3, json!({"status": "idle"})), (4, json!({})), (8, json!({"guild_id": "1", "query": ""}))] {
        check_greeted(ClientParams::JSON, |client| client.send(op, &d), CloseCode::NotAuthenticated);
    }
    for op in [5, 12, 14, 37, 43] {
        check_greeted(ClientParams::ETF, |client| client.send(op, &json!({})), CloseCode::NotAuthenticated);
    }
    let (mut cluster, client) = greeted(ClientParams::JSON);
    cluster.client(client).send(41, &json!({}));
    cluster.client(client).heartbeat();
    assert_eq!(cluster.take(client), [Received::HeartbeatAck]);
}

#[test]
fn c4004_a_wrong_token() {
    check_greeted(ClientParams::JSON, identify("nobody", |_| {}), CloseCode::AuthenticationFailed);
    check_greeted(ClientParams::JSON, |client| client.resume("nobody"), CloseCode::AuthenticationFailed);
}

#[test]
fn c4005_a_second_identify_or_resume() {
    check_live(ClientParams::JSON, identify(&pro().username, |_| {}), CloseCode::AlreadyAuthenticated);
    check_live(ClientParams::JSON, |client| client.resume(&pro().username), CloseCode::AlreadyAuthenticated);
    // Both in one read, before the first is answered.
    let (mut cluster, client) = greeted(ClientParams::JSON);
    cluster.client(client).identify(identify_payload(&pro().username, Some(PLAIN)));
    cluster.client(client).identify(identify_payload(&pro().username, Some(PLAIN)));
    assert_eq!(cluster.close_code(client), Some(4005));
    assert_eq!(cluster.partition().sessions_count(), 1);
}

#[test]
fn c4008_more_than_120_messages_a_minute() {
    let flood = |count: usize| {
        move |client: &mut TestClient| {
            for i in 0..count {
                if i % 2 == 0 { client.heartbeat() } else { client.ping(b"x") }
            }
        }
    };
    check_greeted(ClientParams::JSON, flood(121), CloseCode::RateLimited);
    // IDENTIFY was the first.
    check_live(ClientParams::JSON, flood(120), CloseCode::RateLimited);

    let (mut cluster, client) = greeted(ClientParams::JSON);
    flood(120)(cluster.client(client));
    assert_eq!(cluster.take(client).len(), 120, "as many answers");
    cluster.advance(60_000 - 1);
    let live = live_bot(&mut cluster);
    cluster.client(client).heartbeat();
    assert_eq!(cluster.close_code(client), Some(4008), "the minute is not over");
    flood(119)(cluster.client(live));
    assert_eq!(cluster.take(live).len(), 119);
    cluster.advance(60_000);
    flood(120)(cluster.client(live));
    assert_eq!(cluster.take(live).len(), 120, "a new minute");
}

#[test]
fn c4010_a_shard_that_cannot_be() {
    for shard in [json!([1, 1]), json!([0, 0]), json!([-1, 2]), json!("x"), json!([0]), json!([0, 1, 2]), json!({})] {
        let send = identify(&gob().username, |d| d["shard"] = shard);
        check_greeted(ClientParams::JSON, send, CloseCode::InvalidShard);
    }
}

#[test]
fn c4011_too_many_guilds_for_one_shard() {
    let mut cluster = world_with(|config| config.guilds_per_shard_max = 1);
    let fits = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    assert_eq!(cluster.take(fits), []);
    cluster.name_guild(&pro(), guildhall_test_kit::id(2));
    let client = cluster.login(&pro(), Some(PLAIN), ClientParams::JSON);
    assert_eq!(cluster.close_code(client), Some(4011));
}

#[test]
fn c4012_a_version_that_is_not_served() {
    let mut cluster = world();
    let client = cluster.connect_refused(CloseCode::InvalidApiVersion);
    let received = cluster.take(client);
    assert_eq!(received, [Received::Close(Some(4012), "Invalid API version".to_owned()), Received::End]);
}

#[test]
fn c4013_intents_that_are_none() {
    for intents in [Value::Null, json!(-1), json!("513"), json!(1.5), json!(1u64 << 29), json!(u64::MAX), json!([1])] {
        let send = identify(&gob().username, |d| d["intents"] = intents);
        check_greeted(ClientParams::JSON, send, CloseCode::InvalidIntents);
    }
}

#[test]
fn c4014_intents_that_were_not_granted() {
    for bit in [1, 8, 15, 18, 19, 22, 23] {
        let send = identify(&gob().username, |d| d["intents"] = (1u64 << bit).into());
        check_greeted(ClientParams::JSON, send, CloseCode::DisallowedIntents);
    }
    // User accounts need no granted intents.
    let (mut cluster, client) = greeted(ClientParams::JSON);
    cluster.client(client).identify(identify_payload(&bob().username, Some(u32::MAX)));
    assert_eq!(cluster.names(client), [(1, "READY".to_owned())]);
}

#[test]
fn close_reasons_say_which_intent_or_field() {
    let reason = |send: &dyn Fn(&mut Value)| {
        let (mut cluster, client) = greeted(ClientParams::JSON);
        identify(&gob().username, |d| send(d))(cluster.client(client));
        match cluster.take(client).as_slice() {
            [Received::Close(_, reason), Received::End] => reason.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        reason(&|d| d["intents"] = (1 << 1 | 1 << 15 | 1 << 9).into()),
        "Disallowed intent(s): GUILD_MEMBERS, MESSAGE_CONTENT not granted by application_flags"
    );
    assert_eq!(reason(&|d| d["intents"] = (1 << 19).into()), "Disallowed intent(s): CALLS not for bots");
    assert_eq!(reason(&|d| d["intents"] = (1u64 << 40).into()), "Invalid intent(s): unknown bits: 1099511627776");
    assert_eq!(
        reason(&|d| d["intents"] = Value::Null),
        "Invalid intent(s): `intents` must be a number, and bots must send it"
    );
    assert_eq!(
        reason(&|d| d["shard"] = json!([1, 1])),
        "Invalid shard: `shard` must be [id, count] with id below count"
    );
    assert_eq!(
        reason(&|d| d["token"] = Value::Null),
        "Unknown opcode or invalid payload for it: IDENTIFY: `token` must be a string"
    );
}

#[test]
fn c4015_too_many_sessions() {
    let (mut cluster, client) = greeted(ClientParams::JSON);
    cluster.gate.deny_next(IdentifyFault::Sessions);
    cluster.client(client).identify(identify_payload(&bob().username, None));
    assert_eq!(cluster.close_code(client), Some(4015));
    assert_eq!(cluster.partition().sessions_count(), 0);
}

#[test]
fn the_order_of_checks_is_the_protocols() {
    // Intents before shard, shard before the gate.
    let (mut cluster, client) = greeted(ClientParams::JSON);
    cluster.gate.deny_next(IdentifyFault::BotRate);
    identify(&gob().username, |d| {
        d["intents"] = (-1).into();
        d["shard"] = json!([5, 1]);
    })(cluster.client(client));
    assert_eq!(cluster.close_code(client), Some(4013));
    let other = cluster.connect(ClientParams::JSON);
    identify(&gob().username, |d| d["shard"] = json!([5, 1]))(cluster.client(other));
    assert_eq!(cluster.close_code(other), Some(4010));
    let third = cluster.connect(ClientParams::JSON);
    cluster.take(third);
    identify(&gob().username, |_| {})(cluster.client(third));
    assert_eq!(cluster.take(third), [Received::InvalidSession(false)]);
}

#[test]
fn a_client_that_says_1000_or_1001_is_gone_for_good() {
    for code in [1000, 1001] {
        let mut cluster = world();
        let client = live_bot(&mut cluster);
        cluster.client(client).close(Some(code));
        assert_eq!(cluster.take(client), [Received::Close(Some(code), String::new()), Received::End]);
        assert_eq!(cluster.partition().sessions_count(), 0);
        refused(&mut cluster, client, &pro());
    }
}

#[test]
fn a_client_that_says_anything_else_comes_back() {
    for code in [Some(1006 + 5), Some(3000), Some(4000), Some(4200), Some(4999), None] {
        let mut cluster = world();
        let client = live_bot(&mut cluster);
        cluster.client(client).close(code);
        let received = cluster.take(client);
        assert!(matches!(received[..], [Received::Close(..), Received::End]), "{code:?}: {received:?}");
        say(&mut cluster, &ana(), GENERAL, "meanwhile");
        let (_, names) = replayed(&mut cluster, client, &pro());
        assert_eq!(names.len(), 1, "{code:?}");
    }
}

#[test]
fn the_server_never_says_1000_or_1001_of_its_own_accord() {
    assert!(CloseCode::ALL.iter().all(|code| (4000..=4015).contains(&code.code())));
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.client(client).close(None);
    assert_eq!(
        cluster.take(client),
        [Received::Close(None, String::new()), Received::End],
        "an empty one is answered so"
    );
}

#[test]
fn a_fault_below_the_gateway_protocol_keeps_the_session() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    // A frame without mask.
    cluster.client(client).socket().client_write(b"\x81\x02{}");
    assert_eq!(cluster.close_code(client), Some(1002));
    let (client, _) = replayed(&mut cluster, client, &pro());
    cluster.client(client).send_raw(b"\xff");
    assert_eq!(cluster.close_code(client), Some(1007), "text that is no UTF-8");
    replayed(&mut cluster, client, &pro());
}

#[test]
fn pings_are_answered_before_and_after_identify() {
    let mut cluster = world();
    let client = cluster.connect(ClientParams::ETF);
    cluster.client(client).ping(b"one");
    assert!(cluster.take(client).contains(&Received::Pong(b"one".to_vec())));
    cluster.client(client).identify(identify_payload(&pro().username, Some(FULL)));
    cluster.client(client).ping(b"");
    assert!(cluster.take(client).contains(&Received::Pong(Vec::new())));
}

#[test]
fn a_client_that_does_not_close_after_our_close_is_cut() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.stop_reading(client);
    cluster.client(client).send(99, &Value::Null);
    cluster.run_until_idle();
    assert_eq!(cluster.partition().conns_count(), 1);
    cluster.advance(4_999);
    assert_eq!(cluster.partition().conns_count(), 1);
    cluster.advance(1);
    assert_eq!(cluster.partition().conns_count(), 0);
    cluster.start_reading(client);
    assert_eq!(cluster.close_code(client), Some(4001), "earlier dispatches arrive");
}

#[test]
fn nothing_follows_a_close_frame() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.stop_reading(client);
    cluster.client(client).send(99, &Value::Null);
    cluster.client(client).heartbeat();
    cluster.client(client).ping(b"x");
    cluster.run_until_idle();
    say(&mut cluster, &ana(), GENERAL, "too late");
    cluster.run_until_idle();
    cluster.send_reconnects(0, usize::MAX);
    cluster.close_all(0);
    cluster.start_reading(client);
    let received = cluster.take(client);
    assert!(matches!(received[..], [Received::Close(Some(4001), _), Received::End]), "{received:?}");
}

#[test]
fn a_reconnect_request_reaches_every_open_connection() {
    let mut cluster = world();
    let bot = live_bot(&mut cluster);
    let greeted = cluster.connect(ClientParams::ETF);
    cluster.take(greeted);
    cluster.send_reconnects(0, usize::MAX);
    assert_eq!(cluster.take(bot), [Received::Reconnect]);
    assert_eq!(cluster.take(greeted), [Received::Reconnect]);
    cluster.close_all(0);
    assert_eq!(cluster.close_code(bot), Some(4000));
    assert_eq!(cluster.close_code(greeted), Some(4000));
    replayed(&mut cluster, bot, &pro());
}

#[test]
fn a_client_that_ignores_reconnect_is_closed_after_the_grace_period() {
    let mut cluster = world();
    let bots: Vec<_> = (0..3).map(|_| live_bot(&mut cluster)).collect();
    let leaving = cluster.send_reconnects(0, 2);
    assert_eq!(leaving, Leaving { asked_count: 2, unasked_count: 1, conns_count: 3 });
    assert_eq!(cluster.take(bots[0]), [Received::Reconnect]);
    assert_eq!(cluster.take(bots[1]), [Received::Reconnect]);
    assert_eq!(cluster.take(bots[2]), []);
    // They are served until they go.
    say(&mut cluster, &ana(), GENERAL, "still here?");
    cluster.advance(GRACE_MS - 1);
    for bot in &bots {
        assert!(matches!(cluster.take(*bot)[..], [Received::Dispatch(_)]), "they hear everything until then");
    }
    cluster.advance(1);
    assert_eq!(cluster.close_code(bots[0]), Some(4000));
    assert_eq!(cluster.close_code(bots[1]), Some(4000));
    assert_eq!(cluster.take(bots[2]), [], "no reconnect was requested of it");
    replayed(&mut cluster, bots[0], &pro());
}
