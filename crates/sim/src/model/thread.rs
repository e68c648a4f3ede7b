//! Threads: visibility and content (docs/protocol/reference.md §5.2, §6.5, §7.2).

use super::{
    State,
    audience_model::{AudienceModel, ThreadPlace},
    text::list,
};
use guildhall_guild_protocol::{HiddenChannels, ResourcePayload};
use guildhall_model::{Channel, UserId};
use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

const PRIVATE: u8 = 12;
/// More members than these are not counted aloud.
const MEMBERS_SHOWN_MAX: usize = 50;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadModel {
    pub parent: u64,
    kind: u8,
    pub name: String,
    owner: u64,
    is_archived: bool,
    is_locked: bool,
    pub members: BTreeSet<u64>,
}

impl ThreadModel {
    pub fn new(channel: &Channel, members: impl IntoIterator<Item = UserId>) -> Self {
        let fields = channel.thread.as_deref();
        Self {
            parent: channel.parent_id.map_or(0, |id| id.get()),
            kind: channel.kind as u8,
            name: channel.name.clone(),
            owner: fields.map_or(0, |fields| fields.owner_id.get()),
            is_archived: fields.is_some_and(|fields| fields.archived),
            is_locked: fields.is_some_and(|fields| fields.locked),
            members: members.into_iter().map(|user| user.get()).collect(),
        }
    }

    pub fn is_open(&self) -> bool {
        !self.is_archived
    }

    pub fn is_private(&self) -> bool {
        self.kind == PRIVATE
    }

    /// `own`: the recipient, if the text contains their membership.
    fn text(&self, id: u64, own: Option<u64>) -> String {
        let Self { parent, kind, name, owner, is_archived, is_locked, members } = self;
        let count = members.len().min(MEMBERS_SHOWN_MAX);
        let own = own.map_or("none".to_owned(), |user| user.to_string());
        format!(
            "{id}:{kind} parent={parent} name={name:?} owner={owner} archived={is_archived} locked={is_locked} \
             members={count} own={own}"
        )
    }
}

impl State {
    pub fn thread_place(&self, id: u64) -> Option<ThreadPlace> {
        let thread = self.threads.get(&id)?;
        Some(ThreadPlace { id, parent: thread.parent, is_private: thread.is_private(), is_end: false })
    }

    /// Open threads that a member sees: all of these channels or of the guild, or only those that they joined.
    pub fn user_threads(&self, user: u64, joined_only: bool, of: Option<&[u64]>, now_unix_ms: i64) -> Vec<u64> {
        let is_seen = |(id, thread): &(&u64, &ThreadModel)| {
            thread.is_open()
                && (!joined_only || thread.members.contains(&user))
                && of.is_none_or(|channels| channels.contains(&thread.parent))
                && AudienceModel::at(self, **id).admits(self, user, now_unix_ms)
        };
        self.threads.iter().filter(is_seen).map(|(id, _)| *id).collect()
    }

    /// Threads and channels in GUILD_CREATE that other members may not see: open threads, channels with others in
    /// voice, and unless hidden channels are listed, all channels in view.
    pub fn visible_places(&self, user: u64, joined_only: bool, hidden: HiddenChannels, now_unix_ms: i64) -> Vec<u64> {
        let is_seen = |id: &&u64| hidden != HiddenChannels::Listed && self.viewers(**id).contains(&user);
        let viewed = self.channels.keys().filter(is_seen).copied();
        let others = self.voice.iter().filter(|(who, _)| **who != user && self.shows_in_voice(user, **who));
        let voice = others.map(|(_, (channel, _))| *channel);
        voice.chain(self.user_threads(user, joined_only, None, now_unix_ms)).chain(viewed).collect()
    }

    /// Whether a member views a channel or thread.
    pub fn sees_place(&self, user: u64, place: u64, now_unix_ms: i64) -> bool {
        AudienceModel::at(self, place).admits(self, user, now_unix_ms)
    }

    /// A thread, with the member that `user` is in it.
    pub fn thread_text(&self, id: u64, user: u64) -> String {
        let thread = &self.threads[&id];
        thread.text(id, Some(user).filter(|user| thread.members.contains(user)))
    }

    /// THREAD_LIST_SYNC.
    pub fn thread_list_text(&self, user: u64, channels: Option<&[u64]>, threads: &[u64]) -> String {
        let own = threads.iter().filter(|id| self.threads[id].members.contains(&user));
        format!(
            "THREAD_LIST_SYNC channels={} threads={} own={}",
            channels.map_or("all".to_owned(), list),
            list(threads.iter().map(|id| self.thread_text(*id, user))),
            list(own)
        )
    }

    /// Applies an event about threads.
    pub fn apply_to_threads(&mut self, resource: &ResourcePayload) {
        match resource {
            ResourcePayload::Thread(event) if event.own.is_none() => {
                let id = event.entry.channel.id.get();
                let thread = ThreadModel::new(&event.entry.channel, event.entry.members.keys().copied());
                let members = self.threads.remove(&id).map(|before| before.members);
                self.threads.insert(id, ThreadModel { members: members.unwrap_or(thread.members.clone()), ..thread });
            }
            ResourcePayload::ThreadGone(channel) => drop(self.threads.remove(&channel.id.get())),
            ResourcePayload::ThreadMembers { thread_id, added, removed, .. } => {
                let Some(thread) = self.threads.get_mut(&thread_id.get()) else { return };
                thread.members.extend(added.iter().map(|(added, _)| added.user_id.get()));
                thread.members.retain(|user| removed.is_none_or(|removed| removed.get() != *user));
            }
            _ => {}
        }
    }
}

/// A THREAD_LIST_SYNC.
#[derive(Clone, Debug)]
pub struct ThreadList {
    pub text: Rc<str>,
    joined_only: bool,
    /// `None`: all channels.
    channels: Option<Rc<[u64]>>,
    threads: Vec<u64>,
}

impl ThreadList {
    pub fn new(state: &State, user: u64, joined_only: bool, channels: Option<Rc<[u64]>>, now_unix_ms: i64) -> Self {
        let threads = state.user_threads(user, joined_only, channels.as_deref(), now_unix_ms);
        let text = state.thread_list_text(user, channels.as_deref(), &threads).into();
        Self { text, joined_only, channels, threads }
    }

    /// Whether all of it may be shown again.
    pub fn is_still_seen(&self, state: &State, user: u64, now_unix_ms: i64) -> bool {
        let sees = |thread: &u64| AudienceModel::at(state, *thread).admits(state, user, now_unix_ms);
        let views = |channel: &u64| state.viewers(*channel).contains(&user);
        state.members.contains_key(&user)
            && self.channels.iter().flat_map(|channels| channels.iter()).all(views)
            && self.threads.iter().all(sees)
    }

    /// What of it may be shown, as it is now.
    pub fn left(&self, state: &State, user: u64, now_unix_ms: i64) -> Option<Self> {
        let views = |channel: &u64| state.viewers(*channel).contains(&user);
        let channels = self.channels.as_ref().map(|of| of.iter().copied().filter(views).collect::<Rc<[u64]>>());
        if !state.members.contains_key(&user) || channels.as_ref().is_some_and(|left| left.is_empty()) {
            return None;
        }
        let left = Self::new(state, user, self.joined_only, channels, now_unix_ms);
        Some(left).filter(|left| !left.joined_only || !left.threads.is_empty())
    }
}

/// Users who newly view channels with open threads.
#[derive(Debug, Default)]
pub struct Gained(BTreeMap<u64, Vec<u64>>);

impl Gained {
    pub fn between(before: &State, now: &State) -> Self {
        let parents: BTreeSet<u64> =
            now.threads.values().filter(|thread| thread.is_open()).map(|thread| thread.parent).collect();
        let mut gained = Self::default();
        for parent in parents {
            let (viewed, viewing) = (before.viewers(parent), now.viewers(parent));
            if !Rc::ptr_eq(&viewed, &viewing) {
                for user in viewing.difference(&viewed).filter(|user| before.members.contains_key(user)) {
                    gained.0.entry(*user).or_default().push(parent);
                }
            }
        }
        gained
    }

    pub fn by(&self, user: u64) -> Option<&[u64]> {
        self.0.get(&user).map(Vec::as_slice)
    }
}

/// Expected content of an event about a thread.
pub fn thread_notice_text(state: &State, resource: &ResourcePayload) -> Option<String> {
    Some(match resource {
        ResourcePayload::Thread(event) => {
            let (id, own) = (event.entry.channel.id.get(), event.own.map(|own| own.user_id.get()));
            let text = state.threads.get(&id).map(|thread| thread.text(id, own)).unwrap_or_default();
            format!("{text} new={}", event.newly_created)
        }
        ResourcePayload::ThreadGone(channel) => {
            let parent = channel.parent_id.map_or(0, |id| id.get());
            format!("id={} parent={parent} type={}", channel.id, channel.kind as u8)
        }
        ResourcePayload::ThreadMember(member) => format!("thread={} user={}", member.thread_id, member.user_id),
        ResourcePayload::ThreadMembers { thread_id, added, removed, .. } => {
            let count = state.threads.get(&thread_id.get()).map_or(0, |thread| thread.members.len());
            format!(
                "thread={thread_id} count={} added={} removed={}",
                count.min(MEMBERS_SHOWN_MAX),
                list(added.iter().map(|(added, member)| format!("{}:{}", added.user_id, member.user.id))),
                list(removed)
            )
        }
        _ => return None,
    })
}
