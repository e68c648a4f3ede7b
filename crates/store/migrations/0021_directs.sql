-- Which rows of `guilds` are no guilds, but hold a direct message or a group. Their id is that of their only channel.
CREATE TABLE directs (
    id INTEGER PRIMARY KEY REFERENCES guilds (id) ON DELETE CASCADE
) STRICT;

-- The direct message between two accounts: its id, kept before it is made, so that there is never a second one.
CREATE TABLE direct_pairs (
    low INTEGER NOT NULL,
    high INTEGER NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (low, high)
) STRICT, WITHOUT ROWID;
CREATE INDEX direct_pairs_by_id ON direct_pairs (id);
