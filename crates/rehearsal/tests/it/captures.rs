//! Captures through the proxy, and what the replay of one sends.

use crate::client::{Client, Wrong};
use guildhall_codec::Encoding;
use guildhall_rehearsal::{
    Capture, CaptureParams, CaptureReader, Compression, Params, ReplayParams, Replayer, Scenario, Stage, capture, play,
};
use serde_json::Value;
use std::{fs::File, net::SocketAddr, path::Path, sync::Arc, time::Duration};
use tokio::{sync::oneshot, time::timeout};

type Seen = Vec<(u64, String, Value)>;

const LOCAL: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
const ALL: [(Encoding, Compression); 6] = [
    (Encoding::Json, Compression::None),
    (Encoding::Json, Compression::Zlib),
    (Encoding::Json, Compression::Zstd),
    (Encoding::Etf, Compression::None),
    (Encoding::Etf, Compression::Zlib),
    (Encoding::Etf, Compression::Zstd),
];

fn client(rest: SocketAddr, (encoding, compression): (Encoding, Compression)) -> Client {
    Client { rest, encoding, compression, wrong: Wrong::Nothing, seen: Arc::default() }
}

fn scenario() -> Scenario {
    Scenario::parse(
        r#"
        name = "captured"
        about = "Messages of many sizes, in pieces, and a late flush."
        rule = "The client takes all."
        steps = [
          { connect = {} }, { expect = { op = "identify" } }, { welcome = { bytes = 20000 } },
          { messages = { count = 20, bytes = 300 } },
          { pace = { bytes = 50, every_ms = 2 } }, { messages = { count = 2 } }, { pace = { bytes = 0 } },
          { late_flush = { bytes = 3, wait_ms = 50 } }, { messages = {} },
          { fragment = 9 }, { messages = { count = 2 } }, { fragment = 0 },
          { event = { name = "REHEARSAL", d = { note = "größer <b> \u0007 漢", number = 123456789012 } } },
          { expect = { op = "heartbeat", seq = "last" } },
        ]"#,
    )
    .unwrap()
}

/// Captures the scenario, and returns what the client received.
async fn captured(mode: (Encoding, Compression), key: Option<[u8; 32]>, out: &Path) -> Seen {
    let mut stage = Stage::open(LOCAL.into()).await.unwrap();
    let params = CaptureParams { listen: LOCAL.into(), to: stage.gateway_url(), ca: None, out: out.to_owned(), key };
    let ((stop, stopped), (listening, address)) = (oneshot::channel::<()>(), oneshot::channel());
    let capturing = tokio::spawn(capture(params, |address| listening.send(address).unwrap(), async {
        let _ = stopped.await;
    }));
    let client = client(address.await.unwrap(), mode);
    let seen = client.seen.clone();
    let client = tokio::spawn(client.run());
    let verdict = play(&scenario(), &mut stage, Params::default(), std::future::pending()).await;
    assert!(verdict.is_passed(), "{}", verdict.text());
    client.abort();
    stop.send(()).unwrap();
    let summary = capturing.await.unwrap().unwrap();
    // The client may connect again when the scenario is over.
    assert!(summary.connections >= 1 && summary.unreadable == 0, "{mode:?} {summary:?}");
    assert!(summary.chunks >= 5 && summary.frames > 25 && summary.client_payloads > 1, "{summary:?}");
    let seen = seen.lock().unwrap();
    seen.clone()
}

/// Dispatches of a replay to a client.
async fn replayed(file: &Path, mode: (Encoding, Compression), is_full_speed: bool) -> Seen {
    let recording = Capture::read(File::open(file).unwrap()).unwrap();
    let count = recording.len();
    let params = ReplayParams { listen: LOCAL.into(), is_full_speed, seed: 1 };
    let replayer = Replayer::open(recording, params).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let client = client(replayer.address(), mode);
    let seen = client.seen.clone();
    let serving = tokio::spawn(replayer.run(async {
        let _ = stopped.await;
    }));
    let client = tokio::spawn(client.run());
    let complete = async {
        while seen.lock().unwrap().len() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(30), complete).await.expect("all dispatches within 30 s");
    client.abort();
    stop.send(()).unwrap();
    let stats = serving.await.unwrap();
    assert_eq!((stats.identified, stats.dispatches), (1, count as u64));
    let seen = seen.lock().unwrap();
    seen.clone()
}

/// READY has a session of the gateway that sends it.
fn without_session(mut seen: Seen) -> Seen {
    for (_, _, body) in &mut seen {
        if let Value::Object(fields) = body {
            fields.remove("session_id");
            fields.remove("resume_gateway_url");
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn r1_a_replay_sends_the_captured_bytes_in_every_transport() {
    let folder = tempfile::tempdir().unwrap();
    for mode in ALL {
        let file = folder.path().join(format!("{mode:?}"));
        let seen = without_session(captured(mode, None, &file).await);
        for (number, to) in ALL.into_iter().enumerate() {
            let again = without_session(replayed(&file, to, number % 2 == 0).await);
            assert_eq!(again, seen, "{mode:?} to {to:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_has_surrogates_of_the_same_length() {
    let folder = tempfile::tempdir().unwrap();
    for mode in ALL {
        let [plain, scrubbed] = ["plain", "scrubbed"].map(|name| folder.path().join(format!("{name} {mode:?}")));
        captured(mode, None, &plain).await;
        captured(mode, Some([9; 32]), &scrubbed).await;
        let texts = |file: &Path| {
            let mut reader = CaptureReader::new(File::open(file).unwrap()).unwrap();
            let mut lines = Vec::new();
            while let Some(line) = reader.next_line().unwrap() {
                lines.push(serde_json::to_string(&line).unwrap());
            }
            (reader.header().scrubbed, lines)
        };
        let ((false, plain), (true, made)) = (texts(&plain), texts(&scrubbed)) else { panic!("{mode:?}") };
        // Heartbeats may be one more or less.
        let frames = |lines: &[String]| lines.iter().filter(|line| line.contains("MESSAGE_CREATE")).count();
        assert_eq!(frames(&plain), frames(&made));
        let all = made.join("\n");
        for secret in ["MTEwMDAwMDAwMDAwMDAwMDkwMA", "größer", "Rehearsal 0", "1100000000000000900", "123456789012"] {
            assert!(!all.contains(secret), "{mode:?}: {secret}");
        }
        if mode.0 == Encoding::Json {
            for secret in ["größer", "Rehearsal 0", "123456789012"] {
                assert!(plain.join("\n").contains(secret), "{mode:?}: {secret}");
            }
            let lengths = |lines: &[String]| {
                let text = |line: &String| {
                    serde_json::from_str::<Value>(line).unwrap()["frame"]["text"].as_str().map(str::len)
                };
                lines.iter().filter(|line| line.contains("MESSAGE_CREATE")).filter_map(text).collect::<Vec<_>>()
            };
            assert_eq!(lengths(&plain), lengths(&made));
        }
        // And it is a recording that can be served.
        let seen = replayed(&scrubbed, (Encoding::Json, Compression::None), true).await;
        assert_eq!(seen.iter().map(|of| &*of.1).filter(|name| *name == "MESSAGE_CREATE").count(), 25);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r2_a_client_resumes_a_replay() {
    // `ReconnectsAlways` with closes is in the scenarios; here the client's connection ends in the middle.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture");
    let seen = captured((Encoding::Json, Compression::None), None, &file).await;
    let recording = Capture::read(File::open(&file).unwrap()).unwrap();
    let count = recording.len();
    let params = ReplayParams { listen: LOCAL.into(), is_full_speed: true, seed: 1 };
    let replayer = Replayer::open(recording, params).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let mut client = client(replayer.address(), (Encoding::Json, Compression::Zlib));
    client.wrong = Wrong::DropsOnceInTheMiddle;
    let again = client.seen.clone();
    let serving = tokio::spawn(replayer.run(async {
        let _ = stopped.await;
    }));
    let client = tokio::spawn(client.run());
    let complete = async {
        while !again.lock().unwrap().iter().any(|(seq, name, _)| name == "RESUMED" && *seq as usize >= count / 2) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while again.lock().unwrap().len() <= count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(30), complete).await.expect("RESUMED, and all dispatches, within 30 s");
    client.abort();
    stop.send(()).unwrap();
    assert_eq!(serving.await.unwrap().resumed, 1);
    let again = again.lock().unwrap();
    let bodies = |seen: &[(u64, String, Value)]| {
        let bodies = seen.iter().filter(|(_, name, _)| name != "RESUMED" && name != "READY");
        bodies.map(|(_, _, body)| body.clone()).collect::<Vec<_>>()
    };
    assert_eq!(bodies(&again), bodies(&seen));
    let numbers: Vec<u64> = again.iter().map(|of| of.0).collect();
    assert_eq!(numbers, (1..=again.len() as u64).collect::<Vec<_>>());
}

#[ignore = "takes a gigabyte and some seconds: run it alone"]
#[tokio::test(flavor = "multi_thread")]
async fn stress_a_replay_serves_thousands_of_clients_at_once() {
    const CLIENTS: usize = 2_000;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture");
    captured((Encoding::Json, Compression::None), None, &file).await;
    let recording = Capture::read(File::open(&file).unwrap()).unwrap();
    let count = recording.len();
    let params = ReplayParams { listen: LOCAL.into(), is_full_speed: true, seed: 1 };
    let replayer = Replayer::open(recording, params).await.unwrap();
    let address = replayer.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(replayer.run(async {
        let _ = stopped.await;
    }));
    let started = std::time::Instant::now();
    let mut tasks = Vec::new();
    let mut all = Vec::new();
    for number in 0..CLIENTS {
        // One in ten is compressed: its context would otherwise be all that is measured.
        let client = client(address, if number % 10 == 0 { ALL[number / 10 % 6] } else { ALL[0] });
        all.push(client.seen.clone());
        tasks.push(tokio::spawn(client.run()));
    }
    let complete = async {
        for seen in &all {
            while seen.lock().unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    timeout(Duration::from_secs(180), complete).await.expect("every client received all within 180 s");
    println!("{CLIENTS} clients received {count} dispatches each in {:.1} s", started.elapsed().as_secs_f64());
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    stop.send(()).unwrap();
    // One that waits for an acknowledgement for too long connects again.
    assert!(serving.await.unwrap().identified >= CLIENTS as u64);
}
