//! Timed store: the node's store, with the wall time of each operation.
//!
//! Owns        one account for all callers, with a message type per method of `Store`.
//! Invariants  an operation counts when its future completes, whatever its result; one that is dropped does not count.
//!             The time includes waiting for the store's thread, so operations that overlap add up to more than a core.
//! Not here    the operations.

use async_trait::async_trait;
use guildhall_accounting::LoopAccount;
use guildhall_guild::{GuildRecord, MessageRecord, Write};
use guildhall_model::{ChannelId, Direct, GuildId, Id, MessageId, ReactionEmoji, ResourceKind, User, UserId};
use guildhall_store::{
    ContentOf, Expired, ExternalId, ExternalKind, GuildEpoch, IdAndData, MessageAge, Page, PictureNames, PictureOwner,
    Place, Store, StoreError, TokenHash, TokenRecord,
};
use std::{collections::BTreeSet, sync::Arc, time::Instant};

/// A store and its account.
pub(crate) struct TimedStore {
    store: Arc<dyn Store>,
    account: Arc<LoopAccount>,
}

impl TimedStore {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, account: Arc::new(LoopAccount::new("store", 0, OPERATIONS.iter().copied())) }
    }

    pub(crate) fn account(&self) -> Arc<LoopAccount> {
        self.account.clone()
    }
}

macro_rules! timed {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        const OPERATIONS: &[&str] = &[$(stringify!($name)),*];

        #[expect(non_camel_case_types, reason = "the variants are the methods' names")]
        enum Operation { $($name),* }

        #[async_trait]
        impl Store for TimedStore {
            $(async fn $name(&self, $($arg: $type),*) -> Result<$result, StoreError> {
                let begun = Instant::now();
                let result = self.store.$name($($arg),*).await;
                self.account.handled_shared(Operation::$name as usize, begun.elapsed().as_nanos() as u64);
                result
            })*

            fn is_fenced(&self) -> bool {
                self.store.is_fenced()
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
    commit(writes: Vec<Write>) -> ();
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
    users(after: UserId, limit: u32) -> Vec<Arc<User>>;
    guilds_of_user(user_id: UserId, limit: u32) -> Vec<GuildId>;
    directs_of_user(user_id: UserId, limit: u32) -> Vec<Direct>;
    have_common_guild(users: [UserId; 2]) -> bool;
    direct_of_pair(pair: [UserId; 2]) -> Option<ChannelId>;
    direct_of_pair_or_insert(pair: [UserId; 2], id: ChannelId) -> ChannelId;
    guild_of_resource(kind: ResourceKind, id: u64) -> Option<GuildId>;
    guilds_with_ban(user_id: UserId, after: GuildId, limit: u32) -> Vec<GuildId>;
    messages_by(channel_id: ChannelId, author_id: UserId, from: MessageId, limit: u32) -> Vec<MessageId>;
    content_of(user_id: UserId, after: Place, scanned_max: u32) -> ContentOf;
    attachments_in_use(ids: &[Id<()>]) -> BTreeSet<Id<()>>;
    with_external_ids(kind: ExternalKind, texts: &[String]) -> Vec<ExternalId>;
    external_ids(kind: ExternalKind, ids: &[u64]) -> Vec<ExternalId>;
    put_external_ids(kind: ExternalKind, of: &[(u64, Option<String>)]) -> ();
    message_ages(after: ChannelId, limit: u32) -> Vec<MessageAge>;
    expire_messages(channel_id: ChannelId, before: MessageId, rows_max: u32) -> Expired;
    keep_days(id: u64) -> Option<u32>;
    set_keep_days(id: u64, keep_days: Option<u32>) -> ();
    pictures_in_use(owners: &[PictureOwner]) -> Vec<PictureNames>;
    put_token(hash: TokenHash, record: TokenRecord) -> ();
    token(hash: TokenHash) -> Option<TokenRecord>;
    revoke_token(hash: TokenHash) -> bool;
    tokens_of_user(user_id: UserId, limit: u32) -> Vec<(TokenHash, TokenRecord)>;
    put_record(kind: &'static str, id: &[u8], data: &[u8]) -> ();
    record(kind: &'static str, id: &[u8]) -> Option<Vec<u8>>;
    records(kind: &'static str, after: &[u8], limit: u32) -> Vec<IdAndData>;
    delete_record(kind: &'static str, id: &[u8]) -> bool;
    setting(name: &str) -> Option<Vec<u8>>;
    setting_or_insert(name: &str, value: &[u8]) -> Vec<u8>;
    largest_id() -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_store::MemoryStore;

    #[tokio::test]
    async fn operations_are_counted_by_name() {
        let store = TimedStore::new(Arc::new(MemoryStore::new()));
        store.setting_or_insert("name", b"value").await.unwrap();
        assert_eq!(store.setting("name").await.unwrap().as_deref(), Some(&b"value"[..]));
        assert_eq!(store.setting("other").await.unwrap(), None);
        let counts: Vec<_> =
            store.account().report().kinds.iter().map(|kind| (kind.name.clone(), kind.times.count())).collect();
        assert_eq!(counts, [("setting".to_owned(), 2), ("setting_or_insert".to_owned(), 1)]);
    }
}
