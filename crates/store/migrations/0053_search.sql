-- Full-text index of messages. Messages wait in `search_pending` until `Store::index_messages` has their tokens written; the
-- program makes tokens, so that all stores find the same messages.
CREATE TABLE search_pending (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    channel_id INTEGER NOT NULL,
    id INTEGER NOT NULL
) STRICT;

-- Messages from before this migration up to this one, in the order of their key, are in the index; no row: all are.
CREATE TABLE search_progress (
    channel_id INTEGER NOT NULL,
    id INTEGER NOT NULL,
    indexed INTEGER NOT NULL -- how many
) STRICT;
INSERT INTO search_progress (channel_id, id, indexed) SELECT 0, 0, 0 WHERE EXISTS (SELECT 1 FROM messages);

-- Messages that are in the index. `key` is the message's id; it is up to 7 larger (`ahead`) if an imported message of
-- another channel has the same id.
CREATE TABLE search_messages (
    key INTEGER PRIMARY KEY,
    channel_id INTEGER NOT NULL,
    ahead INTEGER NOT NULL
) STRICT;

-- The row id is the key. The program separates tokens by spaces; they consist of letters and digits of any
-- language, and of `#` at the beginning of what is no word.
CREATE VIRTUAL TABLE search_index USING fts5(
    tokens,
    content = '',
    contentless_delete = 1,
    detail = none,
    tokenize = "ascii tokenchars '#'"
);

-- A message leaves the index with each change, so that nothing is found by what a message no longer contains.
CREATE TRIGGER search_of_new AFTER INSERT ON messages
BEGIN
    INSERT INTO search_pending (channel_id, id) VALUES (NEW.channel_id, NEW.id);
END;
CREATE TRIGGER search_of_changed AFTER UPDATE OF data ON messages
WHEN OLD.data <> NEW.data
BEGIN
    DELETE FROM search_index WHERE rowid = (
        SELECT key FROM search_messages
        WHERE key BETWEEN OLD.id AND OLD.id + 7 AND key - ahead = OLD.id AND channel_id = OLD.channel_id);
    DELETE FROM search_messages
        WHERE key BETWEEN OLD.id AND OLD.id + 7 AND key - ahead = OLD.id AND channel_id = OLD.channel_id;
    INSERT INTO search_pending (channel_id, id) VALUES (NEW.channel_id, NEW.id);
END;
CREATE TRIGGER search_of_deleted AFTER DELETE ON messages
BEGIN
    DELETE FROM search_index WHERE rowid = (
        SELECT key FROM search_messages
        WHERE key BETWEEN OLD.id AND OLD.id + 7 AND key - ahead = OLD.id AND channel_id = OLD.channel_id);
    DELETE FROM search_messages
        WHERE key BETWEEN OLD.id AND OLD.id + 7 AND key - ahead = OLD.id AND channel_id = OLD.channel_id;
END;
