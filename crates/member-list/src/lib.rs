//! The member list: who is shown beside a channel, in which order, and how watchers of a part of it are kept right.
//!
//! Owns        which list a channel has (`ListId`); the rows of a list in order (`MemberList`), counted so that any
//!             row is found without a walk (`Ranked`); what watchers of an interval know (`Watch`).
//! Invariants  a change, a lookup and a row cost O(log n) steps, whatever the number of members. (tests `scale`)
//! Not here    who may view a channel: only members who may are given to a list. When to tell watchers, who they
//!             are, and bodies: whoever holds the list. Clocks, I/O.
//! Spec        docs/protocol.md §8.6.
#![forbid(unsafe_code)]

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
