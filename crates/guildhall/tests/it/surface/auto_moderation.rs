//! Auto moderation.

use crate::test_node::{EVERYTHING, TestNode};
use serde_json::{Value, json};

const MESSAGE_CONTENT: u64 = 1 << 15;

#[test]
fn a_rule_blocks_alerts_and_is_announced() {
    let mut node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (manager, reader, blind) = (node.bot(200, "manager"), node.bot(201, "reader"), node.bot(202, "blind"));
    let (guild, general) = node.guild(&ana, &[&bob, &manager, &reader, &blind]);
    let role = json!({"name": "managers", "permissions": "32"});
    let role = ana.done("POST", &format!("/guilds/{guild}/roles"), role);
    for bot in [&manager, &blind] {
        let path = format!("/guilds/{guild}/members/{}/roles/{}", bot.id, role["id"].as_str().unwrap());
        ana.done("PUT", &path, Value::Null);
    }
    let mut client = node.connect(&manager, EVERYTHING);
    let mut plain = node.connect(&reader, EVERYTHING);
    let mut without = node.connect(&blind, EVERYTHING & !MESSAGE_CONTENT);
    for client in [&mut client, &mut plain, &mut without] {
        client.event("GUILD_CREATE");
    }
    let rules = format!("/guilds/{guild}/auto-moderation/rules");
    let new = json!({"name": "words", "event_type": 1, "trigger_type": 1, "enabled": true,
        "trigger_metadata": {"keyword_filter": ["bad*"], "allow_list": ["badge"]},
        "actions": [{"type": 1, "metadata": {"custom_message": "be nice"}},
            {"type": 2, "metadata": {"channel_id": general}}]});
    bob.refused("POST", &rules, new.clone(), 403, 50013);
    let made = manager.done("POST", &rules, new);
    assert_eq!(
        made["trigger_metadata"],
        json!({"keyword_filter": ["bad*"], "regex_patterns": [], "allow_list": ["badge"]})
    );
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!(client.event("AUTO_MODERATION_RULE_CREATE")["id"], json!(id));
    bob.refused("GET", &rules, Value::Null, 403, 50013);
    assert_eq!(ana.get(&format!("{rules}/{id}")), made);

    let messages = format!("/channels/{general}/messages");
    let answer = bob.request("POST", &messages, json!({"content": "very Bad"}));
    assert_eq!((answer.status, answer.body["code"].as_u64()), (400, Some(200_000)));
    assert_eq!(answer.body["message"], "be nice");
    let execution = client.event("AUTO_MODERATION_ACTION_EXECUTION");
    assert_eq!((&execution["content"], &execution["matched_content"]), (&json!("very Bad"), &json!("bad")));
    assert_eq!((&execution["action"]["type"], &execution["user_id"]), (&json!(1), &json!(bob.id)));
    let alert = client.event("MESSAGE_CREATE");
    assert_eq!((&alert["type"], &alert["embeds"][0]["type"]), (&json!(24), &json!("auto_moderation_message")));
    let execution = client.event("AUTO_MODERATION_ACTION_EXECUTION");
    assert_eq!(execution["alert_system_message_id"], alert["id"]);
    let hidden = without.event("AUTO_MODERATION_ACTION_EXECUTION");
    assert_eq!((&hidden["content"], &hidden["matched_content"]), (&json!(""), &json!("")));
    bob.done("POST", &messages, json!({"content": "a badge"}));
    while plain.event("MESSAGE_CREATE")["content"] != "a badge" {}
    assert!(plain.received().iter().all(|(name, _)| !name.starts_with("AUTO_MODERATION")));
    let log = ana.get(&format!("/guilds/{guild}/audit-logs?action_type=143"));
    assert_eq!(log["audit_log_entries"][0]["options"]["auto_moderation_rule_name"], "words");

    node.restart();
    let (manager, bob) = (node.again(&manager), node.again(&bob));
    bob.refused("POST", &messages, json!({"content": "bad"}), 400, 200_000);
    let patch = json!({"trigger_metadata": {"keyword_filter": ["worse"]}, "exempt_channels": [general]});
    let changed = manager.done("PATCH", &format!("{rules}/{id}"), patch);
    assert_eq!(
        (&changed["name"], &changed["trigger_metadata"]["keyword_filter"]),
        (&json!("words"), &json!(["worse"]))
    );
    bob.done("POST", &messages, json!({"content": "worse"}));
    assert_eq!(manager.request("DELETE", &format!("{rules}/{id}"), Value::Null).status, 204);
    manager.refused("GET", &format!("{rules}/{id}"), Value::Null, 404, 10066);
}

#[test]
fn what_rules_cannot_do_is_refused_by_name() {
    let node = TestNode::new();
    let ana = node.user(100, "ana");
    let (guild, _) = node.guild(&ana, &[]);
    let rules = format!("/guilds/{guild}/auto-moderation/rules");
    let refused = |change: fn(&mut Value), field: &str| {
        let mut new = json!({"name": "r", "event_type": 1, "trigger_type": 1, "actions": [{"type": 1}]});
        change(&mut new);
        let answer = ana.request("POST", &rules, new);
        assert_eq!((answer.status, answer.body["code"].as_u64()), (400, Some(50035)), "{field}: {answer:?}");
        assert!(!answer.body["errors"][field].is_null(), "{field}: {answer:?}");
    };
    for kind in [2, 6] {
        let new = json!({"name": "r", "event_type": 1, "trigger_type": kind, "actions": [{"type": 1}]});
        ana.refused("POST", &rules, new, 400, 50035);
    }
    refused(|new| new["event_type"] = json!(2), "event_type");
    refused(|new| new["trigger_metadata"] = json!({"regex_patterns": ["a+", "a("]}), "trigger_metadata");
    refused(|new| new["trigger_metadata"] = json!({"regex_patterns": ["(?:a{50}){50}"]}), "trigger_metadata");
    refused(|new| new["trigger_metadata"] = json!({"regex_patterns": ["a*"]}), "trigger_metadata");
    refused(|new| new["trigger_metadata"] = json!({"presets": [1]}), "trigger_metadata");
    refused(|new| new["trigger_metadata"] = json!({"mention_total_limit": 3}), "trigger_metadata");
    refused(|new| new["trigger_metadata"] = json!({"keyword_filter": ["x".repeat(61)]}), "trigger_metadata");
    refused(|new| new["actions"] = json!([]), "actions");
    refused(|new| new["actions"] = json!([{"type": 4}]), "actions");
    refused(|new| new["actions"] = json!([{"type": 2}]), "actions");
    refused(|new| new["actions"] = json!([{"type": 3, "metadata": {"duration_seconds": 2_419_201}}]), "actions");
    refused(|new| drop(new.as_object_mut().unwrap().remove("name")), "name");
    let broken = json!({"name": "r", "event_type": 1, "trigger_type": 1, "actions": [{"type": 1}],
        "trigger_metadata": {"regex_patterns": ["a+", "a("]}});
    let answer = ana.request("POST", &rules, broken).body;
    let fault = &answer["errors"]["trigger_metadata"]["regex_patterns"]["1"]["_errors"][0];
    assert!(fault["message"].as_str().is_some_and(|message| message.contains("unclosed group")), "{answer}");
    let other = |kind: u64, metadata: Value| json!({"name": "o", "event_type": 1, "trigger_type": kind, "actions": [{"type": 1}], "trigger_metadata": metadata});
    assert_eq!(ana.done("POST", &rules, other(3, json!({})))["trigger_metadata"], json!({}));
    let lists = json!({"presets": [3, 1], "allow_list": ["bitcoin"]});
    let made = ana.done("POST", &rules, other(4, lists));
    assert_eq!(made["trigger_metadata"], json!({"presets": [1, 3], "allow_list": ["bitcoin"]}));
    ana.refused("POST", &rules, other(4, json!({"presets": [4]})), 400, 50035);
    ana.refused("POST", &rules, other(3, json!({"allow_list": ["a"]})), 400, 50035);
    let patterns = json!({"regex_patterns": ["(?i)free\\s+nitro"]});
    let made = ana.done("POST", &rules, other(1, patterns));
    assert_eq!(made["trigger_metadata"]["regex_patterns"], json!(["(?i)free\\s+nitro"]));
    let mentions = json!({"name": "m", "event_type": 1, "trigger_type": 5, "actions": [{"type": 1}]});
    assert_eq!(ana.done("POST", &rules, mentions)["trigger_metadata"]["mention_total_limit"], 50);
}
