//! Actions on guild resources: pins, emoji, stickers, scheduled events, stages, webhooks, and orders.

use super::SentMessage;
use crate::{checker::Fault, world::World};
use guildhall_guild::{
    Actor, ChannelMove, Command, EmojiPatch, MessagePatch, NewEmoji, NewMessage, NewScheduledEvent, NewSticker,
    NewWebhook, Reply, ScheduledEventContent, StageContent, WebhookAccess, WebhookPost,
};
use guildhall_model::{ChannelId, EmojiId, Id, RoleId, UserId, Webhook};
use guildhall_stdx::Timestamp;
use std::sync::Arc;

/// Objects created so far.
#[derive(Debug, Default)]
pub struct KnownResources {
    emojis: Vec<EmojiId>,
    events: Vec<Id<()>>,
    webhooks: Vec<Arc<Webhook>>,
}

const KEPT_MAX: usize = 6;

impl World {
    pub(super) fn keep(&mut self, member: UserId, channel: ChannelId) -> Result<(), Fault> {
        let by = if self.rng.chance(0.6) { Actor::System } else { Actor::User(member) };
        match self.rng.below(22) {
            0..5 => self.pin(by)?,
            5..7 => self.delete_several(by)?,
            7 | 8 => self.change_emoji(by)?,
            9 => {
                let new = NewSticker {
                    id: None,
                    name: "sticker".into(),
                    description: None,
                    tags: "smile".into(),
                    format_type: 1,
                };
                self.command(by, &Command::CreateSticker(Box::new(new)))?;
            }
            10..12 => self.announce(by, Actor::User(member))?,
            12 => self.change_stage(by)?,
            13..15 => self.put_in_order(by)?,
            _ => self.use_webhook(by, channel)?,
        }
        Ok(())
    }

    fn pin(&mut self, by: Actor) -> Result<(), Fault> {
        let Some(SentMessage { channel, message, .. }) = self.some_message() else { return Ok(()) };
        let unpins = self.rng.chance(0.3);
        let command = if unpins { Command::Unpin(channel, message) } else { Command::Pin(channel, message) };
        self.command(by, &command)?;
        Ok(())
    }

    /// Several messages of one channel at once.
    fn delete_several(&mut self, by: Actor) -> Result<(), Fault> {
        let Some(SentMessage { channel, .. }) = self.some_message() else { return Ok(()) };
        let here = self.actions.messages.iter().filter(|sent| sent.channel == channel).map(|sent| sent.message);
        let messages = here.take(1 + self.rng.below(4) as usize).collect();
        self.command(by, &Command::DeleteMessages(channel, messages))?;
        Ok(())
    }

    fn change_emoji(&mut self, by: Actor) -> Result<(), Fault> {
        let known = self.rng.pick(&self.actions.kept.emojis).copied();
        let command = match (known, self.rng.below(3)) {
            (Some(emoji), 0) => Command::DeleteEmoji(emoji),
            (Some(emoji), 1) => {
                let name = Some(format!("emoji_{}", self.rng.below(10)));
                Command::UpdateEmoji(emoji, Box::new(EmojiPatch { name, ..EmojiPatch::default() }))
            }
            _ => Command::CreateEmoji(Box::new(NewEmoji {
                id: None,
                name: "emoji".into(),
                animated: false,
                roles: Vec::new(),
            })),
        };
        if let Some(Reply::Emoji(emoji)) = self.command(by, &command)?
            && !self.actions.kept.emojis.contains(&emoji.id)
            && self.actions.kept.emojis.len() < KEPT_MAX
        {
            self.actions.kept.emojis.push(emoji.id);
        }
        Ok(())
    }

    fn announce(&mut self, by: Actor, follower: Actor) -> Result<(), Fault> {
        let known = self.rng.pick(&self.actions.kept.events).copied();
        let content = |name: String| ScheduledEventContent {
            channel_id: None,
            name,
            description: None,
            scheduled_start_time: Timestamp(1_800_000_000_000),
            scheduled_end_time: Some(Timestamp(1_800_003_600_000)),
            privacy_level: 2,
            status: 1,
            entity_type: 3,
            entity_metadata: Some(serde_json::json!({"location": "here"})),
            image: None,
        };
        let name = format!("event {}", self.rng.below(10));
        let (by, command) = match (known, self.rng.below(6)) {
            (Some(known), 0) => (by, Command::DeleteScheduledEvent(known)),
            (Some(known), 1) => (by, Command::UpdateScheduledEvent(known, Box::new(content(name)))),
            (Some(known), 2..5) if self.rng.chance(0.6) => (follower, Command::FollowScheduledEvent(known)),
            (Some(known), 2..5) => (follower, Command::UnfollowScheduledEvent(known)),
            _ => (by, Command::CreateScheduledEvent(Box::new(NewScheduledEvent { id: None, content: content(name) }))),
        };
        if let Some(Reply::ScheduledEvent(event)) = self.command(by, &command)?
            && !self.actions.kept.events.contains(&event.id)
            && self.actions.kept.events.len() < KEPT_MAX
        {
            self.actions.kept.events.push(event.id);
        }
        Ok(())
    }

    fn change_stage(&mut self, by: Actor) -> Result<(), Fault> {
        let stages = self.checker.state.channels.iter().filter(|(_, channel)| channel.kind == 13);
        let stages: Vec<u64> = stages.map(|(id, _)| *id).collect();
        let Some(channel_id) = self.rng.pick(&stages).map(|id| ChannelId::new(*id)) else { return Ok(()) };
        let content = StageContent {
            topic: format!("topic {}", self.rng.below(10)),
            privacy_level: 2,
            guild_scheduled_event_id: None,
        };
        let command = match self.rng.below(3) {
            0 => Command::DeleteStage(channel_id),
            1 => Command::CreateStage(channel_id, Box::new(content)),
            _ => Command::UpdateStage(channel_id, Box::new(content)),
        };
        self.command(by, &command)?;
        Ok(())
    }

    /// Positions, categories, and what comes with these.
    fn put_in_order(&mut self, by: Actor) -> Result<(), Fault> {
        let state = self.checker.state.clone();
        if self.rng.chance(0.4) {
            let roles: Vec<RoleId> = state.roles.keys().map(|role| RoleId::new(*role)).collect();
            let moves = roles.into_iter().filter(|role| role.get() != state.guild_id);
            let moves = moves.map(|role| (role, 1 + self.rng.below(5) as i32)).collect();
            self.command(by, &Command::MoveRoles(moves))?;
            return Ok(());
        }
        let category = state.channels.iter().find(|(_, channel)| channel.kind == 4).map(|(id, _)| ChannelId::new(*id));
        let others = state.channels.iter().filter(|(_, channel)| channel.kind != 4).map(|(id, _)| ChannelId::new(*id));
        let mut moves: Vec<ChannelMove> = Vec::new();
        for id in others {
            if self.rng.chance(0.4) {
                let lock_permissions = self.rng.chance(0.4);
                let parent_id = self.rng.chance(0.6).then_some(category);
                moves.push(ChannelMove { id, position: Some(self.rng.below(9) as i32), parent_id, lock_permissions });
            }
        }
        self.command(by, &Command::MoveChannels(moves))?;
        Ok(())
    }

    /// Webhooks are made, changed and deleted; they post, and change what they posted.
    fn use_webhook(&mut self, by: Actor, channel: ChannelId) -> Result<(), Fault> {
        let Some(webhook) = self.rng.pick(&self.actions.kept.webhooks).cloned() else {
            return self.make_webhook(by, channel);
        };
        let access = match self.rng.below(4) {
            0 => WebhookAccess::Actor(by),
            _ => WebhookAccess::Token(webhook.token.clone()),
        };
        let threads = self.checker.state.threads.iter().filter(|(_, t)| t.parent == webhook.channel_id.get());
        let threads: Vec<u64> = threads.map(|(id, _)| *id).collect();
        let posted: Vec<SentMessage> =
            self.actions.messages.iter().filter(|sent| sent.author == webhook.id.cast()).copied().collect();
        let posted = self.rng.pick(&posted).copied();
        let command = match (posted, self.rng.below(12)) {
            (_, 0) => Command::DeleteWebhook(webhook.id, access),
            (_, 1) => return self.make_webhook(by, channel),
            (Some(sent), 2 | 3) => {
                let content = Some("changed by its webhook".to_owned());
                let patch = Box::new(MessagePatch { content, ..MessagePatch::default() });
                Command::EditWebhookMessage(webhook.id, access, Some(sent.channel), sent.message, patch)
            }
            (Some(sent), 4) => Command::DeleteWebhookMessage(webhook.id, access, Some(sent.channel), sent.message),
            _ => {
                let content = format!("posted {}", self.rng.below(1_000));
                let thread_id = self.rng.pick(&threads).filter(|_| self.rng.chance(0.5)).map(|id| ChannelId::new(*id));
                let message = NewMessage { content, ..NewMessage::default() };
                let post = WebhookPost { message, thread_id, ..WebhookPost::default() };
                Command::ExecuteWebhook(webhook.id, access, Box::new(post))
            }
        };
        let is_new = matches!(command, Command::ExecuteWebhook(..));
        if let Some(Reply::Message(reply)) = self.command(by, &command)?
            && is_new
        {
            self.remember_message(&reply.message);
        }
        if matches!(command, Command::DeleteWebhook(..)) {
            self.actions.kept.webhooks.retain(|of| of.id != webhook.id);
        }
        Ok(())
    }

    fn make_webhook(&mut self, by: Actor, channel: ChannelId) -> Result<(), Fault> {
        let new =
            NewWebhook { id: None, name: "hook".into(), avatar: None, token: format!("token {}", self.rng.next_u64()) };
        if let Some(Reply::Webhook(webhook)) = self.command(by, &Command::CreateWebhook(channel, Box::new(new)))?
            && self.actions.kept.webhooks.len() < KEPT_MAX
        {
            self.actions.kept.webhooks.push(webhook);
        }
        Ok(())
    }

    fn some_message(&mut self) -> Option<SentMessage> {
        let count = self.actions.messages.len() as u64;
        self.actions.messages.get(self.rng.below(count.max(1)) as usize).copied()
    }
}
