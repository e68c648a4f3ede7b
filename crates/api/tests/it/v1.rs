//! The backend API's gate: keys, limits, sizes. What goes through it is in `guildhall/tests/it/backend.rs`, over sockets.

use crate::support::{Answer, World};
use axum::{Router, body::Body, http::Request};
use guildhall_api::{ApiLimits, NoGateway, Peer, SessionEvents, V1Limits, V1State, v1_document, v1_router};
use guildhall_node::Scope;
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt as _;

struct Backend {
    world: World,
    api: Router,
    key: String,
}

impl Backend {
    async fn new(limits: V1Limits) -> Self {
        let world = World::limited(ApiLimits::unlimited()).await;
        let (_, key) = world.node.create_key("all", &Scope::ALL).await.unwrap();
        let api = v1_router(V1State {
            node: world.node.clone(),
            gateway: Arc::new(NoGateway),
            session_events: Arc::new(SessionEvents::new(16)),
            clock: world.clock.clone(),
            limits,
        });
        Self { world, api, key }
    }

    async fn ask(&self, key: &str, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        let request =
            Request::builder().method(method).uri(format!("/v1{path}")).extension(Peer([192, 0, 2, 1].into()));
        let request = request.header("authorization", format!("Bearer {key}"));
        let response = self.api.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }
}

#[tokio::test]
async fn a_key_asks_so_often() {
    let limits = V1Limits { requests_per_s: Some(3), ..V1Limits::default() };
    let backend = Backend::new(limits).await;
    for expected in [200, 200, 200, 429] {
        assert_eq!(backend.ask(&backend.key, "GET", "/guilds", "").await.status, expected);
    }
    let refused = backend.ask(&backend.key, "GET", "/guilds", "").await;
    assert_eq!((refused.header("retry-after"), &refused.json()["code"]), ("1", &json!("rate_limited")));
    let (_, other) = backend.world.node.create_key("other", &[Scope::Read]).await.unwrap();
    assert_eq!(backend.ask(&other, "GET", "/guilds", "").await.status, 200, "limits are a key's own");
    backend.world.clock.advance_ms(1_000);
    assert_eq!(backend.ask(&backend.key, "GET", "/guilds", "").await.status, 200);
}

#[tokio::test]
async fn wrong_keys_run_out_and_good_ones_do_not() {
    let limits = V1Limits { wrong_keys_per_min: 2, ..V1Limits::default() };
    let backend = Backend::new(limits).await;
    let wrong = format!("{}x", backend.key);
    for expected in [401, 401, 429, 429] {
        let answer = backend.ask(&wrong, "GET", "/guilds", "").await;
        assert_eq!(answer.status, expected);
        assert_eq!(answer.header("www-authenticate") == "Bearer", expected == 401);
    }
    assert_eq!(backend.ask(&backend.key, "GET", "/guilds", "").await.status, 200, "from the same address");
    backend.world.node.set_root_key("a root key that nobody guesses");
    assert_eq!(backend.ask("a root key that nobody guesses", "GET", "/keys", "").await.status, 200);
}

#[tokio::test]
async fn sizes_are_bounded() {
    let limits = V1Limits { json_bytes_max: 2_000, event_bytes_max: 500, batch_events_max: 3, ..V1Limits::default() };
    let backend = Backend::new(limits).await;
    let guild = backend.world.guild;
    let event = |bytes: usize| json!({"t": "X", "d": "x".repeat(bytes), "audience": {"guild": guild}});
    let publish = async |body: Value| backend.ask(&backend.key, "POST", "/publish", body.to_string()).await;
    assert_eq!(publish(event(400)).await.json(), json!({"reached": 0, "complete": true, "repeated": false}));
    let refused = publish(event(600)).await;
    assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (400, &json!("d")));
    assert_eq!(publish(event(3_000)).await.status, 413);
    assert_eq!(publish(json!([event(1), event(1), event(1)])).await.status, 200);
    assert_eq!(publish(json!([event(1), event(1), event(1), event(1)])).await.status, 400);
    for text in ["", "{", "[", "null", "[null]", "{\"t\":1}", "\u{0}"] {
        let status = backend.ask(&backend.key, "POST", "/publish", text).await.status;
        assert!(status == 400 || text == "[null]" && status == 200, "{text}: {status}");
    }
}

#[tokio::test]
async fn requests_at_once_are_bounded() {
    let backend = Backend::new(V1Limits { requests_in_flight_max: 1, ..V1Limits::default() }).await;
    let request =
        Request::builder().uri("/v1/sessions/events").header("authorization", format!("Bearer {}", backend.key));
    let stream = backend.api.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(stream.status(), 200);
    let refused = backend.ask(&backend.key, "GET", "/guilds", "").await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"));
    drop(stream);
    for _ in 0..1_000 {
        if backend.ask(&backend.key, "GET", "/guilds", "").await.status == 200 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("who is gone gives the place back");
}

#[tokio::test]
async fn unknown_paths_and_methods_are_answered_in_json() {
    let backend = Backend::new(V1Limits::default()).await;
    for (method, path, status) in
        [("GET", "/nothing", 404), ("GET", "/", 404), ("PUT", "/guilds", 405), ("GET", "/publish", 405)]
    {
        let answer = backend.ask(&backend.key, method, path, "").await;
        assert_eq!(answer.status, status, "{method} {path}");
        if path != "/" {
            assert!(answer.json()["message"].as_str().unwrap().contains("/v1/openapi.json"), "{}", answer.body);
        }
    }
}

#[test]
fn the_document_names_every_scope_and_error() {
    let document: Value = serde_json::from_str(&v1_document()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 20, "{:?}", paths.keys());
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            for status in ["400", "401", "403", "429", "503"] {
                assert!(operation["responses"].get(status).is_some(), "{method} {path} {status}");
            }
        }
    }
    assert_eq!(document["components"]["schemas"]["GuildPut"]["additionalProperties"], false);
    assert_eq!(document["components"]["schemas"]["GuildFields"].get("additionalProperties"), None);
}

#[tokio::test]
async fn s21_an_event_in_another_spelling_is_the_same_event() {
    let backend = Backend::new(V1Limits::default()).await;
    let guild = backend.world.guild;
    let publish = async |text: String| backend.ask(&backend.key, "POST", "/publish", text).await;
    let first = format!(r#"{{"t":"X","d":{{"a":1,"b":[2,"x"]}},"audience":{{"guild":"{guild}"}},"key":"k"}}"#);
    let again = format!(
        "{{ \"key\": \"\\u006b\", \"audience\": {{\"guild\": \"{guild}\"}},\n \"d\": {{\"b\": [2, \"x\"], \"a\": 1.0}}, \"t\": \"X\"}}"
    );
    let other = first.replace("[2,", "[3,");
    assert_eq!(publish(first).await.json()["repeated"], false);
    assert_eq!(publish(again.clone()).await.json()["repeated"], true);
    assert_eq!(publish(other).await.status, 409);
    let batch = publish(format!("[{again},{again}]")).await.json();
    assert_eq!((&batch[0]["repeated"], &batch[1]["repeated"]), (&json!(true), &json!(true)));
}
