//! Mailbox: how other threads reach a partition.
//!
//! Owns        two queues and the waker behind them.
//! Limits      guilds' messages: `GUILD_MESSAGES_MAX`, past it `try_send_guild` gives the message back and the guild cuts the
//!             relay's stream (it starts again by snapshot). Events of direct messages: `DIRECT_EVENTS_MAX`, past it their guilds
//!             keep them, and take no further commands. All others are bounded by what they are about: one per
//!             accepted socket, one answer per connection that asked, one per moving connection, one per join,
//!             one per decision on upgrades, one per request of a backend, which waits for what becomes of it.

use crate::{access::WebSocket, admission::AddressPermit, tls::Records, url::Refusal};
use guildhall_guild_protocol::{Published, ToRelay};
use guildhall_model::{CloseCode, Direct, GuildId, Message, User, UserId};
use guildhall_partition::{
    Account, AuthFailure, ConnParams, HandOver, Leaving, MovingConn, Partition, PartitionConfig, Whose,
};
use guildhall_stdx::{Histogram, Now, SlotKey};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender, SyncSender},
    },
    time::{Duration, Instant},
};

/// Guilds' messages that may wait for a partition.
pub const GUILD_MESSAGES_MAX: usize = 65_536;

/// Events of direct messages that may wait for a partition, but for those that guild workers hand over at the same moment.
pub const DIRECT_EVENTS_MAX: usize = 16_384;

/// A socket on its way to another partition.
pub struct MovedSocket {
    pub stream: mio::net::TcpStream,
    pub tls: Option<Box<Records>>,
    pub permit: ConnPermit,
}

/// Looks at a partition, on its thread, and at how long its deliveries take.
pub type InspectFn = dyn FnOnce(Now, &Partition, &Histogram) + Send;

/// Everything that is no guild's message.
#[derive(strum::EnumDiscriminants)]
#[strum_discriminants(
    name(CommandKind),
    derive(strum::VariantNames),
    strum(serialize_all = "snake_case"),
    doc = "Which command it is: for accounts of time."
)]
pub enum PartitionCommand {
    /// A socket finished its upgrade.
    Accepted {
        stream: std::net::TcpStream,
        /// Its keys, if it speaks TLS.
        tls: Option<Box<Records>>,
        /// What came with or right after the upgrade request.
        early: Vec<u8>,
        params: Result<ConnParams, Refusal>,
        /// Gives the node's connection count back when it ends.
        permit: ConnPermit,
    },
    /// The answer to `Output::Authenticate`.
    Authenticated { conn: SlotKey, result: Result<Account, AuthFailure> },
    /// The answer to `Output::FetchMessages`.
    Messages { session: SlotKey, guild_id: GuildId, messages: Vec<Arc<Message>> },
    /// The answer to `Output::FetchDirects`; none: they could not be read.
    Directs { session: SlotKey, directs: Option<Vec<Direct>> },
    /// A connection whose session lives on this partition.
    Moved { socket: MovedSocket, conn: Box<MovingConn> },
    /// An account joined a guild.
    Joined { user_id: UserId, guild_id: GuildId },
    /// An account changed.
    UserChanged(Arc<User>),
    /// Ask so many clients with larger compression contexts to reconnect.
    TakeBackUpgrades { count: usize },
    /// Close these sessions; who asked is told how many there were.
    Close { whose: Whose, code: CloseCode, closed: Box<dyn FnOnce(usize) + Send> },
    /// Tell the sessions of these accounts, whatever guilds they are in. `permit`: it counts for `DIRECT_EVENTS_MAX`.
    PublishToUsers { published: Arc<Published>, user_ids: Arc<[UserId]>, permit: Option<DirectPermit> },
    /// Ask so many more clients to go away and resume (op 7), and say how far that is.
    SendReconnects { count: usize, grace_ms: u64, answer: Sender<Leaving> },
    /// Have all sessions leave voice.
    LeaveVoice { done: Sender<()> },
    /// The guilds have ended: give all sessions away that can be resumed.
    HandOver { bytes_max: usize, answer: Sender<HandOver> },
    /// Sessions of the process before this one. How many could be taken up.
    TakeOver { over: HandOver, users: Arc<BTreeMap<UserId, Arc<User>>>, taken: Sender<usize> },
    /// Sessions that still wait for a guild are told that it is out of reach.
    FailPendingRestores,
    /// Take over other limits.
    Limits(Arc<PartitionConfig>),
    /// Close who is there, and end.
    Stop,
    /// Say what was counted so far.
    Inspect(Box<InspectFn>),
}

/// Counts one connection of the node for as long as it lives.
#[derive(Debug)]
pub struct ConnPermit {
    count: Arc<std::sync::atomic::AtomicUsize>,
    /// One of its address's connections as well, once it is a gateway connection.
    pub address: Option<AddressPermit>,
    /// Writes a line when the connection ends.
    pub access: Option<Box<WebSocket>>,
}

impl ConnPermit {
    /// For one that was counted already.
    pub fn new(count: Arc<std::sync::atomic::AtomicUsize>) -> Self {
        Self { count, address: None, access: None }
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

/// The sending end. Cheap to clone.
#[derive(Clone)]
pub struct Mailbox {
    directs_count: Arc<AtomicUsize>,
    guild: SyncSender<(Instant, ToRelay)>,
    commands: Sender<PartitionCommand>,
    waker: Arc<mio::Waker>,
    is_awake: Arc<AtomicBool>,
    lost_at: Arc<Mutex<Option<Instant>>>,
}

/// The receiving end.
pub struct MailboxReceiver {
    /// With the time it was handed over.
    pub guild: Receiver<(Instant, ToRelay)>,
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
    /// Gives it back when the mailbox is full or its owner is gone.
    pub fn try_send_guild(&self, message: ToRelay) -> Result<(), ToRelay> {
        self.guild.try_send((Instant::now(), message)).map_err(|error| match error {
            mpsc::TrySendError::Full((at, message)) => {
                *self.lost_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
                message
            }
            mpsc::TrySendError::Disconnected((_, message)) => message,
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
        // Only the first sender since the owner last looked has to wake it.
        if !self.is_awake.swap(true, Ordering::AcqRel)
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "a partition could not be woken");
        }
    }
}

impl MailboxReceiver {
    /// Whether a guild found the mailbox full within `time`, and may not have begun anew since.
    pub fn has_lost_within(&self, time: Duration) -> bool {
        self.lost_at.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| at.elapsed() < time)
    }

    /// The owner is about to look into the queues: whoever sends from now on has to wake it again.
    pub fn begin(&self) {
        self.is_awake.store(false, Ordering::Release);
    }
}
