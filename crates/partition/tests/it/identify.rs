//! HELLO, IDENTIFY and READY.

use crate::fixture::*;
use guildhall_guild::{Command, Output};
use guildhall_guild_protocol::{RelayMessage, RelayOutput, ToGuild, ToRelay};
use guildhall_model::{CloseCode, GuildId, shard_of};
use guildhall_partition::{INVALID_SESSIONS_MAX, IdentifyFault};
use guildhall_stdx::Now;
use guildhall_test_kit::{ClientParams, GuildBuilder, Hold, Outage, Received, TestCluster, id, identify_payload};
use serde_json::json;

#[test]
fn hello_is_sent_before_any_request() {
    for params in [ClientParams::JSON, ClientParams::ETF] {
        let mut cluster = world();
        let client = cluster.connect(params);
        assert_eq!(cluster.take(client), [Received::Hello { heartbeat_interval: 41_250 }]);
    }
}

#[test]
fn a_bot_is_ready_and_its_guild_follows() {
    let mut cluster = world();
    let client = cluster.login(&gob(), Some(PLAIN), ClientParams::JSON);
    let dispatches = cluster.dispatches(client);
    let [ready, guild] = &dispatches[..] else { panic!("{dispatches:?}") };
    assert_eq!((ready.seq, ready.name.as_str()), (1, "READY"));
    let d = ready.d();
    assert_eq!(d["v"], 10);
    assert_eq!(d["user"]["id"], gob().id.to_string());
    assert_eq!(d["user"]["bot"], true);
    assert_eq!(d["guilds"], json!([{"id": id::<()>(GUILD).to_string(), "unavailable": true}]));
    assert_eq!(text(&d["session_id"]).len(), 32);
    assert_eq!(d["resume_gateway_url"], "wss://gw.example.net");
    assert_eq!(d["application"], json!({"id": gob().id.to_string(), "flags": 0}));
    assert!(d.get("shard").is_none(), "shard is echoed only when it was sent");
    assert_eq!((guild.seq, guild.name.as_str()), (2, "GUILD_CREATE"));
    assert_eq!(guild.d()["id"], id::<()>(GUILD).to_string());
    assert_eq!(cluster.gate.admitted(), [(gob().id, 0)]);
}

#[test]
fn a_user_gets_whole_guilds_inside_ready() {
    let mut cluster = world();
    let client = cluster.login(&bob(), None, ClientParams::JSON);
    let dispatches = cluster.dispatches(client);
    let [ready] = &dispatches[..] else { panic!("{dispatches:?}") };
    let d = ready.d();
    assert_eq!((ready.seq, ready.name.as_str()), (1, "READY"));
    assert_eq!(listed(&d["guilds"], "/id"), [id::<()>(GUILD).to_string()]);
    assert_eq!(d["guilds"][0]["channels"].as_array().map(Vec::len), Some(3));
    assert_eq!(d["sessions"][0]["session_id"], d["session_id"]);
}

#[test]
fn a_user_without_guilds_is_ready_at_once() {
    let mut cluster = world();
    let eve = guildhall_test_kit::user(777);
    cluster.add_account(&eve);
    let client = cluster.login(&eve, None, ClientParams::ETF);
    let dispatches = cluster.dispatches(client);
    assert_eq!(dispatches.len(), 1);
    assert_eq!(dispatches[0].d()["guilds"], json!([]));
}

#[test]
fn tokens_may_have_a_prefix() {
    for prefix in ["", "Bot ", "Bearer "] {
        let mut cluster = world();
        let client = cluster.connect(ClientParams::JSON);
        let token = format!("{prefix}{}", gob().username);
        cluster.client(client).identify(identify_payload(&token, Some(PLAIN)));
        assert_eq!(cluster.names(client).len(), 2, "{prefix:?}");
    }
}

#[test]
fn a_shard_sees_its_guilds_only_and_is_echoed() {
    let right = shard_of(id(GUILD), 2);
    for shard in 0..2 {
        let mut cluster = world();
        let client = cluster.connect(ClientParams::JSON);
        let mut d = identify_payload(&gob().username, Some(PLAIN));
        d["shard"] = json!([shard, 2]);
        cluster.client(client).identify(d);
        let dispatches = cluster.dispatches(client);
        assert_eq!(dispatches[0].d()["shard"], json!([shard, 2]));
        let expected = if shard == right { 1 } else { 0 };
        assert_eq!(dispatches[0].d()["guilds"].as_array().map(Vec::len), Some(expected));
        assert_eq!(dispatches.len(), 1 + expected);
        say(&mut cluster, &ana(), GENERAL, "hi");
        assert_eq!(cluster.names(client).len(), expected);
        assert_eq!(cluster.gate.admitted(), [(gob().id, shard)]);
    }
}

#[test]
fn without_the_guilds_intent_there_is_no_guild_create() {
    let mut cluster = world();
    let client = cluster.login(&gob(), Some(1 << 9), ClientParams::JSON);
    assert_eq!(cluster.names(client), [(1, "READY".to_owned())]);
    say(&mut cluster, &ana(), GENERAL, "hi");
    assert_eq!(cluster.names(client), [(2, "MESSAGE_CREATE".to_owned())]);
}

#[test]
fn a_denied_identify_may_be_tried_again_on_the_same_connection() {
    let mut cluster = world();
    cluster.gate.deny_next(IdentifyFault::BotRate);
    let client = cluster.connect(ClientParams::JSON);
    cluster.take(client);
    cluster.client(client).identify(identify_payload(&gob().username, Some(PLAIN)));
    assert_eq!(cluster.take(client), [Received::InvalidSession(false)]);
    cluster.client(client).identify(identify_payload(&gob().username, Some(PLAIN)));
    assert_eq!(cluster.names(client).len(), 2);
}

#[test]
fn a_token_that_cannot_be_checked_is_not_a_wrong_one() {
    let mut cluster = world();
    cluster.break_service(Outage::Auth);
    let client = cluster.connect(ClientParams::JSON);
    cluster.take(client);
    cluster.client(client).identify(identify_payload(&gob().username, Some(PLAIN)));
    assert_eq!(cluster.take(client), [Received::InvalidSession(false)]);
    cluster.repair(Outage::Auth);
    cluster.client(client).identify(identify_payload(&gob().username, Some(PLAIN)));
    assert_eq!(cluster.names(client).len(), 2);
}

#[test]
fn s8_a_connection_that_collects_op_9s_is_closed() {
    let mut cluster = world();
    cluster.break_service(Outage::Auth);
    let client = cluster.connect(ClientParams::JSON);
    cluster.take(client);
    for n in 0..INVALID_SESSIONS_MAX {
        // A RESUME counts as well.
        match n % 2 {
            0 => cluster.client(client).identify(identify_payload(&gob().username, Some(PLAIN))),
            _ => cluster.client(client).resume(&gob().username),
        }
        assert_eq!(cluster.take(client), [Received::InvalidSession(false)], "{n}");
    }
    cluster.client(client).identify(identify_payload(&gob().username, Some(PLAIN)));
    assert_eq!(cluster.close_code(client), Some(4008));
    // The next connection begins without any.
    cluster.repair(Outage::Auth);
    let client = cluster.login(&gob(), Some(PLAIN), ClientParams::JSON);
    assert_eq!(cluster.names(client).len(), 2);
}

#[test]
fn s8_an_identify_that_starts_no_session_is_refunded() {
    let mut cluster = world();
    let mut refunds = 0;
    let mut check = |cluster: &mut TestCluster, d: serde_json::Value, code: Option<u16>| {
        let client = cluster.connect(ClientParams::JSON);
        cluster.take(client);
        cluster.client(client).identify(d);
        match code {
            Some(code) => assert_eq!(cluster.close_code(client), Some(code)),
            None => assert_eq!(cluster.take(client), [Received::InvalidSession(false)]),
        }
        refunds += 1;
        assert_eq!(cluster.gate.refunds_count(), refunds, "{code:?}");
    };
    let good = || identify_payload(&gob().username, Some(PLAIN));
    check(&mut cluster, identify_payload("nobody", Some(PLAIN)), Some(4004));
    check(&mut cluster, identify_payload(&gob().username, Some(FULL)), Some(4014));
    cluster.gate.deny_next(IdentifyFault::BotRate);
    check(&mut cluster, good(), None);
    cluster.gate.deny_next(IdentifyFault::Sessions);
    check(&mut cluster, good(), Some(4015));
    cluster.break_service(Outage::Auth);
    check(&mut cluster, good(), None);
    cluster.repair(Outage::Auth);
    // The deadline is over before the token is checked.
    cluster.hold(Hold::TokenChecks);
    let client = cluster.login(&gob(), Some(PLAIN), ClientParams::JSON);
    cluster.run_until_idle();
    cluster.advance(60_000);
    assert_eq!(cluster.close_code(client), Some(4003));
    cluster.answer_tokens();
    assert_eq!(cluster.gate.refunds_count(), refunds + 1);
    cluster.release(Hold::TokenChecks);
    // What starts a session, and what is no IDENTIFY, is not.
    let client = cluster.login(&gob(), Some(PLAIN), ClientParams::JSON);
    assert_eq!(cluster.names(client).len(), 2);
    let client = cluster.connect(ClientParams::JSON);
    cluster.take(client);
    cluster.client(client).resume(&gob().username);
    assert_eq!(cluster.take(client), [Received::InvalidSession(false)]);
    assert_eq!(cluster.gate.refunds_count(), refunds + 1);
}

#[test]
fn what_is_sent_while_the_token_is_checked_is_handled_afterwards() {
    for split in [1, 7, usize::MAX] {
        let mut cluster = world();
        cluster.read_bytes_max = split;
        cluster.hold(Hold::TokenChecks);
        let client = cluster.connect(ClientParams::JSON);
        cluster.take(client);
        cluster.client(client).identify(identify_payload(&gob().username, Some(PLAIN)));
        cluster.client(client).send(1, &json!(null));
        cluster.client(client).send(3, &json!({"status": "idle"}));
        assert_eq!(cluster.take(client), []);
        cluster.answer_tokens();
        let received = cluster.take(client);
        assert!(received.contains(&Received::HeartbeatAck), "{received:?}");
        let has_presence = |message: &(GuildId, ToGuild)| matches!(message.1, ToGuild::Presence { .. });
        assert!(cluster.to_guilds.iter().any(has_presence));
    }
}

#[test]
fn a_client_that_ends_while_its_token_is_checked_leaves_nothing_behind() {
    let mut cluster = world();
    cluster.hold(Hold::TokenChecks);
    let client = cluster.login(&gob(), Some(PLAIN), ClientParams::JSON);
    cluster.cut(client);
    cluster.answer_tokens();
    // The partition notices only now: it reads nothing during the check of the token.
    cluster.run_until_idle();
    assert_eq!(cluster.partition().conns_count(), 0);
    cluster.advance(200_000);
    assert_eq!(cluster.partition().sessions_count(), 0);
}

#[test]
fn a_user_waits_for_slow_guilds_only_so_long() {
    let mut cluster = world();
    let slow = GuildBuilder::new(2, &ana()).member(&bob(), &[]);
    cluster.name_guild(&bob(), slow.id());
    let client = cluster.login(&bob(), None, ClientParams::JSON);
    assert_eq!(cluster.names(client), []);
    say(&mut cluster, &ana(), GENERAL, "early");
    cluster.advance(4_999);
    assert_eq!(cluster.names(client), []);
    cluster.advance(1);
    let dispatches = cluster.dispatches(client);
    let names: Vec<_> = dispatches.iter().map(|dispatch| (dispatch.seq, dispatch.name.as_str())).collect();
    assert_eq!(names, [(1, "READY"), (2, "MESSAGE_CREATE")]);
    let slow_id = slow.id();
    let unavailable = json!({"id": slow_id.to_string(), "unavailable": true});
    assert_eq!(dispatches[0].d()["guilds"].as_array().map(|guilds| guilds.contains(&unavailable)), Some(true));

    cluster.wake_guild(slow.load());
    assert_eq!(cluster.names(client), [(3, "GUILD_CREATE".to_owned())]);
}

/// The node's answer for a guild that cannot be served.
fn tell_unavailable(cluster: &mut TestCluster, guild_id: GuildId) {
    let sent: Vec<ToGuild> =
        cluster.to_guilds.iter().filter(|(of, _)| *of == guild_id).map(|(_, message)| message.clone()).collect();
    let [ToGuild::Subscribe { relay: of, epoch }, ToGuild::Attach { session, .. }] = sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!((of, session.relay), (relay(0), relay(0)));
    let message = RelayMessage::Unavailable { session };
    cluster.publish(0, ToRelay { guild_id, relay: of, epoch, seq: 1, message });
}

#[test]
fn an_unavailable_guild_is_sent_as_unavailable() {
    let lost: GuildId = id(9);
    let mut cluster = world();
    cluster.name_guild(&gob(), lost);
    let client = cluster.login(&gob(), Some(PLAIN), ClientParams::JSON);
    cluster.take(client);
    tell_unavailable(&mut cluster, lost);
    let dispatches = cluster.dispatches(client);
    assert_eq!(dispatches.len(), 1);
    assert_eq!(dispatches[0].name, "GUILD_DELETE");
    assert_eq!(dispatches[0].d(), json!({"id": lost.to_string(), "unavailable": true}));
    // The relay stays; when the guild can be served its stream starts again, and the session attaches again.
    let restored = GuildBuilder::new(9, &ana()).member(&gob(), &[]);
    let attaches = |cluster: &TestCluster| {
        cluster.to_guilds.iter().filter(|(id, m)| *id == lost && matches!(m, ToGuild::Attach { .. })).count()
    };
    assert_eq!(attaches(&cluster), 1);
    let Some((_, ToGuild::Subscribe { relay, epoch })) = cluster.to_guilds.iter().find(|(id, _)| *id == lost).cloned()
    else {
        panic!("{:?}", cluster.to_guilds)
    };
    let mut guild = restored.load();
    guild.handle_relay(Now::default(), ToGuild::Subscribe { relay, epoch });
    let Some(Output::Relay(RelayOutput { message: RelayMessage::Snapshot { replica, .. }, .. })) = guild.poll_output()
    else {
        panic!("a relay gets a snapshot first")
    };
    let message = RelayMessage::Snapshot { replica, reset: true };
    cluster.publish(0, ToRelay { guild_id: lost, relay, epoch, seq: 2, message });
    cluster.run_until_idle();
    assert_eq!(attaches(&cluster), 2);

    let mut cluster = world();
    cluster.name_guild(&bob(), lost);
    let client = cluster.login(&bob(), None, ClientParams::JSON);
    assert_eq!(cluster.dispatches(client), []);
    tell_unavailable(&mut cluster, lost);
    let dispatches = cluster.dispatches(client);
    assert_eq!(dispatches.len(), 1);
    assert_eq!(listed(&dispatches[0].d()["guilds"], "/id"), [id::<()>(GUILD).to_string(), lost.to_string()]);
    assert_eq!(dispatches[0].d()["guilds"][1], json!({"id": lost.to_string(), "unavailable": true}));
}

#[test]
fn a_guild_that_comes_back_while_others_are_waited_for_answers_once() {
    let (back, slow) = (id(9), GuildBuilder::new(2, &ana()).member(&bob(), &[]));
    let mut cluster = world();
    cluster.name_guild(&bob(), back);
    cluster.name_guild(&bob(), slow.id());
    let client = cluster.login(&bob(), None, ClientParams::JSON);
    tell_unavailable(&mut cluster, back);
    assert_eq!(cluster.names(client), []);
    let restored = GuildBuilder::new(9, &ana()).member(&bob(), &[]);
    cluster.wake_guild(restored.load());
    assert_eq!(cluster.names(client), [], "the slow one has not answered");
    cluster.wake_guild(slow.load());
    let dispatches = cluster.dispatches(client);
    assert_eq!(dispatches[0].name, "READY");
    let is_there = |guild: &serde_json::Value| guild["unavailable"] == false;
    assert!(dispatches[0].d()["guilds"].as_array().is_some_and(|guilds| guilds.iter().all(is_there)), "{dispatches:?}");
}

#[test]
fn a_guild_without_the_account_is_sent_as_deleted() {
    let mut cluster = world();
    let eve = guildhall_test_kit::bot(850);
    cluster.add_account(&eve);
    cluster.name_guild(&eve, id(GUILD));
    let client = cluster.login(&eve, Some(PLAIN), ClientParams::JSON);
    let dispatches = cluster.dispatches(client);
    assert_eq!(dispatches[1].name, "GUILD_DELETE");
    assert_eq!(dispatches[1].d(), json!({"id": id::<()>(GUILD).to_string()}));
    say(&mut cluster, &ana(), GENERAL, "hi");
    assert_eq!(cluster.names(client), []);
}

#[test]
fn each_session_counts_for_the_gate_until_it_ends() {
    let mut cluster = world();
    let first = live_bot(&mut cluster);
    let second = live_bot(&mut cluster);
    assert_eq!(cluster.gate.admitted().len(), 2);
    cluster.client(first).close(Some(1000));
    cluster.run_until_idle();
    assert_eq!(cluster.gate.ended(), [pro().id]);
    cluster.cut(second);
    assert_eq!(cluster.gate.ended().len(), 1);
    cluster.advance(180_000);
    assert_eq!(cluster.gate.ended().len(), 2);
    assert_eq!(cluster.partition().sessions_count(), 0);
    assert_eq!(cluster.partition().conns_count(), 0);
}

#[test]
fn the_presence_in_identify_is_shown() {
    let mut cluster = world();
    let watcher = live_bot(&mut cluster);
    let client = cluster.connect(ClientParams::JSON);
    let mut d = identify_payload(&bob().username, None);
    d["presence"] = json!({"status": "dnd", "activities": [{"name": "chess", "type": 0}], "since": null, "afk": false});
    d["properties"] = json!({"browser": "Discord iOS"});
    cluster.client(client).identify(d);
    let seen = cluster.dispatches(watcher);
    assert_eq!(seen.len(), 1);
    let d = seen[0].d();
    assert_eq!(seen[0].name, "PRESENCE_UPDATE");
    assert_eq!((&d["status"], &d["client_status"]), (&json!("dnd"), &json!({"mobile": "dnd"})));
    assert_eq!(d["activities"][0]["name"], "chess");
    // The session of the user account does not receive it.
    assert_eq!(cluster.names(client), [(1, "READY".to_owned())]);

    cluster.client(client).send(3, &json!({"status": "invisible", "activities": [], "since": 0, "afk": false}));
    let seen = cluster.dispatches(watcher);
    assert_eq!(seen[0].d()["status"], "offline");
}

#[test]
fn a_sixth_presence_within_twenty_seconds_is_dropped() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.to_guilds.clear();
    for _ in 0..7 {
        cluster.client(client).send(3, &json!({"status": "idle"}));
    }
    cluster.run_until_idle();
    assert_eq!(cluster.to_guilds.len(), 5);
    cluster.advance(20_000);
    cluster.client(client).send(3, &json!({"status": "online"}));
    cluster.run_until_idle();
    assert_eq!(cluster.to_guilds.len(), 6);
}

#[test]
fn a_deleted_guild_is_lost_by_all_sessions() {
    let mut cluster = world();
    let bot = live_bot(&mut cluster);
    let user = live(&mut cluster, &bob(), None, ClientParams::ETF);
    cluster.take(bot);
    system(&mut cluster, Command::DeleteGuild);
    for client in [bot, user] {
        let dispatches = cluster.dispatches(client);
        assert_eq!(dispatches.len(), 1, "{dispatches:?}");
        assert_eq!(dispatches[0].name, "GUILD_DELETE");
        assert_eq!(dispatches[0].d(), json!({"id": id::<()>(GUILD).to_string()}));
    }
}

#[test]
fn a_url_that_asks_for_too_much_is_answered_by_a_close_code() {
    for code in [CloseCode::InvalidApiVersion, CloseCode::DecodeError] {
        let mut cluster = world();
        let client = cluster.connect_refused(code);
        assert_eq!(cluster.close_code(client), Some(code.code()));
        cluster.run_until_idle();
        assert_eq!(cluster.partition().conns_count(), 0);
    }
}
