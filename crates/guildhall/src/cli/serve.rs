//! `guildhall serve`: runs a node until a signal stops it. SIGHUP makes it read its configuration again.

use super::{Common, Failure, flags, load_config, start_failure};
use crate::{
    assemble::{Running, assemble},
    config::{ChatMode, Loaded, changed_line, effective_line},
    logging::{self, LogHandle},
    reload,
};
use anyhow::anyhow;
use clap::Args;
use std::{future::Future, pin::pin};
use tokio::signal::unix::{SignalKind, signal};

pub(super) const HELP: &str = "\
Examples:
  # On 127.0.0.1:8080, with state in ./data/node:
  guildhall serve
  # For other machines, behind a proxy that speaks TLS:
  guildhall serve --listen 0.0.0.0:8080 --data /var/lib/guildhall \\
      --public-url wss://gateway.example.net
  guildhall serve --config /etc/guildhall.toml --log-format json
  GUILDHALL__LIMITS__SESSION_RESUME_MS=60000 guildhall serve

Is it up?   GET /healthz (the process answers), GET /readyz (it takes clients).
Stop it:    SIGTERM or SIGINT. Clients reconnect, and requests in progress are
            completed. A second signal ends the node at once.
Reload it:  SIGHUP reads the configuration again. The log says which settings
            changed and which need a restart.
First bot:  guildhall token bot --new mybot --data DIR, while no node runs.
Is it well? guildhall doctor --data DIR";

/// Arguments of `serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Address and port for HTTP and WebSocket [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// URL that clients open their WebSocket at, if a proxy is in front of the node
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Data directory of the node [default: data/node]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Threads that own connections [default: one per core]
    #[arg(long, value_name = "COUNT")]
    partitions: Option<String>,
    #[command(flatten)]
    common: Common,
}

pub(super) async fn run(
    args: ServeArgs,
    environment: Vec<(String, String)>,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let flags = flags([
        ("--listen", "server.listen", args.listen),
        ("--public-url", "server.public_url", args.public_url),
        ("--data", "store.dir", args.data),
        ("--partitions", "server.partitions", args.partitions),
    ]);
    let read = || {
        let loaded = load_config(&args.common.sources(environment.clone(), flags.clone(), true)?)?;
        if loaded.config.server.chat == ChatMode::Demo {
            return Err(Failure::Usage(anyhow!(
                "server.chat = \"demo\" gives everybody an account, which `guildhall demo` alone does: set it to \"on\" or \"off\""
            )));
        }
        Ok(loaded)
    };
    let mut loaded = read()?;
    let log = logging::init(&loaded.config.log);
    // Installed first: without a handler, SIGHUP ends the process.
    let mut hangups = signal(SignalKind::hangup())?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), config = %changed_line(&loaded), "starting");
    tracing::debug!(config = %effective_line(&loaded), "all settings");
    let mut running = assemble(&loaded.config).await.map_err(|error| start_failure(error.into()))?;
    running.set_ready();
    let admin_listen = running.admin_addr.map(tracing::field::display);
    tracing::info!(listen = %running.local_addr, admin_listen, gateway_url = running.gateway_url, "ready");
    let mut stop = pin!(stop);
    let failed = loop {
        tokio::select! {
            () = &mut stop => break false,
            () = running.failed() => break true,
            Some(()) = hangups.recv() => {
                running.reopen_logs();
                match read() {
                    Ok(read) => loaded = take_over(&mut running, &log, &loaded, &read),
                    Err(Failure::Usage(error) | Failure::Other(error)) => {
                        tracing::error!(error = format!("{error:#}"), "the configuration is wrong: nothing was changed");
                    }
                }
            }
        }
    };
    Ok(running.end(failed).await?)
}

/// Applies the live settings of `read`; returns the configuration in force.
fn take_over(running: &mut Running, log: &LogHandle, in_force: &Loaded, read: &Loaded) -> Loaded {
    let changes = reload::changes(in_force, read);
    let merged = reload::merged(in_force, read);
    if let Err(error) = running.take_settings(&merged.config) {
        tracing::error!(error = &error as &dyn std::error::Error, "nothing was changed");
        return in_force.clone();
    }
    log.set_level(&merged.config.log.level);
    let live_count = changes.iter().filter(|change| change.is_live).count();
    tracing::info!(changed = live_count, need_restart = changes.len() - live_count, "configuration read again");
    for reload::Change { setting, from, to, is_live } in changes {
        if is_live {
            tracing::info!(setting, from, to, "a setting changed");
        } else {
            tracing::warn!(setting, from, to, "a setting changed that needs a restart");
        }
    }
    merged
}
