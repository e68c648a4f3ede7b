//! Sessions that move between nodes, which are processes with a NATS and a PostgreSQL server. Skipped where one of the
//! servers is not installed.

use crate::{
    backend::{ANA, BOB, CHANNEL},
    nodes::{Node, Site, two},
    support::{Http, metric, wait_for, wait_for_line, wait_until},
    ws::{Got, PLAIN, Ws},
};
use serde_json::{Value, json};
use std::{
    io::ErrorKind,
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

/// Posts a message, and returns its content.
fn say(node: &Node, token: &str, content: &str) -> String {
    say_at(node.addr, token, content)
}

fn say_at(addr: SocketAddr, token: &str, content: &str) -> String {
    let path = format!("/api/v10/channels/{CHANNEL}/messages");
    let answer = Http::new(addr, token).request("POST", &path, Some(&json!({"content": content}))).unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    content.to_owned()
}

/// A connection to a node with a RESUME sent.
pub fn resume(node: &Node, token: &str, (session_id, seq): (&str, u64)) -> Ws {
    let mut ws = Ws::connect(node.addr, PLAIN, "").expect("it is let in");
    ws.expect_op(10);
    ws.last_seq = seq;
    ws.send(&json!({"op": 6, "d": {"token": token, "session_id": session_id, "seq": seq}}));
    ws
}

/// Names of events, or contents of messages, up to RESUMED; the seqs follow each other.
#[track_caller]
fn replay(ws: &mut Ws, after: u64) -> Vec<String> {
    let (mut names, mut next) = (Vec::new(), after + 1);
    ws.until("RESUMED", |got| {
        let Got::Payload(payload) = &got else { return Err(got) };
        if payload["op"] != 0 {
            panic!("{payload}");
        }
        assert_eq!(payload["s"], next, "{payload}");
        next += 1;
        let name = payload["t"].as_str().unwrap();
        names.push(if name == "MESSAGE_CREATE" { text(&payload["d"]["content"]) } else { name.to_owned() });
        if name == "RESUMED" { Ok(()) } else { Err(got) }
    });
    names
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Contents of messages and RESUMED.
fn messages(names: Vec<String>) -> Vec<String> {
    let is_event = |name: &str| ["GUILD_", "PRESENCE_", "SESSIONS_"].iter().any(|prefix| name.starts_with(prefix));
    names.into_iter().filter(|name| !is_event(name)).collect()
}

/// A session of Bob at a node, his token, and the place that he has reached.
pub fn bobs_session(node: &Node) -> (Ws, String, (String, u64)) {
    let token = node.backend().token(BOB);
    let ws = Ws::session(node.addr, &token);
    let place = (ws.session_id.clone(), ws.last_seq);
    (ws, token, place)
}

#[test]
fn g1_a_session_resumes_at_any_node_with_missed_events() {
    let Some(site) = Site::with(&["server.metrics=open"]) else { return };
    let (first, second) = two(&site);
    let others_token = first.backend().token(ANA);
    let (ws, token, (session_id, mut seq)) = bobs_session(&second);
    ws.stream.shutdown(Shutdown::Both).unwrap();
    // More than an answer on the bus takes.
    let long = |number: usize| format!("{number} {}", "€".repeat(1_900));
    let mut missed: Vec<String> = (0..150).map(|number| say(&first, &others_token, &long(number))).collect();
    // Another account's token, and then the right one.
    let mut other = resume(&first, &others_token, (&session_id, seq));
    assert_eq!(other.expect_op(9)["d"], false);
    let mut ws = resume(&first, &token, (&session_id, seq));
    missed.push("RESUMED".to_owned());
    assert_eq!(messages(replay(&mut ws, seq)), missed);
    say(&second, &others_token, "live");
    assert_eq!(ws.expect_event("MESSAGE_CREATE")["d"]["content"], "live");
    let moved = |node: &Node, way: &str| {
        let series = format!("cluster_sessions_moved_total{{way=\"{way}\"}}");
        metric::<u64>(node.addr, &series)
    };
    assert_eq!((moved(&first, "here"), moved(&second, "away")), (1, 1));
    // Back, without that the connection has ended.
    seq = ws.last_seq;
    let mut back = resume(&second, &token, (&session_id, seq));
    assert_eq!(messages(replay(&mut back, seq)), ["RESUMED"]);
    assert_eq!(ws.close_code(), Some(4000));
    // The backend finds the session where it is, from either node, and also where its id does not name the node.
    seq = back.last_seq;
    let mut ws = resume(&first, &token, (&session_id, seq));
    replay(&mut ws, seq);
    for node in [&first, &second] {
        let session = node.backend().get(&format!("/sessions/{session_id}"));
        assert_eq!((&session["id"], &session["state"]), (&json!(session_id), &json!("connected")), "{session}");
    }
    second.backend().request("DELETE", &format!("/sessions/{session_id}"), None, 204);
    assert!(ws.close_code().is_some());
    let mut gone = resume(&second, &token, (&session_id, seq));
    assert_eq!(gone.expect_op(9)["d"], false);
}

#[test]
fn x1_a_client_that_moves_between_nodes_gets_each_message_once_and_sees_no_outage() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let others_token = first.backend().token(ANA);
    let (mut ws, token, (session_id, _)) = bobs_session(&second);
    let mut expected = Vec::new();
    let mut received = Vec::new();
    for round in 0..6 {
        let (from, to) = if round % 2 == 0 { (&second, &first) } else { (&first, &second) };
        expected.push(say(from, &others_token, &format!("{round} before")));
        if round % 3 > 0 {
            ws.stream.shutdown(Shutdown::Both).unwrap();
        }
        let seq = ws.last_seq;
        std::thread::scope(|scope| {
            // While the session moves.
            let (addr, others_token) = (from.addr, &others_token);
            let saying = scope
                .spawn(move || (0..5).map(|n| say_at(addr, others_token, &format!("{round} {n}"))).collect::<Vec<_>>());
            ws = resume(to, &token, (&session_id, seq));
            received.extend(replay(&mut ws, seq));
            expected.extend(saying.join().unwrap());
        });
        expected.push(say(to, &others_token, &format!("{round} after")));
        let last = expected.last().unwrap().clone();
        ws.until("the last message", |got| {
            let Got::Payload(payload) = &got else { return Err(got) };
            let name = payload["t"].as_str().unwrap_or_default();
            let content = text(&payload["d"]["content"]);
            received.push(if name == "MESSAGE_CREATE" { content.clone() } else { name.to_owned() });
            if content == last { Ok(()) } else { Err(got) }
        });
    }
    let outages: Vec<_> = received.iter().filter(|name| name.starts_with("GUILD_")).collect();
    assert!(outages.is_empty(), "{received:?}");
    assert_eq!(messages(received.clone()).into_iter().filter(|name| name != "RESUMED").collect::<Vec<_>>(), expected);
}

#[test]
fn g1_of_two_nodes_one_gets_the_session() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let third = site.add("third", 3);
    first.wait_for_members(3);
    let (ws, token, (session_id, seq)) = bobs_session(&second);
    ws.stream.shutdown(Shutdown::Both).unwrap();
    let both = [&first, &third].map(|node| resume(node, &token, (&session_id, seq)));
    let resumed = both.map(|mut ws| {
        let is_last = |payload: &Value| payload["op"] == 9 || payload["t"] == "RESUMED";
        ws.until("RESUMED, op 9 or a close", |got| match got {
            Got::Payload(payload) if is_last(&payload) => Ok(payload["op"] == 0),
            // The other one has resumed it in the meantime.
            Got::Close(code) => Ok(code != Some(4000)),
            other => Err(other),
        })
    });
    assert!(resumed.iter().any(|resumed| *resumed), "one of them resumes");
    wait_until("one session", || {
        let sessions = first.backend().get(&format!("/sessions?user_id={BOB}"));
        let count = sessions["sessions"].as_array().unwrap().len();
        if count == 1 { Ok(()) } else { Err(sessions) }
    });
}

#[test]
fn g2_a_session_of_a_node_that_was_killed_is_gone() {
    let Some(site) = Site::with(&["cluster.lease_ms=3000"]) else { return };
    let (first, second) = two(&site);
    let (_ws, token, (session_id, seq)) = bobs_session(&second);
    second.process.kill();
    let mut ws = resume(&first, &token, (&session_id, seq));
    assert_eq!(ws.expect_op(9)["d"], false, "also while its node is still a member");
    first.wait_for_members(1);
    let mut ws = resume(&first, &token, (&session_id, seq));
    assert_eq!(ws.expect_op(9)["d"], false);
}

#[test]
fn p1_a_node_that_stops_leaves_its_sessions_to_the_others() {
    let Some(site) = Site::with(&["server.drain_notice_ms=0", "server.metrics=open"]) else { return };
    let (first, mut second) = two(&site);
    let others_token = first.backend().token(ANA);
    let (mut connected, token, place) = bobs_session(&second);
    let (cut, _, cut_place) = bobs_session(&second);
    cut.stream.shutdown(Shutdown::Both).unwrap();
    let missed = say(&first, &others_token, "before it stops");
    connected.expect_event("MESSAGE_CREATE");
    let place = (place.0, connected.last_seq);
    second.process.signal("TERM");
    connected.expect_op(7);
    drop(connected);
    wait_for("the end of the node", || second.process.has_ended());
    first.wait_for_members(1);
    for ((session_id, seq), missed) in [(&place, None), (&cut_place, Some(missed))] {
        let mut ws = resume(&first, &token, (session_id, *seq));
        let names = replay(&mut ws, *seq);
        assert!(!names.iter().any(|name| name.starts_with("GUILD_")), "no guild was unavailable: {names:?}");
        let mut names = messages(names);
        // The second session has also received what was posted for the first.
        names.retain(|content| content != "live");
        let expected = missed.into_iter().chain(["RESUMED".to_owned()]);
        assert_eq!(names, expected.collect::<Vec<_>>());
        say_until_heard(&first, &others_token, &mut ws);
    }
    let moved: u64 = metric(first.addr, "cluster_sessions_moved_total{way=\"here\"}");
    assert_eq!(moved, 2);
    let sent = wait_for_line(&second.log, "sessions went to other nodes");
    assert_eq!((&sent["offered"], &sent["taken"], &sent["lost"]), (&json!(2), &json!(0), &json!(0)), "{sent}");
}

#[test]
fn p3_clients_that_come_back_at_once_fetch_their_sessions_from_a_node_that_stops() {
    let Some(site) = Site::with(&["server.drain_notice_ms=0", "server.metrics=open"]) else { return };
    let (first, second) = two(&site);
    let sessions: Vec<_> = (0..12).map(|_| bobs_session(&second)).collect();
    second.process.signal("TERM");
    let clients = sessions.into_iter().map(|(mut ws, token, (session_id, _))| {
        ws.expect_op(7);
        let seq = ws.last_seq;
        drop(ws);
        (resume(&first, &token, (&session_id, seq)), seq)
    });
    for (mut ws, seq) in clients.collect::<Vec<_>>() {
        let names = replay(&mut ws, seq);
        assert!(!names.iter().any(|name| name.starts_with("GUILD_")), "no guild was unavailable: {names:?}");
    }
    let left = wait_for_line(&second.log, "clients have disconnected");
    assert_eq!(left["followed"], true, "the first node has counted what it accepts: {left}");
    let sent = wait_for_line(&second.log, "sessions went to other nodes");
    assert_eq!((&sent["taken"], &sent["lost"]), (&json!(0), &json!(0)), "{sent}");
    let fetched: u64 = metric(first.addr, "cluster_sessions_moved_total{way=\"here\"}");
    assert_eq!(fetched, 12);
}

#[test]
fn p4_a_node_that_sends_its_sessions_away_refuses_connections() {
    let Some(site) = Site::with(&["server.drain_notice_ms=0"]) else { return };
    let (_first, mut second) = two(&site);
    let (ws, ..) = bobs_session(&second);
    // Its client may come back: the node waits for it.
    ws.stream.shutdown(Shutdown::Both).unwrap();
    second.process.signal("TERM");
    wait_for_line(&second.log, "clients have disconnected");
    wait_until("connections are refused", || match TcpStream::connect(second.addr) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        instead => Err(instead),
    });
    assert_eq!(second.process.has_ended(), None, "while the process goes on");
}

/// Posts until the session receives a message. Its guild may move, too: the session misses posts before its
/// GUILD_CREATE.
pub fn say_until_heard(node: &Node, token: &str, ws: &mut Ws) {
    wait_until("a message is received", || {
        say_when_served(node, token, "live");
        let mut last = None;
        while let Some(got) = ws.next_within(Duration::from_millis(300)) {
            match &got {
                Got::Payload(payload) if payload["d"]["content"] == "live" => return Ok(()),
                Got::Payload(_) => last = Some(got),
                end => panic!("{end:?} instead of a message"),
            }
        }
        Err(last)
    });
}

/// Posts a message once the guild has an owner.
fn say_when_served(node: &Node, token: &str, content: &str) {
    let path = format!("/api/v10/channels/{CHANNEL}/messages");
    wait_until("the guild is served", || {
        let answer = Http::new(node.addr, token).request("POST", &path, Some(&json!({"content": content}))).unwrap();
        if answer.status == 200 { Ok(()) } else { Err(answer) }
    });
}

#[test]
fn p2_without_another_node_the_sessions_wait_for_the_next_start() {
    let Some(site) = Site::with(&["server.drain_notice_ms=0"]) else { return };
    let mut node = site.add("only", 1);
    node.backend().build();
    let (mut ws, token, (session_id, seq)) = bobs_session(&node);
    node.process.signal("TERM");
    ws.expect_op(7);
    drop(ws);
    wait_for("the end of the node", || node.process.has_ended());
    let node = site.add("only", 1);
    let mut ws = resume(&node, &token, (&session_id, seq));
    assert_eq!(messages(replay(&mut ws, seq)), ["RESUMED"]);
}
