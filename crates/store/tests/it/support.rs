//! Support: objects to store, and stores.

use guildhall_guild::Write;
use guildhall_model::{Channel, ChannelType, Guild, GuildId, Id, Member, Message, ReactionEmoji, Role, User, UserId};
use guildhall_stdx::Timestamp;
use guildhall_store::{SqliteOptions, SqliteStore, Store, StoreError, Synchronous};
use std::{
    fmt::Debug,
    fs,
    panic::Location,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

/// No ids, where the compiler wants to know of what.
pub const NONE: [u64; 0] = [];
/// The largest id there is.
pub const ID_MAX: u64 = u64::MAX >> 1;

/// Longer than anything takes that a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for what must happen.
#[track_caller]
pub fn within<F: Future>(what: &str, waited_for: F) -> impl Future<Output = F::Output> {
    let (what, at) = (what.to_owned(), Location::caller());
    async move {
        let happened = tokio::time::timeout(PATIENCE, waited_for).await;
        happened.unwrap_or_else(|_| panic!("{PATIENCE:?} without {what}, for which {at} waits"))
    }
}

/// Waits for a state; the panic shows what there is `instead`.
pub async fn until<T: Debug>(what: &str, mut state: impl AsyncFnMut() -> Result<(), T>) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(instead) = state().await {
        assert!(Instant::now() < deadline, "{PATIENCE:?} without {what}: {instead:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A directory that goes with its owner.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("store-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path); // of an earlier process with this id
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Options for tests that are not about the disk.
pub fn quick() -> SqliteOptions {
    SqliteOptions { synchronous: Synchronous::Normal, ..SqliteOptions::default() }
}

pub async fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, quick()).await.unwrap()
}

pub fn id<T>(n: u64) -> Id<T> {
    Id::new(n)
}

pub fn user(n: u64) -> Arc<User> {
    Arc::new(User::new(id(n), &format!("user {n}")))
}

pub fn member(n: u64) -> Arc<Member> {
    Arc::new(Member::new(user(n), Timestamp(1_700_000_000_000 + (n % 1000) as i64)))
}

pub fn guild(n: u64) -> Arc<Guild> {
    Arc::new(Guild::new(id(n), &format!("guild {n}"), id(1)))
}

pub fn channel(guild_id: u64, n: u64) -> Arc<Channel> {
    Arc::new(Channel::new(id(n), id(guild_id), ChannelType::Text, &format!("channel {n}")))
}

pub fn role(n: u64) -> Arc<Role> {
    let json = format!(r#"{{"id":"{n}","name":"role {n}","permissions":"{n}"}}"#);
    Arc::new(serde_json::from_str(&json).unwrap())
}

pub fn message(guild_id: u64, channel_id: u64, n: u64) -> Message {
    Message { content: format!("message {n}"), ..Message::new(id(n), id(channel_id), GuildId::new(guild_id), user(1)) }
}

pub fn put_message(guild_id: u64, channel_id: u64, n: u64) -> Write {
    Write::PutMessage(Arc::new(message(guild_id, channel_id, n)))
}

pub fn unicode(name: &str) -> ReactionEmoji {
    ReactionEmoji { id: None, name: name.to_owned() }
}

pub fn custom(n: u64, name: &str) -> ReactionEmoji {
    ReactionEmoji { id: Some(id(n)), name: name.to_owned() }
}

/// A guild with users 1 to 9, all of them members, and some channels.
pub fn guild_with_channels(guild_id: u64, channels: &[u64]) -> Vec<Write> {
    let mut writes = vec![Write::PutGuild(guild(guild_id)), Write::PutRole(id(guild_id), role(guild_id))];
    writes.extend((1..10).map(|n| Write::PutMember(id(guild_id), member(n))));
    writes.extend(channels.iter().map(|n| Write::PutChannel(channel(guild_id, *n))));
    writes
}

/// Content of a loaded guild, ordered for comparison.
#[derive(Debug, PartialEq)]
pub struct Loaded {
    pub guild: Guild,
    pub roles: Vec<Role>,
    pub channels: Vec<Channel>,
    pub members: Vec<Member>,
}

pub async fn load(store: &dyn Store, guild_id: GuildId) -> Option<Loaded> {
    let mut record = store.load_guild(guild_id).await.unwrap()?;
    record.roles.sort_by_key(|role| role.id);
    record.channels.sort_by_key(|channel| channel.id);
    let members: Vec<Member> = record.members.iter().map(|member| Member::clone(member)).collect();
    assert!(members.is_sorted_by_key(|member| member.user.id), "members are loaded by user id, ascending");
    Some(Loaded { guild: record.guild, roles: record.roles, channels: record.channels, members })
}

/// Ids of a page.
pub async fn page(store: &dyn Store, channel_id: u64, page: guildhall_store::Page, limit: u32) -> Vec<u64> {
    let records = store.messages(id(channel_id), page, limit).await.unwrap();
    records.iter().map(|record| record.message.id.get()).collect()
}

/// A message's reactions.
pub async fn reactions(store: &dyn Store, channel_id: u64, message_id: u64) -> Vec<(ReactionEmoji, Vec<u64>)> {
    let record = store.message(id(channel_id), id(message_id)).await.unwrap().unwrap();
    let users = |users: Vec<UserId>| users.into_iter().map(Id::get).collect();
    record.reactions.into_iter().map(|(emoji, ids)| (emoji, users(ids))).collect()
}

/// Kind of dangling reference, if that is the error.
pub fn dangling(result: Result<(), StoreError>) -> Option<&'static str> {
    match result {
        Err(StoreError::Dangling { what }) => Some(what),
        Err(StoreError::Taken { .. }) => Some("of another guild"),
        Ok(()) => None,
        Err(other) => panic!("{other:?}"),
    }
}

/// An error with its causes, as an operator sees it.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
