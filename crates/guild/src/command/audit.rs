//! Queries of the audit log.

use guildhall_model::{AuditAction, Id, UserId};
use serde::{Deserialize, Serialize};

/// Which entries of an audit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditQuery {
    /// By this account only.
    pub user_id: Option<UserId>,
    /// Of this kind only.
    pub action: Option<AuditAction>,
    /// Of this object only.
    pub target_id: Option<Id<()>>,
    /// Older than this one.
    pub before: Option<Id<()>>,
    /// Newer than this one: oldest first then, else newest first.
    pub after: Option<Id<()>>,
    /// At most this many.
    pub limit: usize,
}
