//! Reads: rows as objects.
//!
//! Invariants  a read sees one state of the database: it is one statement, or a transaction on one snapshot.

use super::encode::emoji_id;
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
    stored::{StoredMember, id, int},
};
use guildhall_guild::{GuildRecord, MessageRecord, NONCES_LOADED_MAX, SentNonce, nonces_from};
use guildhall_model::{
    Channel, ChannelId, Direct, GuildId, GuildResource, Id, MessageId, ReactionEmoji, ResourceKind, UnreadMention,
    User, UserId,
};
use sqlx::{
    PgConnection, PgPool, Postgres, Row as _, Transaction,
    postgres::{PgArguments, PgRow},
};
use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

sql_driver!(Postgres, PgPool, PgConnection, PgRow, PgArguments);

/// Messages of a page with their reactions, which are first to last in the order in which they are shown. `requested`
/// are the messages.
macro_rules! messages {
    ($requested:literal) => {
        concat!(
            "SELECT requested.data, r.first_uses, r.emoji_ids, r.emoji_names, r.user_ids FROM (",
            $requested,
            ") AS requested CROSS JOIN LATERAL ( \
             SELECT array_agg(first_use ORDER BY first_use, ordinal) AS first_uses, \
             array_agg(emoji_id ORDER BY first_use, ordinal) AS emoji_ids, \
             array_agg(emoji_name ORDER BY first_use, ordinal) AS emoji_names, \
             array_agg(user_id ORDER BY first_use, ordinal) AS user_ids FROM reactions \
             WHERE reactions.channel_id = $1 AND reactions.message_id = requested.id) AS r \
             WHERE NOT EXISTS (SELECT 1 FROM channels WHERE channels.id = $1 AND channels.guild_id = 0) \
             ORDER BY requested.id DESC"
        )
    };
}

const MESSAGE: &str = messages!("SELECT id, data FROM messages WHERE channel_id = $1 AND id = $2");
const NEWEST: &str = messages!("SELECT id, data FROM messages WHERE channel_id = $1 ORDER BY id DESC LIMIT $2");
const BEFORE: &str =
    messages!("SELECT id, data FROM messages WHERE channel_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
const AFTER: &str = messages!("SELECT id, data FROM messages WHERE channel_id = $1 AND id > $2 ORDER BY id LIMIT $3");
const AROUND: &str = messages!(
    "(SELECT id, data FROM messages WHERE channel_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3) UNION ALL \
     (SELECT id, data FROM messages WHERE channel_id = $1 AND id >= $2 ORDER BY id LIMIT $4)"
);

const REACTION_USERS: &str = "\
    SELECT users.data FROM reactions JOIN users ON users.id = reactions.user_id \
    WHERE channel_id = $1 AND message_id = $2 AND emoji_id = $3 AND emoji_name = $4 AND user_id > $5 \
    AND NOT EXISTS (SELECT 1 FROM channels WHERE channels.id = $1 AND channels.guild_id = 0) \
    ORDER BY user_id LIMIT $6";

/// All direct messages and groups of an account: whether it closed one is in its JSON.
const DIRECT_CHANNELS: &str = "\
    SELECT channels.data, (SELECT id FROM messages WHERE channel_id = channels.id ORDER BY id DESC LIMIT 1) \
    FROM members JOIN directs ON directs.id = members.guild_id JOIN channels ON channels.id = directs.id \
    WHERE members.user_id = $1 AND channels.guild_id <> 0";
const DIRECT_RECIPIENTS: &str = "\
    SELECT members.guild_id, users.data FROM members JOIN users ON users.id = members.user_id \
    WHERE members.guild_id = ANY ($1)";
const HAVE_COMMON_GUILD: &str = "\
    SELECT 1 FROM members AS own JOIN members AS others ON others.guild_id = own.guild_id AND others.user_id = $2 \
    WHERE own.user_id = $1 AND NOT EXISTS (SELECT 1 FROM directs WHERE directs.id = own.guild_id) LIMIT 1";

/// Stored nonces of channels from a message on. Reads the channels' messages since then.
const NONCES: &str = "\
    SELECT channel_id, id, author_id, data FROM messages WHERE channel_id = ANY ($1) AND id >= $2 \
    AND strpos(data, ',\"nonce\":') > 0 ORDER BY id DESC LIMIT $3";

/// A transaction on one snapshot.
async fn snapshot(pool: &PgPool) -> Result<Transaction<'static, Postgres>, StoreError> {
    Ok(pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?)
}

pub(super) async fn load_guild(
    pool: &PgPool,
    accounts: &Accounts,
    guild_id: GuildId,
) -> Result<Option<GuildRecord>, StoreError> {
    let mut snapshot = snapshot(pool).await?;
    let guild = sqlx::query(GUILD).bind(int(guild_id)).fetch_optional(&mut *snapshot).await?;
    let Some(guild) = guild else { return Ok(None) };
    let guild = guild.object("guild", 0)?;

    let roles = sqlx::query(ROLES).bind(int(guild_id));
    let roles = each(&mut snapshot, roles, |row| row.object("role", 0)).await?;
    let channels = each(&mut snapshot, sqlx::query(CHANNELS).bind(int(guild_id)), channel).await?;
    let nonces = nonces(&mut snapshot, &channels).await?;
    let members = sqlx::query(MEMBERS).bind(int(guild_id));
    let members = each(&mut snapshot, members, |row| member(row, accounts)).await?;
    let resources = sqlx::query(RESOURCES).bind(int(guild_id));
    let resources = each(&mut snapshot, resources, resource).await?.into_iter().flatten().collect();
    snapshot.commit().await?;
    Ok(Some(GuildRecord { guild, roles, channels, members, resources, nonces }))
}

/// In a guild whose last message is old only one channel has any.
async fn nonces(snapshot: &mut PgConnection, channels: &[Channel]) -> Result<Vec<SentNonce>, StoreError> {
    let Some(from) = nonces_from(channels) else { return Ok(Vec::new()) };
    let is_recent = |channel: &&Channel| channel.last_message_id.is_some_and(|newest| newest >= from);
    let channels: Vec<i64> = channels.iter().filter(is_recent).map(|channel| int(channel.id)).collect();
    let query = sqlx::query(NONCES).bind(channels).bind(int(from)).bind(NONCES_LOADED_MAX as i64);
    let mut nonces: Vec<SentNonce> = each(snapshot, query, nonce).await?.into_iter().flatten().collect();
    nonces.reverse();
    Ok(nonces)
}

pub(super) async fn message(
    pool: &PgPool,
    channel_id: ChannelId,
    message_id: MessageId,
) -> Result<Option<MessageRecord>, StoreError> {
    let query = sqlx::query(MESSAGE).bind(int(channel_id)).bind(int(message_id));
    Ok(each_of(pool, query, message_record).await?.pop())
}

pub(super) async fn messages(
    pool: &PgPool,
    channel_id: ChannelId,
    page: Page,
    limit: u32,
) -> Result<Vec<MessageRecord>, StoreError> {
    let channel = int(channel_id);
    let all = i64::from(limit);
    let query = match page {
        Page::Newest => sqlx::query(NEWEST).bind(channel).bind(all),
        Page::Before(id) => sqlx::query(BEFORE).bind(channel).bind(int(id)).bind(all),
        Page::After(id) => sqlx::query(AFTER).bind(channel).bind(int(id)).bind(all),
        Page::Around(id) => sqlx::query(AROUND).bind(channel).bind(int(id)).bind(all / 2).bind(all - all / 2),
    };
    each_of(pool, query, message_record).await
}

/// A row of `messages!`.
fn message_record(row: &PgRow) -> Result<MessageRecord, StoreError> {
    let first_uses: Option<Vec<i64>> = row.try_get(1)?;
    let mut reactions: Vec<(ReactionEmoji, Vec<UserId>)> = Vec::new();
    if let Some(first_uses) = first_uses {
        let (ids, names): (Vec<i64>, Vec<Vec<u8>>) = (row.try_get(2)?, row.try_get(3)?);
        let users: Vec<i64> = row.try_get(4)?;
        let mut last = None;
        for (((first_use, emoji_id), name), user_id) in first_uses.into_iter().zip(ids).zip(names).zip(users) {
            if last.replace(first_use) != Some(first_use) {
                reactions.push((emoji(emoji_id, name), Vec::new()));
            }
            if let Some((_, users)) = reactions.last_mut() {
                users.push(id(user_id));
            }
        }
    }
    Ok(MessageRecord { message: Arc::new(row.object("message", 0)?), reactions })
}

fn emoji(emoji_id: i64, name: Vec<u8>) -> ReactionEmoji {
    let name = String::from_utf8(name).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    ReactionEmoji { id: (emoji_id >= 0).then(|| id(emoji_id)), name }
}

pub(super) async fn reaction_users(
    pool: &PgPool,
    channel_id: ChannelId,
    message_id: MessageId,
    emoji: &ReactionEmoji,
    after: UserId,
    limit: u32,
) -> Result<Vec<User>, StoreError> {
    let query = sqlx::query(REACTION_USERS).bind(int(channel_id)).bind(int(message_id)).bind(emoji_id(emoji));
    let query = query.bind(emoji.name.as_bytes()).bind(int(after)).bind(i64::from(limit));
    each_of(pool, query, |row| row.object("account", 0)).await
}

pub(super) async fn directs_of_user(
    pool: &PgPool,
    accounts: &Accounts,
    user_id: UserId,
    limit: u32,
) -> Result<Vec<Direct>, StoreError> {
    let mut snapshot = snapshot(pool).await?;
    let channels = each(&mut snapshot, sqlx::query(DIRECT_CHANNELS).bind(int(user_id)), channel).await?;
    let direct = |channel| Direct { channel: Arc::new(channel), recipients: Arc::new([]) };
    let is_closed = |of: &Direct| of.channel.direct.as_ref().is_some_and(|fields| fields.closed_by.contains(&user_id));
    let mut directs: Vec<Direct> = channels.into_iter().map(direct).filter(|of| !is_closed(of)).collect();
    directs.sort_by_key(|direct| (direct.is_group(), Reverse(direct.newest_activity())));
    directs.truncate(limit as usize);

    let ids: Vec<i64> = directs.iter().map(|direct| int(direct.channel.id)).collect();
    let mut people: HashMap<ChannelId, Vec<Arc<User>>> = HashMap::new();
    each(&mut snapshot, sqlx::query(DIRECT_RECIPIENTS).bind(ids), |row| {
        let of = people.entry(id(row.try_get(0)?)).or_default();
        of.push(accounts.share(row.object("account", 1)?));
        Ok(())
    })
    .await?;
    snapshot.commit().await?;
    for direct in &mut directs {
        let mut recipients = people.remove(&direct.channel.id).unwrap_or_default();
        recipients.sort_unstable_by_key(|user| user.id);
        direct.recipients = recipients.into();
    }
    Ok(directs)
}

pub(super) async fn have_common_guild(pool: &PgPool, [user, other]: [UserId; 2]) -> Result<bool, StoreError> {
    let query = sqlx::query(HAVE_COMMON_GUILD).bind(int(user)).bind(int(other));
    Ok(query.fetch_optional(pool).await?.is_some())
}

const END_OF_SCAN: &str = "\
    SELECT channel_id, id FROM messages WHERE (channel_id, id) > ($1, $2) ORDER BY channel_id, id LIMIT 1 OFFSET $3";
const MESSAGES_OF: &str = "\
    SELECT channel_id, id FROM messages \
    WHERE (channel_id, id) > ($1, $2) AND (channel_id, id) <= ($3, $4) AND author_id = $5 ORDER BY channel_id, id";
const REACTIONS_OF: &str = "\
    SELECT channel_id, message_id, emoji_id, emoji_name FROM reactions \
    WHERE (channel_id, message_id) > ($1, $2) AND (channel_id, message_id) <= ($3, $4) AND user_id = $5 \
    ORDER BY channel_id, message_id";

pub(super) async fn content_of(
    pool: &PgPool,
    user_id: UserId,
    after: Place,
    scanned_max: u32,
) -> Result<ContentOf, StoreError> {
    let mut snapshot = snapshot(pool).await?;
    let place = |row: &PgRow| Ok((id(row.try_get(0)?), id(row.try_get(1)?)));
    let after = (int(after.0), int(after.1));
    let offset = i64::from(scanned_max.saturating_sub(1));
    let end = sqlx::query(END_OF_SCAN).bind(after.0).bind(after.1).bind(offset);
    let next: Option<Place> = each(&mut snapshot, end, place).await?.pop();
    let end = next.map_or((i64::MAX, i64::MAX), |next| (int(next.0), int(next.1)));
    let bound = |sql| sqlx::query(sql).bind(after.0).bind(after.1).bind(end.0).bind(end.1).bind(int(user_id));
    let messages = each(&mut snapshot, bound(MESSAGES_OF), place).await?;
    let reactions =
        each(&mut snapshot, bound(REACTIONS_OF), |row| Ok((place(row)?, emoji(row.try_get(2)?, row.try_get(3)?))));
    let reactions = reactions.await?;
    snapshot.commit().await?;
    Ok(ContentOf { messages, reactions, next })
}

/// Channels with mentions of each target, by steps in the primary key; then the mentions in each after the read state.
const UNREAD_MENTIONS: &str = "\
    SELECT places.kind, places.target_id, places.channel_id, m.message_id FROM ( \
        WITH RECURSIVE places (kind, target_id, floor, channel_id) AS ( \
            SELECT t.kind, t.target_id, t.floor, ( \
                SELECT x.channel_id FROM mentions AS x WHERE x.kind = t.kind AND x.target_id = t.target_id \
                ORDER BY x.channel_id LIMIT 1) \
            FROM unnest($2::BIGINT[], $3::BIGINT[], $4::BIGINT[]) AS t (kind, target_id, floor) \
            UNION ALL SELECT p.kind, p.target_id, p.floor, ( \
                SELECT x.channel_id FROM mentions AS x WHERE x.kind = p.kind AND x.target_id = p.target_id \
                AND x.channel_id > p.channel_id ORDER BY x.channel_id LIMIT 1) \
            FROM places AS p WHERE p.channel_id IS NOT NULL) \
        SELECT * FROM places WHERE channel_id IS NOT NULL) AS places \
    CROSS JOIN LATERAL ( \
        SELECT x.message_id, x.author_id FROM mentions AS x WHERE x.kind = places.kind \
        AND x.target_id = places.target_id AND x.channel_id = places.channel_id \
        AND x.message_id > GREATEST(places.floor, COALESCE(( \
            SELECT r.last_message_id FROM read_states AS r \
            WHERE r.user_id = $1 AND r.channel_id = places.channel_id), 0)) \
        ORDER BY x.message_id DESC LIMIT $5) AS m \
    WHERE m.author_id <> $1 LIMIT $6";

pub(super) async fn unread_mentions(pool: &PgPool, user_id: UserId) -> Result<Vec<UnreadMention>, StoreError> {
    let memberships = each_of(pool, sqlx::query(JOINED_GUILDS).bind(int(user_id)), joined_guild).await?;
    let (mut kinds, mut ids, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, id, floor) in read_state::targets(user_id, memberships) {
        kinds.push(kind);
        ids.push(id);
        floors.push(floor);
    }
    let query = sqlx::query(UNREAD_MENTIONS).bind(int(user_id)).bind(kinds).bind(ids).bind(floors);
    let query = query.bind(i64::from(MENTIONS_PER_CHANNEL_MAX)).bind(i64::from(MENTIONS_MAX));
    each_of(pool, query, unread_mention).await
}

const UNREAD_DIRECTS: &str = "\
    SELECT (SELECT COUNT(*) FROM ( \
        SELECT m.author_id FROM messages AS m WHERE m.channel_id = t.channel_id AND m.id > t.after AND m.id <= t.up_to \
        ORDER BY m.id LIMIT $5) AS unread WHERE unread.author_id <> $1) \
    FROM unnest($2::BIGINT[], $3::BIGINT[], $4::BIGINT[]) WITH ORDINALITY AS t (channel_id, after, up_to, n) ORDER BY t.n";

pub(super) async fn unread_directs(
    pool: &PgPool,
    user_id: UserId,
    spans: &[DirectSpan],
    each_max: u32,
) -> Result<Vec<u32>, StoreError> {
    let spans = &spans[..spans.len().min(DIRECTS_ASKED_MAX)];
    let column = |of: fn(&DirectSpan) -> i64| spans.iter().map(of).collect::<Vec<i64>>();
    let query = sqlx::query(UNREAD_DIRECTS).bind(int(user_id)).bind(column(|of| int(of.channel_id)));
    let query = query.bind(column(|of| int(of.after))).bind(column(|of| int(of.up_to))).bind(i64::from(each_max));
    each_of(pool, query, |row| Ok(row.int(0)? as u32)).await
}

const ATTACHMENTS_IN_USE: &str = "\
    SELECT attachments.id FROM attachments WHERE attachments.id = ANY ($1) \
    AND NOT EXISTS (SELECT 1 FROM channels WHERE channels.id = attachments.channel_id AND channels.guild_id = 0)";

pub(super) async fn attachments_in_use(pool: &PgPool, ids: &[Id<()>]) -> Result<BTreeSet<Id<()>>, StoreError> {
    let requested: Vec<i64> = ids.iter().take(ATTACHMENTS_ASKED_MAX).map(|id| int(*id)).collect();
    Ok(each_of(pool, sqlx::query(ATTACHMENTS_IN_USE).bind(requested), |row| row.id(0)).await?.into_iter().collect())
}

pub(super) async fn user_versions(
    pool: &PgPool,
    accounts: &Accounts,
    user_ids: &[UserId],
) -> Result<Vec<(Arc<User>, UserVersion)>, StoreError> {
    let requested: Vec<i64> = user_ids.iter().take(USERS_CHANGED_MAX).map(|id| int(*id)).collect();
    let sql = "SELECT data, version FROM users WHERE id = ANY ($1)";
    each_of(pool, sqlx::query(sql).bind(requested), |row| user_version(row, accounts)).await
}

const SIGN_INS: &str = "\
    SELECT tokens.hash, tokens.user_id, tokens.created_at, coalesce(users.data, ''), \
    CASE WHEN users.id IS NULL THEN 0 ELSE 1 END::bigint \
    FROM tokens LEFT JOIN users ON users.id = tokens.user_id WHERE tokens.hash = ANY ($1)";
const MEMBERSHIPS: &str = "\
    SELECT user_id, guild_id FROM members WHERE user_id = ANY ($1) \
    AND NOT EXISTS (SELECT 1 FROM directs WHERE directs.id = guild_id) \
    AND NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE deleted_guilds.id = guild_id) LIMIT $2";

pub(super) async fn sign_ins(
    pool: &PgPool,
    accounts: &Accounts,
    hashes: &[TokenHash],
) -> Result<Vec<SignIn>, StoreError> {
    let requested: Vec<&[u8]> = hashes.iter().take(SIGN_INS_MAX).map(|hash| &hash.0[..]).collect();
    let sign_in = |row: &PgRow| sign_in::without_guilds(row, |user| accounts.share(user));
    let mut snapshot = snapshot(pool).await?;
    let found = each(&mut snapshot, sqlx::query(SIGN_INS).bind(requested), sign_in).await?;
    let memberships =
        sqlx::query(MEMBERSHIPS).bind(sign_in::user_ids(&found)).bind(i64::from(sign_in::MEMBERSHIPS_MAX) + 1);
    let memberships = each(&mut snapshot, memberships, |row| Ok((row.int(0)?, row.int(1)?))).await?;
    Ok(sign_in::with_guilds(found, memberships))
}

pub(super) async fn with_external_ids(
    pool: &PgPool,
    kind: ExternalKind,
    texts: &[String],
) -> Result<Vec<ExternalId>, StoreError> {
    // PostgreSQL has no text with U+0000, so no object has one, and refuses the whole query.
    let requested = texts.iter().take(EXTERNAL_IDS_MAX).filter(|text| !text.contains('\0'));
    let requested: Vec<&str> = requested.map(String::as_str).collect();
    let sql = "SELECT id, external_id FROM external_ids WHERE kind = $1 AND external_id = ANY ($2)";
    each_of(pool, sqlx::query(sql).bind(kind as i64).bind(requested), external_id).await
}

pub(super) async fn external_ids(
    pool: &PgPool,
    kind: ExternalKind,
    ids: &[u64],
) -> Result<Vec<ExternalId>, StoreError> {
    let requested: Vec<i64> = ids.iter().take(EXTERNAL_IDS_MAX).map(|id| *id as i64).collect();
    let sql = "SELECT id, external_id FROM external_ids WHERE kind = $1 AND id = ANY ($2)";
    each_of(pool, sqlx::query(sql).bind(kind as i64).bind(requested), external_id).await
}

/// A thread has the retention of its channel.
const MESSAGE_AGES: &str = "\
    SELECT channels.id, channels.guild_id, \
    (SELECT id FROM messages WHERE channel_id = channels.id ORDER BY id LIMIT 1), \
    COALESCE( \
        (SELECT keep_days FROM retention WHERE retention.id = channels.id), \
        (SELECT keep_days FROM retention WHERE retention.id = channels.parent_id), \
        (SELECT keep_days FROM retention WHERE retention.id = channels.guild_id)) \
    FROM channels WHERE channels.id > $1 AND channels.guild_id <> 0 ORDER BY channels.id LIMIT $2";

pub(super) async fn message_ages(pool: &PgPool, after: ChannelId, limit: u32) -> Result<Vec<MessageAge>, StoreError> {
    each_of(pool, sqlx::query(MESSAGE_AGES).bind(int(after)).bind(i64::from(limit)), |row| {
        Ok(MessageAge {
            channel_id: row.id(0)?,
            guild_id: row.id(1)?,
            oldest: row.int_or_null(2)?.map(id),
            keep_days: row.int_or_null(3)?.map(|days| days as u32),
        })
    })
    .await
}

/// A few steps in primary keys per owner; of a guild its roles, too.
pub(super) async fn pictures_in_use(pool: &PgPool, owners: &[PictureOwner]) -> Result<Vec<PictureNames>, StoreError> {
    let mut snapshot = snapshot(pool).await?;
    let mut all = Vec::with_capacity(owners.len().min(PICTURE_OWNERS_ASKED_MAX));
    for owner in owners.iter().take(PICTURE_OWNERS_ASKED_MAX) {
        all.push(pictures_of(&mut snapshot, *owner).await?);
    }
    snapshot.commit().await?;
    Ok(all)
}

const WEBHOOK: &str = "\
    SELECT kind, data FROM guild_resources WHERE kind = $1 AND id = $2 \
    AND NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE deleted_guilds.id = guild_id)";
const MEMBER: &str = "\
    SELECT members.data, users.data FROM members JOIN users ON users.id = members.user_id \
    WHERE members.guild_id = $1 AND members.user_id = $2 \
    AND NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE deleted_guilds.id = $1)";

async fn pictures_of(connection: &mut PgConnection, owner: PictureOwner) -> Result<PictureNames, StoreError> {
    let mut names = PictureNames::new();
    match owner {
        PictureOwner::User(user_id) => {
            let user = sqlx::query("SELECT data FROM users WHERE id = $1").bind(int(user_id));
            for user in each(connection, user, |row| row.object::<User>("account", 0)).await? {
                names.extend(picture::of_user(&user));
            }
            let webhooks = sqlx::query(WEBHOOK).bind(ResourceKind::Webhook as i64).bind(int(user_id));
            for webhook in each(connection, webhooks, resource).await?.into_iter().flatten() {
                if let GuildResource::Webhook(webhook) = webhook {
                    names.extend(webhook.avatar.clone());
                }
            }
        }
        PictureOwner::Guild(guild_id) => {
            let guild = sqlx::query(GUILD).bind(int(guild_id)).fetch_optional(&mut *connection).await?;
            if let Some(guild) = guild {
                names = picture::of_guild(&guild.object("guild", 0)?);
                let roles = sqlx::query(ROLES).bind(int(guild_id));
                let name = |row: &PgRow| Ok(picture::of_role(&row.object("role", 0)?));
                names.extend(each(connection, roles, name).await?.into_iter().flatten());
            }
        }
        PictureOwner::Member(guild_id, user_id) => {
            let member = sqlx::query(MEMBER).bind(int(guild_id)).bind(int(user_id));
            // Not shared with loaded guilds.
            let member = each(connection, member, |row| {
                Ok(row.object::<StoredMember>("member", 0)?.with(Arc::new(row.object("account", 1)?)))
            });
            let members = member.await?;
            let pictures = members.iter().filter_map(|member| member.pictures.as_deref());
            names.extend(pictures.flat_map(picture::of_member));
        }
    }
    Ok(names)
}

pub(super) async fn largest_id(connection: &mut PgConnection) -> Result<u64, StoreError> {
    let largest: Option<i64> = sqlx::query_scalar(LARGEST_ID).fetch_one(connection).await?;
    Ok(largest.map_or(0, |column| id::<()>(column).get()))
}

/// The expression is that of the index `users_by_name`.
const USERS_NAMED: &str = "\
    SELECT data FROM users WHERE CASE WHEN position('\\u0000' IN data) = 0 THEN data::JSONB ->> 'username' END = $1 \
    ORDER BY id LIMIT $2";

pub(super) async fn users_named(pool: &PgPool, username: &str, limit: u32) -> Result<Vec<Arc<User>>, StoreError> {
    if username.contains('\0') {
        // PostgreSQL refuses such a text.
        return Ok(Vec::new());
    }
    let values = [Value::Text(username), Value::Int(limit.into())];
    pool.each(USERS_NAMED, &values, |row| Ok(Arc::new(row.object("account", 0)?))).await
}
