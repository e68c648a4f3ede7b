//! Roles. Spec  docs/protocol/reference.md §6.3.

use crate::{
    id::RoleId,
    permissions::Permissions,
    role::{Role, RoleColors, RoleIcon},
};
use serde::Serialize;

#[derive(Clone, Copy, Debug, Serialize)]
pub struct RoleBody<'a> {
    id: RoleId,
    name: &'a str,
    color: u32,
    colors: RoleColors,
    hoist: bool,
    icon: Option<&'a str>,
    unicode_emoji: Option<&'a str>,
    position: i32,
    permissions: Permissions,
    managed: bool,
    mentionable: bool,
    flags: u32,
}

impl<'a> From<&'a Role> for RoleBody<'a> {
    fn from(role: &'a Role) -> Self {
        let (icon, unicode_emoji) = match &role.icon {
            Some(RoleIcon::Picture(hash)) => (Some(&**hash), None),
            Some(RoleIcon::Emoji(emoji)) => (None, Some(&**emoji)),
            None => (None, None),
        };
        Self {
            id: role.id,
            name: &role.name,
            color: role.color,
            colors: RoleColors { primary_color: role.color, secondary_color: None, tertiary_color: None },
            hoist: role.hoist,
            icon,
            unicode_emoji,
            position: role.position,
            permissions: role.permissions,
            managed: role.managed,
            mentionable: role.mentionable,
            flags: 0,
        }
    }
}
