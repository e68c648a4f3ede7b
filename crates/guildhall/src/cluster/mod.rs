//! Cluster: joins this node to the one that the configuration names, on NATS.
//!
//! Owns        the options of NATS and of the membership, and the cluster's key; the sessions of all nodes
//!             (`sessions`), their moves (`moves`, `departures`) and mirrors (`mirrors`), which use the node by a port
//!             (`port`), and the limits of accounts on all nodes (`accounts`).
//! Not here    what a membership does: `guildhall-node`.

mod accounts;
mod claims;
mod departures;
mod mirrors;
mod moves;
mod pace;
mod port;
mod sessions;
#[cfg(test)]
mod simulation;

pub use accounts::ClusterAccounts;
pub use claims::OnTheWay;
pub use departures::Departures;
pub use mirrors::SessionMirrors;
pub use moves::SessionMoves;
pub use port::OwnNode;
pub use sessions::ClusterGateway;

use crate::{clock::NodeClock, secrets::random, start_error::StartError};
use guildhall_backend::{ActionFault, DrainQuestion, NodeReports as _};
use guildhall_bus::{Bus, KeyValue, NatsBus, NatsCredentials, NatsKv, NatsOptions, NatsTls};
use guildhall_net::SystemClock;
use guildhall_node::{BalanceOptions, ClusterKey, Membership, MembershipOptions, Node};
use guildhall_settings::{BalanceMode, ClusterConfig, Config, Database, NatsUrl};
use guildhall_store::Store;
use guildhall_telemetry::{memory::MemoryReader, reports::Reports};
use std::{net::SocketAddr, sync::Arc};
use tracing::{instrument::WithSubscriber as _, subscriber::NoSubscriber};

/// Setting of the store with the cluster's key.
const KEY_SETTING: &str = "cluster_key";

/// What to do about a NATS server without access control.
pub const NATS_IS_OPEN: &str = "NATS takes clients without credentials: whoever reaches its port can read the events of all guilds \
     and stop the cluster. Set `authorization` in the configuration of NATS and the credentials in cluster.nats_url or \
     cluster.nats_credentials_file (docs/cluster.md)";

/// Default of `cluster.name`.
const NAME: &str = "guildhall";

/// Name of the cluster that the configuration names; none: the node is alone.
#[must_use]
pub fn name(config: &Config) -> Option<&str> {
    config.cluster.nats_url.as_ref()?;
    Some(config.cluster.name.as_ref().map_or(NAME, |name| name.as_str()))
}

/// Joins the cluster. None: the configuration names none.
///
/// # Errors
/// `Cluster`.
pub async fn join(
    config: &Config,
    (listen, gateway_url): (SocketAddr, &str),
    (store, clock): (&Arc<dyn Store>, SystemClock),
) -> Result<Option<Arc<Membership>>, StartError> {
    let Some((bus, kv)) = connect(config).await? else { return Ok(None) };
    let cluster = &config.cluster;
    let membership = MembershipOptions {
        node_name: cluster.node_name.as_ref().map_or_else(|| listen.to_string(), |name| name.as_str().to_owned()),
        url: gateway_url.to_owned(),
        weight: cluster.weight,
        lease_ms: cluster.lease_ms.into(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        key: cluster_key(&**store).await?,
        balance: BalanceOptions { is_on: cluster.balance == BalanceMode::On, ..BalanceOptions::default() },
    };
    warn_if_open(config).await;
    let membership = Membership::join(membership, bus, kv, Arc::new(NodeClock(clock))).await?;
    let memory = MemoryReader::new(config.codec.memory_bytes_max);
    membership.on_memory(move || memory.read().ok().map(|memory| (memory.used_bytes, memory.limit_bytes)));
    Ok(Some(membership))
}

/// The key by which nodes seal what they send each other: the first node makes it.
async fn cluster_key(store: &dyn Store) -> Result<ClusterKey, StartError> {
    let found = store.setting_or_insert(KEY_SETTING, &random::<32>()?).await?;
    found.try_into().map(ClusterKey).map_err(|_| StartError::ClusterKey)
}

/// Whether NATS takes clients that have no credentials. They cannot act as nodes, but read what nodes send each other,
/// and can stop the cluster.
pub async fn is_nats_open(config: &Config) -> bool {
    let Some(url) = &config.cluster.nats_url else { return false };
    let options = nats_options(&config.cluster, url, name(config));
    if matches!(options.credentials, NatsCredentials::None) {
        // It has taken this node.
        return true;
    }
    let options = NatsOptions { credentials: NatsCredentials::None, ..options };
    // The client library logs a refusal as an error; here it is the expected outcome.
    NatsBus::connect(&options).with_subscriber(NoSubscriber::default()).await.is_ok()
}

async fn warn_if_open(config: &Config) {
    if is_nats_open(config).await {
        tracing::warn!("{NATS_IS_OPEN}");
    }
}

/// Connects to NATS and opens the lease store, as a node does.
///
/// # Errors
/// `ClusterStore`, `Nats`.
pub async fn check_nats(config: &Config) -> Result<(), StartError> {
    connect(config).await.map(drop)
}

/// None: the configuration names no cluster.
async fn connect(config: &Config) -> Result<Option<(Arc<dyn Bus>, Arc<dyn KeyValue>)>, StartError> {
    let Some(url) = &config.cluster.nats_url else { return Ok(None) };
    if !matches!(config.store.database(), Database::Postgres(_)) {
        return Err(StartError::ClusterStore);
    }
    let options = nats_options(&config.cluster, url, name(config));
    let fault = |source| StartError::Nats { url: url.redacted(), source };
    let bus: Arc<dyn Bus> = Arc::new(NatsBus::connect(&options).await.map_err(fault)?);
    let kv: Arc<dyn KeyValue> = Arc::new(NatsKv::connect(&options).await.map_err(fault)?);
    Ok(Some((bus, kv)))
}

fn nats_options(cluster: &ClusterConfig, url: &NatsUrl, name: Option<&str>) -> NatsOptions {
    let credentials = match (&cluster.nats_credentials_file, url.account()) {
        (Some(path), _) => NatsCredentials::CredsFile(path.clone()),
        (None, Some((user, Some(password)))) => {
            NatsCredentials::UserPassword { user: user.to_owned(), password: password.to_owned() }
        }
        (None, Some((token, None))) => NatsCredentials::Token(token.to_owned()),
        (None, None) => NatsCredentials::None,
    };
    let ca = cluster.nats_ca_file.clone();
    NatsOptions {
        credentials,
        tls: ca.map(|ca| NatsTls { ca: Some(ca), ..NatsTls::default() }),
        name_prefix: name.unwrap_or(NAME).to_owned(),
        client_name: cluster.node_name.as_ref().map_or(NAME, |name| name.as_str()).to_owned(),
        ..NatsOptions::new(url.servers())
    }
}

/// Completes when another node has this one's number: the process has to end.
pub async fn lost(node: &Node) {
    match node.membership() {
        Some(membership) => drop(membership.lost().wait_for(|is_lost| *is_lost).await),
        None => std::future::pending().await,
    }
}

/// Other nodes may drain this one.
pub fn answer_drains(membership: &Membership, reports: &Arc<Reports>) {
    let reports = Arc::downgrade(reports);
    membership.on_question(move |DrainQuestion| {
        let reports = reports.upgrade();
        async move {
            let drained = match reports {
                Some(reports) => reports.drain().await,
                None => Err(ActionFault::Busy),
            };
            Some(drained.map_err(|fault| fault.to_string()))
        }
    });
}
