"""Real clients at work, and a gateway killed under them again and again: ``scripts/chaos loops``.

::

    OpenAI's SDK ─┐             ┌─► gateway-1 ─┐
                  ├─► haproxy ──┤              ├─► node-a, node-b, PostgreSQL, Valkey
    Codex CLI ────┘             └─► gateway-2 ─┘

A loop is a task of twenty turns: the answer calls a tool, its output is the next question, the last
answer ends it. Every fifth turn loses its gateway while it is answered. The fleet is that of
``chaos.fleet``. ``script.py`` has what engines play, ``sdk.py`` and ``codex.py`` the clients,
``killing.py`` who kills, ``counting.py`` which turn is under way and which were run twice,
``run.py`` is one loop, ``table.py`` what they come to.
"""
