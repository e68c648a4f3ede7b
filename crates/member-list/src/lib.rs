//! The member list: who is shown beside a channel, in which order, and how watchers of a part of it are kept right.
//!
//! Owns        which list a channel has (`ListId`); the rows of a list in order (`MemberList`), counted so that any
//!             row is found without a walk (`Ranked`); what watchers of an interval know (`Watch`).
//! Invariants  a change, a lookup and a row cost O(log n) steps, whatever the number of members. (tests `scale`)
//! Not here    who may view a channel: only members who may are given to a list. When to tell watchers, who they
//!             are, and bodies: whoever holds the list. Clocks, I/O.
//! Spec        docs/protocol/reference.md §8.6.
//!
//! ```
//! use guildhall_member_list::{Interval, ListOp, ListRules, MemberList, Watch};
//! use guildhall_model::{Member, User, UserId};
//! use guildhall_stdx::Timestamp;
//! use std::sync::Arc;
//!
//! let member = |id, name| Arc::new(Member::new(Arc::new(User::new(UserId::new(id), name)), Timestamp(0)));
//! let mut list = MemberList::build(ListRules::new(&[], 2), [(member(1, "ana"), None), (member(2, "Bo"), None)]);
//! let mut watch = Watch::new(&list, Interval::from_ranges([[0, 99]])[0]);
//!
//! list.set(None, Some((member(3, "Andi"), None)));
//! if list.take_touched().meets(watch.interval()) {
//!     let ops = watch.update(&list).unwrap_or_default();
//!     // A header and ana stand before; the header counts one more.
//!     assert!(matches!(ops[..], [ListOp::Insert { index: 2, .. }, ListOp::Update { index: 0, .. }]), "{ops:?}");
//! }
//! ```
#![forbid(unsafe_code)]

mod build;
mod diff;
mod interval;
mod list;
mod list_id;
mod order;
mod ranked;
mod row;
mod rules;
mod touched;
mod watch;

pub use interval::Interval;
pub use list::MemberList;
pub use list_id::{ListId, ParseListIdError};
pub use ranked::Ranked;
pub use row::{Group, GroupId, Item, Row};
pub use rules::ListRules;
pub use touched::Touched;
pub use watch::{ListOp, Watch};
