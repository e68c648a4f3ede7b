//! Pins: messages that a channel keeps at hand.
//!
//! Owns        `Pin`, `Unpin`, `ListPins`; each channel's newest pin.
//! Invariants  a message has `pinned` set exactly while it is in the list; a deleted message leaves the list.
//! Limits      `pins_per_channel_max`.     Spec  docs/protocol/reference.md §7.2, §10.3.

use crate::{
    audit::NewEntry,
    check::ChannelContext,
    command::{CommandResult, Refusal},
    machine::Guild,
    messages::Sending,
    record::Write,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, Payload, ReplicaUpdate, ResourcePayload, ThreadEntry};
use guildhall_model::{
    AuditAction, Channel, ChannelId, EventName, GuildResource, Message, MessageId, MessageReference, Permissions, Pin,
    ResourceKey, ResourceKind,
};
use guildhall_stdx::{Now, Timestamp};
use std::sync::Arc;

fn key_of(channel_id: ChannelId, message_id: MessageId) -> ResourceKey {
    ResourceKey { kind: ResourceKind::Pin, id: channel_id.get(), part: message_id.get() }
}

impl Guild {
    pub(crate) fn pin(&mut self, turn: Turn<'_>, key: (ChannelId, MessageId)) -> CommandResult<()> {
        let context = self.message_channel(turn, key.0)?;
        need_to_pin(&context)?;
        self.need_open(&context)?;
        let message = self.need_readable(&context, key.1)?.message.clone();
        if message.pinned {
            return Ok(());
        }
        let pins = self.resources.pins.get(&key.0).map_or(0, |pins| pins.len());
        if pins >= self.limits.pins_per_channel_max {
            return Err(Refusal::TooManyPins.into());
        }
        let referenced = self.referenced_by(&message)?.flatten();
        // Nothing is refused from here on.

        self.resources.pins.entry(key.0).or_default().insert(key.1, turn.now.unix);
        let pin = Pin { channel_id: key.0, message_id: key.1, pinned_at: turn.now.unix };
        self.put_resource(GuildResource::Pin(pin));
        let pinned = Message { pinned: true, ..Message::clone(&message) };
        self.replace_message(turn.now, &context, pinned, referenced);
        self.publish_pins(turn.now, &context, Some(turn.now.unix));
        if let Some(member) = &context.member {
            let reference =
                MessageReference { message_id: key.1, channel_id: key.0, guild_id: self.guild_of_messages() };
            let note = Message {
                kind: Message::KIND_PIN,
                message_reference: Some(reference),
                ..Message::new(self.next_id(turn.now), key.0, self.guild_of_messages(), member.user.clone())
            };
            self.commit_message(turn.now, &context, note, Sending::default());
        }
        self.log_pin(turn, AuditAction::MessagePin, &message);
        Ok(())
    }

    pub(crate) fn unpin(&mut self, turn: Turn<'_>, key: (ChannelId, MessageId)) -> CommandResult<()> {
        let context = self.message_channel(turn, key.0)?;
        need_to_pin(&context)?;
        self.need_open(&context)?;
        let message = self.need_readable(&context, key.1)?.message.clone();
        if !message.pinned {
            return Ok(());
        }
        let referenced = self.referenced_by(&message)?.flatten();
        // Nothing is refused from here on.

        self.forget_pin(key);
        let unpinned = Message { pinned: false, ..Message::clone(&message) };
        self.replace_message(turn.now, &context, unpinned, referenced);
        let newest = self.resources.pins.get(&key.0).and_then(|pins| pins.values().max().copied());
        self.publish_pins(turn.now, &context, newest);
        self.log_pin(turn, AuditAction::MessageUnpin, &message);
        Ok(())
    }

    fn log_pin(&mut self, turn: Turn<'_>, action: AuditAction, message: &Message) {
        let entry = NewEntry::new(action, message.author.id).option("channel_id", message.channel_id);
        self.log(turn, entry.option("message_id", message.id));
    }

    /// Removes the pin of a deleted or unpinned message. The deletion event implies it.
    pub(crate) fn forget_pin(&mut self, key: (ChannelId, MessageId)) {
        let Some(pins) = self.resources.pins.get_mut(&key.0) else { return };
        if pins.remove(&key.1).is_none() {
            return;
        }
        if pins.is_empty() {
            self.resources.pins.remove(&key.0);
        }
        self.delete_resource(key_of(key.0, key.1));
    }

    /// Stores and publishes a changed message. Returns it.
    pub(crate) fn replace_message(
        &mut self,
        now: Now,
        context: &ChannelContext,
        message: Message,
        referenced: Option<Arc<Message>>,
    ) -> Arc<Message> {
        let message = Arc::new(message);
        self.write(Write::PutMessage(message.clone()));
        let version = self.touch();
        self.messages.change((message.channel_id, message.id), version, |cached| cached.message = message.clone());
        let published = message.clone();
        self.publish_message(now, EventName::MessageUpdate, context, published, referenced, ReplicaUpdate::None);
        message
    }

    /// Publishes CHANNEL_PINS_UPDATE, and stores the time of the newest pin in the channel without a CHANNEL_UPDATE.
    pub(crate) fn publish_pins(&mut self, now: Now, context: &ChannelContext, last_pin_timestamp: Option<Timestamp>) {
        let channel =
            Channel { last_pin_timestamp, ..Channel::clone(&self.with_newest_message(context.channel.clone())) };
        let channel = Arc::new(channel);
        self.write(Write::PutChannel(channel.clone()));
        let replica_update = self.keep_channel(now, &channel);
        let resource = ResourcePayload::Pins { channel_id: channel.id, last_pin_timestamp };
        let rule = self.channel_rule(&channel);
        let event = self.event(EventName::ChannelPinsUpdate, rule, Payload::Resource(Box::new(resource)));
        self.publish(event, replica_update);
    }

    /// Newest pin first.
    pub(crate) fn list_pins(
        &self,
        turn: Turn<'_>,
        channel_id: ChannelId,
    ) -> CommandResult<Vec<(MessageId, Timestamp)>> {
        let context = self.message_channel(turn, channel_id)?;
        if !context.may_read_history() {
            return Ok(Vec::new());
        }
        let pins = self.resources.pins.get(&channel_id).into_iter().flatten();
        let mut pins: Vec<_> = pins.map(|(id, at)| (*id, *at)).collect();
        pins.sort_unstable_by_key(|(id, at)| std::cmp::Reverse((*at, *id)));
        Ok(pins)
    }

    /// Audience of an event about messages in a channel: its viewers. The text chat of a voice channel requires
    /// CONNECT as well, as `message_channel` does.
    pub(crate) fn channel_rule(&self, channel: &Channel) -> AudienceRule {
        match self.threads.get(channel.id) {
            Some(entry) => Self::thread_rule(entry),
            None if channel.kind.is_voice() => AudienceRule::ChannelPermission(channel.id, Permissions::CONNECT),
            None => AudienceRule::Channel(channel.id),
        }
    }

    /// A channel is as this from now on.
    fn keep_channel(&mut self, now: Now, channel: &Arc<Channel>) -> ReplicaUpdate {
        if let Some(entry) = self.threads.get(channel.id).cloned() {
            return self.keep_thread(ThreadEntry { channel: channel.clone(), ..entry });
        }
        self.change_structure(now, |structure| {
            Arc::make_mut(&mut structure.channels).insert(channel.id, channel.clone());
        })
    }
}

/// The older permission counts too: guilds of before the newer one have given it to their moderators.
fn need_to_pin(context: &ChannelContext) -> Result<(), Refusal> {
    let may = context.permissions.intersects(Permissions::PIN_MESSAGES | Permissions::MANAGE_MESSAGES);
    if may { Ok(()) } else { Err(Refusal::MissingPermissions) }
}
