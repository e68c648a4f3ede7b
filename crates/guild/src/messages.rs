//! Messages: created, edited, deleted; and typing.
//!
//! Owns        the rules of docs/protocol/reference.md §10.3 for messages; each channel's newest message id.
//! Doors       `create_message`, `edit_message`, `delete_message`, `start_typing`, from `Guild::handle_command`;
//!             `need_readable` for commands that show a message, `need_message` for those by a webhook's token.
//! Invariants  B1 ids ascend strictly within the guild. B2 a nonce concerns only the moment of sending: it is in
//!             the reply and MESSAGE_CREATE, and nowhere else. One that is enforced is stored for the next owner.
//! Limits      of texts and embeds: the caller's. `mentions_max`, slow mode and nonces: `GuildLimits`.
//! Not here    which viewers of the channel may read the content: `guildhall_guild_protocol::Redaction`.

use crate::{
    audit::NewEntry,
    cache::{CachedMessage, Lookup},
    check::ChannelContext,
    command::{
        Actor, CommandResult, Forward, MessagePatch, MessageReply, NewMessage, ReactionCount, Refusal, Stop, Upserted,
    },
    machine::Guild,
    mentions::Mentioning,
    record::Write,
    slow_mode::Limited,
    state::threads::is_counted,
    turn::Turn,
};
use guildhall_guild_protocol::{MessageEvent, Payload, ReplicaUpdate, ResourcePayload};
use guildhall_model::{
    Attachment, AuditAction, ChannelId, EventName, Member, Message, MessageId, MessageReference, NewAttachment, Nonce,
    Permissions, StickerId, StickerItem, User, UserId,
};
use guildhall_stdx::Now;
use std::sync::Arc;

/// Flags that an author may change later: SUPPRESS_EMBEDS, IS_COMPONENTS_V2.
const FLAGS_OF_AUTHORS: u32 = 1 << 2 | 1 << 15;
/// Files of one message.
const ATTACHMENTS_MAX: usize = 10;
/// Flags that others may change: SUPPRESS_EMBEDS.
const FLAGS_OF_OTHERS: u32 = 1 << 2;

/// Inputs of a new message that are not fields of its request.
#[derive(Debug, Default)]
pub(crate) struct Sending<'a> {
    /// For the reply and the event.
    pub nonce: Option<&'a Nonce>,
    /// Is stored with the message, so that a repeated request finds it.
    pub kept_nonce: Option<&'a Nonce>,
    /// The message that it answers.
    pub referenced: Option<Arc<Message>>,
}

impl Guild {
    /// A message that exists; `Stop::Needs` if only the store knows.
    pub(crate) fn need_message(&mut self, key: (ChannelId, MessageId)) -> Result<&CachedMessage, Stop> {
        self.find_message(key)?.ok_or(Stop::Refused(Refusal::UnknownMessage))
    }

    /// A message of the channel for a command whose answer or event shows it to the actor.
    pub(crate) fn need_readable(
        &mut self,
        context: &ChannelContext,
        message_id: MessageId,
    ) -> Result<&CachedMessage, Stop> {
        context.need_history()?;
        self.need_message((context.channel.id, message_id))
    }

    /// A message that the actor wrote, or any if `may_know_others`. The refusal is the same for a message of another
    /// author and for one that does not exist, so that it reveals nothing.
    fn need_own_or(
        &mut self,
        context: &ChannelContext,
        message_id: MessageId,
        may_know_others: bool,
    ) -> Result<Arc<Message>, Stop> {
        match self.find_message((context.channel.id, message_id))? {
            Some(found) if may_know_others || context.is(found.message.author.id) => Ok(found.message.clone()),
            None if may_know_others => Err(Refusal::UnknownMessage.into()),
            Some(_) | None => Err(Refusal::MissingPermissions.into()),
        }
    }

    /// A message, or that there is none; `Stop::Needs` if only the store knows.
    pub(crate) fn find_message(&mut self, key: (ChannelId, MessageId)) -> Result<Option<&CachedMessage>, Stop> {
        match self.messages.lookup(key) {
            Lookup::Found(message) => Ok(Some(message)),
            Lookup::Absent => Ok(None),
            Lookup::Unknown => Err(Stop::Needs(key.0, key.1)),
        }
    }

    /// The message that a message answers: `Some(None)` when that was deleted, none when it is no reply.
    pub(crate) fn referenced_by(&mut self, message: &Message) -> Result<Option<Option<Arc<Message>>>, Stop> {
        let Some(key) = message.answers() else { return Ok(None) };
        let referenced = self.find_message(key)?;
        Ok(Some(referenced.map(|referenced| referenced.message.clone())))
    }

    /// As `referenced_by`, for an actor: none if they may not read it.
    fn referenced_for(
        &mut self,
        context: &ChannelContext,
        message: &Message,
    ) -> Result<Option<Option<Arc<Message>>>, Stop> {
        if context.may_read_history() { self.referenced_by(message) } else { Ok(None) }
    }

    pub(crate) fn renewed_reference(
        &self,
        now: Now,
        referenced: Option<Option<Arc<Message>>>,
    ) -> Option<Option<Arc<Message>>> {
        referenced.map(|found| found.map(|message| self.limits.links.renewed(now.unix, message)))
    }

    /// The message that the same author sent into the same channel with the same nonce a short while ago.
    fn message_with_nonce(
        &mut self,
        now: Now,
        context: &ChannelContext,
        author: UserId,
        nonce: &Nonce,
    ) -> Result<Option<Box<MessageReply>>, Stop> {
        let channel_id = context.channel.id;
        let Some(message_id) = self.messages.nonces.find(now, author, channel_id, nonce) else {
            return Ok(None);
        };
        let Some(earlier) = self.find_message((channel_id, message_id))? else { return Ok(None) };
        let reactions = shown_reactions(context, earlier, Actor::User(author));
        let earlier = earlier.message.clone();
        let referenced = self.referenced_for(context, &earlier)?;
        let referenced = self.renewed_reference(now, referenced);
        let message = Arc::new(Message { nonce: Some(nonce.clone()), ..Message::clone(&earlier) });
        let message = self.limits.links.renewed(now.unix, message);
        Ok(Some(Box::new(MessageReply { message, reactions, referenced })))
    }

    pub(crate) fn create_message(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        new: &NewMessage,
    ) -> CommandResult<Box<MessageReply>> {
        let context = self.message_channel(turn, channel_id)?;
        let author = context.author()?;
        self.need_unlocked(&context)?;
        context.need(Permissions::SEND_MESSAGES)?;
        need_for_content(&context, new)?;
        self.need_for_poll(&context, new)?;
        if new.reply_to.is_some() {
            context.need_history()?;
        }
        self.check_filled(new)?;
        // Before slow mode, so that a repeated request that succeeded gets the same reply.
        if let Some(nonce) = new.nonce.as_ref().filter(|_| new.enforce_nonce)
            && let Some(reply) = self.message_with_nonce(turn.now, &context, author.user.id, nonce)?
        {
            return Ok(reply);
        }
        self.check_slow_mode(turn.now, &context, author.user.id, Limited::Messages)?;
        let referenced = self.reply_target(channel_id, new)?;
        let matched = self.judge(turn.now, &context, &author, &new.text())?;
        // Nothing is refused from here on.

        let message = self.new_message(turn.now, &context, &author.user, new, referenced.as_deref());
        self.moderated(message.id, matched);
        self.record_sent(turn.now, &context, &author, new.nonce.as_ref(), message.id);
        if context.channel.kind.is_thread() {
            self.open_thread(turn.now, &context);
            self.join_by_writing(turn.now, &context, author.user.id);
            self.join_by_mention(turn.now, &context, &message.mentions);
        }
        let kept_nonce = new.nonce.as_ref().filter(|_| new.enforce_nonce);
        let sending = Sending { nonce: new.nonce.as_ref(), kept_nonce, referenced };
        Ok(self.commit_message(turn.now, &context, message, sending))
    }

    /// A message that a backend sends as an account. A repeated key is answered with the first message.
    pub(crate) fn send_message(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        author: &Arc<User>,
        new: &NewMessage,
        key: Option<&Nonce>,
    ) -> CommandResult<Upserted<Box<MessageReply>>> {
        let context = self.message_channel(turn, channel_id)?;
        if self.is_direct() {
            self.need_member(author.id)?;
        }
        self.check_filled(new)?;
        if let Some(key) = key
            && let Some(value) = self.message_with_nonce(turn.now, &context, author.id, key)?
        {
            return Ok(Upserted { value, is_new: false });
        }
        let referenced = self.reply_target(channel_id, new)?;
        // Nothing is refused from here on.

        let message = self.new_message(turn.now, &context, author, new, referenced.as_deref());
        if let Some(key) = key {
            let now = turn.now.instant;
            self.messages.nonces.record(now, author.id, channel_id, key, message.id, self.limits.nonces_max);
        }
        if context.channel.kind.is_thread() {
            self.open_thread(turn.now, &context);
            if self.member(author.id).is_some() {
                self.join_by_writing(turn.now, &context, author.id);
            }
            self.join_by_mention(turn.now, &context, &message.mentions);
        }
        let sending = Sending { nonce: new.nonce.as_ref(), kept_nonce: key, referenced };
        Ok(Upserted { value: self.commit_message(turn.now, &context, message, sending), is_new: true })
    }

    /// The message that a new one replies to.
    fn reply_target(&mut self, channel_id: ChannelId, new: &NewMessage) -> Result<Option<Arc<Message>>, Stop> {
        let Some(reply_to) = new.reply_to else { return Ok(None) };
        match self.find_message((channel_id, reply_to.message_id))? {
            Some(referenced) => Ok(Some(referenced.message.clone())),
            None if reply_to.fail_if_not_exists => Err(Refusal::UnknownReference.into()),
            None => Ok(None),
        }
    }

    /// A new message of this author, under an id of its own.
    fn new_message(
        &mut self,
        now: Now,
        context: &ChannelContext,
        author: &Arc<User>,
        new: &NewMessage,
        referenced: Option<&Message>,
    ) -> Message {
        let (id, channel_id) = (self.next_id(now), context.channel.id);
        let guild_id = self.guild_of_messages();
        let message = Message {
            kind: if referenced.is_some() { Message::KIND_REPLY } else { Message::KIND_DEFAULT },
            message_reference: referenced.map(|referenced| MessageReference {
                message_id: referenced.id,
                channel_id,
                guild_id,
            }),
            ..Message::new(id, channel_id, guild_id, author.clone())
        };
        let replied = referenced.map(|message| message.author.id).filter(|id| *id != author.id);
        let mentioning = Mentioning { permissions: context.permissions, replied };
        self.with_content(now, new, mentioning, message)
    }

    /// `message` with the content of a new one.
    pub(crate) fn with_content(
        &mut self,
        now: Now,
        new: &NewMessage,
        mentioning: Mentioning,
        message: Message,
    ) -> Message {
        let mentions = self.resolve_mentions(&new.content, new.allowed_mentions.as_ref(), mentioning);
        Message {
            content: new.content.clone(),
            tts: new.tts && mentioning.permissions.contains(Permissions::SEND_TTS_MESSAGES),
            mention_everyone: mentions.everyone,
            mentions: mentions.users,
            mention_roles: mentions.roles,
            embeds: new.embeds.clone(),
            components: new.components.clone(),
            attachments: self.with_ids(now, &new.attachments),
            sticker_items: self.sticker_items(&new.sticker_ids).unwrap_or_default(),
            flags: new.flags | if new.forward.is_some() { Message::HAS_SNAPSHOT } else { 0 },
            poll: self.poll_of(now, new),
            ..forwarding(new, message)
        }
    }

    /// Whether there is something in a message, and its stickers are the guild's.
    pub(crate) fn check_filled(&self, new: &NewMessage) -> Result<(), Refusal> {
        self.sticker_items(&new.sticker_ids)?;
        self.check_poll(new)?;
        if new.forward.as_ref().is_some_and(|forward| forward.snapshot.is_none()) {
            return Err(Refusal::InvalidForm("message_reference"));
        }
        let is_empty = new.content.trim().is_empty()
            && new.embeds.is_empty()
            && new.components.is_empty()
            && new.attachments.is_empty()
            && new.sticker_ids.is_empty()
            && new.poll.is_none()
            && new.forward.is_none();
        if is_empty { Err(Refusal::EmptyMessage) } else { Ok(()) }
    }

    pub(crate) fn sticker_items(&self, ids: &[StickerId]) -> Result<Vec<StickerItem>, Refusal> {
        let item = |id: &StickerId| {
            let own = self.structure.guild.stickers.iter().find(|own| own.id == *id).ok_or(Refusal::InvalidSticker)?;
            Ok(StickerItem { id: *id, name: own.name.clone(), format_type: own.format_type })
        };
        ids.iter().map(item).collect()
    }

    /// Attachments as stored: those without an id get one.
    pub(crate) fn with_ids(&mut self, now: Now, attachments: &[NewAttachment]) -> Vec<Attachment> {
        let with_id = |new: &NewAttachment| {
            let id = new.id.unwrap_or_else(|| self.next_id(now));
            new.clone().with_id(id)
        };
        attachments.iter().map(with_id).collect()
    }

    /// Refuses before the upload what `create_message` would refuse after it, except slow mode, which does not apply to
    /// repeated requests. The check is repeated when the message comes.
    pub(crate) fn authorize_files(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        edited: Option<MessageId>,
    ) -> CommandResult<()> {
        let context = match self.in_channel(turn, channel_id)? {
            // With its first message a post begins.
            context if edited.is_none() && context.channel.kind.holds_posts() => context,
            _ => self.message_channel(turn, channel_id)?,
        };
        let author = context.author()?;
        match edited {
            Some(message_id) => {
                let message = self.need_own_or(&context, message_id, context.may_read_history())?;
                if message.author.id != author.user.id {
                    return Err(Refusal::NotTheAuthor.into());
                }
                self.need_editable(&context)?;
            }
            None => {
                self.need_unlocked(&context)?;
                context.need(Permissions::SEND_MESSAGES)?;
            }
        }
        context.need(Permissions::ATTACH_FILES)?;
        Ok(())
    }

    /// Stores and publishes a message that passed all checks.
    pub(crate) fn commit_message(
        &mut self,
        now: Now,
        context: &ChannelContext,
        message: Message,
        sending: Sending<'_>,
    ) -> Box<MessageReply> {
        let Sending { nonce, kept_nonce, referenced } = sending;
        if self.is_direct() {
            self.open_for(now, |_| true);
        }
        let key = (message.channel_id, message.id);
        let published = match nonce {
            Some(nonce) => Arc::new(Message { nonce: Some(nonce.clone()), ..message.clone() }),
            None => Arc::new(message.clone()),
        };
        let message = if nonce.is_none() { published.clone() } else { Arc::new(message) };
        let replica_update = match self.thread_after_message(context, &message) {
            Some(replica_update) => replica_update,
            None => {
                self.messages.set_newest(key.0, key.1);
                ReplicaUpdate::Message(key.0, key.1)
            }
        };
        let stored = match kept_nonce {
            None => message.clone(),
            Some(_) if kept_nonce == nonce => published.clone(),
            Some(kept) => Arc::new(Message { nonce: Some(kept.clone()), ..Message::clone(&message) }),
        };
        self.write(Write::PutMessage(stored));
        let version = self.touch();
        self.open_poll(now, &message);
        self.messages.put(key, CachedMessage::new(message), version);
        let referenced = referenced.map(|referenced| self.limits.links.renewed(now.unix, referenced));
        self.publish_message(
            now,
            EventName::MessageCreate,
            context,
            published.clone(),
            referenced.clone(),
            replica_update,
        );
        Box::new(MessageReply { message: published, reactions: Vec::new(), referenced: referenced.map(Some) })
    }

    pub(crate) fn check_slow_mode(
        &self,
        now: Now,
        context: &ChannelContext,
        author: UserId,
        limited: Limited,
    ) -> Result<(), Refusal> {
        let rate_limit_s = context.channel.rate_limit_per_user;
        if rate_limit_s == 0 || is_exempt_from_slow_mode(context) {
            return Ok(());
        }
        match self.messages.slow_mode[limited as usize].wait_ms(now.instant, context.channel.id, author, rate_limit_s) {
            0 => Ok(()),
            retry_after_ms => Err(Refusal::SlowMode { retry_after_ms }),
        }
    }

    /// The author's next message or thread there has to wait.
    pub(crate) fn record_for_slow_mode(
        &mut self,
        now: Now,
        context: &ChannelContext,
        author: UserId,
        limited: Limited,
    ) {
        let (channel, max) = (&context.channel, self.limits.slow_mode_entries_max);
        if channel.rate_limit_per_user > 0 && !is_exempt_from_slow_mode(context) {
            let waits = &mut self.messages.slow_mode[limited as usize];
            waits.record_sent(now.instant, channel.id, author, channel.rate_limit_per_user, max);
        }
    }

    fn record_sent(
        &mut self,
        now: Now,
        context: &ChannelContext,
        author: &Member,
        nonce: Option<&Nonce>,
        id: MessageId,
    ) {
        let (channel, user) = (context.channel.id, author.user.id);
        self.record_for_slow_mode(now, context, user, Limited::Messages);
        if let Some(nonce) = nonce {
            self.messages.nonces.record(now.instant, user, channel, nonce, id, self.limits.nonces_max);
        }
    }

    pub(crate) fn publish_message(
        &mut self,
        now: Now,
        name: EventName,
        context: &ChannelContext,
        message: Arc<Message>,
        referenced: Option<Arc<Message>>,
        replica_update: ReplicaUpdate,
    ) {
        let referenced = referenced.map(|referenced| self.limits.links.renewed(now.unix, referenced));
        let message = self.limits.links.renewed(now.unix, message);
        let payload = Payload::Message(Box::new(MessageEvent {
            channel_type: context.channel.kind,
            author: self.member(message.author.id),
            mentioned: self.members_among(&message.mentions),
            referenced,
            votes: self.votes_of(&message),
            message,
        }));
        let event = self.event(name, self.channel_rule(&context.channel), payload);
        self.publish(event, replica_update);
    }

    /// Whether members may edit messages there. An author who has lost SEND_MESSAGES since may still edit, as upstream.
    pub(crate) fn need_editable(&self, context: &ChannelContext) -> Result<(), Refusal> {
        context.need_free()?;
        self.need_open(context)?;
        self.need_unlocked(context)
    }

    pub(crate) fn edit_message(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        message_id: MessageId,
        patch: &MessagePatch,
    ) -> CommandResult<Box<MessageReply>> {
        let context = self.message_channel(turn, channel_id)?;
        let key = (channel_id, message_id);
        let before = self.need_own_or(&context, message_id, context.may_read_history())?;
        let is_author = turn.actor == Actor::System || context.is(before.author.id);
        let changes_content = patch.content.is_some()
            || patch.embeds.is_some()
            || patch.components.is_some()
            || patch.attachments.is_some()
            || !patch.added.is_empty();
        if !is_author {
            if changes_content || patch.allowed_mentions.is_some() {
                return Err(Refusal::NotTheAuthor.into());
            }
            context.need(Permissions::MANAGE_MESSAGES)?;
        }
        if changes_content && before.poll.is_some() {
            return Err(Refusal::PollMessage.into());
        }
        if changes_content && !before.snapshots.is_empty() {
            return Err(Refusal::InvalidForm("content").into());
        }
        self.need_editable(&context)?;
        if patch.embeds.as_ref().is_some_and(|embeds| !embeds.is_empty()) {
            context.need(Permissions::EMBED_LINKS)?;
        }
        if !patch.added.is_empty() {
            context.need(Permissions::ATTACH_FILES)?;
        }
        let mut message = Message::clone(&before);
        if let Some(content) = &patch.content {
            message.content.clone_from(content);
        }
        if let Some(embeds) = &patch.embeds {
            message.embeds.clone_from(embeds);
        }
        if let Some(components) = &patch.components {
            message.components.clone_from(components);
        }
        if let Some(kept) = &patch.attachments {
            message.attachments.retain(|attachment| kept.contains(&attachment.id));
        }
        message.attachments.extend(self.with_ids(turn.now, &patch.added));
        if message.attachments.len() > ATTACHMENTS_MAX {
            return Err(Refusal::InvalidForm("attachments").into());
        }
        if let Some(flags) = patch.flags {
            let changeable = if is_author { FLAGS_OF_AUTHORS } else { FLAGS_OF_OTHERS };
            message.flags = message.flags & !changeable | flags & changeable;
        }
        if message.is_empty() {
            return Err(Refusal::EmptyMessage.into());
        }
        // An author who may not read the history edits without a look at the answered message or at reactions.
        let referenced = self.referenced_by(&before)?;
        let matched = match (&patch.content, &context.member) {
            (Some(content), Some(author)) if is_author => self.judge(turn.now, &context, author, content)?,
            _ => Vec::new(),
        };
        let shown = if context.may_read_history() { referenced.clone() } else { None };
        let reactions = shown_reactions(&context, self.need_message(key)?, turn.actor);
        // Nothing is refused from here on.

        self.moderated(message_id, matched);
        // The answer that an application announced is no edit.
        let was_loading = before.flags & Message::LOADING != 0;
        if changes_content {
            message.flags &= !Message::LOADING;
        }
        if patch.content.is_some() || patch.allowed_mentions.is_some() {
            let replied =
                referenced.iter().flatten().map(|message| message.author.id).find(|id| *id != before.author.id);
            let allowed = patch.allowed_mentions.as_ref();
            let mentioning = Mentioning { permissions: context.permissions, replied };
            let mentions = self.resolve_mentions(&message.content, allowed, mentioning);
            message.mention_everyone = mentions.everyone;
            message.mentions = mentions.users;
            message.mention_roles = mentions.roles;
        }
        let is_changed = message != *before;
        if is_changed && changes_content && !was_loading {
            message.edited_timestamp = Some(turn.now.unix);
        }
        let is_new = |user: &&Arc<User>| before.mentions.iter().all(|other| other.id != user.id);
        let newly_mentioned: Vec<_> = message.mentions.iter().filter(is_new).cloned().collect();
        let message = if is_changed { Arc::new(message) } else { before };
        if is_changed {
            self.join_by_mention(turn.now, &context, &newly_mentioned);
            self.write(Write::PutMessage(message.clone()));
            let version = self.touch();
            self.messages.change(key, version, |cached| cached.message = message.clone());
            // Read aloud once.
            let published = match message.tts {
                true => Arc::new(Message { tts: false, ..Message::clone(&message) }),
                false => message.clone(),
            };
            self.publish_message(
                turn.now,
                EventName::MessageUpdate,
                &context,
                published,
                shown.clone().flatten(),
                ReplicaUpdate::None,
            );
        }
        let message = self.limits.links.renewed(turn.now.unix, message);
        let referenced = self.renewed_reference(turn.now, shown);
        Ok(Box::new(MessageReply { message, reactions, referenced }))
    }

    pub(crate) fn delete_message(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        message_id: MessageId,
    ) -> CommandResult<()> {
        let context = self.message_channel(turn, channel_id)?;
        // A moderator need not read what they delete: the answer and the event show none of it.
        let may_know_others = context.may_read_history() || context.can(Permissions::MANAGE_MESSAGES);
        let message = self.need_own_or(&context, message_id, may_know_others)?;
        if !context.is(message.author.id) {
            context.need(Permissions::MANAGE_MESSAGES)?;
        }
        self.need_deletable(&context)?;
        self.forget_message((channel_id, message_id));
        let replica_update = self.thread_after_deletion(&context, usize::from(is_counted(&message)));
        let payload = Payload::MessageDelete { id: message_id, channel_id };
        let event = self.event(EventName::MessageDelete, self.channel_rule(&context.channel), payload);
        self.publish(event, replica_update);
        if !context.is(message.author.id) {
            let entry = NewEntry::new(AuditAction::MessageDelete, message.author.id);
            self.log(turn, entry.option("channel_id", channel_id).option("count", 1));
        }
        Ok(())
    }

    fn forget_message(&mut self, key: (ChannelId, MessageId)) {
        self.write(Write::DeleteMessage(key.0, key.1));
        let version = self.touch();
        self.messages.remove(key, version);
        self.forget_pin(key);
        self.forget_poll(key);
    }

    /// Deletes several messages (MANAGE_MESSAGES). Does not check that they exist, which could take a read for each.
    pub(crate) fn delete_messages(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        message_ids: &[MessageId],
    ) -> CommandResult<()> {
        let context = self.message_channel(turn, channel_id)?;
        context.need(Permissions::MANAGE_MESSAGES)?;
        if message_ids.is_empty() || message_ids.len() > self.limits.deleted_messages_max {
            return Err(Refusal::InvalidForm("messages").into());
        }
        let mut counted = 0;
        for message_id in message_ids {
            // Messages that are not in memory may not exist: they are not counted.
            if let Some(cached) = self.messages.cached((channel_id, *message_id)) {
                counted += usize::from(is_counted(&cached.message));
            }
            self.forget_message((channel_id, *message_id));
        }
        let replica_update = self.thread_after_deletion(&context, counted);
        let resource = ResourcePayload::MessagesGone { channel_id, ids: message_ids.into() };
        let rule = self.channel_rule(&context.channel);
        let event = self.event(EventName::MessageDeleteBulk, rule, Payload::Resource(Box::new(resource)));
        self.publish(event, replica_update);
        let entry = NewEntry::new(AuditAction::MessageBulkDelete, channel_id);
        self.log(turn, entry.option("count", message_ids.len()));
        Ok(())
    }

    /// Publishes each call: clients forget the state after ten seconds.
    pub(crate) fn start_typing(&mut self, turn: Turn<'_>, channel_id: ChannelId) -> CommandResult<()> {
        let context = self.message_channel(turn, channel_id)?;
        let member = context.author()?;
        context.need(Permissions::SEND_MESSAGES)?;
        self.need_open(&context)?;
        let payload = Payload::Typing { channel_id, timestamp_s: turn.now.unix.unix_s(), member };
        let event = self.event(EventName::TypingStart, self.channel_rule(&context.channel), payload);
        self.publish(event, ReplicaUpdate::None);
        Ok(())
    }
}

/// Reactions to a message that its author sees again.
fn shown_reactions(context: &ChannelContext, message: &CachedMessage, actor: Actor) -> Vec<ReactionCount> {
    if context.may_read_history() { message.counts(actor) } else { Vec::new() }
}

/// `message` with the one that `new` forwards.
fn forwarding(new: &NewMessage, message: Message) -> Message {
    let Some(forward) = &new.forward else { return message };
    let Forward { channel_id, message_id, guild_id, snapshot } = &**forward;
    Message {
        message_reference: Some(MessageReference {
            message_id: *message_id,
            channel_id: *channel_id,
            guild_id: *guild_id,
        }),
        snapshots: snapshot.iter().cloned().collect(),
        ..message
    }
}

/// Refuses embeds and files of a new message without their permissions, also of one that it forwards.
pub(crate) fn need_for_content(context: &ChannelContext, new: &NewMessage) -> Result<(), Refusal> {
    let snapshot = new.forward.as_ref().and_then(|forward| forward.snapshot.as_ref());
    if !new.embeds.is_empty() || snapshot.is_some_and(|snapshot| !snapshot.embeds.is_empty()) {
        context.need(Permissions::EMBED_LINKS)?;
    }
    if !new.attachments.is_empty() || snapshot.is_some_and(|snapshot| !snapshot.attachments.is_empty()) {
        context.need(Permissions::ATTACH_FILES)?;
    }
    Ok(())
}

/// BYPASS_SLOWMODE alone exempts, and slow mode does not concern bots. Both as upstream.
fn is_exempt_from_slow_mode(context: &ChannelContext) -> bool {
    let is_bot = context.member.as_ref().is_some_and(|member| member.user.bot);
    is_bot || context.can(Permissions::BYPASS_SLOWMODE)
}
