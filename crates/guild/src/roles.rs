//! Roles: made, changed, deleted.
//!
//! Owns        `CreateRole`, `UpdateRole`, `DeleteRole`.
//! Invariants  E1 an actor changes only roles below their own highest, and grants only permissions that they have. E2 a
//!             deleted role grants nothing: its overwrites are deleted with it; its members keep the dead id, which has
//!             no effect, until they are written next.
//!             E3 `@everyone` has the name, the position and the looks of a new guild's: only its permissions differ.
//! Limits      `roles_max`.     Spec  docs/protocol/reference.md §5.2, §10.4.

use crate::{
    audit::{self, NewEntry},
    check::Rank,
    command::{CommandResult, NewRole, Refusal, RolePatch},
    machine::Guild,
    record::Write,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, Payload, ReplicaUpdate};
use guildhall_model::{AuditAction, Channel, EventName, OverwriteKind, Permissions, Role, RoleId};
use guildhall_stdx::Now;
use std::{collections::BTreeMap, sync::Arc};

impl Guild {
    pub(crate) fn create_role(&mut self, turn: Turn<'_>, new: &NewRole) -> CommandResult<Arc<Role>> {
        let guild_context = self.in_guild(turn)?;
        guild_context.need(Permissions::MANAGE_ROLES)?;
        let permissions = new.permissions & Permissions::ALL;
        guild_context.need(permissions)?;
        if self.structure.roles.len() >= self.limits.roles_max {
            return Err(Refusal::TooManyRoles.into());
        }
        let id = new.id.filter(|id| !self.structure.roles.contains_key(id));
        let role = Arc::new(Role {
            id: id.unwrap_or_else(|| self.next_id(turn.now)),
            name: new.name.clone(),
            color: new.color,
            hoist: new.hoist,
            // A member's new role starts at the bottom; the system chooses the position.
            position: if guild_context.is_system() { new.position.max(1) } else { 1 },
            permissions,
            managed: new.managed && guild_context.is_system(),
            mentionable: new.mentionable,
            icon: new.icon.clone(),
        });
        self.put_role(turn.now, EventName::GuildRoleCreate, &role);
        self.log(turn, NewEntry::new(AuditAction::RoleCreate, role.id).made(audit::of_role(&role)));
        Ok(role)
    }

    pub(crate) fn update_role(
        &mut self,
        turn: Turn<'_>,
        role_id: RoleId,
        patch: &RolePatch,
    ) -> CommandResult<Arc<Role>> {
        let guild_context = self.in_guild(turn)?;
        let before = self.need_role(role_id)?;
        guild_context.need(Permissions::MANAGE_ROLES)?;
        let is_everyone = role_id == self.structure.id().cast();
        guild_context.need_above(if is_everyone { Rank::BOTTOM } else { Rank::of(&before) })?;
        let mut role = Role::clone(&before);
        if let Some(permissions) = patch.permissions {
            role.permissions = permissions & Permissions::ALL;
            guild_context.need(role.permissions.without(before.permissions))?;
        }
        if is_everyone {
            // Clients know `@everyone` by its looks: only its permissions change.
            role = Role::everyone(self.structure.id(), role.permissions);
        } else {
            if let Some(position) = patch.position {
                role.position = position.max(1);
                guild_context.need_above(Rank::of(&role))?;
            }
            if let Some(name) = &patch.name {
                role.name.clone_from(name);
            }
            role.color = patch.color.unwrap_or(role.color);
            role.hoist = patch.hoist.unwrap_or(role.hoist);
            role.mentionable = patch.mentionable.unwrap_or(role.mentionable);
            if let Some(icon) = &patch.icon {
                role.icon.clone_from(icon);
            }
        }
        if role == *before {
            return Ok(before);
        }
        let role = Arc::new(role);
        self.put_role(turn.now, EventName::GuildRoleUpdate, &role);
        let entry = NewEntry::new(AuditAction::RoleUpdate, role_id);
        let entry = entry.changed(audit::of_role(&before), audit::of_role(&role));
        if entry.has_changes() {
            self.log(turn, entry);
        }
        Ok(role)
    }

    pub(crate) fn put_role(&mut self, now: Now, name: EventName, role: &Arc<Role>) {
        self.write(Write::PutRole(self.structure.id(), role.clone()));
        let replica_update = self.change_structure(now, |structure| {
            Arc::make_mut(&mut structure.roles).insert(role.id, role.clone());
        });
        let event = self.event(name, AudienceRule::Members, Payload::Role(role.clone()));
        self.publish(event, replica_update);
    }

    pub(crate) fn delete_role(&mut self, turn: Turn<'_>, role_id: RoleId) -> CommandResult<()> {
        let guild_context = self.in_guild(turn)?;
        let role = self.need_role(role_id)?;
        guild_context.need(Permissions::MANAGE_ROLES)?;
        if role_id == self.structure.id().cast() || role.managed && !guild_context.is_system() {
            return Err(Refusal::InvalidRole.into());
        }
        guild_context.need_above(Rank::of(&role))?;
        self.write(Write::DeleteRole(self.structure.id(), role_id));
        // Members keep the id, so an overwrite that stayed would still apply to them (E2).
        let target = OverwriteKind::Role(role_id);
        let mentions_role = |channel: &Channel| channel.overwrites.iter().any(|overwrite| overwrite.target == target);
        let affected: Vec<_> = self.structure.channels.values().filter(|c| mentions_role(c)).cloned().collect();
        let changed: BTreeMap<_, _> = affected
            .into_iter()
            .map(|channel| {
                let mut channel = Channel::clone(&self.with_newest_message(channel));
                channel.overwrites.retain(|overwrite| overwrite.target != target);
                (channel.id, Arc::new(channel))
            })
            .collect();
        changed.values().for_each(|channel| self.write(Write::PutChannel(channel.clone())));
        let replica_update = self.change_structure(turn.now, |structure| {
            Arc::make_mut(&mut structure.roles).remove(&role_id);
            if !changed.is_empty() {
                Arc::make_mut(&mut structure.channels).extend(changed.clone());
            }
        });
        let event = self.event(EventName::GuildRoleDelete, AudienceRule::Members, Payload::RoleDelete(role_id));
        self.publish(event, replica_update);
        for channel in changed.into_values() {
            let event = self.event(EventName::ChannelUpdate, AudienceRule::Members, Payload::Channel(channel));
            self.publish(event, ReplicaUpdate::None);
        }
        self.forget_role_of_emojis(turn.now, role_id);
        self.log(turn, NewEntry::new(AuditAction::RoleDelete, role_id).gone(audit::of_role(&role)));
        Ok(())
    }
}
