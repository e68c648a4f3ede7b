//! Positions: reorders several channels or roles at once.
//!
//! Owns        `MoveChannels`, `MoveRoles`.
//! Invariants  all moves are checked before the first is made; each moved object has an event of its own. The first
//!             event carries the whole move, and no other event comes before the last.
//! Limits      the guild's number of channels or roles.     Spec  docs/protocol/reference.md §5.2, §10.4.

use crate::{
    check::Rank,
    command::{ChannelMove, CommandResult, Refusal},
    machine::Guild,
    record::Write,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, Payload, ReplicaUpdate};
use guildhall_model::{Channel, ChannelId, EventName, Permissions, Role, RoleId};
use std::{collections::BTreeMap, sync::Arc};

impl Guild {
    pub(crate) fn move_channels(&mut self, turn: Turn<'_>, moves: &[ChannelMove]) -> CommandResult<()> {
        let guild_context = self.in_guild(turn)?;
        guild_context.need(Permissions::MANAGE_CHANNELS)?;
        let mut changed: BTreeMap<ChannelId, Channel> = BTreeMap::new();
        for wanted in moves {
            let context = self.in_channel(turn, wanted.id)?;
            context.need(Permissions::MANAGE_CHANNELS)?;
            let before = self.with_newest_message(context.channel.clone());
            let channel = changed.entry(wanted.id).or_insert_with(|| Channel::clone(&before));
            channel.position = wanted.position.unwrap_or(channel.position);
            if let Some(parent_id) = wanted.parent_id {
                self.check_parent(channel.kind, parent_id)?;
                channel.parent_id = parent_id;
            }
            let parent = channel.parent_id.and_then(|parent| self.structure.channels.get(&parent));
            if let Some(parent) = parent.filter(|_| wanted.lock_permissions) {
                context.need(Permissions::MANAGE_ROLES)?;
                let held = guild_context.permissions | context.permissions;
                channel.overwrites = self.check_overwrites(held, &channel.overwrites, &parent.overwrites)?;
            }
        }
        changed.retain(|id, channel| self.structure.channels.get(id).is_some_and(|before| !is_same(before, channel)));
        // No refusals after this point.

        let changed: Vec<Arc<Channel>> = changed.into_values().map(Arc::new).collect();
        let channels_before = self.structure.channels.clone();
        changed.iter().for_each(|channel| self.write(Write::PutChannel(channel.clone())));
        let mut replica_update = ReplicaUpdate::None;
        if !changed.is_empty() {
            replica_update = self.change_structure(turn.now, |structure| {
                Arc::make_mut(&mut structure.channels)
                    .extend(changed.iter().map(|channel| (channel.id, channel.clone())));
            });
        }
        for channel in &changed {
            let event = self.event(EventName::ChannelUpdate, AudienceRule::Members, Payload::Channel(channel.clone()));
            self.publish(event, std::mem::replace(&mut replica_update, ReplicaUpdate::None));
        }
        for channel in &changed {
            if let Some(before) = channels_before.get(&channel.id) {
                self.log_channel(turn, before, channel);
            }
        }
        Ok(())
    }

    /// Changes positions of roles. Numbers may change for all of them, as libraries send whole lists: the order of the
    /// actor's highest role and those above it stays, and no other role gets among them.
    pub(crate) fn move_roles(&mut self, turn: Turn<'_>, moves: &[(RoleId, i32)]) -> CommandResult<()> {
        let guild_context = self.in_guild(turn)?;
        guild_context.need(Permissions::MANAGE_ROLES)?;
        let mut changed: BTreeMap<RoleId, Arc<Role>> = BTreeMap::new();
        for (role_id, position) in moves {
            let before = self.need_role(*role_id)?;
            if *role_id == self.structure.id().cast() {
                if *position != 0 {
                    return Err(Refusal::InvalidRole.into());
                }
                continue;
            }
            let role = Role { position: (*position).max(1), ..Role::clone(&before) };
            if role.position != before.position {
                changed.insert(*role_id, Arc::new(role));
            } else {
                changed.remove(role_id);
            }
        }
        let is_below = |role: &Role| guild_context.need_above(Rank::of(role)).is_ok();
        let (below, mut others): (Vec<&Arc<Role>>, Vec<_>) =
            self.structure.roles.values().partition(|role| is_below(role));
        others.sort_unstable_by_key(|role| Rank::of(role));
        let after = |role: &Arc<Role>| Rank::of(changed.get(&role.id).unwrap_or(role));
        let keeps_order = others.is_sorted_by(|lower, higher| after(lower) < after(higher));
        let stays_below = others.first().is_none_or(|lowest| below.iter().all(|role| after(role) < after(lowest)));
        if !keeps_order || !stays_below {
            return Err(Refusal::MissingPermissions.into());
        }
        // No refusals after this point.

        let guild_id = self.structure.id();
        changed.values().for_each(|role| self.write(Write::PutRole(guild_id, role.clone())));
        let mut replica_update = ReplicaUpdate::None;
        if !changed.is_empty() {
            replica_update = self
                .change_structure(turn.now, |structure| Arc::make_mut(&mut structure.roles).extend(changed.clone()));
        }
        for role in changed.into_values() {
            let event = self.event(EventName::GuildRoleUpdate, AudienceRule::Members, Payload::Role(role));
            self.publish(event, std::mem::replace(&mut replica_update, ReplicaUpdate::None));
        }
        Ok(())
    }
}

/// Compares without the newest message, which is stored separately.
fn is_same(a: &Channel, b: &Channel) -> bool {
    (a.position, a.parent_id, &a.overwrites) == (b.position, b.parent_id, &b.overwrites)
}
