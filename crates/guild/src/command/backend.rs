//! Commands of backends with a database of their own, and what they carry.
//!
//! Not here    what each does: `backend`.

use super::NewMessage;
use crate::publications::PublicationId;
use guildhall_guild_protocol::{AudienceRule, BackendEvent};
use guildhall_model::{
    Channel, ChannelId, Guild as GuildFields, Member, Message, MessageId, Role, RoleId, User, UserId,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Members of one `ImportMembers`. At some microseconds each a guild is held up for a millisecond or so.
pub const IMPORT_MEMBERS_MAX: usize = 256;

/// Members of one `ChangeRoles`. It is one transaction, so it cannot be cut: a guild is held up for some milliseconds.
pub const ROLE_CHANGES_MAX: usize = 1_000;

/// Messages of one `ReassignMessages`: each, and the one it answers, may have to be read first.
pub const REASSIGNED_MAX: usize = 25;

/// Messages of one `ImportMessages`.
pub const IMPORT_MESSAGES_MAX: usize = 256;

/// Condition of a command: the object that the caller read, changed in part, and puts as a whole.
/// `None`: any object, or none.
pub type Expected<T> = Option<Arc<T>>;

/// Command of a backend. System only.
#[derive(Clone, Debug, strum::EnumDiscriminants, Serialize, Deserialize)]
#[strum_discriminants(
    name(BackendKind),
    derive(strum::VariantNames),
    strum(serialize_all = "snake_case"),
    allow(missing_docs),
    doc = "Kind of a backend's command, for time accounting."
)]
pub enum BackendCommand {
    /// Replaces the base fields; with `Expected`, only these.
    PutGuild(Box<GuildFields>, Expected<GuildFields>),
    /// Adds or replaces a role; of `@everyone` only what can differ.
    PutRole(Box<Role>, Expected<Role>),
    /// Adds or replaces a channel. Its type cannot change.
    PutChannel(Box<Channel>, Expected<Channel>),
    /// Adds or replaces a member and their account.
    PutMember(Box<NewMember>, Expected<Member>),
    /// The account changed; nothing if it is no member.
    RefreshUser(Arc<User>),
    /// Adds or replaces up to `IMPORT_MEMBERS_MAX` members and their accounts. Roles that do not exist are left out.
    ImportMembers {
        /// New and changed members, with their accounts.
        members: Vec<NewMember>,
        /// Recipients of GUILD_MEMBER_ADD.
        audience: JoinAudience,
    },
    /// What `ImportMembers` would do. Changes nothing.
    CompareMembers(Vec<NewMember>),
    /// Removes up to `IMPORT_MEMBERS_MAX` members; accounts that are none and the owner are left out.
    /// Answered with how many.
    RemoveMembers(Vec<UserId>),
    /// Changes the roles of up to `ROLE_CHANGES_MAX` members, all or none. Answered with how many of
    /// them are not as before.
    ChangeRoles(Vec<(UserId, RoleChange)>),
    /// Up to `REASSIGNED_MAX` messages of a channel are another account's from then on. Those that do not exist are
    /// left out. Answered with how many are not as before. Also of direct messages.
    ReassignMessages {
        /// Channel or thread of all of them.
        channel_id: ChannelId,
        /// At most `REASSIGNED_MAX`.
        ids: Vec<MessageId>,
        /// The new author.
        to: Arc<User>,
    },
    /// Adds or replaces roles, as `PutRole`, all or none.
    PutRoles(Vec<Role>),
    /// Sends a message of an account, member or not. What concerns members is not checked: permissions, time-outs, slow
    /// mode. In a direct message the account is a recipient. Also of direct messages.
    SendMessage {
        channel_id: ChannelId,
        author: Arc<User>,
        message: Box<NewMessage>,
        /// Idempotency key: if the author's message with this key is at most five minutes old, it is the reply.
        key: Option<String>,
    },
    /// Stores up to `IMPORT_MESSAGES_MAX` messages of an earlier time, and publishes nothing. Those in memory stay as
    /// they are; the caller has left out the others that exist. Answered with how many were stored.
    ImportMessages(Vec<Arc<Message>>),
    /// Publishes an event, unless the guild has published one with this id.
    Publish {
        /// Audience; its channel and roles must exist.
        rule: AudienceRule,
        event: Arc<BackendEvent>,
        /// None: the event is not repeated.
        id: Option<PublicationId>,
    },
}

/// Recipients of the GUILD_MEMBER_ADD of an imported member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinAudience {
    AllMembers,
    /// Only the sessions of the new member.
    NewMember,
}

/// What becomes of a member's roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoleChange {
    /// They have these, and no other.
    Set(Vec<RoleId>),
    /// They have this one, too.
    Add(RoleId),
    /// They do not have this one.
    Remove(RoleId),
}

impl RoleChange {
    pub(crate) fn named(&self) -> &[RoleId] {
        match self {
            Self::Set(roles) => roles,
            Self::Add(role) | Self::Remove(role) => std::slice::from_ref(role),
        }
    }
}

/// What became of roles that were put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolesPut {
    /// How many are new.
    pub added: u64,
    /// How many were changed.
    pub changed: u64,
    /// How many were like that already.
    pub unchanged: u64,
}

/// A member as a backend puts them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewMember {
    /// The account, which replaces the stored one.
    pub user: Arc<User>,
    /// Guild-specific name.
    pub nick: Option<String>,
    /// Roles, `@everyone` aside.
    pub roles: Vec<RoleId>,
    /// None: as it was, or now.
    pub joined_at: Option<Timestamp>,
    /// Whether the member is muted by the server.
    pub mute: bool,
    /// Server deafen.
    pub deaf: bool,
    /// Member flags.
    pub flags: u32,
    /// End of the member's time-out.
    pub communication_disabled_until: Option<Timestamp>,
}

/// What became of an import's members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// Accounts that were no members before.
    pub added: Vec<UserId>,
    /// How many were changed.
    pub changed: u64,
    /// How many were like that already.
    pub unchanged: u64,
}
