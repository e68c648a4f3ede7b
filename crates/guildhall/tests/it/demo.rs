//! The demo as a whole: ready, talked to, talking, stopped, started again.

use crate::support::{Demo, run, stderr, wait_for};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _};

fn names(channels: &Value) -> Vec<&str> {
    channels.as_array().unwrap().iter().map(|channel| channel["name"].as_str().unwrap()).collect()
}

#[test]
fn a_community_to_connect_to_that_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(dir.path(), &["--members", "40", "--rate", "0", "--seed", "3"]);
    let mode = fs::metadata(dir.path().join("demo.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let guild = demo.manifest["guild_id"].as_str().unwrap().to_owned();
    let general = demo.channels()[0].clone();
    let (mut bot, mut user) = (demo.client("bot_token"), demo.client("user_token"));

    assert_eq!(bot.get("/api/v10/users/@me").unwrap().body["bot"], true);
    let me = user.get("/api/v10/users/@me").unwrap().body;
    assert!(me["bot"].is_null() || me["bot"] == false, "{me}");
    let gateway = bot.get("/api/v10/gateway/bot").unwrap().body;
    assert_eq!(gateway["url"], demo.manifest["gateway_url"]);

    let seen_by_bot = bot.get(&format!("/api/v10/guilds/{guild}/channels")).unwrap().body;
    let seen_by_user = user.get(&format!("/api/v10/guilds/{guild}/channels")).unwrap().body;
    assert!(names(&seen_by_bot).contains(&"staff") && names(&seen_by_bot).contains(&"leads"), "{seen_by_bot}");
    assert!(names(&seen_by_user).contains(&"general") && names(&seen_by_user).contains(&"Lounge"), "{seen_by_user}");
    // Private channels are hidden, or shown without access: their messages never are.
    for id in demo.channels() {
        let channel = seen_by_bot.as_array().unwrap().iter().find(|channel| channel["id"] == id.as_str()).unwrap();
        let private = channel["name"] == "staff" || channel["name"] == "leads";
        let status = user.get(&format!("/api/v10/channels/{id}/messages")).unwrap().status;
        assert_eq!(status == 403, private, "{channel} gave {status}");
    }

    let path = format!("/api/v10/channels/{general}/messages");
    let sent = user.request("POST", &path, Some(&json!({"content": "is this kept?"}))).unwrap();
    assert_eq!(sent.status, 200, "{sent:?}");
    let history = bot.get(&format!("{path}?limit=100")).unwrap().body;
    assert_eq!(history[0]["content"], "is this kept?");
    assert!(history.as_array().unwrap().len() > 10, "there was talk before");

    let before = demo.manifest.clone();
    assert_eq!(demo.terminate(), Some(0));
    // Other wishes than the first time are ignored: the community is there.
    let again = Demo::start(dir.path(), &["--members", "7", "--rate", "0", "--seed", "4"]);
    for key in ["bot_token", "admin_key", "guild_id", "channel_ids"] {
        assert_eq!(again.manifest[key], before[key], "{key}");
    }
    let history = again.client("user_token").get(&path).unwrap().body;
    assert_eq!(history[0]["id"], sent.body["id"]);
}

#[test]
fn members_talk_like_real_ones() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(dir.path(), &["--members", "30", "--rate", "200"]);
    let mut user = demo.client("user_token");
    let general = &demo.channels()[0];
    let newest = |user: &mut crate::support::Http| {
        user.get(&format!("/api/v10/channels/{general}/messages?limit=100")).unwrap().body
    };
    let first = newest(&mut user)[0]["id"].as_str().unwrap().to_owned();
    let messages = wait_for("a hundred new messages", || {
        let messages = newest(&mut user);
        let oldest = messages[99]["id"].as_str()?.to_owned();
        ((oldest.len(), oldest) > (first.len(), first.clone())).then_some(messages)
    });
    let authors: std::collections::HashSet<&str> =
        messages.as_array().unwrap().iter().map(|m| m["author"]["id"].as_str().unwrap()).collect();
    assert!(authors.len() > 1, "several people talk");
    assert!(messages.as_array().unwrap().iter().all(|m| m["author"].get("bot") != Some(&Value::Bool(true))));
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn conversations_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let chat = dir.path().join("chat.ndjson");
    let line = |turn: usize, speaker: &str| json!({"conversation": "c", "turn": turn, "speaker": speaker, "text": format!("turn {turn} of the file")});
    let lines: Vec<String> = (0..400).map(|turn| line(turn, ["a", "b"][turn % 2]).to_string()).collect();
    fs::write(&chat, lines.join("\n")).unwrap();
    let demo = Demo::start(&dir.path().join("data"), &["--rate", "4000", "--chat", chat.to_str().unwrap()]);
    let mut user = demo.client("user_token");
    let path = format!("/api/v10/channels/{}/messages?limit=100", demo.channels()[0]);
    let turns = wait_for("many turns of the file", || {
        let messages = user.get(&path).unwrap().body;
        let texts = messages.as_array()?.iter().rev().filter_map(|message| message["content"].as_str());
        // Edits add to the end of a text.
        let number = |text: &str| text.strip_prefix("turn ")?.split(' ').next()?.parse::<usize>().ok();
        let turns: Vec<usize> = texts.filter_map(number).collect();
        (turns.len() > 90).then_some(turns)
    });
    // On a slow machine the conversation may have restarted before the next look.
    let in_order = |pair: &[usize]| pair[0] < pair[1] || pair[0] > pair[1] + 200;
    assert!(turns.windows(2).all(in_order), "they keep their order: {turns:?}");
}

#[test]
fn a_broken_file_of_conversations() {
    let dir = tempfile::tempdir().unwrap();
    let chat = dir.path().join("chat.ndjson");
    fs::write(
        &chat,
        "{\"conversation\":\"c\",\"turn\":0,\"speaker\":\"a\",\"text\":\"hi\"}\n{\"conversation\":\"c\"}\n",
    )
    .unwrap();
    let data = dir.path().join("data");
    let output = run(["demo", "--data", data.to_str().unwrap(), "--chat", chat.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let printed = stderr(&output);
    assert!(printed.contains("chat.ndjson:2: ") && printed.contains("missing field `turn`"), "{printed}");
    assert!(!data.exists(), "nothing was created");
}
