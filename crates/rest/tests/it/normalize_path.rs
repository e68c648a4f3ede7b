//! What every request meets first: versions, paths, tokens, methods, browsers.

use crate::support::World;
use axum::{body::Body, http::Request};
use serde_json::json;

#[tokio::test]
async fn all_versions_answer_alike() {
    let world = World::new().await;
    for prefix in ["/api/v10", "/api/v9", "/api"] {
        world
            .anonymous("GET", &format!("{prefix}/gateway"), "::1")
            .await
            .is(200, json!({"url": "ws://gw.example.net:8080"}));
        for me in ["@me", "%40me", "%40Me", "%40%6De"] {
            let request = Request::get(format!("{prefix}/users/{me}")).header("authorization", &world.ana.token);
            let answer = world.send(request.body(Body::empty()).unwrap()).await;
            if me == "%40Me" {
                answer.has(400, 50035);
            } else {
                assert_eq!(answer.json()["id"], "100", "{prefix} {me}");
            }
        }
    }
    for version in ["v8", "v6", "v11", "v0", "v100000000000"] {
        let answer = world.anonymous("GET", &format!("/api/{version}/gateway"), "::1").await;
        answer.is(400, json!({"message": "Invalid API version", "code": 50041}));
    }
}

#[tokio::test]
async fn unknown_paths_are_answered_in_json() {
    let world = World::new().await;
    let not_found = json!({"message": "404: Not Found", "code": 0});
    for path in ["/api/", "/api/v10", "/api/v10/", "/api/v10/nothing", "/api/v10/gateway/"] {
        world.anonymous("GET", path, "::1").await.is(404, not_found.clone());
    }
    for path in ["/", "/api", "/gateway", "/v1", "/apiary"] {
        let answer = world.anonymous("GET", path, "::1").await;
        assert_eq!(answer.status, 404, "{path}");
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("/api/v10") && message.contains("/v1/openapi.json"), "{path}: {message}");
    }
    world.get(&world.bot, "/users/@me/detectable").await.is(404, not_found);
}

#[tokio::test]
async fn wrong_methods_are_answered_in_json() {
    let world = World::new().await;
    let answer = world.call(&world.bot, "PUT", "/users/@me", None).await;
    answer.is(405, json!({"message": "405: Method Not Allowed", "code": 0}));
}

#[tokio::test]
async fn tokens_in_all_forms() {
    let world = World::new().await;
    let bot = world.bot.token.strip_prefix("Bot ").unwrap().to_owned();
    let user = world.ana.token.clone();
    let ok = [format!("Bot {bot}"), bot.clone(), user.clone(), format!("Bearer {user}")];
    let bad =
        [String::new(), "Bot".into(), "Bot x".into(), format!("{bot}x"), "x".repeat(4000), format!("Basic {bot}")];
    for (token, status) in ok.iter().map(|token| (token, 200)).chain(bad.iter().map(|token| (token, 401))) {
        let request = Request::get("/api/v10/users/@me").header("authorization", token).body(Body::empty()).unwrap();
        let answer = world.send(request).await;
        assert_eq!(answer.status, status, "{token}");
        if status == 401 {
            answer.is(401, json!({"message": "401: Unauthorized", "code": 0}));
        }
    }
    world.anonymous("GET", "/api/v10/users/@me", "::1").await.has(401, 0);
}

#[tokio::test]
async fn preflight_requests_are_allowed() {
    let world = World::new().await;
    let answer = world.anonymous("OPTIONS", "/api/v10/channels/1/messages", "::1").await;
    answer.is_done();
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    assert!(answer.header("access-control-allow-methods").contains("PATCH"));
    assert!(answer.header("access-control-allow-headers").contains("Authorization"));
    let answer = world.get(&world.bot, "/users/@me").await;
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    assert!(answer.header("access-control-expose-headers").contains("X-RateLimit-Remaining"));
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let world = World::new().await;
    let answer = world.call(&world.bot, "HEAD", "/users/@me", None).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn ids_in_paths_must_be_ids() {
    let world = World::new().await;
    let answer = world.get(&world.bot, "/channels/abc/messages/5").await;
    let fault = json!({"code": "NUMBER_TYPE_COERCE", "message": "Value \"abc\" is not snowflake."});
    answer.is(400, crate::support::invalid_form(json!({"channel_id": {"_errors": [fault]}})));
    world.get(&world.bot, "/guilds/99999999999999999999").await.has(400, 50035);
    world.get(&world.bot, "/guilds/%ff").await.has(404, 0);
}
