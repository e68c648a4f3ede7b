//! Ops 14 and 37: events that a user account subscribes to, and no others (docs/protocol/reference.md §8.4).

use crate::fixture::*;
use guildhall_guild::{Actor, Command};
use guildhall_model::{Presence, Status, User};
use guildhall_test_kit::{ClientId, ClientParams, GuildBuilder, Hold, Received, TestCluster, id};
use serde_json::{Value, json};
use std::sync::Arc;

/// User accounts are passive in every guild until they look at it.
fn quiet() -> TestCluster {
    world_with(|config| config.passive_above_members = Some(0))
}

fn types(cluster: &mut TestCluster, who: &Arc<User>) {
    cluster.command(Actor::User(who.id), Command::StartTyping(channel(GENERAL))).expect("everybody may");
}

fn shows(cluster: &mut TestCluster, who: &Arc<User>, status: Status) {
    let presence = Presence { status, ..Presence::default() };
    system(cluster, Command::ShowPresence(who.id, Some(Arc::new(presence))));
}

fn watch(cluster: &mut TestCluster, client: ClientId, members: &[Arc<User>]) {
    let members: Vec<String> = members.iter().map(|member| member.id.to_string()).collect();
    subscribe(cluster, client, json!({"members": members}));
}

/// Users and status of the presences that arrived, in order. Nothing else may have arrived.
fn presences(cluster: &mut TestCluster, client: ClientId) -> Vec<(String, String)> {
    let presence = |dispatch: guildhall_test_kit::Dispatch| {
        assert_eq!(dispatch.name, "PRESENCE_UPDATE", "{dispatch:?}");
        let d = dispatch.d();
        assert_eq!(d["guild_id"], id::<()>(GUILD).to_string());
        (text(&d["user"]["id"]), text(&d["status"]))
    };
    cluster.dispatches(client).into_iter().map(presence).collect()
}

fn shown(who: &Arc<User>, status: &str) -> (String, String) {
    (who.id.to_string(), status.to_owned())
}

#[test]
fn typing_makes_active_and_an_explicit_false_passive_again() {
    let mut cluster = quiet();
    let client = live_user(&mut cluster, &bob(), 0);
    let expect = |cluster: &mut TestCluster, change: Option<Value>, expected: &[&str]| {
        if let Some(change) = change {
            subscribe(cluster, client, change);
            cluster.take(client);
        }
        types(cluster, &ana());
        say(cluster, &ana(), GENERAL, "hi");
        assert_eq!(names(cluster, client), expected);
    };
    let everything = ["TYPING_START", "MESSAGE_CREATE"];
    expect(&mut cluster, None, &[]);
    expect(&mut cluster, Some(json!({"typing": true})), &everything);
    // Whatever later requests contain, it stays until `typing` is false.
    expect(&mut cluster, Some(json!({"activities": true, "members": [], "typing": null})), &everything);
    expect(&mut cluster, Some(json!({})), &everything);
    expect(&mut cluster, Some(json!({"typing": false})), &[]);
    expect(&mut cluster, Some(json!({"threads": true, "channels": {channel(GENERAL).to_string(): [[0, 99]]}})), &[]);
    expect(&mut cluster, Some(json!({"typing": true})), &everything);
}

#[test]
fn in_a_small_guild_a_user_is_active_without_typing_events() {
    let mut cluster = world();
    let client = live_user(&mut cluster, &bob(), 0);
    types(&mut cluster, &ana());
    say(&mut cluster, &ana(), GENERAL, "hi");
    assert_eq!(names(&mut cluster, client), ["MESSAGE_CREATE"]);
    subscribe(&mut cluster, client, json!({"typing": true}));
    types(&mut cluster, &ana());
    assert_eq!(names(&mut cluster, client), ["TYPING_START"]);
    subscribe(&mut cluster, client, json!({"typing": false}));
    types(&mut cluster, &ana());
    say(&mut cluster, &ana(), GENERAL, "hi");
    assert_eq!(names(&mut cluster, client), ["MESSAGE_CREATE"]);
}

#[test]
fn the_bulk_form_says_the_same_about_several_guilds() {
    let mut cluster = quiet();
    cluster.add_guild(GuildBuilder::new(2, &ana()).member(&bob(), &[]).member(&pro(), &[]).load());
    let client = live_user(&mut cluster, &bob(), 0);
    let d = json!({"subscriptions": {
        id::<()>(1).to_string(): {"typing": true},
        id::<()>(2).to_string(): {"members": [ana().id.to_string()]},
        // It receives nothing of either guild, because it is in neither.
        id::<()>(3).to_string(): {"typing": true},
        "nonsense": {"typing": true},
    }});
    cluster.client(client).send(37, &d);
    let dispatches = cluster.dispatches(client);
    assert_eq!(dispatches.len(), 1, "{dispatches:?}");
    assert_eq!(
        (dispatches[0].name.as_str(), &dispatches[0].d()["guild_id"]),
        ("PRESENCE_UPDATE", &json!(id::<()>(2).to_string()))
    );
    let typing = Command::StartTyping(channel(GENERAL));
    cluster.command_in(id(GUILD), Actor::User(ana().id), typing).expect("everybody may");
    assert_eq!(names(&mut cluster, client), ["TYPING_START"]);
}

#[test]
fn presences_of_watched_members_are_sent_at_once_and_at_each_change() {
    let mut cluster = quiet();
    shows(&mut cluster, &ana(), Status::Idle);
    let client = live_user(&mut cluster, &bob(), 0);
    watch(&mut cluster, client, &[ana(), gob()]);
    let mut first = presences(&mut cluster, client);
    first.sort();
    assert_eq!(first, [shown(&ana(), "idle"), shown(&gob(), "offline")]);
    shows(&mut cluster, &ana(), Status::Dnd);
    shows(&mut cluster, &gob(), Status::Online);
    shows(&mut cluster, &pro(), Status::Online);
    assert_eq!(presences(&mut cluster, client), [shown(&ana(), "dnd"), shown(&gob(), "online")]);
    // Members that are watched already are not sent again; new ones are.
    watch(&mut cluster, client, &[ana(), pro()]);
    assert_eq!(presences(&mut cluster, client), [shown(&pro(), "online")]);
    shows(&mut cluster, &gob(), Status::Idle);
    shows(&mut cluster, &ana(), Status::Online);
    assert_eq!(
        presences(&mut cluster, client),
        [shown(&ana(), "online")],
        "presences of the dropped member are not sent any more"
    );
    watch(&mut cluster, client, &[]);
    shows(&mut cluster, &ana(), Status::Idle);
    shows(&mut cluster, &pro(), Status::Idle);
    assert_eq!(cluster.take(client), []);
}

#[test]
fn a_watcher_that_comes_or_goes_changes_nothing_for_the_others() {
    let mut cluster = world_with(|config| (config.passive_above_members, config.sessions_per_relay_max) = (Some(0), 2));
    let clients: Vec<ClientId> = (0..5).map(|_| live_user(&mut cluster, &bob(), 0)).collect();
    for client in &clients[..3] {
        watch(&mut cluster, *client, &[gob()]);
        assert_eq!(presences(&mut cluster, *client), [shown(&gob(), "offline")]);
    }
    cluster.client(clients[0]).close(Some(1000));
    watch(&mut cluster, clients[2], &[]);
    shows(&mut cluster, &gob(), Status::Dnd);
    for (n, client) in clients.iter().enumerate().skip(1) {
        let expected = if n == 1 { vec![shown(&gob(), "dnd")] } else { Vec::new() };
        assert_eq!(presences(&mut cluster, *client), expected, "client {n}");
    }
}

#[test]
fn member_updates_cover_watched_members_oneself_or_all() {
    let mut cluster = quiet();
    let client = live_user(&mut cluster, &bob(), 0);
    let change_all =
        |cluster: &mut TestCluster, n: &str| [ana(), bob(), gob()].iter().for_each(|who| nick(cluster, who, n));
    let updated = |cluster: &mut TestCluster, n: &str| -> Vec<String> {
        change_all(cluster, n);
        let dispatches = cluster.dispatches(client);
        assert!(dispatches.iter().all(|dispatch| dispatch.name == "GUILD_MEMBER_UPDATE"), "{dispatches:?}");
        dispatches.iter().map(|dispatch| text(&dispatch.d()["user"]["username"])).collect()
    };
    let all = [ana(), bob(), gob()].map(|user| user.username.clone());
    assert_eq!(updated(&mut cluster, "1"), all[1..2]);
    watch(&mut cluster, client, &[gob()]);
    cluster.take(client);
    assert_eq!(updated(&mut cluster, "2"), all[1..]);
    subscribe(&mut cluster, client, json!({"member_updates": true}));
    assert_eq!(updated(&mut cluster, "3"), all, "each once");
    subscribe(&mut cluster, client, json!({"member_updates": false, "members": []}));
    assert_eq!(updated(&mut cluster, "4"), all[1..2]);
}

#[test]
fn bots_may_send_what_they_like() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.to_guilds.clear();
    for d in [json!({"typing": false, "members": [bob().id.to_string()]}), json!({"members": 7})] {
        subscribe(&mut cluster, client, d);
    }
    for (op, d) in [(14, Value::Null), (14, json!([])), (37, json!({"subscriptions": 1})), (37, Value::Null)] {
        cluster.client(client).send(op, &d);
    }
    assert_eq!(cluster.take(client), []);
    assert!(cluster.to_guilds.is_empty(), "{:?}", cluster.to_guilds);
    types(&mut cluster, &ana());
    assert_eq!(names(&mut cluster, client), ["TYPING_START"], "as its intents say");
}

#[test]
fn a_subscription_to_a_foreign_guild_is_dropped() {
    let mut cluster = quiet();
    let stranger = guildhall_test_kit::user(777);
    cluster.add_account(&stranger);
    let client = live_user(&mut cluster, &stranger, 0);
    cluster.to_guilds.clear();
    subscribe(&mut cluster, client, json!({"typing": true, "member_updates": true, "members": [ana().id.to_string()]}));
    assert!(cluster.to_guilds.is_empty(), "{:?}", cluster.to_guilds);
    // It is not remembered either: a member who joins later is not watched.
    system(&mut cluster, Command::AddMember(stranger));
    assert_eq!(names(&mut cluster, client), ["GUILD_CREATE"]);
    types(&mut cluster, &ana());
    shows(&mut cluster, &ana(), Status::Online);
    assert_eq!(cluster.take(client), []);
}

#[test]
fn what_was_subscribed_to_survives_a_resume() {
    let mut cluster = quiet();
    let client = live_user(&mut cluster, &bob(), 0);
    subscribe(&mut cluster, client, json!({"typing": true, "members": [gob().id.to_string()]}));
    cluster.take(client);
    cluster.cut(client);
    shows(&mut cluster, &gob(), Status::Idle);
    types(&mut cluster, &ana());
    let (client, names_missed) = replayed(&mut cluster, client, &bob());
    let names_missed: Vec<&str> = names_missed.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names_missed, ["PRESENCE_UPDATE", "TYPING_START"]);
    types(&mut cluster, &ana());
    shows(&mut cluster, &gob(), Status::Dnd);
    shows(&mut cluster, &pro(), Status::Dnd);
    assert_eq!(names(&mut cluster, client), ["TYPING_START", "PRESENCE_UPDATE"]);
}

#[test]
fn subscriptions_survive_a_reset_and_missed_changes_are_sent() {
    let mut cluster = quiet();
    let client = live_user(&mut cluster, &bob(), 0);
    subscribe(&mut cluster, client, json!({"typing": true, "members": [gob().id.to_string()]}));
    cluster.take(client);
    cluster.overflow(relay(0), id(GUILD));
    shows(&mut cluster, &gob(), Status::Idle);
    cluster.run_until_idle();
    cluster.room(relay(0), id(GUILD));
    let dispatches = cluster.dispatches(client);
    let received: Vec<&str> = dispatches.iter().map(|dispatch| dispatch.name.as_str()).collect();
    assert_eq!(received, ["GUILD_DELETE", "GUILD_CREATE", "PRESENCE_UPDATE"]);
    assert_eq!(dispatches[2].d()["status"], "idle");
    types(&mut cluster, &ana());
    shows(&mut cluster, &gob(), Status::Dnd);
    shows(&mut cluster, &pro(), Status::Dnd);
    assert_eq!(names(&mut cluster, client), ["TYPING_START", "PRESENCE_UPDATE"]);
}

#[test]
fn what_is_subscribed_to_while_the_guild_is_out_counts_once_it_is_back() {
    let mut cluster = quiet();
    let client = live_user(&mut cluster, &bob(), 0);
    cluster.hold(Hold::ToGuilds);
    cluster.overflow(relay(0), id(GUILD));
    cluster.room(relay(0), id(GUILD));
    assert_eq!(names(&mut cluster, client), ["GUILD_DELETE"]);
    subscribe(&mut cluster, client, json!({"typing": true, "members": [gob().id.to_string()]}));
    assert_eq!(cluster.take(client), []);
    cluster.release(Hold::ToGuilds);
    cluster.deliver_to_guilds(usize::MAX);
    assert_eq!(names(&mut cluster, client), ["GUILD_CREATE", "PRESENCE_UPDATE"]);
    shows(&mut cluster, &gob(), Status::Idle);
    types(&mut cluster, &ana());
    assert_eq!(names(&mut cluster, client), ["PRESENCE_UPDATE", "TYPING_START"]);
}

#[test]
fn what_is_given_up_while_the_guild_is_out_is_not_followed_once_it_is_back() {
    let mut cluster = quiet();
    let client = live_user(&mut cluster, &bob(), 0);
    watch(&mut cluster, client, &[gob()]);
    let list = json!({"channels": {id::<()>(GENERAL).to_string(): [[0, 99]]}});
    subscribe(&mut cluster, client, list);
    cluster.hold(Hold::ToGuilds);
    cluster.overflow(relay(0), id(GUILD));
    cluster.room(relay(0), id(GUILD));
    cluster.take(client);
    subscribe(&mut cluster, client, json!({"members": [], "channels": {}}));
    cluster.release(Hold::ToGuilds);
    cluster.deliver_to_guilds(usize::MAX);
    cluster.take(client);
    nick(&mut cluster, &gob(), "other");
    shows(&mut cluster, &gob(), Status::Idle);
    assert_eq!(names(&mut cluster, client), [""; 0]);
}

#[test]
fn a_removed_member_receives_no_answers_to_earlier_requests() {
    let mut cluster = quiet();
    let client = live_user(&mut cluster, &bob(), 0);
    let _keeps_the_relay = live_user(&mut cluster, &ana(), 0);
    cluster.hold(Hold::ToGuilds);
    watch(&mut cluster, client, &[ana(), gob()]);
    // The request is under way when they go.
    system(&mut cluster, Command::RemoveMember(bob().id));
    cluster.run_until_idle();
    cluster.release(Hold::ToGuilds);
    cluster.deliver_to_guilds(usize::MAX);
    assert_eq!(names(&mut cluster, client), ["GUILD_DELETE"]);
    shows(&mut cluster, &ana(), Status::Idle);
    assert_eq!(cluster.take(client), []);
    // And when they are back it is as if they had never been there.
    system(&mut cluster, Command::AddMember(bob()));
    assert_eq!(names(&mut cluster, client), ["GUILD_CREATE"]);
    shows(&mut cluster, &ana(), Status::Dnd);
    assert_eq!(cluster.take(client), []);
}

#[test]
fn a_subscription_in_the_same_breath_as_a_close_is_harmless() {
    let mut cluster = quiet();
    let client = live_user(&mut cluster, &bob(), 0);
    let keeps_the_relay = live_user(&mut cluster, &ana(), 0);
    cluster
        .client(client)
        .send(14, &json!({"guild_id": id::<()>(GUILD).to_string(), "members": [gob().id.to_string()]}));
    cluster.client(client).close(Some(1000));
    assert!(matches!(cluster.take(client)[..], [.., Received::Close(..), Received::End]));
    cluster.to_guilds.clear();
    shows(&mut cluster, &gob(), Status::Idle);
    assert_eq!(cluster.take(keeps_the_relay), []);
    live(&mut cluster, &bob(), None, ClientParams::JSON);
    assert_eq!(cluster.partition().sessions_count(), 2);
}

#[test]
fn a_member_list_is_sent_once_and_again_after_a_reset() {
    let mut cluster = quiet();
    let client = live_user(&mut cluster, &bob(), 0);
    let _keeps_the_relay = live_user(&mut cluster, &ana(), 0);
    let rows = json!({"channels": {channel(GENERAL).to_string(): [[0, 99]]}});
    let syncs = |cluster: &mut TestCluster| -> Vec<String> {
        cluster.advance_with_heartbeats(5_000);
        let dispatches = cluster.dispatches(client);
        let ops = |dispatch: &guildhall_test_kit::Dispatch| {
            let d = dispatch.d();
            let ops = d["ops"].as_array().cloned().unwrap_or_default();
            let ops: Vec<String> = ops.iter().map(|op| text(&op["op"])).collect();
            if ops.is_empty() { vec![dispatch.name.clone()] } else { ops }
        };
        dispatches.iter().flat_map(ops).collect()
    };
    subscribe(&mut cluster, client, rows.clone());
    assert_eq!(syncs(&mut cluster), ["SYNC"]);
    subscribe(&mut cluster, client, rows);
    assert_eq!(syncs(&mut cluster), [""; 0]);
    cluster.overflow(relay(0), id(GUILD));
    cluster.room(relay(0), id(GUILD));
    assert_eq!(syncs(&mut cluster), ["GUILD_DELETE", "GUILD_CREATE", "SYNC"]);
    shows(&mut cluster, &gob(), Status::Online);
    assert!(!syncs(&mut cluster).is_empty(), "and goes on");
}
