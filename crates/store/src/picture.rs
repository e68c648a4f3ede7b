//! Pictures: which of them the objects of a store refer to.
//!
//! Owns        `PictureOwner`, and the names that its pictures have: hashes of `avatar`, `banner` and the like;
//!             `emoji-ID`, `sticker-ID`, `role-ID-HASH` and `event-ID-HASH`.
//! Limits      `PICTURE_OWNERS_ASKED_MAX` owners per call of `Store::pictures_in_use`.
//! Not here    the files: `guildhall-media`.

use guildhall_model::{EmojiId, Guild, GuildId, Id, MemberPictures, Role, RoleIcon, RoleId, StickerId, User, UserId};
use std::collections::BTreeSet;

/// Maximum number of owners per call of `Store::pictures_in_use`.
pub const PICTURE_OWNERS_ASKED_MAX: usize = 64;

/// The object that pictures belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PictureOwner {
    /// An account, or a webhook by its id.
    User(UserId),
    /// A guild, with its roles, emoji, stickers and scheduled events.
    Guild(GuildId),
    /// A member's own pictures in one guild.
    Member(GuildId, UserId),
}

/// Names of the pictures that an object refers to.
pub type PictureNames = BTreeSet<String>;

/// Name of an emoji's picture.
#[must_use]
pub fn emoji_picture(id: EmojiId) -> String {
    format!("emoji-{id}")
}

/// Name of a sticker's picture.
#[must_use]
pub fn sticker_picture(id: StickerId) -> String {
    format!("sticker-{id}")
}

/// Name of a role's picture.
#[must_use]
pub fn role_picture(id: RoleId, hash: &str) -> String {
    format!("role-{id}-{hash}")
}

/// Name of a scheduled event's picture.
#[must_use]
pub fn event_picture(id: Id<()>, hash: &str) -> String {
    format!("event-{id}-{hash}")
}

fn hashes<'a>(of: impl IntoIterator<Item = Option<&'a str>>) -> impl Iterator<Item = String> {
    of.into_iter().flatten().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

pub(crate) fn of_user(user: &User) -> impl Iterator<Item = String> {
    hashes([user.avatar.as_deref(), user.banner.as_deref()])
}

pub(crate) fn of_member(pictures: &MemberPictures) -> impl Iterator<Item = String> {
    hashes([pictures.avatar.as_deref(), pictures.banner.as_deref()])
}

pub(crate) fn of_guild(guild: &Guild) -> PictureNames {
    let Guild { icon, splash, discovery_splash, banner, emojis, stickers, scheduled_events, .. } = guild;
    let fields = [icon.as_deref(), splash.as_deref(), discovery_splash.as_deref(), banner.as_deref()];
    let emojis = emojis.iter().map(|emoji| emoji_picture(emoji.id));
    let stickers = stickers.iter().map(|sticker| sticker_picture(sticker.id));
    let events = scheduled_events.iter();
    let events = events.filter_map(|event| event.image.as_deref().map(|hash| event_picture(event.id, hash)));
    hashes(fields).chain(emojis).chain(stickers).chain(events).collect()
}

pub(crate) fn of_role(role: &Role) -> Option<String> {
    match &role.icon {
        Some(RoleIcon::Picture(hash)) => Some(role_picture(role.id, hash)),
        _ => None,
    }
}
