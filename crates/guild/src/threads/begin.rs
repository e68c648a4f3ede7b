//! Threads that are begun: from a message, from nothing, as a post of a forum by a member or a webhook.
//!
//! Owns        `CreateThread`; the post of `ExecuteWebhook`.

use super::{Members, TagRight, members::Membership};
use crate::{
    audit::{self, NewEntry},
    check::ChannelContext,
    command::{CommandResult, MessageReply, NewMessage, NewThread, Refusal, Stop, ThreadReply},
    machine::Guild,
    mentions::Mentioning,
    messages::{Sending, need_for_content},
    record::Write,
    slow_mode::Limited,
    turn::Turn,
};
use guildhall_guild_protocol::{ReplicaUpdate, ResourcePayload, ThreadEntry, ThreadEvent};
use guildhall_model::{
    AuditAction, Channel, ChannelId, ChannelType, EventName, GuildResource, Id, Member, Message, MessageId,
    MessageReference, Permissions, ThreadFields, ThreadMember, User, UserId, WebhookId,
};
use guildhall_stdx::Now;
use std::sync::Arc;

/// Flag of a message that a thread was begun from.
const HAS_THREAD: u32 = 1 << 5;
/// Default, in minutes.
const AUTO_ARCHIVE_MIN: u16 = 4_320;

/// Author of a post, and owner of the thread.
#[derive(Debug)]
pub(crate) enum PostAuthor {
    Member(Arc<User>),
    /// A webhook, as the account that signs its post.
    Webhook {
        id: WebhookId,
        user: Arc<User>,
    },
}

impl PostAuthor {
    fn id(&self) -> UserId {
        match self {
            Self::Member(user) => user.id,
            Self::Webhook { id, .. } => id.cast(),
        }
    }

    fn member(&self) -> Option<&Arc<User>> {
        if let Self::Member(user) = self { Some(user) } else { None }
    }
}

impl Guild {
    pub(crate) fn create_thread(
        &mut self,
        turn: Turn<'_>,
        parent_id: ChannelId,
        new: &NewThread,
    ) -> CommandResult<ThreadReply> {
        let parent = self.in_channel(turn, parent_id)?;
        let kind = thread_kind(&parent.channel, new)?;
        // A post of a forum is a message for users who may write there.
        let holds_posts = parent.channel.kind.holds_posts();
        parent.need(match kind {
            _ if holds_posts => Permissions::SEND_MESSAGES,
            ChannelType::PrivateThread => Permissions::CREATE_PRIVATE_THREADS,
            _ => Permissions::CREATE_PUBLIC_THREADS,
        })?;
        self.need_room_for_thread()?;
        let owner = parent.author()?;
        self.check_slow_mode(turn.now, &parent, owner.user.id, Limited::Threads)?;
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
            need_for_content(&parent, post)?;
            self.need_for_poll(&parent, post)?;
        }
        let right = TagRight::of(&parent);
        let applied_tags = Self::check_tags(&parent.channel, &[], &new.applied_tags, right)?;
        let mut text = new.name.clone();
        if let Some(post) = &new.message {
            text.push('\n');
            text.push_str(&post.text());
        }
        let matched = self.judge(turn.now, &parent, &owner, &text)?;
        // Nothing is refused from here on, but a post whose message is: that is checked the same way before.

        let thread_id: ChannelId = match new.from {
            Some(message_id) => message_id.cast(),
            None => self.next_id(turn.now),
        };
        self.moderated(thread_id.cast(), matched);
        let author = PostAuthor::Member(owner.user.clone());
        let entry = self.add_thread(
            turn.now,
            &parent,
            Channel::new(thread_id, self.structure.id(), kind, &new.name),
            new,
            applied_tags,
            &author,
        );
        self.record_for_slow_mode(turn.now, &parent, owner.user.id, Limited::Threads);
        let mut began_from = None;
        if let Some(starter) = starter {
            let message = Arc::new(Message { flags: starter.flags | HAS_THREAD, ..Message::clone(&starter) });
            self.write(Write::PutMessage(message.clone()));
            let version = self.touch();
            self.messages.change((parent_id, message.id), version, |cached| cached.message = message.clone());
            began_from = Some(message.clone());
            self.publish_message(
                turn.now,
                EventName::MessageUpdate,
                &parent,
                message,
                starter_referenced,
                ReplicaUpdate::None,
            );
        }
        if let Some(post) = &new.message {
            self.put_first_message(turn.now, &parent, &entry, post, author);
        }
        self.announce_thread(turn.now, &parent, &owner, thread_id, began_from);
        let logged = NewEntry::new(AuditAction::ThreadCreate, thread_id);
        self.log(turn, logged.made(audit::of_channel(&entry.channel)));
        self.thread_reply(thread_id, turn.actor)
    }

    fn need_room_for_thread(&self) -> Result<(), Refusal> {
        let limits = &self.limits;
        let is_full =
            self.threads.active_count() >= limits.active_threads_max || self.threads.len() >= limits.threads_max;
        if is_full { Err(Refusal::TooManyThreads) } else { Ok(()) }
    }

    /// Opens a post in a webhook's forum, with its first message. The webhook is its owner, and no member of it.
    pub(crate) fn begin_webhook_post(
        &mut self,
        now: Now,
        parent: &ChannelContext,
        new: &NewThread,
        first: &NewMessage,
        author: PostAuthor,
    ) -> CommandResult<Box<MessageReply>> {
        self.need_room_for_thread()?;
        self.check_filled(first)?;
        // A webhook chooses tags as a member without MANAGE_THREADS does.
        let applied_tags = Self::check_tags(&parent.channel, &[], &new.applied_tags, TagRight::Member)?;
        // Nothing is refused from here on.

        let thread_id: ChannelId = self.next_id(now);
        let thread = Channel::new(thread_id, self.structure.id(), ChannelType::PublicThread, &new.name);
        let entry = self.add_thread(now, parent, thread, new, applied_tags, &author);
        Ok(self.put_first_message(now, parent, &entry, first, author))
    }

    /// Stores and publishes a new thread. A member who owns it is its first member.
    fn add_thread(
        &mut self,
        now: Now,
        parent: &ChannelContext,
        thread: Channel,
        new: &NewThread,
        applied_tags: Vec<Id<()>>,
        owner: &PostAuthor,
    ) -> ThreadEntry {
        let (thread_id, kind) = (thread.id, thread.kind);
        let thread = Channel {
            parent_id: Some(parent.channel.id),
            rate_limit_per_user: new
                .rate_limit_per_user
                .or(parent.channel.default_thread_rate_limit_per_user)
                .unwrap_or_default(),
            thread: Some(Box::new(ThreadFields {
                owner_id: owner.id(),
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
            ..thread
        };
        let join = |user: &Arc<User>| ThreadMember { thread_id, user_id: user.id, join_timestamp: now.unix, flags: 0 };
        let own = owner.member().map(join);
        let members: Members = Arc::new(own.iter().map(|own| (own.user_id, *own)).collect());
        let entry = ThreadEntry { channel: Arc::new(thread), members };
        self.threads.add(now, entry.clone());
        self.write(Write::PutChannel(entry.channel.clone()));
        if let Some(own) = own {
            self.put_resource(GuildResource::ThreadMember(own));
        }
        let replica_update = ReplicaUpdate::Thread(thread_id, Some(entry.clone()));
        let event = ThreadEvent { entry: entry.clone(), own: None, newly_created: true };
        self.publish_thread(EventName::ThreadCreate, &entry, ResourcePayload::Thread(event), replica_update);
        if let Some(own) = own {
            self.publish_membership(&entry, Membership::Begun(own));
        }
        entry
    }

    /// The first message of a post has the post's id. Users that it mentions join the post.
    fn put_first_message(
        &mut self,
        now: Now,
        parent: &ChannelContext,
        entry: &ThreadEntry,
        first: &NewMessage,
        author: PostAuthor,
    ) -> Box<MessageReply> {
        let (author, webhook_id) = match author {
            PostAuthor::Member(user) => (user, None),
            PostAuthor::Webhook { id, user } => (user, Some(id)),
        };
        let thread_id = entry.channel.id;
        let context = ChannelContext { channel: entry.channel.clone(), ..parent.clone() };
        let message = Message { webhook_id, ..Message::new(thread_id.cast(), thread_id, self.structure.id(), author) };
        let mentioning = Mentioning { permissions: context.permissions, replied: None };
        let message = self.with_content(now, first, mentioning, message);
        self.join_by_mention(now, &context, &message.mentions);
        self.commit_message(now, &context, message, Sending { nonce: first.nonce.as_ref(), ..Sending::default() })
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
                let reference = MessageReference {
                    message_id: starter.id,
                    channel_id: parent.channel.id,
                    guild_id: Some(guild_id),
                };
                let message = Message {
                    kind: Message::KIND_THREAD_STARTER,
                    message_reference: Some(reference),
                    ..Message::new(id, thread_id, guild_id, starter.author.clone())
                };
                let context = ChannelContext { channel: thread, ..parent.clone() };
                let sending = Sending { referenced: Some(starter), ..Sending::default() };
                self.commit_message(now, &context, message, sending);
            }
            None => {
                let reference =
                    MessageReference { message_id: MessageId::new(0), channel_id: thread_id, guild_id: Some(guild_id) };
                let message = Message {
                    kind: Message::KIND_THREAD_CREATED,
                    content: thread.name.clone(),
                    message_reference: Some(reference),
                    ..Message::new(id, parent.channel.id, guild_id, owner.user.clone())
                };
                self.commit_message(now, parent, message, Sending::default());
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
