"""Small editing tasks with deterministic checkers, in Python, TypeScript, C and C++.

``HELD_OUT`` was written by somebody who did not know the prompts and checks, after these had been
tuned on ``TASKS``: it shows how far that carries. Fix what it finds only by rules that hold
anywhere.
"""

from __future__ import annotations

from bench.edit_tasks import c_family, held_out, python, typescript
from bench.edit_tasks.task import Task, Verdict

__all__ = ["HELD_OUT", "TASKS", "Task", "Verdict"]

TASKS: tuple[Task, ...] = (*python.TASKS, *typescript.TASKS, *c_family.TASKS)
HELD_OUT: tuple[Task, ...] = held_out.TASKS
