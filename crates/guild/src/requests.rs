//! Requests for members by sessions and commands.
//!
//! Owns        ops 8, 35 and 39; `SearchMembers`, `ReadAudience`.
//! Doors       `request_members`, `recent_members`, `count_members` from `Guild::handle_relay`; `send_found_members`,
//!             `send_count`, `found_members` when a job is done.
//! Invariants  A1 an answer contains the members' current state, even if the search was earlier. A2 a session without
//!             permission gets an empty answer.
//! Limits      members looked up at once: `RequestGuildMembers::IDS_MAX`, `RECENT_PAGE`.
//! Spec        docs/protocol/reference.md §8.7, §8.8

use crate::{
    command::{Actor, CommandResult, Refusal, Stop},
    job::{Audience, Prefix},
    machine::Guild,
    state::jobs::{MemberQueryKind, MembersRequest, Waiter},
    turn::Turn,
};
use guildhall_guild_protocol::{
    AudienceRule, FoundMembers, MemberEntry, MembersAnswer, Payload, RelayMessage, SessionKey,
};
use guildhall_model::Member;
use guildhall_model::{
    AccountKind, ChannelId, EventName, Permissions, UserId,
    to_gateway::{MemberQuery, RequestGuildMembers, SearchRecentMembers},
};
use guildhall_stdx::Now;
use std::sync::Arc;

impl Guild {
    /// Op 8. A session that sees the guild sees its members; only the complete list of a user account
    /// needs a permission.
    pub(crate) fn request_members(&mut self, now: Now, key: SessionKey, request: RequestGuildMembers) {
        let Some(user_id) = self.session(key).map(|session| session.client.user_id) else { return };
        let RequestGuildMembers { query, presences, nonce, .. } = request;
        if presences {
            self.presences.table_was_read();
        }
        let members = match query {
            MemberQuery::All if self.may_list(now, key) => FoundMembers::Whole(self.members.snapshot()),
            MemberQuery::All => FoundMembers::default(),
            MemberQuery::Ids(user_ids) => self.members_by_id(&user_ids),
            MemberQuery::Prefix { prefix, limit } => {
                let limit = limit.min(RequestGuildMembers::IDS_MAX);
                let Some(prefix) = Prefix::new(&prefix) else {
                    let entries = self.members.iter().take(limit).cloned().collect();
                    let members = FoundMembers::Some { entries, not_found: Vec::new() };
                    return self.send_members(key, MembersAnswer { nonce, presences, members });
                };
                let kind = MemberQueryKind::Named { prefix, limit };
                return self.ask_for_members(MembersRequest { session: key, user_id, nonce, presences, kind });
            }
        };
        self.send_members(key, MembersAnswer { nonce, presences, members });
    }

    /// Op 35. Any member may use it, because reference.md §8.7 names no permission; it reaches back
    /// `RECENT_MAX` members.
    pub(crate) fn recent_members(&mut self, key: SessionKey, request: SearchRecentMembers) {
        let Some(user_id) = self.session(key).map(|session| session.client.user_id) else { return };
        let SearchRecentMembers { query, continuation_token: after, nonce, .. } = request;
        let kind = MemberQueryKind::Recent { prefix: Prefix::new(&query), after };
        self.ask_for_members(MembersRequest { session: key, user_id, nonce, presences: false, kind });
    }

    fn ask_for_members(&mut self, request: MembersRequest) {
        if self.has_room_for_job(Some(request.user_id)) {
            self.enqueue(Waiter::Members(request));
        } else {
            self.send_found_members(&request, &[]);
        }
    }

    fn may_list(&self, now: Now, key: SessionKey) -> bool {
        let Some(session) = self.session(key) else { return false };
        let Some(member) = self.member(session.client.user_id) else { return false };
        let lists = Permissions::MANAGE_ROLES | Permissions::KICK_MEMBERS | Permissions::BAN_MEMBERS;
        session.client.kind == AccountKind::Bot
            || self.structure.guild_permissions(self.structure.standing(&member, now.unix)).intersects(lists)
    }

    fn members_by_id(&self, user_ids: &[UserId]) -> FoundMembers {
        let (mut entries, mut not_found) = (Vec::new(), Vec::new());
        for user_id in user_ids.iter().take(RequestGuildMembers::IDS_MAX) {
            match self.members.entry(*user_id) {
                Some(entry) => entries.push(entry.clone()),
                None => not_found.push(*user_id),
            }
        }
        FoundMembers::Some { entries, not_found }
    }

    /// Sends the members found for a session, in their current state (A1); members who left or were renamed
    /// since are omitted.
    pub(crate) fn send_found_members(&mut self, request: &MembersRequest, user_ids: &[UserId]) {
        if self.session(request.session).is_none() {
            return;
        }
        if request.presences {
            self.presences.table_was_read();
        }
        let prefix = request.kind.prefix();
        let still = |entry: &&MemberEntry| prefix.is_none_or(|prefix| prefix.is_of(&entry.member));
        let entries = user_ids.iter().filter_map(|id| self.members.entry(*id)).filter(still).cloned();
        let mut entries: Vec<MemberEntry> = entries.collect();
        if matches!(request.kind, MemberQueryKind::Recent { .. }) {
            // A page holds the newest members in ascending order: clients continue from its first.
            entries.reverse();
        }
        let members = FoundMembers::Some { entries, not_found: Vec::new() };
        self.send_members(
            request.session,
            MembersAnswer { nonce: request.nonce.clone(), presences: request.presences, members },
        );
    }

    fn send_members(&mut self, session: SessionKey, answer: MembersAnswer) {
        self.send(session.relay, RelayMessage::Members { session, answer: Box::new(answer) });
    }

    /// Op 39. Not answered if the account cannot view the channel, or past the limits of jobs: clients retry.
    pub(crate) fn count_members(&mut self, now: Now, session: SessionKey, channel_id: ChannelId) {
        let Some(user_id) = self.session(session).map(|session| session.client.user_id) else { return };
        if self.in_channel(Turn::new(now, Actor::User(user_id)), channel_id).is_ok()
            && self.has_room_for_job(Some(user_id))
        {
            self.enqueue(Waiter::Count { session, user_id, channel_id, at: now.unix });
        }
    }

    pub(crate) fn send_count(&mut self, now: Now, session: SessionKey, channel_id: ChannelId, audience: Audience) {
        let Some(user_id) = self.session(session).map(|session| session.client.user_id) else { return };
        if self.in_channel(Turn::new(now, Actor::User(user_id)), channel_id).is_err() {
            return;
        }
        let Audience { member_count, presence_count } = audience;
        let payload = Payload::ChannelMemberCount { channel_id, member_count, presence_count };
        let rule = AudienceRule::Channel(channel_id);
        let event = Arc::new(self.event(EventName::ChannelMemberCountUpdate, rule, payload));
        self.send(session.relay, RelayMessage::Direct { session, event });
    }

    pub(crate) fn search_members(
        &mut self,
        turn: Turn<'_>,
        query: &str,
        limit: usize,
    ) -> CommandResult<Vec<Arc<Member>>> {
        self.in_guild(turn)?;
        let prefix = Prefix::new(query).ok_or(Refusal::InvalidForm("query"))?;
        let limit = limit.clamp(1, self.limits.found_members_max);
        self.answer_later(turn.actor, |command| Waiter::Search { command, actor: turn.actor, prefix, limit })
    }

    pub(crate) fn found_members(
        &self,
        turn: Turn<'_>,
        prefix: &Prefix,
        user_ids: &[UserId],
    ) -> Result<Vec<Arc<Member>>, Refusal> {
        self.in_guild(turn)?;
        let members = user_ids.iter().filter_map(|id| self.member(*id)).filter(|member| prefix.is_of(member));
        Ok(members.collect())
    }

    pub(crate) fn read_audience(&mut self, turn: Turn<'_>, channel_id: ChannelId) -> CommandResult<Audience> {
        self.in_channel(turn, channel_id)?;
        self.answer_later(turn.actor, |command| Waiter::Audience {
            command,
            actor: turn.actor,
            channel_id,
            at: turn.now.unix,
        })
    }

    /// A command that needs a job.
    pub(crate) fn answer_later<T>(
        &mut self,
        actor: Actor,
        waiting: impl FnOnce(crate::JobId) -> Waiter,
    ) -> CommandResult<T> {
        if !self.has_room_for_job(actor.user_id()) {
            return Err(Refusal::Unavailable.into());
        }
        let command = self.queue.next_id();
        self.enqueue(waiting(command));
        Err(Stop::Later(command))
    }
}
