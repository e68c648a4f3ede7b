//! `guildhall store`: copies a node's database into another one, while no node runs.
//!
//! Invariants  the target is empty before, and complete afterwards or still empty. (tests `it::postgres`)
//! Not here    the copy itself: `guildhall_store::copy_sqlite_to_postgres`.

use super::{Common, ConfigFile, Failure, load_config, say};
use anyhow::{anyhow, ensure};
use clap::{Args, Subcommand};
use guildhall_settings::{Config, Database, StoreUrl};
use guildhall_store::{Copied, DATABASE_FILE, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore};
use std::{
    fmt::Write as _,
    path::Path,
    time::{Duration, Instant},
};

pub(super) const HELP: &str = "\
Examples:
  # From the data directory of a node into a new, empty database:
  guildhall store copy --from sqlite:/var/lib/guildhall \\
      --to postgres://guildhall@db.example.net/guildhall
  # Both from the configuration: from store.dir to store.url:
  guildhall store copy --config /etc/guildhall/guildhall.toml

No node may run on either database. The target must be empty: nothing is ever
overwritten. The copy is one transaction, so a target is complete or empty, and
the rows of both databases are counted at the end. The source stays as it is,
but for its schema, which is brought up to date.

Files and pictures are not in the database, and are not copied: keep store.dir,
or the bucket of uploads.url. Tokens, keys and secrets are copied. Then set
store.url, and start the node. A password belongs into PGPASSWORD or ~/.pgpass,
because other users can see a command line. See docs/operations/recipes.md,
\"PostgreSQL\".";

/// Between two lines about the progress.
const TOLD_EVERY: Duration = Duration::from_secs(2);
/// How long the copy waits for a node that ends on the target.
const IN_USE_WAIT_MS: u32 = 1_000;

/// Arguments of `store`.
#[derive(Args, Debug)]
pub struct StoreArgs {
    #[command(subcommand)]
    what: StoreAction,
}

#[derive(Debug, Subcommand)]
enum StoreAction {
    /// Copy an SQLite database into an empty PostgreSQL database
    Copy {
        /// Database to copy: sqlite:DIR [default: sqlite: and store.dir]
        #[arg(long, value_name = "URL")]
        from: Option<String>,
        /// Empty database: postgres://user@host/database [default: store.url]
        #[arg(long, value_name = "URL")]
        to: Option<String>,
        #[command(flatten)]
        common: Common,
    },
}

pub(super) async fn run(args: StoreArgs, environment: Vec<(String, String)>) -> Result<(), Failure> {
    let StoreAction::Copy { from, to, common } = args.what;
    let Config { store, uploads, .. } =
        load_config(&common.sources(environment, Vec::new(), ConfigFile::Default)?)?.config;
    let from = parse("--from", from)?.unwrap_or_else(|| StoreUrl::sqlite(&store.dir));
    let usage = |problem: &str| Err(Failure::Usage(anyhow!("{problem}")));
    let Some(to) = parse("--to", to)?.or(store.url) else {
        return usage("name the target: --to postgres://user@host/database, or store.url");
    };
    match (from.database(), to.database()) {
        (Database::Sqlite(dir), Database::Postgres(url)) => {
            copy(dir, PostgresOptions::new(url.reveal())?).await?;
            match &uploads.url {
                None => eprintln!("files and pictures stay in {}/files", dir.display()),
                Some(url) => eprintln!("files and pictures stay in {url}"),
            }
            Ok(())
        }
        (Database::Postgres(_), _) => usage("--from must be sqlite:DIR: a PostgreSQL database is copied by pg_dump"),
        (_, Database::Sqlite(_)) => {
            usage("--to must be postgres://…: an SQLite database is copied by guildhall backup")
        }
    }
}

/// The parser of arguments would print a wrong URL with its password.
fn parse(flag: &str, url: Option<String>) -> Result<Option<StoreUrl>, Failure> {
    let parse = |url: String| {
        let url = StoreUrl::parse(&url)?;
        match url.database() {
            Database::Sqlite(_) => {}
            Database::Postgres(url) => drop(PostgresOptions::new(url.reveal()).map_err(|error| error.to_string())?),
        }
        Ok(url)
    };
    url.map(parse).transpose().map_err(|problem: String| Failure::Usage(anyhow!("{flag}: {problem}")))
}

async fn copy(from: &Path, mut options: PostgresOptions) -> anyhow::Result<()> {
    ensure!(from.join(DATABASE_FILE).exists(), "{} has no {DATABASE_FILE}: name the data directory", from.display());
    let source = SqliteStore::open(from, SqliteOptions::default()).await?;
    options.in_use_wait_ms = IN_USE_WAIT_MS;
    let copied = into(&source, options).await;
    source.close().await;
    say(&summary_line(&copied?));
    Ok(())
}

async fn into(source: &SqliteStore, options: PostgresOptions) -> anyhow::Result<Copied> {
    eprintln!("copying into {}", options.server());
    let target = PostgresStore::open(options).await?;
    let mut told_at = Instant::now();
    let progress = |table: &'static str, rows: u64, rows_total: u64| {
        if rows == rows_total || told_at.elapsed() >= TOLD_EVERY {
            told_at = Instant::now();
            eprintln!("{table}: {rows} of {rows_total} rows");
        }
    };
    let copied = guildhall_store::copy_sqlite_to_postgres(source, &target, progress).await;
    target.close().await;
    Ok(copied?)
}

fn summary_line(copied: &Copied) -> String {
    let mut text = String::new();
    for (table, rows) in &copied.tables {
        let _ = writeln!(text, "{table:<16} {rows:>12}");
    }
    let _ = writeln!(text, "copied: {} rows; both databases have the same numbers of rows", copied.rows());
    text
}
