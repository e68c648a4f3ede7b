//! `/metrics`: its values match the clients' actions, to the byte.

use crate::{
    support::{Demo, Http, ask, exchange, guildhall, serve_by, wait_for, wait_until},
    ws::{Got, PLAIN, Ws},
};
use guildhall_ws_proto::{Opcode, close_frame};
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::SocketAddr, process::Stdio};

const ARGS: &[&str] = &["--members", "5", "--rate", "0", "--set", "limits.rest_rate_percent=0"];

/// Name with labels → value.
type Series = BTreeMap<String, f64>;

pub fn get(addr: SocketAddr, more: &str) -> (u16, String) {
    let answer = ask(addr, "GET", "/metrics", more, b"");
    (answer.status, answer.text())
}

/// Selects OpenMetrics.
const OPEN_METRICS: &str = "Accept: application/openmetrics-text\r\n";

/// Reads the OpenMetrics text format, and holds it to its rules: every series has a type, histograms add up, it ends.
fn scrape(addr: SocketAddr) -> Series {
    let (status, text) = get(addr, OPEN_METRICS);
    assert_eq!(status, 200);
    let mut types = BTreeMap::new();
    let mut series = Series::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(series.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{name} twice");
            let bare = name.split('{').next().unwrap();
            let of =
                ["_total", "_bucket", "_sum", "_count", "_info"].iter().find_map(|suffix| bare.strip_suffix(suffix));
            assert!(types.contains_key(bare) || of.is_some_and(|of| types.contains_key(of)), "{name} has no type");
            let is_ours = name.starts_with("guildhall_") || name.starts_with("process_");
            assert!(is_ours && !name.contains("1970"), "{name}");
        }
    }
    assert!(text.ends_with("# EOF\n"));
    for (name, _) in types.iter().filter(|(_, kind)| *kind == "histogram") {
        let mut histograms: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for line in text.lines() {
            // The label "le" is the first one.
            let Some(rest) = line.strip_prefix(&format!("{name}_bucket{{le=\"")) else { continue };
            let (labels, value) = rest.split_once('"').unwrap().1.rsplit_once("} ").unwrap();
            let labels = labels.trim_start_matches(',').to_owned();
            histograms.entry(labels).or_default().push(value.parse().unwrap());
        }
        for (labels, buckets) in histograms {
            assert!(buckets.is_sorted() && [7, 16].contains(&buckets.len()), "{name} {buckets:?}");
            let count = if labels.is_empty() { format!("{name}_count") } else { format!("{name}_count{{{labels}}}") };
            assert_eq!(buckets.last(), series.get(&count), "{count}");
        }
    }
    series
}

fn value(series: &Series, name: &str) -> u64 {
    let found = series.get(&format!("guildhall_{name}")).unwrap_or_else(|| panic!("{name} is not there: {series:#?}"));
    *found as u64
}

/// The series once everything is counted that these clients have received.
fn counted(addr: SocketAddr, clients: &[&Ws]) -> Series {
    let received: u64 = clients.iter().map(|ws| ws.received).sum();
    wait_until(&format!("{received} bytes that are counted"), || {
        let series = scrape(addr);
        let sent = value(&series, "sent_bytes_total");
        if sent == received { Ok(series) } else { Err(sent) }
    })
}

#[test]
fn the_numbers_match_the_actions_of_clients() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start_on(dir.path(), "127.0.0.1:0", ARGS, Stdio::null());
    let (addr, token) = (demo.addr, demo.token("bot_token"));
    let before = scrape(addr);
    assert_eq!(value(&before, "connections"), 0);
    assert_eq!(value(&before, "identifies_total"), 0);

    let mut a = Ws::session(addr, &token);
    let mut b = Ws::session(addr, &token);
    let mut greeted = Ws::connect(addr, PLAIN, "").unwrap();
    greeted.expect_op(10);
    // Events of the time before are not for these sessions.
    for ws in [&mut a, &mut b] {
        ws.expect_event("GUILD_CREATE");
    }
    let mut http = demo.client("bot_token");
    let path = format!("/api/v10/channels/{}/messages", demo.channels()[0]);
    for number in 0..10 {
        let content = format!("number {number} {}", "words and words ".repeat(20));
        assert_eq!(http.request("POST", &path, Some(&json!({"content": content}))).unwrap().status, 200);
    }
    for ws in [&mut a, &mut b] {
        (0..10).for_each(|_| drop(ws.expect_event("MESSAGE_CREATE")));
    }
    let after = counted(addr, &[&a, &b, &greeted]);
    let spent = |loops: &str| after.get(&format!("guildhall_loop_{loops}")).copied().unwrap_or(0.0);
    assert!(spent("busy_seconds_total{loop=\"guild_worker\",index=\"0\"}") > 0.0);
    assert!(spent("handling_seconds_count{loop=\"guild_worker\",type=\"create_message\"}") >= 10.0);
    assert!(spent("handling_seconds_sum{loop=\"guild_worker\",type=\"relay_subscribe\"}") > 0.0);
    assert!(spent("waiting_seconds_count{loop=\"guild_worker\"}") >= 1.0);
    let expect = |series: &Series, name: &str, expected: u64| assert_eq!(value(series, name), expected, "{name}");
    expect(&after, "connections", 3);
    expect(&after, "connections_opened_total", 3);
    expect(&after, "sessions{state=\"live\"}", 2);
    expect(&after, "sessions{state=\"resumable\"}", 0);
    expect(&after, "identifies_total", 2);
    let answers = |series: &Series, status: &str| value(series, &format!("rest_answers_total{{status=\"{status}\"}}"));
    assert_eq!(answers(&after, "2xx") - answers(&before, "2xx"), 10);
    assert_eq!(http.request("GET", "/api/v10/nonsense", None).unwrap().status, 404);
    assert_eq!(answers(&scrape(addr), "4xx") - answers(&after, "4xx"), 1, "and no scrape is counted");
    assert_eq!(answers(&scrape(addr), "2xx"), answers(&after, "2xx"));
    // READY, GUILD_CREATE and ten messages each.
    expect(&after, "dispatches_total", 24);
    expect(&after, "sent_bytes_total", a.received + b.received + greeted.received);
    expect(&after, "received_bytes_total", a.sent + b.sent + greeted.sent);
    // IDENTIFY, twice: 8 bytes of header and mask each.
    expect(&after, "received_message_bytes_total", a.sent + b.sent - 16);
    let bodies = value(&after, "sent_body_bytes_total");
    assert!(bodies > 0 && bodies < value(&after, "sent_bytes_total"), "{bodies}");
    let sent = |what: &str, event: &str| {
        value(&after, &format!("sent_frame{what}_total{{event=\"{event}\",codec=\"none\",encoding=\"json\"}}"))
    };
    assert_eq!(["READY", "GUILD_CREATE", "MESSAGE_CREATE"].map(|event| sent("s", event)), [2, 2, 20]);
    let (raw, wire) = (sent("_raw_bytes", "MESSAGE_CREATE"), sent("_wire_bytes", "MESSAGE_CREATE"));
    assert_eq!(wire - raw, 20 * 4, "a header each");
    let events = ["READY", "GUILD_CREATE", "MESSAGE_CREATE", "other"];
    let wire_bytes = events.map(|event| sent("_wire_bytes", event)).iter().sum();
    expect(&after, "sent_bytes_total", wire_bytes);
    assert!(value(&after, "event_to_write_seconds_count") >= 10);
    assert!(after["guildhall_event_to_write_seconds_sum"] > 0.0);
    assert!(value(&after, "store_commit_seconds_count") >= 10 && value(&after, "store_commits_failed_total") == 0);
    assert!(after.keys().any(|name| name.starts_with("guildhall_guild_mailbox_used{worker=")));

    // A connection that is lost, a RESUME, one that cannot be, and closes from both ends.
    let session_id = a.session_id.clone();
    let seq = a.last_seq;
    drop(a);
    wait_for("a session to wait", || (value(&scrape(addr), "sessions{state=\"resumable\"}") == 1).then_some(()));
    expect(&scrape(addr), "connections_aborted_total", 1);
    let mut c = Ws::connect(addr, PLAIN, "").unwrap();
    c.send(&json!({"op": 6, "d": {"token": token, "session_id": session_id, "seq": seq}}));
    c.expect_event("RESUMED");
    greeted.send(&json!({"op": 6, "d": {"token": token, "session_id": "nobody", "seq": 1}}));
    greeted.expect_op(9);
    b.frame(Opcode::Close, &close_frame(Some(1000), "")[2..]);
    b.close_code();
    greeted.send(&json!({"op": 99, "d": null}));
    assert_eq!(greeted.close_code(), Some(4001));
    drop((b, greeted));
    let last = wait_for("two connections fewer", || Some(scrape(addr)).filter(|s| value(s, "connections") == 1));
    expect(&last, "resumes_total", 1);
    expect(&last, "resumes_refused_total{reason=\"unknown\"}", 1);
    expect(&last, "resumes_refused_total{reason=\"sequence\"}", 0);
    expect(&last, "sessions{state=\"live\"}", 1);
    expect(&last, "sessions_ended_total", 1);
    expect(&last, "connection_closes_total{by=\"server\",code=\"4001\"}", 1);
    expect(&last, "connection_closes_total{by=\"client\",code=\"1000\"}", 1);
    expect(&last, "connection_closes_total{by=\"server\",code=\"1000\"}", 0);
    expect(&last, "connections_aborted_total", 1);
    // Message types, dispatch types, routes and owners of memory have series once they occurred: as many as there are,
    // whatever clients do.
    let by_type = ["_loop_handling_", "_sent_frame", "_rest_request_", "_memory_owner_", "_bill_"];
    let is_by_type = |name: &str| by_type.iter().any(|family| name.contains(family));
    let others = |series: &Series| series.keys().filter(|name| !is_by_type(name)).count();
    assert_eq!(others(&before), others(&last), "what clients do makes no new series");

    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn s21_1_metrics_are_not_behind_a_proxy_of_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let start = |metrics: &str| {
        let mut command = guildhall([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--log-format",
            "json",
            "--set",
            "server.admin_listen=127.0.0.1:0",
        ]);
        command.args(["--set", &format!("server.metrics={metrics}"), "--data"]).arg(dir.path());
        let (process, ready, _) = serve_by(command, |_| {});
        let addr = |name: &str| -> SocketAddr { ready[name].as_str().unwrap().parse().unwrap() };
        (process, addr("listen"), addr("admin_listen"))
    };
    let (node, clients, admin) = start("local");
    // A proxy with nothing but `proxy_pass` sends its own version, the node's address as the host, and no header of its
    // own.
    let by_proxy = format!("GET /metrics HTTP/1.0\r\nHost: {clients}\r\nConnection: close\r\n\r\n");
    let direct = format!("GET /metrics HTTP/1.1\r\nHost: {clients}\r\nConnection: close\r\n\r\n");
    for request in [&by_proxy, &direct] {
        let answer = exchange(clients, request.as_bytes()).unwrap();
        let body = answer.text();
        assert_eq!(answer.status, 404, "{request}");
        assert!(body.contains("server.admin_listen") && !body.contains("guildhall_"), "{body}");
    }
    assert!(!scrape(admin).is_empty());
    assert_eq!(Http::new(admin, "").get("/readyz").unwrap().status, 200);
    assert_eq!(Http::new(admin, "").get("/api/v10/gateway").unwrap().status, 404, "health and metrics alone");
    assert_eq!(node.terminate(), Some(0));
    let (node, clients, admin) = start("open");
    assert_eq!((get(clients, "").0, get(admin, "").0), (200, 200));
    assert_eq!(node.terminate(), Some(0));
    let (node, clients, admin) = start("off");
    assert_eq!((get(clients, "").0, get(admin, "").0), (404, 404));
    assert_eq!(Http::new(admin, "").get("/healthz").unwrap().status, 200);
    assert_eq!(node.terminate(), Some(0));
}

/// A session whose stream is not looked into.
fn compressed(addr: SocketAddr, token: &str, compress: &str) -> Ws {
    let mut ws = Ws::connect(addr, &format!("{PLAIN}&compress={compress}"), "").unwrap();
    assert!(matches!(ws.next(), Got::Compressed(_)));
    ws.identify(token);
    // READY, GUILD_CREATE.
    for _ in 0..2 {
        assert!(matches!(ws.next(), Got::Compressed(_)));
    }
    ws
}

fn compression(args: &[&str]) -> Series {
    let dir = tempfile::tempdir().unwrap();
    let args: Vec<&str> = ARGS.iter().chain(args).copied().collect();
    let demo = Demo::start(dir.path(), &args);
    let token = demo.token("bot_token");
    let mut zstd = [compressed(demo.addr, &token, "zstd-stream"), compressed(demo.addr, &token, "zstd-stream")];
    let mut zlib = compressed(demo.addr, &token, "zlib-stream");
    let mut http: Http = demo.client("bot_token");
    let path = format!("/api/v10/channels/{}/messages", demo.channels()[0]);
    for number in 0..20 {
        let content: Value = json!({"content": format!("number {number}, {}", "words and words ".repeat(20))});
        assert_eq!(http.request("POST", &path, Some(&content)).unwrap().status, 200);
    }
    for ws in zstd.iter_mut().chain([&mut zlib]) {
        for _ in 0..20 {
            assert!(matches!(ws.next(), Got::Compressed(_)));
        }
    }
    let series = counted(demo.addr, &[&zstd[0], &zstd[1], &zlib]);
    let (bodies, bytes) = (value(&series, "sent_body_bytes_total"), value(&series, "sent_bytes_total"));
    println!("{bodies} bytes of bodies in {bytes}");
    assert!(bodies > 2 * bytes, "{bodies} in {bytes}");
    series
}

#[test]
fn contexts_are_counted() {
    let series = compression(&["--set", "codec.streams=per-connection"]);
    assert_eq!(value(&series, "compression_contexts{kind=\"zlib\"}"), 1);
    let zstd =
        ["zstd", "zstd_upgraded"].map(|kind| value(&series, &format!("compression_contexts{{kind=\"{kind}\"}}")));
    assert_eq!(zstd.iter().sum::<u64>(), 2);
    assert!(value(&series, "compression_slab_bytes{kind=\"zlib\"}") > 200_000);
    assert_eq!(value(&series, "shared_match_messages_total"), 0);
}

#[test]
fn shared_match_is_counted() {
    let series = compression(&["--set", "codec.streams=shared-match", "--set", "codec.shared_check_one_in=1"]);
    assert_eq!(value(&series, "shared_match_messages_total"), 60, "twenty messages to each of three");
    assert!(value(&series, "shared_match_texts_total") >= 20);
    assert!(value(&series, "shared_match_checked_total") >= 60);
    assert_eq!(value(&series, "shared_match_mismatches_total"), 0);
    assert_eq!(value(&series, "compression_contexts{kind=\"zstd\"}"), 0);
}

#[test]
fn every_series_is_in_the_reference() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(dir.path(), ARGS);
    let reference = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations/reference.md");
    let reference = std::fs::read_to_string(reference).unwrap();
    for series in scrape(demo.addr).keys() {
        let name = series.split('{').next().unwrap();
        let Some(name) = name.strip_prefix("guildhall_") else { continue };
        let suffixes = ["_bucket", "_sum", "_count", "_created"];
        let name = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        assert!(reference.contains(name), "docs/operations/reference.md does not name {name}");
    }
}
