"""What clients may do to a gateway all at once, on record, and what must hold of the record.

::

    workload ─► clients ─► gateway          a round: many clients do random things
                   │
                history ─► story ─► invariants ─► violations

``history.py`` is the record: what clients sent and saw, as JSON lines. ``invariants.py`` is the
only place that says what must hold; it is pure, knows no gateway, and is tested by histories that
are wrong (``tests/chaos``). ``fuzz.py`` runs rounds against ``vivace serve``, ``soak.py`` keeps up
mixed traffic and watches what the process holds on to: ``scripts/fuzz`` and ``scripts/soak``.
"""
