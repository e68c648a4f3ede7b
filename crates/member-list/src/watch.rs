//! A watch: the rows that watchers of one interval have, and the operations that update them.
//!
//! Owns        the rows last sent.
//! Doors       `Watch::new` for the first client, `sync` for each further client, `update` at a flush,
//!             `invalidate` for a client that leaves.
//! Invariants  W1 a client that applied everything since its SYNC has exactly the rows last sent, in this interval.
//!             W2 operations of one interval leave the rows of all others correct: clients may watch any
//!             intervals that do not overlap. (tests `client`)
//! Limits      the rows of one interval, as pointers.
//! Not here    the set of watchers, the time of flushes, and bodies.
//! Spec        docs/protocol/reference.md §8.6 "Event", "When".
//!
//! The caller must do this for W1 and W2 to hold:
//!
//! * *Flush.* Take the list's dirty rows (`MemberList::take_dirty`), call `update` for every watch of the list that
//!   they meet, and send each client one event with the operations of all its intervals, lowest interval first, and the
//!   list's current groups. Watches that are not met need no update.
//! * *Join.* Flush first, unless nothing is dirty: the event of a `sync` also contains the groups, and clients
//!   truncate their rows by them, so rows and groups must have the same age.
//! * *Replacement* by another list (other rules, rebuilt): all its rows are dirty, so the next flush sends the
//!   difference. If the list id changes as well, call `invalidate` and watch the other list.

use crate::{diff::row_ops, interval::Interval, list::MemberList, row::Item};
use guildhall_stdx::heap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An operation on a client's rows. Indexes count from 0 and refer to the rows after the previous operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ListOp {
    /// Replaces the rows of the interval; fewer than it spans at the end of the list.
    Sync {
        interval: Interval,
        /// Shared between all recipients.
        items: Arc<[Item]>,
    },
    /// Inserts a row before the one at `index`.
    Insert { index: usize, item: Item },
    /// Replaces a row.
    Update { index: usize, item: Item },
    /// Removes a row.
    Delete { index: usize },
    /// Ends updates of these rows.
    Invalidate { interval: Interval },
}

/// Rows that the watchers of one interval of one list have.
#[derive(Clone, Debug)]
pub struct Watch {
    interval: Interval,
    rows: Arc<[Item]>,
}

impl Watch {
    /// Heap memory of the rows last sent, in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        heap::allocated(size_of_val(&*self.rows))
    }

    /// A watch of the current rows. Call `sync` for each client.
    #[must_use]
    pub fn new(list: &MemberList, interval: Interval) -> Self {
        Self { interval, rows: current_rows(list, interval) }
    }

    #[must_use]
    pub fn interval(&self) -> Interval {
        self.interval
    }

    /// The rows last sent.
    #[must_use]
    pub fn rows(&self) -> &Arc<[Item]> {
        &self.rows
    }

    /// SYNC for a client that joins: all rows that the other watchers have.
    #[must_use]
    pub fn sync(&self) -> ListOp {
        ListOp::Sync { interval: self.interval, items: self.rows.clone() }
    }

    /// INVALIDATE for a client that leaves.
    #[must_use]
    pub fn invalidate(&self) -> ListOp {
        ListOp::Invalidate { interval: self.interval }
    }

    /// Update for all watchers: row operations, or a SYNC if that is shorter. None if the rows are unchanged.
    pub fn update(&mut self, list: &MemberList) -> Option<Vec<ListOp>> {
        let mut old = self.rows.iter();
        let is_same = list.rows(self.interval.rows()).all(|row| old.next().is_some_and(|item| row.is(item)));
        if is_same && old.next().is_none() {
            return None;
        }
        let old = std::mem::replace(&mut self.rows, current_rows(list, self.interval));
        let ops = row_ops(&old, &self.rows, self.interval.first()).unwrap_or_else(|| vec![self.sync()]);
        // Different objects may hold equal values.
        (!ops.is_empty()).then_some(ops)
    }
}

fn current_rows(list: &MemberList, interval: Interval) -> Arc<[Item]> {
    list.rows(interval.rows()).map(|row| row.to_item()).collect()
}
