//! Webhooks of the feed in a cluster: whatever node an event comes from, one node delivers it.

use crate::{
    backend::{ANA, Backend, CHANNEL},
    http_sink::Sink,
    nodes::{Site, two},
};
use serde_json::json;

fn post(backend: &mut Backend, content: &str) {
    let body = json!({"author_id": ANA, "content": content});
    backend.request("POST", &format!("/channels/{CHANNEL}/messages"), Some(body), 201);
}

/// Contents of messages after this position until one of them is `last`.
fn contents(sink: &Sink, secret: &str, position: &mut u64, last: &str) -> Vec<String> {
    let mut contents = Vec::new();
    while contents.last().is_none_or(|content: &String| content != last) {
        let received = sink.next();
        assert!(received.is_signed(secret), "{received:?}");
        for event in received.body["events"].as_array().unwrap() {
            let at: u64 = event["position"].as_str().unwrap().parse().unwrap();
            if at > *position {
                *position = at;
                contents.push(event["data"]["content"].as_str().unwrap().to_owned());
            }
        }
    }
    contents
}

#[test]
fn d3_another_node_delivers_when_the_first_has_left() {
    let Some(site) = Site::with(&["events.keep=on", "events.private_webhooks=on"]) else { return };
    let (first, second) = two(&site);
    let sink = Sink::start(|_| Some((204, String::new())));
    let webhook = json!({"url": sink.url(), "types": ["MESSAGE_CREATE"]});
    let made = second.backend().request("POST", "/webhooks", Some(webhook), 201);
    let secret = made["secret"].as_str().unwrap();
    for n in 0..6 {
        let at = if n % 2 == 0 { &first } else { &second };
        post(&mut at.backend(), &n.to_string());
    }
    let mut position = 0;
    assert_eq!(contents(&sink, secret, &mut position, "5"), ["0", "1", "2", "3", "4", "5"]);

    // D2: the next node goes on there, perhaps with the last request again.
    assert_eq!(first.process.terminate(), Some(0));
    let mut backend = second.backend();
    post(&mut backend, "6");
    post(&mut backend, "7");
    assert_eq!(contents(&sink, secret, &mut position, "7"), ["6", "7"]);
}
