//! Memory per row, excluding the members themselves.

use crate::scale::{Crowd, rules};
use allocation_counter::measure;
use guildhall_member_list::MemberList;
use guildhall_stdx::Rng;

const MEMBERS: usize = 20_000;

#[test]
fn bytes_per_member() {
    let mut crowd = Crowd::new(MEMBERS);
    let people = crowd.people();
    let mut list = None;
    let built = measure(|| list = Some(MemberList::build(rules(), people.iter().cloned())));
    drop(people);
    let mut list = list.expect("built");
    let estimated = |list: &MemberList, truth: i64| {
        let difference = truth.abs_diff(list.heap_bytes() as i64) as f64 / truth as f64;
        assert!(difference < 0.05, "{} instead of {truth}", list.heap_bytes());
    };
    estimated(&list, built.bytes_current);
    let per_member = |bytes: i64| bytes as f64 / MEMBERS as f64;
    assert!(per_member(built.bytes_current) < 32.0, "{}", per_member(built.bytes_current));

    // Churn until the build order is gone; inserted members are as large as removed ones.
    let mut rng = Rng::new(1);
    let changed = measure(|| (0..4 * MEMBERS).for_each(|_| crowd.rejoin(&mut list, &mut rng)));
    estimated(&list, built.bytes_current + changed.bytes_current);
    let after = per_member(built.bytes_current + changed.bytes_current);
    println!(
        "{} bytes per member when built, {after} after changes, {} while building",
        per_member(built.bytes_current),
        per_member(built.bytes_max as i64)
    );
    assert!(after < 45.0, "{after}");
}
