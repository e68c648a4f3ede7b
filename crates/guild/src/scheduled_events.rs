//! Scheduled events of a guild, stored in its base fields.
//!
//! Owns        `CreateScheduledEvent`, `UpdateScheduledEvent`, `DeleteScheduledEvent`, `FollowScheduledEvent`,
//!             `UnfollowScheduledEvent`.
//! Invariants  N1 the creator of an event may change it with CREATE_EVENTS; others need MANAGE_EVENTS; only members who
//!             can view its channel receive it; the event is deleted with its channel. N2 an event that is created or
//!             changed can take place: it has a time, and a place of its type. Events stored before this rule keep a
//!             field until it is changed. N3 an event is scheduled, then active, then completed, or is cancelled
//!             instead; completed and cancelled events do not change.
//! Limits      `scheduled_events_max` events of a guild; `followers_max` followers of an event.
//! Not here    cover pictures: the caller stores them, under the id that it passes to `CreateScheduledEvent`.
//! Spec        docs/protocol/reference.md §6.10, §7.1.

use crate::{
    audit::{self, NewEntry},
    check::GuildContext,
    command::{CommandResult, Interest, NewScheduledEvent, Refusal, ScheduledEventContent},
    machine::Guild,
    record::Write,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, Payload, ReplicaUpdate, ResourcePayload};
use guildhall_model::{
    AuditAction, ChannelId, ChannelType, EventName, Guild as GuildFields, Id, Permissions, ScheduledEvent, UserId, name,
};
use guildhall_stdx::Now;
use serde_json::Value;
use std::{mem, sync::Arc};

/// Characters of a location. As upstream.
const LOCATION_CHARS_MAX: usize = 100;

impl Guild {
    pub(crate) fn create_scheduled_event(
        &mut self,
        turn: Turn<'_>,
        new: &NewScheduledEvent,
    ) -> CommandResult<Arc<ScheduledEvent>> {
        let guild_context = self.in_guild(turn)?;
        if new.id.is_some_and(|id| self.structure.guild.scheduled_events.iter().any(|event| event.id == id)) {
            return Err(Refusal::InvalidForm("id").into());
        }
        if guild_context.need(Permissions::CREATE_EVENTS).is_err() {
            guild_context.need(Permissions::MANAGE_EVENTS)?;
        }
        let mut events = self.structure.guild.scheduled_events.clone();
        if events.len() >= self.limits.scheduled_events_max {
            return Err(Refusal::TooManyScheduledEvents.into());
        }
        let content = self.check_event(turn, None, &new.content)?;
        let id = new.id.unwrap_or_else(|| self.next_id(turn.now));
        let creator_id = guild_context.member.as_ref().map(|member| member.user.id);
        let event = Arc::new(content.into_event(id, creator_id, Vec::new()));
        events.push(event.clone());
        self.put_scheduled_events(turn.now, events, EventName::GuildScheduledEventCreate, event.clone());
        let entry = NewEntry::new(AuditAction::ScheduledEventCreate, id);
        self.log(turn, entry.made(audit::of_event(&event)));
        Ok(event)
    }

    /// Replaces the content of an event.
    pub(crate) fn update_scheduled_event(
        &mut self,
        turn: Turn<'_>,
        id: Id<()>,
        content: &ScheduledEventContent,
    ) -> CommandResult<Arc<ScheduledEvent>> {
        let guild_context = self.in_guild(turn)?;
        let mut events = self.structure.guild.scheduled_events.clone();
        let at = self.scheduled_event_at(turn, id)?;
        let before = events[at].clone();
        need_own_event(&guild_context, before.creator_id)?;
        let content = self.check_event(turn, Some(&before), content)?;
        let event = Arc::new(content.into_event(id, before.creator_id, before.followers.clone()));
        events[at] = event.clone();
        self.put_scheduled_events(turn.now, events, EventName::GuildScheduledEventUpdate, event.clone());
        let entry = NewEntry::new(AuditAction::ScheduledEventUpdate, id);
        self.log(turn, entry.changed(audit::of_event(&before), audit::of_event(&event)));
        Ok(event)
    }

    /// Place of an event in the list, unless it is in a channel that the actor cannot view.
    fn scheduled_event_at(&self, turn: Turn<'_>, id: Id<()>) -> Result<usize, Refusal> {
        let events = &self.structure.guild.scheduled_events;
        let at = events.iter().position(|event| event.id == id).ok_or(Refusal::UnknownScheduledEvent)?;
        match events[at].channel_id {
            Some(channel_id) if self.in_channel(turn, channel_id).is_err() => Err(Refusal::UnknownScheduledEvent),
            _ => Ok(at),
        }
    }

    /// The content as it is stored, if an event with it can take place (N2, N3). Of a changed event only what differs
    /// from `before` is checked.
    fn check_event(
        &self,
        turn: Turn<'_>,
        before: Option<&ScheduledEvent>,
        content: &ScheduledEventContent,
    ) -> Result<ScheduledEventContent, Refusal> {
        let refused = |field| Err(Refusal::InvalidForm(field));
        let is_external = content.entity_type == ScheduledEvent::EXTERNAL;
        match before.map(|before| before.status) {
            Some(ScheduledEvent::COMPLETED | ScheduledEvent::CANCELLED) => return Err(Refusal::FinishedEvent),
            None if content.status != ScheduledEvent::SCHEDULED => return refused("status"),
            Some(status) if !may_follow(status, content.status) => return refused("status"),
            _ => {}
        }
        let place_was = before.map(|before| (before.entity_type, before.channel_id, &before.entity_metadata));
        if place_was != Some((content.entity_type, content.channel_id, &content.entity_metadata)) {
            match content.entity_type {
                ScheduledEvent::EXTERNAL if content.channel_id.is_some() => return refused("channel_id"),
                ScheduledEvent::EXTERNAL if !has_location(content) => return refused("entity_metadata"),
                ScheduledEvent::EXTERNAL => {}
                kind => self.check_event_channel(turn, kind, content)?,
            }
        }
        let (start, end) = (content.scheduled_start_time, content.scheduled_end_time);
        let is_new_start = before.is_none_or(|before| before.scheduled_start_time != start);
        let is_new_end = before.is_none_or(|before| before.scheduled_end_time != end);
        let is_new_type = before.is_none_or(|before| before.entity_type != content.entity_type);
        if is_new_start && start < turn.now.unix {
            return refused("scheduled_start_time");
        }
        let is_too_early = end.is_some_and(|end| end <= start || is_new_end && end <= turn.now.unix);
        let is_missing = is_external && end.is_none();
        if (is_new_end || is_new_type) && is_missing || (is_new_start || is_new_end) && is_too_early {
            return refused("scheduled_end_time");
        }
        // Metadata have the location of an external event. Other events have none.
        let entity_metadata = content.entity_metadata.clone().filter(|_| is_external);
        Ok(ScheduledEventContent { entity_metadata, ..content.clone() })
    }

    fn check_event_channel(
        &self,
        turn: Turn<'_>,
        entity_type: u8,
        content: &ScheduledEventContent,
    ) -> Result<(), Refusal> {
        const FIELD: &str = "channel_id";
        let channel_id = content.channel_id.filter(|id| self.structure.channels.contains_key(id));
        let context = self.in_channel(turn, channel_id.ok_or(Refusal::InvalidForm(FIELD))?)?;
        let kind = if entity_type == ScheduledEvent::STAGE { ChannelType::Stage } else { ChannelType::Voice };
        if context.channel.kind == kind { Ok(()) } else { Err(Refusal::InvalidForm(FIELD)) }
    }

    fn put_scheduled_events(
        &mut self,
        now: Now,
        events: Vec<Arc<ScheduledEvent>>,
        name: EventName,
        event: Arc<ScheduledEvent>,
    ) {
        let fields = GuildFields { scheduled_events: events, ..GuildFields::clone(&self.structure.guild) };
        let rule = self.viewers_or_members(event.channel_id);
        self.put_embedded(now, fields, rule, name, |_| ResourcePayload::ScheduledEvent(event));
    }

    /// Deletes the events and the stage of a channel that is about to go, while relays still know who can view it.
    pub(crate) fn end_events_in(&mut self, now: Now, channel_id: ChannelId) {
        let mut fields = GuildFields::clone(&self.structure.guild);
        let events = fields.scheduled_events.extract_if(.., |event| event.channel_id == Some(channel_id));
        let mut gone: Vec<_> = events
            .map(|event| (EventName::GuildScheduledEventDelete, ResourcePayload::ScheduledEvent(event)))
            .collect();
        let stages = fields.stage_instances.extract_if(.., |stage| stage.channel_id == channel_id);
        gone.extend(stages.map(|stage| (EventName::StageInstanceDelete, ResourcePayload::Stage(Box::new(stage)))));
        if gone.is_empty() {
            return;
        }
        let fields = Arc::new(fields);
        self.write(Write::PutGuild(fields.clone()));
        let mut replica_update = self.change_structure(now, |structure| structure.guild = fields);
        for (name, resource) in gone {
            let event = self.event(name, AudienceRule::Channel(channel_id), Payload::Resource(Box::new(resource)));
            self.publish(event, mem::replace(&mut replica_update, ReplicaUpdate::None));
        }
    }

    pub(crate) fn delete_scheduled_event(&mut self, turn: Turn<'_>, id: Id<()>) -> CommandResult<()> {
        let guild_context = self.in_guild(turn)?;
        let mut events = self.structure.guild.scheduled_events.clone();
        let at = self.scheduled_event_at(turn, id)?;
        need_own_event(&guild_context, events[at].creator_id)?;
        let event = events.remove(at);
        let entry = NewEntry::new(AuditAction::ScheduledEventDelete, id).gone(audit::of_event(&event));
        self.put_scheduled_events(turn.now, events, EventName::GuildScheduledEventDelete, event);
        self.log(turn, entry);
        Ok(())
    }

    /// Removes the interest of someone who leaves.
    pub(crate) fn forget_interest(&mut self, now: Now, user_id: UserId) {
        let follows = |event: &&Arc<ScheduledEvent>| event.followers.binary_search(&user_id).is_ok();
        let followed: Vec<_> = self.structure.guild.scheduled_events.iter().filter(follows).cloned().collect();
        for event in followed {
            let mut events = self.structure.guild.scheduled_events.clone();
            for kept in events.iter_mut().filter(|kept| kept.id == event.id) {
                Arc::make_mut(kept).followers.retain(|follower| *follower != user_id);
            }
            let fields = GuildFields { scheduled_events: events, ..GuildFields::clone(&self.structure.guild) };
            let payload = ResourcePayload::ScheduledEventUser { event_id: event.id, user_id };
            let name = EventName::GuildScheduledEventUserRemove;
            let rule = self.viewers_or_members(event.channel_id);
            self.put_embedded(now, fields, rule, name, |_| payload);
        }
    }

    /// Adds or removes the actor's interest in a scheduled event.
    pub(crate) fn change_interest(&mut self, turn: Turn<'_>, id: Id<()>, change: Interest) -> CommandResult<()> {
        let guild_context = self.in_guild(turn)?;
        let user_id: UserId = guild_context.member.as_ref().ok_or(Refusal::UnknownUser)?.user.id;
        let mut events = self.structure.guild.scheduled_events.clone();
        let at = self.scheduled_event_at(turn, id)?;
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
        let rule = self.viewers_or_members(channel_id);
        self.put_embedded(turn.now, fields, rule, name, |_| payload);
        Ok(())
    }
}

fn may_follow(before: u8, after: u8) -> bool {
    before == after
        || matches!(
            (before, after),
            (ScheduledEvent::SCHEDULED, ScheduledEvent::ACTIVE | ScheduledEvent::CANCELLED)
                | (ScheduledEvent::ACTIVE, ScheduledEvent::COMPLETED)
        )
}

fn has_location(content: &ScheduledEventContent) -> bool {
    let location = content.entity_metadata.as_ref().and_then(|metadata| metadata.get("location"));
    let location = location.and_then(Value::as_str).unwrap_or_default();
    !name::is_blank(location) && location.chars().count() <= LOCATION_CHARS_MAX
}

/// The creator still needs CREATE_EVENTS; for others' events, MANAGE_EVENTS is needed.
fn need_own_event(guild_context: &GuildContext, creator_id: Option<UserId>) -> Result<(), Refusal> {
    let is_own = creator_id.is_some_and(|user_id| guild_context.is(user_id));
    if is_own && guild_context.permissions.contains(Permissions::CREATE_EVENTS) {
        return Ok(());
    }
    guild_context.need(Permissions::MANAGE_EVENTS)
}
