//! Jobs: work that continues after its answer, over restarts, until it is done, such as the deletion of an account.
//!
//! Owns        the jobs of a node, a record of each in the store, and the task that executes them, oldest first.
//! Doors       `Jobs::add` from the handler that starts one; `GET /v1/jobs` for backends.
//! Invariants  J1 an answered job is durable: after a restart it continues where it was. J2 each step may be repeated:
//!             a crash during a step costs that step again. (test `j1_*`) J3 an account that is being deleted is not
//!             put, and gets no token.
//! Limits      one step at a time, with a pause as long as it took, so that at least half of the time is left for
//!             others; `UNFINISHED_MAX`, past it 503; `FINISHED_MAX` jobs are remembered. A step that fails because of
//!             the store or a guild is repeated for ever, at least every `RETRY_MAX`.
//! Not here    the steps: `delete_user`.     Spec  docs/backend-api.md "Deleting accounts".

use super::{
    V1,
    caller::{Caller, Read},
    delete_user::{Deletion, StepFault, Stopped},
    error::V1Error,
    extract::Path,
    types::{Snowflake, Time},
};
use axum::{Json, extract::State};
use guildhall_model::UserId;
use guildhall_stdx::Timestamp;
use guildhall_store::StoreError;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};
use tokio::{
    sync::{Notify, OnceCell},
    task::JoinHandle,
    time::sleep,
};
use utoipa::ToSchema;

const KIND: &str = "job";
const UNFINISHED_MAX: usize = 1_000;
const FINISHED_MAX: usize = 1_000;
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Stored form of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub id: u64,
    pub state: JobState,
    /// Reason of the failure, or of the retry of the last step.
    #[serde(default)]
    pub error: Option<String>,
    pub created_ms: i64,
    #[serde(default)]
    pub finished_ms: Option<i64>,
    pub deletion: Deletion,
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum JobState {
    /// It runs, or waits for earlier jobs.
    Running,
    /// It has finished.
    Done,
    /// It has failed; `error` has the reason. Correct it, and start another job.
    Failed,
}

/// Progress of a job that deletes an account.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Job)]
pub(super) struct JobBody {
    /// Id for `GET /v1/jobs/{job_id}`.
    id: Snowflake,
    /// State of the job.
    state: JobState,
    /// Reason of the failure; for a running job, of the retry of its last step.
    error: Option<String>,
    /// Account to delete.
    user_id: Snowflake,
    /// New owner of its messages and guilds; null: messages are erased.
    reassign: Option<Snowflake>,
    /// Guilds that the account has left.
    guilds: u64,
    /// Messages read so far, of all authors.
    scanned: u64,
    /// Messages deleted or reassigned so far.
    messages: u64,
    /// Reactions removed so far.
    reactions: u64,
    /// Start of the job.
    created_at: Time,
    /// End of the job; null while it runs.
    finished_at: Option<Time>,
}

impl From<&Job> for JobBody {
    fn from(job: &Job) -> Self {
        let Deletion { user_id, reassign, guilds, scanned, messages, reactions, .. } = job.deletion;
        Self {
            id: Snowflake(job.id),
            state: job.state,
            error: job.error.clone(),
            user_id: user_id.into(),
            reassign: reassign.map(Into::into),
            guilds,
            scanned,
            messages,
            reactions,
            created_at: Time(Timestamp(job.created_ms)),
            finished_at: job.finished_ms.map(|ms| Time(Timestamp(ms))),
        }
    }
}

/// The jobs of a node.
#[derive(Default)]
pub(super) struct Jobs {
    /// As they are stored, once they were read.
    all: Mutex<BTreeMap<u64, Job>>,
    is_read: OnceCell<()>,
    wake: Arc<Notify>,
    worker: OnceLock<Worker>,
}

/// Dropping it ends the task. A step in progress is repeated after the next start.
struct Worker(JoinHandle<()>);

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Jobs {
    /// Starts the task that carries jobs out.
    pub fn start(v1: &Arc<V1>) {
        let task = tokio::spawn(work(Arc::downgrade(v1), v1.jobs.wake.clone()));
        let _ = v1.jobs.worker.set(Worker(task));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Job>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the jobs of the store, once.
    async fn read(&self, v1: &V1) -> Result<(), StoreError> {
        let read = self.is_read.get_or_try_init(|| async {
            let all = read_all(v1).await?;
            *self.lock() = all;
            Ok(())
        });
        read.await.copied()
    }

    /// Refuses changes of an account that is being deleted.
    pub async fn need_untouched(&self, v1: &V1, user_id: UserId) -> Result<(), V1Error> {
        match self.unfinished(v1, user_id).await? {
            None => Ok(()),
            Some(job) => Err(V1Error::conflict(format!(
                "The account is being deleted: GET /v1/jobs/{} tells how far it is.",
                job.id
            ))),
        }
    }

    /// The job that deletes an account.
    pub async fn unfinished(&self, v1: &V1, user_id: UserId) -> Result<Option<Job>, V1Error> {
        v1.in_time(self.read(v1)).await??;
        let all = self.lock();
        let of_user = |job: &&Job| job.state == JobState::Running && job.deletion.user_id == user_id;
        Ok(all.values().find(of_user).cloned())
    }

    /// Starts a job, durably; returns the running one if there is one.
    pub async fn add(&self, v1: &V1, deletion: Deletion) -> Result<JobBody, V1Error> {
        if let Some(job) = self.unfinished(v1, deletion.user_id).await? {
            return Ok(JobBody::from(&job));
        }
        let running = self.lock().values().filter(|job| job.state == JobState::Running).count();
        if running >= UNFINISHED_MAX {
            return Err(V1Error::unavailable());
        }
        let id = v1.node.next_id::<()>().await?.get();
        let created_ms = v1.now().unix.0;
        let job = Job { id, state: JobState::Running, error: None, created_ms, finished_ms: None, deletion };
        v1.in_time(put(v1, &job)).await??;
        let body = JobBody::from(&job);
        self.lock().insert(id, job);
        self.wake.notify_one();
        Ok(body)
    }

    fn next(&self) -> Option<Job> {
        self.lock().values().find(|job| job.state == JobState::Running).cloned()
    }

    /// Which finished jobs are too many, the oldest first.
    fn forget(&self) -> Vec<u64> {
        let mut all = self.lock();
        let finished: Vec<u64> = all.values().filter(|job| job.state != JobState::Running).map(|job| job.id).collect();
        let too_many = finished[..finished.len().saturating_sub(FINISHED_MAX)].to_vec();
        too_many.iter().for_each(|id| drop(all.remove(id)));
        too_many
    }
}

async fn put(v1: &V1, job: &Job) -> Result<(), StoreError> {
    let data = serde_json::to_vec(job).map_err(|source| StoreError::Encode { what: "job", source })?;
    v1.node.store().put_record(KIND, &job.id.to_be_bytes(), &data).await
}

async fn read_all(v1: &V1) -> Result<BTreeMap<u64, Job>, StoreError> {
    let mut all = BTreeMap::new();
    let mut after = Vec::new();
    loop {
        let some = v1.node.store().records(KIND, &after, 256).await?;
        let Some((last, _)) = some.last() else { return Ok(all) };
        after.clone_from(last);
        for (_, data) in some {
            match serde_json::from_slice::<Job>(&data) {
                Ok(job) => drop(all.insert(job.id, job)),
                Err(error) => tracing::error!(%error, "a stored job cannot be read: it is ignored"),
            }
        }
    }
}

/// Carries jobs out until the API is dropped.
async fn work(v1: Weak<V1>, wake: Arc<Notify>) {
    let mut retry = RETRY_MIN;
    loop {
        let Some(api) = v1.upgrade() else { return };
        let began = Instant::now();
        let done = turn(&api).await;
        drop(api);
        match done {
            Ok(true) => {
                retry = RETRY_MIN;
                sleep(began.elapsed().clamp(PAUSE_MIN, PAUSE_MAX)).await;
            }
            Ok(false) => wake.notified().await,
            Err(error) => {
                tracing::warn!(%error, "a step of a job failed: it is retried");
                sleep(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
    }
}

/// One step of the oldest job; false if there is none.
async fn turn(v1: &V1) -> Result<bool, StepFault> {
    v1.jobs.read(v1).await?;
    let Some(mut job) = v1.jobs.next() else { return Ok(false) };
    let step = job.deletion.step(v1).await;
    match &step {
        Ok(true) => job.error = None,
        Ok(false) => (job.state, job.error) = (JobState::Done, None),
        Err(Stopped::Later(fault)) => job.error = Some(fault.to_string()),
        Err(Stopped::Failed(message)) => (job.state, job.error) = (JobState::Failed, Some(message.clone())),
    }
    if job.state != JobState::Running {
        job.finished_ms = Some(v1.now().unix.0);
        let Deletion { user_id, messages, reactions, .. } = job.deletion;
        tracing::info!(job = job.id, %user_id, messages, reactions, state = ?job.state, "an account's deletion ended");
    }
    put(v1, &job).await?;
    v1.jobs.lock().insert(job.id, job);
    for id in v1.jobs.forget() {
        v1.node.store().delete_record(KIND, &id.to_be_bytes()).await?;
    }
    match step {
        Err(Stopped::Later(fault)) => Err(fault),
        _ => Ok(true),
    }
}

/// All jobs that are remembered.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobList {
    /// Running jobs and the last 1,000 that ended, newest first.
    jobs: Vec<JobBody>,
}

/// Lists running jobs and the last 1,000 that ended
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", responses((status = 200, body = JobList)))]
pub(super) async fn list(_: Caller<Read>, State(v1): State<Arc<V1>>) -> Result<Json<JobList>, V1Error> {
    v1.in_time(v1.jobs.read(&v1)).await??;
    let all = v1.jobs.lock();
    Ok(Json(JobList { jobs: all.values().rev().map(JobBody::from).collect() }))
}

/// Reads the progress of a job
#[utoipa::path(get, path = "/v1/jobs/{job_id}", tag = "jobs", params(("job_id" = Snowflake, Path)),
    responses((status = 200, body = JobBody), (status = 404, body = V1Error)))]
pub(super) async fn read(_: Caller<Read>, State(v1): State<Arc<V1>>, path: Path) -> Result<Json<JobBody>, V1Error> {
    let id = path.id::<()>("job_id")?.get();
    v1.in_time(v1.jobs.read(&v1)).await??;
    let all = v1.jobs.lock();
    all.get(&id).map(|job| Json(JobBody::from(job))).ok_or_else(|| V1Error::not_found("job"))
}
