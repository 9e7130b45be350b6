"""What PostgreSQL is asked: each write of a turn is one statement, so none is ever half done."""

from __future__ import annotations

__all__ = [
    "ACCEPT",
    "ASKED_OF",
    "ATTEMPT",
    "BEAT",
    "CHAIN",
    "CLAIM",
    "COMPANY",
    "CONTINUED",
    "DELETE",
    "END",
    "FIND",
    "FIND_ORDER",
    "HELD",
    "KEY",
    "LEAVE",
    "LOAD",
    "MARK",
    "OPEN_ORDERS",
    "OPEN_TURNS",
    "ORDER",
    "ORPHANS",
    "PARENT",
    "PARK",
    "REPLY",
    "RESPONSE",
    "SAVE",
    "STAT",
    "TAKE",
    "TIDY",
    "WEIGHT",
    "WITHDRAW",
]

_OPEN = "('accepted', 'pending')"
_UNDONE = "('asked', 'accepted', 'pending')"

# A gateway counts as gone when it was not heard of for as long as it says itself, or for as long as
# the gateway that looks was configured with, if that is longer: until then it still speaks.
_LEASE = "make_interval(secs => greatest({0}::float8, coalesce(dead_after, 0)))"

_STORED = (
    "{0}id, {0}owner, {0}previous_id, extract(epoch FROM {0}created_at)::bigint AS created_at, "
    "{0}tokens, {0}input, {0}response"
)
_RECORD = (
    "id, owner, previous_id, root_id, epoch, attempt, holder, engine, said, request, input, "
    "status, coalesce(response, '') AS response, cuts, tokens, background, broken, "
    "extract(epoch FROM parked_until)::float8 AS parked_until, "
    "extract(epoch FROM created_at)::bigint AS created_at"
)
_ORDER = (
    "{0}id, {0}turn_id, {0}owner, {0}kind, {0}input, {0}state, {0}applied_by, {0}at_item_end, "
    "{0}reply"
)

# A key that is known inserts nothing, one that has expired is replaced; either way no other
# statement can come between the key and what is recorded under it.
_KEPT_KEY = """
    INSERT INTO once AS known (owner, key, turn_id, request_hash, until)
    SELECT {owner}, {key}::text, {id}, {hash}::bytea,
           clock_timestamp() + make_interval(secs => {seconds}::float8)
    FROM allowed WHERE {key}::text IS NOT NULL
    ON CONFLICT (owner, key) DO UPDATE
    SET turn_id = excluded.turn_id, request_hash = excluded.request_hash, until = excluded.until
    WHERE known.until <= clock_timestamp()
    RETURNING turn_id
"""

ACCEPT = f"""
WITH parent AS (
    SELECT root_id FROM turns
    WHERE id = $3 AND owner = $2 AND status IS NOT NULL AND NOT broken FOR SHARE
), steers AS (
    SELECT id FROM orders WHERE id = ANY ($10::text[]) AND turn_id = $3 AND state IN {_OPEN}
    FOR UPDATE
), allowed AS (
    SELECT coalesce((SELECT root_id FROM parent), $1) AS root_id
    WHERE ($3::text IS NULL OR EXISTS (SELECT FROM parent))
    AND (SELECT count(*) FROM steers) = cardinality($10::text[])
), kept AS (
    {_KEPT_KEY.format(owner="$2", id="$1", key="$11", hash="$12", seconds="$13")}
), turn AS (
    INSERT INTO turns (id, owner, previous_id, root_id, holder, engine, request, input, created_at,
                       background)
    SELECT $1, $2, $3, root_id, $4, $5, $6, $7, to_timestamp($8::float8), $9
    FROM allowed WHERE $11::text IS NULL OR EXISTS (SELECT FROM kept)
    ON CONFLICT (id) DO NOTHING
    RETURNING id
), told AS (
    UPDATE orders SET state = 'applied', applied_by = turn.id
    FROM turn WHERE orders.id IN (SELECT id FROM steers)
)
SELECT id FROM turn
"""  # noqa: S608 - all of it stands in this module

KEY = """
SELECT turn_id, request_hash FROM once
WHERE owner = $1 AND key = $2 AND until > clock_timestamp()
"""

PARENT = "SELECT status, broken FROM turns WHERE id = $1 AND owner = $2"

ATTEMPT = """
UPDATE turns SET attempt = $3, engine = $4, said = $5
WHERE id = $1 AND epoch = $2 AND status IS NULL AND attempt <= $3
RETURNING id
"""

LEAVE = """
UPDATE turns SET said = $3
WHERE id = $1 AND epoch = $2 + 1 AND status IS NULL AND coalesce(length(said), 0) = 0
RETURNING id
"""

PARK = """
UPDATE turns SET parked_until = clock_timestamp() + make_interval(secs => $3::float8)
WHERE id = $1 AND epoch = $2 AND status IS NULL
RETURNING id
"""

END = """
SELECT is_ended, returned FROM end_turn(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, to_timestamp($14::float8), $15, $16)
"""

# A holder that beats at this very moment either keeps the turn, or has beaten after it was taken.
TAKE = f"""
WITH held AS (
    SELECT seen, dead_after FROM gateways
    WHERE gateways.id = (SELECT holder FROM turns WHERE turns.id = $1) AND gateways.id <> $3
    FOR SHARE
)
UPDATE turns SET epoch = epoch + 1, holder = $3
WHERE id = $1 AND epoch = $2 AND status IS NULL
AND ($4::float8 = 0 OR NOT EXISTS (
    SELECT FROM held WHERE seen >= clock_timestamp() - {_LEASE.format("$4")}))
RETURNING id
"""  # noqa: S608

ORPHANS = f"""
SELECT turns.id, owner, epoch, background,
       extract(epoch FROM parked_until)::float8 AS parked_until
FROM turns LEFT JOIN gateways ON gateways.id = turns.holder
WHERE status IS NULL AND holder IS DISTINCT FROM $1 AND turns.id <> ALL ($4::text[])
AND (seen IS NULL OR seen < clock_timestamp() - {_LEASE.format("$2")})
LIMIT $3
"""  # noqa: S608

# The only write whose loss costs nothing but time: nobody waits for the disk.
#
# Where the database's clock was set back, heartbeats lie in the future. A gateway that lives beats
# again in a moment; one that died before would count as alive until the clock has come there, and
# its turns would not be taken over. So such a heartbeat is made to be of now.
BEAT = """
WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
ahead AS (
    UPDATE gateways SET seen = clock_timestamp() WHERE id IN (
        SELECT id FROM gateways
        WHERE id <> $1 AND seen > clock_timestamp() + interval '10 seconds'
        FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO gateways (id, seen, version, dead_after) SELECT $1, clock_timestamp(), '', $2 FROM quick
ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, dead_after = excluded.dead_after
"""

OPEN_ORDERS = f"""
SELECT {_ORDER.format("")} FROM orders WHERE turn_id = ANY ($1::text[]) AND state IN {_UNDONE}
ORDER BY at
"""  # noqa: S608

HELD = "SELECT id, epoch FROM turns WHERE holder = $1 AND status IS NULL"

COMPANY = f"""
SELECT count(*) FROM gateways
WHERE id <> $1 AND seen > clock_timestamp() - {_LEASE.format("$2")}
"""  # noqa: S608

OPEN_TURNS = """
WITH RECURSIVE line AS (
    SELECT $1::text COLLATE "C" AS id
    UNION
    SELECT orders.applied_by FROM line JOIN orders ON orders.turn_id = line.id
    WHERE orders.owner = $2 AND orders.state = 'applied'
)
SELECT turns.id, turns.owner, epoch, holder, background, request,
       extract(epoch FROM clock_timestamp() - seen)::float8 AS silent,
       coalesce(dead_after, 0) AS dead_after
FROM line JOIN turns ON turns.id = line.id LEFT JOIN gateways ON gateways.id = turns.holder
WHERE turns.owner = $2 AND status IS NULL
"""

CONTINUED = """
SELECT id FROM turns WHERE id = $1 AND owner = $2 AND status IS NOT NULL AND NOT broken
"""

# There are few of them at any time, so these are found first.
ASKED_OF = f"""
WITH asked AS MATERIALIZED (SELECT {_ORDER.format("")}, at FROM orders WHERE state = 'asked')
SELECT {_ORDER.format("asked.")}
FROM asked JOIN turns ON turns.id = asked.turn_id
WHERE turns.holder = $1 AND turns.status IS NULL
ORDER BY asked.at
"""  # noqa: S608

CLAIM = """
WITH mine AS (
    SELECT turns.id FROM turns
    WHERE turns.id = (SELECT turn_id FROM orders WHERE orders.id = $1)
    AND holder = $3 AND status IS NULL FOR SHARE
)
UPDATE orders SET state = 'accepted' FROM mine
WHERE orders.id = $1 AND owner = $2 AND state = 'asked' AND turn_id = mine.id
"""

WITHDRAW = """
UPDATE orders SET state = CASE kind WHEN 'steer' THEN 'returned' ELSE 'done' END
WHERE id = $1 AND owner = $2 AND state = 'asked'
"""

REPLY = """
UPDATE orders SET reply = $3,
    state = CASE WHEN state IN ('asked', 'accepted') THEN coalesce($4, state) ELSE state END
WHERE id = $1 AND owner = $2 AND coalesce(length(reply), 0) = 0
"""

ORDER = f"""
WITH allowed AS (
    SELECT id FROM turns WHERE id = $2 AND owner = $3 AND status IS NULL
    AND epoch = coalesce($12, epoch) FOR SHARE
), kept AS (
    {_KEPT_KEY.format(owner="$3", id="$1", key="$7", hash="$8", seconds="$9")}
)
INSERT INTO orders (id, turn_id, owner, kind, input, state, at_item_end, reply)
SELECT $1, $2, $3, $4, $5, $6, $10, $11
FROM allowed WHERE $7::text IS NULL OR EXISTS (SELECT FROM kept)
ON CONFLICT (id) DO NOTHING
RETURNING id
"""  # noqa: S608

MARK = f"""
UPDATE orders SET state = $3 WHERE id = $1 AND owner = $2 AND state IN {_OPEN}
"""  # noqa: S608

FIND_ORDER = f"SELECT {_ORDER.format('')} FROM orders WHERE id = $1 AND owner = $2"  # noqa: S608

SAVE = """
INSERT INTO turns (id, owner, previous_id, root_id, created_at, tokens, input, response, status,
                   ended_at)
SELECT $1, $2, $3, coalesce((SELECT root_id FROM turns WHERE id = $3 AND owner = $2), $1),
       to_timestamp($4::float8), $5, $6, $7, $8, clock_timestamp()
ON CONFLICT (id) DO UPDATE
SET previous_id = excluded.previous_id, root_id = excluded.root_id, tokens = excluded.tokens,
    created_at = excluded.created_at, input = excluded.input, response = excluded.response,
    status = excluded.status, ended_at = excluded.ended_at, holder = NULL, said = NULL
WHERE turns.owner = excluded.owner
"""

FIND = f"SELECT {_RECORD} FROM turns WHERE id = $1 AND ($2::text IS NULL OR owner = $2)"  # noqa: S608

STAT = """
SELECT status, length(input) AS input_bytes, coalesce(length(response), 0) AS response_bytes,
       length(cuts) AS cuts_bytes
FROM turns WHERE id = $1 AND owner = $2
"""

RESPONSE = """
SELECT status, response, cuts FROM turns WHERE id = $1 AND owner = $2 AND status IS NOT NULL
"""

LOAD = f"""
SELECT {_STORED.format("")} FROM turns WHERE id = $1 AND owner = $2 AND status IS NOT NULL
"""  # noqa: S608

CHAIN = f"""
WITH RECURSIVE chain AS (
    SELECT 0 AS depth, {_STORED.format("")}
    FROM turns WHERE id = $1 AND owner = $2 AND status IS NOT NULL
    UNION ALL
    SELECT chain.depth + 1, {_STORED.format("turns.")}
    FROM chain JOIN turns ON turns.id = chain.previous_id AND turns.owner = chain.owner
    WHERE turns.status IS NOT NULL
)
SELECT id, owner, previous_id, created_at, tokens, input, response FROM chain ORDER BY depth DESC
"""  # noqa: S608

WEIGHT = """
WITH RECURSIVE chain AS (
    SELECT owner, previous_id, length(input) + coalesce(length(response), 0) AS size
    FROM turns WHERE id = $1 AND owner = $2
    UNION ALL
    SELECT turns.owner, turns.previous_id, length(turns.input) + coalesce(length(turns.response), 0)
    FROM chain JOIN turns ON turns.id = chain.previous_id AND turns.owner = chain.owner
)
SELECT coalesce(sum(size), 0)::bigint FROM chain
"""

DELETE = "SELECT delete_turn($1, $2)"

TIDY = (
    "DELETE FROM once WHERE until <= clock_timestamp()",
    # Only an order that its turn has yet to carry out is read again. The words of the others would
    # stay for as long as turns do, and no limit counts them.
    """
    UPDATE orders SET input = NULL, reply = CASE WHEN length(reply) <= 4096 THEN reply END
    WHERE input IS NOT NULL AND state NOT IN ('asked', 'accepted')
    AND at < clock_timestamp() - interval '1 minute'
    """,
    f"""
    DELETE FROM orders WHERE at < clock_timestamp() - make_interval(secs => $1::float8)
    AND (state NOT IN {_UNDONE} OR NOT EXISTS (SELECT FROM turns WHERE turns.id = orders.turn_id))
    """,  # noqa: S608
    """
    DELETE FROM gateways WHERE seen < clock_timestamp() - interval '1 day'
    AND NOT EXISTS (SELECT FROM turns WHERE holder = gateways.id AND status IS NULL)
    """,
)
