//! Visitors of a demo: an account without messages is deleted after a day, which makes room.

use crate::support::World;
use axum::{body::Body, http::Request};
use guildhall_http_kit::Peer;
use guildhall_rest::{ChatPage, VisitorGuild, VisitorLimits, Visitors, chat_router};
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt as _;

const DAY_MS: u64 = 86_400_000;

/// One is enough for three.
const LIMITS: VisitorLimits = VisitorLimits { address_per_hour_max: 100, visitors_max: 3 };

async fn visit(world: &World, visitors: &Arc<Visitors>) -> (u16, Value) {
    let page = ChatPage {
        gateway_url: "ws://gw.example.net".into(),
        visitors: Some(visitors.clone()),
        streams: "off",
        sign_on_url: None,
        create_guilds: false,
    };
    let request = Request::builder().method("POST").uri("/chat/visitors").extension(Peer([192, 0, 2, 1].into()));
    let answer = chat_router(page).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    // The next one has another id.
    world.clock.advance_ms(10);
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

async fn me(world: &World, visitor: &Value) -> u16 {
    let request =
        Request::builder().uri("/api/v10/users/@me").header("authorization", visitor["token"].as_str().unwrap());
    world.send(request.body(Body::empty()).unwrap()).await.status
}

async fn say(world: &World, visitor: &Value) {
    let request = Request::builder()
        .method("POST")
        .uri(format!("/api/v10/channels/{}/messages", world.general))
        .header("authorization", visitor["token"].as_str().unwrap())
        .header("content-type", "application/json");
    let body = json!({"content": "hello"}).to_string();
    assert_eq!(world.send(request.body(Body::from(body)).unwrap()).await.status, 200);
}

#[tokio::test]
async fn v1_silent_visitors_go_after_a_day_and_writers_stay() {
    let world = World::new().await;
    let visitors = Arc::new(Visitors::new(world.node.clone(), world.clock.clone(), LIMITS));
    let guild = || VisitorGuild { id: world.guild, roles: Vec::new() };
    visitors.open(vec![guild()], &[]);
    let (_, writer) = visit(&world, &visitors).await;
    let (_, silent) = visit(&world, &visitors).await;
    say(&world, &writer).await;
    world.clock.advance_ms(DAY_MS / 2);
    let (_, late) = visit(&world, &visitors).await;
    assert_eq!(visit(&world, &visitors).await.0, 503, "all places are taken");
    assert_eq!(visitors.sweep().await.unwrap(), 0, "no account was silent for a day");

    world.clock.advance_ms(DAY_MS / 2 + 1_000);
    assert_eq!(visitors.sweep().await.unwrap(), 1);
    assert_eq!([me(&world, &writer).await, me(&world, &silent).await, me(&world, &late).await], [200, 401, 200]);
    let silent_id = silent["user_id"].as_str().unwrap();
    let member = world.get(&world.ana, &format!("/guilds/{}/members/{silent_id}", world.guild)).await;
    assert_eq!(member.status, 404, "{}", member.body);
    assert_eq!(visit(&world, &visitors).await.0, 201, "there is a place again");

    // After a restart, from the members of the guild.
    let users = {
        let mut users = Vec::new();
        for visitor in [&writer, &late] {
            let id = visitor["user_id"].as_str().unwrap().parse().unwrap();
            users.push(world.node.user(id).await.unwrap().unwrap());
        }
        users.push(world.node.user(world.bob.id).await.unwrap().unwrap());
        users
    };
    let visitors = Arc::new(Visitors::new(world.node.clone(), world.clock.clone(), LIMITS));
    visitors.open(vec![guild()], &users);
    world.clock.advance_ms(DAY_MS);
    // The task of `open` may come first.
    assert!(visitors.sweep().await.unwrap() <= 1, "the one who wrote and those of a backend stay");
    assert_eq!([me(&world, &writer).await, me(&world, &late).await], [200, 401]);
    assert_eq!(world.get(&world.bob, "/users/@me").await.status, 200);
}
