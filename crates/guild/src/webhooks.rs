//! Webhooks: made, changed, deleted; and what is posted by them.
//!
//! Owns        `CreateWebhook`, `ReadWebhook`, `ListWebhooks`, `UpdateWebhook`, `DeleteWebhook`, `ExecuteWebhook`,
//!             `EditWebhookMessage`, `DeleteWebhookMessage`, `ReadWebhookMessage`.
//! Invariants  X1 a token opens its own webhook and no other, and only messages that were posted by it.
//! Limits      `webhooks_per_channel_max`. Slow mode does not count.
//! Not here    generation of tokens: the caller passes an unguessable one.     Spec  docs/protocol/reference.md §7.1,
//!             §6.6.

use crate::{
    audit::{self, NewEntry},
    check::ChannelContext,
    command::{
        Actor, CommandResult, MessagePatch, MessageReply, NewMessage, NewThread, NewWebhook, Refusal, Stop,
        WebhookAccess, WebhookPatch, WebhookPost,
    },
    machine::Guild,
    mentions::Mentioning,
    messages::Sending,
    threads::PostAuthor,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, Payload, ReplicaUpdate, ResourcePayload};
use guildhall_model::{
    AuditAction, ChannelId, ChannelType, EventName, GuildResource, Message, MessageId, Permissions, ResourceKey,
    ResourceKind, Webhook, WebhookId,
};
use std::sync::Arc;

impl Guild {
    pub(crate) fn create_webhook(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        new: &NewWebhook,
    ) -> CommandResult<Arc<Webhook>> {
        let context = self.in_channel(turn, channel_id)?;
        context.need(Permissions::MANAGE_WEBHOOKS)?;
        need_place_for_webhooks(&context)?;
        self.need_room_for_webhook(channel_id)?;
        let user = context.member.as_ref().map(|member| member.user.clone());
        let application_id = user.as_ref().filter(|user| user.bot).map(|user| user.id.cast());
        let webhook = Webhook {
            id: new.id.unwrap_or_else(|| self.next_id(turn.now)),
            guild_id: self.structure.id(),
            channel_id,
            name: new.name.clone(),
            avatar: new.avatar.clone(),
            token: new.token.clone(),
            user,
            application_id,
            source: None,
        };
        let webhook = self.put_webhook(webhook);
        let entry = NewEntry::new(AuditAction::WebhookCreate, webhook.id);
        self.log(turn, entry.made(audit::of_webhook(&webhook)));
        Ok(webhook)
    }

    pub(crate) fn need_room_for_webhook(&self, channel_id: ChannelId) -> Result<(), Refusal> {
        let of_channel = self.resources.webhooks.values().filter(|webhook| webhook.channel_id == channel_id);
        if of_channel.count() < self.limits.webhooks_per_channel_max { Ok(()) } else { Err(Refusal::TooManyWebhooks) }
    }

    pub(crate) fn put_webhook(&mut self, webhook: Webhook) -> Arc<Webhook> {
        let webhook = Arc::new(webhook);
        self.resources.webhooks.insert(webhook.id, webhook.clone());
        self.put_resource(GuildResource::Webhook(webhook.clone()));
        self.publish_webhooks(webhook.channel_id);
        webhook
    }

    fn publish_webhooks(&mut self, channel_id: ChannelId) {
        let rule = AudienceRule::ChannelPermission(channel_id, Permissions::MANAGE_WEBHOOKS);
        let payload = Payload::Resource(Box::new(ResourcePayload::Webhooks(channel_id)));
        let event = self.event(EventName::WebhooksUpdate, rule, payload);
        self.publish(event, ReplicaUpdate::None);
    }

    fn need_webhook(&self, turn: Turn<'_>, id: WebhookId, access: &WebhookAccess) -> Result<Arc<Webhook>, Refusal> {
        let webhook = self.resources.webhooks.get(&id).cloned().ok_or(Refusal::UnknownWebhook)?;
        match access {
            WebhookAccess::Actor(actor) => {
                self.in_channel(turn.by(*actor), webhook.channel_id)?.need(Permissions::MANAGE_WEBHOOKS)?;
            }
            WebhookAccess::Token(token) if webhook.source.is_none() && is_same(token, &webhook.token) => {}
            WebhookAccess::Token(_) => return Err(Refusal::InvalidWebhookToken),
        }
        Ok(webhook)
    }

    pub(crate) fn read_webhook(
        &self,
        turn: Turn<'_>,
        id: WebhookId,
        access: &WebhookAccess,
    ) -> CommandResult<Arc<Webhook>> {
        Ok(self.need_webhook(turn, id, access)?)
    }

    /// Of one channel, or of all in which the actor may manage them.
    pub(crate) fn list_webhooks(
        &self,
        turn: Turn<'_>,
        channel_id: Option<ChannelId>,
    ) -> CommandResult<Vec<Arc<Webhook>>> {
        match channel_id {
            Some(channel_id) => self.in_channel(turn, channel_id)?.need(Permissions::MANAGE_WEBHOOKS)?,
            None => self.in_guild(turn)?.need(Permissions::MANAGE_WEBHOOKS)?,
        }
        let is_meant = |webhook: &&Arc<Webhook>| channel_id.is_none_or(|channel_id| webhook.channel_id == channel_id);
        let may_see = |webhook: &&Arc<Webhook>| {
            let context = self.in_channel(turn, webhook.channel_id);
            context.is_ok_and(|context| context.can(Permissions::MANAGE_WEBHOOKS))
        };
        let webhooks = self.resources.webhooks.values().filter(is_meant).filter(may_see).cloned();
        Ok(webhooks.collect())
    }

    pub(crate) fn update_webhook(
        &mut self,
        turn: Turn<'_>,
        id: WebhookId,
        access: &WebhookAccess,
        patch: &WebhookPatch,
    ) -> CommandResult<Arc<Webhook>> {
        let before = self.need_webhook(turn, id, access)?;
        let mut webhook = Webhook::clone(&before);
        if let Some(name) = &patch.name {
            webhook.name.clone_from(name);
        }
        if let Some(avatar) = &patch.avatar {
            webhook.avatar.clone_from(avatar);
        }
        // A token posts where it was made to post.
        if let (Some(channel_id), WebhookAccess::Actor(actor)) = (patch.channel_id, access) {
            let context = self.in_channel(turn.by(*actor), channel_id)?;
            context.need(Permissions::MANAGE_WEBHOOKS)?;
            need_place_for_webhooks(&context)?;
            webhook.channel_id = channel_id;
        }
        if webhook == *before {
            return Ok(before);
        }
        if webhook.channel_id != before.channel_id {
            self.publish_webhooks(before.channel_id);
        }
        let webhook = self.put_webhook(webhook);
        let entry = NewEntry::new(AuditAction::WebhookUpdate, id);
        self.log(turn.by(access.actor()), entry.changed(audit::of_webhook(&before), audit::of_webhook(&webhook)));
        Ok(webhook)
    }

    pub(crate) fn delete_webhook(
        &mut self,
        turn: Turn<'_>,
        id: WebhookId,
        access: &WebhookAccess,
    ) -> CommandResult<()> {
        let webhook = self.need_webhook(turn, id, access)?;
        self.resources.webhooks.remove(&id);
        self.delete_resource(ResourceKey::whole(ResourceKind::Webhook, id.get()));
        self.publish_webhooks(webhook.channel_id);
        let entry = NewEntry::new(AuditAction::WebhookDelete, id);
        self.log(turn.by(access.actor()), entry.gone(audit::of_webhook(&webhook)));
        Ok(())
    }

    /// The channel or thread that it may post into.
    fn webhook_channel(
        &self,
        turn: Turn<'_>,
        webhook: &Webhook,
        thread_id: Option<ChannelId>,
    ) -> Result<ChannelContext, Refusal> {
        let context = self.message_channel(turn.by(Actor::System), thread_id.unwrap_or(webhook.channel_id))?;
        let is_its = context.channel.id == webhook.channel_id || context.channel.parent_id == Some(webhook.channel_id);
        if is_its { Ok(context) } else { Err(Refusal::UnknownChannel) }
    }

    pub(crate) fn execute_webhook(
        &mut self,
        turn: Turn<'_>,
        id: WebhookId,
        access: &WebhookAccess,
        post: &WebhookPost,
    ) -> CommandResult<Box<MessageReply>> {
        let webhook = self.need_webhook(turn, id, access)?;
        let new: &NewMessage = &post.message;
        let author = Arc::new(webhook.author(post.username.as_deref(), post.avatar.as_deref()));
        let own = self.in_channel(turn.by(Actor::System), webhook.channel_id)?;
        match (&post.thread_name, post.thread_id, own.channel.kind.holds_posts()) {
            (Some(_), _, false) => return Err(Refusal::NoPostsByWebhook.into()),
            (Some(_), Some(_), true) => return Err(Refusal::PostOrThread.into()),
            (None, None, true) => return Err(Refusal::NeedsPostOrThread.into()),
            (Some(name), None, true) => {
                let thread =
                    NewThread { name: name.clone(), applied_tags: post.applied_tags.clone(), ..NewThread::default() };
                let author = PostAuthor::Webhook { id, user: author };
                return self.begin_webhook_post(turn.now, &own, &thread, new, author);
            }
            (None, _, _) => {}
        }
        let context = self.webhook_channel(turn, &webhook, post.thread_id)?;
        self.need_reopenable(&context)?;
        self.check_filled(new)?;
        // Nothing is refused from here on.

        self.open_thread(turn.now, &context);
        let message = Message {
            webhook_id: Some(id),
            ..Message::new(self.next_id(turn.now), context.channel.id, self.structure.id(), author)
        };
        let mentioning = Mentioning { permissions: Permissions::ALL, replied: None };
        let message = self.with_content(turn.now, new, mentioning, message);
        self.join_by_mention(turn.now, &context, &message.mentions);
        let sending = Sending { nonce: new.nonce.as_ref(), ..Sending::default() };
        Ok(self.commit_message(turn.now, &context, message, sending))
    }

    /// A message that was posted by this webhook.
    fn webhook_message(
        &mut self,
        turn: Turn<'_>,
        (id, access): (WebhookId, &WebhookAccess),
        thread_id: Option<ChannelId>,
        message_id: MessageId,
    ) -> Result<(ChannelContext, Arc<Message>), Stop> {
        let webhook = self.need_webhook(turn, id, access)?;
        let context = self.webhook_channel(turn, &webhook, thread_id)?;
        let message = self.need_message((context.channel.id, message_id))?.message.clone();
        if message.webhook_id == Some(id) { Ok((context, message)) } else { Err(Refusal::UnknownMessage.into()) }
    }

    pub(crate) fn read_webhook_message(
        &mut self,
        turn: Turn<'_>,
        webhook: (WebhookId, &WebhookAccess),
        thread_id: Option<ChannelId>,
        message_id: MessageId,
    ) -> CommandResult<Box<MessageReply>> {
        let (context, message) = self.webhook_message(turn, webhook, thread_id, message_id)?;
        let reactions = self.need_message((context.channel.id, message_id))?.counts(Actor::System);
        let message = self.limits.links.renewed(turn.now.unix, message);
        Ok(Box::new(MessageReply { message, reactions, referenced: None }))
    }

    pub(crate) fn edit_webhook_message(
        &mut self,
        turn: Turn<'_>,
        webhook: (WebhookId, &WebhookAccess),
        thread_id: Option<ChannelId>,
        message_id: MessageId,
        patch: &MessagePatch,
    ) -> CommandResult<Box<MessageReply>> {
        let (context, _) = self.webhook_message(turn, webhook, thread_id, message_id)?;
        self.edit_message(turn.by(Actor::System), context.channel.id, message_id, patch)
    }

    pub(crate) fn delete_webhook_message(
        &mut self,
        turn: Turn<'_>,
        webhook: (WebhookId, &WebhookAccess),
        thread_id: Option<ChannelId>,
        message_id: MessageId,
    ) -> CommandResult<()> {
        let (context, _) = self.webhook_message(turn, webhook, thread_id, message_id)?;
        self.delete_message(turn.by(Actor::System), context.channel.id, message_id)
    }
}

pub(crate) fn need_place_for_webhooks(context: &ChannelContext) -> Result<(), Refusal> {
    let is_one = !context.channel.kind.is_thread() && context.channel.kind != ChannelType::Category;
    if is_one { Ok(()) } else { Err(Refusal::NotATextChannel) }
}

/// Compares in constant time.
fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differences, (a, b)| differences | a ^ b) == 0
}
