//! Lab: recordings of dispatches.
//!
//! Owns        the routes below `/v1/lab`, their bodies and bounds; `Lab`, the interface to the recorder.
//! Limits      one recording at a time; the constants below. An answer with frames has at most `FRAMES_BYTES_MAX`.
//! Not here    scrubbing, and the format of recordings: `guildhall-lab`.     Spec  docs/lab.md,
//!             docs/backend-api.md "The lab".

use super::{
    V1,
    audit::Made,
    caller::{Caller, Lab as LabScope},
    error::V1Error,
    extract::{Body, Check, FieldErrors, Path, Query},
    lab_dark::{DarkBody, DarkPlan},
    lab_dictionaries::DictionaryBody,
    types::Snowflake,
};
use async_trait::async_trait;
use axum::{
    Extension, Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use guildhall_guild::Refusal;
use guildhall_model::GuildId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Bytes of one answer with frames.
const FRAMES_BYTES_MAX: usize = 8 << 20;
const ONE_IN_MAX: i64 = 1_000_000;
const SESSIONS_MAX: i64 = 1_000;
const BYTES_MIN: i64 = 64 << 10;
const BYTES_MAX: i64 = 4 << 30;
const SECONDS_MAX: i64 = 86_400;
const PLATFORMS: [&str; 5] = ["desktop", "mobile", "web", "embedded", "vr"];
const ENCODINGS: [&str; 2] = ["json", "etf"];

/// A recording to start.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecordingPlan {
    /// One session in this many.
    #[schema(minimum = 1, maximum = 1_000_000, default = 1)]
    pub one_in: u32,
    /// Number of sessions.
    #[schema(minimum = 1, maximum = 1_000, default = 32)]
    pub sessions_max: u32,
    /// Bytes of the recording, compressed.
    #[schema(minimum = 65_536, maximum = 4_294_967_296_i64, default = 67_108_864)]
    pub bytes_max: u64,
    /// Duration in seconds.
    #[schema(minimum = 1, maximum = 86_400, default = 300)]
    pub seconds_max: u64,
    /// Only members of this guild.
    #[schema(value_type = Option<Snowflake>)]
    pub guild_id: Option<GuildId>,
    /// Only sessions on this platform: `desktop`, `mobile`, `web`, `embedded` or `vr`.
    pub platform: Option<String>,
    /// Only sessions with this encoding: `json` or `etf`.
    pub encoding: Option<String>,
    /// Also direct messages, and channels that not every member may view.
    pub private: bool,
    /// False: texts, names and ids of users leave the node as they are.
    pub scrub: bool,
}

impl Default for RecordingPlan {
    fn default() -> Self {
        Self {
            one_in: 1,
            sessions_max: 32,
            bytes_max: 64 << 20,
            seconds_max: 300,
            guild_id: None,
            platform: None,
            encoding: None,
            private: false,
            scrub: true,
        }
    }
}

/// Checks which share of the sessions a plan takes.
pub(super) fn check_share(faults: &mut FieldErrors, one_in: u32, sessions_max: u32) {
    faults.number("one_in", one_in.into(), 1, ONE_IN_MAX);
    faults.number("sessions_max", sessions_max.into(), 1, SESSIONS_MAX);
}

/// Checks the name of a platform.
pub(super) fn check_platform(faults: &mut FieldErrors, field: &str, platform: &str) {
    if !PLATFORMS.contains(&platform) {
        faults.add(field, format!("Must be one of {}.", PLATFORMS.join(", ")));
    }
}

/// Checks to which sessions a plan is limited.
pub(super) fn check_filter(faults: &mut FieldErrors, platform: Option<&str>, encoding: Option<&str>) {
    platform.iter().for_each(|platform| check_platform(faults, "platform", platform));
    if encoding.is_some_and(|encoding| !ENCODINGS.contains(&encoding)) {
        faults.add("encoding", "Must be json or etf.");
    }
}

impl Check for RecordingPlan {
    fn check(&self, faults: &mut FieldErrors) {
        check_share(faults, self.one_in, self.sessions_max);
        faults.number("bytes_max", self.bytes_max.try_into().unwrap_or(i64::MAX), BYTES_MIN, BYTES_MAX);
        faults.number("seconds_max", self.seconds_max.try_into().unwrap_or(i64::MAX), 1, SECONDS_MAX);
        check_filter(faults, self.platform.as_deref(), self.encoding.as_deref());
    }
}

/// A recording of a node: its bounds and figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Recording)]
pub struct RecordingBody {
    /// Id of the recording.
    pub id: String,
    /// Unix time of the start, seconds.
    pub started_at: u64,
    /// Why it has ended: `time`, `bytes`, `not_taken` (32 MiB of frames waited for their caller), `stopped` or
    /// `failed`; null while it runs.
    pub ended: Option<&'static str>,
    /// Texts, ids and times are replaced by surrogates.
    pub scrubbed: bool,
    /// Direct messages and channels that not every member may view are in it.
    pub private: bool,
    /// Number of the node in its cluster; null of a node that is alone.
    pub node: Option<u32>,
    /// Sessions in it.
    pub sessions: u64,
    /// Sessions that are recorded now.
    pub sessions_now: u64,
    /// Sessions that ended early, because the node had no time for them: the newest end first.
    pub sessions_full: u64,
    /// Dispatches in it.
    pub dispatches: u64,
    /// Events of backends, which a scrubbed recording leaves out.
    pub left_out: u64,
    /// Bytes of its frames so far.
    pub bytes: u64,
    /// Bytes of frames that were not acknowledged.
    pub waiting_bytes: u64,
}

/// Why a recording was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabFault {
    /// The command that runs this node has no lab.
    #[error("Only a node that `guildhall serve` or `demo` runs can record.")]
    NotHere,
    /// There is one.
    #[error("Another recording runs: stop it by DELETE /v1/lab/recordings/{0}, or wait for its end.")]
    Busy(u64),
    /// There is one.
    #[error("Another dark launch runs: stop it by DELETE /v1/lab/dark.")]
    BusyDark,
    /// An arm is wrong.
    #[error("{0}")]
    Arms(String),
    /// The bytes are no dictionary.
    #[error("{0}")]
    Dictionary(String),
    /// It is known for the other encoding.
    #[error("It is there for {0}: a dictionary is for the encoding that it was trained on.")]
    Encoding(&'static str),
    /// `DICTIONARIES_MAX` are there.
    #[error("There are {0} dictionaries: remove one that is withdrawn by DELETE /v1/lab/dictionaries/ID.")]
    Dictionaries(usize),
    /// It cannot be removed.
    #[error("It is served: withdraw it first, by POST /v1/lab/dictionaries/ID/withdraw.")]
    Served,
    /// It cannot be removed.
    #[error("A running experiment has it: stop that first, by POST /v1/experiments/NAME/stop.")]
    Tried,
    /// The store failed, or other nodes changed the same all the time.
    #[error("The store failed: try again.")]
    Unavailable,
    /// The library's.
    #[error("There is no memory for this.")]
    Memory,
}

impl From<LabFault> for V1Error {
    fn from(fault: LabFault) -> Self {
        match fault {
            LabFault::Unavailable => Refusal::Unavailable.into(),
            fault => Self::conflict(fault.to_string()),
        }
    }
}

/// Interface of the API to the recorder. The last recording stays until the next one starts, or until it is deleted.
#[async_trait]
pub trait Lab: Send + Sync + 'static {
    /// Starts a recording.
    async fn start(&self, plan: RecordingPlan) -> Result<RecordingBody, LabFault>;
    /// The recording, if there is one.
    async fn recording(&self) -> Option<RecordingBody>;
    /// Bytes from `from` on, at most `bytes_max`; those in front are freed. None: there is no such recording. An inner
    /// None: it does not have these bytes.
    async fn frames(&self, id: &str, from: u64, bytes_max: usize) -> Option<Option<Vec<u8>>>;
    /// Ends a recording, or discards one that has ended. False: there is no such recording.
    async fn stop(&self, id: &str) -> bool;
    /// Starts a dark launch.
    async fn start_dark(&self, plan: DarkPlan) -> Result<DarkBody, LabFault>;
    /// The dark launch that runs, or the last one.
    async fn dark(&self) -> Option<DarkBody>;
    /// Ends the dark launch, or discards one that has ended. False: there is none.
    async fn stop_dark(&self) -> bool;
    /// All dictionaries.
    async fn dictionaries(&self) -> Vec<DictionaryBody>;
    /// Stages a dictionary. False: it was there.
    async fn stage_dictionary(&self, encoding: &str, bytes: Vec<u8>) -> Result<(DictionaryBody, bool), LabFault>;
    /// Serves a dictionary to this many thousandths of the accounts; `None` withdraws it. Returns `None` for an unknown
    /// dictionary.
    async fn serve_dictionary(&self, id: &str, permille: Option<u16>) -> Result<Option<DictionaryBody>, LabFault>;
    /// Removes a dictionary that is not served. False: there is no such one.
    async fn remove_dictionary(&self, id: &str) -> Result<bool, LabFault>;
}

/// For a node without partitions.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLab;

#[async_trait]
impl Lab for NoLab {
    async fn start(&self, _: RecordingPlan) -> Result<RecordingBody, LabFault> {
        Err(LabFault::NotHere)
    }
    async fn recording(&self) -> Option<RecordingBody> {
        None
    }
    async fn frames(&self, _: &str, _: u64, _: usize) -> Option<Option<Vec<u8>>> {
        None
    }
    async fn stop(&self, _: &str) -> bool {
        false
    }
    async fn start_dark(&self, _: DarkPlan) -> Result<DarkBody, LabFault> {
        Err(LabFault::NotHere)
    }
    async fn dark(&self) -> Option<DarkBody> {
        None
    }
    async fn stop_dark(&self) -> bool {
        false
    }
    async fn dictionaries(&self) -> Vec<DictionaryBody> {
        Vec::new()
    }
    async fn stage_dictionary(&self, _: &str, _: Vec<u8>) -> Result<(DictionaryBody, bool), LabFault> {
        Err(LabFault::NotHere)
    }
    async fn serve_dictionary(&self, _: &str, _: Option<u16>) -> Result<Option<DictionaryBody>, LabFault> {
        Ok(None)
    }
    async fn remove_dictionary(&self, _: &str) -> Result<bool, LabFault> {
        Ok(false)
    }
}

/// Lists recordings
///
/// The one that runs, or the last one.
#[utoipa::path(get, path = "/v1/lab/recordings", tag = "lab", responses((status = 200, body = Vec<RecordingBody>)))]
pub(super) async fn list(_: Caller<LabScope>, State(v1): State<Arc<V1>>) -> Result<Json<Vec<RecordingBody>>, V1Error> {
    Ok(Json(v1.in_time(v1.lab.recording()).await?.into_iter().collect()))
}

/// Starts a recording
///
/// Copies what a share of this node's sessions is sent from now on. Read the frames while it runs: 32 MiB may wait.
#[utoipa::path(post, path = "/v1/lab/recordings", tag = "lab", request_body = RecordingPlan,
    responses((status = 201, body = RecordingBody),
    (status = 409, description = "Another recording runs, or this node cannot record", body = V1Error)))]
pub(super) async fn start(
    caller: Caller<LabScope>,
    State(v1): State<Arc<V1>>,
    body: Body<RecordingPlan>,
) -> Result<(StatusCode, Extension<Made>, Json<RecordingBody>), V1Error> {
    let plan = body.read(&v1, caller.permit()).await?;
    let recording = v1.in_time(v1.lab.start(plan)).await??;
    Ok((StatusCode::CREATED, Extension(Made("recording_id", recording.id.clone())), Json(recording)))
}

async fn found(v1: &V1, path: &Path) -> Result<RecordingBody, V1Error> {
    let recording = v1.in_time(v1.lab.recording()).await?;
    recording.filter(|recording| recording.id == path.text("recording_id")).ok_or_else(no_recording)
}

fn no_recording() -> V1Error {
    V1Error::not_found("recording")
}

/// Reads the figures of a recording
#[utoipa::path(get, path = "/v1/lab/recordings/{recording_id}", tag = "lab", params(("recording_id" = String, Path)),
    responses((status = 200, body = RecordingBody), (status = 404, body = V1Error)))]
pub(super) async fn read(
    _: Caller<LabScope>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<RecordingBody>, V1Error> {
    Ok(Json(found(&v1, &path).await?))
}

/// Which part of a recording.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    /// Bytes that the caller has. They are freed.
    #[serde(default)]
    from: u64,
    /// Bytes that are read. Of another node, by `node`, 524288 always fit.
    #[serde(default = "frames_bytes_max")]
    #[param(minimum = 1, maximum = 8_388_608, default = 8_388_608)]
    bytes_max: usize,
}

fn frames_bytes_max() -> usize {
    FRAMES_BYTES_MAX
}

impl Check for Part {
    fn check(&self, faults: &mut FieldErrors) {
        let bytes_max = self.bytes_max.try_into().unwrap_or(i64::MAX);
        faults.number("bytes_max", bytes_max, 1, FRAMES_BYTES_MAX as i64);
    }
}

/// Reads the frames of a recording
///
/// zstd frames of JSON lines: appended to one another they are a file for `guildhall lab show`, or `zstd -dc FILE |
/// jq`. `from` is the number of bytes that the caller has; the node frees these. An empty answer: there is nothing more
/// yet, or, if `ended` is not null, at all.
#[utoipa::path(get, path = "/v1/lab/recordings/{recording_id}/frames", tag = "lab",
    params(("recording_id" = String, Path), Part),
    responses((status = 200, description = "At most 8 MiB of frames", content_type = "application/zstd", body = Vec<u8>),
    (status = 404, body = V1Error), (status = 409, description = "The node does not have these bytes", body = V1Error)))]
pub(super) async fn frames(
    _: Caller<LabScope>,
    State(v1): State<Arc<V1>>,
    path: Path,
    Query(Part { from, bytes_max }): Query<Part>,
) -> Result<Response, V1Error> {
    let frames = v1.in_time(v1.lab.frames(path.text("recording_id"), from, bytes_max)).await?;
    let frames = frames.ok_or_else(no_recording)?.ok_or_else(|| {
        V1Error::conflict("The node does not have these bytes: `from` is the number of bytes that were read so far.")
    })?;
    Ok(([(header::CONTENT_TYPE, "application/zstd")], frames).into_response())
}

/// Ends a recording
///
/// Its frames can still be read. A second request discards them.
#[utoipa::path(delete, path = "/v1/lab/recordings/{recording_id}", tag = "lab", params(("recording_id" = String, Path)),
    responses((status = 204, description = "It has ended, or is discarded"), (status = 404, body = V1Error)))]
pub(super) async fn stop(_: Caller<LabScope>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    match v1.in_time(v1.lab.stop(path.text("recording_id"))).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(no_recording()),
    }
}
