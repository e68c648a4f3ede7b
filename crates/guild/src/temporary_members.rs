//! Temporary members: their membership ends some time after they go offline.
//!
//! Owns        `TemporaryMembers`: the temporary members, and when to check each.
//! Doors       `begin` from `invites`; `left` when a session ends, `forget_temporary` when a member leaves;
//!             `end_temporary` from `Guild::handle_timer`.
//! Invariants  T1 a temporary member without a session for `temporary_away_ms` is removed, unless they have a role then
//!             or own the guild; those stay permanently. T2 the state is stored with the guild: members who left while
//!             it was not loaded, or while the node was down, have `LOADED_MS` from its first timer on. T3 a member who
//!             never connected is not removed until the next load. (tests `temporary_members::*`)
//! Limits      `temporary_members_max`; past it such invites are refused. `STEP_ITEMS` removals at once, others
//!             `STEP_EVERY_MS` later.

use crate::{
    command::Refusal,
    machine::Guild,
    state::{
        tasks::STEP_ITEMS,
        temporary_members::{LOADED_MS, NOT_YET},
    },
};
use guildhall_model::{GuildResource, ResourceKey, ResourceKind, UserId};
use guildhall_stdx::Now;

impl Guild {
    pub(crate) fn need_room_for_temporary(&self) -> Result<(), Refusal> {
        let has_room = self.temporary.len() < self.limits.temporary_members_max;
        if has_room { Ok(()) } else { Err(Refusal::TooManyTemporaryMembers) }
    }

    /// Adds a temporary member.
    pub(crate) fn begin_temporary(&mut self, user_id: UserId) {
        self.temporary.begin(user_id);
        self.put_resource(GuildResource::TemporaryMember(user_id));
    }

    /// A member's session ended.
    pub(crate) fn left(&mut self, now: Now, user_id: UserId) {
        if self.temporary.contains(user_id) && !self.relays.has_sessions(user_id) {
            self.temporary.set_timer(user_id, now.instant.after_ms(self.limits.temporary_away_ms));
            self.temporary.arm(now);
        }
    }

    /// The member has become permanent, or has left.
    pub(crate) fn forget_temporary(&mut self, user_id: UserId) {
        if self.temporary.remove(user_id) {
            self.delete_resource(ResourceKey::whole(ResourceKind::TemporaryMember, user_id.get()));
        }
    }

    /// Removes the members who are due.
    pub(crate) fn end_temporary(&mut self, now: Now) {
        if self.temporary.due_at().is_none_or(|at| at > now.instant) {
            return;
        }
        let loaded_at = self.temporary.loaded_at(now);
        for _ in 0..STEP_ITEMS {
            let Some((at, user_id)) = self.temporary.pop(now) else { break };
            if at == NOT_YET {
                self.temporary.set_timer(user_id, loaded_at.after_ms(LOADED_MS));
                continue;
            }
            if self.relays.has_sessions(user_id) {
                continue;
            }
            match self.member(user_id) {
                Some(member) if member.roles.is_empty() && user_id != self.structure.guild.owner_id => {
                    self.take_out(now, &member);
                }
                _ => self.forget_temporary(user_id),
            }
        }
        self.temporary.arm(now);
    }
}
