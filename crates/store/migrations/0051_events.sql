-- The feed of backends: what happened in guilds, in the order of commits. `seq` is the position; `guild_id` is 0 for direct
-- messages, `channel_id` 0 for what is about no channel; `data` is the event's body as JSON text.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    guild_id INTEGER NOT NULL,
    channel_id INTEGER NOT NULL,
    data TEXT NOT NULL
) STRICT;
-- One row: the newest event that was removed. Positions continue above it.
CREATE TABLE events_pruned (seq INTEGER NOT NULL) STRICT;
INSERT INTO events_pruned (seq) VALUES (0);
