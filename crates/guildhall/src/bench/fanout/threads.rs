//! Threads: the guild's and the partitions', as the node runs them but without sockets and store.
//!
//! Owns        one thread for the guild, one per partition with its pretended clients, and what they count.
//! Invariants  every machine is the node's own and is entered through the doors the node uses. A client here has always
//!             room, says IDENTIFY and heartbeats in masked frames, and has read everything it was sent.
//! Limits      `ENTERING_MAX` sessions of a partition are on their way into the guild at once. The channels between the
//!             threads have no bound of their own: what is in them comes from the events under way and these sessions.
//! Not here    the kernel: nothing is sent. The store: a commit is done when it begins.

use crate::bench::{crowd, fanout::mix::Said, sched::SchedFile};
use anyhow::{Context, Result};
use guildhall_codec::{Encoding, encode_payload_to_gateway};
use guildhall_guild::{Actor, Command, Guild, Outcome, Output as GuildOutput, Reply};
use guildhall_net::SystemClock;
use guildhall_partition::{Account, ConnParams, Dead, Link, Output, Partition};
use guildhall_relay::{RelayId, RelayMessage, ToGuild, ToRelay};
use guildhall_stdx::{Now, SlotKey};
use guildhall_ws_proto::append_masked_frame;
use serde_json::json;
use std::{
    collections::VecDeque,
    io::IoSlice,
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
/// The longest a partition waits before it looks at its clients' heartbeats again.
const TURN: Duration = Duration::from_millis(5);
/// Sessions between two signs of progress.
const PROGRESS: usize = 4096;
const OP_HEARTBEAT: u64 = 1;
const OP_IDENTIFY: u64 = 2;
const MASK_KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// To the guild's thread.
pub enum ToGuildThread {
    /// A backend asks for something; the number is that of the event. `author` is the member who acts.
    Command { event: usize, actor: Actor, command: Box<Command>, author: usize },
    /// A relay says something.
    Relay(ToGuild),
    /// Counting begins.
    Begin,
    /// Counting ends: tell, and end.
    End,
}

/// To a partition's thread.
pub enum ToPartitionThread {
    /// The guild's.
    Guild(ToRelay),
    /// All of this event was sent before.
    Done(usize),
    /// These members open a session each. Said once.
    Enter(Range<usize>),
    /// Counting begins.
    Begin,
    /// Counting ends: tell, and end.
    End,
}

/// To the bench.
pub enum Report {
    /// The guild is there.
    Loaded,
    /// So many more sessions are in the guild.
    Entered(usize),
    /// A message exists.
    Said(Said),
    /// A partition has delivered all of an event.
    Delivered { event: usize, at: Instant },
    /// What the guild's thread counted.
    Guild { cpu: Duration, operations_us: Vec<f64> },
    /// What a partition's thread counted.
    Partition(PartitionReport),
    /// A thread cannot go on.
    Failed(anyhow::Error),
}

/// What a partition's thread counted.
#[derive(Clone, Copy, Debug)]
pub struct PartitionReport {
    pub cpu: Duration,
    pub deliveries: u64,
    pub bytes: u64,
    pub heartbeats: u64,
    /// CPU time from the thread's start until counting began.
    pub cpu_before: Duration,
    pub sessions: usize,
}

// ── the guild ────────────────────────────────────────────────────────────────────────────────────

/// The guild and its surroundings.
pub struct GuildThread {
    pub guild: Guild,
    pub clock: SystemClock,
    pub inbox: Receiver<ToGuildThread>,
    pub partitions: Vec<Sender<ToPartitionThread>>,
    pub reports: Sender<Report>,
}

impl GuildThread {
    /// Runs until it is told to end, or nobody listens.
    pub fn run(mut self) {
        if let Err(error) = self.try_run() {
            let _ = self.reports.send(Report::Failed(error));
        }
    }

    fn try_run(&mut self) -> Result<()> {
        self.reports.send(Report::Loaded)?;
        let sched = SchedFile::open()?;
        let (mut cpu, mut operations_us) = (Duration::ZERO, Vec::new());
        while let Ok(message) = self.inbox.recv() {
            match message {
                ToGuildThread::Command { event, actor, command, author } => {
                    let now = self.clock.now();
                    let started = Instant::now();
                    let outcome = self.guild.handle_command(now, actor, &command);
                    let outputs = drain(&mut self.guild);
                    operations_us.push(started.elapsed().as_secs_f64() * 1e6);
                    self.hand_out(outputs, Some(event))?;
                    if let (Command::CreateMessage(..), Outcome::Reply(Ok(Reply::Message(reply)))) =
                        (&*command, outcome)
                    {
                        let (channel_id, message_id) = (reply.record.message.channel_id, reply.record.message.id);
                        self.reports.send(Report::Said(Said { channel_id, message_id, author }))?;
                    }
                }
                ToGuildThread::Relay(message) => {
                    self.guild.handle_relay(self.clock.now(), message);
                    let outputs = drain(&mut self.guild);
                    self.hand_out(outputs, None)?;
                }
                ToGuildThread::Begin => {
                    operations_us.clear();
                    cpu = sched.read()?.cpu;
                }
                ToGuildThread::End => {
                    self.reports.send(Report::Guild { cpu: sched.read()?.cpu.saturating_sub(cpu), operations_us })?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// To the partitions, once the writes are durable: at once.
    fn hand_out(&mut self, outputs: Vec<(RelayId, ToRelay)>, event: Option<usize>) -> Result<()> {
        self.guild.handle_committed(self.guild.version());
        for (partition, message) in outputs {
            self.send(partition.partition.0, ToPartitionThread::Guild(message))?;
        }
        if let Some(event) = event {
            for partition in 0..self.partitions.len() {
                self.send(partition as u16, ToPartitionThread::Done(event))?;
            }
        }
        Ok(())
    }

    fn send(&self, partition: u16, message: ToPartitionThread) -> Result<()> {
        self.partitions[usize::from(partition)].send(message).ok().context("a partition's thread ended")
    }
}

fn drain(guild: &mut Guild) -> Vec<(RelayId, ToRelay)> {
    let relay = |output| match output {
        GuildOutput::Relay(partition, message) => Some((partition, message)),
        GuildOutput::Write(_) | GuildOutput::Job(_) | GuildOutput::Answer(..) => None,
    };
    std::iter::from_fn(|| guild.poll_output()).filter_map(relay).collect()
}

// ── a partition ──────────────────────────────────────────────────────────────────────────────────

/// Sockets that take everything and count it.
#[derive(Debug, Default)]
struct Void {
    bytes: u64,
}

impl Link for Void {
    fn send(&mut self, _conn: SlotKey, bytes: &[u8]) -> Result<usize, Dead> {
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn send_vectored(&mut self, _conn: SlotKey, slices: &[IoSlice<'_>]) -> Result<usize, Dead> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        self.bytes += bytes as u64;
        Ok(bytes)
    }

    fn set_reading(&mut self, _conn: SlotKey, _reading: bool) {}
    fn finish(&mut self, _conn: SlotKey) {}
    fn drop_conn(&mut self, _conn: SlotKey) {}
}

/// What a client says.
fn frame(opcode: u64, d: &serde_json::Value) -> Result<Vec<u8>> {
    let (mut payload, mut frame) = (Vec::new(), Vec::new());
    encode_payload_to_gateway(Encoding::Json, opcode, d, &mut payload).context("encoding what a client says")?;
    append_masked_frame(guildhall_ws_proto::Opcode::Text, MASK_KEY, &payload, &mut frame);
    Ok(frame)
}

/// A partition and its clients.
pub struct PartitionThread {
    partition: Partition,
    params: ConnParams,
    clock: SystemClock,
    inbox: Receiver<ToPartitionThread>,
    guild: Sender<ToGuildThread>,
    reports: Sender<Report>,
    link: Void,
    /// Members who are yet to open a session.
    to_enter: Range<usize>,
    /// Connections that wait for the guild, oldest first.
    entering: VecDeque<SlotKey>,
    /// Sessions entered since the last sign of progress.
    entered: usize,
    conns: Vec<SlotKey>,
    heartbeats: Heartbeats,
    identify: Vec<u8>,
    /// Events whose messages were all taken, but are not reported yet.
    done: Vec<usize>,
    sched: SchedFile,
    begun: Option<Begun>,
    is_ended: bool,
}

/// Who heartbeats when: all connections in turn, each once per interval.
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
    count: u64,
}

/// Readings at the time when counting began.
#[derive(Clone, Copy, Debug)]
struct Begun {
    cpu: Duration,
    dispatches: u64,
    bytes: u64,
    heartbeats: u64,
}

/// The ends of a partition's channels.
pub struct PartitionEnds {
    pub inbox: Receiver<ToPartitionThread>,
    pub guild: Sender<ToGuildThread>,
    pub reports: Sender<Report>,
}

impl PartitionThread {
    /// Makes the partition, on the thread that will run it, and runs it until it is told to end.
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
                // More than was sent stands for all that was sent.
                frame: frame(OP_HEARTBEAT, &json!(i64::MAX))?,
                input: Vec::new(),
                interval: heartbeat_interval,
                due: 0.0,
                looked_at: Instant::now(),
                next: 0,
                count: 0,
            };
            let properties = json!({"os": "linux", "browser": "Discord Client", "device": ""});
            let identify = json!({"token": "the.tokens.bytes-are-not-looked-at-here", "properties": properties});
            let mut thread = Self {
                partition: partition(),
                params,
                clock,
                inbox: ends.inbox,
                guild: ends.guild,
                reports: ends.reports,
                link: Void::default(),
                to_enter: 0..0,
                entering: VecDeque::new(),
                entered: 0,
                conns: Vec::new(),
                heartbeats,
                identify: frame(OP_IDENTIFY, &identify)?,
                done: Vec::new(),
                sched: SchedFile::open()?,
                begun: None,
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

    /// As `guildhall-net`'s loop: the guild's messages, what clients say, what is due.
    fn turn(&mut self) -> Result<()> {
        let is_busy = !self.to_enter.is_empty() && self.entering.len() < ENTERING_MAX;
        let first = self.wait(if is_busy { Duration::ZERO } else { TURN })?;
        self.take_guild_messages(first)?;
        self.partition.flush(self.clock.now(), &mut self.link);
        let at = Instant::now();
        for event in std::mem::take(&mut self.done) {
            self.reports.send(Report::Delivered { event, at })?;
        }
        self.open_sessions();
        self.heartbeats();
        let now = self.clock.now();
        if self.partition.next_deadline().is_some_and(|at| at <= now.instant) {
            self.partition.handle_timers(now, &mut self.link);
        }
        self.partition.flush(now, &mut self.link);
        self.hand_out_outputs()
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<ToRelay>> {
        match self.inbox.recv_timeout(timeout) {
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
        while let Ok(message) = self.inbox.try_recv() {
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
            ToPartitionThread::Enter(members) => self.to_enter = members,
            ToPartitionThread::Begin => {
                self.begun = Some(Begun {
                    cpu: self.sched.read()?.cpu,
                    dispatches: self.partition.counters().dispatches_total,
                    bytes: self.link.bytes,
                    heartbeats: self.heartbeats.count,
                });
            }
            ToPartitionThread::End => {
                let begun = self.begun.context("counting ends that did not begin")?;
                self.reports.send(Report::Partition(PartitionReport {
                    cpu: self.sched.read()?.cpu.saturating_sub(begun.cpu),
                    deliveries: self.partition.counters().dispatches_total - begun.dispatches,
                    bytes: self.link.bytes - begun.bytes,
                    heartbeats: self.heartbeats.count - begun.heartbeats,
                    cpu_before: begun.cpu,
                    sessions: self.partition.sessions_count(),
                }))?;
                self.is_ended = true;
            }
        }
        Ok(None)
    }

    fn take_guild_messages(&mut self, first: Option<ToRelay>) -> Result<()> {
        let mut next = first;
        let (mut taken, mut more) = (0, false);
        while let Some(message) = next {
            taken += 1;
            next = if taken < MESSAGES_PER_TURN { self.pull()? } else { None };
            // As in the node: what comes alone is written straight away, the rest is coalesced per connection.
            more |= next.is_some();
            let has_entered = matches!(message.message, RelayMessage::Attached { .. });
            self.partition.handle_guild(self.clock.now(), message, more, &mut self.link);
            if has_entered {
                self.has_entered()?;
            }
        }
        Ok(())
    }

    /// The oldest that waited is in the guild. Its client's first heartbeat says that it has READY.
    fn has_entered(&mut self) -> Result<()> {
        let key = self.entering.pop_front().context("somebody entered who did not ask to")?;
        self.conns.push(key);
        self.entered += 1;
        if self.entered == PROGRESS || self.entering.is_empty() && self.to_enter.is_empty() {
            self.reports.send(Report::Entered(std::mem::take(&mut self.entered)))?;
        }
        self.heartbeat(self.clock.now(), key);
        Ok(())
    }

    fn open_sessions(&mut self) {
        while self.entering.len() < ENTERING_MAX {
            let Some(member) = self.to_enter.next() else { return };
            let now = self.clock.now();
            let key = self.partition.accept(now, self.params, &mut self.link);
            let mut identify = self.identify.clone();
            self.partition.handle_bytes(now, key, &mut identify, &mut self.link);
            // The token's check reads the account from the store, so it is not the guild's copy.
            let account = Account { user: Arc::new(crowd::user(member)), guilds: vec![crowd::GUILD] };
            self.partition.handle_authenticated(now, key, Ok(account), &mut self.link);
            self.entering.push_back(key);
        }
    }

    fn heartbeats(&mut self) {
        let elapsed = self.heartbeats.looked_at.elapsed();
        self.heartbeats.looked_at += elapsed;
        self.heartbeats.due += self.conns.len() as f64 * elapsed.as_secs_f64() / self.heartbeats.interval.as_secs_f64();
        let now = self.clock.now();
        while self.heartbeats.due >= 1.0 && !self.conns.is_empty() {
            self.heartbeats.due -= 1.0;
            self.heartbeats.next = (self.heartbeats.next + 1) % self.conns.len();
            self.heartbeat(now, self.conns[self.heartbeats.next]);
        }
    }

    fn heartbeat(&mut self, now: Now, key: SlotKey) {
        let Heartbeats { frame, input, count, .. } = &mut self.heartbeats;
        *count += 1;
        // It is unmasked in place.
        input.clone_from(frame);
        self.partition.handle_bytes(now, key, input, &mut self.link);
    }

    fn hand_out_outputs(&mut self) -> Result<()> {
        while let Some(output) = self.partition.poll_output() {
            match output {
                Output::ToGuild(_, message) => self.guild.send(ToGuildThread::Relay(message))?,
                // Answered where the session is opened.
                Output::Authenticate { .. } | Output::FetchMessages { .. } => {}
                Output::Transfer { .. } => anyhow::bail!("nobody resumes here"),
            }
        }
        Ok(())
    }
}
