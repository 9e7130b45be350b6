-- Orders to turns that another gateway holds: asked by one, decided about by the other.

ALTER TABLE orders ADD COLUMN at_item_end boolean NOT NULL DEFAULT false;
ALTER TABLE orders ADD COLUMN reply bytea;  -- what the holder said; empty until then, null if nobody asked
CREATE INDEX orders_asked ON orders (at) WHERE state = 'asked';

-- As they were, but what was asked of a turn is closed with it, too.

-- A function, because one statement has one snapshot. An order that is being written when its turn
-- ends holds the turn's row; the first statement here waits for it, and the ones after it see it.
CREATE OR REPLACE FUNCTION end_turn(
    the_id text, the_epoch int, the_op uuid, the_status text, the_response bytea, the_cuts bytea,
    the_tokens bigint, pending text[],
    next_id text, next_holder text, next_engine text, next_request bytea, next_input bytea,
    next_created_at timestamptz, next_background boolean, steers text[],
    OUT is_ended boolean, OUT returned text[]
) LANGUAGE plpgsql AS $$
DECLARE
    the_owner text;
    the_root text;
BEGIN
    UPDATE turns
    SET status = the_status, response = the_response, cuts = the_cuts, tokens = the_tokens,
        end_op = the_op, ended_at = clock_timestamp(), holder = NULL, parked_until = NULL, said = NULL
    WHERE id = the_id AND epoch = the_epoch AND status IS NULL
    RETURNING owner, root_id INTO the_owner, the_root;
    is_ended := FOUND;
    IF is_ended THEN
        IF next_id IS NOT NULL THEN
            UPDATE orders SET state = 'applied', applied_by = next_id
            WHERE id = ANY (steers) AND turn_id = the_id AND state IN ('accepted', 'pending');
            IF (SELECT count(*) FROM orders WHERE id = ANY (steers) AND applied_by = next_id)
                <> cardinality(steers) THEN
                RAISE EXCEPTION 'a steer is not open any more' USING ERRCODE = 'VV001';
            END IF;
            INSERT INTO turns (id, owner, previous_id, root_id, holder, engine, request, input,
                               created_at, background)
            VALUES (next_id, the_owner, the_id, the_root, next_holder, next_engine, next_request,
                    next_input, next_created_at, next_background);
        END IF;
        UPDATE orders SET state = CASE
            WHEN id = ANY (pending) THEN 'pending' WHEN kind = 'steer' THEN 'returned' ELSE 'done' END
        WHERE turn_id = the_id AND state IN ('asked', 'accepted', 'pending');
    ELSE
        is_ended := EXISTS (SELECT FROM turns WHERE id = the_id AND end_op = the_op);
    END IF;
    returned := ARRAY(
        SELECT id FROM orders WHERE turn_id = the_id AND state = 'returned' ORDER BY id);
END $$;

-- In rounds, because a turn that is being accepted holds its parent's row: the round that waits for
-- it does not see it, the next one does.
CREATE OR REPLACE FUNCTION delete_turn(the_id text, the_owner text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM turns WHERE id = the_id AND owner = the_owner;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    LOOP
        UPDATE turns SET broken = true WHERE NOT broken AND id IN (
            WITH RECURSIVE later AS (
                SELECT id FROM turns WHERE previous_id = the_id AND owner = the_owner
                UNION
                SELECT turns.id FROM turns JOIN later ON turns.previous_id = later.id
                WHERE turns.owner = the_owner
            )
            SELECT id FROM later
        );
        EXIT WHEN NOT FOUND;
    END LOOP;
    UPDATE orders SET input = NULL, reply = NULL, state = CASE
        WHEN state NOT IN ('asked', 'accepted', 'pending') THEN state
        WHEN kind = 'steer' THEN 'returned' ELSE 'done' END
    WHERE turn_id = the_id;
    RETURN true;
END $$;
