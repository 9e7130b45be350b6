"""Has gateways and nodes wait so many times longer for each other as ``CHAOS_SLOWER`` says: on a
machine that is busy they would take each other for dead.

It gets there as their ``sitecustomize`` (``chaos.processes``). What a configuration can say of this
is said there.
"""

from __future__ import annotations

import os

from vivace.engines import link_socket, remote

__all__: list[str] = []

_slower = float(os.environ.get("CHAOS_SLOWER", "1"))

link_socket.LinkSocket.__init__.__defaults__ = (link_socket.SILENCE * _slower,)
for _name in ("_REACHED_WITHIN", "_LINK_BROKEN", "_PATIENCE"):
    setattr(remote, _name, getattr(remote, _name) * _slower)
