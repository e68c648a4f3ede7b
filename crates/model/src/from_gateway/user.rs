//! Users: as others see them, and the recipient's own account. Spec  docs/protocol/reference.md §6.1.

use crate::{id::UserId, user::User};
use serde::Serialize;

/// A user inside another object.
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
        }
    }
}

/// A user by itself, as anybody sees it: `/users/{id}`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PublicUserBody<'a> {
    #[serde(flatten)]
    user: UserBody<'a>,
    banner: Option<&'a str>,
    accent_color: (),
}

impl<'a> From<&'a User> for PublicUserBody<'a> {
    fn from(user: &'a User) -> Self {
        Self { user: user.into(), banner: user.banner.as_deref(), accent_color: () }
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
            premium_type: 0,
        }
    }
}
