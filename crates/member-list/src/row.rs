//! Rows: a group's header, or a member with presence.
//!
//! Owns        `Row`, which borrows from a list; `Item`, its owned form.
//! Not here    serialization (`guildhall-relay`).     Spec  docs/protocol/reference.md §8.6 "Rows".

use guildhall_model::{Member, Presence, RoleId, UserId};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{borrow::Cow, fmt, sync::Arc};

/// A group of the list: on the wire the role's id, `"online"` or `"offline"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupId {
    /// Members whose highest hoisted role this is.
    Role(RoleId),
    /// Members without a hoisted role who are not offline.
    Online,
    /// Members who are offline or invisible.
    Offline,
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(id) => id.fmt(f),
            Self::Online => f.write_str("online"),
            Self::Offline => f.write_str("offline"),
        }
    }
}

impl Serialize for GroupId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GroupId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match &*Cow::<str>::deserialize(deserializer)? {
            "online" => Ok(Self::Online),
            "offline" => Ok(Self::Offline),
            role => role.parse().map(Self::Role).map_err(D::Error::custom),
        }
    }
}

/// A header row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub id: GroupId,
    /// Number of members in the group.
    pub count: usize,
}

/// A row, borrowed from a list.
#[derive(Clone, Copy, Debug)]
pub enum Row<'a> {
    /// Header of the group whose members follow.
    Group(Group),
    /// A member; no presence means offline.
    Member(&'a Arc<Member>, Option<&'a Arc<Presence>>),
}

impl Row<'_> {
    /// The owned form.
    #[must_use]
    pub fn to_item(self) -> Item {
        match self {
            Self::Group(group) => Item::Group(group),
            Self::Member(member, presence) => Item::Member(member.clone(), presence.cloned()),
        }
    }

    /// Refers to the same objects, not only to equal ones.
    pub(crate) fn is(self, item: &Item) -> bool {
        match (self, item) {
            (Self::Group(group), Item::Group(other)) => group == *other,
            (Self::Member(member, presence), Item::Member(other, others)) => {
                Arc::ptr_eq(member, other) && presence.map(Arc::as_ptr) == others.as_ref().map(Arc::as_ptr)
            }
            _ => false,
        }
    }
}

/// An owned row. Equality is by value, after a comparison of pointers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Item {
    /// Header of a group.
    Group(Group),
    /// A member; no presence means offline.
    Member(Arc<Member>, Option<Arc<Presence>>),
}

/// Identity of a row across changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowId {
    Group(GroupId),
    Member(UserId),
}

impl Item {
    pub(crate) fn id(&self) -> RowId {
        match self {
            Self::Group(group) => RowId::Group(group.id),
            Self::Member(member, _) => RowId::Member(member.user.id),
        }
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        fn same<T: PartialEq>(a: &Arc<T>, b: &Arc<T>) -> bool {
            Arc::ptr_eq(a, b) || **a == **b
        }
        match (self, other) {
            (Self::Group(a), Self::Group(b)) => a == b,
            (Self::Member(a, a_shows), Self::Member(b, b_shows)) => {
                same(a, b)
                    && match (a_shows, b_shows) {
                        (None, None) => true,
                        (Some(a), Some(b)) => same(a, b),
                        _ => false,
                    }
            }
            _ => false,
        }
    }
}
