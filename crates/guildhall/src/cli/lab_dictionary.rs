//! `guildhall lab dictionary`: dictionaries of a running node.

use super::{Failure, remote::Remote, say};
use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand, builder::PossibleValuesParser};
use guildhall_codec::{DICTIONARY_BYTES_MAX, Dictionary, DictionaryId};
use serde::Deserialize;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};

#[derive(Debug, Subcommand)]
pub(super) enum DictionaryCommand {
    /// List the dictionaries of a node, with their states and connections
    List {
        #[command(flatten)]
        remote: Remote,
    },
    /// Store a dictionary on a node; no client may name it yet
    Stage(StageArgs),
    /// Serve a dictionary to all accounts, or to a share of them
    Serve {
        /// Id of the dictionary
        id: DictionaryId,
        /// Thousandths of the accounts; a larger share has all accounts of a smaller one
        #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        permille: u16,
        #[command(flatten)]
        remote: Remote,
    },
    /// Serve a dictionary to no new connection
    Withdraw {
        /// Id of the dictionary
        id: DictionaryId,
        #[command(flatten)]
        remote: Remote,
    },
    /// Remove a dictionary that is not served
    Remove {
        /// Id of the dictionary
        id: DictionaryId,
        #[command(flatten)]
        remote: Remote,
    },
}

#[derive(Args, Debug)]
pub(super) struct StageArgs {
    /// File that `guildhall lab train` wrote
    file: PathBuf,
    /// Encoding that the dictionary is for [default: the one in the file's name]
    #[arg(long, value_name = "ENCODING", value_parser = PossibleValuesParser::new(["json", "etf"]))]
    encoding: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

const DICTIONARIES: &str = "/v1/lab/dictionaries";

#[derive(Debug, Deserialize)]
struct Listed {
    id: String,
    encoding: String,
    size: u64,
    state: String,
    permille: u16,
    source: String,
    connections: u64,
    connections_total: u64,
}

pub(super) async fn run(command: DictionaryCommand, environment: &[(String, String)]) -> Result<(), Failure> {
    match command {
        DictionaryCommand::List { remote } => {
            let all: Vec<Listed> = remote.asking(environment)?.get(DICTIONARIES).await?;
            say(&table(&all));
        }
        DictionaryCommand::Stage(args) => {
            let encoding = args.encoding.or_else(|| encoding_in_name(&args.file)).ok_or_else(|| {
                let file = args.file.display();
                Failure::Usage(anyhow!("{file} is not named ID.json.zdict or ID.etf.zdict: give --encoding"))
            })?;
            let bytes = read(&args.file).map_err(Failure::Usage)?;
            let node = args.remote.asking(environment)?;
            let staged: Listed = node.send_file(&format!("{DICTIONARIES}?encoding={encoding}"), bytes).await?;
            say(&table(&[staged]));
        }
        DictionaryCommand::Serve { id, permille, remote } => {
            let path = format!("{DICTIONARIES}/{id}/serve");
            let served: Listed = remote.asking(environment)?.send(&path, &json!({"permille": permille})).await?;
            say(&table(&[served]));
        }
        DictionaryCommand::Withdraw { id, remote } => {
            let path = format!("{DICTIONARIES}/{id}/withdraw");
            let withdrawn: Listed = remote.asking(environment)?.send(&path, &json!({})).await?;
            say(&table(&[withdrawn]));
        }
        DictionaryCommand::Remove { id, remote } => {
            remote.asking(environment)?.delete(&format!("{DICTIONARIES}/{id}")).await?;
        }
    }
    Ok(())
}

fn encoding_in_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(".zdict")?;
    let (_, encoding) = name.split_once('.')?;
    matches!(encoding, "json" | "etf").then(|| encoding.to_owned())
}

/// Checked here too, so that a wrong file is named before a request.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let name = || path.display().to_string();
    let size = fs::metadata(path).with_context(|| format!("{} cannot be read", name()))?.len();
    anyhow::ensure!(size <= DICTIONARY_BYTES_MAX as u64, "{} is larger than 1 MiB", name());
    let bytes = fs::read(path).with_context(|| format!("{} cannot be read", name()))?;
    Dictionary::new(bytes.clone()).with_context(|| format!("{} is no dictionary", name()))?;
    Ok(bytes)
}

fn table(all: &[Listed]) -> String {
    let mut out = format!(
        "{:<32}  {:<4} {:>8}  {:<9} {:>6}  {:<6} {:>11} {:>8}\n",
        "id", "for", "bytes", "state", "share", "source", "connections", "in all"
    );
    for Listed { id, encoding, size, state, permille, source, connections, connections_total } in all {
        let share = if state == "served" { format!("{:.1}%", f64::from(*permille) / 10.0) } else { "-".to_owned() };
        out += &format!(
            "{id}  {encoding:<4} {size:>8}  {state:<9} {share:>6}  {source:<6} {connections:>11} {connections_total:>8}\n"
        );
    }
    out
}
