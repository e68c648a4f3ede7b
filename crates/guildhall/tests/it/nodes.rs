//! Several nodes as one gateway: processes with a NATS and a PostgreSQL server of their own, and the view of one node
//! of the others. Skipped where one of the servers is not installed.

use crate::{
    backend::{ANA, BOB, BOT, Backend, CHANNEL, GUILD, Stream},
    nats_server::NatsServer,
    postgres_server::PostgresServer,
    support::{Http, Process, Wait, connect, guildhall, metric, run_to_end, serve_by, stderr, wait_for, wait_until},
    traces::{Collector, Span, named, post},
    ws::{Got, PLAIN, Ws},
};
use guildhall_cluster::wire;
use serde_json::{Value, json};
use std::{
    io::Write as _,
    net::{SocketAddr, TcpStream},
    sync::mpsc::Receiver,
};
use tempfile::TempDir;

pub const KEY: &str = "a key of the tests with several nodes";

/// GUILDS and GUILD_MESSAGES, which need no privilege.
const INTENTS: u64 = 1 | 1 << 9;

/// Servers that nodes share.
pub struct Site {
    dir: TempDir,
    settings: Vec<String>,
}

/// A running node.
pub struct Node {
    pub process: Process,
    pub addr: SocketAddr,
    /// Lines after that it is ready.
    pub log: Receiver<Value>,
}

impl Site {
    pub fn new() -> Option<Self> {
        Self::with(&[])
    }

    /// With settings that are not the usual ones.
    pub fn with(more: &[&str]) -> Option<Self> {
        let (nats, postgres) = (NatsServer::shared()?, PostgresServer::shared()?);
        let name = NatsServer::new_prefix();
        let settings = [
            format!("cluster.nats_url={}", nats.url()),
            format!("cluster.name={name}"),
            format!("store.url={}", postgres.tcp_url(&postgres.create_database())),
            format!("auth.admin_key={KEY}"),
            // Longer than a busy machine keeps a node waiting: one that loses its lease begins again as another node.
            "cluster.lease_ms=30000".to_owned(),
            "limits.rest_rate_percent=0".to_owned(),
            "limits.identify_concurrency=100".to_owned(),
            "server.partitions=1".to_owned(),
        ];
        let settings = settings.into_iter().chain(more.iter().map(|setting| (*setting).to_owned())).collect();
        Some(Self { dir: tempfile::tempdir().unwrap(), settings })
    }

    /// Starts a node, which is ready. `nodes_count` with it are members.
    pub fn add(&self, name: &str, nodes_count: usize) -> Node {
        let mut command = guildhall(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--data"]);
        command.arg(self.dir.path().join(name)).args(["--set", &format!("cluster.node_name={name}")]);
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        let (process, ready, log) = serve_by(command, |_| {});
        let addr = ready["listen"].as_str().unwrap().parse().unwrap();
        let node = Node { process, addr, log };
        node.wait_for_members(nodes_count);
        node
    }
}

impl Node {
    /// With a connection of its own: a node closes one that is idle while another node starts.
    pub fn backend(&self) -> Backend {
        Backend::with(self.addr, KEY)
    }

    /// Waits until this node knows that many active nodes.
    pub fn wait_for_members(&self, count: usize) {
        wait_until(&format!("{count} members"), || {
            let cluster = self.backend().get("/cluster");
            let active = |node: &&Value| node["state"] == "active";
            let is_so = cluster["nodes"].as_array().unwrap().iter().filter(active).count() == count;
            if is_so { Ok(()) } else { Err(cluster) }
        });
    }

    /// Waits until this node serves again: it joins first, and then reads what was revoked while it was away.
    pub fn wait_for_service(&self) {
        let mut backend = self.backend();
        wait_until("an answer other than 503", || {
            let answer = backend.http.request("GET", "/v1/guilds", None).unwrap();
            if answer.status == 503 { Err(answer.body) } else { Ok(()) }
        });
    }

    pub fn session(&self, user_id: &str) -> Ws {
        let token = self.backend().token(user_id);
        let mut session = Ws::connect(self.addr, PLAIN, "").expect("it is let in");
        session.expect_op(10);
        session.identify_with(&token, INTENTS);
        session.expect_event("READY");
        session
    }
}

/// Two nodes, with numbers 0 and 1, and their guild.
pub fn two(site: &Site) -> (Node, Node) {
    let (first, second) = (site.add("first", 1), site.add("second", 2));
    first.wait_for_members(2);
    second.backend().build();
    (first, second)
}

/// The next line that is one of `wanted`: a node and a state, or a node and an event.
#[track_caller]
fn next(stream: &mut Stream, wanted: &str) -> Value {
    stream.until(wanted, |line| {
        line["state"] == wanted || line["event"] == wanted || (wanted == "lost" && !line["lost"].is_null())
    })
}

/// The next such line about that node.
#[track_caller]
fn next_of(stream: &mut Stream, node: u64, wanted: &str) -> Value {
    stream.until(&format!("{wanted} of node {node}"), |line| {
        line["node"] == node && (line["state"] == wanted || line["event"] == wanted)
    })
}

/// A stream of the new events of both nodes, which are followed. Events before a node is followed are not new.
#[track_caller]
fn follow(at: &Node) -> Stream {
    let mut stream = at.backend().stream("GET", "/sessions/events");
    let mut followed = [0, 1].map(|_| next(&mut stream, "followed"));
    followed.sort_by_key(|line| line["node"].as_u64());
    assert_eq!(followed, [0, 1].map(|node| json!({"node": node, "state": "followed", "n": 0})));
    stream
}

#[test]
fn session_events_of_all_nodes_reach_a_follower_at_any() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let mut at_first = follow(&first);
    let there = second.session(ANA);
    let line = next(&mut at_first, "connected");
    let (n, node, user_id) = (&line["n"], &line["node"], &line["user_id"]);
    assert_eq!((n, node, user_id), (&json!(1), &json!(1), &json!(ANA)), "{line}");
    assert_eq!(line["session_id"], there.session_id);
    let here = first.session(BOB);
    assert_eq!(next(&mut at_first, "connected")["node"], 0);
    // One who begins later, at the other node, has the events from the beginning; one who has them does not.
    let mut at_second = second.backend().stream("GET", "/sessions/events?after=0");
    let mut lines = [next(&mut at_second, "connected"), next(&mut at_second, "connected")];
    lines.sort_by_key(|line| line["node"].as_u64());
    assert_eq!(lines.each_ref().map(|line| &line["session_id"]), [&here.session_id, &there.session_id]);
    let mut later = second.backend().stream("GET", "/sessions/events?after=0:1,1:1");
    second.backend().request("DELETE", &format!("/sessions/{}", here.session_id), None, 204);
    for stream in [&mut at_first, &mut at_second, &mut later] {
        let line = next(stream, "gone");
        assert_eq!((&line["node"], &line["n"], &line["user_id"]), (&json!(0), &json!(2), &json!(BOB)), "{line}");
    }
    let refused = first.backend().request("GET", "/sessions/events?after=0:1,x", None, 400);
    assert_eq!(refused["errors"][0]["field"], "after", "{refused}");
}

#[test]
fn a_follower_hears_of_a_lost_node_and_of_its_successor() {
    let Some(site) = Site::with(&["cluster.lease_ms=3000"]) else { return };
    let (first, second) = two(&site);
    let mut stream = follow(&first);
    let _lost = second.session(ANA);
    assert_eq!(next(&mut stream, "connected")["node"], 1);
    second.process.kill();
    assert_eq!(next(&mut stream, "left"), json!({"node": 1, "state": "left", "n": 1}));
    // The next process takes the number, and begins to count again.
    let second = site.add("third", 2);
    assert_eq!(next(&mut stream, "lost"), json!({"lost": 0, "restarted": true, "node": 1}));
    assert_eq!(next_of(&mut stream, 1, "followed"), json!({"node": 1, "state": "followed", "n": 0}));
    let _session = second.session(BOB);
    let line = next(&mut stream, "connected");
    assert_eq!((&line["node"], &line["n"], &line["user_id"]), (&json!(1), &json!(1), &json!(BOB)), "{line}");
}

#[test]
fn a_node_that_does_not_answer_is_silent_until_it_does() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let session = second.session(ANA);
    let mut stream = first.backend().stream("GET", "/sessions/events?after=0");
    assert_eq!(next(&mut stream, "connected")["node"], 1);
    second.process.pause();
    assert_eq!(next_of(&mut stream, 1, "silent"), json!({"node": 1, "state": "silent", "n": 1}));
    // The follower hears of an event of this time afterwards, once.
    session.stream.shutdown(std::net::Shutdown::Both).unwrap();
    second.process.resume();
    assert_eq!(next_of(&mut stream, 1, "followed"), json!({"node": 1, "state": "followed", "n": 1}));
    let line = next(&mut stream, "disconnected");
    assert_eq!((&line["node"], &line["n"]), (&json!(1), &json!(2)), "{line}");
}

/// The trace of a message with this trace id, once it has all spans that the caller looks at: each node exports its
/// own.
fn trace_of(
    collector: &Collector,
    channel: &str,
    (node, token, id): (&Node, &str, u128),
    is_complete: impl Fn(&[Span]) -> bool,
) -> Vec<Span> {
    let header = format!("traceparent: 00-{id:032x}-00f067aa0ba902b7-01\r\n");
    let path = format!("/api/v10/channels/{channel}/messages");
    assert_eq!(post(node.addr, token, &path, &json!({"content": "hello"}), &header), 200);
    wait_until("all spans of both nodes", || {
        let spans = collector.trace("the trace", 0, |span| span.trace == format!("{id:032x}"));
        if is_complete(&spans) { Ok(spans) } else { Err(spans) }
    })
}

#[test]
fn a_trace_has_the_spans_of_every_node() {
    let collector = Collector::start();
    let endpoint = format!("traces.endpoint=http://{}", collector.addr);
    let Some(site) = Site::with(&[&endpoint, "traces.sample_one_in=0", "traces.slow_ms=0"]) else { return };
    let (first, second) = two(&site);
    let (mut here, mut there) = (first.session(BOT), second.session(BOT));
    for session in [&mut here, &mut there] {
        session.expect_event("GUILD_CREATE");
    }
    let token = first.backend().token(ANA);
    let count = |spans: &[Span], name: &str| spans.iter().filter(|span| span.name == name).count();
    // One of the two is the owner, so one message crosses as a command and one does not; each event crosses.
    for (node, id) in [(&first, 1), (&second, 2)] {
        let spans = trace_of(&collector, CHANNEL, (node, &token, id), |spans| {
            let publish = spans.iter().find(|span| span.name == "publish");
            let guild = publish.and_then(|publish| spans.iter().find(|span| span.id == publish.parent));
            let root = guild.and_then(|guild| spans.iter().find(|span| span.id == guild.parent));
            root.is_some()
                && ["relay", "encode", "first_write", "last_write"].iter().all(|name| count(spans, name) >= 2)
        });
        let publish = named(&spans, "publish");
        let guild = spans.iter().find(|span| span.id == publish.parent).expect("its guild");
        assert_eq!(guild.attributes["guildhall.command"], "create_message");
        assert_eq!(guild.parent, named(&spans, "POST /api/channels/{channel_id}/messages").id);
        let relays: Vec<&Span> = spans.iter().filter(|span| span.name == "relay").collect();
        let mut partitions: Vec<&str> = relays.iter().map(|span| &*span.attributes["guildhall.partition"]).collect();
        partitions.sort_unstable();
        partitions.dedup();
        assert_eq!((relays.len(), partitions.len()), (2, 2), "{spans:#?}");
        for relay in relays {
            assert_eq!((relay.parent, &*relay.attributes["guildhall.deliveries"]), (publish.id, "1"));
            let parts = |name: &str| spans.iter().filter(|span| span.name == name && span.parent == relay.id).count();
            assert_eq!(["encode", "first_write", "last_write"].map(parts), [1, 1, 1], "{spans:#?}");
        }
        for session in [&mut here, &mut there] {
            session.expect_event("MESSAGE_CREATE");
        }
    }
    let _sessions = [(&first, ANA), (&second, BOB)].map(|(node, user_id)| node.session(user_id));
    let mut ana = Http::new(first.addr, &token);
    let direct = ana.request("POST", "/api/v10/users/@me/channels", Some(&json!({"recipient_id": BOB}))).unwrap();
    assert_eq!(direct.status, 200, "{direct:?}");
    let spans = trace_of(&collector, direct.body["id"].as_str().unwrap(), (&second, &token, 3), |spans| {
        let Some(publish) = spans.iter().find(|span| span.name == "publish") else { return false };
        let encoded = spans.iter().filter(|span| span.name == "encode" && span.parent != publish.id).count();
        encoded >= 2 && ["direct", "last_write"].iter().all(|name| count(spans, name) >= 2)
    });
    let publish = named(&spans, "publish").id;
    let directs: Vec<&Span> = spans.iter().filter(|span| span.name == "direct").collect();
    assert!(directs.len() == 2 && directs.iter().all(|span| span.parent == publish), "{spans:#?}");
    let encoded = spans.iter().filter(|span| span.name == "encode" && span.parent != publish).count();
    assert_eq!(encoded, 2, "{spans:#?}");
}

/// The first samples of a live stream.
#[track_caller]
fn samples(live: &TcpStream, count: usize) -> Vec<Value> {
    let wait = Wait::new(format!("{count} samples"));
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        // A line without its end is not whole.
        let whole = text.rsplit(|byte| *byte == b'\n').skip(1);
        let lines = whole.map(|line: &[u8]| String::from_utf8_lossy(line).into_owned()).collect::<Vec<_>>();
        let samples = lines.iter().rev().filter_map(|line| line.trim_end().strip_prefix("data: "));
        let samples: Vec<Value> = samples.take(count).map(|sample| serde_json::from_str(sample).unwrap()).collect();
        if samples.len() == count {
            return samples;
        }
        wait.left();
        let read = wait.read(live, &mut buffer);
        assert!(read > 0, "the stream ended instead of {wait}, after {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&buffer[..read]);
    }
}

#[test]
fn any_node_reports_any_other() {
    let Some(site) = Site::new() else { return };
    let (mut first, mut second) = two(&site);
    let _session = second.session(ANA);
    let own = second.backend().get("/node");
    for node in ["1", "second"] {
        let state = first.backend().get(&format!("/node?node={node}"));
        assert_eq!((&state["started_at"], &state["ready"]), (&own["started_at"], &json!(true)), "{state}");
        assert_eq!(state["key_name"], own["key_name"]);
        let sessions = first.backend().get(&format!("/node/sessions?limit=5&node={node}"));
        assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{sessions}");
    }
    assert_eq!(first.backend().get("/node/sessions?node=first")["sessions"], json!([]));
    let refused = first.backend().request("GET", "/node/sessions?limit=0&node=1", None, 400);
    assert_eq!(refused["errors"][0]["field"], "limit", "the other node's words: {refused}");
    let unknown = first.backend().request("GET", "/node?node=third", None, 400);
    assert_eq!(unknown["errors"][0]["field"], "node", "{unknown}");
    // Scopes hold there as they do here, and a wrong key does not get so far.
    let made = first.backend().request("POST", "/keys", Some(json!({"name": "publisher", "scopes": ["publish"]})), 201);
    let mut publisher = Backend::with(first.addr, made["key"].as_str().unwrap());
    assert_eq!(publisher.get("/node?node=1")["scopes"], json!(["publish"]));
    publisher.request("GET", "/node/overview?node=1", None, 403);
    Backend::with(first.addr, "ghk_1_wrong").request("GET", "/node?node=1", None, 401);
    Backend::with(first.addr, "ghk_1_wrong").request("GET", "/node?node=third", None, 401);
    first.backend().request("TRACE", "/node/overview?node=third", None, 405);
    first.backend().request("POST", "/node/overview?node=1", None, 405);

    // The live stream is the other node's.
    let mut live = connect(first.addr).unwrap();
    let head =
        format!("GET /v1/node/live?series=sessions&node=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n\r\n");
    live.write_all(head.as_bytes()).unwrap();
    let samples = samples(&live, 3);
    assert!(samples.is_sorted_by(|a, b| a["at_ms"].as_u64() < b["at_ms"].as_u64()), "{samples:?}");
    assert!(samples[2]["values"].to_string().contains(":1"), "it has a session: {}", samples[2]);

    let reloaded = first.backend().request("POST", "/node/reload?node=second", None, 200);
    assert_eq!(reloaded["applied"], json!([]));
    let audit = first.backend().get("/audit");
    let entry = audit["entries"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&entry["action"], &entry["object"]),
        (&json!("POST /v1/node/reload"), &json!({"node": "1"})),
        "{audit}"
    );
    first.backend().request("POST", "/node/drain?node=second", None, 202);
    wait_for("the end of the second node", || second.process.has_ended());
    assert!(first.process.has_ended().is_none());

    // The command takes names as well.
    let drain = |node: &str| {
        let mut command = guildhall(["cluster", "drain", node, "--server", &format!("http://{}", first.addr)]);
        run_to_end(command.env("GUILDHALL_KEY", KEY))
    };
    let unknown = drain("third/one");
    assert!(unknown.status.code() == Some(1) && stderr(&unknown).contains("no such node"), "{}", stderr(&unknown));
    let known = drain("first");
    assert!(known.status.success(), "{}", stderr(&known));
    wait_for("the end of the first node", || first.process.has_ended());
}

/// Status of the answer to a request that was sent before.
fn status_of(stream: &TcpStream) -> u16 {
    let wait = Wait::new("the head of an answer");
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let count = wait.read(stream, &mut buffer);
        assert!(count > 0, "it ended instead of {wait}");
        head.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&head).split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn s34_a_node_that_was_paused_ends_the_sessions_of_revoked_tokens() {
    let Some(site) = Site::with(&["cluster.lease_ms=6000"]) else { return };
    let (first, second) = two(&site);
    let key = first.backend().request("POST", "/keys", Some(json!({"name": "one", "scopes": ["read", "tokens"]})), 201);
    let (key_id, key) = (key["id"].as_str().unwrap(), key["key"].as_str().unwrap());
    Backend::with(second.addr, key).get("/guilds");
    let sessions = [ANA, BOB].map(|user_id| {
        let token = first.backend().token(user_id);
        let mut session = Ws::connect(second.addr, PLAIN, "").expect("it is let in");
        session.expect_op(10);
        session.identify_with(&token, INTENTS);
        session.expect_event("READY");
        (session, token)
    });
    let [(mut revoked, token), (mut other, others_token)] = sessions;

    second.process.pause();
    // Requests that wait until it goes on.
    let mint = format!(
        "POST /v1/users/{BOB}/tokens HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    let own = format!("GET /api/v10/users/@me HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n\r\n");
    let waiting = [mint, own].map(|request| {
        let mut stream = connect(second.addr).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    });
    first.wait_for_members(1);
    first.backend().request("POST", "/tokens/revoke", Some(json!({"token": token})), 200);
    first.backend().request("DELETE", &format!("/keys/{key_id}"), None, 204);
    second.process.resume();
    for stream in &waiting {
        let status = status_of(stream);
        assert!(matches!(status, 401 | 503), "{status}");
    }
    first.wait_for_members(2);
    let post_content = |content: &str| {
        let path = format!("/api/v10/channels/{CHANNEL}/messages");
        wait_until("the guild is served", || {
            let body = json!({"content": content});
            let answer = Http::new(first.addr, &others_token).request("POST", &path, Some(&body)).unwrap();
            if answer.status == 200 { Ok(()) } else { Err(answer) }
        });
    };
    // Events before its node has joined the guild's home again are not for it: they are in GUILD_CREATE.
    other.expect_event("GUILD_CREATE");
    post_content("after it was revoked");
    other.expect("the message", |payload| payload["d"]["content"] == "after it was revoked");
    let code = revoked.until("its close", |got| match got {
        Got::Close(code) => Ok(code),
        Got::Payload(payload) if payload["t"] == "MESSAGE_CREATE" => panic!("{payload}"),
        other => Err(other),
    });
    assert_eq!(code, Some(4004));
    let mut again = Ws::connect(second.addr, PLAIN, "").expect("it is let in");
    again.expect_op(10);
    again.identify_with(&token, INTENTS);
    assert_eq!(again.close_code(), Some(4004));
    Backend::with(second.addr, key).request("GET", "/guilds", None, 401);
}

/// Sends a request over NATS to a node of the cluster with this prefix, as a client without credentials would.
fn ask_raw(url: &str, prefix: &str, node: u8, payload: &[u8]) {
    let mut stream = TcpStream::connect(url.strip_prefix("nats://").unwrap()).unwrap();
    let head =
        format!("CONNECT {{\"verbose\":false}}\r\nPUB {prefix}.ask.{node} {prefix}._inbox.x {}\r\n", payload.len());
    stream.write_all(&[head.as_bytes(), payload, b"\r\nPING\r\n"].concat()).unwrap();
    let wait = Wait::new("the server has it");
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    while !text.ends_with(b"PONG\r\n") {
        let count = wait.read(&stream, &mut buffer);
        assert!(count > 0, "{}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&buffer[..count]);
    }
}

#[test]
fn s33_a_client_of_nats_does_not_act_as_a_node() {
    let Some(site) = Site::with(&["server.metrics=open"]) else { return };
    let (first, second) = two(&site);
    let setting = |name: &str| {
        let setting = site.settings.iter().find_map(|setting| setting.strip_prefix(&format!("{name}=")));
        setting.expect("it is set").to_owned()
    };
    let (url, prefix) = (setting("cluster.nats_url"), setting("cluster.name"));
    let all = ["read", "write", "publish", "tokens", "sessions", "keys"];
    let key = json!({"id": null, "name": "root", "scopes": all, "accounts": null, "created_at": 0});
    let question = json!({"method": "DELETE", "path": format!("/v1/guilds/{GUILD}"), "key": key});
    // Both forms: as it was before questions named their members, and as it is.
    let body = wire::encode(&question);
    let report_request = json!({"kind": "node", "body": body});
    let of_members = json!({"from": 1, "to": 2, "number": 1, "kind": "node", "body": body});
    let drain = json!({"kind": "drain", "body": wire::encode(&json!(null))});
    for node in 0..2 {
        for envelope in [&report_request, &of_members, &drain] {
            ask_raw(&url, &prefix, node, &wire::encode(envelope));
        }
    }
    for node in [&first, &second] {
        wait_until("it has dropped them", || {
            let dropped: u64 = metric(node.addr, "cluster_strangers_total");
            if dropped >= 3 { Ok(()) } else { Err(dropped) }
        });
        assert_eq!(node.backend().get(&format!("/guilds/{GUILD}"))["id"], GUILD);
    }
    let nodes = first.backend().get("/cluster");
    assert!(nodes["nodes"].as_array().unwrap().iter().all(|node| node["state"] == "active"), "{nodes}");
}

#[test]
fn s33_an_open_nats_is_reported() {
    let (Some(postgres), Some(closed)) = (
        PostgresServer::shared(),
        NatsServer::start("authorization { users: [ { user: guildhall, password: secret } ] }"),
    ) else {
        return;
    };
    let Some(open) = NatsServer::shared() else { return };
    let with_password = closed.url().replace("nats://", "nats://guildhall:secret@");
    for (url, is_open) in [(open.url(), true), (with_password, false)] {
        let dir = tempfile::tempdir().unwrap();
        let settings = [
            format!("cluster.nats_url={url}"),
            format!("cluster.name={}", NatsServer::new_prefix()),
            format!("store.url={}", postgres.tcp_url(&postgres.create_database())),
        ];
        let with = |mut command: std::process::Command| {
            command.arg("--data").arg(dir.path());
            for setting in &settings {
                command.args(["--set", setting]);
            }
            command
        };
        let output = run_to_end(&mut with(guildhall(["doctor"])));
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.contains("takes clients without credentials"), is_open, "{text}");
        let mut warned = false;
        let serve = with(guildhall(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]));
        let (process, ..) = serve_by(serve, |line| {
            warned |= line["message"].as_str().is_some_and(|text| text.contains("takes clients without credentials"));
        });
        assert_eq!((warned, process.terminate()), (is_open, Some(0)));
    }
}

/// A rolling upgrade moves guilds and sessions to other nodes.
#[test]
fn an_upgrade_of_a_node_names_the_commands_of_a_drain() {
    let Some(site) = Site::new() else { return };
    let mut node = site.add("one", 1);
    let data = site.dir.path().join("one");
    let upgraded = run_to_end(guildhall(["upgrade", "--data"]).arg(&data));
    let reason = stderr(&upgraded);
    assert_eq!(upgraded.status.code(), Some(1), "{reason}");
    assert!(reason.contains("guildhall cluster drain 0") && reason.contains("start the node as before"), "{reason}");
    let mut command = guildhall(["serve", "--takeover", "--listen", "127.0.0.1:0", "--data"]);
    command.arg(&data).args(["--set", "cluster.node_name=one"]);
    for setting in &site.settings {
        command.args(["--set", setting]);
    }
    let taking = run_to_end(&mut command);
    assert_eq!(taking.status.code(), Some(2), "{}", stderr(&taking));
    assert!(stderr(&taking).contains("guildhall cluster drain one"), "{}", stderr(&taking));
    assert_eq!(node.process.has_ended(), None);
}
