//! Guilds: listed, read, put, changed, deleted.

use super::{
    V1,
    caller::{Caller, Read, Write},
    change,
    dto::{GuildBody, GuildChange, GuildPut},
    error::V1Error,
    external::{self, Target},
    extract::{Body, Changes, Check, FieldErrors, Path, Query},
    types::{AnyId, Snowflake, check_new_id},
};
use axum::{Json, extract::State, http::StatusCode};
use guildhall_guild::{Expected, GuildReply, NewGuild, request};
use guildhall_model::{Guild, GuildId};
use guildhall_store::ExternalKind;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

const PAGE_MAX: u32 = 1_000;

pub(super) async fn reply(v1: &V1, guild_id: GuildId) -> Result<Box<GuildReply>, V1Error> {
    v1.request(guild_id, request::ReadGuild).await
}

async fn put_fields(v1: &V1, guild: Guild, expected: Expected<Guild>) -> Result<GuildBody, V1Error> {
    let reply = v1.request(guild.id, request::PutGuild(Box::new(guild), expected)).await?;
    Ok(GuildBody::from(&*reply))
}

/// Parameters of a page.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// Only objects with larger ids.
    #[param(value_type = Option<Snowflake>)]
    pub after: Option<Snowflake>,
    /// Maximum number of results.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

impl Check for Page {
    fn check(&self, faults: &mut FieldErrors) {
        faults.number("limit", self.limit().into(), 1, PAGE_MAX.into());
    }
}

impl Page {
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(100)
    }

    pub fn after<T>(&self) -> guildhall_model::Id<T> {
        guildhall_model::Id::new(self.after.map_or(0, |after| after.0))
    }
}

/// Parameters of a page, or of a search by external id.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    /// Only objects with larger ids.
    #[param(value_type = Option<Snowflake>)]
    after: Option<Snowflake>,
    /// Maximum number of results.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only the object with this external id, if there is one.
    #[param(min_length = 1, max_length = 128, pattern = "^[!-~]*$")]
    pub external_id: Option<String>,
}

impl Check for PageQuery {
    fn check(&self, faults: &mut FieldErrors) {
        faults.number("limit", self.limit().into(), 1, PAGE_MAX.into());
        external::check("external_id", self.external_id.as_deref(), faults);
    }
}

impl PageQuery {
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(100)
    }

    pub fn after<T>(&self) -> guildhall_model::Id<T> {
        guildhall_model::Id::new(self.after.map_or(0, |after| after.0))
    }
}

/// A page of guilds.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GuildIds {
    /// Ascending ids. Fewer than `limit` on the last page.
    guild_ids: Vec<Snowflake>,
}

/// Lists the ids of all guilds, or the one with an external id
#[utoipa::path(get, path = "/v1/guilds", tag = "guilds", params(PageQuery),
    responses((status = 200, body = GuildIds)))]
pub(super) async fn list(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    Query(query): Query<PageQuery>,
) -> Result<Json<GuildIds>, V1Error> {
    let ids = match &query.external_id {
        Some(text) => match external::id_of(&v1, ExternalKind::Guild, text).await?.map(GuildId::new) {
            Some(guild_id) if is_there(&v1, guild_id).await? => vec![guild_id],
            _ => Vec::new(),
        },
        None => v1.in_time(v1.node.store().guild_ids(query.after(), query.limit())).await??,
    };
    Ok(Json(GuildIds { guild_ids: ids.into_iter().map(Into::into).collect() }))
}

async fn is_there(v1: &V1, guild_id: GuildId) -> Result<bool, V1Error> {
    match reply(v1, guild_id).await {
        Ok(_) => Ok(true),
        Err(error) if error.code == "not_found" => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads a guild
#[utoipa::path(get, path = "/v1/guilds/{guild_id}", tag = "guilds", params(("guild_id" = AnyId, Path)),
    responses((status = 200, body = GuildBody), (status = 404, body = V1Error)))]
pub(super) async fn read(_: Caller<Read>, State(v1): State<Arc<V1>>, path: Path) -> Result<Json<GuildBody>, V1Error> {
    let guild_id: GuildId = path.id("guild_id")?;
    let guild = reply(&v1, guild_id).await?;
    let text = external::text(&v1, ExternalKind::Guild, guild_id.get()).await?;
    Ok(Json(GuildBody::from(&*guild).with_external_id(text)))
}

/// Creates or replaces the guild with this id
///
/// A new guild has its owner as the only member, `@everyone` as the only role, and no channels.
#[utoipa::path(put, path = "/v1/guilds/{guild_id}", tag = "guilds", params(("guild_id" = AnyId, Path)),
    request_body = GuildPut,
    responses((status = 200, description = "It was there, and is like this now", body = GuildBody),
              (status = 201, description = "It was made", body = GuildBody), (status = 409, body = V1Error)))]
pub(super) async fn put(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<GuildPut>,
) -> Result<(StatusCode, Json<GuildBody>), V1Error> {
    let target = Target::of(&v1, &path, "guild_id").await?;
    let guild_id: GuildId = target.id;
    let input = body.read(&v1, caller.permit()).await?;
    let wanted = target.wanted(input.external_id.clone())?;
    let put = put_whole(&v1, guild_id, input);
    let ((status, body), text) = external::put_with(&v1, ExternalKind::Guild, guild_id.get(), wanted, put).await?;
    Ok((status, Json(body.with_external_id(text))))
}

async fn put_whole(v1: &V1, guild_id: GuildId, input: GuildPut) -> Result<(StatusCode, GuildBody), V1Error> {
    let owner_id = external::id_in(v1, ExternalKind::User, "owner_id", &input.owner_id).await?;
    match reply(v1, guild_id).await {
        Ok(before) => {
            let guild = input.into_guild(guild_id, owner_id, Some(&before.structure.guild));
            return Ok((StatusCode::OK, put_fields(v1, guild, None).await?));
        }
        Err(error) if error.code != "not_found" => return Err(error),
        Err(_) => {}
    }
    check_new_id(v1, "guild_id", guild_id)?;
    for (special, field) in [(input.system_channel_id, "system_channel_id"), (input.afk_channel_id, "afk_channel_id")] {
        if special.is_some() {
            return Err(V1Error::field(field, "A new guild has no channels: put the guild, the channel, then this."));
        }
    }
    let owner = v1.in_time(v1.node.user(owner_id)).await??;
    let owner = owner.ok_or_else(|| {
        V1Error::field("owner_id", "There is no such account: put it with PUT /v1/users/{user_id} first.")
    })?;
    let guild = input.into_guild(guild_id, owner_id, None);
    v1.in_time(v1.node.create_guild(NewGuild::new(guild.clone(), owner.clone()))).await??;
    v1.in_time(v1.node.settle_member(guild_id, &owner)).await??;
    Ok((StatusCode::CREATED, put_fields(v1, guild, None).await?))
}

/// Changes some fields of a guild
#[utoipa::path(patch, path = "/v1/guilds/{guild_id}", tag = "guilds", params(("guild_id" = AnyId, Path)),
    request_body = GuildChange,
    responses((status = 200, body = GuildBody), (status = 404, body = V1Error), (status = 409, body = V1Error)))]
pub(super) async fn update(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    changes: Changes,
) -> Result<Json<GuildBody>, V1Error> {
    let guild_id: GuildId = path.id("guild_id")?;
    let patch = changes.read(&v1, caller.permit_for(&reply(&v1, guild_id).await?)).await?;
    let (v1, patch) = (&*v1, &patch);
    let changed = patch.apply(&GuildPut::from(&*reply(v1, guild_id).await?.structure.guild))?;
    let owner_id = external::id_in(v1, ExternalKind::User, "owner_id", &changed.owner_id).await?;
    let put = change(|| async move {
        let before = reply(v1, guild_id).await?.structure.guild.clone();
        let input = patch.apply(&GuildPut::from(&*before))?;
        // Its external id was looked up once; an owner that the change leaves out is the guild's.
        let owner_id = if let AnyId::Id(id) = input.owner_id { id.id() } else { owner_id };
        let guild = input.into_guild(guild_id, owner_id, Some(&before));
        put_fields(v1, guild, Some(before)).await
    });
    let (body, text) =
        external::put_with(v1, ExternalKind::Guild, guild_id.get(), changed.external_id.clone(), put).await?;
    Ok(Json(body.with_external_id(text)))
}

/// Deletes a guild with its content
#[utoipa::path(delete, path = "/v1/guilds/{guild_id}", tag = "guilds", params(("guild_id" = AnyId, Path)),
    responses((status = 204, description = "It is gone"), (status = 404, body = V1Error)))]
pub(super) async fn delete(_: Caller<Write>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    v1.request(path.id("guild_id")?, request::DeleteGuild).await?;
    Ok(StatusCode::NO_CONTENT)
}
