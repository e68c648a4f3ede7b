-- The table of guild resources gets the name of its contents. SQLite changes the triggers that use it.
ALTER TABLE belongings RENAME TO guild_resources;
DROP INDEX belongings_by_id;
CREATE INDEX guild_resources_by_id ON guild_resources (kind, id);
DROP TRIGGER belongings_of_deleted;
CREATE TRIGGER guild_resources_of_deleted BEFORE INSERT ON guild_resources
WHEN EXISTS (SELECT 1 FROM deleted_guilds WHERE id = NEW.guild_id)
BEGIN
    SELECT RAISE(ABORT, 'the guild is deleted');
END;
