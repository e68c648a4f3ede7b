//! `guildhall key`: keys of the backend API, written to the store while no node runs.

use super::{
    Failure,
    offline::{self, Need, OfflineArgs},
};
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use guildhall_model::UserId;
use guildhall_node::{Node, Scope};
use std::fmt::Write as _;

pub(super) const HELP: &str = "\
Examples:
  # A key for a backend; it is printed only once:
  guildhall key create --name shop --scopes read,write,publish
  # A key that can only create tokens of this account:
  guildhall key create --name login --accounts 1100000000000000042
  # List keys and their scopes:
  guildhall key list
  # Revoke a key:
  guildhall key revoke 1100000000000000042

Scopes: read, write, publish, tokens, sessions, keys, lab, messages, events;
`all` for every one of them. Standard output has the key and nothing else; its
id goes to standard error. The node must not run: the data directory (--data,
or store.dir) belongs to one process. While it runs, POST, GET and DELETE
/v1/keys do the same, with a key that has the scope `keys`.";

/// Arguments of `key`.
#[derive(Args, Debug)]
pub struct KeyArgs {
    #[command(subcommand)]
    what: KeyAction,
    #[command(flatten)]
    offline: OfflineArgs,
}

#[derive(Debug, Subcommand)]
enum KeyAction {
    /// Create a key and print it once
    Create {
        /// Name of the key, shown in lists and in the audit log
        #[arg(long, value_name = "NAME", value_parser = parse_name)]
        name: String,
        /// Scopes of the key, separated by commas
        #[arg(long, value_name = "SCOPES", value_delimiter = ',', required_unless_present = "accounts", value_parser = parse_scope)]
        scopes: Vec<Scopes>,
        /// Restrict the key to tokens of these accounts, separated by commas; instead of scopes
        #[arg(long, value_name = "IDS", value_delimiter = ',', conflicts_with = "scopes")]
        accounts: Vec<UserId>,
    },
    /// List the keys
    List,
    /// Revoke a key by its id
    Revoke {
        /// Id of the key, as `list` prints it
        #[arg(value_name = "ID")]
        id: u64,
    },
}

/// One scope, or all.
#[derive(Clone, Debug)]
struct Scopes(Vec<Scope>);

fn parse_scope(text: &str) -> Result<Scopes, String> {
    if text == "all" {
        return Ok(Scopes(Scope::ALL.to_vec()));
    }
    let names = Scope::ALL.map(Scope::as_str).join(", ");
    Scope::from_name(text).map(|scope| Scopes(vec![scope])).ok_or_else(|| format!("expected one of {names}, or all"))
}

fn parse_name(text: &str) -> Result<String, String> {
    if (1..=64).contains(&text.chars().count()) {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 64 characters".to_owned())
    }
}

pub(super) async fn run(args: KeyArgs, environment: Vec<(String, String)>) -> Result<(), Failure> {
    let instead = "use its API (POST, GET, DELETE /v1/keys), or stop it first";
    let need = if matches!(args.what, KeyAction::Create { .. }) { Need::Nothing } else { Need::Database };
    offline::run(args.offline, environment, (instead, need), async |node| execute(node, args.what).await).await
}

/// Executes the command, and returns the text for standard output.
async fn execute(node: &Node, what: KeyAction) -> anyhow::Result<String> {
    match what {
        KeyAction::Create { name, scopes, accounts } => {
            let scopes: Vec<Scope> = scopes.into_iter().flat_map(|scopes| scopes.0).collect();
            let (key, text) = match accounts.as_slice() {
                [] => node.create_key(&name, &scopes).await?,
                accounts => node.create_key_for(&name, accounts).await?,
            };
            eprintln!("key {}", key.id.unwrap_or(0));
            Ok(text + "\n")
        }
        KeyAction::List => {
            let keys = node.keys().await.context("the keys cannot be read")?;
            Ok(keys.iter().fold(String::new(), |mut text, key| {
                let scopes = key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(",");
                let accounts =
                    key.accounts.as_ref().map_or(String::new(), |accounts| format!(" ({} accounts)", accounts.len()));
                let _ = writeln!(text, "{}\t{}\t{scopes}{accounts}\t{}", key.id.unwrap_or(0), key.created_at, key.name);
                text
            }))
        }
        KeyAction::Revoke { id } => match node.revoke_key(id).await.context("the key cannot be revoked")? {
            true => Ok("revoked\n".to_owned()),
            false => bail!("there is no key {id}: `guildhall key list` shows those there are"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_all_scopes() {
        assert!(Scope::ALL.iter().all(|scope| HELP.contains(scope.as_str())), "{HELP}");
    }
}
