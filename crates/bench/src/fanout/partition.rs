//! A partition's thread, as the node runs it but without sockets, and its pretended clients.
//!
//! Owns        one thread per partition, and what it counts.
//! Invariants  the partition is the node's own and is entered through the doors the node uses. A client here has always
//!             room, heartbeats, and has read everything it was sent.
//! Limits      `ENTERING_MAX` sessions of a partition are on their way into the guild at once.
//! Not here    the kernel: nothing is sent. Payloads of clients: `clients`.

use super::{Report, clients, guild::ToGuildThread};
use crate::{
    crowd,
    frames::{self, Sink},
    sched::thread_cpu,
};
use anyhow::{Context, Result, bail};
use guildhall_guild_protocol::{RelayMessage, ToRelay};
use guildhall_net::SystemClock;
use guildhall_partition::{Account, ConnParams, Delivery, Output, OwnData, Partition};
use guildhall_stdx::{Now, Rng, SlotKey, heap::MemoryUse};
use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

/// Sessions of one partition that wait for their READY.
const ENTERING_MAX: usize = 128;
/// The guild's messages per turn, as in the node's loop.
const MESSAGES_PER_TURN: usize = 256;
/// Longest and shortest time between two checks of heartbeats and timers. Messages of the guild wake
/// the partition earlier.
const TURN_MAX: Duration = Duration::from_millis(50);
const TURN_MIN: Duration = Duration::from_millis(5);
/// Sessions between two signs of progress.
const PROGRESS: usize = 4096;
/// Event of passive updates in the form that the capabilities of `clients` select.
pub const PASSIVE_UPDATES: &str = "PASSIVE_UPDATE_V2";
/// Name of member list updates.
pub const LIST_UPDATES: &str = "GUILD_MEMBER_LIST_UPDATE";

/// To a partition's thread.
pub enum ToPartitionThread {
    /// A message of the guild.
    Guild(ToRelay),
    /// All of this event was sent before.
    Done(usize),
    /// These members open a session each, once those before have.
    Enter {
        members: Range<usize>,
        /// They display the guild, and follow some of this many members.
        subscribe_to: Option<usize>,
    },
    /// Every client heartbeats once, so that nothing is kept for it that it has read.
    HeartbeatAll,
    /// Counting begins.
    Begin,
    /// A block of events ends: report CPU time and deliveries so far.
    Mark,
    /// Report memory by owner.
    Memory,
    /// Report the counts, and end.
    End,
}

/// CPU time and deliveries of a partition's thread so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    pub cpu: Duration,
    pub deliveries: u64,
}

/// Memory of a partition by owner, and how long the estimate took.
#[derive(Clone, Debug)]
pub struct MemoryReport {
    pub held: Vec<MemoryUse>,
    pub took: Duration,
}

/// Counters of a partition's thread.
#[derive(Clone, Debug, Default)]
pub struct PartitionReport {
    pub cpu: Duration,
    pub deliveries: u64,
    /// By name of event.
    pub deliveries_of: HashMap<&'static str, u64>,
    pub bytes: u64,
    pub heartbeats: u64,
    pub heartbeats_cpu: Duration,
    /// Of the timers that sent passive updates.
    pub passive_updates_cpu: Duration,
    pub sessions: usize,
}

/// The ends of a partition's channels.
pub struct PartitionEnds {
    pub inbox: Receiver<ToPartitionThread>,
    pub guild: Sender<ToGuildThread>,
    pub reports: Sender<Report>,
}

/// A partition and its clients.
pub struct PartitionThread {
    partition: Partition,
    params: ConnParams,
    clock: SystemClock,
    ends: PartitionEnds,
    link: Sink,
    /// Members who are yet to open a session, and whether they subscribe then.
    to_enter: Range<usize>,
    subscribe_to: Option<usize>,
    /// Connections that wait for the guild, oldest first.
    entering: VecDeque<SlotKey>,
    /// Sessions entered since the last sign of progress.
    entered: usize,
    conns: Vec<SlotKey>,
    heartbeats: Heartbeats,
    rng: Rng,
    /// Events whose messages were all taken, but are not reported yet.
    done: Vec<usize>,
    counted: PartitionReport,
    at_start: Option<CountersAtStart>,
    is_ended: bool,
}

/// Schedule of heartbeats: all connections in turn, each once per interval.
#[derive(Debug)]
struct Heartbeats {
    frame: Vec<u8>,
    /// A copy of it.
    input: Vec<u8>,
    interval: Duration,
    /// How many are due, with a fraction.
    due: f64,
    looked_at: Instant,
    next: usize,
}

/// Readings at the time when counting began.
#[derive(Clone, Copy, Debug)]
struct CountersAtStart {
    cpu: Duration,
    dispatches: u64,
    bytes: u64,
}

impl PartitionThread {
    /// Creates the partition on the thread that runs it, and runs it until the bench ends it.
    pub fn run(
        partition: impl FnOnce() -> Partition,
        params: ConnParams,
        clock: SystemClock,
        heartbeat_interval: Duration,
        ends: PartitionEnds,
    ) {
        let reports = ends.reports.clone();
        let run = || {
            let heartbeats = Heartbeats {
                frame: frames::heartbeat()?,
                input: Vec::new(),
                interval: heartbeat_interval,
                due: 0.0,
                looked_at: Instant::now(),
                next: 0,
            };
            let mut thread = Self {
                partition: partition(),
                params,
                clock,
                ends,
                link: Sink::default(),
                to_enter: 0..0,
                subscribe_to: None,
                entering: VecDeque::new(),
                entered: 0,
                conns: Vec::new(),
                heartbeats,
                rng: Rng::new(0x5EE),
                done: Vec::new(),
                counted: PartitionReport::default(),
                at_start: None,
                is_ended: false,
            };
            while !thread.is_ended {
                thread.turn()?;
            }
            Ok(())
        };
        if let Err(error) = run() {
            let _ = reports.send(Report::Failed(error));
        }
    }

    /// As `guildhall-net`'s loop: messages of the guild, payloads of clients, timers.
    fn turn(&mut self) -> Result<()> {
        let first = self.wait(self.patience())?;
        self.take_guild_messages(first)?;
        self.partition.flush(self.clock.now(), &mut self.link);
        let at = Instant::now();
        for event in std::mem::take(&mut self.done) {
            self.ends.reports.send(Report::Delivered { event, at })?;
        }
        self.open_sessions()?;
        self.heartbeats();
        self.timers();
        self.partition.flush(self.clock.now(), &mut self.link);
        self.hand_out_outputs()
    }

    fn patience(&self) -> Duration {
        if !self.to_enter.is_empty() && self.entering.len() < ENTERING_MAX {
            return Duration::ZERO;
        }
        let now = self.clock.now().instant;
        let until_due = self.partition.next_deadline().map(|at| Duration::from_millis(at.ms_since(now)));
        until_due.unwrap_or(TURN_MAX).clamp(TURN_MIN, TURN_MAX)
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<ToRelay>> {
        match self.ends.inbox.recv_timeout(timeout) {
            Ok(message) => match self.sort(message)? {
                Some(message) => Ok(Some(message)),
                None => self.pull(),
            },
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                self.is_ended = true;
                Ok(None)
            }
        }
    }

    /// The next of the guild's messages that is there.
    fn pull(&mut self) -> Result<Option<ToRelay>> {
        while let Ok(message) = self.ends.inbox.try_recv() {
            if let Some(message) = self.sort(message)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Takes note of all but the guild's messages.
    fn sort(&mut self, message: ToPartitionThread) -> Result<Option<ToRelay>> {
        match message {
            ToPartitionThread::Guild(message) => return Ok(Some(message)),
            ToPartitionThread::Done(event) => self.done.push(event),
            ToPartitionThread::Enter { members, subscribe_to } => {
                self.to_enter = members;
                self.subscribe_to = subscribe_to;
            }
            ToPartitionThread::HeartbeatAll => {
                let now = self.clock.now();
                (0..self.conns.len()).for_each(|n| self.heartbeat(now, self.conns[n]));
                self.ends.reports.send(Report::Heartbeat)?;
            }
            ToPartitionThread::Begin => {
                self.counted = PartitionReport::default();
                let dispatches = self.partition.counters().dispatches_total;
                self.at_start = Some(CountersAtStart { cpu: thread_cpu(), dispatches, bytes: self.link.bytes });
            }
            ToPartitionThread::Mark => {
                let deliveries = self.partition.counters().dispatches_total;
                self.ends.reports.send(Report::Mark(Mark { cpu: thread_cpu(), deliveries }))?;
            }
            ToPartitionThread::Memory => {
                let started = Instant::now();
                let mut held = self.partition.memory();
                let took = started.elapsed();
                // The bench's own share: what its clients are known by.
                held.push(MemoryUse::new("bench", self.conns.capacity() * size_of::<SlotKey>(), self.conns.len()));
                self.ends.reports.send(Report::Memory(MemoryReport { held, took }))?;
            }
            ToPartitionThread::End => {
                let at_start = self.at_start.context("counting ends that did not begin")?;
                self.ends.reports.send(Report::Partition(PartitionReport {
                    cpu: thread_cpu().saturating_sub(at_start.cpu),
                    deliveries: self.partition.counters().dispatches_total - at_start.dispatches,
                    bytes: self.link.bytes - at_start.bytes,
                    sessions: self.partition.sessions_count(),
                    ..std::mem::take(&mut self.counted)
                }))?;
                self.is_ended = true;
            }
        }
        Ok(None)
    }

    fn take_guild_messages(&mut self, first: Option<ToRelay>) -> Result<()> {
        let mut next = first;
        let (mut taken, mut delivery) = (0, Delivery::Now);
        while let Some(message) = next {
            taken += 1;
            next = if taken < MESSAGES_PER_TURN { self.pull()? } else { None };
            // As in the node: a single message is written at once, others are coalesced per connection.
            if next.as_ref().is_some_and(|next| !message.is_continued_by(next)) {
                delivery = Delivery::AtFlush;
            }
            let name = match &message.message {
                RelayMessage::Published(published) => Some(published.event.name.as_str()),
                RelayMessage::Direct { event, .. } => Some(event.name.as_str()),
                RelayMessage::List(_) => Some(LIST_UPDATES),
                _ => None,
            };
            let has_entered = matches!(message.message, RelayMessage::Attached { .. });
            let before = self.partition.counters().dispatches_total;
            self.partition.handle_guild(self.clock.now(), message, delivery, &mut self.link);
            self.count(name.unwrap_or("others"), before);
            if has_entered {
                self.has_entered()?;
            }
        }
        Ok(())
    }

    /// Counts deliveries since `before` under this name.
    fn count(&mut self, name: &'static str, before: u64) {
        let count = self.partition.counters().dispatches_total - before;
        if count > 0 {
            *self.counted.deliveries_of.entry(name).or_default() += count;
        }
    }

    /// The session that waited longest is in the guild. Its client's first heartbeat acknowledges READY; then the
    /// session becomes active in the guild, or stays passive.
    fn has_entered(&mut self) -> Result<()> {
        let key = self.entering.pop_front().context("a session entered without a request")?;
        self.conns.push(key);
        self.entered += 1;
        if self.entered == PROGRESS || self.entering.is_empty() && self.to_enter.is_empty() {
            self.ends.reports.send(Report::Entered(std::mem::take(&mut self.entered)))?;
        }
        let now = self.clock.now();
        if let Some(people) = self.subscribe_to {
            let mut frame = clients::subscribe(&mut self.rng, people)?;
            self.partition.handle_bytes(now, key, &mut frame, &mut self.link);
        }
        self.heartbeat(now, key);
        Ok(())
    }

    fn open_sessions(&mut self) -> Result<()> {
        while self.entering.len() < ENTERING_MAX {
            let Some(member) = self.to_enter.next() else { break };
            let now = self.clock.now();
            let key = self.partition.accept(now, self.params, &mut self.link);
            self.partition.handle_bytes(now, key, &mut clients::identify(member), &mut self.link);
            // The token's check reads the account from the store, so it is not the guild's copy.
            let account = Account {
                user: Arc::new(crowd::user(member)),
                guilds: vec![crowd::GUILD],
                token: 0,
                expires_at: None,
                admission: None,
            };
            self.partition.handle_authenticated(now, key, Ok(account), &mut self.link);
            self.entering.push_back(key);
        }
        Ok(())
    }

    fn heartbeats(&mut self) {
        let elapsed = self.heartbeats.looked_at.elapsed();
        self.heartbeats.looked_at += elapsed;
        self.heartbeats.due += self.conns.len() as f64 * elapsed.as_secs_f64() / self.heartbeats.interval.as_secs_f64();
        if self.heartbeats.due < 1.0 {
            return;
        }
        let cpu_before = thread_cpu();
        let now = self.clock.now();
        while self.heartbeats.due >= 1.0 && !self.conns.is_empty() {
            self.heartbeats.due -= 1.0;
            self.heartbeats.next = (self.heartbeats.next + 1) % self.conns.len();
            self.heartbeat(now, self.conns[self.heartbeats.next]);
        }
        self.counted.heartbeats_cpu += thread_cpu().saturating_sub(cpu_before);
    }

    fn heartbeat(&mut self, now: Now, key: SlotKey) {
        let Heartbeats { frame, input, .. } = &mut self.heartbeats;
        self.counted.heartbeats += 1;
        // It is unmasked in place.
        input.clone_from(frame);
        self.partition.handle_bytes(now, key, input, &mut self.link);
    }

    /// What timers deliver are passive updates.
    fn timers(&mut self) {
        let now = self.clock.now();
        if self.partition.next_deadline().is_none_or(|at| at > now.instant) {
            return;
        }
        let (before, cpu_before) = (self.partition.counters().dispatches_total, thread_cpu());
        self.partition.handle_timers(now, &mut self.link);
        if self.partition.counters().dispatches_total > before {
            self.counted.passive_updates_cpu += thread_cpu().saturating_sub(cpu_before);
            self.count(PASSIVE_UPDATES, before);
        }
    }

    fn hand_out_outputs(&mut self) -> Result<()> {
        while let Some(output) = self.partition.poll_output() {
            match output {
                Output::ToGuild(_, message) => self.ends.guild.send(ToGuildThread::Relay(message))?,
                // Answered where the session is opened.
                Output::Authenticate { .. }
                | Output::FetchMessages { .. }
                | Output::FetchSession { .. }
                | Output::FetchRest { .. } => {}
                Output::FetchDirects { session, .. } => {
                    let now = self.clock.now();
                    self.partition.handle_directs(now, session, Some(OwnData::default()), &mut self.link);
                }
                // The bench would wait for this session for ever.
                Output::IdentifyRefused(refused) => bail!("a session was refused: {refused:?}"),
                Output::SessionNews(_)
                | Output::PresenceChanged(_)
                | Output::ShowFriends { .. }
                | Output::ResumeRefused(_)
                | Output::Canary(_) => {}
            }
        }
        Ok(())
    }
}
