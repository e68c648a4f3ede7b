//! Changes: writes in the form in which they are executed.
//!
//! Owns        the SQL of everything that changes the database.
//! Doors       `encode`, on the caller's side of the queue: JSON is made there, not in the one writer.
//! Invariants  every change is idempotent; a batch can be tried again.

use crate::{
    ExternalKind, RECORD_SWAPS_MAX, ReadStateChange, RecordSwap, StoreError, TokenHash, TokenRecord, UserChange,
    stored::{StoredMember, id, int, message_json, resource_columns, sorted},
};
use guildhall_guild::Write;
use guildhall_model::{ChannelId, GuildId, GuildResource, Message, MessageId, ReactionEmoji, UserId};
use serde::Serialize;
use smallvec::SmallVec;
use std::sync::Arc;

/// A table whose rows are added or replaced, many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Users,
    /// Users too, but what is there already stays.
    MissingUsers,
    Guilds,
    Roles,
    Channels,
    Members,
    Messages,
    Resources,
}

impl Table {
    pub(super) const ALL: [Self; 8] = [
        Self::Users,
        Self::MissingUsers,
        Self::Guilds,
        Self::Roles,
        Self::Channels,
        Self::Members,
        Self::Messages,
        Self::Resources,
    ];

    /// One row's name, for errors.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Users | Self::MissingUsers => "account",
            Self::Guilds => "guild",
            Self::Roles => "role",
            Self::Channels => "channel",
            Self::Members => "member",
            Self::Messages => "message",
            Self::Resources => "guild resource",
        }
    }

    /// The statement that adds or replaces `rows` rows: of each the keys in order, then `data`.
    pub(super) fn upsert(self, rows: usize) -> String {
        let (head, row, tail) = match self {
            Self::Users => {
                ("users (id, data)", "(?, ?)", "(id) DO UPDATE SET data = excluded.data, version = users.version + 1")
            }
            Self::MissingUsers => ("users (id, data)", "(?, ?)", "(id) DO NOTHING"),
            Self::Guilds => ("guilds (id, data)", "(?, ?)", "(id) DO UPDATE SET data = excluded.data"),
            Self::Roles => {
                ("roles (guild_id, id, data)", "(?, ?, ?)", "(guild_id, id) DO UPDATE SET data = excluded.data")
            }
            Self::Channels => (
                "channels (id, guild_id, data)",
                "(?, ?, ?)",
                "(id) DO UPDATE SET guild_id = excluded.guild_id, data = excluded.data",
            ),
            Self::Members => (
                "members (guild_id, user_id, data)",
                "(?, ?, ?)",
                "(guild_id, user_id) DO UPDATE SET data = excluded.data",
            ),
            Self::Messages => (
                "messages (channel_id, id, guild_id, author_id, data)",
                "(?, ?, ?, ?, ?)",
                "(channel_id, id) DO UPDATE SET author_id = excluded.author_id, data = excluded.data",
            ),
            Self::Resources => (
                "guild_resources (guild_id, kind, id, part, data)",
                "(?, ?, ?, ?, ?)",
                "(guild_id, kind, id, part) DO UPDATE SET data = excluded.data",
            ),
        };
        let rows = vec![row; rows].join(", ");
        format!("INSERT INTO {head} VALUES {rows} ON CONFLICT {tail}")
    }
}

/// A row to be added or replaced.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) keys: SmallVec<[i64; 4]>,
    pub(super) data: Arc<str>,
}

/// A value for a statement.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Int(i64),
    Text(Arc<str>),
    Bytes(Vec<u8>),
}

/// One step of a transaction.
#[derive(Debug)]
pub(super) enum Change {
    /// Adds or replaces a row. Neighbours in the same table become one statement.
    Put(Table, Row),
    /// Everything else. `what` it is about, for errors.
    Run { what: &'static str, sql: &'static str, values: SmallVec<[Value; 5]> },
    /// As `Run`. If it changes no row, its batch is faulty, as if another object had the id.
    Must { what: &'static str, sql: &'static str, values: SmallVec<[Value; 5]> },
}

impl Change {
    /// Whether content is left to be purged.
    pub(super) fn marks_deleted(&self) -> bool {
        matches!(self, Self::Run { sql, .. } if [MARK_GUILD, MARK_CHANNEL].contains(sql))
    }
}

/// One connection writes, so that positions are in the order of commits.
const PUT_EVENT: &str = "\
    INSERT INTO events (seq, at, kind, guild_id, channel_id, data) \
    SELECT MAX(COALESCE((SELECT MAX(seq) FROM events), 0), seq) + 1, \
    CAST(unixepoch('subsec') * 1000 AS INTEGER), ?1, ?2, ?3, ?4 FROM events_pruned";

/// Removes events up to a position.
pub(super) fn prune_events(upto: u64) -> [Change; 2] {
    let upto = Value::Int(upto as i64);
    [
        run("event", "UPDATE events_pruned SET seq = MAX(seq, ?1)", [upto.clone()]),
        run("event", "DELETE FROM events WHERE seq <= ?1", [upto]),
    ]
}

/// Deleting marks; `purge` deletes what is in it. See `0027_deleted.sql`.
const MARK_GUILD: &str = "\
    INSERT INTO deleted_guilds (id) SELECT id FROM guilds WHERE id = ?1 ON CONFLICT DO NOTHING";
const MARK_CHANNELS_OF_GUILD: &str = "UPDATE channels SET guild_id = 0 WHERE guild_id = ?1";
const MARK_CHANNEL: &str = "UPDATE channels SET guild_id = 0 WHERE guild_id = ?1 AND id = ?2";

/// Writes as changes, in an order with the same effect.
pub(super) fn encode(writes: &[Write]) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::with_capacity(writes.len());
    // Accounts and members mostly come in turn. In a run of them accounts go first, so that all become long statements.
    let (mut missing, mut members) = (Vec::new(), Vec::new());
    for write in writes {
        if !matches!(write, Write::PutUser(_) | Write::PutMember(..)) {
            changes.append(&mut missing);
            changes.append(&mut members);
        }
        if let Write::PutGuild(guild) = write
            && guild.is_direct
        {
            changes.push(put(Table::Guilds, &[int(guild.id)], &**guild)?);
            let sql = "INSERT INTO directs (id) VALUES (?1) ON CONFLICT DO NOTHING";
            changes.push(run("direct message", sql, [Value::Int(int(guild.id))]));
            continue;
        }
        changes.push(match write {
            Write::PutEvent(event) => run(
                "event",
                PUT_EVENT,
                [
                    Value::Int(event.kind as i64),
                    Value::Int(event.guild_id().map_or(0, int)),
                    Value::Int(event.channel_id().map_or(0, int)),
                    Value::Text(event.to_json().into()),
                ],
            ),
            Write::PutUser(user) => put(Table::Users, &[int(user.id)], &**user)?,
            Write::PutMember(guild_id, member) => {
                let user_id = int(member.user.id);
                missing.push(put(Table::MissingUsers, &[user_id], &*member.user)?);
                members.push(put(Table::Members, &[int(*guild_id), user_id], &StoredMember::of(member))?);
                continue;
            }
            Write::PutGuild(guild) => put(Table::Guilds, &[int(guild.id)], &**guild)?,
            Write::PutResource(guild_id, resource) => put_resource(*guild_id, resource)?,
            Write::DeleteResource(guild_id, key) => {
                let [guild_id, kind, id, part] = resource_columns(*guild_id, *key).map(Value::Int);
                run(
                    "guild resource",
                    "DELETE FROM guild_resources WHERE guild_id = ?1 AND kind = ?2 AND id = ?3 AND part = ?4",
                    [guild_id, kind, id, part],
                )
            }
            Write::DeleteResources(guild_id, key) => {
                let [guild_id, kind, id, _] = resource_columns(*guild_id, *key).map(Value::Int);
                run(
                    "guild resource",
                    "DELETE FROM guild_resources WHERE guild_id = ?1 AND kind = ?2 AND id = ?3",
                    [guild_id, kind, id],
                )
            }
            Write::PutRole(guild_id, role) => put(Table::Roles, &[int(*guild_id), int(role.id)], &**role)?,
            Write::PutChannel(channel) => put(Table::Channels, &[int(channel.id), int(channel.guild_id)], &**channel)?,
            Write::PutMessage(message) => {
                let keys =
                    [int(message.channel_id), int(message.id), message.guild_id.map_or(0, int), int(message.author.id)];
                let data = message_json(message).map_err(|source| StoreError::Encode { what: "message", source })?;
                let row = Row { keys: SmallVec::from_slice(&keys), data: data.into() };
                changes.push(Change::Put(Table::Messages, row));
                put_attachments(&mut changes, message);
                continue;
            }
            Write::DeleteGuild(id) => {
                let id = Value::Int(int(*id));
                changes.extend([
                    run("guild", MARK_CHANNELS_OF_GUILD, [id.clone()]),
                    run("guild", "DELETE FROM directs WHERE id = ?1", [id.clone()]),
                    run("guild", MARK_GUILD, [id]),
                ]);
                continue;
            }
            Write::DeleteRole(guild_id, id) => run(
                "role",
                "DELETE FROM roles WHERE guild_id = ?1 AND id = ?2",
                [Value::Int(int(*guild_id)), Value::Int(int(*id))],
            ),
            Write::DeleteChannel(guild_id, id) => {
                run("channel", MARK_CHANNEL, [Value::Int(int(*guild_id)), Value::Int(int(*id))])
            }
            Write::DeleteMember(guild_id, user_id) => run(
                "member",
                "DELETE FROM members WHERE guild_id = ?1 AND user_id = ?2",
                [Value::Int(int(*guild_id)), Value::Int(int(*user_id))],
            ),
            Write::DeleteMessage(channel_id, id) => run(
                "message",
                "DELETE FROM messages WHERE channel_id = ?1 AND id = ?2",
                [Value::Int(int(*channel_id)), Value::Int(int(*id))],
            ),
            Write::AddReaction(channel_id, message_id, emoji, user_id) => {
                let (emoji_id, emoji_name) = emoji_key(emoji);
                run(
                    "reaction",
                    ADD_REACTION,
                    [
                        Value::Int(int(*channel_id)),
                        Value::Int(int(*message_id)),
                        Value::Int(emoji_id),
                        Value::Text(emoji_name.into()),
                        Value::Int(int(*user_id)),
                    ],
                )
            }
            Write::RemoveReaction(channel_id, message_id, emoji, user_id) => {
                let (emoji_id, emoji_name) = emoji_key(emoji);
                run(
                    "reaction",
                    "DELETE FROM reactions WHERE channel_id = ?1 AND message_id = ?2 AND emoji_id = ?3 \
                     AND emoji_name = ?4 AND user_id = ?5",
                    [
                        Value::Int(int(*channel_id)),
                        Value::Int(int(*message_id)),
                        Value::Int(emoji_id),
                        Value::Text(emoji_name.into()),
                        Value::Int(int(*user_id)),
                    ],
                )
            }
            Write::ClearReactions(channel_id, message_id, None) => run(
                "reaction",
                "DELETE FROM reactions WHERE channel_id = ?1 AND message_id = ?2",
                [Value::Int(int(*channel_id)), Value::Int(int(*message_id))],
            ),
            Write::ClearReactions(channel_id, message_id, Some(emoji)) => {
                let (emoji_id, emoji_name) = emoji_key(emoji);
                run(
                    "reaction",
                    "DELETE FROM reactions WHERE channel_id = ?1 AND message_id = ?2 AND emoji_id = ?3 \
                     AND emoji_name = ?4",
                    [
                        Value::Int(int(*channel_id)),
                        Value::Int(int(*message_id)),
                        Value::Int(emoji_id),
                        Value::Text(emoji_name.into()),
                    ],
                )
            }
        });
    }
    changes.append(&mut missing);
    changes.append(&mut members);
    Ok(changes)
}

/// An emoji keeps its place on a message while it has a reaction.
const ADD_REACTION: &str = "\
    INSERT INTO reactions (channel_id, message_id, emoji_id, emoji_name, user_id, ordinal, first_use) \
    SELECT ?1, ?2, ?3, ?4, ?5, value, COALESCE(( \
        SELECT first_use FROM reactions \
        WHERE channel_id = ?1 AND message_id = ?2 AND emoji_id = ?3 AND emoji_name = ?4 LIMIT 1), value) \
    FROM counters WHERE name = 'reactions' \
    ON CONFLICT DO NOTHING; \
    UPDATE counters SET value = value + 1 WHERE name = 'reactions'";

/// Rows by which a message's files are found. Only an edit removes some.
fn put_attachments(changes: &mut Vec<Change>, message: &Message) {
    let key = [int(message.channel_id), int(message.id)].map(Value::Int);
    if message.edited_timestamp.is_some() {
        let sql = "DELETE FROM attachments WHERE channel_id = ?1 AND message_id = ?2";
        changes.push(run("attachment", sql, key.clone()));
    }
    for attachment in message.all_attachments() {
        let [channel_id, message_id] = key.clone();
        let sql = "INSERT INTO attachments (channel_id, message_id, id) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        changes.push(run("attachment", sql, [channel_id, message_id, Value::Int(int(attachment.id))]));
    }
}

pub(super) fn put_token(hash: TokenHash, record: &TokenRecord) -> Change {
    run(
        "token",
        "INSERT INTO tokens (hash, user_id, created_at) VALUES (?1, ?2, ?3) \
         ON CONFLICT (hash) DO UPDATE SET user_id = excluded.user_id, created_at = excluded.created_at",
        [Value::Bytes(hash.0.to_vec()), Value::Int(int(record.user_id)), Value::Int(record.created_at.0)],
    )
}

pub(super) fn revoke_token(hash: TokenHash) -> Change {
    run("token", "DELETE FROM tokens WHERE hash = ?1", [Value::Bytes(hash.0.to_vec())])
}

pub(super) fn put_record(kind: &'static str, id: &[u8], data: &[u8]) -> Change {
    run(
        "record",
        "INSERT INTO records (kind, id, data) VALUES (?1, ?2, ?3) \
         ON CONFLICT (kind, id) DO UPDATE SET data = excluded.data",
        [Value::Text(kind.into()), Value::Bytes(id.to_vec()), Value::Bytes(data.to_vec())],
    )
}

pub(super) fn delete_record(kind: &'static str, id: &[u8]) -> Change {
    run(
        "record",
        "DELETE FROM records WHERE kind = ?1 AND id = ?2",
        [Value::Text(kind.into()), Value::Bytes(id.to_vec())],
    )
}

/// It changes a row if the record is `before`.
pub(super) fn swap_record(
    kind: &'static str,
    id: &[u8],
    before: Option<&[u8]>,
    after: Option<&[u8]>,
) -> Option<Change> {
    let (kind, id, bytes) =
        (Value::Text(kind.into()), Value::Bytes(id.to_vec()), |data: &[u8]| Value::Bytes(data.to_vec()));
    let what = "record";
    Some(match (before, after) {
        (None, None) => return None,
        (None, Some(after)) => run(
            what,
            "INSERT INTO records (kind, id, data) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            [kind, id, bytes(after)],
        ),
        (Some(before), None) => {
            run(what, "DELETE FROM records WHERE kind = ?1 AND id = ?2 AND data = ?3", [kind, id, bytes(before)])
        }
        (Some(before), Some(after)) => run(
            what,
            "UPDATE records SET data = ?4 WHERE kind = ?1 AND id = ?2 AND data = ?3",
            [kind, id, bytes(before), bytes(after)],
        ),
    })
}

/// Changes all of these records or, if one of them is another one, none.
pub(super) fn swap_records(swaps: &[RecordSwap]) -> Vec<Change> {
    let swap = |RecordSwap { kind, id, before, after }: &RecordSwap| match swap_record(
        kind,
        id,
        before.as_deref(),
        after.as_deref(),
    )? {
        Change::Run { what, sql, values } => Some(Change::Must { what, sql, values }),
        other => Some(other),
    };
    swaps.iter().take(RECORD_SWAPS_MAX).filter_map(swap).collect()
}

/// It changes a row if the account has the expected version.
pub(super) fn change_user(change: &UserChange) -> Result<Change, StoreError> {
    let what = "account";
    let data = serde_json::to_string(&*change.user).map_err(|source| StoreError::Encode { what, source })?;
    let (id, data) = (Value::Int(int(change.user.id)), Value::Text(data.into()));
    Ok(match change.expected {
        None => run(what, "INSERT INTO users (id, data) VALUES (?1, ?2) ON CONFLICT DO NOTHING", [id, data]),
        Some(version) => run(
            what,
            "UPDATE users SET data = ?2, version = version + 1 WHERE id = ?1 AND version = ?3",
            [id, data, Value::Int(version.0 as i64)],
        ),
    })
}

pub(super) fn insert_setting(name: &str, value: &[u8]) -> Change {
    run(
        "setting",
        "INSERT INTO settings (name, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        [Value::Text(name.into()), Value::Bytes(value.to_vec())],
    )
}

/// Old ones go first, so that two objects can exchange theirs.
pub(super) fn put_external_ids(kind: ExternalKind, of: &[(u64, Option<String>)]) -> Result<[Change; 2], StoreError> {
    let what = "external id";
    let pairs = serde_json::to_string(of).map_err(|source| StoreError::Encode { what, source })?;
    let values = [Value::Int(kind as i64), Value::Text(pairs.into())];
    let delete = "\
        DELETE FROM external_ids WHERE kind = ?1 AND id IN (SELECT value ->> 0 FROM json_each(?2))";
    let insert = "\
        INSERT INTO external_ids (kind, id, external_id) \
        SELECT ?1, value ->> 0, value ->> 1 FROM json_each(?2) WHERE value ->> 1 IS NOT NULL";
    Ok([run(what, delete, values.clone()), run(what, insert, values)])
}

pub(super) fn insert_pair(pair: [UserId; 2], id: ChannelId) -> Change {
    let [low, high] = sorted(pair).map(|user_id| Value::Int(int(user_id)));
    let sql = "INSERT INTO direct_pairs (low, high, id) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    run("direct message", sql, [low, high, Value::Int(int(id))])
}

/// A negative value leaves the column as it is.
const CHANGE_READ_STATE: &str = "\
    INSERT INTO read_states (user_id, channel_id, last_message_id, last_pin, flags, last_viewed) \
    VALUES (?1, ?2, MAX(?3, 0), MAX(?4, 0), MAX(?5, 0), MAX(?6, 0)) \
    ON CONFLICT (user_id, channel_id) DO UPDATE SET \
    last_message_id = CASE ?7 WHEN 1 THEN ?3 ELSE MAX(last_message_id, ?3) END, last_pin = MAX(last_pin, ?4), \
    flags = CASE WHEN ?5 < 0 THEN flags ELSE ?5 END, \
    last_viewed = CASE WHEN ?6 < 0 THEN last_viewed ELSE ?6 END";

pub(super) fn change_read_state(of: &ReadStateChange) -> impl Iterator<Item = Change> + use<> {
    let what = "read state";
    let key = [int(of.user_id), int(of.channel_id)].map(Value::Int);
    let sql = "DELETE FROM read_states WHERE user_id = ?1 AND channel_id = ?2";
    let reset = of.change.is_reset.then(|| run(what, sql, key.clone()));
    let stored = of.change.stores().then(|| {
        let values = of.change.columns().into_iter().chain([i64::from(of.change.is_exact())]).map(Value::Int);
        Change::Run { what, sql: CHANGE_READ_STATE, values: key.into_iter().chain(values).collect() }
    });
    reset.into_iter().chain(stored)
}

pub(super) const TRIM_READ_STATES: &str = "\
    DELETE FROM read_states WHERE user_id = ?1 AND channel_id IN ( \
    SELECT channel_id FROM read_states WHERE user_id = ?1 ORDER BY last_message_id DESC, channel_id LIMIT -1 OFFSET ?2)";

pub(super) fn trim_read_states(user_id: UserId, keep: u32) -> Change {
    run("read state", TRIM_READ_STATES, [Value::Int(int(user_id)), Value::Int(keep.into())])
}

/// Statements of `Store::expire_messages`; `purge` has the reason for the order.
pub(super) const EXPIRE_REACTIONS: &str = "\
    DELETE FROM reactions WHERE (channel_id, message_id, emoji_id, emoji_name, user_id) IN ( \
    SELECT channel_id, message_id, emoji_id, emoji_name, user_id FROM reactions \
    WHERE channel_id = ?1 AND message_id < ?2 LIMIT ?3)";
pub(super) const EXPIRE_MESSAGES: &str = "\
    DELETE FROM messages WHERE channel_id = ?1 AND id < MIN(?2, \
    COALESCE((SELECT id FROM messages WHERE channel_id = ?1 ORDER BY id LIMIT 1 OFFSET ?3), ?2))";

fn expire(sql: &'static str, channel_id: ChannelId, before: MessageId, rows_max: u32) -> Change {
    run("message", sql, [Value::Int(int(channel_id)), Value::Int(int(before)), Value::Int(rows_max.into())])
}

pub(super) fn expire_reactions(channel_id: ChannelId, before: MessageId, rows_max: u32) -> Change {
    expire(EXPIRE_REACTIONS, channel_id, before, rows_max)
}

pub(super) fn expire_messages(channel_id: ChannelId, before: MessageId, rows_max: u32) -> Change {
    expire(EXPIRE_MESSAGES, channel_id, before, rows_max)
}

pub(super) fn set_keep_days(id: u64, keep_days: Option<u32>) -> Change {
    let id = Value::Int(id as i64);
    match keep_days {
        Some(days) => run(
            "retention",
            "INSERT INTO retention (id, keep_days) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET keep_days = excluded.keep_days",
            [id, Value::Int(days.into())],
        ),
        None => run("retention", "DELETE FROM retention WHERE id = ?1", [id]),
    }
}

/// An emoji as columns. A key must not be null, so unicode emoji have -1.
pub(super) fn emoji_key(emoji: &ReactionEmoji) -> (i64, &str) {
    (emoji.id.map_or(-1, int), &emoji.name)
}

/// The emoji of columns.
pub(super) fn emoji(emoji_id: i64, name: String) -> ReactionEmoji {
    ReactionEmoji { id: (emoji_id >= 0).then(|| id(emoji_id)), name }
}

fn put_resource(guild_id: GuildId, resource: &GuildResource) -> Result<Change, StoreError> {
    let data = resource.to_json().map_err(|source| StoreError::Encode { what: "guild resource", source })?.into();
    let keys = SmallVec::from_slice(&resource_columns(guild_id, resource.key()));
    Ok(Change::Put(Table::Resources, Row { keys, data }))
}

fn put<T: Serialize>(table: Table, keys: &[i64], object: &T) -> Result<Change, StoreError> {
    let data =
        serde_json::to_string(object).map_err(|source| StoreError::Encode { what: table.what(), source })?.into();
    Ok(Change::Put(table, Row { keys: SmallVec::from_slice(keys), data }))
}

pub(super) fn run<const N: usize>(what: &'static str, sql: &'static str, values: [Value; N]) -> Change {
    Change::Run { what, sql, values: values.into_iter().collect() }
}
