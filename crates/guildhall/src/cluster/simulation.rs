//! The drivers of moves and mirrors of sessions on one thread: real drivers and partitions, with models of the leases,
//! of the bus and of the client, under seeded faults.
//!
//! Invariants  C2, C3 as in `partition/tests/it/mirror_crashes.rs`: unless the client identifies again, each direct
//!             message arrives once, and a gap of guild messages is behind GUILD_CREATE. Of the nodes with a lease that
//!             are settled, one has the session (W2). At rest a mirror is up to date: a client whose node is killed
//!             then resumes.
//! Not here    the mirrors themselves: `partition/tests/it/mirror_crashes.rs`. Transfers by guilds:
//!             `partition/tests/it/transfer_runs.rs`.

mod site;
mod world;

use site::PlantedFault;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::{Summary, run};

/// Seeds of a run of the tests; the environment variable SEEDS replaces it, and FROM the first.
const SEEDS: u64 = 150;
/// Within which a planted fault must be noticed.
const PLANTED_SEEDS: u64 = 300;
/// Share of the runs in which the client has to resume to the end, in percent.
const RESUMED_PERCENT_MIN: u64 = 10;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn w1_w2_seeds_run_clean() {
    let (from, count) = (number("FROM", 0), number("SEEDS", SEEDS));
    let mut total = Summary::default();
    for seed in from..from + count {
        println!("seed {seed}");
        total.add(&run(seed, PlantedFault::None, false));
    }
    println!("{count} seeds from {from}: {total:?}");
    assert!(total.by_mirror > 0 && total.lapses > 0 && total.moved > 0, "{total:?}");
    assert!(total.resumed >= count * RESUMED_PERCENT_MIN / 100, "{total:?}");
}

/// Prints the trace of a seed: `SEED=7 cargo test -p guildhall --lib simulation::one_seed -- --nocapture`.
#[test]
fn one_seed() {
    run(number("SEED", 0), PlantedFault::None, true);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let outcome = |seed| format!("{:?}", run(seed, PlantedFault::None, false));
    assert_eq!(outcome(3), outcome(3));
    assert_ne!(outcome(3), outcome(4));
}

#[test]
fn planted_faults_of_the_drivers_are_noticed() {
    for fault in PlantedFault::ALL {
        let is_clean = |seed: &u64, fault| catch_unwind(AssertUnwindSafe(|| run(*seed, fault, false))).is_ok();
        // Otherwise the checker may have noticed something else.
        let is_noticed = |seed: &u64| !is_clean(seed, fault) && is_clean(seed, PlantedFault::None);
        let seed = (0..PLANTED_SEEDS).find(is_noticed);
        println!("{fault:?}: seed {seed:?}");
        assert!(seed.is_some(), "{fault:?} goes unnoticed in {PLANTED_SEEDS} seeds");
    }
}
