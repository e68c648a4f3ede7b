//! Bodies: the requests that handlers take.
//!
//! Owns        `JsonRequest`, `MessageRequest` and `Query`; `BodyLimits`, the sizes that each kind of route accepts.
//! Invariants  B2 no file is stored before its sender is allowed to send files.
//! Limits      `BodyLimits` per route, at most `json_bytes_max`; `multipart_bytes_max`; `body_deadline_ms`, with files
//!             `upload_deadline_ms`. Past a memory quota the request is refused at once (503 with Retry-After).
//! Not here    bytes and memory quotas: `guildhall_http_kit`.     Spec  docs/protocol/reference.md §10.

use crate::{
    auth::Credential,
    error::ApiError,
    form::{self, Form},
    permit::ReadPermit,
    routes::Route,
    state::Api,
};
use axum::{
    body::Bytes,
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};
use futures_util::StreamExt;
use guildhall_http_client::GuardedAnswer;
use guildhall_http_kit::{
    BODY_BYTES, BodyFault, LazyBody, Multipart, MultipartError, Reservation, boundary_in, drain, parse_tree,
};
use guildhall_media::{Uploads, no_files};
use guildhall_model::ChannelId;
use percent_encoding::percent_decode;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, convert::Infallible, time::Duration};
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

/// Fields of a form-encoded body: more than any form here has.
const FORM_FIELDS_MAX: usize = 64;

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

/// An unread body, with the token of its sender. A request with a webhook's token has none.
struct Arriving {
    lazy: LazyBody,
    route: Option<&'static Route>,
    credential: Option<Credential>,
    is_form_encoded: bool,
}

impl<S: Sync> FromRequestParts<S> for Arriving {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let credential = parts.extensions.get::<Credential>().cloned();
        let is_form_encoded = is_form_encoded(&parts.headers);
        let route = parts.extensions.get::<&'static Route>().copied();
        Ok(Self { lazy: LazyBody::from_request_parts(parts, state).await?, route, credential, is_form_encoded })
    }
}

impl Arriving {
    /// R2 of `crate::routes`.
    fn check_permit(&self, permit: ReadPermit) {
        let expected = self.route.and_then(|route| route.body);
        debug_assert_eq!(expected, Some(permit.kind()), "the row of {:?} has another permit", self.route);
    }
}

/// Refuses a body whose sender's token was revoked while it arrived.
async fn need_good(api: &Api, credential: Option<&Credential>) -> Result<(), ApiError> {
    match credential {
        Some(credential) => credential.need_good(api).await,
        None => Ok(()),
    }
}

/// A request with a JSON body that is not read yet. An empty body counts as `{}`. The fields may also be form-encoded.
pub(crate) struct JsonRequest(Arriving);

impl<S: Sync> FromRequestParts<S> for JsonRequest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Arriving::from_request_parts(parts, state).await.map(Self)
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
    arriving: Arriving,
    api: &Api,
    permit: ReadPermit,
    limits: BodyLimits,
) -> Result<(Value, Reservation), ApiError> {
    arriving.check_permit(permit);
    let Arriving { lazy, credential, is_form_encoded, .. } = arriving;
    let (bytes_max, peer) = (limits.bytes_max.min(api.limits.json_bytes_max), lazy.peer());
    let (mut bytes, reservation) = lazy.bytes(permit, &api.body_quotas, bytes_max, api.limits.body_deadline_ms).await?;
    need_good(api, credential.as_ref()).await?;
    if bytes.is_empty() {
        return Ok((Value::Object(Map::new()), api.body_quotas.trees.reservation([None; 2])));
    }
    // Scripts send JSON under this type, because it is the default of their HTTP client.
    if is_form_encoded && !matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'[')) {
        let fields = form_fields(&bytes).ok_or(BodyFault::TooManyValues(FORM_FIELDS_MAX))?;
        return form_value(fields, reservation, api, permit, peer, limits);
    }
    Ok(parse_tree(&mut bytes, permit, peer, &api.body_quotas, limits.values_max)?)
}

fn is_form_encoded(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = content_type.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

/// The fields of a form-encoded body; of equal names the last one counts. None: more than `FORM_FIELDS_MAX`.
fn form_fields(body: &[u8]) -> Option<BTreeMap<String, String>> {
    let text = |piece: &[u8]| {
        let piece: Vec<u8> = piece.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
        percent_decode(&piece).decode_utf8_lossy().into_owned()
    };
    let pairs = body.trim_ascii_end().split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    if pairs.clone().count() > FORM_FIELDS_MAX {
        return None;
    }
    let field = |pair: &[u8]| {
        let (name, value) = pair.split_at(pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len()));
        (text(name), text(value.strip_prefix(b"=").unwrap_or_default()))
    };
    Some(pairs.map(field).collect())
}

/// The JSON in the field `payload_json` or `payload`; without it, the plain fields are the form. `reservation`
/// covers the fields.
fn form_value(
    mut fields: BTreeMap<String, String>,
    reservation: Reservation,
    api: &Api,
    permit: ReadPermit,
    peer: u128,
    limits: BodyLimits,
) -> Result<(Value, Reservation), ApiError> {
    // Clients of Slack name it otherwise.
    match fields.remove("payload_json").or_else(|| fields.remove("payload")) {
        Some(json) if json.is_empty() => Ok((Value::Object(Map::new()), reservation)),
        Some(json) => Ok(parse_tree(&mut json.into_bytes(), permit, peer, &api.body_quotas, limits.values_max)?),
        None => Ok((fields.into_iter().map(|(name, text)| (name, Value::String(text))).collect(), reservation)),
    }
}

/// A request with a body that is not read yet: JSON, or form data with the JSON in its part `payload_json`, or
/// form-encoded.
pub(crate) struct MessageRequest {
    arriving: Arriving,
    boundary: Option<Result<String, MultipartError>>,
}

/// Content of a message request.
pub(crate) struct MessageBodyInput {
    pub value: Value,
    /// Files of the request.
    pub uploads: Uploads,
    _reservation: Reservation,
}

impl MessageBodyInput {
    /// Form data of a response to a request of this node, with files for a channel. The caller bounds the time.
    pub async fn of_form_response(
        api: &Api,
        permit: ReadPermit,
        (channel_id, text_bytes_max): (ChannelId, usize),
        boundary: &str,
        mut answer: GuardedAnswer,
    ) -> Result<Self, ApiError> {
        let bytes_max = api.limits.multipart_bytes_max;
        let mut form = FormData {
            api,
            parser: Multipart::new(boundary, text_bytes_max),
            uploads: Uploads::default(),
            sender: permit.sender(),
            channel: Some(channel_id),
            may_attach: Some(async { Ok(()) }),
        };
        let mut total: usize = 0;
        loop {
            let piece = answer.next().await.map_err(|_| BodyFault::BrokeOff)?;
            total = total.saturating_add(piece.as_ref().map_or(0, |piece| piece.len()));
            if total > bytes_max {
                return Err(BodyFault::TooLarge(bytes_max).into());
            }
            let is_end = piece.is_none();
            form.take(piece).await?;
            if is_end {
                break;
            }
        }
        let parts = form.parser.finish();
        // As of `of_response`.
        let reservation = api.body_quotas.trees.reservation([None; 2]);
        let (value, tree) = form_value(parts.fields, reservation, api, permit, 0, BodyLimits::MESSAGE)?;
        Ok(Self { value, uploads: form.uploads, _reservation: tree })
    }

    /// The JSON of a response to a request of this node. It has no files.
    pub fn of_response(api: &Api, permit: ReadPermit, mut bytes: Vec<u8>) -> Result<Self, ApiError> {
        // No peer sent it, so such responses have a share together.
        let (value, reservation) = parse_tree(&mut bytes, permit, 0, &api.body_quotas, BodyLimits::MESSAGE.values_max)?;
        Ok(Self { value, uploads: Uploads::default(), _reservation: reservation })
    }
}

impl<S: Sync> FromRequestParts<S> for MessageRequest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let boundary = boundary_in(&parts.headers);
        Ok(Self { arriving: Arriving::from_request_parts(parts, state).await?, boundary })
    }
}

impl MessageRequest {
    /// Reads the body. At the first file, `may_attach` decides whether the sender may send files to the channel.
    pub async fn read(
        self,
        api: &Api,
        permit: ReadPermit,
        channel_id: ChannelId,
        may_attach: impl Future<Output = Result<(), ApiError>>,
    ) -> Result<MessageBodyInput, ApiError> {
        self.read_as(api, permit, BodyLimits::MESSAGE, Some(channel_id), may_attach).await
    }

    /// The same for a short form and a file that becomes a part of an object.
    pub async fn read_form(
        self,
        api: &Api,
        permit: ReadPermit,
        may_attach: impl Future<Output = Result<(), ApiError>>,
    ) -> Result<MessageBodyInput, ApiError> {
        self.read_as(api, permit, BodyLimits::FORM, None, may_attach).await
    }

    async fn read_as(
        self,
        api: &Api,
        permit: ReadPermit,
        limits: BodyLimits,
        channel: Option<ChannelId>,
        may_attach: impl Future<Output = Result<(), ApiError>>,
    ) -> Result<MessageBodyInput, ApiError> {
        match self.boundary {
            Some(boundary) => {
                let boundary = boundary.map_err(|_| BodyFault::Malformed)?;
                self.arriving.check_permit(permit);
                let Arriving { lazy, credential, .. } = self.arriving;
                let read = read_form_data(api, permit, (limits, channel), &boundary, lazy, may_attach).await?;
                need_good(api, credential.as_ref()).await?;
                Ok(read)
            }
            None => {
                let (value, reservation) = read_json(self.arriving, api, permit, limits).await?;
                Ok(MessageBodyInput { value, uploads: Uploads::default(), _reservation: reservation })
            }
        }
    }
}

/// Whether files may come with a request.
pub(crate) fn is_form_data(headers: &HeaderMap) -> bool {
    boundary_in(headers).is_some()
}

async fn read_form_data(
    api: &Api,
    permit: ReadPermit,
    (limits, channel): (BodyLimits, Option<ChannelId>),
    boundary: &str,
    lazy: LazyBody,
    may_attach: impl Future<Output = Result<(), ApiError>>,
) -> Result<MessageBodyInput, ApiError> {
    let bytes_max = api.limits.multipart_bytes_max;
    if lazy.announced().is_some_and(|bytes| bytes > bytes_max) {
        return Err(BodyFault::TooLarge(bytes_max).into());
    }
    let text_bytes_max = limits.bytes_max.min(api.limits.json_bytes_max);
    let peer = lazy.peer();
    let start = Instant::now();
    let mut deadline = start + Duration::from_millis(api.limits.body_deadline_ms);
    let (body, mut reservation) = lazy.stream(permit, &api.body_quotas)?;
    let mut form = FormData {
        api,
        parser: Multipart::new(boundary, text_bytes_max),
        uploads: Uploads::default(),
        sender: permit.sender(),
        channel,
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
            deadline = start + Duration::from_millis(api.limits.upload_deadline_ms);
        }
    }
    let parts = form.parser.finish();
    let (value, tree) = form_value(parts.fields, reservation, api, permit, peer, limits)?;
    Ok(MessageBodyInput { value, uploads: form.uploads, _reservation: tree })
}

/// Form data that is being received.
struct FormData<'a, F> {
    api: &'a Api,
    parser: Multipart,
    uploads: Uploads,
    sender: u64,
    channel: Option<ChannelId>,
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
            let files = self.api.media.files().ok_or_else(no_files)?;
            if let Some(may_attach) = self.may_attach.take() {
                may_attach.await?;
                self.uploads.admit(self.api.media.admit_upload(self.sender, self.channel).await?);
            }
            self.uploads.take(files, piece).await?;
        }
        Ok(())
    }
}

/// The query as the fields of a form. Unknown keys are ignored; of equal keys the last one counts.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the query.
    pub fn read<T>(&self, read: impl FnOnce(&mut Form<'_>) -> Option<T>) -> Result<T, ApiError> {
        self.read_lists(&[], read)
    }

    /// Reads the query. Each of these names has the list of all its values; of others the last value counts.
    pub fn read_lists<T>(&self, lists: &[&str], read: impl FnOnce(&mut Form<'_>) -> Option<T>) -> Result<T, ApiError> {
        let mut fields = Map::new();
        for (name, text) in &self.0 {
            let value = Value::String(text.clone());
            match fields.get_mut(name) {
                Some(Value::Array(values)) => values.push(value),
                _ if lists.contains(&name.as_str()) => {
                    fields.insert(name.clone(), Value::Array(vec![value]));
                }
                _ => {
                    fields.insert(name.clone(), value);
                }
            }
        }
        Ok(form::fields(&fields, read)?)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        // Anything is a list of pairs; should that ever change, a query that cannot be read is an empty one.
        let pairs = pairs.map(|query| query.0).unwrap_or_default();
        Ok(Self(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_encoded_bodies() {
        let check = |body: &str, expected: &[(&str, &str)]| {
            let expected = expected.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
            assert_eq!(form_fields(body.as_bytes()), Some(expected), "{body}");
        };
        check("content=a+b%2Bc%26%C3%A4&tts=true", &[("content", "a b+c&ä"), ("tts", "true")]);
        check("content=x=y&&content=z\r\n", &[("content", "z")]);
        check("content&%", &[("%", ""), ("content", "")]);
        check("content=%ff", &[("content", "\u{fffd}")]);
        assert_eq!(form_fields(&b"a=1&".repeat(FORM_FIELDS_MAX + 1)), None);
        let kind = |content_type: &'static str| {
            is_form_encoded(&HeaderMap::from_iter([(header::CONTENT_TYPE, content_type.parse().unwrap())]))
        };
        assert!(kind("Application/X-WWW-Form-Urlencoded; charset=utf-8"));
        assert!(!kind("application/json") && !is_form_encoded(&HeaderMap::new()));
    }

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
            assert!(
                tree_bytes <= defaults.trees_bytes_max / guildhall_http_kit::TREES_SHARE,
                "{limits:?}: {tree_bytes}"
            );
        }
    }
}
