//! Users: as others see them, and the recipient's own account. Spec  docs/protocol/reference.md §6.1.

use crate::{id::UserId, user::User};
use serde::Serialize;

/// A user inside another object. Events do not have the last two keys: no client needs them there, and each event
/// would be 31 bytes longer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct UserBody<'a> {
    id: UserId,
    username: &'a str,
    discriminator: &'a str,
    global_name: Option<&'a str>,
    avatar: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    bot: bool,
    public_flags: u32,
    avatar_decoration_data: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    flags: Option<u32>,
    /// `Some(())` is null: guild tags are not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    primary_guild: Option<()>,
}

impl UserBody<'_> {
    /// Adds the keys that only answers of REST have.
    #[must_use]
    pub fn for_rest(self) -> Self {
        Self { flags: Some(self.public_flags), primary_guild: Some(()), ..self }
    }
}

impl<'a> From<&'a User> for UserBody<'a> {
    fn from(user: &'a User) -> Self {
        Self {
            id: user.id,
            username: &user.username,
            discriminator: &user.discriminator,
            global_name: user.global_name.as_deref(),
            avatar: user.avatar.as_deref(),
            bot: user.bot,
            public_flags: user.public_flags,
            avatar_decoration_data: (),
            flags: None,
            primary_guild: None,
        }
    }
}

/// A user with the fields that every account may see: `/users/{id}`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PublicUserBody<'a> {
    #[serde(flatten)]
    user: UserBody<'a>,
    banner: Option<&'a str>,
    accent_color: (),
}

impl<'a> From<&'a User> for PublicUserBody<'a> {
    fn from(user: &'a User) -> Self {
        Self { user: UserBody::from(user).for_rest(), banner: user.banner.as_deref(), accent_color: () }
    }
}

/// The recipient's own account: READY, `/users/@me`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SelfUserBody<'a> {
    #[serde(flatten)]
    user: UserBody<'a>,
    banner: Option<&'a str>,
    accent_color: (),
    mfa_enabled: bool,
    locale: &'a str,
    verified: bool,
    email: (),
    flags: u32,
    primary_guild: (),
    premium_type: u8,
}

impl<'a> From<&'a User> for SelfUserBody<'a> {
    fn from(user: &'a User) -> Self {
        Self {
            user: user.into(),
            banner: user.banner.as_deref(),
            accent_color: (),
            mfa_enabled: user.bot,
            locale: "en-US",
            verified: true,
            email: (),
            flags: user.public_flags,
            primary_guild: (),
            premium_type: 0,
        }
    }
}
