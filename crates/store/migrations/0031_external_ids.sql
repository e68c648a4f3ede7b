-- Ids that backends give to accounts (kind 0), guilds (1) and channels (2). Clients never see them.
CREATE TABLE external_ids (
    kind INTEGER NOT NULL,
    external_id TEXT NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (kind, external_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX external_ids_by_id ON external_ids (kind, id);

-- What is deleted (`0027_deleted.sql`) releases its external id.
CREATE TRIGGER external_ids_of_guilds AFTER INSERT ON deleted_guilds
BEGIN
    DELETE FROM external_ids WHERE kind = 1 AND id = NEW.id;
END;
CREATE TRIGGER external_ids_of_channels AFTER UPDATE OF guild_id ON channels
WHEN NEW.guild_id = 0
BEGIN
    DELETE FROM external_ids WHERE kind = 2 AND id = OLD.id;
END;
