//! The node: guild workers, accounts, and the way to both.
//!
//! Owns        the threads that run guilds, lazy loading, the commit pipeline (nothing is answered or
//!             published before it is durable), tokens, and the directory of channels and accounts.
//! Doors       `Node`: commands and relay messages in; `RelaySink` and answers out.
//! Invariants  in `guild_host` (one guild), `pipeline` (durable first), `mailbox` (bounds).
//! Limits      `NodeConfig`, `NodeLimits`, and those of the modules.
//! Not here    sockets and sessions (`guildhall-net`), HTTP (`guildhall-rest`).
#![forbid(unsafe_code)]

mod accounts;
mod announcements;
mod application_key;
mod cache;
mod canaries;
mod cluster;
mod commits;
mod credentials;
mod deletions;
mod directory;
mod directs;
mod export;
mod figures;
mod friend_presences;
mod guild_account;
mod guild_host;
mod hooks;
mod ids;
mod issuers;
mod jobs;
mod keys;
mod limits;
mod mailbox;
mod marks;
mod notification_settings;
mod pipeline;
mod pool;
mod read_states;
mod refusals;
mod relationships;
mod relay_sink;
mod request_trace;
mod reservations;
mod retention;
mod revocations;
mod search;
mod settings_proto;
mod sign_on;
mod timed_store;
mod tokens;
mod user_changes;
mod users;
mod voice_key;
mod worker;
mod writes;

pub use application_key::ApplicationKey;
pub use canaries::{CanaryCounts, CanaryLimits};
pub use cluster::{
    BalanceOptions, ClusterKey, ClusterReport, HandoffFault, HandoffFigures, HandoffReport, JoinError, Leave,
    MOVES_KEPT, Membership, MembershipOptions, MirrorFigures, MoveReason, MoveStep, Moved, MovedSessions, Moves,
    NodeReport, OpenReceipt, PeerQuestion,
};
pub use commits::CommitStats;
pub use credentials::{Account, AllRevoked, AuthError, Inspected, Revoked};
pub use deletions::{as_deleted, is_deleted};
pub use directs::{DirectLimits, DirectsWho};
pub use export::{GuildImports, GuildSink};
pub use guild_account::{GUILDS_LISTED_MAX, GuildAccount, GuildAccounts};
pub use hooks::{
    AUTHENTICATE_MAX, Authenticate, Author, Draft, Hooks, Identity, PollDraft, REVIEW_MAX, Review, ReviewMessage,
    TokenCheck,
};
pub use issuers::{Issuers, IssuersError, Terms};
pub use keys::{KEY_ACCOUNTS_MAX, KEYS_MAX, Key, KeyError, KeyLife, Scope};
pub use limits::{GUILD_IDLE_MS, NodeLimits};
pub use marks::MARK_BYTES;
pub use notification_settings::{NotificationChange, NotificationsChanged, OVERRIDES_MAX, OverrideChange};
pub use read_states::{Ack, READ_STATES_MAX, Reading};
pub use refusals::{KeyFault, TokenFault};
pub use relationships::{RELATIONSHIPS_MAX, RelationshipAct, RelationshipRefusal};
pub use relay_sink::{Clock, RelaySink, Unhandled};
pub use request_trace::{carry_trace, log_span, traced};
pub use reservations::{Reservation, external_id_name};
pub use retention::{Retention, RetentionCounts};
pub use search::Searched;
pub use settings_proto::{SETTINGS_BYTES_MAX, SettingsKind, SettingsUpdate};
pub use sign_on::{SignOnAccounts, SubjectKind};
pub use tokens::{TOKEN_BYTES_MAX, TokenKind, TokenRef, authorization_token};
pub use user_changes::{ChangedUser, unchecked};
pub use voice_key::{VoiceKey, VoiceReport, voice_channel};
pub use writes::WritesStopped;

use accounts::worker_account;
use announcements::Announcements;
use canaries::CanaryCounters;
use cluster::{ClusterSink, Standbys};
use commits::Commits;
use directory::Directory;
use directs::MadeToday;
use friend_presences::FriendPresences;
use guildhall_accounting::LoopAccount;
use guildhall_guild::{Actor, Command, GuildLimits, LinkRenewer, NewGuild, Refusal, Reply, ReplyValue, Request};
use guildhall_guild_protocol::{Event, Published, ReplicaUpdate, ToGuild};
use guildhall_model::{GuildId, Message};
use guildhall_stdx::Refusals;
use guildhall_store::Store;
use ids::{Ids, Origins, worker_of};
use jobs::Jobs;
use keys::Keys;
use mailbox::{Answer, CommandRequest, CreateRequest, Input, Mailbox};
use marks::Marks;
use pool::Pool;
use read_states::ReadStates;
use refusals::LOG_EVERY_MS;
use request_trace::CommandTrace;
use revocations::RevocationLog;
use sign_on::SignOn;
use std::{
    fmt,
    sync::{Arc, OnceLock},
    thread::JoinHandle,
};
use timed_store::TimedStore;
use tokens::Tokens;
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
};
use user_changes::UserLocks;
use worker::Worker;
use writes::WriteGate;

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
    reviews: hooks::ReviewCounts,
    marks: Marks,
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
    failure: Arc<Notify>,
    direct_limits: DirectLimits,
    made_today: MadeToday,
    announcements: Arc<Announcements>,
    user_locks: UserLocks,
    read_states: ReadStates,
    /// Held while the settings of an account change.
    settings_lock: tokio::sync::Mutex<()>,
    /// Held while a relationship changes, and while friends are read and sent a presence.
    relationship_lock: tokio::sync::Mutex<()>,
    friend_presences: FriendPresences,
    links: LinkRenewer,
    sign_on: Arc<SignOn>,
    writes: Arc<WriteGate>,
    retention: retention::Counters,
    revocation_log: RevocationLog,
    threads: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
    /// In a cluster.
    membership: Option<Arc<Membership>>,
    hooks: OnceLock<Hooks>,
    guild_limits: GuildLimits,
    /// Where guilds go when the node ends.
    export: Arc<OnceLock<Arc<dyn GuildSink>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.close());
        self.read_states.end();
        self.friend_presences.end();
    }
}

/// The reply in the type that the request names. The guild holds its handlers to the same table
/// (`guildhall_guild::request`), so only a request outside of that table is refused.
///
/// # Errors
/// `Internal`: it is another reply.
pub fn reply_to<R: Request>(reply: Reply) -> Result<R::Reply, Refusal> {
    R::Reply::from_reply(reply).ok_or_else(|| other_reply(std::any::type_name::<R>()))
}

/// Apart from `reply_to`, which is compiled for each request.
#[cold]
fn other_reply(request: &'static str) -> Refusal {
    tracing::error!(request, "a guild's reply has another type than the request names");
    Refusal::Internal
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
        let writes = Arc::new(WriteGate::default());
        let store = TimedStore::new(store, writes.clone());
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
        let failure = Arc::new(Notify::new());
        let export = Arc::new(OnceLock::new());
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
                failure: failure.clone(),
                export: export.clone(),
            };
            let thread = std::thread::Builder::new().name(format!("guilds-{index}")).spawn(move || worker.run());
            threads.push(thread.expect("the system has threads when a node starts"));
            mailboxes.push(mailbox);
            accounts.push(account);
        }
        if let Some(membership) = &membership {
            let standbys = Standbys { store: store.clone(), ids: ids.clone(), limits: limits.guild.clone() };
            membership.take_handoffs(standbys);
            membership.start((mailboxes.clone(), accounts.clone()), directory.clone(), local);
        }
        let sign_on = Arc::new(SignOn::new(store.clone(), limits.sign_on));
        let tokens = Tokens::new(store.clone(), &config.jwt_secret, sign_on.clone());
        let marks = Marks::new(&config.jwt_secret);
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
            reviews: hooks::ReviewCounts::default(),
            marks,
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
            failure,
            writes,
            direct_limits,
            made_today,
            announcements: Arc::default(),
            user_locks: UserLocks::default(),
            read_states: ReadStates::default(),
            settings_lock: tokio::sync::Mutex::default(),
            relationship_lock: tokio::sync::Mutex::default(),
            friend_presences: FriendPresences::default(),
            links: limits.guild.links.clone(),
            guild_limits: limits.guild,
            export,
            sign_on,
            retention: retention::Counters::default(),
            revocation_log: RevocationLog::default(),
            threads,
            membership,
            hooks: OnceLock::new(),
        };
        let inner = Arc::new(inner);
        if let Some(membership) = &inner.membership {
            revocations::follow(membership, &inner);
        }
        read_states::follow(&inner);
        relationships::follow(&inner);
        friend_presences::follow(&inner);
        search::follow(&inner);
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

    /// The reason why a write was refused, if the node knows it.
    fn explain_write<T>(&self, answer: Result<T, Refusal>) -> Result<T, Refusal> {
        match (answer, self.writes_stopped()) {
            (Err(Refusal::Unavailable), Some(WritesStopped::Full)) => Err(Refusal::DiskFull),
            (answer, _) => self.explain_read(answer),
        }
    }

    /// The reason why a read was refused, if the node knows it.
    fn explain_read<T>(&self, answer: Result<T, Refusal>) -> Result<T, Refusal> {
        match (answer, self.writes_stopped()) {
            // Guilds that are not in memory cannot be read either.
            (Err(Refusal::Unavailable), Some(WritesStopped::Unreachable)) => Err(Refusal::DatabaseAway),
            (answer, _) => answer,
        }
    }

    /// Sends a command to a guild, which is loaded first if necessary. Returns the reply once all changes of the
    /// command are durable. Dropping the future cancels the command if the guild has not begun with it.
    ///
    /// # Errors
    /// The guild's refusal; `Unavailable` if the guild cannot be loaded, its worker is overloaded, or the changes could
    /// not be made durable, then `DiskFull` or `DatabaseAway` if that is why. In the last case they may have been made
    /// all the same: read before trying again.
    pub async fn command<R: Request>(&self, guild_id: GuildId, actor: Actor, request: R) -> Result<R::Reply, Refusal> {
        self.run(guild_id, actor, request.into_command()).await.and_then(reply_to::<R>)
    }

    /// `command` without its types, so that it is compiled once and not for each request.
    async fn run(&self, guild_id: GuildId, actor: Actor, mut command: Command) -> Answer {
        self.review(guild_id, actor, &mut command).await?;
        let (answer, receiver) = oneshot::channel();
        let (trace, may_write) = (CommandTrace::of_request(), command.may_write());
        let input = Input::Command(CommandRequest { actor, command, answer, loads_count: 0, trace });
        let answer = self.request(guild_id, input, receiver).await;
        if may_write { self.explain_write(answer) } else { self.explain_read(answer) }
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

    /// Makes a guild, durably. A repeated call with the same id and owner is no error.
    ///
    /// # Errors
    /// `MissingAccess` when there is a guild with this id and another owner; `Unavailable` as for `command`.
    pub async fn create_guild(&self, new: NewGuild) -> Result<GuildId, Refusal> {
        let guild_id = new.guild.id;
        let (answer, receiver) = oneshot::channel();
        let created = self.request(guild_id, Input::Create(CreateRequest::Guild(Box::new(new)), answer), receiver);
        self.explain_write(created.await)?;
        Ok(guild_id)
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

    /// Sends an event to the sessions of the accounts in its audience rule, here and on other nodes.
    ///
    /// # Errors
    /// `Unavailable`: this node's partitions have no room for it.
    pub fn publish_to_accounts(&self, event: Event) -> Result<(), Refusal> {
        if !self.inner.relays.may_publish_to_users() {
            return Err(Refusal::Unavailable);
        }
        let published = Published { event, replica_update: ReplicaUpdate::None };
        self.inner.relays.publish_to_users(&Arc::new(published), None);
        Ok(())
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

    /// Refuses writes that are no deletions, or accepts them again: for a caller that watches the free disk space.
    /// Commands in progress complete.
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
        let is_away = || self.inner.store.is_away().then_some(WritesStopped::Unreachable);
        self.inner.writes.stopped().or_else(is_away)
    }

    /// Completes when a guild worker has panicked outside of a guild: its guilds are not served any more, so the
    /// process should end and be restarted.
    pub async fn failed(&self) {
        self.inner.failure.notified().await;
        tracing::error!("a guild worker panicked: the node ends");
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
        self.write_read_states().await;
    }
}
