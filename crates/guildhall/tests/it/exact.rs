//! What must be exact over real sockets: callers who go away, keys that are revoked, tokens of every legal size.

use crate::{
    backend::{BOB, Backend, CHANNEL, GUILD, client, demo},
    support::wait_for,
};
use guildhall_stdx::Rng;
use rustix::net::sockopt::set_socket_linger;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io::Write,
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

const REQUESTS: usize = 2_000;
const SEED: u64 = 0x5eed_0005;
/// Longer than most publications take, so that resets fall before, into and after the hand-over.
const RESET_WITHIN_US: u64 = 1_500;

/// Sends a request, and resets the connection so many microseconds later.
fn broken_off(addr: SocketAddr, key: &str, event: &str, after: Duration) {
    let mut stream = TcpStream::connect(addr).unwrap();
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
    wait_for("the outcome", || {
        let answer = backend.http.request("POST", "/v1/publish", Some(event)).ok()?;
        assert!(matches!(answer.status, 200 | 429 | 503), "{} {}", answer.status, answer.body);
        (answer.status == 200).then_some(answer.body)
    })
}

#[test]
fn s5_requests_that_are_reset_and_retried_publish_once() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo(&dir);
    let mut backend = Backend::root(&demo);
    backend.build();
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
        backend.publish(json!({"t": "END", "d": 0, "audience": audience}));
    }
    let (mut seen, mut ends) = (HashMap::<u64, u32>::new(), 0);
    while ends < 2 {
        let payload = bob.await_payload(0, None);
        match payload["t"].as_str().unwrap_or_default() {
            "ONCE" => *seen.entry(payload["d"]["n"].as_u64().unwrap()).or_default() += 1,
            "END" => ends += 1,
            _ => {}
        }
    }
    let twice: Vec<_> = seen.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "{} events came more than once: {twice:?}", twice.len());
    assert_eq!(seen.len(), REQUESTS, "none is lost");
}
