//! Offline: commands that use the store directly, while no node runs on it.
//!
//! Owns        the arguments that these commands share, and a node without listeners for the time of the command.
//! Invariants  the store is closed whether the command succeeds or fails.

use super::{Common, ConfigFile, Failure, flags, load_config, say, start_failure};
use crate::{
    assemble::{node_config, open_store},
    clock::NodeClock,
    start_error::StartError,
    wiring::NoPartitions,
};
use anyhow::ensure;
use clap::Args;
use guildhall_node::Node;
use guildhall_settings::{DATABASE_FILE, Database, DatabaseCheck, StoreConfig};
use guildhall_store::{LOCK_FILE, StoreError};
use std::sync::Arc;

/// How long a command waits for a node that ends on the same PostgreSQL database.
const IN_USE_WAIT_MS: u32 = 1_000;

/// The node whose store is used.
#[derive(Args, Debug)]
pub(super) struct OfflineArgs {
    /// Data directory of the node [default: data/node]
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Whether a command may make the database: before the first start of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Database,
    Nothing,
}

/// Refuses a folder without a database. A command would create one there that no node opens.
fn refuse_folder_without_database(store: &StoreConfig, need: Need) -> anyhow::Result<()> {
    let Database::Sqlite(dir) = store.database() else { return Ok(()) };
    // A node locks its folder also if its database is elsewhere.
    let is_elsewhere = dir.join(LOCK_FILE).exists() && !dir.join(DATABASE_FILE).exists();
    ensure!(
        !is_elsewhere,
        "{} is the folder of a node whose database is elsewhere (store.url): give the node's settings by --config FILE",
        dir.display()
    );
    ensure!(
        need == Need::Nothing || dir.join(DATABASE_FILE).exists(),
        "{} has no {DATABASE_FILE}: name the data directory by --data, or the node's settings by --config FILE",
        dir.display()
    );
    Ok(())
}

/// Executes `work`, and prints its result to standard output. `instead` is the advice for the error if a node runs.
pub(super) async fn run(
    args: OfflineArgs,
    environment: Vec<(String, String)>,
    (instead, need): (&str, Need),
    work: impl AsyncFnOnce(&Node) -> anyhow::Result<String>,
) -> Result<(), Failure> {
    let flags = flags([("--data", "store.dir", args.data)]);
    let mut config = load_config(&args.common.sources(environment, flags, ConfigFile::Default)?)?.config;
    refuse_folder_without_database(&config.store, need)?;
    // A token needs few rows, so the database is not checked.
    config.store.check = DatabaseCheck::Off;
    let (store, jwt_secret) = open_store(&config, Some(IN_USE_WAIT_MS)).await.map_err(|error| match error {
        StartError::Store(error @ StoreError::InUse { .. }) => {
            Failure::Other(anyhow::Error::from(error).context(format!("a node runs on this data directory: {instead}")))
        }
        StartError::Store(error @ StoreError::DatabaseInUse { .. }) => {
            Failure::Other(anyhow::Error::from(error).context(format!("a node runs on this database: {instead}")))
        }
        error => start_failure(error.into()),
    })?;
    let clock = Arc::new(NodeClock::default());
    let node = Node::start(node_config(&config, jwt_secret), store.clone(), clock, Arc::new(NoPartitions));
    let done = work(&node).await;
    node.shut_down().await;
    store.close().await;
    say(&done?);
    Ok(())
}
