//! S1 to S3 under churn: every slot carries its own canary in each byte that a neighbour could reach.

use guildhall_slab::{Budget, Pool, Slot};
use guildhall_stdx::Rng;
use proptest::prelude::*;
use std::{sync::Arc, thread};

/// A slot and the pattern that fills it.
struct Marked {
    slot: Slot,
    mark: u8,
}

impl Marked {
    fn open(pool: &Pool, mark: u8) -> Option<Self> {
        let mut slot = pool.open().ok()?;
        assert!(slot.bytes_mut().iter().all(|byte| *byte == 0), "S2");
        slot.bytes_mut().fill(mark);
        Some(Self { slot, mark })
    }

    fn check(&mut self) {
        let mark = self.mark;
        assert!(self.slot.bytes_mut().iter().all(|byte| *byte == mark), "S1: another owner wrote into it");
    }

    fn range(&mut self) -> (usize, usize) {
        let start = self.slot.as_mut_ptr() as usize;
        (start, start + self.slot.bytes_count())
    }
}

fn assert_apart(slots: &mut [Marked]) {
    let mut ranges: Vec<_> = slots.iter_mut().map(Marked::range).collect();
    ranges.sort_unstable();
    assert!(ranges.is_sorted_by(|a, b| a.1 <= b.0), "S1: slots overlap");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn s1_s3_slots_never_overlap_and_are_accounted(
        slot_bytes in 1usize..40_000,
        slots_max in 1u64..200,
        seed in any::<u64>(),
        steps in 1usize..400,
    ) {
        let budget = Arc::new(Budget::new(u64::MAX));
        let pool = Pool::new(slot_bytes, budget.clone());
        budget.set_bytes_max(slots_max * pool.slot_bytes() as u64);
        let mut rng = Rng::new(seed);
        let mut slots: Vec<Marked> = Vec::new();
        for step in 0..steps {
            // Prefers growing, then shrinking.
            if rng.chance(if step * 2 < steps { 0.7 } else { 0.3 }) {
                let opened = Marked::open(&pool, rng.below(255) as u8 + 1);
                prop_assert_eq!(opened.is_some(), (slots.len() as u64) < slots_max);
                slots.extend(opened);
            } else if !slots.is_empty() {
                let gone = rng.below(slots.len() as u64) as usize;
                slots.swap_remove(gone).check();
            }
            let stats = pool.stats();
            prop_assert_eq!(stats.slots_used, slots.len() as u64);
            prop_assert_eq!(stats.resident_bytes, slots.len() as u64 * stats.slot_bytes);
            prop_assert_eq!(budget.bytes(), stats.resident_bytes);
            prop_assert!(stats.mapped_bytes >= stats.resident_bytes);
        }
        assert_apart(&mut slots);
        slots.iter_mut().for_each(Marked::check);
        slots.clear();
        prop_assert_eq!((pool.stats().slabs_count, budget.bytes()), (0, 0));
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about threads")]
fn s1_threads_open_and_release_each_others_slots() {
    let budget = Arc::new(Budget::new(96 * 8_192));
    let pool = Pool::new(8_192, budget.clone());
    let (sender, receiver) = std::sync::mpsc::channel::<Marked>();
    let churn = |seed: u64| {
        let (pool, sender) = (pool.clone(), sender.clone());
        move || {
            let mut rng = Rng::new(seed);
            let mut slots = Vec::new();
            for _ in 0..3_000 {
                if rng.chance(0.55) {
                    slots.extend(Marked::open(&pool, rng.below(255) as u8 + 1));
                } else if !slots.is_empty() {
                    let mut slot = slots.swap_remove(rng.below(slots.len() as u64) as usize);
                    slot.check();
                    if rng.chance(0.5) {
                        // Dropped on another thread.
                        sender.send(slot).unwrap();
                    }
                }
            }
            slots.iter_mut().for_each(Marked::check);
            slots
        }
    };
    let threads: Vec<_> = (0..4).map(|seed| thread::spawn(churn(seed))).collect();
    drop(sender);
    for mut slot in receiver {
        slot.check();
        assert!(budget.bytes() <= budget.bytes_max());
    }
    let mut left: Vec<Marked> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_apart(&mut left);
    left.iter_mut().for_each(Marked::check);
    assert_eq!(budget.bytes(), left.len() as u64 * pool.stats().slot_bytes);
    drop(left);
    assert_eq!((pool.stats().slabs_count, budget.bytes()), (0, 0));
}
