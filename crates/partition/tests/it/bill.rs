//! The bandwidth bill, against reference compressors that are run over what clients received.

use crate::fixture::*;
use guildhall_accounting::report::BilledWays;
use guildhall_codec::{ContextParams, ContextPool, Encoding, StreamCompressor, StreamDecompressor};
use guildhall_partition::{Bill, Compression, StreamCodec};
use guildhall_stdx::Rng;
use guildhall_test_kit::{ClientId, ClientParams, TestCluster, identify_payload};
use guildhall_ws_proto::{Decoder, Event, FrameHeader, Limits, Opcode, Role};
use std::ops::AddAssign as _;

const SHARED: StreamCodec = StreamCodec::SharedMatch { history_bytes_max: 4 << 20, check_one_in: None };
const BYTES_MAX: usize = 1 << 24;
/// Streams may choose a smaller window.
const WINDOW_LOG_MAX: u32 = 27;

fn framed(payload: usize) -> u64 {
    (FrameHeader::new(Opcode::Binary, payload).len() + payload) as u64
}

/// Payloads of all frames that a client received, and the bytes of these frames.
fn received(cluster: &mut TestCluster, client: ClientId) -> Vec<(Vec<u8>, u64)> {
    cluster.take(client);
    let compression = cluster.client(client).params().conn.compression;
    let mut wire = cluster.client(client).wire().to_vec();
    let mut stream = match compression {
        Compression::None => None,
        Compression::Zlib => Some(StreamDecompressor::zlib().unwrap()),
        Compression::Zstd => Some(StreamDecompressor::zstd(WINDOW_LOG_MAX).unwrap()),
        other => panic!("{other:?}"),
    };
    let mut decoder = Decoder::new(Role::Client, Limits { message_bytes_max: u32::MAX });
    let mut events = decoder.handle(&mut wire);
    let mut payloads = Vec::new();
    while let Some(event) = events.poll().unwrap() {
        let bytes = match event {
            Event::Text(text) => text.as_bytes().to_vec(),
            Event::Binary(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        };
        let payload = match &mut stream {
            None => bytes.clone(),
            Some(stream) => {
                let mut payload = Vec::new();
                stream.decompress(&bytes, &mut payload, BYTES_MAX).unwrap();
                payload
            }
        };
        payloads.push((payload, framed(bytes.len())));
    }
    payloads
}

/// The bill of these frames.
fn reference(params: &ContextParams, frames: &[(Vec<u8>, u64)]) -> BilledWays {
    let mut streams = [StreamCompressor::zlib(params.zlib).unwrap(), StreamCompressor::zstd(params.zstd).unwrap()];
    let mut sum = BilledWays::default();
    for (payload, wire_bytes) in frames {
        let [zlib, zstd] = streams.each_mut().map(|stream| {
            let mut out = Vec::new();
            stream.compress(&[payload], &mut out).unwrap();
            framed(out.len())
        });
        sum.add_assign(&BilledWays {
            count_total: 1,
            raw_bytes_total: payload.len() as u64,
            wire_bytes_total: *wire_bytes,
            plain_bytes_total: framed(payload.len()),
            zlib_bytes_total: zlib,
            zstd_bytes_total: zstd,
        });
    }
    sum
}

#[test]
fn b1_a_seeded_run_costs_what_reference_compressors_say() {
    let params = ContextParams::default();
    let (bill, mut worker) = Bill::new(1, ContextPool::default());
    let mut cluster = world_with(|config| (config.bill, config.stream_codec) = (bill.clone(), SHARED));
    let kinds = [
        ClientParams::JSON,
        ClientParams::ETF,
        ClientParams::new(Encoding::Json, Compression::Zlib),
        ClientParams::new(Encoding::Json, Compression::Zstd),
    ];
    let clients = kinds.map(|params| {
        let client = cluster.connect_recorded(params);
        cluster.client(client).identify(identify_payload(&pro().username, Some(FULL)));
        cluster.run_until_idle();
        client
    });
    let mut rng = Rng::new(0xB111);
    for _ in 0..300 {
        let words =
            (0..rng.below(30) + 1).map(|_| ["guild", "relay", "session", "and", "bytes", "🔥"][rng.below(6) as usize]);
        let text = words.collect::<Vec<_>>().join(" ");
        match rng.below(4) {
            0 => nick(&mut cluster, &bob(), &text.chars().take(30).collect::<String>()),
            _ => drop(say(&mut cluster, &ana(), GENERAL, &text)),
        }
        if rng.below(3) == 0 {
            cluster.run_until_idle();
            clients.iter().for_each(|client| drop(cluster.take(*client)));
        }
        while worker.step().unwrap() {}
    }
    cluster.advance_with_heartbeats(60_000);
    let mut expected = BilledWays::default();
    for client in clients {
        let frames = received(&mut cluster, client);
        assert!(frames.len() > 300, "{}", frames.len());
        expected.add_assign(&reference(&params, &frames));
    }
    while worker.step().unwrap() {}
    let report = bill.report(cluster.partition().sent()).unwrap();
    assert_eq!(report.sample, expected);
    assert_eq!((report.sessions, report.sessions_total, report.sessions_dropped_total), (4, 4, 0));
    // Every session is sampled, so the sample is complete.
    assert_eq!(report.estimate, expected);
    let messages = report.types.iter().find(|of| of.name == "MESSAGE_CREATE").unwrap();
    let ratio = |bytes: u64| bytes as f64 / messages.sample.plain_bytes_total as f64;
    assert!(ratio(messages.sample.zlib_bytes_total) < 0.5 && ratio(messages.sample.zstd_bytes_total) < 0.5);
    // Contexts end with their connections.
    clients.into_iter().for_each(|client| cluster.cut(client));
    cluster.run_until_idle();
    while worker.step().unwrap() {}
    assert_eq!(bill.report(cluster.partition().sent()).unwrap().sessions, 0);
}

#[test]
fn a_node_without_a_bill_has_none() {
    let cluster = world();
    assert_eq!(Bill::default().report(cluster.partition().sent()), None);
    let (bill, _worker) = Bill::new(1, ContextPool::default());
    assert_eq!(bill.report(cluster.partition().sent()), None, "nothing was sampled yet");
}
