//! Roles in bulk: the members who have a role, the roles of many members, all roles of a guild.
//!
//! Invariants  Z1 a request is one transaction: all of it, or nothing and the faults by field. (tests `z1_*`)
//! Limits      `ROLE_CHANGES_MAX` members and `ROLES_PUT_MAX` roles of a request; an answer waits as long as the guild
//!             took, so that one backend leaves the guild half of its time.
//! Spec        docs/backend-api.md "Roles of many".

use super::{
    V1,
    caller::{Caller, Write},
    dto::RoleWithId,
    error::V1Error,
    external,
    extract::{Body, Check, FieldErrors, Path},
    guilds,
    types::{AnyId, Snowflake, check_new_id},
};
use axum::{Json, extract::State};
use guildhall_guild::{Actor, ROLE_CHANGES_MAX, Refusal, Request, RoleChange, request};
use guildhall_model::{GuildId, RoleId, UserId};
use guildhall_store::ExternalKind;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};
use utoipa::ToSchema;

const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Roles of one request: as many as a guild has by default.
const ROLES_PUT_MAX: usize = 250;
const ROLES_OF_MEMBER_MAX: usize = 250;

/// The complete member list of a role.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RoleMembersPut {
    /// These members, and no others.
    #[schema(max_items = 1000)]
    user_ids: Vec<AnyId>,
}

impl Check for RoleMembersPut {
    fn check(&self, faults: &mut FieldErrors) {
        faults.count("user_ids", self.user_ids.len(), 0, ROLE_CHANGES_MAX);
    }
}

/// Members to add to a role and to remove from it: at most 1,000 together.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RoleMembersPatch)]
pub(super) struct RoleMembersChange {
    /// Members to add.
    #[serde(default)]
    #[schema(max_items = 1000)]
    add: Vec<AnyId>,
    /// Members to remove.
    #[serde(default)]
    #[schema(max_items = 1000)]
    remove: Vec<AnyId>,
}

impl Check for RoleMembersChange {
    fn check(&self, faults: &mut FieldErrors) {
        let count = self.add.len() + self.remove.len();
        if count > ROLE_CHANGES_MAX {
            faults.add(
                "",
                format!("`add` and `remove` must have at most {ROLE_CHANGES_MAX} members together; they have {count}."),
            );
        }
    }
}

/// Roles of one member.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct MemberRoles {
    /// The member's account.
    user_id: AnyId,
    /// All roles of the member, without `@everyone`.
    #[schema(max_items = 250)]
    roles: Vec<Snowflake>,
}

/// Roles of many members.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MembersRolesPut {
    /// The members, each once.
    #[schema(min_items = 1, max_items = 1000)]
    members: Vec<MemberRoles>,
}

impl Check for MembersRolesPut {
    fn check(&self, faults: &mut FieldErrors) {
        faults.count("members", self.members.len(), 1, ROLE_CHANGES_MAX);
        for (index, member) in self.members.iter().enumerate() {
            faults.count(&format!("members[{index}].roles"), member.roles.len(), 0, ROLES_OF_MEMBER_MAX);
        }
    }
}

/// Numbers of changed and unchanged members.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RolesChanged {
    /// Members with changed roles.
    changed: u64,
    /// Members with unchanged roles.
    unchanged: u64,
}

/// Roles of a guild.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RolesOfGuild {
    /// Each role once, with its id: the guild's for `@everyone`.
    #[schema(min_items = 1, max_items = 250)]
    roles: Vec<RoleWithId>,
}

impl Check for RolesOfGuild {
    fn check(&self, faults: &mut FieldErrors) {
        faults.count("roles", self.roles.len(), 1, ROLES_PUT_MAX);
        let mut seen = HashSet::new();
        for (index, role) in self.roles.iter().enumerate() {
            role.fields().check_within(&format!("roles[{index}]."), faults);
            if !seen.insert(role.id.0) {
                faults.add(format!("roles[{index}].id"), "This role is there twice: leave it out once.");
            }
        }
    }
}

/// Roles of a guild, with numbers of changes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RolesPutBody {
    /// Number of new roles.
    added: u64,
    /// Number of changed roles.
    changed: u64,
    /// Number of unchanged roles.
    unchanged: u64,
}

/// Sends the request, then pauses for the time that it took.
async fn paced<R: Request>(v1: &V1, guild_id: GuildId, request: R) -> Result<Result<R::Reply, Refusal>, V1Error> {
    let began = Instant::now();
    let reply = v1.in_time(v1.node.command(guild_id, Actor::System, request)).await?;
    tokio::time::sleep(began.elapsed().min(PAUSE_MAX)).await;
    Ok(reply)
}

/// A member whose roles change, and the field that names it.
struct Named {
    field: String,
    user_id: UserId,
    change: RoleChange,
}

async fn change(v1: &V1, guild_id: GuildId, named: Vec<Named>) -> Result<Json<RolesChanged>, V1Error> {
    let mut faults = FieldErrors::default();
    let mut seen = HashSet::new();
    for named in &named {
        if !seen.insert(named.user_id) {
            faults.add(&named.field, "This member is there twice: leave it out once.");
        }
    }
    faults.done()?;
    let changes: Vec<_> = named.iter().map(|named| (named.user_id, named.change.clone())).collect();
    let count = changes.len() as u64;
    match paced(v1, guild_id, request::ChangeRoles(changes)).await? {
        Ok(changed) => Ok(Json(RolesChanged { changed, unchanged: count - changed })),
        Err(Refusal::UnknownMember) => Err(no_members(v1, guild_id, &named).await),
        Err(Refusal::UnknownRole | Refusal::InvalidRole) => Err(no_roles(v1, guild_id, &named).await),
        Err(refusal) => Err(refusal.into()),
    }
}

/// Faults for accounts that are no members.
async fn no_members(v1: &V1, guild_id: GuildId, named: &[Named]) -> V1Error {
    let members = match v1.request(guild_id, request::ReadMembers).await {
        Ok(members) => members,
        Err(error) => return error,
    };
    let mut faults = FieldErrors::default();
    for named in named.iter().filter(|named| members.entry(named.user_id).is_none()) {
        faults.add(&named.field, "This account is no member of the guild: put the member first.");
    }
    // They joined concurrently.
    faults.done().err().unwrap_or_else(|| Refusal::Changed.into())
}

/// Faults for roles that do not exist, or are `@everyone`.
async fn no_roles(v1: &V1, guild_id: GuildId, named: &[Named]) -> V1Error {
    let guild = match guilds::reply(v1, guild_id).await {
        Ok(guild) => guild,
        Err(error) => return error,
    };
    let mut faults = FieldErrors::default();
    for named in named {
        let RoleChange::Set(roles) = &named.change else { return V1Error::not_found("role") };
        let field = named.field.trim_end_matches("user_id");
        for (index, role_id) in roles.iter().enumerate() {
            if *role_id == guild_id.cast() {
                faults
                    .add(format!("{field}roles[{index}]"), "This is @everyone, which every member has: leave it out.");
            } else if !guild.structure.roles.contains_key(role_id) {
                faults.add(format!("{field}roles[{index}]"), "The guild has no such role: put the role first.");
            }
        }
    }
    faults.done().err().unwrap_or_else(|| Refusal::Changed.into())
}

async fn users(v1: &V1, field: &str, named: &[AnyId]) -> Result<Vec<UserId>, V1Error> {
    external::ids_of(v1, ExternalKind::User, |index| format!("{field}[{index}]"), named).await
}

async fn need_role(v1: &V1, guild_id: GuildId, role_id: RoleId) -> Result<(), V1Error> {
    let guild = guilds::reply(v1, guild_id).await?;
    if role_id == guild_id.cast() {
        return Err(V1Error::conflict("Every member has @everyone: it is neither given nor taken."));
    }
    if guild.structure.roles.contains_key(&role_id) { Ok(()) } else { Err(V1Error::not_found("role")) }
}

/// Sets the members of a role
///
/// One transaction. At most 1,000 members may be named, and change.
#[utoipa::path(put, path = "/v1/guilds/{guild_id}/roles/{role_id}/members", tag = "roles",
    params(("guild_id" = AnyId, Path), ("role_id" = Snowflake, Path)), request_body = RoleMembersPut,
    responses((status = 200, body = RolesChanged), (status = 404, body = V1Error),
              (status = 409, description = "More than 1,000 members would change: use PATCH in parts; or it is @everyone",
               body = V1Error)))]
pub(super) async fn put_members(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<RoleMembersPut>,
) -> Result<Json<RolesChanged>, V1Error> {
    let (guild_id, role_id): (GuildId, RoleId) = (path.id("guild_id")?, path.id("role_id")?);
    need_role(&v1, guild_id, role_id).await?;
    let input = body.read(&v1, caller.permit_for(&role_id)).await?;
    let wanted = users(&v1, "user_ids", &input.user_ids).await?;
    let members = v1.request(guild_id, request::ReadMembers).await?;
    let keep: BTreeSet<UserId> = wanted.iter().copied().collect();
    // Off the runtime: it visits every member of the guild.
    let losing = tokio::task::spawn_blocking(move || {
        let has = members.iter().filter(|entry| entry.member.roles.contains(&role_id));
        let losing = has.map(|entry| entry.member.user.id).filter(|user_id| !keep.contains(user_id));
        losing.take(ROLE_CHANGES_MAX + 1).collect::<Vec<_>>()
    });
    let losing = losing.await.map_err(|_| V1Error::bug("a list of members"))?;
    if wanted.len() + losing.len() > ROLE_CHANGES_MAX {
        return Err(V1Error::conflict(format!(
            "More than {ROLE_CHANGES_MAX} members would be looked at or changed: use PATCH with `add` and `remove`, in parts."
        )));
    }
    let adding = wanted.into_iter().enumerate();
    let adding = adding.map(|(index, user_id)| Named {
        field: format!("user_ids[{index}]"),
        user_id,
        change: RoleChange::Add(role_id),
    });
    let losing = losing.into_iter();
    let losing = losing.map(|user_id| Named { field: String::new(), user_id, change: RoleChange::Remove(role_id) });
    change(&v1, guild_id, adding.chain(losing).collect()).await
}

/// Adds members to a role, and removes others
///
/// One transaction.
#[utoipa::path(patch, path = "/v1/guilds/{guild_id}/roles/{role_id}/members", tag = "roles",
    params(("guild_id" = AnyId, Path), ("role_id" = Snowflake, Path)), request_body = RoleMembersChange,
    responses((status = 200, body = RolesChanged), (status = 404, body = V1Error),
              (status = 409, description = "It is @everyone", body = V1Error)))]
pub(super) async fn change_members(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<RoleMembersChange>,
) -> Result<Json<RolesChanged>, V1Error> {
    let (guild_id, role_id): (GuildId, RoleId) = (path.id("guild_id")?, path.id("role_id")?);
    need_role(&v1, guild_id, role_id).await?;
    let input = body.read(&v1, caller.permit_for(&role_id)).await?;
    let mut all = Vec::with_capacity(input.add.len() + input.remove.len());
    for (field, named, of) in
        [("add", &input.add, RoleChange::Add(role_id)), ("remove", &input.remove, RoleChange::Remove(role_id))]
    {
        for (index, user_id) in users(&v1, field, named).await?.into_iter().enumerate() {
            all.push(Named { field: format!("{field}[{index}]"), user_id, change: of.clone() });
        }
    }
    change(&v1, guild_id, all).await
}

/// Sets the roles of many members
///
/// One transaction. Other members keep their roles.
#[utoipa::path(put, path = "/v1/guilds/{guild_id}/members/roles", tag = "roles", params(("guild_id" = AnyId, Path)),
    request_body = MembersRolesPut,
    responses((status = 200, body = RolesChanged), (status = 404, body = V1Error)))]
pub(super) async fn put_of_members(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<MembersRolesPut>,
) -> Result<Json<RolesChanged>, V1Error> {
    let guild_id: GuildId = path.id("guild_id")?;
    let permit = caller.permit_for(&guilds::reply(&v1, guild_id).await?);
    let MembersRolesPut { members } = body.read(&v1, permit).await?;
    let (user_ids, roles): (Vec<_>, Vec<_>) = members.into_iter().map(|member| (member.user_id, member.roles)).unzip();
    let field = |index: usize| format!("members[{index}].user_id");
    let user_ids = external::ids_of(&v1, ExternalKind::User, field, &user_ids).await?;
    let named = user_ids.into_iter().zip(roles).enumerate();
    let named = named.map(|(index, (user_id, roles))| Named {
        field: field(index),
        user_id,
        change: RoleChange::Set(roles.into_iter().map(Snowflake::id).collect()),
    });
    change(&v1, guild_id, named.collect()).await
}

/// Creates or replaces roles
///
/// One transaction. Other roles stay.
#[utoipa::path(put, path = "/v1/guilds/{guild_id}/roles", tag = "roles", params(("guild_id" = AnyId, Path)),
    request_body = RolesOfGuild,
    responses((status = 200, body = RolesPutBody), (status = 404, body = V1Error),
              (status = 409, description = "The guild would have too many", body = V1Error)))]
pub(super) async fn put_roles(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<RolesOfGuild>,
) -> Result<Json<RolesPutBody>, V1Error> {
    let guild_id: GuildId = path.id("guild_id")?;
    let permit = caller.permit_for(&guilds::reply(&v1, guild_id).await?);
    let input = body.read(&v1, permit).await?;
    for (index, role) in input.roles.iter().enumerate() {
        if role.id.0 != guild_id.get() {
            check_new_id(&v1, &format!("roles[{index}].id"), role.id.id::<()>())?;
        }
    }
    let roles = input.roles.into_iter().map(|role| role.fields().into_role(role.id.id())).collect();
    let put = paced(&v1, guild_id, request::PutRoles(roles)).await??;
    Ok(Json(RolesPutBody { added: put.added, changed: put.changed, unchanged: put.unchanged }))
}
