//! permessage-deflate on whole sessions: traps 1, 2 and 4, and the state per connection.

use crate::fixture::*;
use guildhall_codec::{BodyDeflater, Encoding, SharedWindow, ZlibParams, encode_payload_to_gateway};
use guildhall_test_kit::{ClientId, ClientParams, Received, TestCluster, identify_payload};
use guildhall_ws_proto::{Head, Opcode};
use serde_json::{Value, json};

const PREPARED: ClientParams = ClientParams::deflate(Encoding::Json, false, 15);
const SMALL: ClientParams = ClientParams::deflate(Encoding::Json, false, 8);
const TAKEOVER: ClientParams = ClientParams::deflate(Encoding::Json, true, 15);
const TAKEOVER_ETF: ClientParams = ClientParams::deflate(Encoding::Etf, true, 15);

/// Text that no compressor can shorten much.
fn hex(seed: u64, length: usize) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let digits = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from_digit((state >> 40) as u32 & 15, 16).expect("a digit")
    });
    digits.take(length).collect()
}

fn deflated(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut deflater = BodyDeflater::new(ZlibParams::default()).expect("in range");
    deflater.compress(SharedWindow::Full, &[payload], &mut out).expect("there is memory");
    out
}

fn payload(op: u64, d: &Value) -> Vec<u8> {
    let mut payload = Vec::new();
    encode_payload_to_gateway(Encoding::Json, op, d, &mut payload).expect("it can be encoded");
    payload
}

/// A client that received HELLO, before IDENTIFY.
fn greeted(cluster: &mut TestCluster, params: ClientParams) -> ClientId {
    let client = cluster.connect(params);
    assert!(matches!(cluster.take(client)[..], [Received::Hello { .. }]));
    client
}

#[test]
fn dispatches_come_compressed_and_the_rest_as_it_is() {
    for params in [PREPARED, SMALL, TAKEOVER, TAKEOVER_ETF, ClientParams::deflate(Encoding::Etf, false, 15)] {
        let mut cluster = world();
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        let before = cluster.client(client).deflated_count;
        assert!(before >= 2, "READY and GUILD_CREATE: {before}, {params:?}");
        say(&mut cluster, &ana(), GENERAL, &"over and over ".repeat(30));
        assert_eq!(heard(&mut cluster, client).len(), 1);
        assert_eq!(cluster.client(client).deflated_count, before + 1, "{params:?}");
        cluster.client(client).heartbeat();
        assert_eq!(cluster.take(client), [Received::HeartbeatAck]);
        assert_eq!(cluster.client(client).deflated_count, before + 1, "a heartbeat's answer is too short");
    }
}

/// The client's window holds what came compressed and nothing else; so must the context.
#[test]
fn trap_1_what_goes_uncompressed_stays_out_of_the_window() {
    for params in [TAKEOVER, TAKEOVER_ETF, ClientParams::deflate(Encoding::Json, true, 9)] {
        let mut cluster = world_with(|config| config.inbound_per_minute_max = 1_000);
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        for n in 0..60 {
            // Each refers to the text before the answer to the heartbeat.
            let content = format!("the same again, and again {} {}", n / 2, hex(n / 3, 40));
            say(&mut cluster, &ana(), GENERAL, &content);
            cluster.client(client).heartbeat();
            cluster.client(client).ping(b"the same again");
            let received = cluster.take(client);
            assert!(received.contains(&Received::HeartbeatAck), "{params:?}");
            assert!(received.contains(&Received::Pong(b"the same again".to_vec())));
            let heard = received.iter().find_map(|received| match received {
                Received::Dispatch(dispatch) => Some(text(&dispatch.d()["content"])),
                _ => None,
            });
            assert_eq!(heard, Some(content), "{params:?}");
        }
    }
}

#[test]
fn trap_1_large_incompressible_messages_come_whole() {
    for params in [PREPARED, SMALL, TAKEOVER, TAKEOVER_ETF] {
        for (room, write_max) in [(usize::MAX, usize::MAX), (1_000, 700), (40_000, usize::MAX)] {
            let mut cluster = world();
            let client = live(&mut cluster, &pro(), Some(FULL), params);
            let socket = cluster.client(client).socket().clone();
            socket.set_room(room);
            socket.set_write_max(write_max);
            let contents: Vec<String> = (0..30).map(|n| hex(n, 2_000)).collect();
            say_all(&mut cluster, contents.clone());
            cluster.run_until_idle();
            let heard: Vec<String> = heard(&mut cluster, client).into_iter().map(|(_, content)| content).collect();
            assert!(heard == contents, "{params:?}");
        }
    }
}

#[test]
fn trap_1_rsv1_is_refused_where_it_may_not_stand() {
    let compressed = deflated(&payload(1, &Value::Null));
    let head = |opcode, fin, compressed| Head { opcode, fin, compressed };
    let check = |params: ClientParams, frames: &[(Head, &[u8])], expected: Option<u16>| {
        let mut cluster = world();
        let client = greeted(&mut cluster, params);
        frames.iter().for_each(|(head, payload)| cluster.client(client).send_frame(*head, payload));
        match expected {
            Some(code) => assert_eq!(cluster.close_code(client), Some(code), "{frames:?}"),
            None => assert_eq!(cluster.take(client), [Received::HeartbeatAck], "{frames:?}"),
        }
    };
    let (first, second) = compressed.split_at(compressed.len() / 2);
    // Only the first frame of a message is marked as compressed; control frames may come between.
    check(PREPARED, &[(head(Opcode::Text, true, true), &compressed)], None);
    check(
        PREPARED,
        &[(head(Opcode::Text, false, true), first), (head(Opcode::Continuation, true, false), second)],
        None,
    );
    let again = [(head(Opcode::Text, false, true), first), (head(Opcode::Continuation, true, true), second)];
    check(PREPARED, &again, Some(1002));
    check(PREPARED, &[(head(Opcode::Text, false, true), first), (head(Opcode::Ping, true, true), b"")], Some(1002));
    check(PREPARED, &[(head(Opcode::Pong, true, true), b"")], Some(1002));
    check(PREPARED, &[(head(Opcode::Close, true, true), &[3, 232])], Some(1002));
    // A client that has not negotiated it, and one with another compression.
    for params in [ClientParams::JSON, ClientParams::new(Encoding::Json, guildhall_partition::Compression::Zstd)] {
        check(params, &[(head(Opcode::Text, true, true), &compressed)], Some(1002));
    }
}

#[test]
fn trap_2_a_message_may_not_become_larger_than_one_that_is_not_compressed() {
    let heartbeat = |length: usize| {
        let mut payload = payload(1, &json!(1));
        payload.resize(length, b' ');
        payload
    };
    let cases = [(None, 15_360), (Some(pro()), 4_096), (Some(ana()), 15_360)];
    for params in [PREPARED, TAKEOVER] {
        for (account, bytes_max) in &cases {
            for (length, is_fine) in [(*bytes_max, true), (*bytes_max + 1, false), (8 << 20, false)] {
                let mut cluster = world();
                let client = match account {
                    None => greeted(&mut cluster, params),
                    Some(account) => live(&mut cluster, account, account.bot.then_some(FULL), params),
                };
                cluster.take(client);
                let bomb = deflated(&heartbeat(length));
                assert!(bomb.len() < 10_000, "it looks harmless");
                cluster.client(client).send_deflated(&bomb);
                match is_fine {
                    true => assert_eq!(cluster.take(client), [Received::HeartbeatAck], "{length} of {bytes_max}"),
                    false => assert_eq!(cluster.close_code(client), Some(4002), "{length} of {bytes_max}"),
                }
                assert!(cluster.partition().compression_bytes() < 700 << 10);
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_closed_with_1007() {
    for bytes in [
        &[0xf2, 0x48, 0xcd][..],
        b"{\"op\":1,\"d\":null}",
        &[0xf2, 0x00, 0x11, 0x00, 0x00],
        &deflated(b"{\"op\":1,\"d\":\"\xff\"}"),
    ] {
        let mut cluster = world();
        let client = greeted(&mut cluster, PREPARED);
        cluster.client(client).send_deflated(bytes);
        assert_eq!(cluster.close_code(client), Some(1007), "{bytes:02x?}");
    }
    // Without context takeover a message cannot refer to the previous one.
    let mut cluster = world();
    let client = greeted(&mut cluster, PREPARED);
    cluster.client(client).send_deflated(&deflated(&payload(1, &json!(12_345_678))));
    assert_eq!(cluster.take(client), [Received::HeartbeatAck]);
    cluster.client(client).send_deflated(&[0xf2, 0x00, 0x11, 0x00, 0x00]);
    assert_eq!(cluster.close_code(client), Some(1007));
}

#[test]
fn trap_4_an_event_is_compressed_once_for_all() {
    let mut cluster = world();
    let kinds = [PREPARED, ClientParams::JSON, ClientParams::deflate(Encoding::Etf, false, 15), SMALL];
    let clients: Vec<ClientId> =
        (0..80).map(|n| live(&mut cluster, &pro(), Some(FULL), kinds[usize::from(n > 40) * (n % 4)])).collect();
    let before = cluster.partition().counters().deflate_shared_bodies_total;
    for n in 0..5 {
        say(&mut cluster, &ana(), GENERAL, &format!("number {n}, {}", "and so on ".repeat(10)));
    }
    for client in clients {
        assert_eq!(heard(&mut cluster, client).len(), 5);
    }
    let made = cluster.partition().counters().deflate_shared_bodies_total - before;
    // JSON and ETF with the largest window, JSON with the least.
    assert_eq!(made, 5 * 3);
}

#[test]
fn a_payload_without_a_seq_is_compressed_once_for_all() {
    let mut cluster = world();
    // HELLO is one: all clients that connect at once receive the same frame.
    let clients: Vec<ClientId> = (0..50).map(|_| greeted(&mut cluster, PREPARED)).collect();
    assert_eq!(cluster.partition().counters().deflate_shared_bodies_total, 1);
    let count: usize = clients.iter().map(|client| cluster.client(*client).deflated_count).sum();
    assert!(count == 50 || count == 0, "all of them or none");
    // The time it is kept passes.
    cluster.advance(2_000);
    greeted(&mut cluster, PREPARED);
    assert_eq!(cluster.partition().counters().deflate_shared_bodies_total, 2);
}

#[test]
fn a_connection_has_no_context_before_identify() {
    let shared = |cluster: &TestCluster| cluster.partition().compression_bytes();
    let mut cluster = world();
    assert_eq!(shared(&cluster), 0);
    for _ in 0..20 {
        let client = greeted(&mut cluster, TAKEOVER);
        cluster.client(client).heartbeat();
        cluster.client(client).heartbeat();
        assert_eq!(cluster.take(client).len(), 2);
    }
    // One reader for all of them, and what each has sent.
    assert!(shared(&cluster) < (60 << 10) + 20 * 200, "{}", shared(&cluster));
    // Without takeover no connection has anything, however long it lives.
    let mut cluster = world();
    let one = live(&mut cluster, &pro(), Some(FULL), PREPARED);
    cluster.client(one).heartbeat();
    cluster.client(one).heartbeat();
    cluster.take(one);
    let with_one = shared(&cluster);
    for _ in 0..20 {
        let client = live(&mut cluster, &pro(), Some(FULL), PREPARED);
        cluster.client(client).heartbeat();
        cluster.take(client);
    }
    assert_eq!(shared(&cluster), with_one);
    // With takeover one that logs in has one.
    live(&mut cluster, &pro(), Some(FULL), TAKEOVER);
    assert!(shared(&cluster) > with_one + (200 << 10));
}

#[test]
fn a_client_that_takes_over_is_remembered_its_window_at_most() {
    for bits in [8, 10, 15] {
        let params = ClientParams::deflate(Encoding::Json, true, bits);
        let mut cluster = world_with(|config| config.inbound_per_minute_max = 10_000);
        let client = live(&mut cluster, &ana(), None, params);
        for n in 0..100 {
            let activity = json!({"name": hex(n, 120), "type": 0});
            cluster
                .client(client)
                .send(3, &json!({"status": "online", "since": null, "afk": false, "activities": [activity]}));
            cluster.client(client).heartbeat();
            assert!(cluster.take(client).contains(&Received::HeartbeatAck));
        }
        // The context outwards, the reader of all, one context for bodies, and the window.
        let bytes = cluster.partition().compression_bytes();
        assert!(bytes < (700 << 10) + (1 << bits), "{bytes} with a window of 2^{bits}");
    }
}

#[test]
fn a_session_goes_on_in_another_form() {
    let kinds = [PREPARED, ClientParams::JSON, TAKEOVER, SMALL];
    for from in kinds {
        for to in kinds {
            let mut cluster = world();
            let client = live(&mut cluster, &pro(), Some(FULL), from);
            cluster.stop_reading(client);
            cluster.client(client).socket().set_room(50);
            say_all(&mut cluster, (0..5).map(|n| format!("missed {n} {}", "and more ".repeat(20))));
            cluster.run_until_idle();
            cluster.cut(client);
            let client = cluster.reconnect_to(0, client, to);
            cluster.take(client);
            cluster.client(client).resume(&pro().username);
            let names: Vec<String> = cluster.names(client).into_iter().map(|(_, name)| name).collect();
            assert_eq!(names.len(), 6, "{from:?} to {to:?}: {names:?}");
            assert_eq!(names[5], "RESUMED");
        }
    }
}

#[test]
fn a_frame_begun_is_finished_when_its_session_goes_elsewhere() {
    for params in [PREPARED, SMALL, ClientParams::deflate(Encoding::Etf, false, 15)] {
        for room in [1, 3, 20, 60, 150] {
            let mut cluster = world();
            let older = live(&mut cluster, &pro(), Some(FULL), params);
            cluster.stop_reading(older);
            cluster.client(older).socket().set_room(room);
            say(&mut cluster, &ana(), GENERAL, &format!("{} {}", "half of this".repeat(20), hex(room as u64, 100)));
            cluster.run_until_idle();
            let newer = cluster.reconnect(older);
            cluster.take(newer);
            cluster.client(newer).resume(&pro().username);
            assert_eq!(cluster.names(newer).len(), 2);
            cluster.client(older).socket().set_room(usize::MAX);
            cluster.start_reading(older);
            // The rest of the frame, then the close frame: anything else would be a fault.
            let received = cluster.take(older);
            assert!(
                matches!(received[..], [Received::Dispatch(_), Received::Close(Some(4000), _), Received::End]),
                "{received:?}"
            );
        }
    }
}

#[test]
fn a_login_may_come_compressed_in_many_fragments() {
    let mut cluster = world();
    let client = greeted(&mut cluster, PREPARED);
    let identify = deflated(&payload(2, &identify_payload(&pro().username, Some(FULL))));
    let last = identify.len() - 1;
    for (n, byte) in identify.iter().enumerate() {
        let opcode = if n == 0 { Opcode::Text } else { Opcode::Continuation };
        cluster.client(client).send_frame(Head { opcode, fin: n == last, compressed: n == 0 }, &[*byte]);
        if n % 7 == 0 {
            cluster.client(client).ping(b"?");
        }
    }
    let names: Vec<String> = cluster
        .take(client)
        .into_iter()
        .filter_map(|received| match received {
            Received::Dispatch(dispatch) => Some(dispatch.name),
            _ => None,
        })
        .collect();
    assert_eq!(names[..2], ["READY", "GUILD_CREATE"]);
}
