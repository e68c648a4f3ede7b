//! Accounts that join, leave and come back while connected.

use crate::fixture::*;
use guildhall_guild::{Actor, Command};
use guildhall_model::User;
use guildhall_test_kit::{ClientId, ClientParams, Pair, bot, id, user};
use serde_json::json;
use std::sync::Arc;

fn names_only(pair: &mut Pair, client: ClientId) -> Vec<String> {
    pair.names(client).into_iter().map(|(_, name)| name).collect()
}

/// A bot and a user who are connected but in no guild.
fn outsiders(pair: &mut Pair) -> [(Arc<User>, ClientId); 2] {
    [bot(860), user(760)].map(|account| {
        pair.add_account(&account);
        let intents = account.bot.then_some(PLAIN);
        let client = live(pair, &account, intents, ClientParams::JSON);
        (account, client)
    })
}

fn join(pair: &mut Pair, account: &Arc<User>) {
    system(pair, Command::AddMember(account.clone()));
}

fn kick(pair: &mut Pair, account: &Arc<User>) {
    system(pair, Command::RemoveMember(account.id));
}

#[test]
fn who_joins_gets_the_guild_and_what_follows() {
    let mut pair = world();
    for (account, client) in outsiders(&mut pair) {
        say(&mut pair, &ana(), GENERAL, "before");
        join(&mut pair, &account);
        let names = names_only(&mut pair, client);
        assert_eq!(names[0], "GUILD_CREATE", "{names:?}");
        say(&mut pair, &ana(), GENERAL, "after");
        assert_eq!(heard(&mut pair, client).len(), 1);
    }
}

#[test]
fn a_second_notice_of_the_same_join_changes_nothing() {
    let mut pair = world();
    for (account, client) in outsiders(&mut pair) {
        join(&mut pair, &account);
        pair.announce_joined(&account, id(GUILD));
        pair.announce_joined(&account, id(GUILD));
        pair.take(client);
        pair.announce_joined(&account, id(GUILD));
        say(&mut pair, &ana(), GENERAL, "once");
        assert_eq!(heard(&mut pair, client).len(), 1);
    }
}

#[test]
fn who_is_kicked_loses_the_guild_and_hears_nothing_more() {
    let mut pair = world();
    let witness = live_bot(&mut pair);
    let plain_bot = live(&mut pair, &gob(), Some(PLAIN), ClientParams::ETF);
    let quiet_bot = live(&mut pair, &gob(), Some(1 << 9), ClientParams::JSON);
    pair.take(witness);
    kick(&mut pair, &gob());
    say(&mut pair, &ana(), GENERAL, "they are gone");
    let dispatches = pair.dispatches(plain_bot);
    assert_eq!(dispatches.len(), 1, "{dispatches:?}");
    assert_eq!(
        (dispatches[0].name.as_str(), dispatches[0].d()),
        ("GUILD_DELETE", json!({"id": id::<()>(GUILD).to_string()}))
    );
    assert_eq!(names_only(&mut pair, quiet_bot), Vec::<String>::new(), "without GUILDS not even that");
    assert_eq!(names_only(&mut pair, witness), ["PRESENCE_UPDATE", "GUILD_MEMBER_REMOVE", "MESSAGE_CREATE"][1..]);
}

#[test]
fn who_comes_back_is_back_whichever_notice_comes_first() {
    for notice_first in [false, true] {
        let mut pair = world();
        let witness = live_bot(&mut pair);
        let client = live(&mut pair, &gob(), Some(PLAIN), ClientParams::JSON);
        pair.take(witness);
        pair.holds_mail = notice_first;
        kick(&mut pair, &gob());
        join(&mut pair, &gob());
        // With `holds_mail` the node's report of the join is handled before the kick in the guild's stream.
        pair.settle();
        pair.holds_mail = false;
        assert_eq!(names_only(&mut pair, client), ["GUILD_DELETE", "GUILD_CREATE"], "notice first: {notice_first}");
        say(&mut pair, &ana(), GENERAL, "welcome back");
        assert_eq!(heard(&mut pair, client).len(), 1);
    }
}

#[test]
fn a_join_between_the_token_and_its_answer_is_not_lost() {
    // As long as a connection may take to identify.
    for wait_ms in [0, 59_000] {
        let mut pair = world();
        let account = bot(861);
        pair.add_account(&account);
        let client = pair.connect(ClientParams::JSON);
        pair.holds_tokens = true;
        pair.client(client).identify(guildhall_test_kit::identify_payload(&account.username, Some(PLAIN)));
        pair.settle();
        // The account's guilds were read before it joined, and the answer comes after the notice.
        pair.read_accounts();
        join(&mut pair, &account);
        pair.settle();
        pair.advance(wait_ms);
        pair.answer_tokens();
        assert_eq!(names_only(&mut pair, client), ["READY", "GUILD_CREATE"]);
    }
}

#[test]
fn only_the_shard_that_a_guild_belongs_to_enters_it() {
    let mut pair = world();
    let account = bot(862);
    pair.add_account(&account);
    let mut clients = Vec::new();
    for shard in 0..2 {
        let client = pair.connect(ClientParams::JSON);
        let mut d = guildhall_test_kit::identify_payload(&account.username, Some(PLAIN));
        d["shard"] = json!([shard, 2]);
        pair.client(client).identify(d);
        assert_eq!(names_only(&mut pair, client), ["READY"]);
        clients.push(client);
    }
    join(&mut pair, &account);
    let right = guildhall_model::shard_of(id(GUILD), 2) as usize;
    assert_eq!(names_only(&mut pair, clients[right]), ["GUILD_CREATE"]);
    assert_eq!(names_only(&mut pair, clients[1 - right]), Vec::<String>::new());
}

#[test]
fn all_sessions_of_an_account_come_and_go_together() {
    let mut pair = world();
    let first = live(&mut pair, &gob(), Some(PLAIN), ClientParams::JSON);
    let second = live(&mut pair, &gob(), Some(PLAIN), ClientParams::ETF);
    let away = live(&mut pair, &gob(), Some(PLAIN), ClientParams::JSON);
    pair.cut(away);
    kick(&mut pair, &gob());
    join(&mut pair, &gob());
    pair.settle();
    say(&mut pair, &ana(), GENERAL, "hi");
    for client in [first, second] {
        assert_eq!(names_only(&mut pair, client), ["GUILD_DELETE", "GUILD_CREATE", "MESSAGE_CREATE"]);
    }
    let (_, names) = replayed(&mut pair, away, &gob());
    let names: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["GUILD_DELETE", "GUILD_CREATE", "MESSAGE_CREATE"]);
}

#[test]
fn an_owner_cannot_be_lost_by_accident() {
    let mut pair = world();
    let client = live(&mut pair, &ana(), None, ClientParams::JSON);
    assert!(pair.command(Actor::User(ana().id), Command::RemoveMember(ana().id)).is_err());
    say(&mut pair, &ana(), HIDDEN, "still here");
    assert_eq!(heard(&mut pair, client).len(), 1);
}

#[test]
fn who_came_back_in_messages_that_were_lost_is_back() {
    let mut pair = world();
    let client = live(&mut pair, &gob(), Some(PLAIN), ClientParams::JSON);
    // Keeps the relay.
    let witness = live_bot(&mut pair);
    pair.holds_mail = true;
    kick(&mut pair, &gob());
    join(&mut pair, &gob());
    // The report arrives while the partition still counts them as members.
    pair.settle();
    pair.deliver_mail(0, 1);
    assert_eq!(names_only(&mut pair, client), ["GUILD_DELETE"]);
    pair.overflow(relay(0), id(GUILD));
    pair.holds_mail = false;
    pair.room(relay(0), id(GUILD));
    assert_eq!(names_only(&mut pair, client), ["GUILD_CREATE"]);
    let seen = names_only(&mut pair, witness);
    let outage: Vec<&String> =
        seen.iter().filter(|name| ["GUILD_DELETE", "GUILD_CREATE"].contains(&name.as_str())).collect();
    assert_eq!(outage, ["GUILD_DELETE", "GUILD_CREATE"], "{seen:?}");
    say(&mut pair, &ana(), GENERAL, "welcome back");
    assert_eq!(heard(&mut pair, client).len(), 1);
}

#[test]
fn a_request_to_enter_that_comes_late_leaves_nobody_behind() {
    let mut pair = world();
    live(&mut pair, &gob(), Some(PLAIN), ClientParams::JSON);
    pair.holds_to_guilds = true;
    let client = pair.login(&pro(), Some(FULL), ClientParams::JSON);
    // Its relay's stream restarts, so it asks again while the first request is still on its way.
    pair.overflow(relay(0), id(GUILD));
    pair.room(relay(0), id(GUILD));
    let _keeps_the_relay = pair.login(&gob(), Some(PLAIN), ClientParams::JSON);
    kick(&mut pair, &pro());
    pair.settle();
    pair.deliver_to_guilds(1);
    assert_eq!(names_only(&mut pair, client), ["READY", "GUILD_DELETE"]);
    pair.client(client).close(Some(1000));
    pair.settle();
    join(&mut pair, &pro());
    // Now the second one arrives: they are a member again, but there is no session any more.
    pair.holds_to_guilds = false;
    pair.deliver_to_guilds(usize::MAX);
    let watcher = live(&mut pair, &ana(), None, ClientParams::JSON);
    let everybody = json!({"guild_id": id::<()>(GUILD).to_string(), "query": "", "limit": 0, "presences": true});
    pair.client(watcher).send(8, &everybody);
    let chunks = pair.dispatches(watcher);
    let d = chunks.last().expect("an answer").d();
    assert_eq!(listed(&d["presences"], "/user/id"), ids(&[ana(), gob()]));
}
