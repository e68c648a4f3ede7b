//! Thread table: the threads of a guild, and indexes over them.
//!
//! Owns        `Threads`: threads by id, the number of open ones, threads by member, and times of archiving.
//! Invariants  H1 the number of open threads, the index by member and the times agree with the threads.
//! Limits      those of `threads`, which checks them before it adds something.

use super::archive::Archive;
use guildhall_guild_protocol::ThreadEntry;
use guildhall_model::{Channel, ChannelId, Message, ThreadMember, UserId};
use guildhall_stdx::{
    CowMap, Instant, Now,
    heap::{self, Sample},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// Open and archived ones. Relays share it.
    entries: CowMap<ChannelId, ThreadEntry>,
    active_count: usize,
    by_member: BTreeSet<(UserId, ChannelId)>,
    archive: Archive,
}

impl Threads {
    /// Estimated heap memory.
    pub fn heap_bytes(&self, sample: Sample) -> usize {
        let of_entry = |entry: &ThreadEntry| heap::counted::<Channel>() + heap::allocated(entry.channel.name.len());
        self.entries.heap_bytes(sample, |_, entry| of_entry(entry)) + heap::of_set(&self.by_member)
    }

    /// Threads from the store.
    pub fn new(threads: Vec<Channel>, members: impl Iterator<Item = ThreadMember>) -> Self {
        let mut by_thread: BTreeMap<ChannelId, BTreeMap<UserId, ThreadMember>> = BTreeMap::new();
        for member in members {
            by_thread.entry(member.thread_id).or_default().insert(member.user_id, member);
        }
        let mut all = Self::default();
        for thread in threads {
            let members = Arc::new(by_thread.remove(&thread.id).unwrap_or_default());
            all.archive.load(&thread);
            all.insert_new(ThreadEntry { channel: Arc::new(thread), members });
        }
        all
    }

    /// All threads as they are now. O(1).
    pub fn snapshot(&self) -> CowMap<ChannelId, ThreadEntry> {
        self.entries.clone()
    }

    pub fn get(&self, thread_id: ChannelId) -> Option<&ThreadEntry> {
        self.entries.get(thread_id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ChannelId, &ThreadEntry)> {
        self.entries.iter()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of threads that are not archived.
    pub fn active_count(&self) -> usize {
        self.active_count
    }

    /// Threads that a user is a member of.
    pub fn member_threads(&self, user_id: UserId) -> Vec<ThreadEntry> {
        let keys = self.by_member.range((user_id, ChannelId::new(0))..=(user_id, ChannelId::new(u64::MAX)));
        keys.filter_map(|(_, id)| self.entries.get(*id).cloned()).collect()
    }

    /// Adds a new thread.
    pub fn add(&mut self, now: Now, entry: ThreadEntry) {
        self.archive.follow(now, &entry.channel);
        self.insert_new(entry);
    }

    fn insert_new(&mut self, entry: ThreadEntry) {
        self.active_count += usize::from(is_active(&entry.channel));
        self.by_member.extend(entry.members.keys().map(|user_id| (*user_id, entry.channel.id)));
        self.entries.insert(entry.channel.id, entry);
    }

    /// Replaces the channel of a thread after a change of its fields. Returns the new entry.
    pub fn change(&mut self, now: Now, before: &ThreadEntry, channel: Channel) -> ThreadEntry {
        let (was_active, is_active) = (is_active(&before.channel), is_active(&channel));
        self.active_count = self.active_count + usize::from(is_active) - usize::from(was_active);
        self.archive.follow(now, &channel);
        self.put(ThreadEntry { channel: Arc::new(channel), members: before.members.clone() })
    }

    /// Replaces a thread whose members, and whether and when it is archived, are those of before; a newer message
    /// counts when its time of archiving comes.
    pub fn put(&mut self, entry: ThreadEntry) -> ThreadEntry {
        self.entries.insert(entry.channel.id, entry.clone());
        entry
    }

    /// Adds a member to a thread. Returns the new entry.
    pub fn add_member(&mut self, entry: &ThreadEntry, member: ThreadMember) -> ThreadEntry {
        let mut members = BTreeMap::clone(&entry.members);
        members.insert(member.user_id, member);
        self.by_member.insert((member.user_id, entry.channel.id));
        self.put(ThreadEntry { channel: entry.channel.clone(), members: Arc::new(members) })
    }

    /// Removes a member of a thread. Returns the new entry.
    pub fn remove_member(&mut self, entry: &ThreadEntry, user_id: UserId) -> ThreadEntry {
        let mut members = BTreeMap::clone(&entry.members);
        members.remove(&user_id);
        self.by_member.remove(&(user_id, entry.channel.id));
        self.put(ThreadEntry { channel: entry.channel.clone(), members: Arc::new(members) })
    }

    /// Removes a deleted thread.
    pub fn remove(&mut self, entry: &ThreadEntry) {
        let thread_id = entry.channel.id;
        self.entries.remove(thread_id);
        self.archive.forget(thread_id);
        for user_id in entry.members.keys() {
            self.by_member.remove(&(*user_id, thread_id));
        }
        self.active_count -= usize::from(is_active(&entry.channel));
    }

    /// Time at which a thread may be due to be archived.
    pub fn archive_at(&self) -> Option<Instant> {
        self.archive.due_at()
    }

    /// The next thread to check, if it is due.
    pub fn next_to_check(&mut self, now: Now) -> Option<ThreadEntry> {
        let thread_id = self.archive.pop(now)?;
        self.entries.get(thread_id).cloned()
    }

    /// The thread that was checked is not due yet.
    pub fn check_later(&mut self, now: Now, entry: &ThreadEntry) {
        self.archive.follow(now, &entry.channel);
    }

    /// Sets the time of the next check after some threads were checked.
    pub fn arm_archive(&mut self, now: Now) {
        self.archive.arm(now);
    }
}

/// Whether a thread is open.
pub(crate) fn is_active(channel: &Channel) -> bool {
    channel.thread.as_ref().is_some_and(|thread| !thread.archived)
}

/// Whether a message counts as one of its thread: the message that started a thread or post does not.
pub(crate) fn is_counted(message: &Message) -> bool {
    message.kind != Message::KIND_THREAD_STARTER && message.id.get() != message.channel_id.get()
}
