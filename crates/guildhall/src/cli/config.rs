//! `guildhall config`: the configuration, explained.

use super::{Common, Failure, load_config, say};
use crate::{
    assemble::secret,
    config::{Sources, default_toml, effective_toml, read_file},
};
use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Examples:
  guildhall config                                    what is in force here, and where each value came from
  guildhall config --config /etc/guildhall.toml --set server.partitions=2
  guildhall config check --config /etc/guildhall.toml is it fine? Says everything that is wrong with it, or what is in force
  guildhall config check /etc/guildhall.toml          is this file fine, whatever the environment says?
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
    /// Check the configuration, as `serve` would read it, or one file alone
    Check {
        /// The file, without environment and flags
        #[arg(conflicts_with_all = ["config", "set", "log_format", "log_level"])]
        file: Option<PathBuf>,
        #[command(flatten)]
        common: Box<Common>,
    },
    /// Print a file with all settings and their defaults
    Default,
}

/// Says what is in force, if nothing is wrong with it: files with secrets are looked at, and never shown.
fn check(sources: &Sources) -> Result<(), Failure> {
    let loaded = load_config(sources)?;
    let auth = &loaded.config.auth;
    secret("auth.jwt_secret_file", &auth.jwt_secret, &auth.jwt_secret_file).map_err(|e| Failure::Usage(e.into()))?;
    secret("auth.admin_key_file", &auth.admin_key, &auth.admin_key_file).map_err(|e| Failure::Usage(e.into()))?;
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
            let sources = args.common.sources(environment, Vec::new(), true)?;
            say(&effective_toml(&load_config(&sources)?));
        }
        Some(What::Default) => say(&default_toml()),
        Some(What::Check { file: Some(file), .. }) => {
            let read = read_file(Some(&file), &[]).map_err(|error| Failure::Usage(error.into()))?;
            check(&Sources { file: read, ..Sources::default() })?;
        }
        Some(What::Check { file: None, common }) => check(&common.sources(environment, Vec::new(), true)?)?,
    }
    Ok(())
}
