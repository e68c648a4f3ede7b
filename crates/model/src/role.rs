//! Roles.
//!
//! Spec  docs/protocol.md §6.3.

use crate::{id::RoleId, permissions::Permissions};
use serde::{Deserialize, Serialize};

/// A role. The one whose id is the guild's id is `@everyone`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Its id.
    pub id: RoleId,
    /// 1–100 characters.
    pub name: String,
    /// RGB, 0 for none.
    #[serde(default)]
    pub color: u32,
    /// Shown apart in the member list.
    #[serde(default)]
    pub hoist: bool,
    /// Order: `(position, id)` ascending; `@everyone` is 0.
    #[serde(default)]
    pub position: i32,
    /// What it grants.
    pub permissions: Permissions,
    /// Owned by an integration.
    #[serde(default)]
    pub managed: bool,
    /// Everybody may mention it.
    #[serde(default)]
    pub mentionable: bool,
}

/// The newer form of a role's colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RoleColors {
    /// Same as `color`.
    pub primary_color: u32,
    /// Gradient end; always null here.
    pub secondary_color: Option<u32>,
    /// Third gradient colour; always null here.
    pub tertiary_color: Option<u32>,
}
