"""One core for one side and the others for the rest, of those that we may use.

Read once, at the start: a process that pins itself sees fewer afterwards.
"""

from __future__ import annotations

import os

_USABLE = sorted(os.sched_getaffinity(0))
FIRST_CORE, OTHER_CORES = {_USABLE[0]}, set(_USABLE[1:] or _USABLE)
