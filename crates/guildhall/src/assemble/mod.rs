//! Assembly: a configuration becomes a running node.
//!
//! Owns        the order in which the parts start (`assemble`).
//! Invariants  A1 the port is taken before anything is written, and served before anything is ready. (A2: `running`)
//! Not here    how the parts talk to each other: `wiring`. How they stop: `running`. Signals and exit codes: `main`.

mod http;
mod limits;
mod listen;
mod running;
mod sessions;

pub use limits::node_config;
pub use listen::reachable;
pub use running::RunningNode;

use crate::{
    clock::NodeClock,
    cluster::{self, ClusterAccounts, Departures, OnTheWay, OwnNode, SessionMirrors, SessionMoves},
    compression::{bandwidth_bill, contexts},
    database, dictionaries,
    disk::DiskWatch,
    experiments::NodeExperiments,
    files,
    installed::InstalledDictionaries,
    issuers, jwks_url,
    lab::NodeLab,
    open_files, preflight,
    review_hook::ReviewHook,
    secrets::{random, secret, voice_key},
    start_error::StartError,
    takeover::{Inherited, Predecessor, TakeoverError},
    tls,
    upgrades::Upgrades,
    wiring::{NodeUpstream, PartitionSink, peers},
};
use guildhall_backend::{AuditPruner, EventPruner};
use guildhall_codec::ContextPool;
use guildhall_guild::{LinkRenewer, RenewLinks, SignVoiceTokens, VoiceSigner};
use guildhall_media::{Files, FilesOptions};
use guildhall_memory_budget::UpgradeConfig;
use guildhall_net::{AccessLog, Partitions, Server, SystemClock, serve_admin};
use guildhall_node::{Hooks, Membership, Node, VoiceKey};
use guildhall_partition::{Bill, BillWorker, StreamCodec};
use guildhall_settings::{AuthConfig, CodecConfig, Config, UploadMode};
use guildhall_store::Store;
use guildhall_telemetry::{
    memory::MemoryReader,
    reports::Sampler,
    spare::SpareThread,
    traces::{self, Traces},
};
use limits::{audit_keep_ms, node_limits, server_config};
use listen::{Ports, gateway_url, inherited, listen_on};
use running::{AdminListener, Compression, Guards, Live, Stop, Telemetry};
use sessions::take_over;
use std::{
    io, mem,
    net::IpAddr,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// Name under which the store has the secret of user tokens, if the configuration has none.
const JWT_SECRET_SETTING: &str = "jwt_secret";

/// Name under which the store has the secret that signs links to files.
const FILES_SECRET_SETTING: &str = "files_secret";
/// In the data directory.
const FILES_DIR: &str = "files";
/// Interval of sweeps. The files of a deleted message cannot be read, and use disk space until the next one.
const FILES_SWEPT_EVERY: Duration = Duration::from_secs(600);

/// Parts of a node that does not accept connections yet.
struct Parts {
    ports: Ports,
    clock: SystemClock,
    store: Arc<dyn Store>,
    shared: Shared,
    server: Server,
    /// None: uploads are off.
    files: Option<Files>,
    node: Node,
    experiments: NodeExperiments,
    /// None: voice tokens are random.
    voice_key: Option<Arc<VoiceKey>>,
}

/// What several parts have in common.
struct Shared {
    contexts: ContextPool,
    bill: Bill,
    lab: NodeLab,
    dictionaries: InstalledDictionaries,
    access: Option<Arc<AccessLog>>,
    /// Addresses whose `X-Forwarded-For` counts.
    trusted: Arc<[IpAddr]>,
    /// One of the conditions of `/readyz`.
    ready: Arc<AtomicBool>,
}

/// Starts a node: configuration → port → store → node → REST → serving, not ready yet.
///
/// # Errors
/// See `StartError`. No part is left running.
pub async fn assemble(config: &Config) -> Result<RunningNode, StartError> {
    start(config, Hooks::default(), None).await
}

/// As `assemble`, with hooks.
///
/// # Errors
/// As `assemble`.
pub(crate) async fn assemble_with(config: &Config, hooks: Hooks) -> Result<RunningNode, StartError> {
    start(config, hooks, None).await
}

/// As `assemble_with`, and takes over the listeners, sessions and connections of the process that runs on the same data
/// directory. It ends once this one serves.
///
/// # Errors
/// As `assemble`, and `Takeover`. Until the previous process has ended its guilds, it continues to serve.
pub(crate) async fn assemble_over(config: &Config, hooks: Hooks) -> Result<RunningNode, StartError> {
    let of = config.clone();
    let predecessor = blocking(move || Predecessor::connect(&of)).await?;
    start(config, hooks, Some(predecessor)).await
}

async fn start(config: &Config, hooks: Hooks, predecessor: Option<Predecessor>) -> Result<RunningNode, StartError> {
    preflight::check(config)?;
    let mut guards = Guards::default();
    let (parts, bill_worker, mut inherited) = prepare(config, predecessor, &mut guards).await?;
    parts.node.set_hooks(with_review_hook(config, hooks)?);
    start_key_sets(&config.auth, &parts.node, &mut guards)?;
    guards.keep(parts.files.as_ref().map(|files| files.keep_swept(parts.store.clone())));
    let live = live_parts(config, &parts);
    let accounts = start_accounts(&parts);
    let traces = start_traces(config, &parts.node)?;
    let http = http::Routes { config, parts: &parts, traces: traces.as_ref(), accounts: accounts.clone() }.http();
    guards.keep(start_pruner(config, &parts));
    guards.keep(Some(start_event_pruner(config, &parts)));

    let Parts { ports, clock, store, shared, server, node, experiments, .. } = parts;
    let listeners = ports.duplicates(config)?;
    let admin_addr = ports.admin.as_ref().map(|(_, addr)| *addr);
    guards.keep(ports.admin.map(|(listener, _)| AdminListener(tokio::spawn(serve_admin(listener, http.admin)))));
    set_root_key(&config.auth, &node)?;
    let every = Duration::from_millis(config.cluster.mirror_ms.into());
    let own = node.membership().map(|membership| OwnNode {
        membership: membership.clone(),
        partitions: server.partitions(),
        clock,
        node: node.clone(),
    });
    let mirrors = own.clone().map(|own| SessionMirrors::start(own, every));
    let on_the_way = OnTheWay::default();
    let moves =
        own.clone().zip(mirrors.clone()).map(|(own, mirrors)| SessionMoves::start(own, mirrors, on_the_way.clone()));
    let departures = own.zip(moves.clone()).map(|(own, moves)| Departures::start(own, moves, on_the_way));
    let upstream = Arc::new(NodeUpstream::new(node.clone(), http.session_events, accounts, moves));
    let peers = peers(shared.trusted);
    let server = server.start_partitions(http.clients, upstream, peers).map_err(StartError::Partitions)?;
    let guilds = inherited.as_mut().map(|inherited| mem::take(&mut inherited.guilds));
    take_over(config, server.partitions(), &node, guilds).await;
    // The first connection obeys them already.
    guards.keep(Some(experiments.follow().await?));
    let passed = inherited.as_mut().map(|inherited| mem::take(&mut inherited.conns));
    let adopted = passed.map(|conns| (conns.len(), server.adopt(conns)));
    let server = server.open(ports.listener).map_err(StartError::Partitions)?;
    if let (Some(mut inherited), Some((passed, conns))) = (inherited, adopted) {
        // The previous process may have given up waiting; its connections are here.
        let _ = inherited.serving(passed, conns);
    }

    let upgrades = start_upgrades(&config.codec, &shared.contexts, server.partitions(), clock);
    if config.codec.upgrades == guildhall_settings::Upgrades::Auto {
        http.reports.set_upgrades(upgrades.reader());
    }
    let sampler = Sampler::start(&http.reports);
    guards.keep(bill_worker.map(SpareThread::start).transpose().map_err(StartError::Partitions)?);
    guards.keep(Some(SpareThread::start(shared.lab.work()).map_err(StartError::Partitions)?));
    guards.keep(Some(SpareThread::start(experiments.judge()).map_err(StartError::Partitions)?));
    Ok(RunningNode {
        stop: Stop::of(config, &node, departures.zip(mirrors)),
        node,
        local_addr: ports.local_addr,
        admin_addr,
        gateway_url: ports.gateway_url,
        visitors: http.visitors,
        reports: http.reports,
        operator_requests: Some(http.operator_requests),
        telemetry: Telemetry { sampler, traces, access: shared.access },
        ready: shared.ready,
        server,
        store,
        compression: Compression { contexts: shared.contexts, upgrades },
        live,
        guards,
        listeners,
    })
}

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TakeoverError> + Send + 'static,
) -> Result<T, TakeoverError> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.unwrap_or_else(|panic| Err(TakeoverError::Broken(io::Error::other(panic))))
}

/// Takes the port, opens what the node stores in, and starts its guild workers. The previous process ends in between.
async fn prepare(
    config: &Config,
    mut predecessor: Option<Predecessor>,
    guards: &mut Guards,
) -> Result<(Parts, Option<BillWorker>, Option<Inherited>), StartError> {
    let ports = open_ports(config, predecessor.as_mut(), guards)?;
    let dictionaries = config.codec.dictionaries_dir.as_deref().map(dictionaries::load).transpose()?;
    let clock = SystemClock::default();
    let contexts = checked_contexts(&config.codec)?;
    let inherited = match predecessor {
        Some(predecessor) => Some(blocking(move || predecessor.wait()).await?),
        None => None,
    };
    let store = match &inherited {
        Some(_) => database::open_after(config).await?,
        None => database::open(config, None).await?,
    };
    let (store, jwt_secret) = with_secret(config, store).await?;
    guards.keep(database::lock_data_dir(config)?);
    let membership = cluster::join(config, (ports.local_addr, &ports.gateway_url), (&store, clock)).await?;
    let access = open_access_log(config, clock)?;
    let (bill, bill_worker) = bandwidth_bill(&config.codec)?;
    let dictionaries = InstalledDictionaries::open(store.clone(), dictionaries.unwrap_or_default()).await?;
    guards.keep(membership.is_some().then(|| dictionaries.follow()));
    let shared = Shared {
        contexts,
        bill,
        lab: NodeLab::new(dictionaries.clone(), membership.as_ref().map(|membership| membership.number().0.into())),
        dictionaries,
        access,
        trusted: config.limits.rest_trusted_proxies.0.as_slice().into(),
        ready: Arc::new(AtomicBool::new(false)),
    };
    let (server, streams) = prepare_server(config, &ports, membership.as_deref(), &shared, clock)?;
    let files = open_files_folder(config, &ports.gateway_url, &store, clock).await?;
    let mut limits = node_limits(config);
    limits.guild.links = LinkRenewer(files.clone().map(|files| Arc::new(files) as Arc<dyn RenewLinks>));
    let voice_key = voice_key(&config.voice)?.map(Arc::new);
    limits.guild.voice_signer = VoiceSigner(voice_key.clone().map(|key| key as Arc<dyn SignVoiceTokens>));
    let node = Node::start_as(
        node_config(config, jwt_secret),
        limits,
        store.clone(),
        Arc::new(NodeClock(clock)),
        Arc::new(PartitionSink(server.partitions())),
        membership,
    );
    node.read_revocations().await?;
    let experiments = NodeExperiments::new(
        node.clone(),
        server.partitions(),
        (shared.contexts.clone(), streams),
        shared.dictionaries.clone(),
    );
    let parts = Parts { ports, clock, store, shared, server, files, node, experiments, voice_key };
    Ok((parts, bill_worker, inherited))
}

fn open_ports(
    config: &Config,
    mut predecessor: Option<&mut Predecessor>,
    guards: &mut Guards,
) -> Result<Ports, StartError> {
    let places = open_files::places(config.server.connections_max, open_files::raise_limit());
    tracing::info!(
        connections_max = places.connections_max,
        configured = config.server.connections_max,
        open_files = places.allowed.map_or_else(|| "unlimited".to_owned(), |allowed| allowed.to_string()),
        "places for sockets"
    );
    let listen = config.server.listen;
    let (listener, local_addr) = match predecessor.as_mut().and_then(|old| old.take_listener(listen)) {
        Some(listener) => inherited(listen, listener)?,
        None => listen_on(listen)?,
    };
    let admin = match config.server.admin_listen {
        None => None,
        Some(listen) => Some(match predecessor.as_mut().and_then(|old| old.take_admin(listen)) {
            Some(listener) => inherited(listen, listener)?,
            None => listen_on(listen)?,
        }),
    };
    let tls = tls::read(&config.tls)?;
    guards.keep(tls.as_ref().map(tls::Pair::watch));
    let gateway_url = gateway_url(config.server.public_url.as_ref(), local_addr, tls.is_some());
    if config.server.public_url.is_none() && local_addr.ip().is_unspecified() {
        tracing::warn!(
            gateway_url,
            "clients on other machines get no URL of the gateway (421), and resume at this one: set server.public_url"
        );
    }
    Ok(Ports { places, listener, local_addr, admin, tls, gateway_url })
}

fn checked_contexts(codec: &CodecConfig) -> Result<ContextPool, StartError> {
    let contexts = contexts(codec)?;
    // Read here, because the check at the start creates contexts too.
    let stats = contexts.stats();
    tracing::info!(
        bytes_max = stats.bytes_max,
        zlib_bytes = stats.zlib.slot_bytes,
        zstd_bytes = stats.zstd.slot_bytes,
        zstd_upgraded_bytes = stats.zstd_upgraded.slot_bytes,
        "compression contexts",
    );
    Ok(contexts)
}

fn prepare_server(
    config: &Config,
    ports: &Ports,
    membership: Option<&Membership>,
    shared: &Shared,
    clock: SystemClock,
) -> Result<(Server, StreamCodec), StartError> {
    let mut server = server_config(config, &ports.gateway_url, ports.places, shared.contexts.clone())?;
    server.node_number = membership.map_or(0, |membership| membership.number().0);
    server.partition.fetches_sessions = membership.is_some();
    server.partition.mirrors_sessions = membership.is_some() && config.cluster.mirror_ms > 0;
    server.access = shared.access.clone();
    server.certificates = ports.tls.as_ref().map(|tls| tls.certificates.clone());
    server.partition.dictionaries = shared.dictionaries.offered().clone();
    server.partition.shared_dictionaries = shared.dictionaries.shared().clone();
    server.partition.bill = shared.bill.clone();
    server.partition.taps = shared.lab.taps().clone();
    let streams = server.partition.stream_codec;
    Ok((Server::prepare(server, clock).map_err(StartError::Partitions)?, streams))
}

/// Keys of other issuers, from the file or the URL.
fn start_key_sets(auth: &AuthConfig, node: &Node, guards: &mut Guards) -> Result<(), StartError> {
    guards.keep(issuers::start(auth, node).map_err(|(path, source)| StartError::Issuers { path, source })?);
    guards.keep(jwks_url::start(auth, node)?);
    Ok(())
}

/// The parts to which settings apply without a restart.
fn live_parts(config: &Config, parts: &Parts) -> Live {
    let Parts { ports, server, node, .. } = parts;
    let disk = config.store.sqlite_dir();
    Live {
        retention: node.keep_messages(config.messages.keep_days),
        gate: server.identify_gate(),
        disk: disk.map(|dir| DiskWatch::start(dir.to_owned(), node.clone(), config.store.free_bytes_min)),
        tls: ports.tls.clone(),
        files_allowed: ports.places.allowed,
    }
}

/// Limits of accounts for all nodes of the cluster.
fn start_accounts(parts: &Parts) -> Option<Arc<ClusterAccounts>> {
    let membership = parts.node.membership()?;
    Some(ClusterAccounts::start(membership.clone(), parts.server.identify_gate(), parts.clock))
}

fn start_traces(config: &Config, node: &Node) -> Result<Option<Traces>, StartError> {
    let traces = traces::start(&config.traces, random()?)?;
    if let (Some(traces), Some(membership)) = (&traces, node.membership()) {
        traces.resume_for(membership);
    }
    Ok(traces)
}

fn start_pruner(config: &Config, parts: &Parts) -> Option<AuditPruner> {
    let keep_ms = audit_keep_ms(config)?;
    Some(AuditPruner::start(parts.node.clone(), Arc::new(NodeClock(parts.clock)), keep_ms))
}

/// The hook of the settings, unless the program has one of its own.
fn with_review_hook(config: &Config, mut hooks: Hooks) -> Result<Hooks, StartError> {
    if hooks.review_message.is_none()
        && let Some(hook) = ReviewHook::of(&config.hook)?
    {
        tracing::info!(host = config.hook.url.as_ref().map(|url| url.host()), "messages pass a hook before delivery");
        hooks.review_message = Some(Arc::new(hook));
    }
    Ok(hooks)
}

/// Also where no events are kept any more: those of before go.
fn start_event_pruner(config: &Config, parts: &Parts) -> EventPruner {
    let keep_ms = u64::from(config.events.keep_hours) * 3_600_000;
    EventPruner::start(parts.node.clone(), Arc::new(NodeClock(parts.clock)), keep_ms, config.events.rows_max.into())
}

fn set_root_key(auth: &AuthConfig, node: &Node) -> Result<(), StartError> {
    if let Some(key) = secret("auth.admin_key_file", &auth.admin_key, &auth.admin_key_file)? {
        node.set_root_key(key.reveal());
    }
    Ok(())
}

/// The loop that reads memory: it bounds contexts, and grants larger ones while there is room.
fn start_upgrades(
    codec: &CodecConfig,
    contexts: &ContextPool,
    partitions: &Partitions,
    clock: SystemClock,
) -> Upgrades {
    let settings = UpgradeConfig { memory_percent: codec.upgrade_memory_percent.min(100) as u8 };
    let may_upgrade = codec.upgrades == guildhall_settings::Upgrades::Auto;
    let reader = MemoryReader::new(codec.memory_bytes_max);
    Upgrades::start(settings, may_upgrade, reader, clock, contexts.clone(), partitions.clone())
}

/// Opens the store, and finds or makes the key for user tokens. `in_use_wait_ms`: see `database::open`.
///
/// # Errors
/// `Store`, `SecretFile`, `SecretTooShort`, `Randomness`.
pub async fn open_store(config: &Config, in_use_wait_ms: Option<u32>) -> Result<(Arc<dyn Store>, Vec<u8>), StartError> {
    with_secret(config, database::open(config, in_use_wait_ms).await?).await
}

async fn with_secret(config: &Config, store: Arc<dyn Store>) -> Result<(Arc<dyn Store>, Vec<u8>), StartError> {
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
        account_day_percent: config.uploads.account_day_percent,
        guild_percent: config.uploads.guild_percent,
        pictures_percent: config.uploads.pictures_percent,
        file_bytes_max: config.uploads.file_bytes_max.into(),
        picture_bytes_max: config.uploads.picture_bytes_max.into(),
        sweep_every: FILES_SWEPT_EVERY,
        links_expire_s: config.uploads.links_expire_s,
    };
    let clock = Arc::new(NodeClock(clock));
    Files::open(options, clock).await.map(Some).map_err(|source| StartError::Files { path, source })
}
