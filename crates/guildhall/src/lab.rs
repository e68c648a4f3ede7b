//! Lab: recordings and dark launches of this node's sessions, on a thread of their own.
//!
//! Owns        the one recording and the one dark launch of the node, and the work of their thread.
//! Limits      one of each; `CPU_PERMILLE` of a core while a recording runs, and `cpu_permille` of a
//!             dark launch's plan.
//! Not here    form and bounds of a recording: `guildhall_lab::Recorder`. The copies: `guildhall_partition::TapSwitch`.

use crate::{installed::InstalledDictionaries, secrets::random};
use async_trait::async_trait;
use guildhall_backend::{
    DarkArm, DarkBody, DarkPlan, DarkSum, DarkType, DictionaryBody, Lab, LabFault, RecordingBody, RecordingPlan,
};
use guildhall_codec::{Arm, CodecError, Encoding};
use guildhall_lab::{ArmStatus, Dark, Ended, Recorder, RecorderParams, Sum, thread_cpu_ns};
use guildhall_partition::{TapFilter, TapSwitch};
use guildhall_telemetry::spare::SpareWork;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

/// Thousandths of a core: some 2,000 dispatches a second.
const CPU_PERMILLE: u64 = 50;

/// Sessions of a recording at its start: others follow while the thread keeps up.
const RECORDED_FIRST: usize = 4;
/// The same of a dark launch. Four arms may take the whole budget for one session of a busy guild.
const DARK_FIRST: usize = 1;

/// The recorder of a node. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct NodeLab {
    taps: TapSwitch,
    installed: InstalledDictionaries,
    recording: Arc<Mutex<Option<Recording>>>,
    dark: Arc<Mutex<Option<Launch>>>,
    /// Number in the cluster.
    node: Option<u32>,
}

/// A dark launch.
#[derive(Debug)]
struct Launch {
    dark: Dark,
    started_at: u64,
    cpu_permille: u32,
    cpu_ns: u64,
}

impl Launch {
    fn body(&self) -> DarkBody {
        let status = self.dark.status();
        let state = match (status.is_failed, status.is_running) {
            (true, _) => "failed",
            (false, true) => "running",
            (false, false) => "stopped",
        };
        DarkBody {
            state,
            started_at: self.started_at,
            sessions: status.sessions_total,
            sessions_now: status.sessions_now,
            sessions_busy: status.sessions_busy_total,
            sessions_memory: status.sessions_memory_total,
            memory_bytes: status.memory_bytes,
            cpu_permille: self.cpu_permille,
            cpu_ns: self.cpu_ns,
            arms: status.arms.into_iter().map(arm_body).collect(),
        }
    }
}

fn arm_body(status: ArmStatus) -> DarkArm {
    let of_type = |(name, sum): (&str, Sum)| DarkType { name: name.to_owned(), sum: sum_body(sum) };
    DarkArm {
        arm: status.arm,
        connection_bytes: status.connection_bytes,
        total: sum_body(status.total),
        types: status.by_event.into_iter().map(of_type).collect(),
    }
}

fn sum_body(Sum { count, plain_bytes, wire_bytes, cpu_ns }: Sum) -> DarkSum {
    DarkSum { count, plain_bytes, wire_bytes, cpu_ns }
}

#[derive(Debug)]
struct Recording {
    id: u64,
    recorder: Recorder,
}

impl Recording {
    fn body(&self) -> RecordingBody {
        let status = self.recorder.status();
        RecordingBody {
            id: self.id.to_string(),
            started_at: status.header.started_at,
            ended: status.ended.map(Ended::name),
            scrubbed: status.header.scrubbed,
            private: status.header.private,
            node: status.header.node,
            sessions: status.sessions_total,
            sessions_now: status.sessions_now,
            sessions_full: status.sessions_full_total,
            dispatches: status.dispatches_total,
            left_out: status.left_out_total,
            bytes: status.bytes_total,
            waiting_bytes: status.waiting_bytes,
        }
    }
}

fn lock<T>(of: &Mutex<Option<T>>) -> MutexGuard<'_, Option<T>> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn encoding_of(name: Option<&str>) -> Option<Encoding> {
    [Encoding::Json, Encoding::Etf].into_iter().find(|encoding| name == Some(encoding.name()))
}

impl NodeLab {
    /// Arms may name these dictionaries. `node` is the number in the cluster.
    pub fn new(installed: InstalledDictionaries, node: Option<u32>) -> Self {
        Self { installed, taps: TapSwitch::default(), recording: Arc::default(), dark: Arc::default(), node }
    }

    /// The switch of all partitions.
    pub fn taps(&self) -> &TapSwitch {
        &self.taps
    }

    /// The work of its thread.
    pub fn work(&self) -> LabWork {
        LabWork { recording: self.recording.clone(), dark: self.dark.clone() }
    }

    /// Runs `f` on a thread that may wait: the thread of the lab has the lock for a step, at the lowest priority.
    async fn with<T: Send + 'static>(&self, f: impl FnOnce(&Self) -> T + Send + 'static) -> Option<T> {
        let lab = self.clone();
        tokio::task::spawn_blocking(move || f(&lab)).await.ok()
    }

    fn start_now(&self, plan: RecordingPlan) -> Result<RecordingBody, LabFault> {
        let mut recording = lock(&self.recording);
        if let Some(running) = recording.as_ref().filter(|of| of.recorder.status().ended.is_none()) {
            return Err(LabFault::Busy(running.id));
        }
        let filter = TapFilter {
            one_in: plan.one_in,
            sessions_max: plan.sessions_max as usize,
            sessions_first: RECORDED_FIRST,
            counts_ended: true,
            guild_id: plan.guild_id,
            platform: plan.platform,
            encoding: encoding_of(plan.encoding.as_deref()),
            private: plan.private,
        };
        let params = RecorderParams {
            scrubbed: plan.scrub,
            private: plan.private,
            bytes_max: plan.bytes_max,
            duration_max: Duration::from_secs(plan.seconds_max),
            started_at: unix_seconds(),
            node: self.node,
        };
        let key = random().map_err(|_| LabFault::Memory)?;
        // Of no recording before a restart.
        let id = recording.as_ref().map_or(0, |last| last.id + 1).max(unix_seconds());
        let tap = self.taps.start(filter).ok_or(LabFault::Busy(id))?;
        let recorder = Recorder::new(tap, params, key).map_err(|_| LabFault::Memory)?;
        tracing::info!(
            target: "guildhall::lab",
            id,
            scrubbed = plan.scrub,
            private = plan.private,
            "a recording of sessions begins"
        );
        Ok(recording.insert(Recording { id, recorder }).body())
    }
}

impl NodeLab {
    fn start_dark_now(&self, plan: &DarkPlan) -> Result<DarkBody, LabFault> {
        let mut launch = lock(&self.dark);
        if launch.as_ref().is_some_and(|launch| launch.dark.is_running()) {
            return Err(LabFault::BusyDark);
        }
        let wrong = |error: anyhow::Error| LabFault::Arms(format!("{error:#}."));
        let arms: Result<Vec<Arm>, _> = plan.arms.iter().map(|text| text.parse()).collect();
        let arms = arms.map_err(|error: guildhall_codec::ArmError| wrong(error.into()))?;
        let encoding = encoding_of(plan.encoding.as_deref());
        let encodings = encoding.map_or_else(|| vec![Encoding::Json, Encoding::Etf], |encoding| vec![encoding]);
        let runs = Dark::runs(&arms, &encodings, &self.installed.all()).map_err(wrong)?;
        let filter = TapFilter {
            one_in: plan.one_in,
            // Without CPU time nothing is copied.
            sessions_max: if plan.cpu_permille == 0 { 0 } else { plan.sessions_max as usize },
            sessions_first: DARK_FIRST,
            counts_ended: false,
            guild_id: plan.guild_id,
            platform: plan.platform.clone(),
            encoding,
            // Only sums leave the thread.
            private: true,
        };
        let tap = self.taps.start(filter).ok_or(LabFault::BusyDark)?;
        let memory_bytes_max = usize::try_from(plan.memory_bytes_max).unwrap_or(usize::MAX);
        let dark = Dark::new(tap, runs, memory_bytes_max);
        tracing::info!(target: "guildhall::lab", arms = plan.arms.join(" "), "a dark launch begins");
        let started_at = unix_seconds();
        Ok(launch.insert(Launch { dark, started_at, cpu_permille: plan.cpu_permille, cpu_ns: 0 }).body())
    }
}

#[async_trait]
impl Lab for NodeLab {
    async fn start_dark(&self, plan: DarkPlan) -> Result<DarkBody, LabFault> {
        self.with(move |lab| lab.start_dark_now(&plan)).await.unwrap_or(Err(LabFault::Memory))
    }

    async fn dark(&self) -> Option<DarkBody> {
        self.with(|lab| lock(&lab.dark).as_ref().map(Launch::body)).await.flatten()
    }

    async fn stop_dark(&self) -> bool {
        let stopped = self.with(|lab| {
            let mut launch = lock(&lab.dark);
            match launch.as_mut() {
                None => return false,
                Some(running) if running.dark.is_running() => running.dark.end(),
                Some(_) => *launch = None,
            }
            true
        });
        stopped.await.unwrap_or(false)
    }

    async fn dictionaries(&self) -> Vec<DictionaryBody> {
        self.installed.list()
    }

    async fn stage_dictionary(&self, encoding: &str, bytes: Vec<u8>) -> Result<(DictionaryBody, bool), LabFault> {
        self.installed.stage(encoding, bytes).await
    }

    async fn serve_dictionary(&self, id: &str, permille: Option<u16>) -> Result<Option<DictionaryBody>, LabFault> {
        self.installed.serve(id, permille).await
    }

    async fn remove_dictionary(&self, id: &str) -> Result<bool, LabFault> {
        self.installed.remove(id).await
    }

    async fn start(&self, plan: RecordingPlan) -> Result<RecordingBody, LabFault> {
        self.with(|lab| lab.start_now(plan)).await.unwrap_or(Err(LabFault::Memory))
    }

    async fn recording(&self) -> Option<RecordingBody> {
        self.with(|lab| lock(&lab.recording).as_ref().map(Recording::body)).await.flatten()
    }

    async fn frames(&self, id: &str, from: u64, bytes_max: usize) -> Option<Option<Vec<u8>>> {
        let id = id.parse().ok();
        self.with(move |lab| {
            let mut recording = lock(&lab.recording);
            let found = recording.as_mut().filter(|recording| Some(recording.id) == id)?;
            Some(found.recorder.read(from, bytes_max))
        })
        .await
        .flatten()
    }

    async fn stop(&self, id: &str) -> bool {
        let id = id.parse().ok();
        let stopped = self.with(move |lab| {
            let mut recording = lock(&lab.recording);
            let Some(found) = recording.as_mut().filter(|recording| Some(recording.id) == id) else { return false };
            match found.recorder.status().ended {
                None => found.recorder.end(Ended::Stopped),
                Some(_) => *recording = None,
            }
            true
        });
        stopped.await.unwrap_or(false)
    }
}

/// Turns copies into frames, and writes them in the arms of a dark launch.
#[derive(Debug)]
pub(crate) struct LabWork {
    recording: Arc<Mutex<Option<Recording>>>,
    dark: Arc<Mutex<Option<Launch>>>,
}

impl SpareWork for LabWork {
    const NAME: &'static str = "lab";

    fn step(&mut self) -> Result<bool, CodecError> {
        let recorded = lock(&self.recording).as_mut().is_some_and(|recording| recording.recorder.step());
        let written = lock(&self.dark).as_mut().is_some_and(|launch| {
            let started_ns = thread_cpu_ns();
            let is_written = launch.dark.step();
            launch.cpu_ns += thread_cpu_ns().saturating_sub(started_ns);
            is_written
        });
        Ok(recorded || written)
    }

    fn set_cpu_ns(&mut self, _: u64) {}

    fn cpu_permille(&self) -> u64 {
        let is_recording = lock(&self.recording).as_ref().is_some_and(|of| of.recorder.status().ended.is_none());
        let dark = lock(&self.dark).as_ref().filter(|launch| launch.dark.is_running()).map(|of| of.cpu_permille);
        let recording = if is_recording { CPU_PERMILLE } else { 0 };
        // Never none: what waits when both have ended is little.
        (recording + dark.map_or(0, u64::from)).max(1)
    }
}
