//! Experiments: some accounts get another arm, and a guardrail watches what it does.
//!
//! Owns        the routes below `/v1/experiments`, their bodies and bounds; `Experiments`, the interface to what
//!             stores, applies and judges them.
//! Limits      `EXPERIMENTS_MAX` experiments, ended ones included; those of `check`.
//! Not here    assignment and streams: `guildhall-partition`. Guardrails: `guildhall-lab`.     Spec  docs/lab.md
//!             "Experiments", docs/backend-api.md "Experiments".

use super::{
    V1,
    audit::Made,
    caller::{Caller, Lab as LabScope},
    error::V1Error,
    extract::{Body, Check, FieldErrors, Path},
    lab::check_platform,
};
use async_trait::async_trait;
use axum::{Extension, Json, extract::State, http::StatusCode};
use guildhall_model::GuildId;
use guildhall_store::StoreError;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, Unexpected, Visitor},
};
use std::{fmt, sync::Arc};
use utoipa::ToSchema;

const ARMS_MAX: usize = 8;
const NAME_MAX: usize = 64;
const WEIGHT_MAX: i64 = 10_000;
const PERMILLE_MAX: i64 = 1_000;
const SAMPLES_MIN: i64 = 30;
const SAMPLES_MAX: i64 = 1_000_000;
const REASON_MAX: usize = 500;
const NAME_RULE: &str = "Must have 1 to 64 characters: letters, digits, -, _ and ., no . in front.";

/// State of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExperimentState {
    /// It was not started: no account takes part.
    Draft,
    /// Accounts take part.
    Running,
    /// It was stopped by a caller.
    Stopped,
    /// A guardrail stopped it.
    RolledBack,
}

impl ExperimentState {
    /// Its name in `/v1` and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::RolledBack => "rolled_back",
        }
    }
}

/// Accounts that may take part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExperimentAudience {
    /// Only sessions on these platforms: `desktop`, `mobile`, `web`, `embedded` or `vr`. Empty: all.
    #[schema(max_items = 5)]
    pub platforms: Vec<String>,
    /// True: only bots. False: only accounts that are no bots.
    pub bots: Option<bool>,
    /// Only members of this guild.
    #[schema(value_type = Option<crate::types::Snowflake>)]
    pub guild_id: Option<GuildId>,
}

/// An arm of an experiment. With neither `arm` nor `policy` it is written as the node's settings have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentArm {
    /// Name of the arm, such as `control`.
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// Share of the accounts that take part, relative to the other arms.
    #[serde(default = "one", deserialize_with = "weight")]
    #[schema(minimum = 1, maximum = 10_000, default = 1)]
    pub weight: u32,
    /// `zlib` or `zstd` with parameters, such as `zstd:level=3`: a context with these, to the end of the stream. Or
    /// `shared-match`. Or `zstd:dict=ID`: `GET /dictionaries` offers this dictionary to the accounts of the arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub arm: Option<String>,
    /// `context`: the node's context to the end of the stream; `larger`: one with each size a step up; `shared-match`:
    /// shared-match from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub policy: Option<String>,
}

fn one() -> u32 {
    1
}

/// Reads numbers, so that a wrong one is refused with the range of its field.
struct Whole<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Visitor<'_> for Whole<MIN, MAX> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {MIN} to {MAX}")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        if (MIN..=MAX).contains(&number) {
            Ok(number)
        } else {
            Err(E::invalid_value(Unexpected::Unsigned(number), &self))
        }
    }
}

fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>, const MIN: u64, const MAX: u64>(from: D) -> Result<T, D::Error> {
    let number = from.deserialize_u64(Whole::<MIN, MAX>)?;
    T::try_from(number).map_err(|_| de::Error::invalid_value(Unexpected::Unsigned(number), &Whole::<MIN, MAX>))
}

fn weight<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    whole::<D, u32, 1, 10_000>(from)
}

fn permille<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    whole::<D, u16, 0, 1_000>(from)
}

fn samples_min<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    whole::<D, u64, 30, 1_000_000>(from)
}

/// A number, or null for none.
struct OrNull;

impl<'de> Visitor<'de> for OrNull {
    type Value = Option<u16>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 0 to 1000")
    }

    fn visit_none<E: de::Error>(self) -> Result<Option<u16>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Option<u16>, D::Error> {
        permille(from).map(Some)
    }
}

fn permille_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    from.deserialize_option(OrNull)
}

/// A number with a fraction; `check` has its range.
struct Number;

impl Visitor<'_> for Number {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<f64, E> {
        Ok(number)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<f64, E> {
        Ok(number as f64)
    }
}

fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    from.deserialize_f64(Number)
}

/// An experiment to create.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewExperiment {
    /// Name, which no other experiment has: letters, digits, `-`, `_` and `.`.
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// Decides the arm of each account, together with its id. The name, if there is none.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    pub salt: Option<String>,
    /// Experiments of one layer have no account in common.
    #[serde(default = "layer")]
    #[schema(min_length = 1, max_length = 64, default = "default")]
    pub layer: String,
    /// Thousandths of the accounts that take part.
    #[serde(deserialize_with = "permille")]
    #[schema(minimum = 0, maximum = 1_000)]
    pub permille: u16,
    /// First thousandth in the layer. The first that has room, if there is none.
    #[serde(default, deserialize_with = "permille_or_null")]
    #[schema(minimum = 0, maximum = 999)]
    pub first_slot: Option<u16>,
    /// Accounts that may take part.
    #[serde(default)]
    pub audience: ExperimentAudience,
    /// The first is the control, with which the others are compared.
    #[schema(min_items = 2, max_items = 8)]
    pub arms: Vec<ExperimentArm>,
    /// Chance of a false alarm of all guardrails together, however often they are looked at.
    #[serde(default = "alpha", deserialize_with = "number")]
    #[schema(minimum = 0.000_001, maximum = 0.5, default = 0.05)]
    pub alpha: f64,
    /// An arm may be this much worse than the control without an alarm, percent. Streams that cannot be decoded have no
    /// tolerance.
    #[serde(default = "tolerance", deserialize_with = "number")]
    #[schema(minimum = 0.0, maximum = 1_000.0, default = 5.0)]
    pub tolerance_percent: f64,
    /// Samples of both arms before a guardrail may stop the experiment.
    #[serde(default = "samples", deserialize_with = "samples_min")]
    #[schema(minimum = 30, maximum = 1_000_000, default = 200)]
    pub samples_min: u64,
    /// A rollback sends op 7 to clients that have one of the arms, so that they leave it.
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub reconnect_on_rollback: bool,
    /// Not started yet.
    #[serde(default)]
    pub draft: bool,
}

fn layer() -> String {
    "default".to_owned()
}

fn alpha() -> f64 {
    0.05
}

fn tolerance() -> f64 {
    5.0
}

fn samples() -> u64 {
    200
}

fn yes() -> bool {
    true
}

/// Whether a name can be part of a path as it is.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=NAME_MAX).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with('.')
}

impl Check for NewExperiment {
    fn check(&self, faults: &mut FieldErrors) {
        if !is_name(&self.name) {
            faults.add("name", NAME_RULE);
        }
        if let Some(salt) = &self.salt {
            faults.text("salt", salt, 1, NAME_MAX);
        }
        faults.text("layer", &self.layer, 1, NAME_MAX);
        faults.number("permille", self.permille.into(), 0, PERMILLE_MAX);
        if let Some(first_slot) = self.first_slot {
            faults.number("first_slot", first_slot.into(), 0, PERMILLE_MAX - i64::from(self.permille));
        }
        for (at, platform) in self.audience.platforms.iter().enumerate() {
            check_platform(faults, &format!("audience.platforms[{at}]"), platform);
        }
        faults.count("audience.platforms", self.audience.platforms.len(), 0, 5);
        faults.count("arms", self.arms.len(), 2, ARMS_MAX);
        for (at, arm) in self.arms.iter().enumerate() {
            if !is_name(&arm.name) {
                faults.add(format!("arms[{at}].name"), NAME_RULE);
            }
            faults.number(&format!("arms[{at}].weight"), arm.weight.into(), 1, WEIGHT_MAX);
            if self.arms[..at].iter().any(|other| other.name == arm.name) {
                faults.add(format!("arms[{at}].name"), "Must differ from the names of the other arms.");
            }
            if arm.arm.is_some() && arm.policy.is_some() {
                faults.add(format!("arms[{at}].policy"), "Give `arm` or `policy`, not both.");
            }
        }
        if !(1e-6..=0.5).contains(&self.alpha) {
            faults.add("alpha", "Must be 0.000001 to 0.5.");
        }
        if !(0.0..=1_000.0).contains(&self.tolerance_percent) {
            faults.add("tolerance_percent", "Must be 0 to 1000.");
        }
        faults.number("samples_min", self.samples_min.try_into().unwrap_or(i64::MAX), SAMPLES_MIN, SAMPLES_MAX);
    }
}

/// A change of an experiment.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentChange {
    /// Thousandths of the accounts that take part. Accounts that take part before and after it keep their arm.
    #[serde(default, deserialize_with = "permille_or_null")]
    #[schema(minimum = 0, maximum = 1_000)]
    pub permille: Option<u16>,
    /// Starts a draft.
    #[serde(default)]
    pub start: bool,
}

impl Check for ExperimentChange {
    fn check(&self, faults: &mut FieldErrors) {
        if let Some(permille) = self.permille {
            faults.number("permille", permille.into(), 0, PERMILLE_MAX);
        } else if !self.start {
            faults.add("permille", "Give `permille`, or `start`: true.");
        }
    }
}

/// How an experiment is stopped.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExperimentStop {
    /// Also sends op 7 to clients that have one of its arms, at a bounded rate: they resume as the settings have it.
    pub reconnect: bool,
    /// Why, for the record.
    #[schema(max_length = 500)]
    pub reason: Option<String>,
}

impl Check for ExperimentStop {
    fn check(&self, faults: &mut FieldErrors) {
        faults.optional_text("reason", self.reason.as_deref(), REASON_MAX);
    }
}

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Experiment)]
pub struct ExperimentBody {
    /// Name of the experiment.
    pub name: String,
    /// Decides the arm of each account, together with its id.
    pub salt: String,
    /// Experiments of one layer have no account in common.
    pub layer: String,
    /// First thousandth in the layer.
    pub first_slot: u16,
    /// Thousandths of the accounts that take part.
    pub permille: u16,
    /// Accounts that may take part.
    pub audience: ExperimentAudience,
    /// The first is the control.
    pub arms: Vec<ExperimentArm>,
    /// Chance of a false alarm of all guardrails together.
    pub alpha: f64,
    /// How much worse an arm may be without an alarm, percent.
    pub tolerance_percent: f64,
    /// Samples of both arms before a guardrail may stop it.
    pub samples_min: u64,
    /// A rollback sends op 7 to clients that have one of the arms.
    pub reconnect_on_rollback: bool,
    /// State of the experiment.
    pub state: ExperimentState,
    /// Why it was stopped or rolled back.
    pub reason: Option<String>,
    /// Running clients were, or are, sent op 7 when it ended.
    pub reconnected: bool,
    /// Name of the key that changed it last; `guardrail` after a rollback.
    pub changed_by: String,
    /// Unix time of its creation, seconds.
    pub created_at: u64,
    /// Unix time of its start, seconds.
    pub started_at: Option<u64>,
    /// Unix time of its end, seconds.
    pub ended_at: Option<u64>,
}

/// Figures of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ExperimentReport {
    /// Name of the experiment.
    pub name: String,
    /// State of the experiment.
    pub state: ExperimentState,
    /// Why it was stopped or rolled back.
    pub reason: Option<String>,
    /// Nodes that answered; samples of those that have ended are in the figures too.
    pub nodes: u32,
    /// Samples of all experiments that were dropped, because too many waited.
    pub samples_dropped: u64,
    /// In the order of the experiment's arms.
    pub arms: Vec<ExperimentArmReport>,
}

/// Figures of an arm.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ExperimentArmReport {
    /// Name of the arm.
    pub name: String,
    /// Connections that began in it.
    pub connections: u64,
    /// Figures by metric.
    pub metrics: Vec<ExperimentMetric>,
}

/// A metric of an arm, of which more is worse.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ExperimentMetric {
    /// `wire_bytes` per dispatch, `cpu_ns` per dispatch, `wait_ms` for the socket per dispatch, `delivery_us` from the
    /// guild to the socket; shares: `resumes` of
    /// connections, `identifies` that are repetitions, `decode_faults` of connections.
    pub name: String,
    /// Samples of this arm.
    pub samples: u64,
    /// Mean of this arm.
    pub mean: f64,
    /// Comparison with the control; null for the control itself, and below `samples_min`.
    pub comparison: Option<ExperimentComparison>,
}

/// Difference between an arm and the control.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct ExperimentComparison {
    /// Mean of the arm minus mean of the control.
    pub difference: f64,
    /// Lower end of the interval of differences that are not excluded. It is valid however often one looks.
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
    /// The guardrail's alarm: the interval is above the tolerance.
    pub is_worse: bool,
}

/// Why a request about experiments failed.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentFault {
    /// The command that runs this node has no experiments.
    #[error("Only a node that `guildhall serve` or `demo` runs has experiments.")]
    NotHere,
    /// There is none of this name.
    #[error("There is no experiment of this name: GET /v1/experiments lists them.")]
    Unknown,
    /// A field is wrong.
    #[error("{1}")]
    Field(String, String),
    /// The experiment, or another one, is in the way.
    #[error("{0}")]
    Conflict(String),
    /// The store cannot be read or written.
    #[error("The experiments cannot be read or written now.")]
    Store(#[from] StoreError),
}

impl From<ExperimentFault> for V1Error {
    fn from(fault: ExperimentFault) -> Self {
        match fault {
            ExperimentFault::NotHere => Self::conflict(fault.to_string()),
            ExperimentFault::Unknown => Self::not_found("experiment: GET /v1/experiments lists them"),
            ExperimentFault::Field(field, message) => Self::field(field, message),
            ExperimentFault::Conflict(message) => Self::conflict(message),
            ExperimentFault::Store(error) => error.into(),
        }
    }
}

/// Interface of the API to the experiments of the cluster. A change returns when all nodes have it, or after 2 s.
#[async_trait]
pub trait Experiments: Send + Sync + 'static {
    /// All, in the order of their creation.
    async fn list(&self) -> Result<Vec<ExperimentBody>, ExperimentFault>;
    /// Creates one, and starts it unless it is a draft.
    async fn create(&self, new: NewExperiment, by: &str) -> Result<ExperimentBody, ExperimentFault>;
    /// Changes one.
    async fn change(&self, name: &str, change: ExperimentChange, by: &str) -> Result<ExperimentBody, ExperimentFault>;
    /// Stops one: new connections do not take part any more.
    async fn stop(&self, name: &str, stop: ExperimentStop, by: &str) -> Result<ExperimentBody, ExperimentFault>;
    /// Removes an experiment that does not run.
    async fn remove(&self, name: &str) -> Result<(), ExperimentFault>;
    /// Statistics of an experiment, of all nodes of the cluster.
    async fn report(&self, name: &str) -> Result<ExperimentReport, ExperimentFault>;
}

/// For a node without partitions.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExperiments;

#[async_trait]
impl Experiments for NoExperiments {
    async fn list(&self) -> Result<Vec<ExperimentBody>, ExperimentFault> {
        Ok(Vec::new())
    }
    async fn create(&self, _: NewExperiment, _: &str) -> Result<ExperimentBody, ExperimentFault> {
        Err(ExperimentFault::NotHere)
    }
    async fn change(&self, _: &str, _: ExperimentChange, _: &str) -> Result<ExperimentBody, ExperimentFault> {
        Err(ExperimentFault::Unknown)
    }
    async fn stop(&self, _: &str, _: ExperimentStop, _: &str) -> Result<ExperimentBody, ExperimentFault> {
        Err(ExperimentFault::Unknown)
    }
    async fn remove(&self, _: &str) -> Result<(), ExperimentFault> {
        Err(ExperimentFault::Unknown)
    }
    async fn report(&self, _: &str) -> Result<ExperimentReport, ExperimentFault> {
        Err(ExperimentFault::Unknown)
    }
}

/// Lists experiments
///
/// All of the cluster, ended ones included, in the order of their creation.
#[utoipa::path(get, path = "/v1/experiments", tag = "lab", responses((status = 200, body = Vec<ExperimentBody>)))]
pub(super) async fn list(_: Caller<LabScope>, State(v1): State<Arc<V1>>) -> Result<Json<Vec<ExperimentBody>>, V1Error> {
    Ok(Json(v1.in_time(v1.experiments.list()).await??))
}

/// Creates an experiment
///
/// And starts it, unless it is a draft: connections that identify or resume from then on take part.
#[utoipa::path(post, path = "/v1/experiments", tag = "lab", request_body = NewExperiment,
    responses((status = 201, body = ExperimentBody),
    (status = 409, description = "The name is taken, the layer has no room, or there are too many", body = V1Error)))]
pub(super) async fn create(
    caller: Caller<LabScope>,
    State(v1): State<Arc<V1>>,
    body: Body<NewExperiment>,
) -> Result<(StatusCode, Extension<Made>, Json<ExperimentBody>), V1Error> {
    let new = body.read(&v1, caller.permit()).await?;
    let made = v1.in_time(v1.experiments.create(new, &caller.key.name)).await??;
    Ok((StatusCode::CREATED, Extension(Made("experiment", made.name.clone())), Json(made)))
}

/// Reads an experiment
#[utoipa::path(get, path = "/v1/experiments/{experiment}", tag = "lab", params(("experiment" = String, Path)),
    responses((status = 200, body = ExperimentBody), (status = 404, body = V1Error)))]
pub(super) async fn read(
    _: Caller<LabScope>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<ExperimentBody>, V1Error> {
    find(&v1, &path).await.map(Json)
}

/// The experiment that the path names.
async fn find(v1: &V1, path: &Path) -> Result<ExperimentBody, V1Error> {
    let all = v1.in_time(v1.experiments.list()).await??;
    let found = all.into_iter().find(|of| of.name == path.text("experiment"));
    found.ok_or_else(|| ExperimentFault::Unknown.into())
}

/// Changes an experiment
///
/// Ramps it up or down, or starts a draft.
#[utoipa::path(patch, path = "/v1/experiments/{experiment}", tag = "lab", params(("experiment" = String, Path)),
    request_body = ExperimentChange,
    responses((status = 200, body = ExperimentBody), (status = 404, body = V1Error),
    (status = 409, description = "It has ended, or the layer has no room", body = V1Error)))]
pub(super) async fn update(
    caller: Caller<LabScope>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<ExperimentChange>,
) -> Result<Json<ExperimentBody>, V1Error> {
    let found = find(&v1, &path).await?;
    let change = body.read(&v1, caller.permit_for(&found)).await?;
    Ok(Json(v1.in_time(v1.experiments.change(path.text("experiment"), change, &caller.key.name)).await??))
}

/// Stops an experiment
///
/// New connections do not take part any more, on any node. With `reconnect` clients that have one of its arms are sent
/// op 7 as well.
#[utoipa::path(post, path = "/v1/experiments/{experiment}/stop", tag = "lab", params(("experiment" = String, Path)),
    request_body = ExperimentStop,
    responses((status = 200, body = ExperimentBody), (status = 404, body = V1Error),
    (status = 409, description = "It has ended", body = V1Error)))]
pub(super) async fn stop(
    caller: Caller<LabScope>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<ExperimentStop>,
) -> Result<Json<ExperimentBody>, V1Error> {
    let found = find(&v1, &path).await?;
    let stop = body.read(&v1, caller.permit_for(&found)).await?;
    Ok(Json(v1.in_time(v1.experiments.stop(path.text("experiment"), stop, &caller.key.name)).await??))
}

/// Removes an experiment
///
/// One that does not run.
#[utoipa::path(delete, path = "/v1/experiments/{experiment}", tag = "lab", params(("experiment" = String, Path)),
    responses((status = 204, description = "It is removed"), (status = 404, body = V1Error),
    (status = 409, description = "It runs", body = V1Error)))]
pub(super) async fn remove(_: Caller<LabScope>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    v1.in_time(v1.experiments.remove(path.text("experiment"))).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Reports on an experiment
///
/// Figures of all nodes, of those that have ended too, with intervals that stay valid however often one looks.
#[utoipa::path(get, path = "/v1/experiments/{experiment}/report", tag = "lab", params(("experiment" = String, Path)),
    responses((status = 200, body = ExperimentReport), (status = 404, body = V1Error)))]
pub(super) async fn report(
    _: Caller<LabScope>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<ExperimentReport>, V1Error> {
    Ok(Json(v1.in_time(v1.experiments.report(path.text("experiment"))).await??))
}
