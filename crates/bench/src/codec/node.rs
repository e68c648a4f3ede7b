//! Node: what streams cost on a whole node, by the number of recipients of each event, and what the shared history
//! takes.
//!
//! Owns        `guildhall-bench codec --traffic node`.
//! Invariants  all modes are given the same events, of which the same are measured.

use super::{
    CodecArgs, CodecRole, Limits, MEASURE_TIMEOUT, TrafficKind,
    crowd::{AudienceCost, NodeCosts},
    curve::{self, COMPARED, Point},
    mode,
};
use crate::{role::Role, usage};
use anyhow::{Context, Result, ensure};
use guildhall_settings::defaults;
use guildhall_shared_match::{Domain, Form, Limits as MatcherLimits, Matcher, Scope, Tables};
use guildhall_traffic::{Chat, Kind, Params, Traffic};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// 10,000 accounts and fifty bots.
const SESSIONS: usize = 10_050;
/// Streams that share nothing are measured on one session in this many. A context costs the same whatever the number of
/// contexts, if they exceed the caches.
const ALONE_ONE_IN: usize = 8;
const MODES: [&str; 6] = ["zstd_classic", "shared_zstd", "auto_zstd", "zlib_classic", "shared_zlib", "auto_zlib"];
/// Guilds of the memory measurement, and events in each.
const SMALL_GUILDS: u64 = 20_000;
const SMALL_GUILD_EVENTS: u64 = 5;

/// Memory of many small guilds.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct SmallGuilds {
    pub guilds: u64,
    pub bodies: u64,
    /// `codec.shared_history_bytes_max`.
    pub setting_bytes: u64,
    /// Stored bodies, bounded by the setting, and the indexes.
    pub heap_bytes: u64,
    /// Growth of the process.
    pub resident_bytes: u64,
}

#[derive(Debug, Serialize)]
struct NodeResult {
    encoding: &'static str,
    chat: &'static str,
    seed: u64,
    modes: BTreeMap<String, NodeCosts>,
    small_guilds: SmallGuilds,
}

/// How long to measure.
pub fn limits(quick: bool, sessions: usize) -> Limits {
    Limits {
        warm_up_deliveries: if quick { 200 } else { 1_000 },
        warm_up_cpu: Duration::MAX,
        rounds: if quick { 3 } else { 5 },
        round_cpu: Duration::MAX,
        round_deliveries: if quick { 20 } else { 60 } * sessions as u64,
    }
}

/// Every how many-th session has a stream.
pub fn one_in(mode: &str, sessions: usize) -> usize {
    if mode.starts_with("shared") || mode.starts_with("auto") { 1 } else { ALONE_ONE_IN.min(sessions.div_ceil(100)) }
}

/// Runs the bench.
///
/// # Errors
/// When a process fails, or a decoder read something else than was sent.
pub fn run(args: &CodecArgs) -> Result<()> {
    ensure!(args.connections.len() <= 1, "a node has one number of sessions: give --connections one number");
    let sessions = args.connections.first().copied().unwrap_or(SESSIONS);
    let names: Vec<&str> = match &args.mode[..] {
        [] => MODES.to_vec(),
        modes => modes.iter().map(String::as_str).collect(),
    };
    if let Some(name) = names.iter().find(|name| name.ends_with("_dict")) {
        anyhow::bail!("{name}: there are no dictionaries for the traffic of a node; leave this mode out");
    }
    let mut runs: BTreeMap<String, Vec<NodeCosts>> = BTreeMap::new();
    for _ in 0..args.runs {
        for name in &names {
            let measured = start(args, name, sessions, &[])?;
            runs.entry((*name).to_owned()).or_default().push(serde_json::from_value(measured)?);
        }
    }
    let result = NodeResult {
        encoding: args.encoding.name(),
        chat: if args.chat.is_some() { "file" } else { "built-in" },
        seed: args.seed,
        modes: runs.into_iter().filter_map(|(name, runs)| Some((name, median_of(runs)?))).collect(),
        small_guilds: serde_json::from_value(start(args, "shared_zstd", 1, &["--small-guilds"])?)?,
    };
    crate::report(args.json, &result, print)
}

/// Measures one mode in a process of its own.
fn start(args: &CodecArgs, mode: &str, sessions: usize, options: &[&str]) -> Result<serde_json::Value> {
    let mut role = vec![mode.to_owned(), "node".to_owned(), args.seed.to_string()];
    role.extend([sessions.to_string(), "0".to_owned()]);
    role.extend(["--encoding".to_owned(), args.encoding.name().to_owned()]);
    if let Some(chat) = &args.chat {
        role.extend(["--chat".to_owned(), chat.display().to_string()]);
    }
    role.extend(args.quick.then(|| "--quick".to_owned()));
    role.extend(options.iter().map(|option| (*option).to_owned()));
    Role::start("codec", &role)?.answer_within(MEASURE_TIMEOUT).with_context(|| format!("measuring {mode}"))
}

/// Bytes are the same in each run; of CPU the median.
fn median_of(runs: Vec<NodeCosts>) -> Option<NodeCosts> {
    let mut result = runs.last()?.clone();
    let set = |cost: &mut AudienceCost, of: &dyn Fn(&NodeCosts) -> Option<&AudienceCost>| {
        let costs: Vec<&AudienceCost> = runs.iter().filter_map(of).collect();
        cost.cpu_us_per_delivery = super::super::median(costs.iter().map(|cost| cost.cpu_us_per_delivery).collect());
        cost.shared_us_per_delivery =
            super::super::median(costs.iter().map(|cost| cost.shared_us_per_delivery).collect());
    };
    set(&mut result.all, &|run| Some(&run.all));
    for (index, cost) in result.by_audience.iter_mut().enumerate() {
        set(cost, &|run| run.by_audience.get(index));
    }
    Some(result)
}

fn range(cost: &AudienceCost) -> String {
    match (cost.audience_min, cost.audience_max) {
        (1, 1) => "1".to_owned(),
        (min, max) => format!("{min}–{max}"),
    }
}

fn print(result: &NodeResult) {
    let Some(any) = result.modes.values().next() else { return };
    let raw = any.all.raw_bytes_per_delivery;
    println!(
        "traffic: node, {} sessions, {}, chat: {}, {raw:.1} bytes per message uncompressed",
        any.sessions, result.encoding, result.chat
    );
    println!(
        "{:<14} {:>11} {:>10} {:>8} {:>10} {:>8} {:>9} {:>12} {:>10} {:>12}",
        "mode", "audience", "events", "% sent", "bytes", "ratio", "CPU µs", "of it shared", "state KiB", "shared MiB",
    );
    for name in mode::in_order(result.modes.keys()) {
        let mode = &result.modes[name];
        for (index, cost) in [&mode.all].into_iter().chain(&mode.by_audience).enumerate() {
            print!(
                "{:<14} {:>11} {:>10} {:>8.2} {:>10.1} {:>8.2} {:>9.3} {:>12.3}",
                if index == 0 { name } else { "" },
                if index == 0 { "all".to_owned() } else { range(cost) },
                cost.events,
                100.0 * cost.deliveries as f64 / mode.all.deliveries.max(1) as f64,
                cost.bytes_per_delivery,
                cost.raw_bytes_per_delivery / cost.bytes_per_delivery.max(1.0),
                cost.cpu_us_per_delivery,
                cost.shared_us_per_delivery,
            );
            match index {
                0 => println!(
                    " {:>10.1} {:>12.1}",
                    mode.state_bytes_per_connection as f64 / 1024.0,
                    mode.shared_bytes as f64 / f64::from(1 << 20),
                ),
                _ => println!(),
            }
        }
        if mode.connections < mode.sessions {
            println!("{:<14} measured on {} of these sessions", "", mode.connections);
        }
    }
    for (format, classic, shared) in COMPARED {
        let (Some(classic), Some(shared)) = (result.modes.get(classic), result.modes.get(shared)) else { continue };
        let point = |audience: String, classic: &AudienceCost, shared: &AudienceCost| Point {
            audience,
            cpu_us: [classic, shared].map(|cost| cost.cpu_us_per_delivery),
            bytes: [classic, shared].map(|cost| cost.bytes_per_delivery),
        };
        let rows = shared.by_audience.iter().filter_map(|shared| {
            let classic = classic.by_audience.iter().find(|classic| classic.audience_min == shared.audience_min)?;
            Some(point(range(shared), classic, shared))
        });
        let points: Vec<Point> = [point("all".to_owned(), &classic.all, &shared.all)].into_iter().chain(rows).collect();
        print!("\n{}", curve::chart(format, &points));
    }
    let SmallGuilds { guilds, bodies, setting_bytes, heap_bytes, resident_bytes } = result.small_guilds;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "\n{guilds} small guilds, {bodies} bodies: {:.1} MiB with indexes, {:.1} MiB resident, setting {:.1} MiB",
        mib(heap_bytes),
        mib(resident_bytes),
        mib(setting_bytes),
    );
}

/// Memory of the history of many small guilds, with the default of the setting.
///
/// # Errors
/// Where there is no `/proc`.
pub fn small_guilds(role: &CodecRole) -> Result<SmallGuilds> {
    ensure!(role.traffic == TrafficKind::Node, "small guilds are measured on the traffic of a node");
    let setting_bytes = u64::from(defaults::SHARED_HISTORY_BYTES_MAX);
    let params = Params { kind: Kind::Channel, seed: role.seed, sessions: 0 };
    let bodies: Vec<_> = Traffic::new(params, Chat::built_in()).take(512).collect();
    let before = usage::rss_bytes()?;
    let limits = MatcherLimits { history_bytes_max: setting_bytes as usize, ..MatcherLimits::default() };
    let mut matcher = Matcher::new(Form::Json, Tables::built_in(Form::Json), limits);
    matcher.set_connections(SESSIONS);
    for n in 0..SMALL_GUILDS * SMALL_GUILD_EVENTS {
        let event = &bodies[n as usize % bodies.len()];
        let domain = Domain::Public { guild: 1 + n % SMALL_GUILDS, view: 1 };
        matcher.push(Scope { domain, class: 1 }, 5, event.name, &event.body_json);
    }
    let resident = usage::rss_bytes()?.saturating_sub(before);
    Ok(SmallGuilds {
        guilds: SMALL_GUILDS,
        bodies: SMALL_GUILDS * SMALL_GUILD_EVENTS,
        setting_bytes,
        heap_bytes: matcher.heap_bytes() as u64,
        resident_bytes: resident,
    })
}
