//! Chat page: a client for browsers below `/chat/`, embedded in the binary.
//!
//! Owns        the page's files as `web/chat/build.js` writes them, and the accounts of visitors (`visitors`).
//! Doors       `chat_router`.
//! Invariants  H2 the page loads nothing from other origins, runs no inline code, and is shown in no frame. (test
//!             `h2_*`)
//! Price       the page loads without a token: it contains nothing that its source code does not.
//! Not here    the page itself: `web/chat`. It is a client of REST and gateway like any other.

mod visitors;

pub use visitors::{VisitorGuild, VisitorLimits, Visitors};

use crate::error::ApiError;
use axum::{
    Json, Router,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use guildhall_http_kit::page::{self, Asset};
use serde::Serialize;
use std::sync::Arc;

include!("../../../../web/chat/dist/embedded.rs");

/// Settings of the page.
#[derive(Clone)]
pub struct ChatPage {
    /// Where clients open their WebSocket: `ws://host:port`, without a slash at the end.
    pub gateway_url: Arc<str>,
    /// Makes accounts for visitors. None: visitors paste a token.
    pub visitors: Option<Arc<Visitors>>,
    /// `codec.streams`, for the meter.
    pub streams: &'static str,
    /// Where people log in. None: they paste a token.
    pub sign_on_url: Option<Arc<str>>,
    /// Whether accounts may create guilds (`users.create_guilds`).
    pub create_guilds: bool,
}

struct Served {
    page: ChatPage,
    /// Content-Security-Policy of the page.
    policy: HeaderValue,
}

/// `/chat/`, its files and its settings. `/` redirects there.
pub fn chat_router(page: ChatPage) -> Router {
    let policy = policy(&page.gateway_url);
    let has_visitors = page.visitors.is_some();
    let router = Router::new()
        .route("/", get(|| async { Redirect::temporary("/chat/") }))
        .route("/chat", get(|| async { Redirect::permanent("/chat/") }))
        .route("/chat/", get(index))
        .route("/chat/settings.json", get(settings))
        .route("/chat/assets/{name}", get(file));
    let router = if has_visitors { router.route("/chat/visitors", post(visit)) } else { router };
    router.with_state(Arc::new(Served { page, policy }))
}

/// The page talks to its own origin, and to the gateway's if that is another one: pictures come from there, too.
fn policy(gateway_url: &str) -> HeaderValue {
    let http = gateway_url.replacen("ws", "http", 1);
    let policy = format!(
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob: {http}; \
         media-src 'self' {http}; connect-src 'self' {gateway_url} {http}; worker-src 'self'; form-action 'none'; base-uri 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'"
    );
    // Without the gateway's origin pictures are missing, and nothing else.
    HeaderValue::from_str(&policy)
        .unwrap_or(HeaderValue::from_static("default-src 'self'; frame-ancestors 'none'; base-uri 'none'"))
}

async fn index(State(served): State<Arc<Served>>, request_headers: HeaderMap) -> Response {
    page::index(ASSETS, &request_headers, &served.policy)
}

async fn file(Path(name): Path<String>, request_headers: HeaderMap) -> Response {
    page::file(ASSETS, &name, &request_headers)
}

/// Facts about the node that the page reads before a user logs in.
#[derive(Serialize)]
struct Settings<'a> {
    gateway_url: &'a str,
    /// `POST /chat/visitors` makes accounts.
    visitors: bool,
    version: &'static str,
    streams: &'static str,
    sign_on_url: Option<&'a str>,
    create_guilds: bool,
}

async fn settings(State(served): State<Arc<Served>>) -> Response {
    let settings = Settings {
        gateway_url: &served.page.gateway_url,
        visitors: served.page.visitors.is_some(),
        version: env!("CARGO_PKG_VERSION"),
        streams: served.page.streams,
        sign_on_url: served.page.sign_on_url.as_deref(),
        create_guilds: served.page.create_guilds,
    };
    ([(header::CACHE_CONTROL, "no-store")], Json(settings)).into_response()
}

/// A new account and its token.
#[derive(Serialize)]
struct Visitor {
    token: String,
    user_id: String,
}

async fn visit(State(served): State<Arc<Served>>, request: axum::extract::Request) -> Response {
    // A page of another origin could make accounts by its readers' browsers, though not read the answer.
    let site = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
    if !matches!(site, None | Some(b"same-origin" | b"none")) {
        return ApiError::MISSING_ACCESS.into_response();
    }
    let peer = request.extensions().get::<guildhall_http_kit::Peer>().map(|peer| peer.0);
    let Some(visitors) = &served.page.visitors else { return ApiError::NotFound.into_response() };
    match visitors.welcome(peer).await {
        Ok((user_id, token)) => {
            let visitor = Visitor { token, user_id: user_id.to_string() };
            (StatusCode::CREATED, [(header::CACHE_CONTROL, "no-store")], Json(visitor)).into_response()
        }
        Err(error) => error.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{body::Body, http::Request};
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    async fn send_request(method: &str, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, Vec<u8>) {
        let page = ChatPage {
            gateway_url: "wss://gw.example.net".into(),
            visitors: None,
            streams: "per-connection",
            sign_on_url: Some("https://login.example.net/?app=chat".into()),
            create_guilds: false,
        };
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = chat_router(page).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        (parts.status, parts.headers, body.collect().await.unwrap().to_bytes().to_vec())
    }

    #[tokio::test]
    async fn h1_files_are_cached_for_ever_and_the_page_is_revalidated() {
        let (status, headers, page) = send_request("GET", "/chat/", &[]).await;
        assert_eq!((status, &headers[header::CACHE_CONTROL]), (StatusCode::OK, &"no-cache".parse().unwrap()));
        assert_eq!(headers[header::CONTENT_TYPE], "text/html; charset=utf-8");
        let page = String::from_utf8(page).unwrap();
        let scripts: Vec<&str> = page.split('"').filter(|text| text.starts_with("/chat/assets/")).collect();
        assert!(scripts.iter().any(|path| path.ends_with(".js")) && scripts.iter().any(|path| path.ends_with(".css")));
        for path in scripts {
            let (status, headers, plain) = send_request("GET", path, &[]).await;
            assert_eq!(status, StatusCode::OK, "{path}");
            assert_eq!(headers[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
            for (accepted, expected) in [
                ("gzip, deflate, br", Some("br")),
                ("gzip", Some("gzip")),
                ("br;q=0, gzip;q=0.5", Some("gzip")),
                ("identity", None),
            ] {
                let (status, headers, bytes) = send_request("GET", path, &[("accept-encoding", accepted)]).await;
                let encoding = headers.get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap().to_owned());
                assert_eq!((status, encoding.as_deref()), (StatusCode::OK, expected), "{path} {accepted}");
                assert_eq!(headers[header::VARY], "accept-encoding");
                assert!(expected.is_none() || bytes.len() < plain.len());
                let tag = headers[header::ETAG].to_str().unwrap().to_owned();
                let (status, _, bytes) =
                    send_request("GET", path, &[("accept-encoding", accepted), ("if-none-match", &tag)]).await;
                assert_eq!((status, bytes.len()), (StatusCode::NOT_MODIFIED, 0));
                assert_eq!(send_request("GET", path, &[("if-none-match", "\"other\"")]).await.0, StatusCode::OK);
            }
        }
    }

    #[tokio::test]
    async fn h2_the_page_loads_nothing_from_elsewhere() {
        let (_, headers, page) = send_request("GET", "/chat/", &[]).await;
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        for part in ["default-src 'none'", "frame-ancestors 'none'", "connect-src 'self' wss://gw.example.net"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe-inline") && !policy.contains("'unsafe-eval'"));
        let page = String::from_utf8(page).unwrap();
        assert!(!page.contains("https://") && !page.contains("style=") && !page.contains("<style"), "{page}");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    }

    #[tokio::test]
    async fn everything_else_is_refused() {
        for path in ["/chat/assets/", "/chat/assets/none.js", "/chat/assets/..%2findex.html", "/chat/other"] {
            assert_eq!(send_request("GET", path, &[]).await.0, StatusCode::NOT_FOUND, "{path}");
        }
        assert_eq!(send_request("POST", "/chat/", &[]).await.0, StatusCode::METHOD_NOT_ALLOWED);
        let (status, headers, _) = send_request("GET", "/chat", &[]).await;
        assert_eq!((status, &headers[header::LOCATION]), (StatusCode::PERMANENT_REDIRECT, &"/chat/".parse().unwrap()));
        let (_, _, settings) = send_request("GET", "/chat/settings.json", &[]).await;
        let settings: serde_json::Value = serde_json::from_slice(&settings).unwrap();
        assert_eq!((&settings["visitors"], &settings["gateway_url"]), (&false.into(), &"wss://gw.example.net".into()));
        let expected = (&"https://login.example.net/?app=chat".into(), &false.into());
        assert_eq!((&settings["sign_on_url"], &settings["create_guilds"]), expected);
        // Outside of a demo visitors cannot create accounts.
        assert_eq!(send_request("POST", "/chat/visitors", &[]).await.0, StatusCode::NOT_FOUND);
        let (status, headers, body) = send_request("HEAD", "/chat/", &[]).await;
        assert_eq!((status, body.len()), (StatusCode::OK, 0));
        assert!(headers.contains_key(header::ETAG));
    }
}
