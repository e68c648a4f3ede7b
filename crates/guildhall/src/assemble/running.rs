//! Running: a node that serves, and how it stops.
//!
//! Owns        `RunningNode`, the order in which its parts end.
//! Invariants  A2 nothing that was acknowledged is lost by stopping: sockets go first, the store last.
//! Limits      stopping takes `server.drain_notice_ms` and at most `server.drain_timeout_ms`, `DEPARTURE_MS_MAX` in a
//!             cluster, and `PART_MS_MIN` per part at the end.

use super::{
    limits::LiveLimits,
    listen::inherited,
    sessions::{HANDOVER_MS_MAX, HandOverTo, keep_sessions, leave_sessions},
};
use crate::{
    cluster::{self, Departures, SessionMirrors},
    database,
    disk::DiskWatch,
    start_error::StartError,
    takeover::{Door, GuildsPassed, Listeners, Successor, TakeoverError, machine_ns, notify},
    tls,
    upgrades::{UpgradeStatus, Upgrades},
};
use guildhall_codec::{ContextPool, ContextStats};
use guildhall_net::{AccessLog, DrainPlan, DrainReport, IdentifyGate, RecentLoss, RunningServer};
use guildhall_node::{Node, Retention};
use guildhall_rest::Visitors;
use guildhall_settings::Config;
use guildhall_store::Store;
use guildhall_telemetry::{
    reports::{OperatorRequest, Reports, Sampler},
    traces::Traces,
};
use std::{
    any::Any,
    future::Future,
    io,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, task::JoinHandle};

/// Time after `server.drain_timeout_ms` for sending sessions to other nodes.
const DEPARTURE_MS_MAX: u64 = 5_000;
/// Time that each part has to end, even if those before it used up the deadline.
const PART_MS_MIN: u64 = 1_000;
/// Part of the time of a stop in which guilds are handed over to other nodes.
const HANDOFF_PART: u32 = 2;

/// Time for requests to send their head, and as long again for the answers, before connections are passed on.
const REQUESTS_MS_MAX: u64 = 1_000;
/// Time in which clients get the answer to an IDENTIFY, a RESUME or a request for members, while no socket is read.
const SETTLING_MAX: Duration = Duration::from_secs(1);

/// Whether all parts of a node work when it stops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Sound,
    Failed,
}

/// A node that serves.
pub struct RunningNode {
    /// Guilds and accounts.
    pub node: Node,
    /// Address of the listener, with the actual port.
    pub local_addr: SocketAddr,
    /// Where health and metrics are served as well, if anywhere.
    pub admin_addr: Option<SocketAddr>,
    /// WebSocket URL for clients, without a trailing slash.
    pub gateway_url: String,
    /// Makes accounts for visitors of the chat page, with `server.chat = "demo"`.
    pub visitors: Option<Arc<Visitors>>,
    /// Figures for `/v1/node` and the dashboard.
    pub reports: Arc<Reports>,
    /// None once they were taken.
    pub(super) operator_requests: Option<mpsc::Receiver<OperatorRequest>>,
    pub(super) ready: Arc<AtomicBool>,
    pub(super) telemetry: Telemetry,
    pub(super) server: RunningServer,
    pub(super) store: Arc<dyn Store>,
    pub(super) compression: Compression,
    pub(super) live: Live,
    pub(super) stop: Stop,
    pub(super) guards: Guards,
    /// For the process that takes over.
    pub(super) listeners: Listeners,
}

/// What reports on the node.
pub(super) struct Telemetry {
    /// Ends before the partitions, which it reads.
    pub sampler: Sampler,
    pub traces: Option<Traces>,
    pub access: Option<Arc<AccessLog>>,
}

/// Contexts of all partitions, and the loop that bounds them by memory.
pub(super) struct Compression {
    pub contexts: ContextPool,
    pub upgrades: Upgrades,
}

/// Parts to which settings apply without a restart; partitions are among them as well.
pub(super) struct Live {
    pub gate: Arc<IdentifyGate>,
    pub retention: Retention,
    /// None: the database is on another disk, or another machine.
    pub disk: Option<DiskWatch>,
    pub tls: Option<tls::Pair>,
    /// Descriptors that the system allows; none for any number.
    pub files_allowed: Option<u64>,
}

/// How the node stops.
pub(super) struct Stop {
    times: DrainTimes,
    handover: HandOverTo,
    /// None: the node is alone.
    departures: Option<(Arc<Departures>, Arc<SessionMirrors>)>,
}

impl Stop {
    pub fn of(config: &Config, node: &Node, departures: Option<(Arc<Departures>, Arc<SessionMirrors>)>) -> Self {
        let loss = if node.membership().is_some() { RecentLoss::Possible } else { RecentLoss::None };
        let (dir, bytes_max) = (config.store.dir.clone(), config.server.handover_bytes_max as usize);
        Self { times: DrainTimes::of(config), handover: HandOverTo { dir, bytes_max, loss }, departures }
    }
}

/// Tasks, threads and locks that end with the node, in the order in which they began.
#[derive(Default)]
pub(super) struct Guards(Vec<Box<dyn Any + Send + Sync>>);

impl Guards {
    pub fn keep(&mut self, guard: Option<impl Send + Sync + 'static>) {
        self.0.extend(guard.map(|guard| Box::new(guard) as Box<dyn Any + Send + Sync>));
    }
}

/// Serves health and metrics until it is dropped.
pub(super) struct AdminListener(pub JoinHandle<()>);

impl Drop for AdminListener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Time limits of the steps of a stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrainTimes {
    notice: Duration,
    total: Duration,
}

impl DrainTimes {
    pub fn of(config: &Config) -> Self {
        let ms = |ms: u32| Duration::from_millis(u64::from(ms));
        Self { notice: ms(config.server.drain_notice_ms), total: ms(config.server.drain_timeout_ms) }
    }
}

impl RunningNode {
    /// The account of compression contexts.
    #[must_use]
    pub fn context_stats(&self) -> ContextStats {
        self.compression.contexts.stats()
    }

    /// Last reading and decision of the controller of larger contexts.
    #[must_use]
    pub fn upgrade_status(&self) -> UpgradeStatus {
        self.compression.upgrades.status()
    }

    /// Completes when a part of the node has failed for good: the process should end, and be started again.
    pub async fn failed(&self) {
        tokio::select! {
            () = self.server.failed() => {}
            () = database::failed(&*self.store) => {}
            () = self.node.failed() => {}
            () = cluster::lost(&self.node) => {}
        }
    }

    /// The requests of operators, for a command that does them. Without such a command they are refused.
    pub fn take_operator_requests(&mut self) -> Option<mpsc::Receiver<OperatorRequest>> {
        self.operator_requests.take()
    }

    /// As before `take_operator_requests`.
    pub(crate) fn put_operator_requests(&mut self, operator_requests: Option<mpsc::Receiver<OperatorRequest>>) {
        self.operator_requests = operator_requests;
    }

    /// From now on `/readyz` answers 200.
    pub fn set_ready(&self) {
        self.node.membership().iter().for_each(|membership| membership.activate());
        self.ready.store(true, Ordering::Release);
    }

    /// Stops the node and reports the result, for commands that run until a signal.
    ///
    /// # Errors
    /// A part had failed, or did not end in time.
    pub async fn end(self, failed: bool) -> anyhow::Result<()> {
        tracing::info!("stopping");
        let health = if failed { Health::Failed } else { Health::Sound };
        let in_time = self.stop_and_leave(health).await;
        anyhow::ensure!(!failed, "a part of the node failed; the log names it. Start it again");
        anyhow::ensure!(in_time, "some parts did not end in time; acknowledged writes are safe");
        Ok(())
    }

    /// Applies the live settings of `config` (the mark `live` in `guildhall_settings`). `log.level` is the caller's.
    ///
    /// # Errors
    /// `Randomness`.
    pub fn take_settings(&mut self, config: &Config) -> Result<(), StartError> {
        // Named one by one: the compiler reports a limit that is not applied.
        let LiveLimits { partition, admission, identify, drain, write_stall_ms, free_bytes_min, keep_days } =
            LiveLimits::of(config, &self.gateway_url, self.live.files_allowed)?;
        self.server.partitions().take_limits(partition);
        self.server.set_connections_max(admission.connections_max);
        self.server.set_admission(admission);
        self.server.set_write_stall_ms(write_stall_ms);
        self.stop.times = drain;
        let Live { gate, retention, disk, tls, .. } = &self.live;
        gate.set_limits(identify);
        disk.iter().for_each(|disk| disk.set_bytes_min(free_bytes_min));
        retention.set_keep_days(keep_days);
        tls.iter().for_each(tls::Pair::read_again);
        Ok(())
    }

    /// Reopens files that a log rotation may have renamed: the access log.
    pub fn reopen_logs(&self) {
        self.telemetry.access.iter().for_each(|access| access.reopen());
    }

    /// Opens the socket for processes that take over. A node that none can take over refuses them there. None: the
    /// socket cannot be opened, and the log has the reason.
    pub fn open_door(&self, dir: &Path) -> Option<(Door, mpsc::Receiver<Successor>)> {
        let refusal = match self.node.membership() {
            Some(membership) => Some(TakeoverError::Cluster { node: membership.number().0.to_string() }),
            None => (self.stop.handover.bytes_max == 0).then_some(TakeoverError::NoHandover),
        };
        let opened = Door::open(dir, &self.listeners, refusal.map(|refusal| refusal.to_string()));
        opened.inspect_err(|error| tracing::warn!(%error, "this node cannot be taken over: restart it instead")).ok()
    }

    /// Brings the node to the point at which all can be passed on: requests are answered, no client waits for an
    /// answer, and no socket is read. Returns the time since which none is read.
    ///
    /// # Errors
    /// The other process has ended. This one serves as before.
    pub async fn freeze_for(&mut self, successor: &Successor) -> Result<u64, StartError> {
        self.server.pause_accepting(REQUESTS_MS_MAX).await;
        if successor.is_waiting() {
            let frozen_at_ns = machine_ns();
            self.server.partitions().freeze();
            self.server.partitions().settle(SETTLING_MAX).await;
            if successor.is_waiting() {
                return Ok(frozen_at_ns);
            }
        }
        self.server.partitions().thaw();
        let source = io::Error::from(io::ErrorKind::UnexpectedEof);
        let listen = self.listeners.listen;
        let listener = self.listeners.listener.try_clone().map(std::net::TcpListener::from);
        let (listener, _) = inherited(listen, listener.map_err(|source| StartError::Listen { listen, source })?)?;
        self.server.accept_again(listener);
        Err(TakeoverError::Broken(source).into())
    }

    /// Passes all on to a process that takes over, after `freeze_for`, and ends.
    ///
    /// # Errors
    /// The other process has failed. The sessions are in the hand-over file, if it has not read it.
    pub async fn pass_on(self, successor: Successor, door: Door, frozen_at_ns: u64) -> anyhow::Result<()> {
        let Self { node, reports, telemetry, server, store, live, stop, guards, compression, .. } = self;
        let Telemetry { sampler, traces, access } = telemetry;
        let deadline = Instant::now() + stop.times.total;
        let HandOverTo { dir, bytes_max, loss } = stop.handover;
        drop(sampler);
        let guilds_passed = Arc::new(GuildsPassed::to(successor));
        node.export_to(guilds_passed.clone());
        let guilds = in_time(deadline, "the guild workers", node.shut_down()).await.is_some();
        let loss = if guilds { loss } else { RecentLoss::Possible };
        let passing = tokio::task::spawn_blocking(move || {
            let passed = server.partitions().pass_on(bytes_max, loss);
            let (over, conns): (Vec<_>, Vec<_>) = passed.into_iter().map(|of| (of.over, of.conns)).unzip();
            keep_sessions(&dir, &over);
            (server, conns.into_iter().flatten().collect::<Vec<_>>())
        });
        let (server, conns) = passing.await?;
        let mut successor = guilds_passed.end().ok_or_else(|| anyhow::anyhow!("the guilds were passed on twice"))?;
        let _ = in_time(deadline, "the store", store.close()).await;
        drop((live, guards, compression));
        let kept = tokio::task::spawn_blocking(move || reports.keep_history());
        let _ = in_time(deadline, "the history", kept).await;
        let passed = tokio::task::spawn_blocking(move || {
            // Until the other process has all of them, they are open here.
            let passed = successor.pass(&conns, frozen_at_ns);
            drop(conns);
            (successor, passed)
        });
        let (mut successor, passed) = passed.await?;
        let ending = tokio::task::spawn_blocking(move || server.end());
        let served = match passed {
            Ok(()) => tokio::task::spawn_blocking(move || successor.served()).await?,
            Err(error) => Err(error),
        };
        let _ = in_time(deadline, "the partitions", ending).await;
        match &served {
            Ok(served) => {
                notify(&format!("MAINPID={}", served.pid));
                door.report(*served);
                door.leave();
            }
            Err(error) => door.report_failure(&format!("the new process failed after this one had ended: {error}")),
        }
        if let Some(traces) = traces {
            traces.end().await;
        }
        if let Some(access) = access {
            let _ = in_time(deadline, "the access log", tokio::task::spawn_blocking(move || access.end())).await;
        }
        let served = served.map_err(|error| anyhow::anyhow!("the process that took over failed: {error}"))?;
        tracing::info!(
            pid = served.pid,
            conns = served.conns,
            pause_ms = served.pause_ms,
            "passed on; this process ends"
        );
        Ok(())
    }

    /// Stops the node: `/readyz` answers 503, then clients are refused, then commands, then sessions are written to the
    /// hand-over, then the store closes. False if a part did not end in time; acknowledged writes are safe in any case.
    pub async fn stop(self) -> bool {
        self.stop_and_leave(Health::Sound).await
    }

    /// Only a sound node hands over guilds and sessions.
    async fn stop_and_leave(self, health: Health) -> bool {
        let is_sound = health == Health::Sound;
        let Stop { times: DrainTimes { notice, total }, handover, departures } = self.stop;
        let Telemetry { sampler, traces, access } = self.telemetry;
        self.ready.store(false, Ordering::Release);
        let accepted = departures.as_ref().map(|(departures, _)| departures.watch_accepted());
        self.node.membership().iter().for_each(|membership| membership.drain());
        self.reports.set_draining();
        drop(sampler);
        if self.server.conns_count() > 0 && !notice.is_zero() {
            tracing::info!(notice_ms = notice.as_millis() as u64, "not ready any more; clients are still served");
            tokio::time::sleep(notice).await;
        }
        let deadline = Instant::now() + total;
        if is_sound && let Some(membership) = self.node.membership() {
            // While clients are here: they notice nothing.
            let (left, stayed) = membership.move_all(Instant::now() + total / HANDOFF_PART).await;
            tracing::info!(left, stayed, "guilds were handed over");
        }
        let plan = DrainPlan::within(deadline.saturating_duration_since(Instant::now()));
        let (server, listeners) = (self.server, self.listeners);
        // Otherwise sessions that go to other nodes stay in voice.
        let ends_voice = departures.is_none() || !is_sound;
        let letting_go = tokio::task::spawn_blocking(move || {
            let report = server.let_go(plan, accepted.as_deref());
            // From now on the system refuses connections: with a duplicate open they would wait for the end
            // of the process.
            drop(listeners);
            log_drained(report);
            if ends_voice {
                // Ended while other members can still receive the change.
                server.partitions().leave_voice();
            }
            server
        });
        let server = in_time(deadline, "the clients", letting_go).await.and_then(Result::ok);
        let sent_back = match departures {
            // While the guilds of this node still attach the sessions at other nodes.
            Some((departures, mirrors)) if is_sound && server.is_some() => {
                let until = deadline.max(Instant::now()) + Duration::from_millis(DEPARTURE_MS_MAX);
                let back = departures.send_away(until).await;
                // The sessions are at other nodes, or in the file for the next start.
                mirrors.leave().await;
                back
            }
            _ => Vec::new(),
        };
        if let Some(server) = &server {
            // Before the guilds end, because they answer them; one may be the request for this stop.
            server.end_requests(PART_MS_MIN).await;
        }
        let guilds = in_time(deadline, "the guild workers", self.node.shut_down()).await.is_some();
        if let Some(membership) = self.node.membership() {
            // Before anything else ends: other nodes take over the guilds at once.
            let _ = in_time(deadline, "the cluster", membership.leave()).await;
        }
        let clients = match server {
            None => false,
            Some(server) => {
                let leave = (is_sound && guilds && handover.bytes_max > 0).then_some(handover);
                let ending = tokio::task::spawn_blocking(move || {
                    if let Some(to) = leave {
                        leave_sessions(&server, &to, sent_back);
                    }
                    server.end();
                });
                let deadline = deadline.max(Instant::now() + Duration::from_millis(HANDOVER_MS_MAX));
                in_time(deadline, "the partitions", ending).await.is_some()
            }
        };
        let writes = in_time(deadline, "the store", self.store.close()).await.is_some();
        if let Some(traces) = traces {
            traces.end().await;
        }
        let reports = self.reports;
        let _ = in_time(deadline, "the history", tokio::task::spawn_blocking(move || reports.keep_history())).await;
        if let Some(access) = access {
            // Flushed last: no client waits for it.
            let _ = in_time(deadline, "the access log", tokio::task::spawn_blocking(move || access.end())).await;
        }
        drop(self.guards);
        clients && guilds && writes
    }
}

fn log_drained(report: DrainReport) {
    let DrainReport { asked_count, asking_ms, stayed_count, followed } = report;
    tracing::info!(asked = asked_count, asking_ms, stayed = stayed_count, followed, "clients have disconnected");
}

/// The result of `work`, if it completes in time.
async fn in_time<T>(deadline: Instant, part: &'static str, work: impl Future<Output = T>) -> Option<T> {
    let limit = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(PART_MS_MIN));
    let done = tokio::time::timeout(limit, work).await.ok();
    if done.is_none() {
        tracing::warn!(part, limit_ms = limit.as_millis() as u64, "a part did not stop in time");
    }
    done
}
