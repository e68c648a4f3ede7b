//! Traps that others fell into, where no other file of tests is about them. See docs/traps.md.

use crate::fixture::*;
use guildhall_guild_protocol::ToGuild;
use guildhall_test_kit::{ClientId, ClientParams, Received, id};
use serde_json::json;

/// An opcode that nobody knows ends the link that sent it, and nothing else.
#[test]
fn trap_11_an_unknown_opcode_costs_one_link_alone() {
    let mut pair = world();
    let odd = live_bot(&mut pair);
    let other = live_bot(&mut pair);
    pair.client(odd).send(99, &json!(null));
    assert_eq!(pair.close_code(odd), Some(4001));
    say(&mut pair, &ana(), GENERAL, "hello");
    assert_eq!(heard(&mut pair, other).len(), 1);
    // Its session waits for a client that knows better.
    let (_, names) = replayed(&mut pair, odd, &pro());
    assert_eq!(names.into_iter().map(|(_, name)| name).collect::<Vec<_>>(), ["MESSAGE_CREATE"]);
}

/// Heartbeats are answered, so the client has no reason to doubt. The guild knows what its relay did not get, and says so as soon as it
/// can: not with the next event, which may never come.
#[test]
fn trap_12_who_missed_something_is_told_without_waiting_for_an_event() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    pair.holds_mail = true;
    say(&mut pair, &ana(), GENERAL, "lost");
    pair.overflow(relay(0), id(GUILD));
    pair.client(client).heartbeat();
    pair.settle();
    assert_eq!(pair.take(client), [Received::HeartbeatAck]);
    pair.holds_mail = false;
    pair.room(relay(0), id(GUILD));
    pair.settle();
    assert_eq!(names(&mut pair, client), ["GUILD_DELETE", "GUILD_CREATE"], "and nothing was said since");
}

/// The same when the loss shows as a gap in the stream, and the first question about it is lost too.
#[test]
fn trap_12_a_gap_is_asked_about_until_it_is_filled() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    pair.holds_mail = true;
    say(&mut pair, &ana(), GENERAL, "lost");
    assert!(pair.lose_mail_to(relay(0)));
    pair.holds_mail = false;
    say(&mut pair, &ana(), GENERAL, "shows the gap");
    pair.settle();
    let told = names(&mut pair, client);
    assert_eq!(told, ["GUILD_DELETE", "GUILD_CREATE"], "what follows a gap is not told as if nothing were missing");
    say(&mut pair, &ana(), GENERAL, "after");
    assert_eq!(heard(&mut pair, client).len(), 1);
}

/// With any number of clients the guild has one subscription for all of them, and one request from each.
#[test]
fn trap_18_a_guild_has_one_subscription_whoever_comes() {
    let mut pair = world();
    pair.to_guilds.clear();
    let clients: Vec<ClientId> = (0..200).map(|_| live(&mut pair, &pro(), Some(FULL), ClientParams::JSON)).collect();
    let count = |of: fn(&ToGuild) -> bool| pair.to_guilds.iter().filter(|(_, message)| of(message)).count();
    assert_eq!(count(|message| matches!(message, ToGuild::Subscribe { .. })), 1);
    assert_eq!(count(|message| matches!(message, ToGuild::Attach { .. })), clients.len());
    let others =
        count(|m| !matches!(m, ToGuild::Subscribe { .. } | ToGuild::Attach { .. } | ToGuild::WantPresences { .. }));
    assert_eq!(others, 0, "{:?}", pair.to_guilds.last());
}
