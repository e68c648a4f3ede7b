//! Driver: the bench's end of all threads, and what became of the events.

use super::{
    FanoutArgs, FanoutMode, Report,
    guild::{GuildReport, GuildThread, ToGuildThread, run_jobs},
    partition::{Mark, MemoryReport, PartitionEnds, PartitionReport, PartitionThread, ToPartitionThread},
    workload::{Kind, People, Step, Workload},
};
use crate::{crowd, dark::DarkSwitch, usage};
use anyhow::{Context, Result, bail};
use guildhall_accounting::report::Owner;
use guildhall_codec::{ContextPool, Encoding};
use guildhall_guild::{Command, Guild, GuildLimits};
use guildhall_guild_protocol::{PartitionId, RelayStreams};
use guildhall_net::{IdentifyGate, IdentifyLimits, SystemClock};
use guildhall_partition::{Bill, Compression, ConnParams, Partition, PartitionConfig, StreamCodec, TapSwitch};
use guildhall_settings::defaults;
use guildhall_stdx::heap::MemoryUse;
use guildhall_telemetry::{owners, spare::SpareThread};
use guildhall_ws_proto::DeflateParams;
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

/// Nothing takes longer than this without a sign of progress; past it the bench fails instead of hanging.
const STALL: Duration = Duration::from_secs(300);

/// By then the requests of new clients are answered, on any machine.
const LATER: Duration = Duration::from_secs(3);

/// What became of the events so far.
#[derive(Debug, Default)]
pub struct Events {
    accepted: Vec<Instant>,
    /// By how many partitions each was delivered, and when by the last.
    delivered: Vec<(usize, Option<Instant>)>,
    /// All before were delivered everywhere.
    everywhere_upto: usize,
}

impl Events {
    fn accept(&mut self, at: Instant) -> usize {
        self.accepted.push(at);
        self.delivered.push((0, None));
        self.accepted.len() - 1
    }

    fn deliver(&mut self, event: usize, at: Instant, partitions: usize) {
        let (count, last) = &mut self.delivered[event];
        *count += 1;
        *last = (*last).max(Some(at));
        while self.delivered.get(self.everywhere_upto).is_some_and(|(count, _)| *count == partitions) {
            self.everywhere_upto += 1;
        }
    }

    /// Events come to each partition in order.
    fn are_all_everywhere(&self) -> bool {
        self.everywhere_upto == self.accepted.len()
    }

    /// How many were accepted.
    pub fn len(&self) -> usize {
        self.accepted.len()
    }

    /// Milliseconds from accepted to delivered everywhere, of each event from `first` on.
    pub fn latencies_ms(&self, first: usize) -> Vec<f64> {
        let pairs = self.accepted.iter().zip(&self.delivered).skip(first);
        pairs.filter_map(|(from, (_, to))| Some(to.as_ref()?.duration_since(*from).as_secs_f64() * 1e3)).collect()
    }

    /// When the last was delivered everywhere.
    pub fn last_delivery(&self) -> Option<Instant> {
        self.delivered.iter().filter_map(|(_, at)| *at).max()
    }
}

/// The bench's end of all threads.
pub struct Driver {
    guild: Sender<ToGuildThread>,
    partitions: Vec<Sender<ToPartitionThread>>,
    reports: Receiver<Report>,
    workload: Workload,
    pub events: Events,
    /// Since counting began.
    pub events_of: BTreeMap<Kind, u64>,
    is_loaded: bool,
    entered: usize,
    /// Partitions whose clients have all heartbeat.
    heartbeats: usize,
    pub guild_report: Option<GuildReport>,
    pub partition_reports: Vec<PartitionReport>,
    marks: Vec<Mark>,
    memory: Vec<MemoryReport>,
    gate: Arc<IdentifyGate>,
    pub bill: Bill,
    pub dark: DarkSwitch,
    /// Ends with it.
    _bill_thread: SpareThread,
    contexts: ContextPool,
}

impl Driver {
    /// Starts the threads and waits for the guild, without sessions.
    pub fn set(args: FanoutArgs, people: People, partitions_count: usize) -> Result<Self> {
        let clock = SystemClock::default();
        let (reports_sender, reports) = mpsc::channel();
        let (guild_sender, guild_inbox) = mpsc::channel();
        let gate = Arc::new(IdentifyGate::new(IdentifyLimits::default()));
        let compression = match args.mode {
            FanoutMode::Plain => Compression::None,
            FanoutMode::Prepared => Compression::Deflate(DeflateParams {
                server_no_context_takeover: true,
                client_no_context_takeover: true,
                ..DeflateParams::default()
            }),
            FanoutMode::ClassicZstd | FanoutMode::SharedZstd | FanoutMode::AutoZstd => Compression::Zstd,
        };
        let params = ConnParams { encoding: Encoding::Json, compression };
        let contexts = ContextPool::default();
        contexts.set_movable_bytes_max(usage::available_bytes()? / 4 * 3);
        // As in a node.
        let (bill, bill_worker) = Bill::new(defaults::BILL_ONE_IN, ContextPool::default());
        let taps = TapSwitch::default();
        let mut partitions = Vec::new();
        for n in 0..partitions_count {
            let (sender, inbox) = mpsc::channel();
            partitions.push(sender);
            let ends = PartitionEnds { inbox, guild: guild_sender.clone(), reports: reports_sender.clone() };
            let mut config = PartitionConfig::new(PartitionId(n as u16), "ws://127.0.0.1".into(), [7; 32]);
            config.partitions_count = partitions_count as u16;
            config.stream_codec = match args.mode {
                FanoutMode::SharedZstd => crate::SHARED,
                FanoutMode::AutoZstd => crate::AUTO,
                FanoutMode::Plain | FanoutMode::ClassicZstd | FanoutMode::Prepared => StreamCodec::PerConnection,
            };
            (config.bill, config.contexts) = (bill.clone(), contexts.clone());
            config.taps = taps.clone();
            config.passive_above_members = Some(0);
            config.passive_interval_ms = args.passive_interval_ms;
            let gate = gate.clone();
            let interval = Duration::from_millis(args.heartbeat_ms);
            let make = move || Partition::new(config, gate);
            thread::Builder::new()
                .name(format!("partition-{n}"))
                .spawn(move || PartitionThread::run(make, params, clock, interval, ends))?;
        }
        let (jobs, jobs_inbox) = mpsc::channel();
        let job_ends = guild_sender.clone();
        thread::Builder::new().name("guild-jobs".to_owned()).spawn(move || run_jobs(&jobs_inbox, &job_ends))?;
        let to_partitions = partitions.clone();
        thread::Builder::new().name("guild".to_owned()).spawn(move || {
            let guild = Guild::load(crowd::record(people.members, 0, 0), GuildLimits::default(), 1);
            GuildThread {
                guild,
                streams: RelayStreams::default(),
                clock,
                inbox: guild_inbox,
                jobs,
                partitions: to_partitions,
                reports: reports_sender,
                counted: GuildReport::default(),
                commands_count: Command::kind_names().len(),
            }
            .run();
        })?;
        let mut driver = Self {
            guild: guild_sender,
            partitions,
            reports,
            workload: Workload::new(0x6A11, people),
            events: Events::default(),
            events_of: BTreeMap::new(),
            is_loaded: false,
            entered: 0,
            heartbeats: 0,
            guild_report: None,
            partition_reports: Vec::new(),
            marks: Vec::new(),
            memory: Vec::new(),
            gate,
            bill,
            dark: DarkSwitch::start(taps)?,
            _bill_thread: SpareThread::start(bill_worker)?,
            contexts,
        };
        driver.take_reports(None, |driver| driver.is_loaded)?;
        Ok(driver)
    }

    /// Takes what the threads report until `done`, or until `until`.
    fn take_reports(&mut self, until: Option<Instant>, done: impl Fn(&Self) -> bool) -> Result<()> {
        let partitions = self.partitions.len();
        while !done(self) {
            let patience = until.map_or(STALL, |until| until.saturating_duration_since(Instant::now()));
            match self.reports.recv_timeout(patience) {
                Ok(Report::Loaded) => self.is_loaded = true,
                Ok(Report::Entered(count)) => self.entered += count,
                Ok(Report::Heartbeat) => self.heartbeats += 1,
                Ok(Report::Posted(posted)) => self.workload.posted(posted),
                Ok(Report::Delivered { event, at }) => self.events.deliver(event, at, partitions),
                Ok(Report::Guild(report)) => self.guild_report = Some(report),
                Ok(Report::Partition(report)) => self.partition_reports.push(report),
                Ok(Report::Mark(mark)) => self.marks.push(mark),
                Ok(Report::Memory(report)) => self.memory.push(report),
                Ok(Report::Failed(error)) => return Err(error.context("a thread of the bench failed")),
                Err(RecvTimeoutError::Timeout) if until.is_some() => return Ok(()),
                Err(_) => bail!("nothing happened for {STALL:?}: {} sessions entered", self.entered),
            }
        }
        Ok(())
    }

    fn send_to_guild(&self, message: ToGuildThread) -> Result<()> {
        self.guild.send(message).ok().context("the guild's thread ended")
    }

    fn send_to_partitions(&self, message: impl Fn(usize) -> ToPartitionThread) -> Result<()> {
        for (n, partition) in self.partitions.iter().enumerate() {
            partition.send(message(n)).ok().context("a partition's thread ended")?;
        }
        Ok(())
    }

    /// These members come, each partition gets its share of them; they look at the guild with `subscribe_to`.
    pub fn bring_up(&mut self, members: Range<usize>, subscribe_to: Option<usize>) -> Result<()> {
        if members.is_empty() {
            return Ok(());
        }
        let (count, first, len) = (self.partitions.len(), members.start, members.len());
        let share = |n: usize| first + n * len / count..first + (n + 1) * len / count;
        self.send_to_partitions(|n| ToPartitionThread::Enter { members: share(n), subscribe_to })?;
        let all = self.entered + len;
        self.take_reports(None, |driver| driver.entered == all)
    }

    /// Memory after new sessions have received and acknowledged their data, and the allocator has returned the rest;
    /// without the bandwidth bill, which has the same connections at most whatever their number.
    pub fn settled_bytes(&mut self) -> Result<u64> {
        // Later messages of the guild are member lists, which jobs build.
        thread::sleep(LATER);
        let all = self.heartbeats + self.partitions.len();
        self.send_to_partitions(|_| ToPartitionThread::HeartbeatAll)?;
        self.take_reports(None, |driver| driver.heartbeats == all)?;
        Ok(usage::settled_rss_bytes()?.saturating_sub(self.bill.memory().0))
    }

    /// Counting begins.
    pub fn begin(&mut self) -> Result<()> {
        self.events_of.clear();
        self.send_to_guild(ToGuildThread::Begin)?;
        self.send_to_partitions(|_| ToPartitionThread::Begin)
    }

    /// CPU time and deliveries of the partitions so far.
    pub fn mark(&mut self) -> Result<Mark> {
        self.marks.clear();
        self.send_to_partitions(|_| ToPartitionThread::Mark)?;
        let partitions = self.partitions.len();
        self.take_reports(None, |driver| driver.marks.len() == partitions)?;
        let cpu = self.marks.iter().map(|mark| mark.cpu).sum();
        Ok(Mark { cpu, deliveries: self.marks.iter().map(|mark| mark.deliveries).sum() })
    }

    /// Memory by owner, as the node reports it, and the longest time that a thread took for it.
    pub fn memory(&mut self) -> Result<(Vec<Owner>, Duration)> {
        self.memory.clear();
        self.send_to_guild(ToGuildThread::Memory)?;
        self.send_to_partitions(|_| ToPartitionThread::Memory)?;
        let threads = self.partitions.len() + 1;
        self.take_reports(None, |driver| driver.memory.len() == threads)?;
        let mut held = Vec::new();
        self.memory.iter().for_each(|report| MemoryUse::add_all(&mut held, report.held.iter().copied()));
        held.push(self.gate.memory());
        let mut owners: Vec<Owner> = held.iter().map(owners::estimated).collect();
        owners.extend(owners::slabs(&self.contexts, &self.bill));
        owners.extend(owners::of_process());
        owners.retain(|owner| owner.bytes > 0);
        owners.sort_by_key(|owner| std::cmp::Reverse(owner.bytes));
        let took = self.memory.iter().map(|report| report.took).max().unwrap_or_default();
        Ok((owners, took))
    }

    /// Counting ends, and with it the threads.
    pub fn end(&mut self) -> Result<()> {
        self.send_to_guild(ToGuildThread::End)?;
        self.send_to_partitions(|_| ToPartitionThread::End)?;
        let partitions = self.partitions.len();
        self.take_reports(None, |driver| driver.guild_report.is_some() && driver.partition_reports.len() == partitions)
    }

    fn post(&mut self, accepted: Instant) -> Result<()> {
        let event = self.events.accept(accepted);
        let Step { kind, actor, command, author } = self.workload.next();
        *self.events_of.entry(kind).or_default() += 1;
        self.send_to_guild(ToGuildThread::Command { event, actor, command: Box::new(command), author })
    }

    /// Each event after the one before it was delivered everywhere.
    pub fn post_in_turn(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            self.post(Instant::now())?;
            self.take_reports(None, |driver| driver.events.are_all_everywhere())?;
        }
        Ok(())
    }

    /// Each event when its time has come, whatever became of the others. It counts from then on, also
    /// if the bench is late.
    pub fn post_at_rate(&mut self, count: usize, rate: f64) -> Result<()> {
        let started = Instant::now();
        for n in 0..count {
            let due = started + Duration::from_secs_f64(n as f64 / rate);
            self.take_reports(Some(due), |_| Instant::now() >= due)?;
            self.post(due)?;
        }
        self.take_reports(None, |driver| driver.events.are_all_everywhere())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_delivered_with_the_report_of_the_last_partition() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut events = Events::default();
        let (a, b) = (events.accept(at(0)), events.accept(at(10)));
        events.deliver(b, at(30), 2);
        events.deliver(a, at(7), 2);
        events.deliver(a, at(5), 2);
        assert!(!events.are_all_everywhere());
        events.deliver(b, at(20), 2);
        assert!(events.are_all_everywhere());
        assert_eq!(events.latencies_ms(0), [7.0, 20.0]);
        assert_eq!(events.latencies_ms(1), [20.0]);
        assert_eq!((events.last_delivery(), events.len()), (Some(at(30)), 2));
    }
}
