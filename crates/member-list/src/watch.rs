//! A watch: what the clients that watch one interval of a list were told, and what brings them up to date.
//!
//! Owns        the rows told.
//! Doors       `Watch::new` when the first client comes, `sync` for each that joins, `update` at a flush,
//!             `invalidate` for one that leaves.
//! Invariants  W1 a client that applied everything since its SYNC has exactly the rows told, in this interval.
//!             W2 what is told of one interval leaves the rows of all others right: clients may watch any
//!             intervals that do not overlap. (tests `client`)
//! Limits      the rows of one interval, as pointers.
//! Not here    who watches, when to flush, and the bodies.
//! Spec        docs/protocol/reference.md §8.6 "Event", "When".
//!
//! How to use it, for W1 and W2 to hold:
//!
//! * *Flush.* Take the list's touched rows (`MemberList::take_touched`), `update` every watch of the list that they
//!   meet, and send each client one event with the operations of all its intervals, lowest interval first, and
//!   the list's groups as they are then. The watches they do not meet have nothing to say.
//! * *Join.* Flush first, unless nothing is touched: the event of a `sync` carries the groups too, and clients cut
//!   their rows to them, so rows and groups have to be of the same moment.
//! * *Another list* takes the place of this one (other rules, built anew): all its rows are touched, so the next flush
//!   tells the difference. Its id did not change; if it did, `invalidate` and watch the other.

use crate::{diff::row_ops, interval::Interval, list::MemberList, row::Item};
use std::sync::Arc;

/// An operation on a client's rows. Indices count from 0, after the operations before it.
#[derive(Clone, Debug, PartialEq)]
pub enum ListOp {
    /// These are the rows of the interval; fewer than it spans at the list's end.
    Sync {
        /// Which rows.
        interval: Interval,
        /// Shared by all who are told the same.
        items: Arc<[Item]>,
    },
    /// A row comes before the one that was at `index`.
    Insert {
        /// Where.
        index: usize,
        /// What.
        item: Item,
    },
    /// A row is another one now, or changed.
    Update {
        /// Where.
        index: usize,
        /// What it is now.
        item: Item,
    },
    /// A row goes.
    Delete {
        /// Where.
        index: usize,
    },
    /// These rows will not be kept up to date any longer.
    Invalidate {
        /// Which rows.
        interval: Interval,
    },
}

/// What the watchers of one interval of one list were told.
#[derive(Clone, Debug)]
pub struct Watch {
    interval: Interval,
    told: Arc<[Item]>,
}

impl Watch {
    /// Starts with the rows there are now; nobody was told yet, `sync` does.
    #[must_use]
    pub fn new(list: &MemberList, interval: Interval) -> Self {
        Self { interval, told: rows_now(list, interval) }
    }

    /// Which rows.
    #[must_use]
    pub fn interval(&self) -> Interval {
        self.interval
    }

    /// The rows told.
    #[must_use]
    pub fn told(&self) -> &Arc<[Item]> {
        &self.told
    }

    /// For a client that joins: everything the others were told.
    #[must_use]
    pub fn sync(&self) -> ListOp {
        ListOp::Sync { interval: self.interval, items: self.told.clone() }
    }

    /// For a client that leaves.
    #[must_use]
    pub fn invalidate(&self) -> ListOp {
        ListOp::Invalidate { interval: self.interval }
    }

    /// What to tell everybody who watches: row operations, or a SYNC where that is shorter. Nothing if the rows are
    /// the rows told.
    pub fn update(&mut self, list: &MemberList) -> Option<Vec<ListOp>> {
        let mut told = self.told.iter();
        let is_same = list.rows(self.interval.rows()).all(|row| told.next().is_some_and(|item| row.is(item)));
        if is_same && told.next().is_none() {
            return None;
        }
        let told = std::mem::replace(&mut self.told, rows_now(list, self.interval));
        let ops = row_ops(&told, &self.told, self.interval.first()).unwrap_or_else(|| vec![self.sync()]);
        // Other objects may hold the same values.
        (!ops.is_empty()).then_some(ops)
    }
}

fn rows_now(list: &MemberList, interval: Interval) -> Arc<[Item]> {
    list.rows(interval.rows()).map(|row| row.to_item()).collect()
}
