//! Experiments: their state in the store, and what this node makes of it.
//!
//! Owns        the record of experiments, which all nodes of a cluster share; the table that partitions obey; the
//!             guardrails of this node's samples.
//! Doors       `NodeExperiments::start`; the trait `Experiments` for `/v1/experiments`.
//! Invariants  P1 a change is made of the record as it is stored: no change undoes another one. P2 a node obeys a
//!             change when it hears of it on the bus, and within `READ_EVERY` in any case. P3 a guardrail's alarm ends
//!             the experiment on all nodes, once.
//! Limits      `CHANGES_TRIED_MAX`; `RECONNECTS_PER_S` clients are sent op 7 per second and node, for at most
//!             `RECONNECT_MAX`.
//! Not here    rules of the record: `stored`. Streams and samples: `guildhall-partition`. The test: `guildhall-lab`.
//!             Spec  docs/lab.md "Experiments", ADR 42.

mod judge;
mod stored;

pub(crate) use judge::Judge;

use async_trait::async_trait;
use guildhall_backend::{
    ExperimentArmReport, ExperimentBody, ExperimentChange, ExperimentComparison, ExperimentFault, ExperimentMetric,
    ExperimentReport, ExperimentStop, Experiments, NewExperiment,
};
use guildhall_codec::ContextPool;
use guildhall_lab::{MetricReport, Verdict, WatchParams, WatchSums};
use guildhall_net::Partitions;
use guildhall_node::{Membership, Node, PeerQuestion};
use guildhall_partition::{
    ArmStream, ExperimentTable, Experiments as Assignment, RunningExperiment, SampleQueue, StreamCodec,
};
use guildhall_store::StoreError;
use judge::Watches;
use serde::{Deserialize, Serialize};
use std::{
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};
use stored::{Document, Stored, check_containers, plan_of, stream_of};
use tokio::{task::JoinHandle, time::Instant};

/// The record.
const KIND: &str = "experiments";
const RECORD: &[u8] = b"all";
const CHANGES_TRIED_MAX: usize = 16;
/// A node of a cluster reads the record so often. A node alone makes all changes itself.
const READ_EVERY: Duration = Duration::from_millis(500);
/// Clients of an ended experiment that are sent op 7, of a node.
const RECONNECTS_PER_S: usize = 200;
const RECONNECT_TICK: Duration = Duration::from_millis(50);
const RECONNECT_MAX: Duration = Duration::from_secs(600);

/// Another node has changed the record.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Changed;

impl PeerQuestion for Changed {
    const KIND: &'static str = "experiments-changed";
    type Answer = ();
}

/// Question to a node: the sums of its samples.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SumsOf(u64);

impl PeerQuestion for SumsOf {
    const KIND: &'static str = "experiment-sums";
    /// None: it has none.
    type Answer = Option<(WatchSums, u64)>;
}

/// The experiments of this node. Clones share them.
#[derive(Clone)]
pub(crate) struct NodeExperiments(Arc<Inner>);

struct Inner {
    node: Node,
    partitions: Partitions,
    contexts: ContextPool,
    streams: StreamCodec,
    samples: SampleQueue,
    watches: Watches,
    /// The record as this node obeys it, with the streams of its arms.
    obeyed: Mutex<Obeyed>,
    /// One reading at a time, so that an earlier one is never obeyed after a later one.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Obeyed {
    bytes: Option<Vec<u8>>,
    document: Document,
    /// Streams of the arms of running experiments, by the experiment's number.
    streams: Vec<(u64, Vec<ArmStream>)>,
}

/// Obeys changes of the record until it is dropped.
pub(crate) struct Following(JoinHandle<()>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn params_of(body: &ExperimentBody) -> WatchParams {
    WatchParams {
        arms_count: body.arms.len(),
        alpha: body.alpha,
        tolerance: body.tolerance_percent / 100.0,
        samples_min: body.samples_min,
    }
}

impl NodeExperiments {
    /// Of a node whose new connections have these streams. Nothing runs before `follow`.
    pub fn new(node: Node, partitions: Partitions, contexts: ContextPool, streams: StreamCodec) -> Self {
        let (samples, watches, obeyed, reading) = Default::default();
        Self(Arc::new(Inner { node, partitions, contexts, streams, samples, watches, obeyed, reading }))
    }

    /// The work of the thread that judges samples.
    pub fn judge(&self) -> Judge {
        Judge::new(self.0.samples.clone(), self.0.watches.clone())
    }

    /// Obeys the record, and follows its changes.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn follow(&self) -> Result<Following, StoreError> {
        self.read().await?;
        if let Some(membership) = self.0.node.membership() {
            self.answer_others(membership);
        }
        let this = self.clone();
        Ok(Following(tokio::spawn(async move { this.run().await })))
    }

    fn answer_others(&self, membership: &Arc<Membership>) {
        let of = Arc::downgrade(&self.0);
        membership.on_question(move |Changed| {
            let of = of.clone();
            async move {
                let inner = of.upgrade()?;
                // Answered once this node obeys it.
                Self(inner).read().await.ok()
            }
        });
        let of = Arc::downgrade(&self.0);
        membership.on_question(move |SumsOf(id)| {
            ready(of.upgrade().map(|inner| Some((inner.watches.sums(id)?, inner.samples.dropped_total()))))
        });
    }

    async fn run(&self) {
        let is_alone = self.0.node.membership().is_none();
        loop {
            let read = tokio::time::sleep(READ_EVERY);
            tokio::select! {
                () = self.0.watches.alarmed() => self.roll_back().await,
                () = read, if !is_alone => {
                    if let Err(error) = self.read().await {
                        tracing::debug!(target: "guildhall::lab", %error, "the experiments cannot be read; it is tried again");
                    }
                }
            }
        }
    }

    fn obeyed(&self) -> MutexGuard<'_, Obeyed> {
        self.0.obeyed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the record, and obeys it if it has changed.
    async fn read(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.0.reading.lock().await;
        let bytes = self.0.node.store().record(KIND, RECORD).await?;
        self.obey(bytes);
        Ok(())
    }

    fn obey(&self, bytes: Option<Vec<u8>>) {
        if self.obeyed().bytes == bytes {
            return;
        }
        let document = match bytes.as_deref().map_or_else(|| Ok(Document::default()), serde_json::from_slice) {
            Ok(document) => document,
            Err(error) => {
                tracing::error!(target: "guildhall::lab", %error, "the experiments in the store cannot be read: upgrade this node");
                return;
            }
        };
        let known = std::mem::take(&mut self.obeyed().streams);
        let (mut experiments, mut running, mut streams) = (Vec::new(), Vec::new(), Vec::new());
        for stored in document.experiments.iter().filter(|of| of.is_running()) {
            let arms = match known.iter().find(|(id, _)| *id == stored.id) {
                Some((_, arms)) => arms.clone(),
                None => match self.streams_of(&stored.body) {
                    Ok(arms) => arms,
                    Err(error) => {
                        // Another node of the cluster has other settings.
                        tracing::warn!(
                            target: "guildhall::lab",
                            experiment = stored.body.name,
                            %error,
                            "this node takes no part in an experiment"
                        );
                        continue;
                    }
                },
            };
            experiments.push(stored.experiment());
            running.push(RunningExperiment { id: stored.id, arms: arms.clone() });
            streams.push((stored.id, arms));
        }
        let running_bodies = document.experiments.iter().filter(|of| of.is_running());
        self.0.watches.set(running_bodies.map(|of| (of.id, of.body.name.clone(), params_of(&of.body), &of.body.arms)));
        self.0.watches.retain(document.experiments.iter().map(|of| of.id));
        let table = match Assignment::new(experiments) {
            Ok(experiments) => ExperimentTable::new(experiments, running, self.0.samples.clone()),
            Err(error) => {
                tracing::error!(target: "guildhall::lab", %error, "the experiments in the store contradict each other: none runs");
                ExperimentTable::default()
            }
        };
        self.0.partitions.take_experiments(&Arc::new(table));
        let before = std::mem::replace(&mut *self.obeyed(), Obeyed { bytes, document: document.clone(), streams });
        for stored in &document.experiments {
            let earlier = before.document.experiments.iter().find(|of| of.id == stored.id);
            self.note(earlier, stored);
        }
    }

    /// Logs a change of state, and sends op 7 if it is to.
    fn note(&self, before: Option<&Stored>, stored: &Stored) {
        let ExperimentBody { name, permille, state, changed_by, reason, reconnected, .. } = &stored.body;
        if before.is_none_or(|before| before.body != stored.body) {
            tracing::info!(
                target: "guildhall::lab",
                experiment = name,
                ?state,
                permille,
                by = changed_by,
                reason,
                "an experiment"
            );
        }
        // Of an experiment that ended before this node started no client is here.
        if *reconnected && before.is_some_and(|before| !before.body.reconnected) {
            let (partitions, id) = (self.0.partitions.clone(), stored.id);
            tokio::spawn(reconnect(partitions, id));
        }
    }

    fn streams_of(&self, body: &ExperimentBody) -> Result<Vec<ArmStream>, ExperimentFault> {
        let Inner { contexts, streams, .. } = &*self.0;
        let field = |at: usize, message: String| {
            let name = if body.arms[at].policy.is_some() { "policy" } else { "arm" };
            ExperimentFault::Field(format!("arms[{at}].{name}"), message)
        };
        let mut plans = Vec::new();
        for (at, arm) in body.arms.iter().enumerate() {
            plans.push(plan_of(arm, *streams, contexts).map_err(|message| field(at, message))?);
        }
        check_containers(&plans)?;
        let stream = |(at, plan)| stream_of(plan, contexts).map_err(|message| field(at, message));
        plans.into_iter().enumerate().map(stream).collect()
    }

    /// Changes the record, obeys it, and has the other nodes obey it.
    async fn update<T>(
        &self,
        change: impl Fn(&mut Document) -> Result<T, ExperimentFault>,
    ) -> Result<T, ExperimentFault> {
        for _ in 0..CHANGES_TRIED_MAX {
            let before = self.0.node.store().record(KIND, RECORD).await?;
            let mut document: Document = match before.as_deref() {
                None => Document::default(),
                Some(bytes) => serde_json::from_slice(bytes).map_err(|_| {
                    ExperimentFault::Conflict(
                        "A later version has written the experiments: upgrade this node.".to_owned(),
                    )
                })?,
            };
            let changed = change(&mut document)?;
            let after = serde_json::to_vec(&document).expect("numbers and texts serialise");
            if self.0.node.store().swap_record(KIND, RECORD, before.as_deref(), Some(&after)).await? {
                self.read().await?;
                if let Some(membership) = self.0.node.membership() {
                    membership.ask_all(&Changed).await;
                }
                return Ok(changed);
            }
        }
        Err(ExperimentFault::Conflict("Other callers changed the experiments all the time: try again.".to_owned()))
    }

    async fn roll_back(&self) {
        for (id, reason) in self.0.watches.take_alarms() {
            let rolled = self.update(|document| Ok(document.roll_back(id, &reason, now_s()))).await;
            match rolled {
                Ok(Some(body)) => {
                    tracing::warn!(target: "guildhall::lab", experiment = body.name, reason, "an experiment is rolled back");
                    guildhall_backend::note_rollback(&self.0.node, &body.name).await;
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(target: "guildhall::lab", %error, reason, "an experiment cannot be rolled back; it is tried again");
                    self.0.watches.alarm_again(id, reason);
                    tokio::time::sleep(READ_EVERY).await;
                }
            }
        }
    }
}

/// Sends op 7 to the clients of an experiment that has ended, at a bounded rate.
async fn reconnect(partitions: Partitions, experiment: u64) {
    let per_tick = RECONNECTS_PER_S * RECONNECT_TICK.as_millis() as usize / 1_000;
    let (ends_at, share) = (Instant::now() + RECONNECT_MAX, per_tick.div_ceil(partitions.count().max(1)));
    let mut sum = 0;
    while Instant::now() < ends_at {
        let mut count = 0;
        for sent in partitions.reconnect_trials(experiment, share) {
            count += sent.await.unwrap_or(0);
        }
        sum += count;
        if count == 0 {
            break;
        }
        tokio::time::sleep(RECONNECT_TICK).await;
    }
    tracing::info!(target: "guildhall::lab", clients = sum, "clients of an ended experiment were sent op 7");
}

#[async_trait]
impl Experiments for NodeExperiments {
    async fn list(&self) -> Result<Vec<ExperimentBody>, ExperimentFault> {
        self.read().await?;
        Ok(self.obeyed().document.experiments.iter().map(|of| of.body.clone()).collect())
    }

    async fn create(&self, new: NewExperiment, by: &str) -> Result<ExperimentBody, ExperimentFault> {
        let trial = Document::default().create(&new, by, now_s())?;
        let this = self.clone();
        // It makes a context of each arm.
        let checked = tokio::task::spawn_blocking(move || this.streams_of(&trial).map(drop)).await;
        checked.unwrap_or(Err(ExperimentFault::NotHere))?;
        self.update(|document| document.create(&new, by, now_s())).await
    }

    async fn change(&self, name: &str, change: ExperimentChange, by: &str) -> Result<ExperimentBody, ExperimentFault> {
        self.update(|document| document.change(name, &change, by, now_s())).await
    }

    async fn stop(&self, name: &str, stop: ExperimentStop, by: &str) -> Result<ExperimentBody, ExperimentFault> {
        self.update(|document| document.stop(name, &stop, by, now_s())).await
    }

    async fn remove(&self, name: &str) -> Result<(), ExperimentFault> {
        self.update(|document| document.remove(name)).await
    }

    async fn report(&self, name: &str) -> Result<ExperimentReport, ExperimentFault> {
        self.read().await?;
        let found = self.obeyed().document.experiments.iter().find(|of| of.body.name == name).cloned();
        let Stored { id, body } = found.ok_or(ExperimentFault::Unknown)?;
        let params = params_of(&body);
        let mut sums = self.0.watches.sums(id).unwrap_or_else(|| guildhall_lab::Watch::new(params).sums().clone());
        let (mut nodes, mut samples_dropped) = (1, self.0.samples.dropped_total());
        if let Some(membership) = self.0.node.membership() {
            for (_, answer) in membership.ask_all(&SumsOf(id)).await {
                let Some((theirs, dropped)) = answer else { continue };
                sums.merge(&theirs);
                nodes += 1;
                samples_dropped += dropped;
            }
        }
        let arms = body.arms.iter().enumerate().map(|(at, arm)| ExperimentArmReport {
            name: arm.name.clone(),
            connections: sums.connections(at),
            metrics: sums.report(&params, at).into_iter().map(metric_body).collect(),
        });
        let arms = arms.collect();
        Ok(ExperimentReport { name: body.name, state: body.state, reason: body.reason, nodes, samples_dropped, arms })
    }
}

fn metric_body(report: MetricReport) -> ExperimentMetric {
    let comparison = match report.verdict {
        Verdict::TooFew => None,
        Verdict::Open(interval) => Some((interval, false)),
        Verdict::Worse(interval) => Some((interval, true)),
    };
    ExperimentMetric {
        name: report.metric.name().to_owned(),
        samples: report.samples,
        mean: report.mean,
        comparison: comparison.map(|(of, is_worse)| ExperimentComparison {
            difference: of.difference,
            low: of.low,
            high: of.high,
            is_worse,
        }),
    }
}
