//! Compression contexts of a partition: bounded, and some of them larger for a while.

use crate::fixture::*;
use guildhall_codec::{ContextParams, ContextPool, Encoding};
use guildhall_guild_protocol::PartitionId;
use guildhall_partition::{Compression, PartitionConfig};
use guildhall_test_kit::{ClientParams, Received, TestCluster, TestClusterConfig};

const ZSTD: ClientParams = ClientParams::new(Encoding::Json, Compression::Zstd);
const ZLIB: ClientParams = ClientParams::new(Encoding::Etf, Compression::Zlib);

fn world_with(contexts: &ContextPool) -> TestCluster {
    let partition = PartitionConfig::new(PartitionId(0), "wss://gw.example.net".into(), [7; 32]);
    let partition = PartitionConfig { contexts: contexts.clone(), ..partition };
    world_of(TestClusterConfig { partition, partitions_count: 2, ..TestClusterConfig::default() })
}

#[test]
fn contexts_come_with_a_session_and_go_with_the_connection() {
    let contexts = ContextPool::default();
    let mut cluster = world_with(&contexts);
    let used = || (contexts.stats().zlib.slots_used, contexts.stats().zstd.slots_used);
    let greeted = [cluster.connect(ZSTD), cluster.connect_to(1, ZLIB)];
    cluster.run_until_idle();
    assert_eq!(used(), (0, 0), "no client has identified");
    let (bob, bot) = (live(&mut cluster, &bob(), None, ZLIB), live(&mut cluster, &pro(), Some(FULL), ZSTD));
    assert_eq!(used(), (1, 1));
    cluster.cut(bob);
    cluster.cut(bot);
    greeted.into_iter().for_each(|client| cluster.cut(client));
    assert_eq!((used(), contexts.stats().resident_bytes), ((0, 0), 0));
}

#[test]
fn past_the_bound_sessions_are_served_uncompressed_in_the_same_stream() {
    // There is room for one.
    let contexts = ContextPool::new(ContextParams { bytes_max: 750_000, ..ContextParams::default() }).unwrap();
    let mut cluster = world_with(&contexts);
    let first = live(&mut cluster, &ana(), None, ZSTD);
    let others = [live(&mut cluster, &bob(), None, ZLIB), live(&mut cluster, &pro(), Some(FULL), ZSTD)];
    say_all(&mut cluster, (0..20).map(|n| format!("message {n}")));
    for client in others {
        assert_eq!(heard(&mut cluster, client).len(), 20);
    }
    let stats = contexts.stats();
    assert!(stats.stored_total > 40 && stats.resident_bytes <= stats.bytes_max);
    assert_eq!((stats.zstd.slots_used, stats.zlib.slots_used), (1, 0));
    // When a connection ends, another one gets its context with the next message.
    cluster.cut(first);
    say_all(&mut cluster, (0..20).map(|n| format!("message {n}")));
    for client in others {
        assert_eq!(heard(&mut cluster, client).len(), 20);
    }
    assert_eq!(contexts.stats().zlib.slots_used + contexts.stats().zstd.slots_used, 1);
}

#[test]
fn larger_contexts_are_taken_back_by_a_reconnect_that_loses_nothing() {
    let contexts = ContextPool::default();
    contexts.gate().set(1_000, u64::MAX);
    let mut cluster = world_with(&contexts);
    let clients = [live(&mut cluster, &ana(), None, ZSTD), live(&mut cluster, &bob(), None, ZSTD)];
    let plain = live(&mut cluster, &pro(), Some(FULL), ZLIB);
    assert_eq!(contexts.stats().upgrades.living_count, 2);
    // There is less memory now.
    contexts.gate().set(0, 0);
    assert_eq!(cluster.take_back_upgrades(0, 1), 1);
    let reclaimed: Vec<_> =
        clients.into_iter().filter(|client| cluster.take(*client) == [Received::Reconnect]).collect();
    let [reclaimed] = reclaimed[..] else { panic!("{reclaimed:?}") };
    // No client receives a second RECONNECT, and none with a context of the usual size receives one.
    assert_eq!(
        (cluster.take_back_upgrades(0, 10), cluster.take_back_upgrades(0, 10), cluster.take_back_upgrades(1, 10)),
        (1, 0, 0)
    );
    assert_eq!(cluster.take(plain), []);
    // Until it goes, it is served as before.
    say(&mut cluster, &ana(), GENERAL, "before");
    assert_eq!(heard(&mut cluster, reclaimed).len(), 1);
    cluster.cut(reclaimed);
    say(&mut cluster, &ana(), GENERAL, "meanwhile");
    let account = if reclaimed == clients[0] { ana() } else { bob() };
    let (reclaimed, names) = replayed(&mut cluster, reclaimed, &account);
    assert!(names.iter().any(|(_, name)| name == "MESSAGE_CREATE"), "{names:?}");
    say(&mut cluster, &ana(), GENERAL, "after");
    assert_eq!(heard(&mut cluster, reclaimed).len(), 1);
    let stats = contexts.stats();
    assert_eq!((stats.upgrades.living_count, stats.zstd_upgraded.slots_used, stats.zstd.slots_used), (1, 1, 1));
}
