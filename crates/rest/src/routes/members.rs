//! Members: reading, searching, changing, removing.
//!
//! Limits      pages of 1000. A search reads a snapshot of all members on a thread of its own; how many run at the
//!             same time is in `ApiLimits`.
//!             Spec  docs/protocol/reference.md §4.2, §10.4.

use super::Call;
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest, Query},
    error::ApiError,
    form::{self, Form, Parsed},
    permit::ReadPermit,
    state::Api,
    user_policy::SelfService,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{MemberPatch, request};
use guildhall_guild_protocol::MemberTable;
use guildhall_media::{PictureRule, hash_of};
use guildhall_model::{GuildId, Member, User, UserId, from_gateway::MemberBody};
use guildhall_store::PictureOwner;
use serde_json::Value;
use std::sync::Arc;

const PAGE_MAX: i64 = 1000;
const NICK_CHARS_MAX: usize = 32;
const ROLES_MAX: usize = 250;
const QUERY_CHARS_MAX: usize = 100;

async fn member(api: &Api, caller: &Caller, guild_id: GuildId, user_id: UserId) -> Result<Response, ApiError> {
    let member = api.request(caller, guild_id, request::ReadMember(user_id)).await?;
    Ok(Json(MemberBody::from(&*member).for_rest()).into_response())
}

async fn all_members(api: &Api, caller: &Caller, guild_id: GuildId) -> Result<MemberTable, ApiError> {
    api.request(caller, guild_id, request::ReadMembers).await
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    member(&api, &caller, params.id("guild_id")?, params.id("user_id")?).await
}

pub(super) async fn read_own(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    member(&api, &caller, params.id("guild_id")?, caller.id).await
}

/// Members by user id, ascending.
pub(super) async fn list(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let (limit, after) = query.read(|form| {
        let limit = form.optional("limit", |v| form::integer(v, 1, PAGE_MAX)).unwrap_or(1);
        Some((limit as usize, form.optional("after", form::id).unwrap_or(UserId::new(0))))
    })?;
    if caller.bot && caller.application_flags & User::APPLICATION_GUILD_MEMBERS == 0 {
        return Err(ApiError::MISSING_ACCESS);
    }
    let members = all_members(&api, &caller, guild_id).await?;
    let bodies: Vec<_> =
        members.iter_after(after).take(limit).map(|e| MemberBody::from(&*e.member).for_rest()).collect();
    Ok(Json(bodies).into_response())
}

/// Members whose name or nick begins with the query, whatever the case.
pub(super) async fn search(Call { api, caller, params }: Call, query: Query) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let (needle, limit) = query.read(|form| {
        let limit = form.optional("limit", |v| form::integer(v, 1, PAGE_MAX)).unwrap_or(1);
        Some((form.required("query", |v| form::text(v, 1, QUERY_CHARS_MAX))?, limit as usize))
    })?;
    let members = all_members(&api, &caller, guild_id).await?;
    let permit = Arc::clone(&api.searches).acquire_owned().await.map_err(|_| ApiError::Overloaded)?;
    let found = tokio::task::spawn_blocking(move || {
        let found = find(&members, &needle.to_lowercase(), limit);
        drop(permit);
        found
    });
    let found = found.await.map_err(|_| ApiError::Bug("a search that ends"))?;
    Ok(Json(found.iter().map(|member| MemberBody::from(&**member).for_rest()).collect::<Vec<_>>()).into_response())
}

/// `needle` is in lower case.
fn find(members: &MemberTable, needle: &str, limit: usize) -> Vec<Arc<Member>> {
    let matches = |name: &str| {
        // Character by character: no copy of every name in the guild.
        let mut lower = name.chars().flat_map(char::to_lowercase);
        needle.chars().all(|c| lower.next() == Some(c))
    };
    let is_found = |member: &Member| {
        matches(&member.user.username)
            || member.user.global_name.as_deref().is_some_and(matches)
            || member.nick.as_deref().is_some_and(matches)
    };
    members.iter().map(|entry| &entry.member).filter(|member| is_found(member)).take(limit).cloned().collect()
}

fn nick(form: &mut Form<'_>) -> Option<Option<String>> {
    // An empty nick is none.
    let nick = form.nullable("nick", nick_text);
    nick.map(|nick| nick.filter(|nick| !nick.is_empty()))
}

/// A nick; empty if it is blank.
pub(super) fn nick_text(value: &Value) -> Parsed<String> {
    form::blank_or_name(value, NICK_CHARS_MAX)
}

fn patch(form: &mut Form<'_>) -> Option<MemberPatch> {
    Some(MemberPatch {
        nick: nick(form),
        // Null leaves them: serializers write it for a field that was never set.
        roles: form.optional("roles", |v| form::present(v, ROLES_MAX, form::id)).map(|mut roles| {
            roles.sort_unstable();
            roles.dedup();
            roles
        }),
        mute: form.optional("mute", form::boolean),
        deaf: form.optional("deaf", form::boolean),
        channel_id: form.nullable("channel_id", form::id),
        communication_disabled_until: form.nullable("communication_disabled_until", form::timestamp),
        avatar: None,
        banner: None,
    })
}

async fn change(
    api: &Api,
    caller: &Caller,
    guild_id: GuildId,
    user_id: UserId,
    patch: MemberPatch,
) -> Result<Response, ApiError> {
    let command = request::UpdateMember(user_id, Box::new(patch));
    let member = api.request(caller, guild_id, command).await?;
    Ok(Json(MemberBody::from(&*member).for_rest()).into_response())
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let (guild_id, user_id) = (params.id("guild_id")?, params.id("user_id")?);
    let permit = ReadPermit::member(&api, &caller, guild_id, user_id).await?;
    change(&api, &caller, guild_id, user_id, input.read(&api, permit, BodyLimits::FORM, patch).await?).await
}

/// Of oneself, only the nick and the pictures can be changed this way.
pub(super) async fn update_own(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let guild_id = params.id("guild_id")?;
    let permit = ReadPermit::guild(&api, &caller, guild_id).await?;
    let rule = PictureRule::large(&api.media);
    let input = input.json(&api, permit, BodyLimits::PROFILE).await?;
    let (patch, pictures) = input.read(|form| {
        let pictures = ["avatar", "banner"].map(|key| form.picture(key, rule));
        let [avatar, banner] = pictures.each_ref().map(hash_of);
        Some((MemberPatch { nick: nick(form), avatar, banner, ..MemberPatch::default() }, pictures))
    })?;
    let owner = PictureOwner::Member(guild_id, caller.id);
    let held = api.media.hold_fields(caller.id.get(), owner, pictures).await?;
    let changed = change(&api, &caller, guild_id, caller.id, patch).await;
    held.settled(changed).await
}

pub(super) async fn remove(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let user_id = params.id("user_id")?;
    // For the guild it would be leaving.
    if user_id == caller.id {
        return Err(ApiError::MISSING_PERMISSIONS);
    }
    api.done(&caller, params.id("guild_id")?, request::RemoveMember(user_id)).await
}

pub(super) async fn leave(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    caller.need(&api, SelfService::LeaveGuilds)?;
    api.done(&caller, params.id("guild_id")?, request::RemoveMember(caller.id)).await
}

pub(super) async fn add_role(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let command = request::AddMemberRole(params.id("user_id")?, params.id("role_id")?);
    api.done(&caller, params.id("guild_id")?, command).await
}

pub(super) async fn remove_role(Call { api, caller, params }: Call) -> Result<StatusCode, ApiError> {
    let command = request::RemoveMemberRole(params.id("user_id")?, params.id("role_id")?);
    api.done(&caller, params.id("guild_id")?, command).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Timestamp;
    use serde_json::json;

    fn table() -> MemberTable {
        let member = |id: u64, username: &str, nick: Option<&str>| {
            let user = Arc::new(User::new(UserId::new(id), username));
            Arc::new(Member { nick: nick.map(Into::into), ..Member::new(user, Timestamp(0)) })
        };
        [member(1, "Ana", None), member(2, "bob", Some("Ärger")), member(3, "anabel", None)].into_iter().collect()
    }

    #[test]
    fn a_search_finds_beginnings_in_any_case() {
        let check = |needle: &str, limit: usize, expected: &[u64]| {
            let found: Vec<u64> = find(&table(), needle, limit).iter().map(|m| m.user.id.get()).collect();
            assert_eq!(found, expected, "{needle}");
        };
        check("an", 10, &[1, 3]);
        check("an", 1, &[1]);
        check("ä", 10, &[2]);
        check("b", 10, &[2]);
        check("el", 10, &[]);
    }

    #[test]
    fn member_patches() {
        let body = json!({"nick": "", "roles": ["5", "3", 5], "mute": true, "channel_id": null,
                          "communication_disabled_until": "2024-05-01T12:00:00Z"});
        let read = form::object(&body, patch).unwrap();
        assert_eq!(read.nick, Some(None));
        assert_eq!(read.roles.unwrap().iter().map(|id| id.get()).collect::<Vec<_>>(), [3, 5]);
        assert_eq!((read.mute, read.deaf, read.channel_id), (Some(true), None, Some(None)));
        assert!(read.communication_disabled_until.flatten().is_some());
        let body = json!({"nick": "x".repeat(33), "communication_disabled_until": "tomorrow"});
        let faults = serde_json::to_value(form::object(&body, patch).unwrap_err()).unwrap();
        assert_eq!(faults["nick"]["_errors"][0]["message"], "Must be 32 or fewer in length.");
        assert_eq!(
            faults["communication_disabled_until"]["_errors"][0],
            json!({"code": "DATE_TIME_TYPE_PARSE", "message": "Could not parse tomorrow. Should be ISO8601."})
        );
    }
}
