//! Sessions that outlive a crash of their node: processes with a NATS and a PostgreSQL server. Skipped where one of
//! the servers is not installed.

use crate::{
    backend::{ANA, BOB},
    nodes::{Node, Site, two},
    session_moves::{bobs_session, resume, say_until_heard},
    support::{Http, metric, wait_until},
    ws::{Got, Ws},
};
use serde_json::{Value, json};
use std::net::Shutdown;

const SETTINGS: [&str; 3] = ["cluster.lease_ms=3000", "cluster.mirror_ms=100", "server.metrics=open"];

/// Waits until all sessions of a node that there are now have been reported.
fn wait_for_reports(node: &Node) {
    let rounds = || metric::<u64>(node.addr, "cluster_mirror_rounds_total");
    let before = rounds();
    wait_until("two rounds of reports", || if rounds() >= before + 2 { Ok(()) } else { Err(before) });
}

/// Opens the direct message of Ana and Bob; returns its id.
fn direct(node: &Node, token: &str) -> String {
    let mut ana = Http::new(node.addr, token);
    let direct = ana.request("POST", "/api/v10/users/@me/channels", Some(&json!({"recipient_id": BOB}))).unwrap();
    direct.body["id"].as_str().unwrap().to_owned()
}

/// Writes a direct message, once its channel has an owner.
fn write(node: &Node, token: &str, channel: &str, content: &str) {
    let path = format!("/api/v10/channels/{channel}/messages");
    let body = json!({"content": content, "nonce": content, "enforce_nonce": true});
    wait_until("the message is taken", || {
        let answer = Http::new(node.addr, token).request("POST", &path, Some(&body)).unwrap();
        if answer.status == 200 { Ok(()) } else { Err(answer) }
    });
}

/// Direct messages up to RESUMED, in order; none: op 9.
fn outcome(ws: &mut Ws) -> Option<Vec<String>> {
    let mut contents = Vec::new();
    ws.until("RESUMED or op 9", |got| {
        let Got::Payload(payload) = &got else { return Err(got) };
        match (payload["op"].as_u64(), payload["t"].as_str()) {
            (Some(9), _) => return Ok(None),
            (_, Some("RESUMED")) => return Ok(Some(std::mem::take(&mut contents))),
            (_, Some("MESSAGE_CREATE")) if payload["d"]["guild_id"] == Value::Null => {
                contents.push(payload["d"]["content"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
        Err(got)
    })
}

#[test]
fn w1_a_client_of_a_killed_node_resumes_at_another_and_gets_each_direct_message_once() {
    let Some(site) = Site::with(&SETTINGS) else { return };
    let (first, second) = two(&site);
    let anas_token = first.backend().token(ANA);
    let (mut ws, token, (session_id, _)) = bobs_session(&second);
    let channel = direct(&first, &anas_token);
    write(&first, &anas_token, &channel, "read");
    ws.expect_event("MESSAGE_CREATE");
    wait_for_reports(&second);
    let seq = ws.last_seq;
    second.process.kill();
    // The node is still a member: the client waits for the end of its lease.
    let mut ws = resume(&first, &token, (&session_id, seq));
    assert_eq!(outcome(&mut ws), Some(Vec::new()));
    write(&first, &anas_token, &channel, "live");
    ws.until("the message", |got| match &got {
        Got::Payload(payload) if payload["d"]["content"] == "live" => Ok(()),
        _ => Err(got),
    });
    say_until_heard(&first, &anas_token, &mut ws);
    assert_eq!(metric::<u64>(first.addr, "cluster_mirrors_resumed_total"), 1);
    // A message from between the crash and the RESUME, with a third node.
    let third = site.add("third", 2);
    first.wait_for_members(2);
    let (mut ws, token, (session_id, _)) = bobs_session(&third);
    wait_for_reports(&third);
    write(&first, &anas_token, &channel, "known");
    ws.until("the message", |got| match &got {
        Got::Payload(payload) if payload["d"]["content"] == "known" => Ok(()),
        _ => Err(got),
    });
    wait_for_reports(&third);
    let seq = ws.last_seq;
    third.process.kill();
    first.wait_for_members(1);
    write(&first, &anas_token, &channel, "missed");
    let mut ws = resume(&first, &token, (&session_id, seq));
    assert_eq!(outcome(&mut ws), Some(vec!["missed".to_owned()]));
}

/// Presences of the guild that Ana and Bob share have a `guild_id`.
#[test]
fn f3_friends_see_an_account_go_with_its_node_and_come_back() {
    let Some(site) = Site::with(&SETTINGS) else { return };
    let (first, second) = two(&site);
    let tokens = [first.backend().token(ANA), first.backend().token(BOB)];
    for (token, other) in [(&tokens[0], BOB), (&tokens[1], ANA)] {
        let path = format!("/api/v10/users/@me/relationships/{other}");
        let answer = Http::new(first.addr, token).request("PUT", &path, Some(&json!({}))).unwrap();
        assert_eq!(answer.status, 204, "{answer:?}");
    }
    let mut ana = first.session(ANA);
    let mut shown = |status: &str| {
        ana.expect(status, |payload| {
            let d = &payload["d"];
            payload["t"] == "PRESENCE_UPDATE" && d["guild_id"] == Value::Null && d["status"] == status
        })
    };
    let (ws, token, (session_id, _)) = bobs_session(&second);
    assert_eq!(shown("online")["d"]["user"]["id"], BOB);
    wait_for_reports(&second);
    let seq = ws.last_seq;
    second.process.kill();
    shown("offline");
    let mut ws = resume(&first, &token, (&session_id, seq));
    assert_eq!(outcome(&mut ws), Some(Vec::new()));
    shown("online");
}

#[test]
fn w1_a_direct_message_within_the_lag_is_not_lost_in_silence() {
    let Some(site) = Site::with(&["cluster.lease_ms=3000", "cluster.mirror_ms=2000", "server.metrics=open"]) else {
        return;
    };
    let (first, second) = two(&site);
    let anas_token = first.backend().token(ANA);
    let channel = direct(&first, &anas_token);
    let (mut ws, token, (session_id, _)) = bobs_session(&second);
    wait_for_reports(&second);
    let before = ws.last_seq;
    write(&first, &anas_token, &channel, "in the lag");
    ws.until("the message", |got| match &got {
        Got::Payload(payload) if payload["d"]["content"] == "in the lag" => Ok(()),
        _ => Err(got),
    });
    let after = ws.last_seq;
    second.process.kill();
    // With it, the client would get it twice if the next node did not know; it is a doubt, unless it was reported.
    let mut with = resume(&first, &token, (&session_id, after));
    match outcome(&mut with) {
        None => {
            // Without it the mirror is certain: the message is sent.
            let mut without = resume(&first, &token, (&session_id, before));
            assert_eq!(outcome(&mut without), Some(vec!["in the lag".to_owned()]));
        }
        Some(contents) => assert_eq!(contents, Vec::<String>::new()),
    }
}

#[test]
fn w1_without_mirrors_the_client_identifies() {
    let Some(site) = Site::with(&["cluster.lease_ms=3000", "server.metrics=open"]) else { return };
    let (first, second) = two(&site);
    let (_ws, token, place) = bobs_session(&second);
    second.process.kill();
    first.wait_for_members(1);
    let mut ws = resume(&first, &token, (&place.0, place.1));
    assert_eq!(outcome(&mut ws), None);
    assert_eq!(metric::<u64>(first.addr, "cluster_mirrors_held"), 0);
}

#[test]
fn w2_a_node_that_was_paused_ends_the_sessions_that_others_have() {
    let Some(site) = Site::with(&SETTINGS) else { return };
    let (first, second) = two(&site);
    let (old, token, (session_id, _)) = bobs_session(&second);
    let (kept, kept_token, kept_place) = bobs_session(&second);
    wait_for_reports(&second);
    let seq = old.last_seq;
    second.process.pause();
    let mut ws = resume(&first, &token, (&session_id, seq));
    assert_eq!(outcome(&mut ws), Some(Vec::new()));
    second.process.signal("CONT");
    second.wait_for_service();
    first.wait_for_members(2);
    let sessions = |node: &Node| {
        let sessions = node.backend().get(&format!("/sessions?user_id={BOB}"))["sessions"].clone();
        sessions.as_array().unwrap().iter().filter(|session| session["id"] == session_id).count()
    };
    wait_until("one node with the session", || {
        let counts = (sessions(&first), sessions(&second));
        if counts == (1, 1) { Ok(()) } else { Err(counts) }
    });
    // The other session is still at its node, and the first one moves back.
    let mut back = resume(&second, &token, (&session_id, ws.last_seq));
    assert_eq!(outcome(&mut back), Some(Vec::new()));
    kept.stream.shutdown(Shutdown::Both).unwrap();
    let mut kept = resume(&second, &kept_token, (&kept_place.0, kept_place.1));
    assert_eq!(outcome(&mut kept), Some(Vec::new()));
}
