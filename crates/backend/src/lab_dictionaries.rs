//! Dictionaries of the lab: staged, served to a share of the accounts, and withdrawn while nodes run.
//!
//! Owns        the routes below `/v1/lab/dictionaries`, their bodies and bounds.
//! Limits      `DICTIONARY_BYTES_MAX` bytes of a dictionary.
//! Not here    the table of dictionaries, and their routes for clients: the implementation of `Lab`.
//!             Spec  docs/lab.md "Serve it", docs/backend-api.md "The lab".

use super::{
    V1,
    caller::{Caller, Lab as LabScope},
    error::V1Error,
    extract::{Arriving, Body, Check, FieldErrors, Path, Query},
    lab::LabFault,
};
use crate::audit::Made;
use axum::{Extension, Json, extract::State, http::StatusCode};
use guildhall_guild::Refusal;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Bytes of a dictionary.
const DICTIONARY_BYTES_MAX: usize = 1 << 20;
const PERMILLE_MAX: i64 = 1_000;
const ENCODINGS: [&str; 2] = ["json", "etf"];

/// A dictionary of the lab, or of the folder that a setting names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = LabDictionary)]
pub struct DictionaryBody {
    /// First half of the SHA-256 of its bytes, in hexadecimal.
    pub id: String,
    /// `json` or `etf`.
    pub encoding: &'static str,
    /// Length in bytes.
    pub size: usize,
    /// `staged`: no client may name it; `served`; or `withdrawn`: no new connection gets it.
    pub state: &'static str,
    /// Thousandths of the accounts that `GET /dictionaries` lists it for while it is served.
    pub permille: u16,
    /// `store`: it was staged here; `folder`: it is in the folder of `codec.dictionaries_dir`.
    pub source: &'static str,
    /// Unix time, seconds; null for one of the folder whose state was never changed.
    pub staged_at: Option<u64>,
    /// Connections to this node that use it now.
    pub connections: u64,
    /// Connections to this node that used it since it was loaded.
    pub connections_total: u64,
}

/// Encoding of a dictionary that is staged.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct For {
    /// Encoding of the messages that it was trained on: `json` or `etf`.
    encoding: String,
}

impl Check for For {
    fn check(&self, faults: &mut FieldErrors) {
        if !ENCODINGS.contains(&self.encoding.as_str()) {
            faults.add("encoding", "Must be json or etf.");
        }
    }
}

/// The share to serve a dictionary to.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = DictionaryShare)]
pub(super) struct Share {
    /// Thousandths of the accounts. A larger share has all accounts of a smaller one. Clients without a token see only
    /// dictionaries that are served to all (1000).
    #[schema(minimum = 1, maximum = 1_000, default = 1_000)]
    permille: u16,
}

impl Default for Share {
    fn default() -> Self {
        Self { permille: 1_000 }
    }
}

impl Check for Share {
    fn check(&self, faults: &mut FieldErrors) {
        faults.number("permille", self.permille.into(), 1, PERMILLE_MAX);
    }
}

/// Lists dictionaries
///
/// The newest first; those of the node's folder last.
#[utoipa::path(get, path = "/v1/lab/dictionaries", tag = "lab", responses((status = 200, body = Vec<DictionaryBody>)))]
pub(super) async fn list(_: Caller<LabScope>, State(v1): State<Arc<V1>>) -> Result<Json<Vec<DictionaryBody>>, V1Error> {
    Ok(Json(v1.in_time(v1.lab.dictionaries()).await?))
}

/// Stages a dictionary
///
/// The body is the file that `guildhall lab train` wrote. It is checked and stored, and no client may name it yet. In a
/// cluster all nodes have it within a second.
#[utoipa::path(post, path = "/v1/lab/dictionaries", tag = "lab", params(For),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "At most 1 MiB"),
    responses((status = 201, body = DictionaryBody), (status = 200, description = "It was there", body = DictionaryBody),
    (status = 409, description = "There are 64, or it is there for the other encoding", body = V1Error)))]
pub(super) async fn stage(
    caller: Caller<LabScope>,
    State(v1): State<Arc<V1>>,
    Query(For { encoding }): Query<For>,
    body: Arriving,
) -> Result<(StatusCode, Extension<Made>, Json<DictionaryBody>), V1Error> {
    if v1.node.writes_stopped().is_some() {
        return Err(Refusal::Unavailable.into());
    }
    let (bytes, _reservation) = body.bytes(&v1, caller.permit(), DICTIONARY_BYTES_MAX).await?;
    let staged = v1.in_time(v1.lab.stage_dictionary(&encoding, bytes)).await?;
    let (dictionary, is_new) = staged.map_err(|fault| match fault {
        LabFault::Dictionary(message) => V1Error::field("", message),
        fault => fault.into(),
    })?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Extension(Made("dictionary_id", dictionary.id.clone())), Json(dictionary)))
}

fn no_dictionary() -> V1Error {
    V1Error::not_found("dictionary")
}

/// Serves a dictionary
///
/// From now on `GET /dictionaries` lists it for a share of the accounts, and a connection may name it.
#[utoipa::path(post, path = "/v1/lab/dictionaries/{dictionary_id}/serve", tag = "lab",
    params(("dictionary_id" = String, Path)), request_body = Share,
    responses((status = 200, body = DictionaryBody), (status = 404, body = V1Error)))]
pub(super) async fn serve(
    caller: Caller<LabScope>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<Share>,
) -> Result<Json<DictionaryBody>, V1Error> {
    let id = path.text("dictionary_id");
    let all = v1.in_time(v1.lab.dictionaries()).await?;
    let found = all.iter().find(|dictionary| dictionary.id == id).ok_or_else(no_dictionary)?;
    let Share { permille } = body.read(&v1, caller.permit_for(found)).await?;
    let served = v1.in_time(v1.lab.serve_dictionary(id, Some(permille))).await??;
    served.map(Json).ok_or_else(no_dictionary)
}

/// Withdraws a dictionary
///
/// `GET /dictionaries` no longer lists it, and a connection that names it is closed with 4002. Running connections keep
/// it.
#[utoipa::path(post, path = "/v1/lab/dictionaries/{dictionary_id}/withdraw", tag = "lab",
    params(("dictionary_id" = String, Path)),
    responses((status = 200, body = DictionaryBody), (status = 404, body = V1Error)))]
pub(super) async fn withdraw(
    _: Caller<LabScope>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<DictionaryBody>, V1Error> {
    let withdrawn = v1.in_time(v1.lab.serve_dictionary(path.text("dictionary_id"), None)).await??;
    withdrawn.map(Json).ok_or_else(no_dictionary)
}

/// Removes a dictionary
///
/// One that is not served. Of one in the node's folder the change of its state is undone.
#[utoipa::path(delete, path = "/v1/lab/dictionaries/{dictionary_id}", tag = "lab",
    params(("dictionary_id" = String, Path)),
    responses((status = 204, description = "It is removed"), (status = 404, body = V1Error),
    (status = 409, description = "It is served", body = V1Error)))]
pub(super) async fn remove(_: Caller<LabScope>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    match v1.in_time(v1.lab.remove_dictionary(path.text("dictionary_id"))).await?? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(no_dictionary()),
    }
}
