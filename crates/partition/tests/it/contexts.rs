//! Compression contexts of a partition: bounded, and some of them larger for a while.

use crate::fixture::*;
use guildhall_codec::{ClassicContexts, ClassicParams, Encoding};
use guildhall_guild_protocol::PartitionId;
use guildhall_partition::{Compression, PartitionConfig};
use guildhall_test_kit::{ClientParams, Pair, PairConfig, Received};

const ZSTD: ClientParams = ClientParams::new(Encoding::Json, Compression::Zstd);
const ZLIB: ClientParams = ClientParams::new(Encoding::Etf, Compression::Zlib);

fn world_with(classic: &ClassicContexts) -> Pair {
    let partition = PartitionConfig::new(PartitionId(0), "wss://gw.example.net".into(), [7; 32]);
    let partition = PartitionConfig { classic: classic.clone(), ..partition };
    world_of(PairConfig { partition, partitions_count: 2, ..PairConfig::default() })
}

#[test]
fn contexts_come_with_a_session_and_go_with_the_connection() {
    let classic = ClassicContexts::default();
    let mut pair = world_with(&classic);
    let used = || (classic.stats().zlib.slots_used, classic.stats().zstd.slots_used);
    let greeted = [pair.connect(ZSTD), pair.connect_to(1, ZLIB)];
    pair.settle();
    assert_eq!(used(), (0, 0), "nobody has said who they are");
    let (bob, bot) = (live(&mut pair, &bob(), None, ZLIB), live(&mut pair, &pro(), Some(FULL), ZSTD));
    assert_eq!(used(), (1, 1));
    pair.cut(bob);
    pair.cut(bot);
    greeted.into_iter().for_each(|client| pair.cut(client));
    assert_eq!((used(), classic.stats().resident_bytes), ((0, 0), 0));
}

#[test]
fn past_the_bound_sessions_are_served_uncompressed_in_the_same_stream() {
    // There is room for one.
    let classic = ClassicContexts::new(ClassicParams { bytes_max: 700_000, ..ClassicParams::default() }).unwrap();
    let mut pair = world_with(&classic);
    let first = live(&mut pair, &ana(), None, ZSTD);
    let others = [live(&mut pair, &bob(), None, ZLIB), live(&mut pair, &pro(), Some(FULL), ZSTD)];
    say_all(&mut pair, (0..20).map(|n| format!("message {n}")));
    for client in others {
        assert_eq!(heard(&mut pair, client).len(), 20);
    }
    let stats = classic.stats();
    assert!(stats.stored_total > 40 && stats.resident_bytes <= stats.bytes_max);
    assert_eq!((stats.zstd.slots_used, stats.zlib.slots_used), (1, 0));
    // Once somebody is gone, another is compressed with the next message.
    pair.cut(first);
    say_all(&mut pair, (0..20).map(|n| format!("message {n}")));
    for client in others {
        assert_eq!(heard(&mut pair, client).len(), 20);
    }
    assert_eq!(classic.stats().zlib.slots_used + classic.stats().zstd.slots_used, 1);
}

#[test]
fn larger_contexts_are_taken_back_by_a_reconnect_that_loses_nothing() {
    let classic = ClassicContexts::default();
    classic.gate().set(1_000, u64::MAX);
    let mut pair = world_with(&classic);
    let clients = [live(&mut pair, &ana(), None, ZSTD), live(&mut pair, &bob(), None, ZSTD)];
    let plain = live(&mut pair, &pro(), Some(FULL), ZLIB);
    assert_eq!(classic.stats().upgrades.living_count, 2);
    // There is less memory now.
    classic.gate().set(0, 0);
    assert_eq!(pair.take_back_upgrades(0, 1), 1);
    let asked: Vec<_> = clients.into_iter().filter(|client| pair.take(*client) == [Received::Reconnect]).collect();
    let [asked] = asked[..] else { panic!("{asked:?}") };
    // No client is asked twice, and none with a context of the usual size.
    assert_eq!(
        (pair.take_back_upgrades(0, 10), pair.take_back_upgrades(0, 10), pair.take_back_upgrades(1, 10)),
        (1, 0, 0)
    );
    assert_eq!(pair.take(plain), []);
    // Until it goes, it is served as before.
    say(&mut pair, &ana(), GENERAL, "before");
    assert_eq!(heard(&mut pair, asked).len(), 1);
    pair.cut(asked);
    say(&mut pair, &ana(), GENERAL, "meanwhile");
    let account = if asked == clients[0] { ana() } else { bob() };
    let (asked, names) = replayed(&mut pair, asked, &account);
    assert!(names.iter().any(|(_, name)| name == "MESSAGE_CREATE"), "{names:?}");
    say(&mut pair, &ana(), GENERAL, "after");
    assert_eq!(heard(&mut pair, asked).len(), 1);
    let stats = classic.stats();
    assert_eq!((stats.upgrades.living_count, stats.zstd_upgraded.slots_used, stats.zstd.slots_used), (1, 1, 1));
}
