//! Reads: rows as objects.
//!
//! Invariants  reads of several statements run in one transaction, so that they see one state of the database.

use super::change;
use crate::{
    ATTACHMENTS_ASKED_MAX, ContentOf, DIRECTS_ASKED_MAX, DirectSpan, EXTERNAL_IDS_MAX, ExternalId, ExternalKind,
    MENTIONS_MAX, MENTIONS_PER_CHANNEL_MAX, MessageAge, PICTURE_OWNERS_ASKED_MAX, Page, PictureNames, PictureOwner,
    Place, SIGN_INS_MAX, SignIn, StoreError, TokenHash, USERS_CHANGED_MAX, UserVersion,
    accounts::Accounts,
    picture, read_state, sign_in,
    sql::{
        CHANNELS, Columns as _, GUILD, JOINED_GUILDS, LARGEST_ID, MEMBERS, RESOURCES, ROLES, Sql as _, Value, channel,
        external_id, joined_guild, member, nonce, resource, sql_driver, unread_mention, user_version,
    },
    stored::{id, int},
};
use guildhall_guild::{GuildRecord, MessageRecord, NONCES_LOADED_MAX, SentNonce, nonces_from};
use guildhall_model::{
    Channel, ChannelId, Direct, GuildId, Id, MessageId, ReactionEmoji, ResourceKind, UnreadMention, User, UserId,
};
use serde::Serialize;
use sqlx::{
    Row as _, SqliteConnection, SqlitePool,
    query::Query,
    sqlite::{Sqlite, SqliteArguments, SqliteRow},
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

sql_driver!(Sqlite, SqlitePool, SqliteConnection, SqliteRow, SqliteArguments);

/// Condition that channel `?1` was not deleted: its messages are purged later (`purge`).
macro_rules! in_live_channel {
    ($head:literal, $tail:literal) => {
        concat!($head, " AND NOT EXISTS (SELECT 1 FROM channels WHERE id = ?1 AND guild_id = 0) ", $tail)
    };
}

const MESSAGE: &str = in_live_channel!("SELECT data FROM messages WHERE channel_id = ?1 AND messages.id = ?2", "");
const NEWEST: &str =
    in_live_channel!("SELECT data FROM messages WHERE channel_id = ?1", "ORDER BY messages.id DESC LIMIT ?2");
const BEFORE: &str = in_live_channel!(
    "SELECT data FROM messages WHERE channel_id = ?1 AND messages.id < ?2",
    "ORDER BY messages.id DESC LIMIT ?3"
);
const FROM: &str = in_live_channel!(
    "SELECT data FROM messages WHERE channel_id = ?1 AND messages.id >= ?2",
    "ORDER BY messages.id LIMIT ?3"
);

/// The reactions of messages that follow one another, first to last in the order they are shown.
const REACTIONS: &str = "\
    SELECT message_id, first_use, emoji_id, emoji_name, user_id FROM reactions \
    WHERE channel_id = ?1 AND message_id BETWEEN ?2 AND ?3 ORDER BY message_id, first_use, ordinal";

const REACTION_USERS: &str = in_live_channel!(
    "SELECT users.data FROM reactions JOIN users ON users.id = reactions.user_id \
     WHERE channel_id = ?1 AND message_id = ?2 AND emoji_id = ?3 AND emoji_name = ?4 AND user_id > ?5",
    "ORDER BY user_id LIMIT ?6"
);

/// Open direct messages (type 1) before open groups (type 3), newest activity first. Reads every direct message of the
/// account, because the limit must not count closed ones.
const DIRECT_CHANNELS: &str = "\
    SELECT channels.data, (SELECT id FROM messages WHERE channel_id = channels.id ORDER BY id DESC LIMIT 1) AS newest \
    FROM members CROSS JOIN directs ON directs.id = members.guild_id CROSS JOIN channels ON channels.id = directs.id \
    WHERE members.user_id = ?1 AND NOT EXISTS (\
        SELECT 1 FROM json_each(channels.data, '$.direct.closed_by') AS closed WHERE closed.value = CAST(?1 AS TEXT)) \
    ORDER BY channels.data ->> '$.type', coalesce(newest, channels.id) DESC LIMIT ?2";
/// Members of the direct messages in ?1, a JSON array of ids.
const DIRECT_RECIPIENTS: &str = "\
    SELECT others.guild_id, users.data FROM json_each(?1) AS requested \
    CROSS JOIN members AS others ON others.guild_id = requested.value CROSS JOIN users ON users.id = others.user_id";
const HAVE_COMMON_GUILD: &str = "\
    SELECT 1 FROM members AS own CROSS JOIN members AS others ON others.guild_id = own.guild_id AND others.user_id = ?2 \
    WHERE own.user_id = ?1 AND own.guild_id NOT IN (SELECT id FROM directs) LIMIT 1";

/// Stored nonces of a channel from a message on. Reads the channel's messages since then.
const NONCES: &str = "\
    SELECT channel_id, id, author_id, data FROM messages WHERE channel_id = ?1 AND id >= ?2 \
    AND instr(data, ',\"nonce\":') > 0 ORDER BY id DESC LIMIT ?3";

pub(super) async fn load_guild(
    pool: &SqlitePool,
    accounts: &Accounts,
    guild_id: GuildId,
) -> Result<Option<GuildRecord>, StoreError> {
    let mut snapshot = pool.begin().await?;
    let guild = sqlx::query(GUILD).bind(int(guild_id));
    let Some(guild) = guild.fetch_optional(&mut *snapshot).await? else {
        return Ok(None);
    };
    let guild = guild.object("guild", 0)?;

    let roles = sqlx::query(ROLES).bind(int(guild_id));
    let roles = each(&mut snapshot, roles, |row| row.object("role", 0)).await?;

    let channels = each(&mut snapshot, sqlx::query(CHANNELS).bind(int(guild_id)), channel).await?;
    let members = sqlx::query(MEMBERS).bind(int(guild_id));
    let members = each(&mut snapshot, members, |row| member(row, accounts)).await?;
    let resources = sqlx::query(RESOURCES).bind(int(guild_id));
    let resources = each(&mut snapshot, resources, resource).await?.into_iter().flatten().collect();

    snapshot.commit().await?;
    // By itself: a guild loads also if a page of its messages is damaged. Only its owner writes, so nothing is between.
    let nonces = nonces(pool, &channels).await.unwrap_or_else(|error| {
        tracing::warn!(%guild_id, %error, "nonces of recent messages cannot be read: a repeated one may be there twice");
        Vec::new()
    });
    Ok(Some(GuildRecord { guild, roles, channels, members, resources, nonces }))
}

/// In a guild whose last message is old only one channel has any.
async fn nonces(pool: &SqlitePool, channels: &[Channel]) -> Result<Vec<SentNonce>, StoreError> {
    let Some(from) = nonces_from(channels) else { return Ok(Vec::new()) };
    let mut nonces = Vec::new();
    for channel in channels.iter().filter(|channel| channel.last_message_id.is_some_and(|newest| newest >= from)) {
        let query = sqlx::query(NONCES).bind(int(channel.id)).bind(int(from)).bind(NONCES_LOADED_MAX as i64);
        nonces.extend(each_of(pool, query, nonce).await?.into_iter().flatten());
    }
    nonces.sort_unstable_by_key(|sent| sent.message_id);
    nonces.drain(..nonces.len().saturating_sub(NONCES_LOADED_MAX));
    Ok(nonces)
}

pub(super) async fn message(
    pool: &SqlitePool,
    channel_id: ChannelId,
    message_id: MessageId,
) -> Result<Option<MessageRecord>, StoreError> {
    let mut snapshot = pool.begin().await?;
    let query = sqlx::query(MESSAGE);
    let messages = read_messages(&mut snapshot, query.bind(int(channel_id)).bind(int(message_id))).await?;
    let mut records = with_reactions(&mut snapshot, channel_id, messages).await?;
    snapshot.commit().await?;
    Ok(records.pop())
}

pub(super) async fn messages(
    pool: &SqlitePool,
    channel_id: ChannelId,
    page: Page,
    limit: u32,
) -> Result<Vec<MessageRecord>, StoreError> {
    let mut snapshot = pool.begin().await?;
    let channel = int(channel_id);
    let before = |id: i64, limit: u32| sqlx::query(BEFORE).bind(channel).bind(id).bind(limit);
    let from = |id: i64, limit: u32| sqlx::query(FROM).bind(channel).bind(id).bind(limit);
    let messages = match page {
        Page::Newest => read_messages(&mut snapshot, sqlx::query(NEWEST).bind(channel).bind(limit)).await?,
        Page::Before(id) => read_messages(&mut snapshot, before(int(id), limit)).await?,
        // Nothing is newer than the largest id.
        Page::After(id) => match int(id).checked_add(1) {
            Some(next) => newest_first(read_messages(&mut snapshot, from(next, limit)).await?),
            None => Vec::new(),
        },
        Page::Around(id) => {
            let older_count = limit / 2;
            let newer = read_messages(&mut snapshot, from(int(id), limit - older_count)).await?;
            let mut messages = newest_first(newer);
            messages.extend(read_messages(&mut snapshot, before(int(id), older_count)).await?);
            messages
        }
    };
    let records = with_reactions(&mut snapshot, channel_id, messages).await?;
    snapshot.commit().await?;
    Ok(records)
}

type Messages = Vec<Arc<guildhall_model::Message>>;

async fn read_messages(
    connection: &mut SqliteConnection,
    query: Query<'_, Sqlite, SqliteArguments>,
) -> Result<Messages, StoreError> {
    each(connection, query, |row| Ok(Arc::new(row.object("message", 0)?))).await
}

fn newest_first(mut oldest_first: Messages) -> Messages {
    oldest_first.reverse();
    oldest_first
}

/// Adds the reactions to messages that follow one another in a channel, newest first.
async fn with_reactions(
    connection: &mut SqliteConnection,
    channel_id: ChannelId,
    messages: Messages,
) -> Result<Vec<MessageRecord>, StoreError> {
    let (Some(newest), Some(oldest)) = (messages.first(), messages.last()) else {
        return Ok(Vec::new());
    };
    let query = sqlx::query(REACTIONS).bind(int(channel_id)).bind(int(oldest.id)).bind(int(newest.id));
    let mut reactions: HashMap<MessageId, Vec<(ReactionEmoji, Vec<UserId>)>> = HashMap::new();
    let mut last = None;
    each(connection, query, |row| {
        let message_id = id(row.try_get(0)?);
        let of_message = reactions.entry(message_id).or_default();
        let this = Some((message_id, row.try_get::<i64, _>(1)?));
        if last != this {
            last = this;
            of_message.push((change::emoji(row.try_get(2)?, row.try_get(3)?), Vec::new()));
        }
        if let Some((_, users)) = of_message.last_mut() {
            users.push(id(row.try_get(4)?));
        }
        Ok(())
    })
    .await?;
    let record = |message: Arc<guildhall_model::Message>| {
        let reactions = reactions.remove(&message.id).unwrap_or_default();
        MessageRecord { message, reactions }
    };
    Ok(messages.into_iter().map(record).collect())
}

pub(super) async fn reaction_users(
    pool: &SqlitePool,
    channel_id: ChannelId,
    message_id: MessageId,
    emoji: &ReactionEmoji,
    after: UserId,
    limit: u32,
) -> Result<Vec<User>, StoreError> {
    let (emoji_id, emoji_name) = change::emoji_key(emoji);
    let query = sqlx::query(REACTION_USERS).bind(int(channel_id)).bind(int(message_id)).bind(emoji_id).bind(emoji_name);
    each_of(pool, query.bind(int(after)).bind(limit), |row| row.object("account", 0)).await
}

pub(super) async fn directs_of_user(
    pool: &SqlitePool,
    accounts: &Accounts,
    user_id: UserId,
    limit: u32,
) -> Result<Vec<Direct>, StoreError> {
    let mut snapshot = pool.begin().await?;
    let channels = sqlx::query(DIRECT_CHANNELS).bind(int(user_id)).bind(limit);
    let channels = each(&mut snapshot, channels, channel).await?;
    let ids: Vec<i64> = channels.iter().map(|channel| int(channel.id)).collect();
    let ids = serde_json::to_string(&ids).map_err(|source| StoreError::Encode { what: "channel", source })?;
    let recipients = sqlx::query(DIRECT_RECIPIENTS).bind(ids);
    let mut people: HashMap<ChannelId, Vec<Arc<User>>> = HashMap::new();
    each(&mut snapshot, recipients, |row| {
        let of = people.entry(id(row.try_get(0)?)).or_default();
        of.push(accounts.share(row.object("account", 1)?));
        Ok(())
    })
    .await?;
    snapshot.commit().await?;
    let direct = |channel: Channel| {
        let mut recipients = people.remove(&channel.id).unwrap_or_default();
        recipients.sort_unstable_by_key(|user| user.id);
        Direct { channel: Arc::new(channel), recipients: recipients.into() }
    };
    Ok(channels.into_iter().map(direct).collect())
}

pub(super) async fn have_common_guild(pool: &SqlitePool, [user, other]: [UserId; 2]) -> Result<bool, StoreError> {
    let query = sqlx::query(HAVE_COMMON_GUILD).bind(int(user)).bind(int(other));
    Ok(query.fetch_optional(pool).await?.is_some())
}

const ATTACHMENTS_IN_USE: &str = "\
    SELECT attachments.id FROM json_each(?1) AS requested JOIN attachments ON attachments.id = requested.value \
    WHERE NOT EXISTS (SELECT 1 FROM channels WHERE channels.id = attachments.channel_id AND guild_id = 0)";

pub(super) async fn attachments_in_use(pool: &SqlitePool, ids: &[Id<()>]) -> Result<BTreeSet<Id<()>>, StoreError> {
    let requested: Vec<i64> = ids.iter().take(ATTACHMENTS_ASKED_MAX).map(|id| int(*id)).collect();
    let requested =
        serde_json::to_string(&requested).map_err(|source| StoreError::Encode { what: "attachment", source })?;
    let query = sqlx::query(ATTACHMENTS_IN_USE).bind(requested);
    Ok(each_of(pool, query, |row| Ok(id(row.try_get(0)?))).await?.into_iter().collect())
}

/// Threads (types 10 to 12) have what their channel has.
const MESSAGE_AGES: &str = "\
    SELECT channels.id, channels.guild_id, \
    (SELECT id FROM messages WHERE channel_id = channels.id ORDER BY id LIMIT 1), \
    COALESCE( \
        (SELECT keep_days FROM retention WHERE id = channels.id), \
        (SELECT keep_days FROM retention WHERE id = CASE WHEN channels.data ->> '$.type' BETWEEN 10 AND 12 \
            THEN CAST(channels.data ->> '$.parent_id' AS INTEGER) END), \
        (SELECT keep_days FROM retention WHERE id = channels.guild_id)) \
    FROM channels WHERE channels.id > ?1 AND channels.guild_id <> 0 ORDER BY channels.id LIMIT ?2";

pub(super) async fn message_ages(
    pool: &SqlitePool,
    after: ChannelId,
    limit: u32,
) -> Result<Vec<MessageAge>, StoreError> {
    let query = sqlx::query(MESSAGE_AGES).bind(int(after)).bind(limit);
    each_of(pool, query, |row| {
        Ok(MessageAge {
            channel_id: row.id(0)?,
            guild_id: row.id(1)?,
            oldest: row.int_or_null(2)?.map(id),
            keep_days: row.int_or_null(3)?.map(|days| days as u32),
        })
    })
    .await
}

const USER_PICTURES: &str = "\
    SELECT data ->> '$.avatar', data ->> '$.banner' FROM users WHERE id = ?1 UNION ALL \
    SELECT data ->> '$.avatar', NULL FROM guild_resources WHERE kind = ?2 AND id = ?1 \
    AND NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE deleted_guilds.id = guild_id)";
const MEMBER_PICTURES: &str = "\
    SELECT data ->> '$.pictures' FROM members WHERE guild_id = ?1 AND user_id = ?2 \
    AND NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE deleted_guilds.id = ?1)";

/// A few steps in primary keys per owner; of a guild its roles, too.
pub(super) async fn pictures_in_use(
    pool: &SqlitePool,
    owners: &[PictureOwner],
) -> Result<Vec<PictureNames>, StoreError> {
    let mut snapshot = pool.begin().await?;
    let mut all = Vec::with_capacity(owners.len().min(PICTURE_OWNERS_ASKED_MAX));
    for owner in owners.iter().take(PICTURE_OWNERS_ASKED_MAX) {
        let mut names = PictureNames::new();
        match owner {
            PictureOwner::User(user_id) => {
                let query = sqlx::query(USER_PICTURES).bind(int(*user_id)).bind(ResourceKind::Webhook as i64);
                let hashes = |row: &SqliteRow| -> Result<[Option<String>; 2], StoreError> {
                    Ok([row.try_get(0)?, row.try_get(1)?])
                };
                names.extend(each(&mut snapshot, query, hashes).await?.into_iter().flatten().flatten());
            }
            PictureOwner::Guild(guild_id) => {
                let guild = sqlx::query(GUILD).bind(int(*guild_id)).fetch_optional(&mut *snapshot).await?;
                if let Some(guild) = guild {
                    names = picture::of_guild(&guild.object("guild", 0)?);
                    let roles = sqlx::query(ROLES).bind(int(*guild_id));
                    let name = |row: &SqliteRow| Ok(picture::of_role(&row.object("role", 0)?));
                    names.extend(each(&mut snapshot, roles, name).await?.into_iter().flatten());
                }
            }
            PictureOwner::Member(guild_id, user_id) => {
                let query = sqlx::query(MEMBER_PICTURES).bind(int(*guild_id)).bind(int(*user_id));
                let row = query.fetch_optional(&mut *snapshot).await?;
                let pictures: Option<String> = row.map(|row| row.try_get(0)).transpose()?.flatten();
                if let Some(pictures) = pictures {
                    let corrupt = |source| StoreError::Corrupt { what: "member", source };
                    names.extend(picture::of_member(&serde_json::from_str(&pictures).map_err(corrupt)?));
                }
            }
        }
        all.push(names);
    }
    Ok(all)
}

pub(super) async fn largest_id(pool: &SqlitePool) -> Result<u64, StoreError> {
    let largest: Option<i64> = sqlx::query_scalar(LARGEST_ID).fetch_one(pool).await?;
    Ok(largest.map_or(0, |column| id::<()>(column).get()))
}

const WITH_EXTERNAL_IDS: &str = "\
    SELECT external_ids.id, external_id FROM json_each(?2) AS requested \
    CROSS JOIN external_ids ON external_ids.kind = ?1 AND external_id = requested.value";
const EXTERNAL_IDS: &str = "\
    SELECT external_ids.id, external_id FROM json_each(?2) AS requested \
    CROSS JOIN external_ids ON external_ids.kind = ?1 AND external_ids.id = requested.value";

const USER_VERSIONS: &str = "\
    SELECT data, version FROM json_each(?1) AS requested CROSS JOIN users ON users.id = requested.value";

pub(super) async fn user_versions(
    pool: &SqlitePool,
    accounts: &Accounts,
    user_ids: &[UserId],
) -> Result<Vec<(Arc<User>, UserVersion)>, StoreError> {
    let requested: Vec<i64> = user_ids.iter().take(USERS_CHANGED_MAX).map(|id| int(*id)).collect();
    let requested =
        serde_json::to_string(&requested).map_err(|source| StoreError::Encode { what: "account", source })?;
    each_of(pool, sqlx::query(USER_VERSIONS).bind(requested), |row| user_version(row, accounts)).await
}

const SIGN_INS: &str = "\
    SELECT tokens.hash, tokens.user_id, tokens.created_at, coalesce(users.data, ''), users.id IS NOT NULL \
    FROM json_each(?1) AS requested CROSS JOIN tokens ON tokens.hash = unhex(requested.value) \
    LEFT JOIN users ON users.id = tokens.user_id";
const MEMBERSHIPS: &str = "\
    SELECT members.user_id, members.guild_id FROM json_each(?1) AS requested \
    CROSS JOIN members ON members.user_id = requested.value \
    WHERE NOT EXISTS (SELECT 1 FROM directs WHERE directs.id = members.guild_id) \
    AND NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE deleted_guilds.id = members.guild_id) LIMIT ?2";

pub(super) async fn sign_ins(
    pool: &SqlitePool,
    accounts: &Accounts,
    hashes: &[TokenHash],
) -> Result<Vec<SignIn>, StoreError> {
    let hex = |hash: &TokenHash| hash.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let requested: Vec<String> = hashes.iter().take(SIGN_INS_MAX).map(hex).collect();
    let json = |source| StoreError::Encode { what: "token", source };
    let requested = serde_json::to_string(&requested).map_err(json)?;
    let mut snapshot = pool.begin().await?;
    let sign_in = |row: &SqliteRow| sign_in::without_guilds(row, |user| accounts.share(user));
    let found = each(&mut snapshot, sqlx::query(SIGN_INS).bind(requested), sign_in).await?;
    let user_ids = serde_json::to_string(&sign_in::user_ids(&found)).map_err(json)?;
    let memberships = sqlx::query(MEMBERSHIPS).bind(user_ids).bind(i64::from(sign_in::MEMBERSHIPS_MAX) + 1);
    let memberships = each(&mut snapshot, memberships, |row| Ok((row.int(0)?, row.int(1)?))).await?;
    Ok(sign_in::with_guilds(found, memberships))
}

pub(super) async fn with_external_ids(
    pool: &SqlitePool,
    kind: ExternalKind,
    texts: &[String],
) -> Result<Vec<ExternalId>, StoreError> {
    external(pool, WITH_EXTERNAL_IDS, kind, &texts[..texts.len().min(EXTERNAL_IDS_MAX)]).await
}

pub(super) async fn external_ids(
    pool: &SqlitePool,
    kind: ExternalKind,
    ids: &[u64],
) -> Result<Vec<ExternalId>, StoreError> {
    external(pool, EXTERNAL_IDS, kind, &ids[..ids.len().min(EXTERNAL_IDS_MAX)]).await
}

async fn external<T: Serialize>(
    pool: &SqlitePool,
    sql: &'static str,
    kind: ExternalKind,
    requested: &[T],
) -> Result<Vec<ExternalId>, StoreError> {
    let requested =
        serde_json::to_string(requested).map_err(|source| StoreError::Encode { what: "external id", source })?;
    each_of(pool, sqlx::query(sql).bind(kind as i64).bind(requested), external_id).await
}

const END_OF_SCAN: &str = "\
    SELECT channel_id, id FROM messages WHERE (channel_id, id) > (?1, ?2) ORDER BY channel_id, id LIMIT 1 OFFSET ?3";
const MESSAGES_OF: &str = "\
    SELECT channel_id, id FROM messages \
    WHERE (channel_id, id) > (?1, ?2) AND (channel_id, id) <= (?3, ?4) AND author_id = ?5 ORDER BY channel_id, id";
const REACTIONS_OF: &str = "\
    SELECT channel_id, message_id, emoji_id, emoji_name FROM reactions \
    WHERE (channel_id, message_id) > (?1, ?2) AND (channel_id, message_id) <= (?3, ?4) AND user_id = ?5 \
    ORDER BY channel_id, message_id";

pub(super) async fn content_of(
    pool: &SqlitePool,
    user_id: UserId,
    after: Place,
    scanned_max: u32,
) -> Result<ContentOf, StoreError> {
    let mut snapshot = pool.begin().await?;
    let place = |row: &SqliteRow| Ok((id(row.try_get(0)?), id(row.try_get(1)?)));
    let after = (int(after.0), int(after.1));
    let end = sqlx::query(END_OF_SCAN).bind(after.0).bind(after.1).bind(scanned_max.saturating_sub(1));
    let next: Option<Place> = each(&mut snapshot, end, place).await?.pop();
    let end = next.map_or((i64::MAX, i64::MAX), |next| (int(next.0), int(next.1)));
    let bound = |sql| sqlx::query(sql).bind(after.0).bind(after.1).bind(end.0).bind(end.1).bind(int(user_id));
    let messages = each(&mut snapshot, bound(MESSAGES_OF), place).await?;
    let reactions = each(&mut snapshot, bound(REACTIONS_OF), |row| {
        Ok((place(row)?, change::emoji(row.try_get(2)?, row.try_get(3)?)))
    });
    let reactions = reactions.await?;
    snapshot.commit().await?;
    Ok(ContentOf { messages, reactions, next })
}

/// Channels with mentions of each target, by steps in the primary key; then the mentions in each after the read state.
const UNREAD_MENTIONS: &str = "\
    WITH RECURSIVE places (kind, target_id, floor, channel_id) AS ( \
        SELECT value ->> 0, value ->> 1, value ->> 2, ( \
            SELECT channel_id FROM mentions WHERE kind = value ->> 0 AND target_id = value ->> 1 \
            ORDER BY channel_id LIMIT 1) \
        FROM json_each(?2) AS requested \
        UNION ALL SELECT kind, target_id, floor, ( \
            SELECT m.channel_id FROM mentions AS m WHERE m.kind = places.kind AND m.target_id = places.target_id \
            AND m.channel_id > places.channel_id ORDER BY m.channel_id LIMIT 1) \
        FROM places WHERE channel_id IS NOT NULL), \
    unread (kind, target_id, channel_id, after) AS MATERIALIZED ( \
        SELECT kind, target_id, channel_id, MAX(floor, COALESCE(( \
            SELECT last_message_id FROM read_states AS r WHERE r.user_id = ?1 AND r.channel_id = places.channel_id), 0)) \
        FROM places WHERE channel_id IS NOT NULL), \
    spans (kind, target_id, channel_id, first) AS MATERIALIZED ( \
        SELECT kind, target_id, channel_id, COALESCE(( \
            SELECT m.message_id FROM mentions AS m WHERE m.kind = unread.kind AND m.target_id = unread.target_id \
            AND m.channel_id = unread.channel_id AND m.message_id > unread.after \
            ORDER BY m.message_id DESC LIMIT 1 OFFSET ?3), unread.after + 1) \
        FROM unread) \
    SELECT spans.kind, spans.target_id, spans.channel_id, m.message_id FROM spans CROSS JOIN mentions AS m \
    ON m.kind = spans.kind AND m.target_id = spans.target_id AND m.channel_id = spans.channel_id \
    AND m.message_id >= spans.first WHERE m.author_id <> ?1 LIMIT ?4";

pub(super) async fn unread_mentions(pool: &SqlitePool, user_id: UserId) -> Result<Vec<UnreadMention>, StoreError> {
    let mut snapshot = pool.begin().await?;
    let memberships = each(&mut snapshot, sqlx::query(JOINED_GUILDS).bind(int(user_id)), joined_guild).await?;
    let targets = serde_json::to_string(&read_state::targets(user_id, memberships));
    let targets = targets.map_err(|source| StoreError::Encode { what: "member", source })?;
    let query = sqlx::query(UNREAD_MENTIONS).bind(int(user_id)).bind(targets);
    let query = query.bind(MENTIONS_PER_CHANNEL_MAX - 1).bind(MENTIONS_MAX);
    let mentions = each(&mut snapshot, query, unread_mention).await?;
    snapshot.commit().await?;
    Ok(mentions)
}

const UNREAD_DIRECTS: &str = "\
    SELECT (SELECT COUNT(*) FROM ( \
        SELECT author_id FROM messages WHERE channel_id = requested.value ->> 0 \
        AND messages.id > requested.value ->> 1 AND messages.id <= requested.value ->> 2 \
        ORDER BY messages.id LIMIT ?3) AS unread WHERE unread.author_id <> ?1) \
    FROM json_each(?2) AS requested ORDER BY requested.key";

pub(super) async fn unread_directs(
    pool: &SqlitePool,
    user_id: UserId,
    spans: &[DirectSpan],
    each_max: u32,
) -> Result<Vec<u32>, StoreError> {
    let span = |of: &DirectSpan| (int(of.channel_id), int(of.after), int(of.up_to));
    let spans: Vec<_> = spans.iter().take(DIRECTS_ASKED_MAX).map(span).collect();
    let spans = serde_json::to_string(&spans);
    let spans = spans.map_err(|source| StoreError::Encode { what: "direct message", source })?;
    let query = sqlx::query(UNREAD_DIRECTS).bind(int(user_id)).bind(spans).bind(each_max);
    each_of(pool, query, |row| Ok(row.int(0)? as u32)).await
}

/// The expression is that of the index `users_by_name`.
const USERS_NAMED: &str = "SELECT data FROM users WHERE data ->> '$.username' = $1 ORDER BY id LIMIT $2";

pub(super) async fn users_named(pool: &SqlitePool, username: &str, limit: u32) -> Result<Vec<Arc<User>>, StoreError> {
    let values = [Value::Text(username), Value::Int(limit.into())];
    pool.each(USERS_NAMED, &values, |row| Ok(Arc::new(row.object("account", 0)?))).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{
        DIRECT_OF_PAIR, GUILD_IDS, GUILD_OF_CHANNEL, GUILD_OF_RESOURCE, GUILDS_OF_USER, GUILDS_WITH_BAN, MESSAGES_BY,
        READ_STATES, RECORDS, TOKENS_OF_USER,
    };

    /// Each read walks an index; what grows without bound is never scanned, and no order is made by sorting all of it.
    #[tokio::test]
    async fn no_query_scans() {
        let pool = crate::sqlite::pool_options(1).connect_with(crate::sqlite::connect_options(&Default::default()));
        let pool = pool.await.unwrap();
        crate::sqlite::migrate(&mut pool.acquire().await.unwrap()).await.unwrap();
        for (sql, allowed) in [
            (MESSAGE, &[][..]),
            (NEWEST, &[]),
            (BEFORE, &[]),
            (FROM, &[]),
            (REACTION_USERS, &[]),
            (MEMBERS, &[]),
            (GUILD, &[]),
            (GUILD_OF_CHANNEL, &[]),
            (GUILDS_OF_USER, &[]),
            (GUILD_IDS, &[]),
            // Bounded by the direct messages of one account: the accounts that closed each, and the order.
            (DIRECT_CHANNELS, &["SCAN closed VIRTUAL TABLE", "USE TEMP B-TREE FOR ORDER BY"]),
            // The requested ids are a list of the caller's.
            (DIRECT_RECIPIENTS, &["SCAN requested"]),
            (DIRECT_OF_PAIR, &[]),
            (RESOURCES, &[]),
            (GUILD_OF_RESOURCE, &[]),
            (GUILDS_WITH_BAN, &[]),
            (ATTACHMENTS_IN_USE, &["SCAN requested"]),
            (MESSAGE_AGES, &[]),
            (USER_PICTURES, &[]),
            (MEMBER_PICTURES, &[]),
            (MESSAGES_BY, &[]),
            (WITH_EXTERNAL_IDS, &["SCAN requested"]),
            (EXTERNAL_IDS, &["SCAN requested"]),
            (END_OF_SCAN, &[]),
            (MESSAGES_OF, &[]),
            (REACTIONS_OF, &[]),
            (TOKENS_OF_USER, &[]),
            (RECORDS, &[]),
            (USERS_NAMED, &[]),
            (READ_STATES, &[]),
            (JOINED_GUILDS, &[]),
            (UNREAD_MENTIONS, &["SCAN requested", "SCAN places", "SCAN unread", "SCAN spans"]),
            (UNREAD_DIRECTS, &["SCAN requested", "SCAN unread", "USE TEMP B-TREE FOR ORDER BY"]),
            (CHANNELS, &[]),
            // Within one message.
            (REACTIONS, &["USE TEMP B-TREE FOR LAST 2 TERMS OF ORDER BY"]),
            // The largest key of a table is at its end, though it is called a search of the whole.
            (LARGEST_ID, &["SCAN guilds", "SCAN channels", "SCAN largest"]),
        ] {
            let plan = sqlx::query(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"))).fetch_all(&pool).await;
            for step in plan.unwrap().iter().map(|row| row.get::<String, _>("detail")) {
                let is_costly = step.starts_with("SCAN") || step.contains("TEMP B-TREE");
                assert!(!is_costly || allowed.iter().any(|allowed| step.starts_with(allowed)), "{step}: {sql}");
            }
        }
    }
}
