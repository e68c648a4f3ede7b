//! `guildhall serve`: a node, until it is told to stop.

use super::{Common, Failure, flags, load_config};
use crate::{assemble::assemble, config::effective_line, logging};
use clap::Args;
use std::future::Future;

pub(super) const HELP: &str = "\
Examples:
  guildhall serve                                     on 127.0.0.1:8080, state in ./data/node
  guildhall serve --listen 0.0.0.0:8080 --public-url wss://gateway.example.net --data /var/lib/guildhall
  guildhall serve --config /etc/guildhall.toml --log-format json
  GUILDHALL__LIMITS__SESSION_RESUME_MS=60000 guildhall serve

Is it up?   GET /healthz (the process answers), GET /readyz (send it clients).
Stop it:    SIGTERM or SIGINT; what is under way is finished first. A second signal ends it at once.
First bot:  guildhall token bot --new mybot --data DIR, before the first start or between two.";

/// Arguments of `serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Address and port for HTTP and WebSocket [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// The URL that clients open their WebSocket at, when a proxy stands in front
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Keep state in this folder [default: data/node]
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
    let loaded = load_config(&args.common.sources(environment, flags, true)?)?;
    logging::init(&loaded.config.log);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), config = effective_line(&loaded), "starting");
    let running = assemble(&loaded.config).await?;
    running.set_ready();
    tracing::info!(listen = %running.local_addr, gateway_url = running.gateway_url, "ready");
    let failed = tokio::select! {
        () = stop => false,
        () = running.failed() => true,
    };
    Ok(running.end(failed).await?)
}
