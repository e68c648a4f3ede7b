//! Bodies: objects as backends put, change and read them.
//!
//! Owns        a struct per object and direction: what is put whole, what is changed in part, what is told.
//! Invariants  O1 what is told of an object can be put again, its own id and what only the node knows aside.
//!             Spec  docs/backend-api.md "Objects"; docs/protocol.md §6 for what the fields mean.

use super::{
    input::{Check, Faults},
    types::{Bits, Snowflake, Time, nullable},
};
use guildhall_guild::{GuildReply, NewMember};
use guildhall_model::{
    Channel, ChannelId, ChannelType, Guild, GuildId, Member, Overwrite, OverwriteKind, Permissions, Role, RoleId, User,
    UserId,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

const NAME_CHARS_MAX: usize = 100;
const TOPIC_CHARS_MAX: usize = 4096;
const HASH_CHARS_MAX: usize = 128;
const OVERWRITES_MAX: usize = 1_000;
const ROLES_MAX: usize = 250;
const COLOR_MAX: u32 = 0xff_ffff;
const SLOW_MODE_S_MAX: u16 = 21_600;
const USER_LIMIT_MAX: u16 = 10_000;
const BITRATE_MAX: u32 = 384_000;

fn afk_timeout() -> u16 {
    300
}

fn locale() -> String {
    "en-US".to_owned()
}

// ── guilds ───────────────────────────────────────────────────────────────────────────────────────

/// A guild's own fields, whole.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuildPut {
    /// What it is called.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// Who may do everything: an account that exists. Of a guild that exists, a member.
    pub owner_id: Snowflake,
    /// Hash of the picture.
    #[serde(default)]
    #[schema(max_length = 128)]
    pub icon: Option<String>,
    /// What it is about.
    #[serde(default)]
    #[schema(max_length = 300)]
    pub description: Option<String>,
    /// Where idle people in voice go: a channel that exists.
    #[serde(default)]
    pub afk_channel_id: Option<Snowflake>,
    /// Seconds until then.
    #[serde(default = "afk_timeout")]
    #[schema(minimum = 60, maximum = 3600)]
    pub afk_timeout: u16,
    /// Where system messages go: a channel that exists.
    #[serde(default)]
    pub system_channel_id: Option<Snowflake>,
    /// 0–4.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 4)]
    pub verification_level: u8,
    /// 0 all messages, 1 only mentions.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1)]
    pub default_message_notifications: u8,
    /// 0–2.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 2)]
    pub explicit_content_filter: u8,
    /// Feature names, passed on to clients.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub features: Vec<String>,
    /// Language.
    #[serde(default = "locale")]
    #[schema(min_length = 2, max_length = 16)]
    pub preferred_locale: String,
}

impl Check for GuildPut {
    fn check(&self, faults: &mut Faults) {
        faults.text("name", &self.name, 1, NAME_CHARS_MAX);
        optional_text(faults, "icon", self.icon.as_deref(), HASH_CHARS_MAX);
        optional_text(faults, "description", self.description.as_deref(), 300);
        faults.number("afk_timeout", self.afk_timeout.into(), 60, 3600);
        faults.number("verification_level", self.verification_level.into(), 0, 4);
        faults.number("default_message_notifications", self.default_message_notifications.into(), 0, 1);
        faults.number("explicit_content_filter", self.explicit_content_filter.into(), 0, 2);
        faults.count("features", self.features.len(), 0, 100);
        for (index, feature) in self.features.iter().enumerate() {
            faults.text(&format!("features[{index}]"), feature, 1, 64);
        }
        faults.text("preferred_locale", &self.preferred_locale, 2, 16);
    }
}

fn optional_text(faults: &mut Faults, field: &str, text: Option<&str>, max: usize) {
    if let Some(text) = text {
        faults.text(field, text, 0, max);
    }
}

impl GuildPut {
    /// The fields it stands for. What it does not speak of is as `before` has it.
    pub fn into_guild(self, id: GuildId, before: Option<&Guild>) -> Guild {
        fn kept<T: Clone>(before: Option<&Guild>, field: impl Fn(&Guild) -> &Vec<T>) -> Vec<T> {
            before.map_or_else(Vec::new, |before| field(before).clone())
        }
        Guild {
            id,
            name: self.name,
            icon: self.icon,
            description: self.description,
            owner_id: self.owner_id.id(),
            afk_channel_id: self.afk_channel_id.map(Snowflake::id),
            afk_timeout: self.afk_timeout,
            verification_level: self.verification_level,
            default_message_notifications: self.default_message_notifications,
            explicit_content_filter: self.explicit_content_filter,
            system_channel_id: self.system_channel_id.map(Snowflake::id),
            features: self.features,
            emojis: kept(before, |before| &before.emojis),
            stickers: kept(before, |before| &before.stickers),
            scheduled_events: kept(before, |before| &before.scheduled_events),
            stage_instances: kept(before, |before| &before.stage_instances),
            is_direct: false,
            preferred_locale: self.preferred_locale,
        }
    }
}

impl From<&Guild> for GuildPut {
    fn from(guild: &Guild) -> Self {
        Self {
            name: guild.name.clone(),
            owner_id: guild.owner_id.into(),
            icon: guild.icon.clone(),
            description: guild.description.clone(),
            afk_channel_id: guild.afk_channel_id.map(Into::into),
            afk_timeout: guild.afk_timeout,
            system_channel_id: guild.system_channel_id.map(Into::into),
            verification_level: guild.verification_level,
            default_message_notifications: guild.default_message_notifications,
            explicit_content_filter: guild.explicit_content_filter,
            features: guild.features.clone(),
            preferred_locale: guild.preferred_locale.clone(),
        }
    }
}

/// A guild.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Guild)]
pub(crate) struct GuildBody {
    /// Its id.
    pub id: Snowflake,
    /// Its own fields.
    #[serde(flatten)]
    pub fields: GuildPut,
    /// Members.
    pub member_count: u64,
    /// Members who are not offline.
    pub presence_count: u64,
}

impl From<&GuildReply> for GuildBody {
    fn from(reply: &GuildReply) -> Self {
        let guild = &*reply.meta.guild;
        Self {
            id: guild.id.into(),
            fields: guild.into(),
            member_count: reply.member_count,
            presence_count: reply.presence_count,
        }
    }
}

/// Changes to an object: its fields as for PUT, those that are left out stay.
///
/// They are laid over what is there as `PUT` takes it, and checked whole.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Patch(pub serde_json::Map<String, serde_json::Value>);

impl Check for Patch {
    fn check(&self, _: &mut Faults) {}
}

impl Patch {
    /// What it makes of an object.
    pub fn apply<T: Serialize + serde::de::DeserializeOwned + Check>(
        &self,
        before: &T,
    ) -> Result<T, super::error::V1Error> {
        let mut fields = serde_json::to_value(before).map_err(|_| super::error::V1Error::bug("an object as JSON"))?;
        if let Some(fields) = fields.as_object_mut() {
            fields.extend(self.0.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        super::input::parse(&serde_json::to_vec(&fields).map_err(|_| super::error::V1Error::bug("a value as JSON"))?)
    }
}

// ── roles ────────────────────────────────────────────────────────────────────────────────────────

/// A role, whole.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RolePut {
    /// What it is called. `@everyone` keeps its name.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// RGB; 0 for none.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 16777215)]
    pub color: u32,
    /// Shown apart in member lists.
    #[serde(default)]
    pub hoist: bool,
    /// Its place: higher ones are above; at least 1 but for `@everyone`.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 2147483647)]
    pub position: i32,
    /// What it grants.
    #[serde(default = "nothing")]
    pub permissions: Bits,
    /// Owned by an integration: members cannot give or take it.
    #[serde(default)]
    pub managed: bool,
    /// Everybody may mention it.
    #[serde(default)]
    pub mentionable: bool,
}

fn nothing() -> Bits {
    Bits(Permissions::NONE)
}

impl Check for RolePut {
    fn check(&self, faults: &mut Faults) {
        faults.text("name", &self.name, 1, NAME_CHARS_MAX);
        faults.number("color", self.color.into(), 0, COLOR_MAX.into());
        faults.number("position", self.position.into(), 0, i32::MAX.into());
    }
}

impl RolePut {
    pub fn into_role(self, id: RoleId) -> Role {
        Role {
            id,
            name: self.name,
            color: self.color,
            hoist: self.hoist,
            position: self.position,
            permissions: self.permissions.0,
            managed: self.managed,
            mentionable: self.mentionable,
        }
    }
}

impl From<&Role> for RolePut {
    fn from(role: &Role) -> Self {
        Self {
            name: role.name.clone(),
            color: role.color,
            hoist: role.hoist,
            position: role.position,
            permissions: Bits(role.permissions),
            managed: role.managed,
            mentionable: role.mentionable,
        }
    }
}

/// A role.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Role)]
pub(crate) struct RoleBody {
    /// Its id.
    pub id: Snowflake,
    /// Its fields.
    #[serde(flatten)]
    pub fields: RolePut,
}

impl From<&Role> for RoleBody {
    fn from(role: &Role) -> Self {
        Self { id: role.id.into(), fields: role.into() }
    }
}

// ── channels ─────────────────────────────────────────────────────────────────────────────────────

/// What a channel allows and denies to a role or a member.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverwriteBody {
    /// A role of the guild, or a user.
    pub id: Snowflake,
    /// 0 a role, 1 a member.
    #[serde(rename = "type")]
    #[schema(minimum = 0, maximum = 1)]
    pub kind: u8,
    /// Granted here.
    #[serde(default = "nothing")]
    pub allow: Bits,
    /// Taken away here.
    #[serde(default = "nothing")]
    pub deny: Bits,
}

impl From<&Overwrite> for OverwriteBody {
    fn from(overwrite: &Overwrite) -> Self {
        let (id, kind) = match overwrite.target {
            OverwriteKind::Role(id) => (id.into(), 0),
            OverwriteKind::Member(id) => (id.into(), 1),
        };
        Self { id, kind, allow: Bits(overwrite.allow), deny: Bits(overwrite.deny) }
    }
}

impl From<OverwriteBody> for Overwrite {
    fn from(body: OverwriteBody) -> Self {
        let target =
            if body.kind == 0 { OverwriteKind::Role(body.id.id()) } else { OverwriteKind::Member(body.id.id()) };
        Self { target, allow: body.allow.0, deny: body.deny.0 }
    }
}

/// A channel, whole.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChannelPut {
    /// What it is called.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// 0 text, 2 voice, 4 category, 5 announcement, 13 stage, 15 forum, 16 media. It stays, but for 0 and 5.
    #[serde(rename = "type")]
    #[schema(minimum = 0, maximum = 16)]
    pub kind: u8,
    /// Order: by position, then by id.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 2147483647)]
    pub position: i32,
    /// Its category.
    #[serde(default)]
    pub parent_id: Option<Snowflake>,
    /// What it is about.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub topic: Option<String>,
    /// Age-restricted.
    #[serde(default)]
    pub nsfw: bool,
    /// Seconds a member waits between messages.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 21600)]
    pub rate_limit_per_user: u16,
    /// Bits per second; voice only.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 384000)]
    pub bitrate: u32,
    /// Most people in voice; 0 for no limit.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 10000)]
    pub user_limit: u16,
    /// Who may do what here, over what the guild says. Roles must exist.
    #[serde(default)]
    #[schema(max_items = 1000)]
    pub permission_overwrites: Vec<OverwriteBody>,
}

impl Check for ChannelPut {
    fn check(&self, faults: &mut Faults) {
        faults.text("name", &self.name, 1, NAME_CHARS_MAX);
        if ChannelType::from_wire(self.kind).is_none() {
            faults.add("type", "Must be one of 0, 2, 4, 5, 13, 15, 16.");
        }
        faults.number("position", self.position.into(), 0, i32::MAX.into());
        optional_text(faults, "topic", self.topic.as_deref(), TOPIC_CHARS_MAX);
        faults.number("rate_limit_per_user", self.rate_limit_per_user.into(), 0, SLOW_MODE_S_MAX.into());
        faults.number("bitrate", self.bitrate.into(), 0, BITRATE_MAX.into());
        faults.number("user_limit", self.user_limit.into(), 0, USER_LIMIT_MAX.into());
        faults.count("permission_overwrites", self.permission_overwrites.len(), 0, OVERWRITES_MAX);
        for (index, overwrite) in self.permission_overwrites.iter().enumerate() {
            faults.number(&format!("permission_overwrites[{index}].type"), overwrite.kind.into(), 0, 1);
        }
    }
}

impl ChannelPut {
    pub fn into_channel(self, id: ChannelId, guild_id: GuildId) -> Channel {
        let kind = ChannelType::from_wire(self.kind).unwrap_or(ChannelType::Text);
        let plain = Channel::new(id, guild_id, kind, &self.name);
        Channel {
            position: self.position,
            overwrites: self.permission_overwrites.into_iter().map(Into::into).collect(),
            parent_id: self.parent_id.map(Snowflake::id),
            topic: self.topic,
            nsfw: self.nsfw,
            rate_limit_per_user: self.rate_limit_per_user,
            bitrate: if kind.is_voice() && self.bitrate == 0 { plain.bitrate } else { self.bitrate },
            user_limit: self.user_limit,
            ..plain
        }
    }
}

impl From<&Channel> for ChannelPut {
    fn from(channel: &Channel) -> Self {
        Self {
            name: channel.name.clone(),
            kind: channel.kind as u8,
            position: channel.position,
            parent_id: channel.parent_id.map(Into::into),
            topic: channel.topic.clone(),
            nsfw: channel.nsfw,
            rate_limit_per_user: channel.rate_limit_per_user,
            bitrate: channel.bitrate,
            user_limit: channel.user_limit,
            permission_overwrites: channel.overwrites.iter().map(Into::into).collect(),
        }
    }
}

/// A channel.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Channel)]
pub(crate) struct ChannelBody {
    /// Its id.
    pub id: Snowflake,
    /// The guild it is in.
    pub guild_id: Snowflake,
    /// Its fields.
    #[serde(flatten)]
    pub fields: ChannelPut,
    /// The newest message; it may have been deleted since.
    pub last_message_id: Option<Snowflake>,
}

impl From<&Channel> for ChannelBody {
    fn from(channel: &Channel) -> Self {
        Self {
            id: channel.id.into(),
            guild_id: channel.guild_id.into(),
            fields: channel.into(),
            last_message_id: channel.last_message_id.map(Into::into),
        }
    }
}

// ── users ────────────────────────────────────────────────────────────────────────────────────────

/// An account, whole.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserPut {
    /// What it is called.
    #[schema(min_length = 1, max_length = 32)]
    pub username: String,
    /// "0" for names without one; bots may have four digits.
    #[serde(default = "no_discriminator")]
    #[schema(pattern = "^([0-9]|[0-9]{4})$")]
    pub discriminator: String,
    /// The name others see.
    #[serde(default)]
    #[schema(max_length = 32)]
    pub global_name: Option<String>,
    /// Hash of the picture.
    #[serde(default)]
    #[schema(max_length = 128)]
    pub avatar: Option<String>,
    /// A bot. It stays what it was made.
    #[serde(default)]
    pub bot: bool,
    /// Public flags.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 4294967295_u64)]
    pub public_flags: u32,
    /// Of a bot: which privileged intents it may use. 4096 presences, 16384 members, 262144 message content.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 4294967295_u64)]
    pub application_flags: u32,
}

fn no_discriminator() -> String {
    "0".to_owned()
}

impl Check for UserPut {
    fn check(&self, faults: &mut Faults) {
        self.check_within("", faults);
    }
}

impl UserPut {
    fn check_within(&self, within: &str, faults: &mut Faults) {
        faults.text(&format!("{within}username"), &self.username, 1, 32);
        let digits = self.discriminator.bytes().all(|b| b.is_ascii_digit());
        if !digits || !matches!(self.discriminator.len(), 1 | 4) {
            faults.add(format!("{within}discriminator"), "Must be \"0\" or four digits.");
        }
        optional_text(faults, &format!("{within}global_name"), self.global_name.as_deref(), 32);
        optional_text(faults, &format!("{within}avatar"), self.avatar.as_deref(), HASH_CHARS_MAX);
    }

    pub fn into_user(self, id: UserId) -> User {
        User {
            id,
            username: self.username,
            discriminator: self.discriminator,
            global_name: self.global_name,
            avatar: self.avatar,
            bot: self.bot,
            public_flags: self.public_flags,
            application_flags: self.application_flags,
        }
    }
}

impl From<&User> for UserPut {
    fn from(user: &User) -> Self {
        Self {
            username: user.username.clone(),
            discriminator: user.discriminator.clone(),
            global_name: user.global_name.clone(),
            avatar: user.avatar.clone(),
            bot: user.bot,
            public_flags: user.public_flags,
            application_flags: user.application_flags,
        }
    }
}

/// An account.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = User)]
pub(crate) struct UserBody {
    /// Its id.
    pub id: Snowflake,
    /// Its fields.
    #[serde(flatten)]
    pub fields: UserPut,
}

impl From<&User> for UserBody {
    fn from(user: &User) -> Self {
        Self { id: user.id.into(), fields: user.into() }
    }
}

// ── members ──────────────────────────────────────────────────────────────────────────────────────

/// A member, whole. Their account is put with `/v1/users`.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberPut {
    /// The name others see in this guild.
    #[serde(default)]
    #[schema(max_length = 32)]
    pub nick: Option<String>,
    /// Roles of the guild, `@everyone` aside.
    #[serde(default)]
    #[schema(max_items = 250)]
    pub roles: Vec<Snowflake>,
    /// When they joined. Left out or null: as it was, or now.
    #[serde(default)]
    pub joined_at: Option<Time>,
    /// Server mute.
    #[serde(default)]
    pub mute: bool,
    /// Server deafen.
    #[serde(default)]
    pub deaf: bool,
    /// Member flags.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 4294967295_u64)]
    pub flags: u32,
    /// Time-out until then.
    #[serde(default)]
    pub communication_disabled_until: Option<Time>,
}

impl Check for MemberPut {
    fn check(&self, faults: &mut Faults) {
        optional_text(faults, "nick", self.nick.as_deref(), 32);
        faults.count("roles", self.roles.len(), 0, ROLES_MAX);
    }
}

impl MemberPut {
    pub fn into_member(self, user: Arc<User>) -> NewMember {
        NewMember {
            user,
            nick: self.nick.filter(|nick| !nick.is_empty()),
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
            nick: member.nick.clone(),
            roles: member.roles.iter().map(|role| (*role).into()).collect(),
            joined_at: Some(Time(member.joined_at)),
            mute: member.mute,
            deaf: member.deaf,
            flags: member.flags,
            communication_disabled_until: member.communication_disabled_until.map(Time),
        }
    }
}

/// A member.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Member)]
pub(crate) struct MemberBody {
    /// Their account.
    pub user: UserBody,
    /// Their fields.
    #[serde(flatten)]
    pub fields: MemberPut,
}

impl From<&Member> for MemberBody {
    fn from(member: &Member) -> Self {
        Self { user: (&*member.user).into(), fields: member.into() }
    }
}

/// A line of an import: a member with their account.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImportLine {
    /// The account; put as it is here.
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
    /// Its id.
    pub id: Snowflake,
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
    pub bot: bool,
    /// As for an account.
    #[serde(default)]
    pub public_flags: u32,
    /// As for an account.
    #[serde(default)]
    pub application_flags: u32,
}

impl ImportUser {
    fn fields(&self) -> UserPut {
        UserPut {
            username: self.username.clone(),
            discriminator: self.discriminator.clone(),
            global_name: self.global_name.clone(),
            avatar: self.avatar.clone(),
            bot: self.bot,
            public_flags: self.public_flags,
            application_flags: self.application_flags,
        }
    }
}

impl Check for ImportLine {
    fn check(&self, faults: &mut Faults) {
        self.user.fields().check_within("user.", faults);
        optional_text(faults, "nick", self.nick.as_deref(), 32);
        faults.count("roles", self.roles.len(), 0, ROLES_MAX);
    }
}

impl ImportLine {
    pub fn into_member(self) -> NewMember {
        let user = Arc::new(self.user.fields().into_user(self.user.id.id()));
        let Self { user: _, nick, roles, joined_at, mute, deaf, flags, communication_disabled_until } = self;
        MemberPut { nick, roles, joined_at, mute, deaf, flags, communication_disabled_until }.into_member(user)
    }
}

// ── patches in the document ──────────────────────────────────────────────────────────────────────

macro_rules! patches {
    ($($(#[$doc:meta])* $name:ident as $shown:ident { $($field:ident: $type:ty),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Default, Deserialize, ToSchema)]
        #[schema(as = $shown)]
        #[expect(dead_code, reason = "only its schema is used: the fields are laid over the object as `Patch`")]
        pub(crate) struct $name { $(
            #[serde(default, deserialize_with = "nullable")]
            #[schema(value_type = Option<$type>, required = false)]
            $field: Option<Option<$type>>,
        )* }
    )* };
}
patches! {
    /// Fields of a guild to change, as for PUT.
    GuildChange as GuildPatch {
        name: String, owner_id: Snowflake, icon: String, description: String, afk_channel_id: Snowflake, afk_timeout: u16,
        system_channel_id: Snowflake, verification_level: u8, default_message_notifications: u8,
        explicit_content_filter: u8, features: Vec<String>, preferred_locale: String,
    }
    /// Fields of a role to change, as for PUT.
    RoleChange as RolePatch {
        name: String, color: u32, hoist: bool, position: i32, permissions: Bits, managed: bool, mentionable: bool,
    }
    /// Fields of a channel to change, as for PUT. What it is stays.
    ChannelChange as ChannelPatch {
        name: String, position: i32, parent_id: Snowflake, topic: String, nsfw: bool, rate_limit_per_user: u16,
        bitrate: u32, user_limit: u16, permission_overwrites: Vec<OverwriteBody>,
    }
    /// Fields of an account to change, as for PUT.
    UserChange as UserPatch {
        username: String, discriminator: String, global_name: String, avatar: String, public_flags: u32,
        application_flags: u32,
    }
    /// Fields of a member to change, as for PUT.
    MemberChange as MemberPatch {
        nick: String, roles: Vec<Snowflake>, joined_at: Time, mute: bool, deaf: bool, flags: u32,
        communication_disabled_until: Time,
    }
}
