//! `guildhall config`: the configuration, explained.

use super::{Common, ConfigFile, Failure, load_config, say, serve::need_no_demo};
use crate::{exposure::exposed, preflight};
use clap::{Args, Subcommand};
use guildhall_settings::{Sources, default_toml, effective_toml, read_file};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Examples:
  # The settings in use, and the source of each value:
  guildhall config
  guildhall config --config /etc/guildhall.toml --set server.partitions=2
  # Would `serve` start with it? Prints the errors, or the settings:
  guildhall config check --config /etc/guildhall.toml
  # The same for this file alone, without the environment:
  guildhall config check /etc/guildhall.toml
  # All settings with units, limits and defaults, commented out:
  guildhall config default > guildhall.toml

`check` opens every file that the configuration names, as `serve` does, prints
everything that is wrong, and exits with 2 where `serve` would. It warns about
secrets that other users of this machine can read, and never prints them.";

/// Arguments of `config`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ConfigArgs {
    #[command(subcommand)]
    what: Option<ConfigAction>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum ConfigAction {
    /// Check the configuration that `serve` would read, or one file alone
    Check {
        /// Check this file, without environment and flags
        #[arg(conflicts_with_all = ["config", "set", "log_format", "log_level"])]
        file: Option<PathBuf>,
        #[command(flatten)]
        common: Box<Common>,
    },
    /// Print a file with all settings and their defaults
    Default,
}

/// Prints the settings if a node could start with them. Opens every file that they name, as `serve` does.
fn check(sources: &Sources) -> Result<(), Failure> {
    let loaded = load_config(sources)?;
    need_no_demo(&loaded.config)?;
    preflight::check(&loaded.config).map_err(|error| Failure::Usage(error.into()))?;
    exposed(&loaded).iter().for_each(|exposed| eprintln!("warning: {exposed}"));
    say(&effective_toml(&loaded));
    say(&match &sources.file {
        Some((path, _)) => format!("\n# {} is fine\n", path.display()),
        None => "\n# no file; all of it is fine\n".to_owned(),
    });
    Ok(())
}

pub(super) fn run(args: ConfigArgs, environment: Vec<(String, String)>) -> Result<(), Failure> {
    match args.what {
        None => {
            let sources = args.common.sources(environment, Vec::new(), ConfigFile::Default)?;
            say(&effective_toml(&load_config(&sources)?));
        }
        Some(ConfigAction::Default) => say(&default_toml()),
        Some(ConfigAction::Check { file: Some(file), .. }) => {
            let read = read_file(Some(&file), &[]).map_err(|error| Failure::Usage(error.into()))?;
            check(&Sources { file: read, ..Sources::default() })?;
        }
        Some(ConfigAction::Check { file: None, common }) => {
            check(&common.sources(environment, Vec::new(), ConfigFile::Default)?)?
        }
    }
    Ok(())
}
