-- The columns are what is looked up or ordered by; `data` is the object itself as JSON.
-- Ids are snowflakes below 2^63. Everything in a guild goes with it (cascades).

CREATE TABLE users (
    id INTEGER PRIMARY KEY,
    data TEXT NOT NULL
) STRICT;

CREATE TABLE guilds (
    id INTEGER PRIMARY KEY,
    data TEXT NOT NULL
) STRICT;

CREATE TABLE roles (
    guild_id INTEGER NOT NULL REFERENCES guilds (id) ON DELETE CASCADE,
    id INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (guild_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE channels (
    id INTEGER PRIMARY KEY,
    guild_id INTEGER NOT NULL REFERENCES guilds (id) ON DELETE CASCADE,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX channels_by_guild ON channels (guild_id);

-- `data` is the member without the account, which is in `users` once.
CREATE TABLE members (
    guild_id INTEGER NOT NULL REFERENCES guilds (id) ON DELETE CASCADE,
    user_id INTEGER NOT NULL REFERENCES users (id),
    data TEXT NOT NULL,
    PRIMARY KEY (guild_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_by_user ON members (user_id);

-- In the order in which history is read.
CREATE TABLE messages (
    channel_id INTEGER NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
    id INTEGER NOT NULL,
    guild_id INTEGER NOT NULL,
    author_id INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (channel_id, id)
) STRICT, WITHOUT ROWID;

-- `emoji_id` is -1 for unicode emoji. `ordinal` orders the users of an emoji, `first_use` (the ordinal
-- with which the emoji appeared on the message) orders the emoji.
CREATE TABLE reactions (
    channel_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    emoji_id INTEGER NOT NULL,
    emoji_name TEXT NOT NULL,
    user_id INTEGER NOT NULL REFERENCES users (id),
    ordinal INTEGER NOT NULL,
    first_use INTEGER NOT NULL,
    PRIMARY KEY (channel_id, message_id, emoji_id, emoji_name, user_id),
    FOREIGN KEY (channel_id, message_id) REFERENCES messages (channel_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    hash BLOB PRIMARY KEY,
    user_id INTEGER NOT NULL,
    created_at INTEGER NOT NULL -- Unix milliseconds
) STRICT, WITHOUT ROWID;

CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('reactions', 1);
