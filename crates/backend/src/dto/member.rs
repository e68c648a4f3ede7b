//! Member: a member, as backends put, change, import and read them.

use super::user::{UserBody, UserPut, display_name, no_discriminator};
use crate::{
    error::V1Error,
    external::Named,
    extract::{Check, FieldErrors},
    types::{Snowflake, Time},
};
use guildhall_guild::NewMember;
use guildhall_model::{GuildId, Member, User, UserId};
use serde::{Deserialize, Serialize};
use std::{collections::HashSet, sync::Arc};
use utoipa::ToSchema;

const ROLES_MAX: usize = 250;

/// All fields of a member. `/v1/users` has the account.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberPut {
    /// Display name in this guild; null: the account's name.
    #[serde(default)]
    #[schema(max_length = 32)]
    pub nick: Option<String>,
    /// Ids of the member's roles, without `@everyone`.
    #[serde(default)]
    #[schema(max_items = 250)]
    pub roles: Vec<Snowflake>,
    /// Time of joining. Omitted or null: unchanged, or now for a new member.
    #[serde(default)]
    pub joined_at: Option<Time>,
    /// Muted by the server.
    #[serde(default)]
    pub mute: bool,
    /// Deafened by the server.
    #[serde(default)]
    pub deaf: bool,
    /// Flags of the member, as in the protocol.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 4294967295_u64)]
    pub flags: u32,
    /// End of the time-out; null: none.
    #[serde(default)]
    pub communication_disabled_until: Option<Time>,
}

impl Check for MemberPut {
    fn check(&self, faults: &mut FieldErrors) {
        check_fields(self.nick.as_deref(), &self.roles, faults);
    }
}

fn check_fields(nick: Option<&str>, roles: &[Snowflake], faults: &mut FieldErrors) {
    faults.name("nick", nick.unwrap_or_default(), 0, 32);
    faults.count("roles", roles.len(), 0, ROLES_MAX);
    let mut seen = HashSet::new();
    for (index, role) in roles.iter().enumerate().take(ROLES_MAX) {
        if !seen.insert(role.0) {
            faults.add(format!("roles[{index}]"), "This role is there twice: leave it out once.");
        }
    }
}

/// Refuses `@everyone` among a member's roles, as every member has it.
pub(crate) fn check_not_everyone(guild_id: GuildId, roles: &[Snowflake]) -> Result<(), V1Error> {
    match roles.iter().position(|role| role.0 == guild_id.get()) {
        None => Ok(()),
        Some(index) => {
            Err(V1Error::field(format!("roles[{index}]"), "This is @everyone, which every member has: leave it out."))
        }
    }
}

impl MemberPut {
    pub fn into_member(self, user: Arc<User>) -> NewMember {
        NewMember {
            user,
            nick: self.nick.as_deref().and_then(display_name),
            roles: self.roles.into_iter().map(Snowflake::id).collect(),
            joined_at: self.joined_at.map(|time| time.0),
            mute: self.mute,
            deaf: self.deaf,
            flags: self.flags,
            communication_disabled_until: self.communication_disabled_until.map(|time| time.0),
        }
    }
}

impl From<&Member> for MemberPut {
    fn from(member: &Member) -> Self {
        Self {
            nick: member.nick.as_deref().map(str::to_owned),
            roles: member.roles.iter().map(|role| (*role).into()).collect(),
            joined_at: Some(Time(member.joined_at)),
            mute: member.mute,
            deaf: member.deaf,
            flags: member.flags,
            communication_disabled_until: member.communication_disabled_until.map(Time),
        }
    }
}

/// A member with their account.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Member)]
pub(crate) struct MemberBody {
    /// Account of the member.
    pub user: UserBody,
    /// Fields of the member.
    #[serde(flatten)]
    pub fields: MemberPut,
}

impl From<&Member> for MemberBody {
    fn from(member: &Member) -> Self {
        Self { user: (&*member.user).into(), fields: member.into() }
    }
}

/// A line of an import: a member with their account. The fields of both are named again, because serde cannot refuse
/// unknown ones where it flattens.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImportLine {
    /// The account, which is put with these fields.
    pub user: ImportUser,
    /// As for a member.
    #[serde(default)]
    pub nick: Option<String>,
    /// As for a member.
    #[serde(default)]
    pub roles: Vec<Snowflake>,
    /// As for a member.
    #[serde(default)]
    pub joined_at: Option<Time>,
    /// As for a member.
    #[serde(default)]
    pub mute: bool,
    /// As for a member.
    #[serde(default)]
    pub deaf: bool,
    /// As for a member.
    #[serde(default)]
    pub flags: u32,
    /// As for a member.
    #[serde(default)]
    pub communication_disabled_until: Option<Time>,
}

/// The account of a line.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImportUser {
    /// Id of the account. Omitted: the account with this `external_id`, or a new one.
    #[serde(default)]
    pub id: Option<Snowflake>,
    /// As for an account.
    pub username: String,
    /// As for an account.
    #[serde(default = "no_discriminator")]
    pub discriminator: String,
    /// As for an account.
    #[serde(default)]
    pub global_name: Option<String>,
    /// As for an account.
    #[serde(default)]
    pub avatar: Option<String>,
    /// As for an account.
    #[serde(default)]
    pub banner: Option<String>,
    /// As for an account.
    #[serde(default)]
    pub bot: bool,
    /// As for an account.
    #[serde(default)]
    pub public_flags: u32,
    /// As for an account.
    #[serde(default)]
    pub application_flags: u32,
    /// As for an account. Omitted or null: unchanged.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128, pattern = "^[!-~]*$")]
    pub external_id: Option<String>,
}

impl ImportUser {
    fn into_fields(self) -> UserPut {
        let Self {
            id: _,
            username,
            discriminator,
            global_name,
            avatar,
            banner,
            bot,
            public_flags,
            application_flags,
            external_id,
        } = self;
        let external_id = external_id.map(Some);
        UserPut {
            username,
            discriminator,
            global_name,
            avatar,
            banner,
            bot,
            public_flags,
            application_flags,
            external_id,
        }
    }

    pub fn named(&self) -> Named {
        Named { id: self.id.map(|id| id.0), text: self.external_id.clone() }
    }
}

impl Check for ImportLine {
    fn check(&self, faults: &mut FieldErrors) {
        self.user.clone().into_fields().check_within("user.", faults);
        if self.user.id.is_none() && self.user.external_id.is_none() {
            faults.add("user.id", "Must be there, or `external_id`.");
        }
        check_fields(self.nick.as_deref(), &self.roles, faults);
    }
}

impl ImportLine {
    pub fn into_member(self, id: UserId) -> NewMember {
        let Self { user, nick, roles, joined_at, mute, deaf, flags, communication_disabled_until } = self;
        let user = Arc::new(user.into_fields().into_user(id));
        MemberPut { nick, roles, joined_at, mute, deaf, flags, communication_disabled_until }.into_member(user)
    }
}
