//! Dashboard: the operator's page below `/dashboard/`, embedded in the binary.
//!
//! Owns        the page's files as `web/dashboard/build.js` writes them, and its logins (`logins`).
//! Doors       `router`. A login's requests below `/dashboard/api/v1/` are those of `/v1`, with the key of the login.
//! Invariants  D1 the key is sent once, and the browser keeps a random cookie that no script reads and no other site
//!             sends. D2 a request below `/dashboard/api/` without the header of the page is refused: no form and no
//!             other site can send it. D3 the login of a revoked key ends with the key, and what a
//!             login began ends with the login. D4 the page loads nothing from
//!             other origins, runs no inline code, and is shown in no frame. (tests `d*_*` in `tests/it/dashboard.rs`)
//! Limits      those of `/v1`: wrong keys per address, requests per key; and `logins::KEY_LOGINS_MAX`.
//! Not here    what a page shows: `web/dashboard`. The figures: `crate`.

mod logins;

use crate::{
    V1, audit,
    caller::{AnyScope, Caller, Granted},
    error::V1Error,
};
use axum::{
    Router,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Redirect, Response},
    routing::{any, get, post},
};
use guildhall_http_kit::{
    Peer,
    page::{self, Asset},
};
use logins::Logins;
use std::{sync::Arc, time::Duration};
use tower::ServiceExt as _;

include!("../../../../web/dashboard/dist/embedded.rs");

/// Over what browsers send the cookie of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookies {
    /// TLS alone, that of a proxy included.
    Tls,
    /// Plain HTTP as well.
    AnyHttp,
}

const COOKIE: &str = "guildhall_dashboard";
const PAGE: HeaderName = HeaderName::from_static("x-guildhall-dashboard");
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
);

/// What its handlers share.
pub(crate) struct Dashboard {
    v1: Arc<V1>,
    backends: Router,
    cookies: Cookies,
    logins: Logins,
}

/// `/dashboard/`, its files and its API. `backends` is the router of `/v1`.
pub(crate) fn router(v1: &Arc<V1>, backends: Router, cookies: Cookies) -> Router {
    let shared = Arc::new(Dashboard { v1: v1.clone(), backends, cookies, logins: Logins::default() });
    let login = Router::new()
        .route("/dashboard/api/login", post(log_in))
        .layer(middleware::from_fn_with_state(v1.clone(), audit::observe));
    let api = Router::new()
        .route("/dashboard/api/logout", post(log_out))
        .route("/dashboard/api/v1/{*rest}", any(forward))
        .merge(login)
        .layer(middleware::from_fn(need_page));
    Router::new()
        .route("/dashboard", get(|| async { Redirect::permanent("/dashboard/") }))
        .route("/dashboard/", get(async |request_headers: HeaderMap| page::index(ASSETS, &request_headers, &POLICY)))
        .route(
            "/dashboard/assets/{name}",
            get(async |Path(name): Path<String>, request_headers: HeaderMap| {
                page::file(ASSETS, &name, &request_headers)
            }),
        )
        .merge(api)
        .with_state(shared)
}

/// D2. Browsers send a header of this kind to other sites only after a preflight request, which this node refuses.
async fn need_page(request: Request, next: Next) -> Response {
    let site = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
    if !request.headers().contains_key(PAGE) || !matches!(site, None | Some(b"same-origin")) {
        return V1Error::foreign().into_response();
    }
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Exchanges a key, sent as for `/v1`, for a login.
async fn log_in(State(dashboard): State<Arc<Dashboard>>, request: Request) -> Result<Response, V1Error> {
    let (mut parts, _) = request.into_parts();
    let caller =
        <Caller<AnyScope> as axum::extract::FromRequestParts<Arc<V1>>>::from_request_parts(&mut parts, &dashboard.v1)
            .await?;
    let granted = Granted(caller.key.clone(), caller.life.clone());
    let (token, hash) = dashboard.logins.begin(dashboard.v1.now().instant, granted)?;
    // Its streams end in time, too.
    let of = Arc::downgrade(&dashboard);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(logins::LIFE_S)).await;
        of.upgrade().iter().for_each(|dashboard| dashboard.logins.end_hash(hash));
    });
    let cookie = dashboard.cookie(&token, logins::LIFE_S);
    Ok((StatusCode::CREATED, [(header::SET_COOKIE, cookie)]).into_response())
}

async fn log_out(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Response {
    if let Some(token) = token_in(&headers) {
        dashboard.logins.end(token);
    }
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, dashboard.cookie("", 0))]).into_response()
}

/// Passes a request to `/v1`, with the login's key.
async fn forward(State(dashboard): State<Arc<Dashboard>>, request: Request) -> Result<Response, V1Error> {
    let token = token_in(request.headers()).ok_or_else(V1Error::logged_out)?;
    let granted = dashboard.logins.find(dashboard.v1.now().instant, token).ok_or_else(V1Error::logged_out)?;
    let (parts, body) = request.into_parts();
    // A request of its own: extensions of this router, like the parameters of its path, are not the other one's.
    let mut inner = Request::new(body);
    *inner.method_mut() = parts.method;
    *inner.uri_mut() = below_v1(&parts.uri).ok_or_else(V1Error::no_route)?;
    *inner.headers_mut() = parts.headers;
    inner.headers_mut().remove(header::AUTHORIZATION);
    inner.headers_mut().remove(header::COOKIE);
    inner.extensions_mut().insert(granted);
    if let Some(peer) = parts.extensions.get::<Peer>() {
        inner.extensions_mut().insert(*peer);
    }
    match dashboard.backends.clone().oneshot(inner).await {
        Ok(response) => Ok(response),
        Err(never) => match never {},
    }
}

fn below_v1(uri: &Uri) -> Option<Uri> {
    uri.path_and_query()?.as_str().strip_prefix("/dashboard/api")?.parse().ok()
}

/// The login's token in the cookies of a request.
fn token_in(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    })
}

impl Dashboard {
    fn cookie(&self, token: &str, max_age_s: u64) -> HeaderValue {
        let secure = match self.cookies {
            Cookies::Tls => "; Secure",
            Cookies::AnyHttp => "",
        };
        let text =
            format!("{COOKIE}={token}; Path=/dashboard/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
    }
}
