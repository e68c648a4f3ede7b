//! The member list: the sidebar of members next to a channel, its order, and incremental updates for its watchers.
//!
//! Owns        the id of a channel's list (`ListId`); its rows in order (`MemberList`), with an order-statistic tree
//!             that finds any row without a scan (`IndexedSet`); the rows that watchers of an interval have (`Watch`).
//! Invariants  a change, a lookup and a row cost O(log n) steps for n members. (tests `scale`)
//! Not here    permissions: the caller passes only members who can view the channel. Clocks, I/O. The caller also
//!             decides when to send updates, knows the watchers and renders bodies.
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
//! if list.take_dirty().meets(watch.interval()) {
//!     let ops = watch.update(&list).unwrap_or_default();
//!     // A header and ana come first; the header counts one more.
//!     assert!(matches!(ops[..], [ListOp::Insert { index: 2, .. }, ListOp::Update { index: 0, .. }]), "{ops:?}");
//! }
//! ```
#![forbid(unsafe_code)]

mod build;
mod diff;
mod dirty;
mod indexed_set;
mod interval;
mod list;
mod list_id;
mod order;
mod row;
mod rules;
mod watch;

pub use dirty::DirtyRanges;
pub use indexed_set::IndexedSet;
pub use interval::Interval;
pub use list::MemberList;
pub use list_id::{ListId, ParseListIdError};
pub use row::{Group, GroupId, Item, Row};
pub use rules::ListRules;
pub use watch::{ListOp, Watch};
