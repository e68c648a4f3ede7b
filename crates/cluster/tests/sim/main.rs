//! The whole cluster on one thread: real machines, leases and frames, with models of guilds, relays, the bus, the lease
//! store and the database, under seeded faults.

#![allow(clippy::unwrap_used, reason = "a test")]

mod accounts;
mod host;
mod process;
mod relay;
mod stores;
mod tokens;
mod world;

use world::{InjectedFault, Summary, run};

/// Seeds of a run of the tests; the environment variable SEEDS replaces it, and FROM the first.
const SEEDS: u64 = 200;
/// Within which an injected fault must be noticed.
const SABOTAGED_SEEDS: u64 = 300;

#[expect(clippy::disallowed_methods, reason = "the number of seeds is chosen where the test is started")]
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn seeds_run_clean() {
    let (from, count) = (number("FROM", 0), number("SEEDS", SEEDS));
    let mut total = Summary::default();
    let mut failed = Vec::new();
    for seed in from..from + count {
        match run(seed, InjectedFault::None, false) {
            Ok(summary) => {
                total.steps += summary.steps;
                total.done += summary.done;
                total.refused += summary.refused;
                total.fenced += summary.fenced;
                total.events += summary.events;
                total.snapshots += summary.snapshots;
                total.crashes += summary.crashes;
                total.pauses += summary.pauses;
                total.moved += summary.moved;
                total.conflicts += summary.conflicts;
                total.removed += summary.removed;
                total.changes += summary.changes;
                total.changed_before += summary.changed_before;
                total.ids_refused += summary.ids_refused;
                total.taken += summary.taken;
                total.without_lease += summary.without_lease;
                total.revocations += summary.revocations;
                total.handed_over += summary.handed_over;
                total.balanced += summary.balanced;
            }
            Err(problem) => failed.push(problem),
        }
    }
    println!("{count} seeds from {from}: {total:?}");
    assert!(
        failed.is_empty(),
        "{} of {count} seeds failed:\n{}",
        failed.len(),
        failed[..failed.len().min(20)].join("\n")
    );
}

/// Prints the trace of a failing seed: `SEED=7 cargo test -p guildhall-cluster --test sim one_seed -- --nocapture`.
#[test]
fn one_seed() {
    if let Err(problem) = run(number("SEED", 0), InjectedFault::None, true) {
        panic!("{problem}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let outcome = |seed| format!("{:?}", run(seed, InjectedFault::None, false));
    assert_eq!(outcome(3), outcome(3));
    assert_eq!(outcome(4), outcome(4));
    assert_ne!(outcome(3), outcome(4));
}

fn is_caught(sabotage: InjectedFault) {
    let caught = (0..SABOTAGED_SEEDS).find_map(|seed| run(seed, sabotage, false).err());
    println!("{sabotage:?}: {caught:?}");
    assert!(caught.is_some(), "{sabotage:?} went unnoticed in {SABOTAGED_SEEDS} seeds");
}

#[test]
fn sabotage_is_caught() {
    for sabotage in [
        InjectedFault::NoEpochCheck,
        InjectedFault::LateFencing,
        InjectedFault::NoReset,
        InjectedFault::StreamReused,
        InjectedFault::Twice,
        InjectedFault::Hasty,
        InjectedFault::StaleUnits,
        InjectedFault::NoFencing,
        InjectedFault::NoCompareAndSet,
        InjectedFault::NoResetElsewhere,
        InjectedFault::LocalLeak,
        InjectedFault::LateInputs,
        InjectedFault::LateRemoval,
    ] {
        is_caught(sabotage);
    }
}

#[test]
fn sabotage_is_caught_of_accounts_and_ids() {
    for sabotage in [
        InjectedFault::NoVersionCheck,
        InjectedFault::RefusedIsDone,
        InjectedFault::ChangesDeleted,
        InjectedFault::KeepsCache,
        InjectedFault::IdsReplaced,
    ] {
        is_caught(sabotage);
    }
}

#[test]
fn sabotage_is_caught_of_tokens() {
    for sabotage in [
        InjectedFault::NoCatchUp,
        InjectedFault::ServesFirst,
        InjectedFault::NoLeaseCheck,
        InjectedFault::DatesDecide,
        InjectedFault::NotTold,
        InjectedFault::FillsLate,
        InjectedFault::NoSecondCheck,
        InjectedFault::ToldKeepsSessions,
        InjectedFault::StartsUnread,
        InjectedFault::ReadsOnce,
        InjectedFault::NotLogged,
        InjectedFault::RevokesThenDeletes,
        InjectedFault::RetryFindsNothing,
        InjectedFault::TellsUnwatched,
    ] {
        is_caught(sabotage);
    }
}

#[test]
fn sabotage_is_caught_of_moves() {
    for sabotage in [
        InjectedFault::FreezesEarly,
        InjectedFault::ForgetsWaiting,
        InjectedFault::StaysUnsure,
        InjectedFault::ForgetsArrivals,
    ] {
        is_caught(sabotage);
    }
}
