//! User: an account, as backends put, change and read it.

use super::HASH_CHARS_MAX;
use crate::{
    external,
    extract::{Check, FieldErrors},
    types::{Snowflake, nullable},
};
use guildhall_model::{
    User, UserId,
    name::{cleaned_of_person, is_blank},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All fields of an account.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserPut {
    /// Unique name of the account.
    #[schema(min_length = 1, max_length = 32)]
    pub username: String,
    /// Discriminator: "0" for none; bots may have four digits.
    #[serde(default = "no_discriminator")]
    #[schema(pattern = "^([0-9]|[0-9]{4})$")]
    pub discriminator: String,
    /// Display name shown to other users; null: the username.
    #[serde(default)]
    #[schema(max_length = 32)]
    pub global_name: Option<String>,
    /// Hash of the avatar.
    #[serde(default)]
    #[schema(max_length = 128)]
    pub avatar: Option<String>,
    /// Hash of the profile's banner.
    #[serde(default)]
    #[schema(max_length = 128)]
    pub banner: Option<String>,
    /// Whether the account is a bot. It cannot change.
    #[serde(default)]
    pub bot: bool,
    /// Public flags, as in the protocol.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 4294967295_u64)]
    pub public_flags: u32,
    /// Privileged intents of a bot: 4096 presences, 16384 members, 262144 message content.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 4294967295_u64)]
    pub application_flags: u32,
    /// Key of the account in your own database: unique among accounts, never sent to clients. Omitted:
    /// unchanged. Null: none.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, required = false, min_length = 1, max_length = 128, pattern = "^[!-~]*$")]
    pub external_id: Option<Option<String>>,
}

pub(super) fn no_discriminator() -> String {
    "0".to_owned()
}

impl Check for UserPut {
    fn check(&self, faults: &mut FieldErrors) {
        self.check_within("", faults);
    }
}

impl UserPut {
    pub fn check_within(&self, within: &str, faults: &mut FieldErrors) {
        faults.name(&format!("{within}username"), &self.username, 1, 32);
        let digits = self.discriminator.bytes().all(|b| b.is_ascii_digit());
        if !digits || !matches!(self.discriminator.len(), 1 | 4) {
            faults.add(format!("{within}discriminator"), "Must be \"0\" or four digits.");
        }
        faults.name(&format!("{within}global_name"), self.global_name.as_deref().unwrap_or_default(), 0, 32);
        faults.optional_text(&format!("{within}avatar"), self.avatar.as_deref(), HASH_CHARS_MAX);
        faults.optional_text(&format!("{within}banner"), self.banner.as_deref(), HASH_CHARS_MAX);
        external::check(&format!("{within}external_id"), self.external_id.as_ref().and_then(Option::as_deref), faults);
    }

    pub fn into_user(self, id: UserId) -> User {
        User {
            id,
            username: cleaned_of_person(&self.username),
            discriminator: self.discriminator,
            global_name: self.global_name.as_deref().and_then(display_name),
            avatar: self.avatar,
            banner: self.banner.map(Into::into),
            bot: self.bot,
            public_flags: self.public_flags,
            application_flags: self.application_flags,
        }
    }
}

/// A display name; none if it is blank.
pub(super) fn display_name(name: &str) -> Option<String> {
    (!is_blank(name)).then(|| cleaned_of_person(name))
}

impl From<&User> for UserPut {
    fn from(user: &User) -> Self {
        Self {
            username: user.username.clone(),
            discriminator: user.discriminator.clone(),
            global_name: user.global_name.clone(),
            avatar: user.avatar.clone(),
            banner: user.banner.as_deref().map(str::to_owned),
            bot: user.bot,
            public_flags: user.public_flags,
            application_flags: user.application_flags,
            external_id: None,
        }
    }
}

/// An account, user or bot.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = User)]
pub(crate) struct UserBody {
    /// Id of the account.
    pub id: Snowflake,
    #[serde(flatten)]
    pub fields: UserPut,
}

impl From<&User> for UserBody {
    fn from(user: &User) -> Self {
        Self { id: user.id.into(), fields: user.into() }
    }
}

impl UserBody {
    pub fn with_external_id(mut self, external_id: Option<String>) -> Self {
        self.fields.external_id = Some(external_id);
        self
    }
}
