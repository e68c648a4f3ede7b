//! `guildhall serve`: runs a node until a signal stops it. SIGHUP makes it read its configuration again.

use super::{Common, ConfigFile, Failure, flags, load_config, start_failure};
use crate::{
    Server, ServerError,
    assemble::RunningNode,
    exposure::{Exposed, exposed},
    takeover::notify,
};
use anyhow::anyhow;
use clap::Args;
use guildhall_backend::{ActionFault, Reloaded};
use guildhall_settings::{Change, ChatMode, Config, Loaded, changed_line, changes, effective_line, merged};
use guildhall_telemetry::{
    logging::{self, LogHandle},
    reports::OperatorRequest,
};
use std::{future::Future, pin::pin};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

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
    /// Take over the connections of the node that runs on the data directory, which then ends
    #[arg(long)]
    takeover: bool,
    #[command(flatten)]
    common: Common,
}

/// `serve` gives no accounts away.
pub(super) fn need_no_demo(config: &Config) -> Result<(), Failure> {
    if config.server.chat == ChatMode::Demo {
        return Err(Failure::Usage(anyhow!(
            "server.chat = \"demo\" makes accounts for visitors, which `guildhall demo` alone does: set it to \"on\" or \"off\""
        )));
    }
    Ok(())
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
        let loaded = load_config(&args.common.sources(environment.clone(), flags.clone(), ConfigFile::Default)?)?;
        need_no_demo(&loaded.config)?;
        Ok(loaded)
    };
    let mut loaded = read()?;
    let log = logging::init(&loaded.config.log);
    // Installed first: without a handler, SIGHUP ends the process.
    let mut hangups = signal(SignalKind::hangup())?;
    let allocator = if cfg!(feature = "jemalloc") { "jemalloc" } else { "system" };
    tracing::info!(version = env!("CARGO_PKG_VERSION"), allocator, config = %changed_line(&loaded), "starting");
    tracing::debug!(config = %effective_line(&loaded), "all settings");
    for Exposed { setting, path, mode } in exposed(&loaded) {
        let (path, mode) = (path.display(), format!("{mode:o}"));
        tracing::warn!(setting, %path, mode, "other users can read this file, which has a secret: run chmod go= on it");
    }
    let server = Server::builder().config(&loaded.config).takes_over(args.takeover).start().await;
    let server = server.map_err(|error| match error {
        ServerError::Start(error) => start_failure(error.into()),
        error => Failure::Usage(error.into()),
    });
    let mut running = server?.into_running();
    let mut door = running.open_door(&loaded.config.store.dir);
    let admin_listen = running.admin_addr.map(tracing::field::display);
    tracing::info!(listen = %running.local_addr, admin_listen, gateway_url = running.gateway_url, "ready");
    notify("READY=1");
    running.reports.set_settings(&loaded);
    let mut stop = pin!(stop);
    loop {
        let next = async {
            match &mut door {
                Some((_, successors)) => successors.recv().await,
                None => None,
            }
        };
        let mut successor = None;
        let ended = async {
            tokio::select! {
                () = &mut stop => {}
                Some(ready) = next => successor = Some(ready),
            }
        };
        let failed = run_until(ended, &mut running, &log, (&mut loaded, &read), &mut hangups).await;
        let Some(ready) = successor else {
            notify("STOPPING=1");
            // It has a duplicate of the listener, which would go on to take connections that get no answer.
            drop(door);
            return Ok(running.end(failed).await?);
        };
        match running.freeze_for(&ready).await {
            Ok(frozen_at_ns) => {
                let (door, _) = door.expect("it has passed the process on");
                return Ok(running.pass_on(ready, door, frozen_at_ns).await?);
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the takeover failed; this process goes on");
                ready.abort("the takeover failed");
            }
        }
    }
}

/// Reloads the configuration on request, until the node is to stop. Returns whether a part of it has failed.
pub(super) async fn run_until(
    stop: impl Future<Output = ()>,
    running: &mut RunningNode,
    log: &LogHandle,
    (loaded, read): (&mut Loaded, impl Fn() -> Result<Loaded, Failure>),
    hangups: &mut Signal,
) -> bool {
    let mut requests = running.take_operator_requests();
    let mut stop = pin!(stop);
    let has_failed = loop {
        tokio::select! {
            () = &mut stop => break false,
            () = running.failed() => break true,
            Some(()) = hangups.recv() => {
                // The log has the reason.
                let _ = reload(running, log, loaded, read());
            }
            Some(request) = next(&mut requests) => match request {
                OperatorRequest::Drain => break false,
                // An operator who has gone needs no answer.
                OperatorRequest::Reload(answer) => drop(answer.send(reload(running, log, loaded, read()))),
            }
        }
    };
    // The node may go on.
    running.put_operator_requests(requests);
    has_failed
}

/// The next request of an operator.
async fn next(requests: &mut Option<mpsc::Receiver<OperatorRequest>>) -> Option<OperatorRequest> {
    requests.as_mut()?.recv().await
}

/// Applies the live settings of a configuration that was read again. The reason why it is wrong is logged, too.
fn reload(
    running: &mut RunningNode,
    log: &LogHandle,
    loaded: &mut Loaded,
    read: Result<Loaded, Failure>,
) -> Result<Reloaded, ActionFault> {
    running.reopen_logs();
    let read = read.map_err(|(Failure::Usage(error) | Failure::Other(error))| {
        let error = format!("{error:#}");
        tracing::error!(error, "the configuration is wrong: nothing was changed");
        ActionFault::Configuration(error)
    })?;
    let differing = changes(loaded, &read);
    let merged = merged(loaded, &read);
    if let Err(error) = running.take_settings(&merged.config) {
        tracing::error!(error = &error as &dyn std::error::Error, "nothing was changed");
        return Err(ActionFault::Configuration(error.to_string()));
    }
    log.set_level(&merged.config.log.level);
    running.reports.set_settings(&merged);
    *loaded = merged;
    let live_count = differing.iter().filter(|change| change.is_live).count();
    tracing::info!(changed = live_count, need_restart = differing.len() - live_count, "configuration read again");
    let mut reloaded = Reloaded::default();
    for Change { setting, from, to, is_live } in differing {
        if is_live {
            tracing::info!(setting, from, to, "a setting changed");
            reloaded.applied.push(setting);
        } else {
            tracing::warn!(setting, from, to, "a setting changed that needs a restart");
            reloaded.need_restart.push(setting);
        }
    }
    Ok(reloaded)
}
