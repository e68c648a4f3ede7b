//! The log of a run at level `trace` has no token, no key and no message content.

use crate::{
    support::{Demo, Http},
    ws::{PLAIN, Ws},
};
use serde_json::{Value, json};
use std::fs::{self, File};

const CONTENT: &str = "zq7-content-of-a-private-message";
const WRONG_TOKEN: &str = "zq7-a-token-that-is-none-of-ours";
const NONCE: &str = "zq7-nonce";

/// A run with everything that has to do with secrets; its log, and the secrets.
fn run(format: &str) -> (String, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = File::create(&path).unwrap();
    let secret = "zq7-signs-user-tokens-".repeat(3);
    let (level, format) = ("log.level=trace".to_owned(), format!("log.format={format}"));
    let key = format!("auth.jwt_secret={secret}");
    let args = ["--members", "5", "--rate", "5", "--set", &level, "--set", &format, "--set", &key];
    let demo = Demo::start_on(&dir.path().join("data"), "127.0.0.1:0", &args, log.into());
    let (bot, user) = (demo.token("bot_token"), demo.token("user_token"));
    let admin = demo.manifest["admin_key"].as_str().unwrap().to_owned();

    let mut ws = Ws::session(demo.addr, &bot);
    ws.expect_event("GUILD_CREATE");
    let mut as_user = Ws::session(demo.addr, &user);
    let path_of = format!("/api/v10/channels/{}/messages", demo.channels()[0]);
    let mut http = demo.client("bot_token");
    let body = json!({"content": CONTENT, "nonce": NONCE});
    let posted = http.request("POST", &path_of, Some(&body)).unwrap();
    assert_eq!(posted.status, 200, "{posted:?}");
    let edited = format!("{path_of}/{}", posted.body["id"].as_str().unwrap());
    http.request("PATCH", &edited, Some(&json!({"content": format!("{CONTENT}, edited")}))).unwrap();
    http.request("POST", &path_of, Some(&json!({"content": CONTENT.repeat(200)}))).unwrap();
    ws.expect("the message", |payload| payload["d"]["content"] == CONTENT);
    as_user.send(&json!({"op": 3, "d": {"status": "dnd", "activities": [{"name": CONTENT, "type": 0}], "since": null, "afk": false}}));
    assert_eq!(Http::new(demo.addr, &format!("Bot {WRONG_TOKEN}")).get("/api/v10/users/@me").unwrap().status, 401);
    let mut wrong = Ws::connect(demo.addr, PLAIN, "").unwrap();
    wrong.identify(WRONG_TOKEN);
    assert_eq!(wrong.close_code(), Some(4004));
    let mut malformed = Ws::connect(demo.addr, &format!("{PLAIN}&token={WRONG_TOKEN}"), "").unwrap();
    malformed.send(&json!({"op": 2, "d": {"token": WRONG_TOKEN, "intents": CONTENT, "properties": {}}}));
    malformed.close_code();
    drop(ws);
    let mut back = Ws::connect(demo.addr, PLAIN, "").unwrap();
    back.expect_op(10);
    back.send(&json!({"op": 6, "d": {"token": user, "session_id": as_user.session_id, "seq": as_user.last_seq}}));
    back.expect_event("RESUMED");
    let session_id = as_user.session_id.clone();
    drop((back, as_user, http));
    assert_eq!(demo.terminate(), Some(0));
    let log = fs::read_to_string(path).unwrap();
    (log, vec![bot, user, admin, secret, session_id, CONTENT.into(), WRONG_TOKEN.into(), NONCE.into()])
}

fn check(format: &str) -> String {
    let (log, secrets) = run(format);
    assert!(log.lines().count() > 20, "the log has lines: {}", log.lines().count());
    for secret in secrets {
        // A part of it would be too much already.
        for part in [secret.clone(), secret.chars().take(24).collect()] {
            let line = log.lines().find(|line| line.contains(&part));
            assert_eq!(line, None, "{part} is in the log");
        }
    }
    log
}

#[test]
fn the_log_has_no_secrets_and_no_message_content() {
    check("text");
    let log = check("json");
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).expect("every line is JSON");
        assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
    }
}
