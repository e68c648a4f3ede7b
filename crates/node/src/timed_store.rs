//! Timed store: the node's store, with the wall time of each operation, behind the write gate.
//!
//! Owns        one account for all callers, with a message type per method of `Store`.
//! Invariants  an operation counts when its future completes, whatever its result; one that is dropped does not count.
//!             The time includes waiting for the store's thread, so operations that overlap add up to more than a core.
//!             Every write but those of guilds passes the gate (W2 of `writes`).
//! Not here    the operations.

use crate::writes::{WriteGate, adds_data, adds_record};
use async_trait::async_trait;
use guildhall_accounting::LoopAccount;
use guildhall_guild::{GuildRecord, MessageRecord, Write};
use guildhall_model::{
    ChannelId, Direct, GuildId, Id, MessageId, ReactionEmoji, ReadState, ResourceKind, UnreadMention, User, UserId,
};
use guildhall_stdx::Timestamp;
use guildhall_store::{
    ContentOf, DirectSpan, EventBounds, EventFilter, Expired, ExternalId, ExternalKind, GuildEpoch, IdAndData,
    MessageAge, MessageSearch, Page, PictureNames, PictureOwner, Place, ReadStateChange, RecordSwap, SearchIndex,
    SearchPage, SignIn, Store, StoreError, StoredEvent, TokenHash, TokenRecord, UserChange, UserVersion,
};
use std::{collections::BTreeSet, sync::Arc, time::Instant};
use tokio::runtime::Handle;

/// A store, its account and its gate.
pub(crate) struct TimedStore {
    store: Arc<dyn Store>,
    account: Arc<LoopAccount>,
    gate: Arc<WriteGate>,
}

impl TimedStore {
    pub(crate) fn new(store: Arc<dyn Store>, gate: Arc<WriteGate>) -> Self {
        Self { store, account: Arc::new(LoopAccount::new("store", 0, OPERATIONS.iter().copied())), gate }
    }

    pub(crate) fn account(&self) -> Arc<LoopAccount> {
        self.account.clone()
    }
}

impl TimedStore {
    /// A write found the disk full before the watch of the disk did.
    fn note<T>(&self, result: &Result<T, StoreError>) {
        if let Err(error) = result
            && error.is_full()
        {
            self.gate.failed(&Handle::current(), &self.store, error);
        }
    }
}

/// `adds`: whether a full disk refuses this write.
macro_rules! timed {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty $(, adds $adds:expr)?;)*) => {
        const OPERATIONS: &[&str] = &[$(stringify!($name)),*];

        #[expect(non_camel_case_types, reason = "the variants are the methods' names")]
        enum Operation { $($name),* }

        #[async_trait]
        impl Store for TimedStore {
            $(async fn $name(&self, $($arg: $type),*) -> Result<$result, StoreError> {
                $(if $adds {
                    self.gate.check()?;
                })?
                let started = Instant::now();
                let result = self.store.$name($($arg),*).await;
                self.note(&result);
                self.account.handled_shared(Operation::$name as usize, started.elapsed().as_nanos() as u64);
                result
            })*

            fn is_fenced(&self) -> bool {
                self.store.is_fenced()
            }

            fn is_away(&self) -> bool {
                self.store.is_away()
            }

            fn has_ended(&self) -> bool {
                self.store.has_ended()
            }

            async fn close(&self) {
                self.store.close().await;
            }
        }
    };
}

timed! {
    commit(writes: Vec<Write>) -> (), adds adds_data(&writes);
    claim_guild(guild_id: GuildId) -> GuildEpoch;
    commit_fenced(fence: (GuildId, GuildEpoch), writes: Vec<Write>) -> ();
    load_guild(guild_id: GuildId) -> Option<GuildRecord>;
    guild_ids(after: GuildId, limit: u32) -> Vec<GuildId>;
    guild_of_channel(channel_id: ChannelId) -> Option<GuildId>;
    message(channel_id: ChannelId, message_id: MessageId) -> Option<MessageRecord>;
    messages(channel_id: ChannelId, page: Page, limit: u32) -> Vec<MessageRecord>;
    reaction_users(channel_id: ChannelId, message_id: MessageId, emoji: &ReactionEmoji, after: UserId, limit: u32)
        -> Vec<User>;
    user(user_id: UserId) -> Option<Arc<User>>;
    user_versions(user_ids: &[UserId]) -> Vec<(Arc<User>, UserVersion)>;
    change_users(changes: &[UserChange]) -> u64, adds changes.iter().any(|change| !change.user.is_deleted());
    users(after: UserId, limit: u32) -> Vec<Arc<User>>;
    users_named(username: &str, limit: u32) -> Vec<Arc<User>>;
    guilds_of_user(user_id: UserId, limit: u32) -> Vec<GuildId>;
    directs_of_user(user_id: UserId, limit: u32) -> Vec<Direct>;
    have_common_guild(users: [UserId; 2]) -> bool;
    direct_of_pair(pair: [UserId; 2]) -> Option<ChannelId>;
    direct_of_pair_or_insert(pair: [UserId; 2], id: ChannelId) -> ChannelId, adds true;
    guild_of_resource(kind: ResourceKind, id: u64) -> Option<GuildId>;
    guilds_with_ban(user_id: UserId, after: GuildId, limit: u32) -> Vec<GuildId>;
    messages_by(channel_id: ChannelId, author_id: UserId, from: MessageId, limit: u32) -> Vec<MessageId>;
    content_of(user_id: UserId, after: Place, scanned_max: u32) -> ContentOf;
    attachments_in_use(ids: &[Id<()>]) -> BTreeSet<Id<()>>;
    with_external_ids(kind: ExternalKind, texts: &[String]) -> Vec<ExternalId>;
    external_ids(kind: ExternalKind, ids: &[u64]) -> Vec<ExternalId>;
    put_external_ids(kind: ExternalKind, of: &[(u64, Option<String>)]) -> (), adds of.iter().any(|(_, id)| id.is_some());
    message_ages(after: ChannelId, limit: u32) -> Vec<MessageAge>;
    expire_messages(channel_id: ChannelId, before: MessageId, rows_max: u32) -> Expired;
    keep_days(id: u64) -> Option<u32>;
    set_keep_days(id: u64, keep_days: Option<u32>) -> (), adds keep_days.is_some();
    events(after: u64, upto: u64, filter: EventFilter, limit: u32) -> Vec<StoredEvent>;
    event_bounds() -> EventBounds;
    prune_events(before: Timestamp, rows_max: u64, slice: u32) -> u64;
    change_read_states(changes: &[ReadStateChange]) -> (), adds true;
    read_states(user_id: UserId, limit: u32) -> Vec<ReadState>;
    trim_read_states(user_id: UserId, keep: u32) -> ();
    unread_mentions(user_id: UserId) -> Vec<UnreadMention>;
    unread_directs(user_id: UserId, spans: &[DirectSpan], each_max: u32) -> Vec<u32>;
    index_messages(limit: u32) -> SearchIndex, adds true;
    search_messages(search: &MessageSearch) -> SearchPage;
    pictures_in_use(owners: &[PictureOwner]) -> Vec<PictureNames>;
    put_token(hash: TokenHash, record: TokenRecord) -> (), adds true;
    token(hash: TokenHash) -> Option<TokenRecord>;
    sign_ins(hashes: &[TokenHash]) -> Vec<SignIn>;
    revoke_token(hash: TokenHash) -> bool;
    tokens_of_user(user_id: UserId, limit: u32) -> Vec<(TokenHash, TokenRecord)>;
    put_record(kind: &'static str, id: &[u8], data: &[u8]) -> (), adds adds_record(kind);
    record(kind: &'static str, id: &[u8]) -> Option<Vec<u8>>;
    records(kind: &'static str, after: &[u8], limit: u32) -> Vec<IdAndData>;
    delete_record(kind: &'static str, id: &[u8]) -> bool;
    swap_record(kind: &'static str, id: &[u8], before: Option<&[u8]>, after: Option<&[u8]>) -> bool,
        adds after.is_some() && adds_record(kind);
    swap_records(swaps: &[RecordSwap]) -> bool,
        adds swaps.iter().any(|swap| swap.after.is_some() && adds_record(swap.kind));
    setting(name: &str) -> Option<Vec<u8>>;
    setting_or_insert(name: &str, value: &[u8]) -> Vec<u8>, adds true;
    largest_id() -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_store::MemoryStore;

    /// W2, for every operation that writes.
    #[tokio::test]
    async fn s21_3_a_full_disk_refuses_what_adds_and_takes_what_removes() {
        let gate = Arc::new(WriteGate::default());
        let store = TimedStore::new(Arc::new(MemoryStore::new()), gate.clone());
        let (user_id, hash) = (UserId::new(7), TokenHash([7; 32]));
        let named = |id, name| (id, Some::<String>(name));
        let token = TokenRecord { user_id, created_at: guildhall_stdx::Timestamp(1) };
        let user = Arc::new(User::new(user_id, "ana"));
        let gone = Arc::new(User::deleted(user_id, false));
        let swap = |kind, after: Option<&str>| RecordSwap {
            kind,
            id: b"1".to_vec(),
            before: None,
            after: after.map(|text| text.as_bytes().to_vec()),
        };
        store.commit(vec![Write::PutUser(user.clone())]).await.unwrap();
        gate.hold(true);

        let kind = ExternalKind::User;
        let refused = [
            ("account", store.commit(vec![Write::PutUser(user)]).await.err()),
            ("pair", store.direct_of_pair_or_insert([user_id, UserId::new(8)], ChannelId::new(9)).await.err()),
            ("external id", store.put_external_ids(kind, &[(1, None), named(7, "a".to_owned())]).await.err()),
            ("days", store.set_keep_days(7, Some(3)).await.err()),
            ("token", store.put_token(hash, token.clone()).await.err()),
            ("key", store.put_record("admin_key", b"1", b"{}").await.err()),
            ("commands", store.put_record("commands", b"1", b"{}").await.err()),
            ("subject", store.put_record("sign_on_subject", b"1", b"1").await.err()),
            ("any record", store.put_record("of tomorrow", b"1", b"1").await.err()),
            ("relationship", store.swap_records(&[swap("relationship", Some("{}"))]).await.err()),
            ("setting", store.setting_or_insert("name", b"value").await.err()),
        ];
        for (what, error) in refused {
            assert!(error.is_some_and(|error| error.is_full()), "{what} was written");
        }
        store.commit(vec![Write::PutUser(gone), Write::DeleteGuild(GuildId::new(1))]).await.unwrap();
        store.put_external_ids(kind, &[(7, None)]).await.unwrap();
        store.set_keep_days(7, None).await.unwrap();
        store.revoke_token(hash).await.unwrap();
        store.put_record(crate::tokens::FLOOR, b"1", b"1").await.unwrap();
        store.put_record(crate::tokens::REVOKED, b"1", b"1").await.unwrap();
        store.put_record(crate::revocations::LOG, b"1", b"1").await.unwrap();
        store.put_record("job", b"1", b"1").await.unwrap();
        store.delete_record("admin_key", b"1").await.unwrap();
        let removal = [swap("relationship", None), swap(crate::relationships::NEWS, Some("{}"))];
        store.swap_records(&removal).await.unwrap();

        gate.hold(false);
        store.put_token(hash, token).await.unwrap();
    }

    #[tokio::test]
    async fn operations_are_counted_by_name() {
        let store = TimedStore::new(Arc::new(MemoryStore::new()), Arc::default());
        store.setting_or_insert("name", b"value").await.unwrap();
        assert_eq!(store.setting("name").await.unwrap().as_deref(), Some(&b"value"[..]));
        assert_eq!(store.setting("other").await.unwrap(), None);
        let counts: Vec<_> =
            store.account().report().kinds.iter().map(|kind| (kind.name.clone(), kind.times.count())).collect();
        assert_eq!(counts, [("setting".to_owned(), 2), ("setting_or_insert".to_owned(), 1)]);
    }
}
