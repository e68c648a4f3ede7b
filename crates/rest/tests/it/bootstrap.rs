//! Requests of clients before they open a socket.

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
               "public_flags": 0, "flags": 0, "primary_guild": null, "avatar_decoration_data": null, "banner": null, "accent_color": null}),
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
async fn commands_are_kept() {
    let world = World::new().await;
    let all = "/applications/200/commands";
    world.get(&world.bot, all).await.is(200, json!([]));
    let ping = json!({"name": "ping", "description": "p"});
    let look = json!({"name": "Look At", "type": 2});
    let put = world.call(&world.bot, "PUT", all, Some(json!([ping, look]))).await.json();
    assert_eq!(
        (&put[0]["name"], &put[0]["type"], &put[0]["application_id"]),
        (&json!("ping"), &json!(1), &json!("200"))
    );
    world.get(&world.bot, all).await.is(200, put.clone());
    // A bulk update keeps the id of each command that it names, and deletes the others.
    let again = world.call(&world.bot, "PUT", all, Some(json!([ping]))).await.json();
    assert_eq!((&again[0]["id"], again.as_array().unwrap().len()), (&put[0]["id"], 1));
    assert_ne!(again[0]["version"], put[0]["version"]);
    // By its id it may get another name, also one that another command had.
    let renamed = json!([{"name": "pong", "description": "p", "id": again[0]["id"]}, ping]);
    let renamed = world.call(&world.bot, "PUT", all, Some(renamed)).await.json();
    assert_eq!((&renamed[0]["id"], &renamed[0]["name"]), (&again[0]["id"], &json!("pong")));
    assert_ne!(renamed[1]["id"], again[0]["id"]);
    let swapped = json!([{"name": "ping", "description": "p", "id": again[0]["id"]}]);
    let again = world.call(&world.bot, "PUT", all, Some(swapped)).await.json();
    assert_eq!((&again[0]["id"], &again[0]["name"]), (&renamed[0]["id"], &json!("ping")));
    let one = format!("{all}/{}", again[0]["id"].as_str().unwrap());
    world.get(&world.bot, &one).await.is(200, again[0].clone());
    let patched = world.call(&world.bot, "PATCH", &one, Some(json!({"description": "q", "nsfw": true}))).await.json();
    assert_eq!(
        (&patched["name"], &patched["description"], &patched["nsfw"]),
        (&json!("ping"), &json!("q"), &json!(true))
    );
    // Of one name there is one: a POST takes its place.
    let replaced = world.call(&world.bot, "POST", all, Some(ping.clone())).await;
    assert_eq!((replaced.status, &replaced.json()["id"]), (200, &again[0]["id"]));
    let pong = world.call(&world.bot, "POST", all, Some(json!({"name": "pong", "description": "p"}))).await;
    assert_eq!(pong.status, 201);
    world.call(&world.bot, "DELETE", &one, None).await.has(204, 0);
    world.get(&world.bot, &one).await.has(404, 10063);
    let left = world.get(&world.bot, all).await.json();
    assert_eq!(left.as_array().unwrap().iter().map(|of| &of["name"]).collect::<Vec<_>>(), ["pong"]);
    world.get(&world.bot, "/applications/200/guilds/1/commands/permissions").await.has(403, 50001);
    let own = format!("/applications/200/guilds/{}/commands/permissions", world.guild);
    world.get(&world.bot, &own).await.is(200, json!([]));
    // A guild's are its own, and for bots that are in it.
    let path = format!("/applications/200/guilds/{}/commands", world.guild);
    let local = world.call(&world.bot, "POST", &path, Some(ping.clone())).await;
    assert_eq!((local.status, &local.json()["guild_id"]), (201, &json!(world.guild)));
    assert_eq!(world.get(&world.bot, all).await.json(), left);
    world.get(&world.bot, "/applications/200/guilds/5/commands").await.has(403, 50001);

    for wrong in [json!([{}]), json!([{"name": "BAD NAME", "description": "d"}]), json!([ping, ping])] {
        world.call(&world.bot, "PUT", all, Some(wrong)).await.has(400, 50035);
    }
    assert_eq!(world.get(&world.bot, all).await.json(), left, "nothing of it was kept");
    world.get(&world.bot, &format!("{path}/5/permissions")).await.has(404, 10066);
    world.get(&world.bot, "/applications/201/commands").await.has(403, 20012);
    world.get(&world.ana, "/applications/100/commands").await.has(403, 20012);
}

#[tokio::test]
async fn small_routes() {
    let world = World::new().await;
    let counts = format!("/guilds/{}/roles/member-counts", world.guild);
    world.get(&world.ana, &counts).await.is(200, json!({}));
    world.get(&world.eve, &counts).await.has(404, 10004);
    assert_eq!(world.get(&world.bot, "/voice/regions").await.json()[0]["id"], "local");
    assert_eq!(world.get(&world.bot, &format!("/guilds/{}/regions", world.guild)).await.json()[0]["optimal"], true);
    let integrations = world.get(&world.ana, &format!("/guilds/{}/integrations", world.guild)).await.json();
    let bots: Vec<_> = integrations.as_array().unwrap().iter().map(|of| &of["application"]["bot"]["id"]).collect();
    assert_eq!(bots, ["200", "201"]);
    world.get(&world.bot, &format!("/guilds/{}/integrations", world.guild)).await.has(403, 50013);
}

#[tokio::test]
async fn routes_that_are_not_served_say_so() {
    let world = World::new().await;
    let answer = world.get(&world.bot, "/guilds/5/members-search").await;
    answer.has(404, 0);
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("does not serve /guilds/{guild_id}/members-search"), "{message}");
    world.call(&world.ana, "PATCH", "/users/@me/guilds/5", Some(json!({}))).await.has(405, 0);
    world.get(&world.ana, "/nothing/of/the/kind").await.has(404, 0);
}
