-- The number of an account's changes so far: a change states the version that it was made of.
ALTER TABLE users ADD COLUMN version INTEGER NOT NULL DEFAULT 1;

-- The id of a channel belongs to one guild until the channel is deleted.
CREATE TRIGGER channels_of_one_guild BEFORE UPDATE OF guild_id ON channels
WHEN OLD.guild_id <> 0 AND NEW.guild_id <> 0 AND OLD.guild_id <> NEW.guild_id
    AND EXISTS (SELECT 1 FROM guilds WHERE id = NEW.guild_id)
BEGIN
    SELECT RAISE(ABORT, 'another guild has the channel');
END;
