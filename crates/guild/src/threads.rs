//! Threads: begun, joined, left, changed, closed, opened again, deleted.
//!
//! Owns        `CreateThread`, `AddThreadMember`, `RemoveThreadMember`, `ListThreads`, `ListArchivedThreads`,
//!             `ListThreadMembers`, and what of `UpdateChannel`, `DeleteChannel` is about threads.
//! Invariants  T1 a thread's parent is a channel of the guild; it goes with it. T2 whoever is in a private thread, or may
//!             manage its parent's, and nobody else, is told of it. T3 into a closed thread nothing is written but a message,
//!             which opens it; nothing at all if it is locked, unless by who may manage it.
//! Limits      `threads_max` in all, `active_threads_max` open, `thread_members_max` in each.
//!             `SLICE` of them are closed by time at once.
//! Not here    closing by time: `archive`.
//! Spec        docs/protocol.md §5.2, §6.5, §7.2, §10.3.

use crate::{
    check::Here,
    command::{Actor, ArchivedThreads, ChannelPatch, NewThread, Refusal, Reply, ThreadList},
    machine::{CommandResult, Guild, Stop},
    messages::is_counted,
    record::Write,
};
use guildhall_model::{
    Belonging, BelongingKey, BelongingKind, Channel, ChannelId, ChannelType, EventName, Member, Message, MessageId,
    MessageReference, Permissions, ThreadFields, ThreadMember, UserId,
};
use guildhall_relay::{
    Effect, Event, Gate, Notice, Payload, RelayMessage, SessionKey, THREAD_LISTED_MAX, ThreadEntry, ThreadEvent,
};
use guildhall_stdx::Now;
use std::{collections::BTreeMap, sync::Arc};

/// Flag of a message that a thread was begun from.
const HAS_THREAD: u32 = 1 << 5;
/// Minutes, unless told otherwise.
const AUTO_ARCHIVE_MIN: u16 = 4_320;

type Members = Arc<BTreeMap<UserId, ThreadMember>>;

impl Guild {
    pub(crate) fn load_threads(&mut self, threads: Vec<Channel>, members: impl Iterator<Item = ThreadMember>) {
        let mut by_thread: BTreeMap<ChannelId, BTreeMap<UserId, ThreadMember>> = BTreeMap::new();
        for member in members {
            by_thread.entry(member.thread_id).or_default().insert(member.user_id, member);
        }
        for thread in threads {
            let members = Arc::new(by_thread.remove(&thread.id).unwrap_or_default());
            self.active_threads_count += usize::from(is_active(&thread));
            self.archive.load(&thread);
            self.in_threads.extend(members.keys().map(|user_id: &UserId| (*user_id, thread.id)));
            self.threads.insert(thread.id, ThreadEntry { channel: Arc::new(thread), members });
        }
    }

    /// A thread that the actor can view, as `in_channel` has it: its parent's permissions, but for writing.
    pub(crate) fn in_thread(&self, now: Now, actor: Actor, thread_id: ChannelId) -> Result<Here, Refusal> {
        let thread = self.threads.get(thread_id).ok_or(Refusal::UnknownChannel)?;
        let parent_id = thread.channel.parent_id.ok_or(Refusal::UnknownChannel)?;
        let parent = self.in_channel(now, actor, parent_id)?;
        let is_in = parent.member.as_ref().is_none_or(|member| thread.members.contains_key(&member.user.id));
        if thread.is_private() && !is_in && !parent.can(Permissions::MANAGE_THREADS) {
            return Err(Refusal::MissingAccess);
        }
        let may_write = parent.can(Permissions::SEND_MESSAGES_IN_THREADS);
        let permissions = match may_write {
            true => parent.permissions | Permissions::SEND_MESSAGES,
            false => parent.permissions.without(Permissions::SEND_MESSAGES),
        };
        Ok(Here { channel: thread.channel.clone(), permissions, ..parent })
    }

    fn need_thread(&self, here: &Here) -> Result<&ThreadEntry, Refusal> {
        self.threads.get(here.channel.id).ok_or(Refusal::UnknownChannel)
    }

    /// Whether something besides messages may be written there (T3).
    pub(crate) fn need_open(&self, here: &Here) -> Result<(), Refusal> {
        match &here.channel.thread {
            Some(thread) if thread.archived => Err(Refusal::ArchivedThread),
            _ => Ok(()),
        }
    }

    /// Whether a message may be written there (T3).
    pub(crate) fn need_unlocked(&self, here: &Here) -> Result<(), Refusal> {
        let is_locked = here.channel.thread.as_ref().is_some_and(|thread| thread.archived && thread.locked);
        if is_locked && !here.can(Permissions::MANAGE_THREADS) { Err(Refusal::LockedThread) } else { Ok(()) }
    }

    pub(crate) fn create_thread(
        &mut self,
        now: Now,
        actor: Actor,
        parent_id: ChannelId,
        new: &NewThread,
    ) -> CommandResult {
        let parent = self.in_channel(now, actor, parent_id)?;
        let kind = thread_kind(&parent.channel, new)?;
        // A post of a forum is a message to whoever may write there.
        let holds_posts = matches!(parent.channel.kind, ChannelType::Forum | ChannelType::Media);
        parent.need(match kind {
            _ if holds_posts => Permissions::SEND_MESSAGES,
            ChannelType::PrivateThread => Permissions::CREATE_PRIVATE_THREADS,
            _ => Permissions::CREATE_PUBLIC_THREADS,
        })?;
        let limits = &self.limits;
        if self.active_threads_count >= limits.active_threads_max || self.threads.len() >= limits.threads_max {
            return Err(Refusal::TooManyThreads.into());
        }
        let starter = match new.from {
            Some(message_id) if self.threads.get(message_id.cast()).is_some() => {
                return Err(Refusal::ThreadExists.into());
            }
            Some(message_id) => Some(self.need_message((parent_id, message_id))?.message.clone()),
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
        let owner = parent.person()?;
        // Nothing is refused from here on, but a post whose message is: that is checked the same way before.

        let thread_id: ChannelId = match new.from {
            Some(message_id) => message_id.cast(),
            None => self.next_id(now),
        };
        let thread = Channel {
            parent_id: Some(parent_id),
            rate_limit_per_user: new.rate_limit_per_user,
            thread: Some(Box::new(ThreadFields {
                owner_id: owner.user.id,
                archived: false,
                archive_timestamp: now.unix,
                auto_archive_duration: new.auto_archive_duration.unwrap_or(AUTO_ARCHIVE_MIN),
                locked: false,
                invitable: new.invitable && kind == ChannelType::PrivateThread,
                message_count: 0,
                total_message_sent: 0,
                applied_tags: new.applied_tags.clone(),
            })),
            ..Channel::new(thread_id, self.meta.id(), kind, &new.name)
        };
        let own = ThreadMember { thread_id, user_id: owner.user.id, join_timestamp: now.unix, flags: 0 };
        let members: Members = Arc::new([(own.user_id, own)].into());
        let entry = ThreadEntry { channel: Arc::new(thread), members };
        self.active_threads_count += 1;
        self.archive.follow(now, &entry.channel);
        self.in_threads.insert((own.user_id, thread_id));
        self.write(Write::PutChannel(entry.channel.clone()));
        self.put_belonging(Belonging::ThreadMember(own));
        let effect = self.keep_thread(entry.clone());
        let event = ThreadEvent { entry: entry.clone(), own: None, newly_created: true };
        self.tell_thread(EventName::ThreadCreate, &entry, None, Notice::Thread(event), effect);
        self.tell_thread_members(&entry, Some(own), None);
        let mut began_from = None;
        if let Some(starter) = starter {
            let message = Arc::new(Message { flags: starter.flags | HAS_THREAD, ..Message::clone(&starter) });
            self.write(Write::PutMessage(message.clone()));
            let version = self.touch();
            self.cache.change((parent_id, message.id), version, |cached| cached.message = message.clone());
            began_from = Some(message.clone());
            self.tell_message(EventName::MessageUpdate, &parent, message, starter_referenced, Effect::None);
        }
        if let Some(post) = &new.message {
            let here = self.in_thread(now, Actor::System, thread_id)?;
            let here = Here { member: parent.member.clone(), permissions: parent.permissions, ..here };
            let allowed = post.allowed_mentions.as_ref();
            let mentions = self.resolve_mentions(&post.content, allowed, here.permissions, None);
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
                ..Message::new(thread_id.cast(), thread_id, self.meta.id(), owner.user.clone())
            };
            self.say(now, &here, message, post.nonce.as_ref(), None);
        }
        self.say_that_it_began(now, &parent, &owner, thread_id, began_from);
        self.thread_reply(thread_id, actor)
    }

    /// In the thread, what it was begun from; of one that was begun from nothing, a note in the channel that it is there. A
    /// post speaks for itself, and of private ones nobody is told.
    fn say_that_it_began(
        &mut self,
        now: Now,
        parent: &Here,
        owner: &Member,
        thread_id: ChannelId,
        began_from: Option<Arc<Message>>,
    ) {
        let Some(entry) = self.threads.get(thread_id).filter(|entry| !entry.is_private()) else { return };
        let thread = entry.channel.clone();
        if !matches!(parent.channel.kind, ChannelType::Text | ChannelType::Announcement) {
            return;
        }
        let (id, guild_id) = (self.next_id(now), self.meta.id());
        match began_from {
            Some(starter) => {
                let reference = MessageReference { message_id: starter.id, channel_id: parent.channel.id, guild_id };
                let message = Message {
                    kind: Message::KIND_THREAD_STARTER,
                    message_reference: Some(reference),
                    ..Message::new(id, thread_id, guild_id, starter.author.clone())
                };
                let here = Here { channel: thread, member: parent.member.clone(), permissions: parent.permissions };
                self.say(now, &here, message, None, Some(starter));
            }
            None => {
                let reference = MessageReference { message_id: MessageId::new(0), channel_id: thread_id, guild_id };
                let message = Message {
                    kind: Message::KIND_THREAD_CREATED,
                    content: thread.name.clone(),
                    message_reference: Some(reference),
                    ..Message::new(id, parent.channel.id, guild_id, owner.user.clone())
                };
                self.say(now, parent, message, None, None);
            }
        }
    }

    pub(crate) fn thread_reply(&self, thread_id: ChannelId, actor: Actor) -> CommandResult {
        let entry = self.threads.get(thread_id).cloned().ok_or(Refusal::UnknownChannel)?;
        let own = actor.user_id().and_then(|user_id| entry.members.get(&user_id).copied());
        Ok(Reply::Thread(Box::new((entry, own))))
    }

    /// Keeps a thread as it is now.
    pub(crate) fn keep_thread(&mut self, entry: ThreadEntry) -> Effect {
        self.touch();
        let thread_id = entry.channel.id;
        self.threads.insert(thread_id, entry.clone());
        Effect::Thread(thread_id, Some(entry))
    }

    pub(crate) fn gate_of_thread(entry: &ThreadEntry, only: Option<UserId>) -> Gate {
        let parent = entry.channel.parent_id.unwrap_or(entry.channel.id);
        Gate::Thread { parent, thread: entry.channel.id, is_private: entry.is_private(), only }
    }

    fn tell_thread(
        &mut self,
        name: EventName,
        entry: &ThreadEntry,
        only: Option<UserId>,
        notice: Notice,
        effect: Effect,
    ) {
        let event = self.event(name, Self::gate_of_thread(entry, only), Payload::Notice(Box::new(notice)));
        self.publish(event, effect);
    }

    /// THREAD_MEMBERS_UPDATE: also to whoever it is about, whatever their intents.
    fn tell_thread_members(&mut self, entry: &ThreadEntry, added: Option<ThreadMember>, removed: Option<UserId>) {
        let added_member = added.and_then(|added| Some((added, self.member(added.user_id)?)));
        let about = added.map(|added| added.user_id).or(removed);
        let notice = Notice::ThreadMembers {
            thread_id: entry.channel.id,
            members_count: entry.members.len(),
            added: added_member,
            removed,
        };
        let gate = Self::gate_of_thread(entry, None);
        let event: Event = self.event(EventName::ThreadMembersUpdate, gate, Payload::Notice(Box::new(notice)));
        let event = match about {
            Some(user_id) => event.always_to(user_id),
            None => event,
        };
        self.publish(event, Effect::Thread(entry.channel.id, Some(entry.clone())));
    }

    /// A message was written in a thread: it is counted. Returns what changed.
    pub(crate) fn thread_after_message(&mut self, here: &Here, message: &Message) -> Option<Effect> {
        let entry = self.threads.get(here.channel.id)?.clone();
        let mut channel = Channel::clone(&entry.channel);
        channel.last_message_id = Some(message.id);
        let thread = channel.thread.as_mut()?;
        if is_counted(message) {
            thread.message_count = thread.message_count.saturating_add(1);
        }
        if message.kind != Message::KIND_THREAD_STARTER {
            thread.total_message_sent = thread.total_message_sent.saturating_add(1);
        }
        let entry = ThreadEntry { channel: Arc::new(channel), ..entry };
        self.write(Write::PutChannel(entry.channel.clone()));
        Some(self.keep_thread(entry))
    }

    /// So many messages of a thread that counted are gone. How many were ever sent stays.
    pub(crate) fn thread_after_deletion(&mut self, here: &Here, counted: usize) -> Effect {
        let Some(entry) = self.threads.get(here.channel.id).filter(|_| counted > 0).cloned() else {
            return Effect::None;
        };
        let mut channel = Channel::clone(&entry.channel);
        let Some(thread) = channel.thread.as_mut() else { return Effect::None };
        thread.message_count = thread.message_count.saturating_sub(counted as u32);
        let entry = ThreadEntry { channel: Arc::new(channel), ..entry };
        self.write(Write::PutChannel(entry.channel.clone()));
        self.keep_thread(entry)
    }

    /// Before a message is written in a closed thread, it is opened.
    pub(crate) fn open_thread(&mut self, now: Now, here: &Here) {
        let Some(entry) = self.threads.get(here.channel.id).cloned() else { return };
        if !entry.channel.thread.as_ref().is_some_and(|thread| thread.archived) {
            return;
        }
        let mut channel = Channel::clone(&entry.channel);
        if let Some(thread) = &mut channel.thread {
            (thread.archived, thread.archive_timestamp) = (false, now.unix);
        }
        self.put_thread(now, &entry, channel);
    }

    /// Whoever writes in a thread joins it.
    pub(crate) fn join_by_writing(&mut self, now: Now, here: &Here, user_id: UserId) {
        let Some(entry) = self.threads.get(here.channel.id).cloned() else { return };
        if !entry.members.contains_key(&user_id) && entry.members.len() < self.limits.thread_members_max {
            self.add_to_thread(now, &entry, user_id);
        }
    }

    /// A thread was changed: it is stored and told.
    pub(crate) fn put_thread(&mut self, now: Now, before: &ThreadEntry, channel: Channel) {
        let was_active = is_active(&before.channel);
        let is_active = is_active(&channel);
        self.active_threads_count = self.active_threads_count + usize::from(is_active) - usize::from(was_active);
        let entry = ThreadEntry { channel: Arc::new(channel), members: before.members.clone() };
        self.archive.follow(now, &entry.channel);
        self.write(Write::PutChannel(entry.channel.clone()));
        let effect = self.keep_thread(entry.clone());
        let event = ThreadEvent { entry: entry.clone(), own: None, newly_created: false };
        self.tell_thread(EventName::ThreadUpdate, &entry, None, Notice::Thread(event), effect);
        if is_active && !was_active {
            // Clients forget threads that are closed: those that are here hear that they are still in it.
            let here: Vec<_> = entry
                .members
                .values()
                .filter(|of| self.sessions.of_user(of.user_id).next().is_some())
                .copied()
                .collect();
            for member in here {
                let notice = Notice::ThreadMember(member);
                self.tell_thread(EventName::ThreadMemberUpdate, &entry, Some(member.user_id), notice, Effect::None);
            }
        }
    }

    /// Who may manage threads changes anything; who began it its name and whether it is open; others may open it.
    pub(crate) fn update_thread(
        &mut self,
        now: Now,
        actor: Actor,
        thread_id: ChannelId,
        patch: &ChannelPatch,
    ) -> CommandResult {
        let here = self.in_thread(now, actor, thread_id)?;
        let entry = self.need_thread(&here)?.clone();
        let mut channel = Channel::clone(&entry.channel);
        let Some(thread) = &mut channel.thread else { return Err(Refusal::UnknownChannel.into()) };
        let may_manage = here.can(Permissions::MANAGE_THREADS);
        if !may_manage {
            let is_owner = here.is(thread.owner_id);
            let wants_more = patch.locked.is_some()
                || patch.rate_limit_per_user.is_some()
                || patch.invitable.is_some() && !is_owner
                || (patch.name.is_some() || patch.auto_archive_duration.is_some()) && !is_owner
                || patch.archived == Some(true) && !is_owner;
            if wants_more {
                return Err(Refusal::MissingPermissions.into());
            }
            here.need(Permissions::SEND_MESSAGES)?;
            self.need_unlocked(&here)?;
        }
        if thread.archived && patch.archived != Some(false) {
            return Err(Refusal::ArchivedThread.into());
        }
        if let Some(archived) = patch.archived.filter(|archived| *archived != thread.archived) {
            if !archived && self.active_threads_count >= self.limits.active_threads_max {
                return Err(Refusal::TooManyThreads.into());
            }
            (thread.archived, thread.archive_timestamp) = (archived, now.unix);
        }
        thread.locked = patch.locked.unwrap_or(thread.locked);
        thread.auto_archive_duration = patch.auto_archive_duration.unwrap_or(thread.auto_archive_duration);
        if channel.kind == ChannelType::PrivateThread {
            thread.invitable = patch.invitable.unwrap_or(thread.invitable);
        }
        if let Some(tags) = &patch.applied_tags {
            thread.applied_tags.clone_from(tags);
        }
        if let Some(name) = &patch.name {
            channel.name.clone_from(name);
        }
        channel.rate_limit_per_user = patch.rate_limit_per_user.unwrap_or(channel.rate_limit_per_user);
        if channel != *entry.channel {
            self.put_thread(now, &entry, channel);
        }
        self.thread_reply(thread_id, actor)
    }

    pub(crate) fn delete_thread(&mut self, now: Now, actor: Actor, thread_id: ChannelId) -> CommandResult {
        let here = self.in_thread(now, actor, thread_id)?;
        here.need(Permissions::MANAGE_THREADS)?;
        let entry = self.need_thread(&here)?.clone();
        self.forget_thread(&entry);
        let notice = Notice::ThreadGone(entry.channel.clone());
        self.tell_thread(EventName::ThreadDelete, &entry, None, notice, Effect::Thread(thread_id, None));
        Ok(Reply::Thread(Box::new((entry, None))))
    }

    fn forget_thread(&mut self, entry: &ThreadEntry) {
        let thread_id = entry.channel.id;
        self.threads.remove(thread_id);
        self.archive.forget(thread_id);
        for user_id in entry.members.keys() {
            self.in_threads.remove(&(*user_id, thread_id));
        }
        self.active_threads_count -= usize::from(is_active(&entry.channel));
        self.write(Write::DeleteChannel(self.meta.id(), thread_id));
        let members = BelongingKey::whole(BelongingKind::ThreadMember, thread_id.get());
        self.write(Write::DeleteBelongings(self.meta.id(), members));
        self.forget_pins_of(thread_id);
        self.cache.forget_channel(thread_id);
        self.free_evicted();
    }

    /// A channel is about to go, and its threads go before it. Relays see for themselves.
    pub(crate) fn forget_threads_of(&mut self, parent_id: ChannelId) {
        let threads = self.threads.iter().filter(|(_, entry)| entry.channel.parent_id == Some(parent_id));
        let threads: Vec<_> = threads.map(|(_, entry)| entry.clone()).collect();
        threads.iter().for_each(|entry| self.forget_thread(entry));
    }

    fn add_to_thread(&mut self, now: Now, entry: &ThreadEntry, user_id: UserId) {
        let member = ThreadMember { thread_id: entry.channel.id, user_id, join_timestamp: now.unix, flags: 0 };
        let mut members = BTreeMap::clone(&entry.members);
        members.insert(user_id, member);
        let entry = ThreadEntry { members: Arc::new(members), ..entry.clone() };
        self.in_threads.insert((user_id, entry.channel.id));
        self.put_belonging(Belonging::ThreadMember(member));
        self.keep_thread(entry.clone());
        self.tell_thread_members(&entry, Some(member), None);
        // To whoever came in it is as good as new.
        let event = ThreadEvent { entry: entry.clone(), own: Some(member), newly_created: false };
        self.tell_thread(EventName::ThreadCreate, &entry, Some(user_id), Notice::Thread(event), Effect::None);
    }

    /// Oneself, where one can view it; others, where one may write. Into a private thread only from inside, if it lets
    /// members invite.
    pub(crate) fn add_thread_member(
        &mut self,
        now: Now,
        actor: Actor,
        thread_id: ChannelId,
        user_id: UserId,
    ) -> CommandResult {
        let here = self.in_thread(now, actor, thread_id)?;
        self.need_open(&here)?;
        let entry = self.need_thread(&here)?.clone();
        if !here.is(user_id) {
            here.need(Permissions::SEND_MESSAGES)?;
            let thread = entry.channel.thread.as_ref();
            let may_invite = !entry.is_private()
                || here.can(Permissions::MANAGE_THREADS)
                || thread.is_some_and(|thread| thread.invitable || here.is(thread.owner_id));
            if !may_invite {
                return Err(Refusal::MissingPermissions.into());
            }
            // They must be able to see where they are brought.
            self.need_member(user_id)?;
            let parent_id = entry.channel.parent_id.ok_or(Refusal::UnknownChannel)?;
            self.in_channel(now, Actor::User(user_id), parent_id)?;
        }
        if entry.members.contains_key(&user_id) {
            return Ok(Reply::Done);
        }
        if entry.members.len() >= self.limits.thread_members_max {
            return Err(Refusal::TooManyThreadMembers.into());
        }
        self.add_to_thread(now, &entry, user_id);
        Ok(Reply::Done)
    }

    /// Oneself; others with MANAGE_THREADS, or by who began a private one.
    pub(crate) fn remove_thread_member(
        &mut self,
        now: Now,
        actor: Actor,
        thread_id: ChannelId,
        user_id: UserId,
    ) -> CommandResult {
        let here = self.in_thread(now, actor, thread_id)?;
        self.need_open(&here)?;
        let entry = self.need_thread(&here)?.clone();
        if !here.is(user_id) {
            let is_owner = entry.channel.thread.as_ref().is_some_and(|thread| here.is(thread.owner_id));
            if !(entry.is_private() && is_owner) {
                here.need(Permissions::MANAGE_THREADS)?;
            }
        }
        if !entry.members.contains_key(&user_id) {
            return Err(Refusal::UnknownMember.into());
        }
        self.take_from_thread(&entry, user_id);
        Ok(Reply::Done)
    }

    fn take_from_thread(&mut self, entry: &ThreadEntry, user_id: UserId) {
        let mut members = BTreeMap::clone(&entry.members);
        members.remove(&user_id);
        let entry = ThreadEntry { members: Arc::new(members), ..entry.clone() };
        let key = BelongingKey { kind: BelongingKind::ThreadMember, id: entry.channel.id.get(), part: user_id.get() };
        self.delete_belonging(key);
        self.in_threads.remove(&(user_id, entry.channel.id));
        self.keep_thread(entry.clone());
        self.tell_thread_members(&entry, None, Some(user_id));
    }

    /// Who is a member no more is in no thread.
    pub(crate) fn take_from_threads(&mut self, user_id: UserId) {
        let of_user = self.in_threads.range((user_id, ChannelId::new(0))..=(user_id, ChannelId::new(u64::MAX)));
        let threads: Vec<_> = of_user.filter_map(|(_, id)| self.threads.get(*id).cloned()).collect();
        threads.iter().for_each(|entry| self.take_from_thread(entry, user_id));
    }

    /// The open threads that the actor can view.
    pub(crate) fn list_threads(&self, now: Now, actor: Actor) -> CommandResult {
        self.in_guild(now, actor)?;
        let is_viewed =
            |entry: &ThreadEntry| is_active(&entry.channel) && self.in_thread(now, actor, entry.channel.id).is_ok();
        let threads: Vec<_> = self.threads.iter().map(|(_, entry)| entry).filter(|e| is_viewed(e)).cloned().collect();
        Ok(self.thread_list(threads, actor, false))
    }

    fn thread_list(&self, threads: Vec<ThreadEntry>, actor: Actor, has_more: bool) -> Reply {
        let own = |entry: &ThreadEntry| actor.user_id().and_then(|user_id| entry.members.get(&user_id).copied());
        let own = threads.iter().filter_map(own).collect();
        Reply::Threads(Box::new(ThreadList { threads, own, has_more }))
    }

    /// Closed threads of a channel, those that were closed last first. Private ones: all (MANAGE_THREADS), or only one's own.
    pub(crate) fn list_archived_threads(
        &self,
        now: Now,
        actor: Actor,
        parent_id: ChannelId,
        which: ArchivedThreads,
    ) -> CommandResult {
        let ArchivedThreads { are_private, are_own, before, limit } = which;
        let parent = self.in_channel(now, actor, parent_id)?;
        parent.need(Permissions::READ_MESSAGE_HISTORY)?;
        if are_private && !are_own {
            parent.need(Permissions::MANAGE_THREADS)?;
        }
        let archived_at = |entry: &ThreadEntry| {
            entry.channel.thread.as_ref().filter(|thread| thread.archived).map(|thread| thread.archive_timestamp)
        };
        let is_in = |entry: &ThreadEntry| actor.user_id().is_none_or(|id| entry.members.contains_key(&id));
        let is_meant = |entry: &&ThreadEntry| {
            entry.channel.parent_id == Some(parent_id)
                && entry.is_private() == are_private
                && (!are_own || is_in(entry))
                && archived_at(entry).is_some_and(|at| before.is_none_or(|before| at < before))
        };
        let mut threads: Vec<_> = self.threads.iter().map(|(_, entry)| entry).filter(is_meant).cloned().collect();
        threads.sort_unstable_by_key(|entry| std::cmp::Reverse((archived_at(entry), entry.channel.id)));
        let has_more = threads.len() > limit;
        threads.truncate(limit);
        Ok(self.thread_list(threads, actor, has_more))
    }

    /// Who is in a thread, for a session that looks at the list beside it: members with what they show.
    pub(crate) fn tell_thread_list(&mut self, now: Now, session: SessionKey, thread_id: ChannelId) {
        let Some(user_id) = self.session(session).map(|session| session.client.user_id) else { return };
        if self.in_thread(now, Actor::User(user_id), thread_id).is_err() {
            return;
        }
        let Some(entry) = self.threads.get(thread_id) else { return };
        let listed = entry.members.keys().take(THREAD_LISTED_MAX).filter_map(|id| self.members.entry(*id).cloned());
        let notice = Notice::ThreadMemberList { thread_id, members: listed.collect() };
        let gate = Self::gate_of_thread(entry, Some(user_id));
        let payload = Payload::Notice(Box::new(notice));
        let event = Arc::new(self.event(EventName::ThreadMemberListUpdate, gate, payload));
        self.send(session.relay, RelayMessage::Direct { session, event });
    }

    pub(crate) fn list_thread_members(&self, now: Now, actor: Actor, thread_id: ChannelId) -> CommandResult {
        let here = self.in_thread(now, actor, thread_id)?;
        let entry = self.need_thread(&here)?;
        let members = entry.members.values().map(|of| (*of, self.member(of.user_id)));
        Ok(Reply::ThreadMembers(members.collect()))
    }
}

fn is_active(channel: &Channel) -> bool {
    channel.thread.as_ref().is_some_and(|thread| !thread.archived)
}

/// What kind of thread a channel can have, and is asked for.
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
