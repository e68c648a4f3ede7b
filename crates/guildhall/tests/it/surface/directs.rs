//! Direct messages and groups.

use crate::test_node::{Client, EVERYTHING, Person, TestNode, names};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;
/// DIRECT_MESSAGES, DIRECT_MESSAGE_REACTIONS, DIRECT_MESSAGE_TYPING.
const DIRECT: u64 = 1 << 12 | 1 << 13 | 1 << 14;

/// Most of these have no guild in common.
const ANYONE: &[(&str, &str)] = &[("directs.who", "anyone")];

fn id(value: &Value) -> String {
    value["id"].as_str().expect("an id").to_owned()
}

/// Opens the direct message of two; its id.
fn open(person: &Person, other: &Person) -> String {
    id(&person.done("POST", "/users/@me/channels", json!({"recipient_id": other.id})))
}

fn say(person: &Person, channel: &str, text: &str) -> String {
    id(&person.done("POST", &format!("/channels/{channel}/messages"), json!({"content": text})))
}

/// A connection of a user account.
fn online(node: &TestNode, person: &Person) -> Client {
    Client::connect(node.addr, person, json!({}))
}

fn ids(list: &Value) -> Vec<String> {
    list.as_array().expect("a list").iter().map(id).collect()
}

#[test]
fn only_the_two_recipients_receive_a_direct_message() {
    let node = TestNode::with(ANYONE);
    let (ana, bob, eve) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"));
    node.guild(&ana, &[&bob, &eve]);
    let (mut anas, mut bobs, mut eves) = (online(&node, &ana), online(&node, &bob), online(&node, &eve));
    assert_eq!(anas.ready["private_channels"], json!([]));
    let opened = ana.done("POST", "/users/@me/channels", json!({"recipient_id": bob.id}));
    let dm = id(&opened);
    assert_eq!((&opened["type"], &opened["recipients"][0]["id"]), (&json!(1), &json!(bob.id)));
    let created = bobs.event("CHANNEL_CREATE");
    assert_eq!((&created["id"], ids(&created["recipients"])), (&json!(dm), vec![ana.id.clone()]));
    assert_eq!(anas.event("CHANNEL_CREATE")["recipients"][0]["id"], json!(bob.id));
    // Repeated requests, from either side, return the same channel and send no event.
    assert_eq!((open(&ana, &bob), open(&bob, &ana)), (dm.clone(), dm.clone()));

    let messages = format!("/channels/{dm}/messages");
    let posted = ana.done("POST", &messages, json!({"content": format!("hi <@{}>", bob.id), "nonce": "n"}));
    let event = bobs.event("MESSAGE_CREATE");
    assert_eq!((&event["id"], &event["channel_id"], &event["channel_type"]), (&posted["id"], &json!(dm), &json!(1)));
    assert_eq!((&event["author"]["id"], &event["mentions"][0]["id"]), (&json!(ana.id), &json!(bob.id)));
    for absent in ["guild_id", "member"] {
        assert!(event.get(absent).is_none(), "{absent}: {event}");
    }
    assert!(event["mentions"][0].get("member").is_none());
    assert_eq!(anas.event("MESSAGE_CREATE")["nonce"], "n");
    let message = id(&posted);

    bob.done("POST", &format!("/channels/{dm}/typing"), NOTHING);
    let typing = anas.event("TYPING_START");
    assert_eq!((&typing["user_id"], typing.get("guild_id"), typing.get("member")), (&json!(bob.id), None, None));
    bob.done("PUT", &format!("{messages}/{message}/reactions/%F0%9F%94%A5/@me"), NOTHING);
    let reaction = anas.event("MESSAGE_REACTION_ADD");
    assert_eq!((&reaction["user_id"], reaction.get("guild_id"), reaction.get("member")), (&json!(bob.id), None, None));
    bob.done("DELETE", &format!("{messages}/{message}/reactions/%F0%9F%94%A5/@me"), NOTHING);
    assert!(anas.event("MESSAGE_REACTION_REMOVE").get("guild_id").is_none());
    bob.done("PUT", &format!("{messages}/pins/{message}"), NOTHING);
    assert!(anas.event("MESSAGE_UPDATE").get("guild_id").is_none());
    assert!(anas.event("CHANNEL_PINS_UPDATE").get("guild_id").is_none());
    let note = anas.event("MESSAGE_CREATE");
    assert_eq!((&note["type"], note["message_reference"].get("guild_id")), (&json!(6), None));
    let answer = json!({"content": "yes?", "message_reference": {"message_id": message}});
    let answer = bob.done("POST", &messages, answer);
    assert_eq!((&answer["type"], answer["message_reference"].get("guild_id")), (&json!(19), None));
    assert_eq!(anas.event("MESSAGE_CREATE")["referenced_message"]["id"], json!(message));
    // A user may edit and delete only messages of their own.
    ana.done("PATCH", &format!("{messages}/{message}"), json!({"content": "hello"}));
    assert_eq!(bobs.event("MESSAGE_UPDATE")["content"], "hi <@101>", "the pin");
    assert_eq!(bobs.event("MESSAGE_UPDATE")["content"], "hello");
    bob.refused("PATCH", &format!("{messages}/{message}"), json!({"content": "x"}), 403, 50005);
    bob.refused("DELETE", &format!("{messages}/{message}"), NOTHING, 403, 50013);
    ana.done("DELETE", &format!("{messages}/{message}"), NOTHING);
    let gone = bobs.event("MESSAGE_DELETE");
    assert_eq!((&gone["id"], gone.get("guild_id")), (&json!(message), None));
    assert_eq!(ids(&bob.get(&format!("{messages}?limit=2"))).len(), 2);
    assert_eq!(bob.get(&format!("/channels/{dm}"))["last_message_id"], answer["id"]);

    // Other accounts may do nothing here, and receive nothing.
    for (method, path) in [
        ("GET", format!("/channels/{dm}")),
        ("GET", messages.clone()),
        ("POST", format!("/channels/{dm}/typing")),
        ("DELETE", format!("/channels/{dm}")),
        ("PUT", format!("/channels/{dm}/recipients/{}", eve.id)),
    ] {
        eve.refused(method, &path, NOTHING, 403, 50001);
    }
    eve.refused("POST", &messages, json!({"content": "x"}), 403, 50001);
    assert_eq!(eves.names(), [""; 0]);
}

#[test]
fn it_is_no_guild() {
    let node = TestNode::with(ANYONE);
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let dm = open(&ana, &bob);
    for path in [format!("/guilds/{dm}"), format!("/guilds/{dm}/channels"), format!("/guilds/{dm}/roles")] {
        ana.refused("GET", &path, NOTHING, 404, 10004);
    }
    ana.refused("PATCH", &format!("/guilds/{dm}"), json!({"name": "mine"}), 404, 10004);
    ana.refused("DELETE", &format!("/guilds/{dm}/members/{}", bob.id), NOTHING, 404, 10004);
    assert_eq!(ana.get("/users/@me/guilds"), json!([]));
    // What channels have and these have not.
    let invites = format!("/channels/{dm}/invites");
    ana.refused("POST", &invites, json!({}), 403, 50003);
    ana.refused("POST", &format!("/channels/{dm}/threads"), json!({"name": "t", "type": 11}), 403, 50003);
    ana.refused("POST", &format!("/channels/{dm}/webhooks"), json!({"name": "w"}), 403, 50003);
    ana.refused("PUT", &format!("/channels/{dm}/permissions/{dm}"), json!({"type": 0, "deny": "1024"}), 403, 50003);
    ana.refused("DELETE", &format!("/channels/{dm}/permissions/{dm}"), NOTHING, 403, 50003);
    ana.refused("PATCH", &format!("/channels/{dm}"), json!({"name": "us"}), 403, 50003);
    ana.refused("PUT", &format!("/channels/{dm}/recipients/{}", bob.id), NOTHING, 403, 50003);
    let both = json!({"messages": [say(&ana, &dm, "one"), say(&ana, &dm, "two")]});
    ana.refused("POST", &format!("/channels/{dm}/messages/bulk-delete"), both, 403, 50003);
    let mut anas = online(&node, &ana);
    assert_eq!(anas.ready["guilds"], json!([]));
    assert_eq!(anas.names(), [""; 0]);
}

#[test]
fn recipients_of_a_direct_message_must_be_allowed() {
    let node = TestNode::with(ANYONE);
    let (ana, bot, other) = (node.user(100, "ana"), node.bot(200, "bot"), node.bot(201, "other"));
    let path = "/users/@me/channels";
    ana.refused("POST", path, json!({}), 400, 50035);
    ana.refused("POST", path, json!({"recipient_id": "x"}), 400, 50035);
    ana.refused("POST", path, json!({"recipient_id": "999"}), 400, 50033);
    ana.refused("POST", path, json!({"recipient_id": ana.id}), 403, 50007);
    bot.refused("POST", path, json!({"recipient_id": other.id}), 403, 50007);
    bot.refused("POST", path, json!({"recipients": [ana.id, other.id]}), 403, 20001);
    ana.refused("POST", path, json!({"recipients": [bot.id, other.id]}), 403, 50007);
    // A list with one recipient is a direct message, as user clients request it.
    let dm = id(&ana.done("POST", path, json!({"recipients": [bot.id]})));
    assert_eq!(dm, open(&bot, &ana));
    assert_eq!(ids(&ana.get(path)), [dm]);
    assert_eq!(bot.get(path), json!([]));
}

#[test]
fn a_bot_receives_direct_messages_by_intent_on_its_first_shard() {
    let node = TestNode::with(ANYONE);
    let (ana, bot) = (node.user(100, "ana"), node.bot(200, "bot"));
    node.guild(&ana, &[&bot]);
    // No MESSAGE_CONTENT, and none of a guild's intents.
    let mut direct = node.connect(&bot, DIRECT);
    let mut first = Client::connect(node.addr, &bot, json!({"intents": DIRECT, "shard": [0, 2]}));
    let mut second = Client::connect(node.addr, &bot, json!({"intents": DIRECT, "shard": [1, 2]}));
    let mut messages_only = node.connect(&bot, 1 << 12);
    let mut guilds_only = node.connect(&bot, EVERYTHING & !DIRECT & !(1 << 8));
    guilds_only.await_event("GUILD_CREATE");
    assert_eq!(direct.ready["private_channels"], json!([]));
    let dm = open(&ana, &bot);
    let message = say(&ana, &dm, "secret");
    for client in [&mut direct, &mut first, &mut messages_only] {
        assert_eq!(client.event("MESSAGE_CREATE")["content"], "secret");
    }
    ana.done("POST", &format!("/channels/{dm}/typing"), NOTHING);
    ana.done("PUT", &format!("/channels/{dm}/messages/{message}/reactions/%F0%9F%94%A5/@me"), NOTHING);
    let mut anas = online(&node, &ana);
    let answer = say(&bot, &dm, "heard");
    assert_eq!(anas.event("MESSAGE_CREATE")["id"], json!(answer));
    for client in [&mut direct, &mut first] {
        assert_eq!(client.names(), ["TYPING_START", "MESSAGE_REACTION_ADD", "MESSAGE_CREATE"]);
    }
    assert_eq!(messages_only.names(), ["MESSAGE_CREATE"]);
    assert_eq!(second.names(), [""; 0]);
    assert_eq!(guilds_only.names(), ["GUILD_CREATE"]);
}

#[test]
fn closed_and_open_again() {
    let node = TestNode::with(ANYONE);
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let dm = open(&ana, &bob);
    let (mut anas, mut bobs) = (online(&node, &ana), online(&node, &bob));
    assert_eq!(ids(&anas.ready["private_channels"]), [&*dm]);
    let closed = ana.done("DELETE", &format!("/channels/{dm}"), NOTHING);
    assert_eq!(closed["id"], json!(dm));
    assert_eq!(anas.event("CHANNEL_DELETE")["id"], json!(dm));
    // A repetition sends no event, and it is not listed.
    ana.done("DELETE", &format!("/channels/{dm}"), NOTHING);
    assert_eq!(ana.get("/users/@me/channels"), json!([]));
    assert_eq!(online(&node, &ana).ready["private_channels"], json!([]));
    assert_eq!(ids(&bob.get("/users/@me/channels")), [&*dm]);
    // A message reopens the direct message first.
    say(&bob, &dm, "still there?");
    bobs.event("MESSAGE_CREATE");
    assert_eq!(names(&anas.received()), ["CHANNEL_CREATE", "MESSAGE_CREATE"]);
    ana.done("DELETE", &format!("/channels/{dm}"), NOTHING);
    anas.event("CHANNEL_DELETE");
    // So does opening it.
    assert_eq!(open(&ana, &bob), dm);
    anas.event("CHANNEL_CREATE");
    assert_eq!((anas.names(), bobs.names()), (Vec::new(), Vec::new()));
    assert_eq!(ids(&ana.get("/users/@me/channels")), [dm]);
}

#[test]
fn a_resume_replays_them_and_a_restart_keeps_them() {
    let mut node = TestNode::with(ANYONE);
    let (ana, bob, bot) = (node.user(100, "ana"), node.user(101, "bob"), node.bot(200, "bot"));
    let away = online(&node, &ana).lose();
    let bot_away = node.connect(&bot, DIRECT).lose();
    let (mut bobs, mut bots) = (online(&node, &bob), node.connect(&bot, DIRECT));
    let dm = open(&bob, &ana);
    let first = say(&bob, &dm, "first");
    let with_bot = open(&ana, &bot);
    say(&ana, &with_bot, "to a bot");
    bobs.event("MESSAGE_CREATE");
    bots.event("MESSAGE_CREATE");
    let (mut anas, replayed) = away.resume();
    assert_eq!(names(&replayed), ["CHANNEL_CREATE", "MESSAGE_CREATE", "CHANNEL_CREATE", "MESSAGE_CREATE"]);
    assert_eq!(replayed[1].1["id"], json!(first));
    assert_eq!(names(&bot_away.resume().1), ["MESSAGE_CREATE"]);
    say(&bob, &dm, "second");
    assert_eq!(anas.event("MESSAGE_CREATE")["content"], "second");

    node.restart();
    let (ana, bob) = (node.again(&ana), node.again(&bob));
    let mut anas = online(&node, &ana);
    assert_eq!(ids(&anas.ready["private_channels"]), [dm.clone(), with_bot]);
    let last = &anas.ready["private_channels"][0]["last_message_id"];
    assert_eq!(ids(&bob.get(&format!("/channels/{dm}/messages")))[0], last.as_str().expect("an id"));
    // Clients that take users apart get ids.
    let deduplicated = Client::connect(node.addr, &ana, json!({"capabilities": 1 << 4}));
    assert_eq!(deduplicated.ready["private_channels"][0]["recipient_ids"], json!([bob.id]));
    let users = ids(&deduplicated.ready["users"]);
    assert!([&ana.id, &bob.id, &bot.id].iter().all(|id| users.contains(id)), "{users:?}");
    assert_eq!(open(&ana, &bob), dm);
    say(&ana, &dm, "third");
    assert_eq!(anas.event("MESSAGE_CREATE")["content"], "third");
}

#[test]
fn groups() {
    let mut node = TestNode::with(ANYONE);
    let (ana, bob, cat) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "cat"));
    let (dan, bot) = (node.user(103, "dan"), node.bot(200, "bot"));
    let mut bobs = online(&node, &bob);
    let made = ana.done("POST", "/users/@me/channels", json!({"recipients": [bob.id, cat.id]}));
    let group = id(&made);
    assert_eq!((&made["type"], &made["name"], &made["owner_id"]), (&json!(3), &NOTHING, &json!(ana.id)));
    assert_eq!(ids(&made["recipients"]), [bob.id.clone(), cat.id.clone()]);
    assert_eq!(ids(&bobs.event("CHANNEL_CREATE")["recipients"]), [ana.id.clone(), cat.id.clone()]);
    // Another one is another one.
    assert_ne!(id(&ana.done("POST", "/users/@me/channels", json!({"recipients": [bob.id, cat.id]}))), group);
    bobs.event("CHANNEL_CREATE");
    let path = format!("/channels/{group}");

    let renamed = cat.done("PATCH", &path, json!({"name": "us"}));
    assert_eq!((&renamed["name"], &bobs.event("CHANNEL_UPDATE")["name"]), (&json!("us"), &json!("us")));
    let note = bobs.event("MESSAGE_CREATE");
    assert_eq!((&note["type"], &note["content"], &note["channel_type"]), (&json!(4), &json!("us"), &json!(3)));
    cat.refused("PATCH", &path, json!({"owner": cat.id}), 403, 50013);

    let mut dans = online(&node, &dan);
    bob.done("PUT", &format!("{path}/recipients/{}", dan.id), NOTHING);
    let added = bobs.event("CHANNEL_RECIPIENT_ADD");
    assert_eq!((&added["channel_id"], &added["user"]["id"]), (&json!(group), &json!(dan.id)));
    let note = bobs.event("MESSAGE_CREATE");
    assert_eq!((&note["type"], &note["mentions"][0]["id"]), (&json!(1), &json!(dan.id)));
    assert_eq!(names(&dans.received()), ["CHANNEL_CREATE", "MESSAGE_CREATE"]);
    // A repetition sends no event; bots and strangers are refused.
    bob.done("PUT", &format!("{path}/recipients/{}", dan.id), NOTHING);
    bob.refused("PUT", &format!("{path}/recipients/{}", bot.id), NOTHING, 403, 50007);
    bob.refused("PUT", &format!("{path}/recipients/999"), NOTHING, 400, 50033);
    bob.refused("DELETE", &format!("{path}/recipients/{}", dan.id), NOTHING, 403, 50013);

    // A removed recipient receives the removal, and nothing after it; earlier messages are not replayed either.
    say(&bob, &group, "dan hears");
    dans.event("MESSAGE_CREATE");
    let away = dans.lose();
    say(&bob, &group, "too late for dan");
    ana.done("DELETE", &format!("{path}/recipients/{}", dan.id), NOTHING);
    assert_eq!(bobs.event("CHANNEL_RECIPIENT_REMOVE")["user"]["id"], json!(dan.id));
    let last = say(&bob, &group, "not for dan");
    bobs.until("the last message", |payload| payload["t"] == "MESSAGE_CREATE" && payload["d"]["id"] == json!(last));
    let (mut dans, replayed) = away.resume();
    assert_eq!(names(&replayed), ["CHANNEL_DELETE"]);
    assert_eq!(dans.names(), [""; 0]);
    dan.refused("GET", &format!("{path}/messages"), NOTHING, 403, 50001);

    node.restart();
    let (ana, bob, cat, dan) = (node.again(&ana), node.again(&bob), node.again(&cat), node.again(&dan));
    let mut bobs = online(&node, &bob);
    assert!(ids(&bobs.ready["private_channels"]).contains(&group));
    assert!(!ids(&online(&node, &dan).ready["private_channels"]).contains(&group));
    // When the owner leaves, the longest-standing recipient becomes the owner.
    let left = ana.done("DELETE", &path, NOTHING);
    assert_eq!(left["id"], json!(group));
    assert_eq!(bobs.event("CHANNEL_RECIPIENT_REMOVE")["user"]["id"], json!(ana.id));
    assert_eq!(bobs.event("CHANNEL_UPDATE")["owner_id"], json!(bob.id));
    assert_eq!(bobs.event("MESSAGE_CREATE")["type"], 2);
    ana.refused("GET", &path, NOTHING, 403, 50001);
    bob.done("DELETE", &path, NOTHING);
    cat.done("DELETE", &path, NOTHING);
    cat.refused("GET", &path, NOTHING, 404, 10003);
}

#[test]
fn a_group_is_of_ten() {
    let node = TestNode::with(ANYONE);
    let people: Vec<Person> = (0..11).map(|n| node.user(100 + n, "somebody")).collect();
    let all: Vec<&String> = people[1..].iter().map(|person| &person.id).collect();
    people[0].refused("POST", "/users/@me/channels", json!({"recipients": all}), 400, 30004);
    let group = id(&people[0].done("POST", "/users/@me/channels", json!({"recipients": all[..8]})));
    people[0].done("PUT", &format!("/channels/{group}/recipients/{}", all[8]), NOTHING);
    people[0].refused("PUT", &format!("/channels/{group}/recipients/{}", all[9]), NOTHING, 400, 30004);
    people[0].done("DELETE", &format!("/channels/{group}/recipients/{}", all[3]), NOTHING);
    people[0].done("PUT", &format!("/channels/{group}/recipients/{}", all[9]), NOTHING);
}

#[test]
fn a_changed_account_appears_in_its_direct_messages() {
    let node = TestNode::with(ANYONE);
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let dm = open(&ana, &bob);
    say(&ana, &dm, "before");
    let mut bobs = online(&node, &bob);
    ana.done("PATCH", "/users/@me", json!({"username": "anna"}));
    say(&ana, &dm, "after");
    assert_eq!(bobs.event("MESSAGE_CREATE")["author"]["username"], "anna");
    assert_eq!(bob.get("/users/@me/channels")[0]["recipients"][0]["username"], "anna");
}

#[test]
fn s11_only_members_of_a_common_guild_are_written_to() {
    let node = TestNode::new();
    let (ana, bob, eve) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"));
    node.guild(&ana, &[&bob]);
    let path = "/users/@me/channels";
    eve.refused("POST", path, json!({"recipient_id": ana.id}), 403, 50007);
    ana.refused("POST", path, json!({"recipients": [bob.id, eve.id]}), 403, 50007);
    let dm = open(&bob, &ana);
    assert_eq!(open(&ana, &bob), dm);
    let group = node.guild(&eve, &[&ana]);
    let made = id(&ana.done("POST", path, json!({"recipients": [bob.id, eve.id]})));
    assert_ne!(made, group.0);
    // Bob and Cat share no guild.
    let cat = node.user(103, "cat");
    bob.refused("PUT", &format!("/channels/{made}/recipients/{}", cat.id), NOTHING, 403, 50007);
}

#[test]
fn s11_a_flood_of_groups_hides_no_conversation() {
    let node = TestNode::with(&[("directs.who", "anyone"), ("directs.groups_created_per_day_max", "12")]);
    let (ana, bob, eve) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"));
    let dm = open(&ana, &bob);
    let path = "/users/@me/channels";
    let group = || ana.request("POST", path, json!({"recipients": [ana.id, bob.id, eve.id]}));
    let refused = (0..20).map(|_| eve.request("POST", path, json!({"recipients": [ana.id, bob.id]})).status);
    assert_eq!(refused.filter(|status| *status == 400).count(), 8, "12 a day");
    eve.refused("POST", path, json!({"recipients": [ana.id, bob.id]}), 400, 40003);
    assert_eq!(group().status, 200, "others are not counted for it");
    say(&ana, &dm, "still here");
    assert_eq!(ids(&ana.get(path))[0], dm);
    assert_eq!(ids(&online(&node, &ana).ready["private_channels"])[0], dm);
}
