"""Small editing tasks with deterministic checkers, in Python, TypeScript, C and C++.

``HELD_OUT`` was written after prompts and checks were settled, and is never tuned on.
"""

from __future__ import annotations

from bench.edit_tasks import c_family, held_out, python, typescript
from bench.edit_tasks.task import Task, Verdict

__all__ = ["HELD_OUT", "TASKS", "Task", "Verdict"]

TASKS: tuple[Task, ...] = (*python.TASKS, *typescript.TASKS, *c_family.TASKS)
HELD_OUT: tuple[Task, ...] = held_out.TASKS
