//! `guildhall demo`: its arguments, and the node that the crate `demo` seeds.

use super::{Common, ConfigFile, Failure, flags, load_config, say, serve::run_until, start_failure};
use crate::{
    assemble::{RunningNode, assemble, reachable},
    secrets::{random, secret},
};
use clap::Args;
use guildhall_demo::{ChatFile, Demo, DemoOptions, Lobby, Previous, Site};
use guildhall_rest::VisitorGuild;
use guildhall_settings::{ChatMode, Config, DEMO_STORE_DIR, DashboardMode, Flag, Secret, changed_line, effective_line};
use guildhall_telemetry::logging;
use std::{
    future::Future,
    io::{self, IsTerminal as _},
    path::PathBuf,
};
use tokio::signal::unix::{SignalKind, signal};

pub(super) const HELP: &str = "\
Examples:
  # 300 members on 127.0.0.1:8080, a message every other second; open /chat/:
  guildhall demo
  # Many messages; then none but your own:
  guildhall demo --members 5000 --rate 50
  guildhall demo --rate 0
  # Real conversations instead of invented ones:
  guildhall demo --chat conversations.ndjson
  # Any free port; /tmp/d/demo.json has it:
  guildhall demo --listen 127.0.0.1:0 --data /tmp/d

The community is seeded once per folder; the same --seed and --members give
the same people. DIR/demo.json holds the addresses and tokens: api_base,
gateway_url, admin_key, bot_token, user_token, guild_id and channel_ids.
The bot has all privileged intents, the user is an ordinary member; the first
channel is public text. It is ready when GET /readyz answers 200.

--chat takes one JSON object a line, the turns of a conversation in order:
  {\"conversation\":\"c1\",\"turn\":0,\"speaker\":\"a\",\"text\":\"hello\"}

The demo does not read ./guildhall.toml; name a file with --config.";

/// Arguments of `demo`.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Address and port for HTTP and WebSocket; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// URL that clients open their WebSocket at, if a proxy is in front of the node
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Data directory of the demo [default: data/demo]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Number of simulated members, in addition to the bot and the user
    #[arg(long, value_name = "COUNT", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    members: u32,
    /// Messages per second that the simulated members write; may be a fraction, or 0
    #[arg(long, value_name = "MSGS_PER_S", default_value_t = 0.5, allow_negative_numbers = true, value_parser = parse_rate)]
    rate: f64,
    /// Let the simulated members write messages from this file instead of the built-in conversations
    #[arg(long, value_name = "FILE.ndjson")]
    chat: Option<PathBuf>,
    /// Seed of all random choices in the community
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    common: Common,
}

/// Upper bound of `--rate`: more than a node of this size writes durably.
const RATE_MAX: f64 = 100_000.0;

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=RATE_MAX).contains(rate));
    rate.ok_or_else(|| format!("expected a number from 0 to {RATE_MAX}"))
}

pub(super) async fn run(
    args: DemoArgs,
    environment: Vec<(String, String)>,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let flags = flags([
        ("--listen", "server.listen", args.listen),
        ("--public-url", "server.public_url", args.public_url),
        ("--data", "store.dir", args.data),
    ]);
    let read = || {
        let mut sources = args.common.sources(environment.clone(), flags.clone(), ConfigFile::OnlyNamed)?;
        sources.defaults.push(Flag::new(COMMAND, "store.dir", DEMO_STORE_DIR));
        // The community is invented, so its metrics are no secret.
        sources.defaults.push(Flag::new(COMMAND, "server.metrics", "open"));
        // The community is invented, so its chat page may give an account to any visitor.
        sources.defaults.push(Flag::new(COMMAND, "server.chat", "demo"));
        // Small enough that the guild which is not on the screen is passive: the chat page shows what that saves.
        sources.defaults.push(Flag::new(COMMAND, "limits.passive_above_members", "49"));
        // On a terminal the address comes first, and no line of the log before it.
        if io::stderr().is_terminal() {
            sources.defaults.push(Flag::new(COMMAND, "log.level", "warn"));
        }
        load_config(&sources)
    };
    let mut loaded = read()?;
    let chat =
        args.chat.as_deref().map(ChatFile::check_and_open).transpose().map_err(|error| Failure::Usage(error.into()))?;
    let log = logging::init(&loaded.config.log);
    // Installed first: without a handler, SIGHUP ends the process.
    let mut hangups = signal(SignalKind::hangup())?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), config = %changed_line(&loaded), "starting");
    tracing::debug!(config = %effective_line(&loaded), "all settings");
    let options = DemoOptions { members: args.members, rate: args.rate, seed: args.seed, chat };
    tokio::pin!(stop);
    let (mut running, demo) = tokio::select! {
        started = start(&loaded.config, options) => started.map_err(start_failure)?,
        // A stop during seeding is harmless: the next start completes it.
        () = &mut stop => return Ok(()),
    };
    say(&demo.usage_hints());
    running.reports.set_settings(&loaded);
    let node = running.node.clone();
    let talk = demo.talk(&node, stop);
    let has_failed = run_until(talk, &mut running, &log, (&mut loaded, read), &mut hangups).await;
    running.end(has_failed).await?;
    Ok(())
}

/// Name of these defaults in reports.
const COMMAND: &str = "guildhall demo";

/// Starts the node and seeds the demo. The node reports ready once the demo is complete.
async fn start(config: &Config, options: DemoOptions) -> anyhow::Result<(RunningNode, Demo)> {
    let data_dir = config.store.dir.clone();
    let running = assemble(config).await?;
    let previous = Previous::take(&data_dir);
    let scheme = if config.tls.cert_file.is_some() { "https" } else { "http" };
    let site = Site {
        data_dir,
        api_base: format!("{scheme}://{}/api", reachable(running.local_addr)),
        gateway_url: running.gateway_url.clone(),
        admin_key: admin_key(config, &previous)?,
        page: (config.server.chat != ChatMode::Off)
            .then(|| format!("{scheme}://{}/chat/", reachable(running.local_addr))),
        dashboard: (config.server.dashboard == DashboardMode::On)
            .then(|| format!("{scheme}://{}/dashboard/", reachable(running.local_addr))),
    };
    let demo = Demo::start(&running.node, site, &previous, options).await?;
    if let Some(visitors) = &running.visitors {
        let Lobby { guilds, others } = demo.lobby().clone();
        visitors.open(guilds.into_iter().map(|(id, roles)| VisitorGuild { id, roles }).collect(), &others);
    }
    running.set_ready();
    tracing::info!(listen = %running.local_addr, gateway_url = running.gateway_url, "ready");
    Ok((running, demo))
}

/// The configured key, or that of the previous run, or a new one.
fn admin_key(config: &Config, previous: &Previous) -> anyhow::Result<String> {
    let auth = &config.auth;
    if let Some(key) = secret("auth.admin_key_file", &auth.admin_key, &auth.admin_key_file)? {
        return Ok(key.reveal().to_owned());
    }
    if let Some(key) = previous.admin_key().and_then(Secret::new) {
        return Ok(key.reveal().to_owned());
    }
    Ok(random::<24>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}
