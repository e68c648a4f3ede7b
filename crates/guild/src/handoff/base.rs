//! Base: the state of a guild at one version, in chunks.

use super::{HandoffItem, VoicePlace};
use crate::{limits::GuildLimits, machine::Guild, record::GuildRecord};
use guildhall_guild_protocol::{GuildStructure, MemberTable, ThreadEntry};
use guildhall_model::{
    Channel, ChannelId, Guild as GuildFields, GuildResource, Member, Presence, Role, ThreadMember, UserId,
};
use guildhall_stdx::{CowMap, Now};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Members, resources or threads in one chunk: some hundred kilobytes at most.
const CHUNK_ITEMS: usize = 1_000;

/// State of a guild at one version, without its sessions. It shares what it can with the guild.
#[derive(Debug)]
pub struct HandoffBase {
    structure: Arc<GuildStructure>,
    members: MemberTable,
    threads: CowMap<ChannelId, ThreadEntry>,
    resources: Vec<GuildResource>,
    items: Vec<HandoffItem>,
    has_presences: bool,
}

/// Part of a base. The order is free, except that `Items` follow all others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum HandoffChunk {
    Structure {
        guild: Arc<GuildFields>,
        roles: Vec<Role>,
        channels: Vec<Channel>,
    },
    Members(Vec<Arc<Member>>),
    Threads(Vec<Channel>),
    Resources(Vec<GuildResource>),
    Items(Vec<HandoffItem>),
    /// Of members who are not offline. Only for the next process: at another node they follow from the sessions.
    Presences(Vec<(UserId, Presence)>),
}

impl HandoffBase {
    pub(super) fn of(guild: &Guild) -> Self {
        let mut items: Vec<_> = guild.relays.handoff_links().into_iter().map(HandoffItem::Relay).collect();
        items.extend(guild.lists.handoff_watches(&guild.structure));
        Self::with_items(guild, items)
    }

    /// The same without relays and what they watch, but with presences.
    pub(super) fn without_sessions(guild: &Guild) -> Self {
        Self { has_presences: true, ..Self::with_items(guild, Vec::new()) }
    }

    fn with_items(guild: &Guild, mut items: Vec<HandoffItem>) -> Self {
        let shown = guild.presences.all_shown();
        items.extend(shown.map(|(user_id, presence)| HandoffItem::Shown(user_id, Some(presence.clone()))));
        let in_voice = guild.voice.snapshot();
        let in_voice = in_voice.iter().filter_map(|(user_id, _)| Some((user_id, guild.voice.place(user_id)?)));
        items.extend(in_voice.map(|(user_id, (entry, session))| {
            HandoffItem::Voice(user_id, Some(Box::new(VoicePlace { entry, session })))
        }));
        Self {
            structure: guild.structure.clone(),
            members: guild.members.snapshot(),
            threads: guild.threads.snapshot(),
            resources: guild
                .resources
                .all()
                .chain(guild.temporary.all())
                .chain(guild.audit.all())
                .chain(guild.polls.all())
                .chain(guild.auto_mod.all())
                .collect(),
            items,
            has_presences: false,
        }
    }

    /// Number of members.
    #[must_use]
    pub fn members_count(&self) -> usize {
        self.members.len()
    }

    /// The base in chunks, in an order that `HandoffParts` takes. Takes time with the members; it also frees the base.
    pub fn for_each_chunk<E>(self, mut take: impl FnMut(HandoffChunk) -> Result<(), E>) -> Result<(), E> {
        let GuildStructure { guild, roles, channels } = &*self.structure;
        take(HandoffChunk::Structure {
            guild: guild.clone(),
            roles: roles.values().map(|role| Role::clone(role)).collect(),
            channels: channels.values().map(|channel| Channel::clone(channel)).collect(),
        })?;
        let members = self.members.iter().map(|entry| entry.member.clone());
        in_chunks(members, |members| take(HandoffChunk::Members(members)))?;
        let threads = self.threads.iter().map(|(_, entry)| Channel::clone(&entry.channel));
        in_chunks(threads, |threads| take(HandoffChunk::Threads(threads)))?;
        let thread_members = self.threads.iter().flat_map(|(_, entry)| {
            let members: Vec<ThreadMember> = entry.members.values().copied().collect();
            members.into_iter().map(GuildResource::ThreadMember)
        });
        in_chunks(self.resources.iter().cloned().chain(thread_members), |resources| {
            take(HandoffChunk::Resources(resources))
        })?;
        let presences = self.members.iter().filter(|_| self.has_presences);
        let presences =
            presences.filter_map(|entry| Some((entry.member.user.id, (**entry.presence.as_ref()?).clone())));
        in_chunks(presences, |presences| take(HandoffChunk::Presences(presences)))?;
        in_chunks(self.items.iter().cloned(), |items| take(HandoffChunk::Items(items)))
    }
}

fn in_chunks<T, E>(all: impl Iterator<Item = T>, mut take: impl FnMut(Vec<T>) -> Result<(), E>) -> Result<(), E> {
    let mut all = all.peekable();
    while all.peek().is_some() {
        take(all.by_ref().take(CHUNK_ITEMS).collect())?;
    }
    Ok(())
}

/// Chunks of a base that have arrived.
#[derive(Debug, Default)]
pub struct HandoffParts {
    structure: Option<(Arc<GuildFields>, Vec<Role>, Vec<Channel>)>,
    members: Vec<Arc<Member>>,
    threads: Vec<Channel>,
    resources: Vec<GuildResource>,
    items: Vec<HandoffItem>,
    pub(super) presences: Vec<(UserId, Presence)>,
}

impl HandoffParts {
    pub fn add(&mut self, chunk: HandoffChunk) {
        match chunk {
            HandoffChunk::Structure { guild, roles, channels } => self.structure = Some((guild, roles, channels)),
            HandoffChunk::Members(members) => self.members.extend(members),
            HandoffChunk::Threads(threads) => self.threads.extend(threads),
            HandoffChunk::Resources(resources) => self.resources.extend(resources),
            HandoffChunk::Items(items) => self.items.extend(items),
            HandoffChunk::Presences(presences) => self.presences.extend(presences),
        }
    }

    /// The standby that these make. None: the first chunk is missing. Takes time with the members.
    #[must_use]
    pub fn standby(self, now: Now, limits: GuildLimits, origin: u16) -> Option<Guild> {
        let Self { structure, mut members, threads, resources, items, presences: _ } = self;
        let (guild, roles, mut channels) = structure?;
        channels.extend(threads);
        members.sort_unstable_by_key(|member| member.user.id);
        let guild = Arc::unwrap_or_clone(guild);
        let record = GuildRecord { guild, roles, channels, members, resources, nonces: Vec::new() };
        let mut standby = Guild::load(record, limits, origin);
        items.into_iter().for_each(|item| standby.follow(now, item));
        Some(standby)
    }
}
