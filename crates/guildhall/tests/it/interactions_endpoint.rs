//! Interactions by HTTP: applications with a URL of their own, which is this test.

use crate::{
    http_sink::{Received, Reply, Sink},
    support::{Answer, Http},
    test_node::{Client, Person, TestNode},
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const PRIVATE: (&str, &str) = ("interactions.private_endpoints", "on");
const APPLICATION: &str = "/applications/@me";

/// Answers by the names of commands.
fn decide(received: &Received) -> Reply {
    let body = &received.body;
    let text = |name: &str| Some((200, json!({"type": 4, "data": {"content": name}}).to_string()));
    match (body["type"].as_u64(), body["data"]["name"].as_str().unwrap_or_default()) {
        (Some(1), _) => Some((200, json!({"type": 1}).to_string())),
        (Some(2), "later") => Some((202, String::new())),
        (Some(2), "silent") => None,
        (Some(2), "broken") => Some((500, String::new())),
        (Some(2), "wrong") => Some((200, json!({"type": 7, "data": {"content": "x"}}).to_string())),
        (Some(2), "odd") => Some((200, "no JSON".to_owned())),
        (Some(2), "large") => text(&"x".repeat(200 << 10)),
        (Some(2), "file") => Some((200, form_data("files[0]"))),
        (Some(2), "torn") => Some((200, "--XX\r\nContent-Disposition: form-data; name=\"files[0]\"".to_owned())),
        (Some(2), "moved") => Some((302, String::new())),
        (Some(2), "press") => {
            let button = json!({"type": 2, "style": 1, "label": "p", "custom_id": "p"});
            let row = json!([{"type": 1, "components": [button]}]);
            Some((200, json!({"type": 4, "data": {"content": "press", "components": row}}).to_string()))
        }
        (Some(2), name) => text(name),
        (Some(3), _) => Some((200, json!({"type": 7, "data": {"content": "pressed", "components": []}}).to_string())),
        (Some(4), _) => Some((200, json!({"type": 8, "data": {"choices": [{"name": "n", "value": "v"}]}}).to_string())),
        _ => Some((400, String::new())),
    }
}

const NAMES: [&str; 12] =
    ["ping", "later", "silent", "broken", "wrong", "odd", "large", "moved", "press", "find", "file", "torn"];

/// A callback with a file.
fn form_data(field: &str) -> String {
    let callback = json!({"type": 4, "data": {"content": "see", "attachments": [{"id": 0, "description": "notes"}]}});
    let part =
        |headers: &str, body: &str| format!("--XX\r\nContent-Disposition: form-data; {headers}\r\n\r\n{body}\r\n");
    let file = part(&format!("name=\"{field}\"; filename=\"a.txt\"\r\nContent-Type: text/plain"), "of the bot");
    format!("{}{file}--XX--\r\n", part("name=\"payload_json\"", &callback.to_string()))
}

struct Stage {
    node: TestNode,
    ana: Person,
    bot: Person,
    guild: String,
    channel: String,
    commands: Value,
    of_ana: Client,
    of_bot: Client,
    key: String,
}

impl Stage {
    fn new() -> Self {
        let node = TestNode::with(&[PRIVATE]);
        let (ana, bot) = (node.user(100, "ana"), node.bot(200, "bot"));
        let (guild, channel) = node.guild(&ana, &[&bot]);
        let command = |name: &&str| match *name {
            "find" => json!({"name": "find", "description": "d", "options": [
                {"type": 3, "name": "word", "description": "d", "autocomplete": true}]}),
            name => json!({"name": name, "description": "d"}),
        };
        let commands: Vec<Value> = NAMES.iter().map(command).collect();
        let commands = bot.done("PUT", &format!("/applications/{}/commands", bot.id), json!(commands));
        let mut of_bot = node.connect(&bot, 1);
        of_bot.event("GUILD_CREATE");
        let of_ana = Client::connect(node.addr, &ana, json!({"capabilities": 16381}));
        let key = bot.get(APPLICATION)["verify_key"].as_str().expect("a key").to_owned();
        Self { node, ana, bot, guild, channel, commands, of_ana, of_bot, key }
    }

    /// A server that accepts requests with this application's signature.
    fn sink(&self) -> Sink {
        let key = self.key.clone();
        Sink::start_with(move |received| match received.is_of_application(&key) {
            true => decide(received),
            false => Some((401, String::new())),
        })
    }

    fn use_url(&self, sink: &Sink) {
        let application = self.bot.done("PATCH", APPLICATION, json!({"interactions_endpoint_url": sink.url()}));
        assert_eq!(application["interactions_endpoint_url"], sink.url());
        assert_eq!([sink.next(), sink.next()].map(|ping| ping.body["type"].clone()), [json!(1), json!(1)]);
    }

    fn invoke(&self, kind: u8, name: &str, data: Value) {
        let command = self.commands.as_array().expect("a list").iter().find(|command| command["name"] == name);
        let command = command.expect("a command");
        let mut whole = json!({"id": command["id"], "version": command["version"], "name": name, "type": 1});
        whole.as_object_mut().expect("an object").extend(data.as_object().expect("an object").clone());
        let request = json!({"type": kind, "application_id": self.bot.id, "guild_id": self.guild,
            "channel_id": self.channel, "nonce": name, "data": whole});
        assert_eq!(self.ana.request("POST", "/interactions", request).status, 204);
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        Http::new(self.node.addr, "").request(method, &format!("/api/v10{path}"), Some(body)).expect("it answers")
    }
}

#[test]
fn e3_a_response_is_the_answer() {
    let mut stage = Stage::new();
    let sink = stage.sink();
    stage.use_url(&sink);
    stage.invoke(2, "ping", json!({}));
    let got = sink.next();
    assert!(got.is_of_application(&stage.key) && got.headers["content-type"] == "application/json", "{got:?}");
    assert_eq!((&got.body["type"], &got.body["data"]["name"]), (&json!(2), &json!("ping")));
    assert_eq!(got.body["member"]["user"]["id"], json!(stage.ana.id));
    let success = stage.of_ana.event("INTERACTION_SUCCESS");
    assert_eq!(success, json!({"id": got.body["id"], "nonce": "ping"}));
    let path = format!("/channels/{}/messages", stage.channel);
    let message = stage.ana.get(&path)[0].clone();
    assert_eq!((&message["content"], &message["author"]["id"]), (&json!("ping"), &json!(stage.bot.id)));
    assert_eq!(message["interaction_metadata"]["id"], got.body["id"]);

    // The token works as of any interaction, for one first answer.
    let (id, token) = (got.body["id"].as_str().expect("an id"), got.body["token"].as_str().expect("a token"));
    let again = stage.call("POST", &format!("/interactions/{id}/{token}/callback"), &json!({"type": 5}));
    assert_eq!((again.status, &again.body["code"]), (400, &json!(40060)));
    let followup = stage.call("POST", &format!("/webhooks/{}/{token}", stage.bot.id), &json!({"content": "more"}));
    assert_eq!(followup.status, 200, "{followup:?}");

    // Without a body it is given by the callback's route.
    stage.invoke(2, "later", json!({}));
    let got = sink.next().body;
    let (id, token) = (got["id"].as_str().expect("an id"), got["token"].as_str().expect("a token"));
    let answered = stage.call("POST", &format!("/interactions/{id}/{token}/callback"), &json!({"type": 5}));
    assert_eq!(answered.status, 204, "{answered:?}");
    assert_eq!(stage.of_ana.event("INTERACTION_SUCCESS")["nonce"], "later");

    // Options are completed, and components used.
    let typed = json!({"options": [{"type": 3, "name": "word", "value": "w", "focused": true}]});
    stage.invoke(4, "find", typed);
    sink.next();
    let choices = stage.of_ana.event("APPLICATION_COMMAND_AUTOCOMPLETE_RESPONSE");
    assert_eq!(choices["choices"], json!([{"name": "n", "value": "v"}]));
    stage.invoke(2, "press", json!({}));
    sink.next();
    let message = stage.of_ana.until("the button", |payload| payload["d"]["content"] == "press")["d"].clone();
    let pressed = json!({"type": 3, "application_id": stage.bot.id, "guild_id": stage.guild, "nonce": "pressed",
        "channel_id": stage.channel, "message_id": message["id"], "data": {"component_type": 2, "custom_id": "p"}});
    assert_eq!(stage.ana.request("POST", "/interactions", pressed).status, 204);
    let update = stage.of_ana.until("the change", |payload| payload["t"] == "MESSAGE_UPDATE");
    assert_eq!(update["d"]["content"], "pressed");
    sink.next();

    // The gateway got none of them (E2), and gets them again without the URL.
    let application = stage.bot.done("PATCH", APPLICATION, json!({"interactions_endpoint_url": null}));
    assert_eq!(application["interactions_endpoint_url"], Value::Null);
    stage.invoke(2, "ping", json!({}));
    let before = stage.of_bot.dispatches_until("an interaction", |payload| payload["t"] == "INTERACTION_CREATE");
    assert!(before.iter().all(|(name, _)| name == "MESSAGE_CREATE" || name == "MESSAGE_UPDATE"), "{before:?}");
    assert!(sink.rest().is_empty());
}

#[test]
fn e3_a_response_may_have_files() {
    let mut stage = Stage::new();
    let sink = stage.sink();
    stage.use_url(&sink);
    stage.invoke(2, "file", json!({}));
    assert_eq!(stage.of_ana.event("INTERACTION_SUCCESS")["nonce"], "file");
    let message = stage.ana.get(&format!("/channels/{}/messages", stage.channel))[0].clone();
    let attachment = &message["attachments"][0];
    assert_eq!((&message["content"], &attachment["filename"]), (&json!("see"), &json!("a.txt")));
    assert_eq!((&attachment["size"], &attachment["description"]), (&json!(10), &json!("notes")));
}

#[test]
fn what_is_no_answer_is_a_failure_at_once() {
    let mut stage = Stage::new();
    let sink = stage.sink();
    stage.use_url(&sink);
    for name in ["broken", "wrong", "odd", "large", "moved", "torn", "silent"] {
        stage.invoke(2, name, json!({}));
        assert_eq!(stage.of_ana.event("INTERACTION_FAILURE")["nonce"], name);
        // It is too late for another answer.
        let got = sink.next().body;
        let (id, token) = (got["id"].as_str().expect("an id"), got["token"].as_str().expect("a token"));
        let late = stage.call("POST", &format!("/interactions/{id}/{token}/callback"), &json!({"type": 5}));
        assert_eq!((late.status, &late.body["code"]), (404, &json!(10062)), "{name}");
    }
    assert_eq!(stage.ana.get(&format!("/channels/{}/messages", stage.channel)), json!([]));
}

#[test]
fn e1_a_url_proves_itself_first() {
    let stage = Stage::new();
    let refused = |url: &str, why: &str| {
        let form = json!({"interactions_endpoint_url": url});
        let answer = stage.bot.request("PATCH", APPLICATION, form);
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!(50035)), "{url}: {answer:?}");
        assert!(answer.body["errors"]["interactions_endpoint_url"].to_string().contains(why), "{url}: {answer:?}");
        assert_eq!(stage.bot.get(APPLICATION)["interactions_endpoint_url"], Value::Null, "{url}");
    };
    // It accepts any signature.
    let trusting = Sink::start(|_| Some((200, json!({"type": 1}).to_string())));
    refused(&trusting.url(), "wrong signature");
    // It accepts none.
    let closed = Sink::start(|_| Some((401, String::new())));
    refused(&closed.url(), "it answered 401");
    // It verifies, and does not know PING.
    let key = stage.key.clone();
    let other = Sink::start_with(move |received| match received.is_of_application(&key) {
        true => Some((200, "{}".to_owned())),
        false => Some((401, String::new())),
    });
    refused(&other.url(), "PING");
    refused("http://127.0.0.1:1/", "cannot be reached");
    refused("https://user@example.net/", "without a user");
    refused("ftp://example.net/", "https://");
    stage.ana.refused("PATCH", APPLICATION, json!({}), 403, 20002);
    // Another application's key does not open it.
    let good = stage.sink();
    let stranger = stage.node.bot(201, "stranger");
    let answer = stranger.request("PATCH", APPLICATION, json!({"interactions_endpoint_url": good.url()}));
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_ne!(stranger.get(APPLICATION)["verify_key"], json!(stage.key));
    stage.use_url_after(&good);
}

impl Stage {
    /// `use_url` of a server that others tried before.
    fn use_url_after(&self, sink: &Sink) {
        sink.rest();
        self.use_url(sink);
    }
}

#[test]
fn a_private_address_is_refused() {
    let node = TestNode::new();
    let bot = node.bot(200, "bot");
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let sink = Sink::start(move |_| {
        *count.lock().unwrap() += 1;
        None
    });
    for url in [sink.url(), sink.url().replace("http:", "https:"), "https://localhost:1/".to_owned()] {
        let answer = bot.request("PATCH", APPLICATION, json!({"interactions_endpoint_url": url}));
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!(50035)), "{answer:?}");
        assert!(!answer.body.to_string().contains("127.0.0.1"), "{answer:?}");
    }
    assert_eq!(*asked.lock().unwrap(), 0);
}

#[test]
fn the_key_and_the_url_survive_a_restart() {
    let mut stage = Stage::new();
    let sink = stage.sink();
    stage.use_url(&sink);
    stage.node.restart();
    let application = stage.node.again(&stage.bot).get(APPLICATION);
    assert_eq!(
        (&application["verify_key"], &application["interactions_endpoint_url"]),
        (&json!(stage.key), &json!(sink.url()))
    );
}
