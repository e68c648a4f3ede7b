//! Codec bench: what each way to write messages makes of realistic traffic: bytes, CPU and memory, side by side.
//!
//! Owns        `guildhall-bench codec`: trains the dictionary, runs each mode in processes of its own, prints the
//!             table.
//! Invariants  every mode gets the same traffic, and a reference decoder reads its output in the same run.
//!             Each measurement is a process of its own, so that memory and caches of modes are independent.
//! Limits      contexts take at most `MEMORY_SHARE` of the free memory: if that allows fewer connections than
//!             requested, the table shows their number.
//! Not here    WebSocket headers and sockets: `guildhall-bench sockets`.

mod auto;
mod classic;
mod crowd;
mod curve;
mod mode;
mod node;
mod prepared;
pub mod shared;

pub use auto::Auto;
pub use crowd::body_of;
pub use mode::Mode;

use super::{
    role::{Role, say},
    usage,
};
use anyhow::{Context, Result, ensure};
use clap::{
    Args, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use crowd::{Cpu, Limits, Sizes, Watched};
use guildhall_codec::{DICTIONARY_BYTES, Dictionary, Encoding};
use guildhall_lab::{TrafficKind, train_dictionary};
use guildhall_traffic::{Chat, Kind};
use serde::Serialize;
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Streams that are followed for their sizes, and how long. The fourth is a bot's.
const SIZES_SESSIONS: usize = 8;
const SIZES_MESSAGES: u64 = 4000;
/// Of the free memory: others work on the machine too.
const MEMORY_SHARE: f64 = 0.5;
/// A measurement takes less than a minute of CPU; other work may be given most of the machine meanwhile.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
const CONNECTIONS: [usize; 3] = [1, 1000, 10_000];
/// The dictionary learns from other sessions of other traffic.
const TRAINING_SEED: u64 = 1 << 40;

/// `guildhall-bench codec`.
#[derive(Clone, Debug, Args)]
pub struct CodecArgs {
    /// Traffic model.
    #[arg(long, value_enum, default_value_t = TrafficKind::Session)]
    traffic: TrafficKind,
    /// Encoding of the messages.
    #[arg(long, value_parser = encodings(), default_value = "json")]
    encoding: Encoding,
    /// Texts of messages: a file with one message a line, as text or as JSON with a `text` [default: made-up phrases]
    #[arg(long, value_name = "FILE")]
    chat: Option<PathBuf>,
    /// Numbers of connections; several of them make a curve [default: 1,1000,10000; node: 10050]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    connections: Vec<usize>,
    /// Only these modes, such as zstd_classic, or arms, such as zlib:level=9; may be given again and again [default:
    /// all modes; node: those of zstd and zlib]
    #[arg(long, value_name = "MODE")]
    mode: Vec<String>,
    /// Runs of every mode, interleaved; medians of CPU are printed
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: usize,
    /// Everything that is drawn is drawn from this.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Fewer and shorter rounds: rough figures in a tenth of the time.
    #[arg(long)]
    quick: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// One of its processes: one mode, and its sizes or its CPU.
#[derive(Clone, Debug, Args)]
pub struct CodecRole {
    mode: String,
    traffic: TrafficKind,
    seed: u64,
    /// 0: memory per connection instead of time.
    connections: usize,
    state_bytes: u64,
    #[arg(long, value_parser = encodings(), default_value = "json")]
    encoding: Encoding,
    #[arg(long)]
    chat: Option<PathBuf>,
    /// Measures what many small guilds take, instead of a mode.
    #[arg(long)]
    small_guilds: bool,
    #[arg(long)]
    dictionary: Option<PathBuf>,
    #[arg(long)]
    quick: bool,
}

fn encodings() -> impl TypedValueParser<Value = Encoding> {
    let all = [Encoding::Json, Encoding::Etf];
    PossibleValuesParser::new(all.map(Encoding::name))
        .map(|name| if name == Encoding::Etf.name() { Encoding::Etf } else { Encoding::Json })
}

/// Results of a mode.
#[derive(Debug, Serialize)]
struct ModeResult {
    bytes_per_message: f64,
    ratio: f64,
    bytes_per_early_message: f64,
    bytes_per_shared_message: f64,
    /// At the largest number of connections.
    cpu_us_per_delivery: f64,
    bytes_per_connection: u64,
    at: Vec<Cpu>,
}

#[derive(Debug, Serialize)]
struct CodecResult {
    traffic: Kind,
    encoding: &'static str,
    chat: &'static str,
    seed: u64,
    messages: u64,
    raw_bytes_per_message: f64,
    dictionary_bytes: usize,
    modes: BTreeMap<String, ModeResult>,
}

/// Texts of messages: of a file the first half for training and the second for the measurement.
fn read_chat(path: Option<&Path>) -> Result<[Chat; 2]> {
    let Some(path) = path else { return Ok([Chat::built_in(), Chat::built_in()]) };
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let chat = Chat::parse(&text).with_context(|| path.display().to_string())?;
    Ok(chat.halves())
}

/// Modes as they were given: a comma separates names, and parameters of an arm.
fn wanted(given: &[String]) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for part in given.iter().flat_map(|given| given.split(',')) {
        match names.last_mut() {
            Some(arm) if arm.contains(':') && part.contains('=') && !part.contains(':') => {
                arm.push(',');
                arm.push_str(part);
            }
            _ => names.push(part.to_owned()),
        }
    }
    names.iter().map(|name| mode::named(name)).collect()
}

/// Runs the bench.
///
/// # Errors
/// When a process fails, or a decoder read something else than was sent.
pub fn run(args: &CodecArgs) -> Result<()> {
    let args = &CodecArgs { mode: wanted(&args.mode)?, ..args.clone() };
    ensure!(!args.connections.contains(&0), "--connections must be at least 1");
    ensure!(args.runs > 0, "--runs must be at least 1");
    if args.traffic == TrafficKind::Node {
        return node::run(args);
    }
    let [learned, _] = read_chat(args.chat.as_deref())?;
    let dir = tempfile::tempdir().context("making a folder for the bench")?;
    let trained =
        train_dictionary(args.traffic.kind(), args.seed ^ TRAINING_SEED, &learned, args.encoding, DICTIONARY_BYTES)?;
    let path = dir.path().join("dictionary");
    fs::write(&path, trained.bytes()).with_context(|| format!("writing {}", path.display()))?;

    let mut result = CodecResult {
        traffic: args.traffic.kind(),
        encoding: args.encoding.name(),
        chat: if args.chat.is_some() { "file" } else { "built-in" },
        seed: args.seed,
        messages: 0,
        raw_bytes_per_message: 0.0,
        dictionary_bytes: trained.bytes().len(),
        modes: BTreeMap::new(),
    };
    let names: Vec<&str> = match &args.mode[..] {
        [] => mode::names(args.encoding).collect(),
        wanted => mode::in_order(wanted.iter()),
    };
    let at_connections = if args.connections.is_empty() { CONNECTIONS.to_vec() } else { args.connections.clone() };
    let mut all_sizes: Vec<Sizes> = Vec::new();
    for name in &names {
        all_sizes.push(serde_json::from_value(measure(args, name, 0, 0, &path)?)?);
    }
    // All modes of one number of connections run right after one another: the machine differs from hour to hour.
    let mut all_at: Vec<Vec<Cpu>> = vec![Vec::new(); names.len()];
    for connections in &at_connections {
        let mut runs: Vec<Vec<Cpu>> = vec![Vec::new(); names.len()];
        for _ in 0..args.runs {
            for ((name, sizes), (at, runs)) in names.iter().zip(&all_sizes).zip(all_at.iter().zip(&mut runs)) {
                // More would be the same again where fewer did not fit.
                if at.last().is_none_or(|last| last.connections >= connections_before(&at_connections, *connections)) {
                    let measured = measure(args, name, *connections, sizes.bytes_per_connection, &path)?;
                    runs.push(serde_json::from_value(measured)?);
                }
            }
        }
        for (at, runs) in all_at.iter_mut().zip(runs) {
            at.extend(Cpu::median(runs));
        }
    }
    for ((name, sizes), at) in names.iter().zip(&all_sizes).zip(all_at) {
        result.messages = sizes.messages;
        result.raw_bytes_per_message = sizes.raw_bytes_per_message;
        let mode_result = ModeResult {
            bytes_per_message: sizes.bytes_per_message,
            ratio: sizes.raw_bytes_per_message / sizes.bytes_per_message,
            bytes_per_early_message: sizes.bytes_per_early_message,
            bytes_per_shared_message: sizes.bytes_per_shared_message,
            cpu_us_per_delivery: at.last().map_or(0.0, |cpu| cpu.cpu_us_per_delivery),
            bytes_per_connection: sizes.bytes_per_connection,
            at,
        };
        result.modes.insert((*name).to_owned(), mode_result);
    }
    if args.json {
        println!("{}", serde_json::to_string(&result)?)
    } else {
        print_table(&result);
        print_curve(&result);
    }
    Ok(())
}

/// The number of connections in the list before this one.
fn connections_before(all: &[usize], connections: usize) -> usize {
    all.iter().copied().filter(|other| *other < connections).max().unwrap_or(0)
}

fn measure(
    args: &CodecArgs,
    mode: &str,
    connections: usize,
    state_bytes: u64,
    dictionary: &Path,
) -> Result<serde_json::Value> {
    let traffic = args.traffic.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let mut role = vec![mode.to_owned(), traffic, args.seed.to_string()];
    role.extend([connections.to_string(), state_bytes.to_string()]);
    role.extend(["--encoding".to_owned(), args.encoding.name().to_owned()]);
    if let Some(chat) = &args.chat {
        role.extend(["--chat".to_owned(), chat.display().to_string()]);
    }
    if mode.ends_with("_dict") {
        role.extend(["--dictionary".to_owned(), dictionary.display().to_string()]);
    }
    role.extend(args.quick.then(|| "--quick".to_owned()));
    Role::start("codec", &role)?.answer_within(MEASURE_TIMEOUT).with_context(|| format!("measuring {mode}"))
}

/// Measures one mode, as a process of its own.
///
/// # Errors
/// Never: a failure is part of the answer to the bench.
pub fn run_role(role: &CodecRole) -> Result<()> {
    say(&measured(role).unwrap_or_else(|error| json!({"error": format!("{error:#}")})));
    Ok(())
}

fn measured(role: &CodecRole) -> Result<serde_json::Value> {
    if role.small_guilds {
        return Ok(serde_json::to_value(node::small_guilds(role)?)?);
    }
    let [_, chat] = read_chat(role.chat.as_deref())?;
    let watched = Watched { kind: role.traffic.kind(), encoding: role.encoding, seed: role.seed, chat };
    let dictionary = match &role.dictionary {
        Some(path) => Some(Arc::new(Dictionary::new(fs::read(path)?)?)),
        None => None,
    };
    let mut mode = mode::make(&role.mode, role.encoding, dictionary.as_ref())?;
    if role.connections == 0 {
        let messages = if role.quick { SIZES_MESSAGES / 10 } else { SIZES_MESSAGES };
        return Ok(serde_json::to_value(crowd::sizes(&mut *mode, &watched, SIZES_SESSIONS, messages)?)?);
    }
    if role.traffic == TrafficKind::Node {
        let limits = node::limits(role.quick, role.connections);
        let sessions = (role.connections, node::one_in(&role.mode, role.connections));
        return Ok(serde_json::to_value(crowd::node(&mut *mode, &watched, sessions, limits)?)?);
    }
    let limits = Limits {
        warm_up_deliveries: if role.quick { 20 } else { 400 },
        warm_up_cpu: Duration::from_secs(if role.quick { 1 } else { 20 }),
        rounds: if role.quick { 3 } else { 5 },
        round_cpu: Duration::from_millis(if role.quick { 100 } else { 1000 }),
        round_deliveries: if role.quick { 20_000 } else { 200_000 }.min(role.connections as u64 * 2000),
    };
    let memory_bytes = (usage::available_bytes()? as f64 * MEMORY_SHARE) as u64;
    let cpu = crowd::cpu(&mut *mode, &watched, role.connections, role.state_bytes, memory_bytes, limits)?;
    Ok(serde_json::to_value(cpu)?)
}

fn print_table(result: &CodecResult) {
    let kind = if result.traffic == Kind::Channel { "channel" } else { "session" };
    println!(
        "traffic: {kind}, {}, chat: {}, {:.1} bytes per message uncompressed",
        result.encoding, result.chat, result.raw_bytes_per_message
    );
    println!(
        "{:<18} {:>9} {:>6} {:>11} {:>12} {:>11} {:>11} {:>12} {:>11} {:>12}",
        "mode",
        "bytes",
        "ratio",
        "first 100",
        "connections",
        "their bytes",
        "CPU µs",
        "of it shared",
        "state KiB",
        "resident KiB",
    );
    for name in mode::in_order(result.modes.keys()) {
        let mode = &result.modes[name];
        for (index, cpu) in mode.at.iter().enumerate() {
            let sizes = match index {
                0 => format!(
                    "{:>9.1} {:>6.2} {:>11.1}",
                    mode.bytes_per_message, mode.ratio, mode.bytes_per_early_message
                ),
                _ => " ".repeat(28),
            };
            println!(
                "{:<18} {sizes} {:>12} {:>11.1} {:>11.3} {:>12.3} {:>11.1} {:>12.1}",
                if index == 0 { name } else { "" },
                cpu.connections,
                cpu.bytes_per_delivery,
                cpu.cpu_us_per_delivery,
                cpu.shared_us_per_delivery,
                mode.bytes_per_connection as f64 / 1024.0,
                cpu.resident_bytes_per_connection as f64 / 1024.0,
            );
        }
    }
}

/// CPU and bytes against the number of connections, shared and classic, if there are several numbers.
fn print_curve(result: &CodecResult) {
    for (format, classic, shared) in curve::COMPARED {
        let (Some(shared), Some(classic)) = (result.modes.get(shared), result.modes.get(classic)) else { continue };
        if shared.at.len() > 1 {
            let both = shared.at.iter().zip(&classic.at).filter(|(one, other)| one.connections == other.connections);
            let points = both.map(|(shared, classic)| curve::Point {
                audience: shared.connections.to_string(),
                cpu_us: [classic.cpu_us_per_delivery, shared.cpu_us_per_delivery],
                bytes: [classic.bytes_per_delivery, shared.bytes_per_delivery],
            });
            print!("\n{}", curve::chart(format, &points.collect::<Vec<_>>()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every mode, small: a reference decoder reads the output, or the measurement fails.
    #[test]
    fn every_mode_on_both_traffics() {
        let limits = Limits {
            warm_up_deliveries: 5,
            warm_up_cpu: Duration::from_secs(20),
            rounds: 2,
            round_cpu: Duration::from_secs(20),
            round_deliveries: 60,
        };
        let traffics =
            [(Kind::Session, Encoding::Json), (Kind::Channel, Encoding::Json), (Kind::Session, Encoding::Etf)];
        for (kind, encoding) in traffics {
            let watched = Watched { kind, encoding, seed: 3, chat: Chat::built_in() };
            let dictionary = Arc::new(train_dictionary(kind, 4, &watched.chat, encoding, 8 << 10).unwrap());
            for name in mode::names(encoding) {
                let new = || mode::make(name, encoding, Some(&dictionary)).unwrap();
                let sizes = crowd::sizes(&mut *new(), &watched, 3, 40).unwrap();
                let is_smaller = sizes.bytes_per_message < sizes.raw_bytes_per_message * 0.8;
                assert_eq!(is_smaller, name != "plain", "{name}: {sizes:?}");
                assert!(sizes.messages >= 120);
                let cpu = crowd::cpu(&mut *new(), &watched, 6, 1000, 4000, limits).unwrap();
                assert_eq!(cpu.connections, 4, "as many as fit");
                assert!(cpu.deliveries >= 120 && cpu.verified > 20, "{name}: {cpu:?}");
            }
        }
    }

    /// All modes are given the same events of a node, whether every session has a connection or only some.
    #[test]
    fn a_node_by_audience() {
        let limits = Limits {
            warm_up_deliveries: 4,
            warm_up_cpu: Duration::MAX,
            rounds: 2,
            round_cpu: Duration::MAX,
            round_deliveries: 900,
        };
        let watched = Watched { kind: Kind::Node, encoding: Encoding::Json, seed: 3, chat: Chat::built_in() };
        let mut events = Vec::new();
        for (name, every) in [("zstd_classic", 4), ("shared_zstd", 1), ("auto_zlib", 1)] {
            let mut mode = mode::make(name, Encoding::Json, None).unwrap();
            let costs = crowd::node(&mut *mode, &watched, (402, every), limits).unwrap();
            assert_eq!((costs.sessions, costs.connections), (402, 402_usize.div_ceil(every)));
            let deliveries: u64 = costs.by_audience.iter().map(|row| row.deliveries).sum();
            assert_eq!(deliveries, costs.all.deliveries);
            assert!(costs.by_audience.len() > 3 && costs.verified > 20, "{costs:?}");
            events.push((costs.warm_up_events, costs.all.events));
        }
        assert!(events.iter().all(|counts| *counts == events[0]), "{events:?}");
    }

    #[test]
    fn a_mode_may_be_an_arm() {
        let given = ["zstd_classic,zlib:level=9,mem=9,zstd:level=3", "zstd-once"].map(str::to_owned);
        let names = wanted(&given).unwrap();
        let arms =
            ["zstd_classic", "zlib:level=9,window=15,mem=9", "zstd:level=3,window=18,chain=16,hash=16,block=16384"];
        assert_eq!(names[..3], arms);
        assert_eq!(names[3], "zstd-once:level=3");
        for (given, because) in [("zstd_4", "there is no mode zstd_4"), ("zstd:level=23", "no mode zstd:level=23")] {
            let error = format!("{:#}", wanted(&[given.to_owned()]).unwrap_err());
            assert!(error.contains(because), "{error}");
        }
        let watched = Watched { kind: Kind::Session, encoding: Encoding::Json, seed: 3, chat: Chat::built_in() };
        for name in names.iter().map(String::as_str).chain(["shared-match", "prepared"]) {
            let sizes = crowd::sizes(&mut *mode::make(name, Encoding::Json, None).unwrap(), &watched, 3, 40).unwrap();
            assert!(sizes.bytes_per_message < sizes.raw_bytes_per_message * 0.9, "{name}: {sizes:?}");
        }
    }

    /// A decoder that reads something else is noticed.
    #[test]
    fn a_mode_that_lies_is_caught() {
        struct Liar(Box<dyn mode::Mode>, usize);
        impl mode::Mode for Liar {
            fn prepare(
                &mut self,
                event: &guildhall_traffic::Event,
                recipients: usize,
                frame: &mut guildhall_codec::DispatchFrame,
            ) -> Result<()> {
                self.0.prepare(event, recipients, frame)
            }
            fn connect(&mut self) -> Result<()> {
                self.0.connect()
            }
            fn deliver(
                &mut self,
                conn: usize,
                event: &guildhall_traffic::Event,
                frame: &mut guildhall_codec::DispatchFrame,
                seq: u64,
                out: &mut Vec<u8>,
            ) -> Result<()> {
                self.1 += 1;
                self.0.deliver(conn, event, frame, seq + u64::from(self.1 == 30), out)
            }
            fn state_bytes(&self, conn: usize) -> usize {
                self.0.state_bytes(conn)
            }
            fn reader(&self) -> Result<mode::Reader> {
                self.0.reader()
            }
        }
        let watched = Watched { kind: Kind::Session, encoding: Encoding::Json, seed: 3, chat: Chat::built_in() };
        let mut liar = Liar(mode::make("zstd_classic", Encoding::Json, None).unwrap(), 0);
        let error = crowd::sizes(&mut liar, &watched, 2, 40).unwrap_err();
        assert!(error.to_string().contains("read something else"), "{error}");
    }

    #[test]
    fn modes_that_do_not_exist() {
        assert!(
            mode::make("zstd_4", Encoding::Json, None).is_err_and(|error| error.to_string().contains("zstd_classic"))
        );
        assert!(mode::make("zstd_3_dict", Encoding::Json, None).is_err());
        assert!(mode::make("prepared_deflate", Encoding::Etf, None).is_err());
    }
}
