//! `[users]`: accounts do by themselves only what the operator allows.

use crate::support::Demo;
use serde_json::json;
use std::process::Stdio;

const BACKEND: &[&str] =
    &["--members", "5", "--rate", "0", "--set", "limits.rest_rate_percent=0", "--set", "users.preset=backend"];

fn demo(dir: &tempfile::TempDir, more: &[&str]) -> Demo {
    Demo::start_on(dir.path(), "127.0.0.1:0", &[BACKEND, more].concat(), Stdio::null())
}

#[test]
fn with_the_preset_backend_accounts_change_nothing_by_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo(&dir, &[]);
    let (guild, channel) = (demo.manifest["guild_id"].as_str().unwrap().to_owned(), demo.channels()[0].clone());
    let mut bot = demo.client("bot_token");
    let me = bot.request("GET", "/api/v10/users/@me", None).unwrap().body;
    let mut user = demo.client("user_token");
    let mut refused = |method: &str, path: &str, body: serde_json::Value, code: u64, setting: &str| {
        let answer = user.request(method, &format!("/api/v10{path}"), Some(&body)).unwrap();
        assert_eq!(
            (answer.status, answer.body["code"].as_u64()),
            (403, Some(code)),
            "{method} {path}: {}",
            answer.body
        );
        assert!(answer.body["message"].as_str().unwrap().contains(setting), "{}", answer.body);
    };
    refused("POST", "/guilds", json!({"name": "mine"}), 50013, "users.create_guilds");
    refused("PATCH", "/users/@me", json!({"username": "owner"}), 50013, "users.change_names");
    refused("POST", &format!("/channels/{channel}/invites"), json!({}), 50013, "users.create_invites");
    refused("DELETE", &format!("/users/@me/guilds/{guild}"), json!({}), 50013, "users.leave_guilds");
    refused("POST", "/users/@me/channels", json!({"recipient_id": me["id"]}), 50007, "");
    // Requests that no setting of the section names still work.
    let created =
        user.request("POST", &format!("/api/v10/channels/{channel}/messages"), Some(&json!({"content": "hi"})));
    assert_eq!(created.unwrap().status, 200);
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn one_setting_beats_the_preset() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo(&dir, &["--set", "users.create_guilds=everyone", "--set", "directs.who=anyone"]);
    let mut bot = demo.client("bot_token");
    let me = bot.request("GET", "/api/v10/users/@me", None).unwrap().body;
    let mut user = demo.client("user_token");
    let made = user.request("POST", "/api/v10/guilds", Some(&json!({"name": "mine"}))).unwrap();
    assert_eq!(made.status, 201, "{}", made.body);
    let opened = user.request("POST", "/api/v10/users/@me/channels", Some(&json!({"recipient_id": me["id"]}))).unwrap();
    assert_eq!(opened.status, 200, "{}", opened.body);
    let named = user.request("PATCH", "/api/v10/users/@me", Some(&json!({"global_name": "x"}))).unwrap();
    assert_eq!(named.status, 403, "{}", named.body);
    assert_eq!(demo.terminate(), Some(0));
}
