//! Reports: the figures of a running node for `/v1/node` and the dashboard.
//!
//! Owns        `Reports`, which collects a report on request; the history, which a task of its own samples each second
//!             (`Sampler`), and its file (`snapshot`); the requests of operators (`OperatorRequest`), which the command
//!             that runs the node does.
//! Invariants  R1 nothing here is on the path of a delivery: figures are read where they are counted. R2 what is not
//!             measured is absent. R3 no secret is in a report: settings come from `Effective`, which hides them.
//! Limits      see `sessions`, `warnings`; `OPERATOR_REQUESTS_MAX` requests of operators wait, further
//!             ones are refused.
//! Not here    routes: `guildhall_backend`. Shapes: `guildhall_accounting::report`.

mod callers;
mod compression;
mod guilds;

mod operations;
mod overview;
mod sampler;
mod sessions;
mod snapshot;

pub use sampler::Sampler;

use crate::metrics::Metrics;
use async_trait::async_trait;
use guildhall_accounting::{
    History, HistoryReport, Sample,
    report::{
        BandwidthReport, CallersReport, CompressionReport, FilesReport, GuildReport, GuildsReport, OperationsReport,
        OverviewReport, SessionReport, SessionsReport, Setting, StreamWriter, UpgradesReport,
    },
};
use guildhall_backend::{ActionFault, NodeReports, NodeState, Reloaded, SessionFilter};
use guildhall_codec::ContextStats;
use guildhall_model::GuildId;
use guildhall_net::SystemClock;
use guildhall_partition::{Census, SentTable};
use guildhall_settings::Loaded;
use guildhall_stdx::Timestamp;
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::{mpsc, oneshot, watch};

/// Requests of operators that wait for the command.
const OPERATOR_REQUESTS_MAX: usize = 4;

/// A request of an operator to the command that runs the node.
#[derive(Debug)]
pub enum OperatorRequest {
    /// Read the configuration again.
    Reload(oneshot::Sender<Result<Reloaded, ActionFault>>),
    /// Stop, as a signal does.
    Drain,
}

/// Reads the last decision of the loop of upgrades.
type ReadUpgrades = Box<dyn Fn(&ContextStats) -> UpgradesReport + Send + Sync>;

/// All figures of one node. It is shared by everything that reads them.
pub struct Reports {
    metrics: Metrics,
    clock: SystemClock,
    started_at: Timestamp,
    readiness: Box<dyn Fn() -> Result<(), &'static str> + Send + Sync>,
    streams: &'static str,
    memory_bytes_max: Option<u64>,
    /// None while `codec.upgrades` is off.
    upgrades: Mutex<Option<ReadUpgrades>>,
    settings: Mutex<Vec<Setting>>,
    history: Mutex<History>,
    /// Where the history outlives the process.
    history_file: PathBuf,
    /// None once the node is being stopped: streams that follow it end.
    samples: Mutex<Option<watch::Sender<Arc<Sample>>>>,
    operator: mpsc::Sender<OperatorRequest>,
    is_draining: AtomicBool,
}

/// Parts of the node that `Reports` reads.
pub struct Sources {
    /// Counters of every part.
    pub metrics: Metrics,
    /// Clock of the node.
    pub clock: SystemClock,
    /// The verdict of `/readyz`.
    pub readiness: Box<dyn Fn() -> Result<(), &'static str> + Send + Sync>,
    /// `codec.streams`.
    pub streams: &'static str,
    /// `codec.memory_bytes_max`.
    pub memory_bytes_max: Option<u64>,
    /// Where the history outlives the process.
    pub history_file: PathBuf,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reports {
    /// Reports, and the requests of operators: a command that does not read them drops the receiver.
    #[must_use]
    pub fn new(sources: Sources) -> (Arc<Self>, mpsc::Receiver<OperatorRequest>) {
        let Sources { metrics, clock, readiness, streams, memory_bytes_max, history_file } = sources;
        let (operator, requests) = mpsc::channel(OPERATOR_REQUESTS_MAX);
        let reports = Self {
            metrics,
            clock,
            started_at: clock.now().unix,
            readiness,
            streams,
            memory_bytes_max,
            upgrades: Mutex::new(None),
            settings: Mutex::default(),
            history: Mutex::new(snapshot::read(&history_file)),
            history_file,
            samples: Mutex::new(Some(watch::Sender::new(Arc::default()))),
            operator,
            is_draining: AtomicBool::new(false),
        };
        (Arc::new(reports), requests)
    }

    /// The loop of upgrades has begun.
    pub fn set_upgrades(&self, read: impl Fn(&ContextStats) -> UpgradesReport + Send + Sync + 'static) {
        *lock(&self.upgrades) = Some(Box::new(read));
    }

    /// The settings in force, from now on.
    pub fn set_settings(&self, loaded: &Loaded) {
        *lock(&self.settings) = operations::settings(loaded);
    }

    /// The node is being stopped: live streams end.
    pub fn set_draining(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
        drop(lock(&self.samples).take());
    }

    fn at_ms(&self) -> u64 {
        u64::try_from(self.clock.now().unix.0).unwrap_or(0)
    }

    /// Collects on a thread that may wait for a turn of the partitions.
    async fn collect<T: Send + 'static>(&self, collect: impl FnOnce(Metrics) -> T + Send + 'static) -> Option<T> {
        let metrics = self.metrics.clone();
        tokio::task::spawn_blocking(move || collect(metrics)).await.ok()
    }

    fn request_action(&self, request: OperatorRequest) -> Result<(), ActionFault> {
        self.operator.try_send(request).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ActionFault::Busy,
            mpsc::error::TrySendError::Closed(_) => ActionFault::NotHere,
        })
    }
}

/// What streams cost, by their writer.
fn writers(sent: &SentTable, census: &Census) -> Vec<StreamWriter> {
    let of_writer = sent.by_writer().map(|(writer, sent)| StreamWriter {
        name: writer.name().to_owned(),
        sessions: census.by_writer.get(writer.name()).copied().unwrap_or(0),
        memory_bytes: census.stream_bytes.get(writer.name()).copied().unwrap_or(0),
        count_total: sent.count,
        raw_bytes_total: sent.raw_bytes,
        wire_bytes_total: sent.wire_bytes,
        timed_total: sent.timed,
        timed_ns_total: sent.timed_ns,
    });
    of_writer.collect()
}

#[async_trait]
impl NodeReports for Reports {
    fn state(&self) -> NodeState {
        NodeState {
            version: env!("CARGO_PKG_VERSION"),
            started_at: self.started_at,
            not_ready: (self.readiness)().err(),
        }
    }

    async fn overview(&self) -> OverviewReport {
        self.overview_report().await
    }

    async fn bandwidth(&self) -> BandwidthReport {
        let states = self.collect(|metrics| metrics.partitions.inspect()).await.unwrap_or_default();
        let mut sent = SentTable::default();
        states.iter().for_each(|state| sent += &state.sent);
        let report = BandwidthReport::of_rows(self.at_ms(), sent.rows(), self.metrics.bill.report(&sent));
        BandwidthReport { writers: writers(&sent, &self.census().await), ..report }
    }

    async fn guilds(&self, limit: usize) -> GuildsReport {
        self.guilds_report(limit).await
    }

    async fn guild(&self, guild_id: GuildId) -> Option<GuildReport> {
        self.guild_report(guild_id).await
    }

    async fn sessions(&self, filter: SessionFilter, limit: usize) -> SessionsReport {
        self.sessions_report(filter, limit).await
    }

    async fn session(&self, id: &str) -> Option<SessionReport> {
        self.session_report(id).await
    }

    async fn callers(&self, limit: usize) -> CallersReport {
        self.callers_report(limit).await
    }

    async fn files(&self, limit: usize) -> Option<FilesReport> {
        self.files_report(limit).await
    }

    async fn compression(&self) -> CompressionReport {
        self.compression_report().await
    }

    async fn operations(&self) -> OperationsReport {
        self.operations_report().await
    }

    fn history(&self, window_s: u64, prefixes: &[String]) -> HistoryReport {
        let is_wanted = |name: &str| prefixes.is_empty() || prefixes.iter().any(|prefix| name.starts_with(&**prefix));
        lock(&self.history).window(window_s, is_wanted)
    }

    fn samples(&self) -> watch::Receiver<Arc<Sample>> {
        // Of a sender that is gone: its streams end after the first sample.
        let ended = || watch::channel(Arc::default()).1;
        lock(&self.samples).as_ref().map_or_else(ended, watch::Sender::subscribe)
    }

    async fn reload(&self) -> Result<Reloaded, ActionFault> {
        let (answer, answered) = oneshot::channel();
        self.request_action(OperatorRequest::Reload(answer))?;
        // The command ends before it answers when the node is being stopped.
        answered.await.unwrap_or(Err(ActionFault::Busy))
    }

    async fn drain(&self) -> Result<(), ActionFault> {
        self.request_action(OperatorRequest::Drain)
    }
}
