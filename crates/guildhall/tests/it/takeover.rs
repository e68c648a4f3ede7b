//! A new process takes over the connections of the one that runs: real processes, real sockets, reference decoders.

use crate::{
    backend::{ANA, BOB, BOT, Backend, CHANNEL, GUILD},
    nodes::KEY,
    support::{Http, PATIENCE, Process, guildhall, run_to_end, serve_by, stderr, wait_for},
    ws::{Got, INTENTS, Ws},
};
use guildhall_codec::encode_payload_to_gateway;
use guildhall_codec::{Encoding, InflateHistory, MessageInflater, StreamDecompressor, decode_etf_from_gateway};
use guildhall_model::User;
use guildhall_ws_proto::Opcode;
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::SocketAddr,
    os::unix::net::{UnixDatagram, UnixStream},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// Requests of a client: encoding and compression of the URL, and an extension.
const WAYS: [(&str, &str); 9] = [
    ("encoding=json", ""),
    ("encoding=etf", ""),
    ("encoding=json&compress=zlib-stream", ""),
    ("encoding=etf&compress=zlib-stream", ""),
    ("encoding=json&compress=zstd-stream", ""),
    ("encoding=etf&compress=zstd-stream", ""),
    ("encoding=json", "permessage-deflate"),
    ("encoding=json", "permessage-deflate; server_no_context_takeover; client_no_context_takeover"),
    ("encoding=json", "permessage-deflate; server_max_window_bits=10"),
];

enum Reader {
    Plain,
    Stream(StreamDecompressor),
    Messages(MessageInflater, InflateHistory),
}

/// A client that fails as soon as it notices anything but events in order.
struct Client {
    ws: Ws,
    way: String,
    encoding: Encoding,
    reader: Reader,
    seq: u64,
    contents: Vec<String>,
    /// Names of all dispatches since READY and GUILD_CREATE.
    others: Vec<String>,
    acks: usize,
    has_guild: bool,
    last_at: Instant,
    longest_silence: Duration,
}

impl Client {
    fn connect(addr: SocketAddr, (query, extension): (&str, &str)) -> Self {
        let more =
            if extension.is_empty() { String::new() } else { format!("Sec-WebSocket-Extensions: {extension}\r\n") };
        let ws = Ws::connect(addr, &format!("/?v=10&{query}"), &more).expect("it is let in");
        let reader = match query {
            _ if query.contains("zlib-stream") => Reader::Stream(StreamDecompressor::zlib().unwrap()),
            _ if query.contains("zstd-stream") => Reader::Stream(StreamDecompressor::zstd(23).unwrap()),
            _ if !extension.is_empty() => Reader::Messages(MessageInflater::new().unwrap(), InflateHistory::NONE),
            _ => Reader::Plain,
        };
        Self {
            ws,
            way: format!("{query} {extension}"),
            encoding: if query.contains("etf") { Encoding::Etf } else { Encoding::Json },
            reader,
            seq: 0,
            contents: Vec::new(),
            others: Vec::new(),
            acks: 0,
            has_guild: false,
            last_at: Instant::now(),
            longest_silence: Duration::ZERO,
        }
    }

    /// A session that has its guild.
    fn session(addr: SocketAddr, way: (&str, &str), token: &str) -> Self {
        let mut client = Self::connect(addr, way);
        client.identify(token);
        client
    }

    fn identify(&mut self, token: &str) {
        let token = token.trim_start_matches("Bot ");
        self.send(2, &json!({"token": token, "intents": INTENTS, "properties": {}}));
        let deadline = Instant::now() + PATIENCE;
        // Bots get their guild behind READY, user accounts with it.
        while !self.has_guild {
            assert!(Instant::now() < deadline, "{}: no guild in {:?}", self.way, self.others);
            self.turn();
            thread::sleep(Duration::from_millis(1));
        }
        self.others.clear();
    }

    fn send(&mut self, op: u8, d: &Value) {
        let mut message = Vec::new();
        encode_payload_to_gateway(self.encoding, op.into(), d, &mut message).unwrap();
        self.ws.frame(if self.encoding == Encoding::Etf { Opcode::Binary } else { Opcode::Text }, &message);
    }

    /// Takes what is there.
    #[track_caller]
    fn turn(&mut self) {
        while let Some(got) = self.ws.poll() {
            let payload = match got {
                Got::Payload(payload) => payload,
                Got::Compressed(bytes) => self.decode(&bytes),
                Got::Close(_) | Got::End => panic!("{}: {got:?} {}", self.way, self.ws.close_reason),
            };
            self.take(&payload);
        }
    }

    #[track_caller]
    fn decode(&mut self, bytes: &[u8]) -> Value {
        let mut message = Vec::new();
        match &mut self.reader {
            Reader::Plain => message.extend_from_slice(bytes),
            Reader::Stream(stream) => {
                stream.decompress(bytes, &mut message, 8 << 20).unwrap_or_else(|error| panic!("{}: {error}", self.way));
            }
            Reader::Messages(inflater, history) => {
                inflater
                    .inflate(history, bytes, &mut message, 8 << 20)
                    .unwrap_or_else(|error| panic!("{}: {error}", self.way));
                history.remember(&message, 15);
            }
        }
        match self.encoding {
            Encoding::Json => serde_json::from_slice(&message).unwrap(),
            Encoding::Etf => decode_etf_from_gateway(&message, Default::default()).unwrap(),
        }
    }

    #[track_caller]
    fn take(&mut self, payload: &Value) {
        match payload["op"].as_u64() {
            Some(10) => {}
            Some(11) => self.acks += 1,
            Some(0) => {
                assert_eq!(
                    payload["s"].as_u64(),
                    Some(self.seq + 1),
                    "{}: nothing is missed or received twice",
                    self.way
                );
                self.seq += 1;
                let name = payload["t"].as_str().unwrap();
                let is_here = |guilds: &Value| guilds.as_array().is_some_and(|guilds| guilds[0]["unavailable"] != true);
                self.has_guild |= name == "GUILD_CREATE" || name == "READY" && is_here(&payload["d"]["guilds"]);
                if name == "MESSAGE_CREATE" {
                    self.longest_silence = self.longest_silence.max(self.last_at.elapsed());
                    self.last_at = Instant::now();
                    self.contents.push(payload["d"]["content"].as_str().unwrap().to_owned());
                } else {
                    self.others.push(name.to_owned());
                }
            }
            _ => panic!("{}: {payload}", self.way),
        }
    }
}

fn command(data: &Path, more: &[&str]) -> Command {
    let mut command = guildhall(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--data"]);
    command.arg(data).args(["--set", &format!("auth.admin_key={KEY}"), "--set", "limits.rest_rate_percent=0"]);
    command.args([
        "--set",
        "limits.identify_concurrency=1000",
        "--set",
        "server.partitions=2",
        "--set",
        "deflate.mode=takeover",
    ]);
    for setting in more {
        command.args(["--set", setting]);
    }
    command
}

/// The first line of a log file with this message.
#[track_caller]
fn logged(log: &Path, message: &str) -> Value {
    wait_for(message, || {
        let text = fs::read_to_string(log).expect("a log");
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.into_iter().find(|line| line["message"] == message)
    })
}

struct Node {
    process: Process,
    addr: SocketAddr,
    /// Held, so that its reader goes on.
    _log: Receiver<Value>,
}

fn start(data: &Path, more: &[&str]) -> Node {
    started(command(data, more))
}

fn started(command: Command) -> Node {
    let (process, ready, log) = serve_by(command, |_| {});
    let addr = ready["listen"].as_str().unwrap().parse().unwrap();
    Node { process, addr, _log: log }
}

/// The same, with a log file, in which lines may be no JSON.
fn start_logged(mut command: Command, log: &Path) -> Node {
    command.stdout(Stdio::null()).stderr(fs::File::create(log).unwrap());
    let process = Process::from(command.spawn().expect("the binary starts"));
    let ready = logged(log, "ready");
    Node { process, addr: ready["listen"].as_str().unwrap().parse().unwrap(), _log: channel().1 }
}

/// Starts a process that takes over, and waits for the end of the one before.
#[track_caller]
fn take_over(mut old: Node, data: &Path, more: &[&str]) -> Node {
    let mut new = command(data, more);
    new.arg("--takeover");
    let new = started(new);
    assert_eq!(new.addr, old.addr);
    let code = wait_for("the end of the process before", || old.process.has_ended());
    assert_eq!(code, Some(0));
    new
}

/// A process that pretends to take over.
struct Pretender(UnixStream);

impl Pretender {
    fn connect(data: &Path) -> Self {
        let stream = UnixStream::connect(data.join("takeover.sock")).expect("a node listens");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    fn send(&mut self, message: &Value) {
        let bytes = rmp_serde::to_vec_named(message).unwrap();
        let head = [(bytes.len() as u32).to_le_bytes(), 0u32.to_le_bytes()].concat();
        self.0.write_all(&[head, bytes].concat()).unwrap();
    }

    /// The next message; the kernel closes its descriptors.
    fn receive(&mut self) -> Value {
        rmp_serde::from_slice(&self.receive_bytes()).unwrap()
    }

    fn receive_bytes(&mut self) -> Vec<u8> {
        let mut head = [0; 8];
        self.0.read_exact(&mut head).expect("a message");
        let mut bytes = vec![0; u32::from_le_bytes(head[..4].try_into().unwrap()) as usize];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn hello(&mut self, version: u32) -> Value {
        self.send(&json!({"guildhall_takeover": version, "program": "other", "pid": 1, "start": null}));
        self.receive()
    }
}

/// The clients get a new message, and have noticed nothing.
#[track_caller]
fn goes_on(node: &mut Node, clients: &mut [Client], token: &str, content: &str) {
    assert_eq!(node.process.has_ended(), None);
    let path = format!("/api/v10/channels/{CHANNEL}/messages");
    let body = json!({"content": content});
    let answer = Http::new(node.addr, token).request("POST", &path, Some(&body)).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    for client in &mut *clients {
        client.send(1, &json!(client.seq));
    }
    let acks: Vec<usize> = clients.iter().map(|client| client.acks).collect();
    turn_until(clients, content, |clients| {
        let has_all = |(client, acks): (&Client, &usize)| {
            client.acks > *acks && client.contents.last().is_some_and(|last| last == content)
        };
        clients.iter().zip(&acks).all(has_all)
    });
    assert!(clients.iter().all(|client| client.others.is_empty()));
}

/// Posts messages until it is stopped; the contents of those that were acknowledged, in order.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Vec<String>>,
}

impl Writer {
    fn start(addr: SocketAddr, token: &str, every: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (token, stopped) = (token.to_owned(), stop.clone());
        let thread = thread::spawn(move || {
            let path = format!("/api/v10/channels/{CHANNEL}/messages");
            let mut contents = Vec::new();
            for number in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let content = format!("number {number} with äöü and further text");
                let body = json!({"content": content});
                // A connection each: one that is kept may be closed between two requests.
                let answer = Http::new(addr, &token).request("POST", &path, Some(&body)).expect("an answer");
                assert_eq!(answer.status, 200, "{answer:?}");
                contents.push(content);
                thread::sleep(every);
            }
            contents
        });
        Self { stop, thread }
    }

    fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("each message was acknowledged")
    }
}

/// Turns all clients until `done`.
#[track_caller]
fn turn_until(clients: &mut [Client], what: &str, mut done: impl FnMut(&[Client]) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done(clients) {
        let seen: Vec<_> = clients.iter().map(|client| (&client.way, client.contents.len(), client.acks)).collect();
        assert!(Instant::now() < deadline, "{PATIENCE:?} without {what}: {seen:?}");
        clients.iter_mut().for_each(Client::turn);
        thread::sleep(Duration::from_millis(1));
    }
}

fn survives_takeovers(streams: &str) {
    let dir = tempfile::tempdir().unwrap();
    let setting = format!("codec.streams={streams}");
    let mut node = start(dir.path(), &[&setting]);
    let mut backend = Backend::with(node.addr, KEY);
    backend.build();
    let flags = User::APPLICATION_PRIVILEGED;
    let helper = json!({"username": "helper", "bot": true, "application_flags": flags});
    backend.put(&format!("/users/{BOT}"), helper, 200);
    let [bob, bot, ana] = [BOB, BOT, ANA].map(|id| backend.token(id));
    let mut clients: Vec<Client> = WAYS.iter().map(|way| Client::session(node.addr, *way, &bob)).collect();
    clients.extend(WAYS.iter().map(|way| Client::session(node.addr, *way, &bot)));
    // One that has not identified when its process ends.
    let mut late = Client::connect(node.addr, WAYS[4]);
    let writer = Writer::start(node.addr, &ana, Duration::from_millis(5));
    for round in 1..=2 {
        let before = clients[0].contents.len();
        turn_until(&mut clients, "messages before", |clients| clients.iter().all(|c| c.contents.len() > before + 20));
        let taking = {
            let (data, setting) = (dir.path().to_owned(), setting.clone());
            thread::spawn(move || take_over(node, &data, &[&setting]))
        };
        turn_until(&mut clients, "the takeover", |_| taking.is_finished());
        node = taking.join().expect("it is taken over");
        let so_far = clients[0].contents.len();
        turn_until(&mut clients, "messages after", |clients| clients.iter().all(|c| c.contents.len() > so_far + 20));
        // Their messages arrive, too.
        for client in &mut clients {
            client.send(1, &json!(client.seq));
        }
        turn_until(&mut clients, "heartbeat answers", |clients| clients.iter().all(|client| client.acks >= round));
    }
    let posted = writer.stop();
    turn_until(&mut clients, "the last message", |clients| clients.iter().all(|c| c.contents.last() == posted.last()));
    for client in &clients {
        assert_eq!(client.contents, posted, "{}", client.way);
        assert_eq!(client.others, [""; 0], "{}", client.way);
        println!("{streams} {}: longest silence {:?}", client.way, client.longest_silence);
    }
    late.identify(&bob);
    assert_eq!(node.process.terminate(), Some(0));
}

#[test]
fn v1_v2_clients_notice_nothing_with_auto() {
    survives_takeovers("auto");
}

#[test]
fn v1_v2_clients_notice_nothing_with_shared_match() {
    survives_takeovers("shared-match");
}

#[test]
fn v1_v2_clients_notice_nothing_with_contexts() {
    survives_takeovers("per-connection");
}

#[test]
fn t1_until_the_guilds_end_a_failure_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let file = dir.path().join("guildhall.toml");
    fs::write(&file, "").unwrap();
    // A process that it starts writes there as well, also what is no JSON.
    let log = dir.path().join("log");
    let mut serving = command(&data, &[]);
    serving.arg("--config").arg(&file);
    let mut node = start_logged(serving, &log);
    let mut backend = Backend::with(node.addr, KEY);
    backend.build();
    let [bob, ana] = [BOB, ANA].map(|id| backend.token(id));
    let mut clients: Vec<Client> = WAYS.iter().step_by(2).map(|way| Client::session(node.addr, *way, &bob)).collect();

    let refused = Pretender::connect(&data).hello(99);
    let reason = refused["Refused"]["reason"].as_str().expect("refused");
    assert!(reason.contains("version 2") && reason.contains("99"), "{reason}");
    goes_on(&mut node, &mut clients, &ana, "after another version");

    let mut first = Pretender::connect(&data);
    assert_eq!(first.hello(2)["Welcome"]["pid"], node.process.id());
    let refused = Pretender::connect(&data).hello(2);
    assert_eq!(refused["Refused"]["reason"], "another process is about to take over");
    drop(first);
    logged(&log, "a process that wanted to take over has gone; this one goes on");
    goes_on(&mut node, &mut clients, &ana, "after one that has gone");

    let mut ready = Pretender::connect(&data);
    ready.hello(2);
    ready.send(&json!("Ready"));
    drop(ready);
    logged(&log, "the takeover failed; this process goes on");
    goes_on(&mut node, &mut clients, &ana, "after one that was ready");

    let mut noise = Pretender::connect(&data);
    noise.0.write_all(&[0xFF; 64]).unwrap();
    drop(noise);
    goes_on(&mut node, &mut clients, &ana, "after noise");

    fs::write(&file, "[server]\nnonsense = 7\n").unwrap();
    let failed = run_to_end(guildhall(["upgrade", "--data"]).arg(&data));
    let output = stderr(&failed);
    assert!(failed.status.code() == Some(1) && output.contains("ended before it took over"), "{output}");
    goes_on(&mut node, &mut clients, &ana, "after wrong settings");

    // And then it works.
    fs::write(&file, "").unwrap();
    let upgrade = {
        let data = data.clone();
        thread::spawn(move || run_to_end(guildhall(["upgrade", "--data"]).arg(&data)))
    };
    turn_until(&mut clients, "the upgrade", |_| upgrade.is_finished());
    let upgrade = upgrade.join().unwrap();
    assert!(upgrade.status.success(), "{}", stderr(&upgrade));
    let output = String::from_utf8_lossy(&upgrade.stdout).into_owned();
    assert!(output.contains(&format!("serves {} connections", clients.len())), "{output}");
    let pid: u32 = output.split(' ').nth(1).and_then(|pid| pid.parse().ok()).expect("a process id");
    assert_eq!(wait_for("the end of the first process", || node.process.has_ended()), Some(0));
    let stop = || Command::new("kill").arg(pid.to_string()).status().expect("kill runs");
    let message = json!({"content": "by the next process"});
    let path = format!("/api/v10/channels/{CHANNEL}/messages");
    let answer = Http::new(node.addr, &ana).request("POST", &path, Some(&message)).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    turn_until(&mut clients, "its message", |clients| {
        clients.iter().all(|client| client.contents.last().is_some_and(|last| last == "by the next process"))
    });
    assert!(stop().success());
    wait_for("the end of the next process", || UnixStream::connect(data.join("takeover.sock")).err());
}

#[test]
fn after_that_point_clients_resume_by_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = start_logged(command(dir.path(), &[]), &dir.path().join("log"));
    let mut backend = Backend::with(node.addr, KEY);
    backend.build();
    let [bob, ana] = [BOB, ANA].map(|id| backend.token(id));
    let mut ws = Ws::session(node.addr, &bob);
    let mut successor = Pretender::connect(dir.path());
    successor.hello(2);
    successor.send(&json!("Ready"));
    loop {
        let message = successor.receive();
        if !message["End"].is_null() {
            assert_eq!(message["End"]["conns"], 1);
            break;
        }
        if !message["Guild"].is_null() {
            successor.receive_bytes();
            continue;
        }
        assert_eq!(message["Conns"][0]["conn"]["session_id"], json!(ws.session_id));
    }
    successor.send(&json!("Received"));
    drop(successor);
    assert_eq!(wait_for("the end of the process", || node.process.has_ended()), Some(1));
    assert_eq!(ws.close_code(), None);
    let node = start(dir.path(), &[]);
    let (session_id, seq) = (ws.session_id, ws.last_seq);
    let mut ws = Ws::connect(node.addr, crate::ws::PLAIN, "").expect("it is let in");
    ws.expect_op(10);
    ws.send(&json!({"op": 6, "d": {"token": bob, "session_id": session_id, "seq": seq}}));
    ws.expect_event("RESUMED");
    let path = format!("/api/v10/channels/{CHANNEL}/messages");
    let body = json!({"content": "here"});
    assert_eq!(Http::new(node.addr, &ana).request("POST", &path, Some(&body)).unwrap().status, 200);
    assert_eq!(ws.expect_event("MESSAGE_CREATE")["d"]["content"], "here");
}

#[test]
fn without_a_node_there_is_nothing_to_take_over() {
    let dir = tempfile::tempdir().unwrap();
    for args in [["serve", "--takeover", "--data"].as_slice(), &["upgrade", "--data"]] {
        let output = run_to_end(guildhall(args).arg(dir.path()));
        let errors = stderr(&output);
        assert!(output.status.code() == Some(1) && errors.contains("no node runs on"), "{errors}");
    }
}

const STAGE: &str = "1200000000000000005";

/// A guild with a voice channel, a member in it, and another one.
fn with_voice(node: &Node) -> (Backend, Vec<Client>) {
    let mut backend = Backend::with(node.addr, KEY);
    backend.build();
    backend.put(&format!("/guilds/{GUILD}/channels/{STAGE}"), json!({"name": "talk", "type": 2}), 201);
    let tokens = [ANA, BOB].map(|id| backend.token(id));
    let mut clients: Vec<Client> = tokens.iter().map(|token| Client::session(node.addr, WAYS[0], token)).collect();
    let join = json!({"guild_id": GUILD, "channel_id": STAGE, "self_mute": false, "self_deaf": false});
    clients[0].send(4, &join);
    turn_until(&mut clients, "voice", |clients| {
        clients.iter().all(|client| client.others.iter().any(|name| name == "VOICE_STATE_UPDATE"))
    });
    clients.iter_mut().for_each(|client| client.others.clear());
    (backend, clients)
}

/// Users in voice, as a new session sees them.
fn in_voice(node: &Node, token: &str) -> Vec<String> {
    let mut ws = Ws::connect(node.addr, crate::ws::PLAIN, "").expect("it is let in");
    ws.expect_op(10);
    ws.identify_with(token.trim_start_matches("Bot "), 1 | 1 << 7);
    let guild = ws.expect_event("GUILD_CREATE");
    let states = guild["d"]["voice_states"].as_array().expect("a list");
    states.iter().map(|state| state["user_id"].as_str().unwrap().to_owned()).collect()
}

/// Voice states and nonces are only in memory.
#[test]
fn voice_states_and_nonces_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = start(dir.path(), &[]);
    let (mut backend, mut clients) = with_voice(&node);
    let [ana, bot] = [ANA, BOT].map(|id| backend.token(id));
    let path = format!("/api/v10/channels/{CHANNEL}/messages");
    let post = |node: &Node, more: &Value| {
        let mut body = json!({"content": "once", "nonce": "77"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = Http::new(node.addr, &ana).request("POST", &path, Some(&body)).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["id"].as_str().unwrap().to_owned()
    };
    let first = post(&node, &json!({}));
    for _ in 0..2 {
        node = take_over(node, dir.path(), &[]);
        assert_eq!(post(&node, &json!({"enforce_nonce": true})), first);
        assert_eq!(in_voice(&node, &bot), [ANA]);
    }
    turn_until(&mut clients, "the message", |clients| clients.iter().all(|client| client.contents.len() == 1));
    for client in &clients {
        assert!(client.others.iter().all(|name| name == "PRESENCE_UPDATE"), "{}: {:?}", client.way, client.others);
        assert_eq!(client.contents, ["once"]);
    }
    // The session is the one that is connected.
    clients[0].send(4, &json!({"guild_id": GUILD, "channel_id": null, "self_mute": false, "self_deaf": false}));
    turn_until(&mut clients, "the end of voice", |clients| {
        clients.iter().all(|client| client.others.iter().any(|name| name == "VOICE_STATE_UPDATE"))
    });
    assert_eq!(in_voice(&node, &bot), [""; 0]);
}

/// The guild's state is lost with the process that had taken it: clients must not believe the old voice states.
#[test]
fn a_guild_whose_voice_states_are_lost_is_an_outage() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = start_logged(command(dir.path(), &[]), &dir.path().join("log"));
    let (mut backend, _clients) = with_voice(&node);
    let bob = backend.token(BOB);
    let ws = Ws::session(node.addr, &bob);
    let mut successor = Pretender::connect(dir.path());
    successor.hello(2);
    successor.send(&json!("Ready"));
    let mut guilds = Vec::new();
    loop {
        let message = successor.receive();
        if !message["End"].is_null() {
            break;
        }
        if !message["Guild"].is_null() {
            guilds.push(message["Guild"]["guild_id"].clone());
            successor.receive_bytes();
        }
    }
    assert!(guilds.len() > 2, "chunks and the last part: {guilds:?}");
    successor.send(&json!("Received"));
    drop(successor);
    assert_eq!(wait_for("the end of the process", || node.process.has_ended()), Some(1));
    let node = start(dir.path(), &[]);
    let (session_id, seq) = (ws.session_id, ws.last_seq);
    let mut ws = Ws::connect(node.addr, crate::ws::PLAIN, "").expect("it is let in");
    ws.expect_op(10);
    ws.send(&json!({"op": 6, "d": {"token": bob, "session_id": session_id, "seq": seq}}));
    // RESUMED comes first if the guild has not answered by the RESUME.
    let mut wanted = vec!["GUILD_DELETE", "GUILD_CREATE", "RESUMED"];
    ws.until("the outage and RESUMED", |got| {
        let Got::Payload(payload) = got else { return Err(got) };
        match payload["t"].as_str() {
            Some("GUILD_DELETE") => assert_eq!(payload["d"]["unavailable"], true),
            Some("GUILD_CREATE") => assert_eq!(payload["d"]["voice_states"], json!([])),
            _ => {}
        }
        wanted.retain(|name| payload["t"] != *name);
        if wanted.is_empty() { Ok(()) } else { Err(Got::Payload(payload)) }
    });
}

#[test]
fn a_node_without_hand_overs_is_restarted() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = start(dir.path(), &["server.handover_bytes_max=0"]);
    let refused = run_to_end(guildhall(["upgrade", "--data"]).arg(dir.path()));
    assert!(refused.status.code() == Some(1) && stderr(&refused).contains("restart the node"), "{}", stderr(&refused));
    assert_eq!(node.process.has_ended(), None);
}

/// systemd takes the states of the main process only, and its new process id from it.
#[test]
fn the_service_manager_follows_the_process_that_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    let (data, path) = (dir.path().join("data"), dir.path().join("notify"));
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let next_state = || {
        let mut buffer = [0; 256];
        let count = manager.recv(&mut buffer).expect("a state");
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    let mut serving = command(&data, &[]);
    serving.env("NOTIFY_SOCKET", &path);
    let mut node = start_logged(serving, &dir.path().join("log"));
    assert_eq!(next_state(), "READY=1");
    let upgraded = run_to_end(guildhall(["upgrade", "--data"]).arg(&data));
    let printed = String::from_utf8_lossy(&upgraded.stdout).into_owned();
    assert!(upgraded.status.success(), "{printed} {}", stderr(&upgraded));
    let pid = printed.split(' ').nth(1).expect("a process id").to_owned();
    // The new process is ready as soon as it serves; the old one reports it before it ends.
    let mut states = [next_state(), next_state()];
    states.sort();
    assert_eq!(states, [format!("MAINPID={pid}"), "READY=1".to_owned()]);
    assert_eq!(wait_for("the end of the process before", || node.process.has_ended()), Some(0));
    assert!(Command::new("kill").arg(&pid).status().expect("kill runs").success());
    assert_eq!(next_state(), "STOPPING=1");
    wait_for("the end of the next process", || UnixStream::connect(data.join("takeover.sock")).err());
}
