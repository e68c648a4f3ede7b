//! View changes: channels that a change of the guild hides from members, or shows to them.
//!
//! Owns        the events by which members learn that a channel is hidden from them or visible; `ViewsBefore`, the
//!             views that the last change of the guild replaced.
//! Doors       `AudienceIndex::fan_out` decides the form per class; `AudienceIndex::view_changes` after an event.
//! Invariants  N1 no member receives the newest message or pin of a channel outside their view. N2 with `Obfuscated`
//!             no member receives more than type, position and category of one, and with `Absent` nothing. N3 then a
//!             channel that enters or leaves a view leads to one event for all sessions with that change, and each of
//!             them receives it once. (tests `s13_*` of `partition`)
//! Limits      views are compared per class, and per user for members whose class changed.
//! Spec        docs/protocol/choices.md; docs/adr/0031.

use guildhall_guild_protocol::GuildStructure;
use guildhall_model::{ChannelId, UserId};
use std::sync::Arc;

/// Views before the last change of roles, channels, owner or a member. Empty with `HiddenChannels::Listed`.
#[derive(Debug, Default)]
pub(crate) struct ViewsBefore {
    /// The guild before.
    pub structure: Option<Arc<GuildStructure>>,
    /// Classes whose view changed, by place, and the channels that they viewed; both sorted.
    pub classes: Vec<(usize, Arc<[ChannelId]>)>,
    /// Users who changed their class, and the channels that they viewed; both sorted.
    pub users: Vec<(UserId, Arc<[ChannelId]>)>,
}

impl ViewsBefore {
    /// Channels that a class viewed, if its view changed.
    pub fn of_class(&self, place: usize) -> Option<&Arc<[ChannelId]>> {
        let found = self.classes.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        Some(&self.classes[found].1)
    }

    /// Channels that a user viewed in another class. Such a user is treated apart from the class.
    pub fn of_user(&self, user_id: UserId) -> Option<&Arc<[ChannelId]>> {
        let found = self.users.binary_search_by_key(&user_id, |(user_id, _)| *user_id).ok()?;
        Some(&self.users[found].1)
    }
}

/// Sessions whose view changed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Viewers {
    /// Those of the class at this place, without users who came from another class.
    Class(usize),
    /// Those of a user who came from another class.
    User(UserId),
}

/// A channel that entered or left a view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewChange {
    pub channel_id: ChannelId,
    pub is_gained: bool,
    pub viewers: Viewers,
}
