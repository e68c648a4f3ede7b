//! Routes: every path of the API and its handler.
//!
//! Owns        the router, made from the rows of `table`; a file per resource; `Call`, what most handlers take;
//!             `PathParams`.
//! Invariants  R1 every route passes `crate::middleware`; unknown paths, and methods that a route does not have, get an
//!             answer in JSON. (tests in `tests/it`)
//! Spec        docs/protocol/reference.md §10.2–§10.4.

pub(crate) mod announcements;
mod attachments;
mod auto_moderation;
mod bans;
mod bootstrap;
mod channel_form;
mod channels;
mod commands;
mod community;
mod component_form;
mod directs;
mod embeds;
mod emojis;
mod erased;
mod foreign_webhooks;
mod guilds;
pub(crate) mod interactions;
mod invites;
mod members;
pub(crate) mod message_form;
mod messages;
mod pins;
mod polls;
mod reactions;
mod read_states;
mod relationships;
mod render;
mod roles;
mod scheduled_events;
mod search;
mod settings_proto;
mod small;
mod stages;
mod stickers;
mod table;
mod templates;
mod threads;
mod vanity;
mod voice_states;
mod webhooks;

use crate::{
    auth::Caller,
    error::ApiError,
    form::{self, FieldErrors},
    middleware,
    state::Api,
    unserved::OTHER,
};
use axum::{
    Router,
    extract::{FromRequestParts, RawPathParams, Request, State},
    http::request::Parts,
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
};
use guildhall_model::Id;
use serde_json::Value;
use std::sync::Arc;

pub use table::Route;
pub(crate) use table::{ROUTES, fits};

/// All routes, below the version prefix.
pub(crate) fn router(api: Arc<Api>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let admit = from_fn_with_state((Arc::clone(&api), route), middleware::admit_request);
        router = router.route(route.path, route.methods().route_layer(admit));
    }
    router
        .method_not_allowed_fallback(async |state, request| unrouted(state, request, ApiError::MethodNotAllowed))
        .fallback(async |state, request| unrouted(state, request, ApiError::NotFound))
        .with_state(api)
}

/// Both answers need no token; the limit per peer applies. A method that a path lacks counts as unserved only if
/// upstream has it.
fn unrouted(State(api): State<Arc<Api>>, request: Request, error: ApiError) -> Response {
    match middleware::anonymous(&api, &request) {
        Ok(()) => {
            let (method, path) = (request.method(), request.uri().path());
            if matches!(error, ApiError::MethodNotAllowed) && !api.unserved.is_known(method, path) {
                return error.into_response();
            }
            let route = api.unserved.count(method, path);
            tracing::debug!(method = %request.method(), route = route.unwrap_or(OTHER), "a route that is not served");
            route.map_or(ApiError::NotFound, ApiError::Unserved).into_response()
        }
        Err(refused) => refused.into_response(),
    }
}

/// The variable pieces of a path, percent-decoded.
pub(crate) struct PathParams(Vec<(String, String)>);

impl PathParams {
    /// A path segment as text; empty if the route has none of that name.
    fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, text)| text)
    }

    /// A piece that is an id.
    fn id<T>(&self, name: &str) -> Result<Id<T>, ApiError> {
        form::id(&Value::String(self.text(name).to_owned())).map_err(|faults| {
            let mut tree = FieldErrors::default();
            tree.add(name, faults);
            tree.into()
        })
    }
}

/// The request of an account. One extractor instead of three, because axum compiles extractors into each handler.
pub(crate) struct Call {
    api: Arc<Api>,
    caller: Caller,
    params: PathParams,
}

impl FromRequestParts<Arc<Api>> for Call {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, api).await?;
        let params = PathParams::from_request_parts(parts, api).await?;
        Ok(Self { api: Arc::clone(api), caller, params })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        // It fails only for a segment that is not UTF-8.
        let params = RawPathParams::from_request_parts(parts, state).await.map_err(|_| ApiError::NotFound)?;
        Ok(Self(params.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()))
    }
}
