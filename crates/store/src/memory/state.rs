//! State: the maps of a memory store.
//!
//! Invariants  deleting an object deletes the objects within it; an index agrees with its map. A batch that fails
//!             leaves nothing behind: every change of a map records the previous value.

use crate::{
    ContentOf, DirectSpan, ExternalId, ExternalKind, MENTIONS_MAX, MENTIONS_PER_CHANNEL_MAX, MessageAge, MessageSearch,
    Page, Place, ReadStateChange, ReadUpTo, SEARCH_HITS_MAX, SearchOrder, SearchPage, StoreError, UserChange,
    UserVersion,
    picture::{self, PictureNames, PictureOwner},
    search,
};
use guildhall_guild::{GuildRecord, MessageRecord, NONCES_LOADED_MAX, SentNonce, Write, nonces_from};
use guildhall_model::{
    Channel, ChannelId, Direct, Guild, GuildId, GuildResource, Id, Member, MentionTarget, Message, MessageId,
    ReactionEmoji, ReadState, ResourceKey, ResourceKind, Role, RoleId, UnreadMention, User, UserId, smallest_id_at,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

type Reactions = Vec<(ReactionEmoji, Vec<UserId>)>;

#[derive(Default)]
pub(super) struct State {
    users: BTreeMap<UserId, Arc<User>>,
    /// Changes of each account, those that were undone too.
    user_versions: BTreeMap<UserId, u64>,
    guilds: BTreeMap<GuildId, Arc<Guild>>,
    roles: BTreeMap<(GuildId, RoleId), Arc<Role>>,
    channels: BTreeMap<ChannelId, Arc<Channel>>,
    channels_by_guild: BTreeSet<(GuildId, ChannelId)>,
    members: BTreeMap<(GuildId, UserId), Arc<Member>>,
    members_by_user: BTreeSet<(UserId, GuildId)>,
    /// With their nonces.
    messages: BTreeMap<(ChannelId, MessageId), Arc<Message>>,
    resources: BTreeMap<(GuildId, ResourceKey), GuildResource>,
    /// Of two accounts, the smaller id first.
    direct_pairs: BTreeMap<[UserId; 2], ChannelId>,
    /// No entry for messages without.
    reactions: BTreeMap<(ChannelId, MessageId), Reactions>,
    external_ids: BTreeMap<(ExternalKind, u64), String>,
    read_states: BTreeMap<(UserId, ChannelId), ReadState>,
}

/// The previous content of a row.
enum Undo {
    User(UserId, Option<Arc<User>>),
    Guild(GuildId, Option<Arc<Guild>>),
    Role((GuildId, RoleId), Option<Arc<Role>>),
    Channel(ChannelId, Option<Arc<Channel>>),
    Member((GuildId, UserId), Option<Arc<Member>>),
    GuildResource((GuildId, ResourceKey), Option<GuildResource>),
    Message((ChannelId, MessageId), Option<Arc<Message>>),
    Reactions((ChannelId, MessageId), Option<Reactions>),
    External((ExternalKind, u64), Option<String>),
}

fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}

fn require(is_there: bool, what: &'static str) -> Result<(), StoreError> {
    if is_there { Ok(()) } else { Err(StoreError::Dangling { what }) }
}

const FIRST_MESSAGE: MessageId = MessageId::new(0);
const LAST_MESSAGE: MessageId = MessageId::new(u64::MAX);
const FIRST_RESOURCE: ResourceKey = ResourceKey { kind: ResourceKind::Ban, id: 0, part: 0 };
const LAST_RESOURCE: ResourceKey = ResourceKey { kind: ResourceKind::VanityUses, id: u64::MAX, part: u64::MAX };

impl State {
    pub(super) fn apply(&mut self, writes: Vec<Write>) -> Result<(), StoreError> {
        let mut undo = Vec::new();
        let result = writes.into_iter().try_for_each(|write| self.write(write, &mut undo));
        if result.is_err() {
            while let Some(before) = undo.pop() {
                self.set(before);
            }
        }
        result
    }

    fn write(&mut self, write: Write, undo: &mut Vec<Undo>) -> Result<(), StoreError> {
        match write {
            // The store appends it, once the others are applied.
            Write::PutEvent(_) => {}
            Write::PutUser(user) => undo.push(self.set(Undo::User(user.id, Some(user)))),
            Write::PutGuild(guild) => undo.push(self.set(Undo::Guild(guild.id, Some(guild)))),
            Write::PutRole(guild_id, role) => {
                require(self.guilds.contains_key(&guild_id), "role")?;
                undo.push(self.set(Undo::Role((guild_id, role.id), Some(role))));
            }
            Write::PutChannel(channel) => {
                require(self.guilds.contains_key(&channel.guild_id), "channel")?;
                if self.channels.get(&channel.id).is_some_and(|known| known.guild_id != channel.guild_id) {
                    return Err(StoreError::Taken { what: "channel" });
                }
                undo.push(self.set(Undo::Channel(channel.id, Some(channel))));
            }
            Write::PutMember(guild_id, member) => {
                require(self.guilds.contains_key(&guild_id), "member")?;
                if !self.users.contains_key(&member.user.id) {
                    undo.push(self.set(Undo::User(member.user.id, Some(Arc::clone(&member.user)))));
                }
                undo.push(self.set(Undo::Member((guild_id, member.user.id), Some(member))));
            }
            Write::PutResource(guild_id, resource) => {
                require(self.guilds.contains_key(&guild_id), "guild resource")?;
                undo.push(self.set(Undo::GuildResource((guild_id, resource.key()), Some(resource))));
            }
            Write::DeleteResource(guild_id, key) => undo.push(self.set(Undo::GuildResource((guild_id, key), None))),
            Write::DeleteResources(guild_id, ResourceKey { kind, id, .. }) => {
                let first = ResourceKey { kind, id, part: 0 };
                let last = ResourceKey { kind, id, part: u64::MAX };
                self.delete_resources(guild_id, first, last, undo);
            }
            Write::PutMessage(message) => {
                require(self.channels.contains_key(&message.channel_id), "message")?;
                undo.push(self.set(Undo::Message((message.channel_id, message.id), Some(message))));
            }
            Write::DeleteGuild(id) => self.delete_guild(id, undo),
            Write::DeleteRole(guild_id, id) => undo.push(self.set(Undo::Role((guild_id, id), None))),
            Write::DeleteChannel(guild_id, id) => {
                if self.channels_by_guild.contains(&(guild_id, id)) {
                    self.delete_channel(id, undo);
                }
            }
            Write::DeleteMember(guild_id, user_id) => undo.push(self.set(Undo::Member((guild_id, user_id), None))),
            Write::DeleteMessage(channel_id, id) => self.delete_message((channel_id, id), undo),
            Write::AddReaction(channel_id, message_id, emoji, user_id) => {
                let key = (channel_id, message_id);
                let is_founded = self.messages.contains_key(&key) && self.users.contains_key(&user_id);
                require(is_founded, "reaction")?;
                let mut reactions = self.reactions.get(&key).cloned().unwrap_or_default();
                match reactions.iter_mut().find(|(known, _)| *known == emoji) {
                    Some((_, users)) if users.contains(&user_id) => return Ok(()),
                    Some((_, users)) => users.push(user_id),
                    None => reactions.push((emoji, vec![user_id])),
                }
                undo.push(self.set(Undo::Reactions(key, Some(reactions))));
            }
            Write::RemoveReaction(channel_id, message_id, emoji, user_id) => {
                self.keep_reactions((channel_id, message_id), |known, user| *known != emoji || user != user_id, undo);
            }
            Write::ClearReactions(channel_id, message_id, emoji) => {
                let is_other = |known: &ReactionEmoji| emoji.as_ref().is_some_and(|emoji| emoji != known);
                self.keep_reactions((channel_id, message_id), |known, _| is_other(known), undo);
            }
        }
        Ok(())
    }

    /// Puts a value into its place and returns the one that was there, with which the same call undoes it.
    fn set(&mut self, change: Undo) -> Undo {
        match change {
            Undo::User(key, value) => {
                *self.user_versions.entry(key).or_default() += 1;
                Undo::User(key, set(&mut self.users, key, value))
            }
            Undo::Guild(key, value) => Undo::Guild(key, set(&mut self.guilds, key, value)),
            Undo::Role(key, value) => Undo::Role(key, set(&mut self.roles, key, value)),
            Undo::Channel(key, value) => {
                let guild_id = value.as_ref().map(|channel| channel.guild_id);
                let before = set(&mut self.channels, key, value);
                if let Some(before) = &before {
                    self.channels_by_guild.remove(&(before.guild_id, key));
                }
                self.channels_by_guild.extend(guild_id.map(|guild_id| (guild_id, key)));
                Undo::Channel(key, before)
            }
            Undo::Member(key, value) => {
                let (guild_id, user_id) = key;
                match value {
                    Some(_) => self.members_by_user.insert((user_id, guild_id)),
                    None => self.members_by_user.remove(&(user_id, guild_id)),
                };
                Undo::Member(key, set(&mut self.members, key, value))
            }
            Undo::GuildResource(key, value) => Undo::GuildResource(key, set(&mut self.resources, key, value)),
            Undo::Message(key, value) => Undo::Message(key, set(&mut self.messages, key, value)),
            Undo::Reactions(key, value) => Undo::Reactions(key, set(&mut self.reactions, key, value)),
            Undo::External(key, value) => Undo::External(key, set(&mut self.external_ids, key, value)),
        }
    }

    fn delete_guild(&mut self, id: GuildId, undo: &mut Vec<Undo>) {
        for channel_id in self.channels_of(id) {
            self.delete_channel(channel_id, undo);
        }
        let roles: Vec<_> = self.roles.range((id, RoleId::new(0))..=(id, RoleId::new(u64::MAX))).collect();
        let roles: Vec<_> = roles.into_iter().map(|(key, _)| *key).collect();
        for key in roles {
            undo.push(self.set(Undo::Role(key, None)));
        }
        let members: Vec<_> = self.members_of(id).map(|member| member.user.id).collect();
        for user_id in members {
            undo.push(self.set(Undo::Member((id, user_id), None)));
        }
        self.delete_resources(id, FIRST_RESOURCE, LAST_RESOURCE, undo);
        undo.push(self.set(Undo::External((ExternalKind::Guild, id.get()), None)));
        undo.push(self.set(Undo::Guild(id, None)));
    }

    fn delete_resources(&mut self, id: GuildId, first: ResourceKey, last: ResourceKey, undo: &mut Vec<Undo>) {
        let keys: Vec<_> = self.resources.range((id, first)..=(id, last)).map(|(key, _)| *key).collect();
        for key in keys {
            undo.push(self.set(Undo::GuildResource(key, None)));
        }
    }

    fn delete_channel(&mut self, id: ChannelId, undo: &mut Vec<Undo>) {
        let messages: Vec<_> =
            self.messages.range((id, FIRST_MESSAGE)..=(id, LAST_MESSAGE)).map(|(key, _)| *key).collect();
        for key in messages {
            self.delete_message(key, undo);
        }
        undo.push(self.set(Undo::External((ExternalKind::Channel, id.get()), None)));
        undo.push(self.set(Undo::Channel(id, None)));
    }

    fn delete_message(&mut self, key: (ChannelId, MessageId), undo: &mut Vec<Undo>) {
        undo.push(self.set(Undo::Reactions(key, None)));
        undo.push(self.set(Undo::Message(key, None)));
    }

    /// Drops the reactions that are not to be kept, and with its last one an emoji.
    fn keep_reactions(
        &mut self,
        key: (ChannelId, MessageId),
        keep: impl Fn(&ReactionEmoji, UserId) -> bool,
        undo: &mut Vec<Undo>,
    ) {
        let Some(reactions) = self.reactions.get(&key) else {
            return;
        };
        let kept = |(emoji, users): &(ReactionEmoji, Vec<UserId>)| {
            let users: Vec<_> = users.iter().copied().filter(|user| keep(emoji, *user)).collect();
            (!users.is_empty()).then(|| (emoji.clone(), users))
        };
        let kept: Reactions = reactions.iter().filter_map(kept).collect();
        undo.push(self.set(Undo::Reactions(key, (!kept.is_empty()).then_some(kept))));
    }

    fn channels_of(&self, id: GuildId) -> Vec<ChannelId> {
        let range = (id, ChannelId::new(0))..=(id, ChannelId::new(u64::MAX));
        self.channels_by_guild.range(range).map(|(_, channel_id)| *channel_id).collect()
    }

    fn members_of(&self, id: GuildId) -> impl Iterator<Item = &Arc<Member>> {
        self.members.range((id, UserId::new(0))..=(id, UserId::new(u64::MAX))).map(|(_, member)| member)
    }

    fn with_last_message(&self, id: ChannelId) -> Option<Channel> {
        let mut channel = Channel::clone(self.channels.get(&id)?);
        channel.last_message_id = self.newest(id, LAST_MESSAGE).next().map(|message| message.id);
        Some(channel)
    }

    fn is_direct(&self, id: GuildId) -> bool {
        self.guilds.get(&id).is_some_and(|guild| guild.is_direct)
    }

    pub(super) fn load_guild(&self, id: GuildId) -> Option<GuildRecord> {
        let guild = Guild::clone(self.guilds.get(&id)?);
        let roles = self.roles.range((id, RoleId::new(0))..=(id, RoleId::new(u64::MAX)));
        let roles = roles.map(|(_, role)| Role::clone(role)).collect();
        let channels: Vec<_> = self.channels_of(id).into_iter().filter_map(|id| self.with_last_message(id)).collect();
        let nonces = self.nonces(&channels);
        let with_account = |member: &Arc<Member>| match self.users.get(&member.user.id) {
            Some(user) if !Arc::ptr_eq(user, &member.user) => {
                Arc::new(Member { user: Arc::clone(user), ..Member::clone(member) })
            }
            _ => Arc::clone(member),
        };
        let members = self.members_of(id).map(with_account).collect();
        let resources = self.resources.range((id, FIRST_RESOURCE)..=(id, LAST_RESOURCE));
        let resources = resources.map(|(_, resource)| resource.clone()).collect();
        Some(GuildRecord { guild, roles, channels, members, resources, nonces })
    }

    fn nonces(&self, channels: &[Channel]) -> Vec<SentNonce> {
        let Some(from) = nonces_from(channels) else { return Vec::new() };
        let sent = |message: &Arc<Message>| {
            let (author_id, channel_id, message_id) = (message.author.id, message.channel_id, message.id);
            Some(SentNonce { author_id, channel_id, message_id, nonce: message.nonce.clone()? })
        };
        let messages = channels.iter().flat_map(|channel| self.oldest(channel.id, from));
        let mut nonces: Vec<SentNonce> = messages.filter_map(sent).collect();
        nonces.sort_unstable_by_key(|sent| sent.message_id);
        nonces.drain(..nonces.len().saturating_sub(NONCES_LOADED_MAX));
        nonces
    }

    pub(super) fn guild_ids(&self, after: GuildId) -> impl Iterator<Item = GuildId> {
        self.guilds.values().filter(move |guild| guild.id > after && !guild.is_direct).map(|guild| guild.id)
    }

    pub(super) fn guild_of_channel(&self, id: ChannelId) -> Option<GuildId> {
        Some(self.channels.get(&id)?.guild_id)
    }

    /// Messages up to `last`, newest first.
    fn newest(&self, channel_id: ChannelId, last: MessageId) -> impl Iterator<Item = &Arc<Message>> {
        self.messages.range((channel_id, FIRST_MESSAGE)..=(channel_id, last)).rev().map(|(_, message)| message)
    }

    /// Messages from `first`, oldest first.
    fn oldest(&self, channel_id: ChannelId, first: MessageId) -> impl Iterator<Item = &Arc<Message>> {
        self.messages.range((channel_id, first)..=(channel_id, LAST_MESSAGE)).map(|(_, message)| message)
    }

    fn record(&self, message: &Arc<Message>) -> MessageRecord {
        let reactions = self.reactions.get(&(message.channel_id, message.id)).cloned().unwrap_or_default();
        let mut message = Arc::clone(message);
        if message.nonce.is_some() {
            Arc::make_mut(&mut message).nonce = None;
        }
        MessageRecord { message, reactions }
    }

    pub(super) fn message(&self, channel_id: ChannelId, id: MessageId) -> Option<MessageRecord> {
        Some(self.record(self.messages.get(&(channel_id, id))?))
    }

    pub(super) fn messages(&self, channel_id: ChannelId, page: Page, limit: usize) -> Vec<MessageRecord> {
        let before =
            |id: MessageId, limit| self.newest(channel_id, id).filter(move |message| message.id != id).take(limit);
        let mut messages: Vec<_> = match page {
            Page::Newest => self.newest(channel_id, LAST_MESSAGE).take(limit).collect(),
            Page::Before(id) => before(id, limit).collect(),
            Page::After(id) => self.oldest(channel_id, id).filter(|message| message.id != id).take(limit).collect(),
            Page::Around(id) => {
                before(id, limit / 2).chain(self.oldest(channel_id, id).take(limit - limit / 2)).collect()
            }
        };
        messages.sort_unstable_by_key(|message| std::cmp::Reverse(message.id));
        messages.into_iter().map(|message| self.record(message)).collect()
    }

    /// Reads every message of the channels: this store has no index.
    pub(super) fn search_messages(&self, search: &MessageSearch) -> SearchPage {
        let Some(clauses) = search.clauses() else { return SearchPage::default() };
        let is_found = |message: &Message| {
            message.guild_id == search.guild_id
                && search.after.is_none_or(|after| message.id > after)
                && search.before.is_none_or(|before| message.id < before)
                && search::tokens(message).is_some_and(|tokens| clauses.accept(&tokens))
        };
        let channels = search.channels.iter().flat_map(|channel| self.oldest(*channel, FIRST_MESSAGE));
        let found = channels.filter(|message| is_found(message));
        let mut found: Vec<_> = found.map(|message| (message.id, message.channel_id)).collect();
        found.sort_unstable();
        if search.order == SearchOrder::NewestFirst {
            found.reverse();
        }
        found.truncate(SEARCH_HITS_MAX as usize);
        let page = found.iter().skip(search.offset as usize).take(search.limit as usize);
        SearchPage { total: found.len() as u32, messages: page.map(|(id, channel_id)| (*channel_id, *id)).collect() }
    }

    pub(super) fn reaction_users(
        &self,
        channel_id: ChannelId,
        message_id: MessageId,
        emoji: &ReactionEmoji,
        after: UserId,
        limit: usize,
    ) -> Vec<User> {
        let reactions = self.reactions.get(&(channel_id, message_id)).into_iter().flatten();
        let users: BTreeSet<_> = reactions.filter(|(known, _)| known == emoji).flat_map(|(_, users)| users).collect();
        let users = users.into_iter().filter(|id| **id > after).filter_map(|id| self.users.get(id));
        users.take(limit).map(|user| User::clone(user)).collect()
    }

    pub(super) fn user(&self, id: UserId) -> Option<Arc<User>> {
        self.users.get(&id).cloned()
    }

    pub(super) fn user_version(&self, id: UserId) -> Option<(Arc<User>, UserVersion)> {
        let version = self.user_versions.get(&id).copied().unwrap_or(0);
        Some((self.user(id)?, UserVersion(version)))
    }

    /// Whether the account had the expected version.
    pub(super) fn change_user(&mut self, change: &UserChange) -> bool {
        let id = change.user.id;
        let is_expected = self.user_version(id).map(|(_, version)| version) == change.expected;
        if is_expected {
            self.set(Undo::User(id, Some(Arc::clone(&change.user))));
        }
        is_expected
    }

    pub(super) fn users(&self, after: UserId) -> impl Iterator<Item = Arc<User>> {
        self.users.range((Bound::Excluded(after), Bound::Unbounded)).map(|(_, user)| Arc::clone(user))
    }

    pub(super) fn guilds_of_user(&self, id: UserId) -> impl Iterator<Item = GuildId> {
        let range = (id, GuildId::new(0))..=(id, GuildId::new(u64::MAX));
        self.members_by_user.range(range).map(|(_, guild_id)| *guild_id).filter(|id| !self.is_direct(*id))
    }

    pub(super) fn directs_of_user(&self, id: UserId) -> impl Iterator<Item = Direct> {
        let range = (id, GuildId::new(0))..=(id, GuildId::new(u64::MAX));
        let directs = self.members_by_user.range(range).rev().map(|(_, id)| *id).filter(|id| self.is_direct(*id));
        directs.filter_map(|id| {
            let recipients = self.members_of(id).filter_map(|member| self.user(member.user.id)).collect();
            Some(Direct { channel: Arc::new(self.with_last_message(id.cast())?), recipients })
        })
    }

    pub(super) fn direct_of_pair(&self, mut pair: [UserId; 2]) -> Option<ChannelId> {
        pair.sort_unstable();
        self.direct_pairs.get(&pair).copied()
    }

    pub(super) fn direct_of_pair_or_insert(&mut self, mut pair: [UserId; 2], id: ChannelId) -> ChannelId {
        pair.sort_unstable();
        *self.direct_pairs.entry(pair).or_insert(id)
    }

    pub(super) fn guild_of_resource(&self, kind: ResourceKind, id: u64) -> Option<GuildId> {
        let mut keys = self.resources.keys();
        keys.find(|(_, key)| (key.kind, key.id) == (kind, id)).map(|(guild_id, _)| *guild_id)
    }

    /// Looks through all guilds: this store is for tests.
    pub(super) fn guilds_with_ban(&self, user_id: UserId, after: GuildId) -> impl Iterator<Item = GuildId> {
        let key = ResourceKey::whole(ResourceKind::Ban, user_id.get());
        self.resources.keys().filter(move |of| of.0 > after && of.1 == key).map(|of| of.0)
    }

    pub(super) fn messages_by(
        &self,
        channel_id: ChannelId,
        author_id: UserId,
        from: MessageId,
    ) -> impl Iterator<Item = MessageId> {
        let written = self.oldest(channel_id, from).filter(move |message| message.author.id == author_id);
        written.map(|message| message.id)
    }

    /// Looks through all messages: this store is for tests.
    pub(super) fn attachments_in_use(&self, ids: &[Id<()>]) -> BTreeSet<Id<()>> {
        let all = self.messages.values().flat_map(|message| message.all_attachments());
        all.map(|attachment| attachment.id).filter(|id| ids.contains(id)).collect()
    }

    /// Looks through all of them.
    pub(super) fn with_external_ids(&self, kind: ExternalKind, texts: &[String]) -> Vec<ExternalId> {
        let of_kind = self.external_ids.iter().filter(|((of, _), text)| *of == kind && texts.contains(text));
        of_kind.map(|((_, id), text)| ExternalId { id: *id, text: text.clone() }).collect()
    }

    pub(super) fn external_ids(&self, kind: ExternalKind, ids: &[u64]) -> Vec<ExternalId> {
        let known = ids.iter().filter_map(|id| Some((*id, self.external_ids.get(&(kind, *id))?)));
        known.map(|(id, text)| ExternalId { id, text: text.clone() }).collect()
    }

    pub(super) fn put_external_ids(
        &mut self,
        kind: ExternalKind,
        of: &[(u64, Option<String>)],
    ) -> Result<(), StoreError> {
        let before: Vec<_> = of.iter().map(|(id, _)| self.set(Undo::External((kind, *id), None))).collect();
        for (id, text) in of.iter().filter(|(_, text)| text.is_some()) {
            let is_taken = self.external_ids.iter().any(|((of, _), known)| *of == kind && Some(known) == text.as_ref());
            if is_taken {
                let ids = of.iter().map(|(id, _)| Undo::External((kind, *id), None));
                ids.chain(before.into_iter().rev()).for_each(|undo| drop(self.set(undo)));
                return Err(StoreError::Taken { what: "external id" });
            }
            self.set(Undo::External((kind, *id), text.clone()));
        }
        Ok(())
    }

    pub(super) fn content_of(&self, id: UserId, after: Place, scanned_max: usize) -> ContentOf {
        let places = self.messages.range((Bound::Excluded(after), Bound::Unbounded)).map(|(place, _)| *place);
        let places: Vec<Place> = places.take(scanned_max).collect();
        let is_own = |place: &Place| self.messages.get(place).is_some_and(|message| message.author.id == id);
        let reacted = |place: &Place| {
            let with = self.reactions.get(place).into_iter().flatten().filter(|(_, users)| users.contains(&id));
            with.map(|(emoji, _)| (*place, emoji.clone())).collect::<Vec<_>>()
        };
        ContentOf {
            messages: places.iter().copied().filter(is_own).collect(),
            reactions: places.iter().flat_map(reacted).collect(),
            next: places.last().copied().filter(|_| places.len() == scanned_max),
        }
    }

    pub(super) fn message_ages(
        &self,
        after: ChannelId,
        keep_days: &BTreeMap<u64, u32>,
    ) -> impl Iterator<Item = MessageAge> {
        let channels = self.channels.range((Bound::Excluded(after), Bound::Unbounded));
        channels.map(move |(id, channel)| {
            let parent_id = channel.parent_id.filter(|_| channel.kind.is_thread());
            let of = |id: u64| keep_days.get(&id).copied();
            MessageAge {
                channel_id: *id,
                guild_id: channel.guild_id,
                oldest: self.oldest(*id, FIRST_MESSAGE).next().map(|message| message.id),
                keep_days: of(id.get()).or(parent_id.and_then(|id| of(id.get()))).or(of(channel.guild_id.get())),
            }
        })
    }

    /// The oldest messages below `before`.
    pub(super) fn expired(&self, channel_id: ChannelId, before: MessageId, limit: usize) -> Vec<MessageId> {
        let oldest = self.oldest(channel_id, FIRST_MESSAGE).map(|message| message.id);
        oldest.take_while(|id| *id < before).take(limit).collect()
    }

    /// Looks through all webhooks: this store is for tests.
    pub(super) fn pictures_in_use(&self, owner: PictureOwner) -> PictureNames {
        match owner {
            PictureOwner::User(id) => {
                let user = self.users.get(&id).into_iter().flat_map(|user| picture::of_user(user));
                let webhooks = self.resources.values().filter_map(|resource| match resource {
                    GuildResource::Webhook(webhook) if webhook.id.get() == id.get() => webhook.avatar.clone(),
                    _ => None,
                });
                user.chain(webhooks).collect()
            }
            PictureOwner::Guild(id) => {
                let mut names = self.guilds.get(&id).map(|guild| picture::of_guild(guild)).unwrap_or_default();
                let roles = self.roles.range((id, RoleId::new(0))..=(id, RoleId::new(u64::MAX)));
                names.extend(roles.filter_map(|(_, role)| picture::of_role(role)));
                names
            }
            PictureOwner::Member(guild_id, user_id) => {
                let member = self.members.get(&(guild_id, user_id));
                let pictures = member.and_then(|member| member.pictures.as_deref());
                pictures.into_iter().flat_map(picture::of_member).collect()
            }
        }
    }

    pub(super) fn change_read_state(&mut self, of: &ReadStateChange) {
        let key = (of.user_id, of.channel_id);
        if of.change.is_reset {
            self.read_states.remove(&key);
        }
        if !of.change.stores() {
            return;
        }
        let state = self.read_states.entry(key).or_insert_with(|| ReadState::new(of.channel_id));
        match of.change.message {
            Some(ReadUpTo::Exactly(id)) => state.last_message_id = id,
            Some(ReadUpTo::AtLeast(id)) => state.last_message_id = state.last_message_id.max(id),
            None => {}
        }
        state.last_pin_timestamp = state.last_pin_timestamp.max(of.change.pin);
        state.flags = of.change.flags.unwrap_or(state.flags);
        state.last_viewed = of.change.last_viewed.unwrap_or(state.last_viewed);
    }

    pub(super) fn read_states(&self, id: UserId) -> impl Iterator<Item = &ReadState> {
        let range = (id, ChannelId::new(0))..=(id, ChannelId::new(u64::MAX));
        self.read_states.range(range).map(|(_, state)| state)
    }

    pub(super) fn trim_read_states(&mut self, id: UserId, keep: usize) {
        let mut states: Vec<ReadState> = self.read_states(id).copied().collect();
        states.sort_by_key(|state| (std::cmp::Reverse(state.last_message_id), state.channel_id));
        for state in states.into_iter().skip(keep) {
            self.read_states.remove(&(id, state.channel_id));
        }
    }

    /// Looks through all messages: this store is for tests.
    pub(super) fn unread_mentions(&self, id: UserId) -> Vec<UnreadMention> {
        let read = |channel_id| self.read_states.get(&(id, channel_id)).map_or(0, |state| state.last_message_id.get());
        let mut found = BTreeSet::new();
        for ((channel_id, message_id), message) in &self.messages {
            let mention = |target| UnreadMention { channel_id: *channel_id, message_id: *message_id, target };
            if message.author.id == id || message_id.get() <= read(*channel_id) {
                continue;
            }
            if message.mentions.iter().any(|user| user.id == id && !user.bot) {
                found.insert(mention(MentionTarget::User));
            }
            for ((guild_id, _), member) in self.members.iter().filter(|((_, user_id), _)| *user_id == id) {
                if *message_id <= smallest_id_at(member.joined_at) {
                    continue;
                }
                if message.mention_everyone && message.guild_id == Some(*guild_id) {
                    found.insert(mention(MentionTarget::Role(guild_id.cast())));
                }
                let roles = message.mention_roles.iter();
                let held = roles.filter(|role| member.roles.contains(role) || role.get() == guild_id.get());
                found.extend(held.map(|role| mention(MentionTarget::Role(*role))));
            }
        }
        let mut of_place: BTreeMap<(MentionTarget, ChannelId), u32> = BTreeMap::new();
        let newest = found.into_iter().rev().filter(|mention| {
            let count = of_place.entry((mention.target, mention.channel_id)).or_default();
            *count += 1;
            *count <= MENTIONS_PER_CHANNEL_MAX
        });
        newest.take(MENTIONS_MAX as usize).collect()
    }

    pub(super) fn unread_direct(&self, id: UserId, span: &DirectSpan, limit: usize) -> u32 {
        let unread = self.oldest(span.channel_id, span.after).filter(|message| message.id > span.after);
        let unread = unread.take_while(|message| message.id <= span.up_to).take(limit);
        unread.filter(|message| message.author.id != id).count() as u32
    }

    pub(super) fn largest_id(&self) -> u64 {
        let users = self.users.keys().map(|id| id.get());
        let guilds = self.guilds.keys().map(|id| id.get());
        let roles = self.roles.keys().map(|(_, id)| id.get());
        let channels = self.channels.keys().map(|id| id.get());
        let messages = self.messages.keys().map(|(_, id)| id.get());
        let pairs = self.direct_pairs.values().map(|id| id.get());
        let attachments = self.messages.values().flat_map(|message| message.all_attachments()).map(|of| of.id.get());
        let all = users.chain(guilds).chain(roles).chain(channels).chain(messages).chain(pairs).chain(attachments);
        all.max().unwrap_or(0)
    }
}
