-- Full-text index of messages. Messages wait in `search_pending` until `Store::index_messages` has their tokens written; the
-- program makes tokens, so that all stores find the same messages.
CREATE TABLE search_pending (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    channel_id BIGINT NOT NULL,
    id BIGINT NOT NULL
);

-- Messages from before this migration up to this one, in the order of their key, are in the index; no row: all are.
CREATE TABLE search_progress (
    channel_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    indexed BIGINT NOT NULL -- how many
);
INSERT INTO search_progress (channel_id, id, indexed) SELECT 0, 0, 0 WHERE EXISTS (SELECT 1 FROM messages);

-- Tokens of messages that are in the index.
CREATE TABLE search_messages (
    channel_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    guild_id BIGINT NOT NULL,
    tokens TSVECTOR NOT NULL,
    PRIMARY KEY (channel_id, id),
    FOREIGN KEY (channel_id, id) REFERENCES messages (channel_id, id) ON DELETE CASCADE
);
CREATE INDEX search_messages_by_guild ON search_messages (guild_id, id);
CREATE INDEX search_messages_by_token ON search_messages USING gin (tokens);

-- A message leaves the index with each change, so that nothing is found by what a message no longer contains. A trigger,
-- so that messages of nodes of earlier releases are indexed too.
CREATE FUNCTION guildhall_search_pending_1() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.data = NEW.data THEN
            RETURN NULL;
        END IF;
        DELETE FROM search_messages WHERE channel_id = NEW.channel_id AND id = NEW.id;
    END IF;
    INSERT INTO search_pending (channel_id, id) VALUES (NEW.channel_id, NEW.id);
    RETURN NULL;
END;
$$;
CREATE TRIGGER search_of_messages AFTER INSERT OR UPDATE OF data ON messages FOR EACH ROW
    EXECUTE FUNCTION guildhall_search_pending_1();
