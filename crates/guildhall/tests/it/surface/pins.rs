//! Pins.

use crate::test_node::{EVERYTHING, TestNode};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;

#[test]
fn a_message_is_pinned_listed_announced_and_unpinned() {
    let mut node = TestNode::new();
    let (ana, bob, bot) = (node.user(100, "ana"), node.user(101, "bob"), node.bot(200, "bot"));
    let (guild, general) = node.guild(&ana, &[&bob, &bot]);
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    let messages = format!("/channels/{general}/messages");
    let [first, second] = ["first", "second"].map(|text| {
        let posted = bob.done("POST", &messages, json!({"content": text}));
        posted["id"].as_str().unwrap().to_owned()
    });
    bob.refused("PUT", &format!("{messages}/pins/{first}"), NOTHING, 403, 50013);
    ana.refused("PUT", &format!("{messages}/pins/12345"), NOTHING, 404, 10008);
    assert_eq!(ana.request("PUT", &format!("{messages}/pins/{first}"), NOTHING).status, 204);
    let update = client.event("MESSAGE_UPDATE");
    assert_eq!(
        (&update["id"], &update["pinned"], &update["edited_timestamp"]),
        (&json!(first), &json!(true), &NOTHING)
    );
    let pins = client.event("CHANNEL_PINS_UPDATE");
    assert_eq!((&pins["channel_id"], &pins["guild_id"]), (&json!(general), &json!(guild)));
    assert!(pins["last_pin_timestamp"].is_string(), "{pins}");
    let note = client.event("MESSAGE_CREATE");
    assert_eq!((&note["type"], &note["author"]["id"]), (&json!(6), &json!(ana.id)));
    assert_eq!(note["message_reference"]["message_id"], json!(first));
    // The older path; a repeated pin sends no event.
    assert_eq!(ana.request("PUT", &format!("/channels/{general}/pins/{second}"), NOTHING).status, 204);
    client.event("CHANNEL_PINS_UPDATE");
    client.event("MESSAGE_CREATE");
    assert_eq!(ana.request("PUT", &format!("/channels/{general}/pins/{second}"), NOTHING).status, 204);
    assert_eq!(client.names(), [""; 0]);

    node.restart();
    let (ana, bob) = (node.again(&ana), node.again(&bob));
    let mut client = node.connect(&node.again(&bot), EVERYTHING);
    client.event("GUILD_CREATE");
    let older = bob.get(&format!("/channels/{general}/pins"));
    let ids: Vec<&Value> = older.as_array().unwrap().iter().map(|message| &message["id"]).collect();
    assert_eq!(ids, [&json!(second), &json!(first)], "the newest pin first");
    let newer = bob.get(&format!("{messages}/pins?limit=1"));
    assert_eq!((&newer["has_more"], &newer["items"][0]["message"]["id"]), (&json!(true), &json!(second)));
    let before = newer["items"][0]["pinned_at"].as_str().unwrap().replace('+', "%2B");
    assert_eq!(bob.get(&format!("{messages}/pins?before={before}"))["items"][0]["message"]["id"], json!(first));
    assert!(ana.get(&format!("/channels/{general}"))["last_pin_timestamp"].is_string());

    // A deleted message loses its pin without an event.
    ana.done("DELETE", &format!("{messages}/{second}"), NOTHING);
    client.event("MESSAGE_DELETE");
    assert_eq!(bob.get(&format!("/channels/{general}/pins")).as_array().unwrap().len(), 1);
    assert_eq!(ana.request("DELETE", &format!("{messages}/pins/{first}"), NOTHING).status, 204);
    assert_eq!(client.event("MESSAGE_UPDATE")["pinned"], false);
    assert_eq!(client.event("CHANNEL_PINS_UPDATE")["last_pin_timestamp"], NOTHING);
    assert_eq!(bob.get(&format!("/channels/{general}/pins")), json!([]));
}

#[test]
fn pins_of_a_hidden_channel_are_not_announced() {
    let node = TestNode::new();
    let (ana, bot) = (node.user(100, "ana"), node.bot(200, "bot"));
    let (guild, general) = node.guild(&ana, &[&bot]);
    let hidden = json!({"name": "hidden", "permission_overwrites": [{"id": guild, "type": 0, "deny": "1024"}]});
    let hidden = ana.done("POST", &format!("/guilds/{guild}/channels"), hidden);
    let hidden = hidden["id"].as_str().unwrap();
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    let posted = ana.done("POST", &format!("/channels/{hidden}/messages"), json!({"content": "secret"}));
    ana.done("PUT", &format!("/channels/{hidden}/pins/{}", posted["id"].as_str().unwrap()), NOTHING);
    ana.done("POST", &format!("/channels/{general}/messages"), json!({"content": "open"}));
    assert_eq!(client.event("MESSAGE_CREATE")["content"], "open");
    assert_eq!(client.names(), [""; 0]);
    bot.refused("GET", &format!("/channels/{hidden}/pins"), NOTHING, 403, 50001);
}
