//! Assembly: a configuration becomes a running node, and a running node stops.
//!
//! Owns        the order in which the parts start (`assemble`) and end (`RunningNode::stop`).
//! Invariants  A1 the port is taken before anything is written, and served before anything is ready.
//!             A2 nothing that was acknowledged is lost by stopping: sockets go first, the store last.
//! Limits      stopping takes `server.drain_notice_ms` and at most `server.drain_timeout_ms`, and `PART_MS_MIN` per
//!             part at the end.
//! Not here    how the parts talk to each other: `wiring`. Signals and exit codes: `main`.

use crate::{
    bill::BillThread,
    cluster::{self, ClusterAccounts, ClusterGateway},
    config::{
        Allowed, AuthConfig, ChatMode, CodecConfig, Config, CreateAccounts, DashboardMode, DirectsFrom, ExpireSessions,
        GatewayUrl, HiddenForm, IoUring, Secret, StreamMode, TlsConfig, UploadMode, UsersPreset,
    },
    database, deflate,
    dictionaries::{self, DictionaryError},
    disk::DiskWatch,
    files, handover, issuers, jwks_url,
    memory::MemoryReader,
    metrics::{Listener, Metrics, metrics_router},
    open_files,
    owners::MemoryOwners,
    preflight,
    reports::{Asked, Reports, Sampler, Sources},
    tls, traces,
    upgrades::{UpgradeStatus, Upgrades},
    watch::Watch,
    wiring::{
        GateStarts, NodeClock, NodeUpstream, PartitionGateway, PartitionSink, peers, with_access_notes, with_peer,
    },
};
use axum::Router;
use guildhall_api::{
    ApiLimits, ApiState, AuditPruner, BackendRouters, ChatPage, Cookies, Files, FilesOptions, Gateway, RestAccount,
    SessionEvents, Sweeper, Unserved, UserPolicy, V1Limits, V1State, VisitorLimits, Visitors, backend_routers,
    chat_router, dictionaries_router, files_router, observe, ops_router, router,
};
use guildhall_bus::NatsError;
use guildhall_codec::{CodecError, ContextPool, ContextStats, Dictionaries};
use guildhall_guild::{GuildLimits, LinkRenewer, RenewLinks};
use guildhall_guild_protocol::{HiddenChannels, PartitionId};
use guildhall_memory_budget::UpgradeConfig;
use guildhall_net::{
    AccessLog, AdmissionLimits, CertificateError, DrainPlan, DrainReport, IdentifyGate, IdentifyLimits, Partitions,
    RecentLoss, RunningServer, Server, ServerConfig, SystemClock, serve_admin,
};
use guildhall_node::{
    CanaryLimits, DirectLimits, DirectsWho, JoinError, Node, NodeConfig, NodeLimits, Retention, SignOnAccounts,
    WritesStopped,
};
use guildhall_partition::{Bill, BillWorker, PartitionConfig, StreamCodec};
use guildhall_session::{LogLimits, Share};
use guildhall_store::{DataDir, Store, StoreError};
use std::{
    collections::BTreeMap,
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::mpsc,
    task::JoinHandle,
};

/// Connections that wait to be accepted; the kernel may allow fewer (`net.core.somaxconn`).
const LISTEN_BACKLOG: u32 = 4096;

/// Events of sessions in the ring for `GET /v1/sessions/events`, about 100 bytes each.
const SESSION_EVENTS_KEPT: usize = 65_536;

/// Name under which the store has the secret of user tokens, if the configuration has none.
const JWT_SECRET_SETTING: &str = "jwt_secret";

/// Name under which the store has the secret that signs links to files.
const FILES_SECRET_SETTING: &str = "files_secret";
/// In the data directory.
const FILES_DIR: &str = "files";
/// Interval of sweeps. The files of a deleted message cannot be read, and use disk space until the next one.
const FILES_SWEPT_EVERY: Duration = Duration::from_secs(600);

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is in use, or needs privileges.
    #[error("cannot listen on {listen}{}", listen_hint(source))]
    Listen {
        listen: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// The store cannot be opened or read.
    #[error("the store cannot be used")]
    Store(#[from] StoreError),
    /// A file that `store.url` names cannot be read.
    #[error("store.url: {parameter} names {}, which cannot be read", .path.display())]
    StoreUrlFile {
        /// Parameter of the URL.
        parameter: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A secret's file cannot be read.
    #[error("{setting}: {} cannot be read", .path.display())]
    SecretFile {
        /// Which setting names it.
        setting: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A secret could be guessed.
    #[error("{setting}: {} has fewer than {} bytes", .path.display(), Secret::BYTES_MIN)]
    SecretTooShort {
        /// Which setting names it.
        setting: &'static str,
        path: PathBuf,
    },
    /// The certificate.
    #[error("tls.cert_file ({}) and tls.key_file ({}) cannot be used", .cert_file.display(), .key_file.display())]
    Tls {
        /// Certificate chain, PEM.
        cert_file: PathBuf,
        /// Private key, PEM.
        key_file: PathBuf,
        /// Reason of the refusal.
        #[source]
        source: CertificateError,
    },
    /// Keys of other issuers.
    #[error("auth.jwks_file: {} cannot be used", .path.display())]
    Issuers {
        path: PathBuf,
        #[source]
        source: issuers::ReadError,
    },
    /// The certificates of `auth.jwks_ca_file` cannot be used.
    #[error("auth.jwks_url cannot be used")]
    JwksUrl(#[from] jwks_url::TrustError),
    /// The collector of traces cannot be authenticated.
    #[error("[traces] cannot be used")]
    Traces(#[source] jwks_url::TrustError),
    /// A dictionary cannot be served.
    #[error("codec.dictionaries_dir cannot be used")]
    Dictionaries(#[from] DictionaryError),
    /// The folder of uploaded files is not usable.
    #[error("the folder of files, {}, cannot be used", .path.display())]
    Files {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The bucket of uploaded files cannot be set up.
    #[error("the bucket of uploads.url cannot be used")]
    Bucket(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The access log.
    #[error("log.access_file: {} cannot be opened", .path.display())]
    AccessLog {
        /// As in the configuration.
        path: PathBuf,
        /// Reason of the system.
        #[source]
        source: io::Error,
    },
    /// The system gave no threads or polls.
    #[error("the partitions cannot start")]
    Partitions(#[source] io::Error),
    /// The compression libraries do not take the parameters.
    #[error("the settings of [codec] cannot be used")]
    Codec(#[from] CodecError),
    /// The system returned no random bytes.
    #[error("the system returned no random bytes")]
    Randomness,
    /// The servers of `cluster.nats_url`.
    #[error("NATS ({url}) cannot be used")]
    Nats {
        /// Without passwords.
        url: String,
        #[source]
        source: NatsError,
    },
    /// A cluster needs a database that all nodes reach.
    #[error(
        "cluster.nats_url is set, and the database is SQLite: set store.url to the PostgreSQL database of the cluster \
         (`guildhall store copy` copies this one into it), or unset cluster.nats_url"
    )]
    ClusterStore,
    /// The cluster does not take this node.
    #[error("this node cannot join the cluster")]
    Join(#[from] JoinError),
}

fn listen_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => ": choose another port, or 0 for any that is free (--listen 127.0.0.1:0)",
        io::ErrorKind::PermissionDenied => {
            ": ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one (--listen)"
        }
        io::ErrorKind::AddrNotAvailable => ": it is not this machine's; 0.0.0.0 stands for all of its addresses",
        _ => "",
    }
}

impl StartError {
    /// Whether the configuration, or a file that it names, has to be changed. A retry without a change fails too.
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::Store(error) => matches!(error, StoreError::DataDir { .. } | StoreError::Readable { .. }),
            Self::StoreUrlFile { .. }
            | Self::SecretFile { .. }
            | Self::SecretTooShort { .. }
            | Self::Tls { .. }
            | Self::Issuers { .. }
            | Self::JwksUrl(_)
            | Self::Traces(_)
            | Self::Dictionaries(_)
            | Self::AccessLog { .. }
            | Self::Bucket(_)
            | Self::ClusterStore
            | Self::Codec(_) => true,
            Self::Listen { .. }
            | Self::Files { .. }
            | Self::Partitions(_)
            | Self::Randomness
            | Self::Nats { .. }
            | Self::Join(_) => false,
        }
    }
}

/// A node that serves.
pub struct RunningNode {
    /// Guilds and accounts.
    pub node: Node,
    /// Address of the listener, with the actual port.
    pub local_addr: SocketAddr,
    /// Where health and metrics are served as well, if anywhere.
    pub admin_addr: Option<SocketAddr>,
    /// WebSocket URL for clients, without a trailing slash.
    pub gateway_url: String,
    /// Makes accounts for visitors of the chat page, with `server.chat = "demo"`.
    pub visitors: Option<Arc<Visitors>>,
    /// Figures for `/v1/node` and the dashboard.
    pub reports: Arc<Reports>,
    /// None once they were taken.
    asked: Option<mpsc::Receiver<Asked>>,
    /// Ends with it. None: no connection is sampled.
    _bill: Option<BillThread>,
    /// Ends before the partitions, which it reads.
    sampler: Sampler,
    ready: Arc<AtomicBool>,
    server: RunningServer,
    store: Arc<dyn Store>,
    /// Ends with it.
    _data_dir: Option<DataDir>,
    drain: DrainTimes,
    handover: HandOverTo,
    gate: Arc<IdentifyGate>,
    contexts: ContextPool,
    upgrades: Option<Upgrades>,
    /// Ends with it.
    _issuers: Option<Watch>,
    /// Ends with it.
    _sweeper: Option<Sweeper>,
    retention: Retention,
    /// Ends with it. None: the database is on another disk, or another machine.
    disk: Option<DiskWatch>,
    /// Ends with it.
    _fetching: Option<jwks_url::Fetching>,
    tls: Option<tls::Pair>,
    /// Ends with it.
    _certificates: Option<Watch>,
    /// Ends with it.
    _admin: Option<AdminListener>,
    /// Descriptors that the system allows; none for any number.
    files_allowed: Option<u64>,
    access: Option<Arc<AccessLog>>,
    /// Ends with it.
    _pruner: Option<AuditPruner>,
    traces: Option<traces::Traces>,
}

/// Serves health and metrics until it is dropped.
struct AdminListener(JoinHandle<()>);

impl Drop for AdminListener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Time limits of the steps of a stop.
#[derive(Clone, Copy, Debug)]
struct DrainTimes {
    notice: Duration,
    total: Duration,
}

impl DrainTimes {
    fn of(config: &Config) -> Self {
        let ms = |ms: u32| Duration::from_millis(u64::from(ms));
        Self { notice: ms(config.server.drain_notice_ms), total: ms(config.server.drain_timeout_ms) }
    }
}

/// Folder of the hand-over, and the limit on its bytes.
#[derive(Clone, Debug)]
struct HandOverTo {
    dir: PathBuf,
    bytes_max: usize,
    /// In a cluster other nodes serve guilds of these sessions, and go on while this process restarts.
    loss: RecentLoss,
}

/// Writing what may be some hundred megabytes takes no longer on a disk that is in order.
const HANDOVER_MS_MAX: u64 = 5_000;
/// Time for the guilds of restored sessions to load, before the node accepts sockets.
const RESTORING_MAX: Duration = Duration::from_secs(20);

/// Time that each part has to end, even if those before it used up the deadline.
const PART_MS_MIN: u64 = 1_000;

/// Starts a node: configuration → port → store → node → REST → serving, not ready yet.
///
/// # Errors
/// See [`StartError`]. No part is left running.
pub async fn assemble(config: &Config) -> Result<RunningNode, StartError> {
    preflight::check(config)?;
    let files_allowed = open_files::raise_limit();
    let places = open_files::places(config.server.connections_max, files_allowed);
    tracing::info!(
        connections_max = places.connections_max,
        configured = config.server.connections_max,
        open_files = places.allowed.map_or_else(|| "unlimited".to_owned(), |allowed| allowed.to_string()),
        "places for sockets"
    );
    let (listener, local_addr) = listen_on(config.server.listen)?;
    let admin = config.server.admin_listen.map(listen_on).transpose()?;
    let tls = read_tls(&config.tls)?;
    let certificates = tls.as_ref().map(tls::Pair::watch);
    let gateway_url = gateway_url(config.server.public_url.as_ref(), local_addr, tls.is_some());
    if config.server.public_url.is_none() && local_addr.ip().is_unspecified() {
        tracing::warn!(
            gateway_url,
            "clients on other machines are sent to an address of this one: set server.public_url to the URL they use"
        );
    }
    let dictionaries = match &config.codec.dictionaries_dir {
        Some(dir) => dictionaries::load(dir)?,
        None => Dictionaries::default(),
    };
    let (store, jwt_secret) = open_store(config).await?;
    let data_dir = database::lock_data_dir(config)?;

    let clock = SystemClock::default();
    let contexts = context_pool(&config.codec)?;
    // Read here, because the check at the start creates contexts too.
    let stats = contexts.stats();
    tracing::info!(
        bytes_max = stats.bytes_max,
        zlib_bytes = stats.zlib.slot_bytes,
        zstd_bytes = stats.zstd.slot_bytes,
        zstd_upgraded_bytes = stats.zstd_upgraded.slot_bytes,
        "compression contexts",
    );
    let membership = cluster::join(config, (local_addr, &gateway_url), clock).await?;
    let mut server_config = server_config(config, &gateway_url, places, contexts.clone())?;
    server_config.node_number = membership.as_ref().map_or(0, |membership| membership.number().0);
    server_config.access = open_access_log(config, clock)?;
    let access = server_config.access.clone();
    server_config.certificates = tls.as_ref().map(|tls| tls.certificates.clone());
    server_config.partition.set_dictionaries(dictionaries.clone());
    let (bill, bill_worker) = bandwidth_bill(&config.codec)?;
    server_config.partition.bill = bill.clone();
    let server = Server::prepare(server_config, clock).map_err(StartError::Partitions)?;
    let files = open_files_folder(config, &gateway_url, &store, clock).await?;
    let mut limits = node_limits(config);
    limits.guild.links = LinkRenewer(files.clone().map(|files| Arc::new(files) as Arc<dyn RenewLinks>));
    let node = Node::start_as(
        node_config(config, jwt_secret),
        limits,
        store.clone(),
        Arc::new(NodeClock(clock)),
        Arc::new(PartitionSink(server.partitions())),
        membership,
    );

    let issuers = issuers::start(&config.auth, &node).map_err(|(path, source)| StartError::Issuers { path, source })?;

    let fetching = jwks_url::start(&config.auth, &node)?;

    let sweeper = files.as_ref().map(|files| files.keep_swept(store.clone()));
    let retention = node.keep_messages(config.messages.keep_days);

    let ready = Arc::new(AtomicBool::new(false));
    let is_ready = {
        let (ready, node, store) = (ready.clone(), node.clone(), store.clone());
        move || readiness(&ready, &node, &*store)
    };
    let accounts =
        node.membership().map(|membership| ClusterAccounts::start(membership.clone(), server.identify_gate(), clock));
    let unserved = Arc::new(Unserved::default());
    let disk = config.store.sqlite_dir();
    let disk = disk.map(|dir| DiskWatch::start(dir.to_owned(), node.clone(), config.store.free_bytes_min));
    let rest = router(ApiState {
        unserved: unserved.clone(),
        node: node.clone(),
        gateway_url: gateway_url.as_str().into(),
        limits: api_limits(config),
        hidden_channels: hidden_channels(config),
        clock: Arc::new(NodeClock(clock)),
        session_starts: Arc::new(GateStarts { gate: server.identify_gate(), accounts: accounts.clone(), clock }),
        files: files.clone(),
    });
    let traces = traces::start(&config.traces)?;
    if let (Some(traces), Some(membership)) = (&traces, node.membership()) {
        traces.resume_for(membership);
    }
    let rest_account = Arc::new(RestAccount::default());
    let metrics = Metrics {
        partitions: server.partitions(),
        http: server.http_watch(),
        node: node.clone(),
        contexts: contexts.clone(),
        bill,
        gate: server.identify_gate(),
        owners: MemoryOwners::default(),
        files: files.clone(),
        unserved,
        store: store.clone(),
        sqlite_dir: config.store.sqlite_dir().map(Path::to_owned),
        store_dir: config.store.dir.clone(),
        access: access.clone(),
        certificate: config.tls.cert_file.clone(),
        rest: rest_account.clone(),
        traces: traces.as_ref().map(traces::Traces::watch),
    };
    let trusted: Arc<[IpAddr]> = config.limits.rest_trusted_proxies.0.as_slice().into();
    let session_events = Arc::new(SessionEvents::new(SESSION_EVENTS_KEPT));
    let (reports, asked) = Reports::new(Sources {
        metrics: metrics.clone(),
        clock,
        readiness: Box::new(is_ready.clone()),
        streams: streams_name(config),
        memory_bytes_max: config.codec.memory_bytes_max,
    });
    let local = PartitionGateway(server.partitions());
    let gateway: Arc<dyn Gateway> = match node.membership() {
        Some(membership) => Arc::new(ClusterGateway::new(local, membership.clone())),
        None => Arc::new(local),
    };
    let backend_state = V1State {
        node: node.clone(),
        gateway,
        session_events: session_events.clone(),
        reports: reports.clone(),
        clock: Arc::new(NodeClock(clock)),
        limits: v1_limits(config),
    };
    if let Some(membership) = node.membership() {
        cluster::drain_when_asked(membership, &reports);
    }
    let cookies = if gateway_url.starts_with("wss:") { Cookies::Tls } else { Cookies::AnyHttp };
    let BackendRouters { v1: backends, dashboard } = backend_routers(backend_state, cookies);
    let dashboard = match config.server.dashboard {
        DashboardMode::On => dashboard,
        DashboardMode::Off => Router::new(),
    };
    let visitors = (config.server.chat == ChatMode::Demo)
        .then(|| Arc::new(Visitors::new(node.clone(), Arc::new(NodeClock(clock)), VisitorLimits::default())));
    let chat = match config.server.chat {
        ChatMode::Off => Router::new(),
        ChatMode::On | ChatMode::Demo => {
            let streams = streams_name(config);
            chat_router(ChatPage { gateway_url: gateway_url.as_str().into(), visitors: visitors.clone(), streams })
        }
    };
    let http = with_peer(rest, trusted.clone())
        .merge(with_peer(backends, trusted.clone()))
        .merge(with_peer(dashboard, trusted.clone()))
        .merge(ops_router(is_ready.clone()))
        .merge(dictionaries_router(dictionaries))
        .merge(with_peer(chat, trusted.clone()))
        .merge(files.map_or_else(Router::new, |files| files_router(files, store.clone())))
        .merge(metrics_router(metrics.clone(), config.server.metrics, Listener::Clients));
    let http = observe(http, rest_account, traces.as_ref().map(traces::Traces::tracer));
    let http = if access.is_some() { with_access_notes(http) } else { http };
    let pruner =
        audit_keep_ms(config).map(|keep_ms| AuditPruner::start(node.clone(), Arc::new(NodeClock(clock)), keep_ms));
    let admin_addr = admin.as_ref().map(|(_, addr)| *addr);
    let admin = admin.map(|(listener, _)| {
        let http = ops_router(is_ready).merge(metrics_router(metrics, config.server.metrics, Listener::Admin));
        AdminListener(tokio::spawn(serve_admin(listener, http)))
    });
    if let Some(key) = secret("auth.admin_key_file", &config.auth.admin_key, &config.auth.admin_key_file)? {
        node.set_root_key(key.reveal());
    }
    let upstream = Arc::new(NodeUpstream::new(node.clone(), session_events, accounts));
    let gate = server.identify_gate();
    let server = server.start_partitions(http, upstream, peers(trusted)).map_err(StartError::Partitions)?;
    take_over(config, server.partitions(), &node).await;
    let server = server.open(listener).map_err(StartError::Partitions)?;

    let drain = DrainTimes::of(config);
    let upgrades = match config.codec.upgrades {
        crate::config::Upgrades::Off => None,
        crate::config::Upgrades::Auto => {
            let settings = UpgradeConfig { memory_percent: config.codec.upgrade_memory_percent.min(100) as u8 };
            let reader = MemoryReader::new(config.codec.memory_bytes_max);
            let upgrades = Upgrades::start(settings, reader, clock, contexts.clone(), server.partitions().clone());
            reports.set_upgrades(upgrades.reader());
            Some(upgrades)
        }
    };
    let sampler = Sampler::start(&reports);
    let loss = if node.membership().is_some() { RecentLoss::Possible } else { RecentLoss::None };
    let bill_thread = bill_worker.map(BillThread::start).transpose().map_err(StartError::Partitions)?;
    Ok(RunningNode {
        node,
        local_addr,
        admin_addr,
        gateway_url,
        visitors,
        reports,
        asked: Some(asked),
        _bill: bill_thread,
        sampler,
        ready,
        server,
        store,
        _data_dir: data_dir,
        drain,
        handover: HandOverTo {
            dir: config.store.dir.clone(),
            bytes_max: config.server.handover_bytes_max as usize,
            loss,
        },
        gate,
        contexts,
        upgrades,
        _issuers: issuers,
        _sweeper: sweeper,
        retention,
        disk,
        _fetching: fetching,
        tls,
        _certificates: certificates,
        _admin: admin,
        files_allowed,
        access,
        _pruner: pruner,
        traces,
    })
}

/// Default limit on compression contexts, in percent of the memory that the node may use.
const CLASSIC_PERCENT: u64 = 60;

/// The certificate that the configuration names, if it does.
///
/// # Errors
/// `Tls`.
pub(crate) fn read_tls(config: &TlsConfig) -> Result<Option<tls::Pair>, StartError> {
    tls::Pair::read(config).map_err(|source| {
        let path = |file: &Option<PathBuf>| file.clone().unwrap_or_default();
        StartError::Tls { cert_file: path(&config.cert_file), key_file: path(&config.key_file), source }
    })
}

fn streams_name(config: &Config) -> &'static str {
    match config.codec.streams {
        StreamMode::PerConnection => "per-connection",
        StreamMode::SharedMatch => "shared-match",
    }
}

/// What `/readyz` says.
fn readiness(is_ready: &AtomicBool, node: &Node, store: &dyn Store) -> Result<(), &'static str> {
    const AWAY: &str = "the database cannot be reached: writes are refused, and what is not in memory cannot be read";
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
        Some(WritesStopped::Unreachable) => Err(AWAY),
        Some(WritesStopped::Full) => Err("the disk is full: writes are refused, reads continue"),
        None if store.is_away() => Err(AWAY),
        None => Ok(()),
    }
}

/// Contexts of all partitions. Creates one of each kind as a check.
///
/// # Errors
/// `Codec`.
pub(crate) fn context_pool(codec: &CodecConfig) -> Result<ContextPool, StartError> {
    let bytes_max = codec.contexts_bytes_max.unwrap_or_else(|| match MemoryReader::new(codec.memory_bytes_max).read() {
        Ok(memory) => (u128::from(memory.limit_bytes) * u128::from(CLASSIC_PERCENT) / 100) as u64,
        Err(error) => {
            tracing::warn!(%error, "memory cannot be read: compression contexts have no bound; set codec.contexts_bytes_max");
            u64::MAX
        }
    });
    let contexts = ContextPool::new(codec.context_params(bytes_max))?;
    contexts.check()?;
    Ok(contexts)
}

/// The bill of this node, and the worker that makes it.
///
/// # Errors
/// `Codec`.
fn bandwidth_bill(codec: &CodecConfig) -> Result<(Bill, Option<BillWorker>), StartError> {
    if codec.bill_one_in == 0 {
        return Ok(Default::default());
    }
    // Few, and apart from those of clients: neither takes the other's room.
    let (bill, worker) = Bill::new(codec.bill_one_in, ContextPool::new(codec.context_params(u64::MAX))?);
    Ok((bill, Some(worker)))
}

impl RunningNode {
    /// The account of compression contexts.
    #[must_use]
    pub fn context_stats(&self) -> ContextStats {
        self.contexts.stats()
    }

    /// Last reading and decision of the controller of larger contexts; `None` if it is off.
    #[must_use]
    pub fn upgrade_status(&self) -> Option<UpgradeStatus> {
        self.upgrades.as_ref().map(Upgrades::status)
    }

    /// Completes when a part of the node has failed for good: the process should end, and be started again.
    pub async fn failed(&self) {
        tokio::select! {
            () = self.server.failed() => {}
            () = database::fenced(&*self.store) => {}
            () = cluster::lost(&self.node) => {}
        }
    }

    /// The requests of operators, for a command that does them. Without such a command they are refused.
    pub fn take_asked(&mut self) -> Option<mpsc::Receiver<Asked>> {
        self.asked.take()
    }

    /// From now on `/readyz` answers 200.
    pub fn set_ready(&self) {
        self.node.membership().iter().for_each(|membership| membership.activate());
        self.ready.store(true, Ordering::Release);
    }

    /// Stops the node and reports the result, for commands that run until a signal.
    ///
    /// # Errors
    /// A part had failed, or did not end in time.
    pub async fn end(self, failed: bool) -> anyhow::Result<()> {
        tracing::info!("stopping");
        let in_time = self.stop_and_leave(!failed).await;
        anyhow::ensure!(!failed, "a part of the node failed; the log says which. Start it again");
        anyhow::ensure!(in_time, "some parts did not end in time; acknowledged writes are safe");
        Ok(())
    }

    /// Applies the settings of `config` that may change while the node runs: `reload::LIVE`.
    ///
    /// # Errors
    /// `Randomness`.
    pub fn take_settings(&mut self, config: &Config) -> Result<(), StartError> {
        self.server.partitions().take_limits(partition_config(config, &self.gateway_url)?);
        let places = open_files::places(config.server.connections_max, self.files_allowed);
        self.server.set_connections_max(places.connections_max as usize);
        self.server.set_admission(admission_limits(config, places));
        self.server.set_write_stall_ms(config.limits.write_stall_ms.into());
        self.gate.set_limits(identify_limits(config));
        self.drain = DrainTimes::of(config);
        self.disk.iter().for_each(|disk| disk.set_bytes_min(config.store.free_bytes_min));
        self.retention.set_keep_days(config.messages.keep_days);
        self.tls.iter().for_each(tls::Pair::read_again);
        Ok(())
    }

    /// Reopens files that a log rotation may have renamed: the access log.
    pub fn reopen_logs(&self) {
        self.access.iter().for_each(|access| access.reopen());
    }

    /// Stops the node: `/readyz` answers 503, then clients are refused, then commands, then sessions are written to the
    /// hand-over, then the store closes. False if a part did not end in time; acknowledged writes are safe in any case.
    pub async fn stop(self) -> bool {
        self.stop_and_leave(true).await
    }

    /// Only a healthy node hands over sessions.
    async fn stop_and_leave(self, is_sound: bool) -> bool {
        let DrainTimes { notice, total } = self.drain;
        self.ready.store(false, Ordering::Release);
        self.node.membership().iter().for_each(|membership| membership.drain());
        self.reports.set_draining();
        drop(self.sampler);
        if self.server.conns_count() > 0 && !notice.is_zero() {
            tracing::info!(notice_ms = notice.as_millis() as u64, "not ready any more; clients are still served");
            tokio::time::sleep(notice).await;
        }
        let deadline = Instant::now() + total;
        let plan = DrainPlan::within(total);
        let server = self.server;
        let letting_go = tokio::task::spawn_blocking(move || {
            log_drained(server.let_go(plan));
            // Ended while other members can still receive the change.
            server.partitions().leave_voice();
            server
        });
        let server = in_time(deadline, "the clients", letting_go).await.and_then(Result::ok);
        let guilds = in_time(deadline, "the guild workers", self.node.shut_down()).await.is_some();
        if let Some(membership) = self.node.membership() {
            // Before anything else ends: other nodes take over the guilds at once.
            let _ = in_time(deadline, "the cluster", membership.leave()).await;
        }
        let clients = match server {
            None => false,
            Some(server) => {
                let leave = (is_sound && guilds && self.handover.bytes_max > 0).then_some(self.handover);
                let ending = tokio::task::spawn_blocking(move || {
                    leave.iter().for_each(|to| leave_sessions(&server, to));
                    server.end();
                });
                let deadline = deadline.max(Instant::now() + Duration::from_millis(HANDOVER_MS_MAX));
                in_time(deadline, "the partitions", ending).await.is_some()
            }
        };
        let writes = in_time(deadline, "the store", self.store.close()).await.is_some();
        if let Some(traces) = self.traces {
            traces.end().await;
        }
        if let Some(access) = self.access {
            // Flushed last: no client waits for it.
            let _ = in_time(deadline, "the access log", tokio::task::spawn_blocking(move || access.end())).await;
        }
        clients && guilds && writes
    }
}

fn log_drained(report: DrainReport) {
    let DrainReport { asked_count, asking_ms, stayed_count } = report;
    tracing::info!(asked = asked_count, asking_ms, stayed = stayed_count, "clients have disconnected");
}

/// The guilds have ended, and nothing happens any more.
fn leave_sessions(server: &RunningServer, to: &HandOverTo) {
    let over = server.partitions().hand_over(to.bytes_max, to.loss);
    let sessions: usize = over.iter().map(|over| over.sessions.len()).sum();
    let left_out: usize = over.iter().map(|over| over.left_out_count).sum();
    match handover::write(&to.dir, &over) {
        Ok(()) => tracing::info!(sessions, left_out, "sessions were handed over"),
        Err(error) => tracing::error!(
            sessions,
            error = &error as &dyn std::error::Error,
            "the hand-over cannot be written: clients of these sessions identify again"
        ),
    }
}

/// Restores the sessions of the previous process, and waits until their guilds have attached them.
async fn take_over(config: &Config, partitions: &Partitions, node: &Node) {
    let (window_ms, bytes_max) = (config.limits.session_resume_ms.into(), config.server.handover_bytes_max.into());
    let over = match handover::take(&config.store.dir, window_ms, bytes_max) {
        Ok(None) => return,
        Ok(Some(over)) => over,
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the hand-over of the previous process cannot be used: its clients identify again"
            );
            return;
        }
    };
    let mut users = BTreeMap::new();
    for user_id in over.iter().flat_map(|over| over.sessions.iter().map(|session| session.user_id)) {
        if users.contains_key(&user_id) {
            continue;
        }
        match node.user(user_id).await {
            Ok(user) => drop(user.map(|user| users.insert(user_id, user))),
            Err(error) => tracing::warn!(%error, "an account cannot be read: its sessions are dropped"),
        }
    }
    let begun = Instant::now();
    let (partitions_of, users) = (partitions.clone(), Arc::new(users));
    let taken = tokio::task::spawn_blocking(move || partitions_of.take_over(over, &users)).await.unwrap_or(0);
    partitions.wait_for_restores(RESTORING_MAX).await;
    tracing::info!(
        sessions = taken,
        ms = begun.elapsed().as_millis() as u64,
        "sessions were taken over from the previous process"
    );
}

/// The result of `work`, if it completes in time.
async fn in_time<T>(deadline: Instant, part: &'static str, work: impl Future<Output = T>) -> Option<T> {
    let limit = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(PART_MS_MIN));
    let done = tokio::time::timeout(limit, work).await.ok();
    if done.is_none() {
        tracing::warn!(part, limit_ms = limit.as_millis() as u64, "a part did not stop in time");
    }
    done
}

/// Opens the store, and finds or makes the key for user tokens.
///
/// # Errors
/// `Store`, `SecretFile`, `SecretTooShort`, `Randomness`.
pub async fn open_store(config: &Config) -> Result<(Arc<dyn Store>, Vec<u8>), StartError> {
    let store = database::open(config).await?;
    let AuthConfig { jwt_secret, jwt_secret_file, .. } = &config.auth;
    let jwt_secret = match secret("auth.jwt_secret_file", jwt_secret, jwt_secret_file)? {
        Some(secret) => secret.reveal().as_bytes().to_owned(),
        None => store.setting_or_insert(JWT_SECRET_SETTING, &random::<32>()?).await?,
    };
    Ok((store, jwt_secret))
}

fn open_access_log(config: &Config, clock: SystemClock) -> Result<Option<Arc<AccessLog>>, StartError> {
    let Some(path) = config.log.access_file.clone() else { return Ok(None) };
    AccessLog::open(path.clone(), clock).map(Some).map_err(|source| StartError::AccessLog { path, source })
}

/// Opens the folder or the bucket of uploaded files; none if uploads are off.
async fn open_files_folder(
    config: &Config,
    gateway_url: &str,
    store: &Arc<dyn Store>,
    clock: SystemClock,
) -> Result<Option<Files>, StartError> {
    if config.uploads.mode == UploadMode::Off {
        return Ok(None);
    }
    let secret = store.setting_or_insert(FILES_SECRET_SETTING, &random::<32>()?).await?;
    let path = config.store.dir.join(FILES_DIR);
    if let Some(url) = &config.uploads.url {
        tracing::info!(bucket = %url, "files are in a bucket");
    }
    let options = FilesOptions {
        dir: path.clone(),
        bucket: files::bucket(&config.uploads)?,
        // The same host and port speak both.
        base_url: gateway_url.replacen("ws", "http", 1),
        secret,
        bytes_max: config.uploads.bytes_max,
        file_bytes_max: config.uploads.file_bytes_max.into(),
        picture_bytes_max: config.uploads.picture_bytes_max.into(),
        sweep_every: FILES_SWEPT_EVERY,
        links_expire_s: config.uploads.links_expire_s,
    };
    let clock = Arc::new(NodeClock(clock));
    Files::open(options, clock).await.map(Some).map_err(|source| StartError::Files { path, source })
}

/// Node settings of a configuration.
#[must_use]
pub fn node_config(config: &Config, jwt_secret: Vec<u8>) -> NodeConfig {
    let guild_workers_count = match config.server.guild_workers {
        0 => (cores() / 2).max(1),
        count => usize::from(count),
    };
    NodeConfig { guild_workers_count, jwt_secret, worker_mailbox_max: config.server.worker_mailbox_max as usize }
}

/// The listener, and its address with the real port.
fn listen_on(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let opened = open_listener(listen).and_then(|listener| {
        let local_addr = listener.local_addr()?;
        Ok((listener, local_addr))
    });
    opened.map_err(|source| StartError::Listen { listen, source })
}

/// As `TcpListener::bind`, but with room for a storm of connects: past the usual 128 the kernel drops them.
fn open_listener(listen: SocketAddr) -> io::Result<TcpListener> {
    let socket = if listen.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Otherwise a restarted node would wait until its old connections have timed out.
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(LISTEN_BACKLOG)
}

fn node_limits(config: &Config) -> NodeLimits {
    let voice_endpoint = config.voice.endpoint.as_ref().map(|endpoint| endpoint.as_str().to_owned());
    let temporary_away_ms = config.limits.temporary_away_ms.into();
    let audit_entries_max = config.limits.audit_log_entries_max as usize;
    let guild = GuildLimits { voice_endpoint, temporary_away_ms, audit_entries_max, ..GuildLimits::default() };
    let directs = DirectLimits {
        who: match (config.directs.who, config.users.preset) {
            (Some(DirectsFrom::CommonGuild), _) | (None, UsersPreset::Open) => DirectsWho::CommonGuild,
            (Some(DirectsFrom::Anyone), _) => DirectsWho::Anyone,
            (Some(DirectsFrom::Backend), _) | (None, UsersPreset::Backend) => DirectsWho::Backend,
        },
        directs_per_day_max: config.directs.created_per_day_max,
        groups_per_day_max: config.directs.groups_created_per_day_max,
    };
    let sign_on = SignOnAccounts {
        is_on: config.auth.jwt_create_accounts == CreateAccounts::On,
        per_minute_max: config.auth.jwt_accounts_per_minute_max,
    };
    let canaries = CanaryLimits {
        members_min: config.canaries.members_min.into(),
        interval_ms: u64::from(config.canaries.interval_s) * 1_000,
    };
    NodeLimits { directs, guild, sign_on, canaries, ..NodeLimits::default() }
}

fn hidden_channels(config: &Config) -> HiddenChannels {
    match config.visibility.hidden_channels {
        HiddenForm::Listed => HiddenChannels::Listed,
        HiddenForm::Obfuscated => HiddenChannels::Obfuscated,
        HiddenForm::Absent => HiddenChannels::Absent,
    }
}

/// Limits of partitions, without compression.
fn partition_config(config: &Config, gateway_url: &str) -> Result<PartitionConfig, StartError> {
    let limits = &config.limits;
    Ok(PartitionConfig {
        heartbeat_interval_ms: config.server.heartbeat_interval_ms.into(),
        identify_deadline_ms: limits.identify_deadline_ms.into(),
        resume_window_ms: limits.session_resume_ms.into(),
        replay_events_max: limits.replay_events_max as usize,
        replay_bytes_max: limits.replay_bytes_max as usize,
        replay_share: Share {
            pieces_max: (limits.replay_events_max as usize / 4).max(8),
            bytes_max: limits.replay_bytes_max as usize / 4,
        },
        backlog_events_max: limits.backlog_events_max as usize,
        backlog_bytes_max: limits.backlog_bytes_max as usize,
        log: LogLimits {
            events_max: limits.shared_log_events_max as usize,
            bytes_max: limits.shared_log_bytes_max as usize,
            share_events_max: limits.shared_log_events_max as usize / 2,
            share_bytes_max: limits.shared_log_bytes_max as usize / 8,
            // No session can be resumed with an older dispatch: its client was closed by then, and the
            // session is forgotten.
            age_ms_max: u64::from(config.server.heartbeat_interval_ms) * 3 / 2 + u64::from(limits.session_resume_ms),
        },
        rendered_bytes_max: limits.ready_bytes_in_flight_max as usize,
        sessions_per_relay_max: limits.sessions_per_relay_max as usize,
        passive_above_members: limits.passive_above_members.map(u64::from),
        passive_interval_ms: limits.passive_update_interval_ms.into(),
        write_stall_ms: limits.write_stall_ms.into(),
        inbound_per_minute_max: limits.inbound_per_minute_max,
        bot_message_bytes_max: limits.bot_message_bytes_max,
        user_message_bytes_max: limits.user_message_bytes_max,
        guilds_per_shard_max: limits.guilds_per_shard_max as usize,
        expire_sessions: config.auth.expire_sessions == ExpireSessions::On,
        hidden_channels: hidden_channels(config),
        stream_codec: match config.codec.streams {
            StreamMode::PerConnection => StreamCodec::PerConnection,
            StreamMode::SharedMatch => StreamCodec::SharedMatch {
                history_bytes_max: config.codec.shared_history_bytes_max as usize,
                check_one_in: NonZeroU32::new(config.codec.shared_check_one_in),
            },
        },
        ..PartitionConfig::new(PartitionId(0), gateway_url.into(), random()?)
    })
}

fn identify_limits(config: &Config) -> IdentifyLimits {
    let limits = &config.limits;
    IdentifyLimits {
        max_concurrency: limits.identify_concurrency,
        interval_ms: limits.identify_interval_ms.into(),
        bot_identifies_per_day: limits.bot_identifies_per_day,
        user_sessions_max: limits.user_sessions_max,
        per_second_max: limits.identifies_per_second_max,
    }
}

fn admission_limits(config: &Config, places: open_files::Places) -> AdmissionLimits {
    let limits = &config.limits;
    AdmissionLimits {
        connections_max: places.connections_max as usize,
        handshakes_max: limits.handshakes_max as usize,
        address_rest_connections_max: limits.address_rest_connections_max,
        address_connections_max: limits.address_connections_max,
        address_handshakes_per_minute: limits.address_handshakes_per_minute,
    }
}

fn server_config(
    config: &Config,
    gateway_url: &str,
    places: open_files::Places,
    contexts: ContextPool,
) -> Result<ServerConfig, StartError> {
    let partition = PartitionConfig {
        contexts,
        deflate: deflate::params(&config.deflate),
        ..partition_config(config, gateway_url)?
    };
    let identify = identify_limits(config);
    let partitions_count = match config.server.partitions {
        0 => cores().min(256) as u16,
        count => count,
    };
    let io_uring = match config.server.io_uring {
        IoUring::Auto => guildhall_net::IoUring::Auto,
        IoUring::Off => guildhall_net::IoUring::Off,
    };
    let connections_max = places.connections_max as usize;
    let deflate = deflate::policy(&config.deflate);
    Ok(ServerConfig {
        node_number: 0,
        partitions_count,
        connections_max,
        io_uring,
        deflate,
        admission: admission_limits(config, places),
        certificates: None,
        access: None,
        identify,
        partition,
    })
}

fn api_limits(config: &Config) -> ApiLimits {
    let limits = match config.limits.rest_rate_percent {
        0 => ApiLimits::unlimited(),
        100 => ApiLimits::default(),
        percent => ApiLimits::default().scaled(f64::from(percent) / 100.0),
    };
    ApiLimits { users: user_policy(config), ..limits }
}

fn user_policy(config: &Config) -> UserPolicy {
    let users = &config.users;
    let may = |setting: Option<Allowed>| match (setting, users.preset) {
        (Some(Allowed::Everyone), _) | (None, UsersPreset::Open) => true,
        (Some(Allowed::Backend), _) | (None, UsersPreset::Backend) => false,
    };
    UserPolicy {
        create_guilds: may(users.create_guilds),
        change_names: may(users.change_names),
        create_invites: may(users.create_invites),
        leave_guilds: may(users.leave_guilds),
    }
}

fn audit_keep_ms(config: &Config) -> Option<u64> {
    let days = u64::from(config.log.audit_keep_days);
    (days > 0).then_some(days * 86_400_000)
}

fn v1_limits(config: &Config) -> V1Limits {
    let per_s = config.limits.backend_requests_per_s;
    V1Limits {
        requests_per_s: (per_s > 0).then_some(per_s),
        audit_keep_ms: audit_keep_ms(config),
        ..V1Limits::default()
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A secret of the configuration, or of the file it names.
///
/// # Errors
/// `SecretFile`, `SecretTooShort`.
pub fn secret(
    setting: &'static str,
    given: &Option<Secret>,
    file: &Option<PathBuf>,
) -> Result<Option<Secret>, StartError> {
    match (given, file) {
        (Some(secret), _) => Ok(Some(secret.clone())),
        (None, None) => Ok(None),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path).map_err(|source| StartError::SecretFile {
                setting,
                path: path.clone(),
                source,
            })?;
            let secret = Secret::new(text.trim());
            secret.map(Some).ok_or_else(|| StartError::SecretTooShort { setting, path: path.clone() })
        }
    }
}

/// Random bytes of the system.
///
/// # Errors
/// `Randomness`.
pub fn random<const N: usize>() -> Result<[u8; N], StartError> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| StartError::Randomness)?;
    Ok(bytes)
}

/// Address at which this machine itself reaches a listener on `addr`.
#[must_use]
pub fn reachable(addr: SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, addr.port())
}

fn gateway_url(public_url: Option<&GatewayUrl>, local_addr: SocketAddr, is_tls: bool) -> String {
    let scheme = if is_tls { "wss" } else { "ws" };
    public_url.map_or_else(|| format!("{scheme}://{}", reachable(local_addr)), |url| url.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_clients_are_sent() {
        let check = |public: Option<&str>, addr: &str, expected: &str| {
            let public = public.and_then(GatewayUrl::parse);
            assert_eq!(gateway_url(public.as_ref(), addr.parse().unwrap(), false), expected);
        };
        assert_eq!(gateway_url(None, "192.0.2.7:443".parse().unwrap(), true), "wss://192.0.2.7:443");
        check(None, "127.0.0.1:8080", "ws://127.0.0.1:8080");
        check(None, "0.0.0.0:80", "ws://127.0.0.1:80");
        check(None, "[::]:80", "ws://[::1]:80");
        check(None, "192.0.2.7:443", "ws://192.0.2.7:443");
        check(Some("wss://gw.example.net/"), "0.0.0.0:80", "wss://gw.example.net");
    }

    #[test]
    fn secrets_of_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(dir.path().join(name));
        let long = "k".repeat(40);
        std::fs::write(dir.path().join("long"), format!(" {long}\n")).unwrap();
        std::fs::write(dir.path().join("short"), "k").unwrap();
        assert_eq!(secret("s", &None, &None).unwrap(), None);
        assert_eq!(secret("s", &None, &path("long")).unwrap().unwrap().reveal(), long);
        assert!(matches!(secret("s", &None, &path("short")), Err(StartError::SecretTooShort { .. })));
        assert!(matches!(secret("s", &None, &path("none")), Err(StartError::SecretFile { .. })));
    }
}
