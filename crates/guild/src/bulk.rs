//! Bulk changes: prune, a role for many members, and deletion of a voice channel with many users.
//!
//! Owns        `Prune`, `BulkRole`, and `DeleteChannel` if many users are in voice.
//! Doors       `prune`, `bulk_role`, `delete_crowded_channel` from `Guild::handle_command`; `bulk_found` when a job
//!             found the members; `bulk_step`, `close_channel` from the background tasks.
//! Invariants  U1 a member is changed only if, at that moment, the actor has the permission and the filter admits the
//!             member. U2 the caller gets one answer at the end: the number of changed members, or the refusal that
//!             ended the task.
//! Limits      `slow_commands_max` at once; one slice per tick; `MATCHES_MAX` members per search.
//! Not here    transactions: earlier changes stay if a later one fails.

use crate::{
    audit::NewEntry,
    check::{GuildContext, Rank},
    command::{BulkRole, ChannelReply, CommandResult, Prune, Refusal, RoleAction, Stop, request},
    job::{Matches, MemberFilter},
    machine::Guild,
    state::{
        jobs::Waiter,
        tasks::{BackgroundTask, Bulk, BulkPlan, Change, ClosingChannel, STEP_ITEMS},
    },
    turn::Turn,
};
use guildhall_model::{AuditAction, ChannelId, Permissions, UserId};
use guildhall_stdx::Now;

impl Guild {
    pub(crate) fn prune(&mut self, turn: Turn<'_>, prune: &Prune) -> CommandResult<u64> {
        let guild_context = self.in_guild(turn)?;
        guild_context.need(Permissions::KICK_MEMBERS)?;
        for role_id in &prune.roles {
            guild_context.need_above(Rank::of(&*self.need_role(*role_id)?))?;
        }
        let own = guild_context.member.as_ref().map(|member| member.user.id);
        let filter = MemberFilter {
            no_roles_but: Some(prune.roles.clone()),
            joined_before: Some(prune.joined_before),
            offline: true,
            none_of: own.into_iter().chain([self.structure.guild.owner_id]).collect(),
            ..MemberFilter::default()
        };
        let days = turn.now.unix.0.saturating_sub(prune.joined_before.0).max(0) / 86_400_000;
        let plan = BulkPlan { change: Change::Remove { days }, filter, counts_only: prune.counts_only };
        self.begin_bulk(turn, plan)
    }

    pub(crate) fn bulk_role(&mut self, turn: Turn<'_>, bulk: &BulkRole) -> CommandResult<u64> {
        let guild_context = self.in_guild(turn)?;
        let named = bulk.filter.roles.iter().chain(bulk.filter.no_roles_but.iter().flatten());
        for role_id in named.chain([&bulk.role_id]) {
            self.need_role(*role_id)?;
        }
        guild_context.need(Permissions::MANAGE_ROLES)?;
        self.check_hand_out(&guild_context, bulk.role_id)?;
        let change = Change::Role(bulk.role_id, bulk.action);
        self.begin_bulk(turn, BulkPlan { change, filter: bulk.filter.clone(), counts_only: false })
    }

    fn begin_bulk(&mut self, turn: Turn<'_>, plan: BulkPlan) -> CommandResult<u64> {
        self.need_room_for_slow_command()?;
        let (actor, reason) = (turn.actor, turn.reason.cloned());
        self.answer_later(actor, |command| {
            Waiter::Bulk(Box::new(Bulk {
                command,
                actor,
                plan,
                user_ids: Vec::new().into_iter(),
                more_after: None,
                done_count: 0,
                reason,
            }))
        })
    }

    fn need_room_for_slow_command(&self) -> Result<(), Refusal> {
        let count = self.background.commands_count() + self.queue.bulks_count();
        if count < self.limits.slow_commands_max { Ok(()) } else { Err(Refusal::Unavailable) }
    }

    /// The search found all affected members, or the first part.
    pub(crate) fn bulk_found(&mut self, now: Now, mut bulk: Box<Bulk>, matches: Matches) {
        if bulk.plan.counts_only {
            return self.answer::<request::Prune>(bulk.command, Ok(matches.count));
        }
        bulk.more_after = matches.user_ids.last().copied().filter(|_| matches.is_cut);
        bulk.user_ids = matches.user_ids.into_iter();
        self.begin_background_task(now, BackgroundTask::Bulk(bulk));
    }

    /// Processes one slice. Returns the rest, unless it is done or waits for another search.
    pub(crate) fn bulk_step(&mut self, now: Now, mut bulk: Box<Bulk>) -> Option<Box<Bulk>> {
        for _ in 0..STEP_ITEMS {
            let Some(user_id) = bulk.user_ids.next() else { break };
            match self.change_one(now, &bulk, user_id) {
                Ok(is_changed) => bulk.done_count += u64::from(is_changed),
                Err(refusal) => {
                    self.log_prune(now, &bulk);
                    self.refuse(bulk.command, refusal);
                    return None;
                }
            }
        }
        if !bulk.user_ids.as_slice().is_empty() {
            return Some(bulk);
        }
        if bulk.more_after.is_some() {
            self.enqueue(Waiter::Bulk(bulk));
        } else {
            self.log_prune(now, &bulk);
            match bulk.plan.change {
                Change::Remove { .. } => self.answer::<request::Prune>(bulk.command, Ok(bulk.done_count)),
                Change::Role(..) => self.answer::<request::BulkRole>(bulk.command, Ok(bulk.done_count)),
            }
        }
        None
    }

    /// Changes a member if U1 still holds; false if not, or if there was nothing to change. A refusal means that the
    /// actor lost the permission for the whole change.
    fn change_one(&mut self, now: Now, bulk: &Bulk, user_id: UserId) -> Result<bool, Refusal> {
        let guild_context = self.in_guild(bulk.turn(now))?;
        match bulk.plan.change {
            Change::Remove { .. } => guild_context.need(Permissions::KICK_MEMBERS)?,
            Change::Role(role_id, _) => {
                guild_context.need(Permissions::MANAGE_ROLES)?;
                self.check_hand_out(&guild_context, role_id)?;
            }
        }
        let Some(entry) = self.members.entry(user_id) else { return Ok(false) };
        let may_go = user_id != self.structure.guild.owner_id;
        if !bulk.plan.filter.admits(&self.structure, entry) {
            return Ok(false);
        }
        Ok(match bulk.plan.change {
            Change::Remove { .. } => may_go && self.prune_one(now, &guild_context, user_id),
            Change::Role(role_id, action) => {
                entry.member.roles.contains(&role_id) != (action == RoleAction::Grant)
                    && self.change_member_role(bulk.turn(now), user_id, role_id, action).is_ok()
            }
        })
    }

    /// As `RemoveMember`, without an audit log entry: one entry covers all.
    fn prune_one(&mut self, now: Now, guild_context: &GuildContext, user_id: UserId) -> bool {
        let Some(member) =
            self.member(user_id).filter(|member| guild_context.need_above(self.member_rank(member)).is_ok())
        else {
            return false;
        };
        self.take_out(now, &member);
        true
    }

    fn log_prune(&mut self, now: Now, bulk: &Bulk) {
        let Change::Remove { days } = bulk.plan.change else { return };
        if bulk.done_count > 0 {
            let entry = NewEntry::untargeted(AuditAction::MemberPrune).option("delete_member_days", days);
            self.log(bulk.turn(now), entry.option("members_removed", bulk.done_count));
        }
    }

    /// `DeleteChannel` for a channel with more users than can leave at once. Joins are refused in the meantime.
    pub(crate) fn delete_crowded_channel(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
    ) -> CommandResult<ChannelReply> {
        self.need_room_for_slow_command()?;
        let command = self.queue.next_id();
        self.begin_background_task(
            turn.now,
            BackgroundTask::CloseChannel(ClosingChannel {
                command,
                channel_id,
                actor: turn.actor,
                reason: turn.reason.cloned(),
            }),
        );
        Err(Stop::Later(command))
    }

    /// Whether a channel refuses users because it is about to be deleted.
    pub(crate) fn is_closing(&self, channel_id: ChannelId) -> bool {
        let is_it = |task: &BackgroundTask| matches!(task, BackgroundTask::CloseChannel(closing) if closing.channel_id == channel_id);
        self.background.iter().any(is_it)
    }

    /// Disconnects one slice of users. Deletes the channel and returns none when it is empty.
    pub(crate) fn close_channel(&mut self, now: Now, closing: ClosingChannel) -> Option<ClosingChannel> {
        let (command, channel_id, turn) = (closing.command, closing.channel_id, closing.turn(now));
        let may = self.in_channel(turn, channel_id).and_then(|context| context.need(Permissions::MANAGE_CHANNELS));
        if let Err(refusal) = may {
            self.refuse(command, refusal);
            return None;
        }
        self.empty_voice(channel_id, STEP_ITEMS);
        if self.voice.count_in(channel_id) > 0 {
            return Some(closing);
        }
        match self.delete_channel(turn, channel_id) {
            Ok(reply) => self.answer::<request::DeleteChannel>(command, Ok(reply)),
            Err(Stop::Refused(refusal)) => self.refuse(command, refusal),
            Err(Stop::Needs(..) | Stop::Later(_)) => unreachable!("the channel is empty"),
        }
        None
    }
}
