//! Permits to read a request's body.
//!
//! Owns        `ReadPermit`, and every function that makes one.
//! Invariants  K1 there is no permit for an anonymous request, nor for a path with an object that does not exist or
//!             that the caller may not view. `crate::body` reads no byte without a permit. (test
//!             `s3_no_route_reads_a_body_early` of `guildhall`)
//! Not here    permissions: the guild checks them when it gets the command.

use crate::{auth::Caller, error::ApiError, state::Api};
use guildhall_guild::{Command, GuildReply, request::AuthorizeHistory};
use guildhall_http_kit::{Party, Permit};
use guildhall_model::{ChannelId, GuildId, MessageId, UserId, Webhook};

/// The object that the node has found before it reads the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyPermit {
    /// The account of the request. The path has no object, or one of this account's application.
    Caller,
    /// A channel, thread or direct message that the caller can view.
    Channel,
    /// A message that the caller may read, or wrote.
    Message,
    /// A guild of which the caller is a member.
    Guild,
    /// A member of such a guild.
    Member,
    /// An object that was found in such a guild.
    Object,
    /// A webhook that the caller manages, or with its token in the path; or an interaction with its token in the path.
    Webhook,
}

/// Proof that the sender of a request is authenticated and that the object in its path exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadPermit {
    of: Party,
    kind: BodyPermit,
}

impl ReadPermit {
    /// For a path of `/api` without an object in it.
    pub fn caller(caller: &Caller) -> Self {
        Self::account(caller, BodyPermit::Caller)
    }

    fn account(caller: &Caller, kind: BodyPermit) -> Self {
        Self { of: Party::Account(caller.id.get()), kind }
    }

    /// For a channel, thread or direct message that the caller can view.
    pub async fn channel(api: &Api, caller: &Caller, channel_id: ChannelId) -> Result<Self, ApiError> {
        api.request_in_channel(caller, channel_id, Command::ReadChannel(channel_id)).await?;
        Ok(Self::account(caller, BodyPermit::Channel))
    }

    /// For a message that the caller may read, or wrote. To callers who may not read the history, all others are
    /// refused alike, whether they exist or not.
    pub async fn message(
        api: &Api,
        caller: &Caller,
        channel_id: ChannelId,
        message_id: MessageId,
    ) -> Result<Self, ApiError> {
        let grant = api.request_in_channel(caller, channel_id, AuthorizeHistory(channel_id)).await?;
        match api.node.store().message(channel_id, message_id).await? {
            Some(found) if grant.may_read_history || found.message.author.id == caller.id => {
                Ok(Self::account(caller, BodyPermit::Message))
            }
            None if grant.may_read_history => Err(ApiError::UNKNOWN_MESSAGE),
            Some(_) | None => Err(ApiError::MISSING_PERMISSIONS),
        }
    }

    /// For a guild of which the caller is a member.
    pub async fn guild(api: &Api, caller: &Caller, guild_id: GuildId) -> Result<Self, ApiError> {
        let Self { of, .. } = Self::member(api, caller, guild_id, caller.id).await?;
        Ok(Self { of, kind: BodyPermit::Guild })
    }

    /// For a guild that was read with the permissions of the caller.
    pub fn read_guild(caller: &Caller, _: &GuildReply) -> Self {
        Self::account(caller, BodyPermit::Guild)
    }

    /// For a member of a guild of which the caller is a member.
    pub async fn member(api: &Api, caller: &Caller, guild_id: GuildId, user_id: UserId) -> Result<Self, ApiError> {
        api.request(caller, guild_id, Command::ReadMember(user_id)).await?;
        Ok(Self::account(caller, BodyPermit::Member))
    }

    /// For an object that was found in a guild, read with the permissions of the caller.
    pub fn in_guild<T>(caller: &Caller, _: &GuildReply, _object: &T) -> Self {
        Self::account(caller, BodyPermit::Object)
    }

    /// For a webhook that was read with the permissions of the caller.
    pub fn managed_webhook(caller: &Caller, _: &Webhook) -> Self {
        Self::account(caller, BodyPermit::Webhook)
    }

    /// For a webhook that was read with its token.
    pub fn webhook(webhook: &Webhook) -> Self {
        Self { of: Party::Webhook(webhook.id.get()), kind: BodyPermit::Webhook }
    }

    /// For an interaction with its token in the path, which the caller has checked.
    pub fn interaction(application: UserId) -> Self {
        Self { of: Party::Webhook(application.get()), kind: BodyPermit::Webhook }
    }

    pub fn kind(self) -> BodyPermit {
        self.kind
    }

    /// Id of the account or webhook.
    pub fn sender(self) -> u64 {
        match self.of {
            Party::Account(id) | Party::Webhook(id) | Party::Key(id) => id,
            Party::Peer(_) => 0,
        }
    }
}

impl Permit for ReadPermit {
    fn party(self) -> Party {
        self.of
    }
}
