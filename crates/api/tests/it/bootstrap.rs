//! What clients ask before they open a socket.

use crate::support::World;
use serde_json::json;

#[tokio::test]
async fn gateway_bot() {
    let world = World::new().await;
    world.get(&world.bot, "/gateway/bot").await.is(
        200,
        json!({
            "url": "ws://gw.example.net:8080",
            "shards": 1,
            "session_start_limit": {"total": 1000, "remaining": 998, "reset_after": 5000, "max_concurrency": 1},
        }),
    );
    world.get(&world.ana, "/gateway/bot").await.is(401, json!({"message": "401: Unauthorized", "code": 0}));
    world.anonymous("GET", "/api/v10/gateway/bot", "::1").await.has(401, 0);
}

#[tokio::test]
async fn users() {
    let world = World::new().await;
    let me = world.get(&world.bot, "/users/@me").await.json();
    for key in ["id", "username", "discriminator", "avatar", "mfa_enabled", "verified", "email", "flags", "bot"] {
        assert!(me.get(key).is_some(), "{key}");
    }
    assert_eq!((&me["id"], &me["bot"]), (&json!("200"), &json!(true)));
    world.get(&world.bot, "/users/101").await.is(
        200,
        json!({"id": "101", "username": "bob", "discriminator": "0", "global_name": null, "avatar": null,
               "public_flags": 0, "avatar_decoration_data": null}),
    );
    world.get(&world.bot, "/users/999").await.is(404, json!({"message": "Unknown User", "code": 10013}));
    let opened = world.post(&world.bot, "/users/@me/channels", json!({"recipient_id": "101"})).await;
    assert!(opened.status == 200 && opened.body.contains("\"recipients\":[{\"id\":\"101\""), "{}", opened.body);
    world.post(&world.bot, "/users/@me/channels", json!({"recipient_id": "999"})).await.has(400, 50033);
}

#[tokio::test]
async fn applications() {
    let world = World::new().await;
    for path in ["/applications/@me", "/oauth2/applications/@me", "/oauth2/applications/%40me"] {
        let application = world.get(&world.trusted, path).await.json();
        for key in ["id", "name", "icon", "description", "bot_public", "bot_require_code_grant", "verify_key", "owner"]
        {
            assert!(application.get(key).is_some(), "{key}");
        }
        assert_eq!((&application["id"], &application["name"]), (&json!("201"), &json!("trusted")));
        assert_eq!(application["verify_key"].as_str().unwrap().len(), 64);
        assert_ne!(application["flags"], 0);
        assert_eq!(application["flags_new"], application["flags"].to_string());
    }
    world.get(&world.ana, "/applications/@me").await.has(403, 20002);
}

#[tokio::test]
async fn commands_are_echoed() {
    let world = World::new().await;
    world.get(&world.bot, "/applications/200/commands").await.is(200, json!([]));
    let commands =
        json!([{"name": "ping", "description": "pong", "options": [{"name": "x"}]}, {"name": "look", "type": 3}]);
    let echo = world.call(&world.bot, "PUT", "/applications/200/commands", Some(commands)).await.json();
    assert_eq!(
        (&echo[0]["name"], &echo[0]["type"], &echo[0]["options"][0]["name"]),
        (&json!("ping"), &json!(1), &json!("x"))
    );
    assert_eq!((&echo[1]["type"], &echo[1]["description"]), (&json!(3), &json!("")));
    assert_ne!(echo[0]["id"], echo[1]["id"]);
    assert_eq!(echo[0]["application_id"], "200");

    let path = format!("/applications/200/guilds/{}/commands", world.guild);
    let echo = world.post(&world.bot, &path, json!({"name": "ping"})).await;
    assert_eq!((echo.status, &echo.json()["guild_id"]), (201, &json!(world.guild)));

    let nameless = world.call(&world.bot, "PUT", "/applications/200/commands", Some(json!([{}]))).await;
    let required = json!({"code": "BASE_TYPE_REQUIRED", "message": "This field is required"});
    nameless.is(400, crate::support::invalid_form(json!({"0": {"name": {"_errors": [required]}}})));
    world.get(&world.bot, "/applications/201/commands").await.has(403, 20012);
    world.get(&world.ana, "/applications/100/commands").await.has(403, 20012);
}
