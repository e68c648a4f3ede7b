//! Bootstrap: requests that clients send before they open a socket.
//!
//! Invariants  answers have every field that a known library needs (docs/protocol/reference.md §12).     Spec
//!             docs/protocol/reference.md §10.2.

use super::{Call, PathParams, interactions::endpoint::Endpoint, small::need_own_application};
use crate::{
    auth::{Caller, Credential},
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form::{self, Parsed},
    permit::ReadPermit,
    state::Api,
    user_policy::SelfService,
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header, uri::Authority},
    response::{IntoResponse, Response},
};
use guildhall_guild::Refusal;
use guildhall_http_kit::FieldError;
use guildhall_media::{PictureRule, hash_of};
use guildhall_model::{
    User,
    from_gateway::{PublicUserBody, SelfUserBody, UserBody},
    name::reserved_in_username,
};
use guildhall_node::is_deleted;
use guildhall_store::PictureOwner;
use serde_json::{Value, json};
use std::{net::IpAddr, sync::Arc};

/// Recommended guilds per shard, as upstream.
const GUILDS_PER_SHARD: usize = 1000;
/// Of user names and display names.
const NAME_CHARS_MAX: usize = 32;

pub(super) const ONLY_BOTS: ApiError = ApiError::coded(StatusCode::FORBIDDEN, 20002, "Only bots can use this endpoint");

const UNKNOWN_URL: ApiError = ApiError::coded(
    StatusCode::MISDIRECTED_REQUEST,
    0,
    "421: This node does not know by which URL clients on other machines reach it: its operator has to set \
     server.public_url, as in \"wss://gateway.example.net\"",
);

/// The gateway's URL for this caller. The header `Host` is only compared: its text, which callers and proxies choose,
/// is in no response.
fn url_for<'a>(api: &'a Api, headers: &HeaderMap) -> Result<&'a str, ApiError> {
    let authority = |url: &str| url.split_once("://").map_or(url, |(_, authority)| authority).parse::<Authority>().ok();
    let host_header = headers.get(header::HOST).and_then(|host| host.to_str().ok()).and_then(authority);
    let is_same = match (host_header, authority(&api.gateway_url)) {
        (Some(host_header), Some(own)) => {
            host_header == own
                || host_header.port_u16().unwrap_or(80) == own.port_u16().unwrap_or(80)
                    && is_loopback(host_header.host())
        }
        // Without the header, the client may have used any name.
        (None, _) => false,
        (_, None) => true,
    };
    if api.is_gateway_url_local && !is_same { Err(UNKNOWN_URL) } else { Ok(&api.gateway_url) }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

pub(super) async fn gateway(State(api): State<Arc<Api>>, headers: HeaderMap) -> Result<Response, ApiError> {
    Ok(Json(json!({"url": url_for(&api, &headers)?})).into_response())
}

pub(super) async fn gateway_bot(
    State(api): State<Arc<Api>>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if !caller.bot {
        return Err(ApiError::Unauthorized);
    }
    let url = url_for(&api, &headers)?;
    let guilds_count = api.node.guilds_of_user(caller.id).await?.len();
    let session_starts = api.session_starts.session_starts(caller.id).await;
    let body = json!({
        "url": url,
        "shards": guilds_count.div_ceil(GUILDS_PER_SHARD).max(1),
        "session_start_limit": session_starts,
    });
    Ok(Json(body).into_response())
}

/// How the node writes the stream of one of the caller's sessions: for the meter of the chat page.
pub(super) async fn own_stream(call: Call) -> Result<Response, ApiError> {
    let Call { api, caller, params } = call;
    let session_id = params.text("session_id");
    let stream = api.own_streams.own_stream(caller.id, session_id).await.ok_or(ApiError::NotFound)?;
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(stream)).into_response())
}

pub(super) async fn own_user(caller: Caller) -> Response {
    Json(SelfUserBody::from(&*caller.0)).into_response()
}

/// Changes the caller's name and pictures. The caller's sessions and guilds get events.
pub(super) async fn update_own_user(
    State(api): State<Arc<Api>>,
    caller: Caller,
    credential: Credential,
    input: JsonRequest,
) -> Result<Response, ApiError> {
    let rule = PictureRule::large(&api.media);
    let input = input.json(&api, ReadPermit::caller(&caller), BodyLimits::PROFILE).await?;
    let (username, global_name, avatar, banner) = input.read(|form| {
        let username = form.optional("username", |v| username(v, &caller));
        let global_name = form.nullable("global_name", display_name);
        Some((username, global_name, form.picture("avatar", rule), form.picture("banner", rule)))
    })?;
    if username.is_some() || global_name.is_some() || avatar.is_some() || banner.is_some() {
        caller.need(&api, SelfService::ChangeNames)?;
    }
    let global_name = global_name.map(|name| name.filter(|name| !name.is_empty()));
    let (avatar_hash, banner_hash) = (hash_of(&avatar), hash_of(&banner));
    let held = api.media.hold_fields(caller.id.get(), PictureOwner::User(caller.id), [avatar, banner]).await?;
    let form = |before: Option<&User>| {
        // A deleted account has no token any more, or gets none that counts.
        let mut user = before.filter(|user| !is_deleted(user)).ok_or(ApiError::Unauthorized)?.clone();
        if let Some(username) = &username {
            user.username.clone_from(username);
        }
        if let Some(global_name) = &global_name {
            user.global_name.clone_from(global_name);
        }
        if let Some(avatar) = &avatar_hash {
            user.avatar = avatar.as_deref().map(String::from);
        }
        if let Some(banner) = &banner_hash {
            user.banner.clone_from(banner);
        }
        Ok(user)
    };
    // Pictures and other changes may have taken a while.
    let (api, credential, user_id) = (&*api, &credential, caller.id);
    let check = || async move {
        credential.need_good(api).await?;
        let deletion = api.node.deletion_of(user_id).await?;
        deletion.map_or(Ok(()), |_| Err(ApiError::Unauthorized))
    };
    let updated = api.node.update_user(user_id, check, form).await;
    let user = held.settled(updated).await?.user;
    Ok(Json(SelfUserBody::from(&*user)).into_response())
}

/// A user name that is not the one of deleted accounts; the words that it must not contain may stay in the one that the
/// account has already.
fn username(value: &Value, user: &User) -> Parsed<String> {
    let name = form::name_of_person(value, 2, NAME_CHARS_MAX)?;
    if name == User::deleted_name(user.id) {
        return Err(FieldError::new("USERNAME_RESERVED", "This name marks deleted accounts: choose another.").into());
    }
    match reserved_in_username(&name) {
        Some(word) if name != user.username => Err(form::reserved(word).into()),
        _ => Ok(name),
    }
}

fn display_name(value: &Value) -> Parsed<String> {
    form::blank_or_name(value, NAME_CHARS_MAX)
}

pub(super) async fn user(State(api): State<Arc<Api>>, _: Caller, params: PathParams) -> Result<Response, ApiError> {
    let user = api.node.user(params.id("user_id")?).await?.ok_or(ApiError::Refused(Refusal::UnknownUser))?;
    Ok(Json(PublicUserBody::from(&*user)).into_response())
}

/// As `application`, by its id.
pub(super) async fn application_by_id(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    need_own_application(&caller, &params)?;
    application(State(api), caller).await
}

/// The application behind a bot: here one per bot, with the bot's id, name and flags.
pub(super) async fn application(State(api): State<Arc<Api>>, caller: Caller) -> Result<Response, ApiError> {
    if !caller.bot {
        return Err(ONLY_BOTS);
    }
    described(&api, &caller).await
}

/// The application of a bot, as it sees it.
pub(super) async fn described(api: &Api, user: &User) -> Result<Response, ApiError> {
    let guilds_count = api.node.guilds_of_user(user.id).await?.len();
    let endpoint = Endpoint::read(api, user.id).await?;
    let body = json!({
        "id": user.id,
        "name": user.username,
        "icon": user.avatar,
        "description": "",
        "summary": "",
        "bot_public": true,
        "bot_require_code_grant": false,
        // Verifies interactions by HTTP.
        "verify_key": api.node.application_key(user.id).public(),
        "flags": user.application_flags,
        "flags_new": user.application_flags.to_string(),
        "owner": UserBody::from(user).for_rest(),
        "bot": UserBody::from(user).for_rest(),
        "team": null,
        "tags": [],
        "redirect_uris": [],
        "interactions_endpoint_url": endpoint.map(|endpoint| endpoint.url),
        "role_connections_verification_url": null,
        "event_webhooks_url": null,
        "event_webhooks_status": 1,
        "integration_types_config": {},
        "hook": true,
        "type": null,
        "explicit_content_filter": 0,
        "eligible_oauth2_scopes": [],
        "approximate_guild_count": guilds_count,
        "approximate_user_install_count": 0,
        "approximate_user_authorization_count": 0,
    });
    Ok(Json(body).into_response())
}
