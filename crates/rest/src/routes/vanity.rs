//! Vanity URLs: a code of a guild's own choice that works as an invite.
//!
//! Owns        a record of the store per code, which names the guild that claimed it: `RECORDS`.
//! Invariants  V1 two guilds never have the same code: a guild gets one only after its claim was stored, and a claim of
//!             another guild is taken over only if that guild does not use it. (test `v1_*` of `guildhall`)
//! Limits      one code per guild. `CLAIM_MS`: a claim that its guild does not use any more, such as that of a deleted
//!             guild, is free after this time.
//! Not here    the invite itself and its uses: `guildhall-guild`.     Spec  docs/protocol/choices.md "Community".

use super::{
    Call,
    guilds::{guild_of_path, need},
};
use crate::{
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form::{self, FieldError, Parsed},
    permit::ReadPermit,
    state::Api,
    user_policy::SelfService,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Actor, GuildPatch, Refusal, request};
use guildhall_model::{GuildId, Permissions};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Kind of the records.
const RECORDS: &str = "vanity_url";
const CODE_CHARS_MIN: usize = 2;
const CODE_CHARS_MAX: usize = 32;
/// Longer than a request takes from its claim to the change of its guild.
const CLAIM_MS: i64 = 600_000;
/// Attempts to replace a record that others change at the same time.
const ATTEMPTS_MAX: usize = 4;

/// A guild's claim of a code.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Claim {
    guild_id: GuildId,
    claimed_at: Timestamp,
}

impl Claim {
    fn parse(record: &[u8]) -> Result<Self, ApiError> {
        serde_json::from_slice(record).map_err(|_| ApiError::Bug("a claim that can be read"))
    }

    fn bytes(self) -> Result<Vec<u8>, ApiError> {
        serde_json::to_vec(&self).map_err(|_| ApiError::Bug("a claim that encodes"))
    }
}

/// A code as it is stored, whatever its case in a path. None: it cannot be one.
pub(super) fn code_of(text: &str) -> Option<Box<str>> {
    let is_valid = (CODE_CHARS_MIN..=CODE_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    is_valid.then(|| text.to_ascii_lowercase().into())
}

/// The guild that claimed a code. Whether it uses it, the guild knows.
pub(super) async fn guild_of(api: &Api, code: &str) -> Result<Option<GuildId>, ApiError> {
    let record = api.node.store().record(RECORDS, code.as_bytes()).await?;
    record.map(|record| Ok(Claim::parse(&record)?.guild_id)).transpose()
}

/// Whether the guild of a claim does not use the code.
async fn is_free(api: &Api, claim: Claim, code: &str) -> Result<bool, ApiError> {
    if api.now().unix.0 - claim.claimed_at.0 < CLAIM_MS {
        return Ok(false);
    }
    match api.node.command(claim.guild_id, Actor::System, request::ReadVanityInvite(code.into())).await {
        Ok(_) => Ok(false),
        Err(Refusal::UnknownInvite | Refusal::UnknownGuild) => Ok(true),
        Err(other) => Err(other.into()),
    }
}

async fn claim(api: &Api, guild_id: GuildId, code: &str) -> Result<(), ApiError> {
    let new = Claim { guild_id, claimed_at: api.now().unix }.bytes()?;
    for _ in 0..ATTEMPTS_MAX {
        let before = api.node.store().record(RECORDS, code.as_bytes()).await?;
        if let Some(before) = &before {
            let claim = Claim::parse(before)?;
            if claim.guild_id != guild_id && !is_free(api, claim, code).await? {
                return Err(taken());
            }
        }
        if api.node.store().swap_record(RECORDS, code.as_bytes(), before.as_deref(), Some(&new)).await? {
            return Ok(());
        }
    }
    Err(ApiError::Overloaded)
}

/// Gives a code back that the guild does not use any more. Otherwise it is free after `CLAIM_MS`.
async fn release(api: &Api, guild_id: GuildId, code: &str) -> Result<(), ApiError> {
    let before = api.node.store().record(RECORDS, code.as_bytes()).await?;
    if let Some(before) = before.filter(|before| Claim::parse(before).is_ok_and(|claim| claim.guild_id == guild_id)) {
        api.node.store().swap_record(RECORDS, code.as_bytes(), Some(&before), None).await?;
    }
    Ok(())
}

fn taken() -> ApiError {
    ApiError::coded(StatusCode::BAD_REQUEST, 50020, "Invite code is either invalid or taken.")
}

fn body(code: Option<&str>, uses: u32) -> Response {
    Json(json!({"code": code, "uses": uses})).into_response()
}

/// The uses of the guild's code, which may have been changed since it was read.
async fn uses(api: &Api, guild_id: GuildId, code: &str) -> Result<u32, ApiError> {
    match api.node.command(guild_id, Actor::System, request::ReadVanityInvite(code.into())).await {
        Ok(reply) => Ok(reply.invite.uses),
        Err(Refusal::UnknownInvite) => Ok(0),
        Err(other) => Err(other.into()),
    }
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let guild = guild_of_path(&api, &caller, &params).await?;
    need(&guild, Permissions::MANAGE_GUILD)?;
    match guild.structure.guild.vanity_url_code.as_deref() {
        Some(code) => Ok(body(Some(code), uses(&api, guild.structure.id(), code).await?)),
        None => Ok(body(None, 0)),
    }
}

/// An empty text means no code, as null does.
fn code(value: &Value) -> Parsed<Option<Box<str>>> {
    let text = form::text(value, 0, CODE_CHARS_MAX)?;
    if text.is_empty() {
        return Ok(None);
    }
    let message = "A code has 2 to 32 letters, digits and hyphens, and no hyphen at its ends.";
    code_of(&text).map(Some).ok_or_else(|| FieldError::new("INVALID_VALUE", message).into())
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    caller.need(&api, SelfService::CreateInvites)?;
    let guild = guild_of_path(&api, &caller, &params).await?;
    need(&guild, Permissions::MANAGE_GUILD)?;
    let permit = ReadPermit::read_guild(&caller, &guild);
    let code =
        input.read(&api, permit, BodyLimits::FORM, |form| Some(form.nullable("code", code).map(Option::flatten)));
    let (guild_id, before) = (guild.structure.id(), guild.structure.guild.vanity_url_code.as_deref());
    let code = match code.await? {
        Some(code) if code.as_deref() != before => code,
        // Nothing changes.
        _ => return read(Call { api, caller, params }).await,
    };
    if let Some(code) = &code {
        claim(&api, guild_id, code).await?;
    }
    let patch = GuildPatch { vanity_url_code: Some(code.clone()), ..GuildPatch::default() };
    let updated = api.request(&caller, guild_id, request::UpdateGuild(Box::new(patch))).await;
    let gone = match &updated {
        Ok(_) => before,
        // The guild has changed nothing.
        Err(ApiError::Refused(_)) => code.as_deref(),
        Err(_) => None,
    };
    if let Some(gone) = gone {
        release(&api, guild_id, gone).await?;
    }
    updated?;
    Ok(body(code.as_deref(), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_short_and_plain() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(code_of(text).as_deref(), expected, "{text}");
        check("ok", Some("ok"));
        check("Our-Guild1", Some("our-guild1"));
        check(&"a".repeat(32), Some(&"a".repeat(32)));
        for text in ["", "a", "-ab", "ab-", "a b", "a/b", "ümlaut", &"a".repeat(33)] {
            check(text, None);
        }
    }
}
