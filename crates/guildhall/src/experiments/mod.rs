//! Experiments: their state in the store, and its effect on this node.
//!
//! Owns        the record of experiments, which all nodes of a cluster share; the table that partitions obey; the
//!             guardrails of this node's samples.
//! Doors       `NodeExperiments::start`; the trait `Experiments` for `/v1/experiments`.
//! Invariants  P1 a change is made of the record as it is stored: no change undoes another one. P2 a node obeys a
//!             change when it hears of it on the bus, and within `READ_EVERY` in any case. P3 a guardrail's alarm ends
//!             the experiment on all nodes, once. P4 each node has the sums of all, at most `SHARE_EVERY` and the time
//!             of an answer old; that with the lowest number tests them.
//! Limits      `CHANGES_TRIED_MAX`; `RECONNECTS_PER_S` clients are sent op 7 per second and node, for at most
//!             `RECONNECT_MAX`.
//! Not here    rules of the record: `stored`. Streams and samples: `guildhall-partition`. The test: `guildhall-lab`.
//!             Spec  docs/lab.md "Experiments", ADR 42.

mod judge;
mod stored;

pub(crate) use judge::Judge;

use crate::installed::InstalledDictionaries;
use async_trait::async_trait;
use guildhall_backend::{
    ExperimentArmReport, ExperimentBody, ExperimentChange, ExperimentComparison, ExperimentFault, ExperimentMetric,
    ExperimentReport, ExperimentStop, Experiments, NewExperiment,
};
use guildhall_codec::ContextPool;
use guildhall_lab::{MetricReport, ProcessSums, Verdict, WatchParams};
use guildhall_model::GuildId;
use guildhall_net::Partitions;
use guildhall_node::{Membership, Node, PeerQuestion};
use guildhall_partition::{
    DictionaryOffers, ExperimentTable, Experiments as Assignment, ListRequest, RunningExperiment, SampleQueue,
    StreamCodec,
};
use guildhall_store::StoreError;
use guildhall_telemetry::metrics::{ArmFigures, EXPERIMENTS_SHOWN, ExperimentFigures};
use judge::Watches;
use serde::{Deserialize, Serialize};
use std::{
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};
use stored::{Document, Stored, check_audience, check_containers, dictionaries_of, plan_of, stream_of};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::Instant,
};

/// Kind and id of the record.
const KIND: &str = "experiments";
const RECORD: &[u8] = b"all";
const CHANGES_TRIED_MAX: usize = 16;
/// Interval at which a node of a cluster reads the record. A single node makes all changes itself.
const READ_EVERY: Duration = Duration::from_millis(500);
/// A node of a cluster sends the others the accounts that requested their list so often: before these have fetched a
/// dictionary and connected.
const REQUESTS_EVERY: Duration = Duration::from_millis(50);
/// Interval at which a node of a cluster requests the sums of the others.
const SHARE_EVERY: Duration = Duration::from_secs(2);
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

/// Accounts that requested the list of their dictionaries at another node.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Requested(Vec<ListRequest>);

impl PeerQuestion for Requested {
    const KIND: &'static str = "experiment-list-requests";
    type Answer = ();
}

/// Question to a node: the sums that it has of an experiment, and its samples that were dropped.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SumsOf(u64);

impl PeerQuestion for SumsOf {
    const KIND: &'static str = "experiment-sums-by-process";
    /// None: it has none.
    type Answer = Option<(ProcessSums, u64)>;
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
    dictionaries: InstalledDictionaries,
    offers: DictionaryOffers,
    /// The record as this node obeys it, with the streams of its arms.
    obeyed: Mutex<Obeyed>,
    /// One reading at a time, so that an earlier one is never obeyed after a later one.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Obeyed {
    bytes: Option<Vec<u8>>,
    document: Document,
    /// Running experiments that this node takes part in.
    running: Vec<RunningExperiment>,
}

/// Obeys changes of the record, and shares sums with other nodes, until it is dropped.
pub(crate) struct Following(Vec<JoinHandle<()>>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
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
    pub fn new(
        node: Node,
        partitions: Partitions,
        (contexts, streams): (ContextPool, StreamCodec),
        dictionaries: InstalledDictionaries,
    ) -> Self {
        let (samples, obeyed, reading) = Default::default();
        let watches = Watches::new(node.membership().map_or(0, |membership| membership.reporter().process));
        let offers = DictionaryOffers::default();
        dictionaries.offered().set_trials(Arc::new(offers.clone()));
        let inner =
            Inner { node, partitions, contexts, streams, samples, watches, dictionaries, offers, obeyed, reading };
        Self(Arc::new(inner))
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
        let this = self.clone();
        let mut tasks = vec![tokio::spawn(async move { this.run().await })];
        if let Some(membership) = self.0.node.membership() {
            self.answer_others(membership);
            self.0.offers.collect_news();
            let (this, of_sums) = (self.clone(), membership.clone());
            tasks.push(tokio::spawn(async move { this.share(&of_sums).await }));
            let (this, of_requests) = (self.clone(), membership.clone());
            tasks.push(tokio::spawn(async move { this.share_requests(&of_requests).await }));
        }
        Ok(Following(tasks))
    }

    /// Sends the other nodes the accounts that requested their list here: clients may connect to any node.
    async fn share_requests(&self, membership: &Arc<Membership>) {
        let mut ticks = tokio::time::interval(REQUESTS_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let news = self.0.offers.take_news();
            if !news.is_empty() {
                membership.ask_all(&Requested(news)).await;
            }
        }
    }

    /// Takes the sums of the other nodes, and tests them if this node has the lowest number.
    async fn share(&self, membership: &Arc<Membership>) {
        let mut ticks = tokio::time::interval(SHARE_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let own = membership.number();
            self.0.watches.set_judge(membership.numbers().into_iter().all(|other| own < other));
            let mut requests = JoinSet::new();
            for id in self.0.watches.running() {
                let (this, membership) = (self.clone(), membership.clone());
                requests.spawn(async move {
                    for (theirs, _) in this.sums_of_others(&membership, id).await {
                        this.0.watches.take(id, theirs);
                    }
                    this.0.watches.test(id);
                });
            }
            requests.join_all().await;
        }
    }

    /// The sums that the other nodes have of an experiment, each with the number of samples that the node dropped.
    async fn sums_of_others(&self, membership: &Arc<Membership>, id: u64) -> Vec<(ProcessSums, u64)> {
        membership.ask_all(&SumsOf(id)).await.into_iter().filter_map(|(_, answer)| answer).collect()
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
        membership.on_question(move |Requested(requests)| {
            ready(of.upgrade().map(|inner| inner.offers.take_requests(requests)))
        });
        let of = Arc::downgrade(&self.0);
        membership.on_question(move |SumsOf(id)| {
            ready(of.upgrade().map(|inner| Some((inner.watches.by_process(id)?, inner.samples.dropped_total()))))
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
        self.obey(bytes).await
    }

    async fn obey(&self, bytes: Option<Vec<u8>>) -> Result<(), StoreError> {
        if self.obeyed().bytes == bytes {
            return Ok(());
        }
        let document = match bytes.as_deref().map_or_else(|| Ok(Document::default()), serde_json::from_slice) {
            Ok(document) => document,
            Err(error) => {
                tracing::error!(target: "guildhall::lab", %error, "the experiments in the store cannot be read: upgrade this node");
                return Ok(());
            }
        };
        let tried = document.experiments.iter().filter(|of| of.is_running()).flat_map(Stored::dictionaries).collect();
        self.0.dictionaries.try_out(tried).await?;
        let known = self.obeyed().running.clone();
        let (mut experiments, mut running) = (Vec::new(), Vec::new());
        for stored in document.experiments.iter().filter(|of| of.is_running()) {
            let of_node = match known.iter().find(|of| of.id == stored.id) {
                Some(of_node) => of_node.clone(),
                None => match self.running_of(stored.id, &stored.body) {
                    Ok(of_node) => of_node,
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
            running.push(of_node);
        }
        let running_bodies = document.experiments.iter().filter(|of| of.is_running());
        self.0.watches.set(running_bodies.map(|of| (of.id, of.body.name.clone(), params_of(&of.body), &of.body.arms)));
        self.0.watches.retain(document.experiments.iter().map(|of| of.id));
        let table = match Assignment::new(experiments) {
            Ok(experiments) => {
                let outputs = (self.0.samples.clone(), self.0.offers.requests().clone());
                ExperimentTable::new(experiments, running.clone(), outputs)
            }
            Err(error) => {
                tracing::error!(target: "guildhall::lab", %error, "the experiments in the store contradict each other: none runs");
                ExperimentTable::default()
            }
        };
        let table = Arc::new(table);
        // The partitions first: a client that is offered a dictionary connects later.
        self.0.partitions.take_experiments(&table);
        self.0.offers.set(table);
        let before = std::mem::replace(&mut *self.obeyed(), Obeyed { bytes, document: document.clone(), running });
        for stored in &document.experiments {
            let earlier = before.document.experiments.iter().find(|of| of.id == stored.id);
            self.note(earlier, stored);
        }
        Ok(())
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

    fn running_of(&self, id: u64, body: &ExperimentBody) -> Result<RunningExperiment, ExperimentFault> {
        let Inner { contexts, streams, dictionaries, .. } = &*self.0;
        let field = |at: usize, message: String| {
            let name = if body.arms[at].policy.is_some() { "policy" } else { "arm" };
            ExperimentFault::Field(format!("arms[{at}].{name}"), message)
        };
        let mut plans = Vec::new();
        for (at, arm) in body.arms.iter().enumerate() {
            plans.push(plan_of(arm, *streams, contexts).map_err(|message| field(at, message))?);
        }
        let tried = dictionaries_of(&mut plans, |id| dictionaries.can_try(id));
        let tried = tried.map_err(|(at, message)| field(at, message))?;
        if tried.is_some() {
            check_audience(&body.audience)?;
        }
        check_containers(&plans)?;
        let stream = |(at, plan)| stream_of(plan, contexts).map_err(|message| field(at, message));
        let arms = plans.into_iter().enumerate().map(stream).collect::<Result<_, _>>()?;
        Ok(RunningExperiment { id, arms, dictionaries: tried })
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

    /// Figures for `/metrics`: of this node alone, since its start.
    pub fn figures(&self) -> ExperimentFigures {
        let stored = self.obeyed().document.experiments.clone();
        let states = stored.iter().map(|of| (of.body.name.clone(), of.body.state.name())).collect();
        let mut arms = Vec::new();
        for Stored { id, body } in stored.iter().filter(|of| of.is_running()).take(EXPERIMENTS_SHOWN) {
            let Some(sums) = self.0.watches.own_sums(*id) else { continue };
            let params = params_of(body);
            arms.extend(body.arms.iter().enumerate().map(|(at, arm)| ArmFigures {
                experiment: body.name.clone(),
                arm: arm.name.clone(),
                connections_total: sums.connections(at),
                metrics: sums.report(&params, at).iter().map(|of| (of.metric.name(), of.samples, of.mean)).collect(),
            }));
        }
        ExperimentFigures { states, arms, samples_dropped_total: self.0.samples.dropped_total() }
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
        if let Some(guild_id) = new.audience.guild_id {
            let before = GuildId::new(guild_id.get().saturating_sub(1));
            if self.0.node.store().guild_ids(before, 1).await? != [guild_id] {
                let message = format!("There is no guild {guild_id}: GET /v1/guilds lists them.");
                return Err(ExperimentFault::Field("audience.guild_id".to_owned(), message));
            }
        }
        let this = self.clone();
        // It makes a context of each arm.
        let checked = tokio::task::spawn_blocking(move || this.running_of(0, &trial).map(drop)).await;
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
        let (mut nodes, mut samples_dropped) = (1, self.0.samples.dropped_total());
        let mut by_process = self.0.watches.by_process(id).unwrap_or_default();
        if let Some(membership) = self.0.node.membership() {
            for (theirs, dropped) in self.sums_of_others(membership, id).await {
                by_process.take(theirs.clone(), params.arms_count);
                self.0.watches.take(id, theirs);
                nodes += 1;
                samples_dropped += dropped;
            }
        }
        let sums = by_process.merged(params.arms_count);
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
