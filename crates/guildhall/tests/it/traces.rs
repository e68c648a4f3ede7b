//! Traces: the spans of a message from its REST call to the sockets, as an OTLP collector receives them.

use crate::{
    support::{Demo, Http, PATIENCE, ask, guildhall, next_line, run_to_end, serve_by, stderr, wait_for, wait_until},
    ws::Ws,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex},
    thread,
};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";

/// A span as the collector received it.
#[derive(Clone, Debug, Default)]
pub struct Span {
    pub trace: String,
    pub id: u64,
    pub parent: u64,
    pub name: String,
    kind: u64,
    begin: u64,
    end: u64,
    is_error: bool,
    pub attributes: BTreeMap<String, String>,
}

/// A field of a protobuf message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Fields of a message, by the rules of protobuf alone.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            wire @ (1 | 5) => {
                let (fixed, rest) = bytes.split_at(if wire == 1 { 8 } else { 4 });
                bytes = rest;
                let mut all = [0; 8];
                all[..fixed.len()].copy_from_slice(fixed);
                Field::Number(u64::from_le_bytes(all))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (inner, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(inner)
            }
            wire => panic!("wire type {wire}"),
        };
        found.push((key >> 3, field));
    }
    found
}

fn inner(bytes: &[u8], wanted: u64) -> Vec<&[u8]> {
    let of = fields(bytes).into_iter().filter_map(move |(number, field)| match field {
        Field::Bytes(bytes) if number == wanted => Some(bytes),
        _ => None,
    });
    of.collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn attribute(bytes: &[u8]) -> (String, String) {
    let value = inner(bytes, 2)[0];
    let value = match &fields(value)[0] {
        (1, Field::Bytes(value)) => text(value),
        (3, Field::Number(number)) => number.to_string(),
        _ => panic!("another kind of value"),
    };
    (text(inner(bytes, 1)[0]), value)
}

fn span(bytes: &[u8]) -> Span {
    let id = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    let mut span = Span::default();
    for (number, field) in fields(bytes) {
        match (number, field) {
            (1, Field::Bytes(trace)) => span.trace = trace.iter().map(|byte| format!("{byte:02x}")).collect(),
            (2, Field::Bytes(bytes)) => span.id = id(bytes),
            (4, Field::Bytes(bytes)) => span.parent = id(bytes),
            (5, Field::Bytes(name)) => span.name = text(name),
            (6, Field::Number(kind)) => span.kind = kind,
            (7, Field::Number(begin)) => span.begin = begin,
            (8, Field::Number(end)) => span.end = end,
            (9, Field::Bytes(pair)) => span.attributes.extend([attribute(pair)]),
            (15, Field::Bytes(status)) => span.is_error = matches!(fields(status)[..], [(3, Field::Number(2))]),
            (16, Field::Number(_)) => {}
            (number, _) => panic!("field {number}"),
        }
    }
    span
}

/// A collector that answers as configured.
pub struct Collector {
    pub addr: SocketAddr,
    status: Arc<Mutex<u16>>,
    spans: Arc<Mutex<Vec<Span>>>,
    /// Heads of the requests.
    heads: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = Self {
            addr: listener.local_addr().unwrap(),
            status: Arc::new(Mutex::new(200)),
            spans: Arc::default(),
            heads: Arc::default(),
        };
        let (status, spans, heads) = (collector.status.clone(), collector.spans.clone(), collector.heads.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                stream.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
                let (mut head, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    stream.read_line(&mut line).unwrap();
                    if line == "\r\n" {
                        break;
                    }
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    head.push_str(&line);
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                heads.lock().unwrap().push(head);
                let answer = *status.lock().unwrap();
                if answer == 200 {
                    let resources = inner(&body, 1);
                    let scopes = resources.iter().flat_map(|resource| inner(resource, 2));
                    let mut spans = spans.lock().unwrap();
                    spans.extend(scopes.flat_map(|scope| inner(scope, 2)).map(span));
                }
                write!(stream.get_mut(), "HTTP/1.1 {answer} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .unwrap();
            }
        });
        collector
    }

    fn demo(&self, dir: &Path, settings: &[&str]) -> Demo {
        let endpoint = format!("traces.endpoint=http://{}", self.addr);
        let mut args = vec!["--members", "5", "--rate", "0", "--set", "limits.rest_rate_percent=0"];
        args.extend(["--set", &endpoint]);
        settings.iter().for_each(|setting| args.extend(["--set", setting]));
        Demo::start_on(dir, "127.0.0.1:0", &args, Stdio::null())
    }

    /// The spans of the trace of which one fulfils `is_it`, once its root and `count` more are there.
    pub fn trace(&self, what: &str, count: usize, is_it: impl Fn(&Span) -> bool) -> Vec<Span> {
        wait_until(what, || {
            let spans = self.spans.lock().unwrap();
            let Some(Span { trace, .. }) = spans.iter().find(|span| is_it(span)) else { return Err(spans.clone()) };
            let of_trace: Vec<Span> = spans.iter().filter(|span| span.trace == *trace).cloned().collect();
            if of_trace.len() > count { Ok(of_trace) } else { Err(of_trace) }
        })
    }
}

/// Posts with more headers, each with its line end.
pub fn post(addr: SocketAddr, token: &str, path: &str, body: &Value, more: &str) -> u16 {
    let headers = format!("Authorization: {token}\r\n{more}Content-Type: application/json\r\n");
    ask(addr, "POST", path, &headers, body.to_string().as_bytes()).status
}

/// A session that its guild has attached: events reach it.
fn inside(addr: SocketAddr, token: &str) -> Ws {
    let mut session = Ws::session(addr, token);
    session.expect_event("GUILD_CREATE");
    session
}

pub fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    let [only] = found[..] else { panic!("{} spans {name} in {spans:#?}", found.len()) };
    only
}

#[test]
fn a_message_is_traced_from_its_rest_call_to_the_last_socket() {
    let (dir, collector) = (tempfile::tempdir().unwrap(), Collector::start());
    let settings = ["traces.sample_one_in=0", "traces.slow_ms=0", "traces.headers=x-key=SECRET", "server.partitions=1"];
    let demo = collector.demo(dir.path(), &settings);
    let (token, channel) = (demo.token("bot_token"), demo.channels()[0].clone());
    let mut sessions: Vec<Ws> = (0..3).map(|_| inside(demo.addr, &token)).collect();
    let path = format!("/api/v10/channels/{channel}/messages");
    // Not sampled: by rate none is, and the second caller's flag is 00.
    assert_eq!(post(demo.addr, &token, &path, &json!({"content": "a"}), ""), 200);
    assert_eq!(post(demo.addr, &token, &path, &json!({"content": "b"}), &format!("traceparent: {CALLER}-00\r\n")), 200);
    assert_eq!(post(demo.addr, &token, &path, &json!({"content": "c"}), &format!("traceparent: {CALLER}-01\r\n")), 200);
    for session in &mut sessions {
        (0..3).for_each(|_| drop(session.expect_event("MESSAGE_CREATE")));
    }
    // The route reads the channel first, which is a span of the guild as well.
    let mut spans = collector.trace("the trace", 9, |_| true);
    assert_eq!(spans.len(), 10, "nothing else was sampled: {spans:#?}");
    let is_read = |span: &Span| span.attributes.get("guildhall.command").is_some_and(|name| name == "read_channel");
    let read = spans.remove(spans.iter().position(is_read).unwrap());
    assert_eq!(spans[0].trace, "4bf92f3577b34da6a3ce929d0e0e4736");
    let root = named(&spans, "POST /api/channels/{channel_id}/messages");
    assert_eq!(read.parent, root.id);
    let parents = [
        ("validate", root),
        ("guild", root),
        ("commit", named(&spans, "guild")),
        ("publish", named(&spans, "guild")),
        ("relay", named(&spans, "publish")),
        ("encode", named(&spans, "relay")),
        ("first_write", named(&spans, "relay")),
        ("last_write", named(&spans, "relay")),
    ];
    for (name, parent) in parents {
        let span = named(&spans, name);
        assert_eq!(span.parent, parent.id, "{name}");
        assert!(span.begin <= span.end && span.begin >= root.begin, "{span:?}");
    }
    assert_eq!((root.parent, root.kind, root.is_error), (0x00f0_67aa_0ba9_02b7, 2, false));
    let attributes = |name: &str| &named(&spans, name).attributes;
    assert_eq!(root.attributes["http.response.status_code"], "200");
    assert_eq!(attributes("guild")["guildhall.command"], "create_message");
    assert_eq!(attributes("publish")["guildhall.event"], "MESSAGE_CREATE");
    assert_eq!(attributes("relay")["guildhall.deliveries"], "3");
    let order = ["validate", "guild", "commit", "publish", "first_write", "last_write"].map(|name| named(&spans, name));
    assert!(order.windows(2).all(|pair| pair[0].begin <= pair[1].begin), "{order:#?}");
    assert!(named(&spans, "relay").end >= named(&spans, "last_write").end);

    let head = collector.heads.lock().unwrap()[0].clone();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n") && head.contains("application/x-protobuf"), "{head}");
    assert!(head.contains("x-key: SECRET"), "{head}");
    let mut admin = Http::new(demo.addr, &format!("Bearer {}", demo.manifest["admin_key"].as_str().unwrap()));
    let settings = admin.get("/v1/node/operations").unwrap().body.to_string();
    assert!(settings.contains("traces.headers") && !settings.contains("SECRET"), "{settings}");
}

#[test]
fn a_publish_and_a_refusal_are_traced_by_rate() {
    let (dir, collector) = (tempfile::tempdir().unwrap(), Collector::start());
    let demo = collector.demo(dir.path(), &["traces.sample_one_in=1", "traces.slow_ms=0", "server.partitions=1"]);
    let key = format!("Bearer {}", demo.manifest["admin_key"].as_str().unwrap());
    let mut session = inside(demo.addr, &demo.token("bot_token"));
    let guild_id = demo.manifest["guild_id"].as_str().unwrap();
    let event = json!({"t": "SHOP_OPENED", "d": {"n": 1}, "audience": {"guild": guild_id}});
    let status = post(demo.addr, &key, "/v1/publish", &event, "");
    assert!(status < 300, "{status}");
    session.expect_event("SHOP_OPENED");
    let spans = collector.trace("the publish", 7, |span| span.name == "POST /v1/publish");
    assert_eq!(named(&spans, "relay").parent, named(&spans, "publish").id);
    assert_eq!(named(&spans, "POST /v1/publish").parent, 0);
    assert_eq!(named(&spans, "relay").attributes["guildhall.deliveries"], "1");

    assert_eq!(post(demo.addr, "nobody", "/api/v10/channels/1/messages", &json!({"content": "a"}), ""), 401);
    let is_refused = |span: &Span| span.attributes.get("http.response.status_code").is_some_and(|code| code == "401");
    assert_eq!(collector.trace("the refusal", 0, is_refused).len(), 1);
}

#[test]
fn slow_requests_are_exported_and_failing_exports_are_counted() {
    let (dir, collector) = (tempfile::tempdir().unwrap(), Collector::start());
    *collector.status.lock().unwrap() = 400;
    let demo = collector.demo(dir.path(), &["traces.sample_one_in=0", "traces.slow_ms=1", "server.metrics=open"]);
    let (token, channel) = (demo.token("bot_token"), demo.channels()[0].clone());
    let _session = Ws::session(demo.addr, &token);
    let path = format!("/api/v10/channels/{channel}/messages");
    let say = || assert_eq!(post(demo.addr, &token, &path, &json!({"content": "a"}), ""), 200);
    let counter = |name: &str| -> u64 {
        let (_, text) = crate::metrics::get(demo.addr, "");
        let line = text.lines().find(|line| line.starts_with(&format!("guildhall_{name} "))).expect("it is there");
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    // The commit alone takes a millisecond on most disks; it is tried until one does.
    wait_for("a trace that is lost", || {
        say();
        (counter("traces_dropped_total{why=\"export_failed\"}") > 0).then_some(())
    });
    assert!(counter("trace_exports_failed_total") > 0);
    assert_eq!(counter("traces_exported_total"), 0);
    *collector.status.lock().unwrap() = 200;
    wait_for("a trace that arrives", || {
        say();
        (counter("traces_exported_total") > 0).then_some(())
    });
    let spans = collector.spans.lock().unwrap();
    let root = spans.iter().find(|span| span.kind == 2).unwrap();
    assert_eq!(root.attributes["guildhall.chosen"], "slow");
    let trace: Vec<&Span> = spans.iter().filter(|span| span.trace == root.trace).collect();
    let (begin, end) = (trace.iter().map(|s| s.begin).min().unwrap(), trace.iter().map(|s| s.end).max().unwrap());
    assert!(end - begin >= 1_000_000, "{} ns", end - begin);
}

#[test]
fn log_lines_of_a_traced_request_carry_its_id() {
    let (dir, collector) = (tempfile::tempdir().unwrap(), Collector::start());
    let mut command = guildhall(["demo", "--listen", "127.0.0.1:0", "--members", "5", "--rate", "0"]);
    let endpoint = format!("traces.endpoint=http://{}", collector.addr);
    command.arg("--data").arg(dir.path()).args([
        "--log-format",
        "json",
        "--log-level",
        "info,guildhall_http_kit=debug",
    ]);
    command.args(["--set", &endpoint, "--set", "traces.sample_one_in=1", "--set", "limits.rest_rate_percent=0"]);
    let (process, ready, log) = serve_by(command, |_| {});
    let addr: SocketAddr = ready["listen"].as_str().unwrap().parse().unwrap();
    let manifest: Value = serde_json::from_slice(&std::fs::read(dir.path().join("demo.json")).unwrap()).unwrap();
    let path = format!("/api/v10/channels/{}/messages", manifest["channel_ids"][0].as_str().unwrap());
    let header = format!("traceparent: {CALLER}-01\r\n");
    let token = manifest["bot_token"].as_str().unwrap();
    assert_eq!(post(addr, token, &path, &json!({"content": "a"}), &header), 200);
    let id = json!("4bf92f3577b34da6a3ce929d0e0e4736");
    let answered = next_line(&log, "the line of the request", |line| {
        line["message"] == "a traced request was answered" && line["status"] == 200
    });
    assert_eq!(answered["span"]["trace_id"], id);
    drop(process);
}

#[test]
fn secret_headers_need_tls_or_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let check = |endpoint: &str, headers: &str| {
        let mut command = guildhall(["config", "check", "--set", &format!("traces.endpoint={endpoint}")]);
        command.args(["--set", &format!("store.dir={}", dir.path().join("data").display())]);
        let output = run_to_end(command.args(["--set", &format!("traces.headers={headers}")]));
        (output.status.success(), stderr(&output))
    };
    assert!(check("http://127.0.0.1:4318", "authorization=Bearer SECRET").0);
    assert!(check("https://otlp.example.net", "authorization=Bearer SECRET").0);
    assert!(check("http://otel-collector:4318", "").0);
    for (endpoint, headers) in [("http://otel-collector:4318", "authorization=Bearer SECRET"), ("grpc://x", "SECRET")] {
        let (is_fine, text) = check(endpoint, headers);
        assert!(!is_fine && text.contains("traces.") && !text.contains("SECRET"), "{text}");
    }
}
