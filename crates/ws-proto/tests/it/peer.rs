//! Against an independent implementation (tokio-websockets) over an in-memory pipe.

use crate::split::{frames, pieces, sizes};
use crate::wire::*;
use futures_util::{SinkExt, StreamExt};
use guildhall_ws_proto::handshake::{ClientHandshake, UpgradeRequest};
use guildhall_ws_proto::{Opcode, append_frame, append_masked_frame, close_frame, ping};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_websockets::{ClientBuilder, CloseCode, Config, Limits, Message, ServerBuilder};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Their message as our type; `None` for text that is not UTF-8. Version 0.13.3 accepts a character truncated by an
/// empty last fragment, so its `as_text` cannot be relied on.
fn seen(message: &Message) -> Option<Seen> {
    let payload = message.as_payload().to_vec();
    Some(match () {
        () if message.is_text() => Seen::Text(String::from_utf8(payload).ok()?),
        () if message.is_binary() => Seen::Binary(payload),
        () if message.is_ping() => Seen::Ping(payload),
        () if message.is_pong() => Seen::Pong(payload),
        () if payload.is_empty() => Seen::Close(None, String::new()),
        () => {
            let (code, reason) = message.as_close().expect("a close frame is what is left");
            Seen::Close(Some(code.into()), reason.to_owned())
        }
    })
}

fn message(seen: &Seen) -> Message {
    match seen {
        Seen::Text(text) => Message::text(text.clone()),
        Seen::Binary(payload) => Message::binary(payload.clone()),
        Seen::Ping(payload) => Message::ping(payload.clone()),
        Seen::Pong(payload) => Message::pong(payload.clone()),
        Seen::Close(code, reason) => Message::close(code.map(|code| CloseCode::try_from(code).unwrap()), reason),
        Seen::Compressed { .. } => unreachable!("they know no compression"),
    }
}

/// All events of their server or client for `bytes`, which end the connection.
async fn theirs(as_server: bool, bytes: Vec<u8>) -> Theirs {
    let (ours, their_end) = duplex(1 << 16);
    let (mut our_reads, mut our_writes) = tokio::io::split(ours);
    let limits = Limits::default().max_payload_len(Some(1 << 20));
    let mut socket = match as_server {
        true => ServerBuilder::new().limits(limits).serve(their_end),
        false => ClientBuilder::new().limits(limits).take_over(their_end),
    };
    let write = async {
        // Their side may stop reading at a close frame or an error; the checks below allow for it.
        let _ = our_writes.write_all(&bytes).await;
        let _ = our_writes.shutdown().await;
    };
    let read = async {
        let mut outcome = Theirs::default();
        while let Some(next) = socket.next().await {
            match next.ok().as_ref().and_then(seen) {
                Some(seen) => outcome.seen.push(seen),
                None => {
                    outcome.failed = true;
                    break;
                }
            }
        }
        drop(socket);
        outcome
    };
    let drain = async {
        let mut answers = Vec::new();
        let _ = our_reads.read_to_end(&mut answers).await;
    };
    tokio::join!(write, read, drain).1
}

#[derive(Debug, Default)]
struct Theirs {
    seen: Vec<Seen>,
    failed: bool,
}

fn events() -> impl Strategy<Value = Vec<Seen>> {
    let small = || prop::collection::vec(any::<u8>(), 0..=125);
    let payload = prop_oneof![8 => 0usize..200, 1 => 60_000usize..70_000]
        .prop_flat_map(|len| prop::collection::vec(any::<u8>(), len..=len));
    let event = prop_oneof![
        4 => "\\PC{0,100}".prop_map(Seen::Text),
        4 => payload.prop_map(Seen::Binary),
        1 => small().prop_map(Seen::Ping),
        1 => small().prop_map(Seen::Pong),
    ];
    let close = prop_oneof![
        Just(vec![]),
        Just(vec![Seen::Close(None, String::new())]),
        (4000u16..5000, "\\PC{0,20}").prop_map(|(code, reason)| vec![Seen::Close(Some(code), reason)]),
    ];
    (prop::collection::vec(event, 0..8), close).prop_map(|(events, close)| [events, close].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Their client writes, with its masks and fragmentation; our server reads in random pieces.
    #[test]
    fn their_client_to_our_server(events in events(), frame_bytes in 5usize..500, sizes in sizes()) {
        let bytes = block_on(async {
            let (near, mut far) = duplex(1 << 20);
            let mut socket =
                ClientBuilder::new().config(Config::default().frame_size(frame_bytes)).take_over(near);
            for event in &events {
                socket.send(message(event)).await.unwrap();
            }
            drop(socket);
            let mut bytes = Vec::new();
            far.read_to_end(&mut bytes).await.unwrap();
            bytes
        });
        let outcome = feed(&mut server(), pieces(&bytes, &sizes));
        prop_assert_eq!(outcome, Outcome { seen: events, error: None });
    }

    /// Our server writes; their client reads.
    #[test]
    fn our_server_to_their_client(events in events()) {
        let mut bytes = Vec::new();
        for event in &events {
            match event {
                Seen::Text(text) => append_frame(Opcode::Text, text.as_bytes(), &mut bytes),
                Seen::Binary(payload) => append_frame(Opcode::Binary, payload, &mut bytes),
                Seen::Ping(payload) => bytes.extend_from_slice(&ping(payload)),
                Seen::Pong(payload) => append_frame(Opcode::Pong, payload, &mut bytes),
                Seen::Close(code, reason) => bytes.extend_from_slice(&close_frame(*code, reason)),
                Seen::Compressed { .. } => unreachable!("not generated"),
            }
        }
        let outcome = block_on(theirs(false, bytes));
        prop_assert_eq!(outcome.seen, events);
    }

    /// Our client writes masked frames; their server reads.
    #[test]
    fn our_client_to_their_server(payloads in prop::collection::vec("\\PC{0,200}", 0..8), key: [u8; 4]) {
        let mut bytes = Vec::new();
        payloads.iter().for_each(|payload| append_masked_frame(Opcode::Text, key, payload.as_bytes(), &mut bytes));
        let outcome = block_on(theirs(true, bytes));
        let expected: Vec<_> = payloads.into_iter().map(Seen::Text).collect();
        prop_assert_eq!(outcome.seen, expected);
    }

    /// Valid and invalid streams: both see the same messages and agree on whether there was an error.
    #[test]
    fn their_server_agrees(frames in frames(), flip in prop::option::of((any::<prop::sample::Index>(), any::<u8>()))) {
        let mut bytes = frames.concat();
        if let (Some((at, bits)), false) = (flip, bytes.is_empty()) {
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
        }
        let mut decoder = server();
        let ours = feed(&mut decoder, [&bytes[..]]);
        let theirs = block_on(theirs(true, bytes));
        prop_assert_eq!(&theirs.seen, &ours.seen);
        // They may or may not call an incomplete stream an error; we do not.
        if ours.error.is_some() || decoder.heap_bytes() == 0 {
            prop_assert_eq!(theirs.failed, ours.error.is_some(), "our verdict: {:?}", ours.error);
        }
    }
}

#[test]
fn handshake_with_their_server() {
    block_on(async {
        let (mut near, far) = duplex(1 << 16);
        let handshake = ClientHandshake::new("localhost", "/?v=10", *b"0123456789abcdef");
        let builder = ServerBuilder::new();
        let (accepted, _) = tokio::join!(builder.accept(far), near.write_all(handshake.request()));
        let (request, mut socket) = accepted.unwrap();
        assert_eq!(request.uri().to_string(), "/?v=10");
        socket.send(Message::text("hello")).await.unwrap();
        drop(socket);
        let mut answer = Vec::new();
        near.read_to_end(&mut answer).await.unwrap();
        let head_bytes = handshake.check_answer(&answer).unwrap().expect("a whole head");
        assert_eq!(feed(&mut client(), [&answer[head_bytes..]]).seen, [text("hello")]);
    });
}

#[test]
fn handshake_with_their_client() {
    block_on(async {
        let (near, mut far) = duplex(1 << 16);
        let builder = ClientBuilder::new().uri("ws://localhost/?v=10").unwrap();
        let serve = async {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                assert_ne!(far.read_buf(&mut request).await.unwrap(), 0);
            }
            let request = String::from_utf8(request).unwrap();
            let mut upgrade = UpgradeRequest::new("GET", (1, 1));
            for line in request.lines().skip(1).filter(|line| !line.is_empty()) {
                let (name, value) = line.split_once(':').unwrap();
                upgrade.handle_header(name, value.as_bytes());
            }
            let accept = String::from_utf8(upgrade.accept().unwrap().to_vec()).unwrap();
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n\r\n"
            );
            far.write_all(answer.as_bytes()).await.unwrap();
        };
        let (connected, ()) = tokio::join!(builder.connect_on(near), serve);
        connected.unwrap();
    });
}
