//! Mailbox: how other threads reach a partition.
//!
//! Owns        two queues and the waker behind them.
//! Limits      guilds' messages: `GUILD_MESSAGES_MAX`, past it `try_send_guild` returns the message and the guild ends
//!             the relay's stream, which restarts by a snapshot. Events of direct messages: `DIRECT_EVENTS_MAX`, past
//!             it their guilds hold them, and accept no further commands. All others are bounded by their subjects: one
//!             per accepted socket, one answer per request, one per moving connection, one per join, one per decision
//!             on upgrades, one per request of a backend, which waits for the result, one per page of reports of
//!             sessions and per report of another node, which waits for the answer.

use crate::{
    access::{WebSocket, WebSocketSnapshot},
    admission::AddressPermit,
    tls::Records,
    url::Refusal,
};
use guildhall_accounting::{Durations, TraceHandle};
use guildhall_codec::DictionaryUse;
use guildhall_guild_protocol::{Published, ToRelay, Whose};
use guildhall_model::{CloseCode, GuildId, Message, User, UserId};
use guildhall_partition::{
    Account, AuthFailure, ConnParams, ConnSnapshot, ExperimentTable, Fetched, HandOver, Leaving, MovingConn, OwnData,
    Partition, PartitionConfig, Pause, RecentLoss, ResumeFault, SessionClaim, TransferEnd,
};
use guildhall_stdx::{Now, SlotKey};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender, SyncSender},
    },
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Guilds' messages that may wait for a partition.
pub const GUILD_MESSAGES_MAX: usize = 65_536;

/// Events of direct messages that may wait for a partition, not counting those that guild workers send at the same
/// moment.
pub const DIRECT_EVENTS_MAX: usize = 16_384;

/// A socket on its way to another partition.
pub struct MovedSocket {
    pub stream: mio::net::TcpStream,
    /// The answer to its upgrade, if it was not sent.
    pub answer: Option<Box<[u8]>>,
    pub tls: Option<Box<Records>>,
    pub permit: ConnPermit,
}

/// Reads a partition on its thread, and the latencies of its deliveries.
pub type InspectFn = dyn FnOnce(Now, &Partition, &Durations) + Send;

/// Reports sessions to other nodes, or takes their reports, on a partition's thread.
pub type MirrorsFn = dyn FnOnce(Now, &mut Partition) + Send;

/// A message to a partition from another thread, other than a guild's.
#[derive(strum::EnumDiscriminants)]
#[strum_discriminants(
    name(CommandKind),
    derive(strum::VariantNames),
    strum(serialize_all = "snake_case"),
    doc = "Kind of a command, for accounts of time."
)]
pub enum PartitionCommand {
    /// A socket finished its upgrade.
    Accepted {
        stream: std::net::TcpStream,
        /// TLS state. None: plain.
        tls: Option<Box<Records>>,
        /// The answer to the upgrade, if it was not sent.
        answer: Option<Box<[u8]>>,
        /// Bytes that arrived with or right after the upgrade request.
        early: Vec<u8>,
        params: Result<ConnParams, Refusal>,
        /// Decrements the node's connection count when the connection ends.
        permit: ConnPermit,
    },
    /// The answer to `Output::Authenticate`.
    Authenticated { conn: SlotKey, result: Result<Account, AuthFailure> },
    /// The answer to `Output::FetchMessages`.
    Messages { session: SlotKey, guild_id: GuildId, messages: Vec<Arc<Message>> },
    /// The answer to `Output::FetchDirects`; none: they could not be read.
    Directs { session: SlotKey, own: Option<OwnData> },
    /// The answer to `Output::FetchSession`.
    Fetched(Box<Fetched>),
    /// Exports a session that its client resumes at another node, and forgets it.
    Release { claim: SessionClaim, bytes_max: usize, released: Box<dyn FnOnce(Result<HandOver, ResumeFault>) + Send> },
    /// Has a session wait for its guilds to transfer it.
    BeginTransfer {
        claim: SessionClaim,
        ticket: u64,
        bytes_max: usize,
        begun: Box<dyn FnOnce(Result<HandOver, ResumeFault>) + Send>,
    },
    /// Exports a session that its guilds have transferred, and forgets it.
    EndTransfer {
        end: TransferEnd,
        is_late: bool,
        bytes_max: usize,
        ended: Box<dyn FnOnce(Result<Option<HandOver>, ResumeFault>) + Send>,
    },
    /// Exports sessions without a connection for another node, and forgets them. `released` gets how many ids it has
    /// done as well.
    ReleaseMany { ids: Vec<Arc<str>>, bytes_max: usize, released: Box<dyn FnOnce((HandOver, usize)) + Send> },
    /// Restores sessions of a node that leaves. `arrived` gets their number.
    Arrivals { over: Arc<HandOver>, users: Arc<BTreeMap<UserId, Arc<User>>>, arrived: Box<dyn FnOnce(usize) + Send> },
    /// A connection whose session lives on this partition.
    Moved { socket: MovedSocket, conn: Box<MovingConn> },
    /// An account joined a guild.
    Joined { user_id: UserId, guild_id: GuildId },
    /// An account changed.
    UserChanged(Arc<User>),
    /// Sends op 7 to this many clients with larger compression contexts.
    TakeBackUpgrades { count: usize },
    /// Replaces the running experiments.
    Experiments(Arc<ExperimentTable>),
    /// Sends op 7 to `count` clients in an arm of this experiment other than its control. `sent` gets their number.
    ReconnectTrials { experiment: u64, count: usize, sent: Box<dyn FnOnce(usize) + Send> },
    /// Closes these sessions. `closed` gets their number.
    Close { whose: Whose, code: CloseCode, closed: Box<dyn FnOnce(usize) + Send> },
    /// Sends an event to the sessions of these accounts, in any guild. With `permit` it counts for `DIRECT_EVENTS_MAX`.
    PublishToUsers {
        published: Arc<Published>,
        user_ids: Arc<[UserId]>,
        permit: Option<DirectPermit>,
        /// Span of the request that led to it, and the time of the hand-over.
        trace: Option<(TraceHandle, Instant)>,
    },
    /// Sends op 7 to this many more clients, and answers with the progress.
    SendReconnects { count: usize, grace_ms: u64, answer: Sender<Leaving> },
    /// Takes all sessions out of voice.
    LeaveVoice { done: Sender<()> },
    /// Exports all sessions that can be resumed. The guilds of this node have ended.
    HandOver { bytes_max: usize, loss: RecentLoss, answer: Sender<HandOver> },
    /// Restores sessions of the previous process, and answers with their number.
    TakeOver { over: Arc<HandOver>, users: Arc<BTreeMap<UserId, Arc<User>>>, pause: Pause, taken: Sender<usize> },
    /// Sends an outage to sessions that still wait for a guild after a restart.
    FailPendingRestores,
    /// The reply follows when guilds have all messages to them, or their mailboxes are full.
    HandOut { done: oneshot::Sender<()> },
    /// Replaces the limits.
    Limits(Arc<PartitionConfig>),
    /// Reads no socket while it is frozen.
    Freeze(bool),
    /// Exports all sessions that can be resumed, and takes out the connections that can go on in another process. The
    /// guilds of this node have ended.
    PassOn { bytes_max: usize, loss: RecentLoss, answer: Sender<PassedOn> },
    /// Connections of the previous process. Answers with their number.
    Adopt { conns: Vec<(MovedSocket, ConnSnapshot)>, adopted: Sender<usize> },
    /// Closes all connections, and ends the loop.
    Stop,
    /// Runs a function on the partition.
    Inspect(Box<InspectFn>),
    /// Runs a function on the partition's mirrors, and reports of its sessions.
    Mirrors(Box<MirrorsFn>),
}

/// Sessions and connections of one partition for the next process.
#[derive(Debug, Default)]
pub struct PassedOn {
    pub over: HandOver,
    pub conns: Vec<PassedConn>,
}

/// A connection for the next process. Its socket is closed when it is dropped, if no other process has it.
#[derive(Debug)]
pub struct PassedConn {
    pub stream: std::net::TcpStream,
    pub state: PassedState,
}

/// A connection without its socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PassedState {
    pub conn: ConnSnapshot,
    /// Address that its limits apply to. None: it has none.
    pub address: Option<IpAddr>,
    /// Its line of the access log. None: there is no log.
    pub access: Option<WebSocketSnapshot>,
}

/// Counts one connection of the node for as long as it lives.
#[derive(Debug)]
pub struct ConnPermit {
    count: Arc<std::sync::atomic::AtomicUsize>,
    /// Place among the connections of its address, once it is a gateway connection.
    pub address: Option<AddressPermit>,
    /// Access log line, written when the connection ends.
    pub access: Option<Box<WebSocket>>,
    /// Counts the connection as one with its dictionary.
    pub dictionary: Option<DictionaryUse>,
}

impl ConnPermit {
    /// For a connection that was counted already.
    pub fn new(count: Arc<std::sync::atomic::AtomicUsize>) -> Self {
        Self { count, address: None, access: None, dictionary: None }
    }
}

impl Drop for ConnPermit {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One event of a direct message that waits for the partition.
pub struct DirectPermit(Arc<AtomicUsize>);

impl Drop for DirectPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A guild's message on its way to a relay.
pub struct GuildMessage {
    pub handed_over_at: Instant,
    pub message: ToRelay,
    /// Span of the request that led to it. None: that request has no trace.
    pub trace: Option<TraceHandle>,
}

/// The sending end. Cheap to clone.
#[derive(Clone)]
pub struct Mailbox {
    directs_count: Arc<AtomicUsize>,
    guild: SyncSender<GuildMessage>,
    commands: Sender<PartitionCommand>,
    waker: Arc<mio::Waker>,
    is_awake: Arc<AtomicBool>,
    lost_at: Arc<Mutex<Option<Instant>>>,
}

/// The receiving end.
pub struct MailboxReceiver {
    pub guild: Receiver<GuildMessage>,
    pub commands: Receiver<PartitionCommand>,
    is_awake: Arc<AtomicBool>,
    lost_at: Arc<Mutex<Option<Instant>>>,
}

/// A mailbox whose owner sleeps in the poll behind `waker`.
pub fn mailbox(waker: mio::Waker) -> (Mailbox, MailboxReceiver) {
    let (guild, guild_receiver) = mpsc::sync_channel(GUILD_MESSAGES_MAX);
    let (commands, commands_receiver) = mpsc::channel();
    let is_awake = Arc::new(AtomicBool::new(false));
    let directs_count = Arc::new(AtomicUsize::new(0));
    let lost_at = Arc::new(Mutex::new(None));
    let receiver = MailboxReceiver {
        guild: guild_receiver,
        commands: commands_receiver,
        is_awake: is_awake.clone(),
        lost_at: lost_at.clone(),
    };
    (Mailbox { directs_count, guild, commands, waker: Arc::new(waker), is_awake, lost_at }, receiver)
}

impl Mailbox {
    /// Hands over a guild's message without waiting.
    ///
    /// # Errors
    /// The message, if the mailbox is full or its owner has ended.
    pub fn try_send_guild(&self, message: ToRelay, trace: Option<TraceHandle>) -> Result<(), ToRelay> {
        let message = GuildMessage { handed_over_at: Instant::now(), message, trace };
        self.guild.try_send(message).map_err(|error| match error {
            mpsc::TrySendError::Full(back) => {
                *self.lost_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(back.handed_over_at);
                back.message
            }
            mpsc::TrySendError::Disconnected(back) => back.message,
        })?;
        self.wake();
        Ok(())
    }

    /// Whether another event of a direct message may come.
    pub fn has_room_for_direct(&self) -> bool {
        self.directs_count.load(Ordering::Relaxed) < DIRECT_EVENTS_MAX
    }

    /// Counts one until it is dropped.
    pub fn direct_permit(&self) -> DirectPermit {
        self.directs_count.fetch_add(1, Ordering::Relaxed);
        DirectPermit(self.directs_count.clone())
    }

    /// Hands over anything else; dropped when the owner is gone.
    pub fn send(&self, command: PartitionCommand) {
        if self.commands.send(command).is_ok() {
            self.wake();
        }
    }

    fn wake(&self) {
        // Only the first sender since `begin` has to wake it.
        if !self.is_awake.swap(true, Ordering::AcqRel)
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "a partition could not be woken");
        }
    }
}

impl MailboxReceiver {
    /// Whether a guild found the mailbox full within `time`, and may not have restarted its stream since.
    pub fn has_lost_within(&self, time: Duration) -> bool {
        self.lost_at.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| at.elapsed() < time)
    }

    /// The owner is about to read the queues: later senders have to wake it again.
    pub fn begin(&self) {
        self.is_awake.store(false, Ordering::Release);
    }
}
