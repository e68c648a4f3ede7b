-- What a guild keeps beside roles, channels and members: bans, invites, webhooks, pins, members of threads.
-- `kind` says which; `id` and `part` are what it is found by (`BelongingKey`).
CREATE TABLE belongings (
    guild_id INTEGER NOT NULL REFERENCES guilds (id) ON DELETE CASCADE,
    kind INTEGER NOT NULL,
    id INTEGER NOT NULL,
    part INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (guild_id, kind, id, part)
) STRICT, WITHOUT ROWID;
-- An invite or a webhook says which guild it is of.
CREATE INDEX belongings_by_id ON belongings (kind, id);
