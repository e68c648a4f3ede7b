//! Routes: every path of the API and its handler.
//!
//! Owns        the table, a file per resource; `Call`, what most handlers take; `PathParams`.
//! Invariants  R1 every route passes `crate::middleware`; unknown paths, and methods that a route does not have, get an
//!             answer in JSON. (tests in `tests/it`)
//! Spec        docs/protocol/reference.md §10.2–§10.4.

mod attachments;
mod bans;
mod bootstrap;
mod channel_form;
mod channels;
mod commands;
mod directs;
mod embeds;
mod emojis;
mod erased;
mod guilds;
mod invites;
mod members;
mod message_form;
mod messages;
mod pins;
mod reactions;
mod render;
mod roles;
mod scheduled_events;
mod settings_proto;
mod small;
mod stages;
mod stickers;
mod threads;
mod voice_states;
mod webhooks;

use crate::{
    auth::Caller,
    error::ApiError,
    form::{self, FieldErrors},
    middleware,
    state::Api,
    unserved::{OTHER, Unserved},
};
use axum::{
    Router,
    extract::{FromRequestParts, RawPathParams, Request, State},
    http::request::Parts,
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
};
use erased::{Table, delete, get, patch, post, put};
use guildhall_model::Id;
use serde_json::Value;
use std::sync::Arc;

/// All routes, below the version prefix.
pub(crate) fn routes(api: Arc<Api>) -> Router {
    let channel = Table::new()
        .route("/channels/{channel_id}", get(channels::read).patch(channels::update).delete(channels::delete))
        .route(
            "/channels/{channel_id}/permissions/{overwrite_id}",
            put(channels::put_overwrite).delete(channels::delete_overwrite),
        )
        .route("/channels/{channel_id}/typing", post(channels::start_typing))
        .route("/channels/{channel_id}/threads", post(threads::create))
        .route("/channels/{channel_id}/messages/{message_id}/threads", post(threads::create_from_message))
        .route("/channels/{channel_id}/threads/archived/public", get(threads::archived_public))
        .route("/channels/{channel_id}/threads/archived/private", get(threads::archived_private))
        .route("/channels/{channel_id}/users/@me/threads/archived/private", get(threads::archived_own))
        .route("/channels/{channel_id}/thread-members", get(threads::list_members))
        .route(
            "/channels/{channel_id}/thread-members/{user_id}",
            get(threads::read_member).put(threads::add_member).delete(threads::remove_member),
        )
        .route("/channels/{channel_id}/invites", get(invites::of_channel).post(invites::create))
        .route("/channels/{channel_id}/webhooks", get(webhooks::of_channel).post(webhooks::create))
        .route(
            "/channels/{channel_id}/recipients/{user_id}",
            put(directs::add_recipient).delete(directs::remove_recipient),
        )
        .route("/channels/{channel_id}/pins", get(pins::list))
        .route("/channels/{channel_id}/pins/{message_id}", put(pins::add).delete(pins::remove))
        .route("/channels/{channel_id}/messages/pins", get(pins::page))
        .route("/channels/{channel_id}/messages/pins/{message_id}", put(pins::add).delete(pins::remove))
        .route("/channels/{channel_id}/messages", get(messages::list).post(messages::create))
        .route("/channels/{channel_id}/messages/bulk-delete", post(messages::bulk_delete))
        .route(
            "/channels/{channel_id}/messages/{message_id}",
            get(messages::read).patch(messages::edit).delete(messages::delete),
        )
        .route("/channels/{channel_id}/messages/{message_id}/reactions", delete(reactions::clear))
        .route(
            "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}",
            get(reactions::users).delete(reactions::clear_emoji),
        )
        .route(
            "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}/@me",
            put(reactions::add).delete(reactions::remove_own),
        )
        .route("/channels/{channel_id}/messages/{message_id}/reactions/{emoji}/{user_id}", delete(reactions::remove));
    let guild = Table::new()
        .route("/guilds", post(guilds::create))
        .route("/guilds/{guild_id}", get(guilds::read).patch(guilds::update).delete(guilds::delete))
        .route("/guilds/{guild_id}/channels", get(channels::list).post(channels::create).patch(channels::move_all))
        .route("/guilds/{guild_id}/threads/active", get(threads::active))
        .route("/guilds/{guild_id}/roles", get(roles::list).post(roles::create).patch(roles::move_all))
        .route("/guilds/{guild_id}/roles/member-counts", get(small::role_member_counts))
        .route("/guilds/{guild_id}/regions", get(small::guild_voice_regions))
        .route("/guilds/{guild_id}/integrations", get(small::integrations))
        .route("/guilds/{guild_id}/roles/{role_id}", get(roles::read).patch(roles::update).delete(roles::delete))
        .route("/guilds/{guild_id}/members", get(members::list))
        .route("/guilds/{guild_id}/members/search", get(members::search))
        .route("/guilds/{guild_id}/members/@me", patch(members::update_own))
        .route(
            "/guilds/{guild_id}/members/{user_id}",
            get(members::read).put(bans::join).patch(members::update).delete(members::remove),
        )
        .route("/guilds/{guild_id}/emojis", get(emojis::list).post(emojis::create))
        .route("/guilds/{guild_id}/emojis/{emoji_id}", get(emojis::read).patch(emojis::update).delete(emojis::delete))
        .route("/guilds/{guild_id}/stickers", get(stickers::list).post(stickers::create))
        .route(
            "/guilds/{guild_id}/stickers/{sticker_id}",
            get(stickers::read).patch(stickers::update).delete(stickers::delete),
        )
        .route("/guilds/{guild_id}/scheduled-events", get(scheduled_events::list).post(scheduled_events::create))
        .route(
            "/guilds/{guild_id}/scheduled-events/{event_id}",
            get(scheduled_events::read).patch(scheduled_events::update).delete(scheduled_events::delete),
        )
        .route("/guilds/{guild_id}/scheduled-events/{event_id}/users", get(scheduled_events::list_followers))
        .route(
            "/guilds/{guild_id}/scheduled-events/{event_id}/users/@me",
            put(scheduled_events::follow).delete(scheduled_events::unfollow),
        )
        .route("/guilds/{guild_id}/voice-states/{user_id}", get(voice_states::read).patch(voice_states::update))
        .route("/guilds/{guild_id}/audit-logs", get(guilds::audit_log))
        .route("/guilds/{guild_id}/bans", get(bans::list))
        .route("/guilds/{guild_id}/bans/{user_id}", get(bans::read).put(bans::put).delete(bans::remove))
        .route("/guilds/{guild_id}/bulk-ban", post(bans::bulk))
        .route("/guilds/{guild_id}/prune", get(bans::count_prune).post(bans::prune))
        .route("/guilds/{guild_id}/invites", get(invites::of_guild))
        .route("/guilds/{guild_id}/webhooks", get(webhooks::of_guild))
        .route(
            "/guilds/{guild_id}/members/{user_id}/roles/{role_id}",
            put(members::add_role).delete(members::remove_role),
        );
    let account = Table::new()
        .route("/gateway", get(bootstrap::gateway))
        .route("/attachments/refresh-urls", post(attachments::refresh_urls))
        .route("/voice/regions", get(small::voice_regions))
        .route("/sticker-packs", get(small::sticker_packs))
        .route("/soundboard-default-sounds", get(small::default_sounds))
        .route("/gateway/bot", get(bootstrap::gateway_bot))
        .route("/users/@me", get(bootstrap::own_user).patch(bootstrap::update_own_user))
        .route("/users/@me/sessions/{session_id}/stream", get(bootstrap::own_stream))
        .route("/users/@me/settings-proto/{kind}", get(settings_proto::read).patch(settings_proto::update))
        .route("/users/@me/channels", get(directs::list).post(directs::open))
        .route("/users/@me/guilds", get(guilds::list_own))
        .route("/users/@me/guilds/{guild_id}", delete(members::leave))
        .route("/users/@me/guilds/{guild_id}/member", get(members::read_own))
        .route("/users/{user_id}", get(bootstrap::user))
        .route("/applications/@me", get(bootstrap::application))
        .route("/oauth2/applications/@me", get(bootstrap::application))
        .route(
            "/applications/{application_id}/commands",
            get(commands::list).put(commands::replace).post(commands::create),
        )
        .route(
            "/applications/{application_id}/commands/{command_id}",
            get(commands::read).patch(commands::update).delete(commands::delete),
        )
        .route(
            "/applications/{application_id}/guilds/{guild_id}/commands",
            get(commands::list).put(commands::replace).post(commands::create),
        )
        .route("/applications/{application_id}/guilds/{guild_id}/commands/permissions", get(commands::list_permissions))
        .route(
            "/applications/{application_id}/guilds/{guild_id}/commands/{command_id}",
            get(commands::read).patch(commands::update).delete(commands::delete),
        );
    let codes = Table::new()
        .route("/stage-instances", post(stages::create))
        .route("/stage-instances/{channel_id}", get(stages::read).patch(stages::update).delete(stages::delete))
        .route("/invites/{code}", get(invites::read).post(invites::accept).delete(invites::delete))
        .route("/webhooks/{webhook_id}", get(webhooks::read).patch(webhooks::update).delete(webhooks::delete))
        .route(
            "/webhooks/{webhook_id}/{webhook_token}",
            get(webhooks::read_by_token)
                .patch(webhooks::update_by_token)
                .delete(webhooks::delete_by_token)
                .post(webhooks::execute),
        )
        .route(
            "/webhooks/{webhook_id}/{webhook_token}/messages/{message_id}",
            get(webhooks::read_message).patch(webhooks::edit_message).delete(webhooks::delete_message),
        );
    channel
        .merge(guild)
        .merge(account)
        .merge(codes)
        .router()
        .route_layer(from_fn_with_state(Arc::clone(&api), middleware::admit_request))
        .method_not_allowed_fallback(async |state, request| unrouted(state, request, ApiError::MethodNotAllowed))
        .fallback(async |state, request| unrouted(state, request, ApiError::NotFound))
        .with_state(api)
}

/// Both answers need no token; the limit per peer applies. A method that a route lacks counts as unserved only if
/// upstream has another route with that path.
fn unrouted(State(api): State<Arc<Api>>, request: Request, error: ApiError) -> Response {
    match middleware::anonymous(&api, &request) {
        Ok(()) => {
            let path = request.uri().path();
            if matches!(error, ApiError::MethodNotAllowed) && !Unserved::is_known(path) {
                return error.into_response();
            }
            let route = api.unserved.count(path);
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
