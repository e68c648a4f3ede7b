//! Permissions of commands: overrides of their defaults in one guild.
//!
//! Owns        a record of the store per application and guild; its routes; the decision for one invocation.
//! Invariants  Q1 an override of a command counts before one of the whole application, and both before the command's
//!             `default_member_permissions`; of users before roles, and of roles an admission before a refusal.
//!             Administrators may use everything. (tests `q1_*`)
//! Limits      `OVERRIDES_MAX` per command, and `BYTES_MAX` per application and guild.
//! Spec        docs/protocol/choices.md "Application commands".

use super::{describe::Scene, publish, unknown_application};
use crate::{
    auth::Caller,
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form::{self, FieldError, FieldErrors},
    permit::ReadPermit,
    routes::{Call, commands},
    state::Api,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{Refusal, request};
use guildhall_model::{ApplicationId, EventName, GuildId, Id, Permissions, UserId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const RECORDS: &str = "command_permissions";
const OVERRIDES_MAX: usize = 100;
const BYTES_MAX: usize = 256 * 1024;
const ATTEMPTS_MAX: u32 = 10;

/// Types of overrides.
const ROLE: u8 = 1;
const USER: u8 = 2;
const CHANNEL: u8 = 3;

/// Whether a role, user or channel has a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Override {
    /// `guild_id` means everyone, and `guild_id - 1` all channels.
    id: Id<()>,
    #[serde(rename = "type")]
    kind: u8,
    permission: bool,
}

/// The overrides of a command, or with the application's id those of all its commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OfCommand {
    id: Id<()>,
    permissions: Vec<Override>,
}

/// The overrides of an application in a guild.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Overrides(Vec<OfCommand>);

fn record_id(application: UserId, guild_id: GuildId) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&application.get().to_be_bytes());
    id[8..].copy_from_slice(&guild_id.get().to_be_bytes());
    id
}

/// Facts that decide on one invocation.
pub(super) struct Asker<'a> {
    pub guild_id: GuildId,
    pub application: UserId,
    pub user_id: UserId,
    pub roles: &'a [Id<guildhall_model::marker::Role>],
    /// The channel, and of a thread the channel that it is in.
    pub channels: [Id<()>; 2],
}

impl Overrides {
    async fn read(api: &Api, application: UserId, guild_id: GuildId) -> Result<Self, ApiError> {
        Self::stored(api.node.store().record(RECORDS, &record_id(application, guild_id)).await?.as_deref())
    }

    /// Those that count in a place; none in a direct message.
    pub async fn of_place(api: &Api, place: &Scene) -> Result<Self, ApiError> {
        match place.guild_id {
            Some(guild_id) => Self::read(api, place.application.id, guild_id).await,
            None => Ok(Self::default()),
        }
    }

    fn stored(record: Option<&[u8]>) -> Result<Self, ApiError> {
        let Some(record) = record else { return Ok(Self::default()) };
        serde_json::from_slice(record).map_err(|_| ApiError::Bug("a record of permissions that can be read"))
    }

    fn of(&self, id: Id<()>) -> &[Override] {
        self.0.iter().find(|of| of.id == id).map_or(&[], |of| &of.permissions)
    }

    /// Whether the overrides admit the asker to a command. None: none of them matches the asker, so the default of the
    /// command decides.
    pub fn admits(&self, command_id: Id<()>, asker: &Asker<'_>) -> Option<bool> {
        let levels = [self.of(command_id), self.of(asker.application.cast())];
        let of_channel = levels.iter().find_map(|level| channel_of(level, asker));
        if of_channel == Some(false) {
            return Some(false);
        }
        levels.iter().find_map(|level| user_of(level, asker))
    }

    fn body(&self, application: UserId, guild_id: GuildId) -> Vec<Value> {
        let body = |of: &OfCommand| json!({"id": of.id, "application_id": application, "guild_id": guild_id, "permissions": of.permissions});
        self.0.iter().map(body).collect()
    }
}

fn find(level: &[Override], kind: u8, id: Id<()>) -> Option<bool> {
    level.iter().find(|of| of.kind == kind && of.id == id).map(|of| of.permission)
}

fn channel_of(level: &[Override], asker: &Asker<'_>) -> Option<bool> {
    let all = Id::new(asker.guild_id.get().saturating_sub(1));
    asker.channels.into_iter().chain([all]).find_map(|id| find(level, CHANNEL, id))
}

fn user_of(level: &[Override], asker: &Asker<'_>) -> Option<bool> {
    let roles = asker.roles.iter().filter_map(|role| find(level, ROLE, role.cast()));
    find(level, USER, asker.user_id.cast())
        .or_else(|| roles.reduce(|one, other| one || other))
        .or_else(|| find(level, ROLE, asker.guild_id.cast()))
}

/// The account that the path is for: the application itself, or a member who manages the guild.
async fn need_reader(
    api: &Api,
    caller: &Caller,
    application: ApplicationId,
    guild_id: GuildId,
) -> Result<ReadPermit, ApiError> {
    let permit = ReadPermit::guild(api, caller, guild_id).await.map_err(|_| ApiError::MISSING_ACCESS)?;
    if caller.bot && caller.id.get() == application.get() {
        return Ok(permit);
    }
    need_manager(api, caller, guild_id).await?;
    Ok(permit)
}

async fn need_manager(api: &Api, caller: &Caller, guild_id: GuildId) -> Result<(), ApiError> {
    let guild = api.request(caller, guild_id, request::ReadGuild).await?;
    let needed = Permissions::MANAGE_GUILD | Permissions::MANAGE_ROLES;
    if guild.permissions.contains(needed) { Ok(()) } else { Err(ApiError::Refused(Refusal::MissingPermissions)) }
}

pub(crate) async fn list(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let (application, guild_id) = (params.id("application_id")?, params.id("guild_id")?);
    need_reader(&api, &caller, application, guild_id).await?;
    let overrides = Overrides::read(&api, application.cast(), guild_id).await?;
    Ok(Json(overrides.body(application.cast(), guild_id)).into_response())
}

pub(crate) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    let (application, guild_id) = (params.id("application_id")?, params.id("guild_id")?);
    let command_id: Id<()> = params.id("command_id")?;
    need_reader(&api, &caller, application, guild_id).await?;
    let overrides = Overrides::read(&api, application.cast(), guild_id).await?;
    let found = overrides.body(application.cast(), guild_id).into_iter().find(|of| of["id"] == json!(command_id));
    let unknown = || ApiError::coded(StatusCode::NOT_FOUND, 10066, "Unknown application command permissions");
    Ok(Json(found.ok_or_else(unknown)?).into_response())
}

/// Replaces the overrides of a command, or with the application's id those of all its commands. For members who manage
/// the guild and its roles; upstream refuses bots too.
pub(crate) async fn replace(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    let (application, guild_id): (ApplicationId, _) = (params.id("application_id")?, params.id("guild_id")?);
    let command_id: Id<()> = params.id("command_id")?;
    if caller.bot {
        return Err(ApiError::coded(StatusCode::FORBIDDEN, 20001, "Bots cannot use this endpoint"));
    }
    let permit = ReadPermit::guild(&api, &caller, guild_id).await.map_err(|_| ApiError::MISSING_ACCESS)?;
    need_manager(&api, &caller, guild_id).await?;
    if command_id.get() != application.get() {
        commands::find_for(&api, application.cast(), Some(guild_id), command_id).await?;
    } else if api.node.user(application.cast()).await?.is_none_or(|user| !user.bot) {
        return Err(unknown_application());
    }
    let permissions = input.read(&api, permit, BodyLimits::FORM, |form| {
        form.required("permissions", |v| {
            form::list(v, 0, OVERRIDES_MAX, |v| {
                form::object(v, |form| {
                    let id = form.required("id", form::id);
                    let kind = form.required("type", |v| form::integer(v, ROLE.into(), CHANNEL.into()));
                    let permission = form.required("permission", form::boolean);
                    Some(Override { id: id?, kind: kind? as u8, permission: permission? })
                })
            })
        })
    });
    let permissions = permissions.await?;
    let (store, id) = (api.node.store(), record_id(application.cast(), guild_id));
    for _ in 0..ATTEMPTS_MAX {
        let before = store.record(RECORDS, &id).await?;
        let mut overrides = Overrides::stored(before.as_deref())?;
        overrides.0.retain(|of| of.id != command_id);
        if !permissions.is_empty() {
            overrides.0.push(OfCommand { id: command_id, permissions: permissions.clone() });
        }
        let after = serde_json::to_vec(&overrides).map_err(|_| ApiError::Bug("permissions that can be written"))?;
        if after.len() > BYTES_MAX {
            let fault = FieldError::new("BASE_TYPE_MAX_LENGTH", "This application has too many overrides here.");
            return Err(FieldErrors::at("permissions", fault).into());
        }
        let after = Some(&after[..]).filter(|_| !overrides.0.is_empty());
        if store.swap_record(RECORDS, &id, before.as_deref(), after).await? {
            let body = json!({"id": command_id, "application_id": application, "guild_id": guild_id,
                "permissions": permissions});
            let name = EventName::ApplicationCommandPermissionsUpdate;
            publish(&api, name, Some(guild_id), application.cast(), &body)?;
            return Ok(Json(body).into_response());
        }
    }
    Err(ApiError::Overloaded)
}

/// The asker of an invocation in a guild.
pub(super) fn asker(scene: &Scene) -> Option<Asker<'_>> {
    let (guild_id, member) = (scene.guild_id?, scene.context.member.as_ref()?);
    let channel = &scene.context.channel;
    let parent = channel.parent_id.filter(|_| channel.kind.is_thread()).unwrap_or(channel.id);
    Some(Asker {
        guild_id,
        application: scene.application.id,
        user_id: member.user.id,
        roles: &member.roles,
        channels: [channel.id.cast(), parent.cast()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: Id<()> = Id::new(50);
    const APPLICATION: UserId = UserId::new(200);

    /// The overrides of a command: target, its kind, whether the command is permitted.
    type Given<'a> = (Id<()>, &'a [(u64, u8, bool)]);

    fn admits(overrides: &[Given<'_>]) -> Option<bool> {
        let of = |(id, permissions): &Given<'_>| OfCommand {
            id: *id,
            permissions: (permissions.iter())
                .map(|(id, kind, permission)| Override { id: Id::new(*id), kind: *kind, permission: *permission })
                .collect(),
        };
        let asker = Asker {
            guild_id: GuildId::new(10),
            application: APPLICATION,
            user_id: UserId::new(100),
            roles: &[Id::new(31), Id::new(32)],
            channels: [Id::new(20), Id::new(20)],
        };
        Overrides(overrides.iter().map(of).collect()).admits(COMMAND, &asker)
    }

    #[test]
    fn q1_the_nearest_override_decides() {
        let application = APPLICATION.cast();
        assert_eq!(admits(&[]), None);
        assert_eq!(admits(&[(COMMAND, &[(10, ROLE, false)])]), Some(false), "everyone");
        assert_eq!(admits(&[(COMMAND, &[(10, ROLE, false), (31, ROLE, false), (32, ROLE, true)])]), Some(true));
        assert_eq!(admits(&[(COMMAND, &[(100, USER, false), (31, ROLE, true)])]), Some(false));
        assert_eq!(admits(&[(application, &[(10, ROLE, false)]), (COMMAND, &[(100, USER, true)])]), Some(true));
        assert_eq!(admits(&[(application, &[(10, ROLE, false)]), (COMMAND, &[(33, ROLE, true)])]), Some(false));
        assert_eq!(admits(&[(COMMAND, &[(9, CHANNEL, false)])]), Some(false), "all channels");
        assert_eq!(admits(&[(COMMAND, &[(9, CHANNEL, false), (20, CHANNEL, true)])]), None);
        assert_eq!(admits(&[(COMMAND, &[(20, CHANNEL, false), (100, USER, true)])]), Some(false));
    }
}
