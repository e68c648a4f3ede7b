//! Rate limits as clients see them. The clock does not run, so every figure is exact.

use crate::support::{UNIX_MS, World};
use axum::{body::Body, http::Request};
use guildhall_http_kit::{Peer, Rule};
use guildhall_rest::{ApiLimits, Bucket};
use serde_json::json;
use std::collections::BTreeSet;

fn only(bucket: Bucket, limit: u32, period_ms: u32) -> ApiLimits {
    ApiLimits::unlimited().with_rule(bucket, Some(Rule { limit, period_ms }))
}

#[tokio::test]
async fn headers_count_down() {
    let world = World::limited(only(Bucket::MessageCreate, 2, 5000)).await;
    let path = format!("/channels/{}/messages", world.general);
    let first = world.post(&world.ana, &path, json!({"content": "1"})).await;
    assert_eq!(first.status, 200);
    let headers =
        ["limit", "remaining", "reset", "reset-after"].map(|name| first.header(&format!("x-ratelimit-{name}")));
    let reset = UNIX_MS + 5000;
    assert_eq!(headers, ["2", "1", &format!("{}.{:03}", reset / 1000, reset % 1000), "5.000"]);
    assert_eq!(first.header("x-ratelimit-bucket").len(), 32);

    world.clock.advance_ms(1360);
    let second = world.post(&world.ana, &path, json!({})).await;
    assert_eq!(second.status, 400);
    assert_eq!((second.header("x-ratelimit-remaining"), second.header("x-ratelimit-reset-after")), ("0", "3.640"));

    let third = world.post(&world.ana, &path, json!({"content": "3"})).await;
    third.is(429, json!({"message": "You are being rate limited.", "code": 0, "retry_after": 3.64, "global": false}));
    assert_eq!((third.header("retry-after"), third.header("x-ratelimit-scope")), ("4", "user"));
    assert_eq!((third.header("x-ratelimit-remaining"), third.header("x-ratelimit-global")), ("0", ""));
    assert_eq!(third.header("x-ratelimit-bucket"), first.header("x-ratelimit-bucket"));
    assert!(!third.header("via").is_empty());

    // Another channel and another account have limits of their own.
    let other = world.channel("other", Vec::new()).await;
    let elsewhere = world.post(&world.ana, &format!("/channels/{other}/messages"), json!({"content": "x"})).await;
    assert_eq!((elsewhere.status, elsewhere.header("x-ratelimit-remaining")), (200, "1"));
    assert_eq!(elsewhere.header("x-ratelimit-bucket"), first.header("x-ratelimit-bucket"));
    world.post(&world.bob, &path, json!({"content": "x"})).await.has(200, 0);

    world.clock.advance_ms(3640);
    world.post(&world.ana, &path, json!({"content": "3"})).await.has(200, 0);
}

#[tokio::test]
async fn the_global_limit() {
    let world = World::limited(only(Bucket::Global, 3, 1000)).await;
    for path in ["/users/@me", "/gateway/bot", "/users/@me/guilds"] {
        let answer = world.get(&world.bot, path).await;
        assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, ""), "no rule, no headers");
    }
    let answer = world.get(&world.bot, "/users/@me").await;
    answer.is(429, json!({"message": "You are being rate limited.", "code": 0, "retry_after": 1.0, "global": true}));
    assert_eq!(answer.header("x-ratelimit-global"), "true");
    assert_eq!(answer.header("x-ratelimit-scope"), "global");
    assert_eq!(answer.header("retry-after"), "1");
    world.get(&world.ana, "/users/@me").await.has(200, 0);
    world.clock.advance_ms(1000);
    world.get(&world.bot, "/users/@me").await.has(200, 0);
}

#[tokio::test]
async fn every_authenticated_answer_has_headers() {
    let world = World::limited(ApiLimits::default()).await;
    let general = world.general;
    let mut buckets = BTreeSet::new();
    for (method, path) in [
        ("GET", "/users/@me".to_owned()),
        ("GET", format!("/channels/{general}/messages")),
        ("POST", format!("/channels/{general}/messages")),
        ("PATCH", format!("/channels/{general}/messages/5")),
        ("DELETE", format!("/channels/{general}/messages/5")),
        ("PUT", format!("/channels/{general}/messages/5/reactions/x/@me")),
        ("POST", format!("/channels/{general}/typing")),
        ("GET", "/channels/7".to_owned()),
        ("GET", "/gateway/bot".to_owned()),
        ("GET", "/users/@me/guilds".to_owned()),
        ("GET", "/guilds/7/members".to_owned()),
        ("GET", "/guilds/7/members/search".to_owned()),
        ("PATCH", "/guilds/7/members/@me".to_owned()),
        ("PATCH", "/guilds/7".to_owned()),
        ("POST", "/channels/7/messages/bulk-delete".to_owned()),
        ("GET", "/applications/200/commands".to_owned()),
        ("DELETE", "/users/@me/guilds/7".to_owned()),
    ] {
        let answer = world.call(&world.bot, method, &path, None).await;
        let limit: u32 = answer.header("x-ratelimit-limit").parse().unwrap_or_else(|_| panic!("{method} {path}"));
        let remaining: u32 = answer.header("x-ratelimit-remaining").parse().unwrap();
        assert_eq!(remaining + 1, limit, "{method} {path}");
        buckets.insert(answer.header("x-ratelimit-bucket").to_owned());
    }
    assert_eq!(buckets.len(), 16, "only the two that read share a bucket");
}

#[tokio::test]
async fn peers_without_an_account_have_a_limit() {
    let world = World::limited(only(Bucket::Anonymous, 2, 1000)).await;
    let send_request = async |path: &str, from: &str| world.anonymous("GET", path, from).await;
    assert_eq!(send_request("/api/v10/gateway", "192.0.2.1").await.header("x-ratelimit-remaining"), "1");
    send_request("/api/v10/nothing", "192.0.2.1").await.has(404, 0);
    let refused = send_request("/api/v10/gateway", "192.0.2.1").await;
    refused.is(429, json!({"message": "You are being rate limited.", "code": 0, "retry_after": 1.0, "global": false}));
    send_request("/nothing", "192.0.2.1").await.has(429, 0);
    world.anonymous("PUT", "/api/v10/users/@me", "192.0.2.1").await.has(429, 0);
    send_request("/api/v8/gateway", "192.0.2.1").await.has(429, 0);
    send_request("/api/v10/gateway", "192.0.2.2").await.has(200, 0);
    // Requests with an account are not affected.
    let request = Request::get("/api/v10/users/@me").header("authorization", &world.bot.token);
    let request = request.extension(Peer("192.0.2.1".parse().unwrap())).body(Body::empty()).unwrap();
    world.send(request).await.has(200, 0);
}

#[tokio::test]
async fn guessing_tokens_has_a_limit() {
    let world = World::limited(only(Bucket::InvalidToken, 2, 60_000)).await;
    let send_request = async |token: &str| {
        let request = Request::get("/api/v10/users/@me").header("authorization", token);
        let request = request.extension(Peer("192.0.2.1".parse().unwrap())).body(Body::empty()).unwrap();
        world.send(request).await
    };
    send_request(&world.bot.token).await.has(200, 0);
    send_request("Bot x").await.has(401, 0);
    send_request(&world.bot.token).await.has(200, 0);
    send_request("Bot y").await.has(401, 0);
    let refused = send_request(&world.bot.token).await;
    refused.is(429, json!({"message": "You are being rate limited.", "code": 0, "retry_after": 60.0, "global": false}));
    world.clock.advance_ms(60_000);
    send_request(&world.bot.token).await.has(200, 0);
}

#[tokio::test]
async fn unlimited_means_no_headers() {
    let world = World::new().await;
    for _ in 0..100 {
        let answer = world.get(&world.bot, "/users/@me").await;
        assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, ""));
    }
}

#[tokio::test]
async fn there_is_only_so_much_room() {
    let world = World::limited(ApiLimits { requests_in_flight_max: 0, ..ApiLimits::unlimited() }).await;
    world.get(&world.bot, "/users/@me").await.is(503, json!({"message": "503: Service Unavailable", "code": 0}));
}

#[tokio::test]
async fn s6_a_user_account_cannot_fill_replay_buffers_with_messages() {
    let world = World::limited(only(Bucket::UserWrite, 120, 60_000)).await;
    let mut channels = Vec::new();
    for n in 0..30 {
        channels.push(world.channel(&format!("c{n}"), Vec::new()).await);
    }
    let content = "é".repeat(2000);
    let (mut events, mut bytes) = (0, 0);
    for _ in 0..20 {
        for channel in &channels {
            let answer =
                world.post(&world.bob, &format!("/channels/{channel}/messages"), json!({"content": content})).await;
            if answer.status == 200 {
                (events, bytes) = (events + 1, bytes + answer.body.len());
            } else {
                assert_eq!((answer.status, answer.header("x-ratelimit-scope")), (429, "user"));
            }
        }
        world.clock.advance_ms(3_000);
    }
    // A resume has three minutes, 4,096 events and 4 MiB: these are the share of one account in one of the minutes.
    assert!((40..=120).contains(&events), "{events} events");
    assert!((160_000..=(4 << 20) / 12).contains(&bytes), "{bytes} bytes");

    let path = format!("/channels/{}", channels[0]);
    world.get(&world.bob, &path).await.has(200, 0);
    world.post(&world.bob, &format!("{path}/typing"), json!({})).await.has(204, 0);
    for n in 0..150 {
        world.post(&world.bot, &format!("{path}/messages"), json!({"content": n.to_string()})).await.has(200, 0);
    }
    world.clock.advance_ms(60_000);
    world.post(&world.bob, &format!("{path}/messages"), json!({"content": "again"})).await.has(200, 0);
}
