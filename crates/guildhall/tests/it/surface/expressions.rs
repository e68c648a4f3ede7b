//! Emoji, stickers, scheduled events, stages, positions, one's own account.

use crate::test_node::{EVERYTHING, TestNode};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;
const PICTURE: &str = "data:image/png;base64,iVBORw0KGgo=";

#[test]
fn emoji_are_made_changed_used_and_removed() {
    let mut node = TestNode::new();
    let (ana, bot) = (node.user(100, "ana"), node.bot(200, "bot"));
    let (guild, general) = node.guild(&ana, &[&bot]);
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    // Everything but expressions.
    let mut other = node.connect(&bot, EVERYTHING & !(1 << 3 | 1 << 8));
    other.event("GUILD_CREATE");
    let path = format!("/guilds/{guild}/emojis");
    bot.refused("POST", &path, json!({"name": "party", "image": PICTURE}), 403, 50013);
    ana.refused("POST", &path, json!({"name": "par ty", "image": "nothing"}), 400, 50035);
    let emoji = ana.request("POST", &path, json!({"name": "party", "image": PICTURE}));
    assert_eq!((emoji.status, &emoji.body["user"]["id"]), (201, &json!(ana.id)));
    let id = emoji.body["id"].as_str().unwrap().to_owned();
    let event = client.event("GUILD_EMOJIS_UPDATE");
    assert_eq!((&event["guild_id"], &event["emojis"][0]["name"]), (&json!(guild), &json!("party")));
    let posted = ana.done("POST", &format!("/channels/{general}/messages"), json!({"content": "react"}));
    let react = format!("/channels/{general}/messages/{}/reactions/party:{id}/@me", posted["id"].as_str().unwrap());
    assert_eq!(bot.request("PUT", &react, NOTHING).status, 204);
    assert_eq!(client.event("MESSAGE_REACTION_ADD")["emoji"]["id"], json!(id));
    assert!(!other.names().contains(&"GUILD_EMOJIS_UPDATE".to_owned()), "without the intent");

    node.restart();
    let (ana, bot) = (node.again(&ana), node.again(&bot));
    let mut client = node.connect(&bot, EVERYTHING);
    assert_eq!(client.event("GUILD_CREATE")["emojis"][0]["id"], json!(id));
    assert_eq!(ana.done("PATCH", &format!("{path}/{id}"), json!({"name": "feast"}))["name"], "feast");
    assert_eq!(client.event("GUILD_EMOJIS_UPDATE")["emojis"][0]["name"], "feast");
    assert_eq!(ana.request("DELETE", &format!("{path}/{id}"), NOTHING).status, 204);
    assert_eq!(client.event("GUILD_EMOJIS_UPDATE")["emojis"], json!([]));
    ana.refused("GET", &format!("{path}/{id}"), NOTHING, 400, 10014);
}

#[test]
fn scheduled_events_and_stages() {
    let node = TestNode::new();
    let (ana, bot) = (node.user(100, "ana"), node.bot(200, "bot"));
    let (guild, _) = node.guild(&ana, &[&bot]);
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    let path = format!("/guilds/{guild}/scheduled-events");
    let new = json!({"name": "party", "scheduled_start_time": "2030-05-01T12:00:00Z",
        "scheduled_end_time": "2030-05-01T14:00:00Z", "entity_type": 3,
        "privacy_level": 2, "entity_metadata": {"location": "here"}});
    bot.refused("POST", &path, new.clone(), 403, 50013);
    ana.refused("POST", &path, json!({"name": "when?"}), 400, 50035);
    let event = ana.done("POST", &path, new);
    let id = event["id"].as_str().unwrap();
    assert_eq!(client.event("GUILD_SCHEDULED_EVENT_CREATE")["entity_metadata"]["location"], "here");
    assert_eq!(bot.request("PUT", &format!("{path}/{id}/users/@me"), NOTHING).status, 204);
    let follows = client.event("GUILD_SCHEDULED_EVENT_USER_ADD");
    assert_eq!(follows, json!({"guild_scheduled_event_id": id, "user_id": bot.id, "guild_id": guild}));
    assert_eq!(ana.done("PATCH", &format!("{path}/{id}"), json!({"status": 2}))["user_count"], 1);
    assert_eq!(client.event("GUILD_SCHEDULED_EVENT_UPDATE")["status"], 2);
    assert_eq!(node.connect(&bot, EVERYTHING).event("GUILD_CREATE")["guild_scheduled_events"][0]["id"], json!(id));
    ana.done("DELETE", &format!("{path}/{id}"), NOTHING);
    assert_eq!(client.event("GUILD_SCHEDULED_EVENT_DELETE")["id"], json!(id));

    let stage = ana.done("POST", &format!("/guilds/{guild}/channels"), json!({"name": "stage", "type": 13}));
    let stage = stage["id"].as_str().unwrap().to_owned();
    bot.refused("POST", "/stage-instances", json!({"channel_id": stage, "topic": "t"}), 403, 50013);
    ana.done("POST", "/stage-instances", json!({"channel_id": stage, "topic": "news"}));
    assert_eq!(client.event("STAGE_INSTANCE_CREATE")["topic"], "news");
    ana.refused("POST", "/stage-instances", json!({"channel_id": stage, "topic": "more"}), 400, 150_006);
    ana.done("PATCH", &format!("/stage-instances/{stage}"), json!({"topic": "old news"}));
    assert_eq!(client.event("STAGE_INSTANCE_UPDATE")["topic"], "old news");
    assert_eq!(bot.get(&format!("/stage-instances/{stage}"))["topic"], "old news");
    ana.done("DELETE", &format!("/stage-instances/{stage}"), NOTHING);
    assert_eq!(client.event("STAGE_INSTANCE_DELETE")["channel_id"], json!(stage));
}

#[test]
fn channels_and_roles_are_put_into_order() {
    let node = TestNode::new();
    let (ana, bob, bot) = (node.user(100, "ana"), node.user(101, "bob"), node.bot(200, "bot"));
    let (guild, general) = node.guild(&ana, &[&bob, &bot]);
    let channels = format!("/guilds/{guild}/channels");
    let category = ana.done(
        "POST",
        &channels,
        json!({"name": "c", "type": 4,
        "permission_overwrites": [{"id": guild, "type": 0, "deny": "2048"}]}),
    );
    let roles = format!("/guilds/{guild}/roles");
    let [low, high] = [json!({"permissions": "0"}), json!({"permissions": "268435456"})]
        .map(|role| ana.done("POST", &roles, role)["id"].as_str().unwrap().to_owned());
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    bob.refused("PATCH", &channels, json!([{"id": general, "position": 3}]), 403, 50013);
    ana.refused("PATCH", &channels, json!([{"id": general, "parent_id": general}]), 400, 50035);
    let moves = json!([{"id": general, "position": 7, "parent_id": category["id"], "lock_permissions": true}]);
    assert_eq!(ana.request("PATCH", &channels, moves).status, 204);
    let event = client.event("CHANNEL_UPDATE");
    assert_eq!((&event["position"], &event["parent_id"]), (&json!(7), &category["id"]));
    assert_eq!(event["permission_overwrites"][0]["deny"], "2048", "as its category");

    let moved = ana.done("PATCH", &roles, json!([{"id": low, "position": 1}, {"id": high, "position": 5}]));
    assert_eq!(moved.as_array().unwrap().len(), 3);
    assert_eq!(client.event("GUILD_ROLE_UPDATE")["role"]["position"], 5);
    // A member with the higher role can move only roles below it.
    ana.done("PUT", &format!("/guilds/{guild}/members/{}/roles/{high}", bob.id), NOTHING);
    bob.refused("PATCH", &roles, json!([{"id": high, "position": 1}]), 403, 50013);
    bob.refused("PATCH", &roles, json!([{"id": low, "position": 9}]), 403, 50013);
    bob.done("PATCH", &roles, json!([{"id": low, "position": 3}]));
    assert_eq!(client.event("GUILD_MEMBER_UPDATE")["user"]["id"], bob.id);
    assert_eq!(client.event("GUILD_ROLE_UPDATE")["role"]["position"], 3);
}

#[test]
fn a_changed_name_is_announced_to_its_account_and_guilds() {
    let node = TestNode::new();
    let (ana, bot, watch) = (node.user(100, "ana"), node.bot(200, "bot"), node.bot(201, "watch"));
    let (guild, _) = node.guild(&ana, &[&bot, &watch]);
    let mut own = node.connect(&bot, 0);
    let mut watching = node.connect(&watch, EVERYTHING);
    watching.event("GUILD_CREATE");
    bot.refused("PATCH", "/users/@me", json!({"username": "x"}), 400, 50035);
    assert_eq!(bot.done("PATCH", "/users/@me", json!({"username": "renamed", "avatar": null}))["username"], "renamed");
    let update = own.event("USER_UPDATE");
    assert_eq!(
        (&update["id"], &update["username"], &update["verified"]),
        (&json!(bot.id), &json!("renamed"), &json!(true))
    );
    let member = watching.event("GUILD_MEMBER_UPDATE");
    assert_eq!((&member["guild_id"], &member["user"]["username"]), (&json!(guild), &json!("renamed")));
    assert!(!watching.names().contains(&"USER_UPDATE".to_owned()));
    bot.refused("GET", &format!("/guilds/{guild}/audit-logs"), NOTHING, 403, 50013);
}

#[test]
fn changed_pictures_are_announced() {
    let mut node = TestNode::new();
    let (ana, watch) = (node.user(100, "ana"), node.bot(201, "watch"));
    let (guild, _) = node.guild(&ana, &[&watch]);
    let (mut own, mut watching) = (node.connect(&ana, 0), node.connect(&watch, EVERYTHING));
    watching.event("GUILD_CREATE");
    let avatar = ana.done("PATCH", "/users/@me", json!({"avatar": PICTURE}))["avatar"].clone();
    assert!(avatar.is_string());
    assert_eq!(own.event("USER_UPDATE")["avatar"], avatar);
    assert_eq!(watching.event("GUILD_MEMBER_UPDATE")["user"]["avatar"], avatar);
    let path = format!("/guilds/{guild}");
    ana.done("PATCH", &format!("{path}/members/@me"), json!({"avatar": PICTURE, "nick": "n"}));
    let member = watching.event("GUILD_MEMBER_UPDATE");
    assert_eq!((&member["avatar"], &member["banner"], &member["nick"]), (&avatar, &Value::Null, &json!("n")));
    let form = json!({"icon": PICTURE, "banner": PICTURE, "splash": PICTURE});
    ana.done("PATCH", &path, form);
    let update = watching.event("GUILD_UPDATE");
    assert_eq!((&update["icon"], &update["banner"], &update["splash"]), (&avatar, &avatar, &avatar));
    let role = ana.done("POST", &format!("{path}/roles"), json!({"icon": PICTURE}));
    assert_eq!((&watching.event("GUILD_ROLE_CREATE")["role"]["icon"], &role["icon"]), (&avatar, &avatar));
    // A restart finds them all.
    node.restart();
    let watch = node.again(&watch);
    let create = node.connect(&watch, EVERYTHING).event("GUILD_CREATE");
    assert_eq!((&create["icon"], &create["banner"]), (&avatar, &avatar));
    let is_role = |of: &&Value| of["id"] == role["id"];
    assert_eq!(create["roles"].as_array().unwrap().iter().find(is_role).unwrap()["icon"], avatar);
    let member = watch.get(&format!("{path}/members/{}", ana.id));
    assert_eq!((&member["avatar"], &member["user"]["avatar"]), (&avatar, &avatar));
}

#[test]
fn a_message_announces_its_stickers_and_files_by_url() {
    let mut node = TestNode::new();
    let (ana, bot) = (node.user(100, "ana"), node.bot(200, "bot"));
    let (guild, general) = node.guild(&ana, &[&bot]);
    let messages = format!("/channels/{general}/messages");
    let sticker = node.sticker(&guild, &ana, "wave");
    let mut client = node.connect(&ana, EVERYTHING);
    ana.refused("POST", &messages, json!({"sticker_ids": ["77"]}), 400, 50081);
    let posted = ana.done("POST", &messages, json!({"sticker_ids": [sticker]}));
    let items = json!([{"id": sticker, "name": "wave", "format_type": 1}]);
    assert_eq!((&posted["sticker_items"], &client.event("MESSAGE_CREATE")["sticker_items"]), (&items, &items));
    let file =
        json!({"url": "https://files.example.net/a.png", "filename": "a.png", "size": 5, "width": 8, "height": 9});
    ana.refused("POST", &messages, json!({"attachments": [file]}), 400, 50035);
    bot.refused("POST", &messages, json!({"attachments": [{"id": 0, "filename": "a.png"}]}), 400, 50035);
    let posted = bot.done("POST", &messages, json!({"attachments": [file, file]}));
    let event = client.event("MESSAGE_CREATE");
    let first = &event["attachments"][0];
    assert_eq!((&first["url"], &first["proxy_url"]), (&file["url"], &file["url"]));
    assert_eq!((&first["filename"], &first["size"], &first["width"]), (&json!("a.png"), &json!(5), &json!(8)));
    assert_ne!(first["id"], event["attachments"][1]["id"]);
    let path = format!("{messages}/{}", posted["id"].as_str().unwrap());
    let kept = bot.done("PATCH", &path, json!({"attachments": [{"id": first["id"]}]}));
    assert_eq!(kept["attachments"], json!([first]));
    bot.refused("PATCH", &path, json!({"attachments": []}), 400, 50006);
    node.restart();
    let history = node.again(&ana).get(&messages);
    assert_eq!((&history[0]["attachments"], &history[1]["sticker_items"]), (&json!([first]), &items));
}

#[test]
fn settings_of_a_client_reach_its_other_sessions() {
    let mut node = TestNode::new();
    let ana = node.user(100, "ana");
    let mut other = node.connect(&ana, 0);
    let mut bob = node.connect(&node.user(101, "bob"), 0);
    let path = "/users/@me/settings-proto/2";
    ana.done("PATCH", path, json!({"settings": "EgFh"}));
    let expected = json!({"settings": {"proto": "CgIYARIBYQ==", "type": 2}, "partial": false});
    assert_eq!(other.event("USER_SETTINGS_PROTO_UPDATE"), expected);
    assert!(!bob.names().contains(&"USER_SETTINGS_PROTO_UPDATE".to_owned()), "another account's");
    // A change for an older version changes nothing, and is not announced.
    let answer = ana.done("PATCH", path, json!({"settings": "EgFi", "required_data_version": 0}));
    assert_eq!(answer, json!({"settings": "CgIYARIBYQ==", "out_of_date": true}));
    assert!(!other.names().contains(&"USER_SETTINGS_PROTO_UPDATE".to_owned()), "nothing changed");

    // READY has the settings of kind 1.
    assert_eq!(other.ready["user_settings_proto"], "");
    ana.done("PATCH", "/users/@me/settings-proto/1", json!({"settings": "EgFi"}));
    assert_eq!(node.connect(&ana, 0).ready["user_settings_proto"], "CgIYARIBYg==");

    node.restart();
    let ana = node.again(&ana);
    assert_eq!(ana.get(path), json!({"settings": "CgIYARIBYQ=="}));
}
