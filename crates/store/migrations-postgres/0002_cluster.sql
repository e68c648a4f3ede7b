-- A database that several nodes of a cluster write to. Each guild has an epoch of its own (scope: the guild's id), and the
-- nodes of a cluster share the epoch of scope 0.

-- The epoch of scope 0 that belongs to a cluster. Any other epoch belongs to a node that runs alone.
CREATE TABLE cluster (
    epoch BIGINT PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL
);

-- Returns the epoch that the nodes of a cluster share. Raises it if it belongs to another cluster, or to a node that runs
-- alone: their transactions fail from now on.
CREATE FUNCTION guildhall_join_1(cluster_name TEXT) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    joined BIGINT;
BEGIN
    -- Without the lock first, because it waits for the transactions of all nodes.
    FOR attempt IN 1..2 LOOP
        SELECT c.epoch INTO joined FROM cluster AS c JOIN epochs AS e ON e.scope = 0 AND e.epoch = c.epoch
            WHERE c.name = cluster_name;
        IF joined IS NOT NULL THEN
            RETURN joined;
        END IF;
        PERFORM pg_advisory_xact_lock(-1);
    END LOOP;
    joined := guildhall_claim_1(0);
    DELETE FROM cluster;
    INSERT INTO cluster (epoch, name) VALUES (joined, cluster_name);
    RETURN joined;
END;
$$;

-- Raises the epoch of a guild and returns it, if the epoch of the database is the current one. Waits for transactions that
-- stated the guild's earlier epoch; for at most five seconds, then it fails with 55P03.
CREATE FUNCTION guildhall_claim_guild_1(fenced_scope BIGINT, wanted BIGINT, guild_id BIGINT) RETURNS BIGINT
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', TRUE);
    PERFORM guildhall_fence_1(fenced_scope, wanted);
    RETURN guildhall_claim_1(guild_id);
END;
$$;

-- Fails with GH002 unless each guild's epoch is the current one; the detail lists the others as `guild:epoch,…`. Until the
-- transaction ends, claims of these guilds wait. Locks are taken in the order of ids, so that two transactions never wait
-- for each other.
CREATE FUNCTION guildhall_fence_guilds_1(guild_ids BIGINT[], wanted BIGINT[]) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    guild_id BIGINT;
    stale TEXT;
BEGIN
    FOR guild_id IN SELECT DISTINCT g FROM unnest(guild_ids) AS t (g) ORDER BY g LOOP
        PERFORM pg_advisory_xact_lock_shared(-1 - guild_id);
    END LOOP;
    SELECT string_agg(f.g || ':' || f.e, ',') INTO stale
        FROM unnest(guild_ids, wanted) AS f (g, e) LEFT JOIN epochs ON epochs.scope = f.g
        WHERE epochs.epoch IS DISTINCT FROM f.e;
    IF stale IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'GH002', MESSAGE = 'another node has claimed the guild', DETAIL = stale;
    END IF;
END;
$$;

-- As `guildhall_apply_1`, for writes of guilds with these epochs.
CREATE FUNCTION guildhall_apply_2(
    fenced_scope BIGINT,
    wanted BIGINT,
    guild_ids BIGINT[],
    guild_epochs BIGINT[],
    ops SMALLINT[],
    as_ BIGINT[],
    bs BIGINT[],
    cs BIGINT[],
    ds BIGINT[],
    names BYTEA[],
    datas TEXT[]
) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM guildhall_fence_1(fenced_scope, wanted);
    PERFORM guildhall_fence_guilds_1(guild_ids, guild_epochs);
    PERFORM guildhall_apply_1(fenced_scope, wanted, ops, as_, bs, cs, ds, names, datas);
END;
$$;
