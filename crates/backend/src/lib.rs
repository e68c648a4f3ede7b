//! Backend API: `/v1`, by which backends drive the gateway.
//!
//! Owns        its routes, keys' scopes, bodies, errors, limits, and the OpenAPI document that is made from the same
//!             code.
//! Doors       `backend_routers`, which also makes the router of the dashboard; `Gateway`, the interface to the
//!             partitions; `NodeReports`, the one to the node's own figures; `SessionEvents`, which receives the
//!             events of sessions.
//! Invariants  every handler takes a `Caller`, whose type has the scope that its route needs. Exceptions are the
//!             document, and the reports of the media server, which are signed. No handler reads a body before it
//!             found the object in the path (`crate::permit`). Everything goes through the doors that the other APIs
//!             use: commands to guilds, the directory, tokens.
//! Limits      `V1Limits`.
//! Not here    the API of clients: `guildhall-rest`. Bodies, quotas and rate limiters: `guildhall-http-kit`.
//!             Spec  docs/backend-api.md.
#![forbid(unsafe_code)]

mod audit;
mod bans;
mod caller;
mod canonical;
mod channels;
mod cluster;
mod dashboard;
mod delete_user;
mod deliveries;
mod directs;
mod document;
mod dto;
mod error;
mod events;
mod executions;
mod experiments;
mod external;
mod extract;
mod guilds;
mod idempotency;
mod import;
mod import_messages;
mod jobs;
mod keys;
mod lab;
mod lab_dark;
mod lab_dictionaries;
mod members;
mod messages;
mod ndjson;
mod node;
mod openapi;
mod permit;
mod publish;
mod retention;
mod roles;
mod roles_bulk;
mod routes;
mod search;
mod session_events;
mod session_sources;
mod sessions;
mod strict;
mod tokens;
mod types;
mod users;
mod voice_reports;
mod voice_states;
mod webhooks;
mod wording;

pub use audit::{AuditPruner, note_rollback};
pub use cluster::{DrainQuestion, answer_moves};
pub use dashboard::Cookies;
pub use events::EventPruner;
pub use experiments::{
    ExperimentArm, ExperimentArmReport, ExperimentAudience, ExperimentBody, ExperimentChange, ExperimentComparison,
    ExperimentFault, ExperimentMetric, ExperimentReport, ExperimentState, ExperimentStop, Experiments, NewExperiment,
    NoExperiments,
};
pub use lab::{Lab, LabFault, NoLab, RecordingBody, RecordingPlan};
pub use lab_dark::{DarkArm, DarkBody, DarkPlan, DarkSum, DarkType};
pub use lab_dictionaries::DictionaryBody;
pub use node::{ActionFault, NoReports, NodeReports, NodeState, Reloaded, SessionFilter};
pub use routes::{V1Route, v1_routes};
pub use session_events::SessionEvents;
pub use sessions::{Gateway, NoGateway, SessionInfo, SessionPlace, SessionsPage};

use crate::{
    deliveries::Deliveries, document::Document, error::V1Error, events::EventsWatch, executions::ClusterExecutions,
    external::ExternalLocks, idempotency::Idempotency, jobs::Jobs,
};
use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, StatusCode},
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};
use guildhall_guild::{Actor, Command, Refusal, Reply, Request as GuildRequest, Upserted};
use guildhall_http_kit::{BodyQuotas, Limiter, Quota, detach_body};
use guildhall_model::GuildId;
use guildhall_node::{Clock, Node, VoiceKey, reply_to};
use guildhall_stdx::{LogGate, Now};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// Limits of the backend API. Backends are few and trusted: the limits keep a mistake from becoming an outage.
#[derive(Clone, Debug)]
pub struct V1Limits {
    /// Requests a second of one key; the lines of a stream are not requests. None: no limit.
    pub requests_per_s: Option<u32>,
    /// Wrong keys a minute from one address; past it wrong ones, and only these, are answered with 429.
    pub wrong_keys_per_min: u32,
    /// Longest batch, and longest line of a stream, in bytes. One object has at most 256 KiB.
    pub json_bytes_max: usize,
    /// Bytes of bodies that arrive at the same time. The share of a key or address is an eighth, and at least one body
    /// of the largest size. Past either a request gets 503.
    pub bodies_bytes_max: usize,
    /// Bytes of JSON trees of changes. The share of a key or address is a quarter.
    pub trees_bytes_max: usize,
    /// Longest `d` of one event in bytes.
    pub event_bytes_max: usize,
    /// Events of one batch.
    pub batch_events_max: usize,
    /// Requests in flight, without streams. The share of a key is half. Past either a request gets 503.
    pub requests_in_flight_max: usize,
    /// Open streams. Past it a stream gets 503.
    pub streams_max: usize,
    /// Open streams of one key.
    pub streams_per_key_max: usize,
    /// Time from the headers until a body must have arrived, milliseconds; for a stream, until its next part.
    pub body_deadline_ms: u64,
    /// Time from the body until an answer must be ready, milliseconds; for a stream, for each part.
    pub answer_deadline_ms: u64,
    /// How long `POST /v1/publish` waits for the counts of all partitions.
    pub reach_deadline_ms: u64,
    /// Idempotency keys that are remembered, oldest forgotten first.
    pub idempotency_keys_max: usize,
    /// Whether guilds write events to the feed.
    pub keeps_events: bool,
    /// Whether webhooks may have addresses of private networks, and http:// URLs.
    pub private_webhooks: bool,
    /// Milliseconds for which entries of the audit log are kept. None: there is no log.
    pub audit_keep_ms: Option<u64>,
}

impl Default for V1Limits {
    fn default() -> Self {
        Self {
            requests_per_s: Some(1_000),
            wrong_keys_per_min: 30,
            json_bytes_max: 4 << 20,
            event_bytes_max: 256 << 10,
            batch_events_max: 1_000,
            bodies_bytes_max: 64 << 20,
            trees_bytes_max: 32 << 20,
            requests_in_flight_max: 256,
            streams_max: 1_024,
            streams_per_key_max: 64,
            body_deadline_ms: 30_000,
            answer_deadline_ms: 60_000,
            reach_deadline_ms: 2_000,
            idempotency_keys_max: 100_000,
            keeps_events: false,
            private_webhooks: false,
            audit_keep_ms: Some(90 * 86_400_000),
        }
    }
}

/// Parts that the router needs from outside. Cheap to clone.
#[derive(Clone)]
pub struct V1State {
    /// Guilds, accounts and keys.
    pub node: Node,
    /// Live sessions.
    pub gateway: Arc<dyn Gateway>,
    /// Events of sessions, for `GET /v1/sessions/events`.
    pub session_events: Arc<SessionEvents>,
    /// Figures of the node, for `/v1/node`.
    pub reports: Arc<dyn NodeReports>,
    /// Recordings, for `/v1/lab`.
    pub lab: Arc<dyn Lab>,
    /// Experiments, for `/v1/experiments`.
    pub experiments: Arc<dyn Experiments>,
    /// The key of the media server, which signs its reports. None: no reports are taken.
    pub voice_key: Option<Arc<VoiceKey>>,
    /// Clock of the limits.
    pub clock: Arc<dyn Clock>,
    /// Sizes and rates of requests.
    pub limits: V1Limits,
}

/// What handlers share.
pub(crate) struct V1 {
    node: Node,
    gateway: Arc<dyn Gateway>,
    session_events: Arc<SessionEvents>,
    reports: Arc<dyn NodeReports>,
    lab: Arc<dyn Lab>,
    experiments: Arc<dyn Experiments>,
    voice_key: Option<Arc<VoiceKey>>,
    clock: Arc<dyn Clock>,
    limits: V1Limits,
    requests: Mutex<Limiter<u64>>,
    wrong_keys: Mutex<Limiter<u128>>,
    in_flight: Arc<Quota>,
    streams: Arc<Quota>,
    body_quotas: BodyQuotas,
    idempotency: Idempotency,
    /// None: the node is alone.
    executions: Option<Arc<ClusterExecutions>>,
    /// Reservation while a channel is created under an id that the caller chose: such ids are
    /// unique over all guilds.
    new_channels: tokio::sync::Mutex<()>,
    /// Entries of the audit log that could not be written.
    audit_lost: LogGate,
    /// Taken before `new_channels`.
    external_locks: ExternalLocks,
    jobs: Jobs,
    events: EventsWatch,
    deliveries: Deliveries,
}

/// Windows remembered for keys, and for addresses with wrong ones.
const WINDOWS_MAX: usize = 10_000;

impl V1 {
    fn new(state: V1State) -> Self {
        let V1State { node, gateway, session_events, reports, lab, experiments, voice_key, clock, limits } = state;
        if let Some(membership) = node.membership() {
            session_sources::answer_others(membership, &session_events);
        }
        Self {
            requests: Mutex::new(Limiter::new(WINDOWS_MAX)),
            wrong_keys: Mutex::new(Limiter::new(WINDOWS_MAX)),
            in_flight: Quota::new(limits.requests_in_flight_max, limits.requests_in_flight_max.div_ceil(2)),
            streams: Quota::new(limits.streams_max, limits.streams_per_key_max),
            body_quotas: BodyQuotas::new(limits.bodies_bytes_max, limits.trees_bytes_max, limits.json_bytes_max),
            idempotency: Idempotency::new(limits.idempotency_keys_max),
            executions: node
                .membership()
                .map(|membership| ClusterExecutions::new(membership.clone(), limits.idempotency_keys_max)),
            new_channels: tokio::sync::Mutex::default(),
            audit_lost: LogGate::new(audit::LOG_EVERY_MS),
            external_locks: ExternalLocks::new(),
            jobs: Jobs::default(),
            events: EventsWatch::new(),
            deliveries: Deliveries::new(limits.private_webhooks),
            node,
            gateway,
            session_events,
            reports,
            lab,
            experiments,
            voice_key,
            clock,
            limits,
        }
    }

    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    /// Sends a request of the backend to a guild.
    async fn request<R: GuildRequest>(&self, guild_id: GuildId, request: R) -> Result<R::Reply, V1Error> {
        Ok(reply_to::<R>(self.ask(guild_id, request.into_command()).await?)?)
    }

    /// `request` without its types, so that it is compiled once and not for each request.
    async fn ask(&self, guild_id: GuildId, command: Command) -> Result<Reply, V1Error> {
        self.in_time(self.node.command(guild_id, Actor::System, command)).await?.map_err(V1Error::from)
    }

    /// Waits for an answer until a deadline. The request may take effect after it.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, V1Error> {
        let deadline = Duration::from_millis(self.limits.answer_deadline_ms);
        tokio::time::timeout(deadline, work).await.map_err(|_| V1Error::from(Refusal::Unavailable))
    }
}

/// The routers that need a key: the API for backends, and the dashboard on top of it.
pub struct BackendRouters {
    /// Everything below `/v1`. Unknown paths are answered with 404, in JSON.
    pub v1: Router,
    /// Everything below `/dashboard`. Its requests end at `v1`, with the key of their login.
    pub dashboard: Router,
}

/// Both routers. Jobs run as long as one of them exists. `cookies` decides whether the dashboard's cookie needs TLS.
///
/// # Panics
/// Outside a tokio runtime.
pub fn backend_routers(state: V1State, cookies: Cookies) -> BackendRouters {
    let v1 = Arc::new(V1::new(state));
    Jobs::start(&v1);
    EventsWatch::start(&v1);
    Deliveries::start(&v1);
    let backends = v1_router(&v1);
    BackendRouters { dashboard: dashboard::router(&v1, backends.clone(), cookies), v1: backends }
}

fn v1_router(v1: &Arc<V1>) -> Router {
    let (router, document) = routes::router().split_for_parts();
    let document = Arc::new(Document::new(openapi::text(document)));
    let document = move |request_headers: HeaderMap| {
        let answer = document.answer(&request_headers);
        async move { answer }
    };
    let router = router
        .route("/v1/openapi.json", get(document))
        .route("/v1/voice/reports", post(voice_reports::take))
        .route("/v1/{*rest}", axum::routing::any(async || V1Error::no_route()))
        .method_not_allowed_fallback(async || V1Error::method_not_allowed());
    let here = node::asked_elsewhere(v1, router.clone()).layer(middleware::from_fn(detach)).with_state(Arc::clone(v1));
    router
        .layer(middleware::from_fn_with_state(node::Elsewhere::start(v1, here), node::forward))
        .layer(middleware::from_fn_with_state(Arc::clone(v1), audit::observe))
        .layer(middleware::from_fn(detach))
        .with_state(Arc::clone(v1))
}

async fn detach(mut request: Request, next: Next) -> Response {
    detach_body(&mut request);
    next.run(request).await
}

/// The document that describes the API, as JSON.
#[must_use]
pub fn v1_document() -> String {
    openapi::text(routes::router().split_for_parts().1)
}

/// Status of the answer to a PUT.
fn put_status<T>(put: &Upserted<T>) -> StatusCode {
    if put.is_new { StatusCode::CREATED } else { StatusCode::OK }
}

/// Attempts of a change that conflicts with concurrent ones.
const CHANGES_TRIED_MAX: usize = 8;

/// Reads, changes and puts, and retries after a concurrent change.
async fn change<T, F: Future<Output = Result<T, V1Error>>>(once: impl Fn() -> F) -> Result<T, V1Error> {
    for _ in 1..CHANGES_TRIED_MAX {
        match once().await {
            Err(error) if error.is_changed() => {}
            done => return done,
        }
    }
    once().await
}
