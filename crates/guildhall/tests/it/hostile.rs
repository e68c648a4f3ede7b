//! Hostile clients, a kind per test, against a real server: each gets its close code in time, and a well-behaved client
//! at the same time is not affected.

use crate::{
    support::{Demo, Http, connect, metric, wait_for},
    ws::{Got, INTENTS, PLAIN, Ws, raw_upgrade, request},
};
use guildhall_codec::{DeflateCompressor, ZlibParams};
use guildhall_ws_proto::{Opcode, append_masked_frame};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt::set_socket_recv_buffer_size};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Time in which the well-behaved client must receive a message, on a busy machine.
pub const NOTICED: Duration = Duration::from_secs(3);

const GUILD_MEMBERS: u64 = 1 << 1;

pub fn server(dir: &Path, settings: &[&str]) -> Demo {
    let mut args = vec!["--rate", "0", "--set", "limits.rest_rate_percent=0"];
    if !settings.contains(&"--members") {
        args.extend(["--members", "5"]);
    }
    for setting in settings {
        match setting.split_once('=') {
            Some(_) => args.extend(["--set", setting]),
            None => args.push(setting),
        }
    }
    Demo::start_on(dir, "127.0.0.1:0", &args, Stdio::null())
}

/// A well-behaved client: it receives all messages, soon, as long as it is connected.
pub struct Witness {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(usize, Duration)>,
}

impl Witness {
    pub fn begin(demo: &Demo) -> Self {
        let mut ws = Ws::session(demo.addr, &demo.token("bot_token"));
        // READY precedes the attach; messages until then are not for this session.
        ws.expect_event("GUILD_CREATE");
        // It connects before the hostile clients.
        let mut http = demo.client("bot_token");
        http.get("/api/v10/users/@me").expect("REST answers");
        let path = format!("/api/v10/channels/{}/messages", demo.channels()[0]);
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let thread = thread::spawn(move || {
            let (mut count, mut longest, mut beat_at) = (0, Duration::ZERO, Instant::now());
            while !is_over.load(Ordering::Relaxed) || count < 3 {
                let posted_at = Instant::now();
                let content = json!({"content": format!("number {count}")});
                let answer = http.request("POST", &path, Some(&content)).expect("REST answers");
                assert_eq!(answer.status, 200, "{answer:?}");
                let heard = ws.expect_event("MESSAGE_CREATE");
                assert_eq!(heard["d"]["id"], answer.body["id"], "in order, none left out");
                longest = longest.max(posted_at.elapsed());
                count += 1;
                if beat_at.elapsed() > Duration::from_millis(700) {
                    beat_at = Instant::now();
                    ws.send(&json!({"op": 1, "d": ws.last_seq}));
                    ws.expect_op(11);
                }
                thread::sleep(Duration::from_millis(30));
            }
            (count, longest)
        });
        Self { stop, thread }
    }

    /// It has noticed nothing.
    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let (count, longest) = self.thread.join().expect("the well-behaved client was affected");
        println!("the well-behaved client received {count} messages, after {longest:?} at most");
        assert!(longest < NOTICED, "{longest:?}");
    }
}

fn greeted(demo: &Demo) -> Ws {
    let mut ws = Ws::connect(demo.addr, PLAIN, "").unwrap();
    ws.expect_op(10);
    ws
}

fn session(demo: &Demo) -> Ws {
    Ws::session(demo.addr, &demo.token("bot_token"))
}

/// A frame with these first bytes, masked with zeros.
fn raw_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    append_masked_frame(Opcode::Binary, [0; 4], payload, &mut frame);
    frame[0] = first;
    frame
}

#[test]
fn slowloris_while_shaking_hands() {
    let dir = tempfile::tempdir().unwrap();
    let demo = server(dir.path(), &["limits.handshakes_max=64"]);
    let witness = Witness::begin(&demo);
    let started = Instant::now();
    let head = request(PLAIN, "");
    let mut slow: Vec<TcpStream> = (0..64).map(|_| connect(demo.addr).unwrap()).collect();
    // All handshakes are in use: the oldest makes room for another.
    let (_, status, _) = raw_upgrade(demo.addr, &head).unwrap();
    assert_eq!(status, 101);
    wait_for("the oldest is closed", || {
        slow[0].set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        matches!(slow[0].read(&mut [0; 16]), Ok(0)).then_some(())
    });
    for byte in head.as_bytes().chunks(1) {
        slow.retain_mut(|stream| stream.write_all(byte).is_ok());
        if slow.is_empty() || started.elapsed() > Duration::from_secs(14) {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert!(slow.is_empty(), "{} are still there", slow.len());
    assert!(started.elapsed() < Duration::from_secs(14), "ten seconds for a head");
    drop(session(&demo));
    witness.end();
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn slowloris_in_a_frame() {
    let dir = tempfile::tempdir().unwrap();
    let demo = server(dir.path(), &["limits.identify_deadline_ms=1500", "server.heartbeat_interval_ms=1500"]);
    let witness = Witness::begin(&demo);
    let frame = raw_frame(0x81, &[b' '; 4000]);
    let mut nobody = greeted(&demo);
    let mut somebody = session(&demo);
    let started = Instant::now();
    let (mut codes, mut at) = ([None; 2], 0);
    while codes.contains(&None) && started.elapsed() < Duration::from_secs(10) {
        for (ws, code) in [&mut nobody, &mut somebody].into_iter().zip(&mut codes) {
            ws.bytes(&frame[at..=at]);
            if let Some(Got::Close(with)) = ws.poll() {
                *code = Some(with);
            }
        }
        at += 1;
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(codes, [Some(Some(4003)), Some(Some(4000))], "bytes that make no message are no sign of life");
    witness.end();
}

#[test]
fn half_open() {
    let dir = tempfile::tempdir().unwrap();
    let demo = server(dir.path(), &["server.heartbeat_interval_ms=1500"]);
    let witness = Witness::begin(&demo);
    let mut silent = session(&demo);
    assert_eq!(silent.close_code(), Some(4000));
    // Its session is kept for it.
    let mut back = greeted(&demo);
    let resume = json!({"token": demo.token("bot_token"), "session_id": silent.session_id, "seq": silent.last_seq});
    back.send(&json!({"op": 6, "d": resume}));
    back.expect_event("RESUMED");
    witness.end();
}

#[test]
fn oversize() {
    let dir = tempfile::tempdir().unwrap();
    let demo = server(dir.path(), &[]);
    let witness = Witness::begin(&demo);
    let check = |mut ws: Ws, bytes: &[u8], code: u16| {
        ws.bytes(bytes);
        assert_eq!(ws.close_code(), Some(code));
    };
    // The header is enough: the node neither waits for the payload nor reserves memory for it.
    let header = |bytes: u64| [&[0x81, 0x80 | 127][..], &bytes.to_be_bytes(), &[0; 4]].concat();
    check(greeted(&demo), &header(1 << 20), 4002);
    check(greeted(&demo), &header(1 << 62), 4002);
    check(greeted(&demo), &header(1 << 63), 1002);
    check(greeted(&demo), &raw_frame(0x81, &[b' '; 15_361]), 4002);
    check(session(&demo), &raw_frame(0x81, &[b' '; 4_097]), 4002);
    let fragments = [raw_frame(0x01, &[b' '; 4_000]), raw_frame(0x00, &[b' '; 97])].concat();
    check(session(&demo), &fragments, 4002);
    check(greeted(&demo), &raw_frame(0x89, &[0; 126]), 1002);
    witness.end();
}

#[test]
fn malformed() {
    let dir = tempfile::tempdir().unwrap();
    let demo = server(dir.path(), &["limits.identify_concurrency=1000"]);
    let witness = Witness::begin(&demo);
    let text = |payload: &[u8]| raw_frame(0x81, payload);
    let check = |mut ws: Ws, bytes: &[u8], code: u16| {
        ws.bytes(bytes);
        assert_eq!(ws.close_code(), Some(code), "{bytes:?}");
    };
    // Below the gateway protocol.
    check(greeted(&demo), &text(b"{\"op\": 1, \"d\": \"\xff\"}"), 1007);
    check(greeted(&demo), &raw_frame(0x83, b""), 1002);
    check(greeted(&demo), &raw_frame(0xC1, b"{}"), 1002);
    check(greeted(&demo), &raw_frame(0xA1, b"{}"), 1002);
    check(greeted(&demo), &raw_frame(0x09, b""), 1002);
    check(greeted(&demo), &raw_frame(0x80, b""), 1002);
    check(greeted(&demo), b"\x81\x02{}", 1002);
    check(greeted(&demo), &raw_frame(0x88, &1005u16.to_be_bytes()), 1002);
    // Payloads.
    for payload in [&b"{\"op\":1"[..], b"", b"[]", b"null", b"{\"op\":\"1\"}", b"{\"d\":1}", b"\0\0\0"] {
        check(greeted(&demo), &text(payload), 4002);
    }
    check(greeted(&demo), &text("[".repeat(10_000).as_bytes()), 4002);
    check(greeted(&demo), &text(br#"{"op":99,"d":null}"#), 4001);
    check(greeted(&demo), &text(br#"{"op":2,"d":5}"#), 4001);
    check(greeted(&demo), &text(br#"{"op":3,"d":null}"#), 4003);
    check(greeted(&demo), &text(br#"{"op":2,"d":{"token":"nonsense","properties":{},"intents":1}}"#), 4004);
    check(session(&demo), &text(br#"{"op":3,"d":7}"#), 4001);
    check(session(&demo), &text(br#"{"op":2,"d":{"token":"x","properties":{},"intents":1}}"#), 4005);
    for etf in
        [&b"\x83"[..], b"\x84a\x01", b"\x83l\xff\xff\xff\xff", b"\x83m\xff\xff\xff\xff", b"\x83t\0\0\0\x01d", b"{}"]
    {
        let ws = Ws::connect(demo.addr, "/?v=10&encoding=etf", "").unwrap();
        check(ws, &raw_frame(0x82, etf), 4002);
    }
    let deep: Vec<u8> = std::iter::once(0x83).chain([b'l', 0, 0, 0, 1].repeat(2_000)).collect();
    check(Ws::connect(demo.addr, "/?v=10&encoding=etf", "").unwrap(), &raw_frame(0x82, &deep), 4002);
    // Requests that are no upgrade.
    for (head, status) in [
        (request(PLAIN, "").replace("13", "12"), 426),
        (request(PLAIN, "").replace("dGhlIHNhbXBsZSBub25jZQ==", "short"), 400),
        ("GET\r\n\r\n".to_owned(), 400),
    ] {
        assert_eq!(raw_upgrade(demo.addr, &head).unwrap().1, status, "{head}");
    }
    witness.end();
}

#[test]
fn flooding() {
    let dir = tempfile::tempdir().unwrap();
    let demo = server(dir.path(), &["limits.identify_concurrency=1000"]);
    let witness = Witness::begin(&demo);
    let heartbeat = raw_frame(0x81, br#"{"op":1,"d":null}"#);
    for frame in [heartbeat.clone(), raw_frame(0x89, b"ping"), raw_frame(0x8A, b"pong")] {
        for mut ws in [greeted(&demo), session(&demo)] {
            ws.bytes(&frame.repeat(130));
            assert_eq!(ws.close_code(), Some(4008));
        }
    }
    // More than a client would send while the token is being checked.
    let mut ws = greeted(&demo);
    let identify = json!({"op": 2, "d": {"token": demo.token("bot_token"), "properties": {}, "intents": 1}});
    let flood = [raw_frame(0x81, identify.to_string().as_bytes()), heartbeat.repeat(50_000)].concat();
    ws.bytes(&flood);
    assert_eq!(ws.close_code(), Some(4008));
    witness.end();
}

#[test]
fn compression_bombs() {
    let dir = tempfile::tempdir().unwrap();
    let demo = server(dir.path(), &[]);
    let witness = Witness::begin(&demo);
    let mut deflater = DeflateCompressor::new(ZlibParams::default(), 15).unwrap();
    let mut bomb = Vec::new();
    deflater.compress_alone(&[&vec![b' '; 12 << 20]], &mut bomb).unwrap();
    assert!(bomb.len() < 15_360, "{} bytes for twelve megabytes", bomb.len());
    let before = demo.process.resident_bytes();
    for _ in 0..50 {
        let mut ws = Ws::connect(demo.addr, PLAIN, "Sec-WebSocket-Extensions: permessage-deflate\r\n").unwrap();
        ws.bytes(&raw_frame(0xC2, &bomb));
        assert_eq!(ws.close_code(), Some(4002));
    }
    let mut ws = Ws::connect(demo.addr, PLAIN, "Sec-WebSocket-Extensions: permessage-deflate\r\n").unwrap();
    ws.bytes(&raw_frame(0xC1, b"\xff\xff\xff\xff no deflate"));
    assert!(matches!(ws.close_code(), Some(1002 | 1007 | 4002)));
    let grown = demo.process.resident_bytes().saturating_sub(before);
    println!("50 bombs of 12 MB: {} KB more", grown >> 10);
    assert!(grown < 8 << 20, "{grown}");
    witness.end();
}

#[test]
fn identify_storms() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ["limits.identify_concurrency=4", "limits.identify_interval_ms=5000", "limits.user_sessions_max=3"];
    let demo = server(dir.path(), &settings);
    let witness = Witness::begin(&demo);
    let (bot, user) = (demo.token("bot_token"), demo.token("user_token"));
    // One is the well-behaved client. The connections stay, and are accepted later.
    let mut storm: Vec<Ws> = (0..30).map(|_| greeted(&demo)).collect();
    storm.iter_mut().for_each(|ws| ws.identify(&bot));
    let mut refused = 0;
    storm.retain_mut(|ws| match ws.expect("an answer", |p| p["op"] == 9 || p["t"] == "READY")["op"] == 9 {
        true => {
            refused += 1;
            true
        }
        false => false,
    });
    assert!((26..=27).contains(&refused), "{refused}");
    // A client that does not wait is closed like any flood.
    let impatient = &mut storm[0];
    (0..130).for_each(|_| impatient.identify(&bot));
    assert_eq!(impatient.close_code(), Some(4008));
    let patient = &mut storm[1];
    wait_for("its turn", || {
        // Libraries wait one to five seconds, and a client that collects op 9s faster is closed.
        thread::sleep(Duration::from_millis(2_500));
        patient.identify(&bot);
        (patient.expect("an answer", |p| p["op"] == 9 || p["t"] == "READY")["t"] == "READY").then_some(())
    });
    // User accounts have a limit of sessions.
    let _three: Vec<Ws> = (0..3).map(|_| Ws::session(demo.addr, &user)).collect();
    let mut fourth = greeted(&demo);
    fourth.identify(&user);
    assert_eq!(fourth.close_code(), Some(4015));
    witness.end();
}

#[test]
fn s8_one_token_does_not_use_up_the_identifies_of_the_node() {
    const SOCKETS: usize = 60;
    let dir = tempfile::tempdir().unwrap();
    let demo = server(dir.path(), &["limits.identifies_per_second_max=50", "limits.address_handshakes_per_minute=0"]);
    let (bot, user) = (demo.token("bot_token"), demo.token("user_token"));
    // Each sends IDENTIFY twice a second, which is below 120 messages a minute, and reconnects when it is closed.
    let mut storm: Vec<Option<Ws>> = (0..SOCKETS).map(|_| None).collect();
    let (mut closed, mut refused) = (0, 0);
    let mut turn = |storm: &mut Vec<Option<Ws>>| {
        for place in storm.iter_mut() {
            let ws = place.get_or_insert_with(|| greeted(&demo));
            let mut is_closed = false;
            while let Some(got) = ws.poll() {
                match got {
                    Got::Payload(payload) => refused += usize::from(payload["op"] == 9),
                    Got::Close(code) => {
                        assert!(matches!(code, Some(4005 | 4008)), "{code:?}");
                        is_closed = true;
                    }
                    Got::End => is_closed = true,
                    Got::Compressed(_) => {}
                }
            }
            match is_closed {
                true => {
                    closed += 1;
                    *place = None;
                }
                false => ws.identify(&bot),
            }
        }
        (closed, refused)
    };
    wait_for("the storm is refused", || (turn(&mut storm).1 > SOCKETS).then_some(()));
    let mut served = Vec::new();
    let mut next_turn = Instant::now();
    for n in 0..30 {
        if Instant::now() >= next_turn {
            turn(&mut storm);
            next_turn = Instant::now() + Duration::from_millis(500);
        }
        let mut ws = greeted(&demo);
        ws.identify(&user);
        let answer = ws.expect("an answer", |payload| payload["op"] == 9 || payload["t"] == "READY");
        assert_eq!(answer["t"], "READY", "the {n}th of another account");
        served.push(ws);
    }
    let (closed, _) = wait_for("a connection with many op 9s is closed", || {
        thread::sleep(Duration::from_millis(500));
        Some(turn(&mut storm)).filter(|(closed, _)| *closed > 0)
    });
    println!("{closed} connections of the storm were closed");
}

#[test]
fn s8_one_address_with_invented_tokens_does_not_either() {
    let dir = tempfile::tempdir().unwrap();
    // Two a second for an address.
    let demo = server(dir.path(), &["limits.rest_trusted_proxies=127.0.0.1", "limits.identifies_per_second_max=16"]);
    let from = |address: &str| {
        let mut ws = Ws::connect(demo.addr, PLAIN, &format!("X-Forwarded-For: {address}\r\n")).unwrap();
        ws.expect_op(10);
        ws
    };
    let mut storm: Vec<Ws> = (0..30).map(|_| from("203.0.113.5")).collect();
    let started = Instant::now();
    for (n, ws) in storm.iter_mut().enumerate() {
        ws.identify(&format!("MTIz.{n}.invented"));
    }
    let mut checked = 0;
    for ws in &mut storm {
        match ws.next() {
            Got::Payload(payload) => assert_eq!(payload["op"], 9),
            Got::Close(code) => {
                assert_eq!(code, Some(4004));
                checked += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    let most = 2 + 2 * (started.elapsed().as_secs() as usize + 1);
    assert!((2..=most).contains(&checked), "{checked} of 30, {most} at most");
    for n in 0..8 {
        let mut ws = from(&format!("203.0.113.{}", 100 + n));
        ws.identify(&demo.token("user_token"));
        ws.expect_event("READY");
    }
}

#[test]
fn identify_storms_of_many_accounts() {
    let dir = tempfile::tempdir().unwrap();
    let demo = server(dir.path(), &["limits.identifies_per_second_max=10", "limits.identify_concurrency=1000"]);
    let witness = Witness::begin(&demo);
    let mut storm: Vec<Ws> = (0..100).map(|_| greeted(&demo)).collect();
    thread::sleep(Duration::from_millis(1_100));
    let started = Instant::now();
    storm.iter_mut().for_each(|ws| ws.identify(&demo.token("bot_token")));
    let mut ready = 0;
    for ws in &mut storm {
        ready += usize::from(ws.expect("an answer", |p| p["op"] == 9 || p["t"] == "READY")["t"] == "READY");
    }
    let most = 11 + 10 * started.elapsed().as_secs() as usize + 10;
    assert!((10..=most).contains(&ready), "{ready} of 100, {most} at most");
    witness.end();
}

#[test]
fn never_reading() {
    const DEAF: u64 = 3;
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "--members",
        "3000",
        "limits.write_stall_ms=1500",
        "limits.identify_concurrency=1000",
        "limits.inbound_per_minute_max=100000",
    ];
    let demo = server(dir.path(), &settings);
    let witness = Witness::begin(&demo);
    let guild = demo.manifest["guild_id"].as_str().unwrap();
    let before = demo.process.resident_bytes();
    let mut deaf: Vec<Ws> = (0..DEAF).map(|_| greeted(&demo)).collect();
    let started = Instant::now();
    for ws in &mut deaf {
        ws.identify_with(&demo.token("bot_token"), INTENTS | GUILD_MEMBERS);
        ws.expect_event("GUILD_CREATE");
    }
    // A hundred members, again and again: more than the kernel buffers.
    for nonce in 0..600 {
        let request = json!({"guild_id": guild, "query": "a", "limit": 100, "nonce": nonce.to_string()});
        deaf.iter_mut().for_each(|ws| ws.send(&json!({"op": 8, "d": request})));
        thread::sleep(Duration::from_millis(5));
    }
    let mut most = 0;
    let cut = wait_for("all of them to be cut", || {
        most = most.max(demo.process.resident_bytes());
        let metrics = slow_consumers(&demo);
        (metrics == DEAF).then(|| started.elapsed())
    });
    println!("{DEAF} that never read were cut after {cut:?}; {} MB more at most", most.saturating_sub(before) >> 20);
    assert!(cut < Duration::from_secs(20), "{cut:?}");
    assert!(most.saturating_sub(before) < 96 << 20, "{} bytes", most - before);
    witness.end();
}

/// The most bytes in the kernel's send queue of one socket of a listener.
fn longest_send_queue(addr: SocketAddr) -> u64 {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let of = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let is_ours = words.next()?.ends_with(&format!(":{:04X}", addr.port()));
        let queue = words.nth(2)?.split(':').next()?;
        is_ours.then(|| u64::from_str_radix(queue, 16).unwrap_or(0))
    };
    table.lines().filter_map(of).max().unwrap_or(0)
}

#[test]
fn s37_a_client_that_does_not_read_holds_little_of_the_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "--members",
        "3000",
        "limits.write_stall_ms=60000",
        "limits.inbound_per_minute_max=100000",
        "limits.replay_bytes_max=16777216",
        "limits.backlog_bytes_max=16777216",
    ];
    let demo = server(dir.path(), &settings);
    let guild = demo.manifest["guild_id"].as_str().unwrap();
    // A small buffer of its own, before it connects: all else is in the server's kernel.
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    set_socket_recv_buffer_size(&socket, 4 << 10).unwrap();
    rustix::net::connect(&socket, &demo.addr).unwrap();
    let mut deaf = Ws::on(TcpStream::from(socket), PLAIN, "").unwrap();
    deaf.expect_op(10);
    deaf.identify_with(&demo.token("bot_token"), INTENTS | GUILD_MEMBERS);
    deaf.expect_event("GUILD_CREATE");
    let mut most = 0;
    let mut requests_count = 0;
    wait_for("answers of several megabytes", || {
        // A hundred members each, some 20 KB.
        for _ in 0..5 {
            let request = json!({"guild_id": guild, "query": "a", "limit": 100, "nonce": requests_count.to_string()});
            deaf.send(&json!({"op": 8, "d": request}));
            requests_count += 1;
        }
        most = most.max(longest_send_queue(demo.addr));
        (requests_count >= 400).then_some(())
    });
    println!("at most {most} bytes in the kernel");
    assert!(most > 32 << 10, "it was full: {most}");
    assert!(most < 512 << 10, "{most} bytes");
    assert_eq!(demo.terminate(), Some(0));
}

fn slow_consumers(demo: &Demo) -> u64 {
    metric(demo.addr, "slow_consumers_total")
}

#[test]
fn many_from_one_address() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "limits.rest_trusted_proxies=127.0.0.1",
        "limits.address_connections_max=3",
        "limits.address_handshakes_per_minute=20",
    ];
    let demo = server(dir.path(), &settings);
    let witness = Witness::begin(&demo);
    let from = |address: &str| Ws::connect(demo.addr, PLAIN, &format!("X-Forwarded-For: {address}\r\n"));
    let mut three: Vec<Ws> = (0..3).map(|_| from("203.0.113.5").unwrap()).collect();
    assert_eq!(from("203.0.113.5").err(), Some(429));
    assert_eq!(from("10.9.9.9, 203.0.113.5").err(), Some(429), "an address that the client wrote does not count");
    assert!(from("203.0.113.6").is_ok(), "others are let in");
    drop(three.pop());
    three.push(wait_for("the place to be free", || from("203.0.113.5").ok()));
    let refused = wait_for("too often", || {
        let (_, status, answer) = raw_upgrade(demo.addr, &request(PLAIN, "X-Forwarded-For: 203.0.113.5\r\n")).unwrap();
        assert_eq!(status, 429);
        let answer = answer.to_ascii_lowercase();
        let wait: u64 = answer.split("retry-after: ").nth(1)?.split("\r\n").next()?.parse().ok()?;
        (wait > 5).then_some(wait)
    });
    println!("come back in {refused} s");
    witness.end();
}

#[test]
fn ready_for_clients_that_do_not_read_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "--members",
        "3000",
        "limits.ready_bytes_in_flight_max=65536",
        "limits.write_stall_ms=1500",
        "limits.identify_concurrency=1000",
        "limits.user_sessions_max=1000",
        "server.partitions=1",
    ];
    let demo = server(dir.path(), &settings);
    let witness = Witness::begin(&demo);
    let mut deaf: Vec<Ws> = (0..100).map(|_| greeted(&demo)).collect();
    let before = demo.process.resident_bytes();
    deaf.iter_mut().for_each(|ws| ws.identify(&demo.token("user_token")));
    // A client that reads gets its READY all the same.
    let mut http: Http = demo.client("bot_token");
    let started = Instant::now();
    drop(Ws::session(demo.addr, &demo.token("user_token")));
    println!("READY after {:?} behind a hundred that do not read", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(10));
    let grown = demo.process.resident_bytes().saturating_sub(before);
    assert!(grown < 48 << 20, "{grown}");
    let me: Value = http.get("/api/v10/users/@me").unwrap().body;
    assert!(me["id"].is_string());
    witness.end();
}
