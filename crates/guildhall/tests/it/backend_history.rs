//! Import of a history by the backend API.

use crate::backend::{ANA, BOB, Backend, CHANNEL, GUILD, SECRET, built};
use serde_json::{Value, json};

fn import(backend: &Backend, query: &str, lines: &[Value]) -> Vec<Value> {
    let mut stream = backend.stream("POST", &format!("/guilds/{GUILD}/import/messages{query}"));
    for chunk in lines.chunks(500) {
        stream.write(&chunk.iter().map(|line| format!("{line}\n")).collect::<String>());
    }
    stream.end();
    stream.rest()
}

fn line(n: u64) -> Value {
    let (second, author) = (n % 60, if n.is_multiple_of(2) { ANA } else { BOB });
    let timestamp = format!("2020-03-{:02}T{:02}:{:02}:{second:02}Z", 1 + n / 86_400, n / 3_600 % 24, n / 60 % 60);
    json!({"channel_id": CHANNEL, "author_id": author, "timestamp": timestamp, "content": n.to_string()})
}

#[test]
fn m5_a_history_keeps_authors_and_times_and_comes_once() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    let lines: Vec<Value> = (0..3_000).map(line).collect();
    let first = import(&backend, "", &lines);
    let end = first.last().unwrap();
    assert_eq!((&end["added"], &end["unchanged"], &end["done"]), (&json!(3_000), &json!(0), &json!(true)));
    let newest = backend.get(&format!("/channels/{CHANNEL}/messages?limit=2"));
    assert_eq!((&newest[0]["content"], &newest[0]["author"]["username"]), (&json!("2999"), &json!("bob")));
    assert!(newest[0]["timestamp"].as_str().unwrap().starts_with("2020-03-01T00:49:59"), "{newest}");
    let again = import(&backend, "", &lines);
    assert_eq!((&again.last().unwrap()["added"], &again.last().unwrap()["unchanged"]), (&json!(0), &json!(3_000)));
    let skipped = import(&backend, "?skip=2999", &lines);
    assert_eq!(skipped.last().unwrap()["unchanged"], 1);

    // They are messages as all others.
    let id = newest[0]["id"].as_str().unwrap();
    let path = format!("/channels/{CHANNEL}/messages/{id}");
    backend.request("PATCH", &path, Some(json!({"content": "changed"})), 200);
    let body = json!({"author_id": ANA, "content": "new", "reply_to": id});
    let new = backend.request("POST", &format!("/channels/{CHANNEL}/messages"), Some(body), 201);
    assert!(new["id"].as_str().unwrap().parse::<u64>().unwrap() > id.parse().unwrap());
    let again = import(&backend, "", &lines);
    assert_eq!(again.last().unwrap()["added"], 0);
    assert_eq!(backend.get(&path)["content"], "changed", "one that is there stays as it is");
    drop(demo);
}

#[test]
fn faulty_lines_are_named_and_the_others_stored() {
    let dir = tempfile::tempdir().unwrap();
    let (_demo, mut backend) = built(&dir);
    let with = |name: &str, value: Value| {
        let mut line = line(1);
        line[name] = value;
        line
    };
    let lines = [
        line(0),
        with("author_id", json!("5")),
        with("channel_id", json!("77")),
        with("timestamp", json!("2999-01-01T00:00:00Z")),
        with("content", json!("x".repeat(2_001))),
        with("colour", json!(1)),
        json!({"channel_id": CHANNEL, "author_id": ANA, "content": "no time"}),
        with("id", json!("175928847299117063")),
        with("channel_id", json!(SECRET)),
    ];
    let answer = import(&backend, "", &lines);
    let faults: Vec<(&Value, &Value)> = answer
        .iter()
        .filter(|line| line["code"] == "invalid")
        .map(|line| (&line["line"], &line["errors"][0]["field"]))
        .collect();
    let mut faults: Vec<(u64, &str)> =
        faults.iter().map(|(line, field)| (line.as_u64().unwrap(), field.as_str().unwrap())).collect();
    faults.sort_unstable();
    assert_eq!(
        faults,
        [(2, "author_id"), (3, "channel_id"), (4, "timestamp"), (5, "content"), (6, "colour"), (7, "timestamp")]
    );
    let end = answer.last().unwrap();
    assert_eq!(
        (&end["added"], &end["failed"], &end["line"], &end["done"]),
        (&json!(3), &json!(6), &json!(9), &json!(true))
    );
    assert_eq!(backend.get(&format!("/channels/{CHANNEL}/messages/175928847299117063"))["content"], "1");
    let made = backend.request("POST", "/keys", Some(json!({"name": "w", "scopes": ["write"]})), 201);
    let mut writer = Backend::with(backend.addr, made["key"].as_str().unwrap());
    writer.request("POST", &format!("/guilds/{GUILD}/import/messages"), None, 403);
}
