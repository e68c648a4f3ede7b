//! Traps that others fell into, where no other file of tests is about them. See docs/traps.md.

use crate::fixture::*;
use guildhall_guild_protocol::ToGuild;
use guildhall_test_kit::{ClientId, ClientParams, Hold, Received, id};
use serde_json::json;

/// An unknown opcode ends the connection that sent it, and nothing else.
#[test]
fn trap_11_an_unknown_opcode_costs_one_link_alone() {
    let mut cluster = world();
    let odd = live_bot(&mut cluster);
    let other = live_bot(&mut cluster);
    cluster.client(odd).send(99, &json!(null));
    assert_eq!(cluster.close_code(odd), Some(4001));
    say(&mut cluster, &ana(), GENERAL, "hello");
    assert_eq!(heard(&mut cluster, other).len(), 1);
    // Its session waits for a client that knows better.
    let (_, names) = replayed(&mut cluster, odd, &pro());
    assert_eq!(names.into_iter().map(|(_, name)| name).collect::<Vec<_>>(), ["MESSAGE_CREATE"]);
}

/// Heartbeats are answered, so the client sees no problem. The guild knows which messages its relay lost, and resets
/// the stream as soon as it can, without waiting for the next event, which may never come.
#[test]
fn trap_12_a_loss_is_repaired_without_waiting_for_an_event() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.hold(Hold::Mail);
    say(&mut cluster, &ana(), GENERAL, "lost");
    cluster.overflow(relay(0), id(GUILD));
    cluster.client(client).heartbeat();
    cluster.run_until_idle();
    assert_eq!(cluster.take(client), [Received::HeartbeatAck]);
    cluster.release(Hold::Mail);
    cluster.room(relay(0), id(GUILD));
    cluster.run_until_idle();
    assert_eq!(names(&mut cluster, client), ["GUILD_DELETE", "GUILD_CREATE"], "without a further event");
}

/// The same when the loss shows as a gap in the stream, and the first question about it is lost too.
#[test]
fn trap_12_a_resync_is_requested_until_the_gap_is_filled() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.hold(Hold::Mail);
    say(&mut cluster, &ana(), GENERAL, "lost");
    assert!(cluster.lose_mail_to(relay(0)));
    cluster.release(Hold::Mail);
    say(&mut cluster, &ana(), GENERAL, "shows the gap");
    cluster.run_until_idle();
    let received = names(&mut cluster, client);
    assert_eq!(received, ["GUILD_DELETE", "GUILD_CREATE"], "events after a gap are not sent without a reset");
    say(&mut cluster, &ana(), GENERAL, "after");
    assert_eq!(heard(&mut cluster, client).len(), 1);
}

/// With any number of clients the guild has one subscription for all of them, and one request from each.
#[test]
fn trap_18_a_guild_has_one_subscription_whoever_comes() {
    let mut cluster = world();
    cluster.to_guilds.clear();
    let clients: Vec<ClientId> = (0..200).map(|_| live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON)).collect();
    let count = |of: fn(&ToGuild) -> bool| cluster.to_guilds.iter().filter(|(_, message)| of(message)).count();
    assert_eq!(count(|message| matches!(message, ToGuild::Subscribe { .. })), 1);
    assert_eq!(count(|message| matches!(message, ToGuild::Attach { .. })), clients.len());
    let others =
        count(|m| !matches!(m, ToGuild::Subscribe { .. } | ToGuild::Attach { .. } | ToGuild::WantPresences { .. }));
    assert_eq!(others, 0, "{:?}", cluster.to_guilds.last());
}
