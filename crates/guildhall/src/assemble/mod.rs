//! Assembly: a configuration becomes a running node.
//!
//! Owns        the order in which the parts start (`assemble`).
//! Invariants  A1 the port is taken before anything is written, and served before anything is ready. (A2: `running`)
//! Not here    how the parts talk to each other: `wiring`. How they stop: `running`. Signals and exit codes: `main`.

mod http;
mod limits;
mod listen;
mod running;
mod secrets;
mod sessions;
mod start_error;

pub use limits::node_config;
pub use listen::reachable;
pub use running::RunningNode;
pub use secrets::{random, secret};
pub use start_error::StartError;

use crate::{
    cluster::{self, ClusterAccounts},
    config::context_params,
    database, dictionaries,
    disk::DiskWatch,
    files, issuers, jwks_url, open_files, preflight, tls,
    upgrades::Upgrades,
    wiring::{NodeClock, NodeUpstream, PartitionSink, peers},
};
use guildhall_api::{AuditPruner, Files, FilesOptions};
use guildhall_codec::{ContextPool, Dictionaries};
use guildhall_guild::{LinkRenewer, RenewLinks};
use guildhall_memory_budget::UpgradeConfig;
use guildhall_net::{AccessLog, RecentLoss, Server, SystemClock, serve_admin};
use guildhall_node::Node;
use guildhall_partition::{Bill, BillWorker};
use guildhall_settings::{AuthConfig, CodecConfig, Config, TlsConfig, UploadMode};
use guildhall_store::Store;
use guildhall_telemetry::{bill::BillThread, memory::MemoryReader, reports::Sampler, traces};
use limits::{audit_keep_ms, node_limits, server_config};
use listen::{gateway_url, listen_on};
use running::{AdminListener, DrainTimes};
use sessions::{HandOverTo, take_over};
use std::{
    net::IpAddr,
    path::PathBuf,
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
    let (store, jwt_secret) = open_store(config, None).await?;
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
    let accounts =
        node.membership().map(|membership| ClusterAccounts::start(membership.clone(), server.identify_gate(), clock));
    let disk = config.store.sqlite_dir();
    let disk = disk.map(|dir| DiskWatch::start(dir.to_owned(), node.clone(), config.store.free_bytes_min));
    let traces = traces::start(&config.traces, random()?)?;
    if let (Some(traces), Some(membership)) = (&traces, node.membership()) {
        traces.resume_for(membership);
    }
    let trusted: Arc<[IpAddr]> = config.limits.rest_trusted_proxies.0.as_slice().into();
    let parts = http::Parts {
        config,
        clock,
        gateway_url: &gateway_url,
        server: &server,
        node: &node,
        store: &store,
        contexts: &contexts,
        bill,
        files,
        access: access.clone(),
        dictionaries,
        traces: traces.as_ref(),
        accounts: accounts.clone(),
        ready: ready.clone(),
        trusted: trusted.clone(),
    };
    let http = parts.http();
    let pruner =
        audit_keep_ms(config).map(|keep_ms| AuditPruner::start(node.clone(), Arc::new(NodeClock(clock)), keep_ms));
    let admin_addr = admin.as_ref().map(|(_, addr)| *addr);
    let admin = admin.map(|(listener, _)| AdminListener(tokio::spawn(serve_admin(listener, http.admin))));
    if let Some(key) = secret("auth.admin_key_file", &config.auth.admin_key, &config.auth.admin_key_file)? {
        node.set_root_key(key.reveal());
    }
    let upstream = Arc::new(NodeUpstream::new(node.clone(), http.session_events, accounts));
    let gate = server.identify_gate();
    let server = server.start_partitions(http.clients, upstream, peers(trusted)).map_err(StartError::Partitions)?;
    take_over(config, server.partitions(), &node).await;
    let server = server.open(listener).map_err(StartError::Partitions)?;

    let drain = DrainTimes::of(config);
    let upgrades = match config.codec.upgrades {
        guildhall_settings::Upgrades::Off => None,
        guildhall_settings::Upgrades::Auto => {
            let settings = UpgradeConfig { memory_percent: config.codec.upgrade_memory_percent.min(100) as u8 };
            let reader = MemoryReader::new(config.codec.memory_bytes_max);
            let upgrades = Upgrades::start(settings, reader, clock, contexts.clone(), server.partitions().clone());
            http.reports.set_upgrades(upgrades.reader());
            Some(upgrades)
        }
    };
    let sampler = Sampler::start(&http.reports);
    let loss = if node.membership().is_some() { RecentLoss::Possible } else { RecentLoss::None };
    let bill_thread = bill_worker.map(BillThread::start).transpose().map_err(StartError::Partitions)?;
    Ok(RunningNode {
        node,
        local_addr,
        admin_addr,
        gateway_url,
        visitors: http.visitors,
        reports: http.reports,
        asked: Some(http.asked),
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
    let contexts = ContextPool::new(context_params(codec, bytes_max))?;
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
    let (bill, worker) = Bill::new(codec.bill_one_in, ContextPool::new(context_params(codec, u64::MAX))?);
    Ok((bill, Some(worker)))
}

/// Opens the store, and finds or makes the key for user tokens. `in_use_wait_ms`: see `database::open`.
///
/// # Errors
/// `Store`, `SecretFile`, `SecretTooShort`, `Randomness`.
pub async fn open_store(config: &Config, in_use_wait_ms: Option<u32>) -> Result<(Arc<dyn Store>, Vec<u8>), StartError> {
    let store = database::open(config, in_use_wait_ms).await?;
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
