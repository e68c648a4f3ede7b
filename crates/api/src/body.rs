//! Bodies: from the socket to JSON, within limits.
//!
//! Owns        the extractors `JsonBody` and `MessageBodyInput` (JSON or form data), and `Query`.
//! Invariants  they run after `crate::gate`, so only for authenticated requests.
//! Limits      `json_bytes_max`, `multipart_bytes_max`, `body_deadline_ms`, and `bodies_bytes_max` over all requests:
//!             room for a body is taken before it is read and held until the handler drops it.
//!             Spec  docs/protocol.md §10.

use crate::{
    error::ApiError,
    form::{self, Form},
    multipart::{Multipart, MultipartError, boundary_of},
    state::Api,
};
use axum::{
    body::Body,
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, header, request::Parts},
};
use futures_util::StreamExt;
use serde_json::{Map, Value};
use std::{sync::Arc, time::Duration};
use tokio::sync::OwnedSemaphorePermit;

/// A JSON body. An empty one counts as `{}`.
pub(crate) struct JsonBody {
    pub value: Value,
    _room: OwnedSemaphorePermit,
}

/// A body that may be JSON, or form data with the JSON in its part `payload_json`.
pub(crate) struct MessageBodyInput {
    pub value: Value,
    /// Files came with it.
    pub has_files: bool,
    _room: OwnedSemaphorePermit,
}

/// Why it is asked, as the header `X-Audit-Log-Reason` says: percent-encoded, cut to what upstream keeps.
pub(crate) struct AuditReason(pub Option<String>);

const REASON_CHARS_MAX: usize = 512;

impl<S: Send + Sync> FromRequestParts<S> for AuditReason {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let header = parts.headers.get("x-audit-log-reason").map(|value| value.as_bytes());
        let text = header.map(|bytes| percent_encoding::percent_decode(bytes).decode_utf8_lossy().into_owned());
        let reason = text.map(|text| text.chars().take(REASON_CHARS_MAX).collect::<String>());
        Ok(Self(reason.filter(|reason| !reason.trim().is_empty())))
    }
}

impl JsonBody {
    /// Reads the body as an object.
    pub fn read<T>(&self, read: impl FnOnce(&mut Form<'_>) -> Option<T>) -> Result<T, ApiError> {
        Ok(form::object(&self.value, read)?)
    }
}

impl FromRequest<Arc<Api>> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, ApiError> {
        within_deadline(api, async {
            let (room, bytes) = read_json_bytes(api, request).await?;
            Ok(Self { value: parse(&bytes)?, _room: room })
        })
        .await
    }
}

impl FromRequest<Arc<Api>> for MessageBodyInput {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, ApiError> {
        let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let boundary = match content_type.and_then(boundary_of) {
            Some(boundary) => Some(boundary.map_err(|_| ApiError::MalformedBody)?),
            None => None,
        };
        within_deadline(api, async {
            match boundary {
                Some(boundary) => read_form_data(api, &boundary, request).await,
                None => {
                    let (room, bytes) = read_json_bytes(api, request).await?;
                    Ok(Self { value: parse(&bytes)?, has_files: false, _room: room })
                }
            }
        })
        .await
    }
}

async fn within_deadline<T>(api: &Api, work: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    let deadline = Duration::from_millis(api.limits.body_deadline_ms);
    tokio::time::timeout(deadline, work).await.unwrap_or(Err(ApiError::BodyTooSlow))
}

fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    if bytes.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    serde_json::from_slice(bytes).map_err(|_| ApiError::MalformedBody)
}

fn announced_bytes(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn room_for(api: &Api, bytes: usize) -> Result<OwnedSemaphorePermit, ApiError> {
    let kib = u32::try_from(bytes.div_ceil(1024)).map_err(|_| ApiError::BodyTooLarge)?;
    Arc::clone(&api.bodies_kib).acquire_many_owned(kib).await.map_err(|_| ApiError::Overloaded)
}

async fn read_json_bytes(api: &Api, request: Request) -> Result<(OwnedSemaphorePermit, Vec<u8>), ApiError> {
    let bytes_max = api.limits.json_bytes_max;
    let announced = announced_bytes(request.headers());
    if announced.is_some_and(|bytes| bytes > bytes_max) {
        return Err(ApiError::BodyTooLarge);
    }
    let room = room_for(api, announced.unwrap_or(bytes_max)).await?;
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0));
    read_pieces(request.into_body(), bytes_max, |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })
    .await?;
    Ok((room, bytes))
}

async fn read_form_data(api: &Api, boundary: &str, request: Request) -> Result<MessageBodyInput, ApiError> {
    let bytes_max = api.limits.multipart_bytes_max;
    if announced_bytes(request.headers()).is_some_and(|bytes| bytes > bytes_max) {
        return Err(ApiError::BodyTooLarge);
    }
    let failed = |error| match error {
        MultipartError::Malformed => ApiError::MalformedBody,
        MultipartError::TooLarge => ApiError::BodyTooLarge,
    };
    let room = room_for(api, api.limits.json_bytes_max).await?;
    let mut parser = Multipart::new(boundary, api.limits.json_bytes_max);
    read_pieces(request.into_body(), bytes_max, |piece| parser.push(piece).map_err(failed)).await?;
    let parts = parser.finish().map_err(failed)?;
    let value = match parts.fields.get("payload_json") {
        Some(json) => parse(json.as_bytes())?,
        // Without it, the plain fields are the form.
        None => parts.fields.into_iter().map(|(name, text)| (name, Value::String(text))).collect(),
    };
    Ok(MessageBodyInput { value, has_files: parts.files_count > 0, _room: room })
}

async fn read_pieces(
    body: Body,
    bytes_max: usize,
    mut take: impl FnMut(&[u8]) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let mut pieces = body.into_data_stream();
    let mut total: usize = 0;
    while let Some(piece) = pieces.next().await {
        // The client went away, or broke the framing.
        let piece = piece.map_err(|_| ApiError::MalformedBody)?;
        total = total.saturating_add(piece.len());
        if total > bytes_max {
            return Err(ApiError::BodyTooLarge);
        }
        take(&piece)?;
    }
    Ok(())
}

/// The query, as the fields of a form. Keys nobody asks for are ignored; of several with one name the last counts.
pub(crate) struct Query(Map<String, Value>);

impl Query {
    /// Reads the query.
    pub fn read<T>(&self, read: impl FnOnce(&mut Form<'_>) -> Option<T>) -> Result<T, ApiError> {
        Ok(form::fields(&self.0, read)?)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        // Anything is a list of pairs; should that ever change, a query that cannot be read is an empty one.
        let pairs = pairs.map(|query| query.0).unwrap_or_default();
        Ok(Self(pairs.into_iter().map(|(name, text)| (name, Value::String(text))).collect()))
    }
}
