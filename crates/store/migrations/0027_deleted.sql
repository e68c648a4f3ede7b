-- Deleting a guild or channel only marks it; the content is purged afterwards, a slice at a time, so that other writes
-- never wait for millions of rows.
-- A deleted channel belongs to guild 0, which no guild can be. The content of a deleted guild is in these tables until
-- it is purged.
CREATE TABLE deleted_guilds (
    id INTEGER PRIMARY KEY
) STRICT;
INSERT INTO guilds (id, data) VALUES (0, '{}');
INSERT INTO deleted_guilds (id) VALUES (0);

-- An id that is used again before its purge has ended starts empty: the rest goes at once.
CREATE TRIGGER guilds_reused BEFORE UPDATE ON guilds
WHEN EXISTS (SELECT 1 FROM deleted_guilds WHERE id = OLD.id)
BEGIN
    DELETE FROM members WHERE guild_id = OLD.id;
    DELETE FROM belongings WHERE guild_id = OLD.id;
    DELETE FROM roles WHERE guild_id = OLD.id;
    DELETE FROM deleted_guilds WHERE id = OLD.id;
END;
CREATE TRIGGER channels_reused BEFORE UPDATE OF guild_id ON channels
WHEN OLD.guild_id = 0 AND NEW.guild_id <> 0
BEGIN
    DELETE FROM messages WHERE channel_id = OLD.id;
END;

-- Nothing is put into what was deleted: as a foreign key would refuse it.
CREATE TRIGGER roles_of_deleted BEFORE INSERT ON roles
WHEN EXISTS (SELECT 1 FROM deleted_guilds WHERE id = NEW.guild_id)
BEGIN
    SELECT RAISE(ABORT, 'the guild is deleted');
END;
CREATE TRIGGER channels_of_deleted BEFORE INSERT ON channels
WHEN EXISTS (SELECT 1 FROM deleted_guilds WHERE id = NEW.guild_id)
BEGIN
    SELECT RAISE(ABORT, 'the guild is deleted');
END;
CREATE TRIGGER members_of_deleted BEFORE INSERT ON members
WHEN EXISTS (SELECT 1 FROM deleted_guilds WHERE id = NEW.guild_id)
BEGIN
    SELECT RAISE(ABORT, 'the guild is deleted');
END;
CREATE TRIGGER belongings_of_deleted BEFORE INSERT ON belongings
WHEN EXISTS (SELECT 1 FROM deleted_guilds WHERE id = NEW.guild_id)
BEGIN
    SELECT RAISE(ABORT, 'the guild is deleted');
END;
CREATE TRIGGER messages_of_deleted BEFORE INSERT ON messages
WHEN EXISTS (SELECT 1 FROM channels WHERE id = NEW.channel_id AND guild_id = 0)
BEGIN
    SELECT RAISE(ABORT, 'the channel is deleted');
END;
CREATE TRIGGER reactions_of_deleted BEFORE INSERT ON reactions
WHEN EXISTS (SELECT 1 FROM channels WHERE id = NEW.channel_id AND guild_id = 0)
BEGIN
    SELECT RAISE(ABORT, 'the channel is deleted');
END;
