"""Two gateways, two engine nodes, PostgreSQL with a standby, Valkey and a balancer, all of them
real processes, and everything done to them on purpose: ``scripts/chaos fleet``.

::

                    ┌─► gateway-1 ─┬─~─► node-a          ~ a way of ours (tests.support.proxy):
    clients ─► haproxy             ├─~─► node-b            cut, delayed, held back, one way, too
        └───────────┴─► gateway-2 ─┼─~─► PostgreSQL ══► its standby
                                   └─~─► Valkey

Clients, history and invariants are those of one node (``chaos``). ``services.py`` has what is not
ours, ``cell.py`` puts all together and knows who has which turn, ``stage.py`` says what a fault
is, ``gateway_faults.py``, ``node_faults.py`` and ``service_faults.py`` have them, ``clocks.py``
sets clocks, ``times.py`` has how long all wait, ``run.py`` is one run, ``recovery.py`` how long
answers paused, ``table.py`` what many runs come to, ``page.py`` that as a page, ``defects.py``
faults of ours that must be found, ``picture.py`` draws one answer.
"""
