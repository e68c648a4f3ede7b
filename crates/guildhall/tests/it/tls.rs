//! TLS on the node's own port: REST and the gateway, whole streams of what is large and small, and a certificate that
//! is replaced while the node runs.

use crate::{
    support::{self, Demo, Process, Wait, exchange, guildhall, run, run_to_end, stderr, wait_for},
    ws::{Got, PLAIN, Ws},
};
use guildhall_rehearsal::CaptureReader;
use guildhall_ws_proto::{Decoder, Event, Limits, Opcode, Role, append_masked_frame};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

pub type Stream = StreamOwned<ClientConnection, TcpStream>;

pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name)
}

/// Shakes hands, trusting that certificate alone.
pub fn connect(addr: SocketAddr, trusted: &str) -> std::io::Result<Stream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file(trusted)).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut tcp = support::connect(addr)?;
    tls.complete_io(&mut tcp)?;
    Ok(StreamOwned::new(tls, tcp))
}

fn rest(addr: SocketAddr, trusted: &str, method: &str, path: &str, token: &str, body: &str) -> (u16, Value) {
    let mut stream = connect(addr, trusted).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\nAuthorization: {token}\r\n");
    let head = format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
}

/// A gateway client over TLS.
struct Client {
    stream: Stream,
    decoder: Decoder,
    got: std::collections::VecDeque<Value>,
    /// Of READY.
    session_id: String,
    /// Of the last dispatch.
    seq: u64,
}

impl Client {
    fn new(addr: SocketAddr, trusted: &str) -> Self {
        let mut stream = connect(addr, trusted).unwrap();
        stream.write_all(crate::ws::request(crate::ws::PLAIN, "").as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 101"));
        let decoder = Decoder::new(Role::Client, Limits { message_bytes_max: 64 << 20 });
        Self { stream, decoder, got: Default::default(), session_id: String::new(), seq: 0 }
    }

    fn session(addr: SocketAddr, trusted: &str, token: &str) -> Self {
        let mut client = Self::new(addr, trusted);
        client.expect(|p| p["op"] == 10);
        let intents = crate::ws::INTENTS | 1 << 1;
        client.send(&json!({"op": 2, "d": {"token": token, "intents": intents, "properties": {}}}));
        client.expect(|p| p["t"] == "GUILD_CREATE");
        client
    }

    fn send(&mut self, payload: &Value) {
        let mut frame = Vec::new();
        append_masked_frame(Opcode::Text, [1, 2, 3, 4], payload.to_string().as_bytes(), &mut frame);
        self.stream.write_all(&frame).unwrap();
    }

    #[track_caller]
    fn expect(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut buffer = [0; 4096];
        let mut wait = Wait::new("a payload");
        loop {
            while let Some(payload) = self.got.pop_front() {
                self.seq = payload["s"].as_u64().unwrap_or(self.seq);
                if payload["t"] == "READY" {
                    self.session_id = payload["d"]["session_id"].as_str().expect("a text").to_owned();
                }
                if is_it(&payload) {
                    return payload;
                }
                wait.saw(format!("op {} {}", payload["op"], payload["t"]));
            }
            self.stream.sock.set_read_timeout(Some(wait.left())).unwrap();
            let count = self.stream.read(&mut buffer).unwrap_or_else(|error| panic!("{error} instead of {wait}"));
            assert!(count > 0, "it ended instead of {wait}");
            let mut events = self.decoder.handle(&mut buffer[..count]);
            while let Some(event) = events.poll().unwrap() {
                match event {
                    Event::Text(text) => self.got.push_back(serde_json::from_str(text).unwrap()),
                    Event::Close { code, .. } => self.got.push_back(json!({ "closed": code })),
                    _ => {}
                }
            }
        }
    }
}

/// A node that speaks TLS; its data are those of a demo that has ended.
struct Node {
    process: Process,
    addr: SocketAddr,
    manifest: Value,
}

fn start(dir: &Path, more: &[&str]) -> Node {
    let data = dir.join("data");
    let demo = Demo::start(&data, &["--members", "3000", "--rate", "0"]);
    let (manifest, addr) = (demo.manifest.clone(), demo.addr);
    assert_eq!(demo.terminate(), Some(0));
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    fs::copy(file("one.crt"), &cert).unwrap();
    fs::copy(file("one.key"), &key).unwrap();
    let mut command = guildhall(["serve", "--listen", &addr.to_string(), "--data"]);
    command.arg(&data).arg("--set").arg(format!("tls.cert_file={}", cert.display()));
    command.arg("--set").arg(format!("tls.key_file={}", key.display())).args(more);
    let process = Process::from(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_for("the node", || connect(addr, "one.crt").ok());
    Node { process, addr, manifest }
}

#[test]
fn rest_and_gateway_by_tls() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "limits.inbound_per_minute_max=100000",
        "limits.write_stall_ms=60000",
        "limits.rest_rate_percent=0",
        "server.metrics=open",
    ];
    let settings = settings.map(|setting| ["--set", setting]).concat();
    let Node { mut process, addr, manifest } = start(dir.path(), &settings);
    let token = manifest["bot_token"].as_str().unwrap().to_owned();
    let (status, me) = rest(addr, "one.crt", "GET", "/api/v10/gateway/bot", &token, "");
    assert_eq!((status, me["url"].as_str().unwrap()), (200, format!("wss://{addr}").as_str()));
    let mut stream = connect(addr, "one.crt").unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").unwrap();
    let mut metrics = Vec::new();
    let _ = stream.read_to_end(&mut metrics);
    let metrics = String::from_utf8(metrics).unwrap();
    let end = metrics.lines().find_map(|line| line.strip_prefix("guildhall_tls_certificate_end_seconds "));
    assert_eq!(end, Some("4948931308"), "29 October 2126");
    let token = token.trim_start_matches("Bot ");
    let mut clients: Vec<Client> = (0..3).map(|_| Client::session(addr, "one.crt", token)).collect();
    let channel = manifest["channel_ids"][0].as_str().unwrap();
    let path = format!("/api/v10/channels/{channel}/messages");
    for number in 0..20 {
        let body = json!({"content": format!("number {number}")}).to_string();
        assert_eq!(rest(addr, "one.crt", "POST", &path, &format!("Bot {token}"), &body).0, 200);
    }
    for client in &mut clients {
        for number in 0..20 {
            let heard = client.expect(|p| p["t"] == "MESSAGE_CREATE");
            assert_eq!(heard["d"]["content"], format!("number {number}"));
        }
    }
    // More than all buffers hold, to a client that reads only later: every byte arrives, in order.
    let client = &mut clients[0];
    let guild = manifest["guild_id"].as_str().unwrap();
    for nonce in 0..300 {
        let request = json!({"guild_id": guild, "query": "a", "limit": 100, "nonce": nonce.to_string()});
        client.send(&json!({"op": 8, "d": request}));
        if nonce % 10 == 9 {
            thread::sleep(Duration::from_millis(20));
        }
    }
    thread::sleep(Duration::from_millis(1_500));
    client.send(&json!({"op": 1, "d": null}));
    let mut last = None;
    loop {
        let heard = client.expect(|p| p["t"] == "GUILD_MEMBERS_CHUNK" || p["op"] == 11);
        if heard["op"] == 11 {
            break;
        }
        assert!(last.is_none_or(|last| heard["s"].as_u64() == Some(last + 1)), "{last:?}");
        last = heard["s"].as_u64();
    }
    assert!(last.is_some());
    // Nonsense instead of a handshake, and one that is never finished: others notice nothing.
    let plain = exchange(addr, b"GET / HTTP/1.1\r\nHost: t\r\n\r\n");
    assert!(plain.is_none(), "no plain text on this port: {plain:?}");
    let _silent = support::connect(addr).unwrap();
    clients[1].send(&json!({"op": 99, "d": null}));
    assert_eq!(clients[1].expect(|p| !p["closed"].is_null())["closed"], 4001);
    clients[2].send(&json!({"op": 1, "d": null}));
    clients[2].expect(|p| p["op"] == 11);
    // They are let go as without TLS.
    process.signal("TERM");
    clients[2].expect(|p| p["op"] == 7);
    drop(clients);
    assert_eq!(wait_for("the end", || process.has_ended()), Some(0));
}

/// The keys of a connection are in the process that ends.
#[test]
fn a_takeover_has_clients_resume() {
    let dir = tempfile::tempdir().unwrap();
    let Node { mut process, addr, manifest } = start(dir.path(), &[]);
    let token = manifest["bot_token"].as_str().unwrap().trim_start_matches("Bot ").to_owned();
    let mut clients: Vec<Client> = (0..3).map(|_| Client::session(addr, "one.crt", &token)).collect();
    let upgraded = run_to_end(guildhall(["upgrade", "--data"]).arg(dir.path().join("data")));
    let printed = String::from_utf8_lossy(&upgraded.stdout).into_owned();
    assert!(upgraded.status.success() && printed.contains("serves 0 connections"), "{printed} {}", stderr(&upgraded));
    let pid = printed.split(' ').nth(1).expect("a process id").to_owned();
    for client in &mut clients {
        client.expect(|p| p["op"] == 7);
        assert_eq!(client.expect(|p| !p["closed"].is_null())["closed"], 4000);
    }
    assert_eq!(wait_for("the end of the process before", || process.has_ended()), Some(0));
    for client in &clients {
        let mut next = Client::new(addr, "one.crt");
        next.expect(|p| p["op"] == 10);
        next.send(&json!({"op": 6, "d": {"token": token, "session_id": client.session_id, "seq": client.seq}}));
        next.expect(|p| p["t"] == "RESUMED");
    }
    assert!(Command::new("kill").arg(&pid).status().expect("kill runs").success());
    wait_for("the end of the next process", || support::connect(addr).err());
}

#[test]
fn the_certificate_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let Node { process, addr, manifest } = start(dir.path(), &[]);
    let token = manifest["bot_token"].as_str().unwrap().trim_start_matches("Bot ").to_owned();
    let mut before = Client::session(addr, "one.crt", &token);
    assert!(connect(addr, "two.crt").is_err());
    // A key that is not the certificate's changes nothing.
    fs::copy(file("two.key"), dir.path().join("key.pem")).unwrap();
    process.signal("HUP");
    thread::sleep(Duration::from_millis(2_500));
    assert!(connect(addr, "one.crt").is_ok());
    // Both of them: it is noticed without a signal.
    fs::copy(file("two.crt"), dir.path().join("cert.pem")).unwrap();
    wait_for("the other certificate", || connect(addr, "two.crt").ok());
    assert!(connect(addr, "one.crt").is_err());
    before.send(&json!({"op": 1, "d": null}));
    before.expect(|p| p["op"] == 11);
    drop(before);
    assert_eq!(process.terminate(), Some(0));

    let serve = |settings: &[String]| {
        let mut args = vec!["serve", "--listen", "127.0.0.1:0", "--data", dir.path().to_str().unwrap()];
        settings.iter().for_each(|setting| args.extend(["--set", setting]));
        run(args)
    };
    let cert = format!("tls.cert_file={}", file("one.crt").display());
    let key = |name: &str| format!("tls.key_file={}", file(name).display());
    let wrong = serve(&[cert.clone(), key("two.key")]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("the key is not the certificate's"), "{}", stderr(&wrong));
    let half = serve(&[cert]);
    assert_eq!(half.status.code(), Some(2));
    assert!(stderr(&half).contains("tls.cert_file is set without tls.key_file"), "{}", stderr(&half));
}

#[test]
fn the_command_line_speaks_tls_to_its_own_node() {
    const KEY: &str = "a root key of more than thirty-two bytes";
    let dir = tempfile::tempdir().unwrap();
    let Node { process, addr, manifest } = start(dir.path(), &["--set", &format!("auth.admin_key={KEY}")]);
    let guild = manifest["guild_id"].as_str().unwrap();
    let publish = |server: &str, more: &[&str]| {
        let mut command =
            guildhall(["publish", "--event", "HELLO", "--data", "1", "--guild", guild, "--server", server]);
        run_to_end(command.env("GUILDHALL_KEY", KEY).args(more))
    };
    let (one, two) = (file("one.crt"), file("two.crt"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    let port = addr.port();
    for host in ["localhost", "127.0.0.1"] {
        let done = publish(&format!("https://{host}:{port}/"), &["--ca", one]);
        assert!(done.status.success(), "{host}: {}", stderr(&done));
        assert!(String::from_utf8_lossy(&done.stdout).contains("\"reached\""), "{done:?}");
    }
    let refused = |done: &Output, expected: &str| {
        assert_eq!(done.status.code(), Some(1));
        assert!(stderr(done).contains(expected), "{expected}: {}", stderr(done));
    };
    let url = format!("https://localhost:{port}");
    refused(&publish(&url, &["--ca", two]), "was not trusted");
    // No authority that the system trusts has signed it.
    refused(&publish(&url, &[]), "trusted");
    refused(&publish(&url, &["--ca", "none.pem"]), "none.pem");
    refused(&publish(&format!("http://127.0.0.1:{port}"), &[]), "it speaks only TLS");
    refused(&publish(&format!("http://127.0.0.1:{port}"), &["--ca", one]), "--ca is for https://");
    assert_eq!(process.terminate(), Some(0));
}

/// One run of `guildhall capture --to wss://…`: `client` gets the proxy's address, then Ctrl + C ends the run.
fn capture(to: &str, ca: Option<&str>, out: &Path, client: impl FnOnce(SocketAddr)) -> Output {
    let mut command = guildhall(["capture", "--listen", "127.0.0.1:0", "--with-contents-of-users", "--to", to]);
    command.arg("--out").arg(out).args(ca.iter().flat_map(|ca| ["--ca", ca]));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut head = String::new();
    let address = loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "the capture ended: {head}");
        if let Some(rest) = line.strip_prefix("listening at ws://") {
            break rest.split(',').next().unwrap().parse().unwrap();
        }
        head += &line;
    };
    client(address);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut rest = Vec::new();
    log.read_to_end(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    Output { stderr: [head.into_bytes(), rest].concat(), ..output }
}

#[test]
fn a_capture_by_wss_needs_a_trusted_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let Node { process, addr, manifest } = start(dir.path(), &[]);
    let token = manifest["bot_token"].as_str().unwrap().trim_start_matches("Bot ").to_owned();
    let (one, two) = (file("one.crt"), file("two.crt"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    let url = |host: &str| format!("wss://{host}:{}", addr.port());

    for host in ["localhost", "127.0.0.1"] {
        let out = dir.path().join(host);
        let done = capture(&url(host), Some(one), &out, |proxy| {
            let mut client = Ws::session(proxy, &token);
            client.expect_event("GUILD_CREATE");
        });
        let summary = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success() && summary.starts_with("1 connections, "), "{summary} {}", stderr(&done));
        let mut reader = CaptureReader::new(fs::File::open(&out).unwrap()).unwrap();
        let mut records = String::new();
        while let Some(line) = reader.next_line().unwrap() {
            records += &serde_json::to_string(&line).unwrap();
        }
        for recorded in ["READY", "GUILD_CREATE", token.as_str()] {
            assert!(records.contains(recorded), "{recorded} in the file of {host}");
        }
    }

    // Another certificate, and none but those of the system.
    for (name, ca) in [("two", Some(two)), ("system", None)] {
        let out = dir.path().join(name);
        let done = capture(&url("localhost"), ca, &out, |proxy| {
            // The proxy accepts the client before it connects to the gateway.
            let mut client = Ws::connect(proxy, PLAIN, "").unwrap();
            assert_eq!(client.next(), Got::End, "{name}");
        });
        let summary = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(summary.starts_with("0 connections, 0 chunks, "), "{name}: {summary}");
        assert!(stderr(&done).contains("the gateway cannot be reached: "), "{name}: {}", stderr(&done));
        assert!(stderr(&done).contains("was not trusted: it must name localhost"), "{name}: {}", stderr(&done));
    }

    let refused = |to: &str, ca: &str, expected: &str| {
        let out = dir.path().join("none");
        let args = ["capture", "--listen", "127.0.0.1:0", "--to", to, "--ca", ca, "--out", out.to_str().unwrap()];
        let done = run(args);
        assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
        assert!(stderr(&done).contains(expected) && !out.exists(), "{}", stderr(&done));
    };
    refused(&url("localhost"), "none.pem", "none.pem");
    refused(&format!("ws://{addr}"), one, "--ca is for wss://");
    assert_eq!(process.terminate(), Some(0));
}

/// A certificate of `openssl req -x509` has CA:TRUE. The file of --ca may be that certificate itself.
#[test]
fn t1_a_certificate_of_the_operators_own_file_is_trusted_if_it_is_valid_and_names_the_host() {
    const KEY: &str = "a root key of more than thirty-two bytes";
    let publish = |certificate: &str, host: &str, ca: &str| {
        let dir = tempfile::tempdir().unwrap();
        let pem = |name: &str, setting: &str| format!("tls.{setting}={}", file(name).display());
        let (cert, key) =
            (pem(&format!("{certificate}.crt"), "cert_file"), pem(&format!("{certificate}.key"), "key_file"));
        let mut command = guildhall(["serve", "--listen", "0.0.0.0:0", "--log-format", "json", "--data"]);
        let root = format!("auth.admin_key={KEY}");
        command.arg(dir.path().join("data")).args(["--set", &cert, "--set", &key, "--set", &root]);
        let (node, ready, _log) = support::serve_by(command, |_| {});
        let port = ready["listen"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
        let mut command = guildhall(["cluster", "status", "--server", &format!("https://{host}:{port}"), "--ca"]);
        let output = run_to_end(command.arg(file(ca)).env("GUILDHALL_KEY", KEY));
        assert_eq!(node.terminate(), Some(0));
        output
    };
    for host in ["localhost", "127.0.0.1"] {
        let done = publish("ca", host, "ca.crt");
        assert!(done.status.success(), "{host}: {}", stderr(&done));
    }
    for (certificate, host, ca, why) in [
        ("ca", "localhost", "two.crt", "another file"),
        ("ended", "localhost", "ended.crt", "it has ended"),
        ("ca", "127.0.0.2", "ca.crt", "another host"),
    ] {
        let done = publish(certificate, host, ca);
        assert_eq!(done.status.code(), Some(1), "{why}");
        assert!(
            stderr(&done).contains("was not trusted") && stderr(&done).contains("subjectAltName"),
            "{}",
            stderr(&done)
        );
    }
}
