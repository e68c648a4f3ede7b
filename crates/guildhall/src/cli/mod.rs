//! Command line: arguments, and the configuration that results from them.
//!
//! Owns        the subcommands with their arguments and help, one module each; `Command` lists them.
//! Doors       `Cli::parse`, then `run`.
//! Invariants  standard output has only the command's result. A mistake in arguments or configuration is
//!             `Failure::Usage`, so that supervisors need not restart the command.
//! Not here    signals and exit codes: `main`.

mod backup;
mod capture;
mod cluster;
mod config;
mod demo;
mod doctor;
mod experiment;
mod import;
mod key;
mod lab;
mod lab_dark;
mod lab_dictionary;
mod lab_nodes;
mod lab_record;
mod mock;
mod offline;
mod publish;
mod remote;
mod replay;
mod serve;
mod shell;
mod store;
mod token;
mod upgrade;

use crate::{config::load, start_error::StartError};
use clap::{Args, Parser, Subcommand};
use guildhall_settings::{Flag, Loaded, Sources, read_file};
use std::{
    future::Future,
    io::{self, Write as _},
    path::PathBuf,
};

const EXIT_CODES: &str = "\
Exit codes:
  0  done, or stopped by SIGTERM or SIGINT
  1  failure: the message says why
  2  wrong arguments or configuration: the same command fails again";

const PRECEDENCE: &str = "\
Settings, from the strongest to the weakest:
  1. flags        --listen 0.0.0.0:8080, or --set server.listen=0.0.0.0:8080
  2. environment  GUILDHALL__SERVER__LISTEN=0.0.0.0:8080
  3. the file     --config FILE, else $GUILDHALL_CONFIG, else ./guildhall.toml
  4. defaults     `guildhall config default` prints all, with documentation";

/// A self-hosted real-time gateway that speaks the Discord Gateway v10 protocol
#[derive(Debug, Parser)]
#[command(
    name = "guildhall",
    version,
    propagate_version = true,
    max_term_width = 110,
    after_help = "To try it out: `guildhall demo` runs a node with a simulated community.",
    after_long_help = format!("To try it out: `guildhall demo` runs a node with a simulated community.\n\n{PRECEDENCE}\n\n{EXIT_CODES}")
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node in the foreground
    #[command(after_long_help = serve::HELP)]
    Serve(serve::ServeArgs),
    /// Run a node with a simulated community, to try Guildhall out
    #[command(after_long_help = demo::HELP)]
    Demo(demo::DemoArgs),
    /// Replace a running node by this program, without reconnects
    #[command(after_long_help = upgrade::HELP)]
    Upgrade(upgrade::UpgradeArgs),
    /// Create or revoke tokens, while no node runs
    #[command(after_long_help = token::HELP)]
    Token(token::TokenArgs),
    /// Create, list or revoke keys of the backend API, while no node runs
    #[command(after_long_help = key::HELP)]
    Key(key::KeyArgs),
    /// Import members into a guild of a running node
    #[command(after_long_help = import::HELP)]
    Import(import::ImportArgs),
    /// Publish events to the clients of a running node
    #[command(after_long_help = publish::HELP)]
    Publish(publish::PublishArgs),
    /// Show the nodes of a cluster, or stop one
    #[command(after_long_help = cluster::HELP)]
    Cluster(cluster::ClusterArgs),
    /// Copy a node's database and files to a new directory, also while the node runs
    #[command(after_long_help = backup::BACKUP_HELP)]
    Backup(backup::BackupArgs),
    /// Copy a backup into an empty data directory
    #[command(after_long_help = backup::RESTORE_HELP)]
    Restore(backup::RestoreArgs),
    /// Copy a node's database from SQLite into PostgreSQL, while no node runs
    #[command(after_long_help = store::HELP)]
    Store(store::StoreArgs),
    /// Check this machine, the configuration and the data for problems
    #[command(after_long_help = doctor::HELP)]
    Doctor(doctor::DoctorArgs),
    /// Show, check or explain the configuration
    #[command(after_long_help = config::HELP)]
    Config(config::ConfigArgs),
    /// Record what sessions are sent, and find out which compression suits it
    #[command(after_long_help = lab::HELP)]
    Lab(lab::LabArgs),
    /// Give some accounts another compression, compare, and take it back
    #[command(after_long_help = experiment::HELP)]
    Experiment(experiment::ExperimentArgs),
    /// Play scenarios to a client, and judge what it does
    #[command(after_long_help = mock::HELP)]
    Mock(mock::MockArgs),
    /// Record the bytes of a gateway
    #[command(after_long_help = capture::HELP)]
    Capture(capture::CaptureArgs),
    /// Serve a capture as a gateway
    #[command(after_long_help = replay::HELP)]
    Replay(replay::ReplayArgs),
    /// Print a completion script for a shell
    #[command(after_long_help = shell::COMPLETIONS_HELP)]
    Completions(shell::CompletionsArgs),
    /// Print the manual page, or write one per command
    #[command(after_long_help = shell::MAN_HELP)]
    Man(shell::ManArgs),
}

impl Command {
    /// Whether the command writes files that other users of the machine must not read. Dictionaries are public.
    #[must_use]
    pub fn keeps_secrets(&self) -> bool {
        !matches!(self, Self::Lab(args) if args.is_training())
    }
}

/// Arguments of every command.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Configuration")]
pub struct Common {
    /// Read settings from this TOML file [default: $GUILDHALL_CONFIG, else ./guildhall.toml if it exists]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Set any setting; may be repeated
    #[arg(long, value_name = "SECTION.KEY=VALUE", value_parser = parse_set, global = true)]
    set: Vec<(String, String)>,
    /// Format of log lines: text or json
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Log level: error, warn, info, debug or trace, also per module
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

fn parse_set(text: &str) -> Result<(String, String), String> {
    let (setting, value) = text.split_once('=').ok_or("expected SECTION.KEY=VALUE, like server.partitions=2")?;
    Ok((setting.trim().to_owned(), value.to_owned()))
}

/// Reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// Arguments or configuration are invalid.
    Usage(anyhow::Error),
    /// Any other error.
    Other(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// Runs the command. `stop` ends commands that otherwise run until a signal.
///
/// # Errors
/// See [`Failure`].
pub async fn run(
    command: Command,
    environment: Vec<(String, String)>,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::run(args, environment, stop).await,
        Command::Demo(args) => demo::run(args, environment, stop).await,
        Command::Upgrade(args) => upgrade::run(args, environment).await,
        Command::Token(args) => token::run(args, environment).await,
        Command::Key(args) => key::run(args, environment).await,
        Command::Import(args) => import::run(args, &environment).await,
        Command::Publish(args) => publish::run(args, &environment).await,
        Command::Cluster(args) => cluster::run(args, &environment).await,
        Command::Backup(args) => backup::backup(args, environment).await,
        Command::Restore(args) => backup::restore(args, environment),
        Command::Store(args) => store::run(args, environment).await,
        Command::Doctor(args) => doctor::run(args, environment).await,
        Command::Config(args) => config::run(args, environment),
        Command::Lab(args) => lab::run(args, &environment, stop).await,
        Command::Experiment(args) => experiment::run(args, &environment).await,
        Command::Mock(args) => mock::run(args, stop).await,
        Command::Capture(args) => capture::run(args, stop).await,
        Command::Replay(args) => replay::run(args, stop).await,
        Command::Completions(args) => {
            shell::completions(&args);
            Ok(())
        }
        Command::Man(args) => shell::man(&args),
    }
}

/// File of settings that a command reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConfigFile {
    /// That of --config, or else of the environment or the default path.
    Default,
    /// Only that of --config.
    OnlyNamed,
}

impl Common {
    /// Sources of the configuration. `flags` are the command's own; `--set` overrides them.
    fn sources(
        &self,
        environment: Vec<(String, String)>,
        mut flags: Vec<Flag>,
        file: ConfigFile,
    ) -> Result<Sources, Failure> {
        let file = if file == ConfigFile::Default || self.config.is_some() {
            read_file(self.config.as_deref(), &environment).map_err(|error| Failure::Usage(error.into()))?
        } else {
            None
        };
        for (name, setting, value) in
            [("--log-format", "log.format", &self.log_format), ("--log-level", "log.level", &self.log_level)]
        {
            flags.extend(value.iter().map(|value| Flag::new(name, setting, value)));
        }
        flags.extend(self.set.iter().map(|(setting, value)| Flag::new("--set", setting, value)));
        Ok(Sources { file, environment, flags, ..Sources::default() })
    }
}

/// Classifies a failed start: `Usage` if the configuration, or a file that it names, has to be changed.
fn start_failure(error: anyhow::Error) -> Failure {
    match error.downcast_ref::<StartError>() {
        Some(start) if start.is_configuration() => Failure::Usage(error),
        _ => Failure::Other(error),
    }
}

fn load_config(sources: &Sources) -> Result<Loaded, Failure> {
    load(sources).map_err(|error| Failure::Usage(error.into()))
}

/// Settings for the arguments that were given.
fn flags<'a>(given: impl IntoIterator<Item = (&'a str, &'a str, Option<String>)>) -> Vec<Flag> {
    given.into_iter().filter_map(|(name, setting, value)| Some(Flag::new(name, setting, value?))).collect()
}

/// Writes to standard output. A closed pipe is ignored, because its reader has ended.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_are_parsed() {
        let check = |line: &str, is_fine: bool| {
            let parsed = Cli::try_parse_from(line.split_whitespace());
            assert_eq!(parsed.is_ok(), is_fine, "{line}: {:?}", parsed.err().map(|e| e.to_string()));
        };
        check("guildhall serve", true);
        check("guildhall serve --listen 0.0.0.0:80 --data d --partitions 2 --set limits.write_stall_ms=1000", true);
        check("guildhall serve --takeover --data d", true);
        check("guildhall upgrade --data d --config f", true);
        check("guildhall serve --set nonsense", false);
        check("guildhall demo", true);
        check(
            "guildhall demo --listen 127.0.0.1:8080 --data d --members 10 --rate 0.25 --chat f.ndjson --seed 7",
            true,
        );
        check("guildhall demo --rate 0 --public-url ws://127.0.0.1:9", true);
        for rate in ["-1", "nan", "inf", "fast", "1e9"] {
            check(&format!("guildhall demo --rate={rate}"), false);
        }
        check("guildhall demo --members 0", false);
        check("guildhall demo --members 100001", false);
        check("guildhall token bot --new helper", true);
        check("guildhall token bot", false);
        check("guildhall token bot --new helper --id 5", false);
        check("guildhall token bot --id x", false);
        check("guildhall token user --id 5 --ttl 90m", true);
        check("guildhall token user --id 5 --ttl 0s", false);
        check("guildhall token user --id 5 --ttl soon", false);
        check("guildhall token revoke", true);
        check("guildhall key create --name shop --scopes read,write", true);
        check("guildhall key create --name shop --scopes all", true);
        check("guildhall key create --name shop --scopes fly", false);
        check("guildhall key create --name shop", false);
        check("guildhall import m.ndjson --guild 5 --skip 7 --events --server http://127.0.0.1:1 --key-file k", true);
        check("guildhall import m.ndjson", false);
        check("guildhall import m.ndjson --guild 5 --server https://example.net --ca ca.pem", true);
        check("guildhall import m.ndjson --guild 5 --server wss://example.net", false);
        check("guildhall serve --listen localhost:8080", true);
        check("guildhall backup d --data n", true);
        check("guildhall backup", false);
        check("guildhall restore d --data n", true);
        check("guildhall store copy --from sqlite:d --to postgres://a@b/c", true);
        check("guildhall store copy --config f", true);
        check("guildhall store", false);
        check("guildhall doctor --config f", true);
        check("guildhall publish --event X --data 1 --guild 5", true);
        check("guildhall publish --event X --guild 5 --role 6 --role 7", true);
        check("guildhall publish --event X --role 6", false);
        check("guildhall publish --event X --data { --guild 5", false);
        check("guildhall publish --file f", true);
        check("guildhall publish --file f --event X", false);
        check("guildhall publish", false);
        check("guildhall key list", true);
        check("guildhall key revoke 5", true);
        check("guildhall config", true);
        check("guildhall config check a.toml", true);
        check("guildhall config check", true);
        check("guildhall config check --config a.toml --set server.partitions=2", true);
        check("guildhall config check a.toml --config b.toml", false);
        check("guildhall config default", true);
        check("guildhall lab train f g --out d", true);
        check("guildhall lab train --generated session --out d", true);
        check("guildhall lab train --generated channel --chat f --bytes 32768 --seed 7 --out d", true);
        check("guildhall lab train --generated node --tables --out d", true);
        check("guildhall lab train f --generated session --out d", false);
        check("guildhall lab train f --tables --out d", false);
        check("guildhall lab train f --chat c --out d", false);
        check("guildhall lab train --out d", false);
        check("guildhall lab show d --content", true);
        check("guildhall lab dictionary list", true);
        check("guildhall lab dictionary stage f --encoding etf", true);
        check("guildhall lab dictionary stage", false);
        check("guildhall lab dictionary serve 00112233445566778899aabbccddeeff --permille 1", true);
        check("guildhall lab dictionary serve 00112233445566778899aabbccddeeff --permille 1001", false);
        check("guildhall lab dictionary withdraw x", false);
        check("guildhall dictionary train --out d", false);
        check("guildhall lab record --out f --minutes 5 --one-in 10 --encoding etf --platform web --guild 5", true);
        check("guildhall lab record", false);
        check("guildhall lab record --out f --encoding xml", false);
        check("guildhall lab record --out f --minutes 0", false);
        check("guildhall lab show f", true);
        check("guildhall lab show f g --arm zlib --arm zstd:level=3,window=21", true);
        check("guildhall lab show f --arm zstd:level=99", false);
        check("guildhall lab show", false);
        check("guildhall mock --list", true);
        check(
            "guildhall mock op-7 ./mine.toml --listen 127.0.0.1:0 --json --patience 3 --timeout 9 -- node b.js",
            true,
        );
        check("guildhall mock --all -- node bot.js --flag", true);
        check("guildhall mock", false);
        check("guildhall mock --all op-7", false);
        check("guildhall mock op-7 --patience 0", false);
        check("guildhall mock op-7 --listen here", false);
        check(
            "guildhall capture --to wss://example.net --out f --listen 127.0.0.1:0 --ca c --with-contents-of-users",
            true,
        );
        check("guildhall capture --to ws://127.0.0.1:1", false);
        check("guildhall replay f --full-speed --listen 127.0.0.1:0", true);
        check("guildhall replay", false);
        check("guildhall experiment list", true);
        check("guildhall experiment start a --percent 0.5 --arm control=node --arm fast=zstd:level=3*2", true);
        check("guildhall experiment start a --percent 0.05 --arm control=node --arm fast=zstd", false);
        check("guildhall experiment start a", false);
        check("guildhall experiment start a --from-draft", true);
        check("guildhall experiment ramp a --percent 50", true);
        check("guildhall experiment stop a --reconnect --reason enough", true);
        check("guildhall experiment report a", true);
        check("guildhall", false);
        check("guildhall dance", false);
    }

    /// A terminal often has 80 columns. It wraps longer lines, in the middle of a command or of JSON.
    #[test]
    fn examples_fit_a_terminal() {
        let helps = [
            ("serve", serve::HELP),
            ("demo", demo::HELP),
            ("token", token::HELP),
            ("key", key::HELP),
            ("import", import::HELP),
            ("publish", publish::HELP),
            ("backup", backup::BACKUP_HELP),
            ("restore", backup::RESTORE_HELP),
            ("store", store::HELP),
            ("doctor", doctor::HELP),
            ("config", config::HELP),
            ("lab", lab::HELP),
            ("experiment", experiment::HELP),
            ("exit codes", EXIT_CODES),
            ("settings", PRECEDENCE),
        ];
        for (name, help) in helps {
            for line in help.lines() {
                assert!(line.chars().count() <= 79, "{name}: {} characters: {line}", line.chars().count());
            }
        }
        // The terminal shows the examples as they are written.
        let mut cli = Cli::command().term_width(80);
        for (name, help) in &helps[..12] {
            let shown = cli.find_subcommand_mut(name).unwrap().render_long_help().to_string();
            assert!(shown.contains(help.trim_end()), "{name}: {shown}");
        }
    }

    #[test]
    fn every_command_explains_itself() {
        let mut cli = Cli::command();
        let names = ["serve", "demo", "token", "key", "import", "publish", "backup", "restore", "store", "doctor"];
        for name in names.into_iter().chain(["config", "lab", "experiment"]) {
            let help = cli.find_subcommand_mut(name).unwrap().render_long_help().to_string();
            assert!(help.contains("Examples:") && help.contains("guildhall "), "{name}: {help}");
        }
        let help = cli.render_long_help().to_string();
        assert!(help.contains("Exit codes:") && help.contains("from the strongest to the weakest"), "{help}");
    }
}
