//! Invites.

use crate::test_node::{EVERYTHING, TestNode};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;

#[test]
fn an_invite_is_created_shown_used_up_and_announced_to_bots_that_manage_the_channel() {
    let mut node = TestNode::new();
    let (ana, bob, eve, joe) =
        (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"), node.user(103, "joe"));
    let (manager, plain) = (node.bot(200, "manager"), node.bot(201, "plain"));
    let (guild, general) = node.guild(&ana, &[&bob, &manager, &plain]);
    let role = ana.done("POST", &format!("/guilds/{guild}/roles"), json!({"permissions": "16"}));
    let role = role["id"].as_str().unwrap();
    ana.done("PUT", &format!("/guilds/{guild}/members/{}/roles/{role}", manager.id), NOTHING);
    let mut manages = node.connect(&manager, EVERYTHING);
    manages.event("GUILD_CREATE");
    let mut others = node.connect(&plain, EVERYTHING);
    others.event("GUILD_CREATE");
    let mut user = node.connect(&ana, EVERYTHING);

    let path = format!("/channels/{general}/invites");
    eve.refused("POST", &path, json!({}), 403, 50001);
    ana.refused("POST", &path, json!({"max_age": -1}), 400, 50035);
    let invite = bob.done("POST", &path, json!({"max_age": 0, "max_uses": 1, "unique": true}));
    let code = invite["code"].as_str().unwrap().to_owned();
    assert_eq!(
        (&invite["inviter"]["id"], &invite["uses"], &invite["expires_at"]),
        (&json!(bob.id), &json!(0), &NOTHING)
    );
    let event = manages.event("INVITE_CREATE");
    assert_eq!((&event["code"], &event["channel_id"], &event["max_uses"]), (&json!(code), &json!(general), &json!(1)));
    let again = bob.done("POST", &path, json!({"max_age": 60}));
    assert_eq!(bob.done("POST", &path, json!({"max_age": 60}))["code"], again["code"], "a similar one will do");

    // It is kept.
    drop((manages, others, user));
    node.restart();
    let (ana, bob, eve, joe) = (node.again(&ana), node.again(&bob), node.again(&eve), node.again(&joe));
    let (manager, plain) = (node.again(&manager), node.again(&plain));
    manages = node.connect(&manager, EVERYTHING);
    manages.event("GUILD_CREATE");
    others = node.connect(&plain, EVERYTHING);
    others.event("GUILD_CREATE");
    user = node.connect(&ana, EVERYTHING);

    let shown = eve.get(&format!("/invites/{code}?with_counts=true"));
    assert_eq!((&shown["guild"]["id"], &shown["channel"]["id"]), (&json!(guild), &json!(general)));
    assert_eq!(shown["approximate_member_count"], 4);
    assert!(shown.get("uses").is_none(), "how it is used is for those who manage it: {shown}");
    eve.refused("GET", "/invites/AAAAAAAA", NOTHING, 404, 10006);
    eve.refused("GET", "/invites/no-such-code", NOTHING, 404, 10006);
    plain.refused("POST", &format!("/invites/{code}"), NOTHING, 403, 20001);
    bob.refused("GET", &format!("/guilds/{guild}/invites"), NOTHING, 403, 50013);
    bob.refused("DELETE", &format!("/invites/{code}"), NOTHING, 403, 50013);
    assert_eq!(ana.get(&format!("/guilds/{guild}/invites")).as_array().unwrap().len(), 2);
    assert_eq!(manager.get(&path).as_array().unwrap().len(), 2);

    assert_eq!(bob.done("POST", &format!("/invites/{code}"), NOTHING)["code"], json!(code), "in already");
    let mut session = node.connect(&eve, EVERYTHING);
    eve.done("POST", &format!("/invites/{code}"), NOTHING);
    assert_eq!(session.event("GUILD_CREATE")["id"], guild);
    assert_eq!(manages.event("GUILD_MEMBER_ADD")["user"]["id"], eve.id);
    assert_eq!(manages.event("INVITE_DELETE"), json!({"code": code, "channel_id": general, "guild_id": guild}));
    joe.refused("POST", &format!("/invites/{code}"), NOTHING, 404, 10006);

    let second = again["code"].as_str().unwrap();
    ana.done("PUT", &format!("/guilds/{guild}/bans/{}", joe.id), json!({}));
    joe.refused("POST", &format!("/invites/{second}"), NOTHING, 403, 40007);
    ana.done("DELETE", &format!("/invites/{second}"), NOTHING);
    assert_eq!(manages.event("INVITE_DELETE")["code"], json!(second));
    joe.refused("POST", &format!("/invites/{second}"), NOTHING, 404, 10006);

    for client in [&mut others, &mut user] {
        let names = client.names();
        assert!(!names.iter().any(|name| name.starts_with("INVITE")), "{names:?}");
    }
    // An invite goes with its channel.
    let last = bob.done("POST", &path, json!({"max_age": 60}));
    ana.done("DELETE", &format!("/channels/{general}"), NOTHING);
    joe.refused("GET", &format!("/invites/{}", last["code"].as_str().unwrap()), NOTHING, 404, 10006);
}

#[test]
fn a_temporary_member_leaves_with_their_last_session() {
    let node = TestNode::with(&[("limits.temporary_away_ms", "200"), ("limits.session_resume_ms", "0")]);
    let (ana, bob, eve) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"));
    let watcher = node.bot(200, "watcher");
    let (guild, general) = node.guild(&ana, &[&watcher]);
    let mut manages = node.connect(&watcher, EVERYTHING);
    manages.event("GUILD_CREATE");
    let invite = ana.done("POST", &format!("/channels/{general}/invites"), json!({"temporary": true}));
    assert_eq!(invite["temporary"], true);
    let path = format!("/invites/{}", invite["code"].as_str().unwrap());
    let [(mut bobs, bob), (eves, eve)] = [bob, eve].map(|guest| {
        let client = node.connect(&guest, EVERYTHING);
        guest.done("POST", &path, json!({}));
        (client, guest)
    });
    bobs.event("GUILD_CREATE");
    let role = ana.done("POST", &format!("/guilds/{guild}/roles"), json!({"name": "regular"}));
    ana.done("PUT", &format!("/guilds/{guild}/members/{}/roles/{}", eve.id, role["id"].as_str().unwrap()), NOTHING);
    drop((bobs, eves));
    assert_eq!(manages.event("GUILD_MEMBER_REMOVE")["user"]["id"], json!(bob.id));
    bob.refused("GET", &format!("/guilds/{guild}"), NOTHING, 404, 10004);
    assert_eq!(eve.get("/users/@me/guilds").as_array().unwrap().len(), 1);
    // They may come again.
    bob.done("POST", &path, json!({}));
    assert_eq!(manages.event("GUILD_MEMBER_ADD")["user"]["id"], json!(bob.id));
}
