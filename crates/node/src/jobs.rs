//! Jobs: work of a guild worker that other threads perform.
//!
//! Owns        the path from a worker to the store, on the runtime's threads, and back to its mailbox.
//! Invariants  every job reports exactly once, also if the store panics or the runtime ends. (tests `every_*`) Work
//!             that grows with the number of members (building a guild or a message from its record, freeing one)
//!             happens here and not on the worker, where other guilds would wait for it.
//! Limits      per guild one load, one commit, and the messages that `guild_host` allows; loads per worker: `worker`;
//!             jobs of guilds: `pool`.

use crate::{
    commits::Commits,
    ids::{Ids, RESTING_ORIGIN},
    mailbox::{CreateRequest, Mailbox},
    pool::{Pool, Task},
    writes::WriteGate,
};
use guildhall_guild::{CachedMessage, Guild, GuildLimits, Job, JobDone, JobId, Write};
use guildhall_model::{ChannelId, GuildId, MessageId};
use guildhall_stdx::Now;
use guildhall_store::{GuildEpoch, Store, StoreError};
use std::{sync::Arc, time::Instant};
use tokio::runtime::Handle;

/// Result of a job.
pub(crate) struct Report {
    pub(crate) guild_id: GuildId,
    pub(crate) end: JobEnd,
}

pub(crate) enum JobEnd {
    Committed(Result<(), StoreError>),
    Loaded(Result<Loaded, LoadError>),
    /// With the number the guild host gave the load.
    MessageLoaded(u64, Result<Option<CachedMessage>, StoreError>),
    /// With the incarnation of the guild, because job ids restart with each.
    Guild(u64, GuildJobEnd),
}

/// A guild as it was loaded.
pub(crate) struct Loaded {
    /// None: it does not exist.
    pub(crate) guild: Option<Box<Guild>>,
    /// With which its commits are made.
    pub(crate) epoch: GuildEpoch,
}

/// Result of a guild's own job.
pub(crate) enum GuildJobEnd {
    Done(JobDone),
    Lost(JobId),
}

/// Why a guild is not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("its record could not be read")]
    Store(#[from] StoreError),
    #[error("its record made the guild panic")]
    Panicked,
}

pub(crate) struct Jobs {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Handle,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) guild_limits: GuildLimits,
    pub(crate) commits: Arc<Commits>,
    pub(crate) writes: Arc<WriteGate>,
}

/// Reports when it is dropped, for whatever reason.
pub(crate) struct ReportOnDrop {
    mailbox: Arc<Mailbox>,
    report: Option<Report>,
}

impl ReportOnDrop {
    /// `lost` is reported if the job ends without a report.
    pub(crate) fn new(mailbox: Arc<Mailbox>, lost: Report) -> Self {
        Self { mailbox, report: Some(lost) }
    }

    pub(crate) fn end_with(mut self, end: JobEnd) {
        if let Some(report) = &mut self.report {
            report.end = end;
        }
    }
}

impl Drop for ReportOnDrop {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            self.mailbox.report(report);
        }
    }
}

impl Jobs {
    fn report_on_drop(&self, guild_id: GuildId, lost: JobEnd) -> ReportOnDrop {
        ReportOnDrop::new(self.mailbox.clone(), Report { guild_id, end: lost })
    }

    /// Spawns a job. `lost` is reported if it does not complete.
    fn spawn(&self, guild_id: GuildId, lost: JobEnd, job: impl Future<Output = JobEnd> + Send + 'static) {
        let on_drop = self.report_on_drop(guild_id, lost);
        self.runtime.spawn(async move {
            let end = job.await;
            on_drop.end_with(end);
        });
    }

    pub(crate) fn commit(&self, guild_id: GuildId, epoch: GuildEpoch, writes: Vec<Write>) {
        let (store, commits, gate) = (self.store.clone(), self.commits.clone(), self.writes.clone());
        let runtime = self.runtime.clone();
        // Events of inputs without another write, such as voice moves. Their failure would restart the guild.
        let is_of_feed = writes.iter().all(|write| matches!(write, Write::PutEvent(_)));
        self.spawn(guild_id, JobEnd::Committed(Err(StoreError::Closed)), async move {
            if is_of_feed && gate.are_stopped() {
                return JobEnd::Committed(Ok(()));
            }
            let started = Instant::now();
            let done = store.commit_fenced((guild_id, epoch), writes).await;
            commits.count(started.elapsed(), done.is_ok());
            if let Err(error) = &done {
                gate.failed(&runtime, &store, error);
            }
            JobEnd::Committed(done)
        });
    }

    pub(crate) fn load(&self, guild_id: GuildId) {
        let (store, ids, limits) = (self.store.clone(), self.ids.clone(), self.guild_limits.clone());
        self.spawn(guild_id, JobEnd::Loaded(Err(StoreError::Closed.into())), async move {
            JobEnd::Loaded(load(&*store, &ids, limits, guild_id).await)
        });
    }

    /// A guild that did not exist.
    pub(crate) fn new_guild(&self, now: Now, new: CreateRequest) -> Guild {
        let limits = self.guild_limits.clone();
        match new {
            CreateRequest::Guild(new) => Guild::create(now, *new, limits, RESTING_ORIGIN),
            CreateRequest::Direct(new) => Guild::create_direct(now, new, limits, RESTING_ORIGIN),
        }
    }

    pub(crate) fn load_message(&self, guild_id: GuildId, number: u64, channel_id: ChannelId, message_id: MessageId) {
        let store = self.store.clone();
        self.spawn(guild_id, JobEnd::MessageLoaded(number, Err(StoreError::Closed)), async move {
            let record = store.message(channel_id, message_id).await;
            JobEnd::MessageLoaded(number, record.map(|record| record.map(CachedMessage::from)))
        });
    }

    /// Starts a job that a guild put out.
    pub(crate) fn run(&self, guild_id: GuildId, incarnation: u64, job: Job) {
        let report = self.report_on_drop(guild_id, JobEnd::Guild(incarnation, GuildJobEnd::Lost(job.id())));
        self.pool.submit(&self.runtime, guild_id, Task { job, incarnation, report });
    }

    /// Frees a guild that is not needed any more.
    pub(crate) fn dispose(&self, guild: Box<Guild>) {
        self.runtime.spawn_blocking(move || drop(guild));
    }
}

async fn load(store: &dyn Store, ids: &Ids, limits: GuildLimits, guild_id: GuildId) -> Result<Loaded, LoadError> {
    // No guild, loaded or new, makes ids before the floor is known.
    ids.floor().await?;
    // The claim comes first: the store then refuses commits of an earlier owner, so that the record is the last state.
    let epoch = store.claim_guild(guild_id).await?;
    let Some(record) = store.load_guild(guild_id).await? else { return Ok(Loaded { guild: None, epoch }) };
    let build = move || Some(Box::new(Guild::load(record, limits, RESTING_ORIGIN)));
    let guild = tokio::task::spawn_blocking(build).await.map_err(|_| LoadError::Panicked)?;
    Ok(Loaded { guild, epoch })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Origins;
    use guildhall_store::MemoryStore;
    use std::time::Duration;

    fn jobs(runtime: Handle) -> Jobs {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        Jobs {
            ids: Arc::new(Ids::new(store.clone(), Origins::Single)),
            store,
            runtime,
            mailbox: Arc::new(Mailbox::new(2)),
            pool: Arc::new(Pool::new(1)),
            guild_limits: GuildLimits::default(),
            commits: Arc::default(),
            writes: Arc::default(),
        }
    }

    fn reports(jobs: &Jobs) -> Vec<JobEnd> {
        jobs.mailbox.take(Some(Duration::from_secs(30))).reports.into_iter().map(|report| report.end).collect()
    }

    #[test]
    fn every_job_reports_also_if_it_panics() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let jobs = jobs(runtime.handle().clone());
        let epoch = runtime.block_on(jobs.store.claim_guild(GuildId::new(1))).unwrap();
        jobs.commit(GuildId::new(1), epoch, Vec::new());
        assert!(matches!(reports(&jobs)[..], [JobEnd::Committed(Ok(()))]));
        let lost = JobEnd::Committed(Err(StoreError::Closed));
        jobs.spawn(GuildId::new(1), lost, async { panic!("the store has a bug") });
        assert!(matches!(reports(&jobs)[..], [JobEnd::Committed(Err(_))]));
    }

    #[test]
    fn every_job_reports_also_if_the_runtime_is_gone() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let jobs = jobs(runtime.handle().clone());
        jobs.load(GuildId::new(1));
        drop(runtime);
        assert!(matches!(reports(&jobs)[..], [JobEnd::Loaded(Err(_))]));
        jobs.load_message(GuildId::new(1), 7, ChannelId::new(1), MessageId::new(1));
        assert!(matches!(reports(&jobs)[..], [JobEnd::MessageLoaded(7, Err(_))]));
    }
}
