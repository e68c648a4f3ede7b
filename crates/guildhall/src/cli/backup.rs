//! `guildhall backup` and `guildhall restore`.

use super::{Common, Failure, flags, load_config, say};
use crate::backup::{self, Summary};
use clap::Args;
use std::path::PathBuf;

pub(super) const BACKUP_HELP: &str = "\
Examples:
  # While the node runs, or while it does not:
  guildhall backup /backups/monday --data /var/lib/guildhall
  # With the data directory of a configuration file:
  guildhall backup /backups/monday --config /etc/guildhall/guildhall.toml

DIR is a new directory for each backup. It holds a consistent copy of the
database, the files of messages, and last a manifest with sizes and hashes:
a directory without manifest.ndjson is no backup. It contains every message,
webhook tokens and the secret that signs user tokens: keep it as safe as the
node. See docs/operations/recipes.md, \"Backup and restore\".";

pub(super) const RESTORE_HELP: &str = "\
Examples:
  # Into a new or empty directory; then start a node on it:
  guildhall restore /backups/monday --data /var/lib/guildhall-restored
  guildhall serve --data /var/lib/guildhall-restored

Nothing is ever overwritten: the data directory must not exist or be empty.
Each file is compared with the manifest. Tokens and keys that were revoked
after the backup are valid again after a restore: revoke them again.";

/// Arguments of `backup`.
#[derive(Args, Debug)]
pub struct BackupArgs {
    /// New directory for the backup
    #[arg(value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    of: Of,
}

/// Arguments of `restore`.
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// Directory of the backup
    #[arg(value_name = "DIR")]
    from: PathBuf,
    #[command(flatten)]
    of: Of,
}

/// The node whose data is saved or restored.
#[derive(Args, Debug)]
struct Of {
    /// Data directory of the node [default: data/node]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    #[command(flatten)]
    common: Common,
}

impl Of {
    fn dir(self, environment: Vec<(String, String)>) -> Result<PathBuf, Failure> {
        let flags = flags([("--data", "store.dir", self.data)]);
        Ok(load_config(&self.common.sources(environment, flags, true)?)?.config.store.dir)
    }
}

pub(super) async fn backup(args: BackupArgs, environment: Vec<(String, String)>) -> Result<(), Failure> {
    let data = args.of.dir(environment)?;
    let summary = backup::backup(&data, &args.to).await?;
    say(&told(&summary, "backed up"));
    Ok(())
}

pub(super) fn restore(args: RestoreArgs, environment: Vec<(String, String)>) -> Result<(), Failure> {
    let data = args.of.dir(environment)?;
    let summary = backup::restore(&args.from, &data)?;
    say(&told(&summary, "restored"));
    Ok(())
}

fn told(summary: &Summary, done: &str) -> String {
    let Summary { database_bytes, files, files_bytes } = summary;
    format!("{done}: a database of {database_bytes} bytes and {files} files of {files_bytes} bytes\n")
}
