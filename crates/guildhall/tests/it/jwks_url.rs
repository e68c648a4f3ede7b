//! `auth.jwks_url`: keys that are fetched, rotated, asked for, and missed, by HTTP and by TLS.

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
    asked: Arc<AtomicUsize>,
}

impl SignOn {
    fn start(body: String, with_tls: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (answer, asked) = (Arc::new(Mutex::new((200, body))), Arc::new(AtomicUsize::new(0)));
        let tls = with_tls.then(|| {
            let chain = CertificateDer::pem_file_iter(file("one.crt")).unwrap().map(Result::unwrap).collect();
            let key = PrivateKeyDer::from_pem_file(file("one.key")).unwrap();
            let config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()));
            let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
            Arc::new(config.with_single_cert(chain, key).unwrap())
        });
        let (told, count) = (answer.clone(), asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                // A client that does not trust us goes away in the middle.
                let _ = match &tls {
                    None => serve(&mut stream, &told, &count),
                    Some(tls) => {
                        let mut connection = ServerConnection::new(tls.clone()).unwrap();
                        serve(&mut Stream::new(&mut connection, &mut stream), &told, &count)
                    }
                };
            }
        });
        Self { addr, answer, asked }
    }

    fn tell(&self, status: u16, body: String) {
        *self.answer.lock().unwrap() = (status, body);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

fn serve(stream: &mut (impl Read + Write), told: &Mutex<(u16, String)>, count: &AtomicUsize) -> std::io::Result<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"GET /jwks HTTP/1.1\r\n"), "{}", String::from_utf8_lossy(&head));
    count.fetch_add(1, Ordering::Relaxed);
    let (status, body) = told.lock().unwrap().clone();
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
    assert_eq!(sign_on.asked(), 1);
    drop(Ws::session(demo.addr, &first));

    // Rotation: a token with the new key is refused for a moment, then accepted.
    sign_on.tell(200, jwks(&[("a", &pairs[0]), ("b", &pairs[1])]));
    let mut ws = Ws::connect(demo.addr, PLAIN, "").unwrap();
    ws.expect_op(10);
    ws.identify(&second);
    assert_eq!(ws.expect("an answer", |p| p["op"] == 9 || p["t"] == "READY")["op"], 9);
    wait_for("the second key", || (status(&second) == 200).then_some(()));
    ws.identify(&second);
    ws.expect_event("READY");
    assert_eq!(sign_on.asked(), 2);

    // Tokens that somebody made up cost next to nothing, and are wrong in the end.
    thread::sleep(Duration::from_millis(3_100));
    let made_up = |n: usize| token(&format!("made up {n}"), &pairs[1], &me, "chat");
    let answers: Vec<u16> = (0..50).map(|n| status(&made_up(n))).collect();
    assert!(answers.iter().all(|status| matches!(status, 401 | 429 | 503)), "{answers:?}");
    assert!(sign_on.asked() <= 4, "{} fetches", sign_on.asked());
    // A key that is known needs no fetch to be wrong.
    let asked = sign_on.asked();
    let mut late = Ws::connect(demo.addr, PLAIN, "").unwrap();
    late.identify(&token("a", &pairs[1], &me, "chat"));
    assert_eq!(late.close_code(), Some(4004));
    assert_eq!(sign_on.asked(), asked);

    // The sign-on fails in every way there is: the keys in force stay.
    for (code, body) in [(500, jwks(&[])), (200, "{".to_owned()), (200, "x".repeat(300 << 10)), (302, String::new())] {
        let asked = sign_on.asked();
        sign_on.tell(code, body);
        wait_for("another fetch", || {
            let mut ws = Ws::connect(demo.addr, PLAIN, "").ok()?;
            ws.identify(&made_up(99));
            thread::sleep(Duration::from_millis(300));
            (sign_on.asked() > asked).then_some(())
        });
        drop(Ws::session(demo.addr, &second));
    }

    // Keys that were stolen are taken away at once: an empty set is obeyed.
    sign_on.tell(200, jwks(&[]));
    wait_for("an empty set", || {
        // A token with a key that is not known makes the node ask.
        (status(&made_up(100)) != 429 && status(&second) == 401).then_some(())
    });
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn by_tls_and_only_from_whom_is_trusted() {
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
    let asked = sign_on.asked();
    // The node runs, and says "try again".
    check("two.crt", 503);
    assert_eq!(sign_on.asked(), asked, "an untrusted server gets no request");
}
