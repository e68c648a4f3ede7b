//! Bans, and members that a bot adds.

use crate::test_node::{EVERYTHING, TestNode, names};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;

#[test]
fn a_banned_member_leaves_receives_no_events_and_cannot_return() {
    let mut node = TestNode::new();
    let (ana, bob, eve) = (node.user(100, "ana"), node.user(101, "bob"), node.bot(200, "eve"));
    let (watch, deaf) = (node.bot(201, "watch"), node.bot(202, "deaf"));
    let (guild, general) = node.guild(&ana, &[&bob, &eve, &watch, &deaf]);
    let role = ana.done("POST", &format!("/guilds/{guild}/roles"), json!({"permissions": "128"}));
    let role = role["id"].as_str().unwrap();
    // Members with VIEW_AUDIT_LOG receive bans.
    ana.done("PUT", &format!("/guilds/{guild}/members/{}/roles/{role}", watch.id), NOTHING);
    let say = |text: &str| ana.done("POST", &format!("/channels/{general}/messages"), json!({"content": text}));

    let mut watcher = node.connect(&watch, EVERYTHING);
    watcher.event("GUILD_CREATE");
    let mut others = node.connect(&deaf, EVERYTHING);
    others.event("GUILD_CREATE");
    let mut victim = node.connect(&eve, EVERYTHING);
    victim.event("GUILD_CREATE");
    let mut away = node.connect(&eve, EVERYTHING);
    away.event("GUILD_CREATE");
    let away = away.lose();

    let posted = eve.done("POST", &format!("/channels/{general}/messages"), json!({"content": "spam"}));
    let kept = say("kept");
    bob.refused("PUT", &format!("/guilds/{guild}/bans/{}", eve.id), json!({}), 403, 50013);
    ana.refused("PUT", &format!("/guilds/{guild}/bans/{}", ana.id), json!({}), 403, 50013);
    ana.refused("PUT", &format!("/guilds/{guild}/bans/999"), json!({}), 404, 10013);
    ana.refused("GET", &format!("/guilds/{guild}/bans/{}", eve.id), NOTHING, 404, 10026);
    let ban = json!({"delete_message_seconds": 3600});
    assert_eq!(ana.request("PUT", &format!("/guilds/{guild}/bans/{}", eve.id), ban).status, 204);

    let removed = watcher.event("GUILD_MEMBER_REMOVE");
    assert_eq!((&removed["user"]["id"], &removed["guild_id"]), (&json!(eve.id), &json!(guild)));
    let banned = watcher.event("GUILD_BAN_ADD");
    assert_eq!((&banned["user"]["id"], &banned["guild_id"]), (&json!(eve.id), &json!(guild)));
    assert_eq!(banned["delete_message_secs"], 3600);
    let gone = watcher.event("MESSAGE_DELETE_BULK");
    assert_eq!(gone, json!({"ids": [posted["id"]], "channel_id": general, "guild_id": guild}));
    say("after the ban");
    watcher.event("MESSAGE_CREATE");
    let names_of_others = others.names();
    assert!(names_of_others.contains(&"GUILD_MEMBER_REMOVE".to_owned()), "{names_of_others:?}");
    assert!(!names_of_others.contains(&"GUILD_BAN_ADD".to_owned()), "it may view neither bans nor the log");

    // Live, the victim received earlier messages, then GUILD_DELETE, then nothing.
    let all = victim.names();
    let end = all.iter().position(|name| name == "GUILD_DELETE").expect("it lost the guild");
    assert_eq!(all[end + 1..], [""; 0], "{all:?}");
    // A replay has only the GUILD_DELETE.
    let (mut back, replayed) = away.resume();
    assert_eq!(names(&replayed), ["GUILD_DELETE"], "{replayed:?}");
    assert_eq!(back.names(), [""; 0]);
    let mut again = node.connect(&eve, EVERYTHING);
    // Partitions remember a recent join: then the session receives GUILD_DELETE.
    let left = again.ready["guilds"].as_array().unwrap().len();
    (0..left).for_each(|_| assert_eq!(again.event("GUILD_DELETE"), json!({"id": guild})));
    assert_eq!(again.names(), [""; 0]);
    eve.refused("GET", &format!("/channels/{general}/messages"), NOTHING, 403, 50001);

    let history = ana.get(&format!("/channels/{general}/messages"));
    let left: Vec<&str> = history.as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(left, ["after the ban", "kept"]);
    assert_eq!(history[1]["id"], kept["id"]);
    let list = ana.get(&format!("/guilds/{guild}/bans"));
    assert_eq!((list.as_array().unwrap().len(), &list[0]["user"]["id"]), (1, &json!(eve.id)));
    ana.refused("PUT", &format!("/guilds/{guild}/members/{}", eve.id), json!({"access_token": eve.token}), 403, 40007);

    // It is kept.
    node.restart();
    let (ana, eve) = (node.again(&ana), node.again(&eve));
    ana.refused("PUT", &format!("/guilds/{guild}/members/{}", eve.id), json!({"access_token": eve.token}), 403, 40007);
    let mut watcher = node.connect(&node.again(&watch), EVERYTHING);
    watcher.event("GUILD_CREATE");
    assert_eq!(ana.request("DELETE", &format!("/guilds/{guild}/bans/{}", eve.id), NOTHING).status, 204);
    assert_eq!(watcher.event("GUILD_BAN_REMOVE")["user"]["id"], eve.id);
    ana.refused("DELETE", &format!("/guilds/{guild}/bans/{}", eve.id), NOTHING, 404, 10026);
    let joined = ana.request("PUT", &format!("/guilds/{guild}/members/{}", eve.id), json!({"access_token": eve.token}));
    assert_eq!((joined.status, &joined.body["user"]["id"]), (201, &json!(eve.id)));
    assert_eq!(watcher.event("GUILD_MEMBER_ADD")["user"]["id"], eve.id);
}

#[test]
fn a_bot_adds_members_by_their_token_with_roles_it_may_grant() {
    let node = TestNode::new();
    let (ana, bob, eve) = (node.user(100, "ana"), node.bot(101, "bob"), node.user(102, "eve"));
    let (guild, _) = node.guild(&ana, &[&bob]);
    let path = format!("/guilds/{guild}/members/{}", eve.id);
    bob.refused("PUT", &path, json!({"access_token": "nonsense"}), 403, 50025);
    bob.refused("PUT", &path, json!({"access_token": ana.token}), 403, 50025);
    bob.refused("PUT", &path, json!({}), 400, 50035);
    bob.refused("PUT", &path, json!({"access_token": eve.token, "nick": "E"}), 403, 50013);
    bob.refused("PUT", &path, json!({"access_token": eve.token, "roles": ["5"]}), 403, 50013);
    let mut session = node.connect(&eve, EVERYTHING);
    assert_eq!(ana.request("PUT", &path, json!({"access_token": eve.token, "nick": "E"})).body["nick"], "E");
    assert_eq!(session.event("GUILD_CREATE")["id"], guild, "a new member receives it at once");
    assert_eq!(bob.request("PUT", &path, json!({"access_token": eve.token})).status, 204, "already in");
    let counted = ana.get(&format!("/guilds/{guild}/prune?days=7"));
    assert_eq!(counted, json!({"pruned": 0}), "no member is inactive for that long");
}
