//! S3 against the system, in a process of its own, so that no foreign mapping is adjacent to a slab.
#![cfg(target_os = "linux")]

use guildhall_slab::{Budget, Pool, Slot};
use guildhall_stdx::Rng;
use std::{fs, sync::Arc};

/// Resident bytes of the mappings that contain these slots.
#[expect(clippy::disallowed_methods, reason = "only the kernel knows what is resident")]
fn resident_around(slots: &mut [Slot]) -> u64 {
    let starts: Vec<usize> = slots.iter_mut().map(|slot| slot.as_mut_ptr() as usize).collect();
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut has_slots, mut total) = (false, 0);
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-') {
            let bound = |text| usize::from_str_radix(text, 16).unwrap();
            let range = bound(start)..bound(end);
            has_slots = starts.iter().any(|start| range.contains(start));
        } else if first == "Rss:" && has_slots {
            total += words.next().unwrap().parse::<u64>().unwrap() << 10;
        }
    }
    total
}

#[test]
fn s3_what_is_accounted_is_resident_to_the_byte() {
    let budget = Arc::new(Budget::new(u64::MAX));
    let pools = [50_000, 268_112, 639_079].map(|bytes| Pool::new(bytes, budget.clone()));
    let mut rng = Rng::new(11);
    let mut slots = Vec::new();
    for step in 0..2_000 {
        let wanted = [60, 250, 20, 180, 0][step / 400];
        if slots.len() < wanted {
            // Nothing is written into them: they count as soon as they are open.
            slots.push(rng.pick(&pools).unwrap().open().unwrap());
        } else if slots.len() > wanted || rng.chance(0.5) && !slots.is_empty() {
            slots.swap_remove(rng.below(slots.len() as u64) as usize);
        }
        if step % 40 == 0 {
            assert_eq!(resident_around(&mut slots), budget.bytes(), "at step {step}");
        }
    }
    assert!(slots.is_empty() && budget.bytes() == 0);
}
