//! Attachments: new links in place of expired ones.
//!
//! Invariants  A1 the caller gets a link only to a file of a channel whose history it may read now, and only in place
//!             of one that this node signed. (test `s21_7_*` in `guildhall/tests/it/surface/uploads.rs`)
//! Limits      `URLS_MAX` links per request.
//! Spec        upstream: `POST /attachments/refresh-urls`.

use super::messages::may_read_history;
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form,
    permit::ReadPermit,
    state::Api,
};
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

const URLS_MAX: usize = 50;
const URL_CHARS_MAX: usize = 2_048;

pub(super) async fn refresh_urls(
    State(api): State<Arc<Api>>,
    caller: Caller,
    body: JsonRequest,
) -> Result<Response, ApiError> {
    let urls = body.read(&api, ReadPermit::caller(&caller), BodyLimits::FORM, |form| {
        form.required("attachment_urls", |v| form::list(v, 1, URLS_MAX, |v| form::text(v, 1, URL_CHARS_MAX)))
    });
    let urls: Vec<String> = urls.await?;
    let mut may_read = BTreeMap::new();
    let mut refreshed: Vec<Value> = Vec::with_capacity(urls.len());
    for url in urls {
        let renewed = api.media.files().and_then(|files| files.renewed(&url));
        let renewed = match renewed {
            None => None,
            Some((channel_id, renewed)) => {
                let is_readable = match may_read.get(&channel_id) {
                    Some(known) => *known,
                    None => {
                        let answer = match may_read_history(&api, &caller, channel_id).await {
                            Err(ApiError::Refused(_)) => false,
                            answer => answer?,
                        };
                        *may_read.entry(channel_id).or_insert(answer)
                    }
                };
                is_readable.then_some(renewed)
            }
        };
        refreshed.push(json!({ "original": url, "refreshed": renewed }));
    }
    Ok(Json(json!({ "refreshed_urls": refreshed })).into_response())
}
