"""What clients and faults may do to a gateway, on record, and what must hold of the record.

::

    workload ─► clients ─► gateway          a round: many clients do random things
                   │
    sessions ──────┤                        a run: clients that come back,
    faults ────────┤ ◄─ processes           and something is killed among them
                   │
                history ─► story ─► invariants ─► violations ─► verdict

``history.py`` is the record: what clients sent and saw, what faults struck, what engines did and
what the tables hold at the end, as JSON lines. ``invariants/`` is the only place that says what
must hold; it is pure, knows no gateway, and is tested by histories that are wrong
(``tests/chaos``). ``verdict.py`` says whether all held, something is broken, or that cannot be
said. ``stage.py`` says what a fault is and ``faults.py`` has all of them; those of the moments when
something goes on record are ``barriers.py``'s, and strike inside the gateway by ``point_hooks.py``.
``fuzz.py`` runs rounds against ``vivace serve``, ``soak.py`` keeps up mixed traffic and
watches what the process holds on to, ``run.py`` makes runs with faults: ``scripts/fuzz``,
``scripts/soak`` and ``scripts/chaos``. ``fleet/`` does the same to several gateways with their
engine nodes, and ``simulation/`` in made-up time.
"""
