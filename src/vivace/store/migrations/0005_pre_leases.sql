-- A gateway says for how long its heartbeat holds: others may be configured with less.

ALTER TABLE gateways ADD COLUMN dead_after float8;  -- seconds; null: of a version that does not say

CREATE INDEX orders_with_input ON orders (at) WHERE input IS NOT NULL;

-- As it was, but what is broken already is not walked again: all that follows it is broken, too.
-- Deleting a long conversation turn by turn would else walk the rest of it each time.

-- In rounds, because a turn that is being accepted holds its parent's row: the round that waits for
-- it does not see it, the next one does, which looks at what follows the rows of the one before.
CREATE OR REPLACE FUNCTION delete_turn(the_id text, the_owner text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    marked text[] := ARRAY[the_id];
BEGIN
    DELETE FROM turns WHERE id = the_id AND owner = the_owner;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    LOOP
        WITH RECURSIVE later AS (
            SELECT id FROM turns
            WHERE previous_id = ANY (marked) AND owner = the_owner AND NOT broken
            UNION
            SELECT turns.id FROM turns JOIN later ON turns.previous_id = later.id
            WHERE turns.owner = the_owner AND NOT turns.broken
        ), breaking AS (
            UPDATE turns SET broken = true
            WHERE NOT broken AND id IN (SELECT id FROM later) RETURNING id
        )
        SELECT array_agg(id) INTO marked FROM breaking;
        EXIT WHEN marked IS NULL;
    END LOOP;
    UPDATE orders SET input = NULL, reply = NULL, state = CASE
        WHEN state NOT IN ('asked', 'accepted', 'pending') THEN state
        WHEN kind = 'steer' THEN 'returned' ELSE 'done' END
    WHERE turn_id = the_id;
    RETURN true;
END $$;
