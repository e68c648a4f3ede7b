//! Benches: costs, measured against a lower bound in the same run.
//!
//! Owns        `guildhall-bench sockets` and the processes it is made of; `fanout` and `guild` measure without sockets,
//!             in this process; `load` measures `guildhall serve` from outside.
//! Invariants  `sockets`: server and baseline alternate in rounds, so that other load on the machine affects both;
//!             results are medians over the rounds.
#![deny(unsafe_code)]

mod baseline;
mod broadcast;
mod capture;
mod client;
mod codec;
mod crowd;
mod dark;
mod day;
mod delta;
mod fanout;
mod frames;
mod guild;
mod handoff;
mod load;
mod moves;
mod role;
mod sched;
mod server;
mod stats;
mod storm;
mod text;
mod upgrades;
mod usage;
mod waterfall;
mod wire;

#[cfg(all(feature = "jemalloc", not(feature = "count-allocations")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use guildhall_partition::StreamCodec;
use guildhall_settings::defaults;
use guildhall_ws_proto::DeflateParams;
use role::{Role, number};
use serde::Serialize;
use server::Accounts;
use std::{
    net::SocketAddr,
    num::NonZeroU32,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

/// Messages per round; more rounds make a steadier median.
const MESSAGES_PER_ROUND: usize = 5;
/// Connections on their way at once. A listener's queue holds 128; the kernel drops whoever comes while it is full, and
/// they try again only after seconds.
const CONNECTING_MAX: usize = 100;
/// Share of the sessions that begins before memory is measured: the guild and the tables exist then.
const WARM_SHARE: usize = 10;

/// Measures a node against the least it could cost
#[derive(Debug, Parser)]
#[command(name = "guildhall-bench", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Bench,
}

/// The commands.
#[derive(Debug, Subcommand)]
enum Bench {
    /// One guild, N real loopback connections: CPU per delivery against a plain send() of the same bytes.
    ///
    /// The server, its clients, and both ends of the baseline run as processes of their own. Each message is delivered
    /// to every connection before the next is sent, so nothing is coalesced, unless several are in flight.
    Sockets(SocketsArgs),
    /// One guild, N sessions in this process, no sockets: CPU per delivery, latency and memory above the kernel.
    ///
    /// Guild, relays, sessions, replay buffers and compression are real; nothing is sent and nothing is stored. The
    /// sessions belong to user accounts with a current client. Most are passive: they do not display the guild, and
    /// receive a passive update every 30 seconds. The others have it open: they receive messages (28 % of the events),
    /// edits (2 %), reactions (11 %) and typing (14 %), voice states (4 %), the first hundred rows of a member list,
    /// and the presence of a few members. Presences change (30 %), members get nicks and roles (3 %), join and leave (8
    /// %); sessions that watch them receive it.
    Fanout(fanout::FanoutArgs),
    /// One message to N compressed connections in this process, no sockets: compressed for each, or
    /// prepared once for all.
    ///
    /// CPU, bytes, compressions and (built with `--features count-allocations`) allocations.
    Broadcast(broadcast::BroadcastArgs),
    /// Every operation of a guild with M members: how long each holds up the guild.
    Guild(guild::GuildArgs),
    /// A guild that moves between two nodes while messages are posted: how long it is frozen.
    ///
    /// Two nodes in this process, with its bus, lease store and database; relays are counted. Fails if a message is
    /// refused, or a relay is reset.
    Handoff(handoff::HandoffArgs),
    /// Every way to write messages, on realistic traffic: bytes per message, CPU per delivery, memory per connection.
    ///
    /// Every mode gets the same traffic, in JSON. Each connection is a session of its own with the permissions of such
    /// a session; an event goes to all recipients before the next event. Reference decoders read the output of some
    /// connections. Bytes are payloads with WebSocket headers, over whole streams of 4,000 messages from the first
    /// on, of eight sessions; "their bytes" are those of the given number of connections, after a warm-up of up to 400
    /// messages each. CPU includes the work per event.
    Codec(codec::CodecArgs),
    /// Bytes of whole sittings of a client: from zlib and PASSIVE_UPDATE_V1 on, one change at a time.
    ///
    /// The rates of the four personas were chosen so that the shares of events before the first change are those that
    /// upstream published. Prints both, and the shares after the change.
    Waterfall(waterfall::WaterfallArgs),
    /// Writes a capture of a bot's connection for `guildhall replay`: many guilds, then many messages.
    ///
    /// The benchmark of clients (bench/clients) replays it.
    Capture(capture::CaptureArgs),
    /// Large documents that change a little, whole or as a Fossil delta, in each compression: bytes and
    /// CPU per delivery.
    Delta(delta::DeltaArgs),
    /// CPU time when all streams of a crowd leave their library contexts at one event.
    Moves(moves::MovesArgs),
    /// A simulated day: how many zstd-stream connections get larger contexts while there is memory to spare.
    ///
    /// The loop that decides is the node's own; people and memory are pretended. Beside it, the same loop over an
    /// allocator that keeps what was freed.
    Upgrades(upgrades::UpgradesArgs),
    /// A day of zstd-stream connections in fast motion, with real contexts: upgrades, resident memory, and bytes saved.
    ///
    /// As `upgrades`, but contexts and messages are real, and memory is what the system counts. Beside it, the same day
    /// with the library's own allocations, and without upgrades. Build with `--features count-allocations` to have the
    /// system's allocator in place of jemalloc.
    Day(day::DayArgs),
    /// Well-behaved clients together with as many hostile ones: effects on the former, and cost for the server.
    ///
    /// A real server process. The same clients receive the same stream of messages in three phases: alone, together
    /// with bad clients of fifteen kinds that reconnect whenever they are closed, and alone again. Fails if a good
    /// client lost an event, or a bad one was closed with a code of another kind. Before that, separate servers get
    /// sixty anonymous bodies of a mebibyte, and five hundred uploads that stall while another client posts messages.
    Hostile(load::hostile::HostileArgs),
    /// Stops a node full of clients and starts another one in its place: measures how fast clients resume, and checks
    /// that nothing is lost.
    ///
    /// Real server processes, one after the other on the same folder and port, while messages are posted. Fails if a
    /// client missed a stored message, received one twice, or had to identify again.
    Drain(load::drain::DrainArgs),
    /// A new process takes over a node full of clients, in every compression: how long each of them hears nothing.
    ///
    /// Real server processes, one after the other on the same folder and port, while messages are posted. Clients read
    /// with the compression libraries. Fails if a client was closed, missed a stored message, or received one twice.
    Takeover(load::takeover::TakeoverArgs),
    /// A million members imported by the backend API, then ten thousand events a second: memory, and how
    /// soon the guild answers.
    ///
    /// A real server process; while lines stream in another caller uses the guild. Fails if a line or an event is lost.
    Import(load::import::ImportArgs),
    /// Cost of messages with and without the feed of events, and with a hook that decides on each; reads of the feed.
    ///
    /// Three real server processes; each round posts to all of them. Fails if a message was refused, the hook did not
    /// get it, or the feed has no event for it.
    Feed(load::feed::FeedArgs),
    /// One guild over several nodes against one node with as many sessions; then requests through another node than the
    /// owner, a slow link, and killed owners.
    ///
    /// Real server processes, with a NATS and a PostgreSQL server that the bench starts: both have to be installed.
    /// Sites talk in turns. Fails if a client misses a message.
    Cluster(load::cluster::ClusterArgs),
    /// Many clients connect at once: CPU, context switches and latency of an IDENTIFY and a RESUME against a bare
    /// upgrade, memory per session, and the latency of others meanwhile.
    ///
    /// Real connections on loopback to a node with one guild of bots, uncompressed JSON. The server, its clients and
    /// the floor, a program that only upgrades, are processes of their own.
    Storm(storm::StormArgs),
    /// One of a bench's processes; started by the bench itself.
    #[command(hide = true, subcommand)]
    Role(BenchRole),
}

/// One search for all streams, with the defaults of a node.
const SHARED: StreamCodec = StreamCodec::SharedMatch {
    history_bytes_max: defaults::SHARED_HISTORY_BYTES_MAX as usize,
    check_one_in: NonZeroU32::new(defaults::SHARED_CHECK_ONE_IN),
};
/// The default configuration of a node.
const AUTO: StreamCodec = StreamCodec::Auto {
    history_bytes_max: defaults::SHARED_HISTORY_BYTES_MAX as usize,
    check_one_in: NonZeroU32::new(defaults::SHARED_CHECK_ONE_IN),
    cpu_percent: defaults::CONTEXTS_CPU_PERCENT as u8,
};

/// Transport compression of the clients.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Mode {
    /// Without compression.
    Plain,
    /// zlib-stream, one context per connection.
    Zlib,
    /// zstd-stream, one context per connection.
    Zstd,
    /// permessage-deflate without context takeover: compressed once for all.
    Prepared,
    /// permessage-deflate with context takeover, one context per connection.
    Deflate,
    /// zstd-stream, written by shared-match.
    SharedZstd,
    /// zlib-stream, written by shared-match.
    SharedZlib,
    /// zstd-stream, by a context that may move to shared-match.
    AutoZstd,
    /// zlib-stream, by a context that may move to shared-match.
    AutoZlib,
}

impl Mode {
    fn query(self) -> &'static str {
        match self {
            Self::Plain | Self::Prepared | Self::Deflate => "/?v=10&encoding=json",
            Self::Zlib | Self::SharedZlib | Self::AutoZlib => "/?v=10&encoding=json&compress=zlib-stream",
            Self::Zstd | Self::SharedZstd | Self::AutoZstd => "/?v=10&encoding=json&compress=zstd-stream",
        }
    }

    /// How the server writes streams.
    fn stream_codec(self) -> StreamCodec {
        match self {
            Self::Plain | Self::Zlib | Self::Zstd | Self::Prepared | Self::Deflate => StreamCodec::PerConnection,
            Self::SharedZstd | Self::SharedZlib => SHARED,
            Self::AutoZstd | Self::AutoZlib => AUTO,
        }
    }

    /// What clients offer besides.
    fn deflate(self) -> Option<DeflateParams> {
        let takeover = match self {
            Self::Plain
            | Self::Zlib
            | Self::Zstd
            | Self::SharedZstd
            | Self::SharedZlib
            | Self::AutoZstd
            | Self::AutoZlib => return None,
            Self::Prepared => false,
            Self::Deflate => true,
        };
        Some(DeflateParams {
            server_no_context_takeover: !takeover,
            client_no_context_takeover: true,
            ..DeflateParams::default()
        })
    }
}

/// Whether the server may send in batches.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum IoUring {
    /// Where the system has io_uring and allows it.
    Auto,
    /// Never in batches.
    Off,
}

/// What `--overhead` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
pub enum Extra {
    /// The node's accounts.
    Accounts,
    /// A dark launch of four arms, at its default budget.
    Dark,
}

impl Extra {
    fn name(self) -> &'static str {
        match self {
            Self::Accounts => "accounts",
            Self::Dark => "dark launch",
        }
    }
}

/// `guildhall-bench sockets`.
#[derive(Clone, Copy, Debug, Args)]
pub struct SocketsArgs {
    /// Connections, each identified as its own member.
    #[arg(long, default_value_t = 1000)]
    connections: usize,
    /// Messages, each delivered to every connection.
    #[arg(long, default_value_t = 50)]
    messages: usize,
    /// Transport compression.
    #[arg(long, value_enum, default_value_t = Mode::Plain)]
    mode: Mode,
    /// Messages that are created at once, and delivered before the next are.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    in_flight: u64,
    /// Whether the server may send to many with one system call. The baseline never does.
    #[arg(long, value_enum, default_value_t = IoUring::Auto)]
    io_uring: IoUring,
    /// Turn the node's accounts, or a dark launch, off in every second round, and report what it costs.
    #[arg(long, value_enum, num_args = 0..=1, default_missing_value = "accounts")]
    overhead: Option<Extra>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// The processes of a bench.
#[derive(Debug, Subcommand)]
pub enum BenchRole {
    /// The node under test.
    Server { members: usize, dir: PathBuf, io_uring: IoUring, mode: Mode },
    /// The clients of the server.
    Client { port: u16, tokens: PathBuf, mode: Mode },
    /// The sender of the baseline.
    BaselineSender { port: u16 },
    /// The reader of the baseline.
    BaselineReader,
    /// The node of a storm.
    StormServer { members: usize, readers: usize, dir: PathBuf },
    /// What only upgrades.
    StormFloor,
    /// The clients of a storm.
    StormClients { port: u16, floor: u16, from: usize, count: usize, in_flight: usize, tokens: PathBuf },
    /// The clients of a site.
    Crowd { accounts: PathBuf, nodes: Vec<SocketAddr> },
    /// A day, spent in one way.
    Day(day::DayRole),
    /// One mode of the codec bench.
    Codec(codec::CodecRole),
}

/// What `guildhall-bench sockets` found. CPU is user and system time of the whole server process.
#[derive(Debug, Serialize)]
struct SocketsResult {
    connections: usize,
    deliveries: u64,
    io_uring: bool,
    cpu_us_per_delivery: f64,
    baseline_cpu_us_per_send: f64,
    ratio_to_baseline: f64,
    bytes_per_delivery: f64,
    /// Growth of the server's resident memory by a session beyond the first tenth, with its connection and its account,
    /// after a heartbeat and without the bandwidth bill.
    memory_bytes_per_session: u64,
    /// What `--overhead` measured, if it did.
    overhead: Option<SocketsOverhead>,
}

/// Rounds with and without the accounts or a dark launch.
#[derive(Debug, Serialize)]
struct SocketsOverhead {
    of: Extra,
    cpu_us_per_delivery_without: f64,
    /// Median ratio of neighbouring rounds.
    ratio: f64,
    /// 99th percentiles from a message to its last delivery, milliseconds.
    p99_ms_with: f64,
    p99_ms_without: f64,
    /// CPU time of the thread of the lab, thousandths of a core while it was on.
    lab_permille: f64,
}

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guildhall-bench: {error}");
            error.chain().skip(1).for_each(|cause| eprintln!("  because {cause}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs a bench, or one of its roles.
fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Sockets(args) => sockets(*args),
        Bench::Fanout(args) => fanout::run(*args),
        Bench::Broadcast(args) => broadcast::run(args),
        Bench::Handoff(args) => handoff::run(*args),
        Bench::Guild(args) => guild::run(*args),
        Bench::Codec(args) => codec::run(args),
        Bench::Capture(args) => capture::run(args),
        Bench::Delta(args) => delta::run(args),
        Bench::Moves(args) => moves::run(*args),
        Bench::Waterfall(args) => waterfall::run(args),
        Bench::Upgrades(args) => upgrades::run(*args),
        Bench::Day(args) => day::run(args),
        Bench::Hostile(args) => load::hostile::run(*args),
        Bench::Drain(args) => load::drain::run(*args),
        Bench::Takeover(args) => load::takeover::run(*args),
        Bench::Import(args) => load::import::run(*args),
        Bench::Feed(args) => load::feed::run(*args),
        Bench::Cluster(args) => load::cluster::run(args),
        Bench::Storm(args) => storm::run(*args),
        Bench::Role(BenchRole::Server { members, dir, io_uring, mode }) => {
            let accounts = Accounts { members_count: *members, readers_count: 0, are_bots: false };
            server::run(accounts, dir, *io_uring, *mode)
        }
        Bench::Role(BenchRole::StormServer { members, readers, dir }) => {
            let accounts = Accounts { members_count: *members, readers_count: *readers, are_bots: true };
            server::run(accounts, dir, IoUring::Auto, Mode::Plain)
        }
        Bench::Role(BenchRole::StormFloor) => storm::run_floor(),
        Bench::Role(BenchRole::StormClients { port, floor, from, count, in_flight, tokens }) => {
            storm::run_clients((*port, *floor), (*from, *count), *in_flight, tokens)
        }
        Bench::Role(BenchRole::Client { port, tokens, mode }) => client::run(*port, tokens, *mode),
        Bench::Role(BenchRole::BaselineSender { port }) => baseline::run_sender(*port),
        Bench::Role(BenchRole::BaselineReader) => baseline::run_reader(),
        Bench::Role(BenchRole::Crowd { accounts, nodes }) => load::cluster::run_crowd(accounts, nodes),
        Bench::Role(BenchRole::Day(role)) => day::run_role(role),
        Bench::Role(BenchRole::Codec(role)) => codec::run_role(role),
    }
}

/// Prints a result as JSON or, by `print`, as a table.
fn report<T: Serialize>(json: bool, result: &T, print: impl FnOnce(&T)) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string(result)?)
    } else {
        print(result)
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] }
}

/// 99th percentile; 0 of nothing.
fn p99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0.0)
}

fn sockets(args: SocketsArgs) -> Result<()> {
    let SocketsArgs { connections, messages, mode, in_flight, io_uring, overhead, json } = args;
    ensure!(connections > 0 && messages > 0, "--connections and --messages must be at least 1");
    let in_flight = in_flight as usize;
    let dir = tempfile::tempdir().context("making a folder for the bench")?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    let mode_name = mode.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let io_uring = io_uring.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();

    let members = connections.to_string();
    let mut server = Role::start("server", &[members, dir.path().display().to_string(), io_uring, mode_name.clone()])?;
    let started = server.answer()?;
    let port = number(&started, "port")?;
    // The guild is loaded, and one-time allocations happen, before sessions are counted.
    server.ask("publish")?;
    let mut client = Role::start("client", &[port.to_string(), path("tokens"), mode_name])?;
    client.answer()?;
    let warm = connections / WARM_SHARE;
    let mut bytes = [0; 2];
    for (count, bytes) in [warm, connections].into_iter().zip(&mut bytes) {
        // A commit has emptied the caches of the store's connections, which would grow again meanwhile.
        server.ask("warm")?;
        client.ask(&format!("connect {count}"))?;
        *bytes = server.ask_number("memory", "bytes")?;
    }
    let [bytes_warm, bytes_all] = bytes;

    // One message warms both sides up, and shows what it looks like on the wire.
    let mut expected = connections as u64;
    client.ask("reset")?;
    server.ask("publish")?;
    client.ask(&format!("await {expected}"))?;
    let sample = client.ask("sample")?;
    let frame = sample["hex"].as_str().context("the sample")?.to_owned();

    let mut reader = Role::start("baseline-reader", &[])?;
    let baseline_port = number(&reader.answer()?, "port")?;
    let mut sender = Role::start("baseline-sender", &[baseline_port.to_string()])?;
    sender.answer()?;
    for connected in (0..connections).step_by(CONNECTING_MAX) {
        let count = CONNECTING_MAX.min(connections - connected);
        sender.ask(&format!("connect {count}"))?;
        reader.ask(&format!("accept {}", connected + count))?;
    }
    let frame_bytes = number(&sender.ask(&format!("frame {frame}"))?, "bytes")?;
    let mut baseline_bytes = 0;

    client.ask("reset")?;
    expected = 0;
    let (mut costs, mut baselines, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut without, mut latencies) = (Vec::new(), [Vec::new(), Vec::new()]);
    let (mut lab_ns, mut on_for) = (0, Duration::ZERO);
    let mut left = messages;
    let mut round = 0;
    while left > 0 {
        // On, off, off, on: neighbours are compared, and neither is always the first.
        let is_on = overhead.is_none() || matches!(round % 4, 0 | 3);
        match overhead {
            None | Some(Extra::Accounts) => server.ask(if is_on { "accounts on" } else { "accounts off" })?,
            Some(Extra::Dark) => server.ask(if is_on { "dark on" } else { "dark off" })?,
        };
        round += 1;
        let steps = left.div_ceil(in_flight).min(MESSAGES_PER_ROUND);
        let count = left.min(steps * in_flight);
        left -= count;
        let sends = (count * connections) as f64;

        let (lab_before, started) = (server.ask_number("usage", "lab_ns")?, Instant::now());
        let before = server.ask_number("usage", "cpu_ns")?;
        for begun in (0..count).step_by(in_flight) {
            let started = Instant::now();
            let together = in_flight.min(count - begun);
            server.ask(&format!("publish {together}"))?;
            expected += (together * connections) as u64;
            client.ask(&format!("await {expected}"))?;
            latencies[usize::from(is_on)].push(started.elapsed().as_secs_f64() * 1e3);
        }
        let cost = (server.ask_number("usage", "cpu_ns")? - before) as f64 / sends / 1000.0;

        let before = sender.ask_number("usage", "cpu_ns")?;
        for _ in 0..count {
            sender.ask("send")?;
            baseline_bytes += frame_bytes * connections as u64;
            reader.ask(&format!("await {baseline_bytes}"))?;
        }
        let baseline = (sender.ask_number("usage", "cpu_ns")? - before) as f64 / sends / 1000.0;
        baselines.push(baseline);
        if is_on {
            lab_ns += server.ask_number("usage", "lab_ns")? - lab_before;
            on_for += started.elapsed();
            costs.push(cost);
            ratios.push(cost / baseline);
        } else {
            without.push(cost);
        }
    }
    let totals = client.ask(&format!("await {expected}"))?;
    let deliveries = number(&totals, "messages")?;
    ensure!(deliveries == expected, "{deliveries} deliveries instead of {expected}");
    let pairs: Vec<f64> = costs.iter().zip(&without).map(|(with, without)| with / without).collect();
    let result = SocketsResult {
        connections,
        deliveries,
        io_uring: started["io_uring"] == true,
        cpu_us_per_delivery: median(costs),
        baseline_cpu_us_per_send: median(baselines),
        ratio_to_baseline: median(ratios),
        bytes_per_delivery: number(&totals, "bytes")? as f64 / deliveries as f64,
        memory_bytes_per_session: bytes_all.saturating_sub(bytes_warm) / (connections - warm) as u64,
        overhead: overhead.filter(|_| !pairs.is_empty()).map(|of| {
            let [p99_ms_without, p99_ms_with] = latencies.map(p99);
            SocketsOverhead {
                of,
                cpu_us_per_delivery_without: median(without),
                ratio: median(pairs),
                p99_ms_with,
                p99_ms_without,
                lab_permille: lab_ns as f64 / on_for.as_nanos().max(1) as f64 * 1_000.0,
            }
        }),
    };
    report(json, &result, print)
}

fn print(result: &SocketsResult) {
    println!("connections               {}", result.connections);
    println!("deliveries                {}", result.deliveries);
    println!("sent by                   {}", if result.io_uring { "io_uring" } else { "send()" });
    println!("CPU per delivery          {:.2} µs", result.cpu_us_per_delivery);
    println!("baseline: CPU per send    {:.2} µs", result.baseline_cpu_us_per_send);
    println!("ratio to the baseline     {:.2}", result.ratio_to_baseline);
    println!("bytes per delivery        {:.1}", result.bytes_per_delivery);
    println!("memory per session        {} bytes", result.memory_bytes_per_session);
    if let Some(overhead) = &result.overhead {
        let SocketsOverhead { of, cpu_us_per_delivery_without, ratio, p99_ms_with, p99_ms_without, lab_permille } =
            overhead;
        println!("CPU without {:<13} {cpu_us_per_delivery_without:.2} µs", of.name());
        println!("with / without            {ratio:.3}, median of neighbouring rounds");
        println!("p99 of a message          {p99_ms_with:.2} ms with, {p99_ms_without:.2} ms without");
        if *of == Extra::Dark {
            println!("CPU of the lab's thread   {lab_permille:.1} thousandths of a core");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
