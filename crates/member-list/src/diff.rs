//! Difference between the rows last sent and the current rows: minimal row operations, if they are shorter than a SYNC.
//!
//! Invariants  D1 the operations, applied in order, turn the old rows into the new ones. D2 DELETEs come first, from
//!             the back; then INSERTs, from the front; then UPDATEs. A member that moves is deleted before it is
//!             inserted, and each index is a row number of the old or the new rows. D3 a full interval that stays full
//!             gets as many INSERTs as DELETEs, so rows behind it keep their index. (tests here and `watch`)
//! Limits      O(w log w) for w rows.

use crate::{
    row::{Item, RowId},
    watch::ListOp,
};

/// Upper bound for the bytes of an operation around its item: `{"op":"INSERT","index":1000000,"item":},`.
const OP_BYTES: usize = 40;
/// Lower bound for a member's item: short names, no presence. A SYNC repeats one such item for each row that row
/// operations can omit.
const MEMBER_BYTES: usize = 250;
/// Lower bound for a group's item.
const GROUP_BYTES: usize = 40;

/// Row operations from `old`, the rows last sent, to `new`; row 0 of both has number `first`. None if
/// a SYNC is shorter.
pub(crate) fn row_ops(old: &[Item], new: &[Item], first: usize) -> Option<Vec<ListOp>> {
    let common = common_rows(old, new);
    let (mut is_old_common, mut is_new_common) = (vec![false; old.len()], vec![false; new.len()]);
    for (from, to) in &common {
        (is_old_common[*from], is_new_common[*to]) = (true, true);
    }
    let removed = (0..old.len()).rev().filter(|from| !is_old_common[*from]);
    let added = (0..new.len()).filter(|to| !is_new_common[*to]);
    let changed = common.iter().filter(|(from, to)| old[*from] != new[*to]).map(|(_, to)| *to);

    let mut ops: Vec<_> = removed.map(|from| ListOp::Delete { index: first + from }).collect();
    ops.extend(added.map(|to| ListOp::Insert { index: first + to, item: new[to].clone() }));
    ops.extend(changed.map(|to| ListOp::Update { index: first + to, item: new[to].clone() }));
    // Without old rows it is unknown how many rows clients have, so only a SYNC is correct.
    (ops.len() * OP_BYTES <= bytes_not_repeated(&ops, new)).then_some(ops)
}

/// Bytes that a SYNC needs and these operations do not.
fn bytes_not_repeated(ops: &[ListOp], new: &[Item]) -> usize {
    let bytes = |item: &Item| match item {
        Item::Group(_) => GROUP_BYTES,
        Item::Member(..) => MEMBER_BYTES,
    };
    let repeated = ops.iter().map(|op| match op {
        ListOp::Insert { item, .. } | ListOp::Update { item, .. } => bytes(item),
        _ => 0,
    });
    new.iter().map(bytes).sum::<usize>() - repeated.sum::<usize>()
}

/// Index pairs of the rows that stay: a largest set that keeps its order, ascending.
fn common_rows(old: &[Item], new: &[Item]) -> Vec<(usize, usize)> {
    let same = |(a, b): &(&Item, &Item)| a.id() == b.id();
    let head = old.iter().zip(new).take_while(same).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same).count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);

    let mut places: Vec<(RowId, usize)> = old[head..old_end].iter().map(Item::id).zip(head..).collect();
    places.sort_unstable();
    let place_of = |item: &Item| places.binary_search_by_key(&item.id(), |(id, _)| *id).ok().map(|at| places[at].1);
    let pairs: Vec<_> = (head..new_end).filter_map(|to| Some((place_of(&new[to])?, to))).collect();

    let mut common: Vec<_> = (0..head).map(|at| (at, at)).collect();
    common.extend(longest_ascending(&pairs));
    common.extend((old_end..old.len()).zip(new_end..));
    common
}

/// A longest subsequence with ascending first numbers (Schensted; patience sorting with back links).
fn longest_ascending(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // Per length, the end of the subsequence with the smallest last number; per pair, its predecessor.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (at, (from, _)) in pairs.iter().enumerate() {
        let len = ends.partition_point(|end| pairs[*end].0 < *from);
        before.push(len.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(len) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut chosen: Vec<_> =
        std::iter::successors(ends.last().copied(), |at| before[*at]).map(|at| pairs[at]).collect();
    chosen.reverse();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::{Member, User, UserId};
    use guildhall_stdx::{Rng, Timestamp};
    use std::sync::Arc;

    fn member(id: u64, flags: u32) -> Item {
        let mut member = Member::new(Arc::new(User::new(UserId::new(id), "name")), Timestamp(0));
        member.flags = flags;
        Item::Member(Arc::new(member), None)
    }

    fn members(ids: &[u64]) -> Vec<Item> {
        ids.iter().map(|id| member(*id, 0)).collect()
    }

    fn in_short(ops: &[ListOp]) -> String {
        let in_short = |op: &ListOp| match op {
            ListOp::Delete { index } => format!("-{index}"),
            ListOp::Insert { index, .. } => format!("+{index}"),
            ListOp::Update { index, .. } => format!("={index}"),
            ListOp::Sync { .. } | ListOp::Invalidate { .. } => panic!("no row operation"),
        };
        ops.iter().map(in_short).collect::<Vec<_>>().join(" ")
    }

    fn check(old: &[u64], new: &[u64], expected: Option<&str>) {
        let ops = row_ops(&members(old), &members(new), 100);
        assert_eq!(ops.map(|ops| in_short(&ops)).as_deref(), expected, "{old:?} {new:?}");
    }

    #[test]
    fn fewest_operations() {
        check(&[1, 2, 3], &[1, 2, 3], Some(""));
        // Changes in the middle, and insertions and deletions at the end.
        check(&[1, 2, 3, 4], &[1, 9, 2, 3], Some("-103 +101"));
        check(&[1, 2, 3, 4], &[1, 3, 4, 5], Some("-101 +103"));
        // For a move the operations contain the moved row only.
        check(&[1, 2, 3, 4], &[2, 3, 4, 1], Some("-100 +103"));
        check(&[1, 2, 3, 4], &[4, 1, 2, 3], Some("-103 +100"));
        // End of the list.
        check(&[1, 2, 3], &[1, 2, 3, 4], Some("+103"));
        check(&[1, 2, 3], &[1, 2], Some("-102"));
    }

    #[test]
    fn a_sync_when_that_is_shorter() {
        check(&[1, 2, 3, 4], &[5, 6, 7, 8], None);
        check(&[], &[1], None);
        check(&[1], &[], None);
        check(&[], &[], Some(""));
        // One row in three stays; that saves more than six operations cost.
        check(&[1, 2, 3, 9], &[4, 5, 6, 9], Some("-102 -101 -100 +100 +101 +102"));
        check(&[1, 2, 3, 4, 9], &[5, 6, 7, 8, 9], None);
    }

    #[test]
    fn changed_rows_are_updated() {
        let old: Vec<_> = (0..6).map(|id| member(id, 0)).collect();
        let mut new = old.clone();
        new[0] = member(0, 1);
        new[4] = member(4, 1);
        // Equal values in different objects.
        new[5] = member(5, 0);
        new.remove(2);
        let ops = row_ops(&old, &new, 0).expect("shorter than a SYNC");
        assert_eq!(in_short(&ops), "-2 =0 =3");
    }

    #[test]
    fn d1_applied_in_order_they_give_the_new_rows() {
        let mut rows_by_ops = 0;
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let mut ids: Vec<u64> = (0..1 + rng.below(40)).collect();
            let old: Vec<_> = ids.iter().map(|id| member(*id, 0)).collect();
            for new_id in 100..100 + rng.below(8) {
                let (from, to) = (rng.below(ids.len() as u64) as usize, rng.below(ids.len() as u64) as usize);
                match rng.below(3) {
                    0 => ids.insert(to, new_id),
                    1 if ids.len() > 1 => drop(ids.remove(from)),
                    _ => {
                        let id = ids.remove(from);
                        ids.insert(to, id);
                    }
                }
            }
            let new: Vec<_> = ids.iter().map(|id| member(*id, u32::from(rng.chance(0.1)))).collect();
            let Some(ops) = row_ops(&old, &new, 7) else { continue };
            rows_by_ops += 1;
            let mut rows = old;
            for op in ops {
                match op {
                    ListOp::Delete { index } => drop(rows.remove(index - 7)),
                    ListOp::Insert { index, item } => rows.insert(index - 7, item),
                    ListOp::Update { index, item } => rows[index - 7] = item,
                    ListOp::Sync { .. } | ListOp::Invalidate { .. } => panic!("no row operation"),
                }
            }
            assert_eq!(rows, new, "seed {seed}");
        }
        assert!(rows_by_ops > 1000, "only {rows_by_ops} of the cases were worth row operations");
    }
}
