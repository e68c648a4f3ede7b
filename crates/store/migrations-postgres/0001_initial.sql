-- The columns are what is looked up or ordered by; `data` is the object itself as JSON text, because `json` and `jsonb`
-- refuse texts that contain U+0000. Ids are snowflakes below 2^63.

CREATE TABLE users (
    id BIGINT PRIMARY KEY,
    data TEXT NOT NULL
);

CREATE TABLE guilds (
    id BIGINT PRIMARY KEY,
    data TEXT NOT NULL
);

-- Deleting a guild or channel only marks it; a task purges the content afterwards, a slice at a time. A deleted channel
-- belongs to guild 0, which no guild can be. The content of a deleted guild is in its tables until it is purged.
CREATE TABLE deleted_guilds (
    id BIGINT PRIMARY KEY
);
INSERT INTO guilds (id, data) VALUES (0, '{}');
INSERT INTO deleted_guilds (id) VALUES (0);

CREATE TABLE roles (
    guild_id BIGINT NOT NULL REFERENCES guilds (id) ON DELETE CASCADE,
    id BIGINT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (guild_id, id)
);

-- `parent_id` is that of threads only: they inherit its retention.
CREATE TABLE channels (
    id BIGINT PRIMARY KEY,
    guild_id BIGINT NOT NULL REFERENCES guilds (id) ON DELETE CASCADE,
    parent_id BIGINT,
    data TEXT NOT NULL
);
CREATE INDEX channels_by_guild ON channels (guild_id);

-- `data` is the member without the account, which is in `users` once.
CREATE TABLE members (
    guild_id BIGINT NOT NULL REFERENCES guilds (id) ON DELETE CASCADE,
    user_id BIGINT NOT NULL REFERENCES users (id),
    data TEXT NOT NULL,
    PRIMARY KEY (guild_id, user_id)
);
CREATE INDEX members_by_user ON members (user_id, guild_id);

CREATE TABLE messages (
    channel_id BIGINT NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
    id BIGINT NOT NULL,
    guild_id BIGINT NOT NULL,
    author_id BIGINT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (channel_id, id)
);

-- `emoji_id` is -1 for unicode emoji; names are bytes, because `text` refuses U+0000. `ordinal` orders the users of an
-- emoji, `first_use` (the ordinal with which the emoji appeared on the message) orders the emoji.
CREATE TABLE reactions (
    channel_id BIGINT NOT NULL,
    message_id BIGINT NOT NULL,
    emoji_id BIGINT NOT NULL,
    emoji_name BYTEA NOT NULL,
    user_id BIGINT NOT NULL REFERENCES users (id),
    ordinal BIGINT NOT NULL,
    first_use BIGINT NOT NULL,
    PRIMARY KEY (channel_id, message_id, emoji_id, emoji_name, user_id),
    FOREIGN KEY (channel_id, message_id) REFERENCES messages (channel_id, id) ON DELETE CASCADE
);
CREATE SEQUENCE reaction_ordinals;

-- Files of messages. A file without a message is deleted.
CREATE TABLE attachments (
    channel_id BIGINT NOT NULL,
    message_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    PRIMARY KEY (channel_id, message_id, id),
    FOREIGN KEY (channel_id, message_id) REFERENCES messages (channel_id, id) ON DELETE CASCADE
);
CREATE INDEX attachments_by_id ON attachments (id);

-- Bans, invites, webhooks, pins, members of threads and the like. `id` and `part` are those of `ResourceKey`.
CREATE TABLE guild_resources (
    guild_id BIGINT NOT NULL REFERENCES guilds (id) ON DELETE CASCADE,
    kind BIGINT NOT NULL,
    id BIGINT NOT NULL,
    part BIGINT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (guild_id, kind, id, part)
);
CREATE INDEX guild_resources_by_id ON guild_resources (kind, id, guild_id);

-- Rows of `guilds` that hold a direct message or a group. Their id is that of their only channel.
CREATE TABLE directs (
    id BIGINT PRIMARY KEY REFERENCES guilds (id) ON DELETE CASCADE
);

-- Ids of direct messages by their two accounts, stored before the direct message, so that there is never a second one.
CREATE TABLE direct_pairs (
    low BIGINT NOT NULL,
    high BIGINT NOT NULL,
    id BIGINT NOT NULL,
    PRIMARY KEY (low, high)
);
CREATE INDEX direct_pairs_by_id ON direct_pairs (id);

-- Ids that backends give to accounts (kind 0), guilds (1) and channels (2).
CREATE TABLE external_ids (
    kind BIGINT NOT NULL,
    external_id TEXT COLLATE "C" NOT NULL,
    id BIGINT NOT NULL,
    PRIMARY KEY (kind, external_id),
    UNIQUE (kind, id)
);

-- Retention of the messages of guilds and channels, where it differs from the setting. 0: for ever.
CREATE TABLE retention (
    id BIGINT PRIMARY KEY,
    keep_days BIGINT NOT NULL
);

CREATE TABLE tokens (
    hash BYTEA PRIMARY KEY,
    user_id BIGINT NOT NULL,
    created_at BIGINT NOT NULL -- Unix milliseconds
);
CREATE INDEX tokens_by_user ON tokens (user_id);

CREATE TABLE records (
    kind TEXT COLLATE "C" NOT NULL,
    id BYTEA NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (kind, id)
);

CREATE TABLE settings (
    name TEXT COLLATE "C" PRIMARY KEY,
    value BYTEA NOT NULL
);

-- Fencing: the node that may write. A transaction states the epoch that its node claimed, and fails when a later node
-- has claimed a higher one. Scope 0 is the whole database.
CREATE TABLE epochs (
    scope BIGINT PRIMARY KEY,
    epoch BIGINT NOT NULL
);

-- Fails with GH001 unless the epoch is the current one. Until the transaction ends, `guildhall_claim_1` waits.
CREATE FUNCTION guildhall_fence_1(fenced_scope BIGINT, wanted BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(-1 - fenced_scope);
    IF NOT EXISTS (SELECT 1 FROM epochs WHERE scope = fenced_scope AND epoch = wanted) THEN
        RAISE EXCEPTION USING ERRCODE = 'GH001', MESSAGE = 'another node has claimed the database';
    END IF;
END;
$$;

-- Raises the epoch and returns it: transactions with an earlier one fail from now on.
CREATE FUNCTION guildhall_claim_1(fenced_scope BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    claimed BIGINT;
BEGIN
    PERFORM pg_advisory_xact_lock(-1 - fenced_scope);
    INSERT INTO epochs (scope, epoch) VALUES (fenced_scope, 1)
        ON CONFLICT (scope) DO UPDATE SET epoch = epochs.epoch + 1 RETURNING epoch INTO claimed;
    RETURN claimed;
END;
$$;

-- Applies writes in order, in one statement and thus in one round trip. `PostgresStore` encodes them: `op` says which,
-- the other columns are its arguments. A program of another version may call another version of this function, so a
-- change of it is a new function.
CREATE FUNCTION guildhall_apply_1(
    fenced_scope BIGINT,
    wanted BIGINT,
    ops SMALLINT[],
    as_ BIGINT[],
    bs BIGINT[],
    cs BIGINT[],
    ds BIGINT[],
    names BYTEA[],
    datas TEXT[]
) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    w RECORD;
    new_ordinal BIGINT;
BEGIN
    PERFORM guildhall_fence_1(fenced_scope, wanted);
    FOR w IN
        SELECT * FROM unnest(ops, as_, bs, cs, ds, names, datas) WITH ORDINALITY AS t (op, a, b, c, d, name, data, n)
        ORDER BY n
    LOOP
        CASE w.op
            WHEN 1 THEN -- message: channel, id, guild, author
                INSERT INTO messages (channel_id, id, guild_id, author_id, data)
                    SELECT w.a, w.b, w.c, w.d, w.data
                    WHERE EXISTS (SELECT 1 FROM channels WHERE id = w.a AND guild_id <> 0)
                    ON CONFLICT (channel_id, id) DO UPDATE SET author_id = excluded.author_id, data = excluded.data;
                IF NOT FOUND THEN
                    RAISE foreign_key_violation USING TABLE = 'messages';
                END IF;
            WHEN 2 THEN -- attachment: channel, message, id
                INSERT INTO attachments (channel_id, message_id, id) VALUES (w.a, w.b, w.c) ON CONFLICT DO NOTHING;
            WHEN 3 THEN -- no attachments: channel, message
                DELETE FROM attachments WHERE channel_id = w.a AND message_id = w.b;
            WHEN 4 THEN -- no message: channel, id
                DELETE FROM messages WHERE channel_id = w.a AND id = w.b;
            WHEN 5 THEN -- reaction: channel, message, emoji, account
                IF NOT EXISTS (SELECT 1 FROM channels WHERE id = w.a AND guild_id <> 0) THEN
                    RAISE foreign_key_violation USING TABLE = 'reactions';
                END IF;
                new_ordinal := nextval('reaction_ordinals');
                INSERT INTO reactions (channel_id, message_id, emoji_id, emoji_name, user_id, ordinal, first_use)
                    SELECT w.a, w.b, w.c, w.name, w.d, new_ordinal, COALESCE((
                        SELECT r.first_use FROM reactions AS r
                        WHERE r.channel_id = w.a AND r.message_id = w.b AND r.emoji_id = w.c AND r.emoji_name = w.name
                        LIMIT 1), new_ordinal)
                    ON CONFLICT DO NOTHING;
            WHEN 6 THEN -- no reaction: channel, message, emoji, account
                DELETE FROM reactions WHERE channel_id = w.a AND message_id = w.b AND emoji_id = w.c
                    AND emoji_name = w.name AND user_id = w.d;
            WHEN 7 THEN -- no reactions: channel, message
                DELETE FROM reactions WHERE channel_id = w.a AND message_id = w.b;
            WHEN 8 THEN -- no reactions with an emoji: channel, message, emoji
                DELETE FROM reactions WHERE channel_id = w.a AND message_id = w.b AND emoji_id = w.c
                    AND emoji_name = w.name;
            WHEN 9 THEN -- account: id
                INSERT INTO users (id, data) VALUES (w.a, w.data)
                    ON CONFLICT (id) DO UPDATE SET data = excluded.data;
            WHEN 10 THEN -- account, unless it is stored: id
                INSERT INTO users (id, data) VALUES (w.a, w.data) ON CONFLICT (id) DO NOTHING;
            WHEN 11 THEN -- member: guild, account
                INSERT INTO members (guild_id, user_id, data) SELECT w.a, w.b, w.data
                    WHERE NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE id = w.a)
                    ON CONFLICT (guild_id, user_id) DO UPDATE SET data = excluded.data;
                IF NOT FOUND THEN
                    RAISE foreign_key_violation USING TABLE = 'members';
                END IF;
            WHEN 12 THEN -- no member: guild, account
                DELETE FROM members WHERE guild_id = w.a AND user_id = w.b;
            WHEN 13 THEN -- role: guild, id
                INSERT INTO roles (guild_id, id, data) SELECT w.a, w.b, w.data
                    WHERE NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE id = w.a)
                    ON CONFLICT (guild_id, id) DO UPDATE SET data = excluded.data;
                IF NOT FOUND THEN
                    RAISE foreign_key_violation USING TABLE = 'roles';
                END IF;
            WHEN 14 THEN -- no role: guild, id
                DELETE FROM roles WHERE guild_id = w.a AND id = w.b;
            WHEN 15 THEN -- resource: guild, kind, id, part
                INSERT INTO guild_resources (guild_id, kind, id, part, data) SELECT w.a, w.b, w.c, w.d, w.data
                    WHERE NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE id = w.a)
                    ON CONFLICT (guild_id, kind, id, part) DO UPDATE SET data = excluded.data;
                IF NOT FOUND THEN
                    RAISE foreign_key_violation USING TABLE = 'guild_resources';
                END IF;
            WHEN 16 THEN -- no resource: guild, kind, id, part
                DELETE FROM guild_resources WHERE guild_id = w.a AND kind = w.b AND id = w.c AND part = w.d;
            WHEN 17 THEN -- no resources: guild, kind, id
                DELETE FROM guild_resources WHERE guild_id = w.a AND kind = w.b AND id = w.c;
            WHEN 18 THEN -- guild: id; b is 1 for a direct message
                -- An id that is used again before its purge has ended starts empty: the rest is deleted at once.
                DELETE FROM deleted_guilds WHERE id = w.a;
                IF FOUND THEN
                    DELETE FROM members WHERE guild_id = w.a;
                    DELETE FROM guild_resources WHERE guild_id = w.a;
                    DELETE FROM roles WHERE guild_id = w.a;
                END IF;
                INSERT INTO guilds (id, data) VALUES (w.a, w.data)
                    ON CONFLICT (id) DO UPDATE SET data = excluded.data;
                IF w.b = 1 THEN
                    INSERT INTO directs (id) VALUES (w.a) ON CONFLICT DO NOTHING;
                END IF;
            WHEN 19 THEN -- no guild: id
                WITH gone AS (UPDATE channels SET guild_id = 0 WHERE guild_id = w.a RETURNING id),
                    external AS (DELETE FROM external_ids WHERE kind = 2 AND id IN (SELECT id FROM gone))
                    DELETE FROM retention WHERE id IN (SELECT id FROM gone);
                DELETE FROM directs WHERE id = w.a;
                INSERT INTO deleted_guilds (id) SELECT id FROM guilds WHERE id = w.a ON CONFLICT DO NOTHING;
                DELETE FROM external_ids WHERE kind = 1 AND id = w.a;
                DELETE FROM retention WHERE id = w.a;
            WHEN 20 THEN -- channel: id, guild, parent of a thread
                IF EXISTS (SELECT 1 FROM channels WHERE id = w.a AND guild_id = 0) THEN
                    DELETE FROM messages WHERE channel_id = w.a;
                END IF;
                INSERT INTO channels (id, guild_id, parent_id, data) SELECT w.a, w.b, w.c, w.data
                    WHERE NOT EXISTS (SELECT 1 FROM deleted_guilds WHERE id = w.b)
                    ON CONFLICT (id) DO UPDATE
                        SET guild_id = excluded.guild_id, parent_id = excluded.parent_id, data = excluded.data;
                IF NOT FOUND THEN
                    RAISE foreign_key_violation USING TABLE = 'channels';
                END IF;
            WHEN 21 THEN -- no channel: guild, id
                UPDATE channels SET guild_id = 0 WHERE guild_id = w.a AND id = w.b;
                IF FOUND THEN
                    DELETE FROM external_ids WHERE kind = 2 AND id = w.b;
                    DELETE FROM retention WHERE id = w.b;
                END IF;
        END CASE;
    END LOOP;
END;
$$;
