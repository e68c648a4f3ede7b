//! Deletion of an account with its content, in steps that `jobs` carries out.
//!
//! Owns        `Deletion`: the steps, and how far they are.
//! Invariants  every step may be repeated. The account is locked out and loses its name before the search for its
//!             content, and a second time at the end. Guilds carry out every change, so that clients and caches learn
//!             of it.
//! Limits      `SCANNED_MAX` messages a step; `DELETED_MAX` messages of a MESSAGE_DELETE_BULK, `REASSIGNED_MAX` of a
//!             command.
//! Spec        docs/backend-api.md "Deleting accounts".

use super::{V1, dto::GuildPut, error::V1Error, external, guilds, tokens};
use guildhall_guild::{Actor, NewMember, REASSIGNED_MAX, Refusal, request};
use guildhall_model::{ChannelId, GuildId, Id, MessageId, User, UserId};
use guildhall_node::{as_deleted, unchecked};
use guildhall_store::{ContentOf, ExternalKind, StoreError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const SCANNED_MAX: u32 = 2_000;
/// As many as clients expect at once.
const DELETED_MAX: usize = 100;

/// Guilds with a ban of the account, per read.
const BANS_READ: u32 = 256;
/// Open direct messages and groups of one account that are looked at.
const DIRECTS_MAX: u32 = 100_000;

/// How far a deletion is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Deletion {
    pub user_id: UserId,
    /// New owner of the messages and guilds; none: messages are deleted.
    pub reassign: Option<UserId>,
    pub is_locked_out: bool,
    /// The last message that was looked at.
    after: (ChannelId, MessageId),
    pub guilds: u64,
    pub scanned: u64,
    pub messages: u64,
    pub reactions: u64,
}

/// Why a step did not end.
pub(super) enum Stopped {
    /// It can be repeated.
    Later(StepFault),
    /// The job ends.
    Failed(String),
}

/// The node cannot do it now.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepFault {
    #[error("a guild cannot be reached now")]
    Guild,
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Later(error.into())
    }
}

impl From<V1Error> for Stopped {
    fn from(error: V1Error) -> Self {
        match error.code {
            "unavailable" | "changed" => Self::Later(StepFault::Guild),
            _ => Self::Failed(error.message.into_owned()),
        }
    }
}

impl Deletion {
    pub fn new(user_id: UserId, reassign: Option<UserId>) -> Self {
        let after = (Id::new(0), Id::new(0));
        Self { user_id, reassign, is_locked_out: false, after, guilds: 0, scanned: 0, messages: 0, reactions: 0 }
    }

    /// One step; false if it was the last.
    pub async fn step(&mut self, v1: &V1) -> Result<bool, Stopped> {
        if !self.is_locked_out {
            self.lock_out(v1).await?;
            self.is_locked_out = true;
            return Ok(true);
        }
        let found = v1.node.store().content_of(self.user_id, self.after, SCANNED_MAX).await?;
        let next = found.next;
        self.remove(v1, found).await?;
        if let Some(next) = next {
            self.after = next;
            self.scanned += u64::from(SCANNED_MAX);
            return Ok(true);
        }
        // An import under way may have brought the account back.
        self.lock_out(v1).await?;
        Ok(false)
    }

    /// Ends sessions and memberships, and leaves an account without a name.
    async fn lock_out(&mut self, v1: &V1) -> Result<(), Stopped> {
        let user_id = self.user_id;
        let Some((before, _)) = v1.node.stored_user(user_id).await? else { return Ok(()) };
        tokens::revoke_user_tokens(v1, user_id).await?;
        for guild_id in v1.node.guilds_of_user(user_id).await? {
            self.give_away(v1, guild_id).await?;
            let left = v1.node.command(guild_id, Actor::System, request::RemoveMember(user_id)).await;
            self.guilds += u64::from(done(left)?.is_some());
        }
        let directs = v1.node.store().directs_of_user(user_id, DIRECTS_MAX).await?;
        for group in directs.into_iter().filter(guildhall_model::Direct::is_group) {
            let leave = request::RemoveRecipient(user_id);
            done(v1.node.command(group.channel.guild_id, Actor::System, leave).await)?;
        }
        let form = |now: Option<&User>| Ok::<_, StoreError>(as_deleted(now.unwrap_or(&before)));
        let gone = v1.node.update_user(user_id, unchecked, form).await?.user;
        self.rename_bans(v1, &gone).await?;
        v1.node.remove_settings_proto(user_id).await?;
        v1.node.remove_read_states(user_id).await?;
        v1.node.remove_notification_settings(user_id).await?;
        v1.node.remove_relationships(user_id).await?;
        external::release(v1, ExternalKind::User, user_id.get()).await?;
        Ok(())
    }

    /// Bans show the account without its name.
    async fn rename_bans(&self, v1: &V1, gone: &Arc<User>) -> Result<(), Stopped> {
        let mut after = GuildId::new(0);
        loop {
            let guilds = v1.node.store().guilds_with_ban(gone.id, after, BANS_READ).await?;
            let Some(last) = guilds.last() else { return Ok(()) };
            after = *last;
            for guild_id in guilds {
                let refresh = request::RefreshUser(gone.clone());
                done(v1.node.command(guild_id, Actor::System, refresh).await)?;
            }
        }
    }

    /// A guild of the account belongs to the one that takes over.
    async fn give_away(&self, v1: &V1, guild_id: GuildId) -> Result<(), Stopped> {
        let guild = match guilds::reply(v1, guild_id).await {
            Ok(guild) if guild.structure.guild.owner_id == self.user_id => guild,
            Ok(_) => return Ok(()),
            Err(error) if error.code == "not_found" => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let heir = match self.reassign {
            Some(heir) => v1.node.user(heir).await?,
            None => None,
        };
        let Some(heir) = heir else {
            return Err(Stopped::Failed(format!(
                "The account owns the guild {guild_id}: transfer the guild to another member, or delete it, and delete the account again."
            )));
        };
        let heir_id = heir.id;
        if v1.node.command(guild_id, Actor::System, request::ReadMember(heir_id)).await.is_err() {
            let member = NewMember {
                user: heir,
                nick: None,
                roles: Vec::new(),
                joined_at: None,
                mute: false,
                deaf: false,
                flags: 0,
                communication_disabled_until: None,
            };
            let put = request::PutMember(Box::new(member), None);
            done(v1.node.command(guild_id, Actor::System, put).await)?;
        }
        let before = guild.structure.guild.clone();
        let after = GuildPut::from(&*before).into_guild(guild_id, heir_id, Some(&before));
        let put = request::PutGuild(Box::new(after), Some(before));
        done(v1.node.command(guild_id, Actor::System, put).await)?;
        Ok(())
    }

    async fn remove(&mut self, v1: &V1, found: ContentOf) -> Result<(), Stopped> {
        let user_id = self.user_id;
        for ((channel_id, message_id), emoji) in found.reactions {
            let Some(guild_id) = v1.node.guild_of_channel(channel_id).await? else { continue };
            let remove = request::RemoveReaction(channel_id, message_id, emoji, user_id);
            let removed = tried(v1.node.command(guild_id, Actor::System, remove).await)?;
            self.reactions += u64::from(removed.is_some());
        }
        let heir = match self.reassign {
            Some(heir) => Some(
                v1.node
                    .user(heir)
                    .await?
                    .ok_or_else(|| Stopped::Failed("The account that takes over is gone.".to_owned()))?,
            ),
            None => None,
        };
        for of_channel in found.messages.chunk_by(|a, b| a.0 == b.0) {
            let channel_id = of_channel[0].0;
            let Some(guild_id) = v1.node.guild_of_channel(channel_id).await? else { continue };
            let ids: Vec<MessageId> = of_channel.iter().map(|place| place.1).collect();
            match &heir {
                Some(heir) => {
                    for ids in ids.chunks(REASSIGNED_MAX) {
                        let (ids, to) = (ids.to_vec(), heir.clone());
                        let reassign = request::ReassignMessages(channel_id, ids, to);
                        let reassigned = tried(v1.node.command(guild_id, Actor::System, reassign).await)?;
                        self.messages += reassigned.unwrap_or(0);
                    }
                }
                None => self.delete(v1, guild_id, channel_id, &ids).await?,
            }
        }
        Ok(())
    }

    async fn delete(
        &mut self,
        v1: &V1,
        guild_id: GuildId,
        channel_id: ChannelId,
        ids: &[MessageId],
    ) -> Result<(), Stopped> {
        // Direct messages have no bulk deletion.
        let is_direct = guild_id.get() == channel_id.get();
        for ids in ids.chunks(if is_direct { 1 } else { DELETED_MAX }) {
            let deleted = match ids {
                [id] => v1.node.command(guild_id, Actor::System, request::DeleteMessage(channel_id, *id)).await,
                ids => {
                    let delete = request::DeleteMessages(channel_id, ids.to_vec());
                    v1.node.command(guild_id, Actor::System, delete).await
                }
            };
            if tried(deleted)?.is_some() {
                self.messages += ids.len() as u64;
            }
        }
        Ok(())
    }
}

/// Reply of a guild; none if the object of the command is gone.
fn done<T>(reply: Result<T, Refusal>) -> Result<Option<T>, Stopped> {
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(
            Refusal::UnknownGuild
            | Refusal::UnknownChannel
            | Refusal::UnknownMember
            | Refusal::UnknownMessage
            | Refusal::UnknownUser,
        ) => Ok(None),
        Err(Refusal::Unavailable | Refusal::DiskFull | Refusal::DatabaseAway | Refusal::Changed) => {
            Err(Stopped::Later(StepFault::Guild))
        }
        Err(refusal) => Err(Stopped::Failed(format!("A guild refused a step: {refusal}."))),
    }
}

/// As `done`; a refusal leaves out one message or reaction, and the rest is still removed.
fn tried<T>(reply: Result<T, Refusal>) -> Result<Option<T>, Stopped> {
    match done(reply) {
        Err(Stopped::Failed(message)) => {
            tracing::warn!(message, "content of a deleted account was skipped");
            Ok(None)
        }
        done => done,
    }
}
