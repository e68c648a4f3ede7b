//! Webhooks.

use crate::{
    support::Http,
    test_node::{EVERYTHING, TestNode},
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
    let mut untold = node.connect(&plain, EVERYTHING);
    untold.event("GUILD_CREATE");

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
