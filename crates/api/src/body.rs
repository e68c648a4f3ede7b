//! Bodies: from the socket to JSON, within limits.
//!
//! Owns        `detach_body`, which takes the body out of a request; `LazyBody`, the only access to it; the requests
//!             that handlers take (`JsonRequest`, `MessageRequest`) and `Query`; `BodyLimits`, the sizes that each kind
//!             of route accepts.
//! Invariants  B1 reading a body needs a `ReadPermit`: its sender is authenticated and the object in its path exists.
//!             An extractor that reads bodies eagerly gets an empty one. B2 no file is stored before its sender is
//!             allowed to send files.
//! Limits      `BodyLimits` per route, at most `json_bytes_max`; `multipart_bytes_max`; `body_deadline_ms`, with files
//!             `upload_deadline_ms`. Quota for bytes is reserved in small steps as they arrive (`bodies_bytes_max`),
//!             quota for JSON trees as they grow (`trees_bytes_max`). Past a quota the request is refused at once (503
//!             with Retry-After).
//!             Spec  docs/protocol/reference.md §10.

use crate::{
    error::ApiError,
    form::{self, Form},
    limits::network,
    multipart::{Multipart, MultipartError, boundary_of},
    peer::Peer,
    permit::ReadPermit,
    quota::{OverQuota, Parties, Party, Quota, Reservation},
    state::Api,
    tree::{self, TreeFault},
    upload::{Uploads, no_files},
};
use axum::{
    body::{Body, BodyDataStream, Bytes},
    extract::{FromRequestParts, Request},
    http::{HeaderMap, header, request::Parts},
};
use futures_util::StreamExt;
use serde_json::{Map, Value};
use std::{
    convert::Infallible,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

/// Largest JSON body that a route accepts, also as a part of form data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyLimits {
    pub bytes_max: usize,
    /// JSON values: numbers, strings, booleans, nulls, lists and objects.
    pub values_max: usize,
}

impl BodyLimits {
    /// Short fields, and lists of at most 250 ids.
    pub const FORM: Self = Self { bytes_max: 64 << 10, values_max: 4_096 };
    /// 500 channels, roles or overwrites.
    pub const LIST: Self = Self { bytes_max: 256 << 10, values_max: 4_096 };
    /// A form with an emoji or a role icon as a data URL.
    pub const PICTURE: Self = Self { bytes_max: 1 << 20, values_max: 4_096 };
    /// A form with an avatar, icon, splash or banner of `uploads.picture_bytes_max` as a data URL, with a
    /// smaller second one.
    pub const PROFILE: Self = Self { bytes_max: 6 << 20, values_max: 4_096 };
    /// 2,000 characters, 10 embeds with 6,000 characters and 60 URLs in all, 16 KiB of components and 10 files, if
    /// every character is escaped.
    pub const MESSAGE: Self = Self { bytes_max: 256 << 10, values_max: 16_384 };
    /// 131 commands with options, choices and names in 30 languages.
    pub const COMMANDS: Self = Self { bytes_max: 1 << 20, values_max: 40_000 };

    /// Memory of the costliest tree: every second value is an object with one entry.
    #[cfg(test)]
    const fn tree_bytes_max(self) -> usize {
        self.values_max / 2 * 1_000
    }
}

/// Reserved before the first byte: the read buffer of a connection.
pub(crate) const BODY_BYTES: usize = 16 << 10;
/// Smallest step of a reservation for bytes; larger bodies grow by a quarter.
const STEP_BYTES: usize = 8 << 10;

/// Memory quotas for the bodies of one API.
#[derive(Debug)]
pub(crate) struct BodyQuotas {
    /// Bytes of bodies that are arriving.
    pub bytes: Arc<Quota>,
    /// JSON trees. They are built of complete bodies, so that no slow sender holds this quota.
    pub trees: Arc<Quota>,
}

/// Each account, webhook, key and address may reserve one part in eight of the quota for bytes.
const BYTES_SHARE: usize = 8;
/// The same for trees: one part in four.
const TREES_SHARE: usize = 4;

impl BodyQuotas {
    /// Quotas in which one body of the largest size always fits.
    pub fn new(bytes_max: usize, trees_bytes_max: usize, body_bytes_max: usize) -> Self {
        let largest = body_bytes_max + body_bytes_max / 4 + BODY_BYTES + STEP_BYTES;
        let (bytes_max, trees_bytes_max) = (bytes_max.max(largest), trees_bytes_max.max(TREES_SHARE));
        Self {
            bytes: Quota::new(bytes_max, (bytes_max / BYTES_SHARE).max(largest)),
            trees: Quota::new(trees_bytes_max, trees_bytes_max / TREES_SHARE),
        }
    }
}

/// Why a body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFault {
    /// The body is compressed (`Content-Encoding`).
    Encoded,
    /// Longer than this, in bytes.
    TooLarge(usize),
    /// More JSON values than this.
    TooManyValues(usize),
    /// The body was not complete at its deadline.
    TooSlow,
    /// The sender closed the connection, or broke the framing.
    BrokeOff,
    /// Neither JSON nor the form data that `Content-Type` announces.
    Malformed,
    /// A memory quota is exhausted.
    OverQuota(OverQuota),
}

impl From<OverQuota> for BodyFault {
    fn from(over_quota: OverQuota) -> Self {
        Self::OverQuota(over_quota)
    }
}

/// The detached body of a request.
#[derive(Clone, Debug)]
pub(crate) struct BodySlot(Arc<Mutex<Option<Body>>>);

impl BodySlot {
    /// Takes the body out. A second call returns none.
    pub fn take(&self) -> Option<Body> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Takes the body out of a request. `LazyBody` is the only access to it afterwards.
pub(crate) fn detach_body(request: &mut Request) -> BodySlot {
    let slot = BodySlot(Arc::new(Mutex::new(Some(std::mem::take(request.body_mut())))));
    request.extensions_mut().insert(slot.clone());
    slot
}

/// A body of which no byte is read yet.
#[derive(Debug)]
pub(crate) struct LazyBody {
    slot: Option<BodySlot>,
    announced: Option<usize>,
    is_encoded: bool,
    peer: u128,
}

impl<S: Sync> FromRequestParts<S> for LazyBody {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let mut encodings = parts.headers.get_all(header::CONTENT_ENCODING).iter();
        Ok(Self {
            slot: parts.extensions.remove(),
            announced: announced_bytes(&parts.headers),
            is_encoded: encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")),
            peer: network(parts.extensions.get::<Peer>().map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |peer| peer.0)),
        })
    }
}

impl LazyBody {
    /// Network of the sender, as `limits::network` makes it.
    pub fn peer(&self) -> u128 {
        self.peer
    }

    /// `Content-Length`.
    pub fn announced(&self) -> Option<usize> {
        self.announced
    }

    fn parties(&self, permit: ReadPermit) -> Parties {
        [Some(permit.party()), Some(Party::Peer(self.peer))]
    }

    /// The body as a stream, with a reservation for the bytes that its reader buffers.
    pub fn stream(self, permit: ReadPermit, body_quotas: &BodyQuotas) -> Result<(Body, Reservation), BodyFault> {
        if self.is_encoded {
            return Err(BodyFault::Encoded);
        }
        let reservation = body_quotas.bytes.reserve(self.parties(permit), BODY_BYTES)?;
        Ok((self.slot.and_then(|slot| slot.take()).unwrap_or_default(), reservation))
    }

    /// The whole body, with the reservation for its bytes.
    pub async fn bytes(
        self,
        permit: ReadPermit,
        body_quotas: &BodyQuotas,
        bytes_max: usize,
        deadline_ms: u64,
    ) -> Result<(Vec<u8>, Reservation), BodyFault> {
        if self.announced.is_some_and(|bytes| bytes > bytes_max) {
            return Err(BodyFault::TooLarge(bytes_max));
        }
        let most = self.announced.unwrap_or(bytes_max);
        let (body, mut reservation) = self.stream(permit, body_quotas)?;
        let read = async {
            let mut pieces = body.into_data_stream();
            let mut bytes = Vec::new();
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(|_| BodyFault::BrokeOff)?;
                let needed = bytes.len() + piece.len();
                if needed > bytes_max {
                    return Err(BodyFault::TooLarge(bytes_max));
                }
                if needed > bytes.capacity() {
                    let step = STEP_BYTES.max(bytes.capacity() / 4);
                    let capacity = needed.max((bytes.capacity() + step).min(most));
                    reservation.grow_to(BODY_BYTES + capacity)?;
                    bytes.reserve_exact(capacity - bytes.len());
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(bytes)
        };
        let read = tokio::time::timeout(Duration::from_millis(deadline_ms), read).await;
        Ok((read.unwrap_or(Err(BodyFault::TooSlow))?, reservation))
    }
}

/// Parses a body into a tree. The reservation has to live as long as the tree.
pub(crate) fn parse_tree(
    text: &[u8],
    permit: ReadPermit,
    peer: u128,
    body_quotas: &BodyQuotas,
    values_max: usize,
) -> Result<(Value, Reservation), BodyFault> {
    let mut reservation = body_quotas.trees.reservation([Some(permit.party()), Some(Party::Peer(peer))]);
    let value = tree::parse(text, values_max, &mut reservation).map_err(|fault| match fault {
        TreeFault::NotJson => BodyFault::Malformed,
        TreeFault::TooMany => BodyFault::TooManyValues(values_max),
        TreeFault::OverQuota(over_quota) => BodyFault::OverQuota(over_quota),
    })?;
    Ok((value, reservation))
}

/// A parsed JSON body, with the reservation for its tree.
pub(crate) struct JsonBody {
    pub value: Value,
    _reservation: Reservation,
}

impl JsonBody {
    /// Reads the body as an object.
    pub fn read<T>(&self, read: impl FnOnce(&mut Form<'_>) -> Option<T>) -> Result<T, ApiError> {
        Ok(form::object(&self.value, read)?)
    }
}

/// A request with a JSON body that is not read yet. An empty body counts as `{}`.
pub(crate) struct JsonRequest(LazyBody);

impl<S: Sync> FromRequestParts<S> for JsonRequest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        LazyBody::from_request_parts(parts, state).await.map(Self)
    }
}

impl JsonRequest {
    pub async fn json(self, api: &Api, permit: ReadPermit, limits: BodyLimits) -> Result<JsonBody, ApiError> {
        let (value, reservation) = read_json(self.0, api, permit, limits).await?;
        Ok(JsonBody { value, _reservation: reservation })
    }

    /// Reads the body as an object.
    pub async fn read<T>(
        self,
        api: &Api,
        permit: ReadPermit,
        limits: BodyLimits,
        read: impl FnOnce(&mut Form<'_>) -> Option<T>,
    ) -> Result<T, ApiError> {
        self.json(api, permit, limits).await?.read(read)
    }
}

async fn read_json(
    lazy: LazyBody,
    api: &Api,
    permit: ReadPermit,
    limits: BodyLimits,
) -> Result<(Value, Reservation), ApiError> {
    let (bytes_max, peer) = (limits.bytes_max.min(api.limits.json_bytes_max), lazy.peer);
    let (bytes, _reservation) = lazy.bytes(permit, &api.body_quotas, bytes_max, api.limits.body_deadline_ms).await?;
    if bytes.is_empty() {
        return Ok((Value::Object(Map::new()), api.body_quotas.trees.reservation([None; 2])));
    }
    Ok(parse_tree(&bytes, permit, peer, &api.body_quotas, limits.values_max)?)
}

/// A request with a body that is not read yet: JSON, or form data with the JSON in its part `payload_json`.
pub(crate) struct MessageRequest {
    lazy: LazyBody,
    boundary: Option<Result<String, MultipartError>>,
}

/// Content of a message request.
pub(crate) struct MessageBodyInput {
    pub value: Value,
    /// Files of the request.
    pub uploads: Uploads,
    _reservation: Reservation,
}

impl<S: Sync> FromRequestParts<S> for MessageRequest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let boundary = content_type(&parts.headers).and_then(boundary_of);
        Ok(Self { lazy: LazyBody::from_request_parts(parts, state).await?, boundary })
    }
}

impl MessageRequest {
    /// Reads the body. At the first file, `may_attach` decides whether the sender may send files.
    pub async fn read(
        self,
        api: &Api,
        permit: ReadPermit,
        may_attach: impl Future<Output = Result<(), ApiError>>,
    ) -> Result<MessageBodyInput, ApiError> {
        self.read_as(api, permit, BodyLimits::MESSAGE, may_attach).await
    }

    /// The same for a short form and a file that becomes a part of an object.
    pub async fn read_form(
        self,
        api: &Api,
        permit: ReadPermit,
        may_attach: impl Future<Output = Result<(), ApiError>>,
    ) -> Result<MessageBodyInput, ApiError> {
        self.read_as(api, permit, BodyLimits::FORM, may_attach).await
    }

    async fn read_as(
        self,
        api: &Api,
        permit: ReadPermit,
        limits: BodyLimits,
        may_attach: impl Future<Output = Result<(), ApiError>>,
    ) -> Result<MessageBodyInput, ApiError> {
        match self.boundary {
            Some(boundary) => {
                let boundary = boundary.map_err(|_| BodyFault::Malformed)?;
                read_form_data(api, permit, limits, &boundary, self.lazy, may_attach).await
            }
            None => {
                let (value, reservation) = read_json(self.lazy, api, permit, limits).await?;
                Ok(MessageBodyInput { value, uploads: Uploads::default(), _reservation: reservation })
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

/// `Content-Length` of a request.
pub(crate) fn announced_bytes(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read_form_data(
    api: &Api,
    permit: ReadPermit,
    limits: BodyLimits,
    boundary: &str,
    lazy: LazyBody,
    may_attach: impl Future<Output = Result<(), ApiError>>,
) -> Result<MessageBodyInput, ApiError> {
    let bytes_max = api.limits.multipart_bytes_max;
    if lazy.announced.is_some_and(|bytes| bytes > bytes_max) {
        return Err(BodyFault::TooLarge(bytes_max).into());
    }
    let text_bytes_max = limits.bytes_max.min(api.limits.json_bytes_max);
    let peer = lazy.peer;
    let begun = Instant::now();
    let mut deadline = begun + Duration::from_millis(api.limits.body_deadline_ms);
    let (body, mut reservation) = lazy.stream(permit, &api.body_quotas)?;
    let mut form = FormData {
        api,
        parser: Multipart::new(boundary, text_bytes_max),
        uploads: Uploads::default(),
        sender: permit.sender(),
        may_attach: Some(may_attach),
    };
    let mut pieces = body.into_data_stream();
    let mut total: usize = 0;
    loop {
        let piece = timeout_at(deadline, pieces.next()).await.map_err(|_| BodyFault::TooSlow)?;
        let piece = piece.transpose().map_err(|_| BodyFault::BrokeOff)?;
        total = total.saturating_add(piece.as_ref().map_or(0, |piece| piece.len()));
        if total > bytes_max {
            return Err(BodyFault::TooLarge(bytes_max).into());
        }
        let is_end = piece.is_none();
        let taken = timeout_at(deadline, form.take(piece)).await.unwrap_or(Err(BodyFault::TooSlow.into()));
        // Text grows by doubling.
        let taken = taken.and_then(|()| Ok(reservation.grow_to(BODY_BYTES + 2 * form.parser.kept_bytes())?));
        if let Err(error) = taken {
            drain(pieces, bytes_max.saturating_sub(total));
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
    let (value, tree) = match parts.fields.get("payload_json") {
        Some(json) if json.is_empty() => (Value::Object(Map::new()), reservation),
        Some(json) => parse_tree(json.as_bytes(), permit, peer, &api.body_quotas, limits.values_max)?,
        // Without it, the plain fields are the form.
        None => (parts.fields.into_iter().map(|(name, text)| (name, Value::String(text))).collect(), reservation),
    };
    Ok(MessageBodyInput { value, uploads: form.uploads, _reservation: tree })
}

/// Longest time for which the rest of a refused upload is read.
const DRAINED_FOR: Duration = Duration::from_secs(5);

/// Reads and discards the rest of a body on a task of its own, while the answer is sent. Most clients read the answer
/// only after they have sent the whole body; if the node closes the connection earlier, they report an error. The
/// listener does the same with small bodies.
fn drain(mut pieces: BodyDataStream, bytes_max: usize) {
    let rest = async move {
        let mut left = bytes_max;
        while let Some(Ok(piece)) = pieces.next().await {
            match left.checked_sub(piece.len()) {
                Some(less) => left = less,
                None => return,
            }
        }
    };
    tokio::spawn(tokio::time::timeout(DRAINED_FOR, rest));
}

/// Bodies up to this size are drained by the listener.
pub(crate) const LISTENER_DRAINS_BYTES: usize = 256 << 10;

/// Discards a body that no handler read, unless it is larger than any upload may be.
pub(crate) fn drain_slot(api: &Api, announced: Option<usize>, slot: &BodySlot) {
    let bytes_max = api.limits.multipart_bytes_max;
    if announced.is_none_or(|bytes| bytes <= bytes_max)
        && let Some(body) = slot.take()
    {
        drain(body.into_data_stream(), bytes_max);
    }
}

/// Form data that is being received.
struct FormData<'a, F> {
    api: &'a Api,
    parser: Multipart,
    uploads: Uploads,
    sender: u64,
    /// Check of the upload; `None` after the first check.
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
            MultipartError::Malformed => BodyFault::Malformed,
            MultipartError::TooLarge => BodyFault::TooLarge(self.parser.kept_bytes_max()),
        })?;
        for piece in self.parser.take_files() {
            let files = self.api.files.as_ref().ok_or_else(no_files)?;
            if let Some(may_attach) = self.may_attach.take() {
                may_attach.await?;
                self.uploads.admit(self.api.uploads.take(self.sender).await?);
            }
            self.uploads.take(files, piece).await?;
        }
        Ok(())
    }
}

/// The query as the fields of a form. Unknown keys are ignored; of equal keys the last one counts.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_body_fits_into_a_share() {
        let defaults = crate::ApiLimits::default();
        for limits in [
            BodyLimits::FORM,
            BodyLimits::LIST,
            BodyLimits::PICTURE,
            BodyLimits::PROFILE,
            BodyLimits::MESSAGE,
            BodyLimits::COMMANDS,
        ] {
            assert!(limits.bytes_max <= defaults.json_bytes_max);
            let tree_bytes = limits.tree_bytes_max() + limits.bytes_max;
            assert!(tree_bytes <= defaults.trees_bytes_max / TREES_SHARE, "{limits:?}: {tree_bytes}");
        }
    }
}
