//! Channels, overwrites and guilds over REST.

use crate::support::{World, invalid_form};
use guildhall_guild_protocol::HiddenChannels;
use guildhall_model::Permissions;
use serde_json::{Value, json};

#[tokio::test]
async fn a_guild() {
    let world = World::new().await;
    let path = format!("/guilds/{}", world.guild);
    let guild = world.get(&world.bob, &path).await.json();
    for key in [
        "id",
        "name",
        "features",
        "owner_id",
        "afk_timeout",
        "system_channel_flags",
        "verification_level",
        "roles",
        "default_message_notifications",
        "mfa_level",
        "explicit_content_filter",
        "preferred_locale",
        "emojis",
        "premium_progress_bar_enabled",
        "nsfw_level",
    ] {
        assert!(guild.get(key).is_some(), "{key}");
    }
    assert_eq!((&guild["name"], &guild["owner_id"]), (&json!("demo"), &json!("100")));
    assert!(guild.get("approximate_member_count").is_none());
    for truth in ["true", "True", "1"] {
        let guild = world.get(&world.bob, &format!("{path}?with_counts={truth}")).await.json();
        assert_eq!((&guild["approximate_member_count"], &guild["approximate_presence_count"]), (&json!(4), &json!(0)));
    }
    world.get(&world.bob, &format!("{path}?with_counts=maybe")).await.has(400, 50035);
    world.get(&world.eve, &path).await.is(404, json!({"message": "Unknown Guild", "code": 10004}));
    world.get(&world.bob, "/guilds/5").await.has(404, 10004);
    world
        .get(&world.bob, &format!("{path}/threads/active"))
        .await
        .is(200, json!({"threads": [], "members": [], "has_more": false}));

    world.call(&world.bob, "PATCH", &path, Some(json!({"name": "mine"}))).await.has(403, 50013);
    let body = json!({"name": "renamed", "description": "d", "icon": null});
    let guild = world.call(&world.ana, "PATCH", &path, Some(body)).await.json();
    assert_eq!((&guild["name"], &guild["description"]), (&json!("renamed"), &json!("d")));
    world.call(&world.bob, "DELETE", &path, None).await.has(403, 50013);
    world.call(&world.ana, "DELETE", &path, None).await.is_done();
    world.get(&world.ana, &path).await.has(404, 10004);
}

#[tokio::test]
async fn a_new_guild() {
    let world = World::new().await;
    let answer = world.call(&world.eve, "POST", "/guilds", Some(json!({"name": "mine"}))).await;
    assert_eq!(answer.status, 201);
    let guild = answer.json();
    assert_eq!(guild["name"], "mine");
    let path = format!("/guilds/{}", guild["id"].as_str().unwrap());
    assert_eq!(names(&world.get(&world.eve, &format!("{path}/channels")).await.json()), ["general"]);
    assert_eq!(world.get(&world.eve, "/users/@me/guilds").await.json()[0]["owner"], true);
    world.get(&world.bob, &path).await.has(404, 10004);
    world.call(&world.eve, "POST", "/guilds", Some(json!({"name": "m"}))).await.has(400, 50035);
    world.call(&world.eve, "POST", "/guilds", Some(json!({}))).await.has(400, 50035);
}

#[tokio::test]
async fn own_guilds() {
    let world = World::new().await;
    let list = world.get(&world.bob, "/users/@me/guilds?with_counts=true").await;
    let permissions = list.json()[0]["permissions"].clone();
    assert!(permissions.as_str().unwrap().parse::<u64>().unwrap() & Permissions::VIEW_CHANNEL.0 != 0);
    list.is(
        200,
        json!([{"id": world.guild, "name": "demo", "icon": null, "banner": null, "owner": false,
                "permissions": permissions, "features": [], "approximate_member_count": 4,
                "approximate_presence_count": 0}]),
    );
    assert_eq!(world.get(&world.ana, "/users/@me/guilds").await.json()[0]["owner"], true);
    let ids = async |query: String| {
        world.get(&world.bob, &format!("/users/@me/guilds?{query}")).await.json().as_array().unwrap().len()
    };
    assert_eq!(ids(format!("after={}", world.guild)).await, 0);
    assert_eq!(ids(format!("before={}", world.guild)).await, 0);
    assert_eq!(ids(format!("before={}&limit=1", world.guild.get() + 1)).await, 1);
    world.get(&world.eve, "/users/@me/guilds").await.is(200, json!([]));
    world.get(&world.bob, "/users/@me/guilds?limit=201").await.has(400, 50035);

    world.call(&world.bob, "DELETE", &format!("/users/@me/guilds/{}", world.guild), None).await.is_done();
    world.get(&world.bob, "/users/@me/guilds").await.is(200, json!([]));
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|channel| channel["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn channels_are_made_changed_and_removed() {
    let world = World::hiding(HiddenChannels::Absent).await;
    let path = format!("/guilds/{}/channels", world.guild);
    world.post(&world.bob, &path, json!({"name": "x"})).await.has(403, 50013);
    let body = json!({"name": "news", "type": 0, "topic": "t", "rate_limit_per_user": 5, "nsfw": true,
                      "permission_overwrites": [{"id": "101", "type": 1, "deny": "1024"}]});
    let made = world.post(&world.ana, &path, body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let made = made.json();
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!((&made["name"], &made["rate_limit_per_user"], &made["nsfw"]), (&json!("news"), &json!(5), &json!(true)));
    assert_eq!(made["permission_overwrites"], json!([{"id": "101", "type": 1, "allow": "0", "deny": "1024"}]));

    // Bob cannot see it.
    assert!(names(&world.get(&world.ana, &path).await.json()).contains(&"news"));
    assert!(!names(&world.get(&world.bob, &path).await.json()).contains(&"news"));
    let channel = format!("/channels/{id}");
    world.get(&world.bob, &channel).await.has(403, 50001);
    world.get(&world.ana, &channel).await.is(200, made);

    world.call(&world.ana, "DELETE", &format!("{channel}/permissions/101"), None).await.is_done();
    let gone = world.call(&world.ana, "DELETE", &format!("{channel}/permissions/101"), None).await;
    gone.has(404, 10009);
    world.get(&world.bob, &channel).await.has(200, 0);
    let everyone = format!("{channel}/permissions/{}", world.guild);
    world.call(&world.bob, "PUT", &everyone, Some(json!({"type": 0, "deny": "1024"}))).await.has(403, 50013);
    world.call(&world.ana, "PUT", &everyone, Some(json!({"type": 0, "deny": "1024"}))).await.is_done();
    world.get(&world.bob, &channel).await.has(403, 50001);
    world.call(&world.ana, "PUT", &everyone, Some(json!({"deny": "x"}))).await.has(400, 50035);

    let body = json!({"name": "old-news", "topic": null});
    let changed = world.call(&world.ana, "PATCH", &channel, Some(body)).await.json();
    assert_eq!((&changed["name"], &changed["topic"]), (&json!("old-news"), &Value::Null));
    world.call(&world.bob, "DELETE", &channel, None).await.has(403, 50001);
    let removed = world.call(&world.ana, "DELETE", &channel, None).await;
    assert_eq!((removed.status, &removed.json()["id"]), (200, &json!(id)));
    world.get(&world.ana, &channel).await.has(404, 10003);
}

#[tokio::test]
async fn the_newest_message_is_known() {
    let world = World::new().await;
    let id = world.say(&world.ana, world.general, "hi").await;
    assert_eq!(
        world.get(&world.bob, &format!("/channels/{}", world.general)).await.json()["last_message_id"],
        json!(id)
    );
    let list = world.get(&world.bob, &format!("/guilds/{}/channels", world.guild)).await.json();
    let general = list.as_array().unwrap().iter().find(|channel| channel["name"] == "general").unwrap();
    assert_eq!(general["last_message_id"], json!(id));
}

#[tokio::test]
async fn s13_a_list_has_hidden_channels_in_the_form_that_is_set() {
    use HiddenChannels::{Absent, Listed, Obfuscated};
    for (hidden, name) in [(Listed, Some("merger")), (Obfuscated, Some("___hidden___")), (Absent, None)] {
        let world = World::hiding(hidden).await;
        let secret = world.channel("merger", vec![world.deny(Permissions::VIEW_CHANNEL)]).await;
        let newest = world.say(&world.ana, secret, "secret").await;
        let path = format!("/guilds/{}/channels", world.guild);
        let find = |list: Value| list.as_array().unwrap().iter().find(|of| of["id"] == secret.to_string()).cloned();
        let seen = find(world.get(&world.ana, &path).await.json()).unwrap();
        assert_eq!((&seen["name"], &seen["last_message_id"]), (&json!("merger"), &json!(newest)));
        for member in [&world.bob, &world.bot] {
            let seen = find(world.get(member, &path).await.json());
            assert_eq!(seen.as_ref().map(|seen| seen["name"].as_str().unwrap()), name, "{hidden:?}");
            assert!(seen.is_none_or(|seen| seen["last_message_id"].is_null()));
            world.get(member, &format!("/channels/{secret}")).await.has(403, 50001);
        }
    }
}

#[tokio::test]
async fn a_parent_must_be_a_category() {
    let world = World::new().await;
    let path = format!("/guilds/{}/channels", world.guild);
    let answer = world.post(&world.ana, &path, json!({"name": "x", "parent_id": world.general})).await;
    let fault = json!({"code": "CHANNEL_PARENT_INVALID_TYPE", "message": "Not a category"});
    answer.is(400, invalid_form(json!({"parent_id": {"_errors": [fault]}})));
}
