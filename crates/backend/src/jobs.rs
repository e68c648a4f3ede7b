//! Jobs: work that continues after its answer, over restarts, until it is done, such as the deletion of an account.
//!
//! Owns        a record of each job in the store, and the task that executes them, oldest first. In a cluster the node
//!             with the smallest number does it; when that changes, two may do the same step.
//! Doors       `Jobs::add` from the handler that starts one; `GET /v1/jobs` for backends, at every node.
//! Invariants  J1 an answered job is durable: after a restart it continues where it was. J2 each step may be repeated:
//!             a crash during a step costs that step again. (test `j1_*`) J3 an account that is being deleted is not
//!             put, and gets no token, at no node: the store has the list (`Node::deletion_of`).
//! Limits      another node's job begins within `POLL`. One step at a time, with a pause as long as it took, so
//!             that at least half of the time is left for others; `UNFINISHED_MAX`, past it 503; `FINISHED_MAX`
//!             jobs are remembered. A step that fails because of the store or a guild is repeated for ever, at
//!             least every `RETRY_MAX`.
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
use guildhall_cluster::NodeState;
use guildhall_model::UserId;
use guildhall_stdx::Timestamp;
use guildhall_store::StoreError;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{sleep, timeout},
};
use utoipa::ToSchema;

const KIND: &str = "job";
const UNFINISHED_MAX: usize = 1_000;
const FINISHED_MAX: usize = 1_000;
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often a node of a cluster looks whether another one began a job.
const POLL: Duration = Duration::from_secs(1);

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

/// The jobs of a node, or of a cluster.
#[derive(Default)]
pub(super) struct Jobs {
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

    /// Refuses changes of an account that is being deleted.
    pub async fn need_untouched(&self, v1: &V1, user_id: UserId) -> Result<(), V1Error> {
        match self.unfinished(v1, user_id).await? {
            None => Ok(()),
            Some(job) => Err(being_deleted(job.id)),
        }
    }

    /// The job that deletes an account.
    pub async fn unfinished(&self, v1: &V1, user_id: UserId) -> Result<Option<Job>, V1Error> {
        let Some(id) = v1.in_time(v1.node.deletion_of(user_id)).await?? else { return Ok(None) };
        let job = v1.in_time(get(v1, id)).await??;
        Ok(job.filter(|job| job.state == JobState::Running))
    }

    /// Starts a job, durably; returns the running one if there is one.
    pub async fn add(&self, v1: &V1, deletion: Deletion) -> Result<JobBody, V1Error> {
        if let Some(job) = self.unfinished(v1, deletion.user_id).await? {
            return Ok(JobBody::from(&job));
        }
        if v1.in_time(v1.node.deletions()).await??.len() >= UNFINISHED_MAX {
            return Err(V1Error::unavailable());
        }
        let id = v1.node.next_id::<()>().await?.get();
        let created_ms = v1.now().unix.0;
        let job = Job { id, state: JobState::Running, error: None, created_ms, finished_ms: None, deletion };
        v1.in_time(begin(v1, job)).await?
    }
}

pub(super) fn being_deleted(job: u64) -> V1Error {
    V1Error::conflict(format!("The account is being deleted: GET /v1/jobs/{job} has its progress."))
}

/// Makes a job the one that deletes its account, unless another does.
async fn begin(v1: &V1, job: Job) -> Result<JobBody, V1Error> {
    let user_id = job.deletion.user_id;
    put(v1, &job).await?;
    loop {
        let running = v1.node.begin_deletion(user_id, job.id).await?;
        if running == job.id {
            v1.jobs.wake.notify_one();
            return Ok(JobBody::from(&job));
        }
        match get(v1, running).await? {
            Some(other) if other.state == JobState::Running => {
                v1.node.store().delete_record(KIND, &job.id.to_be_bytes()).await?;
                return Ok(JobBody::from(&other));
            }
            // A crash came before the end of this entry.
            _ => v1.node.end_deletion(user_id, running).await?,
        }
    }
}

async fn put(v1: &V1, job: &Job) -> Result<(), StoreError> {
    let data = serde_json::to_vec(job).map_err(|source| StoreError::Encode { what: "job", source })?;
    v1.node.store().put_record(KIND, &job.id.to_be_bytes(), &data).await
}

/// A job that cannot be read is none.
fn parsed(data: &[u8]) -> Option<Job> {
    let job = serde_json::from_slice::<Job>(data);
    job.inspect_err(|error| tracing::error!(%error, "a stored job cannot be read: it is ignored")).ok()
}

async fn get(v1: &V1, id: u64) -> Result<Option<Job>, StoreError> {
    Ok(v1.node.store().record(KIND, &id.to_be_bytes()).await?.as_deref().and_then(parsed))
}

async fn read_all(v1: &V1) -> Result<BTreeMap<u64, Job>, StoreError> {
    let mut all = BTreeMap::new();
    let mut after = Vec::new();
    loop {
        let some = v1.node.store().records(KIND, &after, 256).await?;
        let Some((last, _)) = some.last() else { return Ok(all) };
        after.clone_from(last);
        all.extend(some.iter().filter_map(|(_, data)| parsed(data)).map(|job| (job.id, job)));
    }
}

/// Carries jobs out until the API is dropped.
async fn work(v1: Weak<V1>, wake: Arc<Notify>) {
    let mut retry = RETRY_MIN;
    let mut worker = Turns::default();
    loop {
        let Some(api) = v1.upgrade() else { return };
        let (began, is_cluster) = (Instant::now(), api.node.membership().is_some());
        let done = worker.turn(&api).await;
        drop(api);
        match done {
            Ok(true) => {
                retry = RETRY_MIN;
                sleep(began.elapsed().clamp(PAUSE_MIN, PAUSE_MAX)).await;
            }
            // Woken or not, the loop reads the store again.
            Ok(false) if is_cluster => drop(timeout(POLL, wake.notified()).await),
            Ok(false) => wake.notified().await,
            Err(error) => {
                tracing::warn!(%error, "a step of a job failed: it is retried");
                sleep(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
    }
}

/// Whether this node carries out the jobs of the cluster.
fn is_worker(v1: &V1) -> bool {
    let Some(membership) = v1.node.membership() else { return true };
    let active = membership.members().into_iter().filter(|(_, record)| record.state == NodeState::Active);
    membership.is_serving() && active.map(|(number, _)| number).min() == Some(membership.number())
}

#[derive(Default)]
struct Turns {
    /// The entries of jobs that an earlier release began are there.
    is_adopted: bool,
    current: Option<Job>,
}

impl Turns {
    /// One step of the oldest job; false if there is none, or another node does it.
    async fn turn(&mut self, v1: &V1) -> Result<bool, StepFault> {
        if !is_worker(v1) {
            self.current = None;
            return Ok(false);
        }
        if !self.is_adopted {
            adopt(v1).await?;
            self.is_adopted = true;
        }
        if self.current.is_none() {
            self.current = next(v1).await?;
        }
        let Some(job) = &mut self.current else { return Ok(false) };
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
        put(v1, job).await?;
        if job.state != JobState::Running {
            v1.node.end_deletion(job.deletion.user_id, job.id).await?;
            self.current = None;
            forget(v1).await?;
        }
        match step {
            Err(Stopped::Later(fault)) => Err(fault),
            _ => Ok(true),
        }
    }
}

/// Earlier releases stored the jobs alone.
async fn adopt(v1: &V1) -> Result<(), StoreError> {
    for job in read_all(v1).await?.into_values().filter(|job| job.state == JobState::Running) {
        v1.node.begin_deletion(job.deletion.user_id, job.id).await?;
    }
    Ok(())
}

/// The oldest job that runs.
async fn next(v1: &V1) -> Result<Option<Job>, StoreError> {
    let mut deletions = v1.node.deletions().await?;
    deletions.sort_unstable_by_key(|(_, id)| *id);
    for (user_id, id) in deletions {
        match get(v1, id).await? {
            Some(job) if job.state == JobState::Running => return Ok(Some(job)),
            // A crash came before the end of this entry.
            _ => v1.node.end_deletion(user_id, id).await?,
        }
    }
    Ok(None)
}

/// Removes the oldest of the jobs that ended, if they are too many.
async fn forget(v1: &V1) -> Result<(), StoreError> {
    let ended: Vec<Job> = read_all(v1).await?.into_values().filter(|job| job.state != JobState::Running).collect();
    for job in &ended[..ended.len().saturating_sub(FINISHED_MAX)] {
        v1.node.store().delete_record(KIND, &job.id.to_be_bytes()).await?;
    }
    Ok(())
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
    let all = v1.in_time(read_all(&v1)).await??;
    Ok(Json(JobList { jobs: all.values().rev().map(JobBody::from).collect() }))
}

/// Reads the progress of a job
#[utoipa::path(get, path = "/v1/jobs/{job_id}", tag = "jobs", params(("job_id" = Snowflake, Path)),
    responses((status = 200, body = JobBody), (status = 404, body = V1Error)))]
pub(super) async fn read(_: Caller<Read>, State(v1): State<Arc<V1>>, path: Path) -> Result<Json<JobBody>, V1Error> {
    let id = path.id::<()>("job_id")?.get();
    let job = v1.in_time(get(&v1, id)).await??;
    job.map(|job| Json(JobBody::from(&job))).ok_or_else(|| V1Error::not_found("job"))
}
