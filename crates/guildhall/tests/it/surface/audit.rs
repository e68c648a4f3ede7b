//! The audit log, over REST and the gateway.

use crate::{
    support::ask,
    test_node::{EVERYTHING, Person, TestNode},
};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;

/// A request with a reason; its status.
fn with_reason(person: &Person, method: &str, path: &str, body: &Value, reason: &str) -> u16 {
    let headers = format!(
        "Authorization: {}\r\nX-Audit-Log-Reason: {reason}\r\nContent-Type: application/json\r\n",
        person.token
    );
    ask(person.addr, method, &format!("/api/v10{path}"), &headers, body.to_string().as_bytes()).status
}

#[test]
fn moderation_is_logged_announced_and_listed() {
    let mut node = TestNode::new();
    let (ana, bob, eve) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"));
    let (bot, blind) = (node.bot(200, "bot"), node.bot(201, "blind"));
    let (guild, general) = node.guild(&ana, &[&bob, &eve, &bot, &blind]);
    let log = format!("/guilds/{guild}/audit-logs");
    // VIEW_AUDIT_LOG.
    let role = ana.done("POST", &format!("/guilds/{guild}/roles"), json!({"name": "auditors", "permissions": "128"}));
    let role = role["id"].as_str().unwrap().to_owned();
    assert_eq!(ana.request("PUT", &format!("/guilds/{guild}/members/{}/roles/{role}", bot.id), NOTHING).status, 204);
    bob.refused("GET", &log, NOTHING, 403, 50013);
    let mut reader = node.connect(&bot, EVERYTHING);
    reader.event("GUILD_CREATE");
    // With the permission and without the intent, and the other way round.
    let mut deaf = node.connect(&bot, EVERYTHING & !(1 << 2));
    deaf.event("GUILD_CREATE");
    let mut without = node.connect(&blind, EVERYTHING);
    without.event("GUILD_CREATE");

    let kick = format!("/guilds/{guild}/members/{}", eve.id);
    assert_eq!(with_reason(&ana, "DELETE", &kick, &json!({}), "too%20loud%20%F0%9F%94%A5"), 204);
    let entry = reader.event("GUILD_AUDIT_LOG_ENTRY_CREATE");
    let kicked = json!({"id": entry["id"], "action_type": 20, "user_id": ana.id, "target_id": eve.id,
        "reason": "too loud 🔥"});
    let mut with_guild = kicked.clone();
    with_guild["guild_id"] = json!(guild);
    assert_eq!(entry, with_guild);
    ana.done("PUT", &format!("/guilds/{guild}/bans/{}", eve.id), json!({}));
    assert_eq!(reader.event("GUILD_AUDIT_LOG_ENTRY_CREATE")["action_type"], 22);
    ana.done("DELETE", &format!("/guilds/{guild}/bans/{}", eve.id), NOTHING);
    ana.done("PATCH", &format!("/channels/{general}"), json!({"name": "lobby", "topic": "t"}));
    let posted = bob.done("POST", &format!("/channels/{general}/messages"), json!({"content": "x"}));
    ana.done("DELETE", &format!("/channels/{general}/messages/{}", posted["id"].as_str().unwrap()), NOTHING);
    let hook = ana.done("POST", &format!("/channels/{general}/webhooks"), json!({"name": "hook"}));
    let entries = ana.get(&log)["audit_log_entries"].clone();
    let kinds: Vec<u64> = entries.as_array().unwrap().iter().map(|e| e["action_type"].as_u64().unwrap()).collect();
    assert_eq!(kinds[..6], [50, 72, 11, 23, 22, 20], "{kinds:?}");
    assert_eq!(entries[5], kicked);
    assert_eq!(entries[2]["changes"][0], json!({"key": "name", "old_value": "general", "new_value": "lobby"}));
    assert_eq!(entries[1]["options"], json!({"channel_id": general, "count": "1"}));
    assert!(!entries.to_string().contains(hook["token"].as_str().unwrap()), "no secrets");

    let page = ana.get(&format!("{log}?action_type=20&user_id={}", ana.id));
    assert_eq!(page["audit_log_entries"], json!([kicked]));
    let users: Vec<&str> = page["users"].as_array().unwrap().iter().map(|u| u["id"].as_str().unwrap()).collect();
    assert_eq!(users, [ana.id.as_str(), eve.id.as_str()]);
    let page = ana.get(&format!("{log}?before={}&limit=1", entries[0]["id"].as_str().unwrap()));
    assert_eq!(page["audit_log_entries"], json!([entries[1]]));
    let page = ana.get(&format!("{log}?after={}&limit=2", entries[5]["id"].as_str().unwrap()));
    assert_eq!(page["audit_log_entries"], json!([entries[4], entries[3]]));
    ana.refused("GET", &format!("{log}?limit=101"), NOTHING, 400, 50035);
    ana.refused("GET", &format!("{log}?action_type=9"), NOTHING, 400, 50035);
    assert!(!deaf.names().contains(&"GUILD_AUDIT_LOG_ENTRY_CREATE".to_owned()));
    assert!(!without.names().contains(&"GUILD_AUDIT_LOG_ENTRY_CREATE".to_owned()));

    // It is kept.
    node.restart();
    assert_eq!(node.again(&ana).get(&log)["audit_log_entries"], entries);
}

#[test]
fn it_can_be_switched_off() {
    let node = TestNode::with(&[("limits.audit_log_entries_max", "0")]);
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (guild, _) = node.guild(&ana, &[&bob]);
    ana.done("DELETE", &format!("/guilds/{guild}/members/{}", bob.id), NOTHING);
    assert_eq!(ana.get(&format!("/guilds/{guild}/audit-logs"))["audit_log_entries"], json!([]));
}
