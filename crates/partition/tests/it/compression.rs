//! Each encoding with each compression: a whole session decodes, with the same contents.

use crate::fixture::*;
use guildhall_codec::{ContextPool, Dictionaries, Dictionary, Encoding, KnownDictionary};
use guildhall_guild_protocol::StreamView;
use guildhall_partition::{Compression, StreamCodec};
use guildhall_test_kit::{ClientId, ClientParams, Hold, Received, TestCluster, id, identify_payload};
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};

pub const ALL: [ClientParams; 14] = [
    ClientParams::JSON,
    ClientParams::ETF,
    ClientParams::JSON.with_compressed_payloads(),
    ClientParams::ETF.with_compressed_payloads(),
    ClientParams::new(Encoding::Json, Compression::Zlib).with_compressed_payloads(),
    ClientParams::new(Encoding::Etf, Compression::Zlib),
    ClientParams::new(Encoding::Json, Compression::Zstd).with_compressed_payloads(),
    ClientParams::new(Encoding::Etf, Compression::Zstd),
    ClientParams::deflate(Encoding::Json, false, 15),
    ClientParams::deflate(Encoding::Json, false, 15).with_compressed_payloads(),
    ClientParams::deflate(Encoding::Etf, false, 15),
    ClientParams::deflate(Encoding::Json, false, 8),
    ClientParams::deflate(Encoding::Json, true, 15).with_compressed_payloads(),
    ClientParams::deflate(Encoding::Etf, true, 8),
];

pub const SHARED: StreamCodec =
    StreamCodec::SharedMatch { history_bytes_max: 1 << 20, check_one_in: Some(std::num::NonZeroU32::MIN) };

/// Contexts first, and a check of every message.
pub const AUTO: StreamCodec =
    StreamCodec::Auto { history_bytes_max: 1 << 20, check_one_in: Some(std::num::NonZeroU32::MIN), cpu_percent: 25 };

/// A dictionary per encoding, trained on something like messages.
pub fn dictionaries() -> &'static Dictionaries {
    static DICTIONARIES: OnceLock<Dictionaries> = OnceLock::new();
    DICTIONARIES.get_or_init(|| {
        let known = [Encoding::Json, Encoding::Etf].map(|encoding| {
            let sample = |n: u64| match encoding {
                Encoding::Json => format!(
                    r#"{{"t":"MESSAGE_CREATE","s":{n},"op":0,"d":{{"id":"{}","channel_id":"{}","content":"message {n}","guild_id":"{}","mentions":[]}}}}"#,
                    n * 7_919, n % 5 * 131, n % 3
                ),
                Encoding::Etf => format!("d\0\x02idn\x08{}d\0\nchannel_idn\x08{}d\0\x07contentm\0{n}", n * 7_919, n % 5),
            };
            let samples: Vec<String> = (0..2_000).map(sample).collect();
            let dictionary = Arc::new(Dictionary::train(&samples, 4 << 10).unwrap());
            KnownDictionary::new(encoding, dictionary)
        });
        Dictionaries::new(known.to_vec()).unwrap()
    })
}

/// How clients connect that have a dictionary.
pub fn with_dictionaries() -> Vec<ClientParams> {
    let with =
        |known: &KnownDictionary| ClientParams::new(known.encoding, Compression::ZstdDict(known.dictionary.id()));
    dictionaries().iter().map(with).collect()
}

/// All dispatches of a bot in an ordinary sequence of events, without random values.
fn life(params: ClientParams, streams: StreamCodec) -> Vec<(u64, String, Value)> {
    let mut cluster = world_with(|config| {
        config.stream_codec = streams;
        config.set_dictionaries(dictionaries().clone());
    });
    let client = cluster.connect(params);
    cluster.client(client).heartbeat();
    cluster.client(client).identify(identify_payload(&pro().username, Some(FULL)));
    let mut dispatches = cluster.dispatches(client);
    say(&mut cluster, &ana(), GENERAL, "first");
    say_all(&mut cluster, (0..40).map(|n| format!("message {n} with some more to say, and äöü 🔥")));
    cluster.client(client).send(8, &json!({"guild_id": id::<()>(GUILD).to_string(), "query": "", "limit": 0}));
    dispatches.extend(cluster.dispatches(client));
    nick(&mut cluster, &bob(), "Bobby");
    cluster.client(client).send(4, &json!({"guild_id": id::<()>(GUILD).to_string(), "channel_id": channel(VOICE).to_string(), "self_mute": true, "self_deaf": false}));
    let received = cluster.take(client);
    assert!(!received.contains(&Received::HeartbeatAck));
    dispatches.extend(received.into_iter().map(|received| match received {
        Received::Dispatch(dispatch) => dispatch,
        other => panic!("{other:?}"),
    }));
    dispatches.into_iter().map(|dispatch| (dispatch.seq, dispatch.name.clone(), dispatch.d())).collect()
}

#[test]
fn all_of_them_say_the_same() {
    let expected = life(ClientParams::JSON, StreamCodec::PerConnection);
    assert!(expected.len() > 45);
    assert!(expected.iter().any(|(_, name, _)| name == "VOICE_SERVER_UPDATE"));
    for streams in [StreamCodec::PerConnection, SHARED, AUTO] {
        for params in ALL.into_iter().chain(with_dictionaries()) {
            let life = life(params, streams);
            assert_eq!(life.len(), expected.len(), "{params:?} {streams:?}");
            for (got, expected) in life.iter().zip(&expected) {
                assert_eq!(got, expected, "{params:?} {streams:?}");
            }
        }
    }
}

#[test]
fn payload_compression_needs_a_request_and_a_large_payload() {
    for (params, expected) in [
        (ClientParams::JSON, false),
        (ClientParams::JSON.with_compressed_payloads(), true),
        (ClientParams::ETF.with_compressed_payloads(), false),
        (ClientParams::new(Encoding::Json, Compression::Zlib).with_compressed_payloads(), false),
    ] {
        let mut cluster = world();
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        let inflated = cluster.client(client).inflated_count;
        assert_eq!(inflated > 0, expected, "{params:?}");
        // Compressed once for all recipients, not for one of them.
        say(&mut cluster, &ana(), GENERAL, &"long ".repeat(390));
        assert_eq!(heard(&mut cluster, client).len(), 1);
        assert_eq!(cluster.client(client).inflated_count, inflated);
    }
}

/// Two connections with the same stream: what both get is searched once, and what each is sent is shorter than alone.
#[test]
fn shared_streams_search_once() {
    let mut cluster = world_with(|config| config.stream_codec = SHARED);
    let params = ClientParams::new(Encoding::Json, Compression::Zstd);
    let clients = [live(&mut cluster, &pro(), Some(FULL), params), live(&mut cluster, &pro(), Some(FULL), params)];
    let (before, _) = cluster.partition().shared_match();
    say_all(&mut cluster, (0..30).map(|n| format!("message {n}, and what else there is to say")));
    for client in clients {
        assert_eq!(heard(&mut cluster, client).len(), 30);
    }
    let (after, heap_bytes) = cluster.partition().shared_match();
    assert_eq!(after.bodies_total - before.bodies_total, 30, "{after:?}");
    assert_eq!(after.written_total - before.written_total, 60, "{after:?}");
    assert_eq!(after.late_total, 0, "{after:?}");
    assert!(heap_bytes > 0);
}

/// What writes a client's stream, and what that costs.
fn stream_of(cluster: &mut TestCluster, client: ClientId) -> (&'static str, StreamView) {
    let id = cluster.client(client).session_id.clone().expect("it has a session");
    let view = cluster.partition().session_view(cluster.clock.now(), &id).expect("it is there");
    (view.writer.expect("it is compressed"), view.stream.expect("it has a stream"))
}

/// A stream leaves its context between two messages: its client decodes on, and what it was sent before is referred to.
#[test]
fn a_stream_that_leaves_its_context_goes_on() {
    for (encoding, compression) in [
        (Encoding::Json, Compression::Zlib),
        (Encoding::Etf, Compression::Zlib),
        (Encoding::Json, Compression::Zstd),
        (Encoding::Etf, Compression::Zstd),
    ] {
        let params = ClientParams::new(encoding, compression);
        let contexts = ContextPool::default();
        let mut cluster = world_with(|config| {
            config.stream_codec = AUTO;
            config.contexts = contexts.clone();
        });
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        let text = |n: u64| format!("message {n}, and what else there is to say about it");
        say_all(&mut cluster, (0..30).map(text));
        assert_eq!(heard(&mut cluster, client).len(), 30);
        assert!(contexts.stats().resident_bytes > 0);
        assert_eq!(cluster.partition().shared_match().0.written_total, 0, "{params:?}");
        let (writer, stream) = stream_of(&mut cluster, client);
        assert_eq!((writer, stream.moved), ("per-connection", None), "{params:?}");
        assert!(stream.memory_bytes > 200_000, "{params:?}: {stream:?}");
        let had_context_until = cluster.clock.now().instant;

        // No memory is left for it.
        contexts.set_movable_bytes_max(0);
        cluster.advance(1_000);
        say(&mut cluster, &ana(), GENERAL, "the last of the context");
        cluster.advance(1_000);
        let before = cluster.partition().counters().sent_bytes;
        say_all(&mut cluster, (30..60).map(text));
        assert_eq!(heard(&mut cluster, client).len(), 31, "{params:?}");
        assert_eq!(contexts.stats().resident_bytes, 0, "{params:?}");
        let (shared, _) = cluster.partition().shared_match();
        assert!(shared.written_total >= 30, "{params:?}: {shared:?}");
        assert_eq!(cluster.partition().context_moves().memory, 1);
        let (writer, stream) = stream_of(&mut cluster, client);
        assert_eq!((writer, stream.moved), ("shared-match", Some("memory")), "{params:?}");
        let most_ms = cluster.clock.now().instant.ms_since(had_context_until);
        assert!(stream.since_ms <= most_ms, "{params:?}: {stream:?}, of {most_ms} ms");
        let each = (cluster.partition().counters().sent_bytes - before) / 30;
        assert!(each < 120, "{params:?}: {each} bytes for a message that is like those before it");
        cluster.client(client).heartbeat();
        assert_eq!(cluster.take(client), [Received::HeartbeatAck]);
    }
}

/// A fault in the codec is noticed before its bytes are out; the client comes back, and is served by the libraries.
#[test]
fn a_message_that_does_not_read_back_is_caught_counted_and_healed() {
    let without = [Compression::Zlib, Compression::Zstd].map(|kind| ClientParams::new(Encoding::Json, kind));
    for params in without.into_iter().chain(with_dictionaries()) {
        let mut cluster = world_with(|config| {
            config.stream_codec = SHARED;
            config.set_dictionaries(dictionaries().clone());
        });
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        say_all(&mut cluster, (0..10).map(|n| format!("message {n}, read back")));
        let heard_before = heard(&mut cluster, client).len();
        let checked = cluster.partition().shared_match_checked();
        assert!(checked.messages_total > 10 && checked.mismatches_total == 0, "{checked:?}");
        assert_eq!(heard_before, 10);

        cluster.partition_mut().spoil_shared_message(0);
        say(&mut cluster, &ana(), GENERAL, "spoilt on its way");
        assert_eq!(cluster.close_code(client), Some(4000), "{params:?}");
        assert_eq!(cluster.partition().shared_match_checked().mismatches_total, 1);

        let (texts, _) = cluster.partition().shared_match();
        let (client, names) = replayed(&mut cluster, client, &pro());
        assert_eq!(names.len(), 1, "the replay has the dispatch that was not sent: {names:?}");
        say(&mut cluster, &ana(), GENERAL, "and once more");
        assert_eq!(heard(&mut cluster, client).len(), 1);
        let (texts_now, _) = cluster.partition().shared_match();
        assert_eq!(texts_now.written_total, texts.written_total, "library contexts from then on");
    }
}

/// Messages that were compressed in the same write before the faulty one are complete: they are sent, once.
#[test]
fn what_comes_before_a_message_that_does_not_read_back_is_sent() {
    for compression in [Compression::Zlib, Compression::Zstd] {
        let mut cluster = world_with(|config| config.stream_codec = SHARED);
        let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::new(Encoding::Json, compression));
        let first = cluster.client(client).seq + 1;
        cluster.hold(Hold::Mail);
        say_all(&mut cluster, (0..5).map(|n| format!("message {n}, in one turn")));
        // Of these messages, the fourth that is written.
        cluster.partition_mut().spoil_shared_message(3);
        cluster.deliver_mail(0, 5);
        let received = cluster.take(client);
        let [dispatches @ .., Received::Close(Some(4000), _), Received::End] = &received[..] else {
            panic!("{compression:?}: {received:?}")
        };
        let seqs: Vec<u64> = dispatches
            .iter()
            .map(|received| match received {
                Received::Dispatch(dispatch) => dispatch.seq,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(seqs, [first, first + 1, first + 2], "{compression:?}");
        cluster.release(Hold::Mail);
        cluster.run_until_idle();
        let (_, names) = replayed(&mut cluster, client, &pro());
        assert_eq!(names.len(), 2, "{compression:?}: {names:?}");
    }
}

/// A dictionary is for streams of either kind; one that is too large for shared-match has library contexts.
#[test]
fn streams_with_a_dictionary_share_the_search() {
    let mut rng = guildhall_stdx::Rng::new(1);
    let noise: Vec<u8> = (0..1_500_000).map(|_| rng.next_u64() as u8).collect();
    let [small, too_large] = [4 << 10, 400 << 10].map(|bytes_max| {
        let samples: Vec<&[u8]> = noise.chunks(100).collect();
        let dictionary = Arc::new(Dictionary::train(&samples, bytes_max).unwrap());
        KnownDictionary::new(Encoding::Json, dictionary)
    });
    assert!(too_large.dictionary.content().len() > 256 << 10);
    let params = [&small, &too_large]
        .map(|known| ClientParams::new(Encoding::Json, Compression::ZstdDict(known.dictionary.id())));
    let known = Dictionaries::new(vec![small, too_large]).unwrap();
    for (params, written) in params.into_iter().zip([20, 0]) {
        let mut cluster = world_with(|config| {
            config.stream_codec = SHARED;
            config.set_dictionaries(known.clone());
        });
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        let (before, _) = cluster.partition().shared_match();
        say_all(&mut cluster, (0..20).map(|n| format!("message {n}, and what else there is to say")));
        assert_eq!(heard(&mut cluster, client).len(), 20);
        let (after, _) = cluster.partition().shared_match();
        assert_eq!(after.written_total - before.written_total, written, "{params:?}");
    }
}
