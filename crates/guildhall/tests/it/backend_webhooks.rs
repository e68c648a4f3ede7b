//! Webhooks of the feed, with a receiver that this test is.

use crate::{
    backend::{ANA, Backend, CHANNEL, GUILD, SECRET},
    http_sink::Sink,
    support::{Demo, wait_for},
};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

fn demo(dir: &tempfile::TempDir, private: &str) -> Demo {
    let private = format!("events.private_webhooks={private}");
    let settings = ["events.keep=on", &private, "limits.rest_rate_percent=0"];
    let sets = settings.iter().flat_map(|set| ["--set", set]);
    let args: Vec<&str> = ["--members", "3", "--rate", "0"].into_iter().chain(sets).collect();
    Demo::start(dir.path(), &args)
}

fn started(dir: &tempfile::TempDir) -> (Demo, Backend) {
    let demo = demo(dir, "on");
    let mut backend = Backend::root(&demo);
    backend.build();
    (demo, backend)
}

fn say(backend: &mut Backend, channel: &str, content: &str) {
    let body = json!({"author_id": ANA, "content": content});
    backend.request("POST", &format!("/channels/{channel}/messages"), Some(body), 201);
}

/// Contents of messages until one of them is `last`, in the order in which they came.
fn contents(sink: &Sink, secret: &str, last: &str) -> Vec<String> {
    let mut contents: Vec<String> = Vec::new();
    while contents.last().is_none_or(|content| content != last) {
        let received = sink.next();
        assert!(received.is_signed(secret), "{received:?}");
        let events = received.body["events"].as_array().unwrap();
        contents.extend(events.iter().map(|event| event["data"]["content"].as_str().unwrap().to_owned()));
    }
    contents
}

#[test]
fn d1_a_webhook_gets_the_events_it_names_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let (node, mut backend) = started(&dir);
    let sink = Sink::start(|_| Some((204, String::new())));
    let body = json!({"url": sink.url(), "types": ["MESSAGE_CREATE"], "guild_ids": [GUILD], "channel_ids": [CHANNEL]});
    let made = backend.request("POST", "/webhooks", Some(body), 201);
    let (id, secret) = (made["webhook"]["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    for n in 0..5 {
        say(&mut backend, SECRET, "elsewhere");
        say(&mut backend, CHANNEL, &n.to_string());
    }
    assert_eq!(contents(&sink, secret, "4"), ["0", "1", "2", "3", "4"]);
    let read = backend.get(&format!("/webhooks/{id}"));
    assert!(!read.to_string().contains(secret), "W1");
    assert_eq!((&read["paused"], &read["error"], &read["dead_letters"]), (&json!(false), &Value::Null, &json!(0)));

    // D2 over a restart: events of the time in which the webhook was paused.
    backend.request("PATCH", &format!("/webhooks/{id}"), Some(json!({"paused": true})), 200);
    say(&mut backend, CHANNEL, "5");
    node.kill();
    let node = demo(&dir, "on");
    let mut backend = Backend::root(&node);
    backend.request("PATCH", &format!("/webhooks/{id}"), Some(json!({"paused": false})), 200);
    say(&mut backend, CHANNEL, "6");
    let again = contents(&sink, secret, "6");
    assert!(again.ends_with(&["5".to_owned(), "6".to_owned()]), "{again:?}");
    backend.request("DELETE", &format!("/webhooks/{id}"), None, 204);
    backend.request("GET", &format!("/webhooks/{id}"), None, 404);
    assert_eq!(backend.get("/webhooks")["webhooks"], json!([]));
}

#[test]
fn d1_a_failed_request_is_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let (_node, mut backend) = started(&dir);
    let status = Arc::new(AtomicU16::new(500));
    let now = status.clone();
    let sink = Sink::start(move |_| Some((now.load(Ordering::Relaxed), String::new())));
    let made = backend.request("POST", "/webhooks", Some(json!({"url": sink.url(), "types": ["MESSAGE_CREATE"]})), 201);
    let id = made["webhook"]["id"].as_str().unwrap().to_owned();
    say(&mut backend, CHANNEL, "1");
    let first = sink.next();
    let failing = wait_for("a failure", || {
        let read = backend.get(&format!("/webhooks/{id}"));
        read["error"].is_string().then_some(read)
    });
    assert_eq!(failing["error"], "it answered 500");
    say(&mut backend, CHANNEL, "2");
    status.store(200, Ordering::Relaxed);
    loop {
        let next = sink.next();
        let first_again = next.text == first.text;
        if !first_again {
            assert_eq!(next.body["events"][0]["data"]["content"], "2", "in their order");
            break;
        }
    }
}

#[test]
fn w2_addresses_of_private_networks_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let node = demo(&dir, "off");
    let mut backend = Backend::root(&node);
    for url in [
        "https://127.0.0.1/",
        "https://[::1]:9/x",
        "https://10.0.0.1/",
        "https://169.254.169.254/",
        "https://localhost/",
    ] {
        let refused = backend.request("POST", "/webhooks", Some(json!({"url": url})), 400);
        assert_eq!(refused["errors"][0]["field"], "url", "{url}");
        assert!(refused.to_string().contains("events.private_webhooks"), "{url}: {refused}");
    }
    for url in ["http://example.net/", "ftp://example.net/", "https://user@example.net/", "/x", ""] {
        backend.request("POST", "/webhooks", Some(json!({"url": url})), 400);
    }
    let wrong = json!({"url": "https://127.0.0.1/", "types": ["NOTHING"]});
    assert_eq!(backend.request("POST", "/webhooks", Some(wrong), 400)["errors"][0]["field"], "types");
}
