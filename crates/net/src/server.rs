//! Server: partitions on their threads, and the HTTP server before them.
//!
//! Doors       `Server::bind`, then `start`; `Partitions` is how guilds reach relays.

use crate::{
    access::{AccessLog, WebSocket},
    admission::{Admission, AdmissionLimits, Peers},
    answers::{AuthAnswer, DirectsAnswer, MessagesAnswer, SessionAnswer},
    clock::SystemClock,
    drain::{Accepted, DrainPlan, DrainReport, reconnect_all},
    gatekeeper::{IdentifyGate, IdentifyLimits},
    http::{ANSWER_KINDS, FULL_LOG_EVERY_MS, HttpCounters, HttpServer, accept},
    loop_timer::{LoopTimer, partition_account},
    mailbox::{ConnPermit, Mailbox, MovedSocket, PartitionCommand, PassedConn, PassedOn, mailbox},
    partition_loop::{PartitionLoop, Shutdown},
    refused::Refused,
    sockets::{Sockets, WAKE},
    tls::{Certificates, acceptor},
};
use axum::Router;
use guildhall_accounting::{CanaryAccount, Durations, DurationsSnapshot, LoopAccount, LoopReport, TraceHandle, report};
use guildhall_codec::{DictionaryUse, Encoding};
use guildhall_guild_protocol::{PartitionId, Published, SessionNews, ToGuild, ToRelay, Whose};
use guildhall_model::{ChannelId, CloseCode, GuildId, MessageId, User, UserId};
use guildhall_partition::{
    AuthPurpose, Checked, ConnSnapshot, ContextMoves, Counters, ExperimentTable, Fetched, Gatekeeper, HandOver,
    Leaving, Partition, PartitionConfig, Pause, RecentLoss, ResumeFault, SentTable, SessionClaim, TransferEnd,
};
use guildhall_session::session_home;
use guildhall_stdx::{LogGate, Now};
use guildhall_uring::SendBatch;
use guildhall_ws_proto::DeflatePolicy;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::{
    net::TcpListener,
    sync::{Notify, oneshot, watch},
};

/// Interval at which `wait_for_restores` checks whether guilds have answered, and `end_requests` whether REST has.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Requests of partitions to the rest of the node.
pub trait Upstream: Send + Sync + 'static {
    /// Check a token and answer. Must not block.
    fn authenticate(&self, token: String, purpose: AuthPurpose, answer: AuthAnswer);

    /// Reads messages, and answers with those that exist. Must not block.
    fn fetch_messages(&self, messages: Vec<(ChannelId, MessageId)>, answer: MessagesAnswer);

    /// Reads the direct messages of an account, and answers. Must not block.
    fn fetch_directs(&self, user_id: UserId, answer: DirectsAnswer);

    /// Fetches a session from the node that has it, and answers. Must not block. Without an answer the
    /// client identifies again.
    fn fetch_session(&self, claim: SessionClaim, answer: SessionAnswer) {
        let _ = claim;
        drop(answer);
    }

    /// Fetches the rest of a session that its guilds have transferred, and answers. Must not block. Without an answer
    /// the client identifies again.
    fn fetch_rest(&self, end: TransferEnd, answer: SessionAnswer) {
        let _ = end;
        drop(answer);
    }

    /// Sends a relay's message to its guild, without waiting.
    ///
    /// # Errors
    /// Returns the message if the guild's mailbox is full; the partition tries again.
    fn try_send_to_guild(&self, guild_id: GuildId, message: ToGuild) -> Result<(), ToGuild>;

    /// Reports a change of a session. Must not block.
    fn session_news(&self, news: SessionNews) {
        let _ = news;
    }

    /// The presence of a user account may have changed. Must not block.
    fn presence_changed(&self, user_id: UserId) {
        let _ = user_id;
    }

    /// Sends an account the presences of those of these accounts that are its friends. Must not block.
    fn show_friends(&self, user_id: UserId, friends: Vec<UserId>) {
        let _ = (user_id, friends);
    }
}

/// Minimum interval between two log lines for one reason of refused IDENTIFYs or RESUMEs.
const REFUSED_LOG_EVERY_MS: u64 = 5_000;

/// Whether frames may be sent in batches, by io_uring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoUring {
    /// Where the system has it and allows it.
    Auto,
    /// Never: each frame is sent by itself.
    Off,
}

/// Settings of the server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Number of the node in its cluster; 0 for a single node.
    pub node_number: u8,
    /// How many partitions: one per core, at most 256.
    pub partitions_count: u16,
    /// Sockets of all kinds, REST included; past it 503.
    pub connections_max: usize,
    /// Whether frames may be sent in batches.
    pub io_uring: IoUring,
    /// Policy for clients that offer permessage-deflate. None: offers are declined.
    pub deflate: Option<DeflatePolicy>,
    /// Certificates for TLS. None: plain HTTP.
    pub certificates: Option<Arc<Certificates>>,
    /// Access log, one line per request and WebSocket. `None`: disabled.
    pub access: Option<Arc<AccessLog>>,
    /// Limits per address.
    pub admission: AdmissionLimits,
    /// How often accounts may identify.
    pub identify: IdentifyLimits,
    /// Settings of each partition; the server sets `partition` and `partitions_count`.
    pub partition: PartitionConfig,
}

/// The partitions, as the rest of the node reaches them. Cheap to clone.
#[derive(Clone)]
pub struct Partitions {
    /// Of the node, in its cluster.
    node_number: u8,
    mailboxes: Arc<[Mailbox]>,
    accounts: Arc<[Arc<LoopAccount>]>,
    canaries: Arc<CanaryAccount>,
    refused: Arc<Refused>,
}

impl Partitions {
    /// Sends a guild's message to one of its relays, without waiting.
    ///
    /// # Errors
    /// Returns the message if the partition's mailbox is full.
    pub fn try_deliver(&self, partition: PartitionId, message: ToRelay) -> Result<(), ToRelay> {
        match self.mailboxes.get(partition.index()) {
            Some(mailbox) => mailbox.try_send_guild(message, None),
            None => Err(message),
        }
    }

    /// As `try_deliver`, for an event of a traced request.
    ///
    /// # Errors
    /// As `try_deliver`.
    pub fn try_deliver_traced(
        &self,
        partition: PartitionId,
        message: ToRelay,
        trace: &TraceHandle,
    ) -> Result<(), ToRelay> {
        match self.mailboxes.get(partition.index()) {
            Some(mailbox) => mailbox.try_send_guild(message, Some(trace.clone())),
            None => Err(message),
        }
    }

    /// An account joined a guild: its sessions are attached to it.
    pub fn announce_joined(&self, user_id: UserId, guild_id: GuildId) {
        for mailbox in self.mailboxes.iter() {
            mailbox.send(PartitionCommand::Joined { user_id, guild_id });
        }
    }

    /// An account changed: its sessions receive USER_UPDATE.
    pub fn announce_user(&self, user: &Arc<User>) {
        for mailbox in self.mailboxes.iter() {
            mailbox.send(PartitionCommand::UserChanged(user.clone()));
        }
    }

    /// Sends RECONNECT to about `count` clients with a larger compression context, the same number on each partition.
    /// Partitions with fewer such clients send fewer.
    pub fn take_back_upgrades(&self, count: usize) {
        for mailbox in self.mailboxes.iter() {
            mailbox.send(PartitionCommand::TakeBackUpgrades { count: count.div_ceil(self.mailboxes.len()) });
        }
    }

    /// Replaces the running experiments of every partition.
    pub fn take_experiments(&self, table: &Arc<ExperimentTable>) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.send(PartitionCommand::Experiments(table.clone())));
    }

    /// Sends op 7 to `count` clients of each partition that are in an arm of the experiment other than its control. The
    /// numbers of clients follow.
    #[must_use]
    pub fn reconnect_trials(&self, experiment: u64, count: usize) -> Vec<oneshot::Receiver<usize>> {
        let reconnect = |mailbox: &Mailbox| {
            let (sender, receiver) = oneshot::channel();
            let sent = Box::new(move |count| {
                // The caller may have stopped waiting.
                let _ = sender.send(count);
            });
            mailbox.send(PartitionCommand::ReconnectTrials { experiment, count, sent });
            receiver
        };
        self.mailboxes.iter().map(reconnect).collect()
    }

    /// Wall time of each partition's loop by message type.
    #[must_use]
    pub fn loop_reports(&self) -> Vec<LoopReport> {
        self.accounts.iter().map(|account| account.report()).collect()
    }

    /// How long canaries took to their relays.
    #[must_use]
    pub fn canaries(&self) -> &CanaryAccount {
        &self.canaries
    }

    /// IDENTIFYs that started no session, by reason.
    #[must_use]
    pub fn refused_identifies(&self) -> Vec<(&'static str, u64)> {
        self.refused.identifies.counts()
    }

    /// RESUMEs that continued no session, by reason.
    #[must_use]
    pub fn refused_resumes(&self) -> Vec<(&'static str, u64)> {
        self.refused.resumes.counts()
    }

    /// Number of partitions.
    #[must_use]
    pub fn count(&self) -> usize {
        self.mailboxes.len()
    }

    /// Runs `look` on the thread of the partition of this node with that index. The receiver fails if the partition has
    /// ended or does not exist.
    pub fn look<T: Send + 'static>(
        &self,
        partition: PartitionId,
        look: impl FnOnce(Now, &Partition) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        if let Some(mailbox) = self.mailboxes.get(partition.index()) {
            mailbox.send(PartitionCommand::Inspect(Box::new(move |now, partition, _| {
                // The caller may have stopped waiting.
                let _ = sender.send(look(now, partition));
            })));
        }
        receiver
    }

    /// Runs `work` on the mirrors of the partition with that index. The receiver fails as that of `look`.
    pub fn on_mirrors<T: Send + 'static>(
        &self,
        partition: usize,
        work: impl FnOnce(Now, &mut Partition) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        if let Some(mailbox) = self.mailboxes.get(partition) {
            mailbox.send(PartitionCommand::Mirrors(Box::new(move |now, partition| {
                // The caller may have stopped waiting.
                let _ = sender.send(work(now, partition));
            })));
        }
        receiver
    }

    /// Relays of these guilds on every partition, each with its guild. Partitions that have ended are left out. The
    /// cost on a partition's thread grows with the number of guilds: callers bound it.
    pub async fn guild_relays(&self, guild_ids: Arc<[GuildId]>) -> Vec<(GuildId, report::Relay)> {
        let look = |partition: u16| {
            let guild_ids = guild_ids.clone();
            self.look(PartitionId(partition), move |_, partition| {
                let of_guild =
                    |id: &GuildId| partition.relay_reports(*id).map(|relay| (*id, relay)).collect::<Vec<_>>();
                guild_ids.iter().flat_map(of_guild).collect::<Vec<_>>()
            })
        };
        let looks: Vec<_> = (0..self.mailboxes.len() as u16).map(look).collect();
        let mut all = Vec::new();
        for answer in looks {
            all.extend(answer.await.unwrap_or_default());
        }
        all
    }

    /// Closes sessions on every partition. Each partition answers with its number of closed sessions.
    pub fn close_sessions(&self, whose: &Whose, code: CloseCode) -> Vec<oneshot::Receiver<usize>> {
        let close = |mailbox: &Mailbox| {
            let (sender, receiver) = oneshot::channel();
            let closed = Box::new(move |count| {
                // The caller may have stopped waiting.
                let _ = sender.send(count);
            });
            mailbox.send(PartitionCommand::Close { whose: whose.clone(), code, closed });
            receiver
        };
        self.mailboxes.iter().map(close).collect()
    }

    /// Sends an event to the sessions of these accounts, on every partition. Returns the number of partitions.
    pub fn publish_to_users(&self, published: &Arc<Published>, user_ids: &Arc<[UserId]>) -> usize {
        for mailbox in self.mailboxes.iter() {
            let (published, user_ids) = (published.clone(), user_ids.clone());
            mailbox.send(PartitionCommand::PublishToUsers { published, user_ids, permit: None, trace: None });
        }
        self.mailboxes.len()
    }

    /// Whether every partition has room for another event of a direct message.
    #[must_use]
    pub fn has_room_for_directs(&self) -> bool {
        self.mailboxes.iter().all(Mailbox::has_room_for_direct)
    }

    /// Sends an event of a direct message to its recipients, on every partition. With `trace` these add their spans.
    /// Returns the number of partitions.
    pub fn publish_direct(&self, published: &Arc<Published>, trace: Option<&TraceHandle>) -> usize {
        let trace = trace.map(|trace| (trace, Instant::now()));
        let user_ids: Arc<[UserId]> = published.event.audience.rule.users().into();
        for mailbox in self.mailboxes.iter() {
            let (published, user_ids) = (published.clone(), user_ids.clone());
            mailbox.send(PartitionCommand::PublishToUsers {
                published,
                user_ids,
                permit: Some(mailbox.direct_permit()),
                trace: trace.map(|(trace, at)| (trace.clone(), at)),
            });
        }
        self.mailboxes.len()
    }

    /// Sends RECONNECT (op 7) to `count` more clients of each partition. A connection that is still open after
    /// `grace_ms` is closed with 4000. Waits for the partitions' answers; a partition that has ended gives none.
    #[must_use]
    pub fn send_reconnects(&self, count: usize, grace_ms: u64) -> Vec<Leaving> {
        let (answer, answers) = mpsc::channel();
        for mailbox in self.mailboxes.iter() {
            mailbox.send(PartitionCommand::SendReconnects { count, grace_ms, answer: answer.clone() });
        }
        drop(answer);
        answers.iter().collect()
    }

    /// Ends the voice states of all sessions. Waits until the guilds have the messages.
    pub fn leave_voice(&self) {
        let (done, all_done) = mpsc::channel();
        self.mailboxes.iter().for_each(|mailbox| mailbox.send(PartitionCommand::LeaveVoice { done: done.clone() }));
        drop(done);
        all_done.iter().for_each(drop);
    }

    /// Snapshots of all sessions that can be resumed, one hand-over per partition. Call it once the guilds have ended.
    /// `bytes_max` bounds all partitions together. After a possible loss, sessions see an outage of every guild. Waits.
    #[must_use]
    pub fn hand_over(&self, bytes_max: usize, loss: RecentLoss) -> Vec<HandOver> {
        let bytes_max = bytes_max / self.mailboxes.len().max(1);
        let (answer, answers) = mpsc::channel();
        self.mailboxes
            .iter()
            .for_each(|mailbox| mailbox.send(PartitionCommand::HandOver { bytes_max, loss, answer: answer.clone() }));
        drop(answer);
        answers.iter().collect()
    }

    /// Passes the sessions of the previous process to their partitions. Their connections go on after an unnoticed
    /// pause. Returns the number of restored sessions. Waits.
    #[must_use]
    pub fn take_over(&self, over: Vec<HandOver>, users: &Arc<BTreeMap<UserId, Arc<User>>>, pause: Pause) -> usize {
        let (taken, counts) = mpsc::channel();
        for over in over.into_iter().map(Arc::new) {
            // In a cluster the process before may have had another number, or sessions that came from other nodes.
            for mailbox in self.homes_of(&over) {
                let (over, users, taken) = (over.clone(), users.clone(), taken.clone());
                mailbox.send(PartitionCommand::TakeOver { over, users, pause, taken });
            }
        }
        drop(taken);
        counts.iter().sum()
    }

    /// The partition of this node that has a session, or would have it. None: the id is not one of ours.
    #[must_use]
    pub fn home_of(&self, session_id: &str) -> Option<PartitionId> {
        session_home(session_id, self.node_number, self.mailboxes.len() as u16)
    }

    fn mailbox_of(&self, session_id: &str) -> Option<&Mailbox> {
        self.home_of(session_id).and_then(|home| self.mailboxes.get(home.index()))
    }

    /// Exports a session that its client resumes at another node, and forgets it here: `Partition::release_session`.
    /// The receiver fails if the partition has ended.
    pub fn release_session(
        &self,
        claim: SessionClaim,
        bytes_max: usize,
    ) -> oneshot::Receiver<Result<HandOver, ResumeFault>> {
        let (sender, receiver) = oneshot::channel();
        let home = self.mailbox_of(&claim.session_id);
        // A session whose claimant has stopped waiting is lost: its client identifies again.
        let answer = move |result| drop(sender.send(result));
        match home {
            Some(mailbox) => {
                let released = Box::new(answer);
                mailbox.send(PartitionCommand::Release { claim, bytes_max, released });
            }
            None => answer(Err(ResumeFault::Unknown)),
        }
        receiver
    }

    /// Has a session wait for its guilds to transfer it to another node: `Partition::begin_transfer`. The receiver
    /// fails if the partition has ended.
    pub fn begin_transfer(
        &self,
        claim: SessionClaim,
        ticket: u64,
        bytes_max: usize,
    ) -> oneshot::Receiver<Result<HandOver, ResumeFault>> {
        let (sender, receiver) = oneshot::channel();
        // A session whose claimant has stopped waiting stays after a time.
        let begun = move |result| drop(sender.send(result));
        match self.mailbox_of(&claim.session_id) {
            Some(mailbox) => {
                let begun = Box::new(begun);
                mailbox.send(PartitionCommand::BeginTransfer { claim, ticket, bytes_max, begun });
            }
            None => begun(Err(ResumeFault::Unknown)),
        }
        receiver
    }

    /// Exports a session that its guilds have transferred, and forgets it here: `Partition::end_transfer`. The receiver
    /// fails if the partition has ended.
    pub fn end_transfer(
        &self,
        end: TransferEnd,
        is_late: bool,
        bytes_max: usize,
    ) -> oneshot::Receiver<Result<Option<HandOver>, ResumeFault>> {
        let (sender, receiver) = oneshot::channel();
        // A session whose claimant has stopped waiting is lost: its client identifies again.
        let ended = move |result| drop(sender.send(result));
        match self.mailbox_of(&end.session_id) {
            Some(mailbox) => {
                let ended = Box::new(ended);
                mailbox.send(PartitionCommand::EndTransfer { end, is_late, bytes_max, ended });
            }
            None => ended(Err(ResumeFault::Unknown)),
        }
        receiver
    }

    /// Takes a session that this node has fetched although no client waits for it: `Partition::handle_fetched`.
    pub fn take_fetched(&self, session_id: &str, user: Arc<User>, over: HandOver) {
        if let Some(mailbox) = self.mailbox_of(session_id) {
            let fetched = Fetched { session_id: session_id.into(), user, is_rest: false, result: Ok(over) };
            mailbox.send(PartitionCommand::Fetched(Box::new(fetched)));
        }
    }

    /// Exports sessions without a connection for another node, and forgets them here: `Partition::release_sessions`.
    /// The receiver fails if the partition has ended.
    pub fn release_sessions(
        &self,
        partition: PartitionId,
        ids: Vec<Arc<str>>,
        bytes_max: usize,
    ) -> oneshot::Receiver<(HandOver, usize)> {
        let (sender, receiver) = oneshot::channel();
        let released = Box::new(move |result| {
            // Without a receiver the released sessions are lost: their clients identify again.
            let _ = sender.send(result);
        });
        if let Some(mailbox) = self.mailboxes.get(partition.index()) {
            mailbox.send(PartitionCommand::ReleaseMany { ids, bytes_max, released });
        }
        receiver
    }

    /// Restores sessions of a node that leaves, on their partitions. Returns their number.
    pub async fn take_arrivals(&self, over: HandOver, users: BTreeMap<UserId, Arc<User>>) -> usize {
        let (over, users) = (Arc::new(over), Arc::new(users));
        let mut counts = Vec::new();
        for mailbox in self.homes_of(&over) {
            let (sender, receiver) = oneshot::channel();
            let arrived = Box::new(move |count| {
                // The caller may have stopped waiting.
                let _ = sender.send(count);
            });
            let (over, users) = (over.clone(), users.clone());
            mailbox.send(PartitionCommand::Arrivals { over, users, arrived });
            counts.push(receiver);
        }
        let mut sum = 0;
        for count in counts {
            sum += count.await.unwrap_or(0);
        }
        sum
    }

    /// Partitions of this node with sessions of a hand-over.
    fn homes_of(&self, over: &HandOver) -> impl Iterator<Item = &Mailbox> {
        let homes: BTreeSet<usize> =
            over.sessions.iter().filter_map(|kept| Some(self.home_of(&kept.id)?.index())).collect();
        homes.into_iter().filter_map(|index| self.mailboxes.get(index))
    }

    /// Stops reading from clients.
    pub fn freeze(&self) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.send(PartitionCommand::Freeze(true)));
    }

    /// Reads from clients again.
    pub fn thaw(&self) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.send(PartitionCommand::Freeze(false)));
    }

    /// Waits until no client of a frozen node waits for an answer, for at most `patience`.
    pub async fn settle(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        for partition in 0..self.mailboxes.len() as u16 {
            while self.look(PartitionId(partition), |_, partition| partition.is_settled()).await == Ok(false)
                && Instant::now() < deadline
            {
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        }
    }

    /// As `hand_over`, with the connections that can go on in another process. The others get op 7, and end with
    /// `RunningServer::end`. Waits.
    #[must_use]
    pub fn pass_on(&self, bytes_max: usize, loss: RecentLoss) -> Vec<PassedOn> {
        let bytes_max = bytes_max / self.mailboxes.len().max(1);
        let (answer, answers) = mpsc::channel();
        for mailbox in self.mailboxes.iter() {
            mailbox.send(PartitionCommand::PassOn { bytes_max, loss, answer: answer.clone() });
        }
        drop(answer);
        answers.iter().collect()
    }

    /// Waits until the guilds have attached all restored sessions. Sessions that still wait after
    /// `patience` see an outage.
    pub async fn wait_for_restores(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        for partition in 0..self.mailboxes.len() as u16 {
            while self.look(PartitionId(partition), |_, partition| partition.is_restoring()).await == Ok(true) {
                if Instant::now() >= deadline {
                    tracing::warn!("not all guilds answered in time: their sessions see an outage");
                    self.mailboxes.iter().for_each(|mailbox| mailbox.send(PartitionCommand::FailPendingRestores));
                    return self.hand_out().await;
                }
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        }
        self.hand_out().await;
    }

    /// Waits until guilds have what the relays here want of them.
    async fn hand_out(&self) {
        for mailbox in self.mailboxes.iter() {
            let (done, handed_out) = oneshot::channel();
            mailbox.send(PartitionCommand::HandOut { done });
            // The partition may have ended.
            let _ = handed_out.await;
        }
    }

    /// Replaces the limits of every partition; see `PartitionConfig::take_limits`.
    pub fn take_limits(&self, config: PartitionConfig) {
        let config = Arc::new(config);
        self.mailboxes.iter().for_each(|mailbox| mailbox.send(PartitionCommand::Limits(config.clone())));
    }

    /// Counters of every partition, and its current numbers of connections and sessions.
    #[must_use]
    pub fn inspect(&self) -> Vec<PartitionState> {
        let (sender, receiver) = mpsc::channel();
        for mailbox in self.mailboxes.iter() {
            let sender = sender.clone();
            mailbox.send(PartitionCommand::Inspect(Box::new(move |_, partition, latency| {
                let _ = sender.send(PartitionState {
                    counters: partition.counters(),
                    conns_count: partition.conns_count(),
                    sessions_count: partition.sessions_count(),
                    attached_count: partition.attached_count(),
                    latency: latency.snapshot(),
                    shared_match: partition.shared_match(),
                    shared_match_checked: partition.shared_match_checked(),
                    context_moves: partition.context_moves(),
                    sent: partition.sent().clone(),
                });
            })));
        }
        drop(sender);
        receiver.iter().collect()
    }
}

/// A partition at one moment.
#[derive(Clone, Debug)]
pub struct PartitionState {
    /// Since the start.
    pub counters: Counters,
    pub conns_count: usize,
    /// Sessions now, connected or not.
    pub sessions_count: usize,
    /// Sessions that have a connection.
    pub attached_count: usize,
    /// From a guild's message, durable, to its last frame: written, or left to a socket that was full.
    pub latency: DurationsSnapshot,
    /// Counters of shared-match, and the heap of its history and indexes.
    pub shared_match: (guildhall_shared_match::Counters, usize),
    /// What their self-check has seen.
    pub shared_match_checked: Checked,
    /// Streams that left their context for shared-match.
    pub context_moves: ContextMoves,
    /// Bytes by dispatch type, codec and encoding.
    pub sent: SentTable,
}

struct Prepared {
    poll: mio::Poll,
    receiver: crate::mailbox::MailboxReceiver,
    mailbox: Mailbox,
}

/// A server before its threads run. Its mailboxes exist, so that guilds can be connected to it first.
pub struct Server {
    config: ServerConfig,
    clock: SystemClock,
    prepared: Vec<Prepared>,
    partitions: Partitions,
    gate: Arc<IdentifyGate>,
    watch: HttpWatch,
}

/// Counters of the HTTP server, for metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HttpWatch {
    conns_count: Arc<AtomicUsize>,
    admission: Arc<Admission>,
    counters: Arc<HttpCounters>,
}

/// The HTTP server at one moment.
#[derive(Clone, Copy, Debug)]
pub struct HttpState {
    /// Sockets of all kinds.
    pub sockets: usize,
    /// Those that send requests.
    pub rest_sockets: usize,
    /// Sockets refused for lack of a place.
    pub refused_full_total: u64,
    /// Refused because too many had not sent a request yet.
    pub refused_handshakes_total: u64,
    /// Sockets refused because their address had too many.
    pub refused_address_total: u64,
    /// Refused because the process had no descriptor left.
    pub refused_descriptors_total: u64,
    /// Sockets reset because their client did not read.
    pub stalled_total: u64,
    /// Answers of REST by kind of status, without health and metrics.
    pub answers_total: [(&'static str, u64); ANSWER_KINDS.len()],
}

impl HttpWatch {
    /// The counters at this moment.
    #[must_use]
    pub fn state(&self) -> HttpState {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let HttpCounters { full, handshakes, address, descriptors, stalled, answers } = &*self.counters;
        HttpState {
            sockets: self.conns_count.load(Ordering::Relaxed),
            rest_sockets: self.admission.rest_count(),
            refused_full_total: of(full),
            refused_handshakes_total: of(handshakes),
            refused_address_total: of(address),
            refused_descriptors_total: of(descriptors),
            stalled_total: of(stalled),
            answers_total: std::array::from_fn(|kind| (ANSWER_KINDS[kind], of(&answers[kind]))),
        }
    }
}

impl Server {
    /// Creates the partitions' polls and mailboxes.
    ///
    /// # Errors
    /// The system refuses a poll.
    pub fn prepare(config: ServerConfig, clock: SystemClock) -> io::Result<Self> {
        let mut prepared = Vec::new();
        for _ in 0..config.partitions_count.max(1) {
            let poll = mio::Poll::new()?;
            let waker = mio::Waker::new(poll.registry(), WAKE)?;
            let (mailbox, receiver) = mailbox(waker);
            prepared.push(Prepared { poll, receiver, mailbox });
        }
        let mailboxes: Arc<[Mailbox]> = prepared.iter().map(|prepared| prepared.mailbox.clone()).collect();
        let accounts = (0..mailboxes.len()).map(|index| Arc::new(partition_account(index))).collect();
        let gate = Arc::new(IdentifyGate::new(config.identify));
        let watch = HttpWatch {
            conns_count: Arc::default(),
            admission: Arc::new(Admission::new(config.admission)),
            counters: Arc::default(),
        };
        let (node_number, refused) = (config.node_number, Arc::new(Refused::new(REFUSED_LOG_EVERY_MS)));
        let partitions = Partitions { node_number, mailboxes, accounts, canaries: Arc::default(), refused };
        Ok(Self { config, clock, prepared, partitions, gate, watch })
    }

    /// Counters of the HTTP server.
    #[must_use]
    pub fn http_watch(&self) -> HttpWatch {
        self.watch.clone()
    }

    /// Access to the partitions, for guilds.
    #[must_use]
    pub fn partitions(&self) -> Partitions {
        self.partitions.clone()
    }

    /// Limits on IDENTIFY, for `GET /gateway/bot`.
    #[must_use]
    pub fn identify_gate(&self) -> Arc<IdentifyGate> {
        self.gate.clone()
    }

    /// Starts the partitions, and accepts sockets of `listener`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// A thread cannot be started, or the listener is not usable.
    pub fn start(
        self,
        listener: TcpListener,
        router: Router,
        upstream: Arc<dyn Upstream>,
        peers: Peers,
    ) -> io::Result<RunningServer> {
        let running = self.start_partitions(router, upstream, peers)?;
        running.open(listener)
    }

    /// Starts the partitions. No socket is accepted before `Starting::open`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start_partitions(self, router: Router, upstream: Arc<dyn Upstream>, peers: Peers) -> io::Result<Starting> {
        let partitions_count = self.prepared.len() as u16;
        let failure = Arc::new(Notify::new());
        let batches = may_batch(self.config.io_uring, || SendBatch::new().map(drop));
        let mut threads = Vec::new();
        for (index, Prepared { poll, receiver, mailbox }) in self.prepared.into_iter().enumerate() {
            let mut config = self.config.partition.clone();
            config.partition = PartitionId::of_node(self.config.node_number, index as u8);
            config.partitions_count = partitions_count;
            let gatekeeper: Arc<dyn Gatekeeper> = self.gate.clone();
            let (upstream, mailboxes, clock) = (upstream.clone(), self.partitions.mailboxes.clone(), self.clock);
            let refused = self.partitions.refused.clone();
            let account = self.partitions.accounts[index].clone();
            let canaries = self.partitions.canaries.clone();
            let registry = poll.registry().try_clone()?;
            let run = move || {
                // Created here, because a partition never leaves its thread.
                let partition = Partition::new(config, gatekeeper);
                // Made here as well: a ring belongs to its thread. One that cannot be had is not missed.
                let batch = if batches { SendBatch::new().ok() } else { None };
                let sockets = Sockets::new(registry, batch);
                let stalled = VecDeque::new();
                PartitionLoop {
                    poll,
                    receiver,
                    mailboxes,
                    own_mailbox: mailbox,
                    partition,
                    sockets,
                    upstream,
                    clock,
                    refused,
                    stalled,
                    shutdown: Shutdown::No,
                    is_frozen: false,
                    latency: Durations::default(),
                    taken_at: Vec::new(),
                    timer: LoopTimer::new(account),
                    canaries,
                }
                .run()
            };
            let failure = failure.clone();
            // The state of a partition that panicked cannot be trusted: the process logs it and ends in order, and its
            // clients resume or identify again.
            let guarded = move || {
                match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => tracing::error!(partition = index, %error, "a partition's poll failed"),
                    Err(_) => tracing::error!(partition = index, "a partition panicked"),
                }
                failure.notify_one();
            };
            threads.push(std::thread::Builder::new().name(format!("partition-{index}")).spawn(guarded)?);
        }
        let tls = self.config.certificates.map(acceptor).transpose().map_err(io::Error::other)?;
        let http = Arc::new(HttpServer {
            router,
            mailboxes: self.partitions.mailboxes.clone(),
            conns_count: self.watch.conns_count,
            connections_max: AtomicUsize::new(self.config.connections_max),
            write_stall_ms: AtomicU64::new(self.config.partition.write_stall_ms),
            counters: self.watch.counters,
            is_draining: AtomicBool::new(false),
            is_ending: watch::Sender::new(false),
            dictionaries: self.config.partition.dictionaries,
            deflate: self.config.deflate,
            next_partition: AtomicUsize::new(0),
            tls,
            admission: self.watch.admission,
            peers,
            full_log: LogGate::new(FULL_LOG_EVERY_MS),
            clock: self.clock,
            access: self.config.access,
        });
        Ok(Starting { partitions: self.partitions, threads, http, gate: self.gate, failure, batches })
    }
}

/// A server whose partitions run and that accepts no sockets yet, so that restored sessions exist before
/// the first client.
pub struct Starting {
    partitions: Partitions,
    threads: Vec<JoinHandle<()>>,
    http: Arc<HttpServer>,
    gate: Arc<IdentifyGate>,
    failure: Arc<Notify>,
    batches: bool,
}

impl Starting {
    /// Passes connections of the previous process to the partitions of their sessions, which are restored. Returns the
    /// number of connections that go on. Waits.
    pub fn adopt(&self, conns: Vec<PassedConn>) -> usize {
        let mut of_partition: BTreeMap<usize, Vec<(MovedSocket, ConnSnapshot)>> = BTreeMap::new();
        let count = self.partitions.count();
        for (place, PassedConn { stream, state }) in conns.into_iter().enumerate() {
            let home = state.conn.session_id.as_deref().and_then(|id| self.partitions.home_of(id));
            let index = home.map_or(place % count, PartitionId::index);
            self.http.conns_count.fetch_add(1, Ordering::Relaxed);
            let mut permit = ConnPermit::new(self.http.conns_count.clone());
            permit.address = state.address.map(|address| self.http.admission.readmit(address));
            permit.access = self.http.access.clone().zip(state.access).map(|(log, access)| {
                let encoding = if state.conn.is_etf { Encoding::Etf } else { Encoding::Json };
                WebSocket::adopt(log, access, (encoding.name(), state.conn.compression.name()))
            });
            let dictionaries = self.http.dictionaries.current();
            let known = state.conn.compression.dictionary().and_then(|id| dictionaries.find(id));
            permit.dictionary = known.map(|known| DictionaryUse::begin(known.dictionary.clone()));
            let socket = MovedSocket { stream: mio::net::TcpStream::from_std(stream), answer: None, tls: None, permit };
            of_partition.entry(index).or_default().push((socket, state.conn));
        }
        let (adopted, counts) = mpsc::channel();
        for (index, conns) in of_partition {
            if let Some(mailbox) = self.partitions.mailboxes.get(index) {
                mailbox.send(PartitionCommand::Adopt { conns, adopted: adopted.clone() });
            }
        }
        drop(adopted);
        counts.iter().sum()
    }

    /// Accepts sockets of `listener`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The listener is not usable.
    pub fn open(self, listener: TcpListener) -> io::Result<RunningServer> {
        let local_addr = listener.local_addr()?;
        let Self { partitions, threads, http, gate, failure, batches } = self;
        let acceptor = tokio::spawn(accept(http.clone(), listener));
        Ok(RunningServer { partitions, threads, acceptor, local_addr, http, gate, failure, batches })
    }

    /// The partitions.
    #[must_use]
    pub fn partitions(&self) -> &Partitions {
        &self.partitions
    }
}

/// Probes io_uring, and logs the result.
fn may_batch(setting: IoUring, probe: impl FnOnce() -> io::Result<()>) -> bool {
    if setting == IoUring::Off {
        return false;
    }
    match probe() {
        Ok(()) => {
            tracing::info!("frames are sent in batches, by io_uring");
            true
        }
        Err(error) => {
            tracing::info!(%error, "io_uring cannot be used here: each frame is sent by itself");
            false
        }
    }
}

/// A server that accepts sockets.
pub struct RunningServer {
    partitions: Partitions,
    threads: Vec<JoinHandle<()>>,
    acceptor: tokio::task::JoinHandle<()>,
    local_addr: SocketAddr,
    http: Arc<HttpServer>,
    gate: Arc<IdentifyGate>,
    failure: Arc<Notify>,
    batches: bool,
}

impl RunningServer {
    /// Address of the listener.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Number of sockets, REST included.
    #[must_use]
    pub fn conns_count(&self) -> usize {
        self.http.conns_count.load(Ordering::Relaxed)
    }

    /// Whether frames are sent in batches.
    #[must_use]
    pub fn sends_in_batches(&self) -> bool {
        self.batches
    }

    /// Completes when a partition has panicked, or cannot poll its sockets. The process should then end, and
    /// be started again.
    pub async fn failed(&self) {
        self.failure.notified().await;
    }

    /// Access to the partitions.
    #[must_use]
    pub fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    /// Sets the limit on sockets, REST included.
    pub fn set_connections_max(&self, connections_max: usize) {
        self.http.connections_max.store(connections_max, Ordering::Relaxed);
    }

    /// Sets the time for which a REST client may read nothing. Applies to new sockets.
    pub fn set_write_stall_ms(&self, write_stall_ms: u64) {
        self.http.write_stall_ms.store(write_stall_ms, Ordering::Relaxed);
    }

    /// Sets the limits per address.
    pub fn set_admission(&self, limits: AdmissionLimits) {
        self.http.admission.set_limits(limits);
    }

    /// Accepts no sockets any more: they wait in the kernel, as long as a process has the listener. Waits until those
    /// that were accepted have sent their request, for at most `ms_max` milliseconds, and then for the answers, for at
    /// most as long again.
    pub async fn pause_accepting(&self, ms_max: u64) {
        self.acceptor.abort();
        let all_requested = async {
            while self.http.admission.handshakes_count() > 0 {
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_millis(ms_max), all_requested).await;
        self.end_requests(ms_max).await;
    }

    /// Accepts sockets again, after `pause_accepting`.
    pub fn accept_again(&mut self, listener: TcpListener) {
        self.http.is_ending.send_replace(false);
        self.acceptor = tokio::spawn(accept(self.http.clone(), listener));
    }

    /// Drains with [`DrainPlan::AT_ONCE`].
    pub fn stop(self) -> DrainReport {
        self.drain(DrainPlan::AT_ONCE)
    }

    /// Refuses upgrades and sends RECONNECT (op 7) to all clients, at the rate at which other nodes can start
    /// their sessions. Closes remaining connections with a code after which clients resume, stops accepting, and
    /// waits for the threads. REST is answered until the clients have left. Blocks for at most the time of the
    /// plan and two seconds.
    pub fn drain(self, plan: DrainPlan) -> DrainReport {
        let report = self.let_go(plan, None);
        self.end();
        report
    }

    /// First half of [`drain`](Self::drain): afterwards the clients have left, their sessions still exist, and no
    /// socket is accepted. The pace follows what other nodes have `accepted`. Blocks.
    pub fn let_go(&self, plan: DrainPlan, accepted: Option<&Accepted>) -> DrainReport {
        self.http.is_draining.store(true, Ordering::Release);
        let seed =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        let report = reconnect_all(&self.partitions, self.gate.starts_per_s_seen(), (plan, accepted), seed);
        self.acceptor.abort();
        report
    }

    /// Waits for the answers to REST requests in progress, and closes sockets without one. Returns after `ms_max`
    /// milliseconds at the latest, because streams do not end by themselves.
    pub async fn end_requests(&self, ms_max: u64) {
        self.http.is_ending.send_replace(true);
        let limit = Duration::from_millis(ms_max);
        let all_answered = async {
            while self.http.admission.rest_count() > 0 {
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        };
        let _ = tokio::time::timeout(limit, all_answered).await;
    }

    /// Second half of [`drain`](Self::drain): ends the threads. Blocks.
    pub fn end(self) {
        self.partitions.mailboxes.iter().for_each(|mailbox| mailbox.send(PartitionCommand::Stop));
        for thread in self.threads {
            // A panic of the thread was caught and logged.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_batches_where_they_are_off_or_do_not_work() {
        assert!(may_batch(IoUring::Auto, || Ok(())));
        assert!(!may_batch(IoUring::Auto, || Err(io::ErrorKind::PermissionDenied.into())));
        assert!(!may_batch(IoUring::Off, || unreachable!("no probe with io_uring off")));
    }
}
