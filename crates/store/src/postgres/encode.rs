//! Encoding of writes as arguments of `guildhall_apply_1` (`0001_initial.sql`).
//!
//! Doors       `encode`, on the caller's side of the queue, so that a writer never serializes.
//! Invariants  every operation is idempotent: a transaction with an unknown outcome can be applied again.

use crate::{
    StoreError,
    stored::{StoredMember, int, message_json, resource_columns},
};
use guildhall_guild::Write;
use guildhall_model::{Channel, GuildResource, Message, ReactionEmoji};
use serde::Serialize;
use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Numbers of operations, as `guildhall_apply_1` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    PutMessage = 1,
    PutAttachment = 2,
    DeleteAttachments = 3,
    DeleteMessage = 4,
    AddReaction = 5,
    RemoveReaction = 6,
    ClearReactions = 7,
    ClearEmoji = 8,
    PutUser = 9,
    PutMissingUser = 10,
    PutMember = 11,
    DeleteMember = 12,
    PutRole = 13,
    DeleteRole = 14,
    PutResource = 15,
    DeleteResource = 16,
    DeleteResources = 17,
    PutGuild = 18,
    DeleteGuild = 19,
    PutChannel = 20,
    DeleteChannel = 21,
    /// By `guildhall_put_events_1`.
    PutEvent = 22,
}

/// One operation with its arguments; those that it lacks are null.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) kind: Kind,
    pub(super) keys: [Option<i64>; 4],
    /// Name of an emoji.
    pub(super) name: Option<Box<[u8]>>,
    pub(super) data: Option<String>,
}

/// Writes as operations, in an order with the same effect.
pub(super) fn encode(writes: &[Write]) -> Result<Vec<Operation>, StoreError> {
    let mut operations = Vec::with_capacity(writes.len());
    // Accounts and members mostly alternate. In a run of them accounts are first, so that both become long statements.
    let (mut missing, mut members) = (Vec::new(), Vec::new());
    for write in writes {
        if !matches!(write, Write::PutUser(_) | Write::PutMember(..)) {
            operations.append(&mut missing);
            operations.append(&mut members);
        }
        operations.push(match write {
            Write::PutUser(user) => put(Kind::PutUser, [int(user.id)], "account", &**user)?,
            Write::PutMember(guild_id, member) => {
                let user_id = int(member.user.id);
                missing.push(put(Kind::PutMissingUser, [user_id], "account", &*member.user)?);
                let keys = [int(*guild_id), user_id];
                members.push(put(Kind::PutMember, keys, "member", &StoredMember::of(member))?);
                continue;
            }
            Write::PutGuild(guild) => put(Kind::PutGuild, [int(guild.id), guild.is_direct.into()], "guild", &**guild)?,
            Write::PutResource(guild_id, resource) => {
                let encode = |source| StoreError::Encode { what: "guild resource", source };
                let data = GuildResource::to_json(resource).map_err(encode)?;
                let operation = operation(Kind::PutResource, resource_columns(*guild_id, resource.key()));
                Operation { data: Some(data), ..operation }
            }
            Write::DeleteResource(guild_id, key) => operation(Kind::DeleteResource, resource_columns(*guild_id, *key)),
            Write::DeleteResources(guild_id, key) => {
                let [guild_id, kind, id, _] = resource_columns(*guild_id, *key);
                operation(Kind::DeleteResources, [guild_id, kind, id])
            }
            Write::PutRole(guild_id, role) => put(Kind::PutRole, [int(*guild_id), int(role.id)], "role", &**role)?,
            Write::PutChannel(channel) => put_channel(channel)?,
            Write::PutMessage(message) => {
                put_message(&mut operations, message)?;
                continue;
            }
            Write::PutEvent(event) => {
                let keys = [event.guild_id().map_or(0, int), event.channel_id().map_or(0, int)];
                let keys = [random_id(), event.kind as i64, keys[0], keys[1]];
                Operation { data: Some(event.to_json()), ..operation(Kind::PutEvent, keys) }
            }
            Write::DeleteGuild(id) => operation(Kind::DeleteGuild, [int(*id)]),
            Write::DeleteRole(guild_id, id) => operation(Kind::DeleteRole, [int(*guild_id), int(*id)]),
            Write::DeleteChannel(guild_id, id) => operation(Kind::DeleteChannel, [int(*guild_id), int(*id)]),
            Write::DeleteMember(guild_id, id) => operation(Kind::DeleteMember, [int(*guild_id), int(*id)]),
            Write::DeleteMessage(channel_id, id) => operation(Kind::DeleteMessage, [int(*channel_id), int(*id)]),
            Write::AddReaction(channel_id, message_id, emoji, user_id) => {
                let keys = [int(*channel_id), int(*message_id), emoji_id(emoji), int(*user_id)];
                with_emoji(Kind::AddReaction, keys, emoji)
            }
            Write::RemoveReaction(channel_id, message_id, emoji, user_id) => {
                let keys = [int(*channel_id), int(*message_id), emoji_id(emoji), int(*user_id)];
                with_emoji(Kind::RemoveReaction, keys, emoji)
            }
            Write::ClearReactions(channel_id, message_id, None) => {
                operation(Kind::ClearReactions, [int(*channel_id), int(*message_id)])
            }
            Write::ClearReactions(channel_id, message_id, Some(emoji)) => {
                with_emoji(Kind::ClearEmoji, [int(*channel_id), int(*message_id), emoji_id(emoji)], emoji)
            }
        });
    }
    operations.append(&mut missing);
    operations.append(&mut members);
    Ok(operations)
}

/// Distinguishes events, so that one is not written twice by a repeated transaction.
fn random_id() -> i64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Its keys are random, and others in each process.
    static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    STATE.hash_one(COUNT.fetch_add(1, Relaxed)) as i64
}

/// Unicode emoji have -1, because a key must not be null.
pub(super) fn emoji_id(emoji: &ReactionEmoji) -> i64 {
    emoji.id.map_or(-1, int)
}

fn put_channel(channel: &Channel) -> Result<Operation, StoreError> {
    let mut operation = put(Kind::PutChannel, [int(channel.id), int(channel.guild_id)], "channel", channel)?;
    operation.keys[2] = channel.parent_id.filter(|_| channel.kind.is_thread()).map(int);
    Ok(operation)
}

/// A message, and rows by which its files are found. Only an edit removes some.
fn put_message(operations: &mut Vec<Operation>, message: &Message) -> Result<(), StoreError> {
    let [channel_id, id] = [int(message.channel_id), int(message.id)];
    let keys = [channel_id, id, message.guild_id.map_or(0, int), int(message.author.id)];
    let data = message_json(message).map_err(|source| StoreError::Encode { what: "message", source })?;
    operations.push(Operation { data: Some(data), ..operation(Kind::PutMessage, keys) });
    if message.edited_timestamp.is_some() {
        operations.push(operation(Kind::DeleteAttachments, [channel_id, id]));
    }
    let attachments = message.all_attachments();
    operations.extend(attachments.map(|of| operation(Kind::PutAttachment, [channel_id, id, int(of.id)])));
    Ok(())
}

fn operation<const N: usize>(kind: Kind, columns: [i64; N]) -> Operation {
    let mut keys = [None; 4];
    keys.iter_mut().zip(columns).for_each(|(key, column)| *key = Some(column));
    Operation { kind, keys, name: None, data: None }
}

fn with_emoji<const N: usize>(kind: Kind, columns: [i64; N], emoji: &ReactionEmoji) -> Operation {
    Operation { name: Some(emoji.name.as_bytes().into()), ..operation(kind, columns) }
}

fn put<T: Serialize, const N: usize>(
    kind: Kind,
    columns: [i64; N],
    what: &'static str,
    object: &T,
) -> Result<Operation, StoreError> {
    let data = serde_json::to_string(object).map_err(|source| StoreError::Encode { what, source })?;
    Ok(Operation { data: Some(data), ..operation(kind, columns) })
}
