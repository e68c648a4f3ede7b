//! SIGTERM with hundreds of clients: they leave one after the other, nothing is lost or delivered twice, and all
//! resume.

use crate::{
    support::{Demo, Http, PATIENCE},
    ws::{Got, PLAIN, Ws},
};
use serde_json::{Value, json};
use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const CLIENTS: usize = 300;
/// One of this many clients ignores RECONNECT.
const STUBBORN: usize = 30;
const DRAIN_MS: u64 = 12_000;
const ARGS: &[&str] = &[
    "--members",
    "5",
    "--rate",
    "0",
    "--set",
    "limits.identify_concurrency=10000",
    "--set",
    "limits.rest_rate_percent=0",
    "--set",
    "server.drain_timeout_ms=12000",
];

struct Client {
    ws: Ws,
    session_id: String,
    seq: u64,
    messages: Vec<String>,
    asked_at: Option<Instant>,
    left_at: Option<Instant>,
    close_code: Option<u16>,
    stays: bool,
}

impl Client {
    fn new(demo: &Demo, index: usize) -> Self {
        let mut ws = Ws::connect(demo.addr, PLAIN, "").unwrap();
        ws.expect_op(10);
        ws.identify(&demo.token("bot_token"));
        let ready = ws.expect_event("READY");
        assert_eq!(ready["s"], 1);
        // Messages of the time before are not for this session.
        let seq = ws.expect_event("GUILD_CREATE")["s"].as_u64().unwrap();
        let session_id = ready["d"]["session_id"].as_str().unwrap().to_owned();
        let stays = index.is_multiple_of(STUBBORN);
        Self { ws, session_id, seq, messages: Vec::new(), asked_at: None, left_at: None, close_code: None, stays }
    }

    /// Takes what is there. True while it is connected.
    fn turn(&mut self) -> bool {
        while let Some(got) = self.left_at.is_none().then(|| self.ws.poll()).flatten() {
            match got {
                Got::Payload(payload) => self.take(&payload),
                Got::Close(code) => self.close_code = code,
                Got::End => self.left_at = Some(Instant::now()),
                Got::Compressed(_) => panic!("a compressed message without a request"),
            }
        }
        if self.asked_at.is_some() && !self.stays && self.left_at.is_none() {
            self.left_at = Some(Instant::now());
            let _ = self.ws.stream.shutdown(std::net::Shutdown::Both);
        }
        self.left_at.is_none()
    }

    fn take(&mut self, payload: &Value) {
        if let Some(seq) = payload["s"].as_u64() {
            assert_eq!(seq, self.seq + 1, "nothing is skipped or delivered twice");
            self.seq = seq;
        }
        match (payload["op"].as_u64(), payload["t"].as_str()) {
            (Some(7), _) => {
                assert!(self.asked_at.replace(Instant::now()).is_none(), "op 7 once");
            }
            (_, Some("MESSAGE_CREATE")) => self.messages.push(payload["d"]["id"].as_str().unwrap().to_owned()),
            _ => {}
        }
    }
}

/// Posts until the node refuses; returns the acknowledged messages with their ids, in order.
fn talk(mut http: Http, channel: &str, stop: &AtomicBool) -> Vec<(String, String)> {
    let mut acknowledged = Vec::new();
    let path = format!("/api/v10/channels/{channel}/messages");
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let content = format!("number {number}");
        match http.request("POST", &path, Some(&json!({"content": content}))) {
            Ok(answer) if answer.status == 200 => {
                acknowledged.push((answer.body["id"].as_str().unwrap().to_owned(), content));
            }
            Ok(answer) => {
                assert_eq!(answer.status, 503, "{answer:?}");
                break;
            }
            Err(_) => break,
        }
        thread::sleep(Duration::from_millis(20));
    }
    acknowledged
}

fn print_curve(started: Instant, asked: &[Instant]) {
    let mut buckets: Vec<usize> = Vec::new();
    for at in asked {
        let bucket = (at.duration_since(started).as_millis() / 250) as usize;
        buckets.resize(buckets.len().max(bucket + 1), 0);
        buckets[bucket] += 1;
    }
    for (index, count) in buckets.iter().enumerate() {
        println!("{:>6} ms  {count:>4}  {}", index * 250, "#".repeat(count.div_ceil(2)));
    }
}

#[test]
fn a_node_with_hundreds_of_clients_lets_them_go_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(dir.path(), ARGS);
    let channel = demo.channels()[0].clone();
    let (mut clients, mut ready_at) = (Vec::new(), Vec::new());
    for index in 0..CLIENTS {
        clients.push(Client::new(&demo, index));
        ready_at.push(Instant::now());
    }
    let within_a_second = |from: &Instant| {
        ready_at.iter().filter(|at| at.saturating_duration_since(*from).as_millis() < 1_000 && *at >= from).count()
    };
    let started_per_s = ready_at.iter().map(within_a_second).max().unwrap_or(0).max(100) as f64;
    println!("at most {started_per_s:.0} sessions started in a second");
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (http, channel, stop) = (demo.client("bot_token"), channel.clone(), stop.clone());
        thread::spawn(move || talk(http, &channel, &stop))
    };
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(500) {
        clients.iter_mut().for_each(|client| assert!(client.turn()));
        thread::sleep(Duration::from_millis(5));
    }

    let signalled = Instant::now();
    demo.process.signal("TERM");
    let (mut readyz, mut refused) = (None, None);
    let code = loop {
        // Not `any`: each client gets a turn.
        let connected = clients.iter_mut().filter_map(|client| client.turn().then_some(())).count();
        if readyz.is_none() && clients.iter().any(|client| client.asked_at.is_some()) {
            readyz = Http::new(demo.addr, "").get("/readyz").ok().map(|answer| answer.status);
            refused = Ws::connect(demo.addr, PLAIN, "").err();
        }
        if let Some(code) = demo.process.has_ended()
            && connected == 0
        {
            break code;
        }
        assert!(signalled.elapsed() < PATIENCE, "it does not end: {connected} are connected");
        thread::sleep(Duration::from_millis(2));
    };
    let took = signalled.elapsed();
    stop.store(true, Ordering::Relaxed);
    let acknowledged = writer.join().unwrap();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_millis(DRAIN_MS + 3_000), "{took:?}");
    assert_eq!((readyz, refused), (Some(503), Some(503)), "/readyz, and an upgrade while it drains");

    let mut asked: Vec<Instant> =
        clients.iter().map(|client| client.asked_at.expect("every client gets op 7")).collect();
    asked.sort_unstable();
    println!("{CLIENTS} clients, SIGTERM to exit {took:?}; op 7 over time:");
    print_curve(signalled, &asked);
    let spread = asked[CLIENTS - 1].duration_since(asked[0]);
    // As many per second as were seen to start in one, or 100: never more than this test has connected per second.
    let slowest = Duration::from_millis(DRAIN_MS / 2 + 1_000);
    assert!(spread > Duration::from_secs_f64(CLIENTS as f64 / started_per_s * 0.4) && spread < slowest, "{spread:?}");
    let third = asked.windows(CLIENTS / 3).map(|window| window[CLIENTS / 3 - 1].duration_since(window[0])).min();
    assert!(third > Some(spread / 6), "a third of them in {third:?} of {spread:?}");

    // Each client received every acknowledged message, in order and once.
    let ids: Vec<&String> = acknowledged.iter().map(|(id, _)| id).collect();
    for client in &clients {
        if client.stays {
            assert_eq!(client.close_code, Some(4000), "who stays is closed");
        }
        let received = client.messages.iter().collect::<Vec<_>>();
        let known = received.len().min(ids.len());
        assert_eq!(received[..known], ids[..known]);
        assert!(received.len() <= ids.len() + 1, "the answer to the last message may be lost after its event");
    }
    let least = clients.iter().map(|client| client.messages.len()).min();
    println!(
        "{} messages acknowledged, {least:?} to {:?} delivered",
        ids.len(),
        clients.iter().map(|c| c.messages.len()).max()
    );
    assert!(least > Some(0));

    // The next process continues: every client resumes, and has received every stored message.
    let listen = demo.addr.to_string();
    drop(demo);
    let demo = Demo::start_on(dir.path(), &listen, ARGS, Stdio::null());
    let token = demo.token("bot_token");
    for client in &mut clients {
        client.ws = Ws::connect(demo.addr, PLAIN, "").expect("it is let in again");
        client.ws.expect_op(10);
        let resume = json!({"token": token, "session_id": client.session_id, "seq": client.seq});
        client.ws.send(&json!({"op": 6, "d": resume}));
        let mut replayed = Vec::new();
        client.ws.until("RESUMED", |got| {
            let Got::Payload(payload) = &got else { return Err(got) };
            assert!(payload["t"] == "MESSAGE_CREATE" || payload["t"] == "RESUMED", "{payload}");
            replayed.push(payload.clone());
            if payload["t"] == "RESUMED" { Ok(()) } else { Err(got) }
        });
        replayed.iter().for_each(|payload| client.take(payload));
    }
    assert!(!dir.path().join("handover.ndjson").exists(), "the hand-over is used once");
    let mut http = demo.client("bot_token");
    let posted =
        http.request("POST", &format!("/api/v10/channels/{channel}/messages"), Some(&json!({"content": "back"})));
    let posted = posted.unwrap().body["id"].clone();
    for client in &mut clients {
        let message = client.ws.expect_event("MESSAGE_CREATE");
        assert_eq!((&message["d"]["id"], message["s"].as_u64()), (&posted, Some(client.seq + 1)));
        client.take(&message);
    }
    let kept = http.history(&channel);
    let mut all: Vec<&String> = kept.keys().collect();
    all.sort_by_key(|id| id.parse::<u64>().unwrap());
    for client in &clients {
        let heard: Vec<&String> = client.messages.iter().collect();
        assert_eq!(heard, all[all.len() - heard.len()..], "all since it came, once and in order");
        assert!(heard.len() > ids.len(), "{} of {}", heard.len(), ids.len());
    }
    for (id, content) in &acknowledged {
        assert_eq!(kept.get(id), Some(content), "message {id}");
    }
    assert_eq!(demo.terminate(), Some(0));
}

/// A node that was killed, or that may not write a hand-over, answers op 9, and all clients identify again.
#[test]
fn without_a_hand_over_sessions_end_with_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let args = [ARGS, &["--set", "server.handover_bytes_max=0"][..]].concat();
    for is_killed in [true, false] {
        let demo = Demo::start(dir.path(), if is_killed { ARGS } else { &args });
        let (listen, token) = (demo.addr.to_string(), demo.token("bot_token"));
        let ws = Ws::session(demo.addr, &token);
        let (session_id, seq) = (ws.session_id.clone(), ws.last_seq);
        if is_killed {
            demo.kill()
        } else {
            assert_eq!(demo.terminate(), Some(0))
        }
        let demo = Demo::start_on(dir.path(), &listen, ARGS, Stdio::null());
        let mut ws = Ws::connect(demo.addr, PLAIN, "").unwrap();
        ws.expect_op(10);
        ws.send(&json!({"op": 6, "d": {"token": token, "session_id": session_id, "seq": seq}}));
        assert_eq!(ws.expect_op(9)["d"], false);
        ws.identify(&token);
        ws.expect_event("READY");
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo =
        Demo::start(dir.path(), &["--members", "5", "--rate", "0", "--set", "server.drain_notice_ms=600000"]);
    let _client = Ws::session(demo.addr, &demo.token("bot_token"));
    demo.process.signal("TERM");
    crate::support::wait_for("not ready", || {
        (Http::new(demo.addr, "").get("/readyz").ok()?.status == 503).then_some(())
    });
    // Until the drain begins, it serves as before.
    drop(Ws::session(demo.addr, &demo.token("user_token")));
    demo.process.signal("TERM");
    assert_eq!(crate::support::wait_for("the end", || demo.process.has_ended()), Some(1));
}
