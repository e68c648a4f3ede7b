//! Pool: jobs of all guilds, a limited number at a time, with guilds in turn.
//!
//! Owns        the queue of guild jobs, and the number of running ones.
//! Doors       `submit` from the workers.
//! Invariants  N1 at most `running_max` jobs run at once. N2 scheduling is fair between guilds: one with many jobs does
//!             not delay others. N3 each job reports exactly once, whether it completed, panicked, or the runtime
//!             ended. N4 a job's data is freed here, not on a worker. (tests `n*_*`)
//! Limits      `running_max` threads of the runtime's blocking pool. Waiting jobs: `jobs_running_max` per guild, and
//!             one more of a guild that was deleted.

use crate::jobs::{GuildJobEnd, JobEnd, ReportOnDrop};
use guildhall_accounting::{LoopAccount, LoopReport};
use guildhall_guild::Job;
use guildhall_model::GuildId;
use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::runtime::Handle;
use tracing::error;

/// A job, and the report that it was lost, which is sent unless the job completes.
pub(crate) struct Task {
    pub(crate) job: Job,
    /// Which incarnation of the guild waits for it.
    pub(crate) incarnation: u64,
    pub(crate) report: ReportOnDrop,
}

pub(crate) struct Pool {
    running_max: usize,
    state: Mutex<State>,
    /// Wall time of jobs by kind. Several run at once.
    account: LoopAccount,
}

#[derive(Default)]
struct State {
    running_count: usize,
    waiting: HashMap<GuildId, VecDeque<Task>>,
    /// Guilds that have something waiting, in turn.
    turns: VecDeque<GuildId>,
}

/// A thread's share in the pool.
struct Seat {
    pool: Arc<Pool>,
    /// Whether its place in the pool is taken.
    is_taken: bool,
}

impl Drop for Seat {
    /// Of a thread that never began, because the runtime is ending.
    fn drop(&mut self) {
        if !self.is_taken {
            return;
        }
        let mut state = self.pool.lock();
        state.running_count -= 1;
        // The last one drops waiting jobs, because no thread will run them.
        let given_up = if state.running_count == 0 { std::mem::take(&mut *state) } else { State::default() };
        drop(state);
        // Not under the lock: they report.
        drop(given_up);
    }
}

impl Pool {
    pub(crate) fn new(running_max: usize) -> Self {
        let account = LoopAccount::new("guild_job", 0, Job::KIND_NAMES);
        Self { running_max: running_max.max(1), state: Mutex::default(), account }
    }

    /// Wall time of jobs by kind.
    pub(crate) fn report(&self) -> LoopReport {
        self.account.report()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a job when it is its guild's turn.
    pub(crate) fn submit(self: &Arc<Self>, runtime: &Handle, guild_id: GuildId, task: Task) {
        let mut state = self.lock();
        let waiting = state.waiting.entry(guild_id).or_default();
        waiting.push_back(task);
        if waiting.len() == 1 {
            state.turns.push_back(guild_id);
        }
        if state.running_count < self.running_max {
            state.running_count += 1;
            drop(state);
            let seat = Seat { pool: self.clone(), is_taken: true };
            runtime.spawn_blocking(move || seat.work());
        }
    }
}

impl State {
    fn next(&mut self) -> Option<(GuildId, Task)> {
        let guild_id = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&guild_id)?;
        let task = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&guild_id);
        } else {
            self.turns.push_back(guild_id);
        }
        Some((guild_id, task?))
    }
}

impl Seat {
    fn work(mut self) {
        while let Some((guild_id, Task { job, incarnation, report })) = self.next() {
            let (id, kind, started) = (job.id(), job.kind(), Instant::now());
            // It owns what it works on, so nothing half done is left.
            let done = catch_unwind(AssertUnwindSafe(|| job.run()));
            self.pool.account.handled_shared(kind, started.elapsed().as_nanos() as u64);
            match done {
                Ok(done) => report.end_with(JobEnd::Guild(incarnation, GuildJobEnd::Done(done))),
                Err(_) => error!(%guild_id, job = ?id, "a job panicked"),
            }
        }
    }

    /// The next job; if none waits, releases the place atomically and returns none.
    fn next(&mut self) -> Option<(GuildId, Task)> {
        let mut state = self.pool.lock();
        let next = state.next();
        if next.is_none() {
            state.running_count -= 1;
            self.is_taken = false;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{jobs::Report, mailbox::Mailbox};
    use guildhall_guild::{Actor, Command, Guild, GuildLimits, NewGuild, Outcome, Output};
    use guildhall_model::{Guild as GuildFields, User, UserId};
    use guildhall_stdx::Now;
    use std::time::Duration;

    /// This number of jobs of one guild, with the mailbox that they report to.
    fn tasks(guild_id: u64, count: usize, mailbox: &Arc<Mailbox>) -> Vec<Task> {
        let now = Now::new(0, 1_700_000_000_000);
        let (guild_id, owner) = (GuildId::new(guild_id), Arc::new(User::new(UserId::new(1), "owner")));
        let new = NewGuild::new(GuildFields::new(guild_id, "g", owner.id), owner);
        let limits = GuildLimits { jobs_running_max: count, ..GuildLimits::default() };
        let mut guild = Guild::create(now, new, limits, 3);
        let search = Command::SearchMembers { query: "o".to_owned(), limit: 10 };
        for _ in 0..count {
            assert!(matches!(guild.handle_command(now, Actor::System, &search), Outcome::Later(_)));
        }
        let jobs = std::iter::from_fn(|| guild.poll_output()).filter_map(|output| match output {
            Output::Job(job) => Some(job),
            _ => None,
        });
        let task = |job: Job| {
            let lost = JobEnd::Guild(0, GuildJobEnd::Lost(job.id()));
            let report = ReportOnDrop::new(mailbox.clone(), Report { guild_id, end: lost });
            Task { job, incarnation: 0, report }
        };
        jobs.map(task).collect()
    }

    /// Completion state of each of `count` jobs.
    fn reports(mailbox: &Mailbox, count: usize) -> Vec<bool> {
        let mut done = Vec::new();
        while done.len() < count {
            let batch = mailbox.take(Some(Duration::from_secs(30)));
            assert!(!batch.reports.is_empty(), "{done:?} and no more");
            done.extend(
                batch.reports.iter().map(|report| matches!(report.end, JobEnd::Guild(0, GuildJobEnd::Done(_)))),
            );
        }
        done
    }

    #[test]
    fn n2_guilds_take_turns() {
        let mailbox = Arc::new(Mailbox::new(2));
        let mut state = State::default();
        for (guild_id, count) in [(7, 3), (8, 1), (9, 2)] {
            state.turns.push_back(GuildId::new(guild_id));
            state.waiting.insert(GuildId::new(guild_id), tasks(guild_id, count, &mailbox).into());
        }
        let order: Vec<u64> = std::iter::from_fn(|| state.next()).map(|(guild_id, _)| guild_id.get()).collect();
        assert_eq!(order, [7, 8, 9, 7, 9, 7]);
        assert!(state.waiting.is_empty() && state.turns.is_empty());
    }

    #[test]
    fn n1_n3_a_few_run_and_all_report() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (pool, mailbox) = (Arc::new(Pool::new(2)), Arc::new(Mailbox::new(2)));
        let mut count = 0;
        for round in 0..50 {
            for guild_id in [7, 8, 9] {
                for task in tasks(guild_id, 3, &mailbox) {
                    pool.submit(runtime.handle(), GuildId::new(guild_id), task);
                    assert!(pool.lock().running_count <= 2, "round {round}");
                    count += 1;
                }
            }
        }
        assert!(reports(&mailbox, count).into_iter().all(|is_done| is_done));
        let account = pool.report();
        let [searches] = &account.kinds[..] else { panic!("{account:?}") };
        assert_eq!((&*searches.name, searches.times.count()), ("search", count as u64));
    }

    #[test]
    fn n3_all_report_also_if_the_runtime_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (pool, mailbox) = (Arc::new(Pool::new(4)), Arc::new(Mailbox::new(2)));
        let handle = runtime.handle().clone();
        // The only thread is busy until the runtime shuts down.
        let (ending, ends) = std::sync::mpsc::channel::<()>();
        runtime.spawn_blocking(move || ends.recv().unwrap_err());
        for task in tasks(7, 6, &mailbox) {
            pool.submit(&handle, GuildId::new(7), task);
        }
        runtime.shutdown_background();
        drop(ending);
        // The runtime decides whether that thread still runs them.
        assert_eq!(reports(&mailbox, 6).len(), 6);
    }

    #[test]
    fn n3_all_report_also_if_the_runtime_is_gone() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (pool, mailbox, handle) = (Arc::new(Pool::new(2)), Arc::new(Mailbox::new(2)), runtime.handle().clone());
        drop(runtime);
        for task in tasks(8, 3, &mailbox) {
            pool.submit(&handle, GuildId::new(8), task);
        }
        assert_eq!(reports(&mailbox, 3), [false; 3]);
        assert_eq!(pool.lock().running_count, 0);
    }
}
