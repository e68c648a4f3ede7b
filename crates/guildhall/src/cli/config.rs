//! `guildhall config`: the configuration, explained.

use super::{Common, Failure, load_config, say};
use crate::config::{Sources, default_toml, effective_toml, read_file};
use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Examples:
  guildhall config                                    what is in force here, and where each value came from
  guildhall config --config /etc/guildhall.toml --set server.partitions=2
  guildhall config check /etc/guildhall.toml          is this file fine? Says everything that is wrong with it
  guildhall config default > guildhall.toml           all settings with units, limits and defaults, commented out

Secrets are never printed.";

/// Arguments of `config`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ConfigArgs {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Check a file
    Check {
        /// The file
        file: PathBuf,
    },
    /// Print a file with all settings and their defaults
    Default,
}

pub(super) fn run(args: ConfigArgs, environment: Vec<(String, String)>) -> Result<(), Failure> {
    match args.what {
        None => {
            let sources = args.common.sources(environment, Vec::new(), true)?;
            say(&effective_toml(&load_config(&sources)?));
        }
        Some(What::Default) => say(&default_toml()),
        Some(What::Check { file }) => {
            let read = read_file(Some(&file), &[]).map_err(|error| Failure::Usage(error.into()))?;
            load_config(&Sources { file: read, ..Sources::default() })?;
            say(&format!("{} is fine\n", file.display()));
        }
    }
    Ok(())
}
