//! The guild's thread, as the node's worker runs a guild but without store, and the thread that runs its jobs.
//!
//! Owns        one thread for the guild, one for its jobs, and their counters.
//! Invariants  the guild is entered through the doors the node uses, and its timers run when they are due.
//! Limits      the channels have no limit of their own: their content comes from events in progress, from sessions that
//!             are attaching, and from the guild's jobs, which it limits.
//! Not here    the store: a commit is done when it begins.

use super::{
    Report,
    partition::{MemoryReport, ToPartitionThread},
    workload::Posted,
};
use crate::sched::thread_cpu;
use anyhow::{Context, Result, bail};
use guildhall_guild::{Actor, Command, Guild, Job, JobDone, Outcome, Output, Reply};
use guildhall_guild_protocol::{RelayStreams, ToGuild, ToRelay};
use guildhall_net::SystemClock;
use guildhall_stdx::{Now, heap::Sample};
use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

/// To the guild's thread.
pub enum ToGuildThread {
    /// A command of a backend; the number is that of the event. `author` is the member who acts.
    Command { event: usize, actor: Actor, command: Box<Command>, author: usize },
    /// A message of a relay.
    Relay(ToGuild),
    /// A job has finished, with the CPU time that it used.
    JobDone(JobDone, Duration),
    /// Report memory by owner.
    Memory,
    /// Counting begins.
    Begin,
    /// Report the counts, and end.
    End,
}

/// Counters of the guild's thread.
#[derive(Debug, Default)]
pub struct GuildReport {
    pub cpu: Duration,
    pub jobs: u64,
    pub jobs_cpu: Duration,
    /// Of each input of the guild, with all that came out of it.
    pub operations_us: Vec<f64>,
    /// Wall time by kind of input, microseconds: commands by [`Command::kind`], then relays' messages, timers, ends of
    /// jobs.
    pub busy_us: Vec<f64>,
    /// Messages to relays.
    pub sent: u64,
}

/// Names of [`GuildReport::busy_us`].
pub fn input_names() -> Vec<String> {
    let mut names = Command::kind_names();
    names.extend(["relays", "timers", "ends of jobs"].map(str::to_owned));
    names
}

/// An input that is no command, by its place behind the commands.
#[derive(Clone, Copy)]
enum Other {
    Relay,
    Timer,
    JobDone,
}

/// Runs the guild's jobs, one after the other.
pub fn run_jobs(jobs: &Receiver<Job>, guild: &Sender<ToGuildThread>) {
    while let Ok(job) = jobs.recv() {
        let before = thread_cpu();
        let done = job.run();
        if guild.send(ToGuildThread::JobDone(done, thread_cpu().saturating_sub(before))).is_err() {
            return;
        }
    }
}

/// The guild and its surroundings.
pub struct GuildThread {
    pub guild: Guild,
    pub streams: RelayStreams,
    pub clock: SystemClock,
    pub inbox: Receiver<ToGuildThread>,
    pub jobs: Sender<Job>,
    pub partitions: Vec<Sender<ToPartitionThread>>,
    pub reports: Sender<Report>,
    pub counted: GuildReport,
    /// Kinds of commands.
    pub commands_count: usize,
}

impl GuildThread {
    /// Runs until the bench ends it or drops the receiver.
    pub fn run(mut self) {
        if let Err(error) = self.try_run() {
            let _ = self.reports.send(Report::Failed(error));
        }
    }

    fn try_run(&mut self) -> Result<()> {
        self.reports.send(Report::Loaded)?;
        let mut cpu_before = Duration::ZERO;
        loop {
            let message = match self.next_message() {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            match message {
                Some(ToGuildThread::Begin) => {
                    self.counted = GuildReport::default();
                    cpu_before = thread_cpu();
                }
                Some(ToGuildThread::End) => {
                    self.counted.cpu = thread_cpu().saturating_sub(cpu_before);
                    self.reports.send(Report::Guild(std::mem::take(&mut self.counted)))?;
                    return Ok(());
                }
                Some(message) => self.handle(message)?,
                None => {}
            }
            if self.guild.next_deadline().is_some_and(|at| at <= self.clock.now().instant) {
                let kind = self.other(Other::Timer);
                self.work(None, kind, |guild, now| guild.handle_timer(now))?;
            }
        }
    }

    /// Waits until the guild has something to do by itself, but never less than a millisecond, as in the node.
    fn next_message(&self) -> Result<ToGuildThread, RecvTimeoutError> {
        match self.guild.next_deadline() {
            Some(at) => {
                let wait_ms = at.ms_since(self.clock.now().instant).max(1);
                self.inbox.recv_timeout(Duration::from_millis(wait_ms))
            }
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn handle(&mut self, message: ToGuildThread) -> Result<()> {
        match message {
            ToGuildThread::Command { event, actor, command, author } => {
                let outcome =
                    self.work(Some(event), command.kind(), |guild, now| guild.handle_command(now, actor, &command))?;
                match (&*command, outcome) {
                    (Command::CreateMessage(..), Outcome::Reply(Ok(Reply::Message(reply)))) => {
                        let (channel_id, message_id) = (reply.message.channel_id, reply.message.id);
                        self.reports.send(Report::Posted(Posted { channel_id, message_id, author }))?;
                    }
                    (_, Outcome::Reply(Ok(_)) | Outcome::Later(_)) => {}
                    // It would be counted as an event that costs nothing.
                    (_, outcome) => bail!("{command:?} came to {outcome:?}"),
                }
                Ok(())
            }
            ToGuildThread::Relay(message) => {
                self.streams.handle(&message);
                let kind = self.other(Other::Relay);
                self.work(None, kind, |guild, now| guild.handle_relay(now, message))
            }
            ToGuildThread::JobDone(done, cpu) => {
                self.counted.jobs += 1;
                self.counted.jobs_cpu += cpu;
                let kind = self.other(Other::JobDone);
                self.work(None, kind, |guild, now| guild.handle_job_done(now, done))
            }
            ToGuildThread::Memory => {
                let started = Instant::now();
                let held = self.guild.memory(Sample::LARGE).to_vec();
                Ok(self.reports.send(Report::Memory(MemoryReport { held, took: started.elapsed() }))?)
            }
            ToGuildThread::Begin | ToGuildThread::End => Ok(()),
        }
    }

    /// One input, timed with everything that comes out of it, which is then handed out: to the partitions once the
    /// writes are durable, which is at once.
    fn work<R>(&mut self, event: Option<usize>, kind: usize, input: impl FnOnce(&mut Guild, Now) -> R) -> Result<R> {
        let now = self.clock.now();
        let started = Instant::now();
        let result = input(&mut self.guild, now);
        let outputs: Vec<Output> = std::iter::from_fn(|| self.guild.poll_output()).collect();
        let took_us = started.elapsed().as_secs_f64() * 1e6;
        self.counted.operations_us.push(took_us);
        if self.counted.busy_us.len() <= kind {
            self.counted.busy_us.resize(kind + 1, 0.0);
        }
        self.counted.busy_us[kind] += took_us;
        self.guild.handle_committed(self.guild.version());
        for output in outputs {
            match output {
                Output::Relay(output) => {
                    if let Some(message) = self.streams.send(output) {
                        self.counted.sent += 1;
                        self.send_to_partition(message)?;
                    }
                }
                Output::Job(job) => self.jobs.send(job).ok().context("the jobs' thread ended")?,
                Output::Write(_) | Output::Answer(..) | Output::Users(_) => {}
            }
        }
        if let Some(event) = event {
            for partition in &self.partitions {
                partition.send(ToPartitionThread::Done(event)).ok().context("a partition's thread ended")?;
            }
        }
        Ok(result)
    }

    fn other(&self, input: Other) -> usize {
        self.commands_count + input as usize
    }

    fn send_to_partition(&self, message: ToRelay) -> Result<()> {
        let partition = &self.partitions[usize::from(message.relay.partition.0)];
        partition.send(ToPartitionThread::Guild(message)).ok().context("a partition's thread ended")
    }
}
