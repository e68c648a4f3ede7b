//! `guildhall upgrade`: has a running node pass its connections on to this program.

use super::{Common, ConfigFile, Failure, flags, load_config, say};
use crate::takeover::{Upgraded, upgrade};
use anyhow::{Context as _, anyhow};
use clap::Args;
use std::env;

pub(super) const HELP: &str = "\
Examples:
  # The program was replaced, and a node runs on ./data/node:
  guildhall upgrade
  sudo -u guildhall guildhall upgrade --data /var/lib/guildhall

The node starts this program with its own arguments and `--takeover`. The new
process reads the configuration, takes over sockets and sessions, and serves;
the old one ends. Clients notice a pause. Clients of TLS sockets of the node
itself reconnect and resume. If the new process does not get ready, the old
one goes on, and this command fails.";

/// Arguments of `upgrade`.
#[derive(Args, Debug)]
pub struct UpgradeArgs {
    /// Data directory of the node [default: data/node]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    #[command(flatten)]
    common: Common,
}

pub(super) async fn run(args: UpgradeArgs, environment: Vec<(String, String)>) -> Result<(), Failure> {
    let flags = flags([("--data", "store.dir", args.data)]);
    let loaded = load_config(&args.common.sources(environment, flags, ConfigFile::Default)?)?;
    let program = env::current_exe().context("the path of this program is not known")?;
    let dir = loaded.config.store.dir;
    let Upgraded { pid, result } = tokio::task::spawn_blocking(move || upgrade(&dir, program)).await??;
    let served =
        result.map_err(|reason| anyhow!("{reason}. The process that ran before goes on, if it had not ended"))?;
    let (conns, closed, pause_ms) = (served.conns, served.closed, served.pause_ms);
    say(&format!("process {pid} serves {conns} connections after a pause of {pause_ms} ms; {closed} were closed\n"));
    Ok(())
}
