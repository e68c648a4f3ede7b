-- How long messages are kept in a guild or channel, where it differs from the setting. 0: for ever.
-- `id` is that of the guild or channel: ids are unique over both.
CREATE TABLE retention (
    id INTEGER PRIMARY KEY,
    keep_days INTEGER NOT NULL
) STRICT;
CREATE TRIGGER retention_of_purged_guild AFTER DELETE ON guilds
BEGIN
    DELETE FROM retention WHERE id = OLD.id;
END;
CREATE TRIGGER retention_of_purged_channel AFTER DELETE ON channels
BEGIN
    DELETE FROM retention WHERE id = OLD.id;
END;
-- An id that is used again starts without one.
CREATE TRIGGER retention_of_reused_guild AFTER DELETE ON deleted_guilds
BEGIN
    DELETE FROM retention WHERE id = OLD.id;
END;
CREATE TRIGGER retention_of_reused_channel AFTER UPDATE OF guild_id ON channels
WHEN OLD.guild_id = 0 AND NEW.guild_id <> 0
BEGIN
    DELETE FROM retention WHERE id = OLD.id;
END;
