//! `guildhall doctor`: its arguments. The checks are in `crate::doctor`.

use super::{Common, ConfigFile, Failure, flags, load_config, say};
use crate::doctor::{self, Level};
use anyhow::anyhow;
use clap::Args;
use std::fmt::Write as _;

pub(super) const HELP: &str = "\
Examples:
  guildhall doctor --config /etc/guildhall/guildhall.toml
  guildhall doctor --data /var/lib/guildhall

Checks the configuration and every file that it names, who can read its
secrets, the data directory's access rights, every page of the database, the
clock, files, the disk, sockets, the kernel, memory, and the expiry of the
certificate. It changes nothing, and may run while the node runs; run it as
the node's user. The exit code is 1 if a check says WRONG.";

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Data directory of the node [default: data/node]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    #[command(flatten)]
    common: Common,
}

pub(super) async fn run(args: DoctorArgs, environment: Vec<(String, String)>) -> Result<(), Failure> {
    let flags = flags([("--data", "store.dir", args.data)]);
    let loaded = load_config(&args.common.sources(environment, flags, ConfigFile::Default)?)?;
    let findings = doctor::examine(&loaded).await;
    let mut text = String::new();
    for finding in &findings {
        let _ = writeln!(text, "{finding}");
    }
    say(&text);
    match findings.iter().filter(|finding| finding.level == Level::Wrong).count() {
        0 => Ok(()),
        count => Err(anyhow!("{count} of {} checks failed", findings.len()).into()),
    }
}
