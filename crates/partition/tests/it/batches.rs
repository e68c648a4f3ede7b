//! Batches: a link that takes frames for later must not be seen by clients.

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_guild::Command;
use guildhall_partition::Compression;
use guildhall_test_kit::{ClientParams, Pair, PairConfig, Received};

const ZSTD: ClientParams = ClientParams::new(Encoding::Json, Compression::Zstd);
const TAKEOVER: ClientParams = ClientParams::deflate(Encoding::Json, true, 15);
const PREPARED: ClientParams = ClientParams::deflate(Encoding::Json, false, 15);

fn batching_world() -> Pair {
    world_of(PairConfig { batches: true, ..PairConfig::default() })
}

#[test]
fn everything_arrives_whole_and_in_order_however_little_a_socket_takes() {
    for params in [ClientParams::JSON, ClientParams::ETF, ZSTD, TAKEOVER, PREPARED] {
        for (room, write_max) in [(9, usize::MAX), (13, 5), (700, 100), (usize::MAX, 3), (usize::MAX, usize::MAX)] {
            let mut pair = batching_world();
            let client = live(&mut pair, &pro(), Some(FULL), params);
            let first = pair.client(client).seq + 1;
            let socket = pair.client(client).socket().clone();
            socket.set_room(room);
            socket.set_write_max(write_max);
            // One at a time, each by way of a batch; then many, which are coalesced; then one again.
            for n in 0..3 {
                say(&mut pair, &ana(), GENERAL, &n.to_string());
                pair.settle();
            }
            say_all(&mut pair, (3..20).map(|n| n.to_string()));
            pair.settle();
            say(&mut pair, &ana(), GENERAL, "20");
            let expected: Vec<(u64, String)> = (0..21).map(|n| (first + n, n.to_string())).collect();
            assert_eq!(heard(&mut pair, client), expected, "{params:?}, room {room}, {write_max} at a time");
        }
    }
}

#[test]
fn a_second_frame_of_the_same_turn_comes_after_the_first() {
    let mut pair = batching_world();
    let client = live_bot(&mut pair);
    let before = pair.client(client).socket().writes_count();
    pair.holds_mail = true;
    say(&mut pair, &ana(), GENERAL, "1");
    say(&mut pair, &ana(), GENERAL, "2");
    say(&mut pair, &ana(), GENERAL, "3");
    // Three inputs before the flush: the first is left with the link, the others wait for it.
    pair.deliver_mail(0, 3);
    assert_eq!(heard(&mut pair, client).iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert_eq!(pair.client(client).socket().writes_count() - before, 2);
}

#[test]
fn a_close_frame_comes_after_what_was_queued() {
    for room in [40, usize::MAX] {
        let mut pair = batching_world();
        let client = live_bot(&mut pair);
        pair.client(client).socket().set_room(room);
        pair.holds_mail = true;
        say(&mut pair, &ana(), GENERAL, "last words");
        // In the same turn, after the message was left with the link.
        pair.client(client).send(99, &serde_json::Value::Null);
        pair.deliver_mail(0, 1);
        let received = pair.take(client);
        let [Received::Dispatch(dispatch), Received::Close(Some(4001), _), Received::End] = &received[..] else {
            panic!("room {room}: {received:?}")
        };
        assert_eq!(dispatch.name, "MESSAGE_CREATE");
    }
}

#[test]
fn who_hangs_up_while_a_frame_is_queued_may_resume_to_it() {
    let mut pair = batching_world();
    let client = live_bot(&mut pair);
    pair.holds_mail = true;
    say(&mut pair, &ana(), GENERAL, "into the void");
    pair.client(client).socket().cut();
    pair.deliver_mail(0, 1);
    pair.holds_mail = false;
    pair.settle();
    assert_eq!(pair.partition().conns_count(), 0);
    let (_, names) = replayed(&mut pair, client, &pro());
    assert!(names.iter().any(|(_, name)| name == "MESSAGE_CREATE"), "{names:?}");
}

#[test]
fn a_session_that_ends_while_its_frame_is_unfinished_finishes_it() {
    let mut pair = batching_world();
    let client = live_bot(&mut pair);
    let socket = pair.client(client).socket().clone();
    socket.set_room(30);
    pair.stop_reading(client);
    say(&mut pair, &ana(), GENERAL, "cut in the middle");
    pair.settle();
    assert!(socket.is_full());
    system(&mut pair, Command::RemoveMember(pro().id));
    pair.settle();
    socket.set_room(usize::MAX);
    pair.start_reading(client);
    let names = pair.names(client);
    let names: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["MESSAGE_CREATE", "GUILD_DELETE"]);
}
