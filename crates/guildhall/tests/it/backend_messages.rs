//! Messages and bans by the backend API, over real sockets.

use crate::backend::{ANA, BOB, BOT, Backend, CHANNEL, GUILD, SECRET, built, client, demo};
use serde_json::{Value, json};

const EVERYTHING: u32 = 0x1ff_ffff & !(1 << 1 | 1 << 8);

fn messages(channel: &str) -> String {
    format!("/channels/{channel}/messages")
}

#[track_caller]
fn send(backend: &mut Backend, channel: &str, author: &str, content: &str) -> String {
    let body = json!({"author_id": author, "content": content});
    let sent = backend.request("POST", &messages(channel), Some(body), 201);
    sent["id"].as_str().unwrap().to_owned()
}

fn contents(page: &Value) -> Vec<&str> {
    page.as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect()
}

#[test]
fn a_backend_writes_as_any_account() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    let token = backend.token(BOB);
    let (mut bob, _) = client(&demo, &token, "?v=10&encoding=json", EVERYTHING);

    let sent = backend.request(
        "POST",
        &messages(CHANNEL),
        Some(json!({"author_id": ANA, "content": " hello <@1200000000000000012> ", "nonce": "n-1", "flags": 4,
                    "embeds": [{"title": "t"}], "attachments": [{"url": "https://example.net/a.png", "filename": "a.png"}]})),
        201,
    );
    assert_eq!((&sent["author"]["id"], &sent["content"]), (&json!(ANA), &json!("hello <@1200000000000000012>")));
    assert_eq!((&sent["mentions"], &sent["guild_id"]), (&json!([BOB]), &json!(GUILD)));
    assert_eq!((&sent["embeds"][0]["type"], &sent["attachments"][0]["filename"]), (&json!("rich"), &json!("a.png")));
    let event = bob.await_payload(0, Some("MESSAGE_CREATE"));
    assert_eq!((&event["d"]["id"], &event["d"]["nonce"]), (&sent["id"], &json!("n-1")));
    assert_eq!(event["d"]["member"]["user"], Value::Null);

    // Neither a member nor a viewer of the channel is needed.
    backend.put("/users/1200000000000000099", json!({"username": "bridge"}), 201);
    let guest = send(&mut backend, SECRET, "1200000000000000099", "from afar");
    let reply = json!({"author_id": ANA, "content": "well", "reply_to": guest});
    let reply = backend.request("POST", &messages(SECRET), Some(reply), 201);
    assert_eq!((&reply["type"], &reply["reply_to"]), (&json!(19), &json!(guest)));
    let read = backend.get(&format!("{}/{guest}", messages(SECRET)));
    assert_eq!((&read["author"]["username"], &read["reactions"]), (&json!("bridge"), &json!([])));

    // A thread and a direct message are channels, too.
    let direct = backend.request("POST", "/directs", Some(json!({"user_ids": [ANA, BOB]})), 200);
    let direct = direct["channel_id"].as_str().unwrap().to_owned();
    let first = send(&mut backend, &direct, ANA, "psst");
    let event = bob.until("the direct message", |payload| payload["d"]["id"] == *first);
    assert_eq!(event["d"]["guild_id"], Value::Null);
    let stranger = json!({"author_id": "1200000000000000099", "content": "x"});
    let refused = backend.request("POST", &messages(&direct), Some(stranger), 400);
    assert_eq!(refused["errors"][0]["field"], "author_id");
    let second = send(&mut backend, &direct, BOB, "yes?");
    let gone = json!({"message_ids": [first, second, "5"]});
    backend.request("POST", &format!("{}/bulk-delete", messages(&direct)), Some(gone), 204);
    assert_eq!(backend.get(&messages(&direct)), json!([]));
}

#[test]
fn a_faulty_message_is_refused_with_its_field() {
    let dir = tempfile::tempdir().unwrap();
    let (_demo, mut backend) = built(&dir);
    let mut fault = |body: Value, field: &str| {
        let refused = backend.request("POST", &messages(CHANNEL), Some(body.clone()), 400);
        assert_eq!(refused["errors"][0]["field"], field, "{body}: {refused}");
    };
    fault(json!({"author_id": ANA, "content": "x".repeat(2_001)}), "content");
    fault(json!({"author_id": ANA, "embeds": [{"fields": [{"name": "n"}]}]}), "embeds[0].fields[0].value");
    fault(json!({"author_id": "5", "content": "x"}), "author_id");
    fault(json!({"author_id": "ext:none", "content": "x"}), "author_id");
    fault(json!({"author_id": ANA, "content": "x", "colour": 1}), "colour");
    fault(json!({"author_id": ANA, "content": "x", "reply_to": "7"}), "reply_to");
    fault(json!({"author_id": ANA, "content": "x", "key": ""}), "key");
    fault(json!({"author_id": ANA, "content": "x", "sticker_ids": ["9"]}), "sticker_ids");
    fault(
        json!({"author_id": ANA, "content": "x", "attachments": [{"url": "ftp://x", "filename": "f"}]}),
        "attachments[0].url",
    );
    backend.request("POST", &messages(CHANNEL), Some(json!({"author_id": ANA})), 400);
    backend.request("POST", &messages("77"), Some(json!({"author_id": ANA, "content": "x"})), 404);
    backend.request("GET", &format!("{}/5", messages(CHANNEL)), None, 404);
    backend.request("DELETE", &format!("{}/5", messages(CHANNEL)), None, 404);
    let two = backend.request("GET", &format!("{}?before=5&after=6", messages(CHANNEL)), None, 400);
    assert_eq!(two["errors"][0]["field"], "after");

    let made = backend.request("POST", "/keys", Some(json!({"name": "w", "scopes": ["read", "write"]})), 201);
    let mut writer = Backend::with(backend.addr, made["key"].as_str().unwrap());
    let refused = writer.request("GET", &messages(CHANNEL), None, 403);
    assert!(refused["message"].as_str().unwrap().contains("`messages`"), "{refused}");
}

#[test]
fn a_key_sends_one_message_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (started, mut backend) = built(&dir);
    let keyed = |author: &str| json!({"author_id": author, "content": "once", "key": "order-17", "nonce": "n"});
    let first = backend.request("POST", &messages(CHANNEL), Some(keyed(ANA)), 201);
    assert_eq!(backend.request("POST", &messages(CHANNEL), Some(keyed(ANA)), 200)["id"], first["id"]);
    backend.request("POST", &messages(CHANNEL), Some(keyed(BOB)), 201);
    // Another API key has keys of its own.
    let made = backend.request("POST", "/keys", Some(json!({"name": "m", "scopes": ["messages"]})), 201);
    let mut other = Backend::with(backend.addr, made["key"].as_str().unwrap());
    other.request("POST", &messages(CHANNEL), Some(keyed(ANA)), 201);
    assert_eq!(started.terminate(), Some(0));
    let again = demo(&dir);
    let mut backend = Backend::root(&again);
    assert_eq!(backend.request("POST", &messages(CHANNEL), Some(keyed(ANA)), 200)["id"], first["id"]);
    assert_eq!(backend.get(&messages(CHANNEL)).as_array().unwrap().len(), 3);
    let audit = backend.get("/audit?limit=1000");
    let entries = audit["entries"].as_array().unwrap();
    let of_first = |entry: &&Value| entry["object"]["message_id"] == first["id"];
    assert_eq!(entries.iter().filter(of_first).count(), 3, "{audit}");
}

#[test]
fn messages_are_paged_changed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    // MESSAGE_CONTENT.
    backend.request("PATCH", &format!("/users/{BOT}"), Some(json!({"application_flags": 1 << 18})), 200);
    let token = backend.token(BOT);
    let (mut bot, _) = client(&demo, &token, "?v=10&encoding=json", 1 << 9 | 1 << 15);
    let ids: Vec<String> = (0..5).map(|n| send(&mut backend, CHANNEL, ANA, &n.to_string())).collect();
    let mut page = |query: &str| backend.get(&format!("{}?{query}", messages(CHANNEL)));
    assert_eq!(contents(&page("limit=2")), ["4", "3"]);
    assert_eq!(contents(&page(&format!("before={}&limit=2", ids[3]))), ["2", "1"]);
    assert_eq!(contents(&page(&format!("after={}&limit=2", ids[1]))), ["3", "2"]);
    assert_eq!(contents(&page(&format!("around={}&limit=3", ids[2]))), ["3", "2", "1"]);

    let path = format!("{}/{}", messages(CHANNEL), ids[0]);
    let edited = backend.request("PATCH", &path, Some(json!({"content": "zero"})), 200);
    assert_eq!(edited["content"], "zero");
    assert!(edited["edited_timestamp"].is_string(), "{edited}");
    assert_eq!(bot.await_payload(0, Some("MESSAGE_UPDATE"))["d"]["content"], "zero");
    let same = backend.request("PATCH", &path, Some(json!({})), 200);
    assert_eq!(same["edited_timestamp"], edited["edited_timestamp"]);
    let empty = backend.request("PATCH", &path, Some(json!({"content": null})), 400);
    assert_eq!(empty["errors"][0]["field"], "content");
    backend.request("DELETE", &path, None, 204);
    assert_eq!(bot.await_payload(0, Some("MESSAGE_DELETE"))["d"]["id"], ids[0]);
    let some = json!({"message_ids": [ids[1], ids[2]]});
    backend.request("POST", &format!("{}/bulk-delete", messages(CHANNEL)), Some(some), 204);
    let gone = bot.await_payload(0, Some("MESSAGE_DELETE_BULK"));
    assert_eq!(gone["d"]["ids"], json!([ids[1], ids[2]]));
    assert_eq!(contents(&backend.get(&messages(CHANNEL))), ["4", "3"]);
}

#[test]
fn a_ban_removes_the_member_and_recent_messages() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    let (kept, _) = (send(&mut backend, CHANNEL, ANA, "kept"), send(&mut backend, CHANNEL, BOB, "spam"));
    let (bans, bob) = (format!("/guilds/{GUILD}/bans"), format!("/guilds/{GUILD}/bans/{BOB}"));
    backend.request("GET", &bob, None, 404);
    backend.put(&bob, json!({"reason": "spam", "delete_message_seconds": 3600}), 204);
    backend.request("GET", &format!("/guilds/{GUILD}/members/{BOB}"), None, 404);
    let left = backend.get(&messages(CHANNEL));
    assert_eq!((left.as_array().unwrap().len(), &left[0]["id"]), (1, &json!(kept)));
    let read = backend.get(&bob);
    assert_eq!((&read["reason"], &read["user"]["username"]), (&json!("spam"), &json!("bob")));
    backend.put(&bob, json!({"reason": "another"}), 204);
    backend.put(&format!("/guilds/{GUILD}/bans/{BOT}"), json!({}), 204);
    let listed = backend.get(&bans);
    let users: Vec<&Value> = listed.as_array().unwrap().iter().map(|ban| &ban["user"]["id"]).collect();
    assert_eq!((users, &listed[0]["reason"]), (vec![&json!(BOB), &json!(BOT)], &json!("spam")));
    assert_eq!(backend.get(&format!("{bans}?after={BOB}&limit=1"))[0]["user"]["id"], BOT);
    let owner = backend.put(&format!("/guilds/{GUILD}/bans/{ANA}"), json!({}), 409);
    assert!(owner["message"].as_str().unwrap().contains("owner"), "{owner}");
    backend.put(&bob, json!({"delete_message_seconds": 604_801}), 400);
    backend.put(&format!("/guilds/{GUILD}/bans/5"), json!({}), 404);
    backend.request("DELETE", &bob, None, 204);
    backend.request("DELETE", &bob, None, 404);
    backend.put(&format!("/guilds/{GUILD}/members/{BOB}"), json!({}), 201);
    drop(demo);
}
