//! Worker: the thread that runs its share of the guilds.
//!
//! Owns        the hosts of its guilds, their timers, their id generator, and the queue of guilds to be loaded.
//! Invariants  W1 a guild's inputs are handled in the order of arrival. W2 a commit begins after all waiting inputs are
//!             handled, so that a burst is one commit. W3 a guild that panics affects only itself.
//! Limits      `guild_loads_max` loads at once; the mailbox's permits; `idle_directs_max` idle direct messages.
//! Not here    the work of a host.

use crate::{
    Clock, GuildSink, RelaySink,
    accounts::{Kind, LoopTimer},
    canaries::CanaryCounters,
    directory::Directory,
    export::export,
    guild_account::LoadedGuilds,
    guild_host::{Context, GuildHost, HandoffStep},
    ids::Origins,
    jobs::{JobEnd, Jobs, Report},
    limits::NodeLimits,
    mailbox::{Batch, Input, Mailbox, WorkerInput},
};
use guildhall_accounting::LoopAccount;
use guildhall_model::{GuildId, SnowflakeGenerator};
use guildhall_stdx::Instant;
use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::sync::Notify;

pub(crate) struct Worker {
    /// Index among the node's workers.
    pub(crate) index: usize,
    pub(crate) jobs: Jobs,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) relays: Arc<dyn RelaySink>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) limits: NodeLimits,
    pub(crate) account: Arc<LoopAccount>,
    pub(crate) origins: Origins,
    pub(crate) canaries: Arc<CanaryCounters>,
    /// Notified when the worker panics outside of a guild.
    pub(crate) failure: Arc<Notify>,
    /// Where guilds go when the worker ends.
    pub(crate) export: Arc<OnceLock<Arc<dyn GuildSink>>>,
}

/// Whether a guild gets a host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Make {
    No,
    /// Its guild has to be loaded.
    ToLoad,
    /// Its guild comes from another node.
    Arriving,
}

struct Guilds {
    hosts: HashMap<GuildId, GuildHost>,
    timers: BTreeSet<(Instant, GuildId)>,
    /// Slots that were used since the worker last slept.
    touched: Vec<GuildId>,
    /// Guilds to be loaded, first come first served.
    loads: VecDeque<GuildId>,
    loading_count: usize,
    done_inputs: Vec<GuildId>,
    counter: u64,
    /// What all of them make ids with.
    ids: SnowflakeGenerator,
    closing: bool,
    /// Those that hold direct messages and could be taken out of memory.
    idle_directs: HashSet<GuildId>,
}

/// Refuses inputs after the worker has ended, and notifies the node if that was a panic.
struct CloseOnDrop {
    mailbox: Arc<Mailbox>,
    failure: Arc<Notify>,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.mailbox.close();
        // Waiting callers learn that no answer will come.
        drop(self.mailbox.take(Some(Duration::ZERO)));
        if std::thread::panicking() {
            self.failure.notify_one();
        }
    }
}

impl Worker {
    /// Runs until the mailbox is closed and everything accepted is durable and published.
    pub(crate) fn run(self) {
        let mailbox = self.jobs.mailbox.clone();
        let _close = CloseOnDrop { mailbox: mailbox.clone(), failure: self.failure.clone() };
        let mut guilds = Guilds::new(self.origins.of_worker(self.index));
        loop {
            mailbox.free_places(&mut guilds.done_inputs);
            let patience = guilds.next_timer().map(|at| Duration::from_millis(at.ms_since(self.clock.now().instant)));
            let batch = if guilds.closing { mailbox.take_after_close(patience) } else { mailbox.take(patience) };
            guilds.closing = batch.closed;
            self.handle(&mut guilds, batch);
            // The batch with the closing had the last inputs.
            if guilds.closing {
                let quiet = guilds.hosts.extract_if(|_, host| host.is_quiet());
                quiet.for_each(|(_, host)| self.export(&host));
                if guilds.hosts.is_empty() {
                    return;
                }
            }
        }
    }

    /// Passes a guild that has ended to the next process.
    fn export(&self, host: &GuildHost) {
        let Some((sink, guild)) = self.export.get().zip(host.guild()).filter(|(_, guild)| !guild.is_deleted()) else {
            return;
        };
        let now = self.clock.now();
        let exported = catch_unwind(AssertUnwindSafe(|| export(now, guild, &**sink)));
        if exported.is_err() {
            tracing::error!(guild_id = %guild.id(), "the export of a guild panicked; it is loaded from the database");
        }
    }

    fn handle(&self, guilds: &mut Guilds, batch: Batch) {
        let mut timer = LoopTimer::begin(&self.account, batch.oldest_since);
        self.account.set_mailbox(batch.inputs.len() + batch.reports.len());
        for Report { guild_id, end } in batch.reports {
            if matches!(end, JobEnd::Loaded(_)) {
                guilds.loading_count -= 1;
            }
            let kind = Kind::of_report(&end);
            self.with_host(guilds, guild_id, Make::No, (kind, &mut timer), |host, cx| host.handle_report(cx, end));
        }
        for input in batch.inputs {
            let (guild_id, input) = match input {
                WorkerInput::OfGuild(guild_id, input) => (guild_id, input),
                WorkerInput::ForgetRelays(node) => {
                    self.forget_relays(guilds, node, Kind::FORGET_RELAYS, &mut timer);
                    continue;
                }
            };
            let kind = Kind::of_input(&input);
            match input {
                Input::Release => {
                    self.with_host(guilds, guild_id, Make::No, (kind, &mut timer), |host, cx| host.release(cx));
                    self.relays.released(guild_id);
                }
                Input::Handoff(step) => self.hand_over(guilds, guild_id, step, kind, &mut timer),
                // Otherwise a host would claim the guild from its new owner. A sender that is dropped answers
                // `Unavailable`.
                input if self.relays.is_releasing(guild_id) => {
                    drop(input);
                    guilds.done_inputs.push(guild_id);
                    timer.handled(kind);
                }
                input => {
                    self.with_host(guilds, guild_id, Make::ToLoad, (kind, &mut timer), |host, cx| {
                        host.handle_input(cx, input)
                    });
                }
            }
        }
        let now = self.clock.now().instant;
        while let Some((_, guild_id)) = guilds.timers.first().copied().filter(|(at, _)| *at <= now) {
            guilds.timers.pop_first();
            self.with_host(guilds, guild_id, Make::No, (Kind::TIMER, &mut timer), |host, cx| {
                host.armed_at = None;
                host.handle_timer(cx);
            });
        }
        for guild_id in std::mem::take(&mut guilds.touched) {
            self.finish_turn(guilds, guild_id, &mut timer);
        }
        while guilds.loading_count < self.limits.guild_loads_max.max(1)
            && let Some(guild_id) = guilds.loads.pop_front()
        {
            guilds.loading_count += 1;
            self.jobs.load(guild_id);
        }
        for look in batch.looks {
            look(&LoadedGuilds {
                hosts: &guilds.hosts,
                worker: self.index,
                account: &self.account,
                mailbox: &self.jobs.mailbox,
            });
        }
    }

    /// A step of a hand-off. Only an arriving guild needs a host.
    fn hand_over(
        &self,
        guilds: &mut Guilds,
        guild_id: GuildId,
        step: HandoffStep,
        kind: Kind,
        timer: &mut LoopTimer<'_>,
    ) {
        let has_host = guilds.hosts.contains_key(&guild_id);
        match step {
            HandoffStep::GiveUp if !has_host => {
                self.relays.gave_up(guild_id, Vec::new());
                timer.handled(kind);
            }
            HandoffStep::TakeOver(_) if self.relays.is_releasing(guild_id) => drop(timer.handled(kind)),
            step => {
                let make = if matches!(step, HandoffStep::TakeOver(_)) { Make::Arriving } else { Make::No };
                self.with_host(guilds, guild_id, make, (kind, timer), |host, cx| host.handle_handoff(cx, step));
            }
        }
    }

    /// Another node has left, or lost messages: guilds forget its relays. Costs a step per loaded guild.
    fn forget_relays(&self, guilds: &mut Guilds, node: u8, kind: Kind, timer: &mut LoopTimer<'_>) {
        let with_relays: Vec<GuildId> =
            guilds.hosts.iter().filter(|(_, host)| host.has_node_relays(node)).map(|(id, _)| *id).collect();
        for guild_id in with_relays {
            self.with_host(guilds, guild_id, Make::No, (kind, timer), |host, cx| host.forget_relays(cx, node));
        }
    }

    /// Runs `work` on a guild's host, and counts its time for the worker and the guild.
    fn with_host(
        &self,
        guilds: &mut Guilds,
        guild_id: GuildId,
        make: Make,
        (kind, timer): (Kind, &mut LoopTimer<'_>),
        work: impl FnOnce(&mut GuildHost, &mut Context<'_>),
    ) {
        let mut cx = Context {
            now: self.clock.now(),
            jobs: &self.jobs,
            relays: &*self.relays,
            directory: &self.directory,
            limits: &self.limits,
            done_inputs: &mut guilds.done_inputs,
            loads: &mut guilds.loads,
            counter: &mut guilds.counter,
            ids: &mut guilds.ids,
            closing: guilds.closing,
            canaries: &self.canaries,
        };
        let host = match guilds.hosts.get_mut(&guild_id) {
            Some(host) => host,
            None if make == Make::ToLoad => {
                self.relays.in_use(guild_id);
                guilds.hosts.entry(guild_id).or_insert(GuildHost::new(&mut cx, guild_id))
            }
            None if make == Make::Arriving => {
                guilds.hosts.entry(guild_id).or_insert(GuildHost::arriving(&mut cx, guild_id))
            }
            // Forgotten since.
            None => {
                timer.handled(kind);
                return;
            }
        };
        work(host, &mut cx);
        self.relays.delivered(guild_id);
        host.tally.handled(kind, timer.handled(kind));
        if !std::mem::replace(&mut host.is_touched, true) {
            guilds.touched.push(guild_id);
        }
    }

    /// Keeps `idle_directs_max` idle direct messages in memory, and unloads one more.
    fn keep_few_directs(&self, guilds: &mut Guilds, guild_id: GuildId, timer: &mut LoopTimer<'_>) {
        if !guilds.hosts.get(&guild_id).is_some_and(GuildHost::is_idle_direct) {
            guilds.idle_directs.remove(&guild_id);
        } else if guilds.idle_directs.len() < self.limits.idle_directs_max || guilds.idle_directs.contains(&guild_id) {
            guilds.idle_directs.insert(guild_id);
        } else {
            self.with_host(guilds, guild_id, Make::No, (Kind::UNLOAD, timer), |host, cx| host.unload(cx));
        }
    }

    /// After a host was used: begins its commit, sets its timer, or drops it.
    fn finish_turn(&self, guilds: &mut Guilds, guild_id: GuildId, timer: &mut LoopTimer<'_>) {
        self.with_host(guilds, guild_id, Make::No, (Kind::BEGIN_COMMIT, timer), |host, cx| host.begin_commit(cx));
        self.keep_few_directs(guilds, guild_id, timer);
        let Some(host) = guilds.hosts.get_mut(&guild_id) else { return };
        host.is_touched = false;
        if host.is_evictable() {
            if let Some(at) = host.armed_at {
                guilds.timers.remove(&(at, guild_id));
            }
            guilds.hosts.remove(&guild_id);
            self.relays.unloaded(guild_id);
            return;
        }
        let Some(deadline) = host.deadline(&self.limits) else { return };
        // Not at once: a guild whose deadline does not move must not occupy the worker.
        let deadline = deadline.max(self.clock.now().instant.after_ms(1));
        // A timer that fires early is harmless and set again; a late one is not.
        if host.armed_at.is_none_or(|at| at > deadline) {
            if let Some(at) = host.armed_at.replace(deadline) {
                guilds.timers.remove(&(at, guild_id));
            }
            guilds.timers.insert((deadline, guild_id));
        }
    }
}

impl Guilds {
    fn new(ids: SnowflakeGenerator) -> Self {
        Self {
            hosts: HashMap::new(),
            timers: BTreeSet::new(),
            touched: Vec::new(),
            loads: VecDeque::new(),
            loading_count: 0,
            done_inputs: Vec::new(),
            counter: 0,
            ids,
            closing: false,
            idle_directs: HashSet::new(),
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }
}
