//! The feed of backends over real sockets: long polls and streams, over restarts.

use crate::{
    backend::{ANA, BOB, BOT, Backend, CHANNEL, GUILD, client},
    support::Demo,
};
use serde_json::{Value, json};

const VOICE: &str = "1200000000000000005";

fn demo(dir: &tempfile::TempDir) -> Demo {
    let settings = ["events.keep=on", "events.rows_max=1000", "limits.rest_rate_percent=0"];
    let args: Vec<&str> =
        ["--members", "3", "--rate", "0"].into_iter().chain(settings.iter().flat_map(|set| ["--set", set])).collect();
    Demo::start(dir.path(), &args)
}

/// A node that keeps events, with the guild of `backend::built`, and the position after it was made.
fn started(dir: &tempfile::TempDir) -> (Demo, Backend, String) {
    let demo = demo(dir);
    let mut backend = Backend::root(&demo);
    backend.build();
    let position = backend.get("/events")["next"].as_str().unwrap().to_owned();
    (demo, backend, position)
}

fn say(backend: &mut Backend, content: &str) -> String {
    let body = json!({"author_id": ANA, "content": content});
    let sent = backend.request("POST", &format!("/channels/{CHANNEL}/messages"), Some(body), 201);
    sent["id"].as_str().unwrap().to_owned()
}

/// Events after a position until one `is_last`.
#[track_caller]
fn until(backend: &mut Backend, after: &str, query: &str, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
    let (mut after, mut events) = (after.to_owned(), Vec::new());
    loop {
        let page = backend.get(&format!("/events?after={after}&wait_s=60{query}"));
        let some = page["events"].as_array().unwrap();
        assert!(!some.is_empty(), "no event came after {events:?}");
        events.extend(some.iter().cloned());
        if events.last().is_some_and(&is_last) {
            return events;
        }
        after = page["next"].as_str().unwrap().to_owned();
    }
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn what_happens_is_in_the_feed_in_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend, position) = started(&dir);
    backend.put(&format!("/guilds/{GUILD}/channels/{VOICE}"), json!({"name": "voice", "type": 2}), 201);
    let token = backend.token(BOB);
    let (mut bob, _) = client(&demo, &token, "?v=10&encoding=json", 1);
    let mut rest = crate::support::Http::new(demo.addr, &token);

    let message = say(&mut backend, "first");
    let path = format!("/channels/{CHANNEL}/messages/{message}");
    backend.request("PATCH", &path, Some(json!({"content": "changed"})), 200);
    let reaction = format!("/api/v10{path}/reactions/%F0%9F%94%A5/@me");
    assert_eq!(rest.request("PUT", &reaction, None).unwrap().status, 204);
    assert_eq!(rest.request("DELETE", &reaction, None).unwrap().status, 204);
    backend.request("DELETE", &path, None, 204);
    bob.send(4, &json!({"guild_id": GUILD, "channel_id": VOICE, "self_mute": false, "self_deaf": false}));
    until(&mut backend, &position, "&types=VOICE_STATE_UPDATE", |_| true);
    backend.put("/users/1200000000000000042", json!({"username": "newcomer"}), 201);
    backend.put(&format!("/guilds/{GUILD}/members/1200000000000000042"), json!({}), 201);
    backend.put(&format!("/guilds/{GUILD}/bans/{BOT}"), json!({"reason": "spam"}), 204);
    backend.request("DELETE", &format!("/guilds/{GUILD}/bans/{BOT}"), None, 204);
    let direct = backend.request("POST", "/directs", Some(json!({"user_ids": [ANA, BOB]})), 200);
    let direct = direct["channel_id"].as_str().unwrap().to_owned();
    let whisper = json!({"author_id": ANA, "content": "psst"});
    backend.request("POST", &format!("/channels/{direct}/messages"), Some(whisper), 201);

    let events = until(&mut backend, &position, "", |event| event["guild_id"].is_null());
    let expected = [
        "MESSAGE_CREATE",
        "MESSAGE_UPDATE",
        "MESSAGE_REACTION_ADD",
        "MESSAGE_REACTION_REMOVE",
        "MESSAGE_DELETE",
        "VOICE_STATE_UPDATE",
        "GUILD_MEMBER_ADD",
        "GUILD_MEMBER_REMOVE",
        "GUILD_BAN_ADD",
        "GUILD_BAN_REMOVE",
        "MESSAGE_CREATE",
    ];
    assert_eq!(types(&events), expected);
    let positions: Vec<u64> = events.iter().map(|event| event["position"].as_str().unwrap().parse().unwrap()).collect();
    assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
    assert_eq!((&events[0]["guild_id"], &events[0]["channel_id"]), (&json!(GUILD), &json!(CHANNEL)));
    assert_eq!((&events[0]["data"]["content"], &events[1]["data"]["content"]), (&json!("first"), &json!("changed")));
    assert_eq!(events[5]["data"]["channel_id"], VOICE);
    assert_eq!((&events[6]["data"]["user"]["username"], &events[6]["channel_id"]), (&json!("newcomer"), &Value::Null));
    assert_eq!((&events[10]["data"]["content"], &events[10]["channel_id"]), (&json!("psst"), &json!(direct)));

    // Filters, and a page of one.
    let of_guild =
        backend.get(&format!("/events?after={position}&guild_id={GUILD}&types=MESSAGE_CREATE,GUILD_BAN_ADD"));
    assert_eq!(types(of_guild["events"].as_array().unwrap()), ["MESSAGE_CREATE", "GUILD_BAN_ADD"]);
    let of_direct = backend.get(&format!("/events?after={position}&channel_id={direct}"));
    assert_eq!(of_direct["events"].as_array().unwrap().len(), 1);
    let one = backend.get(&format!("/events?after={position}&limit=1"));
    assert_eq!((&one["events"][0], &one["next"]), (&events[0], &events[0]["position"]));
    let wrong = backend.request("GET", "/events?types=MESSAGE_CREATE,TYPING_START", None, 400);
    assert_eq!(wrong["errors"][0]["field"], "types");
    backend.request("GET", &format!("/events?after={}", u64::MAX >> 1), None, 409);
}

#[test]
fn polls_and_forwards_are_shown_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend, position) = started(&dir);
    let token = backend.token(BOB);
    let mut bob = crate::support::Http::new(demo.addr, &token);
    let messages = format!("/api/v10/channels/{CHANNEL}/messages");
    let mut done = |method: &str, path: &str, body: Value, status: u16| {
        let answer = bob.request(method, path, Some(&body)).unwrap();
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        answer.body
    };
    let poll = json!({"poll": {"question": {"text": "how?"}, "duration": 1, "answers": [{"poll_media": {"text": "so"}},
        {"poll_media": {"text": "or so", "emoji": {"name": "🔥"}}}]}});
    let polled = done("POST", &messages, poll, 200)["id"].as_str().unwrap().to_owned();
    let votes = format!("/api/v10/channels/{CHANNEL}/polls/{polled}/answers/@me");
    done("PUT", &votes, json!({"answer_ids": [2]}), 204);
    let read = backend.get(&format!("/channels/{CHANNEL}/messages/{polled}"));
    let (poll, reactions) = (&read["poll"], &read["reactions"]);
    assert_eq!((&poll["question"], &poll["is_final"], reactions), (&json!("how?"), &json!(false), &json!([])));
    assert_eq!(poll["answers"][0], json!({"id": 1, "text": "so", "emoji_id": null, "emoji_name": null, "votes": 0}));
    assert_eq!(poll["answers"][1], json!({"id": 2, "text": "or so", "emoji_id": null, "emoji_name": "🔥", "votes": 1}));
    done("PUT", &votes, json!({"answer_ids": []}), 204);

    let original = say(&mut backend, "hear");
    let forward = json!({"message_reference": {"type": 1, "channel_id": CHANNEL, "message_id": original}});
    let forwarded = done("POST", &messages, forward, 200)["id"].as_str().unwrap().to_owned();
    let read = backend.get(&format!("/channels/{CHANNEL}/messages/{forwarded}"));
    assert_eq!((&read["content"], &read["reply_to"], &read["poll"]), (&json!(""), &Value::Null, &Value::Null));
    let of = &read["forwarded"];
    assert_eq!((&of["message_id"], &of["guild_id"], &of["content"]), (&json!(original), &json!(GUILD), &json!("hear")));

    let types = "&types=MESSAGE_POLL_VOTE_ADD,MESSAGE_POLL_VOTE_REMOVE";
    let events = until(&mut backend, &position, types, |event| event["type"] == "MESSAGE_POLL_VOTE_REMOVE");
    assert_eq!(events.len(), 2);
    for event in &events {
        let data = &event["data"];
        assert_eq!(
            (&data["answer_id"], &data["user_id"], &data["message_id"]),
            (&json!(2), &json!(BOB), &json!(polled))
        );
        assert_eq!(event["channel_id"], CHANNEL);
    }
}

#[test]
fn e4_a_reader_misses_nothing_over_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut backend, position) = started(&dir);
    let mut stream = backend.stream("GET", &format!("/events/stream?after={position}&types=MESSAGE_CREATE"));
    let first = say(&mut backend, "1");
    let line = stream.next().expect("an event");
    assert_eq!(line["data"]["id"], first);
    let second = say(&mut backend, "2");
    drop(stream);
    node.kill();

    let node = demo(&dir);
    let mut backend = Backend::root(&node);
    let third = say(&mut backend, "3");
    let after = line["position"].as_str().unwrap();
    let is_third = |event: &Value| event["data"]["id"] == *third;
    let events = until(&mut backend, after, "&types=MESSAGE_CREATE", is_third);
    let ids: Vec<&Value> = events.iter().map(|event| &event["data"]["id"]).collect();
    assert_eq!(ids, [&json!(second), &json!(third)]);
    let mut stream = backend.stream("GET", "/events/stream?after=0&types=MESSAGE_CREATE");
    let again: Vec<Value> = (0..3).map(|_| stream.next().expect("an event")["data"]["id"].clone()).collect();
    assert_eq!(again, [json!(first), json!(second), json!(third)]);
}

#[test]
fn e4_a_reader_that_is_too_late_gets_the_oldest_position() {
    let dir = tempfile::tempdir().unwrap();
    let (node, backend, position) = started(&dir);
    let mut import = backend.stream("POST", &format!("/guilds/{GUILD}/members/import?events=true"));
    for n in 0..1_200_u64 {
        import.write(&format!(
            "{}\n",
            json!({"user": {"id": (1_300_000_000_000_000_000 + n).to_string(), "username": "m"}})
        ));
    }
    import.end();
    assert_eq!(import.rest().last().unwrap()["added"], 1_200);
    assert_eq!(node.terminate(), Some(0));
    // Events that are too many are removed at the start.
    let node = demo(&dir);
    let mut backend = Backend::root(&node);
    let path = format!("/events?after={position}");
    let late = crate::support::wait_for("old events are removed", || {
        let answer = backend.http.request("GET", &format!("/v1{path}"), None).unwrap();
        (answer.status == 410).then_some(answer.body)
    });
    assert_eq!(late["code"], "too_late");
    // Removal goes on in steps: the oldest position of an answer may be too late again.
    let mut oldest: u64 = late["oldest"].as_str().unwrap().parse().unwrap();
    let next = crate::support::wait_for("the oldest position stays", || {
        let answer = backend.http.request("GET", &format!("/v1/events?after={oldest}&limit=1"), None).unwrap();
        if answer.status == 410 {
            oldest = answer.body["oldest"].as_str().unwrap().parse().unwrap();
        }
        (answer.status == 200).then_some(answer.body)
    });
    assert_eq!(next["events"][0]["position"], (oldest + 1).to_string());
    assert_eq!(backend.get("/events?after=0&limit=1")["events"][0], next["events"][0]);
}

#[test]
fn without_the_setting_nothing_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (_demo, mut backend) = crate::backend::built(&dir);
    let refused = backend.request("GET", "/events", None, 409);
    assert!(refused["message"].as_str().unwrap().contains("events.keep"), "{refused}");
    let made = backend.request("POST", "/keys", Some(json!({"name": "m", "scopes": ["messages"]})), 201);
    Backend::with(backend.addr, made["key"].as_str().unwrap()).request("GET", "/events", None, 403);
}
