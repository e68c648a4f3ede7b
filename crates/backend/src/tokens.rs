//! Tokens of accounts: created, listed, revoked.
//!
//! Invariants  T1 once a revocation is answered, no session of the token exists: its sessions were closed with 4004.

use super::{
    V1,
    caller::{Caller, Tokens},
    error::V1Error,
    extract::{Body, Check, FieldErrors, Path},
    types::{AnyId, Snowflake, Time},
};
use axum::{Json, extract::State, http::StatusCode};
use guildhall_model::UserId;
use guildhall_node::{AllRevoked, AuthError, Inspected, TOKEN_BYTES_MAX, TokenFault, TokenKind, is_deleted};
use guildhall_stdx::{Fault as _, Timestamp};
use guildhall_store::TokenHash;
use serde::{Deserialize, Serialize};
use std::{fmt::Write as _, sync::Arc};
use utoipa::ToSchema;

/// Longest validity of a user token: a year.
const TTL_S_MAX: u64 = 366 * 86_400;
const TTL_S: u64 = 30 * 86_400;
const LIST_MAX: u32 = 1_000;

/// Parameters of a new token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewToken {
    /// Validity of a user token in seconds; 30 days if omitted. Bot tokens are valid until they are revoked.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 31622400)]
    ttl_s: Option<u64>,
}

impl Check for NewToken {
    fn check(&self, faults: &mut FieldErrors) {
        let ttl_s = i64::try_from(self.ttl_s.unwrap_or(TTL_S)).unwrap_or(i64::MAX);
        faults.number("ttl_s", ttl_s, 1, TTL_S_MAX as i64);
    }
}

/// A new token, with its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MintedToken {
    /// The token, shown only here.
    token: String,
    /// `bot` or `user`.
    kind: &'static str,
    /// Id for DELETE; only of bot tokens.
    id: Option<String>,
    /// Expiry of a user token. Null for a bot token: it is valid until it is revoked.
    expires_at: Option<Time>,
}

/// A bot token without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TokenBody {
    /// Id for DELETE: the token's SHA-256.
    id: String,
    /// Time of creation.
    created_at: Time,
}

/// Result of a revocation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RevokedBody {
    /// Number of revoked tokens; user tokens of an account are not counted individually.
    revoked: u64,
    /// Number of sessions that were closed with 4004 or discarded.
    closed: u64,
}

fn hex(hash: TokenHash) -> String {
    hash.0.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<TokenHash> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut hash = [0; 32];
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(TokenHash(hash))
}

/// None if the second is past what a timestamp holds.
fn time_of(unix_s: u64) -> Option<Time> {
    i64::try_from(unix_s).ok()?.checked_mul(1_000).map(|ms| Time(Timestamp(ms)))
}

async fn account(v1: &V1, user_id: UserId) -> Result<Arc<guildhall_model::User>, V1Error> {
    v1.in_time(v1.node.user(user_id)).await??.ok_or_else(|| V1Error::not_found("user"))
}

/// The account as it is stored now, unless it was deleted or is being deleted.
async fn living(v1: &V1, user_id: UserId) -> Result<Arc<guildhall_model::User>, V1Error> {
    v1.jobs.need_untouched(v1, user_id).await?;
    let user = v1.in_time(v1.node.store().user(user_id)).await??;
    user.filter(|user| !is_deleted(user)).ok_or_else(|| V1Error::not_found("user"))
}

/// Lists the bot tokens of an account, the first 1,000
#[utoipa::path(get, path = "/v1/users/{user_id}/tokens", tag = "tokens", params(("user_id" = AnyId, Path)),
    responses((status = 200, body = Vec<TokenBody>), (status = 404, body = V1Error)))]
pub(super) async fn list(
    caller: Caller<Tokens>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<Vec<TokenBody>>, V1Error> {
    let user_id = caller.account_in(&v1, &path)?;
    account(&v1, user_id).await?;
    let tokens = v1.in_time(v1.node.store().tokens_of_user(user_id, LIST_MAX)).await??;
    let body = |(hash, record): &(TokenHash, guildhall_store::TokenRecord)| TokenBody {
        id: hex(*hash),
        created_at: Time(record.created_at),
    };
    Ok(Json(tokens.iter().map(body).collect()))
}

/// Mints a token: a bot token for a bot, a user token for a user
#[utoipa::path(post, path = "/v1/users/{user_id}/tokens", tag = "tokens", params(("user_id" = AnyId, Path)),
    request_body = NewToken, responses((status = 201, body = MintedToken), (status = 404, body = V1Error),
        (status = 409, description = "The account is being deleted", body = V1Error)))]
pub(super) async fn mint(
    caller: Caller<Tokens>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<NewToken>,
) -> Result<(StatusCode, Json<MintedToken>), V1Error> {
    let user_id = caller.account_in(&v1, &path)?;
    let user = account(&v1, user_id).await?;
    let new = body.read(&v1, caller.permit_for(&user)).await?;
    let user = living(&v1, user_id).await?;
    let minted = if user.bot {
        if new.ttl_s.is_some() {
            return Err(V1Error::field("ttl_s", "Bot tokens are valid until they are revoked: leave it out."));
        }
        let token = v1.in_time(v1.node.mint_bot_token(user_id)).await??;
        // A deletion that began before the token was stored may not have seen it.
        if let Err(error) = living(&v1, user_id).await {
            v1.in_time(v1.node.revoke_token(TokenHash::of(&token))).await??;
            return Err(error);
        }
        MintedToken { id: Some(hex(TokenHash::of(&token))), token, kind: "bot", expires_at: None }
    } else {
        let (token, expires_at_s) =
            v1.in_time(v1.node.mint_expiring_token(user_id, new.ttl_s.unwrap_or(TTL_S))).await??;
        living(&v1, user_id).await?;
        MintedToken { token, kind: "user", id: None, expires_at: time_of(expires_at_s) }
    };
    Ok((StatusCode::CREATED, Json(minted)))
}

/// Revokes all tokens of an account, and closes its sessions with 4004
pub(super) async fn revoke_user_tokens(v1: &V1, user_id: UserId) -> Result<RevokedBody, V1Error> {
    let AllRevoked { count, closed } = v1.in_time(v1.node.revoke_user_tokens(user_id)).await??;
    Ok(RevokedBody { revoked: count, closed })
}

/// Revokes all tokens of an account
///
/// Its sessions are closed with 4004 at once. Tokens minted afterwards are valid.
#[utoipa::path(delete, path = "/v1/users/{user_id}/tokens", tag = "tokens", params(("user_id" = AnyId, Path)),
    responses((status = 200, body = RevokedBody), (status = 404, body = V1Error)))]
pub(super) async fn revoke_all(
    caller: Caller<Tokens>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<RevokedBody>, V1Error> {
    let user_id = caller.account_in(&v1, &path)?;
    account(&v1, user_id).await?;
    Ok(Json(revoke_user_tokens(&v1, user_id).await?))
}

/// Revokes one bot token by its id
///
/// Sessions that were opened with it are closed with 4004 at once.
#[utoipa::path(delete, path = "/v1/users/{user_id}/tokens/{token_id}", tag = "tokens",
    params(("user_id" = AnyId, Path), ("token_id" = String, Path, description = "64 hexadecimal digits")),
    responses((status = 200, body = RevokedBody), (status = 404, body = V1Error)))]
pub(super) async fn revoke_one(
    caller: Caller<Tokens>,
    State(v1): State<Arc<V1>>,
    path: Path,
) -> Result<Json<RevokedBody>, V1Error> {
    let user_id = caller.account_in(&v1, &path)?;
    let hash = from_hex(path.text("token_id"));
    let hash = hash.ok_or_else(|| V1Error::field("token_id", "Must be 64 hexadecimal digits, as GET lists them."))?;
    let record = v1.in_time(v1.node.store().token(hash)).await??;
    let not_found = || V1Error::not_found("token of this account");
    match record {
        Some(record) if record.user_id == user_id => {
            let revoked = v1.in_time(v1.node.revoke_token(hash)).await??.ok_or_else(not_found)?;
            Ok(Json(RevokedBody { revoked: 1, closed: revoked.closed }))
        }
        Some(_) => Err(not_found()),
        None => {
            // The request may be repeated after one that has not reached all nodes.
            v1.in_time(v1.node.forget_token(hash, user_id)).await??;
            Err(not_found())
        }
    }
}

/// A token as a client sends it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnyToken {
    /// The token, with or without `Bot ` or `Bearer `, up to 4,096 bytes.
    #[schema(min_length = 1, max_length = 4096)]
    token: String,
}

impl Check for AnyToken {
    fn check(&self, faults: &mut FieldErrors) {
        faults.text("token", &self.token, 1, TOKEN_BYTES_MAX);
    }
}

/// Verdict on a token.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InspectedToken)]
pub(super) struct InspectedBody {
    /// Whether REST and the gateway accept it now.
    valid: bool,
    /// `bot`, `user`, or `sign_on` of an issuer of the key set; null if it is refused before that is known.
    kind: Option<&'static str>,
    /// Account of the token; null as above.
    user_id: Option<Snowflake>,
    /// Expiry; null for bot tokens, and as above.
    expires_at: Option<Time>,
    /// Reason of a refusal, for programs: as in `guildhall_tokens_refused_total`.
    reason: Option<&'static str>,
    /// Reason of a refusal and its correction, for people.
    message: Option<String>,
}

impl From<Inspected> for InspectedBody {
    fn from(Inspected { kind, user_id, expires_at_s, fault }: Inspected) -> Self {
        let kind = kind.map(|kind| match kind {
            TokenKind::Bot => "bot",
            TokenKind::User => "user",
            TokenKind::SignOn => "sign_on",
            TokenKind::Hook => "hook",
        });
        Self {
            valid: fault.is_none(),
            kind,
            user_id: user_id.map(Snowflake::from),
            expires_at: expires_at_s.and_then(time_of),
            reason: fault.map(|fault| fault.name()),
            message: fault.map(|fault| format!("{fault}.")),
        }
    }
}

/// A key with accounts may only inspect tokens of these.
async fn look(v1: &V1, caller: &Caller<Tokens>, token: &str) -> Result<Inspected, V1Error> {
    let inspected = v1.in_time(v1.node.inspect_token(token)).await?.map_err(|error| match error {
        // Their keys are being fetched.
        AuthError::KeysComing | AuthError::Busy(_) | AuthError::Invalid(_) => V1Error::unavailable(),
        AuthError::NoLease => V1Error::no_lease(),
        AuthError::Unavailable(error) => error.into(),
    })?;
    if let Some(user_id) = inspected.user_id {
        caller.need_account(v1, user_id)?;
    }
    Ok(inspected)
}

/// Inspects a token: whether it is valid, and if not, why
///
/// Clients only get 401 or 4004. An inspection has no effect and is not counted.
#[utoipa::path(post, path = "/v1/tokens/inspect", tag = "tokens", request_body = AnyToken,
    responses((status = 200, body = InspectedBody)))]
pub(super) async fn inspect(
    caller: Caller<Tokens>,
    State(v1): State<Arc<V1>>,
    body: Body<AnyToken>,
) -> Result<Json<InspectedBody>, V1Error> {
    let input = body.read(&v1, caller.permit()).await?;
    Ok(Json(look(&v1, &caller, input.token.trim()).await?.into()))
}

/// Revokes a token of either kind
///
/// Sessions that were opened with it are closed with 4004 at once.
#[utoipa::path(post, path = "/v1/tokens/revoke", tag = "tokens", request_body = AnyToken,
    responses((status = 200, body = RevokedBody),
              (status = 404, description = "It is not good anyway", body = V1Error)))]
pub(super) async fn revoke(
    caller: Caller<Tokens>,
    State(v1): State<Arc<V1>>,
    body: Body<AnyToken>,
) -> Result<Json<RevokedBody>, V1Error> {
    let input = body.read(&v1, caller.permit()).await?;
    let token = input.token.trim();
    let fault = look(&v1, &caller, token).await?.fault;
    let revoked = v1.in_time(v1.node.revoke_token(token)).await??;
    let revoked = revoked.ok_or_else(|| V1Error::no_token(fault.unwrap_or(TokenFault::Revoked)))?;
    Ok(Json(RevokedBody { revoked: 1, closed: revoked.closed }))
}
