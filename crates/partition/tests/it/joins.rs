//! Accounts that join, leave and come back while connected.

use crate::fixture::*;
use guildhall_guild::{Actor, Command};
use guildhall_model::User;
use guildhall_test_kit::{ClientId, ClientParams, Hold, TestCluster, bot, id, user};
use serde_json::json;
use std::sync::Arc;

fn names_only(cluster: &mut TestCluster, client: ClientId) -> Vec<String> {
    cluster.names(client).into_iter().map(|(_, name)| name).collect()
}

/// A bot and a user who are connected but in no guild.
fn outsiders(cluster: &mut TestCluster) -> [(Arc<User>, ClientId); 2] {
    [bot(860), user(760)].map(|account| {
        cluster.add_account(&account);
        let intents = account.bot.then_some(PLAIN);
        let client = live(cluster, &account, intents, ClientParams::JSON);
        (account, client)
    })
}

fn join(cluster: &mut TestCluster, account: &Arc<User>) {
    system(cluster, Command::AddMember(account.clone()));
}

fn kick(cluster: &mut TestCluster, account: &Arc<User>) {
    system(cluster, Command::RemoveMember(account.id));
}

#[test]
fn a_new_member_receives_the_guild_and_later_events() {
    let mut cluster = world();
    for (account, client) in outsiders(&mut cluster) {
        say(&mut cluster, &ana(), GENERAL, "before");
        join(&mut cluster, &account);
        let names = names_only(&mut cluster, client);
        assert_eq!(names[0], "GUILD_CREATE", "{names:?}");
        say(&mut cluster, &ana(), GENERAL, "after");
        assert_eq!(heard(&mut cluster, client).len(), 1);
    }
}

#[test]
fn a_second_notice_of_the_same_join_changes_nothing() {
    let mut cluster = world();
    for (account, client) in outsiders(&mut cluster) {
        join(&mut cluster, &account);
        cluster.announce_joined(&account, id(GUILD));
        cluster.announce_joined(&account, id(GUILD));
        cluster.take(client);
        cluster.announce_joined(&account, id(GUILD));
        say(&mut cluster, &ana(), GENERAL, "once");
        assert_eq!(heard(&mut cluster, client).len(), 1);
    }
}

#[test]
fn a_kicked_member_loses_the_guild_and_receives_no_more_events() {
    let mut cluster = world();
    let witness = live_bot(&mut cluster);
    let plain_bot = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::ETF);
    let quiet_bot = live(&mut cluster, &gob(), Some(1 << 9), ClientParams::JSON);
    cluster.take(witness);
    kick(&mut cluster, &gob());
    say(&mut cluster, &ana(), GENERAL, "they are gone");
    let dispatches = cluster.dispatches(plain_bot);
    assert_eq!(dispatches.len(), 1, "{dispatches:?}");
    assert_eq!(
        (dispatches[0].name.as_str(), dispatches[0].d()),
        ("GUILD_DELETE", json!({"id": id::<()>(GUILD).to_string()}))
    );
    assert_eq!(names_only(&mut cluster, quiet_bot), Vec::<String>::new(), "without GUILDS not even that");
    assert_eq!(names_only(&mut cluster, witness), ["PRESENCE_UPDATE", "GUILD_MEMBER_REMOVE", "MESSAGE_CREATE"][1..]);
}

#[test]
fn a_rejoin_works_in_either_order_of_notices() {
    for notice_first in [false, true] {
        let mut cluster = world();
        let witness = live_bot(&mut cluster);
        let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
        cluster.take(witness);
        if notice_first {
            cluster.hold(Hold::Mail);
        }
        kick(&mut cluster, &gob());
        join(&mut cluster, &gob());
        // While mail is held, the node's report of the join is handled before the kick in the guild's stream.
        cluster.run_until_idle();
        cluster.release(Hold::Mail);
        assert_eq!(names_only(&mut cluster, client), ["GUILD_DELETE", "GUILD_CREATE"], "notice first: {notice_first}");
        say(&mut cluster, &ana(), GENERAL, "welcome back");
        assert_eq!(heard(&mut cluster, client).len(), 1);
    }
}

#[test]
fn a_join_between_the_token_and_its_answer_is_not_lost() {
    // As long as a connection may take to identify.
    for wait_ms in [0, 59_000] {
        let mut cluster = world();
        let account = bot(861);
        cluster.add_account(&account);
        let client = cluster.connect(ClientParams::JSON);
        cluster.hold(Hold::TokenChecks);
        cluster.client(client).identify(guildhall_test_kit::identify_payload(&account.username, Some(PLAIN)));
        cluster.run_until_idle();
        // The account's guilds were read before it joined, and the answer comes after the notice.
        cluster.read_accounts();
        join(&mut cluster, &account);
        cluster.run_until_idle();
        cluster.advance(wait_ms);
        cluster.answer_tokens();
        assert_eq!(names_only(&mut cluster, client), ["READY", "GUILD_CREATE"]);
    }
}

#[test]
fn only_the_shard_that_a_guild_belongs_to_enters_it() {
    let mut cluster = world();
    let account = bot(862);
    cluster.add_account(&account);
    let mut clients = Vec::new();
    for shard in 0..2 {
        let client = cluster.connect(ClientParams::JSON);
        let mut d = guildhall_test_kit::identify_payload(&account.username, Some(PLAIN));
        d["shard"] = json!([shard, 2]);
        cluster.client(client).identify(d);
        assert_eq!(names_only(&mut cluster, client), ["READY"]);
        clients.push(client);
    }
    join(&mut cluster, &account);
    let right = guildhall_model::shard_of(id(GUILD), 2) as usize;
    assert_eq!(names_only(&mut cluster, clients[right]), ["GUILD_CREATE"]);
    assert_eq!(names_only(&mut cluster, clients[1 - right]), Vec::<String>::new());
}

#[test]
fn all_sessions_of_an_account_come_and_go_together() {
    let mut cluster = world();
    let first = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    let second = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::ETF);
    let away = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    cluster.cut(away);
    kick(&mut cluster, &gob());
    join(&mut cluster, &gob());
    cluster.run_until_idle();
    say(&mut cluster, &ana(), GENERAL, "hi");
    for client in [first, second] {
        assert_eq!(names_only(&mut cluster, client), ["GUILD_DELETE", "GUILD_CREATE", "MESSAGE_CREATE"]);
    }
    let (_, names) = replayed(&mut cluster, away, &gob());
    let names: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["GUILD_DELETE", "GUILD_CREATE", "MESSAGE_CREATE"]);
}

#[test]
fn an_owner_cannot_be_lost_by_accident() {
    let mut cluster = world();
    let client = live(&mut cluster, &ana(), None, ClientParams::JSON);
    assert!(cluster.command(Actor::User(ana().id), Command::RemoveMember(ana().id)).is_err());
    say(&mut cluster, &ana(), HIDDEN, "still here");
    assert_eq!(heard(&mut cluster, client).len(), 1);
}

#[test]
fn a_rejoin_in_lost_messages_restores_the_guild() {
    let mut cluster = world();
    let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    // Keeps the relay.
    let witness = live_bot(&mut cluster);
    cluster.hold(Hold::Mail);
    kick(&mut cluster, &gob());
    join(&mut cluster, &gob());
    // The report arrives while the partition still counts them as members.
    cluster.run_until_idle();
    cluster.deliver_mail(0, 1);
    assert_eq!(names_only(&mut cluster, client), ["GUILD_DELETE"]);
    cluster.overflow(relay(0), id(GUILD));
    cluster.release(Hold::Mail);
    cluster.room(relay(0), id(GUILD));
    assert_eq!(names_only(&mut cluster, client), ["GUILD_CREATE"]);
    let seen = names_only(&mut cluster, witness);
    let outage: Vec<&String> =
        seen.iter().filter(|name| ["GUILD_DELETE", "GUILD_CREATE"].contains(&name.as_str())).collect();
    assert_eq!(outage, ["GUILD_DELETE", "GUILD_CREATE"], "{seen:?}");
    say(&mut cluster, &ana(), GENERAL, "welcome back");
    assert_eq!(heard(&mut cluster, client).len(), 1);
}

#[test]
fn a_late_attach_of_a_removed_member_leaves_no_session_attached() {
    let mut cluster = world();
    live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    cluster.hold(Hold::ToGuilds);
    let client = cluster.login(&pro(), Some(FULL), ClientParams::JSON);
    // Its relay's stream restarts, so it attaches again while the first request is still on its way.
    cluster.overflow(relay(0), id(GUILD));
    cluster.room(relay(0), id(GUILD));
    let _keeps_the_relay = cluster.login(&gob(), Some(PLAIN), ClientParams::JSON);
    kick(&mut cluster, &pro());
    cluster.run_until_idle();
    cluster.deliver_to_guilds(1);
    assert_eq!(names_only(&mut cluster, client), ["READY", "GUILD_DELETE"]);
    cluster.client(client).close(Some(1000));
    cluster.run_until_idle();
    join(&mut cluster, &pro());
    // Now the second one arrives: they are a member again, but there is no session any more.
    cluster.release(Hold::ToGuilds);
    cluster.deliver_to_guilds(usize::MAX);
    let watcher = live(&mut cluster, &ana(), None, ClientParams::JSON);
    let whole_list = json!({"guild_id": id::<()>(GUILD).to_string(), "query": "", "limit": 0, "presences": true});
    cluster.client(watcher).send(8, &whole_list);
    let chunks = cluster.dispatches(watcher);
    let d = chunks.last().expect("an answer").d();
    assert_eq!(listed(&d["presences"], "/user/id"), ids(&[ana(), gob()]));
}
