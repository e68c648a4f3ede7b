//! Friends, requests and blocks, over REST, in READY and in events.

use crate::test_node::{Client, Person, TestNode};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;
const LIST: &str = "/users/@me/relationships";

fn path(person: &Person) -> String {
    format!("{LIST}/{}", person.id)
}

fn kinds(list: &Value) -> Vec<(&str, u64)> {
    let kind = |of: &Value| of["type"].as_u64().expect("a kind");
    list.as_array().expect("a list").iter().map(|of| (of["id"].as_str().expect("an id"), kind(of))).collect()
}

#[track_caller]
fn done(person: &Person, method: &str, path: &str, body: Value) {
    assert_eq!(person.request(method, path, body).status, 204);
}

/// An event about another account: its kind.
#[track_caller]
fn event(client: &mut Client, name: &str, other: &Person) -> Value {
    let event = client.event(name);
    assert_eq!(event["id"], json!(other.id), "{event}");
    event
}

#[test]
fn a_request_by_name_becomes_a_friendship_of_both() {
    let mut node = TestNode::new();
    let (ana, bob, eve) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"));
    let (mut anas, mut bobs) = (node.connect(&ana, 0), node.connect(&bob, 0));
    let mut eves = node.connect(&eve, 0);
    assert_eq!(anas.ready["relationships"], json!([]));

    done(&ana, "POST", LIST, json!({"username": "bob", "discriminator": null}));
    let sent = event(&mut anas, "RELATIONSHIP_ADD", &bob);
    assert_eq!(
        (&sent["type"], &sent["user"]["username"], &sent["should_notify"]),
        (&json!(4), &json!("bob"), &json!(false))
    );
    let received = event(&mut bobs, "RELATIONSHIP_ADD", &ana);
    assert_eq!((&received["type"], &received["should_notify"]), (&json!(3), &json!(true)));
    // Once more it changes nothing.
    done(&ana, "PUT", &path(&bob), json!({}));
    assert_eq!(kinds(&ana.get(LIST)), [("101", 4)]);
    assert_eq!(bob.get(LIST)[0]["user"]["username"], "ana");

    done(&bob, "PUT", &path(&ana), json!({"type": 1}));
    assert_eq!(event(&mut anas, "RELATIONSHIP_ADD", &bob)["type"], 1);
    assert_eq!(event(&mut bobs, "RELATIONSHIP_ADD", &ana)["type"], 1);
    done(&ana, "PATCH", &path(&bob), json!({"nickname": "Bobby"}));
    let renamed = event(&mut anas, "RELATIONSHIP_UPDATE", &bob);
    assert_eq!((&renamed["nickname"], &renamed["type"]), (&json!("Bobby"), &json!(1)));
    eve.refused("PATCH", &path(&bob), json!({"nickname": "Bobby"}), 400, 80007);

    assert!(!eves.names().iter().any(|name| name.starts_with("RELATIONSHIP")), "between others");

    node.restart();
    let (ana, bob) = (node.again(&ana), node.again(&bob));
    let ready = node.connect(&ana, 0).ready;
    assert_eq!(ready["relationships"][0]["nickname"], "Bobby");
    assert_eq!(ready["relationships"][0]["user"]["username"], "bob");
    let deduplicated = Client::connect(node.addr, &bob, json!({"capabilities": 1 << 4})).ready;
    assert_eq!(deduplicated["relationships"][0]["user_id"], json!(ana.id));
    assert!(deduplicated["users"].as_array().unwrap().iter().any(|user| user["id"] == json!(ana.id)));

    let (mut anas, mut bobs) = (node.connect(&ana, 0), node.connect(&bob, 0));
    done(&bob, "DELETE", &path(&ana), NOTHING);
    assert_eq!(event(&mut anas, "RELATIONSHIP_REMOVE", &bob)["type"], 1);
    assert_eq!(event(&mut bobs, "RELATIONSHIP_REMOVE", &ana)["nickname"], NOTHING);
    assert_eq!((ana.get(LIST), bob.get(LIST)), (json!([]), json!([])));
    done(&bob, "DELETE", &path(&ana), NOTHING);
}

#[test]
fn friends_see_each_other_without_a_common_guild() {
    let node = TestNode::new();
    let (ana, bob, eve) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"));
    let (mut anas, mut eves) = (node.connect(&ana, 0), node.connect(&eve, 0));
    assert_eq!(anas.ready["presences"], json!([]));
    done(&ana, "PUT", &path(&bob), json!({}));
    done(&bob, "PUT", &path(&ana), json!({}));
    done(&eve, "PUT", &path(&bob), json!({}));
    let mut bobs = node.connect(&bob, 0);
    let online = |person: &Person| json!({"user": {"id": person.id}, "status": "online", "activities": [], "client_status": {"web": "online"}});
    assert_eq!(bobs.ready["presences"], json!([online(&ana)]));
    assert_eq!(anas.event("PRESENCE_UPDATE"), online(&bob));
    bobs.send(3, &json!({"status": "idle", "since": null, "afk": false, "activities": [{"name": "chess", "type": 0}]}));
    let idle = anas.event("PRESENCE_UPDATE");
    assert_eq!((&idle["status"], &idle["activities"][0]["name"]), (&json!("idle"), &json!("chess")));
    let capable = Client::connect(node.addr, &ana, json!({"capabilities": 1 << 4})).ready;
    assert_eq!(capable["merged_presences"]["friends"][0]["user_id"], json!(bob.id));

    // A friend no longer sees what follows.
    done(&bob, "PUT", &path(&ana), json!({"type": 2}));
    event(&mut anas, "RELATIONSHIP_REMOVE", &bob);
    done(&bob, "PUT", &path(&eve), json!({}));
    eves.event("PRESENCE_UPDATE");
    bobs.send(3, &json!({"status": "dnd", "since": null, "afk": false, "activities": []}));
    assert_eq!(eves.event("PRESENCE_UPDATE")["status"], "dnd");
    assert!(!anas.names().iter().any(|name| name == "PRESENCE_UPDATE"), "of an account that has blocked her");
    assert_eq!(node.connect(&ana, 0).ready["presences"], json!([]));
}

#[test]
fn a_block_closes_direct_messages_in_both_directions() {
    let node = TestNode::new();
    let (ana, bob, cat) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "cat"));
    let (_, channel) = node.guild(&ana, &[&bob, &cat]);
    let opened = ana.done("POST", "/users/@me/channels", json!({"recipient_id": bob.id}));
    let direct = opened["id"].as_str().unwrap();
    let messages = format!("/channels/{direct}/messages");
    let first = ana.done("POST", &messages, json!({"content": "hello"}))["id"].as_str().unwrap().to_owned();
    let group = ana.done("POST", "/users/@me/channels", json!({"recipients": [bob.id, cat.id]}));

    let mut anas = node.connect(&ana, 0);
    done(&bob, "PUT", &path(&ana), json!({"type": 2}));
    for person in [&ana, &bob] {
        person.refused("POST", &messages, json!({"content": "hello?"}), 403, 50007);
        person.refused("PUT", &format!("{messages}/{first}/reactions/%F0%9F%94%A5/@me"), NOTHING, 403, 90001);
        person.refused("POST", &format!("/channels/{direct}/typing"), NOTHING, 403, 50007);
    }
    ana.refused("PATCH", &format!("{messages}/{first}"), json!({"content": "hello!"}), 403, 50007);
    ana.refused("POST", "/users/@me/channels", json!({"recipients": [bob.id, cat.id]}), 403, 50007);
    ana.refused("PUT", &path(&bob), json!({}), 400, 80000);
    bob.refused("PUT", &path(&ana), json!({}), 400, 80001);
    // History, guilds and groups stay.
    assert_eq!(ana.get(&messages).as_array().unwrap().len(), 1);
    ana.done("POST", &format!("/channels/{channel}/messages"), json!({"content": "hello all"}));
    ana.done(
        "POST",
        &format!("/channels/{}/messages", group["id"].as_str().unwrap()),
        json!({"content": "hello both"}),
    );
    assert_eq!((ana.get(LIST), kinds(&bob.get(LIST))), (json!([]), vec![("100", 2)]));
    assert!(!anas.names().iter().any(|name| name.starts_with("RELATIONSHIP")), "the other account's block");

    done(&bob, "DELETE", &path(&ana), NOTHING);
    ana.done("POST", &messages, json!({"content": "hello again"}));
}

#[test]
fn bots_strangers_and_namesakes_are_refused() {
    let node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    node.user(102, "twin");
    node.user(103, "twin");
    let bot = node.bot(104, "helper");
    for (method, path, body) in [
        ("GET", LIST.to_owned(), NOTHING),
        ("POST", LIST.to_owned(), json!({"username": "bob"})),
        ("DELETE", LIST.to_owned(), NOTHING),
        ("PUT", path(&bob), json!({})),
        ("PATCH", path(&bob), json!({"nickname": "b"})),
        ("DELETE", path(&bob), NOTHING),
    ] {
        bot.refused(method, &path, body, 403, 20001);
    }
    ana.refused("POST", LIST, json!({"username": "helper"}), 400, 80002);
    ana.refused("PUT", &path(&bot), json!({}), 400, 80002);
    ana.refused("PUT", &path(&ana), json!({}), 400, 80003);
    ana.refused("PUT", &path(&ana), json!({"type": 2}), 400, 80003);
    ana.refused("POST", LIST, json!({"username": "nobody"}), 400, 80004);
    ana.refused("POST", LIST, json!({"username": "bob", "discriminator": "1234"}), 400, 80004);
    let twins = ana.request("POST", LIST, json!({"username": "twin"}));
    assert!(twins.body["message"].as_str().unwrap().contains("PUT /users/@me/relationships/{user_id}"), "{twins:?}");
    ana.refused("PUT", &format!("{LIST}/999"), json!({}), 404, 10013);
    ana.refused("PUT", &path(&bob), json!({"type": 3}), 400, 50035);
    ana.refused("POST", LIST, json!({}), 400, 50035);
    // All incoming requests are declined at once.
    done(&bob, "PUT", &path(&ana), json!({}));
    ana.refused("DELETE", &format!("{LIST}?relationship_type=1"), NOTHING, 400, 50035);
    done(&ana, "DELETE", &format!("{LIST}?relationship_type=3&only_spam=true"), NOTHING);
    assert_eq!(kinds(&ana.get(LIST)), [("101", 3)]);
    done(&ana, "DELETE", LIST, NOTHING);
    assert_eq!((ana.get(LIST), bob.get(LIST)), (json!([]), json!([])));
    // A blocked bot gets the same error.
    node.guild(&ana, &[&bot]);
    let direct = bot.done("POST", "/users/@me/channels", json!({"recipient_id": ana.id}));
    let messages = format!("/channels/{}/messages", direct["id"].as_str().unwrap());
    bot.done("POST", &messages, json!({"content": "buy"}));
    done(&ana, "PUT", &path(&bot), json!({"type": 2}));
    bot.refused("POST", &messages, json!({"content": "buy"}), 403, 50007);
}
