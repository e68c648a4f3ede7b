//! Input: bodies, queries and paths, with every fault named by its field.
//!
//! Owns        the extractors `Body`, `Query` and `Path`; `Faults`, which collects what is wrong beyond the types.
//! Invariants  fields that nobody knows are faults: a misspelt one would be lost without a word.
//! Limits      `json_bytes_max`, `body_deadline_ms`.

use super::{
    V1,
    error::{FieldError, V1Error},
};
use axum::{
    extract::{FromRequest, FromRequestParts, RawPathParams, Request},
    http::request::Parts,
};
use futures_util::StreamExt as _;
use guildhall_model::Id;
use guildhall_node::KeyLife;
use serde::de::DeserializeOwned;
use std::{sync::Arc, time::Duration};

/// What is wrong with a body, beyond its types.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<FieldError>);

impl Faults {
    pub fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(FieldError { field: field.into(), message: message.into() });
    }

    /// Text of so many characters.
    pub fn text(&mut self, field: &str, text: &str, min: usize, max: usize) {
        let length = text.chars().count();
        if !(min..=max).contains(&length) {
            self.add(field, format!("Must have {min} to {max} characters; it has {length}."));
        }
    }

    /// Text of so many characters, if there is any.
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

    /// So many items.
    pub fn count(&mut self, field: &str, count: usize, min: usize, max: usize) {
        if !(min..=max).contains(&count) {
            self.add(field, format!("Must have {min} to {max} items; it has {count}."));
        }
    }

    pub fn done(self) -> Result<(), V1Error> {
        if self.0.is_empty() { Ok(()) } else { Err(V1Error::invalid(self.0)) }
    }
}

/// What can be checked beyond its types.
pub(crate) trait Check {
    fn check(&self, faults: &mut Faults);
}

/// Reads JSON, and checks it.
pub(crate) fn parse<T: DeserializeOwned + Check>(json: &[u8]) -> Result<T, V1Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let parsed: Result<T, _> = serde_path_to_error::deserialize(&mut reader);
    let parsed = parsed.map_err(|error| {
        let field = error.path().to_string();
        let field = if field == "." { String::new() } else { field };
        let error = error.into_inner();
        match error.classify() {
            serde_json::error::Category::Data => V1Error::field(field, sentence(&error)),
            _ => V1Error::field("", format!("This is not JSON: {error}.")),
        }
    })?;
    reader.end().map_err(|error| V1Error::field("", format!("This is not JSON: {error}.")))?;
    let mut faults = Faults::default();
    parsed.check(&mut faults);
    faults.done()?;
    Ok(parsed)
}

/// The library's words, without the place in the text, which the field says better.
fn sentence(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    format!("{text}.")
}

/// A JSON body.
pub(crate) struct Body<T>(pub T);

impl<T: DeserializeOwned + Check> FromRequest<Arc<V1>> for Body<T> {
    type Rejection = V1Error;

    async fn from_request(request: Request, v1: &Arc<V1>) -> Result<Self, V1Error> {
        let (parts, body) = request.into_parts();
        let life = parts.extensions.get::<KeyLife>().ok_or_else(V1Error::revoked)?;
        Ok(Self(parse(&read_bytes(v1, life, body).await?)?))
    }
}

/// A whole body, within limits. The key is checked when it is there, as it may take a while to arrive.
pub(crate) async fn read_bytes(v1: &V1, life: &KeyLife, body: axum::body::Body) -> Result<Vec<u8>, V1Error> {
    let bytes_max = v1.limits.json_bytes_max;
    let read = async {
        let mut pieces = body.into_data_stream();
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| V1Error::field("", "The body broke off."))?;
            if bytes.len() + piece.len() > bytes_max {
                return Err(V1Error::too_large(bytes_max));
            }
            bytes.extend_from_slice(&piece);
        }
        if life.is_over() { Err(V1Error::revoked()) } else { Ok(bytes) }
    };
    let deadline = Duration::from_millis(v1.limits.body_deadline_ms);
    tokio::time::timeout(deadline, read).await.unwrap_or_else(|_| Err(V1Error::too_slow()))
}

/// The query.
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
        let mut faults = Faults::default();
        parsed.0.check(&mut faults);
        faults.done()?;
        Ok(Self(parsed.0))
    }
}

/// The variable pieces of a path.
pub(crate) struct Path(Vec<(String, String)>);

impl Path {
    pub fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, text)| text)
    }

    /// A piece that is an id.
    pub fn id<T>(&self, name: &str) -> Result<Id<T>, V1Error> {
        let id: Option<Id<T>> = self.text(name).parse().ok();
        id.filter(|id| id.get() > 0)
            .ok_or_else(|| V1Error::field(name, "Must be a snowflake: digits, above 0 and below 2^63."))
    }
}

impl FromRequestParts<Arc<V1>> for Path {
    type Rejection = V1Error;

    async fn from_request_parts(parts: &mut Parts, v1: &Arc<V1>) -> Result<Self, V1Error> {
        // The only way to fail is a piece that is not UTF-8.
        let params = RawPathParams::from_request_parts(parts, v1).await.map_err(|_| V1Error::no_route())?;
        Ok(Self(params.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()))
    }
}
