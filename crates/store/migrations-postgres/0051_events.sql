-- The feed of backends: what happened in guilds, in the order of commits. `seq` is the position; `guild_id` is 0 for direct
-- messages, `channel_id` 0 for what is about no channel; `data` is the event's body as JSON text. `id` is random: a
-- transaction with an unknown outcome may be applied again, and must not write an event twice.
CREATE TABLE events (
    seq BIGINT PRIMARY KEY,
    id BIGINT NOT NULL UNIQUE,
    at BIGINT NOT NULL,
    kind BIGINT NOT NULL,
    guild_id BIGINT NOT NULL,
    channel_id BIGINT NOT NULL,
    data TEXT NOT NULL
);
-- One row: the newest event that was removed. Positions continue above it.
CREATE TABLE events_pruned (seq BIGINT NOT NULL);
INSERT INTO events_pruned (seq) VALUES (0);

-- Appends events. The lock is held until the transaction has ended, so that positions become visible in their order: a
-- sequence would let a reader pass a position whose transaction commits later. The caller makes it the last statement of
-- its transaction, which waits for no other lock then.
CREATE FUNCTION guildhall_put_events_1(
    ids BIGINT[],
    kinds BIGINT[],
    guild_ids BIGINT[],
    channel_ids BIGINT[],
    datas TEXT[]
) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    newest BIGINT;
    now_ms BIGINT;
BEGIN
    PERFORM pg_advisory_xact_lock(51, 0);
    SELECT GREATEST(COALESCE((SELECT MAX(e.seq) FROM events AS e), 0), p.seq) INTO newest FROM events_pruned AS p;
    now_ms := (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT;
    INSERT INTO events (seq, id, at, kind, guild_id, channel_id, data)
        SELECT newest + t.n, t.id, now_ms, t.kind, t.guild_id, t.channel_id, t.data
        FROM unnest(ids, kinds, guild_ids, channel_ids, datas) WITH ORDINALITY
            AS t (id, kind, guild_id, channel_id, data, n)
        ON CONFLICT (id) DO NOTHING;
END;
$$;
