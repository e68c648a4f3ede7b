//! Places for sockets: REST, the gateway and the node's own needs do not take each other's, sockets that make no
//! progress end, and nothing hangs when descriptors run out.

use crate::{
    support::{Demo, Http, Process, Wait, connect, guildhall, metric, next_line, serve_by, wait_for},
    tls,
    ws::{PLAIN, Ws, raw_upgrade, request},
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    fs,
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::Receiver,
    thread,
    time::{Duration, Instant},
};

/// Sends one request on a socket that stays open; its status, or none if it was closed without an answer.
fn send_request(stream: &mut TcpStream, path: &str) -> Option<u16> {
    let wait = Wait::new(format!("the head of an answer to {path}"));
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n").as_bytes()).ok()?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        match wait.try_read(stream, &mut buffer) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}: it hangs"),
        }
    }
    String::from_utf8_lossy(&answer).split(' ').nth(1)?.parse().ok()
}

fn health(addr: SocketAddr) -> Option<u16> {
    send_request(&mut connect(addr).unwrap(), "/healthz")
}

/// `guildhall serve` with an admin listener: its addresses, what it logged before it was ready, and its log.
struct Node {
    process: Process,
    addr: SocketAddr,
    admin: SocketAddr,
    before: Vec<Value>,
    log: Receiver<Value>,
}

impl Node {
    fn start(data: &Path, settings: &[&str], files: Option<u64>) -> Self {
        let node = guildhall(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
        let mut command = match files {
            None => node,
            Some(files) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(format!("ulimit -n {files}; exec \"$0\" \"$@\"")).arg(node.get_program());
                shell.args(node.get_args());
                let cleared = node.get_envs().filter(|(_, value)| value.is_none());
                cleared.for_each(|(name, _)| {
                    shell.env_remove(name);
                });
                shell.stdin(Stdio::null());
                shell
            }
        };
        for setting in settings.iter().chain(&["server.admin_listen=127.0.0.1:0"]) {
            command.args(["--set", setting]);
        }
        command.arg("--data").arg(data);
        let mut before = Vec::new();
        let (process, ready, log) = serve_by(command, |line| before.push(line.clone()));
        let addr = |name: &str| ready[name].as_str().unwrap().parse().unwrap();
        Self { addr: addr("listen"), admin: addr("admin_listen"), process, before, log }
    }

    fn metric(&self, name: &str) -> u64 {
        metric(self.admin, name)
    }

    /// Warnings so far, at least one. The log is read by a thread of its own, so the first may be late.
    fn warnings(&self) -> Vec<Value> {
        let is_warning = |line: &Value| line["level"] == "WARN";
        let first = next_line(&self.log, "a warning", is_warning);
        std::iter::once(first).chain(self.log.try_iter().filter(is_warning)).collect()
    }
}

#[test]
fn s9_sockets_of_rest_leave_places_to_the_gateway() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--members", "5", "--rate", "0", "--set", "server.connections_max=120"];
    let demo = Demo::start_on(dir.path(), "127.0.0.1:0", &args, Stdio::null());
    let mut held = Vec::new();
    let mut statuses = Vec::new();
    for _ in 0..121 {
        let mut stream = connect(demo.addr).unwrap();
        statuses.push(send_request(&mut stream, "/dictionaries"));
        held.push(stream);
    }
    let served = statuses.iter().filter(|status| **status == Some(200)).count();
    assert!((50..=60).contains(&served), "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, Some(200 | 503))), "the others get an answer: {statuses:?}");
    // They hold their places, and everything else goes on.
    assert_eq!(health(demo.addr), Some(200));
    let sessions: Vec<Ws> = (0..10).map(|_| Ws::session(demo.addr, &demo.token("bot_token"))).collect();
    // The gateway's share taken as well, there is room for health alone.
    let mut more: Vec<TcpStream> = Vec::new();
    let refused = wait_for("all places are taken", || {
        let (stream, status, _) = raw_upgrade(demo.addr, &request(PLAIN, "")).unwrap();
        more.push(stream);
        (status != 101).then_some(status)
    });
    assert_eq!(refused, 503);
    assert_eq!(health(demo.addr), Some(200));
    assert_eq!(send_request(&mut connect(demo.addr).unwrap(), "/dictionaries"), Some(503));
    drop((held, more, sessions));
    wait_for("the places are free", || {
        (send_request(&mut connect(demo.addr).unwrap(), "/dictionaries") == Some(200)).then_some(())
    });
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn s9_few_open_files_mean_fewer_places_and_no_hanging_sockets() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(&dir.path().join("data"), &[], Some(256));
    let places = node.before.iter().find(|line| line["message"] == "places for sockets").unwrap();
    assert_eq!((&places["connections_max"], &places["open_files"]), (&json!(160), &json!("256")));
    assert!(node.before.iter().all(|line| line["level"] == "INFO"), "{:?}", node.before);
    let contexts = node.before.iter().filter(|line| line["message"] == "compression contexts");
    assert_eq!(contexts.count(), 1, "the check before the start logs nothing");
    let started = Instant::now();
    let mut held = Vec::new();
    let statuses: Vec<u16> = (0..400)
        .map(|_| match raw_upgrade(node.addr, &request(PLAIN, "")) {
            Ok((stream, status, _)) => {
                held.push(stream);
                status
            }
            // A socket may be closed while its request is under way.
            Err(error) => {
                assert!(matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof
                ));
                503
            }
        })
        .collect();
    println!("400 upgrades took {:?}", started.elapsed());
    let served = statuses.iter().filter(|status| **status == 101).count();
    assert_eq!(served, 140, "an eighth is for REST");
    assert_eq!(send_request(&mut connect(node.addr).unwrap(), "/dictionaries"), Some(200));
    assert!(statuses.iter().all(|status| matches!(status, 101 | 503)), "{statuses:?}");
    assert_eq!((health(node.addr), health(node.admin)), (Some(200), Some(200)));
    assert!(node.metric("sockets_refused_total{why=\"full\"}") >= 200);
    assert_eq!(node.metric("sockets_refused_total{why=\"descriptors\"}"), 0, "there are some left for the rest");
    let warnings = node.warnings();
    assert_eq!(warnings.len(), 1, "one line a minute: {warnings:?}");
    drop(held);
    assert_eq!(node.process.terminate(), Some(0));
}

/// Number of files that a process holds open once the sockets that the start of the test closed are gone: a second long
/// the same number. A number taken earlier counts them, and they leave room for as many connections more than the test
/// reckons with.
fn settled_open_files(pid: u32) -> u64 {
    let count = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
    let (mut open, mut since) = (count(), Instant::now());
    wait_for("the number of open files stays the same", || {
        let now = count();
        if now != open {
            (open, since) = (now, Instant::now());
        }
        (since.elapsed() >= Duration::from_secs(1)).then_some(open)
    })
}

#[test]
fn s9_without_descriptors_new_sockets_get_503() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &[], None);
    let kept: Vec<TcpStream> = (0..4)
        .map(|_| {
            let (stream, status, _) = raw_upgrade(node.addr, &request(PLAIN, "")).unwrap();
            assert_eq!(status, 101);
            stream
        })
        .collect();
    // From outside, as an operator might: room for some twenty more.
    let used = settled_open_files(node.process.id());
    println!("{used} open files with {} connections", kept.len());
    let pid = Pid::from_raw(i32::try_from(node.process.id()).unwrap());
    let maximum = getrlimit(Resource::Nofile).maximum;
    let before = prlimit(pid, Resource::Nofile, Rlimit { current: Some(used + 20), maximum }).unwrap();
    let mut held = Vec::new();
    let refused = (0..60)
        .filter(|_| match raw_upgrade(node.addr, &request(PLAIN, "")) {
            Ok((stream, status, answer)) => {
                held.push(stream);
                assert!(status == 101 || status == 503, "{answer}");
                status == 503
            }
            Err(error) => {
                assert!(matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof
                ));
                true
            }
        })
        .count();
    assert!((38..60).contains(&refused), "{refused} of 60");
    let warnings = node.warnings();
    assert_eq!(warnings.len(), 1, "one line a minute: {warnings:?}");
    drop((kept, held));
    prlimit(pid, Resource::Nofile, before).unwrap();
    wait_for("there is room again", || (health(node.addr) == Some(200)).then_some(()));
    assert!(node.metric("sockets_refused_total{why=\"descriptors\"}") >= 38);
    assert_eq!(node.process.terminate(), Some(0));
}

const PIPELINED: usize = 60;
const OPENAPI: &str = "GET /v1/openapi.json HTTP/1.1\r\nHost: t\r\n\r\n";

fn pipeline(addr: SocketAddr) -> TcpStream {
    let mut stream = connect(addr).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 16 << 10).unwrap();
    stream.write_all(OPENAPI.repeat(PIPELINED).as_bytes()).unwrap();
    stream
}

/// Connects from one address of this machine.
fn connect_from(source: [u8; 4], to: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::from((source, 0)))?;
    rustix::net::connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

/// Eight addresses open sockets that send nothing, or a byte, 500 a second, for six seconds.
fn flood(to: SocketAddr) -> thread::JoinHandle<usize> {
    let deadline = Instant::now() + Duration::from_secs(6);
    thread::spawn(move || {
        let mut held = VecDeque::new();
        let mut count = 0;
        while Instant::now() < deadline {
            let mut socket = connect_from([127, 0, 1, 1 + (count % 8) as u8], to).unwrap();
            if count % 2 == 1 {
                // It may have been closed already.
                let _ = socket.write_all(b"G");
            }
            held.push_back(socket);
            count += 1;
            // The node has 64 places for them.
            if held.len() > 500 {
                held.pop_front();
            }
            thread::sleep(Duration::from_millis(2));
        }
        count
    })
}

#[test]
fn s32_sockets_that_send_nothing_do_not_block_others() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &["limits.handshakes_max=64"], None);
    let attack = flood(node.addr);
    wait_for("the flood has all handshakes", || {
        (node.metric("sockets_refused_total{why=\"handshakes\"}") > 64).then_some(())
    });
    let mut rounds = 0;
    while !attack.is_finished() {
        rounds += 1;
        for path in ["/healthz", "/readyz", "/dictionaries"] {
            let status = send_request(&mut connect(node.addr).unwrap(), path);
            assert_eq!(status, Some(200), "{path} in round {rounds}");
        }
        let (_, status, _) = raw_upgrade(node.addr, &request(PLAIN, "")).unwrap();
        assert_eq!(status, 101, "an upgrade in round {rounds}");
    }
    println!("{rounds} rounds under {} sockets", attack.join().unwrap());
    assert!(rounds >= 10, "{rounds} rounds in six seconds");
    assert_eq!(node.metric("sockets_refused_total{why=\"full\"}"), 0);
    assert_eq!(node.process.terminate(), Some(0));
}

#[test]
fn s32_a_probe_is_answered_while_silent_sockets_have_all_places() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &["server.connections_max=64", "limits.address_connections_max=0"], None);
    let mut gateway = Vec::new();
    wait_for("the gateway's share is taken", || {
        let (stream, status, _) = raw_upgrade(node.addr, &request(PLAIN, "")).unwrap();
        gateway.push(stream);
        (status == 503).then_some(())
    });
    // The remaining places, and those of health checks.
    let silent: Vec<TcpStream> = (0..60).map(|_| connect_from([127, 0, 1, 1], node.addr).unwrap()).collect();
    for round in 0..10 {
        assert_eq!(health(node.addr), Some(200), "round {round}");
    }
    drop((silent, gateway));
    assert_eq!(node.process.terminate(), Some(0));
}

#[test]
fn s10_a_client_of_rest_that_does_not_read_is_ended_and_a_slow_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &["limits.write_stall_ms=1500"], None);
    let deaf: Vec<TcpStream> = (0..5).map(|_| pipeline(node.addr)).collect();
    let mut slow = pipeline(node.addr);
    let started = Instant::now();
    // Some 300 KB a second, and an answer has 180 KB.
    let (mut bytes, mut buffer) = (0, [0; 16 << 10]);
    while started.elapsed() < Duration::from_secs(6) {
        let count = slow.read(&mut buffer).unwrap();
        assert!(count > 0, "it was ended after {:?}", started.elapsed());
        bytes += count;
        thread::sleep(Duration::from_millis(50));
    }
    println!("{bytes} bytes in {:?}", started.elapsed());
    wait_for("those that do not read are ended", || (node.metric("sockets_stalled_total") == 5).then_some(()));
    wait_for("their places are free", || (node.metric("sockets_rest") == 1).then_some(()));
    drop((deaf, slow));
    assert_eq!(node.process.terminate(), Some(0));
}

#[test]
fn s10_the_same_by_tls() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ["cert_file", "key_file"].map(|name| {
        let file = tls::file(if name == "cert_file" { "one.crt" } else { "one.key" });
        format!("tls.{name}={}", file.display())
    });
    let node = Node::start(dir.path(), &["limits.write_stall_ms=1500", &settings[0], &settings[1]], None);
    let deaf: Vec<tls::Stream> = (0..5)
        .map(|_| {
            let mut stream = tls::connect(node.addr, "one.crt").unwrap();
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream.sock, 16 << 10).unwrap();
            stream.write_all(OPENAPI.repeat(PIPELINED).as_bytes()).unwrap();
            stream
        })
        .collect();
    wait_for("those that do not read are ended", || (node.metric("sockets_stalled_total") == 5).then_some(()));
    wait_for("their places are free", || (node.metric("sockets_rest") == 0).then_some(()));
    drop(deaf);
    assert_eq!(node.process.terminate(), Some(0));
}

#[test]
fn s15_a_session_ends_with_its_token_also_after_a_restart() {
    const ADMIN_KEY: &str = "an-admin-key-of-more-than-thirty-two-bytes";
    let dir = tempfile::tempdir().unwrap();
    let setting = format!("auth.admin_key={ADMIN_KEY}");
    let start = || Node::start(dir.path(), &[&setting], None);
    let node = start();
    let mint = |addr: SocketAddr, ttl_s: u64| {
        let mut http = Http::new(addr, &format!("Bearer {ADMIN_KEY}"));
        let user = json!({"username": "mara"});
        assert!(http.request("PUT", "/v1/users/1200000000000000011", Some(&user)).unwrap().status < 300);
        let new = json!({"ttl_s": ttl_s});
        let minted = http.request("POST", "/v1/users/1200000000000000011/tokens", Some(&new)).unwrap();
        assert!(minted.body["expires_at"].is_string(), "{minted:?}");
        minted.body["token"].as_str().unwrap_or_else(|| panic!("{minted:?}")).to_owned()
    };
    let resume = |addr: SocketAddr, of: &Ws, token: &str| {
        let mut ws = Ws::connect(addr, PLAIN, "").unwrap();
        ws.expect_op(10);
        ws.send(&json!({"op": 6, "d": {"token": token, "session_id": of.session_id, "seq": of.last_seq}}));
        ws.last_seq = of.last_seq;
        ws.session_id.clone_from(&of.session_id);
        ws
    };
    let short = mint(node.addr, 4);
    let mut ws = Ws::session(node.addr, &short);
    assert_eq!(ws.close_code(), Some(4004));
    assert_eq!(resume(node.addr, &ws, &short).close_code(), Some(4004), "not with that token");
    let mut ws = resume(node.addr, &ws, &mint(node.addr, 600));
    ws.expect_event("RESUMED");
    assert_eq!(node.metric("sessions_expired_total"), 1);

    assert_eq!(node.process.terminate(), Some(0));
    let node = start();
    let mut ws = resume(node.addr, &ws, &mint(node.addr, 4));
    ws.expect_event("RESUMED");
    assert_eq!(ws.close_code(), Some(4004));
    assert_eq!(node.process.terminate(), Some(0));
}

#[test]
fn signals_without_a_meaning_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = Node::start(dir.path(), &[], None);
    let (mut ws, status, _) = raw_upgrade(node.addr, &request(PLAIN, "")).unwrap();
    assert_eq!(status, 101);
    for signal in ["USR1", "USR2", "USR1"] {
        node.process.signal(signal);
        assert_eq!(health(node.addr), Some(200), "{signal}");
    }
    assert_eq!(node.process.has_ended(), None);
    assert!(ws.read(&mut [0; 64]).unwrap() > 0, "HELLO, and the connection is still there");
    assert_eq!(node.process.terminate(), Some(0));
}
