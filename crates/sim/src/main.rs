//! `sim`: runs seeds until one fails.
#![forbid(unsafe_code)]

use clap::Parser;
use guildhall_sim::{InjectedFault, Options, Summary, run};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
};

/// Runs a guild, two partitions and hundreds of sessions under seeded faults, and checks every dispatch.
#[derive(Parser)]
struct Args {
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// Only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// How many things happen in a run.
    #[arg(long, default_value_t = Options::default().steps)]
    steps: u32,
    /// Inject a fault: permissions, staleness, redaction, loss, duplication, reordering, passive, lists, switch,
    /// threads, joins, moderators, timeouts, kicks, audiences, tokens, dms, leavers or handover.
    #[arg(long = "break", value_parser = injected_fault, default_value = "nothing")]
    broken: InjectedFault,
    /// The same as `--break permissions`.
    #[arg(long)]
    break_permissions: bool,
    /// Says what happens, step by step.
    #[arg(long)]
    trace: bool,
}

/// What can be broken, by name.
const INJECTED_FAULTS: [(&str, InjectedFault); 20] = [
    ("nothing", InjectedFault::None),
    ("permissions", InjectedFault::Permissions),
    ("staleness", InjectedFault::Staleness),
    ("redaction", InjectedFault::Redaction),
    ("loss", InjectedFault::Loss),
    ("duplication", InjectedFault::Duplication),
    ("reordering", InjectedFault::Reordering),
    ("passive", InjectedFault::Passive),
    ("lists", InjectedFault::Lists),
    ("switch", InjectedFault::Switch),
    ("threads", InjectedFault::Threads),
    ("joins", InjectedFault::Joins),
    ("moderators", InjectedFault::Moderators),
    ("timeouts", InjectedFault::Timeouts),
    ("kicks", InjectedFault::Kicks),
    ("audiences", InjectedFault::Audiences),
    ("tokens", InjectedFault::Tokens),
    ("dms", InjectedFault::Dms),
    ("leavers", InjectedFault::Leavers),
    ("handover", InjectedFault::Handover),
];

fn injected_fault(text: &str) -> Result<InjectedFault, String> {
    let found = INJECTED_FAULTS.iter().find(|(name, _)| *name == text).map(|(_, injected_fault)| *injected_fault);
    found.ok_or_else(|| format!("one of {}", INJECTED_FAULTS.map(|(name, _)| name).join(", ")))
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seeds = match args.seed {
        Some(seed) => seed..seed + 1,
        None => args.start..args.start + args.seeds,
    };
    let broken = if args.break_permissions { InjectedFault::Permissions } else { args.broken };
    let options = Options { steps: args.steps, injected_fault: broken, trace: args.trace };
    println!("seeds {} to {}, {} steps each", seeds.start, seeds.end - 1, options.steps);
    let mut total = Summary::default();
    for seed in seeds.clone() {
        if seeds.end - seeds.start == 1 {
            println!("seed {seed}");
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed, options)));
        let failure = match outcome {
            Ok(Ok(summary)) => {
                total.add(summary);
                let done = seed - seeds.start + 1;
                if done.is_multiple_of(500) {
                    println!("{done} seeds done");
                }
                continue;
            }
            Ok(Err(violation)) => violation.to_string(),
            Err(_) => format!("panic: seed {seed}"),
        };
        println!("{failure}");
        let switch =
            if broken == InjectedFault::None { String::new() } else { format!(" --break {broken:?}").to_lowercase() };
        println!(
            "again: cargo run -p guildhall-sim --release -- --seed {seed} --steps {}{switch} --trace",
            options.steps
        );
        return ExitCode::FAILURE;
    }
    println!(
        "no violation: {} sessions, {} resumed, {} refused, {} moved, {} resets, {} withheld, {} returned, {} dispatches compared, digest {:016x}",
        total.sessions,
        total.resumed,
        total.refused,
        total.moved,
        total.resets,
        total.withheld,
        total.restored,
        total.compared,
        total.digest
    );
    ExitCode::SUCCESS
}
