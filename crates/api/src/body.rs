//! Bodies: from the socket to JSON, within limits.
//!
//! Owns        the extractors `JsonBody`, `MessageRequest` (JSON, or form data with files) and `Query`.
//! Invariants  they run after `crate::gate`, so only for authenticated requests. Of a `MessageRequest` nothing is read before its
//!             handler says so, and no file is taken in before its sender may send any.
//! Limits      `json_bytes_max`, `multipart_bytes_max`, `body_deadline_ms`, and `bodies_bytes_max` over all requests:
//!             room for a body is taken before it is read and held until the handler drops it. With files that may be sent,
//!             `upload_deadline_ms`.
//!             Spec  docs/protocol.md §10.

use crate::{
    error::ApiError,
    form::{self, Form},
    multipart::{Multipart, MultipartError, boundary_of},
    state::Api,
    upload::{Uploads, no_files},
};
use axum::{
    body::{Body, BodyDataStream, Bytes},
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, header, request::Parts},
};
use futures_util::StreamExt;
use serde_json::{Map, Value};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};

/// A JSON body. An empty one counts as `{}`.
pub(crate) struct JsonBody {
    pub value: Value,
    _room: OwnedSemaphorePermit,
}

/// A request whose body may be JSON, or form data with the JSON in its part `payload_json`. Nothing of it is read yet.
pub(crate) struct MessageRequest {
    request: Request,
    boundary: Option<String>,
}

/// What it held.
pub(crate) struct MessageBodyInput {
    pub value: Value,
    /// Files that came with it.
    pub uploads: Uploads,
    _room: OwnedSemaphorePermit,
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

impl FromRequest<Arc<Api>> for MessageRequest {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &Arc<Api>) -> Result<Self, ApiError> {
        let boundary = match content_type(request.headers()).and_then(boundary_of) {
            Some(boundary) => Some(boundary.map_err(|_| ApiError::MalformedBody)?),
            None => None,
        };
        Ok(Self { request, boundary })
    }
}

impl MessageRequest {
    /// Reads the body. When a file comes, `may_attach` is asked whether its sender, an account or a webhook, may send any.
    pub async fn read(
        self,
        api: &Api,
        sender: u64,
        may_attach: impl Future<Output = Result<(), ApiError>>,
    ) -> Result<MessageBodyInput, ApiError> {
        self.read_as(api, Some(sender), may_attach).await
    }

    /// Reads the body of what has a file that is not kept: `Uploads::skipped_count` says how many came.
    pub async fn read_skipping(self, api: &Api) -> Result<MessageBodyInput, ApiError> {
        self.read_as(api, None, async { Ok(()) }).await
    }

    async fn read_as(
        self,
        api: &Api,
        sender: Option<u64>,
        may_attach: impl Future<Output = Result<(), ApiError>>,
    ) -> Result<MessageBodyInput, ApiError> {
        match self.boundary {
            Some(boundary) => read_form_data(api, &boundary, self.request, sender, may_attach).await,
            None => {
                within_deadline(api, async {
                    let (room, bytes) = read_json_bytes(api, self.request).await?;
                    Ok(MessageBodyInput { value: parse(&bytes)?, uploads: Uploads::default(), _room: room })
                })
                .await
            }
        }
    }
}

fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok())
}

/// Whether files may come with a request.
pub(crate) fn is_form_data(headers: &HeaderMap) -> bool {
    content_type(headers).and_then(boundary_of).is_some()
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

async fn read_form_data(
    api: &Api,
    boundary: &str,
    request: Request,
    sender: Option<u64>,
    may_attach: impl Future<Output = Result<(), ApiError>>,
) -> Result<MessageBodyInput, ApiError> {
    let bytes_max = api.limits.multipart_bytes_max;
    if announced_bytes(request.headers()).is_some_and(|bytes| bytes > bytes_max) {
        return Err(ApiError::BodyTooLarge);
    }
    let begun = Instant::now();
    let mut deadline = begun + Duration::from_millis(api.limits.body_deadline_ms);
    let room =
        timeout_at(deadline, room_for(api, api.limits.json_bytes_max)).await.map_err(|_| ApiError::BodyTooSlow)??;
    let mut form = FormData {
        api,
        parser: Multipart::new(boundary, api.limits.json_bytes_max),
        uploads: Uploads::default(),
        sender,
        may_attach: Some(may_attach),
    };
    let mut pieces = request.into_body().into_data_stream();
    let mut total: usize = 0;
    loop {
        let piece = timeout_at(deadline, pieces.next()).await.map_err(|_| ApiError::BodyTooSlow)?;
        // The client went away, or broke the framing.
        let piece = piece.transpose().map_err(|_| ApiError::MalformedBody)?;
        total = total.saturating_add(piece.as_ref().map_or(0, |piece| piece.len()));
        if total > bytes_max {
            return Err(ApiError::BodyTooLarge);
        }
        let is_end = piece.is_none();
        let taken = timeout_at(deadline, form.take(piece)).await.unwrap_or(Err(ApiError::BodyTooSlow));
        if let Err(error) = taken {
            drain(pieces, bytes_max.saturating_sub(total)).await;
            return Err(error);
        }
        if is_end {
            break;
        }
        if form.uploads.is_admitted() {
            deadline = begun + Duration::from_millis(api.limits.upload_deadline_ms);
        }
    }
    let parts = form.parser.finish();
    let value = match parts.fields.get("payload_json") {
        Some(json) => parse(json.as_bytes())?,
        // Without it, the plain fields are the form.
        None => parts.fields.into_iter().map(|(name, text)| (name, Value::String(text))).collect(),
    };
    Ok(MessageBodyInput { value, uploads: form.uploads, _room: room })
}

/// How long the rest of a refused upload is thrown away.
const DRAINED_FOR: Duration = Duration::from_secs(5);

/// Throws away what is still to come: most clients read no answer before they have sent all, and a connection that is closed before
/// is an error to them, and no answer. The listener does so too, but only with what is small.
async fn drain(mut pieces: BodyDataStream, bytes_max: usize) {
    let mut left = bytes_max;
    let rest = async {
        while let Some(Ok(piece)) = pieces.next().await {
            match left.checked_sub(piece.len()) {
                Some(less) => left = less,
                None => return,
            }
        }
    };
    let _ = tokio::time::timeout(DRAINED_FOR, rest).await;
}

/// The same for a request that goes no further, if it is not too large anyway.
pub(crate) async fn drain_request(api: &Api, request: Request) {
    let bytes_max = api.limits.multipart_bytes_max;
    if announced_bytes(request.headers()).is_none_or(|bytes| bytes <= bytes_max) {
        drain(request.into_body().into_data_stream(), bytes_max).await;
    }
}

/// Form data on its way in.
struct FormData<'a, F> {
    api: &'a Api,
    parser: Multipart,
    uploads: Uploads,
    /// None: files are skipped.
    sender: Option<u64>,
    /// None: it was asked.
    may_attach: Option<F>,
}

impl<F: Future<Output = Result<(), ApiError>>> FormData<'_, F> {
    /// The next bytes; none: the end.
    async fn take(&mut self, piece: Option<Bytes>) -> Result<(), ApiError> {
        let pushed = match piece {
            Some(piece) => self.parser.push(&piece),
            None => self.parser.end(),
        };
        pushed.map_err(|error| match error {
            MultipartError::Malformed => ApiError::MalformedBody,
            MultipartError::TooLarge => ApiError::BodyTooLarge,
        })?;
        for piece in self.parser.take_files() {
            let Some(sender) = self.sender else {
                self.uploads.skip(&piece);
                continue;
            };
            let files = self.api.files.as_ref().ok_or_else(no_files)?;
            if let Some(may_attach) = self.may_attach.take() {
                may_attach.await?;
                self.uploads.admit(self.api.uploads.take(sender).await?);
            }
            self.uploads.take(files, piece).await?;
        }
        Ok(())
    }
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
