//! Relationships between accounts: each side has its own, which can differ from the other.
//!
//! Spec  docs/protocol/reference.md §6.13.

use crate::user::User;
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Kind of a relationship, from the side of one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
#[repr(u8)]
pub enum RelationshipKind {
    Friend = 1,
    /// This account blocks the other one, which does not see it.
    Blocked = 2,
    /// The other account has sent a friend request.
    Incoming = 3,
    /// This account has sent one.
    Outgoing = 4,
}

impl From<RelationshipKind> for u8 {
    fn from(kind: RelationshipKind) -> Self {
        kind as Self
    }
}

impl TryFrom<u8> for RelationshipKind {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        match number {
            1 => Ok(Self::Friend),
            2 => Ok(Self::Blocked),
            3 => Ok(Self::Incoming),
            4 => Ok(Self::Outgoing),
            _ => Err("unknown kind of relationship"),
        }
    }
}

/// A relationship without the account that it is with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relation {
    pub kind: RelationshipKind,
    /// Name that this account has given a friend, 1–32 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nickname: Option<String>,
    /// Time of the request, or of the block.
    pub since: Timestamp,
}

/// A relationship with an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relationship {
    pub user: Arc<User>,
    pub relation: Relation,
}
