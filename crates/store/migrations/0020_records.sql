-- Small things that belong to the node and not to a guild: keys of backends, tokens that were revoked before their time.
CREATE TABLE records (
    kind TEXT NOT NULL,
    id BLOB NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

-- Which tokens an account has.
CREATE INDEX tokens_by_user ON tokens (user_id);
