//! One pool, step by step.

use guildhall_slab::{Budget, Pool, SlabError};
use std::sync::Arc;

fn pool(slot_bytes: usize, bytes_max: u64) -> (Pool, Arc<Budget>) {
    let budget = Arc::new(Budget::new(bytes_max));
    (Pool::new(slot_bytes, budget.clone()), budget)
}

#[test]
fn slots_are_whole_pages_and_begin_at_one() {
    for slot_bytes in [1, 4_095, 4_096, 4_097, 268_112, 639_079, 40 << 20] {
        let (pool, _) = pool(slot_bytes, u64::MAX);
        let mut slot = pool.open().unwrap();
        assert!(slot.bytes_count() >= slot_bytes && slot.bytes_count() < slot_bytes + (16 << 10));
        assert_eq!(slot.bytes_count() % 4_096, 0);
        assert_eq!(slot.as_mut_ptr() as usize % 4_096, 0);
        assert_eq!(slot.bytes_mut().len(), slot.bytes_count());
    }
}

#[test]
fn s2_a_slot_is_zero_again() {
    let (pool, _) = pool(10_000, u64::MAX);
    let _keeps_the_slab = pool.open().unwrap();
    for _ in 0..3 {
        let mut slot = pool.open().unwrap();
        assert!(slot.bytes_mut().iter().all(|byte| *byte == 0));
        slot.bytes_mut().fill(0xA5);
    }
}

#[test]
fn s4_slabs_without_slots_are_unmapped_and_the_fullest_is_used_first() {
    let (pool, budget) = pool(1 << 20, u64::MAX);
    let per_slab = pool.stats().slots_per_slab as usize;
    let mut slots: Vec<_> = (0..3 * per_slab).map(|_| pool.open().unwrap()).collect();
    assert_eq!(pool.stats().slabs_count, 3);
    // The third slab keeps one slot, the second half, the first all.
    slots.drain(2 * per_slab + 1..);
    slots.drain(per_slab + per_slab / 2..2 * per_slab);
    assert_eq!(pool.stats().slabs_count, 3);
    // New slots come from the second slab, so that the third can empty.
    let last = slots.pop().unwrap();
    slots.extend((0..per_slab / 2).map(|_| pool.open().unwrap()));
    drop(last);
    let stats = pool.stats();
    assert_eq!((stats.slabs_count, stats.slots_used), (2, 2 * per_slab as u64));
    assert_eq!(stats.mapped_bytes, stats.resident_bytes);
    assert_eq!(budget.bytes(), stats.resident_bytes);
    drop(slots);
    let stats = pool.stats();
    assert_eq!((stats.slabs_count, stats.slots_used, stats.resident_bytes, budget.bytes()), (0, 0, 0, 0));
}

#[test]
fn the_budget_bounds_all_pools_together() {
    let budget = Arc::new(Budget::new(10 * 4_096 * 4));
    let (small, large) = (Pool::new(4 * 4_096, budget.clone()), Pool::new(16 * 4_096, budget.clone()));
    let large_slots = [large.open().unwrap(), large.open().unwrap()];
    let small_slots: Vec<_> = std::iter::from_fn(|| small.open().ok()).collect();
    let used = large_slots.len() * large.slot_bytes() + small_slots.len() * small.slot_bytes();
    assert_eq!(budget.bytes(), used as u64);
    assert!(budget.bytes() <= budget.bytes_max());
    let error = large.open().unwrap_err();
    assert!(matches!(error, SlabError::Full { bytes_max } if bytes_max == budget.bytes_max()), "{error}");
    assert_eq!((small.stats().refused_total, large.stats().refused_total), (1, 1));
    // Lowering the bound frees nothing.
    budget.set_bytes_max(1);
    assert!(!budget.has_room(0) && small.open().is_err());
    drop((large_slots, small_slots));
    assert_eq!(budget.bytes(), 0);
    budget.set_bytes_max(large.slot_bytes() as u64);
    assert!(large.open().is_ok());
}

#[test]
fn what_the_system_refuses_is_an_error_and_not_counted() {
    // Larger than the address space of a process.
    let (pool, budget) = pool(1 << 60, u64::MAX);
    assert!(matches!(pool.open(), Err(SlabError::System(_))));
    assert_eq!((budget.bytes(), pool.stats().slots_used, pool.stats().slabs_count), (0, 0, 0));
}

#[test]
fn a_slot_outlives_its_pool() {
    let (pool, budget) = pool(5_000, u64::MAX);
    let mut slot = pool.open().unwrap();
    drop(pool);
    slot.bytes_mut().fill(1);
    drop(slot);
    assert_eq!(budget.bytes(), 0);
}
