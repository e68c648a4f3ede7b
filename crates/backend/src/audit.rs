//! Audit log of backends: the changes of each key, with their times.
//!
//! Owns        an entry in the store for each request of a valid key that may change something, refused ones included;
//!             the key of a request (`KeySlot`); `AuditPruner`, which removes old entries.
//! Invariants  A1 an entry is durable before its answer is sent. A2 a request runs to its end, and gets its entry, when
//!             its client disconnects. A3 no key, token or body is in an entry. (tests `audit_*` in
//!             `tests/it/v1_audit.rs`)
//! Limits      `V1Limits::audit_keep_ms`; `SLICE` entries are removed at a time, with `PAUSE` between. An entry has
//!             some 200 bytes: at the highest rate of one key (`requests_per_s`) 17 GB a day.
//! Not here    `POST /v1/publish`, which changes nothing that is stored, and reads.

use super::{
    V1,
    caller::{Caller, Keys},
    error::V1Error,
    extract::Query,
    guilds::Page,
    types::{Snowflake, Time},
};
use axum::{
    Json,
    extract::{MatchedPath, RawPathParams, Request, State},
    http::{Method, StatusCode},
    middleware::Next,
    response::{IntoResponse, Response},
};
use guildhall_http_kit::{Peer, RequestNote};
use guildhall_model::{Id, timestamp_of};
use guildhall_node::{Clock, Node, carry_trace};
use guildhall_stdx::Timestamp;
use guildhall_store::StoreError;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::task::JoinHandle;
use utoipa::ToSchema;

/// Kind of records; their ids ascend with time.
const RECORDS: &str = "v1_audit";
const PUBLISH: &str = "/v1/publish";
const INSPECT: &str = "/v1/tokens/inspect";
const SLICE: u32 = 256;
const PAUSE: Duration = Duration::from_millis(50);
const PRUNE_EVERY: Duration = Duration::from_secs(3_600);
pub(super) const LOG_EVERY_MS: u64 = 60_000;

/// Key of a request, once it is authenticated.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeySlot(Arc<OnceLock<u64>>);

impl KeySlot {
    /// Records that the key is valid and within its rate. 0 for the root key.
    pub fn set(&self, key_id: u64) {
        // A request has one key.
        let _ = self.0.set(key_id);
    }
}

/// The object of a request that its path does not name; an extension of its answer.
#[derive(Clone, Debug)]
pub(crate) struct Made(pub &'static str, pub String);

#[derive(Serialize, Deserialize)]
struct Record {
    key: u64,
    method: String,
    route: String,
    object: BTreeMap<String, String>,
    status: u16,
}

/// Middleware between the router and the handlers.
pub(crate) async fn observe(
    State(v1): State<Arc<V1>>,
    route: Option<MatchedPath>,
    params: Result<RawPathParams, axum::extract::rejection::RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let slot = KeySlot::default();
    request.extensions_mut().insert(slot.clone());
    let Some(route) = route else { return next.run(request).await };
    let peer = Peer::address_in(request.extensions());
    let may_change = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let is_audited = may_change && !matches!(route.as_str(), PUBLISH | INSPECT) && v1.limits.audit_keep_ms.is_some();
    let mut response = if is_audited {
        let (method, pattern) = (request.method().to_string(), route.as_str().to_owned());
        let object = params.map_or_else(
            |_| BTreeMap::new(),
            |params| params.iter().map(|(name, value)| (name.to_owned(), value.chars().take(100).collect())).collect(),
        );
        let slot = slot.clone();
        let done = tokio::spawn(carry_trace(async move {
            let mut response = next.run(request).await;
            let made = response.extensions_mut().remove::<Made>();
            let mut object: BTreeMap<String, String> = object;
            object.extend(made.map(|Made(name, id)| (name.to_owned(), id)));
            let status = response.status().as_u16();
            // A request that a full disk refuses takes none of the reserve.
            let is_kept = status < 400 || v1.node.writes_stopped().is_none();
            if let Some(key) = slot.0.get().filter(|_| is_kept) {
                write(&v1, &Record { key: *key, method, route: pattern, object, status }).await;
            }
            response
        }));
        done.await.unwrap_or_else(|_| V1Error::bug("a handler that ends").into_response())
    } else {
        next.run(request).await
    };
    RequestNote::of_key(route, slot.0.get().copied(), peer).put(&mut response);
    response
}

/// Stores an entry. If that fails, the request keeps its effect, and the entry goes to the log.
async fn write(v1: &V1, record: &Record) {
    let written = async {
        let id: Id<()> = v1.node.next_id().await?;
        let data = serde_json::to_vec(record).unwrap_or_default();
        v1.node.store().put_record(RECORDS, &id.get().to_be_bytes(), &data).await
    };
    let done: Result<(), StoreError> = v1.in_time(written).await.unwrap_or(Err(StoreError::Closed));
    if let Err(error) = done
        && let Some(count) = v1.audit_lost.note(v1.now().instant)
    {
        let Record { key, method, route, status, .. } = record;
        tracing::error!(
            error = &error as &dyn std::error::Error,
            count,
            key,
            method,
            route,
            status,
            "an entry of the audit log of /v1 cannot be written"
        );
    }
}

/// Stores an entry for a rollback, which no caller requested: its key is that of the node.
pub async fn note_rollback(node: &Node, experiment: &str) {
    let record = Record {
        key: 0,
        method: "GUARDRAIL".to_owned(),
        route: "/v1/experiments/{experiment}/stop".to_owned(),
        object: BTreeMap::from([("experiment".to_owned(), experiment.to_owned())]),
        status: StatusCode::OK.as_u16(),
    };
    let written = async {
        let id: Id<()> = node.next_id().await?;
        let data = serde_json::to_vec(&record).unwrap_or_default();
        node.store().put_record(RECORDS, &id.get().to_be_bytes(), &data).await
    };
    let done: Result<(), StoreError> = written.await;
    if let Err(error) = done {
        tracing::error!(%error, experiment, "a rollback has no entry in the audit log of /v1");
    }
}

/// An audit entry: one request of a backend.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditEntry {
    /// Id, ascending with time.
    id: Snowflake,
    /// Time of the answer.
    at: Time,
    /// Key of the request. Null: the root key (`auth.admin_key`).
    key_id: Option<Snowflake>,
    /// Method and pattern of the route.
    #[schema(example = "PUT /v1/guilds/{guild_id}")]
    action: String,
    /// Ids in the path by name, and the id of a created key.
    object: BTreeMap<String, String>,
    /// HTTP status of the answer; for a stream, of its start.
    status: u16,
}

/// A page of entries.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditEntries {
    /// Oldest first. Fewer than `limit` on the last page.
    entries: Vec<AuditEntry>,
}

fn entry_of(id: &[u8], data: &[u8]) -> Option<AuditEntry> {
    let id: Id<()> = Id::new(u64::from_be_bytes(id.try_into().ok()?));
    let Record { key, method, route, object, status } = serde_json::from_slice(data).ok()?;
    Some(AuditEntry {
        id: id.into(),
        at: Time(timestamp_of(id)),
        key_id: (key > 0).then_some(Snowflake(key)),
        action: format!("{method} {route}"),
        object,
        status,
    })
}

/// Lists changes by backend keys
///
/// Every request of a good key that may change something has an entry, refused ones included; `POST /v1/publish` has
/// none. Entries are kept for `log.audit_keep_days`.
#[utoipa::path(get, path = "/v1/audit", tag = "keys", params(Page), responses((status = 200, body = AuditEntries)))]
pub(super) async fn list(
    _: Caller<Keys>,
    State(v1): State<Arc<V1>>,
    Query(page): Query<Page>,
) -> Result<Json<AuditEntries>, V1Error> {
    let after = page.after::<()>().get().to_be_bytes();
    let records = v1.in_time(v1.node.store().records(RECORDS, &after, page.limit())).await??;
    let entries = records.iter().filter_map(|(id, data)| entry_of(id, data)).collect();
    Ok(Json(AuditEntries { entries }))
}

/// Removes old entries until it is dropped.
pub struct AuditPruner(JoinHandle<()>);

impl Drop for AuditPruner {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl AuditPruner {
    /// Removes entries that are older than `keep_ms`, now and every hour.
    #[must_use]
    pub fn start(node: Node, clock: Arc<dyn Clock>, keep_ms: u64) -> Self {
        Self(tokio::spawn(async move {
            loop {
                let keep_ms = i64::try_from(keep_ms).unwrap_or(i64::MAX);
                let oldest = Timestamp(clock.now().unix.0.saturating_sub(keep_ms));
                match prune(&node, oldest).await {
                    Ok(0) => {}
                    Ok(removed) => tracing::info!(removed, "old entries of the audit log of /v1 are removed"),
                    Err(error) => tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "old entries of the audit log of /v1 cannot be removed; it is tried again"
                    ),
                }
                tokio::time::sleep(PRUNE_EVERY).await;
            }
        }))
    }
}

/// How many entries were removed.
async fn prune(node: &Node, oldest: Timestamp) -> Result<u64, StoreError> {
    let mut removed = 0;
    loop {
        let some = node.store().records(RECORDS, &[], SLICE).await?;
        let is_old =
            |id: &[u8]| id.try_into().is_ok_and(|id| timestamp_of(Id::<()>::new(u64::from_be_bytes(id))) < oldest);
        let old: Vec<_> = some.iter().take_while(|(id, _)| is_old(id)).collect();
        // At the same time, so that they share commits.
        let gone = old.iter().map(|(id, _)| node.store().delete_record(RECORDS, id));
        futures_util::future::try_join_all(gone).await?;
        removed += old.len() as u64;
        if old.len() < SLICE as usize {
            return Ok(removed);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
