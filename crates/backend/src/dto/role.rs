//! Role: a role, as backends put, change and read it.

use super::{NAME_CHARS_MAX, no_permissions};
use crate::{
    extract::{Check, FieldErrors},
    types::{Bits, Snowflake},
};
use guildhall_model::{Role, RoleId, name::cleaned};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

const COLOR_MAX: u32 = 0xff_ffff;

/// All fields of a role.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RolePut {
    /// Name of the role. `@everyone` keeps its name.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// Colour as RGB; 0 for none.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 16777215)]
    pub color: u32,
    /// Whether member lists show its members in a group of their own.
    #[serde(default)]
    pub hoist: bool,
    /// Position: higher roles are above; at least 1, except for `@everyone`.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 2147483647)]
    pub position: i32,
    /// Permissions that the role grants.
    #[serde(default = "no_permissions")]
    pub permissions: Bits,
    /// Whether an integration owns it; then members cannot assign or remove it.
    #[serde(default)]
    pub managed: bool,
    /// Whether every member may mention it.
    #[serde(default)]
    pub mentionable: bool,
}

impl Check for RolePut {
    fn check(&self, faults: &mut FieldErrors) {
        self.check_within("", faults);
    }
}

/// A role of a list. The fields of a role are named again, because serde cannot refuse unknown ones where it flattens.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoleWithId {
    /// Id of the role; the guild's id for `@everyone`.
    pub id: Snowflake,
    /// As for a role.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// As for a role.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 16777215)]
    pub color: u32,
    /// As for a role.
    #[serde(default)]
    pub hoist: bool,
    /// As for a role.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 2147483647)]
    pub position: i32,
    /// As for a role.
    #[serde(default = "no_permissions")]
    pub permissions: Bits,
    /// As for a role.
    #[serde(default)]
    pub managed: bool,
    /// As for a role.
    #[serde(default)]
    pub mentionable: bool,
}

impl RoleWithId {
    pub fn fields(&self) -> RolePut {
        let Self { id: _, name, color, hoist, position, permissions, managed, mentionable } = self.clone();
        RolePut { name, color, hoist, position, permissions, managed, mentionable }
    }
}

impl RolePut {
    pub fn check_within(&self, within: &str, faults: &mut FieldErrors) {
        faults.name(&format!("{within}name"), &self.name, 1, NAME_CHARS_MAX);
        faults.number(&format!("{within}color"), self.color.into(), 0, COLOR_MAX.into());
        faults.number(&format!("{within}position"), self.position.into(), 0, i32::MAX.into());
    }

    pub fn into_role(self, id: RoleId) -> Role {
        Role {
            id,
            name: cleaned(&self.name),
            color: self.color,
            hoist: self.hoist,
            position: self.position,
            permissions: self.permissions.0,
            managed: self.managed,
            mentionable: self.mentionable,
            icon: None,
        }
    }
}

impl From<&Role> for RolePut {
    fn from(role: &Role) -> Self {
        Self {
            name: role.name.clone(),
            color: role.color,
            hoist: role.hoist,
            position: role.position,
            permissions: Bits(role.permissions),
            managed: role.managed,
            mentionable: role.mentionable,
        }
    }
}

/// A role of a guild.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Role)]
pub(crate) struct RoleBody {
    /// Id of the role.
    pub id: Snowflake,
    #[serde(flatten)]
    pub fields: RolePut,
}

impl From<&Role> for RoleBody {
    fn from(role: &Role) -> Self {
        Self { id: role.id.into(), fields: role.into() }
    }
}
