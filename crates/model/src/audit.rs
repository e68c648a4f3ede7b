//! Audit log: moderators' actions in a guild, as stored.
//!
//! Spec  docs/protocol/choices.md "Audit log".

use crate::id::{Id, UserId};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

macro_rules! actions {
    ($($n:literal $name:ident),* $(,)?) => {
        /// Logged action. The numbers are those of the wire, and are stored.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum AuditAction { $(#[doc = concat!("Action ", stringify!($n), ".")] $name = $n,)* }

        impl AuditAction {
            /// The action with this number on the wire.
            #[must_use]
            pub const fn from_wire(n: u8) -> Option<Self> {
                match n { $($n => Some(Self::$name),)* _ => None }
            }
        }
    };
}
actions! {
    1 GuildUpdate,
    10 ChannelCreate, 11 ChannelUpdate, 12 ChannelDelete,
    13 ChannelOverwriteCreate, 14 ChannelOverwriteUpdate, 15 ChannelOverwriteDelete,
    20 MemberKick, 21 MemberPrune, 22 MemberBanAdd, 23 MemberBanRemove, 24 MemberUpdate, 25 MemberRoleUpdate,
    26 MemberMove, 27 MemberDisconnect, 28 BotAdd,
    30 RoleCreate, 31 RoleUpdate, 32 RoleDelete,
    40 InviteCreate, 42 InviteDelete,
    50 WebhookCreate, 51 WebhookUpdate, 52 WebhookDelete,
    60 EmojiCreate, 61 EmojiUpdate, 62 EmojiDelete,
    72 MessageDelete, 73 MessageBulkDelete, 74 MessagePin, 75 MessageUnpin,
    83 StageInstanceCreate, 84 StageInstanceUpdate, 85 StageInstanceDelete,
    90 StickerCreate, 91 StickerUpdate, 92 StickerDelete,
    100 ScheduledEventCreate, 101 ScheduledEventUpdate, 102 ScheduledEventDelete,
    110 ThreadCreate, 111 ThreadUpdate, 112 ThreadDelete,
    140 AutoModRuleCreate, 141 AutoModRuleUpdate, 142 AutoModRuleDelete,
    143 AutoModBlockMessage, 144 AutoModSendAlert, 145 AutoModTimeout,
    163 OnboardingPromptCreate, 164 OnboardingPromptUpdate, 165 OnboardingPromptDelete, 167 OnboardingUpdate,
}

impl AuditAction {
    /// Plain members do this without a moderator permission. Such entries have a quota of their own, so that
    /// they evict no others.
    #[must_use]
    pub const fn is_of_members(self) -> bool {
        matches!(
            self,
            Self::InviteCreate
                | Self::ThreadCreate
                | Self::ThreadUpdate
                | Self::AutoModBlockMessage
                | Self::AutoModSendAlert
                | Self::AutoModTimeout
        )
    }
}

impl Serialize for AuditAction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(*self as u8)
    }
}

impl<'de> Deserialize<'de> for AuditAction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let n = u8::deserialize(deserializer)?;
        Self::from_wire(n).ok_or_else(|| D::Error::custom(format_args!("{n} is not an audit log action")))
    }
}

/// One field that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditChange {
    /// Name of the field on the wire.
    pub key: String,
    /// Value before; none: the field was not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_value: Option<Value>,
    /// Value after; none: the field is not set any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_value: Option<Value>,
}

/// An entry of a guild's audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// The id also encodes the time of the entry.
    pub id: Id<()>,
    /// Logged action.
    pub action: AuditAction,
    /// The account that acted.
    pub user_id: UserId,
    /// User, role, channel or other object acted on. None if the action has no target, or names it in `changes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_id: Option<Id<()>>,
    /// Which fields were changed, and how.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<AuditChange>,
    /// Details of certain actions.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    /// Reason that the actor gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
