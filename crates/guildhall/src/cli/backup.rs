//! `guildhall backup` and `guildhall restore`.

use super::{Common, ConfigFile, Failure, flags, load_config, say};
use crate::backup::{self, Summary};
use anyhow::anyhow;
use clap::Args;
use guildhall_settings::Config;
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
node. Files in a bucket (uploads.url) are not in it.
See docs/operations/recipes.md, \"Backup and restore\".";

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
    node: NodeArgs,
}

/// Arguments of `restore`.
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// Directory of the backup
    #[arg(value_name = "DIR")]
    from: PathBuf,
    #[command(flatten)]
    node: NodeArgs,
}

/// The node whose data is saved or restored.
#[derive(Args, Debug)]
struct NodeArgs {
    /// Data directory of the node [default: data/node]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    #[command(flatten)]
    common: Common,
}

impl NodeArgs {
    fn config(self, environment: Vec<(String, String)>) -> Result<Config, Failure> {
        let flags = flags([("--data", "store.dir", self.data)]);
        Ok(load_config(&self.common.sources(environment, flags, ConfigFile::Default)?)?.config)
    }
}

pub(super) async fn backup(args: BackupArgs, environment: Vec<(String, String)>) -> Result<(), Failure> {
    let Config { store, uploads, .. } = args.node.config(environment)?;
    let Some(database_dir) = store.sqlite_dir() else {
        let files = match &uploads.url {
            None => format!("then copy {}/files", store.dir.display()),
            Some(url) => format!("then copy {url} with the tools of its store"),
        };
        return Err(Failure::Usage(anyhow!(
            "store.url is a PostgreSQL database, which `guildhall backup` does not copy: use `pg_dump --format=custom`, \
             and {files} (docs/operations/recipes.md, \"PostgreSQL\")"
        )));
    };
    let summary = backup::backup(database_dir, &store.dir, &args.to).await?;
    say(&summary_line(&summary, "backed up"));
    if let Some(url) = &uploads.url {
        eprintln!(
            "the files in {url} are not in this backup: copy them after it with the tools of their store, or keep earlier \
             versions of objects there"
        );
    }
    Ok(())
}

pub(super) fn restore(args: RestoreArgs, environment: Vec<(String, String)>) -> Result<(), Failure> {
    let Config { store, uploads, .. } = args.node.config(environment)?;
    match store.sqlite_dir() {
        Some(dir) if dir == store.dir => {}
        Some(_) => {
            return Err(Failure::Usage(anyhow!(
                "a restore puts the database and the files into one directory, and store.url names another: restore with \
                 --set store.url= and then move guildhall.db there"
            )));
        }
        None => {
            return Err(Failure::Usage(anyhow!(
                "store.url is a PostgreSQL database, which `guildhall restore` does not fill: use `pg_restore` for a dump; \
                 or restore with --set store.url= and then `guildhall store copy` (docs/operations/recipes.md, \
                 \"PostgreSQL\")"
            )));
        }
    }
    let summary = backup::restore(&args.from, &store.dir)?;
    say(&summary_line(&summary, "restored"));
    if let Some(url) = &uploads.url {
        eprintln!(
            "uploads.url is {url}, where a node reads all files: a restore changes nothing there. The files of this backup \
             are in {}/files; copy them into the bucket under the same names",
            store.dir.display()
        );
    }
    Ok(())
}

fn summary_line(summary: &Summary, done: &str) -> String {
    let Summary { database_bytes, files, files_bytes } = summary;
    format!("{done}: a database of {database_bytes} bytes and {files} files of {files_bytes} bytes\n")
}
