//! `sim`: runs seeds on all cores until one fails.
#![forbid(unsafe_code)]

use clap::Parser;
use guildhall_sim::{InjectedFault, Options, Summary, run};
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
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
    /// Besides, as many seeds that this number chooses: another number, such as the hash of a commit, others.
    #[arg(long, value_parser = first_chosen, value_name = "HEX")]
    chosen_by: Option<u64>,
    /// Only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of random actions in a run.
    #[arg(long, default_value_t = Options::default().steps)]
    steps: u32,
    /// Inject a fault: permissions, staleness, redaction, loss, duplication, reordering, passive, lists, switch,
    /// threads, joins, moderators, timeouts, kicks, audiences, tokens, dms, leavers, friends, searches, handover, seq,
    /// voice or waiting.
    #[arg(long = "break", value_parser = injected_fault, default_value = "nothing")]
    broken: InjectedFault,
    /// The same as `--break permissions`.
    #[arg(long)]
    break_permissions: bool,
    /// Write a trace of every step to standard error.
    #[arg(long)]
    trace: bool,
}

/// What can be broken, by name.
const INJECTED_FAULTS: [(&str, InjectedFault); 25] = [
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
    ("friends", InjectedFault::Friends),
    ("searches", InjectedFault::Searches),
    ("handover", InjectedFault::Handover),
    ("seq", InjectedFault::Seq),
    ("voice", InjectedFault::Voice),
    ("waiting", InjectedFault::Waiting),
];

fn injected_fault(text: &str) -> Result<InjectedFault, String> {
    let found = INJECTED_FAULTS.iter().find(|(name, _)| *name == text).map(|(_, injected_fault)| *injected_fault);
    found.ok_or_else(|| format!("one of {}", INJECTED_FAULTS.map(|(name, _)| name).join(", ")))
}

/// Chosen seeds are above all that are counted from 0.
const CHOSEN_FROM: u64 = 1 << 32;

/// The first of the chosen seeds: the number's first eight hexadecimal digits.
fn first_chosen(hex: &str) -> Result<u64, String> {
    let digits = hex.get(..8).ok_or("eight hexadecimal digits or more")?;
    u32::from_str_radix(digits, 16).map(|number| CHOSEN_FROM + u64::from(number)).map_err(|error| error.to_string())
}

/// Runs all seeds, as many at a time as there are cores. After a failure no further seed starts.
///
/// # Errors
/// The failure of the earliest seed of the list that failed.
#[expect(clippy::disallowed_methods, reason = "each seed is a world of its own, and has one thread")]
fn run_all(seeds: &[u64], options: Options) -> Result<Summary, String> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Relaxed)) {
            let outcome = match catch_unwind(AssertUnwindSafe(|| run(*seed, options))) {
                Ok(Ok(summary)) => Ok(summary),
                Ok(Err(violation)) => Err((*seed, violation.to_string())),
                Err(_) => Err((*seed, format!("panic: seed {seed}"))),
            };
            if outcome.is_err() {
                next.store(seeds.len(), Relaxed);
            }
            let mut outcomes = outcomes.lock().expect("no thread panics with the lock");
            outcomes.insert(*seed, outcome);
            if outcomes.len().is_multiple_of(500) {
                println!("{} seeds done", outcomes.len());
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from).min(seeds.len()) {
            scope.spawn(work);
        }
    });
    let mut total = Summary::default();
    for outcome in outcomes.into_inner().expect("no thread panicked").into_values() {
        total.add(outcome.map_err(|(seed, failure)| format!("{failure}\n{}", again(seed, options)))?);
    }
    Ok(total)
}

/// The command that repeats a seed.
fn again(seed: u64, Options { steps, injected_fault, .. }: Options) -> String {
    let switch = match injected_fault {
        InjectedFault::None => String::new(),
        fault => format!(" --break {fault:?}").to_lowercase(),
    };
    format!("again: cargo run -p guildhall-sim --release -- --seed {seed} --steps {steps}{switch} --trace")
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut seeds: Vec<u64> = match args.seed {
        Some(seed) => vec![seed],
        None => (args.start..args.start + args.seeds).collect(),
    };
    let broken = if args.break_permissions { InjectedFault::Permissions } else { args.broken };
    let options = Options { steps: args.steps, injected_fault: broken, trace: args.trace };
    match (args.seed, args.chosen_by) {
        (Some(seed), _) => println!("seed {seed}, {} steps", options.steps),
        (None, None) => println!("{} seeds from {}, {} steps each", args.seeds, args.start, options.steps),
        (None, Some(first)) => {
            seeds.extend(first..first + args.seeds);
            println!("{} seeds from {} and as many from {first}, {} steps each", args.seeds, args.start, options.steps);
        }
    }
    let total = match run_all(&seeds, options) {
        Ok(total) => total,
        Err(failure) => {
            println!("{failure}");
            return ExitCode::FAILURE;
        }
    };
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
