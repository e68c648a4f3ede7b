//! `kill -9` during a storm of writes: every message acknowledged over REST exists afterwards, and no other.

use crate::support::{Demo, Http, wait_for};
use guildhall_stdx::Rng;
use serde_json::json;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

const ROUNDS: usize = 8;
const WRITERS: usize = 6;
const SEED: u64 = 11;

/// Possible states of a message after the restart.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// Exactly this.
    Is(String),
    /// The message was deleted.
    Gone,
    /// A change was under way when the process died: one of these, or `None` for deleted.
    OneOf(Vec<Option<String>>),
}

/// Message by channel and id.
type Fates = HashMap<(String, String), Fate>;

/// Writes, edits and deletes until the server is dead; returns what is certain.
fn storm(mut http: Http, channel: String, writer: String, acknowledged: &AtomicUsize) -> Fates {
    let mut fates = Fates::new();
    let path = format!("/api/v10/channels/{channel}/messages");
    for number in 0.. {
        let content = format!("{writer} says {number}");
        let Ok(answer) = http.request("POST", &path, Some(&json!({"content": content}))) else { return fates };
        assert_eq!(answer.status, 200, "{answer:?}");
        let id = answer.body["id"].as_str().expect("an id").to_owned();
        let key = (channel.clone(), id.clone());
        fates.insert(key.clone(), Fate::Is(content.clone()));
        acknowledged.fetch_add(1, Ordering::Relaxed);
        let path = format!("{path}/{id}");
        let (sent, done, unsure) = match number % 5 {
            1 => {
                let edited = format!("{content}, and means it");
                let sent = http.request("PATCH", &path, Some(&json!({"content": edited})));
                (sent, Fate::Is(edited.clone()), Fate::OneOf(vec![Some(content), Some(edited)]))
            }
            3 => (http.request("DELETE", &path, None), Fate::Gone, Fate::OneOf(vec![Some(content), None])),
            _ => continue,
        };
        match sent {
            Ok(answer) => {
                assert!(matches!(answer.status, 200 | 204), "{answer:?}");
                fates.insert(key, done);
            }
            Err(_) => {
                fates.insert(key, unsure);
                return fates;
            }
        }
    }
    fates
}

/// Three channels of the demo's guild, and what its bot and its user write to each other.
fn channels_of(demo: &Demo) -> Vec<String> {
    let user = demo.client("user_token").get("/api/v10/users/@me").unwrap().body["id"].clone();
    let path = "/api/v10/users/@me/channels";
    let direct = demo.client("bot_token").request("POST", path, Some(&json!({"recipient_id": user}))).unwrap();
    assert_eq!(direct.status, 200, "{direct:?}");
    let direct = direct.body["id"].as_str().expect("an id").to_owned();
    demo.channels().into_iter().take(3).chain([direct]).collect()
}

#[test]
fn every_acknowledged_message_survives() {
    println!("seed {SEED}");
    let mut rng = Rng::new(SEED);
    let dir = tempfile::tempdir().unwrap();
    let start = || Demo::start(dir.path(), &["--members", "5", "--rate", "0", "--set", "limits.rest_rate_percent=0"]);
    let mut fates = Fates::new();
    for round in 0..ROUNDS {
        let demo = start();
        let channels = channels_of(&demo);
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (http, channel) = (demo.client("bot_token"), channels[writer % 4].clone());
                let acknowledged = acknowledged.clone();
                thread::spawn(move || storm(http, channel, format!("round {round} writer {writer}"), &acknowledged))
            })
            .collect();
        // Killed at a random point of the storm, not at a random time: the same on every machine.
        let enough = 20 + rng.below(400) as usize;
        wait_for("the storm", || (acknowledged.load(Ordering::Relaxed) >= enough).then_some(()));
        demo.kill();
        for writer in writers {
            fates.extend(writer.join().expect("a writer failed"));
        }
    }
    let demo = start();
    let mut http = demo.client("bot_token");
    let channels: HashMap<String, HashMap<String, String>> =
        channels_of(&demo).into_iter().map(|channel| (channel.clone(), http.history(&channel))).collect();
    let mut certain = 0;
    for ((channel, id), fate) in &fates {
        let found = channels[channel].get(id).cloned();
        match fate {
            Fate::Is(content) => assert_eq!(found.as_ref(), Some(content), "message {id}"),
            Fate::Gone => assert_eq!(found, None, "message {id} was deleted"),
            Fate::OneOf(all) => assert!(all.contains(&found), "message {id} is {found:?}, not one of {all:?}"),
        }
        certain += usize::from(!matches!(fate, Fate::OneOf(_)));
    }
    assert!(certain >= ROUNDS * 20, "only {certain} certain messages: the test has tested nothing");
    println!("{certain} acknowledged messages checked after {ROUNDS} kills");
}
