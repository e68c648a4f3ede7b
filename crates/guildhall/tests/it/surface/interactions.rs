//! Interactions: users invoke commands and components, and applications answer.

use super::uploads::{Form, get, path_of};
use crate::{
    support::Http,
    test_node::{Client, EVERYTHING, Person, TestNode},
};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;
const EPHEMERAL: u64 = 64;
const LOADING: u64 = 128;

/// A guild with a user, another member, a bot with commands, and the sessions of all three.
struct Stage {
    node: TestNode,
    ana: Person,
    bob: Person,
    bot: Person,
    guild: String,
    channel: String,
    commands: Value,
    of_ana: Client,
    of_bob: Client,
    of_bot: Client,
}

/// A session of a user account that looks at the channel.
fn looking(node: &TestNode, person: &Person, guild: &str) -> Client {
    let mut client = Client::connect(node.addr, person, json!({"capabilities": 16381}));
    client.send(37, &json!({"subscriptions": {guild: {"typing": true, "threads": true, "activities": true}}}));
    // The answer to the heartbeat in it comes after the subscription.
    client.received();
    client
}

impl Stage {
    fn new() -> Self {
        let node = TestNode::new();
        let (ana, bob, bot) = (node.user(100, "ana"), node.user(101, "bob"), node.bot(200, "bot"));
        let (guild, channel) = node.guild(&ana, &[&bob, &bot]);
        let commands = json!([
            {"name": "ping", "description": "d"},
            {"name": "say", "description": "d", "options": [
                {"type": 3, "name": "text", "description": "d", "required": true},
                {"type": 6, "name": "who", "description": "d"},
                {"type": 7, "name": "where", "description": "d"},
                {"type": 8, "name": "role", "description": "d"}]},
            {"name": "Look", "type": 2},
            {"name": "Quote", "type": 3},
            {"name": "admin", "description": "d", "default_member_permissions": "8"},
            {"name": "find", "description": "d", "options": [
                {"type": 3, "name": "word", "description": "d", "autocomplete": true, "required": true}]},
            {"name": "private", "description": "d", "contexts": [1]},
            {"name": "file", "description": "d", "options": [
                {"type": 11, "name": "one", "description": "d", "required": true},
                {"type": 11, "name": "two", "description": "d"}]},
        ]);
        let commands = bot.done("PUT", &format!("/applications/{}/commands", bot.id), commands);
        // INTERACTION_CREATE needs no intent.
        let mut of_bot = node.connect(&bot, 1);
        of_bot.event("GUILD_CREATE");
        let (of_ana, of_bob) = (looking(&node, &ana, &guild), looking(&node, &bob, &guild));
        Self { node, ana, bob, bot, guild, channel, commands, of_ana, of_bob, of_bot }
    }

    fn command(&self, name: &str) -> &Value {
        self.commands.as_array().unwrap().iter().find(|command| command["name"] == name).expect("a command")
    }

    /// A request that invokes a command.
    fn request(&self, name: &str, data: Value) -> Value {
        let command = self.command(name);
        let mut whole =
            json!({"id": command["id"], "version": command["version"], "name": name, "type": command["type"]});
        whole.as_object_mut().unwrap().extend(data.as_object().unwrap().clone());
        json!({"type": 2, "application_id": self.bot.id, "guild_id": self.guild, "channel_id": self.channel,
            "session_id": "x", "nonce": "123", "data": whole})
    }

    /// Ana invokes a command; the event that the bot gets.
    fn invoke(&mut self, name: &str, data: Value) -> Value {
        let request = self.request(name, data);
        assert_eq!(self.ana.request("POST", "/interactions", request).status, 204);
        self.of_bot.event("INTERACTION_CREATE")
    }

    /// Ana uses a component of a message.
    fn press(&mut self, message: &Value, data: Value) -> Value {
        let request = self.pressed(message, data);
        assert_eq!(self.ana.request("POST", "/interactions", request).status, 204);
        self.of_bot.event("INTERACTION_CREATE")
    }

    fn pressed(&self, message: &Value, data: Value) -> Value {
        json!({"type": 3, "application_id": self.bot.id, "guild_id": self.guild, "channel_id": self.channel,
            "message_id": message["id"], "message_flags": message["flags"], "session_id": "x", "nonce": "124",
            "data": data})
    }

    /// Answers without a token of an account.
    fn call(&self, method: &str, path: &str, body: &Value) -> crate::support::Answer {
        let body = if body.is_null() { None } else { Some(body) };
        Http::new(self.node.addr, "").request(method, &format!("/api/v10{path}"), body).unwrap()
    }

    fn answer(&self, interaction: &Value, body: Value) -> crate::support::Answer {
        self.call("POST", &callback(interaction), &body)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn callback(interaction: &Value) -> String {
    format!("/interactions/{}/{}/callback?with_response=true", text(&interaction["id"]), text(&interaction["token"]))
}

fn hook(interaction: &Value) -> String {
    format!("/webhooks/{}/{}", text(&interaction["application_id"]), text(&interaction["token"]))
}

#[test]
fn a_command_is_invoked_and_answered() {
    let mut stage = Stage::new();
    let role = stage.ana.done("POST", &format!("/guilds/{}/roles", stage.guild), json!({"name": "r"}));
    let options = json!({"options": [
        {"type": 3, "name": "text", "value": "hello"},
        {"type": 6, "name": "who", "value": stage.bob.id},
        {"type": 7, "name": "where", "value": stage.channel},
        {"type": 8, "name": "role", "value": role["id"]}]});
    let got = stage.invoke("say", options.clone());
    assert_eq!(stage.of_ana.event("INTERACTION_CREATE"), json!({"id": got["id"], "nonce": "123"}));
    assert_eq!((&got["type"], &got["application_id"], &got["version"]), (&json!(2), &json!(stage.bot.id), &json!(1)));
    assert_eq!((&got["guild_id"], &got["channel_id"]), (&json!(stage.guild), &json!(stage.channel)));
    assert_eq!((&got["member"]["user"]["id"], &got["context"]), (&json!(stage.ana.id), &json!(0)));
    assert!(got["member"]["permissions"].is_string() && got["app_permissions"].is_string(), "{got}");
    assert_eq!(got["channel"]["id"], json!(stage.channel));
    assert!(got["channel"].get("permission_overwrites").is_none());
    let data = &got["data"];
    assert_eq!((&data["name"], &data["options"]), (&json!("say"), &options["options"]));
    let resolved = &data["resolved"];
    assert_eq!(resolved["users"][&stage.bob.id]["username"], "bob");
    assert!(resolved["members"][&stage.bob.id]["permissions"].is_string(), "{resolved}");
    assert_eq!(resolved["channels"][&stage.channel]["id"], json!(stage.channel));
    assert_eq!(resolved["roles"][text(&role["id"])]["name"], "r");

    let answered = stage.answer(&got, json!({"type": 4, "data": {"content": "hi"}}));
    assert_eq!(answered.status, 200, "{answered:?}");
    let message = &answered.body["resource"]["message"];
    assert_eq!(answered.body["interaction"]["response_message_id"], message["id"]);
    for client in [&mut stage.of_ana, &mut stage.of_bob] {
        let event = client.event("MESSAGE_CREATE");
        assert_eq!((&event["content"], &event["type"]), (&json!("hi"), &json!(20)));
        assert_eq!((&event["application_id"], &event["author"]["id"]), (&json!(stage.bot.id), &json!(stage.bot.id)));
        let metadata = &event["interaction_metadata"];
        assert_eq!((&metadata["id"], &metadata["type"]), (&got["id"], &json!(2)));
        assert_eq!(metadata["user"]["id"], json!(stage.ana.id));
        assert_eq!((&event["interaction"]["name"], &event["interaction"]["id"]), (&json!("say"), &got["id"]));
    }
    assert_eq!(stage.of_ana.event("INTERACTION_SUCCESS"), json!({"id": got["id"], "nonce": "123"}));
    // It is a message as any other.
    let read = stage.bob.get(&format!("/channels/{}/messages/{}", stage.channel, text(&message["id"])));
    assert_eq!((&read["content"], &read["interaction_metadata"]["id"]), (&json!("hi"), &got["id"]));

    // Once.
    let again = stage.answer(&got, json!({"type": 4, "data": {"content": "again"}}));
    assert_eq!((again.status, &again.body["code"]), (400, &json!(40060)));

    let hook = hook(&got);
    let original = format!("{hook}/messages/@original");
    assert_eq!(stage.call("GET", &original, &NOTHING).body["content"], "hi");
    assert_eq!(stage.call("PATCH", &original, &json!({"content": "changed"})).body["content"], "changed");
    assert_eq!(stage.of_bob.event("MESSAGE_UPDATE")["content"], "changed");
    let further = stage.call("POST", &hook, &json!({"content": "more"})).body;
    assert_eq!((&further["type"], &further["message_reference"]["message_id"]), (&json!(19), &message["id"]));
    assert_eq!(further["interaction_metadata"]["original_response_message_id"], message["id"]);
    let path = format!("{hook}/messages/{}", text(&further["id"]));
    assert_eq!(stage.call("PATCH", &path, &json!({"content": "less"})).body["content"], "less");
    assert_eq!(stage.call("DELETE", &path, &NOTHING).status, 204);
    assert_eq!(stage.call("DELETE", &original, &NOTHING).status, 204);
    assert_eq!(stage.call("GET", &original, &NOTHING).body["code"], 10008);
    stage.of_bob.event("MESSAGE_DELETE");
}

#[test]
fn commands_of_users_and_messages_name_their_target() {
    let mut stage = Stage::new();
    let bob = stage.bob.id.clone();
    let got = stage.invoke("Look", json!({"target_id": bob}));
    assert_eq!((&got["data"]["target_id"], &got["data"]["type"]), (&json!(bob), &json!(2)));
    assert_eq!(got["data"]["resolved"]["users"][&bob]["username"], "bob");
    let answered = stage.answer(&got, json!({"type": 4, "data": {"content": "x"}}));
    assert_eq!(answered.body["resource"]["message"]["type"], 23);
    let message = stage.bob.done("POST", &format!("/channels/{}/messages", stage.channel), json!({"content": "said"}));
    let got = stage.invoke("Quote", json!({"target_id": message["id"]}));
    assert_eq!(got["data"]["resolved"]["messages"][text(&message["id"])]["content"], "said");
}

#[test]
fn a_deferred_answer_is_loading_until_it_comes() {
    let mut stage = Stage::new();
    let got = stage.invoke("ping", json!({}));
    let deferred = stage.answer(&got, json!({"type": 5})).body;
    assert_eq!(deferred["interaction"]["response_message_loading"], true);
    let event = stage.of_bob.event("MESSAGE_CREATE");
    assert_eq!((&event["flags"], &event["content"]), (&json!(LOADING), &json!("")));
    let original = format!("{}/messages/@original", hook(&got));
    let edited = stage.call("PATCH", &original, &json!({"content": "done"})).body;
    assert_eq!(
        (&edited["content"], &edited["flags"], &edited["edited_timestamp"]),
        (&json!("done"), &json!(0), &NOTHING)
    );
    assert_eq!(stage.of_bob.event("MESSAGE_UPDATE")["flags"], 0);

    // The first followup is the answer.
    let got = stage.invoke("ping", json!({}));
    let deferred = stage.answer(&got, json!({"type": 5})).body;
    let followup = stage.call("POST", &hook(&got), &json!({"content": "late"})).body;
    assert_eq!(followup["id"], deferred["interaction"]["response_message_id"]);
}

#[test]
fn n3_an_ephemeral_message_reaches_its_reader_alone() {
    let mut stage = Stage::new();
    let got = stage.invoke("ping", json!({}));
    let button = json!([{"type": 1, "components": [{"type": 2, "style": 1, "label": "b", "custom_id": "b"}]}]);
    let secret = json!({"type": 4, "data": {"content": "secret", "flags": EPHEMERAL, "components": button}});
    let answered = stage.answer(&got, secret).body;
    assert_eq!(answered["interaction"]["response_message_ephemeral"], true);
    let message = answered["resource"]["message"].clone();
    let event = stage.of_ana.event("MESSAGE_CREATE");
    assert_eq!(
        (&event["content"], &event["flags"], &event["id"]),
        (&json!("secret"), &json!(EPHEMERAL), &message["id"])
    );
    assert!(event.get("guild_id").is_none(), "{event}");

    // It is in no history, and nothing can be done with it as with other messages.
    let messages = format!("/channels/{}/messages", stage.channel);
    assert_eq!(stage.ana.get(&messages), json!([]));
    let path = format!("{messages}/{}", text(&message["id"]));
    stage.ana.refused("GET", &path, NOTHING, 404, 10008);
    stage.bot.refused("PATCH", &path, json!({"content": "x"}), 404, 10008);

    // A public message that depends on it does not name it.
    let further = stage.call("POST", &hook(&got), &json!({"content": "public"})).body;
    assert!(further.get("message_reference").is_none(), "{further}");
    assert!(further["interaction_metadata"].get("original_response_message_id").is_none());

    // Its component works, for its reader.
    let data = json!({"component_type": 2, "custom_id": "b"});
    let request = stage.pressed(&message, data.clone());
    stage.bob.refused("POST", "/interactions", request, 404, 10008);
    let pressed = stage.press(&message, data);
    assert_eq!((&pressed["message"]["content"], &pressed["message"]["flags"]), (&json!("secret"), &json!(EPHEMERAL)));
    let update = json!({"type": 7, "data": {"content": "changed", "components": []}});
    assert_eq!(stage.answer(&pressed, update).body["resource"]["message"]["content"], "changed");
    assert_eq!(stage.of_ana.event("MESSAGE_UPDATE")["content"], "changed");
    let public = stage.call("POST", &hook(&pressed), &json!({"content": "also public"})).body;
    assert!(public["interaction_metadata"].get("interacted_message_id").is_none(), "{public}");

    for number in 0..21 {
        let further = stage.call("POST", &hook(&got), &json!({"content": "changed", "flags": EPHEMERAL}));
        let code = further.body["code"].as_u64();
        assert_eq!((further.status, code), if number < 20 { (200, None) } else { (400, Some(40094)) });
    }
    let original = format!("{}/messages/@original", hook(&got));
    assert_eq!(stage.call("PATCH", &original, &json!({"content": "at last"})).body["content"], "at last");
    assert_eq!(stage.call("DELETE", &original, &NOTHING).status, 204);
    assert_eq!(stage.of_ana.event("MESSAGE_DELETE")["id"], message["id"]);
    assert_eq!(stage.call("GET", &original, &NOTHING).body["code"], 10008);

    // A resumed session gets it again, and the other member never.
    let got = stage.invoke("ping", json!({}));
    let lost = stage.of_ana.lose();
    let secret = json!({"type": 4, "data": {"content": "hidden", "flags": EPHEMERAL}});
    let path = format!("/api/v10{}", callback(&got));
    assert_eq!(Http::new(stage.node.addr, "").request("POST", &path, Some(&secret)).unwrap().status, 200);
    let (_, replayed) = lost.resume();
    assert!(
        replayed.iter().any(|(name, body)| name == "MESSAGE_CREATE" && body["content"] == "hidden"),
        "{replayed:?}"
    );
    stage.ana.done("POST", &messages, json!({"content": "end"}));
    let end = stage.of_bob.until("the end", |payload| payload["d"]["content"] == "end");
    assert_eq!(end["t"], "MESSAGE_CREATE");
    for (_, body) in stage.of_bob.received() {
        let body = body.to_string();
        assert!(!body.contains("secret") && !body.contains("hidden") && !body.contains("changed"), "{body}");
    }
}

#[test]
fn an_ephemeral_message_resolves_its_mentions() {
    let mut stage = Stage::new();
    let role = |name: &str, mentionable: bool| {
        let form = json!({"name": name, "mentionable": mentionable, "permissions": "0"});
        text(&stage.ana.done("POST", &format!("/guilds/{}/roles", stage.guild), form)["id"]).to_owned()
    };
    let (open, closed) = (role("open", true), role("closed", false));
    let (bob, guild) = (stage.bob.id.clone(), stage.guild.clone());
    let got = stage.invoke("ping", json!({}));
    // A stranger is no mention, as in any message; without MENTION_EVERYONE only some roles are.
    let everyone = json!({"permissions": (1_u64 << 10 | 1 << 11 | 1 << 31).to_string()});
    stage.ana.done("PATCH", &format!("/guilds/{guild}/roles/{guild}"), everyone);
    let content = format!("<@{bob}> <@5> <@&{open}> <@&{closed}> <@&{guild}> @everyone");
    let answered = stage.answer(&got, json!({"type": 4, "data": {"content": content, "flags": EPHEMERAL}})).body;
    let event = stage.of_ana.event("MESSAGE_CREATE");
    for message in [&answered["resource"]["message"], &event] {
        assert_eq!(message["mentions"].as_array().map(Vec::len), Some(1), "{message}");
        assert_eq!(message["mentions"][0]["id"], json!(bob));
        assert_eq!((&message["mention_roles"], &message["mention_everyone"]), (&json!([open]), &json!(false)));
    }
    let original = format!("{}/messages/@original", hook(&got));
    let edited = stage.call("PATCH", &original, &json!({"components": []})).body;
    assert_eq!(edited["mentions"][0]["id"], json!(bob), "another field leaves them");
    let silent = json!({"content": content, "allowed_mentions": {"parse": ["roles"]}});
    let edited = stage.call("PATCH", &original, &silent).body;
    assert_eq!((&edited["mentions"], &edited["mention_roles"]), (&json!([]), &json!([open])));
}

#[test]
fn an_application_that_does_not_answer_has_failed() {
    let mut stage = Stage::new();
    let got = stage.invoke("ping", json!({}));
    let failed = stage.of_ana.event("INTERACTION_FAILURE");
    assert_eq!((&failed["id"], &failed["nonce"]), (&got["id"], &json!("123")));
    let late = stage.answer(&got, json!({"type": 4, "data": {"content": "late"}}));
    assert_eq!((late.status, &late.body["code"]), (404, &json!(10062)));
    let followup = stage.call("POST", &hook(&got), &json!({"content": "late"}));
    assert_eq!((followup.status, &followup.body["code"]), (404, &json!(10015)));
}

#[test]
fn i1_refused_invocations_do_not_reach_the_application() {
    let stage = Stage::new();
    let refused = |person: &Person, request: Value, status, code| {
        person.refused("POST", "/interactions", request, status, code);
    };
    let ping = stage.request("ping", json!({}));
    let stranger = stage.node.user(102, "stranger");
    refused(&stranger, ping.clone(), 403, 50001);
    refused(&stage.bot, ping.clone(), 403, 20001);
    refused(&stage.bob, stage.request("admin", json!({})), 403, 50013);
    refused(&stage.bob, stage.request("private", json!({})), 404, 10063);
    let with = |request: &Value, key: &str, value: Value| {
        let mut request = request.clone();
        request[key] = value;
        request
    };
    refused(&stage.bob, with(&ping, "data", json!({"id": "5"})), 404, 10063);
    refused(&stage.bob, with(&ping, "data", json!({})), 400, 50035);
    refused(&stage.bob, with(&ping, "type", json!(9)), 400, 50035);
    refused(&stage.bob, with(&ping, "guild_id", json!("5")), 404, 10003);
    refused(&stage.bob, with(&ping, "channel_id", json!("5")), 404, 10003);
    refused(&stage.bob, with(&ping, "application_id", json!(stage.ana.id)), 404, 10002);
    let other = stage.node.bot(201, "other");
    refused(&stage.bob, with(&ping, "application_id", json!(other.id)), 404, 10002);
    refused(&stage.bob, stage.request("ping", json!({"version": "5"})), 400, 50035);
    refused(&stage.bob, stage.request("say", json!({})), 400, 50035);
    let who = |id: &str| json!({"options": [{"name": "text", "value": "x"}, {"name": "who", "value": id}]});
    refused(&stage.bob, stage.request("say", who("9")), 400, 50035);

    // A channel that the member cannot view is none, as an option and as a place.
    let hidden = json!({"name": "hidden", "type": 0, "permission_overwrites":
        [{"id": stage.guild, "type": 0, "allow": "0", "deny": "1024"}]});
    let hidden = stage.ana.done("POST", &format!("/guilds/{}/channels", stage.guild), hidden);
    let place = json!({"options": [{"name": "text", "value": "x"}, {"name": "where", "value": hidden["id"]}]});
    refused(&stage.bob, stage.request("say", place), 400, 50035);
    refused(&stage.bob, with(&ping, "channel_id", hidden["id"].clone()), 403, 50001);

    // Without USE_APPLICATION_COMMANDS there are none.
    let overwrite = json!({"type": 1, "allow": "0", "deny": (1_u64 << 31).to_string()});
    stage.ana.done("PUT", &format!("/channels/{}/permissions/{}", stage.channel, stage.bob.id), overwrite);
    refused(&stage.bob, ping, 403, 50013);
}

#[test]
fn f1_a_token_opens_its_own_interaction() {
    let mut stage = Stage::new();
    let first = stage.invoke("ping", json!({}));
    let unanswered = stage.call("POST", &hook(&first), &json!({"content": "x"}));
    assert_eq!((unanswered.status, &unanswered.body["code"]), (404, &json!(10015)), "not answered yet");
    let answered = stage.answer(&first, json!({"type": 4, "data": {"content": "first"}})).body;
    let message = text(&answered["resource"]["message"]["id"]).to_owned();
    let second = stage.invoke("ping", json!({}));
    stage.answer(&second, json!({"type": 4, "data": {"content": "second"}}));
    for method in ["GET", "PATCH", "DELETE"] {
        let body = if method == "PATCH" { json!({"content": "x"}) } else { NOTHING };
        let other = stage.call(method, &format!("{}/messages/{message}", hook(&second)), &body);
        assert_eq!((other.status, &other.body["code"]), (404, &json!(10008)), "{method}");
    }
    let own = stage.ana.done("POST", &format!("/channels/{}/messages", stage.channel), json!({"content": "mine"}));
    let other = stage.call("DELETE", &format!("{}/messages/{}", hook(&first), text(&own["id"])), &NOTHING);
    assert_eq!(other.body["code"], 10008);

    let mut forged = text(&first["token"]).to_owned();
    let last = forged.pop().unwrap();
    forged.push(if last == 'A' { 'Q' } else { 'A' });
    let path = format!("/webhooks/{}/{forged}", stage.bot.id);
    assert_eq!(stage.call("POST", &path, &json!({"content": "x"})).body["code"], 10015);
    let path = format!("/webhooks/{}/{}", stage.ana.id, text(&first["token"]));
    assert_eq!(stage.call("POST", &path, &json!({"content": "x"})).body["code"], 10015);
    let path = format!("/interactions/{}/{}/callback", text(&second["id"]), text(&first["token"]));
    assert_eq!(stage.call("POST", &path, &json!({"type": 4})).body["code"], 10062);

    // An application that was removed has no tokens.
    let third = stage.invoke("ping", json!({}));
    let path = format!("/guilds/{}/members/{}", stage.guild, stage.bot.id);
    assert_eq!(stage.ana.request("DELETE", &path, NOTHING).status, 204);
    for flags in [0, EPHEMERAL] {
        let refused = stage.answer(&third, json!({"type": 4, "data": {"content": "x", "flags": flags}}));
        assert_eq!((refused.status, &refused.body["code"]), (404, &json!(10015)));
    }
}

#[test]
fn callbacks_fit_their_interaction() {
    let mut stage = Stage::new();
    let got = stage.invoke("ping", json!({}));
    for (body, code) in [
        (json!({}), 50035),
        (json!({"type": 1}), 50035),
        (json!({"type": 6}), 50035),
        (json!({"type": 7, "data": {"content": "x"}}), 50035),
        (json!({"type": 8, "data": {"choices": []}}), 50035),
        (json!({"type": 4}), 50006),
        (json!({"type": 4, "data": {"content": "x".repeat(2001)}}), 50035),
    ] {
        let refused = stage.answer(&got, body.clone());
        assert_eq!((refused.status, &refused.body["code"]), (400, &json!(code)), "{body}");
    }
    // Refused callbacks do not count.
    assert_eq!(stage.answer(&got, json!({"type": 4, "data": {"content": "x"}})).status, 200);
}

#[test]
fn files_are_options() {
    let mut stage = Stage::new();
    let with = |stage: &Stage, options: Value| stage.request("file", json!({"options": options}));
    let both = json!([{"type": 11, "name": "one", "value": 1}, {"type": 11, "name": "two", "value": "0"}]);
    let both = with(&stage, both);
    let form = Form::json(&both).file("files[0]", "a.txt", b"first").file("files[1]", "b.txt", b"second");
    let sent = form.send(&stage.ana, "POST", "/interactions");
    assert_eq!(sent.status, 204, "{sent:?}");
    let got = stage.of_bot.event("INTERACTION_CREATE");
    let attachments = &got["data"]["resolved"]["attachments"];
    let options: Vec<&str> = got["data"]["options"].as_array().unwrap().iter().map(|of| text(&of["value"])).collect();
    for (id, name, content) in [(options[0], "b.txt", "second"), (options[1], "a.txt", "first")] {
        let attachment = &attachments[id];
        assert_eq!((&attachment["filename"], &attachment["id"]), (&json!(name), &json!(id)), "{got}");
        assert_eq!((&attachment["ephemeral"], &attachment["size"]), (&json!(true), &json!(content.len())));
        assert_eq!(get(stage.node.addr, &path_of(attachment), "").body, content.as_bytes(), "{attachment}");
    }

    // Without a file of its number, without a file at all, or without the right to send files.
    let one = with(&stage, json!([{"type": 11, "name": "one", "value": 0}]));
    let other = Form::json(&one).file("files[3]", "a.txt", b"x").send(&stage.ana, "POST", "/interactions");
    assert_eq!((other.status, other.json()["code"].as_u64()), (400, Some(50035)), "{other:?}");
    stage.ana.refused("POST", "/interactions", one.clone(), 400, 50035);
    let overwrite = json!({"type": 1, "allow": "0", "deny": (1_u64 << 15).to_string()});
    stage.ana.done("PUT", &format!("/channels/{}/permissions/{}", stage.channel, stage.bob.id), overwrite);
    let refused = Form::json(&one).file("files[0]", "a.txt", b"x").send(&stage.bob, "POST", "/interactions");
    assert_eq!((refused.status, refused.json()["code"].as_u64()), (403, Some(50013)), "{refused:?}");
}

#[test]
fn an_option_is_completed() {
    let mut stage = Stage::new();
    let mut request =
        stage.request("find", json!({"options": [{"type": 3, "name": "word", "value": "he", "focused": true}]}));
    request["type"] = json!(4);
    assert_eq!(stage.ana.request("POST", "/interactions", request).status, 204);
    let got = stage.of_bot.event("INTERACTION_CREATE");
    assert_eq!((&got["type"], &got["data"]["options"][0]["focused"]), (&json!(4), &json!(true)));
    let refused = stage.answer(&got, json!({"type": 8, "data": {"choices": [{"name": "x"}]}}));
    assert_eq!(refused.body["code"], 50035);
    let choices = json!([{"name": "hello", "value": "hello"}]);
    assert_eq!(stage.answer(&got, json!({"type": 8, "data": {"choices": choices}})).status, 200);
    let response = stage.of_ana.event("APPLICATION_COMMAND_AUTOCOMPLETE_RESPONSE");
    assert_eq!(response, json!({"choices": choices, "nonce": "123"}));
}

#[test]
fn a_component_updates_its_message() {
    let mut stage = Stage::new();
    let components = json!([
        {"type": 1, "components": [{"type": 2, "style": 1, "label": "go", "custom_id": "go"}]},
        {"type": 1, "components": [{"type": 5, "custom_id": "who"}]},
    ]);
    let messages = format!("/channels/{}/messages", stage.channel);
    let message = stage.bot.done("POST", &messages, json!({"content": "menu", "components": components}));
    let got = stage.press(&message, json!({"component_type": 2, "custom_id": "go"}));
    assert_eq!((&got["type"], &got["data"]["custom_id"]), (&json!(3), &json!("go")));
    assert_eq!((&got["message"]["id"], &got["message"]["content"]), (&message["id"], &json!("menu")));
    let updated = stage.answer(&got, json!({"type": 7, "data": {"content": "pressed"}}));
    assert_eq!(updated.body["resource"]["message"]["content"], "pressed", "{updated:?}");
    let event = stage.of_bob.until("the change", |payload| payload["t"] == "MESSAGE_UPDATE");
    assert_eq!(event["d"]["content"], "pressed");

    let bob = stage.bob.id.clone();
    let got = stage.press(&message, json!({"component_type": 5, "custom_id": "who", "values": [bob]}));
    assert_eq!(got["data"]["resolved"]["users"][&bob]["username"], "bob");
    let answered = stage.answer(&got, json!({"type": 4, "data": {"content": "chosen"}})).body;
    let answer = &answered["resource"]["message"];
    assert_eq!((&answer["type"], &answer["message_reference"]["message_id"]), (&json!(19), &message["id"]));
    assert_eq!(answer["interaction_metadata"]["interacted_message_id"], message["id"]);

    let got = stage.press(&message, json!({"component_type": 2, "custom_id": "go"}));
    assert_eq!(stage.answer(&got, json!({"type": 6})).status, 200);
    let original = format!("{}/messages/@original", hook(&got));
    assert_eq!(stage.call("PATCH", &original, &json!({"content": "later"})).body["id"], message["id"]);

    for (data, status, code) in [
        (json!({"component_type": 2, "custom_id": "other"}), 400, 50035),
        (json!({"component_type": 5, "custom_id": "who", "values": []}), 400, 50035),
        (json!({"component_type": 5, "custom_id": "who", "values": ["9"]}), 400, 50035),
    ] {
        stage.bob.refused("POST", "/interactions", stage.pressed(&message, data), status, code);
    }
    let own = stage.ana.done("POST", &messages, json!({"content": "mine"}));
    let data = json!({"component_type": 2, "custom_id": "go"});
    stage.bob.refused("POST", "/interactions", stage.pressed(&own, data), 404, 10008);
}

#[test]
fn a_modal_is_submitted_once() {
    let mut stage = Stage::new();
    let got = stage.invoke("ping", json!({}));
    let input = json!({"type": 4, "custom_id": "name", "style": 1, "label": "Name", "min_length": 2});
    let components = json!([{"type": 1, "components": [input]},
        {"type": 18, "label": "Who", "component": {"type": 5, "custom_id": "who", "required": false}}]);
    let modal = json!({"type": 9, "data": {"custom_id": "form", "title": "Form", "components": components}});
    let refused = stage.answer(&got, json!({"type": 9, "data": {"custom_id": "form", "components": components}}));
    assert_eq!(refused.body["errors"]["data"]["title"]["_errors"][0]["code"], "BASE_TYPE_REQUIRED");
    assert_eq!(stage.answer(&got, modal.clone()).status, 200);
    let shown = stage.of_ana.event("INTERACTION_MODAL_CREATE");
    assert_eq!((&shown["id"], &shown["title"], &shown["nonce"]), (&got["id"], &json!("Form"), &json!("123")));
    assert_eq!(shown["application"]["id"], json!(stage.bot.id));

    let submit = |stage: &Stage, name: &str, who: Value| {
        let components = json!([{"type": 1, "components": [{"type": 4, "custom_id": "name", "value": name}]},
            {"type": 18, "component": {"type": 5, "custom_id": "who", "values": who}}]);
        json!({"type": 5, "application_id": stage.bot.id, "guild_id": stage.guild, "channel_id": stage.channel,
            "session_id": "x", "nonce": "125",
            "data": {"id": shown["id"], "custom_id": "form", "components": components}})
    };
    stage.ana.refused("POST", "/interactions", submit(&stage, "x", json!([])), 400, 50035);
    stage.ana.refused("POST", "/interactions", submit(&stage, "name", json!(["9"])), 400, 50035);
    stage.bob.refused("POST", "/interactions", submit(&stage, "name", json!([])), 400, 50035);
    let whole = submit(&stage, "name", json!([stage.bob.id]));
    assert_eq!(stage.ana.request("POST", "/interactions", whole.clone()).status, 204);
    let submitted = stage.of_bot.event("INTERACTION_CREATE");
    let data = &submitted["data"];
    assert_eq!((&submitted["type"], &data["custom_id"]), (&json!(5), &json!("form")));
    assert_eq!(data["components"][0]["components"][0]["value"], "name");
    assert_eq!(data["components"][1]["component"]["values"], json!([stage.bob.id]));
    assert_eq!(data["resolved"]["users"][&stage.bob.id]["username"], "bob");
    stage.ana.refused("POST", "/interactions", whole, 400, 50035);
    let nested = stage.answer(&submitted, modal);
    assert_eq!(nested.body["code"], 50035, "a modal answers no modal");
    let answered = stage.answer(&submitted, json!({"type": 4, "data": {"content": "thanks"}})).body;
    let metadata = &answered["resource"]["message"]["interaction_metadata"];
    assert_eq!((&metadata["type"], &metadata["triggering_interaction_metadata"]["id"]), (&json!(5), &got["id"]));

    // Of a component, it may change the component's message.
    let row = json!([{"type": 1, "components": [{"type": 2, "style": 1, "label": "b", "custom_id": "b"}]}]);
    let messages = format!("/channels/{}/messages", stage.channel);
    let message = stage.bot.done("POST", &messages, json!({"content": "menu", "components": row}));
    let got = stage.press(&message, json!({"component_type": 2, "custom_id": "b"}));
    let text = json!([{"type": 10, "content": "only text"}]);
    let modal = json!({"type": 9, "data": {"custom_id": "second", "title": "t", "components": text}});
    assert_eq!(stage.answer(&got, modal).status, 200);
    let whole = json!({"type": 5, "application_id": stage.bot.id, "guild_id": stage.guild,
        "channel_id": stage.channel, "data": {"id": got["id"], "custom_id": "second", "components": []}});
    assert_eq!(stage.ana.request("POST", "/interactions", whole).status, 204);
    let submitted = stage.of_bot.event("INTERACTION_CREATE");
    assert_eq!(submitted["message"]["id"], message["id"]);
    let updated = stage.answer(&submitted, json!({"type": 7, "data": {"content": "changed"}})).body;
    assert_eq!(updated["resource"]["message"]["id"], message["id"]);
}

#[test]
fn components_of_both_versions_are_checked() {
    let stage = Stage::new();
    let messages = format!("/channels/{}/messages", stage.channel);
    let v2 = json!([{"type": 17, "components": [{"type": 10, "content": "text"},
        {"type": 1, "components": [{"type": 2, "style": 1, "label": "b", "custom_id": "b"}]}]}]);
    let sent = stage.bot.done("POST", &messages, json!({"components": v2, "flags": 32768}));
    assert_eq!((&sent["flags"], &sent["components"][0]["components"][0]["content"]), (&json!(32768), &json!("text")));
    assert_eq!(sent["components"][0]["id"], 1);
    let path = format!("{messages}/{}", text(&sent["id"]));
    let edited = stage.bot.done("PATCH", &path, json!({"components": [{"type": 10, "content": "other"}]}));
    assert_eq!(edited["components"][0]["content"], "other");
    for body in [
        json!({"components": v2}),
        json!({"components": v2, "flags": 32768, "content": "x"}),
        json!({"content": "x", "components": [{"type": 1, "components": []}]}),
        json!({"content": "x", "components": [{"type": 2, "style": 1, "label": "b", "custom_id": "b"}]}),
    ] {
        stage.bot.refused("POST", &messages, body, 400, 50035);
    }
}

/// Names of the commands that a channel offers to a person.
fn offered(stage: &Stage, person: &Person) -> Vec<String> {
    let index = person.get(&format!("/channels/{}/application-command-index", stage.channel));
    index["application_commands"].as_array().unwrap().iter().map(|of| text(&of["name"]).to_owned()).collect()
}

#[test]
fn i2_the_index_has_what_may_be_used_and_overrides_change_it() {
    let mut stage = Stage::new();
    assert_eq!(offered(&stage, &stage.bob), ["ping", "say", "Look", "Quote", "find", "file"]);
    assert!(offered(&stage, &stage.ana).contains(&"admin".to_owned()));
    let index = stage.bob.get(&format!("/channels/{}/application-command-index", stage.channel));
    assert_eq!(index["applications"][0]["id"], json!(stage.bot.id));

    let ping = text(&stage.command("ping")["id"]).to_owned();
    let base = format!("/applications/{}/guilds/{}/commands", stage.bot.id, stage.guild);
    let path = format!("{base}/{ping}/permissions");
    let only_ana = json!({"permissions": [{"id": stage.guild, "type": 1, "permission": false},
        {"id": stage.ana.id, "type": 2, "permission": true}]});
    stage.bob.refused("PUT", &path, only_ana.clone(), 403, 50013);
    stage.bob.refused("GET", &path, NOTHING, 403, 50013);
    stage.bot.refused("PUT", &path, only_ana.clone(), 403, 20001);
    stage.bot.refused("GET", &path, NOTHING, 404, 10066);
    let unknown = format!("{base}/5/permissions");
    stage.ana.refused("PUT", &unknown, only_ana.clone(), 404, 10063);
    stage.ana.refused("PUT", &path, json!({"permissions": [{"id": "1", "type": 9}]}), 400, 50035);
    let put = stage.ana.done("PUT", &path, only_ana);
    assert_eq!(stage.of_bot.event("APPLICATION_COMMAND_PERMISSIONS_UPDATE"), put);
    assert_eq!(stage.bot.get(&path), put);
    assert_eq!(stage.bot.get(&format!("{base}/permissions")), json!([put]));
    assert!(!offered(&stage, &stage.bob).contains(&"ping".to_owned()));
    stage.bob.refused("POST", "/interactions", stage.request("ping", json!({})), 403, 50013);
    let got = stage.invoke("ping", json!({}));
    assert_eq!(got["data"]["name"], "ping");

    // An override admits to what the default does not.
    let admin = text(&stage.command("admin")["id"]).to_owned();
    let of_bob = json!({"permissions": [{"id": stage.bob.id, "type": 2, "permission": true}]});
    stage.ana.done("PUT", &format!("{base}/{admin}/permissions"), of_bob);
    assert!(offered(&stage, &stage.bob).contains(&"admin".to_owned()));
    stage.ana.done("PUT", &path, json!({"permissions": []}));
    assert!(offered(&stage, &stage.bob).contains(&"ping".to_owned()));
}

#[test]
fn in_a_direct_message_with_the_bot() {
    let mut stage = Stage::new();
    let direct = stage.ana.done("POST", "/users/@me/channels", json!({"recipient_id": stage.bot.id}));
    let mut request = stage.request("private", json!({}));
    request["channel_id"] = direct["id"].clone();
    request["guild_id"] = NOTHING;
    assert_eq!(stage.ana.request("POST", "/interactions", request).status, 204);
    let got = stage.of_bot.event("INTERACTION_CREATE");
    assert_eq!((&got["context"], &got["user"]["id"]), (&json!(1), &json!(stage.ana.id)));
    assert!(got.get("member").is_none() && got.get("guild_id").is_none(), "{got}");
    let answered = stage.answer(&got, json!({"type": 4, "data": {"content": "hello"}}));
    assert_eq!(answered.status, 200, "{answered:?}");
    let event = stage.of_ana.event("MESSAGE_CREATE");
    assert_eq!((&event["channel_id"], &event["content"]), (&direct["id"], &json!("hello")));
    assert!(event.get("guild_id").is_none());
}

#[test]
fn the_shard_of_the_guild_receives_it() {
    let mut stage = Stage::new();
    let shard = |id: u64| json!({"intents": EVERYTHING, "shard": [id, 2]});
    let guild: u64 = stage.guild.parse().unwrap();
    let own = (guild >> 22) % 2;
    let mut right = Client::connect(stage.node.addr, &stage.bot, shard(own));
    let mut wrong = Client::connect(stage.node.addr, &stage.bot, shard(1 - own));
    stage.invoke("ping", json!({}));
    right.event("INTERACTION_CREATE");
    assert!(wrong.received().iter().all(|(name, _)| name != "INTERACTION_CREATE"));
}
