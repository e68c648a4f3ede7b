//! Serving: `GET /attachments/{channel}/{id}/{filename}?ex=…&is=…&hm=…`, to any client with the link. Pictures: `cdn`.
//!
//! Invariants  S1 a request without a valid link causes no lookup. S2 a file whose message is deleted gets 404, swept
//!             or not. S3 browsers never execute a file: other kinds are downloads, and all are sandboxed.
//! Price       links need no token, as upstream: pages show pictures by their URL. A link is valid until it expires
//!             (`FilesOptions::links_expire_s`), also for members who have left.
//! Limits      one open file, or one connection to the bucket, and a buffer per request; the listener bounds the number
//!             of requests (`server.connections_max`).

use super::{
    Files, attachment_key, kind,
    link::{Link, Signed},
    remote,
};
use crate::{MediaError, upload::FILES_UNAVAILABLE};
use axum::{
    Router,
    body::Body,
    extract::{Path, Query, Request, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use guildhall_files::{Opened, StorageError};
use guildhall_model::{ChannelId, Id};
use guildhall_store::Store;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tower::ServiceExt;
use tower_http::services::ServeFile;

/// Routes to stored files. `store` has the list of files that messages refer to.
pub fn files_router(files: Files, store: Arc<dyn Store>) -> Router {
    let pictures = super::cdn::router(files.clone());
    Router::new()
        .route("/attachments/{channel_id}/{id}/{filename}", get(read))
        .with_state((files, store))
        .merge(pictures)
}

const YEAR_S: u64 = 31_536_000;
const EXPIRED: MediaError = MediaError::coded(
    StatusCode::NOT_FOUND,
    "This content is no longer available: the link has expired. Read the message again, or ask POST \
     /attachments/refresh-urls, for a link that is in force",
);

type Shared = (Files, Arc<dyn Store>);

async fn read(
    State((files, store)): State<Shared>,
    Path((channel_id, id, filename)): Path<(String, String, String)>,
    Query(query): Query<Vec<(String, String)>>,
    request: Request,
) -> Response {
    match serve(&files, &*store, [&channel_id, &id], &filename, &query, request).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn serve(
    files: &Files,
    store: &dyn Store,
    ids: [&str; 2],
    filename: &str,
    query: &[(String, String)],
    request: Request,
) -> Result<Response, MediaError> {
    let [channel_id, id] = ids.map(|id| id.parse::<u64>().ok());
    let (Some(channel_id), Some(id)) = (channel_id, id) else { return Err(MediaError::NotFound) };
    let (channel_id, id): (ChannelId, Id<()>) = (Id::new(channel_id), Id::new(id));
    let value = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let link = Link {
        channel_id,
        id,
        filename,
        ex: value("ex"),
        is: value("is"),
        until: value("until"),
        hm: value("hm").unwrap_or_default(),
    };
    let left_s = match files.0.links.check(files.now(), link) {
        Signed::Good(left_s) if store.attachments_in_use(&[id]).await?.contains(&id) => left_s,
        Signed::Lent(left_s) => Some(left_s),
        Signed::Expired => return Err(EXPIRED),
        Signed::Good(_) | Signed::No => return Err(MediaError::NotFound),
    };
    let found = find(files, &attachment_key(channel_id, id)).await?;
    let (response, content_type, is_shown) = respond(found, filename, request).await?;
    let disposition = if is_shown { "inline".to_owned() } else { format!("attachment; filename=\"{filename}\"") };
    let cache = format!("private, max-age={}, immutable", left_s.unwrap_or(YEAR_S));
    Ok(with_headers(response, content_type, &disposition, &cache))
}

/// Finds a stored file.
pub(super) async fn find(files: &Files, key: &str) -> Result<Opened, MediaError> {
    files.0.storage.open(key).await.map_err(|error| match error {
        StorageError::Unavailable(_) => FILES_UNAVAILABLE,
        _ => MediaError::NotFound,
    })
}

/// A file as a response, its media type, and whether a browser may show it.
pub(super) async fn respond(
    found: Opened,
    filename: &str,
    request: Request,
) -> Result<(Response, &'static str, bool), MediaError> {
    let place = match found {
        Opened::Local(place) => place,
        Opened::Remote(object) => {
            let (content_type, is_shown) =
                kind::served(&object.head[..object.head.len().min(kind::HEAD_BYTES)], filename);
            return Ok((remote::respond(object, request).await?, content_type, is_shown));
        }
    };
    let mut head = Vec::with_capacity(kind::HEAD_BYTES);
    let file = tokio::fs::File::open(&place).await.map_err(|_| MediaError::NotFound)?;
    file.take(kind::HEAD_BYTES as u64).read_to_end(&mut head).await.map_err(|_| MediaError::NotFound)?;
    let (content_type, is_shown) = kind::served(&head, filename);
    let served = ServeFile::new(place).oneshot(request).await;
    let response = match served {
        Ok(response) => response.map(Body::new),
        Err(never) => match never {},
    };
    let is_answer = [StatusCode::NOT_MODIFIED, StatusCode::PRECONDITION_FAILED].contains(&response.status());
    let is_found = response.status().is_success() || is_answer;
    if !is_found {
        // An invalid range gets the valid ones; any other failure means that the file is gone.
        return if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            Ok((response, content_type, is_shown))
        } else {
            Err(MediaError::NotFound)
        };
    }
    Ok((response, content_type, is_shown))
}

/// Nothing that a browser could run is shown (S3).
pub(super) fn with_headers(mut response: Response, content_type: &str, disposition: &str, cache: &str) -> Response {
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_DISPOSITION, disposition),
        (header::CACHE_CONTROL, cache),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Pages of other origins may read files.
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (HeaderName::from_static("cross-origin-resource-policy"), "cross-origin"),
    ] {
        // A name in a link of this node is clean.
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
