//! Middleware around all routes: authentication, limits, deadline.
//!
//! Owns        the order of checks: quota for requests, wrong-token limit of the peer, token, limit of the
//!             account, limit of the bucket, share of the account and peer; the deadline of the answer, and its
//!             rate-limit headers.
//! Doors       `admit_request` around all routes, `anonymous` for unknown paths.
//! Invariants  it detaches the body before a handler runs (`crate::body`). It reads and discards the body of a
//!             refused request of a known sender while the answer is sent, so that the sender gets the answer.
//! Spec        docs/protocol/reference.md §10, §10.1.

use crate::{
    auth::{Caller, Credential, request_token},
    body::is_form_data,
    error::ApiError,
    limits::{self, Bucket, Checked},
    routes::{Route, interactions::is_interaction_token},
    state::Api,
};
use axum::{
    extract::{MatchedPath, RawPathParams, Request, State, rejection::RawPathParamsRejection},
    http::{HeaderMap, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use guildhall_http_kit::{
    LISTENER_DRAINS_BYTES, Party, Peer, RequestNote, announced_bytes, detach_body, drain_slot, network,
};
use guildhall_model::{GuildId, User};
use guildhall_node::{AuthError, TokenFault};
use guildhall_stdx::Now;
use std::{net::IpAddr, sync::Arc, time::Duration};

/// Around every route.
pub(crate) async fn admit_request(
    State((api, route)): State<(Arc<Api>, &'static Route)>,
    path: MatchedPath,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let Ok(_permit) = api.in_flight.try_acquire() else {
        return ApiError::Overloaded.into_response();
    };
    let now = api.now();
    let bucket = bucket_of(route, &params);
    request.extensions_mut().insert(route);
    let mut user_write = None;
    let peer = peer_of(&request);
    let (mut account, mut account_id) = (None, None);
    let admitted = if bucket.is_of_peer() {
        admit(api.rates.take_peer(now.instant, peer, bucket), now)
    } else {
        match authenticate(&api, now, peer, request.headers()).await {
            Ok((user, credential)) => {
                let about = params.map_or(0, |params| about(route, &params));
                user_write = (!user.bot && route.is_user_write()).then_some(user.id);
                let admitted = admit_account(&api, now, &user, bucket, about).and_then(|checked| {
                    if user_write.is_some() {
                        admit(api.take(now, user.id, Bucket::UserWrite, 0), now)?;
                    }
                    Ok(checked)
                });
                account = Some(Party::Account(user.id.get()));
                account_id = Some(user.id.get());
                request.extensions_mut().insert(Caller::new(user));
                request.extensions_mut().insert(credential);
                admitted
            }
            Err(error) => Err(Refused { error, now, checked: None }),
        }
    };
    let parties = [account, Some(Party::Peer(network(peer)))];
    let admitted = admitted.and_then(|checked| match api.places.reserve(parties, 1) {
        Ok(place) => Ok((checked, place)),
        Err(over_quota) => Err(Refused { error: over_quota.into(), now, checked }),
    });
    let (has_files, announced) = (is_form_data(request.headers()), announced_bytes(request.headers()));
    let slot = detach_body(&mut request);
    let (mut response, is_known) = match admitted {
        Ok((checked, _place)) => {
            let for_files = if has_files { api.limits.upload_deadline_ms } else { 0 };
            let deadline = Duration::from_millis(api.limits.answer_deadline_ms.saturating_add(for_files));
            let answered = tokio::time::timeout(deadline, next.run(request)).await;
            let mut response = answered.unwrap_or_else(|_| ApiError::Overloaded.into_response());
            if let Some(user_id) = user_write {
                api.charge_event(now, user_id, &response);
            }
            write_headers(&mut response, now, checked);
            (response, account.is_some())
        }
        // A rate-limited webhook is drained as well, so that its sender gets the 429.
        Err(refused) => (refused.into_response(), bucket.is_of_peer() || account.is_some()),
    };
    let is_large = announced.is_some_and(|bytes| bytes > LISTENER_DRAINS_BYTES);
    if is_known && (has_files || is_large) {
        drain_slot(api.limits.multipart_bytes_max, announced, &slot);
    }
    RequestNote::of_account(path, account_id, peer).put(&mut response);
    response
}

/// A refused request, with its rate-limit headers.
pub(crate) struct Refused {
    error: ApiError,
    now: Now,
    checked: Checked,
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = self.error.into_response();
        write_headers(&mut response, self.now, self.checked);
        response
    }
}

/// Counts a request to an unknown path.
pub(crate) fn anonymous(api: &Api, request: &Request) -> Result<(), Refused> {
    let now = api.now();
    admit(api.rates.take_peer(now.instant, peer_of(request), Bucket::Anonymous), now).map(|_| ())
}

/// The account of a request that may have a token, within its limits; none without one.
pub(crate) async fn optional_account(
    api: &Api,
    peer: IpAddr,
    headers: &HeaderMap,
) -> Result<Option<Arc<User>>, Refused> {
    if !headers.contains_key(header::AUTHORIZATION) {
        return Ok(None);
    }
    let now = api.now();
    let (user, _) =
        authenticate(api, now, peer, headers).await.map_err(|error| Refused { error, now, checked: None })?;
    admit_account(api, now, &user, Bucket::Read, 0)?;
    Ok(Some(user))
}

async fn authenticate(
    api: &Api,
    now: Now,
    peer: IpAddr,
    headers: &HeaderMap,
) -> Result<(Arc<User>, Credential), ApiError> {
    // Before the token is looked up: guessing must not cost the store anything.
    if let Some((_, refusal)) = api.rates.peer_refusal(now.instant, peer, Bucket::InvalidToken) {
        api.node.count_refused_token(TokenFault::RateLimited);
        return Err(ApiError::RateLimited { retry_after_ms: refusal.reset_after_ms, is_global: false });
    }
    let result = match request_token(headers) {
        Ok(token) => Credential::check(api, token).await,
        Err(fault) => {
            api.node.count_refused_token(fault);
            Err(fault.into())
        }
    };
    match result {
        Ok(checked) => Ok(checked),
        Err(AuthError::Invalid(_)) => {
            api.rates.take_peer(now.instant, peer, Bucket::InvalidToken);
            Err(ApiError::Unauthorized)
        }
        Err(AuthError::Unavailable(error)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a token could not be checked");
            Err(ApiError::Overloaded)
        }
        Err(AuthError::NoLease) => Err(ApiError::NoLease),
        Err(AuthError::KeysComing | AuthError::Busy(TokenFault::HookUnavailable)) => {
            // The token may be invented.
            api.rates.take_peer(now.instant, peer, Bucket::InvalidToken);
            Err(ApiError::Overloaded)
        }
        Err(AuthError::Busy(_)) => Err(ApiError::Overloaded),
    }
}

/// Counts a request against the global limit of the account, and its bucket.
fn admit_account(api: &Api, now: Now, user: &User, bucket: Bucket, about: u64) -> Result<Checked, Refused> {
    if let Some((_, verdict)) = api.take(now, user.id, Bucket::Global, 0)
        && !verdict.admitted
    {
        let error = ApiError::RateLimited { retry_after_ms: verdict.reset_after_ms, is_global: true };
        return Err(Refused { error, now, checked: None });
    }
    admit(api.take(now, user.id, bucket, about), now)
}

/// The verdict if the request may go on.
fn admit(checked: Checked, now: Now) -> Result<Checked, Refused> {
    match checked {
        Some((_, verdict)) if !verdict.admitted => {
            let error = ApiError::RateLimited { retry_after_ms: verdict.reset_after_ms, is_global: false };
            Err(Refused { error, now, checked })
        }
        _ => Ok(checked),
    }
}

fn write_headers(response: &mut Response, now: Now, checked: Checked) {
    if let Some((bucket, verdict)) = checked {
        limits::write_headers(response.headers_mut(), now, bucket, verdict);
    }
}

fn peer_of(request: &Request) -> IpAddr {
    Peer::address_in(request.extensions())
}

/// The bucket of a request: paths of webhooks with the token of an interaction are not of a webhook.
fn bucket_of(route: &Route, params: &Result<RawPathParams, RawPathParamsRejection>) -> Bucket {
    let is_token = |(name, text): (&str, &str)| name == "webhook_token" && is_interaction_token(text);
    match params {
        Ok(params) if route.bucket == Bucket::Webhook && params.iter().any(is_token) => Bucket::Interaction,
        _ => route.bucket,
    }
}

/// The channel or guild at the head of the path, which buckets are further keyed by; 0 when there is none.
fn about(route: &Route, params: &RawPathParams) -> u64 {
    if !route.path.starts_with("/channels/") && !route.path.starts_with("/guilds/") {
        return 0;
    }
    params.iter().next().and_then(|(_, text)| text.parse().ok()).map_or(0, GuildId::get)
}
