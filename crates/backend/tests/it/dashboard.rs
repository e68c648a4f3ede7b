//! The dashboard's logins: requests of a browser, and forged ones of other sites. The pages themselves are tested in
//! `web/dashboard/test`, by a real browser.

use crate::v1::Backend;
use axum::{
    body::Body,
    http::{HeaderMap, Request},
};
use guildhall_backend::V1Limits;
use guildhall_http_kit::Peer;
use guildhall_node::Scope;
use serde_json::Value;
use std::time::Duration;
use tower::ServiceExt as _;

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn code(&self) -> String {
        serde_json::from_str::<Value>(&self.body).unwrap()["code"].as_str().unwrap().to_owned()
    }
}

const OWN: (&str, &str) = ("x-guildhall-dashboard", "1");

async fn send_request(backend: &Backend, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(format!("/dashboard{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.extension(Peer([192, 0, 2, 1].into())).body(Body::empty()).unwrap();
    let response = backend.dashboard.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let body = String::from_utf8_lossy(&body).into_owned();
    Answer { status: parts.status.as_u16(), headers: parts.headers, body }
}

async fn log_in(backend: &Backend, key: &str) -> Answer {
    send_request(backend, "POST", "/api/login", &[OWN, ("authorization", &format!("Bearer {key}"))]).await
}

fn cookie_of(answer: &Answer) -> String {
    answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn d1_a_login_is_a_cookie_that_no_script_reads() {
    let backend = Backend::new(V1Limits::default()).await;
    assert_eq!(send_request(&backend, "GET", "/api/v1/node", &[OWN]).await.code(), "logged_out");
    let login = log_in(&backend, &backend.key).await;
    assert_eq!((login.status, login.body.as_str()), (201, ""));
    let cookie = login.headers["set-cookie"].to_str().unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Secure", "Path=/dashboard/", "Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(&backend.key), "the key stays out of the cookie");
    let cookie = cookie_of(&login);
    let state = send_request(&backend, "GET", "/api/v1/node", &[OWN, ("cookie", &format!("other=1; {cookie}"))]).await;
    assert_eq!((state.status, &state.headers["cache-control"]), (200, &"no-store".parse().unwrap()));
    let state: Value = serde_json::from_str(&state.body).unwrap();
    assert_eq!((&state["key_name"], state["scopes"].as_array().unwrap().len()), (&"all".into(), Scope::ALL.len()));
    // The cookie is nothing outside of the dashboard, and a key is nothing to the dashboard's paths.
    assert_eq!(backend.request("", "GET", "/node", "").await.status, 401);
    let key = format!("Bearer {}", backend.key);
    assert_eq!(
        send_request(&backend, "GET", "/api/v1/node", &[OWN, ("authorization", &key)]).await.code(),
        "logged_out"
    );
    let out = send_request(&backend, "POST", "/api/logout", &[OWN, ("cookie", &cookie)]).await;
    assert_eq!((out.status, out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0")), (204, true));
    assert_eq!(send_request(&backend, "GET", "/api/v1/node", &[OWN, ("cookie", &cookie)]).await.code(), "logged_out");
}

#[tokio::test]
async fn d2_other_sites_reach_nothing() {
    let backend = Backend::new(V1Limits::default()).await;
    let cookie = cookie_of(&log_in(&backend, &backend.key).await);
    for headers in [
        vec![("cookie", cookie.as_str())],
        vec![OWN, ("cookie", &cookie), ("sec-fetch-site", "cross-site")],
        vec![OWN, ("cookie", &cookie), ("sec-fetch-site", "same-site")],
    ] {
        for (method, path) in [("GET", "/api/v1/node"), ("POST", "/api/v1/node/drain"), ("POST", "/api/logout")] {
            let refused = send_request(&backend, method, path, &headers).await;
            assert_eq!((refused.status, refused.code().as_str()), (403, "foreign"), "{method} {path}");
        }
    }
    let own = [OWN, ("cookie", &cookie), ("sec-fetch-site", "same-origin")];
    assert_eq!(send_request(&backend, "GET", "/api/v1/node", &own).await.status, 200);
}

#[tokio::test]
async fn d3_a_login_ends_with_its_key_and_after_its_time() {
    let backend = Backend::new(V1Limits::default()).await;
    let (key, text) = backend.world.node.create_key("reader", &[Scope::Read]).await.unwrap();
    let cookie = cookie_of(&log_in(&backend, &text).await);
    let node = async || send_request(&backend, "GET", "/api/v1/node/overview", &[OWN, ("cookie", &cookie)]).await;
    assert_eq!(node().await.status, 200);
    let sessions = send_request(&backend, "GET", "/api/v1/node/sessions", &[OWN, ("cookie", &cookie)]).await;
    assert_eq!((sessions.status, sessions.code().as_str()), (403, "missing_scope"));
    let drain = send_request(&backend, "POST", "/api/v1/node/drain", &[OWN, ("cookie", &cookie)]).await;
    assert_eq!(drain.code(), "missing_scope");
    backend.world.node.revoke_key(key.id.unwrap()).await.unwrap();
    assert_eq!(node().await.code(), "logged_out");

    let cookie = cookie_of(&log_in(&backend, &backend.key).await);
    let node = async || send_request(&backend, "GET", "/api/v1/node", &[OWN, ("cookie", &cookie)]).await.status;
    backend.world.clock.advance_ms(12 * 3_600_000 - 1);
    assert_eq!(node().await, 200);
    backend.world.clock.advance_ms(1);
    assert_eq!(node().await, 401);
}

#[tokio::test]
async fn s36_a_log_out_ends_the_streams_of_the_login() {
    let backend = Backend::new(V1Limits::default()).await;
    let cookies = [log_in(&backend, &backend.key).await, log_in(&backend, &backend.key).await].map(|it| cookie_of(&it));
    let follow = async |cookie: &str| {
        let request = Request::builder().uri("/dashboard/api/v1/sessions/events").header(OWN.0, OWN.1);
        let request = request.header("cookie", cookie).extension(Peer([192, 0, 2, 1].into()));
        let response = backend.dashboard.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body()
    };
    let read = |body| tokio::spawn(axum::body::to_bytes(body, usize::MAX));
    let (stream, other) = (read(follow(&cookies[0]).await), read(follow(&cookies[1]).await));
    assert_eq!(send_request(&backend, "POST", "/api/logout", &[OWN, ("cookie", &cookies[0])]).await.status, 204);
    tokio::time::timeout(Duration::from_secs(60), stream).await.expect("it ends").unwrap().unwrap();
    assert!(!other.is_finished(), "that of another login goes on");
    other.abort();
}

#[tokio::test]
async fn s36_a_key_ends_no_logins_of_others() {
    let backend = Backend::new(V1Limits::default()).await;
    let operator = cookie_of(&log_in(&backend, &backend.key).await);
    let (_, small) = backend.world.node.create_key("publisher", &[Scope::Publish]).await.unwrap();
    for round in 0..1_010 {
        backend.world.clock.advance_ms(2);
        assert_eq!(log_in(&backend, &small).await.status, 201, "{round}");
    }
    assert_eq!(send_request(&backend, "GET", "/api/v1/node", &[OWN, ("cookie", &operator)]).await.status, 200);
}

#[tokio::test]
async fn wrong_keys_are_refused_and_counted_as_those_of_v1() {
    let backend = Backend::new(V1Limits { wrong_keys_per_min: 2, ..V1Limits::default() }).await;
    assert_eq!(send_request(&backend, "POST", "/api/login", &[OWN]).await.code(), "unauthorized");
    assert_eq!(log_in(&backend, "ghk_wrong").await.code(), "unauthorized");
    assert_eq!(log_in(&backend, "ghk_wrong").await.status, 429);
    assert_eq!(log_in(&backend, &backend.key).await.status, 201);
}

#[tokio::test]
async fn d4_the_page_loads_nothing_from_elsewhere() {
    let backend = Backend::new(V1Limits::default()).await;
    let page = send_request(&backend, "GET", "/", &[]).await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    for part in ["default-src 'none'", "frame-ancestors 'none'", "form-action 'none'", "connect-src 'self'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe-inline") && !policy.contains("unsafe-eval"), "{policy}");
    assert!(!page.body.contains("https://") && !page.body.contains("<style"), "{}", page.body);
    let files: Vec<&str> = page.body.split('"').filter(|text| text.starts_with("/dashboard/assets/")).collect();
    assert!(files.len() >= 2, "{}", page.body);
    for file in files {
        let file = send_request(&backend, "GET", file.strip_prefix("/dashboard").unwrap(), &[]).await;
        let cache = file.headers["cache-control"].to_str().unwrap();
        assert_eq!((file.status, cache), (200, "public, max-age=31536000, immutable"));
    }
    assert_eq!(send_request(&backend, "GET", "", &[]).await.status, 308);
    assert_eq!(send_request(&backend, "GET", "/assets/none.js", &[]).await.status, 404);
}
