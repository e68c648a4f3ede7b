//! A member list: headers and members in order, maintained through every change.
//!
//! Owns        the rows, including headers, in a `IndexedSet`, so that the number of a row is its rank; the count of
//!             each group; the dirty rows.
//! Doors       `build` from all members at once, on a background thread; `set` for each change; `rows`, `groups` and
//!             `row_of` to read; `take_dirty` before watchers are updated.
//! Invariants  L1 the rows are those of §8.6 for the given members. L2 a group has a header exactly if it has
//!             members. L3 rows outside `DirtyRanges` are as they were when it was last taken. (tests `naive`, `watch`)
//! Limits      none on members. `set` costs at most six searches of O(log n) steps. Memory: 24 bytes per row, with
//!             the slack of `IndexedSet` 30 when built and 41 after many changes (test `memory`); members and presences
//!             are shared with the guild.
//! Not here    who may be in it: the caller passes only members who can view the list's channels.
//! Spec        docs/protocol/reference.md §8.6.

use crate::{
    build::sorted_rows,
    dirty::DirtyRanges,
    indexed_set::IndexedSet,
    order::{Place, RowKey},
    row::{Group, Row},
    rules::ListRules,
};
use guildhall_model::{Member, Presence};
use std::{fmt, ops::Range, sync::Arc};

/// The rows of a member list. Dropping a list of a million members frees a million pointers; do it on
/// the background pool.
pub struct MemberList {
    rules: ListRules,
    rows: IndexedSet<RowKey>,
    /// Members per group, indexed by group number.
    counts: Vec<usize>,
    dirty: DirtyRanges,
}

/// Rows that a change removes, inserts or shifts.
struct Span {
    first: usize,
    last: usize,
}

impl Span {
    fn include(&mut self, row: usize) {
        self.first = self.first.min(row);
        self.last = self.last.max(row);
    }
}

impl MemberList {
    /// A list of these members; no presence means offline. All rows are dirty.
    ///
    /// # Panics
    /// If a member occurs twice.
    #[must_use]
    pub fn build(rules: ListRules, members: impl IntoIterator<Item = (Arc<Member>, Option<Arc<Presence>>)>) -> Self {
        let (rows, counts) = sorted_rows(&rules, members);
        Self { rows: IndexedSet::from_sorted(rows), rules, counts, dirty: DirtyRanges::everything() }
    }

    /// Heap memory of the rows in bytes, without the members and presences, which are the guild's.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.rows.heap_bytes()
    }

    /// The sort rules. If the guild's rules differ, the caller builds a new list.
    #[must_use]
    pub fn rules(&self) -> &ListRules {
        &self.rules
    }

    /// Replaces a member's row: the member joined, left, changed, or gained or lost access. `before`
    /// must be exactly the
    /// previous `after` of this member, none if the member was not listed.
    ///
    /// # Panics
    /// If `before` is not in the list, or `after` is already: rows and counts would be wrong.
    pub fn set(
        &mut self,
        before: Option<(&Member, Option<&Presence>)>,
        after: Option<(Arc<Member>, Option<Arc<Presence>>)>,
    ) {
        let before = before.and_then(|(member, presence)| Some((self.rules.group_of(member, presence)?, member)));
        let after = after.and_then(|(member, presence)| {
            Some((self.rules.group_of(&member, presence.as_deref())?, member, presence))
        });
        match (before, after) {
            (Some((group, old)), Some((new_group, new, presence)))
                if Place::of(group, old) == Place::of(new_group, &new) =>
            {
                let (row, replaced) = self.rows.insert(RowKey::member(group, new, presence));
                assert!(replaced.is_some(), "member {} was never in this list", old.user.id);
                self.dirty.add(row, row);
            }
            (before, after) => self.move_row(before, after),
        }
    }

    fn move_row(&mut self, before: Option<(u16, &Member)>, after: Option<(u16, Arc<Member>, Option<Arc<Presence>>)>) {
        let rows_before = self.rows.len();
        let mut span = Span { first: usize::MAX, last: 0 };
        let (old_group, new_group) = (before.map(|(group, _)| group), after.as_ref().map(|(group, ..)| *group));
        if let Some((group, member)) = before {
            let place = Place::of(group, member);
            let removed = self.rows.remove(|key| key.place().cmp(&place));
            let Some((row, _)) = removed else { panic!("member {} was never in this list", member.user.id) };
            span.include(row);
            if old_group != new_group {
                self.shrink(group, &mut span);
            }
        }
        if let Some((group, member, presence)) = after {
            if old_group != new_group {
                self.grow(group, &mut span);
            }
            let user_id = member.user.id;
            let (row, replaced) = self.rows.insert(RowKey::member(group, member, presence));
            assert!(replaced.is_none(), "member {user_id} is in this list already");
            span.include(row);
        }
        if span.first <= span.last {
            // The number of rows is unchanged, so rows behind the change keep their number.
            let last = if self.rows.len() == rows_before { span.last } else { usize::MAX };
            self.dirty.add(span.first, last);
        }
    }

    /// Removes a member from the group, and its header with the last member.
    fn shrink(&mut self, group: u16, span: &mut Span) {
        let count = &mut self.counts[usize::from(group)];
        *count -= 1;
        let place = Place::header(group);
        if *count > 0 {
            self.touch_header(group);
        } else if let Some((row, _)) = self.rows.remove(|key| key.place().cmp(&place)) {
            span.include(row);
        }
    }

    /// Adds a member to the group, and its header with the first member.
    fn grow(&mut self, group: u16, span: &mut Span) {
        let count = &mut self.counts[usize::from(group)];
        *count += 1;
        if *count > 1 {
            self.touch_header(group);
        } else {
            let (row, _) = self.rows.insert(RowKey::header(group));
            span.include(row);
        }
    }

    fn touch_header(&mut self, group: u16) {
        let place = Place::header(group);
        if let Ok(row) = self.rows.find(|key| key.place().cmp(&place)) {
            self.dirty.add(row, row);
        }
    }

    /// Number of rows, headers included.
    #[must_use]
    pub fn len_rows(&self) -> usize {
        self.rows.len()
    }

    /// Number of members who are not offline.
    #[must_use]
    pub fn online_count(&self) -> usize {
        self.counts[..=usize::from(self.rules.online())].iter().sum()
    }

    /// All non-empty groups, in order.
    pub fn groups(&self) -> impl Iterator<Item = Group> {
        (0..).zip(&self.counts).filter(|(_, count)| **count > 0).map(|(group, _)| self.group(group))
    }

    fn group(&self, group: u16) -> Group {
        Group { id: self.rules.group_id(group), count: self.counts[usize::from(group)] }
    }

    /// The rows with these numbers; fewer at the end of the list.
    pub fn rows(&self, range: Range<usize>) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter_from(range.start).take(range.len()).map(|key| match key.entry() {
            Some((member, presence)) => Row::Member(member, presence),
            None => Row::Group(self.group(key.group())),
        })
    }

    /// Row number of a member whose last `set` had exactly this name, these roles and this presence.
    #[must_use]
    pub fn row_of(&self, member: &Member, presence: Option<&Presence>) -> Option<usize> {
        let place = Place::of(self.rules.group_of(member, presence)?, member);
        self.rows.find(|key| key.place().cmp(&place)).ok()
    }

    /// Takes the rows dirty since the previous call.
    pub fn take_dirty(&mut self) -> DirtyRanges {
        std::mem::take(&mut self.dirty)
    }

    /// Rows dirty since the last `take_dirty`.
    #[must_use]
    pub fn dirty(&self) -> &DirtyRanges {
        &self.dirty
    }

    /// Steps of work so far, for tests and metrics; see `IndexedSet::steps`.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.rows.steps()
    }
}

impl fmt::Debug for MemberList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the rows: there may be a million.
        f.debug_struct("MemberList").field("rows", &self.len_rows()).field("groups", &self.groups().count()).finish()
    }
}
