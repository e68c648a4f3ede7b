//! `auth.jwks_url`: keys that are fetched, rotated, requested, and missed, by HTTP and by TLS.

use crate::{
    issuers::{jwks, token},
    support::{Demo, Http, PATIENCE, wait_for},
    ws::{PLAIN, Ws},
};
use aws_lc_rs::signature::Ed25519KeyPair;
use rustls::{
    ServerConfig, ServerConnection, Stream,
    crypto::aws_lc_rs as provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name)
}

/// A sign-on that answers every request as configured, and counts requests.
struct SignOn {
    addr: SocketAddr,
    answer: Arc<Mutex<(u16, String)>>,
    fetches: Arc<AtomicUsize>,
}

impl SignOn {
    fn start(body: String, with_tls: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (answer, fetches) = (Arc::new(Mutex::new((200, body))), Arc::new(AtomicUsize::new(0)));
        let tls = with_tls.then(|| {
            let chain = CertificateDer::pem_file_iter(file("one.crt")).unwrap().map(Result::unwrap).collect();
            let key = PrivateKeyDer::from_pem_file(file("one.key")).unwrap();
            let config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()));
            let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
            Arc::new(config.with_single_cert(chain, key).unwrap())
        });
        let (served, count) = (answer.clone(), fetches.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                // A client that does not trust us goes away in the middle.
                let _ = match &tls {
                    None => serve(&mut stream, &served, &count),
                    Some(tls) => {
                        let mut connection = ServerConnection::new(tls.clone()).unwrap();
                        serve(&mut Stream::new(&mut connection, &mut stream), &served, &count)
                    }
                };
            }
        });
        Self { addr, answer, fetches }
    }

    fn set_answer(&self, status: u16, body: String) {
        *self.answer.lock().unwrap() = (status, body);
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::Relaxed)
    }
}

fn serve(stream: &mut (impl Read + Write), answer: &Mutex<(u16, String)>, count: &AtomicUsize) -> std::io::Result<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"GET /jwks HTTP/1.1\r\n"), "{}", String::from_utf8_lossy(&head));
    count.fetch_add(1, Ordering::Relaxed);
    let (status, body) = answer.lock().unwrap().clone();
    write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())?;
    stream.flush()
}

fn demo(dir: &Path, settings: &[&str]) -> Demo {
    let mut args = vec!["--members", "5", "--rate", "0", "--set", "limits.rest_rate_percent=0"];
    args.extend(["--set", "auth.jwt_audience=any"]);
    settings.iter().for_each(|setting| args.extend(["--set", setting]));
    Demo::start_on(dir, "127.0.0.1:0", &args, Stdio::null())
}

fn me(demo: &Demo) -> String {
    demo.client("user_token").get("/api/v10/users/@me").unwrap().body["id"].as_str().unwrap().to_owned()
}

#[test]
fn keys_are_fetched_rotated_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let pairs = [Ed25519KeyPair::generate().unwrap(), Ed25519KeyPair::generate().unwrap()];
    let sign_on = SignOn::start(jwks(&[("a", &pairs[0])]), false);
    let url = format!("auth.jwks_url=http://{}/jwks", sign_on.addr);
    // An unknown key leads to a fetch per three seconds at most.
    let demo = demo(dir.path(), &[&url, "auth.jwks_refresh_s=30"]);
    let me = me(&demo);
    let status = |token: &str| Http::new(demo.addr, token).get("/api/v10/users/@me").unwrap().status;
    let (first, second) = (token("a", &pairs[0], &me, "chat"), token("b", &pairs[1], &me, "chat"));
    wait_for("the first keys", || (status(&first) == 200).then_some(()));
    assert_eq!(sign_on.fetches(), 1);
    drop(Ws::session(demo.addr, &first));

    // Rotation: a token with the new key is refused for a moment, then accepted.
    sign_on.set_answer(200, jwks(&[("a", &pairs[0]), ("b", &pairs[1])]));
    let mut ws = Ws::connect(demo.addr, PLAIN, "").unwrap();
    ws.expect_op(10);
    ws.identify(&second);
    assert_eq!(ws.expect("an answer", |p| p["op"] == 9 || p["t"] == "READY")["op"], 9);
    wait_for("the second key", || (status(&second) == 200).then_some(()));
    ws.identify(&second);
    ws.expect_event("READY");
    assert_eq!(sign_on.fetches(), 2);

    // Invented tokens cost next to nothing, and are refused.
    thread::sleep(Duration::from_millis(3_100));
    let made_up = |n: usize| token(&format!("made up {n}"), &pairs[1], &me, "chat");
    let answers: Vec<u16> = (0..50).map(|n| status(&made_up(n))).collect();
    assert!(answers.iter().all(|status| matches!(status, 401 | 429 | 503)), "{answers:?}");
    assert!(sign_on.fetches() <= 4, "{} fetches", sign_on.fetches());
    // A key that is known needs no fetch to be wrong.
    let fetches = sign_on.fetches();
    let mut late = Ws::connect(demo.addr, PLAIN, "").unwrap();
    late.identify(&token("a", &pairs[1], &me, "chat"));
    assert_eq!(late.close_code(), Some(4004));
    assert_eq!(sign_on.fetches(), fetches);

    // The sign-on fails in every way there is: the keys in force stay.
    for (code, body) in [(500, jwks(&[])), (200, "{".to_owned()), (200, "x".repeat(300 << 10)), (302, String::new())] {
        let fetches = sign_on.fetches();
        sign_on.set_answer(code, body);
        wait_for("another fetch", || {
            let mut ws = Ws::connect(demo.addr, PLAIN, "").ok()?;
            ws.identify(&made_up(99));
            thread::sleep(Duration::from_millis(300));
            (sign_on.fetches() > fetches).then_some(())
        });
        drop(Ws::session(demo.addr, &second));
    }

    // Keys that were stolen are taken away at once: an empty set is obeyed.
    sign_on.set_answer(200, jwks(&[]));
    wait_for("an empty set", || {
        // A token with an unknown key makes the node fetch the set.
        (status(&made_up(100)) != 429 && status(&second) == 401).then_some(())
    });
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn by_tls_and_only_from_trusted_servers() {
    let pair = Ed25519KeyPair::generate().unwrap();
    let sign_on = SignOn::start(jwks(&[("a", &pair)]), true);
    let url = format!("auth.jwks_url=https://localhost:{}/jwks", sign_on.addr.port());
    let check = |trusted: &str, expected: u16| {
        let dir = tempfile::tempdir().unwrap();
        let ca = format!("auth.jwks_ca_file={}", file(trusted).display());
        let demo = demo(dir.path(), &[&url, &ca]);
        let token = token("a", &pair, &me(&demo), "chat");
        let status = || Http::new(demo.addr, &token).get("/api/v10/users/@me").unwrap().status;
        wait_for("an answer", || (status() == expected).then_some(()));
        assert_eq!(demo.terminate(), Some(0));
    };
    check("one.crt", 200);
    let fetches = sign_on.fetches();
    // The node runs, and answers "try again".
    check("two.crt", 503);
    assert_eq!(sign_on.fetches(), fetches, "an untrusted server gets no request");
}
