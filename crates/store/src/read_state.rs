//! Read states of accounts: changes, and the bounds of what is read.

use guildhall_model::{ChannelId, MessageId, UserId, smallest_id_at};
use guildhall_stdx::Timestamp;

use crate::stored::StoredMember;

/// Changes per call of `Store::change_read_states`.
pub const READ_CHANGES_MAX: usize = 1_000;
/// Mentions of one target in one channel that `Store::unread_mentions` returns, the newest.
pub const MENTIONS_PER_CHANNEL_MAX: u32 = 1_000;
/// Mentions that it returns in all.
pub const MENTIONS_MAX: u32 = 10_000;
/// Direct messages per call of `Store::unread_directs`.
pub const DIRECTS_ASKED_MAX: usize = 1_000;

/// A message as the newest one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadUpTo {
    /// Unless a newer one was read.
    AtLeast(MessageId),
    /// Whatever was read before.
    Exactly(MessageId),
}

/// A change of a read state. A default one changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadChange {
    /// Forgets the state first.
    pub is_reset: bool,
    pub message: Option<ReadUpTo>,
    /// Time of the newest pin that was seen, unless a newer one was.
    pub pin: Option<Timestamp>,
    pub flags: Option<u32>,
    pub last_viewed: Option<u32>,
}

impl ReadChange {
    /// This change followed by a later one.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        if later.is_reset {
            return later;
        }
        let message = match (self.message, later.message) {
            (earlier, None) => earlier,
            (Some(ReadUpTo::AtLeast(a)), Some(ReadUpTo::AtLeast(b))) => Some(ReadUpTo::AtLeast(a.max(b))),
            (Some(ReadUpTo::Exactly(a)), Some(ReadUpTo::AtLeast(b))) => Some(ReadUpTo::Exactly(a.max(b))),
            (None, later) | (Some(_), later @ Some(ReadUpTo::Exactly(_))) => later,
        };
        Self {
            is_reset: self.is_reset,
            message,
            pin: self.pin.max(later.pin),
            flags: later.flags.or(self.flags),
            last_viewed: later.last_viewed.or(self.last_viewed),
        }
    }

    /// Whether a state exists afterwards because of this change.
    pub(crate) fn stores(&self) -> bool {
        self.message.is_some() || self.pin.is_some() || self.flags.is_some() || self.last_viewed.is_some()
    }

    /// Message, pin, flags and day as columns; negative: no change.
    pub(crate) fn columns(&self) -> [i64; 4] {
        let message = self.message.map(|(ReadUpTo::AtLeast(id) | ReadUpTo::Exactly(id))| id.get() as i64);
        let pin = self.pin.map(|at| at.0.max(0));
        [message, pin, self.flags.map(i64::from), self.last_viewed.map(i64::from)].map(|value| value.unwrap_or(-1))
    }

    pub(crate) fn is_exact(&self) -> bool {
        matches!(self.message, Some(ReadUpTo::Exactly(_)))
    }
}

/// A change of the state of one account in one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadStateChange {
    pub user_id: UserId,
    pub channel_id: ChannelId,
    pub change: ReadChange,
}

/// A direct message whose unread messages are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectSpan {
    pub channel_id: ChannelId,
    /// The newest message that was read.
    pub after: MessageId,
    /// The newest one that counts.
    pub up_to: MessageId,
}

/// Kind, id, and the largest message id that does not count.
pub(crate) type Target = (i64, i64, i64);

/// Kind of accounts in `mentions`.
pub(crate) const OF_USER: i64 = 0;
/// Kind of roles in `mentions`.
pub(crate) const OF_ROLE: i64 = 1;

/// By what a member of these guilds (id and membership) is mentioned. Messages to roles count from the day on which the
/// member joined.
pub(crate) fn targets(user_id: UserId, memberships: Vec<(i64, StoredMember)>) -> Vec<Target> {
    let mut targets = vec![(OF_USER, user_id.get() as i64, 0)];
    for (guild_id, member) in memberships {
        let joined = smallest_id_at::<()>(member.joined_at()).get() as i64;
        targets.push((OF_ROLE, guild_id, joined));
        targets.extend(member.roles().iter().map(|role_id| (OF_ROLE, role_id.get() as i64, joined)));
    }
    targets
}
