//! The hook before delivery (`hook.url`), with a service that this test is.

use crate::{
    backend::{ANA, BOB, BOT, Backend, CHANNEL, GUILD, client},
    http_sink::{Reply, Sink},
    support::{Answer, Demo, Http, metrics},
};
use serde_json::{Value, json};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Decides by the words of a text.
fn decide(body: &Value) -> Reply {
    let decision = match body["content"].as_str().unwrap_or_default() {
        text if text.contains("stall") => return None,
        text if text.contains("break") => return Some((500, String::new())),
        text if text.contains("odd") => return Some((200, "publish".to_owned())),
        text if text.contains("spam") => json!({"action": "refuse", "message": "No advertising here."}),
        text if text.contains("rude") => json!({"action": "refuse"}),
        "teh" => json!({"action": "replace", "content": "the"}),
        "quiet" => return Some((204, String::new())),
        _ => json!({"action": "publish"}),
    };
    Some((200, decision.to_string()))
}

struct Scene {
    _dir: tempfile::TempDir,
    demo: Demo,
    backend: Backend,
    bob: Http,
}

impl Scene {
    fn new(url: &str, on_failure: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = [
            format!("hook.url={url}"),
            format!("hook.secret={SECRET}"),
            format!("hook.on_failure={on_failure}"),
            "hook.timeout_ms=1000".to_owned(),
            "limits.rest_rate_percent=0".to_owned(),
        ];
        let sets = settings.iter().flat_map(|set| ["--set", set]);
        let args: Vec<&str> = ["--members", "3", "--rate", "0"].into_iter().chain(sets).collect();
        let demo = Demo::start(dir.path(), &args);
        let mut backend = Backend::root(&demo);
        backend.build();
        let token = backend.token(BOB);
        let bob = Http::new(demo.addr, &token);
        Self { _dir: dir, demo, backend, bob }
    }

    fn say(&mut self, content: &str) -> Answer {
        let path = format!("/api/v10/channels/{CHANNEL}/messages");
        self.bob.request("POST", &path, Some(&json!({"content": content}))).unwrap()
    }
}

#[test]
fn a_service_refuses_and_changes_messages() {
    let sink = Sink::start(decide);
    let mut scene = Scene::new(&sink.url(), "refuse");
    let token = scene.backend.token(ANA);
    let (mut ana, _) = client(&scene.demo, &token, "?v=10&encoding=json", 1 << 9 | 1 << 15);

    let refused = scene.say("buy spam");
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!(200_000)));
    assert_eq!(refused.body["message"], "No advertising here.");
    let asked = sink.next();
    assert!(asked.is_signed(SECRET) && !asked.is_signed("another"), "{asked:?}");
    assert_eq!((&asked.body["content"], &asked.body["channel_id"]), (&json!("buy spam"), &json!(CHANNEL)));
    assert_eq!((&asked.body["author"], &asked.body["message_id"]), (&json!({"kind": "user", "id": BOB}), &Value::Null));
    assert_eq!(scene.say("rude").body["message"], "Message was blocked by automatic moderation");
    let message = scene.say("teh");
    assert_eq!((message.status, &message.body["content"]), (200, &json!("the")));
    assert_eq!(ana.await_payload(0, Some("MESSAGE_CREATE"))["d"]["content"], "the", "refused texts reached no client");
    assert_eq!(scene.say("quiet").status, 200);

    let poll = json!({"poll": {"question": {"text": "how?"}, "answers": [{"poll_media": {"text": "so"}},
        {"poll_media": {"emoji": {"name": "🔥"}}}]}});
    let polled = scene.bob.request("POST", &format!("/api/v10/channels/{CHANNEL}/messages"), Some(&poll)).unwrap();
    assert_eq!(polled.status, 200, "{polled:?}");

    let path = format!("/api/v10/channels/{CHANNEL}/messages/{}", message.body["id"].as_str().unwrap());
    let edited = scene.bob.request("PATCH", &path, Some(&json!({"content": "more spam"}))).unwrap();
    assert_eq!(edited.status, 400);
    sink.next();
    sink.next();
    assert_eq!(sink.next().body["poll"], Value::Null);
    assert_eq!(sink.next().body["poll"], json!({"question": "how?", "answers": ["so", null]}));
    assert_eq!(sink.next().body["message_id"], message.body["id"]);

    // A backend is the authority: its messages pass.
    let body = json!({"author_id": ANA, "content": "spam"});
    scene.backend.request("POST", &format!("/channels/{CHANNEL}/messages"), Some(body), 201);
    assert!(sink.rest().is_empty());
    let metrics = metrics(scene.demo.addr);
    for line in [
        "reviews_total{result=\"refused\"} 3",
        "reviews_total{result=\"replaced\"} 1",
        "reviews_total{result=\"published\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[test]
fn an_answer_for_one_reader_is_reviewed() {
    let sink = Sink::start(decide);
    let mut scene = Scene::new(&sink.url(), "refuse");
    let token = scene.backend.token(BOT);
    let (mut bot, _) = client(&scene.demo, &format!("Bot {token}"), "?v=10&encoding=json", 1);
    let mut of_bot = Http::new(scene.demo.addr, &format!("Bot {token}"));
    let commands = format!("/api/v10/applications/{BOT}/commands");
    let command = of_bot.request("POST", &commands, Some(&json!({"name": "a", "description": "d"}))).unwrap().body;
    let data = json!({"id": command["id"], "name": "a", "type": 1});
    let invocation = json!({"type": 2, "application_id": BOT, "channel_id": CHANNEL, "guild_id": GUILD, "data": data});
    assert_eq!(scene.bob.request("POST", "/api/v10/interactions", Some(&invocation)).unwrap().status, 204);
    let got = bot.await_payload(0, Some("INTERACTION_CREATE"))["d"].clone();
    let (id, token) = (got["id"].as_str().unwrap(), got["token"].as_str().unwrap());
    let mut anyone = Http::new(scene.demo.addr, "");
    let mut answer = |content: &str| {
        let path = format!("/api/v10/interactions/{id}/{token}/callback?with_response=true");
        let body = json!({"type": 4, "data": {"content": content, "flags": 64}});
        anyone.request("POST", &path, Some(&body)).unwrap()
    };
    let refused = answer("buy spam");
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!(200_000)), "{refused:?}");
    let reviewed = sink.next().body;
    assert_eq!((&reviewed["content"], &reviewed["channel_id"]), (&json!("buy spam"), &json!(CHANNEL)));
    assert_eq!(reviewed["author"], json!({"kind": "user", "id": BOT}));
    // The refused text does not count as the answer.
    let answered = answer("teh").body;
    let message = &answered["resource"]["message"];
    assert_eq!((&message["content"], &message["flags"]), (&json!("the"), &json!(64)), "{answered}");
    let original = format!("/api/v10/webhooks/{BOT}/{token}/messages/@original");
    let edited = anyone.request("PATCH", &original, Some(&json!({"content": "more spam"}))).unwrap();
    assert_eq!(edited.status, 400, "{edited:?}");
    sink.next();
    assert_eq!(sink.next().body["message_id"], message["id"]);
    assert_eq!(anyone.get(&original).unwrap().body["content"], "the");
}

#[test]
fn v1_without_a_decision_the_setting_holds() {
    let sink = Sink::start(decide);
    let mut scene = Scene::new(&sink.url(), "refuse");
    for text in ["stall", "break", "odd"] {
        assert_eq!(scene.say(text).status, 503, "{text}");
    }
    assert_eq!(scene.say("hello").status, 200);
    let mut open = Scene::new(&sink.url(), "allow");
    for text in ["stall", "break", "odd"] {
        assert_eq!(open.say(text).status, 200, "{text}");
    }
    assert!(metrics(open.demo.addr).contains("reviews_total{result=\"unreviewed\"} 3"));
}

#[test]
fn v2_a_service_that_is_away_is_spared() {
    let sink = Sink::start(|_| Some((500, String::new())));
    let mut scene = Scene::new(&sink.url(), "allow");
    for n in 0..40 {
        assert_eq!(scene.say(&n.to_string()).status, 200);
    }
    // After ten failures at most one request a second.
    let asked = sink.rest().len();
    assert!((10..40).contains(&asked), "{asked}");
}

#[test]
fn a_hook_needs_a_secret() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("store.dir={}", dir.path().display());
    let url = "hook.url=http://127.0.0.1:1/";
    let output = crate::support::run(["serve", "--listen", "127.0.0.1:0", "--set", &store, "--set", url]);
    let text = crate::support::stderr(&output);
    assert!(!output.status.success() && text.contains("hook.secret"), "{text}");
}
