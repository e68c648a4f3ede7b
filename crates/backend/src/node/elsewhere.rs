//! Elsewhere: requests about another node of the cluster, which this node passes on: those below `/v1/node`, and those
//! for recordings and the dark launch of the lab.
//!
//! Owns        the parameter `node`; the way of such a request to the other node and back, as a question by the bus.
//! Invariants  E1 this node checks the key, and the other node checks its scopes: a request elsewhere may what it may
//!             there. E2 this node sends an action once, and writes its audit entry with the other node as its object.
//!             E3 this node answers reports and actions below `/v1/node`, and the lab's `LAB` routes, to requests
//!             of other nodes, no other routes, and writes an audit entry of an action, too. (tests `e3_*`)
//! Limits      `PATIENCE` for an answer. A body has at most `BODY_BYTES_MAX`. An answer has at most what the bus takes
//!             at once (1 MB with NATS's default): a longer one is refused. The live stream sends a request a second,
//!             and ends when the node does not answer `SILENT_MAX` times.
//! Spec        docs/backend-api.md "Node".

use super::super::{
    V1,
    audit::{self, Made},
    caller::{AnyScope, Caller, Granted},
    cluster::number_of,
    error::V1Error,
    extract::Arriving,
    permit::ReadPermit,
};
use axum::{
    Router,
    body::Body,
    extract::{FromRequestParts as _, Request, State},
    http::{HeaderValue, Method, StatusCode, Uri, header, uri::PathAndQuery},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use guildhall_accounting::Sample;
use guildhall_cluster::{NodeNumber, wire};
use guildhall_model::UserId;
use guildhall_node::{Key, KeyLife, Membership, PeerQuestion, Scope};
use guildhall_stdx::Timestamp;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::sync::watch;
use tower::ServiceExt as _;

/// Longest wait for an answer. A report may wait for a turn of every partition.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a node waits for its next sample before it answers that there is none. There is one a second.
const SAMPLE_WAIT: Duration = Duration::from_millis(1_500);
/// Questions for a sample that a node may leave without an answer.
const SILENT_MAX: u32 = 3;
/// The longest body is a plan of the lab.
const BODY_BYTES_MAX: usize = 16 << 10;
/// Routes of the lab that are about one node, and what may follow.
const LAB: [&str; 2] = ["/v1/lab/recordings", "/v1/lab/dark"];
const JSON: &str = "application/json";
const LIVE: &str = "/v1/node/live";
/// The other requests are GETs.
const ACTIONS: [&str; 2] = ["/v1/node/reload", "/v1/node/drain"];

#[derive(Serialize, Deserialize)]
struct ForwardedRequest {
    method: String,
    /// With the query.
    path: String,
    key: Asker,
    #[serde(default)]
    body: String,
}

impl PeerQuestion for ForwardedRequest {
    const KIND: &'static str = "node";
    type Answer = ForwardedAnswer;
}

#[derive(Serialize, Deserialize)]
struct Asker {
    id: Option<u64>,
    name: String,
    scopes: Vec<String>,
    accounts: Option<Vec<UserId>>,
    created_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct ForwardedAnswer {
    status: u16,
    json: String,
    /// `json` is base64 of a body with this type.
    #[serde(default)]
    binary: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct SampleQuestion {
    /// Time of the sample that the requesting node has; 0 for none.
    after_ms: u64,
    prefixes: Vec<String>,
}

impl PeerQuestion for SampleQuestion {
    const KIND: &'static str = "node_sample";
    type Answer = SampleAnswer;
}

#[derive(Serialize, Deserialize)]
struct SampleAnswer {
    at_ms: u64,
    values: Vec<(Arc<str>, f32)>,
}

impl From<&Key> for Asker {
    fn from(key: &Key) -> Self {
        Self {
            id: key.id,
            name: key.name.clone(),
            scopes: key.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
            accounts: key.accounts.as_ref().map(|accounts| accounts.to_vec()),
            created_at: key.created_at,
        }
    }
}

impl From<Asker> for Key {
    fn from(asker: Asker) -> Self {
        let Asker { id, name, scopes, accounts, created_at } = asker;
        // A scope that only another version has opens nothing here.
        let scopes = scopes.iter().filter_map(|scope| Scope::from_name(scope)).collect();
        Self { id, name, scopes, accounts: accounts.map(Into::into), created_at }
    }
}

/// The part of this that routers share. Other nodes are answered as long as it exists.
pub(in super::super) struct Elsewhere {
    v1: Arc<V1>,
    _here: Arc<Router>,
}

/// The other node that the live stream shall follow: an extension of its request.
#[derive(Clone, Copy)]
pub(in super::super) struct Followed(pub NodeNumber);

impl Elsewhere {
    /// `here` is the router of this node's own API. Answers other nodes from now on.
    pub fn start(v1: &Arc<V1>, here: Router) -> Arc<Self> {
        let here = Arc::new(here);
        if let Some(membership) = v1.node.membership() {
            answer_others(v1, membership, &here);
        }
        Arc::new(Self { v1: v1.clone(), _here: here })
    }
}

/// Whether another node may request this (E3). The live stream has requests of its own.
fn is_forwarded(method: &Method, path: &str) -> bool {
    match *method {
        Method::GET | Method::POST | Method::DELETE if is_lab(path) => true,
        Method::GET => (path == "/v1/node" || path.starts_with("/v1/node/")) && path != LIVE,
        Method::POST => ACTIONS.contains(&path),
        _ => false,
    }
}

/// Whether the request is for the recordings or the dark launch of a node.
fn is_lab(path: &str) -> bool {
    LAB.iter().any(|route| path.strip_prefix(route).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// The router that answers other nodes: it writes audit entries of its own (E3).
pub(in super::super) fn asked_elsewhere(v1: &Arc<V1>, router: Router<Arc<V1>>) -> Router<Arc<V1>> {
    let Some(membership) = v1.node.membership() else { return router };
    let number = membership.number();
    let mark = middleware::from_fn(move |request: Request, next: Next| async move {
        let mut response = next.run(request).await;
        response.extensions_mut().insert(Made("asked_node", number.to_string()));
        response
    });
    router.layer(mark).layer(middleware::from_fn_with_state(Arc::clone(v1), audit::observe))
}

fn answer_others(v1: &Arc<V1>, membership: &Arc<Membership>, here: &Arc<Router>) {
    let (here, bytes_max) = (Arc::downgrade(here), membership.answer_bytes_max());
    membership.on_question(move |question: ForwardedRequest| {
        let here = here.clone();
        async move { Some(answer(&here, question, bytes_max).await) }
    });
    let samples = v1.reports.samples();
    membership.on_question(move |SampleQuestion { after_ms, prefixes }| {
        let mut samples = samples.clone();
        async move {
            // Without a newer one the old one is the answer.
            let newer = samples.wait_for(|sample| sample.at_ms != after_ms);
            let _ = tokio::time::timeout(SAMPLE_WAIT, newer).await;
            let sample = samples.borrow().clone();
            let values = sample.values.iter().filter(|(name, _)| super::is_wanted(&prefixes, name));
            let values = values.map(|(name, value)| (name.clone(), *value)).collect();
            Some(SampleAnswer { at_ms: sample.at_ms, values })
        }
    });
}

/// Answers as for a request of this node's own.
async fn answer(here: &Weak<Router>, question: ForwardedRequest, bytes_max: usize) -> ForwardedAnswer {
    let ForwardedRequest { method, path, key, body } = question;
    // Another node has checked the key, which lives as long as this question.
    let key_lives = watch::Sender::new(());
    let granted = Granted(key.into(), KeyLife::of(&key_lives));
    let mut request = Request::builder().method(&*method).uri(&*path).extension(granted);
    if !body.is_empty() {
        request = request.header(header::CONTENT_TYPE, JSON);
    }
    let request = request.body(Body::from(body));
    let (Some(here), Ok(request)) = (here.upgrade(), request) else {
        return ForwardedAnswer::refused(V1Error::unavailable()).await;
    };
    if !is_forwarded(request.method(), request.uri().path()) {
        tracing::warn!(method, "another node sent a request that nodes do not send each other: it is refused");
        return ForwardedAnswer::refused(V1Error::no_route()).await;
    }
    let response = match (*here).clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let answer = ForwardedAnswer::of(response, bytes_max).await;
    let encoded = wire::encode(&answer);
    // The bus sends a byte from 128 on as two.
    let bytes = encoded.len() + encoded.iter().filter(|byte| **byte >= 0x80).count();
    if bytes > bytes_max {
        return ForwardedAnswer::refused(too_large()).await;
    }
    answer
}

fn too_large() -> V1Error {
    V1Error::field("node", "The answer is too large to come from another node: request less, or call that node itself.")
}

impl ForwardedAnswer {
    async fn of(response: Response, bytes_max: usize) -> Self {
        let status = response.status().as_u16();
        let of_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let binary = of_type.filter(|of_type| *of_type != JSON).map(str::to_owned);
        match axum::body::to_bytes(response.into_body(), bytes_max).await {
            Ok(body) if binary.is_some() => Self { status, json: STANDARD.encode(&body), binary },
            Ok(body) => Self { status, json: String::from_utf8_lossy(&body).into_owned(), binary },
            Err(_) => Box::pin(Self::of(too_large().into_response(), bytes_max)).await,
        }
    }

    async fn refused(error: V1Error) -> Self {
        Self::of(error.into_response(), usize::MAX).await
    }
}

/// Middleware before the handlers below `/v1/node`: passes a request with `node` to that node.
pub(in super::super) async fn forward(
    State(elsewhere): State<Arc<Elsewhere>>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let is_about_node = path == "/v1/node" || path.starts_with("/v1/node/");
    // The router answers what it does not serve.
    let is_served = is_lab(path)
        || is_about_node && *request.method() == if ACTIONS.contains(&path) { Method::POST } else { Method::GET };
    let Some((node, uri)) = (if is_served { split_node(request.uri()) } else { None }) else {
        return next.run(request).await;
    };
    *request.uri_mut() = uri;
    let v1 = &elsewhere.v1;
    match find(v1, &node) {
        Ok(None) => next.run(request).await,
        Ok(Some((_, number))) if request.uri().path() == LIVE => {
            request.extensions_mut().insert(Followed(number));
            next.run(request).await
        }
        Ok(Some((membership, number))) => match pass_on(v1, membership, number, request).await {
            Ok(response) => response,
            Err(error) => error.into_response(),
        },
        // E1: the answer to a caller without a valid key does not reveal whether the node exists.
        Err(error) => match Caller::<AnyScope>::from_request_parts(&mut request.into_parts().0, v1).await {
            Ok(_) => error.into_response(),
            Err(refused) => refused.into_response(),
        },
    }
}

/// The value of `node`, and the URI without it.
fn split_node(uri: &Uri) -> Option<(String, Uri)> {
    let query = uri.query()?;
    let is_node = |pair: &&str| pair.starts_with("node=");
    let node = query.split('&').find(is_node)?.strip_prefix("node=")?;
    let node = percent_decode_str(node).decode_utf8().ok()?.into_owned();
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_node(pair)).collect();
    let path = match rest.is_empty() {
        true => uri.path().to_owned(),
        false => format!("{}?{}", uri.path(), rest.join("&")),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path.parse::<PathAndQuery>().ok()?);
    Some((node, Uri::from_parts(parts).ok()?))
}

/// The node with this number or name; none for this one.
fn find<'a>(v1: &'a V1, node: &str) -> Result<Option<(&'a Arc<Membership>, NodeNumber)>, V1Error> {
    let Some(membership) = v1.node.membership() else {
        return Err(V1Error::field("node", "This node is alone: cluster.nats_url is not set."));
    };
    match number_of(membership, node) {
        Some(number) if number == membership.number() => Ok(None),
        Some(number) => Ok(Some((membership, number))),
        None => Err(V1Error::field("node", "There is no such node: `GET /v1/cluster` lists them.")),
    }
}

async fn pass_on(
    v1: &Arc<V1>,
    membership: &Arc<Membership>,
    number: NodeNumber,
    request: Request,
) -> Result<Response, V1Error> {
    let (mut parts, _) = request.into_parts();
    // E1. It holds its place until the answer.
    let caller = Caller::<AnyScope>::from_request_parts(&mut parts, v1).await?;
    let body = match is_lab(parts.uri.path()) && parts.method == Method::POST {
        true => text_of(Arriving::from_request_parts(&mut parts, v1).await?, v1, caller.permit()).await?,
        false => String::new(),
    };
    let path = parts.uri.path_and_query().map_or("", PathAndQuery::as_str).to_owned();
    let question = ForwardedRequest { method: parts.method.to_string(), path, key: (&caller.key).into(), body };
    let answer = membership.ask_within(number, &question, PATIENCE).await;
    let ForwardedAnswer { status, json, binary } = answer.ok_or_else(V1Error::unavailable)?;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let body = match &binary {
        Some(_) => STANDARD.decode(json).map_err(|_| V1Error::unavailable())?,
        None => json.into_bytes(),
    };
    let mut response = (status, body).into_response();
    let of_type = HeaderValue::try_from(binary.as_deref().unwrap_or(JSON)).map_err(|_| V1Error::unavailable())?;
    response.headers_mut().insert(header::CONTENT_TYPE, of_type);
    // E2.
    response.extensions_mut().insert(Made("node", number.to_string()));
    Ok(response)
}

/// The body of a request for the lab, which the other node checks.
async fn text_of(body: Arriving, v1: &V1, permit: ReadPermit) -> Result<String, V1Error> {
    let (bytes, _reservation) = body.bytes(v1, permit, BODY_BYTES_MAX).await?;
    String::from_utf8(bytes).map_err(|_| V1Error::field("body", "The body is no text."))
}

/// Samples of another node, the first of which is there. The receiver sees the end of the sender when the node does not
/// answer any more.
pub(super) async fn samples(
    v1: &V1,
    number: NodeNumber,
    prefixes: Vec<String>,
) -> Result<watch::Receiver<Arc<Sample>>, V1Error> {
    let membership = v1.node.membership().ok_or_else(V1Error::unavailable)?.clone();
    let first = sample(&membership, number, 0, &prefixes).await.ok_or_else(V1Error::unavailable)?;
    let mut at_ms = first.at_ms;
    let (sender, receiver) = watch::channel(Arc::new(first));
    tokio::spawn(async move {
        let mut silent_count = 0;
        while silent_count < SILENT_MAX {
            let newer = tokio::select! {
                newer = sample(&membership, number, at_ms, &prefixes) => newer,
                () = sender.closed() => return,
            };
            match newer {
                Some(sample) => {
                    silent_count = 0;
                    at_ms = sample.at_ms;
                    sender.send_replace(Arc::new(sample));
                }
                None => {
                    silent_count += 1;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    });
    Ok(receiver)
}

async fn sample(membership: &Membership, number: NodeNumber, after_ms: u64, prefixes: &[String]) -> Option<Sample> {
    let question = SampleQuestion { after_ms, prefixes: prefixes.to_vec() };
    let SampleAnswer { at_ms, values } = membership.ask(number, &question).await?;
    Some(Sample { at_ms, values: values.into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e3_only_reports_and_actions_of_a_node_are_forwarded() {
        for (method, path) in
            [("GET", "/v1/node"), ("GET", "/v1/node/sessions"), ("POST", ACTIONS[0]), ("POST", ACTIONS[1])]
        {
            assert!(is_forwarded(&method.parse().unwrap(), path), "{method} {path}");
        }
        for (method, path) in [
            ("GET", "/v1/lab/recordings"),
            ("POST", "/v1/lab/recordings"),
            ("GET", "/v1/lab/recordings/7/frames"),
            ("DELETE", "/v1/lab/recordings/7"),
            ("POST", "/v1/lab/dark"),
        ] {
            assert!(is_forwarded(&method.parse().unwrap(), path), "{method} {path}");
        }
        for (method, path) in [
            ("POST", "/v1/lab/dictionaries"),
            ("GET", "/v1/lab/darkness"),
            ("PUT", "/v1/lab/dark"),
            ("DELETE", "/v1/guilds/9000"),
            ("GET", "/v1/guilds"),
            ("GET", "/v1/nodes"),
            ("GET", LIVE),
            ("HEAD", "/v1/node"),
            ("POST", "/v1/node"),
            ("POST", "/v1/node/reload/"),
            ("POST", "/v1/cluster/nodes/0/drain"),
            ("PUT", "/v1/node/reload"),
            ("get", "/v1/node"),
        ] {
            assert!(!is_forwarded(&method.parse().unwrap(), path), "{method} {path}");
        }
    }

    #[test]
    fn the_node_is_taken_out_of_the_query() {
        let check = |uri: &str, expected: Option<(&str, &str)>| {
            let split = split_node(&uri.parse().unwrap());
            let split = split.as_ref().map(|(node, uri)| (&**node, uri.to_string()));
            assert_eq!(split, expected.map(|(node, uri)| (node, uri.to_owned())), "{uri}");
        };
        check("/v1/node", None);
        check("/v1/node/guilds?limit=5&nodes=3", None);
        check("/v1/node?node=3", Some(("3", "/v1/node")));
        check(
            "/v1/node/guilds?limit=5&node=berlin%201&sort=busy",
            Some(("berlin 1", "/v1/node/guilds?limit=5&sort=busy")),
        );
    }
}
