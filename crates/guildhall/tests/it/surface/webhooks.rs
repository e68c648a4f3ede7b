//! Webhooks.

use crate::{
    support::{Http, exchange},
    test_node::{EVERYTHING, Person, TestNode},
};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;

#[test]
fn made_posted_by_changed_and_deleted() {
    let mut node = TestNode::new();
    let (ana, bot, plain) = (node.user(100, "ana"), node.bot(200, "bot"), node.bot(201, "plain"));
    let (guild, general) = node.guild(&ana, &[&bot, &plain]);
    let role = ana.done("POST", &format!("/guilds/{guild}/roles"), json!({"permissions": "536870912"}));
    ana.done("PUT", &format!("/guilds/{guild}/members/{}/roles/{}", bot.id, role["id"].as_str().unwrap()), NOTHING);
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    let mut others = node.connect(&plain, EVERYTHING);
    others.event("GUILD_CREATE");

    let path = format!("/channels/{general}/webhooks");
    plain.refused("POST", &path, json!({"name": "hook"}), 403, 50013);
    bot.refused("POST", &path, json!({}), 400, 50035);
    let hook = bot.done("POST", &path, json!({"name": "hook"}));
    assert_eq!((&hook["type"], &hook["application_id"]), (&json!(1), &json!(bot.id)));
    assert_eq!(client.event("WEBHOOKS_UPDATE"), json!({"guild_id": guild, "channel_id": general}));
    let (id, token) = (hook["id"].as_str().unwrap().to_owned(), hook["token"].as_str().unwrap().to_owned());

    // A caller with the token needs no account.
    node.restart();
    let (ana, bot) = (node.again(&ana), node.again(&bot));
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    let mut anybody = Http::new(node.addr, "");
    let mut send_request = |method: &str, path: &str, body: Value| anybody.request(method, path, Some(&body)).unwrap();
    let by_token = format!("/api/v10/webhooks/{id}/{token}");
    let shown = send_request("GET", &by_token, json!({})).body;
    assert!(shown["name"] == "hook" && shown.get("user").is_none(), "{shown}");
    assert_eq!(send_request("GET", &format!("/api/v10/webhooks/{id}/wrong"), json!({})).body["code"], 50027);
    assert_eq!(send_request("GET", &format!("/api/v10/webhooks/{id}"), json!({})).status, 401);
    assert_eq!(send_request("POST", &by_token, json!({})).body["code"], 50006);
    assert_eq!(send_request("POST", &by_token, json!({"content": "quiet"})).status, 204);
    let event = client.event("MESSAGE_CREATE");
    assert_eq!((&event["webhook_id"], &event["author"]["id"]), (&json!(id), &json!(id)));
    assert_eq!((&event["author"]["username"], &event["author"]["bot"]), (&json!("hook"), &json!(true)));
    assert!(event.get("member").is_none(), "{event}");
    let post = json!({"content": "hi @everyone", "username": "somebody", "avatar_url": "https://example.net/a.png"});
    let posted = send_request("POST", &format!("{by_token}?wait=true"), post);
    assert_eq!((posted.status, &posted.body["author"]["username"]), (200, &json!("somebody")));
    assert_eq!(client.event("MESSAGE_CREATE")["mention_everyone"], true);

    let message = format!("{by_token}/messages/{}", posted.body["id"].as_str().unwrap());
    assert_eq!(send_request("GET", &message, json!({})).body["content"], "hi @everyone");
    assert_eq!(send_request("PATCH", &message, json!({"content": "changed"})).body["content"], "changed");
    assert_eq!(client.event("MESSAGE_UPDATE")["content"], "changed");
    let other = ana.done("POST", &format!("/channels/{general}/messages"), json!({"content": "mine"}));
    let other = format!("{by_token}/messages/{}", other["id"].as_str().unwrap());
    assert_eq!(send_request("DELETE", &other, json!({})).body["code"], 10008, "somebody else's");
    assert_eq!(send_request("DELETE", &message, json!({})).status, 204);
    client.event("MESSAGE_DELETE");

    assert_eq!(bot.get(&format!("/guilds/{guild}/webhooks"))[0]["id"], json!(id));
    assert_eq!(bot.done("PATCH", &format!("/webhooks/{id}"), json!({"name": "renamed"}))["name"], "renamed");
    client.event("WEBHOOKS_UPDATE");
    assert_eq!(bot.request("DELETE", &format!("/webhooks/{id}"), NOTHING).status, 204);
    client.event("WEBHOOKS_UPDATE");
    assert_eq!(send_request("POST", &by_token, json!({"content": "too late"})).body["code"], 10015);
}

#[test]
fn s21_2_an_avatar_url_is_a_link() {
    let node = TestNode::new();
    let ana = node.user(100, "ana");
    let (_, general) = node.guild(&ana, &[]);
    let hook = ana.done("POST", &format!("/channels/{general}/webhooks"), json!({"name": "hook"}));
    let path = format!("/api/v10/webhooks/{}/{}", hook["id"].as_str().unwrap(), hook["token"].as_str().unwrap());
    let mut anybody = Http::new(node.addr, "");
    for (url, status) in [
        ("https://example.net/a.png", 204),
        ("javascript:alert(1)", 400),
        ("data:text/html,x", 400),
        ("file:///etc/passwd", 400),
        ("//example.net/a.png", 400),
    ] {
        let post = json!({"content": "hi", "avatar_url": url});
        assert_eq!(anybody.request("POST", &path, Some(&post)).unwrap().status, status, "{url}");
    }
}

/// A webhook of a channel, and its path with the token.
fn hook_of(owner: &Person, channel: &str) -> String {
    let hook = owner.done("POST", &format!("/channels/{channel}/webhooks"), json!({"name": "feed"}));
    format!("/webhooks/{}/{}", hook["id"].as_str().unwrap(), hook["token"].as_str().unwrap())
}

#[test]
fn in_a_forum_it_opens_a_post_or_writes_in_one() {
    let node = TestNode::new();
    let (ana, bob, bot) = (node.user(100, "ana"), node.user(101, "bob"), node.bot(200, "bot"));
    let (guild, general) = node.guild(&ana, &[&bob, &bot]);
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    for kind in [15, 16] {
        let new = json!({"name": "forum", "type": kind, "default_auto_archive_duration": 60,
            "available_tags": [{"name": "news"}, {"name": "done", "moderated": true}]});
        let forum = ana.done("POST", &format!("/guilds/{guild}/channels"), new);
        let tags: Vec<&str> =
            forum["available_tags"].as_array().unwrap().iter().map(|tag| tag["id"].as_str().unwrap()).collect();
        let id = forum["id"].as_str().unwrap();
        let hook = hook_of(&ana, id);
        let wait = format!("{hook}?wait=true");
        let post = json!({"content": format!("hi <@{}>", bob.id), "thread_name": "release 1", "applied_tags": [tags[0]],
            "username": "builder"});
        let message = ana.done("POST", &wait, post);
        let thread = message["channel_id"].as_str().unwrap().to_owned();
        assert_eq!((&message["id"], &message["author"]["username"]), (&json!(thread), &json!("builder")));
        let created = client.event("THREAD_CREATE");
        assert_eq!((&created["id"], &created["newly_created"]), (&json!(thread), &json!(true)));
        assert_eq!(client.event("MESSAGE_CREATE")["content"], message["content"]);
        let read = bob.get(&format!("/channels/{thread}"));
        assert_eq!((&read["name"], &read["parent_id"]), (&json!("release 1"), &json!(id)));
        assert_eq!((&read["applied_tags"], &read["owner_id"]), (&json!([tags[0]]), &message["author"]["id"]));
        assert_eq!(read["thread_metadata"]["auto_archive_duration"], 60);
        // The webhook is no member of the thread; the mentioned member is.
        let members = bob.get(&format!("/channels/{thread}/thread-members"));
        let members: Vec<&Value> = members.as_array().unwrap().iter().map(|of| &of["user_id"]).collect();
        assert_eq!(members, [&json!(bob.id)]);
        // The first message is the webhook's to read, change and delete.
        let first = format!("{hook}/messages/{thread}?thread_id={thread}");
        assert_eq!(ana.get(&first)["webhook_id"], message["webhook_id"]);
        assert_eq!(ana.done("PATCH", &first, json!({"content": "changed"}))["content"], "changed");

        let into = format!("{wait}&thread_id={thread}");
        assert_eq!(ana.done("POST", &into, json!({"content": "more"}))["channel_id"], json!(thread));
        ana.refused("POST", &wait, json!({"content": "x"}), 400, 220_001);
        ana.refused("POST", &into, json!({"content": "x", "thread_name": "n"}), 400, 220_002);
        for (body, status, code) in [
            (json!({"content": "x", "thread_name": ""}), 400, 50035),
            (json!({"content": "x", "thread_name": "n".repeat(101)}), 400, 50035),
            (json!({"content": "x", "thread_name": "n", "applied_tags": ["5"]}), 400, 50035),
            (json!({"content": "x", "thread_name": "n", "applied_tags": [tags[1]]}), 403, 50013),
            (json!({"thread_name": "n"}), 400, 50006),
        ] {
            ana.refused("POST", &wait, body, status, code);
        }
        ana.done("PATCH", &format!("/channels/{id}"), json!({"flags": 16}));
        ana.refused("POST", &wait, json!({"content": "x", "thread_name": "n"}), 400, 40067);
        let active = bob.get(&format!("/guilds/{guild}/threads/active"));
        let of_forum = active["threads"].as_array().unwrap().iter().filter(|thread| thread["parent_id"] == *id);
        assert_eq!(of_forum.count(), 1, "a refused post opens no thread");
    }
    // Elsewhere there are no posts, and the text does not come out.
    let text = format!("{}?wait=true", hook_of(&ana, &general));
    let thread = bob.done("POST", &format!("/channels/{general}/threads"), json!({"name": "t", "type": 11}));
    let before = bob.get(&format!("/channels/{general}/messages")).as_array().unwrap().len();
    let named = json!({"content": "x", "thread_name": "n"});
    ana.refused("POST", &text, named.clone(), 400, 220_003);
    ana.refused("POST", &text, json!({"content": "x", "applied_tags": ["5"]}), 400, 50035);
    ana.refused("POST", &format!("{text}&thread_id={}", thread["id"].as_str().unwrap()), named, 400, 220_003);
    assert_eq!(bob.get(&format!("/channels/{general}/messages")).as_array().unwrap().len(), before);
    // A thread of another channel is not the webhook's.
    let other = ana.done("POST", &format!("/guilds/{guild}/channels"), json!({"name": "other", "type": 15}));
    let hook = hook_of(&ana, other["id"].as_str().unwrap());
    let elsewhere = format!("{hook}?thread_id={}", thread["id"].as_str().unwrap());
    ana.refused("POST", &elsewhere, json!({"content": "x"}), 404, 10003);
}

#[test]
fn a_message_opens_an_archived_thread_unless_it_is_locked() {
    let node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (_, general) = node.guild(&ana, &[&bob]);
    let hook = hook_of(&ana, &general);
    let thread = bob.done("POST", &format!("/channels/{general}/threads"), json!({"name": "feed", "type": 11}));
    let thread = thread["id"].as_str().unwrap().to_owned();
    let path = format!("/channels/{thread}");
    let into = format!("{hook}?wait=true&thread_id={thread}");
    let is_archived = || bob.get(&path)["thread_metadata"]["archived"] == true;
    let mut client = node.connect(&bob, EVERYTHING);

    ana.done("PATCH", &path, json!({"archived": true}));
    client.event("THREAD_UPDATE");
    let sent = ana.done("POST", &into, json!({"content": "x"}));
    assert!(!is_archived());
    assert_eq!(client.event("THREAD_UPDATE")["thread_metadata"]["archived"], false);
    assert_eq!(client.event("MESSAGE_CREATE")["id"], sent["id"], "after the thread is open");
    // Anything else finds it closed, as for members.
    ana.done("PATCH", &path, json!({"archived": true}));
    let own = format!("{hook}/messages/{}?thread_id={thread}", sent["id"].as_str().unwrap());
    ana.refused("PATCH", &own, json!({"content": "y"}), 403, 50083);
    ana.refused("POST", &into, json!({"content": ""}), 400, 50006);
    assert!(is_archived());

    ana.done("PATCH", &path, json!({"archived": false}));
    ana.done("PATCH", &path, json!({"archived": true, "locked": true}));
    ana.refused("POST", &into, json!({"content": "x"}), 403, 160_005);
    assert!(is_archived());
    ana.done("PATCH", &path, json!({"archived": false}));
    ana.done("POST", &into, json!({"content": "x"}));
}

#[test]
fn code_in_its_messages_has_no_mentions() {
    let node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (_, general) = node.guild(&ana, &[&bob]);
    let hook = hook_of(&ana, &general);
    let text = |code: &str| json!({"content": format!("{code}<@{}> @here{code}", bob.id)});
    let mentions =
        |message: &Value| (message["mentions"].as_array().unwrap().len(), message["mention_everyone"] == true);
    for code in ["`", "``", "```", "````"] {
        let sent = ana.done("POST", &format!("{hook}?wait=true"), text(code));
        assert_eq!(mentions(&sent), (0, false), "{sent}");
        let own = format!("{hook}/messages/{}", sent["id"].as_str().unwrap());
        assert_eq!(mentions(&ana.done("PATCH", &own, text(""))), (1, true));
        assert_eq!(mentions(&ana.done("PATCH", &own, text(code))), (0, false));
    }
}

#[test]
fn payloads_of_slack_and_github_become_messages() {
    let node = TestNode::new();
    let ana = node.user(100, "ana");
    let (_, general) = node.guild(&ana, &[]);
    let webhook = ana.done("POST", &format!("/channels/{general}/webhooks"), json!({"name": "hook"}));
    let path = format!("/webhooks/{}/{}", webhook["id"].as_str().unwrap(), webhook["token"].as_str().unwrap());
    let newest = || ana.get(&format!("/channels/{general}/messages?limit=1"))[0].clone();
    let attachment = json!({"title": "Build 5", "title_link": "https://ci.example/5", "color": "#00ff00", "ts": 1,
        "text": "<https://ci.example/log|log>", "fields": [{"title": "took", "value": "5 s", "short": true}]});
    let slack = json!({"text": "done", "username": "CI", "attachments": [attachment]});
    let answer = ana.request("POST", &format!("{path}/slack"), slack);
    assert_eq!(answer.status, 200, "{answer:?}");
    let posted = newest();
    assert_eq!((&posted["content"], &posted["author"]["username"]), (&json!("done"), &json!("CI")));
    let embed = &posted["embeds"][0];
    assert_eq!((&embed["title"], &embed["color"]), (&json!("Build 5"), &json!(0xff00)));
    assert_eq!(embed["description"], "[log](https://ci.example/log)");
    assert_eq!(embed["fields"][0], json!({"name": "took", "value": "5 s", "inline": true}));
    let form = "payload=%7B%22text%22%3A%22in+a+form%22%7D";
    let head = format!("POST /api/v10{path}/slack HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
    let kind = format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n", form.len());
    exchange(node.addr, format!("{head}{kind}{form}").as_bytes()).expect("an answer");
    assert_eq!(newest()["content"], "in a form");
    ana.refused("POST", &format!("{path}/slack"), json!({"attachments": [{"title": 5}]}), 400, 50035);
    ana.refused("POST", &format!("{path}/slack"), json!({}), 400, 50006);
    ana.refused("POST", &format!("{path}0/slack"), json!({"text": "x"}), 401, 50027);
    // Without the header it is no event.
    assert_eq!(ana.request("POST", &format!("{path}/github"), json!({"action": "opened"})).status, 204);
    assert_eq!(newest()["content"], "in a form");
}
