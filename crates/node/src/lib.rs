//! The node: guild workers, accounts, and the way to both.
//!
//! Owns        the threads that run guilds, lazy loading, the commit pipeline (nothing is answered or
//!             published before it is durable), tokens, and the directory of channels and accounts.
//! Doors       `Node`: commands and relay messages in; `RelaySink` and answers out.
//! Invariants  in `guild_host` (one guild), `pipeline` (durable first), `mailbox` (bounds).
//! Limits      `NodeConfig`, `NodeLimits`, and those of the modules.
//! Not here    sockets and sessions (`guildhall-net`), HTTP (`guildhall-api`).
#![forbid(unsafe_code)]

mod accounts;
mod announcements;
mod cache;
mod canaries;
mod cluster;
mod commits;
mod directory;
mod directs;
mod guild_account;
mod guild_host;
mod ids;
mod issuers;
mod jobs;
mod keys;
mod limits;
mod mailbox;
mod pipeline;
mod pool;
mod refusals;
mod request_trace;
mod retention;
mod revocations;
mod sign_on;
mod timed_store;
mod tokens;
mod worker;
mod writes;

pub use canaries::{CanaryCounts, CanaryLimits};
pub use cluster::{ClusterReport, JoinError, Membership, MembershipOptions, NodeReport, OpenReceipt, PeerQuestion};
pub use commits::CommitStats;
pub use directs::{DirectLimits, DirectsWho};
pub use guild_account::{GUILDS_LISTED_MAX, GuildAccount, GuildAccounts};
pub use issuers::{Issuers, IssuersError, Terms};
pub use keys::{KEY_ACCOUNTS_MAX, KEYS_MAX, Key, KeyError, KeyLife, Scope};
pub use limits::{GUILD_IDLE_MS, NodeLimits};
pub use refusals::{KeyFault, TokenFault};
pub use request_trace::{carry_trace, log_span, traced};
pub use retention::{Retention, RetentionCounts};
pub use sign_on::{SignOnAccounts, SubjectKind};
pub use tokens::{TOKEN_BYTES_MAX, TokenKind, TokenRef};
pub use writes::WritesStopped;

use accounts::worker_account;
use announcements::Announcements;
use canaries::CanaryCounters;
use cluster::ClusterSink;
use commits::Commits;
use directory::Directory;
use directs::MadeToday;
use guildhall_accounting::{LoopAccount, LoopReport, TraceHandle};
use guildhall_cluster::DirectoryChange;
use guildhall_guild::{Actor, Command, LinkRenewer, NewGuild, Refusal, Reply, ReplyValue, Request};
use guildhall_guild_protocol::{PartitionId, Published, ToGuild, ToRelay};
use guildhall_model::{ChannelId, GuildId, Id, InviteCode, Message, User, UserId};
use guildhall_stdx::{Now, Refusals, Timestamp, heap::Held};
use guildhall_store::Store;
use ids::{Ids, Origins, worker_of};
use jobs::Jobs;
use keys::Keys;
use mailbox::{Answer, CommandRequest, CreateRequest, Input, Mailbox};
use pool::Pool;
use refusals::{LOG_EVERY_MS, refuse};
use request_trace::CommandTrace;
use sign_on::{SignOn, Subject};
use std::{cmp::Reverse, fmt, sync::Arc, thread::JoinHandle};
use timed_store::TimedStore;
use tokens::Tokens;
use tokio::{runtime::Handle, sync::oneshot};
use worker::Worker;
use writes::WriteGate;

/// Guilds of one account that `Node::guilds_of_user` returns.
const GUILDS_OF_USER_MAX: u32 = 100_000;

/// Where guilds' messages to relays go. Implemented by whatever runs the partitions.
pub trait RelaySink: Send + Sync + 'static {
    /// Hands over a message without waiting.
    ///
    /// # Errors
    /// Returns the message if the partition's mailbox is full. It is not retried: the guild restarts the relay's stream
    /// when there is room.
    ///
    /// # Panics
    /// Must not: it would take a guild worker down.
    fn try_deliver(&self, partition: PartitionId, message: ToRelay) -> Result<(), ToRelay>;

    /// As `try_deliver`, for an event of a traced request: the relay adds its spans to `trace`.
    ///
    /// # Errors
    /// As `try_deliver`.
    fn try_deliver_traced(&self, partition: PartitionId, message: ToRelay, trace: &TraceHandle) -> Result<(), ToRelay> {
        let _ = trace;
        self.try_deliver(partition, message)
    }

    /// The guild has handed over all messages of its last input: those for one node can travel together. Must not wait.
    fn delivered(&self, guild_id: GuildId) {
        let _ = guild_id;
    }

    /// An account joined a guild, durably: its live sessions on all partitions attach to the guild. The guild
    /// cannot notify them itself, because its relays do not know them yet. Guild workers call this, so it must
    /// not wait or panic.
    fn announce_joined(&self, user_id: UserId, guild_id: GuildId) {
        let _ = (user_id, guild_id);
    }

    /// Sends an event to the sessions of the accounts in its audience rule, in the order of the calls. Guild workers
    /// call this after `may_publish_to_users` returned true, so it must not wait or panic. With `trace`, the request's,
    /// the partitions add their spans. Returns the number of this node's partitions: each reports to the event's
    /// receipt, if it has one.
    fn publish_to_users(&self, published: &Arc<Published>, trace: Option<&TraceHandle>) -> usize {
        let _ = (published, trace);
        0
    }

    /// Whether there is room for another such event. False: guilds hold the event and try again within milliseconds.
    fn may_publish_to_users(&self) -> bool {
        true
    }

    /// An account changed, durably: its live sessions on all partitions receive USER_UPDATE. Must not wait.
    fn announce_user(&self, user: &Arc<User>) {
        let _ = user;
    }

    /// Entries of the directory changed, durably: other nodes read them again. Must not wait.
    fn changed(&self, changes: &[DirectoryChange]) {
        let _ = changes;
    }

    /// The store refused a commit, because another node has claimed the guild. Must not wait.
    fn fenced(&self, guild_id: GuildId) {
        let _ = guild_id;
    }

    /// The guild is about to be loaded. Must not wait.
    fn in_use(&self, guild_id: GuildId) {
        let _ = guild_id;
    }

    /// The guild was dropped from memory. Must not wait.
    fn unloaded(&self, guild_id: GuildId) {
        let _ = guild_id;
    }

    /// Whether this node has ceased to own the guild, and its worker has yet to handle the release: inputs that come
    /// before the release are refused.
    fn is_releasing(&self, guild_id: GuildId) -> bool {
        let _ = guild_id;
        false
    }

    /// The guild's worker has handled a release.
    fn released(&self, guild_id: GuildId) {
        let _ = guild_id;
    }
}

/// The node's clock. The real one is in `guildhall-net`, a fake one in the test kit.
pub trait Clock: Send + Sync + 'static {
    /// Current time.
    fn now(&self) -> Now;
}

/// Limits and secrets of a node.
#[derive(Clone)]
pub struct NodeConfig {
    /// Threads that run guilds: 1 to 1,022. Values outside are replaced by the nearest.
    pub guild_workers_count: usize,
    /// Key for user tokens (HS256), at least 32 bytes.
    pub jwt_secret: Vec<u8>,
    /// Commands and relay messages that may wait per guild worker, half of them for one guild. Past it callers get
    /// `Refusal::Unavailable`, and relays get their messages back.
    pub worker_mailbox_max: usize,
}

impl fmt::Debug for NodeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeConfig")
            .field("guild_workers_count", &self.guild_workers_count)
            .field("jwt_secret", &"[redacted]")
            .field("worker_mailbox_max", &self.worker_mailbox_max)
            .finish()
    }
}

/// A checked token.
#[derive(Clone, Debug)]
pub struct Account {
    pub user: Arc<User>,
    /// Internal id of the token among the account's tokens. Reveals nothing about the token.
    pub token: u64,
    /// When the token expires. None: never.
    pub expires_at: Option<Timestamp>,
}

/// A token that was revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Account of the token.
    pub user_id: UserId,
    /// As `Account::token`. The sessions of this token have to end.
    pub token: u64,
}

/// Why a token is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The token is invalid.
    #[error("the token is not valid: {0}")]
    Invalid(TokenFault),
    /// It could not be checked now: try again.
    #[error("the token could not be checked")]
    Unavailable(#[source] guildhall_store::StoreError),
    /// The token's key may be fetched soon: the caller may try again.
    #[error("the keys of the token's issuer are being fetched")]
    KeysComing,
    /// The token is valid, and its account cannot be created now: the caller may try again.
    #[error("{0}")]
    Busy(TokenFault),
}

impl From<TokenFault> for AuthError {
    fn from(fault: TokenFault) -> Self {
        Self::Invalid(fault)
    }
}

/// Result of `Node::inspect_token`.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// Which kind it is, and until when it is valid in Unix seconds; none if it is refused before that is known.
    pub kind: Option<TokenKind>,
    /// Account of the token, if its signature is valid or the token is stored.
    pub user_id: Option<UserId>,
    /// Unix seconds; bot tokens have no end.
    pub expires_at_s: Option<u64>,
    /// Reason of the refusal; none for a valid token.
    pub fault: Option<TokenFault>,
}

impl Inspected {
    fn of(verified: tokens::Verified, fault: Option<TokenFault>) -> Self {
        let tokens::Verified { user_id, kind, expires_at_s, .. } = verified;
        Self { kind: Some(kind), user_id, expires_at_s, fault }
    }
}

/// A running node. Cheap to clone; the workers end when `shut_down` is called or the last clone is dropped.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    directory: Arc<Directory>,
    relays: Arc<dyn RelaySink>,
    tokens: Tokens,
    tokens_refused: Refusals<TokenFault>,
    keys: Keys,
    keys_refused: Refusals<KeyFault>,
    ids: Arc<Ids>,
    mailboxes: Vec<Arc<Mailbox>>,
    accounts: Vec<Arc<LoopAccount>>,
    store_account: Arc<LoopAccount>,
    pool: Arc<Pool>,
    commits: Arc<Commits>,
    canaries: Arc<CanaryCounters>,
    direct_limits: DirectLimits,
    made_today: MadeToday,
    announcements: Arc<Announcements>,
    links: LinkRenewer,
    sign_on: Arc<SignOn>,
    writes: Arc<WriteGate>,
    retention: retention::Counters,
    threads: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
    /// In a cluster.
    membership: Option<Arc<Membership>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.close());
    }
}

/// The reply in the type that the request names. The guild holds its handlers to the same table
/// (`guildhall_guild::request`), so only a request outside of that table is refused.
fn reply_to<R: Request>(reply: Reply) -> Result<R::Reply, Refusal> {
    R::Reply::from_reply(reply).ok_or_else(|| {
        tracing::error!(
            request = std::any::type_name::<R>(),
            "a guild's reply has another type than the request names"
        );
        Refusal::Internal
    })
}

impl Node {
    /// Starts the workers. The store is used on the runtime that this is called from.
    ///
    /// # Panics
    /// Outside a tokio runtime, when `jwt_secret` is shorter than 32 bytes, or when no threads can be made.
    pub fn start(config: NodeConfig, store: Arc<dyn Store>, clock: Arc<dyn Clock>, relays: Arc<dyn RelaySink>) -> Self {
        Self::start_with_limits(config, NodeLimits::default(), store, clock, relays)
    }

    /// Starts a node with other limits.
    ///
    /// # Panics
    /// In the cases of `start`.
    pub fn start_with_limits(
        config: NodeConfig,
        limits: NodeLimits,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        relays: Arc<dyn RelaySink>,
    ) -> Self {
        Self::start_as(config, limits, store, clock, relays, None)
    }

    /// Starts a node, with a membership as one node of a cluster. `relays` are those of this node.
    ///
    /// # Panics
    /// In the cases of `start`, and if the membership belongs to another node.
    pub fn start_as(
        config: NodeConfig,
        mut limits: NodeLimits,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        relays: Arc<dyn RelaySink>,
        membership: Option<Arc<Membership>>,
    ) -> Self {
        let store = TimedStore::new(store);
        let store_account = store.account();
        let store: Arc<dyn Store> = Arc::new(store);
        limits.guild.seed ^= u64::from_le_bytes(tokens::random_bytes());
        let directory = Arc::new(Directory::new(store.clone()));
        let origins = membership.as_ref().map_or(Origins::Single, |membership| Origins::OfNode(membership.number()));
        let ids = Arc::new(Ids::new(store.clone(), origins));
        let local = relays.clone();
        let relays: Arc<dyn RelaySink> = match &membership {
            Some(membership) => Arc::new(ClusterSink { local: relays, membership: membership.clone() }),
            None => relays,
        };
        let pool = Arc::new(Pool::new(limits.guild_jobs_max));
        let commits = Arc::new(Commits::default());
        let canaries = Arc::new(CanaryCounters::default());
        let writes = Arc::new(WriteGate::default());
        let (mut mailboxes, mut accounts) = (Vec::new(), Vec::new());
        let mut threads = Vec::new();
        let workers_count = config.guild_workers_count.clamp(1, origins.workers_max());
        for index in 0..workers_count {
            let mailbox = Arc::new(Mailbox::new(config.worker_mailbox_max));
            let jobs = Jobs {
                store: store.clone(),
                runtime: Handle::current(),
                mailbox: mailbox.clone(),
                pool: pool.clone(),
                ids: ids.clone(),
                guild_limits: limits.guild.clone(),
                commits: commits.clone(),
                writes: writes.clone(),
            };
            let account = Arc::new(worker_account(index));
            let worker = Worker {
                index,
                jobs,
                clock: clock.clone(),
                relays: relays.clone(),
                directory: directory.clone(),
                limits: limits.clone(),
                account: account.clone(),
                origins,
                canaries: canaries.clone(),
            };
            let thread = std::thread::Builder::new().name(format!("guilds-{index}")).spawn(move || worker.run());
            threads.push(thread.expect("the system has threads when a node starts"));
            mailboxes.push(mailbox);
            accounts.push(account);
        }
        if let Some(membership) = &membership {
            membership.start(mailboxes.clone(), directory.clone(), local);
        }
        let sign_on = Arc::new(SignOn::new(store.clone(), limits.sign_on));
        let tokens = Tokens::new(store.clone(), &config.jwt_secret, sign_on.clone());
        let keys = Keys::new(store.clone(), membership.is_some());
        let threads = tokio::sync::Mutex::new(threads);
        let (direct_limits, made_today) = (limits.directs, MadeToday::default());
        let (tokens_refused, keys_refused) = (Refusals::new(LOG_EVERY_MS), Refusals::new(LOG_EVERY_MS));
        let inner = Inner {
            store,
            clock,
            directory,
            relays,
            tokens,
            tokens_refused,
            keys,
            keys_refused,
            ids,
            mailboxes,
            accounts,
            store_account,
            pool,
            commits,
            canaries,
            writes,
            direct_limits,
            made_today,
            announcements: Arc::default(),
            links: limits.guild.links,
            sign_on,
            retention: retention::Counters::default(),
            threads,
            membership,
        };
        let inner = Arc::new(inner);
        if let Some(membership) = &inner.membership {
            revocations::follow(membership, &inner);
        }
        Self { inner }
    }

    fn mailbox(&self, guild_id: GuildId) -> &Mailbox {
        &self.inner.mailboxes[worker_of(guild_id, self.inner.mailboxes.len())]
    }

    /// Passes an input to its guild, here or on another node.
    fn push(&self, guild_id: GuildId, input: Input) -> Result<(), Input> {
        match &self.inner.membership {
            None => self.mailbox(guild_id).try_push(guild_id, input),
            Some(membership) => membership.push(self.mailbox(guild_id), guild_id, input),
        }
    }

    /// This node's place in its cluster; none if it is alone.
    #[must_use]
    pub fn membership(&self) -> Option<&Arc<Membership>> {
        self.inner.membership.as_ref()
    }

    async fn request(&self, guild_id: GuildId, input: Input, answer: oneshot::Receiver<Answer>) -> Answer {
        self.push(guild_id, input).map_err(|_| Refusal::Unavailable)?;
        answer.await.unwrap_or(Err(Refusal::Unavailable))
    }

    /// Sends a command to a guild, which is loaded first if necessary. Returns the reply once all changes of the
    /// command are durable. Dropping the future cancels the command if the guild has not begun with it.
    ///
    /// # Errors
    /// The guild's refusal; `Unavailable` if the guild cannot be loaded, its worker is overloaded, or the changes could
    /// not be made durable. In the last case they may have been made all the same: read before trying again.
    pub async fn command<R: Request>(&self, guild_id: GuildId, actor: Actor, request: R) -> Result<R::Reply, Refusal> {
        let (answer, receiver) = oneshot::channel();
        let command = request.into_command();
        let trace = CommandTrace::of_request();
        let input = Input::Command(CommandRequest { actor, command, answer, loads_count: 0, trace });
        self.request(guild_id, input, receiver).await.and_then(reply_to::<R>)
    }

    /// As `command`, but the guild has the command when this returns, not only when the future is polled. Commands that
    /// begin in a row are handled in this order.
    pub fn begin<R: Request>(
        &self,
        guild_id: GuildId,
        actor: Actor,
        request: R,
    ) -> impl Future<Output = Result<R::Reply, Refusal>> + Send + use<R> {
        let (answer, receiver) = oneshot::channel();
        let command = request.into_command();
        let trace = CommandTrace::of_request();
        let input = Input::Command(CommandRequest { actor, command, answer, loads_count: 0, trace });
        let pushed = self.push(guild_id, input).map_err(|_| Refusal::Unavailable);
        async move {
            pushed?;
            receiver.await.unwrap_or(Err(Refusal::Unavailable)).and_then(reply_to::<R>)
        }
    }

    /// Makes a guild, durably. With id 0 it gets a new one. Asking again with the same id and owner is no error.
    ///
    /// # Errors
    /// `MissingAccess` when there is a guild with this id and another owner; `Unavailable` as for `command`.
    pub async fn create_guild(&self, mut new: NewGuild) -> Result<GuildId, Refusal> {
        if new.guild.id.get() == 0 {
            new.guild.id = self.next_id().await.map_err(|_| Refusal::Unavailable)?;
        }
        let guild_id = new.guild.id;
        let (answer, receiver) = oneshot::channel();
        self.request(guild_id, Input::Create(CreateRequest::Guild(Box::new(new)), answer), receiver).await?;
        Ok(guild_id)
    }

    /// Canaries that relays were sent and returned, and relays that do not deliver.
    #[must_use]
    pub fn canary_counts(&self) -> CanaryCounts {
        self.inner.canaries.counts()
    }

    /// Sends a relay's message to its guild, without waiting. The guild is loaded first if necessary.
    ///
    /// # Errors
    /// Returns the message if the worker's mailbox is full, half full with this guild's inputs, or closed.
    pub fn try_send_to_guild(&self, guild_id: GuildId, message: ToGuild) -> Result<(), ToGuild> {
        self.push(guild_id, Input::Relay(message)).map_err(|input| match input {
            Input::Relay(message) => message,
            _ => unreachable!("the mailbox returns the input that was pushed"),
        })
    }

    /// Checks a bot or user token, with or without `Bot ` or `Bearer `. May make the account of a
    /// subject of the sign-on.
    ///
    /// # Errors
    /// `Invalid` for every token that does not name an account; `Unavailable` when the store did not answer;
    /// `KeysComing` and `Busy` for one that may be good later.
    pub async fn authenticate(&self, token: &str) -> Result<Account, AuthError> {
        let checked = self.check_token(token, self.inner.sign_on.is_on()).await;
        if let Err(AuthError::Invalid(fault) | AuthError::Busy(fault)) = checked {
            self.count_refused_token(fault);
        }
        Ok(checked?.0)
    }

    async fn check_token(&self, token: &str, makes_accounts: bool) -> Result<(Account, tokens::Verified), AuthError> {
        let verified = self.inner.tokens.check(token, self.inner.clock.now().unix).await?;
        let user = match verified.user_id {
            Some(user_id) => self.inner.directory.user(user_id).await.map_err(AuthError::Unavailable)?,
            None => None,
        };
        let user = match (user, &verified.newcomer) {
            (Some(user), _) => user,
            (None, Some(newcomer)) if makes_accounts => self.make_account(newcomer.clone()).await?,
            (None, Some(newcomer)) if matches!(newcomer.subject, Subject::Id(_) | Subject::External(_)) => {
                return Err(TokenFault::UnknownAccount.into());
            }
            (None, _) if verified.user_id.is_none() => return Err(TokenFault::Subject.into()),
            (None, _) => return Err(TokenFault::UnknownAccount.into()),
        };
        if user.bot && verified.kind != TokenKind::Bot {
            return Err(TokenFault::BotAccount.into());
        }
        let expires_ms = verified.expires_at_s.and_then(|s| i64::try_from(s).ok()?.checked_mul(1000));
        let expires_at = expires_ms.map(Timestamp);
        Ok((Account { user, token: tokens::mark_of_token(token), expires_at }, verified))
    }

    /// Checks a token as `authenticate` does, without counting it.
    ///
    /// # Errors
    /// `Unavailable` if the store did not answer, `KeysComing` if the issuer's keys are being fetched.
    pub async fn inspect_token(&self, token: &str) -> Result<Inspected, AuthError> {
        let now = self.inner.clock.now().unix;
        let fault = match self.check_token(token, false).await {
            Ok((_, verified)) => return Ok(Inspected::of(verified, None)),
            Err(AuthError::Invalid(fault)) => fault,
            Err(error) => return Err(error),
        };
        // A valid token of an account that does not exist is invalid too.
        match self.inner.tokens.check(token, now).await {
            Ok(verified) => Ok(Inspected::of(verified, Some(fault))),
            Err(AuthError::Invalid(_)) => {
                Ok(Inspected { kind: None, user_id: None, expires_at_s: None, fault: Some(fault) })
            }
            Err(error) => Err(error),
        }
    }

    /// Counts and logs a token that was refused before the node saw it.
    pub fn count_refused_token(&self, fault: TokenFault) {
        refuse(&self.inner.tokens_refused, fault, self.inner.clock.now().instant);
    }

    /// Counts and logs a key that was refused.
    pub fn count_refused_key(&self, fault: KeyFault) {
        refuse(&self.inner.keys_refused, fault, self.inner.clock.now().instant);
    }

    /// Refused tokens since the start, by reason.
    #[must_use]
    pub fn refused_tokens(&self) -> Vec<(&'static str, u64)> {
        self.inner.tokens_refused.counts()
    }

    /// Accounts that were made for subjects of the sign-on since the start.
    #[must_use]
    pub fn sign_on_accounts_made(&self) -> u64 {
        self.inner.sign_on.made_total()
    }

    /// Refused keys since the start, by reason.
    #[must_use]
    pub fn refused_keys(&self) -> Vec<(&'static str, u64)> {
        self.inner.keys_refused.counts()
    }

    /// How often tokens were revoked so far: read before `authenticate`, for `unless_revoked`.
    #[must_use]
    pub fn revocations(&self) -> u64 {
        self.inner.tokens.revocations()
    }

    /// Runs `then`, unless a token was revoked since the count was `revocations`; then the caller has to check again.
    /// No token is revoked while `then` runs, so it must not wait.
    pub fn unless_revoked<T>(&self, revocations: u64, then: impl FnOnce() -> T) -> Option<T> {
        self.inner.tokens.unless_revoked(revocations, then)
    }

    // ── keys of backends ─────────────────────────────────────────────────────────────────────────

    /// From now on this is a key too, and may do everything.
    pub fn set_root_key(&self, key: &str) {
        self.inner.keys.set_root(key);
    }

    /// The key with this text, and its revocation signal. None if there is no such key, or if it is revoked.
    ///
    /// # Errors
    /// The store cannot be read; it is read once.
    pub async fn check_key(&self, text: &str) -> Result<Option<(Key, KeyLife)>, guildhall_store::StoreError> {
        self.inner.keys.check(text).await
    }

    /// Creates a key, durably. Only this call returns its text: the store has only its hash.
    ///
    /// # Errors
    /// `TooMany`, `Store`.
    pub async fn create_key(&self, name: &str, scopes: &[Scope]) -> Result<(Key, String), KeyError> {
        self.make_key(name, scopes, None).await
    }

    /// A key that manages the tokens of these accounts and can do nothing else, as `create_key`.
    ///
    /// # Errors
    /// `Accounts`, `TooMany`, `Store`.
    pub async fn create_key_for(&self, name: &str, accounts: &[UserId]) -> Result<(Key, String), KeyError> {
        self.make_key(name, &[Scope::Tokens], Some(accounts)).await
    }

    async fn make_key(
        &self,
        name: &str,
        scopes: &[Scope],
        accounts: Option<&[UserId]>,
    ) -> Result<(Key, String), KeyError> {
        let id = self.next_id().await?;
        self.inner.keys.create(id, name, scopes, accounts, self.inner.clock.now().unix).await
    }

    /// All keys but the root key, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn keys(&self) -> Result<Vec<Key>, guildhall_store::StoreError> {
        self.inner.keys.list().await
    }

    /// Revokes a key, durably; false if there was none.
    ///
    /// # Errors
    /// When the store cannot be written. The key is not accepted any more all the same, until a restart.
    pub async fn revoke_key(&self, id: u64) -> Result<bool, guildhall_store::StoreError> {
        let was_there = self.inner.keys.revoke(id).await?;
        self.tell_revoked(cluster::Revocation::Key(id)).await;
        Ok(was_there)
    }

    // ── guilds and accounts ──────────────────────────────────────────────────────────────────────

    /// Guilds of an account, ascending; at most 100,000. Includes every membership whose command was answered.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn guilds_of_user(&self, user_id: UserId) -> Result<Vec<GuildId>, guildhall_store::StoreError> {
        self.inner.store.guilds_of_user(user_id, GUILDS_OF_USER_MAX).await
    }

    /// The guild of a channel; cached.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn guild_of_channel(
        &self,
        channel_id: ChannelId,
    ) -> Result<Option<GuildId>, guildhall_store::StoreError> {
        self.inner.directory.guild_of_channel(channel_id).await
    }

    /// An account; cached.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn user(&self, user_id: UserId) -> Result<Option<Arc<User>>, guildhall_store::StoreError> {
        self.inner.directory.user(user_id).await
    }

    /// Adds or replaces an account, durably. Its guilds learn of it by `Command::AddMember`.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn put_user(&self, user: Arc<User>) -> Result<(), guildhall_store::StoreError> {
        let user_id = user.id;
        let done = self.inner.directory.put_user(user).await;
        self.inner.relays.changed(&[DirectoryChange::User(user_id)]);
        done
    }

    /// Changes an account, durably, and announces it to its sessions, guilds and direct messages, one after the
    /// other. A guild that fails (it is overloaded, or cannot be loaded) has the new account when it is loaded next.
    /// Dropping the future does not stop the announcement. A change during an announcement is covered by it and does
    /// not wait for its end.
    ///
    /// # Errors
    /// The store cannot be written, or the account's guilds cannot be read.
    pub async fn update_user(&self, user: Arc<User>) -> Result<(), guildhall_store::StoreError> {
        let node = self.clone();
        let done = tokio::spawn(async move {
            node.put_user(user.clone()).await?;
            node.inner.relays.announce_user(&user);
            let Some(mut announcement) = node.inner.announcements.begin(user.id) else { return Ok(()) };
            let mut announced = Ok(());
            while announcement.take_change() {
                announced = node.announce_to_guilds(user.id).await;
            }
            announced
        });
        done.await.unwrap_or(Err(guildhall_store::StoreError::Closed))
    }

    async fn announce_to_guilds(&self, user_id: UserId) -> Result<(), guildhall_store::StoreError> {
        let directs = self.inner.store.directs_of_user(user_id, directs::DIRECTS_OF_USER_MAX).await?;
        let directs = directs.into_iter().map(|direct| direct.channel.guild_id);
        for guild_id in self.guilds_of_user(user_id).await?.into_iter().chain(directs) {
            // Read now, so that an older state never follows a newer one.
            let Some(user) = self.user(user_id).await? else { return Ok(()) };
            let refreshed = self.command(guild_id, Actor::System, Command::RefreshMember(user)).await;
            if let Err(refusal) = refreshed {
                tracing::debug!(%guild_id, %refusal, "a guild was not notified of a changed account");
            }
        }
        Ok(())
    }

    /// A new id for a guild or an account.
    ///
    /// # Errors
    /// The store cannot be read; it is read once, for the largest id in use.
    pub async fn next_id<T>(&self) -> Result<Id<T>, guildhall_store::StoreError> {
        self.inner.ids.next(self.inner.clock.now().unix).await
    }

    /// A random invite code.
    #[must_use]
    pub fn new_invite_code(&self) -> InviteCode {
        InviteCode::new(u64::from_le_bytes(tokens::random_bytes()))
    }

    /// A random text of 64 characters, for paths.
    #[must_use]
    pub fn new_secret(&self) -> String {
        tokens::random_text()
    }

    /// Creates a bot token (base64 of the id without padding, a dot, random parts). Only its hash is stored.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn mint_bot_token(&self, user_id: UserId) -> Result<String, guildhall_store::StoreError> {
        self.inner.tokens.mint_bot_token(user_id, self.inner.clock.now().unix).await
    }

    /// Mints a user token: a JWT that is valid for `ttl_s` seconds.
    pub fn mint_user_token(&self, user_id: UserId, ttl_s: u64) -> String {
        self.mint_expiring_token(user_id, ttl_s).0
    }

    /// As [`Node::mint_user_token`]; with the Unix second at which the token expires.
    pub fn mint_expiring_token(&self, user_id: UserId, ttl_s: u64) -> (String, u64) {
        self.inner.tokens.mint_user_token(user_id, ttl_s, self.inner.clock.now().unix)
    }

    /// Revokes a token, durably; `None` if it was not valid. It is refused once this returns. The owner of the
    /// partitions must end the sessions that were started with it.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn revoke_token(
        &self,
        token: impl Into<TokenRef<'_>>,
    ) -> Result<Option<Revoked>, guildhall_store::StoreError> {
        let token = token.into();
        let revoked = self.inner.tokens.revoke(token, self.inner.clock.now().unix).await?;
        self.tell_revoked(revocations::of_token(token)).await;
        Ok(revoked.map(|(user_id, token)| Revoked { user_id, token }))
    }

    /// Revokes all tokens of an account, durably. How many bot tokens there were.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn revoke_user_tokens(&self, user_id: UserId) -> Result<u64, guildhall_store::StoreError> {
        let now = self.inner.clock.now().unix;
        let count = self.inner.tokens.revoke_all(user_id, now).await?;
        self.tell_revoked(cluster::Revocation::TokensOf(user_id, now)).await;
        Ok(count)
    }

    /// The node's store, for reads that need no guild (history, after `Command::AuthorizeHistory`).
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// A message that was read from the store, with links in force.
    #[must_use]
    pub fn with_links(&self, message: Arc<Message>) -> Arc<Message> {
        self.inner.links.renewed(self.inner.clock.now().unix, message)
    }

    /// Replaces the issuers whose tokens the node accepts in addition to its own.
    pub fn set_issuers(&self, issuers: Option<Issuers>) {
        self.inner.tokens.set_issuers(issuers);
    }

    /// Sets the callback for tokens with an unknown key; it returns whether the key may be known soon. Must not wait.
    pub fn on_unknown_key(&self, request_keys: Arc<dyn Fn() -> bool + Send + Sync>) {
        self.inner.tokens.on_unknown_key(request_keys);
    }

    /// Refuses commands that write, or accepts them again: for a caller that watches the free disk space. Commands in
    /// progress complete.
    pub fn hold_writes(&self, held: bool) {
        self.inner.writes.hold(held);
    }

    /// Whether commands that write are refused, because the disk is full or by `hold_writes`.
    #[must_use]
    pub fn are_writes_stopped(&self) -> bool {
        self.writes_stopped().is_some()
    }

    /// Why commands that write are refused; none if they are not.
    #[must_use]
    pub fn writes_stopped(&self) -> Option<WritesStopped> {
        self.inner.writes.stopped()
    }

    /// How long the store's commits take.
    #[must_use]
    pub fn commit_stats(&self) -> CommitStats {
        self.inner.commits.stats()
    }

    /// Permits in use of each guild worker's mailbox, of `NodeConfig::worker_mailbox_max`.
    #[must_use]
    pub fn mailbox_places_taken(&self) -> Vec<usize> {
        self.inner.mailboxes.iter().map(|mailbox| mailbox.taken_count()).collect()
    }

    /// Wall time of each guild worker by message type.
    #[must_use]
    pub fn worker_reports(&self) -> Vec<LoopReport> {
        self.inner.accounts.iter().map(|account| account.report()).collect()
    }

    /// Wall time of the store's operations by name. They overlap, so its busy time is no share of a core.
    #[must_use]
    pub fn store_report(&self) -> LoopReport {
        self.inner.store_account.report()
    }

    /// Wall time of guilds' background jobs by kind of work. Several run at once.
    #[must_use]
    pub fn job_report(&self) -> LoopReport {
        self.inner.pool.report()
    }

    /// The guilds that kept their workers busiest, at most `limit` and `GUILDS_LISTED_MAX`. Guilds of a worker that
    /// answers too many such requests already are left out.
    pub async fn guild_accounts(&self, limit: usize) -> GuildAccounts {
        let limit = limit.min(GUILDS_LISTED_MAX);
        let looks = self.inner.mailboxes.iter().map(|mailbox| mailbox.look(move |guilds| guilds.busiest(limit)));
        let mut all = GuildAccounts::default();
        for answer in looks.collect::<Vec<_>>() {
            let Ok(GuildAccounts { loaded, guilds }) = answer.await else { continue };
            all.loaded += loaded;
            all.guilds.extend(guilds);
        }
        all.guilds.sort_by_key(|guild| Reverse(guild.busy_ns_total));
        all.guilds.truncate(limit);
        all
    }

    /// Memory of all loaded guilds by field, and of caches, estimated. Guilds of a worker that answers too many such
    /// requests already are left out.
    pub async fn memory(&self) -> Vec<Held> {
        let looks = self.inner.mailboxes.iter().map(|mailbox| mailbox.look(|guilds| guilds.memory()));
        let mut all = vec![self.inner.directory.memory()];
        for answer in looks.collect::<Vec<_>>() {
            Held::add_all(&mut all, answer.await.unwrap_or_default());
        }
        all
    }

    /// One guild by message type and channel. None if it is not loaded, or its worker answers too many such requests.
    pub async fn guild_account(&self, guild_id: GuildId) -> Option<GuildAccount> {
        self.mailbox(guild_id).look(move |guilds| guilds.guild_account(guild_id)).await.ok()?
    }

    /// Makes the workers read the clock: for clocks that jump, as in tests.
    pub fn poke(&self) {
        self.inner.mailboxes.iter().for_each(|mailbox| mailbox.poke());
    }

    /// Stops accepting inputs, waits until everything accepted is durable and published, and ends the workers. Takes as
    /// long as the store does: callers set a deadline.
    pub async fn shut_down(&self) {
        self.inner.mailboxes.iter().for_each(|mailbox| mailbox.close());
        let mut threads = self.inner.threads.lock().await;
        for thread in threads.drain(..) {
            if let Ok(Err(_)) = tokio::task::spawn_blocking(move || thread.join()).await {
                tracing::error!("a guild worker had panicked");
            }
        }
    }
}
