//! HTTP: the routes of a node, made of its parts.
//!
//! Owns        which routers exist with which setting, and on which listener.
//! Not here    the routes themselves: `guildhall-rest`, `guildhall-backend`, `guildhall-media`; metrics: `metrics`.

use super::{
    Parts,
    limits::{api_limits, hidden_channels, streams_name, v1_limits},
};
use crate::{
    clock::NodeClock,
    cluster::{self, ClusterAccounts, ClusterGateway},
    wiring::{GateStarts, GatewayStreams, PartitionGateway, with_peer, with_request_notes},
};
use axum::Router;
use guildhall_backend::{BackendRouters, Cookies, Gateway, SessionEvents, V1State, backend_routers};
use guildhall_guild::{DATABASE_AWAY, DISK_FULL};
use guildhall_http_kit::{RestAccount, observe, ops_router};
use guildhall_media::files_router;
use guildhall_node::{Node, WritesStopped};
use guildhall_rest::{ApiState, ChatPage, Unserved, VisitorLimits, Visitors, chat_router, router};
use guildhall_settings::{ChatMode, Config, DashboardMode};
use guildhall_store::Store;
use guildhall_telemetry::{
    metrics::{Listener, Metrics, metrics_router},
    owners::MemoryOwners,
    reports::{OperatorRequest, Reports, Sources},
    traces::Traces,
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::mpsc;

/// In the data directory.
const HISTORY_FILE: &str = "history";
/// Events of sessions in the ring for `GET /v1/sessions/events`, about 100 bytes each.
const SESSION_EVENTS_KEPT: usize = 65_536;

/// The parts of a node that the routes reach.
pub(super) struct Routes<'a> {
    pub config: &'a Config,
    pub parts: &'a Parts,
    pub traces: Option<&'a Traces>,
    pub accounts: Option<Arc<ClusterAccounts>>,
}

/// The routes, and their links to the rest of the node.
pub(super) struct Http {
    /// Of the listener for clients.
    pub clients: Router,
    /// Of `server.admin_listen`.
    pub admin: Router,
    pub reports: Arc<Reports>,
    /// Requests of operators.
    pub operator_requests: mpsc::Receiver<OperatorRequest>,
    pub session_events: Arc<SessionEvents>,
    /// With `server.chat = "demo"`.
    pub visitors: Option<Arc<Visitors>>,
}

impl Routes<'_> {
    pub fn http(self) -> Http {
        let Self { config, parts, .. } = self;
        let Parts { clock, store, node, shared, .. } = parts;
        let (unserved, rest_account) = (Arc::new(Unserved::default()), Arc::new(RestAccount::default()));
        let is_ready = {
            let (ready, node, store) = (shared.ready.clone(), node.clone(), store.clone());
            move || readiness(&ready, &node, &*store)
        };
        let metrics = self.metrics(&unserved, &rest_account);
        let (reports, operator_requests) = Reports::new(Sources {
            metrics: metrics.clone(),
            clock: *clock,
            readiness: Box::new(is_ready.clone()),
            streams: streams_name(config),
            memory_bytes_max: config.codec.memory_bytes_max,
            history_file: config.store.dir.join(HISTORY_FILE),
        });
        let session_events = Arc::new(SessionEvents::new(SESSION_EVENTS_KEPT));
        let gateway = self.gateway();
        let (backends, dashboard) = self.backends(gateway.clone(), &reports, &session_events);
        let (chat, visitors) = self.chat();
        let with_peer = |router| with_peer(router, shared.trusted.clone());
        let clients = with_peer(self.rest(unserved, gateway))
            .merge(with_peer(backends))
            .merge(with_peer(dashboard))
            .merge(ops_router(is_ready.clone()))
            .merge(with_peer(chat))
            .merge(parts.files.clone().map_or_else(Router::new, |files| files_router(files, store.clone())))
            .merge(metrics_router(metrics.clone(), config.server.metrics, Listener::Clients));
        let clients = observe(clients, rest_account, self.traces.map(Traces::tracer));
        let clients = with_request_notes(clients, shared.access.is_some());
        let admin = ops_router(is_ready).merge(metrics_router(metrics, config.server.metrics, Listener::Admin));
        Http { clients, admin, reports, operator_requests, session_events, visitors }
    }

    fn metrics(&self, unserved: &Arc<Unserved>, rest_account: &Arc<RestAccount>) -> Metrics {
        let Parts { store, shared, server, files, node, experiments, .. } = self.parts;
        let experiments = experiments.clone();
        Metrics {
            partitions: server.partitions(),
            http: server.http_watch(),
            node: node.clone(),
            contexts: shared.contexts.clone(),
            bill: shared.bill.clone(),
            experiments: Arc::new(move || experiments.figures()),
            gate: server.identify_gate(),
            owners: MemoryOwners::default(),
            files: files.clone(),
            unserved: unserved.clone(),
            store: store.clone(),
            sqlite_dir: self.config.store.sqlite_dir().map(Path::to_owned),
            store_dir: self.config.store.dir.clone(),
            access: shared.access.clone(),
            certificate: self.config.tls.cert_file.clone(),
            rest: rest_account.clone(),
            traces: self.traces.map(Traces::watch),
        }
    }

    /// The API of clients and bots.
    fn rest(&self, unserved: Arc<Unserved>, gateway: Arc<dyn Gateway>) -> Router {
        let Parts { ports, clock, server, files, node, shared, .. } = self.parts;
        let (gate, accounts, clock) = (server.identify_gate(), self.accounts.clone(), *clock);
        router(ApiState {
            unserved,
            node: node.clone(),
            gateway_url: ports.gateway_url.as_str().into(),
            is_gateway_url_local: ports.is_url_local(self.config),
            limits: api_limits(self.config),
            hidden_channels: hidden_channels(self.config),
            clock: Arc::new(NodeClock(clock)),
            session_starts: Arc::new(GateStarts { gate, accounts, clock }),
            own_streams: Arc::new(GatewayStreams(gateway)),
            files: files.clone(),
            dictionaries: shared.dictionaries.offered().clone(),
        })
    }

    /// All sessions. It answers other nodes: made once.
    fn gateway(&self) -> Arc<dyn Gateway> {
        let Parts { server, node, .. } = self.parts;
        let local = PartitionGateway(server.partitions());
        match node.membership() {
            Some(membership) => Arc::new(ClusterGateway::new(local, membership.clone())),
            None => Arc::new(local),
        }
    }

    /// The API of backends, and the dashboard.
    fn backends(
        &self,
        gateway: Arc<dyn Gateway>,
        reports: &Arc<Reports>,
        session_events: &Arc<SessionEvents>,
    ) -> (Router, Router) {
        let Parts { ports, clock, node, shared, .. } = self.parts;
        if let Some(membership) = node.membership() {
            cluster::answer_drains(membership, reports);
            guildhall_backend::answer_moves(membership);
        }
        let state = V1State {
            node: node.clone(),
            gateway,
            session_events: session_events.clone(),
            reports: reports.clone(),
            lab: Arc::new(shared.lab.clone()),
            experiments: Arc::new(self.parts.experiments.clone()),
            voice_key: self.parts.voice_key.clone(),
            clock: Arc::new(NodeClock(*clock)),
            limits: v1_limits(self.config),
        };
        let cookies = if ports.gateway_url.starts_with("wss:") { Cookies::Tls } else { Cookies::AnyHttp };
        let BackendRouters { v1, dashboard } = backend_routers(state, cookies);
        match self.config.server.dashboard {
            DashboardMode::On => (v1, dashboard),
            DashboardMode::Off => (v1, Router::new()),
        }
    }

    /// The chat page, and the accounts of its visitors.
    fn chat(&self) -> (Router, Option<Arc<Visitors>>) {
        let Parts { ports, clock, node, .. } = self.parts;
        let visitors = match self.config.server.chat {
            ChatMode::Off => return (Router::new(), None),
            ChatMode::On => None,
            ChatMode::Demo => {
                let clock = Arc::new(NodeClock(*clock));
                Some(Arc::new(Visitors::new(node.clone(), clock, VisitorLimits::default())))
            }
        };
        let page = ChatPage {
            gateway_url: ports.gateway_url.as_str().into(),
            visitors: visitors.clone(),
            streams: streams_name(self.config),
            sign_on_url: self.config.server.chat_sign_on_url.as_ref().map(|url| url.uri().to_string().into()),
            create_guilds: api_limits(self.config).users.create_guilds,
        };
        (chat_router(page), visitors)
    }
}

/// The verdict of `/readyz`.
fn readiness(is_ready: &AtomicBool, node: &Node, store: &dyn Store) -> Result<(), &'static str> {
    if !is_ready.load(Ordering::Acquire) {
        return Err("the node is starting or stopping");
    }
    if store.is_fenced() {
        return Err("another node has claimed the database: this one ends");
    }
    if node.membership().is_some_and(|membership| !membership.is_serving()) {
        return Err(
            "the node's lease has ended, and it serves no guilds: NATS cannot be reached, or the process was paused",
        );
    }
    match node.writes_stopped() {
        Some(WritesStopped::Unreachable) => Err(DATABASE_AWAY),
        Some(WritesStopped::Full) => Err(DISK_FULL),
        None => Ok(()),
    }
}
