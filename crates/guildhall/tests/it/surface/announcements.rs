//! Forwards, published messages, and channels that follow.

use crate::test_node::{EVERYTHING, TestNode};
use serde_json::{Value, json};

fn id_of(value: &Value) -> String {
    value["id"].as_str().unwrap_or_else(|| panic!("no id: {value}")).to_owned()
}

#[test]
fn only_readers_of_a_message_forward_it() {
    let mut node = TestNode::new();
    let (ana, bob, eve, bot) =
        (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"), node.bot(200, "bot"));
    let (guild, source) = node.guild(&ana, &[&bob]);
    let (_, target) = node.guild(&eve, &[&bob, &bot]);
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    let embed = json!({"title": "t"});
    let posted =
        ana.done("POST", &format!("/channels/{source}/messages"), json!({"content": "secret", "embeds": [embed]}));
    let id = id_of(&posted);
    let forward = |id: &str| json!({"message_reference": {"type": 1, "message_id": id, "channel_id": source}});
    let messages = format!("/channels/{target}/messages");
    eve.refused("POST", &messages, forward(&id), 403, 50001);
    bob.refused("POST", &messages, forward("12345"), 404, 10008);
    let mut more = forward(&id);
    more["content"] = json!("look");
    bob.refused("POST", &messages, more, 400, 50035);
    let forwarded = bob.done("POST", &messages, forward(&id));
    for message in [&forwarded, &client.event("MESSAGE_CREATE")] {
        assert_eq!(
            (&message["content"], &message["flags"], &message["type"]),
            (&json!(""), &json!(1 << 14), &json!(0))
        );
        assert_eq!(
            message["message_reference"],
            json!({"type": 1, "message_id": id, "channel_id": source, "guild_id": guild})
        );
        let snapshot = &message["message_snapshots"][0]["message"];
        assert_eq!((&snapshot["content"], &snapshot["embeds"][0]["title"]), (&json!("secret"), &json!("t")));
        assert_eq!(snapshot["timestamp"], posted["timestamp"]);
    }
    // The copy stays when the original goes, and is forwarded in its place.
    ana.done("DELETE", &format!("/channels/{source}/messages/{id}"), Value::Null);
    let own = id_of(&forwarded);
    let again = json!({"message_reference": {"type": 1, "message_id": own}});
    let again = bob.done("POST", &messages, again);
    assert_eq!(again["message_snapshots"], forwarded["message_snapshots"]);
    assert_eq!(again["message_reference"]["message_id"], json!(id));
    bob.refused("PATCH", &format!("{messages}/{own}"), json!({"content": "other"}), 400, 50035);
    let note = id_of(&eve.get(&messages)[0]);
    eve.done("PUT", &format!("{messages}/pins/{note}"), Value::Null);
    let pin = id_of(&eve.get(&messages)[0]);
    bob.refused("POST", &messages, json!({"message_reference": {"type": 1, "message_id": pin}}), 400, 50068);

    node.restart();
    let read = node.again(&eve).get(&format!("{messages}/{own}"));
    assert_eq!(read["message_snapshots"], forwarded["message_snapshots"]);
    let webhook = node.again(&eve).done("POST", &format!("/channels/{target}/webhooks"), json!({"name": "hook"}));
    let path = format!("/webhooks/{}/{}", id_of(&webhook), webhook["token"].as_str().unwrap());
    node.again(&eve).refused("POST", &path, json!({"message_reference": {"type": 1, "message_id": own}}), 400, 50035);
}

#[test]
fn a_published_message_reaches_the_channels_that_follow() {
    let node = TestNode::new();
    let (ana, bob, eve, bot) =
        (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"), node.bot(200, "bot"));
    let (guild, general) = node.guild(&ana, &[&bob]);
    let news = json!({"name": "news", "type": 5});
    let news = id_of(&ana.done("POST", &format!("/guilds/{guild}/channels"), news));
    let (_, target) = node.guild(&bob, &[&eve, &bot]);
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    let followers = format!("/channels/{news}/followers");
    let wish = json!({"webhook_channel_id": target});
    eve.refused("POST", &followers, wish.clone(), 403, 50001);
    ana.refused("POST", &followers, wish.clone(), 403, 50001);
    bob.refused("POST", &format!("/channels/{general}/followers"), wish.clone(), 400, 50024);
    let followed = bob.done("POST", &followers, wish);
    assert_eq!(followed["channel_id"], json!(news));
    assert_eq!(client.event("MESSAGE_CREATE")["type"], 12);
    let webhook = &bob.get(&format!("/channels/{target}/webhooks"))[0];
    assert_eq!((&webhook["type"], &webhook["id"], webhook.get("token")), (&json!(2), &followed["webhook_id"], None));
    assert_eq!((&webhook["source_channel"]["id"], &webhook["source_guild"]["id"]), (&json!(news), &json!(guild)));

    let posted = id_of(&ana.done("POST", &format!("/channels/{news}/messages"), json!({"content": "hear"})));
    let path = format!("/channels/{news}/messages/{posted}/crosspost");
    bob.refused("POST", &path, Value::Null, 403, 50013);
    let published = ana.done("POST", &path, Value::Null);
    assert_eq!(published["flags"], 1);
    ana.refused("POST", &path, Value::Null, 400, 40033);
    let copy = client.event("MESSAGE_CREATE");
    assert_eq!((&copy["content"], &copy["flags"]), (&json!("hear"), &json!(2)));
    assert_eq!((&copy["webhook_id"], &copy["author"]["username"]), (&followed["webhook_id"], &json!("node #news")));
    assert_eq!(copy["message_reference"]["message_id"], json!(posted));

    // A follower without its webhook is removed.
    let webhook = followed["webhook_id"].as_str().unwrap();
    bob.done("DELETE", &format!("/webhooks/{webhook}"), Value::Null);
    let posted = id_of(&ana.done("POST", &format!("/channels/{news}/messages"), json!({"content": "again"})));
    ana.done("POST", &format!("/channels/{news}/messages/{posted}/crosspost"), Value::Null);
    bob.done("POST", &format!("/channels/{target}/messages"), json!({"content": "later"}));
    assert_eq!(client.event("MESSAGE_CREATE")["content"], "later");
}
