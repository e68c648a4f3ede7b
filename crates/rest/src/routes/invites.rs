//! Invites. Spec  docs/protocol/reference.md §7.1, §10.3.

use super::{Call, PathParams, vanity};
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest, Query},
    error::ApiError,
    form,
    permit::ReadPermit,
    state::Api,
    user_policy::SelfService,
};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Actor, InviteReply, NewInvite, Refusal, request};
use guildhall_guild_protocol::GuildStructure;
use guildhall_model::{GuildId, Invite, InviteCode, ResourceKind, from_gateway::InviteBody};
use std::sync::Arc;

const MAX_AGE_S_MAX: i64 = 604_800;
const MAX_AGE_S_DEFAULT: i64 = 86_400;
const MAX_USES_MAX: i64 = 100;

fn managed(reply: &InviteReply) -> InviteBody<'_> {
    let channel = reply.structure.channels.get(&reply.invite.channel_id).map(|channel| &**channel);
    InviteBody::managed(&reply.invite, &reply.structure.guild, channel)
}

fn known<'a>(code: &Code, reply: &'a InviteReply, with_counts: bool) -> InviteBody<'a> {
    let channel = reply.structure.channels.get(&reply.invite.channel_id).map(|channel| &**channel);
    let body = InviteBody::known(&reply.invite, &reply.structure.guild, channel)
        .with_welcome_screen(reply.welcome_screen.as_deref());
    let body = match code {
        Code::Random(_) => body,
        Code::Vanity(code) => body.with_vanity_code(code),
    };
    if with_counts { body.with_counts(reply.member_count, reply.presence_count) } else { body }
}

/// The code of an invite.
enum Code {
    Random(InviteCode),
    /// Of the guild's own choice.
    Vanity(Box<str>),
}

/// The code in the path and the guild it leads to. If both kinds have it, the random one counts, so that no guild
/// takes over another's invite.
async fn found(api: &Api, params: &PathParams) -> Result<(Code, GuildId), ApiError> {
    let text = params.text("code");
    if let Ok(code) = text.parse::<InviteCode>()
        && let Some(guild_id) = api.node.store().guild_of_resource(ResourceKind::Invite, code.number()).await?
    {
        return Ok((Code::Random(code), guild_id));
    }
    if let Some(code) = vanity::code_of(text)
        && let Some(guild_id) = vanity::guild_of(api, &code).await?
    {
        return Ok((Code::Vanity(code), guild_id));
    }
    Err(ApiError::Refused(Refusal::UnknownInvite))
}

/// A refusal reveals nothing about the guild to a caller that only has a code.
fn hide_guild(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::UnknownGuild => ApiError::Refused(Refusal::UnknownInvite),
        other => other.into(),
    }
}

pub(super) async fn create(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    caller.need(&api, SelfService::CreateInvites)?;
    let channel_id = params.id("channel_id")?;
    let permit = ReadPermit::channel(&api, &caller, channel_id).await?;
    let code = api.node.new_invite_code();
    let new = input.read(&api, permit, BodyLimits::FORM, |form| {
        form.unsupported("role_ids", "This server gives no roles by an invite.");
        let max_age = form.optional("max_age", |v| form::integer(v, 0, MAX_AGE_S_MAX)).unwrap_or(MAX_AGE_S_DEFAULT);
        let max_uses = form.optional("max_uses", |v| form::integer(v, 0, MAX_USES_MAX)).unwrap_or(0);
        Some(NewInvite {
            code,
            max_age_s: max_age as u32,
            max_uses: max_uses as u32,
            temporary: form.optional("temporary", form::boolean).unwrap_or(false),
            is_unique: form.optional("unique", form::boolean).unwrap_or(false),
        })
    });
    let command = request::CreateInvite(channel_id, Box::new(new.await?));
    let reply = api.request_in_channel(&caller, channel_id, command).await?;
    Ok(Json(managed(&reply)).into_response())
}

pub(super) async fn read(
    State(api): State<Arc<Api>>,
    _: Caller,
    params: PathParams,
    query: Query,
) -> Result<Response, ApiError> {
    let with_counts = query.read(|form| Some(form.optional("with_counts", form::boolean).unwrap_or(false)))?;
    let (code, guild_id) = found(&api, &params).await?;
    let reply = match &code {
        Code::Random(code) => api.node.command(guild_id, Actor::System, request::ReadInvite(*code)).await,
        Code::Vanity(code) => api.node.command(guild_id, Actor::System, request::ReadVanityInvite(code.clone())).await,
    };
    let reply = reply.map_err(hide_guild)?;
    Ok(Json(known(&code, &reply, with_counts)).into_response())
}

pub(super) async fn delete(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let (code, guild_id) = found(&api, &params).await?;
    let code = match code {
        Code::Random(code) => code,
        Code::Vanity(_) => {
            let message = "This is a vanity URL: remove it by PATCH /guilds/{guild_id}/vanity-url";
            return Err(ApiError::coded(StatusCode::BAD_REQUEST, 50020, message));
        }
    };
    let reply = match api.node.command(guild_id, Actor::User(caller.id), request::DeleteInvite(code)).await {
        Err(Refusal::UnknownGuild) => return Err(ApiError::MISSING_ACCESS),
        other => other?,
    };
    Ok(Json(managed(&reply)).into_response())
}

/// Comes in by it.
pub(super) async fn accept(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    if caller.bot {
        let message = "Bots cannot use this endpoint";
        return Err(ApiError::coded(StatusCode::FORBIDDEN, 20001, message));
    }
    let (code, guild_id) = found(&api, &params).await?;
    super::guilds::need_room_for_guild(&api, caller.id, Some(guild_id)).await?;
    let (actor, user) = (Actor::User(caller.id), caller.0.clone());
    let reply = match &code {
        Code::Random(code) => api.node.command(guild_id, actor, request::AcceptInvite(*code, user)).await,
        Code::Vanity(code) => api.node.command(guild_id, actor, request::AcceptVanityInvite(code.clone(), user)).await,
    };
    let reply = reply.map_err(hide_guild)?;
    api.node.settle_member(guild_id, &caller).await?;
    Ok(Json(known(&code, &reply, false)).into_response())
}

async fn list((invites, structure): (Vec<Arc<Invite>>, Arc<GuildStructure>)) -> Result<Response, ApiError> {
    let body = |invite: &Arc<guildhall_model::Invite>| {
        let channel = structure.channels.get(&invite.channel_id).map(|channel| &**channel);
        serde_json::to_value(InviteBody::managed(invite, &structure.guild, channel))
    };
    let bodies: Result<Vec<_>, _> = invites.iter().map(body).collect();
    Ok(Json(bodies.map_err(|_| ApiError::Bug("an invite that encodes"))?).into_response())
}

pub(super) async fn of_channel(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let channel_id = params.id("channel_id")?;
    list(api.request_in_channel(&caller, channel_id, request::ListInvites(Some(channel_id))).await?).await
}

pub(super) async fn of_guild(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    list(api.request(&caller, params.id("guild_id")?, request::ListInvites(None)).await?).await
}
