//! Announcements: messages that are published to the channels which follow an announcement channel.
//!
//! Owns        `Crosspost`, `AddFollower`, `RemoveFollower`, `ListFollowers` of the followed channel; `Follow` and
//!             `DeliverCrosspost` of one that follows.
//! Invariants  N1 a message is published once. N2 a copy is delivered only by a webhook that follows its channel.
//!             (tests `announcements::*`)
//! Limits      `followers_per_channel_max`; `webhooks_per_channel_max`, because each follower has a webhook.
//! Not here    the way from one guild to the others: `guildhall-rest`.     Spec  docs/protocol/choices.md
//!             "Forwards and announcements".

use crate::{
    audit::{self, NewEntry},
    command::{Actor, CommandResult, Forward, MessageReply, NewFollow, Refusal},
    machine::Guild,
    messages::Sending,
    turn::Turn,
    webhooks::need_place_for_webhooks,
};
use guildhall_model::{
    AuditAction, ChannelId, ChannelType, Follower, GuildResource, Message, MessageId, MessageReference, Permissions,
    ResourceKey, ResourceKind, Webhook, WebhookId,
};
use std::sync::Arc;

impl Guild {
    /// Marks a message as published. The caller delivers it to the followers.
    pub(crate) fn crosspost(
        &mut self,
        turn: Turn<'_>,
        (channel_id, message_id): (ChannelId, MessageId),
    ) -> CommandResult<Box<MessageReply>> {
        let context = self.message_channel(turn, channel_id)?;
        context.need_free()?;
        let cached = self.need_readable(&context, message_id)?;
        let (before, reactions) = (cached.message.clone(), cached.counts(turn.actor));
        if context.channel.kind != ChannelType::Announcement {
            return Err(Refusal::WrongChannelType.into());
        }
        let is_author = context.is(before.author.id);
        context.need(if is_author { Permissions::SEND_MESSAGES } else { Permissions::MANAGE_MESSAGES })?;
        if before.kind != Message::KIND_DEFAULT || before.poll.is_some() || !before.snapshots.is_empty() {
            return Err(Refusal::InvalidMessageType.into());
        }
        if before.flags & (Message::CROSSPOSTED | Message::IS_CROSSPOST) != 0 {
            return Err(Refusal::CrosspostedBefore.into());
        }
        // Nothing is refused from here on.

        let message = Message { flags: before.flags | Message::CROSSPOSTED, ..Message::clone(&before) };
        let message = self.replace_message(turn.now, &context, message, None);
        let message = self.limits.links.renewed(turn.now.unix, message);
        Ok(Box::new(MessageReply { message, reactions, referenced: None }))
    }

    /// Adds a follower of an announcement channel that the actor can view.
    pub(crate) fn add_follower(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        follower: Follower,
    ) -> CommandResult<()> {
        let context = self.in_channel(turn, channel_id)?;
        if context.channel.kind != ChannelType::Announcement {
            return Err(Refusal::WrongChannelType.into());
        }
        let followers_count = self.resources.followers.get(&channel_id).map_or(0, |followers| followers.len());
        if followers_count >= self.limits.followers_per_channel_max {
            return Err(Refusal::TooManyFollowers.into());
        }
        let followers = self.resources.followers.entry(channel_id).or_default();
        followers.insert(follower.webhook_id, follower.guild_id);
        self.put_resource(GuildResource::Follower(Follower { channel_id, ..follower }));
        Ok(())
    }

    /// Removes a follower whose webhook is gone. System only.
    pub(crate) fn remove_follower(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        webhook_id: WebhookId,
    ) -> CommandResult<()> {
        self.in_guild(turn)?.need_system()?;
        let Some(followers) = self.resources.followers.get_mut(&channel_id) else { return Ok(()) };
        if followers.remove(&webhook_id).is_some() {
            if followers.is_empty() {
                self.resources.followers.remove(&channel_id);
            }
            let (id, part) = (channel_id.get(), webhook_id.get());
            self.delete_resource(ResourceKey { kind: ResourceKind::Follower, id, part });
        }
        Ok(())
    }

    /// By webhook. System only.
    pub(crate) fn list_followers(&self, turn: Turn<'_>, channel_id: ChannelId) -> CommandResult<Vec<Follower>> {
        self.in_guild(turn)?.need_system()?;
        let followers = self.resources.followers.get(&channel_id).into_iter().flatten();
        let follower =
            |(webhook_id, guild_id): (&_, &_)| Follower { channel_id, webhook_id: *webhook_id, guild_id: *guild_id };
        Ok(followers.map(follower).collect())
    }

    /// Those of a deleted channel.
    pub(crate) fn forget_channel_followers(&mut self, channel_id: ChannelId) {
        if self.resources.followers.remove(&channel_id).is_some() {
            let key = ResourceKey::whole(ResourceKind::Follower, channel_id.get());
            self.write(crate::record::Write::DeleteResources(self.structure.id(), key));
        }
    }

    /// Makes the webhook by which a channel follows another one, which the caller has checked.
    pub(crate) fn follow_channel(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        new: &NewFollow,
    ) -> CommandResult<Arc<Webhook>> {
        let context = self.in_channel(turn, channel_id)?;
        context.need(Permissions::MANAGE_WEBHOOKS)?;
        need_place_for_webhooks(&context)?;
        if !context.channel.kind.holds_messages() {
            return Err(Refusal::NotATextChannel.into());
        }
        self.need_room_for_webhook(channel_id)?;
        let user = context.member.as_ref().map(|member| member.user.clone());
        let source = new.source.clone();
        let webhook = self.put_webhook(Webhook {
            id: new.id,
            guild_id: self.structure.id(),
            channel_id,
            name: format!("{} #{}", source.guild_name, source.channel_name),
            avatar: None,
            token: String::new(),
            user: user.clone(),
            application_id: None,
            source: Some(source.clone()),
        });
        if let Some(user) = user {
            let reference = MessageReference {
                message_id: MessageId::new(0),
                channel_id: source.channel_id,
                guild_id: Some(source.guild_id),
            };
            let note = Message {
                kind: Message::KIND_CHANNEL_FOLLOW_ADD,
                content: webhook.name.clone(),
                message_reference: Some(reference),
                ..Message::new(self.next_id(turn.now), channel_id, self.structure.id(), user)
            };
            self.commit_message(turn.now, &context, note, Sending::default());
        }
        let entry = NewEntry::new(AuditAction::WebhookCreate, webhook.id);
        self.log(turn, entry.made(audit::of_webhook(&webhook)));
        Ok(webhook)
    }

    /// Posts a copy of a message of the followed channel. System only.
    pub(crate) fn deliver_crosspost(
        &mut self,
        turn: Turn<'_>,
        webhook_id: WebhookId,
        original: &Forward,
    ) -> CommandResult<Box<MessageReply>> {
        self.in_guild(turn)?.need_system()?;
        let webhook = self.resources.webhooks.get(&webhook_id).cloned().ok_or(Refusal::UnknownWebhook)?;
        let is_its = webhook.source.as_ref().is_some_and(|source| source.channel_id == original.channel_id);
        let snapshot = original.snapshot.as_ref().filter(|_| is_its).ok_or(Refusal::UnknownWebhook)?;
        let context = self.message_channel(turn.by(Actor::System), webhook.channel_id)?;
        // Nothing is refused from here on.

        let author = Arc::new(webhook.author(None, None));
        let message = Message {
            webhook_id: Some(webhook_id),
            // Without mentions: the names are of another guild.
            content: snapshot.content.clone(),
            embeds: snapshot.embeds.clone(),
            components: snapshot.components.clone(),
            attachments: snapshot.attachments.clone(),
            sticker_items: snapshot.sticker_items.clone(),
            flags: snapshot.flags & !Message::CROSSPOSTED | Message::IS_CROSSPOST,
            message_reference: Some(MessageReference {
                message_id: original.message_id,
                channel_id: original.channel_id,
                guild_id: original.guild_id,
            }),
            ..Message::new(self.next_id(turn.now), context.channel.id, self.structure.id(), author)
        };
        Ok(self.commit_message(turn.now, &context, message, Sending::default()))
    }
}
