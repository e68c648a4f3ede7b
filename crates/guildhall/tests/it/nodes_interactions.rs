//! Interactions in a cluster: the guild, the application's session and the user who invokes are at different nodes.

use crate::{
    backend::{ANA, BOT, CHANNEL, GUILD},
    nodes::{Node, Site},
    support::{Answer, Http, wait_until},
};
use serde_json::{Value, json};

const EPHEMERAL: u64 = 64;

/// Three nodes by their part: that of the guild, of the application, of the user.
fn parts(site: &Site) -> [Node; 3] {
    let mut nodes: Vec<Node> = (1..=3).map(|count| site.add(&format!("node-{count}"), count)).collect();
    nodes.iter().for_each(|node| node.wait_for_members(3));
    nodes[0].backend().build();
    let owner = wait_until("an owner that all nodes agree on", || {
        let path = format!("/cluster/guilds/{GUILD}");
        let owners: Vec<Value> = nodes.iter().map(|node| node.backend().get(&path)["node"].clone()).collect();
        let is_one = owners.iter().all(|owner| owner.is_u64() && *owner == owners[0]);
        if is_one { Ok(owners[0].clone()) } else { Err(owners) }
    });
    let of_owner = |node: &Node| {
        let cluster = node.backend().get("/cluster");
        let own = cluster["nodes"].as_array().and_then(|all| all.iter().find(|node| node["own"] == true).cloned());
        own.is_some_and(|own| own["number"] == owner)
    };
    let at = nodes.iter().position(of_owner).expect("one of the three");
    nodes.rotate_left(at);
    nodes.try_into().unwrap_or_else(|_| panic!("three nodes"))
}

/// Answers without the token of an account.
fn call(node: &Node, method: &str, path: &str, body: &Value) -> Answer {
    let body = (!body.is_null()).then_some(body);
    Http::new(node.addr, "").request(method, &format!("/api/v10{path}"), body).expect("it answers")
}

#[test]
fn an_interaction_crosses_three_nodes() {
    let Some(site) = Site::new() else { return };
    let [of_guild, of_application, of_user] = parts(&site);
    let bot = format!("Bot {}", of_application.backend().token(BOT));
    let commands = format!("/api/v10/applications/{BOT}/commands");
    let command = json!({"name": "ping", "description": "d"});
    let command = Http::new(of_application.addr, &bot).request("POST", &commands, Some(&command)).expect("it answers");
    let mut application = of_application.session(BOT);
    application.expect_event("GUILD_CREATE");
    let mut ana = of_user.session(ANA);
    let mut of_ana = Http::new(of_user.addr, &of_user.backend().token(ANA));
    let mut invoke = |nonce: &str| {
        let data = json!({"id": command.body["id"], "name": "ping", "type": 1});
        let invocation = json!({"type": 2, "application_id": BOT, "guild_id": GUILD, "channel_id": CHANNEL,
            "nonce": nonce, "data": data});
        let answer = of_ana.request("POST", "/api/v10/interactions", Some(&invocation)).expect("it answers");
        assert_eq!(answer.status, 204, "{answer:?}");
    };
    let callback = |got: &Value| {
        let (id, token) = (got["id"].as_str().expect("an id"), got["token"].as_str().expect("a token"));
        format!("/interactions/{id}/{token}/callback")
    };

    // The answer for the user alone, at the guild's node, and its change at the application's.
    invoke("1");
    let got = application.expect_event("INTERACTION_CREATE")["d"].clone();
    let secret = json!({"type": 4, "data": {"content": format!("for <@{ANA}>"), "flags": EPHEMERAL}});
    let answered = call(&of_guild, "POST", &callback(&got), &secret);
    assert_eq!(answered.status, 204, "{answered:?}");
    let event = ana.expect_event("MESSAGE_CREATE")["d"].clone();
    assert_eq!((&event["flags"], &event["mentions"][0]["id"]), (&json!(EPHEMERAL), &json!(ANA)), "{event}");
    assert_eq!(ana.expect_event("INTERACTION_SUCCESS")["d"], json!({"id": got["id"], "nonce": "1"}));
    let hook = format!("/webhooks/{BOT}/{}", got["token"].as_str().expect("a token"));
    let changed = call(&of_application, "PATCH", &format!("{hook}/messages/@original"), &json!({"content": "changed"}));
    assert_eq!((changed.status, &changed.body["content"]), (200, &json!("changed")), "{changed:?}");
    assert_eq!(ana.expect_event("MESSAGE_UPDATE")["d"]["content"], "changed");

    // A deferred public answer, each step at another node; of two first answers one counts.
    invoke("2");
    let got = application.expect_event("INTERACTION_CREATE")["d"].clone();
    assert_eq!(call(&of_user, "POST", &callback(&got), &json!({"type": 5})).status, 204);
    let again = call(&of_guild, "POST", &callback(&got), &json!({"type": 5}));
    assert_eq!((again.status, &again.body["code"]), (400, &json!(40060)), "{again:?}");
    let hook = format!("/webhooks/{BOT}/{}", got["token"].as_str().expect("a token"));
    let done = call(&of_guild, "PATCH", &format!("{hook}/messages/@original"), &json!({"content": "done"}));
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(application.expect_event("MESSAGE_UPDATE")["d"]["id"], done.body["id"]);

    // If the bot does not answer, the user's node reports the failure, and no other node repeats it.
    invoke("3");
    let got = application.expect_event("INTERACTION_CREATE")["d"].clone();
    assert_eq!(ana.expect_event("INTERACTION_FAILURE")["d"]["id"], got["id"]);
    let late = call(&of_application, "POST", &callback(&got), &json!({"type": 5}));
    assert_eq!((late.status, &late.body["code"]), (404, &json!(10062)), "{late:?}");
}
