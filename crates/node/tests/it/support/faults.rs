//! A store with delays and failures on demand.

use async_trait::async_trait;
use guildhall_guild::{GuildRecord, MessageRecord, Write};
use guildhall_model::{
    ChannelId, Direct, GuildId, Id, MessageId, ReactionEmoji, ReadState, ResourceKind, UnreadMention, User, UserId,
};
use guildhall_stdx::Timestamp;
use guildhall_store::{
    ContentOf, DirectSpan, EventBounds, EventFilter, Expired, ExternalId, ExternalKind, GuildEpoch, MessageAge,
    MessageSearch, Page, PictureNames, PictureOwner, Place, ReadStateChange, RecordSwap, SearchIndex, SearchPage,
    Store, StoreError, StoredEvent, TokenHash, TokenRecord, UserChange, UserVersion,
};
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::watch;

/// Faults to inject.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    pub hold_commits: bool,
    pub hold_loads: bool,
    pub hold_messages: bool,
    pub hold_largest_id: bool,
    /// This many fail, then commits succeed again.
    pub failing_commits: u32,
    /// This many report a failure, and are stored.
    pub lying_commits: u32,
    pub failing_loads: u32,
    pub failing_messages: u32,
    pub failing_tokens: bool,
    /// The disk is: nothing can be written.
    pub full: bool,
}

/// Numbers of requests so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub commits_begun: u32,
    /// Writes of each commit that took place.
    pub committed: Vec<usize>,
    pub loads_begun: u32,
    pub messages_begun: u32,
    pub largest_ids_begun: u32,
    pub users: u32,
    pub channels: u32,
    pub tokens: u32,
}

pub struct FaultStore {
    inner: Arc<dyn Store>,
    faults: watch::Sender<Faults>,
    counts: watch::Sender<Counts>,
}

impl FaultStore {
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, faults: watch::Sender::default(), counts: watch::Sender::default() }
    }

    pub fn inner(&self) -> Arc<dyn Store> {
        self.inner.clone()
    }

    pub fn set(&self, change: impl FnOnce(&mut Faults)) {
        self.faults.send_modify(change);
    }

    pub fn counts(&self) -> Counts {
        self.counts.borrow().clone()
    }

    /// Waits for a state of the counters.
    #[track_caller]
    pub fn wait(&self, until: impl FnMut(&Counts) -> bool) -> impl Future<Output = ()> {
        let mut counts = self.counts.subscribe();
        let waiting = async move { drop(counts.wait_for(until).await.expect("the store lives")) };
        super::bounded_or(waiting, || format!("{:?}", self.counts()))
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(change);
    }

    async fn pass(&self, held: impl Fn(&Faults) -> bool) {
        self.faults.subscribe().wait_for(|faults| !held(faults)).await.expect("the store lives");
    }

    fn need_room(&self) -> Result<(), StoreError> {
        if self.faults.borrow().full { Err(StoreError::Full(None)) } else { Ok(()) }
    }

    /// Whether a call is one of those that fail.
    fn takes(&self, counter: impl Fn(&mut Faults) -> &mut u32) -> bool {
        self.faults.send_if_modified(|faults| {
            let left = counter(faults);
            let fails = *left > 0;
            *left -= u32::from(fails);
            fails
        })
    }

    async fn commit_by(
        &self,
        writes_count: usize,
        commit: impl Future<Output = Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        self.count(|counts| counts.commits_begun += 1);
        self.pass(|faults| faults.hold_commits).await;
        self.need_room()?;
        if self.takes(|faults| &mut faults.failing_commits) {
            return Err(StoreError::Closed);
        }
        commit.await?;
        self.count(|counts| counts.committed.push(writes_count));
        if self.takes(|faults| &mut faults.lying_commits) { Err(StoreError::Closed) } else { Ok(()) }
    }
}

#[async_trait]
impl Store for FaultStore {
    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        self.commit_by(writes.len(), self.inner.commit(writes)).await
    }

    async fn claim_guild(&self, guild_id: GuildId) -> Result<GuildEpoch, StoreError> {
        self.inner.claim_guild(guild_id).await
    }

    async fn commit_fenced(&self, fence: (GuildId, GuildEpoch), writes: Vec<Write>) -> Result<(), StoreError> {
        self.commit_by(writes.len(), self.inner.commit_fenced(fence, writes)).await
    }

    async fn load_guild(&self, guild_id: GuildId) -> Result<Option<GuildRecord>, StoreError> {
        let found = self.inner.load_guild(guild_id).await?;
        // Guilds that do not exist are the barrier's.
        if found.is_some() {
            self.count(|counts| counts.loads_begun += 1);
            self.pass(|faults| faults.hold_loads).await;
            if self.takes(|faults| &mut faults.failing_loads) {
                return Err(StoreError::Closed);
            }
        }
        // The read follows the delay, so that it includes writes of that time.
        self.inner.load_guild(guild_id).await
    }

    async fn guild_ids(&self, after: GuildId, limit: u32) -> Result<Vec<GuildId>, StoreError> {
        self.inner.guild_ids(after, limit).await
    }

    async fn guild_of_channel(&self, channel_id: ChannelId) -> Result<Option<GuildId>, StoreError> {
        self.count(|counts| counts.channels += 1);
        self.inner.guild_of_channel(channel_id).await
    }

    async fn message(&self, channel_id: ChannelId, message_id: MessageId) -> Result<Option<MessageRecord>, StoreError> {
        self.count(|counts| counts.messages_begun += 1);
        self.pass(|faults| faults.hold_messages).await;
        if self.takes(|faults| &mut faults.failing_messages) {
            return Err(StoreError::Closed);
        }
        self.inner.message(channel_id, message_id).await
    }

    async fn messages(&self, channel_id: ChannelId, page: Page, limit: u32) -> Result<Vec<MessageRecord>, StoreError> {
        self.inner.messages(channel_id, page, limit).await
    }

    async fn reaction_users(
        &self,
        channel_id: ChannelId,
        message_id: MessageId,
        emoji: &ReactionEmoji,
        after: UserId,
        limit: u32,
    ) -> Result<Vec<User>, StoreError> {
        self.inner.reaction_users(channel_id, message_id, emoji, after, limit).await
    }

    async fn user(&self, user_id: UserId) -> Result<Option<Arc<User>>, StoreError> {
        self.count(|counts| counts.users += 1);
        self.inner.user(user_id).await
    }

    async fn user_versions(&self, user_ids: &[UserId]) -> Result<Vec<(Arc<User>, UserVersion)>, StoreError> {
        self.inner.user_versions(user_ids).await
    }

    async fn change_users(&self, changes: &[UserChange]) -> Result<u64, StoreError> {
        let mut changed = 0;
        let change = async { self.inner.change_users(changes).await.map(|count| changed = count) };
        self.commit_by(changes.len(), change).await?;
        Ok(changed)
    }

    async fn users(&self, after: UserId, limit: u32) -> Result<Vec<Arc<User>>, StoreError> {
        self.inner.users(after, limit).await
    }

    async fn users_named(&self, username: &str, limit: u32) -> Result<Vec<Arc<User>>, StoreError> {
        self.inner.users_named(username, limit).await
    }

    async fn guilds_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<GuildId>, StoreError> {
        self.inner.guilds_of_user(user_id, limit).await
    }

    async fn directs_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<Direct>, StoreError> {
        self.inner.directs_of_user(user_id, limit).await
    }

    async fn have_common_guild(&self, users: [UserId; 2]) -> Result<bool, StoreError> {
        self.inner.have_common_guild(users).await
    }

    async fn direct_of_pair(&self, pair: [UserId; 2]) -> Result<Option<ChannelId>, StoreError> {
        self.inner.direct_of_pair(pair).await
    }

    async fn direct_of_pair_or_insert(&self, pair: [UserId; 2], id: ChannelId) -> Result<ChannelId, StoreError> {
        self.inner.direct_of_pair_or_insert(pair, id).await
    }

    async fn guild_of_resource(&self, kind: ResourceKind, id: u64) -> Result<Option<GuildId>, StoreError> {
        self.inner.guild_of_resource(kind, id).await
    }

    async fn guilds_with_ban(&self, user_id: UserId, after: GuildId, limit: u32) -> Result<Vec<GuildId>, StoreError> {
        self.inner.guilds_with_ban(user_id, after, limit).await
    }

    async fn messages_by(
        &self,
        channel_id: ChannelId,
        author_id: UserId,
        from: MessageId,
        limit: u32,
    ) -> Result<Vec<MessageId>, StoreError> {
        self.inner.messages_by(channel_id, author_id, from, limit).await
    }

    async fn content_of(&self, user_id: UserId, after: Place, scanned_max: u32) -> Result<ContentOf, StoreError> {
        self.inner.content_of(user_id, after, scanned_max).await
    }

    async fn with_external_ids(&self, kind: ExternalKind, texts: &[String]) -> Result<Vec<ExternalId>, StoreError> {
        self.inner.with_external_ids(kind, texts).await
    }

    async fn external_ids(&self, kind: ExternalKind, ids: &[u64]) -> Result<Vec<ExternalId>, StoreError> {
        self.inner.external_ids(kind, ids).await
    }

    async fn put_external_ids(&self, kind: ExternalKind, of: &[(u64, Option<String>)]) -> Result<(), StoreError> {
        self.inner.put_external_ids(kind, of).await
    }

    async fn attachments_in_use(&self, ids: &[Id<()>]) -> Result<BTreeSet<Id<()>>, StoreError> {
        self.inner.attachments_in_use(ids).await
    }

    async fn message_ages(&self, after: ChannelId, limit: u32) -> Result<Vec<MessageAge>, StoreError> {
        self.inner.message_ages(after, limit).await
    }

    async fn expire_messages(
        &self,
        channel_id: ChannelId,
        before: MessageId,
        rows_max: u32,
    ) -> Result<Expired, StoreError> {
        self.inner.expire_messages(channel_id, before, rows_max).await
    }

    async fn keep_days(&self, id: u64) -> Result<Option<u32>, StoreError> {
        self.inner.keep_days(id).await
    }

    async fn set_keep_days(&self, id: u64, keep_days: Option<u32>) -> Result<(), StoreError> {
        self.inner.set_keep_days(id, keep_days).await
    }

    async fn events(
        &self,
        after: u64,
        upto: u64,
        filter: EventFilter,
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.inner.events(after, upto, filter, limit).await
    }

    async fn event_bounds(&self) -> Result<EventBounds, StoreError> {
        self.inner.event_bounds().await
    }

    async fn prune_events(&self, before: Timestamp, rows_max: u64, slice: u32) -> Result<u64, StoreError> {
        self.inner.prune_events(before, rows_max, slice).await
    }

    async fn change_read_states(&self, changes: &[ReadStateChange]) -> Result<(), StoreError> {
        self.need_room()?;
        self.inner.change_read_states(changes).await
    }

    async fn read_states(&self, user_id: UserId, limit: u32) -> Result<Vec<ReadState>, StoreError> {
        self.inner.read_states(user_id, limit).await
    }

    async fn trim_read_states(&self, user_id: UserId, keep: u32) -> Result<(), StoreError> {
        self.inner.trim_read_states(user_id, keep).await
    }

    async fn unread_mentions(&self, user_id: UserId) -> Result<Vec<UnreadMention>, StoreError> {
        self.inner.unread_mentions(user_id).await
    }

    async fn unread_directs(
        &self,
        user_id: UserId,
        spans: &[DirectSpan],
        each_max: u32,
    ) -> Result<Vec<u32>, StoreError> {
        self.inner.unread_directs(user_id, spans, each_max).await
    }

    async fn index_messages(&self, limit: u32) -> Result<SearchIndex, StoreError> {
        self.inner.index_messages(limit).await
    }

    async fn search_messages(&self, search: &MessageSearch) -> Result<SearchPage, StoreError> {
        self.inner.search_messages(search).await
    }

    async fn pictures_in_use(&self, owners: &[PictureOwner]) -> Result<Vec<PictureNames>, StoreError> {
        self.inner.pictures_in_use(owners).await
    }

    async fn put_token(&self, hash: TokenHash, record: TokenRecord) -> Result<(), StoreError> {
        self.inner.put_token(hash, record).await
    }

    async fn token(&self, hash: TokenHash) -> Result<Option<TokenRecord>, StoreError> {
        self.count(|counts| counts.tokens += 1);
        if self.faults.borrow().failing_tokens {
            return Err(StoreError::Closed);
        }
        self.inner.token(hash).await
    }

    async fn revoke_token(&self, hash: TokenHash) -> Result<bool, StoreError> {
        self.inner.revoke_token(hash).await
    }

    async fn tokens_of_user(&self, user_id: UserId, limit: u32) -> Result<Vec<(TokenHash, TokenRecord)>, StoreError> {
        self.inner.tokens_of_user(user_id, limit).await
    }

    async fn put_record(&self, kind: &'static str, id: &[u8], data: &[u8]) -> Result<(), StoreError> {
        self.need_room()?;
        self.inner.put_record(kind, id, data).await
    }

    async fn record(&self, kind: &'static str, id: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.record(kind, id).await
    }

    async fn records(
        &self,
        kind: &'static str,
        after: &[u8],
        limit: u32,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        self.inner.records(kind, after, limit).await
    }

    async fn delete_record(&self, kind: &'static str, id: &[u8]) -> Result<bool, StoreError> {
        self.inner.delete_record(kind, id).await
    }

    async fn swap_record(
        &self,
        kind: &'static str,
        id: &[u8],
        before: Option<&[u8]>,
        after: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        self.need_room()?;
        self.inner.swap_record(kind, id, before, after).await
    }

    async fn swap_records(&self, swaps: &[RecordSwap]) -> Result<bool, StoreError> {
        self.need_room()?;
        self.inner.swap_records(swaps).await
    }

    async fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.setting(name).await
    }

    async fn setting_or_insert(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.inner.setting_or_insert(name, value).await
    }

    async fn largest_id(&self) -> Result<u64, StoreError> {
        self.count(|counts| counts.largest_ids_begun += 1);
        self.pass(|faults| faults.hold_largest_id).await;
        self.inner.largest_id().await
    }
}
