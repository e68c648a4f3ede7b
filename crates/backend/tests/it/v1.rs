//! The backend API's gate: keys, limits, sizes. Accepted requests are tested in `guildhall/tests/it/backend.rs`, over
//! sockets.

use crate::support::{Answer, World, until};
use axum::{
    Router,
    body::{Body, Bytes},
    http::{Request, Response, StatusCode},
};
use futures_util::{FutureExt as _, stream};
use guildhall_backend::{
    AuditPruner, BackendRouters, Cookies, NoExperiments, NoGateway, NoLab, NoReports, SessionEvents, V1Limits, V1State,
    backend_routers, v1_document,
};
use guildhall_http_kit::Peer;
use guildhall_node::Scope;
use guildhall_rest::ApiLimits;
use serde_json::{Value, json};
use std::{convert::Infallible, pin::Pin, sync::Arc};
use tower::ServiceExt as _;

pub struct Backend {
    pub world: World,
    pub api: Router,
    pub dashboard: Router,
    pub key: String,
}

impl Backend {
    pub async fn new(limits: V1Limits) -> Self {
        Self::of(World::limited(ApiLimits::unlimited()).await, limits).await
    }

    pub async fn of(world: World, limits: V1Limits) -> Self {
        let (_, key) = world.node.create_key("all", &Scope::ALL).await.unwrap();
        let state = V1State {
            node: world.node.clone(),
            gateway: Arc::new(NoGateway),
            session_events: Arc::new(SessionEvents::new(16)),
            reports: Arc::new(NoReports::default()),
            lab: Arc::new(NoLab),
            experiments: Arc::new(NoExperiments),
            voice_key: None,
            clock: world.clock.clone(),
            limits,
        };
        let BackendRouters { v1: api, dashboard } = backend_routers(state, Cookies::Tls);
        Self { world, api, dashboard, key }
    }

    pub async fn request(&self, key: &str, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        let request =
            Request::builder().method(method).uri(format!("/v1{path}")).extension(Peer([192, 0, 2, 1].into()));
        let request = request.header("authorization", format!("Bearer {key}"));
        let response = self.api.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Answer { status: parts.status.as_u16(), headers: parts.headers, bytes: body.clone().into_bytes(), body }
    }
}

#[tokio::test]
async fn requests_of_a_key_are_rate_limited() {
    let limits = V1Limits { requests_per_s: Some(3), ..V1Limits::default() };
    let backend = Backend::new(limits).await;
    for expected in [200, 200, 200, 429] {
        assert_eq!(backend.request(&backend.key, "GET", "/guilds", "").await.status, expected);
    }
    let refused = backend.request(&backend.key, "GET", "/guilds", "").await;
    assert_eq!((refused.header("retry-after"), &refused.json()["code"]), ("1", &json!("rate_limited")));
    let (_, other) = backend.world.node.create_key("other", &[Scope::Read]).await.unwrap();
    assert_eq!(backend.request(&other, "GET", "/guilds", "").await.status, 200, "limits are a key's own");
    backend.world.clock.advance_ms(1_000);
    assert_eq!(backend.request(&backend.key, "GET", "/guilds", "").await.status, 200);
}

#[tokio::test]
async fn wrong_keys_run_out_and_good_ones_do_not() {
    let limits = V1Limits { wrong_keys_per_min: 2, ..V1Limits::default() };
    let backend = Backend::new(limits).await;
    let wrong = format!("{}x", backend.key);
    for expected in [401, 401, 429, 429] {
        let answer = backend.request(&wrong, "GET", "/guilds", "").await;
        assert_eq!(answer.status, expected);
        assert_eq!(answer.header("www-authenticate") == "Bearer", expected == 401);
    }
    assert_eq!(backend.request(&backend.key, "GET", "/guilds", "").await.status, 200, "from the same address");
    backend.world.node.set_root_key("a root key that is hard to guess");
    assert_eq!(backend.request("a root key that is hard to guess", "GET", "/keys", "").await.status, 200);
}

#[tokio::test]
async fn sizes_are_bounded() {
    let limits = V1Limits { json_bytes_max: 2_000, event_bytes_max: 500, batch_events_max: 3, ..V1Limits::default() };
    let backend = Backend::new(limits).await;
    let guild = backend.world.guild;
    let event = |bytes: usize| json!({"t": "X", "d": "x".repeat(bytes), "audience": {"guild": guild}});
    let publish = async |body: Value| backend.request(&backend.key, "POST", "/publish", body.to_string()).await;
    assert_eq!(publish(event(400)).await.json(), json!({"reached": 0, "complete": true, "repeated": false}));
    let refused = publish(event(600)).await;
    assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (400, &json!("d")));
    assert_eq!(publish(event(3_000)).await.status, 413);
    assert_eq!(publish(json!([event(1), event(1), event(1)])).await.status, 200);
    assert_eq!(publish(json!([event(1), event(1), event(1), event(1)])).await.status, 400);
    for text in ["", "{", "[", "null", "[null]", "{\"t\":1}", "\u{0}"] {
        let status = backend.request(&backend.key, "POST", "/publish", text).await.status;
        assert!(status == 400 || text == "[null]" && status == 200, "{text}: {status}");
    }
}

fn never() -> Body {
    Body::from_stream(stream::pending::<Result<Bytes, Infallible>>())
}

impl Backend {
    /// Under way until it is dropped.
    fn begin(&self, key: &str, method: &str, path: &str, body: Body) -> PendingResponse {
        let request = Request::builder().method(method).uri(format!("/v1{path}"));
        let request = request.header("authorization", format!("Bearer {key}")).body(body).unwrap();
        let mut future: PendingResponse = Box::pin(self.api.clone().oneshot(request));
        assert!((&mut future).now_or_never().is_none(), "it waits for its body");
        future
    }
}

type PendingResponse = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>>>>;

#[tokio::test]
async fn s21_a_key_leaves_places_for_others_and_callers_without_a_key_take_none() {
    let backend = Backend::new(V1Limits { requests_in_flight_max: 2, ..V1Limits::default() }).await;
    let (_, other) = backend.world.node.create_key("other", &Scope::ALL).await.unwrap();
    let held = backend.begin(&backend.key, "POST", "/publish", never());
    let refused = backend.request(&backend.key, "GET", "/guilds", "").await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"));
    assert!(refused.body.contains("of this key"), "{}", refused.body);
    assert_eq!(backend.request(&other, "GET", "/guilds", "").await.status, 200, "the other half");
    let _theirs = backend.begin(&other, "POST", "/publish", never());
    for (key, status) in [("wrong", 401), (&*other, 503)] {
        assert_eq!(backend.request(key, "GET", "/guilds", "").await.status, status, "keys are looked at first");
    }
    drop(held);
    assert_eq!(backend.request(&backend.key, "GET", "/guilds", "").await.status, 200, "the place is given back");
}

#[tokio::test]
async fn s21_streams_take_no_places_of_requests() {
    let limits = V1Limits { requests_in_flight_max: 2, streams_max: 3, streams_per_key_max: 2, ..V1Limits::default() };
    let backend = Backend::new(limits).await;
    let (_, other) = backend.world.node.create_key("other", &Scope::ALL).await.unwrap();
    let follow = async |key: &str| {
        let request = Request::builder().uri("/v1/sessions/events").header("authorization", format!("Bearer {key}"));
        backend.api.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    };
    let mut streams = vec![follow(&backend.key).await, follow(&backend.key).await];
    assert_eq!(follow(&backend.key).await.status(), 503, "as many as a key may have");
    streams.push(follow(&other).await);
    assert_eq!(follow(&other).await.status(), 503, "as many as there may be");
    assert!(streams.iter().all(|stream| stream.status() == 200));
    for key in [&backend.key, &other] {
        assert_eq!(backend.request(key, "GET", "/guilds", "").await.status, 200);
    }
    drop(streams);
    until("the permit of a disconnected client", async || match follow(&backend.key).await.status() {
        StatusCode::OK => Ok(()),
        status => Err(status),
    })
    .await;
}

#[tokio::test]
async fn bodies_must_be_objects_and_errors_name_that() {
    let backend = Backend::new(V1Limits::default()).await;
    let guild = backend.world.guild;
    for (method, path) in [
        ("PUT", "/users/70005".to_owned()),
        ("PUT", "/guilds/1100000000000000090".to_owned()),
        ("PATCH", format!("/guilds/{guild}")),
        ("POST", "/keys".to_owned()),
    ] {
        for (body, message) in [
            (r#"["arr","100"]"#, "Must be an object; it is an array."),
            (r#"[{"username":"a"}]"#, "Must be an object; it is an array."),
            ("", "The body is empty: send a JSON object, at least {}."),
            ("nonsense", "This is not JSON: look at `onsense` in column 2."),
            ("{", "This is not JSON: it ends in the middle of a value."),
        ] {
            let answer = backend.request(&backend.key, method, &path, body).await;
            assert_eq!(answer.status, 400, "{method} {path} {body}");
            assert_eq!(answer.json()["errors"], json!([{"field": "", "message": message}]), "{method} {path} {body}");
        }
    }
    let nested = r#"{"name":"x","type":0,"permission_overwrites":[["1",0]]}"#;
    let answer = backend.request(&backend.key, "PUT", &format!("/guilds/{guild}/channels/900"), nested).await;
    let fault = json!([{"field": "permission_overwrites[0]", "message": "Must be an object; it is an array."}]);
    assert_eq!(answer.json()["errors"], fault);
}

#[tokio::test]
async fn compressed_bodies_are_refused_clearly() {
    let backend = Backend::new(V1Limits::default()).await;
    let import = format!("/v1/guilds/{}/members/import", backend.world.guild);
    for path in ["/v1/publish", "/v1/keys", &import] {
        let request = Request::post(path).header("authorization", format!("Bearer {}", backend.key));
        let request = request.header("content-encoding", "gzip").body(Body::from(&b"\x1f\x8b"[..])).unwrap();
        let answer = backend.api.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 415, "{path}");
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        assert!(String::from_utf8_lossy(&body).contains("send it uncompressed"), "{body:?}");
    }
}

#[tokio::test]
async fn s2_changes_have_a_budget() {
    let backend = Backend::new(V1Limits::default()).await;
    let bomb = format!("{{\"name\":[{}]}}", vec!["{\"\":0}"; 10_000].join(","));
    let answer = backend.request(&backend.key, "PATCH", &format!("/guilds/{}", backend.world.guild), bomb).await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("Must have at most 8192 values"), "{}", answer.body);
    let deep = format!("{{\"name\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let answer = backend.request(&backend.key, "PATCH", &format!("/guilds/{}", backend.world.guild), deep).await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("nested too deeply"), "{}", answer.body);
    let long = " ".repeat((256 << 10) + 1);
    let answer = backend.request(&backend.key, "PATCH", &format!("/guilds/{}", backend.world.guild), long).await;
    assert_eq!(answer.status, 413);
}

#[tokio::test]
async fn unknown_paths_and_methods_are_answered_in_json() {
    let backend = Backend::new(V1Limits::default()).await;
    for (method, path, status) in
        [("GET", "/nothing", 404), ("GET", "/", 404), ("PUT", "/guilds", 405), ("GET", "/publish", 405)]
    {
        let answer = backend.request(&backend.key, method, path, "").await;
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
    let publish = async |text: String| backend.request(&backend.key, "POST", "/publish", text).await;
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

impl Backend {
    /// Key, action, object and status of each entry of the audit log.
    async fn audit(&self, query: &str) -> Vec<(Value, String, Value, u64)> {
        let answer = self.request(&self.key, "GET", &format!("/audit{query}"), "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let entries = answer.json()["entries"].as_array().unwrap().clone();
        let entry = |entry: &Value| {
            let (action, status) = (entry["action"].as_str().unwrap().to_owned(), entry["status"].as_u64().unwrap());
            (entry["key_id"].clone(), action, entry["object"].clone(), status)
        };
        entries.iter().map(entry).collect()
    }
}

#[tokio::test]
async fn audit_entries_name_the_key_and_the_object() {
    let backend = Backend::new(V1Limits::default()).await;
    let (reader, read_only) = backend.world.node.create_key("reader", &[Scope::Read]).await.unwrap();
    backend.world.node.set_root_key("a root key that is hard to guess");
    let user = json!({"username": "ana"}).to_string();
    let event = json!({"t": "X", "d": null, "audience": {"guild": backend.world.guild}}).to_string();
    for (key, method, path, body, status) in [
        (&*backend.key, "PUT", "/users/5000", &*user, 201),
        (&read_only, "PATCH", "/users/5000", &user, 403),
        (&backend.key, "PUT", "/users/5001", "{", 400),
        ("a root key that is hard to guess", "DELETE", "/users/4999", "", 404),
        // These change nothing that is stored, or have no valid key.
        (&backend.key, "GET", "/users/5000", "", 200),
        (&backend.key, "POST", "/publish", &event, 200),
        ("wrong", "PUT", "/users/5002", &user, 401),
        (&backend.key, "POST", "/nothing", "", 404),
    ] {
        let answer = backend.request(key, method, path, body.to_owned()).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        backend.world.clock.advance_ms(10);
    }
    let new = json!({"name": "other", "scopes": ["read"]}).to_string();
    let made = backend.request(&backend.key, "POST", "/keys", new).await.json();
    let entries = backend.audit("").await;
    let expected = [
        ("PUT /v1/users/{user_id}", json!({"user_id": "5000"}), 201),
        ("PATCH /v1/users/{user_id}", json!({"user_id": "5000"}), 403),
        ("PUT /v1/users/{user_id}", json!({"user_id": "5001"}), 400),
        ("DELETE /v1/users/{user_id}", json!({"user_id": "4999"}), 404),
        ("POST /v1/keys", json!({"key_id": made["id"]}), 201),
    ];
    let actions: Vec<_> =
        entries.iter().map(|(_, action, object, status)| (&**action, object.clone(), *status)).collect();
    assert_eq!(actions, expected);
    assert_eq!(entries[1].0, json!(reader.id.unwrap().to_string()));
    assert!(entries[3].0.is_null(), "the root key");
    // In pages, and for keys that manage keys.
    let all = backend.request(&backend.key, "GET", "/audit?limit=2", "").await.json();
    let last = all["entries"][1]["id"].as_str().unwrap();
    let rest = backend.audit(&format!("?after={last}")).await;
    assert_eq!(rest, entries[2..]);
    assert_eq!(backend.request(&read_only, "GET", "/audit", "").await.status, 403);
    for secret in ["nobody guesses", &*backend.key, made["key"].as_str().unwrap()] {
        assert!(!backend.request(&backend.key, "GET", "/audit", "").await.body.contains(secret));
    }
}

#[tokio::test]
async fn audit_has_changes_of_a_client_that_disconnected() {
    let backend = Backend::new(V1Limits::default()).await;
    let request = Request::builder().method("PUT").uri("/v1/users/5000");
    let request = request.header("authorization", format!("Bearer {}", backend.key));
    let request = request.body(Body::from(json!({"username": "ana"}).to_string())).unwrap();
    let mut future: PendingResponse = Box::pin(backend.api.clone().oneshot(request));
    assert!((&mut future).now_or_never().is_none(), "it waits for its body");
    drop(future);
    let entries = until("an entry", async || match backend.audit("").await {
        entries if entries.len() == 1 => Ok(entries),
        entries => Err(entries),
    });
    let entry = &entries.await[0];
    assert_eq!((&*entry.1, entry.3), ("PUT /v1/users/{user_id}", 201));
    assert_eq!(backend.request(&backend.key, "GET", "/users/5000", "").await.status, 200);
}

#[tokio::test]
async fn audit_entries_are_kept_for_so_long() {
    const DAY_MS: u64 = 86_400_000;
    let backend = Backend::new(V1Limits::default()).await;
    let put = async |backend: &Backend, id: u32| {
        let path = format!("/users/{id}");
        assert_eq!(backend.request(&backend.key, "PUT", &path, "{\"username\":\"ana\"}").await.status, 201);
    };
    for id in 5_000..5_300 {
        put(&backend, id).await;
    }
    backend.world.clock.advance_ms(3 * DAY_MS);
    put(&backend, 6_000).await;
    let pruner = AuditPruner::start(backend.world.node.clone(), backend.world.clock.clone(), 2 * DAY_MS);
    until("the removal of old entries", async || match backend.audit("?limit=1000").await.len() {
        0 | 1 => Ok(()),
        count => Err(count),
    })
    .await;
    drop(pruner);
    assert_eq!(backend.audit("").await[0].2, json!({"user_id": "6000"}));
    let off = Backend::new(V1Limits { audit_keep_ms: None, ..V1Limits::default() }).await;
    put(&off, 5_000).await;
    assert_eq!(off.audit("").await, []);
}

#[tokio::test]
async fn retention_is_set_read_and_removed() {
    let backend = Backend::new(V1Limits::default()).await;
    let (guild, channel) = (backend.world.guild, backend.world.general);
    let (_, reader) = backend.world.node.create_key("reader", &[Scope::Read]).await.unwrap();
    for path in [format!("/guilds/{guild}/retention"), format!("/guilds/{guild}/channels/{channel}/retention")] {
        let send_request =
            |method: &'static str, body: &'static str| backend.request(&backend.key, method, &path, body);
        send_request("GET", "").await.is(200, json!({"keep_days": null}));
        send_request("PUT", r#"{"keep_days": 30}"#).await.is(200, json!({"keep_days": 30}));
        send_request("GET", "").await.is(200, json!({"keep_days": 30}));
        send_request("PUT", r#"{"keep_days": 0}"#).await.is(200, json!({"keep_days": 0}));
        for wrong in
            [r#"{"keep_days": 36501}"#, r#"{"keep_days": -1}"#, r#"{"keep_days": null}"#, r#"{"days": 3}"#, "[]"]
        {
            assert_eq!(send_request("PUT", wrong).await.status, 400, "{wrong}");
        }
        assert_eq!(backend.request(&reader, "PUT", &path, r#"{"keep_days": 1}"#).await.status, 403);
        assert_eq!(backend.request(&reader, "GET", &path, "").await.json(), json!({"keep_days": 0}));
        send_request("DELETE", "").await.is_done();
        send_request("DELETE", "").await.is_done();
        send_request("GET", "").await.is(200, json!({"keep_days": null}));
    }
    for unknown in ["/guilds/5/retention".to_owned(), format!("/guilds/{guild}/channels/5/retention")] {
        assert_eq!(backend.request(&backend.key, "PUT", &unknown, r#"{"keep_days": 1}"#).await.status, 404);
    }
}

/// Threads have no place in this API. Their ids were answered with an internal error.
#[tokio::test]
async fn a_thread_is_no_channel_of_the_backend_api() {
    let backend = Backend::new(V1Limits::default()).await;
    let (world, guild) = (&backend.world, backend.world.guild);
    let channel = world.general;
    let thread = json!({"name": "a thread", "type": 11});
    let thread = world.post(&world.ana, &format!("/channels/{channel}/threads"), thread).await;
    let path = format!("/guilds/{guild}/channels/{}", thread.json()["id"].as_str().unwrap());
    for (method, body) in [("GET", ""), ("PATCH", r#"{"name": "other"}"#)] {
        let answer = backend.request(&backend.key, method, &path, body).await;
        assert_eq!((answer.status, &answer.json()["code"]), (404, &json!("not_found")), "{method}");
    }
}
