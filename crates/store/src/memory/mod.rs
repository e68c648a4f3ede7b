//! Memory: a store for simulations and fast tests.
//!
//! Owns        nothing but maps behind one lock; a clone is the same store, so a node that is "restarted" in a
//!             simulation finds what its predecessor committed.
//! Invariants  same contract as SQLite, except that it ends with the process. Never waits, and iterates in one order
//!             only, so simulations replay exactly.
//! Limits      memory.

mod state;

use crate::{
    ContentOf, DIRECTS_ASKED_MAX, DirectSpan, EVENTS_SCANNED_MAX, EventBounds, EventFilter, Expired, ExternalId,
    ExternalKind, GuildEpoch, IdAndData, MessageAge, MessageSearch, PICTURE_OWNERS_ASKED_MAX, Page, PictureNames,
    PictureOwner, Place, READ_CHANGES_MAX, RECORD_SWAPS_MAX, ReadStateChange, RecordSwap, SearchIndex, SearchPage,
    Store, StoreError, StoredEvent, TokenHash, TokenRecord, UserChange, UserVersion, events::prune_to,
};
use async_trait::async_trait;
use guildhall_guild::{FeedEvent, GuildRecord, MessageRecord, Write};
use guildhall_model::{
    ChannelId, Direct, GuildId, Id, MessageId, ReactionEmoji, ReadState, ResourceKind, UnreadMention, User, UserId,
};
use guildhall_stdx::Timestamp;
use state::State;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

/// A store in memory.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Everything>>);

#[derive(Default)]
struct Everything {
    state: State,
    tokens: BTreeMap<TokenHash, TokenRecord>,
    settings: BTreeMap<String, Vec<u8>>,
    records: BTreeMap<(&'static str, Vec<u8>), Vec<u8>>,
    keep_days: BTreeMap<u64, u32>,
    epochs: BTreeMap<GuildId, u64>,
    events: VecDeque<StoredEvent>,
    pruned: u64,
}

impl Everything {
    fn event_bounds(&self) -> EventBounds {
        let newest = self.events.back().map_or(self.pruned, |event| event.position);
        EventBounds { pruned: self.pruned, newest }
    }

    fn put_event(&mut self, event: &FeedEvent) {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.events.push_back(StoredEvent {
            position: self.event_bounds().newest + 1,
            at: Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)),
            kind: event.kind as u8,
            guild_id: event.guild_id(),
            channel_id: event.channel_id(),
            data: event.to_json(),
        });
    }
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Commits a batch if the guild's epoch is the current one.
    fn commit_if(&self, fence: Option<(GuildId, GuildEpoch)>, writes: Vec<Write>) -> Result<(), StoreError> {
        let gone: Vec<u64> = writes
            .iter()
            .filter_map(|write| match write {
                Write::DeleteGuild(id) => Some(id.get()),
                Write::DeleteChannel(_, id) => Some(id.get()),
                _ => None,
            })
            .collect();
        let mut everything = self.lock();
        if fence.is_some_and(|(guild_id, epoch)| everything.epochs.get(&guild_id) != Some(&epoch.0)) {
            return Err(StoreError::Fenced);
        }
        let (events, writes): (Vec<Write>, Vec<Write>) =
            writes.into_iter().partition(|write| matches!(write, Write::PutEvent(_)));
        everything.state.apply(writes)?;
        for write in events {
            if let Write::PutEvent(event) = write {
                everything.put_event(&event);
            }
        }
        everything.keep_days.retain(|id, _| !gone.contains(id));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Everything> {
        // A panic while it was held is a bug here; a test that continues should see its state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        self.commit_if(None, writes)
    }

    async fn claim_guild(&self, guild_id: GuildId) -> Result<GuildEpoch, StoreError> {
        let mut everything = self.lock();
        let epoch = everything.epochs.entry(guild_id).or_default();
        *epoch += 1;
        Ok(GuildEpoch(*epoch))
    }

    async fn commit_fenced(&self, fence: (GuildId, GuildEpoch), writes: Vec<Write>) -> Result<(), StoreError> {
        self.commit_if(Some(fence), writes)
    }

    async fn load_guild(&self, guild_id: GuildId) -> Result<Option<GuildRecord>, StoreError> {
        Ok(self.lock().state.load_guild(guild_id))
    }

    async fn guild_ids(&self, after: GuildId, limit: u32) -> Result<Vec<GuildId>, StoreError> {
        Ok(self.lock().state.guild_ids(after).take(limit as usize).collect())
    }

    async fn guild_of_channel(&self, channel_id: ChannelId) -> Result<Option<GuildId>, StoreError> {
        Ok(self.lock().state.guild_of_channel(channel_id))
    }

    async fn message(&self, channel_id: ChannelId, message_id: MessageId) -> Result<Option<MessageRecord>, StoreError> {
        Ok(self.lock().state.message(channel_id, message_id))
    }

    async fn messages(&self, channel_id: ChannelId, page: Page, limit: u32) -> Result<Vec<MessageRecord>, StoreError> {
        Ok(self.lock().state.messages(channel_id, page, limit as usize))
    }

    async fn reaction_users(
        &self,
        channel_id: ChannelId,
        message_id: MessageId,
        emoji: &ReactionEmoji,
        after: UserId,
        limit: u32,
    ) -> Result<Vec<User>, StoreError> {
        Ok(self.lock().state.reaction_users(channel_id, message_id, emoji, after, limit as usize))
    }

    async fn user(&self, user_id: UserId) -> Result<Option<Arc<User>>, StoreError> {
        Ok(self.lock().state.user(user_id))
    }

    async fn user_versions(&self, user_ids: &[UserId]) -> Result<Vec<(Arc<User>, UserVersion)>, StoreError> {
        let everything = self.lock();
        Ok(user_ids.iter().filter_map(|id| everything.state.user_version(*id)).collect())
    }

    async fn change_users(&self, changes: &[UserChange]) -> Result<u64, StoreError> {
        let mut everything = self.lock();
        Ok(changes.iter().map(|change| u64::from(everything.state.change_user(change))).sum())
    }

    async fn users(&self, after: UserId, limit: u32) -> Result<Vec<Arc<User>>, StoreError> {
        Ok(self.lock().state.users(after).take(limit as usize).collect())
    }

    async fn users_named(&self, username: &str, limit: u32) -> Result<Vec<Arc<User>>, StoreError> {
        let everything = self.lock();
        let named = everything.state.users(UserId::new(0)).filter(|user| user.username == username);
        Ok(named.take(limit as usize).collect())
    }

    async fn guilds_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<GuildId>, StoreError> {
        Ok(self.lock().state.guilds_of_user(user_id).take(limit as usize).collect())
    }

    async fn directs_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<Direct>, StoreError> {
        let mut directs: Vec<Direct> = self.lock().state.directs_of_user(user_id).collect();
        directs.retain(|direct| direct.is_open_for(user_id));
        directs.sort_by_key(|direct| (direct.is_group(), Reverse(direct.newest_activity())));
        directs.truncate(limit as usize);
        Ok(directs)
    }

    async fn have_common_guild(&self, [user, other]: [UserId; 2]) -> Result<bool, StoreError> {
        let lock = self.lock();
        let guilds: BTreeSet<GuildId> = lock.state.guilds_of_user(user).collect();
        Ok(lock.state.guilds_of_user(other).any(|guild_id| guilds.contains(&guild_id)))
    }

    async fn direct_of_pair(&self, pair: [UserId; 2]) -> Result<Option<ChannelId>, StoreError> {
        Ok(self.lock().state.direct_of_pair(pair))
    }

    async fn direct_of_pair_or_insert(&self, pair: [UserId; 2], id: ChannelId) -> Result<ChannelId, StoreError> {
        Ok(self.lock().state.direct_of_pair_or_insert(pair, id))
    }

    async fn guild_of_resource(&self, kind: ResourceKind, id: u64) -> Result<Option<GuildId>, StoreError> {
        Ok(self.lock().state.guild_of_resource(kind, id))
    }

    async fn guilds_with_ban(&self, user_id: UserId, after: GuildId, limit: u32) -> Result<Vec<GuildId>, StoreError> {
        Ok(self.lock().state.guilds_with_ban(user_id, after).take(limit as usize).collect())
    }

    async fn messages_by(
        &self,
        channel_id: ChannelId,
        author_id: UserId,
        from: MessageId,
        limit: u32,
    ) -> Result<Vec<MessageId>, StoreError> {
        Ok(self.lock().state.messages_by(channel_id, author_id, from).take(limit as usize).collect())
    }

    async fn content_of(&self, user_id: UserId, after: Place, scanned_max: u32) -> Result<ContentOf, StoreError> {
        Ok(self.lock().state.content_of(user_id, after, scanned_max as usize))
    }

    async fn attachments_in_use(&self, ids: &[Id<()>]) -> Result<BTreeSet<Id<()>>, StoreError> {
        Ok(self.lock().state.attachments_in_use(ids))
    }

    async fn with_external_ids(&self, kind: ExternalKind, texts: &[String]) -> Result<Vec<ExternalId>, StoreError> {
        Ok(self.lock().state.with_external_ids(kind, texts))
    }

    async fn external_ids(&self, kind: ExternalKind, ids: &[u64]) -> Result<Vec<ExternalId>, StoreError> {
        Ok(self.lock().state.external_ids(kind, ids))
    }

    async fn put_external_ids(&self, kind: ExternalKind, of: &[(u64, Option<String>)]) -> Result<(), StoreError> {
        self.lock().state.put_external_ids(kind, of)
    }

    async fn message_ages(&self, after: ChannelId, limit: u32) -> Result<Vec<MessageAge>, StoreError> {
        let everything = self.lock();
        let Everything { state, keep_days, .. } = &*everything;
        Ok(state.message_ages(after, keep_days).take(limit as usize).collect())
    }

    async fn expire_messages(
        &self,
        channel_id: ChannelId,
        before: MessageId,
        rows_max: u32,
    ) -> Result<Expired, StoreError> {
        let mut everything = self.lock();
        let ids = everything.state.expired(channel_id, before, rows_max as usize);
        let messages = ids.len() as u64;
        everything.state.apply(ids.into_iter().map(|id| Write::DeleteMessage(channel_id, id)).collect())?;
        Ok(Expired { messages, is_done: messages < u64::from(rows_max) })
    }

    async fn keep_days(&self, id: u64) -> Result<Option<u32>, StoreError> {
        Ok(self.lock().keep_days.get(&id).copied())
    }

    async fn set_keep_days(&self, id: u64, keep_days: Option<u32>) -> Result<(), StoreError> {
        let mut everything = self.lock();
        match keep_days {
            Some(days) => everything.keep_days.insert(id, days),
            None => everything.keep_days.remove(&id),
        };
        Ok(())
    }

    async fn events(
        &self,
        after: u64,
        upto: u64,
        filter: EventFilter,
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let everything = self.lock();
        let upto = upto.min(after.saturating_add(EVENTS_SCANNED_MAX));
        let events = everything.events.iter().filter(|event| event.position > after && event.position <= upto);
        Ok(events.filter(|event| filter.admits(event)).take(limit as usize).cloned().collect())
    }

    async fn event_bounds(&self) -> Result<EventBounds, StoreError> {
        Ok(self.lock().event_bounds())
    }

    async fn prune_events(&self, before: Timestamp, rows_max: u64, slice: u32) -> Result<u64, StoreError> {
        let mut everything = self.lock();
        let oldest: Vec<(u64, i64)> =
            everything.events.iter().take(slice as usize).map(|event| (event.position, event.at.0)).collect();
        let upto = prune_to(everything.event_bounds(), &oldest, before, rows_max);
        everything.pruned = everything.pruned.max(upto);
        let before = everything.events.len();
        everything.events.retain(|event| event.position > upto);
        Ok((before - everything.events.len()) as u64)
    }

    async fn change_read_states(&self, changes: &[ReadStateChange]) -> Result<(), StoreError> {
        let mut everything = self.lock();
        changes.iter().take(READ_CHANGES_MAX).for_each(|change| everything.state.change_read_state(change));
        Ok(())
    }

    async fn read_states(&self, user_id: UserId, limit: u32) -> Result<Vec<ReadState>, StoreError> {
        Ok(self.lock().state.read_states(user_id).take(limit as usize).copied().collect())
    }

    async fn trim_read_states(&self, user_id: UserId, keep: u32) -> Result<(), StoreError> {
        self.lock().state.trim_read_states(user_id, keep as usize);
        Ok(())
    }

    async fn unread_mentions(&self, user_id: UserId) -> Result<Vec<UnreadMention>, StoreError> {
        Ok(self.lock().state.unread_mentions(user_id))
    }

    async fn unread_directs(
        &self,
        user_id: UserId,
        spans: &[DirectSpan],
        each_max: u32,
    ) -> Result<Vec<u32>, StoreError> {
        let lock = self.lock();
        let spans = spans.iter().take(DIRECTS_ASKED_MAX);
        Ok(spans.map(|span| lock.state.unread_direct(user_id, span, each_max as usize)).collect())
    }

    async fn index_messages(&self, _: u32) -> Result<SearchIndex, StoreError> {
        Ok(SearchIndex::Current)
    }

    async fn search_messages(&self, search: &MessageSearch) -> Result<SearchPage, StoreError> {
        Ok(self.lock().state.search_messages(search))
    }

    async fn pictures_in_use(&self, owners: &[PictureOwner]) -> Result<Vec<PictureNames>, StoreError> {
        let everything = self.lock();
        let owners = owners.iter().take(PICTURE_OWNERS_ASKED_MAX);
        Ok(owners.map(|owner| everything.state.pictures_in_use(*owner)).collect())
    }

    async fn put_token(&self, hash: TokenHash, record: TokenRecord) -> Result<(), StoreError> {
        self.lock().tokens.insert(hash, record);
        Ok(())
    }

    async fn token(&self, hash: TokenHash) -> Result<Option<TokenRecord>, StoreError> {
        Ok(self.lock().tokens.get(&hash).cloned())
    }

    async fn revoke_token(&self, hash: TokenHash) -> Result<bool, StoreError> {
        Ok(self.lock().tokens.remove(&hash).is_some())
    }

    async fn tokens_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<(TokenHash, TokenRecord)>, StoreError> {
        let all = self.lock();
        let of_user = all.tokens.iter().filter(|(_, record)| record.user_id == user_id);
        Ok(of_user.take(limit as usize).map(|(hash, record)| (*hash, record.clone())).collect())
    }

    async fn put_record(&self, kind: &'static str, id: &[u8], data: &[u8]) -> Result<(), StoreError> {
        self.lock().records.insert((kind, id.to_vec()), data.to_vec());
        Ok(())
    }

    async fn record(&self, kind: &'static str, id: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.lock().records.get(&(kind, id.to_vec())).cloned())
    }

    async fn records(&self, kind: &'static str, after: &[u8], limit: u32) -> Result<Vec<IdAndData>, StoreError> {
        let all = self.lock();
        let of_kind = all.records.iter().filter(|((of, id), _)| *of == kind && id.as_slice() > after);
        Ok(of_kind.take(limit as usize).map(|((_, id), data)| (id.clone(), data.clone())).collect())
    }

    async fn delete_record(&self, kind: &'static str, id: &[u8]) -> Result<bool, StoreError> {
        Ok(self.lock().records.remove(&(kind, id.to_vec())).is_some())
    }

    async fn swap_record(
        &self,
        kind: &'static str,
        id: &[u8],
        before: Option<&[u8]>,
        after: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let (mut all, key) = (self.lock(), (kind, id.to_vec()));
        if all.records.get(&key).map(Vec::as_slice) != before {
            return Ok(false);
        }
        match after {
            Some(after) => all.records.insert(key, after.to_vec()),
            None => all.records.remove(&key),
        };
        Ok(true)
    }

    async fn swap_records(&self, swaps: &[RecordSwap]) -> Result<bool, StoreError> {
        let mut all = self.lock();
        let swaps = || swaps.iter().take(RECORD_SWAPS_MAX);
        let is_as_expected =
            |RecordSwap { kind, id, before, .. }: &RecordSwap| all.records.get(&(*kind, id.clone())) == before.as_ref();
        if !swaps().all(is_as_expected) {
            return Ok(false);
        }
        for RecordSwap { kind, id, after, .. } in swaps() {
            match after {
                Some(after) => all.records.insert((kind, id.clone()), after.clone()),
                None => all.records.remove(&(*kind, id.clone())),
            };
        }
        Ok(true)
    }

    async fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.lock().settings.get(name).cloned())
    }

    async fn setting_or_insert(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        Ok(self.lock().settings.entry(name.to_owned()).or_insert_with(|| value.to_vec()).clone())
    }

    async fn largest_id(&self) -> Result<u64, StoreError> {
        Ok(self.lock().state.largest_id())
    }
}
