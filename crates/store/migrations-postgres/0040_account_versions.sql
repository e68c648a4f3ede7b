-- The number of an account's changes so far: a change states the version that it was made of. A trigger counts, so that
-- nodes of earlier releases do it too.
ALTER TABLE users ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
CREATE FUNCTION guildhall_count_change_1() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := OLD.version + 1;
    RETURN NEW;
END;
$$;
CREATE TRIGGER users_version BEFORE UPDATE ON users FOR EACH ROW EXECUTE FUNCTION guildhall_count_change_1();

-- The id of a channel belongs to one guild until the channel is deleted.
CREATE FUNCTION guildhall_keep_channel_1() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    -- A guild that does not exist is the fault of the foreign key.
    IF EXISTS (SELECT 1 FROM guilds WHERE id = NEW.guild_id) THEN
        RAISE unique_violation USING TABLE = 'channels';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER channels_of_one_guild BEFORE UPDATE OF guild_id ON channels FOR EACH ROW
    WHEN (OLD.guild_id <> 0 AND NEW.guild_id <> 0 AND OLD.guild_id <> NEW.guild_id)
    EXECUTE FUNCTION guildhall_keep_channel_1();
