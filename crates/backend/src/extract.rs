//! Input: bodies, queries and paths, with every fault named by its field.
//!
//! Owns        the extractors `Body`, `Changes`, `Query` and `Path`; `FieldErrors`, which collects faults beyond the
//!             types.
//! Invariants  unknown fields are faults: otherwise a misspelt one would be ignored silently. An array is not accepted
//!             as an object. Reading a body needs a `ReadPermit`.
//! Limits      `OBJECT_BYTES_MAX` and `OBJECT_VALUES_MAX` for objects, `json_bytes_max` for batches,
//!             `body_deadline_ms`.

use super::{
    V1,
    dto::Patch,
    error::{FieldError, V1Error},
    external,
    strict::Strict,
    wording::{not_json, not_of_type},
};
use crate::permit::ReadPermit;
use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use guildhall_http_kit::{BodyFault, LazyBody, Reservation, parse_tree};
use guildhall_model::{Id, name};
use guildhall_node::KeyLife;
use guildhall_stdx::replace_surrogate_halves;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::{marker::PhantomData, sync::Arc};

/// Faults of a body, beyond its types.
#[derive(Debug, Default)]
pub(crate) struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    pub fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(FieldError { field: field.into(), message: message.into() });
    }

    /// Checks a text's length in characters.
    pub fn text(&mut self, field: &str, text: &str, min: usize, max: usize) {
        let length = text.chars().count();
        if !(min..=max).contains(&length) {
            self.add(field, format!("Must have {min} to {max} characters; it has {length}."));
        }
    }

    /// Checks a name: its length in characters once it is cleaned, and that it is not blank.
    pub fn name(&mut self, field: &str, name: &str, min: usize, max: usize) {
        let name = name::cleaned(name);
        if min > 0 && name::is_blank(&name) {
            self.add(field, "Must have a visible character.");
        } else {
            self.text(field, &name, min, max);
        }
    }

    /// Checks the length of a text in characters, if there is one.
    pub fn optional_text(&mut self, field: &str, text: Option<&str>, max: usize) {
        if let Some(text) = text {
            self.text(field, text, 0, max);
        }
    }

    /// A number within bounds.
    pub fn number(&mut self, field: &str, number: i64, min: i64, max: i64) {
        if !(min..=max).contains(&number) {
            self.add(field, format!("Must be {min} to {max}."));
        }
    }

    /// Checks a number of items.
    pub fn count(&mut self, field: &str, count: usize, min: usize, max: usize) {
        if !(min..=max).contains(&count) {
            self.add(field, format!("Must have {min} to {max} items; it has {count}."));
        }
    }

    pub fn done(self) -> Result<(), V1Error> {
        if self.0.is_empty() { Ok(()) } else { Err(V1Error::invalid(self.0)) }
    }
}

/// Checks beyond the types.
pub(crate) trait Check {
    fn check(&self, faults: &mut FieldErrors);
}

/// Reads JSON, and checks it. Half a surrogate pair becomes U+FFFD; only a text that was refused is searched for one.
pub(crate) fn parse<T: DeserializeOwned + Check>(json: &[u8]) -> Result<T, V1Error> {
    let parsed = match typed(json) {
        Ok(parsed) => parsed,
        Err(error) => {
            let mut copy = json.to_vec();
            if !replace_surrogate_halves(&mut copy) {
                return Err(error);
            }
            typed::<T>(&copy)?
        }
    };
    let mut faults = FieldErrors::default();
    parsed.check(&mut faults);
    faults.done()?;
    Ok(parsed)
}

fn typed<T: DeserializeOwned>(json: &[u8]) -> Result<T, V1Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let parsed: Result<T, _> = serde_path_to_error::deserialize(Strict(&mut reader));
    let parsed = parsed.map_err(|error| {
        let field = error.path().to_string();
        let field = if field == "." { String::new() } else { field };
        let error = error.into_inner();
        match error.classify() {
            serde_json::error::Category::Data => not_of_type(field, &error),
            _ => not_json(json, &error),
        }
    })?;
    reader.end().map_err(|error| not_json(json, &error))?;
    Ok(parsed)
}

/// Longest body of one object: a channel with 1,000 overwrites.
const OBJECT_BYTES_MAX: usize = 256 << 10;
/// Most JSON values in the changes to one object.
const OBJECT_VALUES_MAX: usize = 8_192;

fn object_bytes_max(v1: &V1) -> usize {
    OBJECT_BYTES_MAX.min(v1.limits.json_bytes_max)
}

/// A JSON body before it is read.
pub(crate) struct Body<T>(Arriving, PhantomData<fn() -> T>);

impl<T> FromRequestParts<Arc<V1>> for Body<T> {
    type Rejection = V1Error;

    async fn from_request_parts(parts: &mut Parts, v1: &Arc<V1>) -> Result<Self, V1Error> {
        Ok(Self(Arriving::from_request_parts(parts, v1).await?, PhantomData))
    }
}

impl<T: DeserializeOwned + Check> Body<T> {
    pub async fn read(self, v1: &V1, permit: ReadPermit) -> Result<T, V1Error> {
        let (bytes, _reservation) = self.0.bytes(v1, permit, object_bytes_max(v1)).await?;
        parse(&bytes)
    }
}

/// Changes to an object before they are read.
pub(crate) struct Changes(Arriving);

impl FromRequestParts<Arc<V1>> for Changes {
    type Rejection = V1Error;

    async fn from_request_parts(parts: &mut Parts, v1: &Arc<V1>) -> Result<Self, V1Error> {
        Arriving::from_request_parts(parts, v1).await.map(Self)
    }
}

impl Changes {
    pub async fn read(self, v1: &V1, permit: ReadPermit) -> Result<Patch, V1Error> {
        let peer = self.0.lazy.peer();
        let (mut bytes, _reservation) = self.0.bytes(v1, permit, object_bytes_max(v1)).await?;
        match parse_tree(&mut bytes, permit, peer, &v1.body_quotas, OBJECT_VALUES_MAX) {
            Ok((Value::Object(fields), reservation)) => Ok(Patch::new(fields, reservation)),
            // The parser of forms words the fault. It accepts any depth in a value that it ignores.
            Ok(_) | Err(BodyFault::Malformed) => Err(parse::<NoFields>(&bytes).err().unwrap_or_else(V1Error::too_deep)),
            Err(fault) => Err(fault.into()),
        }
    }
}

/// A form that ignores all fields.
#[derive(Deserialize)]
struct NoFields {}

impl Check for NoFields {
    fn check(&self, _: &mut FieldErrors) {}
}

/// An unread body, with the life of the key that sends it.
pub(crate) struct Arriving {
    pub lazy: LazyBody,
    pub life: KeyLife,
}

impl FromRequestParts<Arc<V1>> for Arriving {
    type Rejection = V1Error;

    async fn from_request_parts(parts: &mut Parts, v1: &Arc<V1>) -> Result<Self, V1Error> {
        let life = parts.extensions.get::<KeyLife>().cloned().ok_or_else(V1Error::revoked)?;
        let lazy = match LazyBody::from_request_parts(parts, v1).await {
            Ok(lazy) => lazy,
            Err(never) => match never {},
        };
        Ok(Self { lazy, life })
    }
}

impl Arriving {
    /// The whole body, within limits. A body may take a while to arrive, so its key is checked again afterwards.
    pub async fn bytes(self, v1: &V1, permit: ReadPermit, bytes_max: usize) -> Result<(Vec<u8>, Reservation), V1Error> {
        let read = self.lazy.bytes(permit, &v1.body_quotas, bytes_max, v1.limits.body_deadline_ms).await?;
        if self.life.is_over() { Err(V1Error::revoked()) } else { Ok(read) }
    }
}

/// Query parameters.
pub(crate) struct Query<T>(pub T);

impl<T: DeserializeOwned + Check> FromRequestParts<Arc<V1>> for Query<T> {
    type Rejection = V1Error;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<V1>) -> Result<Self, V1Error> {
        let parsed = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        let parsed = parsed.map_err(|error| {
            let text = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            match text.split_once(": ") {
                Some((field, message)) if !field.contains(' ') => V1Error::field(field, format!("{message}.")),
                _ => V1Error::field("", format!("{text}.")),
            }
        })?;
        let mut faults = FieldErrors::default();
        parsed.0.check(&mut faults);
        faults.done()?;
        Ok(Self(parsed.0))
    }
}

/// The variable pieces of a path.
pub(crate) struct Path(Vec<Piece>);

struct Piece {
    name: String,
    text: String,
    /// The external id after `ext:`, and the id of its object if there is one.
    external: Option<(String, Option<u64>)>,
}

impl Path {
    fn piece(&self, name: &str) -> Option<&Piece> {
        self.0.iter().find(|piece| piece.name == name)
    }

    pub fn text(&self, name: &str) -> &str {
        self.piece(name).map_or("", |piece| &piece.text)
    }

    /// The external id of an object that does not exist yet.
    pub fn new_external_id(&self, name: &str) -> Option<&str> {
        match &self.piece(name)?.external {
            Some((text, None)) => Some(text),
            _ => None,
        }
    }

    /// A piece that is an id, or the external id of an object.
    pub fn id<T>(&self, name: &str) -> Result<Id<T>, V1Error> {
        let external = self.piece(name).and_then(|piece| piece.external.as_ref());
        match (external, external::kind_of(name)) {
            (Some((_, Some(id))), _) => return Ok(Id::new(*id)),
            (Some((text, None)), Some(kind)) => return Err(external::unknown(kind, text)),
            _ => {}
        }
        let id: Option<Id<T>> = self.text(name).parse().ok();
        id.filter(|id| id.get() > 0)
            .ok_or_else(|| V1Error::field(name, "Must be a snowflake: digits, above 0 and below 2^63."))
    }
}

impl FromRequestParts<Arc<V1>> for Path {
    type Rejection = V1Error;

    async fn from_request_parts(parts: &mut Parts, v1: &Arc<V1>) -> Result<Self, V1Error> {
        // It fails only for a segment that is not UTF-8.
        let params = RawPathParams::from_request_parts(parts, v1).await.map_err(|_| V1Error::no_route())?;
        let params: Vec<_> = params.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        let mut pieces = Vec::with_capacity(params.len());
        for (name, text) in params {
            let external = match text.strip_prefix(external::PREFIX) {
                Some(behind) => Some((behind.to_owned(), external::resolve(v1, &name, behind).await?)),
                None => None,
            };
            pieces.push(Piece { name, text, external });
        }
        Ok(Self(pieces))
    }
}
