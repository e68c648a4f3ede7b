//! Construction of a list: sorts all rows at once.
//!
//! Limits      O(n log n) comparisons. Temporary memory: 48 bytes per row plus the case-folded names. Too slow for a
//!             guild's loop; run it on the background pool.

use crate::{
    order::{RowKey, fold_onto, second_head},
    rules::ListRules,
};
use guildhall_model::{Member, Presence};
use std::{cmp::Ordering, sync::Arc};

/// A row with its name inline. Otherwise each of about twenty comparisons per member would follow three pointers.
struct Candidate {
    row: RowKey,
    /// The eight bytes of the folded name that follow those in the head of the row.
    second_head: u64,
    name_from: usize,
    name_bytes: u32,
}

impl Candidate {
    fn name<'a>(&self, names: &'a str) -> &'a [u8] {
        &names.as_bytes()[self.name_from..self.name_from + self.name_bytes as usize]
    }

    fn compare(&self, other: &Self, names: &str) -> Ordering {
        let heads = |of: &Self| (of.row.head(), of.second_head);
        heads(self)
            .cmp(&heads(other))
            .then_with(|| self.row.is_member().cmp(&other.row.is_member()))
            .then_with(|| self.name(names).cmp(other.name(names)))
            .then_with(|| self.row.cmp(&other.row))
    }
}

/// Headers and rows in order, and the number of members per group.
///
/// # Panics
/// If a member occurs twice.
pub(crate) fn sorted_rows(
    rules: &ListRules,
    members: impl IntoIterator<Item = (Arc<Member>, Option<Arc<Presence>>)>,
) -> (Vec<RowKey>, Vec<usize>) {
    let mut counts = vec![0; rules.groups_count()];
    let members = members.into_iter();
    let mut names = String::new();
    let mut candidates = Vec::with_capacity(members.size_hint().0 + counts.len());
    for (member, presence) in members {
        let Some(group) = rules.group_of(&member, presence.as_deref()) else { continue };
        counts[usize::from(group)] += 1;
        let name_from = names.len();
        fold_onto(&mut names, member.display_name());
        let name = &names[name_from..];
        let (second_head, name_bytes) = (second_head(name), name.len() as u32);
        let row = RowKey::folded(group, name, member, presence);
        candidates.push(Candidate { row, second_head, name_from, name_bytes });
    }
    for (group, _) in (0..).zip(&counts).filter(|(_, count)| **count > 0) {
        candidates.push(Candidate { row: RowKey::header(group), second_head: 0, name_from: 0, name_bytes: 0 });
    }
    candidates.sort_unstable_by(|a, b| a.compare(b, &names));
    let ascends = candidates.is_sorted_by(|a, b| a.compare(b, &names).is_lt());
    assert!(ascends, "a member comes twice in what a list is built from");
    (candidates.into_iter().map(|candidate| candidate.row).collect(), counts)
}
