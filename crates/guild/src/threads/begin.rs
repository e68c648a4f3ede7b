//! Threads that are begun: from a message, from nothing, as a post of a forum.
//!
//! Owns        `CreateThread`.

use super::Members;
use crate::{
    audit::{self, NewEntry},
    check::ChannelContext,
    command::{Actor, NewThread, Refusal, ThreadReply},
    machine::{CommandResult, Guild, Stop},
    record::Write,
};
use guildhall_guild_protocol::{ReplicaUpdate, ResourcePayload, ThreadEntry, ThreadEvent};
use guildhall_model::{
    AuditAction, Channel, ChannelId, ChannelType, EventName, GuildResource, Member, Message, MessageId,
    MessageReference, Permissions, ThreadFields, ThreadMember,
};
use guildhall_stdx::Now;
use std::sync::Arc;

/// Flag of a message that a thread was begun from.
const HAS_THREAD: u32 = 1 << 5;
/// Minutes, unless told otherwise.
const AUTO_ARCHIVE_MIN: u16 = 4_320;

impl Guild {
    pub(crate) fn create_thread(
        &mut self,
        now: Now,
        actor: Actor,
        parent_id: ChannelId,
        new: &NewThread,
    ) -> CommandResult<ThreadReply> {
        let parent = self.in_channel(now, actor, parent_id)?;
        let kind = thread_kind(&parent.channel, new)?;
        // A post of a forum is a message for users who may write there.
        let holds_posts = parent.channel.kind.holds_posts();
        parent.need(match kind {
            _ if holds_posts => Permissions::SEND_MESSAGES,
            ChannelType::PrivateThread => Permissions::CREATE_PRIVATE_THREADS,
            _ => Permissions::CREATE_PUBLIC_THREADS,
        })?;
        let limits = &self.limits;
        if self.threads.active_count() >= limits.active_threads_max || self.threads.len() >= limits.threads_max {
            return Err(Refusal::TooManyThreads.into());
        }
        let starter = match new.from {
            Some(message_id) => {
                parent.need_history()?;
                if self.threads.get(message_id.cast()).is_some() {
                    return Err(Refusal::ThreadExists.into());
                }
                Some(self.need_message((parent_id, message_id))?.message.clone())
            }
            None => None,
        };
        let starter_referenced = match &starter {
            Some(starter) => self.referenced_by(starter)?.flatten(),
            None => None,
        };
        if holds_posts && new.message.is_none() || !holds_posts && new.message.is_some() {
            return Err(Refusal::InvalidForm("message").into());
        }
        if let Some(post) = &new.message {
            self.check_filled(post)?;
            if !post.attachments.is_empty() {
                parent.need(Permissions::ATTACH_FILES)?;
            }
        }
        let may_manage = parent.can(Permissions::MANAGE_THREADS);
        let applied_tags = Self::check_tags(&parent.channel, &[], &new.applied_tags, may_manage)?;
        let owner = parent.author()?;
        // Nothing is refused from here on, but a post whose message is: that is checked the same way before.

        let thread_id: ChannelId = match new.from {
            Some(message_id) => message_id.cast(),
            None => self.next_id(now),
        };
        let thread = Channel {
            parent_id: Some(parent_id),
            rate_limit_per_user: new
                .rate_limit_per_user
                .or(parent.channel.default_thread_rate_limit_per_user)
                .unwrap_or_default(),
            thread: Some(Box::new(ThreadFields {
                owner_id: owner.user.id,
                archived: false,
                archive_timestamp: now.unix,
                auto_archive_duration: new
                    .auto_archive_duration
                    .or(parent.channel.default_auto_archive_duration)
                    .unwrap_or(AUTO_ARCHIVE_MIN),
                locked: false,
                invitable: new.invitable && kind == ChannelType::PrivateThread,
                message_count: 0,
                total_message_sent: 0,
                applied_tags,
            })),
            ..Channel::new(thread_id, self.structure.id(), kind, &new.name)
        };
        let own = ThreadMember { thread_id, user_id: owner.user.id, join_timestamp: now.unix, flags: 0 };
        let members: Members = Arc::new([(own.user_id, own)].into());
        let entry = ThreadEntry { channel: Arc::new(thread), members };
        self.threads.add(now, entry.clone());
        self.write(Write::PutChannel(entry.channel.clone()));
        self.put_resource(GuildResource::ThreadMember(own));
        let replica_update = ReplicaUpdate::Thread(thread_id, Some(entry.clone()));
        let event = ThreadEvent { entry: entry.clone(), own: None, newly_created: true };
        self.publish_thread(EventName::ThreadCreate, &entry, None, ResourcePayload::Thread(event), replica_update);
        self.publish_thread_members(&entry, Some(own), None);
        let mut began_from = None;
        if let Some(starter) = starter {
            let message = Arc::new(Message { flags: starter.flags | HAS_THREAD, ..Message::clone(&starter) });
            self.write(Write::PutMessage(message.clone()));
            let version = self.touch();
            self.messages.change((parent_id, message.id), version, |cached| cached.message = message.clone());
            began_from = Some(message.clone());
            self.publish_message(
                now,
                EventName::MessageUpdate,
                &parent,
                message,
                starter_referenced,
                ReplicaUpdate::None,
            );
        }
        if let Some(post) = &new.message {
            let context = self.in_thread(now, Actor::System, thread_id)?;
            let context = ChannelContext { channel: context.channel, ..parent.clone() };
            let allowed = post.allowed_mentions.as_ref();
            let mentions = self.resolve_mentions(&post.content, allowed, context.permissions, None);
            let message = Message {
                content: post.content.clone(),
                mention_everyone: mentions.everyone,
                mentions: mentions.users,
                mention_roles: mentions.roles,
                embeds: post.embeds.clone(),
                components: post.components.clone(),
                attachments: self.with_ids(now, &post.attachments),
                sticker_items: self.sticker_items(&post.sticker_ids).unwrap_or_default(),
                flags: post.flags,
                // The post's first message has the post's id.
                ..Message::new(thread_id.cast(), thread_id, self.structure.id(), owner.user.clone())
            };
            let nonce = post.nonce.as_ref().map(|nonce| (nonce, false));
            self.commit_message(now, &context, message, nonce, None);
        }
        self.announce_thread(now, &parent, &owner, thread_id, began_from);
        let logged = NewEntry::new(AuditAction::ThreadCreate, thread_id);
        self.log(now, actor, logged.made(audit::of_channel(&entry.channel)));
        self.thread_reply(thread_id, actor)
    }

    /// Adds the starter message to the thread; a thread without one gets a notice in the channel. Posts of forums and
    /// private threads get no notice.
    fn announce_thread(
        &mut self,
        now: Now,
        parent: &ChannelContext,
        owner: &Member,
        thread_id: ChannelId,
        began_from: Option<Arc<Message>>,
    ) {
        let Some(entry) = self.threads.get(thread_id).filter(|entry| !entry.is_private()) else { return };
        let thread = entry.channel.clone();
        if !matches!(parent.channel.kind, ChannelType::Text | ChannelType::Announcement) {
            return;
        }
        let (id, guild_id) = (self.next_id(now), self.structure.id());
        match began_from {
            Some(starter) => {
                let reference = MessageReference { message_id: starter.id, channel_id: parent.channel.id, guild_id };
                let message = Message {
                    kind: Message::KIND_THREAD_STARTER,
                    message_reference: Some(reference),
                    ..Message::new(id, thread_id, guild_id, starter.author.clone())
                };
                let context = ChannelContext { channel: thread, ..parent.clone() };
                self.commit_message(now, &context, message, None, Some(starter));
            }
            None => {
                let reference = MessageReference { message_id: MessageId::new(0), channel_id: thread_id, guild_id };
                let message = Message {
                    kind: Message::KIND_THREAD_CREATED,
                    content: thread.name.clone(),
                    message_reference: Some(reference),
                    ..Message::new(id, parent.channel.id, guild_id, owner.user.clone())
                };
                self.commit_message(now, parent, message, None, None);
            }
        }
    }
}

/// The requested type of thread, if the channel can have it.
fn thread_kind(parent: &Channel, new: &NewThread) -> Result<ChannelType, Stop> {
    let wanted = new.kind;
    match (parent.kind, wanted) {
        (ChannelType::Announcement, None | Some(ChannelType::AnnouncementThread)) => {
            Ok(ChannelType::AnnouncementThread)
        }
        (ChannelType::Text, Some(ChannelType::PrivateThread)) if new.from.is_none() => Ok(ChannelType::PrivateThread),
        // Without a message to begin from, and without a word, it is private, as upstream has it.
        (ChannelType::Text, None) if new.from.is_none() => Ok(ChannelType::PrivateThread),
        (ChannelType::Text | ChannelType::Forum | ChannelType::Media, None | Some(ChannelType::PublicThread)) => {
            Ok(ChannelType::PublicThread)
        }
        (ChannelType::Text | ChannelType::Announcement, Some(_)) => Err(Refusal::InvalidForm("type").into()),
        _ => Err(Refusal::NotATextChannel.into()),
    }
}
