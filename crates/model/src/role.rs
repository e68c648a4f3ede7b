//! Roles.
//!
//! Spec  docs/protocol/reference.md §6.3.

use crate::{
    id::{GuildId, RoleId},
    permissions::Permissions,
};
use serde::{Deserialize, Serialize};

/// A role. The one whose id is the guild's id is `@everyone`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    pub id: RoleId,
    /// 1–100 characters.
    pub name: String,
    /// RGB; 0: no colour.
    #[serde(default)]
    pub color: u32,
    /// Forms its own group in the member list.
    #[serde(default)]
    pub hoist: bool,
    /// Sort key: `(position, id)`, ascending; `@everyone` has position 0.
    #[serde(default)]
    pub position: i32,
    /// Permissions granted to its members.
    pub permissions: Permissions,
    /// Managed by an integration.
    #[serde(default)]
    pub managed: bool,
    /// Everyone may mention it.
    #[serde(default)]
    pub mentionable: bool,
    /// Icon next to the names of its members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<RoleIcon>,
}

impl Role {
    /// The role `@everyone` of a guild.
    #[must_use]
    pub fn everyone(guild_id: GuildId, permissions: Permissions) -> Self {
        Self {
            id: guild_id.cast(),
            name: "@everyone".to_owned(),
            color: 0,
            hoist: false,
            position: 0,
            permissions,
            managed: false,
            mentionable: false,
            icon: None,
        }
    }
}

/// Icon of a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleIcon {
    /// Hash of a picture.
    Picture(Box<str>),
    /// A unicode emoji.
    Emoji(Box<str>),
}

/// Newer representation of a role's colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RoleColors {
    /// Same as `color`.
    pub primary_color: u32,
    /// Gradient end; always null here.
    pub secondary_color: Option<u32>,
    /// Third gradient colour; always null here.
    pub tertiary_color: Option<u32>,
}
