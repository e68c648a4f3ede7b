//! Scheduled events of a guild, stored in its base fields.
//!
//! Owns        `CreateScheduledEvent`, `UpdateScheduledEvent`, `DeleteScheduledEvent`, `FollowScheduledEvent`,
//!             `UnfollowScheduledEvent`.
//! Invariants  the creator of an event may change it with CREATE_EVENTS; others need MANAGE_EVENTS.
//! Limits      `scheduled_events_max` events of a guild; `followers_max` followers of an event.
//! Not here    cover pictures: the caller stores them, under the id that it passes to `CreateScheduledEvent`.
//! Spec        docs/protocol/reference.md §6.10, §7.1.

use crate::{
    audit::{self, NewEntry},
    check::GuildContext,
    command::{Actor, NewScheduledEvent, Refusal, ScheduledEventContent},
    machine::{CommandResult, Guild},
};
use guildhall_guild_protocol::ResourcePayload;
use guildhall_model::{AuditAction, EventName, Guild as GuildFields, Id, Permissions, ScheduledEvent, UserId};
use guildhall_stdx::Now;
use std::sync::Arc;

/// Change of an actor's interest in a scheduled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Add,
    Remove,
}

impl Guild {
    pub(crate) fn create_scheduled_event(
        &mut self,
        now: Now,
        actor: Actor,
        new: &NewScheduledEvent,
    ) -> CommandResult<Arc<ScheduledEvent>> {
        let guild_context = self.in_guild(now, actor)?;
        if new.id.is_some_and(|id| self.scheduled_event_at(id).is_ok()) {
            return Err(Refusal::InvalidForm("id").into());
        }
        if guild_context.need(Permissions::CREATE_EVENTS).is_err() {
            guild_context.need(Permissions::MANAGE_EVENTS)?;
        }
        let mut events = self.structure.guild.scheduled_events.clone();
        if events.len() >= self.limits.scheduled_events_max {
            return Err(Refusal::TooManyScheduledEvents.into());
        }
        let id = new.id.unwrap_or_else(|| self.next_id(now));
        let creator_id = guild_context.member.as_ref().map(|member| member.user.id);
        let event = Arc::new(new.content.clone().into_event(id, creator_id, Vec::new()));
        events.push(event.clone());
        self.put_scheduled_events(now, events, EventName::GuildScheduledEventCreate, event.clone());
        let entry = NewEntry::new(AuditAction::ScheduledEventCreate, id);
        self.log(now, actor, entry.made(audit::of_event(&event)));
        Ok(event)
    }

    /// Replaces the content of an event.
    pub(crate) fn update_scheduled_event(
        &mut self,
        now: Now,
        actor: Actor,
        id: Id<()>,
        content: &ScheduledEventContent,
    ) -> CommandResult<Arc<ScheduledEvent>> {
        let guild_context = self.in_guild(now, actor)?;
        let mut events = self.structure.guild.scheduled_events.clone();
        let at = self.scheduled_event_at(id)?;
        let before = events[at].clone();
        need_own_event(&guild_context, before.creator_id)?;
        let event = Arc::new(content.clone().into_event(id, before.creator_id, before.followers.clone()));
        events[at] = event.clone();
        self.put_scheduled_events(now, events, EventName::GuildScheduledEventUpdate, event.clone());
        let entry = NewEntry::new(AuditAction::ScheduledEventUpdate, id);
        self.log(now, actor, entry.changed(audit::of_event(&before), audit::of_event(&event)));
        Ok(event)
    }

    fn scheduled_event_at(&self, id: Id<()>) -> Result<usize, Refusal> {
        let events = &self.structure.guild.scheduled_events;
        events.iter().position(|event| event.id == id).ok_or(Refusal::UnknownScheduledEvent)
    }

    fn put_scheduled_events(
        &mut self,
        now: Now,
        events: Vec<Arc<ScheduledEvent>>,
        name: EventName,
        event: Arc<ScheduledEvent>,
    ) {
        let fields = GuildFields { scheduled_events: events, ..GuildFields::clone(&self.structure.guild) };
        self.put_embedded(now, fields, event.channel_id, name, |_| ResourcePayload::ScheduledEvent(event));
    }

    pub(crate) fn delete_scheduled_event(&mut self, now: Now, actor: Actor, id: Id<()>) -> CommandResult<()> {
        let guild_context = self.in_guild(now, actor)?;
        let mut events = self.structure.guild.scheduled_events.clone();
        let at = self.scheduled_event_at(id)?;
        need_own_event(&guild_context, events[at].creator_id)?;
        let event = events.remove(at);
        let entry = NewEntry::new(AuditAction::ScheduledEventDelete, id).gone(audit::of_event(&event));
        self.put_scheduled_events(now, events, EventName::GuildScheduledEventDelete, event);
        self.log(now, actor, entry);
        Ok(())
    }

    /// Adds or removes the actor's interest in a scheduled event.
    pub(crate) fn change_interest(
        &mut self,
        now: Now,
        actor: Actor,
        id: Id<()>,
        change: Interest,
    ) -> CommandResult<()> {
        let guild_context = self.in_guild(now, actor)?;
        let user_id: UserId = guild_context.member.as_ref().ok_or(Refusal::UnknownUser)?.user.id;
        let mut events = self.structure.guild.scheduled_events.clone();
        let at = self.scheduled_event_at(id)?;
        if change == Interest::Add {
            guild_context.need_free()?;
        }
        let mut event = ScheduledEvent::clone(&events[at]);
        let name = match (event.followers.binary_search(&user_id), change) {
            (Err(position), Interest::Add) => {
                if event.followers.len() >= self.limits.followers_max {
                    return Err(Refusal::Unavailable.into());
                }
                event.followers.insert(position, user_id);
                EventName::GuildScheduledEventUserAdd
            }
            (Ok(position), Interest::Remove) => {
                event.followers.remove(position);
                EventName::GuildScheduledEventUserRemove
            }
            (Ok(_), Interest::Add) | (Err(_), Interest::Remove) => return Ok(()),
        };
        let channel_id = event.channel_id;
        events[at] = Arc::new(event);
        let fields = GuildFields { scheduled_events: events, ..GuildFields::clone(&self.structure.guild) };
        let payload = ResourcePayload::ScheduledEventUser { event_id: id, user_id };
        self.put_embedded(now, fields, channel_id, name, |_| payload);
        Ok(())
    }
}

/// The creator still needs CREATE_EVENTS; for others' events, MANAGE_EVENTS is needed.
fn need_own_event(guild_context: &GuildContext, creator_id: Option<UserId>) -> Result<(), Refusal> {
    let is_own = creator_id.is_some_and(|user_id| guild_context.is(user_id));
    if is_own && guild_context.permissions.contains(Permissions::CREATE_EVENTS) {
        return Ok(());
    }
    guild_context.need(Permissions::MANAGE_EVENTS)
}
