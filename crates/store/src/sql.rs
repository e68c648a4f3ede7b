//! SQL: code that the drivers of both databases share: reads with the same statement, and rows as objects.
//!
//! Owns        `Sql` and `Columns`, which a driver gets by `sql_driver!`; the reads below, and their statements.
//! Limits      `$1` is a parameter in both databases. A read that needs arrays, JSON functions or a snapshot is in the
//!             driver (`sqlite::read`, `postgres::read`), as are all writes.

use crate::{
    EVENTS_SCANNED_MAX, EventBounds, EventFilter, ExternalId, IdAndData, StoreError, StoredEvent, TokenHash,
    TokenRecord, UserVersion,
    accounts::Accounts,
    read_state::OF_USER,
    stored::{StoredMember, id, int, sent_nonce, sorted},
};
use guildhall_guild::SentNonce;
use guildhall_model::{
    Channel, ChannelId, GuildId, GuildResource, Id, Member, MentionTarget, MessageId, ReadState, ResourceKind,
    UnreadMention, User, UserId,
};
use guildhall_stdx::Timestamp;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A parameter of a statement.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Int(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
}
use Value::{Bytes, Int, Text};

/// A pool of connections to read with.
pub(crate) trait Sql: Sync {
    type Row: Columns;

    /// Makes an object of each row as it arrives, so that rows and objects are not in memory both at once.
    fn each<T: Send>(
        &self,
        sql: &'static str,
        values: &[Value<'_>],
        of: impl FnMut(&Self::Row) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send;

    /// The object of the only row.
    fn one<T: Send>(
        &self,
        sql: &'static str,
        values: &[Value<'_>],
        of: impl FnMut(&Self::Row) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Option<T>, StoreError>> + Send {
        async move { Ok(self.each(sql, values, of).await?.pop()) }
    }
}

/// A row by the numbers of its columns.
pub(crate) trait Columns {
    fn int(&self, column: usize) -> Result<i64, StoreError>;
    fn int_or_null(&self, column: usize) -> Result<Option<i64>, StoreError>;
    fn text(&self, column: usize) -> Result<&str, StoreError>;
    fn bytes(&self, column: usize) -> Result<Vec<u8>, StoreError>;

    fn id<T>(&self, column: usize) -> Result<Id<T>, StoreError> {
        Ok(id(self.int(column)?))
    }

    fn object<T: DeserializeOwned>(&self, what: &'static str, column: usize) -> Result<T, StoreError> {
        serde_json::from_str(self.text(column)?).map_err(|source| StoreError::Corrupt { what, source })
    }
}

/// `Sql` and `Columns` for the types of a database, and `each` for statements that only this driver has.
macro_rules! sql_driver {
    ($database:ty, $pool:ty, $connection:ty, $row:ty, $arguments:ty) => {
        impl $crate::sql::Columns for $row {
            fn int(&self, column: usize) -> Result<i64, StoreError> {
                Ok(sqlx::Row::try_get(self, column)?)
            }

            fn int_or_null(&self, column: usize) -> Result<Option<i64>, StoreError> {
                Ok(sqlx::Row::try_get(self, column)?)
            }

            fn text(&self, column: usize) -> Result<&str, StoreError> {
                Ok(sqlx::Row::try_get(self, column)?)
            }

            fn bytes(&self, column: usize) -> Result<Vec<u8>, StoreError> {
                Ok(sqlx::Row::try_get(self, column)?)
            }
        }

        impl $crate::sql::Sql for $pool {
            type Row = $row;

            async fn each<T: Send>(
                &self,
                sql: &'static str,
                values: &[$crate::sql::Value<'_>],
                of: impl FnMut(&$row) -> Result<T, StoreError> + Send,
            ) -> Result<Vec<T>, StoreError> {
                let bind = |query: sqlx::query::Query<'static, $database, $arguments>, value: &_| match *value {
                    $crate::sql::Value::Int(int) => query.bind(int),
                    $crate::sql::Value::Text(text) => query.bind(text.to_owned()),
                    $crate::sql::Value::Bytes(bytes) => query.bind(bytes.to_vec()),
                };
                each(&mut *self.acquire().await?, values.iter().fold(sqlx::query(sql), bind), of).await
            }
        }

        /// As `Sql::each`, on one connection.
        async fn each<T>(
            connection: &mut $connection,
            query: sqlx::query::Query<'_, $database, $arguments>,
            mut of: impl FnMut(&$row) -> Result<T, StoreError>,
        ) -> Result<Vec<T>, StoreError> {
            let mut rows = query.fetch(connection);
            let mut all = Vec::new();
            while let Some(row) = futures_util::TryStreamExt::try_next(&mut rows).await? {
                all.push(of(&row)?);
            }
            Ok(all)
        }

        async fn each_of<T>(
            pool: &$pool,
            query: sqlx::query::Query<'_, $database, $arguments>,
            of: impl FnMut(&$row) -> Result<T, StoreError>,
        ) -> Result<Vec<T>, StoreError> {
            each(&mut *pool.acquire().await?, query, of).await
        }
    };
}
pub(crate) use sql_driver;

pub(crate) const GUILD: &str = "\
    SELECT data FROM guilds WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE deleted_guilds.id = $1)";
pub(crate) const ROLES: &str = "SELECT data FROM roles WHERE guild_id = $1";
/// The newest message of each channel is one step in the messages' primary key.
pub(crate) const CHANNELS: &str = "\
    SELECT data, (SELECT id FROM messages WHERE channel_id = channels.id ORDER BY id DESC LIMIT 1) \
    FROM channels WHERE guild_id = $1";
pub(crate) const MEMBERS: &str = "\
    SELECT members.data, users.data FROM members JOIN users ON users.id = members.user_id \
    WHERE members.guild_id = $1 ORDER BY members.user_id";
pub(crate) const RESOURCES: &str = "SELECT kind, data FROM guild_resources WHERE guild_id = $1";

/// A row of `CHANNELS`: a channel and its newest message.
pub(crate) fn channel(row: &impl Columns) -> Result<Channel, StoreError> {
    let mut channel: Channel = row.object("channel", 0)?;
    channel.last_message_id = row.int_or_null(1)?.map(id);
    Ok(channel)
}

/// A row of `MEMBERS`.
pub(crate) fn member(row: &impl Columns, accounts: &Accounts) -> Result<Arc<Member>, StoreError> {
    let member: StoredMember = row.object("member", 0)?;
    Ok(Arc::new(member.with(accounts.share(row.object("account", 1)?))))
}

/// A row of `RESOURCES`. None: of a kind that a later version wrote.
pub(crate) fn resource(row: &impl Columns) -> Result<Option<GuildResource>, StoreError> {
    let kind = u8::try_from(row.int(0)?).unwrap_or(0);
    let corrupt = |source| StoreError::Corrupt { what: "guild resource", source };
    GuildResource::from_json(kind, row.text(1)?).map_err(corrupt)
}

/// A row of channel, message, author and content.
pub(crate) fn nonce(row: &impl Columns) -> Result<Option<SentNonce>, StoreError> {
    Ok(sent_nonce((row.id(0)?, row.id(1)?, row.id(2)?), row.text(3)?))
}

/// A row of account and version.
pub(crate) fn user_version(row: &impl Columns, accounts: &Accounts) -> Result<(Arc<User>, UserVersion), StoreError> {
    Ok((accounts.share(row.object("account", 0)?), UserVersion(row.int(1)? as u64)))
}

/// A row of object and external id.
pub(crate) fn external_id(row: &impl Columns) -> Result<ExternalId, StoreError> {
    Ok(ExternalId { id: row.int(0)? as u64, text: row.text(1)?.to_owned() })
}

pub(crate) const GUILD_IDS: &str = "\
    SELECT id FROM guilds WHERE id > $1 AND NOT EXISTS (SELECT 1 FROM directs WHERE directs.id = guilds.id) \
    AND NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE deleted_guilds.id = guilds.id) ORDER BY id LIMIT $2";

pub(crate) async fn guild_ids(db: &impl Sql, after: GuildId, limit: u32) -> Result<Vec<GuildId>, StoreError> {
    db.each(GUILD_IDS, &[Int(int(after)), Int(limit.into())], |row| row.id(0)).await
}

pub(crate) const GUILD_OF_CHANNEL: &str = "SELECT guild_id FROM channels WHERE id = $1 AND guild_id <> 0";

pub(crate) async fn guild_of_channel(db: &impl Sql, channel_id: ChannelId) -> Result<Option<GuildId>, StoreError> {
    db.one(GUILD_OF_CHANNEL, &[Int(int(channel_id))], |row| row.id(0)).await
}

pub(crate) async fn user(db: &impl Sql, accounts: &Accounts, user_id: UserId) -> Result<Option<Arc<User>>, StoreError> {
    let sql = "SELECT data FROM users WHERE id = $1";
    let user = db.one(sql, &[Int(int(user_id))], |row| row.object("account", 0)).await?;
    Ok(user.map(|user| accounts.share(user)))
}

/// Not shared with loaded guilds: a listing must not keep accounts in memory.
pub(crate) async fn users(db: &impl Sql, after: UserId, limit: u32) -> Result<Vec<Arc<User>>, StoreError> {
    let sql = "SELECT data FROM users WHERE id > $1 ORDER BY id LIMIT $2";
    db.each(sql, &[Int(int(after)), Int(limit.into())], |row| Ok(Arc::new(row.object("account", 0)?))).await
}

pub(crate) const GUILDS_OF_USER: &str = "\
    SELECT guild_id FROM members WHERE user_id = $1 \
    AND NOT EXISTS (SELECT 1 FROM directs WHERE directs.id = guild_id) \
    AND NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE deleted_guilds.id = guild_id) ORDER BY guild_id LIMIT $2";

pub(crate) async fn guilds_of_user(db: &impl Sql, user_id: UserId, limit: u32) -> Result<Vec<GuildId>, StoreError> {
    db.each(GUILDS_OF_USER, &[Int(int(user_id)), Int(limit.into())], |row| row.id(0)).await
}

pub(crate) const DIRECT_OF_PAIR: &str = "SELECT id FROM direct_pairs WHERE low = $1 AND high = $2";

pub(crate) async fn direct_of_pair(db: &impl Sql, pair: [UserId; 2]) -> Result<Option<ChannelId>, StoreError> {
    db.one(DIRECT_OF_PAIR, &sorted(pair).map(|user_id| Int(int(user_id))), |row| row.id(0)).await
}

pub(crate) const READ_STATES: &str = "\
    SELECT channel_id, last_message_id, last_pin, flags, last_viewed FROM read_states WHERE user_id = $1 \
    ORDER BY channel_id LIMIT $2";

pub(crate) async fn read_states(db: &impl Sql, user_id: UserId, limit: u32) -> Result<Vec<ReadState>, StoreError> {
    db.each(READ_STATES, &[Int(int(user_id)), Int(limit.into())], |row| {
        Ok(ReadState {
            channel_id: row.id(0)?,
            last_message_id: row.id(1)?,
            last_pin_timestamp: Some(Timestamp(row.int(2)?)).filter(|at| at.0 > 0),
            flags: row.int(3)? as u32,
            last_viewed: row.int(4)? as u32,
        })
    })
    .await
}

/// The guilds of an account, with its membership in each.
pub(crate) const JOINED_GUILDS: &str = "SELECT guild_id, data FROM members WHERE user_id = $1";

/// A row of `JOINED_GUILDS`.
pub(crate) fn joined_guild(row: &impl Columns) -> Result<(i64, StoredMember), StoreError> {
    Ok((row.int(0)?, row.object("member", 1)?))
}

/// A row of kind, target, channel and message.
pub(crate) fn unread_mention(row: &impl Columns) -> Result<UnreadMention, StoreError> {
    let target = if row.int(0)? == OF_USER { MentionTarget::User } else { MentionTarget::Role(row.id(1)?) };
    Ok(UnreadMention { channel_id: row.id(2)?, message_id: row.id(3)?, target })
}

pub(crate) const GUILD_OF_RESOURCE: &str = "\
    SELECT guild_id FROM guild_resources WHERE kind = $1 AND id = $2 \
    AND NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE deleted_guilds.id = guild_id) LIMIT 1";

pub(crate) async fn guild_of_resource(
    db: &impl Sql,
    kind: ResourceKind,
    resource_id: u64,
) -> Result<Option<GuildId>, StoreError> {
    db.one(GUILD_OF_RESOURCE, &[Int(kind as i64), Int(resource_id as i64)], |row| row.id(0)).await
}

pub(crate) const GUILDS_WITH_BAN: &str = "\
    SELECT guild_id FROM guild_resources WHERE kind = $1 AND id = $2 AND guild_id > $3 \
    AND NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE deleted_guilds.id = guild_id) ORDER BY guild_id LIMIT $4";

pub(crate) async fn guilds_with_ban(
    db: &impl Sql,
    user_id: UserId,
    after: GuildId,
    limit: u32,
) -> Result<Vec<GuildId>, StoreError> {
    let values = [Int(ResourceKind::Ban as i64), Int(int(user_id)), Int(int(after)), Int(limit.into())];
    db.each(GUILDS_WITH_BAN, &values, |row| row.id(0)).await
}

/// Messages of one author in a channel since a moment; the query reads and skips those of others.
pub(crate) const MESSAGES_BY: &str = "\
    SELECT id FROM messages WHERE channel_id = $1 AND id >= $2 AND author_id = $3 \
    AND NOT EXISTS (SELECT 1 FROM channels WHERE channels.id = $1 AND channels.guild_id = 0) ORDER BY id LIMIT $4";

pub(crate) async fn messages_by(
    db: &impl Sql,
    channel_id: ChannelId,
    author_id: UserId,
    from: MessageId,
    limit: u32,
) -> Result<Vec<MessageId>, StoreError> {
    let values = [Int(int(channel_id)), Int(int(from)), Int(int(author_id)), Int(limit.into())];
    db.each(MESSAGES_BY, &values, |row| row.id(0)).await
}

pub(crate) async fn keep_days(db: &impl Sql, id: u64) -> Result<Option<u32>, StoreError> {
    let sql = "SELECT keep_days FROM retention WHERE id = $1";
    db.one(sql, &[Int(id as i64)], |row| Ok(row.int(0)? as u32)).await
}

pub(crate) async fn token(db: &impl Sql, hash: TokenHash) -> Result<Option<TokenRecord>, StoreError> {
    let sql = "SELECT user_id, created_at FROM tokens WHERE hash = $1";
    db.one(sql, &[Bytes(&hash.0)], |row| Ok(TokenRecord { user_id: row.id(0)?, created_at: Timestamp(row.int(1)?) }))
        .await
}

pub(crate) const TOKENS_OF_USER: &str =
    "SELECT hash, user_id, created_at FROM tokens WHERE user_id = $1 ORDER BY hash LIMIT $2";

pub(crate) async fn tokens_of_user(
    db: &impl Sql,
    user_id: UserId,
    limit: u32,
) -> Result<Vec<(TokenHash, TokenRecord)>, StoreError> {
    let values = [Int(int(user_id)), Int(limit.into())];
    let tokens = db.each(TOKENS_OF_USER, &values, |row| {
        Ok((row.bytes(0)?, TokenRecord { user_id: row.id(1)?, created_at: Timestamp(row.int(2)?) }))
    });
    // No token has a hash of another length.
    let hash = |(hash, record): (Vec<u8>, _)| Some((TokenHash(hash.try_into().ok()?), record));
    Ok(tokens.await?.into_iter().filter_map(hash).collect())
}

pub(crate) async fn record(db: &impl Sql, kind: &str, id: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT data FROM records WHERE kind = $1 AND id = $2";
    db.one(sql, &[Text(kind), Bytes(id)], |row| row.bytes(0)).await
}

pub(crate) const RECORDS: &str = "SELECT id, data FROM records WHERE kind = $1 AND id > $2 ORDER BY id LIMIT $3";

pub(crate) async fn records(db: &impl Sql, kind: &str, after: &[u8], limit: u32) -> Result<Vec<IdAndData>, StoreError> {
    let values = [Text(kind), Bytes(after), Int(limit.into())];
    db.each(RECORDS, &values, |row| Ok((row.bytes(0)?, row.bytes(1)?))).await
}

pub(crate) async fn setting(db: &impl Sql, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    db.one("SELECT value FROM settings WHERE name = $1", &[Text(name)], |row| row.bytes(0)).await
}

/// One step in an index per guild and channel, instead of a scan of all messages.
pub(crate) const LARGEST_ID: &str = "\
    SELECT MAX(id) FROM ( \
    SELECT MAX(id) AS id FROM users UNION ALL \
    SELECT MAX(id) FROM guilds UNION ALL \
    SELECT MAX((SELECT id FROM roles WHERE guild_id = guilds.id ORDER BY id DESC LIMIT 1)) FROM guilds UNION ALL \
    SELECT MAX(id) FROM channels UNION ALL \
    SELECT MAX(id) FROM direct_pairs UNION ALL \
    SELECT MAX(id) FROM attachments UNION ALL \
    SELECT MAX((SELECT id FROM messages WHERE channel_id = channels.id ORDER BY id DESC LIMIT 1)) FROM channels) \
    AS largest";

/// Parameters: after, up to, guild or 0, channel or 0, kinds as bits, limit.
const EVENTS: &str = "\
    SELECT seq, at, kind, guild_id, channel_id, data FROM events \
    WHERE seq > CAST($1 AS BIGINT) AND seq <= CAST($2 AS BIGINT) \
    AND (CAST($3 AS BIGINT) = 0 OR guild_id = CAST($3 AS BIGINT)) \
    AND (CAST($4 AS BIGINT) = 0 OR channel_id = CAST($4 AS BIGINT)) \
    AND ((CAST($5 AS BIGINT) >> CAST(kind AS INTEGER)) & 1) = 1 ORDER BY seq LIMIT CAST($6 AS BIGINT)";
const EVENT_BOUNDS: &str = "SELECT seq, COALESCE((SELECT MAX(seq) FROM events), 0) FROM events_pruned";
const OLDEST_EVENTS: &str = "SELECT seq, at FROM events ORDER BY seq LIMIT CAST($1 AS BIGINT)";

pub(crate) async fn events(
    pool: &impl Sql,
    after: u64,
    upto: u64,
    filter: EventFilter,
    limit: u32,
) -> Result<Vec<StoredEvent>, StoreError> {
    let position = |at: u64| Int(i64::try_from(at).unwrap_or(i64::MAX));
    let values = [
        position(after),
        position(upto.min(after.saturating_add(EVENTS_SCANNED_MAX))),
        Int(filter.guild_id.map_or(0, int)),
        Int(filter.channel_id.map_or(0, int)),
        Int((filter.kinds & u64::MAX >> 1) as i64),
        Int(limit.into()),
    ];
    let of = |row: &_| stored_event(row);
    pool.each(EVENTS, &values, of).await
}

fn stored_event(row: &impl Columns) -> Result<StoredEvent, StoreError> {
    let present = |id: i64| (id > 0).then_some(id);
    Ok(StoredEvent {
        position: row.int(0)? as u64,
        at: Timestamp(row.int(1)?),
        kind: u8::try_from(row.int(2)?).unwrap_or(u8::MAX),
        guild_id: present(row.int(3)?).map(id),
        channel_id: present(row.int(4)?).map(id),
        data: row.text(5)?.to_owned(),
    })
}

pub(crate) async fn event_bounds(pool: &impl Sql) -> Result<EventBounds, StoreError> {
    let of = |row: &_| bounds(row);
    Ok(pool.one(EVENT_BOUNDS, &[], of).await?.unwrap_or_default())
}

fn bounds(row: &impl Columns) -> Result<EventBounds, StoreError> {
    let (pruned, newest) = (row.int(0)? as u64, row.int(1)? as u64);
    Ok(EventBounds { pruned, newest: newest.max(pruned) })
}

/// The oldest events: position and time.
pub(crate) async fn oldest_events(pool: &impl Sql, limit: u32) -> Result<Vec<(u64, i64)>, StoreError> {
    let of = |row: &_| position_and_time(row);
    pool.each(OLDEST_EVENTS, &[Int(limit.into())], of).await
}

fn position_and_time(row: &impl Columns) -> Result<(u64, i64), StoreError> {
    Ok((row.int(0)? as u64, row.int(1)?))
}
