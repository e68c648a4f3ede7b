//! What must be exact over real sockets: callers who go away, keys that are revoked, tokens of every legal size.

use crate::{
    backend::{ANA, BOB, BOT, Backend, CHANNEL, GUILD, Stream, built, client, demo},
    support::{Demo, Http, PATIENCE, connect, guildhall, metrics, run_to_end, stderr, wait_until},
    ws::{Got, PLAIN, Ws},
};
use aws_lc_rs::{
    rand::SystemRandom,
    rsa::{KeySize, PublicKeyComponents},
    signature::{KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use guildhall_stdx::Rng;
use rustix::net::sockopt::set_socket_linger;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    fs,
    io::{Read as _, Write as _},
    net::SocketAddr,
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

const REQUESTS: usize = 2_000;
const SEED: u64 = 0x5eed_0005;
/// Longer than most publications take, so that resets fall before, into and after the hand-over.
const RESET_WITHIN_US: u64 = 1_500;

/// Sends a request, and resets the connection after the given time.
fn broken_off(addr: SocketAddr, key: &str, event: &str, after: Duration) {
    let mut stream = connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    let head = format!("POST /v1/publish HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n");
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{event}", event.len()).as_bytes()).unwrap();
    let reset_at = Instant::now() + after;
    while Instant::now() < reset_at {
        std::hint::spin_loop();
    }
}

/// The outcome of an event, however often its limit or a full node makes it wait.
fn published(backend: &mut Backend, event: &Value) -> Value {
    wait_until("the outcome", || {
        let answer = backend.http.request("POST", "/v1/publish", Some(event)).map_err(|error| error.to_string())?;
        assert!(matches!(answer.status, 200 | 429 | 503), "{} {}", answer.status, answer.body);
        if answer.status == 200 { Ok(answer.body) } else { Err(format!("{answer:?}")) }
    })
}

#[test]
fn s5_requests_that_are_reset_and_retried_publish_once() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    let bob = backend.token(BOB);
    let (mut bob, _) = client(&demo, &bob, "encoding=json", 0);
    println!("seed {SEED:#x}");
    let event = |n: usize| {
        let audience = match n % 3 {
            0 => json!({"guild": GUILD}),
            1 => json!({"channel": CHANNEL}),
            _ => json!({"users": [BOB]}),
        };
        json!({"t": "ONCE", "d": {"n": n, "more": [1, "x"]}, "audience": audience, "key": format!("key-{n}")})
    };
    let (next, repeated) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for worker in 0..4 {
            let (next, repeated, addr, key) = (&next, &repeated, demo.addr, backend.key.clone());
            scope.spawn(move || {
                let mut rng = Rng::new(SEED + worker);
                let mut backend = Backend::with(addr, &key);
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= REQUESTS {
                        return;
                    }
                    let event = event(n);
                    broken_off(addr, &key, &event.to_string(), Duration::from_micros(rng.below(RESET_WITHIN_US)));
                    let outcome = published(&mut backend, &event);
                    repeated.fetch_add(usize::from(outcome["repeated"] == true), Ordering::Relaxed);
                }
            });
        }
    });
    // The reset fell on both sides of the hand-over, else this shows nothing.
    let repeated = repeated.into_inner();
    assert!(repeated > 0 && repeated < REQUESTS, "{repeated} of {REQUESTS} were handed over before the reset");
    for audience in [json!({"guild": GUILD}), json!({"users": [BOB]})] {
        published(&mut backend, &json!({"t": "END", "d": 0, "audience": audience}));
    }
    let mut seen = HashMap::<u64, u32>::new();
    for payload in (0..2).flat_map(|_| bob.dispatches_until("END")) {
        if payload["t"] == "ONCE" {
            *seen.entry(payload["d"]["n"].as_u64().unwrap()).or_default() += 1;
        }
    }
    let twice: Vec<_> = seen.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "{} events came more than once: {twice:?}", twice.len());
    assert_eq!(seen.len(), REQUESTS, "none is lost");
}

/// Reads a stream to its end; its last line.
#[track_caller]
fn last_of(mut stream: Stream) -> Value {
    stream.rest().pop().expect("a line with the reason of the end")
}

#[test]
fn s7_a_revoked_key_ends_its_streams() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut root) = built(&dir);
    let bob = root.token(BOB);
    let (mut bob, _) = client(&demo, &bob, "encoding=json", 0);
    let scopes = json!(["publish", "write", "sessions"]);
    let made = root.request("POST", "/keys", Some(json!({"name": "stolen", "scopes": scopes})), 201);
    let mut stolen = Backend::with(demo.addr, made["key"].as_str().unwrap());
    let event = |name: &str| json!({"t": name, "d": 1, "audience": {"guild": GUILD}}).to_string() + "\n";

    // Three streams that wait for more, and a request whose body has not arrived.
    let mut idle = stolen.stream("POST", "/publish");
    idle.write(&event("BEFORE"));
    assert_eq!(idle.next().unwrap()["reached"], 1);
    let mut events = stolen.stream("GET", "/sessions/events?after=0");
    assert_eq!(events.next().unwrap()["event"], "connected");
    let mut import = stolen.stream("POST", &format!("/guilds/{GUILD}/members/import"));
    import.write("nonsense\n");
    assert_eq!(import.next().unwrap()["line"], 1);
    import.write("{\"user\": {\"id\": \"1200000000000000600\", \"username\": \"late\"}}\n");
    let body = json!({"username": "late"}).to_string();
    let mut slow = connect(demo.addr).unwrap();
    let head = format!("PUT /v1/users/1200000000000000601 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}", stolen.key);
    write!(slow, "{head}\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n", body.len())
        .unwrap();
    // The node sends `100 Continue` when it begins to read: the key was good.
    let mut go_on = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    slow.read_exact(&mut go_on).unwrap();
    slow.write_all(&body.as_bytes()[..5]).unwrap();

    root.request("DELETE", &format!("/keys/{}", made["id"].as_str().unwrap()), None, 204);
    let ended = Instant::now();
    for stream in [idle, events] {
        assert_eq!(last_of(stream)["code"], "unauthorized");
    }
    let lines = import.rest();
    assert_eq!((&lines[0]["added"], &lines[0]["done"]), (&json!(0), &json!(false)), "{lines:?}");
    assert_eq!(lines[1]["code"], "unauthorized", "{lines:?}");
    // Well before the 15 seconds of a quiet stream, and the 30 of a silent body.
    assert!(ended.elapsed() < Duration::from_secs(10), "{:?}", ended.elapsed());
    slow.write_all(&body.as_bytes()[5..]).unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    for late in ["1200000000000000600", "1200000000000000601"] {
        root.request("GET", &format!("/users/{late}"), None, 404);
    }
    stolen.request("GET", "/sessions", None, 401);
    root.publish(json!({"t": "AFTER", "d": 1, "audience": {"guild": GUILD}}));
    bob.await_payload(0, Some("BEFORE"));
    assert_eq!(bob.await_payload(0, None)["t"], "AFTER");
}

#[test]
fn s7_a_stream_that_is_busy_ends_too() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut root) = built(&dir);
    let made = root.request("POST", "/keys", Some(json!({"name": "stolen", "scopes": ["publish"]})), 201);
    let stolen = Backend::with(demo.addr, made["key"].as_str().unwrap());
    let mut stream = stolen.stream("POST", "/publish");
    let line = json!({"t": "MORE", "d": 1, "audience": {"guild": GUILD}}).to_string() + "\n";
    let id = made["id"].as_str().unwrap().to_owned();
    stream.write(&line.repeat(100));
    stream.next().unwrap();
    thread::scope(|scope| {
        let revoking = scope.spawn(move || root.request("DELETE", &format!("/keys/{id}"), None, 204));
        let deadline = Instant::now() + PATIENCE;
        // There is always another line at hand.
        let mut published = 1;
        let last = loop {
            stream.write(&line);
            let line = stream.next().expect("a line with the reason of the end");
            if line.get("code").is_some() {
                break line;
            }
            published += 1;
            assert!(Instant::now() < deadline, "{published} events were published with a revoked key");
        };
        assert_eq!(last["code"], "unauthorized");
        revoking.join().unwrap();
    });
    // A line that was read before the key was revoked has a refusal of its own, in front of the stream's.
    let rest = stream.rest();
    assert!(rest.len() <= 1 && rest.iter().all(|line| line["code"] == "unauthorized"), "{rest:?}");
}

#[test]
fn s19_a_key_may_be_limited_to_accounts() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut root) = built(&dir);
    let refused =
        root.request("POST", "/keys", Some(json!({"name": "x", "scopes": ["tokens", "read"], "accounts": [BOB]})), 400);
    assert_eq!(refused["errors"][0]["field"], "accounts", "{refused}");
    let made = root.request(
        "POST",
        "/keys",
        Some(json!({"name": "login", "scopes": ["tokens"], "accounts": [BOB, BOT]})),
        201,
    );
    assert_eq!(made["accounts"], json!([BOB, BOT]));
    let mut login = Backend::with(demo.addr, made["key"].as_str().unwrap());
    let (bob, bot, ana) = (login.token(BOB), login.token(BOT), root.token(ANA));
    let ana_is_not = |login: &mut Backend| {
        for (method, path, body) in [
            ("POST", format!("/users/{ANA}/tokens"), Some(json!({}))),
            ("GET", format!("/users/{ANA}/tokens"), None),
            ("DELETE", format!("/users/{ANA}/tokens"), None),
            ("DELETE", format!("/users/{ANA}/tokens/{}", "0".repeat(64)), None),
            ("POST", "/tokens/revoke".to_owned(), Some(json!({"token": ana}))),
            ("POST", "/tokens/inspect".to_owned(), Some(json!({"token": ana}))),
        ] {
            let refused = login.request(method, &path, body, 403);
            assert_eq!(refused["code"], "missing_scope", "{method} {path}");
            assert!(refused["message"].as_str().unwrap().contains(ANA), "{refused}");
        }
    };
    ana_is_not(&mut login);
    assert_eq!(Http::new(demo.addr, &ana).get("/api/v10/users/@me").unwrap().status, 200, "nothing was revoked");
    login.request("GET", "/guilds", None, 403);
    login.request("POST", "/keys", Some(json!({"name": "more", "scopes": ["tokens"]})), 403);

    // It survives a restart with its list.
    assert_eq!(demo.terminate(), Some(0));
    let demo = self::demo(&dir);
    let mut login = Backend::with(demo.addr, &login.key);
    ana_is_not(&mut login);
    login.request("POST", "/tokens/revoke", Some(json!({"token": bob})), 200);
    login.request("POST", "/tokens/revoke", Some(json!({"token": bot})), 200);
    login.token(BOB);
    let listed = Backend::root(&demo).get("/keys");
    assert_eq!(listed[0]["accounts"], json!([BOB, BOT]));
}

/// An RS256 token of some such length.
fn rs256(pair: &RsaKeyPair, sub: &str, length: usize) -> String {
    let part = |json: Value| BASE64.encode(json.to_string());
    let signed = |pad: usize| {
        let claims = json!({"sub": sub, "aud": "chat", "exp": 4_000_000_000_u64, "scope": "x".repeat(pad)});
        let text = format!("{}.{}", part(json!({"alg": "RS256", "kid": "rsa"})), part(claims));
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
        format!("{text}.{}", BASE64.encode(signature))
    };
    let token = signed((length - signed(0).len()) * 3 / 4);
    assert!((length - 3..=length).contains(&token.len()), "{} instead of {length}", token.len());
    token
}

/// Identifies: the session, or the close code.
fn identify(demo: &Demo, token: &str) -> Result<Ws, Option<u16>> {
    let mut ws = Ws::connect(demo.addr, PLAIN, "").unwrap();
    ws.expect_op(10);
    ws.identify(token);
    let answer = ws.until("READY or a close frame", |got| match got {
        Got::Payload(payload) if payload["t"] == "READY" => Ok(None),
        Got::Close(code) => Ok(Some(code)),
        other => Err(other),
    });
    answer.map_or(Ok(ws), Err)
}

#[test]
fn s12_rest_and_gateway_agree_on_tokens_of_a_sign_on() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (dir.path().join("jwks.json"), dir.path().join("data"));
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let PublicKeyComponents::<Vec<u8>> { n, e } = pair.public_key().into();
    let key = json!({"kty": "RSA", "kid": "rsa", "n": BASE64.encode(n), "e": BASE64.encode(e)});
    fs::write(&file, json!({"keys": [key]}).to_string()).unwrap();
    let setting = format!("auth.jwks_file={}", file.display());
    let args = ["--members", "3", "--rate", "0", "--set", &setting, "--set", "auth.jwt_audience=chat"];
    let demo = Demo::start_on(&data, "127.0.0.1:0", &args, Stdio::null());
    let mut backend = Backend::root(&demo);
    backend.build();
    let rest = |token: &str| Http::new(demo.addr, &format!("Bearer {token}")).get("/api/v10/users/@me").unwrap().status;
    let inspect = |backend: &mut Backend, token: &str| {
        backend.request("POST", "/tokens/inspect", Some(json!({"token": token})), 200)
    };
    for length in [655, 1_134, 2_100, 4_096] {
        let token = rs256(&pair, BOB, length);
        assert_eq!(rest(&token), 200, "{length}");
        let mut session = identify(&demo, &token).unwrap_or_else(|code| panic!("{length}: {code:?}"));
        let inspected = inspect(&mut backend, &token);
        assert_eq!((&inspected["valid"], &inspected["kind"]), (&json!(true), &json!("sign_on")), "{inspected}");
        assert_eq!(inspected["user_id"], BOB);
        let revoked = backend.request("POST", "/tokens/revoke", Some(json!({"token": token})), 200);
        assert_eq!(revoked, json!({"revoked": 1, "closed": 1}), "{length}");
        assert_eq!(session.close_code(), Some(4004));
        assert_eq!((rest(&token), identify(&demo, &token).err()), (401, Some(Some(4004))), "{length}");
        assert_eq!(inspect(&mut backend, &token)["reason"], "revoked");
    }
    // Both refuse tokens that are too long or name a bot.
    let long = rs256(&pair, BOB, 4_110);
    assert_eq!((rest(&long), identify(&demo, &long).err()), (401, Some(Some(4004))));
    backend.request("POST", "/tokens/revoke", Some(json!({"token": long})), 400);
    let bot = rs256(&pair, BOT, 655);
    assert_eq!((rest(&bot), identify(&demo, &bot).err()), (401, Some(Some(4004))));
    let inspected = inspect(&mut backend, &bot);
    assert_eq!((&inspected["valid"], &inspected["reason"]), (&json!(false), &json!("bot_account")), "{inspected}");
    assert_eq!((&inspected["kind"], &inspected["user_id"]), (&json!("sign_on"), &json!(BOT)));
    let text = backend.request("POST", "/tokens/revoke", Some(json!({"token": "x.y.z"})), 404);
    assert!(text["message"].as_str().unwrap().contains("three parts"), "{text}");
    // Refusals are counted by reason.
    let metrics = metrics(demo.addr);
    for line in ["tokens_refused_total{reason=\"too_long\"} 2", "tokens_refused_total{reason=\"bot_account\"} 2"] {
        assert!(metrics.contains(&format!("guildhall_{line}\n")), "{line}: {metrics}");
    }
}

#[test]
fn n1_1_a_refused_import_shows_the_answer_every_time() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut root) = built(&dir);
    let made = root.request("POST", "/keys", Some(json!({"name": "reader", "scopes": ["read"]})), 201);
    let (reader, mine) = (made["key"].as_str().unwrap().to_owned(), root.key.clone());
    let file = dir.path().join("members.ndjson");
    let line =
        |n: u64| json!({"user": {"id": (1_200_000_000_000_010_000 + n).to_string(), "username": "x"}}).to_string();
    fs::write(&file, (0..50_000).map(|n| line(n) + "\n").collect::<String>()).unwrap();
    let send_request = |key: &str, guild: &str| {
        let server = format!("http://{}", demo.addr);
        let mut command = guildhall(["import", file.to_str().unwrap(), "--guild", guild, "--server", &server]);
        stderr(&run_to_end(command.env("GUILDHALL_KEY", key)))
    };
    for n in 0..20 {
        for (key, guild, expected) in [
            (&reader, GUILD, "needs a key with the scope `write`"),
            (&"ghk_1_wrong".to_owned(), GUILD, "This key is not valid"),
            (&mine, "77", "There is no such guild"),
        ] {
            let printed = send_request(key, guild);
            let is_limited = printed.contains("Too many wrong keys");
            assert!(printed.contains(expected) || is_limited, "run {n}, {expected}: {printed}");
        }
    }
    assert!(send_request("", GUILD).contains("GUILDHALL_KEY is empty"));
    assert_eq!(root.get(&format!("/guilds/{GUILD}"))["member_count"], 3, "nothing was taken");
    // Of a file that is not meant the node reads no more than it must, and its last word is heard too.
    fs::write(&file, "{}\n".repeat(400_000)).unwrap();
    let printed = send_request(&mine, GUILD);
    assert!(printed.contains("1000 lines could not be taken: is it the right file?"), "{printed}");
    assert!(printed.contains("line 1: user: Must be there."), "{}", &printed[..200]);
}
