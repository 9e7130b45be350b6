"""Gateways as they ship, in made-up time: a seed decides what clients do, how long every message
takes, and when a gateway dies; the history that this makes is judged as that of a real run.

::

    play ─► Machine ─► vivace.gateway.app.Gateway ─► store, journal, engines
     │         │                 ▲
     │         └─ Life: dies, is frozen, is started again
     └─► clients ─► wires ───────┘             all of it on a VirtualLoop

What is replaced: the sockets (``wires.py``), the threads of the store (``store.py``), the clock and
what is random (``world.py``). All else is shipped code: connections, sessions, turns, the keeper,
recovery, SQLite's statements, the journal and its files, scripted engines. There is one gateway
with a journal that is started again, or two on one store without. ``defects.py`` puts faults into
the shipped code by name, which must be found.
"""
