//! `guildhall lab dark`: a dark launch on the nodes of a cluster, and its figures as one.

use super::{
    Failure,
    lab::{SessionFilter, arm},
    lab_nodes::{NodeChoice, Target, targets, warn_of},
    remote::{Asking, Remote},
    say,
};
use anyhow::anyhow;
use clap::{Args, Subcommand};
use guildhall_codec::Arm;
use guildhall_lab::DARK_ARMS_MAX;
use serde::Deserialize;
use serde_json::json;
use std::{cmp::Reverse, ops::AddAssign};

const DARK: &str = "/v1/lab/dark";

#[derive(Debug, Subcommand)]
pub(super) enum DarkCommand {
    /// Start a dark launch
    Start(DarkStartArgs),
    /// Print the figures of the dark launch
    Status {
        /// Also by dispatch type
        #[arg(long)]
        types: bool,
        #[command(flatten)]
        choice: NodeChoice,
        #[command(flatten)]
        remote: Remote,
    },
    /// End the dark launch, and print its figures
    Stop {
        #[command(flatten)]
        choice: NodeChoice,
        #[command(flatten)]
        remote: Remote,
    },
}

#[derive(Args, Debug)]
pub(super) struct DarkStartArgs {
    /// Arm to compare, such as zstd:level=3; one to four
    #[arg(long = "arm", value_name = "ARM", value_parser = arm, required = true)]
    arms: Vec<Arm>,
    /// One session in this many
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    one_in: u32,
    /// At most this many sessions of each node at once; it begins with one, and has more while CPU time suffices
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    sessions: u32,
    /// CPU time of each node, thousandths of a core; 0: nothing is copied
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=500))]
    cpu_permille: u32,
    /// Memory of all contexts of a node, megabytes
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    memory_megabytes: u64,
    #[command(flatten)]
    filter: SessionFilter,
    #[command(flatten)]
    choice: NodeChoice,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Clone, Debug, Deserialize)]
struct DarkLaunch {
    state: String,
    sessions: u64,
    sessions_now: u64,
    sessions_busy: u64,
    sessions_memory: u64,
    memory_bytes: u64,
    cpu_permille: u64,
    cpu_ns: u64,
    arms: Vec<DarkArm>,
}

#[derive(Clone, Debug, Deserialize)]
struct DarkArm {
    arm: String,
    connection_bytes: u64,
    total: Sums,
    types: Vec<DarkType>,
}

#[derive(Clone, Debug, Deserialize)]
struct DarkType {
    name: String,
    #[serde(flatten)]
    sums: Sums,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Sums {
    count: u64,
    plain_bytes: u64,
    wire_bytes: u64,
    cpu_ns: u64,
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.plain_bytes += other.plain_bytes;
        self.wire_bytes += other.wire_bytes;
        self.cpu_ns += other.cpu_ns;
    }
}

pub(super) async fn run(command: DarkCommand, environment: &[(String, String)]) -> Result<(), Failure> {
    match command {
        DarkCommand::Start(args) => start(&args, environment).await,
        DarkCommand::Status { types, choice, remote } => {
            let asking = remote.asking(environment)?;
            let launches = launches(&asking, &targets(&asking, &choice).await?).await?;
            let rows = if types { Rows::ByType } else { Rows::Totals };
            say(&table(&launches, rows));
            Ok(())
        }
        DarkCommand::Stop { choice, remote } => {
            let asking = remote.asking(environment)?;
            let nodes = targets(&asking, &choice).await?;
            for (node, launch) in launches(&asking, &nodes).await? {
                if launch.state == "running" {
                    asking.delete(&node.path(DARK)).await?;
                }
            }
            say(&table(&launches(&asking, &nodes).await?, Rows::ByType));
            Ok(())
        }
    }
}

async fn start(args: &DarkStartArgs, environment: &[(String, String)]) -> Result<(), Failure> {
    if args.arms.len() > DARK_ARMS_MAX {
        let error = anyhow!("{} arms are too many: give at most {DARK_ARMS_MAX}", args.arms.len());
        return Err(Failure::Usage(error));
    }
    let plan = json!({
        "arms": args.arms.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "one_in": args.one_in,
        "sessions_max": args.sessions,
        "cpu_permille": args.cpu_permille,
        "memory_bytes_max": args.memory_megabytes << 20,
        "guild_id": args.filter.guild.map(|guild| guild.to_string()),
        "platform": args.filter.platform,
        "encoding": args.filter.encoding,
    });
    let asking = args.remote.asking(environment)?;
    let nodes = targets(&asking, &args.choice).await?;
    let (mut refusals, count) = (Vec::new(), nodes.len());
    for node in nodes {
        if let Err(error) = asking.send::<DarkLaunch>(&node.path(DARK), &plan).await {
            refusals.push((node, error));
        }
    }
    let started = count - refusals.len();
    warn_of(refusals, started == 0)?;
    let on = if count > 1 { format!(" on {started} nodes") } else { String::new() };
    say(&format!("the dark launch runs{on}; `guildhall lab dark status` prints its figures, `stop` ends it\n"));
    Ok(())
}

/// The dark launches of these nodes. An error if no node has one.
async fn launches(asking: &Asking, nodes: &[Target]) -> anyhow::Result<Vec<(Target, DarkLaunch)>> {
    let (mut found, mut refusals) = (Vec::new(), Vec::new());
    for node in nodes {
        match asking.get(&node.path(DARK)).await {
            Ok(launch) => found.push((node.clone(), launch)),
            Err(error) => refusals.push((node.clone(), error)),
        }
    }
    warn_of(refusals, found.is_empty())?;
    Ok(found)
}

/// The figures of all nodes as those of one. Arms that another node has too are one arm.
fn merged(launches: &[(Target, DarkLaunch)]) -> Vec<DarkArm> {
    let mut arms: Vec<DarkArm> = Vec::new();
    for arm in launches.iter().flat_map(|(_, launch)| &launch.arms) {
        let Some(known) = arms.iter_mut().find(|of| of.arm == arm.arm) else {
            arms.push(arm.clone());
            continue;
        };
        known.total += arm.total;
        known.connection_bytes = known.connection_bytes.max(arm.connection_bytes);
        for of_type in &arm.types {
            match known.types.iter_mut().find(|of| of.name == of_type.name) {
                Some(known) => known.sums += of_type.sums,
                None => known.types.push(of_type.clone()),
            }
        }
    }
    arms
}

/// The rows of an arm in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// The sum over all types of events.
    Totals,
    /// One of each type of event, then its total.
    ByType,
}

fn table(launches: &[(Target, DarkLaunch)], of_arm: Rows) -> String {
    let mut out = String::new();
    for (node, launch) in launches {
        let DarkLaunch { state, sessions, sessions_now, memory_bytes, cpu_permille, cpu_ns, .. } = launch;
        let node = if node.is_alone() { String::new() } else { format!("{node}, ") };
        out += &format!(
            "{node}{state}: {sessions} sessions, {sessions_now} now, {:.1} s of CPU time (at most \
             {cpu_permille}/1000 of a core), {:.1} MiB\n",
            *cpu_ns as f64 / 1e9,
            *memory_bytes as f64 / f64::from(1 << 20)
        );
    }
    let sum = |of: fn(&DarkLaunch) -> u64| launches.iter().map(|(_, launch)| of(launch)).sum::<u64>();
    let (busy, memory) = (sum(|launch| launch.sessions_busy), sum(|launch| launch.sessions_memory));
    if busy > 0 {
        out += &format!(
            "{busy} sessions left the sample early, the newest first, because CPU time was used up; one is added again \
             when there is time: raise --cpu-permille, or give fewer arms\n"
        );
    }
    if memory > 0 {
        out += &format!("left out: {memory} sessions, because memory was used up: raise --memory-megabytes\n");
    }
    for DarkArm { arm, connection_bytes, total, types } in merged(launches) {
        out += &format!("\n{arm}, {:.1} KiB per connection\n", connection_bytes as f64 / 1024.0);
        out +=
            &format!("{:<32} {:>9} {:>12} {:>12} {:>7} {:>8}\n", "event", "count", "bytes", "sent", "ratio", "CPU us");
        let mut rows: Vec<(&str, Sums)> = types.iter().map(|of| (&*of.name, of.sums)).collect();
        rows.sort_by_key(|(_, sums)| Reverse(sums.plain_bytes));
        if of_arm == Rows::Totals {
            rows.clear();
        }
        for (name, Sums { count, plain_bytes, wire_bytes, cpu_ns }) in rows.into_iter().chain([("all", total)]) {
            // Of no dispatches there is no ratio.
            let each = |sum: f64, of: u64| if of == 0 { "-".to_owned() } else { format!("{:.2}", sum / of as f64) };
            let (ratio, cpu_us) = (each(plain_bytes as f64, wire_bytes), each(cpu_ns as f64 / 1_000.0, count));
            out += &format!("{name:<32} {count:>9} {plain_bytes:>12} {wire_bytes:>12} {ratio:>7} {cpu_us:>8}\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_several_nodes_are_one_table() {
        let launch = |count: u64, names: &[&str]| {
            let sums = json!({"count": count, "plain_bytes": 1_000 * count, "wire_bytes": 100 * count, "cpu_ns": 0});
            let types: Vec<_> = names
                .iter()
                .map(|name| {
                    let mut of_type = sums.clone();
                    of_type["name"] = json!(name);
                    of_type
                })
                .collect();
            let arm = json!({"arm": "zlib", "connection_bytes": 10 * count, "total": sums, "types": types});
            serde_json::from_value(json!({
                "state": "running", "sessions": 3, "sessions_now": 1, "sessions_busy": 2, "sessions_memory": 0,
                "memory_bytes": 0, "cpu_permille": 10, "cpu_ns": 0, "arms": [arm],
            }))
            .unwrap()
        };
        let launches = [
            (Target::of(0), launch(10, &["TYPING_START"])),
            (Target::of(1), launch(30, &["TYPING_START", "MESSAGE_CREATE"])),
        ];
        let text = table(&launches, Rows::ByType);
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let of = |name: &str| words.iter().find(|line| line.first() == Some(&name)).map(|line| line[1..].to_vec());
        assert_eq!(of("all"), Some(vec!["40", "40000", "4000", "10.00", "0.00"]), "{text}");
        assert_eq!(of("TYPING_START").unwrap()[0], "40");
        assert_eq!(of("MESSAGE_CREATE").unwrap()[0], "30");
        assert!(text.contains("node 0, running") && text.contains("node 1, running"), "{text}");
        assert!(text.contains("4 sessions left the sample early"), "{text}");
    }
}
