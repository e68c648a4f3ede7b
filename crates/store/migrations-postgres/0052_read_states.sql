-- How far accounts have read their channels. 0: none (`last_message_id`, `last_pin`, `last_viewed`).
CREATE TABLE read_states (
    user_id BIGINT NOT NULL,
    channel_id BIGINT NOT NULL,
    last_message_id BIGINT NOT NULL,
    last_pin BIGINT NOT NULL, -- Unix milliseconds
    flags BIGINT NOT NULL,
    last_viewed BIGINT NOT NULL, -- days since 2015-01-01
    PRIMARY KEY (user_id, channel_id)
);

-- Direct messages count as read until now. Messages from before have no row in `mentions`.
INSERT INTO read_states (user_id, channel_id, last_message_id, last_pin, flags, last_viewed)
    SELECT members.user_id, directs.id, newest.id, 0, 0, 0 FROM directs
    JOIN members ON members.guild_id = directs.id
    CROSS JOIN LATERAL (SELECT id FROM messages WHERE channel_id = directs.id ORDER BY id DESC LIMIT 1) AS newest;

-- Applies changes in order. A negative value leaves the column as it is. A message replaces an older one, or any one
-- (`sets`); `resets` forgets the state first.
CREATE FUNCTION guildhall_change_read_states_1(
    users BIGINT[],
    channels BIGINT[],
    resets BOOLEAN[],
    last_messages BIGINT[],
    sets BOOLEAN[],
    pins BIGINT[],
    new_flags BIGINT[],
    views BIGINT[]
) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    w RECORD;
BEGIN
    FOR w IN
        SELECT * FROM unnest(users, channels, resets, last_messages, sets, pins, new_flags, views) WITH ORDINALITY
            AS t (user_id, channel_id, is_reset, message_id, is_set, pin, flags, viewed, n)
        ORDER BY n
    LOOP
        IF w.is_reset THEN
            DELETE FROM read_states AS r WHERE r.user_id = w.user_id AND r.channel_id = w.channel_id;
        END IF;
        IF w.message_id >= 0 OR w.pin >= 0 OR w.flags >= 0 OR w.viewed >= 0 THEN
            INSERT INTO read_states AS r (user_id, channel_id, last_message_id, last_pin, flags, last_viewed)
                VALUES (w.user_id, w.channel_id, GREATEST(w.message_id, 0), GREATEST(w.pin, 0), GREATEST(w.flags, 0),
                    GREATEST(w.viewed, 0))
                ON CONFLICT (user_id, channel_id) DO UPDATE SET
                    last_message_id = CASE WHEN w.is_set THEN w.message_id
                        ELSE GREATEST(r.last_message_id, w.message_id) END,
                    last_pin = GREATEST(r.last_pin, w.pin),
                    flags = CASE WHEN w.flags < 0 THEN r.flags ELSE w.flags END,
                    last_viewed = CASE WHEN w.viewed < 0 THEN r.last_viewed ELSE w.viewed END;
        END IF;
    END LOOP;
END;
$$;

-- Which message mentions which account (kind 0; bots are left out) or role (1; the role @everyone has the id of its guild).
CREATE TABLE mentions (
    kind BIGINT NOT NULL,
    target_id BIGINT NOT NULL,
    channel_id BIGINT NOT NULL,
    message_id BIGINT NOT NULL,
    author_id BIGINT NOT NULL,
    PRIMARY KEY (kind, target_id, channel_id, message_id),
    FOREIGN KEY (channel_id, message_id) REFERENCES messages (channel_id, id) ON DELETE CASCADE
);
CREATE INDEX mentions_by_message ON mentions (channel_id, message_id);

-- A trigger, so that messages of nodes of earlier releases have rows too.
CREATE FUNCTION guildhall_index_mentions_1() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    message JSONB;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.data = NEW.data THEN
            RETURN NULL;
        END IF;
        IF position('"mention' IN OLD.data) > 0 THEN
            DELETE FROM mentions WHERE channel_id = NEW.channel_id AND message_id = NEW.id;
        END IF;
    END IF;
    -- A message mentions accounts, roles or everyone only with one of these keys.
    IF position('"mention' IN NEW.data) > 0 THEN
        message := NEW.data::JSONB;
        INSERT INTO mentions (kind, target_id, channel_id, message_id, author_id)
            SELECT 0, (m ->> 'id')::BIGINT, NEW.channel_id, NEW.id, NEW.author_id
                FROM jsonb_array_elements(COALESCE(message -> 'mentions', '[]')) AS t (m)
                WHERE m -> 'bot' IS DISTINCT FROM 'true'::JSONB
            UNION SELECT 1, r::BIGINT, NEW.channel_id, NEW.id, NEW.author_id
                FROM jsonb_array_elements_text(COALESCE(message -> 'mention_roles', '[]')) AS t (r)
            UNION SELECT 1, NEW.guild_id, NEW.channel_id, NEW.id, NEW.author_id
                WHERE message -> 'mention_everyone' = 'true'::JSONB
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END;
$$;
CREATE TRIGGER mentions_of_messages AFTER INSERT OR UPDATE OF data ON messages FOR EACH ROW
    EXECUTE FUNCTION guildhall_index_mentions_1();
