//! Trials: connections of experiments, their streams and their samples.

use crate::fixture::*;
use guildhall_codec::{ContextPool, Encoding, ZlibParams, ZstdParams};
use guildhall_partition::{
    ArmStream, Audience, Compression, Experiment, ExperimentTable, Experiments, ListRequests, RunningExperiment,
    SAMPLE_DISPATCHES, Sample, SampleOf, SampleQueue, StreamCodec,
};
use guildhall_test_kit::{ClientId, ClientParams, Received, TestCluster, identify_payload};
use std::sync::Arc;

const AUTO: StreamCodec = StreamCodec::Auto { history_bytes_max: 4 << 20, check_one_in: None, cpu_percent: 25 };
const ZSTD: ClientParams = ClientParams::new(Encoding::Json, Compression::Zstd);
const ZLIB: ClientParams = ClientParams::new(Encoding::Etf, Compression::Zlib);

/// An experiment in which nearly all accounts get the second arm.
fn experiment(name: &str) -> Experiment {
    Experiment {
        name: name.to_owned(),
        salt: name.to_owned(),
        layer: name.to_owned(),
        slots: 0..1_000,
        arms: vec![("control".to_owned(), 1), ("tried".to_owned(), 10_000)],
        audience: Audience::default(),
    }
}

fn table(of: Vec<(Experiment, [ArmStream; 2])>, samples: &SampleQueue) -> Arc<ExperimentTable> {
    let (experiments, arms): (Vec<_>, Vec<_>) = of.into_iter().unzip();
    let running = arms.into_iter().zip(40..);
    let running = running.map(|(arms, id)| RunningExperiment { id, arms: arms.into(), dictionaries: None }).collect();
    let outputs = (samples.clone(), ListRequests::default());
    Arc::new(ExperimentTable::new(Experiments::new(experiments).unwrap(), running, outputs))
}

fn world_in(streams: StreamCodec, of: Vec<(Experiment, [ArmStream; 2])>) -> (TestCluster, SampleQueue) {
    let mut cluster = world_with(|config| config.stream_codec = streams);
    let samples = SampleQueue::default();
    cluster.partition_mut().take_experiments(table(of, &samples));
    (cluster, samples)
}

fn samples_of(queue: &SampleQueue) -> Vec<Sample> {
    std::iter::from_fn(|| queue.next()).collect()
}

fn began(queue: &SampleQueue) -> Vec<(u64, u8)> {
    let is_begun = |sample: &Sample| matches!(sample.of, SampleOf::Began { .. });
    samples_of(queue).into_iter().filter(is_begun).map(|of| (of.experiment, of.arm)).collect()
}

fn writer(cluster: &TestCluster) -> Vec<&'static str> {
    let now = cluster.clock.now();
    let page = cluster.partition().session_page(now, 0, 100);
    page.sessions.into_iter().filter_map(|view| view.writer).collect()
}

fn hear(cluster: &mut TestCluster, clients: &[ClientId], count: usize) {
    say_all(cluster, (0..count).map(|n| format!("message {n} of what is said")));
    for client in clients {
        assert_eq!(heard(cluster, *client).len(), count);
    }
}

fn small(contexts: &ContextPool, window_log: u32) -> ContextPool {
    let zstd = ZstdParams { level: 1, window_log, chain_log: 6, hash_log: 6, ..ZstdParams::default() };
    contexts.variant(ZlibParams { level: 1, window_bits: 9, ..ZlibParams::default() }, zstd).unwrap()
}

#[test]
fn x2_an_arm_writes_the_container_that_the_client_requested() {
    for streams in [StreamCodec::PerConnection, AUTO] {
        let contexts = ContextPool::default();
        let (zlib, zstd) = (small(&contexts, 12), small(&contexts, 12));
        let (mut cluster, samples) = world_in(
            streams,
            vec![
                (experiment("zstd"), [ArmStream::Node, ArmStream::Zstd(zstd.clone())]),
                (experiment("zlib"), [ArmStream::Node, ArmStream::Zlib(zlib.clone())]),
            ],
        );
        let clients = [
            live(&mut cluster, &ana(), None, ZSTD),
            live(&mut cluster, &bob(), None, ZLIB),
            live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON),
        ];
        // The first takes part in the one, the second in the other, and the third has no stream.
        assert_eq!(began(&samples), [(40, 1), (41, 1)]);
        let used = |pool: &ContextPool| (pool.stats().zlib.slots_used, pool.stats().zstd.slots_used);
        assert_eq!((used(&zstd), used(&zlib)), ((0, 1), (1, 0)));
        hear(&mut cluster, &clients, 100);
        clients.into_iter().for_each(|client| cluster.cut(client));
        assert_eq!((used(&zstd), used(&zlib)), ((0, 0), (0, 0)));
    }
}

#[test]
fn x2_a_window_larger_than_the_declared_one_has_no_accounts() {
    let larger = small(&ContextPool::default(), 19);
    let of = || vec![(experiment("a"), [ArmStream::Node, ArmStream::Zstd(larger.clone())])];
    let (mut cluster, samples) = world_in(StreamCodec::PerConnection, of());
    let client = live(&mut cluster, &ana(), None, ZSTD);
    hear(&mut cluster, &[client], 10);
    assert_eq!(began(&samples), []);
    // Streams that may move declare a larger one.
    let (mut cluster, samples) = world_in(AUTO, of());
    let client = live(&mut cluster, &ana(), None, ZSTD);
    hear(&mut cluster, &[client], 100);
    assert_eq!(began(&samples), [(40, 1)]);
}

#[test]
fn x1_a_connection_that_one_arm_could_not_write_takes_no_part() {
    let of = || vec![(experiment("a"), [ArmStream::SharedMatch, ArmStream::Context])];
    let (mut cluster, samples) = world_in(StreamCodec::PerConnection, of());
    let client = live(&mut cluster, &ana(), None, ZSTD);
    hear(&mut cluster, &[client], 5);
    assert_eq!(began(&samples), [], "no stream of this node can move to shared-match");
    let (mut cluster, samples) = world_in(AUTO, of());
    live(&mut cluster, &ana(), None, ZSTD);
    assert_eq!(began(&samples), [(40, 1)]);
    assert_eq!(writer(&cluster), ["per-connection"]);
}

#[test]
fn an_arm_of_shared_match_begins_with_it_at_identify_and_at_resume() {
    let (mut cluster, samples) = world_in(AUTO, vec![(experiment("a"), [ArmStream::Node, ArmStream::SharedMatch])]);
    let clients = [live(&mut cluster, &ana(), None, ZSTD), live(&mut cluster, &bob(), None, ZLIB)];
    assert_eq!(writer(&cluster), ["shared-match", "shared-match"]);
    hear(&mut cluster, &clients, 100);
    assert_eq!(began(&samples), [(40, 1), (40, 1)]);
    cluster.cut(clients[0]);
    say(&mut cluster, &ana(), GENERAL, "meanwhile");
    let again = cluster.reconnect(clients[0]);
    cluster.client(again).resume(&ana().username);
    cluster.run_until_idle();
    assert_eq!(heard(&mut cluster, again).len(), 1);
    let resumed = samples_of(&samples).into_iter().find(|of| matches!(of.of, SampleOf::Began { is_resume: true, .. }));
    assert!(resumed.is_some_and(|of| (of.experiment, of.arm) == (40, 1)), "{resumed:?}");
    assert_eq!(heard(&mut cluster, clients[1]).len(), 1);
    hear(&mut cluster, &[again, clients[1]], 100);
}

#[test]
fn a_context_arm_does_not_move_where_the_node_would_move_it() {
    let mode = StreamCodec::Auto { history_bytes_max: 4 << 20, check_one_in: None, cpu_percent: 0 };
    let (mut cluster, _) = world_in(mode, Vec::new());
    live(&mut cluster, &ana(), None, ZSTD);
    assert_eq!(writer(&cluster), ["shared-match"], "there is no time for contexts");
    let (mut cluster, samples) = world_in(AUTO, vec![(experiment("a"), [ArmStream::Node, ArmStream::Context])]);
    let client = live(&mut cluster, &ana(), None, ZSTD);
    hear(&mut cluster, &[client], 50);
    assert_eq!((began(&samples), writer(&cluster)), (vec![(40, 1)], vec!["per-connection"]));
}

#[test]
fn x4_a_connection_is_sampled_once_and_a_short_one_at_its_end() {
    let (mut cluster, samples) = world_in(AUTO, vec![(experiment("a"), [ArmStream::Node, ArmStream::Context])]);
    let long = live(&mut cluster, &ana(), None, ZSTD);
    hear(&mut cluster, &[long], 200);
    let sent = |samples: &[Sample]| samples.iter().filter(|of| matches!(of.of, SampleOf::Sent { .. })).count();
    let seen = samples_of(&samples);
    let Some(SampleOf::Sent { dispatches, wire_bytes, .. }) =
        seen.iter().map(|of| of.of).find(|of| matches!(of, SampleOf::Sent { .. }))
    else {
        panic!("{seen:?}")
    };
    assert!((SAMPLE_DISPATCHES..SAMPLE_DISPATCHES + 32).contains(&dispatches) && wire_bytes > dispatches * 20);
    assert_eq!(sent(&seen), 1);
    cluster.cut(long);
    assert_eq!(samples_of(&samples), [], "it ended in order");
    let short = live(&mut cluster, &bob(), None, ZSTD);
    hear(&mut cluster, &[short], 10);
    cluster.cut(short);
    let seen = samples_of(&samples);
    assert_eq!((sent(&seen), seen.len()), (1, 2), "it began, and was sampled at its end: {seen:?}");
    let idle = live(&mut cluster, &bob(), None, ZSTD);
    cluster.cut(idle);
    let seen = samples_of(&samples);
    assert!(matches!(seen[..], [_, Sample { of: SampleOf::Ended { has_failed: false }, .. }]), "{seen:?}");
}

#[test]
fn deliveries_are_timed_from_the_guild_to_a_socket_that_has_room() {
    let (mut cluster, samples) = world_in(AUTO, vec![(experiment("a"), [ArmStream::Node, ArmStream::Context])]);
    let client = live(&mut cluster, &ana(), None, ZSTD);
    samples_of(&samples);
    let times = |samples: &SampleQueue| {
        let of = samples_of(samples).into_iter().find_map(|sample| match sample.of {
            SampleOf::Sent { delivered, delivered_ns, .. } => Some((delivered, delivered_ns)),
            _ => None,
        });
        of.expect("a sample")
    };
    for n in 0..60 {
        hear(&mut cluster, &[client], 1);
        assert!(n > 50 || samples_of(&samples).is_empty());
    }
    cluster.cut(client);
    let (count, ns) = times(&samples);
    // The clock of the transport advances by a microsecond with each look at it.
    assert!((50..=60).contains(&count) && ns >= u64::from(count) * 1_000 && ns < 200_000, "{count} {ns}");

    // An event that waits for room is delivered when there is some.
    let waiting = live(&mut cluster, &bob(), None, ZSTD);
    samples_of(&samples);
    cluster.client(waiting).socket().set_room(0);
    say_all(&mut cluster, (0..30).map(|n| format!("message {n}")));
    cluster.run_until_idle();
    cluster.client(waiting).socket().set_room(usize::MAX);
    cluster.run_until_idle();
    assert_eq!(heard(&mut cluster, waiting).len(), 30);
    cluster.cut(waiting);
    assert_eq!(times(&samples).0, 1, "one event is timed at a time");
}

#[test]
fn a_close_for_data_that_a_client_cannot_read_counts_as_a_decode_fault() {
    for (code, is_fault) in [(4002, true), (1007, true), (1002, true), (1000, false), (1001, false), (4000, false)] {
        let (mut cluster, samples) = world_in(AUTO, vec![(experiment("a"), [ArmStream::Node, ArmStream::Context])]);
        let client = live(&mut cluster, &ana(), None, ZSTD);
        cluster.client(client).close(Some(code));
        cluster.run_until_idle();
        cluster.cut(client);
        let ended = samples_of(&samples).pop().map(|of| of.of);
        assert_eq!(ended, Some(SampleOf::Ended { has_failed: is_fault }), "{code}");
    }
}

#[test]
fn op_7_goes_to_the_arms_of_the_experiment_once_and_not_to_its_control() {
    let reversed = Experiment {
        arms: vec![("control".to_owned(), 10_000), ("tried".to_owned(), 1)],
        audience: Audience { bots: Some(true), ..Audience::default() },
        ..experiment("a")
    };
    let users = Experiment { audience: Audience { bots: Some(false), ..Audience::default() }, ..experiment("b") };
    let arms = || [ArmStream::Node, ArmStream::Context];
    let (mut cluster, samples) = world_in(AUTO, vec![(reversed, arms()), (users, arms())]);
    let (tried, control) = (live(&mut cluster, &ana(), None, ZSTD), live(&mut cluster, &pro(), Some(FULL), ZSTD));
    assert_eq!(began(&samples), [(41, 1), (40, 0)]);
    cluster.partition_mut().take_experiments(Arc::default());
    let sent = [40, 41, 41].map(|id| cluster.reconnect_trials(0, id, 10));
    assert_eq!(sent, [0, 1, 0]);
    assert_eq!(cluster.take(tried), [Received::Reconnect]);
    assert_eq!(cluster.take(control), []);
}

/// The bytes of two clients that are in no experiment, or in its control.
fn wires(has_experiment: bool) -> Vec<Vec<u8>> {
    let reversed = Experiment {
        arms: vec![("control".to_owned(), 10_000), ("tried".to_owned(), 1)],
        audience: Audience { bots: Some(true), ..Audience::default() },
        ..experiment("a")
    };
    let of = vec![(reversed, [ArmStream::Node, ArmStream::SharedMatch])];
    let (mut cluster, _) = world_in(AUTO, if has_experiment { of } else { Vec::new() });
    let clients = [(ana(), None), (pro(), Some(FULL))].map(|(account, intents)| {
        let client = cluster.connect_recorded(ZSTD);
        cluster.client(client).identify(identify_payload(&account.username, intents));
        cluster.run_until_idle();
        client
    });
    hear(&mut cluster, &clients, 100);
    clients.map(|client| cluster.client(client).wire().to_vec()).into()
}

#[test]
fn x3_not_one_byte_differs_outside_of_an_experiment_and_in_a_control_without_an_arm() {
    let (with, without) = (wires(true), wires(false));
    assert!(without.iter().all(|wire| wire.len() > 2_000));
    assert!(with == without, "an experiment changed what others are sent");
}
