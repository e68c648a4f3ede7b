//! Refusals: why tokens and keys were refused.
//!
//! Owns        the closed sets of reasons, `TokenFault` and `KeyFault`, and the log line of a refusal.
//! Invariants  R2 nothing of a token or key is logged. Counting and the rate of lines: `guildhall_stdx::Refusals`.

use guildhall_stdx::{Fault, Instant, Refusals, faults};

/// Between two log lines of one reason.
pub(crate) const LOG_EVERY_MS: u64 = 5_000;

faults! {
    /// Reason why a token is refused. The texts name the correction, and reveal nothing about the token itself.
    TokenFault of "a token" {
        "missing" Missing "there is no token: send `Authorization: Bot TOKEN`, or the token alone for a user",
        "rate_limited" RateLimited "the address sent too many wrong tokens",
        "too_long" TooLong "the token has more than 4,096 bytes",
        "malformed" Malformed "the token is neither a bot token nor a JWT: both have three parts with dots between",
        "unknown" Unknown "the bot token was revoked, or is not one of this node",
        "revoked" Revoked "the token was revoked, alone or with all others of its account",
        "expired" Expired "the token has ended: its `exp` has passed",
        "not_yet_valid" NotYetValid "the token is not valid yet: its `nbf` is more than 30 seconds ahead of this node's clock",
        "issued_ahead" IssuedAhead "the token's `iat` is more than a minute ahead of this node's clock: compare the clock of the machine that made it with this one's",
        "algorithm" Algorithm "the token's `alg` is not taken: HS256 with this node's secret, or EdDSA or RS256 with a key of the set",
        "unknown_key" UnknownKey "the token names a key (`kid`) that is not in the key set, or there is no key set",
        "signature" Signature "the token's signature does not fit the key: another key, or a changed token",
        "claims" Claims "the token's claims cannot be read: `exp` must be a number, and the claim of the account must be there",
        "issuer" Issuer "the token's `iss` is not auth.jwt_issuer",
        "audience" Audience "the token's `aud` does not contain auth.jwt_audience",
        "subject" Subject "the token's subject claim names no account, and none was made for it: by auth.jwt_subject_kind it is an id (digits, above 0 and below 2^63) or an external id (1 to 128 printable ASCII characters without spaces); see auth.jwt_create_accounts",
        "unknown_account" UnknownAccount "the token is good, but its account does not exist: PUT it below /v1/users first, or see auth.jwt_create_accounts",
        "account_rate" AccountRate "the account would be made now, and auth.jwt_accounts_per_minute_max accounts were: come back later",
        "hook" Hook "the hook of the program around the node refuses the token",
        "hook_unavailable" HookUnavailable "the hook of the program around the node could not check the token in time: come back later",
        "bot_account" BotAccount "the token stands for a bot: bots need a bot token, which POST …/tokens of the account mints",
    }
}

faults! {
    /// Why a key of the backend API is refused.
    KeyFault of "a key" {
        "missing" Missing "there is no key: send `Authorization: Bearer KEY`",
        "unknown" Unknown "the key was revoked, or is not one of this node",
        "rate_limited" RateLimited "the address sent too many wrong keys",
        "scope" Scope "the key does not have the scope that the request needs",
        "account" Account "the key is limited to accounts, and the request is about another one",
    }
}

/// Counts a refusal, and logs it if a line is due.
pub(crate) fn refuse<F: Fault>(refusals: &Refusals<F>, fault: F, now: Instant) {
    if let Some(count) = refusals.note(fault, now) {
        tracing::info!(what = F::WHAT, reason = fault.name(), count, "refused: {fault}");
    }
}
