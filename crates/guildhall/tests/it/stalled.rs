//! Stalled bodies, and JSON bodies that amplify in memory, against a real server.
//!
//! The test takes the routes from the table of the API and from its OpenAPI document, so that it covers new routes.

use crate::{
    hostile::{NOTICED, Witness, server},
    support::{Demo, Http, connect, wait_for},
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// Bound for an answer before the body. The server waits 30 s for a body, and drains an unread one for 2 s.
const AT_ONCE: Duration = Duration::from_millis(1_500);

/// Routes of the backend API without an existing object in their path: they read their body.
const NAME_NOTHING: &[(&str, &str)] = &[
    ("POST", "/v1/keys"),
    ("POST", "/v1/experiments"),
    ("POST", "/v1/publish"),
    ("POST", "/v1/directs"),
    ("POST", "/v1/lab/dark"),
    ("POST", "/v1/lab/recordings"),
    ("POST", "/v1/node/reload"),
    ("POST", "/v1/tokens/inspect"),
    ("POST", "/v1/tokens/revoke"),
    ("POST", "/v1/webhooks"),
    ("PUT", "/v1/users/{user_id}"),
    ("PUT", "/v1/guilds/{guild_id}"),
];

/// Whether it is a route of REST without a variable in its path that reads its body.
fn names_nothing(method: &str, path: &str) -> bool {
    let is_it =
        |route: &guildhall_rest::Route| route.method == method && path.strip_prefix("/api/v10") == Some(route.path);
    !path.contains('{') && guildhall_rest::routes().iter().any(|route| route.body.is_some() && is_it(route))
}

/// Every path with every method that changes something.
fn routes(demo: &Demo) -> Vec<(String, String)> {
    let changes = guildhall_rest::routes().iter().filter(|route| route.is_change());
    let mut routes: Vec<_> =
        changes.map(|route| (route.method.to_string(), format!("/api/v10{}", route.path))).collect();
    assert!(routes.len() >= 75, "{} routes of the API", routes.len());
    let before = routes.len();
    let document = Http::new(demo.addr, "").get("/v1/openapi.json").unwrap().body;
    // A drain ends the node, and has no body.
    for (path, item) in
        document["paths"].as_object().expect("paths").iter().filter(|(path, _)| *path != "/v1/node/drain")
    {
        for method in item.as_object().expect("methods").keys().filter(|method| *method != "get") {
            routes.push((method.to_uppercase(), path.clone()));
        }
    }
    assert!(routes.len() >= before + 20, "{} routes of /v1", routes.len() - before);
    routes
}

/// The path with ids that do not exist.
fn filled(path: &str) -> String {
    path.split('/')
        .map(|piece| match piece {
            "{code}" => "nothing1",
            "{emoji}" => "%F0%9F%94%A5",
            "{webhook_token}" => "secret",
            "{token_id}" => "0000000000000000000000000000000000000000000000000000000000000000",
            piece if piece.starts_with('{') => "1",
            piece => piece,
        })
        .collect::<Vec<_>>()
        .join("/")
}

/// Sends the head of a request whose body is announced.
fn announce(addr: SocketAddr, method: &str, path: &str, token: &str, headers: &str) -> TcpStream {
    let mut stream = connect(addr).unwrap();
    let token = if token.is_empty() { String::new() } else { format!("Authorization: {token}\r\n") };
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: test\r\n{token}{headers}\r\n").unwrap();
    stream
}

/// The status of the answer; none if there is none in time.
fn status(stream: &TcpStream, within: Duration) -> Option<u16> {
    stream.set_read_timeout(Some(within)).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    line.split(' ').nth(1)?.parse().ok()
}

const JSON: &str = "Content-Type: application/json\r\nContent-Length: 2\r\n";
const FORM: &str = "Content-Type: multipart/form-data; boundary=XX\r\nContent-Length: 1000\r\n";
const CHUNKED: &str = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";

#[test]
fn s3_no_route_reads_a_body_early() {
    let dir = tempfile::tempdir().unwrap();
    let demo = server(dir.path(), &[]);
    let key = format!("Bearer {}", demo.manifest["admin_key"].as_str().unwrap());
    let bot = format!("Bot {}", demo.token("bot_token"));
    for (method, route) in routes(&demo) {
        let path = filled(&route);
        for headers in [JSON, FORM, CHUNKED] {
            let stream = announce(demo.addr, &method, &path, "", headers);
            let answer = status(&stream, AT_ONCE);
            // 404: an unknown webhook. 429: too many requests without a key of the backend API.
            assert!(
                matches!(answer, Some(401 | 404 | 429)),
                "{method} {route} {headers:?} without a token: {answer:?}"
            );
        }
        let token = if route.starts_with("/v1") { &key } else { &bot };
        if NAME_NOTHING.contains(&(&method, &route)) || names_nothing(&method, &route) {
            let mut stream = announce(demo.addr, &method, &path, token, JSON);
            stream.write_all(b"{}").unwrap();
            let answer = status(&stream, AT_ONCE);
            assert!(answer.is_some_and(|status| status < 500), "{method} {route} with its body: {answer:?}");
            continue;
        }
        for headers in [JSON, FORM, CHUNKED] {
            let stream = announce(demo.addr, &method, &path, token, headers);
            let answer = status(&stream, AT_ONCE);
            assert!(
                matches!(answer, Some(400 | 401 | 403 | 404)),
                "{method} {route} {headers:?} for what does not exist: {answer:?}"
            );
        }
    }
    assert_eq!(demo.terminate(), Some(0));
}

/// `{"x":[{"":0},…]}`.
fn bomb(bytes: usize) -> String {
    format!("{{\"x\":[{}]}}", vec!["{\"\":0}"; bytes / 7].join(","))
}

/// Sends all at once. The statuses; none where the connection ended without one.
fn send_all(addr: SocketAddr, count: usize, head: impl Fn(usize) -> String, body: &str) -> Vec<Option<u16>> {
    let mut streams: Vec<_> = (0..count)
        .map(|n| {
            let mut stream = connect(addr).unwrap();
            stream.write_all(head(n).as_bytes()).unwrap();
            stream
        })
        .collect();
    // An early refusal may reset the connection before all is sent.
    streams.iter_mut().for_each(|stream| drop(stream.write_all(body.as_bytes())));
    streams.iter().map(|stream| status(stream, Duration::from_secs(60))).collect()
}

#[test]
fn s2_bombs_of_json_take_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let demo = server(dir.path(), &["limits.rest_trusted_proxies=127.0.0.1"]);
    let witness = Witness::begin(&demo);
    let (large, small) = (bomb((1 << 20) - 64), bomb(200_000));
    let channel = demo.channels()[0].clone();
    let user = demo.token("user_token");
    let before = demo.process.resident_bytes();
    let head = |method: &str, path: &str, token: &str, n: usize, bytes: usize| {
        format!(
            "{method} /api/v10{path} HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 198.51.100.{}\r\n{token}\
             Content-Type: application/json\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n",
            n % 4
        )
    };
    let anonymous = send_all(demo.addr, 60, |n| head("PATCH", "/webhooks/1/x", "", n, large.len()), &large);
    assert!(anonymous.iter().flatten().all(|status| *status == 404), "{anonymous:?}");
    let grown = demo.process.resident_bytes().saturating_sub(before);
    println!("60 anonymous bodies of a mebibyte: {} KiB more", grown >> 10);
    assert!(grown < 16 << 20, "{grown}");
    // Of an authenticated sender the node parses bodies, up to the budget.
    let token = format!("Authorization: {user}\r\n");
    let path = format!("/channels/{channel}/messages");
    let known = send_all(demo.addr, 60, |n| head("POST", &path, &token, n, small.len()), &small);
    assert!(known.iter().flatten().all(|status| matches!(status, 400 | 503)), "{known:?}");
    assert!(known.contains(&Some(400)));
    let grown = demo.process.resident_bytes().saturating_sub(before);
    println!("60 of an account: {} KiB more", grown >> 10);
    assert!(grown < 150 << 20, "{grown}");
    witness.end();
}

/// Opens requests from four addresses and sends a part of each body.
fn stall(demo: &Demo, token: &str, headers: &str, part: &[u8], count: usize) -> Vec<TcpStream> {
    let path = format!("/api/v10/channels/{}/messages", demo.channels()[0]);
    let mut held = Vec::new();
    for n in 0..count {
        let headers = format!("X-Forwarded-For: 198.51.100.{}\r\n{headers}", n % 4);
        let mut stream = announce(demo.addr, "POST", &path, token, &headers);
        let _ = stream.write_all(part);
        held.push(stream);
    }
    held
}

/// Statuses of the answers so far.
fn answered(streams: &[TcpStream]) -> Vec<u16> {
    streams.iter().filter_map(|stream| status(stream, Duration::from_millis(1))).collect()
}

#[test]
fn s4_stalled_bodies_do_not_block_others() {
    let dir = tempfile::tempdir().unwrap();
    let demo = server(dir.path(), &["limits.rest_trusted_proxies=127.0.0.1"]);
    // From another address: this machine's.
    let witness = Witness::begin(&demo);
    let user = demo.token("user_token");
    let json = "Content-Type: application/json\r\nContent-Length: 200000\r\n";
    let mut held = stall(&demo, &user, json, &[b' '; 20_000], 250);
    let form = "Content-Type: multipart/form-data; boundary=XX\r\nTransfer-Encoding: chunked\r\n";
    let part = b"--XX\r\nContent-Disposition: form-data; name=\"files[0]\"; filename=\"a\"\r\n\r\nbytes";
    let chunk = [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
    held.extend(stall(&demo, &user, form, &chunk, 250));
    // The account has used its share, and the node refused the other requests at once.
    let refused = wait_for("refusals", || {
        let answers = answered(&held);
        (answers.len() > 50).then_some(answers)
    });
    assert!(refused.iter().all(|status| *status == 503), "{refused:?}");
    // The remaining share may have room for one more request: requests without a byte fill it.
    let answer = wait_for("a share that is used up", || {
        let own = Instant::now();
        let mut stream = announce(
            demo.addr,
            "POST",
            "/api/v10/users/@me/channels",
            &user,
            "X-Forwarded-For: 198.51.100.0\r\nContent-Length: 2\r\nConnection: close\r\n",
        );
        stream.write_all(b"{}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(own.elapsed() < NOTICED, "{:?}", own.elapsed());
        if answer.starts_with("HTTP/1.1 400") {
            held.extend(stall(&demo, &user, json, &[], 4));
            return None;
        }
        Some(answer)
    });
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 1"), "{answer}");
    let body: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let message = "503: Service Unavailable. Too many requests of this account or address are under way: let some of them end first";
    assert_eq!(body, json!({"message": message, "code": 0}));
    witness.end();
    drop(held);
    assert_eq!(demo.terminate(), Some(0));
}
