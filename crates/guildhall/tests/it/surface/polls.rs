//! Polls.

use crate::test_node::{EVERYTHING, TestNode};
use serde_json::{Value, json};

const POLLS: u64 = 1 << 24;

fn body(multi: bool) -> Value {
    let answers = json!([{"poll_media": {"text": "red"}}, {"poll_media": {"text": "green", "emoji": {"name": "🔥"}}}]);
    json!({"poll": {"question": {"text": "colour?"}, "answers": answers, "duration": 1, "allow_multiselect": multi}})
}

#[test]
fn a_poll_is_voted_on_counted_and_ended() {
    let mut node = TestNode::new();
    let (ana, bob, bot, deaf) =
        (node.user(100, "ana"), node.user(101, "bob"), node.bot(200, "bot"), node.bot(201, "deaf"));
    let (guild, general) = node.guild(&ana, &[&bob, &bot, &deaf]);
    let mut client = node.connect(&bot, EVERYTHING);
    let mut without = node.connect(&deaf, EVERYTHING & !POLLS);
    client.event("GUILD_CREATE");
    without.event("GUILD_CREATE");
    let messages = format!("/channels/{general}/messages");
    let posted = bot.done("POST", &messages, body(false));
    let id = posted["id"].as_str().unwrap().to_owned();
    assert_eq!(posted["poll"]["results"], json!({"answer_counts": [], "is_finalized": false}));
    let created = client.event("MESSAGE_CREATE");
    assert_eq!(created["poll"]["question"]["text"], "colour?");
    assert_eq!(created["poll"]["answers"][1]["poll_media"]["emoji"]["name"], "🔥");
    let polls = format!("/channels/{general}/polls/{id}");
    for answers in [json!(["1"]), json!([2])] {
        assert_eq!(bob.request("PUT", &format!("{polls}/answers/@me"), json!({"answer_ids": answers})).status, 204);
    }
    bot.refused("PUT", &format!("{polls}/answers/@me"), json!({"answer_ids": ["1"]}), 403, 20001);
    bob.refused("PUT", &format!("{polls}/answers/@me"), json!({"answer_ids": ["1", "2"]}), 400, 50035);
    let vote = client.event("MESSAGE_POLL_VOTE_ADD");
    assert_eq!(
        vote,
        json!({"user_id": bob.id, "channel_id": general, "message_id": id, "guild_id": guild, "answer_id": 1})
    );
    assert_eq!(client.event("MESSAGE_POLL_VOTE_REMOVE")["answer_id"], 1);
    assert_eq!(client.event("MESSAGE_POLL_VOTE_ADD")["answer_id"], 2);

    node.restart();
    let (ana, bob, bot) = (node.again(&ana), node.again(&bob), node.again(&bot));
    let voters = ana.get(&format!("{polls}/answers/2"));
    assert_eq!(voters["users"][0]["id"], bob.id);
    assert_eq!(ana.get(&format!("{polls}/answers/1")), json!({"users": []}));
    assert_eq!(ana.request("GET", &format!("{polls}/answers/9"), Value::Null).status, 404);
    let read = |by: &crate::test_node::Person| by.get(&format!("{messages}/{id}"))["poll"]["results"].clone();
    let counts =
        |me: bool, end: bool| json!({"answer_counts": [{"id": 2, "count": 1, "me_voted": me}], "is_finalized": end});
    assert_eq!((read(&bob), read(&ana)), (counts(true, false), counts(false, false)));
    assert!(bob.get(&format!("{messages}/{id}")).get("reactions").is_none());
    bob.refused("PUT", &format!("{messages}/{id}/reactions/x%3A1/@me"), Value::Null, 400, 10014);

    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    bob.refused("POST", &format!("{polls}/expire"), json!({}), 403, 50005);
    let ended = bot.done("POST", &format!("{polls}/expire"), json!({}));
    assert_eq!(ended["poll"]["results"], counts(false, true));
    assert_eq!(client.event("MESSAGE_UPDATE")["poll"]["results"], counts(false, true));
    let result = client.event("MESSAGE_CREATE");
    assert_eq!((&result["type"], &result["embeds"][0]["type"]), (&json!(46), &json!("poll_result")));
    bot.refused("POST", &format!("{polls}/expire"), json!({}), 400, 520_001);
    bob.refused("PUT", &format!("{polls}/answers/@me"), json!({"answer_ids": []}), 400, 520_001);
    assert_eq!(read(&bob), counts(true, true));
    drop(without);
}

#[test]
fn votes_need_their_intent() {
    let node = TestNode::new();
    let (ana, bob, deaf) = (node.user(100, "ana"), node.user(101, "bob"), node.bot(201, "deaf"));
    let (_, general) = node.guild(&ana, &[&bob, &deaf]);
    let mut client = node.connect(&deaf, EVERYTHING & !POLLS);
    client.event("GUILD_CREATE");
    let posted = ana.done("POST", &format!("/channels/{general}/messages"), body(true));
    let id = posted["id"].as_str().unwrap();
    bob.done("PUT", &format!("/channels/{general}/polls/{id}/answers/@me"), json!({"answer_ids": ["1", "2"]}));
    bob.done("POST", &format!("/channels/{general}/messages"), json!({"content": "later"}));
    assert_eq!(client.event("MESSAGE_CREATE")["id"], posted["id"]);
    assert_eq!(client.event("MESSAGE_CREATE")["content"], "later");
    let all = client.received();
    assert!(all.iter().all(|(name, _)| !name.starts_with("MESSAGE_POLL")), "{all:?}");
}

#[test]
fn polls_of_direct_messages_and_wrong_forms() {
    let node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (_, general) = node.guild(&ana, &[&bob]);
    let direct = ana.done("POST", "/users/@me/channels", json!({"recipient_id": bob.id}));
    let direct = direct["id"].as_str().unwrap();
    let mut client = node.connect(&bob, 0);
    let posted = ana.done("POST", &format!("/channels/{direct}/messages"), body(true));
    let id = posted["id"].as_str().unwrap();
    bob.done("PUT", &format!("/channels/{direct}/polls/{id}/answers/@me"), json!({"answer_ids": ["2"]}));
    let vote = client.event("MESSAGE_POLL_VOTE_ADD");
    assert_eq!((&vote["answer_id"], vote.get("guild_id")), (&json!(2), None));
    ana.done("POST", &format!("/channels/{direct}/polls/{id}/expire"), json!({}));
    assert_eq!(client.event("MESSAGE_UPDATE")["poll"]["results"]["is_finalized"], true);

    let wrong = |change: fn(&mut Value)| {
        let mut body = body(false);
        change(&mut body["poll"]);
        ana.refused("POST", &format!("/channels/{general}/messages"), body, 400, 50035);
    };
    wrong(|poll| poll["answers"] = json!([]));
    wrong(|poll| poll["answers"] = json!(vec![json!({"poll_media": {"text": "x"}}); 11]));
    wrong(|poll| poll["answers"][0] = json!({"poll_media": {}}));
    wrong(|poll| poll["answers"][0] = json!({"poll_media": {"emoji": {"name": "x"}}}));
    wrong(|poll| poll["question"] = json!({}));
    wrong(|poll| poll["question"]["text"] = json!("x".repeat(301)));
    wrong(|poll| poll["duration"] = json!(769));
    wrong(|poll| poll["layout_type"] = json!(2));
}
