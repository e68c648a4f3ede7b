//! Batches: a transport that takes frames for later must not be seen by clients.

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_guild::Command;
use guildhall_partition::Compression;
use guildhall_test_kit::{ClientParams, Hold, Received, TestCluster, TestClusterConfig};

const ZSTD: ClientParams = ClientParams::new(Encoding::Json, Compression::Zstd);
const TAKEOVER: ClientParams = ClientParams::deflate(Encoding::Json, true, 15);
const PREPARED: ClientParams = ClientParams::deflate(Encoding::Json, false, 15);

fn batching_world() -> TestCluster {
    world_of(TestClusterConfig { batches: true, ..TestClusterConfig::default() })
}

#[test]
fn everything_arrives_whole_and_in_order_however_little_a_socket_takes() {
    for params in [ClientParams::JSON, ClientParams::ETF, ZSTD, TAKEOVER, PREPARED] {
        for (room, write_max) in [(9, usize::MAX), (13, 5), (700, 100), (usize::MAX, 3), (usize::MAX, usize::MAX)] {
            let mut cluster = batching_world();
            let client = live(&mut cluster, &pro(), Some(FULL), params);
            let first = cluster.client(client).seq + 1;
            let socket = cluster.client(client).socket().clone();
            socket.set_room(room);
            socket.set_write_max(write_max);
            // One at a time, each by way of a batch; then many, which are coalesced; then one again.
            for n in 0..3 {
                say(&mut cluster, &ana(), GENERAL, &n.to_string());
                cluster.run_until_idle();
            }
            say_all(&mut cluster, (3..20).map(|n| n.to_string()));
            cluster.run_until_idle();
            say(&mut cluster, &ana(), GENERAL, "20");
            let expected: Vec<(u64, String)> = (0..21).map(|n| (first + n, n.to_string())).collect();
            assert_eq!(heard(&mut cluster, client), expected, "{params:?}, room {room}, {write_max} at a time");
        }
    }
}

#[test]
fn a_second_frame_of_the_same_turn_comes_after_the_first() {
    let mut cluster = batching_world();
    let client = live_bot(&mut cluster);
    let before = cluster.client(client).socket().writes_count();
    cluster.hold(Hold::Mail);
    say(&mut cluster, &ana(), GENERAL, "1");
    say(&mut cluster, &ana(), GENERAL, "2");
    say(&mut cluster, &ana(), GENERAL, "3");
    // Three inputs before the flush: the first is left with the transport, the others wait for it.
    cluster.deliver_mail(0, 3);
    assert_eq!(heard(&mut cluster, client).iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert_eq!(cluster.client(client).socket().writes_count() - before, 2);
}

#[test]
fn a_close_frame_comes_after_what_was_queued() {
    for room in [40, usize::MAX] {
        let mut cluster = batching_world();
        let client = live_bot(&mut cluster);
        cluster.client(client).socket().set_room(room);
        cluster.hold(Hold::Mail);
        say(&mut cluster, &ana(), GENERAL, "last words");
        // In the same turn, after the message was left with the transport.
        cluster.client(client).send(99, &serde_json::Value::Null);
        cluster.deliver_mail(0, 1);
        let received = cluster.take(client);
        let [Received::Dispatch(dispatch), Received::Close(Some(4001), _), Received::End] = &received[..] else {
            panic!("room {room}: {received:?}")
        };
        assert_eq!(dispatch.name, "MESSAGE_CREATE");
    }
}

#[test]
fn a_session_can_resume_to_a_frame_queued_at_the_disconnect() {
    let mut cluster = batching_world();
    let client = live_bot(&mut cluster);
    cluster.hold(Hold::Mail);
    say(&mut cluster, &ana(), GENERAL, "into the void");
    cluster.client(client).socket().cut();
    cluster.deliver_mail(0, 1);
    cluster.release(Hold::Mail);
    cluster.run_until_idle();
    assert_eq!(cluster.partition().conns_count(), 0);
    let (_, names) = replayed(&mut cluster, client, &pro());
    assert!(names.iter().any(|(_, name)| name == "MESSAGE_CREATE"), "{names:?}");
}

#[test]
fn a_session_that_ends_while_its_frame_is_unfinished_finishes_it() {
    let mut cluster = batching_world();
    let client = live_bot(&mut cluster);
    let socket = cluster.client(client).socket().clone();
    socket.set_room(30);
    cluster.stop_reading(client);
    say(&mut cluster, &ana(), GENERAL, "cut in the middle");
    cluster.run_until_idle();
    assert!(socket.is_full());
    system(&mut cluster, Command::RemoveMember(pro().id));
    cluster.run_until_idle();
    socket.set_room(usize::MAX);
    cluster.start_reading(client);
    let names = cluster.names(client);
    let names: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["MESSAGE_CREATE", "GUILD_DELETE"]);
}
