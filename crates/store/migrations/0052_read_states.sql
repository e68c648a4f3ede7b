-- How far accounts have read their channels. 0: none (`last_message_id`, `last_pin`, `last_viewed`).
CREATE TABLE read_states (
    user_id INTEGER NOT NULL,
    channel_id INTEGER NOT NULL,
    last_message_id INTEGER NOT NULL,
    last_pin INTEGER NOT NULL, -- Unix milliseconds
    flags INTEGER NOT NULL,
    last_viewed INTEGER NOT NULL, -- days since 2015-01-01
    PRIMARY KEY (user_id, channel_id)
) STRICT, WITHOUT ROWID;

-- Direct messages count as read until now. Messages from before have no row in `mentions`.
INSERT INTO read_states (user_id, channel_id, last_message_id, last_pin, flags, last_viewed)
    SELECT members.user_id, directs.id, newest.id, 0, 0, 0 FROM directs
    CROSS JOIN members ON members.guild_id = directs.id
    CROSS JOIN messages AS newest ON newest.channel_id = directs.id
        AND newest.id = (SELECT id FROM messages WHERE channel_id = directs.id ORDER BY id DESC LIMIT 1);

-- Which message mentions which account (kind 0; bots are left out) or role (1; the role @everyone has the id of its guild).
CREATE TABLE mentions (
    kind INTEGER NOT NULL,
    target_id INTEGER NOT NULL,
    channel_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    author_id INTEGER NOT NULL,
    PRIMARY KEY (kind, target_id, channel_id, message_id),
    FOREIGN KEY (channel_id, message_id) REFERENCES messages (channel_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX mentions_by_message ON mentions (channel_id, message_id);

-- A message of a community mentions accounts, roles or everyone only with one of these keys.
CREATE TRIGGER mentions_of_new AFTER INSERT ON messages
WHEN instr(NEW.data, '"mention') > 0
BEGIN
    INSERT INTO mentions (kind, target_id, channel_id, message_id, author_id)
        SELECT 0, CAST(value ->> '$.id' AS INTEGER), NEW.channel_id, NEW.id, NEW.author_id
            FROM json_each(NEW.data, '$.mentions') WHERE value ->> '$.bot' IS NOT 1
        UNION SELECT 1, CAST(value AS INTEGER), NEW.channel_id, NEW.id, NEW.author_id
            FROM json_each(NEW.data, '$.mention_roles')
        UNION SELECT 1, NEW.guild_id, NEW.channel_id, NEW.id, NEW.author_id
            WHERE NEW.data ->> '$.mention_everyone' = 1;
END;
CREATE TRIGGER mentions_of_changed AFTER UPDATE OF data ON messages
WHEN instr(OLD.data, '"mention') > 0 OR instr(NEW.data, '"mention') > 0
BEGIN
    DELETE FROM mentions WHERE channel_id = NEW.channel_id AND message_id = NEW.id;
    INSERT INTO mentions (kind, target_id, channel_id, message_id, author_id)
        SELECT 0, CAST(value ->> '$.id' AS INTEGER), NEW.channel_id, NEW.id, NEW.author_id
            FROM json_each(NEW.data, '$.mentions') WHERE value ->> '$.bot' IS NOT 1
        UNION SELECT 1, CAST(value AS INTEGER), NEW.channel_id, NEW.id, NEW.author_id
            FROM json_each(NEW.data, '$.mention_roles')
        UNION SELECT 1, NEW.guild_id, NEW.channel_id, NEW.id, NEW.author_id
            WHERE NEW.data ->> '$.mention_everyone' = 1;
END;
