//! Noninterference: two worlds run the same script and differ only in texts that an observer may not see. Each of the
//! observer's connections carries identical bytes.
//!
//! `GUILDHALL_SEEDS=2000 cargo test -p guildhall-partition --test it noninterference` runs as many scripts. One takes
//! about a second of a core in a debug build, so CI runs `SEEDS` of them.

mod script;
mod world;

use guildhall_guild_protocol::HiddenChannels;
use script::{Op, Script};
use world::{Setup, World};

const SEEDS: u64 = 24;
const OPS: usize = 90;

#[expect(clippy::disallowed_methods, reason = "a failure is repeated by its seed")]
fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("GUILDHALL_SEEDS").ok().map(|count| count.parse().expect("a number"));
    let first = std::env::var("GUILDHALL_SEED").ok().map(|first| first.parse().expect("a number"));
    let first: u64 = first.unwrap_or(0);
    first..first + count.unwrap_or(SEEDS)
}

/// Sums over all runs.
#[derive(Default)]
struct Totals {
    secrets: usize,
    /// Ephemeral messages of others.
    ephemeral: usize,
    shared: u64,
    done: usize,
}

fn run(seed: u64, totals: &mut Totals) {
    let setup = Setup::new(seed);
    let script = Script::new(seed, setup.is_bot, setup.hidden != HiddenChannels::Listed, OPS);
    let mut worlds = [0, 1].map(|index| World::new(index, setup));
    for (at, op) in script.ops.iter().enumerate() {
        let done = worlds.each_mut().map(|world| world.apply(*op));
        assert_eq!(done[0], done[1], "seed {seed}, op {at} {op:?}: done in one world only");
        totals.done += usize::from(done[0]);
        totals.secrets +=
            usize::from(matches!(op, Op::Say { text, .. } | Op::Name { text, .. } if text.is_secret) && done[0]);
        totals.ephemeral += usize::from(matches!(op, Op::Ephemeral { text, .. } if text.is_secret));
        let [one, other] = worlds.each_mut().map(World::observed);
        for ((id, params, one), (_, _, other)) in one.iter().zip(&other) {
            let differs = one.iter().zip(other).position(|(a, b)| a != b);
            let differs = differs.or_else(|| (one.len() != other.len()).then_some(one.len().min(other.len())));
            if let Some(byte) = differs {
                let [one_read, other_read] = worlds.each_mut().map(|world| world.read(*id));
                let read = one_read.iter().zip(&other_read).find(|(a, b)| a != b);
                let before = &script.ops[at.saturating_sub(12)..=at];
                panic!(
                    "seed {seed}, op {at}: {id:?} {params:?} differs at byte {byte} ({} and {} bytes); {setup:?}; {before:?}\n{read:#?}",
                    one.len(),
                    other.len()
                );
            }
        }
    }
    totals.shared += worlds.iter().map(World::shared_total).sum::<u64>();
}

#[test]
fn s1_s13_noninterference() {
    let mut totals = Totals::default();
    let seeds = seeds();
    let count = seeds.end - seeds.start;
    for seed in seeds {
        run(seed, &mut totals);
    }
    // The scripts are worth something: secrets are written, and shared streams are in use.
    assert!(totals.secrets as u64 > 4 * count, "{} secrets", totals.secrets);
    assert!(totals.ephemeral as u64 > count, "{} ephemeral messages of others", totals.ephemeral);
    assert!(totals.shared > 50 * count, "{} shared messages", totals.shared);
    assert!(totals.done as u64 > 50 * count, "{} ops were done", totals.done);
}
